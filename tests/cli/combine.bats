#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# slipway combine, with images that have modules of our own making, in a storage of the file's own.

load helpers
load modules
load images

setup_file() {
    use_storage
    gpu_root a "$first" 24.07 0x1111
    gpu_root b "$first" 24.10 0x2222
    gpu_root c "$second" 24.07 0x3333 revision=7 kernel_module_type=open "chips=$(printf '%04x ' {7680..7880})"
    gpu_root same "$first" 24.07.1 0x1111
    gpu_root unproven "$second" 24.07 0x3333 proof=cannot-tell
    nic_root nic "$first"
    nic_root nic-second "$second" modules=mlx5_core
    nic_root nic-third 6.1.0-57-amd64
    nic_root nic-changed "$first"
    make_module "$work/nic-changed/usr/lib/modules/$first/updates/ofed/mlx5_core.ko" mlx5_core "krel=$first" version=24.10
    gpu_root newer "$first" 24.07 0x1111 version=550.1
    gpu_root elsewhere "$second" 24.07 0x1111 os=debian13
    gpu_root arm "$second" 24.07 0x3333
    # e_machine, elf(5).
    find "$work/arm" -name '*.ko' -exec sh -c 'printf "\267" | dd of="$1" bs=1 seek=18 conv=notrunc status=none' _ {} \;
    gpu_root evil ../../evil 24.07 0x1111
    gpu_root changed "$first" 24.10 0x2222
    make_module "$work/changed/usr/lib/modules/$first/updates/nvidia/nvidia.ko" nvidia "krel=$first" exports=nvidia_p2p_get_pages:0x12
    gpu_root opened "$first" 24.07 0x1111 kernel_module_type=open
    gpu_root closed "$first" 24.07 0x1111 kernel_module_type=proprietary
    make_module "$work/closed/usr/lib/modules/$first/updates/nvidia/nvidia.ko" nvidia "krel=$first" exports=nvidia_p2p_get_pages:0x13
    local kind
    for kind in open proprietary; do
        gpu_root "alone-$kind" "$first" none 0 "kernel_module_type=$kind"
        rm "$work/alone-$kind/usr/lib/modules/$first/updates/nvidia/nvidia-peermem.ko"
    done
    gpu_root closed-24.10 "$first" 24.10 0x2222 kernel_module_type=proprietary
    make_module "$work/closed-24.10/usr/lib/modules/$first/updates/nvidia/nvidia.ko" nvidia "krel=$first" exports=nvidia_p2p_get_pages:0x13
    gpu_root el-9.4 5.14.0-427.13.1.el9_4.x86_64 24.07 0x1111 os=rhel9 os_id=rhel os_version=9.4
    gpu_root el-9.6 5.14.0-570.12.1.el9_6.x86_64 24.07 0x1111 os=rhel9 os_id=rhel os_version=9.6
    # As an earlier Slipway's: it says nothing of the nodes.
    gpu_root el-old 5.14.0-611.5.1.el9_7.x86_64 24.07 0x1111 os=rhel9
    gpu_root addons "$first" 24.07 0x1111 kernel_module_type=open revision=7 "addons=gdrcopy:2.5.1 nvidia-fs:2.17.5"
    gpu_root addons-second "$second" 24.07 0x3333 kernel_module_type=open "addons=gdrcopy:2.5.1 nvidia-fs:2.17.5"
    gpu_root addons-other 6.1.0-57-amd64 24.07 0x3333 kernel_module_type=open "addons=gdrcopy:2.4.4"
    mkdir -p "$work/addons/usr/lib/slipway/kit"
    echo kit=1 >"$work/addons/usr/lib/slipway/kit/kit.conf"
    mkdir -p "$work/nothing/etc"
    local name
    for name in a b c el-9.4 el-9.6 el-old same unproven nic nic-second nic-third nic-changed newer elsewhere arm evil changed nothing opened closed closed-24.10 \
        addons addons-second addons-other \
        alone-open alone-proprietary; do
        pack "$name"
    done
}

setup() {
    use_storage
}

