/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Repositories as dnf and zypper are told of them: *.repo files of /etc/yum.repos.d (dnf.conf(5),
 * REPO OPTIONS) and /etc/zypp/repos.d, which have the same form. For input from outside: what is
 * malformed is skipped, and time and memory grow with the text alone.
 */
#pragma once

#include <stdbool.h>

#include "common/strv.h"

/* The options that are read. */
enum yum_key {
	YUM_BASEURL,
	YUM_MIRRORLIST,
	YUM_METALINK,
	YUM_GPGKEY,
	YUM_ENABLED,
	YUM_GPGCHECK,
	YUM_REPO_GPGCHECK,
	YUM_SSLVERIFY,
	YUM_SSLCACERT,
	YUM_SSLCLIENTCERT,
	YUM_SSLCLIENTKEY,
	YUM_USERNAME,
	YUM_PASSWORD,
	YUM_KEY_COUNT
};

/* A section. Values are as written, without outer blanks, lines joined by '\n'; NULL: not given. */
struct yum_repo {
	char *id;
	char *values[YUM_KEY_COUNT];
};

/* Called with each section but [main]; @repo is valid for the call only. */
typedef void (*yum_repo_handler)(void *context, const struct yum_repo *repo);

void yum_repo_parse(const char *text, yum_repo_handler on_repo, void *context);

/* A boolean as dnf has it; @otherwise where it is not given, or no boolean. */
bool yum_repo_flag(const struct yum_repo *repo, enum yum_key key, bool otherwise);

/* Limits of what yum_expand() makes, and of a variable's value, in bytes. */
#define YUM_EXPANDED_LIMIT 4096
#define YUM_VARIABLE_LIMIT 256

/*
 * The text with $name and ${name} replaced by those of @variables, "name=value" each: the first
 * that has the name counts, whatever its case. An unknown one stays. The caller frees it; NULL:
 * longer than YUM_EXPANDED_LIMIT.
 */
char *yum_expand(const char *text, const struct strv *variables);
