// SPDX-License-Identifier: Apache-2.0
/* A restored process whose user ids differ from the actual ones: what is looked up by which. */
#include "conformance.h"

/* Another id for each GPU, as if the image came from another machine. */
static u32 foreign(u32 id)
{
	u32 f = id;

	do
		f = (f * 7 + 1) & 0xffff;
	while (!f || ({ bool hit = false; for (int g = 0; g < ngpus; g++) hit |= gpus[g].id == f; hit; }));
	return f;
}

/* Renames every GPU in an image by the function fn; buckets keep the actual ids given in actual. */
static void rename_ids(struct image *im, u32 (*fn)(u32))
{
	struct criu_object o[16];
	int n = criu_objects(im, o, 16);

	NEED(n >= 0, "the image's private data do not add up");
	for (u32 i = 0; i < im->ndev; i++)
		im->dev[i].user_gpu_id = fn(im->dev[i].user_gpu_id);
	for (u32 i = 0; i < im->nbo; i++) {
		u8 *r = criu_bo_priv(im, i);

		im->bo[i].gpu_id = fn(im->bo[i].gpu_id);
		for (int k = 0; k < 64 && rd32(r, 12 + 4 * (size_t)k); k++)
			wr32(r, 12 + 4 * (size_t)k, fn(rd32(r, 12 + 4 * (size_t)k)));
	}
	for (int i = 0; i < n; i++) {
		if (o[i].type == 0)
			wr32(o[i].rec, 64, fn(rd32(o[i].rec, 64)));
		if (o[i].type == 1 && rd64(o[i].rec, 8)) {
			u64 h = rd64(o[i].rec, 8);

			wr64(o[i].rec, 8, (u64)fn((u32)(h >> 32)) << 32 | (u32)h);
		}
	}
}

static struct world *foreign_image(void)
{
	struct peer p;
	int kfd;
	struct world *w = world_start(&p, true, true, true, &kfd);

	world_dump(w, &p, kfd);
	close(kfd);
	peer_kill(&p);
	wait_owner_gone(p.pid);
	rename_ids(&w->im, foreign);
	return w;
}

static struct world *remapped(struct peer *p)
{
	struct world *w = foreign_image();

	peer_start(p);
	NEED_OK(peer_call(p, world_restore, w));
	NEED_OK(criu_resume(kfd_open(), p->pid));
	return w;
}

static void t_runs(void)
{
	struct peer p;
	struct world *w = remapped(&p);

	EXPECT_RC(peer_call(&p, world_push_wait, w), 0);
	peer_kill(&p);
}

static long by_user_id(void *arg)
{
	struct world *w = arg;
	int kfd = w->app.kfd;
	u32 user = foreign(gpus[0].id), actual = gpus[0].id, done = 0;
	struct bo b = { .size = PAGE, .flags = F_GTT, .va = PTR(reserve(PAGE)) };
	struct kfd_ioctl_get_available_memory_args av = { .gpu_id = user };
	struct kfd_ioctl_set_memory_policy_args mp = { .gpu_id = user };
	struct kfd_ioctl_set_trap_handler_args th = { .gpu_id = user };
	struct kfd_ioctl_set_scratch_backing_va_args sc = { .gpu_id = user };
	struct kfd_ioctl_get_clock_counters_args ck = { .gpu_id = actual };

	EXPECT_RC(kfd_alloc(kfd, &b, actual), -EINVAL);
	EXPECT_RC(kfd_alloc(kfd, &b, user), 0);
	EXPECT_EQ(b.handle >> 32, user);
	EXPECT_RC(kfd_map(kfd, b.handle, &actual, 1, &done), -EINVAL);
	done = 0;
	EXPECT_RC(kfd_map(kfd, b.handle, &user, 1, &done), 0);
	done = 0;
	EXPECT_RC(kfd_unmap(kfd, b.handle, &user, 1, &done), 0);
	EXPECT_RC(kfd_free(kfd, ((u64)actual << 32) | (u32)b.handle), -EINVAL);
	EXPECT_RC(kfd_free(kfd, b.handle), 0);
	EXPECT_RC(call_ioctl(kfd, AMDKFD_IOC_AVAILABLE_MEMORY, &av), 0);
	EXPECT_RC(call_ioctl(kfd, AMDKFD_IOC_SET_MEMORY_POLICY, &mp), 0);
	EXPECT_RC(call_ioctl(kfd, AMDKFD_IOC_SET_TRAP_HANDLER, &th), 0);
	EXPECT_RC(call_ioctl(kfd, AMDKFD_IOC_SET_SCRATCH_BACKING_VA, &sc), 0);
	av.gpu_id = mp.gpu_id = th.gpu_id = sc.gpu_id = actual;
	EXPECT_RC(call_ioctl(kfd, AMDKFD_IOC_AVAILABLE_MEMORY, &av), -EINVAL);
	EXPECT_RC(call_ioctl(kfd, AMDKFD_IOC_SET_MEMORY_POLICY, &mp), -EINVAL);
	EXPECT_RC(call_ioctl(kfd, AMDKFD_IOC_SET_TRAP_HANDLER, &th), -EINVAL);
	EXPECT_RC(call_ioctl(kfd, AMDKFD_IOC_SET_SCRATCH_BACKING_VA, &sc), -EINVAL);
	EXPECT_RC(call_ioctl(kfd, AMDKFD_IOC_GET_CLOCK_COUNTERS, &ck), 0);
	EXPECT_EQ(ck.gpu_clock_counter, 0);
	/* RESTORE has taken the VM already; the same file is fine, another is not. */
	EXPECT_RC(kfd_acquire(kfd, w->app.drm[0], user), 0);
	EXPECT_RC(kfd_acquire(kfd, w->app.drm[0], actual), -EINVAL);
	EXPECT_RC(kfd_acquire(kfd, render_open(0), user), -EBUSY);
	return 0;
}

