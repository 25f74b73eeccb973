// SPDX-License-Identifier: Apache-2.0
/* The parts of the proof that run on the GPU: read-back, queues, new allocations. */
#include <linux/kfd_ioctl.h>
#include <string.h>

#include "wl.h"

static void read_back(struct wl *w, struct copier *c, struct bo *b, const char *how)
{
	struct copy_target t;
	int r = copier_attach(c, w, b, &t);

	if (r) {
		fail(w, "%s: %s: %s", bo_name(b), how, copier_error());
		return;
	}
	for (uint64_t off = 0; off < b->size; off += copier_stage_size(c)) {
		uint64_t left = b->size - off, len = left < copier_stage_size(c) ? left : copier_stage_size(c);
		uint64_t bad;

		/* What an earlier copy left in the staging memory must not pass for this one's result. */
		memset(copier_stage(c), 0xc3, len);
		r = copier_copy(c, &t, off, len, false);
		if (r) {
			fail(w, "%s: %s: %s", bo_name(b), how, copier_error());
			break;
		}
		bad = pattern_check(w->o.seed, b->index, b->content, b->size, off, copier_stage(c), len);
		if (bad != UINT64_MAX) {
			fail(w, "%s: wrong byte at %llu, %s (holds %02x)", bo_name(b), (unsigned long long)bad, how,
			     ((unsigned char *)copier_stage(c))[bad - off]);
			break;
		}
		state_tick(w);
	}
	copier_detach(c, &t);
}

/* A BO that is mapped nowhere is mapped for the reading and unmapped again. */
static void read_own(struct wl *w, struct copier *c, struct bo *b)
{
	uint32_t id = b->gpu->gpu_id;
	int r;

	if (b->nids) {
		read_back(w, c, b, "read at its GPU address");
		return;
	}
	r = kfd_map(w, b->handle, &id, 1);
	if (r) {
		fail(w, "%s: MAP_MEMORY_TO_GPU: %s", bo_name(b), strerror(-r));
		return;
	}
	read_back(w, c, b, "mapped and read at its GPU address");
	r = kfd_unmap(w, b->handle, &id, 1);
	if (r)
		fail(w, "%s: UNMAP_MEMORY_FROM_GPU: %s", bo_name(b), strerror(-r));
}

static bool private_wanted(const struct bo *b)
{
	return b->role == ROLE_DATA && b->kind != BO_USERPTR && !b->nids;
}

static void gpu_own(struct wl *w, struct gpu *g)
{
	struct copier *c = copier_open(w, g, true);

	if (!c) {
		fail(w, "copies in the process's VM of GPU %u: %s", g->index, copier_error());
		return;
	}
	for (size_t i = 0; i < w->nbos; i++) {
		struct bo *b = w->bos[i];

		if (b->role == ROLE_DATA && (bo_on_gpu(b, g) || (!b->nids && b->gpu == g && b->va)))
			read_own(w, c, b);
	}
	copier_close(c);
}

static void gpu_private(struct wl *w, struct gpu *g)
{
	struct copier *c = NULL;
	bool can = w->kfd_minor >= KFD_MINOR_EXPORT && gpu_same_id(w, g);

	for (size_t i = 0; i < w->nbos; i++) {
		struct bo *b = w->bos[i];

		if (b->gpu != g || !private_wanted(b))
			continue;
		if (!can) {
			if (!b->va)
				info(w, "%s: no address, and no dma-buf to be had: not read by SDMA", bo_name(b));
			continue;
		}
		if (!c)
			c = copier_open(w, g, false);
		if (!c) {
			fail(w, "private copies on GPU %u: %s", g->index, copier_error());
			return;
		}
		read_back(w, c, b, "read through its dma-buf");
	}
	copier_close(c);
}

void verify_bo_gpu(struct wl *w)
{
	for (unsigned int i = 0; i < w->nused; i++) {
		gpu_own(w, &w->gpus[i]);
		gpu_private(w, &w->gpus[i]);
	}
}

