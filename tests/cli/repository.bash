# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# A small apt repository made for the test: signed with a key of its own, found through an apt
# configuration of its own, so that no test here needs a network or the system's package lists.
#   make_repository          an empty repository, of $ARCH or amd64, and the environment that points slipway at it
#   add_package NAME [DEPENDS]   VERSION, SOURCE, POOL and CONTENT (a folder to pack) may be set
#   publish [SUITE] [POOL]   index and sign what was added
#   update_system            what an administrator's apt-get update does: slipway reads the mirror from it

make_repository() {
    mirror=$BATS_TEST_TMPDIR/mirror
    mkdir -p "$mirror/pool" "$mirror/dists/bookworm/main/binary-${ARCH:-amd64}" "$BATS_TEST_TMPDIR"/{gnupg,apt/lists/partial,apt/parts}
    chmod 700 "$BATS_TEST_TMPDIR/gnupg"
    export GNUPGHOME=$BATS_TEST_TMPDIR/gnupg
    gpg --batch --quiet --passphrase '' --quick-generate-key 'Test <test@slipway.invalid>' ed25519 sign never
    gpg --batch --quiet --export >"$BATS_TEST_TMPDIR/key.gpg"
    gpgconf --kill all

    # The catalogue has one repository and names the key; all other data are the real ones.
    mkdir -p "$BATS_TEST_TMPDIR/data/kernels/catalogue"
    ln -s "$repository"/{containers,scripts,common,module,entrypoint,Makefile} "$BATS_TEST_TMPDIR/data/"
    sed -n '/^\[repository/q; p' "$repository/kernels/catalogue/debian12.ini" >"$BATS_TEST_TMPDIR/data/kernels/catalogue/debian12.ini"
    add_repository main bookworm
    export SLIPWAY_DATADIR=$BATS_TEST_TMPDIR/data SLIPWAY_MIRRORS=/dev/null

    echo "deb [signed-by=$BATS_TEST_TMPDIR/key.gpg] file:$mirror bookworm main" >"$BATS_TEST_TMPDIR/apt/sources.list"
    cat >"$BATS_TEST_TMPDIR/apt/apt.conf" <<EOF
Dir::Etc::SourceList "$BATS_TEST_TMPDIR/apt/sources.list";
Dir::Etc::SourceParts "$BATS_TEST_TMPDIR/apt/parts";
Dir::State::Lists "$BATS_TEST_TMPDIR/apt/lists";
Dir::Cache "$BATS_TEST_TMPDIR/apt/cache";
APT::Sandbox::User "root";
EOF
    export APT_CONFIG=$BATS_TEST_TMPDIR/apt/apt.conf
}

# add_repository NAME SUITE [MORE…]: a section of the catalogue; MORE are lines of it.
add_repository() {
    local name=$1 suite=$2
    shift 2
    printf '%s\n' '' "[repository $name]" 'kind = apt' 'mirror = debian' 'origin = Debian' 'label = Debian' "suite = $suite" \
        'components = main' "keyring = $BATS_TEST_TMPDIR/key.gpg" "$@" >>"$BATS_TEST_TMPDIR/data/kernels/catalogue/debian12.ini"
}

add_package() {
    local name=$1 depends=${2:-} version=${VERSION:-6.1.192-2} root=$BATS_TEST_TMPDIR/package
    rm -rf "$root"
    mkdir -p "$root/DEBIAN"
    [[ -z ${CONTENT:-} ]] || cp -a "$CONTENT/." "$root/"
    {
        printf '%s\n' "Package: $name" "Version: $version" "Source: ${SOURCE:-linux}" "Architecture: ${ARCH:-amd64}"
        printf '%s\n' "Maintainer: Test <test@slipway.invalid>" "Description: test"
        [[ -z $depends ]] || echo "Depends: $depends"
    } >"$root/DEBIAN/control"
    dpkg-deb --root-owner-group -Znone --build "$root" "$mirror/${POOL:-pool}/${name}_${version}_${ARCH:-amd64}.deb" >/dev/null
}

# add_kernel KREL: headers with their common part, the image, and the compiler.
add_kernel() {
    add_package "linux-headers-$1" "linux-headers-${1%-*}-common (= 6.1.192-2), linux-compiler-gcc-12-x86, libc6"
    add_package "linux-headers-${1%-*}-common"
    SOURCE=linux-signed-amd64 add_package "linux-image-$1"
}

# publish [SUITE] [POOL]
publish() {
    local suite=${1:-bookworm} pool=${2:-pool}
    local dist=$mirror/dists/$suite
    mkdir -p "$dist/main/binary-${ARCH:-amd64}"
    (cd "$mirror" && apt-ftparchive packages "$pool" >"dists/$suite/main/binary-${ARCH:-amd64}/Packages")
    publish_release "$suite"
}

# publish_release SUITE: signs the lists of the architectures $ARCH that are there.
publish_release() {
    local suite=$1 dist=$mirror/dists/$1
    rm -f "$dist/InRelease"
    apt-ftparchive -o APT::FTPArchive::Release::Origin=Debian -o APT::FTPArchive::Release::Label=Debian \
        -o "APT::FTPArchive::Release::Codename=$suite" -o "APT::FTPArchive::Release::Suite=$suite" -o APT::FTPArchive::Release::Components=main \
        -o "APT::FTPArchive::Release::Architectures=${ARCH:-amd64}" release "$dist" >"$BATS_TEST_TMPDIR/Release"
    gpg --batch --quiet --clearsign --output "$dist/InRelease" "$BATS_TEST_TMPDIR/Release"
    gpgconf --kill all
}

update_system() {
    mkdir -p "$BATS_TEST_TMPDIR/apt/cache/archives/partial"
    apt-get -qq update
}
