/* SPDX-License-Identifier: Apache-2.0 */
/* The tree that an operating system gets: modules, rules about them, and the list of all files. */
#include "cli/export/export_internal.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/verify/verify.h"
#include "common/fs.h"
#include "common/xalloc.h"
#include "kernels/tree/depends.h"
#include "module/elf.h"
#include "module/running.h"

#define FILE_MODE    0644
#define PROGRAM_MODE 0755

/* ---- modules */

/*
 * A regular expression, as depmod takes it (kmod tools/depmod.c cfg_kernel_matches()), for the
 * release: of what a release may have, '+' is special. The caller frees it.
 */
static char *krel_pattern(const char *krel)
{
	char *pattern = xstrdup("");

	for (const char *c = krel; *c; c++) {
		char *before = pattern;

		pattern = xasprintf(*c == '+' ? "%s[%c]" : "%s%c", before, *c);
		free(before);
	}
	return pattern;
}

/* depmod compares with the name of the file, in which '-' is not '_'. */
static void add_override(
	const struct export *export, const char *folder, const char *name, struct strv *lines)
{
	_cleanup_free_ char *krel = krel_pattern(export->krel);

	xstrv_pushf(lines, "override %.*s %s %s", (int) strcspn(name, "."), name, krel, folder);
}

static int stage_input(const struct export *export, const struct export_input *input,
	struct staging *root, struct strv *lines, struct error *error)
{
	_cleanup_free_ char *updates = xasprintf("usr/lib/modules/%s/updates", export->krel);
	_cleanup_strv_ struct strv paths = { 0 };
	int r = depends_list_modules(input->image.fd, updates, &paths);

	if (r < 0)
		return error_set_errno(error, r, "%s: %s", input->image.name, updates);
	for (size_t i = 0; i < paths.count; i++) {
		const char *path = paths.items[i];
		const char *name = basename(path);
		const char *rest = path + strlen(updates);
		_cleanup_free_ char *source = xstrndup(rest, (size_t) (name - 1 - rest));
		_cleanup_free_ char *folder = xasprintf("updates/" EXPORT_NAME "%s", source);
		_cleanup_free_ char *to =
			xasprintf("usr/lib/modules/%s/%s/%s", export->krel, folder, name);
		bool peermem = export->peermem && strcmp(name, KERNEL_FACTS_PEERMEM_MODULE) == 0;

		staging_copy(
			root, to, "%s/%s", input->image.folder, peermem ? export->peermem : path);
		add_override(export, folder, name, lines);
	}
	return root->result;
}

int export_stage_modules(struct export *export, struct staging *root, struct error *error)
{
	_cleanup_strv_ struct strv lines = { 0 };

	for (size_t i = 0; i < export->input_count; i++) {
		int r = stage_input(export, &export->inputs[i], root, &lines, error);

		if (r < 0)
			return r;
	}
	strv_sort(&lines);
	staging_write_lines(root, "usr/lib/depmod.d/" EXPORT_NAME ".conf", &lines);
	return root->result;
}

/* ---- rules */

void export_list_loaded(const struct export *export, struct strv *names)
{
	/* Nothing else loads them: the GPU operator's driver container would. */
	static const char *const wanted[] = { "nvidia", "nvidia_uvm", "nvidia_modeset",
		PEERMEM_MODULE };

	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
		if (export_has_module(export, wanted[i]))
			xstrv_push(names, wanted[i]);
}

/* Has nvidia.ko of this image the parameter that the GPU container would preset? */
static bool has_coherent_mode(const struct export *export, const struct export_input *input)
{
	_cleanup_free_ char *folder = xasprintf("usr/lib/modules/%s/updates", export->krel);
	_cleanup_(elf_module_close) struct elf_module *module = NULL;
	_cleanup_strv_ struct strv paths = { 0 };
	_cleanup_strv_ struct strv types = { 0 };
	struct error ignored = { 0 };

	(void) !depends_list_modules(input->image.fd, folder, &paths);
	for (size_t i = 0; i < paths.count && !module; i++)
		if (strcmp(basename(paths.items[i]), "nvidia.ko") == 0)
			(void) !elf_module_open_brief(
				input->image.fd, paths.items[i], &module, &ignored);
	(void) !(module ? elf_module_info_all(module, "parmtype", &types) : 0);
	for (size_t i = 0; i < types.count; i++)
		if (strncmp(types.items[i], NVIDIA_COHERENT ":", strlen(NVIDIA_COHERENT ":")) == 0)
			return true;
	return false;
}

