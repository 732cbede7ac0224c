/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as an .rpm: refused, or its tags lie within what was read. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels/repo/rpm.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look(const struct rpm_section *section)
{
	static const uint32_t tags[] = { 267, 268, 1000, 1002, 1005, 5092 };
	static const enum rpm_type types[] = { RPM_TYPE_BINARY, RPM_TYPE_STRING_ARRAY };

	for (size_t i = 0; i < ARRAY_SIZE(tags) * ARRAY_SIZE(types); i++) {
		size_t size = 0;
		const unsigned char *found =
			rpm_section_find(section, tags[i / 2], types[i % 2], &size);

		if (found &&
			(found < section->bytes || found + size > section->bytes + section->size))
			abort();
		if (found && types[i % 2] == RPM_TYPE_STRING_ARRAY &&
			strlen((const char *) found) != size)
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(rpm_file_close) struct rpm_file file = { .fd = -1 };
	_cleanup_close_ int fd = memfd_create("fuzz", MFD_CLOEXEC);
	char path[64];

	if (fd < 0 || write(fd, data, size) != (ssize_t) size)
		abort();
	(void) snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (rpm_file_open(-1, path, &file) < 0)
		return 0;
	look(&file.signatures);
	look(&file.header);
	if (rpm_file_payload(&file) > (off_t) size)
		abort();
	return 0;
}
