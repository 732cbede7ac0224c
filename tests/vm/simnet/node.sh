# shellcheck shell=dash
# SPDX-License-Identifier: Apache-2.0
# A node as an administrator left it, for tests that care for what a kill does to it: `. /case/node.sh` after simnet.sh. Two
# cards: the first with VFs, the second in switchdev mode; a bond with a VLAN over the first, addresses and routes. The image
# brings an auxiliary module, too, with what that needs, of which the node loads nothing.
echo env=MLX5_AUXILIARY_MODULES=mlx5_ib >>/test/roles/nic.conf

# What a node has after each boot.
boot_node() {
    cards 2
    named nic0 eth0
    named nic1 eth1
    ip link set nic0 up
    ip link set nic1 up
    ip address add 203.0.113.1/24 dev nic1
}

# What operators of its cluster put on it.
configure_node() {
    vfs netdevsim0 4
    ip link set nic0 vf 0 mac 02:00:00:00:00:10 vlan 100 qos 3 trust on spoofchk on
    ip link set nic0 vf 2 mac 02:00:00:00:00:12 state enable max_tx_rate 100
    lossless nic0
    vfs netdevsim1 3
    devlink dev eswitch set netdevsim/netdevsim1 mode switchdev inline-mode transport
    ip link set nic1 vf 1 mac 02:00:00:00:00:21
    echo "options bonding max_bonds=0" >/etc/modprobe.d/bonding.conf
    ip link add uplink type bond mode active-backup miimon 100
    ip link set nic0 down
    ip link set nic0 master uplink
    ip link set uplink mtu 4000 up
    ip link add link uplink name uplink.100 type vlan id 100
    ip address add 192.0.2.1/24 dev uplink.100
    ip link set uplink.100 up
    ip route add 198.51.100.0/24 via 192.0.2.254
    poll 60 is_settled || fail "the network does not settle"
}

# An interface has its own IPv6 address some time after its carrier, and uses it when no other node does.
is_settled() {
    ! ip -6 address | grep -q tentative && ip -6 address show dev uplink | grep -q 'inet6 fe80' &&
        ip -6 address show dev uplink.100 | grep -q 'inet6 fe80' && ip -6 address show dev nic1 | grep -q 'inet6 fe80'
}

# What belongs to the cards alone.
card_facts() {
    network_state | grep -E '^(eswitch|device|vf) |^link .* vf [0-9]' | sed -E 's/^(link [^:]*):.* (vf 0 )/\1 \2/'
}

expect_nic_serves() {
    expect "netdevsim is not the image's" is_of nic-1 netdevsim
    expect "mlx5_ib is not the image's" is_of nic-1 mlx5_ib
    expect "mlx5_core is not the image's" is_of nic-1 mlx5_core
    [ -e /run/mellanox/drivers/.driver-ready ] || fail "no .driver-ready"
    expect_state /tmp/before "the network is not what it was"
    refute "the blacklist is still there" [ -L /etc/modprobe.d/blacklist-ofed-modules.conf ]
    refute "the journal is still there" [ -e /var/opt/mofed-container/inventory/.slipway-network.journal ]
}

# expect_inbox: after a stop that gives the node's own driver back.
expect_inbox() {
    expect "netdevsim is not the node's own" is_inbox netdevsim
    expect_unloaded mlx5_ib mlx5_core mlxfw
    expect_state /tmp/before "the network is not what it was before the first start"
    refute "the naming rule is still there" [ -L /etc/udev/rules.d/77-mlnx-net-names.rules ]
    refute ".driver-ready is still there" [ -e /run/mellanox/drivers/.driver-ready ]
}
