# shellcheck shell=dash disable=SC1091,SC2154
# SPDX-License-Identifier: Apache-2.0
# What runs in the guest: `. /case/nic-guest.sh`, then `measure slipway-init|floor`: the NIC container on a node whose inbox
# RDMA stack is loaded. Launches: `swap` (start to ready with the inbox modules swapped for the image's; SIGTERM to the inbox
# modules back), `again` (killed, started again: nothing is to be done).
. /test/drivers.sh

root=/vm/bench/root
ready=/run/mellanox/drivers/.driver-ready

bind_below() {
    mkdir -p "$root$2"
    mount --rbind "$1" "$root$2"
    mount "--make-$3" "$root$2"
}

# As the operator's DaemonSet mounts them.
prepare_root() {
    local folder
    mkdir -p "$root" /vm/bench/upper /vm/bench/work /run/mellanox/drivers /var/opt/mofed-container/inventory /run/udev
    mount -t overlay -o "lowerdir=/images/nic/rootfs,upperdir=/vm/bench/upper,workdir=/vm/bench/work" overlay "$root"
    mount --make-private "$root"
    for folder in /proc /sys /dev; do
        bind_below "$folder" "$folder" rprivate
    done
    bind_below /run/mellanox/drivers /run/mellanox/drivers rshared
    for folder in /etc /usr /lib/modules; do
        bind_below "$folder" "/host$folder" rprivate
    done
    bind_below /run/udev /run/udev rprivate
    bind_below /var/opt/mofed-container/inventory /mnt/drivers-inventory rprivate
    mkdir "$root/bench"
    cp /case/stopwatch /case/floor /case/modules "$root/bench/"
}

# stopwatch_on SUBJECT OPTION…
stopwatch_on() {
    local subject=$1
    shift
    set -- /bench/stopwatch --ready "$ready" --text "" --log /bench/log "$@" --
    case $subject in
    slipway-init) set -- "$@" /usr/bin/nic-driver precompiled ;;
    floor) set -- "$@" /bench/floor /bench/modules "$ready" "" ;;
    *) fail "no subject $subject" ;;
    esac
    env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin CREATE_IFNAMES_UDEV=true \
        NVIDIA_NIC_DRIVERS_INVENTORY_PATH=/mnt/drivers-inventory RESTORE_DRIVER_ON_POD_TERMINATION=true chroot "$root" "$@"
}

# launch SUBJECT NAME OPTION…
launch() {
    local subject=$1 name=$2 status=0
    shift 2
    stopwatch_on "$subject" "$@" >/vm/bench/result || status=$?
    sed "s/^/@bench $name /" /vm/bench/result
    [ "$status" = 0 ] || {
        cat "$root/bench/log"
        fail "$subject, $name"
    }
}

inbox='mlx5_ib ib_uverbs ib_umad rdma_ucm rdma_cm ib_ipoib'

inbox_is_back() {
    local module
    for module in $inbox; do
        loaded "$module" || return 1
    done
}

measure() {
    local module
    simulate
    for module in $inbox; do
        host_load "$module"
    done
    prepare_root
    launch "$1" swap
    [ "$1" != slipway-init ] || sed "s/^/@event swap /" /run/mellanox/drivers/slipway/nic.events.jsonl
    inbox_is_back || fail "the inbox modules are not back"
    if [ "$1" = slipway-init ]; then
        launch "$1" killed --kill
        launch "$1" again
        sed "s/^/@event again /" /run/mellanox/drivers/slipway/nic.events.jsonl
    fi
    sed "s/^/@dep own /" "/images/nic/rootfs/lib/modules/$(uname -r)/modules.dep"
    sed "s/^/@dep host /" "/lib/modules/$(uname -r)/modules.dep" | grep -E '^@dep host [^:]*(infiniband|mellanox)/'
}
