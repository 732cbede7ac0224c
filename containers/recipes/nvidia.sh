#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Recipe: NVIDIA's kernel modules for one kernel, nvidia-peermem bound to the OFED in $SLIPWAY_OFED. Which kind the source
# is of is found out; $SLIPWAY_KERNEL_MODULE_TYPE, "open" or "proprietary", is the one that it has to be, where it is set.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

tree=$SLIPWAY_WORK/nvidia

# Sets kind, by the licence that nvidia.ko declares.
find_kind() {
    kind=proprietary
    ! grep -qs '^ *MODULE_LICENSE("Dual MIT/GPL")' "$modules"/nvidia/*.c || kind=open
    [[ ${SLIPWAY_KERNEL_MODULE_TYPE:-$kind} == "$kind" ]] ||
        die "--kernel-module-type $SLIPWAY_KERNEL_MODULE_TYPE: this source has the $kind modules only"
}

source_version() {
    local found
    found=$(sed -n 's/.*NV_VERSION_STRING=\\"\([0-9.]*\)\\".*/\1/p' "$modules/Kbuild" | head -n 1)
    [[ -n $found ]] || die "no NV_VERSION_STRING in Kbuild of the source"
    echo "$found"
}

bind_ofed() {
    ofed_symvers=
    ofed_version=
    ofed_exporter=
    [[ -n ${SLIPWAY_OFED:-} ]] || return 0
    require_ofed
    [[ -n $ofed_exporter ]] ||
        die "OFED $ofed_version exports no ib_register_peer_memory_client: nvidia-peermem cannot be bound to it; name an OFED that has the peer-memory interface, or build the GPU image without --ofed"
    require_peer_memory
}

compile_modules() {
    use_ccache
    step "compile with $target_cc, $SLIPWAY_JOBS at a time"
    # SYSSRC and SYSOUT by their real paths: the tree below lib/modules is links.
    # The compiler is chosen by what the kernel says of itself, and kernels for real time come here only by --force:
    # slipway lint has judged both, with more evidence than NVIDIA's own checks have.
    export IGNORE_CC_MISMATCH=1 IGNORE_PREEMPT_RT_PRESENCE=1
    add_binutils
    make_modules -C "$modules" -j"$SLIPWAY_JOBS" "${compiler[@]}" SYSSRC="$(readlink -f "$kernel_source")" \
        SYSOUT="$(readlink -f "$kernel_build")" ${ofed_symvers:+KBUILD_EXTRA_SYMBOLS="$ofed_symvers"} modules
}

# A nvidia-peermem without the peer symbols builds well, and then refuses to load on every node.
check_peermem() {
    local file=$modules/nvidia-peermem.ko
    peermem=
    # Drivers before R470.
    if [[ ! -d $modules/nvidia-peermem ]]; then
        step "this driver has no nvidia-peermem"
        return
    fi
    [[ -f $file ]] || die "the build left no nvidia-peermem.ko"
    if ! nm --undefined-only "$file" | grep -qw ib_register_peer_memory_client; then
        [[ -z $ofed_symvers ]] ||
            die "nvidia-peermem came out without the peer-memory symbols although OFED $ofed_version exports them from $ofed_exporter: its conftest did not see $ofed_symvers"
        step "no OFED was given and this kernel exports no peer-memory interface: nvidia-peermem is left out"
        rm "$file"
        return
    fi
    peermem=1
    [[ -n $ofed_symvers ]] || return 0
    [[ ",$(modinfo -F depends "$file")," == *",$ofed_exporter,"* ]] ||
        die "nvidia-peermem depends on '$(modinfo -F depends "$file")', not on $ofed_exporter"
    check_crcs "$file" "$ofed_symvers" "OFED $ofed_version"
    step "nvidia-peermem is bound to $ofed_exporter of OFED $ofed_version"
}

# What GPUDirect Storage and GDRCopy compile against.
install_headers() {
    local folder=$SLIPWAY_OUTPUT/usr/src/nvidia-$version file
    step "install headers and Module.symvers"
    mkdir -p "$folder/nvidia"
    (cd "$modules" && find . \( -path './common/*' -o -path ./nvidia/nv-p2p.h -o -path './nvidia-peermem/*' \) -name '*.h' \
        -print0 | LC_ALL=C sort -z |
        xargs -0 cp --parents --preserve=mode -t "$folder")
    file=$modules/Module.symvers
    [[ -f $file ]] || die "the build left no Module.symvers"
    sed "s#\t$modules/#\t#" "$file" | LC_ALL=C sort -u >"$folder/Module.symvers"
}

# On a node: what a kit has beside the driver that is bound to it. The driver is worth having without one that fails; the
# next start has the set as its output, and tries that one again.
compile_addons() {
    local folder name work
    for folder in "${SLIPWAY_ADDONS:-/nowhere}"/*/; do
        [[ -d $folder ]] || continue
        name=$(basename "$folder")
        [[ ! -d $SLIPWAY_OUTPUT/lib/modules/$SLIPWAY_KREL/updates/$name ]] || continue
        work=$SLIPWAY_WORK/$name
        mkdir -p "$work/work" "$work/output"
        env SLIPWAY_SOURCE="$folder/source" SLIPWAY_PATCHES="$folder/patches" SLIPWAY_NVIDIA="$SLIPWAY_OUTPUT" \
            SLIPWAY_WORK="$work/work" SLIPWAY_OUTPUT="$work/output" \
            bash "$(dirname "$(readlink -f "$0")")/$name.sh" || {
            step "WARNING: $name was not compiled: the log has why"
            continue
        }
        cp -a "$work/output/lib" "$SLIPWAY_OUTPUT/"
    done
}

# bash reads a script while it runs it: in a function, all of it is read before the first step.
main() {
    require_inputs
    require_kernel_tree
    if [[ -f $SLIPWAY_OUTPUT/set.conf ]]; then
        compile_addons
        settle_output
        return
    fi
    step "copy the source"
    copy_source "$tree"
    find_nvidia "$tree"
    find_kind
    version=$(source_version)
    apply_patches "$modules"
    bind_ofed
    compile_modules
    check_peermem
    install_modules_flat nvidia "$modules"/*.ko
    install_headers
    set_conf source=nvidia "version=$version" "kernel_module_type=$kind" "peermem=${peermem:+yes}" "ofed_version=$ofed_version" \
        "ofed_exporter=$ofed_exporter" "fixes=${fixes[*]}"
    compile_addons
    settle_output
    step "NVIDIA $version for $SLIPWAY_KREL, $kind modules"
}

main; exit
