/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The packages of roots and of the runtime base: apt or dnf chooses them by the lists of today, or
 * a lock has them. They are in the keys, so that the same packages are the same root on any machine
 * and day.
 */
#include "cli/stage/stage_internal.h"

#include <fcntl.h>
#include <string.h>

#include "common/fs.h"
#include "common/xalloc.h"

/* Files of an output that keeps the choice. */
#define CHOICE_PACKAGES "packages" /* "NAME VERSION ARCH CHECKSUM" lines */
#define CHOICE_LISTS    "lists"    /* root_read_lists()'s digest of those that it is from */

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
	char *lists;
	struct cached cached;
};

static void choice_free(struct choice *choice)
{
	free(choice->lists);
	cached_free(&choice->cached);
}

static char *choice_name(const struct stage *stage)
{
	return xasprintf("%s-packages", stage->name);
}

/* One output for each question: lists of another day replace it. */
static int find_choice(struct choice *choice, struct error *error)
{
	struct build *build = choice->build;
	_cleanup_free_ char *name = choice_name(choice->stage);
	struct key key = { .build = build, .error = error, .hash = cached_start_key(name) };

	root_question_key(choice->stage, &key);
	cached_finish_key(&choice->cached, &build->context, name, key.hash);
	return key.result;
}

static int read_choice(const struct choice *choice, char **ret_packages, struct error *error)
{
	_cleanup_free_ char *path = xasprintf("%s/" CHOICE_PACKAGES, choice->cached.path);
	int r = fs_read(AT_FDCWD, path, 0, ret_packages, NULL);

	return r < 0 ? error_set_errno(error, r, "%s", path) : 0;
}

static bool is_of_these_lists(const struct choice *choice)
{
	_cleanup_free_ char *path = xasprintf("%s/" CHOICE_LISTS, choice->cached.path);
	_cleanup_free_ char *lists = NULL;

	return cached_is_there(&choice->build->context, &choice->cached, NULL) &&
	       fs_read_line(AT_FDCWD, path, &lists) == 0 && strcmp(lists, choice->lists) == 0;
}

static int make_choice(void *data, const struct stage_place *place, struct error *error)
{
	const struct choice *choice = data;
	_cleanup_(root_files_free) struct root_files files = { 0 };
	_cleanup_free_ char *lists = xasprintf("%s/" CHOICE_LISTS, place->folder);
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
	progress_step(&choice->build->context.progress, "which they are");
	r = root_script(&argv, place, error);
	if (r < 0)
		return r;
	r = fs_write_atomic(AT_FDCWD, lists, choice->lists, strlen(choice->lists), 0644);
	return r < 0 ? error_set_errno(error, r, "%s", lists) : 0;
}

/* Has apt or dnf choose them, unless it has from the same lists. */
static int choose(struct build *build, struct stage *stage, bool refresh, struct error *error)
{
	_cleanup_(choice_free) struct choice choice = { .build = build, .stage = stage };
	_cleanup_free_ char *name = choice_name(stage);
	const struct cached_maker maker = { .name = name, .run = make_choice, .data = &choice };
	int r = root_read_lists(build, root_of(stage), refresh, &choice.lists, error);

	if (r == 0)
		r = find_choice(&choice, error);
	if (r < 0)
		return context_fail(&build->context, context_exit_code(r), r);
	if (!is_of_these_lists(&choice)) {
		r = cache_set_aside(&build->context.cache, choice.cached.path);
		r = r < 0 ? error_set_errno(error, r, "%s", choice.cached.path)
			  : cached_make(&choice.cached, &build->context, &maker, error);
		if (r < 0)
			return context_fail(&build->context, EXIT_CODE_IMAGE, r);
	}
	free(stage->packages);
	stage->packages = NULL;
	return read_choice(&choice, &stage->packages, error);
}

/* The last choice, from whatever lists. */
static int recall(struct build *build, struct stage *stage, struct error *error)
{
	_cleanup_(choice_free) struct choice choice = { .build = build, .stage = stage };
	int r = find_choice(&choice, error);

	return r < 0 ? r : read_choice(&choice, &stage->packages, error);
}

static bool is_made(struct build *build, struct stage *stage)
{
	struct error ignored;

	return stage_settle_again(build, stage, &ignored) == 0 &&
	       fs_exists(AT_FDCWD, stage->cached->path);
}

/*
 * The lock's, of a root that is there; else by today's lists. These are asked for again before a
 * root is made, so that they are those that it is made of. An unreachable mirror costs no root that
 * an earlier run has made.
 */
static int settle(struct build *build, struct stage *stage, struct error *error)
{
	bool refresh = build->options.common.refresh;
	bool asks = !build->options.common.offline && !build->bundle_slipway;
	struct error ignored;
	int r = 0;

	stage->packages = lock_root_text(&build->kernel.lock, stage->name);
	if (stage->packages && (!asks || (!refresh && is_made(build, stage))))
		return 0;
	if (!asks) {
		(void) recall(build, stage, &ignored);
		return 0;
	}
	r = choose(build, stage, refresh, error);
	if (r == 0 && !refresh && !is_made(build, stage))
		r = choose(build, stage, true, error);
	if (r == 0 || (!stage->packages && recall(build, stage, &ignored) < 0) ||
		!is_made(build, stage))
		return r;
	build->context.failure = EXIT_CODE_OK;
	progress_notef(&build->context.progress,
		"the packages of the %s are those that it had last: %s", stage->name, error->text);
	return 0;
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
