#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2154
# SPDX-License-Identifier: Apache-2.0
# slipway build --userspace, --gdrcopy and --nvidia-fs: what is wrong with them comes out before anything is fetched; and
# what the recipe makes of an installer's folder, run by itself. The libraries here are empty ones of the right names.

bats_require_minimum_version 1.5.0

load helpers
load kernel-from

version=535.1.2

setup() {
    tree=$BATS_TEST_TMPDIR/tree
    mkdir -p "$tree"
}

# library FILE SONAME
library() {
    mkdir -p "$(dirname "$1")"
    echo 'int nothing;' | gcc -shared -fPIC -nostdlib "-Wl,-soname,$2" -x c -o "$1" -
}

# program FILE…
program() {
    local file
    for file in "$@"; do
        mkdir -p "$(dirname "$file")"
        printf '#!/bin/sh\n' >"$file"
    done
}

# What NVIDIA-Linux-x86_64-….run -x leaves, as far as names go.
make_installer() {
    local name
    for name in nvidia-ml cuda nvidia-cfg; do
        library "$tree/run/lib$name.so.$version" "lib$name.so.1"
        library "$tree/run/32/lib$name.so.$version" "lib$name.so.1"
    done
    library "$tree/run/libnvidia-eglcore.so.$version" "libnvidia-eglcore.so.$version"
    library "$tree/run/libglxserver_nvidia.so.$version" libglxserver_nvidia.so
    program "$tree"/run/{nvidia-smi,nvidia-persistenced,nvidia-imex,nvidia-settings}
    mkdir -p "$tree/run/firmware"
    echo firmware >"$tree/run/firmware/gsp_ga10x.bin"
}

# recipe CODE: runs it as the build container does.
recipe() {
    output_folder=$BATS_TEST_TMPDIR/output
    rm -rf "$output_folder" "$BATS_TEST_TMPDIR/work"
    mkdir -p "$output_folder" "$BATS_TEST_TMPDIR/work"
    run env SLIPWAY_KREL=6.1.0 SLIPWAY_ARCH=x86_64 SLIPWAY_KERNEL=/nowhere SLIPWAY_SOURCE="$tree" \
        SLIPWAY_OUTPUT="$output_folder" SLIPWAY_WORK="$BATS_TEST_TMPDIR/work" SLIPWAY_CC=gcc SLIPWAY_JOBS=1 \
        "$repository/containers/recipes/userspace.sh"
    echo "$output"
    [ "$status" -eq "$1" ]
}

@test "of an installer's folder: libraries with the names that programs link, programs, firmware of the version" {
    make_installer
    recipe 0
    local libraries=$output_folder/usr/lib/x86_64-linux-gnu
    # Slipway itself makes that link, by the library's SONAME: tests/unit/cli/test_programs.c.
    [ "$(readlink "$libraries/libcuda.so")" = libcuda.so.1 ]
    [ -f "$libraries/libnvidia-ml.so.$version" ]
    [ -f "$libraries/libnvidia-eglcore.so.$version" ]
    cmp "$libraries/libcuda.so.$version" "$tree/run/libcuda.so.$version"
    [ -z "$(find "$output_folder" -name '*glxserver*' -o -name nvidia-settings)" ]
    [ -x "$output_folder/usr/bin/nvidia-smi" ]
    [ -x "$output_folder/usr/bin/nvidia-imex" ]
    [ -f "$output_folder/usr/lib/firmware/nvidia/$version/gsp_ga10x.bin" ]
    grep -qx "version=$version" "$output_folder/set.conf"
}

