# shellcheck shell=dash disable=SC1091,SC2034,SC2217
# SPDX-License-Identifier: Apache-2.0
# What a case script can say. Sourced by the guest's init with `set -eu`; it runs under busybox sh.
#
#   simulate [gpu=0|1] [nic=0|1] [gpu_device=ID]
#                                       create the simulated PCI functions
#   start ROLE[:IMAGE] [NAME] [KEY=VALUE…] [-- ARG…]
#                                       run an image as the operator's DaemonSet does; ROLE is gpu, nic or
#                                       peermem, IMAGE the name it was given on the images disk (default:
#                                       gpu, nic, gpu), NAME the container's (default: ROLE). Starting a
#                                       NAME that has exited is a kubelet's restart: a fresh root and
#                                       termination message, the same host folders.
#                                       /vm/drivers/KEY is mounted at /drivers/KEY, and GPU containers have the
#                                       mounts in /vm/mounts too: lines as in guest/roles/gpu.mounts
#   stop NAME                           the preStop hook if the DaemonSet has one, then SIGTERM
#   kill_hard NAME                      SIGKILL of the container's first process
#   wait_exit NAME SECONDS              prints its exit code
#   wait_file PATH SECONDS [NAME]       until PATH is there; fails at once when container NAME has ended
#   wait_gone PATH SECONDS
#   wait_log NAME PATTERN SECONDS       until its log has a line that matches (grep -E)
#   exec_in NAME COMMAND…               run a command in it, as a probe does
#   probe NAME startup|liveness         the very command of the DaemonSet's probe
#   container_pid NAME                  the first process, as the host sees it
#   container_log NAME [ATTEMPT]        termination_message NAME
#   loaded MODULE                       is it in /proc/modules?
#   host_load MODULE [KEY=VALUE…]       load one of the kernel's own modules, as the host would
#   host_load_file FILE [KEY=VALUE…]    load a module from a file, after those of the kernel's that it needs
#   pin MODULE / unpin                  take / give back a reference that no holder explains
#   device_node DRIVER PATH [MINOR]     make a node for a driver of /proc/devices
#   hold PATH                           keep PATH open in a background process; its pid is in $held_pid
#   take_modules                        on a machine with a system of make-system: the kernel's modules, of the guest's own
#                                       system, which is then the disk /dev/vdc
#   free_kib                            prints the free memory, caches dropped, to some 100 KiB
#   node_disk                           from here on /etc and /var/opt/mofed-container/inventory are on the disk of run-vm
#                                       --node-disk, as an earlier machine left them
#   crash                               the power fails: what was not synced to the disk is lost. The case has passed so far
#   forget_containers                   remove what containers that have ended left in this machine's tmpfs
#   expect WORDS COMMAND…               run it; when it fails, say WORDS and end the case
#   refute WORDS COMMAND…               the same for a command that must fail (`! COMMAND` never ends a case)
#   fail WORDS
. /test/container.sh

# busybox sh prefers its own applets to what PATH names; kmod's read options and compressed modules.
insmod() { /usr/sbin/insmod "$@"; }
rmmod() { /usr/sbin/rmmod "$@"; }
modprobe() { /usr/sbin/modprobe "$@"; }
modinfo() { /usr/sbin/modinfo "$@"; }
depmod() { /usr/sbin/depmod "$@"; }

# trace WORDS: a line of the timeline (run-vm --timeline).
trace() {
    [ ! -e /case/timeline ] || echo "~ $*" >/dev/console
}

simulate() {
    insmod /test/modules/simdev.ko "$@"
}

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

expect() {
    local words=$1
    shift
    "$@" || fail "$words (exit $?): $*"
}

refute() {
    local words=$1
    shift
    if "$@"; then
        fail "$words: $*"
    fi
}

# pause SECONDS: a sleep that starts no program, which takes an emulated machine milliseconds.
pause() {
    # shellcheck disable=SC3045 # busybox has it
    read -t "$1" -r _ <>/vm/pause || true
}

# poll SECONDS COMMAND…: true as soon as COMMAND is, false when SECONDS are over and it was false more than 20 times: the machine
# may have stood still for all that time.
poll() {
    local end now begun looks=0
    read -r begun end </proc/uptime
    end=$((${begun%.*} + $1))
    shift
    until "$@"; do
        read -r now _ </proc/uptime
        looks=$((looks + 1))
        if [ "${now%.*}" -gt "$end" ] && [ "$looks" -gt 20 ]; then
            trace "in vain from $begun s on, waited for: $*"
            return 1
        fi
        pause 0.1
    done
    trace "waited from ${begun} s to ${now:-$begun} s for: $*"
}

stop() {
    local hook
    trace "stop $1"
    is_running "$1" || fail "$1 has ended already, with $(cat "/vm/containers/$1/now/exit")"
    hook=$(role_prestop "$(container_role "$1")")
    if [ -n "$hook" ]; then
        exec_in "$1" /bin/sh -c "$hook" || echo "preStop hook of $1 failed with $?" >&2
    fi
    # As crun kill does.
    kill -TERM "$(container_pid "$1")"
}

kill_hard() {
    kill -KILL "$(container_pid "$1")"
}

is_running() {
    [ ! -e "/vm/containers/$1/now/exit" ]
}

