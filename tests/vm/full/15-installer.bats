#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# make check-full: NVIDIA's installer, whose own cannot be had here: one of the same layout is made of Debian's packages for
# each kind of modules. Both kinds are built, booted and loaded, the proprietary ones of Debian's package, too, and of an
# image that has both.

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

# make_tree TREE LOCK FOLDER TARBALL: the driver of that lock as the installer has it: its modules in FOLDER, the userspace at
# the top, and the list of what goes to a node. Debian's two kinds of modules are of different versions: a tree has one.
make_tree() {
    local tree=$1 lock=$2 root=$folder/debs file name
    rm -rf "$tree" "$root"
    mkdir -p "$tree/$3" "$tree/firmware"
    # shellcheck disable=SC2046
    unpack_debs "$root" $(fetched "$lock" nvidia-source) $(fetched "$lock" nvidia-userspace)
    tar -C "$tree/$3" --strip-components=2 -xf "$root/usr/src/$4"
    version=$(sed -n 's/.*NV_VERSION_STRING=\\"\([0-9.]*\)\\".*/\1/p' "$tree/$3/Kbuild" | head -n 1)
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
    make_run "$tree" "$folder/NVIDIA-Linux-x86_64-$version.run" "$version"
    rm -rf "$root" "$tree"
}

@test "the installer: the open modules with the userspace, of one file" {
    make_tree "$folder/tree" "$build/images/lock.json" kernel-open nvidia-open-kernel.tar.xz
    build_gpu open --nvidia "$folder/NVIDIA-Linux-x86_64-$version.run"
    jq -e --arg version "$version" '.images[] | select(.role == "gpu") | .version == $version and .userspace.version == $version' \
        "$folder/open/images.json"
}

@test "the installer: the proprietary modules" {
    make_tree "$folder/tree" "$folder/debian/lock.json" kernel nvidia-kernel.tar.xz
    build_gpu proprietary --nvidia "$folder/NVIDIA-Linux-x86_64-$version.run" --kernel-module-type proprietary
}

# In an image's root: as if it were of $version, which slipway combine asks for.
say_version() {
    mv "$root"/usr/src/nvidia-* "$root/usr/src/nvidia-$version"
    sed -i "s/^version=.*/version=$version/" "$root/etc/slipway/image.conf" "$root"/usr/lib/slipway/kernels/*/image.conf
}

@test "an image of both kinds loads what drives the node's GPU, or what KERNEL_MODULE_TYPE asks for" {
    version=$(jq -r '.images[] | select(.role == "gpu") | .version' "$folder/proprietary/images.json")
    export version
    derive_image gpu-same-version "$folder/open/gpu.oci.tar" say_version
    "$slipway" combine localhost/slipway-test-gpu-same-version "$folder/proprietary/gpu.oci.tar" --output "oci-archive:$folder/both.tar"
    use_guest "$krel"
    VM_IMAGES=$VM_BUILD/images/installer.ext4
    export VM_IMAGES
    "$vm_folder/make-images-disk" "$VM_IMAGES" gpu="$folder/both.tar" gpu-proprietary="$folder/debian/gpu.oci.tar" \
        gpu-open="$folder/open/gpu.oci.tar" nic="$folder/open/nic.oci.tar"
    # A V100.
    run_case <<'CASE'
. /test/drivers.sh
simulate gpu_device=0x1db6
start nic
wait_ready nic 90
for image in gpu gpu-proprietary; do
    start gpu:$image KERNEL_MODULE_TYPE=open GPU_DIRECT_RDMA_ENABLED=true
    wait_ready gpu 90
    expect_gpu_serves
    expect_loaded nvidia_peermem
    echo "$image: $(sed -n 1p /proc/driver/nvidia/version)"
    stop_clean gpu
done
container_log_has gpu 'KERNEL_MODULE_TYPE asks for the open modules: this image holds the proprietary ones'
start gpu:gpu-open
exits gpu 12 60
CASE
    [ "$status" -eq 0 ]
    [[ $output == *"gpu: NVRM version: NVIDIA UNIX x86_64 Kernel Module"*"gpu-proprietary: NVRM version: NVIDIA UNIX x86_64 Kernel Module"* ]]
    # An A100, which both drive.
    run_case <<'CASE'
. /test/drivers.sh
simulate
for type in auto proprietary; do
    start gpu KERNEL_MODULE_TYPE=$type
    wait_ready gpu 90
    expect_gpu_serves
    echo "$type: $(sed -n 1p /proc/driver/nvidia/version)"
    stop_clean gpu
done
CASE
    [ "$status" -eq 0 ]
    [[ $output == *"auto: NVRM version: NVIDIA UNIX Open Kernel Module"*"proprietary: NVRM version: NVIDIA UNIX x86_64 Kernel Module"* ]]
}
