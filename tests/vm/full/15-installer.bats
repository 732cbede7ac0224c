#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# make check-full: NVIDIA's installer, whose own cannot be had here: one of the same layout is made of Debian's packages for
# each kind of modules. Both kinds are built, booted and loaded, the proprietary ones of Debian's package, too, and of an
# image that has both.

load both
load installer

setup_file() {
    krel=$(images_krel)
    folder=$build/installer
    export krel folder
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

@test "the installer: the open modules with the userspace, of one file" {
    make_installer "$folder" "$build/images/lock.json" kernel-open nvidia-open-kernel.tar.xz
    build_gpu open --nvidia "$installer"
    jq -e --arg version "$version" '.images[] | select(.role == "gpu") | .version == $version and .userspace.version == $version' \
        "$folder/open/images.json"
}

@test "the installer: the proprietary modules" {
    make_installer "$folder" "$folder/debian/lock.json" kernel nvidia-kernel.tar.xz
    build_gpu proprietary --nvidia "$installer" --kernel-module-type proprietary
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
container_log_has gpu 'KERNEL_MODULE_TYPE asks for the open modules, but this image has the proprietary ones'
start gpu:gpu-open
exits gpu 12 120
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
