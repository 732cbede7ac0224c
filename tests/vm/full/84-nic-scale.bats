#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# Eight cards with 64 VFs each: how long the network is away, beside what a fixed pause of four seconds for each card and
# each VF adds up to (Σ (4 + 4·64) s: 2080 s), which is what the images of today wait.

load ../simnet

setup_file() {
    use_simnet
}

# All of it in switchdev mode with a representor for each VF, and what the PF holds for each.
cards() {
    cat <<'CASE'
. /case/simnet.sh
cards 8
for card in 0 1 2 3 4 5 6 7; do
    named "nic$card" "eth$card"
    ip link set "nic$card" up
done
for card in 0 1 2 3 4 5 6 7; do
    vfs "netdevsim$card" 64
    devlink dev eswitch set "netdevsim/netdevsim$card" mode switchdev
    ip address add "192.0.2.$card/28" dev "nic$card"
    vf=0
    while [ "$vf" -lt 64 ]; do
        printf 'link set nic%d vf %d mac 02:00:00:00:%02x:%02x vlan %d trust on\n' "$card" "$vf" "$card" "$vf" "$((vf + 1))"
        vf=$((vf + 1))
    done
done >/tmp/batch
for port in /sys/class/net/eth*/phys_port_name; do
    name=${port%/phys_port_name} && name=${name##*/}
    read -r switch <"/sys/class/net/$name/phys_switch_id"
    read -r kind <"$port"
    echo "link set $name name c${switch%%51*}_$kind mtu 9000"
done >>/tmp/batch
ip -batch - </tmp/batch
sleep 2
network_state >/tmp/before
echo "there are $(grep -c '^link ' /tmp/before) interfaces"
CASE
}

# step_ms LOG STEP: what the init says that a step took.
step_ms() {
    sed -n "s/.* done $2 (\([0-9]*\) ms)$/\1/p" <<<"$1" | tail -n 1
}

@test "8 cards with 64 VFs each are as before the swap, and after the stop" {
    run_simnet --icount < <(cards && cat <<'CASE'
start nic:nic-1 RESTORE_DRIVER_ON_POD_TERMINATION=true
wait_ready nic 300
expect "netdevsim is not the image's" is_of nic-1 netdevsim
container_log nic
expect_state /tmp/before "the network is not what it was before the swap"
stop nic
exits nic 0 300
expect "netdevsim is not the node's own" is_inbox netdevsim
expect_state /tmp/before "the network is not what it was before the stop"
CASE
    )
    [ "$status" -eq 0 ]
    echo "# 8 cards x 64 VFs, emulated: saved in $(step_ms "$output" save-network) ms, restored in $(step_ms "$output" restore-network) ms; a pause for each: 2080000 ms" >&3
}
