#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2154
# SPDX-License-Identifier: Apache-2.0
# proves: the node's side
# needs: any kernel
# What the NIC role does when the network's state cannot be saved, or when a run ends between the network's return and the end
# of its swap.

load simnet
load kill

setup_file() {
    in_each_guest use_simnet
    make_kill_points slipway-init
}

run_node() {
    {
        echo '. /case/simnet.sh; . /case/node.sh; . /case/kill.sh; . /case/node.sh; victim=nic; victim_image=nic:nic-1'
        cat
    } >"$BATS_TEST_TMPDIR/nic-case"
    runner=run_simnet run_kill_case --add "$vm_folder/simnet/node.sh" <"$BATS_TEST_TMPDIR/nic-case"
}

# bats test_tags=core
@test "RESTORE with an inventory that turned read-only: OFED stays, and so does the network" {
    run_node <<'CASE'
inventory=/var/opt/mofed-container/inventory
mkdir -p $inventory
mount -t tmpfs inventory $inventory
boot_node
configure_node
network_state >/tmp/before
start nic:nic-1
wait_ready nic 120
expect_nic_serves
mount -o remount,ro $inventory
stop nic
wait_exit nic 120
container_log nic | grep -E 'cannot be saved|not saved' || fail "it is not reported that nothing was saved"
expect "OFED was unloaded" is_of nic-1 netdevsim
expect_state /tmp/before "the network is not what it was"
mount -o remount,rw $inventory
start nic:nic-1
wait_ready nic 120
stop_clean nic
expect_inbox
CASE
    [ "$status" -eq 0 ]
}

@test "killed with no driver loaded, and then the disk turns read-only: the next start gives the network back, once" {
    run_node <<'CASE'
inventory=/var/opt/mofed-container/inventory
mkdir -p $inventory
mount -t tmpfs inventory $inventory
boot_node
configure_node
network_state >/tmp/before
killed_in_start swap-out:after
mount -o remount,ro $inventory
start nic:nic-1
wait_ready nic 120
expect "netdevsim is not the image's" is_of nic-1 netdevsim
expect_state /tmp/before "the network is not what it was"
container_log_has nic "^.*network.journal cannot be removed" || fail "it is not reported that the journal stays"
# It is done with all the same: what has changed since is not taken back.
kill_hard nic
wait_exit nic 20
ip link set uplink mtu 3000
network_state >/tmp/changed
start nic:nic-1
wait_ready nic 120
expect_state /tmp/changed "a journal that was done with was believed"
mount -o remount,rw $inventory
ip link set uplink mtu 4000
ip link set uplink.100 mtu 4000 # the kernel takes it down with uplink, not up
stop_clean nic
expect_inbox
CASE
    [ "$status" -eq 0 ]
}

# bats test_tags=full
@test "a run that was killed before its last step; the next one fails, or is stopped: the network is what it was" {
    run_node <<'CASE'
boot_node
configure_node
network_state >/tmp/before
# It finds all the same, ends that swap at once, and fails after it: there is nothing to go back from.
killed_in_start swap:ready
start nic:nic-1 SLIPWAY_KILL_AT=report-ready:before
killed_at nic report-ready:before
! grep -E '^phase name=(unloading|loading|dependents|restoring|rollback)$' /run/mellanox/drivers/slipway/swap.journal || fail "the swap is not over"
expect "OFED was unloaded" is_of nic-1 netdevsim
expect_state /tmp/before "the network is not what it was"
start nic:nic-1
wait_ready nic 120
stop_clean nic
expect_inbox
# It fails before it knows: back to what was there, with the network.
forget_containers
killed_in_start swap:ready
echo "options netdevsim devices=many" >/etc/modprobe.d/zz-bad.conf
start nic:nic-1
[ "$(wait_exit nic 120)" != 0 ] || fail "a value that the kernel refuses was taken"
rm /etc/modprobe.d/zz-bad.conf
container_log_has nic "^.*devices=many" || fail "it failed for another reason"
expect_inbox
CASE
    [ "$status" -eq 0 ]
}
