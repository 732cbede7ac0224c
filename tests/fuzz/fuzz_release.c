/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a suite's Release text. */
#include <stddef.h>
#include <stdint.h>

#include "kernels/repo/repo_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct release release;
	struct error error = { 0 };

	if (release_parse((const char *) data, size, "Release", &release, &error) < 0) {
		if (!error.text[0])
			abort();
		return 0;
	}
	for (size_t i = 0; i < release.count; i++)
		if (!package_path_is_safe(release.files[i].path) ||
			!release_find(&release, release.files[i].path))
			abort();
	release_free(&release);
	return 0;
}
