/* SPDX-License-Identifier: Apache-2.0 */
/* The images that are combined, and the kernels that they have modules for. */
#include "cli/combine/combine_internal.h"

#include <string.h>

#include "cli/image/output_place.h"
#include "cli/verify/verify.h"
#include "common/arch.h"
#include "common/fs.h"
#include "common/xalloc.h"
#include "kernels/krel.h"
#include "kernels/local/local_image.h"
#include "kernels/tree/depends.h"
#include "module/elf.h"
#include "module/running.h"

/* ---- the images */

/* All that differs between two images of one driver version. */
static bool is_wanted(void *context, const char *path)
{
	static const char *const folders[] = { "usr/lib/modules/", KERNEL_FACTS_FOLDER "/",
		OFED_HEADERS "/" };
	const char *slash = strrchr(path, '/');

	(void) context;
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++)
		if (strncmp(path, folders[i], strlen(folders[i])) == 0)
			return true;
	return strcmp(path, IMAGE_CONF) == 0 || strcmp(path, IMAGE_KIT) == 0 ||
	       (strncmp(path, "usr/src/nvidia-", 15) == 0 && slash &&
		       strcmp(slash, "/Module.symvers") == 0);
}

static int identify(struct combine_input *input, struct error *error)
{
	const struct image_conf *conf = &input->conf;
	_cleanup_strv_ struct strv krels = { 0 };

	verify_input_conf(&input->image, NULL, &input->conf);
	if (!*conf->role)
		return error_set(error, -EINVAL,
			"%s: it has no /" IMAGE_CONF ": only images that slipway build made can be "
			"combined",
			input->image.name);
	if (!image_role_find(conf->role))
		return error_set(error, -EINVAL,
			"%s: it is a %s image: only GPU and NIC images are combined",
			input->image.name, conf->role);
	/* They become parts of paths. */
	xstrv_split(&krels, conf->krel, " ");
	for (size_t i = 0; i < krels.count; i++) {
		if (!krel_is_valid(krels.items[i]))
			return error_set(error, -EINVAL, "%s: no kernel release can be '%s'",
				input->image.name, krels.items[i]);
		xstrv_push_unique(&input->krels, krels.items[i]);
	}
	return krels.count && *conf->version && *conf->os
		       ? 0
		       : error_set(error, -EINVAL,
				 "%s: its /" IMAGE_CONF " has no version, os or krel",
				 input->image.name);
}

/* A combined image is of one architecture: which of an index is to be said. */
static int refuse_index(const struct local_image *image, const char *name, struct error *error)
{
	_cleanup_(local_images_free) struct local_images images = { 0 };
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *list = NULL;
	struct error ignored = { 0 };
	int r;

	/* Docker's archives have one image, and images of other tools no configuration. */
	if (local_images_list(image->path, image->archive, &images, &ignored) < 0)
		return 0;
	for (size_t i = 0; i < images.count; i++)
		xstrv_push_unique(&names, images.items[i].arch);
	if (names.count < 2)
		return 0;
	list = xstrv_join(&names, ", ");
	r = error_set(error, -EINVAL,
		"%s: an index with images for %s: one architecture is combined at a time", name,
		list);
	for (size_t i = 0; i < names.count; i++)
		(void) error_try(error, r, "slipway combine --arch %s … --output oci-archive:FILE",
			names.items[i]);
	return error_try(error, r, "then slipway index of these files");
}