static void t_by_user_id(void)
{
	struct peer p;
	struct world *w = remapped(&p);

	EXPECT_RC(peer_call(&p, by_user_id, w), 0);
	peer_kill(&p);
}

static long by_actual_id(void *arg)
{
	struct world *w = arg;
	struct kfd_process_device_apertures ap[MAX_GPUS];
	struct kfd_ioctl_get_process_apertures_new_args a = { PTR(ap), (u32)ngpus, 0 };
	struct kfd_ioctl_get_dmabuf_info_args in = { 0 };
	u32 user = foreign(gpus[0].id);
	struct kfd_ioctl_export_dmabuf_args ex = {
		.handle = (u64)user << 32 | (u32)w->vram[0].handle, .flags = O_CLOEXEC,
	};
	long err;

	NEED_OK(call_ioctl(w->app.kfd, AMDKFD_IOC_GET_PROCESS_APERTURES_NEW, &a));
	for (int g = 0; g < ngpus; g++)
		EXPECT_EQ(ap[g].gpu_id, gpus[g].id);
	for (u32 i = 0; i < w->im.nbo; i++)
		if (w->im.bo[i].addr == w->vram[0].va)
			in.dmabuf_fd = w->im.bo[i].dmabuf_fd;
	EXPECT_RC(call_ioctl(w->app.kfd, AMDKFD_IOC_GET_DMABUF_INFO, &in), 0);
	EXPECT_EQ(in.gpu_id, gpus[0].id);
	if (kfd_minor() >= 12)
		EXPECT_RC(call_ioctl(w->app.kfd, AMDKFD_IOC_EXPORT_DMABUF, &ex), -EINVAL);
	map_fd(w->app.kfd, doorbell_slice(0), PROT_READ | PROT_WRITE, KFD_OFF(3, user), &err);
	EXPECT_RC(err, -ENODEV);
	map_fd(w->app.kfd, doorbell_slice(0), PROT_READ | PROT_WRITE, KFD_OFF(3, gpus[0].id), &err);
	EXPECT_RC(err, 0);
	map_fd(w->app.kfd, PAGE, PROT_READ | PROT_WRITE, KFD_OFF(0, user), &err);
	EXPECT_RC(err, -ENODEV);
	return 0;
}

static void t_by_actual_id(void)
{
	struct peer p;
	struct world *w = remapped(&p);

	EXPECT_RC(peer_call(&p, by_actual_id, w), 0);
	for (u32 i = 0; i < w->im.nbo; i++) {
		if (w->im.bo[i].alloc_flags & KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL)
			EXPECT_EQ(w->im.bo[i].restored_offset, KFD_OFF(3, gpus[0].id));
		if (w->im.bo[i].alloc_flags & KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP)
			EXPECT_EQ(w->im.bo[i].restored_offset, KFD_OFF(0, gpus[0].id));
	}
	peer_kill(&p);
}

/* A queue made after the remap: its doorbell offset names the user id. */
static long new_queue(void *arg)
{
	struct world *w = arg;
	u32 user = foreign(gpus[0].id);
	struct queue q = { .type = KFD_IOC_QUEUE_TYPE_SDMA, .args = w->sdma.args };

	NEED_OK(queue_destroy(&w->app, w->sdma.args.queue_id));
	q.args.gpu_id = user;
	EXPECT_RC(queue_create(&w->app, &q), 0);
	EXPECT_EQ((q.args.doorbell_offset >> 46) & 0xffff, user);
	q.args.gpu_id = gpus[0].id;
	EXPECT_RC(queue_create(&w->app, &q), -EINVAL);
	return 0;
}

