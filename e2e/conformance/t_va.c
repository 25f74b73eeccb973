// SPDX-License-Identifier: Apache-2.0
/* GEM_VA: the per-file GPU address space. */
#include "conformance.h"

#define GTT AMDGPU_GEM_DOMAIN_GTT
#define MAP AMDGPU_VA_OP_MAP
#define UNMAP AMDGPU_VA_OP_UNMAP
#define CLEAR AMDGPU_VA_OP_CLEAR
#define REPLACE AMDGPU_VA_OP_REPLACE
#define RW (AMDGPU_VM_PAGE_READABLE | AMDGPU_VM_PAGE_WRITEABLE)

static void t_errors(void)
{
	int fd = render_open(0);
	u32 h;
	u64 va = VA_BASE, dev[55] = { 0 };

	NEED_OK(gem_create(fd, 4 * PAGE, GTT, 0, &h));
	NEED_OK(drm_query(fd, AMDGPU_INFO_DEV_INFO, dev, sizeof(dev)));
	EXPECT_RC(gem_va(fd, 99, MAP, RW, va, 0, PAGE), -ENOENT);
	EXPECT_RC(gem_va(fd, h, MAP, RW, 0, 0, PAGE), -EINVAL);
	EXPECT_RC(gem_va(fd, h, MAP, RW, dev[18] - PAGE, 0, PAGE), -EINVAL);
	EXPECT_RC(gem_va(fd, h, MAP, RW, 0x0001000000000000, 0, PAGE), -EINVAL);	/* the hole */
	EXPECT_RC(gem_va(fd, h, MAP, RW | 1u << 20, va, 0, PAGE), -EINVAL);
	EXPECT_RC(gem_va(fd, h, 0, RW, va, 0, PAGE), -EINVAL);
	EXPECT_RC(gem_va(fd, h, 9, RW, va, 0, PAGE), -EINVAL);
	for (u32 op = MAP; op <= REPLACE; op += REPLACE - MAP) {
		EXPECT_RC(gem_va(fd, h, op, RW, va + 8, 0, PAGE), -EINVAL);
		EXPECT_RC(gem_va(fd, h, op, RW, va, 8, PAGE), -EINVAL);
		EXPECT_RC(gem_va(fd, h, op, RW, va, 0, PAGE + 8), -EINVAL);
		EXPECT_RC(gem_va(fd, h, op, RW, va, 0, 5 * PAGE), -EINVAL);
		EXPECT_RC(gem_va(fd, h, op, RW, va, 3 * PAGE, 2 * PAGE), -EINVAL);
	}
	EXPECT_RC(gem_va(fd, h, UNMAP, 0, va, 0, PAGE), -ENOENT);
}

static void t_map(void)
{
	int fd = render_open(0);
	u32 h, g;
	u64 va = VA_BASE;

	NEED_OK(gem_create(fd, 4 * PAGE, GTT, 0, &h));
	NEED_OK(gem_create(fd, 4 * PAGE, GTT, 0, &g));
	EXPECT_RC(gem_va(fd, h, MAP, RW, va, 0, 4 * PAGE), 0);
	EXPECT_RC(gem_va(fd, h, MAP, RW, va, 0, 4 * PAGE), -EINVAL);
	EXPECT_RC(gem_va(fd, g, MAP, RW, va + 3 * PAGE, 0, 2 * PAGE), -EINVAL);
	EXPECT_RC(gem_va(fd, g, MAP, RW, va + 4 * PAGE, PAGE, 2 * PAGE), 0);
	/* One object at several addresses. */
	EXPECT_RC(gem_va(fd, h, MAP, RW, va + 16 * PAGE, 2 * PAGE, PAGE), 0);
	/* UNMAP goes by start address and object; its size and offset mean nothing. */
	EXPECT_RC(gem_va(fd, g, UNMAP, 0, va, 0, 4 * PAGE), -ENOENT);
	EXPECT_RC(gem_va(fd, h, UNMAP, 0, va + PAGE, 0, PAGE), -ENOENT);
	EXPECT_RC(gem_va(fd, h, UNMAP, 0, va, 0, PAGE), 0);
	EXPECT_RC(gem_va(fd, h, UNMAP, 0, va, 0, 4 * PAGE), -ENOENT);
	EXPECT_RC(gem_va(fd, g, MAP, RW, va, 0, 4 * PAGE), 0);
	EXPECT_RC(gem_va(fd, h, UNMAP, 0, va + 16 * PAGE, 0, PAGE), 0);
}

