# shellcheck shell=bash disable=SC2034,SC2154
# SPDX-License-Identifier: Apache-2.0
# What the BATS files of this folder share. SLIPWAY is the program under test.

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
SLIPWAY=${SLIPWAY:-$(realpath -m "$repository/${O:-build}/slipway")}
[[ ${O:-build} != /* ]] || SLIPWAY=$(realpath -m "$O/slipway")

# run_slipway CODE ARGUMENT…: runs it with a cache of the test's own, and wants this exit code.
run_slipway() {
    local code=$1
    shift
    run env SLIPWAY_DATADIR="${SLIPWAY_DATADIR:-$repository}" SLIPWAY_CACHE="$BATS_TEST_TMPDIR/cache" "$SLIPWAY" "$@"
    echo "slipway $* -> $status"
    echo "$output"
    [ "$status" -eq "$code" ]
}

# own_storage FOLDER: images lie there, and not in the storage of this machine, whose images `cache prune --all` would remove.
own_storage() {
    printf '%s\n' '[storage]' 'driver = "vfs"' "graphroot = \"$1/storage\"" "runroot = \"$1/run\"" >"$1/storage.conf"
    export CONTAINERS_STORAGE_CONF=$1/storage.conf BUILDAH_ISOLATION=chroot
}

# help_of VERB: with what --help folds.
help_of() {
    "$SLIPWAY" "$1" --help-all 2>/dev/null || "$SLIPWAY" "$1" --help
}

# says TEXT…: the output holds each of them.
says() {
    local text
    for text in "$@"; do
        [[ $output == *"$text"* ]] || {
            echo "the output does not say: $text"
            return 1
        }
    done
}

# path_without PROGRAM…: prints a PATH with all programs of this machine but these.
path_without() {
    local folder=$BATS_TEST_TMPDIR/without-$1
    mkdir "$folder"
    ln -sf /usr/sbin/* /usr/bin/* "$folder"
    (cd "$folder" && rm -f -- "$@")
    echo "$folder"
}

# What a build asks for before it begins, as programs that fail: $stubs is a PATH with nothing else. Prefix "${as_root[@]}"
# where the tests are not root's.
stub_programs() {
    local name
    stubs=$BATS_TEST_TMPDIR/stubs as_root=()
    ((EUID == 0)) || as_root=(unshare --user --map-root-user)
    mkdir -p "$stubs"
    for name in buildah mmdebstrap dnf rpm gpgv depmod; do
        echo '#!/bin/false' >"$stubs/$name"
        chmod +x "$stubs/$name"
    done
}

# A tree that looks like an mlnx-ofed-kernel source as far as its top level goes.
make_ofed() {
    mkdir -p "$BATS_TEST_TMPDIR/ofed"
    touch "$BATS_TEST_TMPDIR/ofed"/{configure,makefile,Makefile}
}

# A GPU image's two sources as far as the shape of folders goes: $BATS_TEST_TMPDIR/nvidia and, of no particular version,
# $BATS_TEST_TMPDIR/userspace.
make_gpu_sources() {
    mkdir -p "$BATS_TEST_TMPDIR/nvidia/kernel-open" "$BATS_TEST_TMPDIR/userspace/firmware"
    touch "$BATS_TEST_TMPDIR"/userspace/{libnvidia-ml.so.1.0,libcuda.so.1.0,nvidia-smi,firmware/gsp.bin}
}
