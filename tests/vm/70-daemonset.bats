#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2030,SC2031,SC2154
# SPDX-License-Identifier: Apache-2.0
# proves: the node's side
# The GPU operator's own DaemonSets, run by podman on a node of Debian 13's programs: of podman/gpu-rdma.yaml, which has the
# shape of theirs, and shared/operator-manifests where that is beside the checkout, unchanged but for the fields of the
# downward API, with every probe on its timings. tests/vm/README.md says what stands for what.

load podman

setup_file() {
    use_podman
}

@test "the pods of our manifests are those of the operator's, and only the downward API's fields are changed" {
    local name whose
    for name in driver-minimal.yaml:ours driver-rdma.yaml:ours driver-minimal.yaml driver-rdma.yaml; do
        IFS=: read -r name whose <<<"$name"
        use_manifest "$name" "$whose"
        [ ! -e "$manifests/$name" ] || diff <(shape "$manifests/$name") <(shape "$manifest")
        run diff "$manifest" "$BATS_TEST_TMPDIR/manifest.yaml"
        [ "$status" -eq 1 ]
        # Three lines that name a field are one with its value.
        run grep -vE '^([0-9,]+[acd][0-9,]+|---|<  +valueFrom:|<  +fieldRef:|<  +fieldPath: .*|>  +value: .*|> (---|apiVersion: v1|kind: ConfigMap|metadata:|  name: test-cm|  namespace: test-operator|data:|  test-file: hello))$' <<<"$output"
        echo "$output"
        [ "$status" -eq 1 ]
    done
    [ "$(cat "$BATS_TEST_TMPDIR/probes/nvidia-peermem-ctr.liveness")" = "30 30 10 1
'sh' '-c' 'nvidia-driver probe_nvidia_peermem'" ]
}

# run_prober SCRIPT: runs it beside the prober of a container x, with stand-ins of podman and crun, on this machine: that a
# probe that fails has consequences here.
run_prober() {
    run timeout 600 busybox sh -eu -c '
poll() { :; }
. "$1/guest/podman.sh"
probes_folder=$2/probes notes_folder=$2/notes
sleep 600 </dev/null >/dev/null 2>&1 &
fake=$!
podman() {
    case $1-$2 in
    container-inspect) [ ! -e "$notes_folder/restarted" ] && echo "0123 $fake" ;;
    restart-*) echo "$*" >"$notes_folder/restarted"; kill "$fake" ;;
    esac
}
timeout() { shift 6; "$@"; }
uptime_s >"$notes_folder/began"
watch_container x &
prober=$!
eval "$3"
wait "$prober"
cat "$notes_folder/probes" "$notes_folder/restarted"' sh "$vm_folder" "$BATS_TEST_TMPDIR" "$1"
    echo "$output"
}

@test "the prober keeps to delay, period and threshold, and restarts what fails too often" {
    mkdir -p "$BATS_TEST_TMPDIR"/{probes,notes}
    printf "1 1 5 3\n'true'\n" >"$BATS_TEST_TMPDIR/probes/x.startup"
    printf "2 1 5 2\n'sh' '-c' 'exit 3'\n" >"$BATS_TEST_TMPDIR/probes/x.liveness"
    run_prober :
    [ "$status" -eq 0 ]
    [[ ${lines[0]} =~ ^[0-9]+\ x\ startup\ ok\ 0\  ]]
    [[ ${lines[1]} =~ ^([0-9]+)\ x\ liveness\ failed\ 3\  ]]
    [ "${BASH_REMATCH[1]}" -ge $(($(cat "$BATS_TEST_TMPDIR/notes/began") + 2)) ]
    [[ ${lines[2]} == *" x liveness failed 3 "* ]]
    [ "${lines[3]}" = "restart --time 30 0123" ]
    [ "${#lines[@]}" -eq 4 ]
}

