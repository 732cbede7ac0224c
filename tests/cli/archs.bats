#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# slipway build for several architectures: which kernels and options go together, and what is said when one of the builds
# cannot be. Both builds and the indexes of them: tests/real/arm64.bats.

load helpers
load installer

# several CODE OPTION…: of both architectures.
several() {
    cd "$BATS_TEST_TMPDIR" || return
    run_slipway "$1" build --ofed reference --nvidia none --output out "${@:2}"
}

# recipe FUNCTION VARIABLE=VALUE…: of lib.sh and host-tools.sh, which only recipes source.
recipe() {
    run env SLIPWAY_KREL=6.1.0-57-arm64 SLIPWAY_ARCH=aarch64 "${@:2}" bash -c \
        ". '$repository/containers/recipes/lib.sh'; . '$repository/containers/recipes/host-tools.sh'; kernel_build=\$TREE kernel_source=\$TREE; $1"
    echo "$output"
    [ "$status" -eq 1 ]
}

@test "a release for each architecture, or one that names none" {
    several 2 6.1.0-57-amd64 --arch x86_64,arm64
    says "--kernel 6.1.0-57-amd64: it is for x86_64, and --arch names several architectures" \
        "try: a release for each, if there are such: --kernel 6.1.0-57-amd64,6.1.0-57-arm64"
    several 2 5.14.0-427.el9.aarch64+64k --arch x86_64,arm64
    says "--kernel 5.14.0-427.el9.x86_64+64k,5.14.0-427.el9.aarch64+64k"
    several 2 6.1.0-57-amd64,6.1.0-57-cloud-amd64
    says "6.1.0-57-cloud-amd64 is the second release for x86_64" "try: one build for each of them, then slipway combine"
    several 2 6.1.0-57-amd64,newest
    says "--kernel: newest is in a list, which has a release for each architecture, and it names none"
    several 2 6.1.0-57-amd64,6.1.0-57-arm64 --arch x86_64
    says "6.1.0-57-arm64 is in a list, which has a release for each architecture, and --arch has no aarch64"
    several 2 6.1.0-57-amd64,6.1.0-57-arm64 --arch x86_64,arm64,riscv64
    says "the list has no release for riscv64, which --arch names"
    several 2 newest --arch x86_64,arm65
    says "--arch arm65: unknown architecture"
    several 2 newest --arch x86_64,amd64
    says "--arch: x86_64 is given twice"
    local list
    for list in 'x86_64,' ',x86_64' 'x86_64,,arm64' ','; do
        several 2 newest --arch "$list"
        says "--arch $list: unknown architecture"
    done
    [ ! -e out ]
}

@test "files, folders and images for one architecture are not for several, nor is a place without folders" {
    local option
    for option in --lock --kernel-from --userspace --base --base-image; do
        run_slipway 2 build newest --arch x86_64 --arch arm64 --output out $option x
        says "$option cannot be combined with several architectures" "try: one slipway build for each architecture, then slipway index"
    done
    several 2 newest --arch x86_64,arm64 --sources-image
    says "--sources-image cannot be combined with several architectures: the images would have this program, which is for one"
    run_slipway 2 build newest --arch x86_64,arm64
    says "--output containers-storage:" "need a folder: --output DIR"
    run_slipway 2 build newest --arch x86_64,arm64 --output oci-archive:x
    says "need a folder: --output DIR"
}

@test "a release that contradicts --arch is refused as that, by every verb" {
    local verb
    for verb in "build --ofed reference" resolve lint "bundle --ofed reference --output b --kernel"; do
        # shellcheck disable=SC2086
        run_slipway 2 $verb 6.1.0-57-amd64 --arch arm64
        says "--arch aarch64: kernel 6.1.0-57-amd64 is for x86_64" "try: leave out --arch" "try: use 6.1.0-57-arm64, if there is such a kernel"
    done
}

@test "a kernel whose cross compiler the catalogue does not have is refused before anything is asked" {
    run_slipway 24 build 5.14.0-427.13.1.el9_4.aarch64 --os rocky9 --ofed "$repository/tests/real/smallest-ofed" --nvidia none --offline
    says "kernel-foreign-arch: the kernel is for aarch64, this machine is x86_64, and the catalogue of rocky9 names no cross compiler" \
        "try: a build root that has one of the kernel's version: --root debian12"
    run_slipway 2 build 6.1.0-57-s390x --os debian12 --ofed "$repository/tests/real/smallest-ofed" --nvidia none --offline
    says "images are built for nodes of x86_64 and aarch64, not of s390x"
}

