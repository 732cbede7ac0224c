/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nodes of a cluster, from the Kubernetes API's NodeList, v1. Labels are those of
 * node-feature-discovery (docs/deployment and source/{kernel,system,pci} of its repository) that
 * the operators select nodes by: gpu-operator controllers/state_manager.go, network-operator
 * pkg/nodeinfo/attributes.go.
 */
#include "cli/fleet/fleet.h"

#include <string.h>

#include "cli/json.h"
#include "common/arch.h"
#include "common/xalloc.h"
#include "kernels/krel.h"

/* A node with 50 images and its labels takes some 20 kB. */

#define NFD_LABEL   "feature.node.kubernetes.io/"
#define NFD_ID      NFD_LABEL "system-os_release.ID"
#define NFD_VERSION NFD_LABEL "system-os_release.VERSION_ID"
#define NFD_PCI     NFD_LABEL "pci-"

/* The GPU operator sets it to another value than "true" where no driver container shall run. */
#define GPU_DEPLOY   "nvidia.com/gpu.deploy.driver"
#define GPU_OPERANDS "nvidia.com/gpu.deploy.operands" /* "false": none of the operator's pods */

/* "" where it is absent. */
static const char *text_of(json_object *object, const char *key)
{
	json_object *value = NULL;

	if (!object || !json_object_object_get_ex(object, key, &value) ||
		!json_object_is_type(value, json_type_string))
		return "";
	return json_object_get_string(value);
}

static json_object *object_of(json_object *object, const char *key)
{
	json_object *value = NULL;

	return object && json_object_object_get_ex(object, key, &value) &&
			       json_object_is_type(value, json_type_object)
		       ? value
		       : NULL;
}

/*
 * Has it a device of this vendor whose class begins so? Labels are "pci-<class>_<vendor>.present"
 * by default, "pci-<vendor>.present" as the operators configure it, and others with more fields.
 */
static bool has_device(json_object *labels, const char *class, const char *vendor)
{
	json_object_object_foreach(labels, key, value)
	{
		const char *fields = key + strlen(NFD_PCI);
		const char *found;

		if (strncmp(key, NFD_PCI, strlen(NFD_PCI)) != 0 ||
			!str_ends_with(key, ".present") ||
			!json_object_is_type(value, json_type_string) ||
			strcmp(json_object_get_string(value), "true") != 0)
			continue;
		found = strstr(fields, vendor);
		if (found && (found == fields || strncmp(fields, class, strlen(class)) == 0))
			return true;
	}
	return false;
}

static bool is_labelled(json_object *labels)
{
	json_object_object_foreach(labels, key, value)
	{
		(void) value;
		if (strncmp(key, NFD_LABEL, strlen(NFD_LABEL)) == 0)
			return true;
	}
	return false;
}

static bool is_same_text(const char *one, const char *other)
{
	return one && other ? strcmp(one, other) == 0 : one == other;
}

static bool is_same(const struct pool *one, const struct pool *other)
{
	return strcmp(one->krel, other->krel) == 0 && strcmp(one->os_id, other->os_id) == 0 &&
	       is_same_text(one->os_version, other->os_version) &&
	       strcmp(one->arch, other->arch) == 0 && one->gpu == other->gpu &&
	       one->nic == other->nic && one->labelled == other->labelled;
}

static void pool_free(struct pool *pool)
{
	free(pool->krel);
	free(pool->os_id);
	free(pool->os_version);
	free(pool->arch);
	free(pool->node);
}

/* Takes @pool over. */
static void add_node(struct pools *pools, struct pool *pool)
{
	struct pool *items;

	for (size_t i = 0; i < pools->count; i++) {
		if (!is_same(&pools->items[i], pool))
			continue;
		pools->items[i].nodes++;
		pool_free(pool);
		return;
	}
	items = xreallocarray(pools->items, pools->count + 1, sizeof(*items));
	items[pools->count++] = *pool;
	pools->items = items;
}

