# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# For BATS files whose cases run a DaemonSet's manifest with podman in the guest (guest/podman.sh has what a case says).
# shellcheck source-path=SCRIPTDIR source=drivers.bash
. "$(dirname "${BASH_SOURCE[0]}")/drivers.bash"

# The operator's own, which are not in the repository; use_manifest has ours in their place.
manifests=$vm_folder/../../../shared/operator-manifests

# The image names that the manifests ask for.
driver_name=nvcr.io/nvidia/driver:525.85.03-ubuntu22.04
manager_name=nvcr.io/nvidia/cloud-native/k8s-driver-manager:devel

put_nvidia_smi() {
    install -m 755 "$vm_folder/podman/nvidia-smi" "$root/usr/bin/nvidia-smi"
}

put_driver_manager() {
    rm -rf "$root"/usr/bin/nvidia-driver "$root"/usr/bin/slipway-init "$root/usr/lib/slipway" "$root"/lib/modules/*
    install -m 755 "$vm_folder/podman/driver-manager" "$root/usr/bin/driver-manager"
}

# Makes the machine and its disks; every file of tests that uses them has the same.
use_podman() {
    use_drivers
    podman_system=$VM_BUILD/podman/system.ext4
    podman_store=$VM_BUILD/podman/store.ext4
    export podman_system podman_store
    "$vm_folder/make-system" "$podman_system" trixie podman crun conmon catatonit netavark containers-storage golang-github-containers-common
    derive_image gpu-smi "$images_folder/gpu.oci.tar" put_nvidia_smi
    derive_image driver-manager "$images_folder/gpu.oci.tar" put_driver_manager
    "$vm_folder/podman/make-store" "$podman_store" "$driver_name=$(image_name gpu-smi)" \
        "$manager_name=$(image_name driver-manager)"
}

# The ConfigMap that driver-rdma.yaml expects to be there.
test_config_map() {
    printf 'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: test-cm\n  namespace: test-operator\ndata:\n  test-file: hello\n---\n'
}

# our_manifest NAME: of the same shape as the operator's file of this name.
our_manifest() {
    cat "$vm_folder/podman/gpu-startup-probe.yaml"
    echo ---
    case $1 in
    driver-rdma.yaml) cat "$vm_folder/podman/gpu-rdma.yaml" ;;
    driver-minimal.yaml) yq -y -f "$vm_folder/podman/gpu-minimal.jq" "$vm_folder/podman/gpu-rdma.yaml" ;;
    esac
}

# use_manifest NAME [ours]: the operator's file, or ours where there is none, as podman can take it, and its probes, in
# $BATS_TEST_TMPDIR. The file itself is $manifest.
use_manifest() {
    manifest=$manifests/$1
    if [[ ${2:-} == ours || ! -e $manifest ]]; then
        manifest=$BATS_TEST_TMPDIR/$1
        our_manifest "$1" >"$manifest"
    fi
    {
        ! grep -q 'name: test-cm$' "$manifest" || test_config_map
        awk -f "$vm_folder/podman/resolve.awk" "$manifest"
    } >"$BATS_TEST_TMPDIR/manifest.yaml"
    use_probes "$manifest"
}

# shape FILE: what a cluster makes of a DaemonSet's pod.
shape() {
    yq -s . "$1" | jq -S -f "$vm_folder/podman/shape.jq"
}

# use_own_manifest NAME: the same for one of ours, podman/NAME.
use_own_manifest() {
    {
        cat "$vm_folder/podman/gpu-startup-probe.yaml"
        echo ---
        sed "s/KREL/$VM_KREL/" "$vm_folder/podman/$1" | awk -f "$vm_folder/podman/resolve.awk"
    } >"$BATS_TEST_TMPDIR/manifest.yaml"
    use_probes "$vm_folder/podman/$1"
}

# use_probes FILE: what the guest's prober runs for the containers of a manifest.
use_probes() {
    local name
    mkdir -p "$BATS_TEST_TMPDIR/probes"
    yq -s . "$1" | jq -c -f "$vm_folder/podman/probes.jq" >"$BATS_TEST_TMPDIR/probes.json"
    while read -r name; do
        jq -r --arg name "$name" 'select(.name == $name) | .text' "$BATS_TEST_TMPDIR/probes.json" >"$BATS_TEST_TMPDIR/probes/$name"
    done < <(jq -r .name "$BATS_TEST_TMPDIR/probes.json")
}

# run_pod_case [OPTION of run-vm…] <SCRIPT
run_pod_case() {
    {
        echo '. /test/drivers.sh; . /test/podman.sh; trap "report_pod; report_end" EXIT; node_up'
        cat
    } >"$BATS_TEST_TMPDIR/pod-case"
    run_case --system "$podman_system" --disk "$podman_store" --add "$BATS_TEST_TMPDIR/manifest.yaml" \
        --add "$BATS_TEST_TMPDIR/probes" "$@" <"$BATS_TEST_TMPDIR/pod-case"
}
