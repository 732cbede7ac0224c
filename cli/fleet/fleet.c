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
	{ JSON_FIELD("revision", JSON_TEXT, struct fleet_build, revision) },
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
	{ JSON_FIELD("nodes_ahead", JSON_NUMBER, struct fleet_target, nodes_ahead) },
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
			"%s %s: must be a version, or a version and its source: "
			"24.07-0.6.1.0=/src/ofed",
			option, text);
	/* The words of --ofed and --nvidia are no versions; nor are paths. */
	if (*text < '0' || *text > '9' || memchr(text, '/', length)) {
		(void) error_set(error, -EINVAL, "%s %s: its version is missing", option, text);
		return error_try(error, -EINVAL,
			"%s VERSION=%s, with the version that the operator's policy has", option,
			equals ? equals + 1 : text);
	}
	for (size_t i = 0; i < drivers->count; i++)
		if (strlen(drivers->items[i].version) == length &&
			strncmp(drivers->items[i].version, text, length) == 0)
			return error_set(
				error, -EINVAL, "%s %s: this version is given twice", option, text);
	items = xreallocarray(drivers->items, drivers->count + 1, sizeof(*items));
	items[drivers->count++] = (struct fleet_driver){
		.version = xstrndup(text, length),
		.source = equals ? xstrdup(equals + 1) : NULL,
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
			xstrdup("its distribution is unknown: the node has no labels, and its "
				"kernel's name fits no distribution or several"));
	else if (!*name)
		set_problem(target, xasprintf("distribution %s is not in the catalogue", shown));
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
	const char *newest;
	int r;

	if (*from->problem)
		return;
	r = open_os(making, from->os, &os, &why);
	if (r == 0)
		r = list_releases(making, from->os, from->arch, &krels, &why);
	if (r < 0) {
		_cleanup_free_ char *text =
			xasprintf("what updates bring to %s is not known: %s", from->os, why.text);

		xstrv_push_unique(&fleet->warnings, text);
		fleet->lists_result = fleet->lists_result ? fleet->lists_result : r;
		return;
	}
	newest = resolve_update(&krels, &os, from->krel);
	if (!newest) {
		xstrv_pushf(&fleet->warnings,
			"the lists of %s have no kernel of the series and flavour of %s that is as "
			"new",
			os.os, from->krel);
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

/* The version that tags have: the operator's policy has the revision, too. */
static char *version_in_tag(const struct making *making, const struct fleet_driver *driver)
{
	const char *revision = making->request->revision;
	_cleanup_free_ char *version =
		xasprintf("%s%s%s", driver->version, revision ? "-" : "", revision ? revision : "");

	return image_version_in_tag(version);
}

static char *nic_name(const struct making *making, const struct fleet_target *target,
	const struct fleet_driver *ofed)
{
	_cleanup_free_ char *version = version_in_tag(making, ofed);
	_cleanup_free_ char *tag = tag_nic(
		version, target->krel, target->os_id, target->os_version, arch_oci(target->arch));

	if (!tag)
		out_of_memory();
	return xasprintf(IMAGE_NIC_REPOSITORY ":%s", tag);
}

/* One or two: operators before 26.7 compose another tag for some distributions. */
static void gpu_names(const struct making *making, const struct fleet_target *target,
	const struct fleet_driver *nvidia, struct strv *names)
{
	const struct image_use use = {
		.operators = making->request->operators,
		.os_id = target->os_id,
		.os_major = strtoul(target->os_version, NULL, 10),
	};
	_cleanup_free_ char *version = version_in_tag(making, nvidia);
	_cleanup_(image_free) struct image image = { 0 };
	_cleanup_strv_ struct strv os_tags = { 0 };
	_cleanup_strv_ struct strv local = { 0 };

	image_os_tags(target->os_id, target->os_version, &os_tags);
	for (size_t i = 0; i < os_tags.count; i++) {
		_cleanup_free_ char *tag = tag_gpu(version, target->krel, os_tags.items[i]);

		if (!tag)
			out_of_memory();
		image_add_tag(&image, IMAGE_GPU_REPOSITORY, tag, "");
	}
	image_wanted_names(&image, &use, &local);
	for (size_t i = 0; i < local.count; i++)
		xstrv_push(names, strrchr(local.items[i], '/') + 1);
}

/* @name is "<repository>:<tag>". */
static void add_image(const struct making *making, struct fleet_target *target,
	struct fleet_build *build, const char *role, const char *name)
{
	const struct image_use use = { .operators = making->request->operators };
	const char *tag = strchr(name, ':') + 1;
	struct fleet_image *items =
		xreallocarray(build->images, build->image_count + 1, sizeof(*items));

	build->images = items;
	items[build->image_count++] = (struct fleet_image){
		.role = xstrdup(role),
		.tag = xstrdup(tag),
		.reference = xasprintf("%s/%s", operators_registry(&use), name),
		.state = xstrdup(FLEET_NOT_ASKED),
		.differs = xstrdup(""),
	};
	if (strlen(tag) > IMAGE_TAG_LIMIT && !*target->problem)
		set_problem(target, xasprintf("its tag has %zu characters, and a registry takes %d",
					    strlen(tag), IMAGE_TAG_LIMIT));
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
	if (request->revision)
		xstrv_pushf(args, "--revision=%s", request->revision);
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
	const char *revision = making->request->revision;
	struct fleet_build *build;

	target->builds =
		xreallocarray(target->builds, target->build_count + 1, sizeof(*target->builds));
	build = &target->builds[target->build_count++];
	*build = (struct fleet_build){
		.ofed = xstrdup(ofed ? ofed->version : ""),
		.nvidia = xstrdup(nvidia ? nvidia->version : ""),
		.revision = xstrdup(revision ? revision : ""),
	};
	if (*target->os_id && ofed) {
		_cleanup_free_ char *name = nic_name(making, target, ofed);

		add_image(making, target, build, FLEET_NIC, name);
	}
	if (*target->os_id && nvidia) {
		_cleanup_strv_ struct strv names = { 0 };

		gpu_names(making, target, nvidia, &names);
		for (size_t i = 0; i < names.count; i++)
			add_image(making, target, build, FLEET_GPU, names.items[i]);
	}
	/* Without a source the plan can be checked, and not built. */
	if (*target->problem || (ofed && !ofed->source) || (nvidia && !nvidia->source))
		return 0;
	return add_arguments(making, target, ofed, nvidia, &build->args, error);
}

/* The build of this target that makes the GPU image of the same tag; NULL: none. */
static const struct fleet_build *find_owner(const struct making *making,
	const struct fleet_target *target, const struct fleet_driver *nvidia)
{
	_cleanup_strv_ struct strv names = { 0 };

	gpu_names(making, target, nvidia, &names);
	for (size_t i = 0; i < target->build_count; i++)
		for (size_t j = 0; j < target->builds[i].image_count; j++)
			if (strv_contains(&names,
				    strrchr(target->builds[i].images[j].reference, '/') + 1))
				return &target->builds[i];
	return NULL;
}

static bool makes_nic(const struct fleet_target *target, const struct fleet_driver *ofed)
{
	for (size_t i = 0; i < target->build_count; i++)
		if (strcmp(target->builds[i].ofed, ofed->version) == 0)
			return true;
	return false;
}

/* A tag has one image: of those that would share it only the first is built. */
static int add_pair(struct making *making, struct fleet_target *target,
	const struct fleet_driver *ofed, const struct fleet_driver *nvidia, struct error *error)
{
	struct strv *warnings = &making->fleet.warnings;
	const struct fleet_build *owner = nvidia ? find_owner(making, target, nvidia) : NULL;
	_cleanup_free_ char *text = NULL;

	if (!owner)
		return add_build(making, target, ofed, nvidia, error);
	text = strcmp(owner->nvidia, nvidia->version) == 0
		       ? xasprintf("GPU images for OFED %s and %s share a tag: those of this plan "
				   "are for %s",
				 owner->ofed, ofed ? ofed->version : "", owner->ofed)
		       : xasprintf("drivers %s and %s are of one branch, and their images share a "
				   "tag: those of this plan have %s",
				 owner->nvidia, nvidia->version, owner->nvidia);
	xstrv_push_unique(warnings, text);
	return ofed && !makes_nic(target, ofed) ? add_build(making, target, ofed, NULL, error) : 0;
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
			int r = add_pair(making, target, ofeds ? &ofed->items[i] : NULL,
				count ? &nvidia->items[kept[j]] : NULL, error);

			if (r < 0)
				return r;
		}
	}
	return 0;
}

