/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A system extension: systemd-sysext(8), the format of its release file os-release(5). Its modules
 * have a root of their own, for modprobe -d: modules.dep of an extension in /usr/lib/modules would
 * hide the kernel's, and that of another extension would hide this one.
 */
#include "cli/export/export_internal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/process.h"
#include "common/text.h"
#include "common/xalloc.h"
#include "kernels/tool.h"
#include "kernels/tree/depends.h"
#include "module/elf.h"
#include "module/running.h"

#define LOADER    "containers/extension/load"
#define ROOT_HASH "Root hash:" /* what veritysetup(8) prints before it */
#define UNITS     "usr/lib/systemd/system"
#define HASH      "sha256"
#define BLOCK     4096 /* of data and of hashes: veritysetup's default */

/* The extension's own folder. */
static char *own_folder(const struct export *export)
{
	return xasprintf(EXPORT_FOLDER "/%s", export->name);
}

/* @type: "service", "target". */
static char *unit_name(const struct export *export, const char *type)
{
	return xasprintf(EXPORT_NAME "-drivers-%s.%s", export->roles, type);
}

/* ---- modules */

/* depmod with its own defaults: this machine's /etc/depmod.d says nothing of the node. */
static int run_depmod(
	const struct export *export, const char *folder, const char *root, struct error *error)
{
	_cleanup_free_ char *empty = NULL;
	_cleanup_strv_ struct strv argv = { 0 };
	int r = cache_new_folder(&export->context->cache, "depmod", &empty);

	if (r < 0)
		return error_set_errno(error, r, "depmod");
	xstrv_push(&argv, "depmod");
	xstrv_push(&argv, "-C");
	xstrv_push(&argv, empty);
	xstrv_push(&argv, "-b");
	xstrv_pushf(&argv, "%s/%s", root, folder);
	xstrv_push(&argv, export->krel);
	return tool_run(&argv, NULL, error);
}

/* "mlx5_core 0123…" for each module of the drivers: what is loaded is compared with it. */
static int list_build_ids(
	const char *modules, const struct staging *root, struct strv *lines, struct error *error)
{
	_cleanup_free_ char *updates = xasprintf("%s/updates", modules);
	_cleanup_strv_ struct strv paths = { 0 };
	int r = depends_list_modules(root->fd, updates, &paths);

	if (r < 0)
		return error_set_errno(error, r, "%s", updates);
	for (size_t i = 0; i < paths.count; i++) {
		_cleanup_(elf_module_close) struct elf_module *module = NULL;
		char id[BUILD_ID_HEX_SIZE];

		r = elf_module_open_brief(root->fd, paths.items[i], &module, error);
		if (r < 0)
			return r;
		elf_module_build_id(module, id);
		if (*id && elf_module_name(module))
			xstrv_pushf(lines, "%s %s", elf_module_name(module), id);
	}
	strv_sort(lines);
	return 0;
}

/* Modules that a node loads: OFED's come before nvidia-peermem, which links them. */
static void list_loaded(const struct export *export, struct strv *names)
{
	const struct export_input *nic = export_find_role(export, "nic");
	_cleanup_strv_ struct strv wanted = { 0 };

	if (nic)
		xstrv_split(&wanted,
			*nic->conf.modules ? nic->conf.modules : IMAGE_CONF_NIC_MODULES, " ");
	for (size_t i = 0; i < wanted.count; i++)
		if (export_has_module(export, wanted.items[i]))
			xstrv_push(names, wanted.items[i]);
	export_list_loaded(export, names);
}

