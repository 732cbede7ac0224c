#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# A plan's builds of a bundle, for real: where there is no network, no source, an empty cache and an empty storage, an image
# has the digest that it has where the bundle was made. Small modules, two kernels of Debian 12.

bats_require_minimum_version 1.5.0

setup_file() {
    local top sources=$BATS_FILE_TMPDIR/sources name
    top=$(realpath "$BATS_TEST_DIRNAME/../..")
    slipway=$(cd "$top" && realpath -m "${O:-build}")/slipway
    folder=$BATS_FILE_TMPDIR
    export slipway folder
    mkdir -p "$sources/driver/firmware" "$sources/nvidia/src"
    # shellcheck disable=SC2016
    local core='all:\n\tmkdir -p _out/Linux_x86_64\n\techo "int core;" | $(CC) -c -x c -o _out/Linux_x86_64/nv%s-kernel.o -\n'
    # The layout of open-gpu-kernel-modules: a core that is of no kernel.
    cp -r "$top/tests/real/smallest-nvidia" "$sources/nvidia/kernel-open"
    sed -i 's/"1\.0\\"/"9.0\\"/' "$sources/nvidia/kernel-open/Kbuild"
    for name in nvidia nvidia-modeset; do
        mkdir -p "$sources/nvidia/src/$name" "$sources/nvidia/kernel-open/$name"
        # shellcheck disable=SC2059
        printf "$core" "${name#nvidia}" >"$sources/nvidia/src/$name/Makefile"
    done
    # The smallest driver has one symbol, whose function takes nothing.
    cp -r "$top"/tests/vm/addons/{gdrcopy,gds-nvidia-fs} "$sources"
    sed -i '/^static int (\*volatile get_pages)/,/);$/c static int (*volatile get_pages)(void);' "$sources/gdrcopy/src/gdrdrv/gdrdrv.c"
    sed -i 's/^static int (\*volatile free_page_table).*/static int (*volatile free_page_table)(void);/
        s/= nvidia_p2p_free_page_table/= nvidia_p2p_get_pages/' "$sources/gds-nvidia-fs/src/nvfs-core.c"
    for name in nvidia-ml cuda; do
        echo 'int nothing;' | gcc -shared -fPIC -nostdlib "-Wl,-soname,lib$name.so.1" -x c -o "$sources/driver/lib$name.so.9.0" -
    done
    echo '#!/bin/sh' >"$sources/driver/nvidia-smi"
    touch "$sources/driver/firmware/gsp.bin"
    "$slipway" plan --os debian12 --kernel 6.1.0-56-amd64 --kernel 6.1.0-57-amd64 --nvidia-version "9.0=$sources/nvidia" --json -- \
        --userspace "$sources/driver" --gdrcopy "$sources/gdrcopy" --nvidia-fs "$sources/gds-nvidia-fs" >"$folder/plan.json"
}

teardown_file() {
    umount "$folder/storage/overlay" 2>/dev/null || true
}

# layers IMAGES.JSON: the digests of the image's layers.
layers() { buildah inspect --type image --format '{{range .OCIv1.RootFS.DiffIDs}}{{println .}}{{end}}' "$(jq -r '.images[0].id' "$1")"; }

@test "bundle --plan, and a target of it without network and sources: the same digest, and only what it reads" {
    local krel name
    "$slipway" build --plan "$folder/plan.json" --output "$folder/there"
    "$slipway" bundle --plan "$folder/plan.json" -o "$folder/bundle"
    tar --zstd -xOf "$folder/bundle" bundle.json >"$folder/bundle.json"
    jq -e '.targets | length == 2 and all([.outputs[].stage] == ["init", "nvidia-core", "userspace"])' "$folder/bundle.json"
    rm -r "$folder/sources"
    printf '%s\n' '[storage]' 'driver = "overlay"' "graphroot = \"$folder/storage\"" "runroot = \"$folder/run\"" >"$folder/storage.conf"
    # The second: what only the first reads is not to come along.
    run -0 unshare --net env CONTAINERS_STORAGE_CONF="$folder/storage.conf" "$slipway" build --plan "$folder/plan.json" \
        --bundle "$folder/bundle" --target 1 --cache "$folder/cache" --output "$folder/here"
    [[ $output != *"compile the core"* && $output != *"arrange driver"* ]]
    krel=$(jq -r '.targets[1].krel' "$folder/plan.json")
    name=$krel-debian12/images.json
    diff <(jq '[.images[] | .tag, .digest, .id]' "$folder/there/$name") <(jq '[.images[] | .tag, .digest, .id]' "$folder/here/$name")
    # What is the same for both kernels is in layers that they share.
    layers "$folder/there/$(jq -r '.targets[0].krel' "$folder/plan.json")-debian12/images.json" >"$folder/first"
    layers "$folder/there/$name" >"$folder/second"
    diff <(head -n -1 "$folder/first") <(head -n -1 "$folder/second")
    run ! cmp -s "$folder/first" "$folder/second"
    diff <(jq -r --arg krel "$krel" '.targets[] | select(.krel == $krel).downloads[] | sub(".*/"; "")' "$folder/bundle.json" | sort) \
        <(find "$folder/cache/blobs/sha256" -type f -printf '%f\n' | grep -E '^[0-9a-f]{64}$' | sort)
    # A build leaves neither a container nor an image without a name.
    [[ -z $(CONTAINERS_STORAGE_CONF="$folder/storage.conf" buildah ps --all --quiet) ]]
    [[ -z $(CONTAINERS_STORAGE_CONF="$folder/storage.conf" buildah images --quiet --filter dangling=true) ]]
}
