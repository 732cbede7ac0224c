#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Recipe: the userspace driver and the firmware of exactly the version of the kernel modules. $SLIPWAY_SOURCE is one of
# - a folder of Debian's packages (.deb, fetched and checked before);
# - a folder in which NVIDIA's installer was unpacked (NVIDIA-….run -x), and beside it or below it what of the archives
#   of fabric manager, IMEX, NSCQ and nvlsm the image is to have (build --userspace, whose names cli/stage/userspace.c
#   looks for before anything is compiled).
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

mapfile -t packages < <(grep -v '^[#+]' "$(dirname "$(readlink -f "$0")")/userspace.packages")

# Is package $1 one that has to be of the driver's version?
is_driver_package() {
    local name
    for name in "${packages[@]}"; do
        [[ $name != "$1" ]] || return 0
    done
    return 1
}

# Unpacks the packages in folder $1, those of other versions than the driver's apart; sets unpacked to what they are.
unpack() {
    local file found name root
    unpacked=()
    for file in "$1"/*.deb; do
        found=$(dpkg-deb --field "$file" Version)
        name=$(dpkg-deb --field "$file" Package)
        root=$SLIPWAY_WORK/beside
        if is_driver_package "$name"; then
            root=$SLIPWAY_WORK/root
            [[ ${found#*:} == "$driver"-* ]] || die "${file##*/} is of version $found, not of driver $driver"
        fi
        unpacked+=("$name=$found")
        dpkg-deb --extract "$file" "$root"
    done
}

# place PATTERN DIR: puts the one file below the unpacked packages whose path matches PATTERN into DIR of the set.
place() {
    local found
    found=$(find "$SLIPWAY_WORK/root" -type f -path "*/$1" | LC_ALL=C sort | head -n 1)
    [[ -n $found ]] || die "the packages hold no $1: ${unpacked[*]}"
    install -D -t "$SLIPWAY_OUTPUT/$2" "$found"
}

# Debian keeps each driver in a folder of its own behind alternatives; what looks for a driver root wants these names.
arrange() {
    local libraries=usr/lib/$SLIPWAY_ARCH-linux-gnu name
    place nvidia-smi usr/bin
    chmod 755 "$SLIPWAY_OUTPUT/usr/bin/nvidia-smi"
    for name in nvidia-ml cuda nvidia-cfg nvidia-ptxjitcompiler; do
        place "lib$name.so.$driver" "$libraries"
        chmod 644 "$SLIPWAY_OUTPUT/$libraries/lib$name.so.$driver"
        ln -s "lib$name.so.$driver" "$SLIPWAY_OUTPUT/$libraries/lib$name.so.1"
    done
    ln -s libcuda.so.1 "$SLIPWAY_OUTPUT/$libraries/libcuda.so"
    mkdir -p "$SLIPWAY_OUTPUT/usr/lib/firmware/nvidia/$driver"
    find "$SLIPWAY_WORK/root" -type f -path "*/firmware/nvidia/$driver/*.bin" \
        -exec install -m 644 -t "$SLIPWAY_OUTPUT/usr/lib/firmware/nvidia/$driver" {} +
    [[ -n $(ls -A "$SLIPWAY_OUTPUT/usr/lib/firmware/nvidia/$driver") ]] || die "the packages hold no GSP firmware of $driver"
    [[ ! -d $SLIPWAY_WORK/beside ]] || arrange_persistenced
}

# Debian's daemon, whose version is its own, with the libraries that it links and the runtime image lacks.
arrange_persistenced() {
    local libraries=usr/lib/$SLIPWAY_ARCH-linux-gnu from=$SLIPWAY_WORK/beside
    [[ -f $from/usr/bin/nvidia-persistenced ]] || return 0
    install -D -m 755 -t "$SLIPWAY_OUTPUT/usr/bin" "$from/usr/bin/nvidia-persistenced"
    # Packages of before and after the merge of /lib into /usr.
    find "$from" -path "*/lib/$SLIPWAY_ARCH-linux-gnu/lib*.so.*" -exec cp -a -t "$SLIPWAY_OUTPUT/$libraries" {} +
    # libtirpc opens no socket without it.
    [[ ! -f $from/etc/netconfig ]] || install -D -m 644 -t "$SLIPWAY_OUTPUT/etc" "$from/etc/netconfig"
    step "nvidia-persistenced of $(dpkg-deb --field "$SLIPWAY_SOURCE"/nvidia-persistenced_*.deb Version)"
}