static int stage_modules(struct export *export, struct staging *root, struct error *error)
{
	_cleanup_free_ char *folder = own_folder(export);
	_cleanup_free_ char *modules = xasprintf("%s/lib/modules/%s", folder, export->krel);
	_cleanup_free_ char *peermem =
		xasprintf("%s/updates/nvidia/" KERNEL_FACTS_PEERMEM_MODULE, modules);
	_cleanup_free_ char *build_ids = xasprintf("%s/build-ids", folder);
	_cleanup_free_ char *loaded = xasprintf("%s/modules", folder);
	_cleanup_strv_ struct strv ids = { 0 };
	_cleanup_strv_ struct strv names = { 0 };
	int r;

	for (size_t i = 0; i < export->input_count; i++)
		staging_copy(root, modules, "%s/usr/lib/modules/%s", export->inputs[i].image.folder,
			export->krel);
	if (export->peermem)
		staging_copy(root, peermem, "%s/%s", export_find_role(export, "gpu")->image.folder,
			export->peermem);
	if (root->result < 0)
		return root->result;
	r = run_depmod(export, folder, root->path, error);
	if (r == 0)
		r = list_build_ids(modules, root, &ids, error);
	if (r < 0)
		return r;
	list_loaded(export, &names);
	staging_write_lines(root, build_ids, &ids);
	staging_write_lines(root, loaded, &names);
	return root->result;
}

/* ---- what systemd reads */

/* VERSION_ID of the nodes; NULL: theirs have none. The caller frees it. */
static char *node_version(const struct export *export)
{
	const struct catalogue *os = &export->context->os;
	const struct image_conf *conf = &export->inputs[0].conf;
	char *version;

	if (*conf->os_version && strcmp(conf->os, os->os) == 0)
		return xstrdup(conf->os_version);
	version = catalogue_node_version(os, export->krel);
	return version || !*os->version_id ? version : xstrdup(os->version_id);
}

static void stage_release(const struct export *export, struct staging *root)
{
	_cleanup_free_ char *path =
		xasprintf("usr/lib/extension-release.d/extension-release.%s", export->name);
	_cleanup_free_ char *version = node_version(export);
	_cleanup_strv_ struct strv lines = { 0 };

	xstrv_pushf(&lines, "ID=%s", export->context->os.id);
	if (version)
		xstrv_pushf(&lines, "VERSION_ID=%s", version);
	xstrv_pushf(&lines, "ARCHITECTURE=%s", export->arch->systemd);
	xstrv_push(&lines, "EXTENSION_RELOAD_MANAGER=1");
	staging_write_lines(root, path, &lines);
}

static void stage_service(const struct export *export, struct staging *root, const char *name)
{
	_cleanup_free_ char *path = xasprintf(UNITS "/%s", name);
	_cleanup_strv_ struct strv lines = { 0 };

	xstrv_push(&lines, "[Unit]");
	xstrv_pushf(&lines, "Description=Drivers of %s", export->name);
	/* nvidia-peermem links OFED's modules, which another extension may have. */
	xstrv_pushf(&lines, "After=systemd-sysext.service%s",
		export_find_role(export, "nic") ? "" : " " EXPORT_NAME "-drivers-nic.service");
	xstrv_push(&lines, "Before=kubelet.service");
	xstrv_push(&lines, "");
	xstrv_push(&lines, "[Service]");
	xstrv_push(&lines, "Type=oneshot");
	xstrv_push(&lines, "RemainAfterExit=yes");
	xstrv_pushf(&lines, "ExecStart=/" EXPORT_FOLDER "/%s/load", export->name);
	staging_write_lines(root, path, &lines);
}

/*
 * multi-user.target upholds a target that wants the service: the service itself would be started
 * again and again where it fails (systemd.unit(5), Upholds=).
 */
static void stage_units(const struct export *export, struct staging *root)
{
	_cleanup_free_ char *service = unit_name(export, "service");
	_cleanup_free_ char *name = unit_name(export, "target");
	_cleanup_free_ char *path = xasprintf(UNITS "/%s", name);
	_cleanup_free_ char *link = xasprintf(UNITS "/multi-user.target.upholds/%s", name);
	_cleanup_free_ char *target = xasprintf("../%s", name);
	_cleanup_strv_ struct strv lines = { 0 };

	stage_service(export, root, service);
	xstrv_push(&lines, "[Unit]");
	xstrv_pushf(&lines, "Description=Start of %s", service);
	xstrv_pushf(&lines, "Wants=%s", service);
	staging_write_lines(root, path, &lines);
	staging_link(root, target, link);
}

