/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a primary list: what is kept must be what the digest can hold. */
#include <stddef.h>
#include <stdint.h>

#include "kernels/repo/repo_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct strv keep = { 0 };
	struct package_list list = { 0 };
	struct error error = { 0 };
	uint64_t listed = 0;
	const struct primary_request request = {
		.name = "primary.xml",
		.url = "http://mirror.invalid/os",
		.arch = "x86_64",
		.keep = &keep,
		.packages = &list,
		.listed = &listed,
	};
	struct primary *primary = primary_new(&request);
	int r = primary_feed(primary, (const char *) data, size / 2, &error);

	if (r == 0)
		r = primary_feed(primary, (const char *) data + size / 2, size - size / 2, &error);
	if (r == 0)
		r = primary_finish(primary, &error);
	if ((r < 0 && !error.text[0]) || list.count > listed)
		abort();
	for (size_t i = 0; i < list.count; i++)
		if (package_check(&list.items[i], "primary.xml", &error) < 0)
			abort();
	primary_free(&primary);
	package_list_free(&list);
	return 0;
}
