/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the three programs of feature-tests. Each of them ends where there is no memory. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Set by the server for the two others. */
#define ENV_FOLDER  "FEATURE_TESTS_FOLDER"
#define ENV_PATH    "FEATURE_TESTS_PATH"    /* PATH as configure's caller had it */
#define ENV_CAPTURE "FEATURE_TESTS_CAPTURE" /* the file that the compiler writes */

#define HASH_START 0xcbf29ce484222325

/*
 * The server's reply: 'S' for slow, 'C' for capture, 'A' or 'B' (asked both ways) with the
 * compiler's status and the path of its assembly and its messages, but for ".s" and ".err".
 */
struct reply {
	char kind;
	unsigned char status;
	char path[4096];
};

__attribute__((noreturn, format(printf, 1, 2))) void fail(const char *format, ...);
__attribute__((format(printf, 1, 2))) char *text_of(const char *format, ...);
char *copy_of(const char *text);

/* One more than @count, zero: the end of a list. */
void *allocate(size_t count, size_t size);

/* NULL where there is no such file. A NUL follows. */
char *read_file(const char *path, size_t *ret_size);
bool write_fd(int fd, const char *text, size_t size);
bool write_file(const char *path, const char *text, size_t size);
bool has_content(const char *path);

/* Its exit status; 255 where it has none. Messages are added to @messages, if not NULL. */
int run(char **argv, const char *cwd, char **environment, const char *messages);

bool starts_with(const char *text, const char *start);
uint64_t hash_text(uint64_t hash, const char *text);

/* From here on all is as if this program were not there. */
void forget_server(void);
