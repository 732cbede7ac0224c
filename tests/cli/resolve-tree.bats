#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# slipway resolve --tree: the kernel's packages fetched and checked, and their tree in a folder that appears whole or not
# at all.

load helpers
load repository
load kernel-from

krel=6.1.0-56-amd64

setup() {
    make_repository
    make_root "$BATS_TEST_TMPDIR/root" "$krel"
    rm -r "$BATS_TEST_TMPDIR/root/lib/modules/$krel"/{kernel,modules.*}
    CONTENT=$BATS_TEST_TMPDIR/root add_package "linux-headers-$krel" "linux-compiler-gcc-12-x86"
    SOURCE=linux-signed-amd64 add_package "linux-image-$krel"
    add_package linux-compiler-gcc-12-x86 gcc-12
    publish
    update_system
    tree=$BATS_TEST_TMPDIR/tree
}

# Neither the folder nor a part of it, under any name.
has_nothing() { [ -z "$(find "$BATS_TEST_TMPDIR" -maxdepth 1 -name 'tree*')" ]; }

@test "the tree is there, works wherever it lies, and shares nothing with the cache" {
    run_slipway 0 resolve "$krel" --tree "$tree/"
    says "linux-headers-$krel"
    [ -f "$tree/lib/modules/$krel/build/include/linux/module.h" ]
    [[ $(readlink "$tree/lib/modules/$krel/build") == ../* ]]
    [ -z "$(find "$tree" -lname '/*')" ]
    # A change of it is none of the cache.
    [ -z "$(find "$tree" -type f -links +1)" ]
    # The kernel's own package is 70 MB that nothing here needs.
    modules=$(sha256sum <"$mirror/pool/linux-image-${krel}_6.1.192-2_amd64.deb" | cut -d" " -f1)
    [ ! -e "$BATS_TEST_TMPDIR/cache/blobs/sha256/$modules" ]
    # From the cache, into an empty folder, with the lock beside it.
    mkdir "$BATS_TEST_TMPDIR/empty"
    rm -r "$mirror"
    run_slipway 0 resolve "$krel" --offline --tree "$BATS_TEST_TMPDIR/empty" -o "$BATS_TEST_TMPDIR/lock.json"
    diff -r "$tree" "$BATS_TEST_TMPDIR/empty"
    [ "$(jq -r .krel "$BATS_TEST_TMPDIR/lock.json")" = "$krel" ]
    find "$BATS_TEST_TMPDIR/cache/runs" -mindepth 1 2>/dev/null | wc -l | grep -qx 0
}

@test "what is on the mirror is not what the signed list says: no tree" {
    local package=$mirror/pool/linux-headers-${krel}_6.1.192-2_amd64.deb
    printf 'x' | dd of="$package" bs=1 seek=300 conv=notrunc status=none
    run_slipway 12 resolve "$krel" --tree "$tree"
    has_nothing
    rm "$package"
    run_slipway 15 resolve "$krel" --tree "$tree"
    has_nothing
}

@test "a kernel that is in no list: no tree, and the same words as without" {
    run_slipway 5 resolve 6.1.0-99-amd64 --tree "$tree"
    says "6.1.0-99-amd64"
    has_nothing
}

@test "folders that are in use, and places that are none" {
    mkdir "$tree"
    touch "$tree/mine"
    run_slipway 9 resolve "$krel" --tree "$tree"
    says "--tree $tree: the folder is not empty" "try: name a new folder: --tree DIR"
    [ "$(ls "$tree")" = mine ]
    run_slipway 9 resolve "$krel" --tree "$tree/mine"
    says "not a folder" "try: name a new folder"
    run_slipway 9 resolve "$krel" --tree "$BATS_TEST_TMPDIR/none/tree"
    says "the folder $BATS_TEST_TMPDIR/none: it does not exist"
    run_slipway 2 resolve --list --os debian12 --tree "$BATS_TEST_TMPDIR/new"
    says "--list and --tree cannot be combined"
    run_slipway 2 resolve "$krel" --tree ''
    says "--tree: the value is empty"
}

@test "SIGTERM while the tree is being written: no part of it stays" {
    local pid ended round
    # Enough files for a copy that is caught half-way.
    mkdir "$BATS_TEST_TMPDIR/root/many"
    (cd "$BATS_TEST_TMPDIR/root/many" && seq 15000 | xargs touch)
    mv "$BATS_TEST_TMPDIR/root/many" "$BATS_TEST_TMPDIR/root/usr/src/linux-headers-$krel/many"
    CONTENT=$BATS_TEST_TMPDIR/root add_package "linux-headers-$krel" "linux-compiler-gcc-12-x86"
    publish
    # On a busy machine the copy may be over before it is looked for.
    for round in 1 2 3 4 5; do
        rm -rf "$tree"
        SLIPWAY_DATADIR=${SLIPWAY_DATADIR:-$repository} SLIPWAY_CACHE=$BATS_TEST_TMPDIR/cache "$SLIPWAY" resolve "$krel" --tree "$tree" >"$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
        pid=$!
        while kill -0 "$pid" 2>/dev/null && has_nothing; do sleep 0.02; done
        kill -TERM "$pid" 2>/dev/null || true
        ended=0
        wait "$pid" || ended=$?
        if [ ! -e "$tree" ] || grep -q 'tree was removed' "$BATS_TEST_TMPDIR/out"; then break; fi
        echo "# round $round: it was over"
    done
    cat "$BATS_TEST_TMPDIR/out"
    [ "$ended" -eq 143 ]
    grep -q 'interrupted by signal 15; the incomplete tree was removed' "$BATS_TEST_TMPDIR/out"
    has_nothing
}