@test "a container whose readiness probe fails is not ready, and goes on; one that ends is not ready" {
    local up=$BATS_TEST_TMPDIR/up
    mkdir -p "$BATS_TEST_TMPDIR"/{probes,notes}
    printf "0 1 5 600\n'test' '-e' '%s'\n" "$up.started" >"$BATS_TEST_TMPDIR/probes/x.startup"
    printf "0 1 5 2\n'test' '-e' '%s'\n" "$up" >"$BATS_TEST_TMPDIR/probes/x.readiness"
    printf "0 1 5 1\n'test' '!' '-e' '%s'\n" "$up.dead" >"$BATS_TEST_TMPDIR/probes/x.liveness"
    run_prober '
up=$2/up
poll() { local left=$(($1 * 10)); shift; until "$@"; do left=$((left - 1)); [ "$left" -gt 0 ] || return 1; sleep 0.1; done; }
not_ready() { ! container_ready x; }
failed() { [ "$(grep -c " x $1 failed 1 " "$notes_folder/probes")" -ge "$2" ]; }
: >"$notes_folder/probes"
: >"$up"
poll 100 failed startup 2 || echo "no startup probe failed"
not_ready || echo "ready before the startup probe"
: >"$up.started"
poll 100 container_ready x || echo "not ready"
rm "$up"
poll 100 not_ready || echo "still ready"
# The threshold is two: more failures than that change nothing.
poll 100 failed readiness 5 || echo "no readiness probe failed"
[ ! -e "$notes_folder/restarted" ] || echo "restarted"
: >"$up"
poll 100 container_ready x || echo "not ready again"
: >"$up.dead"
poll 100 not_ready || echo "still ready after its end"'
    [ "$status" -eq 0 ]
    [[ ${lines[0]} == *" x startup failed 1 "* && $output =~ \ x\ startup\ ok ]]
    # On a busy machine the other probe goes on for a while beside the restart.
    [ "$(grep -c ' x liveness failed ' <<<"$output")" -eq 1 ]
    [ "${lines[-1]}" = "restart --time 30 0123" ]
}

# bats test_tags=full
@test "driver-minimal.yaml: ready, killed and ready again, restarted as a pod, gone" {
    use_manifest driver-minimal.yaml
    run_pod_case <<'CASE'
simulate
kube_play
wait_pod_ready 180
grep -q uninstalling /run/nvidia/driver-manager.log
kube_exec nvidia-driver-ctr sh /usr/local/bin/startup-probe.sh
cat /run/nvidia/validations/.driver-ctr-ready
[ "$(chroot /run/nvidia/driver sh -c 'ls /usr/src | head -n 1')" != "" ]

echo "==> SIGKILL: the same container starts again"
: >/run/nvidia/validations/.driver-ctr-ready
kill_container nvidia-driver-ctr
wait_gone /run/nvidia/validations/.driver-ctr-ready 180
wait_pod_ready 180
kube_exec nvidia-driver-ctr sh /usr/local/bin/startup-probe.sh

echo "==> the pod is deleted while a process has the GPU's memory: the driver stays, and the next pod keeps it"
address=$(cat /sys/module/nvidia/sections/.text)
device_node nvidia-uvm /dev/nvidia-uvm
hold /dev/nvidia-uvm
kube_down
expect_loaded nvidia nvidia_uvm
: >/run/nvidia/driver-manager.log
kube_play
wait_pod_ready 180
grep -q 'the driver stays' /run/nvidia/driver-manager.log
[ "$(cat /sys/module/nvidia/sections/.text)" = "$address" ] || fail "nvidia was loaded anew"
kube_exec nvidia-driver-ctr sh /usr/local/bin/startup-probe.sh
kill "$held_pid"

echo "==> the pod is deleted, and the DaemonSet's next one starts"
kube_down
expect_pod_gone
kube_play
wait_pod_ready 180
kube_exec nvidia-driver-ctr sh /usr/local/bin/startup-probe.sh
kube_down
expect_pod_gone
CASE
    [ "$status" -eq 0 ]
    [[ $output == *"GPU_DIRECT_RDMA_ENABLED: false"* ]]
}

@test "driver-rdma.yaml: every probe on its timings, with OFED that comes later" {
    # In every run ours; full/86-nic-chain.bats has the operator's.
    use_manifest driver-rdma.yaml ours
    run_pod_case <<'CASE'
simulate
kube_play &
play=$!
poll 180 grep -qs 'waiting for MOFED' /run/nvidia/driver-manager.log
start nic
wait_ready nic 180
poll 180 container_of nvidia-peermem-ctr >/dev/null 2>&1
kubelet nvidia-driver-ctr nvidia-peermem-ctr
wait_pod_ready 180
expect_loaded nvidia nvidia_uvm nvidia_modeset nvidia_peermem
wait_probe nvidia-peermem-ctr startup ok 180
wait_probe nvidia-peermem-ctr liveness ok 180
# An administrator's rmmod: the container brings it back by itself, before the next liveness probe, half a minute later.
rmmod nvidia_peermem
poll 60 loaded nvidia_peermem || fail "nvidia_peermem did not come back"
wait_probe nvidia-driver-ctr startup ok 180
cat /run/nvidia/validations/.driver-ctr-ready
probes
refute "liveness failed" grep -q 'liveness failed' /vm/probes
wait "$play"
kube_down
expect_unloaded nvidia nvidia_peermem
stop_clean nic
expect_pod_gone
CASE
    [ "$status" -eq 0 ]
    [[ $output == *"GPU_DIRECT_RDMA_ENABLED: true"* ]]
    printf '%s\n' "${lines[@]}" | grep -E '^[0-9]+ nvidia-.* (startup|liveness) ' >&3 || true
}