/* Runs packets through a queue and reports when its read pointer does not follow. */
static void run_packets(struct wl *w, struct queue *q, const char *when, bool only_info)
{
	uint64_t done = queue_done(q);
	unsigned int n = 0;

	if (queue_wait(w, q, q->submitted))
		n = queue_submit(q, 8);
	if (n && queue_wait(w, q, q->submitted))
		return;
	(only_info ? info : fail)(w, "%s %s: %u packets submitted, read pointer went from %llu to %llu of %llu",
				  queue_name(q), when, n, (unsigned long long)done, (unsigned long long)queue_done(q),
				  (unsigned long long)q->submitted);
}

static void update_proof(struct wl *w, struct queue *q)
{
	int r = queue_update(w, q, 0);

	if (!r)
		r = queue_update(w, q, q->percent);
	if (r)
		fail(w, "UPDATE_QUEUE of %s: %s", queue_name(q), strerror(-r));
	else
		run_packets(w, q, "after an update", false);
}

/* A new queue runs and goes away. Under a changed id its doorbell offset is known to be of no use. */
static void new_queue_proof(struct wl *w, struct gpu *g, enum queue_kind kind)
{
	bool moved = !gpu_same_id(w, g);
	char kept[sizeof(w->last_error)];
	struct queue q;

	strcpy(kept, w->last_error);
	if (queue_make(w, g, kind, 0, &q)) {
		char why[sizeof(w->last_error)];

		strcpy(why, w->last_error);
		strcpy(w->last_error, kept);
		if (moved)
			info(w, "no new queue: %s", why);
		else
			fail(w, "no new queue: %s", why);
		return;
	}
	run_packets(w, &q, "made by the proof", moved);
	queue_destroy(w, &q);
}

void verify_queues(struct wl *w)
{
	const unsigned int want[] = { w->o.q_compute, w->o.q_aql, w->o.q_sdma };

	for (size_t i = 0; i < w->nqueues; i++) {
		run_packets(w, &w->queues[i], "in the proof", false);
		update_proof(w, &w->queues[i]);
	}
	for (unsigned int g = 0; g < w->nused; g++)
		for (int kind = 0; kind < 3; kind++)
			if (want[kind])
				new_queue_proof(w, &w->gpus[g], kind);
}

static void new_bo_proof(struct wl *w, struct gpu *g, struct copier *c, enum bo_kind kind)
{
	unsigned int index = 0x30000000u + kind;
	struct bo *b = bo_new(w, g, kind, 16 * WL_PAGE, 0, ROLE_TEMP, 0);
	struct copy_target t;
	uint64_t bad;

	if (!b) {
		fail(w, "no new BO: %s", w->last_error);
		return;
	}
	if (copier_attach(c, w, b, &t)) {
		fail(w, "%s: %s", bo_name(b), copier_error());
		goto out;
	}
	pattern_fill(w->o.seed, index, CONTENT_RANDOM, b->size, 0, copier_stage(c), b->size);
	if (copier_copy(c, &t, 0, b->size, true)) {
		fail(w, "%s: SDMA fill: %s", bo_name(b), copier_error());
		goto detach;
	}
	memset(copier_stage(c), 0xc3, b->size);
	if (copier_copy(c, &t, 0, b->size, false)) {
		fail(w, "%s: SDMA read: %s", bo_name(b), copier_error());
		goto detach;
	}
	bad = pattern_check(w->o.seed, index, CONTENT_RANDOM, b->size, 0, copier_stage(c), b->size);
	if (bad == UINT64_MAX && b->cpu)
		bad = pattern_check(w->o.seed, index, CONTENT_RANDOM, b->size, 0, b->cpu, b->size);
	if (bad != UINT64_MAX)
		fail(w, "%s: wrong byte at %llu", bo_name(b), (unsigned long long)bad);
detach:
	copier_detach(c, &t);
out:
	bo_release_listed(w, b);
}

void verify_new_allocations(struct wl *w)
{
	for (unsigned int i = 0; i < w->nused; i++) {
		struct copier *c = copier_open(w, &w->gpus[i], true);

		if (!c) {
			fail(w, "copies in the process's VM of GPU %u: %s", i, copier_error());
			continue;
		}
		new_bo_proof(w, &w->gpus[i], c, BO_VRAM);
		new_bo_proof(w, &w->gpus[i], c, BO_GTT);
		new_bo_proof(w, &w->gpus[i], c, BO_USERPTR);
		copier_close(c);
	}
}
