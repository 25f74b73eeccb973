// SPDX-License-Identifier: Apache-2.0
/* User queues with the buffers that the kernel's checks want. */
#include "conformance.h"

#define SDMA_RING 0x4000u
#define AQL_RING 0x2000u

bool queue_is_sdma(const struct queue *q)
{
	return q->type == KFD_IOC_QUEUE_TYPE_SDMA || q->type == KFD_IOC_QUEUE_TYPE_SDMA_XGMI ||
	       q->type == KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID;
}

/* The save area of each XCC is followed by 32 bytes for each wave, rounded to 64. */
size_t cwsr_bo_size(int g)
{
	u64 xcc = gpu_prop(g, "num_xcc"), per_cu = gpu_prop(g, "simd_per_cu"), waves, cu, arrays;

	if (!xcc)
		xcc = 1;
	cu = gpu_prop(g, "simd_count") / (per_cu ? per_cu : 1) / xcc;
	arrays = gpu_prop(g, "simd_arrays_per_engine");
	if (gpu_prop(g, "gfx_target_version") >= 100100) {
		waves = 32 * cu;
	} else {
		waves = 512 * gpu_prop(g, "array_count") / (arrays ? arrays : 1);
		if (waves > 40 * cu)
			waves = 40 * cu;
	}
	return ROUND_UP((gpu_prop(g, "cwsr_size") + ROUND_UP(32 * waves, 64)) * xcc, PAGE);
}

/* Before gfx9 an AQL ring is half as large as asked for and is mapped twice in a row. */
static struct bo ring_twice(struct app *a, int g, size_t size)
{
	struct bo b = { .size = size, .g = g, .flags = F_GTT | KFD_IOC_ALLOC_MEM_FLAGS_AQL_QUEUE_MEM };

	b.va = PTR(reserve(size));
	NEED_OK(kfd_alloc(a->kfd, &b, gpus[g].id));
	NEED_OK(kfd_map(a->kfd, b.handle, &gpus[g].id, 1, NULL));
	for (int half = 0; half < 2; half++) {
		void *p = mmap((void *)(b.va + half * size / 2), size / 2, PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_FIXED, a->drm[g], (off_t)b.off);

		NEED(p != MAP_FAILED, "mmap of one half of an AQL ring: errno %d", errno);
	}
	b.cpu = (void *)b.va;
	return b;
}

void queue_buffers(struct app *a, int g, u32 type, struct queue *q)
{
	u64 gfx = gpu_prop(g, "gfx_target_version");
	bool aql = type == KFD_IOC_QUEUE_TYPE_COMPUTE_AQL, compute;

	memset(q, 0, sizeof(*q));
	q->type = type;
	compute = !queue_is_sdma(q);
	if (aql && gfx < 90000)
		q->ring = ring_twice(a, g, 2 * AQL_RING);
	else
		q->ring = bo_new(a, g, compute ? AQL_RING : SDMA_RING, F_GTT);
	q->rptr = bo_new(a, g, PAGE, F_GTT);
	q->wptr = bo_new(a, g, PAGE, F_GTT);
	memset(q->ring.cpu, 0, q->ring.size);
	memset(q->rptr.cpu, 0, PAGE);
	memset(q->wptr.cpu, 0, PAGE);
	if (aql)	/* every packet slot starts as "invalid" */
		for (size_t i = 0; i < q->ring.size / 64; i++)
			*(u16 *)((u8 *)q->ring.cpu + 64 * i) = 1;
	q->args.ring_base_address = q->ring.va;
	q->args.ring_size = (u32)q->ring.size;
	q->args.read_pointer_address = q->rptr.va;
	q->args.write_pointer_address = q->wptr.va;
	q->args.gpu_id = gpus[g].id;
	q->args.queue_type = type;
	q->args.queue_percentage = 100;
	q->args.queue_priority = 7;
	if (!compute)
		return;
	q->eop = bo_new(a, g, PAGE, KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE |
			KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE);
	q->args.eop_buffer_address = q->eop.va;
	q->args.eop_buffer_size = PAGE;
	if (!gpu_prop(g, "cwsr_size"))
		return;
	q->cwsr = bo_new(a, g, cwsr_bo_size(g), KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE |
			 KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE);
	q->args.ctx_save_restore_address = q->cwsr.va;
	q->args.ctx_save_restore_size = (u32)gpu_prop(g, "cwsr_size");
	q->args.ctl_stack_size = (u32)gpu_prop(g, "ctl_stack_size");
}

