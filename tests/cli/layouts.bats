#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# The layouts of other distributions: Ubuntu, Oracle's UEK, SUSE, Photon, Amazon and Azure Linux.

load helpers
load rpm-repository
load resolve

# deb FOLDER NAME VERSION ARCHITECTURE SOURCE DEPENDS: packs what lies in $root, and empties it.
deb() {
    mkdir -p "$root/DEBIAN" "$1"
    printf '%s\n' "Package: $2" "Version: $3" "Architecture: $4" "Source: $5" 'Maintainer: Test <test@slipway.invalid>' \
        ${6:+"Depends: $6"} 'Description: test' >"$root/DEBIAN/control"
    dpkg-deb --root-owner-group -Zzstd --build "$root" "$1/$2_${3}_$4.deb" >/dev/null
    rm -rf "$root"
}

# ubuntu_tree KREL COMMON: the flavour's half of the headers; what the flavours share is linked.
ubuntu_tree() {
    local tree=$root/usr/src/linux-headers-$1
    rpm_tree "$tree" "$1"
    mkdir -p "$root/lib/modules/$1"
    rm "$tree/Makefile"
    ln -s "../$2/Makefile" "$tree/Makefile"
    ln -s "/usr/src/linux-headers-$1" "$root/lib/modules/$1/build"
}

ubuntu_common() {
    mkdir -p "$root/usr/src/$1"
    echo "obj-y :=" >"$root/usr/src/$1/Makefile"
}

# suite MIRROR SUITE POOL: a signed list of what is in MIRROR/POOL.
suite() {
    local dist=$1/dists/$2
    mkdir -p "$dist/main/binary-amd64"
    (cd "$1" && apt-ftparchive packages "$3" >"dists/$2/main/binary-amd64/Packages")
    xz -k "$dist/main/binary-amd64/Packages"
    apt-ftparchive -o APT::FTPArchive::Release::Origin=Ubuntu -o APT::FTPArchive::Release::Label=Ubuntu \
        -o "APT::FTPArchive::Release::Codename=${2%%-*}" -o "APT::FTPArchive::Release::Suite=$2" \
        -o APT::FTPArchive::Release::Components=main -o APT::FTPArchive::Release::Architectures=amd64 \
        release "$dist" >"$BATS_FILE_TMPDIR/Release"
    gpg --batch --quiet --clearsign --output "$dist/InRelease" "$BATS_FILE_TMPDIR/Release"
}

make_ubuntu() {
    local ubuntu=$1/ubuntu krel root=$BATS_FILE_TMPDIR/deb
    krel=5.15.0-112-generic
    ubuntu_tree "$krel" linux-headers-5.15.0-112
    deb "$ubuntu/pool/main" "linux-headers-$krel" 5.15.0-112.122 amd64 linux 'linux-headers-5.15.0-112, libc6 (>= 2.34)'
    ubuntu_common linux-headers-5.15.0-112
    deb "$ubuntu/pool/main" linux-headers-5.15.0-112 5.15.0-112.122 all linux
    deb "$ubuntu/pool/main" "linux-modules-$krel" 5.15.0-112.122 amd64 linux
    deb "$ubuntu/pool/main" "linux-modules-extra-$krel" 5.15.0-112.122 amd64 linux "linux-modules-$krel"
    krel=6.8.0-45-generic
    ubuntu_tree "$krel" linux-hwe-6.8-headers-6.8.0-45
    deb "$ubuntu/pool/updates" "linux-headers-$krel" 6.8.0-45.45~22.04.1 amd64 linux-hwe-6.8 'linux-hwe-6.8-headers-6.8.0-45, libelf1'
    ubuntu_common linux-hwe-6.8-headers-6.8.0-45
    deb "$ubuntu/pool/updates" linux-hwe-6.8-headers-6.8.0-45 6.8.0-45.45~22.04.1 all linux-hwe-6.8 'coreutils | fileutils'
    deb "$ubuntu/pool/updates" "linux-modules-$krel" 6.8.0-45.45~22.04.1 amd64 linux-hwe-6.8
    krel=6.8.0-1015-aws
    deb "$ubuntu/pool/updates" "linux-headers-$krel" 6.8.0-1015.16~22.04.1 amd64 linux-aws-6.8 linux-aws-6.8-headers-6.8.0-1015
    deb "$ubuntu/pool/updates" linux-aws-6.8-headers-6.8.0-1015 6.8.0-1015.16~22.04.1 all linux-aws-6.8
    deb "$ubuntu/pool/updates" "linux-modules-$krel" 6.8.0-1015.16~22.04.1 amd64 linux-aws-6.8
    suite "$ubuntu" jammy pool/main
    suite "$ubuntu" jammy-updates pool/updates
    suite "$ubuntu" jammy-security pool/updates
}

