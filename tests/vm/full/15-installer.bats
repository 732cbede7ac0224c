#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# make check-full: NVIDIA's installer, whose own cannot be had here: one of the same layout is made of Debian's packages,
# which have both kinds of modules and the userspace. Both kinds are built of it, booted and loaded, and the proprietary
# ones of Debian's package, too.

load both
# shellcheck source-path=SCRIPTDIR source=../../cli/installer.bash
. "$top/tests/cli/installer.bash"

setup_file() {
    krel=$(images_krel)
    folder=$build/installer
    cache=${SLIPWAY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/slipway}
    export krel folder cache
    mkdir -p "$folder"
}

# build_gpu NAME OPTION…: the images of $folder/NAME.
build_gpu() {
    "$slipway" build --kernel "$krel" --ofed reference --output "$folder/$1" "${@:2}"
    proof_holds "$folder/$1"
}

@test "--nvidia debian --kernel-module-type proprietary: builds, and the proof holds" {
    build_gpu debian --nvidia debian --kernel-module-type proprietary
    jq -e '.packages[] | select(.name == "nvidia-kernel-source")' "$folder/debian/lock.json" >/dev/null
}

# The files of the lock's packages of that purpose, as slipway has fetched them: LOCK PURPOSE.
fetched() {
    jq -r --arg purpose "$2" '.packages[] | select(.purpose == $purpose) | .sha256' "$1" | sed "s#^#$cache/blobs/sha256/#"
}

# The driver's files as the installer has them, at its top, with its list of those that go to a node.
make_tree() {
    local tree=$1 version=$2 root=$folder/debs file name
    rm -rf "$tree" "$root"
    mkdir -p "$tree"/{kernel,kernel-open,firmware}
    # shellcheck disable=SC2046
    unpack_debs "$root" $(fetched "$folder/debian/lock.json" nvidia-source) $(fetched "$build/images/lock.json" nvidia-source) \
        $(fetched "$folder/debian/lock.json" nvidia-userspace)
    tar -C "$tree/kernel" --strip-components=2 -xf "$root"/usr/src/nvidia-kernel.tar.xz
    tar -C "$tree/kernel-open" --strip-components=2 -xf "$root"/usr/src/nvidia-open-kernel.tar.xz
    printf '%s\n' 'NVIDIA Accelerated Graphics Driver for Linux-x86_64' "$version" '' 'nvidia nvidia-uvm' '' '' ./kernel/ \
        ./kernel/precompiled/ >"$tree/.manifest"
    for file in "$root"/usr/lib/x86_64-linux-gnu/nvidia/current/*.so."$version"; do
        name=$(basename "$file")
        cp "$file" "$tree/$name"
        echo "$name 0755 UTILITY_LIB NATIVE MODULE:driver"
        echo "${name%".$version"}.1 0000 UTILITY_LIB_SYMLINK NATIVE $name MODULE:driver"
    done >>"$tree/.manifest"
    cp "$root"/usr/lib/nvidia/current/nvidia-smi "$tree/"
    echo 'nvidia-smi 0755 UTILITY_BINARY MODULE:driver' >>"$tree/.manifest"
    for file in "$root"/*/firmware/nvidia/"$version"/*.bin "$root"/usr/lib/firmware/nvidia/"$version"/*.bin; do
        [ -f "$file" ] || continue
        cp "$file" "$tree/firmware/"
        echo "firmware/$(basename "$file") 0644 FIRMWARE MODULE:driver"
    done >>"$tree/.manifest"
}

@test "the installer: modules of either kind with the userspace, of one file" {
    local version
    version=$(jq -r '.images[] | select(.role == "gpu") | .version' "$folder/debian/images.json")
    make_tree "$folder/tree" "$version"
    # shellcheck disable=SC2031
    make_run "$folder/tree" "$folder/NVIDIA-Linux-x86_64-$version.run" "$version"
    build_gpu open --nvidia "$folder/NVIDIA-Linux-x86_64-$version.run"
    build_gpu proprietary --nvidia "$folder/NVIDIA-Linux-x86_64-$version.run" --kernel-module-type proprietary
    # The folder has the same in it: what was compiled of the file is not compiled again.
    rm -rf "$folder/debs"
}

# what_is_loaded: nvidia.ko's own words, and the GPU that it took.
@test "the proprietary modules load, and drive a GPU before Turing; the open ones load" {
    use_guest "$krel"
    VM_IMAGES=$VM_BUILD/images/installer.ext4
    export VM_IMAGES
    "$vm_folder/make-images-disk" "$VM_IMAGES" gpu="$folder/proprietary/gpu.oci.tar" gpu-open="$folder/open/gpu.oci.tar" \
        gpu-debian="$folder/debian/gpu.oci.tar" nic="$folder/open/nic.oci.tar"
    run_case <<'CASE'
. /test/drivers.sh
simulate gpu_device=0x1db6
start nic
wait_ready nic 90
for image in gpu gpu-debian; do
    start --image $image gpu KERNEL_MODULE_TYPE=open GPU_DIRECT_RDMA_ENABLED=true
    wait_ready gpu 90
    expect_gpu_serves
    expect_loaded nvidia_peermem
    echo "$image: $(sed -n 1p /proc/driver/nvidia/version)"
    container_log_has gpu 'KERNEL_MODULE_TYPE asks for the open modules: this image holds the proprietary ones'
    stop_clean gpu
done
start --image gpu-open gpu
exits gpu 12 60
CASE
    [ "$status" -eq 0 ]
    [[ $output == *"gpu: NVRM version: NVIDIA UNIX x86_64 Kernel Module"* ]]
    run_case <<'CASE'
. /test/drivers.sh
simulate
start --image gpu-open gpu
wait_ready gpu 90
expect_gpu_serves
echo "open: $(sed -n 1p /proc/driver/nvidia/version)"
stop_clean gpu
CASE
    [ "$status" -eq 0 ]
    [[ $output == *"open: NVRM version: NVIDIA UNIX Open Kernel Module"* ]]
}
