/* SPDX-License-Identifier: Apache-2.0 */
/* The images that are exported: whether they are of one node, and which nvidia-peermem they need.
 */
#include "cli/export/export_internal.h"

#include <fcntl.h>
#include <string.h>

#include "common/fs.h"
#include "common/xalloc.h"
#include "kernels/krel.h"
#include "kernels/tree/depends.h"
#include "module/elf.h"
#include "module/running.h"

static const char *const roles[] = { "nic", "gpu" };

/* ---- the images */

static bool is_below(const char *path, const char *folder)
{
	size_t length = strlen(folder);

	return strncmp(path, folder, length) == 0 && path[length] == '/';
}

static bool is_wanted(void *context, const char *path)
{
	static const char *const folders[] = { "usr/lib/modules", "etc/modprobe.d",
		"lib/modprobe.d", "usr/lib/modprobe.d" };

	(void) context;
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++)
		if (is_below(path, folders[i]))
			return true;
	if (is_below(path, KERNEL_FACTS_FOLDER))
		return str_ends_with(path, ".conf") ||
		       str_ends_with(path, "/" KERNEL_FACTS_PEERMEM_MODULE);
	return strcmp(path, IMAGE_CONF) == 0 || export_wants_userspace(path);
}

static int not_ours(const struct export_input *input, struct error *error)
{
	(void) error_set(error, -EINVAL, "%s: it has no /" IMAGE_CONF, input->image.name);
	return error_try(error, -EINVAL, "an image that slipway build or combine made");
}

static int identify(const struct export *export, struct export_input *input, const char *name,
	struct error *error)
{
	int r = verify_input_identify(name, &input->image, error);

	if (r < 0)
		return r;
	input->image.arch = export->arch ? export->arch->oci : NULL;
	if (verify_input_unpacks(&input->image))
		return 0;
	(void) error_set(error, -EINVAL, "%s: no image", name);
	return error_try(error, -EINVAL,
		"an image: its archive, its layout (oci:FOLDER), or its name in "
		"containers-storage");
}

/* The next steps for an image that has other kernels: one of these, or the index's other image. */
static int no_such_kernel(const struct export_input *input, const char *wanted,
	const struct strv *krels, struct error *error)
{
	int r = error_set(error, -EINVAL, "%s: it has no modules for %s, but for: %s",
		input->image.name, wanted, input->conf.krel);

	for (size_t i = 0; !krel_arch(wanted) && i < input->image.archs.count; i++)
		(void) error_try(error, r, "--arch %s, for another image of the index",
			input->image.archs.items[i]);
	if (krels->count)
		(void) error_try(error, r, "--kernel %s", krels->items[0]);
	return error_try(error, r, "an image for %s: slipway build --kernel %s", wanted, wanted);
}

/* Sets the kernel by --kernel, or by the image; it becomes part of paths. */
static int choose_kernel(
	struct export *export, const struct export_input *input, struct error *error)
{
	_cleanup_strv_ struct strv krels = { 0 };
	const char *wanted = export->kernel ? export->kernel : export->krel;

	xstrv_split(&krels, input->conf.krel, " ");
	if (!export->kernel && krels.count > 1) {
		(void) error_set(error, -EINVAL,
			"%s: it has modules for %zu kernels (%s), and an OS image has one",
			input->image.name, krels.count, input->conf.krel);
		return error_try(error, -EINVAL, "--kernel %s", krels.items[0]);
	}
	if (wanted && !strv_contains(&krels, wanted)) {
		if (export->kernel)
			return no_such_kernel(input, wanted, &krels, error);
		return error_set(error, -EINVAL,
			"%s is for %s, %s for %s: the images are not one node's", input->image.name,
			input->conf.krel, export->inputs[0].image.name, wanted);
	}
	if (!export->krel)
		export->krel = xstrdup(wanted ? wanted : krels.count ? krels.items[0] : "");
	return krel_is_valid(export->krel)
		       ? 0
		       : error_set(error, -EINVAL, "%s: no kernel release can be '%s'",
				 input->image.name, export->krel);
}

