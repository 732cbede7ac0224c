#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# slipway build of a set that will not load, for real: what is left for people to look at, what --force makes, and that
# the tag of an image that holds is never taken by one that does not; and what is said of a tag that moves. And what the
# compiler cache may answer. Small modules, the newest kernel of Debian 12.

bats_require_minimum_version 1.5.0
load ../verdict

setup_file() {
    top=$(realpath "$BATS_TEST_DIRNAME/../..")
    slipway=$(cd "$top" && realpath -m "${O:-build}")/slipway
    folder=$BATS_FILE_TMPDIR
    export top slipway folder sources
    sources=$folder/sources
    mkdir "$sources"
    local name
    # A version of its own, so tags of its own: other files of this layer run beside it and build smallest-ofed too.
    for name in first good bad; do
        cp -r "$top/tests/real/smallest-ofed" "$sources/$name"
        sed -i '1s/(1\.0)/(1.0.force)/' "$sources/$name/debian/changelog"
    done
    # What no kernel exports; modpost is to let it pass.
    sed -i 's/ modules$/ KBUILD_MODPOST_WARN=1 modules/' "$sources/bad/makefile"
    printf 'extern void nobody_exports_this(void);\nvoid smallest_use(void);\nvoid smallest_use(void) { nobody_exports_this(); }\n' >>"$sources/bad/smallest.c"
    # Another module of the same version, so of the same tag.
    sed -i 's/compiles in/compiles, once more, in/' "$sources/good/smallest.c"
}

teardown_file() {
    load ../cli/registry
    stop_registry
    umount "$folder/registry-data" 2>/dev/null || true
    # A forced image is of no use later. Another run of this file may have removed it: its tag is the same.
    [[ ! -e $folder/forced/images.json ]] || buildah rmi "$(jq -r '.images[0].reference' "$folder/forced/images.json")" >/dev/null || true
}

# build SOURCE OUTPUT OPTION…
build() {
    local source=$sources/$1 to=$folder/$2
    shift 2
    "$slipway" build --kernel newest --os debian12 --ofed "$source" --nvidia none --output "$to" "$@"
}

# modinfo_of OUTPUT FIELD: of nvidia.ko in the GPU image.
modinfo_of() {
    local container
    container=$(buildah from --quiet --pull-never "oci-archive:$folder/$1/gpu.oci.tar")
    modinfo -F "$2" "$(find "$(buildah mount "$container")" -name nvidia.ko)"
    buildah rm "$container" >/dev/null
}

id_of() {
    buildah inspect --type image "$1" | jq -r .FromImageID
}

@test "a tag that moves to another image says so, and from which" {
    local tag before
    build first first
    tag=$(jq -r '.images[0].reference' "$folder/first/images.json")
    before=$(id_of "$tag")
    run -0 build good good
    [[ $output == *"this tag was moved from another image, ${before:0:12}"* ]]
    [[ $(jq -r '.images[0].reference' "$folder/good/images.json") == "$tag" ]]
    run -0 build good good
    [[ $output != *"was moved from"* ]]
    run -0 build first first --json
    [[ $(tail -n 1 <<<"$output" | jq -r '.images[0].tag_moved_from') == "$(jq -r '.images[0].id' "$folder/good/images.json")" ]]
    build good good
}

