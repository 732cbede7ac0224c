/* SPDX-License-Identifier: Apache-2.0 */
#include "common/arch.h"

#include <elf.h>
#include <string.h>
#include <sys/utsname.h>

#define ELF64_LITTLE ELFCLASS64, ELFDATA2LSB
#define ELF64_BIG    ELFCLASS64, ELFDATA2MSB
#define ELF32_LITTLE ELFCLASS32, ELFDATA2LSB

const struct arch archs[] = {
	{ "x86_64", "amd64", "amd64", "x86_64-linux-gnu", "x86_64", "X86_64", "", EM_X86_64,
		ELF64_LITTLE, "x86_64", "x86-64" },
	{ "aarch64", "arm64", "arm64", "aarch64-linux-gnu", "arm64", "ARM64", "aarch64", EM_AARCH64,
		ELF64_LITTLE, "sbsa", "arm64" },
	{ "ppc64le", "ppc64el", "ppc64le", "powerpc64le-linux-gnu", "powerpc", "PPC64", "",
		EM_PPC64, ELF64_LITTLE, "", "ppc64-le" },
	{ "s390x", "s390x", "s390x", "s390x-linux-gnu", "s390", "S390", "", EM_S390, ELF64_BIG, "",
		"s390x" },
	{ "riscv64", "riscv64", "riscv64", "riscv64-linux-gnu", "riscv", "RISCV", "riscv", EM_RISCV,
		ELF64_LITTLE, "", "riscv64" },
	{ "loongarch64", "loong64", "loong64", "loongarch64-linux-gnu", "loongarch", "LOONGARCH",
		"", EM_LOONGARCH, ELF64_LITTLE, "", "loongarch64" },
	{ "i686", "i386", "386", "i386-linux-gnu", "i386", "X86_32", "", EM_386, ELF32_LITTLE, "",
		"x86" },
	{ "armv7l", "armhf", "arm", "arm-linux-gnueabihf", "arm", "ARM", "", EM_ARM, ELF32_LITTLE,
		"", "arm" },
	{ .uname = NULL },
};

/* PAGE_SIZE_… are of every machine from 6.9 on, and of a few before. */
const struct arch_page arch_pages[] = {
	{ "ARM64_64K_PAGES", 64 },
	{ "PAGE_SIZE_64KB", 64 },
	{ "PPC_64K_PAGES", 64 },
	{ "ARM64_16K_PAGES", 16 },
	{ "PAGE_SIZE_16KB", 16 },
	{ "PPC_16K_PAGES", 16 },
	{ NULL, 4 },
};

const struct arch *arch_find(const char *name)
{
	for (const struct arch *arch = archs; arch->uname; arch++)
		if (strcmp(arch->uname, name) == 0 || strcmp(arch->debian, name) == 0 ||
			strcmp(arch->oci, name) == 0)
			return arch;
	return NULL;
}

/* A part between signs is the whole word: "x86_64" of 5.14.0-427.el9.x86_64+rt. */
static const char *find_part(const char *krel, const char *part)
{
	static const char signs[] = "-.+~";
	size_t length = strlen(part);

	for (const char *at = strstr(krel, part); at; at = strstr(at + 1, part))
		if (at > krel && strchr(signs, at[-1]) &&
			(!at[length] || strchr(signs, at[length])))
			return at;
	return NULL;
}

const struct arch *arch_of_krel(const char *krel, const char **ret_name)
{
	for (const struct arch *arch = archs; arch->uname; arch++) {
		const char *name = find_part(krel, arch->uname);

		if (!name)
			name = find_part(krel, arch->debian);
		if (name && ret_name)
			*ret_name = name;
		if (name)
			return arch;
	}
	return NULL;
}

const struct arch *arch_of_machine(uint16_t machine)
{
	for (const struct arch *arch = archs; arch->uname; arch++)
		if (arch->machine == machine)
			return arch;
	return NULL;
}

const struct arch *arch_here(void)
{
	struct utsname system;
	const struct arch *arch = uname(&system) < 0 ? NULL : arch_find(system.machine);

	return arch ? arch : archs;
}

const char *arch_debian(const char *uname)
{
	const struct arch *arch = arch_find(uname);

	return arch ? arch->debian : uname;
}

const char *arch_oci(const char *uname)
{
	const struct arch *arch = arch_find(uname);

	return arch ? arch->oci : uname;
}
