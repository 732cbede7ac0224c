#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# A GPU image without modules for the kernel that runs, which has the kit to make them. The recipe is a stand-in: an
# emulated processor would compile for half an hour, so it gives out the modules that slipway build compiled for this
# kernel (tests/real/node-build.bats compiles). All else is real: name spaces, the node's cache, the kernel's own modules
# of the host, depmod, the load proof, loading.

load drivers

setup_file() {
    use_guest "$(images_krel)"
    VM_IMAGES=$VM_BUILD/images/node-build.ext4
    export VM_IMAGES
    derive_image gpu-kit "$images_folder/gpu.oci.tar" put_kit
    "$vm_folder/make-images-disk" "$VM_IMAGES" gpu="$(image_name gpu-kit)"
}

# In the image's root: its modules become what the recipe gives out.
put_kit() {
    local krel kit=$root/usr/lib/slipway/kit
    krel=$(images_krel)
    mkdir -p "$kit/recipes" "$kit/patches" "$kit/source/lib/modules/$krel" "$kit/source/usr/src" "$root/usr/lib/slipway/headers"
    mv "$root/usr/lib/modules/$krel/updates" "$kit/source/lib/modules/$krel/"
    mv "$root"/usr/src/nvidia-* "$kit/source/usr/src/"
    rm "$kit/source/lib/modules/$krel/updates/nvidia/nvidia-peermem.ko"
    zstd -dqf "$root/usr/lib/slipway/kernels/$krel/Module.symvers.zst" -o "$root/usr/lib/slipway/headers/Module.symvers"
    rm -rf "$root/usr/lib/modules/$krel" "$root/usr/lib/slipway/kernels/$krel"
    echo 'id=stand-in' >"$kit/kit.conf"
    put_tool
    cat >"$kit/recipes/nvidia.sh" <<'RECIPE'
echo "==> a stand-in for the compiler"
[ -f "$SLIPWAY_KERNEL/lib/modules/$SLIPWAY_KREL/build/Module.symvers" ] || exit 1
cp -a "$SLIPWAY_SOURCE/." "$SLIPWAY_OUTPUT/"
echo source=nvidia >"$SLIPWAY_OUTPUT/set.conf"
RECIPE
    put_kit_root
}

@test "no modules for this kernel: they are made on the node with the host's headers, load, and are there for the next start" {
    run_case <<'CASE'
. /test/drivers.sh
simulate
krel=$(uname -r)
headers=/usr/src/linux-headers-$krel
mkdir -p "$headers/include/generated" "/lib/modules/$krel"
cp /images/gpu/rootfs/usr/lib/slipway/headers/Module.symvers "$headers/"
printf 'CONFIG_MODULES=y\nCONFIG_MODULE_SIG=y\nCONFIG_CC_IS_GCC=y\nCONFIG_GCC_VERSION=120200\nCONFIG_RETPOLINE=y\nCONFIG_LIVEPATCH=y\nCONFIG_SECURITY_LOCKDOWN_LSM=y\n' >"$headers/.config"
echo "#define UTS_RELEASE \"$krel\"" >"$headers/include/generated/utsrelease.h"
ln -s "$headers" "/lib/modules/$krel/build"
start gpu
wait_ready gpu 240
container_log_has gpu 'compiling driver'
container_log_has gpu 'a stand-in for the compiler'
expect "no set on the host" ls "/var/lib/slipway/modules/$krel"-nvidia-*/set.conf
refute "work left on the host" ls -d /var/lib/slipway/tmp-*
expect "no module in the root" [ -e "/run/nvidia/driver/lib/modules/$krel/updates/nvidia/nvidia.ko" ]
chroot /run/nvidia/driver /usr/sbin/modprobe -n nvidia-drm || fail "modprobe finds no nvidia-drm in the root"
stop_clean gpu
expect_nothing_left
start gpu
wait_ready gpu 120
container_log_has gpu 'compiled before: '
stop_clean gpu
CASE
    [ "$status" -eq 0 ]
}
