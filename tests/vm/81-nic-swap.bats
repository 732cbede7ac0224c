#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# proves: the node's side
# needs: any kernel
# The NIC container swaps the driver and can roll back: images nic and nic-other are two builds of OFED, and the guest has
# the kernel's own modules. What goes wrong in the middle is meddle/'s doing.

load drivers

setup_file() {
    in_each_guest make_node
}

make_node() {
    use_drivers
    make_meddle
}

# The kernel's headers are the packages that make-guest takes simdev's from.
make_meddle() {
    local tree=${VM_KERNEL_TREE:-} package
    if [ -z "$tree" ]; then
        tree=$BATS_FILE_TMPDIR/headers
        mkdir -p "$tree/lib/modules/$VM_KREL"
        for package in "linux-headers-$VM_KREL" $(apt-cache depends "linux-headers-$VM_KREL" |
            sed -n 's/^ *Depends: \(linux-\(headers\|kbuild\)-.*\)/\1/p'); do
            dpkg-deb -x "$("$vm_folder/fetch-deb" "$VM_BUILD/debs" "$package")" "$tree"
        done
        sed -i "s#/usr/src/#$tree/usr/src/#" "$tree/usr/src/linux-headers-$VM_KREL/Makefile"
        ln -sfn "../../../usr/src/linux-headers-$VM_KREL" "$tree/lib/modules/$VM_KREL/build"
    fi
    cp -r "$vm_folder/meddle" "$BATS_FILE_TMPDIR/meddle-$guest"
    cp "$vm_folder/simdev/find_module.h" "$BATS_FILE_TMPDIR/meddle-$guest/"
    make -s -C "$tree/lib/modules/$VM_KREL/build" M="$BATS_FILE_TMPDIR/meddle-$guest" modules
}

# run_swap <SCRIPT: a case with what those of this file share.
run_swap() {
    local part=$BATS_TEST_TMPDIR/swap.sh
    cat >"$part" <<'PART'
. /test/drivers.sh
set_modules="ib_core ib_uverbs ib_umad ib_cm iw_cm rdma_cm rdma_ucm ib_ipoib mlxfw mlx5_core mlx5_ib"
build_id() { hexdump -ve '1/1 "%02x"' "/sys/module/$1/notes/.note.gnu.build-id"; }
# "name build-id" of what is loaded of the set.
builds() {
    local module
    for module in $set_modules; do
        [ ! -d "/sys/module/$module" ] || echo "$module $(build_id "$module")"
    done
}
# The node's own driver, with parameters that are not the usual ones.
load_inbox() {
    host_load mlx5_core prof_sel=1 debug_mask=2
    host_load ib_core netns_mode=0
    host_load mlx5_ib
    host_load rdma_ucm
    host_load ib_ipoib recv_queue_size=256
}
expect_parameters() {
    [ "$(cat /sys/module/mlx5_core/parameters/prof_sel)" = 1 ] || fail "mlx5_core lost prof_sel"
    [ "$(cat /sys/module/mlx5_core/parameters/debug_mask)" = 2 ] || fail "mlx5_core lost debug_mask"
    [ "$(cat /sys/module/ib_core/parameters/netns_mode)" = N ] || fail "ib_core lost netns_mode"
    [ "$(cat /sys/module/ib_ipoib/parameters/recv_queue_size)" = 256 ] || fail "ib_ipoib lost recv_queue_size"
}
expect_builds() {
    builds >/tmp/builds.now
    cmp "$1" /tmp/builds.now || { diff "$1" /tmp/builds.now || true; fail "other builds than in $1"; }
}
# None of the builds in the file is loaded.
expect_other_builds() {
    builds >/tmp/builds.now
    [ -s /tmp/builds.now ] || fail "nothing is loaded"
    ! grep -Fxf "$1" /tmp/builds.now || fail "builds of $1 are loaded"
}
journal=/run/mellanox/drivers/slipway/swap.journal
expect_settled() {
    ! grep -E '^phase name=(unloading|loading|dependents|restoring|rollback)$' $journal || fail "a swap is still pending"
}
kept=/var/opt/mofed-container/inventory/.slipway/loaded
meddle() { insmod /case/meddle.ko "$@"; }
log_has() { container_log "$1" | grep -qE -- "$2" || fail "log of $1 has no line like '$2'"; }
# The message of the event comes before that of another.
log_order() {
    container_log "$1" | awk -v first="$2" -v then="$3" '$0 ~ first && !f { f = NR } $0 ~ then && !t { t = NR } END { exit !(f && t && f < t) }' ||
        fail "log of $1: '$2' does not come before '$3'"
}
PART
    run_case --add "$part" --add "$BATS_FILE_TMPDIR/meddle-$guest/meddle.ko"
}