@test "--revision: a tag of its own, which the operator asks for, and the driver's version as ever" {
    local reference
    reference=$(jq -r '.images[0].reference' "$folder/good/images.json")
    reference=${reference/:1.0.force-/:1.0.force-7-}
    buildah rmi "$reference" >/dev/null 2>&1 || true # of a run before
    run -0 build good revision --revision 7 --dry-run
    [[ $output == *"nic image  $reference"$'\n'* ]]
    run -0 build good revision --revision 7 --verbose --registry r.example/drivers
    [[ $(jq -r '.images[0].reference' "$folder/revision/images.json") == "$reference" ]]
    [[ $reference == */doca-driver:1.0.force-7-*-debian12-amd64 ]]
    [[ $output == *"sh $folder/revision/push.sh"* && $output != *"was moved from"* ]]
    [[ $(<"$folder/revision/nic-cluster-policy.yaml") == \
        *$'    repository: "r.example/drivers"\n    image: doca-driver\n    version: "1.0.force-7"\n    forcePrecompiled: true' ]]
    grep -qx "push nic.oci.tar $(jq -r '.images[0].id' "$folder/revision/images.json") ${reference##*/}" "$folder/revision/push.sh"
    buildah inspect --type image "$reference" >"$folder/inspected"
    jq -e '.OCIv1.config.Env | contains(["NVIDIA_NIC_DRIVER_VER=1.0.force", "NVIDIA_NIC_CONTAINER_VER=7"])' "$folder/inspected"
    jq -e '.OCIv1.config.Labels["org.opencontainers.image.version"] == "1.0.force-7"' "$folder/inspected"
    run -0 build good good --quiet
    [[ $output == "Nothing to do: "*"nic image  "* && $output != *push.sh* ]]
    [[ $(jq -r '.images[0].tag' "$folder/good/images.json") == 1.0.force-[!7]* ]]
}

