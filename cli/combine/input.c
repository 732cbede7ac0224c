/* SPDX-License-Identifier: Apache-2.0 */
/* What the images have: their kernels, and the nvidia-peermems of each. */
#include "cli/combine/combine.h"

#include <fcntl.h>
#include <string.h>

#include "cli/image/buildah.h"
#include "common/fs.h"
#include "common/xalloc.h"
#include "kernels/krel.h"
#include "kernels/local/image.h"
#include "kernels/tree/depends.h"
#include "module/elf.h"
#include "module/kernel_facts.h"

#define CONF_LIMIT 65536

/* All that differs between two GPU images of one driver version. */
static bool is_wanted(void *context, const char *path)
{
	static const char *const folders[] = { "usr/lib/modules/", KERNEL_FACTS_FOLDER "/" };
	const char *slash = strrchr(path, '/');

	(void) context;
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++)
		if (strncmp(path, folders[i], strlen(folders[i])) == 0)
			return true;
	return strcmp(path, IMAGE_CONF) == 0 || strcmp(path, COMBINE_KIT) == 0 ||
	       (strncmp(path, "usr/src/nvidia-", 15) == 0 && slash &&
		       strcmp(slash, "/Module.symvers") == 0);
}

static int unpack_file(
	const char *path, bool archive, const struct combine_input *input, struct error *error)
{
	const struct unpack unpack = { .folder = input->folder, .wanted = is_wanted };
	_cleanup_(local_image_free) struct local_image image = { 0 };
	int r = local_image_open(path, archive, &image, error);

	if (r == 0)
		r = local_image_unpack(&image, &unpack, error);
	return r == -ENOENT ? error_prefix(error, -EBADMSG, "%s: no whole image", input->name) : r;
}

static int unpack_stored(const struct combine_input *input, struct error *error)
{
	_cleanup_free_ char *id = buildah_image_id(input->what.place);
	_cleanup_free_ char *path = NULL;
	int r;

	if (!id)
		return error_set(error, -EINVAL,
			"%s: neither a file or folder nor an image in containers-storage: buildah "
			"images lists those",
			input->name);
	path = xasprintf("%s.oci.tar", input->folder);
	r = buildah_save(id, path, error);
	if (r == 0)
		r = unpack_file(path, true, input, error);
	(void) unlink(path);
	return r;
}

static int unpack_any(const struct combine_input *input, struct error *error)
{
	switch (input->what.kind) {
	case VERIFY_STORAGE:
		return unpack_stored(input, error);
	case VERIFY_ARCHIVE:
	case VERIFY_LAYOUT:
		return unpack_file(
			input->what.place, input->what.kind == VERIFY_ARCHIVE, input, error);
	default:
		return error_set(error, -EINVAL,
			"%s: an image is wanted: its archive, its layout or its name in "
			"containers-storage",
			input->name);
	}
}

void combine_input_value(const struct combine_input *input, const char *krel, const char *key,
	char *value, size_t size)
{
	_cleanup_free_ char *path =
		xasprintf(KERNEL_FACTS_FOLDER "/%s/" KERNEL_FACTS_IMAGE, krel ? krel : "");
	_cleanup_free_ char *text = NULL;
	/* An image from before they had one for each kernel has one for all. */
	bool own = krel && fs_exists(input->fd, path);

	*value = '\0';
	if (fs_read(input->fd, own ? path : IMAGE_CONF, CONF_LIMIT, &text, NULL) == 0)
		kernel_facts_value(text, key, value, size);
}

/* They become parts of paths. */
static int read_krels(struct combine_input *input, const char *text, struct error *error)
{
	_cleanup_strv_ struct strv krels = { 0 };

	xstrv_split(&krels, text, " ");
	for (size_t i = 0; i < krels.count; i++) {
		if (!krel_is_valid(krels.items[i]))
			return error_set(error, -EINVAL, "%s: no kernel release can be '%s'",
				input->name, krels.items[i]);
		xstrv_push_unique(&input->krels, krels.items[i]);
	}
	return 0;
}

