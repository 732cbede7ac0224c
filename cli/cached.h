/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An output in the cache: a folder under a key that hashes all that goes into it, made by the run
 * that needs it first. Others who need it meanwhile wait.
 */
#pragma once

#include "cli/context.h"
#include "common/hash.h"

struct cached {
	char key[HASH_HEX_SIZE];
	char *path; /* absolute; NULL until cached_finish_key() */
	bool ran;   /* made by this run of the program */
};

/* Places that the producer of an output writes to. */
struct stage_place {
	const char *folder; /* the output, absolute; renamed to its place when it is whole */
	const char *log;    /* a file for what the programs print */
	const char *key;
};

/* How an output is made. */
struct cached_maker {
	const char *name; /* in the cache and in messages */
	int (*run)(void *data, const struct stage_place *place, struct error *error);
	void *data;
	/* Is what the output stands for outside the cache (an image) still there? NULL: yes. */
	bool (*still_there)(const char *path);
};

/* A hash for the key of the output @name; what goes into the output is added to it. */
struct hash *cached_start_key(const char *name);
/* Takes the hash, and sets key and path. */
void cached_finish_key(
	struct cached *cached, const struct context *context, const char *name, struct hash *hash);

/* Adds a file or folder below the data folder to a key; one that is absent counts as such. */
int cached_add_data(const struct context *context, const char *path, struct hash *hash,
	struct error *error) _must_check_;

/* Is it there? Then it counts as used now. */
bool cached_is_there(const struct context *context, const struct cached *cached,
	bool (*still_there)(const char *path));

/* Makes it, unless another run has in the meantime; with progress. */
int cached_make(struct cached *cached, struct context *context, const struct cached_maker *maker,
	struct error *error) _must_check_;

void cached_free(struct cached *cached);
