#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# Enterprise Linux: kernels found by what packages provide, in repositories made by the real tools.

load helpers
load rpm-repository
load resolve

# el_kernel TREE KREL ARCH VARIANT RELEASE: TREE/{AppStream,BaseOS} as EL9 has them, or TREE/RT alone.
el9_kernel() {
    local tree=$1 krel=$2 arch=$3 variant=$4 release=$5 devel=$1/AppStream/$3/os base=$1/BaseOS/$3/os
    [[ $variant != -rt ]] || devel=$tree/RT/$arch/os base=$tree/RT/$arch/os
    rpm_kernel "$devel" "$krel" "$arch" 5.14.0 "$release" <<EOF
kernel$variant-devel devel kernel-devel-uname-r kernel$variant-devel-$arch=5.14.0-$release
kernel$variant-devel-matched nothing <kernel$variant-devel=5.14.0-$release <kernel$variant-core=5.14.0-$release
EOF
    rpm_kernel "$base" "$krel" "$arch" 5.14.0 "$release" <<EOF
kernel$variant-core nothing kernel$variant-core-uname-r kernel-uname-r
kernel$variant-modules-core core kernel$variant-modules-core-uname-r
kernel$variant-modules modules kernel$variant-modules-uname-r <kernel$variant-modules-core-uname-r
kernel$variant-modules-extra nothing kernel$variant-modules-extra-uname-r
kernel$variant-uki-virt nothing kernel-uname-r
EOF
}

setup_file() {
    local www=$BATS_FILE_TMPDIR/www folder
    rpm_key
    el9_kernel "$www/rocky/9" 5.14.0-503.11.1.el9_5.x86_64 x86_64 '' 503.11.1.el9_5
    el9_kernel "$www/rocky/9" 5.14.0-503.15.1.el9_5.x86_64 x86_64 '' 503.15.1.el9_5
    el9_kernel "$www/rocky/9" 5.14.0-503.15.1.el9_5.x86_64+rt x86_64 -rt 503.15.1.el9_5
    rpm_payload=w2.xzdio el9_kernel "$www/rocky/9" 5.14.0-503.15.1.el9_5.aarch64+64k aarch64 -64k 503.15.1.el9_5
    el9_kernel "$www/vault/9.4" 5.14.0-427.13.1.el9_4.x86_64 x86_64 '' 427.13.1.el9_4
    # EL8: all in BaseOS, and the modules that every machine needs are in kernel-core.
    rpm_payload=w9.gzdio rpm_kernel "$www/rocky/8/BaseOS/x86_64/os" 4.18.0-553.el8_10.x86_64 x86_64 4.18.0 553.el8_10 <<'EOF'
kernel-devel devel kernel-devel-uname-r
kernel-core core kernel-core-uname-r kernel-uname-r
kernel-modules modules kernel-modules-uname-r
EOF
    rpm_kernel "$www/centos/7.6.1810/updates/x86_64" 3.10.0-957.12.2.el7.x86_64 x86_64 3.10.0 957.12.2.el7 <<'EOF'
kernel all kernel-uname-r
kernel-devel devel kernel-devel-uname-r
EOF
    for folder in "$www"/rocky/9/*/*/os "$www"/rocky/8/*/*/os "$www"/vault/9.4/*/*/os "$www"/centos/*/*/*; do
        rpm_publish "$folder" gz
    done
    rpm_publish "$www/rocky/8/AppStream/x86_64/os" xz
    rpm_publish "$www/centos/7.6.1810/os/x86_64" bz2
    # The same packages as Red Hat's content delivery network has them.
    mkdir -p "$www/cdn/content/dist/rhel9/9/x86_64" "$www/cdn/content/eus/rhel9/9.4/x86_64"
    for folder in AppStream BaseOS; do
        cp -a "$www/rocky/9/$folder/x86_64" "$www/cdn/content/dist/rhel9/9/x86_64/${folder,,}"
        cp -a "$www/vault/9.4/$folder/x86_64" "$www/cdn/content/eus/rhel9/9.4/x86_64/${folder,,}"
    done
    serve "$www"
}

teardown_file() {
    serve_end
}

setup() {
    rocky=(--mirror "rocky=$served/rocky" --mirror "rocky-vault=$served/vault" --keyring "$rpm_key")
}

