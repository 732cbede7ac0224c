#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# Signals, crashes and drivers in use: nothing is half done, and the next start converges.

load drivers

setup_file() {
    use_drivers
}

@test "SIGTERM while waiting for OFED ends the wait at once" {
    run_case <<'CASE'
. /test/drivers.sh
simulate
start gpu GPU_DIRECT_RDMA_ENABLED=true
wait_log gpu 'waiting wait-ofed' 30
stop gpu
exits gpu 0 5
[ ! -s /vm/containers/gpu/now/termination-log ]
expect_nothing_left
CASE
    [ "$status" -eq 0 ]
}

@test "SIGTERM twice: the second one changes nothing about a stop that is under way" {
    run_case <<'CASE'
. /test/drivers.sh
simulate
start_both
stop gpu
crun kill gpu TERM
exits gpu 0 60
stop nic
exits nic 0 60
expect_nothing_left
CASE
    [ "$status" -eq 0 ]
}

@test "SIGTERM in the middle of loading unloads what was loaded" {
    run_case <<'CASE'
. /test/drivers.sh
simulate
start gpu
wait_log gpu 'begin load' 30
crun kill gpu TERM
exits gpu 0 60
refute "the signal came too late for this test" container_log_has gpu ' ready '
container_log_has gpu 'unloaded nvidia'
expect_nothing_left
CASE
    [ "$status" -eq 0 ]
}

@test "a process holds /dev/nvidia-uvm: named, nothing half unloaded, and the stop goes on when it ends" {
    run_case <<'CASE'
. /test/drivers.sh
simulate
start gpu
wait_ready gpu 60
device_node nvidia-uvm /dev/nvidia-uvm
hold /dev/nvidia-uvm
stop gpu
wait_log gpu "nvidia_uvm is in use by process $held_pid \(sleep, /dev/nvidia-uvm\)" 30
expect_loaded nvidia nvidia_uvm nvidia_modeset
kill "$held_pid"
exits gpu 0 10
expect_nothing_left
CASE
    [ "$status" -eq 0 ]
}

@test "a process that does not end: the stop gives up whole, and a retry succeeds" {
    run_case <<'CASE'
. /test/drivers.sh
simulate
start gpu SLIPWAY_UNLOAD_DEADLINE_SECONDS=2
wait_ready gpu 60
device_node nvidia-uvm /dev/nvidia-uvm
hold /dev/nvidia-uvm
stop gpu
exits gpu 16 30
termination_message gpu
expect_loaded nvidia nvidia_uvm nvidia_modeset
kill "$held_pid"
start gpu
wait_ready gpu 60
expect_gpu_serves
stop_clean gpu
expect_nothing_left
CASE
    [ "$status" -eq 0 ]
    [[ $output == *"MODULE_IN_USE: nvidia_uvm is in use by process "*"(sleep, /dev/nvidia-uvm)"* ]]
}

@test "a pinned module: reported as such, nothing half unloaded, and a retry succeeds" {
    run_case <<'CASE'
. /test/drivers.sh
simulate
start gpu SLIPWAY_UNLOAD_DEADLINE_SECONDS=2
wait_ready gpu 60
pin nvidia_modeset
stop gpu
exits gpu 16 30
termination_message gpu
expect_loaded nvidia nvidia_uvm nvidia_modeset
unpin
start gpu
wait_ready gpu 60
stop_clean gpu
expect_nothing_left
CASE
    [ "$status" -eq 0 ]
    [[ $output == *"MODULE_IN_USE: nvidia_modeset is in use"* ]]
}

@test "peermem in use: the NIC container names it and leaves OFED whole; once it is free, OFED goes and comes under it" {
    run_case <<'CASE'
. /test/drivers.sh
simulate
start nic SLIPWAY_UNLOAD_DEADLINE_SECONDS=2
wait_ready nic 90
start gpu GPU_DIRECT_RDMA_ENABLED=true
wait_ready gpu 90
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
stop_clean gpu
expect_nothing_left
CASE
    [ "$status" -eq 0 ]
    [[ $output == *"MODULE_IN_USE: nvidia_peermem uses OFED, and the GPU container cannot let it go: nvidia_peermem is in use: 1 reference(s)"* ]]
}

@test "SIGKILL and a restart: same modules, one mount, no stale flag, and a clean stop" {
    run_case <<'CASE'
. /test/drivers.sh
simulate
start_both
start peermem
wait_ready peermem 60
address=$(cat /sys/module/nvidia/sections/.text)
kill_hard gpu
wait_exit gpu 10
exec_in peermem slipway-init status >/tmp/status && fail "status says that all is well after a SIGKILL"
grep -q '^gpu      dead' /tmp/status
stop_clean peermem
: >/run/nvidia/validations/.driver-ctr-ready
start gpu GPU_DIRECT_RDMA_ENABLED=true
wait_ready gpu 90
[ "$(cat /sys/module/nvidia/sections/.text)" = "$address" ] || fail "nvidia was loaded anew"
[ ! -e /run/nvidia/validations/.driver-ctr-ready ] || fail "a stale flag survived"
expect_gpu_serves
kill_hard nic
wait_exit nic 10
start nic
wait_ready nic 90
expect_nic_serves
stop_both
CASE
    [ "$status" -eq 0 ]
}

@test "SIGKILL while waiting and while loading: the next start converges" {
    run_case <<'CASE'
. /test/drivers.sh
simulate
start gpu GPU_DIRECT_RDMA_ENABLED=true
wait_log gpu 'waiting wait-ofed' 30
kill_hard gpu
wait_exit gpu 10
start nic
wait_log nic 'begin swap-in' 60
kill_hard nic
wait_exit nic 10
start nic
wait_ready nic 90
start gpu GPU_DIRECT_RDMA_ENABLED=true
wait_log gpu 'begin load' 60
kill_hard gpu
wait_exit gpu 10
start gpu GPU_DIRECT_RDMA_ENABLED=true
wait_ready gpu 90
expect_gpu_serves
stop_both
CASE
    [ "$status" -eq 0 ]
}

@test "as process 1 the init reaps orphans that are not its own" {
    run_case <<'CASE'
. /test/drivers.sh
simulate
start nic
wait_ready nic 90
[ "$(exec_in nic sh -c 'readlink /proc/1/exe')" = /usr/bin/slipway-init ]
for orphan in 1 2 3 4 5; do exec_in nic sh -c '(sh -c "sleep 0.2; exit 3" &)'; done
sleep 1
zombies=$(exec_in nic sh -c 'grep -l "^State:.Z" /proc/[0-9]*/status || true')
[ -z "$zombies" ] || fail "not reaped: $zombies"
expect_nic_serves
stop_clean nic
CASE
    [ "$status" -eq 0 ]
}
