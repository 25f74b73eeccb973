// SPDX-License-Identifier: Apache-2.0
/* CRIU_OP on the restore side, when all goes well: objects, contents' places, RESUME. */
#include "conformance.h"

#include <sched.h>

/* Dumps a world of a peer that is killed afterwards, as a dump that ends the task does. */
static struct world *dumped(bool queues, bool events, bool special)
{
	struct peer p;
	int kfd;
	struct world *w = world_start(&p, queues, events, special, &kfd);

	if (queues)
		NEED_OK(peer_call(&p, world_push_wait, w));
	world_dump(w, &p, kfd);
	NEED_OK(criu_unpause(kfd));
	close(kfd);
	peer_kill(&p);
	wait_owner_gone(p.pid);
	return w;
}

static struct world *restored(struct peer *p, bool queues, bool events, bool special)
{
	struct world *w = dumped(queues, events, special);

	peer_start(p);
	NEED_OK(peer_call(p, world_restore, w));
	return w;
}

static long check_contents(void *arg)
{
	struct world *w = arg;

	for (int g = 0; g < ngpus; g++) {
		u32 *m = (u32 *)w->vram[g].va;

		for (size_t i = 0; i < w->vram[g].size / 4; i++)
			if (m[i] != (u32)(100 + g) * 2654435761u + (u32)i)
				return 1 + g;
	}
	return 0;
}

static void t_basic(void)
{
	struct peer p;
	struct world *w = restored(&p, false, false, false);

	EXPECT_RC(peer_call(&p, check_contents, w), 0);
	EXPECT_RC(criu_resume(kfd_open(), p.pid), 0);
	EXPECT_RC(peer_call(&p, check_contents, w), 0);
	peer_kill(&p);
}