static void read_node(json_object *node, struct pools *pools)
{
	json_object *metadata = object_of(node, "metadata");
	json_object *info = object_of(object_of(node, "status"), "nodeInfo");
	json_object *none = json_object_new_object();
	json_object *labels = object_of(metadata, "labels");
	const char *name = text_of(metadata, "name");
	const char *krel = text_of(info, "kernelVersion");
	const struct arch *arch = arch_find(text_of(info, "architecture"));
	const char *deploy;
	struct pool pool = { .nodes = 1 };

	if (!labels)
		labels = none;
	deploy = text_of(labels, GPU_DEPLOY);
	pool.labelled = is_labelled(labels);
	pool.gpu = !pool.labelled || has_device(labels, "03", "10de");
	pool.nic = !pool.labelled || has_device(labels, "02", "15b3");
	if ((*deploy && strcmp(deploy, "true") != 0) ||
		strcmp(text_of(labels, GPU_OPERANDS), "false") == 0)
		pool.gpu = false;
	if (strcmp(text_of(info, "operatingSystem"), "windows") == 0) {
		/* None of our business. */
	} else if (!pool.gpu && !pool.nic) {
		pools->idle++;
	} else if (!krel_is_valid(krel)) {
		xstrv_pushf(&pools->odd,
			"node %s: status.nodeInfo.kernelVersion is \"%s\", which is no kernel "
			"release: its images are not known",
			name, krel);
	} else {
		pool.krel = xstrdup(krel);
		pool.os_id = xstrdup(text_of(labels, NFD_ID));
		pool.os_version = json_object_object_get_ex(labels, NFD_VERSION, NULL)
					  ? xstrdup(text_of(labels, NFD_VERSION))
					  : NULL;
		pool.arch = xstrdup(arch ? arch->uname : text_of(info, "architecture"));
		pool.node = xstrdup(name);
		add_node(pools, &pool);
	}
	(void) json_object_put(none);
}

/* A NodeList, or one Node as "kubectl get node NAME" prints it. */
static int read_list(json_object *root, struct pools *pools, struct error *error)
{
	json_object *items = NULL;
	size_t count;

	if (strcmp(text_of(root, "kind"), "Node") == 0)
		read_node(root, pools);
	else if (!json_object_object_get_ex(root, "items", &items) ||
		 !json_object_is_type(items, json_type_array))
		return error_set(error, -EBADMSG, "not a list of Kubernetes nodes");
	count = items ? json_object_array_length(items) : 0;
	if (items && count == 0)
		return error_set(
			error, -EBADMSG, "the list is empty: may this account list nodes?");
	for (size_t i = 0; i < count; i++) {
		json_object *node = json_object_array_get_idx(items, i);
		const char *kind = text_of(node, "kind");
		/* The API's own list names its items' kind once. */
		bool is_node = strcmp(*kind ? kind : text_of(root, "kind"),
				       *kind ? "Node" : "NodeList") == 0;

		if (!is_node && !*kind)
			return error_set(error, -EBADMSG,
				"item %zu has no kind, and the list is no NodeList", i);
		if (!is_node)
			return error_set(
				error, -EBADMSG, "item %zu is a \"%s\", not a Node", i, kind);
		read_node(node, pools);
	}
	return pools->count || pools->idle || pools->odd.count
		       ? 0
		       : error_set(error, -EBADMSG, "no node in the list runs Linux");
}

int pools_read(const char *path, struct pools *ret, struct error *error)
{
	json_object *root;
	int r = json_read("--nodes", path, &root, error);

	*ret = (struct pools){ 0 };
	if (r == 0) {
		r = read_list(root, ret, error);
		if (r < 0)
			(void) error_prefix(error, r, "--nodes %s", path);
	}
	(void) json_object_put(root);
	if (r == 0)
		return 0;
	pools_free(ret);
	return error_try(error, r, "kubectl get nodes -o json | slipway plan --nodes - …");
}

void pools_free(struct pools *pools)
{
	for (size_t i = 0; i < pools->count; i++)
		pool_free(&pools->items[i]);
	free(pools->items);
	strv_free(&pools->odd);
	*pools = (struct pools){ 0 };
}
