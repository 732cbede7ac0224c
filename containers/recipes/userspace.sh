#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Recipe: the userspace driver and the firmware of exactly the version of the kernel modules. $SLIPWAY_SOURCE is one of
# - a folder of Debian's packages (.deb, fetched and checked before);
# - a folder in which NVIDIA's installer was unpacked (NVIDIA-….run -x), arranged by its own list, .manifest, and beside
#   it or below it what of the archives of fabric manager, IMEX, NSCQ and nvlsm the image is to have, known by their
#   names (build --userspace, whose names cli/stage/userspace.c looks for before anything is compiled). NVIDIA's archive
#   of the driver (nvidia_driver-linux-….tar.xz), which has no .manifest, is known by names as well.
# What a node wants of a driver is what the container toolkit looks for in a driver root (NVIDIA/nvidia-container-toolkit
# pkg/nvcdi/driver-nvml.go, internal/discover/graphics.go).
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"

mapfile -t packages < <(sed '/^[#+]/d; s/^?//' "$(dirname "$(readlink -f "$0")")/userspace.packages")
libraries=usr/lib/$SLIPWAY_ARCH-linux-gnu
# $SLIPWAY_BESIDE: the archives of build --imex and --fabricmanager, each unpacked in a folder of its own; or empty.
archives=(${SLIPWAY_BESIDE:+"$SLIPWAY_BESIDE"})

# Is package $1 one that has to be of the driver's version?
is_driver_package() {
    local name
    for name in "${packages[@]}"; do
        [[ $name != "$1" ]] || return 0
    done
    return 1
}

# Unpacks the packages in folder $1, those of other versions than the driver's apart; sets unpacked to what they are.
unpack() {
    local file found name root
    unpacked=()
    for file in "$1"/*.deb; do
        found=$(dpkg-deb --field "$file" Version)
        name=$(dpkg-deb --field "$file" Package)
        root=$SLIPWAY_WORK/beside
        if is_driver_package "$name"; then
            root=$SLIPWAY_WORK/root
            [[ ${found#*:} == "$driver"-* ]] || die "${file##*/} is of version $found, not of driver $driver"
        fi
        unpacked+=("$name=$found")
        dpkg-deb --extract "$file" "$root"
    done
}

# place_libraries FIND-EXPRESSION…: everything of this version that programs link; not what the X server loads. The names
# that programs link (SONAME) become links in slipway, which reads them (cli/stage/userspace.c).
place_libraries() {
    local folder=$SLIPWAY_OUTPUT/$libraries file
    mkdir -p "$folder"
    while IFS= read -r -d '' file; do
        install -m 644 -t "$folder" "$file"
    done < <(find "$@" -type f \( -name "lib*.so.$driver" -o -name 'libnvfm.so.*' \) \
        -not -name 'libglxserver*' -not -path '*/32/*' -print0 | LC_ALL=C sort -z)
}

# place_programs FOLDER…: nvidia-imex is for those who ask for it by name: nothing here starts it. None of them is set-uid
# in the image: those who start nvidia-modprobe there are root.
place_programs() {
    local name file
    for name in nvidia-smi nvidia-debugdump nvidia-persistenced nvidia-modprobe nvidia-cuda-mps-control \
        nvidia-cuda-mps-server nvidia-imex nvidia-imex-ctl nv-fabricmanager nvswitch-audit nvidia-gridd nvidia-topologyd; do
        file=$(find "$@" -type f -name "$name" -not -path '*/32/*' -not -path '*/etc/*' -not -path '*/share/*' |
            LC_ALL=C sort | head -n 1)
        [[ -n $file ]] || continue
        install -D -m 755 -t "$SLIPWAY_OUTPUT/usr/bin" "$file"
        programs+=("$name")
    done
}

