# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# Debian packages and archives of files that lie in a folder.
#   deb_build ROOT FOLDER NAME VERSION ARCHITECTURE SOURCE [DEPENDS]   packs ROOT, as Ubuntu does: zstd
#   deb_suite ARCHIVE SUITE CODENAME COMPONENT=POOL…                   lists of what is in the pools, and a signed InRelease

deb_build() {
    local root=$1 folder=$2 name=$3 version=$4 architecture=$5 source=$6 depends=${7:-}
    mkdir -p "$root/DEBIAN" "$folder"
    printf '%s\n' "Package: $name" "Version: $version" "Architecture: $architecture" "Source: $source" \
        'Maintainer: Test <test@slipway.invalid>' ${depends:+"Depends: $depends"} 'Section: devel' 'Priority: optional' \
        "Installed-Size: $(du -sk "$root" | cut -f1)" 'Description: made for a test' >"$root/DEBIAN/control"
    deb_pack "$root" "$folder/${name}_${version/:/%3a}_$architecture.deb"
}

deb_pack() {
    dpkg-deb --root-owner-group -Zzstd -z1 --build "$1" "$2" >"$work/log" || die "dpkg-deb failed: $(tail -n 3 "$work/log")"
}

deb_suite() {
    local archive=$1 suite=$2 codename=$3 place components='' to
    shift 3
    for place in "$@"; do
        components+=" ${place%%=*}"
        to=$archive/dists/$suite/${place%%=*}/binary-amd64
        mkdir -p "$to" "$archive/${place#*=}"
        (cd "$archive" && apt-ftparchive packages "${place#*=}") >"$to/Packages"
        xz -T1 -k "$to/Packages"
        gzip -nk "$to/Packages"
    done
    apt-ftparchive -o APT::FTPArchive::Release::Origin=Ubuntu -o APT::FTPArchive::Release::Label=Ubuntu \
        -o "APT::FTPArchive::Release::Suite=$suite" -o "APT::FTPArchive::Release::Codename=$codename" \
        -o "APT::FTPArchive::Release::Components=${components# }" -o APT::FTPArchive::Release::Architectures=amd64 \
        release "$archive/dists/$suite" >"$work/Release"
    gpg --batch --quiet --clearsign --output "$archive/dists/$suite/InRelease" "$work/Release"
}
