/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a repomd.xml. */
#include <stddef.h>
#include <stdint.h>

#include "kernels/repo/repo_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct repomd repomd;
	struct error error = { 0 };

	if (repomd_parse((const char *) data, size, "repomd.xml", "http://mirror.invalid/os",
		    &repomd, &error) < 0) {
		if (!error.text[0])
			abort();
		return 0;
	}
	if (!package_path_is_safe(repomd.path))
		abort();
	repomd_free(&repomd);
	return 0;
}
