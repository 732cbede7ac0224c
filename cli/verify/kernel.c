/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verify/verify.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "common/fs.h"
#include "common/path.h"
#include "common/xalloc.h"
#include "kernels/archive/unpack.h"
#include "kernels/krel.h"
#include "kernels/resolve/lock.h"
#include "kernels/tree/depends.h"
#include "kernels/tree/tree.h"
#include "module/kernel_config.h"
#include "module/running.h"

#define NAME_SIZE  256
#define SYSTEM_MAP "System.map"

/* --- what --kernel names --- */

int verify_kernel_identify(const struct strv *texts, bool *ret_fetched, struct error *error)
{
	size_t releases = 0;

	*ret_fetched = texts->count > 1;
	for (size_t i = 0; i < texts->count; i++) {
		const char *text = texts->items[i];
		const char *dot = strrchr(text, '.');
		_cleanup_close_ int fd = open(text, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		bool symvers = verify_is_symvers(text);

		if (symvers && texts->count > 1)
			return error_set(error, -EINVAL,
				"--kernel %s: next to another --kernel, give a Module.symvers with "
				"--with",
				text);
		if (access(text, F_OK) < 0) {
			if (strchr(text, '/'))
				return error_set(
					error, -EINVAL, "--kernel %s: %s", text, strerror(errno));
			releases++;
		}
		/* An image is fetched, too, as build --kernel-from takes it. */
		if (!symvers && (fd < 0 || fs_exists(fd, "oci-layout")) &&
			!(dot && strcmp(dot, ".json") == 0 && access(text, F_OK) == 0))
			*ret_fetched = true;
	}
	return releases > 1 ? error_set(error, -EINVAL, "--kernel: only one kernel can be given")
			    : 0;
}

/* --- from a configuration, a record or the node --- */

static enum proof_option option(const struct kernel_record *record, enum kernel_option which)
{
	return kernel_record_has(record, which) ? PROOF_YES : PROOF_NO;
}

/* Options, vermagic and machine of a configuration's record. */
static void take_record(struct verify_kernel *kernel, const struct kernel_record *record)
{
	struct proof_kernel *facts = &kernel->facts;
	bool locked = kernel_record_has(record, KOPT_LOCKDOWN_INTEGRITY) ||
		      kernel_record_has(record, KOPT_LOCKDOWN_CONFIDENTIALITY);
	bool forced = kernel_record_has(record, KOPT_MODULE_SIG_FORCE);

	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): a record has no NULL */
	if (!*record->config_source && !*record->arch)
		return; /* of a tree without a configuration */
	if (!facts->machine)
		facts->machine = proof_machine(record->arch);
	facts->options.module_sig = option(record, KOPT_MODULE_SIG);
	facts->options.livepatch = option(record, KOPT_LIVEPATCH);
	facts->options.modules = option(record, KOPT_MODULES);
	facts->options.retpoline = option(record, KOPT_RETPOLINE);
	facts->options.page_kib = record->page_kib;
	/* The kernel requires this from its start, whatever its command line says. */
	if ((forced || locked) && !kernel->enforced_by) {
		kernel->enforced_by = forced ? "CONFIG_MODULE_SIG_FORCE=y"
					     : "lockdown, which the kernel's configuration forces";
		facts->trust.lockdown = !forced;
	}
	if (kernel->vermagic || !*record->vermagic)
		return;
	kernel->vermagic = xstrdup(record->vermagic);
	kernel->vermagic_source =
		xstrdup(strcmp(record->vermagic_source, "config") == 0 ? "the configuration"
								       : record->vermagic_source);
}

static void take_config_options(struct verify_kernel *kernel, const struct kconfig *config)
{
	struct kernel_options *options = &kernel->facts.options;
	const struct {
		const char *config;
		enum proof_option *option;
	} wanted[] = {
		{ "MODULE_FORCE_LOAD", &options->force_load },
		{ "MODULE_ALLOW_MISSING_NAMESPACE_IMPORTS", &options->missing_imports },
		{ "ARM64_MODULE_PLTS", &options->module_plts },
		{ "DYNAMIC_FTRACE", &options->dynamic_ftrace },
		{ "UNWIND_PATCH_PAC_INTO_SCS", &options->shadow_stacks },
	};

	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
		*wanted[i].option =
			kconfig_tristate(config, wanted[i].config) == 'y' ? PROOF_YES : PROOF_NO;
}

