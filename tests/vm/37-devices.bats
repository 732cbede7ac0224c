#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# proves: the node's side
# Other drivers that have the GPU. nouveau is the kernel's own; it does not know the simulated GPU's chip, so it is
# loaded here but drives nothing. vfio-pci takes no device without an IOMMU, which the simulated bus has not: what it
# does is in tests/unit/entrypoint/test_devices.c. pci-stub takes any.

load drivers

setup_file() {
    use_drivers
}

@test "W17 nouveau goes before nvidia comes" {
    run_case <<'CASE'
. /test/drivers.sh
simulate
host_load nouveau
start gpu
wait_ready gpu 60
expect "nouveau was not unloaded" container_log_has gpu 'unloaded nouveau'
expect_unloaded nouveau
expect_gpu_serves
stop_clean gpu
expect_nothing_left
CASE
    [ "$status" -eq 0 ]
}

@test "nouveau that something uses, but that drives no NVIDIA device, is reported and left" {
    run_case <<'CASE'
. /test/drivers.sh
simulate
host_load nouveau
pin nouveau
start gpu
wait_ready gpu 60
expect "not reported" container_log_has gpu 'left loaded, as it drives no NVIDIA device: nouveau is in use: 1 reference'
expect_loaded nouveau
expect_gpu_serves
stop_clean gpu
expect_nothing_left
CASE
    [ "$status" -eq 0 ]
}

@test "the only GPU is parked with pci-stub: reported, not taken, and what was unloaded for nothing comes back" {
    run_case <<'CASE'
. /test/drivers.sh
host_load pci-stub ids=10de:20b0
simulate
host_load nouveau
start gpu
exits gpu 26 60
termination_message gpu
expect_unloaded nvidia
expect_loaded nouveau
[ -d /sys/bus/pci/drivers/pci-stub/0000:40:00.0 ] || fail "the GPU was taken from pci-stub"
expect "nouveau was not there meanwhile" container_log_has gpu 'unloaded nouveau'
echo 0000:40:00.0 >/sys/bus/pci/drivers/pci-stub/unbind
start gpu
wait_ready gpu 60
stop_clean gpu
expect_nothing_left
CASE
    [ "$status" -eq 0 ]
    [[ $output == *"DEVICE_HELD: 0000:40:00.0 is bound to pci-stub on purpose, and no other NVIDIA device is free"* ]]
}

@test "a GPU that the open modules do not drive: refused before anything is unloaded" {
    run_case <<'CASE'
. /test/drivers.sh
simulate gpu_device=0x1db6
host_load nouveau
start gpu
exits gpu 12 60
termination_message gpu
expect_loaded nouveau
expect_unloaded nvidia
refute "nouveau went" container_log_has gpu 'unloaded nouveau'
CASE
    [ "$status" -eq 0 ]
    [[ $output == *"NO_NVIDIA_DEVICE: the image has NVIDIA's open modules, which drive only Turing and newer GPUs, but every GPU of this node is older: 0000:40:00.0 (10de:1db6). Nothing was unloaded"* ]]
}

@test "a GPU of a chip that the driver's own list does not have: refused before anything is unloaded" {
    run_case <<'CASE'
. /test/drivers.sh
simulate gpu_device=0x2b85
host_load nouveau
start gpu
exits gpu 12 60
termination_message gpu
expect_loaded nouveau
expect_unloaded nvidia
refute "nouveau went" container_log_has gpu 'unloaded nouveau'
start gpu SLIPWAY_UNLISTED_GPUS=true
expect "it was not tried" wait_log gpu 'unloaded nouveau' 60
wait_ready gpu 60
stop_clean gpu
CASE
    [ "$status" -eq 0 ]
    [[ $output == *"NO_NVIDIA_DEVICE: driver 535."*" drives only the chips in its list, supported-gpus.json, but every GPU of this node is of another chip: 0000:40:00.0 (10de:2b85). Nothing was unloaded; use an image of a newer driver"* ]]
}
