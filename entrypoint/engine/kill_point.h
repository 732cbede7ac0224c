/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests only, and in a release build nothing at all: places where the init kills itself as a
 * node's OOM killer or a kubelet would, so that a test can show that the next start converges.
 * Built in by `make KILL_POINTS=1`, shown by --version. SLIPWAY_KILL_AT chooses the place:
 *   "load:before", "load:after", "undo:load:before" …   at a step's do or undo
 *   "load:module:2"                     in its worker, after the second module that came or went
 *   "#17"                               at the 17th place that this process comes to
 */
#pragma once

#include <stdbool.h>

#include "common/error.h"

#ifdef SLIPWAY_KILL_POINTS
#define KILL_POINTS_VERSION " with kill points: for tests only"
/* A place of the name that the format makes. */
void kill_point(const char *format, ...) _printf_(1, 2);
/* A module came or went, in the worker of the step that kill_point_step() named. */
void kill_point_module(void);
void kill_point_step(bool undoing, const char *step);
#else
#define KILL_POINTS_VERSION            ""
#define kill_point(...)                ((void) 0)
#define kill_point_module()            ((void) 0)
#define kill_point_step(undoing, step) ((void) 0)
#endif
