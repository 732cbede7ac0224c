/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/repo/apt_mirrors_internal.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "common/hash.h"
#include "common/process.h"

#define RECORD        "apt-targets"
#define RECORD_MAGIC  "slipway apt-targets 1 "
#define RECORD_LIMIT  (4UL * 1024 * 1024)
#define PATH_PREFIX   "path "
#define TARGET_PREFIX "target "
#define TARGET_FIELDS "$(REPO_URI)|$(RELEASE)|$(CODENAME)|$(ORIGIN)|$(LABEL)|$(COMPONENT)"

/*
 * Where apt's own settings say that its files are. The compiled-in folders are listed first: it is
 * there that a changed setting would show.
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

/* Of the folder with the package lists, only Release files matter for what is asked here. */
static bool matters(const char *name)
{
	static const char packages[] = "_Packages";

	return !strstr(name, packages) && strcmp(name, "lock") != 0 &&
	       strcmp(name, "partial") != 0 && strcmp(name, "auxfiles") != 0;
}

static int add_folder(struct hash *hash, const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_strv_ struct strv names = { 0 };
	int r = fd < 0 ? -errno : fs_list(fd, ".", &names);

	for (size_t i = 0; i < names.count && r == 0; i++) {
		struct stat status;

		if (matters(names.items[i]) && fstatat(fd, names.items[i], &status, 0) == 0)
			add_status(hash, names.items[i], &status);
	}
	return r;
}

static void add_path(struct hash *hash, const char *path)
{
	struct stat status;

	hash_add_text(hash, path);
	if (stat(path, &status) < 0)
		hash_add_text(hash, "absent");
	else if (!S_ISDIR(status.st_mode))
		add_status(hash, "", &status);
	else if (add_folder(hash, path) < 0)
		hash_add_text(hash, "unreadable");
}

static int stamp_of(const struct strv *paths, char hex[HASH_HEX_SIZE])
{
	const char *setting = getenv("APT_CONFIG");
	struct hash *hash = hash_new();

	if (!hash)
		return -ENOMEM;
	hash_add_text(hash, setting ? setting : "");
	if (setting)
		add_path(hash, setting);
	for (size_t i = 0; i < paths->count; i++)
		add_path(hash, paths->items[i]);
	hash_finish(hash, hex);
	return 0;
}

/* ---- asking apt */

static int run(const char *const *words, size_t count, char **ret_output, struct error *error)
{
	_cleanup_close_ int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	_cleanup_strv_ struct strv argv = { 0 };
	struct process process = { .argv = &argv, .stdin_fd = -1, .log_fd = null };

	for (size_t i = 0; i < count; i++)
		if (strv_push(&argv, words[i]) < 0)
			return error_set_errno(error, -ENOMEM, "%s", words[0]);
	return process_run(&process, ret_output, error);
}

