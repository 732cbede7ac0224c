/* SPDX-License-Identifier: Apache-2.0 */
/* Each member against the kernel and the other members, on several threads. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "module/proof_set_parts.h"

#define BATCH    16 /* members that a thread takes at once */
#define MAX_JOBS 64

struct crew {
	struct set_work *work;
	atomic_size_t next;
	atomic_int failed; /* 0 or -ENOMEM */
};

/* What the overlay's functions get. */
struct view {
	struct set_work *work;
	uint32_t self;
	uint32_t found; /* who exports what find() found last, or SET_NONE */
};

int set_add_edge(struct set_work *work, uint32_t from, uint32_t to, bool hard)
{
	struct set_node *node = &work->nodes[from];
	uint32_t capacity = node->edge_capacity ? node->edge_capacity * 2 : 8;

	for (uint32_t i = node->edge_count; i-- > 0;)
		if (node->edges[i].to == to) {
			node->edges[i].hard = node->edges[i].hard || hard;
			return 0;
		}
	if (node->edge_count == node->edge_capacity) {
		struct set_edge *edges = reallocarray(node->edges, capacity, sizeof(*edges));

		if (!edges)
			return -ENOMEM;
		node->edges = edges;
		node->edge_capacity = capacity;
	}
	node->edges[node->edge_count++] = (struct set_edge){ to, hard };
	return 0;
}

static bool find(void *context, const char *symbol, uint32_t hash, struct proof_export *ret)
{
	struct view *view = context;
	uint32_t place = set_table_find_hashed(&view->work->symbols, symbol, hash);
	const struct set_export *found;

	view->found = SET_NONE;
	if (place == SET_NONE)
		return false;
	found = &view->work->exports[place];
	if (found->member == view->self)
		return false;
	view->found = found->member;
	set_export_of(view->work, found, ret);
	return true;
}

/* What the member itself exports it does not see. */
static const struct proof_export *find_known(void *context, size_t entry)
{
	struct view *view = context;
	const struct set_known *known = &view->work->known[entry];

	if (!known->export.exporter || known->member == view->self)
		return NULL;
	view->found = known->member;
	return &known->export;
}

static int use(void *context, const struct proof_export *export, bool weak)
{
	const struct view *view = context;

	if (view->found == SET_NONE)
		return weak || export->vmlinux ? 0
					       : set_rely(view->work, view->self, export->exporter);
	return set_add_edge(view->work, view->self, view->found, !weak);
}

/* By a member of the same name; a module whose file cannot be read leaves the kernel's in place. */
static bool replaces(void *context, const char *path)
{
	const struct view *view = context;

	return set_replaces(view->work, path);
}

static bool is_kernels(void *context, const char *name)
{
	const struct view *view = context;

	return set_table_find(&view->work->kernel, name) != SET_NONE;
}

static bool is_built_in(void *context, const char *name)
{
	const struct view *view = context;

	return set_table_find(&view->work->kernel, name) == SET_BUILT_IN;
}

static int prove(struct set_work *work, uint32_t member)
{
	struct proof_member *proved = &work->set->members[member];
	struct view view = { .work = work, .self = member, .found = SET_NONE };
	const struct proof_overlay overlay = { .context = &view,
		.find = find,
		.find_known = find_known,
		.use = use,
		.replaces = replaces,
		.is_kernels = is_kernels,
		.is_built_in = is_built_in };

	if (!proved->module)
		return 0;
	proof_free(&proved->proof);
	work->nodes[member].edge_count = 0;
	if (proof_module_among(proved->module, work->set->kernel, &overlay, &proved->proof) < 0)
		return -ENOMEM;
	return set_add_wishes(work, member);
}

static void *labour(void *context)
{
	struct crew *crew = context;
	size_t count = crew->work->set->member_count;

	while (atomic_load(&crew->failed) == 0) {
		size_t first = atomic_fetch_add(&crew->next, BATCH);

		if (first >= count)
			break;
		for (size_t i = first; i < first + BATCH && i < count; i++)
			if (prove(crew->work, (uint32_t) i) < 0)
				atomic_store(&crew->failed, -ENOMEM);
	}
	return NULL;
}

/* This thread works too, and alone where no other can be had. */
static int prove_all(struct set_work *work)
{
	struct crew crew = { .work = work };
	pthread_t threads[MAX_JOBS];
	size_t wanted = work->set->jobs ? work->set->jobs - 1 : 0;
	size_t batches = work->set->member_count / BATCH;
	size_t started = 0;

	if (wanted > MAX_JOBS)
		wanted = MAX_JOBS;
	if (wanted > batches)
		wanted = batches;
	while (started < wanted && pthread_create(&threads[started], NULL, labour, &crew) == 0)
		started++;
	(void) labour(&crew);
	for (size_t i = 0; i < started; i++)
		(void) pthread_join(threads[i], NULL);
	return atomic_load(&crew.failed);
}

static bool inherits_taint(const struct proof *proof)
{
	for (size_t i = 0; i < proof->count; i++)
		if (strcmp(proof->findings[i].id, "inherits-taint") == 0)
			return true;
	return false;
}

/* Who turned out to be proprietary by what it uses is so for those that use it. */
static bool taint_heirs(struct set_work *work)
{
	bool changed = false;

	for (size_t i = 0; i < work->set->member_count; i++) {
		const struct proof_member *member = &work->set->members[i];
		size_t count = 0;

		if (!member->module || work->nodes[i].proprietary ||
			!inherits_taint(&member->proof))
			continue;
		work->nodes[i].proprietary = true;
		(void) elf_module_exports(member->module, &count);
		changed = changed || count;
	}
	return changed;
}

int set_prove_members(struct set_work *work)
{
	int r;

	do {
		r = set_know(work);
		if (r == 0)
			r = prove_all(work);
	} while (r == 0 && taint_heirs(work));
	return r;
}
