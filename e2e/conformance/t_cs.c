// SPDX-License-Identifier: Apache-2.0
/* Command submission: SDMA copies, byte counts by family, accesses outside mappings, waiting. */
#include "conformance.h"

#define GTT AMDGPU_GEM_DOMAIN_GTT
#define VRAM AMDGPU_GEM_DOMAIN_VRAM
#define SRC (VA_BASE + (16ull << 20))
#define DST (VA_BASE + (64ull << 20))

struct bench {
	int fd;
	struct sdma s;
	struct mem src, dst;
	u32 list[2];
};

static void setup(struct bench *b, int g, size_t size)
{
	b->fd = render_open(g);
	sdma_open(&b->s, b->fd);
	b->src = mem_new(b->fd, GTT, size, SRC);
	b->dst = mem_new(b->fd, VRAM, size, DST);
	for (size_t i = 0; i < size; i++)
		b->src.cpu[i] = (u8)(i * 31 + (i >> 8));
	memset(b->dst.cpu, 0xee, size);
	b->list[0] = b->src.handle;
	b->list[1] = b->dst.handle;
}

/* Exactly [at, at + n) of the destination changed, and to the source's bytes from from on. */
static void verify(struct bench *b, size_t at, size_t from, size_t n, const char *what)
{
	for (size_t i = 0; i < b->dst.size; i++) {
		u8 want = i >= at && i < at + n ? b->src.cpu[from + i - at] : 0xee;

		if (b->dst.cpu[i] != want) {
			report(__FILE__, __LINE__, false, "%s: byte %zu of the destination is %#x, not %#x", what, i,
			       b->dst.cpu[i], want);
			return;
		}
	}
}

static void forms(enum bo_form form)
{
	for (int g = 0; g < ngpus && g < 8; g++) {
		struct bench b;

		setup(&b, g, 4 * PAGE);
		sdma_copy(&b.s, DST, SRC, 4 * PAGE);
		EXPECT_RC(sdma_run(&b.s, form, b.list, 2), 0);
		verify(&b, 0, 0, 4 * PAGE, "whole object");
		close(b.fd);
	}
}

static void t_bo_handles(void)
{
	forms(USE_BO_HANDLES);
}

static void t_bo_list(void)
{
	forms(USE_BO_LIST);
}