wait_exit() {
    poll "$2" test -e "/vm/containers/$1/now/exit" || fail "$1 has not ended within $2 s"
    cat "/vm/containers/$1/now/exit"
}

exists_or_ended() {
    [ -e "$1" ] || { [ -n "$2" ] && ! is_running "$2"; }
}

wait_file() {
    poll "$2" exists_or_ended "$1" "${3:-}" || fail "$1 has not appeared within $2 s"
    [ -e "$1" ] || fail "$3 has ended without $1"
}

wait_gone() {
    poll "$2" test ! -e "$1" || fail "$1 is still there after $2 s"
}

log_matches_or_ended() {
    grep -qE -- "$2" "/vm/containers/$1/now/log" || [ -e "/vm/containers/$1/now/exit" ]
}

# A container that has ended will say nothing more: there is no use in waiting on.
wait_log() {
    poll "$3" log_matches_or_ended "$1" "$2" || true
    grep -qE -- "$2" "/vm/containers/$1/now/log" || fail "log of $1 has no line like '$2' ($3 s)"
}

exec_in() {
    local name=$1
    trace "exec_in $*"
    shift
    crun exec "$name" "$@"
}

probe() {
    local command
    command=$(role_probe "$(container_role "$1")" "$2")
    exec_in "$1" sh -c "$command"
}

container_pid() {
    cat "/vm/containers/$1/now/pid"
}

container_log() {
    cat "/vm/containers/$1/${2:-now}/log"
}

termination_message() {
    cat "/vm/containers/$1/now/termination-log"
}

loaded() {
    grep -q "^$1 " /proc/modules
}

host_load() {
    modprobe "$@"
}

host_load_file() {
    local needed
    for needed in $(modinfo -F depends "$1" | tr , ' '); do
        loaded "$(echo "$needed" | tr - _)" || modprobe "$needed"
    done
    insmod "$@"
}

pin() {
    insmod /test/modules/pin.ko "module=$1"
}

unpin() {
    rmmod pin
}

device_node() {
    local major
    major=$(awk -v driver="$1" '$2 == driver { print $1; exit }' /proc/devices)
    [ -n "$major" ] || fail "/proc/devices has no $1"
    rm -f "$2"
    mknod -m 666 "$2" c "$major" "${3:-0}"
}

# In memory, so that a case can add some.
take_modules() {
    mount -t ext4 -o ro /dev/vdc /kernel
    mkdir -p "/lib/modules/$(uname -r)"
    mkdir /vm/modules /vm/modules.work
    mount -t overlay -o "lowerdir=/kernel/lib/modules/$(uname -r),upperdir=/vm/modules,workdir=/vm/modules.work" overlay \
        "/lib/modules/$(uname -r)"
    ln -s /kernel/test/modules /test/modules
}

# Opened here and handed on, so that it is open when hold returns.
hold() {
    exec 8<"$1"
    sleep 1000 <&8 &
    held_pid=$!
    exec 8<&-
}

# MemFree leaves out the free pages on the per-CPU lists ("count:" in /proc/zoneinfo), and they may hold up to 54 MiB
# here: MemFree alone goes up and down by that much while nothing is lost. The largest of three looks, for what RCU and
# work queues are about to free.
free_kib() {
    local look
    sync
    for look in 1 2 3; do
        echo 3 >/proc/sys/vm/drop_caches
        awk '$1 == "nr_free_pages" || $1 == "count:" { pages += $2 } END { print pages * 4 }' /proc/zoneinfo
        sleep 0.5
    done | sort -n | tail -n 1
}

node_disk() {
    [ -n "$NODE_DISK" ] || fail "there is no such disk: run-vm --node-disk"
    mkdir -p /vm/node /var/opt/mofed-container/inventory
    mount -t ext4 "$NODE_DISK" /vm/node
    if [ ! -e /vm/node/etc ]; then
        mkdir /vm/node/inventory
        cp -a /etc /vm/node/new
        mv /vm/node/new /vm/node/etc
        sync
    fi
    mount --bind /vm/node/etc /etc
    mount --bind /vm/node/inventory /var/opt/mofed-container/inventory
}

# The console needs a moment to show its last line.
crash() {
    echo "==> case exit 0" >/dev/console
    sleep 1
    # User Mode Linux has none: it goes as it is.
    [ -e /proc/sysrq-trigger ] || poweroff -n -f
    echo b >/proc/sysrq-trigger
    sleep 60
}

# Roots and logs, and the control groups that pages of these files keep alive.
forget_containers() {
    local folder
    for folder in /vm/containers/*; do
        [ ! -e "$folder/now" ] || [ -e "$folder/now/exit" ] || fail "${folder##*/} is running"
    done
    rm -rf /vm/containers
}

# Runs when the case ends; after a failure the console gets what one wants to know first.
report_end() {
    local status=$? log
    [ "$status" -ne 0 ] || return 0
    for log in /vm/containers/*/*/log; do
        case $log in
        */now/log | */\*/*) continue ;;
        esac
        echo "==> ${log#/vm/containers/}"
        tail -n 40 "$log"
    done
    echo "==> kernel log"
    dmesg | sed '1,/case starts$/d' | tail -n 60
    echo "==> modules"
    cut -d' ' -f1-4 /proc/modules | grep -vE '^(virtio|ext4|jbd2|mbcache|crc|overlay)' || true
}
