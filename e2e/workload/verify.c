// SPDX-License-Identifier: Apache-2.0
/* The full proof, and the orderly end. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "wl.h"

#define CHUNK (4ull << 20)

static void check_copy(struct wl *w, struct bo *b, const char *mem, const char *which)
{
	for (uint64_t off = 0; off < b->size; off += CHUNK) {
		uint64_t len = b->size - off < CHUNK ? b->size - off : CHUNK;
		uint64_t bad = pattern_check(w->o.seed, b->index, b->content, b->size, off, mem + off, len);

		if (bad != UINT64_MAX) {
			fail(w, "%s: wrong byte at %llu through the %s mapping (holds %02x)", bo_name(b),
			     (unsigned long long)bad, which, (unsigned char)mem[bad]);
			return;
		}
		state_tick(w);
	}
}

void verify_bo_cpu(struct wl *w)
{
	for (size_t i = 0; i < w->nbos; i++) {
		struct bo *b = w->bos[i];

		if (b->role != ROLE_DATA)
			continue;
		if (b->cpu)
			check_copy(w, b, b->cpu, "CPU");
		if (b->cpu2)
			check_copy(w, b, b->cpu2, "second CPU");
	}
}

/* Each handle still answers. A BO that a queue uses is left alone: unmapping it is refused. */
void verify_handles(struct wl *w)
{
	for (size_t i = 0; i < w->nbos; i++) {
		struct bo *b = w->bos[i];
		int r;

		if (b->role != ROLE_DATA && b->role != ROLE_HEARTBEAT)
			continue;
		if (b->nids) {
			r = kfd_unmap(w, b->handle, b->ids, b->nids);
			if (r)
				fail(w, "%s: UNMAP_MEMORY_FROM_GPU: %s", bo_name(b), strerror(-r));
			r = kfd_map(w, b->handle, b->ids, b->nids);
			if (r)
				fail(w, "%s: MAP_MEMORY_TO_GPU: %s", bo_name(b), strerror(-r));
		} else if (b->va) {
			uint32_t id = b->gpu->gpu_id;

			r = kfd_map(w, b->handle, &id, 1);
			if (r)
				fail(w, "%s: MAP_MEMORY_TO_GPU: %s", bo_name(b), strerror(-r));
			r = r ? 0 : kfd_unmap(w, b->handle, &id, 1);
			if (r)
				fail(w, "%s: UNMAP_MEMORY_FROM_GPU: %s", bo_name(b), strerror(-r));
		}
		if (i % 256 == 255)
			state_tick(w);
	}
}

void verify_all(struct wl *w)
{
	char background[sizeof(w->last_error)];

	strcpy(background, w->last_error);
	findings_clear(w);
	if (background[0])
		fail(w, "found before the proof: %s", background);
	w->verifying = true;
	state_write(w);
	child_signal_proof(w);
	tasks_proof(w);
	fds_proof(w);
	maps_proof(w, "at first");
	verify_bo_cpu(w);
	verify_handles(w);
	verify_bo_gpu(w);
	svm_proof(w);
	xnack_proof(w);
	event_proof(w);
	threads_proof(w);
	verify_queues(w);
	verify_new_allocations(w);
	child_proof(w);
	fds_proof(w);
	maps_proof(w, "after the proof's calls");
	for (unsigned int i = 0; i < w->ngpus; i++)
		if (!gpu_same_id(w, &w->gpus[i]))
			info(w, "GPU %u: known as %u, is another one now (render minor %d)", i, w->gpus[i].gpu_id,
			     gpu_minor_of_fd(w->gpus[i].fd));
	w->verifying = false;
	w->proofs++;
	findings_write(w, ".verify");
	state_write(w);
}

/* Frees everything by ioctl. Each call must succeed, but for the event page, which the kernel keeps. */
int teardown(struct wl *w)
{
	findings_clear(w);
	if (w->last_error[0])
		fail(w, "found before the end: %s", w->last_error);
	child_stop(w);
	threads_stop(w);
	for (size_t i = w->nqueues; i-- > 0;)
		queue_destroy(w, &w->queues[i]);
	w->nqueues = 0;
	event_teardown(w);
	while (w->nbos) {
		struct bo *b = w->bos[--w->nbos];
		int r;

		if (b->role != ROLE_EVENT_PAGE) {
			bo_release(w, b);
			continue;
		}
		r = kfd_free(w, b->handle);
		if (r != -EPERM)
			fail(w, "FREE_MEMORY_OF_GPU of the event page gives %d, not EPERM", r);
		if (b->cpu)
			munmap(b->range, b->size);
	}
	findings_write(w, ".exit");
	return findings_failed(w) ? 1 : 0;
}
