#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a Debian base root file system as a tar file.
#   build    a minimal Debian with apt: what Containerfile.build starts from
#   runtime  what a driver image needs on a node and no more: no apt, no dpkg, no perl
# slipway build names the repositories, from its catalogue and from what this machine says about mirrors.
set -euo pipefail

usage() {
    cat <<'EOF'
Usage: containers/debian/base.sh build|runtime --output FILE.tar --suite NAME --source LINE... [--keyring FILE...]
  --suite NAME    the Debian release: bookworm, trixie, sid
  --auth FILE     passwords of the repositories, as apt_auth.conf(5) has them: not in the image
  --source LINE   a repository as sources.list(5) has it: "deb URI SUITE COMPONENT..."; may be repeated
  --keyring FILE  OpenPGP keys that may sign the repositories [those that apt trusts]; may be repeated
Needs mmdebstrap. The archive is the same for the same package versions (SOURCE_DATE_EPOCH is 0 where unset).
EOF
}

die() {
    echo "base.sh: $1" >&2
    exit 1
}

kind=
output=
suite=
sources=()
keyrings=()
auth=
while (($#)); do
    case $1 in
        build | runtime)
            kind=$1
            shift
            ;;
        --output | --suite | --source | --keyring | --auth)
            (($# >= 2)) || die "$1 needs a value: see --help"
            case $1 in
                --source) sources+=("$2") ;;
                --keyring) keyrings+=("--keyring=$2") ;;
                *) declare "${1#--}=$2" ;;
            esac
            shift 2
            ;;
        -h | --help)
            usage
            exit 0
            ;;
        *) die "unknown argument $1: see --help" ;;
    esac
done
[[ -n $kind && -n $output && -n $suite ]] || die "a kind (build or runtime), --output and --suite are needed: see --help"
((${#sources[@]})) || die "no --source: name the repositories of $suite, see --help"
command -v mmdebstrap >/dev/null || die "mmdebstrap is missing: apt-get install mmdebstrap"

export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-0}
common=(
    --quiet --mode=root --architectures=amd64 "${keyrings[@]}"
    --dpkgopt='path-exclude=/usr/share/doc/*'
    --dpkgopt='path-exclude=/usr/share/man/*'
    --dpkgopt='path-exclude=/usr/share/info/*'
    --dpkgopt='path-exclude=/usr/share/locale/*'
    --dpkgopt='path-exclude=/usr/share/lintian/*'
    --dpkgopt='path-exclude=/usr/share/bash-completion/*'
)

# apt looks below the root that is made; what it needs there goes before the image is packed.
if [[ -n $auth ]]; then
    auth_conf=etc/apt/auth.conf.d/slipway.conf
    common+=(
        --setup-hook="install -D -m 600 '$auth' \"\$1/$auth_conf\""
        --customize-hook="rm \"\$1/$auth_conf\""
    )
fi

# apt in the image reads the same sources: a key that they name and the image lacks goes along.
place_keys() {
    local source key
    for source in "${sources[@]}"; do
        [[ $source =~ signed-by=([^]\ ]+) ]] || continue
        key=${BASH_REMATCH[1]}
        printf -v key %q "$key"
        hooks+=("--customize-hook=[ -e \"\$1\"$key ] || install -D -m 644 $key \"\$1\"$key")
    done
}

make_build() {
    local hooks=()
    place_keys
    mmdebstrap "${common[@]}" "${hooks[@]}" --format=tar --variant=minbase --include=ca-certificates "$suite" "$output" "${sources[@]}"
}

# busybox brings sh and the small programs that the operators' probes run; kmod brings modprobe and lsmod; libc-bin brings
# ldconfig, which NVIDIA's container toolkit calls in the driver root; iproute2 brings ip, rdma and devlink, which the network
# operator's sosreport calls; ibverbs-utils and its libraries bring ibv_devinfo and what slipway-init asks for RDMA devices. Of
# these the files alone are taken: libibverbs1 depends on adduser, which would bring perl along.
# The packages are unpacked and not configured: their scripts do nothing that an image needs. apt adds what the libraries
# themselves depend on.
make_runtime() {
    # shellcheck disable=SC2016 # the hook's shell expands them
    local verbs='cd "$1/tmp" && APT_CONFIG=$MMDEBSTRAP_APT_CONFIG apt-get -qq download libibverbs1 ibverbs-providers ibverbs-utils \
        && for deb in ./*.deb; do dpkg-deb --extract "$deb" "$1" && rm "$deb" || exit 1; done'
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    mmdebstrap "${common[@]}" --format=directory --variant=extract \
        --include=base-files,libc6,libc-bin,libgcc-s1,busybox,kmod,libkmod2,liblzma5,libmnl0,libzstd1,zlib1g,iproute2 \
        --include=libnl-3-200,libnl-route-3-200 --extract-hook="$verbs" \
        "$suite" "$scratch/root" "${sources[@]}"
    rm -f "$scratch/root/etc/apt/auth.conf.d/slipway.conf"
    "$(dirname "$(readlink -f "$0")")/trim-runtime.sh" "$scratch/root"
    tar --create --file "$output" --directory "$scratch/root" --sort=name --numeric-owner \
        --mtime="@$SOURCE_DATE_EPOCH" --format=posix --pax-option=delete=atime,delete=ctime .
}

mkdir -p "$(dirname "$output")"
"make_$kind"
