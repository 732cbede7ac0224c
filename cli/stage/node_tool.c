/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/stage/node_tool_internal.h"

#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <string.h>
#include <sys/utsname.h>

#include "cli/stage/stage_internal.h"
#include "common/fs.h"
#include "kernels/repo/signature.h"

#define PROGRAM "/proc/self/exe"
#define KEYRING NODE_TOOL_FOLDER "/keyring.gpg"

/* ---- where the mirrors are */

/* Such as a proxy for apt that listens here: every node would ask itself. */
static bool is_of_this_machine(const char *url)
{
	const char *host = strstr(url, "://");

	host = host ? host + strlen("://") : url;
	return (strncasecmp(host, "localhost", strlen("localhost")) == 0 &&
		       strchr(":/", host[strlen("localhost")])) ||
	       strncmp(host, "127.", strlen("127.")) == 0 ||
	       strncmp(host, "[::1]", strlen("[::1]")) == 0;
}

/* Nodes have neither this machine's folders nor a site's secrets and certificates. */
static bool is_for_nodes(const struct mirror *mirror)
{
	return strncmp(mirror->url, "http", 4) == 0 && !is_of_this_machine(mirror->url) &&
	       !mirror->user && !mirror->client_certificate && !mirror->certificate_authority;
}

/* mirrors.ini of those that any node may ask; the caller frees it. */
static char *mirrors_text(const struct build *build)
{
	const struct catalogue *os = &build->context.os;
	_cleanup_strv_ struct strv names = { 0 };
	char *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size);

	for (size_t i = 0; file && i < os->repository_count; i++) {
		const struct repository *repository = &os->repositories[i];
		const struct mirror *mirror = mirrors_find(&build->context.mirrors, repository);

		if (!mirror || !is_for_nodes(mirror) || strv_contains(&names, repository->mirror) ||
			strv_push(&names, repository->mirror) < 0)
			continue;
		(void) fprintf(file, "[%s]\nurl = %s\n", repository->mirror, mirror->url);
	}
	if (file && fclose(file) != 0) {
		free(text);
		text = NULL;
	}
	return text;
}

static bool is_native(const struct build *build)
{
	struct utsname machine;

	return uname(&machine) == 0 && strcmp(machine.machine, build->context.arch) == 0;
}

bool node_tool_applies(const struct build *build)
{
	return build->options.sources_image;
}

bool node_tool_fetches(const struct build *build)
{
	_cleanup_free_ char *mirrors = NULL;

	if (!node_tool_applies(build) || !build->context.has_mirrors)
		return false;
	mirrors = mirrors_text(build);
	return mirrors && *mirrors;
}

int node_tool_open(struct build *build, struct error *error)
{
	int r;

	if (!node_tool_applies(build))
		return 0;
	if (!is_native(build))
		return error_set(error, -EINVAL,
			"--sources-image: such an image compiles with this very program, which is of "
			"another architecture than %s: build it on a machine of that one",
			build->context.arch);
	r = context_mirrors(&build->context, error);
	if (r == 0 && !node_tool_fetches(build))
		progress_note(&build->context.progress,
			"no mirror that a node could ask is known (http or https, not of this very "
			"machine, without a password or certificates of its own): where a node has no headers, the images will "
			"not fetch them");
	return r;
}

/* ---- the program and what it is linked with */

struct library {
	struct strv names; /* below lib/ */
	struct strv paths; /* absolute, nothing a link */
	const char *loader;
	int result;
};