@test "two kernels, and two OFEDs of one of them: all of it is in one image, with the tag that the operator asks for" {
    run_slipway 0 combine "$work/a.tar" "$work/b.tar" "localhost/made-c" --output "$BATS_TEST_TMPDIR/out"
    says "localhost/slipway/driver:535.1.2-debian12" "2 kernels" "$first  nvidia-peermem for OFED 24.07, OFED 24.10" \
        "sh $BATS_TEST_TMPDIR/out/push.sh REGISTRY" "kubectl apply -f $BATS_TEST_TMPDIR/out/nvidia-driver.yaml"
    grep -qx '    version: "535.1.2"' "$BATS_TEST_TMPDIR/out/cluster-policy.patch.yaml"
    grep -qx '    usePrecompiled: false' "$BATS_TEST_TMPDIR/out/cluster-policy.patch.yaml"
    grep -qx '      enabled: true' "$BATS_TEST_TMPDIR/out/cluster-policy.patch.yaml"
    grep -q 'os_release.VERSION_ID: "12"' "$BATS_TEST_TMPDIR/out/nvidia-driver.yaml"
    # Files of another hand are not replaced.
    mkdir "$BATS_TEST_TMPDIR/mine"
    echo mine >"$BATS_TEST_TMPDIR/mine/push.sh"
    run_slipway 9 combine "$work/a.tar" "$work/b.tar" --output "$BATS_TEST_TMPDIR/mine"
    says "slipway did not write $BATS_TEST_TMPDIR/mine/push.sh"
    # By its ID while the storage has it, else from the archive beside the script.
    mkdir "$BATS_TEST_TMPDIR/bin"
    # shellcheck disable=SC2016
    printf '%s\n' '#!/bin/sh' 'echo "buildah $*"' '[ "$1" != inspect ] || [ -e stored ]' >"$BATS_TEST_TMPDIR/bin/buildah"
    chmod +x "$BATS_TEST_TMPDIR/bin/buildah"
    local id
    id=$(jq -r '.images[0].id' "$BATS_TEST_TMPDIR/out/images.json")
    PATH=$BATS_TEST_TMPDIR/bin:$PATH run sh "$BATS_TEST_TMPDIR/out/push.sh" r.example/a
    [ "$status" -eq 0 ]
    says "buildah push $id docker://r.example/a/driver:535.1.2-debian12"
    touch "$BATS_TEST_TMPDIR/out/stored"
    sed -i 's|>/dev/null||' "$BATS_TEST_TMPDIR/out/push.sh"
    PATH=$BATS_TEST_TMPDIR/bin:$PATH run sh "$BATS_TEST_TMPDIR/out/push.sh" r.example/a
    [[ $output != *pull* ]]
    rm "$BATS_TEST_TMPDIR/out/stored"
    PATH=$BATS_TEST_TMPDIR/bin:$PATH run sh "$BATS_TEST_TMPDIR/out/push.sh" r.example/a
    says "buildah pull --quiet oci-archive:gpu.oci.tar"
    run sh "$BATS_TEST_TMPDIR/out/push.sh"
    [ "$status" -eq 2 ]
    says "usage: sh push.sh registry.example/drivers"
    unpack_archive "$BATS_TEST_TMPDIR/out/gpu.oci.tar" "$BATS_TEST_TMPDIR/new"
    local root=$BATS_TEST_TMPDIR/new/root
    local facts=$root/usr/lib/slipway/kernels
    cmp "$root/usr/lib/modules/$second/updates/nvidia/nvidia.ko" "$work/c/usr/lib/modules/$second/updates/nvidia/nvidia.ko"
    [ -f "$root/usr/lib/modules/$second/modules.dep" ]
    cmp "$root/usr/lib/modules/$first/updates/nvidia/nvidia-peermem.ko" "$work/a/usr/lib/modules/$first/updates/nvidia/nvidia-peermem.ko"
    cmp "$facts/$first/peermem/0/nvidia-peermem.ko" "$work/a/usr/lib/modules/$first/updates/nvidia/nvidia-peermem.ko"
    cmp "$facts/$first/peermem/1/nvidia-peermem.ko" "$work/b/usr/lib/modules/$first/updates/nvidia/nvidia-peermem.ko"
    diff "$facts/$first/peermem/1/peermem.conf" - <<<$'ofed_version=24.10\nofed_exporter=ib_uverbs\ncrc=0x00002222'
    grep -q 24.10 "$facts/$first/peermem/1/ofed.symvers.zst"
    [ ! -e "$facts/$second/peermem" ]
    grep -qx "krel=$first $second" "$root/etc/slipway/image.conf"
    grep -qx "krel=$second" "$facts/$second/image.conf"
    # What a node asks of them, in whole.
    grep -qx kernel_module_type=open "$facts/$second/image.conf"
    grep -q 'chips=1e00 .* 1ec8' "$facts/$second/image.conf"
    grep -q "$second" "$facts/$second/nvidia.symvers"
    jq -e --arg krels "$first $second" '.config.Labels | .["io.slipway.krel"] == $krels and .["io.slipway.proof"] == "holds"
        and .["io.slipway.proof.modules"] == "5" and .["io.slipway.proof.loading"] == "5"' "$config"
    jq -e '.kernels[0].peermem | map(.crc) == ["0x00001111", "0x00002222"]' "$BATS_TEST_TMPDIR/out/images.json"
}

