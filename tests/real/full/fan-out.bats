#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# A fan-out for real, without an engine: containers of scripts/tool-image with the command line of ci/kubernetes/job.yaml, an
# index each, on one cache and one registry on loopback. They share the machine's network and kernel, as pods do; that they run
# as its root is not as in the Job. Small modules, three kernels of Debian 12.

bats_require_minimum_version 1.5.0
load ../../cli/helpers
load ../../cli/registry

setup_file() {
    cd "$repository" || return
    start_registry
    export registry folder=$BATS_FILE_TMPDIR
    mkdir "$folder"/{cache,out,plan,sources}
    cp -r tests/real/smallest-ofed "$folder/sources/ofed"
    sed -i '1s/(1\.0)/(1.0.fan)/' "$folder/sources/ofed/debian/changelog"
    scripts/tool-image "oci-archive:$folder/tool.tar"
}

teardown_file() {
    stop_registry
    [[ ! -e $folder/containers ]] || xargs buildah rm <"$folder/containers" >/dev/null
    [[ ! -e $folder/tool-id ]] || buildah rmi "$(<"$folder/tool-id")" >/dev/null || echo "# the tool image is still in the storage" >&3
    umount "$folder"/storage-*/storage/overlay 2>/dev/null || true
}

# start_pod INDEX WORD...: in the background, as process $pod; what it says is in log-INDEX. To kill it kills all of it.
start_pod() {
    local index=$1 container
    shift
    container=$(buildah from --quiet --pull-never "$(<"$folder/tool-id")")
    echo "$container" >>"$folder/containers"
    mkdir -p "$folder/storage-$index"
    unshare --pid --fork --kill-child --mount-proc buildah run --isolation chroot --cap-add CAP_SYS_ADMIN --env JOB_COMPLETION_INDEX="$index" --env SLIPWAY_CACHE=/cache \
        -v "$folder/cache:/cache" -v "$folder/out:/out" -v "$folder/plan:/plan:ro" -v "$folder/sources:/sources:ro" \
        -v "$folder/storage-$index:/var/lib/containers" -v "$HOME/.config/containers/registries.conf:/etc/containers/registries.conf:ro" \
        "$container" -- slipway "$@" >>"$folder/log-$index" 2>&1 3>&- &
    pod=$!
}

# pushed: the tags that the registry has, in lines.
pushed() {
    skopeo list-tags "docker://$registry/drivers/doca-driver" 2>/dev/null | jq -r '.Tags[]'
}

@test "fan-out: indexes in containers of the tool image, one killed in the middle and run again; then nothing is missing" {
    local arguments index plan=("$SLIPWAY" plan --os debian12 --ofed-version 1.0.fan=/sources/ofed
        --kernel 6.1.0-56-amd64 --kernel 6.1.0-57-amd64 --kernel 6.1.0-56-cloud-amd64 --registry "$registry/drivers")
    buildah pull --quiet "oci-archive:$folder/tool.tar" >"$folder/tool-id"
    "${plan[@]}" --missing --json >"$folder/plan/plan.json"
    [ "$(jq '.targets | length' "$folder/plan/plan.json")" = 3 ]
    mapfile -t arguments < <(yq -r '.spec.template.spec.containers[0].args[]' "$repository/ci/kubernetes/job.yaml")
    arguments=("${arguments[@]/registry.example/$registry}")

    start_pod 1 "${arguments[@]}"
    until grep -qs ' compile with ' "$folder/log-1"; do
        kill -0 "$pod" || { cat "$folder/log-1" && return 1; }
        sleep 0.05
    done
    kill -KILL "$pod"
    local ended=0
    wait "$pod" || ended=$?
    [ "$ended" = 137 ]
    [ -z "$(pushed)" ]
    local pods=()
    for index in 0 1 2; do
        start_pod $index "${arguments[@]}"
        pods+=("$pod")
    done
    for index in 0 1 2; do
        wait "${pods[index]}" || { cat "$folder/log-$index" && return 1; }
    done
    [ "$(pushed | wc -l)" = 3 ]
    diff <(find "$folder/out" -name images.json -exec jq -r '.images[].pushed[]' {} + | sort) \
        <(for tag in $(pushed); do skopeo inspect --format "$registry/drivers/doca-driver:$tag@{{.Digest}}" "docker://$registry/drivers/doca-driver:$tag"; done | sort)
    "${plan[@]}" --check
    [ "$("${plan[@]}" --missing --json | jq '.targets | length')" = 0 ]
    # Once more, as an engine may: the image is left alone, and its index is done.
    start_pod 0 "${arguments[@]}"
    wait "$pod"
    grep -q "^Nothing to do" "$folder/log-0"
}
