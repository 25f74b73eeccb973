// SPDX-License-Identifier: Apache-2.0
/* dma-bufs: identity, life time, other devices. */
#include "conformance.h"

#define GTT AMDGPU_GEM_DOMAIN_GTT
#define VRAM AMDGPU_GEM_DOMAIN_VRAM

static void t_export(void)
{
	int fd = render_open(0), dma, ro;
	u32 h, v;
	char link[256];

	NEED_OK(gem_create(fd, 3 * PAGE, GTT, 0, &h));
	NEED_OK(prime_fd(fd, h, O_CLOEXEC | O_RDWR, &dma));
	EXPECT_EQ(lseek(dma, 0, SEEK_END), 3 * PAGE);
	EXPECT_EQ(lseek(dma, 0, SEEK_SET), 0);
	EXPECT(!fd_path(getpid(), dma, link, sizeof(link)) && !strncmp(link, "/dmabuf:", 8), "the fd is %s", link);
	EXPECT(fcntl(dma, F_GETFD) & FD_CLOEXEC, "close-on-exec was asked for");
	EXPECT_EQ(fcntl(dma, F_GETFL) & O_ACCMODE, O_RDWR);
	NEED_OK(prime_fd(fd, h, 0, &ro));
	EXPECT_EQ(fcntl(ro, F_GETFD) & FD_CLOEXEC, 0);
	EXPECT_RC(prime_fd(fd, 99, O_CLOEXEC, &dma), -ENOENT);
	NEED_OK(gem_create(fd, PAGE, GTT, AMDGPU_GEM_CREATE_VM_ALWAYS_VALID, &v));
	EXPECT_RC(prime_fd(fd, v, O_CLOEXEC, &dma), -EPERM);
}

static void t_identity(void)
{
	int a = render_open(0), b = render_open(0), dma, null = open("/dev/null", O_RDWR);
	u32 h, x, y;

	NEED_OK(gem_create(a, PAGE, GTT, 0, &h));
	NEED_OK(prime_fd(a, h, O_CLOEXEC | O_RDWR, &dma));
	NEED_OK(prime_handle(a, dma, &x));
	EXPECT_EQ(x, h);
	NEED_OK(gem_create(b, PAGE, GTT, 0, &x));
	NEED_OK(prime_handle(b, dma, &x));
	NEED_OK(prime_handle(b, dma, &y));
	EXPECT_EQ(x, 2);
	EXPECT_EQ(y, x);
	/* One close ends the handle, however often it was imported. */
	EXPECT_RC(gem_close(b, x), 0);
	EXPECT_RC(gem_close(b, x), -EINVAL);
	NEED_OK(prime_handle(b, dma, &y));
	EXPECT_EQ(y, 2);
	EXPECT(prime_handle(a, null, &x) < 0, "import of /dev/null: expected an error");
	EXPECT(prime_handle(a, 900, &x) < 0, "import of a closed fd: expected an error");
}

static void t_same_memory(void)
{
	int a = render_open(0), b = render_open(0), dma;
	struct mem m = mem_new(a, VRAM, 2 * PAGE, 0);
	u64 off, off2;
	u32 h;
	u8 *p;
	long err;

	NEED_OK(prime_fd(a, m.handle, O_CLOEXEC | O_RDWR, &dma));
	NEED_OK(prime_handle(b, dma, &h));
	NEED_OK(gem_mmap_off(b, h, &off));
	NEED_OK(gem_mmap_off(a, m.handle, &off2));
	EXPECT_EQ(off, off2);
	p = map_fd(b, 2 * PAGE, PROT_READ | PROT_WRITE, off, &err);
	NEED(p, "mmap: errno %ld", -err);
	m.cpu[PAGE] = 0x42;
	EXPECT_EQ(p[PAGE], 0x42);
}

static void t_life(void)
{
	int a = render_open(0), b = render_open(0), dma;
	struct mem m = mem_new(a, VRAM, PAGE, 0);
	u32 h;
	u64 off;
	u8 *p;
	long err;

	m.cpu[9] = 0x99;
	NEED_OK(prime_fd(a, m.handle, O_CLOEXEC | O_RDWR, &dma));
	mem_del(a, &m);
	close(a);
	NEED_OK(prime_handle(b, dma, &h));
	close(dma);
	NEED_OK(gem_mmap_off(b, h, &off));
	p = map_fd(b, PAGE, PROT_READ | PROT_WRITE, off, &err);
	NEED(p, "mmap: errno %ld", -err);
	EXPECT_EQ(p[9], 0x99);
}

