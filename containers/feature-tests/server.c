/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command.h"
#include "common.h"
#include "server.h"

#define EXIT_DIFFERS 3

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"

/* One in this many tests is asked both ways. */
#define SAMPLE 128

/* Stopped compilers for each job: some 50 MB each, and as much as a job is reckoned with
 * (BUILD_JOB_MEMORY). */
#define STOPPED 6

/* Tests of a command that did not compile, after which it is left to make. */
#define CAPTURES 16

/* A compiler that stopped behind some headers, or will, or did. */
struct node {
	struct command *command;
	struct node *parent;  /* it is a copy of this one's; NULL: started by itself */
	char *part;           /* what it reads behind that one */
	char *path;           /* of its files, which end with .c, .s, .err, .stop */
	int fd;               /* -1: it does not run */
	unsigned int waiting; /* tests, for it or for what is below it */
	unsigned long used;   /* when, for the choice of one that has to go */
	bool busy;            /* a copy is compiling */
	struct test *test;    /* for this one; NULL: its client is gone */
	enum { NODE_NEW, NODE_STARTING, NODE_STOPPED, NODE_REFUSED, NODE_BROKEN } state;
};

struct test {
	int fd; /* its client's; open as long as what runs for it does */
	char *folder;
	struct command *command;
	char *text; /* NULL: it is for make */
	bool sampled;
	struct node *node;
	char *body; /* what a copy of that one reads */
	char *path; /* of the copy's files, likewise */
	enum { TEST_NEW, TEST_WAITING, TEST_RUNNING } state;
};

struct server {
	pid_t pid;
	pid_t configure; /* and its process group; 0: not started */
	int listener;
	const char *folder;
	char *library;
	unsigned int jobs;
	unsigned int running;
	unsigned int most_stopped;
	unsigned long clock;
	unsigned int copies;
	struct command **commands;
	size_t command_count;
	struct node **nodes;
	size_t node_count;
	struct test **tests;
	size_t test_count;
	unsigned int asked, by_make, both_ways, started;
	char *differs;
};

static void *grown(void *items, size_t count)
{
	if (count & (count - 1))
		return items;
	items = reallocarray(items, count ? 2 * count : 1, sizeof(void *));
	if (!items)
		fail("no memory");
	return items;
}

static struct command *find_command(struct server *server, const char *key)
{
	struct command *command;

	for (size_t i = 0; i < server->command_count; i++)
		if (strcmp(server->commands[i]->key, key) == 0)
			return server->commands[i];
	command = allocate(1, sizeof(*command));
	command->key = copy_of(key);
	server->commands = grown(server->commands, server->command_count);
	server->commands[server->command_count++] = command;
	return command;
}

static struct node *find_node(
	struct server *server, struct command *command, struct node *parent, const char *part)
{
	struct node *node;

	for (size_t i = 0; i < server->node_count; i++) {
		node = server->nodes[i];
		if (node->command == command && node->parent == parent &&
			strcmp(node->part, part) == 0)
			return node;
	}
	node = allocate(1, sizeof(*node));
	*node = (struct node){
		.command = command,
		.parent = parent,
		.part = copy_of(part),
		.path = text_of("%s/%zu", server->folder, server->node_count),
		.fd = -1,
	};
	server->nodes = grown(server->nodes, server->node_count);
	server->nodes[server->node_count++] = node;
	return node;
}

/* ---- a test's text */

enum line_kind { LINE_OTHER, LINE_BLANK, LINE_INCLUDE, LINE_IF, LINE_ENDIF, LINE_DIRECTIVE };

static bool is_blank(const char *text)
{
	text += strspn(text, " \t\r");
	if (starts_with(text, "/*")) {
		const char *end = strstr(text + 2, "*/");

		return end && is_blank(end + 2);
	}
	return !*text || starts_with(text, "//");
}

