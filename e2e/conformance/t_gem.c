// SPDX-License-Identifier: Apache-2.0
/* GEM objects of render nodes: handles, creation, mapping to the CPU, user pointers. */
#include "conformance.h"

#include <drm/drm.h>

#define GTT AMDGPU_GEM_DOMAIN_GTT
#define VRAM AMDGPU_GEM_DOMAIN_VRAM
#define REG (AMDGPU_GEM_USERPTR_ANONONLY | AMDGPU_GEM_USERPTR_VALIDATE | AMDGPU_GEM_USERPTR_REGISTER)

static long try_map(int fd, size_t len, u64 off)
{
	long err;
	void *p = map_fd(fd, len, PROT_READ | PROT_WRITE, off, &err);

	if (p)
		munmap(p, len);
	return err;
}

static void t_handles(void)
{
	int a = render_open(0), b = render_open(0);
	u32 h[5], x;

	for (u32 i = 1; i <= 4; i++) {
		NEED_OK(gem_create(a, PAGE, i & 1 ? GTT : VRAM, 0, &h[i]));
		EXPECT_EQ(h[i], i);
	}
	NEED_OK(gem_create(b, PAGE, GTT, 0, &x));
	EXPECT_EQ(x, 1);
	EXPECT_RC(gem_close(a, 3), 0);
	EXPECT_RC(gem_close(a, 2), 0);
	NEED_OK(gem_create(a, PAGE, GTT, 0, &x));
	EXPECT_EQ(x, 2);
	NEED_OK(gem_create(a, PAGE, GTT, 0, &x));
	EXPECT_EQ(x, 3);
	NEED_OK(gem_create(a, PAGE, GTT, 0, &x));
	EXPECT_EQ(x, 5);
	EXPECT_RC(gem_close(a, 77), -EINVAL);
	EXPECT_RC(gem_close(a, 0), -EINVAL);
	EXPECT_RC(gem_close(b, 2), -EINVAL);
}

/* KFD's BOs take no handle of the application's file. */
static void t_kfd_no_handle(void)
{
	struct app a;
	u32 h;

	app_start(&a);
	bo_new(&a, 0, PAGE, F_VRAM);
	bo_new(&a, 0, PAGE, F_GTT);
	NEED_OK(gem_create(a.drm[0], PAGE, GTT, 0, &h));
	EXPECT_EQ(h, 1);
}

static void t_create(void)
{
	int fd = render_open(0);
	u32 h;
	int dma;

	NEED_OK(gem_create(fd, 100, GTT, 0, &h));
	NEED_OK(prime_fd(fd, h, O_CLOEXEC | O_RDWR, &dma));
	EXPECT_EQ(lseek(dma, 0, SEEK_END), PAGE);
	EXPECT_RC(gem_create(fd, PAGE, 1ull << 20, 0, &h), -EINVAL);
	EXPECT_RC(gem_create(fd, PAGE, GTT, 1ull << 40, &h), -EINVAL);
	EXPECT(gem_create(fd, 0, GTT, 0, &h) < 0, "GEM_CREATE of 0 bytes: expected an error");
	EXPECT(gem_create(fd, 1ull << 46, GTT, 0, &h) < 0, "GEM_CREATE of 64 TiB: expected an error");
}

static void t_contents(void)
{
	int fd = render_open(0);
	struct mem v = mem_new(fd, VRAM, 4 * PAGE, 0), t = mem_new(fd, GTT, 4 * PAGE, 0);

	memset(v.cpu, 3, v.size);
	memset(t.cpu, 4, t.size);
	EXPECT(v.cpu[v.size - 1] == 3 && t.cpu[0] == 4 && t.cpu[t.size - 1] == 4, "GEM objects do not keep bytes");
}

