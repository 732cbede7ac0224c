/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collector of `slipway probe` on a node; slipway-probe(1) describes the probe. It starts no
 * program, writes nothing on the node but the probe, and reads everything below one root, so that
 * a mounted system can be examined as well; unknown values are null in probe.json.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/error.h"
#include "common/strv.h"
#include "kernels/local/scan.h"
#include "kernels/probe/probe.h"

/* --headers=auto leaves out headers bigger than this. */
#define PROBE_HEADERS_LIMIT_BYTES ((uint64_t) 256 << 20)

enum probe_headers {
	PROBE_HEADERS_AUTO,
	PROBE_HEADERS_YES,
	PROBE_HEADERS_NO,
};

struct probe_request {
	const char *root; /* absolute; "/" for the system that runs */
	bool live;        /* that is this machine's own: its /proc and /sys are of what runs */
	const char *krel; /* NULL: the kernel that runs, or the only one there is */
	enum probe_headers headers;
};

/* A text of the node's; all is NULL where none was found. */
struct node_file {
	char *text;
	char *from;
	size_t size;
};

struct node {
	const char *root;
	int root_fd;
	bool live;    /* the root of this machine itself */
	bool running; /* this very kernel runs: /proc and /sys speak of it */
	char *krel;
	char *host;                 /* its name, to be removed from texts; NULL: not known */
	struct node_file config;    /* of the kernel */
	struct node_file symvers;   /* not with headers, which have it */
	struct local_files headers; /* empty: none, for this reason: */
	char *headers_from;
	char *headers_reason;
	uint64_t headers_bytes;
};

/*
 * Looks at everything but devices, modules and security. -ENODATA when
 * the root has no kernel, -ENOTUNIQ when it has several and none runs, -EACCES where root's rights
 * are missing, -EINVAL when headers are asked for (PROBE_HEADERS_YES) that are not complete.
 */
int node_open(
	const struct probe_request *request, struct node *ret, struct error *error) _must_check_;
void node_free(struct node *node);

/* Writes probe.json. */
int node_write_manifest(const struct node *node, FILE *file) _must_check_;

/* Writes the whole probe to @fd. *ret_size (may be NULL) is its size in bytes. */
int node_write_probe(
	const struct node *node, int fd, uint64_t *ret_size, struct error *error) _must_check_;
