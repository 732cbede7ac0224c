/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/apt.h"

#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "common/fs.h"
#include "common/hash.h"
#include "kernels/tool.h"

#define LISTS_MAX_AGE_S (6L * 60 * 60)

struct apt {
	char *folder;
	char *config; /* path of our apt.conf */
	char *warning;
	char stamp[HASH_HEX_SIZE];
	int folder_fd;
	bool refreshed;
};

/*
 * What the system's configuration must not bring along: its lists, pins, hooks (some images delete
 * /var/cache/apt after each update), foreign architectures and translations.
 */
static const char config_format[] =
	"#clear APT::Update;\n"
	"#clear DPkg::Post-Invoke;\n"
	"#clear APT::Architectures;\n"
	"APT::Architecture \"amd64\";\n"
	"APT::Architectures { \"amd64\"; };\n"
	"APT::Default-Release \"\";\n"
	"APT::Sandbox::User \"root\";\n"
	"Acquire::Languages \"none\";\n"
	"Acquire::GzipIndexes \"false\";\n"
	"Acquire::Retries \"3\";\n"
	"Acquire::ForceHash \"SHA256\";\n"
	"Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled \"false\";\n"
	"Acquire::IndexTargets::deb::DEP-11::DefaultEnabled \"false\";\n"
	"Dir::Etc::SourceList \"%1$s/sources.list\";\n"
	"Dir::Etc::SourceParts \"/dev/null\";\n"
	"Dir::Etc::Preferences \"/dev/null\";\n"
	"Dir::Etc::PreferencesParts \"/dev/null\";\n"
	"Dir::State \"%1$s/state\";\n"
	"Dir::State::lists \"%1$s/lists\";\n"
	"Dir::State::status \"%1$s/status\";\n"
	"Dir::Cache \"%1$s/cache\";\n"
	/* Container images turn these off; without them each answer costs a second. */
	"Dir::Cache::pkgcache \"pkgcache.bin\";\n"
	"Dir::Cache::srcpkgcache \"srcpkgcache.bin\";\n";

/* Starts an argv of one of apt's programs with our configuration. */
static int apt_argv(const struct apt *apt, const char *program, const char *verb, struct strv *argv)
{
	int r = strv_push(argv, program);

	if (r == 0)
		r = strv_pushf(argv, "--config-file=%s", apt->config);
	if (r == 0)
		r = strv_push(argv, verb);
	return r;
}

static int write_when_changed(int dir_fd, const char *name, const char *text, bool *ret_changed)
{
	_cleanup_free_ char *old = NULL;

	*ret_changed = fs_read(dir_fd, name, 0, &old, NULL) < 0 || strcmp(old, text) != 0;
	return *ret_changed ? fs_write_atomic(dir_fd, name, text, strlen(text), 0644) : 0;
}

static int index_targets(bool released, char **ret_text, struct error *error)
{
	static const char *const words[] = { "apt-get", "indextargets", "--format",
		"$(REPO_URI)|$(RELEASE)|$(CODENAME)|$(ORIGIN)", "Created-By: Packages" };
	_cleanup_strv_ struct strv argv = { 0 };
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(words) && r == 0; i++)
		r = strv_push(&argv, words[i]);
	if (r == 0 && !released)
		r = strv_push(&argv, "--no-release-info");
	return r < 0 ? error_set_errno(error, r, "apt-get") : tool_run(&argv, ret_text, error);
}

/* Where no list was ever fetched, apt tells of its sources only what their own lines say. */
static int system_targets(char **ret_text, struct error *error)
{
	_cleanup_free_ char *text = NULL;
	int r = index_targets(true, &text, error);

	if (r < 0)
		return r;
	if (!text || !*text)
		return index_targets(false, ret_text, error);
	*ret_text = TAKE_PTR(text);
	return 0;
}

static int write_state(
	struct apt *apt, const struct catalogue *os, bool *ret_changed, struct error *error)
{
	static const char *const folders[] = { "lists/partial", "state", "cache/archives/partial" };
	_cleanup_free_ char *targets = NULL;
	_cleanup_free_ char *sources = NULL;
	_cleanup_free_ char *config = NULL;
	bool config_changed;
	int r;

	r = system_targets(&targets, error);
	if (r < 0)
		return r;
	r = apt_sources_text(targets, os, &sources, error);
	if (r < 0)
		return r == -ENODATA ? -EHOSTUNREACH : r;
	if (asprintf(&config, config_format, apt->folder) < 0)
		return error_set_errno(error, -ENOMEM, "apt.conf");
	for (size_t i = 0; i < ARRAY_SIZE(folders) && r == 0; i++)
		r = fs_mkdir_parents(apt->folder_fd, folders[i], 0755);
	if (r == 0)
		r = write_when_changed(apt->folder_fd, "sources.list", sources, ret_changed);
	if (r == 0)
		r = write_when_changed(apt->folder_fd, "apt.conf", config, &config_changed);
	if (r == 0 && !fs_exists(apt->folder_fd, "status"))
		r = fs_write_atomic(apt->folder_fd, "status", "", 0, 0644);
	return r < 0 ? error_set_errno(error, r, "%s", apt->folder) : 0;
}

