# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What every recipe shares. Sourced, by recipes only: see seam 1 in docs/architecture.md.

# A line that slipway shows as progress.
step() { echo "==> $*"; }

die() {
    echo "$(basename "$0"): $*" >&2
    exit 1
}

# Every recipe starts with this: each variable named here is set, and the kernel tree is the one asked for.
require_inputs() {
    local name
    for name in SLIPWAY_KREL SLIPWAY_ARCH SLIPWAY_KERNEL SLIPWAY_SOURCE SLIPWAY_OUTPUT SLIPWAY_WORK \
        SLIPWAY_CC SLIPWAY_JOBS; do
        [[ -n ${!name:-} ]] || die "$name is not set: a recipe is run by slipway build"
    done
    command -v "$SLIPWAY_CC" >/dev/null ||
        die "no $SLIPWAY_CC in the build container: build it with --build-arg COMPILER=$SLIPWAY_CC"
    set_target_cc
    command -v "$target_cc" >/dev/null ||
        die "no $target_cc in the build root: add its package to cross_packages of the distribution's catalogue file (slipway-catalogue(5)), or use --root debian12"
    unset KBUILD_OUTPUT KCFLAGS MAKEFLAGS
    # Enterprise Linux 7 has no such locale, and each program would say so.
    LC_ALL=C.UTF-8
    [[ -z $(LC_ALL=C.UTF-8 bash -c : 2>&1) ]] || LC_ALL=C
    export LC_ALL TZ=UTC KBUILD_BUILD_USER=slipway KBUILD_BUILD_HOST=slipway KBUILD_BUILD_TIMESTAMP=@0
}

# Sets target_cc, what compiles for nodes: $SLIPWAY_CC, or a cross compiler, whose name begins with $CROSS_COMPILE. kbuild
# reads ARCH and CROSS_COMPILE from the environment; they are set only in a cross build. clang needs no other name: kbuild
# tells it the target.
set_target_cc() {
    [[ ${CROSS_COMPILE:-} ]] || unset ARCH CROSS_COMPILE
    target_cc=$SLIPWAY_CC
    [[ $SLIPWAY_CC == clang* ]] || target_cc=${CROSS_COMPILE:-}$SLIPWAY_CC
}

# Call it when the tree is ready for make. What kbuild compiled before with the same command, headers and compiler then
# comes from $CCACHE_DIR, if there is one. Feature tests (conftest) run the compiler for its answer and do not use ccache.
# ccache's depend mode takes the headers' names from the .d file that kbuild asks for; without it, each file would be
# preprocessed twice. A header that now comes earlier in the search path would not count then, so builds share objects
# only where all headers have the same names before make.
use_ccache() {
    local real folder=$SLIPWAY_WORK/ccache
    [[ -d ${CCACHE_DIR:-} ]] && command -v ccache >/dev/null || return 0
    # A PATH may lead to ccache's own links, which would find the wrapper below, and that the link, and so on. What bash
    # remembers of a command is all that "type" knows of it.
    hash -r
    while read -r real; do
        [[ $(readlink -f "$real") == */ccache ]] || break
    done < <(type -aP "$target_cc")
    mkdir -p "$folder"
    find -H "$SLIPWAY_KERNEL" ${SLIPWAY_OFED:+"$SLIPWAY_OFED"} "$SLIPWAY_WORK" -name '*.h' | LC_ALL=C sort |
        sha256sum >"$folder/headers"
    export CCACHE_DEPEND=1 CCACHE_EXTRAFILES=$folder/headers
    cat >"$folder/$target_cc" <<END
#!/bin/sh
case "\$*" in *-Wp,-MMD,* | *-Wp,-MD,*) exec ccache "$real" "\$@" ;; esac
exec "$real" "\$@"
END
    chmod 755 "$folder/$target_cc"
    PATH=$folder:$PATH
}

# make_modules WORD…: make, which may compile by ccache. That keeps what a compiler says in a file: on a full disk all of
# it is lost, so what has failed is compiled once more, without.
make_modules() {
    make "$@" && return
    local free=$(($(stat -f -c '%a * %S' "$SLIPWAY_WORK") >> 20))
    ((free < 1024)) || return 1
    echo "only $free MiB of disk are free: once more, without ccache"
    CCACHE_DISABLE=1 make "$@"
}