@test "fabric manager and nvlsm of archives beside it lie where they look for their files" {
    make_installer
    program "$tree/fm/bin/nv-fabricmanager" "$tree/nvlsm/opt/nvidia/nvlsm/sbin/nvlsm"
    mkdir -p "$tree/fm/share/nvidia/nvswitch" "$tree/fm/etc" "$tree/nvlsm/usr/share/nvidia/nvlsm"
    echo FABRIC_MODE=0 >"$tree/fm/etc/fabricmanager.cfg"
    echo topology >"$tree/fm/share/nvidia/nvswitch/topology"
    echo conf >"$tree/nvlsm/usr/share/nvidia/nvlsm/nvlsm.conf"
    library "$tree/fm/lib/libnvfm.so.1" libnvfm.so.1
    recipe 0
    [ -x "$output_folder/usr/bin/nv-fabricmanager" ]
    [ -f "$output_folder/usr/share/nvidia/nvswitch/fabricmanager.cfg" ]
    [ -f "$output_folder/usr/share/nvidia/nvswitch/topology" ]
    [ -x "$output_folder/opt/nvidia/nvlsm/sbin/nvlsm" ]
    [ -f "$output_folder/usr/share/nvidia/nvlsm/nvlsm.conf" ]
    [ -f "$output_folder/usr/lib/x86_64-linux-gnu/libnvfm.so.1" ]
}

# What the .manifest of an installer lists, in the forms that its types have (NVIDIA/nvidia-installer manifest.c).
make_manifest() {
    local file
    make_installer
    library "$tree/run/libnvidia-tls.so.$version" libnvidia-tls.so.$version
    library "$tree/run/libnvidia-egl-gbm.so.1.1.2" libnvidia-egl-gbm.so.1
    library "$tree/run/libnvidia-nvvm70.so.4" libnvidia-nvvm70.so.4
    library "$tree/run/libvdpau_nvidia.so.$version" libvdpau_nvidia.so.1
    library "$tree/run/libnvidia-allocator.so.$version" libnvidia-allocator.so.1
    program "$tree"/run/{nvidia-modprobe,nvidia-installer,nvidia-xconfig}
    mkdir -p "$tree/run/supported-gpus" "$tree/run/kernel-open"
    for file in nvidia_icd.json nvidia_layers.json 10_nvidia.json 15_nvidia_gbm.json nvidia.icd nvoptix.bin nvidia_drv.so \
        nvidia-application-profiles-$version-rc nvidia-drm-outputclass.conf README.txt nvidia-settings.desktop \
        nvidia-persistenced.service supported-gpus/supported-gpus.json kernel-open/Kbuild; do
        echo "$file" >"$tree/run/$file"
    done
    cat >"$tree/run/.manifest" <<MANIFEST
NVIDIA Accelerated Graphics Driver for Linux-x86_64
$version
ignored
nvidia nvidia-uvm nvidia-modeset nvidia-drm nvidia-peermem
ignored
ignored
ignored
ignored
libcuda.so.$version 0755 CUDA_LIB NATIVE . MODULE:cuda
libcuda.so.1 0000 CUDA_SYMLINK NATIVE . libcuda.so.$version MODULE:cuda
libcuda.so 0000 CUDA_SYMLINK NATIVE . libcuda.so.1 MODULE:cuda
32/libcuda.so.$version 0755 CUDA_LIB COMPAT32 . MODULE:cuda
32/libcuda.so.1 0000 CUDA_SYMLINK COMPAT32 . libcuda.so.$version MODULE:cuda
libnvidia-ml.so.$version 0755 UTILITY_LIB NATIVE MODULE:nvml
libnvidia-ml.so.1 0000 UTILITY_LIB_SYMLINK NATIVE libnvidia-ml.so.$version MODULE:nvml
libnvidia-cfg.so.$version 0755 UTILITY_LIB NATIVE MODULE:utils
libnvidia-eglcore.so.$version 0755 OPENGL_LIB NATIVE MODULE:egl
libnvidia-tls.so.$version 0755 TLS_LIB NATIVE . MODULE:opengl
libnvidia-egl-gbm.so.1.1.2 0755 OPENGL_LIB NATIVE MODULE:egl_platforms
libnvidia-egl-gbm.so.1 0000 OPENGL_SYMLINK NATIVE libnvidia-egl-gbm.so.1.1.2 MODULE:egl_platforms
libnvidia-nvvm70.so.4 0755 CUDA_LIB NATIVE . MODULE:compiler
libvdpau_nvidia.so.$version 0755 VDPAU_LIB NATIVE vdpau/ MODULE:vdpau
libvdpau_nvidia.so.1 0000 VDPAU_SYMLINK NATIVE vdpau/ libvdpau_nvidia.so.$version MODULE:vdpau
libnvidia-allocator.so.$version 0755 UTILITY_LIB NATIVE MODULE:gbm
nvidia-drm_gbm.so 0000 GBM_BACKEND_LIB_SYMLINK NATIVE libnvidia-allocator.so.1 MODULE:gbm
nvidia_drv.so 0755 XMODULE_SHARED_LIB drivers/ MODULE:x
libglxserver_nvidia.so.$version 0755 GLX_MODULE_SHARED_LIB extensions/ MODULE:x
libglxserver_nvidia.so 0000 GLX_MODULE_SYMLINK extensions/ libglxserver_nvidia.so.$version MODULE:x
nvidia-smi 0755 UTILITY_BINARY MODULE:nvml
nvidia-persistenced 0755 UTILITY_BINARY MODULE:persistenced
nvidia-xconfig 0755 UTILITY_BINARY MODULE:x
nvidia-modprobe 04755 NVIDIA_MODPROBE /usr/bin MODULE:base
nvidia-installer 0755 INSTALLER_BINARY MODULE:installer
nvidia-uninstall 0755 UTILITY_BIN_SYMLINK nvidia-installer MODULE:installer
nvidia_icd.json 0644 VULKAN_ICD_JSON icd.d/ MODULE:vulkan
nvidia_layers.json 0644 VULKAN_ICD_JSON implicit_layer.d/ MODULE:vulkan
10_nvidia.json 0644 GLVND_EGL_ICD_JSON MODULE:egl
15_nvidia_gbm.json 0644 EGL_EXTERNAL_PLATFORM_JSON MODULE:egl_platforms
nvidia.icd 0644 CUDA_ICD MODULE:opencl
nvoptix.bin 0444 EXPLICIT_PATH /usr/share/nvidia MODULE:optix
nvidia-application-profiles-$version-rc 0644 APPLICATION_PROFILE . MODULE:opengl
nvidia-drm-outputclass.conf 0644 XORG_OUTPUTCLASS_CONFIG MODULE:x
firmware/gsp_ga10x.bin 0644 FIRMWARE INHERIT_PATH_DEPTH:1 MODULE:gsp
README.txt 0644 DOCUMENTATION NVIDIA_GLX-1.0 MODULE:installer
supported-gpus/supported-gpus.json 0644 DOCUMENTATION NVIDIA_GLX-1.0/supported-gpus MODULE:installer
nvidia-settings.desktop 0644 DOT_DESKTOP . MODULE:settings
nvidia-persistenced.service 0644 SYSTEMD_UNIT MODULE:persistenced
kernel-open/Kbuild 0644 KERNEL_MODULE_SRC INHERIT_PATH_DEPTH:1 MODULE:kernel
MANIFEST
}

