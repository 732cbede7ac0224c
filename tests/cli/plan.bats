#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2046,SC2154
# SPDX-License-Identifier: Apache-2.0
# slipway plan: what a cluster's nodes will ask for, and what the registry has of it.

load helpers
load registry

teardown_file() {
    stop_registry
}

# node NAME KREL ARCH [KEY=VALUE…]: a line of a list of nodes, with the labels of node-feature-discovery that the KEYs end.
node() {
    local name=$1 krel=$2 arch=$3
    shift 3
    printf '%s\n' "$@" | jq -Rnc --arg name "$name" --arg krel "$krel" --arg arch "$arch" '
        {apiVersion: "v1", kind: "Node",
         metadata: {name: $name, labels: ([inputs | select(. != "") | capture("(?<key>[^=]*)=(?<value>.*)")
             | .key |= if test("/") then . else "feature.node.kubernetes.io/" + . end] | from_entries)},
         status: {nodeInfo: {kernelVersion: $krel, architecture: $arch, operatingSystem: "linux"}}}'
}

os() { printf '%s\n' "system-os_release.ID=$1" ${2+"system-os_release.VERSION_ID=$2"}; }
gpu=pci-10de.present=true
nic=pci-15b3.present=true

# list: the lines of node on stdin, as kubectl prints them, in nodes.json.
list() {
    jq -s '{apiVersion: "v1", kind: "List", items: .}' >"$BATS_TEST_TMPDIR/nodes.json"
}

# plan CODE OPTION…: of nodes.json; the plan is JSON in $output, warnings are in $warnings.
plan() {
    local code=$1
    shift
    run bash -c 'exec "$@" 2>"$errors"' bash env errors="$BATS_TEST_TMPDIR/errors" SLIPWAY_DATADIR="${SLIPWAY_DATADIR:-$repository}" \
        SLIPWAY_CACHE="$BATS_TEST_TMPDIR/cache" "$SLIPWAY" plan --json "$@"
    echo "slipway plan $* -> $status"
    echo "$output"
    cat "$BATS_TEST_TMPDIR/errors"
    [ "$status" -eq "$code" ]
}

export errors=${BATS_TEST_TMPDIR:-}/errors

# is FILTER VALUE: what jq prints of the plan.
is() {
    local value
    value=$(jq -rc "$1" <<<"$output")
    [ "$value" = "$2" ] || {
        echo "$1 is $value, not $2"
        return 1
    }
}

@test "nodes become targets, those of most nodes first, each with the images that its devices need" {
    {
        node u1 6.8.0-45-generic amd64 $(os ubuntu 24.04) $gpu
        for i in 1 2 3; do node "d$i" 6.1.0-50-amd64 amd64 $(os debian 12) $gpu $nic; done
        # As node-feature-discovery has it without the operators' configuration; a sound card and a USB controller are no GPU.
        node r1 5.14.0-503.11.1.el9_5.x86_64 amd64 $(os rocky 9.5) pci-0302_10de.present=true pci-0200_15b3.present=true
        node r2 5.14.0-503.11.1.el9_5.x86_64 amd64 $(os rocky 9.5) pci-0403_10de.present=true pci-0200_15b3.present=true
        node plain 6.1.0-50-amd64 amd64 $(os debian 12) pci-8086.present=true
        node kept 6.1.0-49-amd64 amd64 $(os debian 12) $gpu nvidia.com/gpu.deploy.driver=pre-installed
        node none 6.1.0-49-amd64 amd64 $(os debian 12) $gpu nvidia.com/gpu.deploy.operands=false
        node arm 6.1.0-50-arm64 arm64 $(os debian 12) $nic
        node arm9 5.14.0-503.11.1.el9_5.aarch64 arm64 $(os rocky 9.5) $nic
    } | list
    plan 0 --nodes "$BATS_TEST_TMPDIR/nodes.json" --ofed-version 24.07-0.6.1.0=/src/ofed --nvidia-version 595.58.03=/src/a.run \
        --nvidia-version 535.261.03=debian --gpu-operator 26.7 -- --sign-key key.pem
    is '[.targets[] | "\(.index) \(.krel) \(.os) \(.arch) \(.nodes) \(.why) \(.builds | length)"]' \
        '["0 6.1.0-50-amd64 debian12 x86_64 3 node 2","1 5.14.0-503.11.1.el9_5.x86_64 rocky9 x86_64 2 node 2","2 6.1.0-50-arm64 debian12 aarch64 1 node 1","3 5.14.0-503.11.1.el9_5.aarch64 rocky9 aarch64 1 node 1","4 6.8.0-45-generic ubuntu24.04 x86_64 1 node 2"]'
    is '.targets[0].builds[1].args' '["6.1.0-50-amd64","--os=debian12","--arch=x86_64","--ofed=/src/ofed","--nvidia=debian","--gpu-operator=26.7","--sign-key","key.pem"]'
    is '[.targets[1].builds[0].images[].tag]' '["24.07-0.6.1.0-5.14.0-503.11.1.el9_5.x86_64-rocky9.5-amd64","595-5.14.0-503.11.1.el9_5.x86_64-rocky9"]'
    is '.targets[3] | "\(.problem) \(.builds[0].args)"' \
        'the catalogue names no cross compiler of rocky9 for aarch64: build it on such a machine, or pass -- --root debian12 []'
    is '.targets[2].builds[0].args[0:4]' '["6.1.0-50-arm64","--os=debian12","--arch=aarch64","--ofed=/src/ofed"]'
    is '.targets[4].builds[0].args[3]' '--nvidia=/src/a.run'
    is '[.targets[].builds[].images[].state] | unique' '["not-asked"]'
    run_slipway 0 plan --nodes "$BATS_TEST_TMPDIR/nodes.json" --nvidia-version 595.58.03 --gpu-operator 26.7
    says "6.1.0-50-amd64                debian12     x86_64      3  node   driver:595-6.1.0-50-amd64-debian12" \
        "3 kernels, 3 images; 3 nodes have neither GPU nor NIC" \
        "nodes with GPUs run debian12, rocky9, ubuntu24.04: under a ClusterPolicy the GPU operator uses one"
}