static void t_new_queue(void)
{
	struct peer p;
	struct world *w = remapped(&p);

	EXPECT_RC(peer_call(&p, new_queue, w), 0);
	peer_kill(&p);
}

static void t_dump_again(void)
{
	struct peer p;
	struct world *w = remapped(&p), *old;
	int kfd;

	peer_trace(&p);
	kfd = peer_fd(&p, w->app.kfd);
	old = world_copy(w);	/* the peer knows only w */
	world_dump(w, &p, kfd);
	for (u32 i = 0; i < w->im.ndev; i++) {
		EXPECT_EQ(w->im.dev[i].user_gpu_id, foreign(gpus[i].id));
		EXPECT_EQ(w->im.dev[i].actual_gpu_id, gpus[i].id);
	}
	for (u32 i = 0; i < w->im.nbo; i++) {
		struct kfd_criu_bo_bucket *b = &w->im.bo[i];

		EXPECT_EQ(b->gpu_id, old->im.bo[i].gpu_id);
		EXPECT_EQ(rd32(criu_bo_priv(&w->im, i), 12), rd32(criu_bo_priv(&old->im, i), 12));
		if (b->alloc_flags & KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL)
			EXPECT_EQ(b->offset, KFD_OFF(3, gpus[0].id));
		if (b->alloc_flags & KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP)
			EXPECT_EQ(b->offset, KFD_OFF(0, gpus[0].id));
		if (b->alloc_flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM && b->addr == w->vram[0].va)
			EXPECT_EQ(b->offset, old->im.bo[i].restored_offset);
	}
	NEED_OK(criu_unpause(kfd));
	EXPECT_RC(peer_call(&p, world_push_wait, w), 0);
	close(kfd);
	peer_kill(&p);
	wait_owner_gone(p.pid);
	peer_start(&p);
	EXPECT_RC(peer_call(&p, world_restore, w), 0);
	EXPECT_RC(criu_resume(kfd_open(), p.pid), 0);
	EXPECT_RC(peer_call(&p, world_push_wait, w), 0);
	peer_kill(&p);
}

/* Two GPUs change places: every BO must come up on the other one. */
static long where_is(void *arg)
{
	struct world *w = arg;

	for (u32 i = 0; i < w->im.nbo; i++) {
		struct kfd_ioctl_get_dmabuf_info_args in = { .dmabuf_fd = w->im.bo[i].dmabuf_fd };
		int g = world_gpu(w, w->im.bo[i].gpu_id);

		if (in.dmabuf_fd == KFD_INVALID_FD)
			continue;
		EXPECT_RC(call_ioctl(w->app.kfd, AMDKFD_IOC_GET_DMABUF_INFO, &in), 0);
		EXPECT_EQ(in.gpu_id, gpus[g].id);
	}
	for (int g = 0; g < 2; g++) {
		u32 *m = (u32 *)w->vram[g].va;

		EXPECT_EQ(m[5], (u32)(100 + g) * 2654435761u + 5);
	}
	return 0;
}

static void t_swap(void)
{
	struct peer p;
	int kfd;
	struct world *w = world_start(&p, true, true, false, &kfd);
	u32 t;

	if (gpu_prop(0, "device_id") != gpu_prop(1, "device_id"))
		skip("GPUs 0 and 1 differ");
	world_dump(w, &p, kfd);
	close(kfd);
	peer_kill(&p);
	wait_owner_gone(p.pid);
	t = w->im.dev[0].actual_gpu_id;
	w->im.dev[0].actual_gpu_id = w->im.dev[1].actual_gpu_id;
	w->im.dev[1].actual_gpu_id = t;
	peer_start(&p);
	NEED_OK(peer_call(&p, world_restore, w));
	EXPECT_RC(peer_call(&p, where_is, w), 0);
	EXPECT_RC(criu_resume(kfd_open(), p.pid), 0);
	EXPECT_RC(peer_call(&p, world_push_wait, w), 0);
	peer_kill(&p);
}

const struct test tests_remap[] = {
	{ "kfd/remap/runs", 1, t_runs },
	{ "kfd/remap/by_user_id", 1, t_by_user_id },
	{ "kfd/remap/by_actual_id", 1, t_by_actual_id },
	{ "kfd/remap/new_queue", 1, t_new_queue },
	{ "kfd/remap/dump_again", 1, t_dump_again },
	{ "kfd/remap/swap", 2, t_swap },
	{ NULL, 0, NULL },
};
