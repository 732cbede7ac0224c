#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2154
# SPDX-License-Identifier: Apache-2.0
# slipway index, and what other verbs do with an index. The arm64 images are doubles: x86 objects whose ELF header says that
# they are for arm64, in an image whose configuration says so. Nothing in them is ever run.

load helpers
load kernel-from
load modules

plain=6.8.0-45-generic
other=6.8.0-47-generic

# image NAME ROLE ARCH KREL LINE…: $work/NAME.tar, an OCI archive as slipway build has it. Lines are added to its image.conf,
# before ours.
image() {
    local name=$1 role=$2 arch=$3 krel=$4 root=$work/$1 version=535.1.2
    local modules=$root/usr/lib/modules/$krel/updates/$role facts=$root/usr/lib/slipway/kernels/$krel
    shift 4
    [[ $role == gpu ]] || version=24.07-0.6.1.0
    mkdir -p "$modules" "$facts" "$root/etc/slipway"
    make_module "$modules/$role.ko" "$role" "krel=$krel" "uses=printk:7"
    # e_machine, elf(5): EM_AARCH64
    [[ $arch != arm64 ]] || printf '\xb7' | dd of="$modules/$role.ko" bs=1 seek=18 conv=notrunc status=none
    printf '%s\n' "$@" "role=$role" "version=$version" os=ubuntu24.04 os_id=ubuntu os_version=24.04 "krel=$krel" proof=holds \
        | tee "$facts/image.conf" >"$root/etc/slipway/image.conf"
    pack "$name" "$arch"
}

# pack NAME ARCH: the archive of the root.
pack() {
    local root=$work/$1 layout=$work/$1.layout manifest=$work/$1.manifest
    mkdir "$layout"
    tar -C "$root" --owner=0 --group=0 --sort=name --mtime=@0 -czf "$work/$1.layer" .
    echo '{"imageLayoutVersion":"1.0.0"}' >"$layout/oci-layout"
    add_blob "$layout" "$work/$1.layer"
    jq -nc --arg layer "$digest" --argjson size "$(stat -c %s "$work/$1.layer")" '{schemaVersion: 2,
        mediaType: "application/vnd.oci.image.manifest.v1+json", layers: [{mediaType: "application/vnd.oci.image.layer.v1.tar+gzip",
        digest: "sha256:\($layer)", size: $size}]}' >"$manifest.layers"
    jq -nc --arg arch "$2" --arg id "$(zcat "$work/$1.layer" | sha256sum | cut -d ' ' -f 1)" '{architecture: $arch, os: "linux",
        config: {Labels: {"io.slipway.role": "gpu"}}, rootfs: {type: "layers", diff_ids: ["sha256:\($id)"]}}' >"$work/$1.config"
    add_blob "$layout" "$work/$1.config"
    jq -c --arg config "$digest" --argjson size "$(stat -c %s "$work/$1.config")" '.config = {mediaType:
        "application/vnd.oci.image.config.v1+json", digest: "sha256:\($config)", size: $size}' "$manifest.layers" >"$manifest"
    add_blob "$layout" "$manifest"
    jq -nc --arg digest "$digest" --argjson size "$(stat -c %s "$manifest")" '{schemaVersion: 2, manifests: [{mediaType:
        "application/vnd.oci.image.manifest.v1+json", digest: "sha256:\($digest)", size: $size}]}' >"$layout/index.json"
    tar -C "$layout" -cf "$work/$1.tar" .
}

setup_file() {
    work=$BATS_FILE_TMPDIR
    image amd64 gpu amd64 $plain
    image arm64 gpu arm64 $plain
    image arm64-again gpu arm64 $other
    image arm64-newer gpu arm64 $plain version=550.1
    image arm64-revised gpu arm64 $plain revision=2
    image arm64-elsewhere gpu arm64 $plain os=ubuntu22.04
    image arm64-unproven gpu arm64 $plain proof=cannot-tell
    image debian-amd64 gpu amd64 6.1.0-57-amd64 os=debian12 os_id=debian os_version=12
    image debian-arm64 gpu arm64 6.1.0-57-arm64 os=debian12 os_id=debian os_version=12
    image wrong gpu arm64 6.1.0-57-amd64
    image nic-amd64 nic amd64 $plain
    image nic-arm64 nic arm64 $plain
    image el-amd64 gpu amd64 5.14.0-427.13.1.el9_4.x86_64 os=rhel9 os_id=rhel os_version=9.4
    image el-arm64 gpu arm64 5.14.0-427.13.1.el9_4.aarch64+64k os=rhel9 os_id=rhel os_version=9.4
    mkdir -p "$work/nothing/etc"
    pack nothing arm64
}

