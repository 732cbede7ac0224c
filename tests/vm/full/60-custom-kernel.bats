#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# make check-full: a kernel that no distribution has. It is compiled here from Debian's source with a configuration and a
# name of our own, packed with `make bindeb-pkg`, built against with --kernel-from, and booted. Needs
# scripts/install-packages full.

load both

setup_file() {
    custom=$("$vm_folder/make-custom-kernel" --build "$VM_BUILD" --jobs "$(nproc)")
    krel=$(cat "$custom/krel")
    images=$build/images-$krel
    export custom krel images
}

@test "the packages of make bindeb-pkg are all that a build needs: both images, and the proof holds" {
    "$slipway" build --os debian12 --kernel-from "$custom"/linux-headers-*.deb --kernel-from "$custom"/linux-image-*.deb \
        --ofed reference --output "$images"
    [ "$(jq -r .krel "$images/images.json")" = "$krel" ]
    [[ $krel == *-slipway* ]]
    proof_holds "$images"
}

@test "both containers load, serve and unload their drivers on it" {
    local tree=$BATS_FILE_TMPDIR/tree
    unpack_debs "$tree" "$custom"/linux-headers-*.deb
    ln -sfn "../../../usr/src/linux-headers-$krel" "$tree/lib/modules/$krel/build"
    export VM_KERNEL_TREE=$tree
    VM_KERNEL_DEBS=$(printf "%s\n" "$custom"/linux-image-*.deb)
    export VM_KERNEL_DEBS
    run_both "$krel" "$images"
}
