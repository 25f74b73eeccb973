// SPDX-License-Identifier: Apache-2.0
/* CREATE_QUEUE: every argument and buffer check. */
#include "conformance.h"

#define SDMA KFD_IOC_QUEUE_TYPE_SDMA
#define AQL KFD_IOC_QUEUE_TYPE_COMPUTE_AQL
#define KERNEL_ADDR 0xffff888000000000ull

/* Tries q with one argument changed and puts it back. */
#define TRY(field, value, want) do { \
	typeof(q.args.field) keep = q.args.field; \
	q.args.field = (value); \
	check_rc(__FILE__, __LINE__, false, "CREATE_QUEUE with " #field " = " #value, queue_create(&a, &q), (want)); \
	q.args.field = keep; \
} while (0)

/* The checks of buffers came with the kernel whose interface is 1.17. */
static void need_checks(void)
{
	u32 minor = kfd_minor();

	if (minor < 17)
		skip("interface 1.%u does not check queue buffers", minor);
}

static void t_arguments(void)
{
	struct app a;
	struct queue q;

	app_start(&a);
	queue_buffers(&a, 0, AQL, &q);
	TRY(queue_percentage, 101, -EINVAL);
	TRY(queue_percentage, 255, -EINVAL);
	TRY(queue_priority, 16, -EINVAL);
	TRY(ring_size, 3000, -EINVAL);
	TRY(ring_size, 4097, -EINVAL);
	TRY(queue_type, 5, -K_ENOTSUPP);
	TRY(queue_type, 99, -K_ENOTSUPP);
	TRY(gpu_id, 1, -EINVAL);
	TRY(gpu_id, 0, -EINVAL);
	TRY(ring_base_address, KERNEL_ADDR, -EFAULT);
	TRY(read_pointer_address, KERNEL_ADDR, -EFAULT);
	TRY(write_pointer_address, KERNEL_ADDR, -EFAULT);
	TRY(eop_buffer_address, KERNEL_ADDR, -EFAULT);
	TRY(ctx_save_restore_address, KERNEL_ADDR, -EFAULT);
	EXPECT_RC(queue_create(&a, &q), 0);
}

static void t_ring(void)
{
	struct app a;
	struct queue q;

	need_checks();
	app_start(&a);
	queue_buffers(&a, 0, SDMA, &q);
	TRY(ring_size, (u32)q.ring.size / 2, -EINVAL);
	TRY(ring_size, (u32)q.ring.size * 2, -EINVAL);
	TRY(ring_base_address, q.ring.va + PAGE, -EINVAL);
	TRY(ring_base_address, PTR(anon(q.ring.size)), -EINVAL);
	EXPECT_RC(queue_create(&a, &q), 0);
}

/* A ring of less than 1024 bytes counts as 1024, so its mapping, a page, does not fit. */
static void t_ring_small(void)
{
	struct app a;
	struct queue q;
	struct bo page;

	app_start(&a);
	queue_buffers(&a, 0, SDMA, &q);
	page = bo_new(&a, 0, PAGE, F_GTT);
	q.args.ring_base_address = page.va;
	q.args.ring_size = 512;
	info("ring of 512 bytes in a mapping of a page: %ld", queue_create(&a, &q));
}

static void t_ring_aql(void)
{
	struct app a;
	struct queue q;

	need_checks();
	app_start(&a);
	queue_buffers(&a, 0, AQL, &q);
	TRY(ring_size, (u32)q.ring.size / 2, -EINVAL);
	TRY(ring_size, (u32)q.ring.size * 2, -EINVAL);
	EXPECT_RC(queue_create(&a, &q), 0);
}

static void t_pointers(void)
{
	struct app a;
	struct queue q;
	struct bo two;

	need_checks();
	app_start(&a);
	queue_buffers(&a, 0, SDMA, &q);
	two = bo_new(&a, 0, 2 * PAGE, F_GTT);
	TRY(read_pointer_address, two.va, -EINVAL);
	TRY(write_pointer_address, two.va, -EINVAL);
	TRY(read_pointer_address, two.va + PAGE, -EINVAL);
	TRY(read_pointer_address, PTR(anon(PAGE)), -EINVAL);
	TRY(write_pointer_address, PTR(anon(PAGE)), -EINVAL);
	/* Anywhere inside a mapping of one page is fine, both in one page too. */
	TRY(read_pointer_address, q.wptr.va + 0x80, 0);
}

