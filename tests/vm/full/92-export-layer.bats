#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# make check-full: an operating system with what `slipway export --as layer` made, put together by the lines of docs/edge.md and
# booted: Debian 12 with Debian's kernel, by firmware with Secure Boot, whose certificate is the only one that vouches for the
# drivers. DKMS has two of them in another build.

bats_require_minimum_version 1.5.0
load both

setup_file() {
    krel=$(newest_krel x86_64)
    parts=$("$vm_folder/make-os" --build "$VM_BUILD" "$krel")
    images=$build/images-signed
    work=$BATS_FILE_TMPDIR
    export krel parts images work
    "$slipway" build --kernel "$krel" --ofed reference --sign-key "$parts/signing.key" --sign-cert "$parts/signing.pem" --output "$images"
    "$slipway" export "$images"/{nic,gpu}.oci.tar --as tar --without userspace --output "$work/export"
    "$slipway" export "$images"/{nic,gpu}.oci.tar --as layer --output "$work/export"
    mkdir "$work/tree" "$work/os"
    tar -xf "$work"/export/*.tar.zst -C "$work/tree"
    use_guest "$krel"
    make_base
    make_os
    use_images gpu="$images/gpu.oci.tar"
}

# with_storage COMMAND…: with a storage of containers that goes with this file's folder.
with_storage() {
    printf '%s\n' '[storage]' 'driver = "overlay"' "graphroot = \"$work/storage\"" "runroot = \"$work/run\"" >"$work/storage.conf"
    CONTAINERS_STORAGE_CONF=$work/storage.conf BUILDAH_ISOLATION=chroot "$@"
}

build_id() {
    readelf --notes "$1" | sed -n 's/^ *Build ID: //p'
}

# What DKMS has in the base: the drivers with another build id, signed as well.
put_dkms() {
    local folder=$work/node/usr/lib/modules/$krel/updates/dkms name id
    mkdir -p "$folder"
    for name in mlx5_core nvidia; do
        cp "$work/tree/usr/lib/modules/$krel/updates/slipway"/*/"$name.ko" "$folder/"
        id=$(build_id "$folder/$name.ko")
        # shellcheck disable=SC2016 # perl expands it
        perl -0777 -pi -e 'BEGIN { $from = pack("H*", shift); $to = ~$from } s/\Q$from\E/$to/' "$id" "$folder/$name.ko"
        [ "$(build_id "$folder/$name.ko")" != "$id" ]
    done
    sign_modules --replace "$folder"
}

sign_modules() {
    "$slipway" sign --key "$parts/signing.key" --cert "$parts/signing.pem" --hash sha256 "$@"
}

# The system that gets the drivers. The simulated devices are there before any driver.
make_base() {
    local simdev=$work/node/usr/lib/modules/$krel/updates/simdev container
    mkdir -p "$simdev" "$work/node/etc/initramfs-tools"
    debugfs -R "dump /test/modules/simdev.ko $simdev/simdev.ko" "$VM_BUILD/guest/$krel/system.ext4" 2>/dev/null
    cp "$simdev/simdev.ko" "$work/unsigned.ko"
    sign_modules "$simdev"
    echo simdev >"$work/node/etc/initramfs-tools/modules"
    put_dkms
    container=$(with_storage buildah from scratch)
    with_storage buildah add --quiet "$container" "$parts/root.tar.zst" / >/dev/null
    with_storage buildah add --quiet "$container" "$work/node" / >/dev/null
    with_storage buildah commit --quiet "$container" localhost/base >/dev/null
    with_storage buildah rm "$container" >/dev/null
}

# The lines of docs/edge.md, with the names of this test.
containerfile() {
    awk '/^    FROM oci-archive:/ { take = 1 } take { print substr($0, 5) } take && /^    RUN / { exit }' "$top/docs/edge.md" |
        sed "s|6\.1\.0-56-amd64|$krel|g; s|registry\.example/os:1|localhost/base|; s|oci-archive:|&$work/export/|"
}

