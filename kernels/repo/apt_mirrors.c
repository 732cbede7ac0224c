/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/repo/apt_mirrors.h"

#include <fcntl.h>
#include <string.h>

#include "common/fs.h"

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
