# shellcheck shell=bash disable=SC2034,SC2154
# SPDX-License-Identifier: Apache-2.0
# Debian's docker-registry on loopback, for one file of tests. The package is unpacked, not installed: it would bring a service.
#   start_registry [LINE…]   serves without TLS, in place of an earlier one; LINE is more of its config.yml; sets $registry
#   stop_registry            its images stay
#   put_image REF LABEL=V…   an image without a layer; architectures="amd64 arm64" makes an index of one for each
#   remove_tag REF

start_registry() {
    local folder=$BATS_FILE_TMPDIR/registry program config=$BATS_FILE_TMPDIR/registry.yml debs=$BATS_FILE_TMPDIR/debs
    program=$folder/usr/bin/docker-registry
    stop_registry
    if [[ ! -x $program ]]; then
        mkdir -p "$folder" "$debs"
        dpkg -x "$("$repository/tests/vm/fetch-deb" "$debs" docker-registry)" "$folder"
    fi
    registry_port=${registry_port:-$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')}
    registry=127.0.0.1:$registry_port
    cat >"$config" <<END
version: 0.1
log: {level: error}
storage: {filesystem: {rootdirectory: $BATS_FILE_TMPDIR/registry-data}, delete: {enabled: true}}
http: {addr: "$registry", secret: test}
END
    printf '%s\n' "$@" >>"$config"
    # It would take skopeo's variable for a setting of its own.
    env -u REGISTRY_AUTH_FILE "$program" serve "$config" >"$BATS_FILE_TMPDIR/registry.log" 2>&1 </dev/null 3>&- &
    echo $! >"$BATS_FILE_TMPDIR/registry.pid"
    until (exec {tcp}<>"/dev/tcp/${registry/:/\/}") 2>/dev/null; do
        kill -0 "$(<"$BATS_FILE_TMPDIR/registry.pid")" || {
            cat "$BATS_FILE_TMPDIR/registry.log"
            return 1
        }
        read -rt 0.05 <> <(:) || true
    done
    # skopeo's own files, as a user has them; the cache stays where it is.
    export XDG_CACHE_HOME=${XDG_CACHE_HOME:-$HOME/.cache}
    export HOME=$BATS_FILE_TMPDIR/home
    mkdir -p "$HOME/.config/containers"
    printf '[[registry]]\nlocation = "%s"\ninsecure = true\n' "$registry" >"$HOME/.config/containers/registries.conf"
    echo '{"default": [{"type": "insecureAcceptAnything"}]}' >"$HOME/.config/containers/policy.json"
}

stop_registry() {
    local file=$BATS_FILE_TMPDIR/registry.pid pid
    [[ -e $file ]] || return 0
    pid=$(<"$file")
    kill "$pid" 2>/dev/null || true
    # Another test's child cannot be waited for.
    wait "$pid" 2>/dev/null || while kill -0 "$pid" 2>/dev/null; do read -rt 0.05 <> <(:) || true; done
    rm "$file"
}

# put_blob FILE: into the layout; prints its descriptor's digest and size.
put_blob() {
    local sum
    sum=$(sha256sum <"$1")
    cp "$1" "$layout/blobs/sha256/${sum%% *}"
    jq -nc --arg digest "sha256:${sum%% *}" --argjson size "$(stat -c %s "$1")" '{digest: $digest, size: $size}'
}

put_image() {
    local reference=$1 layout=$BATS_TEST_TMPDIR/layout blob=$BATS_TEST_TMPDIR/blob labels config arch manifests=() index=
    shift
    rm -rf "$layout"
    mkdir -p "$layout/blobs/sha256"
    labels=$(printf '%s\n' "$@" | jq -Rn '[inputs | capture("(?<key>[^=]*)=(?<value>.*)")] | from_entries')
    for arch in ${architectures:-amd64}; do
        jq -nc --arg arch "$arch" --argjson labels "$labels" \
            '{architecture: $arch, os: "linux", config: {Labels: $labels}, rootfs: {type: "layers", diff_ids: []}}' >"$blob"
        config=$(put_blob "$blob")
        jq -nc --argjson config "$config" '{schemaVersion: 2, mediaType: "application/vnd.oci.image.manifest.v1+json",
            config: ({mediaType: "application/vnd.oci.image.config.v1+json"} + $config), layers: []}' >"$blob"
        manifests+=("$(put_blob "$blob" | jq -c --arg arch "$arch" \
            '{mediaType: "application/vnd.oci.image.manifest.v1+json", platform: {architecture: $arch, os: "linux"}} + .')")
    done
    echo '{"imageLayoutVersion": "1.0.0"}' >"$layout/oci-layout"
    printf '%s\n' "${manifests[@]}" | jq -sc '{schemaVersion: 2, manifests: .}' >"$layout/index.json"
    if [[ ${#manifests[@]} -gt 1 ]]; then
        index=$(put_blob "$layout/index.json")
        jq -nc --argjson index "$index" '{schemaVersion: 2, manifests: [{mediaType: "application/vnd.oci.image.index.v1+json"} + $index]}' \
            >"$layout/index.json"
    fi
    skopeo copy -q ${index:+--all} "oci:$layout" "docker://$reference"
}

remove_tag() {
    local name=${1#*/}
    rm -r "$BATS_FILE_TMPDIR/registry-data/docker/registry/v2/repositories/${name%:*}/_manifests/tags/${name##*:}"
}
