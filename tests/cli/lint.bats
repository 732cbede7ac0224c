#!/usr/bin/env bats
# shellcheck disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# slipway lint, and what build makes of the same findings. Kernels come by --kernel-from: no list has to be asked.

load helpers
load kernel-from

krel=6.6.9-own1

setup() {
    headers=$BATS_TEST_TMPDIR/headers
    make_headers "$headers" "$krel"
    mkdir -p "$BATS_TEST_TMPDIR/nvidia/kernel-open"
    touch "$BATS_TEST_TMPDIR"/nvidia/kernel-open/{Kbuild,conftest.sh}
    export SLIPWAY_MIRRORS=/dev/null
    # No apt sources either: no mirror is known, so nothing is fetched.
    export PATH=/nowhere:$PATH
}

lint() {
    local code=$1
    shift
    run_slipway "$code" lint --os debian12 --offline --kernel-from "$headers" "$@"
}

set_option() { sed -i "/^CONFIG_${1%%=*}=/d" "$headers/.config" && echo "CONFIG_$1" >>"$headers/.config"; }

@test "a good kernel is reported with its compiler and vermagic" {
    lint 0
    says "$krel (x86_64), made with gcc-12, vermagic \"$krel SMP mod_unload modversions \"" "0 errors, 0 warnings"
}

@test "an error is exit code 24, and comes before warnings and notes" {
    set_option INFINIBAND=y
    set_option MODULE_UNLOAD=n
    set_option MODVERSIONS=n
    lint 24
    says "infiniband-builtin" "INFINIBAND=y: OFED cannot replace it" "never replaced without a reboot" "1 error, 1 warning, 1 note"
    [[ $output == *"error    infiniband-builtin"*"warning  no-module-unload"*"note     no-modversions"* ]]
}

@test "only the drivers that are to be built are minded" {
    set_option INFINIBAND=y
    lint 0 --drivers nvidia
    lint 24 --drivers ofed
    lint 2 --drivers ofed,amd
    says "--drivers ofed,amd"
}

@test "the result is JSON with the record" {
    set_option MLX5_CORE=y
    run_slipway 24 lint --os debian12 --offline --kernel-from "$headers" --json
    result=$(grep '"event":"result"' <<<"$output")
    [ "$(jq -r '.exit_code, .os, .findings[0].id, .findings[0].severity, .record.compiler.name, .record.options.mlx5_core' <<<"$result" |
        tr '\n' ' ')" = "24 debian12 mlx5-builtin error gcc-12 y " ]
}

@test "another compiler than the kernel's is a warning, a contradiction is reported" {
    lint 0 --compiler gcc-11
    says "compiler-major-differs" "built with gcc-12, but modules will be built with gcc-11"
    set_option GCC_VERSION=130200
    lint 0
    says "config-compiler-disagrees"
}

@test "host tools of another machine are an error" {
    # e_machine of ELF: 183 is aarch64.
    printf '\xb7' | dd of="$headers/scripts/mod/modpost" bs=1 seek=18 conv=notrunc status=none
    lint 24
    says "host-tools-foreign-arch" "for aarch64, this machine is x86_64"
}

@test "a damaged configuration is reported with its line" {
    echo "<html>" >>"$headers/.config"
    lint 12
    says ".config: line 15" "does not start with CONFIG_"
}

@test "the record lies beside the tree in the cache" {
    lint 0
    [ "$(jq -r '.krel' "$BATS_TEST_TMPDIR"/cache/stages/kernel-*/record.json)" = "$krel" ]
}

# probe_node OPTION…: a node of the same release, with these options; its bundle has no headers.
probe_node() {
    local root=$BATS_TEST_TMPDIR/node option
    make_root "$root" "$krel"
    for option in "$@"; do
        echo "CONFIG_$option" >>"$root/usr/src/linux-headers-$krel/.config"
    done
    printf '0x0badcafe\tmodule_layout\tvmlinux\tEXPORT_SYMBOL\t\n' >"$root/usr/src/linux-headers-$krel/Module.symvers"
    mkdir "$root/etc"
    printf 'ID=debian\nVERSION_ID="12"\n' >"$root/etc/os-release"
    run_slipway 0 probe --root "$root" --headers=no -o "$BATS_TEST_TMPDIR/probe.tar.zst"
}

@test "a node's probe is held against headers from elsewhere" {
    probe_node PREEMPT_RT=y MODULE_SIG=y MODULE_SIG_FORCE=y
    lint 24 --kernel-from "$BATS_TEST_TMPDIR/probe.tar.zst"
    says "node-sig-enforce" "the node enforces signatures" \
        "node-config-differs" "these headers are from another build than the node's kernel" "preempt_rt is y there and n in the tree" \
        "node-symvers-differ" "of its 1 symbols, 1 have another CRC" "the first is module_layout"
}

@test "without any headers a node's configuration is judged alone" {
    probe_node PREEMPT_RT=y
    run_slipway 24 lint --os debian12 --offline --kernel-from "$BATS_TEST_TMPDIR/probe.tar.zst"
    says "checking only the configuration in the probe" "$krel (x86_64), made with gcc-12" "no-tree" "preempt-rt"
    run_slipway 0 lint --os debian12 --offline --kernel-from "$BATS_TEST_TMPDIR/probe.tar.zst" --drivers ofed
}

@test "a target is wanted, and one only" {
    run_slipway 2 lint
    says "the kernel is missing"
    run_slipway 2 lint 6.1.0-56-amd64 6.1.0-55-amd64
    run_slipway 0 lint --help
    says "--drivers" "--kernel-from" "--os"
}

@test "build stops at an error before it compiles, and --force goes on" {
    make_root "$BATS_TEST_TMPDIR/root" "$krel"
    echo CONFIG_PREEMPT_RT=y >>"$BATS_TEST_TMPDIR/root/usr/src/linux-headers-$krel/.config"
    run_slipway 24 build --os debian12 --offline --kernel-from "$BATS_TEST_TMPDIR/root" --nvidia "$BATS_TEST_TMPDIR/nvidia"
    says "preempt-rt" "NVIDIA's build refuses" "try: --force builds in spite of that"
    [ "$(grep -c "NVIDIA's build refuses" <<<"$output")" -eq 1 ]
    stub_programs
    run "${as_root[@]}" env PATH="$stubs" SLIPWAY_DATADIR="${SLIPWAY_DATADIR:-$repository}" SLIPWAY_CACHE="$BATS_TEST_TMPDIR/cache" "$SLIPWAY" \
        build --os debian12 --offline --kernel-from "$BATS_TEST_TMPDIR/root" --nvidia "$BATS_TEST_TMPDIR/nvidia" --force
    echo "$output"
    says "error preempt-rt"
    [ "$status" -ne 24 ] && [ "$status" -ne 0 ]
}
