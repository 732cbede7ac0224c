/* SPDX-License-Identifier: Apache-2.0 */
/* Recognizes the system's apt sources that are a distribution's mirrors. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/arch.h"
#include "common/fs.h"
#include "common/hash.h"
#include "common/process.h"
#include "common/xalloc.h"
#include "kernels/krel.h"
#include "kernels/repo/repo_internal.h"
#include "kernels/tool.h"

#define RECORD        "apt-targets"
#define RECORD_MAGIC  "slipway apt-targets 2 "
#define RECORD_LIMIT  (4UL * 1024 * 1024)
#define PATH_PREFIX   "path "
#define TARGET_PREFIX "target "
#define TARGET_FIELDS                                                                              \
	"$(REPO_URI)|$(RELEASE)|$(CODENAME)|$(ORIGIN)|$(LABEL)|$(COMPONENT)|$(ARCHITECTURE)"

/*
 * Paths of apt's files according to its own settings. The compiled-in folders come first: a changed
 * setting would show there.
 */
static const char *const configuration[] = { "/etc/apt/apt.conf", "/etc/apt/apt.conf.d" };
static const char *const variables[] = { "Dir::Etc::Main/f", "Dir::Etc::Parts/d",
	"Dir::Etc::SourceList/f", "Dir::Etc::SourceParts/d", "Dir::State::Lists/d" };

/* ---- what the answer depends on */

static void add_status(struct hash *hash, const char *name, const struct stat *status)
{
	char numbers[96];

	(void) snprintf(numbers, sizeof(numbers), "%jd %jd.%09ld", (intmax_t) status->st_size,
		(intmax_t) status->st_mtim.tv_sec, status->st_mtim.tv_nsec);
	hash_add_text(hash, name);
	hash_add_text(hash, numbers);
}

/* In the folder with the package lists, only Release files matter here. */
static bool matters(const char *name)
{
	static const char packages[] = "_Packages";

	return !strstr(name, packages) && strcmp(name, "lock") != 0 &&
	       strcmp(name, "partial") != 0 && strcmp(name, "auxfiles") != 0;
}

static void add_path(struct hash *hash, const char *path)
{
	_cleanup_close_ int fd = -1;
	_cleanup_strv_ struct strv names = { 0 };
	struct stat status;

	hash_add_text(hash, path);
	if (stat(path, &status) < 0) {
		hash_add_text(hash, "absent");
		return;
	}
	if (!S_ISDIR(status.st_mode)) {
		add_status(hash, "", &status);
		return;
	}
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fs_list(fd, ".", &names) < 0)
		hash_add_text(hash, "unreadable");
	for (size_t i = 0; i < names.count; i++)
		if (matters(names.items[i]) && fstatat(fd, names.items[i], &status, 0) == 0)
			add_status(hash, names.items[i], &status);
}

static void stamp_of(const struct strv *paths, char hex[HASH_HEX_SIZE])
{
	const char *setting = getenv("APT_CONFIG");
	struct hash *hash = hash_new();

	hash_add_text(hash, setting ? setting : "");
	if (setting)
		add_path(hash, setting);
	for (size_t i = 0; i < paths->count; i++)
		add_path(hash, paths->items[i]);
	hash_finish(hash, hex);
}

/* ---- asking apt */

static int ask_paths(struct strv *paths, struct error *error)
{
	_cleanup_strv_ struct strv argv = { 0 };
	_cleanup_free_ char *output = NULL;
	char *line, *next;
	int r;

	xstrv_push(&argv, "apt-config");
	xstrv_push(&argv, "shell");
	for (size_t i = 0; i < ARRAY_SIZE(variables); i++) {
		xstrv_push(&argv, "VALUE");
		xstrv_push(&argv, variables[i]);
	}
	r = tool_run(&argv, &output, error);
	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_SIZE(configuration); i++)
		xstrv_push(paths, configuration[i]);
	/* Lines such as VALUE='/var/lib/apt/lists/'. */
	next = output;
	while ((line = strsep(&next, "\n"))) {
		char *value = strchr(line, '\'');
		char *end = value ? strrchr(value + 1, '\'') : NULL;

		if (!end)
			continue;
		*end = '\0';
		xstrv_push_unique(paths, value + 1);
	}
	return 0;
}

