/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/stage/stage_tools.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "common/buildlog.h"
#include "common/fs.h"

int stage_conf_value(const struct build *build, enum stage_id stage, const char *file,
	const char *key, char **ret_value, struct error *error)
{
	_cleanup_strv_ struct strv lines = { 0 };
	_cleanup_free_ char *path = NULL;
	_cleanup_free_ char *text = NULL;
	size_t length = strlen(key);
	int r;

	if (asprintf(&path, "%s/%s", stage_output(build, stage), file) < 0)
		return error_set_errno(error, -ENOMEM, "%s", file);
	r = fs_read(AT_FDCWD, path, 0, &text, NULL);
	if (r == 0)
		r = strv_split(&lines, text, "\n");
	if (r < 0)
		return error_set_errno(error, r, "%s", path);
	for (size_t i = 0; i < lines.count; i++) {
		if (strncmp(lines.items[i], key, length) != 0 || lines.items[i][length] != '=')
			continue;
		*ret_value = strdup(lines.items[i] + length + 1);
		return *ret_value ? 0 : error_set_errno(error, -ENOMEM, "%s", path);
	}
	return error_set(error, -EINVAL, "%s: no %s= line in it", path, key);
}

/* The last two parts of a path: the recipe's folders are the same for all. */
static const char *short_name(const char *path)
{
	const char *parts = path;
	size_t slashes = 0;

	for (const char *c = path + strlen(path); c > path && slashes < 2; c--)
		if (c[-1] == '/' && ++slashes)
			parts = c;
	return slashes == 2 ? parts : path;
}

/* How much the newest log of this stage had compiled, for this kernel or another. */
static size_t count_in_last_log(const struct build *build, const char *stage)
{
	const struct cache *cache = &build->context.cache;
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *newest = NULL;
	_cleanup_free_ char *text = NULL;
	size_t length = strlen(stage);
	time_t newest_s = 0;

	if (fs_list(cache->fd, "logs", &names) < 0)
		return 0;
	for (size_t i = 0; i < names.count; i++) {
		_cleanup_free_ char *path = NULL;
		const char *name = names.items[i];
		struct stat status;

		/* What follows is a key: a name such as "nvidia-source" goes on with another. */
		if (strncmp(name, stage, length) != 0 || name[length] != '-' ||
			strchr(name + length + 1, '-') || asprintf(&path, "logs/%s", name) < 0 ||
			fstatat(cache->fd, path, &status, 0) < 0 || status.st_size == 0 ||
			status.st_mtime < newest_s)
			continue;
		newest_s = status.st_mtime;
		free(newest);
		newest = TAKE_PTR(path);
	}
	if (!newest || fs_read(cache->fd, newest, 0, &text, NULL) < 0)
		return 0;
	return buildlog_count_compiled(text);
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

int stage_buildah(struct build *build, const struct stage_place *place, struct buildah *ret,
	struct error *error)
{
	struct progress *progress = &build->context.progress;
	size_t to_compile = progress->stage ? count_in_last_log(build, progress->stage) : 0;
	int fd = open(place->log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);

	if (fd < 0)
		return error_set_errno(error, -errno, "%s", place->log);
	progress->to_compile = to_compile;
	*ret = (struct buildah){
		.log_fd = fd,
		.on_line = on_line,
		.context = build,
		.run_path = build->context.cache.run_path,
	};
	return 0;
}

void stage_buildah_done(struct buildah *buildah)
{
	cleanup_close(&buildah->log_fd);
}
