#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# slipway build --sign-key: what is wrong with a key comes out before anything is made, and what a kernel that enforces
# signatures means without one. Without a mirror a build ends once it has judged the kernel: exit 25.

load helpers
load kernel-from

krel=6.6.9-own1
judged=25

setup_file() {
    cd "$BATS_FILE_TMPDIR" || return
    local name
    for name in own other; do
        openssl req -x509 -newkey rsa:2048 -noenc -days 30 -subj "/CN=$name" -keyout "$name.key" -out "$name.pem" 2>/dev/null
    done
    openssl pkey -in own.key -aes256 -passout pass:secret-words -out locked.key
}

setup() {
    cd "$BATS_FILE_TMPDIR" || return
    root=$BATS_TEST_TMPDIR/root
    cache=$BATS_TEST_TMPDIR/cache
    make_gpu_sources
    stub_programs
    make_root "$root" "$krel"
}

# config LINE…: more of the kernel's configuration.
config() {
    printf '%s\n' "$@" >>"$root/usr/src/linux-headers-$krel/.config"
}

# build CODE OPTION…
build() {
    local code=$1
    shift
    run "${as_root[@]}" env PATH="$stubs" SLIPWAY_DATADIR="${SLIPWAY_DATADIR:-$repository}" SLIPWAY_CACHE="$cache" SLIPWAY_MIRRORS=/dev/null \
        "$SLIPWAY" build --os debian12 --nvidia "$BATS_TEST_TMPDIR/nvidia" --userspace "$BATS_TEST_TMPDIR/userspace" --kernel-from "$root" "$@"
    echo "slipway build $* -> $status"
    echo "$output"
    [ "$status" -eq "$code" ]
}

enforcing=(CONFIG_MODULE_SIG=y CONFIG_MODULE_SIG_FORCE=y CONFIG_MODULE_SIG_SHA384=y 'CONFIG_MODULE_SIG_HASH="sha384"')

@test "a kernel with MODULE_SIG_FORCE: without a key nothing is compiled, with one the build goes on" {
    config "${enforcing[@]}"
    build 24
    says "MODULE_SIG_FORCE=y: the kernel refuses modules that are not signed" "--sign-key"
    build "$judged" --sign-key own.key --sign-cert own.pem
    [[ $output != *"refuses modules"* ]]
    build "$judged" --force
    says "MODULE_SIG_FORCE=y: the kernel refuses modules that are not signed"
}

@test "a kernel in lockdown from its start: the same" {
    config CONFIG_MODULE_SIG=y CONFIG_MODULE_SIG_SHA256=y 'CONFIG_MODULE_SIG_HASH="sha256"' CONFIG_SECURITY_LOCKDOWN_LSM=y \
        CONFIG_LOCK_DOWN_KERNEL_FORCE_INTEGRITY=y
    build 24
    says "the kernel is in lockdown from boot" "--sign-key"
    build "$judged" --sign-key own.key --sign-cert own.pem
}

@test "the hash is the kernel's; a kernel that checks no signatures has none, and --sign-hash names one" {
    build 2 --sign-key own.key --sign-cert own.pem
    says "kernel $krel was built without CONFIG_MODULE_SIG" "try: --sign-hash HASH"
    build "$judged" --sign-key own.key --sign-cert own.pem --sign-hash sha512
    config "${enforcing[@]}"
    rm -rf "$cache"
    build "$judged" --sign-key own.key --sign-cert own.pem --sign-hash sha512
    says "--sign-hash sha512: the kernel's own modules are signed with sha384"
    build 2 --sign-key own.key --sign-cert own.pem --sign-hash md5
    says "hash md5: no kernel has it"
}

@test "a key that cannot sign is refused before the kernel is even looked at" {
    build 13 --sign-key other.key --sign-cert own.pem
    says "the private key does not belong to certificate own"
    build 13 --sign-key locked.key --sign-cert own.pem
    says "the key needs a passphrase"
    build 13 --sign-key locked.key --sign-cert own.pem --password-file own.pem
    says "the passphrase is wrong"
    build 2 --sign-key own.pem --sign-cert own.pem
    build 2 --sign-key no-such.key --sign-cert own.pem
    build 2 --sign-key own.key --sign-cert no-such.pem
    build 2 --sign-key own.key --sign-cert own.key
    says "not an X.509 certificate"
    build 2 --sign-key 'pkcs11:token=x;object=y?pin-value=1234' --sign-cert own.pem
    [[ $output != *1234* ]]
    [ ! -e "$cache/stages" ] || [ -z "$(ls "$cache/stages")" ]
}

@test "folders of digests and signatures are looked at before anything is made" {
    local digests=$BATS_TEST_TMPDIR/digests
    build 13 --sign-cert own.pem --sign-import "$digests"
    says "--sign-import: $digests/nvidia.json: No such file or directory"
    mkdir "$digests"
    echo '{"schema": 1, "hash": "sha256", "modules": {}}' >"$digests/nvidia.json"
    build 13 --sign-cert own.pem --sign-import "$digests"
    says "--sign-import: $digests/signatures: No such file or directory"
    build 9 --sign-cert own.pem --sign-hash sha256 --sign-export "$BATS_FILE_TMPDIR/own.pem/digests"
    says "--sign-export: the folder $BATS_FILE_TMPDIR/own.pem/digests: Not a directory"
    [ ! -e "$cache/stages" ] || [ -z "$(ls "$cache/stages")" ]
    mkdir "$digests/signatures"
    build "$judged" --sign-cert own.pem --sign-hash sha256 --sign-import "$digests"
}

@test "the password comes from a file, a descriptor or the environment" {
    config "${enforcing[@]}"
    echo secret-words >"$BATS_TEST_TMPDIR/password"
    build "$judged" --sign-key locked.key --sign-cert own.pem --password-file "$BATS_TEST_TMPDIR/password"
    build "$judged" --sign-key locked.key --sign-cert own.pem --password-fd 9 9<"$BATS_TEST_TMPDIR/password"
    secret=secret-words build "$judged" --sign-key locked.key --sign-cert own.pem --password-env secret
}

@test "the command line is checked before anything is opened" {
    build 2 --sign-key own.key
    says "--sign-key needs --sign-cert"
    build 2 --sign-cert own.pem
    says "--sign-cert needs --sign-key, --sign-export or --sign-import"
    build 2 --sign-hash sha256
    says "--sign-hash needs --sign-key"
    build 2 --password-file /dev/null
    says "--password-file needs --sign-key"
    build 2 --sign-export "$BATS_TEST_TMPDIR/digests"
    says "--sign-export needs --sign-cert"
    build 2 --sign-key own.key --sign-cert own.pem --sign-import "$BATS_TEST_TMPDIR/digests"
    says "--sign-key and --sign-import cannot be combined"
    build 2 --sign-cert own.pem --sign-import "$BATS_TEST_TMPDIR/digests" --password-file /dev/null
    says "the password belongs to a key"
    build 2 --sign-key own.key --sign-cert own.pem --password-fd nine
    says "not a number"
    build 2 --sign-key own.key --sign-cert own.pem --password-fd 0 --password-file /dev/null
    says "only one of --password-file, --password-fd and --password-env"
    build 2 --sign-key own.key --sign-cert own.pem --password-env no_such_variable
    says "this environment variable is not set"
}
