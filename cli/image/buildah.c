/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/image/buildah.h"

#include <fcntl.h>
#include <string.h>

#include "common/fs.h"
#include "common/process.h"
#include "kernels/tool.h"

#define CONTAINERS_FILE "containers"

/* "buildah" and the words up to the NULL; each word may be formatted beforehand. */
static int words(struct strv *argv, const char *const *list)
{
	int r = strv_push(argv, "buildah");

	for (; *list && r == 0; list++)
		r = strv_push(argv, *list);
	return r;
}

/* chroot isolation needs no cgroups and no runtime, so it works inside other containers too. */
static int environment(struct strv *list)
{
	return getenv("BUILDAH_ISOLATION") ? 0 : strv_push(list, "BUILDAH_ISOLATION=chroot");
}

/* Runs with the output going to the log. Returns the exit status or a negative errno. */
static int run_logged(const struct buildah *buildah, const struct strv *argv, struct error *error)
{
	_cleanup_strv_ struct strv extra = { 0 };
	struct process process = {
		.argv = argv,
		.extra_env = &extra,
		.stdin_fd = -1,
		.log_fd = buildah->log_fd,
		.on_line = buildah->on_line,
		.context = buildah->context,
	};
	int r = environment(&extra);

	if (r < 0)
		return error_set_errno(error, r, "buildah");
	r = process_run(&process, NULL, error);
	return r == -ENOENT ? -ENOPKG : r;
}

/* The hex digits of an ID as the different commands print it: "sha256:" and a newline go. */
static char *plain_id(const char *text)
{
	static const char algorithm[] = "sha256:";

	if (strncmp(text, algorithm, strlen(algorithm)) == 0)
		text += strlen(algorithm);
	return strndup(text, strcspn(text, "\n"));
}

char *buildah_image_id(const char *name)
{
	const char *const list[] = { "inspect", "--type", "image", "--format", "{{.FromImageID}}",
		name, NULL };
	_cleanup_strv_ struct strv argv = { 0 };
	_cleanup_free_ char *output = NULL;
	struct error ignored = { 0 };

	if (words(&argv, list) < 0 || tool_run(&argv, &output, &ignored) < 0)
		return NULL;
	return plain_id(output);
}

char *buildah_image_label(const char *name, const char *label)
{
	char format[128];
	const char *const list[] = { "inspect", "--type", "image", "--format", format, name, NULL };
	_cleanup_strv_ struct strv argv = { 0 };
	_cleanup_free_ char *output = NULL;
	struct error ignored = { 0 };
	size_t length;

	(void) snprintf(format, sizeof(format), "{{index .OCIv1.Config.Labels \"%s\"}}", label);
	if (words(&argv, list) < 0 || tool_run(&argv, &output, &ignored) < 0)
		return NULL;
	length = strcspn(output, "\n");
	return length ? strndup(output, length) : NULL;
}

/* Written down before it is made, so that a killed run's containers can be found. */
static int note_container(const struct buildah *buildah, const char *container)
{
	_cleanup_free_ char *path = NULL;
	_cleanup_fclose_ FILE *file = NULL;

	if (asprintf(&path, "%s/" CONTAINERS_FILE, buildah->run_path) < 0)
		return -ENOMEM;
	file = fopen(path, "ae");
	if (!file)
		return -errno;
	return fprintf(file, "%s\n", container) < 0 ? -EIO : 0;
}

/* Runs in other containers that share the storage have our process IDs, but not our folder. */
static int from(const struct buildah *buildah, const char *image, const char *what,
	char **ret_container, struct error *error)
{
	_cleanup_free_ char *container = NULL;
	_cleanup_strv_ struct strv argv = { 0 };
	int r;

	if (asprintf(&container, "slipway-%s-%s", what, strrchr(buildah->run_path, '/') + 1) < 0)
		return error_set_errno(error, -ENOMEM, "buildah from");
	r = note_container(buildah, container);
	if (r == 0)
		r = words(&argv, (const char *const[]){ "from", "--pull-never", "--name", container,
					 image, NULL });
	if (r < 0)
		return error_set_errno(error, r, "buildah from");
	r = tool_run(&argv, NULL, error);
	if (r == 0)
		*ret_container = TAKE_PTR(container);
	return r;
}
static void remove_container(const char *container)
{
	const char *const list[] = { "rm", container, NULL };
	_cleanup_strv_ struct strv argv = { 0 };
	struct error ignored = { 0 };

	/* One that is gone already is as good. */
	if (words(&argv, list) == 0)
		(void) !tool_run(&argv, NULL, &ignored);
}