# Sets driver by the name of the library that whatever asks for a driver's version reads it from.
installer_version() {
    local found
    found=$(find "$SLIPWAY_SOURCE" -name 'libnvidia-ml.so.*.*' -not -path '*/32/*' -printf '%f\n' | LC_ALL=C sort -u)
    [[ $found != *$'\n'* ]] || die "there are several drivers in the userspace folder: ${found//$'\n'/ }"
    driver=${found#libnvidia-ml.so.}
}

# The name that programs link, with which a library has to be found.
link_soname() {
    local soname
    soname=$(readelf -d "$1" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
    [[ -z $soname || $soname == "${1##*/}" ]] || ln -sfn "${1##*/}" "${1%/*}/$soname"
}

# Everything of this version that programs link; the X server's own modules are of no use on a node.
place_libraries() {
    local folder=$SLIPWAY_OUTPUT/usr/lib/$SLIPWAY_ARCH-linux-gnu file
    mkdir -p "$folder"
    while IFS= read -r -d '' file; do
        install -m 644 -t "$folder" "$file"
        link_soname "$folder/${file##*/}"
    done < <(find "$SLIPWAY_SOURCE" -type f \( -name "lib*.so.$driver" -o -name 'libnvfm.so.*' \) \
        -not -name 'libglxserver*' -not -path '*/32/*' -print0 | LC_ALL=C sort -z)
    [[ -e $folder/libcuda.so.1 ]] || die "the userspace folder has no libcuda.so.$driver"
    ln -sfn libcuda.so.1 "$folder/libcuda.so"
}

# nvidia-imex is for those who ask for it by name: nothing here starts it.
place_programs() {
    local name file
    for name in nvidia-smi nvidia-debugdump nvidia-persistenced nvidia-cuda-mps-control nvidia-cuda-mps-server \
        nvidia-imex nvidia-imex-ctl nv-fabricmanager nvswitch-audit nvidia-gridd nvidia-topologyd; do
        file=$(find "$SLIPWAY_SOURCE" -type f -name "$name" -not -path '*/32/*' | LC_ALL=C sort | head -n 1)
        [[ -n $file ]] || continue
        install -D -m 755 -t "$SLIPWAY_OUTPUT/usr/bin" "$file"
        programs+=("$name")
    done
    [[ -f $SLIPWAY_OUTPUT/usr/bin/nvidia-smi ]] ||
        die "the userspace folder has no nvidia-smi: unpack the installer there (sh NVIDIA-Linux-$SLIPWAY_ARCH-$driver.run -x)"
}

# The folders that fabric manager and nvlsm read, where they look for them.
place_fabric() {
    local from
    from=$(find "$SLIPWAY_SOURCE" -type d -path '*/share/nvidia/nvswitch' | head -n 1)
    [[ -z $from ]] || { mkdir -p "$SLIPWAY_OUTPUT/usr/share/nvidia" && cp -r "$from" "$SLIPWAY_OUTPUT/usr/share/nvidia/"; }
    from=$(find "$SLIPWAY_SOURCE" -type f -name fabricmanager.cfg | head -n 1)
    [[ -z $from ]] || install -D -m 644 -t "$SLIPWAY_OUTPUT/usr/share/nvidia/nvswitch" "$from"
    from=$(find "$SLIPWAY_SOURCE" -type f -path '*/sbin/nvlsm' | head -n 1)
    [[ -n $from ]] || return 0
    mkdir -p "$SLIPWAY_OUTPUT/opt/nvidia"
    cp -r "${from%/sbin/nvlsm}" "$SLIPWAY_OUTPUT/opt/nvidia/nvlsm"
    chmod 755 "$SLIPWAY_OUTPUT/opt/nvidia/nvlsm/sbin/nvlsm"
    programs+=(nvlsm)
    from=$(find "$SLIPWAY_SOURCE" -type d -path '*/share/nvidia/nvlsm' | head -n 1)
    [[ -z $from ]] || { mkdir -p "$SLIPWAY_OUTPUT/usr/share/nvidia" && cp -r "$from" "$SLIPWAY_OUTPUT/usr/share/nvidia/"; }
}

from_installer() {
    local firmware=usr/lib/firmware/nvidia/$driver
    programs=()
    step "arrange driver $driver of NVIDIA's installer"
    place_libraries
    place_programs
    place_fabric
    mkdir -p "$SLIPWAY_OUTPUT/$firmware"
    find "$SLIPWAY_SOURCE" -type f -path '*/firmware/*' -name '*.bin' -exec install -m 644 -t "$SLIPWAY_OUTPUT/$firmware" {} +
    [[ -n $(ls -A "$SLIPWAY_OUTPUT/$firmware") ]] || die "the userspace folder has no firmware/*.bin: the open modules start no GPU without it"
    set_conf source=userspace "version=$driver" "packages=${programs[*]}"
    settle_output
    step "userspace $driver, $(du -sk "$SLIPWAY_OUTPUT" | cut -f1) KiB: ${programs[*]}"
}

# bash reads a script while it runs it: in a function, all of it is read before the first step.
main() {
    require_inputs
    installer_version
    if [[ -n $driver ]]; then
        from_installer
        return
    fi
    compgen -G "$SLIPWAY_SOURCE/nvidia-smi_*.deb" >/dev/null ||
        die "neither libnvidia-ml.so.* of an installer nor Debian's nvidia-smi_*.deb in the source"
    packaged=$(dpkg-deb --field "$SLIPWAY_SOURCE"/nvidia-smi_*.deb Version)
    driver=${packaged#*:}
    driver=${driver%-*}
    step "arrange driver $driver"
    unpack "$SLIPWAY_SOURCE"
    arrange
    set_conf source=userspace "version=$driver" "packages=${unpacked[*]}"
    settle_output
    step "userspace $driver, $(du -sk "$SLIPWAY_OUTPUT" | cut -f1) KiB"
}

main; exit
