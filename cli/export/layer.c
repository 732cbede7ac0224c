/* SPDX-License-Identifier: Apache-2.0 */
/* The tree as a tar file, and as an image of that one layer. */
#include "cli/export/export_internal.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/image/oci_archive.h"
#include "common/fs.h"
#include "common/text.h"
#include "common/xalloc.h"
#include "kernels/archive/pack.h"

#define TAR   ".tar.zst"
#define LAYER ".oci.tar"

/* The folders above @path that were not added yet. */
static int add_folders(struct pack *pack, const char *path, struct strv *added)
{
	for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		_cleanup_free_ char *folder = xstrndup(path, (size_t) (slash - path));
		int r;

		if (strv_contains(added, folder))
			continue;
		r = pack_folder(pack, folder);
		if (r < 0)
			return r;
		xstrv_push(added, folder);
	}
	return 0;
}

static int add_entry(struct pack *pack, int fd, const char *root, const char *path)
{
	_cleanup_free_ char *from = xasprintf("%s/%s", root, path);
	char target[PATH_MAX] = "";
	ssize_t length = readlinkat(fd, path, target, sizeof(target) - 1);

	if (length >= 0)
		return pack_link(pack, path, target);
	return errno == EINVAL ? pack_file(pack, path, from) : -errno;
}

static void look(void *context, const void *data, size_t size)
{
	hash_add(context, data, size);
}

/* Writes the tree to @fd; @ret_digest: of the tar file, before it is compressed. */
static int write_tree(const char *root, int fd, char ret_digest[HASH_HEX_SIZE])
{
	_cleanup_close_ int root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_(pack_free) struct pack *pack = pack_new(fd);
	_cleanup_strv_ struct strv paths = { 0 };
	_cleanup_strv_ struct strv added = { 0 };
	struct hash *hash = hash_new();
	int r = root_fd < 0 ? -errno : fs_list_tree(root_fd, "usr", &paths);

	pack_watch(pack, look, hash);
	for (size_t i = 0; i < paths.count && r == 0; i++) {
		r = add_folders(pack, paths.items[i], &added);
		if (r == 0)
			r = add_entry(pack, root_fd, root, paths.items[i]);
	}
	if (r == 0)
		r = pack_finish(pack);
	hash_finish(hash, ret_digest);
	return r;
}

static int write_tar(
	const char *root, const char *path, char ret_digest[HASH_HEX_SIZE], struct error *error)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	int r = fd < 0 ? -errno : write_tree(root, fd, ret_digest);

	return r < 0 ? error_set_errno(error, r, "%s", path) : 0;
}

int export_write_tar(struct export *export, const char *root, const char *to, struct error *error)
{
	_cleanup_free_ char *name = xasprintf("%s" TAR, export->name);
	_cleanup_free_ char *path = xasprintf("%s/%s", to, name);
	char digest[HASH_HEX_SIZE];
	int r = write_tar(root, path, digest, error);

	if (r == 0)
		xstrv_push(&export->files, name);
	return r;
}

static void list_labels(const struct export *export, struct strv *labels)
{
	xstrv_pushf(labels, "io.slipway.export=%s", export->form->name);
	xstrv_pushf(labels, "io.slipway.krel=%s", export->krel);
	xstrv_pushf(labels, "io.slipway.os=%s", export->context->os.os);
	for (size_t i = 0; i < export->input_count; i++) {
		const struct image_conf *conf = &export->inputs[i].conf;

		xstrv_pushf(labels, "io.slipway.%s.version=%s", conf->role, conf->version);
		xstrv_pushf(labels, "io.slipway.%s.proof=%s", conf->role, conf->proof);
	}
	strv_sort(labels);
}

int export_write_layer(struct export *export, const char *root, const char *to, struct error *error)
{
	_cleanup_free_ char *name = xasprintf("%s" LAYER, export->name);
	_cleanup_free_ char *path = xasprintf("%s/%s", to, name);
	_cleanup_free_ char *layer = xasprintf("%s/layer" TAR, export->context->cache.scratch_path);
	_cleanup_strv_ struct strv labels = { 0 };
	struct oci_image image = { .arch = export->arch,
		.date = export->context->date,
		.name = export->name,
		.labels = &labels };
	_cleanup_close_ int fd = -1;
	int r = write_tar(root, layer, image.diff_id, error);

	if (r < 0)
		return export_name_cache(export, r, error);
	list_labels(export, &labels);
	image.layer = layer;
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	r = fd < 0 ? -errno : oci_archive_write(fd, &image);
	if (r < 0)
		(void) error_set_errno(error, r, "%s", path);
	(void) unlink(layer);
	if (r == 0)
		xstrv_push(&export->files, name);
	return r;
}

/* ---- how they are used */

/* Makes a new initramfs: an old one would load drivers of its own. The caller frees it. */
static char *initramfs_command(const struct export *export)
{
	const struct catalogue *os = &export->context->os;

	return os->repository_count && os->repositories[0].kind == REPOSITORY_APT
		       ? xasprintf("update-initramfs -u -k %s", export->krel)
		       : xasprintf("dracut --force --kver %s", export->krel);
}

void export_print_values(const struct export *export)
{
	bool nic = export_find_role(export, "nic");
	bool programs = !strv_contains(&export->without, EXPORT_USERSPACE);

	if (export_find_role(export, "gpu"))
		text_print(stdout, "  GPU Operator: driver.enabled=%s%s%s\n",
			programs ? "false" : "true",
			nic ? ", driver.rdma.enabled=true, driver.rdma.useHostMofed=true" : "",
			programs ? ""
				 : ": a driver container of the same image brings the programs");
	else
		text_print(stdout,
			"  GPU Operator: driver.rdma.enabled=true, driver.rdma.useHostMofed=true\n");
	if (nic)
		text_print(stdout,
			"  Network Operator: a NicClusterPolicy without ofedDriver for these nodes\n");
}

/* @place: what stands for the system in the command. */
static void print_check(const struct export *export, const char *place)
{
	text_print(stdout, "  slipway verify %s --kernel %s\n", place, export->krel);
	if (export->needs.count)
		text_print(stdout, "  (it checks the modules, and not these programs)\n");
	export_print_values(export);
}

void export_print_tar(const struct export *export)
{
	_cleanup_free_ char *initramfs = initramfs_command(export);

	text_print(stdout, "As root, over the root of the OS image:\n");
	text_print(stdout, "  tar -xf %s -C ROOT\n", export->files.items[0]);
	text_print(stdout, "  chroot ROOT sh -c \"depmod %s && %s\"\n", export->krel, initramfs);
	text_print(stdout, "Then:\n");
	print_check(export, "ROOT");
}

void export_print_layer(const struct export *export)
{
	_cleanup_free_ char *initramfs = initramfs_command(export);
	_cleanup_free_ char *needs = xstrv_join(&export->needs, " ");

	text_print(stdout, "In the Containerfile of the OS image:\n");
	text_print(stdout, "  FROM oci-archive:%s AS drivers\n", export->files.items[0]);
	text_print(stdout, "  FROM BASE\n");
	if (export->needs.count)
		text_print(stdout, "  # RUN: install what BASE lacks of: %s\n", needs);
	text_print(stdout, "  COPY --from=drivers / /\n");
	text_print(stdout, "  RUN depmod %s && %s\n", export->krel, initramfs);
	text_print(stdout, "Then, of the new image:\n");
	print_check(export, "IMAGE");
}
