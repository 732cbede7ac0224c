/* SPDX-License-Identifier: Apache-2.0 */
#include "common/buildlog.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "common/strv.h"
#include "common/xalloc.h"

#define STEP_MARK "==> "
#define HINT_MARK "try: "
#define MISSING   "the build container lacks the program "
#define NO_SPACE  "No space left on device"
#define KILLED    "Killed signal terminated program"

enum kind {
	KIND_NONE,
	KIND_END,     /* "Error: exit status 1": Buildah's exit message, whatever went before */
	KIND_MAKE,    /* "make: *** …": says where, rarely why: the last resort */
	KIND_MISSING, /* "make: g++: No such file or directory": a program that is not there */
	KIND_RECIPE,  /* "ofed.sh: …" in the words of the script */
	KIND_ERROR,   /* the compiler's, linker's or modpost's own words */
};

static bool starts_with(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* "nvidia/nv-pci.c:195:13: error: …", "…: fatal error: …"; the place is optional ("ld: error: …").
 */
static bool is_compiler_error(const char *line)
{
	const char *mark = strstr(line, "error: ");

	if (!mark)
		return false;
	return (mark >= line + 2 && strncmp(mark - 2, ": ", 2) == 0) ||
	       (mark >= line + 8 && strncmp(mark - 8, ": fatal ", 8) == 0);
}

static bool is_recipe_error(const char *line)
{
	const char *colon = strstr(line, ".sh: ");

	for (const char *c = line; colon && c < colon; c++)
		if (isspace((unsigned char) *c))
			return false;
	return colon || starts_with(line, "configure: ");
}

/*
 * The program that make or a shell did not find: "make[2]: g++: No such file or directory",
 * "/bin/sh: 1: bison: not found", "bash: line 1: bc: command not found". NULL for other lines.
 */
static char *missing_program(const char *line)
{
	const char *end = strstr(
		line, starts_with(line, "make") ? ": No such file or directory" : "not found");
	const char *name;

	if (!end)
		return NULL;
	if (*end == 'n') /* with or without "command" before it */
		end = memrchr(line, ':', (size_t) (end - line));
	name = end ? memrchr(line, ' ', (size_t) (end - line)) : NULL;
	if (!name || name == line || name[-1] != ':' || name + 1 == end)
		return NULL;
	/* make says the same of a missing makefile: "make[1]: scripts/Makefile.build: …". */
	if (memchr(name, '/', (size_t) (end - name)) || strncmp(name, " Makefile", 9) == 0)
		return NULL;
	return xstrndup(name + 1, (size_t) (end - name - 1));
}

static enum kind kind_of(const char *line)
{
	_cleanup_free_ char *program = missing_program(line);

	if (starts_with(line, "Error: exit status "))
		return KIND_END;
	if (is_compiler_error(line) || strcasestr(line, NO_SPACE) ||
		starts_with(line, "ERROR: modpost:") || strstr(line, "undefined reference to") ||
		strstr(line, "Error: ") || strstr(line, "internal compiler error") ||
		starts_with(line, "Cannot create "))
		return KIND_ERROR;
	if (is_recipe_error(line))
		return KIND_RECIPE;
	if (program)
		return KIND_MISSING;
	if (starts_with(line, "make") && strstr(line, "*** "))
		return KIND_MAKE;
	return KIND_NONE;
}

/* The first line of the strongest kind in a range of lines, or SIZE_MAX. */
static size_t find_error(const struct strv *lines, size_t from, size_t to)
{
	size_t best = SIZE_MAX;
	enum kind strongest = KIND_NONE;

	for (size_t i = from; i < to; i++) {
		enum kind kind = kind_of(lines->items[i]);

		if (kind > strongest) {
			strongest = kind;
			best = i;
		}
	}
	return best;
}

/* The line before @to at which a step begins, or SIZE_MAX. */
static size_t find_step(const struct strv *lines, size_t to)
{
	while (to-- > 0)
		if (starts_with(lines->items[to], STEP_MARK))
			return to;
	return SIZE_MAX;
}

/* "make[2]: *** [scripts/Makefile.build:255: drivers/a.o] Error 1": "drivers/a.o". */
static char *failed_target(const struct strv *lines, size_t from)
{
	const char *line, *end, *name;

	for (size_t i = from; i < lines->count; i++) {
		line = lines->items[i];
		if (!starts_with(line, "make") || !strstr(line, "*** ["))
			continue;
		end = strstr(line, "] Error ");
		name = end ? memrchr(line, ' ', (size_t) (end - line)) : NULL;
		return name ? xstrndup(name + 1, (size_t) (end - name - 1)) : NULL;
	}
	return NULL;
}

int buildlog_first_error(const char *text, struct buildlog_error *ret)
{
	_cleanup_strv_ struct strv lines = { 0 };
	_cleanup_free_ char *program = NULL;
	_cleanup_free_ char *target = NULL;
	const char *line, *colon, *mark;
	size_t step, at;

	xstrv_split(&lines, text, "\n");
	step = find_step(&lines, lines.count);
	if (step == SIZE_MAX)
		step = 0;
	at = find_error(&lines, step, lines.count);
	if (at == SIZE_MAX)
		at = find_error(&lines, 0, step);
	if (at == SIZE_MAX)
		return -ENODATA;
	*ret = (struct buildlog_error){ 0 };
	/* "file:line:column: error: message" */
	line = lines.items[at];
	colon = strchr(line, ':');
	mark = strstr(line, "error: ");
	if (colon && mark && isdigit((unsigned char) colon[1]))
		ret->line = strtoul(colon + 1, NULL, 10);
	if (ret->line)
		ret->file = xstrndup(line, (size_t) (colon - line));
	program = kind_of(line) == KIND_MISSING ? missing_program(line) : NULL;
	/* The compiler does not say what it was at. */
	target = strstr(line, KILLED) ? failed_target(&lines, at) : NULL;
	if (program)
		ret->message = xasprintf(MISSING "%s", program);
	else if (target)
		ret->message = xasprintf("%s, making %s", line, target);
	else
		ret->message = xstrdup(ret->line ? mark + strlen("error: ") : line);
	step = find_step(&lines, at + 1);
	if (step != SIZE_MAX)
		ret->step = xstrdup(lines.items[step] + strlen(STEP_MARK));
	for (size_t i = at + 1; i < lines.count && !ret->hint; i++)
		if (starts_with(lines.items[i], HINT_MARK))
			ret->hint = xstrdup(lines.items[i] + strlen(HINT_MARK));
	return 0;
}

void buildlog_error_free(struct buildlog_error *found)
{
	free(found->file);
	free(found->message);
	free(found->step);
	free(found->hint);
	*found = (struct buildlog_error){ 0 };
}

int buildlog_error_number(const struct buildlog_error *found)
{
	if (strcasestr(found->message, NO_SPACE))
		return -ENOSPC;
	return strstr(found->message, KILLED) ? -ENOMEM : -EIO;
}

bool buildlog_says_killed(const char *text)
{
	return strstr(text, "\nsubprocess exited on killed\n") != NULL;
}

const char *buildlog_compiled(const char *line)
{
	static const char *const commands[] = { "CC", "CXX", "AS" };
	bool own = false;

	line += strspn(line, " ");
	/* NVIDIA's src/ has its own: " [ nvidia-modeset    ]  CC           ../common/x.c". */
	if (*line == '[' && strstr(line, "] ")) {
		own = true;
		line = strstr(line, "] ") + 1;
		line += strspn(line, " ");
	}
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		size_t length = strlen(commands[i]);
		const char *file;

		if (strncmp(line, commands[i], length) != 0 || line[length] != ' ')
			continue;
		file = line + length + strspn(line + length, " ");
		if (!own && !starts_with(file, "[M]"))
			return NULL;
		file += own ? 0 : 3;
		file += strspn(file, " ");
		return *file && *file != '\n' ? file : NULL;
	}
	return NULL;
}

