#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# proves: the node's side
# needs: any kernel
# What the NIC role decides before it touches anything: nothing to do, what differs, what stands in the way. And what it
# reports when its driver is changed afterwards. Of the network itself: 82 to 84.

load kill

setup_file() {
    in_each_guest use_kill_points
}

# What every case may want: the modules with the serial number of each load, who watches what the kernel reports, and what
# a start leaves on the node beside the role's own folder.
words() {
    cat <<'CASE'
. /test/drivers.sh
simulate
loads() {
    for module in /sys/module/*/initstate; do
        stat -c '%i %n' "${module%/initstate}"
    done | sort
}
files() {
    find /etc /var/opt /host /lib/udev -type f -o -type l 2>/dev/null | sort
    find /run/mellanox -path /run/mellanox/drivers/slipway -prune -o -print | sort
}
listen() {
    : >/tmp/uevents
    uevent sh -c 'echo "$ACTION $DEVPATH $SYNTH_ARG_MARK" >>/tmp/uevents' &
    listener=$!
    : >/tmp/rtnetlink
    chroot /images/nic/rootfs /usr/sbin/ip -o monitor link address route neigh rule >>/tmp/rtnetlink &
    monitor=$!
    poll 30 told || fail "a listener is deaf"
    : >/tmp/uevents
    : >/tmp/rtnetlink
}
# Events of an interface that no driver has. When the listeners have told them, they have told all that was before.
mark=0
told() {
    mark=$((mark + 1))
    ip link set lo mtu $((65536 - mark))
    echo "change 00000000-0000-4000-8000-000000000000 MARK=$mark" >/sys/class/net/lo/uevent
    poll 5 are_told
}
are_told() {
    grep -q " lo: .* mtu $((65536 - mark)) " /tmp/rtnetlink && grep -q "/net/lo $mark\$" /tmp/uevents
}
heard_nothing() {
    poll 30 told || fail "a listener is deaf"
    kill "$listener" "$monitor"
    # A container's own coming and going is of no module and no device.
    grep -vE '/(cgroup|slab|mm/hugepages|net/lo )' /tmp/uevents >/tmp/uevents.left || true
    [ ! -s /tmp/uevents.left ] || fail "the kernel reported $(cat /tmp/uevents.left)"
    refute "rtnetlink reported changes" grep -v '^[0-9]*: lo: ' /tmp/rtnetlink
}
build_id() {
    hexdump -ve '1/1 "%02x"' "/sys/module/$1/notes/.note.gnu.build-id"
}
# Refused, and the node is as it was.
refused() {
    exits nic 16 60
    loads | cmp - /tmp/loads || fail "modules came or went"
    [ ! -e /run/mellanox/drivers/.driver-ready ] || fail "a refused start is ready"
    ! grep -E '^phase name=(unloading|loading|dependents|restoring|rollback)$' /run/mellanox/drivers/slipway/swap.journal || fail "a swap is pending"
    heard_nothing
    termination_message nic
}
CASE
}

# bats test_tags=core
@test "an equal set: ready, and no module, interface or file of the node is touched" {
    run_case < <(words && cat <<'CASE'
ip link set lo up
start nic
wait_ready nic 90
expect_nic_serves
exec_in nic slipway-init status
kill_hard nic
wait_exit nic 10
loads >/tmp/loads
files | grep -v '/.driver-ready$' >/tmp/files
# Storage, foreign drivers and users do not matter where nothing has to go.
pin ib_core
loads >/tmp/loads
listen
start nic
wait_ready nic 30
heard_nothing
loads | cmp - /tmp/loads || fail "modules were loaded anew"
files | grep -v '/.driver-ready$' | cmp - /tmp/files || fail "files of the node changed"
# The listener does receive, when there is something.
listen
unpin
ip link set lo down
poll 30 test -s /tmp/uevents || fail "no word of a module that went"
poll 30 test -s /tmp/rtnetlink || fail "no word of an interface that went down"
kill "$listener" "$monitor"
expect_nic_serves
exec_in nic slipway-init status
exec_in nic slipway-init status --json
cat /run/mellanox/drivers/slipway/metrics/nic.prom
for step in prove save-network swap-out swap-in reload-dependents unblock restore-network keep-modules; do
    refute "$step was begun" container_log_has nic "begin $step"
done
CASE
    )
    [ "$status" -eq 0 ]
    [[ $output == *"ofed     precompiled: loaded, nothing had to be unloaded"* ]]
    [[ $output == *"ofed     precompiled: was already loaded, nothing was changed"* ]]
    [[ $output == *'"nic":{"mode":"precompiled","swap":"same","unloaded":[],"missing":[],"unrestored":[]'* ]]
    [[ $output == *'slipway_nic_info{mode="precompiled",swap="same"} 1'* ]]
}

@test "another parameter: that module alone is loaded anew, and the same one again is not" {
    run_case < <(words && cat <<'CASE'
start nic
wait_ready nic 90
[ "$(cat /sys/module/ib_ipoib/parameters/send_queue_size)" != 512 ]
kill_hard nic
wait_exit nic 10
loads | grep -v /ib_ipoib$ >/tmp/loads
echo "options ib_ipoib send_queue_size=512" >/etc/modprobe.d/fabric.conf
start nic
wait_ready nic 90
[ "$(cat /sys/module/ib_ipoib/parameters/send_queue_size)" = 512 ]
loads | grep -v /ib_ipoib$ | cmp - /tmp/loads || fail "more than ib_ipoib was loaded anew"
exec_in nic slipway-init status
kill_hard nic
wait_exit nic 10
loads >/tmp/loads
start nic
wait_ready nic 30
loads | cmp - /tmp/loads || fail "it was loaded anew"
# A driver that was loaded without it.
kill_hard nic
wait_exit nic 10
rm /run/mellanox/drivers/slipway/nic.parameters
rmmod ib_ipoib
host_load_file "/images/nic/rootfs/lib/modules/$(uname -r)/updates/ofed/ib_ipoib.ko"
start nic
wait_ready nic 90
[ "$(cat /sys/module/ib_ipoib/parameters/send_queue_size)" = 512 ]
CASE
    )
    [ "$status" -eq 0 ]
    [[ $output == *"ofed     precompiled: loaded in place of ib_ipoib"* ]]
    [[ $output == *"parameters: ib_ipoib send_queue_size=512"* ]]
}

@test "storage and third-party RDMA are refused together, with the variables that let them go" {
    run_case < <(words && cat <<'CASE'
host_load mlx5_ib
host_load ib_iser
host_load rpcrdma
host_load rdma_rxe
pin ib_core
loads >/tmp/loads
listen
start nic
refused
grep -q 'ib_iser, rpcrdma (storage over RDMA)' /vm/containers/nic/now/log || fail "not reported by itself"
listen
start nic UNLOAD_STORAGE_MODULES=true
refused
listen
start nic UNLOAD_STORAGE_MODULES=true UNLOAD_THIRD_PARTY_RDMA_MODULES=true
refused
unpin
start nic UNLOAD_STORAGE_MODULES=true UNLOAD_THIRD_PARTY_RDMA_MODULES=true
wait_ready nic 90
expect_nic_serves
exec_in nic slipway-init status
CASE
    )
    [ "$status" -eq 0 ]
    all='MODULE_IN_USE: nothing was touched: '
    storage='(storage over RDMA) must be unloaded: set UNLOAD_STORAGE_MODULES=true'
    third='rdma_rxe (third-party RDMA) must be unloaded: set UNLOAD_THIRD_PARTY_RDMA_MODULES=true'
    pinned='ib_core is in use: 1 reference(s)'
    grep -F "$all" <<<"$output" | grep -F "$storage" | grep -F "$third" | grep -F "$pinned"
    grep -F "$all" <<<"$output" | grep -F "$third" | grep -F "$pinned" | grep -vF "$storage"
    grep -F "$all$pinned" <<<"$output"
    [[ $output == *"ofed     precompiled: loaded in place of"*"rdma_rxe"* ]]
}

@test "a driver of devices that the image lacks keeps its core" {
    run_case < <(words && cat <<'CASE'
host_load mlx5_ib
host_load ib_mthca
loads >/tmp/loads
listen
start nic UNLOAD_THIRD_PARTY_RDMA_MODULES=true
refused
# Named by the operator it goes as the others do.
start nic UNLOAD_THIRD_PARTY_RDMA_MODULES=true THIRD_PARTY_RDMA_MODULES=ib_mthca
wait_ready nic 90
CASE
    )
    [ "$status" -eq 0 ]
    [[ $output == *"ib_mthca drives devices and must be unloaded, but the image has no build of it"* ]]
}

@test "a start that is refused where an earlier one was killed in the middle puts the node's own driver back" {
    run_kill_case <<'CASE'
. /case/kill.sh
victim=nic
victim_image=nic
# A first process of a name space of its own is not to be killed from inside.
sed -i 's/^namespaces=.*/namespaces=mount ipc/' /test/roles/nic.conf
simulate
host_load mlx5_ib
inbox=$(hexdump -ve '1/1 "%02x"' /sys/module/mlx5_core/notes/.note.gnu.build-id)
killed_in_start swap-out:module:2
expect_unloaded mlx5_core mlx5_ib
pin ib_core
start nic
exits nic 16 60
termination_message nic
expect_loaded mlx5_core mlx5_ib
[ "$(hexdump -ve '1/1 "%02x"' /sys/module/mlx5_core/notes/.note.gnu.build-id)" = "$inbox" ]
! grep -E '^phase name=(unloading|loading|dependents|restoring|rollback)$' /run/mellanox/drivers/slipway/swap.journal || fail "a swap is still pending"
unpin
converges
stop_clean nic
[ "$(hexdump -ve '1/1 "%02x"' /sys/module/mlx5_core/notes/.note.gnu.build-id)" = "$inbox" ]
CASE
    [ "$status" -eq 0 ]
    [[ $output == *"MODULE_IN_USE: nothing was touched: ib_core is in use: 1 reference(s)"* ]]
}

@test "a module that is unloaded or replaced is reported, and so is that it came back" {
    run_case < <(words && cat <<'CASE'
start nic
wait_ready nic 90
rmmod mlx5_ib
wait_log nic 'replaced watch \[DRIVER_REPLACED\]: .*mlx5_ib: no longer loaded' 10
exec_in nic slipway-init status --json | tr ',' '\n' | grep -A 1 '"replaced"'
grep '^slipway_nic_modules_replaced' /run/mellanox/drivers/slipway/metrics/nic.prom
grep '^slipway_role_info' /run/mellanox/drivers/slipway/metrics/nic.prom
grep -q '"event":"replaced"' /run/mellanox/drivers/slipway/nic.events.jsonl || fail "no event"
insmod "/images/nic-other/rootfs/lib/modules/$(uname -r)/updates/ofed/mlx5_ib.ko" ||
    insmod "/images/nic/rootfs/lib/modules/$(uname -r)/updates/ofed/mlx5_ib.ko"
wait_log nic 'mlx5_ib: (another build is loaded now|reloaded, in the same build)' 10
exec_in nic slipway-init status | head -n 2
probe nic liveness
# The next start puts it right.
kill_hard nic
wait_exit nic 10
start nic
wait_ready nic 90
exec_in nic slipway-init status | head -n 2
id=$(build_id mlx5_ib)
[ -n "$id" ] || fail "mlx5_ib has no build id"
hexdump -ve '1/1 "%02x"' "/images/nic/rootfs/lib/modules/$(uname -r)/updates/ofed/mlx5_ib.ko" | grep -q "$id" ||
    fail "mlx5_ib is not the image's"
CASE
    )
    [ "$status" -eq 0 ]
    [[ $output == *'"mlx5_ib: no longer loaded"'* ]]
    [[ $output == *'slipway_nic_modules_replaced 1'* ]]
    [[ $output == *'slipway_role_info{role="nic",state="ready",reason="DRIVER_REPLACED"} 1'* ]]
    [[ $output == *'[DRIVER_REPLACED]: another process changed what this container loaded: mlx5_ib'* ]]
    [[ ${lines[*]: -6} != *DRIVER_REPLACED* ]]
}

@test "the operator's paths and words: a flag, a lock and a mount elsewhere; what has no use is said" {
    run_case < <(words && cat <<'CASE'
mkdir -p /run/mellanox/drivers/other
start nic DRIVER_READY_PATH=/run/mellanox/drivers/other/ready LOCK_FILE_PATH=/run/mellanox/drivers/other/lock USE_DKMS=true
wait_ready nic 90
[ -e /run/mellanox/drivers/other/ready ] || fail "no flag where it was asked for"
[ ! -e /run/mellanox/drivers/.driver-ready ] || fail "a flag where none was asked for"
[ -e /run/mellanox/drivers/other/lock ] || fail "no lock where it was asked for"
container_log nic | grep 'USE_DKMS is set: not needed'
stop_clean nic
[ ! -e /run/mellanox/drivers/other/ready ] || fail "the flag is still there"
[ ! -e /run/mellanox/drivers/other/lock ] || fail "the lock is still there"
start nic UNLOAD_STORAGE_MODULES=perhaps
exits nic 2 30
termination_message nic
start nic LOCK_FILE_PATH=/proc/no/lock
exits nic 19 30
termination_message nic
CASE
    )
    [ "$status" -eq 0 ]
    [[ $output == *"USAGE: UNLOAD_STORAGE_MODULES=perhaps: give true"* ]]
    [[ $output == *"MOUNT_FAILED: the folder of /proc/no/lock cannot be made"* ]]
}