/* ---- warnings about all of it */

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
		if (target->nodes && makes_gpu(target))
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

	if (strcmp(one->krel, other->krel) != 0)
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

/* ---- all of it */

static int compare_targets(const void *one, const void *other)
{
	const struct fleet_target *first = one;
	const struct fleet_target *second = other;
	int difference = (first->nodes < second->nodes) - (first->nodes > second->nodes);

	if (difference == 0)
		difference = strcmp(first->os, second->os);
	if (difference == 0)
		difference = -strcmp(first->krel, second->krel);
	if (difference == 0)
		difference = strcmp(first->arch, second->arch);
	return difference ? difference : strcmp(first->os_version, second->os_version);
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

	for (size_t i = 0; i < request->pools->odd.count; i++)
		xstrv_push(&making->fleet.warnings, request->pools->odd.items[i]);
	making->fleet.incomplete = request->pools->odd.count > 0;
	for (size_t i = 0; i < request->pools->count && r == 0; i++)
		r = add_pool(making, &request->pools->items[i], error);
	nodes = request->ahead ? making->fleet.target_count : 0;
	for (size_t i = 0; i < nodes && r == 0; i++)
		add_ahead(making, i);
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
	warn_of_excludes(&making);
	*ret = *fleet;
	return 0;
}

void fleet_free(struct fleet *fleet)
{
	for (size_t i = 0; i < fleet->target_count; i++)
		free(fleet->targets[i].os_id);
	json_fields_free(&fleet_fields, fleet);
}
