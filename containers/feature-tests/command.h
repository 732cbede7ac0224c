/* SPDX-License-Identifier: Apache-2.0 */
/* A compiler's command, captured from the kernel's own build. */
#pragma once

#include <stdbool.h>

struct test;

/*
 * In <folder>/<key>/command, each string with its NUL: the test's folder, the shell's words behind
 * the compiler's (objtool), where the compiler ran, the number of its words, these, its
 * environment.
 */
struct command {
	char *key;
	char *folder;
	char *tail;
	char *cwd;
	char **argv; /* without what names files */
	char **environment;
	bool known;
	/* The server's: */
	char *words;           /* HAVE_… in all headers, each between newlines; NULL: not known */
	struct test *capturer; /* the test by which it is being captured */
	unsigned int failures;
};

/* By its key. False where it was not captured yet. */
bool command_load(struct command *command, const char *folder);

/* The compiler, while a command is captured: writes down how it was called. */
__attribute__((noreturn)) void compiler_main(char **argv);
