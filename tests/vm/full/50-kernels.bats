#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# make check-full: images for another kernel and flavour than the newest; one GPU and one NIC image for both kernels,
# the GPU image on one of them for two OFEDs (slipway combine).

load both

cloud=6.1.0-50-cloud-amd64

setup_file() {
    local krel
    krel=$(images_krel)
    "$slipway" build --kernel "$krel" --ofed "$build/ofed-second" --output "$build/images-other"
    "$slipway" build --kernel "$cloud" --ofed reference --output "$build/images-$cloud"
    "$slipway" combine "$build/images/gpu.oci.tar" "$build/images-other/gpu.oci.tar" "$build/images-$cloud/gpu.oci.tar" \
        --output "$build/images-combined"
    # Another flavour of the same version, whose reference OFED is the same, too.
    "$slipway" build --kernel "${krel%-amd64}-cloud-amd64" --ofed reference --nvidia none --output "$build/images-nic-cloud"
    "$slipway" combine "$build/images/nic.oci.tar" "$build/images-nic-cloud/nic.oci.tar" --output "$build/images-combined-nic"
}

# The ordinary run has 6.1.0-56-amd64 or later, whose pci_resize_resource takes four arguments.
@test "6.1.0-50-cloud-amd64: another flavour, and a pci_resize_resource of three arguments" {
    run_both "$cloud" "$build/images-$cloud"
}

# use_combined KREL NAME=FILE…: a guest of that kernel, with the combined image and NIC images.
use_combined() {
    local krel=$1 options=() nic
    shift
    for nic in "$@"; do
        options+=("${nic%%=*}=$(driver_image "${nic%%=*}" "${nic#*=}")")
    done
    use_guest "$krel"
    VM_IMAGES=$VM_BUILD/images/combined-$krel.ext4
    export VM_IMAGES
    "$vm_folder/make-images-disk" "$VM_IMAGES" gpu="$(driver_image combined "$build/images-combined/gpu.oci.tar")" "${options[@]}"
}

@test "of two OFEDs, the one that is loaded gets the nvidia-peermem that fits it" {
    use_combined "$(images_krel)" nic="$build/images-combined-nic/nic.oci.tar" nic-other="$build/images/other/nic.oci.tar"
    run_case <<'CASE'
. /test/drivers.sh
simulate
for nic in nic nic-other; do
    start nic:$nic
    wait_ready nic 90
    start gpu GPU_DIRECT_RDMA_ENABLED=true
    wait_ready gpu 90
    expect_gpu_serves
    expect_loaded nvidia_peermem
    stop_both
    echo "served with $nic"
done
CASE
    [ "$status" -eq 0 ]
    [[ $output == *"served with nic-other"* ]]
}

@test "the same image serves another kernel" {
    use_combined "$cloud" nic="$build/images-$cloud/nic.oci.tar"
    run_case <<'CASE'
. /test/drivers.sh
simulate
start_both
uname -r
expect_gpu_serves
expect_loaded nvidia_peermem
stop_both
CASE
    [ "$status" -eq 0 ]
    [[ $output == *"$cloud"* ]]
}

# Its first is in the case of two OFEDs.
@test "a NIC image of two kernels serves the second" {
    local krel
    krel=$(images_krel)
    use_combined "${krel%-amd64}-cloud-amd64" nic="$build/images-combined-nic/nic.oci.tar"
    run_case <<'CASE'
. /test/drivers.sh
simulate
start nic
wait_ready nic 90
uname -r
[ "$(readlink /run/mellanox/drivers/usr/src/ofa_kernel/default)" = "x86_64/$(uname -r)" ]
stop_clean nic
CASE
    [ "$status" -eq 0 ]
    [[ $output == *"-cloud-amd64"* ]]
}
