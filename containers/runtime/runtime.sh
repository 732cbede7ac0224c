#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the root file system that driver images start from, as a tar file: what they need on a node and no more: no apt, no
# dpkg, no perl. It is of Debian, whatever distribution the kernel is of. slipway build names the repositories, from its
# catalogue and from what this machine says about mirrors.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
# shellcheck source-path=SCRIPTDIR source=../root/apt-common.sh
source "$here/../root/apt-common.sh"

usage() {
    cat <<TEXT
Usage: containers/runtime/runtime.sh list --list FILE       --suite NAME --arch NAME --repositories FILE [--auth FILE]
                                          [--conf FILE] [--package NAME...]
       containers/runtime/runtime.sh make --output FILE.tar (the same)
$options_help
  --package NAME       more than is always in it; may be repeated
make writes FILE.packages beside FILE.tar: a line for each package that it unpacked, with name, version, architecture.
TEXT
}

parse_arguments "$@"
# busybox brings sh and the small programs that the operators' probes run; kmod brings modprobe and lsmod; libc-bin brings
# ldconfig, which NVIDIA's container toolkit calls in the driver root; iproute2 brings ip, rdma, devlink and dcb, which the
# network operator's sosreport and users call. bash, ethtool and jq are for scripts that users run in the NIC image, as the
# stock one has them: most DaemonSets that set up RoCE are bash.
packages+=(base-files libc6 libc-bin libgcc-s1 busybox kmod libkmod2 liblzma5 libmnl0 libudev1 libzstd1 zlib1g iproute2
    libnl-3-200 libnl-route-3-200 bash ethtool jq)
# ibverbs-utils and its libraries bring ibv_devinfo and what slipway-init asks for RDMA devices, perftest and its libraries
# ib_write_bw and the like. Of these the files alone are taken: libibverbs1 depends on adduser, which would bring perl along,
# and libpci3 on pci.ids. Since Debian 13 librdmacm1 is a virtual package, which librdmacm1t64 provides.
alone='libibverbs1 ibverbs-providers ibverbs-utils perftest libibumad3 libpci3 ?and(?name(^librdmacm1),?not(?virtual))'

if [[ $verb == list ]]; then
    # "apt-get download" prints no URI of a .deb that lies in the working folder.
    for name in list lists repositories auth conf; do
        [[ -z ${!name} ]] || declare "$name=$(realpath -m "${!name}")"
    done
    cd /
    list_packages "install ${packages[*]}" "download $alone"
    exit
fi

prepare_mmdebstrap
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# The packages are unpacked and not configured: their scripts do nothing that an image needs.
printf -v unpacked %q "$(realpath -m "${output%.tar}.packages")"
read -ra names <<<"$alone"
printf -v quoted ' %q' "${names[@]}"
verbs="export APT_CONFIG=\$MMDEBSTRAP_APT_CONFIG && cd \"\$1/tmp\" && apt-get -qq download$quoted \
    && mkdir -p \"\$1/var/lib/dpkg/status.d\" && for deb in \$MMDEBSTRAP_ESSENTIAL \"\$1\"/tmp/*.deb; do
        deb=\$1/\${deb#\"\$1\"}
        name=\$(dpkg-deb --field \"\$deb\" Package) \
            && dpkg-deb --field \"\$deb\" >\"\$1/var/lib/dpkg/status.d/\$name\" \
            && dpkg-deb --show --showformat '\${Package} \${Version} \${Architecture}\n' \"\$deb\" || exit 1
    done | LC_ALL=C sort >$unpacked \
    && for deb in ./*.deb; do dpkg-deb --extract \"\$deb\" \"\$1\" && rm \"\$deb\" || exit 1; done"
run_mmdebstrap --variant=extract --format=directory "${packages[@]/#/--include=}" --extract-hook="$verbs" \
    "$suite" "$scratch/root" "$(realpath "$repositories")"

# As the package's own script makes it.
if [[ -d $scratch/root/usr/share/ca-certificates ]]; then
    mkdir -p "$scratch/root/etc/ssl/certs"
    cat "$scratch"/root/usr/share/ca-certificates/mozilla/*.crt >"$scratch/root/etc/ssl/certs/ca-certificates.crt"
    rm -r "$scratch/root/usr/share/ca-certificates"
fi
"$here/trim-runtime.sh" "$scratch/root"
tar --create --file "$output" --directory "$scratch/root" --sort=name --numeric-owner \
    --mtime=@0 --format=posix --pax-option=delete=atime,delete=ctime .
