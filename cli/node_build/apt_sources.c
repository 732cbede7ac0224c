/* SPDX-License-Identifier: Apache-2.0 */
/* The repositories of a root's /etc/apt: sources.list(5), both formats. */
#include "cli/node_build/node_build_internal.h"

#include <string.h>
#include <strings.h>

#include "common/arch.h"
#include "common/fs.h"
#include "common/path.h"
#include "common/xalloc.h"

#define SOURCES     "etc/apt/sources.list"
#define PARTS       "etc/apt/sources.list.d"
#define LIST_PREFIX "mirror+file:"
#define BLANKS      " \t\r\n"
/* In a URI or suite. */
#define ARCHITECTURE "$(ARCH)"

/* One line, or one stanza. */
struct source {
	struct strv types, uris, suites, components, architectures;
	char *signed_by; /* files, or a key itself; or NULL */
	bool disabled;
	bool trusted;
};

static void source_free(struct source *source)
{
	strv_free(&source->types);
	strv_free(&source->uris);
	strv_free(&source->suites);
	strv_free(&source->components);
	strv_free(&source->architectures);
	free(source->signed_by);
}

/* ---- what is made of a source */

/* The file with the keys that may sign it; NULL: it was skipped. The caller frees it. */
static char *keyring_of(const struct sources_writer *writer, const struct source *source)
{
	const struct sources_request *request = writer->request;
	_cleanup_free_ char *keys = NULL;
	const char *file = source->signed_by;
	_cleanup_free_ char *why = NULL;
	size_t size;
	int r;

	if (!file)
		return xstrdup(request->keyrings);
	if (strstr(file, "BEGIN PGP")) {
		keys = xstrdup(file);
		size = strlen(keys);
	} else {
		if (*file != '/' || file[strcspn(file, "," BLANKS)]) {
			sources_skip(writer, source->uris.items[0],
				"its Signed-By is neither a single file nor a key");
			return NULL;
		}
		r = read_in_root(request->root_fd, file + 1, &keys, &size);
		if (r < 0) {
			why = xasprintf("its Signed-By %.200s: %s", file, error_cause(r));
			sources_skip(writer, source->uris.items[0], why);
			return NULL;
		}
	}
	return sources_keep(writer, "key", keys, size);
}

/* The first URL of the file that Debian's cloud images have, or a copy of @uri. */
static char *url_of(const struct sources_writer *writer, const char *uri)
{
	_cleanup_free_ char *text = NULL;
	_cleanup_strv_ struct strv words = { 0 };
	const char *path = uri + strlen(LIST_PREFIX);

	if (strncmp(uri, LIST_PREFIX, strlen(LIST_PREFIX)) != 0)
		return xstrdup(uri);
	if (read_in_root(writer->request->root_fd, path + strspn(path, "/"), &text, NULL) < 0)
		return xstrdup(uri);
	xstrv_split(&words, text, BLANKS);
	for (size_t i = 0; i < words.count; i++)
		if (strncmp(words.items[i], "http", 4) == 0)
			return xstrdup(words.items[i]);
	return xstrdup(uri);
}

static void add_repository(struct sources_writer *writer, const char *url, const char *suite,
	const char *components, const char *keyring)
{
	_cleanup_free_ char *lines = NULL;
	_cleanup_free_ char *mirror_lines = NULL;
	const char *why = NULL;

	if (strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0)
		why = "neither http nor https";
	else if (suite[strlen(suite) - 1] == '/' || !*components)
		why = "a repository without components";
	else if (strchr(url, '{') || strpbrk(suite, "{;#") || strpbrk(components, "{;#") ||
		 strlen(url) > SOURCES_VALUE_LIMIT || strlen(components) > SOURCES_VALUE_LIMIT ||
		 strlen(suite) > SOURCES_VALUE_LIMIT)
		why = "its name is too long or has an invalid character";
	if (why) {
		sources_skip(writer, url, why);
		return;
	}
	lines = xasprintf("suite = %s\ncomponents = %s\n", suite, components);
	mirror_lines = xasprintf("url = %s\n", url);
	sources_add(writer, "apt", lines, keyring, mirror_lines);
}

/* The caller frees it. */
static char *with_architecture(const char *text, const char *architecture)
{
	char *made = xstrdup(text);
	char *found;

	while ((found = strstr(made, ARCHITECTURE))) {
		char *before = made;

		made = xasprintf("%.*s%s%s", (int) (found - before), before, architecture,
			found + strlen(ARCHITECTURE));
		free(before);
	}
	return made;
}

static void add_source(struct sources_writer *writer, const struct source *source)
{
	_cleanup_free_ char *components = xstrv_join(&source->components, " ");
	_cleanup_free_ char *keyring = NULL;
	const char *architecture = arch_here()->debian;

	if (source->disabled || !strv_contains(&source->types, "deb") || !source->uris.count)
		return;
	if (source->architectures.count && !strv_contains(&source->architectures, architecture))
		return;
	keyring = keyring_of(writer, source);
	if (!keyring)
		return;
	if (source->trusted)
		sources_note(writer, "trusted=yes is ignored: signatures are always checked");
	for (size_t i = 0; i < source->uris.count; i++) {
		_cleanup_free_ char *uri = with_architecture(source->uris.items[i], architecture);
		_cleanup_free_ char *url = url_of(writer, uri);

		for (size_t j = 0; j < source->suites.count; j++) {
			_cleanup_free_ char *suite =
				with_architecture(source->suites.items[j], architecture);

			add_repository(writer, url, suite, components, keyring);
		}
	}
}

