/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <string.h>

#include "cli/combine/combine.h"
#include "common/fs.h"
#include "common/copy.h"
#include "module/kernel_facts.h"

static int copy(const struct combine_input *input, const char *from, int root_fd, const char *to,
	struct error *error)
{
	int r = copy_tree(input->fd, from, root_fd, to);

	return r < 0 ? error_set_errno(error, r, "%s: %s", input->name, from) : 0;
}

static int write_lines(int root_fd, const char *path, const struct strv *lines, struct error *error)
{
	_cleanup_free_ char *joined = strv_join(lines, "\n");
	_cleanup_free_ char *text = NULL;
	int r;

	if (!joined || asprintf(&text, "%s\n", joined) < 0)
		return error_set_errno(error, -ENOMEM, "%s", path);
	/* What lies there may be a link into an image's folder: it is replaced, not written to. */
	r = fs_write_atomic(root_fd, path, text, strlen(text), 0644);
	return r < 0 ? error_set_errno(error, r, "%s", path) : 0;
}

/* The kernel's modules, and what is known of it; the peermems come after it. */
static int stage_trees(const struct combine *combine, const struct combine_kernel *kernel,
	int root_fd, struct error *error)
{
	_cleanup_free_ char *modules = NULL;
	_cleanup_free_ char *facts = NULL;
	_cleanup_free_ char *symvers = NULL;
	_cleanup_free_ char *kept = NULL;
	int r = 0;

	if (asprintf(&modules, "usr/lib/modules/%s", kernel->krel) < 0 ||
		asprintf(&facts, KERNEL_FACTS_FOLDER "/%s", kernel->krel) < 0 ||
		asprintf(&symvers, "usr/src/nvidia-%s/Module.symvers", kernel->from->version) < 0 ||
		asprintf(&kept, "%s/" KERNEL_FACTS_NVIDIA, facts) < 0)
		return error_set_errno(error, -ENOMEM, "%s", kernel->krel);
	/* The first image's layers have its own. */
	if (kernel->from != &combine->inputs[0])
		r = copy(kernel->from, modules, root_fd, modules, error);
	if (r == 0)
		r = copy(kernel->from, facts, root_fd, facts, error);
	/* An image of several kernels has them kept already; the one in usr/src is of its first. */
	if (r == 0 && !fs_exists(root_fd, kept) && fs_exists(kernel->from->fd, symvers))
		r = copy(kernel->from, symvers, root_fd, kept, error);
	return r;
}

static int stage_peermem(
	const struct combine_peermem *peermem, int root_fd, const char *folder, struct error *error)
{
	_cleanup_strv_ struct strv lines = { 0 };
	_cleanup_free_ char *module = NULL;
	_cleanup_free_ char *symvers = NULL;
	_cleanup_free_ char *conf = NULL;
	int r;

	if (asprintf(&module, "%s/" KERNEL_FACTS_PEERMEM_MODULE, folder) < 0 ||
		asprintf(&symvers, "%s/" KERNEL_FACTS_OFED, folder) < 0 ||
		asprintf(&conf, "%s/" KERNEL_FACTS_PEERMEM_CONF, folder) < 0 ||
		strv_pushf(&lines, "ofed_version=%s", peermem->ofed_version) < 0 ||
		strv_pushf(&lines, "ofed_exporter=%s", peermem->ofed_exporter) < 0 ||
		strv_pushf(&lines, "crc=%s", peermem->crc) < 0)
		return error_set_errno(error, -ENOMEM, "%s", folder);
	r = copy(peermem->input, peermem->module, root_fd, module, error);
	if (r == 0 && fs_exists(peermem->input->fd, peermem->symvers))
		r = copy(peermem->input, peermem->symvers, root_fd, symvers, error);
	return r < 0 ? r : write_lines(root_fd, conf, &lines, error);
}