setup() {
    work=$BATS_FILE_TMPDIR
    index=$BATS_TEST_TMPDIR/index.tar
}

# index CODE IMAGE… OPTION…
index() {
    local code=$1
    shift
    cd "$work" || return
    run_slipway "$code" index "$@" --output "$index"
}

@test "one tag for both: the images stay what they are, and other tools find them" {
    index 0 amd64.tar arm64.tar --registry registry.example/drivers
    says "gpu index  535-$plain-ubuntu24.04" "2 images" "amd64   $plain  amd64.tar" "arm64   $plain  arm64.tar" \
        "skopeo copy --all oci-archive:$index docker://registry.example/drivers/driver:535-$plain-ubuntu24.04" \
        'driver.usePrecompiled=true, driver.repository=registry.example/drivers, driver.image=driver, driver.version="535"'
    local to=$BATS_TEST_TMPDIR/copy arch
    skopeo copy --insecure-policy -q --all "oci-archive:$index" "oci:$to:all"
    # Each has the manifest that it had.
    for arch in amd64 arm64; do
        skopeo copy --insecure-policy -q --override-arch "$arch" "oci-archive:$index" "oci:$to-$arch"
        [ "$(jq -r '.manifests[0].digest' "$to-$arch/index.json")" = "$(jq -r '.manifests[0].digest' "$work/$arch.layout/index.json")" ]
        [ "$(skopeo inspect --config "oci:$to-$arch" | jq -r .architecture)" = $arch ]
    done
    # The same images make the same index, and the same files the same file.
    mv "$index" "$index.first"
    index 0 amd64.tar arm64.tar
    cmp "$index" "$index.first"
    index 0 "oci:$work/amd64.layout" "oci-archive:$work/arm64.tar"
    [ "$(tar -xOf "$index" index.json)" = "$(tar -xOf "$index.first" index.json)" ]
}

@test "an index that is there already is left alone, unless it was cut short or gets another tag" {
    index 0 amd64.tar arm64.tar --json
    local size file
    size=$(stat -c %s "$index")
    file=$(stat -c %i:%y "$index")
    index 0 amd64.tar arm64.tar --json
    [ "$(stat -c %i:%y "$index")" = "$file" ]
    [ "$(jq .index.size_bytes <<<"${lines[-1]}")" = "$size" ]
    truncate -s -2048 "$index"
    index 0 amd64.tar arm64.tar
    [ "$(stat -c %s "$index")" = "$size" ]
    file=$(stat -c %i:%y "$index")
    index 0 amd64.tar arm64.tar --os-version 24.10
    [ "$(stat -c %i:%y "$index")" != "$file" ]
}

@test "kernels whose names have the architecture: the tag that the operator asks for without precompiled drivers" {
    index 0 debian-amd64.tar debian-arm64.tar
    says "gpu index  535.1.2-debian12" "driver.usePrecompiled=false" 'driver.version="535.1.2"' \
        "the images' own tags differ (535-6.1.0-57-amd64-debian12, 535-6.1.0-57-arm64-debian12)"
    index 0 amd64.tar arm64-again.tar
    says "gpu index  535.1.2-ubuntu24.04"
    # As older operators ask for it, too.
    index 0 el-amd64.tar el-arm64.tar
    says "driver:535.1.2-rhel9" "driver:535.1.2-rhel9.4"
    index 0 el-amd64.tar el-arm64.tar --gpu-operator 26.7
    [[ $output != *rhel9.4* ]]
    index 0 el-amd64.tar el-arm64.tar --gpu-operator 25.10 --os-version 9.6
    says "driver:535.1.2-rhel9.6"
    [[ $output != *"driver:535.1.2-rhel9"$'\n'* ]]
}

@test "a NIC image's tag has the architecture: the index answers to both" {
    index 0 nic-amd64.tar nic-arm64.tar
    says "nic index  24.07-0.6.1.0-$plain-ubuntu24.04-amd64  (" $'\n'"           24.07-0.6.1.0-$plain-ubuntu24.04-arm64"$'\n' \
        "docker://REGISTRY/doca-driver:24.07-0.6.1.0-$plain-ubuntu24.04-amd64" \
        "docker://REGISTRY/doca-driver:24.07-0.6.1.0-$plain-ubuntu24.04-arm64" "forcePrecompiled: true"
    [[ $output != *"own tags differ"* ]]
}