make_oracle() {
    local uek=$1/oracle/OL9/UEKR7
    rpm_kernel "$uek/x86_64" 5.15.0-302.167.6.el9uek.x86_64 x86_64 5.15.0 302.167.6.el9uek <<'EOF'
kernel-uek-core core kernel-uek-core-uname-r kernel-uek-uname-r
kernel-uek-modules modules kernel-uek-modules-uname-r
kernel-uek-devel devel kernel-uek-devel-uname-r
EOF
    rpm_kernel "$uek/archive/x86_64" 5.15.0-200.131.27.el9uek.x86_64 x86_64 5.15.0 200.131.27.el9uek <<'EOF'
kernel-uek-core core kernel-uek-core-uname-r kernel-uek-uname-r
kernel-uek-modules modules kernel-uek-modules-uname-r
kernel-uek-modules-extra nothing kernel-uek-modules-extra-uname-r
kernel-uek-devel devel kernel-uek-devel-uname-r
EOF
    # Up to UEK 6 one package has the whole kernel.
    rpm_kernel "$1/oracle/OL8/UEKR6/x86_64" 5.4.17-2136.334.6.el8uek.x86_64 x86_64 5.4.17 2136.334.6.el8uek <<'EOF'
kernel-uek all kernel-uek-uname-r
kernel-uek-devel devel kernel-uek-devel-uname-r
EOF
    rpm_publish "$uek/x86_64" xz
    rpm_publish "$uek/archive/x86_64" gz
    rpm_publish "$1/oracle/OL8/UEKR6/x86_64" gz
}

make_suse() {
    local updates=$1/suse/Updates/SLE-Module-Basesystem/15-SP6/x86_64/update source=6.4.0-150600.23.25
    # The release has a build counter that uname -r lacks, and each package has its own.
    rpm_kernel "$updates" $source-default x86_64 6.4.0 150600.23.25 .1 <<EOF
kernel-default all kernel=$source
kernel-default-devel suse-devel kernel-default-devel=$source <kernel-devel=$source
EOF
    rpm_kernel "$updates" $source-default noarch 6.4.0 150600.23.25 .2 <<EOF
kernel-devel suse-source kernel-devel=$source multiversion(kernel)=1
kernel-macros nothing kernel-macros=$source
EOF
    rpm_kernel "$updates" 6.4.0-150600.23.250-default x86_64 6.4.0 150600.23.250 .1 <<EOF
kernel-default all
kernel-default-devel suse-devel kernel-default-devel=6.4.0-150600.23.250 <kernel-devel=6.4.0-150600.23.250
EOF
    local sles=$1/suse/Products/SLE-Product-SLES/16.0/x86_64/product tumbleweed=$1/opensuse/tumbleweed/repo/oss
    rpm_kernel "$sles" 6.12.0-160000.5-default x86_64 6.12.0 160000.5 .1 <<EOF
kernel-default all
kernel-default-devel suse-devel kernel-default-devel=6.12.0-160000.5 <kernel-devel=6.12.0-160000.5
EOF
    rpm_kernel "$sles" 6.12.0-160000.5-default noarch 6.12.0 160000.5 .1 <<EOF
kernel-devel suse-source kernel-devel=6.12.0-160000.5 multiversion(kernel)=1
EOF
    rpm_kernel "$tumbleweed" 6.16.8-1-default x86_64 6.16.8 1 .1 <<EOF
kernel-default all
kernel-default-devel suse-devel kernel-default-devel=6.16.8-1 <kernel-devel=6.16.8-1
EOF
    rpm_kernel "$tumbleweed" 6.16.8-1-default noarch 6.16.8 1 .1 <<EOF
kernel-devel suse-source kernel-devel=6.16.8-1 multiversion(kernel)=1
EOF
    rpm_sign_lists=1 rpm_publish "$sles" gz
    rpm_sign_lists=1 rpm_publish "$tumbleweed" gz
    mkdir -p "$1/suse/Products/SLE-Module-Basesystem/15-SP6/x86_64/product"
    rpm_sign_lists=1 rpm_publish "$updates" gz
    rpm_sign_lists=1 rpm_publish "$1/suse/Products/SLE-Module-Basesystem/15-SP6/x86_64/product" gz
}

