// SPDX-License-Identifier: Apache-2.0
/* What CHECKPOINT gives: buckets, dma-bufs, private data. */
#include "conformance.h"

static struct kfd_criu_bo_bucket *find(struct image *im, u64 addr)
{
	for (u32 i = 0; i < im->nbo; i++)
		if (im->bo[i].addr == addr)
			return &im->bo[i];
	report(__FILE__, __LINE__, true, "no BO bucket with address %#llx", (unsigned long long)addr);
	return NULL;
}

static void check_bucket(struct image *im, const struct bo *b, u64 size, u64 off)
{
	struct kfd_criu_bo_bucket *k = find(im, b->va);

	EXPECT_EQ(k->size, size);
	EXPECT_EQ(k->gpu_id, gpus[b->g].id);
	EXPECT_EQ(k->alloc_flags, b->flags);
	if (off)
		EXPECT_EQ(k->offset, off);
}

static void t_buckets(void)
{
	struct peer p;
	int kfd;
	struct world *w = world_start(&p, false, true, true, &kfd);
	struct image *im = &w->im;

	criu_dump(kfd, im);
	EXPECT_EQ(im->ndev, ngpus);
	for (u32 i = 0; i < im->ndev; i++) {
		EXPECT_EQ(im->dev[i].user_gpu_id, gpus[i].id);
		EXPECT_EQ(im->dev[i].actual_gpu_id, gpus[i].id);
	}
	for (int g = 0; g < ngpus; g++)
		check_bucket(im, &w->vram[g], w->vram[g].size, w->vram[g].off);
	check_bucket(im, &w->gtt, w->gtt.size, w->gtt.off);
	check_bucket(im, &w->page, w->page.size, w->page.off);
	check_bucket(im, &w->userptr, w->userptr.size, 0);
	check_bucket(im, &w->doorbell, doorbell_slice(0), KFD_OFF(3, gpus[0].id));
	EXPECT_EQ(find(im, w->mmio.va)->offset, KFD_OFF(0, gpus[0].id));
	check_bucket(im, &w->mmio, PAGE, 0);
	EXPECT_RC(criu_unpause(kfd), 0);
	peer_kill(&p);
}

/* Per device in the order of the devices, per device by rising handle. */
static void t_order(void)
{
	struct peer p;
	int kfd;
	struct world *w = world_start(&p, true, true, true, &kfd);
	struct image *im = &w->im;
	u32 dev = 0, handle = 0;

	criu_dump(kfd, im);
	for (u32 i = 0; i < im->nbo; i++) {
		u32 h = rd32(criu_bo_priv(im, i), 8);

		if (im->bo[i].gpu_id != im->dev[dev].user_gpu_id) {
			while (dev < im->ndev && im->dev[dev].user_gpu_id != im->bo[i].gpu_id)
				dev++;
			NEED(dev < im->ndev, "BO %u of GPU %u is out of order", i, im->bo[i].gpu_id);
			handle = 0;
		}
		EXPECT(h > handle, "BO %u has handle %u behind %u", i, h, handle);
		handle = h;
	}
	EXPECT_RC(criu_unpause(kfd), 0);
	peer_kill(&p);
}

