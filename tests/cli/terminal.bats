#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# Names and texts from outside that try to write lines of their own, or to reach the terminal's controls.

load helpers
load kernel-from
load modules
load repository

krel=6.6.9-own1
# A line of its own, a cleared screen, C1 as UTF-8 and as a byte, RIGHT-TO-LEFT OVERRIDE, no UTF-8.
evil=$'x\nFORGED  will load\e[2J\r\xc2\x9b31m\x9b\xe2\x80\xae\xff'

# An answer: no control but line feeds, no C1, no bidi control, UTF-8, and no line that the name began.
is_harmless() {
    local found
    iconv -f UTF-8 -t UTF-8 <<<"$output" >/dev/null
    found=$(LC_ALL=C grep -naP '[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\x8e\x8f\xa8-\xae]|\xe2\x81[\xa6-\xa9]|\xd8\x9c|^FORGED' <<<"$output") || return 0
    cat -v <<<"$found"
    return 1
}

@test "names and texts of modules, in folders and archives" {
    local name='x\nFORGED  will load\033[2J\302\23331m\233\342\200\256' modules=$BATS_TEST_TMPDIR/modules headers=$BATS_TEST_TMPDIR/headers
    make_headers "$headers" "$krel"
    make_module "$modules/named.ko" "$name" krel="$krel" uses='strange:1' license="$name" softdep="pre: $name"
    make_module "$modules/other.ko" other vermagic="$name" depends="$name"
    cp "$modules/named.ko" "$modules/$evil.ko"
    run_slipway 3 verify "$modules" --kernel "$headers" --all --order
    says "x?FORGED  will load?[2J?31m"
    is_harmless
    tar -C "$modules" -cf "$BATS_TEST_TMPDIR/$evil.tar" .
    run_slipway 3 verify "$BATS_TEST_TMPDIR/$evil.tar" "$modules/other.ko" --kernel "$headers"
    says "FORGED"
    is_harmless
    run_slipway 3 verify "$modules" --kernel "$headers" --json
    jq -e --arg name $'x\nFORGED  will load\e[2J' '[.. | strings] | any(startswith($name))' <<<"$output"
}

@test "what explain quotes" {
    printf '%s\n' "[  1.0] peer$evil: disagrees about version of symbol ib_register_peer_memory_client" \
        $'\e[2Jmod\xe2\x80\xae: Unknown symbol \xc2\x9bfoo\r (err -2)' >"$BATS_TEST_TMPDIR/log"
    run_slipway 0 explain "$BATS_TEST_TMPDIR/log"
    says "said"
    is_harmless
    run_slipway 4 explain "$evil"
    is_harmless
}

@test "a build folder's UTS_RELEASE, and its compiler" {
    make_headers "$BATS_TEST_TMPDIR/headers" "$krel"
    sed -i "s/(Debian/($(printf '\033[2J\xc2\x9b')/" "$BATS_TEST_TMPDIR/headers/.config"
    printf '#define UTS_RELEASE "%s"\n' $'6.6.9\e[2J\xc2\x9b\xe2\x80\xae' >"$BATS_TEST_TMPDIR/headers/include/generated/utsrelease.h"
    export SLIPWAY_MIRRORS=/dev/null
    run_slipway 22 lint --os debian12 --offline --drivers nvidia --kernel-from "$BATS_TEST_TMPDIR/headers"
    says "the byte 0x1b at character 6 is not allowed in a kernel release"
    is_harmless
}

@test "verbs, options, kernels and files of that name" {
    run_slipway 2 "$evil"
    is_harmless
    run_slipway 2 lint "--$evil"
    is_harmless
    run_slipway 2 resolve "--$evil" "$evil"
    is_harmless
    run_slipway 2 verify "$evil"
    is_harmless
    echo "{\"schema\": 2, \"krel\": $(jq -n --arg krel "${evil%$'\xff'}" '$krel')}" >"$BATS_TEST_TMPDIR/$evil.json"
    run_slipway 12 lint --lock "$BATS_TEST_TMPDIR/$evil.json"
    is_harmless
}

@test "what a package list says of itself" {
    make_repository
    add_kernel 6.1.0-56-amd64
    publish
    update_system
    # shellcheck disable=SC2317 # publish calls it
    apt-ftparchive() {
        command apt-ftparchive "$@" | sed $'s/^Date:.*/&\\nValid-Until: x\e[2J\xc2\x9b\xe2\x80\xae\xff/'
    }
    publish
    run_slipway 14 resolve 6.1.0-56-amd64 --refresh --explain
    says "Valid-Until" "x?[2J???"
    is_harmless
}
