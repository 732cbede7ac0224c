#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# proves: the node's side
# Unloading: what holds the driver goes with it, whoever loaded it; who uses it is named by process, pod and device, and
# the stop goes on when they let go.

load drivers

# The GPU image without nvidia-drm.ko: the module is a stranger's then, as gdrdrv or nvidia_vgpu_vfio would be. Its
# nvidia.ko has another build id than the GPU image's: that of the host, where a case loads it, is another build.
without_drm() {
    local folder note=$BATS_FILE_TMPDIR/note
    folder=$root/lib/modules/$(images_krel)/updates/nvidia
    rm "$folder/nvidia-drm.ko"
    objcopy --dump-section ".note.gnu.build-id=$note" "$folder/nvidia.ko"
    printf 'another build id' | dd of="$note" bs=1 seek=16 conv=notrunc status=none
    objcopy --update-section ".note.gnu.build-id=$note" "$folder/nvidia.ko"
    /usr/sbin/depmod -b "$root" "$(images_krel)"
}

setup_file() {
    use_drivers
    derive_image gpu-no-drm "$images_folder/gpu.oci.tar" without_drm
    VM_IMAGES=$VM_BUILD/images/38-unload.ext4
    "$vm_folder/make-images-disk" "$VM_IMAGES" gpu="$(driver_image gpu "$images_folder/gpu.oci.tar")" \
        gpu-no-drm="$(image_name gpu-no-drm)"
}