@test "a kernel's headers and modules come from AppStream and BaseOS" {
    resolve 0 5.14.0-503.11.1.el9_5.x86_64 --os rocky9 "${rocky[@]}"
    has headers kernel-devel /rocky/9/AppStream/x86_64/os/kernel-devel-5.14.0-503.11.1.el9_5.x86_64.rpm
    has modules kernel-core /rocky/9/BaseOS/x86_64/os/kernel-core-5.14.0-503.11.1.el9_5.x86_64.rpm
    has modules kernel-modules-core /kernel-modules-core-5.14.0-503.11.1.el9_5.x86_64.rpm
    has modules kernel-modules /kernel-modules-5.14.0-503.11.1.el9_5.x86_64.rpm
    has modules kernel-modules-extra /kernel-modules-extra-5.14.0-503.11.1.el9_5.x86_64.rpm
    count 5
    [[ $(jq -r .lock.compiler.name <<<"$output") == gcc-11 ]]
    went found appstream
}

@test "a build notes which minor release its tags have, and takes that of the nodes" {
    make_gpu_sources
    local build=(build 5.14.0-503.11.1.el9_5.x86_64 --os rocky9 "${rocky[@]}" --nvidia "$BATS_TEST_TMPDIR/nvidia" --userspace "$BATS_TEST_TMPDIR/userspace")
    run "$SLIPWAY" "${build[@]}"
    says "tags with a minor release have that of the kernel, 9.5; for nodes that keep this kernel on a newer one (pinned, EUS): --os-version"
    run "$SLIPWAY" "${build[@]}" --os-version 9.6
    says "the tags are for nodes with VERSION_ID 9.6; the kernel, of 9.5, is a pinned or EUS one"
    run "$SLIPWAY" "${build[@]}" --os-version 9.5
    echo "$output"
    [[ $output != *"pinned"* ]]
}

@test "a real-time kernel is its variant's packages, from RT" {
    resolve 0 5.14.0-503.15.1.el9_5.x86_64+rt --os rocky9 "${rocky[@]}"
    has headers kernel-rt-devel /rocky/9/RT/x86_64/os/kernel-rt-devel-5.14.0-503.15.1.el9_5.x86_64.rpm
    has modules kernel-rt-core /kernel-rt-core-5.14.0-503.15.1.el9_5.x86_64.rpm
    has modules kernel-rt-modules /kernel-rt-modules-5.14.0-503.15.1.el9_5.x86_64.rpm
    count 5
}

@test "a kernel with 64k pages is found for its architecture" {
    resolve 0 5.14.0-503.15.1.el9_5.aarch64+64k --os rocky9 --arch aarch64 "${rocky[@]}"
    has headers kernel-64k-devel /rocky/9/AppStream/aarch64/os/kernel-64k-devel-5.14.0-503.15.1.el9_5.aarch64.rpm
    has modules kernel-64k-modules-core /kernel-64k-modules-core-5.14.0-503.15.1.el9_5.aarch64.rpm
    count 5
}

@test "EL8 has all of it in BaseOS" {
    resolve 0 4.18.0-553.el8_10.x86_64 --os rocky8 "${rocky[@]}"
    has headers kernel-devel /rocky/8/BaseOS/x86_64/os/kernel-devel-4.18.0-553.el8_10.x86_64.rpm
    count 3
}

@test "headers are fetched, their signature is checked, and they are a tree" {
    lint 5.14.0-503.11.1.el9_5.x86_64 --os rocky9 "${rocky[@]}"
    lint 5.14.0-503.15.1.el9_5.x86_64+rt --os rocky9 "${rocky[@]}"
    lint 4.18.0-553.el8_10.x86_64 --os rocky8 "${rocky[@]}"
    lint 3.10.0-957.12.2.el7.x86_64 --os centos7 --mirror "centos-vault=$served/centos" --keyring "$rpm_key"
    run_slipway 0 resolve 5.14.0-503.15.1.el9_5.x86_64 --os rocky9 "${rocky[@]}" --tree "$BATS_TEST_TMPDIR/tree"
    [ -e "$BATS_TEST_TMPDIR/tree/lib/modules/5.14.0-503.15.1.el9_5.x86_64/build/Makefile" ]
}

