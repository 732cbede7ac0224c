/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/image/image_root.h"

#include <fcntl.h>
#include <string.h>

#include "cli/stage/stage_tools.h"
#include "cli/image/image.h"
#include "common/fs.h"
#include "common/copy.h"
#include "kernels/tree/depends.h"
#include "module/kernel_facts.h"
#include "kernels/tool.h"

/* The image has one /usr, with /lib a link into it: modules must be staged where they really lie.
 */
#define MODULES_FOLDER "usr/lib/modules"

static int copy_into(const struct build *build, enum stage_id stage, const char *from, int root_fd,
	const char *to, struct error *error)
{
	_cleanup_close_ int fd = -1;
	int r = stage_open(build, stage, &fd, error);

	if (r < 0)
		return r;
	r = copy_tree(fd, from, root_fd, to);
	return r < 0 ? error_set_errno(error, r, "%s/%s", stage_output(build, stage), from) : 0;
}

static int copy_set(const struct build *build, enum stage_id set, int root_fd, struct error *error)
{
	static const char *const parts[] = { "usr", "lib/firmware", "etc" };
	_cleanup_free_ char *from = NULL;
	_cleanup_free_ char *to = NULL;
	_cleanup_close_ int set_fd = -1;
	int r = stage_open(build, set, &set_fd, error);

	if (r < 0)
		return r;
	if (asprintf(&from, "lib/modules/%s", build->kernel.lock.krel) < 0 ||
		asprintf(&to, MODULES_FOLDER "/%s", build->kernel.lock.krel) < 0)
		return error_set_errno(error, -ENOMEM, "stage");
	r = copy_into(build, set, from, root_fd, to, error);
	for (size_t i = 0; i < ARRAY_SIZE(parts) && r == 0; i++)
		if (fs_exists(set_fd, parts[i]))
			r = copy_into(build, set, parts[i], root_fd,
				strncmp(parts[i], "lib/", 4) == 0 ? "usr/lib/firmware" : parts[i],
				error);
	return r;
}

/* What @set needs of the kernel; what @other provides is left out. */
static int copy_kernel_modules(const struct build *build, enum stage_id set, enum stage_id other,
	const char *usr, struct error *error)
{
	_cleanup_strv_ struct strv paths = { 0 };
	_cleanup_close_ int kernel_fd = -1;
	_cleanup_close_ int set_fd = -1;
	_cleanup_close_ int other_fd = -1;
	_cleanup_close_ int usr_fd = open(usr, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct depends depends = { .krel = build->kernel.lock.krel };
	int r = usr_fd < 0 ? error_set_errno(error, -errno, "%s", usr)
			   : stage_open(build, STAGE_MODULES, &kernel_fd, error);

	if (r == 0)
		r = stage_open(build, set, &set_fd, error);
	if (r == 0 && other != STAGE_COUNT)
		r = stage_open(build, other, &other_fd, error);
	if (r < 0)
		return r;
	depends.kernel_fd = kernel_fd;
	depends.set_fd = set_fd;
	depends.other_fd = other_fd;
	r = depends_closure(&depends, &paths, error);
	return r < 0 ? r : depends_copy(&depends, &paths, usr_fd, error);
}

/* What is bound to NVIDIA's modules goes into their image. */
static int copy_addons(const struct build *build, int root_fd, const char *usr, struct error *error)
{
	static const struct {
		bool (*applies)(const struct build *build);
		enum stage_id set;
	} addons[] = {
		{ gdrcopy_applies, STAGE_GDRCOPY_SIGNED },
		{ nvidia_fs_applies, STAGE_NVIDIA_FS_SIGNED },
	};
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(addons) && r == 0; i++) {
		if (!addons[i].applies(build))
			continue;
		r = copy_set(build, addons[i].set, root_fd, error);
		if (r == 0)
			r = copy_kernel_modules(
				build, addons[i].set, STAGE_NVIDIA_SIGNED, usr, error);
	}
	return r;
}

/* What the GPU image was bound to, so that the init can say why peermem will not fit. */
static int add_ofed_lines(const struct build *build, struct strv *lines, struct error *error)
{
	_cleanup_free_ char *exporter = NULL;
	_cleanup_free_ char *version = NULL;
	int r = stage_conf_value(
		build, STAGE_OFED_SIGNED, "set.conf", "exporter", &exporter, error);

	if (r == 0)
		r = stage_conf_value(
			build, STAGE_OFED_SIGNED, "set.conf", "version", &version, error);
	if (r < 0)
		return r;
	if (strv_pushf(lines, "ofed_exporter=%s", exporter) < 0 ||
		strv_pushf(lines, "ofed_version=%s", version) < 0)
		return error_set_errno(error, -ENOMEM, "image.conf");
	return 0;
}

/* Whether it was known to load, and whose signature the modules have. */
static int add_proof_lines(const struct build *build, const struct image_root *stage,
	struct strv *lines, struct error *error)
{
	_cleanup_(proof_result_free) struct proof_result result = { 0 };
	int r = proof_read(build, stage->role, &result, error);

