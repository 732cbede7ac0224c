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
Usage: containers/runtime/runtime.sh --output FILE.tar --suite NAME --repositories FILE [--auth FILE] [--conf FILE]
                                     [--package NAME...]
$options_help
  --package NAME       more than is always in it; may be repeated
Beside FILE.tar, FILE.packages gets a line for each package: name, version, architecture, SHA-256 of the .deb.
Needs mmdebstrap. The archive is the same for the same package versions.
TEXT
}

parse_arguments "$@"
# busybox brings sh and the small programs that the operators' probes run; kmod brings modprobe and lsmod; libc-bin brings
# ldconfig, which NVIDIA's container toolkit calls in the driver root; iproute2 brings ip, rdma and devlink, which the network
# operator's sosreport calls.
packages+=(base-files libc6 libc-bin libgcc-s1 busybox kmod libkmod2 liblzma5 libmnl0 libzstd1 zlib1g iproute2 libnl-3-200
    libnl-route-3-200)
# ibverbs-utils and its libraries bring ibv_devinfo and what slipway-init asks for RDMA devices. Of these the files alone are
# taken: libibverbs1 depends on adduser, which would bring perl along.
alone='libibverbs1 ibverbs-providers ibverbs-utils'

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# The packages are unpacked and not configured: their scripts do nothing that an image needs. apt adds what the libraries
# themselves depend on: what it would get for all of them in an empty root, as NAME_VERSION_ARCH.deb, is what is in the image.
verbs="export APT_CONFIG=\$MMDEBSTRAP_APT_CONFIG && cd \"\$1/tmp\" && mkdir -p none/partial \
    && { apt-get -qq --print-uris -o Dir::Cache::archives=\"\$PWD/none\" install ${packages[*]} && apt-get -qq --print-uris download $alone; } |
        sed -n \"s/^'.*' \([^_ ]*\)_\([^_ ]*\)_\([^_ ]*\)\.deb .*/\1:\3=\2/; s/%3a/:/; p\" | $write_list \
    && rm -r none && apt-get -qq download $alone \
    && for deb in ./*.deb; do dpkg-deb --extract \"\$deb\" \"\$1\" && rm \"\$deb\" || exit 1; done"
run_mmdebstrap --variant=extract --format=directory "${packages[@]/#/--include=}" --extract-hook="$verbs" \
    "$suite" "$scratch/root" "$(realpath "$repositories")"
check_list

# As the package's own script makes it.
if [[ -d $scratch/root/usr/share/ca-certificates ]]; then
    mkdir -p "$scratch/root/etc/ssl/certs"
    cat "$scratch"/root/usr/share/ca-certificates/mozilla/*.crt >"$scratch/root/etc/ssl/certs/ca-certificates.crt"
    rm -r "$scratch/root/usr/share/ca-certificates"
fi
"$here/trim-runtime.sh" "$scratch/root"
tar --create --file "$output" --directory "$scratch/root" --sort=name --numeric-owner \
    --mtime=@0 --format=posix --pax-option=delete=atime,delete=ctime .
