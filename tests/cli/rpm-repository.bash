# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# RPM repositories made for the test by the real tools, rpmbuild and createrepo_c, with packages that
# provide what the distributions' own do, and served on loopback.
#   rpm_key                     a key of the test's own: $rpm_key
#   rpm_kernel FOLDER KREL ARCH VERSION RELEASE [COUNTER]
#                               builds the packages of a kernel into FOLDER; their list is read from
#                               stdin: "NAME CONTENT [CAPABILITY…]", where CONTENT says what is in it:
#                               devel, suse-devel, suse-source, photon-devel, core, modules, all or nothing.
#                               A capability is "NAME", provided with the kernel release, or "NAME=VERSION";
#                               "<NAME" or "<NAME=VERSION" is required.
#   rpm_publish FOLDER [COMPRESSION]  signs the packages and makes the lists; with $rpm_sign_lists signs those too
#   serve FOLDER                serves it: $served is its URL; ended by serve_end
# Packages are the same for all tests of a file: make them in setup_file, below $BATS_FILE_TMPDIR.

rpm_key() {
    printf '%s\n' '[official]' 'use = no' >"$BATS_FILE_TMPDIR/mirrors.ini"
    export GNUPGHOME=$BATS_FILE_TMPDIR/gnupg
    rpm_key=$BATS_FILE_TMPDIR/key.asc
    export rpm_key
    mkdir -m 700 "$GNUPGHOME"
    gpg --batch --quiet --passphrase '' --quick-generate-key 'Test <test@slipway.invalid>' rsa2048 sign never
    gpg --batch --quiet --armor --export >"$rpm_key"
    gpgconf --kill all
}

# rpm_tree FOLDER KREL: what a prepared tree has that is looked at before anything is compiled.
rpm_tree() {
    local tree=$1 krel=$2
    mkdir -p "$tree"/{include/generated,include/config,scripts/mod,scripts/basic}
    echo "#define UTS_RELEASE \"$krel\"" >"$tree/include/generated/utsrelease.h"
    echo "$krel" >"$tree/include/config/kernel.release"
    touch "$tree/include/generated/autoconf.h" "$tree/include/config/auto.conf"
    cat >"$tree/.config" <<'EOF'
CONFIG_CC_VERSION_TEXT="gcc (GCC) 11.4.1 20231218 (Red Hat 11.4.1-3)"
CONFIG_CC_IS_GCC=y
CONFIG_GCC_VERSION=110401
CONFIG_MODULES=y
CONFIG_MODULE_UNLOAD=y
CONFIG_MODVERSIONS=y
CONFIG_INFINIBAND=m
CONFIG_DRM=m
EOF
    printf '0x%08x\t%s\t%s\t%s\t\n' 305419896 drm_open drivers/gpu/drm/drm EXPORT_SYMBOL_GPL >"$tree/Module.symvers"
    echo "obj-y :=" >"$tree/Makefile"
    cp /bin/true "$tree/scripts/basic/fixdep"
    cp /bin/true "$tree/scripts/mod/modpost"
}

# What lies in a package of this content: prints the paths, and makes them below FOLDER.
rpm_content() {
    local root=$1 content=$2 krel=$3 arch=$4 source=${5:-} flavour=${3##*-} modules=lib/modules/$3
    mkdir -p "$root/$modules"
    case $content in
        devel | photon-devel)
            local tree=usr/src/kernels/$krel
            [[ $content == devel ]] || tree=usr/src/linux-headers-$krel
            rpm_tree "$root/$tree" "$krel"
            echo "/$tree"
            # Enterprise Linux has this link in kernel-core, Photon in its linux-devel.
            [[ $content == devel ]] || { ln -s "/$tree" "$root/$modules/build" && echo "/$modules/build"; }
            ;;
        suse-source)
            mkdir -p "$root/usr/src/linux-$source/scripts"
            echo "obj-y :=" >"$root/usr/src/linux-$source/Makefile"
            echo "/usr/src/linux-$source"
            ;;
        suse-devel)
            local tree=usr/src/linux-$source-obj/$arch/$flavour
            rpm_tree "$root/$tree" "$krel"
            printf '%s\n' "export KBUILD_OUTPUT = /$tree" "include ../../../linux-$source/Makefile" >"$root/$tree/Makefile"
            ln -s "/$tree" "$root/$modules/build"
            ln -s "/usr/src/linux-$source" "$root/$modules/source"
            printf '%s\n' "/usr/src/linux-$source-obj" "/$modules/build" "/$modules/source"
            ;;
        core | all)
            echo kernel/lib/crc.ko >"$root/$modules/modules.builtin"
            echo kernel/drivers/gpu/drm/drm.ko >"$root/$modules/modules.order"
            printf '%s\n' "/$modules/modules.builtin" "/$modules/modules.order"
            ;;&
        modules | all)
            mkdir -p "$root/$modules/kernel/drivers/gpu/drm"
            echo "not a module" >"$root/$modules/kernel/drivers/gpu/drm/drm.ko"
            echo "/$modules/kernel"
            ;;
    esac
}

