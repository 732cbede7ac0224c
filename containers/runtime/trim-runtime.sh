#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Called by runtime.sh: turns the unpacked packages in folder $1 into a runtime root file system.
set -euo pipefail
root=$1

# One /usr, as Debian merges it: drivers, libraries and probes are looked for on both sides.
for name in bin sbin lib lib64; do
    if [[ -d $root/$name && ! -L $root/$name ]]; then
        mkdir -p "$root/usr/$name"
        cp -a "$root/$name/." "$root/usr/$name/"
        rm -rf "${root:?}/$name"
    fi
    [[ -e $root/$name ]] || ln -s "usr/$name" "$root/$name"
done

# The names that busybox is called by. It tells them itself; one of another architecture cannot be run here, and its list is
# that of the same version in busybox/ (tests/real/arm64.bats compares that of Debian 12).
busybox_names() {
    local version list
    chroot "$root" /bin/busybox --list-full 2>/dev/null && return
    version=$(sed -n 's/^Version: \([0-9]*:\)\{0,1\}\([0-9.]*\).*/\2/p' "$root/var/lib/dpkg/status.d/busybox")
    list=$(dirname "$(readlink -f "$0")")/busybox/$version
    if [[ -f $list ]]; then
        cat "$list"
    else
        echo "${0##*/}: busybox of these packages cannot be run on this machine, and $list, the list of its programs, is not there: make it with busybox --list-full on a machine that can" >&2
        return 1
    fi
}

# kmod's modprobe and lsmod stay; busybox fills in the rest.
names=$(busybox_names)
while read -r path; do
    target=$root/usr/${path#usr/}
    [[ -e $target || -L $target ]] || ln -s /usr/bin/busybox "$target"
done <<<"$names"

# Package data that nothing reads in an image without apt and dpkg. Scanners read status.d, as in images of distroless.
find "$root/var/lib/dpkg" -mindepth 1 -maxdepth 1 ! -name status.d -exec rm -rf {} +
rm -rf "$root"/var/lib/apt "$root"/var/cache/{apt,ldconfig} "$root"/etc/apt "$root"/usr/share/doc \
    "$root"/usr/share/man "$root"/usr/share/common-licenses "$root"/usr/share/base-files \
    "$root"/usr/share/initramfs-tools "$root"/etc/initramfs-tools "$root"/usr/share/lintian \
    "$root"/usr/lib/*-linux-gnu*/gconv "$root"/usr/share/info "$root"/usr/share/locale \
    "$root"/usr/share/bash-completion "$root"/usr/share/debianutils "$root"/usr/share/menu "$root"/etc/skel "$root"/etc/network
# Bandwidth and latency by RDMA's writes, reads and sends stay of perftest.
rm -f "$root"/usr/bin/{ib_atomic_*,raw_ethernet_*,run_perftest_*}
mkdir -p "$root"/{run,tmp,proc,sys,dev,var/log,usr/src,usr/lib/modules,usr/lib/firmware,etc/modprobe.d}
chmod 1777 "$root/tmp"
# Daemons are compiled with /var/run, and the operator mounts their folders below /run.
rm -rf "$root/var/run"
ln -s ../run "$root/var/run"