static void t_dmabufs(void)
{
	struct peer p;
	int kfd, before;
	struct world *w = world_start(&p, false, true, true, &kfd);
	struct image *im = &w->im;
	struct kfd_ioctl_criu_args c;
	char link[256];

	NEED_OK(criu_info(kfd, &c));
	im->ndev = c.num_devices;
	im->nbo = c.num_bos;
	im->nobj = c.num_objects;
	im->priv_size = c.priv_data_size;
	criu_args(im, &c);
	before = dup(0);
	close(before);
	NEED_OK(criu_op(kfd, KFD_CRIU_OP_CHECKPOINT, &c));
	for (u32 i = 0; i < im->nbo; i++) {
		struct kfd_criu_bo_bucket *b = &im->bo[i];
		int fd = (int)b->dmabuf_fd;

		if (!(b->alloc_flags & (KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_GTT))) {
			EXPECT_EQ(b->dmabuf_fd, KFD_INVALID_FD);
			continue;
		}
		EXPECT(fd >= before, "BO %u: dma-buf fd %d is no new number", i, fd);
		EXPECT_EQ(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
		EXPECT_EQ(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDWR);
		EXPECT_EQ(lseek(fd, 0, SEEK_END), b->size);
		EXPECT_EQ(lseek(fd, 0, SEEK_SET), 0);
		EXPECT(!fd_path(getpid(), fd, link, sizeof(link)) && !strncmp(link, "/dmabuf:", 8), "BO %u: fd is %s", i,
		       link);
	}
	criu_close_fds(im);
	EXPECT_RC(criu_unpause(kfd), 0);
	peer_kill(&p);
}

/* The dma-buf's own mode follows the BO's WRITABLE flag. */
static void t_dmabuf_mode(void)
{
	struct app a;
	struct image *im = shared(sizeof(*im));
	struct bo ro = { .size = PAGE, .flags = KFD_IOC_ALLOC_MEM_FLAGS_VRAM };
	struct kfd_ioctl_criu_args c;

	app_start(&a);
	ro.va = PTR(reserve(PAGE));
	NEED_OK(kfd_alloc(a.kfd, &ro, gpus[0].id));
	NEED_OK(criu_info(a.kfd, &c));
	im->ndev = c.num_devices;
	im->nbo = c.num_bos;
	im->priv_size = c.priv_data_size;
	criu_args(im, &c);
	NEED_OK(criu_op(a.kfd, KFD_CRIU_OP_CHECKPOINT, &c));
	EXPECT_EQ(im->nbo, 1);
	EXPECT_EQ(fcntl((int)im->bo[0].dmabuf_fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	EXPECT_RC(criu_unpause(a.kfd), 0);
}

/* No descriptor is left behind when the operation fails. */
static int open_fds(void)
{
	int n = 0;

	for (int fd = 0; fd < 512; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void t_dmabuf_failure(void)
{
	struct peer p;
	int kfd, before;
	struct world *w = world_start(&p, false, false, false, &kfd);
	struct image *im = &w->im;
	struct kfd_ioctl_criu_args c;

	NEED_OK(criu_info(kfd, &c));
	im->ndev = c.num_devices;
	im->nbo = c.num_bos;
	im->priv_size = c.priv_data_size;
	criu_args(im, &c);
	c.bos = 8;
	before = open_fds();
	EXPECT_RC(criu_op(kfd, KFD_CRIU_OP_CHECKPOINT, &c), -EFAULT);
	EXPECT_EQ(open_fds(), before);
	EXPECT_RC(criu_unpause(kfd), 0);
	peer_kill(&p);
}

static void t_dmabuf_contents(void)
{
	struct peer p;
	int kfd;
	struct world *w = world_start(&p, false, false, false, &kfd);
	struct image *im = &w->im;
	struct kfd_ioctl_criu_args c;

	NEED_OK(criu_info(kfd, &c));
	im->ndev = c.num_devices;
	im->nbo = c.num_bos;
	im->priv_size = c.priv_data_size;
	criu_args(im, &c);
	NEED_OK(criu_op(kfd, KFD_CRIU_OP_CHECKPOINT, &c));
	for (int g = 0; g < ngpus; g++) {
		struct kfd_criu_bo_bucket *b = find(im, w->vram[g].va);
		int drm = render_open(g);
		u64 off;
		u32 h, *m;
		long err;

		NEED_OK(prime_handle(drm, (int)b->dmabuf_fd, &h));
		NEED_OK(gem_mmap_off(drm, h, &off));
		m = map_fd(drm, b->size, PROT_READ, off, &err);
		NEED(m, "mmap of an imported BO: errno %ld", -err);
		for (size_t i = 0; i < b->size / 4; i++)
			if (m[i] != (u32)(100 + g) * 2654435761u + (u32)i)
				report(__FILE__, __LINE__, true, "GPU %d, word %zu read through the dma-buf is %#x", g, i,
				       m[i]);
		munmap(m, b->size);
		close(drm);
	}
	criu_close_fds(im);
	EXPECT_RC(criu_unpause(kfd), 0);
	peer_kill(&p);
}

static void t_priv(void)
{
	struct peer p;
	int kfd, n;
	struct world *w = world_start(&p, true, true, true, &kfd);
	struct image *im = &w->im;
	struct criu_object o[16];
	static const struct { u32 id, type, reset, set; } want[4] = {
		{ 0, KFD_IOC_EVENT_MEMORY, 0, 0 }, { 1, KFD_IOC_EVENT_SIGNAL, 1, 0 }, { 2, KFD_IOC_EVENT_SIGNAL, 0, 1 },
		{ 3, KFD_IOC_EVENT_HW_EXCEPTION, 0, 0 },
	};
	int queues = 0, events = 0, last = 0;

	criu_dump(kfd, im);
	EXPECT_EQ(rd32(im->priv, 0), 1);
	for (u32 i = 0; i < im->nbo; i++) {
		u8 *r = criu_bo_priv(im, i);

		EXPECT_EQ(rd32(r, 12), im->bo[i].gpu_id);
		EXPECT_EQ(rd32(r, 16), 0);
		if (im->bo[i].addr == w->userptr.va)
			EXPECT_EQ(rd64(r, 0), w->userptr.va);
		if (im->bo[i].addr == w->gtt.va)
			EXPECT_EQ(rd32(r, 8), (u32)w->gtt.handle);
	}
	n = criu_objects(im, o, 16);
	NEED(n == 6, "private data hold %d objects and not 6 (-1: sizes do not add up)", n);
	for (int i = 0; i < n; i++) {
		EXPECT((int)o[i].type >= last, "object %d of type %u is out of order", i, o[i].type);
		last = (int)o[i].type;
		queues += o[i].type == 0;
		events += o[i].type == 1;
	}
	EXPECT(queues == 2 && events == 4, "%d queues and %d events", queues, events);
	for (int i = 0; i < queues; i++) {
		u8 *r = o[i].rec;
		const struct queue *q = rd32(r, 76) == w->sdma.args.queue_id ? &w->sdma : &w->aql;

		EXPECT_EQ(rd64(r, 8), q->args.ring_base_address);
		EXPECT_EQ(rd64(r, 16), q->args.ring_size);
		EXPECT_EQ(rd64(r, 24), q->args.read_pointer_address);
		EXPECT_EQ(rd64(r, 32), q->args.write_pointer_address);
		EXPECT_EQ(rd64(r, 48), q->args.eop_buffer_address);
		EXPECT_EQ(rd64(r, 56), q->args.ctx_save_restore_address);
		EXPECT_EQ(rd32(r, 64), gpus[0].id);
		EXPECT_EQ(rd32(r, 76), q->args.queue_id);
		EXPECT_EQ(rd32(r, 80), q->args.queue_priority);
		EXPECT_EQ(rd32(r, 84), q->args.queue_percentage);
		EXPECT_EQ(rd32(r, 104), q->args.ctx_save_restore_size);
		EXPECT(rd32(r, 112), "queue record without MQD");
	}
	for (int k = 0; k < 4; k++) {
		bool seen = false;

		for (int i = queues; i < queues + events; i++) {
			u8 *r = o[i].rec;

			if (rd32(r, 16) != w->ev[want[k].id].event_id)
				continue;
			seen = true;
			EXPECT_EQ(rd32(r, 20) & 0xff, want[k].reset);
			EXPECT_EQ(rd32(r, 24), want[k].type);
			EXPECT_EQ(rd32(r, 28) & 0xff, want[k].set);
		}
		EXPECT(seen, "no record of event %#x", w->ev[want[k].id].event_id);
	}
	EXPECT_EQ(rd64(o[queues].rec, 8), w->page.handle);
	for (int i = queues + 1; i < n; i++)
		EXPECT_EQ(rd64(o[i].rec, 8), 0);
	EXPECT_RC(criu_unpause(kfd), 0);
	peer_kill(&p);
}

/* BOs at or below gpuvm_base are the kernel's own and stay out; BOs without address are in. */
static void t_skipped(void)
{
	struct app a;
	struct image *im = shared(sizeof(*im));
	struct bo low = { .size = PAGE, .flags = F_GTT, .va = 0x8000 }, none = { .size = PAGE, .flags = F_VRAM };

	app_start(&a);
	if (kfd_alloc(a.kfd, &low, gpus[0].id))
		info("ALLOC at 0x8000 is refused");
	NEED_OK(kfd_alloc(a.kfd, &none, gpus[0].id));
	criu_dump(a.kfd, im);
	EXPECT_EQ(im->nbo, 1);
	EXPECT_EQ(im->bo[0].addr, 0);
	EXPECT_RC(criu_unpause(a.kfd), 0);
}

/* Which GPUs a BO is mapped on is kept, as user ids. */
static void t_mapped_ids(void)
{
	struct app a;
	struct image *im = shared(sizeof(*im));
	struct bo b;
	u8 *r;

	app_start(&a);
	b = bo_new(&a, 0, PAGE, F_GTT);
	NEED_OK(kfd_map(a.kfd, b.handle, &gpus[1].id, 1, NULL));
	criu_dump(a.kfd, im);
	r = criu_bo_priv(im, 0);
	EXPECT(rd32(r, 12) + rd32(r, 16) == gpus[0].id + gpus[1].id && rd32(r, 12) != rd32(r, 16) && !rd32(r, 20),
	       "mapped ids %u, %u, %u", rd32(r, 12), rd32(r, 16), rd32(r, 20));
	EXPECT_RC(criu_unpause(a.kfd), 0);
	NEED_OK(kfd_unmap(a.kfd, b.handle, &gpus[1].id, 1, NULL));
	NEED_OK(kfd_unmap(a.kfd, b.handle, &gpus[0].id, 1, NULL));
	criu_dump(a.kfd, im);
	EXPECT_EQ(rd32(criu_bo_priv(im, 0), 12), 0);
	EXPECT_RC(criu_unpause(a.kfd), 0);
}

/* A ring that was allocated for AQL before gfx9 has half the size. */
static void t_aql_half(void)
{
	struct app a;
	struct image *im = shared(sizeof(*im));
	struct bo b = { .size = 4 * PAGE, .flags = F_GTT | KFD_IOC_ALLOC_MEM_FLAGS_AQL_QUEUE_MEM };

	app_start(&a);
	b.va = PTR(reserve(b.size));
	NEED_OK(kfd_alloc(a.kfd, &b, gpus[0].id));
	criu_dump(a.kfd, im);
	EXPECT_EQ(im->bo[0].size, 2 * PAGE);
	EXPECT_RC(criu_unpause(a.kfd), 0);
}

const struct test tests_dump_data[] = {
	{ "kfd/checkpoint/buckets", 1, t_buckets },
	{ "kfd/checkpoint/order", 1, t_order },
	{ "kfd/checkpoint/dmabufs", 1, t_dmabufs },
	{ "kfd/checkpoint/dmabuf_mode", 1, t_dmabuf_mode },
	{ "kfd/checkpoint/dmabuf_failure", 1, t_dmabuf_failure },
	{ "kfd/checkpoint/dmabuf_contents", 1, t_dmabuf_contents },
	{ "kfd/checkpoint/private_data", 1, t_priv },
	{ "kfd/checkpoint/skipped", 1, t_skipped },
	{ "kfd/checkpoint/mapped_ids", 2, t_mapped_ids },
	{ "kfd/checkpoint/aql_half", 1, t_aql_half },
	{ NULL, 0, NULL },
};
