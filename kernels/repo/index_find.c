/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/repo/index.h"

const struct package *index_find(const struct index *index, const char *name)
{
	size_t first = 0, last = index->count;

	while (first < last) {
		size_t middle = first + (last - first) / 2;

		if (strcmp(index->packages[middle].name, name) < 0)
			first = middle + 1;
		else
			last = middle;
	}
	return first < index->count && strcmp(index->packages[first].name, name) == 0
		       ? &index->packages[first]
		       : NULL;
}
