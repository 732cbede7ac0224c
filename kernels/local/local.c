/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs of --kernel-from: the kernel in them, and the parts that they have of it. */
#include "kernels/local/local.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "common/xalloc.h"
#include "kernels/krel.h"
#include "kernels/local/local_image.h"

#define TEXT_LIMIT ((size_t) 1 << 20)
/* Texts that matter and have hard links for a name: no image has so many. */
#define LINKED_MAX 64

/* ---- the marks of an archive */

static int read_text(struct archive_input *input, const char *name, const char *path,
	la_int64_t size, char **ret_text, struct error *error)
{
	_cleanup_free_ char *text = NULL;

	if (size < 0 || (uint64_t) size > TEXT_LIMIT)
		return error_set(error, -EBADMSG, "%s: %s is too big to be one", name, path);
	text = xcalloc(1, (size_t) size + 1);
	if (archive_read_data(input->reader, text, (size_t) size) < 0)
		return archive_input_damaged(name, input->reader, error);
	*ret_text = TAKE_PTR(text);
	return 0;
}

bool local_scan_whiteout(const char *path, struct strv *whiteouts)
{
	const char *slash = strrchr(path, '/');
	const char *base = slash ? slash + 1 : path;
	int length = (int) (base - path);

	if (strncmp(base, ".wh.", 4) != 0)
		return false;
	if (strcmp(base, ".wh..wh..opq") == 0)
		xstrv_pushf(whiteouts, "%.*s", length ? length - 1 : 0, path);
	else if (strncmp(base, ".wh..wh.", 8) != 0) /* those are the storage driver's own */
		xstrv_pushf(whiteouts, "%.*s%s", length, path, base + 4);
	return true;
}

/* Marks whose text is in files of other names: by their places in the lists. */
struct linked {
	struct strv paths;
	struct strv targets;
};

static void linked_free(struct linked *linked)
{
	strv_free(&linked->paths);
	strv_free(&linked->targets);
}

static int scan_entries(struct local_scan *scan, struct archive_input *input, const char *name,
	struct strv *whiteouts, struct linked *linked, struct error *error)
{
	struct archive_entry *entry;
	int r;

	while ((r = archive_read_next_header(input->reader, &entry)) != ARCHIVE_EOF) {
		const char *hardlink = archive_input_hardlink(entry);
		_cleanup_free_ char *path = NULL;
		_cleanup_free_ char *text = NULL;
		bool content;

		if (r < ARCHIVE_WARN)
			return archive_input_damaged(name, input->reader, error);
		if (!archive_input_path(entry))
			continue;
		path = xstrdup(archive_input_path(entry));
		if ((whiteouts && local_scan_whiteout(path, whiteouts)) ||
			(archive_entry_filetype(entry) != AE_IFREG && !hardlink) ||
			!local_scan_wants(path, &content))
			continue;
		/* The last of RPM's hard links has the content itself. */
		if (content && hardlink && archive_entry_size(entry) == 0) {
			if (linked->paths.count == LINKED_MAX)
				continue;
			xstrv_push(&linked->paths, path);
			xstrv_push(&linked->targets, hardlink);
			continue;
		}
		if (content) {
			r = read_text(input, name, path, archive_entry_size(entry), &text, error);
			if (r < 0)
				return r;
		}
		local_scan_add(scan, path, text);
	}
	return 0;
}

static int scan_linked(struct local_scan *scan, struct archive_input *input, const char *name,
	const struct linked *linked, struct error *error)
{
	struct archive_entry *entry;
	int r;

	while ((r = archive_read_next_header(input->reader, &entry)) != ARCHIVE_EOF) {
		_cleanup_free_ char *path = NULL;
		_cleanup_free_ char *text = NULL;

		if (r < ARCHIVE_WARN)
			return archive_input_damaged(name, input->reader, error);
		if (!archive_input_path(entry) || archive_entry_filetype(entry) != AE_IFREG)
			continue;
		path = xstrdup(archive_input_path(entry));
		for (size_t i = 0; i < linked->targets.count; i++) {
			if (strcmp(linked->targets.items[i], path) != 0)
				continue;
			r = text ? 0
				 : read_text(input, name, path, archive_entry_size(entry), &text,
					   error);
			if (r < 0)
				return r;
			local_scan_add(scan, linked->paths.items[i], text);
		}
	}
	return 0;
}

