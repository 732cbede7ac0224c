# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# The files of packages that a lock of slipway build names.

# package_files LOCK PURPOSE: prints their paths, one a line: in the cache, or downloaded where slipway cache prune removed them.
# False without a package of that purpose, or with one that cannot be had as the lock has it.
package_files() {
    local blobs=${SLIPWAY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/slipway}/blobs/sha256 rows hash url file
    rows=$(jq -r --arg purpose "$2" '.packages[] | select(.purpose == $purpose) | "\(.sha256) \(.url)"' "$1") || return 1
    if [[ -z $rows ]]; then
        echo "$1 has no packages for $2" >&2
        return 1
    fi
    while read -r hash url; do
        file=$blobs/$hash
        if [[ ! -f $file ]]; then
            file=$BATS_FILE_TMPDIR/$hash.deb
            if ! curl --silent --show-error --fail --output "$file" "$url" || ! sha256sum --check --status <<<"$hash  $file"; then
                echo "$url cannot be downloaded, or has another hash than in $1: build again" >&2
                return 1
            fi
        fi
        echo "$file"
    done <<<"$rows"
}
