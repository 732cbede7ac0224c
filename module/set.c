/* SPDX-License-Identifier: Apache-2.0 */
#include "module/proof_internal.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define BATCH    16 /* members that a thread takes at once */
#define MAX_JOBS 64
#define MODULES  "lib/modules/"

/* ---- names */

/*
 * Chooses the file that depmod takes of several with one name: the one that it has written into
 * modules.dep; without that file, by depmod.d(5), "search". By default that is "updates", and the
 * kernel's other folders count alike; the kmod package of Fedora and Enterprise Linux brings
 * "search updates extra built-in weak-updates".
 */

/* "5.14.0-503.el9.x86_64", "6.11.4-301.fc41.x86_64" */
static bool has_own_search(const char *krel)
{
	const char *found = krel ? strstr(krel, ".el") : NULL;

	if (krel && !found)
		found = strstr(krel, ".fc");
	return found && found[3] >= '0' && found[3] <= '9';
}

/*
 * Ranks a file by its folder below lib/modules/<krel>; depmod counts a folder that "search" does
 * not name as "built-in".
 */
static unsigned int rank_of(const char *path)
{
	static const char *const folders[] = { "updates/", "extra/", "kernel/", "weak-updates/" };
	const char *found = strstr(path, MODULES);

	if (found && (found == path || found[-1] == '/' || found[-1] == ':')) {
		found = strchr(found + strlen(MODULES), '/');
		path = found ? found + 1 : path;
	}
	for (unsigned int i = 0; i < ARRAY_SIZE(folders); i++)
		if (strncmp(path, folders[i], strlen(folders[i])) == 0)
			return i;
	return 2;
}

static int name_member(struct set_work *work, uint32_t member)
{
	const struct elf_module *module = set_module(work, member);
	struct set_node *node = &work->nodes[member];
	const char *path = work->set->members[member].path;
	char name[NAME_MAX];
	char *end;

	node->position = NAME_NONE;
	node->label = module ? elf_module_name(module) : NULL;
	node->proprietary = module && proof_is_proprietary(module);
	if (node->label)
		return 0;
	/* "updates/x/ib-core.ko.xz" as "ib_core". */
	module_name_copy(path, strlen(path), name, sizeof(name));
	end = strstr(name, ".ko");
	if (end)
		*end = '\0';
	node->own_name = strdup(name);
	node->label = node->own_name;
	return node->label ? 0 : -ENOMEM;
}

/* A link and what it leads to, or a copy: then it is all one. */
static bool same_bytes(const struct set_work *work, uint32_t a, uint32_t b)
{
	const struct elf_module *modules[] = { set_module(work, a), set_module(work, b) };
	_cleanup_free_ char *first = NULL;
	_cleanup_free_ char *second = NULL;
	struct error ignored;
	size_t sizes[2];

	return modules[0] && modules[1] &&
	       elf_module_bytes(modules[0], &first, &sizes[0], &ignored) == 0 &&
	       elf_module_bytes(modules[1], &second, &sizes[1], &ignored) == 0 &&
	       sizes[0] == sizes[1] && memcmp(first, second, sizes[0]) == 0;
}

/* Chooses which of two files with one name is loaded. */
static int choose_of_name(struct set_work *work, uint32_t earlier, uint32_t later)
{
	const struct proof_member *members = work->set->members;
	const char *label = work->nodes[later].label;
	unsigned int first = rank_of(members[earlier].path);
	unsigned int second = rank_of(members[later].path);
	bool listed = members[earlier].listed != members[later].listed;
	bool certain =
		listed ||
		(first != second && (!first || !second || has_own_search(work->set->kernel->krel)));
	bool is_later = listed ? members[later].listed : second < first;
	uint32_t taken = is_later ? later : earlier;
	uint32_t left = is_later ? earlier : later;

	work->nodes[left].shadowed = true;
	*name_table_put(&work->names, label, taken) = taken;
	if (certain)
		return proof_append(&work->set->findings, label, PROOF_NOTE, "duplicate-name", 0,
			NULL, NULL, "two files have this name, %s and %s: %s the first",
			members[taken].path, members[left].path,
			listed ? "modules.dep lists" : "depmod uses");
	if (same_bytes(work, earlier, later))
		return proof_append(&work->set->findings, label, PROOF_NOTE, "duplicate-name", 0,
			NULL, NULL, "two files have this name, %s and %s, and they are equal",
			members[earlier].path, members[later].path);
	return proof_append(&work->set->findings, label, PROOF_DOUBT, "duplicate-name", EEXIST,
		"remove one of them", NULL,
		"two files have this name, %s and %s, and only one of them is loaded",
		members[taken].path, members[left].path);
}

