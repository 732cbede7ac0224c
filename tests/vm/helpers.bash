# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# For BATS files that run something in the test VM. In a file:
#
#   load helpers
#   setup_file() { use_guest; use_images gpu=IMAGE nic=IMAGE; }
#   @test "…" {
#       run_case <<'CASE'
#       simulate
#       start gpu
#   CASE
#       [ "$status" -eq 0 ]
#   }
#
# Variables that the caller of BATS may set:
#   VM_KREL         kernel release (default: the newest that apt knows for this machine)
#   VM_KERNEL_TREE  its unpacked headers (default: make-guest downloads them)
#   VM_KERNEL_DEBS  its packages that hold boot image and modules, one a line (default: likewise)
#   VM_KERNEL_ROOT  instead of them: a folder with boot/ and lib/modules/ of it
#   VM_MODULES      a folder with simdev.ko and pin.ko for it (default: make-guest compiles them)
#   VM_BOOT         1: every case boots its machine; no one goes on from a saved one
#   VM_TIMELINE     1: each line of a console comes with its time, see run-vm --timeline
#   VM_TIMEOUT      seconds that a case may take, booting included (default: 3600)
#   VM_BUILD        where guests, disks and logs are kept (default: vm in the build folder, O)
#   VM_GUEST        debian: all cases run on Debian's own kernel; um: those that can run in User Mode Linux do (default: um
#                   where its kernel has been made: make um)

vm_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=machine.bash
. "$vm_folder/machine.bash"
VM_BUILD=${VM_BUILD:-$(cd "$vm_folder/../.." && realpath -m "${O:-build}")/vm}
export VM_BUILD

# newest_krel MACHINE: the release that the kernel's meta package stands for.
newest_krel() {
    use_machine "$1"
    use_apt
    apt-cache depends "linux-image-${machine[debian]}" | sed -n 's/^ *Depends: linux-image-\([0-9]\)/\1/p' | head -n 1
}

# use_guest [KREL]: makes the guest unless it is there.
use_guest() {
    VM_KREL=${1:-${VM_KREL:-$(newest_krel "$this_machine")}}
    export VM_KREL
    [ -n "$VM_KREL" ] || {
        echo "no kernel release: run apt-get update, or set VM_KREL" >&2
        return 1
    }
    local options=() deb
    while read -r deb; do
        [ -z "$deb" ] || options+=(--kernel-deb "$deb")
    done <<<"${VM_KERNEL_DEBS:-}"
    [ -z "${VM_KERNEL_TREE:-}" ] || options+=(--kernel-tree "$VM_KERNEL_TREE")
    [ -z "${VM_KERNEL_ROOT:-}" ] || options+=(--kernel-root "$VM_KERNEL_ROOT")
    [ -z "${VM_MODULES:-}" ] || options+=(--modules "$VM_MODULES")
    "$vm_folder/make-guest" --build "$VM_BUILD" "${options[@]}" "$VM_KREL"
}

um_kernel() {
    "$vm_folder/um/make-um-kernel" --build "$VM_BUILD" --slipway "$(cd "$vm_folder/../.." && realpath -m "${O:-build}")/slipway" "$@"
}

# A file with the line "# needs: any kernel" runs in User Mode Linux (um/), which takes a third of the time and less. Its cases
# with the tag pci need cards and run on Debian's own kernel, and so does one whole case of each file, with the tag core.
guests() {
    if [ "${VM_GUEST:-}" = debian ] || ! grep -qx '# needs: any kernel' "$BATS_TEST_FILENAME"; then
        echo debian
        return
    fi
    [ "${VM_GUEST:-}" = um ] || um_kernel --cached >/dev/null || { echo debian && return; }
    ! grep -qE '^# bats test_tags=(.*,)?(pci|core)(,|$)' "$BATS_TEST_FILENAME" || echo debian
    echo um
}

# The variables that tell cases which guest they run in.
guest_variables="VM_BUILD VM_KREL VM_IMAGES VM_KERNEL_TREE VM_KERNEL_ROOT images_folder image_prefix simnet"

