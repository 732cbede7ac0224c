/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One element of ASN.1 after the other (ITU-T X.690), as much of it as a module's signature needs:
 * one-byte tags; definite lengths and, as Linux lib/asn1_decoder.c takes them, indefinite ones.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"

enum der_tag {
	DER_INTEGER = 0x02,
	DER_OCTETS = 0x04,
	DER_OID = 0x06,
	DER_SEQUENCE = 0x30,
	DER_SET = 0x31,
	DER_CONTEXT_0 = 0xa0, /* [0], constructed */
	DER_CONTEXT_1 = 0xa1,
	DER_CONTEXT_0_PRIMITIVE = 0x80,
};

/* Bytes that are still to be read, and where in the file they lie. Borrowed. */
struct der {
	const unsigned char *data;
	size_t size;
	size_t offset;
};

struct der_item {
	unsigned int tag;
	struct der content;
};

/*
 * Takes the next element off @in. -EBADMSG with the offset when there is none or when it is cut
 * short, nested too deep or of a form that no signature has.
 */
int der_next(struct der *in, struct der_item *ret, struct error *error) _must_check_;

/* The same for an element that has to have this tag; @what names it in messages. */
int der_expect(struct der *in, unsigned int tag, const char *what, struct der *ret_content,
	struct error *error) _must_check_;

/* Is the next element one of this tag? */
bool der_is_next(const struct der *in, unsigned int tag);
