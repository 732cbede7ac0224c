/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verify/kernel.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "kernels/krel.h"
#include "kernels/tree/depends.h"

#define SYSTEM_MAP "System.map"

/* An image, which build --kernel-from takes as well. */
static bool is_layout(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd >= 0 && fs_exists(fd, "oci-layout");
}

static int tell_one(const char *text, enum verify_kernel_kind *ret, struct error *error)
{
	struct stat status;
	size_t length = strlen(text);

	if (stat(text, &status) == 0) {
		*ret = S_ISDIR(status.st_mode) && !is_layout(text) ? VERIFY_KERNEL_FOLDER
								   : VERIFY_KERNEL_FILES;
		if ((length >= 5 && strcmp(text + length - 5, ".json") == 0) ||
			verify_is_symvers(text))
			*ret = VERIFY_KERNEL_FOLDER;
		return 0;
	}
	if (strchr(text, '/'))
		return error_set(error, -EINVAL, "--kernel %s: %s", text, strerror(errno));
	*ret = VERIFY_KERNEL_RELEASE;
	return 0;
}

int verify_kernel_tell(const struct strv *texts, enum verify_kernel_kind *ret, struct error *error)
{
	size_t releases = 0;
	int r = 0;

	for (size_t i = 0; i < texts->count && r == 0; i++) {
		r = tell_one(texts->items[i], ret, error);
		releases += *ret == VERIFY_KERNEL_RELEASE;
		if (r == 0 && texts->count > 1 && verify_is_symvers(texts->items[i]))
			r = error_set(error, -EINVAL,
				"--kernel %s: beside another --kernel a Module.symvers is given with "
				"--with",
				texts->items[i]);
	}
	if (r == 0 && releases > 1)
		return error_set(error, -EINVAL, "--kernel: one kernel is expected");
	if (r == 0 && texts->count > 1)
		*ret = VERIFY_KERNEL_FILES;
	return r;
}

void verify_kernel_free(struct verify_kernel *kernel)
{
	free(kernel->krel);
	free(kernel->vermagic);
	free(kernel->vermagic_source);
	free(kernel->enforced_by);
	symvers_close(&kernel->symvers);
	strv_free(&kernel->symvers_sources);
	strv_free(&kernel->modules);
	strv_free(&kernel->builtin);
	strv_free(&kernel->keys);
	strv_free(&kernel->notes);
	cleanup_close(&kernel->modules_fd);
	verify_input_close(&kernel->own);
	*kernel = (struct verify_kernel) VERIFY_KERNEL_CLOSED;
}

int verify_kernel_add_symvers(struct verify_kernel *kernel, int dir_fd, const char *path,
	const char *name, struct error *error)
{
	int r = kernel->symvers ? symvers_add(kernel->symvers, dir_fd, path, error)
				: symvers_open(dir_fd, path, &kernel->symvers, error);

	if (r == 0 && strv_push(&kernel->symvers_sources, name) < 0)
		r = error_set_errno(error, -ENOMEM, "%s", name);
	return r;
}

