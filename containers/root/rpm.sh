#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a build root, what drivers are compiled in, of an rpm distribution: a tar file, the same for the same packages. dnf only
# finds out which packages these are, and fetches them; slipway build, which calls this, checks each one's signature by its own
# rules, and rpm installs them, with no network. SUSE's repositories are read by dnf, too.
set -euo pipefail

usage() {
    cat <<'TEXT'
Usage: containers/root/rpm.sh list    --list FILE       --repositories FILE --arch ARCH [--releasever N] [--platform ID]
                                      --package NAME...
       containers/root/rpm.sh fetch   --packages FOLDER (the same)
       containers/root/rpm.sh install --packages FOLDER --output FILE.tar
  --list FILE          gets a line for each package that fetch would get: name, [epoch:]version-release, architecture,
                       checksum in its repository's list
  --packages FOLDER    fetch: is filled with NAME-OF-REPOSITORY/*.rpm; install: has them
  --repositories FILE  as dnf.conf(5) has them, with passwords and certificates
  --releasever, --platform  "9" and "platform:el9" where the distribution has modules
  --package NAME       may be repeated; "one|two" is the first that a repository has, "one|" may be lacking,
                       "NAME >= VERSION" is a capability
Beside FILE.tar, FILE.packages gets a line for each package: name, [epoch:]version-release, architecture.
Needs dnf, rpm.
TEXT
}

die() {
    echo "rpm.sh: $1" >&2
    exit 1
}

verb=${1:-} output='' list='' repositories='' arch='' releasever='' platform='' packages='' wanted=()
[[ $verb != -h && $verb != --help ]] || { usage && exit; }
[[ $verb == list || $verb == fetch || $verb == install ]] || die "list, fetch or install? See --help"
shift
while (($#)); do
    case $1 in
        --packages | --output | --list | --repositories | --arch | --releasever | --platform | --package)
            (($# >= 2)) || die "$1 needs a value: see --help"
            if [[ $1 == --package ]]; then wanted+=("$2"); else declare "${1#--}=$2"; fi
            shift 2
            ;;
        -h | --help)
            usage
            exit 0
            ;;
        *) die "unknown argument $1: see --help" ;;
    esac
done

# Beside what is fetched: there is room, and a file system that programs may be run from.
work=$(dirname "${packages:-$list}")
mkdir -p "$work"
work=$(mktemp -d "$(realpath "$work")/rpm.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{root,home,repos,none}
root=$work/root
# Debian's rpm would have its database below $HOME. Nothing of this machine's configuration is read.
echo '%_dbpath %{_var}/lib/rpm' >"$work/home/.rpmmacros"
export HOME=$work/home LC_ALL=C.UTF-8 SOURCE_DATE_EPOCH=0

# Each package is checked by its caller. As options on the command line, these folders are this machine's, not the root's.
run_dnf() {
    dnf --quiet --assumeyes --config="$work/dnf.conf" --installroot="$root" --forcearch="$arch" ${releasever:+--releasever="$releasever"} \
        --setopt=reposdir="$work/repos" --setopt=varsdir="$work/none" --setopt=pluginconfpath="$work/none" \
        --setopt=cachedir="$work/cache" --setopt=logdir="$work" --setopt=persistdir="$work/state" "$@"
}

# choose "one|two": prints the first that there is, or the last, whose absence is then an error of dnf's. "one|": or nothing.
choose() {
    local names name=$1
    if [[ $1 == *'|'* ]]; then
        IFS='|' read -r -a names <<<"$1|"
        for name in "${names[@]}"; do
            if grep -qxF "$name" "$work/available"; then break; fi
        done
    fi
    if [[ -n $name ]]; then echo "$name"; fi
}

# Sets names, what dnf is to install; $work/all has all packages: name, repository and place.
read_repositories() {
    [[ -n $repositories && -n $arch && -n ${wanted[*]} ]] || die "--repositories, --arch and --package are needed: see --help"
    command -v dnf >/dev/null || die "dnf is missing: apt-get install dnf"
    local name
    names=()
    install -m 600 "$repositories" "$work/repos/slipway.repo"
    printf '%s\n' '[main]' gpgcheck=0 plugins=0 install_weak_deps=0 best=1 zchunk=0 retries=3 \
        ${platform:+"module_platform_id=$platform"} >"$work/dnf.conf"
    run_dnf repoquery --available --qf '%{name} %{repoid} %{location}' >"$work/all" 2>"$work/errors" || fail_dnf
    cut -d' ' -f1 "$work/all" | sort -u >"$work/available"
    for name in "${wanted[@]}"; do
        name=$(choose "$name")
        names+=(${name:+"$name"})
    done
}

# read_list FILE: unpacks a list, which a distribution packs as it likes.
read_list() {
    case $1 in
        *.gz) gzip -dc "$1" ;;
        *.bz2) bzip2 -dc "$1" ;;
        *.xz) xz -dc "$1" ;;
        *.zst) zstd -dc "$1" ;;
        *) cat "$1" ;;
    esac || die "the list ${1##*/} cannot be unpacked"
}

