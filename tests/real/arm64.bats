#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# Images for x86-64 and, cross compiled on this machine, arm64, in one command: the smallest driver for Debian's newest kernels.
# That for x86-64 is debian.bats' build, too. The reference OFED and NVIDIA's modules, and both images in a guest: make
# check-full, tests/vm/full/85-arm64.bats.

build_both() {
    "$slipway" build --kernel newest --os debian12 --arch x86_64,arm64 --ofed "$top/tests/real/smallest-ofed" --nvidia none "$@"
}

setup_file() {
    top=$(realpath "$BATS_TEST_DIRNAME/../..")
    slipway=$(cd "$top" && realpath -m "${O:-build}")/slipway
    folder=$BATS_FILE_TMPDIR output=$folder/both/aarch64
    export top slipway folder output
    build_both --output "$folder/both" 2>&1 | tee "$folder/log"
    krel=$(jq -r .krel "$output/images.json")
    container=$(buildah from --quiet --pull-never "$(jq -r '.images[0].id' "$output/images.json")")
    root=$(buildah mount "$container")
    export krel container root
}

teardown_file() {
    load ../cli/registry
    stop_registry
    buildah rm "$container" >/dev/null
}

@test "the kernel's packages are of arm64, what compiling runs is of this machine" {
    [[ $krel == 6.1.*-arm64 ]]
    [ "$(jq -r '.packages[] | select(.name | test("kbuild")) | .architecture' "$output/lock.json")" = amd64 ]
    [ "$(jq -r '.packages[] | select(.purpose == "modules") | .architecture' "$output/lock.json")" = arm64 ]
    grep -q 'the cross compiler, gcc-12-aarch64-linux-gnu .*, is not the very one that compiled the kernel, "gcc-12 ' "$folder/log"
    [ "$(jq -r '.root_packages[] | select(.root == "build-root") | select(.name | test("^(gcc-12.*gnu|libmnl-dev)$")) |
        "\(.name) \(.architecture)"' "$output/lock.json")" = $'gcc-12-aarch64-linux-gnu amd64\nlibmnl-dev arm64' ]
}

# x86-64 would be EM 62: nothing of the build machine may come along.
@test "every program, library and module of the image is for arm64, and so is the image" {
    [ "$(buildah inspect "$container" | jq -r .OCIv1.architecture)" = arm64 ]
    [ "$(jq -r '.images[0].tag' "$output/images.json")" = "1.0-$krel-debian12-arm64" ]
    find "$root" -xdev -type f -print0 | xargs -0 readelf -h 2>/dev/null | sed -n 's/^ *Machine: *//p' | sort | uniq -c >"$folder/machines"
    [ "$(wc -l <"$folder/machines")" -eq 1 ]
    read -r count machine <"$folder/machines"
    [ "$machine" = AArch64 ] && [ "$count" -gt 30 ]
    [ "$(modinfo -F vermagic "$root/usr/lib/modules/$krel/updates/ofed/smallest.ko")" = "$krel SMP mod_unload modversions aarch64" ]
}

@test "the proof says that it loads, of the archive too; its programs start" {
    [ "$(jq -r '.images[0].proof' "$output/images.json")" = holds ]
    run "$slipway" verify "$output" --kernel "$krel"
    [ "$status" -eq 0 ]
    [[ $output == *"will load"* ]]
    run qemu-aarch64-static -L "$root" "$root/usr/bin/slipway-init" --help
    [ "$status" -eq 0 ]
    [[ $output == *"slipway-init status"* ]]
    run qemu-aarch64-static -L "$root" "$root/usr/bin/ib_write_bw" --version
    [[ $output == "Version: "* ]]
}

# trim-runtime.sh asks busybox itself where it can.
@test "the list of busybox's programs is that of its package" {
    qemu-aarch64-static -L "$root" "$root/usr/bin/busybox" --list-full | LC_ALL=C sort |
        diff - "$top/containers/runtime/busybox/1.35.0"
    [ "$(readlink "$root/usr/bin/vi")" = /usr/bin/busybox ]
}

@test "what is of another architecture is refused by name, before anything is compiled" {
    run "$slipway" build --kernel "$krel" --ofed "$top/tests/real/smallest-ofed" --nvidia none --sources-image --output "$folder/none"
    [ "$status" -ne 0 ]
    [[ $output == *"the image needs this slipway program, which was not built for aarch64"* ]]
    # A userspace of this machine: any library of it, under the names that NVIDIA's have.
    mkdir -p "$folder/userspace/firmware"
    cp "$(command -v jq)" "$folder/userspace/libcuda.so.595.58.03"
    touch "$folder/userspace"/{libnvidia-ml.so.595.58.03,nvidia-smi,firmware/gsp.bin}
    run "$slipway" build --kernel "$krel" --nvidia debian --userspace "$folder/userspace" --output "$folder/none"
    [ "$status" -eq 6 ]
    [[ $output == *"the userspace is for x86_64, but the images are for aarch64"*"try: unpack NVIDIA-Linux-aarch64-"* ]]
    [ ! -e "$folder/none" ]
}

@test "one command has made both images and an index of them, each with the records of a build of its own" {
    local both=$folder/both arch digest amd64 file
    amd64=$(jq -r .krel "$both/x86_64/images.json")
    [[ $amd64 == 6.1.*-amd64 ]]
    for arch in x86_64 aarch64; do
        for file in nic.oci.tar lock.json proof.json sbom.spdx.json provenance.json push.sh nic-cluster-policy.yaml; do
            [ -s "$both/$arch/$file" ]
        done
    done
    for arch in amd64 arm64; do
        digest=$(skopeo inspect --override-arch $arch --format '{{.Architecture}} {{.Labels}}' "oci-archive:$both/nic.oci.tar")
        [[ $digest == "$arch "*"io.slipway.krel:6.1."*"-$arch"* ]]
    done
    [ "$(jq -r '.images[0].images | map("\(.arch) \(.digest)") | join(" ")' "$both/images.json")" = \
        "amd64 $(jq -r '.images[0].digest' "$both/x86_64/images.json") arm64 $(jq -r '.images[0].digest' "$output/images.json")" ]
    grep -x "push nic.oci.tar doca-driver:1.0-$amd64-debian12-amd64" "$both/push.sh"
    grep -x "push nic.oci.tar doca-driver:1.0-$krel-debian12-arm64" "$both/push.sh"
    grep -q 'forcePrecompiled: true' "$both/nic-cluster-policy.yaml"
    run "$slipway" verify "$both" --kernel newest --os debian12
    [ "$status" -eq 0 ]
    [ "$(grep -c '1 module: 1 will load' <<<"$output")" -eq 2 ]
}

@test "a second build that fails leaves the first one's images, and the same command goes on from there" {
    local both=$folder/again
    mkdir -p "$both/aarch64/lock.json"
    run build_both --output "$both" --json
    [ "$status" -eq 9 ]
    [[ $output == *"not built for aarch64: an output could not be written; no index was made"*"the images for x86_64 are in $both/x86_64"* ]]
    [ "$(grep '^{' <<<"$output" | tail -n 1 | jq -r '.event, .exit_code' | xargs)" = "failed 9" ]
    [ -s "$both/x86_64/nic.oci.tar" ] && [ ! -e "$both/nic.oci.tar" ]
    rmdir "$both/aarch64/lock.json"
    run build_both --output "$both" --json
    [ "$status" -eq 0 ]
    [ "$(grep '^{' <<<"$output" | jq -r 'select(.event == "result") | "\(.krel // .archs)"' | wc -l)" -ge 3 ]
    [ "$(grep '^{' <<<"$output" | tail -n 1 | jq -r '.event, .exit_code, .archs[], .images[0].images[].arch' | xargs)" = \
        "result 0 x86_64 aarch64 amd64 arm64" ]
}

@test "--push: the same index is no other image; a tag of another one ends the command before a build begins" {
    load ../cli/registry
    # shellcheck disable=SC2034
    local repository=$top reference
    start_registry
    reference=$registry/drivers/doca-driver:1.0-$krel-debian12-arm64
    run build_both --output "$folder/both" --push "$registry/drivers"
    [ "$status" -eq 0 ]
    [[ $output == *"pushed  $reference@$(skopeo inspect --format '{{.Digest}}' "docker://$reference")"* ]]
    run build_both --output "$folder/both" --push "$registry/drivers"
    [ "$status" -eq 0 ]
    put_image "$reference" io.slipway.key=another
    run build_both --output "$folder/taken" --push "$registry/drivers"
    [ "$status" -eq 27 ]
    [[ $output == *"$reference stands for another image already"*"not built for aarch64"*"nothing was compiled"* && $output != *": build"* ]]
    run build_both --output "$folder/taken" --push "$registry/drivers" --replace
    [ "$status" -eq 0 ]
}
