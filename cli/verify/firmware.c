/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verify/firmware.h"

#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"

static const char *const tops[] = { "lib/firmware", "usr/lib/firmware" };

bool verify_firmware_judged(const struct verify_firmware *firmware)
{
	for (size_t i = 0; i < firmware->count; i++) {
		const struct verify_input *input = &firmware->inputs[i];

		if (!input->root)
			continue;
		if (input->image)
			return true;
		for (size_t k = 0; k < ARRAY_SIZE(tops); k++)
			if (fs_exists(input->fd, tops[k]))
				return true;
	}
	return false;
}

/* A link counts as its name says: in a scratch folder what it leads to may not be unpacked. */
static bool exists(int fd, const char *path)
{
	struct stat status;

	return fstatat(fd, path, &status, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(status.st_mode);
}

/* A module may name "vendor/chip-*.bin". */
static bool matches(const struct verify_input *input, const char *path)
{
	_cleanup_free_ char *pattern = NULL;
	glob_t found = { 0 };
	bool any;

	if (asprintf(&pattern, "%s/%s", input->folder, path) < 0)
		return false;
	any = glob(pattern, GLOB_NOSORT, NULL, &found) == 0;
	globfree(&found);
	return any;
}

static bool is_at(
	const struct verify_input *input, const char *top, const char *below, const char *name)
{
	static const char *const ends[] = { "", ".xz", ".zst" };
	char path[PATH_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		int length = snprintf(path, sizeof(path), "%s/%s%s%s", top, below, name, ends[i]);

		if (length < 0 || (size_t) length >= sizeof(path))
			return false;
		if (strpbrk(name, "*?[") ? matches(input, path) : exists(input->fd, path))
			return true;
	}
	return false;
}

bool verify_firmware_there(void *context, const char *name)
{
	const struct verify_firmware *firmware = context;
	const char *krel = firmware->krel ? firmware->krel : "";
	char belows[4][96] = { "" };

	(void) snprintf(belows[1], sizeof(belows[1]), "updates/");
	(void) snprintf(belows[2], sizeof(belows[2]), "%s/", krel);
	(void) snprintf(belows[3], sizeof(belows[3]), "updates/%s/", krel);
	for (size_t i = 0; i < firmware->count; i++)
		for (size_t k = 0; k < ARRAY_SIZE(tops) && firmware->inputs[i].root; k++)
			for (size_t b = 0; b < ARRAY_SIZE(belows); b++)
				if (is_at(&firmware->inputs[i], tops[k], belows[b], name))
					return true;
	return false;
}
