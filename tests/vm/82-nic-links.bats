#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# proves: the node's side
# needs: any kernel
# The half of the network state that hangs on interfaces: cards whose driver is unloaded and loaded again, with the kernel's own
# bonds, VLANs, bridges, VRFs and tunnels on them. The cards are QEMU's, on one hub, whose driver is e1000e; in User Mode Linux,
# netdevsim's. A case has the driver's name in $driver.

load simnet
load kill

setup_file() {
    make_tools "$BATS_FILE_TMPDIR/tools"
    in_each_guest use_cards
}

use_cards() {
    if [ "$guest" = um ]; then
        use_simnet
    else
        use_guest "$(images_krel)"
    fi
}

# make_tools FOLDER: nettool and this machine's iproute2 with their libraries: the guest has none.
make_tools() {
    local program library
    make_kill_points nettool
    mkdir -p "$1/lib"
    cp "$kill_build/nettool" /sbin/ip /sbin/bridge "$1/"
    for program in "$1"/{nettool,ip,bridge}; do
        ldd "$program" | grep -o '/[^ ]*' | while read -r library; do
            cp -L "$library" "$1/lib/"
        done
    done
}

# run_links CARDS <CASE: a case that starts with `. /test/links.sh`.
run_links() {
    if [ "$guest" = um ]; then
        {
            echo ". /case/simnet.sh; driver=netdevsim; echo options netdevsim devices=$1 >/etc/modprobe.d/netdevsim.conf"
            cat
        } >"$BATS_TEST_TMPDIR/links"
        run_simnet --travel --add "$BATS_FILE_TMPDIR/tools" <"$BATS_TEST_TMPDIR/links"
    else
        run_case --nic "$1" --add "$BATS_FILE_TMPDIR/tools" < <(echo driver=e1000e && cat)
    fi
}

