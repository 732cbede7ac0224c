#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# make check-full: one file with everything that all drivers need, and the images built from it where there is no
# network: a namespace without any interface, a cache of its own, and a storage that has no image.

load both

setup_file() {
    export bundle=$BATS_FILE_TMPDIR/bundle
}

@test "slipway bundle: all drivers for the newest kernel" {
    "$slipway" bundle -o "$bundle" --ofed reference --gdrcopy "$vm_folder/addons/gdrcopy" \
        --nvidia-fs "$vm_folder/addons/gds-nvidia-fs" newest
    tar --zstd -tf "$bundle" | head -n 1 | grep -Fx bundle.json
}

@test "slipway build --bundle without any network: the same images, and the proof holds" {
    printf '%s\n' '[storage]' 'driver = "overlay"' "graphroot = \"$BATS_FILE_TMPDIR/storage\"" "runroot = \"$BATS_FILE_TMPDIR/run\"" \
        >"$BATS_FILE_TMPDIR/storage.conf"
    unshare --net env CONTAINERS_STORAGE_CONF="$BATS_FILE_TMPDIR/storage.conf" \
        "$slipway" build --bundle "$bundle" --cache "$BATS_FILE_TMPDIR/cache" --output "$BATS_FILE_TMPDIR/images"
    proof_holds "$BATS_FILE_TMPDIR/images"
    [ "$(jq '.images | length' "$BATS_FILE_TMPDIR/images/images.json")" -eq 2 ]
    jq -e '[.modules[].path] | any(endswith("/gdrdrv.ko")) and any(endswith("/nvidia-fs.ko"))' "$BATS_FILE_TMPDIR/images/proof.json"
    # What the network gave and what the bundle gave are the same packages.
    "$slipway" resolve "$(jq -r .krel "$BATS_FILE_TMPDIR/images/images.json")" -o "$BATS_FILE_TMPDIR/lock.json"
    diff <(jq -S '.packages | map(select(.purpose == "headers" or .purpose == "modules"))' "$BATS_FILE_TMPDIR/lock.json") \
        <(jq -S '.packages | map(select(.purpose == "headers" or .purpose == "modules"))' "$BATS_FILE_TMPDIR/images/lock.json")
}
