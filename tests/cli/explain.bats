#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# slipway explain: lines of logs, with and without the module.

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

# found ID…: the findings of the last run, which was --json.
found() {
    [ "$(jq -r '.findings[].id' <<<"$output" | xargs)" = "$*" ]
}

# pulled IMAGE…: explains that the registry has none of these.
pulled() {
    local lines=("${@/#/Failed to pull image \"}")
    run_slipway 0 explain "${lines[@]/%/\": rpc error: code = NotFound desc = x: not found}"
}

# decides WANTED OPTION…: whose the peer-memory symbol is, and whether that was a guess.
decides() {
    local wanted=$1
    shift
    run_slipway 0 explain --json "$@" "peer: disagrees about version of symbol ib_register_peer_memory_client"
    [ "$(jq -r '.findings[0] | "\(.input) \(.guessed)"' <<<"$output")" = "$wanted" ]
}

# symvers FILE CRC-OF-PRINTK EXPORTER: as the kernel's, with the peer-memory symbol under another CRC than the module's.
symvers() {
    {
        printf '0x%08x\tprintk\tvmlinux\tEXPORT_SYMBOL\t\n' "$2"
        printf '0x11111111\tib_register_peer_memory_client\t%s\tEXPORT_SYMBOL\t\n' "$3"
    } >"$1"
}

# A kernel's tree whose own module says what its vermagic is.
kernel_of() {
    local folder=$1/lib/modules/6.1.0-1-test
    mkdir -p "$folder/kernel/lib" "$folder/build"
    cp "$BATS_FILE_TMPDIR/peer.ko" "$folder/kernel/lib/own.ko"
    {
        printf '0x9060323f\tmodule_layout\tvmlinux\tEXPORT_SYMBOL\t\n'
        printf '0x0000000a\tmaybe\tvmlinux\tEXPORT_SYMBOL\t\n'
        cat
    } >"$folder/build/Module.symvers"
    printf 'CONFIG_MODULES=y\nCONFIG_MODVERSIONS=y\nCONFIG_SMP=y\nCONFIG_MODULE_UNLOAD=y\n' >"$folder/build/.config"
}

# only OPTION… TEXT: the one finding's input.
only() {
    run_slipway 0 explain --json --module "$BATS_FILE_TMPDIR/peer.ko" "$@"
    [ "$(jq '.findings | length' <<<"$output")" -eq 1 ]
    jq -r '.findings[0].input' <<<"$output"
}

