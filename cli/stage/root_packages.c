/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The packages of roots and of the runtime base: apt or dnf chooses them by the lists of today, or
 * a lock has them. They are in the keys, so that the same packages are the same root on any machine
 * and day.
 */
#include "cli/stage/stage_internal.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "common/xalloc.h"
#include "kernels/tool.h"

#define CHOICE_PACKAGES "packages" /* "NAME VERSION ARCH CHECKSUM" lines, in a choice's output */

static bool has_packages(const struct build *build, const struct stage *stage)
{
	const struct build_options *options = &build->options;

	if (stage->kind == STAGE_RUNTIME_BASE)
		return !options->base;
	return stage->kind == STAGE_ROOT && stage_applies(build, stage) &&
	       !(stage->of == ROOT_KERNEL && options->base_image);
}

/* ---- choosing them */

struct choice {
	struct build *build;
	const struct stage *stage;
};

static int make_choice(void *data, const struct stage_place *place, struct error *error)
{
	const struct choice *choice = data;
	_cleanup_(root_files_free) struct root_files files = { 0 };
	_cleanup_strv_ struct strv argv = { 0 };
	int r = root_sources(choice->build, root_of(choice->stage), &files, error);

	if (r < 0)
		return r;
	root_command(choice->build, choice->stage, "list", &files, &argv);
	xstrv_push(&argv, "--list");
	xstrv_pushf(&argv, "%s/" CHOICE_PACKAGES, place->folder);
	if (*choice->build->roots[root_of(choice->stage)].os.root.suite) { /* of apt */
		xstrv_push(&argv, "--lists");
		xstrv_pushf(&argv, "%s/apt-lists", choice->build->context.cache.scratch_path);
	}
	progress_step(&choice->build->context.progress, "select them by the lists");
	return tool_run_logged(&argv, place->log, error);
}

static int read_packages(const char *folder, struct stage *stage, struct error *error)
{
	_cleanup_free_ char *path = xasprintf("%s/" CHOICE_PACKAGES, folder);
	int r;

	free(stage->packages);
	stage->packages = NULL;
	r = fs_read(AT_FDCWD, path, 0, &stage->packages, NULL);
	return r < 0 ? error_set_errno(error, r, "%s", path) : 0;
}

/* "build-packages" of the build-root. */
static char *choice_name(const struct stage *stage)
{
	return xasprintf("%.*s-packages", (int) strcspn(stage->name, "-"), stage->name);
}

/* Has apt or dnf choose them, unless it has from the same lists. */
static int choose(struct build *build, struct stage *stage, bool refresh, struct error *error)
{
	struct choice choice = { .build = build, .stage = stage };
	_cleanup_free_ char *name = choice_name(stage);
	_cleanup_(cached_free) struct cached cached = { 0 };
	_cleanup_free_ char *lists = NULL;
	const struct cached_maker maker = { .name = name, .run = make_choice, .data = &choice };
	struct key key = { .build = build, .error = error, .hash = cached_start_key(name) };
	int r = root_read_lists(build, root_of(stage), refresh, &lists, error);

	root_question_key(stage, &key);
	key_text(&key, lists ? lists : "");
	cached_finish_key(&cached, &build->context, name, key.hash);
	if (r == 0)
		r = key.result;
	if (r < 0)
		return context_fail(&build->context, context_exit_code(r), r);
	if (!cached_is_there(&build->context, &cached, NULL))
		r = cached_make(&cached, &build->context, &maker, error);
	return r < 0 ? context_fail(&build->context, EXIT_CODE_IMAGE, r)
		     : read_packages(cached.path, stage, error);
}

/*
 * With the time of --snapshot and the minor release in the places of its repositories, if they have
 * one: other lists are there. A root's own key has the packages that were chosen by them.
 */
static void question_of(const struct stage *stage, struct build *build, char hex[HASH_HEX_SIZE])
{
	static char none[] = "";
	const struct mirror any = { .url = none };
	const struct catalogue *os = &build->roots[root_of(stage)].os;
	struct error ignored;
	struct key key = { .build = build, .error = &ignored, .hash = hash_new() };

	root_question_key(stage, &key);
	for (size_t i = 0; i < os->repository_count; i++) {
		const struct repository *repository = &os->repositories[i];
		_cleanup_free_ char *place = NULL;

		if (!repository_in_root(os, repository) ||
			(!strstr(repository->path, "{snapshot}") &&
				!strstr(repository->path, "{release}")))
			continue;
		if (mirrors_url(&any, repository, os, build->target.krel, arch_here()->uname,
			    build->context.options->snapshot, &place, &ignored) == 0)
			key_text(&key, place);
	}
	hash_finish(key.hash, hex);
}

int root_note_packages(struct build *build, const struct stage *stage,
	const struct stage_place *place, struct error *error)
{
	_cleanup_free_ char *question = xasprintf("%s/" ROOT_QUESTION, place->folder);
	_cleanup_free_ char *packages = xasprintf("%s/" CHOICE_PACKAGES, place->folder);
	char hex[HASH_HEX_SIZE];
	int r;

	question_of(stage, build, hex);
	r = fs_write_atomic(AT_FDCWD, question, hex, strlen(hex), 0644);
	if (r == 0)
		r = fs_write_atomic(
			AT_FDCWD, packages, stage->packages, strlen(stage->packages), 0644);
	return r < 0 ? error_set_errno(error, r, "%s", place->folder) : 0;
}

