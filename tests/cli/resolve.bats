#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2154
# SPDX-License-Identifier: Apache-2.0
# slipway resolve: the answer, where it looked, and each way in which a mirror can be wrong: its own words, its own
# exit code, nothing half written, and a cache that is as good as before.

load helpers
load repository

setup() {
    make_repository
    add_kernel 6.1.0-47-amd64
    add_kernel 6.1.0-56-amd64
    add_package linux-compiler-gcc-12-x86 gcc-12
    publish
    update_system
}

# Whatever went wrong, the mirror that is right again gives the answer.
works_again() {
    run_slipway 0 resolve 6.1.0-56-amd64 --refresh
    says "linux-headers-6.1.0-56-amd64"
    [ -z "$(find "$BATS_TEST_TMPDIR/cache" -name '*.tmp' -o -name '*.part')" ]
}

sign_as_a_stranger() {
    rm -rf "$GNUPGHOME"
    mkdir -m 700 "$GNUPGHOME"
    gpg --batch --quiet --passphrase '' --quick-generate-key 'Stranger <s@slipway.invalid>' ed25519 sign never
    gpgconf --kill all
}

@test "the answer has packages, sizes, digests, the compiler and why" {
    run_slipway 0 resolve 6.1.0-56-amd64
    says "kernel    6.1.0-56-amd64" "compiler  gcc-12" "linux-compiler-gcc-12-x86" "linux-headers-6.1.0-56-common" \
        "$mirror/pool/linux-image-6.1.0-56-amd64_6.1.192-2_amd64.deb" "3 packages" "signed by"
}

@test "-o writes a sorted lock, the same twice" {
    run_slipway 0 resolve 6.1.0-56-amd64 -o "$BATS_TEST_TMPDIR/lock.json"
    run_slipway 0 resolve 6.1.0-56-amd64 --refresh -o "$BATS_TEST_TMPDIR/again.json"
    cmp "$BATS_TEST_TMPDIR/lock.json" "$BATS_TEST_TMPDIR/again.json"
    [ "$(jq -r '.schema, .compiler.name, .arch' "$BATS_TEST_TMPDIR/lock.json" | xargs)" = "2 gcc-12 x86_64" ]
    [ "$(jq -r '.repositories[0].release_sha256' "$BATS_TEST_TMPDIR/lock.json")" = "$(sha256sum "$mirror/dists/bookworm/InRelease" | cut -d' ' -f1)" ]
    [ "$(jq -r '.packages[].sha256' "$BATS_TEST_TMPDIR/lock.json" | sort)" = "$(sha256sum "$mirror"/pool/linux-*-6.1.0-56-* | cut -d' ' -f1 | sort)" ]
}

@test "an -o that cannot be written is no empty lock" {
    run_slipway 9 resolve 6.1.0-56-amd64 -o "$BATS_TEST_TMPDIR/none/lock.json"
    says "--output: the folder $BATS_TEST_TMPDIR/none: it does not exist"
}

@test "an -o that is a pipe is written to, and stays one" {
    local pipe=$BATS_TEST_TMPDIR/pipe
    mkfifo "$pipe"
    timeout 600 cat "$pipe" >"$BATS_TEST_TMPDIR/read" 3>&- &
    run_slipway 0 resolve 6.1.0-56-amd64 -o "$pipe"
    wait
    [ -p "$pipe" ]
    jq -e .schema "$BATS_TEST_TMPDIR/read"
}

@test "--json is one object, with the lock and every place" {
    run_slipway 0 resolve 6.1.0-56-amd64 --json
    jq -e '.exit_code == 0 and (.lock.packages | length) == 3 and .trace[0].outcome == "found"' <<<"$output"
}

@test "a failure in --json has its exit code, its reason and the places" {
    local answer
    run_slipway 0 resolve newest --os debian12
    answer=$(SLIPWAY_CACHE=$BATS_TEST_TMPDIR/cache "$SLIPWAY" resolve 6.1.0-99-amd64 --json 2>/dev/null) && false
    jq -e '.exit_code == 5 and (.message | contains("6.1.0-56-amd64")) and .trace[0].outcome == "absent"' <<<"$answer"
}

@test "--list prints the releases, oldest first" {
    run_slipway 0 resolve --list --os debian12
    [[ $output == *$'6.1.0-47-amd64\n6.1.0-56-amd64' ]]
}

@test "a release that no distribution makes wants --os" {
    run_slipway 5 resolve 1.2.3-custom
    says "1.2.3-custom" "--os"
    run_slipway 0 resolve newest --os debian12
    says "6.1.0-56-amd64"
}

