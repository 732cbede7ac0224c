#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2154
# SPDX-License-Identifier: Apache-2.0
# proves: the node's side
# DaemonSets as the GPU operator makes them of settings that its two in 70-daemonset.bats do not have: podman/gpu-*.yaml, run
# by podman with every probe on its timings.

load podman

setup_file() {
    use_podman
    podman_store=$VM_BUILD/podman/store-own.ext4
    "${CC:-cc}" -std=c11 -D_GNU_SOURCE -O2 -static -o "$BATS_FILE_TMPDIR/double" "$vm_folder/doubles/daemon.c"
    derive_image gpu-addons-smi "$images_folder/addons/gpu.oci.tar" put_nvidia_smi
    derive_image gpu-grid "$images_folder/gpu.oci.tar" put_grid
    "$vm_folder/podman/make-store" "$podman_store" "$manager_name=$(image_name driver-manager)" \
        registry.invalid/driver:535.261.03-debian12="$(image_name gpu-addons-smi)" \
        registry.invalid/nvidia-fs:2.17.5-debian12="$(image_name gpu-addons-smi)" \
        registry.invalid/gdrdrv:v2.5.1-debian12="$(image_name gpu-addons-smi)" \
        registry.invalid/driver:535.261.03-grid-debian12="$(image_name gpu-grid)" \
        "registry.invalid/driver:535-$VM_KREL-debian12=$(image_name gpu-smi)"
}

# Stand-ins for the two daemons of a vGPU guest.
put_grid() {
    put_nvidia_smi
    install -m 755 "$BATS_FILE_TMPDIR/double" "$root/usr/bin/nvidia-gridd"
    install -m 755 "$BATS_FILE_TMPDIR/double" "$root/usr/bin/nvidia-topologyd"
}

@test "gds, gdrcopy, environment of a Secret, ConfigMaps and folders of the host: every container starts, and again after a kill" {
    use_own_manifest gpu-gds.yaml
    run_pod_case <<'CASE'
simulate
kube_play
kubelet nvidia-driver-ctr nvidia-fs-ctr nvidia-gdrcopy-ctr
wait_pod_ready 180
for name in nvidia-fs-ctr nvidia-gdrcopy-ctr nvidia-driver-ctr; do
    wait_probe "$name" startup ok 180
done
cat /run/nvidia/validations/.driver-ctr-ready
expect_loaded nvidia nvidia_uvm nvidia_fs gdrdrv
expect_addon_nodes

echo "==> the mounts: parameters count, a folder that is read-only stays so"
grep -x 'EnableStreamMemOPs: 1' /proc/driver/nvidia/params
[ "$(cat /sys/module/nvidia_uvm/parameters/uvm_perf_map_remote_on_eviction)" = 0 ]
kube_exec nvidia-driver-ctr touch /opt/config/extra/here
[ -e /opt/config/extra/here ]
refute "it can be written to" kube_exec nvidia-driver-ctr touch /opt/config/extra-ro/here 2>/dev/null

echo "==> the Secret: every container has it, and no log shows it"
for name in nvidia-driver-ctr nvidia-fs-ctr nvidia-gdrcopy-ctr; do
    kube_exec "$name" sh -c '[ "$UBUNTU_PRO_TOKEN" = hush-token ]' || fail "$name has it not"
    refute "$name shows it" sh -c "podman logs $gpu_pod-$name 2>&1 | grep hush"
done
kube_logs nvidia-driver-ctr | grep -q 'UBUNTU_PRO_TOKEN.*not needed\|not needed.*UBUNTU_PRO_TOKEN'
refute "it is in a file" grep -r hush /run/nvidia/slipway /run/nvidia/validations /var/log

for name in nvidia-driver-ctr nvidia-fs-ctr; do
    echo "==> SIGKILL of $name"
    kill_container "$name"
    wait_pod_ready 180
    poll 180 kube_exec "$name" true
    kube_exec nvidia-fs-ctr sh -c 'lsmod | grep nvidia_fs'
    kube_exec nvidia-gdrcopy-ctr sh -c 'lsmod | grep gdrdrv'
    expect_addon_nodes
done
probes
kube_down
expect_unloaded nvidia_fs gdrdrv
expect_pod_gone
CASE
    [ "$status" -eq 0 ]
    [[ $output == *"GDRCOPY_ENABLED: true"*"GDS_ENABLED: true"*"GPU_DIRECT_RDMA_ENABLED: false"* ]]
}

