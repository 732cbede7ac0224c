/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes as lower-case hex: a leaf, without stdio. */
#pragma once

#include <stddef.h>

/* @hex has room for two digits a byte and the NUL. */
static inline void hex_copy(const void *bytes, size_t count, char *hex)
{
	static const char digits[] = "0123456789abcdef";
	const unsigned char *byte = bytes;

	for (size_t i = 0; i < count; i++) {
		*hex++ = digits[byte[i] >> 4];
		*hex++ = digits[byte[i] & 15];
	}
	*hex = '\0';
}
