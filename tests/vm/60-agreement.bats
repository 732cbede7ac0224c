#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# The load proof says what the kernel says: the same modules, whole and damaged, are given to three kernels (6.12 in make
# check-full only) and to the proof. agreement/README.md describes how. Variables: AGREEMENT_COUNT mutants a kernel,
# AGREEMENT_PRISTINE modules of its own, AGREEMENT_SIGNED mutants of signatures, AGREEMENT_SEED.

load helpers
load agreement/agreement

setup_file() {
    prepare_agreement
}

@test "Debian 12's 6.1 and the proof agree on its own modules, our driver sets and mutants of both" {
    find_driver_sets "$AGREEMENT_61"
    agree "$AGREEMENT_61" --os debian12 --foreign "$AGREEMENT_612" --foreign "$AGREEMENT_7" "${driver_sets[@]}"
}

# bats test_tags=full
@test "Debian 13's 6.12 and the proof agree" {
    agree "$AGREEMENT_612" --os debian13 --foreign "$AGREEMENT_61" --foreign "$AGREEMENT_7"
}

@test "7.x of Debian 13's backports, which has no MODVERSIONS, and the proof agree" {
    agree "$AGREEMENT_7" --os debian13 --foreign "$AGREEMENT_61" --foreign "$AGREEMENT_612"
}

@test "an answer of the kernel's that is not ours is found" {
    local made=$VM_BUILD/agreement/$AGREEMENT_61 copy=$BATS_TEST_TMPDIR/copy
    mkdir "$copy"
    ln -s "$made/plain/modules" "$copy/modules"
    cp "$made/plain/cases.tsv" "$made/plain/names" "$copy/"
    sed '5s/ 0/ 33/' "$made/plain/results.tsv" >"$copy/results.tsv"
    run "$agreement_programs/judge" --name changed --krel "$AGREEMENT_61" --config "$made/kernel/boot/config-$AGREEMENT_61" \
        --symvers "$made/kernel/usr/src/linux-headers-$AGREEMENT_61/Module.symvers" --like "$(sed -n 1p "$made/tested")" \
        --builtin "$made/kernel/lib/modules/$AGREEMENT_61/modules.builtin" --trust "$made/certs.pem" --output "$copy"
    [ "$status" -eq 1 ]
    [[ $output == *$'4\tEDOM\twill load\tpristine'* ]]
}

@test "the same seed makes the same mutants, another seed others" {
    local made=$VM_BUILD/agreement/$AGREEMENT_61 folder seed
    for folder in one two three; do
        seed=7
        [ "$folder" != three ] || seed=8
        { sed -n '1,8s/^/base /p' "$made/tested" && echo mutants 700; } |
            "$agreement_programs/mutate" --seed "$seed" --version 6.1 --output "$BATS_TEST_TMPDIR/$folder"
    done
    diff -r "$BATS_TEST_TMPDIR/one" "$BATS_TEST_TMPDIR/two"
    refute_same "$BATS_TEST_TMPDIR/one" "$BATS_TEST_TMPDIR/three"
}
