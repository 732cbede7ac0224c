/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of OpenPGP public keys, as far as Slipway has to know what is in one: gpgv(1) does the
 * checking. RFC 9580 has the formats.
 */
#pragma once

#include <stddef.h>

/* One key of a file, with its user IDs, subkeys and their signatures. */
struct openpgp_key {
	char fingerprint[41]; /* of the primary key, in capitals */
	char user[128];       /* its first user ID, printable; or "" */
	size_t offset;
	size_t size_bytes;
};

/*
 * The keys of @text, armoured or binary, as gpgv of Debian 12 reads them: one behind the other,
 * without armour. Left out are blocks that are cut or damaged, and keys of newer versions than 4,
 * such as those for post-quantum signatures: gpgv would read none of the others. NULL when no key
 * is left. *ret_size is its size. The caller frees it.
 */
char *openpgp_read_keys(const char *text, size_t size_bytes, size_t *ret_size);

/* Appends up to @limit keys of what openpgp_read_keys() returned; returns how many there are. */
size_t openpgp_list_keys(
	const char *keys, size_t size_bytes, struct openpgp_key *ret_keys, size_t limit);
