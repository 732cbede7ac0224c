#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# proves: the node's side
# nvidia-peermem follows OFED as it comes and goes under a running GPU container.

load drivers

setup_file() {
    use_drivers
}

use_two_peermems() {
    derive_image gpu-two "$images_folder/gpu.oci.tar" put_variants
    VM_IMAGES=$VM_BUILD/images/two-peermems.ext4
    "$vm_folder/make-images-disk" "$VM_IMAGES" gpu="$(image_name gpu-two)" \
        nic="$(driver_image nic "$images_folder/nic.oci.tar")" \
        nic-other="$(driver_image nic-other "$images_folder/other/nic.oci.tar")"
}

# Times in these cases are counted in instructions: what else runs on this machine hardly matters.
@test "OFED is reloaded twice under a running GPU container: peermem is back each time, and how soon is printed" {
    run_case --icount <<'CASE'
. /test/drivers.sh
simulate
start_both
for round in 1 2; do
    stop_clean nic
    expect_unloaded nvidia_peermem ib_uverbs
    expect_gpu_serves
    start nic
    wait_ready nic 90
    poll 30 loaded nvidia_peermem || fail "peermem did not come back"
done
poll 30 sh -c '[ "$(grep -c "\"event\":\"peermem\"" /run/nvidia/slipway/gpu.events.jsonl)" = 2 ]'
sed -n 's/.*"event":"peermem".*"message":"\([^"]*\)".*/latency: \1/p' /run/nvidia/slipway/gpu.events.jsonl
exec_in gpu nvidia-driver probe_nvidia_peermem
stop_both
CASE
    [ "$status" -eq 0 ]
    printf '%s\n' "${lines[@]}" | grep '^latency' >&3
    [ "$(printf '%s\n' "${lines[@]}" | grep -c '^latency: loaded [0-9.]* ms after')" -eq 2 ]
}

@test "an OFED of another CRC comes: of two nvidia-peermems the one that fits is loaded, and lies where modprobe finds it" {
    use_two_peermems
    run_case <<'CASE'
. /test/drivers.sh
of_root=/run/nvidia/driver/lib/modules/$(uname -r)/updates/nvidia/nvidia-peermem.ko
variants=/images/gpu/rootfs/usr/lib/slipway/kernels/$(uname -r)/peermem
simulate
start_both
start peermem
wait_ready peermem 60
expect_loaded nvidia_peermem
stop_clean nic
start nic:nic-other other
wait_ready other 90
poll 30 loaded nvidia_peermem || fail "no peermem for the other OFED"
wait_log gpu 'using the nvidia-peermem built for OFED second' 5
cmp "$variants/1/nvidia-peermem.ko" "$of_root"
# The GPU container's root, also where the peermem container follows OFED.
kill_hard gpu
wait_exit gpu 10
wait_log peermem 'lets nvidia_peermem follow OFED' 10
start gpu GPU_DIRECT_RDMA_ENABLED=true
wait_ready gpu 90
cmp "$variants/1/nvidia-peermem.ko" "$of_root"
stop_clean other
start nic
wait_ready nic 90
poll 30 loaded nvidia_peermem || fail "no peermem for the first OFED"
poll 30 cmp "$variants/0/nvidia-peermem.ko" "$of_root"
stop_clean peermem
stop_both
CASE
    [ "$status" -eq 0 ]
}

