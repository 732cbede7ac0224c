#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# proves: the node's side
# Both driver images on a real kernel: they start in any order, serve, and leave nothing behind. The NIC
# container first: 30-signals.

load drivers

setup_file() {
    use_drivers
}

@test "GPU container first: it waits for OFED, then both serve and unload; status, metrics and probes say so, and an unknown parameter is said once" {
    run_case <<'CASE'
. /test/drivers.sh
simulate
mkdir /vm/drivers
echo NVreg_EnableStreamMemOP=1 >/vm/drivers/nvidia.conf
start gpu GPU_DIRECT_RDMA_ENABLED=true
wait_log gpu 'waiting wait-ofed: the NIC driver container has not written .*at most [0-9]+ s more' 30
expect_unloaded nvidia
exec_in gpu grep -r NVreg_EnableStreamMemOP=1 /etc/modprobe.d || fail "a startup probe that is nvidia-smi does not find it"
exec_in gpu slipway-init status | grep -x ' *! NVreg_EnableStreamMemOP=1 has no effect: nvidia has no such parameter'
grep 'slipway_role_ready{role="gpu"} 0' /run/nvidia/slipway/metrics/gpu.prom
exec_in gpu slipway-init status | grep '^gpu      starting  at wait-ofed' || fail "status does not say what is waited for"
start nic
wait_ready nic 90
wait_ready gpu 90
expect_nic_serves
expect_gpu_serves
expect_loaded nvidia_peermem
[ "$(mounts_at /run/mellanox/drivers/usr/src)" = 1 ]
[ "$(container_log gpu | grep -c 'NVreg_EnableStreamMemOP=1" has no effect on nvidia')" = 1 ] || fail "it is not reported once"
[ "$(container_log gpu | grep -c 'parameters of nvidia: ')" = 1 ] || fail "its parameters are not reported once"
exec_in gpu nvidia-driver probe_nvidia_peermem
probe nic startup
probe nic liveness
exec_in gpu slipway-init status
exec_in gpu slipway-init status --json
cat /run/nvidia/slipway/metrics/gpu.prom
grep 'slipway_role_ready{role="nic"} 1' /run/mellanox/drivers/slipway/metrics/nic.prom
stop_both
grep 'slipway_role_ready{role="gpu"} 0' /run/nvidia/slipway/metrics/gpu.prom
grep 'slipway_role_info{role="gpu",state="stopped",reason="STOPPED"} 1' /run/nvidia/slipway/metrics/gpu.prom
grep 'slipway_driver_loaded 0' /run/nvidia/slipway/metrics/gpu.prom
CASE
    [ "$status" -eq 0 ]
    json=$(status_json)
    [ "$(jq -r '.roles[] | .role + " " + .state' <<<"$json")" = $'gpu ready\nnic ready' ]
    [ "$(jq -r '.roles[0].phases | map(.step) | index("load") != null' <<<"$json")" = true ]
    [ "$(jq -r '.driver.loaded, .driver.open' <<<"$json")" = $'true\ntrue' ]
    [ "$(jq -r '.driver.version == .driver.user_space_version' <<<"$json")" = true ]
    [ "$(jq -r '.kernel_facts.modversions, .kernel_facts.module_unloading' <<<"$json")" = $'true\ntrue' ]
    [ "$(jq -r '.devices[] | .kind + " " + .address + " " + (.driver // "none")' <<<"$json")" = $'gpu 0000:40:00.0 nvidia\nnic 0000:40:01.0 none' ]
    [ "$(jq -r '.devices[0].node, .devices[0].minor' <<<"$json")" = $'true\n0' ]
    [ "$(jq -r '.peermem.loaded, .peermem.ofed_ready' <<<"$json")" = $'true\ntrue' ]
    [ "$(jq -r '.fabric.kind, .fabric.management' <<<"$json")" = $'none\nnone' ]
    [ "$(jq -r '[.modules[].name] | index("nvidia_peermem") != null' <<<"$json")" = true ]
    [[ $output == *'slipway_role_ready{role="gpu"} 1'* ]]
    [[ $output == *'slipway_phase_duration_seconds{role="gpu",step="load"} '* ]]
    [[ $output == *'slipway_driver_info{version="'*'",open="true"} 1'* ]]
    [[ $output == *'slipway_peermem_loaded 1'* ]]
}

@test "the peermem container loads what the driver container has not, and its probe shows it" {
    run_case <<'CASE'
. /test/drivers.sh
simulate
start peermem
wait_log peermem 'waiting wait-ofed' 30
start nic
wait_log peermem 'waiting wait-nvidia' 90
refute "the probe says that peermem is there" exec_in peermem nvidia-driver probe_nvidia_peermem
start gpu
wait_ready peermem 90
expect_loaded nvidia_peermem
exec_in peermem nvidia-driver probe_nvidia_peermem
wait_ready gpu 90
stop_clean peermem
stop_both
CASE
    [ "$status" -eq 0 ]
}

# The GPU operator mounts OFED's sources themselves, HostToContainer, beside the folder above them.
@test "a GPU container that has mounted OFED's sources sees the next NIC container's, also another image's" {
    run_case <<'CASE'
. /test/drivers.sh
simulate
sources=/run/mellanox/drivers/usr/src
symvers=$sources/ofa_kernel/default/Module.symvers
start nic
wait_ready nic 90
start gpu GPU_DIRECT_RDMA_ENABLED=true
wait_ready gpu 90

# follows CONTAINER: what it sees is shown by the NIC container that runs.
follows() {
    exec_in nic touch "/usr/src/mark.$round"
    exec_in "$1" cat "$symvers" | cmp - "$symvers" || fail "$1 has other symvers in round $round"
    exec_in "$1" test -e "$sources/mark.$round" || fail "$1 sees a dead container's sources in round $round"
}

# The kubelet removes a container that has ended.
restart() {
    kill_hard nic
    wait_exit nic 10
    start "$@"
    wait_ready nic 90
    rm -r "/vm/containers/nic/$((round - 1))/upper"
}

round=1
follows gpu
for round in 2 3; do
    restart nic
    expect_nic_serves
    follows gpu
done
round=4
restart nic:nic-other
expect_nic_serves
follows gpu
CASE
    [ "$status" -eq 0 ]
}
