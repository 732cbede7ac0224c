#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# proves: the node's side
# Signals, crashes and drivers in use: nothing is half done, and the next start converges.

load drivers

setup_file() {
    use_drivers
}

@test "SIGTERM while waiting for OFED ends the wait at once, also where the start before was killed in it; a driver of an earlier run stays, and the stop says so" {
    run_case <<'CASE'
. /test/drivers.sh
simulate
start gpu GPU_DIRECT_RDMA_ENABLED=true
wait_log gpu 'waiting wait-ofed' 30
kill_hard gpu
wait_exit gpu 10
start gpu GPU_DIRECT_RDMA_ENABLED=true
wait_log gpu 'waiting wait-ofed' 30
stop gpu
exits gpu 0 20
[ ! -s /vm/containers/gpu/now/termination-log ]
expect_nothing_left
start gpu
wait_ready gpu 60
kill_hard gpu
wait_exit gpu 10
start gpu GPU_DIRECT_RDMA_ENABLED=true
wait_log gpu 'waiting wait-ofed' 30
stop gpu
exits gpu 0 20
container_log_has gpu 'that was loaded before this start stays'
expect_loaded nvidia
start gpu
wait_ready gpu 60
stop_clean gpu
expect_nothing_left
CASE
    [ "$status" -eq 0 ]
}

@test "NIC container first: the GPU container does not wait. SIGTERM twice: the second one changes nothing about a stop that is under way" {
    run_case <<'CASE'
. /test/drivers.sh
simulate
start_both
refute "it waited" container_log_has gpu "waiting wait-ofed"
expect_gpu_serves
expect_loaded nvidia_peermem
stop gpu
kill -TERM "$(container_pid gpu)"
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
kill -TERM "$(container_pid gpu)"
exits gpu 0 60
refute "the signal came too late for this test" container_log_has gpu ' ready '
container_log_has gpu 'unloaded nvidia'
expect_nothing_left
CASE
    [ "$status" -eq 0 ]
}

@test "SIGKILL and a restart: same modules, one mount, no stale flag; a NIC container that stops meanwhile unloads peermem, and both come back" {
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

echo "==> the GPU container is dead while the NIC container stops"
kill_hard gpu
wait_exit gpu 10
expect_loaded nvidia_peermem
stop_clean nic
container_log nic | grep 'no GPU container runs that could unload nvidia_peermem'
expect_unloaded nvidia_peermem ib_uverbs
expect_loaded nvidia nvidia_uvm
start nic
wait_ready nic 90
start gpu GPU_DIRECT_RDMA_ENABLED=true
wait_ready gpu 90
poll 30 loaded nvidia_peermem || fail "peermem did not come back"
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
for orphan in 1 2 3 4 5; do exec_in nic sh -c '(sh -c "echo \$\$ >>/tmp/orphans; sleep 0.2; exit 3" &)'; done
all_started() { [ "$(exec_in nic sh -c 'cat /tmp/orphans' | wc -l)" = 5 ]; }
poll 30 all_started || fail "not every orphan has started"
# A zombie has its folder in /proc, too.
reaped() { exec_in nic sh -c 'for pid in $(cat /tmp/orphans); do [ ! -e /proc/$pid ] || exit 1; done'; }
poll 30 reaped || fail "not reaped: $(exec_in nic sh -c 'grep ^State /proc/[0-9]*/status')"
expect_nic_serves
stop_clean nic
CASE
    [ "$status" -eq 0 ]
}
