# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154
# An mlnx-ofed-kernel tree, configured: what ofed-configure.sh makes and ofed.sh compiles. Sourced after lib.sh.

tree=$SLIPWAY_WORK/ofed
tools=$SLIPWAY_WORK/feature-tests
options=(--with-core-mod --with-user_mad-mod --with-user_access-mod --with-addr_trans-mod
    --with-mlx5-mod --with-mlxfw-mod --with-ipoib-mod)

# A case-folding file system keeps one of the two makefiles; what is left is told apart by its content.
require_both_makefiles() {
    local lost="unpack or check out the source on a case-sensitive file system"
    [[ -f $tree/configure ]] || die "no configure in the source: its top level must be an mlnx-ofed-kernel tree"
    [[ -f $tree/makefile ]] || die "the source has lost 'makefile' (the targets; 'Makefile' is kbuild's): $lost"
    [[ -f $tree/Makefile ]] || die "the source has lost 'Makefile' (kbuild's; 'makefile' has the targets): $lost"
    grep -q '^install_modules:' "$tree/makefile" ||
        die "'makefile' of the source has no target install_modules: it is a copy of kbuild's 'Makefile', so the one with the targets was lost: $lost"
    grep -q '^obj-' "$tree/Makefile" ||
        die "'Makefile' of the source has no obj- lines: it is a copy of 'makefile', so kbuild's was lost: $lost"
}

# Is $1 an option of this source's configure?
knows_option() { grep -qE -- "(^|[^[:alnum:]_-])$1([^[:alnum:]_-]|\$)" "$tree/configure"; }

# Is $1 on in the kernel's configuration, built in or as a module?
kernel_has() { grep -sqE "^$1=[ym]\$" "$kernel_build"/{.config,include/config/auto.conf}; }

# What the source's own --default asks for by the kernel, and what the build does (seam 1): all that this configure knows.
# Needs the kernel tree and the copied source. $1 ("die" or "step") says what becomes of an option that it does not know:
# many that APPEND_DRIVER_BUILD_FLAGS may have are of install.pl, which nothing here runs.
ask_for_more() {
    local name flag flags wanted=()
    ! kernel_has CONFIG_XFRM_OFFLOAD || ! kernel_has CONFIG_INET_ESP_OFFLOAD || ! kernel_has CONFIG_INET6_ESP_OFFLOAD ||
        ! knows_option --with-mlx5-ipsec || options+=(--with-mlx5-ipsec)
    [[ ${SLIPWAY_NFSRDMA:-} != yes ]] || wanted+=(--with-nfsrdma-mod --with-nvmf_host-mod --with-nvmf_target-mod)
    # nvidia-fs: what rpcrdma and nvme call of it.
    [[ ${SLIPWAY_GDS:-} != yes ]] || wanted+=(--with-gds)
    for name in "${wanted[@]}"; do
        if knows_option "$name"; then
            options+=("$name")
        else
            step "this source's configure has no $name: what it is for stays the kernel's own"
        fi
    done
    read -r -a flags <<<"${SLIPWAY_OFED_FLAGS:-}"
    for flag in "${flags[@]}"; do
        if [[ $flag =~ ^--[a-z0-9][A-Za-z0-9_-]*(=.*)?$ ]] && knows_option "${flag%%=*}"; then
            options+=("$flag")
        elif [[ $1 == die ]]; then
            die "$flag is no option of this source's configure"
        else
            step "$flag is no option of this source's configure: skipped"
        fi
    done
}

copy_tree() {
    rm -rf "$tree"
    step "copy the source"
    copy_source "$tree"
    require_both_makefiles
    # A checkout gives generated files the time of the checkout: equal, old times stop automake from running again.
    find "$tree/compat" -type f -exec touch -d 2000-01-01 {} +
    (cd "$tree" && find . ! -type d | LC_ALL=C sort) >"$SLIPWAY_WORK/before"
    touch "$SLIPWAY_WORK/begun"
}

# run_configure TESTS-AT-ONCE [PROGRAM…]: PROGRAM runs it.
run_configure() {
    local tests=$1
    shift
    if [[ -f $tree/compat/configure.ac && ! -x $tree/compat/configure ]]; then
        step "generate compat/configure, which the source lacks"
        (cd "$tree/compat" && ./autogen.sh)
    fi
    # Run by bash: checkouts lose the x bit of this one. Its feature tests call make with the compiler only: what LLVM
    # wants beside that comes by MAKEFLAGS.
    # In a cross build the feature tests put $CROSS_COMPILE before CC themselves. autoconf runs what it compiles with CC,
    # so that is this machine's compiler.
    (cd "$tree" && env CC="$SLIPWAY_CC" ${compiler[1]:+MAKEFLAGS="${compiler[*]}"} "$@" bash ./configure \
        --kernel-version="$SLIPWAY_KREL" --kernel-sources="$kernel_source" --with-linux-obj="$kernel_build" \
        --modules-dir="/lib/modules/$SLIPWAY_KREL/updates" --with-njobs="$tests" "${options[@]}")
}

