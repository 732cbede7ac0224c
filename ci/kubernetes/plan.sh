#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the cluster's nodes need and the registry lacks, as an Indexed Job that builds it: a target is an index.
#   plan.sh          all three steps, where kubectl, jq and slipway are
#   plan.sh nodes    kubectl: nodes.json
#   plan.sh plan     slipway, jq: ci/plan's plan.json and all.json; count, the number of targets
#   plan.sh submit   kubectl: a ConfigMap with the plan, and job.yaml with its number of targets
# The files are in $WORK (default: the current folder), job.yaml is beside this script.
set -eu

# Yours: the registry, and drivers by the paths that they have in the pods (job.yaml mounts /sources).
registry=${REGISTRY:-registry.example/drivers}
export OFED="${OFED-24.07-0.6.1.0=/sources/mlnx-ofed-kernel}"
export REVISION="${REVISION-}" OPTIONS="${OPTIONS-}" # see ci/plan
export NVIDIA="${NVIDIA-595.58.03=/sources/NVIDIA-Linux-x86_64-595.58.03.run}"

step=${1:-all}
here=$(cd "$(dirname "$0")" && pwd)
cd "${WORK:-.}"

nodes() {
    kubectl get nodes -o json >nodes.json
}

plan() {
    # In the pods it is beside this script.
    script=$here/plan
    [ -e "$script" ] || script=$here/../plan
    sh "$script" nodes.json "$registry" .
    jq '.targets | length' plan.json >count
}

submit() {
    count=$(cat count)
    case $count in
        '' | *[!0-9]*)
            echo "plan.sh: count is no number: the plan step failed" >&2
            exit 1
            ;;
    esac
    # Between two tries of an index a Job has no pod.
    jobs=$(kubectl get jobs -l app=slipway-build \
        -o 'jsonpath={range .items[*]}{.metadata.name} {.status.conditions[?(@.status=="True")].type}{"\n"}{end}')
    running=$(echo "$jobs" | sed '/Complete/d; /Failed/d; /^$/d')
    if [ "$count" -eq 0 ] || [ -n "$running" ]; then
        echo "nothing to submit: $count targets; running: ${running:-no earlier Job}"
        return
    fi
    # A plan of its own for each run: an index of a pod means a target of the plan that it was made for.
    name=slipway-build-$(date -u +%Y%m%d%H%M%S)
    kubectl create configmap "$name" --from-file=plan.json --from-file=all.json
    sed "s/SLIPWAY-RUN/$name/; s/^\( *completions\): .*/\1: $count/; s/^\( *maxFailedIndexes\): .*/\1: $count/" "$here/job.yaml" |
        kubectl create -f -
    # The plan goes when the Job does.
    uid=$(kubectl get job "$name" -o 'jsonpath={.metadata.uid}')
    kubectl patch configmap "$name" --type merge -p \
        '{"immutable": true, "metadata": {"ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "'"$name"'", "uid": "'"$uid"'"}]}}'
}

case $step in
    nodes | plan | submit) "$step" ;;
    all)
        nodes
        plan
        submit
        ;;
    *)
        sed -n '3,/^set/s/^# \?//p' "$0" >&2
        exit 2
        ;;
esac
