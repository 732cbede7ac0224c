# shellcheck shell=bash disable=SC2034,SC2154
# SPDX-License-Identifier: Apache-2.0
# Driver images with modules of our own making (modules.bash), in a storage of the file's own.

first=6.1.0-56-amd64
second=6.1.0-50-cloud-amd64

# gpu_root NAME KREL OFED CRC LINE…: the root of a GPU image whose nvidia-peermem was bound to that OFED. Lines are added
# to its image.conf, before ours.
gpu_root() {
    local root=$work/$1 krel=$2 ofed=$3 crc=$4
    local modules=$root/usr/lib/modules/$krel facts=$root/usr/lib/slipway/kernels/$krel
    shift 4
    mkdir -p "$modules/updates/nvidia" "$facts" "$root/etc/slipway" "$root/usr/src/nvidia-535.1.2"
    make_module "$modules/updates/nvidia/nvidia.ko" nvidia "krel=$krel" exports=nvidia_p2p_get_pages:0x11
    make_module "$modules/updates/nvidia/nvidia-peermem.ko" nvidia_peermem "krel=$krel" depends=ib_uverbs,nvidia \
        "uses=ib_register_peer_memory_client:$crc" "version=$ofed"
    echo "updates/nvidia/nvidia.ko:" >"$modules/modules.dep"
    echo "symvers of OFED $ofed" >"$facts/ofed.symvers.zst"
    echo "symvers of nvidia for $krel" >"$root/usr/src/nvidia-535.1.2/Module.symvers"
    printf '%s\n' "$@" role=gpu version=535.1.2 os=debian12 "krel=$krel" "set=$(printf %s "$krel$ofed" | sha256sum | cut -d ' ' -f 1)" \
        ofed_exporter=ib_uverbs "ofed_version=$ofed" proof=holds | tee "$facts/image.conf" >"$root/etc/slipway/image.conf"
}

# nic_root NAME KREL LINE…: the root of a NIC image, with OFED's headers as its recipe installs them.
nic_root() {
    local root=$work/$1 krel=$2
    local modules=$root/usr/lib/modules/$krel facts=$root/usr/lib/slipway/kernels/$krel
    shift 2
    mkdir -p "$modules/updates/ofed" "$facts" "$root/etc/slipway" "$root/usr/src/ofa_kernel/x86_64/$krel"
    make_module "$modules/updates/ofed/mlx5_core.ko" mlx5_core "krel=$krel" version=24.07
    echo "updates/ofed/mlx5_core.ko:" >"$modules/modules.dep"
    echo "symvers for $krel" >"$root/usr/src/ofa_kernel/x86_64/$krel/Module.symvers"
    ln -s "x86_64/$krel" "$root/usr/src/ofa_kernel/default"
    printf '%s\n' role=nic version=24.07-0.6.1.0 os=debian12 "krel=$krel" "set=$(printf %s "$krel" | sha256sum | cut -d ' ' -f 1)" \
        proof=holds "$@" | tee "$facts/image.conf" >"$root/etc/slipway/image.conf"
}

# pack NAME: its archive, $work/NAME.tar.
pack() {
    local container
    container=$(buildah from scratch)
    buildah add --quiet "$container" "$work/$1" / >/dev/null
    buildah commit --quiet --timestamp 0 "$container" "localhost/made-$1" >/dev/null
    buildah rm "$container" >/dev/null
    buildah push --quiet "localhost/made-$1" "oci-archive:$work/$1.tar"
}

# use_storage: the file's own, also for setup_file.
use_storage() {
    work=$BATS_FILE_TMPDIR
    own_storage "$work"
}

# unpack_archive FILE DIR: the root of an image's archive, layer upon layer.
unpack_archive() {
    mkdir -p "$2/oci" "$2/root"
    tar -xf "$1" -C "$2/oci"
    local manifest layer
    manifest=$(jq -r '.manifests[0].digest | sub("sha256:"; "")' "$2/oci/index.json")
    while read -r layer; do
        tar -xf "$2/oci/blobs/sha256/$layer" -C "$2/root"
    done < <(jq -r '.layers[].digest | sub("sha256:"; "")' "$2/oci/blobs/sha256/$manifest")
    config=$2/oci/blobs/sha256/$(jq -r '.config.digest | sub("sha256:"; "")' "$2/oci/blobs/sha256/$manifest")
}
