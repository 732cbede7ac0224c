/* SPDX-License-Identifier: Apache-2.0 */
#include "entrypoint/engine/kill_point.h"

#ifdef SLIPWAY_KILL_POINTS

#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The only state of the program outside of its roles: a release build has none of it. */
static struct {
	unsigned places;
	unsigned modules;
	char step[64];
	pid_t init;
} state;

/*
 * A worker takes the init with it: a container is killed whole. Process 1 of a name space takes no
 * SIGKILL from inside: there, all stands still until it is killed from outside.
 */
static _Noreturn void die(const char *name)
{
	pid_t init = state.init ? state.init : getpid();

	(void) fprintf(stderr, "kill point %s (#%u)\n", name, state.places);
	if (init != 1) {
		(void) kill(init, SIGKILL);
		(void) kill(getpid(), SIGKILL);
	}
	for (;;)
		(void) pause();
}

void kill_point(const char *format, ...)
{
	const char *wanted = getenv("SLIPWAY_KILL_AT");
	va_list arguments;
	char name[128];

	va_start(arguments, format);
	(void) vsnprintf(name, sizeof(name), format, arguments);
	va_end(arguments);
	state.places++;
	if (wanted && (strcmp(wanted, name) == 0 ||
			      (*wanted == '#' && strtoul(wanted + 1, NULL, 10) == state.places)))
		die(name);
}

void kill_point_step(bool undoing, const char *step)
{
	(void) snprintf(state.step, sizeof(state.step), "%s%s", undoing ? "undo:" : "", step);
	state.modules = 0;
	state.init = getpid();
}

void kill_point_module(void)
{
	kill_point("%s:module:%u", state.step, ++state.modules);
}

#endif
