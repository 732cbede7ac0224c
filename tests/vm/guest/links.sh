# shellcheck shell=dash
# SPDX-License-Identifier: Apache-2.0
# For cases about interfaces: the programs that 82-nic-links.bats puts into /case/tools, and what a node's
# network looks like, as text that is the same before and after when all came back.

for program in ip bridge nettool; do
    printf '#!/bin/sh\nexec /case/tools/lib/ld-linux-x86-64.so.2 --library-path /case/tools/lib /case/tools/%s "$@"\n' \
        "$program" >"/usr/sbin/$program"
    chmod +x "/usr/sbin/$program"
done

# busybox sh prefers its own applets to what PATH names.
ip() { /usr/sbin/ip "$@"; }

# Numbers that no driver could bring back: indexes (also what follows "@if"), lifetimes and timers that run, ports'
# numbers in a bridge and what it learned, a bond's count of failures. netdevsim marks routes in its own time.
without_numbers() {
    sed -E -e 's/^[0-9]+: //' -e 's/@if[0-9]+//' \
        -e 's/(valid_lft|preferred_lft) [0-9]+sec/\1 SEC/g' -e 's/expires [0-9]+sec/expires SEC/g' \
        -e 's/(hello|tcn|topology_change|gc|hold|message_age|forward_delay)_timer +[0-9.]+/\1_timer/g' \
        -e 's/(port_no|port_id|designated_port|no|root_port) [0-9a-fx]+/\1/g' -e 's/link_failure_count [0-9]+//' \
        -e 's/state (forwarding|learning|listening|disabled|blocking)/state/' -e 's/promiscuity [0-9]+/promiscuity/' -e 's/ rt_(trap|offload)//g' -e 's/ +$//'
}

# one_line: what belongs to an interface or route follows it on further lines, indented.
one_line() {
    awk '/^[^ \t]/ { if (line != "") print line; line = $0; next } { sub(/^[ \t]+/, ""); line = line " " $0 } END { print line }'
}

# One grep for all: a thousand cats take a minute here.
# shellcheck disable=SC2046 # no blanks in these
sysctls() {
    grep -s '' $(find /proc/sys/net/ipv4/conf /proc/sys/net/ipv6/conf /proc/sys/net/ipv4/neigh /proc/sys/net/ipv6/neigh \
        -type f ! -name stable_secret) | sort
}

# network_state FILE: all of it, in an order of its own.
network_state() {
    {
        ip -d link | without_numbers | one_line | sort
        ip -d address | without_numbers | one_line | sort
        ip -4 -d route show table all | one_line | without_numbers | sort
        ip -6 -d route show table all | one_line | without_numbers | sort
        ip -4 rule
        ip -6 rule
        ip nexthop | sed -E 's/if[0-9]+//'
        ip neigh show nud permanent | sort
        ip -4 neigh show proxy
        ip -6 neigh show proxy
        bridge vlan | awk '/^[^ \t]/ { port = $1; $1 = "" } { $1 = $1; print port, $0 }' | sort
        bridge fdb show | grep -E ' dst | static' | sort
        [ ! -e /sys/class/net/bond0 ] || cat /sys/class/net/bond0/bonding/primary /sys/class/net/bond0/bonding/active_slave
        sysctls
    } >"$1"
}

# settled: no address waits for the others' objections, and every link that is up has a carrier.
is_settled() {
    ! ip -6 address | grep -q tentative && ! ip link | grep -q '[<,]UP[,>].*NO-CARRIER\|NO-CARRIER.*[<,]UP[,>]'
}

without_lifetimes() {
    sed -E 's/(valid_lft|preferred_lft) [0-9]+sec/\1 SEC/g'
}

# The kernel gives an interface its own addresses some time after its carrier.
settle() {
    poll 60 is_settled || fail "the network does not settle: $(ip address)"
    ip -6 address | without_lifetimes >/tmp/settling
    while sleep 1 && ip -6 address | without_lifetimes >/tmp/settled && ! cmp -s /tmp/settling /tmp/settled; do
        mv /tmp/settled /tmp/settling
    done
    poll 60 is_settled || fail "the network does not settle: $(ip address)"
}

# reload MODULE…: what a swap does to the interfaces.
reload() {
    local module
    for module in "$@"; do rmmod "$module"; done
    for module in "$@"; do modprobe "$module"; done
}

# expect_same BEFORE AFTER: AFTER is taken anew for some seconds while it differs: carriers and the kernel's look for doubled
# IPv6 addresses take their time.
expect_same() {
    for _ in 1 2 3 4 5 6 7 8; do
        ! cmp -s "$1" "$2" || return 0
        sleep 1
        network_state "$2"
    done
    if ! diff "$1" "$2" >/tmp/difference; then
        grep '^[-+][^-+]' /tmp/difference
        fail "the network is not what it was"
    fi
}
