// SPDX-License-Identifier: GPL-2.0
/* What is scarce about queues: SDMA numbers (per GPU, over all processes) and doorbells (per process and GPU). */
#include "kfd.h"
#include "kfd_criu.h"

/* Doorbells that belong to the SDMA and video engines; the same places again in the second half. */
#define RESERVED_FIRST 0x0f0
#define RESERVED_END 0x200
#define MIRROR 512
#define SDMA_FIRST 0x100
#define SDMA_STRIDE 0xa

static bool is_gfx9_or_later(const struct sim_pdd *pdd)
{
	return pdd->gpu->desc->gfx_target_version >= 90000;
}

static u32 engines(const struct sim_queue *q)
{
	const struct sim_node_desc *d = q->pdd->gpu->desc;

	return q->type == SIM_QUEUE_XGMI ? d->num_sdma_xgmi_engines : d->num_sdma_engines;
}

static u32 slots(const struct sim_queue *q)
{
	return min_t(u32, engines(q) * q->pdd->gpu->desc->num_sdma_queues_per_engine, SIM_SDMA_SLOTS);
}

static unsigned long *used_map(struct sim_queue *q)
{
	return q->type == SIM_QUEUE_XGMI ? q->pdd->gpu->xgmi_used : q->pdd->gpu->sdma_used;
}

static int take_sdma(struct sim_queue *q, u32 by_engine, const u32 *wanted)
{
	struct sim_gpu *gpu = q->pdd->gpu;
	unsigned long *used = used_map(q);
	u32 n = slots(q), step = 1, i = 0;
	int r = -ENOMEM;

	if (by_engine != SIM_ANY_ENGINE) {
		i = by_engine;
		step = engines(q);
	}
	mutex_lock(&gpu->lock);
	if (wanted) {
		if (*wanted >= n) {
			r = -EINVAL;
			goto out;
		}
		r = test_bit(*wanted, used) ? -EBUSY : 0;
		i = *wanted;
	} else {
		for (; i < n; i += step) {
			if (!test_bit(i, used)) {
				r = 0;
				break;
			}
		}
	}
	if (!r) {
		set_bit(i, used);
		q->sdma_id = i;
		q->sdma_held = true;
	}
out:
	mutex_unlock(&gpu->lock);
	return r;
}

/*
 * The doorbell of an SDMA queue follows from its number, and from which part of a partitioned card the
 * GPU is: that is the function number of its location.
 */
static u32 sdma_doorbell(const struct sim_queue *q)
{
	const struct sim_node_desc *d = q->pdd->gpu->desc;
	u32 engine = q->sdma_id % engines(q), nr = q->sdma_id / engines(q);

	if (q->type == SIM_QUEUE_XGMI)
		engine += d->num_sdma_engines;
	engine += (d->location_id & 7) * (d->num_sdma_engines + d->num_sdma_xgmi_engines);
	return SDMA_FIRST + engine * SDMA_STRIDE + (nr & 1) * MIRROR + (nr >> 1);
}

static int take_doorbell(struct sim_queue *q, const u32 *wanted)
{
	struct sim_pdd *pdd = q->pdd;
	u32 id;

	/* Before gfx9 the doorbell is the queue's id. */
	if (!is_gfx9_or_later(pdd) || sim_queue_is_sdma(q)) {
		id = is_gfx9_or_later(pdd) ? sdma_doorbell(q) : q->qid;
		if (wanted && *wanted != id)
			return -EINVAL;
		q->doorbell_id = id;
		return 0;
	}
	if (wanted) {
		id = *wanted;
		if (id >= SIM_DOORBELLS || (id % MIRROR >= RESERVED_FIRST && id % MIRROR < RESERVED_END) ||
		    test_bit(id, pdd->doorbell_used))
			return -EINVAL;
	} else {
		for (id = 0; id < SIM_DOORBELLS; id++)
			if (!test_bit(id, pdd->doorbell_used) &&
			    !(id % MIRROR >= RESERVED_FIRST && id % MIRROR < RESERVED_END))
				break;
		if (id == SIM_DOORBELLS)
			return -EBUSY;
	}
	set_bit(id, pdd->doorbell_used);
	q->doorbell_held = true;
	q->doorbell_id = id;
	return 0;
}

int sim_qres_take(struct sim_queue *q, u32 by_engine, const struct sim_criu_queue *rec)
{
	int r;

	if (!sim_pdd_doorbells(q->pdd))
		return -ENOMEM;
	if (sim_queue_is_sdma(q)) {
		r = take_sdma(q, by_engine, rec ? &rec->sdma_id : NULL);
		if (r)
			return r;
	}
	r = take_doorbell(q, rec ? &rec->doorbell_id : NULL);
	if (r)
		sim_qres_release(q);
	return r;
}

void sim_qres_release(struct sim_queue *q)
{
	struct sim_gpu *gpu = q->pdd->gpu;

	if (q->sdma_held) {
		mutex_lock(&gpu->lock);
		clear_bit(q->sdma_id, used_map(q));
		mutex_unlock(&gpu->lock);
		q->sdma_held = false;
	}
	if (q->doorbell_held) {
		clear_bit(q->doorbell_id, q->pdd->doorbell_used);
		q->doorbell_held = false;
	}
}

u32 sim_doorbell_offset(const struct sim_queue *q)
{
	return q->doorbell_id * (sim_sys.doorbell_slice / SIM_DOORBELLS);
}
