# shellcheck shell=bash disable=SC2016,SC2154
# SPDX-License-Identifier: Apache-2.0
# For tests/run-all: what a file of tests printed when it passed is kept in the user's cache under a key of all that it can read,
# and is shown again, in the place of a run, where the key is the same: `go test` does so, too. In the key are the files
# that tests/inputs names, the file itself, the machine's packages, the variables that tests and compilers are given, and, for the VM,
# the images' digests and the operator's manifests beside the checkout.
#
# Not kept: what skipped a case, or failed; and what another process changed the inputs of meanwhile.

# Days for which a layer's passes hold: what servers offer changes each day.
declare -A holds=([real]=1 [default]=14)

# inputs_group FILE: which rows of tests/inputs are the file's.
inputs_group() {
    case $layer in
    full-*) echo full ;;
    vm) if grep -qx "# proves: the node's side" "$1"; then echo vm-node; else echo vm; fi ;;
    *) echo "$layer" ;;
    esac
}

# inputs_of NAME: the files of its rows, with their content, and which can be executed. What git does not know of, but does
# not ignore, counts as well.
inputs_of() {
    local specs never
    read -ra never < <(sed -n 's/^never //p' tests/inputs)
    while read -ra specs; do
        [[ ${specs[0]} != . ]] || specs+=("${never[@]}")
        git ls-files -co --exclude-standard -z -- "${specs[@]}"
    done < <(sed -n "s#^$1 ##p" tests/inputs) | sort -zu >"$work/inputs"
    # A name without a file is one that was removed.
    xargs -0 -r sha256sum <"$work/inputs" 2>&1 || true
    xargs -0 -r sh -c 'for file; do [ ! -x "$file" ] || echo "$file"; done' sh <"$work/inputs"
}

image_digests() {
    local archive
    for archive in "$O"/images*/*.oci.tar "$O"/images*/*/*.oci.tar; do
        [[ ! -e $archive ]] || tar -xOf "$archive" index.json
    done
}

# Variables of the environment, and those that make was given.
given() {
    env | grep -E '^(VM_|FUZZ_|SLIPWAY_|images_options=|CC=|CFLAGS=|CPPFLAGS=|LDFLAGS=|SAN=|KILL_POINTS=|W=)' | sort
    tr ' ' '\n' <<<"${MAKEFLAGS:-}" | grep '=' | grep -vE '^-?-?j|^-' | sort || true
}

# A tree without git has no key, and neither has a layer without rows.
# pass_key FILE: prints it; false where there is none.
pass_key() {
    local group
    group=$(inputs_group "$1")
    grep -q "^$group " tests/inputs && git rev-parse -q --git-dir >/dev/null 2>&1 || return 1
    {
        echo "$1 $(uname -m)"
        [[ $layer != full-* ]] || part_rows "${layer#full-}" | grep -F "$1"
        declare -f bats_file unit_program part_file
        sha256sum "$1" /var/lib/dpkg/status 2>/dev/null
        given
        inputs_of "$group"
        inputs_of "$1"
        case $layer in
        vm | full-*)
            image_digests
            cat ../shared/operator-manifests/* 2>/dev/null
            ;;
        esac
    } | sha256sum | cut -d ' ' -f 1
}

# kept_pass KEY: the file of what was printed, when there is one that still holds.
kept_pass() {
    local days=${holds[$layer]:-${holds[default]}}
    [[ -n $1 && -z ${CHECK_ANEW:-} ]] || return 1
    find "$cache/passed/$1" -mtime "-$days" -print 2>/dev/null | grep .
}

# keep_pass KEY FILE SECONDS: what is in $tap, unless the inputs are others by now. Passes that hold no longer go.
keep_pass() {
    [[ -n $1 && $1 == "$(pass_key "$2")" ]] || return 0
    mkdir -p "$cache/passed"
    { echo "# passed on $(date -u '+%F at %H:%M UTC') in $3 s, with the same inputs: not run again" && cat "$tap"; } >"$cache/passed/.new.$$"
    mv "$cache/passed/.new.$$" "$cache/passed/$1"
    find "$cache/passed" -type f -mtime "+${holds[default]}" -delete
}
