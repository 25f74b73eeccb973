// SPDX-License-Identifier: Apache-2.0
/* Failures that need a simulator's fault points; skipped where there are none. */
#include "conformance.h"

static void need_faults(void)
{
	if (!fault_set("clear"))
		skip("no fault injection");
}

static int open_fds(void)
{
	int n = 0;

	for (int fd = 0; fd < 512; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static long push_quiet(void *arg)
{
	struct world *w = arg;

	queue_push(&w->sdma, 8);
	return queue_quiet(&w->sdma, 300);
}

/* PROCESS_INFO that fails un-evicts and is not paused. */
static void t_process_info(void)
{
	struct peer p;
	int kfd;
	struct world *w;
	struct kfd_ioctl_criu_args c;

	need_faults();
	w = world_start(&p, true, false, false, &kfd);
	NEED(fault_set("kfd.criu_op.process_info 1 EIO"), "fault point refused");
	EXPECT_RC(criu_info(kfd, &c), -EIO);
	fault_set("clear");
	EXPECT_RC(criu_unpause(kfd), -EINVAL);
	EXPECT_RC(peer_call(&p, world_push_wait, w), 0);
	NEED_OK(criu_info(kfd, &c));
	EXPECT_RC(criu_unpause(kfd), 0);
	peer_kill(&p);
}

/* CHECKPOINT that fails leaves no descriptors and stays paused; it can be repeated. */
static void t_checkpoint(void)
{
	struct peer p;
	int kfd, before;
	struct world *w;
	struct image *im;
	struct kfd_ioctl_criu_args c;

	need_faults();
	w = world_start(&p, true, true, false, &kfd);
	im = &w->im;
	NEED_OK(criu_info(kfd, &c));
	im->ndev = c.num_devices;
	im->nbo = c.num_bos;
	im->nobj = c.num_objects;
	im->priv_size = c.priv_data_size;
	criu_args(im, &c);
	before = open_fds();
	NEED(fault_set("kfd.criu_op.checkpoint 1 ENOMEM"), "fault point refused");
	EXPECT_RC(criu_op(kfd, KFD_CRIU_OP_CHECKPOINT, &c), -ENOMEM);
	fault_set("clear");
	EXPECT_EQ(open_fds(), before);
	EXPECT(peer_call(&p, push_quiet, w) == 1, "a queue runs after a failed CHECKPOINT");
	criu_args(im, &c);
	EXPECT_RC(criu_op(kfd, KFD_CRIU_OP_CHECKPOINT, &c), 0);
	criu_close_fds(im);
	EXPECT_RC(criu_unpause(kfd), 0);
	EXPECT_RC(peer_call(&p, world_push_wait, w), 0);
	peer_kill(&p);
}

/* UNPAUSE that fails leaves the process paused. */
static void t_unpause(void)
{
	struct peer p;
	int kfd;
	struct world *w;
	struct kfd_ioctl_criu_args c;

	need_faults();
	w = world_start(&p, true, false, false, &kfd);
	NEED_OK(criu_info(kfd, &c));
	NEED(fault_set("kfd.criu_op.unpause 1 EIO"), "fault point refused");
	EXPECT_RC(criu_unpause(kfd), -EIO);
	fault_set("clear");
	EXPECT(peer_call(&p, push_quiet, w) == 1, "a queue runs after a failed UNPAUSE");
	EXPECT_RC(criu_unpause(kfd), 0);
	EXPECT_RC(peer_call(&p, world_push_wait, w), 0);
	peer_kill(&p);
}

static void t_cs(void)
{
	int fd = render_open(0);
	struct sdma s;
	struct mem m;

	need_faults();
	sdma_open(&s, fd);
	m = mem_new(fd, AMDGPU_GEM_DOMAIN_GTT, 2 * PAGE, VA_BASE + (1 << 24));
	NEED(fault_set("drm.cs 1 ENOMEM"), "fault point refused");
	sdma_copy(&s, m.va + PAGE, m.va, 64);
	EXPECT_RC(sdma_run(&s, USE_BO_HANDLES, &m.handle, 1), -ENOMEM);
	fault_set("clear");
	sdma_copy(&s, m.va + PAGE, m.va, 64);
	EXPECT_RC(sdma_run(&s, USE_BO_HANDLES, &m.handle, 1), 0);
}

/* A job that never ends: WAIT_CS comes back at its time with status 1, and no error. */
static void t_wait_timeout(void)
{
	int fd = render_open(0);
	struct sdma s;
	struct mem m;
	u64 seq, status = 0, t0, took;

	need_faults();
	sdma_open(&s, fd);
	m = mem_new(fd, AMDGPU_GEM_DOMAIN_GTT, 2 * PAGE, VA_BASE + (1 << 24));
	NEED(fault_set("sdma hang 1"), "fault point refused");
	sdma_copy(&s, m.va + PAGE, m.va, 64);
	NEED_OK(sdma_submit(&s, USE_BO_HANDLES, &m.handle, 1, &seq));
	EXPECT_RC(cs_wait(fd, s.ctx, seq, 0, &status), 0);
	EXPECT_EQ(status, 1);
	status = 0;
	t0 = now_ms();
	EXPECT_RC(cs_wait(fd, s.ctx, seq, abs_ns(300000000), &status), 0);
	took = now_ms() - t0;
	EXPECT_EQ(status, 1);
	EXPECT(took >= 280 && took < 3000, "a wait of 300 ms took %llu ms", (unsigned long long)took);
	fault_set("clear");
}

static void t_sdma_fail(void)
{
	int fd = render_open(0);
	struct sdma s;
	struct mem m;
	long rc;

	need_faults();
	sdma_open(&s, fd);
	m = mem_new(fd, AMDGPU_GEM_DOMAIN_GTT, 2 * PAGE, VA_BASE + (1 << 24));
	NEED(fault_set("sdma fail 1"), "fault point refused");
	sdma_copy(&s, m.va + PAGE, m.va, 64);
	rc = sdma_run(&s, USE_BO_HANDLES, &m.handle, 1);
	EXPECT(rc < 0 && rc != -ETIME, "WAIT_CS of a failed job: expected an error, got %ld", rc);
	fault_set("clear");
}

/* A RESTORE that runs out of VRAM half-way. */
static void t_restore_fails(void)
{
	struct peer p;
	int kfd;
	struct world *w;

	need_faults();
	w = world_start(&p, false, true, false, &kfd);
	world_dump(w, &p, kfd);
	close(kfd);
	peer_kill(&p);
	wait_owner_gone(p.pid);
	NEED(fault_set("kfd.criu_op.restore 1 ENOMEM"), "fault point refused");
	peer_start(&p);
	EXPECT_RC(peer_call(&p, world_restore, w), -ENOMEM);
	peer_kill(&p);
	fault_set("clear");
	peer_start(&p);
	EXPECT_RC(peer_call(&p, world_restore, w), 0);
	peer_kill(&p);
}

const struct test tests_faults[] = {
	{ "faults/process_info", 1, t_process_info },
	{ "faults/checkpoint", 1, t_checkpoint },
	{ "faults/unpause", 1, t_unpause },
	{ "faults/cs", 1, t_cs },
	{ "faults/wait_timeout", 1, t_wait_timeout },
	{ "faults/sdma_fail", 1, t_sdma_fail },
	{ "faults/restore", 1, t_restore_fails },
	{ NULL, 0, NULL },
};
