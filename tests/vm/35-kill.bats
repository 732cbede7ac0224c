#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# proves: the node's side
# SIGKILL at every kind of place of start and stop: the next start converges. make check-full does it at random places.

load kill

setup_file() {
    use_kill_points
}

@test "killed in a start, before and after each step that changes something: the next start serves" {
    run_kill_case <<'CASE'
. /case/kill.sh
simulate
for place in clear-stale:after forget:after load:module:2 load:after export-root:after remember:before report-ready:after; do
    killed_in_start "$place"
done
converges
stop_clean gpu
expect_nothing_left
CASE
    [ "$status" -eq 0 ]
}

@test "killed in a stop: the next start serves, and its stop leaves nothing" {
    run_kill_case <<'CASE'
. /case/kill.sh
simulate
for place in undo:report-ready:after undo:load:module:1 undo:load:after undo:recognise:before; do
    killed_in_stop "$place"
done
converges
stop_clean gpu
expect_nothing_left
CASE
    [ "$status" -eq 0 ]
}

@test "killed where a start fails: the next one fails with the same reason" {
    run_kill_case <<'CASE'
. /case/kill.sh
mkdir -p /var/drivers
echo uvm_debug_prints=often >/var/drivers/nvidia-uvm.conf
echo "/var/drivers /drivers dir rbind,rprivate,ro" >>/test/roles/gpu.mounts
simulate
start gpu
exits gpu 25 60
termination_message gpu >/tmp/first
for place in prove:after undo:clear-stale:before; do
    killed_in_start "$place"
    start gpu
    exits gpu 25 60
    termination_message gpu | cmp - /tmp/first || fail "another reason after $place"
done
expect_nothing_left
CASE
    [ "$status" -eq 0 ]
}
