#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2154
# SPDX-License-Identifier: Apache-2.0
# --ofed and --nvidia: what is no source is refused at once, with what is missing in it.

load helpers
@test "--revision is a number" {
    run_slipway 2 build --kernel newest --ofed /nonexistent/ofed --revision 1a
    says "--revision: not a number of at most nine digits"
}

@test "an --ofed that is not there is named" {
    run_slipway 6 build --kernel newest --ofed /nonexistent/ofed
    says "--ofed /nonexistent/ofed: No such file or directory" "try: MLNX_OFED_SRC-….tgz" "try: --ofed reference"
    run_slipway 6 build --kernel newest --nvidia /nonexistent/nvidia
    says "try: NVIDIA's installer, NVIDIA-Linux-….run"
}

@test "a version whose source is nowhere says where it was looked for, and what to download" {
    mkdir "$BATS_TEST_TMPDIR/empty"
    cd "$BATS_TEST_TMPDIR/empty"
    run_slipway 6 build --kernel newest --nvidia 535
    says "--nvidia 535: no source of this version in $BATS_TEST_TMPDIR/empty" \
        "try: download it and give the file: NVIDIA's installer" "try: --sources DIR: the folder that it is in" "try: --nvidia debian"
    run_slipway 6 build --kernel newest --ofed 24.07-0.6.1.0 --sources "$BATS_TEST_TMPDIR"
    says "--ofed 24.07-0.6.1.0: no source of this version in $BATS_TEST_TMPDIR" "try: download it and give the file: MLNX_OFED_SRC-"
    run_slipway 6 build --kernel newest --nvidia 535 --sources /nowhere
    says "--sources /nowhere: No such file or directory"
    # These tell no version.
    run_slipway 6 build --kernel newest --gdrcopy 2.6
    says "--gdrcopy 2.6: No such file or directory" "try: its source tree or a tarball of it"
}

@test "a web page that was saved under an installer's name is called one" {
    echo '<!DOCTYPE html><html>Sign in</html>' >"$BATS_TEST_TMPDIR/NVIDIA-Linux-x86_64-535.run"
    run_slipway 6 build --kernel newest --nvidia "$BATS_TEST_TMPDIR/NVIDIA-Linux-x86_64-535.run"
    says "NVIDIA-Linux-x86_64-535.run: this is a web page, not the file" "try: open the URL in a browser"
}

@test "the source of another driver is recognised" {
    make_ofed
    run_slipway 6 build --kernel newest --nvidia "$BATS_TEST_TMPDIR/ofed"
    says "try: --ofed $BATS_TEST_TMPDIR/ofed: it is a source of OFED"
    mkdir -p "$BATS_TEST_TMPDIR/nvidia/kernel-open"
    run_slipway 6 build --kernel newest --ofed "$BATS_TEST_TMPDIR/nvidia"
    says "try: --nvidia $BATS_TEST_TMPDIR/nvidia: it is a source of NVIDIA's kernel modules"
}

@test "an --nvidia that is a device is refused" {
    run_slipway 6 build --kernel newest --nvidia /dev/null
    says "--nvidia /dev/null: neither a folder nor a file"
}

@test "a folder without configure is no OFED source" {
    mkdir "$BATS_TEST_TMPDIR/ofed"
    run_slipway 6 build --kernel newest --ofed "$BATS_TEST_TMPDIR/ofed"
    says "not a source of OFED: it has no configure at its top"
}

@test "an OFED tree that lost one of its makefiles says which and why" {
    local lost
    for lost in makefile Makefile; do
        make_ofed
        rm "$BATS_TEST_TMPDIR/ofed/$lost"
        run_slipway 6 build --kernel newest --ofed "$BATS_TEST_TMPDIR/ofed"
        says "$lost is missing" "case-sensitive file system"
    done
}

