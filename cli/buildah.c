/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/buildah.h"

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

bool buildah_has_image(const char *name)
{
	const char *const list[] = { "inspect", "--type", "image", "--format", "{{.FromImageID}}",
		name, NULL };
	_cleanup_strv_ struct strv argv = { 0 };
	struct error ignored = { 0 };

	return words(&argv, list) == 0 && tool_run(&argv, NULL, &ignored) == 0;
}

static void strip_newline(char *text)
{
	text[strcspn(text, "\n")] = '\0';
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

static int from(const struct buildah *buildah, const char *image, const char *container,
	struct error *error)
{
	const char *const list[] = { "from", "--pull-never", "--name", container, image, NULL };
	_cleanup_strv_ struct strv argv = { 0 };
	int r = note_container(buildah, container);

	if (r == 0)
		r = words(&argv, list);
	return r < 0 ? error_set_errno(error, r, "buildah from") : tool_run(&argv, NULL, error);
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

	if (asprintf(&container, "slipway-import-%d", (int) getpid()) < 0)
		return error_set_errno(error, -ENOMEM, "buildah");
	r = from(buildah, "scratch", container, error);
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

int buildah_build(const struct buildah *buildah, const char *containerfile, const char *folder,
	const struct strv *arguments, const struct strv *labels, const char *name,
	struct error *error)
{
	const char *const list[] = { "build", "--layers", "--pull-never", "--timestamp", "0",
		"--format", "oci", "-f", containerfile, "-t", name, NULL };
	_cleanup_strv_ struct strv argv = { 0 };
	int r = words(&argv, list);

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
	return r;
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

int buildah_run(const struct buildah *buildah, const char *image, const char *container,
	const struct buildah_mount *mounts, size_t mount_count, const struct strv *variables,
	const struct strv *argv, struct error *error)
{
	_cleanup_strv_ struct strv all = { 0 };
	int r = words(&all, (const char *const[]){ "run", "--network", "none", NULL });

	if (r == 0)
		r = add_mounts(&all, mounts, mount_count);
	if (r == 0)
		r = add_options(&all, "--env", variables);
	if (r == 0)
		r = strv_push(&all, container);
	if (r == 0)
		r = strv_push(&all, "--");
	for (size_t i = 0; i < argv->count && r == 0; i++)
		r = strv_push(&all, argv->items[i]);
	if (r < 0)
		return error_set_errno(error, r, "buildah run");
	r = from(buildah, image, container, error);
	if (r < 0)
		return r;
	r = run_logged(buildah, &all, error);
	remove_container(container);
	return r;
}

int buildah_push(const struct buildah *buildah, const char *name, const char *destination,
	char **ret_digest, struct error *error)
{
	_cleanup_free_ char *digest_path = NULL;
	_cleanup_strv_ struct strv argv = { 0 };
	int r;

	if (asprintf(&digest_path, "%s/digest", buildah->run_path) < 0)
		return error_set_errno(error, -ENOMEM, "buildah push");
	r = words(&argv, (const char *const[]){ "push", "--quiet", "--digestfile", digest_path,
				 name, destination, NULL });
	if (r < 0)
		return error_set_errno(error, r, "buildah push");
	r = tool_run(&argv, NULL, error);
	if (r < 0)
		return r;
	r = fs_read_line(AT_FDCWD, digest_path, ret_digest);
	return r < 0 ? error_set_errno(error, r, "%s", digest_path) : 0;
}

int buildah_pull(
	const struct buildah *buildah, const char *source, const char *name, struct error *error)
{
	_cleanup_strv_ struct strv pull = { 0 };
	_cleanup_strv_ struct strv tag = { 0 };
	_cleanup_free_ char *id = NULL;
	int r = words(&pull, (const char *const[]){ "pull", "--quiet", source, NULL });

	(void) buildah;
	if (r < 0)
		return error_set_errno(error, r, "buildah pull");
	r = tool_run(&pull, &id, error);
	if (r < 0)
		return r;
	strip_newline(id);
	r = words(&tag, (const char *const[]){ "tag", id, name, NULL });
	return r < 0 ? error_set_errno(error, r, "buildah tag") : tool_run(&tag, NULL, error);
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
