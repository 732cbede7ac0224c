#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2030,SC2031,SC2154
# SPDX-License-Identifier: Apache-2.0
# What users copy from ci/ and docs/examples: exit codes, YAML, and the command lines in them.

load helpers

setup() {
    cd "$repository" || return
}

# codes ACTION: those of its rule in the Job, in its order, a line each.
codes() {
    yq -r --arg action "$1" '.spec.podFailurePolicy.rules[] | select(.action == $action) | .onExitCodes.values[]' ci/kubernetes/job.yaml
}

@test "every exit code is in one rule of the Job, sorted, and none is 0" {
    local action known
    known=$(sed -nE 's/^\tEXIT_CODE_[A-Z_]+ = ([1-9][0-9]*),.*/\1/p' cli/exit_code.h && echo 143)
    [ "$(wc -l <<<"$known")" -ge 29 ]
    diff <(sort <<<"$known") <(for action in FailJob FailIndex Count; do codes "$action"; done | sort)
    for action in FailJob FailIndex Count; do
        codes "$action" | sort -nuc
    done
    [ "$(yq -r '.spec.podFailurePolicy.rules | map(.action) | join(" ")' ci/kubernetes/job.yaml)" = "Ignore FailJob FailIndex Count" ]
    # The rules name the container that there is.
    [ "$(yq -r '[.spec.podFailurePolicy.rules[].onExitCodes.containerName // empty, .spec.template.spec.containers[].name] | unique | join(" ")' \
        ci/kubernetes/job.yaml)" = build ]
}

@test "what is tried again is what slipway itself takes for passing, here and with GitLab" {
    local passing
    passing=$(sed -n '/^static bool may_pass/,/^}/p' cli/fleet/run.c | grep -oE 'EXIT_CODE_[A-Z_]+' | sort -u | grep -vx EXIT_CODE_OK)
    diff <(codes Count) <({
        while read -r name; do sed -nE "s/^\t$name = ([0-9]+),.*/\1/p" cli/exit_code.h; done <<<"$passing"
        printf '%s\n' 130 143
    } | sort -n)
    diff <(codes Count) <(yq -r '.build.retry.exit_codes[]' ci/gitlab.yml)
}

@test "all YAML parses, and each manifest says what it is" {
    local file files
    mapfile -t files < <(git ls-files -co --exclude-standard -- 'ci/*.yml' 'ci/*.yaml' 'docs/examples/*.yaml')
    ((${#files[@]} >= 9))
    for file in "${files[@]}"; do
        echo "$file"
        yq . "$file" >/dev/null
        case $file in
        *.yaml) yq -se 'all(.[]; .apiVersion and .kind and (.metadata.name or .metadata.generateName))' "$file" >/dev/null ;;
        esac
    done
    # The chart's own NVIDIADriver, and a second one, are not to select the same nodes.
    local driver
    sed -n '/^apiVersion: nvidia.com\/v1alpha1$/,/^```$/p' docs/operators.md | sed '$d' >"$BATS_TEST_TMPDIR/driver.yaml"
    for driver in "$BATS_TEST_TMPDIR/driver.yaml" docs/examples/nvidia-driver.yaml; do
        yq -e '.kind == "NVIDIADriver" and (.spec.nodeSelector | length > 0)' "$driver"
    done
    grep -q 'nvidiaDriverCRD.deployDefaultCR=false' docs/operators.md
    grep -q 'nvidiaDriverCRD.deployDefaultCR=false' docs/examples/nvidia-driver.yaml
    yq -r 'select(.kind == "NicClusterPolicy").spec.rdmaSharedDevicePlugin.config' docs/examples/nic-cluster-policy.yaml | jq -e .configList
    yq -r 'select(.kind == "MacvlanNetwork").spec.ipam' docs/examples/macvlan-network.yaml | jq -e .poolName
}

# fake NAME SCRIPT: a program that is found first.
fake() {
    mkdir -p "$BATS_TEST_TMPDIR/bin"
    printf '#!/bin/sh\n%s\n' "$2" >"$BATS_TEST_TMPDIR/bin/$1"
    chmod +x "$BATS_TEST_TMPDIR/bin/$1"
    export PATH=$BATS_TEST_TMPDIR/bin:$PATH
}

# real_slipway: found by the name that the files use, with this test's cache.
real_slipway() {
    fake slipway "echo \"\$*\" >>'$BATS_TEST_TMPDIR/lines'; SLIPWAY_DATADIR='$repository' SLIPWAY_CACHE='$BATS_TEST_TMPDIR/cache' exec '$SLIPWAY' \"\$@\""
}

# node_of KREL...: kubectl's list of nodes with these, each with a GPU and a NIC.
node_of() {
    printf '%s\n' "$@" | jq -Rn '"feature.node.kubernetes.io/" as $nfd | {apiVersion: "v1", kind: "List", items: [inputs | {
        apiVersion: "v1", kind: "Node", metadata: {name: ., labels: {($nfd + "system-os_release.ID"): "debian",
            ($nfd + "system-os_release.VERSION_ID"): "12", ($nfd + "pci-15b3.present"): "true", ($nfd + "pci-10de.present"): "true"}},
        status: {nodeInfo: {kernelVersion: ., architecture: "amd64", operatingSystem: "linux"}}}]}'
}

