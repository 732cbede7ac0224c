/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/gpu/fm_config.h"

#include <ctype.h>
#include <string.h>

#include "common/fs.h"
#include "common/strv.h"
#include "common/conf.h"

#define FM_CONFIG_MOST 65536

/* The setting in a variable: "FIELD=value"; NULL when it is none of ours. */
static const char *setting_of(const char *variable)
{
	size_t prefix = strlen(FM_VARIABLE_PREFIX);

	return strncmp(variable, FM_VARIABLE_PREFIX, prefix) == 0 ? variable + prefix : NULL;
}

static bool is_sound(const char *setting)
{
	size_t length = strcspn(setting, "=");

	if (!length || setting[length] != '=' || strchr(setting, '\n'))
		return false;
	for (size_t i = 0; i < length; i++)
		if (!isalnum((unsigned char) setting[i]) && setting[i] != '_')
			return false;
	return true;
}

static bool sets_same_field(const char *line, const char *setting)
{
	size_t length = strcspn(setting, "=") + 1;

	return strncmp(line, setting, length) == 0;
}

/* Puts a setting in the place of the lines of its field, or behind all. */
static int put(struct strv *lines, const char *setting)
{
	bool placed = false;

	for (size_t i = 0; i < lines->count; i++) {
		char *line;

		if (!sets_same_field(lines->items[i], setting))
			continue;
		line = strdup(setting);
		if (!line)
			return -ENOMEM;
		free(lines->items[i]);
		lines->items[i] = line;
		placed = true;
	}
	return placed ? 0 : strv_push(lines, setting);
}

/* strv_split() passes over empty lines, which are to stay. */
static int split_lines(struct strv *lines, const char *text)
{
	int r = 0;

	while (r == 0 && *text) {
		size_t length = strcspn(text, "\n");

		r = strv_pushf(lines, "%.*s", (int) length, text);
		text += length + (text[length] == '\n');
	}
	return r;
}

char *fm_config_merge(
	const char *text, char *const *environment, unsigned *ret_set, unsigned *ret_ignored)
{
	_cleanup_strv_ struct strv lines = { 0 };
	int r = split_lines(&lines, text);

	*ret_set = *ret_ignored = 0;
	for (; r == 0 && *environment; environment++) {
		const char *setting = setting_of(*environment);

		if (setting && is_sound(setting)) {
			r = put(&lines, setting);
			++*ret_set;
		} else if (setting) {
			++*ret_ignored;
		}
	}
	if (r == 0)
		r = strv_push(&lines, ""); /* for the last line's end */
	return r == 0 ? strv_join(&lines, "\n") : NULL;
}

int fm_config_apply(int root_fd, char *const *environment, unsigned *ret_set, unsigned *ret_ignored,
	struct error *error)
{
	_cleanup_free_ char *merged = NULL;
	_cleanup_free_ char *text = NULL;
	int r = fs_read(root_fd, FM_CONFIG, FM_CONFIG_MOST, &text, NULL);

	merged = fm_config_merge(r == 0 ? text : "", environment, ret_set, ret_ignored);
	if (!merged)
		return error_set_errno(error, -ENOMEM, "/" FM_CONFIG);
	if (!*ret_set)
		return 0;
	if (r == 0)
		r = fs_write_atomic(root_fd, FM_CONFIG, merged, strlen(merged), 0644);
	return r < 0 ? error_set_errno(error, r, "/" FM_CONFIG) : 0;
}

void fm_config_value(int root_fd, const char *field, char *value, size_t size)
{
	_cleanup_free_ char *text = NULL;

	value[0] = '\0';
	if (fs_read(root_fd, FM_CONFIG, FM_CONFIG_MOST, &text, NULL) == 0)
		conf_value(text, field, value, size);
}