# What nvidia-container-toolkit 1.18 looks for in a driver root, of what that installer has (pkg/nvcdi/driver-nvml.go,
# internal/discover/graphics.go): below the folder of libcuda.so, /usr/share or /etc.
@test "an installer is arranged by its .manifest, where the container toolkit looks" {
    make_manifest
    recipe 0
    local libraries=usr/lib/x86_64-linux-gnu path
    for path in "$libraries"/{libcuda.so.$version,libcuda.so,libnvidia-ml.so.1,libnvidia-tls.so.$version,libnvidia-nvvm70.so.4} \
        "$libraries"/{libnvidia-egl-gbm.so.1.1.2,vdpau/libvdpau_nvidia.so.1,xorg/modules/drivers/nvidia_drv.so} \
        "$libraries"/xorg/modules/extensions/libglxserver_nvidia.so usr/bin/{nvidia-smi,nvidia-persistenced,nvidia-xconfig} \
        etc/vulkan/{icd.d/nvidia_icd.json,implicit_layer.d/nvidia_layers.json} etc/OpenCL/vendors/nvidia.icd \
        usr/share/{glvnd/egl_vendor.d/10_nvidia.json,egl/egl_external_platform.d/15_nvidia_gbm.json,nvidia/nvoptix.bin} \
        usr/share/{X11/xorg.conf.d/nvidia-drm-outputclass.conf,nvidia/nvidia-application-profiles-$version-rc} \
        usr/share/nvidia/supported-gpus.json "usr/lib/firmware/nvidia/$version/gsp_ga10x.bin"; do
        [ -f "$output_folder/$path" ] || { echo "not there: $path" && false; }
    done
    [ "$(readlink "$output_folder/$libraries/gbm/nvidia-drm_gbm.so")" = ../libnvidia-allocator.so.1 ]
    [ "$(stat -c %a "$output_folder/usr/bin/nvidia-modprobe")" = 755 ]
    # Of 32 bit nothing, and neither what a desktop, a manual or the installer itself is for.
    cmp "$output_folder/$libraries/libcuda.so.$version" "$tree/run/libcuda.so.$version"
    [ -z "$(find "$output_folder" -name 32 -o -name 'nvidia-installer' -o -name README.txt -o -name '*.desktop' \
        -o -name '*.service' -o -name Kbuild)" ]
}