@test "plan.sh: a plan of the nodes becomes a ConfigMap and a Job with its number of targets" {
    local work=$BATS_TEST_TMPDIR/work
    mkdir "$work"
    real_slipway
    fake skopeo 'echo "{\"Tags\": []}"'
    fake kubectl 'echo "$*" >>"$WORK/asked"
case "$*" in
"get nodes"*) cat "$WORK/given" ;;
"create -f -") cat >"$WORK/job.yaml" ;;
*uid*) echo 1234 ;;
esac'
    node_of 6.1.0-50-amd64 6.1.0-56-amd64 >"$work/given"
    WORK=$work sh ci/kubernetes/plan.sh nodes
    # As in the pods. With --ahead it would ask Debian's servers.
    cp ci/kubernetes/{plan.sh,job.yaml} "$BATS_TEST_TMPDIR"
    sed 's/ --ahead//' ci/plan >"$BATS_TEST_TMPDIR/plan"
    WORK=$work run sh "$BATS_TEST_TMPDIR/plan.sh" plan
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(cat "$work/count")" = 2 ]
    WORK=$work sh "$BATS_TEST_TMPDIR/plan.sh" submit
    yq -e '.spec.completions == 2 and .spec.maxFailedIndexes == 2 and (.metadata.name | test("^slipway-build-[0-9]{14}$"))
        and (.spec.template.spec.volumes[] | select(.name == "plan").configMap.name) == .metadata.name' "$work/job.yaml"
    grep -q "^create configmap slipway-build-.* --from-file=plan.json" "$work/asked"
    # Nothing to build, or another Job that is between two tries: no Job.
    rm "$work/job.yaml"
    echo 0 >"$work/count"
    WORK=$work sh "$BATS_TEST_TMPDIR/plan.sh" submit
    echo 2 >"$work/count"
    fake kubectl 'printf "slipway-build-1 Complete\nslipway-build-2 \n"'
    WORK=$work run sh "$BATS_TEST_TMPDIR/plan.sh" submit
    says "running: slipway-build-2"
    [ ! -e "$work/job.yaml" ]
    # The Job's own arguments, for its last target.
    mapfile -t arguments < <(yq -r '.spec.template.spec.containers[0].args[]' ci/kubernetes/job.yaml)
    cp "$work/plan.json" "$BATS_TEST_TMPDIR/plan.json"
    JOB_COMPLETION_INDEX=1 run_slipway 6 "${arguments[@]/\/plan\//$BATS_TEST_TMPDIR/}"
    says "==> target 1: 6.1.0-50-amd64" "0 of 1 builds are done"
    JOB_COMPLETION_INDEX=2 run_slipway 2 "${arguments[@]/\/plan\//$BATS_TEST_TMPDIR/}"
}

