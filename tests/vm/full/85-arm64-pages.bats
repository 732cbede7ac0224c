#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# make check-full: both images for arm64 kernels with larger pages than 4 KiB, cross compiled, from start to stop. 16 KiB:
# Debian 12's 6.12. 64 KiB: a kernel of our own, which is compiled here.

load arm64

setup_file() {
    # They are about the other kernel.
    unset VM_KERNEL_TREE VM_KERNEL_DEBS VM_KERNEL_ROOT VM_MODULES
}

@test "16 KiB: both images, and the containers swap, serve, stop and bring the node's own modules back" {
    local krel images
    krel=$("$slipway" resolve --os debian12 --arch aarch64 --list | grep -E '^6\.12\.[0-9]+\+deb12[.0-9]*-arm64-16k$' | tail -n 1)
    [ -n "$krel" ]
    images=$build/arm64-16k
    "$slipway" build --os debian12 --kernel "$krel" --ofed reference --nvidia debian --output "$images"
    proof_holds "$images"
    use_both "$krel" "$images"
    run_chain
    [[ $output == *"pages: 16 kB"* ]]
}

# Its release names no architecture, and it has no rules for routes (IP_MULTIPLE_TABLES).
@test "64 KiB: both images from the packages of a kernel of our own, and the same" {
    local custom krel images packages tree=$BATS_TEST_TMPDIR/tree
    custom=$("$vm_folder/make-custom-kernel" --machine aarch64 --with 64k --build "$VM_BUILD")
    krel=$(cat "$custom/krel")
    packages=("$custom"/linux-{headers,image}-*.deb)
    images=$build/arm64-64k
    "$slipway" build --os debian12 --arch arm64 "${packages[@]/#/--kernel-from=}" --ofed reference --nvidia debian --output "$images"
    [ "$(jq -r .krel "$images/images.json")" = "$krel" ]
    proof_holds "$images"
    unpack_debs "$tree" "${packages[@]}"
    ln -sfn "../../../usr/src/linux-headers-$krel" "$tree/lib/modules/$krel/build"
    grep -x CONFIG_ARM64_64K_PAGES=y "$tree/boot/config-$krel"
    VM_KERNEL_TREE=$tree VM_KERNEL_DEBS=${packages[1]} use_both "$krel" "$images"
    run_chain
    [[ $output == *"pages: 64 kB"* ]]
}
