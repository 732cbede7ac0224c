#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# slipway build --bundle in a network namespace without any interface, and bundles that are not what they should be.
# make check-full makes one with `slipway bundle` and builds both images from it (tests/vm/full/80-bundle.bats).

load helpers
load repository
load kernel-from
load installer

krel=6.1.0-56-amd64

setup() {
    # What is imported must come from the bundle.
    own_storage "$BATS_TEST_TMPDIR"
    make_repository
    make_headers "$BATS_TEST_TMPDIR/content/usr/src/linux-headers-$krel" $krel
    mkdir -p "$BATS_TEST_TMPDIR/content/lib/modules/$krel"
    ln -s "/usr/src/linux-headers-$krel" "$BATS_TEST_TMPDIR/content/lib/modules/$krel/build"
    CONTENT=$BATS_TEST_TMPDIR/content add_package "linux-headers-$krel" "linux-compiler-gcc-12-x86"
    SOURCE=linux-signed-amd64 add_package "linux-image-$krel"
    add_package linux-compiler-gcc-12-x86 gcc-12
    publish
    update_system
    bundle=$BATS_TEST_TMPDIR/bundle
    make_bundle
}

# An image of nothing; its ID is in $id, its archive is $1.
make_image() {
    local container
    container=$(buildah from scratch)
    buildah config --label "for=$1" "$container"
    buildah commit --quiet "$container" made >/dev/null
    buildah rm "$container" >/dev/null
    id=$(buildah inspect --type image --format '{{.FromImageID}}' made)
    buildah push --quiet made "oci-archive:$1"
    buildah rmi made >/dev/null
}

# A bundle of one kernel, with an image of nothing for the build container; its parts are in the folder "parts".
make_bundle() {
    local parts=$BATS_TEST_TMPDIR/parts sha256
    mkdir -p "$parts"/{locks,images,sources,blobs/sha256}
    run_slipway 0 resolve $krel -o "$parts/locks/a.json"
    for package in "$mirror"/pool/linux-{headers,image}-*.deb; do
        sha256=$(sha256sum <"$package" | cut -d ' ' -f 1)
        cp "$package" "$parts/blobs/sha256/$sha256"
    done
    make_image "$parts/images/toolchain.tar"
    make_gpu_sources
    tar -C "$BATS_TEST_TMPDIR/nvidia" -cf "$parts/sources/nvidia.tar" .
    rm -rf "$BATS_TEST_TMPDIR/cache"
    pack
}

# pack [FILTER]: the manifest of what is in the folder, changed by the jq filter, and all of it as a bundle.
pack() {
    local parts=$BATS_TEST_TMPDIR/parts
    (cd "$parts" && find . -type f ! -name bundle.json -printf '%P %s\n' | while read -r path size; do
        jq -n --arg path "$path" --argjson size "$size" --arg sha256 "$(sha256sum <"$path" | cut -d ' ' -f 1)" \
            '{path: $path, size_bytes: $size, sha256: $sha256}'
    done) | jq -s --arg krel $krel --arg id "$id" '{schema: 4, slipway: "0.0.1", files: ., targets: [{krel: $krel, os: "debian12",
        arch: "x86_64", lock: "locks/a.json", args: [], downloads: [.[].path | select(startswith("blobs/"))], outputs: [], root: "debian12", root_stamp: "", runtime_stamp: "", unsigned_lists: false,
        images: [{stage: "toolchain", key: ("a" * 64), name: "localhost/slipway/build-test:1", id: $id, file: "images/toolchain.tar"}],
        sources: [{option: "nvidia", kind: "tree", name: "nvidia", file: "sources/nvidia.tar"}], base: {file: "", id: ""}}]}'"${1:+ | $1}" >"$parts/bundle.json"
    archive
}

archive() {
    local files
    mapfile -t files < <(cd "$BATS_TEST_TMPDIR/parts" && find . -type f ! -name bundle.json -printf '%P\n')
    tar -C "$BATS_TEST_TMPDIR/parts" --zstd -cf "$bundle" bundle.json "${files[@]}"
}

