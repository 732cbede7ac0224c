# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
# The programs that kbuild runs for each module, compiled for this machine of the sources in a kernel tree that has them for
# its own architecture. Never by make scripts, scripts_basic or modules_prepare: those begin with syncconfig, and take
# include/generated/autoconf.h away where a header package has no Kconfig. Sourced by lib.sh, where they are needed.

# The first of both folders of the kernel tree that has file $1.
in_tree() {
    local folder
    for folder in "$kernel_build" "$kernel_source"; do
        [[ ! -e $folder/$1 ]] || { echo "$folder/$1" && return; }
    done
    return 1
}

configured() { grep -sqx "CONFIG_$1=y" "$kernel_build"/{.config,include/config/auto.conf}; }

# Dies by the name of the first program that cannot be made, before anything is compiled.
require_tool_sources() {
    local tool source wanted="scripts/basic/fixdep scripts/mod/modpost"
    ! configured MODVERSIONS || configured GENDWARFKSYMS || wanted+=" scripts/genksyms/genksyms"
    # These are made of many files of the whole source.
    ! configured GENDWARFKSYMS || wanted+=" scripts/gendwarfksyms/gendwarfksyms"
    ! configured OBJTOOL || wanted+=" tools/objtool/objtool"
    for tool in $wanted; do
        source=$(in_tree "$tool.c") && [[ $tool != */gendwarfksyms && $tool != */objtool ]] ||
            die "the kernel tree has ${tool##*/} for another machine only, and not what it is made of ($tool.c): give --kernel-from a package or tree that has it for this one"
    done
}

# What modpost takes from the kernel's headers of the lists of devices (scripts/mod/Makefile), by the compiler of the modules.
make_device_offsets() {
    local folder=$1 source list=$SLIPWAY_WORK/devicetable-offsets.s include
    local flags=(-nostdinc -D__KERNEL__ -DKBUILD_MODNAME='"x"' -O2 -std=gnu11 -fshort-wchar -fno-PIE -w)
    [[ ! -e $folder/devicetable-offsets.h ]] || return 0
    source=$(in_tree scripts/mod/devicetable-offsets.c) || die "the kernel tree has no scripts/mod/devicetable-offsets.c"
    for include in "arch/$ARCH/include" include; do
        flags+=(-I"$kernel_source/$include" -I"$kernel_build/$include/generated" -I"$kernel_source/$include/uapi"
            -I"$kernel_build/$include/generated/uapi")
        [[ $include != include ]] || flags+=(-I"$kernel_build/include")
    done
    for include in compiler-version kconfig compiler_types; do
        [[ ! -e $kernel_source/include/linux/$include.h ]] || flags+=(-include "$kernel_source/include/linux/$include.h")
    done
    [[ $ARCH != arm64 ]] || flags+=(-mgeneral-regs-only)
    "$target_cc" -S -o "$list" "${flags[@]}" "$source"
    # As scripts/Makefile.lib (sed-offsets) reads it.
    {
        echo '#pragma once'
        sed -n 's:^[[:space:]]*\.ascii[[:space:]]*"\(.*\)".*:\1:
            /^->/ { s:->#\(.*\):/* \1 */:; s:^->\([^ ]*\) [$#]*\([^ ]*\) \(.*\):#define \1 \2 /* \3 */:; s:->::; p }' "$list"
    } >"$folder/devicetable-offsets.h"
}

compile_host() { gcc -O2 -std=gnu11 -w -I "$tree_copy/scripts/include" -I "$kernel_source/include" "$@"; }

make_modpost() {
    local folder=$tree_copy/scripts/mod name sources=()
    make_device_offsets "$folder"
    # Both sides are of 64 bits and little-endian, which mk_elfconfig would find out.
    [[ -e $folder/elfconfig.h ]] || printf '#define %s\n' 'KERNEL_ELFCLASS ELFCLASS64' 'KERNEL_ELFDATA ELFDATA2LSB' \
        'HOST_ELFCLASS ELFCLASS64' 'HOST_ELFDATA ELFDATA2LSB' >"$folder/elfconfig.h"
    for name in modpost file2alias sumversion symsearch; do
        [[ ! -e $folder/$name.c ]] || sources+=("$folder/$name.c")
    done
    compile_host -I "$folder" -o "$folder/modpost" "${sources[@]}"
}

make_genksyms() {
    local folder=$tree_copy/scripts/genksyms
    [[ -e $folder/parse.tab.c ]] || (cd "$folder" && bison -t -l -o parse.tab.c --defines=parse.tab.h parse.y)
    [[ -e $folder/lex.lex.c ]] || (cd "$folder" && flex -L -o lex.lex.c lex.l)
    compile_host -I "$folder" -o "$folder/genksyms" "$folder"/{genksyms,parse.tab,lex.lex}.c
}

# Sets kernel_build, and kernel_source if that is the same folder, to a copy of links with such programs.
make_host_tools() {
    local name from
    require_tool_sources
    step "compile fixdep, modpost and genksyms for this machine: the kernel tree has those of $SLIPWAY_ARCH"
    tree_copy=$SLIPWAY_WORK/kernel
    rm -rf "$tree_copy"
    mkdir -p "$tree_copy"
    cp -rs --remove-destination "$(readlink -f "$kernel_build")/." "$tree_copy/"
    # A folder that is a link, as Debian's scripts, would be written to where it leads.
    rm -rf "$tree_copy/scripts"
    mkdir "$tree_copy/scripts"
    for from in "$kernel_source/scripts" "$kernel_build/scripts"; do
        [[ ! -d $from ]] || cp -rL --remove-destination "$from/." "$tree_copy/scripts/"
    done
    chmod -R u+w "$tree_copy/scripts"
    compile_host -o "$tree_copy/scripts/basic/fixdep" "$tree_copy/scripts/basic/fixdep.c"
    make_modpost
    ! configured MODVERSIONS || configured GENDWARFKSYMS || make_genksyms
    [[ $(readlink -f "$kernel_source") != "$(readlink -f "$kernel_build")" ]] || kernel_source=$tree_copy
    kernel_build=$tree_copy
}
