#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# slipway build --userspace, --gdrcopy and --nvidia-fs: what is wrong with them comes out before anything is fetched; and
# what the recipe makes of an installer's folder, run by itself. The libraries here are empty ones of the right names.

load helpers

version=535.1.2

setup() {
    tree=$BATS_TEST_TMPDIR/tree
    mkdir -p "$tree"
}

# library FILE SONAME
library() {
    mkdir -p "$(dirname "$1")"
    echo 'int nothing;' | gcc -shared -fPIC -nostdlib "-Wl,-soname,$2" -x c -o "$1" -
}

# program FILE…
program() {
    local file
    for file in "$@"; do
        mkdir -p "$(dirname "$file")"
        printf '#!/bin/sh\n' >"$file"
    done
}

# What NVIDIA-Linux-x86_64-….run -x leaves, as far as names go.
make_installer() {
    local name
    for name in nvidia-ml cuda nvidia-cfg; do
        library "$tree/run/lib$name.so.$version" "lib$name.so.1"
        library "$tree/run/32/lib$name.so.$version" "lib$name.so.1"
    done
    library "$tree/run/libnvidia-eglcore.so.$version" "libnvidia-eglcore.so.$version"
    library "$tree/run/libglxserver_nvidia.so.$version" libglxserver_nvidia.so
    program "$tree"/run/{nvidia-smi,nvidia-persistenced,nvidia-imex,nvidia-settings}
    mkdir -p "$tree/run/firmware"
    echo firmware >"$tree/run/firmware/gsp_ga10x.bin"
}

# recipe CODE: runs it as the build container does.
recipe() {
    output_folder=$BATS_TEST_TMPDIR/output
    rm -rf "$output_folder" "$BATS_TEST_TMPDIR/work"
    mkdir -p "$output_folder" "$BATS_TEST_TMPDIR/work"
    run env SLIPWAY_KREL=6.1.0 SLIPWAY_ARCH=x86_64 SLIPWAY_KERNEL=/nowhere SLIPWAY_SOURCE="$tree" \
        SLIPWAY_OUTPUT="$output_folder" SLIPWAY_WORK="$BATS_TEST_TMPDIR/work" SLIPWAY_CC=gcc SLIPWAY_JOBS=1 \
        "$repository/containers/recipes/userspace.sh"
    echo "$output"
    [ "$status" -eq "$1" ]
}

@test "of an installer's folder: libraries with the names that programs link, programs, firmware of the version" {
    make_installer
    recipe 0
    local libraries=$output_folder/usr/lib/x86_64-linux-gnu
    [ "$(readlink "$libraries/libcuda.so.1")" = "libcuda.so.$version" ]
    [ "$(readlink "$libraries/libcuda.so")" = libcuda.so.1 ]
    [ "$(readlink "$libraries/libnvidia-ml.so.1")" = "libnvidia-ml.so.$version" ]
    [ -f "$libraries/libnvidia-eglcore.so.$version" ]
    cmp "$libraries/libcuda.so.$version" "$tree/run/libcuda.so.$version"
    [ -z "$(find "$output_folder" -name '*glxserver*' -o -name nvidia-settings)" ]
    [ -x "$output_folder/usr/bin/nvidia-smi" ]
    [ -x "$output_folder/usr/bin/nvidia-imex" ]
    [ -f "$output_folder/usr/lib/firmware/nvidia/$version/gsp_ga10x.bin" ]
    grep -qx "version=$version" "$output_folder/set.conf"
}

@test "fabric manager and nvlsm of archives beside it lie where they look for their files" {
    make_installer
    program "$tree/fm/bin/nv-fabricmanager" "$tree/nvlsm/opt/nvidia/nvlsm/sbin/nvlsm"
    mkdir -p "$tree/fm/share/nvidia/nvswitch" "$tree/fm/etc" "$tree/nvlsm/usr/share/nvidia/nvlsm"
    echo FABRIC_MODE=0 >"$tree/fm/etc/fabricmanager.cfg"
    echo topology >"$tree/fm/share/nvidia/nvswitch/topology"
    echo conf >"$tree/nvlsm/usr/share/nvidia/nvlsm/nvlsm.conf"
    library "$tree/fm/lib/libnvfm.so.1" libnvfm.so.1
    recipe 0
    [ -x "$output_folder/usr/bin/nv-fabricmanager" ]
    [ -f "$output_folder/usr/share/nvidia/nvswitch/fabricmanager.cfg" ]
    [ -f "$output_folder/usr/share/nvidia/nvswitch/topology" ]
    [ -x "$output_folder/opt/nvidia/nvlsm/sbin/nvlsm" ]
    [ -f "$output_folder/usr/share/nvidia/nvlsm/nvlsm.conf" ]
    [ -f "$output_folder/usr/lib/x86_64-linux-gnu/libnvfm.so.1" ]
}

@test "a folder that cannot serve is refused with what it lacks" {
    make_installer
    rm "$tree/run/nvidia-smi"
    recipe 1
    says "no nvidia-smi: unpack the installer there"
    make_installer
    rm -r "$tree/run/firmware"
    recipe 1
    says "no firmware/*.bin"
    make_installer
    library "$tree/older/libnvidia-ml.so.470.1.1" libnvidia-ml.so.1
    recipe 1
    says "several drivers" "libnvidia-ml.so.470.1.1 libnvidia-ml.so.$version"
}

@test "sources that are none are refused before anything is fetched" {
    run_slipway 6 build --kernel newest --gdrcopy "$tree"
    says "no source of GDRCopy: it has no src/gdrdrv/gdrdrv.c"
    run_slipway 6 build --kernel newest --nvidia-fs "$tree"
    says "no source of nvidia-fs: it has no src/nvfs-core.c"
    run_slipway 6 build --kernel newest --nvidia-fs "$tree/nowhere"
    says "--nvidia-fs $tree/nowhere: No such file or directory: name a source tree or a tarball"
    touch "$tree/installer.run"
    run_slipway 6 build --kernel newest --userspace "$tree/installer.run"
    says "--userspace $tree/installer.run: a folder is wanted: unpack the installer"
    run_slipway 2 build --kernel newest --ofed reference --nvidia none --gdrcopy "$tree"
    says "go with NVIDIA's modules, and --nvidia none builds none"
}
