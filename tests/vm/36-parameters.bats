#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# proves: the node's side
# The operator's kernelModuleConfig: /drivers/<module>.conf. Checked before anything is unloaded, applied, and applied
# again when its contents change, which the operator's digest does not show.

load drivers

setup_file() {
    use_drivers
}

@test "parameters reach the modules and programs that chroot into the driver root" {
    run_case <<'CASE'
. /test/drivers.sh
mkdir /vm/drivers
printf '# ours\nNVreg_EnableStreamMemOPs=1 NVreg_RegistryDwords="a=1;b=2"\nNVreg_RmMsg=x' >/vm/drivers/nvidia.conf
echo 'options nvidia-uvm uvm_perf_map_remote_on_eviction=0' >/vm/drivers/nvidia-uvm.conf
echo 'FeatureType=1' >/vm/drivers/gridd.conf
echo 'a=1' >/vm/drivers/nvidia-ghost.conf
echo 'modeset=1' >/vm/drivers/nvidia-drm.conf
simulate
start gpu
wait_ready gpu 60
expect_gpu_serves
expect_loaded nvidia_drm
grep -x 'EnableStreamMemOPs: 1' /proc/driver/nvidia/params
grep -x 'RegistryDwords: "a=1;b=2"' /proc/driver/nvidia/params
grep -x 'RmMsg: "x"' /proc/driver/nvidia/params
[ "$(cat /sys/module/nvidia_uvm/parameters/uvm_perf_map_remote_on_eviction)" = 0 ] || fail "nvidia_uvm has another value"
[ "$(cat /sys/module/nvidia_drm/parameters/modeset)" = Y ] || fail "nvidia_drm has another value"
expect "the parameters are not reported" container_log_has gpu 'parameters of nvidia: NVreg_EnableStreamMemOPs=1 NVreg_RegistryDwords="a=1;b=2" NVreg_RmMsg=x'
container_log_has gpu '/drivers/nvidia-ghost.conf has no effect: the image has no module nvidia_ghost'
refute "gridd.conf is the licence daemon's" container_log_has gpu gridd.conf
rmmod nvidia_uvm
chroot /run/nvidia/driver modprobe nvidia-uvm
[ "$(cat /sys/module/nvidia_uvm/parameters/uvm_perf_map_remote_on_eviction)" = 0 ] || fail "a chroot's modprobe gives another value"
stop_clean gpu
expect_unloaded nvidia_drm
expect_nothing_left
CASE
    [ "$status" -eq 0 ]
}