@test "peermem in use keeps OFED whole; an OFED that nothing fits is said with both CRCs, W2 takes the driver's state away, and all is back with the first" {
    run_case <<'CASE'
. /test/drivers.sh
state=/run/nvidia/nvidia-driver.state
simulate
start nic SLIPWAY_UNLOAD_DEADLINE_SECONDS=2
wait_ready nic 90
start gpu GPU_DIRECT_RDMA_ENABLED=true
wait_ready gpu 90
[ -e "$state" ]

pin nvidia_peermem
stop nic
exits nic 16 30
termination_message nic
[ ! -e /run/mellanox/drivers/.driver-ready ]
expect_loaded ib_core ib_uverbs mlx5_core mlx5_ib nvidia_peermem
unpin
start nic
wait_ready nic 90
expect_loaded nvidia_peermem
stop_clean nic
expect_unloaded nvidia_peermem ib_uverbs

start nic:nic-other other
wait_ready other 90
wait_log gpu 'PEERMEM_OTHER_OFED' 10
exec_in gpu slipway-init status | grep '^gpu' | sed 's/^gpu/status: gpu/'
expect_gpu_serves
wait_gone "$state" 5
wait_log gpu 'OFED changed under the running driver' 30
stop_clean other
start nic
wait_ready nic 90
poll 30 loaded nvidia_peermem || fail "peermem did not come back"
refute "the status still complains" sh -c "grep reason=PEERMEM /run/nvidia/slipway/gpu.status"
wait_file "$state" 5 gpu

rmmod nvidia_modeset
wait_gone "$state" 5
wait_log gpu 'nvidia_modeset changed under the running driver' 30
stop_both
CASE
    [ "$status" -eq 0 ]
    [[ $output == *"MODULE_IN_USE: nvidia_peermem uses OFED, and the GPU container cannot unload it: nvidia_peermem is in use: 1 reference(s)"* ]]
    [[ $output =~ "status: gpu      ready"[^$'\n']*"[PEERMEM_OTHER_OFED]: nvidia_peermem: built for ib_register_peer_memory_client CRC "(0x[0-9a-f]{8})[^$'\n']*"has "(0x[0-9a-f]{8}) ]]
    [ "${BASH_REMATCH[1]}" != "${BASH_REMATCH[2]}" ]
}

@test "the peermem container: its probe holds while OFED is away, it takes over from a killed GPU container" {
    run_case <<'CASE'
. /test/drivers.sh
simulate
start_both
start peermem
wait_ready peermem 60
container_log_has peermem 'successfully loaded nvidia-peermem module'
stop_clean nic
expect "the liveness probe while OFED is away" probe peermem liveness
kill_hard gpu
wait_exit gpu 10
wait_log peermem 'lets nvidia_peermem follow OFED' 10
start nic
expect "the liveness probe while OFED loads" probe peermem liveness
wait_ready nic 90
poll 30 loaded nvidia_peermem || fail "peermem did not come back"
expect "the liveness probe" probe peermem liveness
wait_log peermem 'peermem \(.* loaded .* after OFED' 5
stop_clean nic
container_log nic | grep 'the GPU container unloaded nvidia_peermem in'
[ "$(container_log peermem | grep -c 'successfully loaded nvidia-peermem module')" = 2 ]
stop_clean peermem
start gpu GPU_DIRECT_RDMA_ENABLED=true
wait_log gpu 'waiting wait-ofed' 30
start nic
wait_ready gpu 90
stop_both
CASE
    [ "$status" -eq 0 ]
}

@test "RDMA is asked for on a node without a NIC: the start does not wait, and peermem comes with OFED" {
    run_case <<'CASE'
. /test/drivers.sh
simulate nic=0
start gpu GPU_DIRECT_RDMA_ENABLED=true
wait_ready gpu 60
container_log gpu | grep 'no Mellanox PCI device (15b3): not waiting for OFED'
expect_gpu_serves
expect_unloaded nvidia_peermem
start nic
wait_ready nic 90
poll 30 loaded nvidia_peermem || fail "peermem did not follow"
stop_both
CASE
    [ "$status" -eq 0 ]
}

@test "USE_HOST_MOFED: the host's OFED is followed too, and nothing is in the way of who unloads it" {
    run_case <<'CASE'
. /test/drivers.sh
host_ofed() {
    for module in ib_core ib_uverbs mlxfw mlx5_core mlx5_ib; do
        host_load_file "/images/nic/rootfs/lib/modules/$(uname -r)/updates/ofed/$module.ko"
    done
}
simulate
host_ofed
start gpu GPU_DIRECT_RDMA_ENABLED=true USE_HOST_MOFED=true
wait_ready gpu 90
expect_loaded nvidia_peermem
rmmod nvidia_peermem
sleep 0.3
expect_unloaded nvidia_peermem
rmmod mlx5_ib mlx5_core mlxfw ib_uverbs ib_core
host_ofed
poll 30 loaded nvidia_peermem || fail "peermem did not follow the host's OFED"
stop_clean gpu
CASE
    [ "$status" -eq 0 ]
}
