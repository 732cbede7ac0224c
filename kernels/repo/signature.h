/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OpenPGP signatures of package lists, checked by gpgv(1). Of a clear-signed file only what gpgv
 * finds signed is read on: text around it would otherwise be taken for part of it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/hash.h"
#include "common/strv.h"

struct signature_request {
	const char *name;            /* of what is signed, for messages: its URL */
	int folder_fd;               /* holds the files below; temporary ones go there too */
	const char *path;            /* the signed file */
	const char *detached;        /* its signature's file, or NULL: @path is clear-signed */
	const char *output;          /* clear-signed: where the signed text goes */
	const struct strv *keyrings; /* files, binary or armoured: the first that exists is used */
	const char *keyring;         /* instead of those; or NULL */
	/*
	 * Accept what cannot be checked: no signature, no key, or a hash that can be forged. A
	 * wrong signature is never accepted.
	 */
	bool allow_unsigned;
};

/*
 * *ret_signer, which the caller frees, is the fingerprint of the primary key; "" for what could not
 * be checked and is allowed. -EKEYREJECTED with a message of its own for: no signature; a key that
 * the keyring does not have; an expired or revoked key or an expired signature; a signature over
 * something else; MD5 or SHA-1; no keyring on this machine.
 */
int signature_check(const struct signature_request *request, char **ret_signer,
	struct error *error) _must_check_;

/* The file whose keys count: @keyring, else the first of @keyrings that exists; or NULL. */
const char *signature_keyring(const struct strv *keyrings, const char *keyring);

/*
 * The keys of a keyring as gpgv reads them, binary and without those that it does not know, freed
 * by the caller. -EKEYREJECTED: it cannot be read, or has none.
 */
int signature_read_keyring(
	const char *path, char **ret_keys, size_t *ret_size, struct error *error) _must_check_;

/* Adds what is in that file: what was believed because of a key is not believed without it. */
void signature_hash_keyring(const struct strv *keyrings, const char *keyring, struct hash *hash);

/*
 * Derived from gpgv's status lines (doc/DETAILS of GnuPG). With several signatures, the verdict
 * that is last in this list counts.
 */
enum signature_verdict {
	SIGNATURE_MISSING,
	SIGNATURE_NO_KEY,
	SIGNATURE_WEAK,
	SIGNATURE_EXPIRED,
	SIGNATURE_KEY_EXPIRED,
	SIGNATURE_KEY_REVOKED,
	SIGNATURE_GOOD,
	SIGNATURE_BAD,
};

/*
 * One good signature is enough, as apt has it, unless another is wrong. @ret_key, of 64 bytes, gets
 * the fingerprint, or the id of the key that is at fault, or "".
 */
enum signature_verdict signature_judge(const char *status, char ret_key[64]);
