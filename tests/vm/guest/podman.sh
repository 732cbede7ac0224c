# shellcheck shell=dash
# SPDX-License-Identifier: Apache-2.0
# What cases on a node with podman say on top of lib.sh: `. /test/podman.sh`. The machine is booted with the system of
# tests/vm/make-system and these disks: vdb images that `start` runs, vdc the guest's own system (for the kernel's modules
# and simdev), vdd the storage of images that the manifest names.
#
#   node_up                           mounts what was said above, and what a node of the operator has
#   kube_play [MANIFEST]              the pod runs when it returns (default: /case/manifest.yaml); output in /vm/play
#   kube_down [nic]                   each container's preStop hook, SIGTERM, the grace time, and the GPU's (NIC's) pod is gone
#   container_of NAME                 the id of the pod's container NAME
#   kube_logs NAME                    what it printed
#   kube_exec NAME COMMAND…           as a kubelet's probe: by the runtime, in the container
#   kubelet NAME…                     from here on the probes of these containers run in the background, on their timings,
#                                     as long as the pod is there
#   container_ready NAME              has its readiness probe, or without one its startup probe, succeeded in this run of it?
#   wait_probe NAME KIND RESULT SECONDS   until a probe (startup, readiness, liveness) of it ended with `ok` or `failed`
#   wait_new_probe …                  the same of one that ends after this call
#   probes                            what ran: seconds of uptime, container, kind, ok, failed or ended, exit code, milliseconds
#   wait_pod_ready SECONDS            until the driver container has reported its readiness and mounted its root
#   kill_container NAME…              SIGKILL of its first process, of all at once; podman starts it again, as a kubelet does
#   expect_pod_gone                   no container of the pod is left on the node, and nothing of its driver
#
# What the init container said is in /run/nvidia/driver-manager.log: podman removes one that has ended.
#
# A probe is a file /case/probes/NAME.KIND, made of the manifest by tests/vm/podman/probes.jq: its first line has
# initialDelaySeconds, periodSeconds, timeoutSeconds and failureThreshold, the rest is the command, quoted for a shell;
# NAME.preStop has the command only.

gpu_pod= # of the one DaemonSet in /case/manifest.yaml: node_up
nic_pod=mofed-pod
grace_seconds=30
probes_folder=/case/probes
notes_folder=/vm

node_up() {
    take_modules
    mount -t ext4 -o ro /dev/vdd /store
    printf '[storage]\ndriver = "overlay"\nrunroot = "/run/containers/storage"\ngraphroot = "/var/lib/containers/storage"\n[storage.options]\nadditionalimagestores = ["/store"]\n' \
        >/etc/containers/storage.conf
    printf '[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "none"\n[containers]\nlog_driver = "k8s-file"\n' \
        >/etc/containers/containers.conf
    printf '{"default": [{"type": "insecureAcceptAnything"}]}\n' >/etc/containers/policy.json
    # Podman keeps its layers as overlays, and an overlay of an overlay has no place for whiteouts.
    mount -t tmpfs tmpfs /var/lib/containers
    mkdir -p /run/mellanox/drivers /var/log
    : >/dev/log
    gpu_pod=$(awk '/^kind: DaemonSet/ { found = 1 } found && /^  name: / { print $2 "-pod"; exit }' /case/manifest.yaml)
}

# container NAME: what podman calls it.
container() {
    case $1 in
        mofed-container) echo "$nic_pod-$1" ;;
        *) echo "$gpu_pod-$1" ;;
    esac
}

# With --network=host podman makes no bridge, for which it would want a firewall program. A manifest with hostNetwork
# needs none of that: network= before kube_play.
network=--network=host
kube_play() {
    # shellcheck disable=SC2086
    if ! podman kube play $network "${1:-/case/manifest.yaml}" >/vm/play 2>&1; then
        cat /vm/play >&2
        return 1
    fi
}

container_of() {
    podman container inspect --format '{{.Id}}' "$(container "$1")"
}

