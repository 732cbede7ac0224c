#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2154
# SPDX-License-Identifier: Apache-2.0
# proves: the node's side
# The test VM tests itself: the probe image stands where the driver images will.

load helpers

setup_file() {
    use_guest
    "$vm_folder/make-probe-image"
    use_images gpu=localhost/slipway-vm-probe nic=localhost/slipway-vm-probe
}

@test "a case's exit code is run-vm's" {
    run_case <<<'exit 3'
    [ "$status" -eq 3 ]
}

@test "a command that fails ends the case" {
    run_case <<'CASE'
grep -q no-such-word /proc/version
echo not reached
CASE
    [ "$status" -eq 1 ]
    [[ $output != *"not reached"* ]]
}

@test "a machine that never ends is ended at the time limit" {
    run_case --timeout 8 --boot <<<'sleep 100'
    [ "$status" -eq 124 ]
}

@test "the simulated devices are on the bus with their ids and memory" {
    run_case <<'CASE'
simulate
cd /sys/bus/pci/devices
for device in 0000:40:00.0 0000:40:01.0; do
    echo "$device $(cat $device/vendor) $(cat $device/device) $(cat $device/class)"
done
awk 'NR == 1 { print "gpu memory", $1 }' 0000:40:00.0/resource
rmmod simdev
[ ! -e 0000:40:00.0 ]
insmod /test/modules/simdev.ko gpu=0
[ ! -e 0000:40:00.0 ]
[ -e 0000:40:01.0 ]
CASE
    [ "$status" -eq 0 ]
    [[ $output == *"0000:40:00.0 0x10de 0x20b0 0x030200"* ]]
    [[ $output == *"0000:40:01.0 0x15b3 0x101d 0x020000"* ]]
    [[ $output != *"gpu memory 0x0000000000000000"* ]]
}

@test "the host has its own RDMA modules, and a pinned one does not unload" {
    run_case <<'CASE'
host_load mlx5_ib
for module in ib_core mlx5_core mlx5_ib; do
    loaded "$module" || fail "$module is not loaded"
done
pin ib_core
rmmod mlx5_ib ib_uverbs
refute "a pinned module stays" rmmod ib_core
loaded ib_core
unpin
rmmod ib_core
refute "an unpinned one goes" loaded ib_core
CASE
    [ "$status" -eq 0 ]
}

@test "the GPU container sees the host's processes, the NIC container is process 1 on the host's network" {
    run_case <<'CASE'
start gpu
start nic
wait_log gpu 'started as [0-9]+ with init' 10
wait_log nic 'started as 1 with precompiled' 10
expect "hostPID" test "$(exec_in gpu cat /proc/1/comm)" = init
expect "gpu is the process we know" test "$(exec_in gpu cat "/proc/$(container_pid gpu)/comm")" = nvidia-driver
expect "NIC's process 1" test "$(exec_in nic cat /proc/1/comm)" = nic-driver
host_load dummy
ip link set dummy0 name host0
expect "the host's interfaces" exec_in nic test -e /sys/class/net/host0
expect "its own interfaces" exec_in gpu test ! -e /sys/class/net/host0
expect "the host's name" test "$(exec_in nic hostname)" = vm-node
CASE
    [ "$status" -eq 0 ]
}

@test "mounts go between container and host as the DaemonSets say" {
    run_case <<'CASE'
start gpu
start nic
wait_log gpu started 10
wait_log nic started 10
# Bidirectional: what a container mounts is seen by the host and the other container.
exec_in gpu mkdir -p /run/nvidia/driver
exec_in gpu mount --rbind / /run/nvidia/driver
expect "the driver root on the host" test -x /run/nvidia/driver/bin/nvidia-driver
exec_in nic mkdir -p /run/mellanox/drivers/usr/src
exec_in nic mount -t tmpfs headers /run/mellanox/drivers/usr/src
exec_in nic touch /run/mellanox/drivers/usr/src/from-nic
expect "the NIC's mount on the host" test -e /run/mellanox/drivers/usr/src/from-nic
expect "the NIC's mount in the GPU container" exec_in gpu test -e /run/mellanox/drivers/usr/src/from-nic
# HostToContainer: the other way only.
exec_in gpu mkdir /run/mellanox/drivers/own
exec_in gpu mount -t tmpfs own /run/mellanox/drivers/own
exec_in gpu touch /run/mellanox/drivers/own/file
expect "the GPU's mount stays inside" test ! -e /run/mellanox/drivers/own/file
# Files and folders of the host.
expect "host modules" exec_in nic test -e "/host/lib/modules/$(uname -r)/modules.dep"
expect "no host modules in the image's place" exec_in nic test ! -e "/lib/modules/$(uname -r)"
exec_in gpu sh -c 'echo -n /some/where >/sys/module/firmware_class/parameters/path'
expect "the firmware path" grep -q /some/where /sys/module/firmware_class/parameters/path
expect "the host's release" exec_in gpu grep -q ID= /host-etc/os-release
exec_in nic sh -c 'echo "options x" >/host/etc/modprobe.d/x.conf'
expect "the host's modprobe.d" grep -q options /etc/modprobe.d/x.conf
exec_in nic touch /mnt/drivers-inventory/kept
expect "the inventory" test -e /var/opt/mofed-container/inventory/kept
CASE
    [ "$status" -eq 0 ]
}

