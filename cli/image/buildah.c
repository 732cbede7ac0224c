/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/image/buildah.h"

#include <fcntl.h>
#include <string.h>

#include "common/fs.h"
#include "common/process.h"
#include "common/xalloc.h"
#include "kernels/tool.h"

#define CONTAINERS_FILE "containers"

static void add_words(struct strv *argv, const char *const *list)
{
	xstrv_push(argv, "buildah");
	for (; *list; list++)
		xstrv_push(argv, *list);
}

#define words(argv, ...) add_words((argv), (const char *const[]){ __VA_ARGS__, NULL })

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
	int r;

	/* chroot isolation needs no cgroups and no runtime, so it works inside other containers. */
	if (!getenv("BUILDAH_ISOLATION"))
		xstrv_push(&extra, "BUILDAH_ISOLATION=chroot");
	r = process_run(&process, NULL, error);
	return r == -ENOENT ? -ENOPKG : r;
}

/* The hex digits of an ID as the different commands print it: "sha256:" and a newline go. */
static char *plain_id(const char *text)
{
	static const char algorithm[] = "sha256:";

	if (strncmp(text, algorithm, strlen(algorithm)) == 0)
		text += strlen(algorithm);
	return xstrndup(text, strcspn(text, "\n"));
}

static char *inspect(const char *name, const char *format)
{
	_cleanup_strv_ struct strv argv = { 0 };
	struct error ignored = { 0 };
	char *output = NULL;

	words(&argv, "inspect", "--type", "image", "--format", format, name);
	return tool_run(&argv, &output, &ignored) < 0 ? NULL : output;
}

char *buildah_image_id(const char *name)
{
	_cleanup_free_ char *output = inspect(name, "{{.FromImageID}}");

	return output ? plain_id(output) : NULL;
}

char *buildah_image_label(const char *name, const char *label)
{
	_cleanup_free_ char *format = xasprintf("{{index .OCIv1.Config.Labels \"%s\"}}", label);
	_cleanup_free_ char *output = inspect(name, format);
	size_t length = output ? strcspn(output, "\n") : 0;

	return length ? xstrndup(output, length) : NULL;
}

/* Written down before it is made, so that a killed run's containers can be found. */
static int note_container(const struct buildah *buildah, const char *container)
{
	_cleanup_free_ char *path = xasprintf("%s/" CONTAINERS_FILE, buildah->run_path);
	_cleanup_fclose_ FILE *file = fopen(path, "ae");

	if (!file)
		return -errno;
	return fprintf(file, "%s\n", container) < 0 ? -EIO : 0;
}

/* Runs in other containers that share the storage have our process IDs, but not our folder. */
static int from(const struct buildah *buildah, const char *image, const char *what,
	char **ret_container, struct error *error)
{
	_cleanup_free_ char *container =
		xasprintf("slipway-%s-%s", what, strrchr(buildah->run_path, '/') + 1);
	_cleanup_strv_ struct strv argv = { 0 };
	int r = note_container(buildah, container);

	if (r < 0)
		return error_set_errno(error, r, "buildah from");
	words(&argv, "from", "--pull-never", "--name", container, image);
	r = tool_run(&argv, NULL, error);
	if (r == 0)
		*ret_container = TAKE_PTR(container);
	return r;
}

static void remove_container(const char *container)
{
	_cleanup_strv_ struct strv argv = { 0 };
	struct error ignored = { 0 };

	/* One that is gone already is as good. */
	words(&argv, "rm", container);
	(void) !tool_run(&argv, NULL, &ignored);
}

int buildah_import(
	const struct buildah *buildah, const char *tar_path, const char *name, struct error *error)
{
	_cleanup_free_ char *container = NULL;
	_cleanup_strv_ struct strv add = { 0 };
	_cleanup_strv_ struct strv commit = { 0 };
	int r = from(buildah, "scratch", "import", &container, error);

	if (r < 0)
		return r;
	words(&add, "add", "--quiet", container, tar_path, "/");
	words(&commit, "commit", "--quiet", "--timestamp", "0", container, name);
	r = tool_run(&add, NULL, error);
	if (r == 0)
		r = tool_run(&commit, NULL, error);
	remove_container(container);
	return r;
}

static void add_options(struct strv *argv, const char *option, const struct strv *values)
{
	for (size_t i = 0; i < values->count; i++) {
		xstrv_push(argv, option);
		xstrv_push(argv, values->items[i]);
	}
}

