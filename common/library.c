/* SPDX-License-Identifier: Apache-2.0 */
#include "common/library.h"

#include <dlfcn.h>

void *library_open(const char *file, int mode, const char **ret_why)
{
	void *library = dlopen(file, mode | RTLD_LOCAL);

	*ret_why = library ? "" : dlerror();
	return library;
}
