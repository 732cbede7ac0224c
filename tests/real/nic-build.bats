#!/usr/bin/env bats
# shellcheck disable=SC2154,SC2030,SC2031
# SPDX-License-Identifier: Apache-2.0
# The mode sources of the NIC image: slipway build --ofed … --sources-image, as a container that sees of its node what the
# network operator mounts, whose headers and modules lie where Debian puts them (node.bash). The driver is the smallest
# there is, and the reference OFED once: what the recipe makes of that, the VM tests load. Only the case that says so has a
# network.

load node

setup_file() {
    top=$(realpath "$BATS_TEST_DIRNAME/../..")
    slipway=$(cd "$top" && realpath -m "${O:-build}")/slipway
    folder=$BATS_FILE_TMPDIR
    export top slipway folder
    "$slipway" build --kernel newest --os debian12 --ofed "$top/tests/real/smallest-ofed" --nvidia none --sources-image \
        --output "$folder/output"
    krel=$(jq -r .krel "$folder/output/images.json")
    export krel
    open_image "$folder/output" "$folder/image"
    # What OFED's modules depend on.
    make_host "$folder/host" "$folder/output/lock.json" net/psample net/tls drivers/net drivers/pci drivers/ptp drivers/pps
    mkdir -p "$folder/host/etc"
    printf 'ID=debian\nVERSION_ID="12"\n' >"$folder/host/etc/os-release"
}

# open_image OUTPUT FOLDER: what the image of a build holds, which has it in containers-storage, too. The modules that it was
# built with would do: this node's kernel is to be one that it has none for.
open_image() {
    local built
    built=$(buildah from --quiet --pull-never "$(jq -r '.images[0].id' "$1/images.json")")
    buildah inspect "$built" | jq .OCIv1.config >"$2.json"
    cp -a "$(buildah mount "$built")" "$2"
    buildah rm "$built" >/dev/null
    put_terminate "$2"
    rm -rf "$2/usr/lib/modules/$krel" "$2/usr/lib/slipway/kernels/$krel" "$2/usr/src/ofa_kernel"
}

setup() {
    image=$folder/image
    NIC_HOST=$folder/host
    INVENTORY=$BATS_TEST_TMPDIR/inventory
    export NIC_HOST INVENTORY
    root=$BATS_TEST_TMPDIR/container
    kept=$INVENTORY/.slipway
}

