/* SPDX-License-Identifier: Apache-2.0 */
/* Which of the system's apt sources is a distribution's mirror. */
#pragma once

#include "kernels/repo/apt_targets.h"
#include "kernels/catalogue.h"

/*
 * The base URL of the mirror that the catalogue calls @name, as apt writes it or as the file of a
 * "mirror+file:" source does; NULL when no source is it. By the Origin and Label of the Release
 * files that apt has fetched, whatever their suite: who mirrors bookworm mirrors trixie beside it.
 * For lists that were never fetched by the suite, where that is the catalogue's own or this system
 * is the same distribution. The caller frees *ret_url.
 */
int apt_mirrors_find(const struct apt_targets *targets, const struct catalogue *os,
	const char *name, char **ret_url) _must_check_;
