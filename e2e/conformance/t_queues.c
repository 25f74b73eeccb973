// SPDX-License-Identifier: Apache-2.0
/* Queues: types, ids, doorbells, execution, SDMA numbers, what depends on existing queues. */
#include "conformance.h"

#define SDMA KFD_IOC_QUEUE_TYPE_SDMA
#define AQL KFD_IOC_QUEUE_TYPE_COMPUTE_AQL

static void t_types(void)
{
	static const u32 types[] = { 0, 1, 2 };
	struct app a;
	struct queue q[3];

	app_start(&a);
	for (int i = 0; i < 3; i++) {
		queue_buffers(&a, 0, types[i], &q[i]);
		EXPECT_RC(queue_create(&a, &q[i]), 0);
		EXPECT_EQ(KFD_TYPE(q[i].args.doorbell_offset), 3);
		EXPECT_EQ((q[i].args.doorbell_offset >> 46) & 0xffff, gpus[0].id);
		EXPECT((q[i].args.doorbell_offset & ((1ull << 46) - 1)) < doorbell_slice(0),
		       "doorbell offset %#llx lies outside the slice", (unsigned long long)q[i].args.doorbell_offset);
		for (int k = 0; k < i; k++) {
			EXPECT(q[k].args.queue_id != q[i].args.queue_id, "two queues with id %u", q[i].args.queue_id);
			EXPECT(q[k].args.doorbell_offset != q[i].args.doorbell_offset, "two queues share a doorbell");
		}
	}
	for (int i = 0; i < 3; i++)
		queue_del(&a, &q[i]);
}

static void t_xgmi(void)
{
	struct app a;
	struct queue q;

	if (!gpu_prop(0, "num_sdma_xgmi_engines"))
		skip("GPU 0 has no XGMI SDMA engine");
	app_start(&a);
	queue_new(&a, 0, KFD_IOC_QUEUE_TYPE_SDMA_XGMI, &q);
	queue_push(&q, 8);
	EXPECT(queue_wait(&q, 5000), "an XGMI SDMA queue does not run");
	queue_del(&a, &q);
	queue_buffers(&a, 0, KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID, &q);
	q.args.sdma_engine_id = 0;
	EXPECT_RC(queue_create(&a, &q), 0);
	EXPECT_RC(queue_destroy(&a, q.args.queue_id), 0);
	q.args.sdma_engine_id = 9999;
	EXPECT(queue_create(&a, &q) < 0, "CREATE_QUEUE by engine 9999: expected an error");
}

/* The older, shorter structure; what lies behind it must not matter. */
static void t_size_88(void)
{
	struct app a;
	struct queue q;

	app_start(&a);
	queue_buffers(&a, 0, SDMA, &q);
	q.args.sdma_engine_id = 0xdeadbeef;
	q.args.pad = 0xdeadbeef;
	EXPECT_RC(call_ioctl(a.kfd, 0xc0584b02, &q.args), 0);
	EXPECT_EQ(q.args.pad, 0xdeadbeef);
	EXPECT_RC(queue_destroy(&a, q.args.queue_id), 0);
}

static void runs(u32 type)
{
	struct app a;
	struct queue q;

	app_start(&a);
	for (int g = 0; g < ngpus && g < 2; g++) {
		queue_new(&a, g, type, &q);
		EXPECT(queue_quiet(&q, 100) && *(u64 *)q.rptr.cpu == 0, "an empty queue moves its read pointer");
		for (int i = 0; i < 5; i++) {
			queue_push(&q, 8);
			EXPECT(queue_wait(&q, 5000), "GPU %d: read pointer stays at %llu, wants %llu", g,
			       (unsigned long long)*(u64 *)q.rptr.cpu, (unsigned long long)q.pos);
		}
		queue_del(&a, &q);
	}
}

static void t_runs_sdma(void)
{
	runs(SDMA);
}

static void t_runs_aql(void)
{
	runs(AQL);
}

static void t_wraps(void)
{
	struct app a;
	struct queue q;

	app_start(&a);
	queue_new(&a, 0, AQL, &q);
	for (int i = 0; i < 20; i++) {
		queue_push(&q, 24);
		NEED(queue_wait(&q, 5000), "the queue stops in round %d", i);
	}
	queue_del(&a, &q);
}

/* Positions come from memory; the doorbell only wakes up, so a queue goes on without one. */
static void t_without_doorbell(void)
{
	struct app a;
	struct queue q;

	app_start(&a);
	queue_new(&a, 0, SDMA, &q);
	q.doorbell = NULL;
	queue_push(&q, 8);
	EXPECT(queue_wait(&q, 5000), "a queue whose write pointer moved in memory does not run");
}