@test "an unsigned package, or one that was changed, is refused" {
    local tree=$BATS_TEST_TMPDIR/9/AppStream/x86_64/os
    mkdir -p "$BATS_TEST_TMPDIR/9"
    cp -a "$BATS_FILE_TMPDIR/www/rocky/9/." "$BATS_TEST_TMPDIR/9/"
    ours=(lint 5.14.0-503.11.1.el9_5.x86_64 --drivers nvidia --os rocky9 --mirror "rocky=$BATS_TEST_TMPDIR" --keyring "$rpm_key")
    # Its list is made anew each time, so that only the package itself shows it.
    printf x | dd of="$tree/kernel-devel-5.14.0-503.11.1.el9_5.x86_64.rpm" bs=1 seek=15000 conv=notrunc status=none
    createrepo_c --quiet "$tree"
    run_slipway 12 "${ours[@]}"
    says kernel-devel "the package was changed"
    cp "$BATS_FILE_TMPDIR/www/rocky/9/AppStream/x86_64/os/kernel-devel-5.14.0-503.11.1.el9_5.x86_64.rpm" "$tree/"
    rpmsign --delsign "$tree/kernel-devel-5.14.0-503.11.1.el9_5.x86_64.rpm" >/dev/null 2>&1
    createrepo_c --quiet "$tree"
    run_slipway 13 "${ours[@]}" --refresh
    says kernel-devel "neither the package nor its list is signed" --allow-unsigned
    run_slipway 0 "${ours[@]}" --allow-unsigned
    says "because of --allow-unsigned: kernel-devel"
}

@test "a lock names neither an unknown repository nor another package than there is" {
    local lock=$BATS_TEST_TMPDIR/lock.json changed=$BATS_TEST_TMPDIR/changed.json
    run_slipway 0 resolve 5.14.0-503.11.1.el9_5.x86_64 --os rocky9 "${rocky[@]}" -o "$lock"
    run_slipway 0 lint --lock "$lock" --drivers nvidia "${rocky[@]}"
    jq '(.packages[] | select(.name == "kernel-devel")).version = "5.14.0-999.el9_5"' "$lock" >"$changed"
    rm -r "$BATS_TEST_TMPDIR/cache"
    run_slipway 12 lint --lock "$changed" --drivers nvidia "${rocky[@]}"
    says "expects kernel-devel 5.14.0-999.el9_5 x86_64" "but the file is kernel-devel 5.14.0-503.11.1.el9_5 x86_64"
    jq '.packages[].repository = "elsewhere"' "$lock" >"$changed"
    rm -r "$BATS_TEST_TMPDIR/cache"
    run_slipway 13 lint --lock "$changed" --drivers nvidia --mirror "rocky=$served/rocky"
    says '"elsewhere", which is not in the catalogue of rocky9' --keyring
}

@test "what was unpacked with --allow-unsigned is no answer for a run without" {
    local tree=$BATS_TEST_TMPDIR/9/AppStream/x86_64/os
    mkdir -p "$BATS_TEST_TMPDIR/9"
    cp -a "$BATS_FILE_TMPDIR/www/rocky/9/." "$BATS_TEST_TMPDIR/9/"
    ours=(lint 5.14.0-503.11.1.el9_5.x86_64 --drivers nvidia --os rocky9 --mirror "rocky=$BATS_TEST_TMPDIR" --keyring "$rpm_key")
    rpmsign --delsign "$tree/kernel-devel-5.14.0-503.11.1.el9_5.x86_64.rpm" >/dev/null 2>&1
    createrepo_c --quiet "$tree"
    run_slipway 0 "${ours[@]}" --allow-unsigned
    run_slipway 13 "${ours[@]}"
    says "neither the package nor its list is signed"
}

@test "a kernel that has rotated out is found in the vault of its minor release" {
    resolve 0 5.14.0-427.13.1.el9_4.x86_64 --os rocky9 "${rocky[@]}"
    has headers kernel-devel /vault/9.4/AppStream/x86_64/os/kernel-devel-5.14.0-427.13.1.el9_4.x86_64.rpm
    went absent appstream
    went found vault-appstream
}

@test "without the vault's mirror the answer says where it was not looked" {
    resolve 5 5.14.0-427.13.1.el9_4.x86_64 --os rocky9 --mirror "rocky=$served/rocky" --keyring "$rpm_key"
    tells 5.14.0-427.13.1.el9_4.x86_64 5.14.0-503.11.1.el9_5.x86_64
    went skipped vault-appstream
}

@test "CentOS 7's kernels are resolved to their minor release" {
    resolve 0 3.10.0-957.12.2.el7.x86_64 --os centos7 --mirror "centos-vault=$served/centos" --keyring "$rpm_key"
    has headers kernel-devel /7.6.1810/updates/x86_64/kernel-devel-3.10.0-957.12.2.el7.x86_64.rpm
    has modules kernel /7.6.1810/updates/x86_64/kernel-3.10.0-957.12.2.el7.x86_64.rpm
    count 2
}