/* The options that the images have for these modules. */
static void add_options(const struct export *export, struct strv *lines)
{
	for (size_t i = 0; i < export->input_count; i++) {
		_cleanup_strv_ struct strv options = { 0 };
		struct error ignored = { 0 };

		if (modprobe_conf_read(export->inputs[i].image.fd, &options, &ignored) < 0)
			continue;
		for (size_t k = 0; k < options.count; k++) {
			const char *option = options.items[k];
			_cleanup_free_ char *module = xstrndup(option, strcspn(option, " "));

			if (export_has_module(export, module))
				xstrv_pushf(lines, "options %s", option);
		}
	}
}

/*
 * nvidia-modprobe makes the nodes, as the driver numbers them: 255 is nvidiactl, and each GPU has
 * its minor in procfs. A module's event comes when its init has run (Linux kernel/module/main.c
 * do_init_module()).
 */
static void stage_nodes(struct staging *root, const char *name)
{
	_cleanup_strv_ struct strv lines = { 0 };
	_cleanup_free_ char *path = xasprintf("usr/lib/udev/rules.d/60-%s.rules", name);

	xstrv_push(&lines, "# Nodes of NVIDIA's GPUs. Made by slipway export.");
	xstrv_push(&lines,
		"ACTION==\"add|bind\", SUBSYSTEM==\"pci\", DRIVER==\"nvidia\", RUN+=\"/bin/sh -c "
		"'/usr/bin/nvidia-modprobe -c 255 -c $$(sed -n s/^Device.Minor:[[:blank:]]*//p "
		"/proc/driver/nvidia/gpus/%k/information)'\"");
	xstrv_push(&lines, "ACTION==\"add\", SUBSYSTEM==\"module\", KERNEL==\"nvidia_uvm\", "
			   "RUN+=\"/usr/bin/nvidia-modprobe -c 0 -u\"");
	xstrv_push(&lines, "ACTION==\"add\", SUBSYSTEM==\"module\", KERNEL==\"nvidia_modeset\", "
			   "RUN+=\"/usr/bin/nvidia-modprobe -m\"");
	staging_write_lines(root, path, &lines);
}

/* A file of its own, of the first name: the kernel takes the last value, that of an owner's file.
 */
static void stage_preset(const struct export *export, struct staging *root, const char *name)
{
	const struct export_input *gpu = export_find_role(export, "gpu");
	_cleanup_free_ char *path = xasprintf("usr/lib/modprobe.d/00-%s.conf", name);
	_cleanup_strv_ struct strv lines = { 0 };

	if (!gpu || !has_coherent_mode(export, gpu))
		return;
	xstrv_push(&lines, "# As the GPU container does. Made by slipway export.");
	xstrv_push(&lines, "options nvidia " NVIDIA_COHERENT "=" NVIDIA_COHERENT_VALUE);
	staging_write_lines(root, path, &lines);
}

void export_stage_rules(struct export *export, struct staging *root, const char *name)
{
	_cleanup_strv_ struct strv lines = { 0 };
	_cleanup_free_ char *path = xasprintf("usr/lib/modprobe.d/%s.conf", name);

	xstrv_push(&lines, "# Made by slipway export.");
	if (export_find_role(export, "gpu")) {
		xstrv_push(&lines, "blacklist nouveau");
		xstrv_push(&lines, "blacklist nova_core");
	}
	add_options(export, &lines);
	if (lines.count > 1)
		staging_write_lines(root, path, &lines);
	stage_preset(export, root, name);
	if (fs_exists(root->fd, "usr/bin/nvidia-modprobe"))
		stage_nodes(root, name);
	else if (export_find_role(export, "gpu"))
		progress_notef(&export->context->progress,
			"%s, which makes the nodes of GPUs: %sthe system needs "
			"its own, and a udev rule that calls it",
			fs_exists(root->fd, EXPORT_SMI) ? "the image has no nvidia-modprobe"
							: "no nvidia-modprobe is exported",
			fs_exists(root->fd, EXPORT_SMI) ? "" : "without a driver container ");
}

/* ---- the whole tree */

/* A layer with other folders would replace links of the system, such as /lib. */
static bool is_allowed(const char *path)
{
	static const char *const folders[] = { "usr/bin/", "usr/lib/", "usr/lib64/", "usr/share/" };

	for (size_t i = 0; i < ARRAY_SIZE(folders); i++)
		if (strncmp(path, folders[i], strlen(folders[i])) == 0)
			return true;
	return false;
}