static void t_compute_buffers(void)
{
	struct app a;
	struct queue q;
	struct bo two, cwsr;

	need_checks();
	app_start(&a);
	queue_buffers(&a, 0, AQL, &q);
	if (!q.cwsr.size)
		skip("GPU 0 has no CWSR size in its properties");
	two = bo_new(&a, 0, 2 * PAGE, F_VRAM);
	TRY(eop_buffer_address, two.va, -EINVAL);
	TRY(eop_buffer_address, PTR(anon(PAGE)), -EINVAL);
	TRY(eop_buffer_size, 2048, -EINVAL);
	TRY(ctl_stack_size, q.args.ctl_stack_size + 4096, -EINVAL);
	TRY(ctl_stack_size, q.args.ctl_stack_size - 4096, -EINVAL);
	TRY(ctx_save_restore_size, q.args.ctx_save_restore_size - 4096, -EINVAL);
	TRY(ctx_save_restore_address, two.va, -EINVAL);
	TRY(ctx_save_restore_address, q.cwsr.va + PAGE, -EINVAL);
	TRY(ctx_save_restore_address, PTR(reserve(q.cwsr.size)), -EINVAL);
	cwsr = bo_new(&a, 0, q.cwsr.size + PAGE, KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE);
	TRY(ctx_save_restore_address, cwsr.va, -EINVAL);
	EXPECT_RC(queue_create(&a, &q), 0);
}

/* Without the buffers of a compute queue an SDMA queue is complete. */
static void t_sdma_needs_no_more(void)
{
	struct app a;
	struct queue q;

	app_start(&a);
	queue_buffers(&a, 0, SDMA, &q);
	EXPECT_EQ(q.args.eop_buffer_address, 0);
	EXPECT_RC(queue_create(&a, &q), 0);
}

/* The buffers must be mapped on the queue's own GPU. */
static void t_other_gpu(void)
{
	struct app a;
	struct queue q;

	need_checks();
	app_start(&a);
	queue_buffers(&a, 0, SDMA, &q);
	TRY(gpu_id, gpus[1].id, -EINVAL);
	EXPECT_RC(queue_create(&a, &q), 0);
}

static void t_unmap_used(void)
{
	struct app a;
	struct queue q;

	need_checks();
	app_start(&a);
	queue_new(&a, 0, AQL, &q);
	EXPECT_RC(kfd_unmap(a.kfd, q.ring.handle, &gpus[0].id, 1, NULL), -EBUSY);
	EXPECT_RC(kfd_unmap(a.kfd, q.rptr.handle, &gpus[0].id, 1, NULL), -EBUSY);
	EXPECT_RC(kfd_unmap(a.kfd, q.wptr.handle, &gpus[0].id, 1, NULL), -EBUSY);
	EXPECT_RC(kfd_unmap(a.kfd, q.eop.handle, &gpus[0].id, 1, NULL), -EBUSY);
	if (q.cwsr.handle)
		EXPECT_RC(kfd_unmap(a.kfd, q.cwsr.handle, &gpus[0].id, 1, NULL), -EBUSY);
	queue_push(&q, 4);
	EXPECT(queue_wait(&q, 5000), "the queue stopped after a refused UNMAP");
	queue_del(&a, &q);
}

/* A refused queue leaves nothing behind: its buffers can be unmapped and freed. */
static void t_refused_leaves_nothing(void)
{
	struct app a;
	struct queue q;
	u32 size;

	need_checks();
	app_start(&a);
	queue_buffers(&a, 0, SDMA, &q);
	size = q.args.ring_size;
	q.args.read_pointer_address = PTR(anon(PAGE));
	for (int i = 0; i < 100; i++)
		EXPECT_RC(queue_create(&a, &q), -EINVAL);
	q.args.read_pointer_address = q.rptr.va;
	q.args.ring_size = size;
	NEED_OK(queue_create(&a, &q));
	NEED_OK(queue_destroy(&a, q.args.queue_id));
	bo_del(&a, &q.ring);
	bo_del(&a, &q.rptr);
	bo_del(&a, &q.wptr);
}

/* Ring and pointers in host memory that the GPU reaches as userptr BOs, as real runtimes have them. */
static void t_userptr_ring(void)
{
	struct app a;
	struct queue q;
	struct bo ring;

	app_start(&a);
	queue_buffers(&a, 0, SDMA, &q);
	ring = bo_new(&a, 0, q.ring.size, F_USERPTR);
	memset(ring.cpu, 0, ring.size);
	q.ring = ring;
	q.args.ring_base_address = ring.va;
	NEED_OK(queue_create(&a, &q));
	queue_push(&q, 8);
	EXPECT(queue_wait(&q, 5000), "a queue with a userptr ring does not run");
	NEED_OK(queue_destroy(&a, q.args.queue_id));
}

const struct test tests_qcheck[] = {
	{ "kfd/queue_checks/arguments", 1, t_arguments },
	{ "kfd/queue_checks/ring", 1, t_ring },
	{ "kfd/queue_checks/ring_small", 1, t_ring_small },
	{ "kfd/queue_checks/ring_aql", 1, t_ring_aql },
	{ "kfd/queue_checks/pointers", 1, t_pointers },
	{ "kfd/queue_checks/compute_buffers", 1, t_compute_buffers },
	{ "kfd/queue_checks/sdma_needs_no_more", 1, t_sdma_needs_no_more },
	{ "kfd/queue_checks/other_gpu", 2, t_other_gpu },
	{ "kfd/queue_checks/unmap_used", 1, t_unmap_used },
	{ "kfd/queue_checks/refused_leaves_nothing", 1, t_refused_leaves_nothing },
	{ "kfd/queue_checks/userptr_ring", 1, t_userptr_ring },
	{ NULL, 0, NULL },
};
