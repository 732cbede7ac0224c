#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Recipe: an mlnx-ofed-kernel tree (MLNX_OFED, DOCA-OFED or the reference OFED) for one kernel.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

tree=$SLIPWAY_WORK/ofed
options=(--with-core-mod --with-user_mad-mod --with-user_access-mod --with-addr_trans-mod
    --with-mlx5-mod --with-mlxfw-mod --with-ipoib-mod)

# A case-folding file system keeps one of the two makefiles; what is left is told apart by its content.
require_both_makefiles() {
    local lost="unpack or check out the source on a case-sensitive file system"
    [[ -f $tree/configure ]] || die "no configure in the source: its top level must be an mlnx-ofed-kernel tree"
    [[ -f $tree/makefile ]] || die "the source has lost 'makefile' (the targets; 'Makefile' is kbuild's): $lost"
    [[ -f $tree/Makefile ]] || die "the source has lost 'Makefile' (kbuild's; 'makefile' has the targets): $lost"
    grep -q '^install_modules:' "$tree/makefile" ||
        die "'makefile' of the source has no target install_modules: it is a copy of kbuild's 'Makefile', so the one with the targets was lost: $lost"
    grep -q '^obj-' "$tree/Makefile" ||
        die "'Makefile' of the source has no obj- lines: it is a copy of 'makefile', so kbuild's was lost: $lost"
}