@test "sbom.spdx.json and provenance.json: the image by its digest, each package of its base, the source by its hash, how it was made" {
    local out=$folder/with-sbom container root words
    tar -C "$sources" -czf "$folder/good.tgz" good
    "$slipway" build --os debian12 --ofed "$folder/good.tgz" --nvidia none --output "$out" newest
    jq -e --arg digest "$(jq -r '.images[0].digest | sub("sha256:"; "")' "$out/images.json")" '.spdxVersion == "SPDX-2.3"
        and .packages[0].checksums[0].checksumValue == $digest and (.packages | map(.SPDXID) | length == (unique | length))
        and any(.packages[]; .name == "ofed" and .versionInfo == "1.0.force" and .licenseDeclared == "GPL-2.0-only OR BSD-2-Clause")
        and ([.relationships[] | .spdxElementId, .relatedSpdxElement] - [.packages[].SPDXID] | unique == ["SPDXRef-DOCUMENT"])' "$out/sbom.spdx.json"
    words=$(printf '%s\n' build --os debian12 --ofed "$folder/good.tgz" --nvidia none --output "$out" newest | jq -Rn '[inputs]')
    jq -e --argjson words "$words" --arg sha256 "$(sha256sum "$folder/good.tgz" | cut -d ' ' -f 1)" --arg lock "$(sha256sum "$out/lock.json" | cut -d ' ' -f 1)" \
        'any(.buildDefinition.resolvedDependencies[]; .name == "good.tgz" and .digest.sha256 == $sha256)
        and .buildDefinition.externalParameters.arguments == $words
        and .runDetails.byproducts[0].digest.sha256 == $lock' "$out/provenance.json"
    # What a scanner finds in the image is what the document says of it.
    container=$(buildah from --quiet --pull-never "oci-archive:$out/nic.oci.tar")
    root=$(buildah mount "$container")
    sed -n 's/^Package: //p' "$root"/var/lib/dpkg/status.d/* | LC_ALL=C sort >"$folder/found"
    buildah rm "$container" >/dev/null
    jq -r '(.packages | map({(.SPDXID): .name}) | add) as $names | .relationships[]
        | select(.relationshipType == "CONTAINS") | $names[.relatedSpdxElement]' "$out/sbom.spdx.json" | grep -vxE 'ofed|slipway-init' | LC_ALL=C sort |
        diff "$folder/found" -
    # A run that makes nothing leaves them.
    touch -d @1 "$out"/{sbom.spdx,provenance}.json
    run -0 "$slipway" build --kernel newest --os debian12 --ofed "$folder/good.tgz" --nvidia none --output "$out"
    [[ $output == *"Nothing to do: "* && $(stat -c %Y "$out/provenance.json") == 1 ]]
}

@test "--revision of a GPU image: behind the branch, and with --sources-image behind the version, gdrdrv's, too" {
    local gpu=$sources/gpu-revision gdrcopy=$sources/gdrcopy to=$folder/gpu-revision
    cp -r "$top/tests/real/smallest-nvidia" "$gpu"
    cp -r "$top/tests/vm/addons/gdrcopy" "$gdrcopy"
    # The smallest driver's function takes nothing.
    sed -i '/^static int (\*volatile get_pages)/,/);$/c static int (*volatile get_pages)(void);' "$gdrcopy/src/gdrdrv/gdrdrv.c"
    sed -i 's/"1\.0\\"/"3.0\\"/' "$gpu/Kbuild"
    run -0 "$slipway" build --kernel newest --os debian12 --nvidia "$gpu" --force --revision 7 --output "$to"
    [[ $(<"$to/cluster-policy.patch.yaml") == *'usePrecompiled: true'*'version: "3-7"'* ]]
    [[ $(jq -r '.images[0] | "\(.version) \(.tag)"' "$to/images.json") == "3.0-7 3-7-$(jq -r .krel "$to/images.json")-debian12" ]]
    buildah inspect --type image "$(jq -r '.images[0].reference' "$to/images.json")" >"$folder/inspected"
    jq -e '.OCIv1.config.Env | contains(["DRIVER_VERSION=3.0"])' "$folder/inspected"
    jq -e '.OCIv1.config.Labels["org.opencontainers.image.version"] == "3.0-7"' "$folder/inspected"
    # What a dry run says beforehand is what the images are called then.
    local build=("$slipway" build --kernel newest --os debian12 --nvidia "$gpu" --gdrcopy "$gdrcopy" --force --sources-image
        --revision 7 --output "$to")
    run -0 "${build[@]}" --dry-run
    [[ $output == *"gpu image  localhost/slipway/driver:3.0-7-debian12"$'\n'* ]]
    run -0 "${build[@]}"
    [[ $(<"$to/cluster-policy.patch.yaml") == *'usePrecompiled: false'*'version: "3.0-7"'*'  gdrcopy:'* ]]
    [[ $(jq -r '.images[0].tag' "$to/images.json") == 3.0-7-debian12 ]]
    [[ $(jq -r '.addons[0] | "\(.reference) \(.version)"' "$to/images.json") == "localhost/slipway/gdrdrv:0.1-7-debian12 0.1-7" ]]
}

@test "--userspace: images.json has what is in it, errors of the recipe name the user's folder, and a tag that gets another one says so" {
    local gpu=$sources/gpu-userspace driver=$sources/driver to=$folder/gpu-userspace name
    cp -r "$top/tests/real/smallest-nvidia" "$gpu"
    sed -i 's/"1\.0\\"/"4.0\\"/' "$gpu/Kbuild"
    mkdir -p "$driver/firmware"
    for name in nvidia-ml cuda; do
        echo 'int nothing;' | gcc -shared -fPIC -nostdlib "-Wl,-soname,lib$name.so.1" -x c -o "$driver/lib$name.so.4.0" -
    done
    echo '#!/bin/sh' >"$driver/nvidia-smi"
    touch "$driver/firmware/gsp.bin"
    build_gpu() {
        run "$slipway" build --kernel newest --os debian12 --nvidia "$gpu" --output "$to" "$@"
    }
    printf '%s\n' NVIDIA 4.0 3 4 5 6 7 8 'nvidia-smi UTILITY_BINARY' >"$driver/.manifest"
    build_gpu --userspace "$driver"
    ((status != 0))
    [[ $output == *"first error: userspace.sh: $driver/.manifest: line 9 is no entry of a file: nvidia-smi UTILITY_BINARY"* ]]
    rm "$driver/.manifest"
    build_gpu --userspace "$driver"
    ((status == 0))
    jq -e '.images[0].userspace | .version == "4.0" and .packages == [] and .lacking == [] and
        (.files | contains(["/usr/bin/nvidia-smi", "/usr/lib/firmware/nvidia/4.0/gsp.bin", "/usr/lib/x86_64-linux-gnu/libcuda.so.1"]))' \
        "$to/images.json"
    [[ $output != *"userspace: the old image"* || $output == *"userspace: the old image has none, this one has 4.0"* ]]
    echo exit >>"$driver/nvidia-smi"
    build_gpu --userspace "$driver"
    [[ $output == *"was moved from"*"userspace: the old image has other files of driver 4.0"* ]]
    # A program that asks for a newer C library than the base has.
    echo 'GLIBC_2.99 { newer; };' >"$folder/map"
    echo 'void newer(void) {}' | gcc -shared -fPIC -nostdlib -Wl,-soname,libc.so.6 "-Wl,--version-script=$folder/map" -x c -o "$folder/libc.so.6" -
    echo 'void newer(void); void start(void) { newer(); }' >"$folder/start.c"
    gcc -nostdlib -Wl,-e,start -o "$driver/nvidia-imex" "$folder/start.c" "$folder/libc.so.6"
    build_gpu --userspace "$driver"
    ((status == 3))
    [[ $output == *"first: gpu image: nvidia-imex asks for GLIBC_2.99, libc.so.6 of the image has GLIBC_2."* ]]
    build_gpu --userspace "$driver" --force
    [[ $output == *"WARNING: gpu image: some of its programs will not start (will-not-start)"*"-unproven"* ]]
    jq -e '.images[0].proof == "will-not-start"' "$to/images.json"
    rm "$driver/nvidia-imex"
    build_gpu --force
    [[ $output == *"  WARNING: userspace: the old image has 4.0, this one has none"* ]]
    [[ $output == *"  WARNING: it has no nvidia-smi, libraries or firmware, because of --force: nodes never become ready with it"* ]]
    jq -e '.images[0] | has("userspace") | not' "$to/images.json"
}

@test "refused: the proof is in --output, and the command that is named prints the table" {
    run -3 build bad refused
    [[ $output == *"all: $folder/refused/proof.json"* && $output == *"a tag that ends with -unproven"* ]]
    [[ $(ls "$folder/refused") == proof.json ]]
    jq -e '.verdict == "will not load" and .exit_code == 3' "$folder/refused/proof.json"
    local command
    command=$(sed -n 's/^  as a table: slipway //p' <<<"$output")
    [[ -n $command ]]
    run -3 bash -c "$slipway $command"
    [[ $output == *"will not load"*"nobody_exports_this"* ]]
}

@test "refused, where images of an earlier build are: their proof stays theirs, until the next that holds" {
    local before
    before=$(sha256sum <"$folder/good/proof.json")
    run -3 build bad good
    [[ $output == *"all: $folder/good/proof-refused.json"* ]]
    [[ $(sha256sum <"$folder/good/proof.json") == "$before" ]]
    jq -e '.verdict == "will not load"' "$folder/good/proof-refused.json"
    build good good
    [[ ! -e $folder/good/proof-refused.json ]]
}

@test "refused, with the storage as output: the report in the cache is named" {
    local report
    run -3 "$slipway" build --kernel newest --os debian12 --ofed "$sources/bad" --nvidia none
    report=$(sed -n 's/^  all: //p' <<<"$output")
    [[ $report == */proof.json ]]
    jq -e '.verdict == "will not load"' "$report"
}