int export_stage_sysext(struct export *export, struct staging *root, struct error *error)
{
	_cleanup_free_ char *folder = own_folder(export);
	_cleanup_free_ char *krel = xasprintf("%s/krel", folder);
	_cleanup_free_ char *load = xasprintf("%s/load", folder);
	_cleanup_free_ char *rules = xasprintf(EXPORT_NAME "-%s", export->roles);
	_cleanup_strv_ struct strv lines = { 0 };
	int r = stage_modules(export, root, error);

	if (r < 0)
		return r;
	xstrv_push(&lines, export->krel);
	staging_write_lines(root, krel, &lines);
	staging_copy(root, load, "%s/" LOADER, export->context->data);
	stage_release(export, root);
	stage_units(export, root);
	export_stage_rules(export, root, rules);
	return root->result;
}

/* ---- the file system */

/* Says with a full disk what it says with all else, and why only in a line before. */
static int explain(const char *log, const char *path, int r, struct error *error)
{
	_cleanup_free_ char *text = NULL;

	if (r != -EIO || fs_read(AT_FDCWD, log, 0, &text, NULL) < 0 ||
		!strstr(text, strerror(ENOSPC)))
		return r;
	return error_set_errno(error, -ENOSPC, "%s", path);
}

static int make_image(
	const struct export *export, const char *root, const char *path, struct error *error)
{
	_cleanup_free_ char *date = xstrdup(export->context->date ? export->context->date : "0");
	_cleanup_free_ char *log =
		xasprintf("%s/mksquashfs.log", export->context->cache.scratch_path);
	_cleanup_strv_ struct strv argv = { 0 };

	/* mksquashfs refuses to have its time from two places. */
	(void) unsetenv("SOURCE_DATE_EPOCH");
	xstrv_push(&argv, "mksquashfs");
	xstrv_push(&argv, root);
	xstrv_push(&argv, path);
	xstrv_split(&argv, "-noappend -all-root -no-xattrs -quiet -no-progress -comp zstd", " ");
	xstrv_push(&argv, "-mkfs-time");
	xstrv_push(&argv, date);
	xstrv_push(&argv, "-all-time");
	xstrv_push(&argv, date);
	return explain(log, path, tool_run_logged(&argv, log, error), error);
}

/* ---- the signature */

/*
 * Takes the room that veritysetup will need, since it does not say that a disk is full: a header,
 * and a tree whose blocks hold the hashes of those below (Linux admin-guide/device-mapper/verity).
 */
static int make_room(const char *image, const char *path, struct error *error)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	const off_t hashes = BLOCK / (HASH_HEX_SIZE / 2);
	off_t size = BLOCK;
	struct stat status;
	int r;

	if (fd < 0 || stat(image, &status) < 0)
		return error_set_errno(error, -errno, "%s", fd < 0 ? path : image);
	for (off_t blocks = (status.st_size + BLOCK - 1) / BLOCK; blocks > 1;) {
		blocks = (blocks + hashes - 1) / hashes;
		size += blocks * BLOCK;
	}
	r = -posix_fallocate(fd, 0, size);
	return r < 0 ? error_set_errno(error, r, "%s", path) : 0;
}