@test "W6 nvidia_drm that the host loaded, a foreign module that holds the driver, goes with it: in a restart with other parameters, and in a stop once nobody uses it; the node's own driver goes, and is back where ours does not load" {
    run_case <<'CASE'
. /test/drivers.sh
simulate
start gpu:gpu-no-drm
wait_ready gpu 60
kill_hard gpu
wait_exit gpu 10
host_load_file "/images/gpu/rootfs/lib/modules/$(uname -r)/updates/nvidia/nvidia-drm.ko"
mkdir /vm/drivers
echo NVreg_EnableStreamMemOPs=1 >/vm/drivers/nvidia.conf
start gpu:gpu-no-drm SLIPWAY_UNLOAD_DEADLINE_SECONDS=120
wait_ready gpu 60
container_log_has gpu 'unloaded nvidia_drm'
grep -x 'EnableStreamMemOPs: 1' /proc/driver/nvidia/params
host_load_file "/images/gpu/rootfs/lib/modules/$(uname -r)/updates/nvidia/nvidia-drm.ko"
pin nvidia_drm
stop gpu
wait_log gpu 'nvidia_drm is in use: 1 reference' 30
expect_loaded nvidia nvidia_uvm nvidia_modeset nvidia_drm
unpin
exits gpu 0 60
expect_unloaded nvidia_drm
expect_nothing_left

echo "==> another build of the driver is the node's own, with files and lines as Debian's package has them"
build_id() { od -An -tx1 /sys/module/nvidia/notes/.note.gnu.build-id; }
updates=/lib/modules/$(uname -r)/updates
mkdir -p "$updates"
for file in "/images/gpu/rootfs$updates"/nvidia/nvidia*.ko; do
    name=${file##*/nvidia}
    cp "$file" "$updates/nvidia-current$name"
done
# As a file of weak-updates.
mv "$updates/nvidia-current-uvm.ko" /root
ln -s /root/nvidia-current-uvm.ko "$updates"
depmod
# update-alternatives makes the link. busybox's shell would take its own modprobe.
mkdir /etc/alternatives
ln -s /etc/alternatives/own /etc/modprobe.d/own.conf
cat >/etc/alternatives/own <<'OWN'
options nvidia-current NVreg_EnableStreamMemOPs=1
install nvidia /usr/sbin/modprobe -i nvidia-current $CMDLINE_OPTS
install nvidia-uvm /usr/sbin/modprobe nvidia ; /usr/sbin/modprobe -i nvidia-current-uvm $CMDLINE_OPTS
OWN
host_load nvidia-uvm
host_load nvidia-current-drm
own=$(build_id)
# The kernel takes the value; the module then looks for no GPU, and fails.
echo NVreg_RegisterPCIDriver=0 >/vm/drivers/nvidia.conf
start gpu:gpu-no-drm
exits gpu 12 60
container_log_has gpu 'unloaded nvidia_uvm'
expect_own() {
    expect_loaded nvidia nvidia_uvm nvidia_drm
    grep -x 'EnableStreamMemOPs: 1' /proc/driver/nvidia/params
    [ "$(build_id)" = "$own" ] || fail "the driver is not the node's own"
}
expect_own
rm /vm/drivers/nvidia.conf
start gpu:gpu-no-drm
wait_ready gpu 60
[ "$(build_id)" != "$own" ] || fail "the driver is still the node's own"

echo "==> a start that is refused puts no module of the node's own driver into ours"
device_node nvidia-uvm /dev/nvidia-uvm
hold /dev/nvidia-uvm
kill_hard gpu
wait_exit gpu 10
echo NVreg_EnableStreamMemOPs=1 >/vm/drivers/nvidia.conf
start gpu:gpu-no-drm
exits gpu 16 60
[ ! -e /sys/module/nvidia_drm ] || fail "the node's own nvidia_drm is loaded on our driver"
[ "$(build_id)" != "$own" ] || fail "our driver is gone"

echo "==> killed when the node's own driver was gone: the next start fails early, and it is back"
kill "$held_pid"
wait "$held_pid" || true
rmmod nvidia_uvm nvidia_modeset nvidia
echo NVreg_EnableStreamMemOPs=many >/vm/drivers/nvidia.conf
start gpu:gpu-no-drm
exits gpu 25 60
expect_own
rm /vm/drivers/nvidia.conf
start gpu:gpu-no-drm
wait_ready gpu 60
stop_clean gpu
expect_nothing_left
CASE
    [ "$status" -eq 0 ]
}

@test "W21 nvidia_drm is asked for, and the image has none" {
    run_case <<'CASE'
. /test/drivers.sh
simulate
start gpu:gpu-no-drm SLIPWAY_NVIDIA_DRM=true
exits gpu 15 60
termination_message gpu
expect_nothing_left
CASE
    [ "$status" -eq 0 ]
    [[ $output == *": "*"nvidia_drm"* ]]
}

@test "who uses the driver is named, with its pod and container; a device that is closed, and a process that ends, let the stop go on" {
    run_case <<'CASE'
. /test/drivers.sh
simulate
start gpu SLIPWAY_NVIDIA_DRM=true SLIPWAY_UNLOAD_DEADLINE_SECONDS=120
wait_ready gpu 60
# W21: loaded where it is asked for, and gone with the others.
expect_loaded nvidia_drm
device_node nvidia-uvm /dev/nvidia-uvm
uid=1a2b3c4d-1111-2222-3333-0123456789ab
id=aaaabbbbccccddddeeeeffff0000111122223333444455556666777788889999
mkdir -p "/sys/fs/cgroup/kubepods/burstable/pod$uid/$id" "/var/log/pods/jobs_trainer-0_$uid"
cat >/tmp/trainer <<'TRAINER'
exec 8</dev/nvidia-uvm
while [ ! -e /tmp/close ]; do sleep 0.2; done
exec 8<&-
exec sleep 1000
TRAINER
sh /tmp/trainer &
trainer=$!
echo "$trainer" >"/sys/fs/cgroup/kubepods/burstable/pod$uid/$id/cgroup.procs"
poll 30 test -e "/proc/$trainer/fd/8" || fail "the trainer does not have the device open"
# As the operator's startup probe does.
: >/run/nvidia/validations/.driver-ctr-ready
stop gpu
wait_log gpu "nvidia_uvm is in use by process $trainer \(sh, /dev/nvidia-uvm, pod jobs/trainer-0, container aaaabbbbcccc\)" 30
[ "$(cat /run/nvidia/validations/.driver-daemons-status)" = NotReady ] || fail "it stops, and says that it is ready"
[ ! -e /run/nvidia/validations/.driver-ctr-ready ] || fail "it stops, and its probe says that it is ready"
expect_loaded nvidia nvidia_uvm nvidia_modeset
hold /dev/nvidia-uvm
: >/tmp/close
wait_log gpu "nvidia_uvm is in use by process $held_pid \(sleep, /dev/nvidia-uvm\)" 30
expect_loaded nvidia nvidia_uvm nvidia_modeset
kill "$held_pid"
exits gpu 0 60
kill -0 "$trainer" || fail "the trainer has ended"
kill "$trainer"
expect_unloaded nvidia_drm drm_kms_helper
expect_nothing_left
CASE
    [ "$status" -eq 0 ]
}