static enum line_kind line_kind(const char *line)
{
	static const char *const ifs[] = { "if", "ifdef", "ifndef" };
	static const char *const others[] = { "define", "undef", "else", "elif" };
	size_t length = strlen(line);
	const char *rest;

	if (length > 0 && line[length - 1] == '\\')
		return LINE_OTHER;
	if (is_blank(line))
		return LINE_BLANK;
	line += strspn(line, " \t");
	if (*line != '#')
		return LINE_OTHER;
	line += 1 + strspn(line + 1, " \t");
	length = strspn(line, "abcdefghijklmnopqrstuvwxyz");
	rest = line + length;
	rest += strspn(rest, " \t");
	if (length == 7 && starts_with(line, "include")) {
		const char *end = *rest == '<' ? strchr(rest, '>') : NULL;

		return end && is_blank(end + 1) ? LINE_INCLUDE : LINE_OTHER;
	}
	/* A comment could go on in the next line. */
	if (strstr(rest, "/*"))
		return LINE_OTHER;
	for (size_t i = 0; i < sizeof(ifs) / sizeof(*ifs); i++)
		if (strlen(ifs[i]) == length && starts_with(line, ifs[i]))
			return LINE_IF;
	if (length == 5 && starts_with(line, "endif"))
		return LINE_ENDIF;
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		if (strlen(others[i]) == length && starts_with(line, others[i]))
			return LINE_DIRECTIVE;
	return LINE_OTHER;
}

/*
 * Does a copy see something otherwise, or does kbuild do more for it: where its text lies, files
 * beside it, symbol versions? A word that only looks like one of these costs a second.
 */
static bool is_unusual(const char *text)
{
	static const char *const words[] = { "EXPORT_SYMBOL", "__FILE__", "__BASE_FILE__",
		"__INCLUDE_LEVEL__", "__TIMESTAMP__", "__COUNTER__", "#line", "?\?/" };

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (strstr(text, words[i]))
			return true;
	for (const char *at = text; (at = strstr(at, "include")) != NULL; at++) {
		const char *before = at;

		while (before > text && (before[-1] == ' ' || before[-1] == '\t'))
			before--;
		if (before > text && before[-1] == '#' && at[7 + strspn(at + 7, " \t")] != '<')
			return true;
	}
	return false;
}

/* Is it "#define HAVE_…" of a word that no header has? Where it stands does not matter then. */
static bool is_movable(const struct command *command, const char *line)
{
	static const char start[] = "#define HAVE_";
	char *word;
	bool found;

	if (!starts_with(line, start) || !command->words)
		return false;
	line += strlen("#define ");
	word = text_of("\n%.*s\n", (int) strspn(line, LETTERS), line);
	found = strstr(command->words, word) != NULL;
	free(word);
	return !found;
}

/* Appends @line of @length to *@text, which is allocated. */
static void append(char **text, const char *line, size_t length)
{
	char *longer = text_of("%s%.*s", *text ? *text : "", (int) length, line);

	free(*text);
	*text = longer;
}

/*
 * Finds the compiler, stopped behind the last #include that nothing but directives comes before,
 * and the text that is left for a copy. Each #include is a stop, which tests with fewer in common
 * share. NULL where there is none.
 */
static struct node *split_text(struct server *server, struct test *test)
{
	struct node *node = NULL;
	char *moved = NULL;
	char *part = NULL;
	const char *at = test->text;
	const char *body = at;
	unsigned int line = 1;
	unsigned int body_line = 1;
	int depth = 0;
	bool includes = false; /* the part */

