// SPDX-License-Identifier: Apache-2.0
/* CRIU_OP calls and the parts of the kernel's private data whose layout is known. */
#include "conformance.h"

#define PRIV_PROCESS 8
#define PRIV_DEVICE 8
#define PRIV_BO 272

long criu_op(int kfd, u32 op, struct kfd_ioctl_criu_args *args)
{
	args->op = op;
	return call_ioctl(kfd, AMDKFD_IOC_CRIU_OP, args);
}

long criu_info(int kfd, struct kfd_ioctl_criu_args *args)
{
	memset(args, 0, sizeof(*args));
	return criu_op(kfd, KFD_CRIU_OP_PROCESS_INFO, args);
}

long criu_unpause(int kfd)
{
	struct kfd_ioctl_criu_args a = { 0 };

	return criu_op(kfd, KFD_CRIU_OP_UNPAUSE, &a);
}

long criu_resume(int kfd, pid_t pid)
{
	struct kfd_ioctl_criu_args a = { .pid = (u32)pid };

	return criu_op(kfd, KFD_CRIU_OP_RESUME, &a);
}

void criu_args(struct image *im, struct kfd_ioctl_criu_args *a)
{
	memset(a, 0, sizeof(*a));
	a->devices = PTR(im->dev);
	a->bos = PTR(im->bo);
	a->priv_data = PTR(im->priv);
	a->priv_data_size = im->priv_size;
	a->num_devices = im->ndev;
	a->num_bos = im->nbo;
	a->num_objects = im->nobj;
}

void criu_close_fds(struct image *im)
{
	for (u32 i = 0; i < im->nbo; i++) {
		if (im->bo[i].dmabuf_fd != KFD_INVALID_FD)
			close((int)im->bo[i].dmabuf_fd);
		im->bo[i].dmabuf_fd = KFD_INVALID_FD;
	}
}

static void take_counts(struct image *im, const struct kfd_ioctl_criu_args *a)
{
	im->ndev = a->num_devices;
	im->nbo = a->num_bos;
	im->nobj = a->num_objects;
	im->priv_size = a->priv_data_size;
	im->pid = a->pid;
	NEED(im->ndev <= MAX_GPUS && im->nbo <= MAX_BOS && im->priv_size <= sizeof(im->priv),
	     "PROCESS_INFO: %u devices, %u BOs, %llu bytes", im->ndev, im->nbo, (unsigned long long)im->priv_size);
}

void criu_dump(int kfd, struct image *im)
{
	struct kfd_ioctl_criu_args a;

	NEED_OK(criu_info(kfd, &a));
	take_counts(im, &a);
	criu_args(im, &a);
	NEED_OK(criu_op(kfd, KFD_CRIU_OP_CHECKPOINT, &a));
	criu_close_fds(im);
}

u8 *criu_bo_priv(struct image *im, u32 i)
{
	return im->priv + PRIV_PROCESS + (size_t)PRIV_DEVICE * im->ndev + (size_t)PRIV_BO * i;
}

int criu_objects(struct image *im, struct criu_object *out, int max)
{
	u64 off = PRIV_PROCESS + (u64)PRIV_DEVICE * im->ndev + (u64)PRIV_BO * im->nbo;
	int n = 0;

	while (off < im->priv_size && n < max) {
		u8 *r = im->priv + off;
		u64 size;

		switch (rd32(r, 0)) {
		case 0:
			size = 120 + (u64)rd32(r, 108) + rd32(r, 112);
			break;
		case 1:
			size = 64;
			break;
		case 2:
			size = 24 + 8ull * (4 + im->ndev);
			break;
		default:
			return -1;
		}
		if (off + size > im->priv_size)
			return -1;
		out[n++] = (struct criu_object){ rd32(r, 0), r, size };
		off += size;
	}
	return off == im->priv_size ? n : -1;
}