@test "an option about a driver is left out for builds without that driver, which would refuse it" {
    {
        node both 6.1.0-50-amd64 amd64 $(os debian 12) $gpu $nic
        node storage 6.1.0-49-amd64 amd64 $(os debian 12) $nic
        node gpus 6.1.0-48-amd64 amd64 $(os debian 12) $gpu
    } | list
    plan 0 --nodes "$BATS_TEST_TMPDIR/nodes.json" --ofed-version 24.07-0.6.1.0=/src/ofed --nvidia-version 595.58.03=/src/a.run \
        -- --imex /src/imex --gdrcopy=/src/gdr --nfsrdma --ofed-flag --with-x --force
    is '[.targets | sort_by(.krel)[] | "\(.krel) \(.builds[0].args[3:] | join(" "))"]' \
        '["6.1.0-48-amd64 --nvidia=/src/a.run --imex /src/imex --gdrcopy=/src/gdr --force","6.1.0-49-amd64 --ofed=/src/ofed --nvidia=none --nfsrdma --ofed-flag --with-x --force","6.1.0-50-amd64 --ofed=/src/ofed --nvidia=/src/a.run --imex /src/imex --gdrcopy=/src/gdr --nfsrdma --ofed-flag --with-x --force"]'
    # So are those of build --plan.
    echo "$output" >"$BATS_TEST_TMPDIR/plan.json"
    run_slipway 6 build --plan "$BATS_TEST_TMPDIR/plan.json" --nfsrdma --dry-run
    says "slipway build: --ofed /src/ofed: " "slipway build: --nvidia /src/a.run: "
}

@test "with --sources a version is a source" {
    node d1 6.1.0-50-amd64 amd64 $(os debian 12) $gpu $nic | list
    plan 0 --nodes "$BATS_TEST_TMPDIR/nodes.json" --ofed-version 24.07-0.6.1.0 --nvidia-version 595.58.03 --nvidia-version 535.261.03=debian \
        --sources /src --sources /more
    is '.targets[0].builds[0].args' \
        '["6.1.0-50-amd64","--os=debian12","--arch=x86_64","--ofed=24.07-0.6.1.0","--nvidia=595.58.03","--sources=/src","--sources=/more"]'
    is '.targets[0].builds[1].args[4]' '--nvidia=debian'
    # Builds may run in another folder.
    mkdir "$BATS_TEST_TMPDIR/here"
    (cd "$BATS_TEST_TMPDIR" && "$SLIPWAY" plan --nodes nodes.json --ofed-version 24.07-0.6.1.0=here --sources here --json >"$BATS_TEST_TMPDIR/relative.json")
    [[ $(jq -c '.targets[0].builds[0].args[3:]' "$BATS_TEST_TMPDIR/relative.json") == \
        "[\"--ofed=$BATS_TEST_TMPDIR/here\",\"--nvidia=none\",\"--sources=$BATS_TEST_TMPDIR/here\"]" ]]
    plan 0 --nodes "$BATS_TEST_TMPDIR/nodes.json" --ofed-version 24.07-0.6.1.0 --nvidia-version 595.58.03
    is '.targets[0].builds[0].args' '[]'
}

@test "tags are those that the operators compose" {
    # krel, ID, VERSION_ID, what the network operator asks for behind the version, and the GPU operator of today and of before:
    # gpu-operator internal/state/nodepool.go and nvidiadriver_types.go, network-operator pkg/state/state_ofed.go.
    local krel id version nic_tag gpu_tags
    while read -r krel id version nic_tag gpu_tags; do
        node n "$krel" amd64 $(os "$id" "$version") $gpu $nic | list
        plan 0 --nodes "$BATS_TEST_TMPDIR/nodes.json" --ofed-version 24.07 --nvidia-version 580.1
        is '[.targets[].builds[].images[].tag] | join(" ")' "24.07-$nic_tag 580-${gpu_tags// / 580-}"
    done <<'END'
6.12.117+deb13-amd64 debian 13 6.12.117_deb13-amd64-debian13-amd64 6.12.117_deb13-amd64-debian13
3.10.0-1160.45.1.el7.custom centos 7 3.10.0-1160.45.1.el7.custom-centos7-amd64 3.10.0-1160.45.1.el7.custom-centos7
5.14.0-503.11.1.el9_5.x86_64 almalinux 9.5 5.14.0-503.11.1.el9_5.x86_64-almalinux9.5-amd64 5.14.0-503.11.1.el9_5.x86_64-almalinux9.5
5.14.0-427.13.1.el9_4.x86_64 rhel 9.4 5.14.0-427.13.1.el9_4.x86_64-rhel9.4-amd64 5.14.0-427.13.1.el9_4.x86_64-rhel9 5.14.0-427.13.1.el9_4.x86_64-rhel9.4
6.1.0-rc3+ debian 12 6.1.0-rc3-debian12-amd64 6.1.0-rc3-debian12
6.4.0-150600.23.7-default sles 15.6 6.4.0-150600.23.7-default-sles15.6-amd64 6.4.0-150600.23.7-default-sles15.6
6.16.8-1-default opensuse-tumbleweed 20251120 6.16.8-1-default-opensuse-tumbleweed20251120-amd64 6.16.8-1-default-opensuse-tumbleweed20251120
6.12.0-160000.5-default sles 16.0 6.12.0-160000.5-default-sles16.0-amd64 6.12.0-160000.5-default-sles16.0
END
}

