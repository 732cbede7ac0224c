#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# proves: the node's side
# What the driver images refuse, and that they say why: cause, next step, stable reason, exit code.

load drivers

setup_file() {
    use_drivers
}

@test "no NVIDIA device: refused before anything is loaded" {
    run_case <<'CASE'
. /test/drivers.sh
simulate gpu=0
start gpu
exits gpu 12 30
termination_message gpu
container_log gpu | tail -n 1 >/tmp/last
expect "the last line ends with the command" grep -q 'gave up \[NO_NVIDIA_DEVICE\]: .* (see: slipway explain NO_NVIDIA_DEVICE)$' /tmp/last
expect_unloaded nvidia
expect_nothing_left
CASE
    [ "$status" -eq 0 ]
    [[ $output == *"NO_NVIDIA_DEVICE: none of the node's PCI devices is an NVIDIA GPU or NVSwitch (vendor id 10de)"* ]]
}

@test "no modules for the running kernel: the kernels that the image has are named" {
    run_case <<'CASE'
. /test/drivers.sh
simulate
start gpu:gpu-elsewhere
exits gpu 11 30
termination_message gpu
expect_nothing_left
CASE
    [ "$status" -eq 0 ]
    [[ $output == *"NO_MODULES_FOR_KERNEL: the running kernel is $VM_KREL; this image (driver "*") has modules for: 6.1.0-1-elsewhere. "* ]]
    [[ $output == *"slipway build --kernel $VM_KREL --os debian12"* ]]
}

@test "a hostPath mount that is missing, or that is not shared: refused by name, never ready unseen" {
    run_case <<'CASE'
. /test/drivers.sh
simulate
sed -i 's|^\(/run/nvidia .*\)rshared|\1rprivate|' /test/roles/gpu.mounts
# As containerd makes the root where no mount is Bidirectional; a shared root would share all mounts anew, with no peer.
sed -i 's|^propagation=rshared|propagation=rprivate|' /test/roles/gpu.conf
start gpu
exits gpu 19 30
termination_message gpu
sed -i '\|^/run/nvidia |d' /test/roles/gpu.mounts
start gpu
exits gpu 19 30
termination_message gpu
sed -i '\|^/run/mellanox/drivers |d' /test/roles/nic.mounts
start nic
exits nic 19 30
termination_message nic
sed -i '\|^/run/mellanox/drivers|d' /test/roles/peermem.mounts
start peermem GPU_DIRECT_RDMA_ENABLED=true SLIPWAY_OFED_DEADLINE_SECONDS=2
exits peermem 13 30
termination_message peermem
expect_unloaded nvidia
expect_nothing_left
CASE
    [ "$status" -eq 0 ]
    [[ $output == *"MOUNT_FAILED: /run/nvidia is mounted, but what is mounted below it does not reach the host: "*"mountPropagation: Bidirectional"* ]]
    [[ $output == *"MOUNT_FAILED: /run/nvidia is not a mount of the host"*"mount the hostPath /run/nvidia there"* ]]
    [[ $output == *"MOUNT_FAILED: /run/mellanox/drivers is not a mount of the host"* ]]
    [[ $output == *"OFED_NOT_READY: "*"/run/mellanox/drivers is not a mount of the host, so that the NIC container's flag"* ]]
}

@test "variables and arguments that do not fit are refused by name" {
    run_case <<'CASE'
. /test/drivers.sh
simulate
start gpu GPU_DIRECT_RDMA_ENABLED=ture
exits gpu 2 30
termination_message gpu
start nic -- precompiled extra
exits nic 2 30
termination_message nic
expect_nothing_left
CASE
    [ "$status" -eq 0 ]
    [[ $output == *'USAGE: GPU_DIRECT_RDMA_ENABLED=ture: give true (also 1, yes, on) or false'* ]]
    [[ $output == *'USAGE: nic-driver precompiled takes no arguments: "extra"'* ]]
}

@test "peermem built against another OFED: refused before the load, with both CRCs" {
    run_case <<'CASE'
. /test/drivers.sh
simulate
start nic:nic-other
wait_ready nic 90
start gpu GPU_DIRECT_RDMA_ENABLED=true
exits gpu 14 60
termination_message gpu
expect_unloaded nvidia nvidia_peermem
stop_clean nic
expect_nothing_left
CASE
    [ "$status" -eq 0 ]
    [[ $output =~ PEERMEM_OTHER_OFED:\ nvidia_peermem:\ built\ for\ ib_register_peer_memory_client\ CRC\ (0x[0-9a-f]{8}).*"ib_uverbs exports "(0x[0-9a-f]{8}) ]]
    [ "${BASH_REMATCH[1]}" != "${BASH_REMATCH[2]}" ]
}

@test "OFED does not come: the deadline's message says what is missing" {
    run_case <<'CASE'
. /test/drivers.sh
simulate
start gpu GPU_DIRECT_RDMA_ENABLED=true SLIPWAY_OFED_DEADLINE_SECONDS=2
exits gpu 13 30
termination_message gpu
expect_nothing_left
CASE
    [ "$status" -eq 0 ]
    [[ $output == *"OFED_NOT_READY: gave up after "[2-9]" s: the NIC driver container has not written /run/mellanox/drivers/.driver-ready"* ]]
}

@test "an inbox RDMA stack has no peer-memory interface, and that is said" {
    run_case <<'CASE'
. /test/drivers.sh
simulate
host_load ib_uverbs
start gpu GPU_DIRECT_RDMA_ENABLED=true USE_HOST_MOFED=true SLIPWAY_OFED_DEADLINE_SECONDS=2
exits gpu 28 30
termination_message gpu
expect_unloaded nvidia
CASE
    [ "$status" -eq 0 ]
    [[ $output == *"NO_PEER_MEMORY: gave up after "[2-9]" s: ib_uverbs is loaded but nothing exports ib_register_peer_memory_client"*"dma-buf"* ]]
}
