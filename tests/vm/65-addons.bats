#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# A GPU image with modules that are bound to NVIDIA's: gdrdrv and nvidia-fs, of sources that stand in for them
# (tests/vm/addons), built by the recipes that build the real ones.

load drivers

setup_file() {
    use_guest "$(images_krel)"
    VM_IMAGES=$VM_BUILD/images/addons.ext4
    export VM_IMAGES
    "$vm_folder/make-images-disk" "$VM_IMAGES" gpu="$(driver_image gpu-addons "$images_folder/addons/gpu.oci.tar")"
}

@test "gdrdrv and nvidia_fs are loaded where the operator asks for them, and leave before the driver" {
    run_case <<'CASE'
. /test/drivers.sh
simulate nic=0
start gpu
wait_ready gpu 90
refute "not asked for" loaded gdrdrv
refute "not asked for" loaded nvidia_fs
stop gpu
exits gpu 0 60
forget_containers
start gpu GDRCOPY_ENABLED=true GDS_ENABLED=true
wait_ready gpu 90
expect "asked for" loaded gdrdrv
expect "asked for" loaded nvidia_fs
exec_in gpu sh -c 'lsmod | grep nvidia_fs && lsmod | grep gdrdrv'
expect_addon_nodes
stop gpu
exits gpu 0 60
expect_unloaded gdrdrv nvidia_fs nvidia
CASE
    [ "$status" -eq 0 ]
}

@test "the image has Debian's nvidia-persistenced with all that it links" {
    run_case <<'CASE'
. /test/drivers.sh
simulate nic=0
start gpu
wait_ready gpu 90
exec_in gpu nvidia-persistenced --version
stop gpu
exits gpu 0 60
CASE
    [ "$status" -eq 0 ]
    [[ $output == *"nvidia-persistenced: "*version* || $output == *"nvidia-persistenced version"* || $output == *"version 5"* ]]
}
