/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/repo/yum_repo.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "common/xalloc.h"

#define BLANKS " \t\r"

static const char *const names[YUM_KEY_COUNT] = {
	[YUM_BASEURL] = "baseurl",
	[YUM_MIRRORLIST] = "mirrorlist",
	[YUM_METALINK] = "metalink",
	[YUM_GPGKEY] = "gpgkey",
	[YUM_ENABLED] = "enabled",
	[YUM_GPGCHECK] = "gpgcheck",
	[YUM_REPO_GPGCHECK] = "repo_gpgcheck",
	[YUM_SSLVERIFY] = "sslverify",
	[YUM_SSLCACERT] = "sslcacert",
	[YUM_SSLCLIENTCERT] = "sslclientcert",
	[YUM_SSLCLIENTKEY] = "sslclientkey",
	[YUM_USERNAME] = "username",
	[YUM_PASSWORD] = "password",
};

/* ---- sections */

struct reader {
	yum_repo_handler on_repo;
	void *context;
	struct yum_repo repo; /* the section that is read; without an id: none */
	enum yum_key key;     /* the option that is read; YUM_KEY_COUNT: none */
	struct strv lines;    /* of its value */
};

static void end_option(struct reader *reader)
{
	if (reader->key < YUM_KEY_COUNT) {
		free(reader->repo.values[reader->key]);
		reader->repo.values[reader->key] = xstrv_join(&reader->lines, "\n");
	}
	strv_free(&reader->lines);
	reader->key = YUM_KEY_COUNT;
}

static void end_section(struct reader *reader)
{
	struct yum_repo *repo = &reader->repo;

	end_option(reader);
	if (repo->id && strcmp(repo->id, "main") != 0)
		reader->on_repo(reader->context, repo);
	for (size_t i = 0; i < YUM_KEY_COUNT; i++)
		free(repo->values[i]);
	free(repo->id);
	*repo = (struct yum_repo){ 0 };
}

static void start_section(struct reader *reader, const char *line)
{
	const char *close = strchr(line, ']');

	end_section(reader);
	if (close && close > line + 1)
		reader->repo.id = xstrndup(line + 1, (size_t) (close - line) - 1);
}

static enum yum_key key_of(const char *name, size_t length)
{
	enum yum_key key = 0;

	while (key < YUM_KEY_COUNT &&
		(strlen(names[key]) != length || strncmp(names[key], name, length) != 0))
		key++;
	return key;
}

static void start_option(struct reader *reader, const char *line)
{
	const char *sign = strchr(line, '=');
	size_t length = sign ? (size_t) (sign - line) : 0;

	end_option(reader);
	while (length && strchr(BLANKS, line[length - 1]))
		length--;
	if (!length || !reader->repo.id)
		return;
	reader->key = key_of(line, length);
	if (reader->key < YUM_KEY_COUNT)
		xstrv_push(&reader->lines, sign + 1 + strspn(sign + 1, BLANKS));
}

static void read_line(struct reader *reader, const char *line)
{
	if (!*line || *line == '#' || *line == ';')
		return;
	if (*line == '[') {
		start_section(reader, line);
	} else if (!strchr(BLANKS, *line)) {
		start_option(reader, line);
	} else if (reader->key < YUM_KEY_COUNT) {
		xstrv_push(&reader->lines, line + strspn(line, BLANKS));
	}
}

void yum_repo_parse(const char *text, yum_repo_handler on_repo, void *context)
{
	struct reader reader = { .on_repo = on_repo, .context = context, .key = YUM_KEY_COUNT };
	_cleanup_free_ char *copy = xstrdup(text);
	char *line, *next = copy;

	while ((line = strsep(&next, "\n"))) {
		size_t length = strlen(line);

		while (length && strchr(BLANKS, line[length - 1]))
			line[--length] = '\0';
		read_line(&reader, line);
	}
	end_section(&reader);
}

bool yum_repo_flag(const struct yum_repo *repo, enum yum_key key, bool otherwise)
{
	static const char *const words[2][4] = { { "0", "no", "false", "off" },
		{ "1", "yes", "true", "on" } };

	for (size_t i = 0; repo->values[key] && i < 2 * ARRAY_SIZE(words[0]); i++)
		if (strcasecmp(repo->values[key], words[i % 2][i / 2]) == 0)
			return i % 2;
	return otherwise;
}

/* ---- variables */

static bool is_name(char c)
{
	return isalnum((unsigned char) c) || c == '_';
}

/* The value of the variable that @text begins with, borrowed, and how long its name is there. */
static const char *variable_at(const char *text, const struct strv *variables, size_t *ret_length)
{
	bool braces = text[0] == '$' && text[1] == '{';
	const char *name = text + (braces ? 2 : 1);
	size_t length = 0;

	if (*text != '$')
		return NULL;
	while (is_name(name[length]))
		length++;
	if (!length || (braces && name[length] != '}'))
		return NULL;
	*ret_length = (size_t) (name - text) + length + braces;
	for (size_t i = 0; i < variables->count; i++) {
		const char *variable = variables->items[i];

		if (strncasecmp(variable, name, length) == 0 && variable[length] == '=')
			return variable + length + 1;
	}
	return NULL;
}

char *yum_expand(const char *text, const struct strv *variables)
{
	char made[YUM_EXPANDED_LIMIT + 1];
	size_t size = 0;

	while (*text) {
		size_t length = 0;
		const char *value = variable_at(text, variables, &length);
		const char *from = value ? value : text;
		size_t added = value ? strlen(value) : 1;

		if (added > YUM_EXPANDED_LIMIT - size)
			return NULL;
		while (added--)
			made[size++] = *from++;
		text += value ? length : 1;
	}
	return xstrndup(made, size);
}