# bundle_tree OPTION FILE…: a source for the option, in the bundle's parts.
bundle_tree() {
    local file
    for file in "${@:2}"; do
        mkdir -p "$(dirname "$BATS_TEST_TMPDIR/$1/$file")"
        echo "all: # $file" >"$BATS_TEST_TMPDIR/$1/$file"
    done
    tar -C "$BATS_TEST_TMPDIR/$1" -cf "$BATS_TEST_TMPDIR/parts/sources/$1.tar" .
}

source_of() {
    echo "{option: \"$1\", kind: \"tree\", name: \"$1\", file: \"sources/$1.tar\"}"
}

# build CODE [OPTION…]: where there is no network at all.
build() {
    SLIPWAY=$BATS_TEST_TMPDIR/isolated run_slipway "$1" build --bundle "$bundle" --userspace "$BATS_TEST_TMPDIR/userspace" "${@:2}"
}

isolate() {
    printf '%s\n' '#!/bin/sh' "exec unshare --net '$SLIPWAY' \"\$@\"" >"$BATS_TEST_TMPDIR/isolated"
    chmod +x "$BATS_TEST_TMPDIR/isolated"
}

# Nothing of a bundle that was refused is in the cache or in the storage.
nothing_is_imported() {
    [ -z "$(find "$BATS_TEST_TMPDIR/cache/blobs" -type f ! -name tidy 2>/dev/null)" ]
    [ -z "$(find "$BATS_TEST_TMPDIR/cache/stages" "$BATS_TEST_TMPDIR/cache/runs" -mindepth 1)" ]
    [ -z "$(buildah images -q)" ]
}

@test "without any network the kernel tree is made from a bundle, and its image is in the storage" {
    isolate
    rm -rf "$mirror"
    build 21
    says "the bundle was made by slipway 0.0.1" "localhost/slipway/build-test:1" "linux-headers-$krel"
    [ -e "$(echo "$BATS_TEST_TMPDIR"/cache/stages/kernel-*/lib/modules/$krel/build/Makefile)" ]
    [ "$(buildah inspect --type image --format '{{.FromImageID}}' localhost/slipway/build-test:1)" = "$id" ]
    [ "$(cat "$BATS_TEST_TMPDIR"/cache/stages/toolchain-aaaa*/image)" = localhost/slipway/build-test:1 ]
    [ "$(find "$BATS_TEST_TMPDIR/cache/blobs/sha256" -type f | wc -l)" -eq 2 ]
    [ -z "$(ls -A "$BATS_TEST_TMPDIR/cache/runs")" ]
}

@test "what this machine has made itself is not replaced by a bundle's" {
    local own bundled=$id
    make_image "$BATS_TEST_TMPDIR/own.tar"
    own=$id
    [ "$own" != "$bundled" ]
    buildah pull --quiet "oci-archive:$BATS_TEST_TMPDIR/own.tar" >/dev/null
    buildah tag "$own" localhost/slipway/build-test:1
    output_folder=$BATS_TEST_TMPDIR/cache/stages/toolchain-$(printf 'a%.0s' {1..24})
    mkdir -p "$output_folder"
    echo localhost/slipway/build-test:1 >"$output_folder/image"
    touch "$output_folder/own"
    isolate
    build 21
    [ -e "$output_folder/own" ]
    [ "$(buildah inspect --type image --format '{{.FromImageID}}' localhost/slipway/build-test:1)" = "$own" ]
    rm -r "$output_folder"
    build 21
    [ -e "$output_folder/image" ]
    [ "$(buildah inspect --type image --format '{{.FromImageID}}' localhost/slipway/build-test:1)" = "$own" ]
}

@test "a bundle made with --allow-unsigned wants the word of who builds from it" {
    isolate
    pack '.targets[0].unsigned_lists = true'
    build 13
    says "made with --allow-unsigned" "try: --allow-unsigned here, too"
    nothing_is_imported
    build 21 --allow-unsigned
    says "made with other recipes"
}

@test "an image of other recipes is not taken, and that is said" {
    isolate
    build 21
    says "made with other recipes" "slipway 0.0.1" "try: make a new bundle"
}

