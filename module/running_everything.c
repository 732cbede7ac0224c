/* SPDX-License-Identifier: Apache-2.0 */
/* What is exported now, all of it: for who judges modules that are not known yet. */
#include <limits.h>
#include <string.h>

#include "module/running_parts.h"

/* What @from lists under the module's name; @known: with its CRCs. Returns how many, or -ENOMEM. */
static int put_listed(struct running *running, const struct symvers *from,
	const struct loaded *loaded, bool known)
{
	int found = 0;

	for (size_t i = 0; from && i < symvers_count(from); i++) {
		struct symvers_entry entry = *symvers_at(from, i);
		char name[NAME_MAX];

		symvers_module_name(&entry, name, sizeof(name));
		if (strcmp(name, loaded->name) != 0)
			continue;
		entry.has_crc = entry.has_crc && known;
		if (symvers_put(running->there, &entry) < 0)
			return -ENOMEM;
		found++;
	}
	return found;
}

static int put_all_of(struct running *running, struct loaded *loaded)
{
	int r;

	if (loaded->file)
		return symvers_add_module(running->there, loaded->file);
	r = put_listed(running, running->drivers, loaded, true);
	loaded->facts.by_word = r > 0;
	if (r)
		return r < 0 ? r : 0;
	r = put_listed(running, running->there, loaded, false);
	return r > 0 ? strv_push_unique(&running->unexplained, loaded->name) : r;
}

int running_find_everything(struct running *running)
{
	int r = running_explain_all(running);

	running->there = TAKE_PTR(running->given);
	for (size_t i = 0; r == 0 && i < running->loaded_count; i++)
		if (!running->loaded[i].facts.gone)
			r = put_all_of(running, &running->loaded[i]);
	return r;
}
