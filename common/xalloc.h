/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for the build side (cli/, kernels/), whose programs live for seconds: where there is none
 * left, one line on stderr and EXIT_OUT_OF_MEMORY end the program. Never for entrypoint/ and
 * module/, where no memory is an error that is returned.
 */
#pragma once

#include <stdarg.h>
#include <stddef.h>

#include "common/strv.h"

#define EXIT_OUT_OF_MEMORY 26 /* as cli/exit_code.h has it */

void out_of_memory(void) __attribute__((noreturn));

/* Zeroed. */
void *xcalloc(size_t count, size_t size) __attribute__((returns_nonnull, warn_unused_result));
/* The array @old with room for @count elements; what is new in it is not zeroed. */
void *xreallocarray(void *old, size_t count, size_t size)
	__attribute__((returns_nonnull, warn_unused_result));
char *xstrdup(const char *text) __attribute__((returns_nonnull, warn_unused_result));
char *xstrndup(const char *text, size_t length)
	__attribute__((returns_nonnull, warn_unused_result));
char *xasprintf(const char *format, ...) _printf_(1, 2)
	__attribute__((returns_nonnull, warn_unused_result));
char *xvasprintf(const char *format, va_list arguments) _printf_(1, 0)
	__attribute__((returns_nonnull, warn_unused_result));

/* As those of common/strv.h. */
void xstrv_push(struct strv *list, const char *text);
void xstrv_pushf(struct strv *list, const char *format, ...) _printf_(2, 3);
void xstrv_push_unique(struct strv *list, const char *text);
void xstrv_split(struct strv *list, const char *text, const char *separators);
char *xstrv_join(const struct strv *list, const char *separator)
	__attribute__((returns_nonnull, warn_unused_result));
