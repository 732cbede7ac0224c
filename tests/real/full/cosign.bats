#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2154
# SPDX-License-Identifier: Apache-2.0
# ci/sign with the real cosign, Debian 13's, which runs on 12 when unpacked, and a registry on loopback.

load ../../cli/helpers
load ../../cli/registry

setup_file() {
    start_registry
    export registry
}

teardown_file() {
    stop_registry
}

# fetch_cosign FOLDER: from the mirror that apt has for this Debian, by lists of the test's own.
fetch_cosign() {
    local folder=$1 mirror
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' | head -n 1)
    mkdir -p "$folder"/{lists,archives}/partial
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie main" >"$folder/sources.list"
    printf '%s\n' "Dir::Etc::SourceList \"$folder/sources.list\";" 'Dir::Etc::SourceParts "/dev/null";' \
        "Dir::State::Lists \"$folder/lists\";" "Dir::Cache \"$folder\";" 'APT::Sandbox::User "root";' >"$folder/apt.conf"
    dpkg -x "$(APT_CONFIG=$folder/apt.conf "$repository/tests/vm/fetch-deb" "$folder" cosign)" "$folder"
}

# Rows of a registry's blobs: the file of a digest.
blob() { echo "$BATS_FILE_TMPDIR/registry-data/docker/registry/v2/blobs/sha256/${1:0:2}/$1/data"; }

@test "cosign: what ci/sign signs and attests is verified; another key and a changed byte are refused" {
    local digest other tag layer name options=(--insecure-ignore-tlog=true --key own.pub)
    fetch_cosign "$BATS_FILE_TMPDIR/cosign"
    export PATH=$BATS_FILE_TMPDIR/cosign/usr/bin:$PATH COSIGN_PASSWORD=secret
    cd "$BATS_TEST_TMPDIR"
    cosign generate-key-pair --output-key-prefix own
    cosign generate-key-pair --output-key-prefix other
    put_image "$registry/d/driver:a" io.slipway.role=gpu
    digest=$(skopeo inspect --format '{{.Digest}}' "docker://$registry/d/driver:a")
    name=$registry/d/driver@$digest
    run cosign verify "${options[@]}" "$name"
    [ "$status" -ne 0 ]
    mkdir out
    jq -n --arg name "$registry/d/driver:a@$digest" --arg digest "$digest" '{images: [{role: "gpu", $digest, pushed: [$name]}]}' >out/images.json
    echo '{"spdxVersion": "SPDX-2.3", "SPDXID": "SPDXRef-DOCUMENT", "name": "driver", "packages": []}' >out/sbom.spdx.json
    echo '{"buildDefinition": {"buildType": "x", "externalParameters": {}}, "runDetails": {"builder": {"id": "x"}}}' >out/provenance.json
    COSIGN_KEY=own.key sh "$repository/ci/sign" out/images.json

    cosign verify "${options[@]}" "$name" | jq -e --arg digest "$digest" '.[0].critical.image["docker-manifest-digest"] == $digest'
    cosign verify-attestation "${options[@]}" --type spdxjson "$name" | jq -r .payload | base64 -d | jq -e '.predicate.spdxVersion == "SPDX-2.3"'
    cosign verify-attestation "${options[@]}" --type slsaprovenance1 "$name" | jq -r .payload | base64 -d |
        jq -e '.predicateType == "https://slsa.dev/provenance/v1"'
    run cosign verify --insecure-ignore-tlog=true --key other.pub "$name"
    [ "$status" -ne 0 ]
    # Once more: neither signatures nor attestations pile up.
    COSIGN_KEY=own.key sh "$repository/ci/sign" out/images.json
    for tag in sig:1 att:2; do
        skopeo inspect --raw "docker://$registry/d/driver:sha256-${digest#*:}.${tag%:*}" | jq -e --argjson count "${tag#*:}" '.layers | length == $count'
    done
    # A byte of what was signed: the signature holds for another text.
    layer=$(skopeo inspect --raw "docker://$registry/d/driver:sha256-${digest#*:}.sig" | jq -r '.layers[0].digest')
    sed -i 's/cosign container image/cosign container imagf/' "$(blob "${layer#*:}")"
    run cosign verify "${options[@]}" "$name"
    echo "$output"
    [ "$status" -ne 0 ]
    # An image with another byte is another digest, which nobody signed.
    put_image "$registry/d/driver:a" io.slipway.role=nic
    run cosign verify "${options[@]}" "$registry/d/driver:a"
    echo "$output"
    [ "$status" -ne 0 ]
    says "no signatures found"
    # Nor does ci/sign, where a build took it for its own; what this key signed it leaves.
    other=$(skopeo inspect --format '{{.Digest}}' "docker://$registry/d/driver:a")
    jq --arg name "$registry/d/driver:a@$other" '.images[0].pushed = [$name]' out/images.json >images.json
    COSIGN_KEY=own.key run sh "$repository/ci/sign" images.json
    echo "$output"
    [ "$status" -eq 1 ]
    says "@$other: not signed: none of these builds made it"
    COSIGN_KEY=own.key cosign sign --yes --tlog-upload=false --key own.key "$registry/d/driver@$other"
    COSIGN_KEY=own.key sh "$repository/ci/sign" images.json
}
