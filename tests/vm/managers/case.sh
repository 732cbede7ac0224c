# shellcheck shell=dash disable=SC1091
# SPDX-License-Identifier: Apache-2.0
# What cases beside a network manager say on top of simnet.sh: `. /case/managers.sh`. See full/91-nic-managers.bats.
#
#   node_with MANAGER        a DHCP server at the other end of all cards, udevd, and the manager (networkd, NetworkManager,
#                            ifupdown, netplan), which has set up all cells when it returns
#   expect_cells             each cell has the address that it had at first, and is reached from the other end, and by the
#                            default route from another network; the routes are those that there were
#   leases                   prints the cells that have one
#   expect_renewed NAME…     the leases of these cells are prolonged from here on
#   is_renewed NAME          has it been since expect_renewed began?
#   is_overdue NAME          half of it is over, so that its client has asked for another
#   follow NAME FILE         run what FILE (status, a log) says is to be run on the node for the lease of that cell
#
# The cells, one a line: interface, kind, its ports or what it stands on, its hub, the third byte of its network, where its
# address is from. The server is 10.0.N.1, a static address 10.0.N.2; leases last two minutes, the shortest that dnsmasq has.
take_modules
. /case/simnet.sh

cat >/vm/cells <<'CELLS'
enp1s0   pf     -             1 11 dhcp
enp2s0   pf     -             1 12 static
bond0    bond   enp3s0,enp4s0 2 21 dhcp
bond0.10 vlan   bond0         2 22 dhcp
bond0.20 vlan   bond0         2 23 static
bond1    bond   enp5s0,enp6s0 3 31 static
br0      bridge enp7s0        4 41 dhcp
br1      bridge enp8s0        4 42 static
CELLS

# Not busybox's, nor the image's, which sees no named namespaces.
ip() { /usr/bin/ip "$@"; }
server() { ip netns exec server "$@"; }

leases() { awk '$6 == "dhcp" { print $1 }' /vm/cells; }

# ---- the other end

# A server for each network: a bond's client and that of a VLAN over it may have the same MAC and identifier.
server_up() {
    local hub name kind net how link
    modprobe -a e1000e 8021q
    ip netns add server
    server ip link set lo up
    server ip address add 192.0.2.1/32 dev lo
    for hub in 1 2 3 4; do
        ip link set "$(ls "/sys/bus/pci/devices/0000:00:1$hub.0/net")" netns server name "peer$hub"
        server ip link set "peer$hub" up
    done
    while read -r name kind _ hub net how; do
        link=peer$hub
        if [ "$kind" = vlan ]; then
            link=peer$hub.${name#*.}
            server ip link add link "peer$hub" name "$link" up type vlan id "${name#*.}"
        fi
        server ip address add "10.0.$net.1/24" dev "$link"
        [ "$how" != dhcp ] ||
            server dnsmasq --conf-file=/dev/null --port=0 --user=root --pid-file --log-facility=/vm/dhcp.log \
                --bind-interfaces --interface="$link" --except-interface=lo --dhcp-authoritative \
                --dhcp-leasefile="/vm/leases.$net" --dhcp-range="10.0.$net.100,10.0.$net.199,2m"
    done </vm/cells
}

# ---- the managers' configuration: what a manager is told of a cell, and the manager begins

# Of a cell: "$name $kind $under $hub $net $how".
ports() { echo "$under" | tr , ' '; }
if_dhcp() { if [ "$how" = dhcp ]; then echo "$1"; else echo "$2"; fi; }

networkd_cell() {
    local folder=/etc/systemd/network port
    case $kind in
    bond) printf '[NetDev]\nName=%s\nKind=bond\n[Bond]\nMode=active-backup\nMIIMonitorSec=0.1\n' "$name" >"$folder/$name.netdev" ;;
    bridge) printf '[NetDev]\nName=%s\nKind=bridge\n' "$name" >"$folder/$name.netdev" ;;
    vlan)
        printf '[NetDev]\nName=%s\nKind=vlan\n[VLAN]\nId=%s\n' "$name" "${name#*.}" >"$folder/$name.netdev"
        mkdir -p "$folder/$under.network.d"
        printf '[Network]\nVLAN=%s\n' "$name" >"$folder/$under.network.d/$name.conf"
        ;;
    esac
    printf '[Match]\nName=%s\n[Network]\n%s\n' "$name" "$(if_dhcp DHCP=ipv4 "Address=10.0.$net.2/24")" >"$folder/$name.network"
    case $kind in
    bond | bridge)
        for port in $(ports); do
            printf '[Match]\nName=%s\n[Network]\n%s=%s\n' "$port" "$kind" "$name" | sed 's/^b/B/' >"$folder/$port.network"
        done
        ;;
    esac
}

