#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2154
# SPDX-License-Identifier: Apache-2.0
# build --kernel and --lock: which packages it takes, what is said when there are none, and when a mirror misbehaves.

load helpers
load repository
load kernel-from

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

# build KREL CODE [OPTION…]: with a source that is no package, so that only the kernel is looked for.
build() {
    run_slipway "$2" build --kernel "$1" --nvidia "$BATS_TEST_TMPDIR/nvidia" "${@:3}"
}

# What a failed build must leave: no half output, no file of a run, and lists that the next one can use.
nothing_is_left() {
    [ -z "$(ls -A "$BATS_TEST_TMPDIR/cache/runs")" ]
    [ -z "$(ls -A "$BATS_TEST_TMPDIR/cache/stages")" ]
}

@test "an unknown kernel is refused with the nearest of its flavour" {
    build 6.1.0-50-amd64 5
    says "kernel 6.1.0-50-amd64: no package linux-headers-6.1.0-50-amd64 in the lists of debian12" \
        "6.1.0-9-amd64, 6.1.0-47-amd64, 6.1.0-56-amd64" "try: slipway resolve --explain" "try: --kernel-from with its packages or folders"
    build 6.1.0-50-amd64 5 --os debian12
    says "try: --kernel-from with its packages or folders"
    [[ $output != *cloud* ]]
    nothing_is_left
}

@test "a kernel of one's own without headers that no list has: what to give, in the error itself" {
    make_modules "$BATS_TEST_TMPDIR/own" 6.6.9-own1
    run_slipway 5 build --os debian12 --nvidia "$BATS_TEST_TMPDIR/nvidia" --kernel-from "$BATS_TEST_TMPDIR/own"
    error=$(grep -A 9 '^slipway build: ' <<<"$output")
    [[ $error == *"--kernel-from has no headers to compile against"*"/lib/modules/6.6.9-own1/build"* ]]
    [[ $output != *linux-image-6.6.9* ]]
}

@test "a keyring without a key, and a key of mirrors.ini that there is not" {
    build 6.1.0-56-amd64 13 --keyring /etc/passwd
    [ "$(grep -c 'the file has no OpenPGP key' <<<"$output")" -eq 1 ]
    [[ $output != *"keyring package"* ]]
    printf '[main]\nurll = http://slipway.invalid/\n' >"$BATS_TEST_TMPDIR/mirrors.ini"
    SLIPWAY_MIRRORS=$BATS_TEST_TMPDIR/mirrors.ini build 6.1.0-56-amd64 2
    says "mirrors.ini:2: [main] urll: unknown" "known are url"
}

@test "what no kernel release can be is refused before anything is asked" {
    local name
    rm -rf "$mirror"
    for name in '6.1.0-.*-amd64' '6.1.0-5?-amd64' '6.1.0-56-amd64; true' '$(true)' '../6.1.0' '6.1.0 ' common; do
        build "$name" 22
        says "kernel release \"$name" "uname -r"
    done
    build -o 22
    says "does not start with a digit"
}

@test "newest is the newest of the plain flavour, by number" {
    build newest 12
    says "6.1.0-56-amd64"
    [[ $output != *6.1.0-57* && $output != *6.1.0-9-* ]]
}

@test "a headers package without a tree is named, and leaves nothing" {
    build 6.1.0-56-amd64 12
    says "6.1.0-56-amd64"
    nothing_is_left
}

@test "a package that a source needs and no list has is named" {
    run_slipway 6 build --kernel newest
    says "nvidia-open-kernel-source: the package for nvidia-source is not in the lists"
}

@test "with --nvidia none no package of NVIDIA's is looked for" {
    mkdir "$BATS_TEST_TMPDIR/ofed"
    touch "$BATS_TEST_TMPDIR/ofed"/{configure,makefile,Makefile}
    run_slipway 12 build --kernel newest --ofed "$BATS_TEST_TMPDIR/ofed" --nvidia none
    says "--nvidia none: no GPU image will be built" "6.1.0-56-amd64"
    [[ $output != *nvidia-open-kernel-source* ]]
}

@test "a package that is not what the index says is refused, and nothing of it is kept" {
    local package
    package=$(echo "$mirror"/pool/linux-headers-6.1.0-56-common_*.deb)
    printf 'damage' | dd of="$package" bs=1 seek=200 conv=notrunc status=none
    build 6.1.0-56-amd64 12
    says "linux-headers-6.1.0-56-common"
    [ ! -e "$BATS_TEST_TMPDIR/cache/blobs/sha256/$(sha256sum "$package" | cut -d' ' -f1)" ]
    nothing_is_left
}

@test "a kernel that was published after the lists were read is found" {
    build 6.1.0-50-amd64 5
    add_kernel 6.1.0-50-amd64
    publish
    build 6.1.0-50-amd64 12
    [[ $output != *"no package"* ]]
    says "6.1.0-50-amd64"
}

