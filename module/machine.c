/* SPDX-License-Identifier: Apache-2.0 */
#include "module/machine.h"

#include <elf.h>
#include <string.h>

#include "common/cleanup.h"

uint16_t machine_of(const char *name)
{
	static const struct {
		const char *name;
		uint16_t machine;
	} machines[] = {
		{ "x86_64", EM_X86_64 },
		{ "aarch64", EM_AARCH64 },
		{ "ppc64le", EM_PPC64 },
		{ "s390x", EM_S390 },
		{ "riscv64", EM_RISCV },
		{ "armv7l", EM_ARM },
		{ "i686", EM_386 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(machines); i++)
		if (strcmp(machines[i].name, name) == 0)
			return machines[i].machine;
	return 0;
}
