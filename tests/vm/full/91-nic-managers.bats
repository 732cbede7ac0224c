#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2154 # what is in quotes is for the guest
# SPDX-License-Identifier: Apache-2.0
# The NIC container beside a network manager: real ones, of Debian 12, with static addresses and those of a real DHCP server,
# on PFs, bonds, VLANs over a bond, and bridges (the cells in tests/vm/managers/case.sh). After a swap and after the restore
# each is reached, and leases are renewed. The cards are Intel's igb as QEMU emulates it.

load ../simnet

setup_file() {
    use_simnet
    use_igb
    managers_system=$VM_BUILD/managers/system.ext4
    export managers_system
    "$vm_folder/make-system" "$managers_system" bookworm systemd udev dbus network-manager ifupdown isc-dhcp-client ifenslave \
        bridge-utils netplan.io iproute2 dnsmasq-base crun libc-bin dash coreutils sed grep mawk util-linux
}

# run_beside MANAGER WORDS: a swap and a restore beside it. WORDS are said after either; $said is a file with what the
# container said of it.
run_beside() {
    run_simnet --system "$managers_system" --pf 8 --peers 4 --add "$vm_folder/managers/case.sh:managers.sh" <<CASE
. /case/managers.sh
node_with $1
echo "==> swap"
start nic:nic-1
wait_ready nic 120
expect "igb is not the image's" is_of nic-1 igb
expect_cells
said=/tmp/status
exec_in nic slipway-init status >\$said
$2
echo "==> restore"
stop_clean nic
expect "igb is not the node's own" is_inbox igb
expect_cells
said=/tmp/log
container_log nic | sed '1,/ undo /d' >\$said
$2
CASE
    [ "$status" -eq 0 ]
}

all_are_renewed='
refute "something could not be restored" grep -E "(could )?not (be )?restored" $said
expect_renewed $(leases)'

@test "systemd-networkd" {
    run_beside networkd "$all_are_renewed"
}

@test "systemd-networkd, configured by netplan" {
    run_beside netplan "$all_are_renewed"
}

@test "NetworkManager" {
    run_beside NetworkManager "$all_are_renewed"
}

@test "ifupdown: what a port's dhclient needs is said, and helps" {
    run_beside ifupdown '
grep -E "(could )?not (be )?restored: " $said | grep -v "restored: [^:]*: the lease" >/vm/losses || true
refute "more than a lease could not be restored" grep . /vm/losses
expect_renewed bond0 bond0.10 br0
poll 120 is_overdue enp1s0 || fail "the lease of enp1s0 is renewed by itself"
refute "the lease of enp1s0 is renewed by itself" is_renewed enp1s0
follow enp1s0 $said
expect_cells
expect_renewed enp1s0'
}
