// SPDX-License-Identifier: Apache-2.0
/* mmap of /dev/kfd by type, size and GPU, and of KFD BOs through render nodes. */
#include "conformance.h"

static long try_map(int fd, size_t len, u64 off)
{
	long err;
	void *p = map_fd(fd, len, PROT_READ | PROT_WRITE, off, &err);

	if (p)
		munmap(p, len);
	return err;
}

static void t_doorbell(void)
{
	struct app a;
	size_t slice = doorbell_slice(0);
	u64 off = KFD_OFF(3, gpus[0].id);

	app_start(&a);
	EXPECT_RC(try_map(a.kfd, slice, off), 0);
	EXPECT_RC(try_map(a.kfd, slice, off + PAGE * 4), 0);	/* the rest of the offset is ignored */
	EXPECT_RC(try_map(a.kfd, slice * 2, off), -EINVAL);
	if (slice > PAGE)
		EXPECT_RC(try_map(a.kfd, PAGE, off), -EINVAL);
	EXPECT_RC(try_map(a.kfd, slice, KFD_OFF(3, 1)), -ENODEV);
	EXPECT_RC(try_map(a.kfd, slice, KFD_OFF(3, 0)), -ENODEV);
}

static void t_mmio(void)
{
	struct app a;

	app_start(&a);
	EXPECT_RC(try_map(a.kfd, PAGE, KFD_OFF(0, gpus[0].id)), 0);
	EXPECT_RC(try_map(a.kfd, 2 * PAGE, KFD_OFF(0, gpus[0].id)), -EINVAL);
	EXPECT_RC(try_map(a.kfd, PAGE, KFD_OFF(0, 1)), -ENODEV);
	EXPECT_RC(try_map(a.kfd, PAGE, 0), -ENODEV);
	EXPECT_RC(try_map(a.kfd, PAGE, KFD_OFF(1, 1)), -ENODEV);
}

static void t_events(void)
{
	struct app a;
	struct kfd_ioctl_create_event_args ev;
	u64 *slots;
	long err;

	app_start(&a);
	EXPECT_RC(try_map(a.kfd, 8 * PAGE, KFD_OFF(2, 0)), -EINVAL);
	NEED_OK(kfd_event(a.kfd, KFD_IOC_EVENT_SIGNAL, false, 0, &ev));
	EXPECT_RC(try_map(a.kfd, 16 * PAGE, KFD_OFF(2, 0)), -EINVAL);
	slots = map_fd(a.kfd, 8 * PAGE, PROT_READ | PROT_WRITE, ev.event_page_offset, &err);
	NEED(slots, "mmap of the event page: errno %ld", -err);
	for (int i = 0; i < 4096; i++)
		if (slots[i] != ~0ull) {
			EXPECT(false, "slot %d of a new event page is %#llx", i, (unsigned long long)slots[i]);
			break;
		}
}

static void t_other_process(void)
{
	struct app a;
	size_t slice = doorbell_slice(0);
	pid_t pid;

	app_start(&a);
	pid = fork_child();
	if (!pid) {
		struct app own;

		/* The current process counts, not the file's: first it has no object, then an object of its own. */
		EXPECT(try_map(a.kfd, slice, KFD_OFF(3, gpus[0].id)) < 0,
		       "mmap of an inherited kfd without an own object: expected an error");
		EXPECT(try_map(a.kfd, PAGE, KFD_OFF(0, gpus[0].id)) < 0,
		       "mmap (MMIO) of an inherited kfd without an own object: expected an error");
		app_start(&own);
		EXPECT_RC(try_map(a.kfd, slice, KFD_OFF(3, gpus[0].id)), 0);
		_exit(0);
	}
	EXPECT_EQ(child_status(pid), 0);
}

static void expect_flags(const void *p, const char *what, const char *list)
{
	char flags[256], two[3];

	NEED(vma_flags(p, flags, sizeof(flags)), "no VmFlags of the %s mapping", what);
	for (const char *s = list; *s; s += 2 + (s[2] == ' ')) {
		snprintf(two, sizeof(two), "%.2s", s);
		EXPECT(has_flag(flags, two), "%s mapping lacks VM flag %s (has%s)", what, two, flags);
	}
}

static void t_vma_flags(void)
{
	struct app a;
	struct bo v, t;
	long err;
	void *p;
	char flags[256];

	app_start(&a);
	p = map_fd(a.kfd, doorbell_slice(0), PROT_READ | PROT_WRITE, KFD_OFF(3, gpus[0].id), &err);
	NEED(p, "doorbell mmap: errno %ld", -err);
	expect_flags(p, "doorbell", "pf io dc de nr dd");
	p = map_fd(a.kfd, PAGE, PROT_READ | PROT_WRITE, KFD_OFF(0, gpus[0].id), &err);
	NEED(p, "MMIO mmap: errno %ld", -err);
	expect_flags(p, "MMIO", "pf io dc de nr dd");
	v = bo_new(&a, 0, PAGE, F_VRAM);
	t = bo_new(&a, 0, PAGE, F_GTT);
	expect_flags(v.cpu, "VRAM", "pf io de dd");
	expect_flags(t.cpu, "GTT", "pf io de dd");
	NEED(vma_flags(v.cpu, flags, sizeof(flags)), "VmFlags");
	EXPECT(!has_flag(flags, "dc"), "VRAM mapping has dc by itself");
	NEED(!madvise(v.cpu, PAGE, MADV_DONTFORK), "madvise: errno %d", errno);
	expect_flags(v.cpu, "VRAM after MADV_DONTFORK", "pf io de dd dc");
}

