/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From nodes to targets: a target is a kernel of one distribution with all its drivers, since one
 * compile of OFED serves every NVIDIA driver.
 */
#include "cli/fleet/fleet_internal.h"

#include <string.h>

#include "common/arch.h"
#include "common/xalloc.h"
#include "kernels/krel.h"

/* The target with these facts, made where it is new. */
static struct fleet_target *find_target(struct making *making, const char *krel, const char *os,
	const char *os_id, const char *os_version, const char *arch, const char *why)
{
	struct fleet *fleet = &making->fleet;
	struct fleet_target *items;

	for (size_t i = 0; i < fleet->target_count; i++) {
		struct fleet_target *target = &fleet->targets[i];

		if (strcmp(target->krel, krel) == 0 && strcmp(target->os, os) == 0 &&
			strcmp(target->os_version, os_version) == 0 &&
			strcmp(target->arch, arch) == 0)
			return target;
	}
	items = xreallocarray(fleet->targets, fleet->target_count + 1, sizeof(*items));
	fleet->targets = items;
	items += fleet->target_count++;
	*items = (struct fleet_target){
		.krel = xstrdup(krel),
		.os = xstrdup(os),
		.os_id = xstrdup(os_id),
		.os_version = xstrdup(os_version),
		.arch = xstrdup(arch),
		.why = xstrdup(why),
		.problem = xstrdup(""),
	};
	return items;
}

void fleet_set_problem(struct fleet_target *target, char *problem)
{
	free(target->problem);
	target->problem = problem;
}

int fleet_open_os(
	const struct making *making, const char *os, struct catalogue *ret, struct error *error)
{
	*ret = (struct catalogue){ 0 };
	return *os ? catalogue_open(making->context->catalogues, os, ret, error) : 0;
}

/* Its labels, or, without them, its kernel's name. *@ret_os is "" for one that is not known. */
static int find_os(
	struct making *making, const struct pool *pool, char **ret_os, struct error *error)
{
	const char *catalogues = making->context->catalogues;
	char *os = NULL;
	struct error unknown;
	int r = *pool->os_id ? context_find_os(
				       making->context, pool->os_id, pool->os_version, &os, error)
			     : catalogue_guess(catalogues, pool->krel, &os, &unknown);

	/* Not to be guessed is not the user's mistake here. */
	if (!*pool->os_id && r < 0)
		r = 0;
	*ret_os = os ? os : xstrdup("");
	return r;
}

/* Names of nodes are what an API server takes; a list may have anything. */
static bool is_plain(const char *name)
{
	return *name && !name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789.-")];
}

static void warn_of_pool(struct making *making, const struct pool *pool)
{
	static const char label[] = "feature.node.kubernetes.io/system-os_release.VERSION_ID";
	struct strv *warnings = &making->fleet.warnings;
	_cleanup_free_ char *who =
		pool->nodes == 1 ? xasprintf("node %s has", pool->node)
				 : xasprintf("%u nodes, such as %s, have", pool->nodes, pool->node);

	if (!pool->labelled)
		xstrv_pushf(warnings,
			"%s no label of node-feature-discovery: the operators deploy no driver "
			"there; planned as with a GPU and a NIC",
			who);
	else if (!pool->os_version)
		xstrv_pushf(warnings,
			"%s no label %s: the operators deploy no driver there; an empty one is "
			"enough: kubectl label node %s %s=",
			who, label, is_plain(pool->node) ? pool->node : "NODE", label);
}

/* The node's distribution has moved on, and its kernel has not. */
static void warn_of_kernel(
	struct making *making, const struct pool *pool, const struct catalogue *os)
{
	_cleanup_free_ char *of_kernel = catalogue_other_release(os, pool->krel, pool->os_version);
	_cleanup_free_ char *text = NULL;

	if (!of_kernel)
		return;
	text = xasprintf("nodes of %s %s, such as %s, run %s, a kernel of %s (pinned, EUS): their "
			 "tags have %s, and a build by hand needs --os-version %s",
		os->os, pool->os_version, pool->node, pool->krel, of_kernel, pool->os_version,
		pool->os_version);
	xstrv_push_unique(&making->fleet.warnings, text);
}

