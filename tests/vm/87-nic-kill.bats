#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2154
# SPDX-License-Identifier: Apache-2.0
# proves: the node's side
# needs: any kernel
# SIGKILL in every phase of the NIC role's start and stop, and power failures: the next start finishes the job, and the
# network is what it was. make check-full does it at the places between them, and at random ones.

load simnet
load kill

setup_file() {
    in_each_guest use_simnet
    make_kill_points slipway-init
}

@test "killed while the new driver is loaded, while the network is restored, and in a stop: the next start serves" {
    nic_killed_in start swap-in:module:3 phase:restoring
    nic_killed_in stop undo:swap-in:module:1
}

# bats test_tags=full
@test "killed in a start, where something changed or is about to: the next start serves, with the network as it was" {
    nic_killed_in start host-files:after phase:unloading swap-out:module:1 phase:loading swap-in:module:3 phase:dependents reload-dependents:module:1 \
        phase:restoring network:links:masters phase:committed phase:none
}

# bats test_tags=full
@test "killed in a stop that gives the node's own driver back: the next start serves, and its stop gives it back" {
    nic_killed_in stop undo:restore-network:after phase:rollback undo:swap-in:module:1 undo:swap-out:module:1 swap:back
}

# A bond that lost its last port has a random MAC: a network manager would ask for a lease with it.
# bats test_tags=core
@test "killed between the drivers: a bond has its own MAC already" {
    run_nic_kill <<'CASE'
boot_node
configure_node
network_state >/tmp/before
mac=$(cat /sys/class/net/uplink/address)
killed_in_start phase:loading
refute "its port is still there" ip link show nic0
[ "$(cat /sys/class/net/uplink/address)" = "$mac" ] || fail "the bond has $(cat /sys/class/net/uplink/address), not $mac"
converges
CASE
    [ "$status" -eq 0 ]
}

# A node that loads no driver by itself, and a start that is refused: what the journal has is worth as much as before.
power_comes_and_a_start_fails() {
    run_nic_kill --node-disk "$1" <<'CASE'
node_disk
ls -l /var/opt/mofed-container/inventory/.slipway-network.journal
echo "options netdevsim devices=many" >/etc/modprobe.d/zz-bad.conf
start nic:nic-1
[ "$(wait_exit nic 120)" != 0 ] || fail "a value that the kernel refuses was taken"
container_log_has nic "^.*kept for the next start" || fail "it is not reported that the state is kept"
[ -e /var/opt/mofed-container/inventory/.slipway-network.journal ] || fail "the journal is gone"
rm /etc/modprobe.d/zz-bad.conf
CASE
    [ "$status" -eq 0 ]
}

# A node boots with its own driver and without VFs: what an operator of the cluster had put on the cards is only in the journal.
power_failure_at() {
    local disk=$BATS_TEST_TMPDIR/node.ext4 place=$1
    run_nic_kill --node-disk "$disk" <<CASE
node_disk
boot_node
configure_node
card_facts >/vm/node/before
sync
killed_in_start "$place"
crash
CASE
    [ "$status" -eq 0 ]
    [ -z "${2:-}" ] || power_comes_and_a_start_fails "$disk"
    run_nic_kill --node-disk "$disk" <<'CASE'
node_disk
# As a start of the stock image does (driver.go, cleanupDriverInventory()): each folder but the running kernel's.
find /var/opt/mofed-container/inventory -mindepth 1 -maxdepth 1 -type d ! -name "$(uname -r)" -exec rm -rf {} +
refute "our folder is not gone" [ -e /var/opt/mofed-container/inventory/.slipway ]
for link in /etc/modprobe.d/* /etc/udev/rules.d/*; do
    [ ! -L "$link" ] || refute "$link leads somewhere" [ -e "$link" ]
done
boot_node
start nic:nic-1
wait_ready nic 120
expect "netdevsim is not the image's" is_of nic-1 netdevsim
card_facts >/tmp/now
diff /vm/node/before /tmp/now || fail "the cards are not what they were"
[ ! -e /var/opt/mofed-container/inventory/.slipway-network.journal ] || fail "the journal is still there"
refute "the blacklist is still there" [ -L /etc/modprobe.d/blacklist-ofed-modules.conf ]
ip -4 -o address show dev nic1 | grep -q 203.0.113.1
stop_clean nic
expect "netdevsim is not the node's own" is_inbox netdevsim
CASE
    [ "$status" -eq 0 ]
}

@test "the power fails when the old driver is gone: the next boot's start gives the cards their VFs and modes back" {
    power_failure_at swap-out:after
}

# bats test_tags=full
@test "the power fails, the node comes up without a driver, and a start is refused: the one after it gives all back" {
    power_failure_at swap-out:after refused
}

# bats test_tags=full
@test "the power fails in the middle of bringing the network back" {
    power_failure_at network:devices
}