# bats test_tags=core
@test "all that stands on a driver's interfaces comes back" {
    run_links 6 <<'CASE'
. /test/links.sh
modprobe -a $driver 8021q bridge vrf macvlan vxlan ip_gre veth
modprobe bonding max_bonds=0
ip link set eth0 name mgmt0
ip link set mgmt0 address 02:11:22:33:44:55 mtu 9000 txqueuelen 555 group 7 alias "to the rack, 100%"
ip link property add dev mgmt0 altname enp0s17 altname management-network-of-the-node
echo 2 >/proc/sys/net/ipv4/conf/mgmt0/rp_filter
echo 1 >/proc/sys/net/ipv4/conf/mgmt0/forwarding
echo 0 >/proc/sys/net/ipv6/conf/mgmt0/accept_ra
echo 12 >/proc/sys/net/ipv6/conf/mgmt0/hop_limit
echo 77 >/proc/sys/net/ipv4/neigh/mgmt0/ucast_solicit
echo 76 >/proc/sys/net/ipv6/neigh/mgmt0/ucast_solicit
echo 1 >/proc/sys/net/ipv6/conf/eth4/disable_ipv6
ip link set mgmt0 up promisc on
ip address add 10.0.0.1/24 broadcast + dev mgmt0
ip address add 10.0.0.2/24 dev mgmt0 label mgmt0:vip
ip address add 10.9.0.1 peer 10.9.0.2/32 dev mgmt0
ip address add 10.0.5.1/24 dev mgmt0 valid_lft 4000 preferred_lft 2000
ip address add 2001:db8::1/64 dev mgmt0
ip address add 2001:db8:1::1/64 dev mgmt0 noprefixroute
ip address add 2001:db8:2::1/64 dev mgmt0 preferred_lft 0
ip address add 2001:db8:3::1/64 dev mgmt0 preferred_lft 3000
# What goes with the interface under it, one of them on another of them.
ip link add link mgmt0 name storage type vlan id 110 ingress-qos-map 1:2 egress-qos-map 3:4
ip link set storage mtu 8000 up
ip address add 10.10.0.1/24 dev storage
ip link add link storage name inner type vlan proto 802.1ad id 11
ip link set inner up
ip address add 10.11.0.1/24 dev inner
ip link add link mgmt0 name mac0 type macvlan mode bridge
ip link set mac0 address 02:00:00:00:00:77 up
ip address add 10.12.0.1/24 dev mac0
# An address that another interface has as well, and keeps.
ip address add 10.12.0.1/32 dev lo
# A container network's tunnels: one goes, the other stays and is bound to what is not there any more.
ip link add vx0 type vxlan id 42 dev mgmt0 dstport 4789 local 10.0.0.1 nolearning
ip link set vx0 up
ip address add 10.42.0.1/32 dev vx0
bridge fdb append 02:00:00:00:42:02 dev vx0 dst 10.0.0.9
ip neigh add 10.42.0.2 lladdr 02:00:00:00:42:02 dev vx0
ip route add 10.42.1.0/24 via 10.42.0.2 dev vx0 onlink
ip link add gre1 type gre local 10.0.0.1 remote 10.0.0.7 dev mgmt0 key 5
ip link set gre1 up
# Masters stay without their ports, but forget what they knew of them.
ip link add bond0 type bond mode active-backup miimon 50 primary eth2
ip link set bond0 address 02:bb:bb:bb:bb:bb
ip link set eth1 master bond0
ip link set eth2 master bond0
ip link set eth2 type bond_slave prio 7
ip link set bond0 mtu 4000 up
ip link add link bond0 name bond0.20 type vlan id 20
ip link set bond0.20 up
ip address add 10.20.0.1/24 dev bond0.20
ip address add 2001:db8:20::1/64 dev bond0.20
ip link add br0 type bridge vlan_filtering 1
ip link set eth3 master br0
ip link set eth3 type bridge_slave cost 77 priority 5 guard on
bridge vlan del dev eth3 vid 1
bridge vlan add dev eth3 vid 10 pvid untagged
bridge vlan add dev eth3 vid 20-22
bridge fdb add 02:00:00:00:00:99 dev eth3 master static vlan 10
ip link set br0 up
ip link set eth3 up
ip address add 10.30.0.1/24 dev br0
ip link add red type vrf table 100
ip link set red up
ip link set eth4 master red
ip link set eth4 up
ip address add 10.40.0.1/24 dev eth4
ip route add 10.41.0.0/16 via 10.40.0.9 vrf red
# Routes: by a gateway that another route leads to, by several ways of which one is not the driver's, from an address
# that goes, and by nexthops that have numbers, a group's lower than its members'.
ip link add v0 type veth peer name v1
ip link set v0 up
ip link set v1 up
ip address add 10.50.0.1/24 dev v0
ip address add 2001:db8:50::1/64 dev v0
settle
ip route add 10.60.0.1/32 dev mgmt0
ip route add 10.61.0.0/16 via 10.60.0.1
ip route add default via 10.0.0.254 src 10.0.0.2 metric 50
ip route add 172.16.0.0/12 via 172.31.0.1 dev mgmt0 onlink proto bird mtu 1400
ip route add 192.168.1.0/24 table 200 nexthop via 10.0.0.253 weight 3 nexthop via 10.50.0.9 weight 1
ip route add 192.168.2.0/24 dev v0 src 10.0.0.1
ip route add local 192.168.3.0/24 dev mgmt0
ip route add 198.51.100.0/24 via 10.0.0.254
ip route append 198.51.100.0/24 via 10.0.0.253
ip -6 route add default via 2001:db8::fe src 2001:db8::1 metric 50
ip -6 route add 2001:db8:99::/48 nexthop via 2001:db8::f1 nexthop via 2001:db8:50::f2
ip -6 route add 2001:db8:98::/48 via fe80::1 dev mgmt0 expires 3000
ip nexthop add id 7 via 10.0.0.77 dev mgmt0
ip nexthop add id 8 via 10.50.0.77 dev v0
ip nexthop add id 5 group 7/8
ip route add 203.0.113.0/24 nhid 7
ip route add 203.0.114.0/24 nhid 5
ip rule add iif mgmt0 lookup 200 priority 1000
ip -6 rule add oif storage lookup 200 priority 1001
ip neigh add 10.0.0.66 lladdr 02:66:66:66:66:66 dev mgmt0
ip neigh add 2001:db8::66 lladdr 02:66:66:66:66:66 dev mgmt0
ip neigh add proxy 10.0.0.55 dev mgmt0
settle
network_state /tmp/before
nettool save run/journal $driver
reload $driver
status=0
nettool restore run/journal $driver >/tmp/output || status=$?
cat /tmp/output
[ "$status" = 3 ]
# A tunnel that stayed is not bound anew, which is told.
grep -q 'could not be restored: gre gre1 was bound to mgmt0, which was replaced: bind it again' /tmp/output
ip link set gre1 type gre local 10.0.0.1 remote 10.0.0.7 dev mgmt0 key 5
settle
network_state /tmp/after
expect_same /tmp/before /tmp/after
[ ! -e /run/journal ]
CASE
    [ "$status" -eq 0 ]
    [[ $output == *" 15 links, 1 failures,"* ]]
}

