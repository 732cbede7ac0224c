# shellcheck shell=dash
# SPDX-License-Identifier: Apache-2.0
# What cases about the driver images say on top of lib.sh: `. /test/drivers.sh`.

nvidia_modules="nvidia nvidia_uvm nvidia_modeset"
ofed_modules="ib_core ib_uverbs mlx5_core mlx5_ib rdma_cm"

# wait_ready NAME SECONDS: the init says that it is ready.
wait_ready() {
    wait_log "$1" '^[a-z]+ +[0-9.]+ s  ready' "$2"
}

container_log_has() {
    container_log "$1" | grep -q -- "$2"
}

# exits NAME CODE SECONDS
exits() {
    local code
    code=$(wait_exit "$1" "$3")
    [ "$code" = "$2" ] || fail "$1 ended with $code, not $2"
}

stop_clean() {
    stop "$1"
    exits "$1" 0 60
}

expect_loaded() {
    local module
    for module in "$@"; do
        loaded "$module" || fail "$module is not loaded"
    done
}

expect_unloaded() {
    local module
    for module in "$@"; do
        ! loaded "$module" || fail "$module is loaded"
    done
}

# expect_node NODE DRIVER MINOR: in the driver root, as the toolkit and the device plugin look for it.
expect_node() {
    local node=/run/nvidia/driver/dev/$1 wanted
    [ -c "$node" ] || fail "$node is missing"
    wanted=$(awk -v driver="$2" '$2 == driver { printf "%x", $1 }' /proc/devices)
    [ "$(stat -c '%t %T %a %u %g' "$node")" = "$wanted $3 666 0 0" ] || fail "$node: $(stat -c '%t %T %a %u %g' "$node")"
}

expect_addon_nodes() {
    expect_node gdrdrv gdrdrv 0
    expect_node nvidia-fs0 nvidia-fs 0
    expect_node nvidia-fs1 nvidia-fs 1
}

mounts_at() {
    awk -v at="$1" '$5 == at' /proc/self/mountinfo | wc -l
}

# The NIC container, then the GPU container with RDMA.
start_both() {
    start nic
    wait_ready nic 90
    start gpu GPU_DIRECT_RDMA_ENABLED=true
    wait_ready gpu 90
}

stop_both() {
    stop_clean gpu
    stop_clean nic
    expect_nothing_left
}

# Nothing of either container is left on the node but its event log and status.
expect_nothing_left() {
    expect_unloaded nvidia nvidia_uvm nvidia_modeset nvidia_peermem ib_core ib_uverbs mlx5_core mlx5_ib
    [ "$(mounts_at /run/nvidia/driver)" = 0 ] || fail "/run/nvidia/driver is still mounted"
    [ "$(mounts_at /run/mellanox/drivers/usr/src)" = 0 ] || fail "OFED's sources are still mounted"
    [ ! -e /run/mellanox/drivers/.driver-ready ] || fail ".driver-ready is still there"
    [ ! -e /run/nvidia/validations/.driver-daemons-status ] || fail ".driver-daemons-status is still there"
    [ ! -e /run/nvidia/nvidia-driver.pid ] || fail "the pid file is still there"
    [ -z "$(cat /sys/module/firmware_class/parameters/path)" ] || fail "the firmware path is still set"
}

expect_gpu_serves() {
    # shellcheck disable=SC2086
    expect_loaded $nvidia_modules
    grep -q NVRM /proc/driver/nvidia/version || fail "no /proc/driver/nvidia/version"
    [ -d /proc/driver/nvidia/gpus/0000:40:00.0 ] || fail "nvidia does not drive the simulated GPU"
    [ "$(cat /run/nvidia/validations/.driver-daemons-status)" = Ready ] || fail "the daemons' status is not Ready"
    [ "$(mounts_at /run/nvidia/driver)" = 1 ] || fail "/run/nvidia/driver has $(mounts_at /run/nvidia/driver) mounts, not 1"
    [ -d /run/nvidia/driver/usr/src ] || fail "the driver root has no /usr/src"
    [ -e /run/nvidia/driver/dev/null ] || fail "the driver root has no live /dev"
    [ "$(exec_in gpu sh -c "grep -c ' /dev ' /proc/self/mountinfo")" = 1 ] || fail "the export mounted /dev over the container's own"
    [ "$(ls /run/nvidia/driver/run/nvidia)" = "" ] || fail "the driver root contains itself"
    [ -x /run/nvidia/driver/usr/bin/slipway-init ] || fail "the driver root is not the image"
}

expect_nic_serves() {
    # shellcheck disable=SC2086
    expect_loaded $ofed_modules
    [ -e /run/mellanox/drivers/.driver-ready ] || fail "no .driver-ready"
    [ "$(mounts_at /run/mellanox/drivers/usr/src)" = 1 ] || fail "OFED's sources are not mounted once"
    [ -s /run/mellanox/drivers/usr/src/ofa_kernel/default/Module.symvers ] || fail "no symvers for the GPU side"
}
