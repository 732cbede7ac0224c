/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fields are those of the operators' CRDs: network-operator config/crd/bases/
 * mellanox.com_nicclusterpolicies.yaml (forcePrecompiled: 24.7 and newer), gpu-operator config/crd/
 * bases/nvidia.com_clusterpolicies.yaml and nvidia.com_nvidiadrivers.yaml (24.3 to 26.7).
 */
#include "cli/image/policies.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/text.h"
#include "common/xalloc.h"

/* The subject of a file: one image of its role, or for push.sh all of them. */
struct policy {
	const struct image *images;
	const struct image_use *use; /* of the first image; the others' follow */
	size_t count;
};

/* Ends the first line of each file: what lacks it is not ours. */
#define MARK " (written by slipway; the next build writes it again)\n"

/* --- push.sh --- */

/* How an image is pushed, and what logs in for it. */
static const struct pushing {
	const char *login;
	const char *arguments;
	const char *why;
	const char *commands;
} by_id = { "buildah", "ARCHIVE ID NAME", "by its ID, for a tag may stand for another image by now",
	"    buildah inspect --type image \"$2\" >/dev/null 2>&1 ||\n"
	"        buildah pull --quiet \"oci-archive:$1\" >/dev/null\n"
	"    echo \"$registry/$3\"\n"
	"    buildah push \"$2\" \"docker://$registry/$3\" || {\n" },
  with_all = { "skopeo", "ARCHIVE NAME", "with the images of all architectures",
	  "    echo \"$registry/$2\"\n"
	  "    skopeo copy --all \"oci-archive:$1\" \"docker://$registry/$2\" || {\n" };

/* @id: NULL: an archive is copied as it is. */
static void write_names(FILE *file, const char *archive, const char *id, const struct image *names,
	const struct image_use *use)
{
	_cleanup_strv_ struct strv list = { 0 };

	image_wanted_names(names, use, &list);
	for (size_t i = 0; i < list.count; i++)
		(void) fprintf(file, "push %s%s%s %s\n", archive, id ? " " : "", id ? id : "",
			basename(list.items[i]));
}

static void write_image(FILE *file, const struct image *image, const struct image_use *use)
{
	const char *id = use->index ? NULL : image->id;
	_cleanup_free_ char *archive = xasprintf("%s.oci.tar", image->role);
	bool has_addons = strcmp(image->role, "gpu") == 0;

	if (!image_is_proven(image))
		return;
	write_names(file, archive, id, image, use);
	for (size_t i = 0; has_addons && i < use->addon_count; i++)
		write_names(file, archive, id, use->addons[i].names, use);
	for (size_t i = 0; i < use->part_count; i++)
		write_names(file, use->parts[i].archive, NULL, &use->parts[i].names, use);
}

static void write_push(FILE *file, const struct policy *policy)
{
	const char *registry = policy->use->operators.registry;
	const struct pushing *pushing = policy->use->index ? &with_all : &by_id;

	(void) fprintf(file,
		"#!/bin/sh\n"
		"# Pushes the images in this folder: sh push.sh %s" MARK
		"# Log in before, where the registry asks for it: %s login HOST\n"
		"set -eu\n"
		"registry=${1:-%s}\n"
		"case $registry in\n"
		"'' | -*)\n"
		"    echo 'usage: sh push.sh registry.example/drivers' >&2\n"
		"    exit 2\n"
		"    ;;\n"
		"esac\n"
		"cd \"$(dirname \"$0\")\"\n"
		"\n"
		"# push %s: %s\n"
		"push() {\n"
		"%s"
		"        echo \"push.sh: not pushed: does $registry exist, and are you logged in"
		" (%s login)?\" >&2\n"
		"        exit 1\n"
		"    }\n"
		"}\n"
		"\n",
		registry ? "[REGISTRY]" : "REGISTRY", pushing->login, registry ? registry : "",
		pushing->arguments, pushing->why, pushing->commands, pushing->login);
	for (size_t i = 0; i < policy->count; i++)
		write_image(file, &policy->images[i], &policy->use[i]);
}

/* --- policies --- */

/* With precompiled drivers the operators know no other image: the pod cannot pull. */
#define EVERY_KERNEL                                                                               \
	"# Each node that it is for needs an image for its own kernel: build and push those first.\n"

