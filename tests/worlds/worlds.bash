# shellcheck shell=bash disable=SC2034,SC2154
# SPDX-License-Identifier: Apache-2.0
# The worlds, a function each: what the distribution's repositories hold, and where the catalogue (kernels/catalogue) says
# that they lie. Versions are those of real packages, but for what Debian's packages bring.

# What Enterprise Linux has in AppStream, by the packages' names here.
appstream=('gcc*' 'debian-g*' bison flex m4 autoconf automake autotools-dev ccache dwarves rsync patch)

# world OS KREL MIRROR…: what slipway is told; MIRROR is NAME or, for a folder of its own, NAME=FOLDER.
world() {
    local os=$1 krel=$2 mirror
    shift 2
    conf "os=$os" "krel=$krel"
    printf '%s\n' --os "$os" --keyring "FOLDER/key.asc" >"$new/options"
    for mirror; do
        [[ $mirror == *=* ]] || mirror=$mirror=
        printf '%s\n' --mirror "${mirror%%=*}=file://FOLDER/srv${mirror#*=}" >>"$new/options"
    done
}

# ---- Enterprise Linux

# el9 OS MIRROR RELEASE-PACKAGE ID NAME APPSTREAM BASEOS
el9() {
    local krel=5.14.0-427.13.1.el9_4.x86_64
    world "$1" $krel "$2"
    take_base 11
    release "$3" "$4" 9.4 "$5"
    compiler gcc 11.3.0 11 /usr/bin
    kernel el9 $krel 5.14.0 427.13.1.el9_4 'gcc (GCC) 11.3.0' 110300 xz
    # Enterprise Linux 7 packs its lists so: tests of every run read one.
    lists=bz2 repository "$6" "${appstream[@]}" kernel-devel kernel-devel-matched
    repository "$7" '*'
}

world_rhel9() {
    local path=content/dist/rhel9/9/x86_64
    el9 rhel9 rhel-cdn redhat-release rhel 'Red Hat Enterprise Linux' $path/appstream/os $path/baseos/os
}

world_rocky9() {
    el9 rocky9 rocky rocky-release rocky 'Rocky Linux' 9/AppStream/x86_64/os 9/BaseOS/x86_64/os
}

# kernel-devel is in BaseOS, gcc 8 in AppStream.
world_rhel8() {
    local krel=4.18.0-553.el8_10.x86_64 path=content/dist/rhel8/8/x86_64
    world rhel8 $krel rhel-cdn
    take_base 12
    release redhat-release rhel 8.10 'Red Hat Enterprise Linux'
    compiler gcc 8.5.0 12 /usr/bin
    kernel el8 $krel 4.18.0 553.el8_10 'gcc (GCC) 8.5.0 20210514 (Red Hat 8.5.0-20)' 80500 xz
    lists=xz repository $path/appstream/os "${appstream[@]}"
    repository $path/baseos/os '*'
}

# An Unbreakable Enterprise Kernel, compiled with a gcc that is not the release's.
world_oracle8() {
    local krel=5.15.0-209.161.7.2.el8uek.x86_64
    world oracle8 $krel oracle
    take_base 11 12
    release oraclelinux-release ol 8.10 'Oracle Linux Server'
    compiler gcc 8.5.0 12 /usr/bin
    compiler gcc-toolset-11-gcc 11.3.0 11 /opt/rh/gcc-toolset-11/root/usr/bin
    kernel uek7 $krel 5.15.0 209.161.7.2.el8uek 'gcc (GCC) 11.3.0' 110300 xz
    repository OL8/UEKR7/x86_64 'kernel-uek*'
    repository OL8/appstream/x86_64 "${appstream[@]}"
    repository OL8/baseos/latest/x86_64 '*'
}

