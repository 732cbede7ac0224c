# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# A node for an image that compiles on it: a folder is the host's root, process 1 has it as its root, and the image runs
# as a privileged container of a pod with hostPID. Without a network unless a case asks for it, in mount and process name spaces of its own. What
# is not there is a kernel of the headers' release: the role is called with --kernel. The file that loads this sets krel.

# shellcheck source-path=SCRIPTDIR source=packages.bash
. "$(dirname "${BASH_SOURCE[0]}")/packages.bash"

# make_host FOLDER LOCK PART…: Debian's packages, unpacked as dpkg does: headers, and the kernel's modules in these parts of
# its tree.
make_host() {
    local host=$1 lock=$2 files file
    shift 2
    mkdir -p "$host"
    files=$(package_files "$lock" headers)
    while read -r file; do
        dpkg-deb --extract "$file" "$host"
    done <<<"$files"
    file=$(package_files "$lock" modules)
    dpkg-deb --fsys-tarfile "$file" | tar -x -C "$host" --wildcards "./lib/modules/$krel/modules.*" \
        "${@/#/"./lib/modules/$krel/kernel/"}"
    depmod -b "$host" "$krel"
}

# start_host FOLDER: sets first, a process whose root is FOLDER and that is process 1 of its name space. Without a network
# (NETWORK=yes: with this machine's, in its containers, too).
start_host() {
    local holder net=(--net)
    [[ ${NETWORK:-no} == no ]] || net=()
    mkdir -p "$1/proc"
    cp /bin/busybox "$1/busybox"
    unshare --mount --pid "${net[@]}" --fork --kill-child chroot "$1" /busybox sleep 3600 3>&- &
    holder=$!
    for _ in $(seq 1200); do
        first=$(pgrep -P "$holder" || true)
        [[ -z $first || $(readlink "/proc/$first/root") != "$(realpath "$1")" ]] || return 0
        sleep 0.05
    done
    echo "process 1 of the node does not come" >&2
    return 1
}

# Ends the node and all that runs on it.
stop_host() {
    [[ -z ${first:-} ]] || kill -KILL "$first"
    first=
    wait
}

# put_terminate IMAGE: its program /terminate FILE PATTERN COMMAND… sends SIGTERM to COMMAND as soon as FILE has PATTERN. The
# exit code is COMMAND's, or 137 when that ran on for 20 s. Its output is in the container's /said, and printed at the end.
put_terminate() {
    # As this machine's is: busybox's does not tell how a program ended.
    cp --remove-destination /usr/bin/timeout "$1/usr/bin/timeout"
    cat >"$1/terminate" <<'END'
#!/bin/sh
file=$1 pattern=$2
shift 2
timeout --foreground --kill-after 20 300 "$@" >/said 2>&1 &
for _ in $(seq 1200); do
    ! grep -qs "$pattern" "$file" && kill -0 $! 2>/dev/null || break
    sleep 0.1
done
kill -TERM $!
ended=0
wait $! || ended=$?
cat /said
exit "$ended"
END
    chmod +x "$1/terminate"
}

# is_gone COMMAND: it does not run.
is_gone() { ! pgrep -f "^$1"; }

# wait_for SECONDS COMMAND…: until it succeeds.
wait_for() {
    local _
    for _ in $(seq $(($1 * 10))); do
        ! "${@:2}" || return 0
        sleep 0.1
    done
    echo "this does not come: ${*:2}" >&2
    return 1
}

