/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a module's CMS (PKCS#7) signature says of itself, without checking it: RFC 5652, and what
 * Linux crypto/asymmetric_keys/pkcs7_parser.c takes of it. Needs no libcrypto, so slipway-init has
 * it too; module/sign.h checks signatures.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"

#define CMS_ID_HEX_SIZE    129 /* up to 64 bytes in hex, and the NUL */
#define CMS_NAME_SIZE      128
#define CMS_ALGORITHM_SIZE 64 /* a name, or an OID as numbers */

struct cms_facts {
	size_t signers;             /* the rest is of the first one */
	char issuer[CMS_NAME_SIZE]; /* common name of the certificate's issuer; else organisation */
	char serial[CMS_ID_HEX_SIZE];  /* the certificate's serial number, lower-case hex; or "" */
	char key_id[CMS_ID_HEX_SIZE];  /* its subject key id, as /proc/keys prints it; or "" */
	char hash[CMS_ALGORITHM_SIZE]; /* "sha256", as CONFIG_MODULE_SIG_HASH has it */
	char algorithm[CMS_ALGORITHM_SIZE]; /* "rsa", "ecdsa" …, or an OID as numbers */
	bool has_attributes;   /* signed attributes: the kernel refuses them on modules */
	bool has_content;      /* holds what it signs: the kernel refuses that too */
	bool has_certificates; /* harmless, and not needed */
};

/* Bytes of a message, borrowed from it. */
struct cms_bytes {
	const unsigned char *data;
	size_t size;
};

/* The first signer, as the message has it. Either issuer and serial or key_id is there. */
struct cms_signer {
	struct cms_bytes issuer; /* the content of the name's SEQUENCE */
	struct cms_bytes serial, key_id, signature;
};

/* As cms_read(), and who signed, for those who check it. @signer may be NULL. */
int cms_read_signer(const void *data, size_t size, size_t offset, struct cms_facts *ret,
	struct cms_signer *signer, struct error *error) _must_check_;

/*
 * Reads the @size bytes at @data, which lie at @offset of their file (for messages). -EBADMSG with
 * the offset when they are no CMS signature, and as the kernel has it -EINVAL for another kind of
 * message or of content, -EMSGSIZE for more than 65535 bytes.
 */
int cms_read(const void *data, size_t size, size_t offset, struct cms_facts *ret,
	struct error *error) _must_check_;
