/* SPDX-License-Identifier: Apache-2.0 */
/* One file of a download: its attempts, one at a time, and what became of them. */
#pragma once

#include <curl/curl.h>

#include "kernels/fetch/partial_internal.h"

struct transfer {
	struct download_file *file; /* gets the result */
	const struct download_options *options;
	struct partial partial;
	bool is_open; /* the partial is */
	CURL *easy;
	struct curl_slist *headers;
	char *entity;               /* strong ETag of what has come: for If-Range; or NULL */
	char text[CURL_ERROR_SIZE]; /* libcurl's own words */
	unsigned int attempts;      /* that were begun */
	char *location;             /* that the server redirects to; NULL: the file's own URL */
	unsigned int redirects;     /* that were followed from there */
	bool left_home;             /* one of them led to another scheme, host or port */
	bool went_back;             /* to the first byte, after what was resumed had proved wrong */
	/* Of the attempt that runs. */
	bool running;
	bool begun;           /* the body has */
	bool stalled;         /* ended by us */
	int write_result;     /* why the body was not taken, with file->error */
	uint64_t asked_bytes; /* of the range that was asked for, its start */
	uint64_t received_bytes;
	size_t page_bytes;        /* of the page that came with a redirect */
	uint64_t announced_bytes; /* how long the whole file is, by the server; 0: not known */
	uint64_t mark_ms;         /* when received_bytes was mark_bytes */
	uint64_t mark_bytes;
	/* After it. */
	bool finished;      /* file->result is what it stays */
	uint64_t resume_ms; /* on the monotonic clock: when to try again */
};

/*
 * Makes ready for the next attempt. A file: URL is read at once, and whatever else needs no network
 * is settled: then transfer->finished.
 */
void transfer_prepare(struct transfer *transfer);

/* Judges an attempt that has ended: transfer->finished, or transfer->resume_ms is set. */
void transfer_judge(struct transfer *transfer, CURLcode code);

/*
 * Redirects (transfer_redirect.c). Is the answer one? Going on to where it leads is no new attempt;
 * -EHOSTUNREACH after too many of them, or where it leads to no URL that can be fetched.
 */

/* Has too little come for too long? */
bool transfer_is_stalled(struct transfer *transfer, uint64_t now_ms);

/* Ends it with file->result, and closes what is open. */
void transfer_finish(struct transfer *transfer, int result);
void transfer_done(struct transfer *transfer);
