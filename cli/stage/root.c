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

/* ---- the scripts that make one, and the runtime base */

enum root_id root_of(const struct stage *stage)
{
	return stage->kind == STAGE_ROOT ? (enum root_id) stage->of : ROOT_RUNTIME;
}

static bool is_apt(const struct build *build, const struct stage *stage)
{
	return strcmp(build->roots[root_of(stage)].os.root.family, "apt") == 0;
}

static const char *script_of(const struct build *build, const struct stage *stage)
{
	return stage->kind == STAGE_RUNTIME_BASE ? "containers/runtime/runtime.sh"
	       : is_apt(build, stage)            ? "containers/root/apt.sh"
						 : "containers/root/rpm.sh";
}

/* All that is asked for; the base's script itself has what is always in that. */
static void push_wanted(const struct build *build, const struct stage *stage, struct strv *packages)
{
	if (stage->kind == STAGE_ROOT) {
		root_packages(build, root_of(stage), packages);
	} else if (build->options.sources_image) { /* for fetching headers on a node */
		xstrv_push(packages, "gpgv");
		xstrv_push(packages, "ca-certificates");
	}
}

void root_question_key(const struct stage *stage, struct key *key)
{
	const struct build *build = key->build;
	_cleanup_strv_ struct strv packages = { 0 };

	root_os_key(root_of(stage), key);
	push_wanted(build, stage, &packages);
	for (size_t i = 0; i < packages.count; i++)
		key_text(key, packages.items[i]);
	key_data(key, "%s", script_of(build, stage));
	if (is_apt(build, stage))
		key_data(key, "containers/root/apt-common.sh");
}

void root_command(const struct build *build, const struct stage *stage, const char *verb,
	const struct root_files *files, struct strv *ret)
{
	const struct root_rules *rules = &build->roots[root_of(stage)].os.root;
	bool apt = is_apt(build, stage);
	const char *const options[][2] = {
		{ "--repositories", files->repositories },
		{ "--arch", apt ? build->target.arch->debian : build->target.arch->uname },
		{ "--suite", rules->suite },
		{ "--releasever", rules->releasever },
		{ "--platform", rules->platform },
		{ "--auth", apt ? files->auth : "" },
		{ "--conf", apt ? files->conf : "" },
	};
	_cleanup_strv_ struct strv packages = { 0 };

	xstrv_pushf(ret, "%s/%s", build->context.data, script_of(build, stage));
	xstrv_push(ret, verb);
	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		if (!*options[i][1])
			continue;
		xstrv_push(ret, options[i][0]);
		xstrv_push(ret, options[i][1]);
	}
	push_wanted(build, stage, &packages);
	for (size_t i = 0; i < packages.count; i++) {
		xstrv_push(ret, "--package");
		xstrv_push(ret, packages.items[i]);
	}
}

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

/* ---- its key */

/* The ID of the image that an option names now: the name may stand for another one tomorrow. */
int find_users_image(const char *option, const char *name, char **ret_id, struct error *error)
{
	*ret_id = buildah_image_id(name);
	if (*ret_id)
		return 0;
	(void) error_set(
		error, -ENOENT, "%s %s: this image is not in the local storage", option, name);
	return error_try(error, -ENOENT, "buildah pull %s", name);
}

static bool is_of_users_image(const struct build *build, const struct stage *stage)
{
	return build->options.base_image && stage->of == ROOT_KERNEL;
}

void root_key(const struct stage *stage, struct key *key)
{
	const struct build *build = key->build;
	_cleanup_free_ char *image = NULL;

	if (is_of_users_image(build, stage)) {
		key->result = find_users_image(
			"--base-image", build->options.base_image, &image, key->error);
		if (key->result == 0)
			key_text(key, image);
		return;
	}
	root_question_key(stage, key);
	key_text(key, stage->packages ? stage->packages : "");
}

/* ---- making it */

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

		for (size_t j = 0; j < names.count; j++) {
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
			if (r < 0)
				return root_rejected(build, root,
					error_prefix(error, r, "repository %s", repository->name),
					error);
			(*ret_count)++;
			*ret_signed += *signer != '\0';
		}
	}
	/* All that is installed has been looked at. */
	r = fs_list(AT_FDCWD, folder, &all);
	if (r == 0 && all.count != folders)
		r = -EBADMSG;
	return r < 0 ? error_set_errno(error, r, "%s", folder) : 0;
}

static int make_rpm(struct build *build, const struct stage *stage, const struct stage_place *place,
	const struct root_files *files, struct error *error)
{
	const struct root *root = &build->roots[stage->of];
	_cleanup_strv_ struct strv fetch = { 0 };
	_cleanup_strv_ struct strv install = { 0 };
	size_t count = 0, with_signature = 0;
	int r;

	progress_step(&build->context.progress, "packages by dnf");
	root_command(build, stage, "fetch", files, &fetch);
	xstrv_push(&fetch, "--packages");
	xstrv_push(&fetch, files->packages);
	r = root_script(&fetch, place, error);
	if (r == 0)
		r = check_packages(build, root, files->packages, &count, &with_signature, error);
	if (r < 0)
		return r;
	if (with_signature == count)
		progress_notef(&build->context.progress,
			"%zu packages of %s, all with good signatures", count, root->os.name);
	else
		progress_notef(&build->context.progress,
			"%zu packages of %s, %zu of them without a good signature", count,
			root->os.name, count - with_signature);
	progress_step(&build->context.progress, "install them into the root");
	xstrv_push(&install, fetch.items[0]);
	xstrv_push(&install, "install");
	xstrv_push(&install, "--packages");
	xstrv_push(&install, files->packages);
	xstrv_push(&install, "--output");
	xstrv_push(&install, files->tar);
	return root_script(&install, place, error);
}

