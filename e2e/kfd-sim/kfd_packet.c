// SPDX-License-Identifier: GPL-2.0
/*
 * What the engines understand: NOPs of SDMA and PM4, barrier packets of AQL. All memory is reached
 * through the address space of the queue's GPU. A packet of another kind, or memory that is not there,
 * halts the queue for good, as an engine does that waits for a reset.
 */
#include <linux/timekeeping.h>
#include "kfd.h"

#define SDMA_OP(w) ((w) & 0xff)
#define SDMA_NOP 0
#define SDMA_COUNT(w) (((w) >> 16) & 0x3fff)

#define PM4_TYPE(w) ((w) >> 30)
#define PM4_OP(w) (((w) >> 8) & 0xff)
#define PM4_COUNT(w) (((w) >> 16) & 0x3fff)
#define PM4_NOP 0x10
#define PM4_ONE_DWORD 0x3fff	/* count of a NOP without a body */

enum { AQL_VENDOR, AQL_INVALID, AQL_DISPATCH, AQL_BARRIER_AND, AQL_AGENT, AQL_BARRIER_OR };
#define AQL_BYTES 64
#define AQL_VENDOR_IB 1		/* byte 2 of a vendor packet */
#define AQL_VENDOR_BARRIER_VALUE 2

/* Fields of a signal, from its handle */
#define SIGNAL_VALUE 8
#define SIGNAL_MAILBOX 16
#define SIGNAL_EVENT_ID 24
#define SIGNAL_START_TS 32

struct aql_packet {
	u16 header;
	u8 format, pad0;
	u32 pad1;
	union {
		u64 dep[5];
		struct {
			u64 signal, value, mask;
			u32 cond, pad;
		} bv;
	};
	u64 pad2;
	u64 completion;
};
static_assert(sizeof(struct aql_packet) == AQL_BYTES);

static int rd(struct sim_queue *q, u64 va, void *to, u64 n)
{
	return sim_vm_read(q->pdd->vm, va, to, n);
}

static int wr(struct sim_queue *q, u64 va, const void *from, u64 n)
{
	return sim_vm_write(q->pdd->vm, va, from, n);
}

/* Value first, then the mailbox, then the event: a waiter that wakes must see what it waited for. */
static int complete_signal(struct sim_queue *q, u64 signal, u64 start_ns)
{
	u64 ts[2] = { start_ns, ktime_get_boottime_ns() }, mailbox;
	u32 event;
	int r;

	if (!signal)
		return 0;
	r = wr(q, signal + SIGNAL_START_TS, ts, sizeof(ts));
	if (!r)
		r = sim_vm_add64(q->pdd->vm, signal + SIGNAL_VALUE, -1ull);	/* the CPU writes there as well */
	if (!r)
		r = rd(q, signal + SIGNAL_MAILBOX, &mailbox, sizeof(mailbox));
	if (!r)
		r = rd(q, signal + SIGNAL_EVENT_ID, &event, sizeof(event));
	if (r || !mailbox)
		return r;
	r = wr(q, mailbox, &(u64){ event }, sizeof(u64));
	if (!r)
		sim_event_raise(q->pdd->proc, event);
	return r;
}

/* 1 satisfied, 0 not yet, negative: memory that is not there */
static int barrier_ready(struct sim_queue *q, const struct aql_packet *a, bool any)
{
	bool named = false;
	s64 value;
	u32 i;
	int r;

	for (i = 0; i < ARRAY_SIZE(a->dep); i++) {
		if (!a->dep[i])
			continue;
		named = true;
		r = rd(q, a->dep[i] + SIGNAL_VALUE, &value, sizeof(value));
		if (r)
			return r;
		if (any && !value)
			return 1;
		if (!any && value)
			return 0;
	}
	return !any || !named;
}

static int barrier_value_ready(struct sim_queue *q, const struct aql_packet *a)
{
	u64 value;
	int r;

	if (!a->bv.signal)
		return 1;
	r = rd(q, a->bv.signal + SIGNAL_VALUE, &value, sizeof(value));
	if (r)
		return r;
	value &= a->bv.mask;
	switch (a->bv.cond) {
	case 0:
		return value == a->bv.value;
	case 1:
		return value != a->bv.value;
	case 2:
		return (s64)value < (s64)a->bv.value;
	case 3:
		return (s64)value >= (s64)a->bv.value;
	default:
		return -EINVAL;
	}
}

