#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2034,SC2154
# SPDX-License-Identifier: Apache-2.0
# Images for other distributions, from worlds of their layout, names and signatures that are made of Debian's packages
# (tests/worlds): real dnf, rpm, mmdebstrap and Buildah. The drivers are the smallest there are.

load ../worlds/world
load ../cli/httpd
load ../verdict

setup_file() {
    top=$(realpath "$BATS_TEST_DIRNAME/../..")
    slipway=$(cd "$top" && realpath -m "${O:-build}")/slipway
    export top slipway
    el9=$("$top/tests/worlds/make-world" rhel9)
    ubuntu=$("$top/tests/worlds/make-world" ubuntu22.04)
    export el9 ubuntu
}

# build WORLD [OPTION…]: for the world's kernel; what it says is in $BATS_TEST_TMPDIR/said. verify says what build does.
build() {
    local world=$1 options=() ended=0
    shift
    mapfile -t options < <(sed "s#FOLDER#$world#" "$world/options")
    options+=(--kernel "$(sed -n 's/^krel=//p' "$world/world.conf")")
    rm -rf "$BATS_TEST_TMPDIR/output"
    "$slipway" build "${options[@]}" --output "$BATS_TEST_TMPDIR/output" "$@" >"$BATS_TEST_TMPDIR/said" 2>&1 || ended=$?
    cat "$BATS_TEST_TMPDIR/said"
    ((ended == 0)) || return "$ended"
    one_verdict "$BATS_TEST_TMPDIR/output" "${options[@]}"
}

# refuse CODE WORLD [OPTION…]: the build fails with that exit code.
refuse() {
    local code=$1 ended=0
    shift
    build "$@" || ended=$?
    ((ended == code)) || { echo "exit code $ended, not $code" && return 1; }
}

says() {
    grep -qE -- "$1" "$BATS_TEST_TMPDIR/said"
}

# open_image ROLE: the image's root, as the folder $image.
open_image() {
    local container
    container=$(buildah from --quiet --pull-never "oci-archive:$BATS_TEST_TMPDIR/output/$1.oci.tar")
    image=$BATS_TEST_TMPDIR/$1
    cp -a "$(buildah mount "$container")" "$image"
    buildah rm "$container" >/dev/null
}

smallest=(--nvidia tests/real/smallest-nvidia --force)

setup() {
    cd "$top" || return 1
    repository=$top
}

teardown() {
    stop_httpd
}

@test "Enterprise Linux 9: a GPU image by its own gcc, tagged for each version of the operator" {
    local krel=5.14.0-427.13.1.el9_4.x86_64
    build "$el9" "${smallest[@]}"
    open_image gpu
    [[ $(modinfo -F vermagic "$image/usr/lib/modules/$krel/updates/nvidia/nvidia.ko") == "$krel "* ]]
    jq -e '.images[0] | .tag == "1-5.14.0-427.13.1.el9_4.x86_64-rhel9" and
        .also == ["localhost/slipway/driver:1-5.14.0-427.13.1.el9_4.x86_64-rhel9.4"]' "$BATS_TEST_TMPDIR/output/images.json"
    # Both are pushed: no operator's version was named.
    [[ $(grep -c '^push gpu.oci.tar .* driver:1-5.14.0-427.13.1.el9_4.x86_64-rhel9' "$BATS_TEST_TMPDIR/output/push.sh") == 2 ]]
    # One runtime base for all, whose init was compiled for it.
    [[ ! -e $image/usr/bin/dnf && -x $image/usr/bin/busybox ]]
    chroot "$image" /usr/bin/slipway-init --version
    # What was compiled in, by name: its own packages, and what kernel-devel requires.
    jq -e '[.root_packages[] | select(.root == "build-root").name] | index("redhat-release") and index("gcc") and index("elfutils-libelf-devel")' \
        "$BATS_TEST_TMPDIR/output/lock.json"
    jq -e '[.root_packages[] | select(.root == "init-root").name] | index("gcc-12")' "$BATS_TEST_TMPDIR/output/lock.json"
}

@test "Enterprise Linux 9: a NIC image, with the minor release in its tag" {
    build "$el9" --nvidia none --ofed tests/real/smallest-ofed
    jq -e '.images[0].tag | endswith("5.14.0-427.13.1.el9_4.x86_64-rhel9.4-amd64")' "$BATS_TEST_TMPDIR/output/images.json"
}

