// SPDX-License-Identifier: Apache-2.0
/* Buffer objects: allocation as a thunk does it, CPU mappings, contents, release. */
#include <errno.h>
#include <linux/kfd_ioctl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "wl.h"

/* Offset for mmap of /dev/kfd: type 3 in the top bits, then the GPU */
#define DOORBELL_OFFSET(gpu_id) (3ull << 62 | (uint64_t)(gpu_id) << 46)

static const char *const role_names[] = {
	"data", "event page", "doorbell", "MMIO", "heartbeat", "ring", "pointer page", "EOP", "CWSR", "temporary",
};
static const char *const kind_names[] = { "VRAM", "GTT", "userptr", "doorbell", "MMIO" };

const char *bo_name(const struct bo *b)
{
	static char text[128];

	if (b->role == ROLE_DATA)
		snprintf(text, sizeof(text), "%s BO %u of GPU %u (%llu bytes, handle %llx)", kind_names[b->kind],
			 b->index, b->gpu->index, (unsigned long long)b->size, (unsigned long long)b->handle);
	else
		snprintf(text, sizeof(text), "%s BO of GPU %u (%s, handle %llx)", role_names[b->role], b->gpu->index,
			 kind_names[b->kind], (unsigned long long)b->handle);
	return text;
}

bool bo_on_gpu(const struct bo *b, const struct gpu *g)
{
	for (unsigned int i = 0; i < b->nids; i++)
		if (b->ids[i] == g->gpu_id)
			return true;
	return false;
}

static uint32_t kind_flags(const struct bo *b)
{
	uint32_t f = KFD_IOC_ALLOC_MEM_FLAGS_NO_SUBSTITUTE;

	if (!(b->opts & OPT_RO))
		f |= KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE;
	switch (b->kind) {
	case BO_VRAM:
		f |= KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE;
		if (!(b->opts & (OPT_NOMAP | OPT_PRIVATE_NONE | OPT_SHARED_NONE)))
			f |= KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC;
		return f;
	case BO_GTT:
		return f | KFD_IOC_ALLOC_MEM_FLAGS_GTT | KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE |
		       KFD_IOC_ALLOC_MEM_FLAGS_COHERENT;
	case BO_USERPTR:
		return f | KFD_IOC_ALLOC_MEM_FLAGS_USERPTR | KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE |
		       KFD_IOC_ALLOC_MEM_FLAGS_COHERENT;
	case BO_DOORBELL:
		return f | KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL | KFD_IOC_ALLOC_MEM_FLAGS_COHERENT;
	default:
		return f | KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP | KFD_IOC_ALLOC_MEM_FLAGS_COHERENT;
	}
}