@test "a node's VERSION_ID that its kernel does not tell: a pinned kernel, a snapshot" {
    {
        node pinned 5.14.0-427.13.1.el9_4.x86_64 amd64 $(os rocky 9.6) $gpu $nic
        node snapshot 6.16.8-1-default amd64 $(os opensuse-tumbleweed 20251120) $gpu
    } | list
    plan 0 --nodes "$BATS_TEST_TMPDIR/nodes.json" --ofed-version 24.07=/src/ofed --nvidia-version 580.1=/src/a.run --gpu-operator 26.7
    is '[.targets[] | "\(.os) \(.builds[0].args[3]) \(.builds[0].images[-1].tag)"]' \
        '["opensuse-tumbleweed --os-version=20251120 580-6.16.8-1-default-opensuse-tumbleweed20251120","rocky9 --os-version=9.6 580-5.14.0-427.13.1.el9_4.x86_64-rocky9"]'
    is '.warnings[0]' 'nodes of rocky9 9.6, such as pinned, run 5.14.0-427.13.1.el9_4.x86_64, a kernel of 9.4 (pinned, EUS): their tags have 9.6, and a build by hand needs --os-version 9.6'
    is '[.targets[].problem]' '["",""]'
    # Which snapshot a kernel comes with is not known.
    plan 0 --kernel 6.16.8-1-default --os opensuse-tumbleweed --nvidia-version 580.1=/src/a.run
    is '.targets[0] | "\(.problem) \(.builds[0].args)"' \
        "the tags have the nodes' VERSION_ID, which the kernel's name does not tell: plan it by nodes with labels, or slipway build --os opensuse-tumbleweed --os-version VERSION_ID []"
}

@test "every distribution of the catalogue has a plan" {
    local file id version
    for file in "$repository"/kernels/catalogue/*.ini; do
        id=$(sed -n 's/^id = //p' "$file")
        version=$(sed -n 's/^version_id = //p' "$file")
        [[ -z $id || $version == *'{'* ]] || node "${file##*/}" 1.2.3-4-made-up amd64 $(os "$id" "$version") $gpu $nic
    done | list
    plan 0 --nodes "$BATS_TEST_TMPDIR/nodes.json" --ofed-version 24.07 --nvidia-version 580.1
    [ "$(jq '.targets | length' <<<"$output")" -ge 20 ]
    is '[.targets[] | select(.problem != "") | .os]' '[]'
}

@test "what would go wrong in the cluster is a warning, and what cannot be built keeps its tags" {
    {
        node a 6.1.0-rc3 amd64 $(os debian 12) $gpu
        node b 6.1.0-rc3+ amd64 $(os debian 12) $gpu
        node sid 6.17.8+deb14-amd64 amd64 $(os debian) $gpu
        node bare 6.12.43+deb13-amd64 amd64
        node garden 6.12.40-cloud-amd64 amd64 $(os gardenlinux 1877.1) $gpu
        node rhel 5.14.0-427.13.1.el9_4.x86_64 amd64 $(os rhel 9.4) $gpu
        node mips 6.12.43+deb13-mips64r6el mips64r6el $(os debian 13) $gpu
        node 'x; reboot #' 6.17.8+deb14-amd64 amd64 $(os debian) $gpu $nic
        node odd '../etc' amd64 $(os debian 12) $gpu
        node idle '' amd64 $(os debian 12)
        node null 6.1.0-50-amd64 amd64 $(os debian 12) | jq -c '.metadata.labels["feature.node.kubernetes.io/pci-10de.present"] = null'
    } | list
    plan 0 --nodes "$BATS_TEST_TMPDIR/nodes.json" --ofed-version 24.07 --ofed-version 25.01 --nvidia-version 580.1
    is '.targets[] | select(.krel == "6.12.40-cloud-amd64") | "\(.problem): \(.builds[0].images[0].tag) \(.builds[0].args)"' \
        'distribution gardenlinux1877.1 is not in the catalogue: 580-6.12.40-cloud-amd64-gardenlinux1877.1 []'
    # A tag has one image: the second OFED gets its NIC image alone.
    is '[.targets[] | select(.arch == "mips64r6el") | .builds[] | "\(.ofed) \(.nvidia)"]' '[" 580.1"]'
    is '[.targets[] | select(.krel == "6.12.43+deb13-amd64") | .builds[] | "\(.ofed) \(.nvidia) \(.images | length)"]' '["24.07 580.1 2","25.01  1"]'
    is '.targets[] | select(.arch == "mips64r6el") | .problem' 'architecture mips64r6el is not known'
    output=$(jq -r '.warnings[]' <<<"$output")
    says "kernels 6.1.0-rc3+ and 6.1.0-rc3 share the tag REGISTRY/driver:580-6.1.0-rc3-debian12" \
        "debian12 has no kernels named like 6.1.0-rc3: to build for it, pass -- --kernel-from PATH" \
        "node sid has no label feature.node.kubernetes.io/system-os_release.VERSION_ID: the operators deploy no driver there" \
        "kubectl label node NODE feature.node.kubernetes.io/system-os_release.VERSION_ID=" \
        'node odd: status.nodeInfo.kernelVersion is "../etc", which is no kernel release' \
        "node bare has no label of node-feature-discovery" \
        "GPU images of rhel9 have two tags, for newer operators and for older ones (rhel9, rhel9.4)" \
        "GPU images for OFED 24.07 and 25.01 share a tag: those of this plan are for 24.07"
}

