#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The man pages (docs/man) beside the programs: every option of a --help is in its page, and none besides.
# shellcheck disable=SC2154

load helpers

pages=$repository/docs/man

# The options that a help text lists: at the beginning of an indented line, with those that share the line.
options_of_help() {
    help_of "$1" | sed -nE 's/^  (-[^ ].*)/\1/p' | sed -E 's/  +.*//' |
        grep -oE '(^|[ ,])--?[A-Za-z][a-z-]*' | tr -d ' ,' | sort -u
}

# The options that a page's sections about them define.
options_of_page() {
    sed -nE '/^# (COMMON )?OPTIONS$/,/^# /p' "$1" | grep -E '^\*-' | grep -oE '\*--?[A-Za-z][a-z-]*' | tr -d '*' | sort -u
}

verbs() {
    "$SLIPWAY" --help | sed -n '/^Verbs:/,/^$/s/^  \([a-z-]*\) .*/\1/p'
}

@test "every page is made without a warning, and has a name that whatis can show" {
    for page in "$pages"/*.scd; do
        run scdoc <"$page"
        echo "$page: $output" | head -n 3
        [ "$status" -eq 0 ]
        grep -A2 '^# NAME' "$page" | grep -qE '^[a-z-]+ - .+'
    done
}

@test "every verb has a page, and slipway.1 names it" {
    [ "$(verbs | wc -l)" -ge 10 ]
    for verb in $(verbs); do
        echo "$verb"
        [ -f "$pages/slipway-$verb.1.scd" ]
        grep -q "slipway-$verb\*(1)" "$pages/slipway.1.scd"
    done
}

@test "every option of a verb is in its page or among the common ones, and the page has no other" {
    local common verb help page option
    common=$(options_of_page "$pages/slipway.1.scd")
    [ "$(verbs | wc -l)" -ge 10 ]
    for verb in $(verbs); do
        help=$(options_of_help "$verb")
        page=$(options_of_page "$pages/slipway-$verb.1.scd")
        echo "$verb: in --help, in no page: $(comm -23 <(echo "$help") <(sort -u <<<"$page"$'\n'"$common") | xargs)"
        [ -z "$(comm -23 <(echo "$help") <(sort -u <<<"$page"$'\n'"$common"))" ]
        for option in $page; do
            echo "$verb: in the page: $option"
            help_of "$verb" | grep -qE -- "(^|[^a-z-])$option([^a-z-]|$)"
        done
    done
}

@test "the common options are those that resolve has" {
    local common
    common=$(options_of_page "$pages/slipway.1.scd")
    [ -z "$(comm -23 <(echo "$common") <(options_of_help resolve))" ]
}

@test "every exit code of slipway is in slipway.1, and every reason of slipway-init in slipway-init.8" {
    local codes names word
    mapfile -t codes < <(sed -n 's/^\tEXIT_CODE_[A-Z_]* = \([0-9]*\),.*/\1/p' "$repository/cli/exit_code.h")
    mapfile -t names < <(sed -nE 's/^### ([A-Z_]+) \([0-9]+\)$/\1/p' "$repository/docs/reasons.md")
    [ "${#codes[@]}" -gt 20 ] && [ "${#names[@]}" -gt 20 ]
    for word in "${codes[@]}"; do
        echo "$word"
        grep -qE "^\*$word\*" "$pages/slipway.1.scd"
    done
    for word in "${names[@]}"; do
        echo "$word"
        grep -qwE "$word" "$pages/slipway-init.8.scd"
    done
}

@test "every option and variable of slipway-init's help is in slipway-init.8" {
    local word
    for word in $("${SLIPWAY%/*}/slipway-init" --help | grep -oE -- '(-[a-z], )?--[a-z-]+|\b[A-Z]{3,}_[A-Z_]+\b' | tr -d , | tr ' ' '\n' | sort -u); do
        [[ $word != NVFM_CONFIG_ ]] || continue
        echo "$word"
        grep -qF -- "$word" "$pages/slipway-init.8.scd"
    done
}
