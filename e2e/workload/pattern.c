// SPDX-License-Identifier: Apache-2.0
/* Contents of the BOs: a function of seed, BO and offset, so that any part can be made or checked alone. */
#include <string.h>

#include "wl.h"

#define LAST_BYTE 0x5a

static inline uint64_t word(uint64_t key, uint64_t n)
{
	uint64_t x = key + n * 0x9e3779b97f4a7c15ull;

	x ^= x >> 32;
	x *= 0xd6e8feb86659fd93ull;
	x ^= x >> 32;
	return x;
}

static uint64_t key_of(uint64_t seed, unsigned int index)
{
	return word(seed * 0xff51afd7ed558ccdull + 1, index + 1ull) | 1;
}

static uint64_t plain_word(enum content c, uint64_t bo_size, uint64_t off)
{
	return c == CONTENT_LAST_BYTE && off + 8 == bo_size ? (uint64_t)LAST_BYTE << 56 : 0;
}

void pattern_fill(uint64_t seed, unsigned int index, enum content c, uint64_t bo_size,
		  uint64_t off, void *dst, uint64_t len)
{
	uint64_t key = key_of(seed, index), *p = dst;

	for (uint64_t i = 0; i < len / 8; i++)
		p[i] = c == CONTENT_RANDOM ? word(key, off / 8 + i) : plain_word(c, bo_size, off + i * 8);
}

uint64_t pattern_check(uint64_t seed, unsigned int index, enum content c, uint64_t bo_size,
		       uint64_t off, const void *src, uint64_t len)
{
	uint64_t key = key_of(seed, index);
	const uint64_t *p = src;

	for (uint64_t i = 0; i < len / 8; i++) {
		uint64_t want = c == CONTENT_RANDOM ? word(key, off / 8 + i) : plain_word(c, bo_size, off + i * 8);

		if (p[i] != want)
			return off + i * 8 + __builtin_ctzll(p[i] ^ want) / 8;
	}
	return UINT64_MAX;
}
