#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# slipway build --sign-key for real: one small module, the newest kernel of Debian 12, this machine's cache. What is
# signed, what is kept, and that no trace of the key is anywhere.

bats_require_minimum_version 1.5.0
load ../verdict

setup_file() {
    top=$(realpath "$BATS_TEST_DIRNAME/../..")
    slipway=$(cd "$top" && realpath -m "${O:-build}")/slipway
    cache=${SLIPWAY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/slipway}
    folder=$BATS_FILE_TMPDIR
    # What a password of no other test is found by.
    password=Trace-of-a-password-$$-$(od -An -N8 -tx8 /dev/urandom | tr -d ' ')
    export top slipway cache folder
    cd "$folder" || return
    openssl req -x509 -newkey rsa:2048 -noenc -days 30 -subj "/O=Slipway/CN=Slipway real test" -keyout own.key -out own.pem 2>/dev/null
    openssl x509 -in own.pem -outform DER -out own.der
    openssl pkey -in own.key -aes256 -passout "pass:$password" -out locked.key
    openssl req -x509 -newkey rsa:2048 -noenc -days 30 -subj "/CN=other" -keyout other.key -out other.pem 2>/dev/null
    echo "$password" >password
    : >started
}

# Not exported: the programs of a build would have it in their environment from us.
setup() {
    password=$(cat "$folder/password")
}

teardown_file() {
    # This test's certificate is of no use later.
    find "$cache/stages" -maxdepth 1 -name 'ofed-signed-*' -newer "$folder/started" -exec rm -rf {} +
}

# build OUTPUT OPTION…: with a tag of its own, because other files of this layer build the same beside it.
build() {
    local to=$folder/$1
    shift
    "$slipway" build --kernel newest --os debian12 --ofed "$top/tests/real/smallest-ofed" --nvidia none --revision 9 --output "$to" "$@"
}

# new_certificate NAME: one more of the same key, for which nothing is in the cache.
new_certificate() {
    openssl req -x509 -key "$folder/own.key" -days 30 -subj "/CN=$1" -out "$folder/$1.pem"
}

# image_module OUTPUT FILE: the module as it lies in the image.
image_module() {
    mkdir -p "$folder/unpacked"
    rm -rf "$folder/unpacked/"*
    tar -xf "$folder/$1/nic.oci.tar" -C "$folder/unpacked"
    local layer found=''
    for layer in "$folder"/unpacked/blobs/sha256/*; do
        tar -xOf "$layer" --wildcards '*/smallest.ko' >"$2" 2>/dev/null || continue
        [[ ! -s $2 ]] || found=1 && break
    done
    [[ -n $found && -s $2 ]]
}

image_label() {
    buildah inspect --type image "$(jq -r '.images[0].id' "$folder/$1/images.json")" | jq -r --arg name "$2" '.OCIv1.config.Labels[$name]'
}

@test "the module in the image is signed, by the kernel's own hash, and the proof has checked it" {
    build signed --sign-key "$folder/own.key" --sign-cert "$folder/own.pem"
    image_module signed "$folder/signed.ko"
    [[ $(modinfo -F signer "$folder/signed.ko") == "Slipway real test" ]]
    [[ $(modinfo -F sig_hashalgo "$folder/signed.ko") == sha256 ]]
    jq -e '.verdict == "will load" and .modules[0].signer.hash == "sha256" and .kernel.signatures_enforced_by == "--sign-key"' "$folder/signed/proof.json"
    [[ $(image_label signed io.slipway.signed-by) == "Slipway real test" ]]
    [[ $(image_label signed io.slipway.proof) == holds ]]
    [[ $(image_label signed io.slipway.proof.modules) == 1 ]]
    build plain
    image_module plain "$folder/plain.ko"
    # Stripped and signed: but for the signature it is the very module.
    cmp -n "$(stat -c %s "$folder/plain.ko")" "$folder/plain.ko" "$folder/signed.ko"
    [[ -z $(modinfo -F signer "$folder/plain.ko") ]]
    one_verdict "$folder/plain" --kernel newest --os debian12
    one_verdict "$folder/signed" --kernel newest --os debian12 --enforce-signatures --trust "$folder/own.pem"
}

