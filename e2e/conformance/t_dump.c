// SPDX-License-Identifier: Apache-2.0
/* CRIU_OP on the dump side: PROCESS_INFO, CHECKPOINT's errors, UNPAUSE, what "paused" means. */
#include "conformance.h"

static void t_bad_op(void)
{
	struct app a;
	struct kfd_ioctl_criu_args c = { 0 };

	app_start(&a);
	EXPECT_RC(criu_op(a.kfd, 5, &c), -EINVAL);
	EXPECT_RC(criu_op(a.kfd, 0xffffffff, &c), -EINVAL);
}

static void t_counts(void)
{
	struct peer p;
	int kfd;
	struct world *w = world_start(&p, true, true, true, &kfd);
	struct kfd_ioctl_criu_args c;
	u32 queue_bos = 3 + 3 + 1 + (w->aql.cwsr.size != 0);

	NEED_OK(criu_info(kfd, &c));
	EXPECT_EQ(c.num_devices, ngpus);
	EXPECT_EQ(c.num_bos, ngpus + 1 + 3 + 1 + queue_bos);
	EXPECT_EQ(c.num_objects, 2 + 4);
	EXPECT_EQ(c.pid, p.pid);
	EXPECT(c.priv_data_size > 8 + 8ull * c.num_devices + 272ull * c.num_bos + 120 * 2 + 64 * 4,
	       "priv_data_size %llu", (unsigned long long)c.priv_data_size);
	EXPECT_RC(criu_unpause(kfd), 0);
	peer_kill(&p);
}

/* A process that only opened the device: no BOs and no objects, but its devices. */
static long just_open(void *arg)
{
	*(int *)arg = kfd_open();
	return 0;
}

static void t_empty(void)
{
	struct peer p;
	int *slot = shared(sizeof(*slot)), kfd;
	struct kfd_ioctl_criu_args c;
	struct image *im = shared(sizeof(*im));

	peer_start(&p);
	NEED_OK(peer_call(&p, just_open, slot));
	peer_trace(&p);
	kfd = peer_fd(&p, *slot);
	NEED_OK(criu_info(kfd, &c));
	EXPECT_EQ(c.num_devices, ngpus);
	EXPECT_EQ(c.num_bos, 0);
	EXPECT_EQ(c.num_objects, 0);
	EXPECT_EQ(c.priv_data_size, 8 + 8 * ngpus);
	c.devices = PTR(im->dev);
	c.priv_data = PTR(im->priv);
	c.bos = 0;
	EXPECT_RC(criu_op(kfd, KFD_CRIU_OP_CHECKPOINT, &c), -EINVAL);
	c.bos = PTR(im->bo);
	EXPECT_RC(criu_op(kfd, KFD_CRIU_OP_CHECKPOINT, &c), 0);
	EXPECT_EQ(rd32(im->priv, 0), 1);
	EXPECT_EQ(im->dev[0].user_gpu_id, gpus[0].id);
	EXPECT_RC(criu_unpause(kfd), 0);
	peer_kill(&p);
}

/* A process may do all of it to itself. */
static void t_self(void)
{
	struct app a;
	struct image *im = shared(sizeof(*im));

	app_start(&a);
	bo_new(&a, 0, PAGE, F_VRAM);
	criu_dump(a.kfd, im);
	EXPECT_EQ(im->nbo, 1);
	EXPECT_EQ(im->pid, getpid());
	EXPECT_RC(criu_unpause(a.kfd), 0);
}