/* Is it an image, and another one than those before it? Nothing is unpacked yet. */
static int identify_input(const struct combine *combine, struct combine_input *input,
	const char *name, struct error *error)
{
	_cleanup_(local_image_free) struct local_image image = { 0 };
	const struct combine_input *first = &combine->inputs[0];
	int r = verify_input_identify(name, &input->image, error);

	if (r < 0)
		return r;
	input->image.arch = combine->wanted_arch;
	for (const struct combine_input *other = first; other < input; other++)
		if (verify_input_is_same(&other->image, &input->image))
			return error_set(error, -EINVAL, "%s: given twice", name);
	if (!verify_input_unpacks(&input->image)) {
		_cleanup_strv_ struct strv images = { 0 };

		r = error_set(error, -EINVAL,
			"%s: an image is wanted: its archive, its layout or its name in "
			"containers-storage",
			name);
		return verify_input_outputs(name, &images, NULL)
			       ? error_try(error, r, "%s", images.items[images.count - 1])
			       : r;
	}
	if (input->image.kind == VERIFY_STORAGE || input->image.kind == VERIFY_REGISTRY)
		return 0;
	r = local_image_open(input->image.place, input->image.kind == VERIFY_ARCHIVE,
		combine->wanted_arch, &image, error);
	return r < 0 || combine->wanted_arch ? r : refuse_index(&image, name, error);
}

static int open_input(struct combine *combine, struct combine_input *input, struct error *error)
{
	const struct combine_input *first = &combine->inputs[0];
	int r;

	input->image.wanted = is_wanted;
	r = verify_input_open(&input->image, combine->context, error);
	if (r < 0)
		return r;
	r = identify(input, error);
	if (r < 0)
		return r;
	if (strcmp(input->conf.role, first->conf.role) != 0)
		return error_set(error, -EINVAL,
			"%s is a %s image, %s a %s image: they are two roles of two operators",
			input->image.name, input->conf.role, first->image.name, first->conf.role);
	if (strcmp(input->conf.version, first->conf.version) != 0)
		return error_set(error, -EINVAL,
			"%s has driver %s, %s has %s: an image has one version of the driver",
			input->image.name, input->conf.version, first->image.name,
			first->conf.version);
	if (fs_exists(input->image.fd, IMAGE_KIT) && !fs_exists(first->image.fd, IMAGE_KIT)) {
		(void) error_set(error, -EINVAL,
			"%s can compile on a node and %s, which the new image starts from, cannot",
			input->image.name, first->image.name);
		return error_try(error, -EINVAL, "%s as the first", input->image.name);
	}
	if (strcmp(input->conf.os, first->conf.os) != 0)
		return error_set(error, -EINVAL,
			"%s is for %s, %s for %s: an image is for one distribution",
			input->image.name, input->conf.os, first->image.name, first->conf.os);
	return 0;
}

/* ---- kernels */

char *combine_modules_kind(const struct combine_input *input, const char *krel)
{
	struct image_conf conf;

	verify_input_conf(&input->image, krel, &conf);
	return xstrdup(conf.kernel_module_type);
}

static bool has_both_kinds(const struct combine_input *input, const char *krel)
{
	_cleanup_free_ char *path = xasprintf(KERNEL_FACTS_FOLDER "/%s/" KERNEL_FACTS_OTHER, krel);

	return fs_exists(input->image.fd, path);
}

/* Does the image bring the other kind of modules for the kernel? -EINVAL for a third set. */
static int take_other_kind(
	struct combine_kernel *kernel, const struct combine_input *input, struct error *error)
{
	_cleanup_free_ char *ours = combine_modules_kind(kernel->from, kernel->krel);
	_cleanup_free_ char *theirs = combine_modules_kind(input, kernel->krel);

	if (has_both_kinds(input, kernel->krel))
		return error_set(error, -EINVAL,
			"%s has both kinds of modules for %s: name it before %s", input->image.name,
			kernel->krel, kernel->from->image.name);
	if (!*ours || !*theirs || strcmp(ours, theirs) == 0)
		return 0;
	if (kernel->other || kernel->both) {
		(void) error_set(error, -EINVAL, "%s: %s has the %s modules for %s already",
			input->image.name,
			kernel->other ? kernel->other->image.name : kernel->both->image.name,
			theirs, kernel->krel);
		return error_try(error, -EINVAL,
			"slipway combine of the images with %s modules first, then of an image of the "
			"others and the result",
			theirs);
	}
	kernel->other = input;
	return 1;
}

