/* SPDX-License-Identifier: Apache-2.0 */
/* The stages of one build: their keys, which are in the cache, and how the others are made. */
#include "cli/stage/plan.h"

#include <fcntl.h>
#include <string.h>

#include "cli/stage/stage_internal.h"
#include "common/fs.h"
#include "common/xalloc.h"

/* ---- the list */

static const int dimensions[] = {
	[OF_BUILD] = 1,
	[OF_DRIVER] = DRIVER_COUNT,
	[OF_ROOT] = ROOT_COUNT,
	[OF_IMAGE] = IMAGE_COUNT,
};

static char *name_of(const struct plan *plan, const struct stage_row *row, int of)
{
	const char *driver = row->dimension == OF_DRIVER ? plan->drivers[of].name : "";

	return xasprintf("%s%s", driver, row->names ? row->names[of] : row->name);
}

void plan_open(struct build *build, const struct stage_row *rows, const struct driver_row *drivers)
{
	struct plan *plan = &build->plan;

	plan->rows = rows;
	plan->drivers = drivers;

	plan->count = 0;
	for (enum stage_kind kind = 0; kind < STAGE_KIND_COUNT; kind++) {
		plan->first[kind] = plan->count;
		plan->count += (size_t) dimensions[rows[kind].dimension];
	}
	plan->stages = xcalloc(plan->count, sizeof(*plan->stages));
	for (enum stage_kind kind = 0; kind < STAGE_KIND_COUNT; kind++) {
		const struct stage_row *row = &rows[kind];

		for (int of = 0; of < dimensions[row->dimension]; of++) {
			struct stage *stage = &plan->stages[plan->first[kind] + (size_t) of];

			stage->kind = kind;
			stage->of = of;
			stage->name = name_of(plan, row, of);
			stage->cached = kind == STAGE_KERNEL    ? &build->kernel.tree
					: kind == STAGE_MODULES ? &build->kernel.modules
								: &stage->own;
		}
	}
}

void plan_close(struct plan *plan)
{
	for (size_t i = 0; i < plan->count; i++) {
		free(plan->stages[i].name);
		free(plan->stages[i].packages);
		cached_free(&plan->stages[i].own);
	}
	free(plan->stages);
	*plan = (struct plan){ 0 };
}

bool stage_applies(const struct build *build, const struct stage *stage)
{
	stage_applies_function *applies = build->plan.rows[stage->kind].applies;

	return !applies || applies(build, stage);
}

struct stage *stage_find(const struct build *build, enum stage_kind kind, int of)
{
	const struct stage_input *otherwise = &build->plan.rows[kind].otherwise;
	struct stage *stage = &build->plan.stages[build->plan.first[kind] + (size_t) of];

	if (otherwise->kind == STAGE_KERNEL || stage_applies(build, stage))
		return stage;
	of = otherwise->of == OF_SAME ? of : otherwise->of;
	return &build->plan.stages[build->plan.first[otherwise->kind] + (size_t) of];
}

/* ---- what a stage reads */

static bool goes_into(const struct driver_row *drivers, enum driver driver, enum image_id image,
	bool with_bound_to)
{
	if (drivers[driver].image == image)
		return true;
	for (enum driver other = 0; other < DRIVER_COUNT && with_bound_to; other++)
		if (drivers[other].image == image && drivers[other].bound_to == driver)
			return true;
	return false;
}

/* Is the stage number @of of its kind what @stage names so in its row? */
static bool is_meant(const struct plan *plan, const struct stage *stage, int named, int of)
{
	switch (named) {
	case OF_SAME:
		return of == stage->of;
	case OF_BOUND:
		return of == (int) plan->drivers[stage->of].bound_to;
	case OF_OWN:
	case OF_PROVEN:
		return goes_into(plan->drivers, (enum driver) of, (enum image_id) stage->of,
			named == OF_PROVEN);
	case OF_EACH:
		return true;
	default:
		return of == named;
	}
}

