/* SPDX-License-Identifier: Apache-2.0 */
/* One place below the host's /etc, for hostfiles.c: what is there, and the steps from one state to
 * another. A journal entry is written before the first of them. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "entrypoint/nic/hostfiles.h"

enum place_state {
	PLACE_EMPTY,
	PLACE_OURS,    /* a link of ours */
	PLACE_MASKED,  /* a link to /dev/null */
	PLACE_FOREIGN, /* somebody's file or link */
	PLACE_NO_FILE, /* a folder, a device: nothing that we would touch */
};

struct place {
	const struct hostfiles *files;
	const char *path;
	char folder[PATH_MAX]; /* that it is in */
	char memory[PATH_MAX]; /* where its content lies, relative to the root */
	char kept[PATH_MAX];   /* the file that was there before */
	enum place_state state;
};

/* -ENAMETOOLONG, or what looking there says (-ENOENT is PLACE_EMPTY). */
int place_look(
	struct place *place, const struct hostfiles *files, const char *path, struct error *error);

/* Whether the content in memory is there and is what @hash is of. */
bool place_content_is(const struct place *place, uint64_t hash);
bool place_content_exists(const struct place *place);
/* FNV-1a of a text. */
uint64_t place_hash(const char *content);

/* Whether what is at the place is the very file that is kept: we came no further than keeping. */
bool place_is_kept_itself(const struct place *place);

/* The content goes into memory, what is at the place is kept, and the link replaces it. */
int place_put(struct place *place, const char *content, struct error *error);
/* What is kept takes the link's place again, or nothing does. */
int place_restore(struct place *place, struct error *error);
/* What is kept goes. */
void place_forget_kept(const struct place *place);
/* The content goes from memory, and a link that was not finished. */
void place_forget_content(const struct place *place);
