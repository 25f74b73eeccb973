// SPDX-License-Identifier: GPL-2.0
/*
 * SDMA packets. Counts are in bytes below family 141 and "bytes - 1" from there on. Nothing here touches a kernel object:
 * memory is reached through the sim_vm_*() accessors alone.
 */
#include <linux/errno.h>
#include <linux/minmax.h>
#include "drm_sim.h"
#include "sdma.h"

enum {
	OP_NOP = 0, OP_COPY = 1, OP_WRITE = 2, OP_FENCE = 5, OP_TRAP = 6, OP_POLL = 8, OP_ATOMIC = 10, OP_FILL = 11,
	OP_TIMESTAMP = 13, OP_SRBM_WRITE = 14, OP_GCR = 17,
};
#define SUB_LINEAR 0
#define SUB_RECT 4
#define ATOMIC_ADD64 47
#define COUNT_MASK_OLD 0x3fffffu	/* CIK and VI: 22 bits */
#define COUNT_MASK_NEW 0x3fffffffu	/* 22 bits on the first, 30 on the later engines of AI and up */

static bool sim_new_counts(const struct sim_sdma *s)
{
	return s->family >= AMDGPU_FAMILY_AI;
}

static u64 sim_addr(const u32 *dw)
{
	return (dw[0] | (u64)dw[1] << 32) & SIM_VA_MASK;
}

static void sim_touch(struct sim_sdma *s, u64 va, u64 len, bool write)
{
	if (s->touch)
		s->touch(s, va, len, write);
}

static void sim_note(struct sim_sdma *s, int r)
{
	if (r)
		s->faults++;
}

int sim_sdma_fixed_len(const struct sim_sdma *s, u32 header)
{
	u32 sub = header >> 8 & 0xff;

	switch (header & 0xff) {
	case OP_NOP:
		return 1 + (header >> 16 & 0x3fff);
	case OP_COPY:
		if (sub == SUB_LINEAR)
			return 7;
		return sub == SUB_RECT ? 13 : -EINVAL;
	case OP_WRITE:
		return sub == SUB_LINEAR ? 4 : -EINVAL;
	case OP_FENCE:
		return 4;
	case OP_TRAP:
		return 2;
	case OP_POLL:
		return 6;
	case OP_ATOMIC:
		return 8;
	case OP_FILL:
		return 5;
	case OP_TIMESTAMP:
		return 3;
	case OP_SRBM_WRITE:
		return 3;
	case OP_GCR:
		return s->family >= AMDGPU_FAMILY_NV ? 5 : -EINVAL;
	default:
		return -EINVAL;
	}
}

static void sim_copy_linear(struct sim_sdma *s, const u32 *dw)
{
	u64 len = sim_new_counts(s) ? (u64)(dw[1] & COUNT_MASK_NEW) + 1 : dw[1] & COUNT_MASK_OLD;
	u64 src = sim_addr(dw + 3), dst = sim_addr(dw + 5);

	sim_touch(s, src, len, false);
	sim_touch(s, dst, len, true);
	sim_note(s, sim_vm_copy(s->vm, dst, src, len));
	s->bytes += len;
	s->copies++;
}

/* A box of elements, row by row. Widths of the fields as on gfx9 to gfx11. */
static void sim_copy_rect(struct sim_sdma *s, const u32 *dw)
{
	u32 shift = dw[0] >> 29, y, z;
	u64 src = sim_addr(dw + 1), dst = sim_addr(dw + 6);
	u64 sx = dw[3] & 0x3fff, sy = dw[3] >> 16 & 0x3fff, sz = dw[4] & 0x7ff;
	u64 spitch = (u64)(dw[4] >> 13) + 1, sslice = (u64)(dw[5] & 0xfffffff) + 1;
	u64 dx = dw[8] & 0x3fff, dy = dw[8] >> 16 & 0x3fff, dz = dw[9] & 0x7ff;
	u64 dpitch = (u64)(dw[9] >> 13) + 1, dslice = (u64)(dw[10] & 0xfffffff) + 1;
	u64 row = ((u64)(dw[11] & 0x3fff) + 1) << shift;
	u32 rows = (dw[11] >> 16 & 0x3fff) + 1, slices = (dw[12] & 0x7ff) + 1;

	for (z = 0; z < slices; z++) {
		for (y = 0; y < rows; y++) {
			u64 from = src + ((sx + (sy + y) * spitch + (sz + z) * sslice) << shift);
			u64 to = dst + ((dx + (dy + y) * dpitch + (dz + z) * dslice) << shift);

			if (s->stop && s->stop(s))
				return;
			sim_touch(s, from, row, false);
			sim_touch(s, to, row, true);
			sim_note(s, sim_vm_copy(s->vm, to, from, row));
			s->bytes += row;
		}
	}
	s->copies++;
}

