/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/export/export_internal.h"

#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/process.h"
#include "common/text.h"
#include "common/xalloc.h"

#define ASIDE ".slipway-export-" /* the folder of a run, in --output, until all is written */

static int stage_layer(struct export *export, struct staging *root, struct error *error)
{
	_cleanup_strv_ struct strv names = { 0 };
	int r = export_stage_modules(export, root, error);

	if (r < 0)
		return r;
	export_list_loaded(export, &names);
	if (names.count)
		staging_write_lines(root, "usr/lib/modules-load.d/" EXPORT_NAME ".conf", &names);
	export_stage_rules(export, root, EXPORT_NAME);
	return root->result;
}

const struct export_form export_forms[] = {
	{ "layer", stage_layer, export_write_layer, export_print_layer, { NULL }, false, false },
	{ "tar", stage_layer, export_write_tar, export_print_tar, { NULL }, false, false },
	{ "sysext", export_stage_sysext, export_write_sysext, export_print_sysext,
		{ "mksquashfs", "depmod" }, true, true },
	{ 0 },
};

int export_choose_form(const char *name, const struct export_form **ret, struct error *error)
{
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *text = NULL;

	for (const struct export_form *form = export_forms; form->name; form++) {
		if (strcmp(form->name, name) == 0) {
			*ret = form;
			return 0;
		}
		xstrv_push(&names, form->name);
	}
	text = xstrv_join(&names, ", ");
	return error_set(error, -EINVAL, "--as %s: not one of: %s", name, text);
}

bool export_form_signs(const struct export_form *form)
{
	return form->signs;
}

static int open_key(struct export *export, struct error *error)
{
	_cleanup_(sign_password_free) char *password = NULL;
	struct module_signer signer = { .hash = "sha256" };
	int r = sign_password_read(&export->password, &password, error);

	if (r == 0)
		r = sign_key_open(export->sign_key, password, &export->key, error);
	if (r == 0)
		r = module_cert_read(AT_FDCWD, export->sign_cert, &export->cert, error);
	signer.key = export->key;
	signer.cert = export->cert;
	if (r == 0)
		r = module_signer_check(&signer, error);
	return r < 0 ? context_fail_key(export->context, r) : 0;
}

int export_prepare(struct export *export, struct error *error)
{
	const struct export_form *form = export->form;

	for (size_t i = 0; i < ARRAY_SIZE(form->programs) && form->programs[i]; i++)
		if (!process_can_start(form->programs[i]))
			return process_no_program(form->programs[i], error);
	if (!export->sign_key)
		return 0;
	return process_can_start("veritysetup") ? open_key(export, error)
						: process_no_program("veritysetup", error);
}

/* ---- writing */

/* systemd would check an extension that has no signature now by one that it had. */
static int remove_signature(struct export *export, struct error *error)
{
	static const char *const ends[] = { "verity", "roothash", "roothash.p7s" };

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		_cleanup_free_ char *path =
			xasprintf("%s/%s.%s", export->output, export->name, ends[i]);

		if (unlink(path) < 0 && errno != ENOENT)
			return error_set_errno(error, -errno, "%s", path);
	}
	return 0;
}

/* The files are written aside first: a full disk leaves none of them half there. */
static int place(struct export *export, const char *from, struct error *error)
{
	int r = export->form->signs && !export->key ? remove_signature(export, error) : 0;

	if (r < 0)
		return r;
	for (size_t i = 0; i < export->files.count; i++) {
		const char *name = export->files.items[i];
		_cleanup_free_ char *old = xasprintf("%s/%s", from, name);
		_cleanup_free_ char *new = xasprintf("%s/%s", export->output, name);

		/* veritysetup's is for its user alone. */
		if (chmod(old, 0644) < 0 || rename(old, new) < 0)
			return error_set_errno(error, -errno, "%s", new);
	}
	return 0;
}

/* A run holds the lock of its folder for as long as it lives. */
static int lock_folder(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0)
		cleanup_close(&fd);
	return fd;
}

void export_sweep(const char *output)
{
	_cleanup_strv_ struct strv names = { 0 };

	(void) !fs_list(AT_FDCWD, output, &names);
	for (size_t i = 0; i < names.count; i++) {
		_cleanup_free_ char *path = xasprintf("%s/%s", output, names.items[i]);
		bool aside = strncmp(names.items[i], ASIDE, strlen(ASIDE)) == 0;
		_cleanup_close_ int fd = aside ? lock_folder(path) : -1;

		if (fd >= 0)
			(void) !fs_remove_tree(AT_FDCWD, path);
	}
}

