/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One daemon of a vendor: how it is started, what tells that it is up, and what became of it. The
 * supervisor (supervisor.h) decides when; here is the how.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/error.h"
#include "common/strv.h"

/* The output of the daemons: a folder of the host, relative to the root, "<name>.log" each. */
#define DAEMON_LOG_FOLDER "var/log/slipway"

enum daemon_state {
	DAEMON_OFF,      /* not started yet, or stopped */
	DAEMON_STARTING, /* its program runs, and is not up */
	DAEMON_UP,
	DAEMON_DONE,     /* a command of the start that ran, well or not */
	DAEMON_WAITING,  /* ended by itself: started again at again_ms */
	DAEMON_STOPPING, /* was told to end */
};

struct daemon {
	/* Said by whoever declares it. Strings are borrowed. Paths are relative to the root. */
	const char *name;
	struct strv argv;     /* argv[0] is an absolute path; owned */
	const char *variable; /* "NAME=value" on top of our environment, or NULL */
	const char *pid_file; /* names the daemon when it forks; or NULL */
	const char *socket;   /* is there when the daemon serves; or NULL */
	bool forks;           /* the program goes to the background by itself and returns */
	bool once;            /* a command that has to run to its end, not a daemon */
	bool needed;          /* without it the node is not ready */
	uint32_t start_ms;    /* it has to be up by then */
	uint32_t settle_ms;   /* one that lives without its socket or pid file counts as up then */
	uint32_t stop_ms;     /* from SIGTERM to SIGKILL */
	/* What became of it. */
	enum daemon_state state;
	pid_t program;     /* what was started, as long as it runs */
	pid_t pid;         /* the daemon itself, as long as it runs; 0 */
	int status;        /* of what ended last, as waitpid() gives it */
	bool ended;        /* program or daemon did, since the last look */
	bool killed;       /* by us, when SIGTERM was not enough */
	uint64_t since_ms; /* CLOCK_MONOTONIC of the last change of state */
	int64_t since;     /* the same as seconds since 1970 */
	uint64_t again_ms; /* DAEMON_WAITING: when it is started again */
	unsigned failures; /* in a row */
	unsigned restarts;
	char why[512];      /* the last failure, in words */
	char last_exit[32]; /* "exit:1", "signal:9", "late", or "-" */
};

/*
 * How long after the @failures-th failure in a row a daemon is started again: 1 s, doubling, at
 * most 60 s.
 */
uint32_t daemon_backoff_ms(unsigned failures);

/*
 * Starts the program: its own session, no signal blocked, output in its log, which begins anew (the
 * one before is kept as ".1"). Folders of its pid file and socket are made, stale ones removed.
 * -EBUSY when such a daemon runs already that is not this container's.
 */
int daemon_spawn(struct daemon *daemon, int root_fd, struct error *error);

/* Takes note of an ended child; false when it is none of this daemon's. */
bool daemon_hear(struct daemon *daemon, pid_t pid, int status);

/*
 * Is a starting daemon up? 1: yes. 0: not yet. Negative: it failed, and @error says how. @now_ms is
 * CLOCK_MONOTONIC.
 */
int daemon_check(struct daemon *daemon, int root_fd, uint64_t now_ms, struct error *error);

/* When daemon_check() has to be asked again even if nothing happens. */
uint64_t daemon_check_at(const struct daemon *daemon);

/* Finds the daemon of a program that has not come so far as to return, by its pid file. */
void daemon_find(struct daemon *daemon, int root_fd);

/* Signals all that is known of it. */
void daemon_signal(const struct daemon *daemon, int signal);

/* How the last process ended, to @text: "exit code 1", "signal 9 (Killed)". */
void daemon_explain(const struct daemon *daemon, char text[64]);

/* The last line that it wrote to its log, "" when there is none. */
void daemon_last_words(const struct daemon *daemon, int root_fd, char text[256]);
