#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# proves: the node's side
# The vendor's daemons: nvidia-persistenced is Debian's own, with NVIDIA's libnvidia-cfg, at work on the simulated GPU. The
# others are not Debian's: doubles/daemon.c stands in for them. What PCI and InfiniBand show of a fabric is simfabric/.

load drivers

setup_file() {
    krel=$(images_krel)
    use_guest "$krel"
    "${CC:-cc}" -std=c11 -D_GNU_SOURCE -O2 -static -o "$BATS_FILE_TMPDIR/double" "$vm_folder/doubles/daemon.c"
    make_simfabric
    VM_IMAGES=$VM_BUILD/images/50-daemons.ext4
    export VM_IMAGES
    derive_image gpu-doubles "$images_folder/gpu.oci.tar" add_doubles
    "$vm_folder/make-images-disk" "$VM_IMAGES" gpu="$images_folder/gpu.oci.tar" gpu-doubles="$(image_name gpu-doubles)"
}

# The kernel's headers are the packages that make-guest takes simdev's from.
make_simfabric() {
    local tree=$VM_KERNEL_TREE package
    if [ -z "$tree" ]; then
        tree=$BATS_FILE_TMPDIR/headers
        mkdir -p "$tree/lib/modules/$krel"
        for package in "linux-headers-$krel" $(apt-cache depends "linux-headers-$krel" |
            sed -n 's/^ *Depends: \(linux-\(headers\|kbuild\)-.*\)/\1/p'); do
            dpkg-deb -x "$("$vm_folder/fetch-deb" "$VM_BUILD/debs" "$package")" "$tree"
        done
        sed -i "s#/usr/src/#$tree/usr/src/#" "$tree/usr/src/linux-headers-$krel/Makefile"
        ln -sfn "../../../usr/src/linux-headers-$krel" "$tree/lib/modules/$krel/build"
    fi
    cp -r "$vm_folder"/{simdev,simfabric} "$BATS_FILE_TMPDIR/"
    make -s -C "$tree/lib/modules/$krel/build" M="$BATS_FILE_TMPDIR/simfabric" modules
}

# nvidia-imex among them: it must not be started.
add_doubles() {
    local name
    for name in usr/bin/{nv-fabricmanager,nvidia-gridd,nvidia-topologyd,nvidia-imex} opt/nvidia/nvlsm/sbin/nvlsm; do
        install -D -m 755 "$BATS_FILE_TMPDIR/double" "$root/$name"
    done
    mkdir -p "$root/usr/share/nvidia/nvswitch" "$root/drivers/ClientConfigToken"
    printf '# settings\nDAEMONIZE=1\nFABRIC_MODE=0\n' >"$root/usr/share/nvidia/nvswitch/fabricmanager.cfg"
    echo FeatureType=1 >"$root/drivers/gridd.conf"
    echo token >"$root/drivers/ClientConfigToken/client_configuration_token.tok"
}