@test "--exclude leaves out kernels, or a driver on them" {
    { node a 6.1.0-50-amd64 amd64 $(os debian 12) $gpu $nic; node b 6.1.0-50-rt-amd64 amd64 $(os debian 12) $gpu; } | list
    plan 0 --nodes "$BATS_TEST_TMPDIR/nodes.json" --ofed-version 24.07 --nvidia-version 580.1 --nvidia-version 535.2 \
        --exclude '*-rt-*' --exclude '6.1.*:535*'
    is '[.targets[] | "\(.krel) \([.builds[].nvidia])"]' '["6.1.0-50-amd64 [\"580.1\"]"]'
    is '[.excluded[] | "\(.krel) \(.nvidia) \(.pattern) \(.nodes)"]' '["6.1.0-50-rt-amd64  *-rt-* 1","6.1.0-50-amd64 535.2 6.1.*:535* 1"]'
    plan 0 --nodes "$BATS_TEST_TMPDIR/nodes.json" --ofed-version 24.07 --nvidia-version 535.2 --exclude '6.1.*:535*'
    is '[.targets[0].builds[] | "\(.ofed) \(.nvidia)"]' '["24.07 "]'
    plan 0 --nodes "$BATS_TEST_TMPDIR/nodes.json" --nvidia-version 580.1 --nvidia-version 580.2 --exclude '5.*'
    is '[.targets[0].builds[].nvidia]' '["580.1"]'
    is '.warnings' '["drivers 580.1 and 580.2 are of one branch, and their images share a tag: those of this plan have 580.1","--exclude 5.* leaves out nothing"]'
    run_slipway 2 plan --nodes "$BATS_TEST_TMPDIR/nodes.json" --nvidia-version 580.1 --nvidia-version 580.1=/src
    says "this version is given twice"
    run_slipway 2 plan --nodes "$BATS_TEST_TMPDIR/nodes.json" --nvidia-version 580.1 -- --output out
    says "--output cannot be given to every build"
    run_slipway 2 plan --nodes "$BATS_TEST_TMPDIR/nodes.json" --nvidia-version 580.1 -- -qoDIR
    says "-qoDIR cannot be given to every build"
    # The tags have it, and each target its own.
    run_slipway 2 plan --nodes "$BATS_TEST_TMPDIR/nodes.json" --nvidia-version 580.1 -- --os-version 12.5
    says "--os-version cannot be given to every build"
}

@test "--arch: nodes of others are left out by name; a kernel that names none is planned for each" {
    {
        node a 6.1.0-50-amd64 amd64 $(os debian 12) $gpu
        node b 6.1.0-50-arm64 arm64 $(os debian 12) $gpu
        node c 6.8.0-45-generic arm64 $(os ubuntu 24.04) $gpu
    } | list
    plan 0 --nodes "$BATS_TEST_TMPDIR/nodes.json" --nvidia-version 580.1 --arch amd64
    is '[.targets[].krel]' '["6.1.0-50-amd64"]'
    is '[.excluded[] | "\(.krel) \(.pattern) \(.nodes)"]' \
        '["6.1.0-50-arm64 --arch x86_64 1","6.8.0-45-generic --arch x86_64 1"]'
    plan 0 --nodes "$BATS_TEST_TMPDIR/nodes.json" --nvidia-version 580.1 --arch arm64,amd64
    is '.excluded' '[]'
    plan 0 --kernel 6.8.0-45-generic --os ubuntu24.04 --nvidia-version 580.1 --arch x86_64,arm64
    is '[.targets[].arch] | sort' '["aarch64","x86_64"]'
    run_slipway 0 plan --kernel 6.8.0-45-generic --os ubuntu24.04 --nvidia-version 580.1 --arch x86_64,arm64
    says "KERNEL            OS           ARCH     NODES" "6.8.0-45-generic  ubuntu24.04  aarch64      0" "6.8.0-45-generic  ubuntu24.04  x86_64       0"
    plan 0 --kernel 6.1.0-50-amd64 --kernel 6.1.0-50-arm64 --nvidia-version 580.1 --arch x86_64,arm64
    is '[.targets[] | "\(.krel) \(.arch)"] | sort' '["6.1.0-50-amd64 x86_64","6.1.0-50-arm64 aarch64"]'
    run_slipway 2 plan --kernel 6.1.0-50-amd64 --nvidia-version 580.1 --arch arm64
    says "--arch aarch64: kernel 6.1.0-50-amd64 is for x86_64" "try: use 6.1.0-50-arm64, if there is such a kernel"
}