static void t_guards(void)
{
	static const struct { size_t at, from, n; } c[] = {
		{ 4096, 4096, 4096 }, { 1, 3, 1 }, { 4093, 17, 4099 }, { 4, 8, 4 }, { 8191, 0, 2 }, { 100, 4000, 200 },
		{ 0, 0, 4 * PAGE - 1 }, { 1, 0, 4 * PAGE - 1 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(c); i++) {
		struct bench b;
		char what[64];

		setup(&b, 0, 4 * PAGE);
		sdma_copy(&b.s, DST + c[i].at, SRC + c[i].from, (u32)c[i].n);
		EXPECT_RC(sdma_run(&b.s, USE_BO_HANDLES, b.list, 2), 0);
		snprintf(what, sizeof(what), "%zu bytes from %zu to %zu", c[i].n, c[i].from, c[i].at);
		verify(&b, c[i].at, c[i].from, c[i].n, what);
		close(b.fd);
	}
}

/* The count field is bytes below family 141 and bytes - 1 from there on. */
static void t_count_field(void)
{
	struct bench b;

	setup(&b, 0, 4 * PAGE);
	info("GPU 0 is of family %u", b.s.family);
	sdma_copy_raw(&b.s, DST + 64, SRC, 100);
	EXPECT_RC(sdma_run(&b.s, USE_BO_HANDLES, b.list, 2), 0);
	verify(&b, 64, 0, b.s.family >= AMDGPU_FAMILY_AI ? 101 : 100, "count field 100");
}

static void t_family(void)
{
	for (int g = 0; g < ngpus; g++) {
		u64 gfx = gpu_prop(g, "gfx_target_version");
		u32 family = gpu_family(render_open(g));

		if (gfx >= 100000)
			EXPECT(family >= AMDGPU_FAMILY_NV, "GPU %d: family %u for gfx %llu", g, family,
			       (unsigned long long)gfx);
		else if (gfx >= 90000)
			EXPECT(family == AMDGPU_FAMILY_AI || family == AMDGPU_FAMILY_RV, "GPU %d: family %u for gfx %llu", g,
			       family, (unsigned long long)gfx);
		else
			EXPECT(family < AMDGPU_FAMILY_AI, "GPU %d: family %u for gfx %llu", g, family,
			       (unsigned long long)gfx);
	}
}

static void t_many_packets(void)
{
	struct bench b;

	setup(&b, 0, 16 * PAGE);
	for (u32 i = 0; i < 1024; i++)
		sdma_copy(&b.s, DST + i * 64, SRC + i * 64, 64);
	EXPECT_RC(sdma_run(&b.s, USE_BO_HANDLES, b.list, 2), 0);
	verify(&b, 0, 0, 16 * PAGE, "1024 packets of 64 bytes");
}

static void t_userptr(void)
{
	struct bench b;
	u8 *p = anon(4 * PAGE);
	u32 h;

	setup(&b, 0, 4 * PAGE);
	memset(p, 0x11, 4 * PAGE);
	NEED_OK(gem_userptr(b.fd, p, 4 * PAGE, AMDGPU_GEM_USERPTR_ANONONLY | AMDGPU_GEM_USERPTR_VALIDATE |
			    AMDGPU_GEM_USERPTR_REGISTER, &h));
	NEED_OK(gem_va(b.fd, h, AMDGPU_VA_OP_MAP, AMDGPU_VM_PAGE_READABLE | AMDGPU_VM_PAGE_WRITEABLE, DST + (1 << 24), 0,
		       4 * PAGE));
	sdma_copy(&b.s, DST + (1 << 24) + PAGE, SRC, 2 * PAGE);
	b.list[1] = h;
	EXPECT_RC(sdma_run(&b.s, USE_BO_HANDLES, b.list, 2), 0);
	EXPECT(p[PAGE - 1] == 0x11 && !memcmp(p + PAGE, b.src.cpu, 2 * PAGE) && p[3 * PAGE] == 0x11,
	       "a copy into user memory is wrong");
}

/* A window over a larger object, moved by offset_in_bo. */
static void t_window(void)
{
	struct bench b;

	setup(&b, 0, 8 * PAGE);
	NEED_OK(gem_va(b.fd, b.dst.handle, AMDGPU_VA_OP_UNMAP, 0, DST, 0, 8 * PAGE));
	for (u32 i = 0; i < 4; i++) {
		NEED_OK(gem_va(b.fd, b.dst.handle, AMDGPU_VA_OP_MAP, AMDGPU_VM_PAGE_READABLE | AMDGPU_VM_PAGE_WRITEABLE,
			       DST, i * 2 * PAGE, 2 * PAGE));
		sdma_copy(&b.s, DST, SRC + i * 2 * PAGE, 2 * PAGE);
		EXPECT_RC(sdma_run(&b.s, USE_BO_HANDLES, b.list, 2), 0);
		NEED_OK(gem_va(b.fd, b.dst.handle, AMDGPU_VA_OP_UNMAP, 0, DST, 0, 2 * PAGE));
	}
	verify(&b, 0, 0, 8 * PAGE, "four windows");
}

static void t_sequence(void)
{
	struct bench b;
	u64 seq, status;

	setup(&b, 0, PAGE);
	for (u64 i = 1; i <= 5; i++) {
		sdma_copy(&b.s, DST, SRC, 64);
		NEED_OK(sdma_submit(&b.s, USE_BO_HANDLES, b.list, 2, &seq));
		EXPECT_EQ(seq, i);
		NEED_OK(cs_wait(b.fd, b.s.ctx, seq, ~0ull, &status));
		EXPECT_EQ(status, 0);
	}
	/* Done long ago: even a time in the past finds it so. */
	EXPECT_RC(cs_wait(b.fd, b.s.ctx, 1, 0, &status), 0);
	EXPECT_EQ(status, 0);
	EXPECT_RC(cs_wait(b.fd, b.s.ctx, 5, 1, &status), 0);
	EXPECT_EQ(status, 0);
	/* Each context counts for itself. */
	NEED_OK(drm_ctx(b.fd, &b.s.ctx));
	sdma_copy(&b.s, DST, SRC, 64);
	NEED_OK(sdma_submit(&b.s, USE_BO_HANDLES, b.list, 2, &seq));
	EXPECT_EQ(seq, 1);
}

static void t_wait_errors(void)
{
	struct bench b;
	u64 seq, status;
	long rc;

	setup(&b, 0, PAGE);
	sdma_copy(&b.s, DST, SRC, 64);
	NEED_OK(sdma_submit(&b.s, USE_BO_HANDLES, b.list, 2, &seq));
	EXPECT_RC(cs_wait(b.fd, b.s.ctx + 50, seq, ~0ull, &status), -EINVAL);
	rc = cs_wait(b.fd, b.s.ctx, seq + 10, abs_ns(0), &status);
	info("waiting for a number not yet given: %ld", rc);
}

static long raw_cs(struct bench *b, u32 ctx, u32 list, u32 ip, u32 ring, u32 bytes, u64 va)
{
	struct drm_amdgpu_cs_chunk_ib ib = { .va_start = va, .ib_bytes = bytes, .ip_type = ip, .ring = ring };
	struct drm_amdgpu_cs_chunk chunk = { AMDGPU_CHUNK_ID_IB, sizeof(ib) / 4, PTR(&ib) };
	u64 ptr = PTR(&chunk);
	union drm_amdgpu_cs cs = { .in = {
		.ctx_id = ctx, .bo_list_handle = list, .num_chunks = 1, .chunks = PTR(&ptr),
	} };

	return call_ioctl(b->fd, DRM_IOCTL_AMDGPU_CS, &cs);
}

#define REFUSED(call, what) do { \
	long refused_rc = (call); \
	if (refused_rc >= 0) \
		report(__FILE__, __LINE__, false, "CS with %s: expected an error, got %ld", what, refused_rc); \
} while (0)

