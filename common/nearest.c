/* SPDX-License-Identifier: Apache-2.0 */
#include "common/nearest.h"

#include <string.h>

#define WORD_MAX 63

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Damerau's distance, two letters that changed places being one mistake (optimal alignment). */
static size_t distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
	size_t rows[3][WORD_MAX + 1];
	size_t *before = rows[0], *last = rows[1], *now = rows[2];

	for (size_t j = 0; j <= b_length; j++) {
		before[j] = j;
		last[j] = j;
	}
	for (size_t i = 1; i <= a_length; i++) {
		size_t *spare = before;

		now[0] = i;
		for (size_t j = 1; j <= b_length; j++) {
			now[j] = last[j - 1] + (a[i - 1] != b[j - 1]);
			now[j] = least(now[j], least(last[j], now[j - 1]) + 1);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				now[j] = least(now[j], before[j - 2] + 1);
		}
		before = last;
		last = now;
		now = spare;
	}
	return last[b_length];
}

bool is_slip_of(const char *text, const char *word, size_t most)
{
	size_t text_length = strlen(text), word_length = strlen(word);
	size_t far;

	if (text_length > WORD_MAX || word_length > WORD_MAX || text_length > word_length + most ||
		word_length > text_length + most)
		return false;
	far = distance(text, text_length, word, word_length);
	return far > 0 && far <= most;
}

const char *nearest_word(const struct strv *words, const char *text)
{
	size_t length = strlen(text);
	size_t best = length / 3 + 1;
	const char *found = NULL;

	if (length == 0 || length > WORD_MAX)
		return NULL;
	/* Among names with a number at the end, the last is the newest. */
	for (size_t i = words->count; i-- > 0 && length > 2;)
		if (strncmp(words->items[i], text, length) == 0)
			return words->items[i];
	for (size_t i = 0; i < words->count; i++) {
		size_t word_length = strlen(words->items[i]);
		size_t far = word_length > WORD_MAX
				     ? best
				     : distance(text, length, words->items[i], word_length);

		if (far < best) {
			best = far;
			found = words->items[i];
		}
	}
	return found;
}
