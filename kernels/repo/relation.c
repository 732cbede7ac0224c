/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/repo/relation.h"

#include <string.h>

#define BLANKS " \t\n"

void relation_free(struct relation *relation)
{
	free(relation->name);
	free(relation->sign);
	free(relation->version);
	*relation = (struct relation){ 0 };
}

/* "(>= 1.2)" at @text: its two parts. */
static int take_version(const char *text, struct relation *relation)
{
	size_t length = strspn(text, "<>=");
	size_t blanks = strspn(text + length, BLANKS);
	const char *version = text + length + blanks;

	relation->sign = strndup(text, length);
	relation->version = strndup(version, strcspn(version, ")" BLANKS));
	return relation->sign && relation->version ? 0 : -ENOMEM;
}

static int take_one(const char *text, struct relation *relation)
{
	size_t length = strcspn(text, "(:[<,|" BLANKS);
	const char *rest = text + length;

	relation->name = strndup(text, length);
	if (!relation->name)
		return -ENOMEM;
	if (*rest == ':') /* an architecture: "python3:any" */
		rest += strcspn(rest, "([<,|" BLANKS);
	rest += strspn(rest, BLANKS);
	if (*rest == '(') {
		rest++;
		return take_version(rest + strspn(rest, BLANKS), relation);
	}
	relation->sign = strdup("");
	relation->version = strdup("");
	return relation->sign && relation->version ? 0 : -ENOMEM;
}

int relation_next(const char **cursor, struct relation *ret)
{
	const char *text = *cursor;

	for (;;) {
		_cleanup_(relation_free) struct relation relation = { 0 };
		const char *end;
		int r;

		text += strspn(text, "," BLANKS);
		if (*text == '|') {
			relation.alternative = true;
			text++;
			text += strspn(text, BLANKS);
		}
		if (!*text)
			return 0;
		end = text + strcspn(text, ",|");
		r = take_one(text, &relation);
		if (r < 0)
			return r;
		text = end;
		if (!*relation.name)
			continue;
		*cursor = end;
		*ret = relation;
		relation = (struct relation){ 0 };
		return 1;
	}
}
