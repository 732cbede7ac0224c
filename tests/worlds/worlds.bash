# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# The worlds, a function each: where the catalogue (kernels/catalogue) says that the distribution's repositories lie.

# The base, in which everything that is not named lies, and what Enterprise Linux has in AppStream.
appstream=(gcc gcc-c++ 'debian-g*' 'gcc-*' bison flex m4 autoconf automake autotools-dev ccache dwarves 'kernel*-devel' 'kernel*-devel-matched' rsync patch)

# el9 OS MIRROR RELEASE-PACKAGE ID NAME APPSTREAM BASEOS
el9() {
    local krel=5.14.0-427.13.1.el9_4.x86_64
    conf "os=$1" "krel=$krel"
    printf '%s\n' --os "$1" --mirror "$2=file://FOLDER/srv" --keyring FOLDER/key.asc >"$new/options"
    take_base 11
    release "$3" "$4" 9.4 "$5"
    compiler gcc 11.3.0 11 /usr/bin
    kernel el9 "$krel" 5.14.0 427.13.1.el9_4 'gcc (GCC) 11.3.0' 110300 xz
    repository "$6" "${appstream[@]}"
    repository "$7" '*'
}

world_rhel9() {
    local path=content/dist/rhel9/9/x86_64
    el9 rhel9 rhel-cdn redhat-release rhel 'Red Hat Enterprise Linux' $path/appstream/os $path/baseos/os
}

world_rocky9() {
    el9 rocky9 rocky rocky-release rocky 'Rocky Linux' 9/AppStream/x86_64/os 9/BaseOS/x86_64/os
}

# The kernel is one of hardware enablement, whose headers have its series in their name, and was compiled with gcc 12.
world_ubuntu22.04() {
    local krel=6.8.0-45-generic to=$new/srv root=$work/base-files
    conf "os=ubuntu22.04" "krel=$krel"
    printf '%s\n' --os ubuntu22.04 --mirror ubuntu=file://FOLDER/srv --keyring FOLDER/key.gpg >"$new/options"
    copy_debs deb "$to/pool/main/d" "$deb_debs"
    mkdir -p "$to/pool/universe/d"
    mv "$to"/pool/main/d/{bison,pahole,dwarves,automake,ccache}_* "$to/pool/universe/d/"

    dpkg-deb -R "$to"/pool/main/d/base-files_*.deb "$root"
    rm "$to"/pool/main/d/base-files_*.deb "$root/DEBIAN/md5sums"
    printf '%s\n' 'PRETTY_NAME="Ubuntu 22.04 (a test, made of Debian)"' 'NAME="Ubuntu"' 'VERSION_ID="22.04"' \
        'VERSION="22.04 (Jammy Jellyfish)"' VERSION_CODENAME=jammy ID=ubuntu ID_LIKE=debian UBUNTU_CODENAME=jammy >"$root/usr/lib/os-release"
    sed -i 's/^Version: .*/Version: 12ubuntu4.7/' "$root/DEBIAN/control"
    deb_pack "$root" "$to/pool/main/d/base-files_12ubuntu4.7_amd64.deb"

    kernel_as "$krel" 'x86_64-linux-gnu-gcc-12 (Ubuntu 12.2.0-14ubuntu1~22.04) 12.2.0' 120200 zst
    kernel_debs "$kernel" "$krel" linux-hwe-6.8 linux-hwe-6.8-headers-6.8.0-45 6.8.0-45.45~22.04.1 "$to/pool/main/l"
    local none=(restricted=pool/restricted multiverse=pool/multiverse)
    deb_suite "$to" jammy jammy main=pool/main/d universe=pool/universe/d "${none[@]}"
    deb_suite "$to" jammy-updates jammy main=pool/main/l universe=pool/none "${none[@]}"
    deb_suite "$to" jammy-security jammy main=pool/none universe=pool/none "${none[@]}"
}