make_photon() {
    local updates=$1/photon/5.0/photon_updates_5.0_x86_64
    rpm_kernel "$updates" 6.1.83-1.ph5 x86_64 6.1.83 1.ph5 <<'EOF'
linux all linux=6.1.83-1.ph5
linux-devel photon-devel
linux-drivers-gpu nothing
EOF
    rpm_kernel "$updates" 6.1.83-1.ph5-esx x86_64 6.1.83 1.ph5 <<'EOF'
linux-esx all
linux-esx-devel photon-devel
EOF
    rpm_kernel "$updates" 6.1.83-rt28-1.ph5-rt x86_64 6.1.83 1.ph5 <<'EOF'
linux-rt all
linux-rt-devel photon-devel
EOF
    rpm_publish "$updates" gz
    rpm_publish "$1/photon/5.0/photon_release_5.0_x86_64" gz
}

make_others() {
    rpm_kernel "$1/amzn2023" 6.12.37-61.105.amzn2023.x86_64 x86_64 6.12.37 61.105.amzn2023 <<'EOF'
kernel6.12 all kernel-uname-r
kernel6.12-devel devel kernel-devel-uname-r
kernel6.12-modules-extra nothing kernel-modules-extra-uname-r
EOF
    rpm_publish "$1/amzn2023" gz
    rpm_kernel "$1/azure/3.0/prod/base/x86_64" 6.6.64.2-7.azl3 x86_64 6.6.64.2 7.azl3 <<'EOF'
kernel all
kernel-devel photon-devel
kernel-drivers-gpu nothing
EOF
    rpm_publish "$1/azure/3.0/prod/base/x86_64" gz
}

setup_file() {
    local www=$BATS_FILE_TMPDIR/www
    rpm_key
    make_ubuntu "$www"
    make_oracle "$www"
    make_suse "$www"
    make_photon "$www"
    make_others "$www"
    serve "$www"
}

teardown_file() {
    serve_end
}

setup() {
    key=(--keyring "$rpm_key")
    # The test's lists have one component; all other data are the real ones. It is what the others inherit.
    mkdir -p "$BATS_TEST_TMPDIR/data"
    cp -rs "$repository/kernels" "$BATS_TEST_TMPDIR/data/kernels"
    rm "$BATS_TEST_TMPDIR/data/kernels/catalogue/ubuntu24.04.ini"
    sed 's#^components = .*#components = main#' "$repository/kernels/catalogue/ubuntu24.04.ini" \
        >"$BATS_TEST_TMPDIR/data/kernels/catalogue/ubuntu24.04.ini"
    export SLIPWAY_DATADIR=$BATS_TEST_TMPDIR/data
    ln -s "$repository"/{containers,scripts,common,module,entrypoint,Makefile} "$SLIPWAY_DATADIR/"
}

@test "Ubuntu: the headers' common half has the same source" {
    resolve 0 5.15.0-112-generic --os ubuntu22.04 --mirror "$served/ubuntu" "${key[@]}"
    has headers linux-headers-5.15.0-112-generic /pool/main/linux-headers-5.15.0-112-generic_5.15.0-112.122_amd64.deb
    has headers linux-headers-5.15.0-112 /pool/main/linux-headers-5.15.0-112_5.15.0-112.122_all.deb
    has modules linux-modules-5.15.0-112-generic _amd64.deb
    has modules linux-modules-extra-5.15.0-112-generic _amd64.deb
    count 4
}

