#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2154
# SPDX-License-Identifier: Apache-2.0
# slipway build --imex and --fabricmanager, NVIDIA's archives beside its installer: which file is one of them, of which version;
# and what the recipe makes of them. They are made up (installer.bash).

bats_require_minimum_version 1.5.0

load helpers
load kernel-from
load installer

version=595.58.03

setup() {
    folder=$BATS_TEST_TMPDIR/downloads
    tree=$BATS_TEST_TMPDIR/tree
    run_file=$folder/NVIDIA-Linux-x86_64-$version.run
    imex=$folder/imex-linux-x86_64-$version-archive.tar.xz
    manager=$folder/fabricmanager-linux-x86_64-$version-archive.tar.xz
    mkdir -p "$folder" "$tree"/{kernel-open,firmware}
    make_root "$BATS_TEST_TMPDIR/root" 6.6.9-own1
    printf 'an installer\n%s\n' $version >"$tree/.manifest"
    printf 'ccflags-y += -DNV_VERSION_STRING=\\"%s\\"\n' $version >"$tree/kernel-open/Kbuild"
    make_run "$tree" "$run_file" $version
    make_imex "$imex" $version
    make_fabricmanager "$manager" $version
}

# own CODE OPTION…: a build for a kernel of one's own that comes as far as to what --offline keeps from it (21).
own() {
    run_slipway "$1" build --os debian12 --offline --kernel-from "$BATS_TEST_TMPDIR/root" --nvidia "$run_file" "${@:2}"
}

@test "a GPU image that cannot serve ComputeDomains is noted, and --imex is the cure" {
    own 21
    says "no nvidia-imex in the userspace: on multi-node NVLink (GB200, GB300) the GPU image cannot serve ComputeDomains" "--imex adds it"
    own 21 --imex "$imex" --fabricmanager "$manager"
    [[ $output != *"no nvidia-imex"* ]]
    # The older name, a file that is called something else, and a version in place of the file.
    make_imex "$BATS_TEST_TMPDIR/x" $version nvidia-imex
    own 21 --imex "$BATS_TEST_TMPDIR/x"
    own 21 --imex $version --fabricmanager $version --sources "$folder"
    says "--imex $version: $imex" "--fabricmanager $version: $manager"
    [[ $output != *"no nvidia-imex"* ]]
    # One that came by another way is one, too.
    mkdir "$tree/imex"
    touch "$tree"/{libnvidia-ml.so.$version,libcuda.so.$version,nvidia-smi,firmware/gsp.bin}
    run_slipway 21 build --os debian12 --offline --kernel-from "$BATS_TEST_TMPDIR/root" --nvidia "$tree"
    says "no nvidia-imex in the userspace"
    touch "$tree/imex/nvidia-imex"
    run_slipway 21 build --os debian12 --offline --kernel-from "$BATS_TEST_TMPDIR/root" --nvidia "$tree"
    [[ $output != *"no nvidia-imex"* ]]
}

@test "an archive of another version than the driver's, or for another machine, is refused by name" {
    make_imex "$folder/imex-linux-x86_64-580.1.2-archive.tar.xz" 580.1.2
    own 6 --imex "$folder/imex-linux-x86_64-580.1.2-archive.tar.xz"
    says "--imex $folder/imex-linux-x86_64-580.1.2-archive.tar.xz: it is from driver 580.1.2, but the modules of --nvidia are from $version" \
        "try: imex-linux-x86_64-$version-archive.tar.xz"
    # The same of a tree, whose version is known once it is looked at.
    touch "$tree"/{libnvidia-ml.so.$version,libcuda.so.$version,nvidia-smi,firmware/gsp.bin}
    rm "$tree/.manifest"
    run_slipway 6 build --os debian12 --offline --kernel-from "$BATS_TEST_TMPDIR/root" --nvidia "$tree" --force \
        --imex "$folder/imex-linux-x86_64-580.1.2-archive.tar.xz"
    says "it is from driver 580.1.2, but the modules of --nvidia are from $version"
    # Not by its name alone.
    mv "$folder/imex-linux-x86_64-580.1.2-archive.tar.xz" "$imex"
    own 6 --imex "$imex"
    says "--imex $imex: the file is called $version, but its files are of 580.1.2"
    make_imex "$BATS_TEST_TMPDIR/sbsa" $version imex sbsa
    own 6 --imex "$BATS_TEST_TMPDIR/sbsa"
    says "the archive is for sbsa, but the images are for x86_64" "try: imex-linux-x86_64-$version-archive.tar.xz"
}

