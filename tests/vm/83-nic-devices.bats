#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# proves: the node's side
# needs: any kernel
# The half of the network state that hangs on devices, on the kernel's own interfaces: drivers are unloaded and loaded, and
# what they forgot comes back. The cards are netdevsim's, and Intel's igb as QEMU emulates it.

load nettool

setup_file() {
    in_each_guest use_simnet
    use_igb
    use_nettool
}

# bats test_tags=core
@test "modes, parameters, VFs and what the PF holds for them come back; what is right is not touched" {
    run_nettool <<'CASE'
. /case/nettool/case.sh
cards 3
vfs netdevsim0 4
ip link set eth0 vf 0 mac 02:00:00:00:00:10 vlan 100 qos 3 trust on spoofchk on
ip link set eth0 vf 1 mac 02:00:00:00:00:11 vlan 7 proto 802.1ad state enable min_tx_rate 10 max_tx_rate 100
ip link set eth0 vf 3 state disable query_rss on
devlink dev param set netdevsim/netdevsim0 name max_macs value 64 cmode driverinit
vfs netdevsim1 3
ip link set eth1 vf 2 mac 02:00:00:00:00:22 trust on
devlink dev param set netdevsim/netdevsim1 name flow_steering_mode value smfs cmode runtime
devlink dev eswitch set netdevsim/netdevsim1 mode switchdev inline-mode transport encap-mode none
for number in 88 99 111; do
    devlink port add netdevsim/netdevsim1 flavour pcisf pfnum 0 sfnum "$number"
done
devlink port function set netdevsim/netdevsim1/32856 hw_addr 02:00:00:00:00:88 state active
devlink port function set netdevsim/netdevsim1/32867 hw_addr 02:00:00:00:00:99
devlink port function set netdevsim/netdevsim1/32879 state active
for device in /sys/bus/auxiliary/devices/*; do
    [ "$(cat "$device/sfnum")" = 88 ] || echo "${device##*/}" >"$device/driver/unbind"
done
# A card without VFs has modes and parameters, too.
devlink dev param set netdevsim/netdevsim2 name flow_steering_mode value smfs cmode runtime
devlink dev param set netdevsim/netdevsim2 name test1 value false cmode driverinit
devlink dev reload netdevsim/netdevsim2
devlink dev eswitch set netdevsim/netdevsim2 mode switchdev
device_state >/tmp/before
# Rates are not saved; that they were there is.
devlink port function rate add netdevsim/netdevsim1/all tx_share 1mbit tx_max 100mbit
nettool save-devices run/journal netdevsim
[ "$(grep -c '^unsaved ' /run/journal)" = 1 ]
grep '^unsaved name=netdevsim/netdevsim1 .*rates' /run/journal
rmmod netdevsim
modprobe netdevsim
device_state >/tmp/forgotten
refute "nothing was forgotten" cmp -s /tmp/before /tmp/forgotten
nettool restore-devices run/journal netdevsim
expect_devices /tmp/before "the devices are not what they were"

ip -o monitor link >>/tmp/events &
monitors=$!
devlink monitor dev port >>/tmp/devlink.events &
monitors="$monitors $!"
# told: changes of an interface that no driver has, and of a port that is as before after it. When the monitors have told them,
# they have told all that was before.
mark=0 expected=0
told() {
    mark=$((mark + 1)) expected=$((expected + 2))
    ip link set lo mtu $((65536 - mark))
    devlink port function set netdevsim/netdevsim1/32867 hw_addr "02:00:00:00:01:0$mark"
    devlink port function set netdevsim/netdevsim1/32867 hw_addr 02:00:00:00:00:99
    poll 5 are_told
}
are_told() {
    grep -q " lo: .* mtu $((65536 - mark)) " /tmp/events &&
        sed "1,/hw_addr 02:00:00:00:01:0$mark/d" /tmp/devlink.events | grep -q 'hw_addr 02:00:00:00:00:99'
}
told || told || told || fail "a monitor is deaf: $(cat /tmp/events /tmp/devlink.events)"
: >/tmp/events
: >/tmp/devlink.events
expected=0
nettool restore-devices run/journal netdevsim
sleep 1
told || told || told || fail "a monitor is deaf: $(cat /tmp/events /tmp/devlink.events)"
kill $monitors
refute "rtnetlink reported changes" grep -v ' lo: ' /tmp/events
grep '^\[' /tmp/devlink.events >/tmp/devlink.told
refute "devlink reported changes" grep -v ' netdevsim/netdevsim1/32867:' /tmp/devlink.told
[ "$(wc -l </tmp/devlink.told)" = "$expected" ] || fail "devlink reported a change of the port that told changes"