static int check_proof(struct export *export, const struct export_input *input, struct error *error)
{
	const char *proof = *input->conf.proof ? input->conf.proof : "cannot-tell";
	bool refused = strncmp(proof, "will-not-", 9) == 0;
	int r;

	if (strcmp(proof, "holds") == 0)
		return 0;
	if (export->force) {
		progress_notef(&export->context->progress,
			"%s is not proven (%s): it is exported because of --force",
			input->image.name, proof);
		return 0;
	}
	r = error_set(error, -EINVAL, "%s: it is not proven that its modules will load (%s)",
		input->image.name, proof);
	(void) error_try(error, r, "slipway verify %s --kernel %s tells why", input->image.name,
		export->krel);
	(void) error_try(error, r, "--force, to export it all the same");
	return context_fail(
		export->context, refused ? EXIT_CODE_WILL_NOT_LOAD : EXIT_CODE_CANNOT_TELL, r);
}

static int open_input(struct export *export, struct export_input *input, struct error *error)
{
	const struct export_input *first = &export->inputs[0];
	int r;

	input->image.wanted = is_wanted;
	r = verify_input_open(&input->image, export->context, error);
	if (r < 0)
		return r;
	if (!export->arch && input->image.archs.count)
		progress_notef(&export->context->progress,
			"%s: an index: its image for this machine (%s) is exported; --arch %s takes another",
			input->image.name, arch_here()->oci, input->image.archs.items[0]);
	verify_input_conf(&input->image, NULL, &input->conf);
	if (!*input->conf.role)
		return not_ours(input, error);
	r = choose_kernel(export, input, error);
	if (r < 0)
		return r;
	verify_input_conf(&input->image, export->krel, &input->conf);
	if (!*input->conf.role || !*input->conf.version || !*input->conf.os)
		return error_set(error, -EINVAL,
			"%s: its /" IMAGE_CONF " has no role, version or os", input->image.name);
	for (const struct export_input *other = first; other < input; other++)
		if (strcmp(other->conf.role, input->conf.role) == 0)
			return error_set(error, -EINVAL,
				"%s and %s are both %s images: a node has one of each role",
				other->image.name, input->image.name, input->conf.role);
	if (strcmp(input->conf.os, first->conf.os) != 0)
		return error_set(error, -EINVAL,
			"%s is for %s, %s for %s: the images are not one node's", input->image.name,
			input->conf.os, first->image.name, first->conf.os);
	return check_proof(export, input, error);
}

const struct export_input *export_find_role(const struct export *export, const char *role)
{
	for (size_t i = 0; i < export->input_count; i++)
		if (strcmp(export->inputs[i].conf.role, role) == 0)
			return &export->inputs[i];
	return NULL;
}

/* ---- the modules */

/* "nvidia_peermem" of "updates/nvidia/nvidia-peermem.ko.xz"; the caller frees it. */
static char *module_name(const char *path)
{
	char *name = xstrdup(basename(path));

	name[strcspn(name, ".")] = '\0';
	for (char *c = name; *c; c++)
		if (*c == '-')
			*c = '_';
	return name;
}

static int list_modules(struct export *export, struct error *error)
{
	_cleanup_free_ char *folder = xasprintf("usr/lib/modules/%s/updates", export->krel);

	for (size_t i = 0; i < export->input_count; i++) {
		const struct export_input *input = &export->inputs[i];
		_cleanup_(elf_module_close) struct elf_module *module = NULL;
		_cleanup_strv_ struct strv paths = { 0 };
		const struct arch *arch;
		int r = depends_list_modules(input->image.fd, folder, &paths);

		if (r < 0 || !paths.count)
			return error_set(error, -EINVAL, "%s: no module lies below /%s",
				input->image.name, folder);
		for (size_t k = 0; k < paths.count; k++) {
			_cleanup_free_ char *name = module_name(paths.items[k]);

			if (strv_contains(&export->modules, name))
				return error_set(error, -EINVAL, "%s: %s is there already",
					input->image.name, paths.items[k]);
			xstrv_push(&export->modules, name);
		}
		strv_sort(&export->modules);
		r = elf_module_open_brief(input->image.fd, paths.items[0], &module, error);
		if (r < 0)
			return error_prefix(error, r, "%s", input->image.name);
		arch = arch_of_machine(elf_module_machine(module));
		if (!arch || (export->arch && arch != export->arch))
			return error_set(error, -EINVAL, "%s: its modules are for %s",
				input->image.name, arch ? "another machine" : "no known machine");
		export->arch = arch;
	}
	return 0;
}

