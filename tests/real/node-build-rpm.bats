#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2030,SC2031,SC2034,SC2154
# SPDX-License-Identifier: Apache-2.0
# Building on a node of Enterprise Linux 9 whose headers come from the repositories of dnf: a world's (tests/worlds), in whose
# root the driver is compiled as on a node (node.bash). The node has no network but the servers of a case. Its kernel does not
# run here: the role is called with --kernel.

load node
load ../worlds/world
load ../cli/httpd

setup_file() {
    top=$(realpath "$BATS_TEST_DIRNAME/../..")
    slipway=$(cd "$top" && realpath -m "${O:-build}")/slipway
    folder=$BATS_FILE_TMPDIR
    export top slipway folder
    use_world rhel9
    world_facts
    make_node "$folder" redhat-release kernel-core kernel-modules
    export krel
}

# make_node FOLDER PACKAGE…: FOLDER/image, of --sources-image for the world's kernel, as if it had no modules for that; and
# FOLDER/host, which has these packages and no headers, as the package manager leaves them.
make_node() {
    local image=$1/image host=$1/host built package rpm
    mkdir -p "$host/etc" "$host/usr/lib"
    # Of a mirror that is a folder of this machine: nodes get none from the image.
    "$slipway" build "${world_options[@]}" --kernel "$krel" --nvidia "$top/tests/real/smallest-nvidia" --force --sources-image \
        --output "$1/output" | tee "$1/said"
    built=$(buildah from --quiet --pull-never "$(jq -r '.images[0].id' "$1/output/images.json")")
    cp -a "$(buildah mount "$built")" "$image"
    buildah rm "$built" >/dev/null
    # As this machine's is: busybox's does not tell how a program ended.
    cp --remove-destination /usr/bin/timeout "$image/usr/bin/timeout"
    rm -rf "$image/usr/lib/modules/$krel" "$image/usr/lib/slipway/kernels/$krel" "$image"/usr/src/nvidia-*
    for package in "${@:2}"; do
        while read -r rpm; do
            (cd "$host" && rpm2cpio "$rpm" | cpio -id --quiet)
        done < <(find "$world/srv" -name "$package-[0-9]*.rpm" -o -name "$package-core-[0-9]*.rpm")
    done
    rm -rf "$host"/lib/modules/*/{build,source}
    depmod -b "$host" "$krel"
}

setup() {
    repository=$top
    mirror=$world/srv
    root=$BATS_TEST_TMPDIR/container
    cp -al "$folder/host" "$folder/image" "$BATS_TEST_TMPDIR"
    start_node "$BATS_TEST_TMPDIR"
}

# start_node FOLDER: the one that make_node made there.
start_node() {
    image=$1/image host=$1/host kept=$1/host/var/lib/slipway
    start_host "$host"
    nsenter --target "$first" --net ip link set lo up
}

teardown() {
    stop_httpd
    stop_host
}

# On the node's loopback: start_httpd and start_tls run python3.
python3() { exec nsenter --target "$first" --net python3 "$@"; }

# build: nvidia-driver build in a new container; what it says is in $BATS_TEST_TMPDIR/out.
build() {
    container "$image" "$root" timeout --foreground 300 nvidia-driver build --kernel "$krel" >"$BATS_TEST_TMPDIR/out" 2>&1 ||
        { cat "$BATS_TEST_TMPDIR/out" && return 1; }
    cat "$BATS_TEST_TMPDIR/out"
}

refuse_build() {
    ! build || return 1
}

says() { grep -qE -- "$1" "$BATS_TEST_TMPDIR/out"; }

# is_built N: what was compiled is for the kernel, by gcc N; the headers are kept, and nothing else of the build.
is_built() {
    local module=$root/upper/usr/lib/modules/$krel/updates/nvidia/nvidia.ko
    [[ $(modinfo -F vermagic "$module") == "$krel "* ]]
    readelf --string-dump=.comment "$module" | grep -q "GCC: (.*) $1\\."
    [[ $(ls "$kept/headers") == "$krel" && -z $(find "$kept" -maxdepth 1 -name 'tmp-*') ]]
}

# repo FILE ROOT [LINE…]: both repositories of the world below $http, with these options, as a file of /etc/yum.repos.d.
repo() {
    local file=$2/etc/yum.repos.d/$1.repo name
    mkdir -p "${file%/*}"
    for name in baseos appstream; do
        printf '%s\n' "[$name]" "name=\$name" "baseurl=$http/ok/content/dist/rhel9/\$releasever/\$basearch/$name/os/" "${@:3}" ""
    done >"$file"
}

@test "EL9: without a repository it is said what was asked, and where; nothing is compiled" {
    refuse_build
    says 'neither the image nor a repository of /etc/yum.repos.d names a mirror'
    says 'Install the package kernel-devel-5.14.0-427.13.1.el9_4.x86_64'
    mkdir -p "$image/etc/yum.repos.d"
    printf '%s\n' '[a' 'baseurl=http://x' '[b]' 'baseurl=ftp://me:secret@x' '[c]' 'mirrorlist=' '[d]' "gpgkey=$(head -c 100000 /dev/zero | tr '\0' x)" \
        >"$image/etc/yum.repos.d/hostile.repo"
    head -c 100000 /dev/urandom >"$image/etc/yum.repos.d/noise.repo"
    refuse_build
    says '/etc/yum.repos.d/hostile.repo: \[b\] is not used: neither http nor https'
    ! says 'secret' || false
}

@test "EL9: repoConfig: kernel-devel comes from the repositories of /etc/yum.repos.d, and a driver is compiled with it" {
    start_httpd
    repo site "$image" 'gpgcheck=0' 'gpgkey=file:///etc/pki/rpm-gpg/RPM-GPG-KEY-nowhere'
    build
    says "searching the package lists of rhel9, at the repositories of this container's /etc/yum.repos.d"
    says '\[baseos\] gpgcheck=0 is ignored'
    # The image has the key.
    says '\[baseos\] gpgkey file:///etc/pki/rpm-gpg/RPM-GPG-KEY-nowhere is not used: No such file'
    says 'headers fetched in .*; kept in /var/lib/slipway for the next start'
    is_built 11
    # Neither the kernel nor its modules were fetched.
    (($(asked '^200 .*kernel-devel-5.14.*\.rpm') == 1 && $(asked '\.rpm ') == 1))
    # The next start needs no network.
    stop_httpd
    httpd_pid=
    rm -r "$kept/modules"
    build
    says 'compiling driver'
    ! says 'searching the package lists' || false
    is_built 11
}

@test "EL9: a package that the repository's key did not sign is refused, also with gpgcheck=0" {
    local package
    mirror=$BATS_TEST_TMPDIR/srv
    cp -al "$world/srv" "$mirror"
    package=$(find "$mirror" -name 'kernel-devel-5.14*.rpm')
    cp --remove-destination "$(find "$world/srv" -name 'kernel-devel-5.14*.rpm')" "$package"
    world_key=$BATS_TEST_TMPDIR/gnupg
    mkdir -m 700 "$world_key"
    gpg --homedir "$world_key" --batch --quiet --passphrase '' --quick-generate-key 'Other <other@slipway.invalid>' rsa2048 sign never
    gpg --homedir "$world_key" --batch --quiet --armor --export >"$BATS_TEST_TMPDIR/other.asc"
    world_sign "$package"
    rm -r "${package%/*}/repodata"
    world_lists "${package%/*}"
    start_httpd
    repo site "$image" 'gpgcheck=0'
    refuse_build
    says "at the repositories of this container's /etc/yum.repos.d\): .*kernel-devel.*signed by the key .*, which is not in"
    [[ ! -e $kept/headers/$krel ]]
    # By its own key, which the repository's file names, it is good; and the image's does not count.
    mkdir -p "$image/etc/pki/rpm-gpg"
    cp "$BATS_TEST_TMPDIR/other.asc" "$image/etc/pki/rpm-gpg/RPM-GPG-KEY-other"
    repo site "$image" 'gpgkey=file:///etc/pki/rpm-gpg/RPM-GPG-KEY-other'
    build
    is_built 11
}

# bats test_tags=full
@test "EL9: a subscription as the operators mount it: the server sees its certificate, and certConfig's authority is believed" {
    make_certificates
    start_tls
    repo ../../run/secrets/redhat "$image" 'sslcacert=/etc/rhsm/ca/redhat-uep.pem' 'sslclientcert=/etc/pki/entitlement/42.pem' \
        'sslclientkey=/etc/pki/entitlement/42-key.pem'
    refuse_build
    says '/run/secrets/redhat.repo: \[baseos\] is not used: its sslcacert /etc/rhsm/ca/redhat-uep.pem: No such file'
    mkdir -p "$image"/run/secrets/{etc-pki-entitlement,rhsm/ca}
    cp "$BATS_TEST_TMPDIR/ca.pem" "$image/run/secrets/rhsm/ca/redhat-uep.pem"
    cp "$BATS_TEST_TMPDIR/stranger.pem" "$image/run/secrets/etc-pki-entitlement/42.pem"
    cp "$BATS_TEST_TMPDIR/stranger-key.pem" "$image/run/secrets/etc-pki-entitlement/42-key.pem"
    refuse_build
    says 'client certificate'
    cp "$BATS_TEST_TMPDIR/client.pem" "$image/run/secrets/etc-pki-entitlement/42.pem"
    cp "$BATS_TEST_TMPDIR/client-key.pem" "$image/run/secrets/etc-pki-entitlement/42-key.pem"
    build
    is_built 11
    # No copy of the key is left.
    [[ -z $(grep -rl 'PRIVATE KEY' "$root/upper" || true) ]]
    # The authority from certConfig instead, and the certificates where dnf has them.
    rm -r "$kept"
    mkdir -p "$image/etc/pki/ca-trust/extracted/pem" "$image/etc/pki/entitlement"
    cp "$BATS_TEST_TMPDIR/ca.pem" "$image/etc/pki/ca-trust/extracted/pem/site.pem"
    mv "$image"/run/secrets/etc-pki-entitlement/* "$image/etc/pki/entitlement/"
    rm "$image/run/secrets/redhat.repo"
    repo site "$image" 'sslclientcert=/etc/pki/entitlement/42.pem' 'sslclientkey=/etc/pki/entitlement/42-key.pem'
    build
    is_built 11
}

# bats test_tags=full
@test "EL9: the host's own /etc/yum.repos.d, its variables and a list of mirrors" {
    local path=content/dist/rhel9/9/x86_64
    mirror=$BATS_TEST_TMPDIR/srv
    cp -al "$world/srv" "$mirror"
    start_httpd
    echo "$http/ok/$path/appstream/os/" >"$mirror/appstream.list"
    printf '%s\n' '<?xml version="1.0"?><metalink version="3.0" xmlns="http://www.metalinker.org/"><file name="repomd.xml"><resources>' \
        '<url protocol="rsync">rsync://x.invalid/os/repodata/repomd.xml</url>' \
        "<url protocol=\"http\">$http/ok/$path/baseos/os/repodata/repomd.xml</url>" '</resources></file></metalink>' >"$mirror/baseos.list"
    mkdir -p "$host"/etc/{yum.repos.d,dnf/vars}
    echo "$http/ok" >"$host/etc/dnf/vars/site"
    printf '%s\n' '[baseos]' 'metalink=$site/baseos.list?arch=$basearch' '[appstream]' 'mirrorlist=${site}/appstream.list' \
        '[gone]' 'mirrorlist=$site/none.list' '[source]' 'baseurl=http://127.0.0.1:1/' 'enabled=0' >"$host/etc/yum.repos.d/el.repo"
    build
    says "at the repositories of the host's /etc/yum.repos.d"
    says 'headers fetched in'
    is_built 11
}

# bats test_tags=full
@test "SLES 15 SP6: the repositories of /etc/zypp/repos.d, with the credentials that their URLs name" {
    local path
    stop_host
    use_world sles15.6
    world_facts
    mkdir "$BATS_TEST_TMPDIR/sles"
    make_node "$BATS_TEST_TMPDIR/sles" sles-release kernel-default
    start_node "$BATS_TEST_TMPDIR/sles"
    mirror=$world/srv
    start_httpd
    mkdir -p "$image"/etc/zypp/{repos,credentials}.d
    for path in Updates/SLE-Module-Basesystem/15-SP6/x86_64/update Products/SLE-Module-Basesystem/15-SP6/x86_64/product; do
        printf '%s\n' "[${path%%/*}]" enabled=1 autorefresh=1 "baseurl=$http/secret/$path?credentials=SCCcredentials" ''
    done >"$image/etc/zypp/repos.d/rmt.repo"
    printf '%s\n' username=me password=other >"$image/etc/zypp/credentials.d/SCCcredentials"
    refuse_build
    says "at the repositories of this container's /etc/zypp/repos.d\): .*401"
    printf '%s\n' username=me password=secret >"$image/etc/zypp/credentials.d/SCCcredentials"
    build
    # gcc 7 is a double there (tests/worlds): Debian's 12.
    is_built 12
    ! grep -rl 'me:secret' "$root/upper" "$kept" || false
}
