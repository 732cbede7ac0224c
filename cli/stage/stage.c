/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/stage/build.h"

#include <fcntl.h>
#include <string.h>

#include "common/fs.h"

bool stage_applies(const struct build *build, enum stage_id id)
{
	const struct stage *stage = stage_get(id);

	return !stage->applies || stage->applies(build);
}

/* The stage itself, or the one whose output is read in its place. */
static enum stage_id effective(const struct build *build, enum stage_id id)
{
	const enum stage_id otherwise = stage_get(id)->otherwise;

	return otherwise && !stage_applies(build, id) ? otherwise : id;
}

static unsigned int effective_inputs(const struct build *build, enum stage_id id)
{
	unsigned int inputs = 0;

	for (enum stage_id input = 0; input < id; input++)
		if (stage_get(id)->inputs & STAGE_BIT(input))
			inputs |= STAGE_BIT(effective(build, input));
	return inputs;
}

const char *stage_output(const struct build *build, enum stage_id id)
{
	id = effective(build, id);
	return id == STAGE_KERNEL    ? build->kernel.tree.path
	       : id == STAGE_MODULES ? build->kernel.modules.path
				     : build->outputs[id].path;
}

struct cached *stage_cached(struct build *build, enum stage_id id)
{
	return id == STAGE_KERNEL    ? &build->kernel.tree
	       : id == STAGE_MODULES ? &build->kernel.modules
				     : &build->outputs[id];
}

int stage_open(const struct build *build, enum stage_id id, int *ret_fd, struct error *error)
{
	const char *path = stage_output(build, id);
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return error_set_errno(error, -errno, "%s", path);
	*ret_fd = fd;
	return 0;
}

static int compute_key(struct build *build, enum stage_id id, struct error *error)
{
	const struct stage *stage = stage_get(id);
	unsigned int inputs = effective_inputs(build, id);
	struct hash *hash = cached_start_key(stage->name);
	int r;

	for (enum stage_id input = 0; input < id; input++)
		if ((inputs & STAGE_BIT(input)) && stage_applies(build, input))
			hash_add_text(hash, stage_cached(build, input)->key);
	r = stage->add_inputs ? stage->add_inputs(build, hash, error) : 0;
	cached_finish_key(stage_cached(build, id), &build->context, stage->name, hash);
	return r;
}

static bool is_there(struct build *build, enum stage_id id)
{
	return cached_is_there(
		&build->context, stage_cached(build, id), stage_get(id)->still_there);
}

struct run {
	struct build *build;
	const struct stage *stage;
};

static int run_stage(void *data, const struct stage_place *place, struct error *error)
{
	const struct run *run = data;

	return run->stage->run(run->build, place, error);
}

static int make_one(struct build *build, enum stage_id id, struct error *error)
{
	const struct stage *stage = stage_get(id);
	struct run run = { .build = build, .stage = stage };
	const struct cached_maker maker = {
		.name = stage->name,
		.run = run_stage,
		.data = &run,
		.still_there = stage->still_there,
	};

	return cached_make(stage_cached(build, id), &build->context, &maker, error);
}

/* Which stages must run: a goal that is not there, and what such a stage reads that is not there.
 */
static unsigned int missing_stages(struct build *build, unsigned int goals)
{
	unsigned int needed = goals;
	unsigned int missing = 0;

	for (unsigned int id = STAGE_COUNT; id-- > 0;) {
		if (!(needed & STAGE_BIT(id)) || !stage_applies(build, id) || is_there(build, id))
			continue;
		missing |= STAGE_BIT(id);
		needed |= effective_inputs(build, id);
	}
	return missing;
}

int stages_make(struct build *build, unsigned int goals, struct error *error)
{
	unsigned int last = 0;
	unsigned int missing;
	int r;

	for (unsigned int id = 0; id < STAGE_COUNT; id++)
		if (goals & STAGE_BIT(id))
			last = id;
	kernel_set_keys(&build->kernel);
	for (unsigned int id = STAGE_MODULES + 1; id <= last; id++) {
		if (!stage_applies(build, id))
			continue;
		r = compute_key(build, id, error);
		if (r < 0)
			return context_fail(&build->context, stage_get(id)->failure, r);
	}
	missing = missing_stages(build, goals);
	for (unsigned int id = 0; id <= last; id++) {
		if (!(missing & STAGE_BIT(id)))
			continue;
		r = make_one(build, id, error);
		if (r < 0)
			return context_fail(&build->context, stage_get(id)->failure, r);
	}
	return 0;
}
