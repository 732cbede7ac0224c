#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2154
# SPDX-License-Identifier: Apache-2.0
# slipway build --nvidia with NVIDIA's installer: what is wrong with it comes out before anything is compiled, and nothing of
# it is run. What is made of a whole one is in tests/vm/full/15-installer.bats.

bats_require_minimum_version 1.5.0

load helpers
load kernel-from
load installer

version=535.1.2

setup() {
    tree=$BATS_TEST_TMPDIR/tree
    run_file=$BATS_TEST_TMPDIR/NVIDIA-Linux-x86_64-$version.run
    mkdir -p "$tree"/{kernel,kernel-open}/nvidia
    make_root "$BATS_TEST_TMPDIR/root" 6.6.9-own1
    printf 'an installer\n%s\n' $version >"$tree/.manifest"
    printf 'ccflags-y += -DNV_VERSION_STRING=\\"%s\\"\n' $version | tee "$tree/kernel/Kbuild" >"$tree/kernel-open/Kbuild"
}

# own CODE OPTION…: a build for a kernel of one's own that comes as far as to what --offline keeps from it (21).
own() {
    run_slipway "$1" build --os debian12 --offline --kernel-from "$BATS_TEST_TMPDIR/root" --nvidia "${@:2}"
}

@test "an installer is taken with the userspace in it, and never run" {
    make_run "$tree" "$run_file" $version
    own 21 "$run_file"
    [ ! -e "$BATS_TEST_TMPDIR/was-run" ]
    sh "$run_file" || [ -e "$BATS_TEST_TMPDIR/was-run" ]
}

@test "an installer cut short, changed or for another machine is refused" {
    make_run "$tree" "$run_file" $version aarch64
    own 6 "$run_file"
    says "the installer is for aarch64, but the images are for x86_64: download NVIDIA-Linux-x86_64-$version.run"

    make_run "$tree" "$run_file" $version
    truncate -s -20 "$run_file"
    own 6 "$run_file"
    says "its MD5 is" "but its first lines name" "the installer is cut short or was changed: download it again"
    sed -i 16q "$run_file"
    own 6 "$run_file"
    says "the installer is cut short, before its line"

    make_run "$tree" "$run_file" $version
    (cd "$BATS_TEST_TMPDIR" && sha256sum "$(basename "$run_file")" >"$run_file.sha256sum")
    own 21 "$run_file"
    sed -i 's/^....../000000/' "$run_file.sha256sum"
    own 6 "$run_file"
    says "$run_file: the sha256 is" "$run_file.sha256sum has 000000" "download it again"
    [ ! -e "$BATS_TEST_TMPDIR/was-run" ]
}

@test "modules of another version than the userspace beside them are refused" {
    make_run "$tree" "$run_file" $version
    mkdir "$BATS_TEST_TMPDIR/userspace"
    touch "$BATS_TEST_TMPDIR"/userspace/{libnvidia-ml.so.535.9.9,libcuda.so.535.9.9,nvidia-smi}
    own 6 "$run_file" --kernel-module-type proprietary --userspace "$BATS_TEST_TMPDIR/userspace"
    says "it is from driver 535.9.9, but the modules of --nvidia are from $version"
}

@test "a folder where it was unpacked is both, too, and has to be whole" {
    own 6 "$tree"
    says "--nvidia: no libnvidia-ml.so.* below $tree"
    touch "$tree"/{libnvidia-ml.so.$version,libcuda.so.$version,nvidia-smi}
    own 6 "$tree"
    says "--nvidia $tree: driver $version is incomplete: it has no firmware/*.bin"
    # GPUs that want the proprietary modules have none.
    own 21 "$tree" --kernel-module-type proprietary
}

@test "an installer that was made without an MD5 is taken, with a note where nothing else shows damage" {
    make_run "$tree" "$run_file" $version
    sed -i 's/^MD5=.*/MD5=00000000000000000000000000000000/' "$run_file"
    own 21 "$run_file"
    says "$run_file cannot be checked for changes: it contains no MD5" "there is no NVIDIA-Linux-x86_64-$version.run.sha256sum next to it"
    (cd "$BATS_TEST_TMPDIR" && sha256sum "$(basename "$run_file")" >"$run_file.sha256sum")
    own 21 "$run_file"
    [[ $output != *"contains no MD5"* ]]
    sed -i '/^MD5=/d' "$run_file"
    rm "$run_file.sha256sum"
    own 6 "$run_file"
    says "the first lines are not those of NVIDIA's installer: no MD5 of 32 digits"
}

@test "an installer without the kind of modules that is asked for is refused before anything is compiled" {
    rm -r "$tree/kernel-open"
    make_run "$tree" "$run_file" $version
    own 6 "$run_file" --kernel-module-type open
    says "--kernel-module-type open: $run_file has only the proprietary modules: leave out the option, or use"
    own 21 "$run_file" --kernel-module-type proprietary
    mv "$tree/kernel" "$tree/kernel-open"
    make_run "$tree" "$run_file" $version
    own 6 "$run_file" --kernel-module-type proprietary
    says "--kernel-module-type proprietary: $run_file has only the open modules: use NVIDIA's installer of that version"
    own 21 "$run_file" --kernel-module-type open
    touch "$tree"/{libnvidia-ml.so.$version,libcuda.so.$version,nvidia-smi}
    own 6 "$tree" --kernel-module-type proprietary
    says "--kernel-module-type proprietary: $tree has only the open modules"
}

@test "--kernel-module-type is one of two kinds" {
    own 2 "$tree" --kernel-module-type both
    says "--kernel-module-type both: must be open or proprietary" "try: slipway combine makes one image with both kinds of modules"
}
