#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# slipway cache: what it lists, what it removes, what it never does, and what it finds damaged.

load helpers

setup() {
    cache=$BATS_TEST_TMPDIR/cache
    run_slipway 0 cache list
    own_storage "$BATS_TEST_TMPDIR"
}

teardown() {
    [[ -z ${holder:-} ]] || kill "$holder" 2>/dev/null || true
}

# put PATH SIZE AGE: a file in the cache that was last used so many days ago.
put() {
    mkdir -p "$cache/$(dirname "$1")"
    head -c "$2" /dev/zero >"$cache/$1"
    touch -d "$3 days ago" "$cache/$1"
}

# put_blob TEXT AGE: a download that is right.
put_blob() {
    local digest
    digest=$(printf '%s' "$1" | sha256sum | cut -d ' ' -f 1)
    printf '%s' "$1" >"$cache/blobs/sha256/$digest"
    touch -d "$2 days ago" "$cache/blobs/sha256/$digest"
    blob=blobs/sha256/$digest
}

put_output() {
    mkdir -p "$cache/stages/$1"
    head -c "$2" /dev/zero >"$cache/stages/$1/file"
    touch -d "$3 days ago" "$cache/stages/$1"
}

@test "an empty cache, and the wrong words" {
    run_slipway 0 cache list
    says "0 entries, 0.0 MB in $cache"
    run_slipway 2 cache
    says "the action is missing: list, prune or verify"
    run_slipway 2 cache clean
    run_slipway 2 cache list --all
    says "apply only to cache prune"
    run_slipway 2 cache prune --older-than 12
    says "--older-than 12"
    run_slipway 2 cache prune --keep-size -1G
    run_slipway 0 cache --help
    says "Usage: slipway cache"
}

@test "list names what is there, with the package of a download" {
    put_blob one 1
    put_output kernel-0123 1000000 3
    put logs/kernel-0123.log 10 2
    mkdir -p "$cache/blobs/names"
    printf linux-headers-one >"$cache/blobs/names/${blob##*/}"
    run_slipway 0 cache list
    says "linux-headers-one" "stages/kernel-0123" "logs/kernel-0123.log" "3 entries"
    run_slipway 0 cache list --json
    # The longest unused first, as prune removes them.
    jq -e '.entries | map(.kind) == ["output", "log", "download"]' <<<"$output"
    jq -e '.entries[2].name == "linux-headers-one" and .entries[0].size_bytes >= 1000000' <<<"$output"
}

@test "a named cache is never made, and is one" {
    for action in list prune verify; do
        run_slipway 2 cache "$action" --cache "$BATS_TEST_TMPDIR/typo"
        says "typo: there is no cache in this folder"
        [ ! -e "$BATS_TEST_TMPDIR/typo" ]
    done
    mkdir "$BATS_TEST_TMPDIR/other"
    run_slipway 2 cache prune --cache "$BATS_TEST_TMPDIR/other"
    [ -z "$(ls -A "$BATS_TEST_TMPDIR/other")" ]
    run_slipway 0 cache list --cache "$cache"
}

@test "list names downloads and the images that outputs stand for" {
    put_blob one 40
    mkdir -p "$cache/blobs/names"
    echo linux-headers-one >"$cache/blobs/names/${blob##*/}"
    put_output build-base-0 10 0
    echo localhost/slipway/base:0 >"$cache/stages/build-base-0/image"
    run_slipway 0 cache list
    says "linux-headers-one" "image localhost/slipway/base:0"
    run_slipway 0 cache prune
    [ ! -e "$cache/$blob" ] && [ ! -e "$cache/blobs/names/${blob##*/}" ]
}

