/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "common/fs.h"
#include "entrypoint/status/daemon_line.h"
#include "entrypoint/status/part.h"
#include "entrypoint/status/processes.h"

/* All that a driver may come with; nvidia-imex has a part of its own (imex.c). */
static const char *const known_daemons[] = { "nvidia-persistenced", "nv-fabricmanager", "nvlsm",
	"nvidia-gridd", "nvidia-topologyd" };

/* A supervisor that was killed leaves its last word behind. */
static void correct_state(int root_fd, struct daemon_line *daemon)
{
	char path[32];

	(void) snprintf(path, sizeof(path), "proc/%ld", daemon->pid);
	if (daemon->pid && !fs_exists(root_fd, path)) {
		(void) snprintf(daemon->state, sizeof(daemon->state), "gone");
		daemon->pid = 0;
	}
}

static void print_ours(struct json *json, const struct daemon_line *daemon)
{
	if (!json) {
		(void) printf("daemon   %s: %s", daemon->name, daemon->state);
		if (daemon->pid)
			(void) printf(", process %ld", daemon->pid);
		if (daemon->restarts)
			(void) printf(", started again %ld times, last ended with %s",
				daemon->restarts, daemon->last_exit);
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
	json_text(json, "last_exit", daemon->last_exit);
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
static size_t print_others(int root_fd, struct json *json, const char *text)
{
	struct process_seen processes[PROCESSES_MAX];
	size_t told = 0;

	for (size_t i = 0; i < ARRAY_SIZE(known_daemons); i++) {
		size_t count = processes_of_program(
			root_fd, known_daemons[i], processes, ARRAY_SIZE(processes));

		for (size_t j = 0; j < count; j++) {
			if (is_supervised(text, processes[j].pid))
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
	struct daemon_line daemon;
	const char *rest = text;
	size_t told = 0;

	if (json)
		json_open(json, "daemons", '[');
	for (; daemon_line_next(&rest, &daemon); told++) {
		correct_state(root_fd, &daemon);
		print_ours(json, &daemon);
	}
	told += print_others(root_fd, json, text);
	if (json)
		json_close(json, ']');
	else if (!told)
		(void) printf("daemons  none runs\n");
}