static void write_nic(FILE *file, const struct policy *policy)
{
	const struct image_use *use = policy->use;
	_cleanup_free_ char *version = image_version_in_tag(policy->images->version);

	(void) fprintf(file,
		"# The network operator's NicClusterPolicy" MARK
		"# Leaves the other fields of the cluster's as they are:\n"
		"# kubectl patch nicclusterpolicy nic-cluster-policy --type merge \\\n"
		"#     --patch-file nic-cluster-policy.yaml\n"
		"# Only where there is none yet: kubectl apply -f nic-cluster-policy.yaml\n"
		"%s"
		"apiVersion: mellanox.com/v1alpha1\n"
		"kind: NicClusterPolicy\n"
		"metadata:\n"
		"  name: nic-cluster-policy\n"
		"spec:\n"
		"  ofedDriver:\n"
		"    repository: \"%s\"\n"
		"    image: doca-driver\n"
		"    version: \"%s\"\n"
		"    forcePrecompiled: %s\n",
		use->krel ? EVERY_KERNEL : "", operators_registry(use), version,
		use->krel ? "true" : "false");
}

/* The fields that both kinds of GPU policy have, each behind @indent blanks. */
static void write_driver_fields(FILE *file, const struct policy *policy, int indent)
{
	const struct image_use *use = policy->use;
	_cleanup_free_ char *version = image_driver_version(policy->images, use);
	const char *image = "driver";

	(void) fprintf(file,
		"%*susePrecompiled: %s\n"
		"%*srepository: \"%s\"\n"
		"%*simage: %s\n"
		"%*sversion: \"%s\"\n"
		"%*srdma:\n"
		"%*s  enabled: %s\n"
		"%*s  useHostMofed: %s\n",
		indent, "", use->krel ? "true" : "false", indent, "", operators_registry(use),
		indent, "", image, indent, "", version, indent, "", indent, "",
		use->rdma ? "true" : "false", indent, "", use->kernels_rdma ? "true" : "false");
}

static void write_addons(FILE *file, const struct image_use *use)
{
	for (size_t i = 0; i < use->addon_count; i++) {
		const struct image_addon *addon = &use->addons[i];
		_cleanup_free_ char *version = image_version_in_tag(addon->names->version);

		(void) fprintf(file,
			"  %s:\n"
			"    enabled: true\n"
			"    repository: \"%s\"\n"
			"    image: %s\n"
			"    version: \"%s\"\n",
			addon->values, operators_registry(use), addon->repository, version);
	}
}

static void write_cluster_policy(FILE *file, const struct policy *policy)
{
	(void) fprintf(file,
		"# A patch of the ClusterPolicy that the GPU operator's chart makes" MARK
		"# kubectl patch clusterpolicy cluster-policy --type merge \\\n"
		"#     --patch-file cluster-policy.patch.yaml\n"
		"%s"
		"spec:\n"
		"  driver:\n"
		"    enabled: true\n",
		policy->use->krel ? EVERY_KERNEL : "");
	write_driver_fields(file, policy, 4);
	write_addons(file, policy->use);
}

static bool has_addon(const struct image_use *use, const char *values)
{
	for (size_t i = 0; i < use->addon_count; i++)
		if (strcmp(use->addons[i].values, values) == 0)
			return true;
	return false;
}

/* A name of Kubernetes (RFC 1123) for nodes with this os-release. */
static char *object_name(const struct image_use *use)
{
	char *name = xasprintf("slipway-%s%s", use->os_id, use->os_version ? use->os_version : "");

	for (char *c = name; *c; c++)
		*c = isalnum((unsigned char) *c) || *c == '.' ? (char) tolower(*c) : '-';
	return name;
}

