/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The message that travels with a negative errno. A function that can fail in more than one way
 * takes a struct error last, fills it on failure and returns the code; on success it is untouched.
 * The message names the thing, the cause and the next step; the caller that acts on it prints it,
 * once.
 */
#pragma once

#include "common/cleanup.h"

#define ERROR_TEXT_SIZE 1024

struct error {
	char text[ERROR_TEXT_SIZE]; /* empty until a failure; cut, never overrun */
};

/* Formats the message and returns @code, so that "return error_set(...)" reads as one thought. */
int error_set(struct error *error, int code, const char *format, ...) _printf_(3, 4);

/* Like error_set(), with ": " and strerror(-@code) at the end. */
int error_set_errno(struct error *error, int code, const char *format, ...) _printf_(3, 4);

/* Puts context in front of a message that is already there; returns @code. */
int error_prefix(struct error *error, int code, const char *format, ...) _printf_(3, 4);
