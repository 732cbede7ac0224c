/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/sign/sign_folder.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "common/path.h"
#include "common/xalloc.h"
#include "kernels/krel.h"
#include "kernels/tree/kconfig.h"
#include "module/elf.h"
#include "module/kernel_config.h"
#include "module/sign.h"

#define MODULE_SIZE_LIMIT ((size_t) 512 << 20) /* as elf_file.c has it */

int sign_job_content(struct sign_job *job, const char *path, char **ret_data, size_t *ret_size,
	struct error *error)
{
	const char *folder = job->set.folder;
	_cleanup_(elf_module_close) struct elf_module *module = NULL;
	_cleanup_free_ char *data = NULL;
	struct module_trailer trailer;
	size_t size;
	int r = elf_module_open(job->set.fd, path, &module, error);

	if (r < 0)
		return error_prefix(error, r, "%s", folder);
	r = fs_read(job->set.fd, path, MODULE_SIZE_LIMIT, &data, &size);
	if (r < 0)
		return error_set_errno(error, r, "%s/%s", folder, path);
	r = module_trailer_read(data, size, &trailer, error);
	if (r < 0)
		return error_prefix(error, r, "%s/%s", folder, path);
	if (trailer.present && !job->replace) {
		(void) error_set(error, -EEXIST,
			"%s/%s: already signed, and a second signature would hide the first from "
			"the kernel",
			folder, path);
		return error_try(error, -EEXIST, "replace the signature: --replace");
	}
	job->replaced += trailer.present;
	*ret_size = trailer.content_size;
	*ret_data = TAKE_PTR(data);
	return 0;
}

int sign_job_stage(struct sign_job *job, const char *path, const char *content, size_t content_size,
	const void *cms, size_t cms_size, struct error *error)
{
	struct module_cert *const certs[] = { job->signer.cert };
	size_t size = content_size + cms_size + MODULE_TRAILER_SIZE;
	_cleanup_free_ char *data = xreallocarray(NULL, size, 1);
	int r;

	memcpy(data, content, content_size);
	memcpy(data + content_size, cms, cms_size);
	module_trailer_write(cms_size, (unsigned char *) data + content_size + cms_size);
	r = module_signature_verify(data, size, certs, 1, NULL, error);
	if (r < 0)
		return error_prefix(error, r, "%s/%s", job->set.folder, path);
	return sign_set_stage(&job->set, path, data, size, error);
}

int sign_job_run(struct sign_job *job, struct error *error)
{
	for (size_t i = 0; i < job->set.paths.count; i++) {
		const char *path = job->set.paths.items[i];
		_cleanup_free_ unsigned char *cms = NULL;
		_cleanup_free_ char *data = NULL;
		size_t size = 0, cms_size = 0;
		int r = sign_job_content(job, path, &data, &size, error);

		if (r < 0 || !data)
			return r;
		r = module_sign(&job->signer, data, size, &cms, &cms_size, error);
		if (r < 0)
			return error_prefix(error, r, "%s/%s", job->set.folder, path);
		r = sign_job_stage(job, path, data, size, cms, cms_size, error);
		if (r < 0)
			return r;
	}
	return 0;
}

/* --- the configuration that --kernel names --- */

/* The only name in a folder that begins so, freed by the caller. -ENOENT, or -ENOTUNIQ. */
static int find_only(int dir_fd, const char *folder, const char *beginning, char **ret)
{
	_cleanup_strv_ struct strv names = { 0 };
	const char *found = NULL;
	int r = fs_list(dir_fd, folder, &names);

	if (r < 0)
		return r;
	for (size_t i = 0; i < names.count; i++) {
		if (strncmp(names.items[i], beginning, strlen(beginning)) != 0)
			continue;
		if (found)
			return -ENOTUNIQ;
		found = names.items[i];
	}
	if (!found)
		return -ENOENT;
	*ret = xstrdup(found);
	return 0;
}

/*
 * In @fd, which is a build folder, lib/modules/<krel>, a kernel tree or an unpacked kernel package;
 * links in a tree stay in it. The descriptor, or a negative errno.
 */