/*
 * check_version() of Linux warns since 4.9, and Debian has a patch against that. A distribution
 * that makes kernels of Debian's may have taken it over; those who make RPMs do not.
 */
void verify_kernel_take_os(
	struct verify_kernel *kernel, const struct catalogue *os, const char *krel)
{
	if (proof_version(krel) < PROOF_VERSION(4, 9) || !os->repository_count)
		return;
	for (size_t i = 0; i < os->repository_count; i++)
		if (os->repositories[i].kind != REPOSITORY_RPM_MD)
			return;
	kernel->facts.missing_versions = PROOF_YES;
}

/* The node of a probe may demand more than its kernel's configuration does. */
static void take_node(struct verify_kernel *kernel, const struct probe *probe)
{
	bool locked = probe->lockdown && *probe->lockdown && strcmp(probe->lockdown, "none") != 0;
	bool enforced = probe->sig_enforce == PROBE_YES;

	if (enforced || locked) {
		kernel->enforced_by = enforced ? "the node's sig_enforce" : "the node's lockdown";
		kernel->facts.trust.lockdown = !enforced;
	}
	for (size_t i = 0; i < probe->keys.count; i++)
		xstrv_push(&kernel->keys, probe->keys.items[i]);
}

/* --- where the parts of a kernel are: by what is in a folder --- */

/* Descriptors are -1 for what is not there. */
struct place {
	char *krel;     /* NULL: not known */
	int root_fd;    /* holds lib/modules/<krel> */
	int build_fd;   /* the build folder: Module.symvers, .config */
	int modules_fd; /* lib/modules/<krel>, with the kernel's own modules */
	char *record;   /* path of record.json, or NULL */
	char *symvers;  /* path of a Module.symvers that is all there is, or NULL */
};

#define PLACE_CLOSED                                                                               \
	{                                                                                          \
		.root_fd = -1, .build_fd = -1, .modules_fd = -1                                    \
	}

static void close_place(struct place *place)
{
	cleanup_close(&place->root_fd);
	cleanup_close(&place->build_fd);
	cleanup_close(&place->modules_fd);
	free(place->krel);
	free(place->record);
	free(place->symvers);
	*place = (struct place) PLACE_CLOSED;
}

static bool has_any(int fd, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (fs_exists(fd, names[i]))
			return true;
	return false;
}

/* lib/modules/<krel> itself, whatever of it there is. */
static bool is_modules_folder(int fd)
{
	static const char *const marks[] = { "kernel", "build", "modules.dep", "modules.order",
		"modules.builtin", "updates", "extra" };

	return has_any(fd, marks, ARRAY_SIZE(marks));
}

/* Below lib/modules, or usr/lib/modules of a root whose link from one to the other is not there. */
static int open_below(int root_fd, const char *krel, const char *rest)
{
	_cleanup_free_ char *path = xasprintf("usr/lib/modules/%s%s", krel, rest);
	int fd = open_in_root(root_fd, path + strlen("usr/"), O_RDONLY | O_DIRECTORY);

	return fd < 0 ? open_in_root(root_fd, path, O_RDONLY | O_DIRECTORY) : fd;
}

/* Opens the build folder and the modules of a root; either may be missing. */
static void take_root(struct place *place, int fd)
{
	place->root_fd = fd;
	place->modules_fd = open_below(fd, place->krel, "");
	place->build_fd = open_below(fd, place->krel, "/build");
}

/*
 * lib/modules/<krel> itself. Links of a root that is mounted somewhere start at the root above.
 * Takes @fd.
 */
