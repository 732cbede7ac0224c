/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From nodes to targets: a target is a kernel of one distribution with all its drivers, since one
 * compile of OFED serves every NVIDIA driver.
 */
#include "cli/fleet/fleet.h"

#include <fnmatch.h>
#include <string.h>

#include "common/arch.h"
#include "common/tag.h"
#include "common/xalloc.h"
#include "kernels/json_fields.h"
#include "kernels/krel.h"

/* ---- as JSON, as it is printed, read and freed */

static const struct json_field image_fields[] = {
	{ JSON_FIELD("role", JSON_TEXT, struct fleet_image, role) },
	{ JSON_FIELD("tag", JSON_TEXT, struct fleet_image, tag) },
	{ JSON_FIELD("reference", JSON_TEXT, struct fleet_image, reference) },
	{ JSON_FIELD("state", JSON_TEXT, struct fleet_image, state) },
	{ JSON_FIELD("differs", JSON_TEXT, struct fleet_image, differs) },
};
static const struct json_fields fleet_image_fields =
	JSON_FIELDS("image", image_fields, struct fleet_image);

static const struct json_field build_fields[] = {
	{ JSON_FIELD("ofed", JSON_TEXT, struct fleet_build, ofed) },
	{ JSON_FIELD("nvidia", JSON_TEXT, struct fleet_build, nvidia) },
	{ JSON_FIELD("args", JSON_TEXTS, struct fleet_build, args) },
	{ JSON_FIELD("images", JSON_LIST, struct fleet_build, images), .of = &fleet_image_fields },
};
static const struct json_fields fleet_build_fields =
	JSON_FIELDS("build", build_fields, struct fleet_build);

static const struct json_field target_fields[] = {
	{ JSON_FIELD("index", JSON_NUMBER, struct fleet_target, index) },
	{ JSON_FIELD("krel", JSON_TEXT, struct fleet_target, krel), .is_right = krel_is_valid,
		.wanted = "no kernel release" },
	{ JSON_FIELD("os", JSON_TEXT, struct fleet_target, os) },
	{ JSON_FIELD("os_version", JSON_TEXT, struct fleet_target, os_version) },
	{ JSON_FIELD("arch", JSON_TEXT, struct fleet_target, arch) },
	{ JSON_FIELD("nodes", JSON_NUMBER, struct fleet_target, nodes) },
	{ JSON_FIELD("why", JSON_TEXT, struct fleet_target, why) },
	{ JSON_FIELD("problem", JSON_TEXT, struct fleet_target, problem) },
	{ JSON_FIELD("builds", JSON_LIST, struct fleet_target, builds), .of = &fleet_build_fields },
};
static const struct json_fields fleet_target_fields =
	JSON_FIELDS("target", target_fields, struct fleet_target);

static const struct json_field exclusion_fields[] = {
	{ JSON_FIELD("krel", JSON_TEXT, struct fleet_exclusion, krel) },
	{ JSON_FIELD("nvidia", JSON_TEXT, struct fleet_exclusion, nvidia) },
	{ JSON_FIELD("pattern", JSON_TEXT, struct fleet_exclusion, pattern) },
	{ JSON_FIELD("nodes", JSON_NUMBER, struct fleet_exclusion, nodes) },
};
static const struct json_fields fleet_exclusion_fields =
	JSON_FIELDS("exclusion", exclusion_fields, struct fleet_exclusion);

static const struct json_field plan_fields[] = {
	{ JSON_FIELD("targets", JSON_LIST, struct fleet, targets), .of = &fleet_target_fields },
	{ JSON_FIELD("excluded", JSON_LIST, struct fleet, excluded),
		.of = &fleet_exclusion_fields },
	{ JSON_FIELD("warnings", JSON_TEXTS, struct fleet, warnings) },
};
static const struct json_fields fleet_fields = JSON_FIELDS("plan", plan_fields, struct fleet);

json_object *fleet_to_json(const struct fleet *fleet)
{
	json_object *root = json_object_new_object();

	json_fields_add(root, &fleet_fields, fleet);
	return root;
}

int fleet_from_json(json_object *root, struct fleet *ret, struct error *error)
{
	int r = json_object_is_type(root, json_type_object)
			? json_fields_read(root, &fleet_fields, ret, error)
			: error_set(error, -EBADMSG, "no JSON object");

	if (r < 0)
		fleet_free(ret);
	return r;
}

/* ---- making one */

struct making {
	struct context *context;
	const struct fleet_request *request;
	struct fleet fleet;
};

/* ---- drivers */