# With a kernel that was made out of the distribution's, whose packages are in custom/, unsigned. Kernels of 3.10 do not
# say what they were compiled with.
world_centos7() {
    local krel=3.10.0-1160.45.1.el7.x86_64 custom=3.10.0-1160.45.1.el7.custom signatures=v3
    world centos7 $krel centos-vault
    conf "custom=$custom"
    kernel el7 $custom 3.10.0 1160.45.1.el7.custom '' 120200 xz
    mkdir "$new/custom"
    mv "$pool"/*.rpm "$new/custom/"
    take_base 12
    release centos-release centos 7 'CentOS Linux'
    compiler gcc 4.8.5 12 /usr/bin
    kernel el7 $krel 3.10.0 1160.45.1.el7 '' 120200 xz
    lists=bz2 repository 7.9.2009/updates/x86_64 'kernel*'
    repository 7.9.2009/os/x86_64 '*'
}

# ---- SUSE, which signs its lists

world_sles15.6() {
    local krel=6.4.0-150600.23.25-default module sign_lists=yes
    world sles15.6 $krel suse
    take_base 12
    release sles-release sles 15.6 'SUSE Linux Enterprise Server'
    compiler gcc 7.5.0 12 /usr/bin
    compiler gcc7 7.5.0 12 /usr/bin '' -7
    kernel suse $krel 6.4.0 150600.23.25.1 'gcc (SUSE Linux) 7.5.0' 70500 zst
    repository Products/SLE-Product-SLES/15-SP6/x86_64/product sles-release
    repository Products/SLE-Module-Development-Tools/15-SP6/x86_64/product 'gcc*' 'debian-g*' bison flex m4 'auto*' dwarves ccache kernel-syms
    repository Updates/SLE-Module-Basesystem/15-SP6/x86_64/update 'kernel-d*' pesign-obs-integration
    repository Products/SLE-Module-Basesystem/15-SP6/x86_64/product '*'
    for module in SLE-Product-SLES SLE-Module-Development-Tools; do
        repository Updates/$module/15-SP6/x86_64/update
    done
}

# ---- others

world_amzn2023() {
    local krel=6.1.79-99.164.amzn2023.x86_64
    world amzn2023 $krel amzn2023-core
    take_base 11
    release system-release amzn 2023 'Amazon Linux'
    compiler gcc 11.3.0 11 /usr/bin
    kernel amzn2023 $krel 6.1.79 99.164.amzn2023 'gcc (GCC) 11.3.0' 110300 xz
    repository . '*'
}

# The kernels of each series are in a repository of their own, and were compiled with gcc10-gcc.
world_amzn2() {
    local krel=5.10.215-203.850.amzn2.x86_64
    world amzn2 $krel amzn2-core=/core amzn2-kernel-5.10=/kernel-5.10
    take_base 12
    release system-release amzn 2 'Amazon Linux'
    compiler gcc 7.3.1 12 /usr/bin
    compiler gcc10 10.5.0 12 /usr/bin gcc10-
    kernel amzn2 $krel 5.10.215 203.850.amzn2 'gcc10-gcc (GCC) 10.5.0 20230707 (Red Hat 10.5.0-1)' 100500
    repository kernel-5.10 kernel kernel-devel
    repository core '*'
}

# g++ belongs to gcc.
world_photon5() {
    local krel=6.1.83-3.ph5
    world photon5 $krel photon
    take_base 12
    release photon-release photon 5.0 'VMware Photon OS'
    compiler_whole=yes compiler gcc 12.2.0 12 /usr/bin
    kernel photon $krel 6.1.83 3.ph5 'gcc (GCC) 12.2.0' 120200 xz
    repository 5.0/photon_updates_5.0_x86_64 'linux*'
    repository 5.0/photon_release_5.0_x86_64 '*'
}

# The kernel is one of hardware enablement, whose headers have its series in their name, and was compiled with gcc 12.
world_ubuntu22.04() {
    local krel=6.8.0-45-generic to=$new/srv root=$work/base-files
    world ubuntu22.04 $krel ubuntu
    sed -i 's/key.asc/key.gpg/' "$new/options"
    copy_debs deb "$to/pool/main/d" "$deb_debs"
    mkdir -p "$to/pool/universe/d"
    mv "$to"/pool/main/d/{bison,pahole,dwarves,automake,ccache}_* "$to/pool/universe/d/"

    dpkg-deb -R "$to"/pool/main/d/base-files_*.deb "$root"
    rm "$to"/pool/main/d/base-files_*.deb "$root/DEBIAN/md5sums"
    printf '%s\n' 'PRETTY_NAME="Ubuntu 22.04 (a test, made of Debian)"' 'NAME="Ubuntu"' 'VERSION_ID="22.04"' \
        'VERSION="22.04 (Jammy Jellyfish)"' VERSION_CODENAME=jammy ID=ubuntu ID_LIKE=debian UBUNTU_CODENAME=jammy >"$root/usr/lib/os-release"
    sed -i 's/^Version: .*/Version: 12ubuntu4.7/' "$root/DEBIAN/control"
    deb_pack "$root" "$to/pool/main/d/base-files_12ubuntu4.7_amd64.deb"

    kernel_as $krel 'x86_64-linux-gnu-gcc-12 (Ubuntu 12.2.0-14ubuntu1~22.04) 12.2.0' 120200 zst
    kernel_debs "$kernel" $krel linux-hwe-6.8 linux-hwe-6.8-headers-6.8.0-45 6.8.0-45.45~22.04.1 "$to/pool/main/l"
    local none=(restricted=pool/restricted multiverse=pool/multiverse)
    deb_suite "$to" jammy jammy main=pool/main/d universe=pool/universe/d "${none[@]}"
    deb_suite "$to" jammy-updates jammy main=pool/main/l universe=pool/none "${none[@]}"
    deb_suite "$to" jammy-security jammy main=pool/none universe=pool/none "${none[@]}"
}
