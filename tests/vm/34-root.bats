#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# proves: the node's side
# The driver root: what others find in it, that it is swapped without a gap, and firmware for the kernel.

load drivers

setup_file() {
    use_drivers
}

# The operator's operands mount /run/nvidia/driver itself, with HostToContainer propagation, while it is there.
@test "a root is replaced without a gap, and operands that mount it itself see the next container's, also another image's" {
    run_case <<'CASE'
. /test/drivers.sh
simulate
start gpu
wait_ready gpu 90
start operand

# works OPERAND ROOT: its libraries, programs and devices can be used.
works() {
    exec_in "$1" chroot "$2" sh -euc 'ldconfig -p | grep -q libnvidia-ml.so.1
        test -e /usr/lib/x86_64-linux-gnu/libcuda.so.1
        test -c /dev/nvidiactl
        : </dev/nvidia-uvm
        grep -q NVRM /proc/driver/nvidia/version
        modprobe -n nvidia-drm'
}

# follows OPERAND: what it sees is the root of the container that runs.
follows() {
    local mark=etc/mark.$round.$1
    exec_in gpu touch "/$mark"
    works "$1" /driver-root || fail "$1: the driver root does not work"
    exec_in "$1" test -e "/driver-root/$mark" || fail "$1 sees an older container's root"
}

# The kubelet removes a container that has ended; the layers of its image stay.
restart() {
    wait_exit gpu 10
    start "$@"
    wait_ready gpu 90
    rm -r "/vm/containers/gpu/$((round - 1))/upper"
}

round=1
follows operand

# The host, and an operand's container with all of /run/nvidia, look all the time.
mkdir /operand
mount --rbind /run/nvidia /operand
mount --make-rslave /operand
cat >/tmp/reader <<'READER'
looks=0 gaps=0
while [ -e /tmp/read ]; do
    looks=$((looks + 1))
    [ -x $1/usr/bin/slipway-init ] || gaps=$((gaps + 1))
    [ -c $1/dev/nvidiactl ] || gaps=$((gaps + 1))
done
echo "$1: $looks looks, $gaps gaps"
[ "$gaps" = 0 ] && [ "$looks" -gt 100 ]
READER
: >/tmp/read
sh /tmp/reader /run/nvidia/driver &
host=$!
sh /tmp/reader /operand/driver &
whole=$!
for round in 2 3; do
    kill_hard gpu
    restart gpu
    container_log_has gpu 'keeping it' || fail "not the fast path"
    expect_gpu_serves
    follows operand
    start operand "operand$round"
    follows "operand$round"
    [ "$(mounts_at /operand/driver)" = 1 ] || fail "the operand sees $(mounts_at /operand/driver) roots"
done
follows operand2

# Without propagation: what was there when it started. Its files are those of the image's layers, and the nodes are right
# as long as the driver is the same.
exec_in operand sh -euc 'test -e /private-root/usr/lib/x86_64-linux-gnu/libcuda.so.1
    test -x /private-root/usr/bin/nvidia-smi
    : </private-root/dev/nvidia-uvm'
refute "it has a newer root" exec_in operand test -e /private-root/etc/mark.2.operand

# Another image, a start of which takes the full path and keeps the modules, for they are the same.
mkdir -p /vm/other/upper /vm/other/work
mount -t overlay -o lowerdir=/images/gpu/rootfs,upperdir=/vm/other/upper,workdir=/vm/other/work overlay /images/gpu-elsewhere/rootfs
sed -i 's/^set=.*/set=another/' $(grep -rl ^set= /images/gpu-elsewhere/rootfs/etc/slipway /images/gpu-elsewhere/rootfs/usr/lib/slipway)
mkdir /images/gpu-elsewhere/rootfs/another
: >/images/gpu-elsewhere/rootfs/another/image
round=4
kill_hard gpu
restart gpu:gpu-elsewhere
container_log_has gpu 'set of modules' || fail "not the full path"
expect_gpu_serves
for operand in operand operand2 operand3; do
    follows "$operand"
    exec_in "$operand" test -e /driver-root/another/image || fail "$operand does not see the other image"
done
rm /tmp/read
expect "the host saw a gap" wait $host
expect "the operand saw a gap" wait $whole
umount -l /operand

# And back: what only the other image had is gone.
round=5
kill_hard gpu
restart gpu
follows operand
refute "the other image is left" test -e /run/nvidia/driver/another/image
refute "an older container's root is still mounted" grep -qE 'run/nvidia/driver/(usr|etc|run|dev).*containers/gpu/[1234]/' /proc/self/mountinfo
stop_clean gpu
expect_nothing_left
CASE
    [ "$status" -eq 0 ]
}