/* ---- the two formats */

/* As apt has it. */
static bool is_no(const char *value)
{
	static const char *const words[] = { "no", "false", "without", "off", "disable", "0" };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strcasecmp(value, words[i]) == 0)
			return true;
	return false;
}

/* Takes a field of a stanza, or an option of a line, such as "arch". */
static void take_field(struct source *source, const char *name, const char *value)
{
	const struct {
		const char *name;
		struct strv *list;
	} lists[] = {
		{ "Types", &source->types },
		{ "URIs", &source->uris },
		{ "Suites", &source->suites },
		{ "Components", &source->components },
		{ "Architectures", &source->architectures },
	};

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		if (strcasecmp(name, lists[i].name) == 0)
			xstrv_split(lists[i].list, value, BLANKS);
	if (strcmp(name, "arch") == 0)
		xstrv_split(&source->architectures, value, ",");
	else if (strcasecmp(name, "Signed-By") == 0 && !source->signed_by)
		source->signed_by = xstrdup(value);
	else if (strcasecmp(name, "Enabled") == 0)
		source->disabled = is_no(value);
	else if (strcasecmp(name, "Trusted") == 0)
		source->trusted = strcasecmp(value, "yes") == 0;
}

/* deb [arch=amd64 signed-by=/x.gpg] https://… bookworm main contrib */
static void read_line(struct sources_writer *writer, char *line)
{
	_cleanup_(source_free) struct source source = { 0 };
	_cleanup_strv_ struct strv options = { 0 };
	_cleanup_strv_ struct strv words = { 0 };
	char *open, *close;

	line[strcspn(line, "#")] = '\0';
	/* After the type: a URL has brackets around an IPv6 address. */
	open = line + strspn(line, BLANKS);
	open += strcspn(open, BLANKS);
	open += strspn(open, BLANKS);
	close = *open == '[' ? strchr(open, ']') : NULL;
	if (close) {
		*close = '\0';
		xstrv_split(&options, open + 1, BLANKS);
		memset(open, ' ', (size_t) (close - open) + 1);
	}
	for (size_t i = 0; i < options.count; i++) {
		char *sign = strchr(options.items[i], '=');

		if (!sign)
			continue;
		*sign = '\0';
		take_field(&source, options.items[i], sign + 1);
	}
	xstrv_split(&words, line, BLANKS);
	if (words.count < 3)
		return;
	xstrv_push(&source.types, words.items[0]);
	xstrv_push(&source.uris, words.items[1]);
	xstrv_push(&source.suites, words.items[2]);
	for (size_t i = 3; i < words.count; i++)
		xstrv_push(&source.components, words.items[i]);
	add_source(writer, &source);
}

/* Fields of a stanza as deb822(5) has them: a line that begins with a blank goes on. */
static void read_stanza(struct sources_writer *writer, const struct strv *lines)
{
	_cleanup_(source_free) struct source source = { 0 };

	for (size_t i = 0; i < lines->count;) {
		_cleanup_strv_ struct strv value = { 0 };
		_cleanup_free_ char *text = NULL;
		char *line = lines->items[i++];
		char *colon = strchr(line, ':');

		if (!colon)
			continue;
		*colon = '\0';
		colon += 1 + strspn(colon + 1, BLANKS);
		if (*colon)
			xstrv_push(&value, colon);
		/* " ." stands for an empty line, which a key has after its headers. */
		for (; i < lines->count && *lines->items[i] == ' '; i++)
			xstrv_push(&value,
				strcmp(lines->items[i], " .") == 0 ? "" : lines->items[i] + 1);
		text = xstrv_join(&value, "\n");
		take_field(&source, line, text);
	}
	add_source(writer, &source);
}

static void read_text(struct sources_writer *writer, char *text, bool deb822)
{
	_cleanup_strv_ struct strv stanza = { 0 };
	char *line, *next = text;

	while ((line = strsep(&next, "\n"))) {
		size_t length = strlen(line);

		while (length && strchr(" \t\r", line[length - 1]))
			line[--length] = '\0';
		if (!deb822) {
			read_line(writer, line);
		} else if (!*line) {
			read_stanza(writer, &stanza);
			strv_free(&stanza);
		} else if (*line != '#') {
			if (*line == '\t')
				*line = ' ';
			xstrv_push(&stanza, line);
		}
	}
	read_stanza(writer, &stanza);
}

static void read_file(struct sources_writer *writer, const char *path, bool deb822)
{
	_cleanup_free_ char *text = NULL;
	int r = read_in_root(writer->request->root_fd, path, &text, NULL);

	writer->file = path;
	if (r == 0)
		read_text(writer, text, deb822);
	else if (r != -ENOENT)
		node_build_note(writer->request->build, "%s/%s cannot be read: %s",
			writer->request->prefix, path, error_cause(r));
}

void apt_sources_read(struct sources_writer *writer, const struct sources_kind *kind)
{
	int root_fd = writer->request->root_fd;
	_cleanup_strv_ struct strv names = { 0 };
	_cleanup_free_ char *parts = NULL;

	(void) kind;
	read_file(writer, SOURCES, false);
	if (chase(root_fd, PARTS, &parts) == 0)
		(void) !fs_list(root_fd, parts, &names);
	for (size_t i = 0; i < names.count; i++) {
		_cleanup_free_ char *path = xasprintf(PARTS "/%s", names.items[i]);

		if (str_ends_with(path, ".list") || str_ends_with(path, ".sources"))
			read_file(writer, path, str_ends_with(path, ".sources"));
	}
}
