#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# slipway export, of images that have modules and a userspace of our own making.

load helpers
load modules
load kernel-from
load images

el=5.14.0-570.12.1.el9_6.x86_64

# add_userspace NAME: what the recipe puts into a GPU image, and what of the base lies beside it.
add_userspace() {
    local root=$work/$1 libraries=$work/$1/usr/lib/x86_64-linux-gnu name
    mkdir -p "$root"/{usr/bin,usr/sbin,usr/lib/systemd/system,usr/lib/firmware/nvidia/535.1.2,etc/OpenCL/vendors,etc/vulkan/icd.d,opt/nvidia} \
        "$root"/usr/share/{nvidia,doc} "$libraries/gbm"
    echo 'int main(void) { return 0; }' | gcc -x c -o "$root/usr/bin/nvidia-smi" -
    for name in nvidia-modprobe nvidia-imex; do
        cp "$root/usr/bin/nvidia-smi" "$root/usr/bin/$name"
    done
    chmod 4755 "$root/usr/bin/nvidia-modprobe"
    ln -s slipway-init "$root/usr/bin/nvidia-driver"
    for name in slipway-init sh; do
        echo "$name" >"$root/usr/bin/$name"
    done
    for name in libcuda libnvidia-ml libEGL_nvidia; do
        echo "$name" >"$libraries/$name.so.535.1.2"
    done
    echo own >"$libraries/libvendor.so.535.1.2"
    echo base >"$libraries/libtirpc.so.3"
    ln -s libcuda.so.535.1.2 "$libraries/libcuda.so.1"
    ln -s ../libEGL_nvidia.so.535.1.2 "$libraries/gbm/nvidia-drm_gbm.so"
    echo gsp >"$root/usr/lib/firmware/nvidia/535.1.2/gsp_ga10x.bin"
    echo unit >"$root/usr/lib/systemd/system/nvidia-imex.service"
    echo icd >"$root/etc/OpenCL/vendors/nvidia.icd"
    echo icd >"$root/etc/vulkan/icd.d/nvidia_icd.json"
    echo chips >"$root/usr/share/nvidia/supported-gpus.json"
    echo doc >"$root/usr/share/doc/copyright"
    echo other >"$root/opt/nvidia/nvlsm"
    echo ld >"$root/usr/sbin/ldconfig"
}

setup_file() {
    local name
    use_storage
    gpu_root gpu "$first" 24.07 0x1111 signed_by=ours "signed_key=0102"
    add_userspace gpu
    mkdir -p "$work/gpu/usr/lib/modules/$first/updates/gdrcopy" "$work/gpu/usr/lib/modules/$first/kernel/drivers" "$work/gpu/etc/modprobe.d"
    make_module "$work/gpu/usr/lib/modules/$first/updates/gdrcopy/gdrdrv.ko" gdrdrv "krel=$first"
    make_module "$work/gpu/usr/lib/modules/$first/updates/nvidia/nvidia.ko" nvidia "krel=$first" exports=nvidia_p2p_get_pages:0x11 \
        parmtype=NVreg_CoherentGPUMemoryMode:charp
    make_module "$work/gpu/usr/lib/modules/$first/kernel/drivers/ecc.ko" ecc "krel=$first"
    printf '%s\n' 'options nvidia NVreg_EnableGpuFirmware=1' 'options other x=1' >"$work/gpu/etc/modprobe.d/ours.conf"
    cp -r "$work/gpu" "$work/escaping"
    ln -s ../../../etc/passwd "$work/escaping/usr/lib/x86_64-linux-gnu/libnvidia-out.so.1"
    cp -r "$work/gpu" "$work/smi-link"
    mv "$work/smi-link/usr/bin/nvidia-smi" "$work/smi-link/usr/bin/nvidia-smi-535"
    ln -s nvidia-smi-535 "$work/smi-link/usr/bin/nvidia-smi"
    cp -r "$work/gpu" "$work/old-programs"
    for name in nvidia-smi nvidia-modprobe nvidia-imex; do
        mv "$work/old-programs/usr/bin/$name" "$work/old-programs/usr/lib/x86_64-linux-gnu/lib$name.so.535.1.2"
        echo 'int _start(void) { return 0; }' | gcc -nostdlib -x c -o "$work/old-programs/usr/bin/$name" -
    done
    gpu_root bare "$first" 24.07 0x1111
    gpu_root newer-ofed "$first" 24.10 0x2222
    make_module "$work/newer-ofed/usr/lib/modules/$first/updates/nvidia/nvidia-peermem.ko" nvidia_peermem "krel=$first" \
        uses=nvidia_p2p_get_pages:0x11 uses=ib_register_peer_memory_client:0x2222
    gpu_root alone "$first" none 0
    rm "$work/alone/usr/lib/modules/$first/updates/nvidia/nvidia-peermem.ko"
    gpu_root second "$second" 24.07 0x3333
    gpu_root unproven "$first" 24.07 0x1111 proof=cannot-tell
    gpu_root refused "$first" 24.07 0x1111 proof=will-not-load
    gpu_root el "$el" 24.07 0x1111 os=rocky9
    add_userspace el
    rm "$work/el/usr/bin/nvidia-modprobe"
    gpu_root evil ../../evil 24.07 0x1111
    nic_root nic "$first"
    make_module "$work/nic/usr/lib/modules/$first/updates/ofed/ib_uverbs.ko" ib_uverbs "krel=$first" exports=ib_register_peer_memory_client:0x2222
    nic_root nic-second "$second"
    nic_root nic-sid "$first" os=debian13
    sed -i 's/^os=debian12$//' "$work"/nic-sid/etc/slipway/image.conf "$work/nic-sid/usr/lib/slipway/kernels/$first/image.conf"
    mkdir -p "$work/nothing/etc"
    for name in gpu old-programs escaping smi-link bare alone newer-ofed second unproven refused el evil nic nic-second nic-sid nothing; do
        pack "$name"
    done
}

