/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images that live in Buildah's storage: of roots, the build containers' and the kits. An
 * output folder holds their name, which has the key in it.
 */
#include "cli/stage/stage_internal.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "common/buildlog.h"
#include "common/fs.h"
#include "common/xalloc.h"
#include "kernels/tool.h"

/* ---- Buildah for a stage */

/* The last two parts of a path: the recipe's folders are the same for all. */
static const char *short_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (slash)
		slash = memrchr(path, '/', (size_t) (slash - path));
	return slash ? slash + 1 : path;
}

/* Is the output of a driver's stage of that version of the driver? */
static bool is_of_version(const struct cache *cache, const char *output, const char *version)
{
	_cleanup_free_ char *path = xasprintf("%s/set.conf", output);
	_cleanup_free_ char *line = xasprintf("\nversion=%s\n", version);
	_cleanup_free_ char *text = NULL;

	return fs_read(cache->fd, path, 0, &text, NULL) == 0 && strstr(text, line);
}

/*
 * How much this stage compiled when it last came to its end, for this kernel or another; with
 * @version: of that driver.
 */
static size_t count_in_last_log(const struct build *build, const char *stage, const char *version)
{
	const struct cache *cache = &build->context.cache;
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *newest = NULL;
	_cleanup_free_ char *text = NULL;
	time_t newest_s = 0;

	if (fs_list(cache->fd, "logs", &names) < 0)
		return 0;
	for (size_t i = 0; i < names.count; i++) {
		const char *name = names.items[i];
		_cleanup_free_ char *path = xasprintf("logs/%s", name);
		_cleanup_free_ char *output =
			xasprintf("stages/%.*s", (int) strcspn(name, "."), name);
		struct stat status;

		if (!cache_entry_is_of(name, stage) || !fs_exists(cache->fd, output) ||
			fstatat(cache->fd, path, &status, 0) < 0 || status.st_size == 0 ||
			status.st_mtime < newest_s ||
			(version && !is_of_version(cache, output, version)))
			continue;
		newest_s = status.st_mtime;
		free(newest);
		newest = TAKE_PTR(path);
	}
	if (!newest || fs_read(cache->fd, newest, 0, &text, NULL) < 0)
		return 0;
	return buildlog_count_compiled(text);
}

/* Another version of a driver has other files: that is no guess. */
static size_t foresee_files(const struct build *build, const char *stage)
{
	enum driver driver = driver_find(stage);
	const struct driver_row *row = driver < DRIVER_COUNT ? &driver_rows[driver] : NULL;
	_cleanup_free_ char *version = row && row->version ? row->version(build) : NULL;
	size_t count = row && !version ? 0 : count_in_last_log(build, stage, version);

	return count || !row || build->sources[driver].form != SOURCE_PACKAGE ? count
									      : row->package_files;
}

static void on_line(void *context, const char *line)
{
	struct build *build = context;
	const char *file = buildlog_compiled(line);

	if (strncmp(line, "==> ", 4) == 0)
		progress_step(&build->context.progress, line + 4);
	else if (file)
		progress_compiled(&build->context.progress, short_name(file));
	else
		progress_tick(&build->context.progress);
}

static void on_quiet(void *context)
{
	struct build *build = context;

	progress_tick(&build->context.progress);
}

int stage_buildah(struct build *build, const struct stage_place *place, struct buildah *ret,
	struct error *error)
{
	struct progress *progress = &build->context.progress;
	const char *stage = progress_stage_name(progress);
	size_t to_compile = stage ? foresee_files(build, stage) : 0;
	int fd = open(place->log, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);

	if (fd < 0)
		return error_set_errno(error, -errno, "%s", place->log);
	progress_expect(progress, to_compile);
	*ret = (struct buildah){
		.log_fd = fd,
		.on_line = on_line,
		.on_quiet = on_quiet,
		.context = build,
		.run_path = build->context.cache.run_path,
		.scratch_path = build->context.cache.scratch_path,
	};
	return 0;
}

void stage_buildah_done(struct buildah *buildah)
{
	cleanup_close(&buildah->log_fd);
}

int made_image_build(struct build *build, const struct stage_place *place,
	const struct made_image *image, char **ret_id, struct error *error)
{
	_cleanup_(stage_buildah_done) struct buildah buildah = { .log_fd = -1 };
	_cleanup_free_ char *file =
		xasprintf("%s/containers/%s", build->context.data, image->containerfile);
	int r = stage_buildah(build, place, &buildah, error);

	if (r < 0)
		return r;
	buildah.network = image->network;
	buildah.target = image->target;
	buildah.has_stages = image->has_stages;
	buildah.date = image->date;
	r = buildah_build(
		&buildah, file, image->folder, &image->arguments, &image->labels, ret_id, error);
	return r < 0 ? error_prefix(error, r, "log %s", place->log) : 0;
}

void made_image_free(struct made_image *image)
{
	strv_free(&image->arguments);
	strv_free(&image->labels);
}

/* ---- names of images */

static int read_name(const char *output, char **ret_name)
{
	_cleanup_free_ char *path = xasprintf("%s/" IMAGE_NAME_FILE, output);

	return fs_read_line(AT_FDCWD, path, ret_name);
}

bool image_still_there(const char *output)
{
	_cleanup_free_ char *name = NULL;
	_cleanup_free_ char *id = NULL;

	if (read_name(output, &name) < 0)
		return false;
	id = buildah_image_id(name);
	return id != NULL;
}

char *image_name(const struct stage *stage, struct error *error)
{
	char *name = NULL;
	int r = read_name(stage->cached->path, &name);

	if (r < 0)
		(void) error_set_errno(error, r, "%s", stage->cached->path);
	return r < 0 ? NULL : name;
}

int image_name_write(const struct stage_place *place, const char *name, struct error *error)
{
	_cleanup_free_ char *path = xasprintf("%s/" IMAGE_NAME_FILE, place->folder);
	int r = fs_write_atomic(AT_FDCWD, path, name, strlen(name), 0644);

	return r < 0 ? error_set_errno(error, r, "%s", place->folder) : 0;
}

int made_image_keep(struct build *build, const struct stage_place *place,
	const struct made_image *image, const char *prefix, struct error *error)
{
	_cleanup_free_ char *name = xasprintf(IMAGE_LOCAL "%s:%.16s", prefix, place->key);
	_cleanup_free_ char *id = NULL;
	int r = made_image_build(build, place, image, &id, error);

	if (r == 0)
		r = buildah_tag(id, name, error);
	return r < 0 ? r : image_name_write(place, name, error);
}

int image_import(const struct build *build, const struct stage_place *place, const char *tar,
	const char *name, const char *arch, struct error *error)
{
	const struct buildah buildah = { .log_fd = -1,
		.run_path = build->context.cache.run_path,
		.scratch_path = build->context.cache.scratch_path };
	int r = buildah_import(&buildah, tar, name, arch, error);

	return r < 0 ? r : image_name_write(place, name, error);
}
