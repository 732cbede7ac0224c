/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/message.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/exit_code.h"
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

/* Places beside the installed program, and what stands for them in messages. */
static const struct place {
	const char *name;
	const char *end; /* of what follows the name; NULL: nothing does */
	const char *installed;
} places[] = {
	{ "docs/", ".md", "../share/doc/slipway/docs" },
	{ "scripts/install-packages", NULL, "../share/slipway/scripts/install-packages" },
};

/* NULL: this program is not installed. */
static char *find_installed(const struct place *place)
{
	_cleanup_free_ char *program = realpath("/proc/self/exe", NULL);
	char *slash = program ? strrchr(program, '/') : NULL;
	_cleanup_free_ char *path = NULL;

	if (!slash)
		return NULL;
	*slash = '\0';
	path = xasprintf("%s/%s", program, place->installed);
	return realpath(path, NULL);
}

bool message_is_installed(void)
{
	_cleanup_free_ char *documents = find_installed(&places[0]);

	return documents != NULL;
}

/* How much of @text names a place; 0: none of it. */
static size_t names_place(const struct place *place, const char *text)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz-";
	size_t length = strlen(place->name);
	size_t more = 0;

	if (strncmp(text, place->name, length) != 0)
		return 0;
	if (place->end) {
		more = strspn(text + length, letters);
		if (!more || strncmp(text + length + more, place->end, strlen(place->end)) != 0)
			return 0;
		more += strlen(place->end);
	}
	return length + more;
}

char *message_paths(const char *text)
{
	char *result = xstrdup(text);

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		const struct place *place = &places[i];
		_cleanup_free_ char *installed = NULL;

		for (char *at = result; (at = strstr(at, place->name));) {
			size_t named = names_place(place, at);
			size_t before = (size_t) (at - result);
			size_t rest = strlen(place->name);
			_cleanup_free_ char *old = result;

			if (!installed)
				installed = find_installed(place);
			if (!installed || !named ||
				(before && (at[-1] == '/' || isalnum((unsigned char) at[-1])))) {
				old = NULL;
				at += rest;
				continue;
			}
			result = xasprintf("%.*s%s%s%s", (int) before, old, installed,
				place->end ? "/" : "", at + rest);
			at = result + before + strlen(installed);
		}
	}
	return result;
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
	_cleanup_free_ char *text = message_paths(error->text);
	_cleanup_free_ char *lines = message_paths(error->lines);

	message_print(file, COLOUR_RED, "%s:", who);
	(void) fputc(' ', file);
	print_wrapped(file, text, strlen(text), strlen(who) + 2, INDENT);
	for (const char *line = lines; *line; line += strcspn(line, "\n") + 1) {
		(void) fprintf(file, "%*s", INDENT, "");
		print_wrapped(file, line, strcspn(line, "\n"), INDENT, INDENT + INDENT);
	}
}

char *message_text(const struct error *error)
{
	_cleanup_free_ char *lines = message_paths(error->lines);
	char *text = message_paths(error->text);

	for (const char *line = lines; *line; line += strcspn(line, "\n") + 1) {
		_cleanup_free_ char *before = text;

		text = xasprintf(
			"%s\n%*s%.*s", before, INDENT, "", (int) strcspn(line, "\n"), line);
	}
	return text;
}

static bool lost;
static int lost_error; /* the errno of the first write that failed; 0: not known */

void message_lost(void)
{
	if (!lost)
		lost_error = errno;
	lost = true;
}

int message_flush(void)
{
	errno = 0;
	if (fflush(stdout) != 0 || ferror(stdout))
		message_lost();
	if (!lost)
		return 0;
	return lost_error ? -lost_error : -EIO;
}

void message_start(void)
{
	clearerr(stdout);
	lost = false;
}

int message_end(int code)
{
	if (message_flush() == 0)
		return code;
	message_print(stderr, COLOUR_RED, "slipway: the output could not be written%s%s\n",
		lost_error ? ": " : "", lost_error ? strerror(lost_error) : "");
	message_start();
	if (code != EXIT_CODE_OK)
		return code;
	return lost_error == ENOSPC || lost_error == EDQUOT ? EXIT_CODE_DISK_FULL
							    : EXIT_CODE_OUTPUT;
}
