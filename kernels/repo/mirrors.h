/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses of mirrors: the catalogue has the name "debian-security", this machine the URL. Sources
 * of URLs, in this order: --mirror NAME=URL (or --mirror URL, for every name of the distribution),
 * the user's and the system's mirrors.ini ($XDG_CONFIG_HOME/slipway/mirrors.ini,
 * /etc/slipway/mirrors.ini), the system's own apt sources, recognized by the Origin and Label of
 * their Release files, and Slipway's own mirrors.ini, which has the official mirrors of all
 * distributions but Debian. docs/kernels.md describes the format.
 *
 * {arch} in a URL is replaced. [NAME ARCH] of a mirrors.ini goes before its [NAME], and the
 * official one before apt's sources of other architectures: Ubuntu's arm64 has a mirror of its own.
 */
#pragma once

#include <stdbool.h>

#include "common/error.h"
#include "common/strv.h"
#include "kernels/catalogue.h"
#include "kernels/fetch/download.h"

struct mirror {
	char *name;
	char *url;    /* ends without a slash, and has no user and password in it */
	char *source; /* where it is from, for messages: "--mirror", a file, "apt sources" */
	bool is_list; /* the URL is that of a list of mirrors, until mirrors_follow() */
	int problem;  /* an errno: that list was of no use, and the mirror cannot be asked; 0 */
	char *why;    /* the message for it, or NULL */
	/* From the URL and mirrors.ini, which may name files by patterns: mirrors_credentials(). */
	struct mirror_credentials credentials;
};

/* The place where a distribution publishes its OpenPGP key: [key NAME]. */
struct mirror_key {
	char *name;
	struct strv urls;            /* https; together they have it */
	struct strv fingerprints;    /* that are published elsewhere, too; may be none */
	char *fingerprint_source;    /* the file that they are from; or NULL */
	char *certificate_authority; /* PEM, of these servers; NULL: the system's */
	char *source;                /* the file that has the URLs */
};

struct mirrors {
	struct mirror *items;
	size_t count;
	struct mirror_key *keys; /* of the distribution's repositories */
	size_t key_count;
	bool only_own; /* the user has no use for the official ones */
};

/* Slipway's own mirrors.ini, below its data. */
#define MIRRORS_DEFAULTS "kernels/mirrors.ini"

struct mirrors_request {
	const struct strv *options; /* each --mirror as given */
	const struct catalogue *os;
	const char *arch;     /* of the packages, as uname -m calls it */
	const char *defaults; /* Slipway's own mirrors.ini; NULL, or not there: none */
	bool offline;         /* no program is started: of the system's apt what is remembered */
	int cache_fd;         /* where apt's answer is remembered until its sources change; or -1 */
	const char *config;   /* instead of the two mirrors.ini and $SLIPWAY_MIRRORS; or NULL */
	/* Called with @context before apt is asked, whose answer takes a second or two; or NULL */
	void (*on_ask_apt)(void *context);
	void *context;
};

/* -EINVAL for an option or a file that cannot be read, with the line. The caller frees it. */
int mirrors_open(const struct mirrors_request *request, struct mirrors *ret,
	struct error *error) _must_check_;
void mirrors_free(struct mirrors *mirrors);

/*
 * Finds the credentials for the mirror's server: user and password of its URL; files that
 * mirrors.ini names, or else those of the catalogue if they exist. Both may be patterns (glob(7)):
 * the newest of several certificates is taken, and its key is X-key.pem beside X.pem, or in the
 * same file. -EACCES when mirrors.ini names a file that does not exist. The caller frees it with
 * mirror_credentials_free().
 */
int mirrors_credentials(const struct mirror *mirror, const struct repository *repository,
	struct mirror_credentials *ret, struct error *error) _must_check_;

/*
 * A URL that ends with /mirror.list, or that mirrors.ini calls a mirrorlist, is a file with the
 * addresses of mirrors: fetches these, and puts the first address that can be asked in its place.
 * The file stays in @folder_fd and is used where there is no answer, or offline. Else the mirror
 * keeps its URL and has a problem, which is the error of its repositories.
 */
void mirrors_follow(struct mirrors *mirrors, struct download *download, int folder_fd);

/* The key of that name; NULL for a name that no repository of the distribution has. */
const struct mirror_key *mirrors_find_key(const struct mirrors *mirrors, const char *name);

/* The mirror of a repository, or NULL: then this machine does not know where it is. */
const struct mirror *mirrors_find(
	const struct mirrors *mirrors, const struct repository *repository);

/*
 * The base URL of a repository: mirror and path with {arch}, {version_id}, {snapshot} and {release}
 * replaced, where the release is "9.4" for a krel of el9_4. @krel and @snapshot may be NULL:
 * -EINVAL when the path wants them. The caller frees it.
 */
int mirrors_url(const struct mirror *mirror, const struct repository *repository,
	const struct catalogue *os, const char *krel, const char *arch, const char *snapshot,
	char **ret_url, struct error *error) _must_check_;
