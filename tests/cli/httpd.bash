# shellcheck shell=bash disable=SC2034,SC2154
# SPDX-License-Identifier: Apache-2.0
# A server on loopback that misbehaves as its URLs say (httpd.py), for one test.
#   start_httpd [OPTION…]   serves $mirror; sets $http to its address
#   stop_httpd              for teardown
#   make_certificates       ca.pem, what it signed (server, client) and what it did not (stranger) in $BATS_TEST_TMPDIR
#   start_tls               a server that wants to see a client's certificate

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

# make_certificate NAME SUBJECT [EXTENSION]: signed by the test's own authority; NAME.pem and NAME-key.pem.
make_certificate() {
    local folder=$BATS_TEST_TMPDIR
    openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=$2" \
        -keyout "$folder/$1-key.pem" -out "$folder/$1.csr" 2>/dev/null
    openssl x509 -req -in "$folder/$1.csr" -CA "$folder/ca.pem" -CAkey "$folder/ca-key.pem" -CAcreateserial -days 2 \
        -extfile <(echo "${3:-}") -out "$folder/$1.pem" 2>/dev/null
}

make_certificates() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=authority \
        -keyout "$BATS_TEST_TMPDIR/ca-key.pem" -out "$BATS_TEST_TMPDIR/ca.pem" 2>/dev/null
    make_certificate server 127.0.0.1 "subjectAltName = IP:127.0.0.1"
    make_certificate client somebody
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=stranger \
        -keyout "$BATS_TEST_TMPDIR/stranger-key.pem" -out "$BATS_TEST_TMPDIR/stranger.pem" 2>/dev/null
}

start_tls() {
    start_httpd --tls "$BATS_TEST_TMPDIR/server.pem" "$BATS_TEST_TMPDIR/server-key.pem" --client-ca "$BATS_TEST_TMPDIR/ca.pem"
}