/* The mode of the folders above it, too, whatever the images and this machine's umask have. */
static int set_mode(const struct staging *root, const char *path, mode_t mode, struct error *error)
{
	_cleanup_free_ char *folder = xstrdup(path);

	for (char *slash = strchr(folder, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (fchmodat(root->fd, folder, PROGRAM_MODE, 0) < 0)
			return error_set_errno(error, -errno, "%s", folder);
		*slash = '/';
	}
	return mode == 0 || fchmodat(root->fd, path, mode, 0) == 0
		       ? 0
		       : error_set_errno(error, -errno, "%s", path);
}

static int list_file(
	const struct staging *root, const char *path, json_object *list, struct error *error)
{
	json_object *item = json_object_new_object();
	char digest[HASH_HEX_SIZE];
	char target[PATH_MAX] = "";
	struct stat status;
	int r = 0;

	(void) json_object_array_add(list, item);
	json_add_texts(item, "path", path);
	if (!is_allowed(path))
		return error_set(error, -EINVAL,
			"%s: outside of usr/bin, usr/lib, usr/lib64 and usr/share", path);
	if (fstatat(root->fd, path, &status, AT_SYMLINK_NOFOLLOW) < 0)
		return error_set_errno(error, -errno, "%s", path);
	if (S_ISLNK(status.st_mode)) {
		if (readlinkat(root->fd, path, target, sizeof(target) - 1) < 0)
			return error_set_errno(error, -errno, "%s", path);
		json_add_texts(item, "link", target);
		return set_mode(root, path, 0, error);
	}
	/* No set-uid bit stays: those who start nvidia-modprobe here are root. */
	r = set_mode(root, path, status.st_mode & S_IXUSR ? PROGRAM_MODE : FILE_MODE, error);
	if (r < 0)
		return r;
	r = hash_file(root->fd, path, digest);
	if (r < 0)
		return error_set_errno(error, r, "%s", path);
	json_add_texts(item, "sha256", digest);
	return 0;
}

static json_object *describe_set(const struct export_input *input)
{
	const struct image_conf *conf = &input->conf;
	json_object *object = json_object_new_object();

	json_add_texts(object, "role", conf->role, "version", conf->version, "revision",
		conf->revision, "set", conf->set, "proof", conf->proof, "kernel_module_type",
		conf->kernel_module_type, "addons", conf->addons, "signed_by", conf->signed_by,
		"signed_key", conf->signed_key);
	return object;
}

json_object *export_to_json(const struct export *export)
{
	json_object *root = json_object_new_object();
	json_object *sets = json_object_new_array();

	json_add_texts(root, "name", export->name, "krel", export->krel, "os",
		export->context->os.os, "arch", export->arch->uname);
	for (size_t i = 0; i < export->input_count; i++)
		(void) json_object_array_add(sets, describe_set(&export->inputs[i]));
	json_add(root, "sets", sets);
	json_add_texts(root, "peermem_ofed", export->peermem_ofed, "glibc", export->glibc);
	json_add(root, "needs", json_list(&export->needs));
	return root;
}

int export_finish_tree(struct export *export, struct staging *root, struct error *error)
{
	json_object *object;
	json_object *list = json_object_new_array();
	_cleanup_strv_ struct strv paths = { 0 };
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ char *path = NULL;
	int r = root->result;

	if (r == 0) {
		r = fs_list_tree(root->fd, "usr", &paths);
		if (r < 0)
			(void) error_set_errno(error, r, "%s", root->path);
	}
	for (size_t i = 0; i < paths.count && r == 0; i++)
		r = list_file(root, paths.items[i], list, error);
	if (r < 0) {
		(void) json_object_put(list);
		return r;
	}
	object = export_to_json(export);
	json_add(object, "files", list);
	text = json_pretty(object);
	(void) json_object_put(object);
	path = export->form->own_folder ? xasprintf(EXPORT_FOLDER "/%s/" EXPORT_LIST, export->name)
					: xstrdup(EXPORT_FOLDER "/" EXPORT_LIST);
	staging_write(root, path, text, strlen(text));
	if (root->result == 0 && fchmod(root->fd, PROGRAM_MODE) < 0)
		return error_set_errno(error, -errno, "%s", root->path);
	return root->result;
}
