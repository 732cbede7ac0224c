/* SPDX-License-Identifier: Apache-2.0 */
/*
 * States of the network as the version before this one saved them: on a node that is upgraded, this
 * one restores them. Of a loopback interface that a /sys in a folder makes a driver's, and of a
 * card with all that a record can have.
 */
#pragma once

/* clang-format off */
#define SAVED_LINKS \
	"slipway-network 1\n" \
	"boot id=this-boot\n" \
	"link name=lo life=0 index=1 device=pci/0000:3b:00.0 dev_port=0 nth=0 mtu=30000 queue" \
	"=1000 group=7 flags=0x1 carrier=1 alias=a%20b altnames=looped\n" \
	"sysctls link=lo ipv4.conf.rp_filter=2\n" \
	"ethtool link=lo life=0 features=+tx-generic-segmentation%20+rx-gro%20+tx-tcp-segment" \
	"ation%20+tx-tcp-ecn-segmentation%20+tx-tcp-mangleid-segmentation%20+tx-tcp6-segmenta" \
	"tion%20+tx-sctp-segmentation%20+tx-udp-segmentation%20+tx-gso-list%20+tx-tcp-accecn-" \
	"segmentation%20-rx-gro-list%20-rx-udp-gro-forwarding\n" \
	"address life=0 raw=020880fe01000000080001007f000001080002007f000001070003006c6f00000" \
	"80008008000000014000600ffffffffffffffff9e1a05009e1a0500 link=lo text=127.0.0.1/8\n" \
	"address life=0 raw=0218800001000000080001000a000001080002000a000001070003006c6f00000" \
	"80008008000000014000600ffffffffffffffff9e1a05009e1a0500 link=lo text=10.0.0.1/24\n" \
	"address life=0 raw=0218810001000000080001000a000002080002000a000002070003006c6f00000" \
	"80008008100000014000600ffffffffffffffff9e1a05009e1a0500 link=lo text=10.0.0.2/24\n" \
	"address life=0 raw=0a408000010000001400010020010db800000000000000000000000214000600f" \
	"fffffffffffffff9f1a05009f1a05000800080080000000 link=lo text=2001:db8::2/64\n" \
	"address life=0 raw=0a408000010000001400010020010db800000000000000000000000114000600f" \
	"fffffffffffffff9f1a05009f1a05000800080080000000 link=lo text=2001:db8::1/64\n" \
	"neighbour life=0 raw=02000000010000008000000308000100000000000a000200026666666666000" \
	"008000400000000001400030003000000030000000300000000000000 link=lo text=0.0.0.0\n" \
	"neighbour life=0 raw=020000000100000000000801080001000a000063 link=lo text=10.0.0.99" \
	"\n" \
	"nexthop life=0 raw=02fe00000000000008000100070000000800050001000000 text=nexthop%207" \
	"\n" \
	"nexthop life=0 raw=0000000000000000080001000500000006000300000000000c000200070000000" \
	"000000008000e0000000080 text=nexthop%205\n" \
	"route life=0 raw=021800004d04fd010000000008000f004d000000080001000a08000008000400010" \
	"00000 text=10.8.0.0/24,%20table%2077\n" \
	"route life=0 raw=021800004d0400010400000008000f004d000000080001000a090000080005000a0" \
	"800010800040001000000 text=10.9.0.0/24%20via%2010.8.0.1,%20table%2077\n" \
	"route life=0 raw=02180000fe0300010000000008000f00fe00000008000100cb00710008001e00050" \
	"000000800040001000000 text=203.0.113.0/24,%20table%20254\n" \
	"route life=0 raw=02180000fe0300010000000008000f00fe00000008000100cb00720014000900080" \
	"00001010000000800000001000000 text=203.0.114.0/24,%20table%20254\n" \
	"route life=0 raw=0a300000fe0300010000000008000f00fe0000001400010020010db800070000000" \
	"00000000000000800060007000000080004000100000024000c000000000000000000000000000000000" \
	"0000000000000000000000000000000000500140000000000 text=2001:db8:7::/48,%20table%2025" \
	"4\n" \
	"rule life=0 raw=020000004d0000010000000008000f004d00000008000e00ffffffff050015000000" \
	"0000070003006c6f000008000600d2040000 text=rule%20of%20priority%201234\n" \
	"rule life=0 raw=0a0000004d0000010000000008000f004d00000008000e00ffffffff050015000000" \
	"0000070003006c6f000008000600d3040000 text=rule%20of%20priority%201235\n" \
	"end\n"

#define SAVED_DEVICES \
	"slipway-network 1\n" \
	"device device=pci/0000:3b:00.0 driver=mlx5_core vfs=1 autoprobe=0 eswitch=switchdev " \
	"inline=transport encap=none\n" \
	"param device=pci/0000:3b:00.0 name=flow_steering_mode type=5 mode=0 value=smfs\n" \
	"vf device=pci/0000:3b:00.0 index=0 function=0000:3b:00.1 driver=vfio-pci override=vf" \
	"io-pci mac=020102030405 node_guid=0xffffffffffffffff port_guid=0x1 vlan=7 qos=1 prot" \
	"ocol=0x8100 min_rate=1 max_rate=4294967295 trust=1 spoof_check=0 link_state=disable " \
	"rss_query=0\n" \
	"sf device=pci/0000:3b:00.0 controller=1 pf=2 number=88 address=020000000088 active=1" \
	"\n" \
	"rate device=pci/0000:3b:00.0 node=group share=1 max=0\n" \
	"rate device=pci/0000:3b:00.0 vf=3 controller=0 pf=0 share=0 max=2 parent=group\n" \
	"end\n"
/* clang-format on */