int stage_each_input(const struct build *build, const struct stage *stage,
	int (*call)(void *data, struct stage *input), void *data)
{
	const struct stage_row *row = &build->plan.rows[stage->kind];

	for (size_t i = 0; i < row->input_count; i++) {
		enum stage_kind kind = row->inputs[i].kind;
		int count = dimensions[build->plan.rows[kind].dimension];

		for (int of = 0; of < count; of++) {
			struct stage *input;
			int r;

			if (!is_meant(&build->plan, stage, row->inputs[i].of, of))
				continue;
			input = stage_find(build, kind, of);
			if (!stage_applies(build, input))
				continue;
			r = call(data, input);
			if (r != 0)
				return r;
		}
	}
	return 0;
}

/* ---- keys */

void key_text(struct key *key, const char *text)
{
	hash_add_text(key->hash, text);
}

void key_data(struct key *key, const char *format, ...)
{
	_cleanup_free_ char *path = NULL;
	va_list arguments;

	va_start(arguments, format);
	path = xvasprintf(format, arguments);
	va_end(arguments);
	if (key->result == 0)
		key->result = cached_add_data(&key->build->context, path, key->hash, key->error);
}

static void keep_failure(struct key *key, int r, const char *path)
{
	if (r < 0 && key->result == 0)
		key->result = error_set_errno(key->error, r, "%s", path);
}

void key_tree(struct key *key, const char *path)
{
	keep_failure(key, hash_add_tree(key->hash, AT_FDCWD, path), path);
}

void key_file(struct key *key, const char *path)
{
	keep_failure(key, hash_add_file(key->hash, AT_FDCWD, path), path);
}

struct settling {
	struct build *build;
	struct error *error;
	struct hash *hash; /* of the one that reads it */
};

static int settle(struct build *build, struct stage *stage, struct error *error);

static int settle_input(void *data, struct stage *input)
{
	struct settling *settling = data;
	int r = settle(settling->build, input, settling->error);

	if (r == 0)
		hash_add_text(settling->hash, input->cached->key);
	return r;
}

/* Its key, and before that those of all that it reads; once. */
static int settle(struct build *build, struct stage *stage, struct error *error)
{
	const struct stage_row *row = &build->plan.rows[stage->kind];
	struct settling settling = { .build = build, .error = error };
	struct key key = { .build = build, .error = error };

	if (stage->has_key)
		return 0;
	if (stage->kind == STAGE_KERNEL || stage->kind == STAGE_MODULES) {
		kernel_set_keys(&build->kernel);
		stage->has_key = true;
		return 0;
	}
	key.hash = settling.hash = cached_start_key(stage->name);
	key.result = stage_each_input(build, stage, settle_input, &settling);
	if (key.result == 0 && row->add_inputs)
		row->add_inputs(stage, &key);
	cached_finish_key(stage->cached, &build->context, stage->name, key.hash);
	stage->has_key = key.result == 0;
	if (key.result < 0 && build->context.failure == EXIT_CODE_OK)
		return context_fail(&build->context, row->failure, key.result);
	return key.result;
}

int stage_settle_again(struct build *build, struct stage *stage, struct error *error)
{
	stage->has_key = false;
	return settle(build, stage, error);
}

/* ---- what is missing */

struct missing {
	const struct build *build;
	bool *wanted;
	bool (*is_missing)(void *data, struct stage *stage);
	void *data;
};

static int add_missing(void *data, struct stage *stage)
{
	struct missing *missing = data;
	bool *wanted = &missing->wanted[stage - missing->build->plan.stages];

	if (*wanted || !stage_applies(missing->build, stage) ||
		!missing->is_missing(missing->data, stage))
		return 0;
	*wanted = true;
	return stage_each_input(missing->build, stage, add_missing, missing);
}

