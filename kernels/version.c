/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/version.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static int rank(char c)
{
	if (c == '~')
		return -1;
	if (c == '\0' || isdigit((unsigned char) c))
		return 0;
	return isalpha((unsigned char) c) ? c : (unsigned char) c + 256;
}

static int compare_text(const char **a, const char **b)
{
	while ((**a && !isdigit((unsigned char) **a)) || (**b && !isdigit((unsigned char) **b))) {
		int difference = rank(**a) - rank(**b);

		if (difference)
			return difference;
		(*a)++;
		(*b)++;
	}
	return 0;
}

static int compare_number(const char **a, const char **b)
{
	size_t a_digits, b_digits;
	int difference;

	*a += strspn(*a, "0");
	*b += strspn(*b, "0");
	a_digits = strspn(*a, "0123456789");
	b_digits = strspn(*b, "0123456789");
	if (a_digits != b_digits)
		return a_digits < b_digits ? -1 : 1;
	difference = strncmp(*a, *b, a_digits);
	*a += a_digits;
	*b += b_digits;
	return difference;
}

int version_compare(const char *a, const char *b)
{
	while (*a || *b) {
		int difference = compare_text(&a, &b);

		if (!difference)
			difference = compare_number(&a, &b);
		if (difference)
			return difference;
	}
	return 0;
}

const char *version_without_epoch(const char *version)
{
	const char *colon = strchr(version, ':');

	return colon ? colon + 1 : version;
}

int version_compare_epochs(const char *a, const char *b)
{
	long left = strchr(a, ':') ? strtol(a, NULL, 10) : 0;
	long right = strchr(b, ':') ? strtol(b, NULL, 10) : 0;

	if (left != right)
		return left < right ? -1 : 1;
	return version_compare(version_without_epoch(a), version_without_epoch(b));
}

int version_compare_items(const void *a, const void *b)
{
	return version_compare(*(char *const *) a, *(char *const *) b);
}
