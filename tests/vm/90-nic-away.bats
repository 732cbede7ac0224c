#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# Interfaces that are in a pod's network name space when their driver goes: told before and after, and not saved.

load drivers

setup_file() {
    local build program library tools=$BATS_FILE_TMPDIR/tools
    use_guest "$(images_krel)"
    build=$(cd "$vm_folder/../.." && realpath -m "${O:-build}")
    make -s -C "$vm_folder/../.." O="$build" "$build/nettool" >/dev/null
    mkdir -p "$tools/lib"
    cp "$build/nettool" /sbin/ip /sbin/bridge "$tools/"
    for program in "$tools"/{nettool,ip,bridge}; do
        ldd "$program" | grep -o '/[^ ]*' | while read -r library; do
            cp -L "$library" "$tools/lib/"
        done
    done
}

@test "an interface in a pod is told before and after, with its name and whose it is" {
    run_case --nic 4 --add "$BATS_FILE_TMPDIR/tools" <<'CASE'
. /test/links.sh
modprobe e1000e
address() { readlink -f "/sys/class/net/$1/device" | sed 's,.*/,pci/,'; }
first=$(address eth1) second=$(address eth2)
mkdir -p /run/netns
ip netns add pod
ip netns add other
# One of a pod whose processes are seen, one whose are not.
ip netns exec other sleep 300 &
ip link set eth1 netns pod name net1
ip link set eth2 netns other name rail2
nettool save run/journal e1000e >/tmp/saved
cat /tmp/saved
grep "^$first: its interface net1 is in another network name space (of a pod that cannot be seen from here), and goes" /tmp/saved
grep -E "^$second: its interface rail2 is in another network name space \(that of process [0-9]+ \(.*\)\), and goes" /tmp/saved
[ "$(wc -l </tmp/saved)" = 2 ] || fail "more is told than what is away"
# They did not go: nothing is lost.
cp /run/journal /run/kept
nettool restore run/journal e1000e >/tmp/restored || fail "$(cat /tmp/restored)"
refute "what never went is told as lost" grep 'another network' /tmp/restored
mv /run/kept /run/journal
reload e1000e
status=0
nettool restore run/journal e1000e >/tmp/restored || status=$?
cat /tmp/restored
[ "$status" = 3 ] || fail "nothing is lost"
grep "could not be restored: $first: its interface net1 was in another network name space" /tmp/restored
grep "could not be restored: $second: its interface rail2 was in another network name space" /tmp/restored
grep -c 'could not be restored' /tmp/restored | grep -x 2
[ ! -e /run/journal ] || fail "the journal stays"
CASE
    [ "$status" -eq 0 ]
}