int local_scan_archive(struct local_scan *scan, enum archive_kind kind, const char *path,
	const char *member, const char *name, struct strv *whiteouts, struct error *error)
{
	_cleanup_(linked_free) struct linked linked = { 0 };
	_cleanup_(archive_input_close) struct archive_input input;
	int r = archive_input_open(&input, kind, AT_FDCWD, path, member, error);

	if (r == 0)
		r = scan_entries(scan, &input, name, whiteouts, &linked, error);
	if (r < 0 || !linked.paths.count)
		return r;
	/* The links' targets precede them: start again from the beginning. */
	archive_input_close(&input);
	r = archive_input_open(&input, kind, AT_FDCWD, path, member, error);
	return r < 0 ? r : scan_linked(scan, &input, name, &linked, error);
}

/* ---- one input */

static int not_wanted(const char *path, const char *why, struct error *error)
{
	(void) error_set(error, -EINVAL, "%s: %s", path, why);
	(void) error_try(error, -EINVAL,
		"give .deb or .rpm files of the kernel's headers and modules, or a file from "
		"slipway probe");
	(void) error_try(error, -EINVAL,
		"give a kernel's build or headers folder, a root with lib/modules/<krel>, or a "
		"tarball of one");
	return error_try(error, -EINVAL,
		"give an image that contains them, as an OCI layout or "
		"archive");
}

const char *local_kind_name(enum local_kind kind)
{
	static const char *const names[] = {
		[LOCAL_FOLDER] = "folder",
		[LOCAL_TARBALL] = "tarball",
		[LOCAL_DEB] = "deb",
		[LOCAL_RPM] = "rpm",
		[LOCAL_OCI_LAYOUT] = "oci-layout",
		[LOCAL_IMAGE_ARCHIVE] = "image-archive",
		[LOCAL_PROBE] = "probe",
	};

	return names[kind];
}

static int scan_archive(struct local_input *input, enum archive_kind kind, struct error *error)
{
	struct error why = { 0 };
	int r = local_scan_archive(&input->scan, kind, input->path, NULL, input->path, NULL, &why);

	if (r == -EBADMSG && kind == ARCHIVE_KIND_TAR && archive_looks_damaged(input->path))
		r = -EINVAL;
	else if (r == -EBADMSG && kind == ARCHIVE_KIND_TAR && input->scan.mark_count == 0)
		return not_wanted(input->path, "not a known kind of archive", error);
	if (r < 0)
		*error = why;
	return r;
}

static int scan_image(struct local_input *input, struct error *error)
{
	_cleanup_(local_image_free) struct local_image image = { 0 };
	int r = local_image_open(
		input->path, input->kind == LOCAL_IMAGE_ARCHIVE, NULL, &image, error);

	if (r == 0)
		r = local_image_scan(&image, &input->scan, error);
	if (r < 0)
		return r;
	(void) snprintf(input->sha256, sizeof(input->sha256), "%s",
		input->kind == LOCAL_OCI_LAYOUT ? image.digest : "");
	return 0;
}

static int scan_file(struct local_input *input, struct error *error)
{
	enum archive_kind kind;
	int r = archive_input_kind(AT_FDCWD, input->path, &kind);

	if (r < 0)
		return error_set_errno(error, r, "%s", input->path);
	r = scan_archive(input, kind, error);
	if (r < 0)
		return r;
	input->kind = kind == ARCHIVE_KIND_DEB   ? LOCAL_DEB
		      : kind == ARCHIVE_KIND_RPM ? LOCAL_RPM
						 : LOCAL_TARBALL;
	/* A tarball is what is in it. */
	if (input->kind == LOCAL_TARBALL && local_scan_has(&input->scan, PROBE_FILE)) {
		input->kind = LOCAL_PROBE;
	} else if (input->kind == LOCAL_TARBALL &&
		   (local_scan_has(&input->scan, "manifest.json") ||
			   local_scan_has(&input->scan, "oci-layout"))) {
		input->kind = LOCAL_IMAGE_ARCHIVE;
		local_scan_forget(&input->scan, "");
		return scan_image(input, error);
	}
	return 0;
}

static int input_scan(const char *path, struct local_input *input, struct error *error)
{
	_cleanup_close_ int fd = -1;
	struct stat status;
	int r;

	input->path = realpath(path, NULL);
	if (!input->path)
		return not_wanted(path, strerror(errno), error);
	if (stat(input->path, &status) < 0)
		return error_set_errno(error, -errno, "%s", path);
	if (S_ISDIR(status.st_mode)) {
		fd = open(input->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0 || !fs_exists(fd, "oci-layout") || !fs_exists(fd, "index.json")) {
			input->kind = LOCAL_FOLDER;
			return local_scan_folder(input->path, false, &input->scan, error);
		}
		input->kind = LOCAL_OCI_LAYOUT;
	} else if (!S_ISREG(status.st_mode)) {
		return not_wanted(path, "neither a folder nor a file", error);
	}
	r = S_ISDIR(status.st_mode) ? scan_image(input, error) : scan_file(input, error);
	if (r == 0)
		local_scan_finish(&input->scan);
	return r;
}