@test "an installer that was cut short, or whose .manifest is damaged, is refused" {
    make_manifest
    rm "$tree/run/nvoptix.bin"
    recipe 1
    says "$tree/run has no nvoptix.bin, which its .manifest lists: unpack the installer again"
    make_manifest
    sed -i 's/^\(10_nvidia.json\) 0644/\1/' "$tree/run/.manifest"
    recipe 1
    says "$tree/run/.manifest: line " "is no entry of a file: 10_nvidia.json GLVND_EGL_ICD_JSON"
    make_manifest
    sed -i 2s/.*/570.1/ "$tree/run/.manifest"
    recipe 1
    says "$tree/run/.manifest is of driver 570.1, the libraries are of $version"
    make_manifest
    sed -i 's|EXPLICIT_PATH /usr/share/nvidia|EXPLICIT_PATH /usr/../../etc|' "$tree/run/.manifest"
    recipe 1
    says "nvoptix.bin would go to usr/../../etc: no installer's"
    make_manifest
    echo "../../../etc/passwd 0755 UTILITY_BINARY MODULE:x" >>"$tree/run/.manifest"
    recipe 1
    says "../../../etc/passwd would go to usr/bin: no installer's"
    make_manifest
    sed -i '10,$d' "$tree/run/.manifest"
    recipe 1
    says "the userspace folder has no libnvidia-ml.so.$version"
}

# package NAME VERSION PATH…: a .deb with these files, below $tree; a library is one, what else has its path as its text.
package() {
    local root=$BATS_TEST_TMPDIR/deb/$1 path
    for path in "${@:3}"; do
        case $path in
        *.so.*) library "$root/$path" "$(basename "${path%.so.*}").so.1" ;;
        *.gz) mkdir -p "$root/$(dirname "$path")" && gzip -c <<<"$path" >"$root/$path" ;;
        *) mkdir -p "$root/$(dirname "$path")" && echo "$path" >"$root/$path" ;;
        esac
    done
    mkdir -p "$root/DEBIAN"
    printf 'Package: %s\nVersion: %s\nArchitecture: amd64\nMaintainer: none\nDescription: none\n' "$1" "$2" >"$root/DEBIAN/control"
    dpkg-deb --build --root-owner-group "$root" "$tree/$1_$2_amd64.deb" >/dev/null
}