/* apt leaves out lists that were never fetched, unless it may leave out what only they have. */
static int ask_targets(bool never_fetched_too, char **ret_output, struct error *error)
{
	_cleanup_strv_ struct strv argv = { 0 };
	int r;

	xstrv_push(&argv, "apt-get");
	xstrv_push(&argv, "indextargets");
	xstrv_push(&argv, "--format");
	xstrv_push(&argv, TARGET_PREFIX TARGET_FIELDS);
	xstrv_push(&argv, "Created-By: Packages");
	if (never_fetched_too)
		xstrv_push(&argv, "--no-release-info");
	r = tool_run(&argv, ret_output, error);
	return r == -EIO ? error_prefix(error, r, "the system's apt sources: apt-get indextargets")
			 : r;
}

/* ---- what is remembered: a line with the stamp, the paths that it was made of, the targets */

static bool is_valid(const char *record)
{
	_cleanup_strv_ struct strv lines = { 0 };
	_cleanup_strv_ struct strv paths = { 0 };
	char stamp[HASH_HEX_SIZE];

	if (strncmp(record, RECORD_MAGIC, strlen(RECORD_MAGIC)) != 0)
		return false;
	xstrv_split(&lines, record, "\n");
	for (size_t i = 1; i < lines.count; i++)
		if (strncmp(lines.items[i], PATH_PREFIX, strlen(PATH_PREFIX)) == 0)
			xstrv_push(&paths, lines.items[i] + strlen(PATH_PREFIX));
	stamp_of(&paths, stamp);
	return strcmp(lines.items[0] + strlen(RECORD_MAGIC), stamp) == 0;
}

static int ask(int cache_fd, char **ret_record, struct error *error)
{
	_cleanup_strv_ struct strv paths = { 0 };
	_cleanup_strv_ struct strv lines = { 0 };
	_cleanup_free_ char *fetched = NULL;
	_cleanup_free_ char *all = NULL;
	char stamp[HASH_HEX_SIZE];
	int r = ask_paths(&paths, error);

	if (r < 0)
		return r;
	/* Before apt answers: should something change meanwhile, the record is stale. */
	stamp_of(&paths, stamp);
	r = ask_targets(false, &fetched, error);
	if (r == 0)
		r = ask_targets(true, &all, error);
	if (r < 0)
		return r;
	xstrv_pushf(&lines, RECORD_MAGIC "%s", stamp);
	for (size_t i = 0; i < paths.count; i++)
		xstrv_pushf(&lines, PATH_PREFIX "%s", paths.items[i]);
	xstrv_pushf(&lines, "%s%s", fetched, all);
	*ret_record = xstrv_join(&lines, "\n");
	/* A source may have a password in its URL. What cannot be remembered is asked again. */
	if (cache_fd >= 0)
		(void) !fs_write_atomic(cache_fd, RECORD, *ret_record, strlen(*ret_record), 0600);
	return 0;
}

/* ---- reading it */

/* apt leaves "$(CODENAME)" as it stands where a list was never fetched. */
static const char *next_value(char **line)
{
	const char *field = strsep(line, "|");

	return !field || strncmp(field, "$(", 2) == 0 ? "" : field;
}

static bool is_listed(const struct apt_targets *targets, const struct apt_target *target)
{
	for (size_t i = 0; i < targets->count; i++)
		if (strcmp(targets->items[i].uri, target->uri) == 0 &&
			strcmp(targets->items[i].release, target->release) == 0 &&
			strcmp(targets->items[i].component, target->component) == 0 &&
			strcmp(targets->items[i].architecture, target->architecture) == 0)
			return true;
	return false;
}