@test "--ahead: the newest kernel of a node's series and flavour, of its distribution's lists" {
    start_registry
    load repository
    make_repository
    for krel in 6.1.0-50-amd64 6.1.0-51-amd64 6.1.0-52-rt-amd64 6.12.9+bpo-amd64; do add_kernel "$krel"; done
    publish
    update_system
    { node a 6.1.0-49-amd64 amd64 $(os debian 12) $gpu; node b 6.1.0-51-amd64 amd64 $(os debian 12) $nic; } | list
    plan 0 --nodes "$BATS_TEST_TMPDIR/nodes.json" --ahead --ofed-version 24.07 --nvidia-version 580.1
    is '[.targets[] | "\(.krel) \(.nodes) \(.why) \([.builds[].images[].role])"]' \
        '["6.1.0-51-amd64 1 node [\"nic\",\"gpu\"]","6.1.0-49-amd64 1 node [\"gpu\"]"]'
    node c 6.1.0-50-cloud-amd64 amd64 $(os debian 12) $gpu | list
    plan 0 --nodes "$BATS_TEST_TMPDIR/nodes.json" --ahead --nvidia-version 580.1
    is '.warnings[0]' 'the lists of debian12 have neither 6.1.0-50-cloud-amd64 nor a newer kernel of its series and flavour'
    # So it is not known whether the registry has what such a node will ask for.
    put_image "$registry/drivers/driver:580-6.1.0-50-cloud-amd64-debian12" io.slipway.krel=6.1.0-50-cloud-amd64 io.slipway.proof=holds \
        io.slipway.role=gpu org.opencontainers.image.version=580.1
    check=(plan --nodes "$BATS_TEST_TMPDIR/nodes.json" --nvidia-version 580.1 --registry "$registry/drivers" --check)
    run_slipway 0 "${check[@]}"
    run_slipway 28 "${check[@]}" --ahead
    # Nor does it matter for one that asks for none, or that is excluded.
    run_slipway 28 "${check[@]}" --ahead --exclude '6.1.0-49-*'
    run_slipway 0 "${check[@]}" --ahead --exclude '6.1.0-50-cloud-*'
    { node c 6.1.0-50-cloud-amd64 amd64 $(os debian 12); node d 6.1.0-51-amd64 amd64 $(os debian 12) $gpu; } | list
    put_image "$registry/drivers/driver:580-6.1.0-51-amd64-debian12" io.slipway.krel=6.1.0-51-amd64 io.slipway.proof=holds \
        io.slipway.role=gpu org.opencontainers.image.version=580.1
    run_slipway 0 "${check[@]}" --ahead
    # No update goes back; and one distribution without lists costs no other its plan.
    { node d 6.1.0-99-amd64 amd64 $(os debian 12) $gpu; node e 6.1.0-49-amd64 amd64 $(os debian 12) $gpu; } | list
    plan 0 --nodes "$BATS_TEST_TMPDIR/nodes.json" --ahead --nvidia-version 580.1
    is '[.targets[].krel]' '["6.1.0-99-amd64","6.1.0-49-amd64","6.1.0-51-amd64"]'
    cp "$repository"/kernels/catalogue/{rhel9.ini,el.inc} "$SLIPWAY_DATADIR/kernels/catalogue/"
    { node d 6.1.0-49-amd64 amd64 $(os debian 12) $gpu; node e 5.14.0-427.13.1.el9_4.x86_64 amd64 $(os rhel 9.4) $gpu; } | list
    plan 25 --nodes "$BATS_TEST_TMPDIR/nodes.json" --ahead --nvidia-version 580.1 --gpu-operator 26.7
    is '"\(.targets | length) \(.without_lists)"' '3 ["rhel9"]'
    is '.warnings[0] | startswith("the next kernel of rhel9 is not known: ")' true
}