@test "names that cross, ports in their bridge's own VLAN and in none, a port's backup; a journal that is not finished holds; what is right is not touched" {
    run_links 4 <<'CASE'
. /test/links.sh
modprobe -a $driver 8021q bridge
ip link set eth0 name aside
ip link set eth1 name eth0
ip link set eth2 name eth1
ip link set aside name eth2
for number in 0 1 2; do
    ip link set "eth$number" up
    ip address add "10.$number.0.1/24" dev "eth$number"
    ip address add "2001:db8:$number::1/64" dev "eth$number"
    ip route add "10.1$number.0.0/16" via "10.$number.0.9"
done
ip link add link eth0 name eth0.7 type vlan id 7
ip link set eth0.7 up
# simnet's driver answers for its ports, too, as mlx5_core does.
ip link add br0 type bridge vlan_filtering 1
ip link set eth3 master br0
ip link add link eth1 name eth1.8 address 02:00:00:00:00:18 type vlan id 8
ip link set eth1.8 master br0
bridge vlan del dev eth1.8 vid 1
bridge link set dev eth3 backup_port eth1.8
ip link set br0 up
ip link set eth3 up
ip link set eth1.8 up
settle
network_state /tmp/before
grep -q 'backup_port eth1.8' /tmp/before

# A life that saves and touches nothing: what is changed after it, the next run saves.
nettool save run/journal $driver
ip address add 10.3.0.1/24 dev eth0.7
network_state /tmp/before
nettool save run/journal $driver
# A run that dies after the unload: the next one must not take a driver's fresh interfaces for what was.
reload $driver
nettool save run/journal $driver
cp /run/journal /tmp/journal
nettool restore run/journal $driver
settle
network_state /tmp/after
expect_same /tmp/before /tmp/after
[ "$(cat /sys/class/net/eth0.7/addr_assign_type)" = 2 ] || fail "the VLAN does not follow its lower's address any more"

ip -o monitor link address route neigh rule >>/tmp/events &
monitor=$!
# told: a change of an interface that no driver has. When the monitor has told it, it has told all that was before.
lo_mtu=$(cat /sys/class/net/lo/mtu)
mtu=$lo_mtu
told() {
    mtu=$((mtu - 1))
    ip link set lo mtu "$mtu"
    poll 2 grep -q "lo: .* mtu $mtu " /tmp/events
}
poll 30 told || fail "the monitor is deaf"
: >/tmp/events
cp /tmp/journal /run/journal
nettool restore run/journal $driver
sleep 1
poll 30 told || fail "the monitor is deaf"
kill "$monitor"
ip link set lo mtu "$lo_mtu"
# A neighbour's cache is what the kernel does by itself.
if grep -vE 'STALE|DELAY|PROBE|REACHABLE|FAILED|^[0-9]*: lo: ' /tmp/events; then fail "the kernel reported changes"; fi

for place in devices links:named links:made links:masters links:up links:addresses links:routes restored; do
    reload $driver
    cp /tmp/journal /run/journal
    status=0
    SLIPWAY_KILL_AT=network:$place nettool restore run/journal $driver || status=$?
    [ "$status" = 137 ] || fail "no restore was killed at $place: $status"
    nettool restore run/journal $driver
    settle
    network_state /tmp/after
    expect_same /tmp/before /tmp/after
done
CASE
    [ "$status" -eq 0 ]
}