struct criu_object *criu_find(struct criu_object *o, int n, u32 type, int nth)
{
	for (int i = 0; i < n; i++)
		if (o[i].type == type && nth-- == 0)
			return &o[i];
	return NULL;
}

static void fill(struct bo *b, u32 seed)
{
	u32 *p = b->cpu;

	for (size_t i = 0; p && i < b->size / 4; i++)
		p[i] = seed * 2654435761u + (u32)i;
}

long world_build(void *arg)
{
	struct world *w = arg;
	struct app *a = &w->app;

	app_start(a);
	for (int g = 0; g < ngpus; g++) {
		w->vram[g] = bo_new(a, g, 16 * PAGE, F_VRAM);
		fill(&w->vram[g], 100 + (u32)g);
	}
	w->gtt = bo_new(a, 0, 8 * PAGE, F_GTT);
	fill(&w->gtt, 7);
	if (w->with_special) {
		w->userptr = bo_new(a, 0, 4 * PAGE, F_USERPTR);
		fill(&w->userptr, 8);
		w->doorbell = bo_new(a, 0, doorbell_slice(0), F_DOORBELL);
		w->mmio = bo_new(a, 0, PAGE, F_MMIO);
	}
	if (w->with_events) {
		w->page = bo_new(a, 0, 8 * PAGE, F_GTT);
		NEED_OK(kfd_event(a->kfd, KFD_IOC_EVENT_MEMORY, false, w->page.handle, &w->ev[0]));
		NEED_OK(kfd_event(a->kfd, KFD_IOC_EVENT_SIGNAL, true, 0, &w->ev[1]));
		NEED_OK(kfd_event(a->kfd, KFD_IOC_EVENT_SIGNAL, false, 0, &w->ev[2]));
		NEED_OK(kfd_event(a->kfd, KFD_IOC_EVENT_HW_EXCEPTION, false, 0, &w->ev[3]));
		NEED_OK(kfd_event_op(a->kfd, AMDKFD_IOC_SET_EVENT, w->ev[2].event_id));
	}
	if (w->with_queues) {
		queue_new(a, 0, KFD_IOC_QUEUE_TYPE_SDMA, &w->sdma);
		/* Before gfx9 RESTORE halves an AQL ring once more and then refuses the queue: a PM4 queue there. */
		queue_new(a, 0, gpu_prop(0, "gfx_target_version") >= 90000 ? KFD_IOC_QUEUE_TYPE_COMPUTE_AQL :
			  KFD_IOC_QUEUE_TYPE_COMPUTE, &w->aql);
	}
	return 0;
}

long world_push_wait(void *arg)
{
	struct world *w = arg;

	queue_push(&w->sdma, 8);
	queue_push(&w->aql, 4);
	return queue_wait(&w->sdma, 5000) && queue_wait(&w->aql, 5000) ? 0 : -ETIME;
}

struct world *world_start(struct peer *p, bool queues, bool events, bool special, int *kfd)
{
	struct world *w = shared(sizeof(*w));

	w->with_queues = queues;
	w->with_events = events;
	w->with_special = special;
	peer_start(p);
	NEED_OK(peer_call(p, world_build, w));
	peer_trace(p);
	*kfd = peer_fd(p, w->app.kfd);
	return w;
}

static const struct bo *world_bo(const struct world *w, u64 va)
{
	const struct bo *all[] = {
		&w->gtt, &w->userptr, &w->page, &w->sdma.ring, &w->sdma.rptr, &w->sdma.wptr, &w->aql.ring, &w->aql.rptr,
		&w->aql.wptr,
	};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (all[i]->cpu && all[i]->va == va)
			return all[i];
	for (int g = 0; g < ngpus; g++)
		if (w->vram[g].cpu && w->vram[g].va == va)
			return &w->vram[g];
	return NULL;
}

