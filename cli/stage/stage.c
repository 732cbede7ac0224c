/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/stage/build.h"

#include <fcntl.h>
#include <string.h>

#include "common/fs.h"

/* Goes into every key: a change in what outputs look like makes all old ones strangers. */
#define CACHE_VERSION "slipway-cache-1"

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
	return build->states[effective(build, id)].output;
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

static int add_stage(struct build *build, enum stage_id id, struct hash *hash, struct error *error)
{
	const struct stage *stage = stage_get(id);
	unsigned int inputs = effective_inputs(build, id);

	hash_add_text(hash, CACHE_VERSION);
	hash_add_text(hash, stage->name);
	for (enum stage_id input = 0; input < id; input++)
		if ((inputs & STAGE_BIT(input)) && stage_applies(build, input))
			hash_add_text(hash, build->states[input].key);
	return stage->add_inputs ? stage->add_inputs(build, hash, error) : 0;
}

static int compute_key(struct build *build, enum stage_id id, struct error *error)
{
	struct stage_state *state = &build->states[id];
	struct hash *hash = hash_new();
	int r;

	if (!hash)
		return error_set_errno(error, -ENOMEM, "key");
	r = add_stage(build, id, hash, error);
	hash_finish(hash, state->key);
	if (r < 0)
		return r;
	free(state->output);
	state->output = cache_output_path(&build->context.cache, stage_get(id)->name, state->key);
	return state->output ? 0 : error_set_errno(error, -ENOMEM, "key");
}

static bool is_there(const struct build *build, enum stage_id id)
{
	const struct stage *stage = stage_get(id);
	const char *output = stage_output(build, id);

	return cache_use(&build->context.cache, output) &&
	       (!stage->still_there || stage->still_there(build, output));
}

static int run_into(struct build *build, enum stage_id id, struct error *error)
{
	const struct stage *stage = stage_get(id);
	struct stage_state *state = &build->states[id];
	_cleanup_free_ char *folder = NULL;
	_cleanup_free_ char *log = cache_log_path(&build->context.cache, stage->name, state->key);
	struct stage_place place = { .log = log, .key = state->key };
	int r = log ? cache_new_folder(&build->context.cache, stage->name, &folder) : -ENOMEM;

	if (r < 0)
		return error_set_errno(error, r, "%s", stage->name);
	place.folder = folder;
	r = stage->run(build, &place, error);
	if (r < 0)
		return r;
	/* One that is there stands for an image that is not; nobody has such a folder mounted. */
	r = cache_set_aside(&build->context.cache, state->output);
	if (r == 0)
		r = cache_keep(&build->context.cache, folder, state->output);
	return r < 0 ? error_set_errno(error, r, "%s", state->output) : 0;
}

static int make_one(struct build *build, enum stage_id id, struct error *error)
{
	const struct stage *stage = stage_get(id);
	_cleanup_close_ int lock_fd = -1;
	int r;

	progress_begin(&build->context.progress, stage->name);
	r = cache_lock(&build->context.cache, stage->name, build->states[id].key, &lock_fd);
	if (r < 0)
		return error_set_errno(error, r, "%s: lock in the cache", stage->name);
	/* Another run may have made it since we looked, and others may use it already. */
	if (is_there(build, id)) {
		progress_end(&build->context.progress, "made by another run");
		return 0;
	}
	r = run_into(build, id, error);
	progress_end(&build->context.progress, r < 0 ? "failed" : "done");
	build->states[id].ran = r == 0;
	return r;
}

/* Which stages must run: a goal that is not there, and what such a stage reads that is not there.
 */
static unsigned int missing_stages(const struct build *build, unsigned int goals)
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
	for (unsigned int id = 0; id <= last; id++) {
		if (!stage_applies(build, id))
			continue;
		r = compute_key(build, id, error);
		if (r < 0) {
			build->failure = exit_code_for(r, stage_get(id)->failure);
			return r;
		}
	}
	missing = missing_stages(build, goals);
	for (unsigned int id = 0; id <= last; id++) {
		if (!(missing & STAGE_BIT(id)))
			continue;
		r = make_one(build, id, error);
		if (r < 0) {
			build->failure = exit_code_for(r, stage_get(id)->failure);
			return r;
		}
	}
	return 0;
}