@test "a folder without NVIDIA's modules is refused" {
    mkdir "$BATS_TEST_TMPDIR/nvidia"
    run_slipway 6 build --kernel newest --nvidia "$BATS_TEST_TMPDIR/nvidia"
    says "not a source of NVIDIA's kernel modules: it has neither kernel-open/ nor Kbuild"
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
    says "text.tgz: neither an archive nor NVIDIA's installer"
    # By the user's own names, also of what was unpacked into a folder of the run.
    tar -C "$BATS_TEST_TMPDIR" -czf "$BATS_TEST_TMPDIR/other.tgz" text.tgz
    run_slipway 6 "${kernel[@]}" --nvidia "$BATS_TEST_TMPDIR/other.tgz"
    says "--nvidia $BATS_TEST_TMPDIR/other.tgz: not a source of NVIDIA's kernel modules"
    mkdir -p "$BATS_TEST_TMPDIR/src/SOURCES"
    head -c 100 "$BATS_TEST_TMPDIR/other.tgz" >"$BATS_TEST_TMPDIR/src/SOURCES/mlnx-ofed-kernel_1.orig.tar.gz"
    touch "$BATS_TEST_TMPDIR/src/install.pl"
    tar -C "$BATS_TEST_TMPDIR/src" -czf "$BATS_TEST_TMPDIR/MLNX_OFED_SRC.tgz" .
    run_slipway 6 "${kernel[@]}" --nvidia none --ofed "$BATS_TEST_TMPDIR/MLNX_OFED_SRC.tgz"
    says "$BATS_TEST_TMPDIR/MLNX_OFED_SRC.tgz: SOURCES/mlnx-ofed-kernel_1.orig.tar.gz: cut short or damaged"
    [ -z "$(find "$BATS_TEST_TMPDIR/cache/stages" -maxdepth 1 -name "*source*")" ]
}

# own_ofed CODE SRC: a build with this OFED for a kernel of one's own, which goes as far as to what --offline keeps from it.
own_ofed() {
    run_slipway "$1" build --os debian12 --offline --kernel-from "$BATS_TEST_TMPDIR/root" --nvidia none --ofed "$2"
}

# unpacked: the one source in the cache is the tree.
expect_tree() {
    local stage
    stage=$(echo "$BATS_TEST_TMPDIR"/cache/stages/ofed-source-*)
    [ "$(cd "$stage" && echo *)" = mlnx-ofed-kernel ]
    [ -f "$stage/mlnx-ofed-kernel/makefile" ]
    rm -r "$stage"
}

