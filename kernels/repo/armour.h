/* SPDX-License-Identifier: Apache-2.0 */
/* OpenPGP's ASCII armour (RFC 9580, section 6): keys as publishers hand them out, as gpgv wants
 * them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/cleanup.h"

/* Does the text hold an armoured public key? */
bool armour_is_key(const char *text);

/*
 * The bytes of all armoured public keys in @text, one after the other, which make a keyring; the
 * caller frees them. -EBADMSG when a block is cut or is no base64.
 */
int armour_decode_keys(const char *text, char **ret_data, size_t *ret_size) _must_check_;