# in_each_guest COMMAND…: in setup_file, what makes guest, images and modules for the cases, in each guest that they run in.
in_each_guest() {
    local guest variable
    # No || after the subshell: it would switch off set -e inside.
    for guest in $(guests); do
        (
            [ "$guest" = debian ] || use_um
            "$@"
            for variable in $guest_variables; do
                [ -z "${!variable:-}" ] || printf 'export %s=%q\n' "$variable" "${!variable}"
            done >"$BATS_FILE_TMPDIR/guest-$guest"
        )
    done
}

# User Mode Linux is a custom kernel, for which Slipway makes the NIC images as for any other.
use_um() {
    local build kernel
    build=$(cd "$vm_folder/../.." && realpath -m "${O:-build}")
    kernel=$(um_kernel)
    images_folder=$build/images-um
    "$vm_folder/um/make-um-images" --kernel "$kernel" --slipway "$build/slipway" "$images_folder"
    VM_KREL=$(cat "$kernel/krel")
    VM_BUILD=$VM_BUILD/um
    VM_KERNEL_ROOT=$kernel/root
    VM_KERNEL_TREE=$VM_BUILD/headers
    mkdir -p "$VM_KERNEL_TREE/lib/modules/$VM_KREL"
    ln -sfn ../debs "$VM_BUILD/debs"
    ln -sfn "$kernel/tree" "$VM_KERNEL_TREE/lib/modules/$VM_KREL/build"
    export VM_BUILD VM_KREL VM_KERNEL_ROOT VM_KERNEL_TREE image_prefix=um-
}

# The guest of a case: Bats 1.8 tells a case its name, not its tags.
setup() {
    guest=debian
    [ ! -e "$BATS_FILE_TMPDIR/guest-um" ] || grep -F -B1 "@test \"$BATS_TEST_DESCRIPTION\"" "$BATS_TEST_FILENAME" |
        grep -qE '^# bats test_tags=(.*,)?(pci|core)(,|$)' || guest=um
    # shellcheck disable=SC1090
    [ ! -e "$BATS_FILE_TMPDIR/guest-$guest" ] || . "$BATS_FILE_TMPDIR/guest-$guest"
}

# use_images NAME=IMAGE…: makes the disk of this BATS file unless it is there.
use_images() {
    VM_IMAGES=$VM_BUILD/images/$(basename "${BATS_TEST_FILENAME%.bats}").ext4
    export VM_IMAGES
    "$vm_folder/make-images-disk" "$VM_IMAGES" "$@"
}

# run_case [OPTION of run-vm…] <SCRIPT: starts a machine, runs the script, leaves the console in $output and the
# script's exit code in $status.
run_case() {
    local script=$BATS_TEST_TMPDIR/case
    cat >"$script"
    # One that was given its own file as input, say.
    [ -s "$script" ] || { echo "the case is empty" >&2 && return 1; }
    run "$vm_folder/run-vm" --build "$VM_BUILD" --timeout "${VM_TIMEOUT:-3600}" ${VM_IMAGES:+--images "$VM_IMAGES"} "$@" "$VM_KREL" "$script"
    if [ "$status" -ne 0 ]; then
        echo "case exit $status; the end of the console:"
        printf '%s\n' "${lines[@]}" | tail -n 120
    fi
}

# startup_probe: the file of the GPU operator's startup probe, taken from its manifest where that is beside the checkout, else
# from ours, for `run_case --add "$(startup_probe)"`.
startup_probe() {
    local script=$BATS_FILE_TMPDIR/startup-probe.sh manifest=$vm_folder/../../../shared/operator-manifests/driver-rdma.yaml
    [ -e "$manifest" ] || manifest=$vm_folder/podman/gpu-startup-probe.yaml
    awk '/^  startup-probe.sh: /{ take = 1; next } /^kind:/{ take = 0 } take { sub(/^    /, ""); print }' "$manifest" >"$script"
    echo "$script"
}

# The JSON object that the case printed: slipway-init status --json.
status_json() {
    printf '%s\n' "${lines[@]}" | grep '^{"kernel"' | tail -n 1
}