@test "prune removes what has not been used for 30 days" {
    put_blob old 31
    old=$blob
    put_blob young 29
    put_output ofed-old 1000 40
    put_output ofed-young 1000 3
    put failed/ofed/log 10 50
    touch -d '50 days ago' "$cache/failed/ofed"
    run_slipway 0 cache prune --dry-run
    says "would remove" "$old" "Would remove 3 entries"
    [ -e "$cache/$old" ]
    run_slipway 0 cache prune
    says "Removed 3 entries"
    [ ! -e "$cache/$old" ] && [ ! -e "$cache/stages/ofed-old" ] && [ ! -e "$cache/failed/ofed" ]
    [ -e "$cache/$blob" ] && [ -e "$cache/stages/ofed-young" ]
    [ -z "$(ls -A "$cache/runs")" ]
}

@test "an output that its maker has dated to the epoch is as old as its place in the cache" {
    put_output ofed-source-old 1000 0
    touch -d @0 "$cache/stages/ofed-source-old"
    run_slipway 0 cache list
    says "$(date +%Y)-"
    run_slipway 0 cache prune
    says "Removed 0 entries"
    [ -e "$cache/stages/ofed-source-old" ]
    run_slipway 0 cache prune --all
    [ ! -e "$cache/stages/ofed-source-old" ]
}

@test "prune by age, by size and all" {
    put_output a 2000000 3
    put_output b 2000000 2
    put_output c 2000000 1
    run_slipway 0 cache prune --older-than 60h
    [ ! -e "$cache/stages/a" ] && [ -e "$cache/stages/b" ]
    run_slipway 0 cache prune --keep-size 3M
    [ ! -e "$cache/stages/b" ] && [ -e "$cache/stages/c" ]
    run_slipway 0 cache prune --all --json
    jq -es 'map(select(.event == "removed")) | length == 1' <<<"$output"
    [ ! -e "$cache/stages/c" ]
}

@test "what a living run may have used stays" {
    put_output old 1000 2
    put_output used 1000 0
    mkdir "$cache/runs/1-living"
    touch "$cache/runs/1-living/lock"
    touch "$cache/stages/used"
    flock --no-fork "$cache/runs/1-living/lock" sleep 60 3>&- &
    holder=$!
    until ! flock -n "$cache/runs/1-living/lock" true; do
        kill -0 "$holder"
    done
    run_slipway 0 cache prune --all
    says "1 more are in use"
    [ -e "$cache/stages/used" ] && [ ! -e "$cache/stages/old" ] && [ -e "$cache/runs/1-living" ]
}

@test "a file that is on its way stays, what is no longer fetched goes" {
    digest=$(printf 'x%.0s' {1..64} | tr x a)
    put "blobs/partial/$digest.part" 100 40
    put "blobs/partial/${digest//a/b}.part" 100 40
    flock --no-fork "$cache/blobs/partial/$digest.part" sleep 60 3>&- &
    holder=$!
    until ! flock -n "$cache/blobs/partial/$digest.part" true; do
        kill -0 "$holder"
    done
    run_slipway 0 cache prune
    [ -e "$cache/blobs/partial/$digest.part" ] && [ ! -e "$cache/blobs/partial/${digest//a/b}.part" ]
}

@test "the image of an output that goes, goes with it; of an output that stays, stays" {
    for name in build-base-x:1 runtime-base-x:2; do
        container=$(buildah from scratch)
        buildah commit --quiet "$container" "localhost/slipway/$name" >/dev/null
        buildah rm "$container" >/dev/null
    done
    put_output build-base-old 10 40
    echo localhost/slipway/build-base-x:1 >"$cache/stages/build-base-old/image"
    put_output runtime-base-young 10 1
    echo localhost/slipway/runtime-base-x:2 >"$cache/stages/runtime-base-young/image"
    touch -d '40 days ago' "$cache/stages/build-base-old"
    run_slipway 0 cache prune
    says "removed image localhost/slipway/build-base-x:1"
    [[ $output != *runtime-base-x* ]]
    buildah inspect --type image localhost/slipway/runtime-base-x:2 >/dev/null
    run buildah inspect --type image localhost/slipway/build-base-x:1
    [ "$status" -ne 0 ]
}