static int open_in_folder(int fd)
{
	_cleanup_free_ char *krel = NULL;
	_cleanup_free_ char *name = NULL;
	_cleanup_free_ char *path = NULL;
	int tree = find_only(fd, "lib/modules", "", &krel), r;

	for (size_t i = 0; kernel_config_in_build[i]; i++) {
		const char *file = kernel_config_in_build[i];
		_cleanup_free_ char *in_build = xasprintf("build/%s", file);
		_cleanup_free_ char *below =
			xasprintf("lib/modules/%s/%s", krel ? krel : "", in_build);
		int config = fs_open(fd, file, O_RDONLY);

		if (config < 0)
			config = fs_open(fd, in_build, O_RDONLY);
		if (config < 0 && krel)
			config = fs_only_file(open_in_root(fd, below, O_RDONLY | O_NONBLOCK));
		if (config >= 0)
			return config;
		if (tree < 0 && tree != -ENOENT)
			return tree;
	}
	/* A package has boot/config-<release>; Fedora's lib/modules/<release> has config. */
	r = find_only(fd, "boot", "config-", &name);
	if (r < 0 && r != -ENOENT)
		return r;
	path = r == 0 ? xasprintf("boot/%s", name) : xstrdup("config");
	return fs_open(fd, path, O_RDONLY);
}

/* @kernel is a configuration itself, one of these folders, or a release of this machine's. */
static int open_config(const char *kernel)
{
	char place[512];
	_cleanup_close_ int fd = -1;
	int r = fs_open(AT_FDCWD, kernel, O_RDONLY);

	if (r == -EISDIR) {
		fd = open(kernel, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		r = fd < 0 ? -errno : open_in_folder(fd);
	}
	if (r != -ENOENT || !krel_is_valid(kernel))
		return r;
	for (size_t i = 0; r == -ENOENT && kernel_config_place(i, kernel, place, sizeof(place));
		i++) {
		_cleanup_free_ char *path = xasprintf("/%s", place);
		int config = fs_open(AT_FDCWD, path, O_RDONLY);

		r = config < 0 ? -ENOENT : config;
	}
	return r;
}

int sign_job_kernel_hash(const char *kernel, char **ret_hash, struct error *error)
{
	_cleanup_(kconfig_free) struct kconfig *config = NULL;
	_cleanup_close_ int fd = open_config(kernel);
	const char *hash;
	char self[64];
	int r;

	if (fd == -ENOTUNIQ) {
		(void) error_set(
			error, -EINVAL, "--kernel %s: it has several kernel releases", kernel);
		return error_try(error, -EINVAL, "give the build folder of one of them: --kernel");
	}
	if (fd == -ENOENT) {
		(void) error_set(error, fd, "--kernel %s: %s%s", kernel,
			access(kernel, F_OK) == 0 ? "it has no kernel configuration"
						  : "no such file or folder",
			access(kernel, F_OK) == 0 || strchr(kernel, '/')
				? ""
				: ", and this machine has no configuration of a kernel with that "
				  "release");
		(void) error_try(error, fd,
			"give --kernel a config file (/boot/config-<release>), a build folder with "
			".config, a kernel tree or an unpacked kernel package");
		return error_try(error, fd, "name the hash: --hash HASH");
	}
	if (fd < 0)
		return error_set_errno(error, fd, "--kernel %s", kernel);
	(void) snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	r = kconfig_read(AT_FDCWD, self, &config, error);
	if (r < 0)
		return error_prefix(error, r, "--kernel %s", kernel);
	hash = kconfig_get(config, "MODULE_SIG_HASH");
	if (kconfig_tristate(config, "MODULE_SIG") != 'y' || !hash || !*hash) {
		(void) error_set(error, -ENODATA,
			"--kernel %s: this kernel was built without CONFIG_MODULE_SIG and checks "
			"no signatures",
			kernel);
		return error_try(error, -ENODATA, "to sign anyway: --hash HASH");
	}
	*ret_hash = xstrdup(hash);
	return 0;
}
