#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# make check-full: modules that a node compiled are what the VM loads. NVIDIA's real source, by the kit of a real
# `slipway build --sources-image` and its recipe, in a container of this machine against the headers of the VM's kernel
# as Debian's packages lay them down (an emulated processor would compile for half an hour); then the host's cache and
# those headers are the VM's, and the same image finds there what was made for them. Nothing of it is a stand-in but
# that the two hosts are one by their files only.

load both
# shellcheck source-path=SCRIPTDIR source=../../real/node.bash
. "$top/tests/real/node.bash"

setup_file() {
    krel=$(images_krel)
    folder=$build/node-compiled
    image=$folder/image
    export krel folder image
    rm -rf "$folder"
    "$slipway" build --kernel "$krel" --ofed reference --sources-image --output "$folder/output"
    # The modules that the image was built with would do: it is to have none for this kernel.
    derive_image gpu-sources "$folder/output/gpu.oci.tar" forget_modules
    take_image
    make_host "$folder/host" "$folder/output/lock.json" drivers/{gpu/drm,acpi,platform/x86,i2c}
    use_guest "$krel"
    VM_IMAGES=$VM_BUILD/images/node-compiled.ext4
    export VM_IMAGES
    "$vm_folder/make-images-disk" "$VM_IMAGES" gpu="$(image_name gpu-sources)"
}

teardown_file() {
    rm -rf "$folder"
}

# In the image's root, $root.
forget_modules() {
    rm -rf "$root/usr/lib/modules/$krel" "$root/usr/lib/slipway/kernels/$krel" "$root"/usr/src/nvidia-*
}

# Its files, for containers of this machine.
take_image() {
    local container
    container=$(buildah from --quiet --pull-never "$(image_name gpu-sources)")
    cp -a "$(buildah mount "$container")" "$image"
    buildah rm "$container" >/dev/null
}

# "module id" of what the node compiled.
build_ids() {
    local file
    for file in "$folder"/host/var/lib/slipway/modules/"$krel"-nvidia-*/lib/modules/"$krel"/updates/nvidia/*.ko; do
        echo "$(modinfo -F name "$file") $(readelf -n "$file" | sed -n 's/.*Build ID: //p')"
    done
}

# The host as far as the VM's start asks: headers, and what was compiled there. On a disk of its own.
make_disk() {
    rm -rf "$folder/disk" "$folder/node.ext4"
    mkdir -p "$folder/disk/lib/modules/$krel"
    cp -a "$folder/host/usr" "$folder/host/var" "$folder/disk/"
    cp -a "$folder/host/lib/modules/$krel"/{build,source} "$folder/disk/lib/modules/$krel/"
    build_ids >"$folder/disk/build-ids"
    /sbin/mke2fs -q -t ext4 -d "$folder/disk" "$folder/node.ext4" "$(($(du -sm "$folder/disk" | cut -f 1) * 5 / 4 + 32))M"
}

@test "NVIDIA's modules are compiled on a node with Debian's own headers, and kept on its host" {
    local begun=$EPOCHSECONDS kept=$folder/host/var/lib/slipway
    start_host "$folder/host"
    container "$image" "$BATS_TEST_TMPDIR/container" nvidia-driver build --kernel "$krel" >"$BATS_TEST_TMPDIR/out" 2>&1 || true
    stop_host
    tail -n 40 "$BATS_TEST_TMPDIR/out"
    grep -q 'compiling driver' "$BATS_TEST_TMPDIR/out"
    echo "# compiled in $((EPOCHSECONDS - begun)) s" >&3
    (($(find "$kept/modules" -path "*/$krel-nvidia-*/lib/modules/$krel/updates/nvidia/*.ko" | wc -l) >= 4))
}

@test "the VM's start finds them in the host's cache, proves them, loads, serves and unloads them, with all that the image lacks" {
    make_disk
    run_case --disk "$folder/node.ext4" <<'CASE'
. /test/drivers.sh
simulate
krel=$(uname -r)
mkdir -p /vm/node "/lib/modules/$krel" /usr/src /usr/lib /var/lib/slipway
mount -o ro /dev/vdc /vm/node
for folder in /vm/node/usr/src/* /vm/node/usr/lib/linux-*; do
    mkdir -p "${folder#/vm/node}"
    mount --bind "$folder" "${folder#/vm/node}"
done
cp -a "/vm/node/lib/modules/$krel/." "/lib/modules/$krel/"
cp -a /vm/node/var/lib/slipway/. /var/lib/slipway/
refute "the image has modules for this kernel" ls "/images/gpu/rootfs/usr/lib/modules/$krel/updates"
start gpu
wait_ready gpu 240
container_log_has gpu 'compiled before: '
refute "it was compiled anew" container_log_has gpu 'compiling driver'
container_log_has gpu 'modules will load'
expect_gpu_serves
# What is loaded is the very file that the node compiled.
for module in $nvidia_modules; do
    id=$(od -An -tx1 -j16 -v "/sys/module/$module/notes/.note.gnu.build-id" | tr -d ' \n')
    echo "$module: loaded $id"
    grep -q "^$module $id\$" /vm/node/build-ids || fail "$module is loaded, but not the one that was compiled"
done
stop_clean gpu
expect_nothing_left
CASE
    [ "$status" -eq 0 ]
    [[ $output == *"nvidia: loaded "* ]]
}
