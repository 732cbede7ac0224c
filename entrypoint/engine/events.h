/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slipway-init, and a worker that has to, waits here for more than one thing. Signals arrive
 * through a signalfd, files through inotify, modules through kernel uevents, the worker through its
 * socket, the ends of foreign processes through pidfds. A caller wakes periodically only for
 * changes without an event: the release of things in use (plan.c, rdma/peermem_role.c).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/error.h"

#define EVENT_STOP   (1u << 0) /* SIGTERM, SIGINT or SIGQUIT */
#define EVENT_CHILD  (1u << 1) /* children ended and were reaped */
#define EVENT_FILE   (1u << 2) /* something changed in a watched folder */
#define EVENT_KERNEL (1u << 3) /* a module came or went (or uevents were lost: look again) */
#define EVENT_WORKER (1u << 4) /* the worker's socket can be read */
#define EVENT_PID    (1u << 5) /* a watched process ended */
#define EVENT_TIME   (1u << 6) /* the deadline passed */

#define EVENTS_NEVER UINT64_MAX
#define EVENTS_PIDS  16

struct events {
	int signal_fd;
	int inotify_fd;
	int uevent_fd;
	int worker_fd;       /* borrowed from the worker that runs, or -1 */
	uint64_t alarm_ms;   /* CLOCK_MONOTONIC: events_wait() returns then, too; EVENTS_NEVER */
	unsigned pending;    /* EVENT_FILE and EVENT_KERNEL of all waits since role.c cleared it */
	pid_t worker_pid;    /* whose exit status the reaper keeps, or 0 */
	int worker_status;   /* as waitpid() gives it, once worker_pid is 0 again */
	unsigned stop_count; /* how many stop signals came so far */
	uint64_t stopped_ms; /* CLOCK_MONOTONIC: when the first of them was seen */
	int pid_fds[EVENTS_PIDS];
	unsigned pid_count;
	/* Called for every other child that ended, with its status as waitpid() gives it; or NULL.
	 */
	void (*child_ended)(void *context, pid_t pid, int status);
	void *child_context;
};

/*
 * Blocks the signals and opens the descriptors. To be called before anything else, so that no
 * signal is lost. Uevents reach every network namespace of the initial user namespace; where the
 * socket cannot be had, uevent_fd is -1 and EVENT_KERNEL never comes.
 */
int events_open(struct events *events, struct error *error);
void events_close(struct events *events);

/*
 * Watches the folder that holds @path (or, as long as that is absent, its nearest parent) for
 * names that come, change and go. Watching twice is harmless.
 */
int events_watch_file(struct events *events, const char *path);

/* Watches the end of a process; beyond EVENTS_PIDS, or without pidfds (Linux 5.3), does nothing. */
void events_watch_pid(struct events *events, pid_t pid);
void events_forget_pids(struct events *events);

/* Has the next waits end at @when_ms (CLOCK_MONOTONIC) at the latest, once: the earliest counts. */
void events_alarm(struct events *events, uint64_t when_ms);

/*
 * Sleeps until something happens or CLOCK_MONOTONIC passes @deadline_ms (EVENTS_NEVER: no limit),
 * reaps ended children, and returns what happened as EVENT_ bits. EVENT_KERNEL waits for the
 * worker's end: its own modules would wake us at each.
 */
unsigned events_wait(struct events *events, uint64_t deadline_ms);