static int name_kernel(struct set_work *work)
{
	/* A list of all names those that are built in, too: the first to come counts. */
	const struct strv *lists[] = { work->set->kernel->builtin, work->set->kernel_modules };
	const uint32_t kinds[] = { SET_BUILT_IN, SET_LOADABLE };
	size_t count = 0;

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		count += lists[i] ? lists[i]->count : 0;
	if (name_table_reserve(&work->kernel, count) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		for (size_t j = 0; lists[i] && j < lists[i]->count; j++)
			(void) name_table_put(&work->kernel, lists[i]->items[j], kinds[i]);
	return 0;
}

static int name_files(struct set_work *work, bool listed)
{
	for (uint32_t i = 0; i < work->set->member_count; i++) {
		uint32_t holder;

		if (work->set->members[i].listed != listed)
			continue;
		if (name_member(work, i) < 0)
			return -ENOMEM;
		holder = *name_table_put(&work->names, work->nodes[i].label, i);
		if (holder != i && choose_of_name(work, holder, i) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int name_members(struct set_work *work)
{
	size_t count = work->set->member_count;

	work->nodes = calloc(count + 1, sizeof(*work->nodes));
	if (!work->nodes || name_table_reserve(&work->names, count) < 0)
		return -ENOMEM;
	/* Files that modules.dep lists come first: then no others of their names are compared. */
	if (name_files(work, true) < 0 || name_files(work, false) < 0)
		return -ENOMEM;
	return name_kernel(work);
}

static int collect_of(struct set_work *work, uint32_t member)
{
	size_t count;
	const struct elf_module_export *exports =
		elf_module_exports(set_module(work, member), &count);

	for (size_t i = 0; i < count; i++) {
		uint32_t place = (uint32_t) work->export_count;
		uint32_t holder = *name_table_put_hashed(
			&work->symbols, exports[i].symbol, exports[i].hash, place);
		struct set_duplicate *duplicates = work->duplicates;
		size_t noted = work->duplicate_count;

		if (holder == place) {
			work->exports[work->export_count++] =
				(struct set_export){ &exports[i], member };
			continue;
		}
		/* Grows at powers of two. */
		if ((noted & (noted - 1)) == 0) {
			duplicates = reallocarray(
				duplicates, noted ? noted * 2 : 1, sizeof(*duplicates));
			if (!duplicates)
				return -ENOMEM;
			work->duplicates = duplicates;
		}
		duplicates[work->duplicate_count++] = (struct set_duplicate){ exports[i].symbol,
			work->exports[holder].member, member };
	}
	return 0;
}

/* depmod skips shadowed files, so they are not loaded. */
static bool exports_anything(const struct set_work *work, uint32_t member)
{
	return set_module(work, member) && !work->nodes[member].shadowed;
}

static int collect_exports(struct set_work *work)
{
	size_t total = 0, count;

	for (uint32_t i = 0; i < work->set->member_count; i++)
		if (exports_anything(work, i)) {
			(void) elf_module_exports(set_module(work, i), &count);
			total += count;
		}
	work->exports = calloc(total + 1, sizeof(*work->exports));
	if (!work->exports || name_table_reserve(&work->symbols, total) < 0)
		return -ENOMEM;
	for (uint32_t i = 0; i < work->set->member_count; i++)
		if (exports_anything(work, i) && collect_of(work, i) < 0)
			return -ENOMEM;
	return 0;
}

static void work_done(struct set_work *work)
{
	for (size_t i = 0; work->nodes && i < work->set->member_count; i++) {
		free(work->nodes[i].own_name);
		free(work->nodes[i].edges);
		strv_free(&work->nodes[i].relied);
	}
	free(work->nodes);
	free(work->exports);
	free(work->duplicates);
	free(work->users.first);
	free(work->users.items);
	free(work->order);
	name_table_free(&work->names);
	name_table_free(&work->kernel);
	name_table_free(&work->symbols);
	strv_free(&work->aliases);
}

static void export_of(
	const struct set_work *work, const struct set_export *found, struct proof_export *ret)
{
	*ret = (struct proof_export){
		.symbol = found->export->symbol,
		.exporter = work->nodes[found->member].label,
		.name_space = found->export->name_space,
		.crc = found->export->crc,
		.has_crc = found->export->has_crc,
		.gpl = found->export->gpl,
		.proprietary = work->nodes[found->member].proprietary,
		.member = true,
		.vmlinux = strcmp(work->nodes[found->member].label, "vmlinux") == 0,
	};
}

static bool is_replaced(const struct set_work *work, const char *path)
{
	char name[PROOF_NAME_SIZE];
	uint32_t member;

	if (strcmp(path, "vmlinux") == 0)
		return false;
	proof_exporter_name(path, name);
	member = name_table_find(&work->names, name);
	return member != NAME_NONE && set_module(work, member);
}

/* Each member against the kernel and the other members, on several threads. */

struct pool {
	struct set_work *work;
	atomic_size_t next;
	atomic_int failed; /* 0 or -ENOMEM */
};

struct set_view {
	struct set_work *work;
	uint32_t self;
	uint32_t found; /* the member that exports what was found last, or NAME_NONE */
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

bool set_find(struct set_view *view, const char *symbol, uint32_t hash, struct proof_export *ret)
{
	uint32_t place = name_table_find_hashed(&view->work->symbols, symbol, hash);
	const struct set_export *found;

	view->found = NAME_NONE;
	if (place == NAME_NONE)
		return false;
	found = &view->work->exports[place];
	if (found->member == view->self)
		return false;
	view->found = found->member;
	export_of(view->work, found, ret);
	return true;
}

/* One that binds weakly does without a module of the kernel. */
int set_use(struct set_view *view, const struct proof_export *export, bool weak)
{
	char name[PROOF_NAME_SIZE];

	if (view->found != NAME_NONE)
		return set_add_edge(view->work, view->self, view->found, !weak);
	if (weak || export->vmlinux)
		return 0;
	proof_exporter_name(export->exporter, name);
	if (name_table_find(&view->work->names, name) != NAME_NONE)
		return 0;
	return strv_push_unique(&view->work->nodes[view->self].relied, name);
}

/*
 * A member of the same name replaces it; one whose file cannot be read leaves the kernel's in
 * place.
 */
bool set_replaces(const struct set_view *view, const char *path)
{
	return is_replaced(view->work, path);
}

bool set_reads_whole(const struct set_view *view)
{
	return view->work->set->member_count <= PROOF_WHOLE_MAX;
}

bool set_is_kernels(const struct set_view *view, const char *name)
{
	return name_table_find(&view->work->kernel, name) != NAME_NONE;
}

bool set_is_built_in(const struct set_view *view, const char *name)
{
	return name_table_find(&view->work->kernel, name) == SET_BUILT_IN;
}

static int prove(struct set_work *work, uint32_t member)
{
	struct proof_member *proved = &work->set->members[member];
	struct set_view view = { .work = work, .self = member, .found = NAME_NONE };

	if (!proved->module)
		return 0;
	proof_free(&proved->proof);
	work->nodes[member].edge_count = 0;
	if (proof_module_among(proved->module, work->set->kernel, &view, &proved->proof) < 0)
		return -ENOMEM;
	return set_add_soft_edges(work, member);
}

static void *prove_batches(void *context)
{
	struct pool *pool = context;
	size_t count = pool->work->set->member_count;

	while (atomic_load(&pool->failed) == 0) {
		size_t first = atomic_fetch_add(&pool->next, BATCH);

		if (first >= count)
			break;
		for (size_t i = first; i < first + BATCH && i < count; i++)
			if (prove(pool->work, (uint32_t) i) < 0)
				atomic_store(&pool->failed, -ENOMEM);
	}
	return NULL;
}

/* This thread works too, and alone where no other can be had. */
static int prove_all(struct set_work *work)
{
	struct pool pool = { .work = work };
	pthread_t threads[MAX_JOBS];
	size_t wanted = work->set->jobs ? work->set->jobs - 1 : 0;
	size_t batches = work->set->member_count / BATCH;
	size_t started = 0;

	if (wanted > MAX_JOBS)
		wanted = MAX_JOBS;
	if (wanted > batches)
		wanted = batches;
	while (started < wanted &&
		pthread_create(&threads[started], NULL, prove_batches, &pool) == 0)
		started++;
	(void) prove_batches(&pool);
	for (size_t i = 0; i < started; i++)
		(void) pthread_join(threads[i], NULL);
	return atomic_load(&pool.failed);
}

/* Marks members that became proprietary by the symbols they use: their own users inherit that. */
static bool spread_taint(struct set_work *work)
{
	bool changed = false;

	for (size_t i = 0; i < work->set->member_count; i++) {
		const struct proof_member *member = &work->set->members[i];

		if (!member->module || work->nodes[i].proprietary)
			continue;
		for (size_t j = 0; j < member->proof.count; j++) {
			size_t count;

			if (strcmp(member->proof.findings[j].id, "inherits-taint") != 0)
				continue;
			work->nodes[i].proprietary = true;
			(void) elf_module_exports(member->module, &count);
			changed = changed || count;
		}
	}
	return changed;
}

static int prove_members(struct set_work *work)
{
	do {
		if (prove_all(work) < 0)
			return -ENOMEM;
	} while (spread_taint(work));
	return 0;
}

static int list_order(struct set_work *work)
{
	struct proof_set *set = work->set;

	for (size_t i = 0; i < work->order_count; i++) {
		uint32_t member = work->order[i];

		if (set->members[member].proof.verdict != PROOF_WILL_NOT_LOAD &&
			!work->nodes[member].shadowed &&
			strv_push(&set->order, set->members[member].path) < 0)
			return -ENOMEM;
	}
	return 0;
}

static void count_verdicts(struct proof_set *set)
{
	set->loading = set->refused = set->unknown = 0;
	for (size_t i = 0; i < set->member_count; i++) {
		enum proof_verdict verdict = set->members[i].proof.verdict;

		set->loading += verdict == PROOF_WILL_LOAD;
		set->refused += verdict == PROOF_WILL_NOT_LOAD;
		set->unknown += verdict == PROOF_CANNOT_TELL;
	}
	proof_conclude(&set->findings);
	set->verdict = set->findings.verdict;
	if (set->refused)
		set->verdict = PROOF_WILL_NOT_LOAD;
	else if (set->unknown && set->verdict == PROOF_WILL_LOAD)
		set->verdict = PROOF_CANNOT_TELL;
}

int proof_set_run(struct proof_set *set, struct error *error)
{
	static int (*const parts[])(struct set_work *) = {
		name_members,
		collect_exports,
		prove_members,
		set_sort,
		set_judge_duplicates,
		set_spread,
		set_judge_kernel,
		set_judge_facts,
		set_judge_options,
		set_judge_images,
		list_order,
	};
	_cleanup_(work_done) struct set_work work = { .set = set };

	if (set->member_count >= NAME_NONE)
		return error_set(error, -E2BIG, "%zu modules are more than a set can have",
			set->member_count);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		if (parts[i](&work) < 0)
			return error_set_errno(error, -ENOMEM, "%zu modules", set->member_count);
	count_verdicts(set);
	return 0;
}

void proof_set_free(struct proof_set *set)
{
	for (size_t i = 0; i < set->member_count; i++)
		proof_free(&set->members[i].proof);
	strv_free(&set->order);
	strv_free(&set->relied);
	proof_free(&set->findings);
}
