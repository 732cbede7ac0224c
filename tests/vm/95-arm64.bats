#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# An arm64 kernel on a machine of another architecture: the guest, the simulated devices, cross-compiled modules and
# programs. One boot. A whole run of both images: full/85-arm64.bats.
#
#   VM_ARM64_SET  a folder with usr/bin/slipway-{init,look,probe}, and lib/modules/KREL with modules of it, all for arm64
#                 (default: scripts/cross-programs compiles the programs, and simdev is the module)

load helpers

setup_file() {
    # They are about the other kernel.
    unset VM_KERNEL_TREE VM_KERNEL_DEBS VM_KERNEL_ROOT VM_MODULES
    use_guest "$(newest_krel aarch64)"
    if [ -z "${VM_ARM64_SET:-}" ]; then
        VM_ARM64_SET=$VM_BUILD/programs-aarch64
        "$vm_folder/../../scripts/cross-programs" aarch64 "$VM_ARM64_SET"
    fi
    export VM_ARM64_SET
}

@test "an arm64 machine boots: the simulated devices, modules, and the status of a node" {
    local set=$BATS_TEST_TMPDIR/set
    mkdir "$set"
    cp -r "$VM_ARM64_SET/usr" "$set"
    [ ! -d "$VM_ARM64_SET/lib/modules/$VM_KREL" ] || cp -r "$VM_ARM64_SET/lib" "$set"
    run_case --add "$set" <<'CASE'
# load_from_set NAME: after those of the set that it needs.
load_from_set() {
    local file needed
    ! loaded "$1" || return 0
    file=$(find /case/set/lib -name "$(echo "$1" | sed 's/[-_]/[-_]/g').ko" 2>/dev/null)
    [ -n "$file" ] || { modprobe "$1" && return; }
    for needed in $(modinfo -F depends "$file" | tr , ' '); do
        load_from_set "$needed"
    done
    insmod "$file"
}

[ "$(uname -m)" = aarch64 ] || fail "the machine is a $(uname -m)"
expect "a GPU is there before it is simulated:" test ! -e /sys/bus/pci/devices/0000:40:00.0
simulate
cat /sys/bus/pci/devices/0000:40:00.0/vendor /sys/bus/pci/devices/0000:40:00.0/device
for file in $(find /case/set/lib -name '*.ko' 2>/dev/null); do
    name=$(basename "$file" .ko | tr - _)
    load_from_set "$name"
    expect "$name of the set is not loaded" loaded "$name"
done
# Where a daemon of NVIDIA's looks for its libraries (entrypoint/gpu/daemons.c).
LD_DEBUG=libs LD_LIBRARY_PATH='/usr/$LIB/nvidia/gridd' /usr/bin/crun --version 2>&1 | grep -q '/usr/lib/aarch64-linux-gnu/nvidia/gridd/' ||
    fail "ld.so does not take \$LIB for Debian's folder"
/case/set/usr/bin/slipway-init status --json || echo "status ends with $?"
/case/set/usr/bin/slipway-look topo
/case/set/usr/bin/slipway-probe --headers=no -o /tmp/probe.tar.zst
base64 /tmp/probe.tar.zst | sed 's/^/BUNDLE /'
rmmod simdev
expect "the simulated GPU is still there" test ! -e /sys/bus/pci/devices/0000:40:00.0
CASE
    [ "$status" -eq 0 ]
    [[ $output == *$'0x10de\n0x20b0\n'* ]]
    [[ $output == *"status ends with 1"* ]]
    # slipway-look's; the simulated devices are on one bus.
    grep -E '^best +0000:40:00.0: 0000:40:01.0 \(PHB\)' <<<"$output"
    sed -n 's/^BUNDLE //p' <<<"$output" | base64 -d | tar --zstd -xO probe.json >"$BATS_TEST_TMPDIR/probe"
    jq -e --arg krel "$VM_KREL" '.kernel.release == $krel and .kernel.machine == "aarch64"' "$BATS_TEST_TMPDIR/probe"
    status_json >"$BATS_TEST_TMPDIR/status"
    jq -e --arg krel "$VM_KREL" '.kernel == $krel and .kernel_facts.machine == "aarch64"' "$BATS_TEST_TMPDIR/status"
    [ "$(jq -r '.devices[] | .kind + " " + .address' "$BATS_TEST_TMPDIR/status")" = $'gpu 0000:40:00.0\nnic 0000:40:01.0' ]
}