@test "what is no list of nodes is refused, with the command that prints one" {
    run_slipway 12 plan --nodes /dev/null --nvidia-version 580.1
    says "--nodes /dev/null: it is empty" "try: kubectl get nodes -o json | slipway plan --nodes -"
    node a 6.1.0-50-amd64 amd64 $(os debian 12) $gpu | list
    head -c 100 "$BATS_TEST_TMPDIR/nodes.json" >"$BATS_TEST_TMPDIR/cut.json"
    run_slipway 12 plan --nodes "$BATS_TEST_TMPDIR/cut.json" --nvidia-version 580.1
    says "the JSON is cut short"
    echo '{"kind": "List", "items": []}' >"$BATS_TEST_TMPDIR/none.json"
    run_slipway 12 plan --nodes "$BATS_TEST_TMPDIR/none.json" --nvidia-version 580.1
    says "the list is empty: may this account list nodes?"
    echo '{"kind": "List", "items": [{"kind": "Pod"}]}' >"$BATS_TEST_TMPDIR/pods.json"
    run_slipway 12 plan --nodes "$BATS_TEST_TMPDIR/pods.json" --nvidia-version 580.1
    says 'item 0 is a "Pod", not a Node'
    run_slipway 12 plan --nodes - --nvidia-version 580.1 <<<'{"kind": "List", "items": [{"metadata": {}}]}'
    says "item 0 has no kind, and the list is no NodeList"
    { node a 6.1.0-50-amd64 amd64; node b 6.1.0-50-amd64 amd64; } >"$BATS_TEST_TMPDIR/two.json"
    run_slipway 12 plan --nodes "$BATS_TEST_TMPDIR/two.json" --nvidia-version 580.1
    says "more follows the first JSON value"
    node a 6.1.0-50-amd64 amd64 | jq '.status.nodeInfo.operatingSystem = "windows"' >"$BATS_TEST_TMPDIR/windows.json"
    run_slipway 12 plan --nodes "$BATS_TEST_TMPDIR/windows.json" --nvidia-version 580.1
    says "no node in the list runs Linux"
    run bash -c '"$@" >/dev/full' bash env SLIPWAY_DATADIR="$repository" SLIPWAY_CACHE="$BATS_TEST_TMPDIR/cache" "$SLIPWAY" \
        plan --nodes "$BATS_TEST_TMPDIR/nodes.json" --nvidia-version 580.1 --json
    [ "$status" -eq 17 ]
    says "slipway: the output could not be written: No space left on device"
    run_slipway 2 plan --nodes "$BATS_TEST_TMPDIR/nothing" --nvidia-version 580.1
    run_slipway 2 plan --nodes - --nvidia-version debian
    says "--nvidia-version debian: its version is missing" "try: --nvidia-version VERSION=debian"
}

@test "the registry: there, missing, differs and how; --check and --missing" {
    local names=(plan --kernel 6.1.0-50-amd64 --ofed-version 24.07 --nvidia-version 580.1) nic_tag=24.07-6.1.0-50-amd64-debian12-amd64
    local gpu_tag=580-6.1.0-50-amd64-debian12 ours=(io.slipway.krel=6.1.0-50-amd64 io.slipway.proof=holds)
    start_registry
    names+=(--registry "$registry/drivers")
    run_slipway 28 "${names[@]}" --check
    says "1 kernel, 2 images: 2 missing" "the registry lacks images that nodes will ask for"
    run_slipway 0 "${names[@]}"
    put_image "$registry/drivers/doca-driver:$nic_tag" "${ours[@]}" io.slipway.role=nic org.opencontainers.image.version=24.07
    put_image "$registry/drivers/driver:$gpu_tag" "${ours[@]}" io.slipway.role=gpu org.opencontainers.image.version=580.1 io.slipway.peermem=24.07
    run_slipway 0 "${names[@]}" --check
    says "doca-driver:$nic_tag  there" "1 kernel, 2 images: 2 there"
    run_slipway 0 "${names[@]}" --missing --html "$BATS_TEST_TMPDIR/plan.html"
    says "0 kernels, 0 images"
    grep -q "<p>1 kernel. <span class=\"there\">0 nodes</span> run a kernel whose images are not all in <code>$registry/drivers</code>.</p>" \
        "$BATS_TEST_TMPDIR/plan.html"
    grep -q "<code>driver:$gpu_tag</code> <span class=\"there\">there</span>" "$BATS_TEST_TMPDIR/plan.html"
    grep -q "<td>debian12</td><td>x86_64</td>" "$BATS_TEST_TMPDIR/plan.html"
    { node a 6.1.0-50-amd64 amd64 "system-os_release.ID=<b>" $gpu; } | list
    run_slipway 0 plan --nodes "$BATS_TEST_TMPDIR/nodes.json" --nvidia-version 580.1 --html "$BATS_TEST_TMPDIR/plan.html"
    grep -q "distribution &lt;b&gt; is not in the catalogue" "$BATS_TEST_TMPDIR/plan.html"
    while read -r says labels; do
        # shellcheck disable=SC2086
        put_image "$registry/drivers/driver:$gpu_tag" $labels
        run_slipway 28 "${names[@]}" --check --missing
        output=$(tr -s ' ' <<<"$output")
        says "driver:$gpu_tag differs: ${says//_/ }" "2 images: 1 there, 1 differs"
    done <<END
driver_580.0 ${ours[*]} io.slipway.role=gpu org.opencontainers.image.version=580.0 io.slipway.peermem=24.07
nvidia-peermem_for_OFED_23.10 ${ours[*]} io.slipway.role=gpu org.opencontainers.image.version=580.1 io.slipway.peermem=23.10
no_nvidia-peermem ${ours[*]} io.slipway.role=gpu org.opencontainers.image.version=580.1 io.slipway.peermem=none
not_proven io.slipway.role=gpu io.slipway.krel=6.1.0-50-amd64 io.slipway.proof=will-not-load
for_kernel_6.1.0-50+ io.slipway.role=gpu io.slipway.krel=6.1.0-50+ io.slipway.proof=holds
not_made_by_Slipway maintainer=NVIDIA
END
    # A GPU tag of Ubuntu is the same on every machine.
    { node a 6.8.0-45-generic arm64 $(os ubuntu 24.04) $gpu; node b 6.8.0-45-generic amd64 $(os ubuntu 24.04) $gpu; } | list
    put_image "$registry/drivers/driver:580-6.8.0-45-generic-ubuntu24.04" io.slipway.krel=6.8.0-45-generic io.slipway.proof=holds \
        io.slipway.role=gpu org.opencontainers.image.version=580.1
    run_slipway 28 plan --nodes "$BATS_TEST_TMPDIR/nodes.json" --nvidia-version 580.1 --registry "$registry/drivers" --check
    output=$(tr -s ' ' <<<"$output")
    says "differs: for amd64" "1 there, 1 differs" "nodes of aarch64 and of x86_64 ask for the tag" "push one index of both images under it (slipway build --arch aarch64,x86_64, or slipway index)"
    architectures="amd64 arm64" put_image "$registry/drivers/driver:580-6.8.0-45-generic-ubuntu24.04" io.slipway.krel=6.8.0-45-generic \
        io.slipway.proof=holds io.slipway.role=gpu org.opencontainers.image.version=580.1
    run_slipway 0 plan --nodes "$BATS_TEST_TMPDIR/nodes.json" --nvidia-version 580.1 --registry "$registry/drivers" --check
    architectures="ppc64le s390x" put_image "$registry/drivers/driver:580-6.8.0-45-generic-ubuntu24.04" io.slipway.krel=6.8.0-45-generic
    run_slipway 28 plan --nodes "$BATS_TEST_TMPDIR/nodes.json" --nvidia-version 580.1 --registry "$registry/drivers" --check
    says "2 kernels, 2 images: 2 missing"
    remove_tag "$registry/drivers/driver:$gpu_tag"
    run_slipway 28 "${names[@]}" --check
    output=$(tr -s ' ' <<<"$output")
    says "driver:$gpu_tag missing"
    # Nodes whose images are not known have none.
    { node a 6.1.0-50-amd64 amd64 $(os debian 12) $nic; node b 6.1.99-weird amd64; } | list
    run_slipway 28 plan --nodes "$BATS_TEST_TMPDIR/nodes.json" --ofed-version 24.07 --registry "$registry/drivers" --check --missing \
        --html "$BATS_TEST_TMPDIR/plan.html"
    says "cannot be built: its distribution is unknown"
    grep -q "<span class=\"missing\">1 node</span> runs a kernel whose images are not all in" "$BATS_TEST_TMPDIR/plan.html"
    { node a 6.1.0-50-amd64 amd64 $(os debian 12) $nic; node b / amd64 $(os debian 12) $nic; } | list
    run_slipway 28 plan --nodes "$BATS_TEST_TMPDIR/nodes.json" --ofed-version 24.07 --registry "$registry/drivers" --check
}

