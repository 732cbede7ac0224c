/* SPDX-License-Identifier: Apache-2.0 */
#include "common/late_library.h"

#include <dlfcn.h>

#include "common/cleanup.h"

#define EXIT_NOT_LOADED 127 /* ld.so's own */

void late_library_open(const char *soname, const struct late_call *calls, size_t count)
{
	void *library = dlopen(soname, RTLD_NOW | RTLD_LOCAL);

	for (size_t i = 0; library && i < count; i++) {
		*calls[i].place = dlsym(library, calls[i].name);
		if (!*calls[i].place)
			library = NULL;
	}
	if (library)
		return;
	(void) fprintf(stderr, "slipway: cannot load what it needs: %s\n", dlerror());
	exit(EXIT_NOT_LOADED);
}
