// SPDX-License-Identifier: Apache-2.0
/* ACQUIRE_VM, ALLOC, MAP, FREE, AVAILABLE_MEMORY and the dma-buf calls. */
#include "conformance.h"

#include <sys/stat.h>

#define BAD_ID 0xfff1u

static u32 unknown_id(void)
{
	u32 id = BAD_ID;

	for (int g = 0; g < ngpus; g++)
		if (gpus[g].id == id) {
			id--;
			g = -1;
		}
	return id;
}

static void t_acquire(void)
{
	int kfd = kfd_open(), drm = render_open(0), other = render_open(0), null = open("/dev/null", O_RDWR);

	EXPECT_RC(kfd_acquire(kfd, 999, gpus[0].id), -EINVAL);
	EXPECT_RC(kfd_acquire(kfd, null, gpus[0].id), -EINVAL);
	EXPECT_RC(kfd_acquire(kfd, drm, unknown_id()), -EINVAL);
	EXPECT_RC(kfd_acquire(kfd, drm, gpus[0].id), 0);
	EXPECT_RC(kfd_acquire(kfd, drm, gpus[0].id), 0);
	EXPECT_RC(kfd_acquire(kfd, dup(drm), gpus[0].id), 0);
	EXPECT_RC(kfd_acquire(kfd, other, gpus[0].id), -EBUSY);
	if (ngpus > 1) {
		long rc = kfd_acquire(kfd, other, gpus[1].id);

		info("file of another GPU: %ld", rc);
	}
}

/* A file whose VM is one process's compute VM serves no other process. */
static void t_acquire_used(void)
{
	int drm = render_open(0), kfd = kfd_open(), st;
	pid_t pid;

	NEED_OK(kfd_acquire(kfd, drm, gpus[0].id));
	pid = fork_child();
	if (!pid) {
		int own = kfd_open();
		long rc = kfd_acquire(own, drm, gpus[0].id);

		EXPECT(rc < 0, "ACQUIRE_VM of a file used by another process: expected an error, got %ld", rc);
		_exit(0);
	}
	st = child_status(pid);
	EXPECT_EQ(st, 0);
}

/* KFD keeps the file: its memory goes on after the application closed its number. */
static void t_acquire_keeps(void)
{
	int kfd = kfd_open(), drm = render_open(0);
	struct bo b = { .size = PAGE, .flags = F_GTT };

	NEED_OK(kfd_acquire(kfd, drm, gpus[0].id));
	close(drm);
	b.va = PTR(reserve(PAGE));
	EXPECT_RC(kfd_alloc(kfd, &b, gpus[0].id), 0);
	EXPECT_RC(kfd_map(kfd, b.handle, &gpus[0].id, 1, NULL), 0);
	EXPECT_RC(kfd_unmap(kfd, b.handle, &gpus[0].id, 1, NULL), 0);
	EXPECT_RC(kfd_free(kfd, b.handle), 0);
}

static void t_no_vm(void)
{
	int kfd = kfd_open(), drm = render_open(0);
	struct bo b = { .size = PAGE, .flags = F_GTT, .va = PTR(reserve(PAGE)) };
	struct kfd_ioctl_set_scratch_backing_va_args sc = { .va_addr = 0x100000, .gpu_id = gpus[0].id };
	struct kfd_ioctl_set_memory_policy_args mp = { .gpu_id = gpus[0].id };
	struct kfd_ioctl_set_trap_handler_args th = { .gpu_id = gpus[0].id };
	struct kfd_ioctl_import_dmabuf_args im = { .gpu_id = gpus[0].id };
	u64 handle = (u64)gpus[0].id << 32 | 1;
	u32 h;
	int fd;

	EXPECT_RC(kfd_alloc(kfd, &b, gpus[0].id), -ENODEV);
	EXPECT_RC(kfd_map(kfd, handle, &gpus[0].id, 1, NULL), -ENODEV);
	NEED_OK(gem_create(drm, PAGE, AMDGPU_GEM_DOMAIN_GTT, 0, &h));
	NEED_OK(prime_fd(drm, h, O_CLOEXEC | O_RDWR, &fd));
	im.dmabuf_fd = (u32)fd;
	im.va_addr = b.va;
	EXPECT_RC(call_ioctl(kfd, AMDKFD_IOC_IMPORT_DMABUF, &im), -ENODEV);
	EXPECT_RC(call_ioctl(kfd, AMDKFD_IOC_SET_SCRATCH_BACKING_VA, &sc), -ENODEV);
	EXPECT_RC(call_ioctl(kfd, AMDKFD_IOC_SET_MEMORY_POLICY, &mp), -ESRCH);
	EXPECT_RC(call_ioctl(kfd, AMDKFD_IOC_SET_TRAP_HANDLER, &th), -ESRCH);
}

