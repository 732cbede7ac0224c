#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2154
# SPDX-License-Identifier: Apache-2.0
# make check-full: what `slipway export --as sysext` makes, merged by the systemd that is process 1 of a node: Debian 12's
# (252) and Debian 13's (257), each on its kernel, with the module sets of the real images. One boot each: it begins with both
# extensions in place, and the steps of tests/vm/sysext/case.sh follow.

load both

systemd="systemd udev dmsetup libcryptsetup12 mount util-linux coreutils dash grep sed mawk libc-bin"

setup_file() {
    openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=extensions -addext keyUsage=digitalSignature \
        -keyout "$BATS_FILE_TMPDIR/ext.key" -out "$BATS_FILE_TMPDIR/ext.crt"
}

# The programs and libraries of a GPU image are 300 MB, which nothing runs here: large ones are left empty.
empty_userspace() {
    find "$root/usr" -type f -size +1M ! -path '*/modules/*' ! -name 'libnvidia-ml*' -exec truncate -s 0 {} +
}

# The same modules under a name that no kernel has.
rename_set() {
    local new=${krel/.[0-9]*/.999}-amd64
    mv "$root/usr/lib/modules/$krel" "$root/usr/lib/modules/$new"
    mv "$root/usr/lib/slipway/kernels/$krel" "$root/usr/lib/slipway/kernels/$new"
    sed -i "s/^krel=.*/krel=$new/" "$root/etc/slipway/image.conf" "$root/usr/lib/slipway/kernels/$new/image.conf"
}

# make_extensions OS IMAGES OTHER-OS: the disk with the folders that the steps use.
make_extensions() {
    local os=$1 images=$2 other=$3 disk=$BATS_TEST_TMPDIR/disk
    mkdir -p "$disk/units"
    cp "$vm_folder/sysext/case.service" "$disk/units/"
    cp "$BATS_FILE_TMPDIR/ext.crt" "$disk/"
    derive_image "gpu-sysext-$os" "$images/gpu.oci.tar" empty_userspace
    derive_image "nic-sysext-$os" "$images/nic.oci.tar" rename_set
    "$slipway" export "$(image_name "gpu-sysext-$os")" --as sysext --output "$disk/gpu"
    "$slipway" export "$images/nic.oci.tar" --as sysext --output "$disk/nic"
    "$slipway" export "$(image_name "nic-sysext-$os")" --as sysext --output "$disk/other-kernel"
    "$slipway" export "$images/nic.oci.tar" --as sysext --os "$other" --output "$disk/other-release"
    "$slipway" export "$images/nic.oci.tar" --as sysext --output "$disk/signed" \
        --sign-key "$BATS_FILE_TMPDIR/ext.key" --sign-cert "$BATS_FILE_TMPDIR/ext.crt"
}

# run_node SUITE: one boot, with the words of docs/edge.md on the kernel's command line.
run_node() {
    local system=$VM_BUILD/sysext/$1.ext4
    # shellcheck disable=SC2086 # a list of packages
    "$vm_folder/make-system" "$system" "$1" $systemd
    VM_IMAGES=$BATS_TEST_TMPDIR/disk.ext4
    mke2fs -q -t ext4 -O ^has_journal -d "$BATS_TEST_TMPDIR/disk" "$VM_IMAGES" 64M
    run_case --system "$system" --add "$vm_folder/sysext/init" --add "$vm_folder/sysext/case.sh:sysext.sh" \
        --append "modprobe.blacklist=mlx5_core,mlx5_ib,nouveau systemd.unit=multi-user.target systemd.show_status=0"
    [ "$status" -eq 0 ]
}

@test "systemd 252 of Debian 12: a unit of the base starts those of the extensions" {
    krel=$(images_krel)
    use_guest "$krel"
    make_extensions debian12 "$images_folder" debian13
    # As docs/edge.md has it, for the NIC's: the GPU's stays down.
    sed -n '/^    \[Unit\]$/,/^    WantedBy=/s/^    //p' "$top/docs/edge.md" | sed 's/-gpu/-nic/' >"$BATS_TEST_TMPDIR/disk/units/drivers.service"
    run_node bookworm <<'CASE'
. /case/sysext.sh
poll 60 is_up nic || fail "the unit of the base has not started it"
refute "systemd starts a unit of an extension by itself" is_up gpu
systemctl start slipway-drivers-gpu.service
expect_drivers
expect_own_modules
expect_unmerged
expect_other_build_refused
expect_without_ofed
expect_other_kernel_refused
expect_other_release_ignored
expect_signed
CASE
}

@test "systemd 257 of Debian 13: the extensions' units start at boot, and a policy wants signatures" {
    build_debian13
    use_debian13_kernel
    use_guest "$krel"
    make_extensions debian13 "$images_debian13" debian12
    local policy
    policy=$(grep -o -- '--image-policy=[^`]*' "$top/docs/edge.md")
    run_node trixie <<CASE
. /case/sysext.sh
expect_drivers
expect_own_modules
expect_unmerged
expect_other_build_refused
expect_without_ofed
expect_one_try
expect_other_kernel_refused
expect_other_release_ignored
expect_signed
expect_policy '$policy'
CASE
}
