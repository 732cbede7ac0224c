#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2154
# SPDX-License-Identifier: Apache-2.0
# make check-full: SIGKILL at a hundred random places of the NIC role's start and stop, one run after the other on a node whose
# network is worth keeping; the start after each converges. KILL_SEED=N repeats a run.

bats_require_minimum_version 1.5.0
load ../simnet
load ../kill

# More places than a start and a stop have: now and then a run goes through whole.
places=72

setup_file() {
    export KILL_SEED=${KILL_SEED:-$(date +%s)}
    use_simnet
    make_kill_points slipway-init
}

# rounds PART COUNT: so many runs on one node; after every third the node gets its own driver back.
rounds() {
    local part=$1 count=$2 numbers
    echo "KILL_SEED=$KILL_SEED" >&3
    numbers=$(awk -v seed="$((KILL_SEED + part))" -v count="$count" -v places="$places" \
        'BEGIN { srand(seed); for (i = 0; i < count; i++) printf "%d ", 1 + int(rand() * places) }')
    runner=run_simnet run_kill_case --add "$vm_folder/simnet/node.sh" <<CASE
. /case/simnet.sh; . /case/kill.sh; . /case/node.sh
victim=nic victim_image=nic:nic-1
boot_node
configure_node
network_state >/tmp/before
round=0
for number in $numbers; do
    round=\$((round + 1))
    random_round "\$number"
    converges
    if [ \$((round % 3)) = 0 ]; then
        stop_clean nic
        expect_inbox
    else
        kill_hard nic
        wait_exit nic 20
    fi
    forget_containers_but_running
done
converges
stop_clean nic
expect_inbox
echo "\$round rounds converged"
CASE
    [ "$status" -eq 0 ]
    [[ $output == *"$count rounds converged"* ]]
}

# At the places between those of the ordinary run, which has one or two of each phase.
@test "killed in a start, between the phases: the next start serves, with the network as it was" {
    nic_killed_in start network:saved swap-out:after swap-in:after unblock:after network:devices restore-network:after swap:ready keep-modules:before
}

@test "killed in a stop, between the phases: the next start serves, and its stop gives the node's own driver back" {
    nic_killed_in stop undo:report-ready:after undo:swap-in:after undo:swap-out:after undo:save-network:before
}

@test "34 random places" {
    rounds 1 34
}

@test "33 more" {
    rounds 2 33
}

@test "and 33 more" {
    rounds 3 33
}
