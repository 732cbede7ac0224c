/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a System.map, whose exports are then symvers. */
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include "common/cleanup.h"
#include "module/symvers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_close_ int fd = memfd_create("map", MFD_CLOEXEC);
	_cleanup_(symvers_close) struct symvers *symvers = NULL;
	struct error error = { 0 };
	char path[64];

	if (fd < 0 || write(fd, data, size) != (ssize_t) size || symvers_new(&symvers) < 0)
		abort();
	(void) snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (symvers_add_system_map(symvers, AT_FDCWD, path, &error) < 0 && !error.text[0])
		abort();
	for (size_t i = 0; i < symvers_count(symvers); i++)
		if (symvers_find(symvers, symvers_at(symvers, i)->symbol) != symvers_at(symvers, i))
			abort();
	return 0;
}
