#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Stands for the shell entrypoint of NVIDIA's precompiled driver images, whose modules lie in the image as ours do: a
# yardstick for `make bench`. Written for this bench from a description of what that entrypoint does (lock and pid file,
# what a previous run left, module parameters, modprobe by name, the driver's version by way of nvidia-smi, a look for
# switches, mount --rbind, a trap that compares reference counts and calls rmmod) and the driver manager's look for OFED in
# front of it; none of its text is anyone else's. It runs under what the original runs under: bash, with GNU's grep and
# coreutils, util-linux, kmod, awk and xargs (tests/bench/stock-programs).
# What it leaves out makes it faster than the original: it installs no packages (the original runs apt-get half a dozen times
# at each start), asks no nvidia-installer, has a line of its own in the place of nvidia-smi, and starts no daemon.
# What it has beyond it costs no process: the status file and the driver's state file, as the other variant writes them.
# A root that is mounted several times is unmounted as often, for 55-faults.bats, which runs this as well.
set -eu

run=/run/nvidia
pid_file=$run/nvidia-driver.pid
status_file=$run/validations/.driver-daemons-status
state_file=$run/nvidia-driver.state
ofed_ready=/run/mellanox/drivers/.driver-ready
firmware_path=/sys/module/firmware_class/parameters/path
daemons=(nvidia-persistenced/nvidia-persistenced nvidia-gridd/nvidia-gridd nvidia-topologyd/nvidia-topologyd
    nvidia-fabricmanager/nv-fabricmanager nvidia-fabricmanager/nvlsm)
krel=$(uname -r)

take_lock() {
    exec 3>"$pid_file"
    if ! flock -n 3; then
        echo "another driver container holds $pid_file" >&2
        exit 1
    fi
    echo $$ >&3
}

set_status() {
    printf %s "$1" >"$status_file"
}

# The driver manager's look, which the original's pod has in front of its script.
wait_ofed() {
    until [[ -e $ofed_ready ]]; do
        echo "waiting for OFED"
        sleep 5 &
        wait $!
    done
}

# set_parameters MODULE DEFAULT…: those that the administrator gave, one a line, and ours.
set_parameters() {
    local module=$1 line parameters
    shift
    parameters=("$@")
    if [[ -f /drivers/$module.conf ]]; then
        while read -r line || [[ -n $line ]]; do
            parameters+=("$line")
        done <"/drivers/$module.conf"
    fi
    if ((${#parameters[@]} > 0)); then
        echo "options $module ${parameters[*]}" >"/etc/modprobe.d/$module.conf"
    fi
}

set_all_parameters() {
    # The default of the coherent memory's mode is for drivers from 580 on: this one does not know it.
    set_parameters nvidia
    set_parameters nvidia-uvm
    set_parameters nvidia-modeset
    set_parameters nvidia-peermem
}

set_firmware_path() {
    if grep -q "[^[:space:]]" "$firmware_path"; then
        echo "$firmware_path is set already" >&2
    else
        echo -n "$run/driver/lib/firmware" >"$firmware_path"
    fi
}

has_mellanox_card() {
    local device vendor
    for device in /sys/bus/pci/devices/*; do
        read -r vendor <"$device/vendor"
        if [[ $vendor == 0x15b3 ]]; then
            echo "a Mellanox card: $(basename "$device")"
            return 0
        fi
    done
    return 1
}

# In a shell of its own, as the original has it.
has_nvlink5_bridge() (
    for device in /sys/class/infiniband/*/device; do
        if [[ -f $device/vpd ]] && grep -q SW_MNG "$device/vpd"; then
            return 0
        fi
    done
    return 1
)

has_nvswitch() {
    [[ -d /proc/driver/nvidia-nvswitch/devices && -n $(ls -A /proc/driver/nvidia-nvswitch/devices) ]]
}

# What is needed of nvidia-smi, which needs a GPU with firmware; it takes longer.
nvidia_smi() {
    local text
    read -r text </proc/driver/nvidia/version
    text=${text#*x86_64  }
    echo "Driver Version                            : ${text%%  *}"
}

load_driver() {
    set_firmware_path
    modprobe -a i2c_core ipmi_msghandler ipmi_devintf || true
    modprobe nvidia
    modprobe nvidia-uvm
    modprobe nvidia-modeset
    if [[ ${GPU_DIRECT_RDMA_ENABLED:-false} == true ]] && has_mellanox_card; then
        modprobe nvidia-peermem
    fi
    driver_version=$(nvidia_smi -q | grep "Driver Version" | awk -F: '{ print $2 }' | xargs)
    echo "driver $driver_version"
    if has_nvlink5_bridge || has_nvswitch; then
        echo "a fabric manager would be started here" >&2
    fi
}

mount_root() {
    mkdir -p "$run/driver"
    mount --make-runbindable /sys
    mount --make-private /sys
    mount --rbind / "$run/driver"
}

unmount_root() {
    while findmnt -r -o TARGET | grep -qx "$run/driver"; do
        umount -l "$run/driver" || return 1
    done
}

stop_daemons() {
    local daemon file pid count
    for daemon in "${daemons[@]}"; do
        file=/var/run/$daemon.pid
        [[ -f $file ]] || continue
        pid=$(<"$file")
        kill "$pid" 2>/dev/null || true
        for count in $(seq 1 50); do
            kill -0 "$pid" 2>/dev/null || break
            sleep 0.1
        done
        ((count < 50)) || return 1
    done
}

# Adds MODULE to those to remove, and takes it for a reference on nvidia; no more references than ALLOWED may be on it.
plan_removal() {
    local module=$1 allowed=$2 references
    [[ -f /sys/module/$module/refcnt ]] || return 0
    references=$(<"/sys/module/$module/refcnt")
    if ((references > allowed)); then
        lsmod | grep nvidia
        echo "$module is in use: $references references" >&2
        return 1
    fi
    planned+=("$module")
    on_nvidia=$((on_nvidia + 1))
}

unload_driver() {
    local planned=() on_nvidia=0
    stop_daemons || return 1
    plan_removal nvidia_modeset 0 || return 1
    plan_removal nvidia_uvm 0 || return 1
    plan_removal nvidia_peermem 0 || return 1
    plan_removal nvidia "$on_nvidia" || return 1
    if ((${#planned[@]} > 0)); then
        rmmod "${planned[@]}"
    fi
}

shutdown() {
    trap '' TERM INT
    if ! unload_driver; then
        echo "the driver could not be unloaded" >&2
        sleep infinity
    fi
    unmount_root
    rm -f "$pid_file" "$status_file" "$state_file"
    [[ -z ${sleeper:-} ]] || kill "$sleeper" 2>/dev/null || true
}

# The second container: a look every ten seconds, one modprobe, and no other look ever.
reload_nvidia_peermem() {
    until [[ -e $ofed_ready && -e $run/validations/.driver-ctr-ready ]]; do
        echo "waiting for OFED and the driver"
        sleep 10
    done
    modprobe nvidia-peermem
    trap 'exit 0' TERM INT
    sleep infinity &
    wait $!
}

main() {
    echo "driver for Linux $krel"
    take_lock
    trap 'shutdown; exit 0' TERM INT
    set_status NotReady
    wait_ofed
    unload_driver
    unmount_root
    set_all_parameters
    load_driver
    mount_root
    echo "${DRIVER_CONFIG_DIGEST:-}" >"$state_file"
    set_status Ready
    sleep infinity 3>&- &
    sleeper=$!
    wait "$sleeper"
}

case ${1:-init} in
reload_nvidia_peermem) reload_nvidia_peermem ;;
*) main ;;
esac