@test "--nvidia none leaves NVIDIA's modules out of what is built from a bundle" {
    isolate
    SLIPWAY=$BATS_TEST_TMPDIR/isolated run_slipway 2 build --bundle "$bundle" --nvidia none
    says "--nvidia none with a bundle that has no OFED: no image would be built"
    build 2 --nvidia none
    bundle_tree ofed configure makefile Makefile
    bundle_tree gdrcopy src/gdrdrv/gdrdrv.c
    pack ".targets[0].sources += [$(source_of ofed), $(source_of gdrcopy)]"
    SLIPWAY=$BATS_TEST_TMPDIR/isolated run_slipway 21 build --bundle "$bundle" --nvidia none
    says "--nvidia none: no GPU image will be built"
}

@test "the sources of all drivers are taken from a bundle, and from nowhere else" {
    isolate
    bundle_tree ofed configure makefile Makefile
    bundle_tree gdrcopy src/gdrdrv/gdrdrv.c
    pack ".targets[0].sources += [$(source_of ofed), $(source_of gdrcopy)]"
    for option in ofed gdrcopy; do
        build 2 --$option "$BATS_TEST_TMPDIR/$option"
        says "--$option $BATS_TEST_TMPDIR/$option: the bundle has its own source of" "try: leave out --$option"
    done
    build 2 --nvidia-fs "$BATS_TEST_TMPDIR/nvidia-fs"
    says "the bundle has no source of nvidia-fs" "try: leave out --nvidia-fs" "try: a new bundle that has it: slipway bundle --nvidia-fs SRC"
    nothing_is_imported
    bundle_tree nvidia-fs src/nvfs-core.c
    pack ".targets[0].sources += [$(source_of ofed), $(source_of gdrcopy), $(source_of nvidia-fs)]"
    build 0 --dry-run
    for option in ofed nvidia gdrcopy nvidia-fs; do
        grep -E "^$option +[0-9a-f]+  to be built" <<<"$output"
    done
    # One that is no source of its driver is refused.
    rm -r "$BATS_TEST_TMPDIR/gdrcopy"
    bundle_tree gdrcopy README
    pack ".targets[0].sources += [$(source_of gdrcopy)]"
    build 6
    says "not a source of GDRCopy"
}

@test "a driver that the bundle lacks is named, and one that this slipway does not know" {
    isolate
    build 2 --verify-configure
    says "--verify-configure applies only to OFED, which is not built from the bundle" "try: a new bundle that has it: slipway bundle --ofed SRC" \
        "try: leave out --verify-configure"
    pack '.targets[0].sources += [{option: "of-tomorrow", kind: "package", name: "", file: ""}]'
    build 12
    says "a source for --of-tomorrow as a package, which this slipway cannot build" "try: slipway 0.0.1, which made the bundle"
    pack '.targets[0].sources[0].file = "sources/none"'
    build 12
    says 'the file "sources/none", which is not in the list'
    # A package has no file: this one would lie outside the bundle.
    pack '.targets[0].sources[0].file = "" | .targets[0].sources[0].kind = "package" |
        .targets[0].sources += [{option: "kernel-from", kind: "package", name: "", file: "../../../tree"}]'
    build 12
    says "a target has a package for --kernel-from that has a file or is no driver's"
    nothing_is_imported
}

@test "nothing of it opens a socket to anywhere" {
    run strace -f -e trace=socket -o "$BATS_TEST_TMPDIR/strace" env SLIPWAY_CACHE="$BATS_TEST_TMPDIR/cache" "$SLIPWAY" build --bundle "$bundle" --userspace "$BATS_TEST_TMPDIR/userspace"
    says "made with other recipes"
    run grep -E 'AF_(INET|INET6)' "$BATS_TEST_TMPDIR/strace"
    [ "$output" = "" ]
}