static int take_folder(struct place *place, int fd, const char *path)
{
	_cleanup_free_ char *full = realpath(path, NULL);
	_cleanup_free_ char *end = NULL;
	const char *slash = full ? strrchr(full, '/') : NULL;
	size_t length;
	int root_fd;

	place->modules_fd = fd;
	if (!slash)
		return -errno;
	place->krel = xstrdup(slash + 1);
	end = xasprintf("/lib/modules/%s", place->krel);
	length = strlen(full);
	if (length >= strlen(end) && strcmp(full + length - strlen(end), end) == 0) {
		length -= strlen(end);
		if (length >= 4 && strncmp(full + length - 4, "/usr", 4) == 0)
			length -= 4;
		full[length ? length : 1] = '\0';
		root_fd = open(full, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (root_fd >= 0) {
			cleanup_close(&fd);
			take_root(place, root_fd);
			return 0;
		}
	}
	place->build_fd = openat(fd, "build", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return 0;
}

/* Appends the releases below lib/modules that have anything of a kernel. */
static int list_kernels(int fd, struct strv *krels)
{
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_close_ int modules_fd = open_below(fd, "", "");
	int r = modules_fd < 0 ? 0 : fs_list(modules_fd, ".", &names);

	for (size_t i = 0; i < names.count; i++) {
		_cleanup_close_ int one =
			openat(modules_fd, names.items[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		if (one >= 0 && krel_is_valid(names.items[i]) && is_modules_folder(one))
			xstrv_push(krels, names.items[i]);
	}
	return r;
}

/* Takes @folder. */
static int find_in_folder(
	struct place *place, int folder, const char *path, const char *krel, struct error *error)
{
	static const char *const build_marks[] = { "Module.symvers", ".config",
		"include/generated/utsrelease.h" };
	_cleanup_close_ int fd = folder;
	_cleanup_strv_ struct strv krels = { 0 };
	_cleanup_free_ char *list = NULL;
	int r = list_kernels(fd, &krels);

	if (r < 0)
		return error_set_errno(error, r, "--kernel %s", path);
	if (krels.count > 1 && !(krel && strv_contains(&krels, krel))) {
		list = xstrv_join(&krels, ", ");
		(void) error_set(
			error, -ENOTUNIQ, "--kernel %s: it has several kernels: %s", path, list);
		return error_try(error, -ENOTUNIQ,
			"give the folder of one of them: --kernel %s/lib/modules/<release>", path);
	}
	if (krels.count) {
		place->krel = xstrdup(krels.count == 1 ? krels.items[0] : krel);
		take_root(place, TAKE_FD(fd));
	} else if (has_any(fd, build_marks, ARRAY_SIZE(build_marks))) {
		/* A tree that was never prepared has no release of its own. */
		place->krel = kernel_tree_release(fd);
		if (!place->krel &&
			fs_read_line(fd, "include/config/kernel.release", &place->krel) < 0)
			place->krel = NULL;
		place->build_fd = TAKE_FD(fd);
	} else if (is_modules_folder(fd)) {
		r = take_folder(place, TAKE_FD(fd), path);
	} else {
		return error_set(error, -EINVAL,
			"--kernel %s: no kernel in this folder: it has neither "
			"lib/modules/<release> nor Module.symvers, .config or modules.order",
			path);
	}
	return r < 0 ? error_set_errno(error, r, "--kernel %s", path) : 0;
}

/* Another file than a record: a lock, which lies beside the images of a build, is known. */
static int no_record(const char *path, int r, struct error *error)
{
	_cleanup_(lock_free) struct lock lock = { 0 };
	struct error ignored;

	error->lines[0] = '\0'; /* about the cache's own */
	if (r != -EBADMSG || lock_read_file(AT_FDCWD, path, &lock, &ignored) < 0)
		return error_prefix(error, r, "--kernel");
	(void) error_set(error, r, "--kernel %s: a lock, which names a kernel and has none", path);
	return error_try(error, r, "--kernel %s --os %s", lock.krel, lock.os);
}

/* A record.json lies beside its tree in the cache; one that was copied out is alone. */
static int find_record(struct place *place, const char *path, struct error *error)
{
	_cleanup_(kernel_record_free) struct kernel_record record = { 0 };
	const char *slash = strrchr(path, '/');
	_cleanup_free_ char *folder = slash ? xstrndup(path, (size_t) (slash - path + 1)) : NULL;
	int r = kernel_record_load(AT_FDCWD, path, &record, error), fd;

	if (r < 0)
		return no_record(path, r, error);
	place->krel = xstrdup(record.krel);
	place->record = xstrdup(path);
	fd = open(folder ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0)
		take_root(place, fd);
	return 0;
}

/* @krel, or NULL, picks one of several kernels. */
static int find_place(const char *path, const char *krel, struct place *ret, struct error *error)
{
	_cleanup_(close_place) struct place place = PLACE_CLOSED;
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = 0;

	if (fd >= 0)
		r = find_in_folder(&place, fd, path, krel, error);
	else if (verify_is_symvers(path))
		place.symvers = xstrdup(path);
	else
		r = find_record(&place, path, error);
	if (r < 0)
		return r;
	if (!place.record && place.root_fd >= 0 && fs_exists(place.root_fd, KERNEL_RECORD_FILE))
		place.record = xasprintf("%s/" KERNEL_RECORD_FILE, path);
	*ret = place;
	place = (struct place) PLACE_CLOSED;
	return 0;
}

/* --- reading a kernel that is there --- */

void verify_kernel_free(struct verify_kernel *kernel)
{
	free(kernel->krel);
	free(kernel->vermagic);
	free(kernel->vermagic_source);
	symvers_close(&kernel->symvers);
	symvers_close(&kernel->with);
	strv_free(&kernel->symvers_sources);
	strv_free(&kernel->modules);
	strv_free(&kernel->builtin);
	strv_free(&kernel->aliases);
	strv_free(&kernel->keys);
	strv_free(&kernel->notes);
	verify_input_close(&kernel->own);
	*kernel = (struct verify_kernel) VERIFY_KERNEL_CLOSED;
}

static int read_symvers(struct symvers **symvers, int dir_fd, const char *path, struct error *error)
{
	return *symvers ? symvers_add(*symvers, dir_fd, path, error)
			: symvers_open(dir_fd, path, symvers, error);
}

/* @name is for people. */
static int add_symvers(struct verify_kernel *kernel, int dir_fd, const char *path, const char *name,
	struct error *error)
{
	int r = read_symvers(&kernel->symvers, dir_fd, path, error);

	if (r == 0)
		xstrv_push(&kernel->symvers_sources, name);
	return r;
}

/* The first of the kernel's own modules; the smallest lie in lib. */
static const char *first_module(const struct strv *paths)
{
	static const char *const folders[] = { "kernel/lib/", "kernel/" };

	for (size_t i = 0; i < ARRAY_SIZE(folders); i++)
		for (size_t k = 0; k < paths->count; k++)
			if (strncmp(paths->items[k], folders[i], strlen(folders[i])) == 0)
				return paths->items[k];
	return NULL;
}

/*
 * The kernel states its vermagic, machine and sizeof(struct module) in each of its own modules:
 * only those below kernel/ are its own.
 */
static void ask_module(struct verify_kernel *kernel)
{
	_cleanup_(elf_module_close) struct elf_module *module = NULL;
	const char *path = first_module(&kernel->own.modules);
	const char *vermagic;
	struct error ignored = { 0 };

	if (!path || elf_module_open(kernel->own.fd, path, &module, &ignored) < 0)
		return;
	kernel->facts.machine = elf_module_machine(module);
	kernel->facts.struct_size = elf_module_struct_size(module);
	kernel_options_of_module(module, &kernel->facts.options);
	vermagic = elf_module_info(module, "vermagic");
	if (!vermagic)
		return;
	free(kernel->vermagic);
	free(kernel->vermagic_source);
	kernel->vermagic = xstrdup(vermagic);
	kernel->vermagic_source = xstrdup(path);
	if (!kernel->krel)
		kernel->krel = xstrndup(vermagic, strcspn(vermagic, " "));
}

static void add_names(const struct strv *paths, struct strv *names)
{
	char name[NAME_SIZE];

	for (size_t i = 0; i < paths->count; i++)
		if (module_name_of_file(paths->items[i], name, sizeof(name)))
			xstrv_push(names, name);
}

/*
 * Built-in modules have theirs in modules.builtin.modinfo, since Linux 5.2: it is their .modinfo,
 * each entry with the module's name and a dot before it. depmod writes those of the others: lines
 * "alias PATTERN MODULE". Without depmod's file only the modules themselves have them.
 */
static void take_aliases(struct verify_kernel *kernel, int modules_fd)
{
	_cleanup_free_ char *text = NULL;
	_cleanup_strv_ struct strv lines = { 0 };
	size_t size = 0;

	if (fs_read(modules_fd, "modules.builtin.modinfo", 0, &text, &size) == 0) {
		for (const char *entry = text; entry < text + size; entry += strlen(entry) + 1) {
			const char *dot = strchr(entry, '.');

			if (dot && strncmp(dot + 1, "alias=", 6) == 0)
				xstrv_push(&kernel->aliases, dot + 7);
		}
	}
	free(TAKE_PTR(text));
	if (fs_read(modules_fd, "modules.alias", 0, &text, NULL) < 0)
		return;
	xstrv_split(&lines, text, "\n");
	for (size_t i = 0; i < lines.count; i++) {
		const char *alias = lines.items[i] + strlen("alias ");

		if (strncmp(lines.items[i], "alias ", strlen("alias ")) == 0)
			xstrv_pushf(&kernel->aliases, "%.*s", (int) strcspn(alias, " "), alias);
	}
	kernel->aliases_known = true;
}

static int take_modules(struct verify_kernel *kernel, int modules_fd, struct error *error)
{
	struct verify_input *own = &kernel->own;
	_cleanup_strv_ struct strv builtin = { 0 };
	_cleanup_free_ char *text = NULL;
	int r;

	own->fd = fcntl(modules_fd, F_DUPFD_CLOEXEC, 0);
	if (own->fd < 0)
		return error_set_errno(error, -errno, "modules of the kernel");
	r = verify_input_list(own, error);
	if (r < 0)
		return r;
	ask_module(kernel);
	/* A line of modules.builtin is a path: "kernel/lib/crc16.ko". */
	if (fs_read(modules_fd, "modules.builtin", 0, &text, NULL) == 0)
		xstrv_split(&builtin, text, "\n");
	add_names(&builtin, &kernel->builtin);
	add_names(&builtin, &kernel->modules);
	add_names(&own->modules, &kernel->modules);
	take_aliases(kernel, modules_fd);
	return 0;
}

/* A file in one of a kernel's folders. */
struct part {
	int fd;
	const char *path;
};

static bool is_there(const struct part *part)
{
	return part->fd >= 0 && fs_exists(part->fd, part->path);
}

static int take_config(struct verify_kernel *kernel, const struct place *place, struct error *error)
{
	_cleanup_free_ char *boot = xasprintf("boot/config-%s", place->krel ? place->krel : "");
	const struct part parts[] = {
		{ place->build_fd, kernel_config_in_build[0] },
		{ place->build_fd, kernel_config_in_build[1] },
		{ place->modules_fd, "config" },
		{ place->root_fd, boot },
	};
	_cleanup_(kernel_record_free) struct kernel_record record = { 0 };
	_cleanup_(kconfig_free) struct kconfig *config = NULL;
	int r = -ENOENT;

	/* A link among them may lead nowhere. */
	for (size_t i = 0; i < ARRAY_SIZE(parts) && r == -ENOENT; i++)
		if (parts[i].fd >= 0)
			r = kconfig_read(parts[i].fd, parts[i].path, &config, error);
	if (r < 0 && r != -ENOENT)
		return r;
	r = 0;
	if (place->record) {
		r = kernel_record_load(AT_FDCWD, place->record, &record, error);
	} else if (config && place->krel) {
		/* Its vermagic.h may add preempt_rt. */
		if (place->root_fd >= 0 && place->build_fd >= 0 && !kernel->vermagic)
			r = kernel_record_make(place->root_fd, place->krel, &record, error);
		else
			kernel_record_of_config(config, place->krel, NULL, &record);
	}
	if (r < 0)
		return r;
	if (record.krel)
		take_record(kernel, &record);
	if (config)
		take_config_options(kernel, config);
	return 0;
}

/* Without a Module.symvers: what vmlinux exports by its System.map, and its modules by themselves.
 */
static void take_system_map(struct verify_kernel *kernel, const struct place *place)
{
	_cleanup_free_ char *boot =
		xasprintf("boot/" SYSTEM_MAP "-%s", place->krel ? place->krel : "");
	const struct part parts[] = {
		{ place->build_fd, SYSTEM_MAP },
		{ place->modules_fd, SYSTEM_MAP },
		{ place->root_fd, boot },
	};
	const struct verify_input *own = &kernel->own;

	for (size_t i = 0; i < ARRAY_SIZE(parts) && !kernel->symvers; i++) {
		_cleanup_(symvers_close) struct symvers *symvers = NULL;
		struct error why = { 0 };
		int r;

		if (!is_there(&parts[i]))
			continue;
		if (symvers_new(&symvers) < 0)
			out_of_memory();
		r = symvers_add_system_map(symvers, parts[i].fd, parts[i].path, &why);
		if (r == -ENOMEM)
			out_of_memory();
		if (r == 0)
			kernel->symvers = TAKE_PTR(symvers);
		xstrv_push(r < 0 ? &kernel->notes : &kernel->symvers_sources,
			r < 0 ? why.text : parts[i].path);
	}
	for (size_t i = 0; kernel->symvers && i < own->modules.count; i++) {
		_cleanup_(elf_module_close) struct elf_module *module = NULL;
		struct error ignored = { 0 };

		if (strncmp(own->modules.items[i], "kernel/", 7) == 0 &&
			elf_module_open(own->fd, own->modules.items[i], &module, &ignored) == 0 &&
			symvers_add_module(kernel->symvers, module) < 0)
			out_of_memory();
	}
}

static int read_place(struct verify_kernel *kernel, const struct place *place, struct error *error)
{
	const struct part parts[] = {
		{ place->build_fd, "Module.symvers" },
		{ place->modules_fd, "symvers.gz" }, /* Enterprise Linux, Fedora */
		{ place->modules_fd, "symvers.xz" },
		{ place->modules_fd, "symvers.zst" },
	};
	int r = 0;

	if (place->symvers) {
		xstrv_pushf(&kernel->notes,
			"%s has the kernel's exports but not its release and vermagic: give "
			"--kernel RELEASE or a tree for these",
			place->symvers);
		return add_symvers(kernel, AT_FDCWD, place->symvers, place->symvers, error);
	}
	if (place->krel && !kernel->krel)
		kernel->krel = xstrdup(place->krel);
	if (place->modules_fd >= 0)
		r = take_modules(kernel, place->modules_fd, error);
	if (r == 0)
		r = take_config(kernel, place, error);
	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		if (is_there(&parts[i]))
			return add_symvers(
				kernel, parts[i].fd, parts[i].path, parts[i].path, error);
	take_system_map(kernel, place);
	return 0;
}

int verify_kernel_open(
	struct verify_kernel *kernel, const char *path, const char *krel, struct error *error)
{
	_cleanup_(close_place) struct place place = PLACE_CLOSED;
	int r = find_place(path, krel, &place, error);

	if (r < 0)
		return r;
	r = read_place(kernel, &place, error);
	return r == -EINVAL ? -EBADMSG : r;
}

/* --- one that has to be found, fetched or unpacked first, in the cache --- */

/* *ret_whole: the bundle alone is enough, and no headers have to be looked for. */
static int take_probe(struct verify_kernel *kernel, const struct kernel *found, bool *ret_whole,
	struct error *error)
{
	const struct kernel_node *node = &found->node;
	_cleanup_close_ int fd = -1;
	_cleanup_free_ char *text = NULL;
	char self[64];
	size_t size;
	int r;

	if (!node->probe || found->local.has_headers || node->probe->symvers != PROBE_YES)
		return 0;
	*ret_whole = true;
	take_node(kernel, node->probe);
	kernel->krel = xstrdup(found->local.krel);
	if (node->config) {
		take_record(kernel, &node->record);
		take_config_options(kernel, node->config);
	}
	r = archive_member_read(
		node->path, PROBE_SYMVERS, KERNEL_SYMVERS_LIMIT, &text, &size, error);
	if (r < 0)
		return r == -ENOENT ? 0 : error_set_errno(error, r, "%s", node->path);
	fd = memfd_create("symvers", MFD_CLOEXEC);
	r = fd < 0 ? -errno : fs_write_all(fd, text, size);
	if (r < 0)
		return error_set_errno(error, r, "%s", node->path);
	(void) snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	return add_symvers(kernel, AT_FDCWD, self, PROBE_SYMVERS, error);
}

int verify_kernel_read_tree(struct verify_kernel *kernel, const struct kernel *found,
	const char *modules, struct error *error)
{
	_cleanup_(close_place) struct place place = PLACE_CLOSED;
	const char *krel = found->lock.krel;
	int r;

	if (access(found->tree.path, F_OK) < 0)
		return error_set_errno(error, -EIO, "%s", found->tree.path);
	r = find_place(found->tree.path, krel, &place, error);
	if (r < 0)
		return r;
	take_record(kernel, &found->record);
	if (found->node.probe)
		take_node(kernel, found->node.probe);
	/* Files of the user's are any kernel's. */
	if (!found->local.count)
		verify_kernel_take_os(kernel, &found->context->os, krel);
	cleanup_close(&place.modules_fd);
	if (modules) {
		_cleanup_free_ char *path = xasprintf("%s/lib/modules/%s", modules, krel);

		place.modules_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		r = place.modules_fd < 0 ? -errno : 0;
		/* A kernel may have none; what was unpacked here has to be there. */
		if (r < 0 && (r != -ENOENT || access(modules, F_OK) < 0))
			return error_set_errno(error, r, "%s", path);
	}
	return read_place(kernel, &place, error);
}

/* The kernel's own modules: wanted, but the proof is worth having without them. */
static const char *find_modules(struct verify_kernel *kernel, struct kernel *found)
{
	_cleanup_close_ int fd = -1;
	struct error why = { 0 };
	int r;

	/* Built-in modules need not be known. */
	if (found->local.modules_unlisted) {
		found->local.has_modules = true;
		xstrv_pushf(&kernel->notes,
			"the kernel's built-in modules are unknown: the files of --kernel include "
			"no modules.builtin (Debian's linux-base-%s has it)",
			found->lock.krel);
	}
	if (!found->local.has_modules && !lock_find(&found->lock, LOCK_MODULES)) {
		xstrv_push(&kernel->notes,
			"the files of --kernel do not include the kernel's own modules: only their "
			"exports are known, from Module.symvers");
		return NULL;
	}
	r = kernel_modules(found, &fd, &why);
	if (r != -EINTR)
		found->context->failure = EXIT_CODE_OK;
	if (r == 0)
		return found->modules.path;
	xstrv_push(&kernel->notes, why.text);
	return NULL;
}

int verify_kernel_fetch(struct verify_kernel *kernel, struct kernel *found,
	const struct strv *texts, struct error *error)
{
	_cleanup_strv_ struct strv files = { 0 };
	bool whole = false;
	int r;

	/* A release and files, as build takes them by --kernel and --kernel-from. */
	for (size_t i = 0; i < texts->count; i++) {
		if (access(texts->items[i], F_OK) < 0)
			found->request.krel = texts->items[i];
		else
			xstrv_push(&files, texts->items[i]);
	}
	found->request.files = files;
	found->request.files_option = "--kernel";
	found->request.no_modules = files.count > 0;
	found->request.no_os = true;
	r = kernel_find(found, error);
	found->request.files = (struct strv){ 0 };
	if (r == 0)
		r = take_probe(kernel, found, &whole, error);
	if (r < 0 || whole)
		return r;
	r = kernel_lock(found, error);
	if (r == 0)
		r = kernel_open_tree(found, error);
	return r < 0 ? r
		     : verify_kernel_read_tree(kernel, found, find_modules(kernel, found), error);
}

/* --- --with: what is loaded before, and not part of the kernel --- */

/* Appends the modules that export anything, without vmlinux; twice where they are not together. */
static void list_exporters(const struct symvers *symvers, struct strv *names)
{
	char last[NAME_SIZE] = "vmlinux";

	for (size_t i = 0; i < symvers_count(symvers); i++) {
		char name[NAME_SIZE];

		symvers_module_name(symvers_at(symvers, i), name, sizeof(name));
		if (strcmp(name, last) == 0)
			continue;
		memcpy(last, name, sizeof(last));
		if (strcmp(name, "vmlinux") != 0)
			xstrv_push(names, name);
	}
}

/*
 * A module of --with takes the place of the one of that name in @into, with all that it exports:
 * what only that one had is not there any more.
 */
static void merge(struct symvers **into, const struct symvers *with)
{
	_cleanup_strv_ struct strv names = { 0 };
	struct symvers *merged = NULL;

	list_exporters(with, &names);
	strv_sort(&names);
	if (symvers_new(&merged) < 0)
		out_of_memory();
	for (size_t i = 0; *into && i < symvers_count(*into); i++) {
		const struct symvers_entry *entry = symvers_at(*into, i);
		char name[NAME_SIZE];
		size_t at;

		symvers_module_name(entry, name, sizeof(name));
		at = verify_search(&names, name);
		if ((at == names.count || strcmp(names.items[at], name) != 0) &&
			symvers_put(merged, entry) < 0)
			out_of_memory();
	}
	for (size_t i = 0; i < symvers_count(with); i++)
		if (symvers_put(merged, symvers_at(with, i)) < 0)
			out_of_memory();
	symvers_close(into);
	*into = merged;
}

int verify_kernel_add_with(
	struct verify_kernel *kernel, const struct verify_input *input, struct error *error)
{
	_cleanup_(symvers_close) struct symvers *with = NULL;
	bool file = input->kind == VERIFY_SYMVERS;
	const char *space = file ? "" : " ";
	const char *name = file ? "" : input->name;

	for (size_t i = 0; i < input->symvers.count; i++) {
		int r = read_symvers(&with, input->fd, input->symvers.items[i], error);

		if (r < 0)
			return error_prefix(error, r, "--with%s%s", space, name);
		xstrv_pushf(&kernel->symvers_sources, "%s%s%s", name, file ? "" : "/",
			input->symvers.items[i]);
	}
	/* A module knows better than a list what it exports: the list may be of another build. */
	for (size_t i = 0; i < input->modules.count; i++) {
		_cleanup_(elf_module_close) struct elf_module *module = NULL;
		int r = elf_module_open(input->fd, input->modules.items[i], &module, error);

		if (r < 0)
			return error_prefix(error, r, "--with%s%s", space, name);
		if ((!with && symvers_new(&with) < 0) || symvers_add_module(with, module) < 0)
			out_of_memory();
	}
	if (input->modules.count)
		xstrv_push(&kernel->symvers_sources, input->name);
	if (with) {
		merge(&kernel->symvers, with);
		merge(&kernel->with, with);
	}
	return 0;
}

void verify_kernel_finish(struct verify_kernel *kernel)
{
	struct proof_kernel *facts = &kernel->facts;

	if (kernel->with && kernel->modules.count)
		list_exporters(kernel->symvers, &kernel->modules);
	facts->krel = kernel->krel;
	facts->version = kernel->krel ? proof_version(kernel->krel) : 0;
	facts->vermagic = kernel->vermagic;
	facts->symvers = kernel->symvers;
	facts->builtin = kernel->builtin.count ? &kernel->builtin : NULL;
}
