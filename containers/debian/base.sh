#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a Debian base root file system as a tar file, from the suites and mirrors of this system's apt sources.
#   build    a minimal Debian with apt: what Containerfile.build starts from
#   runtime  what a driver image needs on a node and no more: no apt, no dpkg, no perl
set -euo pipefail

usage() {
    cat <<'EOF'
Usage: containers/debian/base.sh build|runtime --output FILE.tar [--suite NAME]
  --suite NAME  the Debian release [the one that the system's apt sources name]
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
while (($#)); do
    case $1 in
        build | runtime)
            kind=$1
            shift
            ;;
        --output | --suite)
            (($# >= 2)) || die "$1 needs a value: see --help"
            declare "${1#--}=$2"
            shift 2
            ;;
        -h | --help)
            usage
            exit 0
            ;;
        *) die "unknown argument $1: see --help" ;;
    esac
done
[[ -n $kind && -n $output ]] || die "a kind (build or runtime) and --output are needed: see --help"
command -v mmdebstrap >/dev/null || die "mmdebstrap is missing: apt-get install mmdebstrap"

# Lines "deb URI CODENAME" of the Debian suites in the system's apt sources.
debian_suites() {
    # shellcheck disable=SC2016
    apt-get indextargets --format '$(LABEL)|$(REPO_URI)|$(CODENAME)' 'Created-By: Packages' |
        awk -F'|' '$1 ~ /^Debian/ { print "deb " $2 " " $3 }' | LC_ALL=C sort -u
}

mapfile -t suites < <(debian_suites)
((${#suites[@]})) || die "the system's apt sources name no Debian suite: run apt-get update first"
if [[ -z $suite ]]; then
    suite=$(printf '%s\n' "${suites[@]}" | awk '{ sub(/-.*/, "", $3); print $3 }' | LC_ALL=C sort -u)
    [[ $suite != *$'\n'* ]] || die "the system's apt sources name several releases ($(tr '\n' ' ' <<<"$suite")): pick one with --suite"
fi

# contrib and non-free hold NVIDIA's sources and userspace: a build container downloads from them.
sources=()
for line in "${suites[@]}"; do
    [[ $line == *" $suite" || $line == *" $suite-"* ]] || continue
    sources+=("$line main contrib non-free non-free-firmware")
done
((${#sources[@]})) || die "the system's apt sources have no suite $suite"

export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-0}
common=(
    --quiet --mode=root --architectures=amd64
    --dpkgopt='path-exclude=/usr/share/doc/*'
    --dpkgopt='path-exclude=/usr/share/man/*'
    --dpkgopt='path-exclude=/usr/share/info/*'
    --dpkgopt='path-exclude=/usr/share/locale/*'
    --dpkgopt='path-exclude=/usr/share/lintian/*'
    --dpkgopt='path-exclude=/usr/share/bash-completion/*'
)

make_build() {
    mmdebstrap "${common[@]}" --format=tar --variant=minbase --include=ca-certificates "$suite" "$output" "${sources[@]}"
}

# busybox brings sh and the small programs that the operators' probes run; kmod brings modprobe and lsmod.
# The packages are unpacked and not configured: their scripts do nothing that an image needs.
make_runtime() {
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    mmdebstrap "${common[@]}" --format=directory --variant=extract \
        --include=base-files,libc6,libgcc-s1,busybox,kmod,libkmod2,libelf1,liblzma5,libzstd1,zlib1g \
        "$suite" "$scratch/root" "${sources[@]}"
    "$(dirname "$(readlink -f "$0")")/trim-runtime.sh" "$scratch/root"
    tar --create --file "$output" --directory "$scratch/root" --sort=name --numeric-owner \
        --mtime="@$SOURCE_DATE_EPOCH" --format=posix --pax-option=delete=atime,delete=ctime .
}

mkdir -p "$(dirname "$output")"
"make_$kind"
