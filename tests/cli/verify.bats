#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# slipway verify: what it takes, what it says and its exit codes. That it agrees with real kernels: tests/vm.

bats_require_minimum_version 1.5.0
load helpers
load kernel-from
load modules

krel=6.6.9-own1
other=5.15.0-9-other

setup_file() {
    cd "$BATS_FILE_TMPDIR" || return
    make_headers headers "$krel"
    printf '%s\t%s\tvmlinux\t%s\t\n' 0x00000007 printk EXPORT_SYMBOL 0x00000008 gpl_only EXPORT_SYMBOL_GPL >>headers/Module.symvers
    make_module set/net/core.ko core krel="$krel" uses=printk:7 exports=core_register:0x1111
    make_module set/net/peer.ko peer krel="$krel" uses=printk:7 uses=core_register:0x1111 depends=core
    make_module bad/old.ko old krel="$krel" uses=printk:0x9
    make_module foreign/foreign.ko foreign krel="$other" layout=0x99
}

setup() {
    cd "$BATS_FILE_TMPDIR" || return
    work=$BATS_TEST_TMPDIR/work
    mkdir "$work"
    export SLIPWAY_MIRRORS=/dev/null
}

# Nothing of a run stays, whatever its end.
teardown() {
    local left
    left=$(find "$BATS_TEST_TMPDIR/cache/runs" -mindepth 1 2>/dev/null) || true
    [ -z "$left" ] || {
        echo "left behind: $left"
        return 1
    }
}

verify() {
    local code=$1
    shift
    run_slipway "$code" verify "$@"
}

# layer FILE FOLDER [TAR-OPTION…]: all that is in the folder
layer() {
    tar -C "$2" --owner=0 --group=0 -cf "$1" "${@:3}" .
}

@test "all will load: exit 0, a line a module, and the sum" {
    verify 0 set --kernel headers
    says "kernel $krel, vermagic \"$krel SMP mod_unload modversions\", 3 symbols, 2 modules" "2 modules: 2 will load, 0 will not, 0 cannot tell"
    [[ $output =~ core\ +will\ load ]]
    [[ $output =~ peer\ +will\ load ]]
}

@test "--order says the order in which all load" {
    verify 0 set --kernel headers --order
    says "in this order all modules load:" "1  net/core.ko" "2  net/peer.ko"
    # What is not in the set and has to be there comes first.
    mkdir "$work/kernel"
    cp -r headers/. "$work/kernel"
    printf '0x00001111\tcore_register\tkernel/net/core\tEXPORT_SYMBOL\t\n' >>"$work/kernel/Module.symvers"
    verify 0 set/net/peer.ko --kernel "$work/kernel" --order
    says "kernel-modules (note)" "-  core, which is the kernel's own, or from --with" "1  set/net/peer.ko"
    run_slipway 0 verify set/net/peer.ko --kernel "$work/kernel" --json
    [ "$(jq -r '.set.relies_on | join(",")' <<<"$output")" = core ]
}

@test "of several nvidia-peermems in an image, the one is judged that a node would take" {
    local image=$work/gpu modules=usr/lib/modules/$krel/updates variants=usr/lib/slipway/kernels/$krel/peermem i
    make_module "$work/ofed/ib_uverbs.ko" ib_uverbs krel="$krel" exports=ib_register_peer_memory_client:0x2222
    for i in 0 1; do
        make_module "$image/$variants/$i/nvidia-peermem.ko" nvidia_peermem krel="$krel" depends=ib_uverbs \
            uses=ib_register_peer_memory_client:0x$((i + 1))$((i + 1))$((i + 1))$((i + 1))
    done
    mkdir -p "$image/$modules/nvidia"
    cp "$image/$variants/0/nvidia-peermem.ko" "$image/$modules/nvidia/"
    verify 0 "$image" "$work/ofed" --kernel headers
    says "2 modules: 2 will load"
    # Without it, the one that is installed is.
    rm -r "${image:?}/$variants/1"
    verify 3 "$image" "$work/ofed" --kernel headers
    says "ib_register_peer_memory_client CRC 0x00001111" "2 modules: 1 will load, 1 will not"
}

@test "another CRC: exit 3 with both CRCs, who exports it and what to do; the worst comes first" {
    verify 3 set bad --kernel headers
    says "printk CRC 0x00000009" "the kernel exports 0x00000007" "do: rebuild it" "3 modules: 2 will load, 1 will not, 0 cannot tell"
    [[ $output == *"old "*"will not load"*"core "*"will load"* ]]
}

@test "a file that is no module is a verdict with its offset, not the end" {
    mkdir "$work/mixed"
    cp set/net/core.ko "$work/mixed/"
    head -c 200 set/net/peer.ko >"$work/mixed/cut.ko"
    echo "no module" >"$work/mixed/text.ko"
    verify 3 "$work/mixed" --kernel headers
    says "cut.ko" "text.ko" "3 modules: 1 will load, 2 will not, 0 cannot tell"
}

@test "single files, packed in every way" {
    xz --check=crc32 -c set/net/core.ko >"$work/core.ko.xz"
    gzip -c set/net/core.ko >"$work/core.ko.gz"
    zstd -q -c set/net/core.ko >"$work/core.ko.zst"
    local file
    for file in set/net/core.ko "$work"/core.ko.*; do
        verify 0 "$file" --kernel headers
        says "1 module: 1 will load"
    done
    verify 3 bad/old.ko --kernel headers
    # depmod goes by the ending, whatever is before it.
    mkdir "$work/odd"
    cp set/net/core.ko "$work/odd/core.vendor.ko"
    cp set/net/peer.ko "$work/odd/peer.ko.ko"
    verify 0 "$work/odd" --kernel headers
    says "2 modules: 2 will load"
}

@test "cannot tell is exit 4: a kernel whose exports are not known" {
    cp -r headers "$work/headers"
    rm "$work/headers/Module.symvers"
    verify 4 set --kernel "$work/headers"
    says "no Module.symvers" "0 will load, 0 will not, 2 cannot tell" \
        "the exports of this kernel are unknown, so no symbol can be checked: add --with …/Module.symvers (from its headers package), or name its release: --kernel $krel"
    # Once, and not for each symbol.
    [[ $output != *"(doubt)"* && $output == *"the kernel's exports are unknown"* ]]
    verify 4 set --kernel "$work/headers" --all
    says "(doubt)"
}

@test "a kernel without MODVERSIONS is reported as vermagic only" {
    cp -r headers "$work/headers"
    sed -i /MODVERSIONS/d "$work/headers/.config"
    make_module "$work/m.ko" m "vermagic=$krel SMP mod_unload " layout= uses=printk
    verify 0 "$work/m.ko" --kernel "$work/headers"
    says "vermagic only"
    make_module "$work/m.ko" m "vermagic=$other SMP mod_unload " layout= uses=printk
    verify 3 "$work/m.ko" --kernel "$work/headers"
    says "vermagic"
}

@test "--with: a file of symvers, a folder with one, modules, an image" {
    verify 3 set/net/peer.ko --kernel headers
    says "core_register"
    printf '0x00001111\tcore_register\t/b/core\tEXPORT_SYMBOL\t\n' >"$work/any-name"
    verify 0 set/net/peer.ko --kernel headers --with "$work/any-name"
    mkdir -p "$work/ofed/usr/src/ofa_kernel/x86_64/$krel"
    cp "$work/any-name" "$work/ofed/usr/src/ofa_kernel/x86_64/$krel/Module.symvers"
    verify 0 set/net/peer.ko --kernel headers --with "$work/ofed"
    verify 0 set/net/peer.ko --kernel headers --with set/net/core.ko
    layer "$work/ofed.tar" "$work/ofed"
    make_layout "$work/layout" "$work/ofed.tar"
    verify 0 set/net/peer.ko --kernel headers --with "oci:$work/layout"
    # The later one counts.
    printf '0x00002222\tcore_register\t/b/core\tEXPORT_SYMBOL\t\n' >"$work/newer"
    verify 3 set/net/peer.ko --kernel headers --with "$work/any-name" --with "$work/newer"
    says "0x00001111" "0x00002222" "core"
    mkdir "$work/empty"
    verify 2 set/net/peer.ko --kernel headers --with "$work/empty"
    says "$work/empty: it has neither a Module.symvers nor a module"
}

