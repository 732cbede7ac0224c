#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a build root, what drivers are compiled in, of a distribution whose packages apt knows: a tar file, the same for the
# same package versions. slipway build names repositories and packages, from its catalogue and from what this machine says about
# mirrors. Nothing that is in the root runs a package manager later.
set -euo pipefail

usage() {
    cat <<'TEXT'
Usage: containers/root/apt.sh --output FILE.tar --suite NAME --repositories FILE [--auth FILE] --package NAME...
  --suite NAME         the release: bookworm, jammy
  --repositories FILE  as sources.list(5) has them, each with its own signed-by
  --auth FILE          passwords of the repositories, as apt_auth.conf(5) has them: not in the root
  --package NAME       may be repeated; what these depend on comes along, recommended packages do not
Beside FILE.tar, FILE.packages gets a line for each package: name, version, architecture, SHA-256 of the .deb.
Needs mmdebstrap.
TEXT
}

die() {
    echo "apt.sh: $1" >&2
    exit 1
}

output='' suite='' repositories='' auth=''
packages=()
while (($#)); do
    case $1 in
        --output | --suite | --repositories | --auth | --package)
            (($# >= 2)) || die "$1 needs a value: see --help"
            if [[ $1 == --package ]]; then packages+=("$2"); else declare "${1#--}=$2"; fi
            shift 2
            ;;
        -h | --help)
            usage
            exit 0
            ;;
        *) die "unknown argument $1: see --help" ;;
    esac
done
[[ -n $output && -n $suite && -n $repositories && -n ${packages[*]} ]] ||
    die "--output, --suite, --repositories and --package are needed: see --help"
command -v mmdebstrap >/dev/null || die "mmdebstrap is missing: apt-get install mmdebstrap"

export SOURCE_DATE_EPOCH=0
options=(
    --quiet --mode=root --architectures=amd64 --variant=essential --format=tar
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
for package in "${packages[@]}"; do
    [[ $package != *'|'* ]] || die "--package $package: apt's repositories are asked for one name"
    options+=("--include=$package")
done

# apt looks below the root that is made; what it needs there goes before the root is packed.
if [[ -n $auth ]]; then
    auth_conf=etc/apt/auth.conf.d/slipway.conf
    printf -v quoted %q "$(realpath "$auth")"
    options+=(
        "--setup-hook=install -D -m 600 $quoted \"\$1/$auth_conf\""
        "--customize-hook=rm \"\$1/$auth_conf\""
    )
fi

# The list of packages: versions by dpkg, hashes by the lists, which are signed.
mkdir -p "$(dirname "$output")"
TMPDIR=$(realpath "$(dirname "$output")") # there is room, and a file system that programs may be run from
export TMPDIR
printf -v list %q "$(realpath -m "${output%.tar}.packages")"
# shellcheck disable=SC2016 # the hook's shell expands them
options+=(--customize-hook='dpkg-query --admindir "$1/var/lib/dpkg" --show --showformat "\${Package}:\${Architecture}=\${Version}\n" |
    sed "s/:all=/=/" | APT_CONFIG=$MMDEBSTRAP_APT_CONFIG xargs apt-cache show --no-all-versions |
    awk "/^Package:/ { name = \$2 } /^Version:/ { version = \$2 } /^Architecture:/ { arch = \$2 } /^SHA256:/ { print name, version, arch, \$2 }" |
    LC_ALL=C sort -u >'"$list")
# shellcheck disable=SC2016
options+=('--customize-hook=rm -f "$1"/etc/apt/sources.list "$1"/etc/apt/sources.list.d/* "$1"/etc/apt/apt.conf.d/99mmdebstrap')

mmdebstrap "${options[@]}" "$suite" "$output" "$(realpath "$repositories")"
