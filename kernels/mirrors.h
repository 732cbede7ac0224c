/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where mirrors are: the catalogue says "debian-security", this machine says the URL. In this
 * order: --mirror NAME=URL (or --mirror URL, for every name of the distribution), the user's and
 * the system's mirrors.ini ($XDG_CONFIG_HOME/slipway/mirrors.ini, /etc/slipway/mirrors.ini), and
 * the system's own apt sources, told by the Origin and Label of their Release files.
 * docs/mirrors.md has the format.
 */
#pragma once

#include <stdbool.h>

#include "common/error.h"
#include "common/strv.h"
#include "kernels/catalogue.h"

struct mirror {
	char *name;
	char *url;    /* ends without a slash */
	char *source; /* where that was said, for messages: "--mirror", a file, "apt sources" */
	char *client_certificate; /* PEM files, or NULL: the catalogue's */
	char *client_key;
	char *certificate_authority;
};

struct mirrors {
	struct mirror *items;
	size_t count;
};

struct mirrors_request {
	const struct strv *options; /* each --mirror as given */
	const struct catalogue *os;
	int cache_fd; /* what the system's apt said is remembered here, until its sources change */
	const char *config; /* mirrors.ini to read instead of the usual two; NULL: those */
};

/* -EINVAL for an option or a file that cannot be read, with the line. The caller frees it. */
int mirrors_open(const struct mirrors_request *request, struct mirrors *ret,
	struct error *error) _must_check_;
void mirrors_free(struct mirrors *mirrors);

/* The mirror of a repository, or NULL: then nothing on this machine says where it is. */
const struct mirror *mirrors_find(
	const struct mirrors *mirrors, const struct repository *repository);

/*
 * The base URL of a repository: mirror and path with {arch}, {version_id} and {snapshot} replaced.
 * -EINVAL when the path wants a {snapshot} and @snapshot is NULL. The caller frees it.
 */
int mirrors_url(const struct mirror *mirror, const struct repository *repository,
	const struct catalogue *os, const char *arch, const char *snapshot, char **ret_url,
	struct error *error) _must_check_;
