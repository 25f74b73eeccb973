// SPDX-License-Identifier: Apache-2.0
/*
 * Copies between a BO and host memory by a command submission to the DRM driver's SDMA ring.
 *
 * Two ways: on a private render file (BO imported as dma-buf; needs no GPU mapping, but KFD exports a
 * dma-buf only while the GPU has the id it was opened with), or in the process's own VM (BO read at
 * the address where KFD mapped it: proves that mapping, works under every id).
 */
#include <drm/amdgpu_drm.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "wl.h"

#define STAGE_SIZE (1ull << 20)
#define PRIVATE_IB (1ull << 32)
#define PRIVATE_STAGE (PRIVATE_IB + (1ull << 24))
#define PRIVATE_WINDOW (1ull << 36)
#define PACKET_MAX 0x1fffe0ull		/* bytes; fits every SDMA generation */
#define FAMILY_AI 141

struct area {
	uint32_t gem;
	uint64_t va, size;
	void *cpu;
};

struct copier {
	int fd;
	bool own;
	uint32_t family, ctx;
	struct area ib, stage;
};

static char error_text[160];

const char *copier_error(void)
{
	return error_text;
}

__attribute__((format(printf, 1, 2))) static int wrong(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(error_text, sizeof(error_text), fmt, ap);
	va_end(ap);
	return -1;
}

static int va_op(struct copier *c, uint32_t gem, uint32_t op, uint64_t va, uint64_t size)
{
	struct drm_amdgpu_gem_va a = {
		.handle = gem, .operation = op, .va_address = va, .map_size = size,
		.flags = AMDGPU_VM_PAGE_READABLE | AMDGPU_VM_PAGE_WRITEABLE | AMDGPU_VM_PAGE_EXECUTABLE,
	};

	return drm_ioctl(c->fd, DRM_IOCTL_AMDGPU_GEM_VA, &a);
}

static void close_gem(struct copier *c, uint32_t gem)
{
	struct drm_gem_close a = { .handle = gem };

	drm_ioctl(c->fd, DRM_IOCTL_GEM_CLOSE, &a);
}

static int make_area(struct copier *c, struct area *a, uint64_t size, uint64_t private_va)
{
	union drm_amdgpu_gem_create create = {
		.in = { .bo_size = size, .alignment = WL_PAGE, .domains = AMDGPU_GEM_DOMAIN_GTT },
	};
	union drm_amdgpu_gem_mmap map = { 0 };
	int r = drm_ioctl(c->fd, DRM_IOCTL_AMDGPU_GEM_CREATE, &create);

	if (r)
		return wrong("GEM_CREATE: %s", strerror(-r));
	a->gem = create.out.handle;
	a->size = size;
	map.in.handle = a->gem;
	r = drm_ioctl(c->fd, DRM_IOCTL_AMDGPU_GEM_MMAP, &map);
	if (r)
		return wrong("GEM_MMAP: %s", strerror(-r));
	a->cpu = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, c->fd, map.out.addr_ptr);
	if (a->cpu == MAP_FAILED) {
		a->cpu = NULL;
		return wrong("mmap of a staging BO: %m");
	}
	/* In the own VM GPU addresses are CPU addresses: the mapping just made is the free range. */
	a->va = c->own ? (uintptr_t)a->cpu : private_va;
	r = va_op(c, a->gem, AMDGPU_VA_OP_MAP, a->va, size);
	if (r) {
		a->va = 0;
		return wrong("GEM_VA map: %s", strerror(-r));
	}
	return 0;
}

static void drop_area(struct copier *c, struct area *a)
{
	if (a->va)
		va_op(c, a->gem, AMDGPU_VA_OP_UNMAP, a->va, a->size);
	if (a->cpu)
		munmap(a->cpu, a->size);
	if (a->gem)
		close_gem(c, a->gem);
}

static int device_family(struct copier *c)
{
	struct drm_amdgpu_info_device dev = { 0 };
	struct drm_amdgpu_info a = {
		.return_pointer = (uintptr_t)&dev, .return_size = sizeof(dev), .query = AMDGPU_INFO_DEV_INFO,
	};
	int r = drm_ioctl(c->fd, DRM_IOCTL_AMDGPU_INFO, &a);

	c->family = dev.family;
	return r ? wrong("INFO(DEV_INFO): %s", strerror(-r)) : 0;
}

static int make_context(struct copier *c)
{
	union drm_amdgpu_ctx a = { .in = { .op = AMDGPU_CTX_OP_ALLOC_CTX } };
	int r = drm_ioctl(c->fd, DRM_IOCTL_AMDGPU_CTX, &a);

	if (r)
		return wrong("CTX alloc: %s", strerror(-r));
	c->ctx = a.out.alloc.ctx_id;
	return 0;
}

struct copier *copier_open(struct wl *w, struct gpu *g, bool own)
{
	struct copier *c = calloc(1, sizeof(*c));
	char path[64];

	(void)w;
	if (!c)
		return NULL;
	c->own = own;
	c->fd = g->fd;
	if (!own) {
		snprintf(path, sizeof(path), "/dev/dri/renderD%d", gpu_minor_of_fd(g->fd));
		c->fd = open(path, O_RDWR | O_CLOEXEC);
		if (c->fd < 0) {
			wrong("open %s: %m", path);
			free(c);
			return NULL;
		}
	}
	if (device_family(c) || make_context(c) || make_area(c, &c->ib, WL_PAGE, PRIVATE_IB) ||
	    make_area(c, &c->stage, STAGE_SIZE, PRIVATE_STAGE)) {
		copier_close(c);
		return NULL;
	}
	return c;
}

