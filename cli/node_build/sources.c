/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The repositories of a root as slipway resolve takes them: a catalogue that inherits the image's,
 * with that one's own repositories switched off, and a mirrors.ini.
 */
#include "cli/node_build/node_build_internal.h"

#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fs.h"
#include "common/path.h"
#include "common/xalloc.h"
#include "kernels/fetch/download.h"

#define FILE_LIMIT ((size_t) 1 << 20)

/* The paths are those that both operators mount repoConfig and subscriptions to. */
static const struct sources_kind kinds[] = {
	{ .family = "apt", .shown = "/etc/apt", .read = apt_sources_read },
	{ .family = "rpm",
		.shown = "/etc/yum.repos.d",
		.read = rpm_sources_read,
		.folder = "etc/yum.repos.d",
		.file = "run/secrets/redhat.repo",
		.variables = { "etc/dnf/vars", "etc/yum/vars" } },
	{ .family = "suse",
		.shown = "/etc/zypp/repos.d",
		.read = rpm_sources_read,
		.folder = "etc/zypp/repos.d",
		.variables = { "etc/zypp/vars.d" },
		.credentials = "etc/zypp/credentials.d" },
};

const struct sources_kind *sources_kind_of(const struct catalogue *os)
{
	size_t i = 0;

	/* A catalogue without rules for a root has no family. */
	while (i < ARRAY_SIZE(kinds) && strcmp(kinds[i].family, os->root.family) != 0)
		i++;
	if (i < ARRAY_SIZE(kinds))
		return &kinds[i];
	return &kinds[os->repositories[0].kind == REPOSITORY_APT ? 0 : 1];
}

/* ---- what readers of sources call */

void sources_skip(const struct sources_writer *writer, const char *what, const char *why)
{
	_cleanup_free_ char *shown = url_shown(what);

	sources_note(writer, "%.200s is not used: %s", shown, why);
}

void sources_note(const struct sources_writer *writer, const char *format, ...)
{
	const struct sources_request *request = writer->request;
	_cleanup_free_ char *text = NULL;
	va_list arguments;

	va_start(arguments, format);
	text = xvasprintf(format, arguments);
	va_end(arguments);
	node_build_note(request->build, "%s/%s: %s", request->prefix, writer->file, text);
}

int read_in_root(int root_fd, const char *path, char **ret_text, size_t *ret_size)
{
	_cleanup_close_ int fd =
		fs_only_file(open_in_root(root_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY));

	return fd < 0 ? fd : fs_read_fd(fd, FILE_LIMIT, ret_text, ret_size);
}

char *sources_keep(
	const struct sources_writer *writer, const char *name, const char *text, size_t size)
{
	_cleanup_free_ char *path =
		xasprintf("%s/%u.%s", writer->request->folder, writer->count, name);
	int r = fs_write_atomic(AT_FDCWD, path, text, size, 0600);

	if (r == 0)
		return TAKE_PTR(path);
	sources_note(writer, "%s: %s", path, error_cause(r));
	return NULL;
}

void sources_add(struct sources_writer *writer, const char *kind, const char *lines,
	const char *keyrings, const char *mirror_lines)
{
	_cleanup_strv_ struct strv words = { 0 };
	_cleanup_free_ char *keyring_lines = NULL;
	_cleanup_free_ char *name = NULL;

	/* One a line: together they may be longer than a line can be. */
	xstrv_split(&words, keyrings, " \t\n");
	keyring_lines = xstrv_join(&words, "\n  ");
	name = xasprintf("%.3s-%u", kind, writer->count);
	xstrv_pushf(&writer->catalogue, "[repository %s]\nkind = %s\nmirror = %s\n%skeyring = %s\n",
		name, kind, name, lines, keyring_lines);
	xstrv_pushf(&writer->mirrors, "[%s]\n%s", name, mirror_lines);
	writer->count++;
}

/* ---- what resolve gets */

/* Relative to the request's folder; data/ is what SLIPWAY_DATADIR names. */
#define CATALOGUE SOURCES_DATA "/kernels/catalogue"
#define IMAGES    "image" /* whose file the new one inherits */

static int write_file(
	const struct sources_writer *writer, const char *name, const struct strv *lines)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", writer->request->folder, name);
	_cleanup_free_ char *text = xstrv_join(lines, "");

	/* A URL may have a password in it. */
	return fs_write_atomic(AT_FDCWD, path, text, strlen(text), 0600);
}

static int write_all(struct sources_writer *writer)
{
	const struct sources_request *request = writer->request;
	const struct catalogue *os = request->os;
	_cleanup_free_ char *data = xasprintf("%s/" CATALOGUE, request->folder);
	_cleanup_free_ char *own = xasprintf(CATALOGUE "/%s.ini", os->os);
	/* The program recognizes its data by this folder. */
	_cleanup_free_ char *recipes =
		xasprintf("%s/" SOURCES_DATA "/containers/recipes", request->folder);
	int r = fs_mkdir_parents(AT_FDCWD, data, 0755);

	if (r == 0)
		r = fs_mkdir_parents(AT_FDCWD, recipes, 0755);
	if (r < 0)
		return r;
	for (size_t i = 0; i < os->files.count; i++) {
		const char *name = os->files.items[i];
		_cleanup_free_ char *from = xasprintf("%s/%s", request->catalogues, name);
		/* Its own is the first. */
		_cleanup_free_ char *to = xasprintf("%s/%s", data, i == 0 ? IMAGES ".ini" : name);

		if (symlink(from, to) < 0)
			return -errno;
	}
	xstrv_pushf(&writer->catalogue, "[os]\ninherit = " IMAGES "\n");
	/* For a kernel of no name; without an origin, apt is not asked for their mirrors. */
	for (size_t i = 0; i < os->repository_count; i++)
		xstrv_pushf(&writer->catalogue, "[repository %s]\nkrel = -\norigin =\n",
			os->repositories[i].name);
	r = write_file(writer, own, &writer->catalogue);
	return r < 0 ? r : write_file(writer, SOURCES_MIRRORS, &writer->mirrors);
}

int sources_write(const struct sources_request *request, struct error *error)
{
	const struct sources_kind *kind = sources_kind_of(request->os);
	struct sources_writer writer = { .request = request };
	int r = mkdir(request->folder, 0700) < 0 ? -errno : 0;

	if (r < 0)
		return error_set_errno(error, r, "%s", request->folder);
	kind->read(&writer, kind);
	r = writer.count ? write_all(&writer) : -ENOENT;
	if (r < 0 && r != -ENOENT)
		(void) error_set_errno(error, r, "%s", request->folder);
	strv_free(&writer.catalogue);
	strv_free(&writer.mirrors);
	return r;
}