static void t_doorbells_many(void)
{
	struct app a;
	struct queue q[8];

	app_start(&a);
	for (int i = 0; i < 8; i++) {
		queue_new(&a, 0, i & 1 ? AQL : SDMA, &q[i]);
		for (int k = 0; k < i; k++)
			EXPECT(q[k].args.doorbell_offset != q[i].args.doorbell_offset, "queues %d and %d share a doorbell",
			       k, i);
	}
	for (int i = 0; i < 8; i++)
		queue_push(&q[i], 8);
	for (int i = 0; i < 8; i++)
		EXPECT(queue_wait(&q[i], 5000), "queue %d of 8 does not run", i);
	for (int i = 0; i < 8; i++)
		queue_del(&a, &q[i]);
}

static u32 sdma_limit(int g)
{
	return (u32)(gpu_prop(g, "num_sdma_engines") * gpu_prop(g, "num_sdma_queues_per_engine"));
}

/* SDMA numbers belong to the device: another process finds what this one left. */
static long take_sdma(void *arg)
{
	struct world *w = arg;
	struct queue q;
	u32 n = 0;
	long rc;

	if (!w->app.kfd)
		app_start(&w->app);
	while (n < w->arg) {
		queue_buffers(&w->app, 0, SDMA, &q);
		rc = queue_create(&w->app, &q);
		if (rc) {
			w->ret = (u64)-rc;
			break;
		}
		n++;
	}
	return n;
}

static void t_sdma_numbers(void)
{
	struct world *w[2] = { shared(sizeof(struct world)), shared(sizeof(struct world)) };
	struct peer p[2];
	u32 most = sdma_limit(0);

	peer_start(&p[0]);
	peer_start(&p[1]);
	w[0]->arg = most - 1;
	EXPECT_RC(peer_call(&p[0], take_sdma, w[0]), most - 1);
	w[1]->arg = 3;
	EXPECT_RC(peer_call(&p[1], take_sdma, w[1]), 1);
	EXPECT_EQ(w[1]->ret, ENOMEM);
	peer_kill(&p[0]);
	wait_owner_gone(p[0].pid);
	EXPECT_RC(peer_call(&p[1], take_sdma, w[1]), 3);
	peer_kill(&p[1]);
	wait_owner_gone(p[1].pid);
}

static void t_unknown_id(void)
{
	struct app a;
	struct kfd_ioctl_update_queue_args u = { .queue_id = 777, .queue_percentage = 100, .queue_priority = 7,
						 .ring_size = 4096 };
	struct kfd_ioctl_set_cu_mask_args m = { .queue_id = 777, .num_cu_mask = 32 };
	u32 mask[4] = { ~0u, ~0u, ~0u, ~0u };
	long rc;

	app_start(&a);
	u.ring_base_address = PTR(reserve(PAGE));
	m.cu_mask_ptr = PTR(mask);
	EXPECT_RC(queue_destroy(&a, 777), -EINVAL);
	rc = call_ioctl(a.kfd, AMDKFD_IOC_UPDATE_QUEUE, &u);
	EXPECT(rc == -EINVAL || rc == -EFAULT, "UPDATE_QUEUE of an unknown queue: expected -EINVAL, got %ld", rc);
	rc = call_ioctl(a.kfd, AMDKFD_IOC_SET_CU_MASK, &m);
	EXPECT(rc == -EINVAL || rc == -EFAULT, "SET_CU_MASK of an unknown queue: expected -EINVAL, got %ld", rc);
}

static void t_update(void)
{
	struct app a;
	struct queue q;
	struct kfd_ioctl_update_queue_args u = { 0 };

	app_start(&a);
	queue_new(&a, 0, SDMA, &q);
	u.queue_id = q.args.queue_id;
	u.ring_base_address = q.ring.va;
	u.ring_size = q.args.ring_size;
	u.queue_priority = 16;
	u.queue_percentage = 100;
	EXPECT_RC(call_ioctl(a.kfd, AMDKFD_IOC_UPDATE_QUEUE, &u), -EINVAL);
	u.queue_priority = 7;
	u.queue_percentage = 101;
	EXPECT_RC(call_ioctl(a.kfd, AMDKFD_IOC_UPDATE_QUEUE, &u), -EINVAL);
	u.queue_percentage = 100;
	u.ring_size = 3000;
	EXPECT_RC(call_ioctl(a.kfd, AMDKFD_IOC_UPDATE_QUEUE, &u), -EINVAL);
	/* 0 percent stops the queue, 100 percent starts it again. */
	u.ring_size = q.args.ring_size;
	u.queue_percentage = 0;
	EXPECT_RC(call_ioctl(a.kfd, AMDKFD_IOC_UPDATE_QUEUE, &u), 0);
	queue_push(&q, 8);
	EXPECT(queue_quiet(&q, 300), "a queue of 0 percent runs");
	u.queue_percentage = 100;
	EXPECT_RC(call_ioctl(a.kfd, AMDKFD_IOC_UPDATE_QUEUE, &u), 0);
	EXPECT(queue_wait(&q, 5000), "a queue back at 100 percent does not run");
	queue_del(&a, &q);
}

