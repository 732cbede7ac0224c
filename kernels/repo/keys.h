/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The OpenPGP keys of distributions that no package of this machine has: fetched once over https
 * from where they are published (mirrors.h, [key NAME]), and kept in the user's folder, where the
 * catalogue looks for them after all other places. That somebody believes a key is not decided
 * here.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"
#include "common/strv.h"
#include "kernels/fetch/download.h"
#include "kernels/repo/mirrors.h"

#define KEY_FINGERPRINT_LENGTH 40

struct fetched_key {
	char fingerprint[KEY_FINGERPRINT_LENGTH + 1];
	char user[128];    /* its first user ID, printable; or "" */
	bool is_published; /* the fingerprint is one of those that [key NAME] has */
};

struct fetched_keys {
	struct fetched_key *items;
	size_t count;
	char *data; /* a binary keyring with all of them */
	size_t size_bytes;
};

/*
 * Fetches the key's URLs into @folder_fd and reads what keys are there. Errors as download_run()
 * has them; -EBADMSG where a file has no key that gpgv can read. The caller frees it.
 */
int keys_fetch(const struct mirror_key *key, struct download *download, int folder_fd,
	struct fetched_keys *ret, struct error *error) _must_check_;
void fetched_keys_free(struct fetched_keys *keys);

/*
 * Keeps those of the keys whose fingerprint is in @fingerprints where the catalogue finds them.
 * *ret_path, which the caller frees, is the file. -ENOENT where there is no home to keep it in.
 */
int keys_keep(const struct mirror_key *key, const struct fetched_keys *keys,
	const struct strv *fingerprints, char **ret_path, struct error *error) _must_check_;

/* A fingerprint without blanks and colons, in capitals; NULL for what is none. The caller frees it.
 */
char *key_fingerprint_clean(const char *text);