@test "a registry that cannot be asked is unknown and exit code 27, never missing" {
    local names=(plan --kernel 6.1.0-50-amd64 --nvidia-version 580.1 --check)
    run_slipway 27 "${names[@]}" --registry 127.0.0.1:9/drivers
    says "unknown" "127.0.0.1:9/drivers/driver: the registry could not be asked" "connection refused"
    # A web server has 404 for all of it.
    load httpd
    # shellcheck disable=SC2034
    local mirror=$BATS_TEST_TMPDIR
    start_httpd
    mkdir -p "$BATS_TEST_TMPDIR/home/.config/containers"
    printf '[[registry]]\nlocation = "%s"\ninsecure = true\n' "${http#http://}" >"$BATS_TEST_TMPDIR/home/.config/containers/registries.conf"
    HOME=$BATS_TEST_TMPDIR/home run_slipway 27 "${names[@]}" --registry "${http#http://}/drivers"
    says "unknown" "404"
    stop_httpd
    # bcrypt of "right", by perl's crypt.
    mkdir -p "$BATS_FILE_TMPDIR"
    perl -e 'print "user:", crypt("right", "\$2y\$05\$abcdefghijklmnopqrstuu"), "\n"' >"$BATS_FILE_TMPDIR/htpasswd"
    stop_registry
    start_registry 'auth: {htpasswd: {realm: test, path: '"$BATS_FILE_TMPDIR/htpasswd"'}}'
    run_slipway 27 "${names[@]}" --registry "$registry/drivers"
    says "the registry could not be asked" "try: log in: skopeo login $registry"
    export REGISTRY_AUTH_FILE=$BATS_TEST_TMPDIR/auth.json
    skopeo login -u user -p right "$registry"
    run_slipway 28 "${names[@]}" --registry "$registry/drivers"
    rm "$HOME/.config/containers/registries.conf"
    run_slipway 27 "${names[@]}" --registry "$registry/drivers"
    says "try: for a registry without TLS"
    make_certificates
    stop_registry
    REGISTRY_HTTP_TLS_CERTIFICATE=$BATS_TEST_TMPDIR/server.pem REGISTRY_HTTP_TLS_KEY=$BATS_TEST_TMPDIR/server-key.pem start_registry
    rm "$HOME/.config/containers/registries.conf"
    run_slipway 27 "${names[@]}" --registry "$registry/drivers"
    says "try: put the registry's authority into /etc/containers/certs.d/$registry/ca.crt"
    PATH=$(path_without skopeo) run_slipway 10 "${names[@]}" --registry "$registry/drivers"
    says "skopeo"
    run_slipway 2 plan --kernel 6.1.0-50-amd64 --nvidia-version 580.1 --check
    says "it compares the plan with what a registry has"
}

