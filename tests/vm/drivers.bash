# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# The driver images that the VM tests run, and what is derived from them. `make images` has built gpu and nic.
# shellcheck source-path=SCRIPTDIR source=helpers.bash
. "$(dirname "${BASH_SOURCE[0]}")/helpers.bash"

images_folder=$(cd "$vm_folder/../.." && realpath -m "${O:-build}")/images

# The kernel release that the images were built for.
images_krel() {
    jq -r .krel "$images_folder/images.json"
}

# The slipway-init that the images get in the place of their own, when one tries a change without `make images`: VM_INIT.
put_init() {
    [ -z "${VM_INIT:-}" ] || install -m 755 "$VM_INIT" "$root/usr/bin/slipway-init"
}

# image_name NAME: the id of the image that derive_image made last in this build folder. The name that Buildah has for it is
# shared by all checkouts, and may mean another one's by now.
image_name() {
    cat "$VM_BUILD/derived/$1"
}

# with_image ARCHIVE COMMAND…: runs COMMAND with the root folder of the archive's image in $root, its container in $container.
# It sets -e itself, as bash has none in $(…): COMMAND would go on after a failure, and with an empty $root it would change
# files of this machine.
with_image() (
    set -e
    image_container=''
    trap '[ -z "$image_container" ] || buildah rm "$image_container" >/dev/null' EXIT
    image_container=$(buildah from --quiet --pull-never "oci-archive:$1") || exit 1
    image_root=$(buildah mount "$image_container") || exit 1
    shift
    container=$image_container root=$image_root "$@"
)

# derive_image NAME FROM COMMAND…: an image that differs from another in what COMMAND does to its root folder, $root. Call it
# as a statement, and image_name next: a failure in $(…) is lost, and bash ignores set -e in COMMAND before || and &&.
# One at a time: files of tests run side by side, and may derive the same.
derive_image() (
    mkdir -p "$VM_BUILD/derived" && exec {lock}>"$VM_BUILD/derived/.lock" && flock "$lock" || exit 1
    with_image "$2" commit_changed "$VM_BUILD/derived/$1" "${@:3}"
)

# commit_changed FILE COMMAND…: changes and commits the image of with_image, and puts its id into FILE. With a fixed time the
# same content is the same image, and the disk made from it stays.
commit_changed() {
    put_init || return 1
    "${@:2}"
    buildah commit -q --timestamp 0 "$container" "localhost/slipway-test-${image_prefix:-}${1##*/}" >"$1.new" && mv "$1.new" "$1"
}

# put_kit_root: in $root, what a kit's recipes run in: a shell, and a file of the compiler's name that compiles nothing.
put_kit_root() {
    local kit_root=$root/usr/lib/slipway/kit/root name
    mkdir -p "$kit_root"/{bin,usr/bin,usr/src,tmp}
    cp /bin/busybox "$kit_root/bin/busybox"
    for name in sh cp; do
        ln -s busybox "$kit_root/bin/$name"
    done
    printf '#!/bin/sh\nexec /bin/sh "$@"\n' >"$kit_root/usr/bin/bash"
    : >"$kit_root/usr/bin/gcc-12"
    chmod +x "$kit_root/usr/bin/bash" "$kit_root/usr/bin/gcc-12"
}

# In an image's root: the tool that compiles, as slipway build --sources-image puts it there.
put_tool() {
    local program tool=$root/usr/lib/slipway/tool library
    ! grep -x "# proves: the node's side" "$BATS_TEST_FILENAME" || { echo "that line is wrong: this file needs the tool" >&2 && return 1; }
    program=$(realpath "$images_folder/../slipway")
    mkdir -p "$tool/lib"
    cp "$program" "$tool/slipway"
    for library in $(ldd "$program" | grep -o '/[^ ]*'); do
        case $library in
        */ld-*) cp -L "$library" "$tool/lib/loader" ;;
        *) cp -L "$library" "$tool/lib/" ;;
        esac
    done
}

rename_kernel() {
    mv "$root/lib/modules/$(images_krel)" "$root/lib/modules/6.1.0-1-elsewhere"
}

