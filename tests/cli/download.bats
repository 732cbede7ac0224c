#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2154
# SPDX-License-Identifier: Apache-2.0
# Packages over the network, from a server that misbehaves in each way, into a cache that several runs share. The
# packages have no kernel tree in them: a run that has fetched all ends there, with exit code 12.

load helpers
load repository
load httpd

setup() {
    make_repository
    mkdir -p "$BATS_TEST_TMPDIR"/content "$BATS_TEST_TMPDIR/nvidia/kernel-open"
    head -c 60000 /dev/urandom >"$BATS_TEST_TMPDIR/content/data"
    CONTENT=$BATS_TEST_TMPDIR/content add_kernel 6.1.0-56-amd64
    add_package linux-compiler-gcc-12-x86 gcc-12
    publish
    update_system
    run_slipway 0 resolve 6.1.0-56-amd64 -o "$BATS_TEST_TMPDIR/lock.json"
    start_httpd
}

teardown() {
    stop_httpd
    [[ -z ${other_pid:-} ]] || kill "$other_pid"
    ! mountpoint -q "$BATS_TEST_TMPDIR/cache" || umount "$BATS_TEST_TMPDIR/cache"
}

# lock_at HOW [HOST]: the lock, with its packages at the server that behaves so.
lock_at() {
    sed "s|file:\(//\)\?$mirror|${2:-$http}/$1|" "$BATS_TEST_TMPDIR/lock.json" >"$BATS_TEST_TMPDIR/$$.json"
}

# fetch CODE [OPTION…]
fetch() {
    run_slipway "$1" lint --lock "$BATS_TEST_TMPDIR/$$.json" "${@:2}"
}

# Both packages of the headers are there, whole and right, and nothing that is half.
all_is_fetched() {
    says "kernel tree"
    [ "$(find "$BATS_TEST_TMPDIR/cache/blobs/sha256" -type f | wc -l)" -eq 2 ]
    nothing_is_half
    run_slipway 0 cache verify
    says "Checked 2 entries" "0 damaged"
}

nothing_is_half() {
    [ -z "$(find "$BATS_TEST_TMPDIR/cache/blobs/partial" -type f ! -name '*.lock')" ]
}

nothing_is_fetched() {
    [ -z "$(find "$BATS_TEST_TMPDIR/cache/blobs/sha256" -type f)" ]
}

# The cache is as good as before, whatever happened.
works_again() {
    lock_at ok
    fetch 12
    all_is_fetched
}

@test "packages come over HTTP, and a second run asks for none" {
    lock_at ok
    fetch 12
    says "fetching 2 packages"
    all_is_fetched
    fetch 12
    [[ $output != *fetching* ]]
    [ "$(asked '^200')" -eq 2 ]
}

@test "with --json the bytes of downloads are events" {
    lock_at ok
    fetch 12 --json
    event=$(grep '"event":"download"' <<<"$output" | tail -n 1)
    jq -e '.done_bytes == .total_bytes and .total_bytes > 120000 and .files_done == 2 and .files == 2' <<<"$event"
}

@test "a connection that is cut goes on where it ended" {
    lock_at cut/25000
    fetch 12
    says "trying again in"
    all_is_fetched
    [ "$(asked 'bytes=50000-$')" -eq 2 ]
}

@test "what a killed run has fetched is not fetched again" {
    lock_at slow
    SLIPWAY_CACHE=$BATS_TEST_TMPDIR/cache "$SLIPWAY" build --lock "$BATS_TEST_TMPDIR/$$.json" --nvidia "$BATS_TEST_TMPDIR/nvidia" \
        3>&- >/dev/null 2>&1 &
    pid=$!
    for ((i = 0; i < 300; i++)); do
        [ -z "$(find "$BATS_TEST_TMPDIR/cache/blobs/partial" -name '*.part' -size +20c 2>/dev/null)" ] || break
        read -rt 0.1 <> <(:) || true
    done
    kill -9 "$pid"
    wait "$pid" || true
    works_again
    [ "$(asked '^206 /ok/.*bytes=[1-9]')" -ge 1 ]
}

