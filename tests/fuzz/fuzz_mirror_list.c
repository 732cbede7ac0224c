/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a server's list of mirrors: none of it leads to this machine's files. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/xalloc.h"
#include "kernels/repo/repo_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const from[] = { "https://list.invalid/?x", "http://list.invalid/" };
	_cleanup_free_ char *text = xstrndup((const char *) data, size);

	for (size_t i = 0; i < ARRAY_SIZE(from); i++) {
		_cleanup_free_ char *url = mirror_list_first(text, from[i]);

		if (url && (strncasecmp(url, "https://", i == 0 ? 8 : 4) != 0 ||
				   strpbrk(url, " \n\t<&$?#")))
			abort();
	}
	return 0;
}
