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

# derive NAME FROM COMMAND…: an image that differs from another in what COMMAND does to its root folder, $root.
# One at a time: files of tests run side by side, and may derive the same.
derive_image() {
    local name=$1 from=$2 container root lock
    shift 2
    mkdir -p "$VM_BUILD"
    exec {lock}>"$VM_BUILD/.derive.lock"
    flock "$lock"
    container=$(buildah from --quiet --pull-never "oci-archive:$from")
    root=$(buildah mount "$container")
    root=$root put_init
    root=$root "$@"
    # With a fixed time the same content is the same image, and the disk made from it stays.
    buildah commit -q --timestamp 0 "$container" "localhost/slipway-test-$name" >/dev/null
    buildah rm "$container" >/dev/null
    exec {lock}>&-
}

rename_kernel() {
    mv "$root/lib/modules/$(images_krel)" "$root/lib/modules/6.1.0-1-elsewhere"
}

# The same GPU image with modules for a kernel that is not the running one.
gpu_elsewhere() {
    derive_image gpu-elsewhere "$images_folder/gpu.oci.tar" rename_kernel
    echo localhost/slipway-test-gpu-elsewhere
}

# driver_image NAME FILE: the archive, or with VM_INIT the image that is derived from it.
driver_image() {
    if [ -z "${VM_INIT:-}" ]; then
        echo "$2"
        return
    fi
    derive_image "$1-init" "$2" true
    echo "localhost/slipway-test-$1-init"
}

# Makes the guest, and one disk with all images for every file of driver tests.
use_drivers() {
    [ -f "$images_folder/images.json" ] || {
        echo "no images in $images_folder: run make images" >&2
        return 1
    }
    use_guest "$(images_krel)"
    VM_IMAGES=$VM_BUILD/images/drivers.ext4
    export VM_IMAGES
    "$vm_folder/make-images-disk" "$VM_IMAGES" gpu="$(driver_image gpu "$images_folder/gpu.oci.tar")" \
        nic="$(driver_image nic "$images_folder/nic.oci.tar")" \
        nic-other="$(driver_image nic-other "$images_folder/other/nic.oci.tar")" gpu-elsewhere="$(gpu_elsewhere)"
}