@test "W19 contents that change are applied at the next start, and only then is the driver loaded anew; until they can be, it stays whole" {
    run_case <<'CASE'
. /test/drivers.sh
mkdir /vm/drivers
echo NVreg_EnableStreamMemOPs=1 >/vm/drivers/nvidia.conf
simulate
start gpu
wait_ready gpu 60
address=$(cat /sys/module/nvidia/sections/.text)
expect_same() {
    [ "$(cat /sys/module/nvidia/sections/.text)" = "$address" ] || fail "nvidia was loaded anew: $1"
}
kill_hard gpu
wait_exit gpu 10
start gpu
wait_ready gpu 60
expect_same "for nothing"
kill_hard gpu
wait_exit gpu 10

echo "==> strict: a parameter that does not exist; a value that the kernel does not take"
echo NVreg_EnableStreamMemOP=1 >/vm/drivers/nvidia.conf
start gpu SLIPWAY_UNLOAD_DEADLINE_SECONDS=1 SLIPWAY_STRICT_PARAMETERS=true
exits gpu 25 60
termination_message gpu
echo uvm_debug_prints=often >/vm/drivers/nvidia-uvm.conf
rm /vm/drivers/nvidia.conf
start gpu
exits gpu 25 60
termination_message gpu
expect_same "for a bad parameter"
rm /vm/drivers/nvidia-uvm.conf

echo "==> a process has the GPU"
echo NVreg_EnableStreamMemOPs=0 >/vm/drivers/nvidia.conf
device_node nvidia-uvm /dev/nvidia-uvm
hold /dev/nvidia-uvm
start gpu SLIPWAY_UNLOAD_DEADLINE_SECONDS=1
exits gpu 16 60
termination_message gpu
expect_loaded nvidia nvidia_uvm nvidia_modeset
expect_same "under a process"
kill "$held_pid"

start gpu
wait_ready gpu 60
grep -x 'EnableStreamMemOPs: 0' /proc/driver/nvidia/params
container_log_has gpu 'nvidia: parameters changed from "NVreg_EnableStreamMemOPs=1" to "NVreg_EnableStreamMemOPs=0": reloading it'
expect_gpu_serves

echo "==> of one module that is not the last to be loaded"
kill_hard gpu
wait_exit gpu 10
echo uvm_debug_prints=1 >/vm/drivers/nvidia-uvm.conf
start gpu
wait_ready gpu 60
[ "$(cat /sys/module/nvidia_uvm/parameters/uvm_debug_prints)" = 1 ]
container_log_has gpu 'nvidia_uvm: parameters changed from "" to "uvm_debug_prints=1": reloading it'

echo "==> the module refuses a value that the kernel takes: the driver has its earlier parameters again, and keeps them"
kill_hard gpu
wait_exit gpu 10
echo NVreg_RegisterPCIDriver=0 >/vm/drivers/nvidia.conf
start gpu
wait_ready gpu 60
container_log_has gpu 'the driver does not load with other parameters in /drivers, '
expect_earlier() {
    expect_gpu_serves
    grep -x 'EnableStreamMemOPs: 0' /proc/driver/nvidia/params
    grep -x 'options nvidia NVreg_EnableStreamMemOPs=0' /run/nvidia/driver/etc/modprobe.d/slipway.conf
    [ "$(cat /sys/module/nvidia_uvm/parameters/uvm_debug_prints)" = 1 ]
}
expect_earlier
address=$(cat /sys/module/nvidia/sections/.text)
kill_hard gpu
wait_exit gpu 10
start gpu
wait_ready gpu 60
expect_same "with what it refused"
expect_earlier
container_log_has gpu 'with its earlier parameters, because it refused those of /drivers: keeping it'
exec_in gpu slipway-init status | grep 'the driver has its earlier parameters until it is stopped, because it did not load with those in kernelModuleConfig: nvidia: the kernel refused it'
kill_hard gpu
wait_exit gpu 10
start gpu DRIVER_CONFIG_DIGEST=7
wait_ready gpu 60
expect_same "in a full start"
expect_earlier
container_log_has gpu 'the running driver has refused the parameters of /drivers before, and keeps its earlier ones'
exec_in gpu slipway-init status | grep 'the driver has its earlier parameters until it is stopped'
kill_hard gpu
wait_exit gpu 10
echo NVreg_EnableStreamMemOPs=1 >/vm/drivers/nvidia.conf
start gpu
wait_ready gpu 60
grep -x 'EnableStreamMemOPs: 1' /proc/driver/nvidia/params
exec_in gpu slipway-init status >/tmp/status
refute "it refused nothing" grep 'earlier parameters' /tmp/status
stop_clean gpu
expect_nothing_left
CASE
    [ "$status" -eq 0 ]
    [[ $output == *"BAD_PARAMETER: /drivers/nvidia.conf, the operator's kernelModuleConfig, on nvidia: the module has no parameter NVreg_EnableStreamMemOP: did you mean NVreg_EnableStreamMemOPs?"* ]]
    [[ $output == *"BAD_PARAMETER: "*"on nvidia_uvm: uvm_debug_prints=often: the kernel does not accept this value: the parameter is of type int"* ]]
    [[ $output == *"MODULE_IN_USE: nvidia_uvm is in use by process "*"(sleep, /dev/nvidia-uvm)"* ]]
}

@test "a parameter that does not exist is reported and ignored, as the kernel does" {
    run_case <<'CASE'
. /test/drivers.sh
simulate
mkdir /vm/drivers
echo NVreg_EnableStreamMemOP=1 NVreg_EnableMSI=1 >/vm/drivers/nvidia.conf
start gpu
wait_ready gpu 60
expect_gpu_serves
container_log_has gpu '"NVreg_EnableStreamMemOP=1" has no effect on nvidia: the module has no parameter NVreg_EnableStreamMemOP: did you mean NVreg_EnableStreamMemOPs?'
exec_in gpu slipway-init status | grep -x ' *! NVreg_EnableStreamMemOP=1 has no effect: nvidia has no such parameter'
exec_in gpu slipway-init status --json | grep -o '"unknown_parameters":."nvidia NVreg_EnableStreamMemOP=1".'
kill_hard gpu
wait_exit gpu 10
rm /vm/drivers/nvidia.conf
start gpu
wait_ready gpu 60
exec_in gpu slipway-init status >/tmp/status
refute "it is gone" grep 'no such parameter' /tmp/status
stop_clean gpu
expect_nothing_left
CASE
    [ "$status" -eq 0 ]
}