static void t_replace_clear(void)
{
	int fd = render_open(0);
	u32 h, g;
	u64 va = VA_BASE;

	NEED_OK(gem_create(fd, 4 * PAGE, GTT, 0, &h));
	NEED_OK(gem_create(fd, 4 * PAGE, GTT, 0, &g));
	EXPECT_RC(gem_va(fd, h, MAP, RW, va, 0, 4 * PAGE), 0);
	EXPECT_RC(gem_va(fd, g, REPLACE, RW, va + PAGE, 0, PAGE), 0);
	EXPECT_RC(gem_va(fd, g, UNMAP, 0, va + PAGE, 0, PAGE), 0);
	EXPECT_RC(gem_va(fd, g, MAP, RW, va + PAGE, 0, PAGE), 0);
	EXPECT_RC(gem_va(fd, 0, CLEAR, 0, va, 0, 4 * PAGE), 0);
	EXPECT_RC(gem_va(fd, h, MAP, RW, va, 0, 4 * PAGE), 0);
	EXPECT_RC(gem_va(fd, g, UNMAP, 0, va + PAGE, 0, PAGE), -ENOENT);
}

static void t_close_unmaps(void)
{
	int fd = render_open(0);
	u32 h, g;
	u64 va = VA_BASE;

	NEED_OK(gem_create(fd, 4 * PAGE, GTT, 0, &h));
	NEED_OK(gem_create(fd, 4 * PAGE, GTT, 0, &g));
	NEED_OK(gem_va(fd, h, MAP, RW, va, 0, 4 * PAGE));
	EXPECT_RC(gem_close(fd, h), 0);
	EXPECT_RC(gem_va(fd, g, MAP, RW, va, 0, 4 * PAGE), 0);
}

static void t_per_file(void)
{
	int a = render_open(0), b = render_open(0);
	u32 h, g;

	NEED_OK(gem_create(a, PAGE, GTT, 0, &h));
	NEED_OK(gem_create(b, PAGE, GTT, 0, &g));
	EXPECT_RC(gem_va(a, h, MAP, RW, VA_BASE, 0, PAGE), 0);
	EXPECT_RC(gem_va(b, g, MAP, RW, VA_BASE, 0, PAGE), 0);
}

static void t_sizes(void)
{
	int fd = render_open(0);
	u32 h;
	struct {
		u32 handle, pad, op, flags;
		u64 va, off, size, point;
		u32 out, num;
		u64 fences;
	} n = { .op = MAP, .flags = RW, .va = VA_BASE, .size = PAGE };

	_Static_assert(sizeof(n) == 64, "new layout");
	NEED_OK(gem_create(fd, PAGE, GTT, 0, &h));
	n.handle = h;
	EXPECT_RC(call_ioctl(fd, 0x40406448, &n), 0);
	EXPECT_RC(gem_va(fd, h, UNMAP, 0, VA_BASE, 0, PAGE), 0);
}

/* MAP_MEMORY_TO_GPU fills the render file's address space: it is one and the same (from 1.15 on open to GEM_VA). */
static void t_kfd_shares(void)
{
	struct app a;
	struct bo b;
	u32 h;

	app_start(&a);
	b = bo_new(&a, 0, 4 * PAGE, F_GTT);
	NEED_OK(gem_create(a.drm[0], PAGE, GTT, 0, &h));
	EXPECT_RC(gem_va(a.drm[0], h, MAP, RW, b.va, 0, PAGE), -EINVAL);
	EXPECT_RC(gem_va(a.drm[0], h, MAP, RW, b.va + b.size, 0, PAGE), 0);
	NEED_OK(kfd_unmap(a.kfd, b.handle, &gpus[0].id, 1, NULL));
	EXPECT_RC(gem_va(a.drm[0], h, MAP, RW, b.va, 0, PAGE), 0);
}

/* SDMA through a KFD mapping, submitted on the KFD VM's render file. */
static void t_kfd_sdma(void)
{
	struct app a;
	struct bo src, dst;
	struct sdma s;

	app_start(&a);
	src = bo_new(&a, 0, 2 * PAGE, F_GTT);
	dst = bo_new(&a, 0, 2 * PAGE, F_VRAM);
	memset(src.cpu, 0x3c, src.size);
	memset(dst.cpu, 0, dst.size);
	sdma_open(&s, a.drm[0]);
	sdma_copy(&s, dst.va + 16, src.va, 1000);
	EXPECT_RC(sdma_run(&s, USE_BO_HANDLES, NULL, 0), 0);
	info("SDMA through KFD's mappings %s", ((u8 *)dst.cpu)[16] == 0x3c ? "works" : "does nothing");
}

const struct test tests_va[] = {
	{ "drm/va/errors", 1, t_errors },
	{ "drm/va/map", 1, t_map },
	{ "drm/va/replace_clear", 1, t_replace_clear },
	{ "drm/va/close_unmaps", 1, t_close_unmaps },
	{ "drm/va/per_file", 1, t_per_file },
	{ "drm/va/sizes", 1, t_sizes },
	{ "drm/va/kfd_shares", 1, t_kfd_shares },
	{ "drm/va/kfd_sdma", 1, t_kfd_sdma },
	{ NULL, 0, NULL },
};