/* Those of the root that was used last of all that an earlier run has made to the same question. */
static bool recall(struct build *build, struct stage *stage)
{
	_cleanup_strv_ struct strv outputs = { 0 };
	_cleanup_free_ char *newest = NULL;
	char hex[HASH_HEX_SIZE];
	struct error ignored;
	time_t newest_s = 0;

	question_of(stage, build, hex);
	(void) !fs_list(build->context.cache.fd, "stages", &outputs);
	for (size_t i = 0; i < outputs.count; i++) {
		_cleanup_free_ char *path =
			xasprintf("%s/stages/%s", build->context.cache.path, outputs.items[i]);
		_cleanup_free_ char *file = xasprintf("%s/" ROOT_QUESTION, path);
		_cleanup_free_ char *question = NULL;
		struct stat status;

		if (!cache_entry_is_of(outputs.items[i], stage->name) ||
			fs_read_line(AT_FDCWD, file, &question) < 0 || strcmp(question, hex) != 0 ||
			stat(path, &status) < 0 || status.st_mtime < newest_s)
			continue;
		newest_s = status.st_mtime;
		free(newest);
		newest = TAKE_PTR(path);
	}
	return newest && read_packages(newest, stage, &ignored) == 0;
}

static bool is_made(struct build *build, struct stage *stage)
{
	struct error ignored;

	return stage_settle_again(build, stage, &ignored) == 0 &&
	       cached_is_there(
		       &build->context, stage->cached, build->plan.rows[stage->kind].still_there);
}

/*
 * After @r: may a root be the last that an earlier run has made? Where a mirror does not answer, or
 * a repository is gone. A list that is not to be trusted ends the build, as for a kernel; so does
 * a full disk; and --refresh asks for today's lists.
 */
static bool may_be_recalled(const struct build *build, int r)
{
	return !build->options.common.refresh && r != -EKEYREJECTED && r != -ENOSPC && r != -EDQUOT;
}

/*
 * The lock's, of a root that is there; else by today's lists. These are asked for again before a
 * root is made, so that they are those that it is made of.
 */
static int settle(struct build *build, struct stage *stage, struct error *error)
{
	bool refresh = build->options.common.refresh;
	bool asks = !build->options.common.offline && !build->bundle_slipway;
	int r;

	stage->packages = lock_root_text(&build->kernel.lock, stage->name);
	if (stage->packages && (!asks || (!refresh && is_made(build, stage))))
		return 0;
	if (!asks) {
		(void) recall(build, stage);
		return 0;
	}
	r = choose(build, stage, refresh, error);
	if (r == 0 && !refresh && !is_made(build, stage))
		r = choose(build, stage, true, error);
	if (r == 0 || !may_be_recalled(build, r) || !recall(build, stage) || !is_made(build, stage))
		return r;
	build->context.failure = EXIT_CODE_OK;
	progress_notef(&build->context.progress,
		"the packages of the %s are those that it had last: %s", stage->name, error->text);
	return 0;
}

/*
 * Distributions patch their own compiler and the cross compiler apart: Debian 12's gcc for amd64
 * and arm64 has the fix of CVE-2023-4039, of arm64's stack protector, and its cross compiler has
 * not.
 */
static void note_cross_compiler(struct build *build, const struct stage *root)
{
	const struct kernel_compiler *compiler = &build->kernel.record.compiler;
	_cleanup_free_ char *start =
		xasprintf("%s-%s ", compiler->name, build->target.arch->triplet);
	_cleanup_free_ char *version = NULL;
	_cleanup_free_ char *base = NULL;
	_cleanup_free_ char *own = NULL;
	const char *line = root->packages;
	char *end;

	while (line && strncmp(line, start, strlen(start)) != 0) {
		line = strchr(line, '\n');
		line = line ? line + 1 : NULL;
	}
	if (!line || !compiler->text)
		return;
	line += strlen(start);
	version = xstrndup(line, strcspn(line, " \n"));
	base = xstrdup(version); /* "12.2.0-14" of 12.2.0-14cross1 */
	end = strstr(base, "cross");
	if (end)
		*end = '\0';
	own = xasprintf(" %s)", base);
	if (!strstr(compiler->text, own))
		progress_notef(&build->context.progress,
			"the cross compiler, %s%s, is not the very one that compiled the kernel, "
			"\"%s\": it may lack one of its fixes (docs/arm64.md)",
			start, version, compiler->text);
}

int roots_settle(struct build *build, struct error *error)
{
	for (size_t i = 0; i < build->plan.count; i++) {
		struct stage *stage = &build->plan.stages[i];
		int r = has_packages(build, stage) ? settle(build, stage, error) : 0;

		if (r < 0)
			return r;
		stage->has_key = false;
	}
	if (build_is_cross(build))
		note_cross_compiler(build, stage_find(build, STAGE_ROOT, ROOT_KERNEL));
	return 0;
}

void roots_lock(struct build *build)
{
	for (size_t i = 0; i < build->plan.count; i++) {
		const struct stage *stage = &build->plan.stages[i];
		size_t others;

		if (!stage->packages)
			continue;
		others = lock_set_root(&build->kernel.lock, stage->name, stage->packages);
		if (others)
			progress_notef(&build->context.progress,
				"%zu packages of the %s differ from the lock, because the lists "
				"have newer ones; slipway bundle keeps the root itself",
				others, stage->name);
	}
}
