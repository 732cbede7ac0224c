/* SPDX-License-Identifier: Apache-2.0 */
#include "module/kernel_config.h"

#include <stdio.h>

#include "common/cleanup.h"

/* Debian, Ubuntu and EL; Fedora and OSTree; a kernel that was built here. */
static const char *const places[][2] = {
	{ "boot/config-", "" },
	{ "lib/modules/", "/config" },
	{ "lib/modules/", "/build/.config" },
};

const char *const kernel_config_in_build[] = { ".config", "include/config/auto.conf", NULL };

bool kernel_config_place(size_t number, const char *krel, char *path, size_t size)
{
	if (number >= ARRAY_SIZE(places))
		return false;
	(void) snprintf(path, size, "%s%s%s", places[number][0], krel, places[number][1]);
	return true;
}