@test "the command line: one release, known words, no --refresh with --offline" {
    run_slipway 2 resolve
    says "the kernel is missing"
    run_slipway 2 resolve 6.1.0-56-amd64 6.1.0-47-amd64
    says "only one kernel release can be given"
    run_slipway 2 resolve 6.1.0-56-amd64 --offline --refresh
    says "--offline and --refresh cannot be combined"
    run_slipway 2 resolve 6.1.0-56-amd64 --snapshot yesterday
    says "20260901T000000Z"
    run_slipway 2 resolve 6.1.0-56-amd64 --arch 'x/../y'
    says "what uname -m prints"
    # Another name of the same machine is no other machine, and what is none is not asked for.
    run_slipway 2 resolve 6.1.0-56-amd64 --arch x64
    says "--arch x64: unknown architecture; give what uname -m prints on the node" "x86_64, aarch64"
    run_slipway 0 resolve 6.1.0-56-amd64 --arch amd64 -o -
    says '"arch":"x86_64"'
    run_slipway 0 resolve --help-all
    says "--explain" "--mirror" "--offline"
}

@test "--explain shows every place and why" {
    add_repository old bookworm-old 'archive = yes'
    add_repository elsewhere elsewhere 'archive = yes'
    sed -i '/^\[repository elsewhere\]/,$ s/^mirror = .*/mirror = nowhere/; /^\[repository elsewhere\]/,$ s/^origin = .*/origin = Nobody/' "$SLIPWAY_DATADIR/kernels/catalogue/debian12.ini"
    mkdir "$mirror/old"
    POOL=old add_kernel 6.1.0-1-amd64
    publish bookworm-old old
    run_slipway 0 resolve 6.1.0-1-amd64 --explain
    says "absent   main" "no package linux-headers-6.1.0-1-amd64 among" "found    old" "skipped  elsewhere" "no mirror is known for nowhere"
    run_slipway 0 resolve 6.1.0-56-amd64 --explain
    [[ $output != *" old"* ]]
}

@test "the newest build is taken whose image is there" {
    VERSION=6.1.192-3 add_package linux-headers-6.1.0-56-amd64 "linux-headers-6.1.0-56-common (= 6.1.192-2)"
    publish
    run_slipway 0 resolve 6.1.0-56-amd64 --json
    [ "$(jq -r '.lock.packages[] | select(.purpose != "compiler") | .version' <<<"$output" | sort -u)" = 6.1.192-2 ]
}

@test "an image that is not signed yet will do; headers without any modules are an answer" {
    local catalogue=$SLIPWAY_DATADIR/kernels/catalogue/debian12.ini
    sed -i 's/^modules = .*/modules = linux-image-{krel}|linux-image-{krel}-unsigned/' "$catalogue"
    add_package linux-headers-6.1.0-60-amd64
    publish
    run_slipway 0 resolve 6.1.0-60-amd64 --explain
    says "warning: kernel 6.1.0-60-amd64: its headers were found, but no list" \
        "absent   all" "no package linux-image-6.1.0-60-amd64"
    add_package linux-image-6.1.0-60-amd64-unsigned
    publish
    run_slipway 0 resolve 6.1.0-60-amd64 --refresh
    says "modules" "linux-image-6.1.0-60-amd64-unsigned"
    run_slipway 0 resolve --list --os debian12
    says "6.1.0-60-amd64"
}

@test "an index that was changed after signing: 12" {
    echo >>"$mirror/dists/bookworm/main/binary-amd64/Packages"
    run_slipway 12 resolve 6.1.0-56-amd64
    says "Packages"
    publish
    works_again
}

@test "an index that an unknown key signed: 13, also with --allow-unsigned and good lists in the cache" {
    cp -a "$GNUPGHOME" "$BATS_TEST_TMPDIR/good-key"
    run_slipway 0 resolve 6.1.0-56-amd64
    cp -a "$mirror/dists/bookworm" "$BATS_TEST_TMPDIR/good"
    sed -i 's/Origin/X-Origin/' "$mirror/dists/bookworm/InRelease"
    run_slipway 13 resolve 6.1.0-56-amd64 --refresh --allow-unsigned
    says "InRelease"
    sign_as_a_stranger
    publish
    run_slipway 13 resolve 6.1.0-56-amd64 --refresh
    says "InRelease"
    rm -rf "$mirror/dists/bookworm"
    mv "$BATS_TEST_TMPDIR/good" "$mirror/dists/bookworm"
    works_again
}

@test "a list without a signature: 13, and with --allow-unsigned a warning" {
    local dist=$mirror/dists/bookworm
    mv "$dist/InRelease" "$BATS_TEST_TMPDIR/InRelease"
    cp "$BATS_TEST_TMPDIR/Release" "$dist/Release"
    run_slipway 13 resolve 6.1.0-56-amd64
    says "not signed" "try: accept the unsigned list: --allow-unsigned"
    run_slipway 0 resolve 6.1.0-56-amd64 --allow-unsigned
    says "not signed" "warning"
    mv "$BATS_TEST_TMPDIR/InRelease" "$dist/InRelease"
    works_again
}

