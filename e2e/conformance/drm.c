// SPDX-License-Identifier: Apache-2.0
/* Render node calls, and a copier that uses the SDMA engine by raw ioctls. */
#include "conformance.h"

#include <drm/drm.h>
#include <time.h>

long gem_create(int fd, u64 size, u64 domains, u64 flags, u32 *handle)
{
	union drm_amdgpu_gem_create a = { .in = {
		.bo_size = size, .alignment = PAGE, .domains = domains, .domain_flags = flags,
	} };
	long rc = call_ioctl(fd, DRM_IOCTL_AMDGPU_GEM_CREATE, &a);

	if (!rc)
		*handle = a.out.handle;
	return rc;
}

long gem_close(int fd, u32 handle)
{
	struct drm_gem_close a = { .handle = handle };

	return call_ioctl(fd, DRM_IOCTL_GEM_CLOSE, &a);
}

long gem_mmap_off(int fd, u32 handle, u64 *off)
{
	union drm_amdgpu_gem_mmap a = { .in = { .handle = handle } };
	long rc = call_ioctl(fd, DRM_IOCTL_AMDGPU_GEM_MMAP, &a);

	if (!rc)
		*off = a.out.addr_ptr;
	return rc;
}

long gem_userptr(int fd, void *addr, u64 size, u32 flags, u32 *handle)
{
	struct drm_amdgpu_gem_userptr a = { .addr = PTR(addr), .size = size, .flags = flags };
	long rc = call_ioctl(fd, DRM_IOCTL_AMDGPU_GEM_USERPTR, &a);

	if (!rc && handle)
		*handle = a.handle;
	return rc;
}

/* The 40-byte form, which every kernel takes. */
long gem_va(int fd, u32 handle, u32 op, u32 flags, u64 va, u64 off, u64 size)
{
	struct {
		u32 handle, pad, op, flags;
		u64 va, off, size;
	} a = { handle, 0, op, flags, va, off, size };

	_Static_assert(sizeof(a) == 40, "old layout");
	return call_ioctl(fd, 0x40286448, &a);
}

long prime_fd(int fd, u32 handle, u32 flags, int *out)
{
	struct drm_prime_handle a = { .handle = handle, .flags = flags };
	long rc = call_ioctl(fd, DRM_IOCTL_PRIME_HANDLE_TO_FD, &a);

	if (!rc)
		*out = a.fd;
	return rc;
}

long prime_handle(int fd, int dmabuf, u32 *handle)
{
	struct drm_prime_handle a = { .fd = dmabuf };
	long rc = call_ioctl(fd, DRM_IOCTL_PRIME_FD_TO_HANDLE, &a);

	if (!rc)
		*handle = a.handle;
	return rc;
}

long drm_query(int fd, u32 query, void *out, u32 size)
{
	struct drm_amdgpu_info a = { .return_pointer = PTR(out), .return_size = size, .query = query };

	return call_ioctl(fd, DRM_IOCTL_AMDGPU_INFO, &a);
}

long drm_ctx(int fd, u32 *ctx)
{
	union drm_amdgpu_ctx a = { .in = { .op = AMDGPU_CTX_OP_ALLOC_CTX } };
	long rc = call_ioctl(fd, DRM_IOCTL_AMDGPU_CTX, &a);

	if (!rc)
		*ctx = a.out.alloc.ctx_id;
	return rc;
}

u32 gpu_family(int fd)
{
	u32 info_words[110] = { 0 };

	NEED_OK(drm_query(fd, AMDGPU_INFO_DEV_INFO, info_words, sizeof(info_words)));
	return info_words[4];
}

struct mem mem_new(int fd, u64 domains, u64 size, u64 va)
{
	struct mem m = { .va = va, .size = size };
	u64 off;
	long err;

	NEED_OK(gem_create(fd, size, domains, domains == AMDGPU_GEM_DOMAIN_VRAM ?
			   AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED : 0, &m.handle));
	NEED_OK(gem_mmap_off(fd, m.handle, &off));
	m.cpu = map_fd(fd, size, PROT_READ | PROT_WRITE, off, &err);
	NEED(m.cpu, "mmap of a GEM object: errno %ld", -err);
	if (va)
		NEED_OK(gem_va(fd, m.handle, AMDGPU_VA_OP_MAP, AMDGPU_VM_PAGE_READABLE | AMDGPU_VM_PAGE_WRITEABLE, va,
			       0, size));
	return m;
}

void mem_del(int fd, struct mem *m)
{
	munmap(m->cpu, m->size);
	NEED_OK(gem_close(fd, m->handle));
}

