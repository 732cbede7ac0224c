/* SPDX-License-Identifier: Apache-2.0 */
/* What the programs in a kernel tree, which kbuild runs while it compiles a module, run on. */
#include "kernels/tree/tree.h"

#include <elf.h>
#include <endian.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>

#include "common/cleanup.h"

static const struct {
	uint16_t machine;
	unsigned char class;
	unsigned char data;
	const char *name;
} machines[] = {
	{ EM_X86_64, ELFCLASS64, ELFDATA2LSB, "x86_64" },
	{ EM_386, ELFCLASS32, ELFDATA2LSB, "i686" },
	{ EM_AARCH64, ELFCLASS64, ELFDATA2LSB, "aarch64" },
	{ EM_ARM, ELFCLASS32, ELFDATA2LSB, "armv7l" },
	{ EM_PPC64, ELFCLASS64, ELFDATA2LSB, "ppc64le" },
	{ EM_PPC64, ELFCLASS64, ELFDATA2MSB, "ppc64" },
	{ EM_S390, ELFCLASS64, ELFDATA2MSB, "s390x" },
	{ EM_RISCV, ELFCLASS64, ELFDATA2LSB, "riscv64" },
};

/* The name of the machine in an ELF header, "" when the file is not ELF. */
static const char *machine_of(const unsigned char *header)
{
	uint16_t machine;

	if (memcmp(header, ELFMAG, SELFMAG) != 0)
		return "";
	memcpy(&machine, header + offsetof(Elf64_Ehdr, e_machine), sizeof(machine));
	machine = header[EI_DATA] == ELFDATA2MSB ? be16toh(machine) : le16toh(machine);
	for (size_t i = 0; i < ARRAY_SIZE(machines); i++)
		if (machines[i].machine == machine && machines[i].class == header[EI_CLASS] &&
			machines[i].data == header[EI_DATA])
			return machines[i].name;
	return "an unknown machine";
}

static const char *program_machine(int root_fd, const char *path)
{
	_cleanup_close_ int fd = kernel_tree_openat(root_fd, path, O_RDONLY);
	unsigned char header[sizeof(Elf64_Ehdr)];

	if (fd < 0 || read(fd, header, sizeof(header)) != (ssize_t) sizeof(header))
		return "";
	return machine_of(header);
}

int kernel_tree_tools_arch(int root_fd, int build_fd, char **ret_arch)
{
	static const char *const programs[] = {
		"scripts/basic/fixdep",
		"scripts/mod/modpost",
		"tools/objtool/objtool",
	};
	_cleanup_free_ char *build = kernel_tree_path(root_fd, build_fd);
	const char *arch = "";

	for (size_t i = 0; build && !*arch && i < ARRAY_SIZE(programs); i++) {
		_cleanup_free_ char *path = NULL;

		if (asprintf(&path, "%s/%s", build, programs[i]) < 0)
			return -ENOMEM;
		arch = program_machine(root_fd, path);
	}
	*ret_arch = strdup(arch);
	return *ret_arch ? 0 : -ENOMEM;
}
