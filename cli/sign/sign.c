/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/sign/sign.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "common/xalloc.h"
#include "kernels/krel.h"
#include "kernels/tree/kconfig.h"
#include "kernels/tree/tree.h"
#include "module/cms.h"

void sign_content_free(struct sign_content *content)
{
	free(content->data);
	*content = (struct sign_content){ 0 };
}

int sign_job_content(
	struct sign_job *job, const char *path, struct sign_content *ret, struct error *error)
{
	_cleanup_(sign_content_free) struct sign_content content = { 0 };
	struct module_trailer trailer;
	int r = sign_set_read(&job->set, path, &content.data, &content.size, error);

	if (r < 0)
		return r;
	r = module_trailer_read(content.data, content.size, &trailer, error);
	if (r < 0)
		return error_prefix(error, r, "%s/%s", job->set.folder, path);
	if (trailer.present && !job->replace)
		return error_set(error, -EEXIST,
			"%s/%s: signed already: --replace signs it anew; a second signature on top "
			"of the first would hide it from the kernel",
			job->set.folder, path);
	job->replaced += trailer.present;
	content.size = trailer.content_size;
	*ret = content;
	content.data = NULL;
	return 0;
}

int sign_job_stage(struct sign_job *job, const char *path, struct sign_content *content,
	const void *cms, size_t cms_size, struct error *error)
{
	struct module_cert *const certs[] = { job->signer.cert };
	size_t size = content->size + cms_size + MODULE_TRAILER_SIZE;
	char *data = xreallocarray(content->data, size, 1);
	int r;

	content->data = data;
	memcpy(data + content->size, cms, cms_size);
	module_trailer_write(cms_size, (unsigned char *) data + content->size + cms_size);
	r = module_signature_verify(data, size, certs, 1, NULL, error);
	if (r < 0)
		return error_prefix(error, r, "%s/%s", job->set.folder, path);
	return sign_set_stage(&job->set, path, data, size, error);
}

static int sign_module(struct sign_job *job, const char *path, struct error *error)
{
	_cleanup_(sign_content_free) struct sign_content content = { 0 };
	_cleanup_free_ unsigned char *cms = NULL;
	size_t size = 0;
	int r = sign_job_content(job, path, &content, error);

	if (r < 0)
		return r;
	r = module_sign(&job->signer, content.data, content.size, &cms, &size, error);
	if (r < 0)
		return error_prefix(error, r, "%s/%s", job->set.folder, path);
	return sign_job_stage(job, path, &content, cms, size, error);
}

int sign_job_run(struct sign_job *job, struct error *error)
{
	int r = 0;

	for (size_t i = 0; i < job->set.paths.count && r == 0; i++)
		r = sign_module(job, job->set.paths.items[i], error);
	return r;
}

/* What is at @path in a kernel's build folder, of which @fd is the folder, lib/modules/<krel> or
 * the tree. */