int fleet_add_driver(
	struct fleet_drivers *drivers, const char *option, const char *text, struct error *error)
{
	const char *equals = strchr(text, '=');
	size_t length = equals ? (size_t) (equals - text) : strlen(text);
	struct fleet_driver *items;

	if (length == 0 || (equals && !equals[1]))
		return error_set(error, -EINVAL,
			"%s %s: must be a version, or a version and its source: 24.07-0.6.1.0=/src/ofed",
			option, text);
	/* The words of --ofed and --nvidia are no versions; nor are paths. */
	if (*text < '0' || *text > '9' || memchr(text, '/', length)) {
		(void) error_set(error, -EINVAL, "%s %s: its version is missing", option, text);
		return error_try(error, -EINVAL,
			"%s VERSION=%s, with the version that the operator's policy has", option,
			equals ? equals + 1 : text);
	}
	items = xreallocarray(drivers->items, drivers->count + 1, sizeof(*items));
	items[drivers->count++] = (struct fleet_driver){
		.version = xstrndup(text, length),
		.source = equals ? xstrdup(equals + 1) : xstrndup(text, length),
	};
	drivers->items = items;
	return 0;
}

void fleet_drivers_free(struct fleet_drivers *drivers)
{
	for (size_t i = 0; i < drivers->count; i++) {
		free(drivers->items[i].version);
		free(drivers->items[i].source);
	}
	free(drivers->items);
	*drivers = (struct fleet_drivers){ 0 };
}

/* ---- targets */

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

static void set_problem(struct fleet_target *target, char *problem)
{
	free(target->problem);
	target->problem = problem;
}

/* Opens the catalogue of @os; "" is one that there is none of. */
static int open_os(
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

static void warn_of_pool(struct making *making, const struct pool *pool)
{
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
			"%s no label feature.node.kubernetes.io/system-os_release.VERSION_ID: the "
			"operators deploy no driver there; an empty one is enough: kubectl label "
			"node %s feature.node.kubernetes.io/system-os_release.VERSION_ID=",
			who, pool->node);
}