/* The GPU address is the CPU address: the range is reserved first, and mapped over when the BO exists. */
static char *reserve(uint64_t size, bool usable)
{
	void *p = mmap(NULL, size, usable ? PROT_READ | PROT_WRITE : PROT_NONE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static int map_cpu(struct wl *w, struct bo *b)
{
	bool kfd = b->kind == BO_DOORBELL || b->kind == BO_MMIO;
	bool none = b->opts & (OPT_PRIVATE_NONE | OPT_SHARED_NONE);
	int share = b->opts & OPT_PRIVATE_NONE ? MAP_PRIVATE : MAP_SHARED;
	int prot = none ? PROT_NONE : PROT_READ | PROT_WRITE;
	int fd = kfd ? w->kfd : b->gpu->fd;
	char *p;

	if (b->kind == BO_USERPTR) {
		b->cpu = b->range;
		return madvise(b->range, b->size, MADV_DONTFORK);
	}
	if ((b->opts & OPT_NOMAP) || (!kfd && (w->o.fds & FDS_NO_RENDER_MAP)))
		return 0;
	p = mmap(b->range, b->size, prot, share | MAP_FIXED, fd, b->mmap_offset);
	if (p == MAP_FAILED)
		return oops(w, "mmap of %s: %m", bo_name(b));
	if (!(b->opts & OPT_FORK) && madvise(p, b->size, MADV_DONTFORK))	/* as thunks do */
		return oops(w, "madvise of %s: %m", bo_name(b));
	if (none)
		return 0;
	b->cpu = p;
	if (b->opts & OPT_TWICE) {
		p = mmap(NULL, b->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, b->mmap_offset);
		if (p == MAP_FAILED)
			return oops(w, "second mmap of %s: %m", bo_name(b));
		b->cpu2 = p;
		if (madvise(p, b->size, MADV_DONTFORK))
			return oops(w, "madvise of %s: %m", bo_name(b));
	}
	return 0;
}

static void map_ids(struct wl *w, struct bo *b)
{
	b->nids = 0;
	if (b->opts & OPT_GPU_UNMAPPED)
		return;
	if (!(b->opts & OPT_PEERS)) {
		b->ids[b->nids++] = b->gpu->gpu_id;
		return;
	}
	for (unsigned int i = 0; i < w->nused; i++)
		b->ids[b->nids++] = w->gpus[i].gpu_id;
}

static int keep(struct wl *w, struct bo *b)
{
	if (w->nbos == w->cap_bos) {
		size_t cap = w->cap_bos ? w->cap_bos * 2 : 64;
		struct bo **p = realloc(w->bos, cap * sizeof(*p));

		if (!p)
			return -1;
		w->bos = p;
		w->cap_bos = cap;
	}
	w->bos[w->nbos++] = b;
	return 0;
}

struct bo *bo_new(struct wl *w, struct gpu *g, enum bo_kind kind, uint64_t size, unsigned int opts,
		  enum bo_role role, uint32_t extra_flags)
{
	struct bo *b = calloc(1, sizeof(*b));
	int r;

	if (!b)
		return NULL;
	*b = (struct bo){ .gpu = g, .kind = kind, .size = page_up(size), .opts = opts, .role = role };
	b->flags = kind_flags(b) | extra_flags;
	b->range = reserve(b->size, kind == BO_USERPTR);
	if (!b->range) {
		oops(w, "no address range for %s: %m", bo_name(b));
		goto drop;
	}
	b->va = opts & OPT_NO_VA ? 0 : (uintptr_t)b->range;
	b->mmap_offset = kind == BO_USERPTR ? (uintptr_t)b->range : 0;
	r = kfd_alloc(w, g->gpu_id, b->va, b->size, b->flags, &b->handle, &b->mmap_offset);
	if (r) {
		oops(w, "ALLOC_MEMORY_OF_GPU of %s, flags %x: %s", bo_name(b), b->flags, strerror(-r));
		goto unreserve;
	}
	/* ALLOC answers with an offset of the render node; doorbells are mapped through kfd, by a typed one. */
	if (kind == BO_DOORBELL)
		b->mmap_offset = DOORBELL_OFFSET(g->gpu_id);
	map_ids(w, b);
	if (b->nids) {
		r = kfd_map(w, b->handle, b->ids, b->nids);
		if (r) {
			oops(w, "MAP_MEMORY_TO_GPU of %s: %s", bo_name(b), strerror(-r));
			b->nids = 0;
			goto freeing;
		}
	}
	if (map_cpu(w, b) || keep(w, b))
		goto freeing;
	return b;

freeing:
	bo_release(w, b);
	return NULL;
unreserve:
	munmap(b->range, b->size);
drop:
	free(b);
	return NULL;
}

int bo_release(struct wl *w, struct bo *b)
{
	int first = 0, r;

	if (b->nids) {
		r = kfd_unmap(w, b->handle, b->ids, b->nids);
		if (r) {
			fail(w, "UNMAP_MEMORY_FROM_GPU of %s: %s", bo_name(b), strerror(-r));
			first = r;
		}
	}
	if (b->cpu2)
		munmap(b->cpu2, b->size);
	if (b->kind != BO_USERPTR)
		munmap(b->range, b->size);
	r = kfd_free(w, b->handle);
	if (r) {
		fail(w, "FREE_MEMORY_OF_GPU of %s: %s", bo_name(b), strerror(-r));
		first = first ? first : r;
	}
	if (b->kind == BO_USERPTR)
		munmap(b->range, b->size);
	free(b);
	return first;
}

int bo_release_listed(struct wl *w, struct bo *b)
{
	for (size_t i = w->nbos; i-- > 0;) {
		if (w->bos[i] == b) {
			memmove(&w->bos[i], &w->bos[i + 1], (w->nbos - i - 1) * sizeof(*w->bos));
			w->nbos--;
			break;
		}
	}
	return bo_release(w, b);
}

static enum content content_of(const struct bo_spec *s, unsigned int nth)
{
	if (s->opts & OPT_ZERO)
		return CONTENT_ZERO;
	if (s->opts & OPT_LAST)
		return CONTENT_LAST_BYTE;
	if (nth % 8 == 6)	/* a few of many; the first ones never */
		return CONTENT_ZERO;
	if (nth % 64 == 7)
		return CONTENT_LAST_BYTE;
	return CONTENT_RANDOM;
}

static int fill_by_cpu(struct wl *w, struct bo *b)
{
	for (uint64_t off = 0; off < b->size; off += 16 << 20) {
		uint64_t len = b->size - off < 16 << 20 ? b->size - off : 16 << 20;

		pattern_fill(w->o.seed, b->index, b->content, b->size, off, b->cpu + off, len);
		state_tick(w);
	}
	if ((b->opts & OPT_SPLIT) && mprotect(b->cpu, page_up(b->size / 2), PROT_READ))
		return oops(w, "mprotect of %s: %m", bo_name(b));
	return 0;
}

static int fill_by_sdma(struct wl *w, struct bo *b, struct copier **c)
{
	bool own = w->kfd_minor < KFD_MINOR_EXPORT, map = own && !b->nids;
	uint32_t id = b->gpu->gpu_id;
	struct copy_target t;
	int r;

	if (!*c) {
		*c = copier_open(w, b->gpu, own);
		if (!*c)
			return oops(w, "copies on GPU %u: %s", b->gpu->index, copier_error());
	}
	if (map) {
		r = kfd_map(w, b->handle, &id, 1);
		if (r)
			return oops(w, "MAP_MEMORY_TO_GPU of %s: %s", bo_name(b), strerror(-r));
	}
	r = copier_attach(*c, w, b, &t);
	if (r)
		return oops(w, "filling %s: %s", bo_name(b), copier_error());
	for (uint64_t off = 0; !r && off < b->size; off += copier_stage_size(*c)) {
		uint64_t left = b->size - off, len = left < copier_stage_size(*c) ? left : copier_stage_size(*c);

		pattern_fill(w->o.seed, b->index, b->content, b->size, off, copier_stage(*c), len);
		r = copier_copy(*c, &t, off, len, true);
		state_tick(w);
	}
	copier_detach(*c, &t);
	if (map && kfd_unmap(w, b->handle, &id, 1))
		return oops(w, "UNMAP_MEMORY_FROM_GPU of %s", bo_name(b));
	return r ? oops(w, "filling %s: %s", bo_name(b), copier_error()) : 0;
}

int bo_setup_data(struct wl *w)
{
	for (unsigned int i = 0; i < w->nused; i++) {
		struct gpu *g = &w->gpus[i];
		struct copier *c = NULL;
		int r = 0;

		for (unsigned int s = 0; !r && s < w->o.bos.n; s++) {
			struct bo_spec *spec = &w->o.bos.specs[s];

			if (spec->gpu >= 0 && (unsigned int)spec->gpu != i)
				continue;
			for (unsigned int n = 0; !r && n < spec->count; n++) {
				struct bo *b = bo_new(w, g, spec->kind, spec->size, spec->opts, ROLE_DATA, 0);

				if (!b) {
					r = -1;
					break;
				}
				b->index = w->data_index++;
				b->content = content_of(spec, n);
				r = b->cpu ? fill_by_cpu(w, b) : fill_by_sdma(w, b, &c);
			}
		}
		copier_close(c);
		if (r)
			return r;
	}
	return 0;
}