/* Their names and a digest of each, but of nvidia-peermem, which is another for each OFED. */
static int list_modules(const struct combine_input *input, const char *krel, struct strv *lines,
	struct error *error)
{
	_cleanup_strv_ struct strv paths = { 0 };
	_cleanup_free_ char *folder = xasprintf("usr/lib/modules/%s/updates", krel);
	int r = depends_list_modules(input->image.fd, folder, &paths);

	if (r < 0)
		return error_set_errno(error, r, "%s: %s", input->image.name, folder);
	for (size_t i = 0; i < paths.count; i++) {
		const char *path = paths.items[i];
		const char *name = basename(path);
		char digest[HASH_HEX_SIZE];

		if (strcmp(name, KERNEL_FACTS_PEERMEM_MODULE) == 0)
			continue;
		r = image_set_id(input->image.fd, path, digest);
		if (r < 0)
			return error_set_errno(error, r, "%s: %s", input->image.name, path);
		xstrv_pushf(lines, "%s %s", name, digest);
	}
	strv_sort(lines);
	return 0;
}

static int same_modules(
	const struct combine_kernel *kernel, const struct combine_input *other, struct error *error)
{
	_cleanup_strv_ struct strv ours = { 0 };
	_cleanup_strv_ struct strv theirs = { 0 };
	const struct combine_input *first = kernel->from;
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
		(void) error_set(error, -EINVAL,
			"%s and %s both are for %s, and their modules differ%s: %.*s",
			first->image.name, other->image.name, kernel->krel,
			strcmp(first->conf.role, "gpu") == 0 ? " beside nvidia-peermem" : "",
			(int) strcspn(odd, " "), odd);
		return error_try(
			error, -EINVAL, "both built with the same options, from the same sources");
	}
	return 0;
}

static int add_kernel(struct combine *combine, const struct combine_input *input, const char *krel,
	struct error *error)
{
	struct combine_kernel *kernel = combine->kernels;
	const struct combine_kernel *end = kernel + combine->kernel_count;
	struct image_conf conf;
	const char *proof;
	int r;

	while (kernel < end && strcmp(kernel->krel, krel) != 0)
		kernel++;
	if (kernel == end && combine->kernel_count == COMBINE_MAX)
		return error_set(error, -EINVAL, "more than %d kernels in one image", COMBINE_MAX);
	if (kernel == end) {
		combine->kernel_count++;
		kernel->krel = krel;
		kernel->from = input;
		kernel->both = has_both_kinds(input, krel) ? input : NULL;
		(void) snprintf(kernel->proof, sizeof(kernel->proof), "holds");
	}
	r = kernel == end ? 0 : take_other_kind(kernel, input, error);
	if (r == 0 && kernel != end)
		r = same_modules(kernel, input, error);
	if (r == 0)
		r = combine_add_peermems(combine, kernel, input, error);
	if (r < 0)
		return r;
	verify_input_conf(&input->image, krel, &conf);
	proof = *conf.proof ? conf.proof : "cannot-tell";
	if (image_proof_rank(proof) > image_proof_rank(kernel->proof))
		(void) snprintf(kernel->proof, sizeof(kernel->proof), "%s", proof);
	return 0;
}

/* The machine that a kernel is of: that of any of its modules. */
static int find_kernel_arch(
	const struct combine_kernel *kernel, const struct arch **ret, struct error *error)
{
	_cleanup_(elf_module_close) struct elf_module *module = NULL;
	_cleanup_free_ char *folder = xasprintf("usr/lib/modules/%s/updates", kernel->krel);
	_cleanup_strv_ struct strv paths = { 0 };
	const struct arch *found;
	int fd = kernel->from->image.fd;
	int r = depends_list_modules(fd, folder, &paths);

	if (r < 0 || !paths.count)
		return error_set(error, -EINVAL, "%s: no module lies below /%s",
			kernel->from->image.name, folder);
	r = elf_module_open(fd, paths.items[0], &module, error);
	if (r < 0)
		return error_prefix(error, r, "%s", kernel->from->image.name);
	found = arch_of_machine(elf_module_machine(module));
	if (!found) {
		(void) error_set(error, -EINVAL,
			"%s: its modules are of a machine that slipway does not know",
			kernel->from->image.name);
		return -EINVAL;
	}
	*ret = found;
	return 0;
}