/* The path of the first module below a folder, depth first; NULL when there is none. */
static char *first_module(int dir_fd, const char *path)
{
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_close_ int fd =
		openat(dir_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char *found = NULL;

	if (fd < 0 || fs_list(fd, ".", &names) < 0)
		return NULL;
	for (size_t i = 0; i < names.count && !found; i++) {
		_cleanup_free_ char *below = NULL;

		if (asprintf(&below, "%s/%s", path, names.items[i]) < 0)
			return NULL;
		found = verify_is_module(below) ? TAKE_PTR(below) : first_module(dir_fd, below);
	}
	return found;
}

/*
 * The kernel states its vermagic, machine and sizeof(struct module) in each of its own modules:
 * only those below kernel/ are its own.
 */
static int ask_module(struct verify_kernel *kernel, int modules_fd, struct error *error)
{
	_cleanup_(elf_module_close) struct elf_module *module = NULL;
	_cleanup_free_ char *path = first_module(modules_fd, "kernel/lib");
	struct error ignored = { 0 };
	const char *vermagic;

	if (!path)
		path = first_module(modules_fd, "kernel");
	if (!path || elf_module_open(modules_fd, path, &module, &ignored) < 0)
		return 0;
	kernel->facts.machine = elf_module_machine(module);
	kernel->facts.struct_size = elf_module_struct_size(module);
	vermagic = elf_module_info(module, "vermagic");
	if (!vermagic)
		return 0;
	free(kernel->vermagic);
	free(kernel->vermagic_source);
	kernel->vermagic = strdup(vermagic);
	kernel->vermagic_source = TAKE_PTR(path);
	if (!kernel->vermagic)
		return error_set_errno(error, -ENOMEM, "vermagic");
	if (!kernel->krel)
		kernel->krel = strndup(vermagic, strcspn(vermagic, " "));
	return 0;
}

/* A line of modules.builtin is a path: "kernel/lib/crc16.ko". */
static int add_names(const char *text, struct strv *names)
{
	_cleanup_strv_ struct strv lines = { 0 };
	int r = strv_split(&lines, text, "\n");

	for (size_t i = 0; i < lines.count && r == 0; i++) {
		char name[256];

		if (depends_module_name(lines.items[i], name, sizeof(name)))
			r = strv_push(names, name);
	}
	return r;
}

static int list_modules(struct verify_kernel *kernel, int modules_fd, struct error *error)
{
	struct verify_input *own = &kernel->own;
	_cleanup_free_ char *text = NULL;
	int r = 0;

	if (fs_read(modules_fd, "modules.builtin", 0, &text, NULL) == 0)
		r = add_names(text, &kernel->builtin);
	if (r == 0 && text)
		r = add_names(text, &kernel->modules);
	own->fd = fcntl(modules_fd, F_DUPFD_CLOEXEC, 0);
	if (r == 0)
		r = verify_input_list(own, error);
	for (size_t i = 0; i < own->modules.count && r == 0; i++) {
		char name[256];

		if (depends_module_name(own->modules.items[i], name, sizeof(name)))
			r = strv_push(&kernel->modules, name);
	}
	kernel->has_modules = own->modules.count > 0 || kernel->builtin.count > 0;
	return r == -ENOMEM ? error_set_errno(error, r, "modules of the kernel") : r;
}

static int take_modules(struct verify_kernel *kernel, int modules_fd, struct error *error)
{
	int r;

	if (modules_fd < 0)
		return 0;
	r = ask_module(kernel, modules_fd, error);
	if (r == 0)
		r = list_modules(kernel, modules_fd, error);
	if (r < 0 || !kernel->has_modules)
		return r;
	kernel->modules_fd = fcntl(modules_fd, F_DUPFD_CLOEXEC, 0);
	return kernel->modules_fd < 0 ? error_set_errno(error, -errno, "modules of the kernel") : 0;
}

/* The first configuration that is there; NULL and 0 when none is. */
static int read_config(const struct verify_place *place, struct kconfig **ret, struct error *error)
{
	_cleanup_free_ char *boot = NULL;
	int r = -ENOENT;

	if (asprintf(&boot, "boot/config-%s", place->krel ? place->krel : "") < 0)
		return error_set_errno(error, -ENOMEM, "configuration");
	const struct {
		int fd;
		const char *path;
	} places[] = {
		{ place->build_fd, ".config" },
		{ place->build_fd, "include/config/auto.conf" },
		{ place->modules_fd, "config" },
		{ place->root_fd, boot },
	};

	for (size_t i = 0; i < ARRAY_SIZE(places) && r == -ENOENT; i++)
		if (places[i].fd >= 0)
			r = kconfig_read(places[i].fd, places[i].path, ret, error);
	return r == -ENOENT ? 0 : r;
}

static int take_config(
	struct verify_kernel *kernel, const struct verify_place *place, struct error *error)
{
	_cleanup_(kernel_record_free) struct kernel_record record = { 0 };
	_cleanup_(kconfig_free) struct kconfig *config = NULL;
	_cleanup_free_ char *text = NULL;
	int r = read_config(place, &config, error);

	if (r < 0)
		return r;
	if (place->record) {
		r = fs_read(AT_FDCWD, place->record, 1 << 20, &text, NULL);
		r = r < 0 ? error_set_errno(error, r, "%s", place->record)
			  : kernel_record_read(text, &record, error);
	} else if (config && place->krel) {
		/* Its vermagic.h may have a word to say on preempt_rt. */
		r = place->root_fd >= 0 && place->build_fd >= 0 && !kernel->vermagic
			    ? kernel_record_make(place->root_fd, place->krel, &record, error)
			    : kernel_record_of_config(config, place->krel, NULL, &record, error);
	}
	if (r == 0 && record.krel)
		r = verify_kernel_take_record(kernel, &record, error);
	if (r == 0 && config)
		verify_kernel_take_config(kernel, config);
	return r;
}

/* Without a Module.symvers: what vmlinux exports by its System.map, and its modules by themselves.
 */
static int take_system_map(
	struct verify_kernel *kernel, const struct verify_place *place, struct error *error)
{
	_cleanup_free_ char *boot = NULL;
	int r = -ENOENT;

	if (asprintf(&boot, "boot/" SYSTEM_MAP "-%s", place->krel ? place->krel : "") < 0)
		return error_set_errno(error, -ENOMEM, SYSTEM_MAP);
	const struct {
		int fd;
		const char *path;
	} places[] = {
		{ place->build_fd, SYSTEM_MAP },
		{ place->modules_fd, SYSTEM_MAP },
		{ place->root_fd, boot },
	};

	for (size_t i = 0; i < ARRAY_SIZE(places) && r != 0; i++) {
		_cleanup_(system_map_close) struct system_map *map = NULL;
		struct error why = { 0 };

		if (places[i].fd < 0 || !fs_exists(places[i].fd, places[i].path))
			continue;
		r = system_map_open(places[i].fd, places[i].path, &map, &why);
		if (r == 0)
			r = symvers_new(&kernel->symvers);
		if (r == 0)
			r = symvers_add_system_map(kernel->symvers, map);
		if (r == 0)
			r = strv_push(&kernel->symvers_sources, places[i].path);
		if (r < 0)
			(void) !strv_push(&kernel->notes, why.text);
	}
	if (r == -ENOMEM)
		return error_set_errno(error, r, SYSTEM_MAP);
	return 0;
}

/* The exports of the kernel's own modules, where only vmlinux has spoken so far. */
static int take_exports(struct verify_kernel *kernel, struct error *error)
{
	const struct verify_input *own = &kernel->own;
	int r = 0;

	if (kernel->modules_fd < 0)
		return 0;
	for (size_t i = 0; i < own->modules.count && r == 0; i++) {
		_cleanup_(elf_module_close) struct elf_module *module = NULL;
		struct error ignored = { 0 };

		if (strncmp(own->modules.items[i], "kernel/", 7) != 0 ||
			elf_module_open(own->fd, own->modules.items[i], &module, &ignored) < 0)
			continue;
		r = symvers_add_module(kernel->symvers, module);
	}
	return r < 0 ? error_set_errno(error, r, "exports of the kernel's modules") : 0;
}

static int take_symvers(
	struct verify_kernel *kernel, const struct verify_place *place, struct error *error)
{
	const struct {
		int fd;
		const char *path;
	} places[] = {
		{ place->build_fd, "Module.symvers" },
		{ place->modules_fd, "symvers.gz" }, /* Enterprise Linux, Fedora */
		{ place->modules_fd, "symvers.xz" },
		{ place->modules_fd, "symvers.zst" },
	};
	int r;

	if (place->symvers)
		return verify_kernel_add_symvers(
			kernel, AT_FDCWD, place->symvers, place->symvers, error);
	for (size_t i = 0; i < ARRAY_SIZE(places); i++)
		if (places[i].fd >= 0 && fs_exists(places[i].fd, places[i].path))
			return verify_kernel_add_symvers(
				kernel, places[i].fd, places[i].path, places[i].path, error);
	r = take_system_map(kernel, place, error);
	if (r == 0 && kernel->symvers)
		r = take_exports(kernel, error);
	return r;
}

int verify_kernel_read(
	struct verify_kernel *kernel, const struct verify_place *place, struct error *error)
{
	int r;

	if (place->krel && !kernel->krel) {
		kernel->krel = strdup(place->krel);
		if (!kernel->krel)
			return error_set_errno(error, -ENOMEM, "kernel");
	}
	if (place->symvers &&
		strv_pushf(&kernel->notes,
			"%s tells what the kernel exports, and neither its release nor its vermagic: "
			"--kernel RELEASE or a tree of it tells these",
			place->symvers) < 0)
		return error_set_errno(error, -ENOMEM, "kernel");
	r = take_modules(kernel, place->modules_fd, error);
	if (r == 0)
		r = take_config(kernel, place, error);
	return r < 0 ? r : take_symvers(kernel, place, error);
}

void verify_kernel_finish(struct verify_kernel *kernel)
{
	struct proof_kernel *facts = &kernel->facts;

	facts->krel = kernel->krel;
	facts->version = kernel->krel ? proof_version(kernel->krel) : 0;
	facts->vermagic = kernel->vermagic;
	facts->symvers = kernel->symvers;
	facts->builtin = kernel->builtin.count ? &kernel->builtin : NULL;
	kernel->symvers_count = kernel->symvers ? symvers_count(kernel->symvers) : 0;
}