static void t_other_device(void)
{
	int a = render_open(0), b = render_open(1), dma;
	struct mem m = mem_new(a, GTT, 2 * PAGE, 0), dst;
	struct sdma s;
	u32 h, h2, list[2];

	for (size_t i = 0; i < m.size; i++)
		m.cpu[i] = (u8)(i * 7);
	NEED_OK(prime_fd(a, m.handle, O_CLOEXEC | O_RDWR, &dma));
	NEED_OK(prime_handle(b, dma, &h));
	NEED_OK(prime_handle(b, dma, &h2));
	EXPECT_EQ(h, h2);
	sdma_open(&s, b);
	NEED_OK(gem_va(b, h, AMDGPU_VA_OP_MAP, AMDGPU_VM_PAGE_READABLE | AMDGPU_VM_PAGE_WRITEABLE, VA_BASE + (1 << 24), 0,
		       2 * PAGE));
	dst = mem_new(b, VRAM, 2 * PAGE, VA_BASE + (2 << 24));
	memset(dst.cpu, 0, dst.size);
	sdma_copy(&s, dst.va, VA_BASE + (1 << 24), 2 * PAGE);
	list[0] = h;
	list[1] = dst.handle;
	EXPECT_RC(sdma_run(&s, USE_BO_HANDLES, list, 2), 0);
	EXPECT(!memcmp(dst.cpu, m.cpu, 2 * PAGE), "GPU 1 reads other bytes from GPU 0's object");
	/* The other way round: GPU 1 writes into it. */
	memset(dst.cpu, 0xab, dst.size);
	sdma_copy(&s, VA_BASE + (1 << 24), dst.va, PAGE);
	EXPECT_RC(sdma_run(&s, USE_BO_HANDLES, list, 2), 0);
	EXPECT(m.cpu[0] == 0xab && m.cpu[PAGE - 1] == 0xab && m.cpu[PAGE] == (u8)(PAGE * 7),
	       "GPU 1 does not write into GPU 0's object");
	/* The object outlives its maker's handle. */
	mem_del(a, &m);
	close(a);
	close(dma);
	memset(dst.cpu, 0, dst.size);
	sdma_copy(&s, dst.va, VA_BASE + (1 << 24), PAGE);
	EXPECT_RC(sdma_run(&s, USE_BO_HANDLES, list, 2), 0);
	EXPECT_EQ(dst.cpu[17], 0xab);
	EXPECT_RC(gem_close(b, h), 0);
}

/* VRAM of one GPU through another, and an object imported back is itself. */
static void t_other_device_vram(void)
{
	int a = render_open(0), b = render_open(1), dma, dma2;
	struct mem m = mem_new(a, VRAM, PAGE, 0);
	u32 h, back;

	NEED_OK(prime_fd(a, m.handle, O_CLOEXEC | O_RDWR, &dma));
	NEED_OK(prime_handle(b, dma, &h));
	NEED_OK(prime_fd(b, h, O_CLOEXEC | O_RDWR, &dma2));
	NEED_OK(prime_handle(a, dma2, &back));
	EXPECT_EQ(back, m.handle);
	for (int i = 0; i < 50; i++) {
		NEED_OK(gem_close(b, h));
		NEED_OK(prime_handle(b, dma, &h));
	}
}

static void t_kfd_bo(void)
{
	struct app a;
	struct bo b;
	struct kfd_ioctl_export_dmabuf_args ex = { .flags = O_CLOEXEC | O_RDWR };
	int fd = render_open(0);
	u32 h, h2;

	if (kfd_minor() < 12)
		skip("no EXPORT_DMABUF before 1.12");
	app_start(&a);
	b = bo_new(&a, 0, 2 * PAGE, F_VRAM);
	ex.handle = b.handle;
	NEED_OK(call_ioctl(a.kfd, AMDKFD_IOC_EXPORT_DMABUF, &ex));
	NEED_OK(prime_handle(fd, (int)ex.dmabuf_fd, &h));
	NEED_OK(call_ioctl(a.kfd, AMDKFD_IOC_EXPORT_DMABUF, &ex));
	NEED_OK(prime_handle(fd, (int)ex.dmabuf_fd, &h2));
	EXPECT_EQ(h, h2);
}

const struct test tests_prime[] = {
	{ "drm/prime/export", 1, t_export },
	{ "drm/prime/identity", 1, t_identity },
	{ "drm/prime/same_memory", 1, t_same_memory },
	{ "drm/prime/life", 1, t_life },
	{ "drm/prime/other_device", 2, t_other_device },
	{ "drm/prime/other_device_vram", 2, t_other_device_vram },
	{ "drm/prime/kfd_bo", 1, t_kfd_bo },
	{ NULL, 0, NULL },
};
