/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking one repository for its lists, in rounds, so that index.c can fetch what all repositories
 * want next in one go: a kind of repository says what it wants, looks at what came, and wants more
 * or is done. Jobs share nothing but what they only read: what came is looked at in threads.
 */
#pragma once

#include <stdbool.h>

#include "kernels/repo/digest_internal.h"
#include "kernels/repo/index.h"

struct index_job;

struct index_kind {
	/* Wants the files of the first round. */
	int (*start)(struct index_job *job, struct error *error);
	/* Looks at the files that were wanted; wants others, or sets @done. */
	int (*take)(struct index_job *job, struct error *error);
	void (*free)(struct index_job *job);
};

extern const struct index_kind index_kind_apt;
extern const struct index_kind index_kind_rpm_md;

struct index_job {
	const struct index_kind *kind;
	const struct index_request *request;
	const struct index_options *options;
	const struct digest *known; /* what the cache has of it, or NULL */
	struct mirror_credentials credentials;
	int work_fd;                 /* a folder of its own */
	struct download_file *files; /* of this round */
	size_t file_count;
	void *state;    /* the kind's */
	bool restarted; /* the mirror was caught in the middle of an update: not twice */
	bool done;
	bool unchanged; /* @known is what the mirror has */
	bool absent;    /* the mirror has no such list */
	struct digest made;
	int result;
	struct error error;
};

/* One file that a job wants. */
struct wanted_file {
	const char *path;   /* below the repository's base URL */
	const char *name;   /* in the job's folder */
	const char *sha256; /* or NULL */
	uint64_t size_bytes;
	uint64_t limit_bytes;
	bool conditional; /* not when it is as @known has it */
};

int index_job_want(
	struct index_job *job, const struct wanted_file *wanted, struct error *error) _must_check_;
/* Forgets the files of the last round. */
void index_job_forget_files(struct index_job *job);

/* Everything anew, without conditions. @why is the message when that was tried before. */
int index_job_restart(
	struct index_job *job, int code, const struct error *why, struct error *error) _must_check_;

/* What the first file of a list tells of itself: hash and answers of the server. */
int index_job_take_head(struct index_job *job, const struct download_file *file, const char *name,
	struct error *error) _must_check_;

/* Is that the first file that @known was made of? */
bool index_job_is_known(const struct index_job *job);

/* Is the package of this name worth keeping? */
bool index_keeps(const struct strv *keep, const char *name);

/*
 * -EKEYREJECTED when a list that must be of today is past its Valid-Until, and neither the
 * repository (an archive) nor the options let that be.
 */
int index_check_expiry(const struct index_request *request, const struct index_options *options,
	int64_t valid_until_s, struct error *error) _must_check_;
