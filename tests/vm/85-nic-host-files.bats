#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# proves: the node's side
# needs: any kernel
# What the NIC container has in its host's /etc and takes from there, on a node with a real udevd: names of interfaces, the
# blacklist of a swap, modprobe options; the sources that the GPU side sees, and the programs that probes run.

load simnet
load udev
load kill

setup_file() {
    in_each_guest use_simnet
    use_udev
    make_kill_points slipway-init
}

# run_host_files [OPTION of run-vm…] <CASE: a slipway-init with kill points lies over the image's.
run_host_files() {
    run_udev --add "$kill_build/slipway-init" --add "$vm_folder/kill-case.sh:kill.sh" "$@"
}

# bats test_tags=core
@test "names stay as they are over a swap, by udev's rule alone too, and the rule goes with the container" {
    run_udev <<'CASE'
. /case/udev.sh
udev_up
cards 2 2
udev_settled
[ "$(names_of netdevsim0)" = "eni0np1 eni0np2" ] || fail "udev made other names: $(names_of netdevsim0)"
# As a host whose names have no ports, or an administrator, has it.
named ens1f0 eni0np1; named ens1f1 eni0np2; named storage0 eni1np1
udev_settled
etc_files >/tmp/etc.before
start nic:nic-1
wait_ready nic 120
expect "netdevsim is not the image's" is_of nic-1 netdevsim
[ "$(names_of netdevsim0)" = "ens1f0 ens1f1" ] || fail "the names are now: $(names_of netdevsim0)"
[ "$(names_of netdevsim1)" = "eni1np2 storage0" ] || fail "the names are now: $(names_of netdevsim1)"
[ -L /etc/udev/rules.d/77-mlnx-net-names.rules ] || fail "no rule"
refute "the rule runs a program" grep -i program /etc/udev/rules.d/77-mlnx-net-names.rules
[ ! -e /etc/modprobe.d/blacklist-ofed-modules.conf ] || fail "the blacklist is still there"

echo "==> cards come and go while only udevd looks after names"
kill -STOP "$(container_pid nic)"
rmmod netdevsim
insmod "/images/nic-1/rootfs/usr/lib/modules/$(uname -r)/updates/ofed/netdevsim.ko" devices=2 ports=2
udev_settled
[ "$(names_of netdevsim0)" = "ens1f0 ens1f1" ] || fail "without us the names are: $(names_of netdevsim0)"
kill -CONT "$(container_pid nic)"

stop_clean nic
[ "$(names_of netdevsim0)" = "ens1f0 ens1f1" ] || fail "after the stop the names are: $(names_of netdevsim0)"
etc_files >/tmp/etc.after
diff /tmp/etc.before /tmp/etc.after || fail "something is left in /etc"
rmmod netdevsim
modprobe netdevsim
udev_settled
[ "$(names_of netdevsim0)" = "eni0np1 eni0np2" ] || fail "a rule is still there: $(names_of netdevsim0)"
CASE
    [ "$status" -eq 0 ]
}

@test "in the middle of a swap udevd and modprobe load no inbox module; the next start undoes what SIGKILL left" {
    run_host_files <<'CASE'
. /case/udev.sh
. /case/kill.sh
simulate gpu=0
cards 1
udev_up
etc_files >/tmp/etc.before
device_wants_driver
poll 30 loaded mlx5_core || fail "udevd does not load mlx5_core for the card, this test shows nothing"
rmmod mlx5_core
udev_settled

start nic:nic-1 SLIPWAY_KILL_AT=swap-in:before
killed_there
expect_unloaded netdevsim ib_core mlx5_core
[ -L /etc/modprobe.d/blacklist-ofed-modules.conf ] || fail "no blacklist"
for module in mlx5_vdpa mlx5_fwctl mlx5_dpll; do
    grep -qx "blacklist $module" /etc/modprobe.d/blacklist-ofed-modules.conf || fail "no word of the auxiliary module $module"
done
device_wants_driver
expect_unloaded mlx5_core
# By another module that needs it, and by the kernel's own request.
refute "ib_core came as a dependency" modprobe rdma_rxe
refute "mlx5_ib came" modprobe mlx5_ib
expect_unloaded ib_core mlx5_core

start nic:nic-1
wait_ready nic 120
[ -e /run/mellanox/drivers/.driver-ready ]
expect "netdevsim is not the image's" is_of nic-1 netdevsim
[ ! -e /etc/modprobe.d/blacklist-ofed-modules.conf ] || fail "the blacklist is still there"
[ -L /etc/udev/rules.d/77-mlnx-net-names.rules ] || fail "no rule"
grep -q 'NAME="' /etc/udev/rules.d/77-mlnx-net-names.rules || fail "the rules have lost the interfaces"
stop_clean nic
etc_files >/tmp/etc.after
diff /tmp/etc.before /tmp/etc.after || fail "something is left in /etc"
[ ! -e /var/opt/mofed-container/inventory/.slipway/hostfiles.journal ] || fail "the journal is still there"
rmmod mlx5_core 2>/dev/null || true
poll 30 card_gets_mlx5_core || fail "the host cannot load its driver any more"
CASE
    [ "$status" -eq 0 ]
}

