#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# proves: the node's side
# What users of the stock driver container meet (operator-gpu.md, section 6: W1 to W22), one test each where a machine
# without a GPU can show it. With VM_FAULTS_ON_DOUBLE=1, as in make check-full, the fault is shown first on a shell
# entrypoint that was written from the stock one's description (stock/nvidia-driver, a test double): a test that finds
# no fault there would find none anywhere. tests/vm/README.md lists those that are not here, and why.
#
# Cases tagged full run there only: the ordinary run shows the same of our program in 10-start-stop (W5), 15-proof (W4, W11),
# 20-refusals (W7, W10), 30-signals (W18), 34-root (W16, W18, W22), 32-fast-path (W15), 36-parameters (W19), 37-devices (W4, W17),
# 38-unload (W6) and 45-peermem (W2, W3).

load drivers

# The double in the place of our program. Its modules lie where the full path takes them from.
put_stock() {
    mkdir -p "$root/usr/lib/stock" "$root/opt/build"
    mv "$root/lib/modules"/* "$root/opt/build/"
    # All of it but its end, which runs it.
    sed '/^case /,$d' "$vm_folder/../bench/stock-like.sh" >"$root/usr/lib/stock/stock-like.sh"
    "$vm_folder/../bench/stock-programs" "$BATS_FILE_TMPDIR/programs.tar"
    tar -xf "$BATS_FILE_TMPDIR/programs.tar" -C "$root"
    rm "$root/usr/bin/nvidia-driver"
    install -m 755 "$vm_folder/stock/nvidia-driver" "$root/usr/bin/nvidia-driver"
}

setup_file() {
    local double=()
    use_guest "$(images_krel)"
    if [[ -n ${VM_FAULTS_ON_DOUBLE:-} ]]; then
        derive_image gpu-stock "$images_folder/gpu.oci.tar" put_stock
        double=(gpu-stock="$(image_name gpu-stock)")
    fi
    derive_elsewhere
    use_images gpu="$(driver_image gpu "$images_folder/gpu.oci.tar")" nic="$(driver_image nic "$images_folder/nic.oci.tar")" \
        nic-other="$(driver_image nic-other "$images_folder/other/nic.oci.tar")" gpu-elsewhere="$(image_name gpu-elsewhere)" \
        "${double[@]}"
}

# What the cases say on top of drivers.sh.
# shellcheck disable=SC2016 # the guest's shell expands it
words='
. /test/drivers.sh
state=/run/nvidia/nvidia-driver.state
ctr_ready=/run/nvidia/validations/.driver-ctr-ready
start_stock() { start gpu:gpu-stock stock "$@"; wait_log stock "^ready" 120; }
restart_stock() { kill_hard stock; wait_exit stock 20 >/dev/null; start_stock "$@"; }
end_stock() { stop stock; exits stock 0 60; }
start_ours() { start gpu "$@"; wait_ready gpu 120; }
restart_ours() { kill_hard gpu; wait_exit gpu 20 >/dev/null; start_ours "$@"; }
shown() { echo "==> the double has it: $*"; }
'

# fault <CASE: a case with these words; what stands between "# the double" and "# ours" runs in the full run only.
fault() {
    {
        echo "$words"
        sed "${VM_FAULTS_ON_DOUBLE:+#}/^# the double$/,/^# ours$/d"
    } >"$BATS_TEST_TMPDIR/fault"
    run_case <"$BATS_TEST_TMPDIR/fault"
    [ "$status" -eq 0 ]
}

@test "W1 a fast start has every module in the driver root: modprobe nvidia-peermem works" {
    fault <<'CASE'
simulate
start nic
wait_ready nic 120
# the double
start_stock
restart_stock
container_log stock | grep -x 'the modules stay'
refute "no fault" chroot /run/nvidia/driver /sbin/modprobe nvidia-peermem
shown "its root has no nvidia-peermem after a fast start"
end_stock
# ours
start_ours
restart_ours
refute "that was no fast start" container_log_has gpu 'loaded nvidia '
chroot /run/nvidia/driver /sbin/modprobe nvidia-peermem
expect_loaded nvidia_peermem
chroot /run/nvidia/driver /sbin/modprobe nvidia-drm
expect_loaded nvidia_drm
stop_clean gpu
CASE
}

# bats test_tags=full
@test "W2 OFED of another ABI under a loaded driver: state removed at once, the next start says which CRCs" {
    fault <<'CASE'
simulate
# the double
start nic
wait_ready nic 120
start_stock GPU_DIRECT_RDMA_ENABLED=true
rmmod nvidia_peermem
stop_clean nic
start nic:nic-other
wait_ready nic 120
[ "$(cat $state)" = 3271748789 ]
: >$ctr_ready
start peermem:gpu-stock stock-peermem
exits stock-peermem 1 60
container_log stock-peermem
shown "the state is as it was, so the full path is not taken, and peermem fails without a reason"
kill_hard stock
wait_exit stock 20
stop_clean nic
rmmod nvidia_modeset nvidia_uvm nvidia
umount -l /run/nvidia/driver
rm -f $state /run/nvidia/nvidia-driver.pid
# ours
start nic
wait_ready nic 120
start_ours GPU_DIRECT_RDMA_ENABLED=true
expect_loaded nvidia_peermem
[ "$(cat $state)" = 3271748789 ]
stop_clean nic
start nic:nic-other
wait_ready nic 120
wait_gone $state 120
stop gpu
wait_exit gpu 60
start gpu GPU_DIRECT_RDMA_ENABLED=true
exits gpu 14 120
termination_message gpu
CASE
    [[ $output =~ PEERMEM_OTHER_OFED:\ nvidia_peermem:\ built\ for\ ib_register_peer_memory_client\ CRC\ (0x[0-9a-f]{8}).*"ib_uverbs exports "(0x[0-9a-f]{8}) ]]
}

# bats test_tags=full
@test "W3 OFED is restarted under a running GPU container: peermem makes way, and is back" {
    fault <<'CASE'
simulate
start nic
wait_ready nic 120
# the double
start_stock GPU_DIRECT_RDMA_ENABLED=true
refute "no fault" rmmod ib_uverbs
[ "$(cat /sys/module/ib_uverbs/holders/nvidia_peermem/initstate)" = live ]
shown "OFED's own unloading finds ib_uverbs held by nvidia_peermem"
end_stock
# ours
start_ours GPU_DIRECT_RDMA_ENABLED=true
expect_loaded nvidia_peermem
stop_clean nic
expect_unloaded nvidia_peermem ib_uverbs
expect_loaded nvidia
start nic
wait_ready nic 120
poll 120 loaded nvidia_peermem || fail "peermem did not come back"
stop_both
CASE
}

# bats test_tags=full
@test "W4, W11 a kernel that takes signed modules only: refused at once and before anything is touched; never Ready" {
    fault <<'CASE'
simulate
echo 1 >/sys/module/module/parameters/sig_enforce
# the double
start_stock
container_log stock | grep -i 'could not insert'
expect_unloaded nvidia
[ "$(cat /run/nvidia/validations/.driver-daemons-status)" = Ready ]
[ "$(cat $state)" = 3271748789 ]
shown "no driver is loaded, and Ready is said"
kill_hard stock
wait_exit stock 20
umount -l /run/nvidia/driver
rm -f $state
printf '\0' >/sys/module/firmware_class/parameters/path
# ours
start gpu
exits gpu 21 60
termination_message gpu
expect_nothing_left
[ ! -e $state ]
CASE
    [[ $output == *"SIGNATURE_REFUSED: "*"unsigned"*"sign it"* ]]
}

# bats test_tags=full
@test "W4 a device that nvidia cannot have: the start ends at once, and is never reported ready" {
    fault <<'CASE'
simulate
host_load pci-stub
echo pci-stub >/sys/bus/pci/devices/0000:40:00.0/driver_override
echo 0000:40:00.0 >/sys/bus/pci/drivers_probe
[ "$(basename "$(readlink /sys/bus/pci/devices/0000:40:00.0/driver)")" = pci-stub ]
# the double
start_stock
expect_unloaded nvidia
[ "$(cat /run/nvidia/validations/.driver-daemons-status)" = Ready ]
shown "no driver is loaded, and Ready is said"
kill_hard stock
wait_exit stock 20
umount -l /run/nvidia/driver
rm -f $state
# ours
began=$(date +%s)
start gpu
code=$(wait_exit gpu 60)
echo "ours ended with $code after $(($(date +%s) - began)) s"
termination_message gpu
[ "$code" = 26 ] || [ "$code" = 12 ] || [ "$code" = 17 ]
[ ! -e $state ]
refute "Ready" grep -qs '^Ready' /run/nvidia/validations/.driver-daemons-status
CASE
    [[ $output == *"pci-stub"* ]]
}

# bats test_tags=full
@test "W5 the stop unloads peermem before nvidia, whatever it says" {
    fault <<'CASE'
simulate
start nic
wait_ready nic 120
# the double
start_stock GPU_DIRECT_RDMA_ENABLED=true STOCK_VARIANT=rhel
end_stock
expect_loaded nvidia
shown "it ended with 0, and nvidia is still loaded"
refute "the fault is another one" loaded nvidia_peermem
rmmod nvidia
# ours
start_ours GPU_DIRECT_RDMA_ENABLED=true
expect_loaded nvidia nvidia_peermem
stop_clean gpu
expect_unloaded nvidia nvidia_peermem nvidia_uvm nvidia_modeset
stop_clean nic
expect_nothing_left
CASE
}

# bats test_tags=full
@test "W6 what others have loaded on top (nvidia_drm) goes along with the stop" {
    fault <<'CASE'
simulate
# the double
start_stock
chroot /run/nvidia/driver /sbin/modprobe nvidia-drm
stop stock
wait_log stock 'could not be unloaded' 60
expect_loaded nvidia nvidia_drm
shown "the driver is in use, by its own nvidia_drm"
kill_hard stock
wait_exit stock 20
rmmod nvidia_drm nvidia_modeset nvidia_uvm nvidia
umount -l /run/nvidia/driver
rm -f $state /run/nvidia/nvidia-driver.pid
# ours
start_ours
chroot /run/nvidia/driver /sbin/modprobe nvidia-drm
expect_loaded nvidia_drm
stop_clean gpu
expect_unloaded nvidia_drm
expect_nothing_left
CASE
}

# bats test_tags=full
@test "W7, W10 a kernel that the image has no modules for: refused within seconds, with those it has and the operator's tag" {
    fault <<'CASE'
simulate
start gpu:gpu-elsewhere
exits gpu 11 60
termination_message gpu
expect_nothing_left
CASE
    [[ $output == *"NO_MODULES_FOR_KERNEL: the running kernel is $VM_KREL; this image "*" has modules for: 6.1.0-1-elsewhere"* ]]
    [[ $output == *"-$VM_KREL-"* ]]
}

@test "W8, W9, W21 from start to ready no shell, compiler, package manager or network: only slipway-init is run" {
    fault <<'CASE'
simulate
trace=/sys/kernel/debug/tracing
echo 1 >$trace/events/sched/sched_process_exec/enable
programs() { sed -n 's/.*filename=\([^ ]*\) .*/\1/p' $trace/trace | sort | uniq -c; }
# What the harness itself runs is on this machine's root; the container's programs are known by the mount namespace.
trace_of() {
    echo >$trace/trace
    "$@"
    programs
}
[ "$(ls /sys/class/net)" = lo ]
# the double
trace_of start_stock >/vm/stock.programs
cat /vm/stock.programs
grep -q ' /sbin/modprobe\| /usr/sbin/modprobe\| /bin/modprobe' /vm/stock.programs
shown "a shell that runs programs"
end_stock
# ours
trace_of start_ours >/vm/ours.programs
echo "==> ours"
cat /vm/ours.programs
refute "it runs programs" grep -E 'modprobe|insmod|/rmmod|umount|gcc|make|apt|dpkg|/cp$' /vm/ours.programs
grep -q 'nvidia-driver' /vm/ours.programs

echo "==> a restart compiles and loads nothing"
trace_of restart_ours >/vm/again.programs
cat /vm/again.programs
refute "it runs programs" grep -E 'modprobe|insmod|/rmmod|umount|gcc|make|apt|dpkg|/cp$' /vm/again.programs
stop_clean gpu
CASE
}

