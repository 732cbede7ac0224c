#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# A NIC image without modules for the kernel that runs, which has the kit to make them (mode sources). The recipe is a
# stand-in: an emulated processor would compile for an hour, so it gives out the modules that slipway build compiled for this
# kernel (tests/real/nic-build.bats compiles). All else is real: name spaces, the inventory, the kernel's own modules of the
# host, depmod, the load proof, the swap.

load drivers

setup_file() {
    use_guest "$(images_krel)"
    VM_IMAGES=$VM_BUILD/images/nic-sources.ext4
    export VM_IMAGES
    derive_image nic-kit "$images_folder/nic.oci.tar" put_kit
    "$vm_folder/make-images-disk" "$VM_IMAGES" nic="$(image_name nic-kit)"
}

# In the image's root: its modules become what the recipe gives out.
put_kit() {
    local krel kit=$root/usr/lib/slipway/kit
    krel=$(images_krel)
    mkdir -p "$kit/recipes" "$kit/patches" "$kit/source/lib/modules/$krel" "$kit/source/usr/src" "$root/usr/lib/slipway/headers"
    mv "$root/usr/lib/modules/$krel/updates" "$kit/source/lib/modules/$krel/"
    mv "$root/usr/src/ofa_kernel" "$kit/source/usr/src/"
    zstd -dqf "$root/usr/lib/slipway/kernels/$krel/Module.symvers.zst" -o "$root/usr/lib/slipway/headers/Module.symvers"
    rm -rf "$root/usr/lib/modules/$krel" "$root/usr/lib/slipway/kernels/$krel"
    echo 'id=stand-in' >"$kit/kit.conf"
    put_tool
    cat >"$kit/recipes/ofed.sh" <<'RECIPE'
echo "==> a stand-in for the compiler"
[ -f "$SLIPWAY_KERNEL/lib/modules/$SLIPWAY_KREL/build/Module.symvers" ] || exit 1
cp -a "$SLIPWAY_SOURCE/." "$SLIPWAY_OUTPUT/"
echo source=ofed >"$SLIPWAY_OUTPUT/set.conf"
RECIPE
    put_kit_root
}

@test "no modules for this kernel: they are made with the host's headers, proven and loaded; the next start has them with the network off; a damaged set is made anew" {
    run_case <<'CASE'
. /test/drivers.sh
simulate
krel=$(uname -r)
inventory=/var/opt/mofed-container/inventory/.slipway
sources=/run/mellanox/drivers/usr/src/ofa_kernel
headers=/usr/src/linux-headers-$krel
network_off() {
    local link
    for link in /sys/class/net/*; do
        ip link set "${link##*/}" down
    done
    [ -z "$(ip -o link show up)" ] || fail "up is still $(ip -o link show up)"
}
mkdir -p "$headers/include/generated"
cp /images/nic/rootfs/usr/lib/slipway/headers/Module.symvers "$headers/"
printf 'CONFIG_MODULES=y\nCONFIG_MODULE_SIG=y\nCONFIG_CC_IS_GCC=y\nCONFIG_GCC_VERSION=120200\nCONFIG_RETPOLINE=y\nCONFIG_LIVEPATCH=y\nCONFIG_SECURITY_LOCKDOWN_LSM=y\n' >"$headers/.config"
echo "#define UTS_RELEASE \"$krel\"" >"$headers/include/generated/utsrelease.h"
ln -s "$headers" "/lib/modules/$krel/build"

start nic -- precompiled
wait_exit nic 60
container_log nic | grep -q 'NO_MODULES_FOR_KERNEL' || fail "precompiled does not say what is missing"
refute "precompiled compiled" ls -d "$inventory/modules/$krel"-ofed-*

start nic -- sources
wait_ready nic 240
container_log_has nic 'compiling driver'
container_log_has nic 'a stand-in for the compiler'
container_log_has nic 'proof '
expect "no set in the inventory" ls "$inventory/modules/$krel"-ofed-*/set.conf
refute "work left in the inventory" ls -d "$inventory"/tmp-*
loaded mlx5_core || fail "mlx5_core is not loaded"
expect "no symvers for the GPU side" [ -f "$sources/default/Module.symvers" ]
stop_clean nic

network_off
start nic -- sources
wait_ready nic 120
expect "it was not found" container_log_has nic 'compiled before: '
refute "it was compiled" container_log_has nic 'compiling driver'
[ -z "$(ip -o link show up)" ] || fail "somebody has switched the network on"
expect "no symvers for the GPU side" [ -f "$sources/default/Module.symvers" ]
stop_clean nic

echo damage >>"$(ls "$inventory/modules/$krel"-ofed-*/lib/modules/"$krel"/updates/ofed/mlx5_core.ko)"
start nic -- sources
wait_ready nic 240
container_log_has nic 'is damaged (lib/modules/.*mlx5_core.ko was changed): compiling again'
loaded mlx5_core || fail "mlx5_core is not loaded"
stop_clean nic
CASE
    [ "$status" -eq 0 ]
}