bool export_has_module(const struct export *export, const char *name)
{
	return strv_contains_sorted(&export->modules, name);
}

/* ---- nvidia-peermem, of which an image may have one for each OFED */

/* The CRC of the peer-memory interface that the NIC image's OFED exports; false: it has none. */
static bool find_interface(
	const struct export *export, const struct export_input *nic, uint32_t *ret_crc)
{
	_cleanup_free_ char *folder = xasprintf("usr/lib/modules/%s/updates", export->krel);
	_cleanup_strv_ struct strv paths = { 0 };

	if (depends_list_modules(nic->image.fd, folder, &paths) < 0)
		return false;
	for (size_t i = 0; i < paths.count; i++) {
		_cleanup_(elf_module_close) struct elf_module *module = NULL;
		struct error ignored = { 0 };
		const struct elf_module_export *exports;
		size_t count;

		if (elf_module_open(nic->image.fd, paths.items[i], &module, &ignored) < 0)
			continue;
		exports = elf_module_exports(module, &count);
		for (size_t k = 0; k < count; k++)
			if (strcmp(exports[k].symbol, PEERMEM_SYMBOL) == 0) {
				*ret_crc = exports[k].crc;
				return exports[k].has_crc;
			}
	}
	return false;
}

/* Takes the module at @path, if it has the interface; @crc NULL: any. */
static int try_peermem(struct export *export, const struct export_input *gpu, const char *path,
	const char *ofed_version, const uint32_t *crc, struct error *error)
{
	_cleanup_(elf_module_close) struct elf_module *module = NULL;
	uint32_t asked;
	int r = elf_module_open(gpu->image.fd, path, &module, error);

	if (r < 0)
		return error_prefix(error, r, "%s", gpu->image.name);
	/* Without versions of symbols the kernel compares nothing. */
	if (crc && elf_module_version(module, PEERMEM_SYMBOL, &asked) && asked != *crc)
		return 0;
	export->peermem = xstrdup(path);
	export->peermem_ofed = xstrdup(ofed_version);
	return 1;
}

/* The paths of all that the image has, the installed one first, each with its OFED. */
static void list_peermems(const struct export *export, const struct export_input *gpu,
	struct strv *paths, struct strv *versions)
{
	_cleanup_free_ char *installed = xasprintf(
		"usr/lib/modules/%s/updates/nvidia/" KERNEL_FACTS_PEERMEM_MODULE, export->krel);
	_cleanup_free_ char *folder =
		xasprintf(KERNEL_FACTS_FOLDER "/%s/" KERNEL_FACTS_PEERMEM, export->krel);
	_cleanup_strv_ struct strv names = { 0 };

	if (fs_exists(gpu->image.fd, installed)) {
		xstrv_push(paths, installed);
		xstrv_push(versions, gpu->conf.ofed_version);
	}
	(void) !fs_list(gpu->image.fd, folder, &names);
	for (size_t i = 0; i < names.count; i++) {
		_cleanup_free_ char *conf =
			xasprintf("%s/%s/" KERNEL_FACTS_PEERMEM_CONF, folder, names.items[i]);
		_cleanup_free_ char *text = NULL;
		struct image_conf facts;

		(void) !fs_read(gpu->image.fd, conf, IMAGE_CONF_LIMIT, &text, NULL);
		image_conf_parse(text ? text : "", &facts);
		xstrv_pushf(paths, "%s/%s/" KERNEL_FACTS_PEERMEM_MODULE, folder, names.items[i]);
		xstrv_push(versions, facts.ofed_version);
	}
}