@test "another file of the same key, another password, DER for PEM: the same set, and nothing is signed again" {
    run build again --sign-key "$folder/locked.key" --sign-cert "$folder/own.der" --password-file "$folder/password"
    [[ $status -eq 0 && $output != *"signed as"* ]]
    cmp "$folder/signed/nic.oci.tar" "$folder/again/nic.oci.tar"
    cp "$folder/own.key" "$folder/elsewhere.key"
    secret=$password run build again --sign-key "$folder/locked.key" --sign-cert "$folder/own.pem" --password-env secret
    [[ $status -eq 0 && $output == *"Nothing to do"* ]]
    run build again --sign-key "$folder/elsewhere.key" --sign-cert "$folder/own.pem"
    [[ $status -eq 0 && $output == *"Nothing to do"* ]]
}

@test "another certificate, and another hash, are other sets" {
    run build other --sign-key "$folder/other.key" --sign-cert "$folder/other.pem"
    [[ $status -eq 0 && $output == *"1 module signed as other with sha256"* ]]
    run build other --sign-key "$folder/own.key" --sign-cert "$folder/own.pem" --sign-hash sha512
    [[ $status -eq 0 && $output == *"1 module signed as Slipway real test with sha512"* ]]
}

# holds_trace FILE|FOLDER|@LIST…, a list with a NUL behind each name: exit 0 when a file has bytes of the key (of its private exponent and primes, bare and as PEM
# has them) or the password, 3 when none has; what has them is printed.
holds_trace() {
    openssl rsa -in "$folder/own.key" -outform DER -traditional -out "$folder/key.der" 2>/dev/null
    python3 - "$folder" "$password" "$@" <<'PYTHON'
import os, sys

folder, password = sys.argv[1:3]
der = open(folder + "/key.der", "rb").read()
traces = [password.encode(), der[320:352], der[700:732]]
for name, numbers in (("own.key", (5, 15)), ("locked.key", (5, 15))):
    lines = open(folder + "/" + name, "rb").read().splitlines()
    traces += [lines[number] for number in numbers]
assert all(len(trace) >= 32 for trace in traces)
found = count = 0
starts = [name for name in sys.argv[3:] if name[0] != "@"]
for name in sys.argv[3:]:
    if name[0] == "@":
        starts += filter(None, open(name[1:], encoding="utf-8", errors="surrogateescape").read().split("\0"))
for start in starts:
    for top, _, names in os.walk(start) if os.path.isdir(start) else [("", "", [start])]:
        for path in (os.path.join(top, name) for name in names):
            if os.path.isfile(path) and not os.path.islink(path):
                count += 1
                try:
                    data = open(path, "rb").read()
                except FileNotFoundError:  # of a run beside this one
                    continue
                if any(trace in data for trace in traces):
                    print("bytes of the key or the password are in", path)
                    found += 1
print(count, "files were read")
assert count
sys.exit(0 if found else 3)
PYTHON
}

