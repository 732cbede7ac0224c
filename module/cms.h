/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The signature at the end of a module file. Source of the format: Linux
 * include/linux/module_signature.h and kernel/module/signing.c: the module's bytes, the signature,
 * struct module_signature (12 bytes) and a marker of 28. Works on the unpacked bytes of a module
 * and needs no libcrypto.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/arena.h"
#include "common/error.h"

#define MODULE_TRAILER_MARKER      "~Module signature appended~\n"
#define MODULE_TRAILER_MARKER_SIZE (sizeof(MODULE_TRAILER_MARKER) - 1)
#define MODULE_TRAILER_INFO_SIZE   ((size_t) 12)

struct module_trailer {
	bool present;        /* false: no marker at the end, for the kernel an unsigned module */
	size_t content_size; /* the first bytes, which are signed; all of them when unsigned */
	size_t signature_offset;
	size_t signature_size;
};

#define MODULE_TRAILER_SIZE (MODULE_TRAILER_INFO_SIZE + MODULE_TRAILER_MARKER_SIZE)

/*
 * Finds the signature of the module in @data. A module without one is no error. -EBADMSG with the
 * offset for a trailer that the kernel finds malformed; -ENOPKG for any type but PKCS#7, of which
 * no kernel since 4.3 knows another.
 */
int module_trailer_read(const void *data, size_t size, struct module_trailer *ret,
	struct error *error) _must_check_;

/*
 * The same from the last @end_size bytes of a file of @file_size, which are MODULE_TRAILER_SIZE of
 * them unless the file has fewer. @ret is filled in on failure too, as far as the kernel gets:
 * content_size is then what lies in front of the marker.
 */
int module_trailer_parse(const void *end, size_t end_size, uint64_t file_size,
	struct module_trailer *ret, struct error *error) _must_check_;

/*
 * Writes the info and the marker that follow a CMS signature of @signature_size bytes, at most
 * UINT32_MAX.
 */
void module_trailer_write(size_t signature_size, unsigned char trailer[MODULE_TRAILER_SIZE]);

/* ---- CMS */

/*
 * What a module's CMS (PKCS#7) signature says of itself, without checking it: RFC 5652, and what
 * Linux crypto/asymmetric_keys/pkcs7_parser.c takes of it. Needs no libcrypto, so slipway-init has
 * it too; module/sign.h checks signatures.
 */

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

/* As cms_read(), and the signer, to check it. @signer may be NULL. */
int cms_read_signer(const void *data, size_t size, size_t offset, struct cms_facts *ret,
	struct cms_signer *signer, struct error *error) _must_check_;

/*
 * Reads the @size bytes at @data, which lie at @offset of their file (for messages). -EBADMSG with
 * the offset when they are no CMS signature, and as the kernel has it -EINVAL for another kind of
 * message or of content, -EMSGSIZE for more than 65535 bytes.
 */
int cms_read(const void *data, size_t size, size_t offset, struct cms_facts *ret,
	struct error *error) _must_check_;

/* What the last of thousands of messages stated: those of one signer differ in one value alone. */
struct cms_memo {
	const struct cms_facts *facts;
	const void *start; /* what was in front of the signature's value, which comes last */
	size_t start_size;
	size_t size; /* of the message */
};

/* As cms_read(); what @memo and *@ret have lies in @memory, the caller's. Also -ENOMEM. */
int cms_read_alike(struct cms_memo *memo, const void *data, size_t size, size_t offset,
	struct arena *memory, const struct cms_facts **ret, struct error *error) _must_check_;