@test "empty input is no file's name" {
    run bash -c '"$1" explain - </dev/null' - "$SLIPWAY"
    [ "$status" -eq 4 ]
    [ "$output" = "slipway explain: stdin: it is empty" ]
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
    explained nvrm-none node "NVRM: No NVIDIA GPU found."
    explained nvrm-release nvidia "NVRM: installed in this system is not supported by the NVIDIA 580.95.05 driver release."
    explained nvrm-gsp userspace "NVRM: GPU0 RmFetchGspRmImages: No firmware image found"
    explained nvrm-gsp userspace "NVRM: _kgspFwContainerVerifyVersion: GSP firmware image version mismatch: got version 535.1, expected version 580.95.05"
    [[ $(jq -r '.findings[0].because' <<<"$output") == *"has version 535.1, and the module has version 580.95.05" ]]
    explained gpl-taint licence "nvidia: module using GPL-only symbols uses symbols x from proprietary module y."
    explained relocation compiler "nvidia: Unknown rela relocation: 42"
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

@test "lines that belong together are one finding; others are skipped" {
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

@test "with the module and the kernel: both CRCs and who exports" {
    run_slipway 0 explain --module "$BATS_FILE_TMPDIR/peer.ko" --kernel "$BATS_FILE_TMPDIR/tree" \
        "$(elf_name): disagrees about version of symbol ib_register_peer_memory_client"
    says "was compiled for CRC 0x" "ib_core exports it with 0x11111111"
}

@test "whose a symbol is: by who exports it, and only without any file by its name" {
    local at=$BATS_TEST_TMPDIR peer=$BATS_FILE_TMPDIR/peer.ko
    symvers "$at/fits" 7 drivers/infiniband/core/ib_core
    symvers "$at/other" 8 drivers/infiniband/core/ib_core
    symvers "$at/vmlinux" 7 vmlinux
    symvers "$at/nvidia" 7 /build/nvidia/nvidia
    decides "ofed true"
    decides "ofed true" --module "$peer"
    # Without the module nothing shows whether the headers were right.
    decides "ofed true" --kernel "$at/fits"
    # The kernel has it too, and the module's other symbols fit that kernel: an OFED was missing or another.
    decides "ofed false" --module "$peer" --kernel "$at/fits"
    says "it was built with this kernel's headers"
    decides "kernel false" --module "$peer" --kernel "$at/other"
    says "it was built with another kernel's headers"
    decides "kernel false" --kernel "$at/vmlinux"
    decides "ofed false" --kernel "$at/vmlinux" --with "$at/fits"
    decides "nvidia false" --kernel "$at/vmlinux" --with "$at/nvidia"
    run_slipway 0 explain "peer: disagrees about version of symbol ib_register_peer_memory_client"
    says "input    ofed (guessed from the symbol's name"
    run_slipway 0 explain --json "peer: disagrees about version of symbol module_layout"
    [ "$(jq -r '.findings[0] | "\(.input) \(.guessed)"' <<<"$output")" = "kernel false" ]
}

@test "a message that says only that it failed: the load proof says why, and which input it was" {
    local at=$BATS_TEST_TMPDIR failed="insmod: ERROR: could not insert module peer.ko:"
    printf '0x%08x\t%s\tvmlinux\tEXPORT_SYMBOL\t\n' 7 printk 0x8e6daf35 ib_register_peer_memory_client | kernel_of "$at/good"
    printf '0x%08x\tprintk\tvmlinux\tEXPORT_SYMBOL\t\n' 7 | kernel_of "$at/none"
    printf '0x%08x\t%s\n' 7 "printk	vmlinux	EXPORT_SYMBOL	" 0x22222222 "ib_register_peer_memory_client	drivers/infiniband/core/ib_core	EXPORT_SYMBOL	" |
        kernel_of "$at/inbox"
    [ "$(only --kernel "$at/inbox" "$failed Invalid argument" | tail -n 1)" = ofed ]
    run_slipway 0 explain --module "$BATS_FILE_TMPDIR/peer.ko" --kernel "$at/inbox" "$failed Invalid argument"
    says "0x8e6daf35" "0x22222222" "input    ofed" "build with --ofed set to"
    run_slipway 0 explain --module "$BATS_FILE_TMPDIR/peer.ko" --kernel "$at/none" "$failed Unknown symbol in module"
    says "ib_register_peer_memory_client" "input    ofed (guessed"
    # Another answer than the line has: said, and not taken for its cause.
    run_slipway 0 explain --module "$BATS_FILE_TMPDIR/peer.ko" --kernel "$at/none" "$failed Exec format error"
    says 'expects another error, "No such file or directory"'
    run_slipway 0 explain --module "$BATS_FILE_TMPDIR/peer.ko" --kernel "$at/good" "$failed Exec format error"
    says "according to the load proof" "the node runs another kernel or has another file"
}

@test "a refused key: an unsigned module is the proof's own finding; EPERM names the signature too" {
    printf '0x%08x\t%s\tvmlinux\tEXPORT_SYMBOL\t\n' 7 printk 0x8e6daf35 ib_register_peer_memory_client | kernel_of "$BATS_TEST_TMPDIR/k"
    run_slipway 0 explain --module "$BATS_FILE_TMPDIR/peer.ko" --kernel "$BATS_TEST_TMPDIR/k" "peer: Key was rejected by service"
    says "is not signed" "input    signature" "the kernel's message"
    run_slipway 0 explain --module "$BATS_FILE_TMPDIR/peer.ko" "insmod: ERROR: could not insert module peer.ko: Operation not permitted"
    says "peer.ko is not signed"
}

elf_name() {
    modinfo -F name "$BATS_FILE_TMPDIR/peer.ko"
}

@test "another module than the one that the lines are about" {
    run_slipway 0 explain --module "$BATS_FILE_TMPDIR/peer.ko" "e1000: disagrees about version of symbol module_layout"
    says "but the text is about e1000"
}

@test "vermagic: what differs, and whether the file is the one that was refused" {
    run_slipway 0 explain --module "$BATS_FILE_TMPDIR/peer.ko" \
        "$(elf_name): version magic '6.1.0-1-amd64 SMP ' should be '6.1.0-2-amd64 SMP '"
    says 'another release: "6.1.0-1-amd64" when it was compiled, "6.1.0-2-amd64" in the kernel' \
        "it is not the file that the kernel tried to load"
}

@test "a signature error, with the module: says whether it is signed, and by whom" {
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
    says "no known error in 1 line"
    run_slipway 4 explain - </dev/null
}

@test "names with special characters are taken as they are" {
    # shellcheck disable=SC2016
    run_slipway 0 explain --json '%s%n: Unknown symbol $(id) (err -2)' "x: Unknown symbol a.b.c (err -2)" '[[.*: disagrees about'
    [ "$(jq -r '.findings[].symbols[]' <<<"$output")" = a.b.c ]
}

@test "the command line" {
    run_slipway 2 explain
    says "the text is missing"
    run_slipway 2 explain --module "$BATS_TEST_TMPDIR/none.ko" x
    says "none.ko"
    run_slipway 2 explain --kernel "$BATS_TEST_TMPDIR" x
    says "no kernel in this folder"
    run_slipway 2 explain --kernel "$BATS_TEST_TMPDIR/none" x
    says "--kernel $BATS_TEST_TMPDIR/none"
    run_slipway 2 explain --trust "$BATS_FILE_TMPDIR/peer.ko" x
    says "--trust"
    run_slipway 2 explain --with "$BATS_FILE_TMPDIR/none" x
    says "--with"
    run_slipway 0 explain --help
    says --module --kernel --with --trust --json --offline
}

@test "--kernel and --with are what they are to verify: a release, a Module.symvers, an image" {
    local at=$BATS_TEST_TMPDIR line="peer: disagrees about version of symbol ib_register_peer_memory_client"
    # Nothing of it is there, and nothing may be fetched: the release was understood.
    SLIPWAY_CACHE=$at/cache SLIPWAY_MIRRORS=/dev/null run_slipway 21 explain --offline --os debian12 --kernel 6.1.0-1-amd64 "$line"
    says "its package lists are not in the cache and cannot be fetched with --offline"
    symvers "$at/list" 7 vmlinux
    run_slipway 0 explain --json --kernel "$at/list" "$line"
    [ "$(jq -r '.findings[0] | "\(.input) \(.guessed)"' <<<"$output")" = "kernel false" ]
    # An archive with modules, as an image has them: peer exports nothing, so the name has to do.
    mkdir -p "$at/root/lib/modules/6.1.0-1-test/updates/ofed"
    symvers "$at/root/lib/modules/6.1.0-1-test/updates/ofed/Module.symvers" 7 drivers/infiniband/core/ib_core
    tar -C "$at/root" -cf "$at/root.tar" lib
    SLIPWAY_CACHE=$at/cache run_slipway 0 explain --json --with "$at/root.tar" "$line"
    [ "$(jq -r '.findings[0] | "\(.input) \(.guessed)"' <<<"$(sed -n '/^{/,$p' <<<"$output")")" = "ofed false" ]
    printf 'nothing known\n' >"$at/text"
    SLIPWAY_CACHE=$at/cache run_slipway 2 explain --with "$at/text" "$line"
    says "$at/text"
    [[ $output != *NUL* ]]
}

@test "a line without the module in front, as people copy it" {
    explained version-symbol ofed "disagrees about version of symbol ib_register_peer_memory_client"
    explained version-symbol kernel disagrees about version of symbol module_layout
    explained symbol-unknown ofed "Unknown symbol ib_alloc_device (err -2)"
    explained symbol-version kernel "Unknown symbol printk (err -22)"
    explained vermagic kernel "version magic '6.1.0-1-amd64 SMP ' should be '6.1.0-2-amd64 SMP '"
    [ "$(jq -r '.findings[0].module' <<<"$output")" = "" ]
    run_slipway 4 explain "symbol module_layout"
}

@test "a file that is no whole module is the explanation, not a failure" {
    local at=$BATS_TEST_TMPDIR failed="insmod: ERROR: could not insert module cut.ko:"
    head -c 1000 "$BATS_FILE_TMPDIR/peer.ko" >"$at/cut.ko"
    run_slipway 0 explain --module "$at/cut.ko" "$failed Invalid module format"
    says "not a complete kernel module" "cut.ko" "input    file" "fetch or build the image again"
    [ "$(grep -c '^  do ' <<<"$output")" -eq 1 ]
    echo "#!/bin/sh" >"$at/cut.ko"
    run_slipway 0 explain --json --module "$at/cut.ko" "$failed Exec format error"
    [ "$(jq -r '.findings[0] | "\(.input) \(.guessed)"' <<<"$output")" = "file false" ]
    # Of symbols it says nothing, and of another module neither.
    run_slipway 0 explain --json --module "$at/cut.ko" "cut: Unknown symbol printk (err -2)"
    [ "$(jq -r '.findings[0].input' <<<"$output")" = kernel ]
    run_slipway 0 explain --module "$at/cut.ko" "insmod: ERROR: could not insert module e1000.ko: Invalid module format"
    says "is cut, but the text is about e1000" "input    kernel"
}

@test "a symbol that the file does not use: the node has another file; one that fits: the same" {
    local at=$BATS_TEST_TMPDIR peer=$BATS_FILE_TMPDIR/peer.ko
    symvers "$at/list" 7 vmlinux
    : >"$at/symvers"
    run_slipway 0 explain --module "$peer" --kernel "$at/list" --with "$at/list" "peer: disagrees about version of symbol ib_foo"
    says "does not use ib_foo at all: the node has another file" "input    node" "compare them with the node"
    [[ $output != *"guessed"* && $output != *"rebuild with --kernel"* ]]
    run_slipway 0 explain --module "$peer" --kernel "$at/list" "peer: disagrees about version of symbol printk"
    says "they match, so the node runs another build" "input    node" "compare them with the node"
    [[ $output != *"rebuild with --kernel"* ]]
    # With all three given none of them is still to be asked for.
    run_slipway 0 explain --module "$peer" --kernel "$at/list" --with "$at/list" "e1000: disagrees about version of symbol ib_foo"
    says "guessed from the symbol's name: none of the given files exports it"
    run_slipway 0 explain --kernel "$at/list" "peer: disagrees about version of symbol ib_foo"
    says "to be sure, give --module, --kernel and --with"
}

@test "a refused key of a signed module: --trust distinguishes damaged, another's and good" {
    cd "$BATS_TEST_TMPDIR" || return
    local name said="insmod: ERROR: could not insert module set/peer.ko: Key was rejected by service"
    for name in own other; do
        openssl req -x509 -noenc -days 30 -subj "/CN=$name" -newkey rsa:2048 -keyout "$name.key" -out "$name.pem" 2>/dev/null
    done
    mkdir set
    cp "$BATS_FILE_TMPDIR/peer.ko" set
    run_slipway 0 explain --module set/peer.ko "$said"
    says "this module has none" "do       sign it with slipway sign, with the key"
    run_slipway 0 sign --key own.key --cert own.pem --hash sha256 set
    run_slipway 0 explain --module set/peer.ko "$said"
    says "is signed with PKCS#7 by own" "check the signature with --trust and the certificate" "slipway sign --replace"
    [[ $output != *"only signed modules"* && $output != *missing* ]]
    run_slipway 0 explain --module set/peer.ko --trust own.pem "$said"
    says "its signature is good by the certificates" "enrol it"
    run_slipway 0 explain --module set/peer.ko --trust other.pem "$said"
    says "not signed with a trusted key" "slipway sign --replace"
    # One byte of a string that no loader looks at.
    LC_ALL=C sed -i 's/second=third/second=thirD/' set/peer.ko
    run_slipway 0 explain --module set/peer.ko --trust other.pem --trust own.pem "$said"
    says "does not match its" "input    signature" "fetch the file again" "slipway sign --replace"
}

@test "--list prints every message of the table, and the reasons of containers" {
    local line
    run_slipway 0 explain --list
    while read -r line; do
        says " $line"
    done < <(sed -n 's/^line //p' "$repository/cli/explain/causes.txt")
    says "MODULE_IN_USE          [MODULE_IN_USE]" $'\nofed\n'
    run_slipway 2 explain --list text
}

@test "what slipway itself, its containers and the kubelet say" {
    local reasons codes name code
    mapfile -t reasons < <(sed -nE 's/^### ([A-Z_]+) \([0-9]+\)$/\1/p' "$repository/docs/reasons.md")
    [ "${#reasons[@]}" -gt 20 ]
    for name in "${reasons[@]}"; do
        run_slipway 0 explain "gpu   12.345 s  gave up [$name]: nothing was touched"
        says "$name, exit code " "  do  "
        [[ $output != *'](#'* && $output != *'`'* ]]
    done
    run_slipway 0 explain NO_NVIDIA_DEVICE
    says "every GPU of this node is older" "Nothing was unloaded, unless nvidia itself found none."
    run_slipway 0 explain 16
    says "MODULE_IN_USE" "exit code 16 of slipway: a server is slow"
    run_slipway 0 explain "      Exit Code:    16"
    says "MODULE_IN_USE"
    [[ $output != *"of slipway"* ]]
    # A container that ended well, and an event, hide nothing.
    run_slipway 0 explain "      Exit Code:    0" "NVRM: Xid (PCI:0000:3b:00): 31, pid=1" \
        "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument"
    says "EINVAL" "used the GPU wrongly"
    [[ $output != *"Nothing is wrong"* ]]
    run_slipway 4 explain exit
    run_slipway 0 explain '{"time":"2026-11-28T21:00:00Z","role":"gpu","event":"gave up","reason":"LOAD_FAILED","message":"x"}'
    says "LOAD_FAILED, exit code 17"
    run_slipway 0 explain "ofed      24.07  ! not restored: ens1f0: its bridge"
    says "NETWORK_INCOMPLETE"
    mapfile -t codes < <(sed -n 's/^\tEXIT_CODE_[A-Z_]* = \([0-9]*\),.*/\1/p' "$repository/cli/exit_code.h")
    [ "${#codes[@]}" -gt 20 ]
    for code in "${codes[@]}"; do
        run_slipway 0 explain "$code"
        says "exit code $code of slipway"
    done
    run_slipway 4 explain 99
    run_slipway 0 explain 'Failed to pull image "r.example/a/driver:580-6.12.117_deb13-amd64-debian13": rpc error: code = NotFound desc = x: not found'
    says "source of version 580," "--kernel 6.12.117+deb13-amd64 --os debian13 --ofed SOURCE --nvidia SOURCE" "--registry r.example/a;"
    run_slipway 0 explain 'Failed to pull image "r/doca-driver:24.07-0.6.0.1-6.16.8-1-default-opensuse-tumbleweed20251120-amd64": manifest unknown'
    says "--kernel 6.16.8-1-default --os opensuse-tumbleweed --os-version 20251120 --ofed SOURCE --nvidia none"
    run_slipway 0 explain 'Failed to pull image "r/doca-driver:24.07-0.6.0.1-6.4.0-150600.23.47-default-opensuse-leap15.6-amd64": manifest unknown'
    says "source of version 24.07-0.6.0.1," "--kernel 6.4.0-150600.23.47-default --os opensuse-leap15.6 --ofed SOURCE --nvidia none" \
        "--registry r; sh out/push.sh"
    run_slipway 0 explain 'Failed to pull image "doca-driver:24.07-0.6.0.1-2-5.14.0-503.11.1.el9_5.x86_64-rocky9.5-amd64": manifest unknown' \
        'Failed to pull image "r/driver:535-2-5.14.0-503.11.1.el9_5.x86_64-rocky9": manifest unknown' \
        'Failed to pull image "r/driver:580-6.6.57.1-7.azl3-azurelinux3.0": manifest unknown' \
        'Failed to pull image "r/driver:580-6.12.9_bpo-amd64-debian12": manifest unknown'
    says "of version 24.07-0.6.0.1," "--kernel 5.14.0-503.11.1.el9_5.x86_64 --os rocky9 --ofed SOURCE --nvidia none --revision 2" \
        "sh out/push.sh REGISTRY" "of version 535," "--nvidia SOURCE --revision 2" "--kernel 6.6.57.1-7.azl3 --os azurelinux3" \
        "--kernel 6.12.9+bpo-amd64 --os debian12"
    run_slipway 0 explain 'Failed to pull image "r/driver:535.261.03-debian12": not found'
    says "slipway build --sources-image or slipway combine"
    run_slipway 0 explain 'Failed to pull image "r/other:1": x: not found'
    says "skopeo list-tags docker://r/other"
    for name in ImagePullBackOff "Error: ErrImagePull" "Back-off restarting failed container x" \
        "Startup probe failed: x" "Failed to initialize NVML: Driver/library version mismatch" \
        'Failed to pull image "r/driver:1": 401 Unauthorized'; do
        run_slipway 0 explain "$name"
    done
    says "imagePullSecrets"
    run_slipway 0 explain 5
    says "input    kernel"
    run_slipway 0 explain 7
    says "input    none"
    run_slipway 2 status
    says "kubectl exec POD -- slipway-init status"
}

@test "tags that no operator asks for, a registry that is not ours, a kernel that no distribution has" {
    pulled r.example/a/driver:580-6.1.0-57-amd64-debian12-unproven
    says "slipway build --force made it, and no operator asks for this tag: correct driver.version in the policy" \
        "--kernel 6.1.0-57-amd64 --os debian12"
    pulled r/driver:580.95.05-6.1.0-57-amd64-debian12-6.1.0-57-amd64-debian12
    says 'set driver.version in the policy to "580": the operator appends kernel and os'
    [[ $output != *"slipway build"* ]]
    pulled r/driver:535.261.03-debian12-debian12 \
        r/doca-driver:24.07-0.6.0.1-6.4.0-1-default-opensuse-leap15.6-amd64-6.4.0-1-default-opensuse-leap15.6-amd64
    says 'set driver.version in the policy to "535.261.03"' 'set ofedDriver.version in the policy to "24.07-0.6.0.1"'
    pulled nvcr.io/nvidia/driver:580-6.1.0-57-amd64-debian12 nvcr.io/nvidia/cloud-native/x:1
    says "set driver.repository in the policy to a registry of your own" "sh out/push.sh REGISTRY" "docker://nvcr.io/nvidia/cloud-native/x"
    [[ $output != *"--registry nvcr.io"* && $output != *"push it there"* ]]
    pulled r/driver:535-3.10.0-1160.el7.custom.x86_64-centos7
    says "--kernel-from PATH --os centos7" "build folder of 3.10.0-1160.el7.custom.x86_64"
}

@test "the output of kubectl describe: the command once for each image, and no advice to describe it" {
    local image=r.example/a/driver:580-6.1.0-57-amd64-debian12
    run_slipway 0 explain - <<LOG
      Reason:       ImagePullBackOff
  Warning  Failed   kubelet  Failed to pull image "$image": rpc error: code = NotFound desc = $image: not found
  Warning  Failed   kubelet  Error: ErrImagePull
  Normal   BackOff  kubelet  Back-off pulling image "$image"
  Warning  Failed   kubelet  Error: ImagePullBackOff
  Normal   BackOff  kubelet  Back-off pulling image "r/doca-driver:1-6.1.0-57-amd64-debian12-amd64"
insmod: ERROR: could not insert module x.ko: Invalid argument
LOG
    [ "$(grep -o 'slipway build' <<<"$output" | wc -l)" -eq 2 ]
    [ "$(grep -c '^  do ' <<<"$output")" -eq 3 ]
    [[ $output != *"kubectl describe"* ]]
    run_slipway 0 explain "      Reason:       ImagePullBackOff"
    says "the pod's events name the image"
    [[ $output != *"kubectl describe"* ]]
    run_slipway 0 explain 'Failed to pull image "r/driver:1": write /var/lib/x: no space left on device'
    says "df -h" "crictl rmi --prune"
}

@test "pods that do not start, and how containers end" {
    explained start-processor arch "exec /usr/bin/nvidia-driver: exec format error"
    explained errno-enoexec kernel "modprobe: ERROR: could not insert 'foo': Exec format error"
    run_slipway 0 explain --json 'MountVolume.SetUp failed for volume "x" : hostPath type check failed: /run/mellanox/drivers is not a directory' \
        'spec: failed to generate spec: path "/run/nvidia" is mounted on "/run" but it is not a shared mount' \
        "0/5 nodes are available: 1 node(s) had untolerated taint {x: }, 4 node(s) didn't match Pod's node affinity/selector. preemption: 0/5" \
        "nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown" "manifest unknown"
    found mount-folder mount-shared schedule-labels smi-driver image-unknown
    says "mount --make-rshared /run;" "kubectl get node --show-labels"
    # The message has the reason, the exit code adds nothing to it.
    # shellcheck disable=SC2016
    run_slipway 0 explain --json "      Reason:       StartError" "      Exit Code:    128" \
        'runc create failed: unable to start container process: exec: "nvidia-driver": executable file not found in $PATH: unknown'
    found start-program
    run_slipway 0 explain --json "Exit Code:    "{126,128,137,139,143}
    found killed crashed terminated start-refused start-code
}

@test "Xids in few words; lines of mlx5" {
    local line
    for line in "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', GPU has fallen off the bus." "Xid 79" xid79 "Xid: 79" "Xid (PCI:0000:3b:00): 79"; do
        explained xid-79 node "$line"
    done
    explained gpu-xid node "NVRM: Xid (PCI:0000:3b:00): 93, x"
    explained xid-memory node "XidCriticalError: Xid=48 on Device=GPU-1"
    run_slipway 4 explain "dhclient: xid 0x3bdfe, xid=17a, fluxid 79"
    run_slipway 0 explain "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)" \
        "NVRM: Xid (PCI:0000:3c:00): 154, GPU recovery action changed from 0x2 (Node Reboot Required) to 0x0 (None)" "Xid 154"
    says "before it works again: Node Reboot Required" "the GPU needs no recovery" "the line itself says"
    run_slipway 0 explain --json "mlx5_core 0000:3b:00.0: poll_health:825:(pid 0): Fatal error 1 detected" \
        "mlx5_core 0000:3b:00.0 ens1f0np0: TX timeout detected" \
        "mlx5_core 0000:3b:00.0: mlx5_cmd_out_err:839:(pid 1): CREATE_EQ(0x301) op_mod(0x0) failed, status bad resource(0x5), syndrome (0x5d2e3c), err(-22)" \
        "mlx5_core 0000:3b:00.0: mlx5_cmd_check:712:(pid 1): CREATE_EQ(0x301) op_mod(0x0) failed, status bad resource(0x5), syndrome (0x5d2e3c)" \
        "mlx5_core 0000:3b:00.0: Port module event: module 0, Cable unplugged"
    found mlx5-fatal transmit-timeout mlx5-command mlx5-unplugged
    says "command CREATE_EQ: bad resource(0x5), syndrome 0x5d2e3c" "ens1f0np0 did not send"
    explained mlx5-init node "mlx5_core 0000:01:00.0: probe_one:1770:(pid 1): mlx5_init_one failed with error code -110"
    says "did not answer in time"
}

@test "a misspelt reason: what was meant" {
    run_slipway 0 explain WILL_NOT_LAD
    says "did you mean WILL_NOT_LOAD?" "slipway explain WILL_NOT_LOAD" "slipway explain --list"
    run_slipway 0 explain WONT_LOAD
    says "did you mean WILL_NOT_LOAD?"
    run_slipway 0 explain MODULE-IN-USE
    says "did you mean MODULE_IN_USE?"
    run_slipway 4 explain SOMETHING_ELSE
}

@test "each finding of slipway verify by its id, which is no word of a log's line" {
    local id count=0
    # shellcheck disable=SC2016
    while read -r id; do
        run_slipway 0 explain "$id"
        says "$id, a finding of slipway verify: " "  do       "
        count=$((count + 1))
    done < <(sed -n '/^## Findings/,/^## slipway explain/ s/^- \(`[^:]*`\): .*/\1/p' "$repository/docs/verify.md" | grep -o '[a-z][a-z-]*')
    [ "$count" -gt 45 ]
    run_slipway 0 explain symbol-version
    says "built for another CRC of a symbol than its exporter has" "do       Rebuild it, or the module that exports the symbol"
    run_slipway 4 explain "the machine symbol-version here"
    run_slipway 4 explain taint
}
