/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/role/modprobe_d.h"

#include <string.h>

#include "common/cleanup.h"
#include "common/fs.h"

#define TEXT_LIMIT ((size_t) 1 << 20)

static const char blanks[] = "\t ";

/* A file of the first folder hides those of its name in the others. */
static const char *const folders[] = { "etc/modprobe.d", "run/modprobe.d",
	"usr/local/lib/modprobe.d", "lib/modprobe.d" };

static void underscores(char *text)
{
	for (; (text = strchr(text, '-')); text++)
		*text = '_';
}

static void replace_tabs(char *text)
{
	for (; (text = strchr(text, '\t')); text++)
		*text = ' ';
}

/* "options MODULE TEXT". */
static int take_line(struct modprobe_d *conf, char *line)
{
	char *rest = NULL;
	const char *command = strtok_r(line, blanks, &rest);
	char *module;
	int r;

	if (!command || strcmp(command, "options") != 0)
		return 0;
	module = strtok_r(NULL, blanks, &rest);
	if (!module || !rest || !*rest)
		return 0;
	underscores(module);
	replace_tabs(rest);
	r = strv_push(&conf->modules, module);
	return r < 0 ? r : strv_push(&conf->options, rest);
}

static int take_file(struct modprobe_d *conf, int root_fd, const char *path)
{
	_cleanup_free_ char *text = NULL;
	char *line;
	char *rest;
	int r = 0;

	if (fs_read(root_fd, path, TEXT_LIMIT, &text, NULL) < 0)
		return 0;
	conf->joined = conf->joined || strstr(text, "\\\n");
	rest = text;
	while (r == 0 && (line = strsep(&rest, "\n")))
		r = *line == '#' ? 0 : take_line(conf, line);
	return r;
}

static bool is_conf(const char *name)
{
	const char *dot = strrchr(name, '.');

	return *name != '.' && dot && (strcmp(dot, ".conf") == 0 || strcmp(dot, ".alias") == 0);
}

/* The names in all folders, each once, in their order: that is how they are read. */
static int list_files(int root_fd, struct strv *names)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(folders); i++) {
		_cleanup_strv_ struct strv found = { 0 };

		if (fs_list(root_fd, folders[i], &found) < 0)
			continue;
		for (size_t j = 0; r == 0 && j < found.count; j++)
			if (is_conf(found.items[j]))
				r = strv_push_unique(names, found.items[j]);
	}
	strv_sort(names);
	return r;
}

static int take_first(struct modprobe_d *conf, int root_fd, const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		char path[512];

		(void) snprintf(path, sizeof(path), "%s/%s", folders[i], name);
		if (fs_exists(root_fd, path))
			return take_file(conf, root_fd, path);
	}
	return 0;
}

int modprobe_d_read(int root_fd, struct modprobe_d *ret)
{
	_cleanup_strv_ struct strv names = { 0 };
	struct modprobe_d conf = { .joined = false };
	int r = list_files(root_fd, &names);

	for (size_t i = 0; r == 0 && i < names.count; i++)
		r = take_first(&conf, root_fd, names.items[i]);
	if (r == 0 && fs_read(root_fd, "proc/cmdline", 0, &conf.command_line, NULL) == 0)
		underscores(conf.command_line);
	if (r < 0)
		modprobe_d_free(&conf);
	else
		*ret = conf;
	return r;
}

void modprobe_d_free(struct modprobe_d *conf)
{
	strv_free(&conf->modules);
	strv_free(&conf->options);
	free(conf->command_line);
	*conf = (struct modprobe_d){ .joined = false };
}

/* Also where it only looks so: libkmod knows. */
static bool is_on_command_line(const struct modprobe_d *conf, const char *module)
{
	size_t length = strlen(module);
	const char *place = conf->command_line;

	if (!place)
		return false;
	for (; (place = strstr(place, module)); place += length)
		if (place[length] == '.')
			return true;
	return false;
}

int modprobe_d_options(const struct modprobe_d *conf, const char *module, char **ret)
{
	_cleanup_strv_ struct strv parts = { 0 };

	if (conf->joined || is_on_command_line(conf, module))
		return -EOPNOTSUPP;
	for (size_t i = 0; i < conf->modules.count; i++)
		if (strcmp(conf->modules.items[i], module) == 0 &&
			strv_push(&parts, conf->options.items[i]) < 0)
			return -ENOMEM;
	*ret = strv_join(&parts, " ");
	return *ret ? 0 : -ENOMEM;
}