# bats test_tags=full
@test "Enterprise Linux 9: a bundle builds the image where there is no network at all" {
    local options=()
    mapfile -t options < <(sed "s#FOLDER#$el9#" "$el9/options")
    "$slipway" bundle -o "$BATS_TEST_TMPDIR/bundle" "${options[@]}" --nvidia tests/real/smallest-nvidia 5.14.0-427.13.1.el9_4.x86_64
    unshare --net "$slipway" build --bundle "$BATS_TEST_TMPDIR/bundle" --cache "$BATS_TEST_TMPDIR/cache" --force \
        --output "$BATS_TEST_TMPDIR/output"
    jq -e '.images[0].tag == "1-5.14.0-427.13.1.el9_4.x86_64-rhel9"' "$BATS_TEST_TMPDIR/output/images.json"
    jq -e '[.root_packages[].name] | index("redhat-release")' "$BATS_TEST_TMPDIR/output/lock.json"
}

@test "the same packages make the same root, byte for byte" {
    local repositories=$BATS_TEST_TMPDIR/repositories url=file://$el9/srv/content/dist/rhel9/9/x86_64 name
    for name in baseos appstream; do
        printf '%s\n' "[$name]" "name=$name" "baseurl=$url/$name/os" gpgcheck=0
    done >"$repositories"
    containers/root/rpm.sh fetch --packages "$BATS_TEST_TMPDIR/packages" --repositories "$repositories" --arch x86_64 \
        --releasever 9 --platform platform:el9 --package redhat-release --package 'no-such|make' --package 'no-such|'
    for name in one two; do
        containers/root/rpm.sh install --packages "$BATS_TEST_TMPDIR/packages" --output "$BATS_TEST_TMPDIR/$name.tar"
    done
    cmp "$BATS_TEST_TMPDIR/one.tar" "$BATS_TEST_TMPDIR/two.tar"
    cmp "$BATS_TEST_TMPDIR/one.packages" "$BATS_TEST_TMPDIR/two.packages"
    grep -qE '^make [^ ]+ x86_64$' "$BATS_TEST_TMPDIR/one.packages"
}

# change_package COMMAND…: a copy of the world, $world, whose package "which" COMMAND changes; its lists are made anew, as one who
# owns a mirror can.
change_package() {
    local repository
    world=$BATS_TEST_TMPDIR/world
    cp -al "$el9" "$world"
    package=$(find "$world/srv" -name 'which-*.rpm')
    repository=$(dirname "$package")
    cp --remove-destination "$(find "$el9/srv" -name 'which-*.rpm')" "$package"
    "$@" "$package"
    rm -r "$repository/repodata"
    createrepo_c --quiet "$repository"
}

# key_of_root WORLD [OPTION…]: of the kernel's root, before anything is made.
key_of_root() {
    local options=()
    mapfile -t options < <(sed "s#FOLDER#$1#" "$1/options")
    "$slipway" build "${options[@]}" --kernel "$(sed -n 's/^krel=//p' "$1/world.conf")" "${smallest[@]}" "${@:2}" --dry-run --json |
        jq -r '.stages[]? | select(.stage == "build-root").key'
}

# has_root WORLD: its root is in the cache, or a part of it.
has_root() {
    local key
    key=$(key_of_root "$1")
    compgen -G "${SLIPWAY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/slipway}/stages/build-root-${key:0:24}*" >/dev/null
}