# expect_driver WHOSE HINT: without these no node becomes ready. Some programs open libcuda.so by that name.
expect_driver() {
    local name
    for name in libnvidia-ml libcuda; do
        [[ -e $SLIPWAY_OUTPUT/$libraries/$name.so.$driver ]] || die "$1 no $name.so.$driver"
    done
    ln -sfn libcuda.so.1 "$SLIPWAY_OUTPUT/$libraries/libcuda.so"
    [[ -f $SLIPWAY_OUTPUT/usr/bin/nvidia-smi ]] || die "$1 no nvidia-smi$2"
    [[ ${SLIPWAY_KERNEL_MODULE_TYPE-} == proprietary || -n $(ls -A "$SLIPWAY_OUTPUT/usr/lib/firmware/nvidia/$driver") ]] ||
        die "$1 no firmware/*.bin of $driver: the open modules start no GPU without it"
}

# place_found NAME FOLDER: the file of that name among the unpacked packages, where they have it, into FOLDER of the set.
place_found() {
    local found
    found=$(find "$SLIPWAY_WORK/root" -type f -name "$1" | LC_ALL=C sort | head -n 1)
    [[ -z $found ]] || install -D -m 644 -t "$SLIPWAY_OUTPUT/$2" "$found"
}

# Debian keeps each driver in a folder of its own behind alternatives; what looks for a driver root wants other places.
arrange() {
    local firmware=$SLIPWAY_OUTPUT/usr/lib/firmware/nvidia/$driver beside=$SLIPWAY_WORK/beside folder name
    mkdir -p "$beside" "$firmware"
    place_libraries "$SLIPWAY_WORK/root" "${archives[@]}"
    place_programs "$SLIPWAY_WORK" "${archives[@]}"
    ((${#archives[@]} == 0)) || place_fabric "${archives[@]}"
    for name in nvidia-imex nv-fabricmanager; do
        [[ ! -x $SLIPWAY_OUTPUT/usr/bin/$name ]] || unpacked+=("$name=$driver")
    done
    find "$SLIPWAY_WORK/root" -type f -path "*/firmware/nvidia/$driver/*.bin" -exec install -m 644 -t "$firmware" {} +
    expect_driver "the packages hold" ""
    # The files by which the loaders of OpenCL, EGL and Vulkan find a driver.
    for folder in etc/OpenCL usr/share/glvnd usr/share/vulkan usr/share/egl; do
        mkdir -p "$SLIPWAY_OUTPUT/$folder"
        find "$SLIPWAY_WORK/root/$folder" "$beside/$folder" -mindepth 1 -maxdepth 1 \
            -exec cp -r -t "$SLIPWAY_OUTPUT/$folder" {} + 2>/dev/null || true
    done
    place_found nvoptix.bin usr/share/nvidia
    place_found nvidia_drv.so "$libraries/xorg/modules/drivers"
    place_found "libglxserver_nvidia.so.$driver" "$libraries/xorg/modules/extensions"
    place_found nvidia-drm-outputclass.conf usr/share/X11/xorg.conf.d
    place_found supported-gpus.json.gz usr/share/nvidia
    gunzip -f "$SLIPWAY_OUTPUT"/usr/share/nvidia/supported-gpus.json.gz 2>/dev/null || true
    # Libraries of packages with versions of their own: what nvidia-persistenced links, and EGL's platforms. They are
    # of before and after the merge of /lib into /usr.
    find "$beside" -path "*/lib/$SLIPWAY_ARCH-linux-gnu/lib*.so.*" -exec cp -a -t "$SLIPWAY_OUTPUT/$libraries" {} +
    # libtirpc opens no socket without it.
    [[ ! -f $beside/etc/netconfig ]] || install -D -m 644 -t "$SLIPWAY_OUTPUT/etc" "$beside/etc/netconfig"
}

# Sets driver by the name of the library that whatever asks for a driver's version reads it from.
installer_version() {
    local found
    found=$(find "$SLIPWAY_SOURCE" -name 'libnvidia-ml.so.*.*' -not -path '*/32/*' -printf '%f\n' | LC_ALL=C sort -u)
    [[ $found != *$'\n'* ]] || die "there are several drivers in the userspace folder: ${found//$'\n'/ }"
    driver=${found#libnvidia-ml.so.}
}

# What stands in a line of .manifest: a file, its mode, its type, for some types NATIVE or COMPAT32, for some a path below
# the type's folder, and for a link its target. Source: NVIDIA/nvidia-installer (590.48.01) install-from-cwd.c
# parse_manifest(), the types in manifest.c, their folders in files.c set_destinations().
# place_entry FILE MODE TYPE [WORD…]
place_entry() {
    local file=$1 mode=$2 type=$3 folder target=
    shift 3
    [[ ${1-} != COMPAT32 ]] || return 0
    [[ ${1-} != NATIVE ]] || shift
    case $type in
    OPENGL_LIB | OPENGL_SYMLINK | GLVND_LIB | GLVND_SYMLINK | GLX_CLIENT_* | EGL_CLIENT_* | UTILITY_LIB* | NVCUVID_LIB* | \
        ENCODEAPI_LIB* | VGX_LIB*) folder=$libraries ;;
    CUDA_LIB | CUDA_SYMLINK | OPENCL_* | TLS_LIB | VDPAU_* | GRID_LIB* | FLEXERA_LIB*) folder=$libraries/$1 && shift ;;
    GBM_BACKEND_LIB) folder=$libraries/gbm ;;
    GBM_BACKEND_LIB_SYMLINK) folder=$libraries/gbm && set -- "../$1" ;;
    XMODULE_SHARED_LIB | GLX_MODULE_*) folder=$libraries/xorg/modules/$1 && shift ;;
    XORG_OUTPUTCLASS_CONFIG) folder=usr/share/X11/xorg.conf.d ;;
    UTILITY_BINARY | UTILITY_BIN_SYMLINK | NVIDIA_MODPROBE) folder=usr/bin ;;
    CUDA_ICD) folder=etc/OpenCL/vendors ;;
    VULKAN_ICD_JSON) folder=etc/vulkan/$1 ;;
    VULKANSC_ICD_JSON) folder=etc/vulkansc/$1 ;;
    GLVND_EGL_ICD_JSON) folder=usr/share/glvnd/egl_vendor.d ;;
    EGL_EXTERNAL_PLATFORM_JSON) folder=usr/share/egl/egl_external_platform.d ;;
    OPENGL_DATA | EXPLICIT_PATH) folder=${1#/} ;;
    APPLICATION_PROFILE) folder=usr/share/nvidia ;;
    SANDBOXUTILS_FILELIST_JSON) folder=usr/share/nvidia/files.d ;;
    FIRMWARE) folder=usr/lib/firmware/nvidia/$driver ;;
    # The driver's own list of GPUs; else sources of modules, manuals, the desktop's files, the installer itself.
    *) if [[ $file != */supported-gpus.json ]]; then return 0; fi && folder=usr/share/nvidia ;;
    esac
    # Both stay below their folders.
    [[ /$folder/$file/ != */../* && $file != /* ]] || die "$installer/.manifest: $file would go to $folder: no installer's"
    mkdir -p "$SLIPWAY_OUTPUT/$folder"
    case $type in
    *SYMLINK) target=${1:?$installer/.manifest: $file has no target} && ln -sfn "$target" "$SLIPWAY_OUTPUT/$folder/${file##*/}" ;;
    *)
        [[ -f $installer/$file ]] ||
            die "$installer has no $file, which its .manifest lists: unpack the installer again (sh NVIDIA-Linux-$SLIPWAY_ARCH-$driver.run -x)"
        # Nothing is set-uid in the image: those who start nvidia-modprobe there are root.
        install -m "0${mode: -3}" -t "$SLIPWAY_OUTPUT/$folder" "$installer/$file"
        ;;
    esac
}