static int add_pool(struct making *making, const struct pool *pool, struct error *error)
{
	_cleanup_(catalogue_free) struct catalogue os = { 0 };
	_cleanup_free_ char *name = NULL;
	_cleanup_free_ char *version = NULL;
	_cleanup_free_ char *shown = NULL;
	struct fleet_target *target;
	int r = find_os(making, pool, &name, error);

	if (r == 0)
		r = open_os(making, name, &os, error);
	if (r < 0)
		return r;
	warn_of_pool(making, pool);
	/* A node without labels has the version that the kernel's name says. */
	if (pool->os_version)
		version = xstrdup(pool->os_version);
	else if (*name && !*pool->os_id)
		version = catalogue_node_version(&os, pool->krel);
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
		set_problem(target, xasprintf("architecture %s is not known", pool->arch));
	else if (!*name && !*pool->os_id)
		set_problem(target,
			xasprintf("its distribution is not known: it has no labels, and more than "
				  "one distribution, or none, names its kernels so"));
	else if (!*name)
		set_problem(target, xasprintf("distribution %s is not in the catalogue", shown));
	else if (os.krels.count && !catalogue_makes(&os, pool->krel))
		xstrv_pushf(&making->fleet.warnings,
			"%s names no kernel like %s: its build needs the kernel's files: "
			"--kernel-from PATH",
			os.os, pool->krel);
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

/* The kernel that an update brings to the nodes of the target at @index. */
static int add_ahead(struct making *making, size_t index, struct error *error)
{
	const struct fleet_target *from = &making->fleet.targets[index];
	_cleanup_(catalogue_free) struct catalogue os = { 0 };
	_cleanup_strv_ struct strv krels = { 0 };
	_cleanup_free_ char *version = NULL;
	struct fleet_target *target;
	const char *newest;
	int r;

	if (*from->problem)
		return 0;
	r = open_os(making, from->os, &os, error);
	if (r == 0)
		r = list_releases(making, from->os, from->arch, &krels, error);
	if (r < 0)
		return r;
	newest = resolve_update(&krels, &os, from->krel);
	if (!newest) {
		xstrv_pushf(&making->fleet.warnings,
			"the lists of %s have no kernel of the series and flavour of %s", os.os,
			from->krel);
		return 0;
	}
	/* The new kernel may come with a new minor release of the distribution. */
	version = catalogue_node_version(&os, newest);
	target = find_target(making, newest, from->os, from->os_id,
		version && catalogue_release(&os, newest) ? version : from->os_version, from->arch,
		FLEET_AHEAD);
	from = &making->fleet.targets[index];
	target->gpu |= from->gpu;
	target->nic |= from->nic;
	return 0;
}

/* The newest kernel of the distribution that @context has chosen, or NULL; the caller frees it. */
static char *find_newest(
	const struct making *making, const struct context *context, int *ret_r, struct error *error)
{
	_cleanup_strv_ struct strv krels = { 0 };
	const char *newest = NULL;

	*ret_r = list_releases(making, context->os.os, context->arch, &krels, error);
	if (*ret_r == 0)
		newest = resolve_newest(&krels, &context->os);
	if (*ret_r == 0 && !newest)
		*ret_r = error_set(
			error, -ENODATA, "the lists of %s have no kernel", context->os.name);
	return newest ? xstrdup(newest) : NULL;
}

static int add_asked(struct making *making, const char *asked, struct error *error)
{
	_cleanup_(context_close) struct context context = CONTEXT_CLOSED;
	_cleanup_free_ char *krel = NULL;
	_cleanup_free_ char *version = NULL;
	bool newest = strcmp(asked, KREL_NEWEST) == 0;
	struct fleet_target *target;
	int r = context_open(making->context->options, &context, error);

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
	return 0;
}

/* ---- builds */

/* Is this kernel, or with it this driver, left out? @nvidia is "" for the kernel alone. */
static bool is_excluded(
	struct making *making, const struct fleet_target *target, const char *nvidia)
{
	const struct strv *excludes = making->request->excludes;
	struct fleet *fleet = &making->fleet;

	for (size_t i = 0; i < excludes->count; i++) {
		const char *pattern = excludes->items[i];
		const char *colon = strchr(pattern, ':');
		_cleanup_free_ char *glob =
			colon ? xstrndup(pattern, (size_t) (colon - pattern)) : xstrdup(pattern);

		if (!colon != !*nvidia || fnmatch(glob, target->krel, 0) != 0 ||
			(colon && fnmatch(colon + 1, nvidia, 0) != 0))
			continue;
		fleet->excluded = xreallocarray(
			fleet->excluded, fleet->excluded_count + 1, sizeof(*fleet->excluded));
		fleet->excluded[fleet->excluded_count++] = (struct fleet_exclusion){
			.krel = xstrdup(target->krel),
			.nvidia = xstrdup(nvidia),
			.pattern = xstrdup(pattern),
			.nodes = target->nodes,
		};
		return true;
	}
	return false;
}

static void add_image(
	struct fleet_build *build, const char *role, const char *name, const char *registry)
{
	struct fleet_image *items =
		xreallocarray(build->images, build->image_count + 1, sizeof(*items));

	build->images = items;
	/* localhost/slipway/<repository>:<tag> */
	items[build->image_count++] = (struct fleet_image){
		.role = xstrdup(role),
		.tag = xstrdup(strrchr(name, ':') + 1),
		.reference = xasprintf("%s/%s", registry, strrchr(name, '/') + 1),
		.state = xstrdup(FLEET_NOT_ASKED),
		.differs = xstrdup(""),
	};
}

static void add_nic_image(const struct making *making, const struct fleet_target *target,
	const struct fleet_driver *ofed, struct fleet_build *build)
{
	const struct image_use use = { .operators = making->request->operators };
	_cleanup_free_ char *version = image_version_in_tag(ofed->version);
	_cleanup_free_ char *tag = tag_nic(
		version, target->krel, target->os_id, target->os_version, arch_oci(target->arch));
	_cleanup_free_ char *name = tag ? xasprintf("/" IMAGE_NIC_REPOSITORY ":%s", tag) : NULL;

	if (!name)
		out_of_memory();
	add_image(build, FLEET_NIC, name, operators_registry(&use));
}

/* One or two: operators before 26.7 compose another tag for some distributions. */
static void add_gpu_images(const struct making *making, const struct fleet_target *target,
	const struct fleet_driver *nvidia, struct fleet_build *build)
{
	struct image_use use = {
		.operators = making->request->operators,
		.os_id = target->os_id,
		.os_major = strtoul(target->os_version, NULL, 10),
	};
	_cleanup_free_ char *version = image_version_in_tag(nvidia->version);
	_cleanup_(image_free) struct image image = { 0 };
	_cleanup_strv_ struct strv os_tags = { 0 };
	_cleanup_strv_ struct strv names = { 0 };

	image_os_tags(target->os_id, target->os_version, &os_tags);
	for (size_t i = 0; i < os_tags.count; i++) {
		_cleanup_free_ char *tag = tag_gpu(version, target->krel, os_tags.items[i]);

		if (!tag)
			out_of_memory();
		image_add_tag(&image, IMAGE_GPU_REPOSITORY, tag, "");
	}
	image_wanted_names(&image, &use, &names);
	for (size_t i = 0; i < names.count; i++)
		add_image(build, FLEET_GPU, names.items[i], operators_registry(&use));
}

static int add_arguments(const struct making *making, const struct fleet_target *target,
	const struct fleet_driver *ofed, const struct fleet_driver *nvidia, struct strv *args,
	struct error *error)
{
	const struct fleet_request *request = making->request;
	_cleanup_(catalogue_free) struct catalogue os = { 0 };
	_cleanup_free_ char *version = NULL;
	int r = open_os(making, target->os, &os, error);

	if (r < 0)
		return r;
	version = catalogue_node_version(&os, target->krel);
	xstrv_push(args, target->krel);
	xstrv_pushf(args, "--os=%s", target->os);
	xstrv_pushf(args, "--arch=%s", target->arch);
	if (*target->os_version && (!version || strcmp(version, target->os_version) != 0))
		xstrv_pushf(args, "--os-version=%s", target->os_version);
	if (ofed)
		xstrv_pushf(args, "--ofed=%s", ofed->source);
	xstrv_pushf(args, "--nvidia=%s", nvidia ? nvidia->source : "none");
	if (request->operators.registry)
		xstrv_pushf(args, "--registry=%s", request->operators.registry);
	if (request->operators.gpu)
		xstrv_pushf(args, "--gpu-operator=%s", request->operators.gpu);
	for (size_t i = 0; i < request->arguments->count; i++)
		xstrv_push(args, request->arguments->items[i]);
	return 0;
}

/* @ofed, @nvidia: NULL: without it. */
static int add_build(struct making *making, struct fleet_target *target,
	const struct fleet_driver *ofed, const struct fleet_driver *nvidia, struct error *error)
{
	struct fleet_build *build;

	target->builds =
		xreallocarray(target->builds, target->build_count + 1, sizeof(*target->builds));
	build = &target->builds[target->build_count++];
	*build = (struct fleet_build){
		.ofed = xstrdup(ofed ? ofed->version : ""),
		.nvidia = xstrdup(nvidia ? nvidia->version : ""),
	};
	if (*target->os_id && ofed && target->nic)
		add_nic_image(making, target, ofed, build);
	if (*target->os_id && nvidia)
		add_gpu_images(making, target, nvidia, build);
	return *target->problem ? 0
				: add_arguments(making, target, ofed, nvidia, &build->args, error);
}

/* All pairs of an OFED and an NVIDIA driver; where one of them is not needed, the other alone. */
static int add_builds(struct making *making, struct fleet_target *target, struct error *error)
{
	const struct fleet_drivers *ofed = &making->request->ofed;
	const struct fleet_drivers *nvidia = &making->request->nvidia;
	const size_t ofeds = target->nic ? ofed->count : 0;
	_cleanup_free_ size_t *kept = xcalloc(nvidia->count, sizeof(*kept));
	size_t count = 0;

	for (size_t i = 0; i < nvidia->count && target->gpu; i++)
		if (!is_excluded(making, target, nvidia->items[i].version))
			kept[count++] = i;
	if (ofeds == 0 && count == 0)
		return 0;
	for (size_t i = 0; i < (ofeds ? ofeds : 1); i++) {
		for (size_t j = 0; j < (count ? count : 1); j++) {
			int r = add_build(making, target, ofeds ? &ofed->items[i] : NULL,
				count ? &nvidia->items[kept[j]] : NULL, error);

			if (r < 0)
				return r;
		}
	}
	return 0;
}

/* ---- warnings about all of it */

static void warn_of_several_os(struct making *making)
{
	const struct fleet *fleet = &making->fleet;
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *list = NULL;

	for (size_t i = 0; i < fleet->target_count; i++)
		if (fleet->targets[i].gpu && fleet->targets[i].nodes)
			xstrv_push_unique(&names, fleet->targets[i].os);
	if (names.count < 2)
		return;
	list = xstrv_join(&names, ", ");
	xstrv_pushf(&making->fleet.warnings,
		"GPUs are in nodes of %s: with a ClusterPolicy the GPU operator gives all of them "
		"the tag of one of these; NVIDIADriver has each node's own (docs/operators.md)",
		list);
}

/* The build that a tag stands for; two of them may have one tag. */
struct tag_owner {
	const char *reference;
	const struct fleet_target *target;
	const struct fleet_build *build;
	bool gpu;
};

static int compare_owners(const void *one, const void *other)
{
	const struct tag_owner *first = one;
	const struct tag_owner *second = other;
	int difference = strcmp(first->reference, second->reference);

	/* In the plan's order: warnings are the same each time. */
	if (difference != 0)
		return difference;
	return first->build < second->build ? -1 : first->build > second->build;
}

static void warn_of_one_tag(
	struct making *making, const struct tag_owner *first, const struct tag_owner *second)
{
	struct strv *warnings = &making->fleet.warnings;

	if (first->target != second->target) {
		_cleanup_free_ char *text = xasprintf(
			"kernels %s and %s have one tag, %s: the image of one will not load on the "
			"other",
			first->target->krel, second->target->krel, first->reference);

		xstrv_push_unique(warnings, text);
	} else if (first->gpu && strcmp(first->build->ofed, second->build->ofed) != 0 &&
		   strcmp(first->build->nvidia, second->build->nvidia) == 0) {
		_cleanup_free_ char *text = xasprintf(
			"the GPU images for OFED %s and %s have one tag, %s: slipway combine makes "
			"one of them",
			first->build->ofed, second->build->ofed, first->reference);

		xstrv_push_unique(warnings, text);
	} else if (first->gpu && strcmp(first->build->nvidia, second->build->nvidia) != 0) {
		_cleanup_free_ char *text = xasprintf(
			"drivers %s and %s are of one branch and have one tag, %s: only one of them "
			"can be there",
			first->build->nvidia, second->build->nvidia, first->reference);

		xstrv_push_unique(warnings, text);
	}
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
					.build = build,
					.gpu = strcmp(build->images[k].role, FLEET_GPU) == 0,
				};
		}
	}
	if (count)
		qsort(owners, count, sizeof(*owners), compare_owners);
	for (size_t i = 1; i < count; i++)
		if (strcmp(owners[i - 1].reference, owners[i].reference) == 0)
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

		if (!target->gpu || strv_contains(&names, target->os))
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

