#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# make check-full: both images for Debian 12's newest kernels of both architectures, cross compiled for arm64, and these in
# containers of an arm64 machine.
#
#   VM_ARM64_IMAGES  a folder of such a build, with both architectures (default: it is made here)

load both
load installer

setup_file() {
    # They are about the other kernel.
    unset VM_KERNEL_TREE VM_KERNEL_DEBS VM_KERNEL_ROOT VM_MODULES
    both=${VM_ARM64_IMAGES:-$build/both}
    if [ -z "${VM_ARM64_IMAGES:-}" ]; then
        "$slipway" build --kernel "$(newest_krel x86_64),$(newest_krel aarch64)" --ofed reference --nvidia debian --output "$both"
    fi
    images=$both/aarch64
    krel=$(jq -r .krel "$images/images.json")
    export both images krel
    use_guest "$krel"
    VM_IMAGES=$VM_BUILD/images/arm64.ext4
    export VM_IMAGES
    "$vm_folder/make-images-disk" "$VM_IMAGES" gpu="$images/gpu.oci.tar" nic="$images/nic.oci.tar"
}

# machines ARCHIVE: of the image and of all programs, libraries and modules in it, each once. Firmware is of other processors.
machines() {
    local container
    container=$(buildah from --quiet --pull-never "oci-archive:$1")
    buildah inspect "$container" | jq -r .OCIv1.architecture
    find "$(buildah mount "$container")" -xdev -path '*/lib/firmware' -prune -o -type f -print0 | xargs -0 readelf -h 2>/dev/null |
        sed -n 's/^ *Machine: *//p' | sort -u
    buildah rm "$container" >/dev/null
}

# run_chain [OPTION of run-vm…]: the node's own driver is loaded and comes back, both serve, and say so.
run_chain() {
    run_case "$@" <<'CASE'
. /test/drivers.sh
swapped="ib_core ib_uverbs rdma_cm rdma_ucm mlx5_core mlx5_ib"
builds() {
    local module
    for module in $swapped; do
        echo "$module $(hexdump -ve '1/1 "%02x"' "/sys/module/$module/notes/.note.gnu.build-id")"
    done
}
simulate
[ "$(uname -m)" = aarch64 ]
if [ -d /sys/firmware/acpi ]; then echo "firmware: ACPI"; else echo "firmware: device tree"; fi
host_load mlx5_ib
host_load rdma_ucm
builds >/tmp/inbox
start gpu GPU_DIRECT_RDMA_ENABLED=true
wait_log gpu 'waiting wait-ofed' 30
start nic
wait_ready nic 120
builds >/tmp/ofed
! grep -Fxf /tmp/inbox /tmp/ofed || fail "the node's own modules are still loaded"
wait_ready gpu 120
expect_nic_serves
expect_gpu_serves
expect_loaded nvidia_peermem
[ "$(readlink /run/mellanox/drivers/usr/src/ofa_kernel/default)" = "aarch64/$(uname -r)" ]
exec_in gpu nvidia-driver probe_nvidia_peermem
probe nic startup
probe nic liveness
exec_in gpu slipway-init status
exec_in gpu slipway-init status --json
stop_clean gpu
expect_unloaded nvidia nvidia_uvm nvidia_modeset nvidia_peermem
stop_clean nic
builds >/tmp/after
cmp /tmp/inbox /tmp/after || fail "the node's own modules are not back"
[ ! -e /run/mellanox/drivers/.driver-ready ] || fail ".driver-ready is still there"
rmmod simdev
! dmesg | grep -E 'WARNING: |BUG: |Oops' || fail "the kernel is not content"
CASE
    [ "$status" -eq 0 ]
    status_json >"$BATS_TEST_TMPDIR/status"
    [ "$(jq -r '.roles[] | .role + " " + .state' "$BATS_TEST_TMPDIR/status")" = $'gpu ready\nnic ready' ]
    [ "$(jq -r '.kernel_facts.machine, .driver.loaded, .peermem.loaded' "$BATS_TEST_TMPDIR/status")" = $'aarch64\ntrue\ntrue' ]
    [ "$(jq -r '.devices[] | .kind + " " + (.driver // "none")' "$BATS_TEST_TMPDIR/status")" = $'gpu nvidia\nnic none' ]
}

