#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# make check-full: the agreement test with more modules and mutants, by another seed than the ordinary run's, and with kernels
# for arm64.

load ../helpers
load ../agreement/agreement

setup_file() {
    prepare_agreement
    prepare_arm64
    export AGREEMENT_SEED=${AGREEMENT_SEED:-2} AGREEMENT_COUNT=${AGREEMENT_COUNT:-2500} AGREEMENT_PRISTINE=${AGREEMENT_PRISTINE:-250}
    export AGREEMENT_SIGNED=${AGREEMENT_SIGNED:-1200} AGREEMENT_TIMEOUT=${AGREEMENT_TIMEOUT:-1800}
}

@test "6.1: more of the same" {
    find_driver_sets "$AGREEMENT_61"
    agree "$AGREEMENT_61" --os debian12 --foreign "$AGREEMENT_612" --foreign "$AGREEMENT_7" "${driver_sets[@]}"
}

@test "6.12: more of the same" {
    agree "$AGREEMENT_612" --os debian13 --foreign "$AGREEMENT_61" --foreign "$AGREEMENT_7"
}

@test "7.x: more of the same" {
    agree "$AGREEMENT_7" --os debian13 --foreign "$AGREEMENT_61" --foreign "$AGREEMENT_612"
}

@test "7.x of our own with MODVERSIONS in both forms: agreement" {
    local krel
    krel=$("$agreement_folder/make-modversions-kernel" --build "$VM_BUILD" "$AGREEMENT_7")
    AGREEMENT_PRISTINE=100 AGREEMENT_COUNT=1200 agree "$krel" --foreign "$AGREEMENT_7" --foreign "$AGREEMENT_612"
}

# arm64 KREL [OPTION…]
arm64() {
    AGREEMENT_PRISTINE=100 AGREEMENT_COUNT=700 AGREEMENT_SIGNED=60 agree "$@"
}

# arm64_drivers KREL: fills driver_sets with what 85-arm64*.bats boot; the cache has it, or gets it here.
arm64_drivers() {
    "$agreement_build/slipway" build --os debian12 --kernel "$1" --ofed reference --nvidia debian --output "$BATS_TEST_TMPDIR/images"
    find_driver_sets "$1"
}

@test "arm64, 6.1: agreement" {
    arm64_drivers "$ARM64_61"
    arm64 "$ARM64_61" --os debian12 --foreign "$ARM64_612" --foreign "$ARM64_7" "${driver_sets[@]}"
}

@test "arm64, Debian 12's 6.12: agreement" {
    arm64 "$ARM64_612" --os debian12 --foreign "$ARM64_61" --foreign "$ARM64_7"
}

@test "arm64, 6.12 with pages of 16 KiB: agreement" {
    arm64_drivers "$ARM64_16K"
    arm64 "$ARM64_16K" --os debian12 --foreign "$ARM64_612" "${driver_sets[@]}"
}

@test "arm64, Debian 13's 6.12: agreement" {
    arm64 "$ARM64_13" --os debian13 --foreign "$ARM64_61"
}

@test "arm64, 7.x: agreement" {
    arm64 "$ARM64_7" --os debian13 --foreign "$ARM64_61" --foreign "$ARM64_612"
}
