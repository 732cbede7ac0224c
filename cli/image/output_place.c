/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/image/output_place.h"

#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "common/fs.h"
#include "common/strv.h"
#include "common/xalloc.h"

/* "docker:" and the like; "./a:b", "/a:b" and "a/b:c" are folders. */
static bool has_transport(const char *place)
{
	size_t length = strcspn(place, ":/");

	return strstr(place, "://") || (length > 1 && place[length] == ':');
}

int output_place_check(const char *place, struct error *error)
{
	if (!*place)
		return error_set(error, -EINVAL, "--output: the value is empty");
	if (strcmp(place, OUTPUT_STORAGE) == 0)
		return 0;
	if (strcmp(place, OUTPUT_ARCHIVE) == 0 || strcmp(place, OUTPUT_ARCHIVE "-") == 0)
		return error_set(error, -EINVAL,
			"--output " OUTPUT_ARCHIVE " needs the name of a file after it");
	if (strncmp(place, OUTPUT_ARCHIVE, strlen(OUTPUT_ARCHIVE)) == 0)
		return 0;
	if (strncmp(place, OUTPUT_STORAGE, strlen(OUTPUT_STORAGE)) == 0)
		return error_set(error, -EINVAL,
			"--output %s: no name may follow " OUTPUT_STORAGE ": the images get their "
			"own names",
			place);
	if (has_transport(place)) {
		(void) error_set(error, -EINVAL,
			"--output %s: not a folder, " OUTPUT_STORAGE " or " OUTPUT_ARCHIVE "FILE",
			place);
		(void) error_try(error, -EINVAL,
			"for a registry: --output DIR --registry HOST/FOLDER, then sh DIR/push.sh");
		return error_try(error, -EINVAL, "for a folder with that name, give ./%s", place);
	}
	return 0;
}

int output_is_no_input(const char *place, const char *path, const char *input, struct error *error)
{
	struct stat from, to;

	if (stat(input, &from) < 0 || stat(path, &to) < 0 || from.st_dev != to.st_dev ||
		from.st_ino != to.st_ino)
		return 0;
	return error_set(error, -EINVAL, "--output %s: %s is one of the images: give another place",
		place, path);
}

static int check_folder(const char *option, const char *folder, struct error *error)
{
	_cleanup_free_ char *probe = NULL;
	struct stat status;
	int r;

	if (stat(folder, &status) < 0)
		return error_set(error, -errno, "%s: the folder %s: %s", option, folder,
			errno == ENOENT ? "it does not exist; create it first" : strerror(errno));
	if (!S_ISDIR(status.st_mode))
		return error_set(error, -ENOTDIR, "%s: %s is not a folder", option, folder);
	/* Not only the rights: /proc has none of its own. */
	probe = xasprintf("%s/.slipway-XXXXXX", folder);
	if (mkdtemp(probe))
		return rmdir(probe) < 0 ? error_set_errno(error, -errno, "%s", probe) : 0;
	r = errno == ENOENT ? -EROFS : -errno;
	(void) error_set_errno(error, r, "%s: the folder %s cannot be written to", option, folder);
	return error_try(error, r, "use another folder");
}

/* fs_temporary()'s: NAME.0123456789abcdef.tmp. */
static bool is_temporary(const char *entry, const char *name)
{
	const size_t length = strlen(name);
	size_t digits;

	if (strncmp(entry, name, length) != 0 || entry[length] != '.')
		return false;
	entry += length + 1;
	digits = strspn(entry, "0123456789abcdef");
	return digits == 16 && strcmp(entry + digits, ".tmp") == 0;
}

/* The name given last, in memory that the process that works shares with the one that waits. */
static char *unfinished;

void output_share(void)
{
	if (!unfinished) {
		void *memory = mmap(
			NULL, PATH_MAX, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

		if (memory == MAP_FAILED)
			return;
		unfinished = memory;
	}
	*unfinished = '\0';
}

void output_remove_unfinished(void)
{
	if (unfinished && *unfinished)
		(void) unlink(unfinished);
}

char *output_temporary(const char *path)
{
	const time_t old = time(NULL) - 3600;
	_cleanup_free_ char *for_folder = xstrdup(path);
	_cleanup_free_ char *for_name = xstrdup(path);
	const char *folder = dirname(for_folder);
	const char *name = basename(for_name);
	_cleanup_strv_ struct strv entries = { 0 };
	struct stat status;
	char *temporary;

	(void) !fs_list(AT_FDCWD, folder, &entries);
	for (size_t i = 0; i < entries.count; i++) {
		_cleanup_free_ char *entry = xasprintf("%s/%s", folder, entries.items[i]);

		if (is_temporary(entries.items[i], name) && lstat(entry, &status) == 0 &&
			status.st_ctim.tv_sec < old)
			(void) unlink(entry);
	}
	temporary = fs_temporary(path);
	if (temporary && unfinished)
		(void) snprintf(unfinished, PATH_MAX, "%s", temporary);
	return temporary;
}

char *output_nearest(const char *path)
{
	_cleanup_free_ char *copy = xstrdup(path);
	char *place = copy;

	while (access(place, F_OK) < 0 && errno == ENOENT && strcmp(place, ".") != 0)
		place = dirname(place);
	return xstrdup(place);
}

int output_folder_ready(const char *option, const char *path, struct error *error)
{
	_cleanup_free_ char *place = output_nearest(path);

	return check_folder(option, place, error);
}

int output_file_ready(const char *option, const char *path, struct error *error)
{
	_cleanup_free_ char *copy = xstrdup(path);
	struct stat status;

	if (strcmp(path, "-") == 0)
		return 0;
	if (stat(path, &status) < 0 || S_ISREG(status.st_mode))
		return check_folder(option, dirname(copy), error);
	return S_ISDIR(status.st_mode)
		       ? error_set(error, -EISDIR, "%s %s: this is a folder, not a file", option,
				 path)
		       : 0;
}

int output_place_ready(const char *place, struct error *error)
{
	if (strcmp(place, OUTPUT_STORAGE) == 0)
		return 0;
	if (strncmp(place, OUTPUT_ARCHIVE, strlen(OUTPUT_ARCHIVE)) == 0)
		return output_file_ready("--output", place + strlen(OUTPUT_ARCHIVE), error);
	return output_folder_ready("--output", place, error);
}