@test "nothing in either image is for another machine, and every module of them will load" {
    [[ $krel == *-arm64 ]]
    [ "$(machines "$images/nic.oci.tar")" = $'arm64\nAArch64' ]
    [ "$(machines "$images/gpu.oci.tar")" = $'arm64\nAArch64' ]
    proof_holds "$images"
}

@test "NVIDIA's installer for aarch64: the open modules with the userspace, of one file" {
    local folder=$build/arm64-installer
    mkdir -p "$folder"
    make_installer "$folder" "$images/lock.json" kernel-open nvidia-open-kernel.tar.xz
    "$slipway" build --kernel "$krel" --ofed reference --nvidia "$installer" --output "$folder/images"
    [ "$(machines "$folder/images/gpu.oci.tar")" = $'arm64\nAArch64' ]
    proof_holds "$folder/images"
    jq -e --arg version "$version" '.images[] | select(.role == "gpu") | .version == $version and .userspace.version == $version' \
        "$folder/images/images.json"
}

@test "NIC and GPU containers on an arm64 machine: inbox modules swapped, both serve, both stop, the inbox ones come back" {
    run_chain
    [[ $output == *"firmware: device tree"* ]]
}

@test "the same on a machine that starts by EFI, with ACPI" {
    run_chain --efi
    [[ $output == *"firmware: ACPI"* ]]
}

# The image's own program, without a container: its modules are another kernel's.
@test "a kernel with pages of 16 KiB: devices, its own driver, the status of the node" {
    local large
    large=$(use_machine aarch64 && use_apt && apt-cache pkgnames linux-image-6.12 |
        sed -nE 's/^linux-image-(6\.12\.[0-9]+\+deb12-arm64-16k)$/\1/p' | sort -V | tail -n 1)
    [ -n "$large" ]
    use_guest "$large"
    run_case <<'CASE'
simulate
host_load mlx5_ib
/images/nic/rootfs/usr/bin/slipway-init status --json || echo "status ends with $?"
rmmod simdev
CASE
    [ "$status" -eq 0 ]
    status_json >"$BATS_TEST_TMPDIR/status"
    [ "$(jq -r '.kernel, .kernel_facts.machine' "$BATS_TEST_TMPDIR/status")" = "$large"$'\naarch64' ]
    [ "$(jq -r '.devices[] | .kind + " " + .address' "$BATS_TEST_TMPDIR/status")" = $'gpu 0000:40:00.0\nnic 0000:40:01.0' ]
    jq -e '[.modules[].name] | index("mlx5_ib") != null' "$BATS_TEST_TMPDIR/status"
}

# On Debian the images' own tags have the kernel, and so the architecture.
@test "an index of the GPU images: its tag is for drivers that are not precompiled, and each image keeps its own" {
    local x86
    x86=$(jq -r .krel "$both/x86_64/images.json")
    [ "$(jq -r '.images[] | select(.role == "gpu") | .tag, .images[].arch' "$both/images.json" | xargs)" = \
        "$(jq -r '.images[] | select(.role == "gpu") | .version' "$images/images.json")-debian12 amd64 arm64" ]
    grep -q 'usePrecompiled: false' "$both/cluster-policy.patch.yaml"
    grep -A 1 'rdma:' "$both/cluster-policy.patch.yaml" | grep -q 'enabled: true'
    [ "$(sed -n 's/^push \(.*gpu.oci.tar\) .*/\1/p' "$both/push.sh" | xargs)" = "gpu.oci.tar x86_64/gpu.oci.tar aarch64/gpu.oci.tar" ]
    grep -q "driver:[0-9]*-$x86-debian12$" "$both/push.sh"
}
