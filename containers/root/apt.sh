#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a build root, what drivers are compiled in, of a distribution whose packages apt knows: a tar file, the same for the
# same package versions. slipway build names repositories and packages, from its catalogue and from what this machine says about
# mirrors. Nothing that is in the root runs a package manager later.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=apt-common.sh
source "$(dirname "$(readlink -f "$0")")/apt-common.sh"

usage() {
    cat <<TEXT
Usage: containers/root/apt.sh list --list FILE       --suite NAME --arch NAME --repositories FILE [--auth FILE] [--conf FILE]
                                   --package NAME...
       containers/root/apt.sh make --output FILE.tar (the same)
$options_help
  --package NAME       may be repeated; what these depend on comes along, recommended packages do not
make writes FILE.packages beside FILE.tar: a line for each package that it installed, with name, version, architecture.
TEXT
}

parse_arguments "$@"
((${#packages[@]})) || die "--package is needed: see --help"
for package in "${packages[@]}"; do
    [[ $package != *'|'* ]] || die "--package $package: apt's repositories are asked for one name"
done
if [[ $verb == list ]]; then
    list_packages "install $(essential) ${packages[*]}"
    exit
fi

prepare_mmdebstrap
printf -v installed %q "$(realpath -m "${output%.tar}.packages")"
options+=("${packages[@]/#/--include=}")
# shellcheck disable=SC2016 # the hook's shell expands them
options+=(--customize-hook='dpkg-query --admindir "$1/var/lib/dpkg" --show --showformat "\${Package} \${Version} \${Architecture}\n" |
    LC_ALL=C sort >'"$installed")
# shellcheck disable=SC2016
options+=('--customize-hook=rm -f "$1"/etc/apt/sources.list "$1"/etc/apt/sources.list.d/* "$1"/etc/apt/auth.conf.d/slipway.conf \
    "$1"/etc/apt/apt.conf.d/99mmdebstrap "$1"/etc/apt/apt.conf.d/slipway.conf')

run_mmdebstrap --variant=essential --format=tar "$suite" "$output" "$(realpath "$repositories")"
