// SPDX-License-Identifier: GPL-2.0
/*
 * Numbers of the chips that descriptions name with model=. Sources: topology trees of real machines
 * that device plugins and monitoring tools carry as test data (MI210, MI300X, MI300A, MI308), else
 * the vendor's data sheets. The SVM capability bit (0x08000000) is clear everywhere: the simulator
 * has no SVM.
 */
#include <linux/kernel.h>
#include <linux/string.h>
#include "desc.h"

#define MIB(x) ((u64)(x) << 20)
#define GIB(x) ((u64)(x) << 30)

/* Real cards print their VRAM less 16 MiB that the firmware keeps. */
#define CARD_VRAM(gib) (GIB(gib) - MIB(16))

struct model {
	const char *key;	/* value of model= */
	struct sim_node_desc n;
};

/* Common to every CDNA chip of gfx9. */
#define CDNA_COMMON							\
	.max_waves_per_simd = 8, .lds_size_in_kb = 64, .num_gws = 64,	\
	.wave_front_size = 64, .simd_arrays_per_engine = 1,		\
	.simd_per_cu = 4, .max_slots_scratch_cu = 32,			\
	.vendor_id = 0x1002, .num_sdma_engines = 2,			\
	.num_sdma_queues_per_engine = 8, .num_cp_queues = 24,		\
	.heap_type = 1, .family = 141, .cu_per_icache = 2

#define MI200_COMMON							\
	CDNA_COMMON, .name = "aldebaran", .gfx_target_version = 90010,	\
	.array_count = 8, .cu_per_simd_array = 14, .fw_version = 92,	\
	.sdma_fw_version = 9, .capability = 0x2477a280,			\
	.debug_prop = 470, .num_xcc = 1, .num_sdma_xgmi_engines = 3,	\
	.mem_bytes = CARD_VRAM(64), .mem_width = 4096,			\
	.mem_clk_max = 1600, .max_engine_clk_fcompute = 1700,		\
	.l1_kb = 16, .l2_kb = 8192

#define MI300_COMMON							\
	CDNA_COMMON, .name = "ip discovery",				\
	.gfx_target_version = 90402, .cu_per_simd_array = 10,		\
	.capability = 0x2477a280, .debug_prop = 1511,			\
	.mem_width = 8192, .mem_clk_max = 1300,				\
	.max_engine_clk_fcompute = 2100, .l1_kb = 32, .l2_kb = 4096,	\
	.l3_kb = 262144

/* Few CUs keep the context save area of an AQL queue (pinned user memory) at 2.3 MiB, and less than
 * 1.1 GiB of VRAM keeps the HSA runtime from taking 140 MiB of scratch at its first queue.
 */
#define SMALL_COMMON							\
	.max_waves_per_simd = 8, .lds_size_in_kb = 64,			\
	.wave_front_size = 64, .simd_count = 16, .array_count = 1,	\
	.simd_arrays_per_engine = 1, .cu_per_simd_array = 4,		\
	.simd_per_cu = 4, .max_slots_scratch_cu = 32,			\
	.vendor_id = 0x1002, .num_sdma_engines = 2, .num_cp_queues = 24, \
	.heap_type = 1, .mem_bytes = GIB(1), .num_xcc = 1,		\
	.mem_width = 4096, .mem_clk_max = 1600,				\
	.max_engine_clk_fcompute = 1700, .l1_kb = 16, .cu_per_icache = 2