# Sets kernel_build and kernel_source, the two folders of the kernel tree, compiler, and KCFLAGS.
require_kernel_tree() {
    kernel_build=$SLIPWAY_KERNEL/lib/modules/$SLIPWAY_KREL/build
    kernel_source=$SLIPWAY_KERNEL/lib/modules/$SLIPWAY_KREL/source
    [[ -e $kernel_source ]] || kernel_source=$kernel_build
    [[ -f $kernel_build/Module.symvers ]] ||
        die "no lib/modules/$SLIPWAY_KREL/build/Module.symvers in the kernel tree: it holds $(echo "$SLIPWAY_KERNEL"/lib/modules/*)"
    local found
    # Debian's include/config/kernel.release holds another version: what modules get is utsrelease.h.
    found=$(sed -n 's/^#define UTS_RELEASE "\(.*\)"$/\1/p' "$kernel_build/include/generated/utsrelease.h")
    [[ $found == "$SLIPWAY_KREL" ]] ||
        die "the kernel tree is configured for '$found', not for $SLIPWAY_KREL"
    set_compiler
    require_host_tools
    without_debug_information
}

# Has the tree programs for kbuild that run here? fixdep without arguments ends with 1. One of another machine: 126, or
# 255 where a binfmt's qemu finds no loader for it.
require_host_tools() {
    [[ ${CROSS_COMPILE:-} ]] || return 0
    local status=0
    "$kernel_build/scripts/basic/fixdep" >/dev/null 2>&1 || status=$?
    ((status > 1)) || return 0
    # shellcheck source-path=SCRIPTDIR source=host-tools.sh
    . "$(dirname "${BASH_SOURCE[0]}")/host-tools.sh"
    make_host_tools
}

# Debug information is stripped in the end, and costs a sixth of the time to compile. It is kept where the kernel computes
# CRCs from it (gendwarfksyms), or where the tree's vmlinux lets kbuild make BTF from it.
without_debug_information() {
    ! grep -sqx CONFIG_GENDWARFKSYMS=y "$kernel_build"/{.config,include/config/auto.conf} || return 0
    [[ -e $kernel_build/vmlinux ]] || export KCFLAGS=-g0
}

