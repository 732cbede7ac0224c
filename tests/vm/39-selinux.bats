#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# proves: the node's side
# Debian's kernel with SELinux in the place of AppArmor, enforcing a policy (selinux/policy.cil) by which nothing may be
# loaded that has a file's label.

load drivers

setup_file() {
    use_drivers
}

@test "SELinux refuses a container's files: the modules are loaded from memory, and that is reported" {
    secilc --handle-unknown=allow --policyvers=33 --output="$BATS_TEST_TMPDIR/policy" --filecontext=/dev/null \
        "$vm_folder/selinux/policy.cil"
    run_case --append 'security=selinux selinux=1' --add "$BATS_TEST_TMPDIR/policy" <<'CASE'
. /test/drivers.sh
simulate
mount -t selinuxfs selinuxfs /sys/fs/selinux
# It is taken in one piece.
dd if=/case/policy of=/sys/fs/selinux/load bs=1M 2>/dev/null
echo 1 >/sys/fs/selinux/enforce
start gpu GPU_DIRECT_RDMA_ENABLED=true
wait_log gpu 'waiting wait-ofed' 60
start nic
wait_ready nic 120
wait_ready gpu 120
expect_nic_serves
expect_gpu_serves
expect_loaded nvidia_peermem
for name in nvidia nvidia_uvm nvidia_peermem; do
    container_log_has gpu "$name: SELinux refused to load it from a container's file (EACCES); it was loaded from memory instead"
done
container_log_has nic 'mlx5_core: SELinux refused to load it'
stop_clean gpu
stop_clean nic
expect_nothing_left
CASE
    [ "$status" -eq 0 ]
}
