/* SPDX-License-Identifier: Apache-2.0 */
/* Findings of the load proof, by their ids, as docs/verify.md explains them. */
#include "cli/explain/explain.h"

#include <string.h>

#include "common/xalloc.h"

__asm__(".pushsection .rodata\n"
	"findings_page: .incbin \"docs/verify.md\"\n"
	".byte 0\n"
	".popsection\n");
extern const char findings_page[] __attribute__((visibility("hidden")));

#define SECTION "\n## Findings\n"
#define POINT   "- `"
#define CURE    "rebuild the module against the headers of this kernel; a note needs nothing"

static const char *keep(struct explain_causes *causes, char *text)
{
	xstrv_push(&causes->made, text);
	free(text);
	return causes->made.items[causes->made.count - 1];
}

/* @text: "built for … are named. Rebuild it …": what is wrong is its first sentence. */
static void add(struct explain_causes *causes, const char *id, const char *text)
{
	const char *end = strstr(text, ". ");
	size_t length = end ? (size_t) (end - text) : strlen(text);
	struct explain_cause *row;

	causes->rows = xreallocarray(causes->rows, causes->count + 1, sizeof(*row));
	row = &causes->rows[causes->count++];
	*row = (struct explain_cause){
		.rank = EXPLAIN_CAUSE, .input = EXPLAIN_NONE, .exit_code = -1, .by_name = true
	};
	row->id = keep(causes, xstrdup(id));
	row->because = keep(
		causes, xasprintf("%s, a finding of slipway verify: %.*s", id, (int) length, text));
	row->remedy = end ? keep(causes, xstrdup(end + strlen(". "))) : CURE;
}

/* "`a`, `b` or `c`: text", without line ends; in place. */
static void add_point(struct explain_causes *causes, char *point)
{
	char *text = strstr(point, "`: "), *to;
	_cleanup_strv_ struct strv ids = { 0 };

	if (!text)
		return;
	*text = '\0';
	xstrv_split(&ids, point, "`, \n");
	text += strlen("`: ");
	to = text;
	for (const char *from = text; *from; from++)
		if (*from == '\n')
			*to++ = ' ';
		else if (*from != '`' && !(*from == ' ' && to > text && to[-1] == ' '))
			*to++ = *from;
	*to = '\0';
	for (size_t i = 0; i < ids.count; i++)
		add(causes, ids.items[i], text);
}

void explain_findings_read(struct explain_causes *causes)
{
	const char *start = strstr(findings_page, SECTION) + strlen(SECTION);
	const char *end = strstr(start, "\n## ");
	_cleanup_free_ char *section = xstrndup(start, (size_t) (end - start));

	for (char *point = strstr(section, "\n" POINT); point;) {
		char *next = point + strlen("\n" POINT);
		char *rest = next;

		/* Further lines of a point are indented. */
		while ((rest = strchr(rest, '\n')) && rest[1] == ' ')
			rest++;
		point = rest ? strstr(rest, "\n" POINT) : NULL;
		if (rest)
			*rest = '\0';
		add_point(causes, next);
	}
}
