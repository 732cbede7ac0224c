# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# Kernels for worlds: one kernel, Debian's or one that was compiled here, under another distribution's names.
#   kernel_from_debian FOLDER     Debian's newest kernel: FOLDER/{tree,modules,boot}
#   kernel_rename FOLDER KREL COMPILER NUMBER
#                                 gives it the name KREL, and COMPILER as what it was compiled with: what
#                                 CONFIG_CC_VERSION_TEXT says (before Linux 4.18 nothing: "") and CONFIG_GCC_VERSION
#   kernel_rpms STYLE FOLDER KREL VERSION RELEASE OUT
#                                 packs it as the styles below have it
#   kernel_debs FOLDER KREL SOURCE SHARED VERSION OUT
#                                 as Ubuntu's, of the source package SOURCE; the package SHARED has the headers that
#                                 flavours share
#   FOLDER/tree     what kernel-devel has: a tree that modules are compiled in, whole
#   FOLDER/modules  what /lib/modules/KREL has, uncompressed
#   FOLDER/boot     vmlinuz and System.map, where the kernel can be booted under its name

# ---- what there is to pack

# What a distribution's packages do with a tree, Debian has in three packages and with links between them.
kernel_from_debian() {
    local to=$1 version work=$1/work common flavour kbuild
    version=$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: linux-image-//p')
    [[ -n $version ]] || die "apt knows no linux-image-amd64: run apt-get update"
    mkdir -p "$to/tree/arch" "$to/tree/include" "$to/boot" "$work"
    local name packages=("linux-headers-$version" "linux-headers-${version%-amd64}-common" "linux-image-$version" linux-kbuild-6.1)
    download_debs "${packages[@]}"
    # Most of the modules are of no use here: not even unpacked.
    for name in "${packages[@]}"; do
        dpkg-deb --fsys-tarfile "$cache/debs/$name"_*.deb | tar -x -C "$work" --exclude='*/kernel/sound' --exclude='*/net/wireless' \
            --exclude='*/drivers/'{'media/[!cr]*',staging,usb,iio,hid,input,hwmon,mtd,isdn} --exclude='*/drm/'{amd,i915,radeon} \
            --exclude='*/fs/'{btrfs,xfs,ocfs2,smb,ceph,f2fs,jfs,reiserfs}
    done
    common=$work/usr/src/linux-headers-${version%-amd64}-common flavour=$work/usr/src/linux-headers-$version kbuild=$work/usr/lib/linux-kbuild-6.1
    cp -a "$common"/{Makefile,include} "$to/tree/"
    cp -a "$common"/arch/{Kconfig,x86} "$to/tree/arch/" 2>/dev/null || cp -a "$common/arch/x86" "$to/tree/arch/"
    cp -a "$flavour"/{.config,Module.symvers,include} "$to/tree/"
    cp -a "$flavour/arch/x86" "$to/tree/arch/"
    cp -aL "$kbuild"/{scripts,tools,certs} "$to/tree/"
    # Where other distributions have it, and their Makefile looks.
    mv "$to/tree/arch/x86/module.lds" "$to/tree/scripts/"
    # Debian's own ways to say and to compare the compiler.
    # shellcheck disable=SC2016 # make's
    sed -i '/kernelvariables/d; s/\[ -z "$(DEBIAN_KERNEL_NO_CC_VERSION_CHECK)" \] && //' "$to/tree/Makefile"
    kernel_choose_modules "$work/lib/modules/$version" "$to/modules"
    rm -rf "$work"
}