# 24.07.OFED.24.07.0.6.0.1-1 in debian/changelog is what the vendor calls 24.07-0.6.0.1.
source_version() {
    local full
    full=$(sed -n '1s/^[^(]*(\([^)]*\)).*/\1/p' "$tree/debian/changelog" 2>/dev/null || true)
    [[ -n $full ]] || die "no version in debian/changelog of the source"
    if [[ $full =~ ^([0-9]+\.[0-9]+)\.OFED\.([0-9.]+)-[0-9]+$ && ${BASH_REMATCH[2]} == "${BASH_REMATCH[1]}."* ]]; then
        full=${BASH_REMATCH[1]}-${BASH_REMATCH[2]#"${BASH_REMATCH[1]}."}
    fi
    echo "$full"
}

# Is $1 an option of this source's configure?
knows_option() { grep -qE -- "(^|[^[:alnum:]_-])$1([^[:alnum:]_-]|\$)" "$tree/configure"; }

# NFS and NVMe over RDMA are large, and most nodes have no use for them (ENABLE_NFSRDMA of the network operator).
ask_for_storage() {
    local name missing=()
    [[ ${SLIPWAY_NFSRDMA:-} == yes ]] || return 0
    for name in --with-nfsrdma-mod --with-nvmf_host-mod --with-nvmf_target-mod; do
        if knows_option "$name"; then options+=("$name"); else missing+=("$name"); fi
    done
    ((${#missing[@]} == 0)) || step "this source has no ${missing[*]}: what it lacks of NFS and NVMe over RDMA stays the kernel's own"
}

# Options that somebody adds (APPEND_DRIVER_BUILD_FLAGS). Many that he may have are of install.pl, which nothing here runs.
ask_for_flags() {
    local flag flags
    read -r -a flags <<<"${SLIPWAY_OFED_FLAGS:-}"
    for flag in "${flags[@]}"; do
        if [[ $flag =~ ^--[a-z0-9][A-Za-z0-9_-]*(=.*)?$ ]] && knows_option "${flag%%=*}"; then
            options+=("$flag")
        else
            step "$flag is no option of this source's configure: passed over"
        fi
    done
}

configure_tree() {
    # A checkout gives generated files the time of the checkout: equal, old times stop automake from running again.
    find "$tree/compat" -type f -exec touch -d 2000-01-01 {} +
    if [[ -f $tree/compat/configure.ac && ! -x $tree/compat/configure ]]; then
        step "generate compat/configure, which the source lacks"
        (cd "$tree/compat" && ./autogen.sh)
    fi
    step "configure for $SLIPWAY_KREL"
    # Run by bash: checkouts lose the x bit of this one. Its feature tests call make with the compiler only: what LLVM
    # wants beside that comes by MAKEFLAGS.
    (cd "$tree" && env CC="$SLIPWAY_CC" ${compiler[1]:+MAKEFLAGS="${compiler[*]}"} bash ./configure --kernel-version="$SLIPWAY_KREL" \
        --kernel-sources="$kernel_source" --with-linux-obj="$kernel_build" \
        --modules-dir="/lib/modules/$SLIPWAY_KREL/updates" --with-njobs="$SLIPWAY_JOBS" "${options[@]}")
    [[ -f $tree/configure.mk.kernel && -f $tree/compat/config.h ]] ||
        die "configure ended well but wrote no configure.mk.kernel or no compat/config.h: see the log above"
    # A feature test that cannot compile anything says "no" and nothing else: only the sum of them shows it.
    [[ ! -f $tree/compat/configure.ac ]] || grep -q '^#define HAVE_' "$tree/compat/config.h" ||
        die "no feature test of configure succeeded: the kernel tree or the compiler is broken, see $tree/compat/config.log"
}

compile_tree() {
    step "compile with $SLIPWAY_CC, $SLIPWAY_JOBS at a time"
    make -C "$tree" -f makefile -j"$SLIPWAY_JOBS" "${compiler[@]}" kernel
    step "install modules"
    # The kernel's own signing key is in no header package: signing is a step of its own, after the strip. Kernels that
    # compress their modules would have these compressed before the strip.
    make -C "$tree" -f makefile "${compiler[@]}" CONFIG_MODULE_SIG_ALL= CONFIG_MODULE_COMPRESS_ALL= \
        CONFIG_MODULE_COMPRESS_GZIP= CONFIG_MODULE_COMPRESS_XZ= CONFIG_MODULE_COMPRESS_ZSTD= DEPMOD=true \
        INSTALL_MOD_PATH="$SLIPWAY_WORK/stage" INSTALL_MOD_DIR=updates install_modules
    mapfile -d '' -t built < <(find "$SLIPWAY_WORK/stage" -name '*.ko' -print0 | LC_ALL=C sort -z)
    install_modules_flat ofed "${built[@]}"
}

# What nvidia-peermem and other out-of-tree RDMA modules compile against.
install_headers() {
    local folder=$SLIPWAY_OUTPUT/usr/src/ofa_kernel/$SLIPWAY_ARCH/$SLIPWAY_KREL
    step "install headers and Module.symvers"
    mkdir -p "$folder/compat"
    cp -r --preserve=mode,links "$tree/include" "$folder/"
    cp "$tree/configure.mk.kernel" "$folder/"
    cp "$tree/compat/config.h" "$folder/compat/"
    find "$folder" -type f \( -name '*.o' -o -name '.*.cmd' \) -delete
    # Symbol lines name the module by its path in this container: from the top of the tree says as much.
    # The inbox modules have these very paths in the kernel's own Module.symvers, and modpost takes two modules of one
    # path for one that exports its symbols twice: OFED's get a folder of their own.
    find "$tree" -name 'Module*.symvers' -exec cat {} + | sed "s#\t$tree/#\tofed/#" | LC_ALL=C sort -u \
        >"$folder/Module.symvers"
    ln -s "$SLIPWAY_ARCH/$SLIPWAY_KREL" "$SLIPWAY_OUTPUT/usr/src/ofa_kernel/default"
    [[ -f $folder/include/rdma/peer_mem.h ]] ||
        echo "no include/rdma/peer_mem.h in this source: peer-memory clients bring their own" >&2
    exporter=$(awk '$2 == "ib_register_peer_memory_client" { sub(".*/", "", $3); print $3 }' "$folder/Module.symvers")
}

# bash reads a script while it runs it: in a function, all of it is read before the first step.
main() {
    require_inputs
    require_kernel_tree
    step "copy the source"
    copy_source "$tree"
    require_both_makefiles
    version=$(source_version)
    ask_for_storage
    ask_for_flags
    configure_tree
    compile_tree
    install_headers
    set_conf source=ofed "version=$version" "exporter=$exporter"
    settle_output
    step "OFED $version for $SLIPWAY_KREL: peer memory is exported by ${exporter:-no module}"
}

main; exit
