#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# make check-full: other kernels and flavours than the newest one, built and booted. Each build takes some minutes.

load ../drivers

top=$(realpath -m "$vm_folder/../..")
build=$top/${O:-build}

# build_and_run KREL: both images, then both containers on that kernel.
build_and_run() {
    local krel=$1 images=$build/images-$1
    "$build/slipway" build --kernel "$krel" --ofed reference --output "$images"
    use_guest "$krel"
    VM_IMAGES=$VM_BUILD/images/$krel.ext4
    export VM_IMAGES
    "$vm_folder/make-images-disk" "$VM_IMAGES" gpu="$images/gpu.oci.tar" nic="$images/nic.oci.tar"
    run_case <<'CASE'
. /test/drivers.sh
simulate
start gpu GPU_DIRECT_RDMA_ENABLED=true
wait_log gpu 'waiting wait-ofed' 30
start nic
wait_ready nic 90
wait_ready gpu 90
uname -r
expect_nic_serves
expect_gpu_serves
expect_loaded nvidia_peermem
stop_both
CASE
    [ "$status" -eq 0 ]
    [[ $output == *"$krel"* ]]
}

# The ordinary run has 6.1.0-56-amd64 or later, whose pci_resize_resource takes four arguments.
@test "6.1.0-50-cloud-amd64: another flavour, and a pci_resize_resource of three arguments" {
    build_and_run 6.1.0-50-cloud-amd64
}