# kernel_choose_modules FROM TO: the modules of kernel-modules.txt with what they depend on, and the lists.
kernel_choose_modules() {
    local from=$1 to=$2 name path
    local -A path_of=() wanted=()
    local todo=()
    while read -r path; do
        name=${path##*/} name=${name%.ko}
        path_of[${name//-/_}]=$path
    done < <(cd "$from" && find kernel -name '*.ko')
    mapfile -t todo < <(sed 's/#.*//' "$here/kernel-modules.txt" | tr -s ' ' '\n' | sed '/^$/d; s/-/_/g')
    while ((${#todo[@]})); do
        name=${todo[0]} todo=("${todo[@]:1}")
        [[ -z ${wanted[$name]:-} ]] || continue
        [[ -n ${path_of[$name]:-} ]] || die "Debian's kernel has no module $name, or kernel.bash does not unpack it"
        wanted[$name]=1
        mapfile -t -O "${#todo[@]}" todo < <(modinfo -F depends "$from/${path_of[$name]}" | tr , '\n' | sed '/^$/d; s/-/_/g')
    done
    mkdir -p "$to"
    for name in "${!wanted[@]}"; do
        (cd "$from" && cp --parents "${path_of[$name]}" "$to/")
    done
    cp "$from"/modules.builtin{,.modinfo} "$to/"
    (cd "$to" && find kernel -name '*.ko') | grep -xFf - "$from/modules.order" >"$to/modules.order"
}

kernel_rename() {
    local folder=$1 krel=$2 compiler=$3 number=$4 tree=$1/tree old module settings
    old=$(sed -n 's/.*UTS_RELEASE "\(.*\)"/\1/p' "$tree/include/generated/utsrelease.h")
    # The files are links to those of other names: each is made anew.
    rm "$tree"/include/{generated/utsrelease.h,config/kernel.release}
    printf '#define UTS_RELEASE "%s"\n' "$krel" >"$tree/include/generated/utsrelease.h"
    echo "$krel" >"$tree/include/config/kernel.release"
    settings=("$tree/.config" "$tree/include/config/auto.conf" "$tree/include/generated/autoconf.h")
    if [[ -n $compiler ]]; then
        sed -i -E "s/(CONFIG_CC_VERSION_TEXT[ =]).*/\1\"$compiler\"/" "${settings[@]}"
        sed -i 's/^\(CONFIG_CC_VERSION_TEXT=\)"\(.*\)"/\1\2/' "${settings[1]}"
    else # this source looks for the number nevertheless
        sed -i '/CONFIG_CC_VERSION_TEXT\>/d' "${settings[@]}"
        sed -i '/CONFIG_GCC_VERSION\>/d' "${settings[@]:0:2}"
    fi
    sed -i -E "s/(CONFIG_GCC_VERSION[ =]).*/\1$number/" "${settings[@]}"
    sed -i "s/\(LINUX_COMPILER \).*/\1\"$compiler\"/" "$tree/include/generated/compile.h"
    # gcc 11 does not know -ftrivial-auto-var-init.
    ((number >= 120000 || number < 110000)) || sed -i -E '/CONFIG_(INIT_STACK_ALL_ZERO|CC_HAS_AUTO_VAR_INIT_\w+)\>/d' "${settings[@]}"
    [[ $old != "$krel" ]] || return 0
    [[ -z $(ls "$folder/boot") ]] || die "the kernel that can be booted is called $old"
    # The signature goes, too: it is of the old name.
    while read -r module; do
        objcopy --dump-section .modinfo="$folder/modinfo" "$module"
        sed -i -z "s/^vermagic=[^ ]*/vermagic=$krel/" "$folder/modinfo"
        objcopy --update-section .modinfo="$folder/modinfo" "$module"
    done < <(find "$folder/modules/kernel" -name '*.ko')
    rm -f "$folder/modinfo"
}

# kernel_compress MODULES xz|zst
kernel_compress() {
    case $2 in
        xz) find "$1" -name '*.ko' -exec xz -T1 -1 --check=crc32 {} + ;;
        zst) find "$1" -name '*.ko' -exec zstd -q -1 --rm {} + ;;
    esac
}

# ---- RPMs

# The packages of each style: NAME CONTENT [CAPABILITY…], where CONTENT is what kernel_content knows. A capability is
# NAME, provided with the kernel's release, or NAME=VERSION; "<NAME" or "<NAME=VERSION" is required.
kernel_packages() {
    local style=$1 krel=$2 evr=$3-$4 flavour=${2##*-}
    local tools='<gcc <make <bison <flex <elfutils-libelf-devel <openssl-devel <perl-interpreter <findutils'
    case $style in
        el9) # since 9.2
            cat <<TEXT
kernel nothing kernel-x86_64=$evr <kernel-core <kernel-modules <kernel-modules-core
kernel-core boot kernel-core-uname-r kernel-uname-r <kernel-modules-core-uname-r=$krel
kernel-modules-core lists,core kernel-modules-core-uname-r
kernel-modules drivers kernel-modules-uname-r <kernel-modules-core-uname-r=$krel
kernel-modules-extra nothing kernel-modules-extra-uname-r
kernel-devel devel kernel-devel-uname-r kernel-devel-x86_64=$evr installonlypkg(kernel)=$evr $tools
kernel-devel-matched nothing <kernel-devel=$evr <kernel-core=$evr
TEXT
            ;;
        el8)
            cat <<TEXT
kernel nothing kernel-x86_64=$evr <kernel-core <kernel-modules
kernel-core boot,lists,core kernel-core-uname-r kernel-uname-r
kernel-modules drivers kernel-modules-uname-r <kernel-core-uname-r=$krel
kernel-modules-extra nothing kernel-modules-extra-uname-r
kernel-devel devel kernel-devel-uname-r kernel-devel-x86_64=$evr installonlypkg(kernel)=$evr $tools
TEXT
            ;;
        uek7)
            cat <<TEXT
kernel-uek nothing kernel-uek-x86_64=$evr <kernel-uek-core <kernel-uek-modules
kernel-uek-core boot,lists,core kernel-uek-core-uname-r kernel-uname-r
kernel-uek-modules drivers kernel-uek-modules-uname-r <kernel-uek-core-uname-r=$krel
kernel-uek-modules-extra nothing kernel-uek-modules-extra-uname-r
kernel-uek-devel devel kernel-uek-devel-uname-r kernel-devel-uname-r $tools <gcc-toolset-11-gcc
TEXT
            ;;
        el7 | amzn2) # one package, as the custom kernels of the field
            cat <<TEXT
kernel boot,lists,core,drivers kernel-uname-r kernel-x86_64=$evr installonlypkg(kernel)=$evr
kernel-devel devel kernel-devel-uname-r kernel-devel-x86_64=$evr installonlypkg(kernel)=$evr <perl <findutils
TEXT
            ;;
        amzn2023)
            cat <<TEXT
kernel boot,lists,core,drivers kernel-uname-r kernel-x86_64=$evr installonlypkg(kernel)=$evr
kernel-modules-extra nothing kernel-modules-extra-uname-r
kernel-devel devel kernel-devel-uname-r kernel-devel-x86_64=$evr installonlypkg(kernel)=$evr $tools
TEXT
            ;;
        suse)
            cat <<TEXT