/* The kernel and the distribution that the input names, beside what is in it. */
static int take_facts(struct local_input *input, struct error *error)
{
	static const char *const files[] = { "etc/os-release", "usr/lib/os-release" };
	const char *text = local_scan_text(&input->scan, PROBE_FILE);
	struct probe *probe = &input->probe;

	if (input->kind == LOCAL_PROBE) {
		int r = probe_parse(text, strlen(text), probe, error);

		return r < 0 ? error_prefix(error, r, "%s", input->path) : 0;
	}
	for (size_t i = 0; i < ARRAY_SIZE(files) && !probe->os; i++) {
		text = local_scan_text(&input->scan, files[i]);
		if (!text)
			continue;
		probe->os = os_release_value(text, "ID");
		free(probe->os_version);
		probe->os_version = os_release_value(text, "VERSION_ID");
	}
	return 0;
}

/* Is there anything of a kernel in it? */
static int check_input(const struct local_input *input, struct error *error)
{
	const struct local_scan *scan = &input->scan;
	char why[64];

	if (input->probe.krel || scan->modules.count || local_scan_has(scan, "usr/src") ||
		local_scan_tree(scan, NULL))
		return 0;
	if (scan->trees.count) {
		(void) error_set(error, -EINVAL,
			"%s: %s%sa kernel source that is not built (it has no "
			"include/generated/utsrelease.h)",
			input->path, scan->trees.items[0].path,
			*scan->trees.items[0].path ? " is " : "");
		return error_try(error, -EINVAL,
			"configure it like the node's kernel, and build it completely");
	}
	(void) snprintf(
		why, sizeof(why), "no kernel files in this %s", local_kind_name(input->kind));
	return not_wanted(input->path, why, error);
}

/* ---- one kernel of all inputs */

static void list_krels(const struct local_kernel *kernel, bool trees, struct strv *krels)
{
	for (size_t i = 0; i < kernel->count; i++) {
		const struct local_input *input = &kernel->inputs[i];
		const struct local_places *places =
			trees ? &input->scan.trees : &input->scan.modules;

		for (size_t j = 0; j < places->count; j++)
			if (places->items[j].krel)
				xstrv_push_unique(krels, places->items[j].krel);
		if (input->probe.krel)
			xstrv_push_unique(krels, input->probe.krel);
	}
	strv_sort(krels);
}

/* Kernels that have headers come first: a package of modules may hold those of others too. */
static int pick_krel(struct local_kernel *kernel, struct error *error)
{
	for (int trees = 1; trees >= 0; trees--) {
		_cleanup_strv_ struct strv krels = { 0 };
		_cleanup_free_ char *text = NULL;

		list_krels(kernel, trees, &krels);
		text = xstrv_join(&krels, ", ");
		if (krels.count > 1)
			return error_try(error,
				error_set(error, -ENOTUNIQ, "it has several kernels: %s", text),
				"choose one: --kernel KREL");
		if (krels.count == 1) {
			kernel->krel = TAKE_PTR(text);
			return 0;
		}
	}
	(void) error_set(error, -EINVAL,
		"the files are only a part of a kernel's headers and name no kernel release");
	return error_try(error, -EINVAL,
		"also give the package named after the release, such as linux-headers-<krel>");
}

static int check_krel(struct local_kernel *kernel, const char *krel, struct error *error)
{
	_cleanup_strv_ struct strv krels = { 0 };
	_cleanup_free_ char *text = NULL;

	list_krels(kernel, true, &krels);
	list_krels(kernel, false, &krels);
	kernel->krel = xstrdup(krel);
	if (strv_contains(&krels, krel))
		return 0;
	text = xstrv_join(&krels, ", ");
	return error_set(error, -ENODATA, "the given files belong to kernel %s, not to %s",
		*text ? text : "an unknown release", krel);
}