@test "a kernel that it was not made for" {
    isolate
    build 5 --kernel 6.1.0-57-amd64
    says "it was not made for kernel 6.1.0-57-amd64; it has $krel"
    # Nor is one of a plan's builds taken for another.
    pack '.targets += [.targets[0]]'
    build 5 --kernel "$krel"
    says "it has 2 builds for kernel $krel" "try: --plan with the plan that it was made of"
    nothing_is_imported
}

@test "a bundle that is cut short or altered is refused, and nothing of it is taken" {
    isolate
    cp "$bundle" "$BATS_TEST_TMPDIR/whole"
    head -c 3000 "$BATS_TEST_TMPDIR/whole" >"$bundle"
    build 12
    says "cut short" "try: download or copy it again"
    nothing_is_imported
    echo x >>"$BATS_TEST_TMPDIR/parts/locks/a.json"
    archive
    build 12
    says "altered: locks/a.json"
    nothing_is_imported
    echo text >"$bundle"
    build 12
    says "no bundle"
    nothing_is_imported
}

@test "a bundle with an entry that leads out is refused" {
    isolate
    tar -C "$BATS_TEST_TMPDIR/parts" --transform 's|^locks/a.json|../../escaped|' --zstd -Pcf "$bundle" bundle.json locks/a.json
    build 19
    says "../../escaped leads out of the archive"
    ln -sf /etc/passwd "$BATS_TEST_TMPDIR/parts/locks/a.json"
    tar -C "$BATS_TEST_TMPDIR/parts" --zstd -cf "$bundle" bundle.json locks/a.json
    build 19
    says "locks/a.json is no plain file"
    nothing_is_imported
    [ -z "$(find "$BATS_TEST_TMPDIR" -name escaped)" ]
}

@test "a download under another's name, an image that is another, a schema of tomorrow" {
    isolate
    blob=$(find "$BATS_TEST_TMPDIR/parts/blobs" -type f | head -n 1)
    cp -a "$blob" "$BATS_TEST_TMPDIR/blob"
    echo other >"$blob"
    pack
    build 12
    says "has another SHA-256 than its name"
    cp -a "$BATS_TEST_TMPDIR/blob" "$blob"
    pack '.targets[0].images[0].id = ("b" * 64)'
    build 12
    says "images/toolchain.tar: holds image"
    pack '.schema = 5'
    build 12
    says "with schema 5; this one reads schema 4"
    pack '.targets[0].images[0].name = "--all"'
    build 12
    says "\"name\" is \"--all\": it is no image of slipway's"
}

@test "a full disk is named, and the bundle can be used when there is room" {
    isolate
    head -c 3000000 /dev/urandom >"$BATS_TEST_TMPDIR/nvidia/more"
    tar -C "$BATS_TEST_TMPDIR/nvidia" -cf "$BATS_TEST_TMPDIR/parts/sources/nvidia.tar" .
    pack
    mkdir -p "$BATS_TEST_TMPDIR/cache"
    mount -t tmpfs -o size=2m tmpfs "$BATS_TEST_TMPDIR/cache"
    build 17
    nothing_is_imported
    mount -o remount,size=4g "$BATS_TEST_TMPDIR/cache"
    build 21
    says "made with other recipes"
}

@test "slipway bundle wants a file and a kernel, and leaves no half bundle" {
    run_slipway 2 bundle $krel
    says "--output FILE is missing"
    run_slipway 2 bundle -o "$BATS_TEST_TMPDIR/b"
    says "the kernel is missing"
    run_slipway 5 bundle -o "$BATS_TEST_TMPDIR/b" --nvidia "$BATS_TEST_TMPDIR/nvidia" 6.1.0-1-amd64
    says "6.1.0-1-amd64"
    [ -z "$(find "$BATS_TEST_TMPDIR" -maxdepth 1 -name 'b*' ! -name bundle)" ]
    run_slipway 0 bundle --help
    says "Usage: slipway bundle -o FILE" "The userspace of a source tree is not included"
}