kernel-$flavour boot,lists,core,drivers multiversion(kernel)=$evr
kernel-$flavour-extra nothing multiversion(kernel)=$evr <kernel-$flavour=$evr
kernel-$flavour-devel suse-objects multiversion(kernel)=$evr <kernel-devel=$evr <pesign-obs-integration <gcc <make
kernel-devel suse-source multiversion(kernel)=$evr
kernel-syms nothing multiversion(kernel)=$evr <kernel-$flavour-devel=$evr
pesign-obs-integration nothing
TEXT
            ;;
        photon)
            cat <<TEXT
linux boot,lists,core
linux-drivers-gpu drivers <linux=$evr
linux-devel photon-devel <linux=$evr <python3 <gawk
TEXT
            ;;
        *) die "no style $style" ;;
    esac
}

# Lays what a package holds below ROOT and prints the paths.
kernel_content() {
    local folder=$1 krel=$2 root=$3 content=$4 full=$5 flavour=${2##*-} modules=lib/modules/$2 tree
    mkdir -p "$root/$modules"
    case $content in
        nothing) ;;
        boot)
            cp -a "$folder/boot/." "$root/$modules/"
            cp "$folder/tree/.config" "$root/$modules/config"
            gzip -nc "$folder/tree/Module.symvers" >"$root/$modules/symvers.gz"
            (cd "$root" && find "$modules" -maxdepth 1 -type f -printf '/%p\n')
            # The link that leads to kernel-devel's tree, which Photon and SUSE have in -devel.
            [[ $full == el ]] || return 0
            ln -s "/usr/src/kernels/$krel" "$root/$modules/build"
            ln -s build "$root/$modules/source"
            printf '%s\n' "/$modules/build" "/$modules/source"
            ;;
        lists)
            cp "$folder"/modules/modules.* "$root/$modules/"
            (cd "$root" && printf '/%s\n' "$modules"/modules.*)
            ;;
        core)
            cp -al "$folder/modules/kernel" "$root/$modules/"
            (cd "$root" && find "$modules/kernel" -type f -printf '/%p\n' | grep -v "$kernel_drivers")
            ;;
        drivers) (cd "$root" && find "$modules/kernel" -type f -printf '/%p\n' | grep "$kernel_drivers") ;;
        devel | photon-devel)
            tree=usr/src/kernels/$krel
            [[ $content == devel ]] || tree=usr/src/linux-headers-$krel
            mkdir -p "$root/${tree%/*}"
            cp -al "$folder/tree" "$root/$tree"
            echo "/$tree"
            [[ $content != photon-devel ]] || { ln -s "/$tree" "$root/$modules/build" && echo "/$modules/build"; }
            ;;
        suse-objects) # what a flavour's configuration makes, as `make O=` would have it
            tree=usr/src/linux-$full-obj/x86_64/$flavour
            mkdir -p "$root/$tree"
            kernel_made "$folder/tree" | (cd "$folder/tree" && xargs -0 cp -al --parents -t "$root/$tree")
            printf '%s\n' 'export KBUILD_OUTPUT = .' "include ../../../linux-$full/Makefile" >"$root/$tree/Makefile"
            ln -s "/$tree" "$root/$modules/build"
            ln -s "/usr/src/linux-$full" "$root/$modules/source"
            printf '%s\n' "/usr/src/linux-$full-obj" "/$modules/build" "/$modules/source"
            ;;
        suse-source)
            tree=usr/src/linux-$full
            cp -al "$folder/tree" "$root/$tree"
            kernel_made "$root/$tree" | (cd "$root/$tree" && xargs -0 rm -rf)
            echo "/$tree"
            ;;
        *) die "no content $content" ;;
    esac
}
kernel_drivers='/kernel/drivers/\(gpu\|infiniband\|net/ethernet/mellanox\|vfio\|nvme\)/'

