#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# Building on a node for real: the image of slipway build --sources-image, as a container of a node whose root has
# Debian's own headers and modules where Debian puts them (node.bash). The driver is the smallest there is, and NVIDIA's
# once: what the recipe makes of that, the VM tests load. Only the case that says so has a network.

load node

setup_file() {
    top=$(realpath "$BATS_TEST_DIRNAME/../..")
    slipway=$(cd "$top" && realpath -m "${O:-build}")/slipway
    cache=${SLIPWAY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/slipway}
    folder=$BATS_FILE_TMPDIR
    export top slipway cache folder
    cp -r "$top/tests/vm/addons/gdrcopy" "$folder/gdrcopy"
    # The smallest driver's function takes nothing.
    sed -i '/^static int (\*volatile get_pages)/,/);$/c static int (*volatile get_pages)(void);' \
        "$folder/gdrcopy/src/gdrdrv/gdrdrv.c"
    "$slipway" build --kernel newest --os debian12 --nvidia "$top/tests/real/smallest-nvidia" --force --sources-image \
        --gdrcopy "$folder/gdrcopy" --output "$folder/output" | tee "$folder/said"
    krel=$(jq -r .krel "$folder/output/images.json")
    tag=$(jq -r '.images[0].tag' "$folder/output/images.json")
    built=$(buildah from --quiet --pull-never "$(jq -r '.images[0].id' "$folder/output/images.json")")
    # The modules that the image was built with would do: this node's kernel is to be one that it has none for.
    image=$folder/image
    cp -a "$(buildah mount "$built")" "$image"
    buildah rm "$built" >/dev/null
    put_terminate "$image"
    rm -rf "$image/usr/lib/modules/$krel" "$image/usr/lib/slipway/kernels/$krel" "$image"/usr/src/nvidia-*
    # What NVIDIA's modules depend on.
    make_host "$folder/host" "$folder/output/lock.json" drivers/{gpu/drm,acpi,platform/x86,i2c}
    export krel tag image
}

setup() {
    start_host "$folder/host"
    root=$BATS_TEST_TMPDIR/container
    # Of this container; its own cache unless a case says otherwise.
    node_cache=/proc/1/root/var/lib/$BATS_TEST_NUMBER
    kept=$folder/host/var/lib/$BATS_TEST_NUMBER
    servers=()
}

