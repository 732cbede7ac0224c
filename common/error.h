/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The message that travels with a negative errno. A function that can fail in more than one way
 * takes a struct error last, fills it on failure and returns the code; on success it is untouched.
 * The message names the thing and the cause in one line; lines below it say more, and each cure has
 * one of its own, the likeliest first. The caller that acts on it prints it, once.
 *
 * Formatted text goes through text_clean(), so that names from outside can neither break a line nor
 * reach a terminal's controls.
 */
#pragma once

#include "common/cleanup.h"

#define ERROR_TEXT_SIZE  1024
#define ERROR_LINES_SIZE 2048
#define ERROR_LINE_MIN   32 /* where less room is left, a line is left out */

struct error {
	char text[ERROR_TEXT_SIZE]; /* one line; empty until a failure; cut, never overrun */
	/*
	 * Lines below it, each with a newline at its end; a cure begins with ERROR_TRY. One that
	 * has too little room is cut, or left out.
	 */
	char lines[ERROR_LINES_SIZE];
};

#define ERROR_TRY "try: "

/*
 * Formats the message, without any lines below it, and returns @code, so that
 * "return error_set(...)" reads as one thought. An argument may be of @error itself.
 */
int error_set(struct error *error, int code, const char *format, ...) _printf_(3, 4);

/* strerror(-@code); for -ESPIPE, by which fs_open() refuses, its own words. */
const char *error_cause(int code);

/* Like error_set(), with ": " and error_cause() at the end. */
int error_set_errno(struct error *error, int code, const char *format, ...) _printf_(3, 4);

/* Puts context in front of a message that is already there; returns @code. */
int error_prefix(struct error *error, int code, const char *format, ...) _printf_(3, 4);

/* Adds a cure ("name another mirror: --mirror URL") as a line of its own; returns @code. */
int error_try(struct error *error, int code, const char *format, ...) _printf_(3, 4);

/* Adds any other line ("first: …"); returns @code. */
int error_line(struct error *error, int code, const char *format, ...) _printf_(3, 4);

/* The lines of another message, after those that are there; returns @code. */
int error_take_lines(struct error *error, int code, const struct error *other);
