#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# proves: the node's side
# The pod's containers for GPUDirect Storage and GDRCopy as the operator starts them, of the image that has their
# modules, which are bound to NVIDIA's (sources that stand in for them: tests/vm/addons, built by the recipes that build the
# real ones), and that image by itself.

load drivers

setup_file() {
    use_guest "$(images_krel)"
    VM_IMAGES=$VM_BUILD/images/addons.ext4
    export VM_IMAGES
    derive_image gpu-kit-elsewhere "$images_folder/addons/gpu.oci.tar" with_kit
    "$vm_folder/make-images-disk" "$VM_IMAGES" gpu="$(driver_image gpu-addons "$images_folder/addons/gpu.oci.tar")" \
        kit="$(image_name gpu-kit-elsewhere)"
}

# One that can compile, and has no modules for the running kernel.
with_kit() {
    rename_kernel
    mkdir -p "$root/usr/lib/slipway/kit"
    echo 'id=stand-in' >"$root/usr/lib/slipway/kit/kit.conf"
}

@test "they wait for the driver, load their module, and load it again after the driver was loaded anew" {
    run_case <<'CASE'
. /test/drivers.sh
simulate nic=0
start gdrcopy
start gds
wait_log gdrcopy 'waiting for nvidia-driver' 30
refute "before the driver" probe gdrcopy startup
start gpu
wait_ready gpu 90
refute "the driver container was not asked for them" container_log_has gpu 'loaded \(gdrdrv\|nvidia_fs\)'
wait_ready gdrcopy 40
wait_ready gds 40
probe gdrcopy startup
probe gds startup
expect_loaded gdrdrv nvidia_fs
expect_addon_nodes
exec_in gdrcopy slipway-init status | grep '^gdrcopy  ready'

# A driver container that was killed has a new root, and the modules that stayed are in it.
kill_hard gpu
wait_exit gpu 10
start gpu
wait_ready gpu 90
expect_addon_nodes

# The driver container goes and takes with it what holds its modules.
stop_clean gpu
expect_unloaded gdrdrv nvidia_fs nvidia
start gpu
wait_ready gpu 90
: >/run/nvidia/validations/.driver-ctr-ready # what the startup probe writes
poll 30 loaded gdrdrv || fail "gdrdrv did not come back"
poll 30 loaded nvidia_fs || fail "nvidia_fs did not come back"
# A module is listed from before its init on; the nodes come after that.
poll 30 [ -c /run/nvidia/driver/dev/nvidia-fs1 ] || fail "nvidia-fs1 did not come back: $(container_log gds | tail -5)"
poll 30 [ -c /run/nvidia/driver/dev/gdrdrv ] || fail "gdrdrv did not come back: $(container_log gdrcopy | tail -5)"
expect_addon_nodes
stop_clean gds
stop_clean gdrcopy
expect_loaded gdrdrv nvidia_fs
stop_clean gpu
expect_unloaded gdrdrv nvidia_fs nvidia
CASE
    [ "$status" -eq 0 ]
}

@test "what the driver container is asked for it loads, others leave it alone, and it goes before the driver" {
    run_case <<'CASE'
. /test/drivers.sh
simulate nic=0
start gpu GDRCOPY_ENABLED=true GDS_ENABLED=true
wait_ready gpu 90
expect_loaded gdrdrv nvidia_fs
expect_addon_nodes
exec_in gpu sh -c 'lsmod | grep nvidia_fs && lsmod | grep gdrdrv && nvidia-persistenced --version'
start gdrcopy
wait_ready gdrcopy 30
stop_clean gdrcopy
expect_loaded gdrdrv
expect_node gdrdrv gdrdrv 0
# As where the driver container compiled it on the node.
start gdrcopy:kit
wait_ready gdrcopy 30
stop_clean gdrcopy
expect_loaded gdrdrv
stop_clean gpu
expect_unloaded gdrdrv nvidia_fs nvidia
CASE
    [ "$status" -eq 0 ]
    # Debian's, with all that it links.
    [[ $output == *"nvidia-persistenced: "*version* || $output == *"nvidia-persistenced version"* || $output == *"version 5"* ]]
}
