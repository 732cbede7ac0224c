/* SPDX-License-Identifier: Apache-2.0 */
#include "common/nvidia_version.h"

#include <stdlib.h>

int nvidia_version_compare(const char *a, const char *b)
{
	while (*a && *b) {
		char *end_a, *end_b;
		unsigned long left = strtoul(a, &end_a, 10);
		unsigned long right = strtoul(b, &end_b, 10);

		if (left != right)
			return left < right ? -1 : 1;
		a = end_a + (*end_a != '\0');
		b = end_b + (*end_b != '\0');
	}
	return (*a != '\0') - (*b != '\0');
}
