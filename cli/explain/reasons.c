/* SPDX-License-Identifier: Apache-2.0 */
/* Why driver containers stop (docs/reasons.md), and slipway's exit codes, as causes. */
#include "cli/explain/explain.h"

#include <ctype.h>
#include <string.h>

#include "cli/exit_code.h"
#include "common/nearest.h"
#include "common/reason_text.h"
#include "common/xalloc.h"

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

/* Findings of slipway-init status that a reason is behind (entrypoint/status/status.c). */
static const struct status_line {
	const char *reason;
	const char *text;
} status_lines[] = {
	{ "DRIVER_REPLACED", "! changed since: {text}" },
	{ "NETWORK_INCOMPLETE", "! not restored: {text}" },
};

static void add_reason(struct explain_causes *causes, struct reason_text *text)
{
	struct explain_cause *row = add_row(causes, xstrdup(text->code), text->exit_code);

	/* The log's last line and the status; the status file; the event log. */
	xstrv_pushf(&row->patterns, "[%s]", row->id);
	xstrv_pushf(&row->patterns, "reason=%s", row->id);
	xstrv_pushf(&row->patterns, "\"reason\":\"%s\"", row->id);
	for (size_t i = 0; i < ARRAY_SIZE(status_lines); i++)
		if (strcmp(row->id, status_lines[i].reason) == 0)
			xstrv_push(&row->patterns, status_lines[i].text);
	row->because = keep(causes, xasprintf("%s, exit code %d of a driver container: %s", row->id,
					    row->exit_code, text->because));
	row->details = text->details;
	text->details = (struct strv){ 0 };
	row->remedy = keep(causes, xstrdup(text->cure           ? text->cure
					   : row->details.count ? "by the message, as above"
								: "nothing has to be done"));
}

static void add_reasons(struct explain_causes *causes)
{
	size_t position = 0;

	for (;;) {
		_cleanup_reason_text_ struct reason_text text = { 0 };
		int r = reason_text_next(&position, &text);

		if (r < 0)
			out_of_memory();
		if (r == 0)
			return;
		add_reason(causes, &text);
	}
}

/* The build's input that an exit code of slipway is about, if it is about one. */
static enum explain_input input_of(int code)
{
	return code == EXIT_CODE_KERNEL || code == EXIT_CODE_KREL || code == EXIT_CODE_LINT
		       ? EXPLAIN_KERNEL
		       : EXPLAIN_NONE;
}

void explain_reasons_read(struct explain_causes *causes)
{
	add_reasons(causes);
	for (int code = 0; code < 256; code++) {
		const char *text = exit_code_text(code);
		struct explain_cause *row;

		if (strcmp(text, exit_code_text(-1)) == 0)
			continue;
		row = add_row(causes, xstrdup("exit"), code);
		row->input = input_of(code);
		row->because = keep(causes, xasprintf("exit code %d of slipway: %s", code, text));
		row->remedy = code == EXIT_CODE_OK
				      ? "nothing has to be done"
				      : "the last lines of that run name the cause and its cure; "
					"slipway(1), EXIT STATUS, says more of each code";
	}
}

/* The only code whose last word is that of @text: WILL_NOT_LOAD for WONT_LOAD. */
static const char *same_ending(const struct strv *codes, const char *text)
{
	const char *ending = strrchr(text, '_');
	const char *found = NULL;

	for (size_t i = 0; ending && i < codes->count; i++) {
		if (!str_ends_with(codes->items[i], ending))
			continue;
		if (found)
			return NULL;
		found = codes->items[i];
	}
	return found;
}

const struct explain_cause *explain_reason_meant(
	const struct explain_causes *causes, const char *text)
{
	_cleanup_free_ char *code = xstrdup(text);
	_cleanup_strv_ struct strv codes = { 0 };
	bool joined = strpbrk(text, "_-");
	const char *meant;

	for (char *c = code; *c; c++) {
		/* A word with small letters is a word of the log. */
		if (!isalpha((unsigned char) *c) ? !strchr("_-", *c)
						 : !joined && islower((unsigned char) *c))
			return NULL;
		*c = *c == '-' ? '_' : (char) toupper((unsigned char) *c);
	}
	for (size_t i = 0; i < causes->count; i++)
		if (causes->rows[i].exit_code >= 0 && isupper((unsigned char) *causes->rows[i].id))
			xstrv_push(&codes, causes->rows[i].id);
	meant = nearest_word(&codes, code);
	if (!meant)
		meant = same_ending(&codes, code);
	for (size_t i = 0; meant && i < causes->count; i++)
		if (strcmp(causes->rows[i].id, meant) == 0)
			return &causes->rows[i];
	return NULL;
}
