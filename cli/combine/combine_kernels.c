/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli/combine/combine.h"
#include "common/fs.h"
#include "kernels/tree/depends.h"
#include "module/kernel_facts.h"

static int check_input(
	const struct combine *combine, const struct combine_input *input, struct error *error)
{
	const struct combine_input *first = &combine->inputs[0];

	if (strcmp(input->version, first->version) != 0)
		return error_set(error, -EINVAL,
			"%s has driver %s, %s has %s: one image holds one version of the driver, for "
			"the userspace in it is of just one",
			input->name, input->version, first->name, first->version);
	if (fs_exists(input->fd, COMBINE_KIT) && !fs_exists(first->fd, COMBINE_KIT))
		return error_set(error, -EINVAL,
			"%s can compile on a node and %s cannot: name it first, for the new image "
			"starts from the first",
			input->name, first->name);
	if (strcmp(input->os, first->os) != 0)
		return error_set(error, -EINVAL,
			"%s is for %s, %s for %s: the operator asks for an image by the "
			"distribution of the node",
			input->name, input->os, first->name, first->os);
	return 0;
}

static struct combine_kernel *find_kernel(struct combine *combine, const char *krel)
{
	for (size_t i = 0; i < combine->kernel_count; i++)
		if (strcmp(combine->kernels[i].krel, krel) == 0)
			return &combine->kernels[i];
	return NULL;
}

static int add_kernel(struct combine *combine, const struct combine_input *input, const char *krel,
	struct error *error)
{
	struct combine_kernel *kernel = find_kernel(combine, krel);

	if (!kernel && combine->kernel_count == COMBINE_MAX)
		return error_set(error, -EINVAL, "more than %d kernels in one image", COMBINE_MAX);
	if (!kernel) {
		kernel = &combine->kernels[combine->kernel_count];
		kernel->krel = strdup(krel);
		if (!kernel->krel)
			return error_set_errno(error, -ENOMEM, "%s", krel);
		combine->kernel_count++;
	}
	kernel->inputs[kernel->input_count++] = input;
	return 0;
}

/* Their names and a digest of each, but of nvidia-peermem, which is another for each OFED. */
static int list_modules(const struct combine_input *input, const char *krel, struct strv *lines,
	struct error *error)
{
	_cleanup_strv_ struct strv paths = { 0 };
	_cleanup_free_ char *folder = NULL;
	int r;

	if (asprintf(&folder, "usr/lib/modules/%s/updates", krel) < 0)
		return error_set_errno(error, -ENOMEM, "%s", krel);
	r = depends_list_modules(input->fd, folder, &paths);
	for (size_t i = 0; i < paths.count && r == 0; i++) {
		const char *path = paths.items[i];
		const char *name = strrchr(path, '/') + 1;
		char digest[HASH_HEX_SIZE];

		if (strcmp(name, KERNEL_FACTS_PEERMEM_MODULE) == 0)
			continue;
		r = image_set_id(input->fd, path, digest);
		if (r == 0)
			r = strv_pushf(lines, "%s %s", name, digest);
	}
	strv_sort(lines);
	return r < 0 ? error_set_errno(error, r, "%s: %s", input->name, folder) : 0;
}

static int same_modules(
	const struct combine_kernel *kernel, const struct combine_input *other, struct error *error)
{
	_cleanup_strv_ struct strv ours = { 0 };
	_cleanup_strv_ struct strv theirs = { 0 };
	const struct combine_input *first = kernel->inputs[0];
	int r = list_modules(first, kernel->krel, &ours, error);

	if (r == 0)
		r = list_modules(other, kernel->krel, &theirs, error);
	if (r < 0)
		return r;
	for (size_t i = 0; i < ours.count || i < theirs.count; i++) {
		const char *a = i < ours.count ? ours.items[i] : "~";
		const char *b = i < theirs.count ? theirs.items[i] : "~";
		const char *odd = strcmp(a, b) < 0 ? a : b;

		if (strcmp(a, b) == 0)
			continue;
		return error_set(error, -EINVAL,
			"%s and %s both are for %s, and their modules differ beside nvidia-peermem: "
			"%.*s. Build both with the same options, of the same sources",
			first->name, other->name, kernel->krel, (int) strcspn(odd, " "), odd);
	}
	return 0;
}

static int proof_rank(const char *proof)
{
	return strcmp(proof, "holds") == 0 ? 0 : strcmp(proof, "will-not-load") == 0 ? 2 : 1;
}

static void take_proof(struct combine_kernel *kernel, const struct combine_input *input)
{
	char proof[sizeof(kernel->proof)];

	combine_input_value(input, kernel->krel, "proof", proof, sizeof(proof));
	if (!*proof)
		(void) snprintf(proof, sizeof(proof), "cannot-tell");
	if (!*kernel->proof || proof_rank(proof) > proof_rank(kernel->proof))
		(void) snprintf(kernel->proof, sizeof(kernel->proof), "%s", proof);
}

static int settle_kernel(
	struct combine *combine, struct combine_kernel *kernel, struct error *error)
{
	int r = 0;

	kernel->from = kernel->inputs[0];
	for (size_t i = 0; i < kernel->input_count && r == 0; i++) {
		take_proof(kernel, kernel->inputs[i]);
		if (i > 0)
			r = same_modules(kernel, kernel->inputs[i], error);
		if (r == 0)
			r = combine_add_peermems(combine, kernel, kernel->inputs[i], error);
	}
	if (r < 0)
		return r;
	/* An image that was built without an OFED has none to begin with. */
	if (kernel->peermem_count)
		kernel->from = kernel->peermems[0].input;
	combine_input_value(kernel->from, kernel->krel, "set", kernel->set, sizeof(kernel->set));
	return 0;
}

int combine_kernels(struct combine *combine, struct error *error)
{
	int r = 0;

	combine->kernels = calloc(COMBINE_MAX, sizeof(*combine->kernels));
	if (!combine->kernels)
		return error_set_errno(error, -ENOMEM, "combine");
	combine->kernel_count = 0;
	for (size_t i = 0; i < combine->input_count && r == 0; i++) {
		const struct combine_input *input = &combine->inputs[i];

		r = check_input(combine, input, error);
		for (size_t j = 0; j < input->krels.count && r == 0; j++)
			r = add_kernel(combine, input, input->krels.items[j], error);
	}
	for (size_t i = 0; i < combine->kernel_count && r == 0; i++)
		r = settle_kernel(combine, &combine->kernels[i], error);
	return r;
}

static void kernel_free(struct combine_kernel *kernel)
{
	for (size_t i = 0; i < kernel->peermem_count; i++) {
		free(kernel->peermems[i].module);
		free(kernel->peermems[i].symvers);
	}
	free(kernel->krel);
}

void combine_close(struct combine *combine)
{
	for (size_t i = 0; i < combine->kernel_count; i++)
		kernel_free(&combine->kernels[i]);
	free(combine->kernels);
	for (size_t i = 0; i < combine->input_count; i++)
		combine_input_close(&combine->inputs[i]);
	free(combine->inputs);
	*combine = (struct combine){ 0 };
}