	while (*at) {
		size_t length = strcspn(at, "\n");
		char *copy = text_of("%.*s", (int) length, at);
		enum line_kind kind = line_kind(copy);
		bool movable = !node && !includes && depth == 0 && is_movable(test->command, copy);

		free(copy);
		if (kind == LINE_OTHER || (kind == LINE_ENDIF && depth == 0))
			break;
		length += at[length] == '\n';
		append(movable ? &moved : &part, at, length);
		at += length;
		line++;
		depth += (kind == LINE_IF) - (kind == LINE_ENDIF);
		includes = includes || kind == LINE_INCLUDE;
		if (!includes || depth > 0)
			continue;
		node = find_node(server, test->command, node, part);
		free(part);
		part = NULL;
		includes = false;
		body = at;
		body_line = line;
	}
	free(part);
	test->body = text_of("%s#line %u \"%s/conftest.c\"\n%s", moved ? moved : "", body_line,
		test->folder, body);
	free(moved);
	return node;
}

static void count_waiting(struct node *node, int change)
{
	for (; node; node = node->parent)
		node->waiting += (unsigned int) change;
}

static void drop_test(struct server *server, struct test *test)
{
	if (test->state == TEST_RUNNING)
		server->running--;
	if (test->state == TEST_WAITING)
		count_waiting(test->node, -1);
	if (test->node && test->node->test == test)
		test->node->test = NULL;
	if (test->command && test->command->capturer == test)
		test->command->capturer = NULL;
	close(test->fd);
	for (size_t i = 0; i < server->test_count; i++)
		if (server->tests[i] == test)
			server->tests[i] = server->tests[--server->test_count];
	free(test->folder);
	free(test->text);
	free(test->body);
	free(test->path);
	free(test);
}

static void reply(
	struct server *server, struct test *test, char kind, unsigned char status, const char *path)
{
	char buffer[sizeof(struct reply)];
	int n = snprintf(buffer, sizeof(buffer), "%c%c%s%c", kind, status, path, 0);

	if (kind == 'S')
		server->by_make++;
	else if (kind == 'B')
		server->both_ways++;
	/* One that is gone is found by its end of the connection. */
	(void) send(test->fd, buffer, (size_t) n, MSG_NOSIGNAL);
}

/* Not what the text is to blame for. */
static bool is_doubtful(const char *said)
{
	static const char *const words[] = { "internal compiler error", "memory", "Killed",
		"error writing", "No space left", "cannot execute" };

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (strstr(said, words[i]))
			return true;
	return false;
}

static void start_running(struct server *server, struct test *test)
{
	if (test->state == TEST_WAITING)
		count_waiting(test->node, -1);
	if (test->state != TEST_RUNNING)
		server->running++;
	test->state = TEST_RUNNING;
}

static void leave_to_make(struct server *server, struct test *test)
{
	start_running(server, test);
	reply(server, test, 'S', 0, "");
}

/* In the child: the compiler reads its first part and stops. */
static __attribute__((noreturn)) void exec_compiler(
	const struct server *server, const struct node *node, int fd)
{
	const struct command *command = node->command;
	char *source = text_of("%s.c", node->path);
	char *output = text_of("%s.s", node->path);
	char *messages = text_of("%s.err", node->path);
	char *number = text_of("%d", fd);
	char *stop = text_of("%s.stop", node->path);
	char **argv;
	size_t count = 0;

	environ = command->environment;
	(void) setenv("LD_PRELOAD", server->library, 1);
	(void) setenv("FEATURE_TESTS_FD", number, 1);
	(void) setenv("FEATURE_TESTS_STOP", stop, 1);
	while (command->argv[count])
		count++;
	argv = allocate(count + 5, sizeof(char *));
	memcpy(argv, command->argv, count * sizeof(char *));
	argv[count++] = "-S";
	argv[count++] = "-o";
	argv[count++] = "-";
	argv[count++] = source;
	(void) close(STDIN_FILENO);
	(void) close(STDOUT_FILENO);
	(void) close(STDERR_FILENO);
	if (open("/dev/null", O_RDONLY) != STDIN_FILENO ||
		open(output, O_RDWR | O_CREAT | O_TRUNC, 0644) != STDOUT_FILENO ||
		open(messages, O_RDWR | O_CREAT | O_TRUNC, 0644) != STDERR_FILENO ||
		fcntl(fd, F_SETFD, 0) < 0 || chdir(command->cwd) < 0)
		_exit(255);
	(void) execvp(argv[0], argv);
	_exit(255);
}

