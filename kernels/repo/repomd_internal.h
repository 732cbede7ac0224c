/* SPDX-License-Identifier: Apache-2.0 */
/*
 * repodata/repomd.xml and the primary list of rpm-md repositories, as createrepo_c(8) writes them.
 * http://createrepo.baseurl.org/
 */
#pragma once

#include <stdint.h>

#include "common/error.h"
#include "common/strv.h"
#include "kernels/repo/package.h"
#include "kernels/repo/stream_internal.h"
#include "kernels/repo/xml_internal.h"

/* Where the primary list is and what it must be. */
struct repomd {
	char *revision; /* seconds since 1970 or any other text; "" for none */
	char *path;     /* below the repository's base URL */
	enum stream_digest digest;
	char *hex;
	enum stream_digest open_digest;
	char *open_hex;           /* of what it unpacks to; "" for none */
	uint64_t size_bytes;      /* 0: not said */
	uint64_t open_size_bytes; /* likewise */
};

/*
 * @url: the repository's base, which a location's xml:base may repeat. -EPROTO for what is no
 * repomd.xml, has no primary list, or has it outside of the repository; -EKEYREJECTED when MD5 or
 * SHA-1 is all it names it by. The caller frees it.
 */
int repomd_parse(const char *text, size_t size, const char *name, const char *url,
	struct repomd *ret, struct error *error) _must_check_;
void repomd_free(struct repomd *repomd);

/*
 * The path below @url that a location names: @base is its xml:base or NULL. -EPROTO when that leads
 * out. The caller frees it.
 */
int repomd_location(
	const char *url, const char *base, const char *href, char **ret_path) _must_check_;

/* Reads a primary list, fed as a stream; keeps what is asked for in @packages. */
struct primary_request {
	const char *name; /* for messages */
	const char *url;
	const char *arch;        /* packages of this and of "noarch" are kept … */
	const struct strv *keep; /* … when their name starts with one of these */
	struct package_list *packages;
	uint64_t *listed; /* counts all */
};

struct primary;

/* NULL without memory. What @request points to must outlive it. */
struct primary *primary_new(const struct primary_request *request);
void primary_free(struct primary **primary);
/*
 * Errors of xml_reader_feed(); -EKEYREJECTED for a package to keep that has no SHA-256; -EPROTO for
 * one that package_check() refuses.
 */
int primary_feed(
	struct primary *primary, const char *data, size_t size, struct error *error) _must_check_;
/* The end. Sorts nothing. */
int primary_finish(struct primary *primary, struct error *error) _must_check_;
