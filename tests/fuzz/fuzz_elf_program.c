/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a program or library of an image. The seeds are a program and a small library. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli/programs/elf_program.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_close_ int fd = memfd_create("program", MFD_CLOEXEC);
	struct elf_program program;
	struct error error = { 0 };
	int r;

	if (fd < 0 || write(fd, data, size) != (ssize_t) size)
		abort();
	r = elf_program_read(fd, &program, &error);
	/* Whatever is wrong is reported in words. */
	if (r < 0 && r != -ENOEXEC && !error.text[0])
		abort();
	if (r == 0)
		elf_program_free(&program);
	return 0;
}
