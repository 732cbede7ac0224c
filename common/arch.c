/* SPDX-License-Identifier: Apache-2.0 */
#include "common/arch.h"

#include <string.h>

const struct arch archs[] = {
	{ "x86_64", "amd64" },
	{ "aarch64", "arm64" },
	{ "ppc64le", "ppc64el" },
	{ "s390x", "s390x" },
	{ "riscv64", "riscv64" },
	{ "loongarch64", "loong64" },
	{ "i686", "i386" },
	{ "armv7l", "armhf" },
	{ NULL, NULL },
};

const struct arch *arch_find(const char *name)
{
	for (const struct arch *arch = archs; arch->uname; arch++)
		if (strcmp(arch->uname, name) == 0 || strcmp(arch->debian, name) == 0)
			return arch;
	return NULL;
}

const char *arch_debian(const char *uname)
{
	const struct arch *arch = arch_find(uname);

	return arch ? arch->debian : uname;
}
