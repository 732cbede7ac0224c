/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why driver containers stop, as causes: docs/reasons.md, which the program has in it. A section
 * "### CODE (exit code)" is a cause: its paragraphs say why, its list with which message, and
 * "Cure:" what to do.
 */
#include "cli/explain/explain.h"

#include <string.h>

#include "cli/exit_code.h"
#include "common/xalloc.h"

__asm__(".pushsection .rodata\n"
	"reasons_text: .incbin \"docs/reasons.md\"\n"
	".byte 0\n"
	".popsection\n");
extern const char reasons_text[] __attribute__((visibility("hidden")));

/* Takes a line's Markdown off: `code`, **strong**, [text](target). In place. */
static void make_plain(char *line)
{
	char *to = line;
	bool in_link = false;

	for (const char *from = line; *from; from++) {
		if (*from == '`' || *from == '*')
			continue;
		if (*from == '[' && strstr(from, "](")) {
			in_link = true;
			continue;
		}
		if (in_link && strncmp(from, "](", 2) == 0) {
			from += strcspn(from, ")");
			in_link = false;
			if (!*from)
				break;
			continue;
		}
		*to++ = *from;
	}
	*to = '\0';
}

/* Appends a line to a text that is one paragraph. */
static void join(char **text, const char *line)
{
	bool first = !*text || !**text;
	char *longer = xasprintf("%s%s%s", first ? "" : *text, first ? "" : " ", line);

	free(*text);
	*text = longer;
}

static char *keep(struct explain_causes *causes, char *text)
{
	xstrv_push(&causes->made, text);
	free(text);
	return causes->made.items[causes->made.count - 1];
}

static struct explain_cause *add_row(struct explain_causes *causes, char *id, int exit_code)
{
	struct explain_cause *row;

	causes->rows = xreallocarray(causes->rows, causes->count + 1, sizeof(*row));
	row = &causes->rows[causes->count++];
	*row = (struct explain_cause){ .id = keep(causes, id),
		.rank = EXPLAIN_EVENT,
		.input = EXPLAIN_NODE,
		.exit_code = exit_code };
	return row;
}

/* A section without its heading. */
static void read_section(struct explain_causes *causes, struct explain_cause *row, char *section)
{
	char *because = xstrdup(""), *cure = NULL, *point = NULL, *line;
	char **text = &because;

	while ((line = strsep(&section, "\n"))) {
		/* A link may go on in the next line: its text is one here, too. */
		if (strncmp(line, "Cure: ", 6) == 0) {
			text = &cure;
			line += 6;
		} else if (strncmp(line, "- ", 2) == 0 || !*line) {
			if (point)
				xstrv_push(&row->details, point);
			free(point);
			point = NULL;
			text = *line || row->details.count ? &point : text;
			line += *line ? 2 : 0;
		}
		line += strspn(line, " ");
		if (*line)
			join(text, line);
	}
	if (point)
		xstrv_push(&row->details, point);
	free(point);
	make_plain(because);
	if (cure)
		make_plain(cure);
	for (size_t i = 0; i < row->details.count; i++)
		make_plain(row->details.items[i]);
	row->because = keep(causes, xasprintf("%s, exit code %d of a driver container: %s", row->id,
					    row->exit_code, because));
	row->remedy = cure ? keep(causes, cure)
			   : keep(causes, xstrdup(row->details.count ? "by the message, as above"
								     : "nothing has to be done"));
	free(because);
}

/* Findings of slipway-init status that a reason is behind (entrypoint/status/status.c). */
static const struct status_line {
	const char *reason;
	const char *text;
} status_lines[] = {
	{ "DRIVER_REPLACED", "! changed since: {text}" },
	{ "NETWORK_INCOMPLETE", "! not restored: {text}" },
};

static void read_reasons(struct explain_causes *causes)
{
	_cleanup_free_ char *text = xstrdup(reasons_text);
	char *section = strstr(text, "\n### ");
	char *end = strstr(text, "\n## Mounts");

	if (end)
		*end = '\0';
	while (section) {
		char *name = section + 5;
		char *next = strstr(name, "\n### ");
		size_t length = strcspn(name, " ");
		struct explain_cause *row = add_row(
			causes, xstrndup(name, length), (int) strtol(name + length + 2, NULL, 10));

		if (next)
			*next = '\0';
		/* The log's last line and the status; the status file; the event log. */
		xstrv_pushf(&row->patterns, "[%s]", row->id);
		xstrv_pushf(&row->patterns, "reason=%s", row->id);
		xstrv_pushf(&row->patterns, "\"reason\":\"%s\"", row->id);
		for (size_t i = 0; i < ARRAY_SIZE(status_lines); i++)
			if (strcmp(row->id, status_lines[i].reason) == 0)
				xstrv_push(&row->patterns, status_lines[i].text);
		read_section(causes, row, name + strcspn(name, "\n"));
		section = next;
	}
}

void explain_reasons_read(struct explain_causes *causes)
{
	read_reasons(causes);
	for (int code = 0; code < 256; code++) {
		const char *text = exit_code_text(code);
		struct explain_cause *row;

		if (strcmp(text, exit_code_text(-1)) == 0)
			continue;
		row = add_row(causes, xstrdup("exit"), code);
		row->because = keep(causes, xasprintf("exit code %d of slipway: %s", code, text));
		row->remedy = code == EXIT_CODE_OK
				      ? "nothing has to be done"
				      : "the last lines of that run name the cause and its cure; "
					"slipway(1), EXIT STATUS, says more of each code";
	}
}