@test "a combined image takes another kernel, and keeps its own" {
    run_slipway 0 combine "$work/a.tar" "$work/b.tar" --output "oci-archive:$BATS_TEST_TMPDIR/ab.tar"
    run_slipway 0 combine "$work/c.tar" "$BATS_TEST_TMPDIR/ab.tar" --output "oci-archive:$BATS_TEST_TMPDIR/abc.tar"
    says "$second  nvidia-peermem for OFED 24.07" "$first  nvidia-peermem for OFED 24.07, OFED 24.10"
    # The first image's revision.
    says "localhost/slipway/driver:535.1.2-7-debian12" 'driver.version="535.1.2-7"'
    unpack_archive "$BATS_TEST_TMPDIR/abc.tar" "$BATS_TEST_TMPDIR/new"
    local facts=$BATS_TEST_TMPDIR/new/root/usr/lib/slipway/kernels
    grep -qx version=535.1.2 "$BATS_TEST_TMPDIR/new/root/etc/slipway/image.conf"
    grep -qx revision=7 "$BATS_TEST_TMPDIR/new/root/etc/slipway/image.conf"
    grep -q "$first" "$facts/$first/nvidia.symvers"
    cmp "$facts/$first/peermem/1/nvidia-peermem.ko" "$work/b/usr/lib/modules/$first/updates/nvidia/nvidia-peermem.ko"
}

