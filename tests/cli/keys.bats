#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# Keys that this machine does not have: fetched once over https, believed when they are published or when the user says so, and
# found again. And the official mirrors, which are known out of the box.

load helpers
load repository
load httpd

# certificate: of the server, by an authority of the test's own.
certificate() {
    local folder=$BATS_TEST_TMPDIR
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=authority \
        -keyout "$folder/ca-key.pem" -out "$folder/ca.pem" 2>/dev/null
    openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=127.0.0.1 \
        -keyout "$folder/server-key.pem" -out "$folder/server.csr" 2>/dev/null
    openssl x509 -req -in "$folder/server.csr" -CA "$folder/ca.pem" -CAkey "$folder/ca-key.pem" -CAcreateserial -days 2 \
        -extfile <(echo "subjectAltName = IP:127.0.0.1") -out "$folder/server.pem" 2>/dev/null
}

# key_section LINE…: what mirrors.ini says of the key.
key_section() {
    printf '%s\n' '[key made]' "url = $http/ok/keys/made.asc" "certificate_authority = $BATS_TEST_TMPDIR/ca.pem" "$@" \
        >"$BATS_TEST_TMPDIR/mirrors.ini"
    export SLIPWAY_MIRRORS=$BATS_TEST_TMPDIR/mirrors.ini
}

setup() {
    own_storage "$BATS_TEST_TMPDIR"
    make_repository
    add_kernel 6.1.0-56-amd64
    publish
    # The key that signs the lists, and another one, in one file.
    mkdir "$mirror/keys"
    gpg --batch --quiet --passphrase '' --quick-generate-key 'Other <other@slipway.invalid>' ed25519 sign never
    gpgconf --kill all
    gpg --batch --armor --export >"$mirror/keys/made.asc"
    fingerprint=$(gpg --batch --with-colons --list-keys Test | awk -F: '/^fpr/ { print $10; exit }')
    other=$(gpg --batch --with-colons --list-keys Other | awk -F: '/^fpr/ { print $10; exit }')
    sed -i "s#^keyring = .*#key = made\nkeyring = /nonexistent/made.gpg#" "$SLIPWAY_DATADIR/kernels/catalogue/debian12.ini"
    export XDG_CONFIG_HOME=$BATS_TEST_TMPDIR/config
    kept=$XDG_CONFIG_HOME/slipway/keyrings/made.gpg
    # apt checks with its own.
    certificate
    start_httpd --tls "$BATS_TEST_TMPDIR/server.pem" "$BATS_TEST_TMPDIR/server-key.pem"
    key_section
}

teardown() {
    stop_httpd
}

resolve() {
    local code=$1
    shift
    run_slipway "$code" resolve 6.1.0-56-amd64 --mirror "$mirror" "$@" </dev/null
}

# kept_keys: the fingerprints that are believed from now on.
kept_keys() {
    gpg --batch --show-keys --with-colons "$kept" | awk -F: '/^pub/ { p = 1 } /^fpr/ && p { print $10; p = 0 }' | sort
}

@test "a key that nobody has accepted is shown by its fingerprint, and nothing is believed" {
    resolve 13
    says "$http/ok/keys/made.asc offers" "$fingerprint  Test <test@slipway.invalid>" "$other  Other" "--accept-key"
    [ ! -e "$XDG_CONFIG_HOME/slipway" ]
    resolve 13 --accept-key 0123456789ABCDEF0123456789ABCDEF01234567
    [ ! -e "$kept" ]
    resolve 2 --accept-key 0123
    says "40 hexadecimal digits"
    # Without a terminal nothing is asked; JSON has the reason, too.
    resolve 13 --json
    [[ $output == *"$fingerprint"* ]]
    # A server that cannot be reached is no matter of signatures: another try may succeed.
    sed -i 's,https://[^/]*/,https://127.0.0.1:9/,' "$BATS_TEST_TMPDIR/mirrors.ini"
    resolve 11
    says "key made: could not be fetched (https://127.0.0.1:9/ok/keys/made.asc: " "this machine has no /nonexistent/made.gpg" "try: try again later"
}

@test "an accepted key is kept, alone, and found again without the server" {
    resolve 0 --accept-key "${fingerprint:0:20} ${fingerprint:20}"
    says "$fingerprint  Test <test@slipway.invalid>: accepted, kept in $kept"
    [ "$(kept_keys)" = "$fingerprint" ]
    [ "$(asked "^200 /ok/keys/made.asc")" -eq 1 ]
    rm -rf "$BATS_TEST_TMPDIR/cache"
    resolve 0
    [ "$(asked "/keys/made.asc")" -eq 1 ]
    # It is no part of the cache.
    run_slipway 0 cache prune --all
    [ "$(kept_keys)" = "$fingerprint" ]
    rm -rf "$BATS_TEST_TMPDIR/cache"
    resolve 0
    # The other key is not believed: what it signs is refused.
    rm "$mirror/dists/bookworm/InRelease"
    gpg --batch --quiet --local-user Other --clearsign --output "$mirror/dists/bookworm/InRelease" "$BATS_TEST_TMPDIR/Release"
    resolve 13 --refresh
    says "which is not in"
}

