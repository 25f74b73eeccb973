// SPDX-License-Identifier: Apache-2.0
/* User queues: their buffers, NOP packets, doorbells, progress. */
#include <linux/kfd_ioctl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wl.h"

#define EOP_SIZE 4096ull
#define PM4_NOP 0xc0001000u		/* type 3, opcode NOP, one dword of payload */
#define AQL_BARRIER_AND 0x0103u		/* type 3, barrier bit, no fences */
#define AQL_PACKET 64u

static const char *const kind_names[] = { "compute", "AQL", "SDMA" };

const char *queue_name(const struct queue *q)
{
	static char text[64];

	snprintf(text, sizeof(text), "%s queue %u of GPU %u", kind_names[q->kind], q->id, q->gpu->index);
	return text;
}

static uint64_t ring_size(enum queue_kind kind)
{
	return kind == QUEUE_SDMA ? 0x10000 : 0x1000;
}

static struct bo *host_bo(struct wl *w, struct gpu *g, uint64_t size, enum bo_role role, bool userptr)
{
	bool gtt = !userptr && !(w->o.fds & FDS_NO_RENDER_MAP);

	return bo_new(w, g, gtt ? BO_GTT : BO_USERPTR, size, 0, role, KFD_IOC_ALLOC_MEM_FLAGS_UNCACHED);
}

/* As runtimes do: SDMA pointers in GTT, AQL pointers in host memory; rings alternate to have both kinds. */
static int make_buffers(struct wl *w, struct gpu *g, struct queue *q, unsigned int nth, struct cwsr_need *n)
{
	char *page;

	q->ring = host_bo(w, g, ring_size(q->kind), ROLE_RING, nth % 2 == 0);
	q->pointers = host_bo(w, g, WL_PAGE, ROLE_POINTERS, q->kind != QUEUE_SDMA);
	if (!q->ring || !q->pointers)
		return -1;
	memset(q->ring->cpu, 0, q->ring->size);
	memset(q->pointers->cpu, 0, WL_PAGE);
	page = q->pointers->cpu;
	q->rptr = (uint64_t *)(page + (q->kind == QUEUE_SDMA ? 0x10 : 0x80));
	q->wptr = (uint64_t *)(page + (q->kind == QUEUE_SDMA ? 0x08 : 0x38));
	if (q->kind == QUEUE_AQL)	/* packets that are not there yet have type 1 */
		for (uint64_t i = 0; i < q->ring->size; i += AQL_PACKET)
			q->ring->cpu[i] = 1;
	if (q->kind == QUEUE_SDMA)
		return 0;
	cwsr_need(g, n);
	if (g->gfx / 100 != 904 && g->gfx / 100 != 905) {
		q->eop = bo_new(w, g, BO_VRAM, EOP_SIZE, OPT_SHARED_NONE, ROLE_EOP, 0);
		if (!q->eop)
			return -1;
	}
	q->cwsr = bo_new(w, g, BO_USERPTR, n->bo, 0, ROLE_CWSR, 0);
	if (!q->cwsr)
		return -1;
	cwsr_write_headers(g, n, q->cwsr->cpu);
	return 0;
}

static int create(struct wl *w, struct gpu *g, struct queue *q, const struct cwsr_need *n)
{
	static const uint32_t types[] = {
		KFD_IOC_QUEUE_TYPE_COMPUTE, KFD_IOC_QUEUE_TYPE_COMPUTE_AQL, KFD_IOC_QUEUE_TYPE_SDMA,
	};
	struct kfd_ioctl_create_queue_args a = {
		.ring_base_address = q->ring->va,
		.write_pointer_address = (uintptr_t)q->wptr,
		.read_pointer_address = (uintptr_t)q->rptr,
		.ring_size = q->ring->size,
		.gpu_id = g->gpu_id,
		.queue_type = types[q->kind],
		.queue_percentage = q->percent,
		.queue_priority = q->priority,
	};
	int r;

	if (q->eop) {
		a.eop_buffer_address = q->eop->va;
		a.eop_buffer_size = q->eop->size;
	}
	if (q->cwsr) {
		a.ctx_save_restore_address = q->cwsr->va;
		a.ctx_save_restore_size = n->ctx;
		a.ctl_stack_size = n->ctl;
	}
	r = kfd_ioctl(w, AMDKFD_IOC_CREATE_QUEUE, &a);
	if (r)
		return oops(w, "CREATE_QUEUE (%s) on GPU %u: %s", kind_names[q->kind], g->index, strerror(-r));
	q->id = a.queue_id;
	q->doorbell_offset = a.doorbell_offset;
	/* Only the place inside the slice counts: the slice was mapped when its BO was made. */
	q->doorbell = (uint64_t *)(g->doorbell->cpu + (a.doorbell_offset & (g->doorbell->size - 1)));
	return 0;
}

int queue_make(struct wl *w, struct gpu *g, enum queue_kind kind, unsigned int nth, struct queue *q)
{
	struct cwsr_need n = { 0 };

	*q = (struct queue){ .gpu = g, .kind = kind, .percent = 100, .priority = kind == QUEUE_SDMA ? 15 : 7 };
	if (!make_buffers(w, g, q, nth, &n) && !create(w, g, q, &n))
		return 0;
	q->id = UINT32_MAX;
	queue_destroy(w, q);
	return -1;
}

