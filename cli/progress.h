/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows a build's progress to people and programs. On a terminal: one line per stage, with its
 * elapsed time, updated in place twice a second. Elsewhere: one plain line per change, and one a
 * minute without any. With JSON: one object per line on stdout and nothing of this on stderr.
 *
 * While a stage runs in this process, a thread keeps its line up to date, whatever the stage waits
 * for. Only one stage of a process runs at a time, whatever progress it is shown by.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "kernels/fetch/download.h"

/* Printed before what takes the place of the terminal's line. */
#define PROGRESS_ERASE "\r\033[K"

/* A stage that runs. Of stages that run at once they are in memory that their processes share. */
struct progress_stage {
	char name[32];     /* "": none runs */
	char step[160];    /* what it is at */
	char result[24];   /* as progress_end() has it */
	size_t compiled;   /* files so far */
	size_t to_compile; /* that its last run had compiled; 0: not known */
	uint64_t started_ms;
	uint64_t ended_ms;    /* 0: it has not */
	uint64_t reported_ms; /* when a plain line, or an event about files, was last written */
};

struct progress {
	FILE *text; /* people's lines; NULL with JSON */
	FILE *json; /* events; NULL without */
	bool terminal;
	bool verbose; /* each step and each file has a line of its own */
	struct progress_stage own;
	struct progress_stage *stage; /* that this process works on; NULL: own */
	/* One of several processes: another one draws the terminal's lines, and prints notes. */
	int notes_fd;
	bool in_table;
	size_t table_lines; /* that stand on the terminal */
	size_t to_make;     /* stages of the plan; 0: there is none yet */
	size_t made;        /* of these */
	uint64_t first_ms;  /* of the whole */
	uint64_t drawn_ms;  /* when the terminal's lines were last drawn */
};

void progress_start(struct progress *progress, bool json);

/* Does a stage run here? Its name, or NULL. */
const char *progress_stage_name(const struct progress *progress);
void progress_begin(struct progress *progress, const char *stage);
/* How many files the stage will compile, by what its last run did. */
void progress_expect(struct progress *progress, size_t to_compile);
/* Sets the step that it is at, without a line of its own in a log. */
void progress_at(struct progress *progress, const char *text);
/* The stage's next step. */
void progress_step(struct progress *progress, const char *text);
/*
 * One more file is compiled: on a terminal at once, as an event once a second, as a plain line now
 * and then.
 */
void progress_compiled(struct progress *progress, const char *file);
/*
 * Something is still going on: keeps the elapsed time on a terminal moving, and elsewhere a line a
 * minute has it, and what the stage is at, where there was no other.
 */
void progress_tick(struct progress *progress);
/* @result: "done", "made by another run" or "failed". */
void progress_end(struct progress *progress, const char *result);

/* After a failure in the middle of a stage: what is printed next begins a line of its own. */
void progress_abandon(struct progress *progress);

/* Instead of progress_end(): the line is gone, and nothing is said of the stage. */
void progress_hide(struct progress *progress);
/* Between these two no line moves: a question is on the terminal. */
void progress_hold(void);
void progress_release(void);

/* A line of the stage's that only --verbose shows. */
void progress_detail(struct progress *progress, const char *text);

/* A line beside the stages: a warning, or where things are. */
void progress_note(struct progress *progress, const char *text);
void progress_notef(struct progress *progress, const char *format, ...) _printf_(2, 3);

/*
 * For struct download_options, with the progress as context: bytes, speed and time left in the
 * terminal's line, once a second as an event, now and then as a plain line; and attempts that
 * failed.
 */
void progress_on_download(void *progress, const struct download_progress *download);
void progress_on_retry(void *progress, const char *url, const char *why, unsigned int wait_ms);

/*
 * ---- stages that run at once. The process that waits for them calls progress_table() at least
 * once a second: on a terminal it draws a line for each of @stages and one for all; elsewhere it
 * prints a line for a stage of which there was none for a minute.
 */
void progress_table(struct progress *progress, struct progress_stage *stages, size_t count);
/* Its process has ended: its last line. */
void progress_table_end(struct progress *progress, struct progress_stage *stage);
/* In a new process, which works on @stage; on a terminal its notes go to @notes_fd. */
void progress_split(struct progress *progress, struct progress_stage *stage, int notes_fd);
/* A stage whose process ended without a word: says that it failed. progress_table_end() follows. */
void progress_table_lost(struct progress *progress, struct progress_stage *stage);
/* Prints what came out of the other end of @notes_fd, above the table. */
void progress_table_notes(struct progress *progress, const char *text, size_t size);

uint64_t progress_elapsed_ms(const struct progress *progress);
