#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# proves: the node's side
# What of a driver's interfaces other network namespaces and other parts of the kernel have: interfaces in a pod are reported before and
# after; RDMA devices get their names back.

load drivers

setup_file() {
    local build program library tools=$BATS_FILE_TMPDIR/tools
    use_drivers
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
grep "^$first: its interface net1 is in another network namespace (a pod's, NETNSID [0-9]* of lsns -t net), and is removed" /tmp/saved
grep "^$second: its interface rail2 is in another network namespace (a pod's, NETNSID [0-9]* of lsns -t net), and is removed" /tmp/saved
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

# What the macvlan and ipvlan CNIs make: in the pod's own name space, which has a number here by its veth pair.
@test "what a CNI made on an interface and put into a pod is reported before and after" {
    run_case --nic 2 --add "$BATS_FILE_TMPDIR/tools" <<'CASE'
. /test/links.sh
modprobe -a e1000e 8021q macvlan ipvlan veth dummy
mkdir -p /run/netns
number() { ip netns list-id | sed -n "s/^nsid \([0-9]*\) (iproute2 netns name: $1)/\1/p"; }
for pod in one two three; do
    ip netns add $pod
    ip link add veth$pod type veth peer name eth0 netns $pod
done
ip link add link eth1 name vlan7 type vlan id 7
ip link add dummy7 type dummy
ip link add link eth1 name here type macvlan mode bridge
ip link add link eth1 netns one name net1 type macvlan mode bridge
ip link add link eth1 netns two name net1 type macvlan mode bridge
ip link add link vlan7 netns two name net2 type macvlan mode bridge
ip link add link eth0 netns three name net1 type ipvlan mode l2
ip link add link dummy7 netns three name net2 type macvlan mode bridge
nettool save run/journal e1000e >/tmp/saved
cat /tmp/saved
in_pod() { echo "its $1 $2 in another network namespace (a pod's, NETNSID $3 of lsns -t net)"; }
is() { expect "no report of $1 $2" grep -Fx "$1: $(in_pod "$2" is "$(number "$3")"), and is removed with the driver: $cure" /tmp/saved; }
was() {
    expect "no report of $1 $2 afterwards" \
        grep -Fx "could not be restored: $1: $(in_pod "$2" was "$(number "$3")") and was removed with the driver: $cure" /tmp/restored
}
cure='restart that pod, or drain the node before the next swap'
is eth1 'macvlan net1' one
is eth1 'macvlan net1' two
is vlan7 'macvlan net2' two
is eth0 'ipvlan net1' three
[ "$(wc -l </tmp/saved)" = 4 ] || fail "more is reported than what goes with the driver"
cp /run/journal /run/kept
nettool restore run/journal e1000e >/tmp/restored || fail "$(cat /tmp/restored)"
refute "what never went is reported as lost" grep 'another network' /tmp/restored
mv /run/kept /run/journal
# One pod was given its interface again meanwhile.
reload e1000e
ip link add link eth1 netns two name net1 type macvlan mode bridge
status=0
nettool restore run/journal e1000e >/tmp/restored || status=$?
cat /tmp/restored
[ "$status" = 3 ] || fail "nothing is lost"
was eth1 'macvlan net1' one
was vlan7 'macvlan net2' two
was eth0 'ipvlan net1' three
grep -c 'could not be restored' /tmp/restored | grep -x 3
expect "the node's own macvlan is not back" ip link show here
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

# The folder of the class is this test's, as above: traffic_class in it, which OFED's mlx5_ib has, is a file. rdma_cm's
# settings are the kernel's own; /sys/kernel/config is empty, as in a container.
@test "what cma_roce_tos and traffic_class have set of an RDMA device's port comes back" {
    run_case --nic 2 --add "$BATS_FILE_TMPDIR/tools" <<'CASE'
. /test/links.sh
printf '#!/bin/sh\nexec /case/tools/lib/ld-linux-x86-64.so.2 --library-path /case/tools/lib /case/tools/rdma "$@"\n' >/usr/sbin/rdma
chmod +x /usr/sbin/rdma
modprobe -a e1000e crc32_generic rdma_rxe rdma_cm
class() {
    local folder=/sys/class/infiniband
    mount -t tmpfs class $folder
    while [ $# -gt 0 ]; do
        mkdir -p "$folder/$1/ports/1" "$folder/$1/tc/1"
        : >"$folder/$1/tc/1/traffic_class"
        ln -s "$(readlink -f "/sys/class/net/$2/device")" "$folder/$1/device"
        shift 2
    done
}
# The image's own; configfs is not mounted for it.
mount --bind /sys /images/nic/rootfs/sys
cma_roce_tos() { chroot /images/nic/rootfs cma_roce_tos -d "$@"; }
rdma link add rail0 type rxe netdev eth0
rdma link add rail1 type rxe netdev eth1
class rail0 eth0 rail1 eth1
[ "$(cma_roce_tos rail0 -t 106)" = 106 ]
[ "$(cma_roce_tos rail1)" = 0 ]
[ "$(chroot /images/nic/rootfs cma_roce_mode -d rail1 -p 1 -m 2)" = "RoCE v2" ]
refute "there is no such device" cma_roce_tos rail9
refute "there is no such port" cma_roce_tos rail1 -p 3
echo 'Global tclass=106' >/sys/class/infiniband/rail0/tc/1/traffic_class
# What a run that was killed has left.
mkdir -p /tmp/config
mount -t configfs none /tmp/config
mkdir /tmp/config/rdma_cm/rail0
umount /tmp/config
[ "$(cat /sys/module/rdma_cm/refcnt)" != 0 ]
nettool save run/journal e1000e
grep '^rdma ' /run/journal
[ "$(cat /sys/module/rdma_cm/refcnt)" = 0 ] || fail "a reference on rdma_cm is left"
reload e1000e
rdma link add rail0 type rxe netdev eth0
rdma link add rail1 type rxe netdev eth1
class rail0 eth0 rail1 eth1
[ "$(cma_roce_tos rail0)" = 0 ]
cp /run/journal /tmp/journal
nettool restore run/journal e1000e
[ "$(cma_roce_tos rail0)" = 106 ] || fail "the ToS is not back"
[ "$(cma_roce_tos rail1)" = 0 ]
[ "$(cat /sys/class/infiniband/rail0/tc/1/traffic_class)" = 106 ] || fail "the traffic class is not back"
[ ! -s /sys/class/infiniband/rail1/tc/1/traffic_class ]
[ "$(cat /sys/module/rdma_cm/refcnt)" = 0 ] || fail "a reference on rdma_cm is left"

# A driver without traffic_class, and no rdma_cm.
cp /tmp/journal /run/journal
class rail0 eth0 rail1 eth1
rm -r /sys/class/infiniband/*/tc
rmmod rdma_cm
status=0
nettool restore run/journal e1000e >/tmp/output || status=$?
cat /tmp/output
[ "$status" = 0 ]
grep 'the RDMA device rail0: the loaded driver has no 1.default_roce_tos=106 1.traffic_class=106$' /tmp/output
[ "$(grep -c 'the RDMA device .*: the loaded driver has no' /tmp/output)" = 1 ]
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
grep 'could not be restored: eth1: its IPv6 token (ip token): not saved: set it again' /tmp/output
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
grep 'this driver refuses a setting of ethtool: rings 6=99999999' /tmp/output
nettool save run/journal e1000e
grep 'rings=6=[0-9]*%209=256 ' /run/journal || fail "the other ring is not what it was"
CASE
    [ "$status" -eq 0 ]
}
