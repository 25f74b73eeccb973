// SPDX-License-Identifier: Apache-2.0
/* Size and header of the context save area of a compute queue, as runtimes compute it from the topology. */
#include <string.h>

#include "wl.h"

#define GFX10 100000u
#define SGPR_BYTES_PER_CU 0x4000u
#define HWREG_BYTES_PER_CU 0x1000u
#define DEBUG_BYTES_PER_WAVE 32u
#define HEADER_BYTES 40u

static uint32_t vgpr_bytes_per_cu(uint32_t gfx)
{
	switch (gfx) {
	case 90008:	/* gfx908 */
	case 90010:	/* gfx90a */
		return 0x80000;
	case 110000:
	case 110001:
		return 0x60000;
	}
	if (gfx / 10000 == 12)
		return 0x60000;
	if (gfx / 100 == 904 || gfx / 100 == 905)	/* gfx94x, gfx950 */
		return 0x80000;
	return 0x40000;
}

void cwsr_need(const struct gpu *g, struct cwsr_need *n)
{
	uint64_t cu = g->simd_count / (g->simd_per_cu ? g->simd_per_cu : 4) / g->num_xcc;
	uint64_t engines = g->array_count / (g->simd_arrays_per_engine ? g->simd_arrays_per_engine : 1);
	bool gfx10 = g->gfx >= GFX10;
	uint64_t waves, ctl, wg;

	if (gfx10) {
		waves = cu * 32;
	} else {
		waves = cu * 40;
		if (engines && waves > 512 * engines)
			waves = 512 * engines;
	}
	ctl = page_up(waves * (gfx10 ? 12 : 8) + 8 + HEADER_BYTES);
	if (gfx10 && g->gfx < 110000 && ctl > 0x7000)
		ctl = 0x7000;
	wg = page_up(cu * (vgpr_bytes_per_cu(g->gfx) + SGPR_BYTES_PER_CU + 0x10000 + HWREG_BYTES_PER_CU));
	n->ctl = g->ctl_stack_size ? g->ctl_stack_size : ctl;
	n->ctx = g->cwsr_size ? g->cwsr_size : ctl + wg;
	n->debug = (waves * DEBUG_BYTES_PER_WAVE + 63) & ~63ull;
	n->bo = page_up((n->ctx + n->debug) * g->num_xcc);
}

/* Of each XCC: where the debug memory lies from here, and its size; the rest is the hardware's. */
void cwsr_write_headers(const struct gpu *g, const struct cwsr_need *n, char *area)
{
	for (uint32_t x = 0; x < g->num_xcc; x++) {
		uint32_t offset = (g->num_xcc - x) * n->ctx + x * n->debug;
		uint32_t size = n->debug * g->num_xcc;

		memcpy(area + x * n->ctx + 16, &offset, 4);
		memcpy(area + x * n->ctx + 20, &size, 4);
	}
}
