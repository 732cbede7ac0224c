/* SPDX-License-Identifier: Apache-2.0 */
/* Warns of images of a plan that the cluster would use wrongly. */
#include "cli/fleet/fleet_internal.h"

#include <string.h>

#include "common/xalloc.h"

static bool makes_gpu(const struct fleet_target *target)
{
	for (size_t i = 0; i < target->build_count; i++)
		if (*target->builds[i].nvidia)
			return true;
	return false;
}

static void warn_of_several_os(struct making *making)
{
	const struct fleet *fleet = &making->fleet;
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *list = NULL;

	for (size_t i = 0; i < fleet->target_count; i++) {
		const struct fleet_target *target = &fleet->targets[i];
		_cleanup_strv_ struct strv tags = { 0 };

		image_os_tags(target->os_id, target->os_version, &tags);
		if (*target->os_id && target->nodes && makes_gpu(target))
			xstrv_push_unique(&names, tags.items[0]);
	}
	if (names.count < 2)
		return;
	list = xstrv_join(&names, ", ");
	xstrv_pushf(&making->fleet.warnings,
		"nodes with GPUs run %s: under a ClusterPolicy the GPU operator uses one "
		"distribution's tag for all of them; use NVIDIADriver (docs/operators.md)",
		list);
}

/* The target that a tag is for; another may have the same one. */
struct tag_owner {
	const char *reference;
	const struct fleet_target *target;
};

static int compare_owners(const void *one, const void *other)
{
	const struct tag_owner *first = one;
	const struct tag_owner *second = other;
	int difference = strcmp(first->reference, second->reference);

	return difference ? difference
			  : (first->target->index > second->target->index) -
				    (first->target->index < second->target->index);
}

static void warn_of_one_tag(
	struct making *making, const struct tag_owner *first, const struct tag_owner *second)
{
	const struct fleet_target *one = first->target;
	const struct fleet_target *other = second->target;

	if (strcmp(one->arch, other->arch) != 0)
		xstrv_pushf(&making->fleet.warnings,
			"%s: nodes of %s and of %s ask for the tag %s: push one index of both "
			"images under it (slipway build --arch %s,%s, or slipway index)",
			one->krel, one->arch, other->arch, first->reference, one->arch,
			other->arch);
	else if (strcmp(one->krel, other->krel) != 0)
		xstrv_pushf(&making->fleet.warnings,
			"kernels %s and %s share the tag %s: the image of one will not load on the "
			"other",
			one->krel, other->krel, first->reference);
	else
		xstrv_pushf(&making->fleet.warnings, "nodes of %s %s and %s share the tag %s",
			one->os, one->os_version, other->os_version, first->reference);
}

static void warn_of_tags(struct making *making)
{
	const struct fleet *fleet = &making->fleet;
	_cleanup_free_ struct tag_owner *owners = NULL;
	size_t count = 0;

	for (size_t i = 0; i < fleet->target_count; i++) {
		const struct fleet_target *target = &fleet->targets[i];

		for (size_t j = 0; j < target->build_count; j++) {
			const struct fleet_build *build = &target->builds[j];

			owners = xreallocarray(owners, count + build->image_count, sizeof(*owners));
			for (size_t k = 0; k < build->image_count; k++)
				owners[count++] = (struct tag_owner){
					.reference = build->images[k].reference,
					.target = target,
				};
		}
	}
	if (count)
		qsort(owners, count, sizeof(*owners), compare_owners);
	for (size_t i = 1; i < count; i++)
		if (strcmp(owners[i - 1].reference, owners[i].reference) == 0 &&
			owners[i - 1].target != owners[i].target)
			warn_of_one_tag(making, &owners[i - 1], &owners[i]);
}

static void warn_of_spellings(struct making *making)
{
	const struct fleet *fleet = &making->fleet;
	_cleanup_strv_ struct strv names = { 0 };

	if (making->request->operators.gpu)
		return;
	for (size_t i = 0; i < fleet->target_count; i++) {
		const struct fleet_target *target = &fleet->targets[i];
		_cleanup_strv_ struct strv os_tags = { 0 };

		if (!makes_gpu(target) || strv_contains(&names, target->os))
			continue;
		image_os_tags(target->os_id, target->os_version, &os_tags);
		if (os_tags.count < 2)
			continue;
		xstrv_push(&names, target->os);
		xstrv_pushf(&making->fleet.warnings,
			"GPU images of %s have two tags, for newer operators and for older ones "
			"(%s, %s): --gpu-operator VERSION plans only the right one",
			target->os, os_tags.items[0], os_tags.items[1]);
	}
}

static void warn_of_excludes(struct making *making)
{
	const struct strv *excludes = making->request->excludes;
	const struct fleet *fleet = &making->fleet;

	for (size_t i = 0; i < excludes->count; i++) {
		bool used = false;

		for (size_t j = 0; j < fleet->excluded_count && !used; j++)
			used = strcmp(fleet->excluded[j].pattern, excludes->items[i]) == 0;
		if (!used)
			xstrv_pushf(&making->fleet.warnings, "--exclude %s leaves out nothing",
				excludes->items[i]);
	}
}

void fleet_warn(struct making *making)
{
	warn_of_several_os(making);
	warn_of_tags(making);
	warn_of_spellings(making);
	warn_of_excludes(making);
}