/* On this machine, in a build root of the node's distribution or of the one that builds name. */
static bool can_compile(
	const struct making *making, const struct pool *pool, const struct catalogue *os)
{
	static const char root[] = "--root";
	const struct strv *arguments = making->request->arguments;

	if (arch_find(pool->arch) == arch_here() || os->root.cross_packages.count)
		return true;
	for (size_t i = 0; arguments && i < arguments->count; i++)
		if (strncmp(arguments->items[i], root, strlen(root)) == 0)
			return true;
	return false;
}

/* Tags have VERSION_ID, which not every kernel's name tells. */
static char *unknown_version(const struct catalogue *os)
{
	return xasprintf("the tags have the nodes' VERSION_ID, which the kernel's name does not "
			 "tell: plan it by nodes with labels, or slipway build --os %s "
			 "--os-version VERSION_ID",
		os->os);
}

static int add_pool(struct making *making, const struct pool *pool, struct error *error)
{
	_cleanup_(catalogue_free) struct catalogue os = { 0 };
	_cleanup_free_ char *name = NULL;
	_cleanup_free_ char *version = NULL;
	_cleanup_free_ char *shown = NULL;
	_cleanup_free_ char *problem = NULL;
	struct fleet_target *target;
	int r = find_os(making, pool, &name, error);

	if (r == 0)
		r = fleet_open_os(making, name, &os, error);
	if (r < 0)
		return r;
	warn_of_pool(making, pool);
	if (*name && pool->os_version)
		warn_of_kernel(making, pool, &os);
	/* A node without labels has the version that the kernel's name says. */
	if (pool->os_version)
		version = xstrdup(pool->os_version);
	else if (*name && !*pool->os_id) {
		version = catalogue_node_version(&os, pool->krel);
		if (!version)
			problem = unknown_version(&os);
	}
	if (!version)
		version = xstrdup("");
	shown = *name ? xstrdup(name) : xasprintf("%s%s", pool->os_id, version);
	target = find_target(making, pool->krel, shown,
		*pool->os_id ? pool->os_id
		: *name      ? os.id
			     : "",
		version, pool->arch, FLEET_NODE);
	target->nodes += pool->nodes;
	target->gpu |= pool->gpu;
	target->nic |= pool->nic;
	if (!arch_find(pool->arch))
		fleet_set_problem(target, xasprintf("architecture %s is not known", pool->arch));
	else if (!*name && !*pool->os_id)
		fleet_set_problem(target,
			xstrdup("its distribution is unknown: the node has no labels, and its "
				"kernel's name fits no distribution or several"));
	else if (!*name)
		fleet_set_problem(
			target, xasprintf("distribution %s is not in the catalogue", shown));
	else if (problem)
		fleet_set_problem(target, TAKE_PTR(problem));
	else if (!*arch_find(pool->arch)->redist)
		fleet_set_problem(target,
			xasprintf("images are built for nodes of x86_64 and aarch64, not of %s",
				pool->arch));
	else if (!can_compile(making, pool, &os))
		fleet_set_problem(target,
			xasprintf("the catalogue names no cross compiler of %s for %s: build it on "
				  "such a machine, or pass -- --root debian12",
				os.os, pool->arch));
	else if (os.krels.count && !catalogue_makes(&os, pool->krel)) {
		_cleanup_free_ char *text = xasprintf("%s has no kernels named like %s: to build "
						      "for it, pass -- --kernel-from PATH",
			os.os, pool->krel);

		xstrv_push_unique(&making->fleet.warnings, text);
	}
	return 0;
}

/* Every release that the distribution's lists have; @os_name as catalogue_open() takes it. */
static int list_releases(const struct making *making, const char *os_name, const char *arch,
	struct strv *krels, struct error *error)
{
	struct common_options common = *making->context->options;
	_cleanup_(context_close) struct context context = CONTEXT_CLOSED;
	struct resolve_answer answer = { 0 };
	int r;

	common.os = os_name;
	common.arch = arch;
	r = context_open(&common, &context, error);
	if (r == 0)
		r = context_choose_os(&context, NULL, NULL, error);
	if (r == 0)
		r = context_list(&context, krels, &answer, error);
	resolve_answer_free(&answer);
	return r;
}

