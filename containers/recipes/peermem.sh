#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Recipe: nvidia-peermem alone, for the OFED in $SLIPWAY_OFED and the NVIDIA modules whose symvers are in $SLIPWAY_NVIDIA.
# On a node whose OFED is another one than the image's nvidia-peermem was made for: seconds, not the minutes of all.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

tree=$SLIPWAY_WORK/nvidia

# Of nearly two hundred megabytes, what this one module is made of.
copy_part() {
    mkdir -p "$tree/nvidia"
    cp -r --preserve=mode,timestamps,links "$modules"/{Kbuild,Makefile,conftest.sh,common,nvidia-peermem} "$tree/"
    find "$modules" -maxdepth 1 -type f -name '*.mk' -exec cp -t "$tree" {} +
    cp "$modules/nvidia/nv-p2p.h" "$tree/nvidia/"
    chmod -R u+rwX "$tree"
}

bind() {
    require_ofed
    require_peer_memory
    nvidia_symvers=${SLIPWAY_NVIDIA:-}/Module.symvers
    [[ -f $nvidia_symvers ]] || die "no Module.symvers of the NVIDIA modules ($nvidia_symvers)"
}

# A nvidia-peermem without the peer symbols builds well, and then refuses to load on every node.
check() {
    local file=$tree/nvidia-peermem.ko name
    [[ -f $file ]] || die "the build left no nvidia-peermem.ko"
    for name in ib_register_peer_memory_client ib_unregister_peer_memory_client; do
        nm --undefined-only "$file" | grep -qw "$name" ||
            die "nvidia-peermem came out without $name: the conftest did not see it in $ofed_symvers"
    done
    check_crcs "$file" "$ofed_symvers" "OFED $ofed_version"
    check_crcs "$file" "$nvidia_symvers" "the image's NVIDIA driver"
}

# bash reads a script while it runs it: in a function, all of it is read before the first step.
main() {
    require_inputs
    require_kernel_tree
    [[ -n ${SLIPWAY_OFED:-} ]] || die "SLIPWAY_OFED is not set: nvidia-peermem alone is made for an OFED"
    find_nvidia "$SLIPWAY_SOURCE"
    [[ -d $modules/nvidia-peermem ]] || die "the source has no nvidia-peermem"
    step "compile nvidia-peermem with $target_cc"
    copy_part
    bind
    export IGNORE_CC_MISMATCH=1 IGNORE_PREEMPT_RT_PRESENCE=1
    add_binutils
    make -C "$tree" -j"$SLIPWAY_JOBS" "${compiler[@]}" SYSSRC="$(readlink -f "$kernel_source")" \
        SYSOUT="$(readlink -f "$kernel_build")" NV_KERNEL_MODULES=nvidia-peermem \
        KBUILD_EXTRA_SYMBOLS="$ofed_symvers $nvidia_symvers" modules
    check
    install_modules_flat nvidia "$tree/nvidia-peermem.ko"
    set_conf source=nvidia-peermem "ofed_version=$ofed_version" "ofed_exporter=$ofed_exporter"
    settle_output
}

main; exit
