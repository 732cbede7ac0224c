/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/message.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/text.h"
#include "common/xalloc.h"

#define INDENT 2

/* The terminal's width; 0: it is none, or one that is too narrow to wrap for. */
static size_t width_of(FILE *file)
{
	struct winsize size;
	int fd = fileno(file);

	return fd >= 0 && ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40 ? size.ws_col : 0;
}

static bool has_colours(FILE *file)
{
	const char *wanted = getenv("NO_COLOR");
	const char *terminal = getenv("TERM");
	int fd = fileno(file);

	return fd >= 0 && isatty(fd) && !(wanted && *wanted) && terminal && *terminal &&
	       strcmp(terminal, "dumb") != 0;
}

void message_print(FILE *file, enum colour colour, const char *format, ...)
{
	/* ECMA-48, select graphic rendition: 31 is red, 33 yellow, 0 the terminal's own. */
	static const char *const begins[] = {
		[COLOUR_RED] = "\033[31m", [COLOUR_YELLOW] = "\033[33m"
	};
	bool coloured = colour != COLOUR_NONE && has_colours(file);
	size_t length = strlen(format);
	bool is_line = length && format[length - 1] == '\n';
	va_list arguments;

	va_start(arguments, format);
	if (coloured) {
		_cleanup_free_ char *text = xvasprintf(format, arguments);

		(void) fputs(begins[colour], file);
		text_print(file, "%.*s", (int) (strlen(text) - is_line), text);
		(void) fprintf(file, "\033[0m%s", is_line ? "\n" : "");
	} else {
		text_vprint(file, format, arguments);
	}
	va_end(arguments);
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
	message_print(file, COLOUR_RED, "%s:", who);
	(void) fputc(' ', file);
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