@test "a system that never ran apt-get update is enough" {
    rm -rf "$BATS_TEST_TMPDIR/apt/lists"
    mkdir -p "$BATS_TEST_TMPDIR/apt/lists/partial"
    [ -z "$(apt-get indextargets)" ]
    build 6.1.0-56-amd64 12
    [[ $output != *"no package"* ]]
}

@test "apt sources without the distribution are an error that says what to give" {
    : >"$BATS_TEST_TMPDIR/apt/sources.list"
    build newest 25
    says "--mirror debian=URL" "mirrors.ini"
}

@test "a distribution without a build root says that resolve works" {
    cp "$repository/kernels/catalogue/rocky9.ini" "$SLIPWAY_DATADIR/kernels/catalogue/"
    sed '/^family = /d' "$repository/kernels/catalogue/el.inc" >"$SLIPWAY_DATADIR/kernels/catalogue/el.inc"
    build 5.14.0-427.13.1.el9_4.x86_64 2 --os rocky9
    says "rocky9" "slipway resolve" "describes no build root"
}

@test "a lock is built from without any list" {
    run_slipway 0 resolve 6.1.0-56-amd64 -o "$BATS_TEST_TMPDIR/lock.json"
    rm -rf "$mirror/dists" "$BATS_TEST_TMPDIR/cache/indexes"
    run_slipway 12 build --lock "$BATS_TEST_TMPDIR/lock.json" --nvidia "$BATS_TEST_TMPDIR/nvidia"
    says "6.1.0-56-amd64"
    [[ $output != *dists* ]]
    [ -e "$BATS_TEST_TMPDIR/cache/blobs/sha256/$(jq -r '.packages[0].sha256' "$BATS_TEST_TMPDIR/lock.json")" ]
}

@test "a lock that lacks a source, is of another kernel, or is damaged is refused" {
    local lock=$BATS_TEST_TMPDIR/lock.json
    run_slipway 0 resolve 6.1.0-56-amd64 -o "$lock"
    run_slipway 2 build --lock "$lock"
    says "has no package for nvidia-source" "make a new lock: slipway resolve --nvidia debian"
    run_slipway 2 build --lock "$lock" --kernel 6.1.0-47-amd64 --nvidia "$BATS_TEST_TMPDIR/nvidia"
    says "is for kernel 6.1.0-56-amd64, but --kernel is 6.1.0-47-amd64"
    # A code name is the distribution that it stands for: what is refused is the missing source, as without --os.
    run_slipway 2 build --lock "$lock" --os bookworm
    says "has no package for nvidia-source"
    sed 's/"os":"debian12"/"os":"debian11"/' "$lock" >"$lock.other"
    run_slipway 2 build --lock "$lock.other" --os bookworm
    says "is for debian11, but --os is bookworm"
    run_slipway 2 build --lock "$lock" --os sarge
    says "--os sarge: unknown"
    sed -i 's/"krel":"6/"krel":"$(true)/' "$lock"
    run_slipway 12 build --lock "$lock" --nvidia "$BATS_TEST_TMPDIR/nvidia"
    says "lock $lock: lock: \"krel\"" "not a kernel release"
    head -c 300 "$lock" >"$lock.cut"
    run_slipway 12 build --lock "$lock.cut"
    says "no JSON"
    run_slipway 2 build --lock "$BATS_TEST_TMPDIR/none"
    says "$BATS_TEST_TMPDIR/none: No such file"
}

@test "a lock has one kind of NVIDIA's modules, and --kernel-module-type asks for no other" {
    local lock=$BATS_TEST_TMPDIR/lock.json name
    run_slipway 0 resolve 6.1.0-56-amd64 -o "$lock.none"
    for name in nvidia-open-kernel-source nvidia-kernel-source; do
        jq -c --arg name $name '.packages += [.packages[0] + {purpose: "nvidia-source", name: $name}]' "$lock.none" >"$lock.$name"
    done
    run_slipway 2 build --lock "$lock.nvidia-open-kernel-source" --kernel-module-type proprietary
    says "has nvidia-open-kernel-source, NVIDIA's open modules, but --kernel-module-type asks for the other kind" "try: make a new lock"
    run_slipway 2 build --lock "$lock.nvidia-kernel-source" --kernel-module-type open
    says "has nvidia-kernel-source, NVIDIA's proprietary modules, but --kernel-module-type asks for the other kind"
    # What it has, said or not, is taken: the headers, which are made up, are looked at next.
    for name in nvidia-open-kernel-source:open nvidia-kernel-source:proprietary; do
        run_slipway 12 build --lock "$lock.${name%:*}" --kernel-module-type "${name#*:}"
    done
    run_slipway 12 build --lock "$lock.nvidia-kernel-source"
}

@test "--compiler wants the name of a compiler's package" {
    build 6.1.0-56-amd64 2 --compiler 'gcc-12; true'
    says "not a package such as gcc-12 or clang-16"
}