static void t_mmap(void)
{
	int fd = render_open(0), other = render_open(0);
	u64 off, off2;
	u32 h, h2, hv;

	NEED_OK(gem_create(fd, 4 * PAGE, GTT, 0, &h));
	NEED_OK(gem_create(fd, 4 * PAGE, GTT, 0, &h2));
	NEED_OK(gem_mmap_off(fd, h, &off));
	NEED_OK(gem_mmap_off(fd, h2, &off2));
	EXPECT(off && off % PAGE == 0 && off != off2, "offsets %#llx and %#llx", (unsigned long long)off,
	       (unsigned long long)off2);
	EXPECT_RC(gem_mmap_off(fd, 99, &off2), -ENOENT);
	EXPECT_RC(try_map(fd, 4 * PAGE, off), 0);
	EXPECT_RC(try_map(fd, PAGE, off), 0);
	EXPECT_RC(try_map(fd, 5 * PAGE, off), -EINVAL);
	EXPECT_RC(try_map(fd, PAGE, off + PAGE), -EINVAL);
	EXPECT_RC(try_map(fd, PAGE, 0), -EINVAL);
	EXPECT_RC(try_map(other, PAGE, off), -EACCES);
	EXPECT_RC(try_map(dup(fd), PAGE, off), 0);
	NEED_OK(gem_create(fd, PAGE, VRAM, AMDGPU_GEM_CREATE_NO_CPU_ACCESS, &hv));
	EXPECT_RC(gem_mmap_off(fd, hv, &off2), -EPERM);
	/* Without its handle a file has no right to the object any more. */
	int dma;
	NEED_OK(prime_fd(fd, h, O_CLOEXEC, &dma));
	NEED_OK(gem_close(fd, h));
	EXPECT_RC(try_map(fd, PAGE, off), -EACCES);
	/* An imported handle gives it to the other file. */
	NEED_OK(prime_handle(other, dma, &h));
	EXPECT_RC(try_map(other, PAGE, off), 0);
}

/* Offsets belong to a device, not to a file. */
static void t_mmap_unique(void)
{
	int a = render_open(0), b = render_open(0);
	u64 x, y;
	u32 h;

	NEED_OK(gem_create(a, PAGE, GTT, 0, &h));
	NEED_OK(gem_mmap_off(a, h, &x));
	NEED_OK(gem_create(b, PAGE, GTT, 0, &h));
	NEED_OK(gem_mmap_off(b, h, &y));
	EXPECT(x != y, "objects of two files share the offset %#llx", (unsigned long long)x);
}

static void t_mapping_lives(void)
{
	int fd = render_open(0);
	struct mem m = mem_new(fd, VRAM, PAGE, 0);

	m.cpu[7] = 0x77;
	NEED_OK(gem_close(fd, m.handle));
	close(fd);
	EXPECT_EQ(m.cpu[7], 0x77);
}

static void t_userptr(void)
{
	int fd = render_open(0);
	u8 *p = anon(4 * PAGE);
	u32 h;
	u64 off;
	int dma;

	EXPECT_RC(gem_userptr(fd, p + 8, PAGE, REG, &h), -EINVAL);
	EXPECT_RC(gem_userptr(fd, p, 100, REG, &h), -EINVAL);
	EXPECT_RC(gem_userptr(fd, p, PAGE, REG | 16, &h), -EINVAL);
	EXPECT_RC(gem_userptr(fd, p, PAGE, AMDGPU_GEM_USERPTR_ANONONLY | AMDGPU_GEM_USERPTR_VALIDATE, &h), -EACCES);
	EXPECT_RC(gem_userptr(fd, p, PAGE, REG, &h), 0);
	EXPECT_RC(gem_mmap_off(fd, h, &off), -EPERM);
	EXPECT_RC(prime_fd(fd, h, O_CLOEXEC, &dma), -EPERM);
	EXPECT_RC(gem_close(fd, h), 0);
	EXPECT_RC(gem_userptr(fd, p, 4 * PAGE, AMDGPU_GEM_USERPTR_READONLY | AMDGPU_GEM_USERPTR_ANONONLY |
			      AMDGPU_GEM_USERPTR_VALIDATE, &h), 0);
}

static void t_userptr_vma(void)
{
	int fd = render_open(0), f = memfd_create("x", 0);
	u8 *file, *gone = anon(PAGE), *mix;
	u32 h;

	NEED(f >= 0 && !ftruncate(f, 4 * (off_t)PAGE), "memfd");
	file = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0);
	NEED(file != MAP_FAILED, "mmap");
	munmap(gone, PAGE);
	EXPECT_RC(gem_userptr(fd, file, PAGE, REG, &h), -EPERM);
	EXPECT_RC(gem_userptr(fd, gone, PAGE, REG, &h), -EFAULT);
	/* Only the mapping at the start counts: behind it there may be a file. */
	mix = anon(2 * PAGE);
	NEED(mmap(mix + PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, f, 0) != MAP_FAILED, "mmap");
	EXPECT_RC(gem_userptr(fd, mix, 2 * PAGE, REG, &h), 0);
	/* A hole inside cannot be faulted in. */
	mix = anon(3 * PAGE);
	munmap(mix + PAGE, PAGE);
	long rc = gem_userptr(fd, mix, 3 * PAGE, REG, &h);
	EXPECT(rc < 0, "USERPTR with VALIDATE over a hole: expected an error, got %ld", rc);
}

