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
    says "biuld: no such verb; did you mean build?" "slipway --help"
    run_slipway 0 help resolve
    says "Usage: slipway resolve"
    run_slipway 2 help reslove
    says "did you mean resolve?"
}

@test "an option in the place of a verb is an unknown option" {
    run_slipway 2 --foo
    says "--foo: no such option before a verb"
    run_slipway 2 --kernel newest build
    says "--kernel: no such option before a verb"
    run "${SLIPWAY%/*}/slipway-init" nic-driver --foo
    [ "$status" -eq 2 ]
    says 'nic-driver: no option "--foo"'
    run "${SLIPWAY%/*}/slipway-init" nic-driver precompield
    [ "$status" -eq 2 ]
    says 'no verb "precompield": did you mean precompiled?'
}

@test "show_gids of a device that is not there: the error and nothing else" {
    run "${SLIPWAY%/*}/slipway-init" show_gids mlx5_99
    [ "$status" -eq 1 ]
    [ "$output" = "show_gids: no RDMA device mlx5_99 below /sys/class/infiniband" ]
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
    says "ofed.tgz: one kernel release is expected"
}

@test "an option that other programs have: what does it here" {
    run_slipway 2 build --kernel newest --dry-run
    says "--dry-run: no such option" "try: slipway resolve and slipway lint"
    run_slipway 2 build --kernel newest -o out
    says "-o: no such option" "try: --output"
    run_slipway 2 build --kernel newest --tag=x
    says "try: buildah tag"
    run_slipway 2 build --kernel newest -q
    says "try: 2>/dev/null"
    run_slipway 2 lint -o out
    [[ $output != *try:* ]]
}

@test "an --output in /proc is refused before any work" {
    run_slipway 9 build --kernel 6.1.0-56-amd64 --os debian12 --nvidia none --ofed reference --output /proc/out
    says "--output: the folder /proc cannot be written to"
}

@test "what SLIPWAY_MIRRORS names is not there" {
    SLIPWAY_MIRRORS=/nonexist run_slipway 2 resolve 6.1.0-56-amd64
    says "SLIPWAY_MIRRORS: /nonexist: No such file or directory"
}

@test "the beginning of an option's name is not the option" {
    local verb
    for verb in build lint resolve; do
        run_slipway 2 "$verb" --kern newest
        says "--kern: no such option; is --kernel meant?"
    done
    run_slipway 2 build newest --kernel-fro=x
    says "--kernel-fro: no such option; is --kernel-from meant?"
    run_slipway 2 probe --head no
    says "--head: no such option; is --headers meant?"
    run_slipway 2 build --outptu x
    says "--outptu: no such option; is --output meant?"
    run_slipway 2 build --zzz
    [[ $output != *meant* ]]
}

@test "the kernel is named with and without --kernel" {
    local verb word
    for verb in build lint resolve "bundle -o $BATS_TEST_TMPDIR/x"; do
        for word in "" --kernel --kernel=; do
            # shellcheck disable=SC2086
            [ "$word" = --kernel= ] && word+=debian7 && run_slipway 22 $verb $word && continue
            # shellcheck disable=SC2086
            run_slipway 22 $verb $word debian7
            says "debian7"
        done
    done
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
    run_slipway 2 build --kernel newest --os debain12
    says "did you mean debian12?"
    # The code name is one of its names.
    run_slipway 2 build --kernel newest --os bookworm --nvidia none
    says "--nvidia none without --ofed"
}

@test "an --os that is a path is not followed" {
    run_slipway 2 build --kernel newest --os ../../etc/passwd
    says "not known"
}

@test "--output oci-archive: wants a file" {
    run_slipway 2 build --kernel newest --output oci-archive:
    says "needs a file"
}

@test "--output to a registry is refused before anything is fetched" {
    local place
    cd "$BATS_TEST_TMPDIR"
    for place in docker://registry/x docker-daemon:x oci:x https://registry/x; do
        run_slipway 2 build --kernel newest --offline --output "$place"
        says "try: for a registry, buildah push" "--output $place"
    done
    [ ! -e docker: ]
}

