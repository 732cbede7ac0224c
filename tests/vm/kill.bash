# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# For tests that kill the init, or nettool, at a place of their choice: programs with kill points
# (entrypoint/engine/kill_point.h). This slipway-init lies over the image's own in the containers.
# shellcheck source-path=SCRIPTDIR source=drivers.bash
. "$(dirname "${BASH_SOURCE[0]}")/drivers.bash"

kill_build=$(cd "$vm_folder/../.." && realpath -m "${O:-build}")/kill-points

# Images are Debian 12's as this machine is: what is compiled here runs in them.
use_kill_points() {
    use_drivers
    make_kill_points slipway-init
    "$kill_build/slipway-init" --version | grep -q 'kill points'
}

# make_kill_points PROGRAM: makes $kill_build/PROGRAM.
make_kill_points() {
    local lock program=${1:?the name of a program}
    mkdir -p "$kill_build"
    exec {lock}>"$kill_build/.lock"
    flock "$lock"
    make -s -C "$vm_folder/../.." O="$kill_build" KILL_POINTS=1 "$kill_build/$program" >/dev/null
    exec {lock}>&-
}

# run_kill_case <SCRIPT: run_case with the vocabulary of kill-case.sh; `runner=run_simnet run_kill_case` for another node.
run_kill_case() {
    "${runner:-run_case}" --add "$kill_build/slipway-init" --add "$vm_folder/kill-case.sh:kill.sh" "$@"
}

# run_nic_kill [OPTION…] <CASE: the NIC role of the image nic-1 on the node of simnet.bash.
# shellcheck disable=SC2120 # BATS files pass options
run_nic_kill() {
    {
        echo '. /case/simnet.sh; . /case/kill.sh; . /case/node.sh; victim=nic; victim_image=nic:nic-1'
        cat
    } >"$BATS_TEST_TMPDIR/nic-case"
    runner=run_simnet run_kill_case --add "$vm_folder/simnet/node.sh" "$@" <"$BATS_TEST_TMPDIR/nic-case"
}

# nic_killed_in start|stop PLACE…: a node with a network worth keeping; killed at each place, the next start serves, the
# network is as before, and its stop gives the node's own driver back.
nic_killed_in() {
    local at=$1
    shift
    # shellcheck disable=SC2119
    run_nic_kill <<CASE
boot_node
configure_node
network_state >/tmp/before
for place in $*; do
    killed_in_$at "\$place"
    converges
    stop_clean nic
    expect_inbox
    forget_containers
done
CASE
    [ "$status" -eq 0 ]
}