@test "without RDMA no OFED is needed; the root holds what operands and those who chroot look for; a second container and W22 a verb that is not there change nothing" {
    run_case <<'CASE'
. /test/drivers.sh
simulate
start gpu
wait_ready gpu 90
expect_gpu_serves
expect_unloaded nvidia_peermem ib_core
root=/run/nvidia/driver
ls $root/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1 $root/usr/bin/nvidia-smi $root/usr/src/nvidia-*/Module.symvers
version=$(cat /sys/module/nvidia/version)
ls "$root/usr/lib/x86_64-linux-gnu/libcuda.so.$version" "$root/lib/firmware/nvidia/$version/"gsp*.bin

# Devices with the numbers that the driver has.
for node in nvidiactl nvidia0 nvidia-modeset; do
    [ "$(stat -c %t $root/dev/$node)" = c3 ] || fail "$node has another major"
done
uvm=$(awk '$2 == "nvidia-uvm" { printf "%x", $1 }' /proc/devices)
[ "$(stat -c '%t %T %a' $root/dev/nvidia-uvm)" = "$uvm 0 666" ] || fail "nvidia-uvm: $(stat -c '%t %T %a' $root/dev/nvidia-uvm)"
[ "$(stat -c '%a' $root/dev/nvidia-caps/nvidia-cap1)" = 400 ] || fail "MIG's configuration is for others, too"

# The validator's and the driver manager's way to load a module.
chroot $root modprobe nvidia-drm
expect_loaded nvidia_drm
chroot $root modprobe --show-depends nvidia-peermem | grep -q nvidia-peermem.ko
rmmod nvidia_drm
expect_unloaded nvidia_drm

# What the containers for GPUDirect Storage and GDRCopy wait for before they exec their program.
exec_in gpu sh -c '[ -d /run/nvidia/driver/usr/src ] && lsmod | grep nvidia'
exec_in gpu nvidia-gdrcopy-driver install && fail "gdrdrv came from nowhere"

start gpu second
exits second 10 30
termination_message second
exec_in gpu slipway-init status | grep 'gpu      ready'
grep -q '"event":"ready"' /run/nvidia/slipway/gpu.events.jsonl
status=0
exec_in gpu nvidia-driver update >/vm/update 2>&1 || status=$?
cat /vm/update
[ "$status" = 2 ]
[ ! -e /run/kernel ]
refute "a hook" exec_in gpu sh -c 'ls /run/kernel/postinst.d 2>/dev/null | grep .'
expect_gpu_serves
stop_clean gpu
expect_nothing_left
CASE
    [ "$status" -eq 0 ]
    [[ $output == *"WILL_NOT_LOAD]: this image has no module gdrdrv for "*"slipway build --gdrcopy SOURCE"* ]]
    [[ $output == *"ALREADY_RUNNING: another driver container holds /run/nvidia/nvidia-driver.pid"* ]]
    [[ $output == *'no verb "update"'* ]]
}

@test "firmware is there for the kernel before modules load, as a mount, and a path that leads nowhere is replaced" {
    run_case <<'CASE'
. /test/drivers.sh
simulate
path=/sys/module/firmware_class/parameters/path
echo -n /opt/driver-that-is-gone/firmware >$path
start gpu
wait_log gpu 'begin load' 60
ls /run/nvidia/driver/lib/firmware/nvidia/*/gsp*.bin
[ "$(cat $path)" = /run/nvidia/driver/lib/firmware ] || fail "the firmware path is $(cat $path)"
wait_ready gpu 90
container_log_has gpu 'which does not exist on the node: replacing it' || fail "not reported"
# As the operator mounts it, the container's own /lib/firmware is the host's folder: nothing was copied there.
exec_in gpu sh -c '[ -z "$(ls /lib/firmware)" ]' || fail "firmware was copied to the host's memory"
stop_clean gpu
[ -z "$(ls /run/nvidia/driver/lib/firmware)" ] || fail "firmware is still shown"
expect_nothing_left

mkdir -p /opt/firmware
echo -n /opt/firmware >$path
start gpu
wait_ready gpu 90
container_log_has gpu 'is /opt/firmware, which another program set and which has no nvidia/' || fail "not reported"
stop_clean gpu
[ "$(cat $path)" = /opt/firmware ] || fail "an administrator's path is gone"
CASE
    [ "$status" -eq 0 ]
}