static int choose_peermem(struct export *export, struct error *error)
{
	const struct export_input *gpu = export_find_role(export, "gpu");
	const struct export_input *nic = export_find_role(export, "nic");
	_cleanup_strv_ struct strv paths = { 0 };
	_cleanup_strv_ struct strv versions = { 0 };
	uint32_t crc;
	bool known = nic && find_interface(export, nic, &crc);

	if (gpu)
		list_peermems(export, gpu, &paths, &versions);
	for (size_t i = 0; i < paths.count; i++) {
		int r = try_peermem(
			export, gpu, paths.items[i], versions.items[i], known ? &crc : NULL, error);

		if (r != 0)
			return r < 0 ? r : 0;
	}
	if (!paths.count)
		return 0;
	if (export->force) {
		int r = try_peermem(export, gpu, paths.items[0], versions.items[0], NULL, error);

		return r < 0 ? r : 0;
	}
	(void) error_set(error, -EINVAL,
		"%s: its nvidia-peermem is for OFED %s, and does not load beside that of %s (%s)",
		gpu->image.name, versions.items[0], nic->image.name, nic->conf.version);
	return error_try(error, -EINVAL, "slipway build both images in one run");
}

/* ---- opening */

static void set_name(struct export *export)
{
	_cleanup_strv_ struct strv found = { 0 };
	bool proven = true;

	for (size_t i = 0; i < ARRAY_SIZE(roles); i++)
		if (export_find_role(export, roles[i]))
			xstrv_push(&found, roles[i]);
	export->roles = xstrv_join(&found, "-");
	for (size_t i = 0; i < export->input_count; i++)
		proven &= strcmp(export->inputs[i].conf.proof, "holds") == 0;
	export->name = xasprintf(
		EXPORT_NAME "-%s-%s%s", export->roles, export->krel, proven ? "" : "-unproven");
}

/* Where the distribution has its libraries: Debian's multiarch, or what the others have. */
static void set_library_folder(struct export *export)
{
	const struct catalogue *os = &export->context->os;
	bool multiarch = os->repository_count && os->repositories[0].kind == REPOSITORY_APT;

	export->library_folder =
		multiarch ? xasprintf("usr/lib/%s", export->arch->triplet) : xstrdup("usr/lib64");
}

int export_open(struct export *export, const struct strv *names, struct error *error)
{
	_cleanup_strv_ struct strv images = { 0 };
	int r = 0;

	for (size_t i = 0; i < names->count; i++)
		if (!verify_input_outputs(names->items[i], &images, NULL))
			xstrv_push(&images, names->items[i]);
	export->inputs = xcalloc(images.count, sizeof(*export->inputs));
	for (size_t i = 0; i < images.count; i++) {
		struct export_input *input = &export->inputs[export->input_count++];

		*input = (struct export_input){ .image = VERIFY_INPUT_CLOSED };
		r = identify(export, input, images.items[i], error);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < export->input_count; i++) {
		r = open_input(export, &export->inputs[i], error);
		if (r < 0)
			return r;
	}
	r = context_choose_os(export->context, export->inputs[0].conf.os, export->krel, error);
	if (r == 0)
		r = list_modules(export, error);
	if (r == 0)
		r = choose_peermem(export, error);
	if (r < 0)
		return r;
	if (strcmp(export->context->os.os, export->inputs[0].conf.os) != 0)
		progress_notef(&export->context->progress,
			"the images were built for %s: its programs may not start on %s",
			export->inputs[0].conf.os, export->context->os.os);
	if (export->peermem_ofed && *export->peermem_ofed && !export_find_role(export, "nic"))
		progress_notef(&export->context->progress,
			"%s: its nvidia-peermem loads only in a system with OFED %s: export the NIC "
			"image together with it; without that OFED slipway verify of the system ends with 3",
			export_find_role(export, "gpu")->image.name, export->peermem_ofed);
	set_name(export);
	set_library_folder(export);
	return 0;
}

void export_close(struct export *export)
{
	for (size_t i = 0; i < export->input_count; i++)
		verify_input_close(&export->inputs[i].image);
	free(export->inputs);
	free(export->krel);
	free(export->roles);
	free(export->name);
	free(export->library_folder);
	free(export->peermem);
	free(export->peermem_ofed);
	free(export->glibc);
	strv_free(&export->without);
	strv_free(&export->modules);
	strv_free(&export->needs);
	strv_free(&export->files);
	module_key_free(&export->key);
	module_cert_free(&export->cert);
}
