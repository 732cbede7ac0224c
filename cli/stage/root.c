/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Build roots: what drivers are compiled in, made of a distribution's own signed repositories by
 * containers/root/. No package manager runs in a container, and none of a root's packages is
 * believed that Slipway's own rules would not believe.
 */
#include "cli/stage/stage_internal.h"

#include <fcntl.h>
#include <string.h>

#include "common/slipway_version.h"
#include "common/fs.h"
#include "common/xalloc.h"
#include "kernels/repo/rpm.h"
#include "kernels/tool.h"

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
	r = tool_run_logged(&fetch, place->log, error);
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
	return tool_run_logged(&install, place->log, error);
}

static int make_apt(struct build *build, const struct stage *stage, const struct stage_place *place,
	const struct root_files *files, struct error *error)
{
	_cleanup_strv_ struct strv argv = { 0 };

	progress_step(&build->context.progress, "packages by mmdebstrap");
	root_command(build, stage, "make", files, &argv);
	xstrv_push(&argv, "--output");
	xstrv_push(&argv, files->tar);
	return tool_run_logged(&argv, place->log, error);
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
		r = root_is_apt(build, stage) ? make_apt(build, stage, place, &files, error)
					      : make_rpm(build, stage, place, &files, error);
	if (r == 0)
		r = root_check_packages(stage, &files, error);
	if (r == 0)
		r = root_note_packages(build, stage, place, error);
	name = xasprintf(IMAGE_LOCAL "%s-%s:%.16s", stage->name, root->os.os, place->key);
	return r < 0 ? r
		     : image_import(
			       build, place, files.tar, name, root_arch(build, stage)->oci, error);
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
