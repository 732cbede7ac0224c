#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# slipway sign: the same bytes as the kernel's own sign-file, keys of every kind, all modules or none.

load helpers

sign_file=/usr/lib/linux-kbuild-6.1/scripts/sign-file
token_library=/usr/lib/softhsm/libsofthsm2.so

pair() {
    openssl req -x509 -noenc -days 30 -subj "/O=Slipway/CN=$1" -keyout "$1.key" -out "$1.pem" "${@:2}" 2>/dev/null
}

setup_file() {
    cd "$BATS_FILE_TMPDIR" || return
    mkdir -p modules/sub
    local source
    for source in proprietary peer; do
        gcc -std=c11 -I"$repository" -O1 -ffreestanding -fno-pic -fno-stack-protector -r -nostdlib \
            -o "modules/sub/$source.ko" "$repository/tests/unit/fixtures/$source.c"
    done
    cp modules/sub/proprietary.ko modules/first.ko
    echo "no module" >modules/notes.txt
    pair rsa -newkey rsa:2048
    pair other -newkey rsa:2048
    pair ec -newkey ec -pkeyopt ec_paramgen_curve:P-256
    openssl pkey -in rsa.key -aes256 -passout pass:secret-words -out locked.key
}

setup() {
    cd "$BATS_FILE_TMPDIR" || return
    set_of_modules=$BATS_TEST_TMPDIR/set
    cp -r modules "$set_of_modules"
}

modules() {
    (cd "$1" && find . -name '*.ko' | sort)
}

unchanged() {
    diff -r modules "$set_of_modules"
}