@test "no bytes of the key and no password are in the cache, the logs, the images and what the programs were called with" {
    local file
    cat "$folder/own.key" "$folder/own.pem" >"$folder/both"
    for file in own.key locked.key both password; do
        holds_trace "$folder/$file"
    done
    run -3 holds_trace "$folder/own.pem"
    # The set, the proof and the image of a new certificate are made before strace's eyes.
    new_certificate traced
    secret=$password strace -f -v -s 100000 -e trace=execve -o "$folder/trace.log" \
        "$slipway" build --kernel newest --os debian12 --ofed "$top/tests/real/smallest-ofed" --nvidia none \
        --revision 9 --output "$folder/traced" --sign-key "$folder/locked.key" --sign-cert "$folder/traced.pem" --password-env secret >"$folder/said" 2>&1 || { tail -n 5 "$folder/said"; return 1; }
    grep -q "module signed as" "$folder/said"
    # The first line is slipway's own start, with the environment that we gave it.
    tail -n +2 "$folder/trace.log" >"$folder/children.log"
    grep -q execve "$folder/children.log"
    run -3 holds_trace "$folder/said" "$folder/children.log" "$folder/traced" "$folder/signed"
    # find fails if another run removes a file that it has just listed.
    find "$cache" -xdev -newer "$folder/started" -type f -print0 >"$folder/new" || true
    run -3 holds_trace "@$folder/new"
    mkdir -p "$folder/layers"
    tar -xf "$folder/traced/nic.oci.tar" -C "$folder/layers"
    local layer
    for layer in "$folder"/layers/blobs/sha256/*; do
        gzip -dc "$layer" >"$layer.plain" 2>/dev/null || cp "$layer" "$layer.plain"
    done
    run -3 holds_trace "$folder/layers"
}

# What stands in for the machine that has the key: docs/build.md's own commands.
sign_digests() {
    local digest
    jq -r '.modules[].digest' "$1"/*.json | sort -u | while read -r digest; do
        basenc --base16 -d <<<"${digest^^}" |
            openssl pkeyutl -sign -inkey "$2" -pkeyopt digest:sha256 -out "$1/signatures/$digest.sig"
    done
}

@test "a key that is elsewhere: digests go out, signatures come back, and it is the set that the key here makes" {
    new_certificate away
    run -0 build away --sign-cert "$folder/away.pem" --sign-export "$folder/digests"
    [[ $output == *"The digests of 1 module are in $folder/digests"* ]]
    [[ ! -e $folder/away/nic.oci.tar ]]
    run -13 build away --sign-cert "$folder/away.pem" --sign-import "$folder/digests"
    [[ $output == *"$folder/digests/signatures: no "*".sig, the signature of ofed/smallest.ko"* ]]
    sign_digests "$folder/digests" "$folder/other.key"
    run -13 build away --sign-cert "$folder/away.pem" --sign-import "$folder/digests"
    [[ ! -e $folder/away/nic.oci.tar ]]
    sign_digests "$folder/digests" "$folder/own.key"
    build away --sign-cert "$folder/away.pem" --sign-import "$folder/digests"
    run -0 build away --sign-cert "$folder/away.pem" --sign-key "$folder/own.key"
    [[ $output == *"Nothing to do"* ]]
    image_module away "$folder/away.ko"
    mkdir "$folder/here"
    cp "$folder/plain.ko" "$folder/here/smallest.ko"
    "$slipway" sign --key "$folder/own.key" --cert "$folder/away.pem" --hash sha256 "$folder/here"
    cmp "$folder/away.ko" "$folder/here/smallest.ko"
}

@test "a key in a token: the set that the same key in a file makes" {
    export SOFTHSM2_CONF=$BATS_TEST_TMPDIR/softhsm2.conf PKCS11_MODULE_PATH=/usr/lib/softhsm/libsofthsm2.so
    export PKCS11_PROVIDER_MODULE=$PKCS11_MODULE_PATH
    mkdir "$BATS_TEST_TMPDIR/tokens"
    echo "directories.tokendir = $BATS_TEST_TMPDIR/tokens" >"$SOFTHSM2_CONF"
    softhsm2-util --init-token --free --label slipway --pin 4321 --so-pin 8765
    softhsm2-util --import "$folder/own.key" --token slipway --label own --id 01 --pin 4321
    new_certificate token
    echo 4321 >"$folder/pin"
    run -0 build token --sign-cert "$folder/token.pem" --sign-key "pkcs11:token=slipway;object=own;type=private" --password-file "$folder/pin"
    [[ $output == *"1 module signed as token with sha256"* && $output != *4321* ]]
    image_module token "$folder/token.ko"
    mkdir "$folder/file"
    cp "$folder/plain.ko" "$folder/file/smallest.ko"
    "$slipway" sign --key "$folder/own.key" --cert "$folder/token.pem" --hash sha256 "$folder/file"
    cmp "$folder/token.ko" "$folder/file/smallest.ko"
    run -13 build token --sign-cert "$folder/token.pem" --sign-key "pkcs11:token=slipway;object=none;type=private" --password-file "$folder/pin"
}

@test "a key that is not the certificate's: nothing is made" {
    run -13 build none --sign-key "$folder/other.key" --sign-cert "$folder/own.pem"
    [[ ! -e $folder/none/nic.oci.tar ]]
}
