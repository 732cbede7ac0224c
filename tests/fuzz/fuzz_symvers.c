/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a Module.symvers, read twice into one index. */
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include "common/cleanup.h"
#include "module/symvers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_close_ int fd = memfd_create("symvers", MFD_CLOEXEC);
	_cleanup_(symvers_close) struct symvers *symvers = NULL;
	const struct symvers_entry *entry;
	struct error error = { 0 };
	char path[64], name[16];
	size_t count;

	if (fd < 0 || write(fd, data, size) != (ssize_t) size)
		abort();
	(void) snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (symvers_open(AT_FDCWD, path, &symvers, &error) < 0) {
		if (!error.text[0])
			abort();
		return 0;
	}
	count = symvers_count(symvers);
	if (symvers_add(symvers, AT_FDCWD, path, &error) < 0 || symvers_count(symvers) != count)
		abort();
	entry = symvers_find(symvers, "a");
	if (entry)
		symvers_module_name(entry, name, sizeof(name));
	return 0;
}