@test "--force: a tag of its own, the warning before the push line, and the good tag stays where it was" {
    local tag good
    tag=$(jq -r '.images[0].reference' "$folder/good/images.json")
    good=$(id_of "$tag")
    run -0 build bad forced --force
    [[ $output == *WARNING*"tag ends with -unproven"*"buildah push $tag-unproven docker://REGISTRY/"*"-unproven"*"No operator asks"* ]]
    [[ $output != *forcePrecompiled* ]]
    [[ $(jq -r '.images[0] | "\(.reference) \(.proof)"' "$folder/forced/images.json") == "$tag-unproven will-not-load" ]]
    [[ $(jq -r '.images[0].tag' "$folder/forced/images.json") == *-unproven ]]
    [[ $(id_of "$tag") == "$good" ]]
    [[ $(id_of "$tag-unproven") == "$(jq -r '.images[0].id' "$folder/forced/images.json")" ]]
    one_verdict "$folder/good" --kernel newest --os debian12
    one_verdict "$folder/forced" --kernel newest --os debian12
}

@test "a tag whose image had nvidia-peermem, and now has none, is warned of; an OFED without the interface is reported in the recipe's words" {
    local gpu=$sources/gpu to=$folder/gpu
    cp -r "$top/tests/real/smallest-nvidia" "$gpu"
    sed -i 's/"1\.0\\"/"2.0\\"/' "$gpu/Kbuild"
    "$slipway" build --kernel newest --os debian12 --ofed reference --nvidia "$gpu" --force --output "$to"
    [[ $(jq -r '.images[] | select(.role == "gpu").peermem' "$to/images.json") == *-reference ]]
    run -0 "$slipway" build --kernel newest --os debian12 --nvidia "$gpu" --force --output "$to"
    [[ $output == *"WARNING: nvidia-peermem: the old image has one for OFED "*"-reference, this one has none: build it with --ofed"* ]]
    [[ $(jq -r '.images[] | select(.role == "gpu").peermem' "$to/images.json") == none ]]
    run -0 "$slipway" build --kernel newest --os debian12 --ofed reference --nvidia "$gpu" --force --output "$to"
    [[ $output == *"nvidia-peermem: the old image has none, this one has one for OFED "* && $output != *"WARNING: nvidia-peermem"* ]]
    run "$slipway" build --kernel newest --os debian12 --ofed "$sources/good" --nvidia "$gpu" --force --output "$to"
    ((status != 0))
    echo "$output"
    [[ $output == *"first error: nvidia.sh: OFED "*" exports no ib_register_peer_memory_client"* ]]
}

