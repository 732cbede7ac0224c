/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the system's apt sources is a distribution's mirror. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"
#include "kernels/catalogue.h"

/*
 * The package lists that this system's apt is set up for (apt-get indextargets, apt-get(8)). Asking
 * takes apt about a second, so the answer is remembered, with the sizes and times of all
 * files that it came from: as long as they stay, no program is started.
 */

/* Every string is there; "" where apt has no answer, as for lists that were never fetched. */
struct apt_target {
	char *uri;      /* of the repository, ends with a slash: "…/debian/" */
	char *release;  /* as the source names it: "bookworm", "stable" */
	char *codename; /* as its Release file does */
	char *origin;
	char *label;
	char *component;
};

struct apt_targets {
	struct apt_target *items;
	size_t count;
};

/*
 * None on a system without apt. @cache_fd (-1: none) is where the answer is remembered. -EIO when
 * apt-get itself fails. With @offline what is remembered is all, also where the files have changed.
 * The caller frees it with apt_targets_free().
 */
int apt_targets_read(
	int cache_fd, bool offline, struct apt_targets *ret, struct error *error) _must_check_;
void apt_targets_free(struct apt_targets *targets);

/*
 * The base URL of the mirror that the catalogue calls @name, as apt writes it or as the file of a
 * "mirror+file:" source does; NULL when no source is it. By the Origin and Label of the Release
 * files that apt has fetched, whatever their suite: who mirrors bookworm mirrors trixie beside it.
 * For lists that were never fetched by the suite, where that is the catalogue's own or this system
 * is the same distribution. The caller frees *ret_url.
 */
int apt_mirrors_find(const struct apt_targets *targets, const struct catalogue *os,
	const char *name, char **ret_url) _must_check_;
