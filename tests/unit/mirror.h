/* SPDX-License-Identifier: Apache-2.0 */
/* Mirrors made for tests of package lists: files below the folder's "mirror", asked by file: URLs.
 */
#pragma once

#include <stdbool.h>

#include "kernels/repo/index.h"
#include "tests/unit/signing.h"

#define MIRROR_HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* Packs @text as the ending of @path says (.xz .gz .zst .bz2, else not at all) into the folder. */
void mirror_pack(const struct folder *folder, const char *path, const char *text);
/* SHA-256 and size of a file of the folder. */
void mirror_hash(const struct folder *folder, const char *path, char hex[65], size_t *ret_size);

/*
 * The suite "stable" with one component "main" for amd64: writes Release from the lists that are
 * there, whose names (below the suite) are given, with extra fields, and signs it as InRelease with
 * the key of signing_make_key().
 */
struct suite {
	const char *fields; /* "Valid-Until: …\n", or "" */
	const char *const *lists;
	const char *plain; /* of what Packages is a list of, when it is not there itself; or NULL */
	bool unsigned_one;
};
void mirror_publish(const struct folder *folder, const struct suite *suite);

/* One repository of a test, and how it is asked. */
struct asking {
	struct repository repository;
	struct mirror mirror;
	struct index_request request;
	struct index_options options;
	struct strv keep;
	char url[128];
	char keyring[128];
	bool no_keyring;     /* only the catalogue's */
	struct index *index; /* the answer */
};

/* Prepares to ask the folder's mirror, a repository of @kind, with the key key.gpg. */
void asking_start(const struct folder *folder, enum repository_kind kind, struct asking *ret);
/* Asks; the result is that of the one repository. */
int asking_run(struct asking *asking, const struct folder *folder, bool offline);
const char *asking_error(const struct asking *asking);
void asking_done(struct asking *asking);
