# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# What the cases about arm64 machines share: a whole run of both images.
# shellcheck source-path=SCRIPTDIR source=both.bash
. "$(dirname "${BASH_SOURCE[0]}")/both.bash"

# run_chain [OPTION of run-vm…]: the node's own driver is loaded and comes back, both serve, and say so.
run_chain() {
    run_case "$@" <<'CASE'
. /test/drivers.sh
swapped="ib_core ib_uverbs rdma_cm rdma_ucm mlx5_core mlx5_ib"
builds() {
    local module
    for module in $swapped; do
        echo "$module $(hexdump -ve '1/1 "%02x"' "/sys/module/$module/notes/.note.gnu.build-id")"
    done
}
simulate
[ "$(uname -m)" = aarch64 ]
if [ -d /sys/firmware/acpi ]; then echo "firmware: ACPI"; else echo "firmware: device tree"; fi
echo "pages: $(sed -n 's/^KernelPageSize: *//p' /proc/self/smaps | head -n 1)"
host_load mlx5_ib
host_load rdma_ucm
builds >/tmp/inbox
start gpu GPU_DIRECT_RDMA_ENABLED=true
wait_log gpu 'waiting wait-ofed' 120
start nic
wait_ready nic 120
builds >/tmp/ofed
! grep -Fxf /tmp/inbox /tmp/ofed || fail "the node's own modules are still loaded"
wait_ready gpu 120
expect_nic_serves
expect_gpu_serves
expect_loaded nvidia_peermem
[ "$(readlink /run/mellanox/drivers/usr/src/ofa_kernel/default)" = "aarch64/$(uname -r)" ]
exec_in gpu nvidia-driver probe_nvidia_peermem
probe nic startup
probe nic liveness
exec_in gpu slipway-init status
exec_in gpu slipway-init status --json
stop_clean gpu
expect_unloaded nvidia nvidia_uvm nvidia_modeset nvidia_peermem
stop_clean nic
builds >/tmp/after
cmp /tmp/inbox /tmp/after || fail "the node's own modules are not back"
[ ! -e /run/mellanox/drivers/.driver-ready ] || fail ".driver-ready is still there"
rmmod simdev
! dmesg | grep -E 'WARNING: |BUG: |Oops' || fail "the kernel is not content"
CASE
    [ "$status" -eq 0 ]
    status_json >"$BATS_TEST_TMPDIR/status"
    [ "$(jq -r '.roles[] | .role + " " + .state' "$BATS_TEST_TMPDIR/status")" = $'gpu ready\nnic ready' ]
    [ "$(jq -r '.kernel_facts.machine, .driver.loaded, .peermem.loaded' "$BATS_TEST_TMPDIR/status")" = $'aarch64\ntrue\ntrue' ]
    [ "$(jq -r '.devices[] | .kind + " " + (.driver // "none")' "$BATS_TEST_TMPDIR/status")" = $'gpu nvidia\nnic none' ]
}