# A restore that is killed is finished by the next one.
has_ended() { ! pgrep -f /case/nettool/nettool >/dev/null; }
for place in params vfs eswitch subfunctions drivers; do
    rmmod netdevsim
    modprobe netdevsim
    status=0
    SLIPWAY_KILL_AT=network:device:$place nettool restore-devices run/journal netdevsim || status=$?
    [ "$status" = 137 ] || fail "no restore was killed at $place: $status"
    poll 30 has_ended
    nettool restore-devices run/journal netdevsim
    expect_devices /tmp/before "after a kill at $place the devices are not what they were"
done
CASE
    [ "$status" -eq 0 ]
}

@test "data center bridging comes back; what a driver does not take is reported by name" {
    run_nettool <<'CASE'
. /case/nettool/case.sh
cards 2
dcb_state eth0 >/tmp/usual
dcb_state eth1 >/tmp/usual1
dcb ets set dev eth0 willing on tc-tsa all:strict 0:ets 3:ets tc-bw all:0 0:40 3:60 prio-tc all:0 3:3 4:3
dcb maxrate set dev eth0 tc-maxrate 3:40gbit
dcb pfc set dev eth0 prio-pfc 3:on 4:on delay 100
dcb buffer set dev eth0 prio-buffer 3:2 buffer-size 2:32768
dcb app replace dev eth0 dscp-prio 26:3 48:6 10:1
dcb dcbx set dev eth1 host cee
# Without PFC they are the driver's own: set again they would be no more.
dcb buffer set dev eth1 buffer-size 1:32768
dcb_state eth0 >/tmp/before
dcb_state eth1 >/tmp/before1
cat /tmp/before
for part in ets maxrate pfc buffer app; do
    [ "$(grep "^$part" /tmp/usual)" != "$(grep "^$part" /tmp/before)" ] || fail "$part is what it was"
done
nettool save run/journal netdevsim
cp /run/journal /tmp/journal
rmmod netdevsim
modprobe netdevsim
dcb_state eth0 >/tmp/forgotten
diff /tmp/usual /tmp/forgotten || fail "the driver has forgotten nothing"
# Defaults of the new driver, of which one was not there and one was otherwise.
dcb app replace dev eth0 dscp-prio 12:1 48:2
nettool restore run/journal netdevsim
dcb_state eth0 >/tmp/after
diff /tmp/before /tmp/after || fail "DCB is not what it was"
dcb_state eth1 >/tmp/after
grep -v ^buffer /tmp/before1 >/tmp/wanted
grep ^buffer /tmp/usual1 >>/tmp/wanted
grep -v ^buffer /tmp/after >/tmp/sorted
grep ^buffer /tmp/after >>/tmp/sorted
diff /tmp/wanted /tmp/sorted || fail "DCB of the other card, but for its buffers, is not what it was"

for kind in 2 0; do
    rmmod netdevsim
    modprobe netdevsim "dcb=$kind"
    cp /tmp/journal /run/journal
    status=0
    nettool restore run/journal netdevsim >/tmp/output || status=$?
    cat /tmp/output
    [ "$status" = 3 ] || fail "dcb=$kind: all is restored"
    grep 'could not be restored' /tmp/output >"/tmp/failed$kind"
done
grep -x 'could not be restored: eth0: dcb maxrate: this driver has none' /tmp/failed2
grep -x 'could not be restored: eth0: dcb pfc: the driver refuses it: Invalid argument' /tmp/failed2
[ "$(wc -l </tmp/failed2)" = 2 ] # eth1 had no maximum rate
grep -x 'could not be restored: eth0: dcb: this driver has no DCB' /tmp/failed0
[ "$(wc -l </tmp/failed0)" = 2 ]

# The image's mlnx_qos, as published manifests call it. The driver without DCB is still there.
qos() { chroot /images/nic-1/rootfs mlnx_qos -i eth0 "$@" >/tmp/output 2>/tmp/errors; }
refute "the driver has no DCB" qos --trust dscp
grep -x 'mlnx_qos: eth0: this driver has no DCB' /tmp/errors
rmmod netdevsim
modprobe netdevsim dcb=2
refute "PFC is refused" qos --pfc 0,0,0,1,0,0,0,0
grep -x 'mlnx_qos: eth0: PFC: the driver refuses it: Invalid argument' /tmp/errors
refute "there are no rates" qos -r 10,0,0,0,0,0,0,0
grep -x 'mlnx_qos: eth0: this driver has no rate limits' /tmp/errors
rmmod netdevsim
modprobe netdevsim
qos
grep -x 'Priority trust state: pcp' /tmp/output
qos --trust dscp --pfc 0,0,0,1,0,0,0,0
grep -x 'Priority trust state: dscp' /tmp/output
grep '^.enabled     0   0   0   1   0   0   0   0 ' /tmp/output
dcb pfc show dev eth0 | grep '2:off 3:on 4:off'
dcb -N app show dev eth0 >/tmp/apps
cat /tmp/apps
grep -q ' 0:0 1:0 .* 25:3 26:3 .* 62:7 63:7' /tmp/apps
qos --dscp2prio set,26,5 --dscp2prio set,48,6
dcb -N app show dev eth0 | grep ' 26:5 '
grep '^.prio:5 dscp:.*26,' /tmp/output
qos --buffer_size 19872,131072 --prio2buffer 0,0,0,1,0,0,0,0 --cable_len=5
grep -x 'Receive buffer size (bytes): 19872,131072,0,0,0,0,0,0,max_buffer_size=262016' /tmp/output
dcb -N buffer show dev eth0 | grep 'prio-buffer .*3:1 '
grep -x 'Cable len: 5' /tmp/output
qos -s ets,ets,strict,strict,strict,strict,strict,strict -t 40,60,0,0,0,0,0,0 -p 0,0,0,1,0,0,0,0 -r 0,25,0,0,0,0,0,0
grep -x 'tc: 1 ratelimit: 25.0 Gbps, tsa: ets, bw: 60%' /tmp/output
dcb ets show dev eth0 | grep 'tc-bw 0:40 1:60 '
refute "shares must sum to 100" qos -t 40,50,0,0,0,0,0,0
grep '^mlnx_qos: eth0: ETS: the driver refuses it' /tmp/errors
refute "class 2 is strict" qos --trust pcp -t 40,50,10,0,0,0,0,0
qos
grep -x 'Priority trust state: dscp' /tmp/output
qos -F x,x,x,x,1,x,x,x
[ ! -s /tmp/output ]
qos -P 4
[ "$(cat /tmp/output)" = 1 ]
qos -d fw
grep -x 'DCBX mode: Firmware controlled' /tmp/output
qos --dcbx os --trust pcp
grep -x 'DCBX mode: OS controlled' /tmp/output
grep -x 'Priority trust state: pcp' /tmp/output
[ -z "$(dcb -N app show dev eth0 | grep ':')" ]
CASE
    [ "$status" -eq 0 ]
}

