#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# The load proof on the node: what it finds out about the kernel that runs, and that it comes before anything is
# unloaded or loaded.

load drivers

facts=usr/lib/slipway/kernels

# As if the image had been made for another build of the kernel: its name, and CRCs that our modules do not have.
other_crcs() {
    local folder
    folder=$root/$facts/$(images_krel)
    sed -i 's/^build=.*/build=#1 SMP PREEMPT_DYNAMIC Debian 6.1.999-1 (2020-02-02)/' "$folder/kernel.conf"
    zstd -qdc "$folder/Module.symvers.zst" | sed -E 's/^0x[0-9a-f]{8}\t(module_layout|_printk|kfree)\t/0xdeadbeef\t\1\t/' |
        zstd -q >"$folder/new"
    [ "$(zstd -qdc "$folder/new" | grep -c '^0xdeadbeef')" -eq 3 ]
    mv "$folder/new" "$folder/Module.symvers.zst"
    # The part of it that a start reads.
    sed -E -i 's/^0x[0-9a-f]{8}\t(module_layout|_printk|kfree)\t/0xdeadbeef\t\1\t/' "$folder/used.symvers"
    [ "$(grep -c '^0xdeadbeef' "$folder/used.symvers")" -ge 2 ]
}

# Another build with the CRCs of this one: what distributions do within one name.
other_build() {
    sed -i 's/^build=.*/build=#1 SMP PREEMPT_DYNAMIC Debian 6.1.192-1 (2020-02-02)/' "$root/$facts/$(images_krel)/kernel.conf"
}