/* The sum of the tree's files: those that are written are packed, and need no more. */
static unsigned long long tree_size(const char *root)
{
	_cleanup_close_ int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_strv_ struct strv paths = { 0 };
	unsigned long long size = 0;
	struct stat status;

	(void) !fs_list_tree(fd, "usr", &paths);
	for (size_t i = 0; i < paths.count; i++)
		if (fstatat(fd, paths.items[i], &status, AT_SYMLINK_NOFOLLOW) == 0)
			size += (unsigned long long) status.st_size;
	return size;
}

int export_name_cache(const struct export *export, int r, struct error *error)
{
	if (r != -ENOSPC)
		return r;
	(void) error_try(error, r, "slipway cache prune");
	(void) error_try(error, r, "use a folder on another disk: --cache DIR");
	return cache_name_full(&export->context->cache, r, error);
}

/* After what was written in part is gone again. A full cache has its line in @error already. */
static int name_full(const struct export *export, const char *root, int r, struct error *error)
{
	struct statvfs disk = { 0 };

	if ((r != -ENOSPC && r != -EDQUOT) || *error->lines)
		return r;
	(void) statvfs(export->output, &disk);
	(void) error_set_errno(error, r, "--output %s: needs up to %llu MB, has room for %llu",
		export->output, tree_size(root) / 1000000 + 1,
		(unsigned long long) disk.f_bavail * disk.f_frsize / 1000000);
	return error_try(error, r, "free some there, or name a folder on another disk");
}

static int write_files(struct export *export, const char *root, struct error *error)
{
	_cleanup_free_ char *aside = xasprintf("%s/" ASIDE "XXXXXX", export->output);
	_cleanup_close_ int lock = -1;
	int r = fs_mkdir_parents(AT_FDCWD, export->output, 0755);
	int removed;

	export_sweep(export->output);
	if (r == 0 && !mkdtemp(aside))
		r = -errno;
	if (r < 0)
		return error_set_errno(error, r, "%s", export->output);
	lock = lock_folder(aside);
	progress_step(&export->context->progress, export->form->name);
	r = export->form->write(export, root, aside, error);
	if (r == 0)
		r = place(export, aside, error);
	removed = fs_remove_tree(AT_FDCWD, aside);
	if (r == 0 && removed < 0)
		r = error_set_errno(error, removed, "%s", aside);
	return name_full(export, root, r, error);
}

int export_make(struct export *export, struct error *error)
{
	_cleanup_(staging_close) struct staging root = { .fd = -1 };
	_cleanup_free_ char *folder = NULL;
	int r = cache_new_folder(&export->context->cache, "export", &folder);

	if (r < 0)
		return error_set_errno(error, r, "export");
	progress_step(&export->context->progress, export->name);
	r = staging_open(&root, folder, error);
	/* Rules call programs of the userspace. */
	if (r == 0)
		r = export_stage_userspace(export, &root, error);
	if (r == 0)
		r = export->form->stage(export, &root, error);
	if (r == 0)
		r = export_finish_tree(export, &root, error);
	if (r < 0)
		return export_name_cache(export, r, error);
	return write_files(export, folder, error);
}

/* ---- the report */

void export_print(const struct export *export)
{
	_cleanup_free_ char *needs = xstrv_join(&export->needs, " ");

	for (size_t i = 0; i < export->files.count; i++)
		text_print(stdout, "%s/%s\n", export->output, export->files.items[i]);
	text_print(stdout, "  for %s on %s: %zu module%s", export->krel, export->context->os.name,
		export->modules.count, export->modules.count == 1 ? "" : "s");
	if (export->peermem_ofed)
		text_print(stdout, ", nvidia-peermem for %s%s",
			*export->peermem_ofed ? "OFED " : "the kernel's own RDMA",
			export->peermem_ofed);
	(void) putchar('\n');
	if (export->glibc)
		text_print(stdout, "  The system needs glibc %s or newer; programs link: %s\n",
			export->glibc, needs);
	export->form->print(export);
}
