#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# How the recipe of OFED runs its configure: the quick way (containers/feature-tests) has to give what the kernel's
# own build gives. Kernel, kbuild and OFED are doubles, the compiler is real.

load helpers

setup() {
    krel=6.1.0-1-amd64
    recipes=$BATS_TEST_DIRNAME/../../containers/recipes
    kernel=$BATS_TEST_TMPDIR/kernel/lib/modules/$krel/build
    source=$BATS_TEST_TMPDIR/source
    make_kernel
    make_source
}

# Its build does what kbuild does of a test: compiles with a command that it notes, in its own folder and environment.
make_kernel() {
    mkdir -p "$kernel"/include/{linux,generated}
    echo "#define UTS_RELEASE \"$krel\"" >"$kernel/include/generated/utsrelease.h"
    touch "$kernel/Module.symvers" "$kernel/.config"
    {
        echo '#define CORE 1'
        for ((i = 0; i < 40; i += 2)); do echo "void core_$i(void);"; done
    } >"$kernel/include/linux/kernel.h"
    {
        echo 'struct list {'
        for ((i = 0; i < 40; i += 3)); do echo "int member_$i;"; done
        printf '#ifdef MEMBER\nint MEMBER;\n#endif\n};\n'
    } >"$kernel/include/linux/list.h"
    for ((i = 0; i < 40; i += 5)); do echo "static inline int deep_$i(int a) { return a; }"; done >"$kernel/include/linux/deep.h"
    echo '#error "not for this kernel"' >"$kernel/include/linux/error.h"
    # A word of configure's own that a header asks for.
    printf '#ifdef HAVE_EXPORTED\nvoid seen(void);\n#endif\n' >"$kernel/include/linux/seen.h"
    cat >"$kernel/Makefile" <<'END'
FLAGS := -Iinclude -O2 -g -Wall -Werror=implicit-function-declaration
export EXPORTED_BY_KBUILD := 1
modules:
	@echo $(M) >>made
	$(CC) -Wp,-MMD,$(M)/.conftest.o.d $(FLAGS) -c -o $(M)/conftest.o $(M)/conftest.c
	@echo 'cmd_$(M)/conftest.o := $(CC) $(FLAGS) -c -o $(M)/conftest.o $(M)/conftest.c ; ./objtool $(M)/conftest.o' >$(M)/.conftest.o.cmd
	./objtool $(M)/conftest.o
	@if [ -n "$(LIE)" ] && grep -q "$(LIE)" $(M)/conftest.c; then rm $(M)/conftest.o; fi
	@echo 'ERROR: modpost: missing MODULE_LICENSE()' >&2; false
END
    # shellcheck disable=SC2016
    printf '#!/bin/sh\n[ -n "$EXPORTED_BY_KBUILD" ] || rm "$1"\n' >"$kernel/objtool"
    chmod +x "$kernel/objtool"
}

make_source() {
    mkdir -p "$source/compat/build"
    cp "$BATS_TEST_DIRNAME/configure/configure" "$source/"
    cp "$BATS_TEST_DIRNAME/configure/tests" "$source/compat/"
    touch "$source/compat/configure.ac"
    mkdir "$source/compat/config"
    echo 'MLNX_BG_LB_LINUX_TRY_COMPILE([' >"$source/compat/config/rdma.m4"
    install -m 755 /dev/null "$source/compat/configure"
    # shellcheck disable=SC2016
    printf 'include $(MLNX_LINUX_CONFIG)\ninclude Makefile\n' >"$source/compat/build/Makefile"
    echo 'install_modules:' >"$source/makefile"
    echo 'obj-m += a.o' >"$source/Makefile"
}

# configured NAME [NAME=VALUE…]: the recipe, with its work and its output in folders of that name.
configured() {
    local name=$1
    shift
    mkdir -p "$BATS_TEST_TMPDIR/$name"/{work,output}
    rm -f "$kernel/made"
    env SLIPWAY_KREL="$krel" SLIPWAY_ARCH=x86_64 SLIPWAY_KERNEL="$BATS_TEST_TMPDIR/kernel" SLIPWAY_SOURCE="$source" \
        SLIPWAY_OUTPUT="$BATS_TEST_TMPDIR/$name/output" SLIPWAY_WORK="$BATS_TEST_TMPDIR/$name/work" SLIPWAY_CC=gcc \
        SLIPWAY_JOBS=2 "$@" timeout 600 "$recipes/${recipe:-ofed-configure}.sh" >"$BATS_TEST_TMPDIR/$name/log" 2>&1 || {
        echo "status $?"
        cat "$BATS_TEST_TMPDIR/$name/log"
        return 1
    }
}

# answers NAME: what that configure found.
answers() { cat "$BATS_TEST_TMPDIR/$1/output/tree/compat/config.h"; }