static void t_dontcopy(void)
{
	struct app a;
	long err;
	void *p;
	pid_t pid;

	app_start(&a);
	p = map_fd(a.kfd, doorbell_slice(0), PROT_READ | PROT_WRITE, KFD_OFF(3, gpus[0].id), &err);
	NEED(p, "doorbell mmap: errno %ld", -err);
	pid = fork_child();
	if (!pid) {
		char flags[256];

		EXPECT(!vma_flags(p, flags, sizeof(flags)), "a child inherits the doorbell mapping");
		_exit(0);
	}
	EXPECT_EQ(child_status(pid), 0);
	EXPECT(mremap(p, doorbell_slice(0), doorbell_slice(0) * 2, MREMAP_MAYMOVE) == MAP_FAILED,
	       "a doorbell mapping can grow");
}

static void t_doorbell_pages(void)
{
	struct app a;
	size_t slice = doorbell_slice(0);
	volatile u32 *p, *q;
	long err;

	app_start(&a);
	p = map_fd(a.kfd, slice, PROT_READ | PROT_WRITE, KFD_OFF(3, gpus[0].id), &err);
	NEED(p, "doorbell mmap: errno %ld", -err);
	p[slice / 4 - 1] = 5;
	q = map_fd(a.kfd, slice, PROT_READ | PROT_WRITE, KFD_OFF(3, gpus[0].id), &err);
	EXPECT(q, "second doorbell mmap: errno %ld", -err);
	if (q)
		info("a store to one doorbell mapping is %sseen in a second one", q[slice / 4 - 1] == 5 ? "" : "not ");
}

static void t_render_rules(void)
{
	struct app a;
	struct bo b, g;
	int other;

	app_start(&a);
	b = bo_new(&a, 0, 4 * PAGE, F_VRAM);
	g = bo_new(&a, 0, 4 * PAGE, F_GTT);
	other = render_open(0);
	EXPECT_RC(try_map(other, PAGE, b.off), -EACCES);
	EXPECT_RC(try_map(other, PAGE, g.off), -EACCES);
	EXPECT_RC(try_map(dup(a.drm[0]), PAGE, b.off), 0);
	EXPECT_RC(try_map(a.drm[0], PAGE, b.off), 0);
	EXPECT_RC(try_map(a.drm[0], 4 * PAGE, b.off), 0);
	EXPECT_RC(try_map(a.drm[0], 5 * PAGE, b.off), -EINVAL);
	EXPECT_RC(try_map(a.drm[0], PAGE, b.off + PAGE), -EINVAL);
}

static void t_render_private_none(void)
{
	struct app a;
	struct bo b;
	void *p;

	app_start(&a);
	b = bo_new(&a, 0, 4 * PAGE, F_VRAM);
	p = mmap(NULL, 4 * PAGE, PROT_NONE, MAP_PRIVATE, a.drm[0], (off_t)b.off);
	EXPECT(p != MAP_FAILED, "private PROT_NONE mapping of a BO: errno %d", errno);
	p = mmap(NULL, 4 * PAGE, PROT_NONE, MAP_SHARED, a.drm[0], (off_t)b.off);
	EXPECT(p != MAP_FAILED, "shared PROT_NONE mapping of a BO: errno %d", errno);
}

static void t_freed_mapping(void)
{
	struct app a;
	struct bo b;
	u64 off;

	app_start(&a);
	b = bo_new(&a, 0, PAGE, F_VRAM);
	off = b.off;
	bo_del(&a, &b);
	EXPECT_RC(try_map(a.drm[0], PAGE, off), -EINVAL);
}

const struct test tests_mmap[] = {
	{ "kfd/mmap/doorbell", 1, t_doorbell },
	{ "kfd/mmap/mmio", 1, t_mmio },
	{ "kfd/mmap/events", 1, t_events },
	{ "kfd/mmap/other_process", 1, t_other_process },
	{ "kfd/mmap/vma_flags", 1, t_vma_flags },
	{ "kfd/mmap/dontcopy", 1, t_dontcopy },
	{ "kfd/mmap/doorbell_pages", 1, t_doorbell_pages },
	{ "kfd/mmap/render_rules", 1, t_render_rules },
	{ "kfd/mmap/render_private_none", 1, t_render_private_none },
	{ "kfd/mmap/freed", 1, t_freed_mapping },
	{ NULL, 0, NULL },
};
