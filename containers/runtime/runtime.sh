#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the root file system that driver images start from, as a tar file: what they need on a node and no more: no apt, no
# dpkg, no perl. It is of Debian, whatever distribution the kernel is of. slipway build names the repositories, from its
# catalogue and from what this machine says about mirrors.
set -euo pipefail

usage() {
    cat <<'TEXT'
Usage: containers/runtime/runtime.sh --output FILE.tar --suite NAME --repositories FILE [--auth FILE] [--fetches]
  --suite NAME         the Debian release: bookworm, trixie, sid
  --repositories FILE  as sources.list(5) has them, each with its own signed-by
  --auth FILE          passwords of the repositories, as apt_auth.conf(5) has them: not in the image
  --fetches            with what fetches headers on a node: gpgv, and the authorities of https
Needs mmdebstrap. The archive is the same for the same package versions.
TEXT
}

die() {
    echo "runtime.sh: $1" >&2
    exit 1
}

output='' suite='' repositories='' auth='' fetching=()
while (($#)); do
    case $1 in
        --output | --suite | --repositories | --auth)
            (($# >= 2)) || die "$1 needs a value: see --help"
            declare "${1#--}=$2"
            shift 2
            ;;
        --fetches)
            fetching=('--include=gpgv,ca-certificates')
            shift
            ;;
        -h | --help)
            usage
            exit 0
            ;;
        *) die "unknown argument $1: see --help" ;;
    esac
done
[[ -n $output && -n $suite && -n $repositories ]] || die "--output, --suite and --repositories are needed: see --help"
command -v mmdebstrap >/dev/null || die "mmdebstrap is missing: apt-get install mmdebstrap"

export SOURCE_DATE_EPOCH=0
options=(
    --quiet --mode=root --architectures=amd64 --format=directory --variant=extract
    --dpkgopt='path-exclude=/usr/share/doc/*'
    --dpkgopt='path-exclude=/usr/share/man/*'
    --dpkgopt='path-exclude=/usr/share/info/*'
    --dpkgopt='path-exclude=/usr/share/locale/*'
    --dpkgopt='path-exclude=/usr/share/lintian/*'
    --dpkgopt='path-exclude=/usr/share/bash-completion/*'
    # Folders as mirrors, also below a home that apt's own user cannot enter.
    --hook-dir=/usr/share/mmdebstrap/hooks/file-mirror-automount
    --aptopt='APT::Sandbox::User "root"'
)

# apt looks below the root that is made; what it needs there goes before the image is packed.
if [[ -n $auth ]]; then
    printf -v quoted %q "$(realpath "$auth")"
    options+=("--setup-hook=install -D -m 600 $quoted \"\$1/etc/apt/auth.conf.d/slipway.conf\"")
fi

# busybox brings sh and the small programs that the operators' probes run; kmod brings modprobe and lsmod; libc-bin brings
# ldconfig, which NVIDIA's container toolkit calls in the driver root; iproute2 brings ip, rdma and devlink, which the network
# operator's sosreport calls; ibverbs-utils and its libraries bring ibv_devinfo and what slipway-init asks for RDMA devices. Of
# these the files alone are taken: libibverbs1 depends on adduser, which would bring perl along.
# The packages are unpacked and not configured: their scripts do nothing that an image needs. apt adds what the libraries
# themselves depend on.
# shellcheck disable=SC2016 # the hook's shell expands them
verbs='cd "$1/tmp" && APT_CONFIG=$MMDEBSTRAP_APT_CONFIG apt-get -qq download libibverbs1 ibverbs-providers ibverbs-utils \
    && for deb in ./*.deb; do dpkg-deb --extract "$deb" "$1" && rm "$deb" || exit 1; done'
mkdir -p "$(dirname "$output")"
TMPDIR=$(realpath "$(dirname "$output")") # there is room, and a file system that programs may be run from
export TMPDIR
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mmdebstrap "${options[@]}" \
    --include=base-files,libc6,libc-bin,libgcc-s1,busybox,kmod,libkmod2,liblzma5,libmnl0,libzstd1,zlib1g,iproute2 \
    --include=libnl-3-200,libnl-route-3-200 "${fetching[@]}" --extract-hook="$verbs" \
    "$suite" "$scratch/root" "$(realpath "$repositories")"
rm -f "$scratch/root/etc/apt/auth.conf.d/slipway.conf"
# As the package's own script makes it.
if ((${#fetching[@]})); then
    mkdir -p "$scratch/root/etc/ssl/certs"
    cat "$scratch"/root/usr/share/ca-certificates/mozilla/*.crt >"$scratch/root/etc/ssl/certs/ca-certificates.crt"
    rm -r "$scratch/root/usr/share/ca-certificates"
fi
"$(dirname "$(readlink -f "$0")")/trim-runtime.sh" "$scratch/root"
tar --create --file "$output" --directory "$scratch/root" --sort=name --numeric-owner \
    --mtime=@0 --format=posix --pax-option=delete=atime,delete=ctime .
