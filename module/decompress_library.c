/* SPDX-License-Identifier: Apache-2.0 */
#include "module/decompress_library.h"

#include <dlfcn.h>

#include "common/cleanup.h"

/* A function of a library, and where its address goes. */
struct call {
	const char *name;
	void **place;
};

static int open_calls(
	const char *library, const struct call *calls, size_t count, struct error *error)
{
	void *handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL);

	if (!handle)
		return error_set(
			error, -ELIBACC, "cannot be unpacked without %s: %s", library, dlerror());
	for (size_t i = 0; i < count; i++) {
		*calls[i].place = dlsym(handle, calls[i].name);
		if (!*calls[i].place)
			return error_set(error, -ELIBBAD, "cannot be unpacked: %s has no %s",
				library, calls[i].name);
	}
	return 0;
}

#define CALL(function) { #function, (void **) (void *) &ret->function },

int xz_calls_open(struct xz_calls *ret, struct error *error)
{
	const struct call calls[] = { XZ_CALLS(CALL) };

	return open_calls("liblzma.so.5", calls, ARRAY_SIZE(calls), error);
}

int gzip_calls_open(struct gzip_calls *ret, struct error *error)
{
	const struct call calls[] = { GZIP_CALLS(CALL) };

	return open_calls("libz.so.1", calls, ARRAY_SIZE(calls), error);
}

int zstd_calls_open(struct zstd_calls *ret, struct error *error)
{
	const struct call calls[] = { ZSTD_CALLS(CALL) };

	return open_calls("libzstd.so.1", calls, ARRAY_SIZE(calls), error);
}
