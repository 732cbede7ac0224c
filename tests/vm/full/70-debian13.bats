#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# make check-full: Debian 13 as the target, from whatever system this is: its kernel, its compiler, its OFED and its
# NVIDIA driver, in containers that are made of it.

load both

setup_file() {
    images=$build/images-debian13
    export images
}

@test "slipway build --os debian13 --kernel newest: both images, and the proof holds" {
    "$slipway" build --os debian13 --kernel newest --ofed reference --output "$images"
    [[ $(jq -r .krel "$images/images.json") == 6.12.*+deb13*-amd64 ]]
    [ "$(jq -r .compiler.name "$images/lock.json")" = gcc-14 ]
    proof_holds "$images"
}

# The file of the lock's package $1, as slipway has fetched it; it may have gone from the cache since (slipway cache prune).
fetched() {
    local hash url file
    read -r hash url < <(jq -r --arg name "$1" '.packages[] | select(.name == $name) | "\(.sha256) \(.url)"' "$images/lock.json") || {
        echo "the lock has no $1"
        return 1
    }
    file=${XDG_CACHE_HOME:-$HOME/.cache}/slipway/blobs/sha256/$hash
    if [[ ! -e $file ]]; then
        file=$BATS_FILE_TMPDIR/$1.deb
        /usr/lib/apt/apt-helper -o APT::Sandbox::User=root download-file "$url" "$file" "SHA256:$hash" >&2
    fi
    echo "$file"
}

# The test modules need the host tools of the kernel's own packages, which want that distribution's libc: they are
# compiled in the container that slipway compiled the drivers in.
compile_test_modules() {
    local krel=$1 folder=$2 tree image container status=0
    tree=$(dirname "${XDG_CACHE_HOME:-$HOME/.cache}"/slipway/stages/kernel-*/lib/modules/"$krel" | head -n 1)
    image=$(buildah images --noheading --format '{{.Name}}:{{.Tag}}' | grep '^localhost/slipway/build-debian13-gcc-14:' | head -n 1)
    cp -r "$vm_folder/simdev" "$folder"
    container=$(buildah from --pull-never "$image")
    buildah run --isolation chroot -v "${tree%/lib/modules}:/kernel:ro" -v "$folder:/modules" "$container" -- \
        make -s -C "/kernel/lib/modules/$krel/build" M=/modules modules || status=$?
    buildah rm "$container" >/dev/null
    return "$status"
}

@test "both containers load, serve and unload their drivers on Debian 13's kernel" {
    local krel
    krel=$(jq -r .krel "$images/images.json")
    compile_test_modules "$krel" "$BATS_FILE_TMPDIR/simdev"
    export VM_MODULES=$BATS_FILE_TMPDIR/simdev
    VM_KERNEL_DEBS=$(fetched "linux-image-$krel")
    export VM_KERNEL_DEBS
    run_both "$krel" "$images"
}
