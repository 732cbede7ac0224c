/* SPDX-License-Identifier: Apache-2.0 */
#include "common/reason_text.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

__asm__(".pushsection .rodata\n"
	"reasons_page: .incbin \"docs/reasons.md\"\n"
	".byte 0\n"
	".popsection\n");
extern const char reasons_page[] __attribute__((visibility("hidden")));

#define HEADING "\n### "
#define CURE    "Cure: "
#define POINT   "- "

/* A star in code is none. */
static bool is_mark(char c, bool *in_code)
{
	*in_code ^= c == '`';
	return c == '`' || (c == '*' && !*in_code);
}

/*
 * Puts the text of the link at @from, which ends at @text_end, to @to, and returns what is behind
 * it. The name of a page, which lies beside this one, becomes its path from the top: the target,
 * which is left out, leaves room.
 */
static char *take_link(const char *from, const char *text_end, char *to)
{
	static const char folder[] = { 'd', 'o', 'c', 's', '/' };
	size_t length = (size_t) (text_end - from - 1);
	bool in_code = false;

	if (length > 3 && strncmp(text_end - 3, ".md", 3) == 0) {
		memmove(to + sizeof(folder), from + 1, length);
		memcpy(to, folder, sizeof(folder));
		return to + sizeof(folder) + length;
	}
	for (from++; from < text_end; from++)
		if (!is_mark(*from, &in_code))
			*to++ = *from;
	return to;
}

/* Takes Markdown off: `code`, **strong**, [text](target). In place. */
static void make_plain(char *text)
{
	bool in_code = false;
	char *to = text;

	for (const char *from = text; *from; from++) {
		const char *text_end = *from == '[' ? strstr(from, "](") : NULL;
		const char *end = text_end ? strchr(text_end, ')') : NULL;

		if (end) {
			to = take_link(from, text_end, to);
			from = end;
		} else if (!is_mark(*from, &in_code)) {
			*to++ = *from;
		}
	}
	*to = '\0';
}

static bool starts_with(const char *text, const char *start)
{
	return strncmp(text, start, strlen(start)) == 0;
}

/*
 * Cuts one text off the lines at *rest, of which the first is not empty: it ends before an empty
 * line, or before a line that begins a point or the cure. Lines become one, and plain. In place.
 */
static char *cut_text(char **rest)
{
	char *text = *rest, *to = text, *line;

	while ((line = *rest) && *line && *line != '\n' &&
		(line == text || (!starts_with(line, POINT) && !starts_with(line, CURE)))) {
		size_t length = strcspn(line, "\n");
		size_t blanks = strspn(line, " ");

		*rest = line[length] ? line + length + 1 : line + length;
		if (to != text)
			*to++ = ' ';
		memmove(to, line + blanks, length - blanks);
		to += length - blanks;
	}
	/* There is room: the last line's newline, or the end of all. */
	*to = '\0';
	make_plain(text);
	return text;
}

/* Joins a further paragraph to a text before it in the same section. In place. */
static void join(char *text, const char *more)
{
	char *end = text + strlen(text);

	*end++ = ' ';
	memmove(end, more, strlen(more) + 1);
}

/* @rest is the section without its heading. */
static int read_section(struct reason_text *ret, char *rest)
{
	char *because = NULL, *cure = NULL;
	int r = 0;

	while (r == 0 && *(rest += strspn(rest, "\n"))) {
		bool is_point = starts_with(rest, POINT);
		bool is_cure = starts_with(rest, CURE);
		char **before = cure ? &cure : &because;
		char *text = cut_text(&rest);

		if (is_cure)
			cure = text + strlen(CURE);
		else if (is_point)
			r = strv_push(&ret->details, text + strlen(POINT));
		else if (*before)
			join(*before, text);
		else
			*before = text;
	}
	ret->because = because ? because : "";
	ret->cure = cure;
	return r;
}

/* Where the section at @heading ends: at the next heading, of this level or the one above. */
static const char *find_end(const char *heading)
{
	const char *line = heading;

	while ((line = strchr(line + 1, '\n')))
		if (starts_with(line, HEADING) || starts_with(line, "\n## "))
			return line;
	return heading + strlen(heading);
}

int reason_text_next(size_t *position, struct reason_text *ret)
{
	const char *heading = strstr(reasons_page + *position, HEADING);
	const char *name = heading ? heading + strlen(HEADING) : "";
	size_t length = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_");
	char *body;
	int r;

	*ret = (struct reason_text){ 0 };
	/* The page goes on with other things than codes. */
	if (!heading || !length || !starts_with(name + length, " ("))
		return 0;
	*position = (size_t) (find_end(heading) - reasons_page);
	ret->section = strndup(name, (size_t) (reasons_page + *position - name));
	if (!ret->section)
		return -ENOMEM;
	ret->section[length] = '\0';
	ret->code = ret->section;
	ret->exit_code = (int) strtol(ret->section + length + 2, &body, 10);
	body += strcspn(body, "\n");
	r = read_section(ret, body);
	if (r < 0) {
		reason_text_free(ret);
		return r;
	}
	return 1;
}

void reason_text_free(struct reason_text *text)
{
	free(text->section);
	strv_free(&text->details);
	*text = (struct reason_text){ 0 };
}