# mlx5_ib stands for one: the images of simnet.bash load neither it nor what it needs, mlx5_core and mlxfw.
@test "auxiliary modules that were not there come with the image's, with what they need, and all goes at the end" {
    run_simnet <<'CASE'
. /case/simnet.sh
cards 1
start nic:nic-1 MLX5_AUXILIARY_MODULES='mlx5_ib mlx5_nowhere ../no'
wait_ready nic 120
for module in mlx5_ib mlx5_core mlxfw; do
    expect "$module is not the image's" is_of nic-1 "$module"
done
container_log_has nic 'MLX5_AUXILIARY_MODULES has "../no", which is not a module name: skipped' || fail "not reported"
stop_clean nic
expect_unloaded mlx5_ib mlx5_core mlxfw
expect "netdevsim is not the node's own" is_inbox netdevsim

echo "==> one that will not load is a note"
echo bad >/tmp/bad.ko
echo "/tmp/bad.ko /usr/lib/modules/$(uname -r)/updates/ofed/mlx5_ib.ko file rbind,rprivate,ro" >>/test/roles/nic.mounts
start nic:nic-1 MLX5_AUXILIARY_MODULES=mlx5_ib
wait_ready nic 120
expect "netdevsim is not the image's" is_of nic-1 netdevsim
container_log_has nic 'mlx5_ib (MLX5_AUXILIARY_MODULES) could not be loaded: ' || fail "not reported"
expect_unloaded mlx5_ib
[ ! -s /run/mellanox/drivers/.driver-ready ] || fail "something is not as it was: $(cat /run/mellanox/drivers/.driver-ready)"
stop_clean nic
expect_unloaded mlx5_ib mlx5_core mlxfw
CASE
    [ "$status" -eq 0 ]
}

@test "auxiliary modules that were there are the image's in the meantime, and so is what only they need" {
    run_simnet <<'CASE'
. /case/simnet.sh
cards 1
modprobe mlx5_ib
start nic:nic-1 MLX5_AUXILIARY_MODULES=mlx5_ib
wait_ready nic 120
for module in netdevsim mlx5_ib mlx5_core mlxfw; do
    expect "$module is not the image's" is_of nic-1 "$module"
done
stop_clean nic
for module in netdevsim mlx5_ib mlx5_core mlxfw; do
    expect "$module is not the node's own" is_inbox "$module"
done
CASE
    [ "$status" -eq 0 ]
}

# bats test_tags=full
@test "a power failure in the middle: after the boot the host loads its own driver, leftovers or not, and the next start clears them" {
    disk=$BATS_TEST_TMPDIR/node.ext4
    run_host_files --node-disk "$disk" <<'CASE'
node_disk
. /case/udev.sh
. /case/kill.sh
cards 1
udev_up
etc_files >/etc/before
sync
start nic:nic-1 SLIPWAY_KILL_AT=swap-in:before
killed_there
[ -e /etc/modprobe.d/blacklist-ofed-modules.conf ] || fail "no blacklist"
[ -e /etc/udev/rules.d/77-mlnx-net-names.rules ] || fail "no rule"
sync
crash
CASE
    [ "$status" -eq 0 ]
    run_host_files --node-disk "$disk" <<'CASE'
node_disk
. /case/udev.sh
. /case/kill.sh
[ -L /etc/modprobe.d/blacklist-ofed-modules.conf ] || fail "there is no leftover: this test shows nothing"
[ ! -e /etc/modprobe.d/blacklist-ofed-modules.conf ] || fail "the leftover says something"
simulate gpu=0
udev_up
poll 30 card_gets_mlx5_core || fail "udevd does not load the host's driver"
modprobe netdevsim
udev_settled
[ "$(names_of netdevsim0)" = eni0np1 ] || fail "the names are now: $(names_of netdevsim0)"
modprobe -v mlx5_ib || fail "modprobe does not load the host's driver"
busybox modprobe rdma_rxe || fail "nor busybox's"
rmmod rdma_rxe
start nic:nic-1
wait_ready nic 120
stop_clean nic
etc_files >/tmp/after
diff /etc/before /tmp/after || fail "something is left in /etc"
CASE
    [ "$status" -eq 0 ]
}