@test "an image that is not proven makes the index so" {
    index 0 amd64.tar arm64-unproven.tar
    says "535-$plain-ubuntu24.04-unproven" "arm64   $plain  arm64-unproven.tar  WARNING: not proven to load"
}

@test "--json: the index and its images" {
    index 0 amd64.tar arm64.tar --json
    local result=${lines[-1]} digest
    digest=$(tar -xOf "$index" index.json | jq -r '.manifests[0].digest')
    [ "$(jq -r '.event, .exit_code, .index.tag, .index.digest, .index.file, (.images | map(.arch) | join(" "))' <<<"$result" | xargs)" = \
        "result 0 535-$plain-ubuntu24.04 $digest $index amd64 arm64" ]
    [ "$(jq -r '.images[1].digest' <<<"$result")" = "$(jq -r '.manifests[0].digest' "$work/arm64.layout/index.json")" ]
    [ "$(jq .index.size_bytes <<<"$result")" = "$(stat -c %s "$index")" ]
}

@test "an index is an image for a further one, and its layers are there once" {
    index 0 amd64.tar arm64.tar
    image riscv gpu riscv64 $plain
    mv "$index" "$BATS_TEST_TMPDIR/two.tar"
    index 0 "$BATS_TEST_TMPDIR/two.tar" riscv.tar
    says "3 images" "riscv64"
    [ -z "$(tar -tf "$index" | sort | uniq -d)" ]
    # An attestation beside an image, as docker buildx adds it, is no image.
    cp -r riscv.layout "$BATS_TEST_TMPDIR/attested"
    jq -c '.manifests[0].platform = {architecture: "riscv64", os: "linux"} |
        .manifests += [{digest: "sha256:\("0" * 64)", size: 2, platform: {architecture: "unknown", os: "unknown"}}]' \
        riscv.layout/index.json >"$BATS_TEST_TMPDIR/attested/index.json"
    index 0 "$BATS_TEST_TMPDIR/two.tar" "oci:$BATS_TEST_TMPDIR/attested"
    says "3 images" "riscv64"
}

@test "two images of one architecture, and images that do not go together, are refused by name; nothing is written" {
    index 2 amd64.tar arm64.tar arm64-again.tar
    says "arm64.tar and arm64-again.tar both are for arm64: an index has one image for each architecture"
    index 2 amd64.tar nic-arm64.tar
    says "nic-arm64.tar is a nic image, amd64.tar a gpu image: they are two roles of two operators"
    index 2 amd64.tar arm64-newer.tar
    says "arm64-newer.tar has driver 550.1, amd64.tar has 535.1.2: a tag stands for one version of the driver"
    index 2 amd64.tar arm64-revised.tar
    says "arm64-revised.tar has driver 535.1.2-2, amd64.tar has 535.1.2"
    index 2 amd64.tar arm64-elsewhere.tar
    says "arm64-elsewhere.tar is for ubuntu22.04, amd64.tar for ubuntu24.04: a tag stands for one distribution"
    index 2 amd64.tar wrong.tar
    says "wrong.tar: an image for arm64 with modules for 6.1.0-57-amd64, a kernel for amd64"
    index 2 amd64.tar nothing.tar
    says "nothing.tar: it has no /etc/slipway/image.conf of a GPU or NIC image"
    index 2 amd64.tar
    says "amd64.tar: an index of one image: name those for other architectures, too"
    index 2 amd64.tar amd64.tar
    says "amd64.tar: given twice"
    [ ! -e "$index" ]
    [ -z "$(ls "$index".* 2>/dev/null)" ]
}

@test "a disk that is full in the middle of the archive: the output is to blame, and not an image" {
    local small=$BATS_TEST_TMPDIR/small left
    "$SLIPWAY" index "$work/amd64.tar" "$work/arm64.tar" --output "$index"
    mkdir "$small"
    mount -t tmpfs -o "size=$(($(stat -c %s "$index") / 2))" tmpfs "$small" || skip "no right to mount a small file system"
    run "$SLIPWAY" index "$work/amd64.tar" "$work/arm64.tar" --output "$small/index.tar"
    left=$(ls -A "$small")
    umount "$small"
    echo "$output"
    [ -z "$left" ]
    [ "$status" -eq 17 ]
    says "--output: No space left on device"
}

