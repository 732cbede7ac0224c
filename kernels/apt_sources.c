/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/apt.h"

#include <fcntl.h>
#include <string.h>

#include "common/fs.h"

struct target {
	char *uri;
	char *release;
	char *codename;
	char *origin;
};

/* apt leaves "$(CODENAME)" as it stands where the lists were never fetched. */
static bool is_known(const char *value)
{
	return value && *value && strncmp(value, "$(", 2) != 0;
}

static bool starts_with_word(const char *text, const char *word)
{
	size_t length = strlen(word);

	return strncmp(text, word, length) == 0 && (text[length] == '\0' || text[length] == '-');
}

static bool is_of(const struct target *target, const struct catalogue *os)
{
	const char *name = is_known(target->codename) ? target->codename : target->release;

	if (is_known(target->origin) && strcmp(target->origin, os->repositories[0].origin) != 0)
		return false;
	return starts_with_word(name, os->image.codename);
}

static int add_entry(struct strv *entries, const struct target *target, const struct catalogue *os)
{
	_cleanup_free_ char *option = NULL;
	_cleanup_free_ char *entry = NULL;

	if (fs_exists(AT_FDCWD, os->repositories[0].keyrings.items[0]) &&
		asprintf(&option, "[signed-by=%s] ", os->repositories[0].keyrings.items[0]) < 0)
		return -ENOMEM;
	if (asprintf(&entry, "deb %s%s %s %s", option ? option : "", target->uri, target->release,
		    os->repositories[0].components) < 0)
		return -ENOMEM;
	return strv_push_unique(entries, entry);
}

static int split_target(char *line, struct target *ret)
{
	ret->uri = strsep(&line, "|");
	ret->release = strsep(&line, "|");
	ret->codename = strsep(&line, "|");
	ret->origin = strsep(&line, "|");
	return ret->origin ? 0 : -EINVAL;
}

int apt_sources_text(
	const char *targets, const struct catalogue *os, char **ret_text, struct error *error)
{
	_cleanup_strv_ struct strv lines = { 0 };
	_cleanup_strv_ struct strv entries = { 0 };
	_cleanup_free_ char *joined = NULL;

	if (strv_split(&lines, targets, "\n") < 0)
		return error_set_errno(error, -ENOMEM, "apt sources");
	for (size_t i = 0; i < lines.count; i++) {
		struct target target;

		if (split_target(lines.items[i], &target) < 0 || !is_of(&target, os))
			continue;
		if (add_entry(&entries, &target, os) < 0)
			return error_set_errno(error, -ENOMEM, "apt sources");
	}
	if (entries.count == 0)
		return error_set(error, -ENODATA,
			"the system's apt sources have no %s %s repository: add one under "
			"/etc/apt/sources.list.d and run apt-get update",
			os->repositories[0].origin, os->image.codename);
	strv_sort(&entries);
	joined = strv_join(&entries, "\n");
	if (!joined || asprintf(ret_text, "%s\n", joined) < 0)
		return error_set_errno(error, -ENOMEM, "apt sources");
	return 0;
}
