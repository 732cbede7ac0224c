#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Recipe: the userspace driver and the firmware of exactly the version of the kernel modules, from Debian's packages.
# $SLIPWAY_SOURCE is either a folder of those packages (.deb, fetched and checked before), or Debian's source of the
# modules, which says which packages fit: then they are downloaded here. For any other source of the modules, set.conf
# says that there is no userspace.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

mapfile -t packages < <(grep -v '^#' "$(dirname "$(readlink -f "$0")")/userspace.packages")

# Ends the recipe: a set without userspace is complete, and says why it has none.
without_userspace() {
    set_conf source=userspace version=none "reason=$1"
    settle_output
    step "no userspace in this image: $1"
    exit 0
}

# Debian's version of the module source, epoch and revision included.
debian_version() {
    local file
    for file in "$SLIPWAY_SOURCE"/{,modules/nvidia-open-kernel/}debian/changelog; do
        [[ ! -f $file ]] || sed -n '1s/^nvidia[a-z-]* (\([^)]*\)).*/\1/p' "$file"
    done | head -n 1
}

# Sets package_version to the newest packaging of driver version $1 that Debian serves for package $2, or to nothing.
find_package() {
    package_version=$(apt-cache madison "$2" | awk -v want="$1" \
        '{ packaged = $3; sub("^[0-9]+:", "", $3); sub("-[^-]*$", "", $3); if ($3 == want) { print packaged; exit } }')
}

download() {
    local name wanted=()
    step "read Debian's package lists"
    apt-get update -qq
    for name in "${packages[@]}"; do
        find_package "$driver" "$name"
        [[ -n $package_version ]] || without_userspace "Debian has no $name $driver"
        wanted+=("$name=$package_version")
    done
    step "download ${wanted[*]}"
    mkdir "$SLIPWAY_WORK/packages"
    (cd "$SLIPWAY_WORK/packages" && apt-get -o APT::Sandbox::User=root download -qq "${wanted[@]}")
}

# Unpacks the packages in folder $1; sets unpacked to what they are.
unpack() {
    local file found
    unpacked=()
    for file in "$1"/*.deb; do
        found=$(dpkg-deb --field "$file" Version)
        [[ ${found#*:} == "$driver"-* ]] || die "${file##*/} is of version $found, not of driver $driver"
        unpacked+=("$(dpkg-deb --field "$file" Package)=$found")
        dpkg-deb --extract "$file" "$SLIPWAY_WORK/root"
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
    for name in nvidia-ml cuda nvidia-ptxjitcompiler; do
        place "lib$name.so.$driver" "$libraries"
        chmod 644 "$SLIPWAY_OUTPUT/$libraries/lib$name.so.$driver"
        ln -s "lib$name.so.$driver" "$SLIPWAY_OUTPUT/$libraries/lib$name.so.1"
    done
    ln -s libcuda.so.1 "$SLIPWAY_OUTPUT/$libraries/libcuda.so"
    mkdir -p "$SLIPWAY_OUTPUT/usr/lib/firmware/nvidia/$driver"
    find "$SLIPWAY_WORK/root" -type f -path "*/firmware/nvidia/$driver/*.bin" \
        -exec install -m 644 -t "$SLIPWAY_OUTPUT/usr/lib/firmware/nvidia/$driver" {} +
    [[ -n $(ls -A "$SLIPWAY_OUTPUT/usr/lib/firmware/nvidia/$driver") ]] || die "the packages hold no GSP firmware of $driver"
}

# bash reads a script while it runs it: in a function, all of it is read before the first step.
main() {
    require_inputs
    folder=$SLIPWAY_SOURCE
    if compgen -G "$SLIPWAY_SOURCE/nvidia-smi_*.deb" >/dev/null; then
        packaged=$(dpkg-deb --field "$SLIPWAY_SOURCE"/nvidia-smi_*.deb Version)
    else
        packaged=$(debian_version)
        [[ -n $packaged ]] || without_userspace "the module source is not Debian's"
        folder=$SLIPWAY_WORK/packages
    fi
    driver=${packaged#*:}
    driver=${driver%-*}
    [[ $folder == "$SLIPWAY_SOURCE" ]] || download
    step "arrange driver $driver"
    unpack "$folder"
    arrange
    set_conf source=userspace "version=$driver" "packages=${unpacked[*]}"
    settle_output
    step "userspace $driver, $(du -sk "$SLIPWAY_OUTPUT" | cut -f1) KiB"
}

main; exit