# bats test_tags=full
@test "W15 an image with finished modules has the digest's fast path, the daemons' status and the coherent-memory default" {
    fault <<'CASE'
simulate
start_ours
[ "$(cat $state)" = 3271748789 ]
[ "$(cat /run/nvidia/validations/.driver-daemons-status)" = Ready ]
address=$(cat /sys/module/nvidia/sections/.text)
restart_ours
[ "$(cat /sys/module/nvidia/sections/.text)" = "$address" ] || fail "nvidia was loaded anew"
restart_ours DRIVER_CONFIG_DIGEST=1
[ "$(cat $state)" = 1 ]
stop_clean gpu
expect_nothing_left
[ ! -e $state ]
CASE
}

# bats test_tags=full
@test "W16 two driver containers on one node: the second is refused, the first goes on" {
    fault <<'CASE'
simulate
start_ours
start gpu second
exits second 10 60
expect_gpu_serves
stop_clean gpu
CASE
}

# bats test_tags=full
@test "W17 nouveau goes before nvidia comes" {
    fault <<'CASE'
simulate
host_load nouveau
# the double
start_stock
expect_loaded nouveau
shown "nouveau is still there, beside nvidia"
end_stock
# ours
start_ours
expect_unloaded nouveau
expect_gpu_serves
stop_clean gpu
CASE
}

