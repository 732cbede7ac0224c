/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/node_build/kernel_build.h"

#include <limits.h>
#include <string.h>
#include <sys/utsname.h>

#include "common/fs.h"

static void read_running(const char *krel, struct kernel_builds *builds)
{
	struct utsname system;

	(void) uname(&system);
	if (strcmp(system.release, krel) == 0)
		(void) snprintf(builds->running, sizeof(builds->running), "%s", system.version);
}

static void read_define(const char *text, struct kernel_builds *builds)
{
	static const char define[] = "#define UTS_VERSION \"";
	const char *found = strstr(text, define);

	if (!found)
		return;
	found += strlen(define);
	(void) snprintf(builds->headers, sizeof(builds->headers), "%.*s",
		(int) strcspn(found, "\"\n"), found);
}

void kernel_builds_read(int set_fd, const char *krel, struct kernel_builds *ret)
{
	/* Its place in newer kernels, and before. */
	static const char *const names[] = { "utsversion.h", "compile.h" };

	*ret = (struct kernel_builds){ .running = "" };
	read_running(krel, ret);
	for (size_t i = 0; i < ARRAY_SIZE(names) && !*ret->headers; i++) {
		_cleanup_free_ char *text = NULL;
		char path[PATH_MAX];

		(void) snprintf(path, sizeof(path), "lib/modules/%s/build/include/generated/%s",
			krel, names[i]);
		if (fs_read(set_fd, path, 65536, &text, NULL) == 0)
			read_define(text, ret);
	}
}

bool kernel_builds_differ(const struct kernel_builds *builds)
{
	return *builds->running && *builds->headers &&
	       strcmp(builds->running, builds->headers) != 0;
}
