# shellcheck shell=dash disable=SC1091,SC2154
# SPDX-License-Identifier: Apache-2.0
# What cases of kill.bash say on top of drivers.sh: `. /case/kill.sh`. $victim is the container that dies, $victim_image what
# `start` is told of it.
. /test/drivers.sh

victim=gpu
victim_image=gpu

for role in gpu nic peermem; do
    echo "/case/slipway-init /usr/bin/slipway-init file rbind,rprivate,ro" >>"/test/roles/$role.mounts"
done

is_ready_or_ended() {
    grep -qE '^([a-z]+ +[0-9.]+ s  ready|kill point)' "/vm/containers/$1/now/log" || [ -e "/vm/containers/$1/now/exit" ]
}

is_there_or_ended() {
    grep -q '^kill point' "/vm/containers/$1/now/log" || [ -e "/vm/containers/$1/now/exit" ]
}

# The first process of a pid name space cannot be killed from inside: it waits at its kill point for this.
let_die() {
    ! grep -q '^kill point' "/vm/containers/$1/now/log" || ! is_running "$1" || kill_hard "$1" 2>/dev/null || true
}

# killed_at NAME PLACE: it ended there, and of nothing else.
killed_at() {
    local code
    poll 120 is_there_or_ended "$1" || fail "$1 did not come to its kill point $2"
    let_die "$1"
    code=$(wait_exit "$1" 120)
    [ "$code" = 137 ] || fail "$1 ended with $code, not by its kill point $2"
    container_log_has "$1" "^kill point $2 " || fail "$1 was killed by something else than $2"
    container_log "$1" | grep '^kill point'
}

# killed_in_start PLACE [KEY=VALUE…]: the container is started and dies at PLACE.
killed_in_start() {
    local place=$1
    shift
    start "$victim_image" "SLIPWAY_KILL_AT=$place" "$@"
    killed_at "$victim" "$place"
}

# killed_in_stop PLACE [KEY=VALUE…]: one is started, gets ready, is stopped and dies at PLACE.
killed_in_stop() {
    local place=$1
    shift
    start "$victim_image" "SLIPWAY_KILL_AT=$place" "$@"
    wait_ready "$victim" 120
    stop "$victim"
    killed_at "$victim" "$place"
}

# converges [KEY=VALUE…]: the next start serves, whatever was left.
converges() {
    start "$victim_image" "$@"
    wait_ready "$victim" 120
    "expect_${victim}_serves"
}

# random_round NUMBER [KEY=VALUE…]: dies at its NUMBERth place, in its start or its stop; when it has fewer, it stops.
random_round() {
    local place="#$1"
    shift
    start "$victim_image" "SLIPWAY_KILL_AT=$place" "$@"
    poll 120 is_ready_or_ended "$victim" || fail "neither ready nor dead after 120 s ($place)"
    if is_running "$victim"; then
        # It may die at this very moment.
        container_log_has "$victim" '^kill point' || crun kill "$victim" TERM 2>/dev/null || true
        poll 120 is_there_or_ended "$victim" || fail "neither dead nor stopped after 120 s ($place)"
        let_die "$victim"
        wait_exit "$victim" 120
    fi
    container_log "$victim" | grep '^kill point' || echo "$place: all of it"
}

# What ended lives left in this machine's memory.
forget_containers_but_running() {
    local attempt
    for attempt in /vm/containers/*/[0-9]*; do
        [ ! -e "$attempt/exit" ] || [ "$(readlink -f "${attempt%/*}/now")" = "$attempt" ] || rm -rf "$attempt"
    done
}
