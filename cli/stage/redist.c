/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Archives that NVIDIA publishes beside the driver's installer, each of the driver's own version:
 * <name>-linux-<machine>-<version>-archive.tar.xz, with one folder of that name (without the
 * ending) around all. Layouts, from those who unpack them: NVIDIA/k8s-test-infra's installer of
 * nvml-mock, negativo17's imex.spec 560.35.03 (IMEX: usr/bin/nvidia-imex, usr/bin/nvidia-imex-ctl;
 * called nvidia-imex up to 560, imex from 570 on), a Yocto recipe of the fabric manager 580 (bin/,
 * lib/, etc/, share/nvidia/nvswitch/). No archive itself could be had.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/stage/stage_internal.h"
#include "common/fs.h"
#include "common/xalloc.h"
#include "kernels/archive/unpack.h"

const struct redist_row redist_rows[REDIST_COUNT] = {
	[REDIST_IMEX] = { .option = "imex",
		.package = "nvidia-imex",
		.names = { "imex", "nvidia-imex" },
		.programs = { "nvidia-imex", "nvidia-imex-ctl" } },
	[REDIST_FABRICMANAGER] = { .option = "fabricmanager",
		.package = "nvidia-fabricmanager",
		.names = { "fabricmanager", "nvidia-fabricmanager" },
		.programs = { "nv-fabricmanager" } },
};

const char *redist_option(enum redist_id id)
{
	return redist_rows[id].option;
}

enum redist_id redist_find(const char *option)
{
	enum redist_id id = 0;

	while (id < REDIST_COUNT && strcmp(redist_rows[id].option, option) != 0)
		id++;
	return id;
}

/* ---- names */

struct name {
	char machine[16];
	char version[32];
};

/* The text behind "<name>-linux-"; NULL where it does not begin with one of the names. */
static const char *after_name(const struct redist_row *row, const char *text)
{
	static const char linux_part[] = "-linux-";

	for (size_t i = 0; i < ARRAY_SIZE(row->names); i++) {
		size_t length = strlen(row->names[i]);

		if (strncmp(text, row->names[i], length) == 0 &&
			strncmp(text + length, linux_part, strlen(linux_part)) == 0)
			return text + length + strlen(linux_part);
	}
	return NULL;
}

/* Reads "<name>-linux-<machine>-<version>-archive", alone or before the archive's ending. */
static bool parse_name(const struct redist_row *row, const char *text, struct name *ret)
{
	static const char end[] = "-archive";
	const char *machine = after_name(row, text);
	size_t machine_length = machine ? strcspn(machine, "-") : 0;
	const char *version = machine ? machine + machine_length : "";
	size_t version_length;

	version += *version == '-';
	version_length = strspn(version, "0123456789.");
	if (machine_length == 0 || machine_length >= sizeof(ret->machine) || version_length == 0 ||
		version_length >= sizeof(ret->version) ||
		strncmp(version + version_length, end, strlen(end)) != 0)
		return false;
	*ret = (struct name){ 0 };
	(void) memcpy(ret->machine, machine, machine_length);
	(void) memcpy(ret->version, version, version_length);
	return true;
}

static const char *machine_of(const struct build *build)
{
	const struct arch *arch = arch_find(build->context.arch);

	return arch && *arch->redist ? arch->redist : build->context.arch;
}

/* "imex-linux-x86_64-VERSION-archive.tar.xz"; the caller frees it. */
static char *published(const struct build *build, const struct redist_row *row)
{
	return xasprintf("%s-linux-%s-VERSION-archive.tar.xz", row->names[0], machine_of(build));
}

/* ---- what is in one */

struct contents {
	char *top;            /* the folder around all; NULL: there is more than one */
	struct strv programs; /* those of the rows that are in it */
};

static void contents_free(struct contents *contents)
{
	free(contents->top);
	strv_free(&contents->programs);
}

static bool is_program(const char *name)
{
	for (size_t i = 0; i < REDIST_COUNT; i++)
		for (size_t j = 0; j < ARRAY_SIZE(redist_rows[i].programs); j++)
			if (redist_rows[i].programs[j] &&
				strcmp(redist_rows[i].programs[j], name) == 0)
				return true;
	return false;
}

static void take_entry(struct contents *contents, const char *path, bool is_file, bool first)
{
	size_t length = strcspn(path, "/");
	_cleanup_free_ char *top = xstrndup(path, length);
	const char *slash = strrchr(path, '/');

	if (first)
		contents->top = xstrdup(top);
	else if (contents->top && strcmp(contents->top, top) != 0) {
		free(contents->top);
		contents->top = NULL;
	}
	if (is_file && slash && is_program(slash + 1))
		xstrv_push_unique(&contents->programs, slash + 1);
}