# The part of a module that its signature covers, and the CMS message.
split_signed() {
    local size cms
    size=$(stat -c %s "$1")
    cms=$((16#$(tail -c 32 "$1" | head -c 4 | od -An -tx1 | tr -d ' \n')))
    head -c $((size - 40 - cms)) "$1" >"$BATS_TEST_TMPDIR/content"
    tail -c $((40 + cms)) "$1" | head -c "$cms" >"$BATS_TEST_TMPDIR/cms"
}

@test "RSA: byte for byte what the kernel's sign-file makes, for every hash" {
    local hash module
    for hash in sha1 sha256 sha384 sha512; do
        rm -rf "$set_of_modules"
        cp -r modules "$set_of_modules"
        run_slipway 0 sign --key rsa.key --cert rsa.pem --hash "$hash" "$set_of_modules"
        says "3 modules signed as rsa with $hash"
        for module in $(modules modules); do
            "$sign_file" "$hash" rsa.key rsa.pem "modules/$module" "$BATS_TEST_TMPDIR/theirs"
            cmp "$BATS_TEST_TMPDIR/theirs" "$set_of_modules/$module"
        done
    done
    cmp modules/notes.txt "$set_of_modules/notes.txt"
}

@test "ECDSA: OpenSSL accepts ours, import accepts sign-file's" {
    run_slipway 0 sign --key ec.key --cert ec.pem --hash sha256 "$set_of_modules"
    split_signed "$set_of_modules/first.ko"
    cmp "$BATS_TEST_TMPDIR/content" modules/first.ko
    openssl cms -verify -binary -inform DER -in "$BATS_TEST_TMPDIR/cms" -content modules/first.ko -certfile ec.pem \
        -nointern -noverify -out /dev/null

    local module digest
    mkdir "$BATS_TEST_TMPDIR/theirs"
    for module in $(modules modules); do
        "$sign_file" sha256 ec.key ec.pem "modules/$module" "$BATS_TEST_TMPDIR/signed"
        split_signed "$BATS_TEST_TMPDIR/signed"
        digest=$(sha256sum "modules/$module")
        mv "$BATS_TEST_TMPDIR/cms" "$BATS_TEST_TMPDIR/theirs/${digest%% *}.p7s"
    done
    rm -rf "$set_of_modules"
    cp -r modules "$set_of_modules"
    run_slipway 0 sign export --hash sha256 -o "$BATS_TEST_TMPDIR/digests.json" "$set_of_modules"
    run_slipway 0 sign import --cert ec.pem --digests "$BATS_TEST_TMPDIR/digests.json" "$set_of_modules" "$BATS_TEST_TMPDIR/theirs"
}

@test "mode and owner of a module stay" {
    chmod 640 "$set_of_modules/first.ko"
    chown 12:34 "$set_of_modules/first.ko"
    run_slipway 0 sign --key rsa.key --cert rsa.pem --hash sha256 "$set_of_modules"
    [ "$(stat -c '%a %u:%g' "$set_of_modules/first.ko")" = "640 12:34" ]
    [ -z "$(find "$set_of_modules" -name '*.slipway-*' -o -name '.slipway-*')" ]
}

@test "the hash comes from the kernel's configuration" {
    mkdir -p "$BATS_TEST_TMPDIR/build"
    printf 'CONFIG_MODULE_SIG=y\nCONFIG_MODULE_SIG_HASH="sha384"\n' >"$BATS_TEST_TMPDIR/build/.config"
    run_slipway 0 sign --key rsa.key --cert rsa.pem --kernel "$BATS_TEST_TMPDIR/build" --json "$set_of_modules"
    [ "$(jq -r '.hash, .certificate, (.modules | length), .replaced' <<<"$output" | tr '\n' ' ')" = "sha384 rsa 3 0 " ]
    printf '# CONFIG_MODULE_SIG is not set\n' >"$BATS_TEST_TMPDIR/build/.config"
    run_slipway 2 sign --key rsa.key --cert rsa.pem --kernel "$BATS_TEST_TMPDIR/build" --replace "$set_of_modules"
    says "without CONFIG_MODULE_SIG"
}

@test "the hash of an unpacked kernel package; a release that this machine does not have" {
    local package=$BATS_TEST_TMPDIR/package
    mkdir -p "$package/boot" "$package/lib/modules/6.1.0-9-test/kernel"
    printf 'CONFIG_MODULE_SIG=y\nCONFIG_MODULE_SIG_HASH="sha512"\n' >"$package/boot/config-6.1.0-9-test"
    run_slipway 0 sign --key rsa.key --cert rsa.pem --kernel "$package" "$set_of_modules"
    says "with sha512"
    cp "$package/boot/config-6.1.0-9-test" "$package/boot/config-6.1.0-8-test"
    run_slipway 2 sign --key rsa.key --cert rsa.pem --kernel "$package" --replace "$set_of_modules"
    says "it has several kernel releases"
    run_slipway 2 sign --key rsa.key --cert rsa.pem --kernel 6.1.0-9-test --replace "$set_of_modules"
    says "this machine has no configuration of a kernel with that release" "/boot/config-" "--hash"
    rm "$package/boot/"*
    run_slipway 2 sign --key rsa.key --cert rsa.pem --kernel "$package" --replace "$set_of_modules"
    says "it has no kernel configuration"
}

@test "signed modules are refused, --replace signs them anew" {
    "$sign_file" sha256 other.key other.pem "$set_of_modules/sub/proprietary.ko"
    run_slipway 2 sign --key rsa.key --cert rsa.pem --hash sha256 "$set_of_modules"
    says "sub/proprietary.ko: already signed" "--replace"
    cmp modules/first.ko "$set_of_modules/first.ko"
    run_slipway 0 sign --key rsa.key --cert rsa.pem --hash sha256 --replace "$set_of_modules"
    says "3 modules signed as rsa with sha256, 1 of them replaced"
    cmp "$set_of_modules/first.ko" "$set_of_modules/sub/proprietary.ko"
}

@test "one bad module: none is signed" {
    head -c 100 modules/first.ko >"$set_of_modules/sub/zzz.ko"
    run_slipway 2 sign --key rsa.key --cert rsa.pem --hash sha256 "$set_of_modules"
    says "sub/zzz.ko"
    rm "$set_of_modules/sub/zzz.ko"
    unchanged
}

@test "compressed modules are refused" {
    xz -k "$set_of_modules/first.ko"
    run_slipway 2 sign --key rsa.key --cert rsa.pem --hash sha256 "$set_of_modules"
    says "first.ko.xz" "sign the uncompressed module, then compress it"
}

@test "what a killed run left is put right" {
    # Killed while files were put in place: one is new, its old one is kept.
    mv "$set_of_modules/first.ko" "$set_of_modules/first.ko.slipway-before"
    echo "half" >"$set_of_modules/first.ko"
    echo "staged" >"$set_of_modules/sub/proprietary.ko.slipway-signed"
    run_slipway 0 sign export --hash sha256 -o "$BATS_TEST_TMPDIR/digests.json" "$set_of_modules"
    unchanged
    # Killed after all were in place: the old ones only have to go.
    cp "$set_of_modules/first.ko" "$set_of_modules/first.ko.slipway-before"
    cp "$set_of_modules/sub/peer.ko" "$set_of_modules/first.ko"
    touch "$set_of_modules/.slipway-sign-done"
    run_slipway 0 sign export --hash sha256 -o "$BATS_TEST_TMPDIR/digests.json" "$set_of_modules"
    cmp modules/sub/peer.ko "$set_of_modules/first.ko"
    [ -z "$(find "$set_of_modules" -name '*.slipway-*' -o -name '.slipway-*')" ]
}

@test "two runs on one folder: the second is refused" {
    exec {lock}<"$set_of_modules"
    flock -x "$lock"
    run_slipway 2 sign --key rsa.key --cert rsa.pem --hash sha256 "$set_of_modules"
    says "another slipway sign is working on it"
    exec {lock}<&-
    unchanged
}

@test "a full disk: nothing is signed" {
    local size
    mkdir "$BATS_TEST_TMPDIR/small"
    size=$(find "$set_of_modules" -type f -print0 | du -c --block-size=1 --files0-from=- | sed -n '$s/\ttotal//p')
    run unshare -m bash -c "
        mount -t tmpfs -o size=$((size + 4096)) none '$BATS_TEST_TMPDIR/small' &&
        cp -r '$set_of_modules/.' '$BATS_TEST_TMPDIR/small' && { '$SLIPWAY' sign --key rsa.key --cert rsa.pem --hash sha256 '$BATS_TEST_TMPDIR/small'; echo code \$?; } &&
        diff -r modules '$BATS_TEST_TMPDIR/small'"
    echo "$output"
    [ "$status" -eq 0 ]
    says "code 17" "No space left on device"
}

@test "a passphrase comes from a file, a descriptor or the environment" {
    run_slipway 13 sign --key locked.key --cert rsa.pem --hash sha256 "$set_of_modules"
    says "needs a passphrase"
    echo wrong-words >"$BATS_TEST_TMPDIR/password"
    run_slipway 13 sign --key locked.key --password-file "$BATS_TEST_TMPDIR/password" --cert rsa.pem --hash sha256 "$set_of_modules"
    says "the passphrase is wrong"
    [[ $output != *wrong-words:* ]]
    unchanged
    echo secret-words >"$BATS_TEST_TMPDIR/password"
    run_slipway 0 sign --key locked.key --password-file "$BATS_TEST_TMPDIR/password" --cert rsa.pem --hash sha256 "$set_of_modules"
    run_slipway 0 sign --replace --key locked.key --password-file <(echo secret-words) --cert rsa.pem --hash sha256 "$set_of_modules"
    run_slipway 0 sign --replace --key locked.key --password-fd 7 --cert rsa.pem --hash sha256 "$set_of_modules" 7<"$BATS_TEST_TMPDIR/password"
    KEY_WORDS=secret-words run_slipway 0 sign --replace --key locked.key --password-env KEY_WORDS --cert rsa.pem --hash sha256 "$set_of_modules"
    [[ $output != *secret-words* ]]
}

@test "key and certificate of two pairs are refused" {
    run_slipway 13 sign --key other.key --cert rsa.pem --hash sha256 "$set_of_modules"
    says "the private key does not belong to certificate rsa"
    unchanged
}

@test "a file without key, a file without certificate, no file at all" {
    run_slipway 2 sign --key rsa.pem --cert rsa.pem --hash sha256 "$set_of_modules"
    says "rsa.pem: not a private key"
    run_slipway 2 sign --key rsa.key --cert rsa.key --hash sha256 "$set_of_modules"
    says "rsa.key: not an X.509 certificate"
    run_slipway 2 sign --key none.key --cert rsa.pem --hash sha256 "$set_of_modules"
    says "none.key: cannot open the key: No such file"
    run_slipway 13 sign --key <(cat rsa.key) --cert rsa.pem --hash sha256 "$set_of_modules"
    says "a FIFO, device or socket, not a file" "try: use a key in a file, or in a token: pkcs11:" "only its password through a pipe: --password-fd N"
    run_slipway 2 sign --key rsa.key --cert rsa.pem --hash md5 "$set_of_modules"
    says "hash md5"
    run_slipway 2 sign --key rsa.key --cert rsa.pem --hash sha256 "$BATS_TEST_TMPDIR/none"
    says "cannot open the folder"
    run_slipway 2 sign --key rsa.key --cert none.pem --hash sha256 "$set_of_modules"
    says "none.pem: cannot read the certificate"
    run_slipway 2 sign --key rsa.key --cert rsa.pem --hash sha256 rsa.key
    says "rsa.key: cannot open the folder: Not a directory"
    mkdir "$BATS_TEST_TMPDIR/empty"
    run_slipway 2 sign --key rsa.key --cert rsa.pem --hash sha256 "$BATS_TEST_TMPDIR/empty"
    says "it has no .ko files"
}

@test "the command line is checked before anything is opened" {
    run_slipway 2 sign "$set_of_modules"
    says "--key is missing"
    run_slipway 2 sign --key rsa.key --hash sha256 "$set_of_modules"
    says "--cert is missing"
    run_slipway 2 sign --key rsa.key --cert rsa.pem "$set_of_modules"
    says "--hash or --kernel is missing"
    run_slipway 2 sign export --key rsa.key --hash sha256 "$set_of_modules"
    says "--key: export and import do not use the private key"
    run_slipway 2 sign import --cert rsa.pem "$set_of_modules"
    says "--digests is missing"
    run_slipway 0 sign --help
    says "--key" "--password-file" "export" "import" "--digests"
    [[ $output != *--mirror* ]]
}

# signatures FOLDER: what an HSM elsewhere does with the digests, as docs/build.md has it.
signatures() {
    local digest
    mkdir -p "$1"
    jq -r '.modules[].digest' "$BATS_TEST_TMPDIR/digests.json" | sort -u | while read -r digest; do
        basenc --base16 -d <<<"${digest^^}" | openssl pkeyutl -sign -inkey "$2" -pkeyopt digest:sha256 -out "$1/$digest.sig"
    done
}

@test "digests go out, signatures come back: the same bytes as with the key here" {
    run_slipway 0 sign export --hash sha256 -o "$BATS_TEST_TMPDIR/digests.json" "$set_of_modules"
    unchanged
    [ "$(jq -r '.schema, .hash, .modules["first.ko"].digest' "$BATS_TEST_TMPDIR/digests.json" | tr '\n' ' ')" = \
        "1 sha256 $(sha256sum <modules/first.ko | cut -d ' ' -f 1) " ]
    signatures "$BATS_TEST_TMPDIR/signatures" rsa.key
    run_slipway 0 sign import --cert rsa.pem --digests "$BATS_TEST_TMPDIR/digests.json" "$set_of_modules" "$BATS_TEST_TMPDIR/signatures"
    cp -r modules "$BATS_TEST_TMPDIR/here"
    run_slipway 0 sign --key rsa.key --cert rsa.pem --hash sha256 "$BATS_TEST_TMPDIR/here"
    diff -r "$BATS_TEST_TMPDIR/here" "$set_of_modules"
}

@test "import: wrong, missing and misnamed signatures, changed modules; nothing is signed" {
    run_slipway 0 sign export --hash sha256 -o "$BATS_TEST_TMPDIR/digests.json" "$set_of_modules"
    signatures "$BATS_TEST_TMPDIR/wrong" other.key
    run_slipway 13 sign import --cert rsa.pem --digests "$BATS_TEST_TMPDIR/digests.json" "$set_of_modules" "$BATS_TEST_TMPDIR/wrong"
    says "it does not match first.ko and certificate rsa" "try: sign with the key of this certificate"
    [[ $output != *stripped* ]]
    signatures "$BATS_TEST_TMPDIR/signatures" rsa.key
    touch "$BATS_TEST_TMPDIR/first.sig"
    run_slipway 2 sign import --cert rsa.pem --digests "$BATS_TEST_TMPDIR/digests.json" "$set_of_modules" "$BATS_TEST_TMPDIR/first.sig"
    says "named after the digest"
    rm "$BATS_TEST_TMPDIR/signatures/$(sha256sum <modules/first.ko | cut -d ' ' -f 1).sig"
    run_slipway 13 sign import --cert rsa.pem --digests "$BATS_TEST_TMPDIR/digests.json" "$set_of_modules" "$BATS_TEST_TMPDIR/signatures"
    says "$BATS_TEST_TMPDIR/signatures: no " ".sig, the signature of first.ko"
    unchanged
    mv "$set_of_modules/sub/proprietary.ko" "$set_of_modules/sub/new.ko"
    run_slipway 12 sign import --cert rsa.pem --digests "$BATS_TEST_TMPDIR/digests.json" "$set_of_modules" "$BATS_TEST_TMPDIR/wrong"
    says "sub/proprietary.ko was exported, but is now missing"
    mv "$set_of_modules/sub/new.ko" "$set_of_modules/sub/proprietary.ko"
    signatures "$BATS_TEST_TMPDIR/signatures" rsa.key
    cp modules/sub/proprietary.ko "$set_of_modules/sub/peer.ko"
    run_slipway 12 sign import --cert rsa.pem --digests "$BATS_TEST_TMPDIR/digests.json" "$set_of_modules" "$BATS_TEST_TMPDIR/signatures"
    says "sub/peer.ko: it was changed since the export"
    echo '{"schema":1' >"$BATS_TEST_TMPDIR/digests.json"
    run_slipway 2 sign import --cert rsa.pem --digests "$BATS_TEST_TMPDIR/digests.json" "$set_of_modules" "$BATS_TEST_TMPDIR/wrong"
    says "not JSON, at offset"
}

# A token in software with both keys, its PIN in TOKEN_PIN.
make_token() {
    export SOFTHSM2_CONF=$BATS_TEST_TMPDIR/softhsm2.conf TOKEN_PIN=4321
    export PKCS11_MODULE_PATH=$token_library PKCS11_PROVIDER_MODULE=$token_library
    mkdir "$BATS_TEST_TMPDIR/tokens"
    echo "directories.tokendir = $BATS_TEST_TMPDIR/tokens" >"$SOFTHSM2_CONF"
    softhsm2-util --init-token --free --label slipway --pin "$TOKEN_PIN" --so-pin 8765
    softhsm2-util --import rsa.key --token slipway --label rsa --id 01 --pin "$TOKEN_PIN"
    softhsm2-util --import ec.key --token slipway --label ec --id 02 --pin "$TOKEN_PIN"
}

@test "PKCS#11: a token's RSA key gives sign-file's bytes, its EC key a good signature" {
    make_token
    run_slipway 0 sign --key "pkcs11:token=slipway;object=rsa;type=private" --password-env TOKEN_PIN --cert rsa.pem --hash sha256 "$set_of_modules"
    "$sign_file" sha256 rsa.key rsa.pem modules/first.ko "$BATS_TEST_TMPDIR/theirs"
    cmp "$BATS_TEST_TMPDIR/theirs" "$set_of_modules/first.ko"
    run_slipway 0 sign --replace --key "pkcs11:token=slipway;object=ec;type=private" --password-env TOKEN_PIN --cert ec.pem --hash sha256 "$set_of_modules"
    [[ $output != *4321* ]]
}

@test "PKCS#11: wrong PIN, no PIN, no such key, the PIN in the URI" {
    make_token
    TOKEN_PIN=1111 run_slipway 13 sign --key "pkcs11:token=slipway;object=rsa;type=private" --password-env TOKEN_PIN --cert rsa.pem --hash sha256 "$set_of_modules"
    says "private key not found in the token, or the PIN is wrong"
    run_slipway 13 sign --key "pkcs11:token=slipway;object=rsa;type=private" --cert rsa.pem --hash sha256 "$set_of_modules" </dev/null
    says "without a PIN"
    run_slipway 13 sign --key "pkcs11:token=slipway;object=none;type=private" --password-env TOKEN_PIN --cert rsa.pem --hash sha256 "$set_of_modules"
    says "private key not found"
    run_slipway 2 sign --key "pkcs11:token=slipway;object=rsa?pin-value=4321" --cert rsa.pem --hash sha256 "$set_of_modules"
    says "contains the PIN"
    [[ $output != *4321* ]]
    unchanged
}