static void t_cu_mask(void)
{
	struct app a;
	struct queue q;
	u32 mask[32];
	struct kfd_ioctl_set_cu_mask_args m = { .cu_mask_ptr = PTR(mask) };

	memset(mask, 0xff, sizeof(mask));
	app_start(&a);
	queue_new(&a, 0, AQL, &q);
	m.queue_id = q.args.queue_id;
	EXPECT_RC(call_ioctl(a.kfd, AMDKFD_IOC_SET_CU_MASK, &m), -EINVAL);
	m.num_cu_mask = 33;
	EXPECT_RC(call_ioctl(a.kfd, AMDKFD_IOC_SET_CU_MASK, &m), -EINVAL);
	m.num_cu_mask = 32;
	EXPECT_RC(call_ioctl(a.kfd, AMDKFD_IOC_SET_CU_MASK, &m), 0);
	queue_del(&a, &q);
}

static void t_xnack_busy(void)
{
	struct app a;
	struct queue q;
	struct kfd_ioctl_set_xnack_mode_args x = { .xnack_enabled = -1 };

	app_start(&a);
	EXPECT_RC(call_ioctl(a.kfd, AMDKFD_IOC_SET_XNACK_MODE, &x), 0);
	EXPECT(x.xnack_enabled == 0 || x.xnack_enabled == 1, "XNACK query gives %d", x.xnack_enabled);
	EXPECT_RC(call_ioctl(a.kfd, AMDKFD_IOC_SET_XNACK_MODE, &x), 0);
	queue_new(&a, 0, SDMA, &q);
	EXPECT_RC(call_ioctl(a.kfd, AMDKFD_IOC_SET_XNACK_MODE, &x), -EBUSY);
	x.xnack_enabled = -1;
	EXPECT_RC(call_ioctl(a.kfd, AMDKFD_IOC_SET_XNACK_MODE, &x), 0);
	queue_del(&a, &q);
}

static void t_no_vm(void)
{
	struct app a;
	struct queue q = { .type = SDMA };

	a.kfd = kfd_open();
	q.args.ring_base_address = PTR(anon(PAGE));
	q.args.ring_size = PAGE;
	q.args.read_pointer_address = PTR(anon(PAGE));
	q.args.write_pointer_address = PTR(anon(PAGE));
	q.args.queue_type = SDMA;
	q.args.queue_percentage = 100;
	q.args.gpu_id = gpus[0].id;
	EXPECT_RC(queue_create(&a, &q), -ESRCH);
}

static void t_stops_when_destroyed(void)
{
	struct app a;
	struct queue q;

	app_start(&a);
	queue_new(&a, 0, SDMA, &q);
	NEED_OK(queue_destroy(&a, q.args.queue_id));
	q.doorbell = NULL;
	queue_push(&q, 8);
	EXPECT(queue_quiet(&q, 300), "a destroyed queue runs");
	EXPECT_RC(queue_destroy(&a, q.args.queue_id), -EINVAL);
}

static void t_wave_state(void)
{
	struct app a;
	struct queue q;
	struct kfd_ioctl_get_queue_wave_state_args s = { 0 };

	app_start(&a);
	queue_new(&a, 0, AQL, &q);
	s.queue_id = q.args.queue_id;
	s.ctl_stack_address = PTR(anon(1 << 20));
	EXPECT(call_ioctl(a.kfd, AMDKFD_IOC_GET_QUEUE_WAVE_STATE, &s) < 0,
	       "GET_QUEUE_WAVE_STATE of an active queue: expected an error");
	s.queue_id = 777;
	EXPECT(call_ioctl(a.kfd, AMDKFD_IOC_GET_QUEUE_WAVE_STATE, &s) < 0,
	       "GET_QUEUE_WAVE_STATE of an unknown queue: expected an error");
	queue_del(&a, &q);
}

const struct test tests_queues[] = {
	{ "kfd/queues/types", 1, t_types },
	{ "kfd/queues/xgmi", 1, t_xgmi },
	{ "kfd/queues/size_88", 1, t_size_88 },
	{ "kfd/queues/runs_sdma", 1, t_runs_sdma },
	{ "kfd/queues/runs_aql", 1, t_runs_aql },
	{ "kfd/queues/wraps", 1, t_wraps },
	{ "kfd/queues/without_doorbell", 1, t_without_doorbell },
	{ "kfd/queues/doorbells_many", 1, t_doorbells_many },
	{ "kfd/queues/sdma_numbers", 1, t_sdma_numbers },
	{ "kfd/queues/unknown_id", 1, t_unknown_id },
	{ "kfd/queues/update", 1, t_update },
	{ "kfd/queues/cu_mask", 1, t_cu_mask },
	{ "kfd/queues/xnack_busy", 1, t_xnack_busy },
	{ "kfd/queues/no_vm", 1, t_no_vm },
	{ "kfd/queues/stops_when_destroyed", 1, t_stops_when_destroyed },
	{ "kfd/queues/wave_state", 1, t_wave_state },
	{ NULL, 0, NULL },
};