@test "what is no image, what is damaged, and a place that cannot be written" {
    index 2 amd64.tar none.tar
    index 2 amd64.tar "$work/amd64"
    says "an image is wanted: its archive, its layout, its name in containers-storage, or docker://REFERENCE"
    tar -cf "$BATS_TEST_TMPDIR/other.tar" -C "$work/amd64" .
    index 2 amd64.tar "$BATS_TEST_TMPDIR/other.tar"
    says "not an OCI image"
    # One byte of a layer.
    cp -r "$work/arm64.layout" "$BATS_TEST_TMPDIR/damaged"
    local layer
    layer=$BATS_TEST_TMPDIR/damaged/blobs/sha256/$(jq -r '.layers[0].digest | sub("sha256:"; "")' "$work/arm64.manifest")
    printf x | dd of="$layer" bs=1 seek="$(($(stat -c %s "$layer") - 1))" conv=notrunc status=none
    index 12 amd64.tar "oci:$BATS_TEST_TMPDIR/damaged"
    rm "$layer"
    index 12 amd64.tar "oci:$BATS_TEST_TMPDIR/damaged"
    [ ! -e "$index" ]
    index=$BATS_TEST_TMPDIR/none/index.tar
    index 9 amd64.tar arm64.tar
    says "--output: the folder $BATS_TEST_TMPDIR/none: it does not exist"
    index=containers-storage:
    index 2 amd64.tar arm64.tar
    says "not a file: an index is written to an OCI archive"
    run_slipway 2 index "$work/amd64.tar" "$work/arm64.tar"
    says "--output is missing"
    run_slipway 2 index --output "$index"
    says "the images are missing: one for each architecture"
    cp "$work/amd64.tar" "$BATS_TEST_TMPDIR/own.tar"
    index=$BATS_TEST_TMPDIR/own.tar
    run_slipway 2 index "oci-archive:$index" "$work/arm64.tar" --output "$index"
    says "is one of the images: give another place"
    cmp "$work/amd64.tar" "$index"
}

@test "verify: the kernel's image of an index is judged, and the others are named" {
    index 0 amd64.tar arm64.tar
    local krel=$plain tree=$BATS_TEST_TMPDIR/headers
    make_headers "$tree" $krel
    printf '%s\t%s\tvmlinux\t%s\t\n' 0x00000007 printk EXPORT_SYMBOL >>"$tree/Module.symvers"
    run_slipway 0 verify "$index" --kernel "$tree"
    says "$index: an index: its image for amd64 is checked here, not that for arm64" "1 module: 1 will load"
    sed -i 's/CONFIG_X86_64/CONFIG_ARM64/' "$tree/.config"
    run_slipway 3 verify "$index" --kernel "$tree" --json
    # The double's module is for arm64, but its vermagic is as x86 has it.
    [ "$(jq -r '.inputs[0].arch, .inputs[0].other_archs[0], .modules[0].findings[0].id' <<<"$output" | xargs)" = "arm64 amd64 vermagic" ]
    # And without an image for it.
    sed -i 's/CONFIG_ARM64/CONFIG_RISCV/' "$tree/.config"
    run_slipway 2 verify "$index" --kernel "$tree"
    says "it has no image for riscv64, but for amd64, arm64"
}

