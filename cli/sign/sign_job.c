/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/sign/sign_job.h"

#include <fcntl.h>
#include <string.h>

#include "cli/kernel_file.h"
#include "common/fs.h"
#include "kernels/krel.h"
#include "kernels/tree/kconfig.h"
#include "module/trailer.h"

void sign_content_free(struct sign_content *content)
{
	free(content->data);
	*content = (struct sign_content){ 0 };
}

static int drop_signature(
	struct sign_job *job, const char *path, struct sign_content *content, struct error *error)
{
	struct module_trailer trailer;
	int r = module_trailer_read(content->data, content->size, &trailer, error);

	if (r < 0)
		return error_prefix(error, r, "%s/%s", job->set.folder, path);
	if (trailer.present && !job->replace)
		return error_set(error, -EEXIST,
			"%s/%s: signed already: --replace signs it anew; a second signature on top "
			"of the first would hide it from the kernel",
			job->set.folder, path);
	job->replaced += trailer.present;
	content->size = trailer.content_size;
	return 0;
}

int sign_job_content(
	struct sign_job *job, const char *path, struct sign_content *ret, struct error *error)
{
	_cleanup_(sign_content_free) struct sign_content content = { 0 };
	int r = sign_set_read(&job->set, path, &content.data, &content.size, error);

	if (r == 0)
		r = drop_signature(job, path, &content, error);
	if (r < 0)
		return r;
	*ret = content;
	content.data = NULL;
	return 0;
}

int sign_job_stage(struct sign_job *job, const char *path, struct sign_content *content,
	const void *cms, size_t cms_size, struct error *error)
{
	struct module_cert *const certs[] = { job->signer.cert };
	size_t size = content->size + cms_size + MODULE_TRAILER_SIZE;
	char *data = realloc(content->data, size);
	int r;

	if (!data)
		return error_set_errno(error, -ENOMEM, "%s", path);
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

static int config_failed(const char *kernel, int r, struct error *error)
{
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
	return error_set_errno(error, r, "--kernel %s", kernel);
}

/* An unpacked kernel package has boot/config-<release>; Fedora's lib/modules/<release> has config.
 */
static int open_of_package(const char *kernel, int *ret_fd)
{
	_cleanup_close_ int fd = open(kernel, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int boot_fd = -1;
	_cleanup_strv_ struct strv names = { 0 };
	const char *found = NULL;
	int r;

	if (fd < 0)
		return -ENOENT;
	boot_fd = openat(fd, "boot", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r = boot_fd < 0 ? 0 : fs_list(boot_fd, ".", &names);
	for (size_t i = 0; i < names.count && r == 0; i++) {
		if (strncmp(names.items[i], "config-", strlen("config-")) != 0)
			continue;
		r = found ? -ENOTUNIQ : 0;
		found = names.items[i];
	}
	if (r == 0)
		*ret_fd = found ? openat(boot_fd, found, O_RDONLY | O_CLOEXEC)
				: openat(fd, "config", O_RDONLY | O_CLOEXEC);
	return r < 0 ? r : *ret_fd < 0 ? -errno : 0;
}

/* A release, as verify takes it, where this machine has its configuration. */
static int open_of_release(const char *release, int *ret_fd)
{
	static const char *const places[][2] = { { "/boot/config-", "" },
		{ "/lib/modules/", "/build/.config" }, { "/lib/modules/", "/config" } };

	*ret_fd = -1;
	for (size_t i = 0; i < ARRAY_SIZE(places) && *ret_fd < 0; i++) {
		_cleanup_free_ char *path = NULL;

		if (asprintf(&path, "%s%s%s", places[i][0], release, places[i][1]) < 0)
			return -ENOMEM;
		*ret_fd = open(path, O_RDONLY | O_CLOEXEC);
	}
	return *ret_fd < 0 ? -ENOENT : 0;
}

static int open_config(const char *kernel, int *ret_fd)
{
	int r = kernel_file_open(kernel, ".config", ret_fd);

	if (r == -ENOENT)
		r = kernel_file_open(kernel, "include/config/auto.conf", ret_fd);
	if (r == -ENOENT)
		r = open_of_package(kernel, ret_fd);
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

	if (r < 0)
		return config_failed(kernel, r, error);
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
	*ret_hash = strdup(hash);
	return *ret_hash ? 0 : error_set_errno(error, -ENOMEM, "hash");
}
