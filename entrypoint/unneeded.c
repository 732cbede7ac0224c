/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/unneeded.h"

#include <string.h>

#include "common/strv.h"
#include "entrypoint/engine/journal.h"

static bool is_worth_a_word(const struct unneeded *group, const char *value)
{
	return value && *value && !(group->usual && strcmp(group->usual, value) == 0);
}

static void tell_group(struct journal *journal, const char *step, const struct unneeded *group)
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
	journal_event(journal, "note", step, 0, REASON_NONE, text.text);
}

void unneeded_tell(
	struct journal *journal, const char *step, const struct unneeded *groups, size_t count)
{
	for (size_t i = 0; i < count; i++)
		tell_group(journal, step, &groups[i]);
}
