#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# proves: the node's side
# What slipway-init says of a node: a driver that is not Slipway's, RDMA devices. Of one with both drivers: 10-start-stop.

load drivers

setup_file() {
    use_drivers
}

@test "a driver that the host loaded, and what stands in the way of IMEX: reported without a role of ours" {
    run_case <<'CASE'
. /test/drivers.sh
simulate
host_load_file /images/gpu/rootfs/lib/modules/$(uname -r)/updates/nvidia/nvidia.ko
# A stand-in: a script of that name, and something that listens where it would.
printf '#!/bin/sh\nsleep 1000\n' >/tmp/nvidia-imex
chmod +x /tmp/nvidia-imex
/tmp/nvidia-imex &
nc -l -p 50005 </dev/zero >/dev/null &
start peermem
exec_in peermem slipway-init status && fail "all is ready, it says"
exec_in peermem slipway-init status --json || true
kill_hard peermem
wait_exit peermem 10
rmmod nvidia
CASE
    [ "$status" -eq 0 ]
    json=$(status_json)
    [ "$(jq -r '.driver.loaded, .driver.user_space_version' <<<"$json")" = $'true\nnull' ]
    [ "$(jq -r '[.roles[].role] | index("gpu")' <<<"$json")" = null ]
    [ "$(jq -r '.imex.daemons | length, .[0].in_pod' <<<"$json")" = $'1\nfalse' ]
    [ "$(jq -r '.imex.ports[1].listening, .imex.ports[1].command' <<<"$json")" = $'true\nnc' ]
    [[ $output == *"! process "*" is the host's nvidia-imex, which keeps ComputeDomains from running their own"* ]]
    [[ $output == *"! TCP port 50005, which nvidia-imex needs, is taken by process "*"(nc)"* ]]
}

@test "RDMA devices: libibverbs answers for them, ibv_devinfo is in the image, and ib_write_bw measures" {
    run_case <<'CASE'
. /test/drivers.sh
simulate
host_load rdma_rxe
host_load dummy
host_load crc32_generic
ip link add rdma0 type dummy
ip link set rdma0 up
ip address add 192.0.2.1/24 dev rdma0
chroot /images/nic/rootfs rdma link add rxe0 type rxe netdev rdma0
start gpu
wait_ready gpu 90
exec_in gpu ibv_devinfo -d rxe0
exec_in gpu slipway-init ibdev2netdev
exec_in gpu slipway-init show_gids
exec_in gpu slipway-init show_gids rxe0 | grep -x 'n_gids_found=2'
refute "a device that is not there" exec_in gpu slipway-init show_gids mlx5_9
refute "an interface without DCB" exec_in gpu slipway-init mlnx_qos -i rdma0
for name in ibdev2netdev show_gids mlnx_qos cma_roce_mode cma_roce_tos; do
    [ "$(readlink "/images/nic/rootfs/usr/bin/$name")" = slipway-init ] || fail "the NIC image has no $name"
done
exec_in gpu slipway-init status
exec_in gpu slipway-init status --json
# As docs/operators.md has it, but on one machine.
for name in dev proc sys; do
    mount --bind "/$name" "/images/nic/rootfs/$name"
done
ib_write_bw() { chroot /images/nic/rootfs ib_write_bw -d rxe0 -x 1 -n 50 -F --report_gbits "$@"; }
ib_write_bw >/tmp/server &
poll 30 grep -q ':4853 .* 0A ' /proc/net/tcp /proc/net/tcp6 || fail "nothing listens on TCP port 18515"
ib_write_bw --out_json --out_json_file=/dev/figures 192.0.2.1
wait $!
sed 's/^BW_/FIGURES &/' /dev/figures
chroot /images/nic/rootfs rdma link delete rxe0
stop_clean gpu
CASE
    [ "$status" -eq 0 ]
    json=$(status_json)
    [ "$(jq -r '.rdma[0] | .name, .by_verbs, .ports[0].state, .ports[0].link_layer' <<<"$json")" = $'rxe0\ntrue\nACTIVE\nEthernet' ]
    [ "$(jq -r '.rdma[0] | .dma_buf, .ports[0].interface, .ports[0].physical_state' <<<"$json")" = $'false\nrdma0\nLinkUp' ]
    [[ $output == *'hca_id:'*'rxe0'*'PORT_ACTIVE'* ]]
    [[ $output == *'rxe0 port 1 ==> rdma0 ('* ]]
    awk '/^FIGURES BW_average: / { average = $3 + 0 } END { exit !(average > 0) }' <<<"$output"
    [[ $output == *$'rxe0\t1\t1\t0000:0000:0000:0000:0000:ffff:c000:0201\t192.0.2.1'*$'\tv2\trdma0'* ]]
}

# QEMU has no function of NVIDIA's or Mellanox': what /sys says of the vendor is this test's, all else the kernel's own.
@test "topo: PIX, PXB, PHB, NODE and SYS behind switches, root ports and host bridges of two NUMA nodes" {
    run_case --qemu "$vm_folder/topology.qemu" <<'CASE'
echo 0x10de >/tmp/nvidia
echo 0x15b3 >/tmp/mellanox
for device in /sys/bus/pci/devices/*; do
    case $(cat "$device/class") in
    0x0380*) mount --bind /tmp/nvidia "$device/vendor" ;;
    0x0200*) mount --bind /tmp/mellanox "$device/vendor" ;;
    esac
done
host_load e1000e
mount --rbind /sys /images/nic/rootfs/sys
chroot /images/nic/rootfs slipway-init topo
chroot /images/nic/rootfs slipway-init topo --json
CASE
    [ "$status" -eq 0 ]
    grep -E '^ +0000:23:00.0 +PIX +PXB +PHB +NODE +SYS$' <<<"$output"
    json=$(grep '^{"flat"' <<<"$output")
    [ "$(jq -r '[.pairs[] | .nic + " " + .relation] | join(", ")' <<<"$json")" = \
        "0000:24:00.0 PIX, 0000:27:00.0 PXB, 0000:28:00.0 PHB, 0000:61:00.0 NODE, 0000:a1:00.0 SYS" ]
    [ "$(jq -c '.pairs[1] | .common_bridge, .ports' <<<"$json")" = \
        $'"0000:21:00.0"\n["0000:22:00.0","0000:22:02.0","0000:25:00.0","0000:26:00.0"]' ]
    [ "$(jq -c '.flat, .gpus[0].best_nics, [.nics[].numa_node], [.nics[].interfaces | length]' <<<"$json")" = \
        $'false\n["0000:24:00.0"]\n[0,0,0,0,1]\n[1,1,1,1,1]' ]
    [ "$(jq -c '[.nics[].pcie_root] | unique' <<<"$json")" = '["pci0000:20","pci0000:60","pci0000:a0"]' ]
}