@test "one image has the tags that all versions of the operator ask for, on nodes of each minor release" {
    run_slipway 0 combine "$work/el-9.4.tar" "$work/el-9.6.tar" "$work/el-old.tar" --output "$BATS_TEST_TMPDIR/out"
    says "gpu image  localhost/slipway/driver:535.1.2-rhel9 "
    [ "$(grep -c '^push gpu.oci.tar .* driver:535.1.2-rhel9' "$BATS_TEST_TMPDIR/out/push.sh")" = 4 ]
    [[ $(<"$BATS_TEST_TMPDIR/out/nvidia-driver.yaml") != *VERSION_ID* ]]
    jq -e '.images[0] | .tag == "535.1.2-rhel9" and .also == ["localhost/slipway/driver:535.1.2-rhel9.4",
        "localhost/slipway/driver:535.1.2-rhel9.6", "localhost/slipway/driver:535.1.2-rhel9.7"]' "$BATS_TEST_TMPDIR/out/images.json"
    local tag id
    id=$(buildah inspect --type image --format '{{.FromImageID}}' localhost/slipway/driver:535.1.2-rhel9)
    for tag in rhel9.4 rhel9.6 rhel9.7; do
        [ "$(buildah inspect --type image --format '{{.FromImageID}}' "localhost/slipway/driver:535.1.2-$tag")" = "$id" ]
    done
    # The archive has one image by one name, which every tool copies.
    [ "$(tar -xOf "$BATS_TEST_TMPDIR/out/gpu.oci.tar" index.json | jq '.manifests | length')" = 1 ]
    unpack_archive "$BATS_TEST_TMPDIR/out/gpu.oci.tar" "$BATS_TEST_TMPDIR/new"
    grep -qx os_version=9.6 "$BATS_TEST_TMPDIR/new/root/usr/lib/slipway/kernels/5.14.0-570.12.1.el9_6.x86_64/image.conf"
    # A tag that was taken away comes back.
    buildah rmi localhost/slipway/driver:535.1.2-rhel9.6 >/dev/null
    run_slipway 0 combine "$work/el-9.4.tar" "$work/el-9.6.tar" --os-version 9.6
    says "GPU Operator before 26.7" 'driver.version="535.1.2"' \
        "buildah push localhost/slipway/driver:535.1.2-rhel9.6 docker://REGISTRY/driver:535.1.2-rhel9.6"
    [[ $output != *rhel9.4* ]]
    run_slipway 0 combine "$work/el-9.4.tar" "$work/el-9.6.tar" --os-version 9.6 --gpu-operator 26.3 --registry r.example/a
    says "buildah push localhost/slipway/driver:535.1.2-rhel9.6 docker://r.example/a/driver:535.1.2-rhel9.6"
    [[ $output != *"docker://r.example/a/driver:535.1.2-rhel9"$'\n'* ]]
    buildah inspect --type image localhost/slipway/driver:535.1.2-rhel9.6 >/dev/null
}

@test "gdrdrv and nvidia-fs keep their names and values, --revision is the tag's; one that not all kernels have is noted" {
    load registry
    start_registry
    run_slipway 0 combine "$work/addons.tar" "$work/addons-second.tar" --output "$BATS_TEST_TMPDIR/out" --push "$registry/drivers"
    says "pushed  $registry/drivers/driver:535.1.2-7-debian12@sha256:" "pushed  $registry/drivers/gdrdrv:2.5.1-7-debian12@sha256:" \
        "pushed  $registry/drivers/nvidia-fs:2.17.5-7-debian12@sha256:"
    stop_registry
    [[ $(<"$BATS_TEST_TMPDIR/out/cluster-policy.patch.yaml") == *$'\n  gdrcopy:\n    enabled: true\n'*$'\n    image: gdrdrv\n    version: "2.5.1-7"\n  gds:\n'*$'\n    version: "2.17.5-7"' ]]
    grep -qx '  kernelModuleType: open' "$BATS_TEST_TMPDIR/out/nvidia-driver.yaml"
    jq -e '.addons | map("\(.reference) \(.version)") == ["localhost/slipway/gdrdrv:2.5.1-7-debian12 2.5.1-7",
        "localhost/slipway/nvidia-fs:2.17.5-7-debian12 2.17.5-7"]' "$BATS_TEST_TMPDIR/out/images.json"
    [ "$(buildah inspect --type image --format '{{.FromImageID}}' localhost/slipway/gdrdrv:2.5.1-7-debian12)" = \
        "$(jq -r '.images[0].id' "$BATS_TEST_TMPDIR/out/images.json")" ]
    # As build prints them, for an image that compiles; the combined image takes another kernel, and keeps them.
    run_slipway 0 combine "$work/addons.tar" "$work/addons-second.tar" --revision 9 --output "oci-archive:$BATS_TEST_TMPDIR/two.tar"
    says 'driver.version="535.1.2-9"; it compiles for kernels that it has no modules for' \
        "gdrdrv  the same image, for the operator's container" 'gdrcopy.version="2.5.1-9"' \
        'GPU Operator: gds.enabled=true, gds.repository=REGISTRY, gds.image=nvidia-fs, gds.version="2.17.5-9"'
    unpack_archive "$BATS_TEST_TMPDIR/two.tar" "$BATS_TEST_TMPDIR/new"
    grep -qx revision=9 "$BATS_TEST_TMPDIR/new/root/etc/slipway/image.conf"
    jq -e '.config.Labels["org.opencontainers.image.version"] == "535.1.2-9"' "$config"
    run_slipway 0 combine "$BATS_TEST_TMPDIR/two.tar" "$work/addons-other.tar" --json
    jq -e 'select(.event == "result") | has("addons") | not' <<<"$output"
    run_slipway 0 combine "$BATS_TEST_TMPDIR/two.tar" "$work/addons-other.tar"
    says "gdrcopy is not of one version for all kernels" "nvidia-fs is not of one version for all kernels"
    # The network operator's tools read the revision in the container's environment.
    run_slipway 0 combine "$work/nic.tar" "$work/nic-second.tar" --revision 2 --output "oci-archive:$BATS_TEST_TMPDIR/nic.tar"
    says "doca-driver:24.07-0.6.1.0-2-debian12-amd64"
    unpack_archive "$BATS_TEST_TMPDIR/nic.tar" "$BATS_TEST_TMPDIR/nic"
    jq -e '.config.Env | contains(["NVIDIA_NIC_CONTAINER_VER=2"])' "$config"
    run_slipway 2 combine "$work/nic.tar" "$work/nic-second.tar" --revision two
    says "--revision: not a number"
}