static void t_cs_errors(void)
{
	struct bench b;
	union drm_amdgpu_cs cs = { .in = { .num_chunks = 0 } };
	u32 handle;
	u64 seq;

	setup(&b, 0, PAGE);
	memset(b.s.ib.cpu, 0, PAGE);
	REFUSED(raw_cs(&b, b.s.ctx + 50, 0, AMDGPU_HW_IP_DMA, 0, 32, b.s.ib.va), "an unknown context");
	REFUSED(raw_cs(&b, b.s.ctx, 99, AMDGPU_HW_IP_DMA, 0, 32, b.s.ib.va), "an unknown BO list");
	REFUSED(raw_cs(&b, b.s.ctx, 0, AMDGPU_HW_IP_DMA, 50, 32, b.s.ib.va), "an unknown ring");
	REFUSED(raw_cs(&b, b.s.ctx, 0, 99, 0, 32, b.s.ib.va), "an unknown engine");
	REFUSED(raw_cs(&b, b.s.ctx, 0, AMDGPU_HW_IP_DMA, 0, 30, b.s.ib.va), "an IB of 30 bytes");
	REFUSED(raw_cs(&b, b.s.ctx, 0, AMDGPU_HW_IP_DMA, 0, 4 * 0x100000, b.s.ib.va), "an IB above 0xFFFFF dwords");
	cs.in.ctx_id = b.s.ctx;
	REFUSED(call_ioctl(b.fd, DRM_IOCTL_AMDGPU_CS, &cs), "no chunk");
	handle = 99;
	EXPECT_RC(sdma_submit(&b.s, USE_BO_HANDLES, &handle, 1, &seq), -ENOENT);
	EXPECT_RC(sdma_submit(&b.s, USE_BO_LIST, &handle, 1, &seq), -ENOENT);
	/* And it still works. */
	sdma_copy(&b.s, DST, SRC, 64);
	EXPECT_RC(sdma_run(&b.s, USE_BO_HANDLES, b.list, 2), 0);
}

static void t_lists(void)
{
	int fd = render_open(0);
	union drm_amdgpu_bo_list l = { .in = { .operation = AMDGPU_BO_LIST_OP_DESTROY, .list_handle = 99 } };

	info("destroying an unknown list: %ld", call_ioctl(fd, DRM_IOCTL_AMDGPU_BO_LIST, &l));
	l.in = (struct drm_amdgpu_bo_list_in){ .operation = 7 };
	EXPECT_RC(call_ioctl(fd, DRM_IOCTL_AMDGPU_BO_LIST, &l), -EINVAL);
}

static void t_contexts(void)
{
	int fd = render_open(0);
	u32 a, b;
	union drm_amdgpu_ctx c = { .in = { .op = AMDGPU_CTX_OP_QUERY_STATE2 } };

	NEED_OK(drm_ctx(fd, &a));
	NEED_OK(drm_ctx(fd, &b));
	EXPECT(a && b && a != b, "contexts %u and %u", a, b);
	c.in.ctx_id = a;
	EXPECT_RC(call_ioctl(fd, DRM_IOCTL_AMDGPU_CTX, &c), 0);
	c.in = (struct drm_amdgpu_ctx_in){ .op = AMDGPU_CTX_OP_FREE_CTX, .ctx_id = a };
	EXPECT_RC(call_ioctl(fd, DRM_IOCTL_AMDGPU_CTX, &c), 0);
	c.in = (struct drm_amdgpu_ctx_in){ .op = AMDGPU_CTX_OP_FREE_CTX, .ctx_id = a };
	EXPECT_RC(call_ioctl(fd, DRM_IOCTL_AMDGPU_CTX, &c), -EINVAL);
	c.in = (struct drm_amdgpu_ctx_in){ .op = 77 };
	EXPECT_RC(call_ioctl(fd, DRM_IOCTL_AMDGPU_CTX, &c), -EINVAL);
}