	if (r < 0)
		return r;
	r = strv_pushf(lines, "proof=%s", result.verdict);
	if (r == 0 && signing_wanted(build))
		r = strv_pushf(lines, "signed_by=%s", module_cert_name(build->signing.cert));
	if (r == 0 && build->signing.cert) {
		char key_id[CMS_ID_HEX_SIZE];

		module_cert_key_id(build->signing.cert, key_id);
		r = strv_pushf(lines, "signed_key=%s", key_id);
	}
	return r < 0 ? error_set_errno(error, r, "image.conf") : 0;
}

/* An id of the modules: the node asks whether those that are loaded are still the image's. */
static int add_set_line(
	const struct build *build, int root_fd, struct strv *lines, struct error *error)
{
	_cleanup_free_ char *folder = NULL;
	char id[HASH_HEX_SIZE];
	int r = asprintf(&folder, MODULES_FOLDER "/%s/updates", build->kernel.lock.krel) < 0
			? -ENOMEM
			: 0;

	if (r == 0)
		r = image_set_id(root_fd, folder, id);
	if (r == 0)
		r = strv_pushf(lines, "set=%s", id);
	return r < 0 ? error_set_errno(error, r, "%s", folder ? folder : "image.conf") : 0;
}

/* For whoever asks about the image, and for the init, which may have several kernels to choose of.
 */
static int write_both(const struct build *build, int root_fd, const char *text, struct error *error)
{
	_cleanup_free_ char *of_kernel = NULL;
	int r;

	if (asprintf(&of_kernel, KERNEL_FACTS_FOLDER "/%s/" KERNEL_FACTS_IMAGE,
		    build->kernel.lock.krel) < 0)
		return error_set_errno(error, -ENOMEM, "image.conf");
	r = fs_mkdir_parents(root_fd, "etc/slipway", 0755);
	if (r == 0)
		r = fs_write_atomic(root_fd, IMAGE_CONF, text, strlen(text), 0644);
	if (r == 0)
		r = fs_write_atomic(root_fd, of_kernel, text, strlen(text), 0644);
	return r < 0 ? error_set_errno(error, r, "image.conf") : 0;
}

static int write_conf(
	const struct build *build, const struct image_root *stage, int root_fd, struct error *error)
{
	_cleanup_strv_ struct strv lines = { 0 };
	_cleanup_free_ char *version = NULL;
	_cleanup_free_ char *joined = NULL;
	_cleanup_free_ char *text = NULL;
	int r = stage_conf_value(build, stage->set, "set.conf", "version", &version, error);

	if (r < 0)
		return r;
	if (strv_pushf(&lines, "role=%s", stage->role) < 0 ||
		strv_pushf(&lines, "version=%s", version) < 0 ||
		strv_pushf(&lines, "os=%s", build->context.os.os) < 0 ||
		strv_pushf(&lines, "krel=%s", build->kernel.lock.krel) < 0)
		return error_set_errno(error, -ENOMEM, "image.conf");
	r = add_set_line(build, root_fd, &lines, error);
	if (r == 0 && stage->other != STAGE_COUNT)
		r = add_ofed_lines(build, &lines, error);
	if (r == 0)
		r = add_proof_lines(build, stage, &lines, error);
	if (r < 0)
		return r;
	joined = strv_join(&lines, "\n");
	if (!joined || asprintf(&text, "%s\n", joined) < 0)
		return error_set_errno(error, -ENOMEM, "image.conf");
	return write_both(build, root_fd, text, error);
}

static int run_depmod(const struct build *build, const char *usr, struct error *error)
{
	_cleanup_strv_ struct strv argv = { 0 };
	int r = strv_push(&argv, "depmod");

	if (r == 0)
		r = strv_push(&argv, "-b");
	if (r == 0)
		r = strv_push(&argv, usr);
	if (r == 0)
		r = strv_push(&argv, build->kernel.lock.krel);
	return r < 0 ? error_set_errno(error, r, "depmod") : tool_run(&argv, NULL, error);
}

int image_root_make(struct build *build, const struct image_root *stage, struct error *error)
{
	_cleanup_close_ int root_fd = open(stage->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_free_ char *usr = NULL;
	int r;

	if (root_fd < 0)
		return error_set_errno(error, -errno, "%s", stage->folder);
	if (asprintf(&usr, "%s/usr", stage->folder) < 0)
		return error_set_errno(error, -ENOMEM, "stage");
	progress_step(&build->context.progress, "stage the root file system");
	r = copy_set(build, stage->set, root_fd, error);
	if (r == 0)
		r = copy_into(build, STAGE_INIT, "usr", root_fd, "usr", error);
	if (r == 0)
		r = copy_kernel_modules(build, stage->set, stage->other, usr, error);
	if (r == 0 && stage->set == STAGE_NVIDIA_SIGNED)
		r = copy_addons(build, root_fd, usr, error);
	if (r == 0)
		r = image_root_add_kernel(build, stage, root_fd, error);
	if (r == 0)
		r = write_conf(build, stage, root_fd, error);
	return r < 0 ? r : run_depmod(build, usr, error);
}
