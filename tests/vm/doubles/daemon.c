/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A declared double of NVIDIA's daemons that Debian does not have (nv-fabricmanager, nvlsm,
 * nvidia-gridd, nvidia-topologyd): called by one of their names it goes to the background, with the
 * pid file and socket of the real one, and does nothing. Of what it does it appends a line to
 * /var/log/doubles.log. Files on the node make it misbehave:
 *   /run/nvidia/doubles/NAME.fail  it ends with code 3 instead, its last word the file's text
 *   /run/nvidia/doubles/NAME.deaf  SIGTERM does not end it
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define FABRIC_RUN "/var/run/nvidia-fabricmanager/"

struct likeness {
	const char *name;
	const char *pid_file;
	const char *socket;
};

static const struct likeness likenesses[] = {
	{ "nv-fabricmanager", FABRIC_RUN "nv-fabricmanager.pid", NULL },
	{ "nvlsm", FABRIC_RUN "nvlsm.pid", FABRIC_RUN "fm_sm_ipc.socket" },
	{ "nvidia-gridd", "/var/run/nvidia-gridd/nvidia-gridd.pid", NULL },
	{ "nvidia-topologyd", "/var/run/nvidia-topologyd/nvidia-topologyd.pid", NULL },
};

static const char *name;
static volatile sig_atomic_t told_to_end;

static void hear(int signal)
{
	(void) signal;
	told_to_end = 1;
}

static void note(const char *word, const char *more)
{
	char line[512];
	int fd = open("/var/log/doubles.log", O_WRONLY | O_CREAT | O_APPEND, 0644);

	(void) snprintf(line, sizeof(line), "%s %s%s\n", word, name, more);
	if (fd < 0 || write(fd, line, strlen(line)) < 0)
		perror("/var/log/doubles.log");
	(void) close(fd);
}

static int control(const char *kind, char text[256])
{
	char path[128];
	ssize_t size;
	int fd;

	(void) snprintf(path, sizeof(path), "/run/nvidia/doubles/%s.%s", name, kind);
	fd = open(path, O_RDONLY);
	if (fd < 0)
		return 0;
	size = read(fd, text, 255);
	text[size > 0 ? size : 0] = '\0';
	(void) close(fd);
	return 1;
}

static void listen_at(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	(void) snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	(void) unlink(path);
	if (bind(fd, (const struct sockaddr *) &address, sizeof(address)) < 0)
		perror(path);
	(void) listen(fd, 1);
}

static void serve(const struct likeness *likeness, int ready_fd)
{
	struct sigaction action = { .sa_handler = hear };
	char text[256];
	FILE *file;

	(void) setsid();
	(void) sigaction(SIGTERM, &action, NULL);
	file = fopen(likeness->pid_file, "w");
	if (!file || fprintf(file, "%d\n", (int) getpid()) < 0 || fclose(file) != 0) {
		perror(likeness->pid_file);
		exit(1);
	}
	if (likeness->socket)
		listen_at(likeness->socket);
	(void) !write(ready_fd, "1", 1);
	(void) close(ready_fd);
	while (!told_to_end || control("deaf", text))
		(void) usleep(50 * 1000);
	note("stop", "");
	(void) unlink(likeness->pid_file);
	exit(0);
}

static const struct likeness *find(const char *program)
{
	const char *slash = strrchr(program, '/');

	name = slash ? slash + 1 : program;
	for (size_t i = 0; i < sizeof(likenesses) / sizeof(likenesses[0]); i++)
		if (strcmp(likenesses[i].name, name) == 0)
			return &likenesses[i];
	(void) fprintf(stderr, "no double of %s\n", name);
	exit(2);
}

int main(int argc, char **argv)
{
	const struct likeness *likeness = find(argv[0]);
	char words[256] = "";
	char text[256];
	int ends[2];
	char byte;

	for (int i = 1; i < argc; i++)
		(void) snprintf(
			words + strlen(words), sizeof(words) - strlen(words), " %s", argv[i]);
	note("start", words);
	if (control("fail", text)) {
		(void) fprintf(stderr, "%s: starting\n%s\n", name, text);
		return 3;
	}
	if (pipe(ends) < 0)
		return 1;
	if (fork() == 0)
		serve(likeness, ends[1]);
	(void) close(ends[1]);
	return read(ends[0], &byte, 1) == 1 ? 0 : 1;
}
