# shellcheck shell=dash disable=SC1091
# SPDX-License-Identifier: Apache-2.0
# What cases about network cards say on top of drivers.sh: `. /case/simnet.sh`. See tests/vm/simnet.bash.
#
#   cards NUMBER [PORTS]     the node has so many cards, driven by its own (inbox) netdevsim: netdevsim0 …, eth0 …
#   igb_cards                the cards of run-vm --pf, driven by the node's own igb and igbvf: 0000:01:00.0 …
#   vfs DEVICE NUMBER        as a user does: 0 first. DEVICE: netdevsim0, 0000:01:00.0
#   is_inbox MODULE / is_of IMAGE MODULE     whose build is it that runs?
#   network_state            prints what there is, a fact a line, in an order of its own and without what counts by itself
#   expect_state FILE WORDS  within some seconds network_state prints FILE again; else shows the difference and ends the case
#   named NAME OLD           rename an interface
#   ip, devlink, rdma, dcb   iproute2's, of the image nic-1
#   dcb_state NAME           prints what an interface has of data center bridging
#   lossless NAME            sets some of it up, as for RoCE
. /test/drivers.sh

ip() { chroot /images/nic-1/rootfs /usr/sbin/ip "$@"; }
devlink() { chroot /images/nic-1/rootfs /usr/sbin/devlink "$@"; }
rdma() { chroot /images/nic-1/rootfs /usr/bin/rdma "$@"; }
# iproute2's own numbers its messages by the second: one that begins between two ends in "Protocol error", with all set.
dcb() {
    chroot /images/nic-1/rootfs /usr/sbin/dcb "$@" || chroot /images/nic-1/rootfs /usr/sbin/dcb "$@"
}

# The node's own tree has netdevsim as the kernel's other drivers are in it.
cp -r /case/host/. "/lib/modules/$(uname -r)/"
# What a kind of interface or a bond asks the kernel for, the kernel asks the node for.
echo /usr/sbin/modprobe >/proc/sys/kernel/modprobe

cards() {
    echo "options netdevsim devices=$1 ports=${2:-1}" >/etc/modprobe.d/netdevsim.conf
    modprobe netdevsim
}

igb_cards() {
    modprobe igb
    modprobe igbvf
}

device_folder() {
    find /sys/bus/*/devices/ -maxdepth 1 -name "$1"
}

vfs() {
    echo 0 >"$(device_folder "$1")/sriov_numvfs"
    echo "$2" >"$(device_folder "$1")/sriov_numvfs"
}

named() {
    ip link set "$2" down
    ip link set "$2" name "$1"
}

build_id() {
    hexdump -ve '1/1 "%02x"' "/sys/module/$1/notes/.note.gnu.build-id"
}

# A .ko file has its build id in a note: whether that is in the file is all that is asked.
has_build_id() {
    [ -n "$2" ] || return 1
    hexdump -ve '1/1 "%02x"' "$1" | grep -q "$2"
}

is_of() {
    has_build_id "/images/$1/rootfs/usr/lib/modules/$(uname -r)/updates/ofed/$2.ko" "$(build_id "$2")"
}

is_inbox() {
    has_build_id "$(modinfo -n "$1")" "$(build_id "$1")"
}

# Indexes and the numbers of auxiliary devices are new after each load, and so is the permanent MAC of a VF that has none.
# Timers and counters go on by themselves; netdevsim marks routes in its own time.
link_facts() {
    ip -o -d link | sed -E -e 's/^[0-9]+: //' -e 's/ (hello|tcn|topology_change|gc|hold|message_age|forward_delay)_timer +[0-9.]+//g' \
        -e 's/ link_failure_count [0-9]+//' -e 's/ permaddr [0-9a-f:]+//' -e 's/ link-netnsid [0-9]+//' \
        -e 's/(netdevsim\.sf\.)[0-9]+/\1N/' -e 's/^/link /'
}

address_facts() {
    ip -o address | sed -E -e 's/^[0-9]+: //' -e 's/ +(valid|preferred)_lft [0-9]+sec//g' -e 's/^/address /'
}

route_facts() {
    ip -4 route show table all | sed -E -e 's/ rt_(trap|offload)//g' -e 's/^/route /'
    ip -6 route show table all | grep -v ' cache' | sed -E -e 's/ rt_(trap|offload)//g' -e 's/^/route6 /'
    ip rule | sed 's/^/rule /'
    ip neighbour show nud permanent | sed 's/^/neighbour /'
}

devlink_facts() {
    local device
    devlink dev | while read -r device; do
        devlink dev eswitch show "$device" 2>/dev/null | sed 's/^/eswitch /'
    done
    devlink dev param show 2>/dev/null | tr '\n' ' ' | sed -E 's/ +/ /g; s/ (netdevsim|pci)\//\n\1\//g' | sed 's/^/param /'
    devlink port show 2>/dev/null | sed 's/^/port /'
    devlink port function rate show 2>/dev/null | sed 's/^/rate /'
}

# Functions that a driver left behind, or that another one has, among them.
device_facts() {
    local file
    for file in /sys/bus/netdevsim/devices/*/sriov_numvfs /sys/bus/pci/devices/*/sriov_numvfs /sys/bus/pci/devices/*/sriov_drivers_autoprobe; do
        [ ! -e "$file" ] || echo "device $file $(cat "$file")"
    done
    for file in /sys/bus/pci/devices/*/physfn; do
        [ -e "$file" ] || continue
        file=${file%/physfn}
        echo "vf ${file##*/} $(basename "$(readlink "$file/driver" || true)") $(cat "$file/driver_override")"
    done
}

dcb_state() {
    local part
    for part in dcbx ets maxrate pfc buffer app; do
        dcb -N "$part" show dev "$1" 2>&1 | sed "s/^/$part /"
    done
}

lossless() {
    dcb ets set dev "$1" tc-tsa all:strict 0:ets 3:ets tc-bw all:0 0:40 3:60 prio-tc all:0 3:3
    dcb pfc set dev "$1" prio-pfc 3:on delay 100
    dcb buffer set dev "$1" prio-buffer 3:2 buffer-size 2:32768
    dcb app replace dev "$1" dscp-prio 26:3 48:6
}

# Of one port, for it takes six programs.
dcb_facts() {
    local interface
    for interface in /sys/bus/netdevsim/devices/netdevsim0/net/*; do
        [ "$(cat "$interface/phys_port_name" 2>/dev/null)" != p1 ] || dcb_state "${interface##*/}" | sed 's/^/dcb /'
    done
}

network_state() {
    { link_facts; address_facts; route_facts; devlink_facts; device_facts; dcb_facts; } | sed 's/ *$//' | sort
}

state_is() {
    network_state >/tmp/state.now
    cmp -s "$1" /tmp/state.now
}

# The kernel reports a carrier a second late.
expect_state() {
    poll 60 state_is "$1" || {
        diff "$1" /tmp/state.now | grep "^[-+]" | head -n 100 || true
        fail "$2"
    }
}
