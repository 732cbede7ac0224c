/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/tree/kconfig.h"

#include <ctype.h>
#include <string.h>

#include "common/fs.h"
#include "module/decompress.h"

static const char prefix[] = "CONFIG_";

#define PREFIX_LENGTH (sizeof(prefix) - 1)

struct setting {
	const char *name; /* into the text, without CONFIG_ */
	const char *value;
	size_t order; /* in the text: of two with one name, the last one counts */
};

struct kconfig {
	char *text; /* lines and values are cut out of it in place */
	struct setting *settings;
	size_t count;
	size_t capacity;
};

struct reader {
	const char *name; /* of the text, for messages */
	struct kconfig *config;
	size_t line_number;
	size_t offset;
};

static int malformed(const struct reader *reader, const char *why, struct error *error)
{
	return error_set(error, -EINVAL,
		"%s: line %zu (offset %zu): %s: a kernel configuration is wanted, as .config or "
		"/proc/config.gz has it",
		reader->name, reader->line_number, reader->offset, why);
}

static int add_setting(struct kconfig *config, const char *name, const char *value)
{
	if (config->count == config->capacity) {
		size_t capacity = config->capacity ? config->capacity * 2 : 1024;
		struct setting *settings =
			reallocarray(config->settings, capacity, sizeof(*settings));

		if (!settings)
			return -ENOMEM;
		config->settings = settings;
		config->capacity = capacity;
	}
	config->settings[config->count] = (struct setting){ name, value, config->count };
	config->count++;
	return 0;
}

/* Takes the quotes off, and the backslashes before quotes and backslashes. False when it is open.
 */
static bool unquote(char *value)
{
	char *to = value;
	const char *from = value + 1;

	while (*from && *from != '"') {
		if (*from == '\\' && from[1])
			from++;
		*to++ = *from++;
	}
	if (from[0] != '"' || from[1] != '\0')
		return false;
	*to = '\0';
	return true;
}

static int read_line(const struct reader *reader, char *line, size_t size, struct error *error)
{
	char *name = line + PREFIX_LENGTH;
	char *equals = name;

	while (size > 0 && isspace((unsigned char) line[size - 1]))
		line[--size] = '\0';
	if (size == 0 || line[0] == '#')
		return 0;
	if (strlen(line) != size)
		return malformed(reader, "a NUL byte", error);
	if (strncmp(line, prefix, PREFIX_LENGTH) != 0)
		return malformed(reader, "it does not start with CONFIG_", error);
	while (isalnum((unsigned char) *equals) || *equals == '_')
		equals++;
	if (equals == name || *equals != '=')
		return malformed(reader, "no CONFIG_NAME=value", error);
	*equals = '\0';
	if (equals[1] == '"' && !unquote(equals + 1))
		return malformed(reader, "a quote is not closed", error);
	return add_setting(reader->config, name, equals + 1) < 0
		       ? error_set_errno(error, -ENOMEM, "%s", reader->name)
		       : 0;
}

static int compare_settings(const void *a, const void *b)
{
	const struct setting *left = a;
	const struct setting *right = b;
	int order = strcmp(left->name, right->name);

	if (order != 0)
		return order;
	return left->order < right->order ? -1 : 1;
}

/* Sorts, and keeps the last of each name. */
static void settle(struct kconfig *config)
{
	size_t kept = 0;

	if (config->count == 0)
		return;
	qsort(config->settings, config->count, sizeof(*config->settings), compare_settings);
	for (size_t i = 0; i < config->count; i++)
		if (i + 1 == config->count ||
			strcmp(config->settings[i].name, config->settings[i + 1].name) != 0)
			config->settings[kept++] = config->settings[i];
	config->count = kept;
}

static int read_lines(struct reader *reader, size_t size, struct error *error)
{
	char *text = reader->config->text;

	while (reader->offset < size) {
		char *line = text + reader->offset;
		char *end = memchr(line, '\n', size - reader->offset);
		size_t length = end ? (size_t) (end - line) : size - reader->offset;
		int r;

		reader->line_number++;
		line[length] = '\0';
		r = read_line(reader, line, length, error);
		if (r < 0)
			return r;
		reader->offset += length + 1;
	}
	return 0;
}

int kconfig_parse(
	const char *name, const char *text, size_t size, struct kconfig **ret, struct error *error)
{
	_cleanup_(kconfig_free) struct kconfig *config = calloc(1, sizeof(*config));
	struct reader reader = { .name = name, .config = config };
	int r;

	if (size > KCONFIG_LIMIT_BYTES)
		return error_set(error, -EFBIG,
			"%s: %zu bytes: no kernel configuration is larger than %zu", name, size,
			KCONFIG_LIMIT_BYTES);
	if (!config)
		return error_set_errno(error, -ENOMEM, "%s", name);
	config->text = malloc(size + 1);
	if (!config->text)
		return error_set_errno(error, -ENOMEM, "%s", name);
	if (size > 0)
		memcpy(config->text, text, size);
	config->text[size] = '\0';
	r = read_lines(&reader, size, error);
	if (r < 0)
		return r;
	settle(config);
	*ret = TAKE_PTR(config);
	return 0;
}

int kconfig_read(int dir_fd, const char *path, struct kconfig **ret, struct error *error)
{
	_cleanup_free_ char *data = NULL;
	_cleanup_free_ char *text = NULL;
	enum decompress_format format;
	size_t size;
	int r = fs_read(dir_fd, path, KCONFIG_LIMIT_BYTES, &data, &size);

	if (r == -EFBIG)
		return error_set(error, r, "%s: no kernel configuration is larger than %zu bytes",
			path, KCONFIG_LIMIT_BYTES);
	if (r < 0)
		return error_set_errno(error, r, "%s", path);
	format = decompress_detect(data, size);
	if (format == DECOMPRESS_NONE)
		return kconfig_parse(path, data, size, ret, error);
	r = decompress(format, data, size, KCONFIG_LIMIT_BYTES, &text, &size, error);
	if (r < 0)
		return error_prefix(error, r, "%s", path);
	return kconfig_parse(path, text, size, ret, error);
}

void kconfig_free(struct kconfig **config)
{
	if (!*config)
		return;
	free((*config)->text);
	free((*config)->settings);
	free(*config);
	*config = NULL;
}

size_t kconfig_count(const struct kconfig *config)
{
	return config->count;
}

static int compare_name(const void *key, const void *member)
{
	const struct setting *setting = member;

	return strcmp(key, setting->name);
}

const char *kconfig_get(const struct kconfig *config, const char *name)
{
	const struct setting *found = config->count == 0
					      ? NULL
					      : bsearch(name, config->settings, config->count,
							sizeof(*config->settings), compare_name);

	return found ? found->value : NULL;
}

char kconfig_tristate(const struct kconfig *config, const char *name)
{
	const char *value = kconfig_get(config, name);

	return value && (strcmp(value, "y") == 0 || strcmp(value, "m") == 0) ? value[0] : 'n';
}

unsigned long kconfig_number(const struct kconfig *config, const char *name)
{
	const char *value = kconfig_get(config, name);
	unsigned long number;
	char *end;

	if (!value || !isdigit((unsigned char) *value))
		return 0;
	errno = 0;
	number = strtoul(value, &end, 0);
	return errno || *end ? 0 : number;
}