int buildah_import(
	const struct buildah *buildah, const char *tar_path, const char *name, struct error *error)
{
	_cleanup_free_ char *container = NULL;
	_cleanup_strv_ struct strv add = { 0 };
	_cleanup_strv_ struct strv commit = { 0 };
	int r;

	r = from(buildah, "scratch", "import", &container, error);
	if (r < 0)
		return r;
	r = words(&add, (const char *const[]){ "add", "--quiet", container, tar_path, "/", NULL });
	if (r == 0)
		r = words(&commit, (const char *const[]){ "commit", "--quiet", "--timestamp", "0",
					   container, name, NULL });
	if (r < 0)
		return error_set_errno(error, r, "buildah");
	r = tool_run(&add, NULL, error);
	if (r == 0)
		r = tool_run(&commit, NULL, error);
	remove_container(container);
	return r;
}

static int add_options(struct strv *argv, const char *option, const struct strv *values)
{
	int r = 0;

	for (size_t i = 0; i < values->count && r == 0; i++) {
		r = strv_push(argv, option);
		if (r == 0)
			r = strv_push(argv, values->items[i]);
	}
	return r;
}

static int read_id(const char *path, char **ret_id)
{
	_cleanup_free_ char *text = NULL;
	int r = fs_read(AT_FDCWD, path, 0, &text, NULL);

	if (r < 0)
		return r;
	*ret_id = plain_id(text);
	return *ret_id ? 0 : -ENOMEM;
}

int buildah_build(const struct buildah *buildah, const char *containerfile, const char *folder,
	const struct strv *arguments, const struct strv *labels, char **ret_id, struct error *error)
{
	_cleanup_free_ char *id_path = NULL;
	_cleanup_strv_ struct strv argv = { 0 };
	int r;

	if (asprintf(&id_path, "%s/image-id", buildah->run_path) < 0)
		return error_set_errno(error, -ENOMEM, "buildah");
	r = words(&argv,
		(const char *const[]){ "build", "--layers", "--pull-never", "--timestamp", "0",
			"--format", "oci", "-f", containerfile, "--iidfile", id_path, NULL });
	if (r == 0 && !buildah->network)
		r = strv_push(&argv, "--network=none");
	if (r == 0 && buildah->target)
		r = strv_pushf(&argv, "--target=%s", buildah->target);
	if (r == 0)
		r = add_options(&argv, "--build-arg", arguments);
	if (r == 0)
		r = add_options(&argv, "--label", labels);
	if (r == 0)
		r = strv_push(&argv, folder);
	if (r < 0)
		return error_set_errno(error, r, "buildah");
	r = run_logged(buildah, &argv, error);
	if (r > 0)
		return error_set(
			error, -EIO, "buildah build -f %s: exit status %d", containerfile, r);
	if (r < 0)
		return r;
	r = read_id(id_path, ret_id);
	return r < 0 ? error_set_errno(error, r, "%s", id_path) : 0;
}

int buildah_tag(const char *id, const char *name, struct error *error)
{
	_cleanup_strv_ struct strv argv = { 0 };
	int r = words(&argv, (const char *const[]){ "tag", id, name, NULL });

	return r < 0 ? error_set_errno(error, r, "buildah tag") : tool_run(&argv, NULL, error);
}

static int add_mounts(struct strv *argv, const struct buildah_mount *mounts, size_t count)
{
	int r = 0;

	for (size_t i = 0; i < count && r == 0; i++) {
		r = strv_push(argv, "-v");
		if (r == 0)
			r = strv_pushf(argv, "%s:%s:%s", mounts[i].from, mounts[i].to,
				mounts[i].writable ? "rw" : "ro");
	}
	return r;
}

/* The command line of a run in @container. */
static int run_argv(const char *container, const struct buildah_mount *mounts, size_t mount_count,
	const struct strv *variables, const struct strv *argv, struct strv *all)
{
	int r = words(all, (const char *const[]){ "run", "--network", "none", NULL });

	if (r == 0)
		r = add_mounts(all, mounts, mount_count);
	if (r == 0)
		r = add_options(all, "--env", variables);
	if (r == 0)
		r = strv_push(all, container);
	if (r == 0)
		r = strv_push(all, "--");
	for (size_t i = 0; i < argv->count && r == 0; i++)
		r = strv_push(all, argv->items[i]);
	return r;
}