static long check_fds(void *arg)
{
	struct world *w = arg;
	char link[256];

	for (u32 i = 0; i < w->im.nbo; i++) {
		struct kfd_criu_bo_bucket *b = &w->im.bo[i];
		int fd = (int)b->dmabuf_fd;

		if (!(b->alloc_flags & (KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_GTT))) {
			EXPECT_EQ(b->dmabuf_fd, KFD_INVALID_FD);
			continue;
		}
		EXPECT_EQ(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
		EXPECT_EQ(fcntl(fd, F_GETFL) & O_ACCMODE, b->alloc_flags & KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE ? O_RDWR :
			  O_RDONLY);
		EXPECT_EQ(lseek(fd, 0, SEEK_END), b->size);
		EXPECT(!fd_path(getpid(), fd, link, sizeof(link)) && !strncmp(link, "/dmabuf:", 8), "fd is %s", link);
		close(fd);
	}
	return 0;
}

static void mark_offsets(struct world *w, struct kfd_ioctl_criu_args *a)
{
	(void)a;
	for (u32 i = 0; i < w->im.nbo; i++)
		w->im.bo[i].restored_offset = 0x123456789000;
}

static void t_output(void)
{
	struct peer p;
	struct world *w = dumped(true, true, true);

	w->tweak = mark_offsets;
	peer_start(&p);
	NEED_OK(peer_call(&p, world_restore, w));
	for (u32 i = 0; i < w->im.nbo; i++) {
		struct kfd_criu_bo_bucket *b = &w->im.bo[i];

		if (b->alloc_flags & KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL) {
			EXPECT_EQ(b->restored_offset, KFD_OFF(3, gpus[0].id));
		} else if (b->alloc_flags & KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP) {
			EXPECT_EQ(b->restored_offset, KFD_OFF(0, gpus[0].id));
		} else if (b->alloc_flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR) {
			EXPECT_EQ(b->restored_offset, 0x123456789000);
		} else {
			EXPECT(b->restored_offset && b->restored_offset % PAGE == 0 &&
			       b->restored_offset != 0x123456789000, "BO %u: restored_offset %#llx", i,
			       (unsigned long long)b->restored_offset);
			for (u32 k = 0; k < i; k++)
				EXPECT(w->im.bo[k].restored_offset != b->restored_offset ||
				       w->im.bo[k].gpu_id != b->gpu_id, "BOs %u and %u share an offset", k, i);
		}
	}
	EXPECT_RC(peer_call(&p, check_fds, w), 0);
	peer_kill(&p);
}

/* The application's handles are good, and new ones go on behind them. */
static long check_handles(void *arg)
{
	struct world *w = arg;
	struct bo b = { .size = PAGE, .flags = F_GTT };

	for (int g = 0; g < ngpus; g++) {
		EXPECT_RC(kfd_free(w->app.kfd, w->vram[g].handle), -EBUSY);
		EXPECT_RC(kfd_unmap(w->app.kfd, w->vram[g].handle, &gpus[g].id, 1, NULL), 0);
		EXPECT_RC(kfd_free(w->app.kfd, w->vram[g].handle), 0);
	}
	EXPECT_RC(kfd_unmap(w->app.kfd, w->gtt.handle, &gpus[0].id, 1, NULL), 0);
	EXPECT_RC(kfd_free(w->app.kfd, w->gtt.handle), 0);
	EXPECT_RC(kfd_unmap(w->app.kfd, w->userptr.handle, &gpus[0].id, 1, NULL), 0);
	EXPECT_RC(kfd_free(w->app.kfd, w->userptr.handle), 0);
	EXPECT_RC(kfd_free(w->app.kfd, w->page.handle), -EPERM);
	b.va = PTR(reserve(PAGE));
	EXPECT_RC(kfd_alloc(w->app.kfd, &b, gpus[0].id), 0);
	return 0;
}

static void t_handles(void)
{
	struct peer p;
	struct world *w = restored(&p, false, true, true);

	NEED_OK(criu_resume(kfd_open(), p.pid));
	EXPECT_RC(peer_call(&p, check_handles, w), 0);
	peer_kill(&p);
}

static long check_events(void *arg)
{
	struct world *w = arg;
	struct kfd_ioctl_create_event_args ev;
	struct kfd_event_data d = { .event_id = w->ev[2].event_id };
	u32 r;

	EXPECT_RC(kfd_poll_event(w->app.kfd, w->ev[2].event_id, &r), 0);
	EXPECT_EQ(r, KFD_IOC_WAIT_RESULT_COMPLETE);
	/* Ages are not kept: an old one differs, and the wait comes back at once. */
	EXPECT_RC(kfd_event_op(w->app.kfd, AMDKFD_IOC_RESET_EVENT, w->ev[2].event_id), 0);
	d.signal_event_data.last_event_age = 500;
	EXPECT_RC(kfd_wait(w->app.kfd, &d, 1, false, 0, &r), 0);
	EXPECT_EQ(r, KFD_IOC_WAIT_RESULT_COMPLETE);
	EXPECT_RC(kfd_poll_event(w->app.kfd, w->ev[1].event_id, &r), 0);
	EXPECT_EQ(r, KFD_IOC_WAIT_RESULT_TIMEOUT);
	EXPECT_RC(kfd_event_op(w->app.kfd, AMDKFD_IOC_SET_EVENT, w->ev[1].event_id), 0);
	for (int i = 0; i < 2; i++) {	/* auto reset has been kept */
		EXPECT_RC(kfd_poll_event(w->app.kfd, w->ev[1].event_id, &r), 0);
		EXPECT_EQ(r, i ? KFD_IOC_WAIT_RESULT_TIMEOUT : KFD_IOC_WAIT_RESULT_COMPLETE);
	}
	EXPECT_RC(kfd_event_op(w->app.kfd, AMDKFD_IOC_SET_EVENT, w->ev[0].event_id), -EINVAL);	/* a memory event */
	EXPECT_RC(kfd_event(w->app.kfd, KFD_IOC_EVENT_SIGNAL, false, w->page.handle, &ev), -EINVAL);
	EXPECT_RC(kfd_event(w->app.kfd, KFD_IOC_EVENT_SIGNAL, false, 0, &ev), 0);
	EXPECT_EQ(ev.event_id, 3);
	EXPECT_RC(kfd_event(w->app.kfd, KFD_IOC_EVENT_MEMORY, false, 0, &ev), 0);
	EXPECT_EQ(ev.event_id, 0x40000002);
	EXPECT_RC(kfd_event_op(w->app.kfd, AMDKFD_IOC_DESTROY_EVENT, w->ev[3].event_id), 0);
	return 0;
}

static void t_events(void)
{
	struct peer p;
	struct world *w = restored(&p, false, true, false);

	NEED_OK(criu_resume(kfd_open(), p.pid));
	EXPECT_RC(peer_call(&p, check_events, w), 0);
	peer_kill(&p);
}

/* RESTORE clears the event page; contents come back only by writing them. */
static long page_word(void *arg)
{
	struct world *w = arg;
	u64 *slot = w->page.cpu, bad = 0;

	for (int i = 0; i < 4096; i++)
		bad += slot[i] != ~0ull;
	return (long)bad;
}

static long map_page(void *arg)
{
	struct world *w = arg;
	long err;

	w->page.cpu = map_fd(w->app.drm[0], w->page.size, PROT_READ, w->arg, &err);
	return err;
}

static void t_event_page(void)
{
	struct peer p;
	struct world *w = dumped(false, true, false);

	for (u32 i = 0; i < w->im.nbo; i++)
		if (w->im.bo[i].addr == w->page.va && w->data_off[i] != NO_DATA)
			w->data_off[i] = NO_DATA;	/* then map_back leaves it alone */
	peer_start(&p);
	NEED_OK(peer_call(&p, world_restore, w));
	for (u32 i = 0; i < w->im.nbo; i++)
		if (w->im.bo[i].addr == w->page.va)
			w->arg = w->im.bo[i].restored_offset;
	NEED_OK(peer_call(&p, map_page, w));
	EXPECT_RC(peer_call(&p, page_word, w), 0);
	peer_kill(&p);
}

static long push_quiet(void *arg)
{
	struct world *w = arg;

	queue_push(&w->sdma, 8);
	queue_push(&w->aql, 4);
	return queue_quiet(&w->sdma, 500) && queue_quiet(&w->aql, 500);
}

static long wait_both(void *arg)
{
	struct world *w = arg;

	return queue_wait(&w->sdma, 10000) && queue_wait(&w->aql, 10000) ? 0 : -ETIME;
}

static long queue_ids(void *arg)
{
	struct world *w = arg;
	struct queue q;

	queue_buffers(&w->app, 0, KFD_IOC_QUEUE_TYPE_SDMA, &q);
	NEED_OK(queue_create(&w->app, &q));
	EXPECT(q.args.queue_id != w->sdma.args.queue_id && q.args.queue_id != w->aql.args.queue_id,
	       "a new queue has the id of a restored one");
	EXPECT(q.args.doorbell_offset != w->sdma.args.doorbell_offset &&
	       q.args.doorbell_offset != w->aql.args.doorbell_offset, "a new queue has the doorbell of a restored one");
	EXPECT_RC(queue_destroy(&w->app, w->sdma.args.queue_id), 0);
	EXPECT_RC(queue_destroy(&w->app, w->aql.args.queue_id), 0);
	return 0;
}

static void t_queues(void)
{
	struct peer p;
	struct world *w = restored(&p, true, false, false);

	EXPECT(peer_call(&p, push_quiet, w) == 1, "a queue runs between RESTORE and RESUME");
	EXPECT_RC(criu_resume(kfd_open(), p.pid), 0);
	EXPECT_RC(peer_call(&p, wait_both, w), 0);
	EXPECT_RC(peer_call(&p, world_push_wait, w), 0);
	EXPECT_RC(peer_call(&p, queue_ids, w), 0);
	peer_kill(&p);
}

static long doorbell_runs(void *arg)
{
	struct world *w = arg;
	size_t slice = doorbell_slice(0);
	long err;
	u8 *db = map_fd(w->app.kfd, slice, PROT_READ | PROT_WRITE, KFD_OFF(3, gpus[0].id), &err);

	if (!db)
		return err;
	w->sdma.slice = w->aql.slice = slice;
	w->sdma.doorbell = db + (w->sdma.args.doorbell_offset & (slice - 1));
	w->aql.doorbell = db + (w->aql.args.doorbell_offset & (slice - 1));
	return world_push_wait(w);
}

static void t_doorbells(void)
{
	struct peer p;
	struct world *w = restored(&p, true, false, true);

	NEED_OK(criu_resume(kfd_open(), p.pid));
	EXPECT_RC(peer_call(&p, doorbell_runs, w), 0);
	peer_kill(&p);
}

static void t_resume_errors(void)
{
	struct peer p, none, fresh;
	struct world *w = restored(&p, false, false, false), *f = shared(sizeof(*f));
	int kfd = kfd_open();

	EXPECT_RC(criu_resume(kfd, 0x3fffff), -ESRCH);
	peer_start(&none);
	EXPECT_RC(criu_resume(kfd, none.pid), -ESRCH);
	peer_kill(&none);
	EXPECT_RC(criu_resume(kfd, p.pid), 0);
	EXPECT_RC(criu_resume(kfd, p.pid), -EINVAL);
	EXPECT_RC(peer_call(&p, check_contents, w), 0);
	peer_kill(&p);
	peer_start(&fresh);
	NEED_OK(peer_call(&fresh, world_build, f));
	EXPECT_RC(criu_resume(kfd, fresh.pid), -EINVAL);
	peer_kill(&fresh);
}

/* The task inside a pid namespace: PROCESS_INFO gives its number there, RESUME takes the caller's. */
static void t_pid_namespace(void)
{
	struct world *w = dumped(false, false, false);
	struct kfd_ioctl_criu_args c;
	struct peer p;
	int kfd;

	if (unshare(CLONE_NEWPID))
		skip("no pid namespace: errno %d", errno);
	peer_start(&p);
	NEED_OK(peer_call(&p, world_restore, w));
	EXPECT_RC(criu_resume(kfd_open(), p.pid), 0);
	peer_trace(&p);
	kfd = peer_fd(&p, w->app.kfd);
	EXPECT_RC(criu_info(kfd, &c), 0);
	EXPECT_EQ(c.pid, 1);
	EXPECT_RC(criu_unpause(kfd), 0);
	peer_kill(&p);
}

/* A restored process can be dumped again, with the same result. */
static void t_second_dump(void)
{
	struct peer p;
	struct world *w = restored(&p, true, true, true), *old;
	int kfd;

	NEED_OK(criu_resume(kfd_open(), p.pid));
	NEED_OK(peer_call(&p, world_push_wait, w));
	peer_trace(&p);
	kfd = peer_fd(&p, w->app.kfd);
	old = world_copy(w);	/* the peer knows only w */
	world_dump(w, &p, kfd);
	EXPECT_EQ(w->im.nbo, old->im.nbo);
	EXPECT_EQ(w->im.nobj, old->im.nobj);
	EXPECT_EQ(w->im.priv_size, old->im.priv_size);
	for (u32 i = 0; i < w->im.nbo; i++) {
		EXPECT_EQ(w->im.bo[i].addr, old->im.bo[i].addr);
		EXPECT_EQ(w->im.bo[i].size, old->im.bo[i].size);
		EXPECT_EQ(w->im.bo[i].gpu_id, old->im.bo[i].gpu_id);
		EXPECT_EQ(w->im.bo[i].alloc_flags, old->im.bo[i].alloc_flags);
		EXPECT_EQ(rd32(criu_bo_priv(&w->im, i), 8), rd32(criu_bo_priv(&old->im, i), 8));
	}
	NEED_OK(criu_unpause(kfd));
	EXPECT_RC(peer_call(&p, world_push_wait, w), 0);
	close(kfd);
	peer_kill(&p);
	wait_owner_gone(p.pid);
	w->tweak = NULL;
	peer_start(&p);
	EXPECT_RC(peer_call(&p, world_restore, w), 0);
	EXPECT_RC(criu_resume(kfd_open(), p.pid), 0);
	EXPECT_RC(peer_call(&p, world_push_wait, w), 0);
	peer_kill(&p);
}

/* An object-less process restores too. */
static long just_open(void *arg)
{
	*(int *)arg = kfd_open();
	return 0;
}

static void t_empty(void)
{
	struct world *w = shared(sizeof(*w));
	int *slot = shared(sizeof(*slot));
	struct peer p;

	peer_start(&p);
	NEED_OK(peer_call(&p, just_open, slot));
	peer_trace(&p);
	world_dump(w, &p, peer_fd(&p, *slot));
	peer_kill(&p);
	peer_start(&p);
	EXPECT_RC(peer_call(&p, world_restore, w), 0);
	EXPECT_RC(criu_resume(kfd_open(), p.pid), 0);
	peer_kill(&p);
}

static long first_word(void *arg)
{
	struct world *w = arg;
	u32 *m = w->page.cpu;

	info("VRAM after RESTORE begins with %#x", m[0]);
	return m[1] == 100u * 2654435761u + 1 && m[2] == 100u * 2654435761u + 2;
}

/* Fresh VRAM is undefined; a simulator fills it with a pattern so that forgotten contents show. */
static void t_poison(void)
{
	struct world *w = dumped(false, false, false);
	struct peer p;

	for (u32 i = 0; i < w->im.nbo; i++)
		w->data_off[i] = NO_DATA;
	peer_start(&p);
	NEED_OK(peer_call(&p, world_restore, w));
	for (u32 i = 0; i < w->im.nbo; i++)
		if (w->im.bo[i].addr == w->vram[0].va)
			w->arg = w->im.bo[i].restored_offset;
	w->page.size = w->vram[0].size;
	NEED_OK(peer_call(&p, map_page, w));
	EXPECT(peer_call(&p, first_word, w) == 0, "restored VRAM has its old contents without anyone's writing them");
	peer_kill(&p);
}

const struct test tests_restore[] = {
	{ "kfd/restore/basic", 1, t_basic },
	{ "kfd/restore/output", 1, t_output },
	{ "kfd/restore/handles", 1, t_handles },
	{ "kfd/restore/events", 1, t_events },
	{ "kfd/restore/event_page", 1, t_event_page },
	{ "kfd/restore/queues", 1, t_queues },
	{ "kfd/restore/doorbells", 1, t_doorbells },
	{ "kfd/restore/resume_errors", 1, t_resume_errors },
	{ "kfd/restore/pid_namespace", 1, t_pid_namespace },
	{ "kfd/restore/second_dump", 1, t_second_dump },
	{ "kfd/restore/empty", 1, t_empty },
	{ "kfd/restore/poison", 1, t_poison },
	{ NULL, 0, NULL },
};