@test "Red Hat's EUS is asked when the distribution itself no longer has it" {
    resolve 0 5.14.0-427.13.1.el9_4.x86_64 --os rhel9 --mirror "$served/cdn" --keyring "$rpm_key"
    has headers kernel-devel /content/eus/rhel9/9.4/x86_64/appstream/os/kernel-devel-5.14.0-427.13.1.el9_4.x86_64.rpm
    went absent appstream
}

@test "a name that several distributions use is refused with theirs" {
    resolve 2 5.14.0-503.11.1.el9_5.x86_64 "${rocky[@]}"
    tells almalinux9 oracle9 rhel9 rocky9 --os
}

@test "a kernel that no list has is refused with the nearest" {
    resolve 5 5.14.0-503.12.1.el9_5.x86_64 --os rocky9 "${rocky[@]}"
    tells 5.14.0-503.11.1.el9_5.x86_64 5.14.0-503.15.1.el9_5.x86_64
    [[ $output != *"with such names"* ]]
}

@test "a kernel that is named as another distribution names its kernels: whose it may be" {
    resolve 5 6.1.0-56-amd64 --os rocky9 "${rocky[@]}"
    tells "try: use another --os than rocky9: kernels with such names are made by debian12"
    resolve 5 5.14.0-503.11.1.el9_5.x86_64 --os rocky8 "${rocky[@]}"
    tells "try: use another --os than rocky8: kernels with such names are made by almalinux9, " rocky9
    resolve 5 6.1.0-0.deb11.52-amd64 --os rocky9 "${rocky[@]}"
    tells "kernels with such names are made by debian11, which Slipway does not support"
}

@test "a mirror that is a folder which is not there: that is named" {
    resolve 15 5.14.0-503.11.1.el9_5.x86_64 --os rocky9 --keyring "$rpm_key" --mirror "rocky=$BATS_TEST_TMPDIR/unmounted/rocky"
    tells "there is no $BATS_TEST_TMPDIR/unmounted on this machine"
}

@test "a kernel's name is never a pattern" {
    local name
    for name in '5.14.0-503.*.el9_5.x86_64' '5.14.0-503.1[15].1.el9_5.x86_64' '5.14.0-503.11.1.el9_5.x86_64;true'; do
        resolve 22 "$name" --os rocky9 "${rocky[@]}"
    done
    resolve 5 5.14.0-503.11.1.el9_5.x86_6 --os rocky9 "${rocky[@]}"
}

@test "a list that was cut, changed or is not there has each its own code" {
    local os=$BATS_FILE_TMPDIR/www/rocky/9/AppStream/x86_64/os tree=$BATS_TEST_TMPDIR/9/AppStream/x86_64/os primary
    mkdir -p "$BATS_TEST_TMPDIR/9"
    cp -a "$BATS_FILE_TMPDIR/www/rocky/9/." "$BATS_TEST_TMPDIR/9/"
    primary=$(echo "$tree"/repodata/*-primary.xml.gz)
    ours=(--os rocky9 --mirror "rocky=$BATS_TEST_TMPDIR" --keyring "$rpm_key")
    resolve 0 5.14.0-503.11.1.el9_5.x86_64 "${ours[@]}"
    # A list that was checked is not read again as long as repomd.xml says that it is the same.
    truncate -s -20 "$primary"
    resolve 0 5.14.0-503.11.1.el9_5.x86_64 "${ours[@]}" --refresh
    resolve 12 5.14.0-503.11.1.el9_5.x86_64 "${ours[@]}" --cache "$BATS_TEST_TMPDIR/cut"
    tells primary
    cp "$os"/repodata/*-primary.xml.gz "$primary"
    printf x | dd of="$primary" bs=1 seek=40 conv=notrunc status=none
    resolve 12 5.14.0-503.11.1.el9_5.x86_64 "${ours[@]}" --cache "$BATS_TEST_TMPDIR/changed"
    head -c 500 "$os/repodata/repomd.xml" >"$tree/repodata/repomd.xml"
    resolve 14 5.14.0-503.11.1.el9_5.x86_64 "${ours[@]}" --refresh
    rm "$tree/repodata/repomd.xml"
    resolve 15 5.14.0-503.11.1.el9_5.x86_64 "${ours[@]}" --refresh
}

@test "an unknown mirror is asked for by name" {
    resolve 25 5.14.0-503.11.1.el9_5.x86_64 --os rocky9
    tells rocky --mirror
    resolve 2 5.14.0-503.11.1.el9_5.x86_64 --os rocky9 --mirror "rocki=$served"
    tells rocki "rocky, rocky-vault"
}
