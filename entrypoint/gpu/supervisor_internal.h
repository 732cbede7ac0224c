/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts daemons one after the other, starts again what ends by itself (after
 * 1 s, doubling up to 60 s), stops them in reverse order with SIGTERM and then SIGKILL, and keeps a
 * file that says how each of them is. It knows nothing of the GPU role.
 *
 * That file has a line for each daemon, in the order of their start:
 *   name pid state restarts since last-exit again why
 * with pid 0 when none runs; state one of off, starting, up, done, waiting, stopping; since in
 * seconds since 1970; last-exit "exit:N", "signal:N", "late" (it was not up in time), "unable" (its
 * program could not be started) or "-" (none ended yet); again: when one that is waiting is started
 * again, in seconds since 1970, else 0; why: up to the end of the line, how it ended last and the
 * last line of its log, "" when none ended yet. What is read out of this file has to cope with
 * less.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/error.h"
#include "common/strv.h"
#include "entrypoint/engine/events.h"
#include "entrypoint/engine/log.h"

#define SUPERVISOR_DAEMONS 6

/* A start gives up on a daemon that is needed after as many failures. */
#define SUPERVISOR_TRIES 3

/* How long a killed daemon may take to leave the system call that it is in. */
#define SUPERVISOR_KILL_MS 2000u

/* From SIGTERM to SIGKILL for what a daemon left behind. */
#define SUPERVISOR_ORPHANS_MS 5000u

/* The output of the daemons: a folder of the host, relative to the root, "<name>.log" each. */
#define DAEMON_LOG_FOLDER "var/log/slipway"

enum daemon_state {
	DAEMON_OFF,      /* not started yet, or stopped */
	DAEMON_STARTING, /* its program runs, and is not up */
	DAEMON_UP,
	DAEMON_DONE,     /* a command of the start that ran, well or not */
	DAEMON_WAITING,  /* ended by itself: started again supervisor_backoff_ms() later */
	DAEMON_STOPPING, /* got SIGTERM */
};

struct daemon {
	/* Set by the caller of supervisor_add(). Strings are borrowed, paths relative to the root.
	 */
	const char *name;
	struct strv argv;     /* argv[0] is an absolute path; owned */
	const char *variable; /* "NAME=value" on top of our environment, or NULL */
	const char *pid_file; /* names the daemon when it forks; or NULL */
	const char *socket;   /* is there when the daemon serves; or NULL */
	bool forks;           /* the program goes to the background by itself and returns */
	bool once;            /* a command that has to run to its end, not a daemon */
	bool needed;          /* without it the node is not ready */
	uint32_t start_ms;    /* it has to be up by then */
	uint32_t settle_ms;   /* one that runs without its socket or pid file counts as up then */
	uint32_t stop_ms;     /* from SIGTERM to SIGKILL */
	/* The daemon's state. */
	enum daemon_state state;
	pid_t program;     /* what was started, as long as it runs */
	pid_t pid;         /* the daemon itself, as long as it runs; 0 */
	int status;        /* of what ended last, as waitpid() gives it */
	bool killed;       /* by us, when SIGTERM was not enough */
	uint64_t since_ms; /* CLOCK_MONOTONIC of the last change of state */
	int64_t since;     /* the same as seconds since 1970 */
	unsigned failures; /* in a row */
	unsigned restarts;
	char why[512];      /* the last failure, in words */
	char last_exit[32]; /* "exit:1", "signal:9", "late", or "" */
};

struct supervisor {
	struct daemon daemons[SUPERVISOR_DAEMONS];
	size_t count;
	int root_fd;
	const char *state_file; /* relative to the root */
	struct events *events;
	struct log *log;
	uint64_t orphans_since_ms; /* CLOCK_MONOTONIC of their SIGTERM; 0: none are waited for */
};

/*
 * How long after the @failures-th failure in a row a daemon is started again: 1 s, doubling, at
 * most 60 s.
 */
uint32_t supervisor_backoff_ms(unsigned failures);

/*
 * Makes the process the one that orphans below it come to: daemons fork. Ended children are
 * reported by @supervisor->events from now on. The fields from root_fd on are set by the caller.
 */
void supervisor_open(struct supervisor *supervisor);
/* Zeroes it. */
void supervisor_close(struct supervisor *supervisor);

/* A new daemon, zeroed, that starts after those before it: SUPERVISOR_DAEMONS at most. */
struct daemon *supervisor_add(struct supervisor *supervisor, const char *name);

/*
 * To be asked after each event: starts them in order, each when the one before it is up, failed
 * without being needed, or done; the last one is waited for only if it is needed. 0: all are on
 * their way. 1: not yet, @error says what is waited for. Negative: a needed one failed too often,
 * @error says how. Alarms are set in the events.
 */
int supervisor_start(struct supervisor *supervisor, struct error *error);

/*
 * To be asked after each event, once started: starts again what ended and is due. Lowers *wake_ms
 * (CLOCK_MONOTONIC) to when it has to be asked again.
 */
void supervisor_look(struct supervisor *supervisor, uint64_t *wake_ms);

/*
 * To be asked after each event: ends them in reverse order, then whatever they left behind. 0: all
 * ended, or the kernel holds what is left. 1: not yet, @error says what is waited for.
 */
int supervisor_stop(struct supervisor *supervisor, struct error *error);

/* The first daemon that is needed and not up; NULL when all are. */
const struct daemon *supervisor_lacks(const struct supervisor *supervisor);
