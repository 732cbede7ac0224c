/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/tree/kconfig.h"

#include <ctype.h>
#include <string.h>

#include "common/fs.h"
#include "common/xalloc.h"
#include "module/elf.h"

#define PREFIX "CONFIG_"

struct setting {
	const char *name; /* into the text, without CONFIG_ */
	const char *value;
};

struct kconfig {
	char *text; /* lines and values are cut out of it in place */
	struct setting *settings;
	size_t count;
};

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

/* Returns what is wrong with the line, or NULL. */
static const char *read_line(struct kconfig *config, char *line, size_t size)
{
	char *name = line + strlen(PREFIX);
	char *equals = name;

	while (size > 0 && isspace((unsigned char) line[size - 1]))
		line[--size] = '\0';
	if (size == 0 || line[0] == '#')
		return NULL;
	if (strlen(line) != size)
		return "a NUL byte";
	if (strncmp(line, PREFIX, strlen(PREFIX)) != 0)
		return "it does not start with CONFIG_";
	while (isalnum((unsigned char) *equals) || *equals == '_')
		equals++;
	if (equals == name || *equals != '=')
		return "no CONFIG_NAME=value";
	*equals = '\0';
	if (equals[1] == '"' && !unquote(equals + 1))
		return "a quote is not closed";
	/* A power of two at a time. */
	if ((config->count & (config->count + 1)) == 0)
		config->settings = xreallocarray(
			config->settings, 2 * (config->count + 1), sizeof(*config->settings));
	config->settings[config->count++] = (struct setting){ name, equals + 1 };
	return NULL;
}

/* Sorts by name, settings of the same name in the order of the text. */
static int compare_settings(const void *a, const void *b)
{
	const struct setting *left = a;
	const struct setting *right = b;
	int order = strcmp(left->name, right->name);

	return order ? order : (left->name > right->name) - (left->name < right->name);
}

/* Sorts, and keeps the last of each name. */
static void sort_settings(struct kconfig *config)
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

int kconfig_parse(
	const char *name, const char *text, size_t size, struct kconfig **ret, struct error *error)
{
	_cleanup_(kconfig_free) struct kconfig *config = NULL;
	size_t number = 0, length;

	if (size > KCONFIG_LIMIT_BYTES)
		return error_set(error, -EFBIG,
			"%s: %zu bytes: no kernel configuration is larger than %zu", name, size,
			KCONFIG_LIMIT_BYTES);
	config = xcalloc(1, sizeof(*config));
	config->text = xcalloc(1, size + 1);
	if (size > 0)
		memcpy(config->text, text, size);
	for (size_t offset = 0; offset < size; offset += length + 1) {
		char *line = config->text + offset;
		char *end = memchr(line, '\n', size - offset);
		const char *why;

		length = end ? (size_t) (end - line) : size - offset;
		line[length] = '\0';
		number++;
		why = read_line(config, line, length);
		if (why)
			return error_set(error, -EINVAL,
				"%s: line %zu (offset %zu): %s: not a kernel configuration like "
				".config or /proc/config.gz",
				name, number, offset, why);
	}
	sort_settings(config);
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
	return strcmp(key, ((const struct setting *) member)->name);
}

const char *kconfig_get(const struct kconfig *config, const char *name)
{
	const struct setting *found = NULL;

	if (config->count)
		found = bsearch(name, config->settings, config->count, sizeof(*config->settings),
			compare_name);
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
