/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work done side by side in processes of its own: a PF that takes its time does not keep the others
 * waiting. What a job has to say goes to the process that started it all, through one pipe; a job
 * that dies is told as a failure, and so does everything below a worker that is killed.
 */
#pragma once

#include <stddef.h>

#include "common/error.h"
#include "entrypoint/netstate/network.h"

struct crew;

/* Runs in a process of its own, as its own jobs may again. */
typedef void crew_job(void *context, size_t index, struct crew *crew);

/* What became of a job. CREW_LOST: it was not tried to its end, for whatever reason. */
enum crew_fate { CREW_LOST, CREW_DONE, CREW_ABSENT };

/*
 * Runs @count jobs, at most @width of them at a time, and waits for all. Notes and failures are
 * told to @network as they come, and added to @result. @fates: [count], CREW_LOST until a job says
 * something else by crew_end(); may be NULL.
 */
int crew_run(const struct network *network, struct network_result *result, size_t count,
	unsigned width, crew_job *job, void *context, enum crew_fate *fates, struct error *error);

/* The same inside of a job. */
void crew_share(struct crew *crew, size_t count, unsigned width, crew_job *job, void *context);

/* One line each. */
void crew_tell(struct crew *crew, const char *format, ...) _printf_(2, 3);
void crew_fail(struct crew *crew, const char *format, ...) _printf_(2, 3);
/* Adds to what came back. */
void crew_count(struct crew *crew, unsigned devices, unsigned vfs);
/* Of a job of crew_run(), at its end. */
void crew_end(struct crew *crew, size_t index, enum crew_fate fate);
