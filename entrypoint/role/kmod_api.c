/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/role/kmod_api.h"

#include <dlfcn.h>

#define KMOD_SONAME "libkmod.so.2"

int kmod_api_open(struct kmod_api *api, struct error *error)
{
	void *library = dlopen(KMOD_SONAME, RTLD_LAZY | RTLD_LOCAL);

	if (!library)
		return error_set(error, -ELIBACC, "%s: the image lacks libkmod", dlerror());
		/* The library stays open until the worker exits: its functions are in use until
		 * then. */
#define KMOD_LOOK_UP(name)                                                                         \
	*(void **) &api->name = dlsym(library, #name);                                             \
	if (!api->name)                                                                            \
		return error_set(error, -ELIBBAD, "%s has no %s", KMOD_SONAME, #name);
	KMOD_API(KMOD_LOOK_UP)
#undef KMOD_LOOK_UP
	return 0;
}
