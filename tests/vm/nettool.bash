# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# For BATS files that save and restore the network state with nettool (nettool.c): the NIC role's code without the role.
# shellcheck source-path=SCRIPTDIR source=simnet.bash
. "$(dirname "${BASH_SOURCE[0]}")/simnet.bash"
# shellcheck source-path=SCRIPTDIR source=kill.bash
. "$(dirname "${BASH_SOURCE[0]}")/kill.bash"

# Compiles nettool, and puts it into a folder with the libraries that it is linked to here: the guest has none.
use_nettool() {
    local folder=$BATS_FILE_TMPDIR/nettool library
    make_kill_points nettool
    mkdir -p "$folder"
    cp "$kill_build/nettool" "$folder/"
    ldd "$kill_build/nettool" | grep -o '/[^ ]*' | while read -r library; do
        cp -L "$library" "$folder/"
    done
    cat >"$folder/case.sh" <<'CASE'
. /case/simnet.sh
nettool() { /case/nettool/ld-linux-x86-64.so.2 --library-path /case/nettool /case/nettool/nettool "$@"; }

# Names of interfaces are not the devices' business: they go by device and port.
interface_facts() {
    local device interface port
    for device in /sys/bus/netdevsim/devices/* /sys/bus/auxiliary/devices/*.sf.*; do
        for interface in "$device"/net/*; do
            [ -e "$interface" ] || continue
            port=$(cat "$interface/phys_port_name" 2>/dev/null) || port=
            echo "port ${device##*/} $port $(cat "$device/sfnum" 2>/dev/null)" | sed 's/\.sf\.[0-9]*/.sf/'
            [ "$port" != p1 ] || ip link show dev "${interface##*/}" | sed -n "s/^ *vf /${device##*/} vf /p"
        done
        [ ! -e "$device/sfnum" ] || echo "sf $(cat "$device/sfnum") $(basename "$(readlink "$device/driver" || true)")"
    done
}

# What there is of devices, a fact a line.
device_state() {
    { interface_facts; devlink_facts; device_facts; } | sed -E 's/netdev [^ ]+//g' | sort
}

# expect_devices FILE WORDS: device_state prints FILE again.
expect_devices() {
    device_state >/tmp/devices.now
    cmp -s "$1" /tmp/devices.now || {
        diff "$1" /tmp/devices.now || true
        fail "$2"
    }
}
CASE
}

# run_nettool [OPTION of run-vm…] <CASE: a case that starts with `. /case/nettool/case.sh`, which knows simnet/case.sh and
#   nettool VERB JOURNAL MODULE…     see nettool.c
#   device_state                     prints what there is of devices, without names of interfaces
#   expect_devices FILE WORDS        device_state prints FILE again; else shows the difference and ends the case
run_nettool() {
    run_simnet --add "$BATS_FILE_TMPDIR/nettool" "$@"
}