@test "a package that was changed, is not signed, or is signed by another key: refused before anything is installed" {
    change_package rpmsign --delsign
    # A program that the root will want is missed before that, too.
    mkdir "$BATS_TEST_TMPDIR/bin"
    ln -s /usr/local/bin/* /usr/sbin/* /usr/bin/* "$BATS_TEST_TMPDIR/bin/" 2>/dev/null || true
    rm "$BATS_TEST_TMPDIR/bin/rpm"
    PATH=$BATS_TEST_TMPDIR/bin refuse 10 "$world" "${smallest[@]}"
    says 'rpm: no such program in PATH'
    refuse 13 "$world" "${smallest[@]}"
    says 'repository baseos: which-.*\.rpm: neither the package nor its list is signed'
    rm -rf "$world"
    flip() { printf '\x55' | dd of="$1" bs=1 seek=$(($(stat -c %s "$1") - 100)) conv=notrunc status=none; }
    change_package flip
    refuse 12 "$world" "${smallest[@]}"
    says 'which-.*the payload has SHA-256'
    rm -rf "$world"
    export GNUPGHOME=$BATS_TEST_TMPDIR/gnupg
    mkdir -m 700 "$GNUPGHOME"
    gpg --batch --quiet --passphrase '' --quick-generate-key 'Other <other@slipway.invalid>' rsa2048 sign never
    gpgconf --kill all
    world_key=$GNUPGHOME
    change_package world_sign
    refuse 13 "$world" "${smallest[@]}"
    says 'repository baseos: which-.*key'
    # Nothing half made.
    has_root "$el9"
    ! has_root "$world" || false
}

@test "the same lists are the same root's key in another cache; another package is another one" {
    local cache=(--cache "$BATS_TEST_TMPDIR/cache") key
    key=$(key_of_root "$el9")
    [[ -n $key && $(key_of_root "$el9" "${cache[@]}") == "$key" ]]
    change_package rpmsign --delsign
    [[ $(key_of_root "$world" "${cache[@]}") != "$key" ]]
}

# dnf would take both.
@test "a package with a signature by SHA-1 is refused" {
    world_key=$el9/gnupg
    change_package world_sign --define '_gpg_digest_algo sha1'
    refuse 13 "$world" "${smallest[@]}"
    says 'which-.*(SHA-1|weak|forged)'
}

@test "a repository of the root that is gone, a package that no repository has, a root of no such distribution: each is said" {
    printf '[rocky]\nurl = file://%s\n' "$BATS_TEST_TMPDIR/nothing" >"$BATS_TEST_TMPDIR/mirrors.ini"
    mkdir "$BATS_TEST_TMPDIR/nothing"
    SLIPWAY_MIRRORS=$BATS_TEST_TMPDIR/mirrors.ini refuse 15 "$el9" "${smallest[@]}" --root rocky9
    says 'nothing/9/.*repomd.xml'
    refuse 2 "$el9" "${smallest[@]}" --root plan9
    says 'plan9'
    scripts/install-data "$BATS_TEST_TMPDIR/data"
    sed -i 's/^packages = /packages = no-such-package /' "$BATS_TEST_TMPDIR/data/kernels/catalogue/el.inc"
    SLIPWAY_DATADIR=$BATS_TEST_TMPDIR/data refuse 8 "$el9" "${smallest[@]}"
    says 'no-such-package'
}

# bats test_tags=full
@test "a server that wants a subscription's certificate: a root is made with it; without it, or with another's, that is said" {
    mirror=$el9/srv
    make_certificates
    start_tls
    printf '[rhel-cdn]\nurl = %s/ok\ncertificate_authority = %s\n' "$http" "$BATS_TEST_TMPDIR/ca.pem" >"$BATS_TEST_TMPDIR/mirrors.ini"
    export SLIPWAY_MIRRORS=$BATS_TEST_TMPDIR/mirrors.ini
    local common=(--kernel 5.14.0-427.13.1.el9_4.x86_64 --os rhel9 --keyring "$el9/key.asc" --cache "$BATS_TEST_TMPDIR/cache" "${smallest[@]}")
    run "$slipway" build "${common[@]}" --output "$BATS_TEST_TMPDIR/output"
    echo "$output"
    ((status == 11))
    [[ $output == *"does it need a client certificate"* ]]
    cp "$BATS_TEST_TMPDIR/mirrors.ini" "$BATS_TEST_TMPDIR/none.ini"
    printf 'client_certificate = %s\n' "$BATS_TEST_TMPDIR/stranger.pem" >>"$BATS_TEST_TMPDIR/mirrors.ini"
    run "$slipway" build "${common[@]}" --output "$BATS_TEST_TMPDIR/output"
    echo "$output"
    ((status == 11))
    [[ $output == *"does it refuse the client certificate"* && ! -e $BATS_TEST_TMPDIR/output/images.json ]]
    [[ -z $(ls -d "$BATS_TEST_TMPDIR"/cache/stages/* 2>/dev/null) ]]
    printf 'client_certificate = %s\n' "$BATS_TEST_TMPDIR/client.pem" | cat "$BATS_TEST_TMPDIR/none.ini" - >"$BATS_TEST_TMPDIR/mirrors.ini"
    "$slipway" build "${common[@]}" --output "$BATS_TEST_TMPDIR/output"
    # dnf asked for them.
    (($(asked '^200 .*redhat-release-.*\.rpm') == 1))
}

# bats test_tags=full
@test "without a subscription Rocky's packages make the root, for a kernel that this machine has" {
    rocky=$("$top/tests/worlds/make-world" rocky9)
    printf '[official]\nuse = no\n[rocky]\nurl = file://%s\n' "$rocky/srv" >"$BATS_TEST_TMPDIR/mirrors.ini"
    export SLIPWAY_MIRRORS=$BATS_TEST_TMPDIR/mirrors.ini
    local file files=()
    while read -r file; do
        files+=(--kernel-from "$file")
    done < <(find "$el9/srv" -name 'kernel-devel-[0-9]*.rpm' -o -name 'kernel-modules-core-*.rpm' -o -name 'kernel-modules-[0-9]*.rpm')
    mkdir -p "$BATS_TEST_TMPDIR/config/slipway/keyrings"
    cp "$rocky/key.gpg" "$BATS_TEST_TMPDIR/config/slipway/keyrings/rocky-9.gpg"
    XDG_CONFIG_HOME=$BATS_TEST_TMPDIR/config "$slipway" build "${files[@]}" --os rhel9 "${smallest[@]}" --output "$BATS_TEST_TMPDIR/output" \
        >"$BATS_TEST_TMPDIR/said" 2>&1 || { cat "$BATS_TEST_TMPDIR/said" && return 1; }
    says 'the build root is made from Rocky Linux 9'
    jq -e '[.root_packages[].name] | index("rocky-release")' "$BATS_TEST_TMPDIR/output/lock.json"
    jq -e '.images[0].tag == "1-5.14.0-427.13.1.el9_4.x86_64-rhel9"' "$BATS_TEST_TMPDIR/output/images.json"
}

@test "a disk that fills while a root is made: said so, and the cache is good" {
    mkdir "$BATS_TEST_TMPDIR/small"
    mount -t tmpfs -o size=300m tmpfs "$BATS_TEST_TMPDIR/small"
    TMPDIR=$BATS_TEST_TMPDIR/small refuse 17 "$el9" "${smallest[@]}" --cache "$BATS_TEST_TMPDIR/small/cache" || {
        umount "$BATS_TEST_TMPDIR/small"
        return 1
    }
    [[ -z $(ls -d "$BATS_TEST_TMPDIR"/small/cache/stages/build-root-[0-9a-f]* 2>/dev/null) ]]
    umount "$BATS_TEST_TMPDIR/small"
}

@test "Ubuntu 22.04: both images from a mirror that is a folder" {
    build "$ubuntu" "${smallest[@]}"
    open_image gpu
    [[ $(modinfo -F vermagic "$image/usr/lib/modules/6.8.0-45-generic/updates/nvidia/nvidia.ko") == '6.8.0-45-generic '* ]]
    jq -e '.images[0].tag == "1-6.8.0-45-generic-ubuntu22.04"' "$BATS_TEST_TMPDIR/output/images.json"
    jq -e '[.root_packages[] | select(.root == "build-root").name] | index("gcc-12")' "$BATS_TEST_TMPDIR/output/lock.json"
    # What is in the image itself, of the runtime base, is there, too.
    jq -e '[.root_packages[] | select(.root == "runtime-base").name] | index("kmod") and index("ibverbs-utils")' "$BATS_TEST_TMPDIR/output/lock.json"
    build "$ubuntu" --nvidia none --ofed tests/real/smallest-ofed
    jq -e '.images[0].tag | endswith("6.8.0-45-generic-ubuntu22.04-amd64")' "$BATS_TEST_TMPDIR/output/images.json"
}

# bats test_tags=full
@test "Ubuntu 22.04: the reference OFED is made of the distribution's own kernel source" {
    local version=6.8.0-45.45~22.04.1 root=$BATS_TEST_TMPDIR/source
    local tree=$root/usr/src/linux-source-6.8.0
    world=$BATS_TEST_TMPDIR/world
    cp -al "$ubuntu" "$world"
    mkdir -p "$tree" "$BATS_TEST_TMPDIR/debian"
    (cd "$BATS_TEST_TMPDIR" && apt-get download linux-source-6.1 && dpkg-deb -x linux-source-6.1_*.deb debian)
    mv "$BATS_TEST_TMPDIR"/debian/usr/src/linux-source-6.1.tar.xz "$tree/linux-source-6.8.0.tar.xz"
    ln -s linux-source-6.8.0/linux-source-6.8.0.tar.xz "$root/usr/src/"
    (
        work=$BATS_TEST_TMPDIR
        export GNUPGHOME=$world/gnupg
        source "$top/tests/worlds/deb.bash"
        deb_build "$root" "$world/srv/pool/main/l" linux-hwe-6.8-source-6.8.0 "$version" all linux-hwe-6.8
        rm -r "$world/srv/dists/jammy-updates" # hard links
        deb_suite "$world/srv" jammy-updates jammy main=pool/main/l universe=pool/none restricted=pool/restricted multiverse=pool/multiverse
    )
    gpgconf --homedir "$world/gnupg" --kill all
    build "$world" --nvidia none --ofed reference
    jq -e '.packages[] | select(.purpose == "ofed-source") | .name == "linux-hwe-6.8-source-6.8.0"' "$BATS_TEST_TMPDIR/output/lock.json"
    jq -e '.images[0] | .proof == "holds" and (.tag | endswith("-reference-6.8.0-45-generic-ubuntu22.04-amd64"))' \
        "$BATS_TEST_TMPDIR/output/images.json"
}

@test "a list that has expired, of a suite that is alive: refused, and taken with the option that is there for it" {
    local release suite
    world=$BATS_TEST_TMPDIR/world
    cp -al "$ubuntu" "$world"
    for suite in "$world"/srv/dists/*; do
        release=$suite/InRelease
        gpg --homedir "$world/gnupg" --batch --quiet --decrypt "$release" 2>/dev/null |
            sed '/^Date:/a Valid-Until: Thu, 01 Jan 2026 00:00:00 UTC' >"$BATS_TEST_TMPDIR/Release"
        rm "$release"
        gpg --homedir "$world/gnupg" --batch --quiet --clearsign --output "$release" "$BATS_TEST_TMPDIR/Release"
    done
    gpgconf --homedir "$world/gnupg" --kill all
    refuse 13 "$world" "${smallest[@]}" --cache "$BATS_TEST_TMPDIR/cache"
    says 'expired on 2026-01-01 00:00 UTC: '
    says 'try: accept the expired list: --allow-expired'
    [[ -z $(ls -d "$BATS_TEST_TMPDIR"/cache/stages/* 2>/dev/null) ]]
    run "$slipway" resolve --os ubuntu22.04 --keyring "$world/key.gpg" --mirror "ubuntu=file://$world/srv" --allow-expired 6.8.0-45-generic
    echo "$output"
    ((status == 0))
    [[ $output == *Valid-Until* ]]
}

# The kernel's compiler, as the distribution calls it, is in a root of its packages; both drivers compile there, and the tags
# name the release. Those compilers are Debian's under other versions where Debian has none that is so old (tests/worlds).
both_images() {
    local world=$1 compiler=$2 release=$3
    shift 3
    build "$world" --nvidia tests/real/smallest-nvidia --force "$@"
    jq -e --arg tag "-$release" '.images[0].tag | contains($tag)' "$BATS_TEST_TMPDIR/output/images.json"
    [[ $(jq -r .compiler.name "$BATS_TEST_TMPDIR/output/lock.json") == "$compiler" ]]
    build "$world" --nvidia none --ofed tests/real/smallest-ofed "$@"
    jq -e --arg tag "-$release" '.images[0].tag | contains($tag)' "$BATS_TEST_TMPDIR/output/images.json"
}

# bats test_tags=full
@test "Enterprise Linux 8: both images by gcc 8" {
    both_images "$("$top/tests/worlds/make-world" rhel8)" gcc-8 rhel8
}

# bats test_tags=full
@test "Oracle Linux 8 with a UEK: both images by gcc-toolset-11, and the release is named for it" {
    both_images "$("$top/tests/worlds/make-world" oracle8)" gcc-11 ol8 --os-version 8.10
}

# bats test_tags=full
@test "CentOS 7: both images of its own kernel, and of a custom one of the field by --kernel-from" {
    local world custom
    world=$("$top/tests/worlds/make-world" centos7)
    custom=$(sed -n 's/^custom=//p' "$world/world.conf")
    # The world's assembler is Debian's, whose calls are of a relocation that a 3.10 takes by a backport only: a doubt.
    both_images "$world" gcc-4.8 centos7 --force
    jq -e '.images[0].proof == "cannot-tell"' "$BATS_TEST_TMPDIR/output/images.json"
    "$slipway" build --kernel-from "$world"/custom/kernel-devel-*.rpm --kernel-from "$world"/custom/kernel-[0-9]*.rpm --force \
        --os centos7 --keyring "$world/key.asc" --mirror "centos-vault=file://$world/srv" "${smallest[@]}" --output "$BATS_TEST_TMPDIR/custom"
    jq -e --arg tag "1-$custom-centos7-unproven" '.images[0].tag == $tag' "$BATS_TEST_TMPDIR/custom/images.json"
    one_verdict "$BATS_TEST_TMPDIR/custom" --kernel "$world"/custom/kernel-devel-*.rpm --kernel "$world"/custom/kernel-[0-9]*.rpm --os centos7
}

# bats test_tags=full
@test "SUSE Linux Enterprise 15 SP6: both images by gcc 7" {
    both_images "$("$top/tests/worlds/make-world" sles15.6)" gcc-7 sles15.6
}

# bats test_tags=full
@test "Amazon Linux 2: both images by gcc10-gcc, of a repository of the kernel's series" {
    both_images "$("$top/tests/worlds/make-world" amzn2)" gcc-10 amzn2
}

# bats test_tags=full
@test "Amazon Linux 2023: both images by gcc 11" {
    both_images "$("$top/tests/worlds/make-world" amzn2023)" gcc-11 amzn2023
}

# bats test_tags=full
@test "Photon 5: both images by gcc 12, whose g++ is in the same package" {
    both_images "$("$top/tests/worlds/make-world" photon5)" gcc-12 photon5.0
}

# toolchain [OPTION…]: the compile image that build has made, or takes, with these options.
toolchain() {
    "$slipway" build --kernel newest --os debian12 --dry-run --json "$@" 2>/dev/null |
        sed -n 's/.*"stage":"toolchain","key":"\([0-9a-f]\{16\}\).*/localhost\/slipway\/build-debian12-gcc-12:\1/p'
}

