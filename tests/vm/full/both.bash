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

# proof_holds IMAGES: every module of both images will load on their kernel.
proof_holds() {
    jq -r '"# \(length) modules: \([.[].verdict] | group_by(.) | map("\(length) \(.[0])") | join(", "))"' "$1/proof.json" >&3
    jq -e 'length > 0 and all(.verdict == "will load")' "$1/proof.json" >/dev/null || {
        jq -r '.[] | select(.verdict != "will load") | "\(.module): \(.verdict)", .findings[]' "$1/proof.json"
        return 1
    }
}
