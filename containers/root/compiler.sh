#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Called in a build root: gives the compiler that made the kernel the name that recipes know it by. compiler.sh gcc-12 links
# gcc-12, gcc12-gcc, gcc, or a gcc-toolset's gcc under /usr/local/bin/gcc-12, whichever is of that version.
# Without a version (gcc) any will do.
set -eu
name=$1
family=${name%%-*}
version=${name#"$family"}
version=${version#-}

# Is program $1 of the version? "12" of 12.2.0, "4.8" of 4.8.5.
fits() {
    [ -x "$1" ] || return 1
    found=$("$1" -dumpversion 2>/dev/null) || return 1
    case $found. in
        "${version:-${found%%.*}}".*) return 0 ;;
        *) seen="$seen${seen:+, }$1 $found" && return 1 ;;
    esac
}

seen=''
compiler=''
for path in "/usr/bin/$name" "/usr/bin/$family$version-$family" "/usr/bin/$family$version" "/usr/bin/$family" /opt/rh/*toolset-"$version/root/usr/bin/$family"; do
    if fits "$path"; then
        compiler=$path
        break
    fi
done
if [ -z "$compiler" ]; then
    echo "compiler.sh: no $name among this distribution's compilers (${seen:-there are none}): choose one with --compiler" >&2
    exit 1
fi
mkdir -p /usr/local/bin
if [ "$compiler" != "/usr/bin/$name" ]; then
    ln -sf "$compiler" "/usr/local/bin/$name"
    # Its own assembler and linker come along.
    case $compiler in
        /opt/rh/*)
            for tool in as ld ld.bfd objcopy objdump; do
                [ ! -x "${compiler%/*}/$tool" ] || ln -sf "${compiler%/*}/$tool" "/usr/local/bin/$tool"
            done
            ;;
    esac
fi
case $compiler in
    *[0-9]-gcc) cplusplus=${compiler%gcc}g++ ;;
    *) cplusplus=${compiler%/*}/g++${compiler##*/gcc} ;;
esac
if [ "$family" = gcc ] && [ -n "$version" ] && [ -x "$cplusplus" ] && [ ! -e "/usr/bin/g++-$version" ]; then
    ln -sf "$cplusplus" "/usr/local/bin/g++-$version"
fi
# A kernel that clang and lld made wants LLVM's other tools, under names with the version.
if [ "$family" = clang ] && [ -n "$version" ]; then
    for tool in ld.lld llvm-ar llvm-nm llvm-objcopy llvm-objdump llvm-readelf llvm-strip; do
        [ ! -x "/usr/bin/$tool" ] || [ -e "/usr/bin/$tool-$version" ] || ln -sf "/usr/bin/$tool" "/usr/local/bin/$tool-$version"
    done
fi