# bats test_tags=core
@test "inbox, then OFED, then another OFED, then inbox again with its parameters; storage comes back each time" {
    run_swap <<'CASE'
. /case/swap.sh
simulate
load_inbox
host_load rpcrdma
builds >/tmp/inbox
rpcrdma=$(build_id rpcrdma)
start nic RESTORE_DRIVER_ON_POD_TERMINATION=false UNLOAD_STORAGE_MODULES=true
wait_ready nic 120
expect_nic_serves
exec_in nic test -c /dev/infiniband/rdma_cm || fail "the container does not see the nodes of OFED's devices"
[ ! -e /dev/infiniband/slipway ] || fail "the swap's own folder is left in /dev/infiniband"
expect_other_builds /tmp/inbox
builds >/tmp/ofed
expect_settled
log_has nic 'unloaded rpcrdma'
loaded rpcrdma || fail "rpcrdma has not come back on OFED: $(grep ^missing $journal)"
[ "$(ls $kept/*/*.ko* | wc -l)" -ge 9 ] || fail "the loaded files were not kept"
stop_clean nic
# Without RESTORE_DRIVER_ON_POD_TERMINATION OFED outlives its container; nothing else does.
expect_builds /tmp/ofed
[ ! -e /run/mellanox/drivers/.driver-ready ] || fail ".driver-ready is still there"
[ "$(mounts_at /run/mellanox/drivers/usr/src)" = 0 ] || fail "OFED's sources are still mounted"

start nic:nic-other other UNLOAD_STORAGE_MODULES=true
wait_ready other 120
expect_other_builds /tmp/inbox
expect_other_builds /tmp/ofed
expect_settled
loaded rpcrdma || fail "rpcrdma has not come back on the other OFED: $(grep ^missing $journal)"
refute "the files of the OFED before were not found" container_log_has other 'no file has the build id'
[ "$(ls -d $kept/* | wc -l)" = 1 ] || fail "more than one set is kept"

stop_clean other
expect_builds /tmp/inbox
expect_parameters
loaded rpcrdma || fail "rpcrdma has not come back"
[ "$(build_id rpcrdma)" = "$rpcrdma" ] || fail "another rpcrdma"
! grep '^own ' $journal || fail "the node's own modules are still in the journal"
expect_settled
echo "all came back"
CASE
    [ "$status" -eq 0 ]
    [[ $output == *"all came back"* ]]
}

@test "a set whose third module fails: the very modules that were there come back, inbox or OFED" {
    run_swap <<'CASE'
. /case/swap.sh
simulate
load_inbox
builds >/tmp/inbox
meddle when=ib_umad refuse=1
start nic RESTORE_DRIVER_ON_POD_TERMINATION=false
exits nic 17 120
rmmod meddle
log_has nic 'ib_umad: the kernel refused it'
termination_message nic | grep 'ib_umad.*the previous modules are loaded again'
expect_builds /tmp/inbox
expect_parameters
expect_settled

start nic RESTORE_DRIVER_ON_POD_TERMINATION=false
wait_ready nic 120
builds >/tmp/ofed
stop_clean nic
meddle when=ib_umad refuse=1
start nic:nic-other other
exits other 17 120
rmmod meddle
expect_builds /tmp/ofed
expect_settled

# Without the kept files the OFED before is nowhere: said before anything goes, and the node's own comes.
rm -r $kept
meddle when=ib_umad refuse=1
start nic:nic-other other
exits other 17 120
rmmod meddle
log_order other 'no file has the build id of these loaded modules.*mlx5_core' 'unloaded'
log_has other "loading the host's own instead"
expect_builds /tmp/inbox
expect_parameters
echo "all came back"
CASE
    [ "$status" -eq 0 ]
    [[ $output == *"all came back"* ]]
}

@test "the kernel refuses an unload in mid-course: what went comes back, on the way there and on the way out" {
    run_swap <<'CASE'
. /case/swap.sh
simulate
load_inbox
builds >/tmp/inbox
meddle when=mlx5_ib take=ib_core
start nic
exits nic 16 120
rmmod meddle
log_has nic 'unloaded mlx5_ib'
expect_builds /tmp/inbox
expect_parameters
expect_settled

start nic SLIPWAY_UNLOAD_DEADLINE_SECONDS=2
wait_ready nic 120
builds >/tmp/ofed
meddle when=mlx5_ib take=ib_core
stop nic
exits nic 16 120
rmmod meddle
expect_builds /tmp/ofed
echo "all came back"
CASE
    [ "$status" -eq 0 ]
    [[ $output == *"all came back"* ]]
}

@test "the same in the recovery of a swap that was not finished: what went of the image's comes again" {
    run_swap <<'CASE'
. /case/swap.sh
simulate
load_inbox
builds >/tmp/inbox
start nic RESTORE_DRIVER_ON_POD_TERMINATION=false
wait_ready nic 120
builds >/tmp/ofed
kill_hard nic
wait_exit nic 20
# As if it had been killed before it could write that it was done: what was there is pending.
sed -i -e 's/^phase .*/phase name=restoring/' -e 's/^own \(.*\)/&\ngo \1/' -e 's/^inserted \(.*\)/&\nload \1/' $journal
echo "options mlx5_core prof_sel=many" >/etc/modprobe.d/zz-bad.conf
meddle when=mlx5_ib take=ib_core
start nic SLIPWAY_UNLOAD_DEADLINE_SECONDS=2
[ "$(wait_exit nic 120)" != 0 ] || fail "a value that the kernel refuses was taken"
rmmod meddle
expect_builds /tmp/ofed
log_has nic 'modules are still loaded: they stay'
start nic
[ "$(wait_exit nic 120)" != 0 ] || fail "a value that the kernel refuses was taken"
expect_builds /tmp/inbox
echo "all came back"
CASE
    [ "$status" -eq 0 ]
    [[ $output == *"all came back"* ]]
}

