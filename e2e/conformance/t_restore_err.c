// SPDX-License-Identifier: Apache-2.0
/* RESTORE's errors: each change of a good image is tried in a process of its own. */
#include "conformance.h"

#include <signal.h>

#define BAD_ID 0xfff1u
#define NOWHERE 0x123456000ull	/* a user address without a BO */

struct change {
	const char *what;
	void (*fn)(struct world *w, struct kfd_ioctl_criu_args *a);
	long want;
};

static struct criu_object *objects(struct world *w, int *n)
{
	static struct criu_object o[16];

	*n = criu_objects(&w->im, o, 16);
	NEED(*n > 0, "the image's private data do not add up");
	return o;
}

/* The record of the SDMA queue (true) or of the AQL queue. */
static u8 *queue_rec(struct world *w, bool sdma)
{
	int n;
	struct criu_object *o = objects(w, &n);
	u32 id = sdma ? w->sdma.args.queue_id : w->aql.args.queue_id;

	for (int i = 0; i < n; i++)
		if (o[i].type == 0 && rd32(o[i].rec, 76) == id)
			return o[i].rec;
	report(__FILE__, __LINE__, true, "no record of queue %u", id);
	return NULL;
}

static struct kfd_criu_bo_bucket *bucket(struct world *w, u64 va)
{
	for (u32 i = 0; i < w->im.nbo; i++)
		if (w->im.bo[i].addr == va)
			return &w->im.bo[i];
	report(__FILE__, __LINE__, true, "no bucket");
	return NULL;
}

#define CHANGE(name, body) \
	static void name(struct world *w, struct kfd_ioctl_criu_args *a) { (void)w; (void)a; body; }

CHANGE(c_devices_null, a->devices = 0)
CHANGE(c_priv_null, a->priv_data = 0)
CHANGE(c_priv_size_0, a->priv_data_size = 0)
CHANGE(c_num_devices_0, a->num_devices = 0)
CHANGE(c_bos_null, a->bos = 0)
CHANGE(c_version, wr32(w->im.priv, 0, 2))
CHANGE(c_version_0, wr32(w->im.priv, 0, 0))
CHANGE(c_devices_more, a->num_devices++)
CHANGE(c_devices_fewer, a->num_devices--)
CHANGE(c_priv_short, a->priv_data_size -= 8)
CHANGE(c_priv_short_page, a->priv_data_size = 20)
CHANGE(c_priv_long, a->priv_data_size += 8)
CHANGE(c_objects_more, a->num_objects++)
CHANGE(c_objects_fewer, a->num_objects--)
CHANGE(c_bos_fewer, a->num_bos--)

CHANGE(c_user_0, w->im.dev[0].user_gpu_id = 0)
CHANGE(c_actual_unknown, w->im.dev[0].actual_gpu_id = BAD_ID)
CHANGE(c_fd_closed, w->im.dev[0].drm_fd = 900)
CHANGE(c_fd_null, w->im.dev[0].drm_fd = (u32)open("/dev/null", O_RDWR))
CHANGE(c_fd_kfd, w->im.dev[0].drm_fd = (u32)w->app.kfd)
CHANGE(c_vm_acquired, NEED_OK(kfd_acquire(w->app.kfd, render_open(0), gpus[0].id)))
CHANGE(c_vm_acquired_same, NEED_OK(kfd_acquire(w->app.kfd, w->app.drm[0], gpus[0].id)))
CHANGE(c_fd_used, w->im.dev[0].drm_fd = (u32)w->arg)

CHANGE(c_bo_gpu, w->im.bo[0].gpu_id = BAD_ID)
CHANGE(c_bo_handle, wr32(criu_bo_priv(&w->im, 0), 8, 0x80000000))
CHANGE(c_bo_huge, bucket(w, w->vram[0].va)->size = 1ull << 46)
CHANGE(c_bo_mapped, wr32(criu_bo_priv(&w->im, 0), 12, BAD_ID))
CHANGE(c_doorbell_size, bucket(w, w->doorbell.va)->size *= 2)
CHANGE(c_mmio_size, bucket(w, w->mmio.va)->size *= 2)