long queue_create(struct app *a, struct queue *q)
{
	return call_ioctl(a->kfd, AMDKFD_IOC_CREATE_QUEUE, &q->args);
}

void queue_new(struct app *a, int g, u32 type, struct queue *q)
{
	long err;
	u8 *db;

	queue_buffers(a, g, type, q);
	NEED_OK(queue_create(a, q));
	q->slice = doorbell_slice(g);
	db = map_fd(a->kfd, q->slice, PROT_READ | PROT_WRITE, q->args.doorbell_offset & ~(u64)(q->slice - 1), &err);
	NEED(db, "mmap of the doorbells at %#llx: errno %ld", (unsigned long long)q->args.doorbell_offset, -err);
	q->doorbell = db + (q->args.doorbell_offset & (q->slice - 1));
}

long queue_destroy(struct app *a, u32 id)
{
	struct kfd_ioctl_destroy_queue_args d = { .queue_id = id };

	return call_ioctl(a->kfd, AMDKFD_IOC_DESTROY_QUEUE, &d);
}

void queue_del(struct app *a, struct queue *q)
{
	NEED_OK(queue_destroy(a, q->args.queue_id));
	if (q->doorbell)
		munmap((void *)(PTR(q->doorbell) & ~(u64)(q->slice - 1)), q->slice);
	bo_del(a, &q->ring);
	bo_del(a, &q->rptr);
	bo_del(a, &q->wptr);
	if (q->eop.handle)
		bo_del(a, &q->eop);
	if (q->cwsr.handle)
		bo_del(a, &q->cwsr);
}

void queue_push(struct queue *q, unsigned int n)
{
	volatile u64 *wptr = q->wptr.cpu;
	u8 *ring = q->ring.cpu;

	if (q->type == KFD_IOC_QUEUE_TYPE_COMPUTE)	/* PM4 is not spoken here: such a queue stays empty */
		return;
	for (unsigned int i = 0; i < n; i++) {
		if (queue_is_sdma(q)) {
			*(volatile u32 *)(ring + q->pos % q->ring.size) = 0;
			q->pos += 4;
		} else {
			u8 *pkt = ring + q->pos * 64 % q->ring.size;

			memset(pkt + 2, 0, 62);
			__sync_synchronize();
			*(volatile u16 *)pkt = 3 | 1 << 8;	/* barrier-AND without dependencies, barrier bit */
			q->pos++;
		}
	}
	__sync_synchronize();
	*wptr = q->pos;
	__sync_synchronize();
	if (!q->doorbell)
		return;
	if (q->slice == 4096)
		*(volatile u32 *)q->doorbell = (u32)q->pos;
	else
		*(volatile u64 *)q->doorbell = queue_is_sdma(q) ? q->pos : q->pos - 1;
}

bool queue_wait(struct queue *q, unsigned int ms)
{
	volatile u64 *rptr = q->rptr.cpu;
	u64 end = now_ms() + ms;

	while (*rptr != q->pos) {
		if (now_ms() > end)
			return false;
		sleep_ms(1);
	}
	return true;
}

bool queue_quiet(struct queue *q, unsigned int ms)
{
	volatile u64 *rptr = q->rptr.cpu;
	u64 end = now_ms() + ms, at = *rptr;

	while (now_ms() < end) {
		if (*rptr != at)
			return false;
		sleep_ms(2);
	}
	return true;
}