# build [NAME=VALUE…] [-- ARGUMENT…]: nic-driver build in a new container: what the mode sources does before it touches a
# kernel, for one that this machine does not run.
build() {
    local variables=()
    while (($#)) && [[ $1 != -- ]]; do
        variables+=("$1")
        shift
    done
    (($#)) && shift
    (nic_container "$image" "$root" NVIDIA_NIC_DRIVERS_INVENTORY_PATH=/mnt/drivers-inventory "${variables[@]}" \
        timeout --foreground 900 nic-driver build --kernel "$krel" "$@" 2>&1)
}

# build_in COMMAND: the same after COMMAND in the container's own mounts; then how much of it is left there.
build_in() {
    # shellcheck disable=SC2016
    (nic_container "$image" "$root" NVIDIA_NIC_DRIVERS_INVENTORY_PATH=/mnt/drivers-inventory \
        sh -c 'mkdir -p /var/lib/slipway; eval "$2"; ended=0; nic-driver build --kernel "$1" || ended=$?
            echo "nothing stays: $(find /var/lib/slipway /mnt/drivers-inventory -name "tmp-*" | wc -l)"; exit $ended' sh "$krel" "$1" 2>&1)
}

# The folder of what the container has for the kernel.
modules() { echo "$root/upper/usr/lib/modules/$krel"; }

# The sets that the node keeps.
sets() { ls "$kept/modules"; }

@test "the image is what the network operator asks for when nothing was precompiled for a kernel, and starts with sources" {
    [[ $(jq -r '.images[0].tag' "$folder/output/images.json") == 1.0-debian12-amd64 ]]
    jq -e '.Entrypoint == ["/usr/bin/nic-driver"] and .Cmd == ["sources"] and .WorkingDir == "/root"' "$folder/image.json"
    jq -e '.Env | index("NVIDIA_NIC_DRIVER_PATH=/usr/lib/slipway/kit/source")' "$folder/image.json"
    [[ -f $image/usr/lib/slipway/kit/source/smallest.c ]]
    grep -qx '    version: "1.0"' "$folder/output/nic-cluster-policy.yaml"
    grep -qx '    forcePrecompiled: false' "$folder/output/nic-cluster-policy.yaml"
    for program in sh ls lsmod grep cat dmesg tail ip rdma devlink modprobe; do
        chroot "$image" sh -c "command -v $program"
    done
    chroot "$image" rdma -V
    chroot "$image" ip -V
}

@test "a kernel without modules in the image: they are compiled with the host's headers, and kept in the inventory" {
    build >"$BATS_TEST_TMPDIR/out"
    cat "$BATS_TEST_TMPDIR/out"
    grep -q 'compiling driver 1.0 for' "$BATS_TEST_TMPDIR/out"
    grep -Eq '[0-9]+ jobs? at once: [0-9]+ processors' "$BATS_TEST_TMPDIR/out"
    [[ $(modinfo -F vermagic "$(modules)/updates/ofed/smallest.ko") == "$krel "* ]]
    grep -q '^updates/ofed/smallest.ko:' "$(modules)/modules.dep"
    [[ ! -e $(modules)/updates/ofed/rpcrdma.ko ]]
    # What the GPU side compiles nvidia-peermem against, and what the load proof reads.
    [[ -f $root/upper/usr/src/ofa_kernel/default/include/smallest.h ]]
    [[ -f $root/upper/usr/src/ofa_kernel/x86_64/$krel/Module.symvers ]]
    [[ -f $root/upper/usr/lib/slipway/kernels/$krel/kernel.conf ]]
    grep -q '^role=nic$' "$root/upper/usr/lib/slipway/kernels/$krel/image.conf"
    [[ $(sets) == "$krel"-ofed-* ]]
    [[ -z $(find "$kept" -maxdepth 1 -name 'tmp-*') ]]
}

@test "the next container takes them from the inventory: without a compiler, in seconds, headers and symvers included" {
    local begun without=$BATS_TEST_TMPDIR/without
    build >/dev/null
    # Nothing that compiles works in this image; the compiler itself is part of the key.
    cp -al "$image" "$without"
    rm "$without"/usr/lib/slipway/kit/root/usr/bin/{make,bash,ld,as}
    begun=$EPOCHREALTIME
    image=$without build >"$BATS_TEST_TMPDIR/out"
    cat "$BATS_TEST_TMPDIR/out"
    echo "# a hit: $(awk -v a="$begun" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }') s" >&3
    grep -q 'compiled before: ' "$BATS_TEST_TMPDIR/out"
    [[ -f $(modules)/updates/ofed/smallest.ko && -f $(modules)/modules.dep ]]
    [[ -f $root/upper/usr/src/ofa_kernel/x86_64/$krel/Module.symvers ]]
}

@test "another build of the kernel is compiled for anew, and what was there is kept: a node that goes back has it" {
    local symvers first
    symvers=$(echo "$folder"/host/usr/src/linux-headers-*/Module.symvers)
    build >/dev/null
    first=$(sets)
    cp "$symvers" "$BATS_TEST_TMPDIR/symvers"
    echo "0x12345678	one_more_symbol	vmlinux	EXPORT_SYMBOL	" >>"$symvers"
    build >"$BATS_TEST_TMPDIR/out"
    cp "$BATS_TEST_TMPDIR/symvers" "$symvers"
    grep -q 'compiling driver' "$BATS_TEST_TMPDIR/out"
    (($(sets | wc -l) == 2))
    build | grep -q "compiled before: .*$first"
}

@test "ENABLE_NFSRDMA and options that the user adds are inputs of their own" {
    # shellcheck disable=SC2016
    build ENABLE_NFSRDMA=true APPEND_DRIVER_BUILD_FLAGS='--without-knem --with-nfsrdma-mod $(reboot)' >"$BATS_TEST_TMPDIR/out"
    cat "$BATS_TEST_TMPDIR/out"
    [[ -f $(modules)/updates/ofed/rpcrdma.ko ]]
    grep -q "this source's configure has no --with-nvmf_host-mod: " "$BATS_TEST_TMPDIR/out"
    grep -q 'note build-on-node: --without-knem is no option of this source' "$BATS_TEST_TMPDIR/out"
    grep -qF "note build-on-node: \$(reboot) is no option of this source" "$BATS_TEST_TMPDIR/out"
    build ENABLE_NFSRDMA=true >"$BATS_TEST_TMPDIR/out"
    grep -q 'compiling driver' "$BATS_TEST_TMPDIR/out"
    build >"$BATS_TEST_TMPDIR/out"
    grep -q 'compiling driver' "$BATS_TEST_TMPDIR/out"
    [[ ! -e $(modules)/updates/ofed/rpcrdma.ko ]]
    (($(sets | wc -l) == 3))
    build ENABLE_NFSRDMA=true | grep -q 'compiled before'
    [[ -f $(modules)/updates/ofed/rpcrdma.ko ]]
}

@test "an image that has modules for the kernel, but not those for NFS/RDMA: the whole set is compiled" {
    local finished=$BATS_TEST_TMPDIR/finished
    build >/dev/null
    cp -al "$image" "$finished"
    cp -a --remove-destination "$root/upper/usr/." "$finished/usr/"
    rm -rf "$kept"
    image=$finished build >"$BATS_TEST_TMPDIR/out"
    grep -q 'there is nothing to compile' "$BATS_TEST_TMPDIR/out"
    image=$finished build ENABLE_NFSRDMA=true >"$BATS_TEST_TMPDIR/out"
    grep -q 'compiling driver' "$BATS_TEST_TMPDIR/out"
    grep -q '^updates/ofed/rpcrdma.ko:' "$(modules)/modules.dep"
}

# A recipe that says that it is there, and then sleeps.
slow_image() {
    slow=$BATS_TEST_TMPDIR/slow
    cp -al "$image" "$slow"
    rm "$slow/usr/lib/slipway/kit/recipes/ofed.sh"
    # shellcheck disable=SC2016
    printf '#!/bin/bash\nmkdir -p "$SLIPWAY_OUTPUT/lib/modules"\necho half >"$SLIPWAY_OUTPUT/lib/modules/half.ko"\necho "==> sleep"\nsleep %s & wait\n' \
        "$1" >"$slow/usr/lib/slipway/kit/recipes/ofed.sh"
    chmod +x "$slow/usr/lib/slipway/kit/recipes/ofed.sh"
}

@test "SIGTERM ends a build at once: nothing of it runs on, and nothing stays on the node" {
    local ended=0
    slow_image "4712.$$"
    (nic_container "$slow" "$root" NVIDIA_NIC_DRIVERS_INVENTORY_PATH=/mnt/drivers-inventory \
        /terminate /said 'note build-on-node: sleep' nic-driver build --kernel "$krel") >"$BATS_TEST_TMPDIR/out" 2>&1 || ended=$?
    cat "$BATS_TEST_TMPDIR/out"
    ((ended == 0)) # 137: killed
    grep -q 'note build-on-node: sleep' "$BATS_TEST_TMPDIR/out"
    grep -q 'interrupted build-on-node' "$BATS_TEST_TMPDIR/out"
    is_gone "sleep 4712.$$"
    [[ -z $(find "$kept" -maxdepth 1 -name 'tmp-*') ]]
    [[ -z $(sets) ]]
}

@test "a build that is killed with its container leaves nothing that the next start believes" {
    local container
    slow_image "4713.$$"
    (nic_container "$slow" "$root" NVIDIA_NIC_DRIVERS_INVENTORY_PATH=/mnt/drivers-inventory nic-driver build --kernel "$krel") \
        >"$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
    container=$!
    wait_for 60 grep -q 'note build-on-node: sleep' "$BATS_TEST_TMPDIR/out"
    # Process 1 of the container, as a kubelet does it.
    pkill -KILL -P "$container"
    wait "$container" || true
    wait_for 10 is_gone "sleep 4713.$$"
    [[ -n $(find "$kept" -maxdepth 1 -name 'tmp-*') ]]
    build >"$BATS_TEST_TMPDIR/out"
    grep -q 'compiling driver' "$BATS_TEST_TMPDIR/out"
    [[ -z $(find "$kept" -maxdepth 1 -name 'tmp-*') ]]
    [[ -f $(modules)/updates/ofed/smallest.ko && ! -e $root/upper/usr/lib/modules/half.ko ]]
}

@test "a set that was damaged on the disk is noticed, and compiled anew" {
    build >/dev/null
    truncate -s 4096 "$kept/modules/"*/lib/modules/*/updates/ofed/smallest.ko
    build >"$BATS_TEST_TMPDIR/out"
    cat "$BATS_TEST_TMPDIR/out"
    grep -q 'is damaged (lib/modules/.*smallest.ko was changed): compiling again' "$BATS_TEST_TMPDIR/out"
    [[ $(modinfo -F vermagic "$(modules)/updates/ofed/smallest.ko") == "$krel "* ]]
    build | grep -q 'compiled before'
}

# A node with the kernel's modules and no headers of it.
bare_host() {
    NIC_HOST=$BATS_TEST_TMPDIR/host
    mkdir -p "$NIC_HOST/usr" "$NIC_HOST/lib/modules"
    cp -r "$folder/host/etc" "$NIC_HOST/etc"
    cp -r "$folder/host/lib/modules/$krel" "$NIC_HOST/lib/modules/"
    rm "$NIC_HOST/lib/modules/$krel"/{build,source}
}

@test "a host without headers and no network: what to install and what was asked is named; headers in the container itself serve, too" {
    local ended=0 with=$BATS_TEST_TMPDIR/with
    bare_host
    build >"$BATS_TEST_TMPDIR/out" || ended=$?
    cat "$BATS_TEST_TMPDIR/out"
    ((ended > 1))
    grep -q "\[BUILD_FAILED\].*Install the package linux-headers-$krel (apt-get install)" "$BATS_TEST_TMPDIR/out"
    grep -q '\[BUILD_FAILED\].*They could not be fetched from the distribution (debian12, at the mirrors that the image was built with): none of the .* lists .* could be read: ' "$BATS_TEST_TMPDIR/out"
    [[ ! -e $kept/headers && -z $(find "$kept" "$root/upper/var/lib/slipway" -maxdepth 1 -name 'tmp-*') ]]
    cp -al "$image" "$with"
    cp -a --remove-destination "$folder/host/usr/." "$with/usr/"
    image=$with build | grep -q 'compiled in'
}

@test "SLIPWAY_NODE_HEADERS=host, or an image that knows no mirror: no list is asked for; without the tool nothing compiles" {
    local ended=0 without=$BATS_TEST_TMPDIR/without
    bare_host
    build SLIPWAY_NODE_HEADERS=host >"$BATS_TEST_TMPDIR/out" || ended=$?
    cat "$BATS_TEST_TMPDIR/out"
    ((ended > 1))
    grep -q '\[BUILD_FAILED\].*Install the package .*they are not fetched because of SLIPWAY_NODE_HEADERS=host' "$BATS_TEST_TMPDIR/out"
    cp -al "$image" "$without"
    rm "$without/usr/lib/slipway/tool/mirrors.ini"
    ended=0
    image=$without build >"$BATS_TEST_TMPDIR/out" || ended=$?
    ((ended > 1))
    grep -q '\[BUILD_FAILED\].*Install the package linux-headers' "$BATS_TEST_TMPDIR/out"
    ! grep -q 'searching the package lists' "$BATS_TEST_TMPDIR/out" || false
    rm -r "$without/usr/lib/slipway/tool"
    ended=0
    image=$without build >"$BATS_TEST_TMPDIR/out" || ended=$?
    ((ended > 1))
    grep -q '\[BUILD_FAILED\].*this image cannot compile modules, because it has no /usr/lib/slipway/tool/slipway: slipway build' "$BATS_TEST_TMPDIR/out"
}

@test "a host without headers: they come from the distribution by its signed lists, and the next start needs no network" {
    local begun=$EPOCHREALTIME
    bare_host
    NETWORK=yes build >"$BATS_TEST_TMPDIR/out"
    cat "$BATS_TEST_TMPDIR/out"
    echo "# headers fetched and the driver compiled in $(awk -v a="$begun" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.0f", b - a }') s" >&3
    grep -q "neither the host nor this container has headers for $krel: searching the package lists of debian12" "$BATS_TEST_TMPDIR/out"
    ! grep -q 'another distribution' "$BATS_TEST_TMPDIR/out" || false
    grep -q 'slipway: kernel fetching 3 packages' "$BATS_TEST_TMPDIR/out"
    grep -q 'headers fetched in .* for the next start' "$BATS_TEST_TMPDIR/out"
    [[ $(modinfo -F vermagic "$(modules)/updates/ofed/smallest.ko") == "$krel "* ]]
    # The very tree that a host with Debian's package has.
    cmp "$kept/headers/$krel/lib/modules/$krel/build/Module.symvers" "$folder/host/usr/src/linux-headers-$krel/Module.symvers"
    grep -q 'signed by' "$kept/log/headers.log"
    [[ -z $(find "$kept" "$root/upper/var/lib/slipway" -maxdepth 1 -name 'tmp-*') ]]
    # The next container, and one that has to compile: without a network.
    begun=$EPOCHREALTIME
    build >"$BATS_TEST_TMPDIR/out"
    cat "$BATS_TEST_TMPDIR/out"
    echo "# a hit: $(awk -v a="$begun" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }') s" >&3
    grep -q 'compiled before: ' "$BATS_TEST_TMPDIR/out"
    ! grep -q 'asking' "$BATS_TEST_TMPDIR/out" || false
    build ENABLE_NFSRDMA=true >"$BATS_TEST_TMPDIR/out"
    grep -q 'compiling driver' "$BATS_TEST_TMPDIR/out"
    ! grep -q 'asking' "$BATS_TEST_TMPDIR/out" || false
    [[ -f $(modules)/updates/ofed/rpcrdma.ko ]]
}

@test "a kernel that the image's lists do not have, on a host of another release: both are said, and what is nearest" {
    local ended=0 other
    bare_host
    printf 'ID=debian\nVERSION_ID="13"\n' >"$NIC_HOST/etc/os-release"
    other=${krel/6.1.0-/6.1.0-9}
    mv "$NIC_HOST/lib/modules/$krel" "$NIC_HOST/lib/modules/$other"
    krel=$other NETWORK=yes build >"$BATS_TEST_TMPDIR/out" || ended=$?
    cat "$BATS_TEST_TMPDIR/out"
    ((ended > 1))
    grep -q "another distribution than this image's package lists (debian12)" "$BATS_TEST_TMPDIR/out"
    grep -q "\[BUILD_FAILED\].*no package linux-headers-$other in the lists of debian12; the nearest are: " "$BATS_TEST_TMPDIR/out"
}

@test "a tool that does not start, and one of an image that is broken: reported in its own words" {
    local ended=0 broken=$BATS_TEST_TMPDIR/broken
    bare_host
    cp -al "$image" "$broken"
    rm "$broken"/usr/lib/slipway/tool/lib/libcurl*
    image=$broken build >"$BATS_TEST_TMPDIR/out" || ended=$?
    cat "$BATS_TEST_TMPDIR/out"
    ((ended > 1))
    grep -q '\[BUILD_FAILED\].*/usr/lib/slipway/tool/slipway ended with exit status [0-9]*: .*libcurl' "$BATS_TEST_TMPDIR/out"
    cp "$image"/usr/lib/slipway/tool/lib/libcurl* "$broken/usr/lib/slipway/tool/lib/"
    rm "$broken/usr/lib/slipway/tool/tool.conf"
    echo id=debian >"$broken/usr/lib/slipway/tool/tool.conf"
    ended=0
    image=$broken build >"$BATS_TEST_TMPDIR/out" || ended=$?
    cat "$BATS_TEST_TMPDIR/out"
    ((ended > 1))
    grep -q '\[BUILD_FAILED\].*Install the package .*tool.conf names no os' "$BATS_TEST_TMPDIR/out"
}

@test "no room in the container, or on the host: which, how much, and what the tool said; nothing of it stays" {
    local ended=0
    bare_host
    NETWORK=yes build_in 'mount -t tmpfs -o mode=755,size=60m tmpfs /var/lib/slipway' >"$BATS_TEST_TMPDIR/out" || ended=$?
    cat "$BATS_TEST_TMPDIR/out"
    ((ended > 1))
    grep -q '\[BUILD_FAILED\].*no space in the container: about 180 MB are needed below /var/lib/slipway.*no space is left.*; log on the host: .*/log/headers.log' \
        "$BATS_TEST_TMPDIR/out"
    grep -q 'nothing stays: 0' "$BATS_TEST_TMPDIR/out"
    [[ ! -e $kept/headers && -z $(find "$kept" -maxdepth 1 -name 'tmp-*') ]]
    ended=0
    NETWORK=yes build_in 'mount -t tmpfs -o mode=755,size=40m tmpfs /mnt/drivers-inventory' >"$BATS_TEST_TMPDIR/out" || ended=$?
    cat "$BATS_TEST_TMPDIR/out"
    ((ended > 1))
    grep -q '\[BUILD_FAILED\].*They were fetched from the distribution, but cannot be stored in /mnt/drivers-inventory/.slipway on the host.*No space left' "$BATS_TEST_TMPDIR/out"
    grep -q 'nothing stays: 0' "$BATS_TEST_TMPDIR/out"
}

# bats test_tags=full
@test "an inventory that is read-only by now: what it has is used, what it lacks is made in the container, which is reported" {
    bare_host
    mkdir -p "$kept"/{modules,log}
    chmod 755 "$INVENTORY" "$kept"
    NETWORK=yes build_in 'mount -o remount,bind,ro /mnt/drivers-inventory' >"$BATS_TEST_TMPDIR/out"
    cat "$BATS_TEST_TMPDIR/out"
    grep -q '/mnt/drivers-inventory/.slipway is on a read-only file system' "$BATS_TEST_TMPDIR/out"
    grep -q 'headers fetched in .* of this container only' "$BATS_TEST_TMPDIR/out"
    [[ -f $(modules)/updates/ofed/smallest.ko ]]
    # With headers there, and with modules.
    NETWORK=yes build >/dev/null
    rm -r "$kept/modules"/*
    build_in 'mount -o remount,bind,ro /mnt/drivers-inventory' >"$BATS_TEST_TMPDIR/out"
    grep -q 'compiled in .* of this container only' "$BATS_TEST_TMPDIR/out"
    build >/dev/null
    build_in 'mount -o remount,bind,ro /mnt/drivers-inventory' >"$BATS_TEST_TMPDIR/out"
    grep -q 'compiled before: /mnt/drivers-inventory' "$BATS_TEST_TMPDIR/out"
    ! grep -q 'read-only' "$BATS_TEST_TMPDIR/out" || false
}

@test "SIGTERM ends a fetch at once, and all that it started; it has few of root's rights" {
    local ended=0 slow=$BATS_TEST_TMPDIR/slow rights
    bare_host
    cp -al "$image" "$slow"
    rm "$slow/usr/lib/slipway/tool/mirrors.ini"
    # Double of a mirror: takes the connection and answers nothing, and says what rights its clients have.
    printf '[debian]\nurl = http://127.0.0.1:4714/debian\n[debian-security]\nurl = http://127.0.0.1:4714/security\n' \
        >"$slow/usr/lib/slipway/tool/mirrors.ini"
    # shellcheck disable=SC2016
    printf '%s\n' '#!/bin/sh' 'ip link set lo up' 'mount --bind /proc /usr/lib/slipway/kit/root/proc' ': >/usr/lib/slipway/kit/root/dev/null # perl opens it' \
        'chroot /usr/lib/slipway/kit/root perl -MIO::Socket::INET -e '"'"'my $s = IO::Socket::INET->new(Listen => 9, LocalAddr => "127.0.0.1:4714") or die; my @c; while (my $c = $s->accept) {
            push @c, $c; system("grep -hE \"^(Name|CapEff|NoNewPrivs)\" /proc/[0-9]*/status | paste - - - >>/rights"); }'"'"' &' \
        '/terminate /usr/lib/slipway/kit/root/rights CapEff nic-driver build --kernel "$1"' \
        'status=$?' 'grep -la "node-buil[d]" /proc/[0-9]*/cmdline >/left' 'exit "$status"' >"$slow/with-mirror"
    chmod +x "$slow/with-mirror"
    (nic_container "$slow" "$root" NVIDIA_NIC_DRIVERS_INVENTORY_PATH=/mnt/drivers-inventory /with-mirror "$krel") \
        >"$BATS_TEST_TMPDIR/out" 2>&1 || ended=$?
    rights=$root/upper/usr/lib/slipway/kit/root/rights
    cat "$BATS_TEST_TMPDIR/out" "$rights"
    ((ended == 0)) # 137: killed
    # Those over files (CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER), and it gets no others.
    grep -q 'CapEff:.000000000000000b.NoNewPrivs:.1' "$rights"
    grep -q 'interrupted build-on-node' "$BATS_TEST_TMPDIR/out"
    # Looked for in the container, before its end ends them all.
    [[ -e $root/upper/left && ! -s $root/upper/left ]]
    [[ ! -e $kept/headers ]]
}

@test "without an inventory every container compiles, and says so" {
    (nic_container "$image" "$root" nic-driver build --kernel "$krel") >"$BATS_TEST_TMPDIR/out" 2>&1
    cat "$BATS_TEST_TMPDIR/out"
    grep -q 'of this container only' "$BATS_TEST_TMPDIR/out"
    [[ ! -e $kept ]]
}

# Minutes of compiling: make check-full.
# bats test_tags=full
@test "the reference OFED's RDMA core, with its exports for the GPU side" {
    local core=$BATS_TEST_TMPDIR/core begun=$EPOCHREALTIME
    # After `make images` all but the kit is there already. mlx5 would take four times as long.
    "$slipway" build --kernel newest --os debian12 --ofed reference --nvidia none --sources-image --output "$BATS_TEST_TMPDIR/output"
    open_image "$BATS_TEST_TMPDIR/output" "$core"
    rm -r "$core"/usr/lib/slipway/kit/source/drivers/{infiniband/hw/mlx5,net/ethernet/mellanox}
    begun=$EPOCHREALTIME
    image=$core build >"$BATS_TEST_TMPDIR/out"
    cat "$BATS_TEST_TMPDIR/out"
    echo "# the RDMA core was compiled on the node in $(awk -v a="$begun" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.0f", b - a }') s" >&3
    grep -q '^updates/ofed/ib_uverbs.ko:.* updates/ofed/ib_core.ko' "$(modules)/modules.dep"
    grep -q '	ib_register_peer_memory_client	ofed/.*/ib_uverbs	' "$root/upper/usr/src/ofa_kernel/x86_64/$krel/Module.symvers"
    [[ -f $root/upper/usr/src/ofa_kernel/default/include/rdma/peer_mem.h ]]
    image=$core build | grep -q 'compiled before'
}