static int find_arch(struct combine *combine, struct error *error)
{
	const struct combine_kernel *first = &combine->kernels[0];
	int r = find_kernel_arch(first, &combine->arch, error);

	for (size_t i = 1; r == 0 && i < combine->kernel_count; i++) {
		const struct combine_kernel *kernel = &combine->kernels[i];
		const struct arch *arch = combine->arch;

		r = find_kernel_arch(kernel, &arch, error);
		if (r == 0 && arch != combine->arch)
			r = error_set(error, -EINVAL,
				"%s is for %s, %s for %s: an image is for one machine",
				kernel->from->image.name, arch->uname, first->from->image.name,
				combine->arch->uname);
	}
	if (r == 0 && combine->wanted_arch && strcmp(combine->wanted_arch, combine->arch->oci) != 0)
		r = error_set(error, -EINVAL, "%s is for %s, but --arch is %s",
			first->from->image.name, combine->arch->oci, combine->wanted_arch);
	return r;
}

/* Builds the path as image_place_files() does. */
static int refuse_own_output(
	const struct combine *combine, const struct combine_input *input, struct error *error)
{
	const char *output = combine->output;
	_cleanup_free_ char *path = NULL;

	if (input->image.kind != VERIFY_ARCHIVE || strcmp(output, OUTPUT_STORAGE) == 0)
		return 0;
	path = output_place_is_folder(output) ? xasprintf("%s/%s.oci.tar", output, input->conf.role)
					      : xstrdup(output + strlen(OUTPUT_ARCHIVE));
	return output_is_no_input(output, path, input->image.place, error);
}

int combine_open(struct combine *combine, const struct strv *names, struct error *error)
{
	int r = 0;

	combine->inputs = xcalloc(names->count, sizeof(*combine->inputs));
	combine->kernels = xcalloc(COMBINE_MAX, sizeof(*combine->kernels));
	for (size_t i = 0; i < names->count; i++) {
		struct combine_input *input = &combine->inputs[combine->input_count++];

		*input = (struct combine_input){ .image = VERIFY_INPUT_CLOSED };
		r = identify_input(combine, input, names->items[i], error);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < combine->input_count; i++) {
		r = open_input(combine, &combine->inputs[i], error);
		if (r == 0)
			r = refuse_own_output(combine, &combine->inputs[i], error);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < combine->input_count; i++) {
		const struct combine_input *input = &combine->inputs[i];

		for (size_t j = 0; j < input->krels.count; j++) {
			r = add_kernel(combine, input, input->krels.items[j], error);
			if (r < 0)
				return r;
		}
	}
	for (size_t i = 0; i < combine->kernel_count; i++) {
		struct combine_kernel *kernel = &combine->kernels[i];
		struct image_conf conf;

		verify_input_conf(&kernel->from->image, kernel->krel, &conf);
		memcpy(kernel->set, conf.set, sizeof(kernel->set));
	}
	return find_arch(combine, error);
}

void combine_close(struct combine *combine)
{
	for (size_t i = 0; i < combine->kernel_count; i++)
		for (size_t j = 0; j < combine->kernels[i].peermem_count; j++)
			combine_peermem_free(&combine->kernels[i].peermems[j]);
	free(combine->kernels);
	for (size_t i = 0; i < combine->input_count; i++) {
		verify_input_close(&combine->inputs[i].image);
		strv_free(&combine->inputs[i].krels);
	}
	free(combine->inputs);
	free(combine->node_version);
	image_addons_free(&combine->addons);
	*combine = (struct combine){ 0 };
}