@test "a server without ranges, one that is busy, and one that asks for a pause" {
    lock_at norange
    fetch 12
    all_is_fetched
    rm -rf "$BATS_TEST_TMPDIR/cache"
    lock_at busy/2
    fetch 12
    says "HTTP 503: trying again in"
    all_is_fetched
    rm -rf "$BATS_TEST_TMPDIR/cache"
    lock_at after/1
    fetch 12
    all_is_fetched
}

@test "a server that stays busy, or wants to be left alone for long" {
    lock_at status/500
    fetch 11
    says "HTTP 500" "tried 4 times" "--mirror"
    nothing_is_fetched
    rm -f "$BATS_TEST_TMPDIR/httpd.log"
    lock_at after/3600
    fetch 11
    says "3600 s"
    [ "$(asked '^503')" -eq 2 ]
    works_again
}

@test "404, 403, and a server that is not there" {
    lock_at status/404
    fetch 15
    says "HTTP 404" "linux-headers-6.1.0-56-"
    lock_at status/403
    fetch 23
    says "HTTP 403" "client certificate"
    lock_at ok http://127.0.0.1:1
    fetch 11
    says "127.0.0.1:1" "tried 4 times"
    nothing_is_fetched
    works_again
}

@test "another length or content than the lock's is refused and leaves nothing" {
    for how in short long wrong; do
        lock_at "$how"
        fetch 12
        says "linux-headers-6.1.0-56-"
        [[ $output != *"kernel tree"* ]]
        nothing_is_fetched
        nothing_is_half
    done
    says "its SHA-256 is"
    works_again
}

@test "redirects are followed, but not in circles and not to files of this machine" {
    lock_at to
    fetch 12
    all_is_fetched
    rm -rf "$BATS_TEST_TMPDIR/cache"
    lock_at loop
    fetch 11
    says "redirects"
    lock_at tofile
    fetch 11
    says "file"
    nothing_is_fetched
}

@test "--offline asks no server, and takes what is there" {
    lock_at ok
    fetch 21 --offline
    says "--offline" "linux-headers-6.1.0-56-"
    [ ! -e "$BATS_TEST_TMPDIR/httpd.log" ]
    fetch 12
    all_is_fetched
    fetch 12 --offline
    says "kernel tree"
}

@test "--offline opens no socket" {
    lock_at ok
    fetch 12
    run strace -f -e trace=socket -o "$BATS_TEST_TMPDIR/strace" env SLIPWAY_CACHE="$BATS_TEST_TMPDIR/cache" \
        "$SLIPWAY" build --offline --lock "$BATS_TEST_TMPDIR/$$.json" --nvidia "$BATS_TEST_TMPDIR/nvidia"
    says "kernel tree"
    run grep -E 'AF_(INET|INET6|NETLINK)' "$BATS_TEST_TMPDIR/strace"
    [ "$output" = "" ]
}