/* -EBADMSG for a file that is no archive, -ENOEXEC (without a message) for another kind of one. */
static int read_contents(const char *path, struct contents *ret, struct error *error)
{
	struct archive_input input;
	enum archive_kind kind;
	struct archive_entry *entry;
	bool first = true;
	int r = archive_input_kind(AT_FDCWD, path, &kind);

	if (r < 0)
		return error_set_errno(error, r, "%s", path);
	if (kind != ARCHIVE_KIND_TAR)
		return -ENOEXEC;
	r = archive_input_open(&input, kind, AT_FDCWD, path, NULL, error);
	while (r == 0) {
		int code = archive_read_next_header(input.reader, &entry);
		const char *name;

		if (code == ARCHIVE_EOF)
			break;
		if (code < ARCHIVE_WARN) {
			r = archive_input_damaged(path, input.reader, error);
			break;
		}
		name = archive_input_path(entry);
		if (!name || !*name)
			continue;
		take_entry(ret, name, archive_entry_filetype(entry) == AE_IFREG, first);
		first = false;
	}
	archive_input_close(&input);
	return r;
}

/* "595.58.03" of the archive at @path, "595.58.03 for sbsa" of one for another machine. */
static char *says(const struct build *build, const char *path, bool is_folder, const void *data)
{
	_cleanup_free_ char *top = is_folder ? NULL : source_tarball_top(path);
	struct name name = { 0 };

	if (!top || !parse_name(data, top, &name))
		return NULL;
	return strcmp(name.machine, machine_of(build)) == 0
		       ? xstrdup(name.version)
		       : xasprintf("%s for %s", name.version, name.machine);
}

/* ---- is it what the option asks for? */

static int refuse(
	struct build *build, const struct redist_row *row, const char *why, struct error *error)
{
	_cleanup_free_ char *name = published(build, row);

	(void) error_set(error, -EINVAL, "--%s %s: not NVIDIA's archive: %s", row->option,
		build->options.redist[row - redist_rows], why);
	return error_try(error, -EINVAL, "%s, as it was downloaded", name);
}

static int try_version(const struct build *build, const struct redist_row *row, const char *version,
	struct error *error)
{
	return error_try(error, -EINVAL, "%s-linux-%s-%s-archive.tar.xz", row->names[0],
		machine_of(build), version);
}

static bool has_all(const struct redist_row *row, const struct contents *contents)
{
	for (size_t i = 0; i < ARRAY_SIZE(row->programs) && row->programs[i]; i++)
		if (!strv_contains(&contents->programs, row->programs[i]))
			return false;
	return true;
}

static int check_contents(struct build *build, const struct redist_row *row,
	const struct contents *contents, struct name *ret, struct error *error)
{
	const char *text = build->options.redist[row - redist_rows];
	_cleanup_free_ char *why = NULL;
	struct name named = { 0 };

	if (!has_all(row, contents)) {
		why = xasprintf("it has no %s", row->programs[0]);
		(void) refuse(build, row, why, error);
		for (size_t i = 0; i < REDIST_COUNT; i++)
			if (has_all(&redist_rows[i], contents))
				return error_try(
					error, -EINVAL, "--%s %s", redist_rows[i].option, text);
		return -EINVAL;
	}
	if (!contents->top || !parse_name(row, contents->top, ret)) {
		why = xasprintf("its version is unknown, as the folder around its files is %s",
			contents->top ? contents->top : "missing");
		return refuse(build, row, why, error);
	}
	if (strcmp(ret->machine, machine_of(build)) != 0)
		(void) error_set(error, -EINVAL,
			"--%s %s: the archive is for %s, but the images are for %s", row->option,
			text, ret->machine, build->context.arch);
	else if (parse_name(row, basename(text), &named) &&
		 strcmp(named.version, ret->version) != 0)
		(void) error_set(error, -EINVAL,
			"--%s %s: the file is called %s, but its files are of %s", row->option,
			text, named.version, ret->version);
	else
		return 0;
	return try_version(build, row, ret->version, error);
}

/* The file that the option names, by its path or by a version. The caller frees it. */
static int find_file(
	struct build *build, const struct redist_row *row, char **ret_path, struct error *error)
{
	const char *text = build->options.redist[row - redist_rows];
	_cleanup_free_ char *name = published(build, row);
	_cleanup_free_ char *path = NULL;
	struct stat status;

