/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a kernel configuration: refused with a place, or read into names that are found. */
#include <stdint.h>
#include <string.h>

#include "kernels/tree/kconfig.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(kconfig_free) struct kconfig *config = NULL;
	struct error error = { 0 };

	if (kconfig_parse("fuzz", (const char *) data, size, &config, &error) < 0) {
		if (!strstr(error.text, "line ") && !strstr(error.text, "larger"))
			abort();
		return 0;
	}
	if (kconfig_count(config) > size)
		abort();
	if (kconfig_tristate(config, "A") != 'n' && !kconfig_get(config, "A"))
		abort();
	(void) kconfig_number(config, "A");
	return 0;
}