static int read_conf(struct combine_input *input, struct error *error)
{
	char krels[4096];
	int r;

	combine_input_value(input, NULL, "role", input->role, sizeof(input->role));
	combine_input_value(input, NULL, "version", input->version, sizeof(input->version));
	combine_input_value(input, NULL, "os", input->os, sizeof(input->os));
	combine_input_value(input, NULL, "krel", krels, sizeof(krels));
	if (!*input->role)
		return error_set(error, -EINVAL,
			"%s: it has no /" IMAGE_CONF ": only images that slipway build made can be "
			"combined",
			input->name);
	if (strcmp(input->role, "gpu") != 0)
		return error_set(error, -EINVAL,
			"%s: it is a %s image: GPU images are combined, a NIC image is for one "
			"kernel and OFED",
			input->name, input->role);
	r = read_krels(input, krels, error);
	if (r < 0)
		return r;
	return input->krels.count && *input->version && *input->os
		       ? 0
		       : error_set(error, -EINVAL,
				 "%s: its /" IMAGE_CONF " has no version, os or krel", input->name);
}

int combine_input_open(struct combine_input *input, struct context *context, struct error *error)
{
	_cleanup_free_ char *template = NULL;
	int r = verify_input_identify(input->name, &input->what, error);

	if (r < 0)
		return r;
	template = xasprintf("%s/combine-XXXXXX", context->cache.run_path);
	if (!mkdtemp(template))
		return error_set_errno(error, -errno, "%s", context->cache.run_path);
	input->folder = TAKE_PTR(template);
	progress_step(&context->progress, input->name);
	r = unpack_any(input, error);
	if (r < 0)
		return r;
	input->fd = open(input->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (input->fd < 0)
		return error_set_errno(error, -errno, "%s", input->folder);
	return read_conf(input, error);
}

static void combine_input_close(struct combine_input *input)
{
	cleanup_close(&input->fd);
	free(input->folder);
	verify_input_close(&input->what);
	strv_free(&input->krels);
	*input = (struct combine_input){ .fd = -1 };
}

/* ---- nvidia-peermem */

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

	if (left->input == kept->input)
		return;
	text = xasprintf(
		"%s: its nvidia-peermem for %s (OFED %s) is left out: that of %s fits the same "
		"interface of %s",
		left->input->name, krel, left->ofed_version, kept->input->name,
		*kept->ofed_exporter ? kept->ofed_exporter : "the kernel");
	progress_note(&combine->context->progress, text);
}

/* Takes @peermem over (it is empty then), unless one of the same interface is there. */
static int take(const struct combine *combine, struct combine_kernel *kernel,
	struct combine_peermem *peermem, struct error *error)
{
	int r = read_crc(peermem, error);

	if (r < 0)
		return r;
	for (size_t i = 0; i < kernel->peermem_count; i++)
		if (is_same(&kernel->peermems[i], peermem)) {
			note_left_out(combine, kernel->krel, peermem, &kernel->peermems[i]);
			return 0;
		}
	if (kernel->peermem_count == COMBINE_MAX)
		return error_set(error, -EINVAL, "%s: more than %d nvidia-peermems for %s",
			peermem->input->name, COMBINE_MAX, kernel->krel);
	kernel->peermems[kernel->peermem_count++] = *peermem;
	*peermem = (struct combine_peermem){ 0 };
	return 0;
}