static void t_checkpoint_errors(void)
{
	struct peer p;
	int kfd;
	struct world *w = world_start(&p, true, true, false, &kfd);
	struct image *im = &w->im;
	struct kfd_ioctl_criu_args c, good;

#define BAD(change) do { \
	c = good; \
	change; \
	check_rc(__FILE__, __LINE__, false, "CHECKPOINT after " #change, \
		 criu_op(kfd, KFD_CRIU_OP_CHECKPOINT, &c), -EINVAL); \
} while (0)

	memset(&good, 0, sizeof(good));
	good.devices = PTR(im->dev);
	good.bos = PTR(im->bo);
	good.priv_data = PTR(im->priv);
	good.num_devices = 1;
	EXPECT_RC(criu_op(kfd, KFD_CRIU_OP_CHECKPOINT, &good), -EINVAL);	/* not paused */
	NEED_OK(criu_info(kfd, &c));
	im->ndev = c.num_devices;
	im->nbo = c.num_bos;
	im->nobj = c.num_objects;
	im->priv_size = c.priv_data_size;
	criu_args(im, &good);
	BAD(c.devices = 0);
	BAD(c.bos = 0);
	BAD(c.priv_data = 0);
	BAD(c.num_devices++);
	BAD(c.num_devices = 0);
	BAD(c.num_bos++);
	BAD(c.num_bos--);
	BAD(c.num_objects++);
	BAD(c.num_objects = 0);
	BAD(c.priv_data_size++);
	BAD(c.priv_data_size--);
	c = good;
	c.priv_data = 8;
	EXPECT_RC(criu_op(kfd, KFD_CRIU_OP_CHECKPOINT, &c), -EFAULT);
	c = good;
	c.bos = 8;
	EXPECT_RC(criu_op(kfd, KFD_CRIU_OP_CHECKPOINT, &c), -EFAULT);
	c = good;
	EXPECT_RC(criu_op(kfd, KFD_CRIU_OP_CHECKPOINT, &c), 0);
	criu_close_fds(im);
	EXPECT_RC(criu_unpause(kfd), 0);
	c = good;
	EXPECT_RC(criu_op(kfd, KFD_CRIU_OP_CHECKPOINT, &c), -EINVAL);
	EXPECT_RC(peer_call(&p, world_push_wait, w), 0);
	peer_kill(&p);
#undef BAD
}

static void t_unpause(void)
{
	struct peer p;
	int kfd;
	struct world *w = world_start(&p, true, false, false, &kfd);
	struct kfd_ioctl_criu_args c;

	EXPECT_RC(criu_unpause(kfd), -EINVAL);
	NEED_OK(criu_info(kfd, &c));
	EXPECT_RC(criu_unpause(kfd), 0);
	EXPECT_RC(criu_unpause(kfd), -EINVAL);
	EXPECT_RC(peer_call(&p, world_push_wait, w), 0);
	/* And once more from the start. */
	NEED_OK(criu_info(kfd, &c));
	EXPECT_RC(criu_unpause(kfd), 0);
	EXPECT_RC(peer_call(&p, world_push_wait, w), 0);
	peer_kill(&p);
}

static long push_only(void *arg)
{
	struct world *w = arg;

	queue_push(&w->sdma, 8);
	queue_push(&w->aql, 4);
	return queue_quiet(&w->sdma, 400) && queue_quiet(&w->aql, 400);
}

static long wait_only(void *arg)
{
	struct world *w = arg;

	return queue_wait(&w->sdma, 5000) && queue_wait(&w->aql, 5000) ? 0 : -ETIME;
}

static void t_paused_stops(void)
{
	struct peer p;
	int kfd;
	struct world *w = world_start(&p, true, false, false, &kfd);
	struct kfd_ioctl_criu_args c;

	EXPECT_RC(peer_call(&p, world_push_wait, w), 0);
	NEED_OK(criu_info(kfd, &c));
	EXPECT(peer_call(&p, push_only, w) == 1, "a queue runs while the process is paused");
	EXPECT_RC(criu_unpause(kfd), 0);
	EXPECT_RC(peer_call(&p, wait_only, w), 0);
	peer_kill(&p);
}

/* A queue made while paused is evicted like the others. */
static long new_queue(void *arg)
{
	struct world *w = arg;

	queue_new(&w->app, 0, KFD_IOC_QUEUE_TYPE_SDMA, &w->sdma);
	queue_push(&w->sdma, 8);
	return queue_quiet(&w->sdma, 400);
}

static long wait_sdma(void *arg)
{
	struct world *w = arg;

	return queue_wait(&w->sdma, 5000) ? 0 : -ETIME;
}

static void t_paused_new_queue(void)
{
	struct peer p;
	int kfd;
	struct world *w = world_start(&p, false, false, false, &kfd);
	struct kfd_ioctl_criu_args c;

	NEED_OK(criu_info(kfd, &c));
	EXPECT(peer_call(&p, new_queue, w) == 1, "a queue created while paused runs");
	EXPECT_RC(criu_unpause(kfd), 0);
	EXPECT_RC(peer_call(&p, wait_sdma, w), 0);
	peer_kill(&p);
}