# An OFED whose ib_core is not the kernel's: one CRC of it is another one, in ib_core and in all of its own that use it.
other_core() {
    local folder crc
    folder=$root/usr/lib/modules/$(images_krel)/updates/ofed
    crc=$(modprobe --dump-modversions "$folder/ib_ipoib.ko" | awk '$2 == "__ib_alloc_pd" { print $1 }')
    [[ $crc == 0x* ]]
    # shellcheck disable=SC2016 # perl expands it
    perl -0777 -pi -e 'BEGIN { $from = pack("V", hex(shift)); $to = pack("V", 0xdeadbeef) } s/\Q$from\E/$to/g' "$crc" "$folder"/*.ko
    [ "$(modprobe --dump-modversions "$folder/ib_ipoib.ko" | awk '$2 == "__ib_alloc_pd" { print $1 }')" = 0xdeadbeef ]
    LC_ALL=C grep -qaP '\xef\xbe\xad\xde' "$folder/ib_core.ko"
}

no_facts() {
    rm -r "${root:?}/$facts"
}

setup_file() {
    [ -f "$images_folder/images.json" ] || {
        echo "no images in $images_folder: run make images" >&2
        return 1
    }
    local nic=$images_folder/nic.oci.tar
    use_guest "$(images_krel)"
    derive_image nic-other-crcs "$nic" other_crcs
    derive_image nic-other-build "$nic" other_build
    derive_image nic-other-core "$nic" other_core
    derive_image nic-no-facts "$nic" no_facts
    use_images gpu="$images_folder/gpu.oci.tar" nic="$nic" nic-other="$images_folder/other/nic.oci.tar" \
        nic-other-crcs="$(image_name nic-other-crcs)" nic-other-build="$(image_name nic-other-build)" \
        nic-other-core="$(image_name nic-other-core)" nic-no-facts="$(image_name nic-no-facts)"
}

# What a case says on top of drivers.sh: what the inbox driver is, in a way that a reload would change.
# shellcheck disable=SC2016 # the guest's shell expands it
inbox='
. /test/drivers.sh
inbox() { ls -di /sys/module/mlx5_core /sys/module/mlx5_ib /sys/module/ib_core; cut -d" " -f1,2,6 /proc/modules | grep -E "^(mlx5|ib_)"; }
untouched() { [ "$(inbox)" = "$before" ] || fail "the inbox driver was touched: $(inbox), it was: $before"; }
refused() { start "$1"; exits nic "$2" 90; termination_message nic; untouched; refute "something was unloaded" container_log_has nic " s  unloaded "; }
host_load mlx5_ib
before=$(inbox)
'

@test "signatures enforced, unsigned modules: refused before the inbox driver goes" {
    run_case --append module.sig_enforce=1 <<<"$inbox"'
refused nic 21
cat /run/mellanox/drivers/slipway/nic.status
grep "\"event\":\"proof\"" /run/mellanox/drivers/slipway/nic.events.jsonl
'
    [ "$status" -eq 0 ]
    [[ $output == *"SIGNATURE_REFUSED: "*": unsigned, and the kernel loads only modules that it trusts (module.sig_enforce): sign it"* ]]
    [[ $output == *"proof="*"unsigned"*" ms)"* ]]
    [[ $output == *'"event":"proof","step":"prove"'*"unsigned"* ]]
}

@test "a locked-down kernel, unsigned modules: refused before the inbox driver goes, and lockdown is named" {
    run_case --append "lockdown=integrity" <<<"$inbox"'
refute "no securityfs is mounted in a container" test -e /sys/kernel/security/lockdown
refused nic 21
mount --rbind /proc /images/nic/rootfs/proc
mount --rbind /sys /images/nic/rootfs/sys
chroot /images/nic/rootfs slipway-init status --json >/tmp/status || true
grep -q signatures_forced.:true /tmp/status || fail "status does not say that signatures are enforced"
'
    [ "$status" -eq 0 ]
    [[ $output == *"SIGNATURE_REFUSED: "*"(lockdown=integrity)"* ]]
}

# shellcheck disable=SC2016 # likewise
@test "another build of the kernel: by its own modules, what they cannot vouch for is refused where a driver works" {
    run_case <<<"$inbox"'
refused nic:nic-other-crcs 22
refused nic:nic-no-facts 23
refused nic:nic-other-build 22
echo "storage"
host_load rpcrdma
start nic:nic-other-core UNLOAD_STORAGE_MODULES=true
exits nic 15 90
termination_message nic
loaded rpcrdma || fail "rpcrdma is gone"
refute "something was unloaded" container_log_has nic " s  unloaded "
start nic:nic-other-core UNLOAD_STORAGE_MODULES=true SLIPWAY_ALLOW_MODULE_LOSS=true
wait_ready nic 90
expect_unloaded rpcrdma
stop_clean nic
loaded rpcrdma || fail "rpcrdma has not come back with the node'"'"'s own core"
modprobe -r rpcrdma
echo "the right one"
start nic
wait_ready nic 90
exec_in nic slipway-init status | grep "load proof"
exec_in nic slipway-init status --json
stop_clean nic
expect_loaded mlx5_ib mlx5_core
modprobe -r mlx5_ib
for module in iw_cm ib_cm ib_core mlxfw; do ! loaded $module || rmmod $module; done
expect_unloaded mlx5_core ib_core mlxfw
echo "nothing in the way"
start nic:nic-no-facts
wait_ready nic 90
container_log nic | grep "proof prove"
stop_clean nic
'
    [ "$status" -eq 0 ]
    [[ $output == *"KERNEL_REBUILT: the running kernel is not the build of $VM_KREL that the modules were compiled for: it loaded "*" with CRC 0x"*"Module.symvers has 0xdeadbeef"* ]]
    [[ $output == *"CANNOT_TELL: cannot tell whether the modules will load: this image has no Module.symvers of the kernel: a working driver would have to be unloaded first"* ]]
    # What the kernel's own modules use is known; of the rest nobody knows the CRC.
    [[ $output =~ KERNEL_REBUILT:\ the\ running\ $VM_KREL\ is\ another\ build\ .*no\ loaded\ module\ confirms\ ([0-9]+)\ of\ ([0-9]+)\ symbols ]]
    ((BASH_REMATCH[1] * 10 < BASH_REMATCH[2]))
    [[ $output == *"storage"*"WILL_NOT_LOAD: nothing was touched: modules that the node uses would not come back. rpcrdma: built for __ib_alloc_pd CRC 0x"*"slipway build --nfsrdma"*"SLIPWAY_ALLOW_MODULE_LOSS=true accepts the loss"* ]]
    [[ $output == *"the right one"*"load proof: "*" modules will load ("*" ms)"* ]]
    [[ $output == *'"proof":"'*' modules will load ('* ]]
    [[ $output == *"nothing in the way"*"cannot tell whether the modules will load: this image has no Module.symvers"*"the kernel will decide"* ]]
}

@test "OFED that only the host has is told by its build id, and its file says which CRC it exports" {
    run_case <<'CASE'
. /test/drivers.sh
tree=/lib/modules/$(uname -r)/updates
simulate
cp -r "/images/nic-other/rootfs$tree" "$tree"
modprobe -d /images/nic-other/rootfs -a ib_uverbs rdma_cm
start gpu GPU_DIRECT_RDMA_ENABLED=true USE_HOST_MOFED=true
exits gpu 14 60
termination_message gpu
expect_unloaded nvidia nvidia_peermem
modprobe -d /images/nic-other/rootfs -r rdma_cm ib_uverbs
expect_unloaded ib_core ib_uverbs
rm -r "$tree"
echo "the right one"
cp -r "/images/nic/rootfs$tree" "$tree"
modprobe -d /images/nic/rootfs -a ib_uverbs rdma_cm
start gpu GPU_DIRECT_RDMA_ENABLED=true USE_HOST_MOFED=true
wait_ready gpu 90
container_log gpu | grep 'proof prove'
expect_loaded nvidia_peermem
stop_clean gpu
CASE
    [ "$status" -eq 0 ]
    [[ $output =~ PEERMEM_OTHER_OFED:\ nvidia_peermem:\ built\ for\ ib_register_peer_memory_client\ CRC\ (0x[0-9a-f]{8}).*"ib_uverbs exports "(0x[0-9a-f]{8}) ]]
    [ "${BASH_REMATCH[1]}" != "${BASH_REMATCH[2]}" ]
    # In verify's words, which are build's: 25-verify has that both agree, and that the right ones load.
    finding=$("$(dirname "$images_folder")/slipway" verify "$images_folder/other/nic.oci.tar" "$images_folder/gpu.oci.tar" --kernel "$VM_KREL" --json |
        jq -r '[.modules[].findings[] | select(.symbol == "ib_register_peer_memory_client")][0].text')
    [[ $output == *"PEERMEM_OTHER_OFED: $finding ("* ]]
    [[ $output == *"the right one"*" modules will load ("* ]]
}

@test "OFED whose files are gone: it is named, the kernel judges, and what the proof said stands behind the failure" {
    run_case <<'CASE'
. /test/drivers.sh
simulate
modprobe -d /images/nic/rootfs -a ib_uverbs rdma_cm
start gpu GPU_DIRECT_RDMA_ENABLED=true USE_HOST_MOFED=true
wait_ready gpu 90
container_log gpu | grep 'proof prove'
expect_loaded nvidia_peermem
stop_clean gpu
modprobe -d /images/nic/rootfs -r rdma_cm ib_uverbs
echo "the wrong one"
modprobe -d /images/nic-other/rootfs -a ib_uverbs rdma_cm
start gpu GPU_DIRECT_RDMA_ENABLED=true USE_HOST_MOFED=true
exits gpu 17 60
termination_message gpu
expect_unloaded nvidia nvidia_peermem
CASE
    [ "$status" -eq 0 ]
    [[ $output == *"cannot tell whether the modules will load: "*"ib_register_peer_memory_client"*"ib_uverbs"*"the kernel will decide"*"the wrong one"* ]]
    [[ $output == *"loaded from files that are no longer on the node: ib_uverbs"* ]]
    [[ $output == *"the wrong one"*"LOAD_FAILED: nvidia_peermem: "*"; load proof: cannot tell"* ]]
}