@test "--with: a module in it takes the place of the kernel's, with all that it exported" {
    cp -r headers "$work/headers"
    printf '%s\tkernel/net/core\tEXPORT_SYMBOL\t\n' $'0x00001111\tcore_register' $'0x00003333\tcore_old' >>"$work/headers/Module.symvers"
    make_module "$work/old.ko" old krel="$krel" uses=core_old:0x3333
    verify 0 "$work/old.ko" --kernel "$work/headers"
    verify 3 "$work/old.ko" --kernel "$work/headers" --with set/net/core.ko
    says "core_old"
    verify 3 "$work/old.ko" set/net/core.ko --kernel "$work/headers"
    says "core_old"
}

# root FOLDER: a driver image's file system
root() {
    mkdir -p "$1/lib/modules/$krel/updates"
    cp set/net/*.ko "$1/lib/modules/$krel/updates/"
}

@test "an image as OCI layout and archive, plain and packed, and as docker's archive" {
    root "$work/root"
    layer "$work/layer.tar" "$work/root"
    make_layout "$work/layout" "$work/layer.tar"
    verify 0 "$work/layout" --kernel headers
    verify 0 "oci:$work/layout:latest" --kernel headers
    tar -C "$work/layout" -cf "$work/image.tar" .
    verify 0 "$work/image.tar" --kernel headers
    verify 0 "oci-archive:$work/image.tar" --kernel headers
    zstd -q "$work/image.tar"
    verify 0 "$work/image.tar.zst" --kernel headers
    mkdir -p "$work/docker/abc"
    cp "$work/layer.tar" "$work/docker/abc/layer.tar"
    echo '[{"Config":"abc.json","RepoTags":["a:b"],"Layers":["abc/layer.tar"]}]' >"$work/docker/manifest.json"
    tar -C "$work/docker" -cf "$work/docker.tar" manifest.json abc/layer.tar
    verify 0 "docker-archive:$work/docker.tar" --kernel headers
    says "2 modules: 2 will load"
    gzip "$work/docker.tar"
    verify 0 "$work/docker.tar.gz" --kernel headers
}

@test "older docker archives name a layer by a link, which may not lead out" {
    root "$work/root"
    mkdir -p "$work/docker/abc" "$work/docker/def"
    layer "$work/docker/def/layer.tar" "$work/root"
    ln -s ../def/layer.tar "$work/docker/abc/layer.tar"
    echo '[{"Layers":["abc/layer.tar"]}]' >"$work/docker/manifest.json"
    tar -C "$work/docker" -cf "$work/docker.tar" def/layer.tar abc/layer.tar manifest.json
    verify 0 "$work/docker.tar" --kernel headers
    says "2 modules: 2 will load"
    ln -sf ../../def/layer.tar "$work/docker/abc/layer.tar"
    tar -C "$work/docker" -cf "$work/docker.tar" def/layer.tar abc/layer.tar manifest.json
    verify 19 "$work/docker.tar" --kernel headers
    ln -sf layer.tar "$work/docker/abc/layer.tar"
    tar -C "$work/docker" -cf "$work/docker.tar" def/layer.tar abc/layer.tar manifest.json
    verify 12 "$work/docker.tar" --kernel headers
}

@test "layers in gzip and zstd; what a later one removes or replaces is not judged" {
    root "$work/one"
    mkdir -p "$work/one/opt/old" "$work/one/lib/modules/$krel/extra"
    cp bad/old.ko "$work/one/opt/old/"
    cp bad/old.ko "$work/one/lib/modules/$krel/extra/replaced.ko"
    cp bad/old.ko "$work/one/lib/modules/$krel/updates/gone.ko"
    mkdir -p "$work/two/opt/old" "$work/two/lib/modules/$krel/updates" "$work/two/lib/modules/$krel/extra"
    touch "$work/two/opt/old/.wh..wh..opq" "$work/two/lib/modules/$krel/updates/.wh.gone.ko"
    make_module "$work/two/lib/modules/$krel/extra/replaced.ko" replaced krel="$krel"
    layer "$work/one.tar" "$work/one"
    layer "$work/two.tar" "$work/two"
    gzip "$work/one.tar"
    zstd -q "$work/two.tar"
    make_layout "$work/layout" "$work/one.tar.gz" "$work/two.tar.zst"
    verify 0 "$work/layout" --kernel headers
    says "3 modules: 3 will load"
    make_layout "$work/lower" "$work/one.tar.gz"
    verify 3 "$work/lower" --kernel headers
    says "5 modules: 2 will load, 3 will not"
}

@test "a folder of a later layer takes the place of a link, and a file that of a folder: nothing goes through the link" {
    mkdir -p "$work/one/etc/modprobe.d" "$work/one/lib/modprobe.d/a.ko" "$work/two/etc/modprobe.d/sub" "$work/two/lib/modprobe.d"
    ln -s sub "$work/one/etc/modprobe.d/link"
    cp set/net/core.ko "$work/one/lib/modprobe.d/a.ko/old.ko"
    mkdir "$work/two/etc/modprobe.d/link"
    cp set/net/core.ko "$work/two/etc/modprobe.d/link/core.ko"
    cp set/net/peer.ko "$work/two/lib/modprobe.d/a.ko"
    layer "$work/one.tar" "$work/one"
    layer "$work/two.tar" "$work/two"
    make_layout "$work/layout" "$work/one.tar" "$work/two.tar"
    verify 0 "$work/layout" --kernel headers --json
    says '"etc/modprobe.d/link/core.ko"' '"lib/modprobe.d/a.ko"'
    [[ $output != *sub/core.ko* && $output != *old.ko* ]]
}

@test "an opaque root leaves nothing of the layers below" {
    root "$work/one"
    cp bad/old.ko "$work/one/"
    mkdir "$work/two"
    touch "$work/two/.wh..wh..opq"
    cp set/net/core.ko "$work/two/"
    layer "$work/one.tar" "$work/one"
    layer "$work/two.tar" "$work/two"
    make_layout "$work/layout" "$work/one.tar" "$work/two.tar"
    verify 0 "$work/layout" --kernel headers
    says "1 module: 1 will load"
}

@test "a foreign image: modules anywhere, of several kernels; only the wanted one's are judged" {
    mkdir -p "$work/root/drivers/$krel" "$work/root/drivers/$other" "$work/root/usr/lib/modules/$other/extra" "$work/root/opt/vendor"
    cp set/net/core.ko "$work/root/drivers/$krel/"
    cp foreign/foreign.ko "$work/root/drivers/$other/"
    cp foreign/foreign.ko "$work/root/usr/lib/modules/$other/extra/"
    cp set/net/peer.ko "$work/root/opt/vendor/"
    layer "$work/layer.tar" "$work/root"
    make_layout "$work/layout" "$work/layer.tar"
    verify 0 "$work/layout" --kernel headers
    says "modules for other kernels are skipped: $other" "2 modules: 2 will load"
    verify 0 "$work/root" --kernel headers
    says "skipped: $other"
    rm -r "$work/root/drivers" "$work/root/opt"
    verify 3 "$work/root" --kernel headers
    says "it has no folder for $krel, so all its modules are checked" "$other" "1 module: 0 will load, 1 will not"
}

@test "an image of another kernel whose modules would load: its container finds none, which is a refusal" {
    mkdir -p "$work/root/usr/lib/modules/$other/updates" "$work/root/usr/lib/modules/6.1.0-1-third"
    cp set/net/core.ko "$work/root/usr/lib/modules/$other/updates/"
    cp set/net/peer.ko "$work/root/usr/lib/modules/6.1.0-1-third/"
    layer "$work/layer.tar" "$work/root"
    # An image of anybody's is not one whose container is ours.
    make_layout "$work/foreign" "$work/layer.tar"
    verify 0 "$work/foreign" --kernel headers
    says "it has no folder for $krel, so all its modules are checked"
    mkdir -p "$work/root/etc/slipway"
    touch "$work/root/etc/slipway/image.conf"
    layer "$work/ours.tar" "$work/root"
    make_layout "$work/nic" "$work/ours.tar"
    verify 0 "$work/root" --kernel headers
    verify 3 "$work/nic" --kernel headers
    says "2 modules: 2 will load, 0 will not, 0 cannot tell; but the set as a whole: will not load: $work/nic: its modules are for $other, 6.1.0-1-third"
    says "on $krel its container ends with NO_MODULES_FOR_KERNEL"
    [[ ${lines[-1]} == *": slipway build --kernel $krel, with the same --ofed and --nvidia" ]]
    verify 3 "$work/nic" --kernel headers --json
    [ "$(jq -r '"\(.exit_code) \(.verdict) \(.set.findings[0].id) \(.counts.will_load) \(.inputs[0].other_kernel)"' <<<"$output")" = \
        "3 will not load no-modules 2 true" ]
    # What can be said without the kernel's packages.
    run_slipway 21 verify "$work/nic" --kernel 6.1.0-99-amd64 --os debian12 --offline
    says "$work/nic: its modules are for $other, 6.1.0-1-third: on 6.1.0-99-amd64 its container ends with NO_MODULES_FOR_KERNEL"
    run_slipway 21 verify "$work/ours.tar" "$work/foreign" --kernel 6.1.0-99-amd64 --os debian12 --offline
    [[ $output != *NO_MODULES_FOR_KERNEL* ]]
    # One that compiles on the node has what it takes.
    mkdir -p "$work/root/usr/lib/slipway/kit"
    touch "$work/root/usr/lib/slipway/kit/kit.conf"
    layer "$work/kit.tar" "$work/root"
    make_layout "$work/sources" "$work/kit.tar"
    verify 0 "$work/sources" --kernel headers
}

@test "an image in containers-storage, by its name" {
    own_storage "$work"
    root "$work/root"
    layer "$work/layer.tar" "$work/root"
    container=$(buildah from scratch)
    buildah add -q "$container" "$work/layer.tar" / >/dev/null
    buildah commit -q "$container" localhost/slipway-test:1 >/dev/null
    buildah rm "$container" >/dev/null
    verify 0 localhost/slipway-test:1 --kernel headers
    says "2 modules: 2 will load"
    verify 0 containers-storage:localhost/slipway-test:1 --kernel headers
    verify 2 localhost/slipway-test:2 --kernel headers
    says "localhost/slipway-test:2: neither a file or folder nor an image in containers-storage"
    verify 2 registry.example.com/driver:1 --kernel headers
    says "driver:1: neither a file" "try: if it is in a registry: docker://registry.example.com/driver:1"
    verify 2 no-such:1 --kernel headers --offline --snapshot 20260901T000000Z
    says "--snapshot: --kernel names files, so no package list is read" "try: leave out --snapshot"
    # The name of nothing, and no list to ask.
    run env PATH=/nowhere SLIPWAY_DATADIR="$repository" SLIPWAY_CACHE="$BATS_TEST_TMPDIR/cache" "$SLIPWAY" verify no-such:1 --kernel headers
    echo "$output"
    [ "$status" -eq 10 ]
    says "without buildah" "try: scripts/install-packages"
}

@test "a damaged layer, one that is cut short, one that is not there: exit 12, and no verdict" {
    root "$work/root"
    layer "$work/layer.tar" "$work/root"
    gzip -k "$work/layer.tar"
    make_layout "$work/layout" "$work/layer.tar.gz"
    blob=$work/layout/blobs/sha256/$(sha256sum <"$work/layer.tar.gz" | cut -d' ' -f1)
    head -c 300 "$work/layer.tar.gz" >"$blob"
    verify 12 "$work/layout" --kernel headers
    says "its layers cannot be read" "is damaged: its SHA-256 is"
    rm "$blob"
    verify 12 "$work/layout" --kernel headers
    mkdir -p "$work/docker/abc"
    head -c 3000 "$work/layer.tar" >"$work/docker/abc/layer.tar"
    echo '[{"Layers":["abc/layer.tar"]}]' >"$work/docker/manifest.json"
    tar -C "$work/docker" -cf "$work/docker.tar" manifest.json abc/layer.tar
    verify 12 "$work/docker.tar" --kernel headers
    says "its layers cannot be read"
    echo '{"manifests":7}' >"$work/layout/index.json"
    verify 12 "$work/layout" --kernel headers
    # Cut short, or noise behind a true beginning.
    head -c 3000 "$work/layer.tar" >"$work/cut.tar"
    verify 12 "$work/cut.tar" --kernel headers
    says "try: download or copy it again"
    { printf '\037\213' && head -c 5000 /dev/urandom; } >"$work/noise.gz"
    verify 12 "$work/noise.gz" --kernel headers
    says "try: download or copy it again"
}

@test "a file that is no archive of any kind is a wrong command line" {
    echo "# Read me" >"$work/README.md"
    verify 2 "$work/README.md" --kernel headers
    says "not an image, archive, package or module" "try: an image: its archive, its layout"
    gzip -c set/net/core.ko | head -c 300 >"$work/cut.tgz"
    verify 12 "$work/cut.tgz" --kernel headers
    [ "$(grep -o "cut short" <<<"$output" | wc -l)" -eq 1 ]
    echo "<html>Sign in</html>" >"$work/nic.oci.tar"
    verify 12 "$work/nic.oci.tar" --kernel headers
    says "nic.oci.tar: this is a web page, not the file"
    : >"$work/nothing"
    verify 2 "$work/nothing" --kernel headers
    bzip2 -c set/net/core.ko >"$work/core.ko.bz2"
    verify 2 "$work/core.ko.bz2" --kernel headers
    says "core.ko.bz2: kernels cannot load modules compressed with bz2"
    ln -s "$PWD/set" "$work/again"
    verify 2 set "$work/again" --kernel headers
    says "$work/again: given twice"
}

@test "a layer that leads out of the image is refused: exit 19, and nothing is written there" {
    mkdir -p "$work/root/lib/modules"
    ln -s ../../../../../../../../../../../../../tmp/slipway-escape.ko "$work/root/lib/modules/out.ko"
    layer "$work/layer.tar" "$work/root"
    make_layout "$work/layout" "$work/layer.tar"
    verify 19 "$work/layout" --kernel headers
    says "out.ko" "leads out of the archive"
    cp set/net/core.ko "$work/core.ko"
    tar -C "$work" --transform 's,^core.ko,../../escape.ko,' -Pcf "$work/up.tar" core.ko
    make_layout "$work/up" "$work/up.tar"
    verify 19 "$work/up" --kernel headers
    [ -z "$(find "$BATS_TEST_TMPDIR" -name 'escape.ko')" ]
}

@test "links in an image lead where they lead there: weak-updates count, links to nowhere do not" {
    mkdir -p "$work/root/lib/modules/$krel/weak-updates" "$work/root/opt"
    cp set/net/core.ko "$work/root/opt/"
    ln -s /opt/core.ko "$work/root/lib/modules/$krel/weak-updates/core.ko"
    ln -s /etc/hostname "$work/root/lib/modules/$krel/weak-updates/nothing.ko"
    layer "$work/layer.tar" "$work/root"
    make_layout "$work/layout" "$work/layer.tar"
    run_slipway 0 verify "$work/layout" --kernel headers --json
    [ "$(jq -r '[.modules[].path | select(test("nothing"))] | length' <<<"$output")" = 0 ]
    [ "$(jq -r '[.modules[].path | select(test("weak-updates/core"))] | length' <<<"$output")" = 1 ]
}

@test "packages and tarballs with modules" {
    root "$work/root"
    layer "$work/modules.tar" "$work/root"
    xz "$work/modules.tar"
    verify 0 "$work/modules.tar.xz" --kernel headers
    pack_deb own-modules "$work/root" "$work/modules.deb"
    verify 0 "$work/modules.deb" --kernel headers
    says "2 modules: 2 will load"
}

@test "the NIC image and the GPU image are one set: what one exports the other may use" {
    mkdir -p "$work/nic/lib/modules/$krel/updates" "$work/gpu/lib/modules/$krel/updates"
    cp set/net/core.ko "$work/nic/lib/modules/$krel/updates/"
    cp set/net/peer.ko "$work/gpu/lib/modules/$krel/updates/"
    layer "$work/nic.tar" "$work/nic"
    layer "$work/gpu.tar" "$work/gpu"
    make_layout "$work/nic-image" "$work/nic.tar"
    make_layout "$work/gpu-image" "$work/gpu.tar"
    verify 3 "$work/gpu-image" --kernel headers
    says "core_register"
    verify 0 "$work/nic-image" "$work/gpu-image" --kernel headers
    make_module "$work/gpu/lib/modules/$krel/updates/peer.ko" peer krel="$krel" uses=core_register:0x2222 depends=core
    verify 3 "$work/nic-image" "$work/gpu" --kernel headers
    says "core_register" "0x00002222" "0x00001111" "core exports"
}

@test "an image's firmware and modprobe.d are held against what its modules say" {
    mkdir -p "$work/root/lib/modules/$krel/updates" "$work/root/usr/lib/firmware/vendor" "$work/root/etc/modprobe.d"
    make_module "$work/root/lib/modules/$krel/updates/fw.ko" fw krel="$krel" firmware=vendor/there.bin firmware=vendor/missing.bin \
        parmtype=level:int parm=level:how
    echo data | xz >"$work/root/usr/lib/firmware/vendor/there.bin.xz"
    printf '%s\n' '# a comment' $'options fw level=1 \\' '    speed=fast' 'options other x=1' >"$work/root/etc/modprobe.d/fw.conf"
    layer "$work/layer.tar" "$work/root"
    make_layout "$work/layout" "$work/layer.tar"
    run_slipway 0 verify "$work/layout" --kernel headers --json
    findings=$(jq -r '.set.findings[], .modules[].findings[] | "\(.id) \(.text)"' <<<"$output")
    grep -q "^firmware.*vendor/missing.bin" <<<"$findings"
    grep -q "^option.*speed" <<<"$findings"
    run ! grep -q "there.bin" <<<"$findings"
    run ! grep -q "level" <<<"$findings"
    # A folder of modules is no root: what firmware will be there is not known.
    run_slipway 0 verify "$work/root/lib/modules/$krel/updates" --kernel headers --json
    run ! grep -q '"id":"firmware' <<<"$output"
}

@test "signatures: demanded, trusted, of an unknown key, missing" {
    openssl req -x509 -noenc -days 30 -subj /CN=ours -newkey rsa:2048 -keyout "$work/ours.key" -out "$work/ours.pem" 2>/dev/null
    openssl req -x509 -noenc -days 30 -subj /CN=theirs -newkey rsa:2048 -keyout "$work/theirs.key" -out "$work/theirs.pem" 2>/dev/null
    cp -r set "$work/set"
    verify 0 "$work/set" --kernel headers --enforce-signatures
    says "this kernel does not check signatures"
    [[ $output != *"are enforced"* ]]
    cp -r headers "$work/headers"
    echo CONFIG_MODULE_SIG=y >>"$work/headers/.config"
    cd "$work"
    verify 0 "$work/set" --kernel headers
    verify 3 "$work/set" --kernel headers --enforce-signatures
    says "--enforce-signatures"
    run_slipway 0 sign --key "$work/ours.key" --cert "$work/ours.pem" --hash sha256 "$work/set"
    verify 4 "$work/set" --kernel headers --enforce-signatures
    says "no certificate was given to check it" "--trust CERT"
    verify 0 "$work/set" --kernel headers
    says "signature-unchecked (note)"
    verify 3 "$work/set" --kernel headers --enforce-signatures --trust "$work/theirs.pem"
    says "--enforce-signatures"
    # Enforced or not, a certificate that is given is used.
    verify 0 "$work/set" --kernel headers --trust "$work/ours.pem"
    [[ $output != *signature* ]]
    verify 0 "$work/set" --kernel headers --trust "$work/theirs.pem"
    says "2 modules are out of tree and signed with a key that the kernel does not have: they taint the kernel (OE)"
    cp -r "$work/set" "$work/damaged"
    printf X | dd of="$work/damaged/net/core.ko" bs=1 seek=70 conv=notrunc status=none
    verify 3 "$work/damaged" --kernel headers --trust "$work/ours.pem"
    says "signature-wrong (refusal)"
    verify 0 "$work/set" --kernel headers --enforce-signatures --trust "$work/theirs.pem" --trust "$work/ours.pem"
    says "signatures are enforced, and the kernel takes each module's"
    run_slipway 0 verify "$work/set" --kernel headers --json
    [ "$(jq -r '.modules[0].signer.issuer' <<<"$output")" = ours ]
    verify 2 "$work/set" --kernel headers --enforce-signatures --trust "$work/ours.key"
    verify 2 "$work/set" --kernel headers --enforce-signatures --trust "$work/none.pem"
}

@test "a kernel that forces signatures does so without the option" {
    cp -r headers "$work/headers"
    printf '%s\n' CONFIG_MODULE_SIG=y CONFIG_MODULE_SIG_FORCE=y >>"$work/headers/.config"
    verify 3 set --kernel "$work/headers"
    says "CONFIG_MODULE_SIG_FORCE=y"
}

@test "the kernel's own modules are trusted without its certificate" {
    openssl req -x509 -noenc -days 30 -subj /CN=kernel -newkey rsa:2048 -keyout "$work/k.key" -out "$work/k.pem" 2>/dev/null
    openssl req -x509 -noenc -days 30 -subj /CN=other -newkey rsa:2048 -keyout "$work/o.key" -out "$work/other.pem" 2>/dev/null
    make_root "$work/kernel" "$krel"
    cp headers/Module.symvers "$work/kernel/usr/src/linux-headers-$krel/"
    echo CONFIG_MODULE_SIG=y >>"$work/kernel/usr/src/linux-headers-$krel/.config"
    rm "$work/kernel/lib/modules/$krel/kernel/drivers/gpu/drm.ko"
    make_module "$work/kernel/lib/modules/$krel/kernel/lib/own.ko" own krel="$krel" intree=Y
    run_slipway 0 sign --key "$work/k.key" --cert "$work/k.pem" --hash sha256 "$work/kernel/lib/modules/$krel/kernel"
    mkdir "$work/image"
    cp "$work/kernel/lib/modules/$krel/kernel/lib/own.ko" "$work/image/"
    verify 0 "$work/image" --kernel "$work/kernel" --enforce-signatures
    verify 0 "$work/image" --kernel "$work/kernel"
    [[ $output != *signature-unchecked* ]]
    # The very file equals itself whatever its signature is: no more is known than whose it is.
    for what in "$work/kernel/lib/modules/$krel/kernel" "$work/kernel/lib/modules/$krel/kernel/lib/own.ko"; do
        verify 0 "$what" --kernel "$work/kernel" --enforce-signatures
        says "signature-unchecked (note)" "of the kernel's tree"
    done
    verify 0 "$work/kernel/lib/modules/$krel/kernel" --kernel "$work/kernel" --enforce-signatures --trust "$work/k.pem"
    [[ $output != *signature-unchecked* ]]
    cp -r "$work/kernel" "$work/flipped"
    own=$work/flipped/lib/modules/$krel/kernel/lib/own.ko
    # Another byte than the signature has there.
    at=$(($(stat -c %s "$own") - 60)) byte=$(od -An -tu1 -j "$at" -N1 "$own")
    # shellcheck disable=SC2059
    printf "\\$(printf %o $((byte ^ 1)))" | dd of="$own" bs=1 seek="$at" conv=notrunc status=none
    verify 0 "$own" --kernel "$work/flipped" --enforce-signatures
    says "signature-unchecked (note)"
    [[ $output != *"are enforced"* ]]
    verify 3 "$own" --kernel "$work/flipped" --enforce-signatures --trust "$work/k.pem"
    verify 4 "$own" --kernel "$work/kernel" --enforce-signatures
    # An unknown key's signature on a module of the tree is not the kernel's.
    cp -r "$work/kernel" "$work/mixed"
    mixed=$work/mixed/lib/modules/$krel/kernel/lib
    make_module "$work/k/second.ko" second krel="$krel" intree=Y
    make_module "$work/k/third.ko" third krel="$krel" intree=Y
    make_module "$work/o/foreign.ko" foreign krel="$krel" intree=Y
    run_slipway 0 sign --key "$work/k.key" --cert "$work/k.pem" --hash sha256 "$work/k"
    run_slipway 0 sign --key "$work/o.key" --cert "$work/other.pem" --hash sha256 "$work/o"
    cp "$work"/[ko]/*.ko "$mixed/"
    mkdir "$work/copies"
    cp "$mixed"/*.ko "$work/copies/"
    verify 0 "$work/copies/own.ko" "$work/copies/second.ko" --kernel "$work/mixed" --enforce-signatures
    [[ $output != *signature-* ]]
    verify 4 "$work/copies/foreign.ko" --kernel "$work/mixed" --enforce-signatures
    verify 4 "$mixed/foreign.ko" --kernel "$work/mixed" --enforce-signatures
    make_module "$work/image/own.ko" own krel="$krel" intree=Y version=2
    run_slipway 0 sign --key "$work/k.key" --cert "$work/k.pem" --hash sha256 "$work/image"
    verify 4 "$work/image" --kernel "$work/kernel" --enforce-signatures
    verify 3 "$work/image" --kernel "$work/kernel" --enforce-signatures --trust "$work/other.pem"
}

@test "a kernel in every shape: tree, lib/modules, record, packages, a node's probe" {
    make_root "$work/tree" "$krel"
    cp headers/Module.symvers "$work/tree/usr/src/linux-headers-$krel/"
    verify 0 set --kernel "$work/tree"
    verify 0 set --kernel "$work/tree/lib/modules/$krel"
    verify 0 set --kernel "$work/tree/usr/src/linux-headers-$krel"
    pack_deb "linux-headers-$krel" "$work/tree" "$work/headers.deb"
    verify 0 set --kernel "$work/headers.deb" --os debian12
    tree=$(echo "$BATS_TEST_TMPDIR"/cache/stages/kernel-*)
    pack_deb "linux-image-$krel" "$work/tree" "$work/image.deb"
    verify 0 set --kernel "$work/headers.deb" --kernel "$work/image.deb" --kernel "$krel"
    make_modules "$work/only" "$krel"
    pack_deb "linux-modules-$krel" "$work/only" "$work/only.deb"
    verify 2 set --kernel "$work/only.deb"
    says "--kernel: the distribution of kernel $krel is unknown" "try: name the distribution: --os" "give the kernel's headers too"
    verify 2 set --kernel "$krel" --kernel "$other"
    says "only one kernel can be given"
    verify 0 set --kernel "$tree"
    verify 0 set --kernel "$tree/record.json"
    cp "$tree/record.json" "$work/alone.json"
    verify 4 set --kernel "$work/alone.json"
    says "no Module.symvers"
    verify 0 set --kernel "$work/alone.json" --with headers/Module.symvers
    run_slipway 0 probe --root "$work/tree" --headers=no -o "$work/probe.tar.zst"
    verify 0 set --kernel "$work/probe.tar.zst" --os debian12
    says "kernel $krel"
}

@test "packages of headers alone, and of modules without modules.builtin: what is not known is a note" {
    make_headers "$work/headers/usr/src/linux-headers-$krel" "$krel"
    cp headers/Module.symvers "$work/headers/usr/src/linux-headers-$krel/"
    mkdir -p "$work/headers/lib/modules/$krel"
    ln -s "/usr/src/linux-headers-$krel" "$work/headers/lib/modules/$krel/build"
    pack_deb "linux-headers-$krel" "$work/headers" "$work/headers.deb"
    verify 0 set --kernel "$work/headers.deb" --os debian12
    says "note: the files of --kernel do not include the kernel's own modules" "2 modules: 2 will load"
    # Debian from 7.2 on has modules.builtin in linux-base-<krel>.
    mkdir -p "$work/modules/usr/lib/modules/$krel/kernel/lib"
    make_module "$work/modules/usr/lib/modules/$krel/kernel/lib/own.ko" own krel="$krel"
    pack_deb "linux-modules-$krel" "$work/modules" "$work/modules.deb"
    verify 0 set --kernel "$work/headers.deb" --kernel "$work/modules.deb" --os debian12
    says "note: the kernel's built-in modules are unknown" "linux-base-$krel"
    verify 0 "$work/modules.deb" --kernel "$work/headers.deb" --kernel "$work/modules.deb" --os debian12
    says "1 module: 1 will load"
}

# ostree ROOT: its files become hard links to those of a repository, as rpm-ostree makes images of hosts.
ostree() {
    local file i=0
    mkdir -p "$1/sysroot/ostree/repo/objects/ab"
    while read -r file; do
        ln "$file" "$1/sysroot/ostree/repo/objects/ab/$((++i)).file"
    done < <(find "$1" -path "$1/sysroot" -prune -o -type f -print)
}

@test "an image of an immutable host: its files are hard links to OSTree's" {
    root "$work/what"
    ostree "$work/what"
    tar -C "$work/what" -cf "$work/what.tar" sysroot lib
    tar -tvf "$work/what.tar" | grep -q "core.ko link to sysroot/"
    make_layout "$work/what-image" "$work/what.tar"
    verify 0 "$work/what-image" --kernel headers
    says "2 modules: 2 will load"
    verify 0 "$work/what.tar" --kernel headers
    make_root "$work/tree" "$krel"
    cp headers/Module.symvers "$work/tree/usr/src/linux-headers-$krel/"
    mkdir "$work/tree/etc"
    printf 'ID=debian\nVERSION_ID="12"\n' >"$work/tree/etc/os-release"
    ostree "$work/tree"
    tar -C "$work/tree" -cf "$work/tree.tar" sysroot etc lib usr
    make_layout "$work/tree-image" "$work/tree.tar"
    verify 0 set --kernel "$work/tree-image"
    says "kernel $krel" "2 modules: 2 will load"
    verify 0 set --kernel "$work/tree.tar"
}

@test "what is no file in the place of one is refused and not waited for" {
    mkdir "$work/kernel"
    cp -r headers/. "$work/kernel"
    mkfifo "$work/fifo"
    ln -sf ../fifo "$work/kernel/Module.symvers"
    SLIPWAY_CACHE=$BATS_TEST_TMPDIR/cache run timeout 30 "$SLIPWAY" verify set --kernel "$work/kernel"
    echo "$output"
    [ "$status" -eq 12 ]
    says "Module.symvers" "a FIFO, device or socket, not a file"
    SLIPWAY_CACHE=$BATS_TEST_TMPDIR/cache run timeout 30 "$SLIPWAY" lint --lock "$work/fifo"
    echo "$output"
    says "a FIFO, device or socket, not a file"
}

@test "softdeps name modules or aliases, of built-in ones too, as modprobe takes them" {
    make_root "$work/tree" "$krel"
    cp headers/Module.symvers "$work/tree/usr/src/linux-headers-$krel/"
    echo kernel/drivers/leds/leds-gpio.ko >"$work/tree/lib/modules/$krel/modules.builtin"
    printf '%s\0' leds_gpio.license=GPL leds_gpio.alias=platform:leds-gpio >"$work/tree/lib/modules/$krel/modules.builtin.modinfo"
    make_module "$work/soft.ko" soft krel="$krel" softdep="pre: platform:leds-gpio crypto-x-1 drm leds-gpio absent"
    # Which aliases the kernel's other modules have is not known.
    verify 0 "$work/soft.ko" --kernel "$work/tree"
    [[ $output != *softdep-missing* ]]
    printf '%s\n' "# Aliases extracted from modules themselves." "alias crypto_x_* crypto_x" >"$work/tree/lib/modules/$krel/modules.alias"
    run_slipway 0 verify "$work/soft.ko" --kernel "$work/tree" --json
    [ "$(jq -r '[.set.findings[] | select(.id == "softdep-missing") | .exporter] | join(" ")' <<<"$output")" = absent ]
}

@test "a Module.symvers as --kernel decides what it can" {
    verify 4 set --kernel headers/Module.symvers
    says "kernel (no release), vermagic not known, 3 symbols" "note: headers/Module.symvers has the kernel's exports"
    # A call is a PLT32, which kernels of unknown version may not know: no module is damaged by that.
    readelf -rW set/net/core.ko | grep -q R_X86_64_PLT32
    [[ $output != *damaged* && $output != *relocation* ]]
    verify 3 bad --kernel headers/Module.symvers
    says "printk CRC 0x00000009"
    verify 2 set --kernel headers/Module.symvers --kernel "$krel"
    says "--kernel headers/Module.symvers: next to another --kernel, give a Module.symvers with --with"
}

@test "a relocation that an older kernel may have by a backport is a doubt, not a refusal" {
    make_headers "$work/headers" 3.10.0-1160.45.1.el7.custom.x86_64
    printf '%s\t%s\tvmlinux\t%s\n' 0x00000007 printk EXPORT_SYMBOL >>"$work/headers/Module.symvers"
    make_module "$work/set/old.ko" old krel=3.10.0-1160.45.1.el7.custom.x86_64 uses=printk:7
    verify 4 "$work/set" --kernel "$work/headers"
    says "format (doubt)" "is of type 4, which Linux takes since 4.16, and an older kernel only where its distribution backported that"
}

@test "a folder with several kernels is ambiguous; one without any is no kernel" {
    make_root "$work/tree" "$krel"
    make_root "$work/tree" "$other"
    verify 2 set --kernel "$work/tree"
    says "several kernels" "$krel" "$other"
    cp headers/Module.symvers "$work/tree/usr/src/linux-headers-$krel/"
    verify 0 set --kernel "$work/tree/lib/modules/$krel"
    mkdir "$work/nothing"
    verify 5 set --kernel "$work/nothing"
    says "no kernel in this folder"
    verify 2 set --kernel "$work/not-there"
    says "No such file"
    echo '{}' >"$work/record.json"
    verify 12 set --kernel "$work/record.json"
}

@test "a release is looked for as lint does it: its own exit codes" {
    run env PATH=/nowhere SLIPWAY_DATADIR="${SLIPWAY_DATADIR:-$repository}" SLIPWAY_CACHE="$BATS_TEST_TMPDIR/cache" "$SLIPWAY" verify set --kernel 6.1.0-99-amd64 --offline
    echo "$output"
    [ "$status" -eq 21 ]
    verify 22 set --kernel 'not a kernel'
}

@test "damaged symvers are reported with their line" {
    cp -r headers "$work/headers"
    echo "0x1 what" >>"$work/headers/Module.symvers"
    verify 12 set --kernel "$work/headers"
    says "Module.symvers" "line 4"
}

@test "nothing to verify is an error that says where was looked" {
    mkdir -p "$work/empty/lib/modules"
    verify 2 "$work/empty" --kernel headers
    says "it has no modules" ".ko.zst"
    layer "$work/layer.tar" "$work/empty"
    make_layout "$work/layout" "$work/layer.tar"
    verify 2 "$work/layout" --kernel headers
    says "in any of its layers"
}

@test "a folder of images says which they are" {
    mkdir "$work/out"
    touch "$work/out"/{gpu,nic}.oci.tar
    verify 2 "$work/out" --kernel headers
    says "it has no modules, but it has images" "try: give the images instead: $work/out/gpu.oci.tar $work/out/nic.oci.tar"
}

@test "the output folder of a build stands for the images of that build; what a layer had is kept by its digest" {
    local out=$BATS_TEST_TMPDIR/out cache=$BATS_TEST_TMPDIR/cache
    layer "$work/layer.tar" set
    make_layout "$BATS_TEST_TMPDIR/layout" "$work/layer.tar"
    mkdir "$out"
    tar -C "$BATS_TEST_TMPDIR/layout" -cf "$out/gpu.oci.tar" .
    echo no image >"$out/nic.oci.tar"
    echo '{"os": "rocky9", "images": [{"role": "gpu"}]}' >"$out/images.json"
    # Of kernels that several distributions name so, the images' own.
    verify 21 "$out" --kernel 5.14.0-427.13.1.el9_4.x86_64 --offline
    says "rocky9"
    verify 0 "$out" --kernel headers
    says "gpu.oci.tar"
    [ "$(find "$cache/stages" -maxdepth 1 -name 'layer-*' | wc -l)" = 1 ]
    first=$(printf '%s\n' "$output" | sed 's/ [0-9.]* s / /')
    verify 0 "$out" --kernel headers
    [ "$(printf '%s\n' "$output" | sed 's/ [0-9.]* s / /')" = "$first" ]
    # Kept or not, a damaged archive is no image.
    LC_ALL=C sed -i 's/vermagic=/vermagiC=/' "$out/gpu.oci.tar"
    verify 12 "$out" --kernel headers
    says "damaged: its SHA-256 is"
}

@test "a lock is no kernel, and names one" {
    echo '{"schema": 1}' >"$BATS_TEST_TMPDIR/record.json"
    verify 12 set --kernel "$BATS_TEST_TMPDIR/record.json"
    cat >"$BATS_TEST_TMPDIR/lock.json" <<'END'
{"schema": 2, "krel": "6.1.0-56-amd64", "arch": "x86_64", "os": "debian12", "compiler": {"name": "gcc-12", "evidence": "none"},
 "repositories": [], "packages": [], "root_packages": [], "kernel_from": []}
END
    verify 12 set --kernel "$BATS_TEST_TMPDIR/lock.json"
    says "lock.json: a lock, which names a kernel and has none" "try: --kernel 6.1.0-56-amd64 --os debian12"
}

@test "wrong command lines" {
    verify 2
    says "WHAT is missing"
    verify 2 set
    says "--kernel is missing"
    verify 2 set --kernel headers --running
    verify 2 set --running --with set
    verify 2 set --kernel headers --jobs 0
    verify 2 "$work/none.ko" --kernel headers
    says "No such file"
    verify 2 https://registry.invalid/x:1 --kernel headers
    says "no address of an image" "try: docker://registry.invalid/x:1"
    verify 27 docker://127.0.0.1:9/x:1 --kernel headers
    says "127.0.0.1:9/x:1: not pulled: " "connection refused"
    verify 2 /dev/null --kernel headers
    verify 0 --help
    says "--kernel" "--with" "--enforce-signatures" "--trust" "--running" "docs/verify.md"
}

@test "--json is one object with all that was found" {
    run_slipway 3 verify set bad --kernel headers --json
    jq -e '
        def text: type == "string";
        def null_or(f): . == null or f;
        def finding: (.id | text) and (.weight | IN("refusal", "doubt", "note")) and (.text | text) and (.cure | text)
            and (.answer | null_or(test("^E[A-Z]+$"))) and (.symbol | null_or(text)) and (.exporter | null_or(text))
            and (.wanted_crc | null_or(test("^0x[0-9a-f]{8}$"))) and (.found_crc | null_or(test("^0x[0-9a-f]{8}$")));
        def verdict: IN("will load", "will not load", "cannot tell");
        .exit_code == 3 and (.verdict | verdict)
        and (.kernel | (.krel | text) and (.vermagic | text) and .modversions == true and .symbols == 3 and (.symvers | length == 1)
            and (.notes | type == "array") and has("struct_module_bytes") and has("signatures_enforced_by"))
        and (.inputs | length == 2) and (.inputs | all((.name | text) and .kind == "folder" and (.passed_over == []) and .other_kernel == false))
        and (.modules | length == 3) and (.modules | all((.path | text) and (.name | text) and (.verdict | verdict) and (.vermagic | text)
            and (.build_id | test("^[0-9a-f]+$")) and has("srcversion") and has("signer") and has("version") and (.findings | all(finding))))
        and (.set | (.verdict | verdict) and (.order | type == "array") and (.findings | all(finding)))
        and .counts == {modules: 3, will_load: 2, will_not_load: 1, cannot_tell: 0}
        and any(.modules[].findings[]; .id == "symbol-version" and .symbol == "printk" and .wanted_crc == "0x00000009"
            and .found_crc == "0x00000007" and .exporter == "vmlinux" and .answer == "EINVAL")' <<<"$output"
    run_slipway 2 verify "$work/none.ko" --kernel headers --json
    mkdir "$work/empty"
    run_slipway 2 verify "$work/empty" --kernel headers --json
    [ "$(head -1 <<<"$output" | jq .exit_code 2>/dev/null || tail -1 <<<"$output" | jq .exit_code)" = 2 ]
}

@test "many findings of one cause are folded, and --all shows them" {
    local i
    mkdir "$work/many"
    for i in 1 2 3 4 5 6; do
        cp bad/old.ko "$work/many/old$i.ko"
    done
    verify 3 "$work/many" --kernel headers
    says "… and 3 more of this kind"
    verify 3 "$work/many" --kernel headers --all
    [[ $output != *"more of this kind"* ]]
}

@test "an image that unpacks to hundreds of times its size is refused: exit 20" {
    mkdir -p "$work/root/lib/firmware"
    cp set/net/core.ko "$work/root/"
    truncate -s 300M "$work/root/lib/firmware/zeros.bin"
    layer "$work/layer.tar" "$work/root"
    zstd -q "$work/layer.tar"
    make_layout "$work/layout" "$work/layer.tar.zst"
    verify 20 "$work/layout" --kernel headers
    says "too much for a kernel"
}

@test "two files of one name are named by their paths" {
    mkdir -p "$work/two/a" "$work/two/b"
    cp bad/old.ko "$work/two/a/"
    cp bad/old.ko "$work/two/b/"
    verify 3 "$work/two" --kernel headers
    says "a/old.ko  " "b/old.ko  " "  a/old.ko: built for" "  b/old.ko: built for"
}

@test "of two files of one name the one in modules.dep is loaded, which depmod.d decides" {
    local tree=$work/root/usr/lib/modules/$krel name what
    mkdir -p "$tree"/updates/{dkms,slipway}
    cp set/net/core.ko "$tree/updates/slipway/"
    make_module "$tree/updates/dkms/core.ko" core krel="$krel" uses=printk:7
    verify 4 "$work/root" --kernel headers
    says "only one of them is loaded"
    # The table has them below the release's folder, however long their paths are.
    [ "$(grep -c '^updates/[a-z]*/core.ko *  will load' <<<"$output")" = 2 ]
    [ "$(grep -bo VERDICT <<<"$(grep '^MODULE' <<<"$output")")" = "$(grep '^updates/slipway/core.ko' <<<"$output" | grep -bo 'will load' | sed 's/will load/VERDICT/')" ]
    for name in slipway dkms; do
        echo "updates/$name/core.ko:" >"$tree/modules.dep"
        tar -C "$work/root" -cf "$work/root.tar" .
        for what in root root.tar; do
            verify 0 "$work/$what" --kernel headers
            says "two files have this name, usr/lib/modules/$krel/updates/$name/core.ko and " ": modules.dep lists the first"
        done
    done
}