/* Neither closing descriptors nor detaching ends the pause; a later tracer does it with a new descriptor. */
static void t_paused_persists(void)
{
	struct peer p;
	int kfd;
	struct world *w = world_start(&p, true, false, false, &kfd);
	struct kfd_ioctl_criu_args c;

	NEED_OK(criu_info(kfd, &c));
	close(kfd);
	peer_stop_trace(&p);
	EXPECT(peer_call(&p, push_only, w) == 1, "a queue runs after the tracer left a paused process");
	peer_trace(&p);
	kfd = peer_fd(&p, w->app.kfd);
	EXPECT_RC(criu_unpause(kfd), 0);
	EXPECT_RC(peer_call(&p, wait_only, w), 0);
	peer_kill(&p);
}

static void t_info_twice(void)
{
	struct peer p;
	int kfd;
	struct world *w = world_start(&p, true, false, false, &kfd);
	struct kfd_ioctl_criu_args c;
	long rc;

	NEED_OK(criu_info(kfd, &c));
	rc = criu_info(kfd, &c);
	EXPECT_RC(rc, 0);
	EXPECT_RC(criu_unpause(kfd), 0);
	/* 6.12 evicts once; older kernels and 7.2 evict twice, and then the queues stay evicted. */
	rc = peer_call(&p, world_push_wait, w);
	if (kfd_minor() == 17)
		EXPECT_RC(rc, 0);
	info("after two PROCESS_INFO and one UNPAUSE the queues %s", rc ? "stay evicted" : "run");
	EXPECT_RC(criu_unpause(kfd), -EINVAL);
	peer_kill(&p);
}

static void t_events_while_paused(void)
{
	struct peer p;
	int kfd;
	struct world *w = world_start(&p, false, true, false, &kfd);
	struct kfd_ioctl_criu_args c, d;

	NEED_OK(criu_info(kfd, &c));
	EXPECT_EQ(c.num_objects, 4);
	EXPECT_RC(criu_unpause(kfd), 0);
	NEED_OK(criu_info(kfd, &d));
	EXPECT_EQ(d.priv_data_size, c.priv_data_size);
	EXPECT_EQ(d.num_bos, c.num_bos);
	EXPECT_RC(criu_unpause(kfd), 0);
	EXPECT_EQ(w->ev[1].event_id, 1);
	peer_kill(&p);
}

static void t_killed_paused(void)
{
	struct peer p;
	int kfd;
	struct world *w = world_start(&p, true, true, true, &kfd);
	struct app mine;
	struct kfd_ioctl_criu_args c;
	u64 before, end;

	app_start(&mine);
	before = kfd_avail_settled(mine.kfd, 0);
	NEED_OK(criu_info(kfd, &c));
	close(kfd);
	peer_kill(&p);
	wait_owner_gone(p.pid);
	end = now_ms() + 5000;
	while (kfd_avail(mine.kfd, 0) < before + w->vram[0].size && now_ms() < end)
		sleep_ms(10);
	EXPECT(kfd_avail(mine.kfd, 0) >= before + w->vram[0].size, "VRAM of a process killed while paused is not back");
}

const struct test tests_dump[] = {
	{ "kfd/criu/bad_op", 1, t_bad_op },
	{ "kfd/criu/process_info_counts", 1, t_counts },
	{ "kfd/criu/empty_process", 1, t_empty },
	{ "kfd/criu/self", 1, t_self },
	{ "kfd/criu/checkpoint_errors", 1, t_checkpoint_errors },
	{ "kfd/criu/unpause", 1, t_unpause },
	{ "kfd/criu/paused_stops", 1, t_paused_stops },
	{ "kfd/criu/paused_new_queue", 1, t_paused_new_queue },
	{ "kfd/criu/paused_persists", 1, t_paused_persists },
	{ "kfd/criu/process_info_twice", 1, t_info_twice },
	{ "kfd/criu/events_while_paused", 1, t_events_while_paused },
	{ "kfd/criu/killed_while_paused", 1, t_killed_paused },
	{ NULL, 0, NULL },
};