static int open_in_kernel(int fd, const char *path, int *ret_fd)
{
	_cleanup_strv_ struct strv releases = { 0 };
	_cleanup_free_ char *below = NULL;
	_cleanup_close_ int build_fd = -1;
	int r;

	*ret_fd = openat(fd, path, O_RDONLY | O_CLOEXEC);
	if (*ret_fd >= 0)
		return 0;
	build_fd = openat(fd, "build", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (build_fd >= 0)
		*ret_fd = openat(build_fd, path, O_RDONLY | O_CLOEXEC);
	if (*ret_fd >= 0)
		return 0;
	r = fs_list(fd, "lib/modules", &releases);
	if (r < 0)
		return r;
	if (releases.count != 1)
		return releases.count ? -ENOTUNIQ : -ENOENT;
	below = xasprintf("lib/modules/%s/build/%s", releases.items[0], path);
	*ret_fd = kernel_tree_openat(fd, below, O_RDONLY | O_CLOEXEC);
	return *ret_fd < 0 ? *ret_fd : 0;
}

/* An unpacked kernel package has boot/config-<release>; Fedora's lib/modules/<release> has config.
 */
static int open_of_package(int fd, int *ret_fd)
{
	_cleanup_close_ int boot_fd = openat(fd, "boot", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_strv_ struct strv names = { 0 };
	const char *found = NULL;
	int r = boot_fd < 0 ? 0 : fs_list(boot_fd, ".", &names);

	if (r < 0)
		return r;
	for (size_t i = 0; i < names.count; i++) {
		if (strncmp(names.items[i], "config-", strlen("config-")) != 0)
			continue;
		if (found)
			return -ENOTUNIQ;
		found = names.items[i];
	}
	*ret_fd = found ? openat(boot_fd, found, O_RDONLY | O_CLOEXEC)
			: openat(fd, "config", O_RDONLY | O_CLOEXEC);
	return *ret_fd < 0 ? -errno : 0;
}

/* A release, as verify takes it, where this machine has its configuration. */
static int open_of_release(const char *release, int *ret_fd)
{
	static const char *const places[][2] = { { "/boot/config-", "" },
		{ "/lib/modules/", "/build/.config" }, { "/lib/modules/", "/config" } };

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		_cleanup_free_ char *path =
			xasprintf("%s%s%s", places[i][0], release, places[i][1]);

		*ret_fd = open(path, O_RDONLY | O_CLOEXEC);
		if (*ret_fd >= 0)
			return 0;
	}
	return -ENOENT;
}

/* @kernel is a configuration itself, one of these folders, or a release. */
static int open_config(const char *kernel, int *ret_fd)
{
	_cleanup_close_ int fd = open(kernel, O_RDONLY | O_CLOEXEC);
	int r = fd < 0 ? -errno : 0;
	struct stat status;

	if (fd >= 0 && fstat(fd, &status) == 0 && !S_ISDIR(status.st_mode)) {
		*ret_fd = TAKE_FD(fd);
		return 0;
	}
	if (r == 0)
		r = open_in_kernel(fd, ".config", ret_fd);
	if (r == -ENOENT && fd >= 0)
		r = open_in_kernel(fd, "include/config/auto.conf", ret_fd);
	if (r == -ENOENT && fd >= 0)
		r = open_of_package(fd, ret_fd);
	if (r == -ENOENT && krel_is_valid(kernel))
		r = open_of_release(kernel, ret_fd);
	return r;
}

int sign_job_kernel_hash(const char *kernel, char **ret_hash, struct error *error)
{
	_cleanup_(kconfig_free) struct kconfig *config = NULL;
	_cleanup_close_ int fd = -1;
	const char *hash;
	char self[64];
	int r = open_config(kernel, &fd);

	if (r == -ENOTUNIQ)
		return error_set(error, -EINVAL,
			"--kernel %s: it has kernels of several releases: name one's build folder",
			kernel);
	if (r == -ENOENT && access(kernel, F_OK) < 0)
		return error_set(error, r,
			"--kernel %s: there is no such path%s; sign fetches no kernel: name a config "
			"file (/boot/config-<release>), a build folder with .config, a kernel tree or an "
			"unpacked kernel package, or name the hash with --hash",
			kernel,
			strchr(kernel, '/')
				? ""
				: ", and this machine has no configuration of such a release");
	if (r == -ENOENT)
		return error_set(error, r,
			"--kernel %s: no kernel configuration there: name a config file, a build "
			"folder with .config, a kernel tree or an unpacked kernel package",
			kernel);
	if (r < 0)
		return error_set_errno(error, r, "--kernel %s", kernel);
	(void) snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	r = kconfig_read(AT_FDCWD, self, &config, error);
	if (r < 0)
		return error_prefix(error, r, "--kernel %s", kernel);
	hash = kconfig_get(config, "MODULE_SIG_HASH");
	if (kconfig_tristate(config, "MODULE_SIG") != 'y' || !hash || !*hash)
		return error_set(error, -ENODATA,
			"--kernel %s: this kernel was built without CONFIG_MODULE_SIG and checks "
			"no signatures: to sign all the same, name the hash with --hash",
			kernel);
	*ret_hash = xstrdup(hash);
	return 0;
}