@test "modules that modules.dep does not list: depmod was forgotten, which is a doubt with its cure" {
    local tree=$work/root/usr/lib/modules/$krel
    mkdir -p "$tree"/{kernel,updates}
    cp set/net/core.ko "$tree/kernel/"
    cp set/net/peer.ko "$tree/updates/"
    echo "kernel/core.ko:" >"$tree/modules.dep"
    tar -C "$work/root" -cf "$work/root.tar" .
    local what
    for what in "$work/root" "$work/root.tar" "$tree"; do
        verify 4 "$what" --kernel headers
        says "modules-dep (doubt)" "its modules.dep does not list updates/peer.ko: modprobe does not find" \
            "do: run depmod $krel there" "2 modules: 2 will load" "but the set as a whole: cannot tell"
    done
    verify 0 "$tree/updates/peer.ko" "$tree/kernel/core.ko" --kernel headers
    : >"$tree/modules.dep"
    verify 4 set/net/core.ko "$work/root/usr" --kernel headers
    says "$work/root/usr: its modules.dep does not list kernel/core.ko and 1 more: modprobe does not find"
    echo "kernel/core.ko:" >"$tree/modules.dep"
    run_slipway 0 explain modules-dep
    says "modprobe finds those neither by name nor by alias" "Run depmod KREL"
    echo "updates/peer.ko: kernel/core.ko" >>"$tree/modules.dep"
    verify 0 "$work/root" --kernel headers
    [[ $output != *modules-dep* ]]
    rm "$tree/modules.dep"
    verify 0 "$work/root" --kernel headers
}