@test "combine: the NIC images that the registry has, one combined image for an OFED and a distribution" {
    local target='{index: 0, krel: $k, os: "debian12", os_version: "12", arch: "x86_64", builds: ["580", "595"] | map({ofed: "24.07", nvidia: .,
        revision: "", images: [{role: "nic", tag: "24.07-\($k)-debian12-amd64"}, {role: "gpu", tag: "\(.)-\($k)-debian12"}]})}'
    jq -n "{targets: [(\"a\", \"b\", \"c\") as \$k | $target]}" >"$BATS_TEST_TMPDIR/all.json"
    fake slipway "echo \"\$*\" >>'$BATS_TEST_TMPDIR/lines'"
    fake skopeo 'case $* in
*inspect*24.07-a-*) echo "{\"Labels\": {\"io.slipway.krel\": \"a\"}}" ;;
*inspect*) echo "{\"Labels\": {\"io.slipway.krel\": \"${OTHER-c}\"}}" ;;
*) echo "{\"Tags\": [\"24.07-a-debian12-amd64\", \"24.07-c-debian12-amd64\", \"other\"]}" ;;
esac'
    sh ci/combine "$BATS_TEST_TMPDIR/all.json" r.example/d out
    diff "$BATS_TEST_TMPDIR/lines" - <<<"combine docker://r.example/d/doca-driver:24.07-a-debian12-amd64 \
docker://r.example/d/doca-driver:24.07-c-debian12-amd64 --push r.example/d --replace --output out/combined-24.07--debian12-12-x86_64"
    # A tag that stands for another kernel's image now.
    rm "$BATS_TEST_TMPDIR/lines"
    OTHER=a run sh ci/combine "$BATS_TEST_TMPDIR/all.json" r.example/d out
    [ "$status" -eq 1 ]
    says "24.07-c-debian12-amd64 is no image of Slipway's for c"
    [ ! -e "$BATS_TEST_TMPDIR/lines" ]
    # A plan that lacks the kernels of one distribution; the others are combined.
    jq '.without_lists = ["debian12"] | .targets += [.targets[] | .os = "debian13"]' "$BATS_TEST_TMPDIR/all.json" >"$BATS_TEST_TMPDIR/some.json"
    run sh ci/combine "$BATS_TEST_TMPDIR/some.json" r.example/d out
    [ "$status" -eq 1 ]
    says "24.07--debian12-12-x86_64 is not combined: $BATS_TEST_TMPDIR/some.json lacks kernels"
    [ "$(sed 's/.* //' "$BATS_TEST_TMPDIR/lines")" = out/combined-24.07--debian13-12-x86_64 ]
    rm "$BATS_TEST_TMPDIR/lines"
    # slipway takes the options, and a registry that does not answer is no empty one.
    fake skopeo 'exit 1'
    run sh ci/combine "$BATS_TEST_TMPDIR/all.json" r.example/d out
    [ "$status" -ne 0 ]
    [ ! -e "$BATS_TEST_TMPDIR/lines" ]
    # No NIC images, or none yet.
    fake skopeo 'echo "name unknown: repository name not known to registry" >&2; exit 1'
    sh ci/combine "$BATS_TEST_TMPDIR/all.json" r.example/d out
    # A host that is no registry has 404, too.
    fake skopeo 'echo "pinging container registry r.example: invalid status code from registry 404 (Not Found)" >&2; exit 1'
    run sh ci/combine "$BATS_TEST_TMPDIR/all.json" r.example/d out
    [ "$status" -eq 1 ]
    says "pinging container registry"
    fake skopeo 'exit 1'
    jq 'del(.targets[].builds[].images[] | select(.role == "nic"))' "$BATS_TEST_TMPDIR/all.json" >"$BATS_TEST_TMPDIR/gpu.json"
    sh ci/combine "$BATS_TEST_TMPDIR/gpu.json" r.example/d out
    help_of combine | grep -qe --replace
}

