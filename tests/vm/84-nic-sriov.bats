#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# proves: the node's side
# needs: any kernel
# SR-IOV through the NIC role: PFs, VFs with all that their PF holds for them, eswitch modes, representors, and what stands
# on them, are after a swap of drivers what they were before. The cards are netdevsim's, and Intel's igb as QEMU emulates it.

load simnet

setup_file() {
    in_each_guest use_simnet
    use_igb
    "${CC:-cc}" -std=c11 -D_GNU_SOURCE -O2 -static -o "$BATS_FILE_TMPDIR/virtual-machine" "$vm_folder/simnet/virtual-machine.c"
}

# For a case: settled NAME, true when NAME has its own IPv6 address, no address waits for other nodes' objections, and the
# network, which is then in /tmp/before, stays the same for two seconds.
settling() {
    cat <<'CASE'
settled() {
    network_state >/tmp/before
    grep -q "^address $1 .*inet6 fe80" /tmp/before && ! grep -q " tentative" /tmp/before && sleep 2 && state_is /tmp/before
}
CASE
}

# What the cases share: a node as an administrator left it. Cards 0 and 1 have two ports; card 1 is in switchdev mode.
node() {
    settling
    cat <<'CASE'
. /case/simnet.sh
cards 2 2
named nic0p0 eth0; named nic0p1 eth1; named nic1p0 eth2; named nic1p1 eth3
ip link property add dev nic0p0 altname management
vfs netdevsim0 4
ip link set nic0p0 vf 0 mac 02:00:00:00:00:10 vlan 100 qos 3 trust on spoofchk on
ip link set nic0p0 vf 1 mac 02:00:00:00:00:11 state enable min_tx_rate 10 max_tx_rate 100
ip link set nic0p0 vf 3 state disable query_rss on
devlink dev param set netdevsim/netdevsim1 name flow_steering_mode value smfs cmode runtime
vfs netdevsim1 3
devlink dev eswitch set netdevsim/netdevsim1 mode switchdev inline-mode transport encap-mode none
devlink port add netdevsim/netdevsim1 flavour pcisf pfnum 0 sfnum 88
devlink port function set netdevsim/netdevsim1/32856 hw_addr 02:00:00:00:00:88 state active
named sub88 "$(ls /sys/bus/auxiliary/devices/netdevsim.sf.*/net)"
for port in /sys/class/net/*/phys_port_name; do
    case $(cat "$port" 2>/dev/null) in
    pf0vf* | pf0sf*) name=${port%/phys_port_name} && named "rep$(cat "$port")" "${name##*/}" ;;
    esac
done
ip link set nic1p0 vf 2 mac 02:00:00:00:00:22
ip link set reppf0vf1 mtu 9000 up
echo "options bonding max_bonds=0" >/etc/modprobe.d/bonding.conf
ip link add uplink type bond mode active-backup miimon 100
ip link set nic0p0 down; ip link set nic0p0 master uplink; ip link set nic1p0 master uplink
ip link set uplink mtu 4000 up
ip link add link uplink name uplink.100 type vlan id 100
ip address add 192.0.2.1/24 dev uplink.100
ip address add 2001:db8::1/64 dev uplink.100 nodad
ip link set uplink.100 up
ip route add 198.51.100.0/24 via 192.0.2.254
# Without a delay, at whose end the kernel would tell of the port once more.
ip link add br0 type bridge forward_delay 0
ip link set br0 up
ip link set reppf0vf0 master br0 up
ip link set sub88 mtu 1400 up
ip address add 192.0.3.1/24 dev sub88
ip address add 203.0.113.1/24 dev nic0p1
ip link set nic0p1 mtu 1600 up
lossless nic0p0
ip route add 203.0.114.0/24 via 203.0.113.254 metric 50
ip neighbour add 203.0.113.254 lladdr 02:00:00:00:00:99 dev nic0p1
poll 60 settled uplink || fail "the network does not settle: $(ip address)"
CASE
}

# bats test_tags=core
@test "swap, stop and restore: cards, VFs, switchdev, representors, bond, VLAN, bridge, addresses and routes are as before" {
    run_simnet < <(node && cat <<'CASE'
is_inbox netdevsim
start nic:nic-1
wait_ready nic 90
expect "netdevsim is not the image's" is_of nic-1 netdevsim
expect_state /tmp/before "the network is not what it was before the swap"
exec_in nic mlnx_qos -i nic0p0
# As a DaemonSet sets up RoCE, which then comes back, too.
exec_in nic bash -ceu 'ip -j link show | jq -r ".[].ifname" | while read -r name; do
    [[ $name != nic0p0 ]] || mlnx_qos -i "$name" --trust=dscp --pfc 0,0,0,1,1,0,0,0; done; ethtool -i nic0p0' >/tmp/output
grep '^.enabled     0   0   0   1   1   0   0   0 ' /tmp/output
grep -x 'driver: netdevsim' /tmp/output
network_state >/tmp/set
refute "nothing was set" cmp -s /tmp/before /tmp/set
stop_clean nic
expect "netdevsim is not the node's own" is_inbox netdevsim
expect_state /tmp/set "the network is not what it was before the stop"
echo "facts compared twice: $(wc -l </tmp/before)"
CASE
    )
    [ "$status" -eq 0 ]
    [[ $output == *'Priority trust state: dscp'*$'\tprio:3 dscp:26,'*$'\tprio:6 dscp:48,'* ]]
    [[ $output == *'Receive buffer size (bytes): 65536,65536,32768,0,0,0,0,0,max_buffer_size=262016'* ]]
    [[ $output == *$'\tenabled     0   0   0   1   0   0   0   0   '*$'\tbuffer      0   0   0   2   0   0   0   0   '* ]]
    [[ $output == *'tc: 3 ratelimit: unlimited, tsa: ets, bw: 60%'*$'\t priority:  3'* ]]
}