static void t_alloc_errors(void)
{
	struct app a;
	struct bo b = { .va = PTR(reserve(16 * PAGE)) };

	app_start(&a);
	b.flags = F_GTT;
	EXPECT_RC(kfd_alloc(a.kfd, &b, gpus[0].id), -EINVAL);		/* size 0 */
	b.size = PAGE;
	EXPECT_RC(kfd_alloc(a.kfd, &b, unknown_id()), -EINVAL);
	EXPECT_RC(kfd_alloc(a.kfd, &b, 0), -EINVAL);
	b.flags = KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE;			/* no domain */
	EXPECT_RC(kfd_alloc(a.kfd, &b, gpus[0].id), -EINVAL);
	b.flags = F_USERPTR;						/* address 0 */
	EXPECT_RC(kfd_alloc(a.kfd, &b, gpus[0].id), -EINVAL);
	b.flags = F_DOORBELL;
	b.size = doorbell_slice(0) * 2;
	EXPECT_RC(kfd_alloc(a.kfd, &b, gpus[0].id), -EINVAL);
	b.size = doorbell_slice(0) / 2;
	EXPECT_RC(kfd_alloc(a.kfd, &b, gpus[0].id), -EINVAL);
	b.flags = F_MMIO;
	b.size = 2 * PAGE;
	EXPECT_RC(kfd_alloc(a.kfd, &b, gpus[0].id), -EINVAL);
	b.flags = F_VRAM;
	b.size = 1ull << 46;
	EXPECT_RC(kfd_alloc(a.kfd, &b, gpus[0].id), -ENOMEM);
}

static void t_alloc_small_bar(void)
{
	struct app a;
	struct bo b = { .va = PTR(reserve(PAGE)), .size = PAGE, .flags = F_VRAM };

	app_start(&a);
	for (int g = 0; g < ngpus; g++) {
		if (!small_bar(g))
			continue;
		EXPECT_RC(kfd_alloc(a.kfd, &b, gpus[g].id), -EINVAL);
		b.flags &= ~KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC;
		EXPECT_RC(kfd_alloc(a.kfd, &b, gpus[g].id), 0);
		return;
	}
	skip("every GPU has a large BAR");
}

static void t_handles(void)
{
	struct app a;
	struct bo b[4];

	app_start(&a);
	for (int i = 0; i < 4; i++) {
		b[i] = bo_new(&a, 0, PAGE, i & 1 ? F_GTT : F_VRAM);
		EXPECT_EQ(b[i].handle, ((u64)gpus[0].id << 32) | (u32)(i + 1));
	}
	if (ngpus > 1) {
		struct bo o = bo_new(&a, 1, PAGE, F_VRAM);

		EXPECT_EQ(o.handle, ((u64)gpus[1].id << 32) | 1);
	}
}

