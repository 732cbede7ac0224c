#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# Debian for real: every kernel release that its suites list, from this machine's mirror. What is expected is worked out
# without slipway (expectation.bash). Needs the network, some minutes and 1.5 GB of cache.

load expectation

setup_file() {
    top=$(realpath "$BATS_TEST_DIRNAME/../..")
    slipway=$(cd "$top" && realpath -m "${O:-build}")/slipway
    lists=$BATS_FILE_TMPDIR/lists
    expected=$BATS_FILE_TMPDIR/expected
    answers=$BATS_FILE_TMPDIR/answers
    export top slipway lists expected answers
    fetch_lists "$lists"
    expect_all "$lists" >"$expected"
    mkdir "$answers"
}

# Debian's mirrors renew unstable's list within a week; one that stands still has to be accepted by name.
expiry_option() {
    ! grep -q "^$1 " "$lists/expired" || echo --allow-expired
}

# resolve KREL OS OPTION…: into $answers, in a cache of this file's own.
resolve() {
    local krel=$1 os=$2
    shift 2
    # shellcheck disable=SC2046
    "$slipway" resolve "$krel" --cache "$BATS_FILE_TMPDIR/cache" --json $(expiry_option "$os") "$@" >"$answers/$krel"
}

# The answer for a kernel, in the words of expected_kernels.
answer() {
    jq -r '.lock | "\(.krel) \(.os) \(.compiler.name) \([.packages[].name] | sort | join(","))"' "$answers/$1"
}

@test "the lists are whole: kernels of every series are among what is expected" {
    local series
    (($(wc -l <"$expected") >= 20))
    for series in 6.1.0- '6.12.*+deb12-' '6.12.*+deb13-' '7.*+deb13-' '*+deb14-'; do
        # shellcheck disable=SC2254
        awk '{ print $1 }' "$expected" | { while read -r krel; do case $krel in $series*) exit 0 ;; esac; done; exit 1; } || {
            echo "no kernel of $series"
            return 1
        }
    done
}

@test "every kernel release that Debian's suites list resolves, offline after the first of each release of Debian" {
    local krel os compiler packages offline failed='' seen=''
    while read -r krel os compiler packages; do
        offline=
        [[ $seen != *" $os "* ]] || offline=--offline
        seen+=" $os "
        resolve "$krel" "$os" ${offline:+"$offline"} || echo "slipway resolve ended with $?"
        if [[ $(answer "$krel") == "$krel $os $compiler $packages" ]]; then
            echo "# $krel $os $compiler $(jq -r '.lock.packages | "\(length) packages, \([.[].size_bytes] | add / 1e6 | floor) MB"' "$answers/$krel")" >&3
        else
            echo "# $krel $os: NOT as expected ($compiler $packages)" >&3
            answer "$krel" || true
            failed+=" $krel"
        fi
    done <"$expected"
    echo "# $(wc -l <"$expected") kernel releases, not as expected:${failed:- none}" >&3
    [[ -z $failed ]]
}

# One stream of "name version sha256 size filename" of all lists.
listed_files() {
    local list
    for list in "$lists"/*.xz; do
        xz -dc "$list"
        echo
    done | awk '
        BEGIN { FS = ": " }
        $1 == "Package" { name = $2 } $1 == "Version" { version = $2 } $1 == "SHA256" { hash = $2 }
        $1 == "Size" { size = $2 } $1 == "Filename" { file = $2 }
        /^$/ && name != "" { if (name ~ /^linux-/) print name, version, hash, size, file; name = "" }' | LC_ALL=C sort -u
}

@test "each package of these answers is one that Debian's lists have: version, size, hash and path" {
    listed_files >"$BATS_TEST_TMPDIR/listed"
    jq -r '.lock.packages[] | "\(.name) \(.version) \(.sha256) \(.size_bytes) \(.url | sub("^.*/pool/"; "pool/"))"' "$answers"/* |
        LC_ALL=C sort -u >"$BATS_TEST_TMPDIR/answered"
    [[ -s $BATS_TEST_TMPDIR/answered ]]
    LC_ALL=C comm -13 "$BATS_TEST_TMPDIR/listed" "$BATS_TEST_TMPDIR/answered" >"$BATS_TEST_TMPDIR/invented"
    [[ ! -s $BATS_TEST_TMPDIR/invented ]] || {
        cat "$BATS_TEST_TMPDIR/invented"
        return 1
    }
}

# newest PATTERN: the newest expected release that matches the glob, plain flavour.
newest() {
    local krel
    awk '{ print $1 }' "$expected" | while read -r krel; do
        # shellcheck disable=SC2254
        case $krel in
            *-cloud-* | *-rt-*) ;;
            $1) echo "$krel" ;;
        esac
    done | tail -n 1
}