# by_kbuild NAME…: how it is without feature-tests, whose compiler is not called gcc here.
by_kbuild() {
    mkdir -p "$BATS_TEST_TMPDIR/bin"
    # shellcheck disable=SC2016
    printf '#!/bin/sh\nexec gcc "$@"\n' >"$BATS_TEST_TMPDIR/bin/cc-of-kernel"
    chmod +x "$BATS_TEST_TMPDIR/bin/cc-of-kernel"
    configured "$1" PATH="$BATS_TEST_TMPDIR/bin:$PATH" SLIPWAY_CC=cc-of-kernel "${@:2}"
}

@test "the quick way finds what the kernel's own build finds" {
    configured quick
    cp "$kernel/made" "$BATS_TEST_TMPDIR/made"
    by_kbuild slow
    grep 'feature tests' "$BATS_TEST_TMPDIR/quick/log"
    ! grep 'feature tests' "$BATS_TEST_TMPDIR/slow/log" || false
    [[ $(answers slow) == *HAVE_CORE_2\ * && $(answers slow) != *HAVE_CORE_1\ * ]]
    # Nothing of the quick way is left.
    diff -r "$BATS_TEST_TMPDIR"/{quick,slow}/output
    [[ -z $(pgrep -f "$BATS_TEST_TMPDIR") ]]
    for name in HAVE_OPEN HAVE_SEEN HAVE_BLOCK HAVE_DIRECTIVE HAVE_SYMBOL HAVE_QUOTED HAVE_FILE; do
        answers quick | grep -q " $name "
    done
    for name in HAVE_WARNING HAVE_ABSENT HAVE_ERROR HAVE_BACK_END HAVE_ATTRIBUTE; do
        ! answers quick | grep -q " $name " || false
    done
    (($(wc -l <"$kernel/made") > 70))
    (($(wc -l <"$BATS_TEST_TMPDIR/made") < 20))
}

@test "what is unusual is left to the kernel's own build" {
    sed -i '/^for/,/^done/d' "$source/compat/tests"
    configured quick
    # No header, EXPORT_SYMBOL, a header in quotes, __FILE__, a comment that goes on.
    grep 'feature tests: 13, .* 5 by the kernel.s own build' "$BATS_TEST_TMPDIR/quick/log"
}

@test "an answer that is not the kernel's own build's: all is asked anew without the quick way" {
    configured quick LIE=core_
    cat "$BATS_TEST_TMPDIR/quick/log"
    grep -q 'warning: configure could not be run the quick way' "$BATS_TEST_TMPDIR/quick/log"
    by_kbuild slow LIE=core_
    diff <(answers quick) <(answers slow)
    ! answers quick | grep HAVE_CORE_ || false
}

@test "a configure that ends while its tests wait does not keep the build" {
    # shellcheck disable=SC2016
    sed -i '0,/^wait$/s//[[ ! ${FEATURE_TESTS_FOLDER:-} ]] || exit 1\n&/' "$source/compat/tests"
    configured quick
    grep -q 'feature tests: ' "$BATS_TEST_TMPDIR/quick/log"
    grep -q 'warning: configure could not be run the quick way' "$BATS_TEST_TMPDIR/quick/log"
    [[ -z $(pgrep -f "$BATS_TEST_TMPDIR") ]]
    answers quick | grep -q HAVE_CORE_2
}

@test "where the quick way fails, its configure has ended before the next begins" {
    # The server may not poll as many tests any more, or take another.
    # shellcheck disable=SC2016
    sed -i '0,/^wait$/s//[[ ! ${FEATURE_TESTS_FOLDER:-} ]] || prlimit --pid $PPID --nofile=6\n&/' "$source/compat/tests"
    # shellcheck disable=SC2016
    echo '[[ ! ${FEATURE_TESTS_FOLDER:-} ]] || touch "$LINUX_OBJ/ended"' >>"$source/compat/tests"
    configured quick
    grep -qE 'feature-tests: (poll: Invalid argument|accept: Too many open files)' "$BATS_TEST_TMPDIR/quick/log"
    grep -q 'warning: configure could not be run the quick way' "$BATS_TEST_TMPDIR/quick/log"
    [[ ! -e $kernel/ended && -z $(pgrep -f "$BATS_TEST_TMPDIR") ]]
    answers quick | grep -q HAVE_CORE_2
}

@test "the quick way's programs do not compile: a warning, and kbuild alone" {
    # shellcheck disable=SC2016
    printf '#!/bin/sh\ncase "$*" in *feature-tests.c*) echo "no such header"; exit 1; esac\nexec /usr/bin/gcc "$@"\n' \
        >"$BATS_TEST_TMPDIR/gcc"
    chmod +x "$BATS_TEST_TMPDIR/gcc"
    configured slow PATH="$BATS_TEST_TMPDIR:$PATH" SLIPWAY_VERIFY_CONFIGURE=yes
    grep -A 1 '^no such header$' "$BATS_TEST_TMPDIR/slow/log" |
        grep "==> warning: the quick way's programs could not be compiled"
    grep -q "==> nothing to compare: .* could not be compiled" "$BATS_TEST_TMPDIR/slow/log"
    answers slow | grep -q HAVE_CORE_2
}

