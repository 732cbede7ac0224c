/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Logs what the init does: a line on stderr and an object in a JSON-lines file for each event, and
 * a status file that is replaced whole. Nothing here fails a start: a log that cannot be written is
 * reported once on stderr.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/error.h"
#include "entrypoint/engine/reason.h"

/* A kubelet reads a container's termination message here and cuts it at 4096 bytes. */
#define LOG_TERMINATION      "dev/termination-log"
#define LOG_TERMINATION_SIZE 4096

#define LOG_PATH_SIZE 128
#define LOG_PHASES    40 /* steps of a start whose durations are kept */

/*
 * nvidia-peermem was loaded after OFED came: the duration is that from OFED being there to the
 * module being live. Status and metrics count these events.
 */
#define LOG_EVENT_PEERMEM "peermem"

struct log_phase {
	const char *step;
	uint64_t us;
};

struct log {
	int root_fd;
	const char *role;   /* "gpu", "nic", "peermem", "gds", "gdrcopy", "build" */
	const char *folder; /* of the state files, relative to root_fd */
	uint64_t start_us;  /* CLOCK_MONOTONIC of the start of this process */
	int events_fd;      /* -1 while the file cannot be written */
	size_t events_size; /* written to it */
	/* Events and the status are composed here, one after the other; NULL before the first. */
	FILE *stream;
	char *text;
	size_t text_size;
	/* In the status file. */
	const char *state; /* starting; ready or done; stopping, stopped; failing, failed */
	const char *step;  /* running now, or "" */
	char detail[ERROR_TEXT_SIZE];
	char proof[ERROR_TEXT_SIZE]; /* the load proof's verdict, or "" */
	enum reason reason;
	uint64_t ready_us;                   /* from start to ready, or 0 */
	struct log_phase phases[LOG_PHASES]; /* the steps of the start that are done */
	size_t phase_count;
	unsigned peermem_loads; /* LOG_EVENT_PEERMEM: how many, and the last one's duration */
	uint64_t peermem_us;
	/* Called when state, reason or what is waited for changed; set by the role, or NULL. */
	void (*changed)(const struct log *log);
};

/* Sets whose log it will be; the clock starts. No file is touched. The strings are borrowed. */
void log_prepare(struct log *log, int root_fd, const char *role, const char *folder);
/* Opens the event file in the folder, which is made; the file of the start before is kept as ".1".
 */
void log_open(struct log *log);
/* Also of one that was never opened: it put its texts together in memory. */
void log_close(struct log *log);

/*
 * Something happened in a step. @event is a short verb phrase that stays stable; @message may be
 * "". The @step of "done" must outlive the log, which keeps how long it took.
 */
void log_event(struct log *log, const char *event, const char *step, uint64_t duration_us,
	enum reason reason, const char *message);

/*
 * The event "gave up", after which the container ends: for people its line ends with the command
 * that knows the cure.
 */
void log_gave_up(struct log *log, enum reason reason, const char *message);

#define LOG_MORE_SIZE 64
/* That command, for a line that is printed without a log. Returns @more. */
const char *log_more(enum reason reason, char more[LOG_MORE_SIZE]);

/* Changes the state and rewrites the status file. The strings must outlive the log. */
void log_state(struct log *log, const char *state, const char *step);

/*
 * The step that runs now; the string must outlive the log. @write_now: to the status file, as after
 * a step that waited. Otherwise its next writing has it: a start has many steps that are over
 * before it could be read that they run, and a file is made for each writing.
 */
void log_step(struct log *log, const char *step, bool write_now);

/* Sets what is waited for or went wrong, and rewrites the status file. */
void log_detail(struct log *log, enum reason reason, const char *detail);

/* Sets the load proof's verdict, for the status and the container's termination message. */
void log_proof(struct log *log, const char *verdict);

/* Writes the container's termination message for the kubelet: reason code, colon, message. */
void log_termination(const struct log *log, enum reason reason, const char *message);