void copier_close(struct copier *c)
{
	union drm_amdgpu_ctx a;

	if (!c)
		return;
	drop_area(c, &c->stage);
	drop_area(c, &c->ib);
	if (c->ctx) {
		a.in = (struct drm_amdgpu_ctx_in){ .op = AMDGPU_CTX_OP_FREE_CTX, .ctx_id = c->ctx };
		drm_ioctl(c->fd, DRM_IOCTL_AMDGPU_CTX, &a);
	}
	if (!c->own)
		close(c->fd);
	free(c);
}

uint64_t copier_stage_size(const struct copier *c)
{
	return c->stage.size;
}

void *copier_stage(struct copier *c)
{
	return c->stage.cpu;
}

int copier_attach(struct copier *c, struct wl *w, const struct bo *b, struct copy_target *t)
{
	struct drm_prime_handle p = { 0 };
	int r, fd;

	*t = (struct copy_target){ .va = b->va, .size = b->size };
	if (c->own)
		return 0;
	r = kfd_export_dmabuf(w, b->handle, &fd);
	if (r)
		return wrong("EXPORT_DMABUF: %s", strerror(-r));
	p.fd = fd;
	r = drm_ioctl(c->fd, DRM_IOCTL_PRIME_FD_TO_HANDLE, &p);
	close(fd);
	if (r)
		return wrong("PRIME_FD_TO_HANDLE: %s", strerror(-r));
	t->gem = p.handle;
	t->va = PRIVATE_WINDOW;
	r = va_op(c, t->gem, AMDGPU_VA_OP_MAP, t->va, t->size);
	if (r) {
		close_gem(c, t->gem);
		return wrong("GEM_VA map of a BO: %s", strerror(-r));
	}
	return 0;
}

void copier_detach(struct copier *c, struct copy_target *t)
{
	if (c->own)
		return;
	va_op(c, t->gem, AMDGPU_VA_OP_UNMAP, t->va, t->size);
	close_gem(c, t->gem);
}

static uint32_t *put_copy(struct copier *c, uint32_t *p, uint64_t src, uint64_t dst, uint64_t len)
{
	*p++ = 1;
	*p++ = c->family >= FAMILY_AI ? len - 1 : len;
	*p++ = 0;
	*p++ = src;
	*p++ = src >> 32;
	*p++ = dst;
	*p++ = dst >> 32;
	return p;
}

static int submit(struct copier *c, const struct copy_target *t, uint32_t dwords)
{
	struct drm_amdgpu_bo_list_entry entries[3] = {
		{ .bo_handle = c->ib.gem }, { .bo_handle = c->stage.gem }, { .bo_handle = t->gem },
	};
	struct drm_amdgpu_bo_list_in list = {
		.operation = ~0u, .list_handle = ~0u, .bo_number = t->gem ? 3 : 2,
		.bo_info_size = sizeof(entries[0]), .bo_info_ptr = (uintptr_t)entries,
	};
	struct drm_amdgpu_cs_chunk_ib ib = {
		.va_start = c->ib.va, .ib_bytes = dwords * 4, .ip_type = AMDGPU_HW_IP_DMA,
	};
	struct drm_amdgpu_cs_chunk chunks[2] = {
		{ .chunk_id = AMDGPU_CHUNK_ID_BO_HANDLES, .length_dw = sizeof(list) / 4, .chunk_data = (uintptr_t)&list },
		{ .chunk_id = AMDGPU_CHUNK_ID_IB, .length_dw = sizeof(ib) / 4, .chunk_data = (uintptr_t)&ib },
	};
	uint64_t pointers[2] = { (uintptr_t)&chunks[0], (uintptr_t)&chunks[1] };
	union drm_amdgpu_cs cs = {
		.in = { .ctx_id = c->ctx, .num_chunks = 2, .chunks = (uintptr_t)pointers },
	};
	union drm_amdgpu_wait_cs wait;
	uint64_t begun = now_ns();
	int r = drm_ioctl(c->fd, DRM_IOCTL_AMDGPU_CS, &cs);

	if (r)
		return wrong("CS: %s", strerror(-r));
	/*
	 * The time-out is a point on the host's monotonic clock, and a restored process has another one (CRIU
	 * makes a time namespace): so nothing is waited for in the kernel.
	 */
	do {
		memset(&wait, 0, sizeof(wait));
		wait.in.handle = cs.out.handle;
		wait.in.ip_type = AMDGPU_HW_IP_DMA;
		wait.in.ctx_id = c->ctx;
		r = drm_ioctl(c->fd, DRM_IOCTL_AMDGPU_WAIT_CS, &wait);
		if (r)
			return wrong("WAIT_CS: %s", strerror(-r));
		if (!wait.out.status)
			return 0;
		nap_ms(1);
	} while (now_ns() - begun < 60000000000ull);
	return wrong("WAIT_CS: not done after 60 s");
}

int copier_copy(struct copier *c, const struct copy_target *t, uint64_t off, uint64_t len, bool to_bo)
{
	uint32_t *start = c->ib.cpu, *p = start;
	uint64_t stage = c->stage.va, bo = t->va + off;

	for (uint64_t done = 0; done < len; done += PACKET_MAX) {
		uint64_t n = len - done < PACKET_MAX ? len - done : PACKET_MAX;

		p = put_copy(c, p, (to_bo ? stage : bo) + done, (to_bo ? bo : stage) + done, n);
	}
	while ((p - start) % 8)
		*p++ = 0;		/* NOP */
	return submit(c, t, p - start);
}