@test "a key with the published fingerprint needs no word" {
    key_section "fingerprint = $fingerprint"
    resolve 0
    says "$fingerprint  Test <test@slipway.invalid>: matches the published fingerprint, kept in $kept"
    [ "$(kept_keys)" = "$fingerprint" ]
}

@test "another key than the published one is not believed" {
    gpg --batch --armor --export Other >"$mirror/keys/made.asc"
    key_section "fingerprint = $fingerprint"
    resolve 13
    says "which differs from the published one: $fingerprint" "$other  Other"
    [ ! -e "$kept" ]
}

@test "on a terminal the user is asked" {
    local answer
    for answer in n y; do
        run env SLIPWAY_CACHE="$BATS_TEST_TMPDIR/cache" python3 - "$answer" "$SLIPWAY" lint --kernel 6.1.0-56-amd64 --mirror "$mirror" <<'PY'
import os, pty, sys
answered = False
def read(fd):
    global answered
    data = os.read(fd, 4096)
    if b"[y/N]" in data and not answered:
        answered = True
        os.write(fd, sys.argv[1].encode() + b"\n")
    return data
pid, fd = pty.fork()
if pid == 0:
    os.execv(sys.argv[2], sys.argv[2:])
while True:
    try:
        data = read(fd)
    except OSError:
        break
    if not data:
        break
    os.write(1, data)
print("exit", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
PY
        echo "$output"
        says "$fingerprint  Test <test@slipway.invalid>" "Trust it from now on?"
        if [[ $answer == n ]]; then
            says "exit 13"
            [ ! -e "$kept" ]
        fi
    done
    [[ $output != *"exit 13"* ]]
    [ "$(kept_keys)" = "$(printf '%s\n' "$fingerprint" "$other" | sort)" ]
}

@test "a key that cannot be fetched, is none or comes over http: each its message" {
    key_section "fingerprint = $fingerprint"
    mv "$mirror/keys/made.asc" "$BATS_TEST_TMPDIR/"
    resolve 13
    says "key made: could not be fetched" "404" "try: give the key: --keyring FILE"
    echo "no key" >"$mirror/keys/made.asc"
    resolve 13
    says "no OpenPGP key that gpgv can read"
    cp "$BATS_TEST_TMPDIR/made.asc" "$mirror/keys/"
    # Of an authority that is not known.
    sed -i '/^certificate_authority/d' "$BATS_TEST_TMPDIR/mirrors.ini"
    resolve 13
    says "could not be fetched" "certificate"
    sed -i 's#https:#http:#' "$BATS_TEST_TMPDIR/mirrors.ini"
    resolve 2
    says "only over https"
    # With a key of one's own, or offline, none is fetched.
    : >"$BATS_TEST_TMPDIR/httpd.log"
    key_section
    resolve 0 --keyring "$BATS_TEST_TMPDIR/key.gpg"
    resolve 13 --offline --cache "$BATS_TEST_TMPDIR/other-cache"
    [ "$(asked .)" -eq 0 ]
}

# ---- out of the box

@test "Ubuntu's kernels are found without an option: the official mirror is asked" {
    stop_httpd
    # A proxy that answers for the archive, whose keys are here already.
    rm -rf "${mirror:?}"/{pool,dists}
    mkdir -p "$mirror/pool"
    VERSION=5.15.0-130.140 add_package linux-headers-5.15.0-130-generic "linux-headers-5.15.0-130"
    VERSION=5.15.0-130.140 add_package linux-headers-5.15.0-130
    VERSION=5.15.0-130.140 add_package linux-modules-5.15.0-130-generic
    local suite component
    for suite in jammy jammy-updates jammy-security; do
        for component in main restricted universe multiverse; do
            mkdir -p "$mirror/dists/$suite/$component/binary-amd64"
            : >"$mirror/dists/$suite/$component/binary-amd64/Packages"
        done
        publish "$suite"
    done
    mkdir -p "$XDG_CONFIG_HOME/slipway/keyrings"
    cp "$BATS_TEST_TMPDIR/key.gpg" "$XDG_CONFIG_HOME/slipway/keyrings/ubuntu.gpg"
    : >"$BATS_TEST_TMPDIR/apt/sources.list"
    : >"$BATS_TEST_TMPDIR/httpd.log"
    start_httpd
    export SLIPWAY_MIRRORS=/dev/null SLIPWAY_DATADIR=$repository
    http_proxy=$http run_slipway 0 resolve --os ubuntu22.04 5.15.0-130-generic
    says "ubuntu22.04" "http://archive.ubuntu.com/ubuntu/pool/linux-headers-5.15.0-130-generic_5.15.0-130.140_amd64.deb"
    for suite in jammy jammy-updates jammy-security; do
        [ "$(asked "^200 http://archive.ubuntu.com/ubuntu/dists/$suite/InRelease")" -eq 1 ]
    done
    # What the user says goes before it.
    printf '%s\n' '[ubuntu]' 'url = http://mine.invalid/ubuntu' >"$BATS_TEST_TMPDIR/mirrors.ini"
    SLIPWAY_MIRRORS=$BATS_TEST_TMPDIR/mirrors.ini http_proxy=$http run_slipway 0 resolve --os ubuntu22.04 5.15.0-130-generic --refresh
    says "http://mine.invalid/ubuntu/pool/"
}