/* Finds the parts of the kernel, over all inputs. */
static int find_parts(struct local_kernel *kernel, struct error *error)
{
	const char *without = NULL;
	bool modules_there = false;

	for (size_t i = 0; i < kernel->count; i++) {
		const struct local_input *input = &kernel->inputs[i];
		const struct local_place *tree = local_scan_tree(&input->scan, kernel->krel);
		const struct local_place *modules = local_scan_modules(&input->scan, kernel->krel);

		if (tree && !tree->symvers && !without)
			without = input->path;
		kernel->has_headers |= tree && tree->symvers;
		kernel->has_modules |= (tree && tree->builtin) || (modules && modules->builtin);
		modules_there |= modules != NULL;
		if (!kernel->os) {
			kernel->os = input->probe.os;
			kernel->os_version = input->probe.os_version;
		}
	}
	kernel->modules_unlisted = modules_there && !kernel->has_modules;
	if (!without || kernel->has_headers)
		return 0;
	(void) error_set(error, -EINVAL,
		"%s: the headers of kernel %s have no Module.symvers, which has its symbol "
		"versions",
		without, kernel->krel);
	(void) error_try(error, -EINVAL, "give the kernel's headers package");
	return error_try(error, -EINVAL,
		"build the kernel completely: make modules_prepare does not create Module.symvers");
}

/* Place, mode and content of all that is taken from a folder. */
static int hash_folder(struct local_input *input, const char *krel, struct error *error)
{
	const struct local_parts parts = {
		.krel = krel, .tree = true, .modules = true, .unlisted = true
	};
	_cleanup_(local_files_free) struct local_files files = { 0 };
	struct hash *hash;
	int r = local_files_add_parts(&files, input->path, &input->scan, &parts, error);

	if (r < 0)
		return r;
	hash = hash_new();
	for (size_t i = 0; i < files.count && r == 0; i++) {
		const struct local_file *file = &files.items[i];

		if (file->text) /* made from the others' places */
			continue;
		hash_add_text(hash, file->to);
		hash_add_text(hash, file->link ? file->link : "");
		r = file->link ? 0 : hash_add_tree(hash, AT_FDCWD, file->from);
		if (r < 0)
			(void) error_set_errno(error, r, "%s", file->from);
	}
	hash_finish(hash, input->sha256);
	return r;
}

static int input_hash(struct local_input *input, const char *krel, struct error *error)
{
	int r;

	if (*input->sha256) /* that of an image's manifest */
		return 0;
	if (input->kind == LOCAL_FOLDER)
		return hash_folder(input, krel, error);
	r = hash_file(AT_FDCWD, input->path, input->sha256);
	return r < 0 ? error_set_errno(error, r, "%s", input->path) : 0;
}

int local_open(
	const struct strv *paths, const char *krel, struct local_kernel *ret, struct error *error)
{
	_cleanup_(local_free) struct local_kernel kernel = {
		.inputs = xcalloc(paths->count, sizeof(*kernel.inputs)),
	};
	int r;

	for (size_t i = 0; i < paths->count; i++) {
		struct local_input *input = &kernel.inputs[kernel.count++];

		r = input_scan(paths->items[i], input, error);
		if (r == 0)
			r = take_facts(input, error);
		if (r == 0)
			r = check_input(input, error);
		if (r < 0)
			return r;
	}
	r = krel ? check_krel(&kernel, krel, error) : pick_krel(&kernel, error);
	if (r == 0)
		r = find_parts(&kernel, error);
	for (size_t i = 0; i < kernel.count && r == 0; i++)
		r = input_hash(&kernel.inputs[i], kernel.krel, error);
	if (r < 0)
		return r;
	*ret = kernel;
	kernel = (struct local_kernel){ 0 };
	return 0;
}

void local_free(struct local_kernel *kernel)
{
	for (size_t i = 0; i < kernel->count; i++) {
		local_scan_free(&kernel->inputs[i].scan);
		free(kernel->inputs[i].path);
		probe_free(&kernel->inputs[i].probe);
	}
	free(kernel->inputs);
	free(kernel->krel);
	*kernel = (struct local_kernel){ 0 };
}

char *local_lacks(const struct local_kernel *kernel)
{
	if (kernel->has_headers && kernel->has_modules)
		return NULL;
	return xasprintf("kernel %s: the given files lack %s; the distribution's "
			 "packages must provide the rest",
		kernel->krel,
		kernel->has_headers && kernel->modules_unlisted
			? "modules.builtin for the kernel's own modules (Debian has it in "
			  "linux-base-<krel>)"
		: kernel->has_headers ? "the kernel's own modules, which drivers depend on"
		: kernel->has_modules ? "the headers to compile against"
				      : "the headers to compile against and the kernel's own "
					"modules, which drivers depend on");
}

void local_add_inputs(const struct local_kernel *kernel, struct hash *hash)
{
	hash_add_text(hash, "local-1");
	hash_add_text(hash, kernel->krel);
	for (size_t i = 0; i < kernel->count; i++) {
		hash_add_text(hash, local_kind_name(kernel->inputs[i].kind));
		hash_add_text(hash, kernel->inputs[i].sha256);
	}
}