# Makes the image gpu-elsewhere: the GPU image with modules for a kernel that is not the running one.
derive_elsewhere() {
    derive_image gpu-elsewhere "$images_folder/gpu.oci.tar" rename_kernel
}

# driver_image NAME FILE: the archive, or with VM_INIT the image that is derived from it.
driver_image() {
    if [ -z "${VM_INIT:-}" ]; then
        echo "$2"
        return
    fi
    derive_image "$1-init" "$2" true || return 1
    image_name "$1-init"
}

# Makes the guest, and one disk with all images for every file of driver tests.
use_drivers() {
    # Quickstart makes the first two only.
    if [ ! -f "$images_folder/images.json" ] || [ ! -f "$images_folder/other/nic.oci.tar" ]; then
        echo "the images of the tests are not in $images_folder: run make images" >&2
        return 1
    fi
    use_guest "$(images_krel)"
    VM_IMAGES=$VM_BUILD/images/drivers.ext4
    export VM_IMAGES
    local gpu=()
    # Of User Mode Linux there are NIC images only.
    if [ "${guest:-debian}" != um ]; then
        derive_elsewhere
        gpu=(gpu="$(driver_image gpu "$images_folder/gpu.oci.tar")" gpu-elsewhere="$(image_name gpu-elsewhere)")
    fi
    "$vm_folder/make-images-disk" "$VM_IMAGES" nic="$(driver_image nic "$images_folder/nic.oci.tar")" \
        nic-other="$(driver_image nic-other "$images_folder/other/nic.oci.tar")" "${gpu[@]}"
}

# image_file ARCHIVE PATH: a file of an image.
image_file() {
    with_image "$images_folder/$1" print_file "$2"
}

print_file() {
    cat "$root/$1"
}

symvers_crc() {
    image_file "$1" "usr/src/ofa_kernel/x86_64/$VM_KREL/Module.symvers" |
        awk '$2 == "ib_register_peer_memory_client" { print $1 }'
}

# set_crc FILE OLD NEW: of the peer-memory interface, in the module's struct modversion_info: eight bytes, then the name.
set_crc() {
    local offset
    while IFS=: read -r offset _; do
        [ "$(od -An -tx4 -j $((offset - 8)) -N4 "$1" | tr -d ' ')" = "${2#0x}" ] || continue
        printf '%b' "$(printf '%08x' "$3" | sed 's/\(..\)\(..\)\(..\)\(..\)/\\x\4\\x\3\\x\2\\x\1/')" |
            dd of="$1" bs=1 seek=$((offset - 8)) conv=notrunc status=none
        return
    done < <(grep -abo ib_register_peer_memory_client "$1")
    echo "$1 has no CRC $2 of ib_register_peer_memory_client" >&2
    return 1
}

# To be derived from gpu: an image for both OFEDs, in the layout that slipway combine makes. The second nvidia-peermem is the
# first with the other CRC: the two OFEDs differ in nothing else, so two compiles would not either. (That would take NVIDIA's
# sources ten minutes; tests/vm/full/50-kernels.bats has two that were compiled.)
put_variants() {
    local folder=$root/usr/lib/slipway/kernels/$VM_KREL/peermem file=nvidia-peermem.ko old new
    old=$(symvers_crc nic.oci.tar)
    new=$(symvers_crc other/nic.oci.tar)
    mkdir -p "$folder/0" "$folder/1"
    cp "$root/lib/modules/$VM_KREL/updates/nvidia/$file" "$folder/0"
    cp "$folder/0/$file" "$folder/1"
    set_crc "$folder/1/$file" "$old" "$new"
    # Packed, which its name does not show: libkmod unpacks it for the kernel.
    xz --check=crc32 --stdout "$folder/1/$file" >"$folder/1/packed"
    mv "$folder/1/packed" "$folder/1/$file"
    printf 'ofed_version=%s\nofed_exporter=ib_uverbs\ncrc=%s\n' first "$old" >"$folder/0/peermem.conf"
    printf 'ofed_version=%s\nofed_exporter=ib_uverbs\ncrc=%s\n' second "$new" >"$folder/1/peermem.conf"
}
