/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <time.h>

#include "common/fs.h"
#include "common/conf.h"
#include "entrypoint/contract.h"
#include "entrypoint/engine/lock.h"
#include "entrypoint/role/roles.h"
#include "entrypoint/status/daemon_line.h"
#include "entrypoint/status/part.h"
#include "entrypoint/status/processes.h"

/* All that a driver may come with; nvidia-imex has a part of its own (imex.c). */
static const char *const known_daemons[] = { "nvidia-persistenced", "nv-fabricmanager", "nvlsm",
	"nvidia-gridd", "nvidia-topologyd" };

/*
 * The init that supervises, or 0 where none lives. Only the lock and the program tell: the number
 * in the file is of the container's process ids, which need not be those that are seen from here.
 */
static pid_t find_supervisor(int root_fd)
{
	_cleanup_free_ char *text = NULL;
	char path[64], pid[16], program[256];
	const char *name;
	ssize_t length;

	if (!lock_is_held(root_fd, CONTRACT_GPU_PID_FILE) ||
		fs_read(root_fd, GPU_STATE_FOLDER "/gpu.status", 65536, &text, NULL) < 0)
		return 0;
	conf_value(text, "pid", pid, sizeof(pid));
	(void) snprintf(path, sizeof(path), "proc/%s/exe", pid);
	length = readlinkat(root_fd, path, program, sizeof(program) - 1);
	program[length < 0 ? 0 : length] = '\0';
	name = strrchr(program, '/');
	return name && strncmp(name, "/slipway-init", strlen("/slipway-init")) == 0
		       ? (pid_t) strtol(pid, NULL, 10)
		       : 0;
}

/* What its program went to the background as, before a pid file told the supervisor. */
static pid_t find_forked(int root_fd, const char *name, pid_t supervisor)
{
	struct process_seen processes[PROCESSES_MAX];
	size_t count = processes_of_program(root_fd, name, processes, ARRAY_SIZE(processes));

	for (size_t i = 0; supervisor && i < count; i++)
		if (process_descends(root_fd, processes[i].pid, supervisor))
			return processes[i].pid;
	return 0;
}

/* A supervisor that was killed leaves its last word behind. */
static void correct_state(int root_fd, pid_t supervisor, struct daemon_line *daemon)
{
	char path[32];

	(void) snprintf(path, sizeof(path), "proc/%ld", daemon->pid);
	if (!daemon->pid || fs_exists(root_fd, path))
		return;
	daemon->pid = find_forked(root_fd, daemon->name, supervisor);
	if (!daemon->pid)
		(void) snprintf(daemon->state, sizeof(daemon->state), "gone");
}

static void print_history(const struct daemon_line *daemon)
{
	bool is_up = strcmp(daemon->state, "up") == 0;
	long left = daemon->again - (long) time(NULL);

	if (daemon->restarts == 1)
		(void) printf(", started again once");
	else if (daemon->restarts)
		(void) printf(", started again %ld times", daemon->restarts);
	if (*daemon->last_exit)
		(void) printf(", last ended with %s", daemon->last_exit);
	if (daemon->again)
		(void) printf(", the next start in %ld s", left > 0 ? left : 0);
	if (*daemon->why && !is_up)
		(void) printf(": %s", daemon->why);
}

static void print_ours(struct json *json, const struct daemon_line *daemon)
{
	if (!json) {
		(void) printf("daemon   %s: %s", daemon->name, daemon->state);
		if (daemon->pid)
			(void) printf(", process %ld", daemon->pid);
		print_history(daemon);
		(void) putchar('\n');
		return;
	}
	json_open(json, NULL, '{');
	json_text(json, "name", daemon->name);
	json_bool(json, "supervised", true);
	json_text(json, "state", daemon->state);
	json_number_or_null(json, "pid", daemon->pid ? daemon->pid : -1);
	json_number(json, "restarts", daemon->restarts);
	json_number(json, "since", daemon->since);
	json_text_or_null(json, "last_exit", daemon->last_exit);
	json_number_or_null(json, "again", daemon->again ? daemon->again : -1);
	json_text_or_null(json, "why", daemon->why);
	json_close(json, '}');
}

static void print_other(struct json *json, const char *name, const struct process_seen *process)
{
	if (!json) {
		char text[POD_TEXT_SIZE] = "the host's";

		if (process->in_pod)
			pod_text(&process->pod, text);
		(void) printf("daemon   %s: process %d, %s: none of Slipway's roles started it\n",
			name, (int) process->pid, text);
		return;
	}
	json_open(json, NULL, '{');
	json_text(json, "name", name);
	json_bool(json, "supervised", false);
	json_text(json, "state", "running");
	json_number(json, "pid", process->pid);
	json_bool(json, "in_pod", process->in_pod);
	json_close(json, '}');
}

static bool is_supervised(const char *text, pid_t pid)
{
	struct daemon_line daemon;

	while (daemon_line_next(&text, &daemon))
		if (daemon.pid == pid)
			return true;
	return false;
}

/* What somebody else started: the host, or another container. */
static size_t print_others(int root_fd, struct json *json, const char *text, pid_t supervisor)
{
	struct process_seen processes[PROCESSES_MAX];
	size_t told = 0;

	for (size_t i = 0; i < ARRAY_SIZE(known_daemons); i++) {
		size_t count = processes_of_program(
			root_fd, known_daemons[i], processes, ARRAY_SIZE(processes));

		for (size_t j = 0; j < count; j++) {
			if (is_supervised(text, processes[j].pid) ||
				(supervisor &&
					process_descends(root_fd, processes[j].pid, supervisor)))
				continue;
			print_other(json, known_daemons[i], &processes[j]);
			told++;
		}
	}
	return told;
}

void status_daemons(int root_fd, struct json *json)
{
	_cleanup_free_ char *text = daemon_lines_read(root_fd);
	pid_t supervisor = find_supervisor(root_fd);
	struct daemon_line daemon;
	const char *rest = text;
	size_t told = 0;

	if (json)
		json_open(json, "daemons", '[');
	for (; daemon_line_next(&rest, &daemon); told++) {
		correct_state(root_fd, supervisor, &daemon);
		print_ours(json, &daemon);
	}
	told += print_others(root_fd, json, text, supervisor);
	if (json)
		json_close(json, ']');
	else if (!told)
		(void) printf("daemons  none runs\n");
}