/* Is it of another architecture than --arch asks for? */
static bool is_left_out(const struct making *making, const struct fleet_target *target)
{
	const struct strv *asked = &making->context->options->archs;

	return asked->count && !strv_contains(asked, target->arch);
}

static bool needs_image(const struct making *making, const struct fleet_target *target)
{
	return (target->gpu && making->request->nvidia.count) ||
	       (target->nic && making->request->ofed.count);
}

/* The kernel that an update brings to the nodes of the target at @index. */
static void add_ahead(struct making *making, size_t index)
{
	struct fleet *fleet = &making->fleet;
	const struct fleet_target *from = &fleet->targets[index];
	_cleanup_(catalogue_free) struct catalogue os = { 0 };
	_cleanup_strv_ struct strv krels = { 0 };
	_cleanup_free_ char *version = NULL;
	struct fleet_target *target;
	struct error why = { 0 };
	/* Nodes whose kernel is excluded may get one that is not. */
	const bool asked = !fleet_excluding(making, from, "");
	const char *newest;
	int r;

	if (*from->problem || !needs_image(making, from) || is_left_out(making, from))
		return;
	r = fleet_open_os(making, from->os, &os, &why);
	if (r == 0)
		r = list_releases(making, from->os, from->arch, &krels, &why);
	if (r < 0) {
		_cleanup_free_ char *text =
			xasprintf("the next kernel of %s is not known: %s", from->os, why.text);

		xstrv_push_unique(&fleet->warnings, text);
		if (asked) {
			xstrv_push_unique(&fleet->without_lists, from->os);
			fleet->lists_result = fleet->lists_result ? fleet->lists_result : r;
		}
		return;
	}
	if (catalogue_has_snapshots(&os)) {
		_cleanup_free_ char *text =
			xasprintf("the tags of %s's next kernel are not known: they will have the "
				  "date of the snapshot that it comes with",
				os.os);

		xstrv_push_unique(&fleet->warnings, text);
		fleet->incomplete |= asked;
		return;
	}
	newest = resolve_update(&krels, &os, from->krel);
	if (!newest) {
		xstrv_pushf(&fleet->warnings,
			"the lists of %s have neither %s nor a newer kernel of its series and "
			"flavour",
			os.os, from->krel);
		fleet->incomplete |= asked;
		return;
	}
	/* The new kernel may come with a new minor release of the distribution. */
	version = catalogue_node_version(&os, newest);
	target = find_target(making, newest, from->os, from->os_id,
		version && catalogue_release(&os, newest) ? version : from->os_version, from->arch,
		FLEET_AHEAD);
	from = &fleet->targets[index];
	target->nodes_ahead += from->nodes;
	target->gpu |= from->gpu;
	target->nic |= from->nic;
}

/* The newest kernel of the distribution that @context has chosen, or NULL; the caller frees it. */
static char *find_newest(
	const struct making *making, const struct context *context, int *ret_r, struct error *error)
{
	_cleanup_strv_ struct strv krels = { 0 };
	const char *newest = NULL;

	*ret_r = list_releases(making, context->os.os, context->arch, &krels, error);
	if (*ret_r == 0)
		newest = resolve_newest(&krels, &context->os, context->arch);
	if (*ret_r == 0 && !newest)
		*ret_r = error_set(
			error, -ENODATA, "the lists of %s have no kernel", context->os.name);
	return newest ? xstrdup(newest) : NULL;
}

/* @arch: NULL: as the release or this machine says. */
static int add_asked(
	struct making *making, const char *asked, const char *arch, struct error *error)
{
	struct common_options common = *making->context->options;
	_cleanup_(context_close) struct context context = CONTEXT_CLOSED;
	_cleanup_free_ char *krel = NULL;
	_cleanup_free_ char *version = NULL;
	bool newest = strcmp(asked, KREL_NEWEST) == 0;
	struct fleet_target *target;
	int r;