/* A copy of a stopped compiler goes on with @text, to @next or to its end. @fd: its socket, or -1.
 */
static bool send_copy(
	const struct node *node, const char *path, const char *text, const char *next, int fd)
{
	char control[CMSG_SPACE(sizeof(int))] = { 0 };
	char *source = text_of("%s.c", path);
	char *request = text_of("%s%c%s.s%c%s.err%c%s%c", source, 0, path, 0, path, 0, next, 0);
	struct iovec data = { .iov_base = request,
		.iov_len = 3 * strlen(path) + strlen(".c.s.err") + strlen(next) + 4 };
	struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1 };
	bool sent;

	if (fd >= 0) {
		struct cmsghdr *header;

		message.msg_control = control;
		message.msg_controllen = sizeof(control);
		header = CMSG_FIRSTHDR(&message);
		*header = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)),
			.cmsg_level = SOL_SOCKET,
			.cmsg_type = SCM_RIGHTS };
		memcpy(CMSG_DATA(header), &fd, sizeof(int));
	}
	sent = write_file(source, text, strlen(text)) &&
	       sendmsg(node->fd, &message, MSG_NOSIGNAL) == (ssize_t) data.iov_len;
	free(source);
	free(request);
	return sent;
}

/* Where too many are stopped (each is some 50 MB), the one that was not used for longest goes: one
 * that no test waits for, if there is one. */
static void evict_node(struct server *server, const struct node *keep)
{
	struct node *oldest = NULL;
	unsigned int stopped = 0;

	for (size_t i = 0; i < server->node_count; i++) {
		struct node *node = server->nodes[i];

		if (node->state != NODE_STOPPED)
			continue;
		stopped++;
		if (node->busy || node == keep)
			continue;
		if (!oldest || (node->waiting == 0 && oldest->waiting > 0) ||
			((node->waiting == 0) == (oldest->waiting == 0) &&
				node->used < oldest->used))
			oldest = node;
	}
	if (stopped < server->most_stopped || !oldest)
		return;
	close(oldest->fd);
	oldest->fd = -1;
	oldest->state = NODE_NEW;
}

static void start_node(struct server *server, struct node *node)
{
	char *stop = text_of("%s.stop", node->path);
	char *text = text_of("%s#include \"%s\"\n", node->part, stop);
	char *source = text_of("%s.c", node->path);
	struct node *parent = node->parent;
	bool started = false;
	int fds[2];

	evict_node(server, parent);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
		fail("socketpair: %s", strerror(errno));
	if (parent) {
		parent->used = ++server->clock;
		started = send_copy(parent, node->path, text, stop, fds[1]);
	} else if (write_file(source, text, strlen(text))) {
		pid_t pid = fork();

		if (pid == 0)
			exec_compiler(server, node, fds[1]);
		started = pid > 0;
	}
	close(fds[1]);
	node->state = started ? NODE_STARTING : NODE_BROKEN;
	node->used = ++server->clock;
	node->fd = fds[0];
	if (started) {
		server->running++;
		server->started++;
	}
	free(stop);
	free(source);
	free(text);
}

/* It ended by itself. Where it was before it stopped, its part has an error, and so has every test
 * that begins with it. */
static void end_node(struct server *server, struct node *node)
{
	char *path = text_of("%s.err", node->path);
	char *said = read_file(path, NULL);
	bool refused = node->state == NODE_STARTING && said && strstr(said, " error: ") &&
		       !is_doubtful(said);

	close(node->fd);
	node->fd = -1;
	if (node->state == NODE_STARTING)
		server->running--;
	node->state = refused ? NODE_REFUSED : NODE_BROKEN;
	node->busy = false;
	if (node->test)
		reply(server, node->test, 'S', 0, "");
	node->test = NULL;
	free(said);
	free(path);
}