# What run-vm --os boots.
make_os() {
    local container root
    containerfile >"$work/Containerfile"
    [ "$(grep -c . "$work/Containerfile")" = 4 ]
    with_storage buildah build --quiet -f "$work/Containerfile" -t localhost/os "$work/export" >/dev/null
    container=$(with_storage buildah from --pull-never localhost/os)
    root=$(with_storage buildah mount "$container")
    cp "$root/boot/vmlinuz-$krel" "$work/os/vmlinuz"
    cp "$root/boot/initrd.img-$krel" "$work/os/initrd"
    cp "$parts"/{code,variables}.fd "$work/os/"
    mke2fs -q -t ext4 -m 0 -d "$root" "$work/os/root.ext4" "$(($(du -sm "$root" | cut -f 1) * 11 / 10 + 200))M" >/dev/null
    # The stage of the drivers as well.
    with_storage buildah rm --all >/dev/null
}

teardown_file() {
    ! mountpoint -q "$work/storage/overlay" || umount "$work/storage/overlay"
}

@test "slipway verify takes the new image: each module of it is signed, and the layer's are those that modprobe finds" {
    run -0 with_storage "$slipway" verify localhost/os --kernel "$krel" --trust "$parts/signing.pem" --enforce-signatures --all
    [[ $output == *", 0 will not, 0 cannot tell"*"signatures are enforced, and the kernel takes each module's"* ]]
    [[ $output == *"updates/slipway/nvidia/nvidia.ko and usr/lib/modules/$krel/updates/dkms/nvidia.ko: modules.dep lists the first"* ]]
    [[ $output == *"updates/slipway/ofed/mlx5_core.ko and usr/lib/modules/$krel/updates/dkms/mlx5_core.ko: modules.dep lists the first"* ]]
}

@test "the new initramfs has the layer's mlx5_core, and no other" {
    mkdir "$BATS_TEST_TMPDIR/initrd"
    zstd -dc "$work/os/initrd" | cpio -id --quiet -D "$BATS_TEST_TMPDIR/initrd" '*mlx5_core.ko' '*ib_core.ko'
    diff <(cd "$BATS_TEST_TMPDIR/initrd" && find . -name 'mlx5_core.ko') - <<<"./usr/lib/modules/$krel/updates/slipway/ofed/mlx5_core.ko"
    find "$BATS_TEST_TMPDIR/initrd" -name mlx5_core.ko -exec cmp {} "$work/tree/usr/lib/modules/$krel/updates/slipway/ofed/mlx5_core.ko" \;
}

