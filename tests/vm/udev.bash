# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# For BATS files whose node has a real systemd-udevd: Debian 12's, with the rules that name network interfaces and load
# modules for devices. tests/vm/udev/case.sh is what a case says.

# Unpacks Debian's package into $VM_BUILD/udev, with the libraries of this machine, which is a Debian 12 too.
use_udev() {
    local deb key lock library rule new
    udev_folder=$VM_BUILD/udev
    export udev_folder
    mkdir -p "$VM_BUILD"
    exec {lock}>"$VM_BUILD/.udev.lock"
    flock "$lock"
    key=$(declare -f use_udev | sha256sum)
    if [ "$(cat "$udev_folder/key" 2>/dev/null)" != "$key" ]; then
        deb=$("$vm_folder/fetch-deb" "$VM_BUILD/debs" udev)
        new=$(mktemp -d "$VM_BUILD/.udev.XXXXXX")
        dpkg-deb -x "$deb" "$new/package"
        install -D "$new/package/bin/udevadm" "$new/root/bin/udevadm"
        ldd "$new/root/bin/udevadm" | sed -n 's/^[^/]*\(\/[^ ]*\) (.*/\1/p' | while read -r library; do
            install -D "$(readlink -f "$library")" "$new/root$library"
        done
        for rule in 75-net-description 80-drivers 80-net-setup-link; do
            install -D -m 644 "$new/package/lib/udev/rules.d/$rule.rules" "$new/root/lib/udev/rules.d/$rule.rules"
        done
        install -D -m 644 "$new/package/lib/systemd/network/99-default.link" "$new/root/lib/systemd/network/99-default.link"
        rm -rf "$new/package" "$udev_folder"
        mv "$new/root" "$udev_folder"
        echo "$key" >"$udev_folder/key"
        rm -rf "$new"
    fi
    exec {lock}>&-
}

# run_udev [OPTION of run-vm…] <CASE: as run_simnet, with a udevd.
run_udev() {
    run_simnet --add "$udev_folder:udev-root" --add "$vm_folder/udev/case.sh:udev.sh" "$@"
}
