/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <string.h>

#include "cli/combine/combine.h"
#include "common/fs.h"
#include "module/elf.h"
#include "module/kernel_facts.h"

static void peermem_free(struct combine_peermem *peermem)
{
	free(peermem->module);
	free(peermem->symvers);
	*peermem = (struct combine_peermem){ 0 };
}

/* The interface that it demands, of the module itself: a text beside it could be another's. */
static int read_crc(struct combine_peermem *peermem, struct error *error)
{
	_cleanup_(elf_module_close) struct elf_module *module = NULL;
	uint32_t crc;
	int r = elf_module_open(peermem->input->fd, peermem->module, &module, error);

	if (r < 0)
		return error_prefix(error, r, "%s", peermem->input->name);
	if (elf_module_version(module, PEERMEM_SYMBOL, &crc))
		(void) snprintf(peermem->crc, sizeof(peermem->crc), "0x%08x", crc);
	return 0;
}

/* Do both fit the same OFEDs? Without versions only the OFED's own name can tell. */
static bool is_same(const struct combine_peermem *a, const struct combine_peermem *b)
{
	if (strcmp(a->ofed_exporter, b->ofed_exporter) != 0 || strcmp(a->crc, b->crc) != 0)
		return false;
	return *a->crc || strcmp(a->ofed_version, b->ofed_version) == 0;
}

static void note_left_out(const struct combine *combine, const char *krel,
	const struct combine_peermem *left, const struct combine_peermem *kept)
{
	_cleanup_free_ char *text = NULL;

	if (left->input == kept->input ||
		asprintf(&text,
			"%s: its nvidia-peermem for %s (OFED %s) is left out: that of %s fits the same "
			"interface of %s",
			left->input->name, krel, left->ofed_version, kept->input->name,
			*kept->ofed_exporter ? kept->ofed_exporter : "the kernel") < 0)
		return;
	progress_note(&combine->context->progress, text);
}

/* Takes @peermem over, or frees it. */
static int take(const struct combine *combine, struct combine_kernel *kernel,
	struct combine_peermem *peermem, struct error *error)
{
	int r = read_crc(peermem, error);

	for (size_t i = 0; i < kernel->peermem_count && r == 0; i++) {
		if (!is_same(&kernel->peermems[i], peermem))
			continue;
		note_left_out(combine, kernel->krel, peermem, &kernel->peermems[i]);
		peermem_free(peermem);
		return 0;
	}
	if (r == 0 && kernel->peermem_count == COMBINE_MAX)
		r = error_set(error, -EINVAL, "%s: more than %d nvidia-peermems for %s",
			peermem->input->name, COMBINE_MAX, kernel->krel);
	if (r == 0)
		kernel->peermems[kernel->peermem_count++] = *peermem;
	else
		peermem_free(peermem);
	return r;
}

/* One of several: it has a folder of its own. */
static int take_folder(const struct combine *combine, struct combine_kernel *kernel,
	const struct combine_input *input, const char *folder, struct error *error)
{
	struct combine_peermem peermem = { .input = input };
	_cleanup_free_ char *conf = NULL;
	_cleanup_free_ char *text = NULL;
	int r;

	if (asprintf(&conf, "%s/" KERNEL_FACTS_PEERMEM_CONF, folder) < 0 ||
		asprintf(&peermem.module, "%s/" KERNEL_FACTS_PEERMEM_MODULE, folder) < 0 ||
		asprintf(&peermem.symvers, "%s/" KERNEL_FACTS_OFED, folder) < 0) {
		peermem_free(&peermem);
		return error_set_errno(error, -ENOMEM, "%s", folder);
	}
	r = fs_read(input->fd, conf, 0, &text, NULL);
	if (r < 0) {
		peermem_free(&peermem);
		return error_set_errno(error, r, "%s: %s", input->name, conf);
	}
	kernel_facts_value(
		text, "ofed_version", peermem.ofed_version, sizeof(peermem.ofed_version));
	kernel_facts_value(
		text, "ofed_exporter", peermem.ofed_exporter, sizeof(peermem.ofed_exporter));
	return take(combine, kernel, &peermem, error);
}

/* The only one: it lies with the other modules. */
static int take_installed(const struct combine *combine, struct combine_kernel *kernel,
	const struct combine_input *input, struct error *error)
{
	struct combine_peermem peermem = { .input = input };

	if (asprintf(&peermem.module,
		    "usr/lib/modules/%s/updates/nvidia/" KERNEL_FACTS_PEERMEM_MODULE,
		    kernel->krel) < 0 ||
		asprintf(&peermem.symvers, KERNEL_FACTS_FOLDER "/%s/" KERNEL_FACTS_OFED,
			kernel->krel) < 0) {
		peermem_free(&peermem);
		return error_set_errno(error, -ENOMEM, "%s", input->name);
	}
	if (!fs_exists(input->fd, peermem.module)) {
		peermem_free(&peermem);
		return 0;
	}
	combine_input_value(input, kernel->krel, "ofed_version", peermem.ofed_version,
		sizeof(peermem.ofed_version));
	combine_input_value(input, kernel->krel, "ofed_exporter", peermem.ofed_exporter,
		sizeof(peermem.ofed_exporter));
	return take(combine, kernel, &peermem, error);
}

int combine_add_peermems(struct combine *combine, struct combine_kernel *kernel,
	const struct combine_input *input, struct error *error)
{
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *folder = NULL;
	int r;

	if (asprintf(&folder, KERNEL_FACTS_FOLDER "/%s/" KERNEL_FACTS_PEERMEM, kernel->krel) < 0)
		return error_set_errno(error, -ENOMEM, "%s", kernel->krel);
	r = fs_list(input->fd, folder, &names);
	if (r == -ENOENT)
		return take_installed(combine, kernel, input, error);
	if (r < 0)
		return error_set_errno(error, r, "%s: %s", input->name, folder);
	/* "0", which is installed, first; there are fewer than ten of them in any image so far. */
	strv_sort(&names);
	for (size_t i = 0; i < names.count && r == 0; i++) {
		_cleanup_free_ char *below = NULL;

		r = asprintf(&below, "%s/%s", folder, names.items[i]) < 0
			    ? error_set_errno(error, -ENOMEM, "%s", folder)
			    : take_folder(combine, kernel, input, below, error);
	}
	return r;
}