/* The signed heads of the lists name the digest of everything below them. */
static int compute_stamp(const struct apt *apt, char hex[HASH_HEX_SIZE])
{
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_close_ int lists_fd =
		openat(apt->folder_fd, "lists", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct hash *hash;
	int r;

	if (lists_fd < 0)
		return -errno;
	r = fs_list(lists_fd, ".", &names);
	if (r < 0)
		return r;
	hash = hash_new();
	if (!hash)
		return -ENOMEM;
	for (size_t i = 0; i < names.count && r == 0; i++)
		if (strstr(names.items[i], "Release"))
			r = hash_add_file(hash, lists_fd, names.items[i]);
	hash_finish(hash, hex);
	return r;
}

static bool read_stamp(struct apt *apt, bool *ret_old)
{
	_cleanup_free_ char *line = NULL;
	struct stat status;

	if (fs_read_line(apt->folder_fd, "stamp", &line) < 0 ||
		fstatat(apt->folder_fd, "stamp", &status, 0) < 0 ||
		strlen(line) != HASH_HEX_SIZE - 1)
		return false;
	memcpy(apt->stamp, line, HASH_HEX_SIZE);
	*ret_old = time(NULL) - status.st_mtime > LISTS_MAX_AGE_S;
	return true;
}

static int update(struct apt *apt, struct error *error)
{
	_cleanup_strv_ struct strv argv = { 0 };
	int r;

	r = apt_argv(apt, "apt-get", "update", &argv);
	if (r == 0)
		r = strv_push(&argv, "--error-on=any");
	if (r < 0)
		return error_set_errno(error, r, "apt-get");
	r = tool_run(&argv, NULL, error);
	if (r == -EIO)
		return error_prefix(error, -EHOSTUNREACH, "fetching the package lists");
	if (r < 0)
		return r;
	r = compute_stamp(apt, apt->stamp);
	if (r == 0)
		r = fs_write_atomic(apt->folder_fd, "stamp", apt->stamp, HASH_HEX_SIZE - 1, 0644);
	if (r < 0)
		return error_set_errno(error, r, "%s/stamp", apt->folder);
	apt->refreshed = true;
	return 0;
}

/* Old lists are better than none: the refusal to refresh them becomes a warning. */
static int refresh_when_due(
	struct apt *apt, const struct apt_options *options, bool changed, struct error *error)
{
	bool old = false;
	bool have = read_stamp(apt, &old);
	int r;

	if (have && !old && !changed && !options->refresh)
		return 0;
	r = update(apt, error);
	if (r != -EHOSTUNREACH || !have || changed || options->refresh)
		return r;
	apt->warning = strdup(error->text);
	return 0;
}

static int open_folder(struct apt *apt, const char *folder)
{
	int r = fs_mkdir_parents(AT_FDCWD, folder, 0755);

	if (r < 0)
		return r;
	apt->folder = strdup(folder);
	if (!apt->folder || asprintf(&apt->config, "%s/apt.conf", folder) < 0)
		return -ENOMEM;
	apt->folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (apt->folder_fd < 0)
		return -errno;
	return 0;
}

/* One run at a time writes the state: apt's own locks would make the second one fail. */
static int lock_state(const struct apt *apt, int *ret_fd, struct error *error)
{
	_cleanup_close_ int fd = openat(apt->folder_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0644);

	if (fd < 0 || flock(fd, LOCK_EX) < 0)
		return error_set_errno(error, -errno, "%s/lock", apt->folder);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int apt_refresh(struct apt *apt, struct error *error)
{
	_cleanup_close_ int lock_fd = -1;
	int r;

	if (apt->refreshed)
		return 0;
	r = lock_state(apt, &lock_fd, error);
	return r < 0 ? r : update(apt, error);
}

int apt_open(const struct apt_options *options, struct apt **ret, struct error *error)
{
	_cleanup_(apt_close) struct apt *apt = calloc(1, sizeof(*apt));
	_cleanup_close_ int lock_fd = -1;
	bool changed = false;
	int r;

	if (!apt)
		return error_set_errno(error, -ENOMEM, "apt");
	apt->folder_fd = -1;
	r = open_folder(apt, options->folder);
	if (r < 0)
		return error_set_errno(error, r, "%s", options->folder);
	r = lock_state(apt, &lock_fd, error);
	if (r < 0)
		return r;
	r = write_state(apt, options->os, &changed, error);
	if (r < 0)
		return r;
	r = refresh_when_due(apt, options, changed, error);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(apt);
	return 0;
}

void apt_close(struct apt **apt)
{
	if (!*apt)
		return;
	cleanup_close(&(*apt)->folder_fd);
	free((*apt)->folder);
	free((*apt)->config);
	free((*apt)->warning);
	free(*apt);
	*apt = NULL;
}

const char *apt_stamp(const struct apt *apt)
{
	return apt->stamp;
}

const char *apt_warning(const struct apt *apt)
{
	return apt->warning;
}

int apt_names(const struct apt *apt, const char *prefix, struct strv *names, struct error *error)
{
	_cleanup_strv_ struct strv argv = { 0 };
	_cleanup_free_ char *output = NULL;
	int r = apt_argv(apt, "apt-cache", "pkgnames", &argv);

	if (r == 0)
		r = strv_push(&argv, prefix);
	if (r < 0)
		return error_set_errno(error, r, "apt-cache");
	r = tool_run(&argv, &output, error);
	if (r < 0)
		return r;
	if (strv_split(names, output, "\n") < 0)
		return error_set_errno(error, -ENOMEM, "apt-cache");
	strv_sort(names);
	return 0;
}

int apt_show(const struct apt *apt, const char *name, const char *version, struct apt_package *ret,
	struct error *error)
{
	_cleanup_strv_ struct strv argv = { 0 };
	_cleanup_free_ char *output = NULL;
	int r = apt_argv(apt, "apt-cache", "show", &argv);

	if (r == 0)
		r = strv_push(&argv, "--no-all-versions");
	if (r == 0 && version)
		r = strv_pushf(&argv, "%s=%s", name, version);
	else if (r == 0)
		r = strv_push(&argv, name);
	if (r < 0)
		return error_set_errno(error, r, "apt-cache");
	r = tool_run(&argv, &output, error);
	if (r == -EIO || (r == 0 && !*output))
		return error_set(error, -ENODATA, "%s%s%s: not in the package lists", name,
			version ? "=" : "", version ? version : "");
	return r < 0 ? r : apt_package_parse(output, ret, error);
}

int apt_versions(
	const struct apt *apt, const char *name, struct strv *versions, struct error *error)
{
	static const char field[] = "Version: ";
	_cleanup_strv_ struct strv argv = { 0 };
	_cleanup_strv_ struct strv lines = { 0 };
	_cleanup_free_ char *output = NULL;
	int r = apt_argv(apt, "apt-cache", "show", &argv);

	if (r == 0)
		r = strv_push(&argv, name);
	if (r < 0)
		return error_set_errno(error, r, "apt-cache");
	r = tool_run(&argv, &output, error);
	if (r == -EIO)
		return 0; /* not in the lists: no versions */
	if (r == 0 && strv_split(&lines, output, "\n") < 0)
		r = -ENOMEM;
	for (size_t i = 0; i < lines.count && r == 0; i++)
		if (strncmp(lines.items[i], field, strlen(field)) == 0)
			r = strv_push(versions, lines.items[i] + strlen(field));
	return r;
}

static int download_argv(const struct apt *apt, const struct strv *wanted, struct strv *argv)
{
	int r = apt_argv(apt, "apt-get", "download", argv);

	for (size_t i = 0; i < wanted->count && r == 0; i++)
		r = strv_push(argv, wanted->items[i]);
	return r;
}

/* "'URL' file 123 SHA256:hex" becomes "URL hex". */
static int add_location(struct strv *lines, const char *line)
{
	const char *end = *line == '\'' ? strchr(line + 1, '\'') : NULL;
	const char *digest = end ? strstr(end, " SHA256:") : NULL;

	if (!digest)
		return 0;
	return strv_pushf(lines, "%.*s %s", (int) (end - line - 1), line + 1, digest + 8);
}

int apt_locate(
	const struct apt *apt, const struct strv *wanted, struct strv *lines, struct error *error)
{
	_cleanup_strv_ struct strv argv = { 0 };
	_cleanup_strv_ struct strv answers = { 0 };
	_cleanup_free_ char *output = NULL;
	int r = download_argv(apt, wanted, &argv);

	if (r == 0)
		r = strv_push(&argv, "--print-uris");
	if (r < 0)
		return error_set_errno(error, r, "apt-get");
	r = tool_run(&argv, &output, error);
	if (r < 0)
		return r;
	r = strv_split(&answers, output, "\n");
	for (size_t i = 0; i < answers.count && r == 0; i++)
		r = add_location(lines, answers.items[i]);
	return r < 0 ? error_set_errno(error, r, "apt-get") : 0;
}

int apt_download(
	const struct apt *apt, const struct strv *wanted, const char *folder, struct error *error)
{
	_cleanup_strv_ struct strv argv = { 0 };
	int r = download_argv(apt, wanted, &argv);

	if (r < 0)
		return error_set_errno(error, r, "apt-get");
	r = tool_run_in(folder, &argv, NULL, error);
	return r == -EIO ? error_prefix(error, -EHOSTUNREACH, "downloading packages") : r;
}