	if (access(text, F_OK) < 0 && source_is_version(text)) {
		const struct source_search search = { .option = row->option,
			.version = text,
			.says = says,
			.data = row,
			.none = "no archive",
			.published = name };

		return source_search(build, &search, ret_path, error);
	}
	path = realpath(text, NULL);
	if (!path || stat(path, &status) < 0) {
		int r = error_set_errno(error, -errno, "--%s %s", row->option, text);

		return error_try(error, r, "%s", name);
	}
	if (!S_ISREG(status.st_mode)) {
		(void) error_set(error, -EINVAL, "--%s %s: not a file", row->option, text);
		return error_try(error, -EINVAL, "%s, as it was downloaded", name);
	}
	*ret_path = TAKE_PTR(path);
	return 0;
}

static int open_one(struct build *build, const struct redist_row *row, struct error *error)
{
	struct redist *redist = &build->redist[row - redist_rows];
	_cleanup_(contents_free) struct contents contents = { 0 };
	_cleanup_free_ char *path = NULL;
	struct name found = { 0 };
	int r = find_file(build, row, &path, error);

	if (r < 0)
		return r;
	redist->path = TAKE_PTR(path);
	build->options.redist[row - redist_rows] = redist->path;
	r = read_contents(redist->path, &contents, error);
	if (r == -ENOEXEC)
		return refuse(build, row, "it is a package or an installer", error);
	if (r == -EBADMSG && !archive_looks_damaged(redist->path))
		return refuse(build, row, "it is no archive", error);
	if (r == 0)
		r = check_contents(build, row, &contents, &found, error);
	if (r < 0)
		return r == -EBADMSG ? -EINVAL : r;
	redist->version = xstrdup(found.version);
	return 0;
}

/* ---- what the build asks */

static int check_version(const struct build *build, const char *version, struct error *error)
{
	for (size_t i = 0; i < REDIST_COUNT; i++) {
		const struct redist *redist = &build->redist[i];
		const struct redist_row *row = &redist_rows[i];

		if (!redist->path || strcmp(redist->version, version) == 0)
			continue;
		(void) error_set(error, -EINVAL,
			"--%s %s: it is from driver %s, but the modules of --nvidia are from %s: "
			"only one version works together",
			row->option, redist->path, redist->version, version);
		return try_version(build, row, version, error);
	}
	return 0;
}

int redist_open(struct build *build, struct error *error)
{
	for (size_t i = 0; i < REDIST_COUNT; i++) {
		int r = build->options.redist[i] ? open_one(build, &redist_rows[i], error) : 0;

		if (r < 0)
			return r;
	}
	return build->userspace_version ? check_version(build, build->userspace_version, error) : 0;
}

int redist_check(struct build *build, struct error *error)
{
	_cleanup_free_ char *version =
		build_has(build, DRIVER_NVIDIA) ? nvidia_version(build) : NULL;
	int r = version ? check_version(build, version, error) : 0;

	return r < 0 ? context_fail(&build->context, EXIT_CODE_SOURCE, r) : 0;
}

const char *redist_given(const struct build *build)
{
	for (size_t i = 0; i < REDIST_COUNT; i++)
		if (build->redist[i].path)
			return redist_rows[i].option;
	return NULL;
}

void redist_key(struct key *key)
{
	for (size_t i = 0; i < REDIST_COUNT; i++) {
		if (!key->build->redist[i].path)
			continue;
		key_text(key, redist_rows[i].option);
		key_tree(key, key->build->redist[i].path);
	}
}

int redist_unpack(const struct build *build, char **ret_folder, struct error *error)
{
	_cleanup_free_ char *folder = NULL;
	int r;

	*ret_folder = NULL;
	if (!redist_given(build))
		return 0;
	r = cache_new_folder(&build->context.cache, "beside", &folder);
	if (r < 0)
		return error_set_errno(error, r, "beside");
	for (size_t i = 0; i < REDIST_COUNT; i++) {
		_cleanup_free_ char *below = xasprintf("%s/%s", folder, redist_rows[i].option);
		const struct unpack unpack = { .folder = below, .kind = ARCHIVE_KIND_TAR };

		if (!build->redist[i].path)
			continue;
		if (mkdir(below, 0755) < 0)
			return error_set_errno(error, -errno, "%s", below);
		r = unpack_run(&unpack, AT_FDCWD, build->redist[i].path, error);
		if (r < 0)
			return r;
	}
	*ret_folder = TAKE_PTR(folder);
	return 0;
}