# What answers the feature tests without kbuild.
make_tools() {
    local source=${BASH_SOURCE[0]%/*}/../feature-tests flags=(-std=c11 -D_GNU_SOURCE -O2)
    rm -rf "$tools"
    mkdir -p "$tools"
    gcc "${flags[@]}" -o "$tools/feature-tests" "$source"/{feature-tests,common,command,make,server}.c &&
        gcc "${flags[@]}" -shared -fPIC -o "$tools/cc1-fork.so" "$source/cc1-fork.c"
}

# The same by kbuild, for --verify-configure: where they differ, kbuild's tree is the one that stays.
verify_configured() {
    local file same=yes quick=$SLIPWAY_WORK/quick
    mkdir -p "$quick"
    cp "$tree/compat/config.h" "$tree/configure.mk.kernel" "$quick/" || :
    copy_tree
    step "configure for $SLIPWAY_KREL by the kernel's own build, for comparison"
    run_configure "$SLIPWAY_JOBS"
    for file in compat/config.h configure.mk.kernel; do
        diff -u --label "$file, quickly" --label "$file, by kbuild" "$quick/${file##*/}" "$tree/$file" && continue
        same=''
        step "warning: the quick configure made another $file (the log has the lines): the kernel's own is used; please report the lines with the OFED and the kernel"
    done
    [[ ! $same ]] || step "configure's answers are those of the kernel's own build"
}

# The quick way is for gcc: clang does not stop where it opens a file, and says less of a function in a file that is
# included. And for tests that wait for one another in a shell: OFED 25 asks all of them in one run of make, which takes
# the number of tests for one of compilers. A test that waits is three processes and 1 MB; the more of them wait, the
# more have a compiler in common.
configure_tree() {
    local by_kbuild='' tests_at_once=$((SLIPWAY_JOBS < 4 ? 100 * SLIPWAY_JOBS : 400))
    step "configure for $SLIPWAY_KREL"
    if [[ $SLIPWAY_CC != gcc* || ${compiler[1]:-} ]]; then
        by_kbuild="the quick way is for gcc"
    elif ! grep -qs MLNX_BG_LB_LINUX_TRY_COMPILE "$tree/compat/config/rdma.m4"; then
        by_kbuild="this OFED's configure has no tests for the quick way"
    elif ! make_tools; then
        by_kbuild="the quick way's programs could not be compiled"
        step "warning: $by_kbuild by gcc (see the log above): configure runs by kbuild alone, which takes minutes"
    elif ! run_configure "$tests_at_once" "$tools/feature-tests" "$tools" "$SLIPWAY_JOBS"; then
        by_kbuild="the quick way failed"
        copy_tree
        step "warning: configure could not be run the quick way (see the log above): it runs once more, by kbuild alone"
    fi
    [[ ! $by_kbuild ]] || run_configure "$SLIPWAY_JOBS"
    if [[ ${SLIPWAY_VERIFY_CONFIGURE:-} ]]; then
        if [[ $by_kbuild ]]; then
            step "nothing to compare: configure ran by kbuild alone: $by_kbuild"
        else
            verify_configured
        fi
    fi
    [[ -f $tree/configure.mk.kernel && -f $tree/compat/config.h ]] ||
        die "configure ended well but wrote no configure.mk.kernel or no compat/config.h: see the log above"
    # A feature test that cannot compile anything says "no" and nothing else: only the sum of them shows it.
    [[ ! -f $tree/compat/configure.ac ]] || grep -q '^#define HAVE_' "$tree/compat/config.h" ||
        die "no feature test of configure succeeded: the kernel tree or the compiler is broken, see $tree/compat/config.log"
}

# To $1, all that configure wrote: in "tree" what is new or changed, in "removed" what is gone.
keep_configured() {
    mkdir -p "$1/tree"
    (cd "$tree" && find . ! -type d -newer "$SLIPWAY_WORK/begun" -print0 | tar --null -T - -cf -) | tar -C "$1/tree" -xf -
    (cd "$tree" && find . ! -type d | LC_ALL=C sort | LC_ALL=C comm -13 - "$SLIPWAY_WORK/before") >"$1/removed"
}

# The other way round: as if configure had been run.
take_configured() {
    (cd "$tree" && tr '\n' '\0' <"$1/removed" | xargs -0 -r rm -f)
    cp -a "$1/tree/." "$tree/"
}