@test "plan: what is missing and can be built; lists that cannot be read stop nothing, a registry that is not known does" {
    cd "$BATS_TEST_TMPDIR"
    fake slipway 'echo "$*" >>lines
jq -n "{targets: [{builds: [{args: []}]}, {builds: [{args: [\"a\"]}]}]}"
exit "$(cat code)"'
    echo 25 >code
    OFED=24.07=/ofed NVIDIA='' REVISION=2 OPTIONS='--exclude *-arm64' sh "$repository/ci/plan" nodes.json r.example/d .
    [ "$(jq -c . plan.json)" = '{"targets":[{"builds":[{"args":["a"]}]}]}' ]
    [ "$(jq '.targets | length' all.json)" = 2 ]
    diff lines - <<'END'
plan --nodes nodes.json --ahead --registry r.example/d --json --ofed-version 24.07=/ofed --revision 2 --exclude *-arm64
plan --missing --nodes nodes.json --ahead --registry r.example/d --json --ofed-version 24.07=/ofed --revision 2 --exclude *-arm64
END
    echo 27 >code
    run sh "$repository/ci/plan" nodes.json r.example/d .
    [ "$status" -eq 27 ]
    fake slipway 'echo "{\"event\": \"result\"}"; exit 12'
    run sh "$repository/ci/plan" nodes.json r.example/d .
    [ "$status" -eq 12 ]
    fake slipway 'exit 2'
    run sh "$repository/ci/plan" nodes.json r.example/d .
    [ "$status" -eq 2 ]
}

@test "finish: what was built is signed where not all could be combined, and the Job fails then" {
    local part
    mkdir "$BATS_TEST_TMPDIR"/{out,ci}
    touch "$BATS_TEST_TMPDIR/out/images.json"
    for part in initContainers containers; do
        yq -r ".spec.template.spec.${part}[0].command[2]" ci/kubernetes/finish.yaml | sed "s,/out,$BATS_TEST_TMPDIR/out,g; s,/ci/,$BATS_TEST_TMPDIR/ci/,g" \
            >"$BATS_TEST_TMPDIR/$part"
    done
    echo 'exit 1' >"$BATS_TEST_TMPDIR/ci/combine"
    echo "echo \"\$*\" >'$BATS_TEST_TMPDIR/signed'" >"$BATS_TEST_TMPDIR/ci/sign"
    sh "$BATS_TEST_TMPDIR/initContainers"
    run sh "$BATS_TEST_TMPDIR/containers"
    [ "$status" -eq 1 ]
    says "not all is combined"
    grep -qx "$BATS_TEST_TMPDIR/out/images.json" "$BATS_TEST_TMPDIR/signed"
    # Tried again, with success.
    : >"$BATS_TEST_TMPDIR/ci/combine"
    sh "$BATS_TEST_TMPDIR/initContainers"
    sh "$BATS_TEST_TMPDIR/containers"
}

