/* SPDX-License-Identifier: Apache-2.0 */
/* The drivers' sources, made ready for the recipes: unpacked, checked, at their own top level. */
#include "cli/stage/stage_internal.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "common/nearest.h"
#include "common/hash.h"
#include "common/xalloc.h"
#include "kernels/archive/makeself.h"
#include "kernels/archive/unpack.h"
#include "kernels/tool.h"
#include "kernels/web_page.h"

bool build_has(const struct build *build, enum driver driver)
{
	return build->sources[driver].form != SOURCE_NONE;
}

/* ---- what the options name */

static int try_package(const struct driver_row *row, int code, struct error *error)
{
	return row->package_word ? error_try(error, code, "--%s %s: %s", row->name,
					   row->package_word, row->package_text)
				 : code;
}

/* The user may name these for the driver instead. */
static int try_others(const struct driver_row *row, int code, struct error *error)
{
	if (row->published)
		(void) error_try(error, code, "%s", row->published);
	(void) error_try(error, code, "its source tree or a tarball of it");
	return try_package(row, code, error);
}

static int not_there(
	const struct driver_row *row, const char *text, int number, struct error *error)
{
	(void) error_set(error, -EINVAL, "--%s %s: %s", row->name, text, strerror(number));
	if (strcmp(text, "none") == 0)
		return error_try(error, -EINVAL, "leave out --%s", row->name);
	if (row->package_word && is_slip_of(text, row->package_word, 2))
		return try_package(row, -EINVAL, error);
	return try_others(row, -EINVAL, error);
}

/* A version is what the operators call a driver by. What is found stands for it from then on. */
static int find_version(struct build *build, enum driver driver, struct error *error)
{
	const struct driver_row *row = &driver_rows[driver];
	const struct source_search search = { .option = row->name,
		.version = build->options.sources[driver],
		.says = row->says,
		.none = "no source",
		.published = row->published };
	int r = source_search(build, &search, &build->sources[driver].path, error);

	if (r < 0)
		return try_package(row, r, error);
	build->options.sources[driver] = build->sources[driver].path;
	return 0;
}

static bool is_tree_of(enum driver driver, const char *path, const struct strv *names)
{
	const struct driver_row *row = &driver_rows[driver];
	_cleanup_free_ char *file = row->file ? xasprintf("%s/%s", path, row->file) : NULL;

	return file ? fs_exists(AT_FDCWD, file) : row->is_tree(names);
}

/* Is it the driver's source? @text: what the user named, which an unpacked archive came from. */
static int check_tree(enum driver driver, const char *path, const char *text, struct error *error)
{
	const struct driver_row *row = &driver_rows[driver];
	_cleanup_strv_ struct strv names = { 0 };
	int r = fs_list(AT_FDCWD, path, &names);

	if (r < 0)
		return error_set_errno(error, r, "%s", path);
	if (is_tree_of(driver, path, &names))
		return row->check_tree ? row->check_tree(path, text, &names, error) : 0;
	(void) error_set(error, -EINVAL, "--%s %s: not a source of %s: it has %s%s", row->name,
		text, row->title, row->lacks ? "" : "no ", row->lacks ? row->lacks : row->file);
	for (enum driver other = 0; other < DRIVER_COUNT; other++)
		if (is_tree_of(other, path, &names))
			return error_try(error, -EINVAL, "--%s %s: it is a source of %s",
				driver_rows[other].name, text, driver_rows[other].title);
	return try_others(row, -EINVAL, error);
}

