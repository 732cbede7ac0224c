# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by apt.sh and runtime/runtime.sh: their command line, which packages apt would install, and what both ask of mmdebstrap.

# shellcheck disable=SC2034 # for usage()
options_help='  list                 writes only which packages there will be: a line for each, with name, version, architecture,
                       SHA-256 of the .deb; needs apt-get, and no root
  make                 makes the tar file, the same for the same package versions; needs mmdebstrap
  --suite NAME         the release: bookworm, jammy
  --arch NAME          as dpkg calls it: amd64
  --foreign NAME       another architecture, some of whose packages are wanted, as libelf-dev:arm64
  --lists FOLDER       list: keeps what apt reads of the repositories there for the next call
  --repositories FILE  as sources.list(5) has them, each with its own signed-by
  --auth FILE          passwords of the repositories, as apt_auth.conf(5) has them: not in the root
  --conf FILE          more for apt, as apt.conf(5) has it, such as certificates: not in the root'

die() {
    echo "${0##*/}: $1" >&2
    exit 1
}

# Sets verb, output, list, lists, suite, arch, foreign, repositories, auth, conf and packages.
parse_arguments() {
    verb=${1:-} output='' list='' lists='' suite='' arch='' foreign='' repositories='' auth='' conf='' packages=()
    [[ $verb != -h && $verb != --help ]] || { usage && exit; }
    [[ $verb == list || $verb == make ]] || die "list or make? See --help"
    shift
    while (($#)); do
        case $1 in
            --output | --list | --lists | --suite | --arch | --foreign | --repositories | --auth | --conf | --package)
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
    [[ -n $suite && -n $arch && -n $repositories ]] || die "--suite, --arch and --repositories are needed: see --help"
    [[ $verb == make || -n $list ]] || die "--list is needed: see --help"
    [[ $verb == list || -n $output ]] || die "--output is needed: see --help"
}

# Packages as apt's verbs take them: those of every root of the essential variant of mmdebstrap.
essential() {
    printf '%s' "?narrow(?or(?archive(^$suite\$),?codename(^$suite\$)),?architecture($arch),?essential)"
}

# list_packages "install NAME..." "download NAME...": writes what apt would get for these in an empty root, with the hashes of
# the repositories' lists, which are signed. "install" adds what the packages depend on. Nothing of this machine's own apt counts;
# nor is apt itself among the essential packages, as it would have it.
list_packages() {
    local words architectures="\"$arch\";"
    [[ -z $foreign ]] || architectures+=" \"$foreign\";"
    folder=$(mktemp -d "$(realpath "$(dirname "$list")")/apt.XXXXXX")
    trap 'rm -rf "$folder"' EXIT
    mkdir -p "$folder"/{etc/{apt.conf,auth.conf,preferences}.d,archives/partial}
    lists=$(realpath -m "${lists:-$folder/lists}")
    mkdir -p "$lists/partial"
    cp "$repositories" "$folder/etc/sources.list"
    [[ -z $auth ]] || install -m 600 "$auth" "$folder/etc/auth.conf.d/slipway.conf"
    [[ -z $conf ]] || install -m 600 "$conf" "$folder/etc/apt.conf.d/slipway.conf"
    : >"$folder/status"
    cat >"$folder/apt.conf" <<TEXT
Dir::Etc "$folder/etc";
Dir::State "$folder";
Dir::State::lists "$lists";
Dir::State::status "$folder/status";
Dir::Cache "$folder";
Dir::Log "$folder";
APT::Architecture "$arch";
APT::Architectures { $architectures };
APT::Install-Recommends "false";
APT::Get::List-Cleanup "false";
APT::Sandbox::User "root";
Acquire::Languages "none";
pkgCacheGen::ForceEssential ",";
TEXT
    export APT_CONFIG=$folder/apt.conf LC_ALL=C.UTF-8
    apt-get -qq --error-on=any update
    for words; do
        # shellcheck disable=SC2086 # verb and names
        apt-get -qq --print-uris $words || die "apt-get $words"
    done | sed -n "s/^'.*' \([^_ ]*\)_\([^_ ]*\)_\([^_ ]*\)\.deb .*/\1:\3=\2/; s/%3a/:/; p" >"$folder/names"
    xargs apt-cache show --no-all-versions <"$folder/names" |
        awk '/^Package:/ { name = $2 } /^Version:/ { version = $2 } /^Architecture:/ { arch = $2 }
            /^SHA256:/ { print name, version, arch, $2 }' | LC_ALL=C sort -u >"$list"
    [[ $(wc -l <"$list") == $(sort -u "$folder/names" | wc -l) ]] || die "apt-cache does not show each package"
}

# Sets options: what mmdebstrap is called with.
prepare_mmdebstrap() {
    command -v mmdebstrap >/dev/null || die "mmdebstrap is missing: apt-get install mmdebstrap"
    export SOURCE_DATE_EPOCH=0
    options=(
        --quiet --mode=root --architectures="$arch${foreign:+,$foreign}"
        # No device nodes: Buildah brings its own, and root of a user name space can unpack none.
        --skip=output/dev
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
}

# mmdebstrap mounts /proc, /sys and folders that are mirrors below the root: in a mount name space of its own, so that nothing
# of them stays when it is killed. Where that is not permitted, it mounts nothing either.
run_mmdebstrap() {
    local apart=(unshare --mount --propagation private)
    "${apart[@]}" true 2>/dev/null || apart=()
    "${apart[@]}" mmdebstrap "${options[@]}" "$@"
}