@test "the command lines of GitHub's and GitLab's files are ones that slipway takes" {
    local line script=$BATS_TEST_TMPDIR/script
    real_slipway
    fake skopeo 'echo "{\"Tags\": []}"'
    cd "$BATS_TEST_TMPDIR"
    mkdir ci
    cp "$repository/ci/combine" ci
    # With --ahead it would ask Debian's servers.
    sed 's/ --ahead//' "$repository/ci/plan" >ci/plan
    node_of 6.1.0-56-amd64 >nodes.json
    export REGISTRY=127.0.0.1:9/drivers CI_NODE_INDEX=1 CI_NODE_TOTAL=8 USERNAME='' PASSWORD=''
    for line in OFED NVIDIA REVISION OPTIONS; do
        [ "$(yq -r ".variables.$line" "$repository/ci/gitlab.yml")" = "$(yq -r ".env.$line" "$repository/ci/github.yml")" ]
        export "$line=$(yq -r ".variables.$line" "$repository/ci/gitlab.yml")"
    done
    yq -r '.plan.script[]' "$repository/ci/gitlab.yml" >"$script"
    sh -eu "$script"
    jq -e '.targets[0].builds[0].args | index("--nvidia=sources/NVIDIA-Linux-x86_64-595.58.03.run")' plan.json
    [ "$(jq '.targets | length' plan.json)" = 1 ]
    mv plan.json one.json
    fake kubectl 'cat nodes.json.given'
    cp nodes.json nodes.json.given
    fake docker 'if [ "$1" = run ]; then
        echo "$*" >docker
        while [ "$1" != --entrypoint ]; do shift; done
        command=$2
        shift 3
        exec "$command" "$@"
    fi'
    yq -r '.jobs.plan.steps[] | select(.env).run' "$repository/ci/github.yml" >"$script"
    # A source in the checkout gets the path that it has in the containers of the builds.
    SLIPWAY=image KUBECONFIG_TEXT='' GITHUB_REPOSITORY=owner/name sh -eu "$script"
    diff plan.json one.json
    grep -q -- "-v $PWD:/__w/name/name -w /__w/name/name " docker
    yq -r '.combine.script[]' "$repository/ci/gitlab.yml" >"$script"
    sh -eu "$script"
    # Every Nth target of none: only the line is read.
    jq '.targets = []' one.json >plan.json
    yq -r '.build.script[]' "$repository/ci/gitlab.yml" >"$script"
    sh -eu "$script"
    grep -q -- '--target 0/8' lines
    yq -r '.jobs.build.steps[].run // empty, .jobs.combine.steps[].run // empty' "$repository/ci/github.yml" |
        sed 's,\${{ matrix.target }},0/1,; /skopeo login/d' >"$script"
    sh -eu "$script"
    # The targets of the matrix: one for each, never more than 256.
    line=$(yq -r '.jobs.plan.steps[] | select(.id == "targets").run' "$repository/ci/github.yml")
    export GITHUB_OUTPUT=$BATS_TEST_TMPDIR/given
    for count in 0 2 300; do
        jq -n "{targets: [range($count)]}" >plan.json
        sh -eu -c "$line"
    done
    [ "$(sed -n 1,2p given)" = $'targets=[]\ntargets=["0/2","1/2"]' ]
    [ "$(sed -n '3s/^targets=//p' given | jq -c '[length, .[255]]')" = '[256,"255/256"]' ]
}

@test "sign: each pushed image once by its digest, with what lies beside it; no key is an error" {
    fake cosign "[ \"\$2\" != --help ] || exit; echo \"\$*\" >>'$BATS_TEST_TMPDIR/lines'"
    cd "$BATS_TEST_TMPDIR"
    mkdir one two
    jq -n '{images: [{role: "nic", digest: "sha256:1", pushed: ["r:5/d/nic:a@sha256:1", "r:5/d/nic:b@sha256:1"]}, {role: "gpu"}]}' >one/images.json
    jq -n '{images: [{role: "nic", digest: "sha256:2", pushed: ["r:5/d/nic:c@sha256:2"]}]}' >two/images.json
    touch one/{sbom.spdx,provenance}.json
    run sh "$repository/ci/sign" one/images.json
    [ "$status" -eq 2 ]
    echo '{"images": [' >cut.json
    COSIGN_KEY=key run sh "$repository/ci/sign" cut.json
    [ "$status" -ne 0 ]
    COSIGN_KEY=key sh "$repository/ci/sign" one/images.json two/images.json
    diff lines - <<'END'
sign --yes --tlog-upload=false --key key r:5/d/nic@sha256:1
attest --yes --tlog-upload=false --key key --replace --type spdxjson --predicate one/./sbom.spdx.json r:5/d/nic@sha256:1
attest --yes --tlog-upload=false --key key --replace --type slsaprovenance1 --predicate one/./provenance.json r:5/d/nic@sha256:1
sign --yes --tlog-upload=false --key key r:5/d/nic@sha256:2
END
    # An index is signed, and each of its images with its own records; one of them has a further name.
    mkdir -p both/x86_64
    touch both/x86_64/sbom.spdx.json
    jq -n '{images: [{role: "gpu", digest: "sha256:9", pushed: ["r:5/d/gpu:a@sha256:9", "r:5/d/gpu:x@sha256:3"],
        images: [{digest: "sha256:3", folder: "x86_64"}, {digest: "sha256:4", folder: "aarch64"}]}]}' >both/images.json
    : >lines
    COSIGN_KEY=key sh "$repository/ci/sign" both/images.json
    diff lines - <<'END'
