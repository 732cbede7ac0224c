#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# make check-full: SIGKILL at a hundred random places of start and stop, one run after the other on the same node; the start
# after each converges. KILL_SEED=N repeats a run.

bats_require_minimum_version 1.5.0
load ../kill

# More places than a start and a stop have: now and then a run goes through whole.
places=60

setup_file() {
    export KILL_SEED=${KILL_SEED:-$(date +%s)}
    use_kill_points
}

# numbers PART COUNT: random numbers of places, by the seed and the part.
numbers() {
    echo "KILL_SEED=$KILL_SEED" >&3
    awk -v seed="$((KILL_SEED + $1))" -v count="$2" -v places="$places" \
        'BEGIN { srand(seed); for (i = 0; i < count; i++) printf "%d ", 1 + int(rand() * places) }'
}

# rounds PART COUNT PREPARE [KEY=VALUE…]: so many runs on one node; every third that serves is stopped, the others are killed.
rounds() {
    local part=$1 count=$2 prepare=$3
    shift 3
    VM_TIMEOUT=2400 run_kill_case <<CASE
. /case/kill.sh
simulate
$prepare
round=0
for number in $(numbers "$part" "$count"); do
    round=\$((round + 1))
    random_round "\$number" $*
    converges $*
    if [ \$((round % 3)) = 0 ]; then
        stop_clean gpu
        expect_unloaded nvidia nvidia_uvm nvidia_modeset nvidia_peermem
        [ "\$(mounts_at /run/nvidia/driver)" = 0 ] || fail "the driver root is still mounted"
    else
        kill_hard gpu
        wait_exit gpu 20
    fi
    forget_containers_but_running
done
converges $*
stop_clean gpu
[ ! -e /run/mellanox/drivers/.driver-ready ] || stop_clean nic
expect_nothing_left
echo "\$round rounds converged"
CASE
    [ "$status" -eq 0 ]
    [[ $output == *"$count rounds converged"* ]]
}

@test "35 random places without RDMA: the next start serves" {
    rounds 1 35 ""
}

@test "35 more" {
    rounds 2 35 ""
}

@test "30 random places with OFED and peermem" {
    rounds 3 30 "start nic; wait_ready nic 90" GPU_DIRECT_RDMA_ENABLED=true
}
