#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2154
# SPDX-License-Identifier: Apache-2.0
# slipway build --nvidia VERSION and --ofed VERSION: the source is found by what it says of itself, in the working folder or in
# the folders of --sources.

bats_require_minimum_version 1.5.0

load helpers
load kernel-from
load installer

version=595.58.03

setup() {
    folder=$BATS_TEST_TMPDIR/downloads
    tree=$BATS_TEST_TMPDIR/tree
    mkdir -p "$folder" "$tree"
    make_root "$BATS_TEST_TMPDIR/root" 6.6.9-own1
    make_tree "$tree" $version
    printf 'an installer\n%s\n' $version >"$tree/.manifest"
    cd "$folder" || return 1
}

# make_tree FOLDER VERSION: what open-gpu-kernel-modules has, as far as versions go.
make_tree() {
    mkdir -p "$1/kernel-open/nvidia"
    printf 'ccflags-y += -DNV_VERSION_STRING=\\"%s\\"\n' "$2" >"$1/kernel-open/Kbuild"
}

# own CODE OPTION…: a build for a kernel of one's own that comes as far as to what --offline keeps from it (21).
own() {
    run_slipway "$1" build --os debian12 --offline --kernel-from "$BATS_TEST_TMPDIR/root" "${@:2}"
}

@test "a version is enough for an installer, whatever its file is called" {
    make_run "$tree" "$folder/NVIDIA-Linux-x86_64-$version.run" $version
    own 21 --nvidia $version
    says "--nvidia $version: $folder/NVIDIA-Linux-x86_64-$version.run" \
        "branch 595 (production) of NVIDIA's driver is supported until March 2027"
    mv "$folder/NVIDIA-Linux-x86_64-$version.run" "$folder/driver"
    own 21 --nvidia $version
    says "--nvidia $version: $folder/driver"
    # The branch, as the GPU operator has it, from another working folder.
    cd /
    own 21 --nvidia 595 --sources "$folder"
    says "--nvidia 595: $folder/driver"
    [ ! -e "$BATS_TEST_TMPDIR/was-run" ]
    # A number is another one where it only begins with the same digits.
    own 6 --nvidia 59 --sources "$folder"
    says "--nvidia 59: no source of this version in $folder" "there: driver ($version)"
}

@test "a version is enough for an open tree, packed or not, by its Kbuild and not by its name" {
    make_tree "$folder/open-gpu-kernel-modules-580.1.2" $version
    own 6 --nvidia 580.1.2
    says "--nvidia 580.1.2: no source of this version in $folder" "there: open-gpu-kernel-modules-580.1.2 ($version)"
    own 6 --nvidia $version
    says "no nvidia-smi, libraries and firmware of the modules' version, $version" "$folder/open-gpu-kernel-modules-580.1.2"
    mkdir "$BATS_TEST_TMPDIR/packed"
    tar -C "$folder" -czf "$BATS_TEST_TMPDIR/packed/modules.tar.gz" open-gpu-kernel-modules-580.1.2
    own 6 --nvidia $version --sources "$BATS_TEST_TMPDIR/packed"
    says "no nvidia-smi, libraries and firmware of the modules' version, $version" "$BATS_TEST_TMPDIR/packed/modules.tar.gz"
    # A tarball of something else has no version to tell.
    make_tree "$BATS_TEST_TMPDIR/other/linux" $version
    tar -C "$BATS_TEST_TMPDIR/other" -czf "$BATS_TEST_TMPDIR/other/linux.tar.gz" linux
    rm -r "$BATS_TEST_TMPDIR/other/linux"
    own 6 --nvidia $version --sources "$BATS_TEST_TMPDIR/other"
    says "no source of this version in $BATS_TEST_TMPDIR/other"
    [[ $output != *"there:"* ]]
}

@test "of several sources of a version one has to be named; one for another machine is none" {
    make_run "$tree" "$folder/a.run" $version aarch64
    own 6 --nvidia $version
    says "--nvidia $version: no source of this version in $folder" "there: a.run ($version for aarch64)"
    own 6 --nvidia 595
    make_run "$tree" "$folder/b.run" $version
    own 21 --nvidia 595
    own 21 --nvidia $version
    says "--nvidia $version: $folder/b.run"
    cp -r "$tree" "$folder/unpacked"
    own 6 --nvidia $version
    says "--nvidia $version: several are of this version: $folder/b.run, $folder/unpacked" \
        "try: name one of them: --nvidia $folder/b.run"
    # A path goes before a version.
    ln -s b.run "$folder/$version"
    own 21 --nvidia $version
    [[ $output != *"several"* ]]
}

@test "a folder that is the source itself is taken, and a file that only has the name is named" {
    cp -r "$tree" "$folder/unpacked"
    own 6 --nvidia $version --sources "$folder/unpacked"
    says "--nvidia $version: $folder/unpacked" "no libnvidia-ml.so"
    echo "cut short" >"$BATS_TEST_TMPDIR/NVIDIA-Linux-x86_64-580.9.run"
    own 6 --nvidia 580.9 --sources "$BATS_TEST_TMPDIR"
    says "no source of this version in $BATS_TEST_TMPDIR" "there: NVIDIA-Linux-x86_64-580.9.run (damaged, or no source of this)"
    [[ $output != *"try: --sources DIR"* ]]
}

@test "--sources may be repeated, and all its folders are named where nothing was found" {
    mkdir "$BATS_TEST_TMPDIR/more"
    make_run "$tree" "$BATS_TEST_TMPDIR/more/x.run" $version
    own 21 --nvidia $version --sources "$folder" --sources "$BATS_TEST_TMPDIR/more"
    own 6 --nvidia 580 --sources "$folder" --sources "$BATS_TEST_TMPDIR/more"
    says "no source of this version in $folder, $BATS_TEST_TMPDIR/more" "there: x.run ($version)"
}

@test "an OFED is found by the folder around its archive, or by its tree's changelog" {
    make_ofed
    mkdir "$BATS_TEST_TMPDIR/ofed/debian"
    echo 'mlnx-ofed-kernel (24.07.OFED.24.07.0.6.0.1-1) unstable; urgency=low' >"$BATS_TEST_TMPDIR/ofed/debian/changelog"
    cp -r "$BATS_TEST_TMPDIR/ofed" "$folder/kernel-tree"
    own 21 --nvidia none --ofed 24.07-0.6.0.1
    says "--ofed 24.07-0.6.0.1: $folder/kernel-tree"
    mkdir -p "$BATS_TEST_TMPDIR/MLNX_OFED_SRC-25.10-1.2.3.0/SOURCES"
    touch "$BATS_TEST_TMPDIR/MLNX_OFED_SRC-25.10-1.2.3.0/install.pl"
    tar -C "$BATS_TEST_TMPDIR" -czf "$BATS_TEST_TMPDIR/MLNX_OFED_SRC-25.10-1.2.3.0/SOURCES/mlnx-ofed-kernel_25.10.orig.tar.gz" ofed
    tar -C "$BATS_TEST_TMPDIR" -czf "$folder/ofed.tgz" MLNX_OFED_SRC-25.10-1.2.3.0
    own 21 --nvidia none --ofed 25.10-1.2.3.0
    says "--ofed 25.10-1.2.3.0: $folder/ofed.tgz"
    own 6 --nvidia none --ofed 5.9
    says "--ofed 5.9: no source of this version in $folder" "there: kernel-tree (24.07-0.6.0.1), ofed.tgz (25.10-1.2.3.0)"
}
