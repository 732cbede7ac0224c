#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# proves: the node's side
# A start that finds the driver as it would load it keeps it; one that does not, loads it. What the driver manager of the
# operator goes by (nvidia-driver.state) is true, also when something changes under a running driver.

load drivers

setup_file() {
    use_drivers
}

@test "killed and started again: the driver is kept, and all of the root is there" {
    run_case <<'CASE'
. /test/drivers.sh
simulate
start gpu
wait_ready gpu 120
[ "$(cat /run/nvidia/nvidia-driver.state)" = 3271748789 ] || fail "nvidia-driver.state is not the digest"
[ "$(wc -c </run/nvidia/nvidia-driver.state)" = 10 ] || fail "nvidia-driver.state has more than the digest"
address=$(cat /sys/module/nvidia/sections/.text)
kill_hard gpu
wait_exit gpu 10
start gpu
wait_ready gpu 60
container_log_has gpu 'keeping it'
refute "it proved what runs" container_log_has gpu 'begin prove'
refute "it loaded what runs" container_log_has gpu 'begin load'
[ "$(cat /sys/module/nvidia/sections/.text)" = "$address" ] || fail "nvidia was loaded anew"
expect_gpu_serves
[ -e "/run/nvidia/driver/lib/modules/$(uname -r)/updates/nvidia/nvidia-peermem.ko" ] || fail "the root has no nvidia-peermem"
chroot /run/nvidia/driver /sbin/modprobe -n nvidia-peermem || fail "modprobe finds no nvidia-peermem in the root"
stop_clean gpu
expect_nothing_left
[ ! -e /run/nvidia/nvidia-driver.state ] || fail "a clean stop left nvidia-driver.state"
[ ! -e /run/nvidia/slipway/gpu.fingerprint ] || fail "a clean stop left the fingerprint"
CASE
    [ "$status" -eq 0 ]
}

@test "a stop that could not unload gives up whole and leaves the driver to the next start; a clean one leaves nothing" {
    run_case <<'CASE'
. /test/drivers.sh
simulate
start gpu SLIPWAY_UNLOAD_DEADLINE_SECONDS=2
wait_ready gpu 60
device_node nvidia-uvm /dev/nvidia-uvm
hold /dev/nvidia-uvm
stop gpu
exits gpu 16 30
termination_message gpu
expect_loaded nvidia nvidia_uvm nvidia_modeset
[ "$(cat /run/nvidia/nvidia-driver.state)" = 3271748789 ] || fail "a driver in use has no nvidia-driver.state"
start gpu
wait_ready gpu 60
container_log_has gpu 'keeping it' || fail "the driver in use was not recognised"
expect_gpu_serves
kill "$held_pid"
stop_clean gpu
expect_nothing_left
[ ! -e /run/nvidia/nvidia-driver.state ] || fail "a clean stop left nvidia-driver.state"
CASE
    [ "$status" -eq 0 ]
    [[ $output == *"MODULE_IN_USE: nvidia_uvm is in use by process "*"(sleep, /dev/nvidia-uvm)"* ]]
}

@test "W19 parameters that change under a running driver: its state is removed, and comes back with them; they, another digest and another module make a full start" {
    run_case <<'CASE'
. /test/drivers.sh
mkdir -p /var/drivers
echo "NVreg_EnablePCIeGen3=0" >/var/drivers/nvidia.conf
echo "/var/drivers /drivers dir rbind,rprivate,ro" >>/test/roles/gpu.mounts
simulate
start gpu
wait_ready gpu 60
[ -e /run/nvidia/nvidia-driver.state ]

echo "NVreg_EnablePCIeGen3=1" >/var/drivers/nvidia.conf
wait_gone /run/nvidia/nvidia-driver.state 5
wait_log gpu 'conf changed under the running driver' 30
echo "NVreg_EnablePCIeGen3=0" >/var/drivers/nvidia.conf
wait_file /run/nvidia/nvidia-driver.state 5 gpu
[ "$(cat /run/nvidia/nvidia-driver.state)" = 3271748789 ]

echo "NVreg_EnablePCIeGen3=1" >/var/drivers/nvidia.conf
wait_gone /run/nvidia/nvidia-driver.state 5
kill_hard gpu
wait_exit gpu 10
start gpu
wait_ready gpu 60
container_log_has gpu 'drivers/\*.conf: was '
container_log_has gpu 'done prove'
[ "$(cat /run/nvidia/nvidia-driver.state)" = 3271748789 ]

kill_hard gpu
wait_exit gpu 10
rmmod nvidia_modeset
sed -i 's/^env=DRIVER_CONFIG_DIGEST=.*/env=DRIVER_CONFIG_DIGEST=7/' /test/roles/gpu.conf
start gpu
wait_ready gpu 60
container_log_has gpu 'DRIVER_CONFIG_DIGEST: was "3271748789", is "7"'
container_log_has gpu 'loaded nvidia_modeset'
[ "$(cat /run/nvidia/nvidia-driver.state)" = 7 ] || fail "nvidia-driver.state is not the new digest"
expect_gpu_serves
stop_clean gpu
expect_nothing_left
CASE
    [ "$status" -eq 0 ]
}
