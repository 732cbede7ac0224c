# shellcheck shell=bash disable=SC2034,SC2154
# SPDX-License-Identifier: Apache-2.0
# Small kernels of our own, in the shapes that --kernel-from takes. Sizes apart they are laid out as the real ones.
#   make_headers FOLDER KREL        a prepared tree: what a headers package has
#   make_modules ROOT KREL          lib/modules/<krel> as a kernel's package has it
#   make_root ROOT KREL             both, as packages leave them
#   pack_deb NAME ROOT FILE         a Debian package of all that is in ROOT
#   pack_rpm NAME ROOT              an RPM package likewise; its path is in $rpm
#   make_layout FOLDER LAYER…       an OCI layout of layer tarballs, lowest first; its configuration is the file $config

make_headers() {
    local folder=$1 krel=$2
    mkdir -p "$folder"/{include/{generated,config,linux},scripts/mod,arch/x86/include}
    echo "#define UTS_RELEASE \"$krel\"" >"$folder/include/generated/utsrelease.h"
    echo "$krel" >"$folder/include/config/kernel.release"
    touch "$folder/include/linux/module.h" "$folder/include/config/auto.conf" "$folder/Makefile"
    printf '0x01234567\tmodule_layout\tvmlinux\tEXPORT_SYMBOL\t\n' >"$folder/Module.symvers"
    cp /bin/true "$folder/scripts/mod/modpost"
    printf '%s\n' 'CONFIG_CC_VERSION_TEXT="gcc-12 (Debian 12.2.0-14+deb12u1) 12.2.0"' CONFIG_CC_IS_GCC=y \
        CONFIG_GCC_VERSION=120200 CONFIG_CLANG_VERSION=0 CONFIG_64BIT=y CONFIG_X86_64=y CONFIG_SMP=y \
        CONFIG_MODULES=y CONFIG_MODULE_UNLOAD=y CONFIG_MODVERSIONS=y CONFIG_PCI=y CONFIG_MMU_NOTIFIER=y \
        CONFIG_DRM=m CONFIG_DRM_KMS_HELPER=m >"$folder/.config"
}

make_modules() {
    local folder=$1/lib/modules/$2
    mkdir -p "$folder/kernel/drivers/gpu"
    touch "$folder/kernel/drivers/gpu/drm.ko" "$folder"/modules.{builtin,builtin.modinfo}
    echo kernel/drivers/gpu/drm.ko >"$folder/modules.order"
}

make_root() {
    make_headers "$1/usr/src/linux-headers-$2" "$2"
    make_modules "$1" "$2"
    ln -s "/usr/src/linux-headers-$2" "$1/lib/modules/$2/build"
}

pack_deb() {
    mkdir -p "$2/DEBIAN"
    printf '%s\n' "Package: $1" 'Version: 1-1' 'Architecture: amd64' 'Maintainer: Test <test@slipway.invalid>' \
        'Description: test' >"$2/DEBIAN/control"
    dpkg-deb --root-owner-group --build "$2" "$3" >/dev/null
    rm -rf "$2/DEBIAN"
}

pack_rpm() {
    local top=$BATS_TEST_TMPDIR/rpmbuild
    mkdir -p "$top"
    printf '%s\n' "Name: $1" 'Version: 1' 'Release: 1' 'Summary: test' 'License: GPL' 'AutoReqProv: no' \
        '%global __os_install_post %{nil}' '%global debug_package %{nil}' '%global _build_id_links none' \
        '%description' test '%install' "mkdir -p %{buildroot} && cp -a '$2/.' %{buildroot}/" '%files' '/*' >"$top/$1.spec"
    rpmbuild -bb --quiet --define "_topdir $top" --target x86_64 "$top/$1.spec"
    rpm=$top/RPMS/x86_64/$1-1-1.x86_64.rpm
}

# add_blob LAYOUT FILE: puts it in; its digest is in $digest.
add_blob() {
    digest=$(sha256sum <"$2" | cut -d' ' -f1)
    mkdir -p "$1/blobs/sha256"
    cp "$2" "$1/blobs/sha256/$digest"
}

make_layout() {
    local layout=$1 layer layers=''
    shift
    mkdir -p "$layout"
    echo '{"imageLayoutVersion":"1.0.0"}' >"$layout/oci-layout"
    for layer in "$@"; do
        add_blob "$layout" "$layer"
        layers+="${layers:+,}{\"mediaType\":\"application/vnd.oci.image.layer.v1.tar+gzip\",\"digest\":\"sha256:$digest\"}"
    done
    if [[ -n ${config-} ]]; then
        add_blob "$layout" "$config"
        layers+="],\"config\":{\"digest\":\"sha256:$digest\"},\"none\":["
    fi
    echo "{\"schemaVersion\":2,\"layers\":[$layers]}" >"$BATS_TEST_TMPDIR/manifest"
    add_blob "$layout" "$BATS_TEST_TMPDIR/manifest"
    echo "{\"manifests\":[{\"digest\":\"sha256:$digest\",\"platform\":{\"architecture\":\"$(dpkg --print-architecture)\"}}]}" >"$layout/index.json"
}