@test "no keyring to check a signature with: 13, named" {
    sed -i 's#^keyring = .*#keyring = /nonexistent/keys.gpg#' "$SLIPWAY_DATADIR/kernels/catalogue/debian12.ini"
    run_slipway 13 resolve 6.1.0-56-amd64
    says "/nonexistent/keys.gpg"
    run_slipway 0 resolve 6.1.0-56-amd64 --keyring "$BATS_TEST_TMPDIR/key.gpg"
}

@test "an index that is cut: 12 or 14, and the old answer stays" {
    run_slipway 0 resolve 6.1.0-56-amd64
    truncate -s 100 "$mirror/dists/bookworm/main/binary-amd64/Packages"
    sleep 1.1
    gpg --batch --quiet --clearsign --yes --output "$mirror/dists/bookworm/InRelease" "$BATS_TEST_TMPDIR/Release"
    gpgconf --kill all
    rm -rf "$BATS_TEST_TMPDIR/cache/indexes"
    run_slipway 12 resolve 6.1.0-56-amd64
    truncate -s 40 "$mirror/dists/bookworm/InRelease"
    run_slipway 13 resolve 6.1.0-56-amd64
    says "InRelease"
    publish
    works_again
}

@test "a list whose signed content is malformed: 14, with the place" {
    sed -i 's/^SHA256: /Sha-2: /' "$mirror/dists/bookworm/main/binary-amd64/Packages"
    local dist=$mirror/dists/bookworm
    rm "$dist/InRelease"
    apt-ftparchive -o APT::FTPArchive::Release::Origin=Debian -o APT::FTPArchive::Release::Codename=bookworm \
        -o APT::FTPArchive::Release::Suite=bookworm -o APT::FTPArchive::Release::Components=main \
        -o APT::FTPArchive::Release::Architectures=amd64 release "$dist" >"$BATS_TEST_TMPDIR/Release"
    gpg --batch --quiet --clearsign --output "$dist/InRelease" "$BATS_TEST_TMPDIR/Release"
    gpgconf --kill all
    run_slipway 14 resolve 6.1.0-56-amd64
    says "the stanza at byte 0" "no SHA256"
    publish
    works_again
}

@test "a mirror without the suite: 15, with the URL" {
    mv "$mirror/dists" "$mirror/gone"
    run_slipway 15 resolve 6.1.0-56-amd64
    says "$mirror/dists/bookworm/" "no such file"
    mv "$mirror/gone" "$mirror/dists"
    works_again
}

@test "a list that cannot be read is never 'no such kernel'" {
    add_repository updates bookworm-updates
    run_slipway 0 resolve 6.1.0-56-amd64
    says "warning: updates is skipped"
    run_slipway 15 resolve 6.1.0-99-amd64
    says "no package linux-headers-6.1.0-99-amd64" "the list of updates may have it and could not be read"
}

@test "newest is not guessed where a mirror lacks a list, unless the catalogue says that it may" {
    add_repository updates bookworm-updates
    run_slipway 15 resolve newest --os debian12
    says "kernel newest: unknown without the list of updates"
    add_repository backports bookworm-backports 'optional = yes'
    sed -i 's/^suite = bookworm-updates/suite = bookworm/' "$SLIPWAY_DATADIR/kernels/catalogue/debian12.ini"
    run_slipway 0 resolve newest --os debian12
    says "6.1.0-56-amd64"
}

@test "modules of the headers' own build are looked for everywhere before others will do" {
    add_repository old bookworm-old 'archive = yes'
    mkdir "$mirror/old"
    add_package linux-headers-6.1.0-70-amd64
    VERSION=6.1.192-1 add_package linux-image-6.1.0-70-amd64
    publish
    POOL=old VERSION=6.1.192-2 add_package linux-image-6.1.0-70-amd64
    publish bookworm-old old
    run_slipway 0 resolve 6.1.0-70-amd64 --json
    [ "$(jq -r '.lock.packages[] | select(.purpose == "modules") | .version' <<<"$output")" = 6.1.192-2 ]
    rm -r "$mirror/dists/bookworm-old" "$mirror/old"
    run_slipway 0 resolve 6.1.0-70-amd64 --refresh --json
    [ "$(jq -r '.lock.packages[] | select(.purpose == "modules") | .version' <<<"$output")" = 6.1.192-1 ]
}

@test "modules of another build, or none, are no answer while a list is silent" {
    add_repository updates bookworm-updates
    add_package linux-headers-6.1.0-70-amd64
    publish
    run_slipway 15 resolve 6.1.0-70-amd64
    says "linux-image-6.1.0-70-amd64" "the list of updates may have it and could not be read"
    run_slipway 0 resolve 6.1.0-56-amd64
}