# container IMAGE FOLDER [NAME=VALUE…] COMMAND…: runs COMMAND in a new container of the image; what it writes is below
# FOLDER/upper and goes with the next container there. The host is the one that was started last.
container() {
    local image=$1 folder=$2
    shift 2
    rm -rf "$folder"
    mkdir -p "$folder"/{upper,work,root}
    # shellcheck disable=SC2016
    image=$image folder=$folder nsenter --target "$first" --pid --net unshare --mount bash -c '
        set -eu
        mount --make-rprivate /
        mount -t overlay -o "lowerdir=$image,upperdir=$folder/upper,workdir=$folder/work" overlay "$folder/root"
        mount -t proc proc "$folder/root/proc"
        mount -t sysfs sysfs "$folder/root/sys"
        mount -t tmpfs tmpfs "$folder/root/dev"
        for node in null zero full random urandom; do
            : >"$folder/root/dev/$node"
            mount --bind "/dev/$node" "$folder/root/dev/$node"
        done
        ln -s /proc/self/fd "$folder/root/dev/fd"
        # As the kubelet gives a pod its names.
        if [ "${NETWORK:-no}" = yes ]; then
            for file in /etc/resolv.conf /etc/hosts; do cat "$file" >"$folder/root$file"; done
        fi
        # Bidirectional, as the operator mounts it: the init asks for that.
        mkdir -p "$folder/root/run/nvidia"
        mount --bind "$folder/root/run/nvidia" "$folder/root/run/nvidia"
        mount --make-shared "$folder/root/run/nvidia"
        # The NIC container shows its headers here, where a test has them.
        if [ -n "${OFED_SOURCES:-}" ]; then
            mkdir -p "$folder/root/run/mellanox/drivers/usr/src"
            mount --bind "$OFED_SOURCES" "$folder/root/run/mellanox/drivers/usr/src"
        fi
        cd "$folder/root"
        mkdir -p .old
        pivot_root . .old
        umount -l .old
        rmdir .old
        exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"' sh "$@"
}

# nic_container IMAGE FOLDER [NAME=VALUE…] COMMAND…: the same as the network operator starts one: no hostPID, no network
# (NETWORK=yes: this machine's), and of the host what it mounts, below /host. The host is the folder $NIC_HOST; $INVENTORY
# where a test has one.
nic_container() {
    local image=$1 folder=$2
    shift 2
    rm -rf "$folder"
    mkdir -p "$folder"/{upper,work,root}
    # shellcheck disable=SC2016
    local net=(--net)
    [[ ${NETWORK:-no} == no ]] || net=()
    # shellcheck disable=SC2016
    image=$image folder=$folder exec unshare --mount --pid "${net[@]}" --fork --kill-child bash -c '
        set -eu
        mount --make-rprivate /
        mount -t overlay -o "lowerdir=$image,upperdir=$folder/upper,workdir=$folder/work" overlay "$folder/root"
        mount -t proc proc "$folder/root/proc"
        mount -t sysfs sysfs "$folder/root/sys"
        mount -t tmpfs tmpfs "$folder/root/dev"
        for node in null zero full random urandom; do
            : >"$folder/root/dev/$node"
            mount --bind "/dev/$node" "$folder/root/dev/$node"
        done
        ln -s /proc/self/fd "$folder/root/dev/fd"
        share() { # HOST CONTAINER
            mkdir -p "$1" "$folder/root$2"
            mount --bind "$1" "$folder/root$2"
        }
        if [ -n "${NIC_HOST:-}" ]; then
            for part in etc usr lib/modules lib/udev; do share "$NIC_HOST/$part" "/host/$part"; done
            # Bidirectional, as the operator mounts it.
            share "$NIC_HOST/run/mellanox/drivers" /run/mellanox/drivers
            mount --make-shared "$folder/root/run/mellanox/drivers"
        fi
        # As the kubelet gives a pod its names.
        if [ "${NETWORK:-no}" = yes ]; then
            for file in /etc/resolv.conf /etc/hosts; do cat "$file" >"$folder/root$file"; done
        fi
        [ -z "${INVENTORY:-}" ] || share "$INVENTORY" /mnt/drivers-inventory
        cd "$folder/root"
        mkdir -p .old
        pivot_root . .old
        umount -l .old
        rmdir .old
        exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"' sh "$@"
}