static void write_nvidia_driver(FILE *file, const struct policy *policy)
{
	const struct image_use *use = policy->use;
	_cleanup_free_ char *name = object_name(use);

	(void) fprintf(file,
		"# In place of cluster-policy.patch.yaml" MARK
		"# Where the GPU operator's chart was installed with\n"
		"# driver.nvidiaDriverCRD.enabled=true,driver.nvidiaDriverCRD.deployDefaultCR=false\n"
		"# (the chart's own object would select the same nodes):\n"
		"# kubectl apply -f nvidia-driver.yaml\n"
		"apiVersion: nvidia.com/v1alpha1\n"
		"kind: NVIDIADriver\n"
		"metadata:\n"
		"  name: %s\n"
		"spec:\n"
		"  driverType: gpu\n",
		name);
	/* Newer GDS asks for the open modules, and the operator for the field. */
	if (has_addon(use, "gds") && use->open_modules)
		(void) fputs("  kernelModuleType: open\n", file);
	write_driver_fields(file, policy, 2);
	write_addons(file, use);
	(void) fprintf(file,
		"  nodeSelector:           # no two NVIDIADrivers may select the same node\n"
		"    feature.node.kubernetes.io/system-os_release.ID: \"%s\"\n",
		use->os_id);
	if (use->os_version)
		(void) fprintf(file,
			"    feature.node.kubernetes.io/system-os_release.VERSION_ID: \"%s\"\n",
			use->os_version);
}

/* --- files --- */

static const struct policy_row {
	const char *file;
	const char *role; /* NULL: of all images */
	void (*write)(FILE *file, const struct policy *policy);
	const char *before, *after; /* the command that applies it, around its path */
} rows[] = {
	{ "push.sh", NULL, write_push, "sh ", "" },
	{ "nic-cluster-policy.yaml", "nic", write_nic,
		"kubectl patch nicclusterpolicy nic-cluster-policy --type merge --patch-file ",
		"   (apply -f, where there is none)" },
	{ "cluster-policy.patch.yaml", "gpu", write_cluster_policy,
		"kubectl patch clusterpolicy cluster-policy --type merge --patch-file ", "" },
	{ "nvidia-driver.yaml", "gpu", write_nvidia_driver, "kubectl apply -f ",
		"   (instead, with NVIDIADriver)" },
};

/* False: there is a file of this name that another hand made. */
static bool may_write(const char *path)
{
	_cleanup_free_ char *text = NULL;

	return fs_read(AT_FDCWD, path, 0, &text, NULL) < 0 || strstr(text, MARK);
}

/* Is there an image that an operator asks for, which the file is about? */
static bool applies(const struct policy_row *row, const struct image *images,
	const struct image_use *uses, size_t count, struct policy *policy)
{
	for (size_t i = 0; i < count; i++) {
		if (!image_is_proven(&images[i]) ||
			(row->role && strcmp(row->role, images[i].role) != 0))
			continue;
		policy->images = row->role ? &images[i] : images;
		policy->use = row->role ? &uses[i] : uses;
		policy->count = row->role ? 1 : count;
		return true;
	}
	return false;
}

int policies_ready(const char *output, struct error *error)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_free_ char *path = xasprintf("%s/%s", output, rows[i].file);

		if (may_write(path))
			continue;
		(void) error_set(error, -EEXIST,
			"--output: slipway did not write %s, and would replace it", path);
		return error_try(error, -EEXIST, "move it, or name another folder");
	}
	return 0;
}

int policies_place(const char *output, const struct image *images, size_t count,
	const struct image_use *uses, bool *changed, struct error *error)
{
	struct policy policy;
	int r = policies_ready(output, error);

	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_free_ char *path = xasprintf("%s/%s", output, rows[i].file);
		_cleanup_free_ char *text = NULL;
		size_t size;
		FILE *file;

		if (!applies(&rows[i], images, uses, count, &policy)) {
			if (unlink(path) < 0 && errno != ENOENT)
				return error_set_errno(error, -errno, "--output %s", path);
			continue;
		}
		file = open_memstream(&text, &size);
		if (!file)
			out_of_memory();
		rows[i].write(file, &policy);
		if (fclose(file) != 0)
			out_of_memory();
		r = image_place_text(path, text, changed, error);
		if (r < 0)
			return r;
	}
	return 0;
}

void policies_print(
	const char *output, const struct image *images, size_t count, const struct image_use *uses)
{
	bool named = uses->operators.registry;
	struct policy policy;

	if (!applies(&rows[0], images, uses, count, &policy))
		return;
	text_print(stdout, "To use them%s:\n",
		named ? ""
		      : ", with your registry in place of REGISTRY (--registry writes it into the "
			"files)");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		/* The first is push.sh. */
		if (applies(&rows[i], images, uses, count, &policy) &&
			(i > 0 || !images->pushed.count))
			text_print(stdout, "  %s%s/%s%s%s\n", rows[i].before, output, rows[i].file,
				i == 0 && !named ? " REGISTRY" : "", rows[i].after);
}
