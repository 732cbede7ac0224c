# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
# The programs that kbuild runs for each module, for this machine, of a kernel tree that has them for its own architecture:
# compiled from the tree's sources, or run by qemu-user. Never by make scripts, scripts_basic or modules_prepare: those begin
# with syncconfig, and take include/generated/autoconf.h away where a header package has no Kconfig. Sourced by lib.sh, where
# they are needed.

# The first of both folders of the kernel tree that has file $1.
in_tree() {
    local folder
    for folder in "$kernel_build" "$kernel_source"; do
        [[ ! -e $folder/$1 ]] || { echo "$folder/$1" && return; }
    done
    return 1
}

configured() { grep -sqx "CONFIG_$1=y" "$kernel_build"/{.config,include/config/auto.conf}; }

# Sets unmade, the first program that cannot be compiled of what the tree has; "" if there is none.
find_unmade() {
    local wanted="scripts/basic/fixdep scripts/mod/modpost scripts/mod/file2alias"
    ! configured MODVERSIONS || configured GENDWARFKSYMS || wanted+=" scripts/genksyms/genksyms"
    # These two are made of many files of the whole source.
    ! configured GENDWARFKSYMS || wanted+=" scripts/gendwarfksyms/gendwarfksyms"
    ! configured OBJTOOL || wanted+=" tools/objtool/objtool"
    ! { configured DEBUG_INFO_BTF_MODULES && [[ -e $kernel_build/vmlinux ]]; } || wanted+=" tools/bpf/resolve_btfids/resolve_btfids"
    ! in_tree scripts/recordmcount >/dev/null || wanted+=" scripts/recordmcount"
    for unmade in $wanted; do
        in_tree "$unmade.c" >/dev/null && [[ $unmade != */gendwarfksyms && $unmade != */objtool ]] || return 0
    done
    unmade=''
}

