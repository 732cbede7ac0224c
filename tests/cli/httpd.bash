# shellcheck shell=bash disable=SC2034,SC2154
# SPDX-License-Identifier: Apache-2.0
# A server on loopback that misbehaves as its URLs say (httpd.py), for one test.
#   start_httpd [OPTION…]   serves $mirror; sets $http to its address
#   stop_httpd              for teardown

start_httpd() {
    local port_file=$BATS_TEST_TMPDIR/httpd.port scheme=http
    [[ " $* " != *" --tls "* ]] || scheme=https
    rm -f "$port_file"
    python3 "$repository/tests/cli/httpd.py" --root "$mirror" --port-file "$port_file" --log "$BATS_TEST_TMPDIR/httpd.log" "$@" \
        </dev/null >/dev/null 2>&1 3>&- &
    httpd_pid=$!
    until [[ -s $port_file ]]; do
        kill -0 "$httpd_pid" || return 1
        read -rt 0.05 <> <(:) || true
    done
    http=$scheme://127.0.0.1:$(<"$port_file")
}

stop_httpd() {
    [[ -z ${httpd_pid:-} ]] || kill "$httpd_pid"
}

# asked PATTERN: how many requests of the log match.
asked() {
    grep -cE -- "$1" "$BATS_TEST_TMPDIR/httpd.log" || true
}