@test "an output below a folder that is not there fails at once" {
    run_slipway 9 build --kernel newest --offline --output "oci-archive:$BATS_TEST_TMPDIR/none/x.tar"
    says "the folder $BATS_TEST_TMPDIR/none: there is none"
    touch "$BATS_TEST_TMPDIR/file"
    run_slipway 9 build --kernel newest --offline --output "$BATS_TEST_TMPDIR/file"
    says "$BATS_TEST_TMPDIR/file is no folder"
    # A folder that is asked for is made when there is something for it, with those above it.
    run_slipway 6 build --kernel newest --offline --output "$BATS_TEST_TMPDIR/none/x/y" --ofed /nonexistent
    [ ! -e "$BATS_TEST_TMPDIR/none" ]
    run_slipway 9 build --kernel newest --offline --output "$BATS_TEST_TMPDIR/file/x/y"
    run_slipway 9 bundle --offline -o "$BATS_TEST_TMPDIR/none/x" newest
    says "the folder $BATS_TEST_TMPDIR/none: there is none"
    run_slipway 9 resolve --os debian12 --offline -o "$BATS_TEST_TMPDIR/none/x" newest
    says "the folder $BATS_TEST_TMPDIR/none: there is none"
    run_slipway 9 probe -o "$BATS_TEST_TMPDIR/none/x"
    says "the folder $BATS_TEST_TMPDIR/none: there is none"
}

@test "a bundle that is not there is a wrong command line" {
    run_slipway 2 build --bundle "$BATS_TEST_TMPDIR/none"
    says "--bundle $BATS_TEST_TMPDIR/none: No such file"
}

@test "sign --json says on stdout too why it failed" {
    run_slipway 2 sign --json --cert "$BATS_TEST_TMPDIR/none" --key "$BATS_TEST_TMPDIR/none" --hash sha256 "$BATS_TEST_TMPDIR"
    says '{"exit_code":2,"message":'
}

@test "a data folder without recipes is named" {
    SLIPWAY_DATADIR=$BATS_TEST_TMPDIR run_slipway 1 build --kernel newest
    says "SLIPWAY_DATADIR=$BATS_TEST_TMPDIR: no containers/recipes there"
}

@test "each option of --help is in the completions, which bash, zsh and fish understand" {
    local folder=$BATS_TEST_TMPDIR/completions verb option
    "$repository/scripts/completions" "$SLIPWAY" "$folder"
    bash -n "$folder/slipway.bash"
    zsh -n "$folder/_slipway"
    fish -n "$folder/slipway.fish"
    # shellcheck disable=SC1091
    source "$folder/slipway.bash"
    while read -r verb; do
        while read -r option; do
            COMP_WORDS=(slipway "$verb" "$option") COMP_CWORD=2
            _slipway
            [[ " ${COMPREPLY[*]} " == *" $option "* ]] || { echo "$verb $option is not completed" && return 1; }
            sed -n "/^        $verb)\$/,/;;/p" "$folder/_slipway" | grep -qF "'*${option}["
            grep -F "seen_subcommand_from $verb'" "$folder/slipway.fish" | grep -qE -- "-l ${option#--}( |\$)"
        done < <("$SLIPWAY" "$verb" --help | grep -E '^ +-' | grep -oE -- '--[a-z-]+' | sort -u)
    done < <("$SLIPWAY" --help | sed -n '/^Verbs:/,/^$/s/^  \([a-z-]*\) .*/\1/p')
}

@test "bash completes a verb, an action and a file" {
    run bash -c '
        "$0/scripts/completions" "$1" "$2" && source "$2/slipway.bash" && touch "$2/a.lock"
        COMP_WORDS=(slipway ver) COMP_CWORD=1 && _slipway && echo "${COMPREPLY[@]}"
        COMP_WORDS=(slipway cache pr) COMP_CWORD=2 && _slipway && echo "${COMPREPLY[@]}"
        COMP_WORDS=(slipway build --lock "$2/a") COMP_CWORD=3 && _slipway && echo "${COMPREPLY[@]}"
    ' "$repository" "$SLIPWAY" "$BATS_TEST_TMPDIR"
    [ "$output" = "verify
prune
$BATS_TEST_TMPDIR/a.lock" ]
}
