# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# What slipway should answer about Debian's kernels, worked out from Debian's lists by other means: curl, xz and awk.

# Lines "OS MIRROR SUITE": what the catalogue's files of these names stand for.
suites() {
    cat <<'LINES'
debian12 debian bookworm
debian12 debian bookworm-updates
debian12 debian-security bookworm-security
debian12 debian bookworm-backports
debian13 debian trixie
debian13 debian trixie-updates
debian13 debian-security trixie-security
debian13 debian trixie-backports
debiansid debian sid
LINES
}

# mirror_base NAME: where the system's apt has it.
mirror_base() {
    local label=Debian
    [[ $1 == debian ]] || label=Debian-Security
    # shellcheck disable=SC2016
    apt-get indextargets --format '$(LABEL)|$(REPO_URI)' 'Created-By: Packages' |
        awk -F'|' -v label="$label" '$1 == label { sub("/$", "", $2); print $2; exit }'
}

# fetch_lists FOLDER: SUITE.xz of each suite's main, and expired, which names the suites past their Valid-Until.
fetch_lists() {
    local os name suite base until_date
    mkdir -p "$1"
    : >"$1/expired"
    while read -r os name suite; do
        base=$(mirror_base "$name")
        [[ -n $base ]] || {
            echo "the system's apt sources name no $name: run apt-get update" >&2
            return 1
        }
        curl -sSf --retry 3 -o "$1/$suite.xz" "$base/dists/$suite/main/binary-amd64/Packages.xz"
        until_date=$(curl -sSf --retry 3 "$base/dists/$suite/InRelease" | sed -n 's/^Valid-Until: //p')
        if [[ -n $until_date ]] && (($(date -d "$until_date" +%s) < $(date +%s))); then
            echo "$os $suite" >>"$1/expired"
        fi
    done < <(suites)
}

# expected_kernels FOLDER OS SUITE…: lines "KREL OS COMPILER PACKAGES" of all kernels in these suites; PACKAGES are the
# names, sorted, with commas between. A headers package is a kernel's own, and no meta package, when it wants the part that
# all flavours share.
expected_kernels() {
    local folder=$1 os=$2 suite
    shift 2
    for suite in "$@"; do
        xz -dc "$folder/$suite.xz"
        echo
    done | awk -v os="$os" '
        BEGIN { RS = ""; FS = "\n" }
        {
            name = depends = ""
            for (i = 1; i <= NF; i++) {
                if ($i ~ /^Package: /) name = substr($i, 10)
                if ($i ~ /^Depends: /) depends = substr($i, 10)
            }
            known[name] = 1
            if (index(name, "linux-headers-") == 1 && name ~ /-amd64$/ && depends ~ /linux-headers-[^ ]*-common/)
                wants[substr(name, 15)] = depends
        }
        END {
            for (krel in wants) {
                compiler = ""
                list = "linux-headers-" krel
                count = split(wants[krel], words, /[ ,|]+/)
                for (i = 1; i <= count; i++) {
                    if (words[i] ~ /^(linux-headers-|linux-kbuild-)/) list = list "," words[i]
                    if (match(words[i], /gcc-[0-9]+/)) compiler = substr(words[i], RSTART, RLENGTH)
                }
                # The image has the modules, or a package of its own; images of backports may not be signed yet.
                if (("linux-modules-" krel) in known) list = list ",linux-modules-" krel
                else if (("linux-image-" krel) in known) list = list ",linux-image-" krel
                else list = list ",linux-image-" krel "-unsigned"
                if (("linux-base-" krel) in known) list = list ",linux-base-" krel
                count = split(list, names, ",")
                for (i = 2; i <= count; i++)
                    for (j = i; j > 1 && names[j] < names[j - 1]; j--) {
                        swap = names[j]; names[j] = names[j - 1]; names[j - 1] = swap
                    }
                list = names[1]
                for (i = 2; i <= count; i++) list = list "," names[i]
                print krel, os, compiler, list
            }
        }' | LC_ALL=C sort -V
}

# expect_all FOLDER: of every suite.
expect_all() {
    local os
    for os in debian12 debian13 debiansid; do
        # shellcheck disable=SC2046
        expected_kernels "$1" "$os" $(suites | awk -v os="$os" '$1 == os { print $3 }')
    done
}
