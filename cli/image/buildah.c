/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/image/buildah.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "common/process.h"
#include "common/xalloc.h"
#include "kernels/tool.h"

#define CONTAINERS_FILE "containers"
#define SAID            "/slipway/said" /* the folder of make_fifo() in a container */

static void add_words(struct strv *argv, const char *const *words)
{
	xstrv_push(argv, "buildah");
	for (; *words; words++)
		xstrv_push(argv, *words);
}

static int name_full(int r, struct error *error)
{
	return r == -ENOSPC || r == -EDQUOT
		       ? error_line(error, r,
				 "it is Buildah's storage, or the folder that it wrote to")
		       : r;
}

static int run_words(const char *const *words, char **ret_output, struct error *error)
{
	_cleanup_strv_ struct strv argv = { 0 };
	int r;

	add_words(&argv, words);
	r = tool_run(&argv, ret_output, error);
	return name_full(r, error);
}

#define WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })

/*
 * Runs with the output going to the log, and what a container writes to @fifo (NULL: none). Returns
 * the exit status or a negative errno.
 */
static int run_logged(const struct buildah *buildah, const struct strv *argv, const char *fifo,
	struct error *error)
{
	_cleanup_strv_ struct strv extra = { 0 };
	struct process process = {
		.argv = argv,
		.extra_env = &extra,
		.stdin_fd = -1,
		.log_fd = buildah->log_fd,
		.on_line = buildah->on_line,
		.on_quiet = buildah->on_quiet,
		.fifo = fifo,
		.context = buildah->context,
	};

	/* chroot isolation needs no cgroups and no runtime, so it works inside other containers. */
	if (!getenv("BUILDAH_ISOLATION"))
		xstrv_push(&extra, "BUILDAH_ISOLATION=chroot");
	return process_run(&process, NULL, error);
}