/* Lines such as LISTS='/var/lib/apt/lists/'. */
static int take_paths(char *output, struct strv *paths)
{
	char *line;

	while ((line = strsep(&output, "\n"))) {
		char *value = strchr(line, '\'');
		char *end = value ? strrchr(value + 1, '\'') : NULL;

		if (!end)
			continue;
		*end = '\0';
		if (strv_push_unique(paths, value + 1) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int ask_paths(struct strv *paths, struct error *error)
{
	const char *words[2 + 2 * ARRAY_SIZE(variables)] = { "apt-config", "shell" };
	_cleanup_free_ char *output = NULL;
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(configuration); i++)
		if (strv_push(paths, configuration[i]) < 0)
			return error_set_errno(error, -ENOMEM, "apt-config");
	for (size_t i = 0; i < ARRAY_SIZE(variables); i++) {
		words[2 + 2 * i] = "VALUE";
		words[3 + 2 * i] = variables[i];
	}
	r = run(words, ARRAY_SIZE(words), &output, error);
	if (r > 0)
		return error_set(
			error, -EIO, "apt-config shell ended with status %d: run it to see why", r);
	if (r == 0 && take_paths(output, paths) < 0)
		return error_set_errno(error, -ENOMEM, "apt-config");
	return r;
}

/* apt leaves lists out that were never fetched, unless it may leave out what only they tell. */
static int ask_targets(bool never_fetched_too, char **ret_output, struct error *error)
{
	static const char format[] = TARGET_PREFIX TARGET_FIELDS;
	const char *const words[] = { "apt-get", "indextargets", "--format", format,
		"Created-By: Packages", "--no-release-info" };
	int r = run(words, ARRAY_SIZE(words) - !never_fetched_too, ret_output, error);

	return r <= 0 ? r
		      : error_set(error, -EIO,
				"apt-get indextargets ended with status %d: run it to see what "
				"is wrong with the system's apt sources",
				r);
}

/* ---- what is remembered: a line with the stamp, the paths that it was made of, the targets */

static int compose(const struct strv *paths, const char *stamp, const char *fetched,
	const char *all, char **ret_record)
{
	_cleanup_strv_ struct strv lines = { 0 };
	int r = strv_pushf(&lines, RECORD_MAGIC "%s", stamp);
	for (size_t i = 0; i < paths->count && r == 0; i++)
		r = strv_pushf(&lines, PATH_PREFIX "%s", paths->items[i]);
	if (r == 0)
		r = strv_pushf(&lines, "%s%s", fetched, all);
	if (r < 0)
		return r;
	*ret_record = strv_join(&lines, "\n");
	return *ret_record ? 0 : -ENOMEM;
}

static bool is_valid(const char *record)
{
	_cleanup_strv_ struct strv lines = { 0 };
	_cleanup_strv_ struct strv paths = { 0 };
	char stamp[HASH_HEX_SIZE];
	const char *stated;

	if (strncmp(record, RECORD_MAGIC, strlen(RECORD_MAGIC)) != 0 ||
		strv_split(&lines, record, "\n") < 0)
		return false;
	stated = lines.items[0] + strlen(RECORD_MAGIC);
	for (size_t i = 1; i < lines.count; i++)
		if (strncmp(lines.items[i], PATH_PREFIX, strlen(PATH_PREFIX)) == 0 &&
			strv_push(&paths, lines.items[i] + strlen(PATH_PREFIX)) < 0)
			return false;
	return stamp_of(&paths, stamp) == 0 && strcmp(stated, stamp) == 0;
}

static int recall(int cache_fd, bool offline, char **ret_record)
{
	_cleanup_free_ char *record = NULL;
	int r = cache_fd < 0 ? -ENOENT : fs_read(cache_fd, RECORD, RECORD_LIMIT, &record, NULL);

	if (r < 0)
		return r;
	if (!offline && !is_valid(record))
		return -ESTALE;
	*ret_record = TAKE_PTR(record);
	return 0;
}

static int ask(int cache_fd, char **ret_record, struct error *error)
{
	_cleanup_strv_ struct strv paths = { 0 };
	_cleanup_free_ char *fetched = NULL;
	_cleanup_free_ char *all = NULL;
	_cleanup_free_ char *record = NULL;
	char stamp[HASH_HEX_SIZE] = "";
	int r = ask_paths(&paths, error);

	/* Of what was there before apt answered: should it change meanwhile, the record is stale.
	 */
	if (r == 0 && stamp_of(&paths, stamp) < 0)
		r = error_set_errno(error, -ENOMEM, "apt sources");
	if (r == 0)
		r = ask_targets(false, &fetched, error);
	if (r == 0)
		r = ask_targets(true, &all, error);
	if (r < 0)
		return r;
	r = compose(&paths, stamp, fetched, all, &record);
	if (r < 0)
		return error_set_errno(error, r, "apt sources");
	/* A source may have a password in its URL. The answer is right all the same where it cannot
	 * be remembered: it is asked again. */
	if (cache_fd >= 0)
		(void) !fs_write_atomic(cache_fd, RECORD, record, strlen(record), 0600);
	*ret_record = TAKE_PTR(record);
	return 0;
}

/* ---- reading it */

/* apt leaves "$(CODENAME)" as it stands where a list was never fetched. */
static char *value_of(const char *field)
{
	return strdup(!field || strncmp(field, "$(", 2) == 0 ? "" : field);
}

static void target_free(struct apt_target *target)
{
	free(target->uri);
	free(target->release);
	free(target->codename);
	free(target->origin);
	free(target->label);
	free(target->component);
	*target = (struct apt_target){ 0 };
}

static bool is_listed(const struct apt_targets *targets, const struct apt_target *target)
{
	for (size_t i = 0; i < targets->count; i++)
		if (strcmp(targets->items[i].uri, target->uri) == 0 &&
			strcmp(targets->items[i].release, target->release) == 0 &&
			strcmp(targets->items[i].component, target->component) == 0)
			return true;
	return false;
}

/* What was fetched comes first; the second list has it again, with less to tell. */
static int take_target(struct apt_targets *targets, char *line)
{
	struct apt_target target = { 0 };
	struct apt_target *grown;
	bool whole;

	grown = reallocarray(targets->items, targets->count + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	targets->items = grown;
	target.uri = value_of(strsep(&line, "|"));
	target.release = value_of(strsep(&line, "|"));
	target.codename = value_of(strsep(&line, "|"));
	target.origin = value_of(strsep(&line, "|"));
	target.label = value_of(strsep(&line, "|"));
	target.component = value_of(strsep(&line, "|"));
	whole = target.uri && target.release && target.codename && target.origin && target.label &&
		target.component;
	if (!whole || is_listed(targets, &target)) {
		target_free(&target);
		return whole ? 0 : -ENOMEM;
	}
	grown[targets->count++] = target;
	return 0;
}

static int take_record(char *record, struct apt_targets *targets)
{
	char *line;
	int r = 0;

	while (r == 0 && (line = strsep(&record, "\n")))
		if (strncmp(line, TARGET_PREFIX, strlen(TARGET_PREFIX)) == 0)
			r = take_target(targets, line + strlen(TARGET_PREFIX));
	return r;
}

int apt_targets_read(int cache_fd, bool offline, struct apt_targets *ret, struct error *error)
{
	_cleanup_(apt_targets_free) struct apt_targets targets = { 0 };
	_cleanup_free_ char *record = NULL;
	int r = recall(cache_fd, offline, &record);

	if (r < 0 && offline)
		r = -ENOENT;
	else if (r < 0)
		r = ask(cache_fd, &record, error);
	if (r == -ENOENT) { /* no apt on this system */
		*ret = (struct apt_targets){ 0 };
		return 0;
	}
	if (r < 0)
		return r;
	if (take_record(record, &targets) < 0)
		return error_set_errno(error, -ENOMEM, "apt sources");
	*ret = targets;
	targets = (struct apt_targets){ 0 };
	return 0;
}

void apt_targets_free(struct apt_targets *targets)
{
	for (size_t i = 0; i < targets->count; i++)
		target_free(&targets->items[i]);
	free(targets->items);
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

/* Does the folder's name at the end of the URL begin with the mirror's? */
static bool is_named(const char *uri, const char *name)
{
	size_t length = strlen(uri);
	size_t wanted = strlen(name);

	while (length > 0 && uri[length - 1] == '/')
		length--;
	return length > wanted && uri[length - wanted - 1] == '/' &&
	       strncmp(uri + length - wanted, name, wanted) == 0;
}

static bool has_component(const struct repository *repository, const char *component)
{
	_cleanup_strv_ struct strv components = { 0 };

	return strv_split(&components, repository->components, " ") == 0 &&
	       strv_contains(&components, component);
}

/* Is this system of the distribution? Then suites of another release have the same mirror. */
static bool is_at_home(const struct catalogue *os)
{
	_cleanup_free_ char *text = NULL;
	_cleanup_strv_ struct strv lines = { 0 };

	if (fs_read(AT_FDCWD, "/etc/os-release", LIST_LIMIT, &text, NULL) < 0 ||
		strv_split(&lines, text, "\n") < 0)
		return false;
	for (size_t i = 0; i < lines.count; i++) {
		const char *value = lines.items[i] + strlen("ID=");
		size_t length = strlen(os->id);

		if (strncmp(lines.items[i], "ID=", strlen("ID=")) != 0)
			continue;
		value += *value == '"' || *value == '\'';
		return strncmp(value, os->id, length) == 0 && strcspn(value + length, "\"'") == 0;
	}
	return false;
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

/* Debian's cloud images have a file with the mirrors' URLs: mirror+file:/etc/apt/mirrors/… */
static int first_of_list(const char *path, char **ret_url)
{
	_cleanup_free_ char *text = NULL;
	_cleanup_strv_ struct strv lines = { 0 };

	while (path[0] == '/' && path[1] == '/')
		path++;
	if (fs_read(AT_FDCWD, path, LIST_LIMIT, &text, NULL) < 0)
		return 0;
	if (strv_split(&lines, text, "\n") < 0)
		return -ENOMEM;
	for (size_t i = 0; i < lines.count; i++) {
		lines.items[i][strcspn(lines.items[i], " \t\r")] = '\0';
		if (*lines.items[i] == '#' || !*lines.items[i])
			continue;
		*ret_url = TAKE_PTR(lines.items[i]);
		return 0;
	}
	return 0;
}

/* Methods that only apt has, such as cdrom: and tor:, are no mirror for us. */
static bool is_reachable(const char *uri)
{
	return strncmp(uri, "http:", 5) == 0 || strncmp(uri, "https:", 6) == 0 ||
	       strncmp(uri, "file:", 5) == 0 || strncmp(uri, LIST_PREFIX, strlen(LIST_PREFIX)) == 0;
}

static int url_of(const char *uri, char **ret_url)
{
	size_t length;

	if (strncmp(uri, LIST_PREFIX, strlen(LIST_PREFIX)) != 0) {
		*ret_url = strdup(uri);
		return *ret_url ? 0 : -ENOMEM;
	}
	_cleanup_free_ char *path = strdup(uri + strlen(LIST_PREFIX));
	if (!path)
		return -ENOMEM;
	/* apt puts a slash behind every repository's URI, also behind a file's. */
	for (length = strlen(path); length > 0 && path[length - 1] == '/'; length--)
		path[length - 1] = '\0';
	return first_of_list(path, ret_url);
}

int apt_mirrors_find(const struct apt_targets *targets, const struct catalogue *os,
	const char *name, char **ret_url)
{
	const struct apt_target *best = NULL;
	enum fit best_fit = FIT_NONE;
	bool at_home = is_at_home(os);

	*ret_url = NULL;
	for (size_t i = 0; i < os->repository_count; i++) {
		const struct repository *repository = &os->repositories[i];

		if (repository->kind != REPOSITORY_APT || !*repository->origin ||
			strcmp(repository->mirror, name) != 0)
			continue;
		for (size_t j = 0; j < targets->count; j++) {
			enum fit fit = fit_of(&targets->items[j], repository, at_home);

			if (fit <= best_fit || !is_reachable(targets->items[j].uri))
				continue;
			best_fit = fit;
			best = &targets->items[j];
		}
	}
	return best ? url_of(best->uri, ret_url) : 0;
}
