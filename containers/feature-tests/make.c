/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "command.h"
#include "common.h"
#include "make.h"

struct client {
	char **argv;
	int count;
	const char *test;   /* the folder of the test (M=) */
	const char *name;   /* of the compiler (CC=) */
	const char *folder; /* the server's */
	char *object;
	char key[17];
	int server;
};

static __attribute__((noreturn)) void exec_make(char **argv)
{
	forget_server();
	argv[0] = "make";
	(void) execvp("make", argv);
	(void) fprintf(stderr, "make: %s\n", strerror(errno));
	exit(127);
}

/* These differ between two tests that are one command. */
static bool is_incidental(const char *variable)
{
	return starts_with(variable, "_=") || starts_with(variable, "OLDPWD=") ||
	       starts_with(variable, "SHLVL=");
}

/* Is it one test of a kernel's feature, of OFED's shape? Fills @client in. */
static bool is_test(struct client *client)
{
	const char *makefile = NULL;
	const char *kernel = NULL;
	bool modules = false;
	uint64_t hash = HASH_START;
	char *expected;
	bool is;

	for (int i = 1; i < client->count; i++) {
		const char *word = client->argv[i];
		const char *next = client->argv[i + 1];

		if (starts_with(word, "M=")) {
			client->test = word + 2;
			continue;
		}
		if (starts_with(word, "CC="))
			client->name = word + 3;
		else if (starts_with(word, "MLNX_KERNEL_TEST="))
			return false;
		else if (strcmp(word, "modules") == 0)
			modules = true;
		else if (strcmp(word, "-C") == 0)
			kernel = next;
		if (strcmp(word, "-f") == 0) {
			makefile = next;
			i++;
			continue;
		}
		hash = hash_text(hash, word);
	}
	if (!modules || !kernel || *kernel != '/' || !makefile || !client->test ||
		*client->test != '/' || !client->name || !*client->name ||
		strpbrk(client->name, " /"))
		return false;
	expected = text_of("%s/Makefile", client->test);
	is = strcmp(makefile, expected) == 0;
	free(expected);
	for (char **variable = environ; *variable; variable++)
		if (!is_incidental(*variable))
			hash = hash_text(hash, *variable);
	(void) snprintf(client->key, sizeof(client->key), "%016llx", (unsigned long long) hash);
	client->object = text_of("%s/conftest.o", client->test);
	return is;
}

static int dial(const char *folder)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	(void) snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket", folder);
	if (fd >= 0 && connect(fd, (struct sockaddr *) &address, sizeof(address)) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

/* An answer is whether conftest.o is there, and what was said: configure looks for warnings. */
struct answer {
	bool object;
	char *said;
};

/* By the real make, whose messages are passed on. */
static int ask_make(const struct client *client, struct answer *ret)
{
	char *said = text_of("%s/%d.make", client->folder, (int) getpid());
	size_t size = 0;
	int status;

	client->argv[0] = "make";
	status = run(client->argv, NULL, environ, said);
	ret->said = read_file(said, &size);
	(void) unlink(said);
	free(said);
	if (ret->said)
		(void) write_fd(STDERR_FILENO, ret->said, size);
	ret->object = has_content(client->object);
	return status;
}

/*
 * Finds what follows the compiler in the shell's line that kbuild ran and noted; "": nothing. NULL
 * where that is not as it is known.
 */
static char *find_tail(const struct client *client)
{
	char *path = text_of("%s/.conftest.o.cmd", client->test);
	char *text = read_file(path, NULL);
	char *found = NULL;
	char *next = text;

	free(path);
	if (!text)
		return NULL;
	text[strcspn(text, "\n")] = '\0';
	while ((next = strstr(next, "/conftest.c")) != NULL)
		found = next += strlen("/conftest.c");
	if (!found)
		return NULL;
	found += strspn(found, " ");
	if (!*found)
		return found;
	/* Words that kbuild has quoted for make would have to be unquoted. */
	if (*found != ';' || strpbrk(found, "$#\\'\"") || !strstr(found, client->object))
		return NULL;
	return found + 1;
}

/* Runs the test by the real make, and leaves the command's file if it can be known from it. */
static bool capture(const struct client *client, struct answer *ret, int *ret_status)
{
	char *wrapper = text_of("%s/%s", client->folder, client->key);
	char *link = text_of("%s/%s", wrapper, client->name);
	char *raw = text_of("%s/raw", wrapper);
	char *command = text_of("%s/command", wrapper);
	char *path = text_of("%s:%s", wrapper, getenv(ENV_PATH));
	char *program = realpath("/proc/self/exe", NULL);
	char *text;
	char *tail;
	size_t size;
	FILE *file;

	if (!program || (mkdir(wrapper, 0755) < 0 && errno != EEXIST) ||
		(symlink(program, link) < 0 && errno != EEXIST))
		fail("%s: %s", wrapper, strerror(errno));
	(void) setenv(ENV_CAPTURE, raw, 1);
	(void) setenv("PATH", path, 1);
	*ret_status = ask_make(client, ret);
	text = read_file(raw, &size);
	tail = find_tail(client);
	if (!ret->object || !text || !tail)
		return false;
	file = fopen(command, "we");
	if (!file)
		return false;
	(void) fprintf(file, "%s%c%s%c", client->test, 0, tail, 0);
	(void) fwrite(text, 1, size, file);
	return fclose(file) == 0;
}

/* @text with @to for each @from. */
static char *replaced(const char *text, const char *from, const char *to)
{
	char *result = copy_of("");
	const char *found;

	while ((found = strstr(text, from)) != NULL) {
		char *longer = text_of("%s%.*s%s", result, (int) (found - text), text, to);

		free(result);
		result = longer;
		text = found + strlen(from);
	}
	return text_of("%s%s", result, text);
}

/* From a copy's status and assembly to conftest.o, as kbuild does it. Adds to @messages. */
static bool finish_object(const struct client *client, const struct command *command,
	const char *assembly, const char *messages)
{
	char *shell[] = { "/bin/sh", "-ec", NULL, NULL };
	char **argv;
	size_t count = 0;
	int status;

	while (command->argv[count])
		count++;
	argv = allocate(count + 7, sizeof(char *));
	count = 0;
	for (size_t i = 0; command->argv[i]; i++)
		if (strcmp(command->argv[i], "-include") == 0 && command->argv[i + 1])
			i++;
		else
			argv[count++] = command->argv[i];
	argv[count++] = "-c";
	argv[count++] = "-o";
	argv[count++] = client->object;
	argv[count++] = "-x";
	argv[count++] = "assembler";
	argv[count++] = (char *) assembly;
	(void) unlink(client->object);
	status = run(argv, command->cwd, command->environment, messages);
	if (status == 0 && *command->tail) {
		char *from = text_of("%s/", command->folder);
		char *to = text_of("%s/", client->test);

		shell[2] = replaced(command->tail, from, to);
		status = run(shell, command->cwd, command->environment, messages);
	}
	return status == 0 && has_content(client->object);
}

/* The lines that the compiler had to say, without their places: all that a test may look for. */
static char *messages_of(const char *said)
{
	static const char *const kinds[] = { " warning: ", " error: ", " note: " };
	char *result = copy_of("");

	while (*said) {
		int length = (int) strcspn(said, "\n");
		char *line = text_of("%.*s", length, said);

		for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
			const char *found = strstr(line, kinds[i]);
			char *longer;

			if (!found || starts_with(line, "make"))
				continue;
			longer = text_of("%s%s\n", result, found);
			free(result);
			result = longer;
			break;
		}
		free(line);
		said += length + (said[length] == '\n');
	}
	return result;
}

