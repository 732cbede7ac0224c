#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2154
# SPDX-License-Identifier: Apache-2.0
# --kernel: which package it finds, what is said when there is none, and when a mirror misbehaves.

load helpers
load repository

setup() {
    make_repository
    add_kernel 6.1.0-9-amd64
    add_kernel 6.1.0-47-amd64
    add_kernel 6.1.0-56-amd64
    add_kernel 6.1.0-57-cloud-amd64
    add_package linux-compiler-gcc-12-x86 gcc-12
    publish
    update_system
    mkdir -p "$BATS_TEST_TMPDIR/nvidia/kernel-open"
}

# build KREL CODE: with a source that is no package, so that only the kernel is looked for.
build() {
    run_slipway "$2" build --kernel "$1" --nvidia "$BATS_TEST_TMPDIR/nvidia"
}

@test "an unknown kernel is refused with the nearest of its flavour" {
    build 6.1.0-50-amd64 5
    says "kernel 6.1.0-50-amd64: no package linux-headers-6.1.0-50-amd64 in debian12's lists" \
        "6.1.0-9-amd64, 6.1.0-47-amd64, 6.1.0-56-amd64"
    [[ $output != *cloud* ]]
}

@test "a kernel's name is never a pattern" {
    local name
    for name in '6.1.0-.*-amd64' '6.1.0-5?-amd64' '6.1.0-56-amd64; true' '$(true)' '../6.1.0' '-o' 'common' ''; do
        [[ -n $name ]] || continue
        build "$name" 5
        says "no package linux-headers-$name"
    done
}

@test "newest is the newest of the plain flavour, by number" {
    build newest 12
    says "6.1.0-56-amd64"
    [[ $output != *6.1.0-57* && $output != *6.1.0-9-* ]]
}

@test "a headers package without a prepared tree is named" {
    build 6.1.0-56-amd64 12
    says "kernel tree: lib/modules/6.1.0-56-amd64/build"
}

@test "a package that a source needs and nobody has is named" {
    run_slipway 6 build --kernel newest
    says "nvidia-open-kernel-source: not in the package lists"
}

@test "with --nvidia none no package of NVIDIA's is looked for" {
    mkdir "$BATS_TEST_TMPDIR/ofed"
    touch "$BATS_TEST_TMPDIR/ofed"/{configure,makefile,Makefile}
    run_slipway 12 build --kernel newest --ofed "$BATS_TEST_TMPDIR/ofed" --nvidia none
    says "--nvidia none: there will be no GPU image" "6.1.0-56-amd64"
    [[ $output != *nvidia-open-kernel-source* ]]
}

@test "an index that was changed after signing is refused" {
    echo >>"$mirror/dists/bookworm/main/binary-amd64/Packages"
    build newest 11
    says "fetching the package lists"
}

@test "an index that a stranger signed is refused" {
    rm -rf "$BATS_TEST_TMPDIR/gnupg"
    mkdir -m 700 "$BATS_TEST_TMPDIR/gnupg"
    gpg --batch --quiet --passphrase '' --quick-generate-key 'Stranger <s@slipway.invalid>' ed25519 sign never
    publish
    build newest 11
    says "fetching the package lists"
}

@test "a package that is not what the index says is refused, and nothing of it is kept" {
    local package
    package=$(echo "$mirror"/pool/linux-headers-6.1.0-56-common_*.deb)
    printf 'damage' | dd of="$package" bs=1 seek=200 conv=notrunc status=none
    build 6.1.0-56-amd64 11
    says "downloading packages"
    [ -z "$(ls -A "$BATS_TEST_TMPDIR/cache/blobs/sha256")" ]
}

@test "a dead mirror is a network error; with lists at hand it is a warning only" {
    build 6.1.0-50-amd64 5
    mv "$mirror" "$mirror.gone"
    touch -d '1 day ago' "$BATS_TEST_TMPDIR/cache/apt/debian12/stamp"
    build newest 11
    says "fetching the package lists"
    rm -rf "$BATS_TEST_TMPDIR/cache"
    build newest 11
    says "fetching the package lists"
}

@test "a kernel that was published after the lists were read is found" {
    build 6.1.0-50-amd64 5
    add_kernel 6.1.0-50-amd64
    publish
    build 6.1.0-50-amd64 12
    says "kernel tree: lib/modules/6.1.0-50-amd64/build"
}

@test "a system that never ran apt-get update is enough" {
    rm -rf "$BATS_TEST_TMPDIR/apt/lists"
    mkdir -p "$BATS_TEST_TMPDIR/apt/lists/partial"
    [ -z "$(apt-get indextargets)" ]
    build 6.1.0-56-amd64 12
    says "kernel tree: lib/modules/6.1.0-56-amd64/build"
}

@test "apt sources without the distribution are an error that says what to add" {
    : >"$BATS_TEST_TMPDIR/apt/sources.list"
    build newest 11
    says "the system's apt sources have no Debian bookworm repository"
}