# own_kernel: a kernel of files and drivers of our own; ofed, nvidia and behind are what plan takes.
own_kernel() {
    load kernel-from
    make_root "$BATS_TEST_TMPDIR/root" 6.6.9-own1
    make_ofed
    make_gpu_sources
    mkdir "$BATS_TEST_TMPDIR/ofed/debian"
    echo 'mlnx-ofed-kernel (24.07.OFED.24.07.0.6.0.1-1) unstable; urgency=low' >"$BATS_TEST_TMPDIR/ofed/debian/changelog"
    echo 'ccflags-y += -DNV_VERSION_STRING=\"1.0\"' >"$BATS_TEST_TMPDIR/nvidia/kernel-open/Kbuild"
    ofed=(--ofed-version "24.07-0.6.0.1=$BATS_TEST_TMPDIR/ofed")
    nvidia=(--nvidia-version "1.0=$BATS_TEST_TMPDIR/nvidia")
    behind=(-- --offline --force --kernel-from "$BATS_TEST_TMPDIR/root" --userspace "$BATS_TEST_TMPDIR/userspace" --dry-run)
}

@test "build --plan: the builds of a plan one after another, each as its line says; one that fails stops no other" {
    own_kernel
    plan 0 --os debian12 --kernel 6.6.9-own1 --kernel 6.6.9-other "${ofed[@]}" "${nvidia[@]}" --nvidia-version 2.0=/nonexistent "${behind[@]}"
    echo "$output" >"$BATS_TEST_TMPDIR/plan.json"
    is '[.targets[] | "\(.index) \(.krel) \(.builds | length)"]' '["0 6.6.9-own1 2","1 6.6.9-other 2"]'
    run_slipway 6 build --plan "$BATS_TEST_TMPDIR/plan.json"
    says "==> target 0: 6.6.9-own1 of debian12, OFED 24.07-0.6.0.1, NVIDIA 1.0" "gpu image  localhost/slipway/driver:1-6.6.9-own1-debian12" \
        "slipway build: --nvidia /nonexistent" "==> target 1: 6.6.9-other" "==> dry run: 1 of 4 builds could be made; the exit code says: a driver source is missing"
    run_slipway 5 build --plan "$BATS_TEST_TMPDIR/plan.json" --target 1/2 --json
    [ "$(tail -n 1 <<<"$output" | cut -d' ' -f1-4)" = "==> dry run: 0" ]
    [ "$(grep '"event":"plan"' <<<"$output" | jq -c '[.builds[] | [.index, .exit_code]]')" = '[[1,5],[1,6]]' ]
    JOB_COMPLETION_INDEX=0 run_slipway 6 build --plan "$BATS_TEST_TMPDIR/plan.json" --quiet
    says "==> dry run: 1 of 2 builds could be made"
    run_slipway 6 build --plan "$BATS_TEST_TMPDIR/plan.json" --target 0 "-qo$BATS_TEST_TMPDIR/out"
    says "==> dry run: 1 of 2 builds could be made"
    run_slipway 2 build --plan "$BATS_TEST_TMPDIR/plan.json" --target 2
    says "--target 2: the plan has 2 targets" "targets are numbered from 0"
    run_slipway 2 build --plan "$BATS_TEST_TMPDIR/plan.json" --target 2/2
    run_slipway 12 build --plan "$repository/README.md"
    says "README.md: no JSON" "try: slipway plan"
    run_slipway 2 build --plan "$BATS_TEST_TMPDIR/plan.json" newest
    run_slipway 2 build --plan "$BATS_TEST_TMPDIR/plan.json" --output oci-archive:x
}

@test "build --plan: a source whose version is not the plan's is not compiled" {
    own_kernel
    ofed[1]=24.07-0.6.1.0=${ofed[1]#*=}
    plan 0 --os debian12 --kernel 6.6.9-own1 "${ofed[@]}" "${nvidia[@]}" "${behind[@]}"
    echo "$output" >"$BATS_TEST_TMPDIR/plan.json"
    run_slipway 6 build --plan "$BATS_TEST_TMPDIR/plan.json"
    says "the plan has the nic image 24.07-0.6.1.0-6.6.9-own1-debian12-amd64, and this build makes 24.07-0.6.0.1-6.6.9-own1-debian12-amd64" \
        "try: slipway plan --ofed-version 24.07-0.6.0.1=SOURCE"
    [[ $output != *"to be built"* ]]
    # A GPU tag has the branch alone.
    plan 0 --os debian12 --kernel 6.6.9-own1 --nvidia-version "1.1=${nvidia[1]#*=}" "${behind[@]}"
    echo "$output" >"$BATS_TEST_TMPDIR/plan.json"
    run_slipway 6 build --plan "$BATS_TEST_TMPDIR/plan.json"
    says "the plan has the gpu image 1-6.6.9-own1-debian12, and this build makes NVIDIA 1.0" "try: slipway plan --nvidia-version 1.0=SOURCE"
    for version in 1.0:0 1.1:6; do
        plan 0 --os debian12 --kernel 6.6.9-own1 --revision 2 --nvidia-version "${version%:*}=${nvidia[1]#*=}" "${behind[@]}"
        echo "$output" >"$BATS_TEST_TMPDIR/plan.json"
        run_slipway "${version#*:}" build --plan "$BATS_TEST_TMPDIR/plan.json"
    done
    says "this build makes NVIDIA 1.0-2" "try: slipway plan --nvidia-version 1.0=SOURCE"
}
