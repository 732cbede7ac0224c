#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# --kernel-from: every shape that a kernel of one's own can have, and what is said of what is none. Offline a build ends
# once it has the kernel: there is no root.

bats_require_minimum_version 1.5.0
load helpers
load kernel-from

krel=6.6.9-own1
made=21

setup() {
    cache=$BATS_TEST_TMPDIR/cache
    root=$BATS_TEST_TMPDIR/root
    make_gpu_sources
    stub_programs
}

# kernel_from CODE PATH… [-- OPTION…]
kernel_from() {
    local code=$1 arguments=()
    shift
    while [[ $# -gt 0 && $1 != -- ]]; do
        arguments+=(--kernel-from "$1")
        shift
    done
    [[ $# -eq 0 ]] || shift
    run "${as_root[@]}" env PATH="$stubs" SLIPWAY_DATADIR="${SLIPWAY_DATADIR:-$repository}" SLIPWAY_CACHE="$cache" SLIPWAY_MIRRORS=/dev/null \
        "$SLIPWAY" build --os debian12 --nvidia "$BATS_TEST_TMPDIR/nvidia" --userspace "$BATS_TEST_TMPDIR/userspace" --offline "${arguments[@]}" "$@"
    echo "slipway build ${arguments[*]} -> $status"
    echo "$output"
    [ "$status" -eq "$code" ]
}

# The outputs have the one layout, and work wherever they lie.
has_kernel() {
    local tree modules
    tree=$(echo "$cache"/stages/kernel-*)
    modules=$(echo "$cache"/stages/modules-*)
    [ -f "$tree/lib/modules/$krel/build/include/linux/module.h" ]
    [ -f "$tree/lib/modules/$krel/source/include/linux/module.h" ]
    [[ $(readlink "$tree/lib/modules/$krel/build") == ../../../usr/src/* ]]
    [ -z "$(find "$tree" -lname '/*')" ]
    [ -f "$modules/lib/modules/$krel/kernel/drivers/gpu/drm.ko" ]
    [ -f "$modules/lib/modules/$krel/modules.builtin" ]
    [ -f "$modules/lib/modules/$krel/modules.order" ]
}

@test "the packages of make bindeb-pkg" {
    mkdir "$BATS_TEST_TMPDIR/headers"
    make_root "$root" "$krel"
    mkdir -p "$BATS_TEST_TMPDIR/headers/lib/modules/$krel"
    mv "$root/usr" "$BATS_TEST_TMPDIR/headers/"
    mv "$root/lib/modules/$krel/build" "$BATS_TEST_TMPDIR/headers/lib/modules/$krel/"
    pack_deb "linux-headers-$krel" "$BATS_TEST_TMPDIR/headers" "$BATS_TEST_TMPDIR/any-name"
    pack_deb "linux-image-$krel" "$root" "$BATS_TEST_TMPDIR/any-other-name"
    kernel_from "$made" "$BATS_TEST_TMPDIR/any-name" "$BATS_TEST_TMPDIR/any-other-name"
    has_kernel
}

@test "a kernel for another architecture than the build's: its configuration says so, whatever its name does not" {
    make_root "$root" "$krel"
    sed -i 's/^CONFIG_X86_64=y/CONFIG_ARM64=y/' "$root/usr/src/linux-headers-$krel/.config"
    kernel_from 2 "$root"
    says "kernel $krel is for aarch64, as its configuration says, but this build is for x86_64" "try: --arch aarch64"
    kernel_from "$made" "$root" -- --arch arm64
}

@test "the packages of make rpm-pkg" {
    make_headers "$BATS_TEST_TMPDIR/devel/usr/src/kernels/$krel" "$krel"
    mkdir -p "$BATS_TEST_TMPDIR/devel/lib/modules/$krel"
    ln -s "/usr/src/kernels/$krel" "$BATS_TEST_TMPDIR/devel/lib/modules/$krel/build"
    pack_rpm kernel-devel "$BATS_TEST_TMPDIR/devel"
    devel=$rpm
    make_modules "$root" "$krel"
    pack_rpm kernel "$root"
    kernel_from "$made" "$devel" "$rpm"
    has_kernel
}

@test "Debian's own headers in three packages, one of which names no kernel" {
    local part
    make_root "$BATS_TEST_TMPDIR/flavour" "$krel"
    mkdir -p "$BATS_TEST_TMPDIR/common/usr/src/linux-headers-common" "$BATS_TEST_TMPDIR/kbuild/usr/lib/linux-kbuild-6.6"
    mv "$BATS_TEST_TMPDIR/flavour/usr/src/linux-headers-$krel/include/linux" "$BATS_TEST_TMPDIR/include-linux"
    mkdir "$BATS_TEST_TMPDIR/common/usr/src/linux-headers-common/include"
    mv "$BATS_TEST_TMPDIR/include-linux" "$BATS_TEST_TMPDIR/common/usr/src/linux-headers-common/include/linux"
    touch "$BATS_TEST_TMPDIR/common/usr/src/linux-headers-common/Makefile"
    mv "$BATS_TEST_TMPDIR/flavour/usr/src/linux-headers-$krel/scripts" "$BATS_TEST_TMPDIR/kbuild/usr/lib/linux-kbuild-6.6/"
    ln -s ../../lib/linux-kbuild-6.6/scripts "$BATS_TEST_TMPDIR/flavour/usr/src/linux-headers-$krel/scripts"
    echo 'include /usr/src/linux-headers-common/Makefile' >"$BATS_TEST_TMPDIR/flavour/usr/src/linux-headers-$krel/Makefile"
    ln -s /usr/src/linux-headers-common "$BATS_TEST_TMPDIR/flavour/lib/modules/$krel/source"
    for part in flavour common kbuild; do
        pack_deb "linux-$part" "$BATS_TEST_TMPDIR/$part" "$BATS_TEST_TMPDIR/$part.deb"
    done
    kernel_from "$made" "$BATS_TEST_TMPDIR"/{flavour,common,kbuild}.deb
    tree=$(echo "$cache"/stages/kernel-*)
    [ -f "$tree/lib/modules/$krel/source/include/linux/module.h" ]
    [ -f "$tree/lib/modules/$krel/build/scripts/mod/modpost" ]
    run ! grep -r /usr/src "$tree"/usr/src/linux-headers-*/Makefile
    rm -rf "$cache"
    kernel_from 12 "$BATS_TEST_TMPDIR"/{flavour,common}.deb
    says "it has no scripts/mod/modpost" "also give the folder or package with the rest of the headers"
}

@test "a tarball of headers, and one of a root, in any compression" {
    make_root "$root" "$krel"
    tar -C "$root" -cJf "$BATS_TEST_TMPDIR/root.tar.xz" .
    kernel_from "$made" "$BATS_TEST_TMPDIR/root.tar.xz"
    has_kernel
    rm -rf "$cache"
    tar -C "$root/usr/src" --zstd -cf "$BATS_TEST_TMPDIR/headers" "linux-headers-$krel"
    pack_deb "linux-image-$krel" "$root" "$BATS_TEST_TMPDIR/image.deb"
    kernel_from "$made" "$BATS_TEST_TMPDIR/headers" "$BATS_TEST_TMPDIR/image.deb"
    has_kernel
}

# The lower layer has a kernel that the upper one removes, and a file that it replaces.
make_layers() {
    make_root "$BATS_TEST_TMPDIR/lower" 6.6.8-old
    make_headers "$BATS_TEST_TMPDIR/lower/usr/src/linux-headers-$krel" "$krel"
    rm "$BATS_TEST_TMPDIR/lower/usr/src/linux-headers-$krel/Module.symvers"
    mkdir -p "$BATS_TEST_TMPDIR/lower/bin" && cp /bin/true "$BATS_TEST_TMPDIR/lower/bin/sh"
    make_root "$root" "$krel"
    touch "$root/lib/modules/.wh.6.6.8-old" "$root/usr/src/.wh.linux-headers-6.6.8-old"
    tar -C "$BATS_TEST_TMPDIR/lower" -czf "$BATS_TEST_TMPDIR/lower.tgz" .
    tar -C "$root" -czf "$BATS_TEST_TMPDIR/upper.tgz" .
}

@test "an image: OCI layout, OCI archive and docker archive, with whiteouts" {
    make_layers
    make_layout "$BATS_TEST_TMPDIR/layout" "$BATS_TEST_TMPDIR"/{lower,upper}.tgz
    kernel_from "$made" "$BATS_TEST_TMPDIR/layout"
    has_kernel
    rm -rf "$cache"
    tar -C "$BATS_TEST_TMPDIR/layout" -cf "$BATS_TEST_TMPDIR/archive" .
    kernel_from "$made" "$BATS_TEST_TMPDIR/archive"
    has_kernel
    [ ! -e "$(echo "$cache"/stages/kernel-*)/bin" ]
    rm -rf "$cache"
    mkdir -p "$BATS_TEST_TMPDIR/docker"/{a,b}
    zcat "$BATS_TEST_TMPDIR/lower.tgz" >"$BATS_TEST_TMPDIR/docker/a/layer.tar"
    zcat "$BATS_TEST_TMPDIR/upper.tgz" >"$BATS_TEST_TMPDIR/docker/b/layer.tar"
    echo '[{"Layers":["a/layer.tar","b/layer.tar"]}]' >"$BATS_TEST_TMPDIR/docker/manifest.json"
    tar -C "$BATS_TEST_TMPDIR/docker" -cf "$BATS_TEST_TMPDIR/docker.tar" a b manifest.json
    kernel_from "$made" "$BATS_TEST_TMPDIR/docker.tar"
    has_kernel
}

@test "a damaged image says which part is" {
    make_layers
    make_layout "$BATS_TEST_TMPDIR/layout" "$BATS_TEST_TMPDIR/upper.tgz"
    layer=$(sha256sum <"$BATS_TEST_TMPDIR/upper.tgz" | cut -d' ' -f1)
    tar -C "$root" -czf "$BATS_TEST_TMPDIR/layout/blobs/sha256/$layer" lib usr
    kernel_from 12 "$BATS_TEST_TMPDIR/layout"
    says "blobs/sha256/$layer is damaged"
    echo '{"layers":[]}' >"$BATS_TEST_TMPDIR/layout/blobs/sha256/$digest"
    kernel_from 12 "$BATS_TEST_TMPDIR/layout"
    says "blobs/sha256/$digest is damaged"
}

@test "layers of an archive are compared with their digests, and named by nothing else" {
    make_layers
    make_layout "$BATS_TEST_TMPDIR/layout" "$BATS_TEST_TMPDIR/upper.tgz"
    layer=$(sha256sum <"$BATS_TEST_TMPDIR/upper.tgz" | cut -d' ' -f1)
    tar -C "$root" -czf "$BATS_TEST_TMPDIR/layout/blobs/sha256/$layer" --mtime=@1 lib usr
    tar -C "$BATS_TEST_TMPDIR/layout" -cf "$BATS_TEST_TMPDIR/archive" .
    kernel_from 12 "$BATS_TEST_TMPDIR/archive"
    says "blobs/sha256/$layer is damaged"
    echo '{"layers":["../../upper.tgz"]}' >"$BATS_TEST_TMPDIR/manifest"
    add_blob "$BATS_TEST_TMPDIR/layout" "$BATS_TEST_TMPDIR/manifest"
    echo "{\"manifests\":[{\"digest\":\"sha256:$digest\"}]}" >"$BATS_TEST_TMPDIR/layout/index.json"
    kernel_from 12 "$BATS_TEST_TMPDIR/layout"
    says "it has a digest that is not SHA-256"
    mkdir "$BATS_TEST_TMPDIR/docker"
    echo '[{"Layers":["../upper.tgz"]}]' >"$BATS_TEST_TMPDIR/docker/manifest.json"
    tar -C "$BATS_TEST_TMPDIR/docker" -cf "$BATS_TEST_TMPDIR/docker.tar" manifest.json
    kernel_from 19 "$BATS_TEST_TMPDIR/docker.tar"
    says "its layer ../upper.tgz leads out of the archive"
}

@test "an image for another architecture is none for this" {
    make_layers
    make_layout "$BATS_TEST_TMPDIR/layout" "$BATS_TEST_TMPDIR/upper.tgz"
    sed -i 's/"architecture":"[a-z0-9]*"/"architecture":"riscv64"/' "$BATS_TEST_TMPDIR/layout/index.json"
    kernel_from 2 "$BATS_TEST_TMPDIR/layout"
    says "it has no image for"
}

@test "a folder of the user's is read and never linked to" {
    make_root "$root" "$krel"
    kernel_from "$made" "$root"
    has_kernel
    [ -z "$(find "$cache"/stages/kernel-* "$cache"/stages/modules-* -type f -samefile "$root/usr/src/linux-headers-$krel/Makefile")" ]
    echo changed >"$root/usr/src/linux-headers-$krel/include/linux/module.h"
    kernel_from "$made" "$root"
    [ "$(echo "$cache"/stages/kernel-* | wc -w)" -eq 2 ]
}

@test "what a node's probe collected is a kernel, and its modules come beside it" {
    make_root "$root" "$krel"
    pack_deb "linux-image-$krel" "$root" "$BATS_TEST_TMPDIR/image.deb"
    mkdir "$root/etc"
    printf 'ID=debian\nVERSION_ID="12"\n' >"$root/etc/os-release"
    run_slipway 0 probe --root "$root" -o "$BATS_TEST_TMPDIR/probe.tar.zst"
    says "$krel (not running)" "headers  /usr/src/linux-headers-$krel"
    kernel_from "$made" "$BATS_TEST_TMPDIR/probe.tar.zst" "$BATS_TEST_TMPDIR/image.deb"
    has_kernel
    says "$krel"
    run_slipway 0 probe --root "$root" -o "$BATS_TEST_TMPDIR/small.tar.zst" --headers=no --json
    [ "$(jq -r .kernel.release <<<"$output")" = "$krel" ]
    [ "$(jq -r .files.headers.reason <<<"$output")" = "--headers=no" ]
    [ "$(jq -r .modules <<<"$output")" = null ]
    [ "$(tar --zstd -tf "$BATS_TEST_TMPDIR/small.tar.zst" | head -n 1)" = probe.json ]
    head -c 300 "$BATS_TEST_TMPDIR/small.tar.zst" >"$BATS_TEST_TMPDIR/cut.tar.zst"
    kernel_from 2 "$BATS_TEST_TMPDIR/cut.tar.zst"
    says "cut short or damaged"
    rm -rf "${root:?}/lib/modules/$krel/build" "${root:?}/usr/src"
    run_slipway 0 probe --root "$root" -o "$BATS_TEST_TMPDIR/none.tar.zst"
    says "the probe has no headers" "--kernel-from"
}

@test "several kernels: the one that is asked for, or none" {
    make_root "$root" "$krel"
    make_root "$root" 6.6.9-other
    kernel_from 2 "$root"
    says "it has several kernels: 6.6.9-other, $krel" "try: choose one: --kernel KREL"
    kernel_from 5 "$root" -- --kernel 6.6.10
    says "--kernel-from: the given files belong to kernel 6.6.9-other, $krel, not to 6.6.10"
    kernel_from "$made" "$root" -- --kernel "$krel"
    has_kernel
}

@test "what is no kernel is refused with what was found and what to give" {
    mkdir "$root"
    kernel_from 2 "$root"
    says "no kernel files in this folder" "try: give .deb or .rpm files of the kernel's headers and modules, or a file from slipway probe"
    touch "$root/file"
    pack_deb bash "$root" "$BATS_TEST_TMPDIR/bash.deb"
    kernel_from 2 "$BATS_TEST_TMPDIR/bash.deb"
    says "no kernel files in this deb"
    echo text >"$BATS_TEST_TMPDIR/text"
    kernel_from 2 "$BATS_TEST_TMPDIR/text"
    says "not a known kind of archive"
    kernel_from 2 "$BATS_TEST_TMPDIR/not-there"
    says "No such file or directory"
    mkdir "$BATS_TEST_TMPDIR/source"
    mkdir "$BATS_TEST_TMPDIR/source/scripts" && touch "$BATS_TEST_TMPDIR/source/scripts/Kbuild.include"
    kernel_from 2 "$BATS_TEST_TMPDIR/source"
    says "a kernel source that is not built"
    make_headers "$BATS_TEST_TMPDIR/headers" "$krel"
    rm "$BATS_TEST_TMPDIR/headers/Module.symvers"
    kernel_from 2 "$BATS_TEST_TMPDIR/headers"
    says "the headers of kernel $krel have no Module.symvers"
}

@test "a damaged package and an archive that leads out leave nothing behind" {
    make_root "$root" "$krel"
    pack_deb "linux-image-$krel" "$root" "$BATS_TEST_TMPDIR/image.deb"
    truncate -s 2000 "$BATS_TEST_TMPDIR/image.deb"
    kernel_from 12 "$BATS_TEST_TMPDIR/image.deb"
    says "image.deb: cut short or damaged: "
    ln -s ../../../../../../../etc "$root/usr/src/linux-headers-$krel/out"
    tar -C "$root" -czf "$BATS_TEST_TMPDIR/root.tgz" .
    kernel_from 19 "$BATS_TEST_TMPDIR/root.tgz"
    says "leads out of the archive"
    [ -z "$(ls "$cache/stages")" ]
}

@test "headers alone are not enough, and what is lacking is named before anything is compiled" {
    make_headers "$BATS_TEST_TMPDIR/headers" "$krel"
    kernel_from 5 "$BATS_TEST_TMPDIR/headers"
    says "the given files lack the kernel's own modules, which drivers depend on; the distribution's packages must provide the rest" \
        "kernel $krel: the kernel's own modules, which drivers depend on, are neither in the files of --kernel-from nor" \
        "linux-image-$krel"
    # A bundle of it would be carried to the site in vain.
    make_ofed
    run_slipway 5 bundle --kernel-from "$BATS_TEST_TMPDIR/headers" --os debian12 --nvidia none --ofed "$BATS_TEST_TMPDIR/ofed" \
        -o "$BATS_TEST_TMPDIR/bundle"
    says "kernel $krel: the kernel's own modules, which drivers depend on, are neither"
}

@test "headers of an untrusted archive never bring files of this machine" {
    local headers=$root/usr/src/linux-headers-$krel
    make_root "$root" "$krel"
    mkdir "$BATS_TEST_TMPDIR/private"
    touch "$BATS_TEST_TMPDIR/private"/{Makefile,secret}
    echo "include $BATS_TEST_TMPDIR/private/Makefile" >"$headers/Makefile"
    ln -s "$BATS_TEST_TMPDIR/private/secret" "$headers/secret"
    tar -C "$root" -czf "$BATS_TEST_TMPDIR/root.tgz" .
    kernel_from "$made" "$BATS_TEST_TMPDIR/root.tgz"
    [ -z "$(find "$cache/stages" -path '*private*' -o -name secret -type f)" ]
    rm -rf "$cache"
    echo "include ../../../../../../../../../../../../..$BATS_TEST_TMPDIR/private/Makefile" >"$headers/Makefile"
    tar -C "$root" -czf "$BATS_TEST_TMPDIR/root.tgz" .
    kernel_from 12 "$BATS_TEST_TMPDIR/root.tgz"
    says "which is too far away to be included"
    [ -z "$(ls "$cache/stages")" ]
}

@test "modules.order of an untrusted archive never names files of this machine" {
    local headers=$BATS_TEST_TMPDIR/headers/linux
    make_headers "$headers" "$krel"
    mkdir "$headers/fs" "$BATS_TEST_TMPDIR/victim"
    echo secret >"$BATS_TEST_TMPDIR/victim/h.ko"
    touch "$headers"/modules.{builtin,builtin.modinfo}
    echo "fs/../../../../../../../../../../../../..$BATS_TEST_TMPDIR/victim/h.o" >"$headers/modules.order"
    tar -C "$BATS_TEST_TMPDIR/headers" -czf "$BATS_TEST_TMPDIR/headers.tgz" .
    kernel_from 19 "$BATS_TEST_TMPDIR/headers.tgz" -- --jobs 1
    says "modules.order" "victim/h.o leads out of the folder"
    [ -z "$(find "$cache" -name h.ko)" ]
    [ "$(cat "$BATS_TEST_TMPDIR/victim/h.ko")" = secret ]
}

@test "a probe of a mounted system never follows a link to this one" {
    make_modules "$root" "$krel"
    make_headers "$BATS_TEST_TMPDIR/here" "$krel"
    ln -s "$BATS_TEST_TMPDIR/here" "$root/lib/modules/$krel/build"
    run_slipway 0 probe --root "$root" -o "$BATS_TEST_TMPDIR/probe.tar.zst"
    says "headers  left out: the node has none"
    run_slipway 2 probe --root "$root" -o "$BATS_TEST_TMPDIR/probe.tar.zst" --headers=yes
    says "lib/modules/$krel/build leads to none"
}

@test "a bundle without headers: the build says what it lacks and goes on with the distribution's packages" {
    load repository
    make_repository
    add_kernel 6.1.0-56-amd64
    publish
    update_system
    mkdir -p "$root/lib/modules/6.1.0-56-amd64" "$root/etc"
    printf 'ID=debian\nVERSION_ID="12"\n' >"$root/etc/os-release"
    run_slipway 0 probe --root "$root" -o "$BATS_TEST_TMPDIR/probe.tar.zst"
    run_slipway 12 build --kernel-from "$BATS_TEST_TMPDIR/probe.tar.zst" --nvidia "$BATS_TEST_TMPDIR/nvidia"
    says "kernel 6.1.0-56-amd64: the given files lack the headers" \
        "the distribution's packages must provide the rest" \
        "linux-headers-6.1.0-56-common" "try: give the headers package of exactly this release"
}

@test "a node of another name than its kernel's: whose tag the operators will ask for is reported" {
    load repository
    make_repository
    add_kernel 6.1.0-56-amd64
    publish
    update_system
    mkdir -p "$root/lib/modules/6.1.0-56-amd64" "$root/etc"
    printf 'ID=acmeos\nVERSION_ID="3.1"\n' >"$root/etc/os-release"
    run_slipway 0 probe --root "$root" -o "$BATS_TEST_TMPDIR/probe.tar.zst"
    run_slipway 12 build --kernel-from "$BATS_TEST_TMPDIR/probe.tar.zst" --nvidia "$BATS_TEST_TMPDIR/nvidia"
    says "os-release says acmeos 3.1, but its images are made as for Debian 12 (bookworm)" \
        "ask for a tag that ends with acmeos3.1, and this one ends with debian12" "slipway-catalogue(5)"
}

@test "a bundle that was changed is refused" {
    make_root "$root" "$krel"
    run_slipway 0 probe --root "$root" -o "$BATS_TEST_TMPDIR/probe.tar.zst" --headers=no
    mkdir "$BATS_TEST_TMPDIR/changed"
    tar --zstd -xf "$BATS_TEST_TMPDIR/probe.tar.zst" -C "$BATS_TEST_TMPDIR/changed"
    sed -i "s/\"release\": \"$krel\"/\"release\": \"..\/..\/etc\"/" "$BATS_TEST_TMPDIR/changed/probe.json"
    tar -C "$BATS_TEST_TMPDIR/changed" -cf "$BATS_TEST_TMPDIR/changed.tar" probe.json
    kernel_from 12 "$BATS_TEST_TMPDIR/changed.tar"
    says '"release" is "../../etc": it is no kernel release'
}

@test "probe: what is wrong on its command line" {
    run_slipway 2 probe --root /no/such/folder
    says "--root /no/such/folder: No such file or directory"
    run_slipway 2 probe --headers sometimes
    says "must be auto, yes or no"
    run_slipway 2 probe --json -o -
    says "both would write to stdout"
    mkdir "$root"
    run_slipway 5 probe --root "$root"
    says "no kernel is in it"
    make_modules "$root" "$krel"
    run_slipway 9 probe --root "$root" -o /no/such/folder/probe.tar.zst
    says "--output: the folder /no/such/folder: it does not exist"
}