@test "--verify-configure compares with the kernel's own build, whose answers stay where they differ" {
    configured quick SLIPWAY_VERIFY_CONFIGURE=yes
    grep -q "configure's answers are those of the kernel's own build" "$BATS_TEST_TMPDIR/quick/log"
    # One test in 128 is asked both ways: this is none of them.
    configured other SLIPWAY_VERIFY_CONFIGURE=yes LIE='ifdef CORE'
    grep -q '^-#define HAVE_BLOCK 1$' "$BATS_TEST_TMPDIR/other/log"
    grep -q '==> warning: the quick configure made another compat/config.h' "$BATS_TEST_TMPDIR/other/log"
    ! grep -q "answers are those" "$BATS_TEST_TMPDIR/other/log" || false
    by_kbuild slow LIE='ifdef CORE' SLIPWAY_VERIFY_CONFIGURE=yes
    grep -q '==> nothing to compare: .* for gcc' "$BATS_TEST_TMPDIR/slow/log"
    diff -r "$BATS_TEST_TMPDIR"/{other,slow}/output
}

@test "an OFED whose configure asks in another way is configured as before" {
    echo 'MLNX_RDMA_TEST_CASE(' >"$source/compat/config/rdma.m4"
    configured other SLIPWAY_VERIFY_CONFIGURE=yes
    grep -q '==> nothing to compare: ' "$BATS_TEST_TMPDIR/other/log"
    ! grep 'feature tests' "$BATS_TEST_TMPDIR/other/log" || false
    answers other | grep -q HAVE_CORE_2
}

@test "a source that is older than the kernel and does not compile: which release to try" {
    local recipe=ofed
    mkdir "$source/debian"
    echo 'mlnx-ofed-kernel (4.9.OFED.4.9.0.1.7.1-1) stable; urgency=low' >"$source/debian/changelog"
    printf 'kernel:\n\t@echo "a.c:1:1: error: no such member" >&2; false\n' >>"$source/makefile"
    echo d1fdb6d8f6a4109a4263176c84b899076a5f8008 >"$source/LINUX_BASE_BRANCH"
    run configured old
    ((status != 0))
    grep -qx 'try: a newer OFED, or an older kernel: it is 6.1, this source was made of Linux 5.2, OFED 23.10 of 6.3' \
        "$BATS_TEST_TMPDIR/old/log"
    echo 39cd87c4eb2b893354f3b850f916353f2658ae6f >"$source/LINUX_BASE_BRANCH"
    run configured new
    ((status != 0))
    grep -q 'error: no such member' "$BATS_TEST_TMPDIR/new/log"
    ! grep -q '^try: ' "$BATS_TEST_TMPDIR/new/log" || false
    rm "$source/LINUX_BASE_BRANCH"
    run configured unknown
    ((status != 0))
    grep -q '^try: .* of unknown version, OFED 23.10 of 6.3$' "$BATS_TEST_TMPDIR/unknown/log"
}

@test "a PATH that leads to ccache's own links: the compiler is found behind them" {
    local recipe=ofed
    mkdir "$source/debian"
    echo 'mlnx-ofed-kernel (4.9.OFED.4.9.0.1.7.1-1) stable; urgency=low' >"$source/debian/changelog"
    # shellcheck disable=SC2016
    printf 'kernel:\n\ttimeout 20 $(CC) --version\n\tfalse\n' >>"$source/makefile"
    run configured linked CCACHE_DIR="$BATS_TEST_TMPDIR" PATH="/usr/lib/ccache:$PATH"
    grep -q '^gcc (' "$BATS_TEST_TMPDIR/linked/log"
}

@test "what a build in the user's folder has left is not used, and stays there" {
    echo stale >"$source/compat/main.o"
    echo stale >"$source/a.ko"
    mkdir -p "$source/conftest" "$source/src/_out"
    touch "$source/conftest.sh" "$source/conftest/functions.h" "$source/src/_out/nv-kernel.o"
    configured built
    [ ! -e "$BATS_TEST_TMPDIR/built/work/ofed/compat/main.o" ]
    [ ! -e "$BATS_TEST_TMPDIR/built/work/ofed/a.ko" ]
    [ ! -e "$BATS_TEST_TMPDIR/built/work/ofed/conftest" ]
    [ ! -e "$BATS_TEST_TMPDIR/built/work/ofed/src/_out" ]
    grep -q '^==> 3 files that an earlier build has left in the source are not used' "$BATS_TEST_TMPDIR/built/log"
    [ -e "$source/compat/main.o" ]
    [ -e "$source/conftest/functions.h" ]
}
