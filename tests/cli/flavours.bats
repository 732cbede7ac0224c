#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# arm64 kernels with pages of 4 and of 16 KiB, from lists made for the test. The modules are x86 objects that say in their
# ELF header that they are for arm64: only what does not depend on a machine's code can be asked of them.

load helpers
load repository
load kernel-from
load modules

plain=6.12.117+deb12-arm64
large=6.12.117+deb12-arm64-16k

# kernel KREL LINE…: its two packages; the lines are of its configuration.
kernel() {
    local krel=$1 root=$BATS_TEST_TMPDIR/$1
    shift
    make_headers "$root/headers/usr/src/linux-headers-$krel" "$krel"
    sed -i /X86_64/d "$root/headers/usr/src/linux-headers-$krel/.config"
    printf '%s\n' CONFIG_ARM64=y "$@" >>"$root/headers/usr/src/linux-headers-$krel/.config"
    mkdir -p "$root/headers/lib/modules/$krel"
    ln -s "/usr/src/linux-headers-$krel" "$root/headers/lib/modules/$krel/build"
    make_modules "$root/image" "$krel"
    CONTENT=$root/headers add_package "linux-headers-$krel" gcc-12
    CONTENT=$root/image add_package "linux-image-$krel"
}

# arm_module FILE NAME FACT…
arm_module() {
    make_module "$@"
    # e_machine, elf(5): EM_AARCH64
    printf '\xb7\x00' | dd of="$1" bs=1 seek=18 conv=notrunc status=none
}

setup() {
    export ARCH=arm64
    make_repository
    kernel $plain CONFIG_ARM64_4K_PAGES=y
    kernel $large CONFIG_ARM64_16K_PAGES=y
    kernel 6.1.0-56-arm64
    publish
    mirrors=(--mirror "file:$mirror")
}

@test "newest is the architecture's plain flavour" {
    run_slipway 0 resolve newest --arch aarch64 "${mirrors[@]}"
    says "kernel    6.1.0-56-arm64" "aarch64"
    # Debian's name for it does as well.
    run_slipway 0 resolve newest --arch arm64 "${mirrors[@]}"
    says "kernel    6.1.0-56-arm64"
}

@test "without a kernel of the flavour the flavour is named" {
    rm "$mirror"/pool/*6.1.0*
    publish
    run_slipway 5 resolve newest --arch aarch64 --os debian12 "${mirrors[@]}"
    says "the lists of debian12 have no 6.1 kernel of flavour arm64"
}

@test "each page size has packages of its own" {
    run_slipway 0 resolve $large "${mirrors[@]}"
    says "linux-headers-$large" "linux-image-$large" "2 packages"
    run_slipway 0 resolve $plain "${mirrors[@]}"
    says "linux-headers-$plain " "2 packages"
}

@test "verify: modules of one page size are refused for the kernel of the other" {
    arm_module "$BATS_TEST_TMPDIR/large.ko" large vermagic="$large SMP mod_unload modversions aarch64" layout=0x99
    arm_module "$BATS_TEST_TMPDIR/small.ko" small vermagic="$plain SMP mod_unload modversions aarch64" layout=0x99
    run_slipway 3 verify "$BATS_TEST_TMPDIR/small.ko" --kernel $large "${mirrors[@]}"
    says "the module was built for $plain, not for $large"
    run_slipway 3 verify "$BATS_TEST_TMPDIR/large.ko" --kernel $plain "${mirrors[@]}"
    says "the module was built for $large, not for $plain"
}