@test "of Debian's packages: what they keep behind alternatives lies where the container toolkit looks" {
    local current=usr/lib/x86_64-linux-gnu/nvidia/current libraries=usr/lib/x86_64-linux-gnu path
    package nvidia-smi $version-1 usr/lib/nvidia/current/nvidia-smi
    package libnvidia-ml1 $version-1 $current/libnvidia-ml.so.$version
    package firmware-nvidia-gsp $version-1 lib/firmware/nvidia/$version/gsp_ga10x.bin
    recipe 1
    says "the packages hold no libcuda.so.$version"
    package libcuda1 $version-1 $current/libcuda.so.$version
    package libnvoptix1 $version-1 $current/nvoptix.bin $current/libnvoptix.so.$version
    package nvidia-egl-common $version-1 usr/share/glvnd/egl_vendor.d/10_nvidia.json
    package nvidia-driver $version-1 usr/share/doc/nvidia-driver/supported-gpus.json.gz
    package nvidia-persistenced 1.2-3 usr/bin/nvidia-persistenced etc/init.d/nvidia-persistenced
    package libnvidia-egl-gbm1 1.1-2 $libraries/libnvidia-egl-gbm.so.1.1.0 usr/share/egl/egl_external_platform.d/15_nvidia_gbm.json
    recipe 0
    for path in $libraries/lib{cuda,nvidia-ml,nvoptix}.so.$version $libraries/libnvidia-egl-gbm.so.1.1.0 usr/bin/nvidia-smi \
        usr/share/{nvidia/nvoptix.bin,nvidia/supported-gpus.json,glvnd/egl_vendor.d/10_nvidia.json} \
        usr/share/egl/egl_external_platform.d/15_nvidia_gbm.json usr/lib/firmware/nvidia/$version/gsp_ga10x.bin; do
        [ -f "$output_folder/$path" ] || { echo "not there: $path" && false; }
    done
    grep -qx usr/bin/nvidia-persistenced "$output_folder/usr/bin/nvidia-persistenced"
    package libcuda1 535.9.9-1 $current/libcuda.so.535.9.9
    recipe 1
    says "libcuda1_535.9.9-1_amd64.deb is of version 535.9.9-1, not of driver $version"
}

@test "the lists of Debian's releases that are kept have every package of the userspace" {
    local os name prefix keeps
    for os in debian12 debiansid; do
        keeps=$(sed -n '/^keep = /,/^[a-z_]* =/{s/^keep = //; /=/d; p}' "$repository/kernels/catalogue/$os.ini")
        [ -n "$keeps" ]
        while read -r name; do
            for prefix in $keeps none; do
                if [[ $name == "$prefix"* ]]; then break; fi
            done
            [ "$prefix" != none ] || { echo "$os.ini keeps no $name" && false; }
        done < <(sed '/^#/d; s/^[?+]//' "$repository/containers/recipes/userspace.packages")
    done
}

@test "a folder that cannot serve is refused with what it lacks" {
    make_installer
    rm "$tree/run/nvidia-smi"
    recipe 1
    says "no nvidia-smi: unpack the installer there"
    make_installer
    rm -r "$tree/run/firmware"
    recipe 1
    says "no firmware/*.bin"
    make_installer
    library "$tree/older/libnvidia-ml.so.470.1.1" libnvidia-ml.so.1
    recipe 1
    says "several drivers" "libnvidia-ml.so.470.1.1 libnvidia-ml.so.$version"
    rm -r "$tree"
    mkdir "$tree"
    recipe 1
    says "neither libnvidia-ml.so.* of an installer nor Debian's"
}