static void t_gem_op(void)
{
	int fd = render_open(0);
	u32 h;
	struct drm_amdgpu_gem_create_in ci = { 0 };
	struct { u32 handle, op; u64 value; } op = { 0, AMDGPU_GEM_OP_GET_GEM_CREATE_INFO, PTR(&ci) };

	NEED_OK(gem_create(fd, 3 * PAGE, GTT, 0, &h));
	op.handle = h;
	EXPECT_RC(call_ioctl(fd, 0xc0106450, &op), 0);
	EXPECT_EQ(ci.bo_size, 3 * PAGE);
	EXPECT_EQ(ci.domains, GTT);
	op.handle = 99;
	EXPECT_RC(call_ioctl(fd, 0xc0106450, &op), -ENOENT);
	op.handle = h;
	op.op = 77;
	EXPECT_RC(call_ioctl(fd, 0xc0106450, &op), -EINVAL);
}

static void t_metadata(void)
{
	int fd = render_open(0);
	struct drm_amdgpu_gem_metadata m = { .op = AMDGPU_GEM_METADATA_OP_SET_METADATA };

	NEED_OK(gem_create(fd, PAGE, GTT, 0, &m.handle));
	m.data.tiling_info = 5;
	m.data.data_size_bytes = 8;
	m.data.data[0] = 0x1234;
	m.data.data[1] = 0x5678;
	EXPECT_RC(call_ioctl(fd, DRM_IOCTL_AMDGPU_GEM_METADATA, &m), 0);
	memset(&m.data, 0, sizeof(m.data));
	m.op = AMDGPU_GEM_METADATA_OP_GET_METADATA;
	EXPECT_RC(call_ioctl(fd, DRM_IOCTL_AMDGPU_GEM_METADATA, &m), 0);
	EXPECT_EQ(m.data.tiling_info, 5);
	EXPECT_EQ(m.data.data_size_bytes, 8);
	EXPECT_EQ(m.data.data[1], 0x5678);
	m.handle = 99;
	EXPECT_RC(call_ioctl(fd, DRM_IOCTL_AMDGPU_GEM_METADATA, &m), -ENOENT);
}

static void t_wait_idle(void)
{
	int fd = render_open(0);
	union drm_amdgpu_gem_wait_idle w = { .in = { .timeout = 0 } };

	NEED_OK(gem_create(fd, PAGE, GTT, 0, &w.in.handle));
	EXPECT_RC(call_ioctl(fd, DRM_IOCTL_AMDGPU_GEM_WAIT_IDLE, &w), 0);
	EXPECT_EQ(w.out.status, 0);
	w.in = (struct drm_amdgpu_gem_wait_idle_in){ .handle = 99 };
	EXPECT_RC(call_ioctl(fd, DRM_IOCTL_AMDGPU_GEM_WAIT_IDLE, &w), -ENOENT);
}

static void t_list_handles(void)
{
	struct { u32 h, flags; u64 size, dom, alloc, align; } e[8];
	struct { u64 entries; u32 num, pad; } l = { PTR(e), 8, 0 };
	int fd = render_open(0);
	u32 h;
	long rc;

	_Static_assert(sizeof(e[0]) == 40, "entry");
	NEED_OK(gem_create(fd, 2 * PAGE, GTT, 0, &h));
	NEED_OK(gem_create(fd, PAGE, GTT, 0, &h));
	rc = call_ioctl(fd, 0xc0106459, &l);
	if (rc) {
		EXPECT_RC(rc, -EINVAL);
		info("no GEM_LIST_HANDLES");
		return;
	}
	EXPECT_EQ(l.num, 2);
	EXPECT_EQ(e[0].size, 2 * PAGE);
	l.num = 0;
	EXPECT_RC(call_ioctl(fd, 0xc0106459, &l), 0);
	EXPECT_EQ(l.num, 2);
}

const struct test tests_gem[] = {
	{ "drm/gem/handles", 1, t_handles },
	{ "drm/gem/kfd_takes_no_handle", 1, t_kfd_no_handle },
	{ "drm/gem/create", 1, t_create },
	{ "drm/gem/contents", 1, t_contents },
	{ "drm/gem/mmap", 1, t_mmap },
	{ "drm/gem/mmap_unique", 1, t_mmap_unique },
	{ "drm/gem/mapping_lives", 1, t_mapping_lives },
	{ "drm/gem/userptr", 1, t_userptr },
	{ "drm/gem/userptr_vma", 1, t_userptr_vma },
	{ "drm/gem/op", 1, t_gem_op },
	{ "drm/gem/metadata", 1, t_metadata },
	{ "drm/gem/wait_idle", 1, t_wait_idle },
	{ "drm/gem/list_handles", 1, t_list_handles },
	{ NULL, 0, NULL },
};