@test "OFED in the archives that NVIDIA publishes: MLNX_OFED_LINUX, MLNX_OFED_SRC, source packages" {
    load kernel-from
    local all=$BATS_TEST_TMPDIR/all linux=MLNX_OFED_LINUX-24.07-0.6.1.0-debian12.1-x86_64
    local sources=$all/MLNX_OFED_SRC-24.07-0.6.1.0/SOURCES
    make_root "$BATS_TEST_TMPDIR/root" 6.6.9-own1
    make_ofed
    mkdir -p "$sources" "$all/$linux"/{src,DEBS}
    mv "$BATS_TEST_TMPDIR/ofed" "$all/mlnx-ofed-kernel-24.07"
    tar -C "$all" -czf "$sources/mlnx-ofed-kernel_24.07.OFED.24.07.0.6.1.0.orig.tar.gz" mlnx-ofed-kernel-24.07
    touch "$sources/../install.pl" "$sources"/{iser,knem,rdma-core}_24.07.orig.tar.gz
    tar -C "$all" -czf "$all/$linux/src/MLNX_OFED_SRC-debian-24.07-0.6.1.0.tgz" MLNX_OFED_SRC-24.07-0.6.1.0
    tar -C "$all" -czf "$all/$linux.tgz" "$linux"
    own_ofed 21 "$all/$linux.tgz"
    says "only mlnx-ofed-kernel of this OFED is compiled; other module sources are left out: iser, knem"
    # Once more: it is in the cache.
    own_ofed 21 "$all/$linux.tgz"
    says "other module sources are left out: iser, knem"
    expect_tree
    own_ofed 21 "$all/$linux"
    expect_tree
    own_ofed 21 "$sources/mlnx-ofed-kernel_24.07.OFED.24.07.0.6.1.0.orig.tar.gz"
    [[ $output != *"left out"* ]]
    expect_tree

    # RPM's: the tarball lies in a source package.
    mkdir -p "$all/rpm" "$all/MLNX_OFED_SRC-24.07/SRPMS" && touch "$all/MLNX_OFED_SRC-24.07/install.pl"
    tar -C "$all" -czf "$all/rpm/mlnx-ofa_kernel-24.07.tgz" mlnx-ofed-kernel-24.07
    touch "$all/rpm/mlnx-ofa_kernel.spec"
    pack_rpm mlnx-ofa_kernel "$all/rpm"
    cp "$rpm" "$all/MLNX_OFED_SRC-24.07/SRPMS/mlnx-ofa_kernel-24.07-OFED.24.07.0.6.1.1.src.rpm"
    own_ofed 21 "$all/MLNX_OFED_SRC-24.07"
    expect_tree

    # An unpacked one is used where it lies.
    mv "$all/mlnx-ofed-kernel-24.07" "$sources/"
    rm "$sources"/mlnx*.gz
    # In a folder whose name is a pattern.
    mv "$all/MLNX_OFED_SRC-24.07-0.6.1.0" "$all/[24].*"
    sources="$all/[24].*/SOURCES"
    own_ofed 21 "$all/[24].*"
    says "other module sources are left out: iser, knem"
    [ -z "$(find "$BATS_TEST_TMPDIR/cache/stages" -name "ofed-source*")" ]
    rm "$sources/mlnx-ofed-kernel-24.07/makefile"
    own_ofed 6 "$all/[24].*"
    says "makefile is missing"
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

@test "a dry run has the images' tags, and each stage with its key, and compiles nothing" {
    load kernel-from
    local build before
    make_root "$BATS_TEST_TMPDIR/root" 6.6.9-own1
    make_ofed
    make_gpu_sources
    mkdir "$BATS_TEST_TMPDIR/ofed/debian"
    echo 'mlnx-ofed-kernel (24.07.OFED.24.07.0.6.0.1-1) unstable; urgency=low' >"$BATS_TEST_TMPDIR/ofed/debian/changelog"
    echo 'ccflags-y += -DNV_VERSION_STRING=\"1.0\"' >"$BATS_TEST_TMPDIR/nvidia/kernel-open/Kbuild"
    build=(build --os debian12 --offline --force --kernel-from "$BATS_TEST_TMPDIR/root" --ofed "$BATS_TEST_TMPDIR/ofed"
        --nvidia "$BATS_TEST_TMPDIR/nvidia" --userspace "$BATS_TEST_TMPDIR/userspace" --dry-run)
    run_slipway 0 "${build[@]}"
    says "nic image  localhost/slipway/doca-driver:24.07-0.6.0.1-6.6.9-own1-debian12-amd64" \
        "gpu image  localhost/slipway/driver:1-6.6.9-own1-debian12" "0 packages to be fetched (0.0 MB)"
    [[ $output =~ kernel\ +[0-9a-f]{24}\ \ in\ the\ cache ]]
    # As releases before 23.10 have it.
    echo 'mlnx-ofed-kernel (5.9-OFED.5.9.0.5.5.1) unstable; urgency=low' >"$BATS_TEST_TMPDIR/ofed/debian/changelog"
    run_slipway 0 "${build[@]}"
    says "nic image  localhost/slipway/doca-driver:5.9-0.5.5.1-6.6.9-own1-debian12-amd64"
    [[ $output =~ nvidia\ +[0-9a-f]{24}\ \ to\ be\ built:\ not\ in\ the\ cache ]]
    [[ "$(ls "$BATS_TEST_TMPDIR/cache/stages")" =~ ^kernel-[0-9a-f]+$ ]]

    # What is bound to OFED gets another key with it, and nothing else does.
    keys() { SLIPWAY_DATADIR=$repository SLIPWAY_CACHE=$BATS_TEST_TMPDIR/cache "$SLIPWAY" "${build[@]}" --json 2>/dev/null |
        jq -r 'select(.event == "result").stages[] | .stage + " " + .key'; }
    before=$(keys)
    touch "$BATS_TEST_TMPDIR/ofed/one-more"
    run diff <(echo "$before") <(keys)
    [ "$(grep '^>' <<<"$output" | cut -d' ' -f2 | xargs)" = "ofed-configured ofed nvidia proof nic gpu" ]
}
