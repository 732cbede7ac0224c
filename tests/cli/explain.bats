#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# slipway explain: lines of logs, with and without the module at hand.

load helpers

setup_file() {
    gcc -std=c11 -I"$repository" -O1 -ffreestanding -fno-pic -fno-stack-protector -r -nostdlib \
        -o "$BATS_FILE_TMPDIR/peer.ko" "$repository/tests/unit/fixtures/peer.c"
    mkdir -p "$BATS_FILE_TMPDIR/tree/lib/modules/6.1.0-test/build"
    printf '0x11111111\tib_register_peer_memory_client\tdrivers/infiniband/core/ib_core\tEXPORT_SYMBOL\t\n' \
        >"$BATS_FILE_TMPDIR/tree/lib/modules/6.1.0-test/build/Module.symvers"
}

# explained ID INPUT LINE…: one finding of this kind.
explained() {
    local id=$1 input=$2
    shift 2
    run_slipway 0 explain --json "$@"
    [ "$(jq -r '.findings[] | "\(.id) \(.input)"' <<<"$output")" = "$id $input" ]
}

@test "every message that the issue names, as insmod and dmesg print it" {
    explained version-symbol kernel "foo: disagrees about version of symbol module_layout"
    explained version-symbol ofed "[   12.3] nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client"
    explained version-symbol nvidia "nvidia_uvm: disagrees about version of symbol nvUvmInterfaceRegisterGpu"
    explained symbol-unknown ofed "mlx5_ib: Unknown symbol ib_alloc_device (err -2)"
    explained symbol-version ofed "mlx5_ib: Unknown symbol ib_alloc_device (err -22)"
    explained symbol-unknown kernel "foo: Unknown symbol printk (err 0)"
    explained errno-enoexec kernel "insmod: ERROR: could not insert module foo.ko: Invalid module format"
    explained errno-enoexec kernel "modprobe: ERROR: could not insert 'foo': Exec format error"
    explained errno-ekeyrejected signature "modprobe: ERROR: could not insert 'foo': Key was rejected by service"
    explained errno-eperm node "insmod: ERROR: could not insert module foo.ko: Operation not permitted"
    explained errno-ebusy node "rmmod: ERROR: could not remove module foo: Device or resource busy"
    explained errno-ekeyrejected signature "Key was rejected by service"
    explained unsigned signature "Loading of unsigned module is rejected"
    explained key-unknown signature "Loading of module with unavailable key is rejected"
    explained lockdown signature "Lockdown: insmod: unsigned module loading is restricted; see man kernel_lockdown.7"
    explained architecture arch "Invalid architecture in ELF header: 183"
    explained nvrm-taken node "NVRM: The NVIDIA probe routine was not called for 2 device(s)."
    explained nvrm-init userspace "NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x62:0x55:2477)"
    explained nvrm-open nvidia "NVRM: nvidia.ko because it does not include the required GPU"
    explained nvrm-api userspace "NVRM: API mismatch: the client 'nvidia-smi' (pid 77)"
}

@test "bare words are one message, quoted ones each its own, and a file is read" {
    explained version-symbol nvidia nvidia_peermem: disagrees about version of symbol nvidia_p2p_get_pages
    explained errno-einval symbol "modprobe: ERROR: could not insert 'mlx5_core': Invalid argument"
    explained errno-einval symbol modprobe: ERROR: could not insert mlx5_core: Invalid argument
    [ "$(jq -r '.findings[0].module' <<<"$output")" = mlx5_core ]
    run_slipway 0 explain --json "a: Unknown symbol ib_x (err -2)" "b: Unknown symbol ib_y (err -2)"
    [ "$(jq '.findings | length' <<<"$output")" -eq 2 ]
    printf 'booting\nfoo: disagrees about version of symbol module_layout\n' >"$BATS_TEST_TMPDIR/dmesg.txt"
    explained version-symbol kernel "$BATS_TEST_TMPDIR/dmesg.txt"
}

@test "lines that belong together are one finding; others are passed over" {
    run_slipway 0 explain - <<'LOG'
[   10.000000] mlx5_core 0000:01:00.0: firmware version: 22.36.1010
[   12.345678] nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client
[   12.345680] nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -22)
modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument
LOG
    says "another CRC in the running system" "input    ofed" "build with --ofed set to the OFED that is loaded"
    [ "$(grep -c '^  do ' <<<"$output")" -eq 1 ]
    [[ $output != *firmware* ]]
}

@test "the module and the kernel at hand: both CRCs and who exports" {
    run_slipway 0 explain --module "$BATS_FILE_TMPDIR/peer.ko" --kernel "$BATS_FILE_TMPDIR/tree" \
        "$(elf_name): disagrees about version of symbol ib_register_peer_memory_client"
    says "was compiled for CRC 0x" "ib_core exports it with 0x11111111"
}

elf_name() {
    modinfo -F name "$BATS_FILE_TMPDIR/peer.ko"
}

@test "another module than the one that the lines are about" {
    run_slipway 0 explain --module "$BATS_FILE_TMPDIR/peer.ko" "e1000: disagrees about version of symbol module_layout"
    says "and the lines are about e1000"
}

@test "vermagic: what differs, and whether the file is the one that was refused" {
    run_slipway 0 explain --module "$BATS_FILE_TMPDIR/peer.ko" \
        "$(elf_name): version magic '6.1.0-1-amd64 SMP ' should be '6.1.0-2-amd64 SMP '"
    says 'another release: "6.1.0-1-amd64" when it was compiled, "6.1.0-2-amd64" in the kernel' \
        "it is not the file that the kernel was given"
}

@test "a signature error with the module at hand says whether it is signed, and by whom" {
    cd "$BATS_TEST_TMPDIR" || return
    mkdir set
    cp "$BATS_FILE_TMPDIR/peer.ko" set
    run_slipway 0 explain --module set/peer.ko "Loading of unsigned module is rejected"
    says "set/peer.ko is not signed"
    openssl req -x509 -noenc -days 30 -subj "/CN=somebody" -newkey rsa:2048 -keyout a.key -out a.pem 2>/dev/null
    run_slipway 0 sign --key a.key --cert a.pem --hash sha256 set
    run_slipway 0 explain --module set/peer.ko "Loading of module with unavailable key is rejected"
    says "set/peer.ko is signed with PKCS#7 by somebody, serial " "rsa with sha256"
}

@test "nothing that is known: exit code 4" {
    run_slipway 4 explain "all is well"
    says "nothing known in 1 line"
    run_slipway 4 explain - </dev/null
}

@test "names with special characters are taken as they are" {
    # shellcheck disable=SC2016
    run_slipway 0 explain --json '%s%n: Unknown symbol $(id) (err -2)' "x: Unknown symbol a.b.c (err -2)" '[[.*: disagrees about'
    [ "$(jq -r '.findings[].symbols[]' <<<"$output")" = a.b.c ]
}

@test "the command line" {
    run_slipway 2 explain
    says "no text"
    run_slipway 2 explain --module "$BATS_TEST_TMPDIR/none.ko" x
    says "none.ko"
    run_slipway 2 explain --kernel "$BATS_TEST_TMPDIR" x
    says "no Module.symvers there"
    run_slipway 0 explain --help
    says --module --kernel --with --json
}

@test "every id of the table is in the documentation" {
    local id ids
    mapfile -t ids < <(sed -n 's/^\t{ "\([a-z0-9-]*\)".*/\1/p' "$repository/cli/explain/explain_table.c" | sort -u)
    [ "${#ids[@]}" -gt 40 ]
    for id in "${ids[@]}"; do
        grep -q "^| $id |" "$repository/docs/explain.md"
    done
}