/* Run by the peer, since nobody else can read its device mappings: stands for what CRIU and a plugin would keep. */
static long world_save(void *arg)
{
	struct world *w = arg;
	size_t used = 0;

	w->sdma_pos = w->sdma.pos;
	w->aql_pos = w->aql.pos;
	for (u32 i = 0; i < w->im.nbo; i++) {
		const struct bo *b = world_bo(w, w->im.bo[i].addr);

		w->data_off[i] = NO_DATA;
		if (!b || w->im.bo[i].size > sizeof(w->data) - used)
			continue;
		memcpy(w->data + used, b->cpu, w->im.bo[i].size);
		w->data_off[i] = (u32)used;
		used += ROUND_UP(w->im.bo[i].size, 64);
	}
	return 0;
}

void world_dump(struct world *w, struct peer *p, int kfd)
{
	criu_dump(kfd, &w->im);
	NEED_OK(peer_call(p, world_save, w));
}

struct world *world_copy(const struct world *w)
{
	struct world *c = shared(sizeof(*c));

	memcpy(c, w, sizeof(*c));
	return c;
}

int world_gpu(const struct world *w, u32 user_id)
{
	for (u32 i = 0; i < w->im.ndev; i++)
		if (w->im.dev[i].user_gpu_id == user_id)
			for (int g = 0; g < ngpus; g++)
				if (gpus[g].id == w->im.dev[i].actual_gpu_id)
					return g;
	return -1;
}

/* Maps what RESTORE created at the old addresses and writes the contents back, as after a real restore. */
static void map_back(struct world *w)
{
	for (u32 i = 0; i < w->im.nbo; i++) {
		struct kfd_criu_bo_bucket *b = &w->im.bo[i];
		bool user = b->alloc_flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR;
		int g = world_gpu(w, b->gpu_id);
		void *p;

		if (w->data_off[i] == NO_DATA || g < 0)
			continue;
		p = mmap((void *)b->addr, b->size, PROT_READ | PROT_WRITE,
			 MAP_FIXED | (user ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED), user ? -1 : w->app.drm[g],
			 user ? 0 : (off_t)b->restored_offset);
		NEED(p != MAP_FAILED, "mmap of restored BO %u (flags %#x, offset %#llx): errno %d", i, b->alloc_flags,
		     (unsigned long long)b->restored_offset, errno);
		memcpy(p, w->data + w->data_off[i], b->size);
	}
}

long world_restore(void *arg)
{
	struct world *w = arg;
	struct kfd_ioctl_criu_args a;
	long rc;

	reserve_elsewhere();
	w->app.kfd = kfd_open();
	for (int g = 0; g < ngpus; g++)
		w->app.drm[g] = render_open(g);
	for (u32 i = 0; i < w->im.ndev; i++) {
		int g = world_gpu(w, w->im.dev[i].user_gpu_id);

		w->im.dev[i].drm_fd = g < 0 ? KFD_INVALID_FD : (u32)w->app.drm[g];
	}
	criu_args(&w->im, &a);
	if (w->tweak)
		w->tweak(w, &a);
	rc = criu_op(w->app.kfd, KFD_CRIU_OP_RESTORE, &a);
	if (rc)
		return rc;
	/* The old doorbell mapping is gone with the old process: queues go by their positions in memory. */
	w->sdma.doorbell = NULL;
	w->aql.doorbell = NULL;
	w->sdma.pos = w->sdma_pos;
	w->aql.pos = w->aql_pos;
	map_back(w);
	return 0;
}

/* Memory and queue numbers of a dead process come back in a work item, a while after its last reference. */
void wait_owner_gone(pid_t pid)
{
	char path[96];
	u64 end = now_ms() + 10000;

	snprintf(path, sizeof(path), "/sys/class/kfd/kfd/proc/%d", pid);
	while (!access(path, F_OK)) {
		if (now_ms() > end) {
			report(__FILE__, __LINE__, false, "%s still there 10 s after its end", path);
			return;
		}
		sleep_ms(5);
	}
}
