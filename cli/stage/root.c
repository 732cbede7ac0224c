/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Build roots: what drivers are compiled in, made of a distribution's own signed repositories by
 * containers/root/. No package manager runs in a container, and none of a root's packages is
 * believed that Slipway's own rules would not believe.
 */
#include "cli/stage/stage_internal.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/slipway_version.h"
#include "common/fs.h"
#include "common/xalloc.h"
#include "kernels/repo/rpm.h"
#include "kernels/tool.h"

/* ---- what is in it */

/* "{gcc}" and "{clang}": the compiler's version, as packages are called by it. */
static void push_packages(
	struct strv *packages, const struct strv *words, const char *word, const char *version)
{
	for (size_t i = 0; i < words->count; i++) {
		char *name = replace_words(words->items[i], &word, &version, 1);

		xstrv_push_unique(packages, name);
		free(name);
	}
}

/* Adds the packages that the rpms of the kernel's headers require for compiling. */
static void push_required(const struct build *build, struct strv *packages)
{
	_cleanup_free_ char *path = xasprintf("%s/" KERNEL_REQUIRES_FILE, build->kernel.tree.path);
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *text = NULL;

	if (!build->kernel.tree.path || fs_read(AT_FDCWD, path, 0, &text, NULL) < 0)
		return;
	xstrv_split(&names, text, "\n");
	for (size_t i = 0; i < names.count; i++)
		xstrv_push_unique(packages, names.items[i]);
}

void root_packages(const struct build *build, enum root_id id, struct strv *ret)
{
	const struct root_rules *rules = &build->roots[id].os.root;
	const struct kernel_compiler *compiler = &build->kernel.record.compiler;
	const char *version = compiler->name ? strchr(compiler->name, '-') : NULL;
	bool clang = compiler->family && strcmp(compiler->family, "clang") == 0;

	for (size_t i = 0; i < rules->packages.count; i++)
		xstrv_push(ret, rules->packages.items[i]);
	if (id == ROOT_KERNEL)
		push_required(build, ret);
	/* slipway-init is compiled by whatever is called gcc there. */
	if (!version || (id == ROOT_RUNTIME && !roots_are_one(build)))
		return;
	if (clang)
		push_packages(ret, &rules->clang_packages, "{clang}", version + 1);
	else
		push_packages(ret, &rules->compiler_packages, "{gcc}", version + 1);
}

/* ---- its key */

/* The ID of the image that an option names now: the name may stand for another one tomorrow. */
int find_users_image(const char *option, const char *name, char **ret_id, struct error *error)
{
	*ret_id = buildah_image_id(name);
	if (*ret_id)
		return 0;
	(void) error_set(error, -ENOENT, "%s %s: not in the local storage", option, name);
	return error_try(error, -ENOENT, "buildah pull %s", name);
}

static bool is_of_users_image(const struct build *build, const struct stage *stage)
{
	return build->options.base_image && stage->of == ROOT_KERNEL;
}

static const char *script_of(const struct root *root)
{
	return strcmp(root->os.root.family, "apt") == 0 ? "apt" : "rpm";
}

void root_key(const struct stage *stage, struct key *key)
{
	const struct build *build = key->build;
	const enum root_id id = (enum root_id) stage->of;
	_cleanup_strv_ struct strv packages = { 0 };
	_cleanup_free_ char *image = NULL;

	if (is_of_users_image(build, stage)) {
		key->result = find_users_image(
			"--base-image", build->options.base_image, &image, key->error);
		if (key->result == 0)
			key_text(key, image);
		return;
	}
	root_os_key(id, key);
	root_packages(build, id, &packages);
	for (size_t i = 0; i < packages.count; i++)
		key_text(key, packages.items[i]);
	key_data(key, "containers/root/%s.sh", script_of(&build->roots[id]));
	if (strcmp(script_of(&build->roots[id]), "apt") == 0)
		key_data(key, ROOT_APT_COMMON);
}

/* ---- making it */

int root_script(const struct strv *argv, const struct stage_place *place, struct error *error)
{
	/* rpm and apt add up what packages need before they install the first. */
	static const char *const full[] = { "No space left on device", "more space on the",
		"enough free space in" };
	int r = tool_run_logged(argv, place->log, error);

	for (size_t i = 0; i < ARRAY_SIZE(full) && r == -EIO; i++)
		if (strstr(error->text, full[i]))
			r = -ENOSPC;
	return r;
}

