/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Choices of a mutation: random by a seed, or each in its turn. The same seed gives the same
 * choices on every machine (xorshift64*, Vigna 2014).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dice {
	uint64_t state; /* never 0 */
	bool in_turn;   /* the first choice is number @turn; @turns says how many there are */
	size_t turn;
	size_t turns;
};

static inline uint64_t dice_number(struct dice *dice)
{
	dice->state ^= dice->state >> 12;
	dice->state ^= dice->state << 25;
	dice->state ^= dice->state >> 27;
	return dice->state * 2685821657736338717ULL;
}

/* 0 … @count - 1; 0 where there is nothing to choose. */
static inline size_t dice_choose(struct dice *dice, size_t count)
{
	if (!count)
		return 0;
	if (dice->in_turn && dice->turns == 0) {
		dice->turns = count;
		return dice->turn % count;
	}
	return (size_t) ((dice_number(dice) >> 16) % count);
}