int queue_destroy(struct wl *w, struct queue *q)
{
	struct bo *bos[] = { q->ring, q->pointers, q->eop, q->cwsr };
	int first = 0;

	if (q->id != UINT32_MAX) {
		struct kfd_ioctl_destroy_queue_args a = { .queue_id = q->id };
		int r = kfd_ioctl(w, AMDKFD_IOC_DESTROY_QUEUE, &a);

		if (r) {
			fail(w, "DESTROY_QUEUE of %s: %s", queue_name(q), strerror(-r));
			first = r;
		}
	}
	for (size_t i = 0; i < sizeof(bos) / sizeof(*bos); i++) {
		int r = bos[i] ? bo_release_listed(w, bos[i]) : 0;

		first = first ? first : r;
	}
	return first;
}

int queue_update(struct wl *w, struct queue *q, unsigned int percent)
{
	struct kfd_ioctl_update_queue_args a = {
		.queue_id = q->id, .ring_base_address = q->ring->va, .ring_size = q->ring->size,
		.queue_percentage = percent, .queue_priority = q->priority,
	};

	return kfd_ioctl(w, AMDKFD_IOC_UPDATE_QUEUE, &a);
}

int queue_setup(struct wl *w)
{
	const unsigned int want[] = { w->o.q_compute, w->o.q_aql, w->o.q_sdma };
	size_t per_gpu = want[0] + want[1] + want[2];

	w->queues = calloc(per_gpu * w->nused + 1, sizeof(*w->queues));
	if (!w->queues)
		return oops(w, "no memory for queues");
	for (unsigned int g = 0; g < w->nused; g++) {
		for (int kind = 0; kind < 3; kind++) {
			for (unsigned int i = 0; i < want[kind]; i++) {
				if (queue_make(w, &w->gpus[g], kind, i, &w->queues[w->nqueues]))
					return -1;
				w->nqueues++;
			}
		}
	}
	return 0;
}

/* Write position in packets that the queue has been shown. */
static unsigned int room(const struct queue *q)
{
	uint64_t packet = q->kind == QUEUE_AQL ? AQL_PACKET : q->kind == QUEUE_SDMA ? 4 : 8;
	uint64_t slots = q->ring->size / packet - 8;	/* never quite full, so that full and empty differ */
	uint64_t busy = q->submitted - queue_done(q);

	return busy < slots ? slots - busy : 0;
}

static void put_packet(struct queue *q, uint64_t n)
{
	char *ring = q->ring->cpu;

	switch (q->kind) {
	case QUEUE_SDMA: {
		uint32_t *p = (uint32_t *)(ring + n * 4 % q->ring->size);

		*p = 0;
		break;
	}
	case QUEUE_COMPUTE: {
		uint32_t *p = (uint32_t *)(ring + n * 8 % q->ring->size);

		p[1] = n;
		p[0] = PM4_NOP;
		break;
	}
	case QUEUE_AQL: {
		char *p = ring + n * AQL_PACKET % q->ring->size;

		memset(p + 2, 0, AQL_PACKET - 2);
		__atomic_store_n((uint16_t *)p, AQL_BARRIER_AND, __ATOMIC_RELEASE);
		break;
	}
	}
}

unsigned int queue_submit(struct queue *q, unsigned int n)
{
	unsigned int can = room(q);
	uint64_t end;

	n = n < can ? n : can;
	if (!n)
		return 0;
	end = q->submitted + n;
	/* An AQL write index is advanced before its packets become valid; the others after. */
	if (q->kind == QUEUE_AQL)
		__atomic_store_n(q->wptr, end, __ATOMIC_RELEASE);
	for (uint64_t i = q->submitted; i < end; i++)
		put_packet(q, i);
	q->submitted = end;
	switch (q->kind) {
	case QUEUE_SDMA:
		__atomic_store_n(q->wptr, end * 4, __ATOMIC_RELEASE);
		*q->doorbell = end * 4;
		break;
	case QUEUE_COMPUTE:
		__atomic_store_n(q->wptr, end * 2, __ATOMIC_RELEASE);
		*q->doorbell = end * 2;
		break;
	case QUEUE_AQL:
		*q->doorbell = end - 1;
		break;
	}
	return n;
}

uint64_t queue_done(const struct queue *q)
{
	uint64_t r = __atomic_load_n(q->rptr, __ATOMIC_ACQUIRE);

	switch (q->kind) {
	case QUEUE_SDMA:
		return r / 4;
	case QUEUE_AQL:
		return r;
	default: {
		/*
		 * Hardware reports the place inside the ring, in dwords. Never more than a ring is
		 * outstanding, so that the distance from the write position tells the whole number.
		 */
		uint64_t ring = q->ring->size / 4;
		uint64_t behind = (q->submitted * 2 - r) & (ring - 1);

		return q->submitted - behind / 2;
	}
	}
}

void queue_totals(struct wl *w, uint64_t *submitted, uint64_t *done)
{
	*submitted = *done = 0;
	for (size_t i = 0; i < w->nqueues; i++) {
		*submitted += w->queues[i].submitted;
		*done += queue_done(&w->queues[i]);
	}
}

bool queue_wait(struct wl *w, struct queue *q, uint64_t packets)
{
	/* Counted in naps, not by the clock: the clock jumps when the process is restored. */
	for (unsigned int ms = 0; ms < w->o.queue_timeout_s * 1000; ms += 2) {
		if (queue_done(q) >= packets)
			return true;
		nap_ms(2);
		state_tick(w);
	}
	return queue_done(q) >= packets;
}
