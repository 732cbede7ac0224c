#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# What of a driver's interfaces other network namespaces and other parts of the kernel have: interfaces in a pod are reported before and
# after; RDMA devices get their names back.

load drivers

setup_file() {
    local build program library tools=$BATS_FILE_TMPDIR/tools
    use_guest "$(images_krel)"
    build=$(cd "$vm_folder/../.." && realpath -m "${O:-build}")
    make -s -C "$vm_folder/../.." O="$build" "$build/nettool" >/dev/null
    mkdir -p "$tools/lib"
    cp "$build/nettool" /sbin/ip /sbin/bridge "$(command -v rdma)" "$tools/"
    for program in "$tools"/{nettool,ip,bridge,rdma}; do
        ldd "$program" | grep -o '/[^ ]*' | while read -r library; do
            cp -L "$library" "$tools/lib/"
        done
    done
}

@test "an interface in a pod is reported before and after, with its name" {
    run_case --nic 4 --add "$BATS_FILE_TMPDIR/tools" <<'CASE'
. /test/links.sh
modprobe e1000e
address() { readlink -f "/sys/class/net/$1/device" | sed 's,.*/,pci/,'; }
first=$(address eth1) second=$(address eth2)
mkdir -p /run/netns
ip netns add pod
ip netns add other
ip link set eth1 netns pod name net1
ip link set eth2 netns other name rail2
nettool save run/journal e1000e >/tmp/saved
cat /tmp/saved
grep "^$first: its interface net1 is in another network namespace (a pod's), and goes" /tmp/saved
grep "^$second: its interface rail2 is in another network namespace (a pod's), and goes" /tmp/saved
[ "$(wc -l </tmp/saved)" = 2 ] || fail "more is reported than what is in another namespace"
# They did not go: nothing is lost.
cp /run/journal /run/kept
nettool restore run/journal e1000e >/tmp/restored || fail "$(cat /tmp/restored)"
refute "what never went is reported as lost" grep 'another network' /tmp/restored
mv /run/kept /run/journal
reload e1000e
status=0
nettool restore run/journal e1000e >/tmp/restored || status=$?
cat /tmp/restored
[ "$status" = 3 ] || fail "nothing is lost"
grep "could not be restored: $first: its interface net1 was in another network namespace" /tmp/restored
grep "could not be restored: $second: its interface rail2 was in another network namespace" /tmp/restored
grep -c 'could not be restored' /tmp/restored | grep -x 2
[ ! -e /run/journal ] || fail "the journal stays"
CASE
    [ "$status" -eq 0 ]
}

# rdma_rxe's devices stand on interfaces and say of no device that they are its: the folder of their class is one of this test's,
# which says so. What the kernel does with the names is its own.
@test "RDMA devices get their names back, names that cross, too" {
    run_case --nic 3 --add "$BATS_FILE_TMPDIR/tools" <<'CASE'
. /test/links.sh
printf '#!/bin/sh\nexec /case/tools/lib/ld-linux-x86-64.so.2 --library-path /case/tools/lib /case/tools/rdma "$@"\n' >/usr/sbin/rdma
chmod +x /usr/sbin/rdma
modprobe -a e1000e crc32_generic rdma_rxe
class() {
    local folder=/sys/class/infiniband
    mountpoint -q $folder || mount -t tmpfs class $folder
    rm -rf $folder/*
    while [ $# -gt 0 ]; do
        mkdir "$folder/$1"
        ln -s "$(readlink -f "/sys/class/net/$2/device")" "$folder/$1/device"
        shift 2
    done
}
names() { rdma link | sed 's/^link \([^/]*\).* netdev \([^ ]*\).*/\1 \2/' | sort; }
rdma link add rail0 type rxe netdev eth0
rdma link add mlx5_1 type rxe netdev eth1
rdma link add mlx5_2 type rxe netdev eth2
names >/tmp/before
cat /tmp/before
class rail0 eth0 mlx5_1 eth1 mlx5_2 eth2
nettool save run/journal e1000e
grep -c '^rdma ' /run/journal | grep -x 3
reload e1000e
rdma link add mlx5_0 type rxe netdev eth0
rdma link add mlx5_2 type rxe netdev eth1
rdma link add mlx5_1 type rxe netdev eth2
class mlx5_0 eth0 mlx5_2 eth1 mlx5_1 eth2
nettool restore run/journal e1000e
names >/tmp/after
diff /tmp/before /tmp/after || fail "RDMA devices have other names"
CASE
    [ "$status" -eq 0 ]
}

@test "an IPv6 token is not saved, and reported as a thing to be set again" {
    run_case --nic 2 --add "$BATS_FILE_TMPDIR/tools" <<'CASE'
. /test/links.sh
modprobe e1000e
ip link set eth1 up
ip token set ::1:2:3:4 dev eth1
nettool save run/journal e1000e
reload e1000e
status=0
nettool restore run/journal e1000e >/tmp/output || status=$?
cat /tmp/output
[ "$status" = 3 ]
grep 'could not be restored: eth1: its IPv6 token (ip token): not saved, to be set again' /tmp/output
grep -c 'could not be restored' /tmp/output | grep -x 1
[ ! -e /run/journal ]
CASE
    [ "$status" -eq 0 ]
}

# There is no ethtool in the guest: what it would have set is written into the journal.
@test "what ethtool sets comes back: rings, coalescing, features; what a driver does not take is reported" {
    run_case --nic 1 --add "$BATS_FILE_TMPDIR/tools" <<'CASE'
. /test/links.sh
modprobe e1000e
nettool save run/journal e1000e
grep '^ethtool ' /run/journal | tee /tmp/usual
said() { grep '^ethtool ' "$1" | tr ' ' '\n' | sed 's/%20/\n/g'; }
grep -q 'rings=6=256%209=256' /run/journal || fail "the card has other rings than this test knows"
grep -q '+rx-checksum' /run/journal || fail "the card has other features than this test knows"
sed -i -e '/^ethtool /s/rings=6=256%209=256/rings=6=512%209=1024/' -e '/^ethtool /s/+rx-checksum/-rx-checksum/' \
    -e '/^ethtool /s/\(coalesce=[^ ]*\)2=3/\12=1/' -e '/^ethtool /s/$/ channels=9=63/' /run/journal
grep '^ethtool ' /run/journal >/tmp/wanted
! cmp -s /tmp/usual /tmp/wanted || fail "nothing is wanted"
reload e1000e
nettool restore run/journal e1000e >/tmp/output || fail "$(cat /tmp/output)"
cat /tmp/output
nettool save run/journal e1000e
grep '^ethtool ' /run/journal | tee /tmp/now
sed -i 's/ channels=9=63//' /tmp/wanted
diff /tmp/wanted /tmp/now || fail "what ethtool set is not back"
# One that is no good keeps the others from nothing.
sed -i -e '/^ethtool /s/rings=6=512%209=1024/rings=6=99999999%209=256/' /run/journal
reload e1000e
nettool restore run/journal e1000e >/tmp/output || fail "$(cat /tmp/output)"
grep 'this driver does not take what ethtool had set: rings 6=99999999' /tmp/output
nettool save run/journal e1000e
grep 'rings=6=[0-9]*%209=256 ' /run/journal || fail "the other ring is not what it was"
CASE
    [ "$status" -eq 0 ]
}