@test "a mirror that is not served: 11, and newest is not guessed from the rest" {
    add_repository updates bookworm-updates
    sed -i '/^\[repository updates\]/,$ s/^mirror = .*/mirror = other/; /^\[repository updates\]/,$ s/^origin = .*/origin = Nobody/' "$SLIPWAY_DATADIR/kernels/catalogue/debian12.ini"
    run_slipway 0 resolve 6.1.0-56-amd64 --mirror other=http://127.0.0.1:9
    says "updates is skipped" "127.0.0.1"
    run_slipway 11 resolve newest --os debian12 --mirror other=http://127.0.0.1:9
    says "kernel newest: unknown without the list of updates"
}

@test "without gpgv a list cannot be checked: 10" {
    PATH=$(path_without gpgv) run_slipway 10 resolve 6.1.0-56-amd64
    says "gpgv: no such program in PATH" "try: scripts/install-packages"
}

@test "--offline: 21 before the first time, then from the cache, and a kernel that is not there is 5" {
    local far=(--mirror http://127.0.0.1:9)
    # Nothing is known of a mirror either: apt was never asked, and the cure is not to name one.
    run_slipway 21 resolve 6.1.0-56-amd64 --offline
    says "its package lists are not in the cache" "try: run once without --offline" "try: to build without a network, make a bundle elsewhere (slipway bundle) and use slipway build --bundle"
    [[ $output != *--mirror* ]]
    run_slipway 21 resolve 6.1.0-56-amd64 --offline "${far[@]}"
    says "--offline" "127.0.0.1"
    run_slipway 0 resolve 6.1.0-56-amd64
    run_slipway 0 resolve 6.1.0-56-amd64 --offline
    run_slipway 5 resolve 6.1.0-99-amd64 --offline
}

@test "a list in the cache that is damaged on disk is fetched anew" {
    run_slipway 0 resolve 6.1.0-56-amd64
    find "$BATS_TEST_TMPDIR/cache/indexes" -type f -exec truncate -s 50 {} +
    run_slipway 0 resolve 6.1.0-56-amd64
    says "linux-headers-6.1.0-56-amd64"
}

@test "a full disk: 17, and room again is enough" {
    local small=$BATS_TEST_TMPDIR/small code
    mkdir "$small"
    mount -t tmpfs -o size=512k tmpfs "$small" || skip "no right to mount a small file system"
    mkdir "$small/cache"
    cat /dev/zero >"$small/filler" 2>/dev/null || true
    run env SLIPWAY_CACHE="$small/cache" "$SLIPWAY" resolve 6.1.0-56-amd64
    code=$status
    echo "$output"
    rm "$small/filler"
    run env SLIPWAY_CACHE="$small/cache" "$SLIPWAY" resolve 6.1.0-56-amd64
    echo "$output"
    umount "$small"
    [ "$code" -eq 17 ]
    [ "$status" -eq 0 ]
}

@test "a kernel that is gone: the half that asking an archive wants is named" {
    add_repository old bookworm-old 'archive = yes'
    sed -i '/^\[repository old\]/,$ { s/^mirror = .*/mirror = past/; s/^\(origin\|label\) = .*/\1 = Nobody/; s/^suite = bookworm-old/&\npath = at\/{snapshot}/ }' \
        "$SLIPWAY_DATADIR/kernels/catalogue/debian12.ini"
    run_slipway 5 resolve 6.1.0-20-amd64
    says "try: --mirror past=URL --snapshot TIME, for a kernel that has left the mirrors"
    run_slipway 5 resolve 6.1.0-20-amd64 --snapshot 20240101T000000Z
    says "try: --mirror past=URL beside --snapshot"
    run_slipway 5 resolve 6.1.0-20-amd64 --mirror "past=file://$mirror"
    says "try: --snapshot TIME beside the mirror past"
}

@test "no list at all: said once, and not that there is no such kernel" {
    add_repository updates bookworm-updates
    mv "$mirror/dists" "$mirror/gone"
    local words
    for words in 6.1.0-56-amd64 "newest --os debian12" "--list --os debian12"; do
        # shellcheck disable=SC2086
        run_slipway 15 resolve $words
        says "none of the 2 lists of debian12 could be read"
        [[ $output != *"no package"* && $output != *"is skipped"* ]]
    done
}

@test "newest without --os is the default distribution's; the lock goes to stdout" {
    run_slipway 0 resolve newest
    says "6.1.0-56-amd64"
    run_slipway 0 resolve --kernel newest -o -
    [ "$(jq -r .krel <<<"$output")" = 6.1.0-56-amd64 ]
}

@test "--arch takes a distribution's name of an architecture, and the lock holds uname -m's" {
    run_slipway 0 resolve 6.1.0-56-amd64 --arch amd64 -o -
    [ "$(jq -r .arch <<<"$output")" = x86_64 ]
}
