#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2030,SC2031,SC2154
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

@test "slipway-init explain: a reason by its name or exit code, a list, and what is none" {
    run "${SLIPWAY%/*}/slipway-init" explain ofed_not_ready
    [ "$status" -eq 0 ]
    says "OFED_NOT_READY, exit code 13" "Cure: the message says which is missing"
    local by_name=$output
    run "${SLIPWAY%/*}/slipway-init" explain 13
    [ "$output" = "$by_name" ]
    run "${SLIPWAY%/*}/slipway-init" explain
    [ "${#lines[@]}" -eq "$(grep -cE '^### [A-Z_]+ \([0-9]+\)$' "$repository/docs/reasons.md")" ]
    run "${SLIPWAY%/*}/slipway-init" explain 99
    [ "$status" -eq 2 ]
    says 'no reason or exit code "99"'
    run "${SLIPWAY%/*}/slipway-init" explain 13 14
    [ "$status" -eq 2 ]
}

@test "slipway-init status: its options, and one that it has not" {
    local init=${SLIPWAY%/*}/slipway-init
    run "$init" status --strict --json
    [ "$status" -eq "$(jq 'if .findings == [] then 1 else 3 end' <<<"$output")" ]
    run "$init" status --json now
    [ "$status" -eq 2 ]
    says '[USAGE] status takes only --json and --strict: "now"'
    run "${init%/*}/slipway-look" status --json now
    [ "$status" -eq 2 ]
    says '[USAGE] slipway-look: status takes only --json and --strict: "now"'
}

@test "slipway-init topo: it takes --json alone, and a slip of the verb is recognised" {
    local init=${SLIPWAY%/*}/slipway-init
    run "$init" topo --json
    [ "$status" -eq 0 ]
    [ "$(jq -r 'keys | join(" ")' <<<"$output")" = "findings flat gpus nics pairs ports" ]
    run "$init" topo --jsn
    [ "$status" -eq 2 ]
    says 'topo takes only --json: "--jsn"'
    run "$init" topp
    [ "$status" -eq 2 ]
    says 'slipway-init: no verb "topp": did you mean topo?'
}

@test "show_gids of a device that is not there: the error and nothing else" {
    run "${SLIPWAY%/*}/slipway-init" show_gids mlx5_99
    [ "$status" -eq 1 ]
    [ "$output" = "show_gids: no RDMA device mlx5_99 below /sys/class/infiniband" ]
    run "${SLIPWAY%/*}/slipway-init" show_gids $'mlx5\e[2J'
    [ "$output" = "show_gids: no RDMA device mlx5?[2J below /sys/class/infiniband" ]
    run "${SLIPWAY%/*}/slipway-init" mlnx_qos -i $'eth\e[2J'
    [ "$status" -eq 1 ]
    [[ $output == "mlnx_qos: eth?[2J: "* ]]
}

@test "the tools of the NIC image: their own --help, and exit codes as mlnx-tools has them" {
    local tool init=${SLIPWAY%/*}/slipway-init
    for tool in ibdev2netdev show_gids mlnx_qos cma_roce_mode cma_roce_tos; do
        run "$init" "$tool" --help
        [ "$status" -eq 0 ]
        [[ $output == "usage: $tool"* ]]
    done
    for tool in status topo explain ibdev2netdev show_gids; do
        for program in "$init" "${init%/*}/slipway-look"; do
            run "$program" "$tool" --help
            [ "$status" -eq 0 ]
            [[ $output == "usage: $tool"* ]]
        done
    done
    run "$init" mlnx_qos --trust dscp
    [ "$status" -eq 1 ]
    [ "$output" = "mlnx_qos: no interface is given: -i INTERFACE" ]
    run "$init" mlnx_qos -i lo --pfc 0,0,0,1
    [ "$status" -eq 1 ]
    [[ $output == "mlnx_qos: --pfc 0,0,0,1: 8 values are needed"* ]]
    run "$init" mlnx_qos -i lo --tc_bw 70,0,0,30,0,0,0,0
    [ "$status" -eq 2 ]
    [[ $output == "mlnx_qos: no option --tc_bw"* ]]
    run "$init" cma_roce_tos -t 256
    [ "$status" -eq 2 ]
    [ "$output" = "cma_roce_tos: -t 256: not a valid value
  try: cma_roce_tos --help" ]
}

@test "build --help-all lists every option, --help leaves out those about mirrors and keys" {
    run_slipway 0 build --help-all
    says --kernel --lock --kernel-from --bundle --ofed --nvidia --compiler --force --os --arch --mirror --keyring --jobs --output \
        --base --cache --offline --refresh --json
    run_slipway 0 build --help
    says $'\nSigning:\n' --output --offline --help-all $'\nExamples:\n'
    [[ $output != *--mirror* && $output != *--keyring* ]]
}

@test "common options may stand before the verb" {
    run_slipway 22 --json --os debian12 resolve no-release
    says '"exit_code":22'
    run_slipway 2 --cache "$BATS_TEST_TMPDIR" --offline buidl
    says "buidl: no such verb"
    run_slipway 2 -q -v resolve newest
    says "--quiet and --verbose cannot be combined"
    run_slipway 0 version
    says "slipway 0."
}

@test "colours: on a terminal, and not where NO_COLOR is set" {
    local red=$'\e[31m'
    run script -qec "TERM=xterm $SLIPWAY build" /dev/null
    says "${red}slipway build:"
    run script -qec "TERM=xterm NO_COLOR=1 $SLIPWAY build" /dev/null
    [[ $output == *"slipway build:"* && $output != *"$red"* ]]
    run script -qec "TERM=dumb $SLIPWAY build" /dev/null
    [[ $output != *"$red"* ]]
}

@test "build without --kernel says what to name" {
    run_slipway 2 build
    says "--kernel is missing" "uname -r" "slipway build --help"
}

@test "an unknown option is named" {
    run_slipway 2 build --kernel newest --colour
    says "--colour: no such option"
}

@test "an option given twice is named, with both values; words that were meant" {
    run_slipway 2 build newest --nvidia a --nvidia b
    says "--nvidia is given twice: a and b"
    run_slipway 2 build newest --jobs 2 --jobs=3
    says "--jobs is given twice: 2 and 3"
    run_slipway 22 build newset
    says "try: did you mean newest?"
    run_slipway 2 sign exprot
    says "the actions are export and import"
}

@test "an option without its value is named" {
    run_slipway 2 build --kernel
    says "--kernel needs a value"
}

@test "a stray argument is named" {
    run_slipway 2 build --kernel newest ofed.tgz
    says "ofed.tgz: only one kernel release can be given"
}

@test "an option that other programs have: what does it here" {
    run_slipway 2 build --kernel newest --tag=x
    says "try: buildah tag"
    run_slipway 2 sign x -q
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
        says "--kern: no such option; did you mean --kernel?"
    done
    run_slipway 2 build newest --kernel-fro=x
    says "--kernel-fro: no such option; did you mean --kernel-from?"
    run_slipway 2 probe --head no
    says "--head: no such option; did you mean --headers?"
    run_slipway 2 build --outptu x
    says "--outptu: no such option; did you mean --output?"
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
        says "--jobs $jobs: not a number from 1 to 4096"
    done
}

@test "no OFED and no NVIDIA source: there would be nothing to build" {
    run_slipway 2 build --kernel newest --nvidia none
    says "--nvidia none without --ofed: no image would be built"
}

@test "options that do not go together are refused by name, and none is ignored" {
    local line first second
    touch "$BATS_TEST_TMPDIR/x"
    cd "$BATS_TEST_TMPDIR"
    while IFS='|' read -r line first second; do
        # shellcheck disable=SC2086
        run_slipway 2 $line
        says "$first and $second cannot be combined: " "try: leave out $second"
    done <<'TEXT'
build newest --offline --refresh|--offline|--refresh
build --bundle x --nvidia debian|--bundle|--nvidia
build --bundle x --base y|--bundle|--base
build --bundle x --snapshot 20260901T000000Z|--bundle|--snapshot
build --bundle x --allow-expired|--bundle|--allow-expired
build --bundle x --mirror file:///x|--bundle|--mirror
build --lock x --refresh|--lock|--refresh
build newest --root debian12 --base-image y|--root|--base-image
lint --lock x --refresh|--lock|--refresh
resolve --list --os debian12 newest|--list|newest
resolve --list --os debian12 -o y|--list|--output
resolve --list --os debian12 --tree y|--list|--tree
resolve --list --os debian12 --nvidia debian|--list|--nvidia
resolve newest --json -o -|--json|--output -
verify x --running --kernel y|--running|--kernel
verify x --running --with y|--running|--with
cache prune --all --keep-size 1G|--all|--keep-size
sign --key x --cert x --hash sha256 --kernel x x|--hash|--kernel
probe --json -o -|--json|--output -
TEXT
    # What a table's rule needs, and a verb that has no use for the options about mirrors.
    run_slipway 2 resolve newest --kernel-module-type open
    says "--kernel-module-type needs --nvidia debian"
    run_slipway 2 resolve newest --nvidia none --kernel-module-type open
    says "--kernel-module-type needs --nvidia debian"
    run_slipway 2 combine x y --os debian12
    says "--os: no such option"
    run_slipway 2 cache list --mirror file:///x
    says "--mirror: no such option"
    run_slipway 2 explain text --os debian12
    says "--os: it applies only when --kernel names a release to fetch"
    run_slipway 2 sign export --hash sha256 --password-file x x
    says "--password-file needs --key"
    run_slipway 2 sign --key x --cert x --hash sha256 -o y x
    says "--output applies only to sign export"
    [ ! -e "$BATS_TEST_TMPDIR/cache" ]
}

@test "an unknown --os lists the known ones" {
    run_slipway 2 build --kernel newest --os debian7
    says "--os debian7: unknown" debian12
    run_slipway 2 build --kernel newest --os debain12
    says "did you mean debian12?"
    # The code name is one of its names.
    run_slipway 2 build --kernel newest --os bookworm --nvidia none
    says "--nvidia none without --ofed"
}

@test "a kernel release that is not quite one: what may be meant" {
    run_slipway 5 resolve 6.1.0-56-amd46
    says "kernel 6.1.0-56-amd46: not known; did you mean 6.1.0-56-amd64?"
    run_slipway 5 resolve 6.1.0-56
    says "kernel 6.1.0-56: not known; did you mean 6.1.0-56-amd64?"
    run_slipway 5 resolve 6.8.0-45
    says "kernel 6.8.0-45: not known; did you mean 6.8.0-45-generic?"
    run_slipway 22 resolve linux-image-6.1.0-56-amd64
    says "does not start with a digit" "try: give only the release: 6.1.0-56-amd64"
    run_slipway 5 resolve 3.10.0-1160.45.1.el7.custom
    says "try: for a kernel of your own, give its packages or folders (build and lint: --kernel-from"
    run_slipway 2 resolve newest --os debian
    says "did you mean one of debian12, debian13, debiansid?"
}

@test "a kernel of a distribution without a catalogue is not taken for another's" {
    run_slipway 5 resolve 6.1.0-0.deb11.52-amd64
    says "this name is used by debian11, which Slipway does not support"
    run_slipway 2 resolve 3.10.0-1160.45.1.el7.x86_64
    says "this name is used by centos7; and by rhel7, oracle7-rhck, which Slipway does not support" "with --os"
}

@test "NVIDIA's modules by Debian for a kernel of Debian's and another --os: that is named" {
    run_slipway 2 resolve 6.1.0-56-amd64 --os rocky9 --nvidia debian
    says "the catalogue of rocky9 names no package" "try: use another --os than rocky9: kernels with such names are made by debian12"
}

@test "an --os that is a path is not followed" {
    run_slipway 2 build --kernel newest --os ../../etc/passwd
    says "unknown"
}

@test "--output oci-archive: wants a file" {
    run_slipway 2 build --kernel newest --output oci-archive:
    says "needs the name of a file after it"
}

@test "--output to a registry is refused before anything is fetched" {
    local place
    cd "$BATS_TEST_TMPDIR"
    for place in docker://registry/x docker-daemon:x oci:x https://registry/x; do
        run_slipway 2 build --kernel newest --offline --output "$place"
        says "try: for a registry: --output DIR --registry HOST/FOLDER, then sh DIR/push.sh" "--output $place"
    done
    [ ! -e docker: ]
}

@test "an output below a folder that is not there fails at once" {
    run_slipway 9 build --kernel newest --offline --output "oci-archive:$BATS_TEST_TMPDIR/none/x.tar"
    says "the folder $BATS_TEST_TMPDIR/none: it does not exist"
    touch "$BATS_TEST_TMPDIR/file"
    run_slipway 9 build --kernel newest --offline --output "$BATS_TEST_TMPDIR/file"
    says "$BATS_TEST_TMPDIR/file is not a folder"
    # A folder that is asked for is made when there is something for it, with those above it.
    run_slipway 6 build --kernel newest --offline --output "$BATS_TEST_TMPDIR/none/x/y" --ofed /nonexistent
    [ ! -e "$BATS_TEST_TMPDIR/none" ]
    run_slipway 9 build --kernel newest --offline --output "$BATS_TEST_TMPDIR/file/x/y"
    run_slipway 9 bundle --offline -o "$BATS_TEST_TMPDIR/none/x" newest
    says "the folder $BATS_TEST_TMPDIR/none: it does not exist"
    run_slipway 9 resolve --os debian12 --offline -o "$BATS_TEST_TMPDIR/none/x" newest
    says "the folder $BATS_TEST_TMPDIR/none: it does not exist"
    run_slipway 9 probe -o "$BATS_TEST_TMPDIR/none/x"
    says "the folder $BATS_TEST_TMPDIR/none: it does not exist"
}

@test "a bundle that is not there is a wrong command line" {
    run_slipway 2 build --bundle "$BATS_TEST_TMPDIR/none"
    says "--bundle $BATS_TEST_TMPDIR/none: No such file"
}

# stubbed CODE COMMAND…: a build with the programs in $stubs alone; it knows no mirror (25).
stubbed() {
    local code=$1
    shift
    run "$@" env PATH="$stubs" SLIPWAY_DATADIR="$repository" SLIPWAY_CACHE="$BATS_TEST_TMPDIR/cache" SLIPWAY_MIRRORS=/dev/null \
        "$SLIPWAY" build --ofed reference --nvidia none --os "${os:-debian12}" 6.1.0-56-amd64
    echo "$output"
    [ "$status" -eq "$code" ]
}

@test "a program that a build will run is missed before anything is fetched" {
    local name
    stub_programs
    stubbed 25 "${as_root[@]}"
    for name in buildah mmdebstrap gpgv depmod; do
        mv "$stubs/$name" "$BATS_TEST_TMPDIR"
        stubbed 10 "${as_root[@]}"
        says "$name: no such program in PATH" "try: apt-get install ${name/depmod/kmod}"
        [[ $output != *resolve* ]]
        mv "$BATS_TEST_TMPDIR/$name" "$stubs"
    done
    rm "$stubs"/{mmdebstrap,dnf}
    os=rocky9 stubbed 10 "${as_root[@]}"
    says "dnf, mmdebstrap: no such program in PATH; this build needs them"
    # What the cache has may be what is wanted: that is known later.
    mkdir -p "$BATS_TEST_TMPDIR"/cache/stages/{build-root,runtime-base}-1
    stubbed 25 "${as_root[@]}"
}

@test "who is not root is told so before anything is fetched" {
    stub_programs
    # In a user namespace without any names nobody is root.
    stubbed 1 unshare --user
    says "not root: the stage build-root installs a distribution's packages" "try: run it as root"
    [[ $output != *resolve* ]]
}

@test "a disk that is too small for a build is named before anything is fetched" {
    stub_programs
    mkdir "$BATS_TEST_TMPDIR/cache"
    mount -t tmpfs -o size=60m tmpfs "$BATS_TEST_TMPDIR/cache" || skip "no right to mount a small file system"
    stubbed 17
    says "$BATS_TEST_TMPDIR/cache: only 0.1 GB free, and this build needs about 1.8 GB" "try: slipway cache prune" "--cache DIR"
    [[ $output != *resolve* ]]
    # Half of it may do: an estimate refuses nothing that may work.
    mount -o remount,size=1200m "$BATS_TEST_TMPDIR/cache"
    stubbed 25
    says "cache: only 1.3 GB free, and this build needs about 1.8 GB"
    mount -o remount,size=2g "$BATS_TEST_TMPDIR/cache"
    stubbed 25
    [[ $output != *" GB free, and this build"* ]]
    umount "$BATS_TEST_TMPDIR/cache"
}

@test "sign --json says on stdout too why it failed" {
    run_slipway 2 sign --json --cert "$BATS_TEST_TMPDIR/none" --key "$BATS_TEST_TMPDIR/none" --hash sha256 "$BATS_TEST_TMPDIR"
    says '{"exit_code":2,"message":'
}

@test "a data folder without recipes is named" {
    SLIPWAY_DATADIR=$BATS_TEST_TMPDIR run_slipway 1 build --kernel newest
    says "SLIPWAY_DATADIR=$BATS_TEST_TMPDIR: it has no containers/recipes"
}

@test "installed: make install is whole, and messages name the installed documents and scripts" {
    local top=$BATS_TEST_TMPDIR/top
    make -s -C "$repository" -o all install O="$(realpath "${SLIPWAY%/*}")" DESTDIR="$top" prefix=/opt
    [ -f "$top/opt/share/bash-completion/completions/slipway" ]
    [ -f "$top/opt/share/man/man1/slipway-build.1" ]
    [ -f "$top/opt/share/doc/slipway/README.md" ]
    [ -s "$top/opt/share/fish/vendor_completions.d/slipway.fish" ]
    local look=$top/opt/libexec/slipway/slipway-look without='del(.rdma, .fabric, .nic.in_pods)'
    [[ $(readelf -l "$look") != *INTERP* ]]
    run "$look" status --json
    [ "$(jq -r .kernel <<<"$output")" = "$(uname -r)" ]
    diff <(jq -S "$without" <<<"$output") <("${SLIPWAY%/*}/slipway-init" status --json | jq -S "$without")
    diff <("$look" explain 16) <("${SLIPWAY%/*}/slipway-init" explain MODULE_IN_USE)
    run "$look" gpu
    [ "$status" -eq 2 ]
    says 'slipway-look: no verb "gpu" (slipway-look --help'
    run env -u SLIPWAY_DATADIR "$top/opt/bin/slipway" explain "Key was rejected by service"
    says "trusts: $top/opt/share/doc/slipway/docs/build.md"
    run env -u SLIPWAY_DATADIR "$top/opt/bin/slipway" sign --help
    says "$top/opt/share/doc/slipway/docs/build.md has the formats"
    run env -u SLIPWAY_DATADIR "$top/opt/bin/slipway" --help
    [[ $output != *docs/man* ]]
    run env -u SLIPWAY_DATADIR SLIPWAY_CACHE="$BATS_TEST_TMPDIR/cache" PATH="$(path_without buildah)" "$top/opt/bin/slipway" build newest \
        --os debian12 --offline --nvidia none --ofed reference
    says "try: $top/opt/share/slipway/scripts/install-packages build"
}

@test "each option of --help is in the completions, which bash, zsh and fish understand" {
    local verb option
    while read -r verb; do
        while read -r option; do
            "$SLIPWAY" completion words -- "$verb" "$option" | cut -f 1 | grep -qx -- "$option" ||
                { echo "$verb $option is not completed" && return 1; }
        done < <(help_of "$verb" | grep -E '^ +-' | grep -oE -- '--[a-z-]+' | sort -u)
    done < <("$SLIPWAY" --help | sed -n '/^Verbs:/,/^$/s/^  \([a-z-]*\) .*/\1/p')
}

@test "bash, zsh and fish complete verbs, options, values and files" {
    local folder=$BATS_TEST_TMPDIR/completed shell
    mkdir -p "$folder/bin"
    ln -s "$(realpath "$SLIPWAY")" "$folder/bin/slipway"
    touch "$folder/a.lock"
    cd "$folder"
    export PATH=$folder/bin:$PATH SLIPWAY_DATADIR=$repository
    for shell in bash zsh fish; do
        slipway completion "$shell" >"$folder/$shell"
        "$shell" -n "$folder/$shell"
    done
    run bash -c '
        source ./bash
        complete_words() { COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) && _slipway && echo "${COMPREPLY[@]}"; }
        complete_words slipway ver
        complete_words slipway --json verif
        complete_words slipway cache pr
        complete_words slipway build --lock a
        complete_words slipway build --os rocky1
        complete_words slipway build --nvidia d
        complete_words slipway build --nvidia = n
        complete_words slipway build --arch x
        complete_words slipway resolve --arch x
        complete_words slipway verify --kernel newe'
    [ "$output" = "verify version
verify
prune
a.lock
rocky10
debian
none
x86_64 x86_64,aarch64
x86_64
newest" ]
    run fish -c 'source ./fish; complete -C "slipway build --nvidia no"; complete -C "slipway build --nvidia=no"; complete -C "slipway cache pru"'
    [ "$output" = "none
--nvidia=none
prune	remove entries unused for 30 days, or as the options say; entries" ]
    run zsh -f -c '
        autoload -U compinit && compinit -u -d dump && source ./zsh
        _describe() { print -r -- "${(P)2}"; }
        _files() { :; }
        words=(slipway resolve --nvidia deb) CURRENT=4
        _slipway'
    [ "$output" = "debian:" ]
}
