#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# make check-full: both images for Debian 12's newest kernels of both architectures, cross compiled for arm64, and these in
# containers of an arm64 machine.
#
#   VM_ARM64_IMAGES  a folder of such a build, with both architectures (default: it is made here)

load arm64
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
    use_both "$krel" "$images"
}

# walk ARCHIVE: each answer once: the image's architecture; the machines of its programs, libraries and modules, and the least
# page size that they can be mapped with (Debian's arm64 ones: 64 KiB); the kernel and machine that its modules name; what
# file(1) finds of another machine, in compressed files too. Firmware is of other processors.
walk() {
    local container root
    container=$(buildah from --quiet --pull-never "oci-archive:$1")
    root=$(buildah mount "$container")
    buildah inspect "$container" | jq -r .OCIv1.architecture
    find "$root" -xdev -path '*/lib/firmware' -prune -o -type f -print0 >"$BATS_TEST_TMPDIR/files"
    xargs -0 readelf -hlW <"$BATS_TEST_TMPDIR/files" 2>/dev/null |
        awk '$1 == "Machine:" { print $2 } $1 == "LOAD" { print $NF }' | sort -u
    find "$root" -xdev -name '*.ko*' -exec modinfo -F vermagic {} + | awk '{ print $1, $NF }' | sort -u
    xargs -0 file -bz <"$BATS_TEST_TMPDIR/files" | grep -E 'x86-64|80386|PE32|COFF' || true
    buildah rm "$container" >/dev/null
}

@test "nothing in either image is for another machine, and every module of them will load" {
    [[ $krel == *-arm64 ]]
    local all=$'arm64\n0x10000\nAArch64\n'"$krel aarch64"
    [ "$(walk "$images/nic.oci.tar")" = "$all" ]
    [ "$(walk "$images/gpu.oci.tar")" = "$all" ]
    proof_holds "$images"
}

@test "NVIDIA's installer for aarch64: the open modules with the userspace, of one file" {
    local folder=$build/arm64-installer
    mkdir -p "$folder"
    make_installer "$folder" "$images/lock.json" kernel-open nvidia-open-kernel.tar.xz
    "$slipway" build --kernel "$krel" --ofed reference --nvidia "$installer" --output "$folder/images"
    [ "$(walk "$folder/images/gpu.oci.tar")" = $'arm64\n0x10000\nAArch64\n'"$krel aarch64" ]
    proof_holds "$folder/images"
    jq -e --arg version "$version" '.images[] | select(.role == "gpu") | .version == $version and .userspace.version == $version' \
        "$folder/images/images.json"
}

@test "NIC and GPU containers on an arm64 machine: inbox modules swapped, both serve, both stop, the inbox ones come back" {
    run_chain
    [[ $output == *"firmware: device tree"* ]]
    [[ $output == *"pages: 4 kB"* ]]
}

@test "the same on a machine that starts by EFI, with ACPI" {
    run_chain --efi
    [[ $output == *"firmware: ACPI"* ]]
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
