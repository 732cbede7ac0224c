#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# slipway verify on what the VM loads: the built images, and a whole Debian kernel. No VM runs here; what it says the
# kernel would do is what 10-start-stop and 20-refusals see it do, and 60-agreement holds against a thousand modules.

bats_require_minimum_version 1.5.0
load drivers
load ../verdict

setup_file() {
    [ -f "$images_folder/images.json" ] || {
        echo "no images in $images_folder: run make images" >&2
        return 1
    }
    slipway=$(dirname "$images_folder")/slipway
    krel=$(images_krel)
    export slipway krel
    # The build has fetched this kernel: from here on its parts are in the cache.
    "$slipway" verify "$images_folder/nic.oci.tar" --kernel "$krel" --json >"$BATS_FILE_TMPDIR/nic.json"
}

verify() {
    run --separate-stderr "$slipway" verify "$@"
    echo "slipway verify $* -> $status"
    echo "$output" | head -60
    echo "$stderr"
}

# copy_out ARCHIVE FOLDER PATH…: files of an image, in another way than slipway's
copy_out() {
    local container root folder=$2
    container=$(buildah from --quiet --pull-never "oci-archive:$1")
    root=$(buildah mount "$container")
    mkdir -p "$folder"
    shift 2
    (cd "$root" && cp --parents -rt "$folder" "$@")
    buildah rm "$container" >/dev/null
}

@test "images.json has what the GPU image has of the userspace, and what Debian lacks" {
    local container root version file
    jq '.images[] | select(.role == "gpu").userspace' "$images_folder/images.json" >"$BATS_TEST_TMPDIR/userspace"
    version=$(jq -r .version "$BATS_TEST_TMPDIR/userspace")
    jq -e --arg smi "nvidia-smi=$version-" '.packages | any(startswith($smi))' "$BATS_TEST_TMPDIR/userspace"
    # Part of drivers since 545, and in no list of Debian 12.
    jq -e '.lacking | contains(["libnvidia-gpucomp"])' "$BATS_TEST_TMPDIR/userspace"
    jq -e --arg cuda "/usr/lib/x86_64-linux-gnu/libcuda.so.$version" '.files | contains([$cuda]) and length > 50' "$BATS_TEST_TMPDIR/userspace"
    container=$(buildah from --quiet --pull-never "oci-archive:$images_folder/gpu.oci.tar")
    root=$(buildah mount "$container")
    while read -r file; do
        [[ -e $root$file || -L $root$file ]] || echo "not in the image: $file"
    done < <(jq -r '.files[]' "$BATS_TEST_TMPDIR/userspace") >"$BATS_TEST_TMPDIR/missing"
    buildah rm "$container" >/dev/null
    cat "$BATS_TEST_TMPDIR/missing"
    [ ! -s "$BATS_TEST_TMPDIR/missing" ]
}

@test "the NIC image and the GPU image load together, every module of both" {
    verify "$images_folder/nic.oci.tar" "$images_folder/gpu.oci.tar" --kernel "$krel" --json
    [ "$status" -eq 0 ]
    [ "$(jq -r '.counts | .modules == .will_load and .modules > 15' <<<"$output")" = true ]
    [ "$(jq -r '.set.order | map(split("/")[-1]) | index("ib_uverbs.ko") < index("nvidia-peermem.ko")' <<<"$output")" = true ]
    [ "$(jq -r '[.modules[] | select(.name == "nvidia_peermem")][0].verdict' <<<"$output")" = "will load" ]
    one_verdict "$images_folder" --kernel "$krel"
    one_verdict "$images_folder/other" --kernel "$krel"
}

@test "with another OFED peermem alone is refused, with both CRCs and the exporter; exit 3" {
    verify "$images_folder/other/nic.oci.tar" "$images_folder/gpu.oci.tar" --kernel "$krel" --json
    [ "$status" -eq 3 ]
    [ "$(jq -r '[.modules[] | select(.verdict != "will load").name] | join(",")' <<<"$output")" = nvidia_peermem ]
    finding=$(jq -c '[.modules[].findings[] | select(.id == "symbol-version" and .symbol == "ib_register_peer_memory_client")][0]' <<<"$output")
    copy_out "$images_folder/other/nic.oci.tar" "$BATS_TEST_TMPDIR/nic" usr/src
    copy_out "$images_folder/gpu.oci.tar" "$BATS_TEST_TMPDIR/gpu" usr/lib/modules
    found=$(awk '$2 == "ib_register_peer_memory_client" { print $1 }' "$BATS_TEST_TMPDIR"/nic/usr/src/ofa_kernel/x86_64/*/Module.symvers)
    wanted=$(modprobe --dump-modversions "$(find "$BATS_TEST_TMPDIR/gpu" -name 'nvidia-peermem.ko*')" |
        awk '$2 == "ib_register_peer_memory_client" { print $1 }')
    [ "$(jq -r .found_crc <<<"$finding")" = "$found" ]
    [ "$(jq -r .wanted_crc <<<"$finding")" = "$wanted" ]
    [ "$(jq -r .exporter <<<"$finding")" = ib_uverbs ]
    verify "$images_folder/other/nic.oci.tar" "$images_folder/gpu.oci.tar" --kernel "$krel"
    [[ $output == *"nvidia_peermem"*"will not load"*"$wanted"*"ib_uverbs exports $found"* ]]
}

@test "the GPU image alone lacks what OFED exports, and OFED's symvers alone are enough" {
    verify "$images_folder/gpu.oci.tar" --kernel "$krel"
    [ "$status" -eq 3 ]
    [[ $output == *"needs ib_register_peer_memory_client"* ]]
    copy_out "$images_folder/nic.oci.tar" "$BATS_TEST_TMPDIR/nic" usr/src
    verify "$images_folder/gpu.oci.tar" --kernel "$krel" --with "$BATS_TEST_TMPDIR/nic/usr/src/ofa_kernel"
    [ "$status" -eq 0 ]
    verify "$images_folder/gpu.oci.tar" --kernel "$krel" --with "$images_folder/nic.oci.tar"
    [ "$status" -eq 0 ]
}

@test "signatures enforced: ours are refused, the kernel's own are not" {
    verify "$images_folder/nic.oci.tar" --kernel "$krel" --enforce-signatures --json
    [ "$status" -eq 3 ]
    [ "$(jq -r '[.modules[] | select(.path | test("/updates/")).verdict] | unique | join(",")' <<<"$output")" = "will not load" ]
    [ "$(jq -r '[.modules[] | select(.path | test("/kernel/")).verdict] | unique | join(",")' <<<"$output")" = "will load" ]
}

@test "every module of a whole Debian kernel loads on that kernel" {
    cache=${SLIPWAY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/slipway}
    modules=$(echo "$cache"/stages/modules-*/lib/modules/"$krel" | cut -d' ' -f1)
    verify "$modules" --kernel "$krel" --json
    [ "$status" -eq 0 ]
    [ "$(jq -r '.counts | .modules == .will_load and .modules > 3500' <<<"$output")" = true ]
    [ "$(jq -r '.set.order | length' <<<"$output")" = "$(find "$modules" -name '*.ko*' | wc -l)" ]
}
