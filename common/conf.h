/* SPDX-License-Identifier: Apache-2.0 */
/* "key=value" lines: what Slipway's own small files (image.conf, set.conf, the status) are made of.
 */
#pragma once

#include <stddef.h>

/* Copies the value of the first line "@key=" in @text to @value, cut at @size. "" without one. */
void conf_value(const char *text, const char *key, char *value, size_t size);