static void t_offsets(void)
{
	struct app a;
	struct bo v, t, d, m;

	app_start(&a);
	v = bo_new(&a, 0, PAGE, F_VRAM);
	t = bo_new(&a, 0, PAGE, F_GTT);
	m = bo_new(&a, 0, PAGE, F_MMIO);
	EXPECT(v.off && v.off % PAGE == 0 && t.off && t.off % PAGE == 0 && v.off != t.off,
	       "DRM offsets %#llx and %#llx", (unsigned long long)v.off, (unsigned long long)t.off);
	EXPECT_EQ(m.off, KFD_OFF(0, gpus[0].id));
	d = (struct bo){ .va = PTR(reserve(doorbell_slice(0))), .size = doorbell_slice(0), .flags = F_DOORBELL };
	EXPECT_RC(kfd_alloc(a.kfd, &d, gpus[0].id), 0);
	info("ALLOC of a doorbell BO gives offset %#llx", (unsigned long long)d.off);
}

static void t_contents(void)
{
	struct app a;
	struct bo b[2];

	app_start(&a);
	for (int g = 0; g < ngpus; g++) {
		b[0] = bo_new(&a, g, 4 * PAGE, F_VRAM);
		b[1] = bo_new(&a, g, 4 * PAGE, F_GTT);
		memset(b[0].cpu, 0x11, 4 * PAGE);
		memset(b[1].cpu, 0x22, 4 * PAGE);
		for (size_t i = 0; i < 4 * PAGE; i += 512)
			if (((u8 *)b[0].cpu)[i] != 0x11 || ((u8 *)b[1].cpu)[i] != 0x22)
				report(__FILE__, __LINE__, true, "byte %zu of a BO of GPU %d does not stay", i, g);
	}
}

static void t_map_errors(void)
{
	struct app a;
	struct bo b = { .size = PAGE, .flags = F_GTT };
	u32 ids[2] = { gpus[0].id, unknown_id() }, done;

	app_start(&a);
	b.va = PTR(reserve(PAGE));
	NEED_OK(kfd_alloc(a.kfd, &b, gpus[0].id));
	done = 0;
	EXPECT_RC(kfd_map(a.kfd, b.handle, ids, 0, &done), -EINVAL);
	done = 2;
	EXPECT_RC(kfd_map(a.kfd, b.handle, ids, 1, &done), -EINVAL);
	done = 0;
	EXPECT_RC(kfd_map(a.kfd, ((u64)unknown_id() << 32) | 1, ids, 1, &done), -EINVAL);
	EXPECT_RC(kfd_map(a.kfd, b.handle + 77, ids, 1, &done), -ENOMEM);
	EXPECT_RC(kfd_map(a.kfd, b.handle, (u32 *)8, 1, &done), -EFAULT);
	EXPECT_RC(kfd_map(a.kfd, b.handle, ids, 2, &done), -EINVAL);
	EXPECT_EQ(done, 1);
	/* Goes on behind the devices already done. */
	ids[1] = gpus[ngpus > 1].id;
	EXPECT_RC(kfd_map(a.kfd, b.handle, ids, 2, &done), 0);
	EXPECT_EQ(done, 2);
	done = 0;
	EXPECT_RC(kfd_unmap(a.kfd, b.handle, ids, 0, &done), -EINVAL);
	EXPECT_RC(kfd_unmap(a.kfd, ((u64)unknown_id() << 32) | 1, ids, 1, &done), -EINVAL);
	done = 2;
	EXPECT_RC(kfd_unmap(a.kfd, b.handle, ids, 1, &done), -EINVAL);
	done = 0;
	EXPECT_RC(kfd_unmap(a.kfd, b.handle + 77, ids, 1, &done), -ENOMEM);
	EXPECT_RC(kfd_unmap(a.kfd, b.handle, ids, ngpus > 1 ? 2 : 1, &done), 0);
	EXPECT_RC(kfd_free(a.kfd, b.handle), 0);
}

