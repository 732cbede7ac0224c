/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations that the files which make a plan share. */
#pragma once

#include "cli/fleet/fleet.h"

struct making {
	struct context *context;
	const struct fleet_request *request;
	struct fleet fleet;
};

/* ---- fleet.c */

void fleet_target_free(struct fleet_target *target);

/* ---- targets.c */

/* Why it cannot be built. It owns @problem from now on. */
void fleet_set_problem(struct fleet_target *target, char *problem);
/* Opens the catalogue of @os; "" is one that there is none of. */
int fleet_open_os(const struct making *making, const char *os, struct catalogue *ret,
	struct error *error) _must_check_;

/* ---- builds.c */

/* Adds it to the list of what is left out, by @pattern. @nvidia: as fleet_is_excluded() has it. */
void fleet_exclude(struct making *making, const struct fleet_target *target, const char *nvidia,
	const char *pattern);
/*
 * The pattern of --exclude by which this kernel, or with it this driver, is left out; NULL: it is
 * not.
 */
const char *fleet_excluding(
	const struct making *making, const struct fleet_target *target, const char *nvidia);
/*
 * Is this kernel, or with it this driver, left out? Then it is in the list of these. @nvidia is ""
 * for the kernel alone.
 */
bool fleet_is_excluded(
	struct making *making, const struct fleet_target *target, const char *nvidia);
/* A build for each pair of OFED and NVIDIA's driver. Errors as catalogue_open()'s. */
int fleet_add_builds(
	struct making *making, struct fleet_target *target, struct error *error) _must_check_;

/* ---- warnings.c */

void fleet_warn(struct making *making);