@test "a userspace for another architecture is refused by name" {
    mkdir -p "$BATS_TEST_TMPDIR/userspace/firmware"
    cp "$(command -v jq)" "$BATS_TEST_TMPDIR/userspace/libcuda.so.595.58.03"
    touch "$BATS_TEST_TMPDIR/userspace"/{libnvidia-ml.so.595.58.03,nvidia-smi,firmware/gsp.bin}
    run_slipway 6 build newest --os debian12 --arch arm64 --offline --nvidia debian --userspace "$BATS_TEST_TMPDIR/userspace"
    says "the userspace is for x86_64, but the images are for aarch64" "try: unpack NVIDIA-Linux-aarch64-"
}

@test "recipes refuse what they cannot run or bind to: no cross compiler, programs of the tree, an OFED of x86-64" {
    local tree=$BATS_TEST_TMPDIR/tree ofed=$BATS_TEST_TMPDIR/ofed name
    mkdir -p "$tree/scripts/basic" "$ofed/usr/src/ofa_kernel/x86_64/6.1.0-57-arm64" "$BATS_TEST_TMPDIR/bin"
    touch "$tree/scripts/basic/fixdep" "$ofed/usr/src/ofa_kernel/x86_64/6.1.0-57-arm64/Module.symvers"
    for name in bash basename; do
        ln -s "$(command -v $name)" "$BATS_TEST_TMPDIR/bin/"
    done
    ln -s /bin/true "$BATS_TEST_TMPDIR/bin/gcc-12"
    recipe require_inputs PATH="$BATS_TEST_TMPDIR/bin" TREE="$tree" SLIPWAY_KERNEL=x SLIPWAY_SOURCE=x SLIPWAY_OUTPUT=x SLIPWAY_WORK=x \
        SLIPWAY_CC=gcc-12 SLIPWAY_JOBS=1 CROSS_COMPILE=aarch64-linux-gnu- ARCH=arm64
    says "no aarch64-linux-gnu-gcc-12 in the build root: add its package to cross_packages"
    recipe make_host_tools PATH="$BATS_TEST_TMPDIR/bin" TREE="$tree"
    says "the kernel tree has fixdep for aarch64 only, neither scripts/basic/fixdep.c to compile it for this machine nor qemu-aarch64"
    recipe require_ofed TREE="$tree" SLIPWAY_OFED="$ofed"
    says "the OFED module set has no symvers for 6.1.0-57-arm64 ($ofed/usr/src/ofa_kernel/aarch64/6.1.0-57-arm64/Module.symvers)"
}

@test "other verbs take one architecture at a time" {
    local verb
    for verb in resolve lint verify; do
        run_slipway 2 $verb 6.1.0-57-generic --arch x86_64,arm64
        says "slipway $verb takes one architecture at a time" "try: --arch x86_64"
        run_slipway 0 $verb --help
        [[ $output == *"--arch ARCH "* && $output != *"or a list"* ]]
    done
    for verb in build plan; do
        run_slipway 0 $verb --help
        says "or a list, x86_64,aarch64 [that of the kernel or the images"
    done
}

# Of both builds, and by each installer's own name.
@test "all builds are looked at before one of them compiles" {
    local version=595.58.03
    mkdir "$BATS_TEST_TMPDIR/tree"
    echo NVIDIA >"$BATS_TEST_TMPDIR/tree/.manifest"
    make_run "$BATS_TEST_TMPDIR/tree" "$BATS_TEST_TMPDIR/NVIDIA-Linux-x86_64-$version.run" $version
    cd "$BATS_TEST_TMPDIR"
    export SLIPWAY_MIRRORS=/dev/null
    several_gpu() { run_slipway "$1" build newest --os debian12 --offline --arch arm64,x86_64 --output out --nvidia "${@:2}"; }
    several_gpu 6 "NVIDIA-Linux-x86_64-$version.run"
    says "==> aarch64: check" "the installer is for x86_64, but the images are for aarch64: download NVIDIA-Linux-aarch64-$version.run" \
        "==> x86_64: check" "its package lists are not in the cache" "not built for aarch64, x86_64; nothing was compiled" \
        $'\n'"  aarch64: a driver source is missing" $'\n'"  x86_64: offline, but something is not in the cache"
    # Its version is enough for both.
    make_run "$BATS_TEST_TMPDIR/tree" "$BATS_TEST_TMPDIR/NVIDIA-Linux-aarch64-$version.run" $version aarch64
    several_gpu 21 $version --json
    says "/NVIDIA-Linux-aarch64-$version.run\"" "/NVIDIA-Linux-x86_64-$version.run\""
    [ "$(grep '^{' <<<"$output" | jq -r 'select(.event == "arch" or .event == "failed") | "\(.arch) \(.step) \(.exit_code)"' | xargs)" = \
        "aarch64 check null null null 21 x86_64 check null null null 21 null null 21" ]
    says '"message":"not built for aarch64, x86_64; nothing was compiled'
    [ ! -e out ]
}