static int identify(struct build *build, enum driver driver, struct error *error)
{
	const struct driver_row *row = &driver_rows[driver];
	struct source *source = &build->sources[driver];
	const char *text = build->options.sources[driver];
	_cleanup_free_ char *named = NULL;
	struct stat status;
	int r;

	if (!text || (row->usual && strcmp(text, "none") == 0))
		return 0;
	if (row->package_word && strcmp(text, row->package_word) == 0) {
		source->form = SOURCE_PACKAGE;
		return 0;
	}
	r = stat(text, &status) < 0 ? errno : 0;
	if (r > 0 && row->says && source_is_version(text)) {
		r = find_version(build, driver, error);
		if (r < 0)
			return r;
		text = source->path;
		r = stat(text, &status) < 0 ? errno : 0;
	}
	if (r > 0)
		return not_there(row, text, r, error);
	if (!S_ISDIR(status.st_mode) && !S_ISREG(status.st_mode))
		return try_others(row,
			error_set(error, -EINVAL, "--%s %s: neither a folder nor a file", row->name,
				text),
			error);
	if (web_page_is(AT_FDCWD, text)) {
		named = xasprintf("--%s %s", row->name, text);
		return try_others(row, web_page_refuse(named, -EINVAL, error), error);
	}
	if (!source->path)
		source->path = realpath(text, NULL);
	if (!source->path)
		return error_set_errno(error, -errno, "--%s %s", row->name, text);
	source->form = S_ISDIR(status.st_mode) ? SOURCE_TREE : SOURCE_ARCHIVE;
	r = row->identify ? row->identify(build, source, error) : 0;
	return r < 0 || source->form != SOURCE_TREE ? r
						    : check_tree(driver, source->path, text, error);
}

int sources_identify(struct build *build, struct error *error)
{
	for (enum driver driver = 0; driver < DRIVER_COUNT; driver++) {
		int r = identify(build, driver, error);

		if (r < 0)
			return r;
	}
	return 0;
}

/* ---- the source, made ready */

/* A tree is used where it lies: nothing is made of it. */
bool source_applies(const struct build *build, const struct stage *stage)
{
	enum source_form form = build->sources[stage->of].form;

	return form == SOURCE_PACKAGE || form == SOURCE_ARCHIVE;
}

void source_key(const struct stage *stage, struct key *key)
{
	const struct source *source = &key->build->sources[stage->of];
	const struct driver_row *row = &driver_rows[stage->of];

	if (source->form == SOURCE_ARCHIVE) {
		key_tree(key, source->path);
		return;
	}
	kernel_add_packages(&key->build->kernel, row->purpose, key->hash);
	for (size_t i = 0; row->package_data && row->package_data[i]; i++)
		key_data(key, "%s", row->package_data[i]);
}

int source_tree(const struct build *build, enum driver driver, char **ret_path, struct error *error)
{
	const struct driver_row *row = &driver_rows[driver];
	_cleanup_free_ char *top = NULL;
	int r;

	if (build->sources[driver].has_core) {
		*ret_path = xstrdup(stage_output(build, STAGE_CORE, driver));
		return 0;
	}
	r = source_top(build, driver, &top, error);
	if (r < 0)
		return r;
	*ret_path = row->find_tree ? row->find_tree(build, top) : TAKE_PTR(top);
	return 0;
}

/* A package's tarball is below usr/src, beside documentation and DKMS files. */
static bool is_tarball(void *data, const char *path)
{
	(void) data;
	return strncmp(path, "usr/src/", 8) == 0 && strstr(path, ".tar");
}

/* Fetches the package of a purpose and gives the path of the source tarball in it. */
static int package_tarball(
	struct build *build, const char *purpose, char **ret_path, struct error *error)
{
	const struct lock_package *package = lock_find(&build->kernel.lock, purpose);
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *folder = NULL;
	_cleanup_free_ char *sources = NULL;
	_cleanup_free_ char *blob = NULL;
	struct unpack unpack = { .kind = ARCHIVE_KIND_DEB, .wanted = is_tarball };
	int r = kernel_fetch(&build->kernel, purpose, error);