setup() {
    use_storage
    out=$BATS_TEST_TMPDIR/out
}

teardown() {
    local folder
    for folder in "$out" "$BATS_TEST_TMPDIR/small"; do
        ! mountpoint -q "$folder" || umount "$folder"
    done
}

# unpack_tar: the files of the only .tar.zst in $out, below $BATS_TEST_TMPDIR/root, without hiding their modes.
unpack_tar() {
    rm -rf "$BATS_TEST_TMPDIR/root"
    mkdir "$BATS_TEST_TMPDIR/root"
    tar -xpf "$out"/*.tar.zst -C "$BATS_TEST_TMPDIR/root"
    root=$BATS_TEST_TMPDIR/root
}

@test "tar: modules, rules and userspace where a system keeps them, and nothing else of the image" {
    run_slipway 0 export "$work/gpu.tar" --as tar --output "$out"
    says "$out/slipway-gpu-$first.tar.zst" "for $first on Debian 12 (bookworm): 3 modules, nvidia-peermem for OFED 24.07" \
        "tar -xf slipway-gpu-$first.tar.zst -C ROOT" "chroot ROOT sh -c \"depmod $first && update-initramfs -u -k $first\"" \
        "slipway verify ROOT --kernel $first" "it checks the modules, and not these programs" "driver.enabled=false" "The system needs glibc 2." "programs link: libc.so.6"
    [[ $output != *useHostMofed* ]]
    [ "$(ls -A "$out")" = "slipway-gpu-$first.tar.zst" ]
    unpack_tar
    diff <(cd "$root" && find . -not -type d | LC_ALL=C sort) - <<END
./usr/bin/nvidia-imex
./usr/bin/nvidia-modprobe
./usr/bin/nvidia-smi
./usr/lib/depmod.d/slipway.conf
./usr/lib/firmware/nvidia/535.1.2/gsp_ga10x.bin
./usr/lib/modprobe.d/00-slipway.conf
./usr/lib/modprobe.d/slipway.conf
./usr/lib/modules-load.d/slipway.conf
./usr/lib/modules/$first/updates/slipway/gdrcopy/gdrdrv.ko
./usr/lib/modules/$first/updates/slipway/nvidia/nvidia-peermem.ko
./usr/lib/modules/$first/updates/slipway/nvidia/nvidia.ko
./usr/lib/slipway/export.json
./usr/lib/udev/rules.d/60-slipway.rules
./usr/lib/x86_64-linux-gnu/gbm/nvidia-drm_gbm.so
./usr/lib/x86_64-linux-gnu/libEGL_nvidia.so.535.1.2
./usr/lib/x86_64-linux-gnu/libcuda.so.1
./usr/lib/x86_64-linux-gnu/libcuda.so.535.1.2
./usr/lib/x86_64-linux-gnu/libnvidia-ml.so.535.1.2
./usr/lib/x86_64-linux-gnu/libvendor.so.535.1.2
./usr/share/nvidia/supported-gpus.json
./usr/share/vulkan/icd.d/nvidia_icd.json
END
    # Whole files, those of firmware too; and none is set-uid.
    cmp "$root/usr/lib/firmware/nvidia/535.1.2/gsp_ga10x.bin" "$work/gpu/usr/lib/firmware/nvidia/535.1.2/gsp_ga10x.bin"
    cmp "$root/usr/lib/modules/$first/updates/slipway/nvidia/nvidia.ko" "$work/gpu/usr/lib/modules/$first/updates/nvidia/nvidia.ko"
    [ -u "$work/gpu/usr/bin/nvidia-modprobe" ]
    [ -z "$(find "$root" -perm /7000)" ]
    diff <(find "$root/usr" -type d -not -perm 755 -o -type f -not -perm 644 -printf '%P\n' | LC_ALL=C sort) - <<<$'bin/nvidia-imex\nbin/nvidia-modprobe\nbin/nvidia-smi'
    [ "$(readlink "$root/usr/lib/x86_64-linux-gnu/gbm/nvidia-drm_gbm.so")" = ../libEGL_nvidia.so.535.1.2 ]
    diff "$root/usr/lib/depmod.d/slipway.conf" - <<END
override gdrdrv $first updates/slipway/gdrcopy
override nvidia $first updates/slipway/nvidia
override nvidia-peermem $first updates/slipway/nvidia
END
    diff "$root/usr/lib/modprobe.d/slipway.conf" - <<END
# Made by slipway export.
blacklist nouveau
blacklist nova_core
options nvidia NVreg_EnableGpuFirmware=1
END
    grep -x 'options nvidia NVreg_CoherentGPUMemoryMode=driver' "$root/usr/lib/modprobe.d/00-slipway.conf"
    diff "$root/usr/lib/modules-load.d/slipway.conf" - <<<$'nvidia\nnvidia_peermem'
    jq -e --arg krel "$first" '.krel == $krel and .os == "debian12" and .arch == "x86_64" and .peermem_ofed == "24.07"
        and (.sets | map("\(.role) \(.version) \(.proof) \(.signed_by) \(.signed_key)")) == ["gpu 535.1.2 holds ours 0102"]
        and .needs == ["libc.so.6"] and (.glibc | startswith("2."))' "$root/usr/lib/slipway/export.json"
    # Each file's checksum, as sha256sum has it.
    (cd "$root" && jq -r '.files[] | select(.sha256) | "\(.sha256)  \(.path)"' usr/lib/slipway/export.json | sha256sum --check --strict --quiet)
    [ "$(jq '.files | length' "$root/usr/lib/slipway/export.json")" = 20 ]
    jq -e '.files[] | select(.link) | select(.path == "usr/lib/x86_64-linux-gnu/libcuda.so.1") | .link == "libcuda.so.535.1.2"' \
        "$root/usr/lib/slipway/export.json"
}

@test "depmod takes ours beside a module of DKMS, whichever name and release they have" {
    run_slipway 0 export "$work/gpu.tar" --as tar --without userspace --output "$out"
    unpack_tar
    local modules=$root/usr/lib/modules/$first name
    mkdir -p "$modules/updates/dkms"
    touch "$modules"/modules.{order,builtin,builtin.modinfo}
    cp "$modules/updates/slipway/nvidia"/* "$modules/updates/dkms"
    mkdir "$BATS_TEST_TMPDIR/conf"
    ln -s usr/lib "$root/lib"
    for name in slipway dkms; do
        # With the rules turned around, DKMS' are taken: the rules decide, and not the file system.
        sed "s|updates/slipway/nvidia|updates/$name|; s|updates/slipway\$|updates/slipway/nvidia|" "$root/usr/lib/depmod.d/slipway.conf" >"$BATS_TEST_TMPDIR/conf/x.conf"
        depmod -b "$root" -C "$BATS_TEST_TMPDIR/conf" "$first"
        grep "^updates/$name" "$modules/modules.dep" | grep -q nvidia-peermem.ko
        [ "$(grep -c nvidia.ko: "$modules/modules.dep")" = 1 ]
    done
}

@test "layer: an OCI image that tools take, that verify takes, and whose layer is the tar file" {
    run_slipway 0 export "$work/gpu.tar" "$work/nic.tar" --as layer --output "$out" --force
    says "slipway-nic-gpu-$first.oci.tar" "FROM oci-archive:slipway-nic-gpu-$first.oci.tar AS drivers" "COPY --from=drivers / /" \
        "RUN depmod $first && update-initramfs -u -k $first" "slipway verify IMAGE --kernel $first" \
        "# RUN: install what BASE lacks of: libc.so.6" "driver.rdma.useHostMofed=true" "NicClusterPolicy without ofedDriver"
    run_slipway 0 export "$work/gpu.tar" "$work/nic.tar" --as tar --output "$out" --force
    skopeo inspect "oci-archive:$out/slipway-nic-gpu-$first.oci.tar" | jq -e --arg krel "$first" '.Os == "linux" and .Architecture == "amd64"
        and .Labels["io.slipway.krel"] == $krel and .Labels["io.slipway.nic.version"] == "24.07-0.6.1.0" and (.Layers | length) == 1'
    unpack_archive "$out/slipway-nic-gpu-$first.oci.tar" "$BATS_TEST_TMPDIR/layer"
    unpack_tar
    diff -r --no-dereference "$BATS_TEST_TMPDIR/layer/root" "$root" --exclude export.json
    [ -f "$root/usr/lib/modules/$first/updates/slipway/ofed/mlx5_core.ko" ]
    # Buildah checks the digests of layer and configuration, and copies it over a system whose /lib is a link.
    mkdir -p "$BATS_TEST_TMPDIR/base/usr/lib"
    ln -s usr/lib "$BATS_TEST_TMPDIR/base/lib"
    printf 'FROM oci-archive:%s AS drivers\nFROM scratch\nCOPY base/ /\nCOPY --from=drivers / /\n' "$out/slipway-nic-gpu-$first.oci.tar" >"$BATS_TEST_TMPDIR/Containerfile"
    buildah build --quiet -f "$BATS_TEST_TMPDIR/Containerfile" -t localhost/system "$BATS_TEST_TMPDIR" >/dev/null
    buildah push --quiet localhost/system "oci-archive:$BATS_TEST_TMPDIR/system.tar"
    unpack_archive "$BATS_TEST_TMPDIR/system.tar" "$BATS_TEST_TMPDIR/system"
    [ "$(readlink "$BATS_TEST_TMPDIR/system/root/lib")" = usr/lib ]
    cmp "$BATS_TEST_TMPDIR/system/root/lib/modules/$first/updates/slipway/nvidia/nvidia.ko" "$root/usr/lib/modules/$first/updates/slipway/nvidia/nvidia.ko"
}

@test "the layer's modules are judged like those of an image" {
    run_slipway 0 export "$work/alone.tar" --as layer --without userspace --output "$out"
    make_headers "$BATS_TEST_TMPDIR/headers" "$first"
    run_slipway 0 verify "$out"/*.oci.tar --kernel "$BATS_TEST_TMPDIR/headers"
    says "1 module: 1 will load"
    printf '0x89abcdef\tmodule_layout\tvmlinux\tEXPORT_SYMBOL\t\n' >"$BATS_TEST_TMPDIR/headers/Module.symvers"
    run_slipway 3 verify "$out"/*.oci.tar --kernel "$BATS_TEST_TMPDIR/headers"
}

@test "the same images make the same bytes" {
    local as
    for as in tar layer; do
        run_slipway 0 export "$work/gpu.tar" --as $as --output "$out"
        sleep 1.1
        run_slipway 0 export localhost/made-gpu --as $as --output "$BATS_TEST_TMPDIR/again"
    done
    diff -r "$out" "$BATS_TEST_TMPDIR/again"
    [ "$(find "$out" -type f | wc -l)" = 2 ]
    run_slipway 0 export "$work/gpu.tar" --as tar --output "$out" --json
    jq -se --arg file "slipway-gpu-$first.tar.zst" 'last | .event == "result" and .exit_code == 0 and .files == [$file]
        and .peermem_ofed == "24.07" and .sets[0].role == "gpu"' <<<"$output"
}

@test "Enterprise Linux has its libraries in lib64, and dracut" {
    run_slipway 0 export "$work/el.tar" --as tar --output "$out"
    says "dracut --force --kver $el" "the image has no nvidia-modprobe"
    unpack_tar
    [ -f "$root/usr/lib64/libcuda.so.535.1.2" ]
    [ "$(readlink "$root/usr/lib64/gbm/nvidia-drm_gbm.so")" = ../libEGL_nvidia.so.535.1.2 ]
    [ ! -e "$root/usr/lib/x86_64-linux-gnu" ]
    [ ! -e "$root/usr/lib/udev" ]
    run_slipway 0 export "$work/el.tar" --as tar --os debian12 --output "$out"
    says "the images were built for rocky9: its programs may not start on debian12"
    unpack_tar
    [ -f "$root/usr/lib/x86_64-linux-gnu/libcuda.so.535.1.2" ]
}

@test "programs for a newer glibc than the system has are refused, libraries are not, and modules are exported alone" {
    run_slipway 0 export "$work/gpu.tar" --as tar --os debian13 --output "$BATS_TEST_TMPDIR/newer"
    run_slipway 2 export "$work/gpu.tar" --as tar --os ubuntu20.04 --output "$out"
    says "gpu.tar: programs need glibc 2.34, and Ubuntu 20.04" " has 2.31" "try: --without userspace" "try: --force"
    [ ! -e "$out" ]
    run_slipway 0 export "$work/gpu.tar" --as tar --os ubuntu20.04 --without userspace --output "$out"
    run_slipway 0 export "$work/gpu.tar" --as tar --os ubuntu20.04 --force --output "$out"
    says "programs need glibc 2.34, and Ubuntu 20.04" "they will not start" "The system needs glibc 2.34 or newer"
    run_slipway 0 export "$work/old-programs.tar" --as tar --os ubuntu20.04 --output "$out"
}

@test "a link leads to a part of the driver or is refused, and nvidia-smi is a file" {
    run_slipway 0 export "$work/smi-link.tar" --as tar --output "$out"
    unpack_tar
    [ ! -L "$root/usr/bin/nvidia-smi" ]
    cmp "$root/usr/bin/nvidia-smi" "$work/gpu/usr/bin/nvidia-smi"
    run_slipway 2 export "$work/escaping.tar" --as tar --output "$BATS_TEST_TMPDIR/escaping"
    says "escaping.tar: /usr/lib/x86_64-linux-gnu/libnvidia-out.so.1 leads to ../../../etc/passwd, which is not the driver's"
    [ ! -e "$BATS_TEST_TMPDIR/escaping" ]
    run_slipway 0 export "$work/escaping.tar" --as tar --output "$out" --force
    says "libnvidia-out.so.1 is left out"
    unpack_tar
    [ ! -L "$root/usr/lib/x86_64-linux-gnu/libnvidia-out.so.1" ]
    run_slipway 2 export "$work/bare.tar" --as tar --output "$out"
    says "it has no userspace driver: /usr/bin/nvidia-smi is missing" "try: --without userspace"
    run_slipway 0 export "$work/bare.tar" --as tar --without userspace --output "$out"
    says "no nvidia-modprobe is exported, which makes the nodes of GPUs: without a driver container the system needs its own" \
        "GPU Operator: driver.enabled=true: a driver container of the same image brings the programs"
    unpack_tar
    [ ! -e "$root/usr/bin" ]
}

@test "nvidia-peermem is the one for the NIC image's OFED, or the images are refused" {
    run_slipway 2 export "$work/gpu.tar" "$work/nic.tar" --as tar --output "$out"
    says "gpu.tar: its nvidia-peermem is for OFED 24.07, and does not load beside that of" "nic.tar (24.07-0.6.1.0)"
    run_slipway 0 combine "$work/bare.tar" "$work/newer-ofed.tar" --output "oci-archive:$BATS_TEST_TMPDIR/both.tar"
    run_slipway 0 export "$BATS_TEST_TMPDIR/both.tar" "$work/nic.tar" --as tar --without userspace --output "$out"
    says "nvidia-peermem for OFED 24.10"
    [[ $output != *"loads only in"* ]]
    unpack_tar
    cmp "$root/usr/lib/modules/$first/updates/slipway/nvidia/nvidia-peermem.ko" \
        "$work/newer-ofed/usr/lib/modules/$first/updates/nvidia/nvidia-peermem.ko"
    run_slipway 0 export "$BATS_TEST_TMPDIR/both.tar" --as tar --without userspace --output "$BATS_TEST_TMPDIR/alone"
    says "nvidia-peermem for OFED 24.07" "both.tar: its nvidia-peermem loads only in a system with OFED 24.07: export the NIC image together with it"
    run_slipway 0 export "$work/alone.tar" --as tar --without userspace --output "$BATS_TEST_TMPDIR/alone"
    [[ $output != *"loads only in"* ]]
}

@test "one kernel: an image of several is refused without --kernel, and so are images of two" {
    run_slipway 0 combine "$work/bare.tar" "$work/second.tar" --output "oci-archive:$BATS_TEST_TMPDIR/two.tar"
    run_slipway 2 export "$BATS_TEST_TMPDIR/two.tar" --as tar --without userspace --output "$out"
    says "two.tar: it has modules for 2 kernels ($first $second), and an OS image has one" "try: --kernel $first"
    run_slipway 2 export "$BATS_TEST_TMPDIR/two.tar" --as tar --without userspace --kernel 6.1.0-1-amd64 --output "$out"
    says "it has no modules for 6.1.0-1-amd64, but for: $first $second"
    run_slipway 0 export "$BATS_TEST_TMPDIR/two.tar" --as tar --without userspace --kernel "$second" --output "$out"
    unpack_tar
    [ "$(ls "$root/usr/lib/modules")" = "$second" ]
    run_slipway 2 export "$work/bare.tar" "$work/nic-second.tar" --as tar --output "$out"
    says "nic-second.tar is for $second" "bare.tar for $first: the images are not one node's"
}

# pack_arm64 NAME: its archive, of modules whose ELF header and whose image say that they are for arm64.
pack_arm64() {
    local container
    # e_machine, elf(5): EM_AARCH64
    find "$work/$1" -name '*.ko' -exec sh -c 'printf "\267" | dd of="$1" bs=1 seek=18 conv=notrunc status=none' sh {} \;
    container=$(buildah from scratch)
    buildah add --quiet "$container" "$work/$1" / >/dev/null
    buildah config --arch arm64 --label io.slipway.role=gpu "$container"
    buildah commit --quiet --timestamp 0 --rm "$container" "localhost/made-$1" >/dev/null
    buildah push --quiet "localhost/made-$1" "oci-archive:$work/$1.tar"
}

@test "of an index the image for the kernel's architecture, for --arch, or for this machine, which is said" {
    local index=$BATS_TEST_TMPDIR/index.tar arm=6.1.0-56-arm64
    gpu_root arm "$arm" 24.07 0x1111
    pack_arm64 arm
    run_slipway 0 index "$work/bare.tar" "$work/arm.tar" --output "$index"
    run_slipway 0 export "$index" --kernel "$arm" --as tar --without userspace --output "$out"
    jq -e '.arch == "aarch64"' <(tar -xOf "$out/slipway-gpu-$arm.tar.zst" usr/lib/slipway/export.json)
    run_slipway 0 export "$index" --arch arm64 --as layer --without userspace --output "$out"
    [ -f "$out/slipway-gpu-$arm.oci.tar" ]
    [[ $output != *"for this machine"* ]]
    run_slipway 0 export "$index" --as tar --without userspace --output "$out"
    says "index.tar: an index: its image for this machine (amd64) is exported; --arch arm64 takes another" "$out/slipway-gpu-$first.tar.zst"
    run_slipway 2 export "$index" --kernel 6.1.0-57-arm64 --as tar --without userspace --output "$out"
    says "it has no modules for 6.1.0-57-arm64, but for: $arm" "try: --kernel $arm" "try: an image for 6.1.0-57-arm64: slipway build --kernel 6.1.0-57-arm64"
    [[ $output != *"--arch"* ]]
    run_slipway 2 export "$index" --arch arm64 --kernel "$first" --as tar --without userspace --output "$out"
    says "--arch aarch64: kernel $first is for x86_64"
    run_slipway 2 export "$work/bare.tar" --arch arm64 --as tar --without userspace --output "$out"
    says "--arch aarch64: kernel $first is for x86_64" "try: leave out --arch"
}

@test "a build's folder stands for the images that its images.json lists" {
    local made=$BATS_TEST_TMPDIR/made
    mkdir "$made"
    cp "$work/newer-ofed.tar" "$made/gpu.oci.tar"
    cp "$work/nic.tar" "$made/nic.oci.tar"
    cp "$work/nic-second.tar" "$made/older.oci.tar"
    echo '{"images": [{"role": "nic"}, {"role": "gpu"}]}' >"$made/images.json"
    run_slipway 0 export "$made" --as tar --without userspace --output "$out"
    [ "$(ls -A "$out")" = "slipway-nic-gpu-$first.tar.zst" ]
}

@test "what is not proven is exported by --force alone, under another name" {
    run_slipway 4 export "$work/unproven.tar" --as tar --without userspace --output "$out"
    says "it is not proven that its modules will load (cannot-tell)" "slipway verify" "try: --force"
    run_slipway 3 export "$work/refused.tar" --as tar --without userspace --output "$out"
    [ ! -e "$out" ]
    run_slipway 0 export "$work/refused.tar" --as tar --without userspace --force --output "$out"
    says "slipway-gpu-$first-unproven.tar.zst" "refused.tar is not proven (will-not-load)"
}

# unpack_raw: the tree of the only .raw in $out, below $root.
unpack_raw() {
    root=$BATS_TEST_TMPDIR/root
    rm -rf "$root"
    unsquashfs -quiet -no-progress -dest "$root" "$out"/*.raw >/dev/null
}

@test "sysext: modules in a root of their own, a unit that loads them, and the release that it is for" {
    run_slipway 2 export "$work/gpu.tar" "$work/nic.tar" --as sysext --output "$out"
    run_slipway 0 export "$work/newer-ofed.tar" "$work/nic.tar" --as sysext --without userspace --output "$out"
    local name=slipway-nic-gpu-$first
    says "$out/$name.raw" "cp $name.raw /var/lib/extensions/" "systemctl enable --now systemd-sysext.service" \
        "systemctl start slipway-drivers-nic-gpu.service" "driver.rdma.useHostMofed=true"
    [ "$(ls -A "$out")" = "$name.raw" ]
    unpack_raw
    diff "$root/usr/lib/extension-release.d/extension-release.$name" - <<<$'ID=debian\nVERSION_ID=12\nARCHITECTURE=x86-64\nEXTENSION_RELOAD_MANAGER=1'
    [ ! -e "$root/usr/lib/modules" ]
    [ ! -e "$root/usr/lib/modules-load.d" ]
    [ ! -e "$root/usr/lib/slipway/export.json" ]
    jq -e '.sets | map(.role) | sort == ["gpu", "nic"]' "$root/usr/lib/slipway/$name/export.json"
    # What is upheld never fails: it would be started again and again.
    [ "$(ls "$root/usr/lib/systemd/system/multi-user.target.upholds")" = slipway-drivers-nic-gpu.target ]
    [ "$(readlink "$root/usr/lib/systemd/system/multi-user.target.upholds/slipway-drivers-nic-gpu.target")" = ../slipway-drivers-nic-gpu.target ]
    grep -qx Wants=slipway-drivers-nic-gpu.service "$root/usr/lib/systemd/system/slipway-drivers-nic-gpu.target"
    [ -f "$root/usr/lib/modprobe.d/slipway-nic-gpu.conf" ]
    # The unit's program is there, and modprobe finds the modules.
    local load
    load=$(sed -n 's/^ExecStart=//p' "$root/usr/lib/systemd/system/slipway-drivers-nic-gpu.service")
    [ "$load" = "/usr/lib/slipway/$name/load" ]
    [ -x "$root$load" ]
    modprobe --show-depends -S "$first" -d "$root/usr/lib/slipway/$name" nvidia-peermem >"$BATS_TEST_TMPDIR/depends"
    diff <(sed "s|^insmod $root||; s| *\$||" "$BATS_TEST_TMPDIR/depends") - <<END
/usr/lib/slipway/$name/lib/modules/$first/updates/nvidia/nvidia.ko
/usr/lib/slipway/$name/lib/modules/$first/updates/ofed/ib_uverbs.ko
/usr/lib/slipway/$name/lib/modules/$first/updates/nvidia/nvidia-peermem.ko
END
    diff "$root/usr/lib/slipway/$name/modules" - <<<$'ib_uverbs\nmlx5_core\nnvidia\nnvidia_peermem'
    [ -z "$(find "$root/usr" -perm /7022 -not -type l)" ]
}

@test "the kernel's modules that a set needs come along, and two extensions share no file" {
    run_slipway 0 export "$work/gpu.tar" --as sysext --output "$out"
    unpack_raw
    cmp "$root/usr/lib/slipway/slipway-gpu-$first/lib/modules/$first/kernel/drivers/ecc.ko" "$work/gpu/usr/lib/modules/$first/kernel/drivers/ecc.ko"
    [ -f "$root/usr/bin/nvidia-smi" ]
    [ -f "$root/usr/lib/udev/rules.d/60-slipway-gpu.rules" ]
    grep -q '^After=.*slipway-drivers-nic.service' "$root/usr/lib/systemd/system/slipway-drivers-gpu.service"
    mv "$root" "$BATS_TEST_TMPDIR/gpu"
    rm "$out"/*
    run_slipway 0 export "$work/nic.tar" --as sysext --output "$out"
    unpack_raw
    [ -z "$(comm -12 <(cd "$root" && find . -not -type d | sort) <(cd "$BATS_TEST_TMPDIR/gpu" && find . -not -type d | sort))" ]
}

# load_extension NAME KREL: runs the program of this extension on a double of a node that runs this kernel, whose sysfs is $sysfs. The file calls
# has what it called; modprobe fails for the module $refusing.
load_extension() {
    local bin=$BATS_TEST_TMPDIR/bin program
    mkdir -p "$bin"
    printf '#!/bin/sh\necho %s\n' "$2" >"$bin/uname"
    for program in modprobe ldconfig; do
        # shellcheck disable=SC2016
        printf '#!/bin/sh\necho "%s $*" >>"%s"\n[ -z "${3-}" ] || [ "${3-}" != "%s" ]\n' $program "$BATS_TEST_TMPDIR/calls" "${refusing-}" >"$bin/$program"
    done
    chmod +x "$bin"/*
    : >"$BATS_TEST_TMPDIR/calls"
    PATH=$bin:$PATH SLIPWAY_SYSFS=$sysfs run sh "$root/usr/lib/slipway/$1/load"
}

# A loaded module as sysfs shows it: show_module NAME FILE.
show_module() {
    mkdir -p "$sysfs/module/$1/notes"
    echo live >"$sysfs/module/$1/initstate"
    objcopy -O binary --only-section=.note.gnu.build-id "$2" "$sysfs/module/$1/notes/.note.gnu.build-id"
}

@test "the unit's program loads in order, and names another kernel or a module of another build" {
    local name=slipway-nic-$first sysfs=$BATS_TEST_TMPDIR/sys
    run_slipway 0 export "$work/nic.tar" --as sysext --output "$out"
    unpack_raw
    load_extension "$name" 6.1.0-99-amd64
    [ "$status" -eq 1 ]
    says "the modules of $name are for kernel $first, and this is kernel 6.1.0-99-amd64"
    [ ! -s "$BATS_TEST_TMPDIR/calls" ]
    # That kernel's own extension is merged, too.
    mkdir "$root/usr/lib/slipway/slipway-nic-6.1.0-99-amd64"
    printf '#!/bin/sh\necho called\n' >"$root/usr/lib/slipway/slipway-nic-6.1.0-99-amd64/load"
    chmod +x "$root/usr/lib/slipway/slipway-nic-6.1.0-99-amd64/load"
    load_extension "$name" 6.1.0-99-amd64
    [ "$status" -eq 0 ]
    [ "$output" = called ]
    rm -r "$root/usr/lib/slipway/slipway-nic-6.1.0-99-amd64"
    load_extension "$name" "$first"
    [ "$status" -eq 0 ]
    diff "$BATS_TEST_TMPDIR/calls" - <<END
modprobe -d $root/usr/lib/slipway/$name ib_uverbs
modprobe -d $root/usr/lib/slipway/$name mlx5_core
ldconfig 
END
    # One that fails keeps none of the others back.
    refusing=ib_uverbs load_extension "$name" "$first"
    [ "$status" -eq 1 ]
    says "not loaded: ib_uverbs"
    grep -q mlx5_core "$BATS_TEST_TMPDIR/calls"
    # Its own build is fine.
    show_module mlx5_core "$work/nic/usr/lib/modules/$first/updates/ofed/mlx5_core.ko"
    load_extension "$name" "$first"
    [ "$status" -eq 0 ]
    show_module mlx5_core "$work/gpu/usr/lib/modules/$first/updates/nvidia/nvidia.ko"
    load_extension "$name" "$first"
    [ "$status" -eq 1 ]
    says "mlx5_core is loaded from elsewhere: its build id is " "modprobe.blacklist=mlx5_core"
    [ ! -s "$BATS_TEST_TMPDIR/calls" ]
    rm "$sysfs/module/mlx5_core/notes/.note.gnu.build-id"
    load_extension "$name" "$first"
    [ "$status" -eq 1 ]
    says "its build id is not known"
}

# make_key NAME: $BATS_TEST_TMPDIR/NAME.{key,crt}
make_key() {
    openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj "/CN=$1" -addext keyUsage=digitalSignature \
        -keyout "$BATS_TEST_TMPDIR/$1.key" -out "$BATS_TEST_TMPDIR/$1.crt" 2>/dev/null
}

# verify_p7s CERT: as systemd does, by PKCS7_verify() with NOINTERN and NOVERIFY (src/shared/dissect-image.c).
verify_p7s() {
    openssl smime -verify -inform DER -in "$out"/*.roothash.p7s -content "$out"/*.roothash -certfile "$BATS_TEST_TMPDIR/$1.crt" \
        -nointern -noverify >/dev/null 2>&1
}

@test "with a key: the verity of the image, its root hash, and a signature that openssl takes" {
    local name=slipway-gpu-$first hash
    make_key ours
    make_key other
    run_slipway 0 export "$work/gpu.tar" --as sysext --output "$out" --sign-key "$BATS_TEST_TMPDIR/ours.key" --sign-cert "$BATS_TEST_TMPDIR/ours.crt"
    says "/etc/verity.d/$name.crt"
    diff <(ls -A "$out") <(printf "$name.%s\n" raw roothash roothash.p7s verity)
    hash=$(<"$out/$name.roothash")
    [[ $hash =~ ^[0-9a-f]{64}$ ]]
    [ "$(stat -c %s "$out/$name.roothash")" = 64 ]
    [ "$(stat -c %a "$out"/* | sort -u)" = 644 ]
    veritysetup verify "$out/$name.raw" "$out/$name.verity" "$hash"
    verify_p7s ours
    run verify_p7s other
    [ "$status" -ne 0 ]
    openssl asn1parse -inform DER -in "$out/$name.roothash.p7s" >"$BATS_TEST_TMPDIR/asn1"
    run grep -E 'messageDigest|signingTime' "$BATS_TEST_TMPDIR/asn1"
    [ "$status" -eq 1 ]
    # The same bytes again, also by another date of the run; and one byte that changed is found.
    sleep 1.1
    run_slipway 0 export localhost/made-gpu --as sysext --output "$BATS_TEST_TMPDIR/again" --sign-key "$BATS_TEST_TMPDIR/ours.key" --sign-cert "$BATS_TEST_TMPDIR/ours.crt"
    diff -r "$out" "$BATS_TEST_TMPDIR/again"
    printf '\377' | dd of="$out/$name.raw" bs=1 seek=5000 conv=notrunc status=none
    run veritysetup verify "$out/$name.raw" "$out/$name.verity" "$hash"
    [ "$status" -ne 0 ]
    # An image without a signature does not get the old one's.
    run_slipway 0 export localhost/made-gpu --as sysext --output "$BATS_TEST_TMPDIR/again"
    [ "$(ls "$BATS_TEST_TMPDIR/again")" = "$name.raw" ]
    # SOURCE_DATE_EPOCH is the date of the image.
    export SOURCE_DATE_EPOCH=86400
    run_slipway 0 export "$work/gpu.tar" --as sysext --output "$BATS_TEST_TMPDIR/dated"
    unset SOURCE_DATE_EPOCH
    TZ=UTC unsquashfs -stat "$BATS_TEST_TMPDIR/dated/$name.raw" | grep -q 'time Fri Jan  2 00:00:00 1970'
}

@test "a key that cannot sign, and programs that are missing, are named before any work" {
    make_key ours
    make_key other
    run_slipway 13 export "$work/gpu.tar" --as sysext --output "$out" --sign-key "$BATS_TEST_TMPDIR/ours.key" --sign-cert "$BATS_TEST_TMPDIR/other.crt"
    says "certificate"
    # The exit codes of build: a password that is wrong or missing is no signature, a file that is no key the command line.
    signs() { run_slipway "$1" export "$work/gpu.tar" --as sysext --output "$out" --sign-key "$BATS_TEST_TMPDIR/$2" --sign-cert "$BATS_TEST_TMPDIR/$3" "${@:4}"; }
    openssl rsa -aes256 -passout pass:right -in "$BATS_TEST_TMPDIR/ours.key" -out "$BATS_TEST_TMPDIR/locked.key" 2>/dev/null
    echo wrong >"$BATS_TEST_TMPDIR/password"
    signs 13 locked.key ours.crt --password-file "$BATS_TEST_TMPDIR/password"
    says "locked.key"
    signs 13 locked.key ours.crt
    signs 2 missing.key ours.crt
    says "missing.key"
    signs 2 ours.key missing.crt
    signs 2 ours.key password
    signs 2 locked.key ours.crt --password-env SLIPWAY_TEST_UNSET
    says "SLIPWAY_TEST_UNSET: this environment variable is not set"
    run_slipway 2 export "$work/gpu.tar" --as sysext --output "$out" --sign-key "$BATS_TEST_TMPDIR/ours.key"
    says "--sign-cert"
    run_slipway 2 export "$work/gpu.tar" --as tar --output "$out" --sign-key "$BATS_TEST_TMPDIR/ours.key" --sign-cert "$BATS_TEST_TMPDIR/ours.crt"
    says "only --as sysext has a signature"
    local path
    path=$(path_without veritysetup)
    PATH=$path run_slipway 10 export "$work/gpu.tar" --as sysext --output "$out" --sign-key "$BATS_TEST_TMPDIR/ours.key" --sign-cert "$BATS_TEST_TMPDIR/ours.crt"
    says "veritysetup" "scripts/install-packages"
    path=$(path_without mksquashfs)
    PATH=$path run_slipway 10 export "$work/gpu.tar" --as sysext --output "$out"
    says "mksquashfs"
    [ ! -e "$out" ]
}

@test "images and command lines that mean nothing are refused" {
    run_slipway 2 export --as tar --output "$out"
    says "IMAGE is missing"
    run_slipway 2 export "$work/gpu.tar" --output "$out"
    says "--as is missing"
    run_slipway 2 export "$work/gpu.tar" --as tar
    says "--output DIR is missing"
    run_slipway 2 export "$work/gpu.tar" --as deb --output "$out"
    says "--as deb: not one of: layer, tar, sysext"
    run_slipway 2 export "$work/gpu.tar" --as layer --as tar --output "$out"
    says "--as tar: one form is made at a time" "try: one slipway export for each form"
    run_slipway 2 export "$work/gpu.tar" --as tar --without modules --output "$out"
    says "only userspace can be left out"
    run_slipway 2 export "$work/gpu.tar" --as tar --output oci-archive:x
    says "not a folder"
    run_slipway 2 export "$work/gpu" --as tar --output "$out"
    says "no image" "try: an image: its archive"
    run_slipway 2 export "$work/nothing.tar" --as tar --output "$out"
    says "nothing.tar: it has no /etc/slipway/image.conf" "try: an image that slipway build or combine made"
    run_slipway 2 export "$work/evil.tar" --as tar --output "$out"
    says "no kernel release can be '../../evil'"
    run_slipway 2 export "$work/gpu.tar" "$work/bare.tar" --as tar --output "$out"
    says "are both gpu images"
    run_slipway 2 export "$work/gpu.tar" "$work/nic-sid.tar" --as tar --output "$out"
    says "nic-sid.tar is for debian13" "gpu.tar for debian12"
    [ ! -e "$out" ]
}

@test "SIGTERM leaves nothing in the folder, and what SIGKILL left is removed by the next run" {
    local bin=$BATS_TEST_TMPDIR/bin pid left
    mkdir "$bin"
    # shellcheck disable=SC2016
    printf '#!/bin/sh\ntouch "$2"\nexec sleep 600\n' >"$bin/mksquashfs"
    chmod +x "$bin/mksquashfs"
    # start: an export that is writing its files. exec: the signal is slipway's.
    start() {
        # shellcheck disable=SC2030
        (export PATH=$bin:$PATH SLIPWAY_DATADIR=$repository SLIPWAY_CACHE=$BATS_TEST_TMPDIR/cache
            exec "$SLIPWAY" export "$work/gpu.tar" --as sysext --without userspace --output "$out") 3>&- &
        pid=$!
        for _ in {1..600}; do
            [ -z "$(find "$out" -name '*.raw' 2>/dev/null)" ] || return 0
            sleep 0.1
        done
        false
    }
    start
    # One of another run that still works stays.
    run_slipway 0 export "$work/gpu.tar" --as tar --without userspace --output "$out"
    left=$(find "$out" -name '*.raw')
    [ -f "$left" ]
    kill -TERM $pid
    status=0
    wait $pid || status=$?
    [ "$status" -eq 143 ]
    [ "$(ls -A "$out")" = "slipway-gpu-$first.tar.zst" ]
    mkdir "$out/.slipway-export-killed"
    touch "$out/.slipway-export-killed/x.raw"
    run_slipway 0 export "$work/gpu.tar" --as tar --without userspace --output "$out"
    [ "$(ls -A "$out")" = "slipway-gpu-$first.tar.zst" ]
}

@test "a full disk is named, and leaves nothing in the folder" {
    mkdir "$out"
    mount -t tmpfs -o size=4k tmpfs "$out" || skip "no right to mount a small file system"
    local as
    for as in layer sysext; do
        run_slipway 17 export "$work/gpu.tar" --as $as --output "$out"
        says "--output $out: needs up to 1 MB, has room for 0: No space left on device" "try: free some there, or name a folder on another disk"
        [[ $output != *".slipway-export-"* ]]
        [ -z "$(ls -A "$out")" ]
    done
    # There is room for the image, and none for its hashes, of which veritysetup would say nothing.
    make_key ours
    umount "$out"
    run_slipway 0 export "$work/gpu.tar" --as sysext --output "$BATS_TEST_TMPDIR/whole"
    mount -t tmpfs -o "size=$(stat -c %s "$BATS_TEST_TMPDIR"/whole/*.raw)" tmpfs "$out"
    run_slipway 17 export "$work/gpu.tar" --as sysext --output "$out" --sign-key "$BATS_TEST_TMPDIR/ours.key" --sign-cert "$BATS_TEST_TMPDIR/ours.crt"
    says "--output $out: needs up to 1 MB, has room for 0: No space left on device"
    [ -z "$(ls -A "$out")" ]
    umount "$out"
    # A full cache is another disk.
    mkdir "$BATS_TEST_TMPDIR/small"
    mount -t tmpfs -o size=128k tmpfs "$BATS_TEST_TMPDIR/small"
    run_slipway 17 export "$work/gpu.tar" --as layer --output "$out" --cache "$BATS_TEST_TMPDIR/small"
    says "try: slipway cache prune" "the cache: $BATS_TEST_TMPDIR/small"
    umount "$BATS_TEST_TMPDIR/small"
}