# Makes devicetable-offsets.h, which modpost reads, with the modules' compiler (scripts/mod/Makefile).
make_device_offsets() {
    local folder=$1 source list=$SLIPWAY_WORK/devicetable-offsets.s include
    local flags=(-nostdinc -D__KERNEL__ -DKBUILD_MODNAME='"x"' -O2 -std=gnu11 -fshort-wchar -fno-PIE -w)
    [[ ! -e $folder/devicetable-offsets.h ]] || return 0
    source=$(in_tree scripts/mod/devicetable-offsets.c) || die "the kernel tree has no scripts/mod/devicetable-offsets.c"
    for include in "arch/${ARCH/x86_64/x86}/include" include; do
        flags+=(-I"$kernel_source/$include" -I"$kernel_build/$include/generated" -I"$kernel_source/$include/uapi"
            -I"$kernel_build/$include/generated/uapi")
        [[ $include != include ]] || flags+=(-I"$kernel_build/include")
    done
    for include in compiler-version kconfig compiler_types; do
        [[ ! -e $kernel_source/include/linux/$include.h ]] || flags+=(-include "$kernel_source/include/linux/$include.h")
    done
    [[ $ARCH != arm64 ]] || flags+=(-mgeneral-regs-only)
    [[ $target_cc != clang* ]] || flags+=("--target=${CROSS_COMPILE%-}")
    "$target_cc" -S -o "$list" "${flags[@]}" "$source"
    # As scripts/Makefile.lib (sed-offsets) reads it.
    {
        echo '#pragma once'
        sed -n 's:^[[:space:]]*\.ascii[[:space:]]*"\(.*\)".*:\1:
            /^->/ { s:->#\(.*\):/* \1 */:; s:^->\([^ ]*\) [$#]*\([^ ]*\) \(.*\):#define \1 \2 /* \3 */:; s:->::; p }' "$list"
    } >"$folder/devicetable-offsets.h"
}

compile_host() { gcc -O2 -std=gnu11 -w -I "$tree_copy/scripts/include" "$@"; }

make_modpost() {
    local folder=$tree_copy/scripts/mod name sources=()
    make_device_offsets "$folder"
    # modpost reads ../../include/linux/license.h and others, which may be in the other of both folders.
    mkdir -p "$tree_copy/include/linux"
    for name in license module_symbol mod_devicetable; do
        [[ -e $tree_copy/include/linux/$name.h || ! -e $kernel_source/include/linux/$name.h ]] ||
            ln -s "$kernel_source/include/linux/$name.h" "$tree_copy/include/linux/"
    done
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

# In place of each program of the tree a script that has qemu-user run it, under its own name: Debian's modpost starts
# another by that.
wrap_tools() {
    local file sysroot=/
    # The loader and the C library are packages of that architecture, or come with the cross compiler.
    [[ -e /lib/${CROSS_COMPILE%-}/libc.so.6 ]] || sysroot=/usr/${CROSS_COMPILE%-}
    while IFS= read -r -d '' file; do
        [[ $(LC_ALL=C head -c 4 "$file" | tail -c 3) == ELF ]] || continue
        mv "$file" "$file.$SLIPWAY_ARCH"
        echo "#!/bin/sh
exec qemu-$SLIPWAY_ARCH -L \"$sysroot\" -0 \"\$0\" \"\$0.$SLIPWAY_ARCH\" \"\$@\"" >"$file"
        chmod 755 "$file"
    done < <(find "$tree_copy/scripts" "$tree_copy/tools" -type f -perm -u+x ! -name "*.$SLIPWAY_ARCH" \
        -print0 2>/dev/null)
}

# Sets tree_copy: the folder of the kernel tree that is configured as links, but with programs that can be changed.
copy_kernel_tree() {
    local real from name
    # Debian's Makefile includes that of the source, which lies beside it.
    real=$(readlink -f "$kernel_build")
    tree_copy=$SLIPWAY_WORK/kernel/${real##*/}
    rm -rf "${tree_copy%/*}"
    mkdir -p "${tree_copy%/*}"
    ln -s "${real%/*}"/* "${tree_copy%/*}/"
    rm "$tree_copy"
    mkdir "$tree_copy"
    cp -rs "$real/." "$tree_copy/"
    # A folder that is a link, as Debian's scripts, would be written to where it leads.
    for name in scripts tools; do
        rm -rf "${tree_copy:?}/$name"
        mkdir "$tree_copy/$name"
        for from in "$kernel_source/$name" "$kernel_build/$name"; do
            [[ ! -d $from ]] || (cd "$from" && find -L . -type f -exec cp -L --parents --remove-destination -t "$tree_copy/$name" {} +)
        done
        chmod -R u+w "$tree_copy/$name"
    done
}

# Sets kernel_build, and kernel_source if that is the same folder, to a copy with programs that run here.
make_host_tools() {
    find_unmade
    [[ ! $unmade ]] || command -v "qemu-$SLIPWAY_ARCH" >/dev/null ||
        die "the kernel tree has ${unmade##*/} for $SLIPWAY_ARCH only, neither $unmade.c to compile it for this machine nor qemu-$SLIPWAY_ARCH in the build root to run it: give --kernel-from a package or tree that has it for this machine"
    copy_kernel_tree
    if [[ $unmade ]]; then
        step "run the kernel tree's own programs by qemu-$SLIPWAY_ARCH: it has no $unmade.c"
        wrap_tools
    else
        step "compile fixdep, modpost and genksyms for this machine: the kernel tree has those of $SLIPWAY_ARCH"
        compile_host -o "$tree_copy/scripts/basic/fixdep" "$tree_copy/scripts/basic/fixdep.c"
        [[ ! -e $tree_copy/scripts/recordmcount ]] ||
            compile_host -o "$tree_copy/scripts/recordmcount" "$tree_copy/scripts/recordmcount.c"
        make_modpost
        ! configured MODVERSIONS || configured GENDWARFKSYMS || make_genksyms
    fi
    [[ $(readlink -f "$kernel_source") != "$(readlink -f "$kernel_build")" ]] || kernel_source=$tree_copy
    kernel_build=$tree_copy
}