# The first line describes the package, the second is its version, and the files begin with the ninth.
place_manifest() {
    local line number=0 words shown
    [[ -f $installer/.manifest ]] || die "$installer/.manifest is no file: unpack the installer again"
    while IFS= read -r line || [[ -n $line ]]; do
        number=$((number + 1))
        shown=${line//[^[:print:]]/?}
        if ((number == 2)) && [[ $line != "$driver" ]]; then
            die "$installer/.manifest is of driver ${shown:0:40}, the libraries are of $driver"
        fi
        ((number > 8)) || continue
        read -r -a words <<<"$line"
        ((${#words[@]})) || break
        [[ ${words[1]-} =~ ^[0-7]{3,5}$ && -n ${words[2]-} ]] ||
            die "$installer/.manifest: line $number is no entry of a file: ${shown:0:80}"
        place_entry "${words[@]}"
    done <"$installer/.manifest"
}

# place_fabric FOLDER…: the folders that fabric manager and nvlsm read, where they look for them.
place_fabric() {
    local from
    from=$(find "$@" -type d -path '*/share/nvidia/nvswitch' | head -n 1)
    [[ -z $from ]] || { mkdir -p "$SLIPWAY_OUTPUT/usr/share/nvidia" && cp -r "$from" "$SLIPWAY_OUTPUT/usr/share/nvidia/"; }
    from=$(find "$@" -type f -name fabricmanager.cfg | head -n 1)
    [[ -z $from ]] || install -D -m 644 -t "$SLIPWAY_OUTPUT/usr/share/nvidia/nvswitch" "$from"
    from=$(find "$@" -type f -path '*/sbin/nvlsm' | head -n 1)
    [[ -n $from ]] || return 0
    mkdir -p "$SLIPWAY_OUTPUT/opt/nvidia"
    cp -r "${from%/sbin/nvlsm}" "$SLIPWAY_OUTPUT/opt/nvidia/nvlsm"
    chmod 755 "$SLIPWAY_OUTPUT/opt/nvidia/nvlsm/sbin/nvlsm"
    programs+=(nvlsm)
    from=$(find "$@" -type d -path '*/share/nvidia/nvlsm' | head -n 1)
    [[ -z $from ]] || { mkdir -p "$SLIPWAY_OUTPUT/usr/share/nvidia" && cp -r "$from" "$SLIPWAY_OUTPUT/usr/share/nvidia/"; }
}

from_installer() {
    local firmware=$SLIPWAY_OUTPUT/usr/lib/firmware/nvidia/$driver outside=()
    programs=()
    step "arrange driver $driver of NVIDIA's installer"
    installer=$(find "$SLIPWAY_SOURCE" -name .manifest -printf '%h\n' | LC_ALL=C sort | head -n 1)
    [[ -z $installer ]] || outside=(-path "$installer" -prune -o)
    place_programs "$SLIPWAY_SOURCE" "${archives[@]}"
    place_libraries "$SLIPWAY_SOURCE" "${archives[@]}" "${outside[@]}"
    place_fabric "$SLIPWAY_SOURCE" "${archives[@]}"
    mkdir -p "$firmware"
    find "$SLIPWAY_SOURCE" -type f -path '*/firmware/*' -name '*.bin' -exec install -m 644 -t "$firmware" {} +
    [[ -z $installer ]] || place_manifest
    expect_driver "the userspace folder has" ": unpack the installer there (sh NVIDIA-Linux-$SLIPWAY_ARCH-$driver.run -x)"
    set_conf source=userspace "version=$driver" "packages=${programs[*]}"
    settle_output
    step "userspace $driver, $(du -sk "$SLIPWAY_OUTPUT" | cut -f1) KiB: ${programs[*]}"
}

# bash reads a script while it runs it: in a function, all of it is read before the first step.
main() {
    require_inputs
    installer_version
    if [[ -n $driver ]]; then
        from_installer
        return
    fi
    compgen -G "$SLIPWAY_SOURCE/nvidia-smi_*.deb" >/dev/null ||
        die "neither libnvidia-ml.so.* of an installer nor Debian's nvidia-smi_*.deb in the source"
    packaged=$(dpkg-deb --field "$SLIPWAY_SOURCE"/nvidia-smi_*.deb Version)
    driver=${packaged#*:}
    driver=${driver%-*}
    programs=()
    step "arrange driver $driver"
    unpack "$SLIPWAY_SOURCE"
    arrange
    set_conf source=userspace "version=$driver" "packages=${unpacked[*]}"
    settle_output
    step "userspace $driver, $(du -sk "$SLIPWAY_OUTPUT" | cut -f1) KiB"
}

main; exit
