/* SPDX-License-Identifier: Apache-2.0 */
/* The root file system of an image. */
#include "cli/stage/stage_internal.h"

#include <fcntl.h>
#include <string.h>

#include "cli/image/image.h"
#include "common/fs.h"
#include "common/xalloc.h"
#include "kernels/tool.h"
#include "kernels/tree/depends.h"
#include "module/kernel_facts.h"

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
	const char *krel = build->kernel.lock.krel;
	_cleanup_free_ char *from = xasprintf("lib/modules/%s", krel);
	_cleanup_free_ char *to = xasprintf(MODULES_FOLDER "/%s", krel);
	_cleanup_close_ int set_fd = -1;
	int r = stage_open(build, set, &set_fd, error);

	if (r < 0)
		return r;
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
	for (enum driver driver = 0; driver < DRIVER_COUNT; driver++) {
		const struct source_kind *kind = &source_kinds[driver];
		int r;

		if (kind->bound_to != STAGE_NVIDIA || !build_has(build, driver))
			continue;
		r = copy_set(build, kind->signed_set, root_fd, error);
		if (r == 0)
			r = copy_kernel_modules(
				build, kind->signed_set, STAGE_NVIDIA_SIGNED, usr, error);
		if (r < 0)
			return r;
	}
	return 0;
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
	xstrv_pushf(lines, "ofed_exporter=%s", exporter);
	xstrv_pushf(lines, "ofed_version=%s", version);
	return 0;
}

/* Whether it was known to load, and whose signature the modules have. */
static int add_proof_lines(const struct build *build, const struct image_root *root,
	struct strv *lines, struct error *error)
{
	_cleanup_(proof_result_free) struct proof_result result = { 0 };
	const struct module_cert *cert = build->signing.cert;
	char key_id[CMS_ID_HEX_SIZE];
	int r = proof_read(build, root->role, &result, error);

	if (r < 0)
		return r;
	xstrv_pushf(lines, "proof=%s", result.verdict);
	if (!cert)
		return 0;
	module_cert_key_id(cert, key_id);
	xstrv_pushf(lines, "signed_by=%s", module_cert_name(cert));
	xstrv_pushf(lines, "signed_key=%s", key_id);
	return 0;
}

/* For people who ask about the image, and for the init, which may have several kernels. */
static int write_conf(
	const struct build *build, const struct image_root *root, int root_fd, struct error *error)
{
	const char *krel = build->kernel.lock.krel;
	_cleanup_free_ char *updates = xasprintf(MODULES_FOLDER "/%s/updates", krel);
	_cleanup_free_ char *of_kernel =
		xasprintf(KERNEL_FACTS_FOLDER "/%s/" KERNEL_FACTS_IMAGE, krel);
	_cleanup_strv_ struct strv lines = { 0 };
	_cleanup_free_ char *version = NULL;
	_cleanup_free_ char *text = NULL;
	char id[HASH_HEX_SIZE];
	int r = stage_conf_value(build, root->set, "set.conf", "version", &version, error);

	if (r < 0)
		return r;
	r = image_set_id(root_fd, updates, id);
	if (r < 0)
		return error_set_errno(error, r, "%s", updates);
	xstrv_pushf(&lines, "role=%s", root->role);
	xstrv_pushf(&lines, "version=%s", version);
	xstrv_pushf(&lines, "os=%s", build->context.os.os);
	xstrv_pushf(&lines, "krel=%s", krel);
	/* Of the modules: the node asks whether those that are loaded are still the image's. */
	xstrv_pushf(&lines, "set=%s", id);
	if (root->other != STAGE_COUNT)
		r = add_ofed_lines(build, &lines, error);
	if (r == 0)
		r = add_proof_lines(build, root, &lines, error);
	if (r < 0)
		return r;
	xstrv_push(&lines, "");
	text = xstrv_join(&lines, "\n");
	r = fs_mkdir_parents(root_fd, "etc/slipway", 0755);
	if (r == 0)
		r = fs_write_atomic(root_fd, IMAGE_CONF, text, strlen(text), 0644);
	if (r == 0)
		r = fs_write_atomic(root_fd, of_kernel, text, strlen(text), 0644);
	return r < 0 ? error_set_errno(error, r, "image.conf") : 0;
}

int image_root_make(struct build *build, const struct image_root *root, struct error *error)
{
	_cleanup_close_ int root_fd = open(root->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_free_ char *usr = xasprintf("%s/usr", root->folder);
	_cleanup_strv_ struct strv depmod = { 0 };
	int r;

	if (root_fd < 0)
		return error_set_errno(error, -errno, "%s", root->folder);
	progress_step(&build->context.progress, "stage the root file system");
	r = copy_set(build, root->set, root_fd, error);
	if (r == 0)
		r = copy_into(build, STAGE_INIT, "usr", root_fd, "usr", error);
	if (r == 0)
		r = copy_kernel_modules(build, root->set, root->other, usr, error);
	if (r == 0 && root->driver == DRIVER_NVIDIA)
		r = copy_addons(build, root_fd, usr, error);
	if (r == 0)
		r = image_root_add_kernel(build, root, root_fd, error);
	if (r == 0)
		r = write_conf(build, root, root_fd, error);
	if (r < 0)
		return r;
	xstrv_push(&depmod, "depmod");
	xstrv_push(&depmod, "-b");
	xstrv_push(&depmod, usr);
	xstrv_push(&depmod, build->kernel.lock.krel);
	return tool_run(&depmod, NULL, error);
}