@test "a plan's build is made of the target that has its command line; what others read is not unpacked" {
    isolate
    plan() {
        jq -n --arg krel $krel --argjson args "$1" '{targets: [{index: 0, krel: $krel, os: "debian12", arch: "x86_64", os_version: "12",
            nodes: 1, nodes_ahead: 0, why: "node", problem: "", builds: [{args: $args, images: [], ofed: "", nvidia: "1", revision: ""}]}],
            excluded: [], warnings: [], incomplete: false}' >"$BATS_TEST_TMPDIR/plan.json"
        SLIPWAY=$BATS_TEST_TMPDIR/isolated run_slipway "$2" build --plan "$BATS_TEST_TMPDIR/plan.json" --bundle "$bundle" "${@:3}"
    }
    # The folders are where the plan was made; the bundle's are taken.
    local args="[\"$krel\", \"--os=debian12\", \"--nvidia=/gone\", \"--userspace\", \"/gone\"]" other
    tar -C "$BATS_TEST_TMPDIR/userspace" -cf "$BATS_TEST_TMPDIR/parts/sources/userspace.tar" .
    echo other >"$BATS_TEST_TMPDIR/other"
    other=$(sha256sum <"$BATS_TEST_TMPDIR/other" | cut -d ' ' -f 1)
    cp "$BATS_TEST_TMPDIR/other" "$BATS_TEST_TMPDIR/parts/blobs/sha256/$other"
    pack ".targets[0].args = $args | .targets[0].sources += [$(source_of userspace)] | .targets[0].downloads -= [\"blobs/sha256/$other\"]"
    plan "$args" 21
    says "made with other recipes"
    [ -z "$(find "$BATS_TEST_TMPDIR/cache/blobs" -name "$other")" ]
    [ "$(find "$BATS_TEST_TMPDIR/cache/blobs/sha256" -type f | wc -l)" -eq 2 ]
    # So are archives: this one is refused for its version, not for its path.
    make_imex "$BATS_TEST_TMPDIR/parts/sources/imex.tar.xz" 2.0
    pack ".targets[0].args = $args + [\"--imex\", \"/gone\"]
        | .targets[0].sources += [$(source_of userspace), {option: \"imex\", kind: \"file\", name: \"i\", file: \"sources/imex.tar.xz\"}]"
    plan "$(jq -c '. + ["--imex", "/gone"]' <<<"$args")" 6
    says "sources/imex.tar.xz: it is from driver 2.0, but the modules of --nvidia are from 1.0"
    make_imex "$BATS_TEST_TMPDIR/parts/sources/imex.tar.xz" 1.0
    pack ".targets[0].args = $args + [\"--imex\", \"/gone\"]
        | .targets[0].sources += [$(source_of userspace), {option: \"imex\", kind: \"file\", name: \"i\", file: \"sources/imex.tar.xz\"}]"
    plan "$(jq -c '. + ["--imex", "/gone"]' <<<"$args")" 21
    rm "$BATS_TEST_TMPDIR/parts/sources/imex.tar.xz"
    pack ".targets[0].args = $args | .targets[0].sources += [$(source_of userspace)]"
    plan "$args" 2 --target 1
    says "--target 1: the plan has 1 target"
    plan '["6.1.0-57-amd64", "--nvidia=/gone"]' 5
    says "$bundle: it lacks this build" "try: where there is a network, with this plan: slipway bundle --plan $BATS_TEST_TMPDIR/plan.json -o FILE"
    SLIPWAY=$BATS_TEST_TMPDIR/isolated run_slipway 5 build --bundle "$bundle" --target 7
    says "--target 7: $bundle has 1 target, from 0"
    # Where there is a network, but not the sources.
    run_slipway 6 bundle --plan "$BATS_TEST_TMPDIR/plan.json" -o "$BATS_TEST_TMPDIR/new"
    says "target 0, $krel: --nvidia /gone: No such file or directory"
    run_slipway 2 bundle --plan "$BATS_TEST_TMPDIR/plan.json" -o "$BATS_TEST_TMPDIR/new" $krel
    says "the plan has a command line for each build"
    [ ! -e "$BATS_TEST_TMPDIR/new" ]
}

teardown() {
    ! mountpoint -q "$BATS_TEST_TMPDIR/cache" || umount "$BATS_TEST_TMPDIR/cache"
}
