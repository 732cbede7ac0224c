/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A shared library that is loaded when something of it is called first. libcurl and libarchive
 * bring forty others along: they take longer to load than most verbs need for their work, which
 * calls nothing of them. A file for each library has a function under the name of each that is
 * called, which passes the call on, so that callers include the library's own headers and know
 * nothing of that; tests that are linked to the library as well get the same.
 */
#pragma once

#include <stddef.h>

/* A function of the library, and where its address goes. */
struct late_call {
	const char *name;
	void **place;
};

/*
 * Fills all places. A library that is not there, or lacks a function, ends the program with a
 * message and exit code 127, as it would have ended at its start when linked.
 */
void late_library_open(const char *soname, const struct late_call *calls, size_t count);

/* What a list of X(result, name, parameters, arguments) is made into. */
/* NOLINTBEGIN(bugprone-macro-parentheses): neither the name of a member nor parameters take any */
#define LATE_MEMBER(result, name, parameters, arguments) __typeof__(&name) name;
#define LATE_CALL(result, name, parameters, arguments)   { #name, (void **) (void *) &table.name },
#define LATE_FUNCTION(result, name, parameters, arguments)                                         \
	result name parameters                                                                     \
	{                                                                                          \
		return calls()->name arguments;                                                    \
	}
/* NOLINTEND(bugprone-macro-parentheses) */