# What a loaded module shows of each file of the layer: its build id, as a note.
put_notes() {
    local file name
    mkdir "$BATS_TEST_TMPDIR/ours"
    for file in "$work/tree/usr/lib/modules/$krel/updates/slipway"/*/*.ko; do
        name=$(basename "$file" .ko)
        objcopy -O binary --only-section=.note.gnu.build-id "$file" "$BATS_TEST_TMPDIR/ours/${name//-/_}"
    done
}

@test "booted where signatures are enforced: the layer's drivers, rules and nodes; a GPU container beside them keeps them, and loads its own" {
    put_notes
    run_case --os "$work/os" --append module.sig_enforce=1 --add "$BATS_TEST_TMPDIR/ours" --add "$work/unsigned.ko" <<'CASE'
. /test/drivers.sh
tree=/lib/modules/$(uname -r)
gpu_modules="nvidia nvidia_uvm nvidia_modeset nvidia_peermem"
# is_ours MODULE: what is loaded is the layer's file, by its build id.
is_ours() { cmp -s "/sys/module/$1/notes/.note.gnu.build-id" "/case/ours/$1"; }
expect_ours() {
    local module
    for module in "$@"; do
        expect "$module is not the layer's" is_ours "$module"
        case $(modinfo -n "$module") in
        "$tree"/updates/slipway/*) ;;
        *) fail "modprobe would take $(modinfo -n "$module")" ;;
        esac
    done
}
# expect_host_node NODE DRIVER MINOR: the udev rule made it.
expect_host_node() {
    local wanted
    wanted=$(awk -v driver="$2" '$2 == driver { printf "%x", $1 }' /proc/devices)
    [ -n "$wanted" ] || fail "no driver $2: $(cat /proc/devices)"
    [ "$(stat -c '%t %T %a' "/dev/$1")" = "$wanted $3 666" ] || fail "/dev/$1: $(stat -c '%t %T %a' "/dev/$1"), not $wanted $3"
}
# Another number each time that a module is loaded.
loads() { ls -di /sys/module/nvidia /sys/module/nvidia_uvm /sys/module/nvidia_modeset /sys/module/nvidia_peermem; }

echo "signatures: $(cat /sys/module/module/parameters/sig_enforce), lockdown: $(cat /sys/kernel/security/lockdown)"
refute "an unsigned module" insmod /case/unsigned.ko bus=80
! systemctl is-failed systemd-modules-load || fail "modules-load.d"
expect_ours mlx5_core ib_core ib_uverbs $gpu_modules
expect_unloaded nouveau
would_load() { modprobe --dry-run --verbose "$@" "$(cat /sys/bus/pci/devices/0000:40:00.0/modalias)" | grep /nouveau.ko; }
expect "without the rules nouveau would not be loaded either" would_load --config /vm
refute "nouveau is not blacklisted" would_load
for node in "nvidia0 nvidia-frontend 0" "nvidiactl nvidia-frontend ff" "nvidia-uvm nvidia-uvm 0" "nvidia-uvm-tools nvidia-uvm 1" \
    "nvidia-modeset nvidia-frontend fe"; do
    expect_host_node $node
done
nvidia-smi || echo "nvidia-smi ends with $?"

echo "the layer's modules, the container's programs"
loads >/tmp/loads
mkdir /vm/drivers
echo NVreg_EnableStreamMemOPs=1 >/vm/drivers/nvidia.conf
start gpu GPU_DIRECT_RDMA_ENABLED=true USE_HOST_MOFED=true
wait_ready gpu 90
container_log gpu | grep -E 'proof prove|not loaded by this container'
loads | cmp - /tmp/loads || fail "modules were loaded again"
expect_gpu_serves
grep -x 'EnableStreamMemOPs: 0' /proc/driver/nvidia/params
exec_in gpu nvidia-driver probe_nvidia_peermem
exec_in gpu slipway-init status | grep ^peermem
stop_clean gpu
expect_unloaded $gpu_modules nvidia_drm
expect_ours mlx5_core ib_core ib_uverbs

echo "the container's modules, the layer's OFED"
start gpu GPU_DIRECT_RDMA_ENABLED=true USE_HOST_MOFED=true
wait_ready gpu 90
container_log gpu | grep -E 'proof prove|loaded nvidia_peermem'
expect_gpu_serves
grep -x 'EnableStreamMemOPs: 1' /proc/driver/nvidia/params
expect_ours $gpu_modules ib_core ib_uverbs
stop_clean gpu
expect_unloaded $gpu_modules

echo "the other builds"
modprobe -r mlx5_core
modprobe mlx5_core
expect_ours mlx5_core
rmmod mlx5_core
insmod "$tree/updates/dkms/mlx5_core.ko"
refute "DKMS' build counts as the layer's" is_ours mlx5_core
! dmesg | grep -E 'WARNING: |BUG: |Oops' || fail "the kernel is not content"
CASE
    [ "$status" -eq 0 ]
    [[ $output == *"signatures: Y, lockdown: none [integrity] confidentiality"* ]]
    [[ $output == *"nothing to load: all modules are loaded already"*'nvidia was not loaded by this container and may have other parameters than "NVreg_EnableStreamMemOPs=1"'* ]]
    # Debian's kernel takes a key of the firmware's, which is not known of each kernel.
    [[ $output == *"OFED is the host's"*"nvidia: signed by SnakeOil, but it is unknown whether the kernel has the key"*"the kernel will decide"*"loaded nvidia_peermem"* ]]
}
