# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# Kernel modules of our own: objects with the sections that kbuild leaves in a .ko, made to order. Never loaded.
#   make_module FILE NAME FACT…   facts are KEY=VALUE: of .modinfo (license=, depends=, firmware=, parm=, softdep= …), and
#     krel=RELEASE                its vermagic is that of kernel-from.bash's kernels; vermagic= says it whole
#     uses=SYMBOL:CRC             calls it, by a PLT32 as today's assemblers have it; without a CRC it has no version of it
#     exports=SYMBOL:CRC          likewise exports_gpl=
#     layout=CRC                  of module_layout; "" leaves all versions out
#     struct=BYTES                sizeof(struct module)
# Sources of the form: Linux scripts/mod/modpost.c, include/linux/export-internal.h.

module_export() {
    local section=$1 symbol=${2%%:*} crc=${2#*:}
    printf '%s\n' "void $symbol(void);" "void $symbol(void) {}" \
        "asm(\".section __ksymtab_strings,\\\"aMS\\\",@progbits,1\\n__kstrtab_$symbol: .asciz \\\"$symbol\\\"\\n\"" \
        "    \"__kstrtabns_$symbol: .asciz \\\"\\\"\\n.previous\\n.section __ksymtab$section,\\\"a\\\"\\n.balign 4\\n\"" \
        "    \"__ksymtab_$symbol: .long $symbol - .\\n.long __kstrtab_$symbol - .\\n.long __kstrtabns_$symbol - .\\n.previous\\n\"" \
        "    \".section __kcrctab$section,\\\"a\\\"\\n.balign 4\\n__crc_$symbol: .long $crc\\n.previous\");"
}

module_info() {
    echo "INFO(info_$((++infos)), \"$1\");"
}

module_source() {
    local infos=0 name=$1 fact versions='' layout=0x01234567 struct=1024 vermagic='' license=GPL symbol
    shift
    printf '%s\n' '#define INFO(name, text) static const char name[] __attribute__((section(".modinfo"), used, aligned(1))) = text' \
        'struct version { unsigned long crc; char name[64 - sizeof(unsigned long)]; };' \
        '#define USES(symbol) extern void symbol(void); static void __attribute__((used)) use_##symbol(void) { symbol(); }'
    for fact in "$@"; do
        local key=${fact%%=*} value=${fact#*=}
        case $key in
            krel) vermagic="$value SMP mod_unload modversions " ;;
            vermagic) vermagic=$value ;;
            license) license=$value ;;
            layout) layout=$value ;;
            struct) struct=$value ;;
            uses)
                symbol=${value%%:*}
                echo "USES($symbol);"
                [[ $value != *:* ]] || versions+="{ ${value#*:}, \"$symbol\" },"
                ;;
            exports) module_export '' "$value" ;;
            exports_gpl) module_export _gpl "$value" ;;
            *) module_info "$key=$value" ;;
        esac
    done
    module_info "name=$name"
    [[ -z $license ]] || module_info "license=$license"
    [[ -z $vermagic ]] || module_info "vermagic=$vermagic"
    [[ -z $layout ]] ||
        echo "static const struct version versions[] __attribute__((section(\"__versions\"), used)) = { { $layout, \"module_layout\" }, $versions };"
    # Its begin on 64-bit machines: state, list, name.
    echo "static const struct { int state; void *list[2]; char name[56]; char rest[$struct - 80]; } this_module" \
        "__attribute__((section(\".gnu.linkonce.this_module\"), used, aligned(64))) = { .name = \"$name\" };"
}

make_module() {
    local file=$1
    shift
    mkdir -p "$(dirname "$file")"
    module_source "$@" | gcc -std=gnu11 -O1 -ffreestanding -fno-pic -fno-stack-protector \
        -fno-asynchronous-unwind-tables -r -nostdlib -Wl,--build-id -x c -o "$file" -
}
