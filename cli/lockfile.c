/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/lockfile.h"

#include <fcntl.h>
#include <string.h>

#include "cli/arrow_tools.h"
#include "common/fs.h"
#include "kernels/resolve_apt.h"

static int open_apt(struct build *build, struct error *error)
{
	_cleanup_free_ char *folder = NULL;
	struct apt_options options = { .os = &build->context.os,
		.refresh = build->options.common.refresh };
	int r;

	if (asprintf(&folder, "%s/apt/%s", build->context.cache.path, build->context.os.os) < 0)
		return error_set_errno(error, -ENOMEM, "apt");
	options.folder = folder;
	r = apt_open(&options, &build->apt, error);
	if (r < 0)
		return r;
	if (apt_warning(build->apt))
		progress_note(&build->context.progress, apt_warning(build->apt));
	if (options.refresh)
		r = cache_set_refreshed(
			&build->context.cache, build->context.os.os, apt_stamp(build->apt));
	return r < 0 ? error_set_errno(error, r, "%s", build->context.cache.path) : 0;
}

/* The same question to the same lists has the same answer. */
static int question_path(
	const struct build *build, const struct resolve_request *request, char **ret_path)
{
	struct hash *hash = hash_new();
	char key[HASH_HEX_SIZE];

	if (!hash)
		return -ENOMEM;
	hash_add_text(hash, "resolve-1");
	hash_add_text(hash, apt_stamp(build->apt));
	hash_add_text(hash, request->krel);
	hash_add_text(hash, request->os->os);
	hash_add_text(hash, request->os->kernel.series);
	hash_add_text(hash, request->os->kernel.flavour);
	for (size_t i = 0; i < request->extra_count; i++) {
		hash_add_text(hash, request->extras[i].name);
		hash_add_text(hash, request->extras[i].purpose);
	}
	hash_finish(hash, key);
	return asprintf(ret_path, "resolved/%s.json", key) < 0 ? -ENOMEM : 0;
}

static bool read_answer(struct build *build, const char *path)
{
	_cleanup_free_ char *text = NULL;
	struct error ignored = { 0 };

	/* An unreadable answer is asked for again. */
	return fs_read(build->context.cache.fd, path, 0, &text, NULL) == 0 &&
	       lock_read(text, &build->lock, &ignored) == 0;
}

static int ask(struct build *build, const struct resolve_request *request, struct error *error)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_free_ char *text = NULL;
	int r = question_path(build, request, &path);

	if (r < 0)
		return error_set_errno(error, r, "resolve");
	if (read_answer(build, path))
		return 0;
	r = resolve(build->apt, request, &build->lock, error);
	if (r < 0)
		return r;
	/* The lists may have been refreshed on the way. */
	free(TAKE_PTR(path));
	r = question_path(build, request, &path);
	text = lock_write(&build->lock);
	if (r == 0)
		r = text ? fs_write_atomic(build->context.cache.fd, path, text, strlen(text), 0644)
			 : -ENOMEM;
	return r < 0 ? error_set_errno(error, r, "resolve") : 0;
}

/* The userspace packages, which only fit beside the same driver version. */
static int read_userspace_names(const struct build *build, struct strv *names)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_free_ char *text = NULL;
	_cleanup_strv_ struct strv lines = { 0 };
	int r;

	if (asprintf(&path, "%s/containers/recipes/userspace.packages", build->context.data) < 0)
		return -ENOMEM;
	r = fs_read(AT_FDCWD, path, 0, &text, NULL);
	if (r == 0)
		r = strv_split(&lines, text, "\n");
	for (size_t i = 0; i < lines.count && r == 0; i++)
		if (*lines.items[i] != '#')
			r = strv_push(names, lines.items[i]);
	return r;
}

/* Fills @extras, which has room for all. Returns how many. */
static size_t list_extras(
	const struct build *build, const struct strv *userspace, struct resolve_extra *extras)
{
	const struct catalogue *os = &build->context.os;
	size_t count = 0;

	if (build->ofed.kind == SOURCE_PACKAGE)
		extras[count++] = (struct resolve_extra){ .name = os->image.linux_source_package,
			.purpose = LOCK_OFED_SOURCE };
	if (build->nvidia.kind != SOURCE_PACKAGE)
		return count;
	extras[count++] = (struct resolve_extra){ .name = os->image.nvidia_package,
		.purpose = LOCK_NVIDIA_SOURCE };
	for (size_t i = 0; i < userspace->count; i++)
		extras[count++] = (struct resolve_extra){
			.name = userspace->items[i],
			.purpose = LOCK_NVIDIA_USERSPACE,
			.same_upstream_as = os->image.nvidia_package,
		};
	return count;
}

static int open_and_ask(struct build *build, struct error *error)
{
	_cleanup_free_ struct resolve_extra *extras = NULL;
	_cleanup_strv_ struct strv userspace = { 0 };
	struct resolve_request request = { .krel = build->options.krel, .os = &build->context.os };
	int r = read_userspace_names(build, &userspace);

	if (r < 0)
		return error_set_errno(error, r, "containers/recipes/userspace.packages");
	extras = calloc(userspace.count + 2, sizeof(*extras));
	if (!extras)
		return error_set_errno(error, -ENOMEM, "resolve");
	request.extras = extras;
	request.extra_count = list_extras(build, &userspace, extras);
	r = open_apt(build, error);
	return r < 0 ? r : ask(build, &request, error);
}

int lockfile_make(struct build *build, struct error *error)
{
	int r;

	progress_begin(&build->context.progress, "resolve");
	r = open_and_ask(build, error);
	if (r == 0)
		progress_step(&build->context.progress, build->lock.krel);
	progress_end(&build->context.progress, r < 0 ? "failed" : "done");
	if (r == -ENODATA)
		build->failure = EXIT_CODE_KERNEL;
	else if (r == -ENOENT)
		build->failure = EXIT_CODE_SOURCE;
	else if (r < 0)
		build->failure = exit_code_for(r, EXIT_CODE_NETWORK);
	return r;
}