void sdma_open(struct sdma *s, int fd)
{
	memset(s, 0, sizeof(*s));
	s->fd = fd;
	s->family = gpu_family(fd);
	NEED_OK(drm_ctx(fd, &s->ctx));
	s->ib = mem_new(fd, AMDGPU_GEM_DOMAIN_GTT, 16 * PAGE, VA_BASE);
}

void sdma_copy_raw(struct sdma *s, u64 dst, u64 src, u32 count_field)
{
	u32 *p = (u32 *)s->ib.cpu + s->ndw;

	p[0] = 1;
	p[1] = count_field;
	p[2] = 0;
	p[3] = (u32)src;
	p[4] = (u32)(src >> 32);
	p[5] = (u32)dst;
	p[6] = (u32)(dst >> 32);
	s->ndw += 7;
}

void sdma_copy(struct sdma *s, u64 dst, u64 src, u32 bytes)
{
	sdma_copy_raw(s, dst, src, s->family >= AMDGPU_FAMILY_AI ? bytes - 1 : bytes);
}

static long list_create(int fd, struct drm_amdgpu_bo_list_entry *e, u32 n, u32 *list)
{
	union drm_amdgpu_bo_list a = { .in = {
		.operation = AMDGPU_BO_LIST_OP_CREATE, .bo_number = n, .bo_info_size = sizeof(*e), .bo_info_ptr = PTR(e),
	} };
	long rc = call_ioctl(fd, DRM_IOCTL_AMDGPU_BO_LIST, &a);

	*list = a.out.list_handle;
	return rc;
}

static long list_destroy(int fd, u32 list)
{
	union drm_amdgpu_bo_list a = { .in = { .operation = AMDGPU_BO_LIST_OP_DESTROY, .list_handle = list } };

	return call_ioctl(fd, DRM_IOCTL_AMDGPU_BO_LIST, &a);
}

long sdma_submit(struct sdma *s, enum bo_form form, const u32 *handles, u32 n, u64 *seq)
{
	struct drm_amdgpu_bo_list_entry e[16] = { 0 };
	struct drm_amdgpu_bo_list_in bl = {
		.operation = ~0u, .list_handle = ~0u, .bo_info_size = sizeof(e[0]), .bo_info_ptr = PTR(e),
	};
	struct drm_amdgpu_cs_chunk_ib ib = { .va_start = s->ib.va, .ip_type = AMDGPU_HW_IP_DMA };
	struct drm_amdgpu_cs_chunk chunk[2] = {
		{ AMDGPU_CHUNK_ID_IB, sizeof(ib) / 4, PTR(&ib) }, { AMDGPU_CHUNK_ID_BO_HANDLES, sizeof(bl) / 4, PTR(&bl) },
	};
	u64 ptrs[2] = { PTR(&chunk[0]), PTR(&chunk[1]) };
	union drm_amdgpu_cs cs = { .in = { .ctx_id = s->ctx, .num_chunks = 1, .chunks = PTR(ptrs) } };
	u32 list = 0;
	long rc;

	while (s->ndw % 8)
		((u32 *)s->ib.cpu)[s->ndw++] = 0;
	ib.ib_bytes = s->ndw * 4;
	s->ndw = 0;
	for (u32 i = 0; i < n; i++)
		e[i].bo_handle = handles[i];
	e[n++].bo_handle = s->ib.handle;
	bl.bo_number = n;
	if (form == USE_BO_LIST) {
		rc = list_create(s->fd, e, n, &list);
		if (rc)
			return rc;
		cs.in.bo_list_handle = list;
	} else {
		cs.in.num_chunks = 2;
	}
	rc = call_ioctl(s->fd, DRM_IOCTL_AMDGPU_CS, &cs);
	if (form == USE_BO_LIST)
		EXPECT_RC(list_destroy(s->fd, list), 0);
	if (!rc)
		*seq = cs.out.handle;
	return rc;
}

u64 abs_ns(u64 rel_ns)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (u64)t.tv_sec * 1000000000ull + (u64)t.tv_nsec + rel_ns;
}

long cs_wait(int fd, u32 ctx, u64 seq, u64 timeout_abs, u64 *status)
{
	union drm_amdgpu_wait_cs a = { .in = {
		.handle = seq, .timeout = timeout_abs, .ip_type = AMDGPU_HW_IP_DMA, .ctx_id = ctx,
	} };
	long rc = call_ioctl(fd, DRM_IOCTL_AMDGPU_WAIT_CS, &a);

	if (!rc)
		*status = a.out.status;
	return rc;
}

long sdma_run(struct sdma *s, enum bo_form form, const u32 *handles, u32 n)
{
	u64 seq, status = 1;
	long rc = sdma_submit(s, form, handles, n, &seq);

	if (rc)
		return rc;
	rc = cs_wait(s->fd, s->ctx, seq, abs_ns(10000000000ull), &status);
	if (rc)
		return rc;
	return status ? -ETIME : 0;
}