CHANGE(c_obj_type, wr32(queue_rec(w, true), 0, 3))
CHANGE(c_mqd_size, u8 *r = queue_rec(w, true); wr32(r, 112, rd32(r, 112) - 8); wr32(r, 108, rd32(r, 108) + 8))
CHANGE(c_queue_gpu, wr32(queue_rec(w, true), 64, BAD_ID))
CHANGE(c_queue_ring, wr64(queue_rec(w, true), 8, NOWHERE))
CHANGE(c_queue_rptr, wr64(queue_rec(w, true), 24, NOWHERE))
CHANGE(c_queue_wptr, wr64(queue_rec(w, false), 32, NOWHERE))
CHANGE(c_queue_size, u8 *r = queue_rec(w, true); wr64(r, 16, rd64(r, 16) * 2))
CHANGE(c_queue_eop, wr64(queue_rec(w, false), 48, NOWHERE))
CHANGE(c_sdma_id, wr32(queue_rec(w, true), 96, 100000))
CHANGE(c_sdma_doorbell, u8 *r = queue_rec(w, true); wr32(r, 88, rd32(r, 88) + 1))

/* Appends a copy of the AQL queue's record, with another id. */
static void duplicate(struct world *w, struct kfd_ioctl_criu_args *a, u32 id)
{
	u8 *r = queue_rec(w, false), *end = w->im.priv + w->im.priv_size;
	size_t size = 120 + (size_t)rd32(r, 108) + rd32(r, 112);

	NEED(w->im.priv_size + size <= sizeof(w->im.priv), "no room for another record");
	memcpy(end, r, size);
	wr32(end, 76, id);
	a->num_objects++;
	a->priv_data_size += size;
}

CHANGE(c_queue_id_taken, duplicate(w, a, w->aql.args.queue_id))
CHANGE(c_doorbell_taken, duplicate(w, a, 200))

static void run_changes(struct world *w, const struct change *c, size_t n)
{
	char a[32], b[32];

	for (size_t i = 0; i < n; i++) {
		struct world *t = world_copy(w);
		struct peer p;
		long rc;

		t->tweak = c[i].fn;
		peer_start(&p);
		rc = peer_call(&p, world_restore, t);
		if (rc != c[i].want)
			report(__FILE__, __LINE__, false, "RESTORE with %s: expected %s, got %s", c[i].what,
			       rcname(c[i].want, a), rcname(rc, b));
		peer_kill(&p);
		wait_owner_gone(p.pid);
		munmap(t, ROUND_UP(sizeof(*t), PAGE));
	}
}

static struct world *image_of(bool queues, bool events, bool special)
{
	struct peer p;
	int kfd;
	struct world *w = world_start(&p, queues, events, special, &kfd);

	world_dump(w, &p, kfd);
	close(kfd);
	peer_kill(&p);
	wait_owner_gone(p.pid);
	return w;
}

/* The unchanged image must restore, or the errors mean nothing. */
static void expect_good(struct world *w)
{
	struct world *t = world_copy(w);
	struct peer p;

	peer_start(&p);
	EXPECT_RC(peer_call(&p, world_restore, t), 0);
	peer_kill(&p);
	wait_owner_gone(p.pid);
}

static void t_arguments(void)
{
	static const struct change c[] = {
		{ "devices NULL", c_devices_null, -EINVAL }, { "priv_data NULL", c_priv_null, -EINVAL },
		{ "priv_data_size 0", c_priv_size_0, -EINVAL }, { "num_devices 0", c_num_devices_0, -EINVAL },
		{ "bos NULL", c_bos_null, -EINVAL }, { "version 2", c_version, -EINVAL },
		{ "version 0", c_version_0, -EINVAL }, { "one device more", c_devices_more, -EINVAL },
		{ "one device fewer", c_devices_fewer, -EINVAL }, { "data 8 bytes short", c_priv_short, -EINVAL },
		{ "data of 20 bytes", c_priv_short_page, -EINVAL }, { "8 bytes left over", c_priv_long, -EINVAL },
		{ "one object more", c_objects_more, -EINVAL }, { "one object fewer", c_objects_fewer, -EINVAL },
		{ "one BO fewer", c_bos_fewer, -EINVAL },
	};
	struct world *w = image_of(false, true, false);

	run_changes(w, c, ARRAY_SIZE(c));
	expect_good(w);
}