# By what PCI has to keep a driver off a card.
# bats test_tags=pci
@test "what does not come is reported, and the rest comes back" {
    run_links 2 <<'CASE'
. /test/links.sh
modprobe -a $driver 8021q bridge
ip link add br0 type bridge
ip link set br0 up
ip link add link eth0 name gone type vlan id 5
ip address add 10.0.0.1/24 dev eth0
ip link set eth1 master br0 up mtu 4000
ip link add link eth1 name here type vlan id 6
ip link set here up
ip address add 10.6.0.1/24 dev here
ip route add 10.66.0.0/16 via 10.6.0.9
ip link set eth0 up
settle
ip nexthop add id 9 via 10.6.0.77 dev here
ip route add 10.68.0.0/16 nhid 9
ip route add 10.67.0.0/16 nexthop via 10.0.0.9 nexthop via 10.6.0.9
ip link property add dev eth1 altname taken-by-another
nettool save run/journal $driver
rmmod $driver
ip link del br0
ip link add br1 type bridge
ip link property add dev br1 altname taken-by-another
echo nobody >/sys/bus/pci/devices/0000:00:11.0/driver_override
modprobe $driver
status=0
NETTOOL_BIND_MS=700 nettool restore run/journal $driver >/tmp/output || status=$?
cat /tmp/output
[ "$status" = 3 ]
grep -q 'eth0: no interface of pci/0000:00:11.0 appeared within 700 ms' /tmp/output
grep -q 'gone: its lower interface eth0 is missing' /tmp/output
grep -q 'bridge br0 is gone and cannot be created from here' /tmp/output
grep -q 'eth1: its master br0 is missing' /tmp/output
[ "$(cat /sys/class/net/eth1/mtu)" = 4000 ]
ip address show dev here | grep -q 'inet 10.6.0.1/24'
ip route show 10.66.0.0/16 | grep -q 'dev here'
# The card's link takes longer to come up than the 700 ms, and the kernel takes no nexthop before.
ip route show 10.68.0.0/16 | grep -q 'nhid 9 via 10.6.0.77 dev here'
# Of several ways the ones that are left.
ip route show 10.67.0.0/16 | grep -q 'dev here'
grep -q 'route 10.67.0.0/16.*: without 1 of its paths' /tmp/output
# Whose name it is now keeps it.
grep -q 'eth1: its name taken-by-another: ' /tmp/output
ip link show taken-by-another | grep -q br1
refute "a port without its master was set up" grep 'setting .* of a bridge' /tmp/output

# What did not come stays pending, and is restored by the next start when it is there by then; the rest is the node's own again.
[ -e /run/journal ]
ip link set eth1 mtu 3000
echo >/sys/bus/pci/devices/0000:00:11.0/driver_override
echo 0000:00:11.0 >/sys/bus/pci/drivers_probe
nettool restore run/journal $driver >/tmp/output || cat /tmp/output
grep -q 'retrying what an earlier start could not restore' /tmp/output
ip address show dev eth0 | grep -q 'inet 10.0.0.1/24'
[ -e /sys/class/net/gone ]
[ "$(cat /sys/class/net/eth1/mtu)" = 3000 ]
ip route show 10.67.0.0/16 | tr '\n' ' ' | grep -q 'dev eth0.*dev here\|dev here.*dev eth0'
[ "$(ip route show 10.67.0.0/16 | grep -c '^10.67')" = 1 ]
[ ! -e /run/journal ]

# One that cannot be read is put aside, and reported.
printf 'slipway-network 1\nlink' >/run/journal
refute "a damaged journal was taken" nettool restore run/journal $driver
[ -e /run/journal.damaged ]
[ ! -e /run/journal ]
CASE
    [ "$status" -eq 0 ]
}