@test "what was compiled before is not compiled again, but where a header now comes earlier in the search path" {
    local tree=$sources/compiled
    cp -r "$top/tests/real/smallest-nvidia" "$tree"
    sed -i 's/"1\.0\\"/"5.0\\"/' "$tree/Kbuild"
    echo "ccflags-y += -I\$(src)/earlier -I\$(src)/later" >>"$tree/Kbuild"
    mkdir "$tree/earlier" "$tree/later"
    echo '#define NOTE "later"' >"$tree/later/note.h"
    # No cache has this file yet. The assembler includes the file run, unknown to ccache: it tells which build compiled the
    # object.
    cat >>"$tree/nvidia/nvidia.c" <<END
/* $(cat /proc/sys/kernel/random/uuid) */
#include "note.h"
MODULE_INFO(note, NOTE);
__asm__(".pushsection .modinfo,\\"a\\"\\n.inc" "bin \\"/slipway/work/nvidia/run\\"\\n.byte 0\\n.popsection");
END
    build_gpu() {
        printf 'run=%s' "$1" >"$tree/run"
        "$slipway" build --kernel newest --os debian12 --nvidia "$tree" --force --output "$folder/$1" 2>&1 | tee "$folder/said"
        grep -q '^nvidia  *compile with' "$folder/said"
    }
    build_gpu one
    [[ $(modinfo_of one note) == later && $(modinfo_of one run) == one ]]
    build_gpu two
    [[ $(modinfo_of two note) == later && $(modinfo_of two run) == one ]]
    echo '#define NOTE "earlier"' >"$tree/earlier/note.h"
    build_gpu three
    [[ $(modinfo_of three note) == earlier && $(modinfo_of three run) == three ]]
}

