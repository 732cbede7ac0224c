/* SPDX-License-Identifier: Apache-2.0 */
/* The lists that a question is put to: chosen, opened together, and judged. */
#pragma once

#include "kernels/resolve/resolve.h"

struct place_set {
	struct index_request *requests;
	char **urls; /* that the requests borrow */
	struct index *indexes;
	size_t count;
	struct strv unknown; /* mirrors that nothing says the place of */
	bool wants_date;     /* one of those wants a --snapshot too */
	struct strv undated; /* mirrors that are known, and want a --snapshot */
};

/*
 * Opens the distribution's repositories that may have the kernel: its archives, or all others.
 * What is passed over is in the trace; it may be all of them.
 */
int place_set_open(const struct resolve_places *places, const struct resolve_request *request,
	bool archives, bool refresh, struct place_set *ret, struct trace *trace,
	struct error *error) _must_check_;
void place_set_free(struct place_set *set);

/* Lists that failed go into the trace, and warnings into @warnings. */
int place_set_note(
	const struct place_set *set, struct trace *trace, struct strv *warnings) _must_check_;

/*
 * The first that must not be passed over whatever the others say: a wrong signature, a damaged
 * list, our own disk. NULL when there is none.
 */
const struct index *place_set_broken(const struct place_set *set);

/* The first that could not be asked; NULL when all answered. */
const struct index *place_set_silent(const struct place_set *set);

/* Was there something to ask, and nothing of it could be read? */
bool place_set_is_mute(const struct place_set *set);

/* The result of the first list of a mute set, with its reason once for all of them. */
int place_set_say_mute(
	const struct place_set *set, const struct catalogue *os, struct error *error);

/*
 * Which half of what an archive wants was not given, as the end of a sentence: a new text, NULL
 * where every archive was asked. @snapshot: that of the request. -ENOMEM.
 */
int place_set_missing_half(
	const struct place_set *archives, const char *snapshot, char **ret_text) _must_check_;

/* -ENOMEDIUM, with the mirrors that somebody has to name. */
int place_set_no_mirror(
	const struct place_set *set, const struct catalogue *os, struct error *error);
