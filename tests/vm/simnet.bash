# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# For BATS files about the network state: a node with network cards that the test VM can have, and NIC images whose module
# sets drive them as OFED's drive a ConnectX card. See tests/vm/README.md, "Network cards".
# shellcheck source-path=SCRIPTDIR source=drivers.bash
. "$(dirname "${BASH_SOURCE[0]}")/drivers.bash"

# What these drivers need of the kernel: netdevsim, and igb.
simnet_needs() {
    echo kernel/net/psample/psample.ko
    if [ "${guest:-debian}" = um ]; then
        echo kernel/drivers/ptp/ptp.ko
    else
        echo kernel/drivers/dca/dca.ko kernel/drivers/i2c/algos/i2c-algo-bit.ko
    fi
}

# Makes the guest, the modules, the node's own module tree with netdevsim in it, and the disk of images:
#   nic-1, nic-2   two NIC images, the reference OFED and the drivers netdevsim, igb and igbvf in other builds than the node's
use_simnet() {
    use_guest "$(images_krel)"
    simnet=$VM_BUILD/simnet/$VM_KREL
    export simnet
    if [ "${guest:-debian}" = um ]; then
        "$vm_folder/simnet/make-modules" --um "${VM_KERNEL_ROOT%/root}" "$VM_KREL" "$simnet" inbox simnet-1 simnet-2
    else
        "$vm_folder/simnet/make-modules" --debs "$VM_BUILD/debs" ${VM_KERNEL_TREE:+--kernel-tree "$VM_KERNEL_TREE"} \
            "$VM_KREL" "$simnet" inbox simnet-1 simnet-2
    fi
    make_host_tree
    VM_IMAGES=$VM_BUILD/images/simnet.ext4
    export VM_IMAGES
    derive_image nic-simnet-1 "$images_folder/nic.oci.tar" add_simnet simnet-1
    derive_image nic-simnet-2 "$images_folder/nic.oci.tar" add_simnet simnet-2
    "$vm_folder/make-images-disk" "$VM_IMAGES" nic-1="$(image_name nic-simnet-1)" nic-2="$(image_name nic-simnet-2)"
}

# guest_module FILE TARGET: a file of the guest's /lib/modules/<krel>.
guest_module() {
    debugfs -R "dump /lib/modules/$VM_KREL/$1 $2" "$VM_BUILD/guest/$VM_KREL/system.ext4" 2>/dev/null
    [ -s "$2" ] || { echo "the guest has no $1" >&2 && return 1; }
}

# $simnet/host: what lies over the guest's /lib/modules/<krel>, so that modprobe, and what asks for the inbox drivers,
# finds netdevsim as one of the kernel's own. depmod in the guest would take 20 s a case.
make_host_tree() {
    local lock new modules key
    exec {lock}>"$simnet/.host.lock"
    flock "$lock"
    key=$(cat "$simnet/key" "$VM_BUILD/guest/$VM_KREL/key" && declare -f make_host_tree | sha256sum)
    if [ "$(cat "$simnet/host/key" 2>/dev/null)" != "$key" ]; then
        new=$(mktemp -d "$simnet/.host.XXXXXX")
        debugfs -R "rdump /lib/modules $new" "$VM_BUILD/guest/$VM_KREL/system.ext4" 2>/dev/null
        modules=$new/lib/modules/$VM_KREL
        mkdir "$new/lib"
        mv "$new/modules" "$new/lib/modules"
        install -D -m 644 "$simnet/inbox/netdevsim.ko" "$modules/kernel/drivers/net/netdevsim/netdevsim.ko"
        /usr/sbin/depmod -b "$new" "$VM_KREL"
        rm -rf "$simnet/host"
        install -D -m 644 "$simnet/inbox/netdevsim.ko" "$simnet/host/kernel/drivers/net/netdevsim/netdevsim.ko"
        mv "$modules"/modules.* "$simnet/host/"
        rm -rf "$new"
        echo "$key" >"$simnet/host/key"
    fi
    exec {lock}>&-
}

# The image says itself which modules its set loads: image.conf, of the image and of the kernel.
add_simnet() {
    local modules=$root/usr/lib/modules/$VM_KREL facts=$root/usr/lib/slipway/kernels/$VM_KREL igb=' igb igbvf' file
    [ "${guest:-debian}" = debian ] || igb=
    for file in "$simnet/$1"/*.ko; do
        install -m 644 "$file" "$modules/updates/ofed/"
    done
    for file in $(simnet_needs); do
        mkdir -p "$(dirname "$modules/$file")"
        guest_module "$file" "$modules/$file"
    done
    /usr/sbin/depmod -b "$root" "$VM_KREL"
    # What the image knows of the symbols that its set uses is for its own set: the whole list is there, too.
    rm -f "$facts/used.symvers"
    for file in "$root/etc/slipway/image.conf" "$facts/image.conf"; do
        sed -i -e '/^modules=/d' -e "s/^set=.*/set=$1/" -e "s/^version=.*/&-$1/" "$file"
        echo "modules=ib_uverbs ib_umad rdma_ucm ib_ipoib rdma_cm netdevsim$igb" >>"$file"
    done
}

# run_simnet [OPTION of run-vm…] <CASE: a case on a node with such cards; simnet/case.sh says what it can say more.
run_simnet() {
    run_case --add "$vm_folder/simnet/case.sh:simnet.sh" --add "$simnet/host" "$@"
}

# Debian 13's QEMU, for run_simnet --pf N.
use_igb() {
    "$vm_folder/make-qemu" "$VM_BUILD/qemu-$this_machine" "$this_machine"
}
