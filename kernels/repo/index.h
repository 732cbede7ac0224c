/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The package lists of repositories: fetched, their signature and hashes checked, and what is worth
 * remembering of them (kernel_rules.keep) digested into a small file in the cache.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "kernels/catalogue.h"
#include "kernels/fetch/download.h"
#include "kernels/repo/mirrors.h"
#include "kernels/repo/package.h"

/* Lists younger than this are not asked for again without --refresh. */
#define INDEX_MAX_AGE_S (6L * 60 * 60)

struct index_request {
	const struct repository *repository;
	const struct mirror *mirror; /* for its credentials */
	const char *url;             /* the repository's base, from mirrors_url() */
	const char *arch;            /* as uname -m prints it */
	bool for_tools; /* only packages of programs that compiling runs are of interest */
	const struct strv *keep;
};

struct index_options {
	struct download *download; /* knows about offline, proxies and progress */
	int folder_fd;             /* the cache's "indexes" */
	bool refresh;
	bool allow_unsigned; /* a signature that cannot be checked is a warning; a wrong one never
				is */
	bool allow_expired;  /* so is the Valid-Until of a live suite when it has passed */
	const char *keyring; /* --keyring: instead of the catalogue's; or NULL */
};

/* How asking one repository went. */
struct index {
	const struct index_request *request; /* borrowed */
	int result; /* 0, or why there are no packages of it, with @error */
	struct error error;
	char *warning;            /* "the list is 3 days old: …", or NULL */
	char *release_sha256;     /* of InRelease or repomd.xml */
	char *date;               /* that it gives itself (RFC 2822 or seconds), or "" */
	char *signer;             /* fingerprint of the key that signed it; "" for none */
	uint64_t listed;          /* packages in the list; those below are the kept ones */
	bool not_automatic;       /* its packages are only taken on request, as backports are */
	struct package *packages; /* sorted by name, then version */
	size_t count;
};

/*
 * Opens all lists at once; *ret has @count entries in the same order. A repository that fails has
 * its @result and does not keep others from being asked: -EKEYREJECTED (signature wrong, missing,
 * or no key to check it), -EBADMSG (hash wrong), -EPROTO (list cut or malformed), -EADDRNOTAVAIL
 * (no such list at the mirror: 404), -ETIMEDOUT, -EHOSTUNREACH, -ENETDOWN (offline and not in the
 * cache), -ENOSPC. Returns negative only when nothing could be asked at all.
 */
int indexes_open(const struct index_options *options, const struct index_request *requests,
	size_t count, struct index **ret, struct error *error) _must_check_;
void indexes_free(struct index **indexes, size_t count);

/* The first of the packages with this name; the others follow. NULL when there is none. */
const struct package *index_find(const struct index *index, const char *name);