@test "sources that are none are refused before anything is fetched" {
    run_slipway 6 build --kernel newest --gdrcopy "$tree"
    says "not a source of GDRCopy: it has no src/gdrdrv/gdrdrv.c"
    run_slipway 6 build --kernel newest --nvidia-fs "$tree"
    says "not a source of nvidia-fs: it has no src/nvfs-core.c"
    run_slipway 6 build --kernel newest --nvidia-fs "$tree/nowhere"
    says "--nvidia-fs $tree/nowhere: No such file or directory" "try: its source tree or a tarball of it"
    run_slipway 2 build --kernel newest --ofed reference --nvidia none --gdrcopy "$tree"
    says "--gdrcopy applies only to NVIDIA's kernel modules, which this build does not include" "try: leave out --gdrcopy"
    run_slipway 2 build --kernel newest --ofed reference --nvidia none --kernel-module-type open
    says "--kernel-module-type applies only to NVIDIA's kernel modules, which this build does not include"
    run_slipway 2 build --kernel newest --verify-configure
    says "--verify-configure applies only to OFED, which this build does not include"
    run_slipway 2 build --kernel newest --nfsrdma
    says "--nfsrdma applies only to OFED, which this build does not include"
    run_slipway 2 build --kernel newest --ofed reference --nfsrdma
    says "--nfsrdma: the reference OFED has no NFS and NVMe over RDMA"
    run_slipway 2 build --kernel newest --ofed reference --ofed-flag=with-gds
    says "--ofed-flag with-gds: not an option of OFED's configure" "try: --ofed-flag=--with-sf-cfg-drv"
    run_slipway 2 bundle -o x newest --ofed reference --nvidia none --kernel-module-type open
    says "--kernel-module-type applies only to NVIDIA's kernel modules, which this build does not include"
    run_slipway 2 bundle -o x newest --nvidia "$tree" --kernel-module-type open
    says "--kernel-module-type applies only to Debian's packages" "try: give it to slipway build --bundle instead"
}

# refused TEXT…: --userspace "$tree" is no source, and nothing was asked or made.
refused() {
    run_slipway 6 build --kernel newest --userspace "$tree"
    says "$@"
    [[ $output != *resolve* ]]
    [ -z "$(ls -A "$BATS_TEST_TMPDIR/cache/stages")" ]
}

@test "a --userspace that no installer has unpacked is refused before anything is fetched or compiled" {
    run_slipway 6 build --kernel newest --userspace /nope
    says "--userspace /nope: No such file or directory" "try: the folder that NVIDIA's installer unpacks (sh NVIDIA-Linux-….run -x)"
    [[ $output != *tarball* ]]
    touch "$tree/installer.run"
    run_slipway 6 build --kernel newest --userspace "$tree/installer.run"
    says "--userspace $tree/installer.run: not a folder" "try: the folder that NVIDIA's installer unpacks"
    rm "$tree/installer.run"
    refused "no libnvidia-ml.so.* below $tree" "try: the folder that NVIDIA's installer unpacks (sh NVIDIA-Linux-….run -x)"
    run_slipway 6 build --kernel newest --userspace /etc/apt
    says "no libnvidia-ml.so.* below /etc/apt"
    # The libraries of 32 bit alone are none.
    library "$tree/32/libnvidia-ml.so.$version" libnvidia-ml.so.1
    refused "no libnvidia-ml.so.* below $tree"
    library "$tree/libnvidia-ml.so.$version" libnvidia-ml.so.1
    refused "driver $version is incomplete: it has no libcuda.so of that version"
    make_installer
    rm "$tree/libnvidia-ml.so.$version" "$tree/run/nvidia-smi"
    refused "driver $version is incomplete: it has no nvidia-smi"
    make_installer
    rm "$tree/run/firmware/gsp_ga10x.bin"
    refused "driver $version is incomplete: it has no firmware/*.bin"
    make_installer
    library "$tree/older/libnvidia-ml.so.470.1.1" libnvidia-ml.so.1
    refused "contains several driver versions: 470.1.1, $version"
}

# own OPTION…: a build for a kernel of one's own with the installer's folder, which never comes to an image here.
own() {
    load kernel-from
    [ -d "$BATS_TEST_TMPDIR/root" ] || make_root "$BATS_TEST_TMPDIR/root" 6.6.9-own1
    run_slipway "$1" build --os debian12 --offline --kernel-from "$BATS_TEST_TMPDIR/root" --userspace "$tree" "${@:2}"
}