static int run_script(const struct build *build, const struct root *root,
	const struct stage_place *place, const char *verb, const char *const *words,
	const struct strv *packages, struct error *error)
{
	_cleanup_strv_ struct strv argv = { 0 };

	xstrv_pushf(&argv, "%s/containers/root/%s.sh", build->context.data, script_of(root));
	if (verb)
		xstrv_push(&argv, verb);
	/* Options without a value are left out. */
	for (; words[0]; words += 2) {
		if (!words[1] || !*words[1])
			continue;
		xstrv_push(&argv, words[0]);
		xstrv_push(&argv, words[1]);
	}
	for (size_t i = 0; packages && i < packages->count; i++) {
		xstrv_push(&argv, "--package");
		xstrv_push(&argv, packages->items[i]);
	}
	return root_script(&argv, place, error);
}

/*
 * Whatever dnf would have believed: each package has to have a good signature by a key of the
 * repository that it is from, over itself. -EKEYREJECTED and so on as rpm_signature_check() has it.
 */
static int check_packages(struct build *build, const struct root *root, const char *folder,
	size_t *ret_count, size_t *ret_signed, struct error *error)
{
	_cleanup_close_ int scratch_fd =
		open(build->context.cache.scratch_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_strv_ struct strv all = { 0 };
	size_t folders = 0;
	int r = 0;

	*ret_count = *ret_signed = 0;
	if (scratch_fd < 0)
		return error_set_errno(error, -errno, "%s", build->context.cache.scratch_path);
	for (size_t i = 0; i < root->os.repository_count; i++) {
		const struct repository *repository = &root->os.repositories[i];
		_cleanup_free_ char *path = xasprintf("%s/%s", folder, repository->name);
		_cleanup_close_ int folder_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		_cleanup_strv_ struct strv names = { 0 };

		r = folder_fd >= 0 ? fs_list(folder_fd, ".", &names) : errno == ENOENT ? 0 : -errno;

		if (r < 0)
			return error_set_errno(error, r, "%s", path);
		folders += folder_fd >= 0;

		for (size_t j = 0; j < names.count && r == 0; j++) {
			const struct signature_request request = {
				.name = names.items[j],
				.folder_fd = folder_fd,
				.path = names.items[j],
				.keyrings = &repository->keyrings,
				.keyring = root_keyring(build, root),
				.allow_unsigned = root_allows_unsigned(build, root),
			};
			_cleanup_free_ char *signer = NULL;

			r = rpm_signature_check(&request, scratch_fd, &signer, error);
			(*ret_count)++;
			*ret_signed += r == 0 && *signer;
		}
		if (r < 0)
			return root_rejected(build, root,
				error_prefix(error, r, "repository %s", repository->name), error);
	}
	/* All that is installed has been looked at. */
	r = fs_list(AT_FDCWD, folder, &all);
	if (r == 0 && all.count != folders)
		r = -EBADMSG;
	return r < 0 ? error_set_errno(error, r, "%s", folder) : 0;
}

static int make_rpm(struct build *build, const struct root *root, const struct stage_place *place,
	const struct root_files *files, const struct strv *packages, struct error *error)
{
	const char *const fetch[] = { "--packages", files->packages, "--repositories",
		files->repositories, "--arch", build->target.arch->uname, "--releasever",
		root->os.root.releasever, "--platform", root->os.root.platform, NULL };
	const char *const install[] = { "--packages", files->packages, "--output", files->tar,
		NULL };
	size_t count = 0, with_signature = 0;
	int r;

	progress_step(&build->context.progress, "packages by dnf");
	r = run_script(build, root, place, "fetch", fetch, packages, error);
	if (r == 0)
		r = check_packages(build, root, files->packages, &count, &with_signature, error);
	if (r < 0)
		return r;
	if (with_signature == count)
		progress_notef(&build->context.progress,
			"%zu packages of %s, each with a good signature", count, root->os.name);
	else
		progress_notef(&build->context.progress,
			"%zu packages of %s, %zu of them without a good signature", count,
			root->os.name, count - with_signature);
	progress_step(&build->context.progress, "install them into the root");
	return run_script(build, root, place, "install", install, NULL, error);
}

static int make_apt(struct build *build, const struct root *root, const struct stage_place *place,
	const struct root_files *files, const struct strv *packages, struct error *error)
{
	const char *const words[] = { "--output", files->tar, "--suite", root->os.root.suite,
		"--repositories", files->repositories, "--auth", files->auth, "--conf", files->conf,
		NULL };

	progress_step(&build->context.progress, "packages by mmdebstrap");
	return run_script(build, root, place, NULL, words, packages, error);
}

/*
 * Why an image is not there that only the network could bring: offline, or a bundle of another
 * slipway, whose recipes make another image.
 */
int root_fail_offline(const struct build *build, const char *what, struct error *error)
{
	if (!build->bundle_slipway) {
		(void) error_set(error, -ENETDOWN,
			"%s: not in the cache, and --offline keeps it from being made", what);
		(void) error_try(error, -ENETDOWN, "once without --offline");
		return error_try(error, -ENETDOWN, "slipway bundle, and --bundle FILE here");
	}
	(void) error_set(error, -ENETDOWN,
		"%s: the one in the bundle is of other recipes: slipway %s made the bundle, this is " SLIPWAY_VERSION
		" with its own containers/ folder",
		what, build->bundle_slipway);
	(void) error_try(error, -ENETDOWN, "a new bundle, made with this slipway");
	return error_try(error, -ENETDOWN, "slipway %s here", build->bundle_slipway);
}

int root_list_keep(
	const struct root_files *files, const struct stage_place *place, struct error *error)
{
	_cleanup_free_ char *list = xasprintf("%s/" ROOT_PACKAGES_FILE, place->folder);
	int r = fs_copy(AT_FDCWD, files->list, list, 0, 0644);

	return r < 0 ? error_set_errno(error, r, "%s", list) : 0;
}

int root_run(struct build *build, const struct stage *stage, const struct stage_place *place,
	struct error *error)
{
	struct root *root = &build->roots[stage->of];
	_cleanup_(root_files_free) struct root_files files = { 0 };
	_cleanup_strv_ struct strv packages = { 0 };
	_cleanup_free_ char *name = NULL;
	int r;

	if (is_of_users_image(build, stage)) {
		r = find_users_image("--base-image", build->options.base_image, &name, error);
		return r < 0 ? r : image_name_write(place, name, error);
	}
	if (build->options.common.offline)
		return root_fail_offline(build, stage->name, error);
	r = root_check_lists(build, stage->of, error);
	if (r == 0)
		r = root_sources(build, stage->of, &files, error);
	if (r < 0)
		return r;
	root_packages(build, stage->of, &packages);
	r = strcmp(root->os.root.family, "apt") == 0
		    ? make_apt(build, root, place, &files, &packages, error)
		    : make_rpm(build, root, place, &files, &packages, error);
	if (r < 0)
		return r;
	r = root_list_keep(&files, place, error);
	if (r < 0)
		return r;
	name = xasprintf("localhost/slipway/%s-%s:%.16s", stage->name, root->os.os, place->key);
	return image_import(build, place, files.tar, name, error);
}

/* ---- what was in it */

static const struct {
	const char *name; /* in the lock */
	/* The stage whose output has the list: not the root itself, which a bundle lacks. */
	struct stage_input listed;
} root_lists[] = {
	{ "build-root", { STAGE_TOOLCHAIN, ROOT_KERNEL } },
	{ "init-root", { STAGE_TOOLCHAIN, ROOT_RUNTIME } },
	{ "runtime-base", { STAGE_RUNTIME_BASE, 0 } },
};

int root_list_copy(const struct build *build, enum root_id id, const struct stage_place *place,
	struct error *error)
{
	_cleanup_free_ char *from =
		xasprintf("%s/" ROOT_PACKAGES_FILE, stage_output(build, STAGE_ROOT, id));
	_cleanup_free_ char *to = xasprintf("%s/" ROOT_PACKAGES_FILE, place->folder);
	int r = fs_copy(AT_FDCWD, from, to, 0, 0644);

	return r < 0 && r != -ENOENT ? error_set_errno(error, r, "%s", to) : 0;
}

void roots_lock(struct build *build)
{
	for (size_t i = 0; i < ARRAY_SIZE(root_lists); i++) {
		const char *name = root_lists[i].name;
		const struct stage_input *listed = &root_lists[i].listed;
		_cleanup_free_ char *text = NULL;
		_cleanup_free_ char *path = NULL;
		size_t others;

		/* One root for both: its list is the first. */
		if (stage_find(build, listed->kind, listed->of)->of != listed->of)
			continue;
		path = xasprintf(
			"%s/" ROOT_PACKAGES_FILE, stage_output(build, listed->kind, listed->of));
		/* An image from a bundle has no list here; the bundle's lock has it. */
		if (fs_read(AT_FDCWD, path, 0, &text, NULL) < 0)
			continue;
		others = lock_set_root(&build->kernel.lock, name, text);
		if (others)
			progress_notef(&build->context.progress,
				"%zu packages of the %s are not those of the lock: the lists have newer "
				"ones; slipway bundle keeps the root itself",
				others, name);
	}
}