@test "verify finds a download that was damaged and moves it away" {
    put_blob good 1
    good=$blob
    put_blob bad 1
    printf x >"$cache/$blob"
    run_slipway 18 cache verify
    says "$blob: damaged on disk" "1 damaged"
    [ -e "$cache/$good" ] && [ ! -e "$cache/$blob" ] && [ -e "$cache/blobs/damaged/${blob##*/}" ]
    put_output kernel-0123 10 1
    run_slipway 0 cache verify --json
    jq -e '.checked == 1 and .damaged == 0 and .unchecked == 2' <<<"$output"
    run_slipway 0 cache verify
    says "Checked 1 entries" "2 others were not"
    run_slipway 0 cache prune
    [ ! -e "$cache/blobs/damaged/${blob##*/}" ]
}

@test "verify finds an image's archive that was damaged" {
    container=$(buildah from scratch)
    buildah commit --quiet "$container" test >/dev/null
    buildah rm "$container" >/dev/null
    mkdir -p "$cache/stages/gpu-1"
    buildah push --quiet test "oci-archive:$cache/stages/gpu-1/image.oci.tar:test"
    run_slipway 0 cache verify
    says "Checked 1 entries"
    offset=$(grep -abo '"rootfs"' "$cache/stages/gpu-1/image.oci.tar" | head -n 1 | cut -d : -f 1)
    printf x | dd of="$cache/stages/gpu-1/image.oci.tar" bs=1 seek="$((offset + 2))" conv=notrunc status=none
    run_slipway 18 cache verify
    says "stages/gpu-1/image.oci.tar: damaged at blobs/sha256/"
    [ ! -e "$cache/stages/gpu-1" ]
}

# living: a run that is alive from now on, until the test ends.
living() {
    mkdir -p "$cache/runs/1-living"
    touch "$cache/runs/1-living/lock"
    flock --no-fork "$cache/runs/1-living/lock" sleep 60 3>&- &
    holder=$!
    until ! flock -n "$cache/runs/1-living/lock" true; do
        kill -0 "$holder"
    done
}

@test "verify leaves a damaged archive that a living run may be reading" {
    mkdir -p "$cache/stages/gpu-1"
    printf 'no archive' >"$cache/stages/gpu-1/image.oci.tar"
    living
    run_slipway 18 cache verify
    says "1 of them were kept" "try: run slipway cache verify again when that run has ended"
    [ -e "$cache/stages/gpu-1/image.oci.tar" ]
    kill "$holder"
    wait "$holder" || true
    until flock -n "$cache/runs/1-living/lock" true; do sleep 0.1; done
    run_slipway 18 cache verify
    says "moved aside"
    [ ! -e "$cache/stages/gpu-1" ]
}

@test "verify waits for who fetches a damaged download anew, and lets the right one stay" {
    put_blob fetched 1
    digest=${blob##*/}
    cp "$cache/$blob" "$BATS_TEST_TMPDIR/right"
    printf x >"$cache/$blob"
    mkdir -p "$cache/blobs/partial"
    : >"$cache/blobs/partial/$digest.lock"
    flock --no-fork "$cache/blobs/partial/$digest.lock" sh -c 'echo; exec sleep 60' >"$BATS_TEST_TMPDIR/held" 3>&- &
    holder=$!
    until [ -s "$BATS_TEST_TMPDIR/held" ]; do sleep 0.1; done
    env SLIPWAY_DATADIR="$repository" SLIPWAY_CACHE="$cache" "$SLIPWAY" cache verify >"$BATS_TEST_TMPDIR/said" 2>&1 3>&- &
    verifier=$!
    # Waiting for that very lock, as the kernel shows.
    until grep -q -- "-> FLOCK .*:$(stat -c %i "$cache/blobs/partial/$digest.lock") " /proc/locks; do
        kill -0 "$verifier"
        sleep 0.1
    done
    [ -e "$cache/$blob" ]
    cp "$BATS_TEST_TMPDIR/right" "$cache/$blob"
    kill "$holder"
    wait "$verifier" || true
    [ -e "$cache/$blob" ] && [ ! -e "$cache/blobs/damaged/$digest" ]
}
