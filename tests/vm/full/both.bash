# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# What the cases of check-full share: images that were built for a kernel run on it, and end as they should.
# shellcheck source-path=SCRIPTDIR source=../drivers.bash
. "$(dirname "${BASH_SOURCE[0]}")/../drivers.bash"

top=$(realpath -m "$vm_folder/../..")
build=$(cd "$top" && realpath -m "${O:-build}")
export slipway=$build/slipway

# use_both KREL IMAGES: a guest of that kernel, made by what the VM_ variables say, and a disk of both images.
use_both() {
    use_guest "$1"
    VM_IMAGES=$VM_BUILD/images/$1.ext4
    export VM_IMAGES
    "$vm_folder/make-images-disk" "$VM_IMAGES" gpu="$2/gpu.oci.tar" nic="$2/nic.oci.tar"
}

# run_both KREL IMAGES: both containers on that kernel, in an order that makes the GPU container wait; served, unloaded.
run_both() {
    local krel=$1 images=$2
    use_both "$krel" "$images"
    run_case <<'CASE'
. /test/drivers.sh
simulate
start gpu GPU_DIRECT_RDMA_ENABLED=true
wait_log gpu 'waiting wait-ofed' 120
start nic
wait_ready nic 90
wait_ready gpu 90
uname -r
expect_nic_serves
expect_gpu_serves
expect_loaded nvidia_peermem
stop_both
CASE
    [ "$status" -eq 0 ]
    [[ $output == *"$krel"* ]]
}

# A root file system of packages, as if they were installed: DIR FILE…
unpack_debs() {
    local folder=$1 deb
    shift
    mkdir -p "$folder"
    for deb in "$@"; do
        dpkg-deb -x "$deb" "$folder"
    done
}

# proof_holds IMAGES: every module of both images will load on their kernel, and the images say so.
proof_holds() {
    jq -r '.counts | "# \(.modules) modules: \(.will_load) will load, \(.will_not_load) will not, \(.cannot_tell) cannot tell"' "$1/proof.json" >&3
    jq -e '.verdict == "will load" and .counts.modules > 0 and .counts.will_load == .counts.modules' "$1/proof.json" >/dev/null || {
        jq -r '(.modules[] | select(.verdict != "will load") | "\(.path): \(.verdict)", .findings[].text), .set.findings[].text' "$1/proof.json"
        return 1
    }
    jq -e '[.images[].proof] | length > 0 and all(. == "holds")' "$1/images.json" >/dev/null
}

# ---- Debian 13, from whatever system this is

images_debian13=$build/images-debian13

build_debian13() {
    "$slipway" build --os debian13 --kernel newest --ofed reference --output "$images_debian13"
}

# The file of the lock's package $1, as slipway has fetched it; it may have gone from the cache since (slipway cache prune).
fetched() {
    local hash url file
    read -r hash url < <(jq -r --arg name "$1" '.packages[] | select(.name == $name) | "\(.sha256) \(.url)"' "$images_debian13/lock.json") || {
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

# For use_guest, after build_debian13: sets krel.
use_debian13_kernel() {
    krel=$(jq -r .krel "$images_debian13/images.json")
    compile_test_modules "$krel" "$BATS_FILE_TMPDIR/simdev"
    VM_MODULES=$BATS_FILE_TMPDIR/simdev VM_KERNEL_DEBS=$(fetched "linux-image-$krel")
    export VM_MODULES VM_KERNEL_DEBS
}