static int stage_peermems(const struct combine_kernel *kernel, int root_fd, struct error *error)
{
	int r = 0;

	for (size_t i = 0; i < kernel->peermem_count && kernel->peermem_count > 1 && r == 0; i++) {
		_cleanup_free_ char *folder = NULL;

		r = asprintf(&folder, KERNEL_FACTS_FOLDER "/%s/" KERNEL_FACTS_PEERMEM "/%zu",
			    kernel->krel, i) < 0
			    ? error_set_errno(error, -ENOMEM, "%s", kernel->krel)
			    : stage_peermem(&kernel->peermems[i], root_fd, folder, error);
	}
	return r;
}

/* Its own lines, but for the verdict: that of a kernel is the worst of all images that have it. */
static int stage_kernel_conf(const struct combine_kernel *kernel, int root_fd, struct error *error)
{
	static const char *const keys[] = { "role", "version", "os", "krel", "set", "ofed_exporter",
		"ofed_version", "signed_by", "signed_key" };
	_cleanup_strv_ struct strv lines = { 0 };
	_cleanup_free_ char *path = NULL;
	char value[256];
	int r = asprintf(&path, KERNEL_FACTS_FOLDER "/%s/" KERNEL_FACTS_IMAGE, kernel->krel) < 0
			? -ENOMEM
			: 0;

	for (size_t i = 0; i < ARRAY_SIZE(keys) && r == 0; i++) {
		combine_input_value(kernel->from, kernel->krel, keys[i], value, sizeof(value));
		if (*value)
			r = strv_pushf(&lines, "%s=%s", keys[i], value);
	}
	if (r == 0)
		r = strv_pushf(&lines, "proof=%s", kernel->proof);
	return r < 0 ? error_set_errno(error, r, "%s", kernel->krel)
		     : write_lines(root_fd, path, &lines, error);
}

const char *combine_proof(const struct combine *combine)
{
	const char *worst = "holds";

	for (size_t i = 0; i < combine->kernel_count; i++) {
		const char *proof = combine->kernels[i].proof;

		if (strcmp(proof, "will-not-load") == 0 || strcmp(worst, "holds") == 0)
			worst = proof;
	}
	return worst;
}

static int stage_conf(const struct combine *combine, int root_fd, struct error *error)
{
	const struct combine_input *first = &combine->inputs[0];
	_cleanup_strv_ struct strv lines = { 0 };
	_cleanup_strv_ struct strv krels = { 0 };
	_cleanup_free_ char *joined = NULL;
	int r = 0;

	for (size_t i = 0; i < combine->kernel_count && r == 0; i++)
		r = strv_push(&krels, combine->kernels[i].krel);
	joined = strv_join(&krels, " ");
	if (r < 0 || !joined || strv_push(&lines, "role=gpu") < 0 ||
		strv_pushf(&lines, "version=%s", first->version) < 0 ||
		strv_pushf(&lines, "os=%s", first->os) < 0 ||
		strv_pushf(&lines, "krel=%s", joined) < 0 ||
		strv_pushf(&lines, "proof=%s", combine_proof(combine)) < 0)
		return error_set_errno(error, -ENOMEM, "image.conf");
	r = fs_mkdir_parents(root_fd, "etc/slipway", 0755);
	return r < 0 ? error_set_errno(error, r, "etc/slipway")
		     : write_lines(root_fd, IMAGE_CONF, &lines, error);
}

int combine_stage(const struct combine *combine, int root_fd, struct error *error)
{
	int r = 0;

	for (size_t i = 0; i < combine->kernel_count && r == 0; i++) {
		const struct combine_kernel *kernel = &combine->kernels[i];

		r = stage_trees(combine, kernel, root_fd, error);
		if (r == 0)
			r = stage_peermems(kernel, root_fd, error);
		if (r == 0)
			r = stage_kernel_conf(kernel, root_fd, error);
	}
	return r < 0 ? r : stage_conf(combine, root_fd, error);
}