@test "verify: a release that is there for each architecture is asked for each" {
    load repository
    local each
    index 0 debian-amd64.tar debian-arm64.tar
    make_repository
    for each in amd64 arm64; do
        local krel=6.1.0-57-$each root=$BATS_TEST_TMPDIR/$each config=X86_64
        [[ $each == amd64 ]] || config=ARM64
        make_root "$root" "$krel"
        printf '%s\t%s\tvmlinux\t%s\t\n' 0x00000007 printk EXPORT_SYMBOL >>"$root/usr/src/linux-headers-$krel/Module.symvers"
        sed -i "s/CONFIG_X86_64/CONFIG_$config/" "$root/usr/src/linux-headers-$krel/.config"
        mkdir -p "$root.image/lib/modules/$krel"
        mv "$root/lib/modules/$krel"/{kernel,modules.*} "$root.image/lib/modules/$krel/"
        rm -f "$mirror/pool"/*
        ARCH=$each CONTENT=$root add_package "linux-headers-$krel" gcc-12
        ARCH=$each CONTENT=$root.image add_package "linux-image-$krel"
        mkdir "$mirror/pool-$each"
        mv "$mirror/pool"/* "$mirror/pool-$each/"
        ARCH=$each publish bookworm "pool-$each"
        cp "$mirror/dists/bookworm/main/binary-$each/Packages" "$BATS_TEST_TMPDIR/Packages-$each"
    done
    # Both lists in one Release file.
    cp "$BATS_TEST_TMPDIR/Packages-amd64" "$mirror/dists/bookworm/main/binary-amd64/Packages"
    ARCH='amd64 arm64' publish_release bookworm
    run_slipway 3 verify "$index" --kernel newest --os debian12 --mirror "file:$mirror"
    says "kernel 6.1.0-57-amd64" "its image for amd64 is checked here" "1 module: 1 will load" \
        "kernel 6.1.0-57-arm64" "its image for arm64 is checked here" "1 module: 0 will load, 1 will not"
    # One document of both.
    SLIPWAY_DATADIR=${SLIPWAY_DATADIR:-$repository} SLIPWAY_CACHE=$BATS_TEST_TMPDIR/cache "$SLIPWAY" verify "$index" --kernel newest \
        --os debian12 --mirror "file:$mirror" --json >"$BATS_TEST_TMPDIR/report" || [ $? -eq 3 ]
    [ "$(jq -sr 'length, (.[] | .exit_code, .verdict, (.archs[] | .arch, .exit_code, .kernel.krel, .inputs[0].arch))' \
        "$BATS_TEST_TMPDIR/report" | xargs)" = \
        "1 3 will not load x86_64 0 6.1.0-57-amd64 amd64 aarch64 3 6.1.0-57-arm64 arm64" ]
    run_slipway 0 verify "$index" --kernel newest --os debian12 --mirror "file:$mirror" --arch amd64
    [[ $output != *"kernel 6.1.0-57-arm64"* ]]
}

@test "combine wants to be told which images of an index; sign says how the modules of each are signed" {
    index 0 amd64.tar arm64.tar
    run_slipway 2 combine "$index" "$work/amd64.tar"
    says "$index: an index with images for amd64, arm64: one architecture is combined at a time" \
        "try: slipway combine --arch amd64 … --output oci-archive:FILE" "try: then slipway index of these files"
    run_slipway 2 sign --key key.pem --cert cert.pem --hash sha256 "$index"
    says "$index: an index with images for amd64, arm64: only a folder of modules can be signed" \
        "try: for its arm64 modules: slipway build --arch aarch64 --sign-key KEY --sign-cert FILE" "cosign sign --recursive"
    run_slipway 2 sign --key key.pem --cert cert.pem --hash sha256 "$work/arm64.layout"
    says "an image for arm64: only a folder of modules can be signed"
}

@test "combine --arch: of each index the images for it, and an index of both results" {
    own_storage "$BATS_TEST_TMPDIR"
    image amd64-second gpu amd64 $other
    index 0 amd64.tar arm64.tar
    mv "$index" "$BATS_TEST_TMPDIR/first.tar"
    index 0 amd64-second.tar arm64-again.tar
    mv "$index" "$BATS_TEST_TMPDIR/second.tar"
    local arch
    for arch in amd64 arm64; do
        run_slipway 0 combine --arch "$arch" "$BATS_TEST_TMPDIR/first.tar" "$BATS_TEST_TMPDIR/second.tar" \
            --output "oci-archive:$BATS_TEST_TMPDIR/$arch.tar"
        says "driver:535.1.2-ubuntu24.04" "2 kernels"
    done
    run_slipway 2 combine --arch arm64 "$work/amd64.tar" "$work/amd64-second.tar"
    says "amd64.tar is for amd64, but --arch is arm64"
    index 0 "$BATS_TEST_TMPDIR/amd64.tar" "$BATS_TEST_TMPDIR/arm64.tar"
    says "gpu index  535.1.2-ubuntu24.04" "amd64   $plain, $other" "arm64   $plain, $other"
    # Of the storage, too: the name is the image that was combined last.
    index 0 "$BATS_TEST_TMPDIR/amd64.tar" localhost/slipway/driver:535.1.2-ubuntu24.04
    says "arm64   $plain, $other  localhost/slipway/driver:535.1.2-ubuntu24.04"
}

@test "an index in a registry: what skopeo copies there is asked for by architecture" {
    load registry
    start_registry
    index 0 amd64.tar arm64.tar
    skopeo copy -q --all "oci-archive:$index" "docker://$registry/drivers/driver:both"
    mv "$index" "$index.first"
    # All of it is fetched again: the index stands for both its images.
    index 0 "docker://$registry/drivers/driver:both"
    [ "$(tar -xOf "$index" index.json)" = "$(tar -xOf "$index.first" index.json)" ]
    local tree=$BATS_TEST_TMPDIR/headers
    make_headers "$tree" $plain
    sed -i 's/CONFIG_X86_64/CONFIG_ARM64/' "$tree/.config"
    run_slipway 3 verify "docker://$registry/drivers/driver:both" --kernel "$tree"
    [[ $output != *"built for x86_64"* ]]
    stop_registry
}
