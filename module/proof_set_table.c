/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "common/name_hash.h"
#include "module/proof_set_parts.h"

int set_table_init(struct set_table *table, size_t count)
{
	size_t slot_count = 16;

	while (slot_count <= count * 2)
		slot_count *= 2;
	table->slots = calloc(slot_count, sizeof(*table->slots));
	table->slot_count = slot_count;
	return table->slots ? 0 : -ENOMEM;
}

static struct set_slot *find_slot(const struct set_table *table, const char *key, uint32_t hash)
{
	size_t mask = table->slot_count - 1;
	size_t place = hash & mask;

	while (table->slots[place].key &&
		(table->slots[place].hash != hash || strcmp(table->slots[place].key, key) != 0))
		place = (place + 1) & mask;
	return &table->slots[place];
}

uint32_t set_table_put_hashed(
	struct set_table *table, const char *key, uint32_t hash, uint32_t number)
{
	struct set_slot *slot = find_slot(table, key, hash);

	if (!slot->key)
		*slot = (struct set_slot){ key, hash, number };
	return slot->number;
}

uint32_t set_table_put(struct set_table *table, const char *key, uint32_t number)
{
	return set_table_put_hashed(table, key, name_hash(key), number);
}

uint32_t set_table_find_hashed(const struct set_table *table, const char *key, uint32_t hash)
{
	const struct set_slot *slot = table->slots ? find_slot(table, key, hash) : NULL;

	return slot && slot->key ? slot->number : SET_NONE;
}

uint32_t set_table_find(const struct set_table *table, const char *key)
{
	return set_table_find_hashed(table, key, name_hash(key));
}

void set_table_done(struct set_table *table)
{
	free(table->slots);
	*table = (struct set_table){ 0 };
}

const struct elf_module *set_module(const struct set_work *work, uint32_t member)
{
	return work->set->members[member].module;
}

/* "updates/x/ib-core.ko.xz" as "ib_core". */
static char *name_of_path(const char *path)
{
	const char *slash = strrchr(path, '/');
	char *name = strdup(slash ? slash + 1 : path);
	char *end;

	if (!name)
		return NULL;
	end = strstr(name, ".ko");
	if (end)
		*end = '\0';
	for (char *dash = name; (dash = strchr(dash, '-'));)
		*dash = '_';
	return name;
}