static void t_devices(void)
{
	static const struct change c[] = {
		{ "user id 0", c_user_0, -EINVAL }, { "unknown actual id", c_actual_unknown, -EINVAL },
		{ "a closed drm_fd", c_fd_closed, -EINVAL }, { "drm_fd of /dev/null", c_fd_null, -EINVAL },
		{ "drm_fd of /dev/kfd", c_fd_kfd, -EINVAL }, { "a VM acquired before", c_vm_acquired, -EINVAL },
		{ "its VM acquired before", c_vm_acquired_same, -EINVAL },
	};
	struct world *w = image_of(false, false, false);

	run_changes(w, c, ARRAY_SIZE(c));
	expect_good(w);
}

/* The render file is the compute VM of another, living process. */
static long acquire_inherited(void *arg)
{
	struct world *w = arg;

	return kfd_acquire(kfd_open(), (int)w->arg, gpus[0].id);
}

static void t_file_used(void)
{
	static const struct change c[] = { { "a drm_fd whose VM another process uses", c_fd_used, -EINVAL } };
	struct world *w = image_of(false, false, false);
	struct peer owner;

	w->arg = (u64)render_open(0);
	peer_start(&owner);
	NEED_OK(peer_call(&owner, acquire_inherited, w));
	run_changes(w, c, 1);
	peer_kill(&owner);
}

static void t_bos(void)
{
	static const struct change c[] = {
		{ "a BO of no user id", c_bo_gpu, -ENODEV }, { "a handle above INT_MAX", c_bo_handle, -EINVAL },
		{ "a BO of 64 TiB", c_bo_huge, -ENOMEM }, { "an unknown mapped id", c_bo_mapped, -EINVAL },
		{ "a doorbell BO of twice the size", c_doorbell_size, -EINVAL },
		{ "an MMIO BO of two pages", c_mmio_size, -EINVAL },
	};
	struct world *w = image_of(false, false, true);

	run_changes(w, c, ARRAY_SIZE(c));
	expect_good(w);
}

static void t_objects(void)
{
	static const struct change c[] = {
		{ "an object of type 3", c_obj_type, -EINVAL }, { "another MQD size", c_mqd_size, -EINVAL },
		{ "a queue of an unknown GPU", c_queue_gpu, -EINVAL },
		{ "a queue whose SDMA number is out of range", c_sdma_id, -EINVAL },
		{ "an SDMA queue with another doorbell id", c_sdma_doorbell, -EINVAL },
		{ "two queues of one id", c_queue_id_taken, -ENOSPC },
		{ "two queues of one doorbell id", c_doorbell_taken, -EINVAL },
		{ "no errors", NULL, 0 },
	};

	run_changes(image_of(true, false, false), c, ARRAY_SIZE(c));
}

static void t_queue_buffers(void)
{
	static const struct change c[] = {
		{ "a ring that is no BO", c_queue_ring, -EINVAL }, { "a read pointer in no BO", c_queue_rptr, -EINVAL },
		{ "a write pointer in no BO", c_queue_wptr, -EINVAL }, { "another ring size", c_queue_size, -EINVAL },
		{ "an EOP buffer in no BO", c_queue_eop, -EINVAL },
	};
	u32 minor = kfd_minor();

	if (minor < 17)
		skip("interface 1.%u does not check queue buffers", minor);
	run_changes(image_of(true, false, false), c, ARRAY_SIZE(c));
}