/* The salt and the UUID come from the image, so that the same image has the same root hash. */
static int make_verity(
	const char *image, const char *path, char ret_hash[HASH_HEX_SIZE], struct error *error)
{
	_cleanup_strv_ struct strv argv = { 0 };
	_cleanup_free_ char *output = NULL;
	const char *found;
	char salt[HASH_HEX_SIZE];
	int r = hash_file(AT_FDCWD, image, salt);

	if (r < 0)
		return error_set_errno(error, r, "%s", image);
	xstrv_push(&argv, "veritysetup");
	xstrv_push(&argv, "format");
	xstrv_pushf(&argv, "--salt=%s", salt);
	xstrv_pushf(&argv, "--uuid=%.8s-%.4s-%.4s-%.4s-%.12s", salt, salt + 8, salt + 12, salt + 16,
		salt + 20);
	xstrv_push(&argv, image);
	xstrv_push(&argv, path);
	r = make_room(image, path, error);
	if (r < 0)
		return r;
	r = tool_run(&argv, &output, error);
	if (r < 0)
		return r;
	found = strstr(output, ROOT_HASH);
	found = found ? found + strlen(ROOT_HASH) : "";
	found += strspn(found, " \t");
	(void) snprintf(
		ret_hash, HASH_HEX_SIZE, "%.*s", (int) strspn(found, "0123456789abcdef"), found);
	return hash_is_hex(ret_hash)
		       ? 0
		       : error_set(error, -EBADMSG, "veritysetup: it printed no root hash");
}

static int write_file(struct export *export, const char *to, const char *end, const void *data,
	size_t size, struct error *error)
{
	_cleanup_free_ char *name = xasprintf("%s.%s", export->name, end);
	_cleanup_free_ char *path = xasprintf("%s/%s", to, name);
	int r = fs_write_atomic(AT_FDCWD, path, data, size, 0644);

	if (r < 0)
		return error_set_errno(error, r, "%s", path);
	xstrv_push(&export->files, name);
	return 0;
}

/*
 * Beside the image, as systemd looks for them (src/shared/dissect-image.c
 * verity_settings_load()): the signature is of the root hash's hex digits, without a newline.
 */
static int sign(struct export *export, const char *image, const char *to, struct error *error)
{
	const struct module_signer signer = {
		.key = export->key, .cert = export->cert, .hash = HASH
	};
	_cleanup_free_ char *name = xasprintf("%s.verity", export->name);
	_cleanup_free_ char *path = xasprintf("%s/%s", to, name);
	_cleanup_free_ unsigned char *cms = NULL;
	char root_hash[HASH_HEX_SIZE];
	size_t size = 0;
	int r = make_verity(image, path, root_hash, error);

	if (r < 0)
		return r;
	xstrv_push(&export->files, name);
	r = write_file(export, to, "roothash", root_hash, strlen(root_hash), error);
	if (r == 0)
		r = module_sign(&signer, root_hash, strlen(root_hash), &cms, &size, error);
	return r < 0 ? r : write_file(export, to, "roothash.p7s", cms, size, error);
}

int export_write_sysext(
	struct export *export, const char *root, const char *to, struct error *error)
{
	_cleanup_free_ char *name = xasprintf("%s.raw", export->name);
	_cleanup_free_ char *path = xasprintf("%s/%s", to, name);
	int r = make_image(export, root, path, error);

	if (r < 0)
		return r;
	xstrv_push(&export->files, name);
	return export->key ? sign(export, path, to, error) : 0;
}

/* ---- how it is used */

void export_print_sysext(const struct export *export)
{
	_cleanup_free_ char *unit = unit_name(export, "service");
	_cleanup_free_ char *files = xstrv_join(&export->files, " ");

	text_print(stdout, "On the node, or in its image:\n");
	text_print(stdout, "  cp %s /var/lib/extensions/\n", files);
	if (export->key)
		text_print(stdout, "  cp %s /etc/verity.d/%s.crt  (PEM)\n", export->sign_cert,
			export->name);
	text_print(stdout, "  systemctl enable --now systemd-sysext.service\n");
	text_print(stdout,
		"  systemctl daemon-reload && systemctl start %s  (systemd 252 does neither by itself)\n",
		unit);
	export_print_values(export);
}