# dnf's log, which lies below the root, names the packages; their checksums are in the lists that it has fetched.
make_list() {
    [[ -n $list ]] || die "--list is needed: see --help"
    read_repositories
    local log=$root$work/dnf.log
    : >"$log"
    run_dnf install --assumeno -- "${names[@]}" >"$work/errors" 2>&1 || true
    sed -n 's/.*---> Package \([^ ]*\)\.\([^. ]*\) \([^ ]*\) will be installed$/\1 \3 \2/p' "$log" |
        LC_ALL=C sort >"$work/chosen"
    [[ -s $work/chosen ]] || fail_dnf
    find "$work/cache" -name '*-primary.xml*' | while read -r path; do read_list "$path"; done | awk -F'"' '
        /<name>/ { split($0, part, /[<>]/); name = part[3] }
        /<arch>/ { split($0, part, /[<>]/); arch = part[3] }
        /<version / {
            for (i = 1; i < NF; i += 2) value[substr($i, length($i) - 3)] = $(i + 1)
            evr = (value["och="] > 0 ? value["och="] ":" : "") value["ver="] "-" value["rel="]
        }
        /<checksum / { split($0, part, /[<>]/); print name, evr, arch, part[3] }' | LC_ALL=C sort -u >"$work/sums"
    LC_ALL=C awk 'NR == FNR { chosen[$0]; next } $1 " " $2 " " $3 in chosen' "$work/chosen" "$work/sums" >"$list"
    [[ $(cut -d' ' -f1-3 "$list" | sort -u | wc -l) == $(wc -l <"$work/chosen") ]] ||
        die "the lists have no checksum of: $(cut -d' ' -f1-3 "$list" | comm -13 - "$work/chosen" | head -n 3)"
}

make_fetch() {
    [[ -n $packages ]] || die "--packages is needed: see --help"
    local name repository location file
    read_repositories
    mkdir -p "$packages" "$work/got"
    run_dnf install --downloadonly --destdir="$work/got" -- "${names[@]}" >"$work/errors" 2>&1 || fail_dnf
    while read -r name repository location; do
        file=$work/got/${location##*/}
        [[ -f $file ]] || continue
        mkdir -p "$packages/$repository"
        mv "$file" "$packages/$repository/"
    done <"$work/all"
    [[ -z $(ls "$work/got") ]] || die "of no repository: $(ls "$work/got")"
}

# What dnf said, without its advice, which is for others; of "Error:" the reason is in the lines behind it.
fail_dnf() {
    grep -v -e '^$' -e '^(try to add' -e '^Ignoring repositories' "$work/errors" | sed -e '/^Error: *$/{N;s/\n */ /}' >&2 || true
    exit 1
}

# Scriptlets look for devices, /proc and /sys: in a mount name space of its own, so that nothing of them stays.
in_root() {
    # shellcheck disable=SC2016 # the inner shell expands them
    unshare --mount --net --propagation private bash -euc '
        root=$1
        shift
        for name in dev proc sys; do mkdir -p "$root/$name"; done
        mount -t tmpfs -o mode=755 none "$root/dev"
        for name in null zero full random urandom tty; do touch "$root/dev/$name" && mount --bind "/dev/$name" "$root/dev/$name"; done
        mount --bind /proc "$root/proc"
        mount --rbind /sys "$root/sys"
        "$@"' _ "$root" "$@"
}

make_install() {
    [[ -n $packages && -n $output ]] || die "--packages and --output are needed: see --help"
    local files=()
    mapfile -t files < <(find "$packages" -name '*.rpm' | LC_ALL=C sort)
    ((${#files[@]})) || die "$packages has no package"
    mkdir -p "$(dirname "$output")" "$root/var/lib/rpm"
    in_root rpm --force-debian --root "$root" --install --excludedocs --nosignature "${files[@]}" >"$work/errors" 2>&1 || {
        cat "$work/errors" >&2
        exit 1
    }
    # A scriptlet that fails is no failure for rpm, and often none for us: compiling would show it.
    grep -i 'scriptlet failed' "$work/errors" >&2 || true
    rpm --force-debian --query --package --nosignature \
        --queryformat '%{NAME} %|EPOCH?{%{EPOCH}:}:{}|%{VERSION}-%{RELEASE} %{ARCH}\n' "${files[@]}" | LC_ALL=C sort >"${output%.tar}.packages"
    # Databases, logs and caches differ from run to run; what compiles reads none of them.
    rm -rf "$root"/var/{lib/rpm,lib/dnf,cache,log} "$root"/usr/lib/sysimage/rpm "${root:?}"/dev/*
    mkdir -p "$root"/var/{cache,log} "$root/tmp"
    tar --create --file "$output" --directory "$root" --sort=name --numeric-owner --mtime=@0 --format=posix \
        --pax-option=delete=atime,delete=ctime .
}

"make_$verb"