rpm_kernel() {
    local folder=$1 krel=$2 arch=$3 version=$4 release=$5 counter=${6:-} work name content words word
    work=$(mktemp -d "$BATS_FILE_TMPDIR/rpmbuild.XXXXXX")
    mkdir -p "$folder" "$work/root"
    {
        printf '%s\n' 'Name: test-kernel' "Version: $version" "Release: $release$counter" 'Summary: test' 'License: GPL-2.0-only'
        printf '%s\n' '%description' test
    } >"$work/kernel.spec"
    while read -r name content words; do
        [[ -n $name ]] || continue
        {
            printf '%s\n' "%package -n $name" 'Summary: test' 'AutoReqProv: no'
            for word in $words; do
                case $word in
                    '<'*=*) word=${word#<} && echo "Requires: ${word%%=*} = ${word#*=}" ;;
                    '<'*) echo "Requires: ${word#<} = $krel" ;;
                    *=*) echo "Provides: ${word%%=*} = ${word#*=}" ;;
                    *) echo "Provides: $word = $krel" ;;
                esac
            done
            printf '%s\n' "%description -n $name" test "%files -n $name"
            rpm_content "$work/root" "$content" "$krel" "$arch" "$version-$release"
        } >>"$work/kernel.spec"
    done
    printf '%s\n' '%install' "cp -a $work/root/. %{buildroot}/" >>"$work/kernel.spec"
    rpmbuild -bb --quiet --target "$arch" --buildroot "$work/build" --define "_topdir $work" \
        --define "_rpmdir $folder" --define '_build_name_fmt %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm' \
        --define "_binary_payload ${rpm_payload:-w3.zstdio}" --define '_build_id_links none' --define 'debug_package %{nil}' \
        --define '__os_install_post %{nil}' --define '_unpackaged_files_terminate_build 0' \
        "$work/kernel.spec" >"$work/log" 2>&1 || {
        cat "$work/log" >&2
        return 1
    }
}

rpm_publish() {
    local folder=$1
    mkdir -p "$folder"
    if compgen -G "$folder/*.rpm" >/dev/null; then
        rpmsign --addsign --define '_gpg_name test@slipway.invalid' --define "__gpg $(command -v gpg)" "$folder"/*.rpm >/dev/null 2>"$BATS_FILE_TMPDIR/rpmsign.log"
    fi
    createrepo_c --quiet --general-compress-type="${2:-gz}" "$folder"
    if [[ -n ${rpm_sign_lists:-} ]]; then
        rm -f "$folder/repodata/repomd.xml.asc"
        gpg --batch --quiet --armor --detach-sign "$folder/repodata/repomd.xml"
    fi
    gpgconf --kill all
}

serve() {
    local port=
    : >"$BATS_FILE_TMPDIR/served"
    python3 -u -m http.server 0 --bind 127.0.0.1 --directory "$1" >"$BATS_FILE_TMPDIR/served" 2>"$BATS_FILE_TMPDIR/served.log" 3>&- &
    served_pid=$!
    for _ in {1..100}; do
        port=$(sed -n 's/.* port \([0-9]*\) .*/\1/p' "$BATS_FILE_TMPDIR/served")
        [[ -z $port ]] || break
        sleep 0.1
    done
    [[ -n $port ]] || return 1
    export served=http://127.0.0.1:$port served_pid
}

serve_end() {
    [[ -z ${served_pid:-} ]] || kill "$served_pid"
}
