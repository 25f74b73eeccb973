// SPDX-License-Identifier: Apache-2.0
/* What the workload does all the time: a little of everything per iteration. */
#include <string.h>

#include "wl.h"

#define CHECK_BYTES (64ull << 10)	/* per iteration */
#define PACKETS 4			/* per queue and iteration */

static size_t at_bo;
static uint64_t at_off;

static void check_some(struct wl *w)
{
	uint64_t left = CHECK_BYTES;

	for (size_t looked = 0; left && looked < 64 && w->nbos; looked++) {
		struct bo *b = w->bos[at_bo % w->nbos];
		uint64_t len, bad;

		if (b->role != ROLE_DATA || !b->cpu || at_off >= b->size) {
			at_bo = (at_bo + 1) % w->nbos;
			at_off = 0;
			continue;
		}
		len = b->size - at_off < left ? b->size - at_off : left;
		bad = pattern_check(w->o.seed, b->index, b->content, b->size, at_off, b->cpu + at_off, len);
		if (bad != UINT64_MAX)
			fail(w, "%s: wrong byte at %llu (background)", bo_name(b), (unsigned long long)bad);
		at_off += len;
		left -= len;
	}
}

void background_step(struct wl *w)
{
	if (w->o.background) {
		check_some(w);
		for (unsigned int i = 0; i < w->nused; i++)
			heartbeat_check_and_advance(w, &w->gpus[i]);
		if (w->iterations % 8 == 0)
			threads_poke(w);
	}
	for (size_t i = 0; i < w->nqueues; i++) {
		struct queue *q = &w->queues[i];

		if (queue_done(q) > q->submitted)
			fail(w, "%s: read pointer is ahead of the write pointer", queue_name(q));
		queue_submit(q, PACKETS);
	}
	w->iterations++;
}
