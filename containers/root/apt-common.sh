# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by apt.sh and runtime/runtime.sh: their command line, and what both ask of mmdebstrap.

# shellcheck disable=SC2034 # for usage()
options_help='  --suite NAME         the release: bookworm, jammy
  --repositories FILE  as sources.list(5) has them, each with its own signed-by
  --auth FILE          passwords of the repositories, as apt_auth.conf(5) has them: not in the root
  --conf FILE          more for apt, as apt.conf(5) has it, such as certificates: not in the root'

die() {
    echo "${0##*/}: $1" >&2
    exit 1
}

# Sets output, suite, repositories, auth, conf and packages, and options: what mmdebstrap is called with.
parse_arguments() {
    output='' suite='' repositories='' auth='' conf='' packages=()
    while (($#)); do
        case $1 in
            --output | --suite | --repositories | --auth | --conf | --package)
                (($# >= 2)) || die "$1 needs a value: see --help"
                if [[ $1 == --package ]]; then packages+=("$2"); else declare -g "${1#--}=$2"; fi
                shift 2
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
        --quiet --mode=root --architectures=amd64
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
    # apt looks below the root that is made; what it needs there goes before the root is packed.
    local file quoted list
    for file in ${auth:+"$auth auth.conf.d/slipway.conf"} ${conf:+"$conf apt.conf.d/slipway.conf"}; do
        printf -v quoted %q "$(realpath "${file% *}")"
        options+=("--setup-hook=install -D -m 600 $quoted \"\$1/etc/apt/${file##* }\"")
    done

    mkdir -p "$(dirname "$output")"
    TMPDIR=$(realpath "$(dirname "$output")") # there is room, and a file system that programs may be run from
    export TMPDIR
    # For a hook: reads NAME:ARCH=VERSION and writes the list, with hashes of the repositories' lists, which are signed.
    printf -v list %q "$(realpath -m "${output%.tar}.packages")"
    # shellcheck disable=SC2016,SC2034 # the hook's shell expands them
    write_list='sed "s/:all=/=/" | APT_CONFIG=$MMDEBSTRAP_APT_CONFIG xargs apt-cache show --no-all-versions |
        awk "/^Package:/ { name = \$2 } /^Version:/ { version = \$2 } /^Architecture:/ { arch = \$2 }
            /^SHA256:/ { print name, version, arch, \$2 }" | LC_ALL=C sort -u >'$list
}

# mmdebstrap mounts /proc, /sys and folders that are mirrors below the root: in a mount name space of its own, so that nothing
# of them stays when it is killed. Where that is not permitted, it mounts nothing either.
run_mmdebstrap() {
    local apart=(unshare --mount --propagation private)
    "${apart[@]}" true 2>/dev/null || apart=()
    "${apart[@]}" mmdebstrap "${options[@]}" "$@"
}

# A hook's pipe hides what fails in it.
check_list() {
    grep -q '^base-files ' "${output%.tar}.packages" || die "apt said no versions and hashes of what is in the root"
}
