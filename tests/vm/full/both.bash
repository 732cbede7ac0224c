# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# What the cases of check-full share: images that were built for a kernel run on it, and end as they should.
# shellcheck source-path=SCRIPTDIR source=../drivers.bash
. "$(dirname "${BASH_SOURCE[0]}")/../drivers.bash"

top=$(realpath -m "$vm_folder/../..")
build=$(cd "$top" && realpath -m "${O:-build}")
export slipway=$build/slipway

# run_both KREL IMAGES: both containers on that kernel, in an order that makes the GPU container wait; served, unloaded.
# The guest is made by use_guest, by what the VM_ variables say.
run_both() {
    local krel=$1 images=$2
    use_guest "$krel"
    VM_IMAGES=$VM_BUILD/images/$krel.ext4
    export VM_IMAGES
    "$vm_folder/make-images-disk" "$VM_IMAGES" gpu="$images/gpu.oci.tar" nic="$images/nic.oci.tar"
    run_case <<'CASE'
. /test/drivers.sh
simulate
start gpu GPU_DIRECT_RDMA_ENABLED=true
wait_log gpu 'waiting wait-ofed' 30
start nic
wait_ready nic 90
wait_ready gpu 90
uname -r
expect_nic_serves
expect_gpu_serves
expect_loaded nvidia_peermem
stop_both
CASE
    [ "$status" -eq 0 ]
    [[ $output == *"$krel"* ]]
}

# A root file system of packages, as if they were installed: DIR FILE…
unpack_debs() {
    local folder=$1 deb
    shift
    mkdir -p "$folder"
    for deb in "$@"; do
        dpkg-deb -x "$deb" "$folder"
    done
}

# proof_holds IMAGES: every module of both images will load on their kernel, and the images say so.
proof_holds() {
    jq -r '.counts | "# \(.modules) modules: \(.will_load) will load, \(.will_not_load) will not, \(.cannot_tell) cannot tell"' "$1/proof.json" >&3
    jq -e '.verdict == "will load" and .counts.modules > 0 and .counts.will_load == .counts.modules' "$1/proof.json" >/dev/null || {
        jq -r '(.modules[] | select(.verdict != "will load") | "\(.path): \(.verdict)", .findings[].text), .set.findings[].text' "$1/proof.json"
        return 1
    }
    jq -e '[.images[].proof] | length > 0 and all(. == "holds")' "$1/images.json" >/dev/null
}
