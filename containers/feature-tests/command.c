/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "common.h"

static const char *next_string(const char **at, const char *end)
{
	const char *text = *at;
	const char *nul = text < end ? memchr(text, '\0', (size_t) (end - text)) : NULL;

	if (!nul)
		fail("a captured command is damaged");
	*at = nul + 1;
	return text;
}

/* Debugging information costs more than half of the rest; it does not change what compiles. */
static bool is_dropped(const char *word)
{
	return strcmp(word, "-c") == 0 || starts_with(word, "-Wp,-M") || starts_with(word, "-g");
}

bool command_load(struct command *command, const char *folder)
{
	char *path = text_of("%s/%s/command", folder, command->key);
	size_t size = 0;
	char *text = read_file(path, &size);
	const char *at = text;
	const char *end;
	size_t count;
	size_t kept = 0;

	free(path);
	if (!text)
		return false;
	end = text + size;
	command->folder = copy_of(next_string(&at, end));
	command->tail = copy_of(next_string(&at, end));
	command->cwd = copy_of(next_string(&at, end));
	count = strtoul(next_string(&at, end), NULL, 10);
	command->argv = allocate(count, sizeof(char *));
	for (size_t i = 0; i < count; i++) {
		const char *word = next_string(&at, end);

		if (strcmp(word, "-o") == 0 && i + 1 < count) {
			(void) next_string(&at, end);
			i++;
		} else if (!is_dropped(word) && (i == 0 || !strstr(word, "conftest.c"))) {
			command->argv[kept++] = copy_of(word);
		}
	}
	command->environment = allocate(size, sizeof(char *));
	for (size_t i = 0; at < end; i++)
		command->environment[i] = copy_of(next_string(&at, end));
	free(text);
	command->known = true;
	return true;
}

void compiler_main(char **argv)
{
	const char *name = strrchr(argv[0], '/');
	char *capture = copy_of(getenv(ENV_CAPTURE));
	bool compiles = false;
	bool is_test = false;
	unsigned int count = 0;
	char *own;

	for (; argv[count]; count++) {
		const char *slash = strrchr(argv[count], '/');

		compiles = compiles || strcmp(argv[count], "-c") == 0;
		is_test = is_test || strcmp(slash ? slash + 1 : argv[count], "conftest.c") == 0;
	}
	own = copy_of(name ? name + 1 : argv[0]);
	argv[0] = own;
	forget_server();
	if (compiles && is_test) {
		FILE *file = fopen(capture, "we");
		char *cwd = getcwd(NULL, 0);

		if (!file || !cwd)
			fail("%s: %s", capture, strerror(errno));
		(void) fprintf(file, "%s%c%u%c", cwd, 0, count, 0);
		for (unsigned int i = 0; i < count; i++)
			(void) fprintf(file, "%s%c", argv[i], 0);
		for (char **variable = environ; *variable; variable++)
			(void) fprintf(file, "%s%c", *variable, 0);
		if (fclose(file) != 0)
			(void) unlink(capture);
	}
	(void) execvp(own, argv);
	fail("%s: %s", own, strerror(errno));
}
