/* SPDX-License-Identifier: Apache-2.0 */
/* /proc/modules, and who is who in it. */
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "module/running_parts.h"

static int compare_names(const void *a, const void *b)
{
	const struct loaded *left = a;
	const struct loaded *right = b;

	return strcmp(left->name, right->name);
}

/* "(POE)" at the end of the line: the letters; "+" and "-" say that it comes or goes. */
static char *read_taint(const char *text)
{
	size_t length = *text == '(' ? strcspn(text + 1, ")+-") : 0;

	return strndup(length ? text + 1 : "", length);
}

/*
 * "name size references holders state address taint": Linux kernel/module/procfs.c: m_show();
 * without CONFIG_MODULE_UNLOAD the references are "-".
 */
static int parse_line(char *line, struct loaded *ret)
{
	const char *fields[7] = { "", "", "-", "", "", "", "" };
	size_t count = 0;
	char *field;

	while (count < ARRAY_SIZE(fields) && (field = strsep(&line, " ")))
		fields[count++] = field;
	*ret = (struct loaded){ .name = strdup(fields[0]), .taint = read_taint(fields[6]) };
	ret->facts.references = fields[2][0] == '-' ? -1 : (int) strtol(fields[2], NULL, 10);
	return ret->name && ret->taint ? 0 : -ENOMEM;
}

static int parse_lines(struct running *running, char *text)
{
	size_t capacity = 0;
	char *line;
	int r = 0;

	while (r == 0 && (line = strsep(&text, "\n"))) {
		if (!*line)
			continue;
		if (running->loaded_count == capacity) {
			size_t larger = capacity ? capacity * 2 : 128;
			struct loaded *items =
				reallocarray(running->loaded, larger, sizeof(*items));

			if (!items)
				return -ENOMEM;
			running->loaded = items;
			capacity = larger;
		}
		r = parse_line(line, &running->loaded[running->loaded_count++]);
	}
	return r;
}

bool running_is_gone(const struct running *running, const char *name)
{
	return running->sources.gone && strv_contains(running->sources.gone, name);
}

int running_read_loaded(struct running *running, struct error *error)
{
	_cleanup_free_ char *text = NULL;
	int r = fs_read(running->root_fd, "proc/modules", 0, &text, NULL);

	if (r == 0)
		r = parse_lines(running, text);
	if (r < 0)
		return error_set_errno(error, r, "/proc/modules");
	if (running->loaded_count)
		qsort(running->loaded, running->loaded_count, sizeof(*running->loaded),
			compare_names);
	for (size_t i = 0; i < running->loaded_count; i++) {
		struct loaded *loaded = &running->loaded[i];

		loaded->facts.gone = running_is_gone(running, loaded->name);
		if (!loaded->facts.gone && strchr(loaded->taint, 'P') &&
			strv_push(&running->proprietary, loaded->name) < 0)
			return error_set_errno(error, -ENOMEM, "/proc/modules");
	}
	return 0;
}

struct loaded *running_find_loaded(const struct running *running, const char *name)
{
	/* bsearch() only reads it. */
	const struct loaded wanted = { .name = (char *) (uintptr_t) name };

	return running->loaded_count ? bsearch(&wanted, running->loaded, running->loaded_count,
					       sizeof(wanted), compare_names)
				     : NULL;
}

void running_free_loaded(struct running *running)
{
	for (size_t i = 0; i < running->loaded_count; i++) {
		struct loaded *loaded = &running->loaded[i];

		free(loaded->name);
		free(loaded->taint);
		free(loaded->path);
		strv_free(&loaded->candidates);
		free(loaded->candidate_trees);
		elf_module_close(&loaded->file);
	}
	free(running->loaded);
	free(running->told);
}

const struct running_module *running_loaded(const struct running *running, size_t *ret_count)
{
	*ret_count = running->loaded_count;
	return running->told;
}
