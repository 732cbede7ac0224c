/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/ignored_env.h"

#include <string.h>

#include "common/strv.h"
#include "entrypoint/engine/log.h"

static bool is_worth_a_word(const struct unneeded *group, const char *value)
{
	return value && *value && !(group->usual && strcmp(group->usual, value) == 0);
}

static void tell_group(struct log *log, const char *step, const struct unneeded *group)
{
	_cleanup_strv_ struct strv set = { 0 };
	_cleanup_free_ char *names = NULL;
	struct error text;

	for (const char *const *name = group->names; *name; name++)
		if (is_worth_a_word(group, getenv(*name)) && strv_push(&set, *name) < 0)
			return;
	names = set.count ? strv_join(&set, ", ") : NULL;
	if (!names)
		return;
	(void) error_set(&text, 0, "%s %s set: not needed, because %s", names,
		set.count == 1 ? "is" : "are", group->reason);
	log_event(log, "note", step, 0, REASON_NONE, text.text);
}

void ignored_env_tell(
	struct log *log, const char *step, const struct unneeded *groups, size_t count)
{
	for (size_t i = 0; i < count; i++)
		tell_group(log, step, &groups[i]);
}
