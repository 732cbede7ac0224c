#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Recipe: GPUDirect Storage's nvidia-fs for one kernel, bound to NVIDIA's module set in $SLIPWAY_NVIDIA.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"
# shellcheck source-path=SCRIPTDIR source=bound-to-nvidia.sh
. "$(dirname "$(readlink -f "$0")")/bound-to-nvidia.sh"

tree=$SLIPWAY_WORK/nvidia-fs

source_version() { tr -d '[:space:]' <"$tree/src/GDS_VERSION" 2>/dev/null || echo unknown; }

# Its configure looks for a symbol of the kernel in System.map, which no header package has; what a module can have
# of it stands in Module.symvers.
write_system_map() {
    mkdir -p /boot
    awk '{ print "0000000000000000 r __kstrtab_" $2 }' "$kernel_build/Module.symvers" >"/boot/System.map-$SLIPWAY_KREL"
}

compile_module() {
    local src=$tree/src
    # It searches this machine for an installed nvidia.ko and copies the versions of its symbols: they are given instead.
    printf '#!/bin/sh\nexec true\n' >"$src/create_nv.symvers.sh"
    : >"$src/nv.symvers"
    chmod +x "$src/configure"
    step "compile with $target_cc, $SLIPWAY_JOBS at a time"
    # Its configure calls make with the compiler by default: MAKEFLAGS names the kernel's. -j here comes after its own.
    (cd "$src" && MAKEFLAGS="${compiler[*]}" make KVER="$SLIPWAY_KREL" PWD="$src" NVIDIA_SRC_DIR="$nvidia_headers" \
        MAKE_PARAMS="-j$SLIPWAY_JOBS KBUILD_EXTRA_SYMBOLS=$nvidia_symvers" module)
    # Tests that all fail say "no" to everything and leave a module that fits no kernel.
    grep -q '^#define HAVE_' "$src/config-host.h" ||
        die "no feature test of configure succeeded: the kernel tree or the compiler is broken, see config.log"
}

# bash reads a script while it runs it: in a function, all of it is read before the first step.
main() {
    require_inputs
    require_kernel_tree
    require_nvidia
    step "copy the source"
    copy_source "$tree"
    [[ -f $tree/src/nvfs-core.c ]] || die "no src/nvfs-core.c in the source: not GPUDirect Storage's nvidia-fs"
    apply_patches "$tree"
    write_system_map
    compile_module
    require_bound "$tree/src/nvidia-fs.ko"
    install_modules_flat nvidia-fs "$tree/src/nvidia-fs.ko"
    set_conf source=nvidia-fs "version=$(source_version)" "nvidia_version=$nvidia_version"
    settle_output
    step "nvidia-fs for $SLIPWAY_KREL and NVIDIA $nvidia_version"
}

main; exit
