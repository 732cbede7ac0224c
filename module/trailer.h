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

#include "common/error.h"

#define MODULE_TRAILER_MARKER      "~Module signature appended~\n"
#define MODULE_TRAILER_MARKER_SIZE (sizeof(MODULE_TRAILER_MARKER) - 1)
#define MODULE_TRAILER_INFO_SIZE   ((size_t) 12)

/* enum pkey_id_type of the kernel; those before CMS went in Linux 4.3. */
enum module_trailer_type {
	MODULE_TRAILER_PGP = 0,
	MODULE_TRAILER_X509 = 1,
	MODULE_TRAILER_CMS = 2,
};

struct module_trailer {
	bool present;        /* false: no marker at the end, for the kernel an unsigned module */
	size_t content_size; /* the first bytes, which are signed; all of them when unsigned */
	size_t signature_offset;
	size_t signature_size;
	enum module_trailer_type type;
	const char
		*hash; /* of the types before CMS, as the kernel names it; else NULL: see cms.h */
	/* Of MODULE_TRAILER_X509: who signed, and which key; borrowed, not NUL-terminated. */
	const char *signer;
	size_t signer_size;
	const unsigned char *key_id;
	size_t key_id_size;
};

/*
 * Finds the signature of the module in @data. A module without one is no error. -EBADMSG with the
 * offset for a trailer that the kernel finds malformed; -ENOPKG for a type that no kernel knows.
 * @ret borrows from @data.
 */
int module_trailer_read(const void *data, size_t size, struct module_trailer *ret,
	struct error *error) _must_check_;

/*
 * The same from the last @end_size bytes of a file of @file_size, which are MODULE_TRAILER_SIZE of
 * them unless the file has fewer: signer and key_id stay NULL. @ret is filled in on failure too,
 * as far as the kernel gets: content_size is then what lies in front of the marker.
 */
#define MODULE_TRAILER_SIZE (MODULE_TRAILER_INFO_SIZE + MODULE_TRAILER_MARKER_SIZE)
int module_trailer_parse(const void *end, size_t end_size, uint64_t file_size,
	struct module_trailer *ret, struct error *error) _must_check_;

/*
 * Writes the info and the marker that follow a CMS signature of @signature_size bytes, at most
 * UINT32_MAX.
 */
void module_trailer_write(size_t signature_size, unsigned char trailer[MODULE_TRAILER_SIZE]);

/* "PKCS#7", "X.509" or "PGP", as modinfo prints it. */
const char *module_trailer_type_text(enum module_trailer_type type);