# A whole build of one small module, with the usual cache: packages fetched, the kernel tree unpacked and relocated, the
# compiler of the kernel in a container of its Debian, the load proof, an image.
compiles_in_its_tree() {
    local krel os wanted output=$BATS_TEST_TMPDIR/output verdict
    krel=$(newest "$1")
    [[ -n $krel ]] || {
        echo "no kernel release $1 in the lists"
        return 1
    }
    read -r _ os wanted _ < <(grep -F "$krel " "$expected")
    # shellcheck disable=SC2046
    "$slipway" build --kernel "$krel" --ofed "$top/tests/real/smallest-ofed" --nvidia none $(expiry_option "$os") --output "$output"
    verdict=$(jq -r '.modules[] | select(.path | endswith("/smallest.ko")) | .verdict' "$output/proof.json")
    echo "# $krel $os: compiled with $wanted, and the module $verdict" >&3
    [[ $(jq -r .os "$output/images.json") == "$os" ]]
    [[ $(jq -r .compiler.name "$output/lock.json") == "$wanted" ]]
    [[ $verdict == "will load" ]]
}

@test "6.1 of Debian 12: fetched, unpacked, a module compiled in its tree" {
    compiles_in_its_tree '6.1.0-*'
}

@test "SOURCE_DATE_EPOCH is the date of the image" {
    local to=$BATS_TEST_TMPDIR/dated build
    build=("$slipway" build --kernel "$(newest '6.1.0-*')" --os debian12 --ofed "$top/tests/real/smallest-ofed" --nvidia none
        --revision 7 --output "$to") # a tag of its own: other cases build at the same time
    SOURCE_DATE_EPOCH=1700000000 "${build[@]}"
    [[ $(buildah inspect --type image --format '{{.OCIv1.Created}}' "$(jq -r '.images[0].reference' "$to/images.json")") \
        == "2023-11-14 22:13:20 +0000 UTC" ]]
    SOURCE_DATE_EPOCH=today run "${build[@]}"
    [[ $status == 2 ]]
    [[ $output == *"SOURCE_DATE_EPOCH=today: not a number of seconds since 1970"* ]]
}

@test "OFED's configure: IPsec as the kernel has it, --nfsrdma, --ofed-flag; what the inbox driver has besides is listed" {
    local to=$BATS_TEST_TMPDIR/configured build krel root
    krel=$(newest '6.1.0-*')
    build=("$slipway" build --kernel "$krel" --os debian12 --ofed "$top/tests/real/smallest-ofed" --nvidia none
        --revision 8 --nfsrdma --output "$to")
    run "${build[@]}" --ofed-flag=--with-gds
    [[ $status == 0 ]]
    [[ $output == *"not in this OFED, but in the kernel's own mlx5 driver: "*"MLX5_BRIDGE"* ]]
    jq -e '.images[0].inbox_only | index("MLX5_BRIDGE") and (index("MLX5_ESWITCH") | not)' "$to/images.json"
    jq -e '[.modules[] | select(.path | endswith("/rpcrdma.ko"))][0].verdict == "will load"' "$to/proof.json"
    container=$(buildah from --quiet --pull-never "oci-archive:$to/nic.oci.tar")
    root=$(buildah mount "$container")
    grep -x CONFIG_MLX5_EN_IPSEC=y "$root/usr/src/ofa_kernel/x86_64/$krel/configure.mk.kernel"
    grep -x CONFIG_GPU_DIRECT_STORAGE=y "$root/usr/src/ofa_kernel/x86_64/$krel/configure.mk.kernel"
    buildah rm "$container" >/dev/null
    run "${build[@]}" --ofed-flag=--with-warp-drive
    [[ $status == 7 ]]
    [[ $output == *"--with-warp-drive is no option of this source's configure"* ]]
}

@test "6.12 of Debian 12: fetched, unpacked, a module compiled in its tree" {
    compiles_in_its_tree '6.12.*+deb12*'
}

@test "6.12 of Debian 13: fetched, unpacked, a module compiled in its tree" {
    compiles_in_its_tree '6.12.*+deb13*'
}

@test "7.2 of Debian 13's backports: fetched, unpacked, a module compiled in its tree" {
    compiles_in_its_tree '7.2.*+deb13*'
}

@test "7.3 of Debian 13's backports: fetched, unpacked, a module compiled in its tree" {
    compiles_in_its_tree '7.3.*+deb13*'
}

# Its compiler's root is the largest, and changes with each of its days.
# bats test_tags=full
@test "unstable: fetched, unpacked, a module compiled in its tree" {
    compiles_in_its_tree '*+deb14*'
}