@test "a name that another of the driver's interfaces has as its altname is given back" {
    run_links 2 <<'CASE'
. /test/links.sh
modprobe $driver
ip link set eth0 name mgmt0
ip address add 10.0.0.1/24 dev mgmt0
nettool save run/journal $driver
reload $driver
ip link property add dev eth1 altname mgmt0
nettool restore run/journal $driver >/tmp/output
grep -q 'mgmt0: that name was an altname of eth1' /tmp/output
ip address show dev mgmt0 | grep -q 'inet 10.0.0.1/24'
[ -e /sys/class/net/mgmt0 ]
[ -e /sys/class/net/eth1 ]
CASE
    [ "$status" -eq 0 ]
}

@test "between the drivers a bond has its own MAC, whose port is back first" {
    run_links 2 <<'CASE'
. /test/links.sh
modprobe $driver
modprobe bonding max_bonds=0
# Of a mode without an active port: that of another one could not be one before its link is up.
ip link add bond0 type bond mode balance-rr
ip link set eth0 master bond0
ip link set eth1 master bond0
mac=$(cat /sys/class/net/bond0/address)
[ "$mac" = "$(cat /sys/class/net/eth0/address)" ]
nettool save run/journal $driver
rmmod $driver
[ "$(cat /sys/class/net/bond0/address)" != "$mac" ] || fail "a bond keeps its MAC by itself: this test shows nothing"
nettool restore-bond-macs run/journal $driver
modprobe $driver
# As a network manager does that is faster than the restore.
ip link set eth1 master bond0
[ "$(cat /sys/class/net/bond0/address)" = "$mac" ] || fail "bond0 has $(cat /sys/class/net/bond0/address), not $mac"
nettool restore run/journal $driver
[ "$(cat /sys/class/net/bond0/address)" = "$mac" ]
CASE
    [ "$status" -eq 0 ]
}

@test "after a reboot: added, never taken, and the node's own configuration holds" {
    run_links 3 <<'CASE'
. /test/links.sh
modprobe -a $driver 8021q
ip link set eth0 mtu 9000 up
ip address add 10.0.0.1/24 dev eth0
ip address add 10.0.1.1/24 dev eth0
ip address add 10.0.2.1/24 dev eth0 valid_lft 3000 preferred_lft 3000
ip route add 10.7.0.0/16 via 10.0.0.9
ip link add link eth0 name eth0.7 type vlan id 7
ip link set eth0.7 up
ip link set eth1 name mine mtu 4000
nettool save run/journal $driver
# As if the node had booted since: its own configuration has taken one card, and moved an address.
sed -i 's/^boot id=.*/boot id=another/' /run/journal
rmmod $driver
modprobe $driver
ip link set eth0 mtu 1400 up
ip address add 10.1.1.1/24 dev eth0
ip link set eth2 up
ip address add 10.0.1.1/24 dev eth2
cp /run/journal /tmp/journal
nettool restore run/journal $driver
[ "$(cat /sys/class/net/eth0/mtu)" = 1400 ]
ip -4 -o address show dev eth0 | awk '{ print $4 }' | sort >/tmp/addresses
printf '10.0.0.1/24\n10.1.1.1/24\n' | cmp - /tmp/addresses
ip -4 -o address show dev eth2 | grep -q 10.0.1.1/24
ip route show 10.7.0.0/16 | grep -q 'dev eth0'
[ -e /sys/class/net/eth0.7 ]
# Nobody had taken this one.
[ "$(cat /sys/class/net/mine/mtu)" = 4000 ]

# A save takes interfaces as they are now, also when such a journal is there.
cp /tmp/journal /run/journal
nettool save run/journal $driver
settle
network_state /tmp/before
reload $driver
nettool restore run/journal $driver
settle
network_state /tmp/after
expect_same /tmp/before /tmp/after
CASE
    [ "$status" -eq 0 ]
}
