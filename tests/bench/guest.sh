# shellcheck shell=dash disable=SC1091,SC2154
# SPDX-License-Identifier: Apache-2.0
# What runs in the guest: `. /case/guest.sh`, then `measure slipway-init|floor|stock-like`. One subject is measured
# per boot: started with OFED there, stopped, then started before OFED's flag comes. All subjects run the same way:
# chrooted into the GPU image with the node's /proc, /sys, /dev and operators' folders, the stopwatch beside them.
. /test/drivers.sh

root=/vm/bench/root
ready=/run/nvidia/validations/.driver-daemons-status
flag=/run/mellanox/drivers/.driver-ready
events=/run/nvidia/slipway/gpu.events.jsonl

# bind_below ROOT PATH PROPAGATION
bind_below() {
    mkdir -p "$1$2"
    mount --rbind "$2" "$1$2"
    mount "--make-$3" "$1$2"
}

# prepare_root SUBJECT: mounts with the propagation that the DaemonSet gives them: the stock-like script binds / into
# itself, and what it unmounts lazily there would otherwise go from the node as well.
prepare_root() {
    local folder
    mkdir -p "$root" /vm/bench/upper /vm/bench/work /run/nvidia/validations
    mount -t overlay -o "lowerdir=/images/gpu/rootfs,upperdir=/vm/bench/upper,workdir=/vm/bench/work" overlay "$root"
    mount --make-private "$root"
    for folder in /proc /sys /dev; do
        bind_below "$root" "$folder" rprivate
    done
    bind_below "$root" /run/nvidia rshared
    bind_below "$root" /run/mellanox/drivers rslave
    mkdir "$root/bench"
    # nvidia-persistenced takes seconds over a GPU without firmware, beside what is measured; see launch_daemons.
    mv "$root/usr/bin/nvidia-persistenced" "$root/bench/" 2>/dev/null || true
    cp /case/stopwatch /case/floor /case/stock-like.sh /case/modules "$root/bench/"
    [ "$1" != stock-like ] || tar -xf /case/stock-programs.tar -C "$root"
    grep nvidia-peermem /case/modules >"$root/bench/peermem-modules" || true
    grep -v -e nvidia-peermem -e nvidia_peermem /case/modules >"$root/bench/driver-modules" || true
    echo "unload nvidia_peermem" >>"$root/bench/peermem-modules"
}

# in_root PROGRAM ARG…: with the environment that the DaemonSet gives, in the image.
in_root() {
    env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin GPU_DIRECT_RDMA_ENABLED=true \
        DRIVER_CONFIG_DIGEST=3271748789 chroot "$root" "$@"
}

# stopwatch_on SUBJECT OPTION…: floor is given the flag that the others look for by themselves.
stopwatch_on() {
    local subject=$1 waits=''
    shift
    case " $* " in
    *' --flag '*) waits=$flag ;;
    esac
    set -- /bench/stopwatch --ready "$ready" --text Ready --log /bench/log "$@" --
    case $subject in
    slipway-init) set -- "$@" /usr/bin/nvidia-driver init ;;
    floor) set -- "$@" /bench/floor /bench/modules "$ready" Ready ${waits:+"$waits"} ;;
    stock-like) set -- "$@" /bin/bash /bench/stock-like.sh init ;;
    *) fail "no subject $subject" ;;
    esac
    in_root "$@"
}

# start_driver SUBJECT: the driver container without RDMA, as it is when OFED comes later.
start_driver() {
    local subject=$1
    shift
    rm -f "$ready"
    case $subject in
    slipway-init) set -- /usr/bin/nvidia-driver init ;;
    floor) set -- /bench/floor /bench/driver-modules "$ready" Ready ;;
    stock-like) set -- /bin/bash /bench/stock-like.sh init ;;
    esac
    env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin DRIVER_CONFIG_DIGEST=3271748789 \
        chroot "$root" "$@" >>"$root/bench/log" 2>&1 &
    driver_pid=$!
    poll 120 grep -qs Ready "$ready" || fail "the driver of $subject did not get ready"
    : >/run/nvidia/validations/.driver-ctr-ready
}

stop_driver() {
    local status=0
    kill -TERM "$driver_pid"
    wait "$driver_pid" || status=$?
    [ "$status" = 0 ] || fail "the driver ended with $status"
}

# OFED's flag comes while the driver runs: how long until nvidia-peermem is there?
launch_peermem() {
    local subject=$1 status=0
    start_driver "$subject"
    set -- /bench/stopwatch --module nvidia_peermem --log /bench/log --flag "$flag" --after 3000 --
    case $subject in
    slipway-init) set -- "$@" /usr/bin/nvidia-driver reload_nvidia_peermem ;;
    floor) set -- "$@" /bench/floor /bench/peermem-modules /run/nvidia/floor-ready Ready "$flag" ;;
    stock-like) set -- "$@" /bin/bash /bench/stock-like.sh reload_nvidia_peermem ;;
    esac
    in_root "$@" >/vm/bench/result || status=$?
    print_results peermem /vm/bench/result
    if [ "$status" -ne 0 ]; then
        cat "$root/bench/log"
        fail "$subject, peermem"
    fi
    ! loaded nvidia_peermem || rmmod nvidia_peermem
    stop_driver
}

# A container that was killed and is started again finds its driver loaded: nothing is to be done.
launch_again() {
    stopwatch_on "$1" --kill >/vm/bench/result
    stopwatch_on "$1" >/vm/bench/result
    print_results again /vm/bench/result
}

# With nvidia-persistenced supervised: the memory of the init.
launch_daemons() {
    [ -e "$root/bench/nvidia-persistenced" ] || return 0
    mv "$root/bench/nvidia-persistenced" "$root/usr/bin/"
    launch "$1" daemons --settle 20000
    mv "$root/usr/bin/nvidia-persistenced" "$root/bench/"
}

# print_results LAUNCH FILE: lines that tests/bench/run picks out of the console.
print_results() {
    sed "s/^/@bench $1 /" "$2"
}

launch() {
    local subject=$1 name=$2 status=0
    shift 2
    stopwatch_on "$subject" "$@" >/vm/bench/result || status=$?
    print_results "$name" /vm/bench/result
    if [ "$status" -ne 0 ]; then
        cat "$root/bench/log"
        fail "$subject, $name"
    fi
    expect_unloaded nvidia nvidia_uvm nvidia_modeset nvidia_peermem
    [ "$(mounts_at /run/nvidia/driver)" = 0 ] || fail "$subject left /run/nvidia/driver mounted"
}

# print_events SUBJECT LAUNCH
print_events() {
    [ "$1" != slipway-init ] || sed "s/^/@event $2 /" "$events"
}

measure() {
    simulate
    start nic
    wait_ready nic 120
    prepare_root "$1"
    launch "$1" ofed-first
    print_events "$1" ofed-first
    launch "$1" gpu-first --flag "$flag" --after 3000 --sample 5
    print_events "$1" gpu-first
    launch_peermem "$1"
    if [ "$1" = slipway-init ]; then
        launch_again "$1"
        launch_daemons "$1"
    fi
    echo "@bench image init_bytes=$(stat -c %s /images/gpu/rootfs/usr/bin/slipway-init)"
    sed "s/^/@dep /" "/images/gpu/rootfs/lib/modules/$(uname -r)/modules.dep"
    stop_clean nic
}