# bats test_tags=pci
@test "PCI: VFs of their own driver, of vfio-pci and of none come back, with autoprobe as it was" {
    run_nettool --pf 2 <<'CASE'
. /case/nettool/case.sh
drivers() {
    rmmod igbvf igb
    modprobe igb
    modprobe igbvf
}
vf_state() { ip link | grep ' vf '; }
igb_cards
modprobe vfio-pci
ip link set eth0 up
ip link set eth1 up
vfs 0000:01:00.0 3
echo 0000:01:10.4 >/sys/bus/pci/drivers/igbvf/unbind
echo vfio-pci >/sys/bus/pci/devices/0000:01:10.4/driver_override
echo 0000:01:10.4 >/sys/bus/pci/drivers/vfio-pci/bind
# No driver for the third of these, and autoprobe off.
vfs 0000:02:00.0 3
echo 0000:02:10.4 >/sys/bus/pci/drivers/igbvf/unbind
echo 0 >/sys/bus/pci/devices/0000:02:00.0/sriov_drivers_autoprobe
ip link set eth0 vf 0 mac 02:00:00:00:01:00 vlan 7
ip link set eth0 vf 2 mac 02:00:00:00:01:02 spoofchk off
ip link set eth1 vf 1 mac 02:00:00:00:02:01 trust on
device_facts >/tmp/before
vf_state >/tmp/vfs.before
cat /tmp/before
grep 'vf 0000:01:10.4 vfio-pci vfio-pci' /tmp/before
nettool save-devices run/journal igb igbvf
drivers
refute "igb has kept its VFs" grep -q 'sriov_numvfs [^0]' <<FACTS
$(device_facts)
FACTS
nettool restore-devices run/journal igb igbvf
device_facts | diff /tmp/before - || fail "the functions are not what they were"
vf_state | diff /tmp/vfs.before - || fail "what the PFs hold is not what it was"

# The driver of a VF is not loaded yet: that VF is named, the rest is there, and the next try does it.
rmmod igbvf igb
modprobe igb
if nettool restore-devices run/journal igb igbvf >/tmp/said; then
    fail "a driver that is missing was no failure"
fi
cat /tmp/said
grep 'VF 1 of pci/0000:01:00.0 (0000:01:10.2) could not be bound to igbvf: that driver is not loaded' /tmp/said
grep '2 devices, 6 VFs, 0 links, 4 failures' /tmp/said
grep -q vfio-pci "/sys/bus/pci/devices/0000:01:10.4/driver_override"
modprobe igbvf
nettool restore-devices run/journal igb igbvf
device_facts | diff /tmp/before - || fail "the functions are not what they were after the second try"
CASE
    [ "$status" -eq 0 ]
}

