# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154
# What recipes share whose modules are bound to NVIDIA's module set. Sourced after lib.sh.

# Sets nvidia_version, nvidia_symvers, nvidia_headers (the folder of
# nv-p2p.h) and nvidia_open ("y": its licence lets GPL modules use its symbols). Links lib/modules/<krel> of the tree
# to where builds look that know no other place.
require_nvidia() {
    [[ -n ${SLIPWAY_NVIDIA:-} ]] || die "SLIPWAY_NVIDIA is not set: this recipe is bound to NVIDIA's module set"
    local header
    nvidia_version=$(sed -n 's/^version=//p' "$SLIPWAY_NVIDIA/set.conf")
    nvidia_symvers=$SLIPWAY_NVIDIA/usr/src/nvidia-$nvidia_version/Module.symvers
    [[ -f $nvidia_symvers ]] || die "NVIDIA's module set has no symvers ($nvidia_symvers): build it again"
    header=$(find "$SLIPWAY_NVIDIA/usr/src/nvidia-$nvidia_version/nvidia" -name nv-p2p.h -print -quit)
    [[ -n $header ]] || die "NVIDIA's module set has no nv-p2p.h: build it again"
    nvidia_headers=${header%/*}
    nvidia_open=
    [[ $(modinfo -F license "$SLIPWAY_NVIDIA/lib/modules/$SLIPWAY_KREL/updates/nvidia/nvidia.ko") != *GPL* ]] || nvidia_open=y
    mkdir -p "/lib/modules/$SLIPWAY_KREL"
    ln -sfn "$(readlink -f "$kernel_build")" "/lib/modules/$SLIPWAY_KREL/build"
}

# require_bound FILE: FILE demands of NVIDIA's symbols the very versions that the set has. With KBUILD_MODPOST_WARN a
# build ends well with symbols that nobody has.
require_bound() {
    [[ -f $1 ]] || die "the build left no ${1##*/}"
    local depends
    depends=$(modinfo -F depends "$1")
    [[ ",$depends," == *,nvidia,* ]] || die "${1##*/} depends on '$depends', not on nvidia: it was not bound to $nvidia_symvers"
    check_crcs "$1" "$nvidia_symvers" "NVIDIA $nvidia_version"
    step "${1##*/} uses $bound symbols of NVIDIA $nvidia_version by version"
}