static bool answers_differ(const struct answer *fast, const struct answer *real)
{
	if (fast->object != real->object)
		return true;
	/* Messages beside a failure decide nothing. */
	return fast->object && strcmp(messages_of(fast->said), messages_of(real->said)) != 0;
}

static void read_reply(const struct client *client, struct reply *ret)
{
	ssize_t n = recv(client->server, ret, sizeof(*ret) - 1, 0);

	if (n <= 0)
		ret->kind = 'S';
	else
		((char *) ret)[n] = '\0';
}

static void fast_answer(const struct client *client, const struct reply *reply, struct answer *ret)
{
	struct command command = { .key = (char *) client->key };
	char *assembly = text_of("%s.s", reply->path);
	char *messages = text_of("%s.err", reply->path);

	if (!command_load(&command, client->folder))
		fail("no command %s", client->key);
	ret->object = reply->status == 0;
	if (ret->object && !finish_object(client, &command, assembly, messages))
		exec_make(client->argv);
	ret->said = read_file(messages, NULL);
	if (!ret->said)
		exec_make(client->argv);
	free(assembly);
	free(messages);
}

int make_main(char **argv, int count)
{
	struct client client = { .argv = argv, .count = count, .folder = getenv(ENV_FOLDER) };
	struct answer fast = { 0 };
	struct answer real = { 0 };
	struct reply reply = { 0 };
	char *request;
	bool captured = false;
	int status = 2;

	if (!client.folder || !is_test(&client))
		exec_make(argv);
	client.server = dial(client.folder);
	if (client.server < 0)
		exec_make(argv);
	request = text_of("%s %s", client.key, client.test);
	if (send(client.server, request, strlen(request) + 1, MSG_NOSIGNAL) < 0)
		exec_make(argv);
	read_reply(&client, &reply);
	if (reply.kind == 'C') {
		captured = capture(&client, &real, &status);
		if (send(client.server, captured ? "K" : "N", 1, MSG_NOSIGNAL) < 0 || !captured)
			return status;
		read_reply(&client, &reply);
		if (reply.kind == 'S')
			return status;
	}
	/* The connection stays open in the real make: the server counts what runs by it. */
	if (reply.kind == 'S')
		exec_make(argv);
	fast_answer(&client, &reply, &fast);
	if (!captured && reply.kind == 'A') {
		(void) write_fd(STDERR_FILENO, fast.said, strlen(fast.said));
		return fast.object ? 0 : 2;
	}
	if (!captured) {
		(void) unlink(client.object);
		forget_server();
		status = ask_make(&client, &real);
	}
	if (answers_differ(&fast, &real)) {
		char *text = text_of("Xa feature test is answered otherwise by the kernel's own "
				     "build\n%s\nwas: %d\n%s\nis: %d\n%s",
			client.test, fast.object, messages_of(fast.said), real.object,
			messages_of(real.said));

		(void) send(client.server, text, strlen(text) + 1, MSG_NOSIGNAL);
	}
	return status;
}
