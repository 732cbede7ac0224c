/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a System.map, whose exports are then symvers. */
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include "common/cleanup.h"
#include "module/symvers.h"
#include "module/system_map.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const struct system_map *map)
{
	_cleanup_(symvers_close) struct symvers *symvers = NULL;
	size_t count;
	const struct system_map_export *exports = system_map_exports(map, &count);

	if (symvers_new(&symvers) < 0 || symvers_add_system_map(symvers, map) < 0)
		abort();
	for (size_t i = 0; i < count; i++)
		if (!symvers_find(symvers, exports[i].symbol))
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_close_ int fd = memfd_create("map", MFD_CLOEXEC);
	_cleanup_(system_map_close) struct system_map *map = NULL;
	struct error error = { 0 };
	char path[64];

	if (fd < 0 || write(fd, data, size) != (ssize_t) size)
		abort();
	(void) snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (system_map_open(AT_FDCWD, path, &map, &error) == 0)
		use(map);
	else if (!error.text[0])
		abort();
	return 0;
}