@test "an nvidia-peermem that fits the same interface is left out, with a word about it" {
    # Another image has had the tag.
    buildah tag localhost/made-nothing localhost/slipway/driver:535.1.2-debian12
    run_slipway 0 combine "$work/a.tar" "$work/same.tar"
    says "the tag 535.1.2-debian12 was moved from another image"
    says "its nvidia-peermem for $first (OFED 24.07.1) is left out" "1 kernel"
    [[ $output != *"OFED 24.07, OFED"* ]]
}

@test "an image that was not proven makes the whole one not proven: its tag and labels say so" {
    run_slipway 0 combine "$work/a.tar" "$work/unproven.tar" --output "$BATS_TEST_TMPDIR/out"
    says "driver:535.1.2-debian12-unproven" "$second  nvidia-peermem for OFED 24.07  WARNING: not proven to load"
    jq -e '.images[0] | .proof == "cannot-tell" and .modules == 4 and .loading == 2' "$BATS_TEST_TMPDIR/out/images.json"
}

@test "an image of the open modules and one of the proprietary ones: both kinds are in one image" {
    run_slipway 0 combine "$work/opened.tar" "$work/closed.tar" --output "oci-archive:$BATS_TEST_TMPDIR/both.tar"
    says "$first  nvidia-peermem for OFED 24.07, open and proprietary modules"
    unpack_archive "$BATS_TEST_TMPDIR/both.tar" "$BATS_TEST_TMPDIR/new"
    local root=$BATS_TEST_TMPDIR/new/root modules=usr/lib/modules/$first facts=usr/lib/slipway/kernels/$first
    diff -r "$root/$modules" "$work/opened/$modules"
    diff -r "$root/$facts/other/modules" "$work/closed/$modules"
    grep -qx kernel_module_type=open "$root/$facts/image.conf"
    grep -qx kernel_module_type=proprietary "$root/$facts/other/facts/image.conf"
    cmp "$root/$facts/other/facts/ofed.symvers.zst" "$work/closed/$facts/ofed.symvers.zst"
    jq -e '.config.Labels["io.slipway.proof.modules"] == "4"' "$config"
    # With another kernel it keeps them; a second of the other kind has no place.
    run_slipway 0 combine "$BATS_TEST_TMPDIR/both.tar" "$work/c.tar"
    says "$first  nvidia-peermem for OFED 24.07, open and proprietary modules" "$second  nvidia-peermem"
    run_slipway 2 combine "$BATS_TEST_TMPDIR/both.tar" "$work/closed.tar"
    says "closed.tar: " "both.tar has the proprietary modules for $first already"
    run_slipway 2 combine "$work/opened.tar" "$BATS_TEST_TMPDIR/both.tar"
    says "has both kinds of modules for $first: name it before"
}