/* A Release file is of a whole suite: what was fetched for amd64 says whose the lists of arm64 are.
 */
static void complete(const struct apt_targets *targets, struct apt_target *target)
{
	for (size_t i = 0; !*target->origin && i < targets->count; i++) {
		const struct apt_target *other = &targets->items[i];

		if (strcmp(other->uri, target->uri) != 0 ||
			strcmp(other->release, target->release) != 0)
			continue;
		target->codename = other->codename;
		target->origin = other->origin;
		target->label = other->label;
	}
}

/*
 * Adds a target unless it is there already: fetched targets come first, and the second list repeats
 * them with fewer details.
 */
static void take_target(struct apt_targets *targets, char *line)
{
	struct apt_target target;

	target.uri = next_value(&line);
	target.release = next_value(&line);
	target.codename = next_value(&line);
	target.origin = next_value(&line);
	target.label = next_value(&line);
	target.component = next_value(&line);
	target.architecture = next_value(&line);
	if (is_listed(targets, &target))
		return;
	complete(targets, &target);
	targets->items = xreallocarray(targets->items, targets->count + 1, sizeof(target));
	targets->items[targets->count++] = target;
}

int apt_targets_read(
	const struct mirrors_request *request, struct apt_targets *ret, struct error *error)
{
	_cleanup_free_ char *record = NULL;
	bool offline = request->offline;
	int cache_fd = request->cache_fd;
	char *line, *next;
	int r = cache_fd < 0 ? -ENOENT : fs_read(cache_fd, RECORD, RECORD_LIMIT, &record, NULL);

	*ret = (struct apt_targets){ 0 };
	if (offline && r < 0)
		return 0;
	if (!offline && (r < 0 || !is_valid(record))) {
		free(TAKE_PTR(record));
		if (request->on_ask_apt && process_can_start("apt-get"))
			request->on_ask_apt(request->context);
		r = ask(cache_fd, &record, error);
	}
	if (r == -ENOPKG) /* no apt on this system */
		return 0;
	if (r < 0)
		return r;
	next = record;
	ret->record = TAKE_PTR(record);
	while ((line = strsep(&next, "\n")))
		if (strncmp(line, TARGET_PREFIX, strlen(TARGET_PREFIX)) == 0)
			take_target(ret, line + strlen(TARGET_PREFIX));
	return 0;
}

void apt_targets_free(struct apt_targets *targets)
{
	free(targets->items);
	free(targets->record);
	*targets = (struct apt_targets){ 0 };
}

#define LIST_PREFIX "mirror+file:"
#define LIST_LIMIT  (64UL * 1024)

/* How sure it is that a source is the mirror: the surest is taken, of equals the first. */
enum fit { FIT_NONE, FIT_SUITE, FIT_SUITE_AND_NAME, FIT_RELEASE, FIT_RELEASE_AND_POCKET };

/* "-security" of "bookworm-security" and of "trixie-security"; "" of "trixie". */
static const char *pocket_of(const char *suite)
{
	const char *dash = strchr(suite, '-');

	return dash ? dash : "";
}

/* Has the folder at the end of the URL the mirror's name? */
static bool is_named(const char *uri, const char *name)
{
	_cleanup_strv_ struct strv parts = { 0 };

	xstrv_split(&parts, uri, "/");
	return parts.count && strcmp(parts.items[parts.count - 1], name) == 0;
}

static bool has_component(const struct repository *repository, const char *component)
{
	_cleanup_strv_ struct strv components = { 0 };

	xstrv_split(&components, repository->components, " ");
	return strv_contains(&components, component);
}

