#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# A kernel tree for arm64 whose own programs (fixdep, modpost, genksyms) are for arm64, too: they are compiled of its sources,
# or run by qemu-user. Either way the module is that which this machine's linux-kbuild makes, byte for byte.

setup_file() {
    top=$(realpath "$BATS_TEST_DIRNAME/../../..")
    slipway=$(cd "$top" && realpath -m "${O:-build}")/slipway
    folder=$BATS_FILE_TMPDIR
    export top slipway folder
    build usual --kernel newest --arch arm64
    krel=$(jq -r .krel "$folder/usual/lock.json")
    export krel
    fetch arm64 '.purpose == "headers"'
}

# build NAME OPTION…: the module goes to NAME.ko.
build() {
    local name=$1 container
    shift
    "$slipway" build "$@" --os debian12 --ofed "$top/tests/real/smallest-ofed" --nvidia none --output "$folder/$name" \
        >"$folder/$name.log" 2>&1 || { cat "$folder/$name.log" && return 1; }
    container=$(buildah from --quiet --pull-never "$(jq -r '.images[0].id' "$folder/$name/images.json")")
    cp "$(find "$(buildah mount "$container")/usr/lib/modules" -name smallest.ko)" "$folder/$name.ko"
    buildah rm "$container" >/dev/null
}

# fetch ARCH FILTER: unpacks the packages of the lock to ARCH/, those of this machine as they are for ARCH.
fetch() {
    local url
    mkdir -p "$folder/$1"
    jq -r ".packages[] | select($2) | .url" "$folder/usual/lock.json" | while read -r url; do
        curl --silent --show-error --fail --output "$folder/package.deb" "${url/_amd64.deb/_$1.deb}"
        dpkg-deb --extract "$folder/package.deb" "$folder/$1"
    done
    mkdir -p "$folder/$1/lib/modules/$krel"
    ln -sfn "../../../usr/src/linux-headers-$krel" "$folder/$1/lib/modules/$krel/build"
    ln -sfn "../../../usr/src/linux-headers-${krel%-arm64}-common" "$folder/$1/lib/modules/$krel/source"
}

@test "without their sources they are run by qemu-user" {
    file "$folder"/arm64/usr/lib/linux-kbuild-*/scripts/basic/fixdep | grep -q aarch64
    build emulated --kernel-from "$folder/arm64"
    grep -q "run the kernel tree's own programs by qemu-aarch64: it has no scripts/basic/fixdep.c" "$folder/emulated.log"
    cmp "$folder/emulated.ko" "$folder/usual.ko"
}

@test "with their sources they are compiled" {
    local scripts="$folder/arm64/usr/src/linux-headers-${krel%-arm64}-common/scripts" program
    (cd "$folder" && apt-get -qq download linux-source-6.1)
    dpkg-deb --fsys-tarfile "$folder"/linux-source-6.1_*.deb | tar -C "$folder" -xf - --wildcards '*/linux-source-6.1.tar.xz'
    tar -C "$folder" -xf "$folder"/usr/src/linux-source-6.1.tar.xz linux-source-6.1/scripts
    rm "$scripts"
    mv "$folder/linux-source-6.1/scripts" "$scripts"
    for program in basic/fixdep mod/modpost genksyms/genksyms; do
        cp "$folder"/arm64/usr/lib/linux-kbuild-*/scripts/"$program" "$scripts/$program"
    done
    ln -sfn "../linux-headers-${krel%-arm64}-common/scripts" "$folder/arm64/usr/src/linux-headers-$krel/scripts"
    build compiled --kernel-from "$folder/arm64"
    grep -q "compile fixdep, modpost and genksyms for this machine: the kernel tree has those of aarch64" "$folder/compiled.log"
    cmp "$folder/compiled.ko" "$folder/usual.ko"
}
