# shellcheck shell=dash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# What cases about system extensions say: `. /case/sysext.sh`, then the expect_ functions in the order in which they stand here,
# as each leaves the node to the next. Folders of extensions are those of the disk, see full/93-export-sysext.bats.
export SYSTEMD_PAGER='' SYSTEMD_COLORS=0
krel=$(uname -r)
systemd=$(systemctl --version | sed -n 's/^systemd \([0-9]*\) .*/\1/p')
# Their files go when they are unmerged.
cat /usr/lib/slipway/*/build-ids >/vm/build-ids

build_id() {
    od -An -v -tx1 -j16 "/sys/module/$1/notes/.note.gnu.build-id" | tr -d ' \n'
}

expect_ours() {
    local module
    for module in "$@"; do
        loaded "$module" || fail "$module is not loaded"
        grep -qx "$module $(build_id "$module")" /vm/build-ids || fail "$module is not the extension's"
    done
}

is_merged() {
    [ -e "/usr/lib/extension-release.d/extension-release.$1" ]
}

is_up() {
    [ "$(systemctl show --value --property Result,ActiveState "slipway-drivers-$1.service" | tr '\n' ' ')" = "success active " ]
}

# use FOLDER…: their extensions in place of all others; merged, where that is not refused.
use() {
    local folder
    systemctl stop slipway-drivers-nic.service slipway-drivers-gpu.service 2>/dev/null || true
    systemd-sysext unmerge
    rm -f /var/lib/extensions/*
    for folder in "$@"; do
        cp "/images/$folder"/* /var/lib/extensions/
    done
    systemctl reset-failed
    dmesg -c >/dev/null
    sleep 1
    date +%s >/vm/since
    systemd-sysext merge || return 1
    # 252 does not read new units by itself.
    [ "$systemd" != 252 ] || systemctl daemon-reload
}

unload_ours() {
    local module again=yes
    while [ -n "$again" ]; do
        again=
        while read -r module _; do
            if loaded "$module" && rmmod "$module" 2>/dev/null; then again=yes; fi
        done </vm/build-ids
    done
    while read -r module _; do
        refute "$module stays" loaded "$module"
    done </vm/build-ids
}

# said_by ROLE PATTERN: how often its unit has said that since `use`.
said_by() {
    journalctl --sync
    journalctl --unit "slipway-drivers-$1.service" --since "@$(cat /vm/since)" --output cat --no-pager >/vm/journal
    grep -c -- "$2" /vm/journal || true
}

# expect_refused WORDS: the NIC's unit fails, and says this; nothing was loaded.
expect_refused() {
    refute "it starts" systemctl start slipway-drivers-nic.service
    [ "$(said_by nic "$1")" = 1 ] || fail "the unit does not say '$1' once: $(tail -n 5 /vm/journal)"
    refute "it has loaded something" loaded ib_uverbs
}

# ---- one after another

# Both extensions at once: their modules, nodes, libraries.
expect_drivers() {
    poll 180 is_up nic || fail "the NIC's unit is not up"
    poll 180 is_up gpu || fail "the GPU's unit is not up"
    expect_ours mlx5_core ib_uverbs nvidia nvidia_uvm nvidia_modeset nvidia_peermem
    poll 30 test -c /dev/nvidia-uvm || fail "udev makes no node"
    poll 30 test -c /dev/nvidia0 || fail "udev makes no node of the GPU"
    [ "$(stat -c '%t %T' /dev/nvidiactl)" = "c3 ff" ] || fail "nvidiactl is $(stat -c '%t %T' /dev/nvidiactl)"
    ldconfig -p | grep -q libnvidia-ml.so.1 || fail "the driver's libraries are not found"
    [ -x /usr/bin/nvidia-smi ] || fail "no nvidia-smi"
}

# expect_own_modules: the kernel's own are found as ever, and ours are not among them.
expect_own_modules() {
    modprobe dummy
    rmmod dummy
    refute "modprobe finds nvidia" modinfo nvidia
    expect "the kernel's own mlx5_core is hidden" sh -c 'modinfo -F filename mlx5_core | grep /kernel/drivers/'
}

expect_unmerged() {
    systemd-sysext unmerge
    refute "its files stay" [ -e /usr/lib/slipway ]
    refute "its programs stay" [ -e /usr/bin/nvidia-smi ]
    expect_ours mlx5_core nvidia nvidia_peermem
    expect_own_modules
    unload_ours
}

expect_other_build_refused() {
    modprobe mlx5_core
    use nic
    expect_refused "mlx5_core is loaded from elsewhere: its build id is $(build_id mlx5_core), and that of slipway-nic-$krel is"
    modprobe -r mlx5_core
}

# The GPU's extension alone loads all but nvidia_peermem, and says so; once.
expect_without_ofed() {
    use gpu
    refute "it has no OFED" systemctl start slipway-drivers-gpu.service
    expect "it does not say which is not loaded" [ "$(said_by gpu 'not loaded: nvidia_peermem')" = 1 ]
    expect_ours nvidia nvidia_uvm nvidia_modeset
    unload_ours
}

# systemd 257: the target that is upheld starts again, and the service that fails does not.
expect_one_try() {
    use other-kernel
    systemctl stop slipway-drivers-nic.target
    poll 30 has_failed nic || fail "the target that is upheld does not start again"
    sleep 10
    [ "$(said_by nic 'are for kernel')" = 1 ] || fail "the unit was started $(said_by nic 'are for kernel') times"
}

has_failed() {
    systemctl is-failed --quiet "slipway-drivers-$1.service"
}

# Another kernel's alone is refused; beside ours, which it hides, it leaves the work to that.
expect_other_kernel_refused() {
    use other-kernel
    expect_refused "the modules of slipway-nic-.* are for kernel .*[.]999.*, and this is kernel $krel"
    use other-kernel nic
    expect "the other's unit is not the upper one" grep -q '[.]999' /usr/lib/systemd/system/slipway-drivers-nic.service
    systemctl start slipway-drivers-nic.service
    expect_ours mlx5_core
    unload_ours
}

expect_other_release_ignored() {
    use other-release >/vm/merge 2>&1
    cat /vm/merge
    refute "it is merged" is_merged "slipway-nic-$krel"
}

# expect_signed: without its certificate it is refused, with it merged; one byte changed is found.
expect_signed() {
    ! use signed || [ "$systemd" = 252 ] || fail "merge ends with 0"
    refute "it is merged without its certificate" is_merged "slipway-nic-$krel"
    mkdir -p /etc/verity.d
    cp /images/ext.crt "/etc/verity.d/slipway-nic-$krel.crt"
    use signed
    expect "it is not merged with its certificate" is_merged "slipway-nic-$krel"
    expect "it is not checked" sh -c 'dmsetup table | grep -q " verity "'
    systemctl start slipway-drivers-nic.service
    expect_ours mlx5_core ib_uverbs
    unload_ours
    use
    cp /images/signed/* /var/lib/extensions/
    change_byte "/var/lib/extensions/slipway-nic-$krel.raw"
    refute "a changed byte is not found" sh -c "systemd-sysext merge && cat /usr/lib/slipway/slipway-nic-$krel/lib/modules/$krel/updates/ofed/* >/dev/null"
    expect "the kernel says nothing of it" sh -c 'dmesg | grep "device-mapper: verity.*is corrupted"'
}

change_byte() {
    local middle=$(($(stat -c %s "$1") / 2))
    printf '\377\377\377\377' | dd of="$1" bs=1 seek="$middle" conv=notrunc 2>/dev/null
}

# The policy of docs/edge.md. expect_policy WORDS
expect_policy() {
    use nic
    systemd-sysext unmerge
    refute "an unsigned one is merged" systemd-sysext "$1" merge
    use signed
    systemd-sysext unmerge
    systemd-sysext "$1" merge
    expect "a signed one is refused" is_merged "slipway-nic-$krel"
}