# What of a tree was made by its configuration, each with a NUL behind it.
kernel_made() {
    (
        cd "$1" || exit
        printf '%s\0' .config Module.symvers include/{config,generated} arch/x86/include/generated scripts/module.lds
        find scripts tools certs -type f -perm /111 -exec sh -c 'for f; do head -c 4 "$f" | grep -aq ELF && printf "%s\0" "$f"; done' _ {} +
    )
}

kernel_rpms() {
    local style=$1 folder=$2 krel=$3 version=$4 release=$5 out=$6 packages name contents content words word lines list paths full=el
    case $style in
        suse) full=$version-${release%.*} ;; # the last number counts builds, and is in no path
        photon) full='' ;;
    esac
    rpm_begin made-kernel "$version" "$release"
    packages=$(kernel_packages "$style" "$krel" "$version" "$release")
    while read -r name contents words; do
        lines=() paths=()
        for word in $words; do
            case $word in
                '<'*=*) word=${word#<} && lines+=("Requires: ${word%%=*} = ${word#*=}") ;;
                '<'*) lines+=("Requires: ${word#<}") ;;
                *=*) lines+=("Provides: ${word%%=*} = ${word#*=}") ;;
                *) lines+=("Provides: $word = $krel") ;;
            esac
        done
        for content in ${contents//,/ }; do
            list=$(kernel_content "$folder" "$krel" "$rpm_root" "$content" "$full")
            mapfile -t -O "${#paths[@]}" paths <<<"$list"
        done
        rpm_package "$name" "$(printf '%s\n' "${lines[@]}")" "${paths[@]}"
    done <<<"$packages"
    rpm_build "$out"
}

# ---- Ubuntu's packages

kernel_debs() {
    local folder=$1 krel=$2 source=$3 shared=$4 version=$5 out=$6 root=$work/deb headers path entry
    headers=usr/src/linux-headers-$krel
    rm -rf "$root"
    mkdir -p "$root/shared/usr/src" "$root/headers/$headers" "$root/headers/lib/modules/$krel"
    cp -al "$folder/tree" "$root/shared/usr/src/$shared"
    # A flavour's own half: what its configuration makes, and links to the other half for all else.
    kernel_made "$folder/tree" | (cd "$folder/tree" && xargs -0 cp -al --parents -t "$root/headers/$headers")
    kernel_made "$folder/tree" | (cd "$root/shared/usr/src/$shared" && xargs -0 rm -rf)
    while read -r path; do
        for entry in "$root/shared/usr/src/$shared/$path"/*; do
            [[ -e $entry && ! -e $root/headers/$headers/$path/${entry##*/} ]] || continue
            ln -s "$(realpath -sm --relative-to "/$headers/$path" "/usr/src/$shared/$path/${entry##*/}")" "$root/headers/$headers/$path/"
        done
    done < <(cd "$root/headers/$headers" && find . -type d)
    ln -s "/$headers" "$root/headers/lib/modules/$krel/build"
    deb_build "$root/shared" "$out" "$shared" "$version" all "$source"
    deb_build "$root/headers" "$out" "linux-headers-$krel" "$version" amd64 "$source" "$shared, libc6, libelf1, libssl3, zlib1g"

    mkdir -p "$root"/{modules,extra}/lib/modules "$root/extra/lib/modules/$krel/kernel/drivers/gpu/drm" "$root"/{modules,image}/boot
    cp -al "$folder/modules" "$root/modules/lib/modules/$krel"
    [[ ! -d $root/modules/lib/modules/$krel/kernel/drivers/gpu/drm/nouveau ]] ||
        mv "$root/modules/lib/modules/$krel/kernel/drivers/gpu/drm/nouveau" "$root/extra/lib/modules/$krel/kernel/drivers/gpu/drm/"
    cp "$folder/tree/.config" "$root/modules/boot/config-$krel"
    [[ ! -e $folder/boot/System.map ]] || cp "$folder/boot/System.map" "$root/modules/boot/System.map-$krel"
    deb_build "$root/modules" "$out" "linux-modules-$krel" "$version" amd64 "$source"
    deb_build "$root/extra" "$out" "linux-modules-extra-$krel" "$version" amd64 "$source" "linux-modules-$krel"
    [[ ! -e $folder/boot/vmlinuz ]] || cp "$folder/boot/vmlinuz" "$root/image/boot/vmlinuz-$krel"
    deb_build "$root/image" "$out" "linux-image-$krel" "$version" amd64 "${source/linux/linux-signed}" "kmod, linux-modules-$krel"
    rm -rf "$root"
}