@test "Ubuntu: hardware enablement and cloud kernels have sources of their own" {
    resolve 0 6.8.0-45-generic --os ubuntu22.04 --mirror "$served/ubuntu" "${key[@]}"
    has headers linux-hwe-6.8-headers-6.8.0-45 _all.deb
    count 3
    resolve 0 6.8.0-1015-aws --os ubuntu22.04 --mirror "$served/ubuntu" "${key[@]}"
    has headers linux-aws-6.8-headers-6.8.0-1015 _all.deb
    count 3
}

@test "Ubuntu: both halves are fetched and make one tree" {
    lint 5.15.0-112-generic --os ubuntu22.04 --mirror "$served/ubuntu" "${key[@]}"
    lint 6.8.0-45-generic --os ubuntu22.04 --mirror "$served/ubuntu" "${key[@]}"
}

@test "Ubuntu: a name of two releases is refused" {
    resolve 2 6.8.0-45-generic --mirror "$served/ubuntu" "${key[@]}"
    tells ubuntu22.04 ubuntu24.04 --os
}

@test "Oracle: a UEK is found by its own capability" {
    resolve 0 5.15.0-302.167.6.el9uek.x86_64 --mirror "$served/oracle" "${key[@]}"
    has headers kernel-uek-devel /OL9/UEKR7/x86_64/kernel-uek-devel-5.15.0-302.167.6.el9uek.x86_64.rpm
    has modules kernel-uek-core .rpm
    has modules kernel-uek-modules .rpm
    count 3
}

@test "Oracle: it is fetched, and is a tree" {
    lint 5.15.0-302.167.6.el9uek.x86_64 --mirror "$served/oracle" "${key[@]}"
}

@test "Oracle: an image's tag wants the minor release, which a UEK's name does not have" {
    make_gpu_sources
    local uek=5.15.0-302.167.6.el9uek.x86_64
    run_slipway 2 build "$uek" --mirror "$served/oracle" "${key[@]}" --nvidia "$BATS_TEST_TMPDIR/nvidia" \
        --userspace "$BATS_TEST_TMPDIR/userspace"
    says "--os-version is missing" "VERSION_ID" "$uek" "Oracle Linux 9"
    run_slipway 2 build "$uek" --mirror "$served/oracle" "${key[@]}" --nvidia "$BATS_TEST_TMPDIR/nvidia" \
        --userspace "$BATS_TEST_TMPDIR/userspace" --os-version 8.10
    says "--os-version 8.10: on nodes of Oracle Linux 9, VERSION_ID in /etc/os-release is 9 or begins with 9 and a dot"
}

@test "Oracle: a rotated UEK is in the archive" {
    resolve 0 5.15.0-200.131.27.el9uek.x86_64 --mirror "$served/oracle" "${key[@]}"
    has headers kernel-uek-devel /OL9/UEKR7/archive/x86_64/kernel-uek-devel-5.15.0-200.131.27.el9uek.x86_64.rpm
    has modules kernel-uek-modules-extra .rpm
    went absent uekr7
    went found uekr7-archive
}

@test "Oracle: a UEK of one package" {
    resolve 0 5.4.17-2136.334.6.el8uek.x86_64 --mirror "$served/oracle" "${key[@]}"
    has headers kernel-uek-devel .rpm
    has modules kernel-uek .rpm
    count 2
}

@test "SUSE: the packages' build counter is not in the kernel's name" {
    resolve 0 6.4.0-150600.23.25-default --os sles15.6 --mirror "$served/suse" "${key[@]}"
    has headers kernel-default-devel /kernel-default-devel-6.4.0-150600.23.25.1.x86_64.rpm
    has headers kernel-devel /kernel-devel-6.4.0-150600.23.25.2.noarch.rpm
    has modules kernel-default /kernel-default-6.4.0-150600.23.25.1.x86_64.rpm
    count 3
}

@test "SUSE: the two parts are fetched and make one tree" {
    lint 6.4.0-150600.23.25-default --os sles15.6 --mirror "$served/suse" "${key[@]}"
}

@test "SUSE: SLES 16's kernel is in the product's own repository, and its name is three distributions'" {
    resolve 0 6.12.0-160000.5-default --os sles16.0 --mirror "$served/suse" "${key[@]}"
    has headers kernel-default-devel /Products/SLE-Product-SLES/16.0/x86_64/product/kernel-default-devel-6.12.0-160000.5.1.x86_64.rpm
    count 3
    run_slipway 2 resolve 6.12.0-160000.5-default --mirror "$served/suse" "${key[@]}"
    says "opensuse-leap16.0, sl-micro6.2, sles16.0"
}

