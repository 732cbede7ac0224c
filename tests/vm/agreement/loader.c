// SPDX-License-Identifier: Apache-2.0
/*
 * Process 1 of the agreement test's guest. Gives the modules that /list names to finit_module(2),
 * one after the other, and says on the serial console what the kernel answered. Init functions do
 * not run: mutate.c took them out of the modules.
 *
 * A line of /list is "<index> <action>"; the module is /modules/<index>.ko. Actions:
 *   K  load it, and keep it, for those that follow
 *   T  load it, and remove it again
 *   U  remove all that is kept
 * Lines before /start (a number) have been answered in an earlier boot: of those only K and U are
 * done, silently.
 *
 * It begins with "M <name>" for each folder of /sys/module, and answers in lines: "S <index>"
 * before a module, "L <index> <message>" for each message of the kernel, "R <index> <errno>" (0:
 * loaded, and then its name and taints follow), "D <index> <errno>" where it could not be removed
 * again. The last line is "E". A crash of the kernel ends the machine (panic_on_oops=1), and
 * the reader goes on behind the last S.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/reboot.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NAME_SIZE 64
#define KEPT_MAX  1024

struct loader {
	int kmsg;
	long start;
	char kept[KEPT_MAX][NAME_SIZE];
	size_t kept_count;
};

/* Name and taints ("(POE)") of the module that came last: the kernel puts it first. */
static bool newest_module(char name[NAME_SIZE], char taints[NAME_SIZE])
{
	FILE *file = fopen("/proc/modules", "r");
	char line[512], *mark;

	if (!file)
		return false;
	if (!fgets(line, sizeof(line), file) || sscanf(line, "%63s", name) != 1)
		line[0] = '\0';
	(void) fclose(file);
	mark = strchr(line, '(');
	(void) snprintf(
		taints, NAME_SIZE, "%.*s", mark ? (int) strcspn(mark, "\n") : 1, mark ? mark : "-");
	return line[0];
}

/* Prints what the kernel has said since the last call; with @index < 0 it is skipped. */
static void tell_log(struct loader *loader, long index)
{
	char record[8192];
	ssize_t got;

	/* EPIPE: records were overwritten before they were read; the next read goes on behind them.
	 */
	while ((got = read(loader->kmsg, record, sizeof(record) - 1)) > 0 ||
		(got < 0 && errno == EPIPE)) {
		char *text;

		if (got <= 0 || index < 0)
			continue;
		record[got] = '\0';
		text = strchr(record, ';');
		if (text)
			printf("L %ld %.*s\n", index, (int) strcspn(text + 1, "\n"), text + 1);
	}
}

static int load(long index)
{
	char path[64];
	int fd, r;

	(void) snprintf(path, sizeof(path), "/modules/%ld.ko", index);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		printf("L %ld cannot open %s: %s\n", index, path, strerror(errno));
		return EBADF;
	}
	r = syscall(SYS_finit_module, fd, "", 0) < 0 ? errno : 0;
	close(fd);
	return r;
}

static void remove_module(const char *name, long index)
{
	if (syscall(SYS_delete_module, name, O_NONBLOCK) < 0)
		printf("D %ld %d %s\n", index, errno, name);
}

static void remove_kept(struct loader *loader, long index)
{
	while (loader->kept_count)
		remove_module(loader->kept[--loader->kept_count], index);
}

static void try_module(struct loader *loader, long index, bool keep)
{
	bool silent = index < loader->start;
	char name[NAME_SIZE] = "", taints[NAME_SIZE] = "";
	int r;

	if (silent && !keep)
		return;
	if (!silent)
		printf("S %ld\n", index);
	r = load(index);
	tell_log(loader, silent ? -1 : index);
	if (r == 0 && newest_module(name, taints)) {
		if (keep && loader->kept_count < KEPT_MAX)
			memcpy(loader->kept[loader->kept_count++], name, NAME_SIZE);
		else
			remove_module(name, index);
	}
	if (!silent)
		printf("R %ld %d %s %s\n", index, r, name, taints);
	tell_log(loader, -1);
}

/* Names that no module can have: what is built in has them already. */
static void tell_names(void)
{
	DIR *folder = opendir("/sys/module");
	const struct dirent *entry;

	while (folder && (entry = readdir(folder)))
		if (entry->d_name[0] != '.')
			printf("M %s\n", entry->d_name);
	if (folder)
		(void) closedir(folder);
}

static void set_up(struct loader *loader)
{
	FILE *file;

	(void) mkdir("/dev", 0755);
	(void) mkdir("/proc", 0755);
	(void) mkdir("/sys", 0755);
	(void) mount("devtmpfs", "/dev", "devtmpfs", 0, NULL);
	(void) mount("proc", "/proc", "proc", 0, NULL);
	(void) mount("sysfs", "/sys", "sysfs", 0, NULL);
	/* Where the kernel's console= is. */
	if (!freopen("/dev/console", "w", stdout))
		(void) puts("no serial console");
	(void) setvbuf(stdout, NULL, _IOLBF, 4096);
	loader->kmsg = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	file = fopen("/start", "r");
	if (file && fscanf(file, "%ld", &loader->start) != 1)
		loader->start = 0;
	tell_log(loader, -1);
	tell_names();
}

int main(void)
{
	static struct loader loader;
	char action;
	long index;
	FILE *list;

	set_up(&loader);
	list = fopen("/list", "r");
	while (list && fscanf(list, "%ld %c", &index, &action) == 2) {
		if (action == 'U')
			remove_kept(&loader, index);
		else
			try_module(&loader, index, action == 'K');
	}
	printf("E\n");
	(void) fflush(stdout);
	sync();
	(void) syscall(SYS_reboot, LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2,
		LINUX_REBOOT_CMD_POWER_OFF, NULL);
	for (;;)
		pause();
}