# bats test_tags=full
@test "W18 after a crash no flag, mount or firmware path of the previous run misleads" {
    fault <<'CASE'
simulate
# the double
start_stock
: >$ctr_ready
restart_stock
[ -e $ctr_ready ]
shown "the probe's flag of the container that crashed is still there, so operands start"
end_stock
rm -f $ctr_ready
# ours
echo -n /nowhere/firmware >/sys/module/firmware_class/parameters/path

start_ours
[ "$(cat /sys/module/firmware_class/parameters/path)" = /run/nvidia/driver/lib/firmware ]
: >$ctr_ready
restart_ours
[ ! -e $ctr_ready ]
[ "$(mounts_at /run/nvidia/driver)" = 1 ]
: >$ctr_ready
stop_clean gpu
[ ! -e $ctr_ready ]
expect_nothing_left
CASE
}

# bats test_tags=full
@test "W19 parameters whose file changed are applied at the next start, though the operator's digest is the same" {
    fault <<'CASE'
mkdir /vm/drivers
parameter() { sed -n 's/^EnableStreamMemOPs: //p' /proc/driver/nvidia/params; }
simulate
echo NVreg_EnableStreamMemOPs=1 >/vm/drivers/nvidia.conf
# the double
start_stock
[ "$(parameter)" = 1 ]
echo NVreg_EnableStreamMemOPs=0 >/vm/drivers/nvidia.conf
restart_stock
[ "$(parameter)" = 1 ]
shown "the new value is nowhere"
end_stock
# ours
echo NVreg_EnableStreamMemOPs=1 >/vm/drivers/nvidia.conf
start_ours
[ "$(parameter)" = 1 ]
echo NVreg_EnableStreamMemOPs=0 >/vm/drivers/nvidia.conf
restart_ours
[ "$(parameter)" = 0 ]
stop_clean gpu
CASE
}

@test "W20 no wait without an end: each says for what and for how much longer, and ends with a reason" {
    fault <<'CASE'
simulate
# the double
start peermem:gpu-stock stock-peermem
wait_log stock-peermem waiting 60
refute "no fault" grep -qE '[0-9] s' /vm/containers/stock-peermem/now/log
shown "it waits, and says not for how long"
kill_hard stock-peermem
# ours
start gpu GPU_DIRECT_RDMA_ENABLED=true SLIPWAY_OFED_DEADLINE_SECONDS=3
wait_log gpu 'waiting wait-ofed: .*\(at most [0-9]+ s more\)' 60
exits gpu 13 60
start peermem peermem GPU_DIRECT_RDMA_ENABLED=true SLIPWAY_OFED_DEADLINE_SECONDS=3
wait_log peermem 'waiting wait-[a-z]+: .*\(at most [0-9]+ s more\)' 60
exits peermem 13 60
termination_message peermem
CASE
    [[ $output == *"OFED_NOT_READY: gave up after "[3-9]" s"* ]]
}