@test "one OFED after another: the network stays, with the pod gone in between" {
    run_simnet < <(node && cat <<'CASE'
start nic:nic-1 RESTORE_DRIVER_ON_POD_TERMINATION=false
wait_ready nic 90
stop_clean nic
expect "OFED is gone with the pod" is_of nic-1 netdevsim
expect_state /tmp/before "the network is not what it was, without the pod"
start nic:nic-2
wait_ready nic 90
expect "netdevsim is not the second image's" is_of nic-2 netdevsim
expect_state /tmp/before "the network is not what it was before the second swap"
stop_clean nic
expect "netdevsim is not the node's own" is_inbox netdevsim
expect_state /tmp/before "the network is not what it was before the stop"
CASE
    )
    [ "$status" -eq 0 ]
}

@test "a restart with the same image: no message of rtnetlink, and the same devices" {
    run_simnet < <(node && cat <<'CASE'
start nic:nic-1
wait_ready nic 90
expect_state /tmp/before "the network is not what it was before the swap"
kill_hard nic
wait_exit nic 10
ip -o monitor link address route neigh rule >>/tmp/events &
devlink monitor >>/tmp/devlink.events &
# told: changes of what the start leaves alone. When the monitors have told them, they have told all that was before.
mark=0
told() {
    mark=$((mark + 1))
    ip link set lo mtu $((65536 - mark))
    devlink dev param set netdevsim/netdevsim0 name max_macs value $((32 + mark)) cmode driverinit
    poll 5 grep -q " lo: .* mtu $((65536 - mark)) " /tmp/events && poll 5 grep -q "value $((32 + mark))" /tmp/devlink.events
}
told || told || told || fail "a monitor is deaf: $(cat /tmp/events /tmp/devlink.events)"
: >/tmp/events
: >/tmp/devlink.events
ip -o link >/tmp/links
start nic:nic-1
wait_ready nic 30
# With the indexes: nothing was loaded anew.
ip -o link | cmp - /tmp/links || fail "interfaces are new"
told || told || told || fail "a monitor is deaf: $(cat /tmp/events /tmp/devlink.events)"
refute "rtnetlink reported changes" grep -v ' lo: ' /tmp/events
grep '^\[' /tmp/devlink.events >/tmp/devlink.told
refute "devlink reported changes" grep -v 'netdevsim/netdevsim0: name max_macs ' /tmp/devlink.told
CASE
    )
    [ "$status" -eq 0 ]
}

@test "an RDMA device over a card: whoever uses it stops the swap before anything is touched, and lets it go on" {
    run_simnet < <(node && cat <<'CASE'
host_load rdma_rxe
host_load ib_uverbs
rdma link add rxe0 type rxe netdev nic0p1
ip -o link >/tmp/links
rdma link show >/tmp/rdma
start nic:nic-1
[ "$(wait_exit nic 60)" != 0 ]
termination_message nic | grep rdma_rxe || fail "rdma_rxe is not named"
hold /dev/infiniband/uverbs0
start nic:nic-1 UNLOAD_THIRD_PARTY_RDMA_MODULES=true
[ "$(wait_exit nic 60)" != 0 ]
termination_message nic | grep -E 'rdma_rxe|ib_uverbs' || fail "what is in use is not named"
ip -o link | cmp - /tmp/links || fail "interfaces are new"
rdma link show | cmp - /tmp/rdma || fail "RDMA devices are new"
expect "netdevsim is not the node's own" is_inbox netdevsim
expect "ib_core is not the node's own" is_inbox ib_core
kill "$held_pid"
start nic:nic-1 UNLOAD_THIRD_PARTY_RDMA_MODULES=true
wait_ready nic 90
expect "netdevsim is not the image's" is_of nic-1 netdevsim
expect "ib_core is not the image's" is_of nic-1 ib_core
expect_loaded rdma_rxe
expect_state /tmp/before "the network is not what it was before the swap"
CASE
    )
    [ "$status" -eq 0 ]
}