/* One of several: it has a folder of its own. */
static int take_folder(const struct combine *combine, struct combine_kernel *kernel,
	const struct combine_input *input, const char *folder, struct error *error)
{
	_cleanup_(peermem_free) struct combine_peermem peermem = {
		.input = input,
		.module = xasprintf("%s/" KERNEL_FACTS_PEERMEM_MODULE, folder),
		.symvers = xasprintf("%s/" KERNEL_FACTS_OFED, folder),
	};
	_cleanup_free_ char *conf = xasprintf("%s/" KERNEL_FACTS_PEERMEM_CONF, folder);
	_cleanup_free_ char *text = NULL;
	int r = fs_read(input->fd, conf, 0, &text, NULL);

	if (r < 0)
		return error_set_errno(error, r, "%s: %s", input->name, conf);
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
	_cleanup_(peermem_free) struct combine_peermem peermem = {
		.input = input,
		.module =
			xasprintf("usr/lib/modules/%s/updates/nvidia/" KERNEL_FACTS_PEERMEM_MODULE,
				kernel->krel),
		.symvers = xasprintf(KERNEL_FACTS_FOLDER "/%s/" KERNEL_FACTS_OFED, kernel->krel),
	};

	if (!fs_exists(input->fd, peermem.module))
		return 0;
	combine_input_value(input, kernel->krel, "ofed_version", peermem.ofed_version,
		sizeof(peermem.ofed_version));
	combine_input_value(input, kernel->krel, "ofed_exporter", peermem.ofed_exporter,
		sizeof(peermem.ofed_exporter));
	return take(combine, kernel, &peermem, error);
}

/* Appends those that @input has for the kernel, one of each interface. */
static int add_peermems(struct combine *combine, struct combine_kernel *kernel,
	const struct combine_input *input, struct error *error)
{
	_cleanup_free_ char *folder =
		xasprintf(KERNEL_FACTS_FOLDER "/%s/" KERNEL_FACTS_PEERMEM, kernel->krel);
	_cleanup_strv_ struct strv names = { 0 };
	int r = fs_list(input->fd, folder, &names);

	if (r == -ENOENT)
		return take_installed(combine, kernel, input, error);
	if (r < 0)
		return error_set_errno(error, r, "%s: %s", input->name, folder);
	/* "0", which is installed, first; there are fewer than ten of them in any image so far. */
	strv_sort(&names);
	for (size_t i = 0; i < names.count && r == 0; i++) {
		_cleanup_free_ char *below = xasprintf("%s/%s", folder, names.items[i]);

		r = take_folder(combine, kernel, input, below, error);
	}
	return r;
}

/* ---- kernels */

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
		kernel = &combine->kernels[combine->kernel_count++];
		kernel->krel = xstrdup(krel);
	}
	kernel->inputs[kernel->input_count++] = input;
	return 0;
}

/* Their names and a digest of each, but of nvidia-peermem, which is another for each OFED. */
static int list_modules(const struct combine_input *input, const char *krel, struct strv *lines,
	struct error *error)
{
	_cleanup_strv_ struct strv paths = { 0 };
	_cleanup_free_ char *folder = xasprintf("usr/lib/modules/%s/updates", krel);
	int r = depends_list_modules(input->fd, folder, &paths);

	for (size_t i = 0; i < paths.count && r == 0; i++) {
		const char *path = paths.items[i];
		const char *name = strrchr(path, '/') + 1;
		char digest[HASH_HEX_SIZE];

		if (strcmp(name, KERNEL_FACTS_PEERMEM_MODULE) == 0)
			continue;
		r = image_set_id(input->fd, path, digest);
		if (r == 0)
			xstrv_pushf(lines, "%s %s", name, digest);
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
			r = add_peermems(combine, kernel, kernel->inputs[i], error);
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

	combine->kernels = xcalloc(COMBINE_MAX, sizeof(*combine->kernels));
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

void combine_close(struct combine *combine)
{
	for (size_t i = 0; i < combine->kernel_count; i++) {
		for (size_t j = 0; j < combine->kernels[i].peermem_count; j++)
			peermem_free(&combine->kernels[i].peermems[j]);
		free(combine->kernels[i].krel);
	}
	free(combine->kernels);
	for (size_t i = 0; i < combine->input_count; i++)
		combine_input_close(&combine->inputs[i]);
	free(combine->inputs);
	*combine = (struct combine){ 0 };
}
