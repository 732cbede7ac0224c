/* SPDX-License-Identifier: Apache-2.0 */
/* The nvidia-peermems of combined images: one for each interface that an OFED has. */
#include "cli/combine/combine_internal.h"

#include <stdio.h>
#include <string.h>

#include "cli/json.h"
#include "common/fs.h"
#include "common/xalloc.h"
#include "module/elf.h"
#include "module/running.h"

void combine_peermem_free(struct peermem *peermem)
{
	free(peermem->module);
	free(peermem->symvers);
	*peermem = (struct peermem){ 0 };
}

/* Do both fit the same OFEDs? Without versions only the OFED's own name counts. */
static bool is_same(const struct peermem *a, const struct peermem *b)
{
	if (strcmp(a->ofed_exporter, b->ofed_exporter) != 0 || strcmp(a->crc, b->crc) != 0)
		return false;
	return *a->crc || strcmp(a->ofed_version, b->ofed_version) == 0;
}

/* Reads what an OFED has to have for it. @folder: see take(). */
static int read_facts(const struct combine_input *input, const char *krel, const char *folder,
	struct peermem *peermem, struct error *error)
{
	_cleanup_(elf_module_close) struct elf_module *module = NULL;
	struct image_conf conf;
	uint32_t crc;
	int r;

	if (folder) {
		_cleanup_free_ char *path = xasprintf("%s/" KERNEL_FACTS_PEERMEM_CONF, folder);
		_cleanup_free_ char *text = NULL;

		r = fs_read(input->image.fd, path, 0, &text, NULL);
		if (r < 0)
			return error_set_errno(error, r, "%s: %s", input->image.name, path);
		/* These two of image.conf's keys are in it. */
		image_conf_parse(text, &conf);
	} else {
		verify_input_conf(&input->image, krel, &conf);
	}
	memcpy(peermem->ofed_version, conf.ofed_version, sizeof(peermem->ofed_version));
	memcpy(peermem->ofed_exporter, conf.ofed_exporter, sizeof(peermem->ofed_exporter));
	/* The interface that it demands, of the module itself: a text beside it could be another's.
	 */
	r = elf_module_open(input->image.fd, peermem->module, &module, error);
	if (r < 0)
		return error_prefix(error, r, "%s", input->image.name);
	if (elf_module_version(module, PEERMEM_SYMBOL, &crc))
		(void) snprintf(peermem->crc, sizeof(peermem->crc), "0x%08x", crc);
	return 0;
}

/*
 * Takes the one below @folder; NULL is the one that lies with the other modules, if there is one.
 * One of the same interface stays alone.
 */
static int take(const struct combine *combine, struct combine_kernel *kernel,
	const struct combine_input *input, const char *folder, struct error *error)
{
	_cleanup_free_ char *facts = xasprintf(KERNEL_FACTS_FOLDER "/%s", kernel->krel);
	_cleanup_free_ char *installed =
		xasprintf("usr/lib/modules/%s/updates/nvidia", kernel->krel);
	_cleanup_(combine_peermem_free) struct peermem peermem = {
		.input = input,
		.module = xasprintf("%s/" KERNEL_FACTS_PEERMEM_MODULE, folder ? folder : installed),
		.symvers = xasprintf("%s/" KERNEL_FACTS_OFED, folder ? folder : facts),
	};
	int r;

	if (!folder && !fs_exists(input->image.fd, peermem.module))
		return 0;
	r = read_facts(input, kernel->krel, folder, &peermem, error);
	if (r < 0)
		return r;
	for (size_t i = 0; i < kernel->peermem_count; i++) {
		const struct peermem *kept = &kernel->peermems[i];
		_cleanup_free_ char *note = NULL;

		if (!is_same(kept, &peermem))
			continue;
		note = xasprintf(
			"%s: its nvidia-peermem for %s (OFED %s) is left out: that of %s fits the same "
			"interface of %s",
			input->image.name, kernel->krel, peermem.ofed_version,
			kept->input->image.name,
			*kept->ofed_exporter ? kept->ofed_exporter : "the kernel");
		if (input != kept->input)
			progress_note(&combine->context->progress, note);
		return 0;
	}
	if (kernel->peermem_count == COMBINE_MAX)
		return error_set(error, -EINVAL, "%s: more than %d nvidia-peermems for %s",
			input->image.name, COMBINE_MAX, kernel->krel);
	/* An image that was built without an OFED has no peermem to begin with. */
	if (kernel->peermem_count == 0)
		kernel->from = input;
	kernel->peermems[kernel->peermem_count++] = peermem;
	peermem = (struct peermem){ 0 };
	return 0;
}

int combine_add_peermems(struct combine *combine, struct combine_kernel *kernel,
	const struct combine_input *input, struct error *error)
{
	_cleanup_free_ char *folder =
		xasprintf(KERNEL_FACTS_FOLDER "/%s/" KERNEL_FACTS_PEERMEM, kernel->krel);
	_cleanup_strv_ struct strv names = { 0 };
	int r = fs_list(input->image.fd, folder, &names);

	if (r == -ENOENT)
		return take(combine, kernel, input, NULL, error);
	if (r < 0)
		return error_set_errno(error, r, "%s: %s", input->image.name, folder);
	/* "0", which is installed, first; there are fewer than ten of them in any image so far. */
	for (size_t i = 0; i < names.count; i++) {
		_cleanup_free_ char *below = xasprintf("%s/%s", folder, names.items[i]);

		r = take(combine, kernel, input, below, error);
		if (r < 0)
			return r;
	}
	return 0;
}

void combine_stage_peermem(const struct peermem *peermem, const char *folder, struct staging *root)
{
	const char *from = peermem->input->image.folder;
	_cleanup_free_ char *module = xasprintf("%s/" KERNEL_FACTS_PEERMEM_MODULE, folder);
	_cleanup_free_ char *symvers = xasprintf("%s/" KERNEL_FACTS_OFED, folder);
	_cleanup_free_ char *conf = xasprintf("%s/" KERNEL_FACTS_PEERMEM_CONF, folder);
	_cleanup_strv_ struct strv lines = { 0 };

	staging_copy(root, module, "%s/%s", from, peermem->module);
	staging_copy_found(root, symvers, "%s/%s", from, peermem->symvers);
	xstrv_pushf(&lines, "ofed_version=%s", peermem->ofed_version);
	xstrv_pushf(&lines, "ofed_exporter=%s", peermem->ofed_exporter);
	xstrv_pushf(&lines, "crc=%s", peermem->crc);
	staging_write_lines(root, conf, &lines);
}