/* The dumped process still lives: its SDMA number is taken on the device. */
static void t_sdma_busy(void)
{
	static const struct change c[] = { { "the owner of the SDMA number alive", NULL, -EBUSY } };
	static const struct change free_now[] = { { "the owner gone", NULL, 0 } };
	struct peer p;
	int kfd;
	struct world *w = world_start(&p, true, false, false, &kfd);

	world_dump(w, &p, kfd);
	run_changes(w, c, 1);
	close(kfd);
	peer_kill(&p);
	wait_owner_gone(p.pid);
	run_changes(w, free_now, 1);
}

static long restore_again(void *arg)
{
	struct world *w = arg;
	struct kfd_ioctl_criu_args a;

	criu_args(&w->im, &a);
	return criu_op(w->app.kfd, KFD_CRIU_OP_RESTORE, &a);
}

static void t_twice(void)
{
	struct world *w = image_of(false, true, false), *t = world_copy(w);
	struct peer p;

	peer_start(&p);
	NEED_OK(peer_call(&p, world_restore, t));
	EXPECT_RC(peer_call(&p, restore_again, t), -EINVAL);
	peer_kill(&p);
	/* A failed one cannot be repeated either. */
	wait_owner_gone(p.pid);
	t = world_copy(w);
	t->tweak = c_objects_more;
	peer_start(&p);
	EXPECT_RC(peer_call(&p, world_restore, t), -EINVAL);
	EXPECT_RC(peer_call(&p, restore_again, t), -EINVAL);
	peer_kill(&p);
}

static void c_xnack_fn(struct world *w, struct kfd_ioctl_criu_args *a)
{
	(void)a;
	wr32(w->im.priv, 4, 1);
}

static void t_xnack(void)
{
	struct world *w = image_of(false, false, false);
	struct peer p;
	long rc;

	w->tweak = c_xnack_fn;
	peer_start(&p);
	rc = peer_call(&p, world_restore, w);
	EXPECT(rc == 0 || rc == -EPERM, "RESTORE with XNACK wanted: expected 0 or -EPERM, got %ld", rc);
	info("RESTORE with XNACK wanted: %ld", rc);
	peer_kill(&p);
}

/* What failed half-way is freed with the process. */
static void t_partial_frees(void)
{
	static const struct change c[] = { { "one object more", c_objects_more, -EINVAL } };
	struct world *w = image_of(false, true, false);
	struct app mine;
	u64 before, end;

	app_start(&mine);
	before = kfd_avail_settled(mine.kfd, 0);
	for (int i = 0; i < 5; i++)
		run_changes(w, c, 1);
	end = now_ms() + 5000;
	while (kfd_avail(mine.kfd, 0) < before && now_ms() < end)
		sleep_ms(10);
	EXPECT_EQ(kfd_avail(mine.kfd, 0), before);
}

static void t_no_capability(void)
{
	struct app a;
	struct kfd_ioctl_criu_args c = { .op = KFD_CRIU_OP_RESTORE };

	a.kfd = kfd_open();
	NEED_OK(drop_caps(0));
	EXPECT_RC(criu_op(a.kfd, KFD_CRIU_OP_RESTORE, &c), -EACCES);
	EXPECT_RC(criu_resume(a.kfd, getpid()), -EACCES);
}

const struct test tests_restore_err[] = {
	{ "kfd/restore_errors/arguments", 1, t_arguments },
	{ "kfd/restore_errors/devices", 1, t_devices },
	{ "kfd/restore_errors/file_used", 1, t_file_used },
	{ "kfd/restore_errors/bos", 1, t_bos },
	{ "kfd/restore_errors/objects", 1, t_objects },
	{ "kfd/restore_errors/queue_buffers", 1, t_queue_buffers },
	{ "kfd/restore_errors/sdma_busy", 1, t_sdma_busy },
	{ "kfd/restore_errors/twice", 1, t_twice },
	{ "kfd/restore_errors/xnack", 1, t_xnack },
	{ "kfd/restore_errors/partial_frees", 1, t_partial_frees },
	{ "kfd/restore_errors/no_capability", 1, t_no_capability },
	{ NULL, 0, NULL },
};
