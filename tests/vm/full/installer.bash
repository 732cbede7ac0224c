# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# NVIDIA's installer for the cases of check-full, whose own cannot be had here: made of Debian's packages. Behind both.bash.
# shellcheck source-path=SCRIPTDIR source=../../cli/installer.bash
. "$top/tests/cli/installer.bash"
# shellcheck source-path=SCRIPTDIR source=../../real/packages.bash
. "$top/tests/real/packages.bash"

# make_installer OUT LOCK MODULES TARBALL: makes $installer, OUT/NVIDIA-Linux-MACHINE-$version.run, and sets version, too: the
# driver of that lock as the installer has it, its modules in MODULES, the userspace at the top, and the list of what goes to a
# node. Debian's two kinds of modules are of different versions: an installer has one.
make_installer() {
    local out=$1 tree=$1/tree root=$1/debs lock=$2 source userspace file name
    use_machine "$(jq -r .arch "$lock")"
    rm -rf "$tree" "$root"
    mkdir -p "$tree/$3" "$tree/firmware"
    source=$(package_files "$lock" nvidia-source)
    userspace=$(package_files "$lock" nvidia-userspace)
    # shellcheck disable=SC2086
    unpack_debs "$root" $source $userspace
    tar -C "$tree/$3" --strip-components=2 -xf "$root/usr/src/$4"
    version=$(sed -n 's/.*NV_VERSION_STRING=\\"\([0-9.]*\)\\".*/\1/p' "$tree/$3/Kbuild" | head -n 1)
    printf '%s\n' 'NVIDIA Accelerated Graphics Driver for Linux-'"$machine_name" "$version" '' 'nvidia nvidia-uvm' '' '' ./kernel/ \
        ./kernel/precompiled/ >"$tree/.manifest"
    for file in "$root/usr/lib/${machine[triplet]}"/nvidia/current/*.so."$version"; do
        name=$(basename "$file")
        cp "$file" "$tree/$name"
        echo "$name 0755 UTILITY_LIB NATIVE MODULE:driver"
        echo "${name%".$version"}.1 0000 UTILITY_LIB_SYMLINK NATIVE $name MODULE:driver"
    done >>"$tree/.manifest"
    cp "$root"/usr/lib/nvidia/current/nvidia-smi "$tree/"
    echo 'nvidia-smi 0755 UTILITY_BINARY MODULE:driver' >>"$tree/.manifest"
    for file in "$root"/*/firmware/nvidia/"$version"/*.bin "$root"/usr/lib/firmware/nvidia/"$version"/*.bin; do
        [ -f "$file" ] || continue
        cp "$file" "$tree/firmware/"
        echo "firmware/$(basename "$file") 0644 FIRMWARE MODULE:driver"
    done >>"$tree/.manifest"
    installer=$out/NVIDIA-Linux-$machine_name-$version.run
    make_run "$tree" "$installer" "$version" "$machine_name"
    rm -rf "$root" "$tree"
}