static int aql_ready(struct sim_queue *q, const struct aql_packet *a)
{
	switch (a->header & 0xff) {
	case AQL_INVALID:	/* not written yet: wait, never skip */
		return 0;
	case AQL_BARRIER_AND:
		return barrier_ready(q, a, false);
	case AQL_BARRIER_OR:
		return barrier_ready(q, a, true);
	case AQL_VENDOR:
		if (a->format == AQL_VENDOR_IB)		/* cache maintenance */
			return 1;
		if (a->format == AQL_VENDOR_BARRIER_VALUE)
			return barrier_value_ready(q, a);
		return -EOPNOTSUPP;
	default:
		return -EOPNOTSUPP;
	}
}

static int run_aql(struct sim_queue *q, u64 wptr, u32 budget, u32 *done)
{
	u64 slots = q->ring_size / AQL_BYTES, start = ktime_get_boottime_ns();
	const u16 invalid = AQL_INVALID;
	struct aql_packet a;
	int r;

	if (wptr - q->rptr > slots)	/* not a position that a program could have reached */
		return 0;
	while (q->rptr != wptr && *done < budget) {
		u64 va = q->ring + (q->rptr & (slots - 1)) * AQL_BYTES;

		r = rd(q, va, &a, sizeof(a));
		if (!r)
			r = aql_ready(q, &a);
		if (r <= 0)
			return r;
		r = complete_signal(q, a.completion, start);
		if (!r)
			r = wr(q, va, &invalid, sizeof(invalid));
		if (r)
			return r;
		q->rptr++;
		(*done)++;
	}
	return 0;
}

/* Dwords that the packet at `w` takes, or a negative error. */
static int nop_length(const struct sim_queue *q, u32 w)
{
	if (sim_queue_is_sdma(q))
		return SDMA_OP(w) == SDMA_NOP ? 1 + SDMA_COUNT(w) : -EOPNOTSUPP;
	if (PM4_TYPE(w) == 2)
		return 1;
	if (PM4_TYPE(w) == 3 && PM4_OP(w) == PM4_NOP)
		return PM4_COUNT(w) == PM4_ONE_DWORD ? 1 : PM4_COUNT(w) + 2;
	return -EOPNOTSUPP;
}

/* `unit` is what the pointers count: bytes for SDMA, dwords for PM4. */
static int run_dwords(struct sim_queue *q, u64 wptr, u32 unit, u32 budget, u32 *done)
{
	u64 ring = q->ring_size / unit, left;
	u32 buf[64];
	int r, n;

	if (wptr % (4 / unit))
		return -EINVAL;
	left = wptr - q->rptr;
	if (left > ring) {
		/* The program lets its pointer wrap with the ring; so does ours then. */
		left &= ring - 1;
		q->rptr = wptr - left;
	}
	while (left && *done < budget) {
		u64 at = (q->rptr & (ring - 1)) * unit;
		u32 have = min3(left * unit, q->ring_size - at, (u64)sizeof(buf)) / 4, i = 0;

		r = rd(q, q->ring + at, buf, have * 4);
		if (r)
			return r;
		while (i < have && *done < budget) {
			n = nop_length(q, buf[i]);
			if (n < 0)
				return n;
			if ((u64)n * 4 > left * unit)	/* its end is not written yet */
				return 0;
			q->rptr += (u64)n * 4 / unit;
			left -= (u64)n * 4 / unit;
			i += n;
			(*done)++;
		}
	}
	return 0;
}

u32 sim_queue_execute(struct sim_queue *q, u32 budget)
{
	u64 before = q->rptr, wptr;
	u32 done = 0;
	int r, w;

	r = rd(q, q->wptr_va, &wptr, sizeof(wptr));
	if (r || wptr == q->rptr)
		goto out;
	if (q->format == SIM_FORMAT_AQL)
		r = run_aql(q, wptr, budget, &done);
	else
		r = run_dwords(q, wptr, sim_queue_is_sdma(q) ? 1 : 4, budget, &done);
	if (q->rptr != before) {
		w = wr(q, q->rptr_va, &q->rptr, sizeof(q->rptr));
		if (w)
			r = w;
	}
out:
	if (r < 0) {
		pr_info_ratelimited("kfd-sim: queue %u of process %d halted at %llu: error %d\n", q->qid, q->pdd->proc->pid,
			q->rptr, r);
		q->halted = true;
	}
	return done;
}
