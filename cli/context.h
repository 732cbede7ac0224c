/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State that every verb works with: the cache, the data folder, the distribution with its mirrors,
 * and the downloads. A verb opens only what it uses, in this order: context_open(),
 * context_choose_os(), then context_download() when something may have to be fetched.
 */
#pragma once

#include "cli/cache/cache.h"
#include "cli/options.h"
#include "cli/exit_code.h"
#include "cli/progress.h"
#include "kernels/catalogue.h"
#include "kernels/fetch/download.h"
#include "kernels/repo/index.h"
#include "kernels/repo/mirrors.h"
#include "kernels/resolve/resolve.h"

struct context {
	const struct common_options *options; /* borrowed */
	struct cache cache;
	struct progress progress;
	char *data;             /* folder of recipes and the like */
	char *catalogues;       /* data/kernels/catalogue */
	const char *arch;       /* of the target, as uname -m prints it */
	const char *date;       /* $SOURCE_DATE_EPOCH, of the driver images; NULL: unset */
	struct catalogue os;    /* its os is NULL until context_choose_os() */
	struct mirrors mirrors; /* of that os; empty until context_mirrors() */
	bool has_mirrors;
	struct download *download; /* NULL until context_download() */
	int unreached_key;      /* why a key could not be fetched: the network, as an errno; or 0 */
	enum exit_code failure; /* of what failed, by context_fail(); else EXIT_CODE_OK */
};

/* The distribution of --kernel newest when nothing else names one. */
#define CONTEXT_DEFAULT_OS "debian12"

#define CONTEXT_CLOSED                                                                             \
	{                                                                                          \
		.cache = {.fd = -1, .run_lock_fd = -1 }                                            \
	}

/* Finds the data folder and opens the cache. */
int context_open(const struct common_options *options, struct context *ret,
	struct error *error) _must_check_;
void context_close(struct context *context);

/*
 * Begins to show progress, as the options say; @events: with --json that goes to stdout, as events,
 * where the verb's answer is the last one of them.
 */
void context_show_progress(struct context *context, bool events);

/*
 * Reads $SOURCE_DATE_EPOCH, which makes images reproducible:
 * https://reproducible-builds.org/specs/source-date-epoch/. -EINVAL, as for the command line, when
 * it is not a number.
 */
int context_read_date(struct context *context, struct error *error) _must_check_;

/*
 * The distribution of --os, else @os, else the one that makes kernels such as @krel; either may be
 * NULL. -ENOTUNIQ when the release does not tell. -ENODATA when no distribution makes such, or for
 * an --os that is not known: both are the command line's fault. -EINVAL also for an --arch that the
 * release contradicts.
 */
int context_choose_os(struct context *context, const char *os, const char *krel,
	struct error *error) _must_check_;

/* The catalogue for a system's ID and VERSION_ID, freed by the caller; NULL when there is none. */
int context_find_os(const struct context *context, const char *id, const char *version_id,
	char **ret_os, struct error *error) _must_check_;

/*
 * Looks where the os's mirrors are; once. Offline no program is started for that: what apt says is
 * known as far as an earlier run has remembered it.
 */
int context_mirrors(struct context *context, struct error *error) _must_check_;

/* Opens the downloads, with the mirrors whose passwords and certificates they want; once. */
int context_download(struct context *context, struct error *error) _must_check_;

/*
 * Adds to a message about a kernel, in front of its cures, which other distributions make kernels
 * with such a release; nothing where the chosen one does, or none.
 */
void context_name_makers(const struct context *context, const char *krel, struct error *error);

/*
 * resolve() with this context's lists; opens the downloads.
 */
int context_resolve(struct context *context, struct resolve_request *request,
	struct resolve_answer *ret, struct error *error) _must_check_;

/* Every release that the os's lists have, oldest first: resolve_list(). */
int context_list(struct context *context, struct strv *krels, struct resolve_answer *ret,
	struct error *error) _must_check_;

/* Remembers the exit code for @r, @code where the errno alone does not tell. Returns @r. */
int context_fail(struct context *context, enum exit_code code, int r);
/* The same after a key, its password or its certificate could not be read. Returns @r. */
int context_fail_key(struct context *context, int r);

/* Returns the verb's exit code after one of these functions failed. */
enum exit_code context_exit_code(int error_number);