static void on_node(struct server *server, struct node *node)
{
	struct test *test = node->test;
	unsigned char status;
	char *path;
	char *said;

	if (recv(node->fd, &status, 1, 0) != 1) {
		end_node(server, node);
		return;
	}
	if (node->state == NODE_STARTING) {
		node->state = NODE_STOPPED;
		server->running--;
		return;
	}
	node->busy = false;
	node->test = NULL;
	if (!test)
		return;
	path = text_of("%s.err", test->path);
	said = read_file(path, NULL);
	if (status > 1 || !said || is_doubtful(said))
		reply(server, test, 'S', 0, "");
	else
		reply(server, test, test->sampled ? 'B' : 'A', status, test->path);
	free(said);
	free(path);
}

static void ask_node(struct server *server, struct node *node, struct test *test)
{
	test->path = text_of("%s/test%u", server->folder, server->copies++);
	start_running(server, test);
	node->used = ++server->clock;
	node->busy = send_copy(node, test->path, test->body, "", -1);
	if (node->busy)
		node->test = test;
	else
		reply(server, test, 'S', 0, "");
}

/* Starts or answers something that a test waits for. False where there is nothing. Of compilers
 * that are not there yet, the one that most tests wait for is the first: for others more may come.
 */
static bool start_one(struct server *server)
{
	struct node *next = NULL;

	for (size_t i = 0; i < server->test_count; i++) {
		struct test *test = server->tests[i];
		struct command *command = test->command;
		struct node *node;
		struct node *below = NULL;

		if (test->state == TEST_RUNNING || !command)
			continue;
		if (!test->text || command->failures == CAPTURES) {
			leave_to_make(server, test);
			return true;
		}
		if (!command->known) {
			if (command->capturer)
				continue;
			command->capturer = test;
			start_running(server, test);
			reply(server, test, 'C', 0, "");
			return true;
		}
		if (test->state == TEST_NEW) {
			test->node = split_text(server, test);
			test->state = TEST_WAITING;
			count_waiting(test->node, 1);
		}
		/* From what it needs up to what is there of that. */
		for (node = test->node; node && node->state == NODE_NEW; node = node->parent)
			below = node;
		if (!test->node || (node && node->state == NODE_BROKEN)) {
			leave_to_make(server, test);
			return true;
		}
		if (node && node->state == NODE_REFUSED) {
			start_running(server, test);
			reply(server, test, test->sampled ? 'B' : 'A', 1, node->path);
			return true;
		}
		if (node && (node->state == NODE_STARTING || node->busy))
			continue;
		if (!below) {
			ask_node(server, node, test);
			return true;
		}
		if (!next || below->waiting > next->waiting)
			next = below;
	}
	if (next)
		start_node(server, next);
	return next != NULL;
}

/* All HAVE_… in the headers of the folders that the command names. */
static void find_words(struct server *server, struct command *command)
{
	char *found = text_of("%s/%s/words", server->folder, command->key);
	char *script =
		text_of("LC_ALL=C grep -RhowsE 'HAVE_[A-Za-z0-9_]*' \"$@\" | sort -u >%s", found);
	size_t count = 4;
	char **argv;
	char *text;

	while (command->argv[count - 4])
		count++;
	argv = allocate(count, sizeof(char *));
	argv[0] = "/bin/sh";
	argv[1] = "-c";
	argv[2] = script;
	argv[3] = "sh";
	count = 4;
	for (char **word = command->argv; *word; word++) {
		const char *folder = starts_with(*word, "-I") ? *word + 2 : NULL;

		if (strcmp(*word, "-isystem") == 0 || (folder && !*folder))
			folder = *++word;
		for (size_t i = 4; folder && i < count; i++)
			if (strcmp(argv[i], folder) == 0)
				folder = NULL;
		if (folder)
			argv[count++] = (char *) folder;
	}
	if (run(argv, command->cwd, command->environment, NULL) == 0) {
		text = read_file(found, NULL);
		if (text && !starts_with(text, "HAVE_\n"))
			command->words = text_of("\n%s", text);
	}
	free(script);
	free(found);
}