@test "a file that is no such archive is called what it is" {
    own 6 --imex "$manager"
    says "--imex $manager: not NVIDIA's archive: it has no nvidia-imex" "try: imex-linux-x86_64-VERSION-archive.tar.xz, as it was downloaded" \
        "try: --fabricmanager $manager"
    own 6 --fabricmanager "$run_file"
    says "--fabricmanager $run_file: not NVIDIA's archive" "it is a package or an installer"
    echo text >"$BATS_TEST_TMPDIR/text"
    own 6 --imex "$BATS_TEST_TMPDIR/text"
    says "--imex $BATS_TEST_TMPDIR/text: not NVIDIA's archive" "it is no archive"
    make_archive packed-again "$BATS_TEST_TMPDIR/again" usr/bin/nvidia-imex usr/bin/nvidia-imex-ctl
    own 6 --imex "$BATS_TEST_TMPDIR/again"
    says "its version is unknown, as the folder around its files is packed-again" "try: imex-linux-x86_64-VERSION-archive.tar.xz, as it was downloaded"
    truncate -s 100 "$imex"
    own 6 --imex "$imex"
    says "$imex: cut short or damaged" "try: download or copy it again"
    own 6 --imex "$folder"
    says "--imex $folder: not a file"
    own 6 --imex 580 --sources "$folder"
    says "--imex 580: no archive of this version in $folder"
    own 6 --imex /nowhere
    says "--imex /nowhere: No such file or directory"
    run_slipway 2 build --kernel newest --ofed reference --nvidia none --imex "$imex"
    says "--imex applies only to NVIDIA's kernel modules, which this build does not include"
}

@test "an archive without a userspace to go into is refused, --force or not" {
    rm "$tree/.manifest"
    run_slipway 6 build --os debian12 --offline --kernel-from "$BATS_TEST_TMPDIR/root" --nvidia "$tree" --force --imex "$imex"
    says "no nvidia-smi, libraries and firmware of the modules' version, $version" "try: --force without --imex"
}

# The recipe, run as the build container does, of an installer's folder and both archives.
@test "what the archives have lies in the GPU image where it is looked for" {
    local output_folder=$BATS_TEST_TMPDIR/output source=$BATS_TEST_TMPDIR/source beside=$BATS_TEST_TMPDIR/beside name
    mkdir -p "$output_folder" "$BATS_TEST_TMPDIR/work" "$source/firmware" "$beside"/{imex,fabricmanager}
    for name in nvidia-ml cuda; do
        echo 'int nothing;' | gcc -shared -fPIC -nostdlib "-Wl,-soname,lib$name.so.1" -x c -o "$source/lib$name.so.$version" -
    done
    touch "$source/nvidia-smi" "$source/firmware/gsp.bin"
    tar -C "$beside/imex" -xf "$imex"
    tar -C "$beside/fabricmanager" -xf "$manager"
    env SLIPWAY_KREL=6.1.0 SLIPWAY_ARCH=x86_64 SLIPWAY_KERNEL=/nowhere SLIPWAY_SOURCE="$source" SLIPWAY_BESIDE="$beside" \
        SLIPWAY_OUTPUT="$output_folder" SLIPWAY_WORK="$BATS_TEST_TMPDIR/work" SLIPWAY_CC=gcc SLIPWAY_JOBS=1 \
        "$repository/containers/recipes/userspace.sh"
    grep -qx usr/bin/nvidia-imex "$output_folder/usr/bin/nvidia-imex"
    [ -x "$output_folder/usr/bin/nvidia-imex-ctl" ]
    [ -x "$output_folder/usr/bin/nv-fabricmanager" ]
    [ -f "$output_folder/usr/lib/x86_64-linux-gnu/libnvfm.so.1" ]
    grep -qx etc/fabricmanager.cfg "$output_folder/usr/share/nvidia/nvswitch/fabricmanager.cfg"
    [ -f "$output_folder/usr/share/nvidia/nvswitch/dgx_topology" ]
    grep -qx 'packages=.*nvidia-imex nvidia-imex-ctl nv-fabricmanager.*' "$output_folder/set.conf"
}