sign --yes --tlog-upload=false --key key r:5/d/gpu@sha256:3
attest --yes --tlog-upload=false --key key --replace --type spdxjson --predicate both/x86_64/sbom.spdx.json r:5/d/gpu@sha256:3
sign --yes --tlog-upload=false --key key r:5/d/gpu@sha256:4
sign --yes --tlog-upload=false --key key r:5/d/gpu@sha256:9
END
    # cosign 3 has another switch, too.
    fake cosign "if [ \"\$2\" = --help ]; then echo --use-signing-config; else echo \"\$*\" >'$BATS_TEST_TMPDIR/lines'; fi"
    COSIGN_KEY=key sh "$repository/ci/sign" two/images.json
    diff lines - <<<"sign --yes --tlog-upload=false --use-signing-config=false --key key r:5/d/nic@sha256:2"
}

@test "sign: an image that was there and that no build of these made counts only when it is signed already" {
    fake cosign "[ \"\$2\" != --help ] || exit 0; for last; do :; done; echo \"\$1 \$last\" >>'$BATS_TEST_TMPDIR/lines'
        case \$* in verify*nic@*) exit 1 ;; esac"
    cd "$BATS_TEST_TMPDIR"
    jq -n '{images: [["nic", "7"], ["gpu", "8"], ["fm", "2"] | . as [$role, $there]
        | {role: $role, digest: "sha256:2", pushed: ["r/\($role):a@sha256:\($there)"]}]}
        | .images[1].images = [{digest: "sha256:3", folder: "x86_64"}]' >images.json
    touch provenance.json
    COSIGN_KEY=key run sh "$repository/ci/sign" images.json
    [ "$status" -eq 1 ]
    says "ci/sign: r/nic@sha256:7: not signed: none of these builds made it, and cosign could not verify it. Find out who did"
    diff <(sort lines) - <<<$'attest r/fm@sha256:2\npublic-key key\nsign r/fm@sha256:2\nverify r/gpu@sha256:8\nverify r/nic@sha256:7'
}

@test "sign: cosign has the caller's standard input, for a password; where it fails nothing more is signed" {
    fake cosign "[ \"\$2\" != --help ] || exit 0; read -r word; echo \"\$1 \$word\" >>'$BATS_TEST_TMPDIR/lines'; [ \"\$word\" != wrong ]"
    cd "$BATS_TEST_TMPDIR"
    jq -n '{images: [["nic", "1"], ["gpu", "2"] | . as [$role, $n] | {role: $role, digest: "sha256:\($n)", pushed: ["r/\($role):a@sha256:\($n)"]}]}' >images.json
    touch provenance.json
    printf '%s\n' one two three four | COSIGN_KEY=key sh "$repository/ci/sign" images.json
    diff lines - <<<$'sign one\nattest two\nsign three\nattest four'
    rm lines
    COSIGN_KEY=key run sh "$repository/ci/sign" images.json < <(printf '%s\n' one wrong three)
    [ "$status" -ne 0 ]
    diff lines - <<<$'sign one\nattest wrong'
}

@test "tool-image, cross-programs and install-packages say what they take" {
    scripts/tool-image --help | grep -q oci-archive:
    run scripts/tool-image
    [ "$status" -eq 2 ]
    scripts/cross-programs --help | grep -q 'cross-programs MACHINE DIR'
    run scripts/cross-programs aarch64
    [ "$status" -eq 2 ]
    says "usage: scripts/cross-programs"
    run scripts/cross-programs vax "$BATS_TEST_TMPDIR"
    [ "$status" -eq 1 ]
    says "there is no machine \"vax\" here: take one of x86_64 aarch64, "
    scripts/install-packages names | grep -qx buildah
}