static int name_member(struct set_work *work, uint32_t member)
{
	const struct elf_module *module = set_module(work, member);
	struct set_node *node = &work->nodes[member];

	node->position = SET_NONE;
	node->label = module ? elf_module_name(module) : NULL;
	node->proprietary = module && proof_is_proprietary(module);
	if (node->label)
		return 0;
	node->own_name = name_of_path(work->set->members[member].path);
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

static int note_copy(struct set_work *work, uint32_t taken, uint32_t left)
{
	const struct proof_draft draft = { .id = "duplicate-name", .weight = PROOF_NOTE };

	return proof_append(&work->set->findings, work->nodes[taken].label, &draft,
		"two files have this name, %s and %s, and they are equal",
		work->set->members[taken].path, work->set->members[left].path);
}

static int note_same_name(struct set_work *work, uint32_t taken, uint32_t left, bool certain)
{
	const struct proof_draft draft = { .id = "duplicate-name",
		.weight = certain ? PROOF_NOTE : PROOF_DOUBT,
		.answer = EEXIST,
		.cure = "remove the one that is not wanted" };

	return proof_append(&work->set->findings, work->nodes[taken].label, &draft,
		certain ? "two files have this name, %s and %s: depmod takes the first"
			: "two files have this name, %s and %s, and only one of them is loaded",
		work->set->members[taken].path, work->set->members[left].path);
}

static int settle_name(struct set_work *work, uint32_t earlier, uint32_t later)
{
	const struct proof_member *members = work->set->members;
	bool certain;
	bool later_wins = set_rank(
		work->set->kernel->krel, members[earlier].path, members[later].path, &certain);
	uint32_t taken = later_wins ? later : earlier;

	work->nodes[later_wins ? earlier : later].shadowed = true;
	if (later_wins) {
		const char *key = work->nodes[earlier].label;

		find_slot(&work->names, key, name_hash(key))->number = later;
	}
	if (!certain && same_bytes(work, earlier, later))
		return note_copy(work, earlier, later);
	return note_same_name(work, taken, later_wins ? earlier : later, certain);
}

static int name_kernel(struct set_work *work)
{
	/* A list of all names those that are built in, too: the first to come counts. */
	const struct strv *lists[] = { work->set->kernel->builtin, work->set->kernel_modules };
	const uint32_t kinds[] = { SET_BUILT_IN, SET_LOADABLE };
	size_t count = 0;

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		count += lists[i] ? lists[i]->count : 0;
	if (set_table_init(&work->kernel, count) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		for (size_t j = 0; lists[i] && j < lists[i]->count; j++)
			(void) set_table_put(&work->kernel, lists[i]->items[j], kinds[i]);
	return 0;
}

int set_name_members(struct set_work *work)
{
	size_t count = work->set->member_count;
	int r = 0;

	work->nodes = calloc(count + 1, sizeof(*work->nodes));
	if (!work->nodes || set_table_init(&work->names, count) < 0)
		return -ENOMEM;
	for (uint32_t i = 0; i < count && r == 0; i++) {
		uint32_t holder;

		r = name_member(work, i);
		if (r < 0)
			break;
		holder = set_table_put(&work->names, work->nodes[i].label, i);
		if (holder != i)
			r = settle_name(work, holder, i);
	}
	return r < 0 ? r : name_kernel(work);
}

static int note_duplicate(
	struct set_work *work, const char *symbol, uint32_t first, uint32_t second)
{
	size_t count = work->duplicate_count;
	struct set_duplicate *duplicates = work->duplicates;

	/* Grows at powers of two. */
	if ((count & (count - 1)) == 0) {
		duplicates = reallocarray(duplicates, count ? count * 2 : 1, sizeof(*duplicates));
		if (!duplicates)
			return -ENOMEM;
		work->duplicates = duplicates;
	}
	duplicates[work->duplicate_count++] = (struct set_duplicate){ symbol, first, second };
	return 0;
}

static int collect_of(struct set_work *work, uint32_t member)
{
	size_t count;
	const struct elf_module_export *exports =
		elf_module_exports(set_module(work, member), &count);

	for (size_t i = 0; i < count; i++) {
		uint32_t place = (uint32_t) work->export_count;
		uint32_t holder = set_table_put_hashed(
			&work->symbols, exports[i].symbol, exports[i].hash, place);

		if (holder == place)
			work->exports[work->export_count++] =
				(struct set_export){ &exports[i], member };
		else if (note_duplicate(
				 work, exports[i].symbol, work->exports[holder].member, member) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* Of files that depmod passes over nothing is loaded. */
static bool exports_anything(const struct set_work *work, uint32_t member)
{
	return set_module(work, member) && !work->nodes[member].shadowed;
}

int set_collect_exports(struct set_work *work)
{
	size_t total = 0, count;
	int r = 0;

	for (uint32_t i = 0; i < work->set->member_count; i++)
		if (exports_anything(work, i)) {
			(void) elf_module_exports(set_module(work, i), &count);
			total += count;
		}
	work->exports = calloc(total + 1, sizeof(*work->exports));
	if (!work->exports || set_table_init(&work->symbols, total) < 0)
		return -ENOMEM;
	for (uint32_t i = 0; i < work->set->member_count && r == 0; i++)
		if (exports_anything(work, i))
			r = collect_of(work, i);
	return r;
}

void set_work_done(struct set_work *work)
{
	for (size_t i = 0; work->nodes && i < work->set->member_count; i++) {
		free(work->nodes[i].own_name);
		free(work->nodes[i].edges);
		strv_free(&work->nodes[i].relied);
	}
	free(work->nodes);
	free(work->exports);
	free(work->known);
	free(work->duplicates);
	free(work->order);
	free(work->fulfilled);
	strv_free(&work->wishes);
	set_table_done(&work->wished);
	set_table_done(&work->names);
	set_table_done(&work->kernel);
	set_table_done(&work->symbols);
}