@test "a vendor's image instead of a root: its own package manager is used" {
    local name=localhost/slipway-test/vendor container made source=$BATS_TEST_TMPDIR/source
    # A source that no build has met: its compile image is there afterwards, whatever was removed from the storage.
    cp -r tests/real/smallest-nvidia "$source"
    find "$source" -name '*.c' -exec sed -i "1i /* $(cat /proc/sys/kernel/random/uuid) */" {} +
    "$slipway" build --kernel newest --os debian12 --nvidia "$source" --force --output "$BATS_TEST_TMPDIR/first" >/dev/null
    # That image has what is wanted: its apt is a double that says so.
    container=$(buildah from --quiet --pull-never "$(toolchain --nvidia "$source" --force)")
    printf '#!/bin/sh\necho "asked: $*" >>/asked\n' >"$(buildah mount "$container")/usr/bin/apt-get"
    chmod 755 "$(buildah mount "$container")/usr/bin/apt-get"
    buildah commit --quiet "$container" "$name" >/dev/null
    buildah rm "$container" >/dev/null
    "$slipway" build --kernel newest --os debian12 "${smallest[@]}" --base-image "$name" --output "$BATS_TEST_TMPDIR/output"
    made=$(toolchain "${smallest[@]}" --base-image "$name")
    container=$(buildah from --quiet --pull-never "$made")
    grep -q '^asked: install .* gcc g++ make .* gcc-12 ' "$(buildah mount "$container")/asked"
    buildah rm "$container" >/dev/null
    # The next run's is another one.
    buildah rmi "$name" "$made" >/dev/null
}
