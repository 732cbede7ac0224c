#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2154
# SPDX-License-Identifier: Apache-2.0
# The whole chain of two pods on a node with podman: the network operator's driver pod (podman/nic-daemonset.yaml) beside the
# GPU operator's own (shared/operator-manifests, else ours of its shape), with their probes on their timings, by which the NIC pod is ready or not:
# OFED is upgraded under both, pods are killed in every order, and nvidia-peermem follows.

load ../podman

# What the two NIC pods ask for.
nic_name=registry.invalid/mellanox/doca-driver

setup_file() {
    use_podman_chain
}

# A storage with the GPU image for both OFEDs and two NIC images.
use_podman_chain() {
    use_podman
    podman_store=$VM_BUILD/podman/store-chain.ext4
    derive_image gpu-two-smi "$images_folder/gpu.oci.tar" put_both
    derive_image nic-first "$images_folder/nic.oci.tar" true
    derive_image nic-second "$images_folder/other/nic.oci.tar" true
    "$vm_folder/podman/make-store" "$podman_store" "$driver_name=$(image_name gpu-two-smi)" \
        "$manager_name=$(image_name driver-manager)" \
        "$nic_name:first=$(image_name nic-first)" "$nic_name:second=$(image_name nic-second)"
}

put_both() {
    put_variants
    put_nvidia_smi
}

# The manifests of both versions.
use_nic_manifests() {
    local version
    for version in first second; do
        sed "s|IMAGE\$|$nic_name:$version|" "$vm_folder/podman/nic-daemonset.yaml" >"$BATS_TEST_TMPDIR/nic-$version.yaml"
    done
    use_probes "$vm_folder/podman/nic-daemonset.yaml"
}

run_chain_case() {
    use_manifest driver-rdma.yaml
    use_nic_manifests
    run_pod_case --add "$BATS_TEST_TMPDIR/nic-first.yaml" --add "$BATS_TEST_TMPDIR/nic-second.yaml"
}

chain='
ofed() { sed -n "s/^build_id=//p" /run/mellanox/drivers/slipway/ofed.fingerprint; }
nic_ready() { container_ready mofed-container; }
nic_not_ready() { ! nic_ready; }
nic_up() {
    kube_play "/case/nic-$1.yaml"
    kubelet mofed-container
    wait_file /run/mellanox/drivers/.driver-ready 180 || fail "the NIC pod $1 did not set its flag"
    poll 120 nic_ready || fail "the NIC pod $1 was not ready"
    kube_exec mofed-container sh -c "ls /run/mellanox/drivers/.driver-ready"
    kube_exec mofed-container sh -c "lsmod | grep mlx5_core"
}
peermem_is_up() { loaded nvidia_peermem && kube_exec nvidia-peermem-ctr sh -c "nvidia-driver probe_nvidia_peermem"; }
expect_chain() {
    wait_pod_ready 180
    expect_loaded mlx5_core ib_uverbs nvidia nvidia_uvm nvidia_modeset
    poll 60 peermem_is_up || fail "peermem is not up after: $1"
    echo "==> whole after: $1"
}
'

@test "two pods: NIC first, probes on their timings; OFED is upgraded under both and peermem follows" {
    run_chain_case <<CASE
$chain
simulate
nic_up first
kube_play
kubelet nvidia-driver-ctr nvidia-peermem-ctr
expect_chain "the first start"
first=\$(ofed)
wait_probe mofed-container readiness ok 120
wait_probe mofed-container liveness ok 120

kube_down nic
refute "ready without a container" nic_ready
expect_loaded mlx5_core ib_uverbs nvidia_peermem
[ ! -e /run/mellanox/drivers/.driver-ready ]
nic_up second
[ "\$(ofed)" != "\$first" ] || fail "still the first OFED"
expect_chain "an upgrade"
wait_new_probe nvidia-peermem-ctr liveness ok 120
probes
refute "a probe failed" grep -q 'liveness failed\|readiness failed' /vm/probes

kube_down nic
nic_up first
[ "\$(ofed)" = "\$first" ] || fail "not the first OFED again"
expect_chain "a way back"
CASE
    [ "$status" -eq 0 ]
}

@test "pods and containers killed in every order: each time the chain is whole again" {
    run_chain_case <<CASE
$chain
simulate
kube_play &
play=\$!
poll 180 grep -qs 'waiting for MOFED' /run/nvidia/driver-manager.log
nic_up first
wait "\$play"
expect_chain "a start with the GPU pod first"
for name in mofed-container nvidia-driver-ctr nvidia-peermem-ctr mofed-container; do
    : >/run/nvidia/validations/.driver-ctr-ready
    kill_container "\$name"
    [ "\$name" != mofed-container ] || poll 10 nic_not_ready || fail "ready after SIGKILL"
    # The new one's first act: until then all looks as the dead one left it.
    [ "\$name" != nvidia-driver-ctr ] || wait_gone /run/nvidia/validations/.driver-ctr-ready 180
    expect_chain "SIGKILL of \$name"
done
: >/run/nvidia/validations/.driver-ctr-ready
kill_container mofed-container nvidia-driver-ctr nvidia-peermem-ctr
wait_gone /run/nvidia/validations/.driver-ctr-ready 180
expect_chain "SIGKILL of all three"
poll 120 nic_ready || fail "not ready again after SIGKILL"
kube_down
expect_unloaded nvidia nvidia_peermem
expect_loaded mlx5_core
kube_down nic
expect_loaded mlx5_core
kube_play &
play=\$!
nic_up second
wait "\$play"
expect_chain "both pods anew, with another OFED"
CASE
    [ "$status" -eq 0 ]
}