@test "both kinds stay where the first nvidia-peermem is a later image's" {
    run_slipway 0 combine "$work/alone-open.tar" "$work/alone-proprietary.tar" --output "oci-archive:$BATS_TEST_TMPDIR/both.tar"
    run_slipway 0 combine "$work/c.tar" "$BATS_TEST_TMPDIR/both.tar" "$work/opened.tar" --output "oci-archive:$BATS_TEST_TMPDIR/all.tar"
    says "$first  nvidia-peermem for OFED 24.07, open and proprietary modules"
    unpack_archive "$BATS_TEST_TMPDIR/all.tar" "$BATS_TEST_TMPDIR/new"
    local root=$BATS_TEST_TMPDIR/new/root modules=usr/lib/modules/$first facts=usr/lib/slipway/kernels/$first
    diff -r "$root/$modules" "$work/opened/$modules"
    diff -r "$root/$facts/other/modules" "$work/alone-proprietary/$modules"
    grep -qx kernel_module_type=proprietary "$root/$facts/other/facts/image.conf"
    # Two of the other kernel's, two of this one's first kind and one of its other.
    jq -e '.config.Labels["io.slipway.proof.modules"] == "5"' "$config"
}

@test "of the second kind there are several OFEDs where it was combined first" {
    run_slipway 2 combine "$work/opened.tar" "$work/closed.tar" "$work/closed-24.10.tar"
    says "closed-24.10.tar: " "closed.tar has the proprietary modules for $first already" \
        "try: slipway combine of the images with proprietary modules first"
    run_slipway 0 combine "$work/closed.tar" "$work/closed-24.10.tar" --output "oci-archive:$BATS_TEST_TMPDIR/second.tar"
    run_slipway 0 combine "$work/opened.tar" "$BATS_TEST_TMPDIR/second.tar" --output "oci-archive:$BATS_TEST_TMPDIR/all.tar"
    unpack_archive "$BATS_TEST_TMPDIR/all.tar" "$BATS_TEST_TMPDIR/new"
    local facts=$BATS_TEST_TMPDIR/new/root/usr/lib/slipway/kernels/$first
    grep -qx ofed_version=24.10 "$facts/other/facts/peermem/1/peermem.conf"
    [ ! -e "$facts/peermem" ]
}