@test "the host's modprobe options are honoured, and one that the kernel would refuse ends the start before anything goes" {
    run_udev <<'CASE'
. /case/udev.sh
cards 1
inbox=$(build_id netdevsim)
mkdir -p /usr/lib/modprobe.d
echo 'options netdevsim nosuch=7' >/etc/modprobe.d/site.conf
echo 'options netdevsim max_vfs=5' >/usr/lib/modprobe.d/vendor.conf
echo 'options ib_core netns_mode=0' >/etc/modprobe.d/ib_core.conf
start nic:nic-1
wait_ready nic 120
[ "$(build_id netdevsim)" != "$inbox" ] || fail "netdevsim is the host's"
[ "$(cat /sys/module/netdevsim/parameters/max_vfs)" = 5 ] || fail "max_vfs"
[ "$(cat /sys/module/ib_core/parameters/netns_mode)" = N ] || fail "netns_mode"
container_log nic | grep 'site.conf sets "nosuch=7" for netdevsim, which is not used'
stop_clean nic
[ "$(build_id netdevsim)" = "$inbox" ] || fail "netdevsim is not the host's"

echo 'options netdevsim max_vfs=many' >/etc/modprobe.d/site.conf
start nic:nic-1
wait_exit nic 60
container_log nic | grep 'BAD_PARAMETER.*/host/etc/modprobe.d/site.conf.*max_vfs'
[ "$(build_id netdevsim)" = "$inbox" ] || fail "netdevsim was replaced"
CASE
    [ "$status" -eq 0 ]
}

@test "a host whose /etc is read-only: said, and OFED serves" {
    run_udev <<'CASE'
. /case/udev.sh
udev_up
cards 1
sed -i 's|^/etc /host/etc none rbind,rprivate,rw|/etc /host/etc none rbind,rprivate,ro|' /test/roles/nic.mounts
etc_files >/tmp/etc.before
start nic:nic-1
wait_ready nic 120
expect "netdevsim is not the image's" is_of nic-1 netdevsim
container_log nic | grep '/host/etc/udev/rules.d/77-mlnx-net-names.rules: Read-only file system: udev may rename interfaces'
container_log nic | grep '/host/etc/modprobe.d/blacklist-ofed-modules.conf: Read-only file system'
stop_clean nic
etc_files >/tmp/etc.after
diff /tmp/etc.before /tmp/etc.after
CASE
    [ "$status" -eq 0 ]
}

@test "OFED's sources: links that hold outside, none of a dead container, no gap when it comes back; programs for probes and sosreport" {
    run_host_files <<'CASE'
. /case/udev.sh
. /case/kill.sh
shown=/run/mellanox/drivers/usr/src/ofa_kernel
krel=$(uname -r)
modprobe mlx5_core
symvers_of() { stat -c %d:%i "$shown/$1/Module.symvers"; }
start nic:nic-1
wait_ready nic 120
for name in default "$krel"; do
    [ "$(readlink "$shown/$name")" = "x86_64/$krel" ] || fail "$name leads to $(readlink "$shown/$name")"
    [ "$(symvers_of "$name")" = "$(symvers_of "x86_64/$krel")" ] || fail "$name has other symvers"
done

for program in sh ls lsmod grep cat dmesg tail ip rdma devlink; do
    exec_in nic sh -c "command -v $program" || fail "no $program"
done
exec_in nic sh -c 'ip -o link && devlink dev && rdma dev && dmesg | tail -n 1 && cat /proc/version && lsmod | grep -q ib_core'
probe nic startup
probe nic liveness

echo "==> killed, and started again: what is shown is the new one's, and is there at any time"
before=$(grep " /run/mellanox/drivers/usr/src " /proc/self/mountinfo | cut -d' ' -f1)
[ -e "$shown/default/Module.symvers" ]
kill_hard nic
wait_exit nic 30
[ -e "$shown/default/Module.symvers" ] || fail "gone with the killed one"
(
    while [ ! -e /tmp/enough ]; do
        [ -e "$shown/default/Module.symvers" ] || echo gap >>/tmp/gaps
    done
) &
looker=$!
start nic:nic-1
wait_ready nic 120
: >/tmp/enough
wait "$looker"
[ ! -e /tmp/gaps ] || fail "$(wc -l </tmp/gaps) looks found nothing"
[ "$(mounts_at /run/mellanox/drivers/usr/src)" = 1 ] || fail "$(mounts_at /run/mellanox/drivers/usr/src) mounts"
[ "$(grep " /run/mellanox/drivers/usr/src " /proc/self/mountinfo | cut -d' ' -f1)" != "$before" ] || fail "still the dead one's"

echo "==> a second container is refused, and takes nothing away"
start nic:nic-2 second
wait_exit second 60
[ "$(mounts_at /run/mellanox/drivers/usr/src)" = 1 ] || fail "$(mounts_at /run/mellanox/drivers/usr/src) mounts"
[ -e "$shown/$krel/Module.symvers" ] || fail "the second one took the sources away"

stop_clean nic
[ "$(mounts_at /run/mellanox/drivers/usr/src)" = 0 ] || fail "still mounted"

echo "==> a start that fails after a previous run shows nothing"
start nic:nic-1
wait_ready nic 120
kill_hard nic
wait_exit nic 30
echo 'options mlx5_core prof_sel=many' >/etc/modprobe.d/site.conf
start nic:nic-1
wait_exit nic 60
[ "$(mounts_at /run/mellanox/drivers/usr/src)" = 0 ] || fail "still mounted after a start that failed"
CASE
    [ "$status" -eq 0 ]
}