/* ---- all of it */

static int compare_targets(const void *one, const void *other)
{
	const struct fleet_target *first = one;
	const struct fleet_target *second = other;
	int difference = (first->nodes < second->nodes) - (first->nodes > second->nodes);

	if (difference == 0)
		difference = strcmp(first->os, second->os);
	return difference ? difference : -strcmp(first->krel, second->krel);
}

void fleet_build_free(struct fleet_build *build)
{
	json_fields_free(&fleet_build_fields, build);
}

static void free_target(struct fleet_target *target)
{
	json_fields_free(&fleet_target_fields, target);
	free(target->os_id);
}

void fleet_keep_targets(struct fleet *fleet)
{
	size_t kept = 0;

	for (size_t i = 0; i < fleet->target_count; i++) {
		struct fleet_target *target = &fleet->targets[i];

		if (target->build_count == 0) {
			free_target(target);
			continue;
		}
		target->index = (unsigned int) kept;
		fleet->targets[kept++] = *target;
	}
	fleet->target_count = kept;
}

/* Leaves out what --exclude names, and targets that need no image. */
static void drop_targets(struct making *making)
{
	struct fleet *fleet = &making->fleet;
	size_t kept = 0;

	for (size_t i = 0; i < fleet->target_count; i++) {
		struct fleet_target *target = &fleet->targets[i];
		bool needed = (target->gpu && making->request->nvidia.count) ||
			      (target->nic && making->request->ofed.count);

		if (!needed || is_excluded(making, target, ""))
			free_target(target);
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

	for (size_t i = 0; i < request->pools->count && r == 0; i++)
		r = add_pool(making, &request->pools->items[i], error);
	nodes = request->ahead ? making->fleet.target_count : 0;
	for (size_t i = 0; i < nodes && r == 0; i++)
		r = add_ahead(making, i, error);
	for (size_t i = 0; i < request->kernels->count && r == 0; i++)
		r = add_asked(making, request->kernels->items[i], error);
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
		r = add_builds(&making, &fleet->targets[i], error);
	fleet_keep_targets(fleet);
	if (r < 0) {
		fleet_free(fleet);
		return r;
	}
	warn_of_several_os(&making);
	warn_of_tags(&making);
	warn_of_spellings(&making);
	*ret = *fleet;
	return 0;
}

void fleet_free(struct fleet *fleet)
{
	for (size_t i = 0; i < fleet->target_count; i++)
		free(fleet->targets[i].os_id);
	json_fields_free(&fleet_fields, fleet);
}