/* Is this system of the distribution? Then suites of another release have the same mirror. */
static bool is_at_home(const struct catalogue *os)
{
	_cleanup_free_ char *text = NULL;
	_cleanup_free_ char *id = NULL;

	if (fs_read(AT_FDCWD, "/etc/os-release", LIST_LIMIT, &text, NULL) < 0)
		return false;
	id = os_release_value(text, "ID");
	return id && strcmp(id, os->id) == 0;
}

static bool is_suite(const struct repository *repository, const struct apt_target *target)
{
	return strcmp(target->release, repository->suite) == 0 ||
	       strcmp(target->codename, repository->suite) == 0;
}

static enum fit fit_of(
	const struct apt_target *target, const struct repository *repository, bool at_home)
{
	bool same_pocket = strcmp(pocket_of(target->release), pocket_of(repository->suite)) == 0;

	if (*target->origin && strcmp(target->origin, repository->origin) != 0)
		return FIT_NONE;
	if (*target->origin && *target->label && strcmp(target->label, repository->label) != 0)
		return FIT_NONE;
	/* Ubuntu's security mirror has the same label as the others, but not their suites. */
	if (*target->origin && *target->label)
		return same_pocket ? FIT_RELEASE_AND_POCKET : FIT_RELEASE;
	if (!has_component(repository, target->component) ||
		!(is_suite(repository, target) || (at_home && same_pocket)))
		return FIT_NONE;
	return is_named(target->uri, repository->mirror) ? FIT_SUITE_AND_NAME : FIT_SUITE;
}

/* Methods that only apt has, such as cdrom: and tor:, are no mirror for us. */
static bool is_reachable(const char *uri)
{
	return strncmp(uri, "http:", 5) == 0 || strncmp(uri, "https:", 6) == 0 ||
	       strncmp(uri, "file:", 5) == 0 || strncmp(uri, LIST_PREFIX, strlen(LIST_PREFIX)) == 0;
}

/* Debian's cloud images have a file with the mirrors' URLs: mirror+file:/etc/apt/mirrors/… */
static char *first_of_list(const char *uri)
{
	_cleanup_free_ char *path = xstrdup(uri);
	_cleanup_free_ char *text = NULL;
	_cleanup_strv_ struct strv lines = { 0 };
	const char *start = path;

	/* apt puts a slash behind every repository's URI, also behind a file's. */
	for (size_t length = strlen(path); length > 0 && path[length - 1] == '/'; length--)
		path[length - 1] = '\0';
	while (start[0] == '/' && start[1] == '/')
		start++;
	if (fs_read(AT_FDCWD, start, LIST_LIMIT, &text, NULL) < 0)
		return NULL;
	xstrv_split(&lines, text, "\n");
	for (size_t i = 0; i < lines.count; i++) {
		char *line = lines.items[i];

		line[strcspn(line, " \t\r")] = '\0';
		if (*line && *line != '#')
			return xstrdup(line);
	}
	return NULL;
}

char *apt_mirrors_find(const struct apt_targets *targets, const struct catalogue *os,
	const char *name, const char *arch)
{
	const char *best = NULL;
	enum fit best_fit = FIT_NONE;
	bool at_home = is_at_home(os);

	for (size_t i = 0; i < os->repository_count; i++) {
		const struct repository *repository = &os->repositories[i];

		if (repository->kind != REPOSITORY_APT || !*repository->origin ||
			strcmp(repository->mirror, name) != 0)
			continue;
		for (size_t j = 0; j < targets->count; j++) {
			const struct apt_target *target = &targets->items[j];
			enum fit fit = fit_of(target, repository, at_home);

			if (fit <= best_fit || !is_reachable(target->uri) ||
				(arch && strcmp(target->architecture, arch_debian(arch)) != 0))
				continue;
			best_fit = fit;
			best = target->uri;
		}
	}
	if (best && strncmp(best, LIST_PREFIX, strlen(LIST_PREFIX)) == 0)
		return first_of_list(best + strlen(LIST_PREFIX));
	return best ? xstrdup(best) : NULL;
}
