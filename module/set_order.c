/* SPDX-License-Identifier: Apache-2.0 */
/* An order in which the members load, what goes in circles, and what falls with what it needs. */
#include "module/proof_internal.h"

#include <stdlib.h>
#include <string.h>

/* The edges the other way round. */
static int list_users(struct set_work *work)
{
	size_t count = work->set->member_count, edges = 0;
	struct set_users *users = &work->users;
	uint32_t *next;

	for (size_t i = 0; i < count; i++)
		edges += work->nodes[i].edge_count;
	users->first = calloc(count + 2, sizeof(*users->first));
	users->items = calloc(edges + 1, sizeof(*users->items));
	if (!users->first || !users->items)
		return -ENOMEM;
	next = users->first + 1; /* becomes first, one place on */
	for (size_t i = 0; i < count; i++)
		for (uint32_t j = 0; j < work->nodes[i].edge_count; j++)
			next[work->nodes[i].edges[j].to + 1]++;
	for (size_t i = 0; i < count; i++)
		next[i + 1] += next[i];
	for (size_t i = 0; i < count; i++)
		for (uint32_t j = 0; j < work->nodes[i].edge_count; j++) {
			const struct set_edge *edge = &work->nodes[i].edges[j];

			users->items[next[edge->to]++] =
				(struct set_edge){ (uint32_t) i, edge->hard };
		}
	return 0;
}

struct sorting {
	uint32_t *left[2]; /* by hard or not: edges to members that are not in the order yet */
	struct queue {
		uint32_t *items;
		size_t count, next;
	} queues[2]; /* members that nothing holds, and that only soft dependencies hold */
};

static void queue(struct sorting *sorting, uint32_t member)
{
	struct queue *queue = &sorting->queues[sorting->left[false][member] != 0];

	if (!sorting->left[true][member])
		queue->items[queue->count++] = member;
}

static void place(struct set_work *work, struct sorting *sorting, uint32_t member)
{
	const struct set_users *users = &work->users;

	work->nodes[member].position = (uint32_t) work->order_count;
	work->order[work->order_count++] = member;
	for (uint32_t i = users->first[member]; i < users->first[member + 1]; i++) {
		const struct set_edge *user = &users->items[i];
		bool was_soft = !sorting->left[true][user->to];

		sorting->left[user->hard][user->to]--;
		if (work->nodes[user->to].position != NAME_NONE)
			continue;
		/* It is among the soft ones already, unless it has become free. */
		if (!was_soft || !sorting->left[false][user->to])
			queue(sorting, user->to);
	}
}

/* The next one to load, or NAME_NONE: what is left then goes in circles. */
static uint32_t take(const struct set_work *work, struct sorting *sorting)
{
	for (size_t i = 0; i < ARRAY_SIZE(sorting->queues); i++) {
		struct queue *queue = &sorting->queues[i];

		while (queue->next < queue->count) {
			uint32_t member = queue->items[queue->next++];

			if (work->nodes[member].position == NAME_NONE)
				return member;
		}
	}
	return NAME_NONE;
}

static int report_cycle(struct set_work *work, const uint32_t *next, uint32_t start)
{
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *drawn = NULL; /* "a -> b -> a" */
	static const char cure[] = "remove one of these dependencies from the sources";
	uint32_t member = start;

	do {
		if (strv_push(&names, work->nodes[member].label) < 0)
			return -ENOMEM;
		member = next[member];
	} while (member != start);
	if (strv_push(&names, work->nodes[start].label) < 0)
		return -ENOMEM;
	drawn = strv_join(&names, " -> ");
	if (!drawn ||
		proof_append(&work->set->findings, "", PROOF_REFUSAL, "cycle", ENOENT, cure, NULL,
			"%s: each needs a symbol of the next, so none can be loaded first",
			drawn) < 0)
		return -ENOMEM;
	do {
		struct proof *proof = &work->set->members[member].proof;

		work->nodes[member].in_cycle = true;
		if (proof_append(proof, work->nodes[member].label, PROOF_REFUSAL, "cycle", ENOENT,
			    cure, NULL, "needs itself: %s", drawn) < 0)
			return -ENOMEM;
		proof_conclude(proof);
		member = next[member];
	} while (member != start);
	return 0;
}

