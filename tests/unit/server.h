/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server that gives each connection the next of its answers, and writes down in the folder's
 * "log" what was asked.
 */
#pragma once

#include <sys/types.h>

#include "tests/unit/support.h"

struct server {
	pid_t pid;
	char url[64];
};

/* @answers: whole responses, NULL-terminated; one of nothing is a server that says nothing. */
void server_start(const struct folder *folder, const char *const *answers, struct server *ret);
void server_stop(struct server *server);