# What cases of this file share.
run_daemons() {
    local part=$BATS_TEST_TMPDIR/daemons.sh
    cat >"$part" <<'PART'
. /test/drivers.sh
daemon_field() { awk -v name="$1" -v field="$2" '$1 == name { print $field }' /run/nvidia/slipway/gpu.daemons; }
daemons_are() { [ "$(cat /run/nvidia/validations/.driver-daemons-status)" = "$1" ]; }
daemon_is() { [ "$(daemon_field "$1" 3)" = "$2" ]; }
doubles_log() { tr '\n' ';' </var/log/doubles.log; }
misbehave() { mkdir -p /run/nvidia/doubles && echo "${2:-}" >"/run/nvidia/doubles/$1"; }
behave() { rm /run/nvidia/doubles/*; }
PART
    run_case --add "$part" --add "$BATS_FILE_TMPDIR/simfabric/simfabric.ko" --add "$BATS_FILE_TMPDIR/simfabric/simport.ko"
}

@test "nvidia-persistenced: not waited for, started again when it is killed, ended before the modules go" {
    run_daemons <<'CASE'
. /case/daemons.sh
simulate
start gpu
wait_ready gpu 90
wait_log gpu 'daemon up nvidia-persistenced' 60
first=$(daemon_field nvidia-persistenced 2)
pid=$(container_pid gpu)
[ "$(readlink "/proc/$first/exe")" = /usr/bin/nvidia-persistenced ] || fail "process $first is not nvidia-persistenced"
[ -S "/proc/$pid/root/run/nvidia-persistenced/socket" ] || fail "it has no socket"
[ -S /run/nvidia/driver/run/nvidia-persistenced/socket ] || fail "the driver root does not show its socket"
awk -v pid="$pid" '$1 == "PPid:" { exit $2 != pid }' "/proc/$first/status" || fail "it is not the init's"
kill -9 "$first"
wait_log gpu 'ended with signal 9' 10
daemons_are Ready || fail "a node without nvidia-persistenced still serves"
poll 30 daemon_is nvidia-persistenced up || fail "it did not come back: $(cat /run/nvidia/slipway/gpu.daemons)"
[ "$(daemon_field nvidia-persistenced 4)" = 1 ]
[ "$(daemon_field nvidia-persistenced 6)" = signal:9 ]
kib=$(awk '$1 == "VmRSS:" { print $2 }' "/proc/$pid/status")
echo "init with a daemon: $kib KiB"
[ "$kib" -lt 3072 ] || fail "the init takes $kib KiB"
stop_clean gpu
container_log_has gpu 'daemon stopped nvidia-persistenced'
refute "it had to be killed" container_log_has gpu 'daemon killed'
[ ! -e /run/nvidia/slipway/gpu.daemons ] || fail "the daemons' file is still there"
expect_nothing_left
CASE
    [ "$status" -eq 0 ]
    grep -o 'init with a daemon: .*' <<<"$output" >&3
}

@test "NVSwitches: fabric manager with its settings; while it does not run the node is not ready, and says so" {
    run_daemons <<'CASE'
. /case/daemons.sh
simulate
insmod /case/simfabric.ko switches=2
start gpu:gpu-doubles NVFM_CONFIG_FABRIC_MODE=1 'NVFM_CONFIG_NEW=a|b&c'
wait_ready gpu 90
expect_gpu_serves
[ "$(doubles_log)" = "start nv-fabricmanager -c /usr/share/nvidia/nvswitch/fabricmanager.cfg;" ] || fail "$(doubles_log)"
settings=$(exec_in gpu cat /usr/share/nvidia/nvswitch/fabricmanager.cfg | tr '\n' ';')
[ "$settings" = '# settings;DAEMONIZE=1;FABRIC_MODE=1;NEW=a|b&c;' ] || fail "$settings"
misbehave nv-fabricmanager.fail 'switch 0 does not answer'
kill -9 "$(daemon_field nv-fabricmanager 2)"
poll 30 daemons_are NotReady || fail "the status stays Ready"
wait_log gpu 'exit code 3: "switch 0 does not answer"' 10
exec_in gpu slipway-init status >/tmp/status || true
grep -q 'DAEMON_FAILED.*nv-fabricmanager does not run' /tmp/status || fail "$(cat /tmp/status)"
behave
poll 90 daemons_are Ready || fail "the status stays NotReady"
exec_in gpu slipway-init status >/tmp/status || fail "$(cat /tmp/status)"
kill_hard gpu
wait_exit gpu 20
start gpu:gpu-doubles
wait_ready gpu 90
daemons_are Ready || fail "after a SIGKILL the status is $(cat /run/nvidia/validations/.driver-daemons-status)"
refute "the new run counts the failures of the previous one" container_log_has gpu 'daemon failed'
misbehave nv-fabricmanager.deaf
stop gpu
exits gpu 0 30
container_log_has gpu 'daemon killed nv-fabricmanager'
expect_nothing_left
CASE
    [ "$status" -eq 0 ]
}

@test "a fabric manager that does not come up ends the start with its last words; an image without one before that" {
    run_daemons <<'CASE'
. /case/daemons.sh
simulate
insmod /case/simfabric.ko switches=1
start gpu
exits gpu 24 30
termination_message gpu
refute "it loaded something before it looked" container_log_has gpu 'begin load'
expect_unloaded nvidia
misbehave nv-fabricmanager.fail 'switch 0 does not answer'
start gpu:gpu-doubles
exits gpu 24 90
termination_message gpu
[ "$(grep -c start /var/log/doubles.log)" = 3 ] || fail "$(doubles_log)"
expect_nothing_left
CASE
    [ "$status" -eq 0 ]
    [[ $output == *"DAEMON_FAILED: the image has no nv-fabricmanager, and "* ]]
    [[ $output == *"DAEMON_FAILED: nv-fabricmanager did not start in 3 attempts: nv-fabricmanager ended while it started, with exit code 3: \"switch 0 does not answer\""* ]]
}

@test "NVLink 5: recognised by the bridge's VPD, its modules loaded from the host, nvlsm before fabric manager with the port's GUID" {
    run_daemons <<'CASE'
. /case/daemons.sh
simulate nic=0
insmod /case/simfabric.ko bridges=2
expect_unloaded mlx5_ib ib_umad
start gpu:gpu-doubles NVFM_CONFIG_FABRIC_MODE=1
wait_log gpu 'none of the 2 NVLink bridge functions \(the first is 0000:60:00.0\) has an InfiniBand port' 90
expect_loaded mlx5_ib ib_umad nvidia
daemons_are NotReady || fail "the status is Ready before fabric manager runs"
refute "a daemon runs without a port" [ -e /var/log/doubles.log ]
host_load_file /case/simport.ko
wait_ready gpu 90
daemons_are Ready || fail "the status stays NotReady"
[ "$(doubles_log | tr ';' '\n' | cut -d' ' -f2)" = "nvlsm
nv-fabricmanager" ] || fail "$(doubles_log)"
[ "$(doubles_log | grep -o -- '-g 0x7425540300353de9;' | wc -l)" = 2 ] || fail "$(doubles_log)"
exec_in gpu test -c /dev/infiniband/umad0 || fail "the container's /dev has no umad0"
container_log_has gpu 'daemon done nvidia-smi\|daemon failed nvidia-smi' || fail "the GPUs' stale partitions were not cleared"
stop_clean gpu
doubles_log | grep -q 'stop nv-fabricmanager;stop nvlsm;$' || fail "$(doubles_log)"
expect_unloaded nvidia
CASE
    [ "$status" -eq 0 ]
}

@test "a vGPU guest: licence files placed, gridd, then topologyd, stopped in reverse; no fabric manager, no nvidia-imex" {
    run_daemons <<'CASE'
. /case/daemons.sh
simulate
start gpu:gpu-doubles DRIVER_TYPE=vgpu
wait_ready gpu 90
[ "$(exec_in gpu cat /etc/nvidia/gridd.conf)" = FeatureType=1 ]
[ "$(exec_in gpu cat /etc/nvidia/ClientConfigToken/client_configuration_token.tok)" = token ]
tr '\0' '\n' <"/proc/$(daemon_field nvidia-gridd 2)/environ" | grep -q '^LD_LIBRARY_PATH=.*/nvidia/gridd'
stop_clean gpu
[ "$(doubles_log)" = "start nvidia-gridd;start nvidia-topologyd;stop nvidia-topologyd;stop nvidia-gridd;" ] || fail "$(doubles_log)"

echo "==> an image without gridd: the simulated GPUs are no vGPUs, and need none"
start gpu DRIVER_TYPE=vgpu
wait_ready gpu 90
container_log_has gpu 'no GPU of this node is a vGPU: they are passed through, and the node becomes ready without nvidia-gridd'
stop_clean gpu
expect_nothing_left
CASE
    [ "$status" -eq 0 ]
}