@test "of several images the table says which one each module is from, whose names are told apart" {
    mkdir -p "$work/one/nic" "$work/two/nic"
    cp set/net/core.ko bad/old.ko "$work/one/nic/"
    cp bad/old.ko set/net/peer.ko "$work/two/nic/"
    verify 3 "$work/one/nic" "$work/two/nic" --kernel headers
    [[ $output =~ MODULE\ +FROM\ +VERDICT ]]
    [[ $output =~ old\ +one/nic\ +will\ not\ load ]]
    [[ $output =~ old\ +two/nic\ +will\ not\ load ]]
    says "  one/nic:old: built for" "  two/nic:old: built for"
    verify 3 set bad --kernel headers
    [[ $output =~ core\ +set\ +will\ load ]]
    # Single files say it by their names.
    verify 0 set/net/core.ko set/net/peer.ko --kernel headers
    [[ $output != *FROM* ]]
}

@test "the table is ordered by name, the kernel's own modules last, and some fifty rows are shown" {
    local i
    mkdir "$work/many"
    make_module "$work/many/a.ko" a krel="$krel" intree=Y
    make_module "$work/many/z.ko" z krel="$krel"
    verify 0 "$work/many" --kernel headers
    [[ $output == *$'\nz '*$'\na '* ]]
    for i in $(seq 10 59); do
        make_module "$work/many/m$i.ko" "m$i" krel="$krel"
    done
    verify 0 "$work/many" --kernel headers
    says "m59 " "and 2 more: will load (--all lists them)"
    [[ $output == *$'\nm10 '*$'\nm11 '* && $output != *$'\nz '* ]]
    verify 0 "$work/many" --kernel headers --all
    [[ $output == *$'\nz '*$'\na '* ]]
}