static const struct model models[] = {
	{ "mi210", { MI200_COMMON, .simd_count = 416, .device_id = 0x740f } },
	{ "mi250", { MI200_COMMON, .simd_count = 416, .device_id = 0x740c } },
	{ "mi250x", { MI200_COMMON, .simd_count = 440, .device_id = 0x7408 } },
	{ "mi300x", { MI300_COMMON, .simd_count = 1216, .array_count = 32, .num_xcc = 8,
		      .device_id = 0x74a1, .num_sdma_xgmi_engines = 14, .fw_version = 166,
		      .sdma_fw_version = 22, .mem_bytes = CARD_VRAM(192) } },
	/* One of eight partitions: one XCC, two SDMA engines of its own, an eighth of the memory. */
	{ "mi300x-cpx", { MI300_COMMON, .simd_count = 152, .array_count = 4, .num_xcc = 1,
			  .device_id = 0x74a1, .num_sdma_xgmi_engines = 0, .fw_version = 166,
			  .sdma_fw_version = 22, .mem_bytes = CARD_VRAM(192) / 8 } },
	{ "mi300a", { MI300_COMMON, .simd_count = 912, .array_count = 24, .num_xcc = 6,
		      .device_id = 0x74a0, .num_sdma_xgmi_engines = 10, .fw_version = 138,
		      .sdma_fw_version = 19, .mem_bytes = GIB(120) } },
	{ "vega20", { CDNA_COMMON, .name = "vega20", .gfx_target_version = 90006,
		      .simd_count = 240, .max_waves_per_simd = 10, .array_count = 4,
		      .cu_per_simd_array = 16, .num_xcc = 1, .device_id = 0x66a1,
		      .fw_version = 472, .sdma_fw_version = 145, .capability = 0x2403a280,
		      .debug_prop = 1494, .mem_bytes = CARD_VRAM(16), .mem_width = 4096,
		      .mem_clk_max = 1000, .max_engine_clk_fcompute = 1725,
		      .l1_kb = 16, .l2_kb = 4096, .cu_per_icache = 3 } },
	{ "gfx90a", { SMALL_COMMON, .name = "aldebaran", .gfx_target_version = 90010,
		      .device_id = 0x740c, .family = 141, .num_gws = 64, .fw_version = 92,
		      .sdma_fw_version = 9, .num_sdma_queues_per_engine = 8,
		      .capability = 0x2477a280, .debug_prop = 470, .l2_kb = 8192 } },
	/* Older than gfx9: 32-bit doorbells (type 1), SDMA counts without the minus one. */
	{ "gfx8", { SMALL_COMMON, .name = "polaris10", .gfx_target_version = 80003,
		    .device_id = 0x67df, .family = 130, .fw_version = 730,
		    .sdma_fw_version = 58, .num_sdma_queues_per_engine = 2,
		    .capability = 0x1280, .l2_kb = 2048 } },
};

int sim_model_fill(const char *name, struct sim_node_desc *n)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(models); i++)
		if (!strcmp(models[i].key, name)) {
			*n = models[i].n;
			return 0;
		}
	return -ENOENT;
}

/* Bytes of vector registers that one CU saves. */
static u32 vgpr_bytes(u32 gfx)
{
	if (gfx == 90008 || gfx == 90010 || gfx / 100 == 904 || gfx / 100 == 905)
		return 0x80000;
	if (gfx == 110000 || gfx == 110001 || gfx >= 120000)
		return 0x60000;
	return 0x40000;
}

/*
 * Size of one XCC's context save area and of the control stack in it, as the user-space thunk
 * computes them from the other properties; the kernel insists on the same numbers at CREATE_QUEUE.
 */
void sim_cwsr_sizes(const struct sim_node_desc *n, u32 *cwsr, u32 *ctl_stack)
{
	bool gfx10 = n->gfx_target_version >= 100100;
	u32 cu = n->simd_count / n->simd_per_cu / n->num_xcc;
	u32 waves = gfx10 ? cu * 32 :
		    min(cu * 40, n->array_count / n->simd_arrays_per_engine * 512);
	u32 ctl = ALIGN(waves * (gfx10 ? 12 : 8) + 8 + 40, 4096);

	if (n->gfx_target_version / 10000 == 10)
		ctl = min(ctl, 0x7000u);
	*ctl_stack = ctl;
	*cwsr = ctl + ALIGN(cu * (vgpr_bytes(n->gfx_target_version) + 0x4000 + 0x10000 + 0x1000), 4096);
}

/* One L1 for each CU, instruction and scalar caches for each group of CU slots, then L2 and L3. */
u32 sim_default_caches(const struct sim_node_desc *n)
{
	u32 groups = n->array_count * DIV_ROUND_UP(n->cu_per_simd_array, max(n->cu_per_icache, 1u));

	return n->simd_count / n->simd_per_cu + 2 * groups + 1 + (n->l3_kb ? 1 : 0);
}