@test "a package that was damaged in the cache is fetched again, or named when offline" {
    lock_at ok
    fetch 12
    # One of them: the message names the first in the lock's order, which is not that of the digests.
    blobs=("$BATS_TEST_TMPDIR"/cache/blobs/sha256/*)
    printf x | dd of="${blobs[0]}" bs=1 seek=1000 conv=notrunc status=none
    fetch 18 --offline
    says "damaged on disk" "$(basename "${blobs[0]}")" "--offline"
    fetch 12
    all_is_fetched
}

@test "runs at the same time share one download" {
    lock_at ok
    for i in 1 2 3 4; do
        SLIPWAY_CACHE=$BATS_TEST_TMPDIR/cache "$SLIPWAY" build --lock "$BATS_TEST_TMPDIR/$$.json" --nvidia "$BATS_TEST_TMPDIR/nvidia" \
            >"$BATS_TEST_TMPDIR/$i.out" 2>&1 3>&- &
        pids[i]=$!
    done
    for i in 1 2 3 4; do
        status=0
        wait "${pids[$i]}" || status=$?
        [ "$status" -eq 12 ]
        grep -q "kernel tree" "$BATS_TEST_TMPDIR/$i.out"
    done
    [ "$(asked '^200')" -eq 2 ]
}

@test "a proxy of the environment is asked" {
    lock_at ok http://mirror.slipway.invalid
    http_proxy=$http no_proxy='' fetch 12
    all_is_fetched
    [ "$(asked '^200 http://mirror.slipway.invalid/ok/')" -eq 2 ]
}

@test "--offline starts no apt, whatever has become of its sources" {
    lock_at ok
    fetch 12
    mkdir "$BATS_TEST_TMPDIR/bin"
    for name in apt-config apt-get; do
        printf '%s\n' '#!/bin/sh' "touch '$BATS_TEST_TMPDIR/asked'" 'exit 9' >"$BATS_TEST_TMPDIR/bin/$name"
        chmod +x "$BATS_TEST_TMPDIR/bin/$name"
    done
    cp "$APT_CONFIG" "$BATS_TEST_TMPDIR/other.conf"
    echo '// another' >>"$BATS_TEST_TMPDIR/other.conf"
    export APT_CONFIG=$BATS_TEST_TMPDIR/other.conf PATH=$BATS_TEST_TMPDIR/bin:$PATH
    fetch 12 --offline
    run_slipway 0 resolve 6.1.0-56-amd64 --offline
    [ ! -e "$BATS_TEST_TMPDIR/asked" ]
    run strace -f -e trace=execve -o "$BATS_TEST_TMPDIR/strace" env SLIPWAY_CACHE="$BATS_TEST_TMPDIR/cache" "$SLIPWAY" \
        lint --lock "$BATS_TEST_TMPDIR/$$.json" --offline
    run grep -c 'execve(.*= 0' "$BATS_TEST_TMPDIR/strace"
    [ "$output" -eq 2 ] # env and slipway
    run_slipway 1 resolve 6.1.0-56-amd64
    [ -e "$BATS_TEST_TMPDIR/asked" ]
}

@test "a full disk is named, and the cache is good when there is room" {
    rm -rf "$BATS_TEST_TMPDIR/cache"
    mkdir "$BATS_TEST_TMPDIR/cache"
    mount -t tmpfs -o size=160k tmpfs "$BATS_TEST_TMPDIR/cache"
    lock_at ok
    fetch 17
    says "no space is left on the cache's disk" "the cache: $BATS_TEST_TMPDIR/cache" "try: slipway cache prune"
    nothing_is_half
    mount -o remount,size=20m "$BATS_TEST_TMPDIR/cache"
    works_again
}

@test "TLS: an authority of the environment's, and a client certificate of mirrors.ini" {
    stop_httpd
    make_certificates
    start_tls
    lock_at ok

    # An authority that is not known here is not "out of reach".
    fetch 13
    says "certificate" "the server's certificate is not trusted"
    export CURL_CA_BUNDLE=$BATS_TEST_TMPDIR/ca.pem
    fetch 11
    says "does it need a client certificate"
    nothing_is_fetched
    export SLIPWAY_MIRRORS=$BATS_TEST_TMPDIR/mirrors.ini
    printf '%s\n' '[debian]' "url = $http/ok" "client_certificate = $BATS_TEST_TMPDIR/stranger.pem" \
        "client_key = $BATS_TEST_TMPDIR/stranger-key.pem" >"$BATS_TEST_TMPDIR/mirrors.ini"
    fetch 11
    says "does it refuse the client certificate $BATS_TEST_TMPDIR/stranger.pem"
    nothing_is_fetched
    printf '%s\n' '[debian]' "url = $http/ok" "client_certificate = $BATS_TEST_TMPDIR/client.pem" >"$BATS_TEST_TMPDIR/mirrors.ini"
    fetch 12
    all_is_fetched
}

@test "a client certificate is shown to its mirror, also where that redirects to itself, and to no other" {
    stop_httpd
    make_certificates
    start_tls
    other_pid=$httpd_pid
    other_port=${http##*:}
    start_tls
    export CURL_CA_BUNDLE=$BATS_TEST_TMPDIR/ca.pem
    printf '%s\n' '[debian]' "url = $http" "client_certificate = $BATS_TEST_TMPDIR/client.pem" >"$BATS_TEST_TMPDIR/mirrors.ini"
    export SLIPWAY_MIRRORS=$BATS_TEST_TMPDIR/mirrors.ini
    lock_at "away/$other_port"
    fetch 11
    says "does it need a client certificate"
    nothing_is_fetched
    [ "$(asked "^302 /away")" -gt 0 ] && [ "$(asked "^200")" -eq 0 ]
    lock_at to
    fetch 12
    all_is_fetched
}

@test "a mirror's own authority is not believed where the mirror redirects to" {
    stop_httpd
    make_certificates
    start_httpd --tls "$BATS_TEST_TMPDIR/server.pem" "$BATS_TEST_TMPDIR/server-key.pem"
    other_pid=$httpd_pid
    other_port=${http##*:}
    start_httpd --tls "$BATS_TEST_TMPDIR/server.pem" "$BATS_TEST_TMPDIR/server-key.pem"
    printf '%s\n' '[debian]' "url = $http" "certificate_authority = $BATS_TEST_TMPDIR/ca.pem" >"$BATS_TEST_TMPDIR/mirrors.ini"
    export SLIPWAY_MIRRORS=$BATS_TEST_TMPDIR/mirrors.ini
    lock_at "away/$other_port"
    fetch 13
    [ "$(asked "^302 /away")" -gt 0 ] && [ "$(asked "^200")" -eq 0 ]
    lock_at to
    fetch 12
    all_is_fetched
}

@test "a mirror's password opens its server, and is written and said nowhere" {
    local url=http://me:secret@${http#http://}/secret
    rm -rf "$BATS_TEST_TMPDIR/cache"
    run_slipway 23 resolve 6.1.0-56-amd64 --mirror "$http/secret" --explain
    says "HTTP 401"
    run_slipway 0 resolve 6.1.0-56-amd64 --mirror "$url" --explain -o "$BATS_TEST_TMPDIR/$$.json"
    [[ $output != *me:secret* ]]
    run_slipway 0 resolve 6.1.0-56-amd64 --mirror "$url" --explain --json
    [[ $output != *me:secret* ]]
    ! grep -r me:secret "$BATS_TEST_TMPDIR/$$.json" "$BATS_TEST_TMPDIR/cache" || false
    fetch 23
    nothing_is_fetched
    fetch 12 --mirror "$url"
    all_is_fetched
    [[ $output != *me:secret* ]]
}

@test "the packages of the runtime base are the same where the working folder has .deb files of them" {
    local word list="$repository/containers/runtime/runtime.sh"
    # A package for each name in the script, and for other words in those lines.
    while read -r word; do
        add_package "$word"
    done < <(sed -n '/^packages+=/,/^alone=/p' "$list" | grep -v '^#' | grep -oE '[a-z][a-z0-9.-]+' | sort -u)
    publish
    cp "$BATS_TEST_TMPDIR/apt/sources.list" "$BATS_TEST_TMPDIR/repositories"
    for folder in "$BATS_TEST_TMPDIR" "$mirror/pool"; do
        (cd "$folder" && "$list" list --list "$BATS_TEST_TMPDIR/list-${folder##*/}" --suite bookworm --arch amd64 \
            --repositories "$BATS_TEST_TMPDIR/repositories")
    done
    grep -x 'ibverbs-utils 6.1.192-2 amd64 [0-9a-f]*' "$BATS_TEST_TMPDIR/list-pool"
    cmp "$BATS_TEST_TMPDIR/list-${BATS_TEST_TMPDIR##*/}" "$BATS_TEST_TMPDIR/list-pool"
}
