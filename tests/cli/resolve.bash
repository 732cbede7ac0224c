# shellcheck shell=bash disable=SC2034,SC2154
# SPDX-License-Identifier: Apache-2.0
# Asking `slipway resolve` and looking at its answer, for tests of repositories.

# resolve CODE KREL OPTION…: wants this exit code; the answer is JSON in $output, messages are in $errors.
resolve() {
    local code=$1
    shift
    run bash -c 'exec "$@" 2>"$errors_file"' bash env SLIPWAY_DATADIR="${SLIPWAY_DATADIR:-$repository}" \
        SLIPWAY_CACHE="$BATS_TEST_TMPDIR/cache" SLIPWAY_MIRRORS="$BATS_FILE_TMPDIR/mirrors.ini" "$SLIPWAY" resolve "$@" --json
    errors=$(<"$errors_file")
    echo "slipway resolve $* -> $status"
    echo "$output"
    echo "$errors"
    [ "$status" -eq "$code" ]
}

# lint KREL OPTION…: its headers are fetched and unpacked, and the tree is one that the record can be read of.
lint() {
    local krel=$1
    run_slipway 0 lint "$@" --drivers nvidia
    says "$krel"
}

export errors_file=${BATS_TEST_TMPDIR:-}/errors

# has PURPOSE NAME PATH: the answer has the package, at a URL that ends so.
has() {
    jq -e --arg purpose "$1" --arg name "$2" --arg path "$3" \
        'any(.lock.packages[]; .purpose == $purpose and .name == $name and (.url | endswith($path)))' <<<"$output" >/dev/null || {
        echo "no $1 $2 at …$3 among:"
        jq -r '.lock.packages[] | "\(.purpose) \(.name) \(.url)"' <<<"$output"
        return 1
    }
}

# count NUMBER: the answer has so many packages.
count() {
    [[ $(jq '.lock.packages | length' <<<"$output") == "$1" ]]
}

# went OUTCOME REPOSITORY: so it went there.
went() {
    jq -e --arg outcome "$1" --arg repository "$2" \
        'any(.trace[]; .outcome == $outcome and .repository == $repository)' <<<"$output" >/dev/null || {
        echo "$2 was not $1:"
        jq -c '.trace[]' <<<"$output"
        return 1
    }
}

# tells TEXT…: the message has each of them.
tells() {
    local text
    for text in "$@"; do
        [[ $errors == *"$text"* ]] || {
            echo "the message does not have: $text"
            return 1
        }
    done
}