static void sim_fill(struct sim_sdma *s, const u32 *dw)
{
	u64 dst = sim_addr(dw + 1), len = dw[4] & COUNT_MASK_NEW;

	/* Dword fills: the engine ignores the two low bits of the count. */
	len = sim_new_counts(s) ? (len & ~3ull) + 4 : len & ~3ull;
	sim_touch(s, dst, len, true);
	sim_note(s, sim_vm_fill32(s->vm, dst & ~3ull, dw[3], len));
}

static void sim_store(struct sim_sdma *s, u64 va, const void *data, u64 len)
{
	sim_touch(s, va, len, true);
	sim_note(s, sim_vm_write(s->vm, va, data, len));
}

static int sim_poll(struct sim_sdma *s, const u32 *dw)
{
	u32 value = 0, want = dw[3];

	if (!(dw[0] & 1u << 31))
		return 0;	/* a register, i.e. the HDP flush: nothing to wait for */
	if (sim_vm_read(s->vm, sim_addr(dw + 1), &value, 4)) {
		s->faults++;
		return 0;
	}
	value &= dw[4];
	switch (dw[0] >> 28 & 7) {
	case 0: return 0;
	case 1: return value < want ? 0 : -EAGAIN;
	case 2: return value <= want ? 0 : -EAGAIN;
	case 3: return value == want ? 0 : -EAGAIN;
	case 4: return value != want ? 0 : -EAGAIN;
	case 5: return value >= want ? 0 : -EAGAIN;
	case 6: return value > want ? 0 : -EAGAIN;
	default: return -EINVAL;
	}
}

/* WRITE carries its data behind the four fixed dwords; returns the dwords of the whole packet. */
static int sim_write_linear(struct sim_sdma *s, const u32 *dw, u64 va, u32 avail)
{
	u32 n = (dw[3] & 0xfffff) + sim_new_counts(s), i, k, chunk[16];
	u64 dst = sim_addr(dw + 1);

	if (n > avail - 4)
		return -EINVAL;
	for (i = 0; i < n; i += k) {
		k = min_t(u32, n - i, ARRAY_SIZE(chunk));
		if (sim_vm_read(s->vm, va + 4ull * (4 + i), chunk, 4ull * k))
			return -EFAULT;
		sim_store(s, dst + 4ull * i, chunk, 4ull * k);
	}
	return 4 + n;
}

int sim_sdma_step(struct sim_sdma *s, u64 va, u32 avail)
{
	u32 dw[SIM_SDMA_MAX_PACKET];
	int len, r = 0;
	u64 now;

	if (!avail)
		return -EINVAL;
	if (sim_vm_read(s->vm, va, dw, 4))
		return -EFAULT;
	len = sim_sdma_fixed_len(s, dw[0]);
	if (len < 0 || len > avail)
		return -EINVAL;
	if ((dw[0] & 0xff) != OP_NOP && sim_vm_read(s->vm, va + 4, dw + 1, 4ull * (len - 1)))
		return -EFAULT;

	switch (dw[0] & 0xff) {
	case OP_COPY:
		if ((dw[0] >> 8 & 0xff) == SUB_RECT)
			sim_copy_rect(s, dw);
		else
			sim_copy_linear(s, dw);
		break;
	case OP_WRITE:
		len = sim_write_linear(s, dw, va, avail);
		if (len < 0)
			return len;
		break;
	case OP_FENCE:
		sim_store(s, sim_addr(dw + 1), dw + 3, 4);
		break;
	case OP_TRAP:
		if (s->trap)
			s->trap(s, dw[1] & 0xfffffff);
		break;
	case OP_POLL:
		r = sim_poll(s, dw);
		if (r)
			return r;
		break;
	case OP_ATOMIC:
		if (dw[0] >> 25 != ATOMIC_ADD64)
			return -EINVAL;
		sim_touch(s, sim_addr(dw + 1), 8, true);
		sim_note(s, sim_vm_add64(s->vm, sim_addr(dw + 1), dw[3] | (u64)dw[4] << 32));
		break;
	case OP_FILL:
		sim_fill(s, dw);
		break;
	case OP_TIMESTAMP:
		now = s->clock ? s->clock(s) : 0;
		sim_store(s, sim_addr(dw + 1), &now, 8);
		break;
	default:	/* NOP, cache control and register writes have no effect that could be seen */
		break;
	}
	s->packets++;
	return len;
}

int sim_sdma_run(struct sim_sdma *s, u64 va, u32 ndw)
{
	while (ndw) {
		int n;

		if (s->stop && s->stop(s))
			return -ECANCELED;
		n = sim_sdma_step(s, va & SIM_VA_MASK, ndw);
		if (n == -EAGAIN) {
			if (!s->pause)
				return n;
			s->pause(s);
			continue;
		}
		if (n < 0)
			return n;
		va += 4ull * n;
		ndw -= n;
	}
	return 0;
}
