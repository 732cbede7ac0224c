# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# For BATS files whose cases run a DaemonSet's manifest with podman in the guest (guest/podman.sh has what a case says).
# shellcheck source-path=SCRIPTDIR source=drivers.bash
. "$(dirname "${BASH_SOURCE[0]}")/drivers.bash"

manifests=$vm_folder/../../../shared/operator-manifests

# The image names that the manifests ask for.
driver_name=nvcr.io/nvidia/driver:525.85.03-ubuntu22.04
manager_name=nvcr.io/nvidia/cloud-native/k8s-driver-manager:devel

need_manifests() {
    [ -d "$manifests" ] || skip "no ${manifests##*/} beside the checkout: they are not in the repository"
}

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

# use_manifest NAME: the operator's file as podman can take it, and its probes, in $BATS_TEST_TMPDIR.
use_manifest() {
    {
        ! grep -q 'name: test-cm$' "$manifests/$1" || test_config_map
        awk -f "$vm_folder/podman/resolve.awk" "$manifests/$1"
    } >"$BATS_TEST_TMPDIR/manifest.yaml"
    use_probes "$manifests/$1"
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