static void on_request(struct server *server, struct test *test, const char *request)
{
	const char *space = strchr(request, ' ');
	char *key = text_of("%.*s", space ? (int) (space - request) : 0, request);
	char *path;
	char *text;

	server->asked++;
	test->folder = copy_of(space ? space + 1 : "");
	test->command = find_command(server, key);
	path = text_of("%s/conftest.c", test->folder);
	text = read_file(path, NULL);
	test->sampled = text && (hash_text(HASH_START, text) >> 32) % SAMPLE == 0;
	if (text && !is_unusual(text))
		test->text = text;
	else
		free(text);
	free(path);
	free(key);
}

/* A client says its test; "K" or "N" after a capture; "X" and what differed. Its end ends it. */
static void on_client(struct server *server, struct test *test)
{
	char message[16384];
	ssize_t n = recv(test->fd, message, sizeof(message) - 1, 0);
	struct command *command = test->command;

	if (n <= 0) {
		drop_test(server, test);
		return;
	}
	message[n] = '\0';
	if (!command) {
		on_request(server, test, message);
		return;
	}
	if (message[0] == 'X') {
		if (!server->differs)
			server->differs = copy_of(message + 1);
		return;
	}
	command->capturer = NULL;
	if (message[0] == 'N') {
		command->failures++;
		return;
	}
	if (!command_load(command, server->folder)) {
		command->failures = CAPTURES;
		reply(server, test, 'S', 0, "");
		return;
	}
	find_words(server, command);
	/* Now the other way, for the comparison. */
	test->sampled = true;
	test->state = TEST_NEW;
	server->running--;
}

static int listen_at(const char *folder)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int n = snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket", folder);

	if (n >= (int) sizeof(address.sun_path))
		fail("%s: the path is too long for a socket", folder);
	(void) unlink(address.sun_path);
	if (fd < 0 || bind(fd, (struct sockaddr *) &address, sizeof(address)) < 0 ||
		listen(fd, SOMAXCONN) < 0)
		fail("%s/socket: %s", folder, strerror(errno));
	return fd;
}