@test "NIC images: kernels side by side with their headers, under the tag of an operator that lists no tags" {
    run_slipway 0 combine "$work/nic.tar" "$work/nic-second.tar" "$work/nic-third.tar" --output "$BATS_TEST_TMPDIR/out"
    says "nic image  localhost/slipway/doca-driver:24.07-0.6.1.0-debian12-amd64" "3 kernels" \
        "kubectl patch nicclusterpolicy"
    grep -qx '    forcePrecompiled: false' "$BATS_TEST_TMPDIR/out/nic-cluster-policy.yaml"
    grep -qx '    version: "24.07-0.6.1.0"' "$BATS_TEST_TMPDIR/out/nic-cluster-policy.yaml"
    unpack_archive "$BATS_TEST_TMPDIR/out/nic.oci.tar" "$BATS_TEST_TMPDIR/new"
    local root=$BATS_TEST_TMPDIR/new/root name krel
    for name in nic:$first nic-second:$second nic-third:6.1.0-57-amd64; do
        krel=${name#*:} name=${name%%:*}
        diff -r "$root/usr/lib/modules/$krel" "$work/$name/usr/lib/modules/$krel"
        diff -r "$root/usr/src/ofa_kernel/x86_64/$krel" "$work/$name/usr/src/ofa_kernel/x86_64/$krel"
        diff -r "$root/usr/lib/slipway/kernels/$krel" "$work/$name/usr/lib/slipway/kernels/$krel"
    done
    [ "$(readlink "$root/usr/src/ofa_kernel/default")" = "x86_64/$first" ]
    grep -qx "krel=$first $second 6.1.0-57-amd64" "$root/etc/slipway/image.conf"
    jq -e '.config.Labels["io.slipway.key"] == ""' "$config"
}

@test "what does not go together is refused, with both names and the reason" {
    run_slipway 2 combine "$work/a.tar" "$work/newer.tar"
    says "newer.tar has driver 550.1" "one version of the driver"
    run_slipway 2 combine "$work/a.tar" "$work/elsewhere.tar"
    says "elsewhere.tar is for debian13"
    run_slipway 2 combine "$work/a.tar" "$work/arm.tar"
    says "arm.tar is for aarch64," "a.tar for x86_64: an image is for one machine"
    run_slipway 2 combine "$work/a.tar" "$work/nic.tar"
    says "nic.tar is a nic image" "a.tar a gpu image"
    run_slipway 2 combine "$work/nic.tar" "$work/nic-changed.tar"
    says "nic.tar and " "their modules differ: mlx5_core.ko"
    run_slipway 2 combine "$work/a.tar" "$work/nothing.tar"
    says "nothing.tar: it has no /etc/slipway/image.conf"
    run_slipway 2 combine "$work/a.tar" "$work/evil.tar"
    says "no kernel release can be '../../evil'"
    run_slipway 2 combine "$work/a.tar" "$work/changed.tar"
    says "their modules differ beside nvidia-peermem: nvidia.ko"
}

@test "--push: in the registry by the digest of images.json; a tag of another image is left alone, and an unproven one is not pushed" {
    load registry
    start_registry
    # Not before its archive is where images.json says.
    mkdir -p "$BATS_TEST_TMPDIR/full/gpu.oci.tar/in-the-way"
    run_slipway 9 combine "$work/a.tar" "$work/b.tar" --output "$BATS_TEST_TMPDIR/full" --push "$registry/full"
    [ -z "$(skopeo inspect "docker://$registry/full/driver:535.1.2-debian12" 2>"$BATS_TEST_TMPDIR/said")" ]
    run_slipway 0 combine "$work/a.tar" "$work/b.tar" --output "$BATS_TEST_TMPDIR/out" --push "$registry/drivers"
    says "pushed  $registry/drivers/driver:535.1.2-debian12@sha256:"
    [ "$(skopeo inspect --format '{{.Digest}}' "docker://$registry/drivers/driver:535.1.2-debian12")" = "$(jq -r '.images[0].digest' "$BATS_TEST_TMPDIR/out/images.json")" ]
    # From there, too.
    run_slipway 0 combine "docker://$registry/drivers/driver:535.1.2-debian12" "$work/c.tar" --output "$BATS_TEST_TMPDIR/three"
    says "2 kernels"
    run_slipway 27 combine "$work/b.tar" "$work/a.tar" --push "$registry/drivers"
    says "stands for another image already"
    run_slipway 0 combine "$work/a.tar" "$work/unproven.tar" --push "$registry/drivers"
    says "is not pushed: it is not proven"
    stop_registry
    run_slipway 27 combine "$work/a.tar" "$work/b.tar" --push "$registry/drivers"
    says "the registry could not be asked"
    run_slipway 2 combine "$work/a.tar" "$work/b.tar" --push "https://$registry/drivers"
    run_slipway 2 combine "$work/a.tar" "$work/b.tar" --replace
}

@test "a command line that means nothing is refused before any work" {
    run_slipway 2 combine
    says "two to 64 images are needed"
    run_slipway 2 combine "$work/a.tar"
    says "but 1 is named"
    run_slipway 2 combine "$work/a.tar" "$work/../${work##*/}/a.tar"
    says "a.tar: given twice"
    run_slipway 2 combine "$work/a.tar" "$work/no-such-file.tar"
    says "no-such-file.tar"
    run_slipway 2 combine "$work/a.tar" "$work/b.tar" --output docker://registry/x
    says "try: for a registry: --output DIR --registry HOST/FOLDER, then sh DIR/push.sh"
    mkdir "$BATS_TEST_TMPDIR/out"
    cp "$work/a.tar" "$BATS_TEST_TMPDIR/out/gpu.oci.tar"
    run_slipway 2 combine "$BATS_TEST_TMPDIR/out/gpu.oci.tar" "$work/b.tar" --output "$BATS_TEST_TMPDIR/out"
    says "out/gpu.oci.tar is one of the images: give another place"
    cmp "$work/a.tar" "$BATS_TEST_TMPDIR/out/gpu.oci.tar"
}