# bats test_tags=pci
@test "PCI: VFs with interfaces of their own, and one that vfio-pci has, are as before; not while a virtual machine uses it" {
    run_simnet --pf 2 --add "$BATS_FILE_TMPDIR/virtual-machine" < <(settling && cat <<'CASE'
. /case/simnet.sh
igb_cards
named oam eth0; named data eth1
ip link set oam mtu 2000 up
ip link set data up
vfs 0000:01:00.0 3
vfs 0000:02:00.0 2
vf_name() { ls "/sys/bus/pci/devices/$1/net" 2>/dev/null | grep .; }
poll 30 vf_name 0000:01:10.0
poll 30 vf_name 0000:01:10.2
named blue "$(vf_name 0000:01:10.0)"
named green "$(vf_name 0000:01:10.2)"
ip link set oam vf 0 mac 02:00:00:00:01:00 vlan 7
ip link set oam vf 2 mac 02:00:00:00:01:02 spoofchk off
ip link set data vf 1 mac 02:00:00:00:02:01 trust on
ip address add 192.0.2.1/24 dev oam
ip route add default via 192.0.2.254
ip link set blue address 02:00:00:00:01:00
ip link set blue mtu 1600 up
ip address add 198.51.100.1/24 dev blue
# This IOMMU remaps no interrupts.
modprobe vfio_iommu_type1 allow_unsafe_interrupts=1
modprobe vfio-pci
echo 0000:01:10.4 >/sys/bus/pci/devices/0000:01:10.4/driver/unbind
echo vfio-pci >/sys/bus/pci/devices/0000:01:10.4/driver_override
echo 0000:01:10.4 >/sys/bus/pci/drivers_probe
[ "$(basename "$(readlink /sys/bus/pci/devices/0000:01:10.4/driver)")" = vfio-pci ]
poll 60 settled oam || fail "the network does not settle: $(ip address)"
/case/virtual-machine "$(basename "$(readlink /sys/bus/pci/devices/0000:01:10.4/iommu_group)")" 0000:01:10.4 >/tmp/machine &
machine=$!
poll 20 grep -q open /tmp/machine
start nic:nic-1
exits nic 16 60
termination_message nic | grep 'virtual function of 0000:01:00.0' || fail "the VF that is in use is not told"
expect "igb is not the node's own" is_inbox igb
expect "igbvf is not the node's own" is_inbox igbvf
expect_state /tmp/before "the network is not what it was before the refusal"
kill "$machine"
wait "$machine" || true
start nic:nic-1
wait_ready nic 90
expect "igb is not the image's" is_of nic-1 igb
expect "igbvf is not the image's" is_of nic-1 igbvf
expect_state /tmp/before "the network is not what it was before the swap"
stop_clean nic
expect "igb is not the node's own" is_inbox igb
expect_state /tmp/before "the network is not what it was before the stop"
CASE
    )
    [ "$status" -eq 0 ]
}

@test "what a CNI made on a card and put into a pod: in the events before, in the ready flag and status after, in status before the next" {
    run_simnet <<'CASE'
. /case/simnet.sh
cards 1 1
named nic0p0 eth0
modprobe -a veth macvlan
unshare -n sleep 600 &
pod=$!
has_network() { [ "$(readlink "/proc/$pod/ns/net")" != "$(readlink /proc/self/ns/net)" ]; }
poll 30 has_network || fail "the pod has no network namespace of its own"
ip link add vethpod type veth peer name eth0 netns $pod
give() { ip link add link nic0p0 netns $pod name net1 type macvlan mode bridge; }
give
number=$(ip -o link show vethpod | sed 's/.*link-netnsid \([0-9]*\).*/\1/')
where="in another network namespace (a pod's, NETNSID $number of lsns -t net)"
start nic:nic-1
wait_ready nic 90
container_log_has nic "nic0p0: its macvlan net1 is in another network namespace .*, and is removed with the driver: restart that pod"
expect "the ready flag has nothing of it" \
    grep -F "nic0p0: its macvlan net1 was $where and was removed with the driver: restart that pod" /run/mellanox/drivers/.driver-ready
exec_in nic slipway-init status >/tmp/status
exec_in nic slipway-init status --json >/tmp/json
cat /tmp/status
expect "status has nothing of it" grep -F "! not restored: nic0p0: its macvlan net1 was $where and was removed" /tmp/status
expect "JSON has nothing of it" grep -F "\"unrestored\":[\"nic0p0: its macvlan net1 was $where and was removed" /tmp/json
refute "status has what is gone" grep '^ *removed with the driver' /tmp/status
expect "JSON has what is gone" grep -F '"in_pods":[]' /tmp/json
give
exec_in nic slipway-init status >/tmp/status
exec_in nic slipway-init status --json >/tmp/json
expect "status has nothing of the next swap" grep -F "removed with the driver: nic0p0: its macvlan net1 is $where" /tmp/status
expect "JSON has nothing of the next swap" grep -F "\"in_pods\":[\"nic0p0: its macvlan net1 is $where\"]" /tmp/json
CASE
    [ "$status" -eq 0 ]
}
