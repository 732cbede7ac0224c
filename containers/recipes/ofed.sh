#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Recipe: an mlnx-ofed-kernel tree (MLNX_OFED, DOCA-OFED or the reference OFED) for one kernel.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"
# shellcheck source-path=SCRIPTDIR source=ofed-tree.sh
. "$(dirname "$(readlink -f "$0")")/ofed-tree.sh"

# 24.07.OFED.24.07.0.6.0.1-1 in debian/changelog is what the vendor calls 24.07-0.6.0.1, and 5.9-OFED.5.9.0.5.5.1 5.9-0.5.5.1.
source_version() {
    local full
    full=$(sed -n '1s/^[^(]*(\([^)]*\)).*/\1/p' "$tree/debian/changelog" 2>/dev/null || true)
    [[ -n $full ]] || die "no version in debian/changelog of the source"
    if [[ $full =~ ^([0-9]+\.[0-9]+)[.-]OFED\.([0-9.]+)(-[0-9]+)?$ && ${BASH_REMATCH[2]} == "${BASH_REMATCH[1]}."* ]]; then
        full=${BASH_REMATCH[1]}-${BASH_REMATCH[2]#"${BASH_REMATCH[1]}."}
    fi
    echo "$full"
}

# Is Linux $1 older than $2?
older() { [[ $1 != "$2" && $(printf '%s\n' "$1" "$2" | sort -V | head -n 1) == "$1" ]]; }

# Which Linux a release was made of, oldest first: the commit in its LINUX_BASE_BRANCH, that commit's Linux, the release.
bases='d1fdb6d8f6a4 5.2 4.9
754e0b0e3560 5.17 5.8
80e78fcce86d 6.0 5.9
e8d018dd0257 6.3 23.10
ce9ecca0238b 6.6 24.04
39cd87c4eb2b 6.9 24.07
b4432656b36e 6.15 25.10'

# Where a source does not compile that is older than the kernel: which one to try.
suggest_release() {
    local kernel commit linux release base='' other=''
    kernel=$(cut -d. -f1,2 <<<"$SLIPWAY_KREL")
    while read -r commit linux release; do
        [[ $(cut -c1-12 "$tree/LINUX_BASE_BRANCH" 2>/dev/null) != "$commit" ]] || base=$linux
        [[ $other ]] && ! older "${other##* }" "$kernel" || other="OFED $release of $linux"
    done <<<"$bases"
    [[ ! $base ]] || older "$base" "$kernel" || return 0
    echo "try: a newer OFED, or an older kernel: it is $kernel, this source was made of Linux ${base:-of unknown version}, $other"
}

# Its NVMe, which takes in the driver of local disks, fits fewer kernels than the rest.
suggest_without_nvme() {
    [[ ${SLIPWAY_NFSRDMA:-} == yes && -d $tree/drivers/nvme/host && ! -e $tree/drivers/nvme/host/nvme.ko ]] || return 0
    echo "try: --ofed-flag=--with-nfsrdma-mod in place of --nfsrdma, which leaves out NVMe, if that is what does not compile"
}

compile_tree() {
    use_ccache
    step "compile with $target_cc, $SLIPWAY_JOBS at a time"
    make_modules -C "$tree" -f makefile -j"$SLIPWAY_JOBS" "${compiler[@]}" kernel || {
        suggest_release
        suggest_without_nvme
        exit 1
    }
    step "install modules"
    # The kernel's own signing key is in no header package: signing is a step of its own, after the strip. Kernels that
    # compress their modules would have these compressed before the strip.
    make -C "$tree" -f makefile "${compiler[@]}" CONFIG_MODULE_SIG_ALL= CONFIG_MODULE_COMPRESS_ALL= \
        CONFIG_MODULE_COMPRESS_GZIP= CONFIG_MODULE_COMPRESS_XZ= CONFIG_MODULE_COMPRESS_ZSTD= DEPMOD=true \
        INSTALL_MOD_PATH="$SLIPWAY_WORK/stage" INSTALL_MOD_DIR=updates install_modules
    # Beside its NVMe an OFED makes empty modules of these names, for they need the kernel's NVMe: a node's own are better.
    mapfile -d '' -t built < <(find "$SLIPWAY_WORK/stage" -name '*.ko' ! -name qla2xxx.ko ! -name tcm_qla2xxx.ko -print0 |
        LC_ALL=C sort -z)
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

# Sets inbox_only: the options that the kernel's own mlx5 drivers have on, by its configuration, and these have not. One
# that is a module of its own is there if the module is; of the others configure.mk.kernel says it, and an option that this
# OFED's configure does not know is the kernel's for kbuild, where the source asks for it at all.
find_inbox_only() {
    local config=$kernel_build/.config name module names=()
    [[ -f $config ]] || config=$kernel_build/include/config/auto.conf
    while IFS='=' read -r name _; do
        case $name in
            CONFIG_MLX5_VDPA*) module=mlx5_vdpa ;;
            CONFIG_MLX5_DPLL) module=mlx5_dpll ;;
            CONFIG_MLX5_VFIO_PCI) module=mlx5-vfio-pci ;;
            CONFIG_FWCTL_MLX5) module=mlx5_fwctl ;;
            *) module='' ;;
        esac
        if [[ $module ]]; then
            [[ -e $SLIPWAY_OUTPUT/lib/modules/$SLIPWAY_KREL/updates/ofed/$module.ko ]] && continue
        elif grep -q "^$name=" "$tree/configure.mk.kernel"; then
            grep -q "^$name=[ym]" "$tree/configure.mk.kernel" && continue
        else
            grep -rqw --include='*.[ch]' --include=Makefile "$name" "$tree/drivers" && continue
        fi
        names+=("${name#CONFIG_}")
    done < <(grep -E '^CONFIG_(MLX5|FWCTL_MLX5)[A-Z0-9_]*=[ym]$' "$config" | LC_ALL=C sort)
    inbox_only=${names[*]}
    [[ ! $inbox_only ]] || step "not in this OFED, but in the kernel's own mlx5 driver: $inbox_only"
}

# bash reads a script while it runs it: in a function, all of it is read before the first step.
main() {
    require_inputs
    require_kernel_tree
    copy_tree
    version=$(source_version)
    if [[ -n ${SLIPWAY_CONFIGURED:-} ]]; then
        take_configured "$SLIPWAY_CONFIGURED"
    else
        ask_for_more step
        configure_tree
    fi
    compile_tree
    install_headers
    find_inbox_only
    set_conf source=ofed "version=$version" "exporter=$exporter" "inbox_only=$inbox_only"
    settle_output
    step "OFED $version for $SLIPWAY_KREL: peer memory is exported by ${exporter:-no module}"
}

main; exit
