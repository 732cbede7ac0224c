/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The floor: what the kernel itself needs to take and to drop the modules. No dependency is
 * resolved, nothing is checked, proved, mounted, locked or reported: what an init does on top of this
 * program's time is its own.
 */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/syscall.h>

#include "common/fs.h"

static const char usage[] =
	"usage: floor LIST READY TEXT [FLAG]\n"
	"  LIST   lines \"load FILE\" and \"unload NAME\", in order; and where a driver is swapped\n"
	"         \"first-unload NAME\", before the first load, and \"last-load FILE\", after the "
	"last\n"
	"         unload\n"
	"  READY  the file that TEXT is written to after the last load\n"
	"  FLAG   a file to wait for, if it is not there, before the first load\n"
	"Then it waits for SIGTERM, unloads and ends. Exit status 1 after any failure.\n";

static _Noreturn void die(const char *what)
{
	(void) fprintf(stderr, "floor: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void wait_file(const char *path)
{
	_cleanup_free_ char *folder = strdup(path);
	char *slash = folder ? strrchr(folder, '/') : NULL;
	_cleanup_close_ int fd = inotify_init1(IN_CLOEXEC);
	char events[4096];

	if (!slash || fd < 0)
		die(path);
	*slash = '\0';
	if (inotify_add_watch(fd, folder, IN_CREATE | IN_MOVED_TO) < 0)
		die(folder);
	while (!fs_exists(AT_FDCWD, path))
		if (read(fd, events, sizeof(events)) < 0)
			die(folder);
}

static void load(const char *file)
{
	_cleanup_close_ int fd = open(file, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || syscall(SYS_finit_module, fd, "", 0) < 0)
		die(file);
}

static void unload(const char *name)
{
	if (syscall(SYS_delete_module, name, O_NONBLOCK) < 0)
		die(name);
}

/* Calls @act with the rest of each line that begins with @verb and a space. */
static void for_each(const struct strv *lines, const char *verb, void (*act)(const char *))
{
	size_t length = strlen(verb);

	for (size_t i = 0; i < lines->count; i++)
		if (strncmp(lines->items[i], verb, length) == 0 && lines->items[i][length] == ' ')
			act(lines->items[i] + length + 1);
}

static void tell_ready(const char *path, const char *text)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		die(path);
}

int main(int argc, char **argv)
{
	_cleanup_strv_ struct strv lines = { 0 };
	_cleanup_free_ char *text = NULL;
	sigset_t stop;
	int signal_number;

	if (argc < 4)
		return fputs(usage, stderr), 2;
	(void) sigemptyset(&stop);
	(void) sigaddset(&stop, SIGTERM);
	(void) sigprocmask(SIG_BLOCK, &stop, NULL);
	if (fs_read(AT_FDCWD, argv[1], 0, &text, NULL) < 0 || strv_split(&lines, text, "\n") < 0)
		die(argv[1]);
	if (argc > 4)
		wait_file(argv[4]);
	for_each(&lines, "first-unload", unload);
	for_each(&lines, "load", load);
	tell_ready(argv[2], argv[3]);
	(void) sigwait(&stop, &signal_number);
	for_each(&lines, "unload", unload);
	for_each(&lines, "last-load", load);
	return 0;
}