int buildah_build(const struct buildah *buildah, const char *containerfile, const char *folder,
	const struct strv *arguments, const struct strv *labels, char **ret_id, struct error *error)
{
	_cleanup_free_ char *id_path = xasprintf("%s/image-id", buildah->run_path);
	_cleanup_free_ char *id = NULL;
	_cleanup_strv_ struct strv argv = { 0 };
	int r;

	words(&argv, "build", "--layers", "--pull-never", "--timestamp", "0", "--format", "oci",
		"-f", containerfile, "--iidfile", id_path);
	if (!buildah->network)
		xstrv_push(&argv, "--network=none");
	if (buildah->target)
		xstrv_pushf(&argv, "--target=%s", buildah->target);
	add_options(&argv, "--build-arg", arguments);
	add_options(&argv, "--label", labels);
	xstrv_push(&argv, folder);
	r = run_logged(buildah, &argv, error);
	if (r > 0)
		return error_set(
			error, -EIO, "buildah build -f %s: exit status %d", containerfile, r);
	if (r < 0)
		return r;
	r = fs_read(AT_FDCWD, id_path, 0, &id, NULL);
	if (r < 0)
		return error_set_errno(error, r, "%s", id_path);
	*ret_id = plain_id(id);
	return 0;
}

int buildah_tag(const char *id, const char *name, struct error *error)
{
	_cleanup_strv_ struct strv argv = { 0 };

	words(&argv, "tag", id, name);
	return tool_run(&argv, NULL, error);
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
	words(&all, "run", "--network", "none");
	for (size_t i = 0; i < mount_count; i++) {
		xstrv_push(&all, "-v");
		xstrv_pushf(&all, "%s:%s:%s", mounts[i].from, mounts[i].to,
			mounts[i].writable ? "rw" : "ro");
	}
	add_options(&all, "--env", variables);
	xstrv_push(&all, container);
	xstrv_push(&all, "--");
	for (size_t i = 0; i < argv->count; i++)
		xstrv_push(&all, argv->items[i]);
	r = run_logged(buildah, &all, error);
	remove_container(container);
	return r;
}

int buildah_push(const struct buildah *buildah, const char *id, const char *destination,
	char **ret_digest, struct error *error)
{
	_cleanup_free_ char *digest_path = xasprintf("%s/digest", buildah->run_path);
	_cleanup_strv_ struct strv argv = { 0 };
	int r;

	words(&argv, "push", "--quiet", "--digestfile", digest_path, id, destination);
	r = tool_run(&argv, NULL, error);
	if (r < 0)
		return r;
	r = fs_read_line(AT_FDCWD, digest_path, ret_digest);
	return r < 0 ? error_set_errno(error, r, "%s", digest_path) : 0;
}

int buildah_save(const char *id, const char *path, struct error *error)
{
	_cleanup_strv_ struct strv argv = { 0 };

	words(&argv, "push", "--quiet", "--disable-compression", id);
	xstrv_pushf(&argv, "oci-archive:%s", path);
	return tool_run(&argv, NULL, error);
}

int buildah_pull(const char *source, char **ret_id, struct error *error)
{
	_cleanup_strv_ struct strv argv = { 0 };
	_cleanup_free_ char *output = NULL;
	int r;

	words(&argv, "pull", "--quiet", source);
	r = tool_run(&argv, &output, error);
	if (r == 0)
		*ret_id = plain_id(output);
	return r;
}

int buildah_remove_image(const char *name)
{
	_cleanup_strv_ struct strv argv = { 0 };
	struct error ignored = { 0 };

	words(&argv, "rmi", name);
	return tool_run(&argv, NULL, &ignored);
}

int buildah_image_names(const char *prefix, struct strv *names)
{
	_cleanup_strv_ struct strv argv = { 0 };
	_cleanup_strv_ struct strv lines = { 0 };
	_cleanup_free_ char *output = NULL;
	struct error ignored = { 0 };
	int r;

	words(&argv, "images", "--noheading", "--format", "{{.Name}}:{{.Tag}}");
	r = tool_run(&argv, &output, &ignored);
	if (r < 0)
		return r;
	xstrv_split(&lines, output, "\n");
	for (size_t i = 0; i < lines.count; i++)
		if (strncmp(lines.items[i], prefix, strlen(prefix)) == 0)
			xstrv_push(names, lines.items[i]);
	return 0;
}

void buildah_sweep(const char *run_path)
{
	_cleanup_free_ char *path = xasprintf("%s/" CONTAINERS_FILE, run_path);
	_cleanup_strv_ struct strv containers = { 0 };
	_cleanup_free_ char *text = NULL;

	if (fs_read(AT_FDCWD, path, 0, &text, NULL) < 0)
		return;
	xstrv_split(&containers, text, "\n");
	for (size_t i = 0; i < containers.count; i++)
		remove_container(containers.items[i]);
}
