#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Recipe: the core of an open-gpu-kernel-modules tree, nv-kernel.o and nv-modeset-kernel.o, which no header of the kernel
# goes into. The output is its kernel-open/ with both objects where NVIDIA's installer has them.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

tree=$SLIPWAY_WORK/nvidia

# compile_core FOLDER OBJECT. Its objects have who compiled them where and when in them.
compile_core() {
    make -C "$tree/src/$1" -j"$SLIPWAY_JOBS" "${compiler[@]}" DATE="date -u -d @0" NV_BUILD_USER=slipway \
        NV_BUILD_HOST=slipway
    install -m 644 "$tree/src/$1"/_out/*/"$2.o" "$SLIPWAY_OUTPUT/$1/${2}.o_binary"
}

# bash reads a script while it runs it: in a function, all of it is read before the first step.
main() {
    require_inputs
    # The core is of no kernel. clang would compile it for this machine: nothing tells it the target here.
    [[ ! ${CROSS_COMPILE:-} || $SLIPWAY_CC != clang* ]] || target_cc=${CROSS_COMPILE}gcc
    compiler=(CC="$target_cc")
    add_binutils
    [[ ! ${CROSS_COMPILE:-} ]] || compiler+=("TARGET_ARCH=$SLIPWAY_ARCH" "CXX=${target_cc/gcc/g++}")
    step "copy the source"
    copy_source "$tree"
    cp -r "$tree/kernel-open/." "$SLIPWAY_OUTPUT/"
    step "compile the core, of no kernel, with $target_cc, $SLIPWAY_JOBS at a time"
    compile_core nvidia nv-kernel
    compile_core nvidia-modeset nv-modeset-kernel
    settle_output
}

main; exit
