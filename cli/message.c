/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/message.h"

#include <string.h>
#include <sys/ioctl.h>

#include "common/xalloc.h"

#define INDENT 2

/* The terminal's width; 0: it is none, or one that is too narrow to wrap for. */
static size_t width_of(FILE *file)
{
	struct winsize size;
	int fd = fileno(file);

	return fd >= 0 && ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40 ? size.ws_col : 0;
}

static size_t count_columns(const char *text, size_t length)
{
	size_t columns = 0;

	for (size_t i = 0; i < length; i++)
		columns += (text[i] & 0xc0) != 0x80;
	return columns;
}

/* @at: the column that the line begins in; @indent: that of the lines that it is wrapped to. */
static void print_wrapped(FILE *file, const char *text, size_t length, size_t at, size_t indent)
{
	size_t width = width_of(file);

	while (length) {
		size_t blank = text[0] == ' ';
		size_t word = blank;

		while (word < length && text[word] != ' ')
			word++;
		if (width && at > indent && at + count_columns(text, word) > width) {
			(void) fprintf(file, "\n%*s", (int) indent, "");
			at = indent;
			text += blank;
			length -= blank;
			word -= blank;
		}
		(void) fwrite(text, 1, word, file);
		at += count_columns(text, word);
		text += word;
		length -= word;
	}
	(void) fputc('\n', file);
}

void message_error(FILE *file, const char *who, const struct error *error)
{
	(void) fprintf(file, "%s: ", who);
	print_wrapped(file, error->text, strlen(error->text), strlen(who) + 2, INDENT);
	for (const char *line = error->lines; *line; line += strcspn(line, "\n") + 1) {
		(void) fprintf(file, "%*s", INDENT, "");
		print_wrapped(file, line, strcspn(line, "\n"), INDENT, INDENT + INDENT);
	}
}

char *message_text(const struct error *error)
{
	char *text = xstrdup(error->text);

	for (const char *line = error->lines; *line; line += strcspn(line, "\n") + 1) {
		_cleanup_free_ char *before = text;

		text = xasprintf(
			"%s\n%*s%.*s", before, INDENT, "", (int) strcspn(line, "\n"), line);
	}
	return text;
}
