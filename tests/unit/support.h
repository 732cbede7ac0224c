/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the unit tests: cmocka with the headers that it needs first, and a folder of their own.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "common/cleanup.h"

/* A temporary folder: the state of tests that are listed with folder_make and folder_remove. */
struct folder {
	char path[64];
	int fd;
};

int folder_make(void **state);
int folder_remove(void **state);

#define folder_test(function) cmocka_unit_test_setup_teardown(function, folder_make, folder_remove)

/* Each fails the test when it cannot do its work. Parent folders are made. */
void folder_write(const struct folder *folder, const char *path, const void *data, size_t size);
void folder_write_text(const struct folder *folder, const char *path, const char *text);
void folder_subfolder(const struct folder *folder, const char *path);
/* A link at @path, whose folder is there, to @target. */
void folder_link(const struct folder *folder, const char *path, const char *target);
/* The caller frees the text. */
char *folder_read_text(const struct folder *folder, const char *path);

/* A module as /sys/module shows it: live, with references, held by @holders (NULL-terminated, or
 * NULL). */
void folder_module(const struct folder *folder, const char *name, const char *references,
	const char *const *holders);

/* Standard output, on its way to a file until capture_end(). */
struct capture {
	int before;
	FILE *file;
};
struct capture capture_start(void);
/* Puts standard output back, and returns the first 64 KiB of what was printed; the caller frees it.
 */
char *capture_end(struct capture *capture);

/* Fails the test, showing both, unless @text contains @part. */
void assert_contains(const char *text, const char *part);
