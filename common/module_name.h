/* SPDX-License-Identifier: Apache-2.0 */
/* A module's name from its file's path, many times over: a leaf, without stdio. */
#pragma once

#include <stddef.h>
#include <string.h>

/*
 * Copies what follows the last '/' of the @length bytes at @path, '-' as '_', into @name of @size
 * bytes; what does not fit is cut.
 */
static inline void module_name_copy(const char *path, size_t length, char *name, size_t size)
{
	const char *slash = memrchr(path, '/', length);
	const char *base = slash ? slash + 1 : path;
	size_t count = length - (size_t) (base - path);

	if (count >= size)
		count = size - 1;
	for (size_t i = 0; i < count; i++)
		name[i] = base[i] == '-' ? '_' : base[i];
	name[count] = '\0';
}