char *buildah_storage(void)
{
	_cleanup_free_ char *output = NULL;
	struct error ignored = { 0 };
	int r = run_words(WORDS("info", "--format", "{{.store.GraphRoot}}"), &output, &ignored);
	size_t length = r < 0 ? 0 : strcspn(output, "\n");

	return length ? xstrndup(output, length) : NULL;
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
	struct error ignored = { 0 };
	char *output = NULL;
	int r = run_words(
		WORDS("inspect", "--type", "image", "--format", format, name), &output, &ignored);

	return r < 0 ? NULL : output;
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

/*
 * A name that nothing else in the storage has. Runs in other containers that share it have our
 * process IDs, but not our folder; stages that run at once have a scratch folder each.
 */
static char *name_of_our_own(const struct buildah *buildah)
{
	return xasprintf("%s-%s", basename(buildah->run_path), basename(buildah->scratch_path));
}

/* A new container, written down before it is made, so that a killed run's can be found. */
static int from(const struct buildah *buildah, const char *image, const char *what,
	const char *arch, char **ret_container, struct error *error)
{
	_cleanup_free_ char *own = name_of_our_own(buildah);
	_cleanup_free_ char *container = xasprintf("slipway-%s-%s", what, own);
	_cleanup_free_ char *list = xasprintf("%s/" CONTAINERS_FILE, buildah->run_path);
	FILE *file = fopen(list, "ae");
	int r;

	if (!file)
		return error_set_errno(error, -errno, "%s", list);
	(void) fprintf(file, "%s\n", container);
	if (fclose(file) != 0)
		return error_set_errno(error, -errno, "%s", list);
	r = run_words(
		arch ? WORDS("from", "--pull-never", "--arch", arch, "--name", container, image)
		     : WORDS("from", "--pull-never", "--name", container, image),
		NULL, error);
	if (r == 0)
		*ret_container = TAKE_PTR(container);
	return r;
}

void buildah_remove_container(const char *container)
{
	struct error ignored = { 0 };

	(void) !run_words(WORDS("rm", container), NULL, &ignored);
}

int buildah_import(const struct buildah *buildah, const char *tar_path, const char *name,
	const char *arch, struct error *error)
{
	_cleanup_free_ char *container = NULL;
	int r = from(buildah, "scratch", "import", arch, &container, error);

	if (r < 0)
		return r;
	r = run_words(WORDS("add", "--quiet", container, tar_path, "/"), NULL, error);
	if (r == 0)
		r = run_words(WORDS("commit", "--quiet", "--omit-history", "--timestamp", "0",
				      container, name),
			NULL, error);
	buildah_remove_container(container);
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
	_cleanup_free_ char *id_path = xasprintf("%s/image-id", buildah->scratch_path);
	_cleanup_free_ char *what = NULL;
	_cleanup_free_ char *id = NULL;
	_cleanup_strv_ struct strv argv = { 0 };
	off_t start;
	int r;

	/*
	 * A base from a bundle has another digest than where it was made: its layers are compressed
	 * there. Buildah would annotate the image with it. With --layers it would keep an image of
	 * each instruction for later builds, which find none of them, as ours have no history. A
	 * build that fails may still remove a layer that another one is about to use ("layer not
	 * known"): then another try helps.
	 */
	add_words(&argv,
		WORDS("build", "--layers=false", "--pull-never", "--timestamp",
			buildah->date ? buildah->date : "0", "--format", "oci", "--omit-history",
			"--annotation", "org.opencontainers.image.base.digest=", "-f",
			containerfile, "--iidfile", id_path));
	if (!buildah->network)
		xstrv_push(&argv, "--network=none");
	if (buildah->target)
		xstrv_pushf(&argv, "--target=%s", buildah->target);
	if (buildah->has_stages) {
		_cleanup_free_ char *own = name_of_our_own(buildah);

		xstrv_pushf(&argv, "--build-arg=RUN=%s", own);
	}
	add_options(&argv, "--build-arg", arguments);
	add_options(&argv, "--label", labels);
	xstrv_push(&argv, folder);
	start = lseek(buildah->log_fd, 0, SEEK_END);
	r = run_logged(buildah, &argv, NULL, error);
	if (r > 0) {
		what = xasprintf("buildah build -f %s", containerfile);
		return name_full(tool_failed(what, r, buildah->log_fd, start, error), error);
	}
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
	return run_words(WORDS("tag", id, name), NULL, error);
}

/*
 * A folder with a FIFO that the program of a container writes to. With chroot isolation Buildah
 * passes output on by a thread that it does not wait for when the program ends
 * (chroot/run_common.go: runUsingChrootMain()): on a busy machine the last lines, with the reason
 * of a failure, are lost. Returns 0 or a negative errno.
 */
static int make_fifo(const char *scratch_path, const char *what, char **ret_folder, char **ret_fifo)
{
	char *folder = xasprintf("%s/%s-said", scratch_path, what);
	char *fifo = xasprintf("%s/lines", folder);
	int r = fs_mkdir_parents(AT_FDCWD, folder, 0755);

	*ret_folder = folder;
	*ret_fifo = fifo;
	return r < 0 ? r : mkfifo(fifo, 0600) < 0 && errno != EEXIST ? -errno : 0;
}

int buildah_run(const struct buildah *buildah, const char *image, const char *what,
	const struct buildah_mount *mounts, size_t mount_count, const struct strv *variables,
	const char *program, struct error *error)
{
	_cleanup_free_ char *container = NULL;
	_cleanup_free_ char *folder = NULL;
	_cleanup_free_ char *fifo = NULL;
	_cleanup_strv_ struct strv argv = { 0 };
	int r = make_fifo(buildah->scratch_path, what, &folder, &fifo);

	if (r < 0)
		return error_set_errno(error, r, "%s", fifo);
	r = from(buildah, image, what, NULL, &container, error);
	if (r < 0)
		return r;
	add_words(&argv, WORDS("run", "--network", "none", "-v"));
	xstrv_pushf(&argv, "%s:" SAID ":rw", folder);
	for (size_t i = 0; i < mount_count; i++) {
		xstrv_push(&argv, "-v");
		xstrv_pushf(&argv, "%s:%s:%s", mounts[i].from, mounts[i].to,
			mounts[i].writable ? "rw" : "ro");
	}
	add_options(&argv, "--env", variables);
	xstrv_push(&argv, container);
	xstrv_push(&argv, "--");
	xstrv_push(&argv, "/bin/sh");
	xstrv_push(&argv, "-c");
	/* To open it for both does not wait for a reader, and to write without one ends it then. */
	xstrv_push(&argv, "exec \"$0\" 3<>" SAID "/lines >" SAID "/lines 2>&1 3<&-");
	xstrv_push(&argv, program);
	r = run_logged(buildah, &argv, fifo, error);
	buildah_remove_container(container);
	return r;
}

int buildah_mount_image(const struct buildah *buildah, const char *id, char **ret_container,
	char **ret_root, struct error *error)
{
	_cleanup_free_ char *output = NULL;
	int r = from(buildah, id, "verify", NULL, ret_container, error);

	if (r < 0)
		return r;
	r = run_words(WORDS("mount", *ret_container), &output, error);
	if (r == 0)
		*ret_root = xstrndup(output, strcspn(output, "\n"));
	else
		buildah_remove_container(*ret_container);
	return r;
}

int buildah_push(const char *scratch_path, const char *id, const char *destination,
	char **ret_digest, struct error *error)
{
	_cleanup_free_ char *path = xasprintf("%s/digest", scratch_path);
	int r = run_words(
		WORDS("push", "--quiet", "--digestfile", path, id, destination), NULL, error);

	if (r < 0)
		return r;
	r = fs_read_line(AT_FDCWD, path, ret_digest);
	return r < 0 ? error_set_errno(error, r, "%s", path) : 0;
}

int buildah_save(const char *id, const char *path, struct error *error)
{
	_cleanup_free_ char *to = xasprintf("oci-archive:%s", path);

	return run_words(WORDS("push", "--quiet", id, to), NULL, error);
}

int buildah_pull(const char *source, const char *arch, char **ret_id, struct error *error)
{
	_cleanup_free_ char *output = NULL;
	int r = run_words(arch ? WORDS("pull", "--quiet", "--arch", arch, source)
			       : WORDS("pull", "--quiet", source),
		&output, error);

	if (r == 0)
		*ret_id = plain_id(output);
	return r;
}

int buildah_bring(const char *archive, const char *id, struct error *error)
{
	_cleanup_free_ char *source = xasprintf("oci-archive:%s", archive);
	_cleanup_free_ char *found = buildah_image_id(id);
	int r;

	if (found)
		return 0;
	r = buildah_pull(source, NULL, &found, error);
	if (r != 0 || strcmp(found, id) == 0)
		return r;
	return error_set(error, -EBADMSG, "%s: holds image %.12s, not %.12s", archive, found, id);
}

int buildah_remove_image(const char *name)
{
	struct error ignored = { 0 };

	return run_words(WORDS("rmi", name), NULL, &ignored);
}

int buildah_image_names(const char *prefix, struct strv *names)
{
	_cleanup_strv_ struct strv lines = { 0 };
	_cleanup_free_ char *output = NULL;
	struct error ignored = { 0 };
	int r = run_words(WORDS("images", "--noheading", "--format", "{{.Name}}:{{.Tag}}"), &output,
		&ignored);

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
		buildah_remove_container(containers.items[i]);
}
