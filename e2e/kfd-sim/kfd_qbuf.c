// SPDX-License-Identifier: GPL-2.0
/* Memory that a queue needs: looked up by GPU address when it is made, held while it lives (6.12 and later). */
#include "kfd.h"

#define WAVE_DEBUG_BYTES 32
#define WAVE_DEBUG_ALIGN 64

/* Room for the debugger behind the wave save area of one XCC. */
static u64 debug_bytes(const struct sim_node_desc *d)
{
	u32 xcc = max(d->num_xcc, 1u), cus, waves;

	if (!d->simd_per_cu || !d->simd_arrays_per_engine)
		return 0;
	cus = d->simd_count / d->simd_per_cu / xcc;
	if (d->gfx_target_version < 100100)
		waves = min(cus * 40, d->array_count / d->simd_arrays_per_engine * 512);
	else
		waves = cus * 32;
	return ALIGN((u64)waves * WAVE_DEBUG_BYTES, WAVE_DEBUG_ALIGN);
}

/*
 * The mapping must begin in the page of `va`; its length is compared in whole pages, and not at all when
 * less than one page is expected.
 */
static int hold(struct sim_queue *q, u32 slot, u64 va, u64 expected)
{
	struct sim_vm *vm = q->pdd->vm;
	u64 first = va >> PAGE_SHIFT, pages = expected >> PAGE_SHIFT;
	struct sim_mapping *m;
	int r = -EINVAL;

	mutex_lock(&vm->lock);
	m = sim_vm_find(vm, va);
	if (m && m->it.start >> PAGE_SHIFT == first && (!pages || m->it.last >> PAGE_SHIFT == first + pages - 1)) {
		q->bufs[slot] = sim_bo_get(m->bo);
		r = 0;
	}
	mutex_unlock(&vm->lock);
	return r;
}

static int hold_compute(struct sim_queue *q)
{
	const struct sim_node_desc *d = q->pdd->gpu->desc;
	u64 area;
	int r;

	if (q->eop) {
		if (q->eop_size < SIM_EOP_BYTES)
			return -EINVAL;
		r = hold(q, 3, q->eop, q->eop_size);
		if (r)
			return r;
	}
	if (!d->cwsr_size)	/* a GPU that does not save waves */
		return 0;
	if (q->ctl_stack != d->ctl_stack_size || q->ctx_size < d->cwsr_size)
		return -EINVAL;
	area = PAGE_ALIGN((q->ctx_size + debug_bytes(d)) * max(d->num_xcc, 1u));
	r = hold(q, 4, q->ctx, area);
	/* The save area, alone of all, may also be shared virtual memory. */
	return r && sim_svm_covers(q->pdd->proc, q->ctx, area) ? 0 : r;
}

int sim_qbuf_acquire(struct sim_queue *q)
{
	u32 gfx = q->pdd->gpu->desc->gfx_target_version;
	u64 ring = q->ring_size;
	int r;

	if (!sim_sys.check_queue_buffers)
		return 0;
	/* On gfx7 and gfx8 an AQL ring lies in the address space twice. */
	if (q->format == SIM_FORMAT_AQL && gfx >= 70000 && gfx < 90000)
		ring /= 2;
	r = hold(q, 0, q->wptr_va, PAGE_SIZE);
	if (!r)
		r = hold(q, 1, q->rptr_va, PAGE_SIZE);
	if (!r)
		r = hold(q, 2, q->ring, ring);
	if (!r && q->type == SIM_QUEUE_COMPUTE)
		r = hold_compute(q);
	if (r)
		sim_qbuf_release(q);
	return r;
}

void sim_qbuf_release(struct sim_queue *q)
{
	u32 i;

	for (i = 0; i < SIM_QUEUE_BUFS; i++) {
		sim_bo_put(q->bufs[i]);
		q->bufs[i] = NULL;
	}
}

bool sim_qbuf_in_use(struct sim_pdd *pdd, struct sim_bo *bo)
{
	struct sim_queue *q;
	u32 i;

	list_for_each_entry(q, &pdd->queues, list)
		for (i = 0; i < SIM_QUEUE_BUFS; i++)
			if (q->bufs[i] == bo)
				return true;
	return false;
}
