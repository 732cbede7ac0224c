/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/sign_job.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "kernels/kconfig.h"
#include "kernels/tree.h"
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

/* Opens lib/modules/<krel>/build/.config of a kernel tree that has one release. */
static int open_tree_config(int root_fd, int *ret_fd)
{
	_cleanup_strv_ struct strv releases = { 0 };
	_cleanup_free_ char *path = NULL;
	int r = fs_list(root_fd, "lib/modules", &releases);

	if (r < 0)
		return r;
	if (releases.count != 1)
		return -ENOTUNIQ;
	if (asprintf(&path, "lib/modules/%s/build/.config", releases.items[0]) < 0)
		return -ENOMEM;
	*ret_fd = kernel_tree_openat(root_fd, path, O_RDONLY);
	return *ret_fd < 0 ? *ret_fd : 0;
}

static int open_config(const char *kernel, int *ret_fd)
{
	static const char *const names[] = { ".config", "include/config/auto.conf",
		"build/.config" };
	_cleanup_close_ int fd = open(kernel, O_RDONLY | O_CLOEXEC);
	struct stat status;

	if (fd < 0 || fstat(fd, &status) < 0)
		return -errno;
	if (!S_ISDIR(status.st_mode)) {
		*ret_fd = TAKE_FD(fd);
		return 0;
	}
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		*ret_fd = openat(fd, names[i], O_RDONLY | O_CLOEXEC);
		if (*ret_fd >= 0)
			return 0;
	}
	return open_tree_config(fd, ret_fd);
}

static int config_failed(const char *kernel, int r, struct error *error)
{
	if (r == -ENOTUNIQ)
		return error_set(error, -EINVAL,
			"--kernel %s: it has kernels of several releases: name one's build folder",
			kernel);
	if (r == -ENOENT)
		return error_set(error, r,
			"--kernel %s: no kernel configuration there: name a config file, a build "
			"folder with .config, or a kernel tree",
			kernel);
	return error_set_errno(error, r, "--kernel %s", kernel);
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