# 45-peermem and 70-daemonset have each half of it in every run.
# bats test_tags=full
@test "precompiled, OFED of the host, the host's network: waits for that OFED, and follows it without a restart" {
    use_own_manifest gpu-hostmofed.yaml
    run_pod_case <<'CASE'
network=
host_ofed() {
    for module in ib_core ib_uverbs mlxfw mlx5_core mlx5_ib; do
        host_load_file "/images/nic/rootfs/lib/modules/$(uname -r)/updates/ofed/$module.ko"
    done
}
simulate
kube_play &
play=$!
poll 180 grep -qs 'waiting for MOFED' /run/nvidia/driver-manager.log
[ "$(podman container inspect --format '{{.State.Running}}' "$(container nvidia-driver-ctr)")" = false ] || fail "the driver container did not wait"
host_ofed
wait "$play"
kubelet nvidia-driver-ctr nvidia-peermem-ctr
wait_pod_ready 180
expect_loaded nvidia nvidia_uvm nvidia_modeset nvidia_peermem
pid=$(pid_of nvidia-driver-ctr)
[ "$(readlink "/proc/$pid/ns/net")" = "$(readlink /proc/self/ns/net)" ] || fail "not the host's network"
grep -x 'EnableStreamMemOPs: 1' /proc/driver/nvidia/params
wait_probe nvidia-peermem-ctr startup ok 120
wait_probe nvidia-driver-ctr startup ok 180
# The next one is half a minute away.
wait_new_probe nvidia-peermem-ctr liveness ok 120
cat /run/nvidia/validations/.driver-ctr-ready

echo "==> the host's administrator installs another OFED: unloads this one and loads it again"
rmmod nvidia_peermem
rmmod mlx5_ib mlx5_core mlxfw ib_uverbs ib_core
host_ofed
poll 120 loaded nvidia_peermem || fail "peermem did not follow the host's OFED"
wait_new_probe nvidia-peermem-ctr liveness ok 180
kube_exec nvidia-peermem-ctr sh -c 'nvidia-driver probe_nvidia_peermem'
probes
refute "a probe failed" grep -q 'liveness failed' /vm/probes
kube_down
expect_unloaded nvidia nvidia_peermem
# The host's own.
expect_loaded ib_core mlx5_core
refute "a container is left" podman container exists "$(container nvidia-driver-ctr)"
CASE
    [ "$status" -eq 0 ]
    [[ $output == *"GPU_DIRECT_RDMA_ENABLED: true"* ]]
}

# bats test_tags=full
@test "a vGPU guest with its licence in a Secret: gridd and topologyd have their files, also after a kill" {
    use_own_manifest gpu-vgpu.yaml
    run_pod_case <<'CASE'
licensed() {
    [ "$(kube_exec nvidia-driver-ctr cat /etc/nvidia/gridd.conf)" = FeatureType=1 ]
    [ "$(kube_exec nvidia-driver-ctr cat /etc/nvidia/ClientConfigToken/client_configuration_token.tok)" = hush-token ]
    [ "$(kube_exec nvidia-driver-ctr cat /etc/nvidia/nvidia-topologyd.conf)" = topology=1 ]
    awk '$3 != "up" { exit 1 }' /run/nvidia/slipway/gpu.daemons || fail "$(cat /run/nvidia/slipway/gpu.daemons)"
}
simulate nic=0
kube_play
kubelet nvidia-driver-ctr
wait_pod_ready 180
licensed
wait_probe nvidia-driver-ctr startup ok 180
cat /run/nvidia/validations/.driver-ctr-ready
echo "==> SIGKILL"
: >/run/nvidia/validations/.driver-ctr-ready
kill_container nvidia-driver-ctr
wait_gone /run/nvidia/validations/.driver-ctr-ready 180
wait_pod_ready 180
licensed
refute "the token is shown" sh -c "podman logs $gpu_pod-nvidia-driver-ctr 2>&1 | grep hush"
kube_down
# In any order: with hostPID podman signals all processes of a container. 50-daemons has the order in which the init does it.
[ "$(tail -n 2 /var/log/doubles.log | sort | tr '\n' ';')" = "stop nvidia-gridd;stop nvidia-topologyd;" ] || fail "$(cat /var/log/doubles.log)"
expect_pod_gone
CASE
    [ "$status" -eq 0 ]
}