static int make_apt(struct build *build, const struct stage *stage, const struct stage_place *place,
	const struct root_files *files, struct error *error)
{
	_cleanup_strv_ struct strv argv = { 0 };

	progress_step(&build->context.progress, "packages by mmdebstrap");
	root_command(build, stage, "make", files, &argv);
	xstrv_push(&argv, "--output");
	xstrv_push(&argv, files->tar);
	return root_script(&argv, place, error);
}

/*
 * Why an image is not there that only the network could bring: offline, or a bundle of another
 * slipway, whose recipes make another image.
 */
int root_fail_offline(const struct build *build, const char *what, struct error *error)
{
	if (!build->bundle_slipway) {
		(void) error_set(error, -ENETDOWN,
			"%s: not in the cache, and it cannot be made with --offline", what);
		(void) error_try(error, -ENETDOWN, "run once without --offline");
		return error_try(error, -ENETDOWN,
			"make a bundle elsewhere (slipway bundle) and "
			"use it here: --bundle FILE");
	}
	(void) error_set(error, -ENETDOWN,
		"%s: the bundle was made with other recipes: by slipway %s, and this "
		"is " SLIPWAY_VERSION " with its own containers/ folder",
		what, build->bundle_slipway);
	(void) error_try(error, -ENETDOWN, "make a new bundle with this slipway");
	return error_try(error, -ENETDOWN, "use slipway %s here", build->bundle_slipway);
}

/* "NAME VERSION ARCH" of each line, sorted. */
static void take_names(const char *text, struct strv *ret)
{
	_cleanup_strv_ struct strv lines = { 0 };

	xstrv_split(&lines, text, "\n");
	for (size_t i = 0; i < lines.count; i++) {
		_cleanup_strv_ struct strv words = { 0 };
		_cleanup_free_ char *name = NULL;

		xstrv_split(&words, lines.items[i], " ");
		if (words.count < 3)
			continue;
		name = xasprintf("%s %s %s", words.items[0], words.items[1], words.items[2]);
		xstrv_push_unique(ret, name);
	}
}

/* The first of @names that @others lack, or NULL. */
static const char *find_lacking(const struct strv *names, const struct strv *others)
{
	for (size_t i = 0; i < names->count; i++)
		if (!strv_contains(others, names->items[i]))
			return names->items[i];
	return NULL;
}

int root_check_packages(
	const struct stage *stage, const struct root_files *files, struct error *error)
{
	_cleanup_strv_ struct strv wanted = { 0 };
	_cleanup_strv_ struct strv made = { 0 };
	_cleanup_free_ char *text = NULL;
	const char *other;
	int r = fs_read(AT_FDCWD, files->list, 0, &text, NULL);

	if (r < 0)
		return error_set_errno(error, r, "%s", files->list);
	take_names(stage->packages ? stage->packages : "", &wanted);
	take_names(text, &made);
	other = find_lacking(&made, &wanted);
	if (!other)
		other = find_lacking(&wanted, &made);
	if (!other)
		return 0;
	(void) error_set(error, -ESTALE,
		"the mirror's packages changed while the %s was made of them, such as %s",
		stage->name, other);
	return error_try(error, -ESTALE, "the same command again, with --refresh");
}

int root_make(struct build *build, const struct stage *stage, const struct stage_place *place,
	struct error *error)
{
	const struct root *root = &build->roots[root_of(stage)];
	_cleanup_(root_files_free) struct root_files files = { 0 };
	_cleanup_free_ char *name = NULL;
	int r;

	if (build->options.common.offline)
		return root_fail_offline(build, stage->name, error);
	r = root_sources(build, root_of(stage), &files, error);
	if (r == 0)
		r = is_apt(build, stage) ? make_apt(build, stage, place, &files, error)
					 : make_rpm(build, stage, place, &files, error);
	if (r == 0)
		r = root_check_packages(stage, &files, error);
	if (r == 0)
		r = root_note_packages(build, stage, place, error);
	name = xasprintf("localhost/slipway/%s-%s:%.16s", stage->name, root->os.os, place->key);
	return r < 0 ? r : image_import(build, place, files.tar, name, error);
}

int root_run(struct build *build, const struct stage *stage, const struct stage_place *place,
	struct error *error)
{
	_cleanup_free_ char *name = NULL;
	int r;

	if (!is_of_users_image(build, stage))
		return root_make(build, stage, place, error);
	r = find_users_image("--base-image", build->options.base_image, &name, error);
	return r < 0 ? r : image_name_write(place, name, error);
}