@test "modules that the host loads in the middle are taken out again" {
    run_swap <<'CASE'
. /case/swap.sh
simulate
load_inbox
builds >/tmp/inbox
meddle when=mlx5_core load=mlx5_ib going=1
start nic RESTORE_DRIVER_ON_POD_TERMINATION=false
wait_ready nic 120
rmmod meddle
expect_other_builds /tmp/inbox
expect_nic_serves
container_log nic | grep -E 'in the middle|unloaded|loaded' || true
stop_clean nic
meddle when=mlx5_core load=mlx5_ib
start nic:nic-other other
wait_ready other 120
rmmod meddle
expect_other_builds /tmp/inbox
# Without a word of what was there the host's modules of these names are it.
sed -i -e '/^own /d' -e '/^inserted /d' $journal
stop_clean other
builds >/tmp/builds.now
[ "$(grep -cFxf /tmp/inbox /tmp/builds.now)" = "$(wc -l </tmp/inbox)" ] || fail "not all of the node's own are back"
echo "all came back"
CASE
    [ "$status" -eq 0 ]
    [[ $output == *"all came back"* ]]
}

@test "RESTORE without the host's modules, or with ones that will not load: OFED stays" {
    run_swap <<'CASE'
. /case/swap.sh
simulate
load_inbox
builds >/tmp/inbox
start nic
wait_ready nic 120
builds >/tmp/ofed
host=/lib/modules/$(uname -r)
mkdir /tmp/index
mv "$host"/modules.dep* "$host"/modules.alias* /tmp/index
stop nic
exits nic 15 60
mv /tmp/index/* "$host"
log_has nic 'has none of the modules that were loaded before'
expect_builds /tmp/ofed
expect_settled

core=$host/kernel/drivers/infiniband/core
cp "$core/ib_core.ko" /tmp/ib_core.ko
cp "$core/ib_cm.ko" "$core/ib_core.ko"
start nic
wait_ready nic 60
stop nic
exits nic 15 60
cp /tmp/ib_core.ko "$core/ib_core.ko"
log_has nic "the node's own modules could not be reloaded"
expect_builds /tmp/ofed
expect_settled
# The next one knows still what was there.
start nic
wait_ready nic 60
log_has nic 'nothing is touched'
stop_clean nic
expect_builds /tmp/inbox
expect_parameters
echo "all came back"
CASE
    [ "$status" -eq 0 ]
    [[ $output == *"all came back"* ]]
}

@test "storage, third-party and auxiliary modules come back with their parameters, and one that is lost is reported" {
    run_swap <<'CASE'
. /case/swap.sh
simulate
load_inbox
host_load rdma_rxe
host_load rpcrdma
host_load ib_srp cmd_sg_entries=17
host=/lib/modules/$(uname -r)
mv "$host/kernel/net/sunrpc/xprtrdma/rpcrdma.ko" /tmp
set -- UNLOAD_STORAGE_MODULES=true STORAGE_MODULES=rpcrdma UNLOAD_THIRD_PARTY_RDMA_MODULES=true \
    THIRD_PARTY_RDMA_MODULES=rdma_rxe MLX5_AUXILIARY_MODULES=ib_srp
start nic "$@"
exits nic 15 120
termination_message nic | grep 'nothing was touched: .*rpcrdma: neither the image nor the host has it'
loaded rpcrdma || fail "rpcrdma went"
start nic "$@" SLIPWAY_ALLOW_MODULE_LOSS=true
wait_ready nic 120
log_has nic 'will not come back once it is unloaded: rpcrdma'
log_has nic 'unloaded rdma_rxe'
log_has nic 'unloaded ib_srp'
expect_loaded rdma_rxe ib_srp
[ "$(cat /sys/module/ib_srp/parameters/cmd_sg_entries)" = 17 ] || fail "ib_srp lost its parameter"
expect_unloaded rpcrdma
log_has nic 'rpcrdma could not be reloaded: '
grep '^missing .*rpcrdma' $journal
exec_in nic slipway-init status | grep rpcrdma
# What leans on OFED by now leans on the node's own after.
stop_clean nic
expect_loaded rdma_rxe ib_srp mlx5_ib
[ "$(cat /sys/module/ib_srp/parameters/cmd_sg_entries)" = 17 ] || fail "ib_srp lost its parameter"
expect_parameters
echo "all came back"
CASE
    [ "$status" -eq 0 ]
    [[ $output == *"all came back"* ]]
}
