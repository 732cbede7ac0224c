#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# proves: the node's side
# Of the operator's contract (operator-gpu.md, 1.3 to 1.6) what its two manifests in 70-daemonset.bats do not have: the
# other variables and mounts, and what the pod's other containers and the operands look for in the driver root.
# Parameters are in 36-parameters.bats, vGPU's files and NVFM_CONFIG_* in 50-daemons.bats, USE_HOST_MOFED and RDMA without
# a NIC in 45-peermem.bats, arguments in 33-arguments.bats.

load podman

setup_file() {
    use_guest "$(images_krel)"
    derive_image gpu-smi "$images_folder/gpu.oci.tar" put_nvidia_smi
    use_images gpu="$(image_name gpu-smi)"
}

# contract <CASE: with the operator's startup probe.
contract() {
    {
        echo '. /test/drivers.sh'
        cat
    } >"$BATS_TEST_TMPDIR/contract"
    run_case --add "$(startup_probe)" <"$BATS_TEST_TMPDIR/contract"
    [ "$status" -eq 0 ]
}

@test "every variable of the operator, and those of users, at once: the driver starts, and no value of a secret is shown" {
    contract <<'CASE'
simulate
start gpu KERNEL_MODULE_TYPE=open OPEN_KERNEL_MODULES_ENABLED=true GDS_ENABLED=true GDRCOPY_ENABLED=true \
    OPENSHIFT_VERSION=4.18 RHCOS_IMAGE_MISSING=true RHCOS_VERSION=418.94 \
    HTTP_PROXY=http://u:hush@p HTTPS_PROXY=http://u:hush@p NO_PROXY=hush http_proxy=http://u:hush@p https_proxy=http://u:hush@p \
    no_proxy=hush UBUNTU_PRO_TOKEN=hush DNF_RELEASEVER=9.4 RHEL_VERSION=9.4 DISABLE_VGPU_VERSION_CHECK=true \
    TARGETARCH=amd64 DRIVER_BRANCH=535 DRIVER_TYPE=passthrough VGPU_LICENSE_SERVER_TYPE=NLS NVFM_CONFIG_FABRIC_MODE=0
wait_ready gpu 120
expect_gpu_serves
for name in KERNEL_MODULE_TYPE OPEN_KERNEL_MODULES_ENABLED RHCOS_IMAGE_MISSING RHCOS_VERSION HTTP_PROXY HTTPS_PROXY NO_PROXY \
    http_proxy https_proxy no_proxy UBUNTU_PRO_TOKEN DNF_RELEASEVER RHEL_VERSION; do
    container_log gpu | grep 'not needed' | grep -q "$name" || fail "not said: $name"
done
refute "a secret is shown" grep -r hush /run/nvidia/slipway /run/nvidia/validations /vm/containers/gpu/now/log /var/log
probe gpu startup
cat /run/nvidia/validations/.driver-ctr-ready
stop_clean gpu
expect_nothing_left
CASE
    [[ $output == *"GDRCOPY_ENABLED: true"*"GDS_ENABLED: true"* ]]
}

@test "every mount that a setting of the operator adds: the driver starts, and reads none of what it does not need" {
    contract <<'CASE'
simulate
mkdir -p /vm/host/repo /vm/host/certs /vm/host/modules
echo 'not a repository' >/vm/host/repo/x.list
echo 'not a certificate' >/vm/host/certs/ca.pem
cat >/vm/mounts <<'MOUNTS'
/vm/host/repo/x.list /etc/apt/sources.list.d/x.list file rbind,rprivate,ro
/vm/host/repo/x.list /etc/yum.repos.d/x.repo file rbind,rprivate,ro
/vm/host/certs/ca.pem /usr/local/share/ca-certificates/ca.crt file rbind,rprivate,ro
/vm/host/certs/ca.pem /etc/pki/ca-trust/extracted/pem/ca.pem file rbind,rprivate,ro
/vm/host/certs /run/secrets/rhsm dir rbind,rprivate,ro
/vm/host/certs /etc/pki/entitlement-host dir rbind,rprivate,ro
/vm/host/modules /run/host/lib/modules dir rbind,rprivate,ro
/vm/host/repo/x.list /etc/nvidia/nvidia-topologyd.conf file rbind,rprivate,ro
/sys/fs/cgroup /sys/fs/cgroup dir rbind,rprivate,rw
/vm/host/vfio /dev/vfio dir rbind,rprivate,rw
MOUNTS
start gpu
wait_ready gpu 120
expect_gpu_serves
probe gpu startup
[ "$(exec_in gpu cat /etc/apt/sources.list.d/x.list)" = 'not a repository' ]
stop_clean gpu
expect_nothing_left
CASE
}

@test "the pod's other containers and the operands find in the driver root what they look for" {
    contract <<'CASE'
driver=/run/nvidia/driver
simulate
start gpu
wait_ready gpu 120
# Containers 3 and 4 wait for this, in a container of their own.
start peermem
exec_in peermem timeout 30 sh -c 'until [ -d /run/nvidia/driver/usr/src ] && lsmod | grep nvidia; do sleep 1; done'
# What they compile against.
version=$(cat /sys/module/nvidia/version)
[ -s "$driver/usr/src/nvidia-$version/Module.symvers" ]
# The device plugin's and the validator's.
exec_in peermem lsmod | grep -q '^nvidia_uvm '
chroot "$driver" /sbin/modprobe -n nvidia
[ -x "$driver/usr/bin/nvidia-smi" ]
chroot "$driver" nvidia-smi
# A node that anyone makes in one /dev is in the other.
mknod "$driver/dev/slipway-test" c 1 3
exec_in gpu test -c /dev/slipway-test
[ -c "$driver/dev/nvidiactl" ]
[ -c "$driver/dev/nvidia0" ]
# Where the kernel looks for firmware, on the host.
[ "$(cat /sys/module/firmware_class/parameters/path)" = "$driver/lib/firmware" ]
# The image's own, which the mount of the operator's folder at /lib/firmware hides in the container.
[ -d "$driver/lib/firmware/nvidia" ]
crun kill peermem TERM
exits peermem 0 60
stop_clean gpu
CASE
}

@test "the DaemonSet's memory limit of 300 MiB is enough, and what is used of it is reported" {
    contract <<'CASE'
memory_limit=$((300 * 1024 * 1024))
simulate
start gpu
wait_ready gpu 120
[ "$(cat /sys/fs/cgroup/gpu/memory.max)" = "$memory_limit" ]
echo "peak $(($(cat /sys/fs/cgroup/gpu/memory.peak 2>/dev/null || cat /sys/fs/cgroup/gpu/memory.current) / 1048576)) MiB"
grep -q 'oom_kill 0' /sys/fs/cgroup/gpu/memory.events
stop_clean gpu
CASE
    printf '%s\n' "${lines[@]}" | grep -E '^peak ' >&3 || true
}