static void t_free_errors(void)
{
	struct app a;
	struct bo b, page;
	struct kfd_ioctl_create_event_args ev;

	app_start(&a);
	b = bo_new(&a, 0, PAGE, F_VRAM);
	EXPECT_RC(kfd_free(a.kfd, b.handle), -EBUSY);
	EXPECT_RC(kfd_unmap(a.kfd, b.handle, &gpus[0].id, 1, NULL), 0);
	EXPECT_RC(kfd_free(a.kfd, b.handle), 0);
	EXPECT_RC(kfd_free(a.kfd, b.handle), -EINVAL);
	EXPECT_RC(kfd_free(a.kfd, ((u64)unknown_id() << 32) | 1), -EINVAL);
	page = bo_new(&a, 0, 8 * PAGE, F_GTT);
	NEED_OK(kfd_event(a.kfd, KFD_IOC_EVENT_SIGNAL, false, page.handle, &ev));
	EXPECT_RC(kfd_free(a.kfd, page.handle), -EPERM);
	NEED_OK(kfd_unmap(a.kfd, page.handle, &gpus[0].id, 1, NULL));
	EXPECT_RC(kfd_free(a.kfd, page.handle), -EPERM);
}

static void t_available(void)
{
	struct app a;
	struct bo b;
	u64 before, during, size = 8ull << 20;
	struct kfd_ioctl_get_available_memory_args bad = { .gpu_id = unknown_id() };

	app_start(&a);
	before = kfd_avail_settled(a.kfd, 0);
	b = bo_new(&a, 0, size, F_VRAM);
	during = kfd_avail(a.kfd, 0);
	EXPECT(before >= during + size, "AVAILABLE_MEMORY went from %llu to %llu for %llu bytes",
	       (unsigned long long)before, (unsigned long long)during, (unsigned long long)size);
	bo_del(&a, &b);
	EXPECT_EQ(kfd_avail(a.kfd, 0), before);
	EXPECT_RC(call_ioctl(a.kfd, AMDKFD_IOC_AVAILABLE_MEMORY, &bad), -EINVAL);
}

static void t_dmabuf(void)
{
	struct app a;
	struct bo b;
	struct kfd_ioctl_export_dmabuf_args ex = { .flags = O_CLOEXEC | O_RDWR };
	struct kfd_ioctl_get_dmabuf_info_args in = { 0 };
	struct kfd_ioctl_import_dmabuf_args im = { 0 };
	int null = open("/dev/null", O_RDWR);

	if (kfd_minor() < 12)
		skip("no EXPORT_DMABUF before 1.12");
	app_start(&a);
	b = bo_new(&a, 0, 4 * PAGE, F_VRAM);
	ex.handle = b.handle;
	NEED_OK(call_ioctl(a.kfd, AMDKFD_IOC_EXPORT_DMABUF, &ex));
	EXPECT(fcntl((int)ex.dmabuf_fd, F_GETFD) & FD_CLOEXEC, "EXPORT_DMABUF ignores O_CLOEXEC");
	EXPECT_EQ(lseek((int)ex.dmabuf_fd, 0, SEEK_END), 4 * PAGE);
	in.dmabuf_fd = ex.dmabuf_fd;
	EXPECT_RC(call_ioctl(a.kfd, AMDKFD_IOC_GET_DMABUF_INFO, &in), 0);
	EXPECT_EQ(in.size, 4 * PAGE);
	EXPECT_EQ(in.gpu_id, gpus[0].id);
	EXPECT(in.flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM, "GET_DMABUF_INFO: flags %#x lack VRAM", in.flags);
	in.dmabuf_fd = (u32)null;
	EXPECT_RC(call_ioctl(a.kfd, AMDKFD_IOC_GET_DMABUF_INFO, &in), -EINVAL);
	in.dmabuf_fd = 999;
	EXPECT_RC(call_ioctl(a.kfd, AMDKFD_IOC_GET_DMABUF_INFO, &in), -EBADF);
	im.dmabuf_fd = ex.dmabuf_fd;
	im.gpu_id = gpus[0].id;
	im.va_addr = PTR(reserve(4 * PAGE));
	EXPECT_RC(call_ioctl(a.kfd, AMDKFD_IOC_IMPORT_DMABUF, &im), 0);
	EXPECT_EQ(im.handle >> 32, gpus[0].id);
	EXPECT_RC(kfd_map(a.kfd, im.handle, &gpus[0].id, 1, NULL), 0);
	EXPECT_RC(kfd_unmap(a.kfd, im.handle, &gpus[0].id, 1, NULL), 0);
	EXPECT_RC(kfd_free(a.kfd, im.handle), 0);
	im.gpu_id = unknown_id();
	EXPECT_RC(call_ioctl(a.kfd, AMDKFD_IOC_IMPORT_DMABUF, &im), -EINVAL);
	im.gpu_id = gpus[0].id;
	im.dmabuf_fd = (u32)null;
	EXPECT_RC(call_ioctl(a.kfd, AMDKFD_IOC_IMPORT_DMABUF, &im), -EINVAL);
	ex.handle = ((u64)unknown_id() << 32) | 1;
	EXPECT_RC(call_ioctl(a.kfd, AMDKFD_IOC_EXPORT_DMABUF, &ex), -EINVAL);
}

