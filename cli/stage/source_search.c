/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the file or folder of a version in the folder of --sources, or in the working folder. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/stage/stage_internal.h"
#include "common/fs.h"
#include "common/xalloc.h"
#include "kernels/archive/unpack.h"

#define SHOWN 8 /* sources of other versions, in a message */

struct found {
	struct strv paths;  /* of the version */
	struct strv others; /* "NAME (VERSION)", "NAME (not recognised)" */
};

bool source_is_version(const char *text)
{
	return *text >= '0' && *text <= '9' && !text[strspn(text, "0123456789.-")];
}

char *source_tarball_top(const char *path)
{
	struct archive_input input;
	struct archive_entry *entry;
	struct error ignored;
	char *top = NULL;

	if (!strstr(basename(path), ".tar") && !str_ends_with(path, ".tgz"))
		return NULL;
	if (archive_input_open(&input, ARCHIVE_KIND_TAR, AT_FDCWD, path, NULL, &ignored) == 0 &&
		archive_read_next_header(input.reader, &entry) >= ARCHIVE_WARN) {
		const char *name = archive_input_path(entry);

		if (name && *name)
			top = xstrndup(name, strcspn(name, "/"));
	}
	archive_input_close(&input);
	return top;
}

/* "595" and "595.58.03" are both versions of 595.58.03. */
static bool is_of_version(const char *said, const char *wanted)
{
	size_t length = strlen(wanted);

	/* "595.58.03 for aarch64": another machine's. */
	return !strchr(said, ' ') && strncmp(said, wanted, length) == 0 &&
	       (!said[length] || said[length] == '.' || said[length] == '-');
}

/* Is its name of that version, at least? */
static bool is_named(const char *name, const char *version)
{
	const char *found = strstr(name, version);

	return found && (found == name || found[-1] < '0' || found[-1] > '9') &&
	       (found[strlen(version)] < '0' || found[strlen(version)] > '9');
}

static int look_in(const struct build *build, const struct source_search *search,
	const char *folder, struct found *found, struct error *error)
{
	_cleanup_free_ char *own = search->says(build, folder, true, search->data);
	_cleanup_strv_ struct strv names = { 0 };
	int r = fs_list(AT_FDCWD, folder, &names);

	if (r < 0)
		return error_set_errno(error, r, "--sources %s", folder);
	/* A source itself: what is in it are parts of it. */
	if (own) {
		if (is_of_version(own, search->version))
			xstrv_push(&found->paths, folder);
		else
			xstrv_pushf(&found->others, "%s (%s)", folder, own);
		return 0;
	}
	for (size_t i = 0; i < names.count; i++) {
		_cleanup_free_ char *path = xasprintf("%s/%s", folder, names.items[i]);
		_cleanup_free_ char *version = NULL;
		struct stat status;

		if (stat(path, &status) < 0 ||
			(!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)))
			continue;
		version = search->says(build, path, S_ISDIR(status.st_mode), search->data);
		if (version && is_of_version(version, search->version))
			xstrv_push(&found->paths, path);
		else if (version)
			xstrv_pushf(&found->others, "%s (%s)", names.items[i], version);
		else if (is_named(names.items[i], search->version))
			xstrv_pushf(&found->others, "%s (damaged, or no source of this)",
				names.items[i]);
	}
	return 0;
}

static int fail(const struct source_search *search, const struct found *found, const char *folders,
	bool asked, struct error *error)
{
	_cleanup_free_ char *list = NULL;

	if (found->paths.count) {
		list = xstrv_join(&found->paths, ", ");
		(void) error_set(error, -EINVAL, "--%s %s: several are of this version: %s",
			search->option, search->version, list);
		return error_try(error, -EINVAL, "name one of them: --%s %s", search->option,
			found->paths.items[0]);
	}
	(void) error_set(error, -EINVAL, "--%s %s: %s of this version in %s", search->option,
		search->version, search->none, folders);
	if (found->others.count) {
		struct strv shown = found->others;

		shown.count = shown.count < SHOWN ? shown.count : SHOWN;
		list = xstrv_join(&shown, ", ");
		(void) error_line(error, -EINVAL, "there: %s%s", list,
			found->others.count > SHOWN ? ", …" : "");
	}
	(void) error_try(error, -EINVAL, "download it and give the file: %s", search->published);
	return asked ? -EINVAL
		     : error_try(error, -EINVAL, "--sources DIR: the folder that it is in");
}

/* Looks in each folder; @folders gets their paths. */
static int look(const struct build *build, const struct source_search *search, struct found *found,
	struct strv *folders, struct error *error)
{
	const struct strv *asked = &build->options.source_folders;

	for (size_t i = 0; i < (asked->count ? asked->count : 1); i++) {
		const char *text = asked->count ? asked->items[i] : ".";
		_cleanup_free_ char *folder = realpath(text, NULL);
		int r;

		if (!folder)
			return error_set_errno(error, -errno, "--sources %s", text);
		xstrv_push(folders, folder);
		r = look_in(build, search, folder, found, error);
		if (r < 0)
			return r;
	}
	return 0;
}

static void found_free(struct found *found)
{
	strv_free(&found->paths);
	strv_free(&found->others);
}

int source_search(struct build *build, const struct source_search *search, char **ret_path,
	struct error *error)
{
	_cleanup_strv_ struct strv folders = { 0 };
	_cleanup_(found_free) struct found found = { 0 };
	_cleanup_free_ char *names = NULL;
	int r = look(build, search, &found, &folders, error);

	if (r < 0)
		return r;
	if (found.paths.count == 1) {
		*ret_path = xstrdup(found.paths.items[0]);
		progress_notef(&build->context.progress, "--%s %s: %s", search->option,
			search->version, *ret_path);
		return 0;
	}
	names = xstrv_join(&folders, ", ");
	return fail(search, &found, names, build->options.source_folders.count, error);
}