# Sets compiler, what make is to be called with: a kernel made with clang and lld wants LLVM's other tools too. They
# are named one by one: LLVM=-16 is known since Linux 5.18 only, and LLVM=1 alone means names without a version.
set_compiler() {
    compiler=(CC="$target_cc")
    [[ $SLIPWAY_CC == clang* ]] && grep -sqx CONFIG_LD_IS_LLD=y "$kernel_build/.config" || return 0
    local version=${SLIPWAY_CC#clang}
    compiler+=(LLVM=1 LLVM_IAS=1 LD="ld.lld$version" HOSTCC=gcc)
    local tool
    for tool in ar nm strip objcopy objdump readelf; do
        compiler+=("${tool^^}=llvm-$tool$version")
    done
}

# Adds to compiler what NVIDIA's makefiles want beside it: they take this machine's tools otherwise.
add_binutils() {
    [[ ${CROSS_COMPILE:-} && ! ${compiler[1]:-} ]] || return 0
    local tool
    for tool in ld ar nm strip objcopy objdump; do
        compiler+=("${tool^^}=$CROSS_COMPILE$tool")
    done
}

# copy_source DIR: a writable copy of the source. Owner and modes of the build machine mean nothing here.
copy_source() {
    mkdir -p "$1"
    cp -r --preserve=mode,timestamps,links "$SLIPWAY_SOURCE/." "$1/"
    chmod -R u+rwX "$1"
    forget_build "$1"
}

# What a build in the user's folder has left is of another kernel or compiler, and make would take it for its own.
forget_build() {
    local left
    left=$(find "$1" -type f \( -name '*.o' -o -name '*.ko' -o -name '.*.o.cmd' \) -print -delete | wc -l)
    find "$1" -name conftest.sh -printf '%h/conftest\0' | xargs -0 -r rm -rf
    find "$1" -type d -name _out -prune -exec rm -rf {} +
    ((left == 0)) || step "$left files that an earlier build has left in the source are not used"
}

# Sets ofed_symvers, ofed_version and ofed_exporter, of the OFED module set in $SLIPWAY_OFED, and puts it where NVIDIA's
# build looks for it: /usr/src/ofa_kernel and nowhere else.
# shellcheck disable=SC2034
require_ofed() {
    ofed_symvers=$SLIPWAY_OFED/usr/src/ofa_kernel/$SLIPWAY_ARCH/$SLIPWAY_KREL/Module.symvers
    [[ -f $ofed_symvers ]] || die "the OFED module set has no symvers for $SLIPWAY_KREL ($ofed_symvers)"
    ofed_version=$(sed -n 's/^version=//p' "$SLIPWAY_OFED/set.conf")
    ofed_exporter=$(sed -n 's/^exporter=//p' "$SLIPWAY_OFED/set.conf")
    rm -rf /usr/src/ofa_kernel
    ln -s "$SLIPWAY_OFED/usr/src/ofa_kernel" /usr/src/ofa_kernel
}

# The OFED of require_ofed exports what nvidia-peermem is bound to.
require_peer_memory() {
    local name
    for name in ib_register_peer_memory_client ib_unregister_peer_memory_client; do
        awk -v name="$name" '$2 == name { found = 1 } END { exit !found }' "$ofed_symvers" ||
            die "Module.symvers of OFED $ofed_version has no $name: build the OFED set again"
    done
}

# find_nvidia FOLDER: sets modules, the folder below it with Kbuild: kernel-open/ or kernel/ of NVIDIA's installer, which
# nvidia-core.sh makes of an open-gpu-kernel-modules tree, too; or the one in Debian's packages.
find_nvidia() {
    for modules in "$1" "$1/modules/nvidia-open-kernel" "$1/modules/nvidia-kernel"; do
        [[ ! -f $modules/Kbuild || ! -f $modules/conftest.sh ]] || return 0
    done
    die "no Kbuild with conftest.sh in the source: not NVIDIA's kernel modules"
}

# check_crcs FILE SYMVERS NAME: what module FILE demands of the symbols in SYMVERS, which NAME exports, are the very versions
# that are there. Sets bound, how many. A kernel without MODVERSIONS lists no CRC: there is nothing to compare.
check_crcs() {
    local crc name offered sections versions
    bound=0
    sections=$(readelf -SW "$1") || die "readelf cannot read ${1##*/}"
    [[ $sections == *' __versions '* ]] || return 0
    versions=$(modprobe --dump-modversions "$1") || die "modprobe cannot read the symbol versions of ${1##*/}"
    while read -r crc name; do
        offered=$(awk -v name="$name" '$2 == name { print $1 }' "$2")
        [[ -n $offered ]] || continue
        ((crc == offered)) || die "${1##*/} was built for $name CRC $crc, $3 has $offered"
        bound=$((bound + 1))
    done <<<"$versions"
}

# install_modules_flat NAME FILE…: strips each .ko into lib/modules/<krel>/updates/NAME of the output.
install_modules_flat() {
    local folder=$SLIPWAY_OUTPUT/lib/modules/$SLIPWAY_KREL/updates/$1 file
    shift
    (($#)) || die "the build left no .ko file"
    mkdir -p "$folder"
    for file in "$@"; do
        [[ ! -e $folder/${file##*/} ]] || die "two modules are called ${file##*/}"
        "${CROSS_COMPILE:-}strip" --strip-debug -o "$folder/${file##*/}" "$file"
        chmod 644 "$folder/${file##*/}"
    done
    for file in "$folder"/*.ko; do
        [[ $(modinfo -F vermagic "$file") == "$SLIPWAY_KREL "* ]] ||
            die "${file##*/} was built for '$(modinfo -F vermagic "$file")', not for $SLIPWAY_KREL"
    done
    step "$# modules, $(du -sk "$folder" | cut -f1) KiB stripped"
}

# set_conf KEY=VALUE…: writes set.conf.
set_conf() { printf '%s\n' "$@" >"$SLIPWAY_OUTPUT/set.conf"; }

# Same input, same output: no time of this run stays in the set.
settle_output() { find "$SLIPWAY_OUTPUT" -mindepth 1 -exec touch -h -d @0 {} +; }

# apply_patches TREE: each folder of $SLIPWAY_PATCHES is a fix (fix.patch, -p1 in TREE) and its condition, a program
# "applies KERNEL_SOURCE TREE" that says by exit 0 or 1 whether this kernel and this source call for it. Sets fixes, the
# names of those that were applied.
apply_patches() {
    local tree=$1 folder name status
    fixes=()
    for folder in "$SLIPWAY_PATCHES"/*/; do
        [[ -f $folder/fix.patch ]] || continue
        name=$(basename "$folder")
        status=0
        "$folder/applies" "$kernel_source" "$tree" || status=$?
        case $status in
            0)
                step "apply $name"
                patch -d "$tree" -p1 --forward --batch <"$folder/fix.patch" ||
                    die "patch $name is called for by this kernel but does not fit this source"
                fixes+=("$name")
                ;;
            1) echo "patch $name: not called for" ;;
            *) die "the condition of patch $name failed with exit status $status" ;;
        esac
    done
}