/* The first is the program itself, which names its loader. */
static const char *loader_of(const struct dl_phdr_info *info)
{
	for (size_t i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_INTERP)
			/* A link map's addresses are numbers. NOLINTNEXTLINE */
			return (const char *) (info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	return NULL;
}

static int add_library(struct dl_phdr_info *info, size_t size, void *context)
{
	struct library *library = context;
	const char *slash = strrchr(info->dlpi_name, '/');
	_cleanup_free_ char *path = NULL;
	int r = 0;

	(void) size;
	if (!library->loader)
		library->loader = loader_of(info);
	if (!slash) /* the program, or the kernel's page */
		return 0;
	path = realpath(info->dlpi_name, NULL);
	if (!path)
		r = -errno;
	if (r == 0)
		r = strv_push(&library->paths, path);
	if (r == 0 && library->loader && strcmp(info->dlpi_name, library->loader) == 0)
		r = strv_push(&library->names, "loader");
	else if (r == 0)
		r = strv_push(&library->names, slash + 1);
	library->result = r;
	return r;
}

static void library_free(struct library *library)
{
	strv_free(&library->names);
	strv_free(&library->paths);
}

/* What this very process has loaded is what another one of it needs. */
static int find_libraries(struct library *library, struct error *error)
{
	(void) dl_iterate_phdr(add_library, library);
	if (library->result == 0 && !strv_contains(&library->names, "loader"))
		return error_set(error, -ENOENT,
			"slipway's own loader is not found: an image that compiles "
			"wants a program that is linked with shared libraries");
	return library->result < 0
		       ? error_set_errno(error, library->result, "slipway's own libraries")
		       : 0;
}

/* ---- the keys */

/* Keyrings of the repositories that are there on this machine; paths are absolute. */
static int list_keyrings(const struct build *build, struct strv *paths, struct error *error)
{
	const struct catalogue *os = &build->context.os;
	int r = 0;

	if (build->context.options->keyring)
		return 0;
	for (size_t i = 0; i < os->repository_count && r == 0; i++) {
		const char *keyring = signature_keyring(&os->repositories[i].keyrings, NULL);

		if (keyring && *keyring == '/' && fs_exists(AT_FDCWD, keyring))
			r = strv_push_unique(paths, keyring);
	}
	return r < 0 ? error_set_errno(error, r, "keyrings") : 0;
}

/* ---- all of it */

static int add_files(const struct build *build, struct hash *hash, struct error *error)
{
	_cleanup_(library_free) struct library library = { .result = 0 };
	_cleanup_strv_ struct strv keyrings = { 0 };
	const char *keyring = build->context.options->keyring;
	int r = find_libraries(&library, error);

	if (r == 0)
		r = list_keyrings(build, &keyrings, error);
	if (r < 0)
		return r;
	r = hash_add_file(hash, AT_FDCWD, PROGRAM);
	for (size_t i = 0; i < library.paths.count && r == 0; i++)
		r = hash_add_file(hash, AT_FDCWD, library.paths.items[i]);
	for (size_t i = 0; i < keyrings.count && r == 0; i++)
		r = hash_add_file(hash, AT_FDCWD, keyrings.items[i]);
	if (r == 0 && keyring)
		r = hash_add_file(hash, AT_FDCWD, keyring);
	return r < 0 ? error_set_errno(error, r, "slipway for the image") : 0;
}

/* One of the catalogue's files that the distribution's rules are in, below the data folder. */
static void catalogue_path(const struct build *build, size_t index, char path[PATH_MAX])
{
	(void) snprintf(
		path, PATH_MAX, "kernels/catalogue/%s.ini", build->context.os.files.items[index]);
}

int node_tool_add_inputs(const struct build *build, struct hash *hash, struct error *error)
{
	_cleanup_free_ char *mirrors = NULL;
	char path[PATH_MAX];
	int r;

	if (!node_tool_applies(build))
		return 0;
	mirrors = mirrors_text(build);
	hash_add_text(hash, "node tool 2");
	hash_add_text(hash, mirrors ? mirrors : "");
	for (size_t i = 0; i < build->context.os.files.count; i++) {
		catalogue_path(build, i, path);
		r = cached_add_data(&build->context, path, hash, error);
		if (r < 0)
			return r;
	}
	return add_files(build, hash, error);
}

/* A new file of the image's: nothing of this machine is linked into it. */
static int put_file(int root_fd, const char *from, const char *to)
{
	_cleanup_free_ char *folder = strdup(to);
	char *slash = folder ? strrchr(folder, '/') : NULL;
	int r = slash ? 0 : -ENOMEM;

	if (r == 0) {
		*slash = '\0';
		r = fs_mkdir_parents(root_fd, folder, 0755);
	}
	return r < 0 ? r : copy_apart(AT_FDCWD, from, root_fd, to);
}

static int put_program(int root_fd, struct error *error)
{
	_cleanup_(library_free) struct library library = { .result = 0 };
	_cleanup_free_ char *program = realpath(PROGRAM, NULL);
	int r = find_libraries(&library, error);

	if (r < 0)
		return r;
	r = program ? put_file(root_fd, program, NODE_TOOL_FOLDER "/slipway") : -errno;
	for (size_t i = 0; i < library.paths.count && r == 0; i++) {
		char to[PATH_MAX];

		(void) snprintf(to, sizeof(to), NODE_TOOL_FOLDER "/lib/%s", library.names.items[i]);
		r = put_file(root_fd, library.paths.items[i], to);
	}
	return r < 0 ? error_set_errno(error, r, "slipway for the image") : 0;
}

static int put_keys(const struct build *build, int root_fd, struct error *error)
{
	_cleanup_strv_ struct strv keyrings = { 0 };
	const char *chosen = build->context.options->keyring;
	int r = list_keyrings(build, &keyrings, error);

	if (r < 0)
		return r;
	for (size_t i = 0; i < keyrings.count && r == 0; i++) {
		_cleanup_free_ char *real = realpath(keyrings.items[i], NULL);

		r = real ? put_file(root_fd, real, keyrings.items[i] + 1) : -errno;
	}
	if (r == 0 && chosen) {
		_cleanup_free_ char *real = realpath(chosen, NULL);

		r = real ? put_file(root_fd, real, KEYRING) : -errno;
	}
	return r < 0 ? error_set_errno(error, r, "keyrings for the image") : 0;
}

static int put_data(const struct build *build, int root_fd, struct error *error)
{
	_cleanup_free_ char *mirrors = mirrors_text(build);
	_cleanup_free_ char *conf = NULL;
	char name[PATH_MAX], from[PATH_MAX + NAME_MAX], to[PATH_MAX + NAME_MAX];
	int r = 0;

	if (!mirrors ||
		asprintf(&conf, "os=%s\nid=%s\nversion_id=%s\n%s", build->context.os.os,
			build->context.os.id ? build->context.os.id : "",
			build->context.os.version_id ? build->context.os.version_id : "",
			build->context.options->keyring ? "keyring=/" KEYRING "\n" : "") < 0)
		return error_set_errno(error, -ENOMEM, "image");
	for (size_t i = 0; i < build->context.os.files.count && r == 0; i++) {
		catalogue_path(build, i, name);
		(void) snprintf(from, sizeof(from), "%s/%s", build->context.data, name);
		(void) snprintf(to, sizeof(to), NODE_TOOL_FOLDER "/data/%s", name);
		r = put_file(root_fd, from, to);
	}
	/* By this folder the program knows its data. */
	if (r == 0)
		r = fs_mkdir_parents(root_fd, NODE_TOOL_FOLDER "/data/containers/recipes", 0755);
	if (r == 0 && *mirrors)
		r = fs_write_atomic(
			root_fd, NODE_TOOL_FOLDER "/mirrors.ini", mirrors, strlen(mirrors), 0644);
	if (r == 0)
		r = fs_write_atomic(
			root_fd, NODE_TOOL_FOLDER "/tool.conf", conf, strlen(conf), 0644);
	return r < 0 ? error_set_errno(error, r, "/" NODE_TOOL_FOLDER) : 0;
}

int node_tool_stage(const struct build *build, int root_fd, struct error *error)
{
	int r;

	if (!node_tool_applies(build))
		return 0;
	r = put_program(root_fd, error);
	if (r == 0)
		r = put_keys(build, root_fd, error);
	return r < 0 ? r : put_data(build, root_fd, error);
}