teardown() {
    ((${#servers[@]} == 0)) || kill "${servers[@]}"
    stop_host
}

# build [NAME=VALUE…] [-- ARGUMENT…]: nvidia-driver build in a new container.
build() {
    local variables=()
    while (($#)) && [[ $1 != -- ]]; do
        variables+=("$1")
        shift
    done
    (($#)) && shift
    container "$image" "$root" SLIPWAY_NODE_CACHE="$node_cache" "${variables[@]}" timeout --foreground 300 nvidia-driver build \
        --kernel "$krel" "$@" 2>&1
}

# The folder of what the container has for the kernel.
modules() { echo "$root/upper/usr/lib/modules/$krel"; }

@test "the image has the tag that the operator asks for when it is not precompiled" {
    [[ $tag == 1.0-debian12 ]]
}

@test "the operator's container for GDRCopy asks for the same image by another name, which build gives it" {
    local reference=localhost/slipway/gdrdrv:0.1-debian12
    grep -q "^push gpu.oci.tar .* gdrdrv:0.1-debian12\$" "$folder/output/push.sh"
    [[ $(<"$folder/output/cluster-policy.patch.yaml") == \
        *$'\n  gdrcopy:\n    enabled: true\n    repository: "REGISTRY"\n    image: gdrdrv\n    version: "0.1"' ]]
    [[ $(jq -r '.addons[0].reference' "$folder/output/images.json") == "$reference" ]]
    # For slipway combine.
    grep -qx addons=gdrcopy:0.1 "$image/etc/slipway/image.conf"
    [[ $(buildah inspect --type image --format '{{.FromImageID}}' "$reference") == "$(jq -r '.images[0].id' "$folder/output/images.json")" ]]
}

@test "a kernel without modules in the image: they are compiled with the host's headers, and kept on the host" {
    build >"$BATS_TEST_TMPDIR/out"
    cat "$BATS_TEST_TMPDIR/out"
    grep -q 'compiling driver 1.0 for' "$BATS_TEST_TMPDIR/out"
    grep -Eq '[0-9]+ jobs? at once: [0-9]+ processors' "$BATS_TEST_TMPDIR/out"
    [[ $(modinfo -F vermagic "$(modules)/updates/nvidia/nvidia.ko") == "$krel "* ]]
    grep -q '^updates/nvidia/nvidia.ko:' "$(modules)/modules.dep"
    # What GPUDirect Storage and GDRCopy compile against.
    [[ -f $root/upper/usr/src/nvidia-1.0/Module.symvers ]]
    # GDRCopy's, bound to the driver that was just compiled.
    grep -q '^updates/gdrcopy/gdrdrv.ko: .*updates/nvidia/nvidia.ko' "$(modules)/modules.dep"
    [[ $(ls "$kept/modules") == "$krel"-nvidia-* ]]
    [[ -z $(find "$kept" -maxdepth 1 -name 'tmp-*') ]]
}

@test "the next container takes them from the host; a rebuilt kernel of the name does not" {
    local symvers
    build >/dev/null
    build >"$BATS_TEST_TMPDIR/out"
    cat "$BATS_TEST_TMPDIR/out"
    grep -q 'compiled before: ' "$BATS_TEST_TMPDIR/out"
    [[ -f $(modules)/updates/nvidia/nvidia.ko && -f $(modules)/modules.dep ]]
    symvers=$(echo "$folder"/host/usr/src/linux-headers-*/Module.symvers)
    cp "$symvers" "$BATS_TEST_TMPDIR/symvers"
    echo "0x12345678	one_more_symbol	vmlinux	EXPORT_SYMBOL	" >>"$symvers"
    build >"$BATS_TEST_TMPDIR/out"
    cp "$BATS_TEST_TMPDIR/symvers" "$symvers"
    grep -q 'compiling driver' "$BATS_TEST_TMPDIR/out"
    (($(find "$kept/modules" -mindepth 1 -maxdepth 1 | wc -l) == 2))
}

@test "SIGTERM ends a build at once: nothing of it runs on, and nothing stays on the host" {
    local ended=0
    printf '#!/bin/bash\necho "==> sleep"\nsleep %s & wait\n' "4711.$$" >"$BATS_TEST_TMPDIR/slow.sh"
    chmod +x "$BATS_TEST_TMPDIR/slow.sh"
    cp "$image/usr/lib/slipway/kit/recipes/nvidia.sh" "$BATS_TEST_TMPDIR/nvidia.sh"
    cp "$BATS_TEST_TMPDIR/slow.sh" "$image/usr/lib/slipway/kit/recipes/nvidia.sh"
    container "$image" "$root" SLIPWAY_NODE_CACHE="$node_cache" /terminate /said 'note build-on-node: sleep' nvidia-driver build \
        --kernel "$krel" >"$BATS_TEST_TMPDIR/out" 2>&1 || ended=$?
    cp "$BATS_TEST_TMPDIR/nvidia.sh" "$image/usr/lib/slipway/kit/recipes/nvidia.sh"
    cat "$BATS_TEST_TMPDIR/out"
    ((ended == 0)) # 137: killed
    grep -q 'note build-on-node: sleep' "$BATS_TEST_TMPDIR/out"
    grep -q 'interrupted build-on-node' "$BATS_TEST_TMPDIR/out"
    is_gone "sleep 4711.$$"
    [[ -z $(find "$kept" -maxdepth 1 -name 'tmp-*') ]]
    [[ -z $(ls "$kept/modules") ]]
}

@test "a source that does not compile: BUILD_FAILED with the compiler's first error, and the log on the host" {
    local ended=0 file=$image/usr/lib/slipway/kit/source/nvidia/nvidia.c
    cp "$file" "$BATS_TEST_TMPDIR/nvidia.c"
    echo '#error this kernel is too new' >>"$file"
    build >"$BATS_TEST_TMPDIR/out" || ended=$?
    cp "$BATS_TEST_TMPDIR/nvidia.c" "$file"
    cat "$BATS_TEST_TMPDIR/out"
    ((ended > 1))
    grep -q '\[BUILD_FAILED\].*nvidia/nvidia.c:[0-9]*: .*this kernel is too new' "$BATS_TEST_TMPDIR/out"
    grep -q 'this kernel is too new' "$kept/log/nvidia.log"
    [[ -z $(find "$kept" -maxdepth 1 -name 'tmp-*') ]]
}

@test "GDRCopy's source does not compile: reported, and the driver is there; the next container tries it again, alone" {
    local driver file=$image/usr/lib/slipway/kit/addons/gdrcopy/source/src/gdrdrv/gdrdrv.c
    cp "$file" "$BATS_TEST_TMPDIR/gdrdrv.c"
    echo '#error this kernel is too new' >>"$file"
    build >"$BATS_TEST_TMPDIR/out"
    cp "$BATS_TEST_TMPDIR/gdrdrv.c" "$file"
    cat "$BATS_TEST_TMPDIR/out"
    grep -q 'WARNING: gdrcopy was not compiled: the log has why' "$BATS_TEST_TMPDIR/out"
    [[ -f $(modules)/updates/nvidia/nvidia.ko && ! -e $(modules)/updates/gdrcopy ]]
    driver=$(stat -c '%Y %i' "$kept"/modules/*/lib/modules/"$krel"/updates/nvidia/nvidia.ko)
    echo '#error this disk is full' >>"$file"
    build >"$BATS_TEST_TMPDIR/out"
    cp "$BATS_TEST_TMPDIR/gdrdrv.c" "$file"
    cat "$BATS_TEST_TMPDIR/out"
    grep -q 'WARNING: gdrcopy was not compiled: the log has why' "$BATS_TEST_TMPDIR/out"
    [[ -f $(modules)/updates/nvidia/nvidia.ko && ! -e $(modules)/updates/gdrcopy ]]
    # What it failed for has passed.
    [[ $driver == "$(stat -c '%Y %i' "$kept"/modules/*/lib/modules/"$krel"/updates/nvidia/nvidia.ko)" ]]
    build >"$BATS_TEST_TMPDIR/out"
    cat "$BATS_TEST_TMPDIR/out"
    grep -q 'compiled before: ' "$BATS_TEST_TMPDIR/out"
    grep -q 'compiling gdrcopy beside driver 1.0' "$BATS_TEST_TMPDIR/out"
    ! grep -q 'compiling driver' "$BATS_TEST_TMPDIR/out" || false
    grep -q '^updates/gdrcopy/gdrdrv.ko: .*updates/nvidia/nvidia.ko' "$(modules)/modules.dep"
    build >"$BATS_TEST_TMPDIR/out"
    cat "$BATS_TEST_TMPDIR/out"
    ! grep -q 'compiling' "$BATS_TEST_TMPDIR/out" || false
    [[ -f $(modules)/updates/nvidia/nvidia.ko && -f $(modules)/updates/gdrcopy/gdrdrv.ko ]]
    [[ $(ls "$kept/modules") == "$krel"-nvidia-* && -z $(find "$kept" -maxdepth 1 -name 'tmp-*') ]]
}

@test "a host without headers: what to install is named" {
    local ended=0
    mv "$folder/host/lib/modules/$krel/build" "$BATS_TEST_TMPDIR/build"
    mv "$folder/host/usr/src/linux-headers-$krel" "$BATS_TEST_TMPDIR/headers"
    build >"$BATS_TEST_TMPDIR/out" || ended=$?
    mv "$BATS_TEST_TMPDIR/build" "$folder/host/lib/modules/$krel/build"
    mv "$BATS_TEST_TMPDIR/headers" "$folder/host/usr/src/linux-headers-$krel"
    cat "$BATS_TEST_TMPDIR/out"
    ((ended > 1))
    grep -q "\[BUILD_FAILED\].*Install the headers of exactly that release (Debian, Ubuntu: linux-headers-$krel" "$BATS_TEST_TMPDIR/out"
}

@test "a host without headers, with a network: they are fetched and kept on the host, and the next start needs none" {
    local host=$BATS_TEST_TMPDIR/host
    stop_host
    cp -al "$folder/host" "$host"
    rm -r "$host/usr/src/linux-headers-$krel"
    NETWORK=yes start_host "$host"
    NETWORK=yes build >"$BATS_TEST_TMPDIR/out"
    cat "$BATS_TEST_TMPDIR/out"
    grep -q "headers fetched in .*; kept in /var/lib/$BATS_TEST_NUMBER for the next start" "$BATS_TEST_TMPDIR/out"
    [[ $(modinfo -F vermagic "$(modules)/updates/nvidia/nvidia.ko") == "$krel "* ]]
    [[ -z $(find "$host/var/lib/$BATS_TEST_NUMBER" "$root/upper/var/lib/slipway" -maxdepth 1 -name 'tmp-*') ]]
    stop_host
    start_host "$host"
    build >"$BATS_TEST_TMPDIR/out"
    cat "$BATS_TEST_TMPDIR/out"
    grep -q 'compiled before: ' "$BATS_TEST_TMPDIR/out"
    # It compiles with them, too.
    rm -r "$host/var/lib/$BATS_TEST_NUMBER/modules"
    build >"$BATS_TEST_TMPDIR/out"
    grep -q 'compiling driver' "$BATS_TEST_TMPDIR/out"
    ! grep -q 'asking' "$BATS_TEST_TMPDIR/out" || false
}

# A mirror of the node's network, which only Debian's headers are on: signed with a key of its own, over http, and over https
# with an authority of its own. Sets http and https.
serve_mirror() {
    local mirror=$BATS_TEST_TMPDIR/mirror hash name version scheme option=()
    export GNUPGHOME=$BATS_TEST_TMPDIR/gnupg
    mkdir -p "$mirror/pool" "$mirror/dists/site/main/binary-amd64" "$GNUPGHOME" "$BATS_TEST_TMPDIR/empty/DEBIAN"
    chmod 700 "$GNUPGHOME"
    while read -r hash name; do
        cp "$cache/blobs/sha256/$hash" "$mirror/pool/$name.deb"
    done < <(jq -r '.packages[] | select(.purpose == "headers") | "\(.sha256) \(.name)"' "$folder/output/lock.json")
    # Of these only the names count.
    version=$(jq -r --arg name "linux-headers-$krel" '.packages[] | select(.name == $name) | .version' "$folder/output/lock.json")
    for name in "linux-image-$krel" linux-compiler-gcc-12-x86; do
        printf '%s\n' "Package: $name" "Version: $version" "Source: linux-signed-amd64" "Architecture: amd64" "Maintainer: t <t@slipway.invalid>" \
            "Depends: gcc-12" "Description: test" >"$BATS_TEST_TMPDIR/empty/DEBIAN/control"
        dpkg-deb --root-owner-group --build "$BATS_TEST_TMPDIR/empty" "$mirror/pool/$name.deb" >/dev/null
    done
    (cd "$mirror" && apt-ftparchive packages pool >dists/site/main/binary-amd64/Packages)
    apt-ftparchive -o APT::FTPArchive::Release::Suite=site -o APT::FTPArchive::Release::Components=main \
        -o APT::FTPArchive::Release::Architectures=amd64 release "$mirror/dists/site" >"$BATS_TEST_TMPDIR/Release"
    gpg --batch --quiet --passphrase '' --quick-generate-key 'Site <site@slipway.invalid>' ed25519 sign never
    gpg --batch --quiet --clearsign --output "$mirror/dists/site/InRelease" "$BATS_TEST_TMPDIR/Release"
    gpg --batch --quiet --armor --export >"$BATS_TEST_TMPDIR/site.asc"
    gpgconf --kill all
    openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=Site -addext subjectAltName=IP:127.0.0.1 -days 2 \
        -keyout "$BATS_TEST_TMPDIR/site.key" -out "$BATS_TEST_TMPDIR/site.crt" 2>/dev/null
    nsenter --target "$first" --net ip link set lo up
    for scheme in http https; do
        [[ $scheme == http ]] || option=(--tls "$BATS_TEST_TMPDIR/site.crt" "$BATS_TEST_TMPDIR/site.key")
        rm -f "$BATS_TEST_TMPDIR/port"
        nsenter --target "$first" --net python3 "$top/tests/cli/httpd.py" --root "$mirror" --port-file "$BATS_TEST_TMPDIR/port" \
            --log "$BATS_TEST_TMPDIR/$scheme.log" "${option[@]}" </dev/null >/dev/null 2>&1 3>&- &
        servers+=($!)
        wait_for 60 test -s "$BATS_TEST_TMPDIR/port"
        printf -v "$scheme" %s "$scheme://127.0.0.1:$(<"$BATS_TEST_TMPDIR/port")/ok"
    done
}

# The host without headers, whose network has that mirror and no other.
use_site() {
    site_host=$BATS_TEST_TMPDIR/host
    stop_host
    cp -al "$folder/host" "$site_host"
    rm -r "$site_host/usr/src/linux-headers-$krel"
    start_host "$site_host"
    serve_mirror
    kept=$site_host/var/lib/$BATS_TEST_NUMBER
    cp -al "$image" "$BATS_TEST_TMPDIR/image"
    image=$BATS_TEST_TMPDIR/image
}

# mount_file PATH <TEXT: as a ConfigMap puts it into the container.
mount_file() {
    mkdir -p "$(dirname "$image/$1")"
    cat >"$image/$1"
}

refuse_build() {
    local ended=0
    build >"$BATS_TEST_TMPDIR/out" || ended=$?
    cat "$BATS_TEST_TMPDIR/out"
    ((ended > 1))
}

@test "repoConfig: headers come from the repository that is mounted, by the key that it names" {
    use_site
    refuse_build
    grep -q 'They could not be fetched from the distribution (debian12, at the mirrors that the image was built with): none of the ' "$BATS_TEST_TMPDIR/out"
    # Not signed with a key of Debian's.
    echo "deb $http site main" | mount_file etc/apt/sources.list.d/site.list
    refuse_build
    grep -q "fetched from the distribution (debian12, at the repositories of this container's /etc/apt): .*$http.*key.*; then at the mirrors that the image" "$BATS_TEST_TMPDIR/out"
    echo "deb [trusted=yes] $http site main" | mount_file etc/apt/sources.list.d/site.list
    refuse_build
    grep -q 'trusted=yes is ignored' "$BATS_TEST_TMPDIR/out"
    echo "deb [arch=amd64 signed-by=/etc/apt/sources.list.d/site.asc] $http site main" | mount_file etc/apt/sources.list.d/site.list
    mount_file etc/apt/sources.list.d/site.asc <"$BATS_TEST_TMPDIR/site.asc"
    build >"$BATS_TEST_TMPDIR/out"
    cat "$BATS_TEST_TMPDIR/out"
    grep -q "headers fetched in .*; kept in /var/lib/$BATS_TEST_NUMBER for the next start" "$BATS_TEST_TMPDIR/out"
    [[ $(modinfo -F vermagic "$(modules)/updates/nvidia/nvidia.ko") == "$krel "* ]]
    # Nothing else was asked.
    ! grep -q 'mirrors that the image' "$BATS_TEST_TMPDIR/out" || false
}

# bats test_tags=full
@test "certConfig: a mirror over https is believed by the authority that is mounted; the host's /etc/apt and authorities count, too" {
    use_site
    {
        printf '%s\n' 'Types: deb' "URIs: $https" 'Suites: site' 'Components: main' 'Signed-By:'
        sed 's/^$/./; s/^/ /' "$BATS_TEST_TMPDIR/site.asc"
    } >"$BATS_TEST_TMPDIR/site.sources"
    mount_file etc/apt/sources.list.d/site.sources <"$BATS_TEST_TMPDIR/site.sources"
    refuse_build
    grep -qi "fetched from the distribution (debian12, at the repositories of this container's /etc/apt): .*certificate" "$BATS_TEST_TMPDIR/out"
    mount_file usr/local/share/ca-certificates/site.crt <"$BATS_TEST_TMPDIR/site.crt"
    build >"$BATS_TEST_TMPDIR/out"
    cat "$BATS_TEST_TMPDIR/out"
    grep -q 'headers fetched in' "$BATS_TEST_TMPDIR/out"
    # The same on the host, and nothing of it in the container.
    rm -r "$kept" "$image/etc/apt/sources.list.d/site.sources" "$image/usr/local/share/ca-certificates/site.crt"
    mkdir -p "$site_host"/etc/{apt/sources.list.d,ssl/certs}
    cp "$BATS_TEST_TMPDIR/site.sources" "$site_host/etc/apt/sources.list.d/"
    cp "$BATS_TEST_TMPDIR/site.crt" "$site_host/etc/ssl/certs/ca-certificates.crt"
    build >"$BATS_TEST_TMPDIR/out"
    cat "$BATS_TEST_TMPDIR/out"
    # After the image's own mirrors.
    grep -q 'searching the package lists of debian12, at the mirrors that the image was built with' "$BATS_TEST_TMPDIR/out"
    grep -q "trying the repositories of the host's /etc/apt" "$BATS_TEST_TMPDIR/out"
    grep -q 'headers fetched in' "$BATS_TEST_TMPDIR/out"
}

# make_ofed FOLDER CRC: the headers of an OFED as the NIC container shows them, as far as the smallest peermem needs them.
make_ofed() {
    mkdir -p "$1/ofa_kernel/x86_64/$krel/include"
    printf '0x%s\tib_register_peer_memory_client\tofed/ib_uverbs\tEXPORT_SYMBOL\t\n0x%s\tib_unregister_peer_memory_client\tofed/ib_uverbs\tEXPORT_SYMBOL\t\n' \
        "$2" "$2" >"$1/ofa_kernel/x86_64/$krel/Module.symvers"
}

@test "an OFED that the image knows nothing of: nvidia-peermem alone is compiled for its CRC, and kept" {
    local crc begun
    for crc in 0badcafe 0badbeef; do
        make_ofed "$BATS_TEST_TMPDIR/$crc" "$crc"
        begun=$EPOCHREALTIME
        OFED_SOURCES=$BATS_TEST_TMPDIR/$crc build GPU_DIRECT_RDMA_ENABLED=true >"$BATS_TEST_TMPDIR/out"
        cat "$BATS_TEST_TMPDIR/out"
        echo "# OFED $crc: $(awk -v a="$begun" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }') s" >&3
        modprobe --dump-modversions "$(modules)/updates/nvidia/nvidia-peermem.ko" | grep -q "^0x$crc.ib_register_peer_memory_client$"
    done
    (($(find "$kept/modules" -maxdepth 1 -name '*-peermem-*' | wc -l) == 2))
    OFED_SOURCES=$BATS_TEST_TMPDIR/0badcafe build GPU_DIRECT_RDMA_ENABLED=true | grep -q 'build-peermem: compiled before'
    modprobe --dump-modversions "$(modules)/updates/nvidia/nvidia-peermem.ko" | grep -q '^0x0badcafe.ib_register'
}

# Minutes of compiling: make check-full.
# bats test_tags=full
@test "NVIDIA's modules: four of them, with the host's own drm, in the container" {
    local built begun
    # After `make images` all but the kit is there already.
    "$slipway" build --kernel newest --os debian12 --ofed reference --sources-image --output "$BATS_TEST_TMPDIR/output"
    mv "$image/usr/lib/slipway/kit/source" "$BATS_TEST_TMPDIR/source"
    built=$(buildah from --quiet --pull-never "$(jq -r '.images[] | select(.role == "gpu").id' "$BATS_TEST_TMPDIR/output/images.json")")
    cp -a "$(buildah mount "$built")/usr/lib/slipway/kit/source" "$image/usr/lib/slipway/kit/source"
    buildah rm "$built" >/dev/null
    begun=$EPOCHSECONDS
    container "$image" "$root" SLIPWAY_NODE_CACHE="$node_cache" nvidia-driver build --kernel "$krel" >"$BATS_TEST_TMPDIR/out" 2>&1 ||
        { cat "$BATS_TEST_TMPDIR/out" && false; }
    rm -rf "$image/usr/lib/slipway/kit/source"
    mv "$BATS_TEST_TMPDIR/source" "$image/usr/lib/slipway/kit/source"
    cat "$BATS_TEST_TMPDIR/out"
    echo "# NVIDIA's modules were compiled on the node in $((EPOCHSECONDS - begun)) s" >&3
    (($(find "$(modules)/updates/nvidia" -name '*.ko' | wc -l) == 4))
    grep -q '^updates/nvidia/nvidia-modeset.ko:.* kernel/drivers/gpu/drm/drm.ko' "$(modules)/modules.dep"
    [[ -f $(modules)/kernel/drivers/gpu/drm/drm.ko ]]
}