/* A copy that leaves its mapping: no byte outside may change, and the simulator counts it. */
static void t_unmapped(void)
{
	struct bench b;
	u64 before, after, seq, status = 77;
	long rc;

	setup(&b, 0, 2 * PAGE);
	if (!counter("fault_unmapped", &before))
		skip("no counter of unmapped accesses");
	sdma_copy(&b.s, DST + 2 * PAGE - 100, SRC, 200);
	NEED_OK(sdma_submit(&b.s, USE_BO_HANDLES, b.list, 2, &seq));
	rc = cs_wait(b.fd, b.s.ctx, seq, abs_ns(5000000000ull), &status);
	info("waiting for a copy that leaves its mapping: %ld, status %llu", rc, (unsigned long long)status);
	counter("fault_unmapped", &after);
	EXPECT(after > before, "an access outside every mapping is not counted (%llu)", (unsigned long long)after);
	for (size_t i = 0; i < 2 * PAGE - 100; i++)
		if (b.dst.cpu[i] != 0xee) {
			EXPECT(false, "byte %zu before the copy changed", i);
			break;
		}
}

/* A copy that runs from one mapping into its neighbour is counted too. */
static void t_overrun(void)
{
	struct bench b;
	struct mem next;
	u64 before, after;

	setup(&b, 0, 2 * PAGE);
	next = mem_new(b.fd, GTT, PAGE, DST + 2 * PAGE);
	if (!counter("fault_overrun", &before))
		skip("no counter of overruns");
	sdma_copy(&b.s, DST, SRC, 2 * PAGE);
	EXPECT_RC(sdma_run(&b.s, USE_BO_HANDLES, b.list, 2), 0);
	counter("fault_overrun", &after);
	EXPECT_EQ(after, before);
	sdma_copy(&b.s, DST + PAGE + 1, SRC, PAGE);
	sdma_run(&b.s, USE_BO_HANDLES, b.list, 2);
	counter("fault_overrun", &after);
	EXPECT(after > before, "a copy across two mappings is not counted");
	EXPECT(next.cpu, "neighbour");
}

/* Reading needs R, writing needs W. */
static void t_permissions(void)
{
	struct bench b;
	struct mem ro;
	u64 before, after;

	setup(&b, 0, PAGE);
	ro = mem_new(b.fd, GTT, PAGE, 0);
	memset(ro.cpu, 0x55, PAGE);
	NEED_OK(gem_va(b.fd, ro.handle, AMDGPU_VA_OP_MAP, AMDGPU_VM_PAGE_READABLE, DST + (1 << 24), 0, PAGE));
	if (!counter("fault_unmapped", &before))
		skip("no counter of forbidden accesses");
	b.list[1] = ro.handle;
	sdma_copy(&b.s, DST + (1 << 24), SRC, 100);
	sdma_run(&b.s, USE_BO_HANDLES, b.list, 2);
	counter("fault_unmapped", &after);
	EXPECT(after > before, "a write through a read-only mapping is not counted");
	EXPECT_EQ(ro.cpu[0], 0x55);
}

static void t_large(void)
{
	struct bench b;
	u32 step = 0x1fffe0;

	setup(&b, 0, 8ul << 20);
	b.s.ndw = 0;
	for (u64 at = 0; at < b.src.size; at += step)
		sdma_copy(&b.s, DST + at, SRC + at, at + step > b.src.size ? (u32)(b.src.size - at) : step);
	EXPECT_RC(sdma_run(&b.s, USE_BO_LIST, b.list, 2), 0);
	verify(&b, 0, 0, b.src.size, "8 MiB");
}

const struct test tests_cs[] = {
	{ "drm/cs/bo_handles", 1, t_bo_handles },
	{ "drm/cs/bo_list", 1, t_bo_list },
	{ "drm/cs/guards", 1, t_guards },
	{ "drm/cs/count_field", 1, t_count_field },
	{ "drm/cs/family", 1, t_family },
	{ "drm/cs/many_packets", 1, t_many_packets },
	{ "drm/cs/userptr", 1, t_userptr },
	{ "drm/cs/window", 1, t_window },
	{ "drm/cs/sequence", 1, t_sequence },
	{ "drm/cs/wait_errors", 1, t_wait_errors },
	{ "drm/cs/errors", 1, t_cs_errors },
	{ "drm/cs/lists", 1, t_lists },
	{ "drm/cs/contexts", 1, t_contexts },
	{ "drm/cs/unmapped", 1, t_unmapped },
	{ "drm/cs/overrun", 1, t_overrun },
	{ "drm/cs/permissions", 1, t_permissions },
	{ "drm/cs/large", 1, t_large },
	{ NULL, 0, NULL },
};