@test "a userspace of another version than the modules' source is refused before anything is compiled" {
    make_installer
    local nvidia=$BATS_TEST_TMPDIR/nvidia
    mkdir -p "$nvidia/kernel-open"
    printf 'ccflags-y += -DNV_VERSION_STRING=\\"535.9.9\\"\n' >"$nvidia/kernel-open/Kbuild"
    own 6 --nvidia "$nvidia"
    says "it is from driver $version, but the modules of --nvidia are from 535.9.9" "give the folder of installer version 535.9.9"
    touch "$nvidia/README"
    tar -C "$nvidia" -cf "$BATS_TEST_TMPDIR/nvidia.tar" .
    own 6 --nvidia "$BATS_TEST_TMPDIR/nvidia.tar"
    says "it is from driver $version, but the modules of --nvidia are from 535.9.9"
    [ -z "$(find "$BATS_TEST_TMPDIR/cache/stages" -mindepth 1 -maxdepth 1 ! -name 'nvidia-source-*')" ]
    # Of the same version the build goes on, to where it needs what --offline keeps from it.
    sed -i "s/535.9.9/$version/" "$nvidia/kernel-open/Kbuild"
    own 21 --nvidia "$nvidia" --force
    [[ $output != *"they work together"* ]]
    tree=/etc/apt own 6 --nvidia "$nvidia" --force
}

# debian_driver VERSION PACKAGE…: a repository with a kernel, the modules' source and these packages of the driver.
debian_driver() {
    local name
    load repository
    make_repository
    add_kernel 6.1.0-56-amd64
    add_package linux-compiler-gcc-12-x86 gcc-12
    for name in nvidia-open-kernel-source "${@:2}"; do
        VERSION=$1-1 SOURCE=nvidia add_package "$name"
    done
    publish
    update_system
}

@test "Debian's version is the lock's, and a userspace of another is refused" {
    make_installer
    debian_driver 535.9.9
    run_slipway 6 build --kernel newest --userspace "$tree"
    says "it is from driver $version, but the modules of --nvidia are from 535.9.9"
    [ -z "$(ls -A "$BATS_TEST_TMPDIR/cache/stages")" ]
}

@test "what the GPU image lacks of the userspace is said" {
    # shellcheck disable=SC2046
    debian_driver 535.9.9 $(sed '/^[#+?]/d' "$repository/containers/recipes/userspace.packages") libtirpc3t64 libtirpc-common \
        nvidia-modprobe libnvidia-egl-gbm1 libnvidia-egl-wayland1 libgssapi-krb5-2 libkrb5-3 libk5crypto3 libkrb5support0 libcom-err2
    run_slipway 12 build --kernel newest
    says "debian12 has no nvidia-persistenced, libkeyutils1: left out of the GPU image's userspace" \
        "branch 535 (long-term support) of NVIDIA's driver reached its end of life in June 2026; 535.9.9 is too old for the DRA driver" \
        "Blackwell GPUs (570), ComputeDomains (570.158.01); --nvidia takes NVIDIA's installer of a current one"
    # No archive goes with a driver of another version, and none would make up for the driver's age.
    [[ $output != *"no nvidia-imex"* ]]
}

@test "a GPU image without any userspace, which no node would have ready, is made by --force only" {
    make_root "$BATS_TEST_TMPDIR/root" 6.6.9-own1
    make_gpu_sources
    printf 'ccflags-y += -DNV_VERSION_STRING=\\"1.0\\"\n' >"$BATS_TEST_TMPDIR/nvidia/kernel-open/Kbuild"
    # What goes on ends at the base images: no mirror is known.
    stub_programs
    local build=("${as_root[@]}" env PATH="$stubs" SLIPWAY_DATADIR="$repository" SLIPWAY_CACHE="$BATS_TEST_TMPDIR/cache" SLIPWAY_MIRRORS=/dev/null
        "$SLIPWAY" build --os debian12 --kernel-from "$BATS_TEST_TMPDIR/root" --nvidia "$BATS_TEST_TMPDIR/nvidia")
    run -6 "${build[@]}"
    says "no nvidia-smi, libraries and firmware of the modules' version, 1.0: the GPU image would load the modules but never become ready" \
        "try: --userspace: give the folder that NVIDIA's installer unpacks" "no --ofed: no NIC image will be built"
    run -25 "${build[@]}" --force
    says "never become ready"
    run -25 "${build[@]}" --userspace "$BATS_TEST_TMPDIR/userspace"
    [[ $output != *"never become ready"* ]]
}
