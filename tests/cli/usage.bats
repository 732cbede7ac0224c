#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2154
# SPDX-License-Identifier: Apache-2.0
# The command line: what is refused before anything is fetched, with which words and exit code.

load helpers

@test "--help lists the verbs" {
    run_slipway 0 --help
    says "Usage: slipway VERB" "build"
}

@test "--version says a number" {
    run_slipway 0 --version
    [[ $output =~ ^slipway\ [0-9]+\.[0-9]+\.[0-9]+$ ]]
}

@test "no verb is a usage error" {
    run_slipway 2
    says "Usage: slipway VERB"
}

@test "an unknown verb is named" {
    run_slipway 2 biuld
    says "biuld: no such verb" "slipway --help"
}

@test "build --help lists every option" {
    run_slipway 0 build --help
    says --kernel --lock --kernel-from --bundle --ofed --nvidia --compiler --force --os --arch --mirror --keyring --jobs --output \
        --base --cache --offline --refresh --json
}

@test "build without --kernel says what to name" {
    run_slipway 2 build
    says "--kernel is missing" "uname -r" "slipway build --help"
}

@test "an unknown option is named" {
    run_slipway 2 build --kernel newest --colour
    says "--colour: no such option"
}

@test "an option without its value is named" {
    run_slipway 2 build --kernel
    says "--kernel needs a value"
}

@test "a stray argument is named" {
    run_slipway 2 build --kernel newest ofed.tgz
    says "ofed.tgz: no argument is expected there"
}

@test "--jobs wants a number above zero" {
    local jobs
    for jobs in 0 -1 many 2x 99999; do
        run_slipway 2 build --kernel newest --jobs "$jobs"
        says "--jobs $jobs: a number from 1 to 4096"
    done
}

@test "no OFED and no NVIDIA source: there would be nothing to build" {
    run_slipway 2 build --kernel newest --nvidia none
    says "--nvidia none without --ofed: there would be no image at all"
}

@test "an unknown --os lists the known ones" {
    run_slipway 2 build --kernel newest --os debian7
    says "--os debian7: not known" debian12
}

@test "an --os that is a path is not followed" {
    run_slipway 2 build --kernel newest --os ../../etc/passwd
    says "not known"
}

@test "--output oci-archive: wants a file" {
    run_slipway 2 build --kernel newest --output oci-archive:
    says "needs a file"
}

@test "a data folder without recipes is named" {
    SLIPWAY_DATADIR=$BATS_TEST_TMPDIR run_slipway 1 build --kernel newest
    says "SLIPWAY_DATADIR=$BATS_TEST_TMPDIR: no containers/recipes there"
}

@test "every exit code of the header is in the documentation" {
    local code
    while read -r code; do
        grep -qE "^\| ($code|$code, [0-9]+) \|" "$repository/docs/exit-codes.md"
    done < <(sed -n 's/^\tEXIT_CODE_[A-Z_]* = \([0-9]*\),.*/\1/p' "$repository/cli/exit_code.h")
}
