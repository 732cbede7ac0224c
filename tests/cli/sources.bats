#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2154
# SPDX-License-Identifier: Apache-2.0
# --ofed and --nvidia: what is no source is refused at once, with what is missing in it.

load helpers

# A tree that looks like an mlnx-ofed-kernel source as far as its top level goes.
make_ofed() {
    mkdir -p "$BATS_TEST_TMPDIR/ofed"
    touch "$BATS_TEST_TMPDIR/ofed"/{configure,makefile,Makefile}
}

@test "--revision is a number" {
    run_slipway 2 build --kernel newest --ofed /nonexistent/ofed --revision 1a
    says "--revision: a number of at most nine digits is wanted"
}

@test "an --ofed that is not there is named" {
    run_slipway 6 build --kernel newest --ofed /nonexistent/ofed
    says "--ofed /nonexistent/ofed: No such file or directory" "\"reference\""
}

@test "an --nvidia that is a device is refused" {
    run_slipway 6 build --kernel newest --nvidia /dev/null
    says "--nvidia /dev/null: neither a folder nor a file"
}

@test "a folder without configure is no OFED source" {
    mkdir "$BATS_TEST_TMPDIR/ofed"
    run_slipway 6 build --kernel newest --ofed "$BATS_TEST_TMPDIR/ofed"
    says "no OFED kernel source" "no configure"
}

@test "an OFED tree that lost one of its makefiles says which and why" {
    local lost
    for lost in makefile Makefile; do
        make_ofed
        rm "$BATS_TEST_TMPDIR/ofed/$lost"
        run_slipway 6 build --kernel newest --ofed "$BATS_TEST_TMPDIR/ofed"
        says "its $lost is missing" "folds case"
    done
}

@test "a folder without NVIDIA's modules is refused" {
    mkdir "$BATS_TEST_TMPDIR/nvidia"
    run_slipway 6 build --kernel newest --nvidia "$BATS_TEST_TMPDIR/nvidia"
    says "no source of NVIDIA's open kernel modules" "kernel-open/"
}

@test "a source's archive that leads out, is a bomb or is none has the exit code of that" {
    load kernel-from
    local source=$BATS_TEST_TMPDIR/source kernel
    make_root "$BATS_TEST_TMPDIR/root" 6.6.9-own1
    kernel=(build --os debian12 --offline --force --kernel-from "$BATS_TEST_TMPDIR/root")
    mkdir -p "$source/kernel-open"
    touch "$source/kernel-open"/{Kbuild,conftest.sh}
    ln -s ../../../../etc "$source/kernel-open/out"
    tar -C "$source" -czf "$BATS_TEST_TMPDIR/escapes.tgz" .
    run_slipway 19 "${kernel[@]}" --nvidia "$BATS_TEST_TMPDIR/escapes.tgz"
    says "leads out of the archive"
    run_slipway 19 "${kernel[@]}" --nvidia none --ofed "$BATS_TEST_TMPDIR/escapes.tgz"
    rm "$source/kernel-open/out"
    touch "$source/README" && truncate -s 200M "$source/kernel-open/big"
    tar -C "$source" --zstd -cf "$BATS_TEST_TMPDIR/bomb.tgz" .
    run_slipway 20 "${kernel[@]}" --nvidia "$BATS_TEST_TMPDIR/bomb.tgz"
    echo "no archive" >"$BATS_TEST_TMPDIR/text.tgz"
    run_slipway 6 "${kernel[@]}" --nvidia "$BATS_TEST_TMPDIR/text.tgz"
    [ -z "$(find "$BATS_TEST_TMPDIR/cache/stages" -maxdepth 1 -name "*source*")" ]
}

@test "a failure is one JSON event on stdout, and text on stderr" {
    local events
    events=$(SLIPWAY_DATADIR=$repository SLIPWAY_CACHE=$BATS_TEST_TMPDIR/cache \
        "$SLIPWAY" build --kernel newest --json --ofed /nonexistent 2>"$BATS_TEST_TMPDIR/errors") && false
    [ "$(jq -r .event <<<"$events")" = failed ]
    [ "$(jq -r .exit_code <<<"$events")" = 6 ]
    [[ $(jq -r .message <<<"$events") == *"/nonexistent"* ]]
    grep -q "^slipway build: --ofed /nonexistent" "$BATS_TEST_TMPDIR/errors"
}

@test "nothing of a failed run stays in the cache" {
    run_slipway 6 build --kernel newest --ofed /nonexistent
    [ -z "$(ls -A "$BATS_TEST_TMPDIR/cache/runs")" ]
    [ -z "$(ls -A "$BATS_TEST_TMPDIR/cache/stages")" ]
}