kube_logs() {
    podman logs "$(container "$1")" 2>&1
}

kube_exec() {
    local id
    id=$(container_of "$1")
    shift
    crun exec "$id" "$@"
}

pod_is_ready() {
    grep -qs '^Ready' /run/nvidia/validations/.driver-daemons-status && [ "$(mounts_at /run/nvidia/driver)" = 1 ]
}

wait_pod_ready() {
    poll "$1" pod_is_ready || fail "the driver container was not ready within $1 s"
}

# pid_of NAME: its first process; podman says 0 as long as there is none.
pid_of() {
    podman container inspect --format '{{.State.Pid}}' "$(container "$1")"
}

# restarted NAME PID: another process than PID is its first one.
restarted() {
    local pid
    pid=$(pid_of "$1") && [ "$pid" != 0 ] && [ "$pid" != "$2" ]
}

kill_container() {
    local name pid pids=''
    for name in "$@"; do
        poll 120 restarted "$name" '' || fail "$name does not run"
        pids="$pids $(pid_of "$name")"
    done
    # shellcheck disable=SC2086
    kill -KILL $pids
    for pid in $pids; do
        poll 120 restarted "$1" "$pid" || fail "podman did not start $1 again"
        shift
    done
}

expect_pod_gone() {
    refute "a container is left" podman container exists "$(container nvidia-driver-ctr)"
    expect_nothing_left
}

hook_of() {
    [ ! -e "$probes_folder/$1.preStop" ] || kube_exec_file "$(container_of "$1")" "$probes_folder/$1.preStop" "$grace_seconds"
}

# kube_exec_file ID FILE SECONDS: the command in FILE, whose arguments are quoted.
kube_exec_file() {
    local id=$1 seconds=$3
    eval "set -- $(cat "$2")"
    timeout -s KILL "$seconds" crun exec "$id" "$@"
}

uptime_ms() {
    awk '{ printf "%d\n", $1 * 1000 }' /proc/uptime
}

uptime_s() {
    local now
    read -r now _ </proc/uptime
    echo "${now%.*}"
}

# Of the container that the prober watches: of this very run of it, which is another after each start.
still_runs() {
    [ -e "/proc/$pid" ]
}

# wait_uptime SECONDS: false as soon as it has ended.
wait_uptime() {
    while still_runs; do
        [ "$(uptime_s)" -lt "$1" ] || return 0
        sleep 1
    done
    return 1
}

# one_probe NAME KIND: runs it once, says how it went.
one_probe() {
    local began status=0 result=ok
    began=$(uptime_ms)
    sed 1d "$probes_folder/$1.$2" >"$notes_folder/probe.$1.$2"
    kube_exec_file "$id" "$notes_folder/probe.$1.$2" "$timeout" >"$notes_folder/probe.$1.$2.output" 2>&1 || status=$?
    [ "$status" = 0 ] || result=failed
    # That its end ended the probe, too, says nothing; the first process may be the last to go.
    [ "$status" = 0 ] || { sleep 1 && still_runs; } || result=ended
    printf '%s %s %s %s %s %s\n' "$((began / 1000))" "$1" "$2" "$result" "$status" "$(($(uptime_ms) - began))" >>$notes_folder/probes
    [ "$status" = 0 ]
}

# run_probe NAME KIND: true after a success of the startup probe, false after too many failures in a row or when the
# container has ended; liveness goes on until one of these, readiness until it has ended.
run_probe() {
    local delay period timeout threshold due failures=0
    read -r delay period timeout threshold <"$probes_folder/$1.$2"
    due=$((began_s + delay))
    while wait_uptime "$due"; do
        due=$(($(uptime_s) + period))
        if one_probe "$1" "$2"; then
            failures=0
            [ "$2" != startup ] || return 0
            [ "$2" != readiness ] || echo "$pid" >"$notes_folder/ready.$1"
            continue
        fi
        failures=$((failures + 1))
        if [ "$failures" -ge "$threshold" ]; then
            [ "$2" = readiness ] || return 1
            rm -f "$notes_folder/ready.$1"
        fi
    done
    return 1
}