@test "--push: what is proven, with the very digest; a tag of another image only with --replace; what is refused costs no compile" {
    load ../cli/registry
    # shellcheck disable=SC2034
    local repository=$top reference digest
    start_registry
    run -0 build good pushed --push "$registry/drivers"
    reference=$registry/drivers/doca-driver:$(jq -r '.images[0].tag' "$folder/pushed/images.json")
    digest=$(jq -r '.images[0].digest' "$folder/pushed/images.json")
    [[ $output == *"pushed  $reference@$digest"* && $output != *push.sh* && $(jq -c '.images[0].pushed' "$folder/pushed/images.json") == "[\"$reference@$digest\"]" ]]
    [[ $(skopeo inspect --format '{{.Digest}}' "docker://$reference") == "$digest" ]]
    grep -q "repository: \"$registry/drivers\"" "$folder/pushed/nic-cluster-policy.yaml"
    run -0 build good pushed --push "$registry/drivers"
    [[ $output == *"Nothing to do"*"pushed  $reference@$digest"* ]]
    run -0 "$slipway" verify "docker://$reference" --kernel "$(jq -r .krel "$folder/pushed/images.json")"
    # The plan of the fleet says the same.
    run -0 "$slipway" plan --kernel newest --os debian12 --ofed-version 1.0.force --registry "$registry/drivers" --check
    # An image of other inputs by the same tag, before it is made.
    cp -r "$sources/good" "$sources/other"
    sed -i 's/once more/another time/' "$sources/other/smallest.c"
    run -27 build other other --push "$registry/drivers"
    [[ $output == *"$reference stands for another image already: $digest"*"try: --replace"*"try: --revision N"* && $output != *"compile with"* ]]
    run -0 build other other --push "$registry/drivers" --replace
    [[ $(skopeo inspect --format '{{.Digest}}' "docker://$reference") == "$(jq -r '.images[0].digest' "$folder/other/images.json")" ]]
    run -0 build bad unproven --force --push "$registry/drivers"
    [[ $output == *"-unproven is not pushed: it is not proven"* ]]
    [[ $(skopeo list-tags "docker://${reference%:*}" | jq -c .Tags) == "[\"${reference##*:}\"]" ]]
    stop_registry
    sed -i 's/another time/a third time/' "$sources/other/smallest.c"
    run -27 build other gone --push "$registry/drivers"
    [[ $output == *"$registry/drivers/doca-driver: the registry could not be asked: "*"connection refused"* && $output != *"compile with"* ]]
}

@test "--push: a registry that dies, or whose disk fills, in the middle: 27, no tag, and all files are there; the next run pushes" {
    load ../cli/registry
    # shellcheck disable=SC2034
    local repository=$top tag
    mkdir -p "$folder/registry-data"
    mount -t tmpfs -o size=4m registry "$folder/registry-data"
    start_registry
    run -27 build good half --push "$registry/drivers"
    tag=$(jq -r '.images[0].tag' "$folder/half/images.json")
    [[ $output == *"$registry/drivers/doca-driver:$tag: not pushed: "* && -s $folder/half/nic.oci.tar ]]
    [[ $(skopeo list-tags "docker://$registry/drivers/doca-driver" 2>&1) != *"$tag"* ]]
    stop_registry
    mount -o remount,size=200m "$folder/registry-data"
    # A file of more than 2 MB ends it.
    (ulimit -f 2048 && start_registry)
    run -27 build good half --push "$registry/drivers"
    [[ $output == *"$registry/drivers/doca-driver:$tag: not pushed: "* ]]
    stop_registry
    start_registry
    run -0 build good half --push "$registry/drivers"
    [[ $output == *"pushed  $registry/drivers/doca-driver:$tag@sha256:"* ]]
    stop_registry
}