@test "a container ends by SIGTERM or SIGKILL and starts again with a fresh root" {
    run_case <<'CASE'
start gpu KEY=a=b "QUOTED=say \"x\""
wait_log gpu started 10
expect "a variable of the case" test "$(exec_in gpu sh -c 'echo $KEY')" = a=b
expect "its quotes" test "$(exec_in gpu sh -c 'echo $QUOTED')" = 'say "x"'
expect "a variable of the DaemonSet" test "$(exec_in gpu sh -c 'echo $NVIDIA_VISIBLE_DEVICES')" = void
mkdir -p /run/nvidia/validations
touch /run/nvidia/validations/.driver-ctr-ready
exec_in gpu touch /left-behind /run/nvidia/kept
stop gpu
expect "the exit code" test "$(wait_exit gpu 10)" = 7
expect "the preStop hook" test ! -e /run/nvidia/validations/.driver-ctr-ready
expect "its last words" test "$(termination_message gpu)" = ready
container_log gpu | grep 'got SIGTERM'
start gpu
wait_log gpu started 10
expect "a fresh root" exec_in gpu test ! -e /left-behind
expect "the host's folder" exec_in gpu test -e /run/nvidia/kept
expect "a second process" grep -qs '1234[5]' /proc/[0-9]*/cmdline
kill_hard gpu
expect "137" test "$(wait_exit gpu 10)" = 137
refute "the second process is gone" grep -qs '1234[5]' /proc/[0-9]*/cmdline
start gpu other -- exit 9
expect "the image's own exit code" test "$(wait_exit other 10)" = 9
CASE
    [ "$status" -eq 0 ]
}

@test "the operator's startup probe runs in the container" {
    run_case --add "$(startup_probe)" <<'CASE'
start gpu
wait_log gpu started 10
refute "no driver, no success" probe gpu startup
start nic
refute "not ready" probe nic startup
touch /run/mellanox/drivers/.driver-ready
expect "ready" probe nic startup
CASE
    [ "$status" -eq 0 ]
    [[ $output == *"NVIDIA kernel module not loaded"* ]]
}

@test "a container over its memory limit is killed" {
    run_case <<'CASE'
memory_limit=33554432 start gpu
wait_log gpu started 10
exec_in gpu dd if=/dev/zero of=/dev/null bs=100M count=1 || echo "dd ended with $?"
CASE
    [ "$status" -eq 0 ]
    [[ $output == *"dd ended with 137"* ]]
}

@test "an open file can be held" {
    run_case <<'CASE'
device_node mem /tmp/null 3
hold /tmp/null
ls -l "/proc/$held_pid/fd" | grep /tmp/null
kill "$held_pid"
CASE
    [ "$status" -eq 0 ]
}

@test "module signatures can be asked for" {
    run_case --append module.sig_enforce=1 <<'CASE'
refute "an unsigned module" simulate
host_load ib_core
loaded ib_core
CASE
    [ "$status" -eq 0 ]
}

@test "free memory: what a mount holds is missing, what was freed and waits on a list is not" {
    run_case <<'CASE'
before=$(free_kib)
mkdir /left
mount -t tmpfs tmpfs /left
head -c 512000 /dev/zero >/left/behind
held=$((before - $(free_kib)))
umount /left
head -c 32000000 /dev/zero >/tmp/short
rm /tmp/short
lost=$((before - $(free_kib)))
echo "held $held KiB, lost $lost KiB"
[ "$held" -ge 400 ] && [ "$held" -le 800 ] || fail "500 KiB in a tmpfs are seen as $held"
[ "$lost" -le 200 ] || fail "nothing is held, and $lost KiB are missing"
CASE
    [ "$status" -eq 0 ]
}
