/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of several files of one name depmod takes: depmod.d(5), "search". Its default is "updates",
 * and all else of a kernel's folder counts alike; of Fedora and Enterprise Linux the package of
 * kmod brings "search updates extra built-in weak-updates".
 */
#include <string.h>

#include "module/proof_set_parts.h"

#define MODULES "lib/modules/"

/* "5.14.0-503.el9.x86_64", "6.11.4-301.fc41.x86_64" */
static bool has_own_search(const char *krel)
{
	static const char *const marks[] = { ".el", ".fc" };

	for (size_t i = 0; krel && i < ARRAY_SIZE(marks); i++) {
		const char *found = strstr(krel, marks[i]);

		if (found && found[3] >= '0' && found[3] <= '9')
			return true;
	}
	return false;
}

/* The path below lib/modules/<krel>; the path itself where it names no such folder. */
static const char *below_release(const char *path, bool *ret_named)
{
	const char *found = strstr(path, MODULES);

	*ret_named = found && (found == path || found[-1] == '/' || found[-1] == ':');
	if (!*ret_named)
		return path;
	found = strchr(found + strlen(MODULES), '/');
	return found ? found + 1 : path;
}

static unsigned int rank_below(const char *path)
{
	static const char *const folders[] = { "updates/", "extra/", "kernel/", "weak-updates/" };

	for (unsigned int i = 0; i < ARRAY_SIZE(folders); i++)
		if (strncmp(path, folders[i], strlen(folders[i])) == 0)
			return i;
	return 2; /* whatever has no line of its own is "built-in" to depmod */
}

bool set_rank(const char *krel, const char *first, const char *second, bool *ret_certain)
{
	bool first_named, second_named;
	unsigned int first_rank = rank_below(below_release(first, &first_named));
	unsigned int second_rank = rank_below(below_release(second, &second_named));

	*ret_certain =
		first_rank != second_rank && (!first_rank || !second_rank || has_own_search(krel));
	return second_rank < first_rank;
}
