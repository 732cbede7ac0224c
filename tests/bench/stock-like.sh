#!/bin/sh
# shellcheck shell=dash
# SPDX-License-Identifier: Apache-2.0
# Stands for the shell entrypoints that GPU driver images have today, as a yardstick for `make bench`. Written for
# this bench from a description of what such an entrypoint does (lock and pid file, NotReady, a look for OFED every
# ten seconds, modprobe by name, mount --rbind, state file, a trap that compares reference counts and calls rmmod);
# none of its text is anyone else's. What it leaves out makes it faster than the originals: it compiles, installs
# and downloads nothing, and starts no daemon. The image's busybox has no flock: the pid file is made with noclobber.
set -eu

run=/run/nvidia
pid_file=$run/nvidia-driver.pid
status_file=$run/validations/.driver-daemons-status
state_file=$run/nvidia-driver.state
ofed_ready=/run/mellanox/drivers/.driver-ready
firmware_path=/sys/module/firmware_class/parameters/path
daemons=/var/run/nvidia-persistenced/nvidia-persistenced.pid

take_lock() {
    if ! (set -C && echo $$ >"$pid_file") 2>/dev/null; then
        echo "another driver container holds $pid_file" >&2
        exit 1
    fi
}

ofed_is_up() {
    [ -e "$ofed_ready" ] && lsmod | grep -q '^ib_core '
}

# The look every ten seconds that the operators' own scripts and containers take.
wait_ofed() {
    while ! ofed_is_up; do
        echo "waiting for OFED"
        sleep 10 &
        wait $!
    done
}

set_firmware_path() {
    if [ -z "$(cat "$firmware_path")" ]; then
        printf %s "$run/driver/lib/firmware" >"$firmware_path"
    fi
}

load_driver() {
    set_firmware_path
    modprobe -q -a i2c_core ipmi_msghandler ipmi_devintf || true
    modprobe nvidia
    modprobe nvidia-uvm
    modprobe nvidia-modeset
    if [ "${GPU_DIRECT_RDMA_ENABLED:-false}" = true ]; then
        modprobe nvidia-peermem
    fi
}

is_mounted() {
    grep -q " $run/driver " /proc/mounts
}

mount_root() {
    mkdir -p "$run/driver"
    mount --rbind / "$run/driver"
}

stop_daemons() {
    local file pid count
    for file in $daemons; do
        [ -e "$file" ] || continue
        pid=$(cat "$file")
        kill "$pid" 2>/dev/null || true
        count=0
        while [ "$count" -lt 50 ] && kill -0 "$pid" 2>/dev/null; do
            sleep 0.1
            count=$((count + 1))
        done
    done
}

# references MODULE: its reference count, or nothing when it is not loaded.
references() {
    cat "/sys/module/$1/refcnt" 2>/dev/null || true
}

# Adds MODULE to the list of those to remove, and takes it for a reference on nvidia.
plan_removal() {
    local count
    count=$(references "$1")
    [ -n "$count" ] || return 0
    if [ "$count" -gt "$2" ]; then
        echo "$1 is in use: $count references" >&2
        return 1
    fi
    planned="$planned $1"
    on_nvidia=$((on_nvidia + 1))
}

unload_driver() {
    local planned='' on_nvidia=0
    stop_daemons
    plan_removal nvidia_modeset 0 || return 1
    plan_removal nvidia_uvm 0 || return 1
    plan_removal nvidia_peermem 0 || return 1
    plan_removal nvidia "$on_nvidia" || return 1
    [ -n "$planned" ] || return 0
    # shellcheck disable=SC2086 # a list of names
    rmmod $planned
}

unmount_root() {
    while is_mounted; do
        umount -l "$run/driver" || return 1
    done
}

shutdown() {
    trap '' TERM INT
    if ! unload_driver; then
        echo "the driver could not be unloaded" >&2
        sleep 1000000
    fi
    unmount_root
    rm -f "$pid_file" "$status_file" "$state_file"
    [ -z "${sleeper:-}" ] || kill "$sleeper" 2>/dev/null || true
}

# The second container: a look every ten seconds, one modprobe, and no other look ever.
reload_nvidia_peermem() {
    until [ -e "$ofed_ready" ] && [ -e "$run/validations/.driver-ctr-ready" ]; do
        echo "waiting for OFED and the driver"
        sleep 10
    done
    modprobe nvidia-peermem
    trap 'exit 0' TERM INT
    sleep 1000000 &
    wait $!
}

main() {
    mkdir -p "$run/validations"
    take_lock
    trap 'shutdown; exit 0' TERM INT
    printf NotReady >"$status_file"
    wait_ofed
    unload_driver
    unmount_root
    load_driver
    mount_root
    printf %s "${DRIVER_CONFIG_DIGEST:-}" >"$state_file"
    printf Ready >"$status_file"
    sleep 1000000 &
    sleeper=$!
    wait "$sleeper"
}

case ${1:-init} in
reload_nvidia_peermem) reload_nvidia_peermem ;;
*) main ;;
esac
