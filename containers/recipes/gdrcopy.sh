#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Recipe: GDRCopy's gdrdrv for one kernel, bound to NVIDIA's module set in $SLIPWAY_NVIDIA.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"
# shellcheck source-path=SCRIPTDIR source=bound-to-nvidia.sh
. "$(dirname "$(readlink -f "$0")")/bound-to-nvidia.sh"

tree=$SLIPWAY_WORK/gdrcopy

source_version() {
    sed -n 's/^#define GDRDRV_M[AI][JN]OR_VERSION[[:space:]]\{1,\}\([0-9]\{1,\}\).*/\1/p' "$tree/src/gdrdrv/gdrdrv.h" | paste -sd.
}

compile_module() {
    # nv-p2p-dummy.ko stands for NVIDIA's modules where their symbols are not known: gdrdrv would depend on it.
    sed -i '/^obj-m.*nv-p2p-dummy\.o/d; s/^obj-m += gdrdrv\.o/obj-m := gdrdrv.o/' "$tree/src/gdrdrv/Makefile"
    step "compile with $target_cc, $SLIPWAY_JOBS at a time"
    # Its own tests for what the kernel has call make with the compiler by default: MAKEFLAGS names the kernel's.
    (cd "$tree/src/gdrdrv" && MAKEFLAGS="${compiler[*]}" make -j"$SLIPWAY_JOBS" KVER="$SLIPWAY_KREL" PWD="$tree/src/gdrdrv" \
        NVIDIA_SRC_DIR="$nvidia_headers" NVIDIA_IS_OPENSOURCE="$nvidia_open" \
        MAKE_PARAMS="KBUILD_EXTRA_SYMBOLS=$nvidia_symvers" build)
}

# bash reads a script while it runs it: in a function, all of it is read before the first step.
main() {
    require_inputs
    require_kernel_tree
    require_nvidia
    step "copy the source"
    copy_source "$tree"
    [[ -f $tree/src/gdrdrv/gdrdrv.c ]] || die "no src/gdrdrv/gdrdrv.c in the source: not GDRCopy"
    apply_patches "$tree"
    compile_module
    require_bound "$tree/src/gdrdrv/gdrdrv.ko"
    install_modules_flat gdrcopy "$tree/src/gdrdrv/gdrdrv.ko"
    set_conf source=gdrcopy "version=$(source_version)" "nvidia_version=$nvidia_version"
    settle_output
    step "gdrdrv for $SLIPWAY_KREL and NVIDIA $nvidia_version"
}

main; exit