networkd_begin() {
    mkdir -p /run/systemd/netif/links /run/systemd/netif/leases /run/systemd/netif/lldp
    chown -R systemd-network:systemd-network /run/systemd/netif
    /usr/lib/systemd/systemd-networkd >/vm/manager.log 2>&1 &
}

netplan_cell() {
    local what=ethernets more='' port
    case $kind in
    bond) what=bonds more="interfaces: [$under], parameters: {mode: active-backup, mii-monitor-interval: 100}," ;;
    bridge) what=bridges more="interfaces: [$under], parameters: {stp: false}," ;;
    vlan) what=vlans more="id: ${name#*.}, link: $under," ;;
    esac
    {
        printf 'network:\n  version: 2\n  renderer: networkd\n'
        printf '  %s:\n    %s: {%s %s}\n' "$what" "$name" "$more" "$(if_dhcp 'dhcp4: true' "addresses: [10.0.$net.2/24]")"
        case $kind in
        bond | bridge)
            printf '  ethernets:\n'
            for port in $(ports); do
                printf '    %s: {}\n' "$port"
            done
            ;;
        esac
    } >"/etc/netplan/$kind-$name.yaml" # a VLAN's comes after that of what it stands on
}

netplan_begin() {
    ldconfig # how netplan finds its library
    chmod go= /etc/netplan/*
    netplan generate
    networkd_begin
}

# networkmanager_profile NAME KIND LINES
networkmanager_profile() {
    local file=/etc/NetworkManager/system-connections/$1.nmconnection
    printf '[connection]\nid=%s\ntype=%s\ninterface-name=%s\n%s\n' "$1" "$2" "$1" "$3" >"$file"
    chmod 600 "$file"
}

NetworkManager_cell() {
    local type=ethernet more='' port
    case $kind in
    bond) type=bond more='[bond]
mode=active-backup
miimon=100' ;;
    bridge) type=bridge more='[bridge]
stp=false' ;;
    vlan) type=vlan more="[vlan]
parent=$under
id=${name#*.}" ;;
    esac
    networkmanager_profile "$name" "$type" "$more
[ipv4]
$(if_dhcp method=auto "method=manual
address1=10.0.$net.2/24")
[ipv6]
method=disabled"
    case $kind in
    bond | bridge)
        for port in $(ports); do
            networkmanager_profile "$port" ethernet "master=$name
slave-type=$kind"
        done
        ;;
    esac
}

NetworkManager_begin() {
    printf '[main]\nplugins=keyfile\nno-auto-default=*\nauth-polkit=false\n' >/etc/NetworkManager/NetworkManager.conf
    mkdir -p /run/dbus /run/NetworkManager
    dbus-daemon --system --fork
    NetworkManager --debug >/vm/manager.log 2>&1 &
}

ifupdown_cell() {
    printf 'auto %s\niface %s inet %s\n' "$name" "$name" "$how"
    [ "$how" = dhcp ] || printf ' address 10.0.%s.2/24\n' "$net"
    case $kind in
    bond) printf ' bond-mode active-backup\n bond-miimon 100\n bond-slaves %s\n' "$(ports)" ;;
    bridge) printf ' bridge_ports %s\n bridge_fd 0\n' "$(ports)" ;;
    vlan) printf ' vlan-raw-device %s\n' "$under" ;;
    esac
} >>/etc/network/interfaces

ifupdown_begin() {
    mkdir -p /run/network /var/lib/dhcp
    /usr/sbin/ifup -a >/vm/manager.log 2>&1
}

# ---- the node

node_with() {
    local manager=$1 name kind under hub net how
    trap 'report_manager; report_end' EXIT
    echo 0123456789abcdef0123456789abcdef >/etc/machine-id
    server_up
    # Two interfaces on one hub, each in a network of its own.
    echo 1 >/proc/sys/net/ipv4/conf/all/arp_ignore
    /usr/lib/systemd/systemd-udevd --daemon
    igb_cards
    udevadm settle --timeout=60
    mkdir -p /etc/systemd/network /etc/netplan /etc/NetworkManager/system-connections
    while read -r name kind under hub net how; do
        "${manager}_cell"
    done </vm/cells
    "${manager}_begin"
    mkdir /vm/address
    while read -r name kind under hub net how; do
        poll 120 has_address "$name" || fail "$manager gives $name no address"
        address_of "$name" >"/vm/address/$name"
    done </vm/cells
    routes >/vm/routes
    expect_cells
}

report_manager() {
    [ $? -ne 0 ] || return 0
    ip -4 -o address
    ip -br link
    ip -4 route
    cat /proc/net/packet
    tail -n 50 /vm/manager.log
    tail -n 50 /vm/dhcp.log
    (exit 1)
}

address_of() {
    ip -4 -o address show dev "$1" scope global | awk '{ print $4 }'
}

has_address() {
    [ -n "$(address_of "$1" 2>/dev/null)" ]
}

is_there() {
    [ "$(address_of "$1" 2>&1)" = "$(cat "/vm/address/$1")" ]
}

is_reached() {
    local address
    address=$(cat "/vm/address/$1")
    server busybox ping -c 1 -W 1 "${address%/*}" >/dev/null
}

is_reached_from_afar() {
    server busybox ping -c 1 -W 1 -I 192.0.2.1 "$(cut -d/ -f1 /vm/address/bond0)" >/dev/null
}

# NetworkManager numbers its metrics in the order in which interfaces come.
routes() {
    ip -4 route | sed -E -e 's/ metric [0-9]+//; s/ linkdown//' -e 's/ *$//' | sort
}

routes_are_there() {
    routes | cmp -s - /vm/routes
}

expect_cells() {
    local name
    while read -r name _; do
        poll 120 is_there "$name" || fail "$name has $(address_of "$name"), not $(cat "/vm/address/$name")"
        poll 120 is_reached "$name" || fail "$name is not reached from the other end"
    done </vm/cells
    poll 120 routes_are_there || { routes | diff /vm/routes - || true; fail "other routes than there were"; }
    poll 120 is_reached_from_afar || fail "the node is not reached from another network"
}

# lease_end NAME: in seconds of uptime; 0: the address is gone.
lease_end() {
    local left now
    read -r now _ </proc/uptime
    left=$(ip -4 -o address show dev "$1" | sed -n 's/.* valid_lft \([0-9]*\)sec.*/\1/p')
    echo $((left ? left + ${now%.*} : 0))
}

is_renewed() {
    [ "$(lease_end "$1")" -gt $(($(cat "/vm/lease.$1") + 10)) ]
}

is_overdue() {
    local now
    read -r now _ </proc/uptime
    [ "$(lease_end "$1")" -lt $((${now%.*} + 50)) ]
}

expect_renewed() {
    local name
    for name in $(leases); do
        lease_end "$name" >"/vm/lease.$name"
    done
    for name in "$@"; do
        poll 150 is_renewed "$name" || fail "the lease of $name is not renewed"
    done
}

follow() {
    local command
    command=$(sed -n "s/.*could not be restored: $1: the lease of .*(with ifupdown: \(.*\))$/\1/p
        s/.*not restored: $1: the lease of .*(with ifupdown: \(.*\))$/\1/p" "$2")
    [ -n "$command" ] || fail "nothing is said about the lease of $1: $(cat "$2")"
    # Not busybox, which has an ifup of its own.
    dash -c "$command"
}