	if (r < 0)
		return r;
	r = cache_new_folder(&build->context.cache, "package", &folder);
	if (r < 0)
		return error_set_errno(error, r, "%s", package->name);
	blob = xasprintf("blobs/sha256/%s", package->sha256);
	unpack.folder = folder;
	progress_step(&build->context.progress, package->name);
	r = unpack_run(&unpack, build->context.cache.fd, blob, error);
	if (r < 0)
		return r;
	sources = xasprintf("%s/usr/src", folder);
	r = fs_list(AT_FDCWD, sources, &names);
	/* Ubuntu's is a link to one in a folder. */
	for (size_t i = 0; r == 0 && i < names.count; i++)
		if (strstr(names.items[i], ".tar")) {
			*ret_path = xasprintf("%s/%s", sources, names.items[i]);
			return 0;
		}
	return error_set(error, -EINVAL, "the source package has no tarball under usr/src");
}

/* A file of the user's that is no whole archive is a bad source, not a damaged download. */
static int unpack_archive(
	struct build *build, enum driver driver, const char *folder, struct error *error)
{
	const struct driver_row *row = &driver_rows[driver];
	const char *path = build->sources[driver].path;
	struct unpack unpack = { .folder = folder };
	int r = archive_input_kind(AT_FDCWD, path, &unpack.kind);

	if (r == 0)
		r = row->unpack ? row->unpack(build, path, folder, error)
				: unpack_run(&unpack, AT_FDCWD, path, error);
	if (r != -EBADMSG)
		return r;
	if (archive_looks_damaged(path))
		return -EINVAL;
	return try_others(row,
		error_set(error, -EINVAL, "--%s %s: neither an archive nor %s", row->name,
			build->options.sources[driver], row->archive ? row->archive : "a folder"),
		error);
}

static int make_of_package(
	struct build *build, enum driver driver, const char *folder, struct error *error)
{
	const struct driver_row *row = &driver_rows[driver];
	const struct unpack unpack = { .folder = folder };
	_cleanup_free_ char *tarball = NULL;
	int r = package_tarball(build, row->purpose, &tarball, error);

	if (r < 0)
		return r;
	return row->make_of_package ? row->make_of_package(build, tarball, folder, error)
				    : unpack_run(&unpack, AT_FDCWD, tarball, error);
}

int source_run(struct build *build, const struct stage *stage, const struct stage_place *place,
	struct error *error)
{
	enum driver driver = (enum driver) stage->of;
	_cleanup_free_ char *top = NULL;
	int r = build->sources[driver].form == SOURCE_ARCHIVE
			? unpack_archive(build, driver, place->folder, error)
			: make_of_package(build, driver, place->folder, error);

	if (r == 0)
		r = source_find_top(place->folder, &top, error);
	return r < 0 ? r : check_tree(driver, top, build->options.sources[driver], error);
}

static bool is_archive(const struct build *build, const struct stage *stage)
{
	return build->sources[stage->of].form == SOURCE_ARCHIVE;
}

int source_look(struct build *build, struct error *error)
{
	int r = stages_make(build, STAGE_BIT(STAGE_SOURCE), is_archive, error);

	if (r < 0)
		return r;
	for (enum driver driver = 0; driver < DRIVER_COUNT; driver++) {
		enum source_form form = build->sources[driver].form;
		_cleanup_free_ char *top = NULL;

		if (!driver_rows[driver].look || (form != SOURCE_ARCHIVE && form != SOURCE_TREE))
			continue;
		r = source_top(build, driver, &top, error);
		if (r == 0)
			r = driver_rows[driver].look(build, top, error);
		if (r < 0)
			return context_fail(&build->context, EXIT_CODE_SOURCE, r);
	}
	return 0;
}

void source_tree_key(struct key *key, enum driver driver)
{
	const struct driver_row *row = &driver_rows[driver];
	const char *variant = row->variant ? row->variant(key->build) : NULL;
	_cleanup_free_ char *path = NULL;

	/* The variant decides what source_tree() takes of a source. */
	if (variant)
		key_text(key, variant);
	if (key->build->sources[driver].has_core)
		return; /* in the core's key */
	if (key->build->sources[driver].form == SOURCE_TREE &&
		source_tree(key->build, driver, &path, key->error) == 0)
		key_tree(key, path);
}