@test "Tumbleweed: an image's tag wants the snapshot's date, which no kernel's name has" {
    make_gpu_sources
    local tumbleweed=(build 6.16.8-1-default --mirror "$served/opensuse" "${key[@]}" --nvidia "$BATS_TEST_TMPDIR/nvidia"
        --userspace "$BATS_TEST_TMPDIR/userspace")
    run_slipway 2 "${tumbleweed[@]}"
    says "--os-version is missing: the image tags contain the snapshot's date" "openSUSE Tumbleweed" \
        "try: --os-version with the VERSION_ID from the node's /etc/os-release, such as 20251120"
    run_slipway 2 "${tumbleweed[@]}" --os-version 2025x
    says "--os-version 2025x: "
}

@test "SUSE: a list that is not signed, or by another, is refused" {
    local tree=$BATS_TEST_TMPDIR/suse
    cp -a "$BATS_FILE_TMPDIR/www/suse" "$tree"
    rm "$tree"/Updates/*/15-SP6/x86_64/update/repodata/repomd.xml.asc
    resolve 13 6.4.0-150600.23.25-default --os sles15.6 --mirror "$tree" "${key[@]}"
    resolve 0 6.4.0-150600.23.25-default --os sles15.6 --mirror "$tree" "${key[@]}" --allow-unsigned
    (
        export GNUPGHOME=$BATS_TEST_TMPDIR/gnupg
        mkdir -m 700 "$GNUPGHOME"
        gpg --batch --quiet --passphrase '' --quick-generate-key 'Stranger <s@slipway.invalid>' ed25519 sign never
        gpg --batch --quiet --armor --detach-sign "$tree"/Updates/*/15-SP6/x86_64/update/repodata/repomd.xml
        gpgconf --kill all
    )
    resolve 13 6.4.0-150600.23.25-default --os sles15.6 --mirror "$tree" "${key[@]}" --refresh
    cp "$BATS_FILE_TMPDIR"/www/suse/Updates/*/15-SP6/x86_64/update/repodata/repomd.xml.asc "$tree"/Updates/*/15-SP6/x86_64/update/repodata/
    sed -i 's/<revision>/<revision>1/' "$tree"/Updates/*/15-SP6/x86_64/update/repodata/repomd.xml
    resolve 13 6.4.0-150600.23.25-default --os sles15.6 --mirror "$tree" "${key[@]}" --refresh --allow-unsigned
}

@test "Photon: packages are of the flavour and have the version" {
    resolve 0 6.1.83-1.ph5 --mirror "$served/photon" "${key[@]}"
    has headers linux-devel /linux-devel-6.1.83-1.ph5.x86_64.rpm
    has modules linux-drivers-gpu .rpm
    count 3
    resolve 0 6.1.83-1.ph5-esx --mirror "$served/photon" "${key[@]}"
    has headers linux-esx-devel .rpm
    count 2
    resolve 0 6.1.83-rt28-1.ph5-rt --mirror "$served/photon" "${key[@]}"
    has headers linux-rt-devel /linux-rt-devel-6.1.83-1.ph5.x86_64.rpm
    count 2
}

@test "Photon: it is fetched, and is a tree" {
    lint 6.1.83-1.ph5-esx --mirror "$served/photon" "${key[@]}"
}

@test "Amazon Linux 2023: a series with a name of its own" {
    resolve 0 6.12.37-61.105.amzn2023.x86_64 --mirror "amzn2023-core=$served/amzn2023" "${key[@]}"
    has headers kernel6.12-devel .rpm
    has modules kernel6.12 .rpm
    count 3
}

@test "Azure Linux: a list that must be signed is refused without" {
    resolve 13 6.6.64.2-7.azl3 --mirror "$served/azure" "${key[@]}"
    resolve 0 6.6.64.2-7.azl3 --mirror "$served/azure" "${key[@]}" --allow-unsigned
    has headers kernel-devel .rpm
    has modules kernel-drivers-gpu .rpm
    count 3
}