static void on_listener(struct server *server)
{
	int fd;

	while ((fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		struct test *test = allocate(1, sizeof(*test));

		test->fd = fd;
		server->tests = grown(server->tests, server->test_count);
		server->tests[server->test_count++] = test;
	}
	/* A test that is never taken would wait for ever. */
	if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
		fail("accept: %s", strerror(errno));
}

/* One round: waits for whatever can happen, and does what follows. False once configure ended. */
static bool serve_once(struct server *server, int children, int *ret_status)
{
	size_t tests = server->test_count;
	size_t nodes = server->node_count;
	struct pollfd *fds = allocate(2 + tests + nodes, sizeof(*fds));
	struct test **polled = allocate(tests, sizeof(struct test *));
	struct signalfd_siginfo info;
	bool goes_on = true;

	fds[0] = (struct pollfd){ .fd = server->listener, .events = POLLIN };
	fds[1] = (struct pollfd){ .fd = children, .events = POLLIN };
	for (size_t i = 0; i < nodes; i++)
		fds[2 + i] = (struct pollfd){ .fd = server->nodes[i]->fd, .events = POLLIN };
	for (size_t i = 0; i < tests; i++) {
		polled[i] = server->tests[i];
		fds[2 + nodes + i] = (struct pollfd){ .fd = polled[i]->fd, .events = POLLIN };
	}
	if (poll(fds, 2 + tests + nodes, -1) < 0 && errno != EINTR)
		fail("poll: %s", strerror(errno));
	for (size_t i = 0; i < nodes; i++)
		if (fds[2 + i].revents)
			on_node(server, server->nodes[i]);
	for (size_t i = 0; i < tests; i++)
		if (fds[2 + nodes + i].revents)
			on_client(server, polled[i]);
	if (fds[0].revents)
		on_listener(server);
	if (fds[1].revents) {
		pid_t pid;
		int status;

		(void) !read(children, &info, sizeof(info));
		while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
			if (pid == server->configure) {
				*ret_status = status;
				goes_on = false;
			}
	}
	while (goes_on && server->running < server->jobs && start_one(server))
		;
	free(polled);
	free(fds);
	return goes_on;
}

/*
 * By exit(), however the server ends: what configure has begun ends first, for the caller may
 * remove its tree and run it again. Compilers end with their sockets; a test that is in no group of
 * configure's goes on by the real make.
 */
static void end_server(int status __attribute__((unused)), void *argument)
{
	const struct server *server = argument;

	/* A child that could not become the program it was to be. */
	if (getpid() != server->pid)
		return;
	if (server->configure > 0)
		(void) kill(-server->configure, SIGKILL);
	close(server->listener);
	for (size_t i = 0; i < server->test_count; i++)
		close(server->tests[i]->fd);
	for (size_t i = 0; i < server->node_count; i++)
		if (server->nodes[i]->fd >= 0)
			close(server->nodes[i]->fd);
	while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
		;
}

static pid_t start_configure(char **argv, const sigset_t *blocked)
{
	pid_t pid = fork();

	if (pid < 0)
		fail("fork: %s", strerror(errno));
	/* By both: it is a group before either goes on. */
	(void) setpgid(pid, pid);
	if (pid > 0)
		return pid;
	(void) sigprocmask(SIG_UNBLOCK, blocked, NULL);
	(void) execvp(argv[0], argv);
	fail("%s: %s", argv[0], strerror(errno));
}

void server_main(char **argv)
{
	struct server server = {
		.pid = getpid(),
		.listener = listen_at(argv[1]),
		.folder = argv[1],
		.jobs = (unsigned int) strtoul(argv[2], NULL, 10),
	};
	char *program = realpath("/proc/self/exe", NULL);
	char *bin = text_of("%s/bin", server.folder);
	char *make = text_of("%s/make", bin);
	const char *own_path = getenv("PATH");
	char *path;
	sigset_t signals;
	int children;
	int status;

	if (!own_path)
		fail("PATH is not set");
	server.most_stopped = server.jobs * STOPPED;
	path = text_of("%s:%s", bin, own_path);
	if (!program || mkdir(bin, 0755) < 0 || symlink(program, make) < 0)
		fail("%s: %s", make, strerror(errno));
	server.library =
		text_of("%.*s/cc1-fork.so", (int) (strrchr(program, '/') - program), program);
	(void) setenv(ENV_FOLDER, server.folder, 1);
	(void) setenv(ENV_PATH, own_path, 1);
	(void) setenv("PATH", path, 1);
	/* Copies of compilers that are gone are waited for here. */
	(void) prctl(PR_SET_CHILD_SUBREAPER, 1);
	(void) sigemptyset(&signals);
	(void) sigaddset(&signals, SIGCHLD);
	(void) sigprocmask(SIG_BLOCK, &signals, NULL);
	children = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (children < 0)
		fail("signalfd: %s", strerror(errno));
	if (on_exit(end_server, &server) != 0)
		fail("no memory");
	server.configure = start_configure(argv + 3, &signals);
	while (serve_once(&server, children, &status))
		if (server.differs) {
			(void) printf("%s\n", server.differs);
			exit(EXIT_DIFFERS);
		}
	(void) printf("feature tests: %u, %u compilers; %u by the kernel's own build, %u "
		      "both ways\n",
		server.asked, server.started, server.by_make, server.both_ways);
	exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}
