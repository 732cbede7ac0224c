#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# Both driver images on a real kernel: they start in any order, serve, and leave nothing behind.

load drivers

setup_file() {
    use_drivers
}

@test "GPU container first: it waits for OFED, then loads everything, and both unload" {
    run_case <<'CASE'
. /test/drivers.sh
simulate
start gpu GPU_DIRECT_RDMA_ENABLED=true
wait_log gpu 'waiting wait-ofed: the NIC driver container has not written' 30
expect_unloaded nvidia
start nic
wait_ready nic 90
wait_ready gpu 90
expect_nic_serves
expect_gpu_serves
expect_loaded nvidia_peermem
[ "$(mounts_at /run/mellanox/drivers/usr/src)" = 1 ]
exec_in gpu slipway-init status
exec_in gpu slipway-init status --json
exec_in gpu nvidia-driver probe_nvidia_peermem
probe nic startup
probe nic liveness
stop_both
CASE
    [ "$status" -eq 0 ]
    [[ $output == *'"role":"gpu","state":"ready"'* ]]
}

@test "NIC container first: the GPU container does not wait" {
    run_case <<'CASE'
. /test/drivers.sh
simulate
start_both
refute "it waited" container_log_has gpu "waiting wait-ofed"
expect_gpu_serves
expect_loaded nvidia_peermem
stop_both
CASE
    [ "$status" -eq 0 ]
}

@test "without RDMA the GPU container needs no OFED and loads no peermem" {
    run_case <<'CASE'
. /test/drivers.sh
simulate
start gpu
wait_ready gpu 60
expect_gpu_serves
expect_unloaded nvidia_peermem ib_core
stop_clean gpu
expect_nothing_left
CASE
    [ "$status" -eq 0 ]
}

@test "the peermem container loads what the driver container has not, and its probe shows it" {
    run_case <<'CASE'
. /test/drivers.sh
simulate
start peermem
wait_log peermem 'waiting wait-ofed' 30
start nic
wait_log peermem 'waiting wait-nvidia' 90
refute "the probe says that peermem is there" exec_in peermem nvidia-driver probe_nvidia_peermem
start gpu
wait_ready peermem 90
expect_loaded nvidia_peermem
exec_in peermem nvidia-driver probe_nvidia_peermem
wait_ready gpu 90
stop_clean peermem
stop_both
CASE
    [ "$status" -eq 0 ]
}

@test "inbox RDMA modules make room for OFED's, which differ by build id" {
    run_case <<'CASE'
. /test/drivers.sh
simulate
host_load mlx5_ib
host_load rdma_cm
inbox=$(hexdump -ve '1/1 "%02x"' /sys/module/ib_core/notes/.note.gnu.build-id)
start nic RESTORE_DRIVER_ON_POD_TERMINATION=false
wait_ready nic 90
expect_nic_serves
[ "$(hexdump -ve '1/1 "%02x"' /sys/module/ib_core/notes/.note.gnu.build-id)" != "$inbox" ]
container_log nic | grep 'unloaded ib_core'
ofed=$(hexdump -ve '1/1 "%02x"' /sys/module/ib_core/notes/.note.gnu.build-id)
stop_clean nic
# Without RESTORE_DRIVER_ON_POD_TERMINATION OFED outlives its container; nothing else does.
expect_loaded mlx5_core mlx5_ib ib_core
[ "$(hexdump -ve '1/1 "%02x"' /sys/module/ib_core/notes/.note.gnu.build-id)" = "$ofed" ]
[ ! -e /run/mellanox/drivers/.driver-ready ] || fail ".driver-ready is still there"
[ "$(mounts_at /run/mellanox/drivers/usr/src)" = 0 ] || fail "OFED's sources are still mounted"
CASE
    [ "$status" -eq 0 ]
}

@test "with RESTORE_DRIVER_ON_POD_TERMINATION the inbox modules come back" {
    run_case <<'CASE'
. /test/drivers.sh
simulate
host_load mlx5_ib
inbox=$(hexdump -ve '1/1 "%02x"' /sys/module/mlx5_core/notes/.note.gnu.build-id)
start nic RESTORE_DRIVER_ON_POD_TERMINATION=true
wait_ready nic 90
[ "$(hexdump -ve '1/1 "%02x"' /sys/module/mlx5_core/notes/.note.gnu.build-id)" != "$inbox" ]
stop_clean nic
expect_loaded mlx5_core mlx5_ib ib_core
[ "$(hexdump -ve '1/1 "%02x"' /sys/module/mlx5_core/notes/.note.gnu.build-id)" = "$inbox" ]
CASE
    [ "$status" -eq 0 ]
}

# The GPU operator mounts OFED's sources themselves, HostToContainer, beside the folder above them.
@test "a GPU container that has mounted OFED's sources sees the next NIC container's, also another image's" {
    VM_TIMEOUT=300 run_case <<'CASE'
. /test/drivers.sh
simulate
sources=/run/mellanox/drivers/usr/src
symvers=$sources/ofa_kernel/default/Module.symvers
start nic
wait_ready nic 90
start gpu GPU_DIRECT_RDMA_ENABLED=true
wait_ready gpu 90

# follows CONTAINER: what it sees is shown by the NIC container that runs.
follows() {
    exec_in nic touch "/usr/src/mark.$round"
    exec_in "$1" cat "$symvers" | cmp - "$symvers" || fail "$1 has other symvers in round $round"
    exec_in "$1" test -e "$sources/mark.$round" || fail "$1 sees a dead container's sources in round $round"
}

# The kubelet removes a container that has ended.
restart() {
    kill_hard nic
    wait_exit nic 10
    start "$@"
    wait_ready nic 90
    rm -r "/vm/containers/nic/$((round - 1))/upper"
}

round=1
follows gpu
for round in 2 3; do
    restart nic
    expect_nic_serves
    follows gpu
done
round=4
restart nic:nic-other
expect_nic_serves
follows gpu
CASE
    [ "$status" -eq 0 ]
}