size_t buildlog_count_compiled(const char *text)
{
	size_t count = 0;

	for (const char *line = text; line && *line;) {
		const char *end = strchr(line, '\n');

		count += buildlog_compiled(line) != NULL;
		line = end ? end + 1 : NULL;
	}
	return count;
}

const char *buildlog_hint(const struct buildlog_error *found)
{
	static const struct {
		const char *mark;
		const char *hint;
		bool of_kernel; /* the source and the kernel do not go together */
	} hints[] = {
		{ .mark = KILLED, .hint = "a smaller --jobs, or more memory" },
		{ .mark = "internal compiler error",
			.hint = "the compiler was probably killed because memory ran out: "
				"try a smaller --jobs" },
		{ .mark = MISSING,
			.hint = "add its package to [root] of the distribution's "
				"kernels/catalogue/*.ini; for a build on a node build the image "
				"again, too" },
		{ .mark = "Killed",
			.hint = "the compiler was probably killed because memory ran out: "
				"try a smaller --jobs" },
		{ .mark = NO_SPACE,
			.hint = "free some disk space (the cache and the container storage)" },
		{ .mark = "modpost",
			.hint = "neither this kernel nor the OFED exports the symbol: try a driver "
				"release made for this kernel",
			.of_kernel = true },
		{ .mark = "No such file or directory",
			.hint = "the source expects a header that this kernel does not have: try a "
				"newer driver release",
			.of_kernel = true },
		{ .mark = "unrecognized command-line option",
			.hint = "the compiler is not the one that built the kernel: see the first "
				"lines of the log" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(hints); i++)
		if (strcasestr(found->message, hints[i].mark))
			return hints[i].of_kernel && found->hint ? found->hint : hints[i].hint;
	if (is_recipe_error(found->message))
		return NULL;
	if (found->hint)
		return found->hint;
	return "the source does not support this kernel: try a newer driver release or an older "
	       "kernel, or add a patch with its condition under containers/patches/";
}