# One run of a container: readiness and liveness after startup. What a container has no probe for is fine.
watch_run() {
    [ ! -e "$probes_folder/$1.startup" ] || run_probe "$1" startup || return 0
    if [ -e "$probes_folder/$1.readiness" ]; then
        run_probe "$1" readiness &
    else
        echo "$pid" >"$notes_folder/ready.$1"
    fi
    if [ -e "$probes_folder/$1.liveness" ]; then
        run_probe "$1" liveness || true
    else
        while still_runs; do sleep 1; done
    fi
}

# As a kubelet: where startup or liveness has failed too often the container is stopped and started again.
watch_container() {
    local run id pid began_s
    while run=$(podman container inspect --format '{{.Id}} {{.State.Pid}}' "$(container "$1")" 2>/dev/null); do
        id=${run% *}
        pid=${run#* }
        if [ "$pid" != 0 ]; then
            began_s=$(uptime_s)
            rm -f "$notes_folder/ready.$1"
            watch_run "$1"
            # By the id: another container may have the name by now.
            ! still_runs || podman restart --time "$grace_seconds" "$id" >/dev/null 2>&1 || true
        fi
        sleep 1
    done
}

# A run that has ended is not ready any more, whatever its last probe said.
container_ready() {
    local pid
    [ -e "$notes_folder/ready.$1" ] && read -r pid <"$notes_folder/ready.$1" && still_runs
}

kubelet() {
    local name
    : >>$notes_folder/probes
    for name in "$@"; do
        watch_container "$name" &
        echo $! >"$notes_folder/watcher.$name"
    done
}

# A pod that is deleted is not probed any more.
end_watchers() {
    local file
    for file in "$notes_folder"/watcher.*; do
        [ -e "$file" ] || continue
        case ${file##*.} in
            mofed-container) [ "$1" = "$nic_pod" ] || continue ;;
            *) [ "$1" = "$gpu_pod" ] || continue ;;
        esac
        kill "$(cat "$file")" 2>/dev/null || true
        rm "$file"
    done
}

probes() {
    cat $notes_folder/probes
}

# The same of a probe that ends after this call.
wait_new_probe() {
    local before
    before=$(wc -l <$notes_folder/probes)
    poll "$4" is_noted "$((before + 1))" "$1 $2 $3" || fail "no new $2 probe of $1 ended with $3 within $4 s"
}

is_noted() {
    tail -n "+$1" $notes_folder/probes | grep -q " $2 "
}

wait_probe() {
    poll "$4" grep -q " $1 $2 $3 " $notes_folder/probes || fail "$2 probe of $1 did not end with $3 within $4 s; its last words: $(cat "$notes_folder/probe.$1.$2.output")"
}

# kube_down [nic]: the GPU's pod, or the NIC's.
kube_down() {
    local pod=$gpu_pod file name
    [ "${1:-gpu}" = gpu ] || pod=$nic_pod
    end_watchers "$pod"
    for file in "$probes_folder"/*.preStop; do
        [ -e "$file" ] || continue
        [ "$pod" = "$gpu_pod" ] || continue
        name=${file##*/}
        hook_of "${name%.preStop}" || echo "preStop hook of $name failed" >&2
    done
    podman pod stop --time "$grace_seconds" "$pod" >/vm/down 2>&1
    podman pod rm "$pod" >>/vm/down 2>&1
}

# After a failure one wants to know what the containers said.
report_pod() {
    local status=$? name
    [ "$status" -ne 0 ] || return 0
    cat /vm/play $notes_folder/probes 2>/dev/null || true
    cat /run/nvidia/driver-manager.log 2>/dev/null || true
    for name in nvidia-driver-ctr nvidia-peermem-ctr nvidia-fs-ctr nvidia-gdrcopy-ctr mofed-container; do
        echo "==> $name"
        kube_logs "$name" | tail -n 40 || true
    done
}
