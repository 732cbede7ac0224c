#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# Images for arm64, cross compiled on this machine: the smallest driver for Debian's newest arm64 kernel. The reference OFED
# and NVIDIA's modules, and both images in a guest: make check-full, tests/vm/full/85-arm64.bats.

setup_file() {
    top=$(realpath "$BATS_TEST_DIRNAME/../..")
    slipway=$(cd "$top" && realpath -m "${O:-build}")/slipway
    folder=$BATS_FILE_TMPDIR
    export top slipway folder
    "$slipway" build --kernel newest --os debian12 --arch arm64 --ofed "$top/tests/real/smallest-ofed" --nvidia none \
        --output "$folder/output" 2>&1 | tee "$folder/log"
    krel=$(jq -r .krel "$folder/output/images.json")
    container=$(buildah from --quiet --pull-never "$(jq -r '.images[0].id' "$folder/output/images.json")")
    root=$(buildah mount "$container")
    export krel container root
}

teardown_file() { buildah rm "$container" >/dev/null; }

@test "the kernel's packages are of arm64, what compiling runs is of this machine" {
    [[ $krel == 6.1.*-arm64 ]]
    [ "$(jq -r '.packages[] | select(.name | test("kbuild")) | .architecture' "$folder/output/lock.json")" = amd64 ]
    [ "$(jq -r '.packages[] | select(.purpose == "modules") | .architecture' "$folder/output/lock.json")" = arm64 ]
    grep -q 'the cross compiler, gcc-12-aarch64-linux-gnu .*, is not the very one that compiled the kernel, "gcc-12 ' "$folder/log"
    [ "$(jq -r '.root_packages[] | select(.root == "build-root") | select(.name | test("^(gcc-12.*gnu|libmnl-dev)$")) |
        "\(.name) \(.architecture)"' "$folder/output/lock.json")" = $'gcc-12-aarch64-linux-gnu amd64\nlibmnl-dev arm64' ]
}

# x86-64 would be EM 62: nothing of the build machine may come along.
@test "every program, library and module of the image is for arm64, and so is the image" {
    [ "$(buildah inspect "$container" | jq -r .OCIv1.architecture)" = arm64 ]
    [ "$(jq -r '.images[0].tag' "$folder/output/images.json")" = "1.0-$krel-debian12-arm64" ]
    find "$root" -xdev -type f -print0 | xargs -0 readelf -h 2>/dev/null | sed -n 's/^ *Machine: *//p' | sort | uniq -c >"$folder/machines"
    [ "$(wc -l <"$folder/machines")" -eq 1 ]
    read -r count machine <"$folder/machines"
    [ "$machine" = AArch64 ] && [ "$count" -gt 30 ]
    [ "$(modinfo -F vermagic "$root/usr/lib/modules/$krel/updates/ofed/smallest.ko")" = "$krel SMP mod_unload modversions aarch64" ]
}

@test "the proof says that it loads, of the archive too; its programs start" {
    [ "$(jq -r '.images[0].proof' "$folder/output/images.json")" = holds ]
    run "$slipway" verify "$folder/output" --kernel "$krel"
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