@test "what somebody made meanwhile is left, what does not come is named, and the rest goes on" {
    run_nettool <<'CASE'
. /case/nettool/case.sh
cards 3
vfs netdevsim0 4
vfs netdevsim1 4
ip link set eth1 vf 1 vlan 9
vfs netdevsim2 4
devlink dev param set netdevsim/netdevsim1 name flow_steering_mode value smfs cmode runtime
nettool save-devices run/journal netdevsim
# A card fewer, VFs of another number, and a mode that was not there.
rmmod netdevsim
cards 2
vfs netdevsim0 2
vfs netdevsim1 4
devlink dev eswitch set netdevsim/netdevsim1 mode switchdev
if NETTOOL_BIND_MS=2000 nettool restore-devices run/journal netdevsim >/tmp/said; then
    fail "there was nothing to say"
fi
cat /tmp/said
grep 'netdevsim/netdevsim0 has 2 VFs, which were created since then, and had 4: they are left as they are' /tmp/said
grep 'netdevsim/netdevsim2 is not ready after 2000 ms: no driver is bound to it' /tmp/said
# That can be set in legacy mode only.
grep 'netdevsim/netdevsim1: its parameter flow_steering_mode=smfs could not be set: Operation not supported' /tmp/said
grep 'netdevsim/netdevsim1 is in switchdev mode now and was in legacy: it was changed since then and is left as it is' /tmp/said
grep '2 devices, 6 VFs, 0 links, 3 failures' /tmp/said
[ "$(cat /sys/bus/netdevsim/devices/netdevsim0/sriov_numvfs)" = 2 ]
ip link show eth1 | grep 'vf 1 .*vlan 9'
devlink dev eswitch show netdevsim/netdevsim1 | grep 'mode switchdev'

# A card that comes late is waited for, by its event.
rmmod netdevsim
modprobe netdevsim
{ sleep 2; echo 2 >/sys/bus/netdevsim/new_device; } &
NETTOOL_BIND_MS=60000 nettool restore-devices run/journal netdevsim
wait
[ "$(cat /sys/bus/netdevsim/devices/netdevsim2/sriov_numvfs)" = 4 ]
CASE
    [ "$status" -eq 0 ]
}

@test "64 VFs of each of four cards in switchdev mode come back whole" {
    run_nettool <<'CASE'
. /case/nettool/case.sh
cards 4
for card in 0 1 2 3; do
    vfs "netdevsim$card" 64
    for vf in $(seq 0 63); do
        echo "link set eth$card vf $vf mac 02:00:00:00:0$card:$(printf %02x "$vf") vlan $((vf + 1)) qos 1 trust on"
    done | ip -batch -
    devlink dev eswitch set "netdevsim/netdevsim$card" mode switchdev
done
nettool save-devices run/journal netdevsim
[ "$(grep -c '^vf .* trust=1' /run/journal)" = 256 ]
rmmod netdevsim
modprobe netdevsim
echo "restored: $(nettool restore-devices run/journal netdevsim)"
nettool save-devices run/journal.after netdevsim
cmp /run/journal /run/journal.after
CASE
    [ "$status" -eq 0 ]
    printf '%s\n' "${lines[@]}" | grep '^restored' >&3
}