bool *stages_missing(const struct build *build, unsigned int kinds,
	stage_filter_function *is_wanted, bool (*is_missing)(void *data, struct stage *stage),
	void *data)
{
	struct missing missing = { build, xcalloc(build->plan.count, sizeof(bool)), is_missing,
		data };

	for (size_t i = 0; i < build->plan.count; i++) {
		struct stage *stage = &build->plan.stages[i];

		if ((kinds & STAGE_BIT(stage->kind)) && (!is_wanted || is_wanted(build, stage)))
			(void) add_missing(&missing, stage);
	}
	return missing.wanted;
}

/* Asked once: to look for an image starts a program, and what is there has been kept by that. */
static bool is_not_there(void *data, struct stage *stage)
{
	const struct build *build = data;

	if (stage->state == STAGE_UNKNOWN)
		stage->state = cached_is_there(&build->context, stage->cached,
				       build->plan.rows[stage->kind].still_there)
				       ? STAGE_THERE
				       : STAGE_MISSING;
	return stage->state == STAGE_MISSING;
}

int stages_look(struct build *build, unsigned int kinds, stage_filter_function *is_wanted,
	bool **ret_missing, struct error *error)
{
	for (size_t i = 0; i < build->plan.count; i++) {
		struct stage *stage = &build->plan.stages[i];
		int r;

		if (!(kinds & STAGE_BIT(stage->kind)) || !stage_applies(build, stage) ||
			(is_wanted && !is_wanted(build, stage)))
			continue;
		r = settle(build, stage, error);
		if (r < 0)
			return r;
	}
	*ret_missing = stages_missing(build, kinds, is_wanted, is_not_there, build);
	return 0;
}

/* ---- making them */

struct run {
	struct build *build;
	const struct stage *stage;
};

static int run_stage(void *data, const struct stage_place *place, struct error *error)
{
	const struct run *run = data;

	return run->build->plan.rows[run->stage->kind].run(run->build, run->stage, place, error);
}

int stage_make(struct build *build, struct stage *stage, struct error *error)
{
	const struct stage_row *row = &build->plan.rows[stage->kind];
	struct run run = { .build = build, .stage = stage };
	struct cached_maker maker = {
		.name = stage->name,
		.run = run_stage,
		.data = &run,
		.still_there = row->still_there,
	};
	int r;

	if (stage->kind == STAGE_KERNEL)
		maker = kernel_tree_maker(&build->kernel);
	else if (stage->kind == STAGE_MODULES)
		maker = kernel_modules_maker(&build->kernel);
	r = cached_make(stage->cached, &build->context, &maker, error);
	if (r < 0)
		return context_fail(&build->context, row->failure, r);
	stage->state = STAGE_THERE;
	return 0;
}

bool stages_any_ran(const struct build *build)
{
	for (size_t i = 0; i < build->plan.count; i++)
		if (build->plan.stages[i].cached->ran)
			return true;
	return false;
}

/* ---- outputs */

const char *stage_output(const struct build *build, enum stage_kind kind, int of)
{
	return stage_find(build, kind, of)->cached->path;
}

int stage_open(const struct stage *stage, struct error *error)
{
	const char *path = stage->cached->path;
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? error_set_errno(error, -errno, "%s", path) : fd;
}

char *set_value(const struct stage *stage, const char *key, struct error *error)
{
	_cleanup_free_ char *path = xasprintf("%s/set.conf", stage->cached->path);
	_cleanup_strv_ struct strv lines = { 0 };
	_cleanup_free_ char *text = NULL;
	size_t length = strlen(key);
	int r = fs_read(AT_FDCWD, path, 0, &text, NULL);

	if (r < 0) {
		(void) error_set_errno(error, r, "%s", path);
		return NULL;
	}
	xstrv_split(&lines, text, "\n");
	for (size_t i = 0; i < lines.count; i++)
		if (strncmp(lines.items[i], key, length) == 0 && lines.items[i][length] == '=')
			return xstrdup(lines.items[i] + length + 1);
	(void) error_set(error, -EINVAL, "%s: no %s= line in it", path, key);
	return NULL;
}