int buildah_run(const struct buildah *buildah, const char *image, const char *what,
	const struct buildah_mount *mounts, size_t mount_count, const struct strv *variables,
	const struct strv *argv, struct error *error)
{
	_cleanup_free_ char *container = NULL;
	_cleanup_strv_ struct strv all = { 0 };
	int r = from(buildah, image, what, &container, error);

	if (r < 0)
		return r;
	r = run_argv(container, mounts, mount_count, variables, argv, &all);
	r = r < 0 ? error_set_errno(error, r, "buildah run") : run_logged(buildah, &all, error);
	remove_container(container);
	return r;
}

int buildah_push(const struct buildah *buildah, const char *id, const char *destination,
	char **ret_digest, struct error *error)
{
	_cleanup_free_ char *digest_path = NULL;
	_cleanup_strv_ struct strv argv = { 0 };
	int r;

	if (asprintf(&digest_path, "%s/digest", buildah->run_path) < 0)
		return error_set_errno(error, -ENOMEM, "buildah push");
	r = words(&argv, (const char *const[]){ "push", "--quiet", "--digestfile", digest_path, id,
				 destination, NULL });
	if (r < 0)
		return error_set_errno(error, r, "buildah push");
	r = tool_run(&argv, NULL, error);
	if (r < 0)
		return r;
	r = fs_read_line(AT_FDCWD, digest_path, ret_digest);
	return r < 0 ? error_set_errno(error, r, "%s", digest_path) : 0;
}

int buildah_save(const char *id, const char *path, struct error *error)
{
	_cleanup_strv_ struct strv argv = { 0 };
	int r = words(&argv,
		(const char *const[]){ "push", "--quiet", "--disable-compression", id, NULL });

	if (r == 0)
		r = strv_pushf(&argv, "oci-archive:%s", path);
	return r < 0 ? error_set_errno(error, r, "buildah push") : tool_run(&argv, NULL, error);
}

int buildah_pull(const char *source, char **ret_id, struct error *error)
{
	_cleanup_strv_ struct strv argv = { 0 };
	_cleanup_free_ char *output = NULL;
	int r = words(&argv, (const char *const[]){ "pull", "--quiet", source, NULL });

	if (r < 0)
		return error_set_errno(error, r, "buildah pull");
	r = tool_run(&argv, &output, error);
	if (r < 0)
		return r;
	*ret_id = plain_id(output);
	return *ret_id ? 0 : error_set_errno(error, -ENOMEM, "buildah pull");
}

int buildah_remove_image(const char *name)
{
	_cleanup_strv_ struct strv argv = { 0 };
	struct error ignored = { 0 };
	int r = words(&argv, (const char *const[]){ "rmi", name, NULL });

	return r < 0 ? r : tool_run(&argv, NULL, &ignored);
}

int buildah_image_names(const char *prefix, struct strv *names)
{
	const char *const list[] = { "images", "--noheading", "--format", "{{.Name}}:{{.Tag}}",
		NULL };
	_cleanup_strv_ struct strv argv = { 0 };
	_cleanup_strv_ struct strv lines = { 0 };
	_cleanup_free_ char *output = NULL;
	struct error ignored = { 0 };
	int r = words(&argv, list);

	if (r == 0)
		r = tool_run(&argv, &output, &ignored);
	if (r == 0)
		r = strv_split(&lines, output, "\n");
	for (size_t i = 0; i < lines.count && r == 0; i++)
		if (strncmp(lines.items[i], prefix, strlen(prefix)) == 0)
			r = strv_push(names, lines.items[i]);
	return r;
}

void buildah_sweep(const char *run_path)
{
	_cleanup_strv_ struct strv containers = { 0 };
	_cleanup_free_ char *path = NULL;
	_cleanup_free_ char *text = NULL;

	if (asprintf(&path, "%s/" CONTAINERS_FILE, run_path) < 0 ||
		fs_read(AT_FDCWD, path, 0, &text, NULL) < 0 ||
		strv_split(&containers, text, "\n") < 0)
		return;
	for (size_t i = 0; i < containers.count; i++)
		remove_container(containers.items[i]);
}