	common.arch = arch;
	r = context_open(&common, &context, error);
	if (r == 0)
		r = context_choose_os(&context, newest ? CONTEXT_DEFAULT_OS : NULL, asked, error);
	if (r < 0)
		return r;
	krel = newest ? find_newest(making, &context, &r, error) : xstrdup(asked);
	if (!krel)
		return r;
	version = catalogue_node_version(&context.os, krel);
	target = find_target(making, krel, context.os.os, context.os.id, version ? version : "",
		context.arch, FLEET_ASKED);
	target->gpu = target->nic = true;
	if (!version)
		fleet_set_problem(target, unknown_version(&context.os));
	return 0;
}

/* A release that names its architecture is for that one; another is for each of --arch. */
static int add_asked_for_all(struct making *making, const char *asked, struct error *error)
{
	const struct strv *all = &making->context->options->archs;
	const char *own = krel_arch(asked);
	int r = 0;

	if (all->count == 0 || (own && strv_contains(all, own)))
		return add_asked(making, asked, NULL, error);
	for (size_t i = 0; i < all->count && r == 0; i++)
		r = add_asked(making, asked, all->items[i], error);
	return r;
}

/* ---- all of it */

static int compare_targets(const void *one, const void *other)
{
	const struct fleet_target *first = one;
	const struct fleet_target *second = other;
	int difference = (first->nodes < second->nodes) - (first->nodes > second->nodes);

	if (difference == 0)
		difference = (first->nodes_ahead < second->nodes_ahead) -
			     (first->nodes_ahead > second->nodes_ahead);
	if (difference == 0)
		difference = strcmp(first->os, second->os);
	if (difference == 0)
		difference = -strcmp(first->krel, second->krel);
	if (difference == 0)
		difference = strcmp(first->arch, second->arch);
	return difference ? difference : strcmp(first->os_version, second->os_version);
}

/* Leaves out what --exclude names, and targets that need no image. */
static void drop_targets(struct making *making)
{
	struct fleet *fleet = &making->fleet;
	size_t kept = 0;

	for (size_t i = 0; i < fleet->target_count; i++) {
		struct fleet_target *target = &fleet->targets[i];
		bool needed = needs_image(making, target);

		if (needed && is_left_out(making, target)) {
			_cleanup_free_ char *names =
				xstrv_join(&making->context->options->archs, ",");
			_cleanup_free_ char *pattern = xasprintf("--arch %s", names);

			fleet_exclude(making, target, "", pattern);
			needed = false;
		}
		if (!needed || fleet_is_excluded(making, target, ""))
			fleet_target_free(target);
		else
			fleet->targets[kept++] = *target;
	}
	fleet->target_count = kept;
}

static int make_targets(struct making *making, struct error *error)
{
	const struct fleet_request *request = making->request;
	size_t nodes;
	int r = 0;

	for (size_t i = 0; i < request->pools->odd.count; i++)
		xstrv_push(&making->fleet.warnings, request->pools->odd.items[i]);
	making->fleet.incomplete = request->pools->odd.count > 0;
	for (size_t i = 0; i < request->pools->count && r == 0; i++)
		r = add_pool(making, &request->pools->items[i], error);
	nodes = request->ahead ? making->fleet.target_count : 0;
	for (size_t i = 0; i < nodes && r == 0; i++)
		add_ahead(making, i);
	for (size_t i = 0; i < request->kernels->count && r == 0; i++)
		r = add_asked_for_all(making, request->kernels->items[i], error);
	return r;
}

int fleet_make(struct context *context, const struct fleet_request *request, struct fleet *ret,
	struct error *error)
{
	struct making making = { .context = context, .request = request };
	struct fleet *fleet = &making.fleet;
	int r = make_targets(&making, error);

	if (r == 0)
		drop_targets(&making);
	if (r == 0 && fleet->target_count)
		qsort(fleet->targets, fleet->target_count, sizeof(*fleet->targets),
			compare_targets);
	for (size_t i = 0; i < fleet->target_count && r == 0; i++)
		r = fleet_add_builds(&making, &fleet->targets[i], error);
	fleet_keep_targets(fleet);
	if (r < 0) {
		fleet_free(fleet);
		return r;
	}
	fleet_warn(&making);
	*ret = *fleet;
	return 0;
}