/* A freed BO lives on behind its dma-buf. */
static void t_dmabuf_life(void)
{
	struct app a;
	struct bo b;
	struct kfd_ioctl_export_dmabuf_args ex = { .flags = O_CLOEXEC | O_RDWR };
	u64 before;
	u32 *p, h;
	long err;

	if (kfd_minor() < 12)
		skip("no EXPORT_DMABUF before 1.12");
	app_start(&a);
	before = kfd_avail_settled(a.kfd, 0);
	b = bo_new(&a, 0, 2ul << 20, F_VRAM);
	*(u32 *)b.cpu = 0x600d600d;
	ex.handle = b.handle;
	NEED_OK(call_ioctl(a.kfd, AMDKFD_IOC_EXPORT_DMABUF, &ex));
	bo_del(&a, &b);
	NEED_OK(prime_handle(a.drm[0], (int)ex.dmabuf_fd, &h));
	u64 off;
	NEED_OK(gem_mmap_off(a.drm[0], h, &off));
	p = map_fd(a.drm[0], PAGE, PROT_READ | PROT_WRITE, off, &err);
	NEED(p, "mmap of the imported BO: errno %ld", -err);
	EXPECT_EQ(*p, 0x600d600d);
	munmap(p, PAGE);
	EXPECT_RC(gem_close(a.drm[0], h), 0);
	close((int)ex.dmabuf_fd);
	EXPECT_EQ(kfd_avail(a.kfd, 0), before);
}

const struct test tests_memory[] = {
	{ "kfd/memory/acquire_vm", 1, t_acquire },
	{ "kfd/memory/acquire_vm_used", 1, t_acquire_used },
	{ "kfd/memory/acquire_vm_keeps_file", 1, t_acquire_keeps },
	{ "kfd/memory/no_vm", 1, t_no_vm },
	{ "kfd/memory/alloc_errors", 1, t_alloc_errors },
	{ "kfd/memory/alloc_small_bar", 1, t_alloc_small_bar },
	{ "kfd/memory/handles", 1, t_handles },
	{ "kfd/memory/offsets", 1, t_offsets },
	{ "kfd/memory/contents", 1, t_contents },
	{ "kfd/memory/map_errors", 1, t_map_errors },
	{ "kfd/memory/free_errors", 1, t_free_errors },
	{ "kfd/memory/available", 1, t_available },
	{ "kfd/memory/dmabuf", 1, t_dmabuf },
	{ "kfd/memory/dmabuf_life", 1, t_dmabuf_life },
	{ NULL, 0, NULL },
};