@test "what taints the kernel is one line for all that share it" {
    cp -r headers "$work/headers"
    echo CONFIG_MODULE_SIG=y >>"$work/headers/.config"
    mkdir "$work/three"
    cp set/net/*.ko "$work/three/"
    make_module "$work/three/closed.ko" closed krel="$krel" license=Proprietary
    echo text >"$work/three/text.ko"
    verify 3 "$work/three" --kernel "$work/headers"
    says "  2 modules are out of tree and unsigned: they taint the kernel (OE)" \
        "  closed is proprietary, out of tree and unsigned: it taints the kernel (POE)"
    verify 3 "$work/three" --kernel "$work/headers" --all
    says "out-of-tree (note)" "unsigned (note)"
}

@test "modules of another kernel: the first line says so, and the numbers" {
    verify 3 foreign --kernel headers
    says "the module was built for $other, not for $krel: use those for this kernel, or build them: slipway build --kernel $krel"
    [[ $output == *"was built for $other"*MODULE* ]]
    mkdir "$work/mixed"
    cp set/net/core.ko "$work/mixed/"
    for name in f1 f2; do
        make_module "$work/mixed/$name.ko" "$name" krel="$other" layout=0x99
    done
    verify 3 "$work/mixed" --kernel headers
    says "2 of 3 modules were built for $other, not for $krel"
    rm "$work/mixed/core.ko"
    verify 3 "$work/mixed" --kernel headers
    says "all 2 modules were built for $other, not for $krel"
    # One of many is a finding like others; and what loads all the same is none.
    verify 3 set foreign --kernel headers
    [[ $output != *"was built for"* && $output != *"were built for"* ]]
    make_module "$work/fits.ko" fits krel="$other" uses=printk:7
    verify 0 "$work/fits.ko" --kernel headers
    [[ $output != *"was built for"* && $output != *"were built for"* ]]
}

@test "the notes on taints have a heading of their own" {
    verify 0 set --kernel headers
    [[ $output == *$'\n\ntaints (note)\n  2 modules are out of tree: they taint the kernel (O)\n'* ]]
}

@test "what decides of the set alone is in the last line" {
    make_module "$work/core.ko" core krel="$krel" uses=printk:7
    zstd -q -c set/net/core.ko >"$work/core.ko.zst"
    verify 4 "$work/core.ko" "$work/core.ko.zst" --kernel headers
    [[ ${lines[-1]} == "2 modules: 2 will load, 0 will not, 0 cannot tell; but the set as a whole: cannot tell: core: two files have this name"* ]]
    # Where nothing loads there is no order.
    verify 3 bad --kernel headers --order
    says "no module will load, so there is no load order"
}

# program ROOT: a program, its loader and a library of which it asks for version A_2
program() {
    local root=$1 libraries=$1/usr/lib/x86_64-linux-gnu link=(gcc -nostdlib '-Wl,--no-as-needed')
    mkdir -p "$root"/{usr/bin,usr/lib64,etc/slipway} "$libraries"
    ln -s usr/lib64 "$root/lib64"
    touch "$root/etc/slipway/image.conf"
    echo 'A_1 { one; }; A_2 { two; };' >"$work/map"
    echo 'void one(void) {} void two(void) {}' | "${link[@]}" -shared -Wl,-soname,liba.so.1 "-Wl,--version-script=$work/map" \
        -o "$libraries/liba.so.1" -x c -
    echo 'void none(void) {}' | "${link[@]}" -shared -o "$root/usr/lib64/ld-test.so" -x c -
    echo 'void two(void); void start(void) { two(); }' >"$work/use.c"
    "${link[@]}" -Wl,-e,start -Wl,--dynamic-linker=/lib64/ld-test.so -o "$root/usr/bin/prog" "$work/use.c" "$libraries/liba.so.1"
}

@test "programs of our images start, or it is exit 3: what lacks what, in archives, layouts and folders" {
    local config=$work/config library=$work/two/usr/lib/x86_64-linux-gnu/.wh.liba.so.1
    root "$work/one"
    program "$work/one"
    echo '{"config":{"Labels":{"io.slipway.role":"gpu"}}}' >"$config"
    layer "$work/one.tar" "$work/one"
    make_layout "$work/whole" "$work/one.tar"
    verify 0 "$work/whole" --kernel headers
    says "$work/whole: 1 of 1 programs will start" "2 modules: 2 will load"
    # A later layer takes the library away.
    mkdir -p "$(dirname "$library")"
    touch "$library"
    layer "$work/two.tar" "$work/two"
    make_layout "$work/layout" "$work/one.tar" "$work/two.tar"
    tar -C "$work/layout" -cf "$work/image.tar" .
    verify 3 "$work/image.tar" --kernel headers
    says "program-library (refusal)" "$work/image.tar: liba.so.1, which prog needs, is not in the image" \
        "do: give the images a base that has it: --base IMAGE" "$work/image.tar: 0 of 1 programs will start" "2 modules: 2 will load"
    # From the cache it says the same.
    run_slipway 3 verify "$work/layout" --kernel headers --json
    jq -e '.exit_code == 3 and .verdict == "will not start" and .set.verdict == "will load"
        and (.programs[0] | .programs == 1 and .starting == 0
            and (.findings[0] | .id == "program-library" and .weight == "refusal" and .library == "liba.so.1"))' <<<"$output"
    # The root of an image as a folder, with an older library.
    echo 'A_1 { one; two; };' >"$work/map"
    echo 'void one(void) {} void two(void) {}' | gcc -nostdlib -shared -Wl,-soname,liba.so.1 "-Wl,--version-script=$work/map" \
        -o "$work/one/usr/lib/x86_64-linux-gnu/liba.so.1" -x c -
    verify 3 "$work/one" --kernel headers
    says "program-version (refusal)" "prog asks for A_2, liba.so.1 of the image has A_1" "do: give the images a base with a newer one"
    # An image of others is none of ours.
    echo '{"config":{"Labels":null}}' >"$config"
    make_layout "$work/others" "$work/one.tar" "$work/two.tar"
    verify 0 "$work/others" --kernel headers
    [[ $output != *programs* ]]
}

# A sanitised slipway cannot run here: LeakSanitizer wants a real /proc.
@test "--running asks this machine's kernel, whatever it shows" {
    local root=$BATS_TEST_TMPDIR/root release library
    release=$(uname -r)
    mkdir -p "$root"/{proc,sys/module,dev,etc,"lib/modules/$release/build"}
    cp "$SLIPWAY" "$root/slipway"
    ldd "$SLIPWAY" | grep -o '/[^ ]*' | while read -r library; do
        install -D "$library" "$root$library"
    done
    touch "$root/proc/modules" "$root/dev/null"
    cp headers/Module.symvers "$root/lib/modules/$release/build/"
    make_module "$root/fits.ko" fits krel="$release" uses=printk:7
    make_module "$root/not.ko" not krel="$release" uses=printk:8
    run chroot "$root" /slipway verify /not.ko --running
    echo "$output"
    [ "$status" -eq 3 ]
    says "kernel $release" "printk CRC 0x00000008" "the kernel exports 0x00000007"
    run chroot "$root" /slipway verify /fits.ko --running
    echo "$output"
    # Nothing shows this kernel's vermagic.
    [ "$status" -eq 4 ]
    says "kernel $release" "vermagic not known" "cannot tell"
    # A kernel that was built without modules has a /proc, and no list of them in it.
    rm "$root/proc/modules"
    touch "$root/proc/version"
    run chroot "$root" /slipway verify /fits.ko --running
    echo "$output"
    [ "$status" -eq 3 ]
    says "kernel $release" "modules (refusal)"
    [[ $output != *"the exports of this kernel are unknown"* ]]
}

@test "Ctrl-C in the middle leaves nothing behind" {
    # A storage that does not answer: unpacking waits until it is ended.
    mkdir "$work/bin"
    printf '%s\n' '#!/bin/sh' "echo \"\$1\" >>'$work/asked'" "[ \"\$1\" != mount ] || exec sleep 600" >"$work/bin/buildah"
    chmod +x "$work/bin/buildah"
    PATH=$work/bin:$PATH SLIPWAY_DATADIR="${SLIPWAY_DATADIR:-$repository}" SLIPWAY_CACHE="$BATS_TEST_TMPDIR/cache" "$SLIPWAY" \
        verify containers-storage:slow --kernel headers >"$work/log" 2>&1 &
    pid=$!
    for _ in $(seq 600); do
        ! grep -qs mount "$work/asked" || break
        sleep 0.1
    done
    kill -INT "$pid"
    wait "$pid" && return 1
    cat "$work/log"
    grep -q "interrupted" "$work/log"
    # Not its container, either.
    tail -n 1 "$work/asked" | grep -qx rm
}