/* One of those left that it needs; there is one, or it would not be left. */
static uint32_t needed_of(const struct set_work *work, uint32_t member)
{
	const struct set_node *node = &work->nodes[member];

	for (uint32_t i = 0; i < node->edge_count; i++)
		if (node->edges[i].hard && work->nodes[node->edges[i].to].position == NAME_NONE)
			return node->edges[i].to;
	return NAME_NONE;
}

/* Every walk over what is left ends in a circle, or where an earlier walk was. */
static int find_cycles(struct set_work *work)
{
	size_t count = work->set->member_count;
	_cleanup_free_ uint32_t *walks = calloc(count + 1, sizeof(*walks));
	_cleanup_free_ uint32_t *next = calloc(count + 1, sizeof(*next));

	if (!walks || !next)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t walk = i + 1, member = i;

		if (work->nodes[i].position != NAME_NONE)
			continue;
		while (member != NAME_NONE && !walks[member]) {
			walks[member] = walk;
			next[member] = needed_of(work, member);
			member = next[member];
		}
		if (member != NAME_NONE && walks[member] == walk &&
			report_cycle(work, next, member) < 0)
			return -ENOMEM;
	}
	return 0;
}

int set_sort(struct set_work *work)
{
	size_t count = work->set->member_count;
	_cleanup_free_ uint32_t *room = calloc(4 * (count + 1), sizeof(*room));
	struct sorting sorting = { { room, room + count },
		{ { .items = room + 2 * count }, { .items = room + 3 * count } } };
	uint32_t member;

	work->order = calloc(count + 1, sizeof(*work->order));
	if (!room || !work->order || list_users(work) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		for (uint32_t j = 0; j < work->nodes[i].edge_count; j++)
			sorting.left[work->nodes[i].edges[j].hard][i]++;
	for (size_t i = 0; i < count; i++)
		queue(&sorting, (uint32_t) i);
	while ((member = take(work, &sorting)) != NAME_NONE)
		place(work, &sorting, member);
	return work->order_count == count ? 0 : find_cycles(work);
}

static int judge_user(struct set_work *work, uint32_t user, uint32_t needed, bool refused)
{
	struct proof *proof = &work->set->members[user].proof;
	const char *name = work->nodes[needed].label;
	const struct proof_about about = { .exporter = name };
	char cure[PROOF_NAME_SIZE + 32];

	(void) snprintf(cure, sizeof(cure), "see the findings of %s", name);
	if (proof_append(proof, work->nodes[user].label, refused ? PROOF_REFUSAL : PROOF_DOUBT,
		    "needs-refused", ENOENT, cure, &about,
		    refused ? "needs %s, which will not load"
			    : "needs %s, and it is unknown whether that will load",
		    name) < 0)
		return -ENOMEM;
	proof_conclude(proof);
	return 0;
}

static int spread_verdict(struct set_work *work, enum proof_verdict verdict, uint32_t *waiting)
{
	const struct set_users *users = &work->users;
	size_t count = 0;

	for (uint32_t i = 0; i < work->set->member_count; i++)
		if (work->set->members[i].proof.verdict == verdict)
			waiting[count++] = i;
	for (size_t next = 0; next < count; next++)
		for (uint32_t i = users->first[waiting[next]]; i < users->first[waiting[next] + 1];
			i++) {
			uint32_t user = users->items[i].to;
			enum proof_verdict before = work->set->members[user].proof.verdict;

			/* In a cycle each needs one that is refused; that is reported already. */
			if (!users->items[i].hard || work->nodes[user].in_cycle ||
				(verdict == PROOF_CANNOT_TELL && before == PROOF_WILL_NOT_LOAD))
				continue;
			if (judge_user(work, user, waiting[next], verdict == PROOF_WILL_NOT_LOAD) <
				0)
				return -ENOMEM;
			if (before != verdict)
				waiting[count++] = user;
		}
	return 0;
}

int set_spread(struct set_work *work)
{
	_cleanup_free_ uint32_t *waiting = calloc(work->set->member_count + 1, sizeof(*waiting));

	if (!waiting || spread_verdict(work, PROOF_WILL_NOT_LOAD, waiting) < 0)
		return -ENOMEM;
	return spread_verdict(work, PROOF_CANNOT_TELL, waiting);
}
