# shellcheck shell=dash disable=SC1091
# SPDX-License-Identifier: Apache-2.0
# What cases with a udevd say on top of simnet.sh: `. /case/udev.sh`. See tests/vm/udev.bash.
#
#   udev_up            start systemd-udevd, and let it see what there is already
#   udev_settled       until it has nothing to do any more
#   names_of DEVICE    the names of a device's interfaces, sorted, in one line: netdevsim0
#   device_wants_driver  the simulated NIC appears, for udevd
#   killed_there       the container is at its kill point: it dies there
#   etc_files          prints what is in /etc/udev and /etc/modprobe.d
. /case/simnet.sh

for part in bin lib; do
    cp -r "/case/udev-root/$part/." "/$part/"
done
[ ! -d /case/udev-root/lib64 ] || cp -r /case/udev-root/lib64/. /lib64/
mkdir -p /etc/udev/rules.d /run/udev

# A file that the operator's mount makes.
: >>/etc/modprobe.d/ib_core.conf

udev_up() {
    ln -sf /bin/udevadm /bin/systemd-udevd
    systemd-udevd --daemon
    udevadm trigger --action=add --subsystem-match=net
    udev_settled
}

udev_settled() {
    udevadm settle --timeout=60
}

names_of() {
    find /sys/devices -path "*/$1/net/*" -prune | sed 's/.*\///' | sort | paste -s -d ' ' -
}

# What is in the folders that the container puts files into, a file a line, with what is in it.
etc_files() {
    find /etc/udev /etc/modprobe.d ! -type d | sort | while read -r file; do
        echo "$file $(readlink "$file" || true) $(md5sum <"$file" 2>/dev/null || true)"
    done
}

# The simulated card appears, for udevd, which loads what its alias asks for.
device_wants_driver() {
    udevadm trigger --action=add --subsystem-match=pci --attr-match=vendor=0x15b3
    udev_settled
}

# For poll: udevd looks every three seconds whether modprobe.d has changed (systemd 252, event_queue_start()).
card_gets_mlx5_core() {
    device_wants_driver
    loaded mlx5_core
}

# The first process of a pid name space cannot kill itself: it waits at its kill point for a process that can.
killed_there() {
    wait_log nic '^kill point ' 120
    kill_hard nic 2>/dev/null || true
    wait_exit nic 60
}
