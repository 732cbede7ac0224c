# shellcheck shell=bash disable=SC2016,SC2154
# SPDX-License-Identifier: Apache-2.0
# For tests/run-all: what a file of tests printed when it passed is kept in the user's cache under a key of all that it can read,
# and is shown again, in the place of a run, where the key is the same: `go test` does so, too. In the key are the files
# that tests/inputs names, the file itself, the programs that were built, the machine's packages, the variables that tests and
# compilers are given, and, for the VM, the images' digests and the operator's manifests beside the checkout.
#
# Not kept: a file that failed or skipped a case, or whose inputs changed while it ran.

# Files that try at random, or that run programs of the caller's, are run each time.
never_kept() {
    case $1 in
    tests/fuzz/run | tests/vm/full/35-kill.bats | tests/vm/full/87-nic-kill.bats) return 0 ;;
    esac
    [[ -n ${VM_INIT:-}${VM_MODULES:-}${VM_KERNEL_TREE:-}${VM_KERNEL_DEBS:-}${VM_KERNEL_ROOT:-}${VM_ARM64_SET:-}${VM_ARM64_IMAGES:-}${SLIPWAY:-} ]]
}

# days_kept FILE: what servers offer changes each day. These ask them for packages or the newest kernel of another distribution,
# series or architecture; the newest kernel of this one is in the images.
days_kept() {
    case $1 in
    tests/real/* | tests/vm/full/* | tests/vm/60-agreement.bats | tests/vm/95-arm64.bats) echo 1 ;;
    *) echo 14 ;;
    esac
}

# input_group FILE: which rows of tests/inputs are the file's, beside its own.
input_group() {
    case $layer in
    full-*) echo full ;;
    vm) if grep -qx "# proves: the node's side" "$1"; then echo vm-node; else echo vm; fi ;;
    *) echo "$layer" ;;
    esac
}

# list_inputs NAME: the files of its rows, each ended by a 0. What git does not know of, but does not ignore, counts as well.
list_inputs() {
    local specs never
    read -ra never < <(sed -n 's/^never //p' tests/inputs)
    while read -ra specs; do
        [[ ${specs[0]} != . ]] || specs+=("${never[@]}")
        git ls-files -co --exclude-standard -z -- "${specs[@]}"
    done < <(sed -n "s#^$1 ##p" tests/inputs) | sort -zu
}

# stamp_of NAME: changes when one of its files does, by size, time or mode. A name without a file is one that was removed.
stamp_of() {
    list_inputs "$1" | { xargs -0 -r stat -c '%n %s %Y %Z %a' 2>&1 || true; } | sha256sum
}

# hash_of NAME: of its files' content, and of which can be executed. Reading them takes ten times as long as stamp_of, so that it
# is done once a stamp.
hash_of() {
    local kept
    kept=$work/hash-$({ echo "$1" && stamp_of "$1"; } | sha256sum | cut -c 1-32)
    if [[ ! -s $kept ]]; then
        {
            list_inputs "$1" | xargs -0 -r sha256sum 2>&1 || true
            list_inputs "$1" | xargs -0 -r sh -c 'for file; do [ ! -x "$file" ] || echo "$file"; done' sh
        } | sha256sum >"$kept"
    fi
    cat "$kept"
}

# program_hash FILE: without debug information, in which the checkout's path is.
program_hash() {
    local kept stripped=$work/stripped
    kept=$work/program-$(stat -c '%n %s %Y %i' "$1" 2>&1 | sha256sum | cut -c 1-32)
    if [[ -e $1 && ! -s $kept ]]; then
        objcopy --strip-debug --remove-section .note.gnu.build-id "$1" "$stripped" 2>/dev/null || cp "$1" "$stripped"
        sha256sum <"$stripped" >"$kept"
    fi
    cat "$kept" 2>/dev/null || echo "no $1"
}

# The programs that FILE runs. The node's side is in the images.
programs() {
    local program=${1#tests/}
    case $(input_group "$1") in
    unit) program_hash "$O/${program%.c}" ;;
    vm-node) ;;
    *)
        program_hash "$O/slipway"
        program_hash "$O/slipway-init"
        program_hash "$O/slipway-probe"
        ;;
    esac
}

# The digests of the images that `make images` and `make um` make; tests make the other archives themselves.
image_digests() {
    local archive
    for archive in "$O"/images{,/other,/addons}/*.oci.tar "$O"/images-um{,/other}/*.oci.tar; do
        [[ ! -e $archive ]] || tar -xOf "$archive" index.json
    done
}

# Variables of the environment, and those that make was given, but for two that part_file sets itself: a part has the same key
# in the whole check-full, where the layer vm has chosen a guest, and alone. Only that layer runs by the guest.
given() {
    {
        env |
            grep -E '^(VM_|FUZZ_|SLIPWAY_|AGREEMENT_|images_options=|CC=|CFLAGS=|CPPFLAGS=|LDFLAGS=|SAN=|KILL_POINTS=|W=)' | sort
        tr ' ' '\n' <<<"${MAKEFLAGS:-}" | grep '=' | grep -vE '^-?-?j|^-' | sort
    } | case $layer in
        full-*) grep -vE '^VM_(GUEST|FAULTS_ON_DOUBLE)=' ;;
        vm) cat ;;
        *) grep -v '^VM_GUEST=' ;;
    esac || true
}

# pass_key FILE: prints it; false where there is none: without git, for a layer without rows, after a program was not built.
pass_key() {
    local group
    group=$(input_group "$1")
    [[ -z $unbuilt ]] && grep -q "^$group " tests/inputs && ! never_kept "$1" && git rev-parse -q --git-dir >/dev/null 2>&1 || return 1
    {
        echo "$1 $(uname -m)"
        [[ $layer != full-* ]] || part_rows "${layer#full-}" | grep -F "$1"
        declare -f bats_file unit_program part_file
        sha256sum "$1" /var/lib/dpkg/status 2>/dev/null
        given
        hash_of "$group"
        hash_of "$1"
        programs "$1"
        case $layer in
        unit) cat ../shared/data/*.tsv 2>/dev/null ;;
        vm | full-*)
            image_digests
            cat ../shared/operator-manifests/* 2>/dev/null
            ;;
        esac
    } | sha256sum | cut -d ' ' -f 1
}

# kept_pass KEY FILE: the path of what was printed, when there is one that still holds.
kept_pass() {
    [[ -n $1 && -z ${CHECK_ANEW:-} ]] || return 1
    find "$cache/passed/$1" -mtime "-$(days_kept "$2")" -print 2>/dev/null | grep .
}

# keep_pass KEY FILE SECONDS: what is in $tap. Passes that hold no longer go.
keep_pass() {
    ! grep -qE '^ok .*# [Ss][Kk][Ii][Pp]' "$tap" && [[ -n $1 && $1 == "$(pass_key "$2")" ]] || return 0
    mkdir -p "$cache/passed"
    { echo "# passed on $(date -u '+%F at %H:%M UTC') in $3 s, with the same inputs: not run again" && cat "$tap"; } >"$cache/passed/.new.$$"
    mv "$cache/passed/.new.$$" "$cache/passed/$1"
    # Another run may rename a file while we look.
    find "$cache/passed" -type f -mtime +14 -delete 2>/dev/null || true
}
