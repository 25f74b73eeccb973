// SPDX-License-Identifier: GPL-2.0
/*
 * Buffer objects: an array of pages, whatever the domain; the domain is what is accounted and reported.
 * Fresh VRAM holds SIM_POISON, so that a restore that forgets contents is seen; GTT is zero as on the real driver.
 */
#include <linux/mm.h>
#include <linux/highmem.h>
#include <linux/vmalloc.h>
#include <linux/sched/mm.h>
#include <linux/dma-buf.h>
#include <drm/drm_prime.h>
#include <drm/drm_vma_manager.h>
#include "drm_sim.h"

#define SIM_ALLOC_ORDER 9		/* pages are taken in blocks of 2 MiB while there are any */
#define SIM_FAULT_AROUND 32		/* pages mapped by one fault */
#define SIM_MEM_RESERVE (64ul << (20 - PAGE_SHIFT))	/* pages that the virtual machine keeps for everything else */

/* ------------------------------------------------------------------ pages */

static void sim_pages_free(struct page **pages, u64 n)
{
	u64 i;

	for (i = 0; i < n && pages[i]; i++) {
		__free_page(pages[i]);
		if (!(i & 1023))
			cond_resched();
	}
	kvfree(pages);
}

static void sim_page_init(struct page *page, bool poison)
{
	void *p = kmap_local_page(page);

	if (poison)
		memset(p, SIM_POISON, PAGE_SIZE);
	else
		clear_page(p);
	kunmap_local(p);
}

static struct page **sim_pages_alloc(u64 n, bool poison)
{
	const gfp_t big = (GFP_HIGHUSER & ~__GFP_DIRECT_RECLAIM) | __GFP_NOWARN | __GFP_NORETRY;
	const gfp_t one = GFP_HIGHUSER | __GFP_NOWARN | __GFP_RETRY_MAYFAIL;
	struct page **pages, *p;
	unsigned int order = SIM_ALLOC_ORDER, k;
	u64 i = 0;

	/* Refuse what would drive the machine into the OOM killer: a device says "no memory", it does not kill. */
	if (n + SIM_MEM_RESERVE > (u64)max(si_mem_available(), 0l))
		return ERR_PTR(-ENOMEM);
	pages = kvcalloc(n, sizeof(*pages), GFP_KERNEL | __GFP_NOWARN);
	if (!pages)
		return ERR_PTR(-ENOMEM);
	while (i < n) {
		while (order && (1ull << order) > n - i)
			order--;
		p = alloc_pages(order ? big : one, order);
		if (!p && order) {
			order = order > 3 ? order - 3 : 0;
			continue;
		}
		if (!p || fatal_signal_pending(current)) {
			if (p)
				__free_pages(p, order);
			sim_pages_free(pages, n);
			return ERR_PTR(-ENOMEM);
		}
		split_page(p, order);
		for (k = 0; k < (1u << order); k++) {
			sim_page_init(p + k, poison);
			pages[i++] = p + k;
		}
		cond_resched();
	}
	return pages;
}

/* ------------------------------------------------------------------ accounting */

static bool sim_vram_take(struct sim_gpu *gpu, u64 size)
{
	bool ok;

	mutex_lock(&gpu->lock);
	ok = size <= gpu->vram_total && gpu->vram_used <= gpu->vram_total - size;
	if (ok)
		gpu->vram_used += size;
	mutex_unlock(&gpu->lock);
	return ok;
}

static void sim_vram_give(struct sim_gpu *gpu, u64 size)
{
	mutex_lock(&gpu->lock);
	gpu->vram_used -= size;
	mutex_unlock(&gpu->lock);
}

/* The real driver lets GTT take half of the machine's memory. */
u64 sim_gtt_limit(void)
{
	return (u64)totalram_pages() / 2 << PAGE_SHIFT;
}

static bool sim_gtt_take(struct sim_gpu *gpu, u64 size)
{
	s64 limit = sim_gtt_limit();

	if (size > limit)
		return false;
	if (atomic64_add_return(size, &gpu->gtt_used) <= limit)
		return true;
	atomic64_sub(size, &gpu->gtt_used);
	return false;
}

/* ------------------------------------------------------------------ create and free */

static struct sim_bo *sim_bo_alloc(struct sim_gpu *gpu, u64 size)
{
	struct sim_bo *bo = kzalloc(sizeof(*bo), GFP_KERNEL);
	int r;

	if (!bo)
		return ERR_PTR(-ENOMEM);
	mutex_init(&bo->lock);
	bo->gpu = gpu;
	bo->base.funcs = &sim_gem_funcs;
	drm_gem_private_object_init(&gpu->drm, &bo->base, size);
	/* From the start, as mappings through a dma-buf and through the node count page offsets from it. */
	r = drm_gem_create_mmap_offset(&bo->base);
	if (r) {
		drm_gem_object_release(&bo->base);
		kfree(bo);
		return ERR_PTR(r);
	}
	return bo;
}

static void sim_bo_unaccount(struct sim_bo *bo)
{
	if (bo->origin || bo->userptr)
		return;
	if (bo->domain == SIM_DOMAIN_VRAM)
		sim_vram_give(bo->gpu, bo->base.size);
	else
		atomic64_sub(bo->base.size, &bo->gpu->gtt_used);
	if (bo->file_gtt_account)
		atomic64_sub(bo->base.size, &bo->gpu->cnt_gtt_bytes);
}

struct sim_bo *sim_bo_create(struct sim_gpu *gpu, u64 size, u32 domain, u64 flags)
{
	struct sim_bo *bo;
	struct page **pages;

	if (!size)
		return ERR_PTR(-EINVAL);
	if (size > (u64)LONG_MAX - PAGE_SIZE)
		return ERR_PTR(-ENOMEM);
	size = PAGE_ALIGN(size);
	if ((domain & SIM_DOMAIN_VRAM) && sim_vram_take(gpu, size))
		domain = SIM_DOMAIN_VRAM;
	else if ((domain & ~SIM_DOMAIN_VRAM) && sim_gtt_take(gpu, size))
		domain = domain & SIM_DOMAIN_GTT ? SIM_DOMAIN_GTT : domain & ~SIM_DOMAIN_VRAM;
	else
		return ERR_PTR(-ENOMEM);

	bo = sim_bo_alloc(gpu, size);
	if (IS_ERR(bo)) {
		if (domain == SIM_DOMAIN_VRAM)
			sim_vram_give(gpu, size);
		else
			atomic64_sub(size, &gpu->gtt_used);
		return bo;
	}
	bo->domain = domain;
	bo->preferred = domain;
	bo->flags = flags;
	pages = sim_pages_alloc(size >> PAGE_SHIFT,
				domain == SIM_DOMAIN_VRAM && !(flags & AMDGPU_GEM_CREATE_VRAM_CLEARED));
	if (IS_ERR(pages)) {
		sim_bo_put(bo);
		return ERR_CAST(pages);
	}
	bo->pages = pages;
	return bo;
}

struct sim_bo *sim_bo_wrap(struct sim_gpu *gpu, struct sim_bo *origin, struct dma_buf *buf)
{
	struct sim_bo *bo = sim_bo_alloc(gpu, origin->base.size);

	if (IS_ERR(bo))
		return bo;
	bo->domain = SIM_DOMAIN_GTT;
	bo->preferred = SIM_DOMAIN_GTT;
	bo->flags = origin->flags & ~(u64)AMDGPU_GEM_CREATE_VM_ALWAYS_VALID;
	bo->origin = sim_bo_get(origin);
	bo->pages = origin->pages;
	get_dma_buf(buf);
	bo->import_buf = buf;
	return bo;
}

static void sim_bo_free(struct drm_gem_object *obj)
{
	struct sim_bo *bo = gem_to_sim_bo(obj);

	sim_bo_unaccount(bo);
	if (bo->userptr) {
		if (bo->notifier.mm)
			mmu_interval_notifier_remove(&bo->notifier);
		sim_bo_unpopulate(bo);
		kvfree(bo->pages);
		mmdrop(bo->mm);
	} else if (!bo->origin && bo->pages) {
		sim_pages_free(bo->pages, bo->base.size >> PAGE_SHIFT);
	}
	drm_gem_object_release(&bo->base);
	if (bo->import_buf)
		dma_buf_put(bo->import_buf);
	sim_bo_put(bo->origin);
	mutex_destroy(&bo->lock);
	kfree(bo);
}

/* ------------------------------------------------------------------ user memory */

static bool sim_userptr_invalidate(struct mmu_interval_notifier *mni, const struct mmu_notifier_range *range,
				   unsigned long cur_seq)
{
	struct sim_bo *bo = container_of(mni, struct sim_bo, notifier);

	/* No lock of ours: the caller holds mmap_lock, and whoever pins pages waits for that. */
	mmu_interval_set_seq(mni, cur_seq);
	if (range->event != MMU_NOTIFY_SOFT_DIRTY && range->event != MMU_NOTIFY_PROTECTION_PAGE)
		WRITE_ONCE(bo->stale, true);
	return true;
}

static const struct mmu_interval_notifier_ops sim_userptr_ops = { .invalidate = sim_userptr_invalidate };

struct sim_bo *sim_bo_create_userptr(struct sim_gpu *gpu, struct mm_struct *mm, unsigned long addr, u64 size, bool write)
{
	struct sim_bo *bo;
	int r;

	if (!size || (size | addr) & ~PAGE_MASK || addr + size < addr)
		return ERR_PTR(-EINVAL);
	if (size > sim_gtt_limit())
		return ERR_PTR(-ENOMEM);
	bo = sim_bo_alloc(gpu, size);
	if (IS_ERR(bo))
		return bo;
	bo->domain = SIM_DOMAIN_CPU;
	bo->preferred = SIM_DOMAIN_GTT;
	bo->userptr = true;
	bo->user_addr = addr;
	bo->user_write = write;
	mmgrab(mm);
	bo->mm = mm;
	bo->pages = kvcalloc(size >> PAGE_SHIFT, sizeof(*bo->pages), GFP_KERNEL | __GFP_NOWARN);
	r = bo->pages ? mmu_interval_notifier_insert(&bo->notifier, mm, addr, size, &sim_userptr_ops) : -ENOMEM;
	if (r) {
		bo->notifier.mm = NULL;
		sim_bo_put(bo);
		return ERR_PTR(r);
	}
	return bo;
}

static void sim_unpin(struct sim_bo *bo, u64 n)
{
	unpin_user_pages_dirty_lock(bo->pages, n, bo->user_write);
	memset(bo->pages, 0, n * sizeof(*bo->pages));
}

/* The caller holds the address space. */
static int sim_pin(struct sim_bo *bo)
{
	u64 n = bo->base.size >> PAGE_SHIFT, done = 0;
	unsigned int gup = FOLL_LONGTERM | (bo->user_write ? FOLL_WRITE : 0);
	struct vm_area_struct *vma;
	int r = 0, locked;
	long got;

	mmap_read_lock(bo->mm);
	vma = vma_lookup(bo->mm, bo->user_addr);
	if (!vma)
		r = -EFAULT;
	else if (bo->anon_only && vma->vm_file)
		r = -EPERM;
	mmap_read_unlock(bo->mm);
	WRITE_ONCE(bo->stale, false);
	while (!r && done < n) {
		locked = 1;
		mmap_read_lock(bo->mm);
		got = pin_user_pages_remote(bo->mm, bo->user_addr + (done << PAGE_SHIFT), min_t(u64, n - done, 512),
					    gup, bo->pages + done, &locked);
		if (locked)
			mmap_read_unlock(bo->mm);
		if (got > 0)
			done += got;
		else
			r = got == -EINTR || got == -EAGAIN ? got : -EFAULT;
		cond_resched();
	}
	if (r)
		sim_unpin(bo, done);
	return r;
}

int sim_bo_populate(struct sim_bo *bo)
{
	int r = 0;

	if (!bo->userptr)
		return 0;
	mutex_lock(&bo->lock);
	if (bo->populated && !READ_ONCE(bo->stale))
		goto out;
	/* The queues of a process that ends stop a moment after its memory is gone: they keep the old pages. */
	r = mmget_not_zero(bo->mm) ? 0 : -ESRCH;
	if (r)
		goto out;
	if (bo->populated)
		sim_unpin(bo, bo->base.size >> PAGE_SHIFT);
	r = sim_pin(bo);
	bo->populated = !r;
	mmput(bo->mm);
out:
	mutex_unlock(&bo->lock);
	return r;
}

void sim_bo_unpopulate(struct sim_bo *bo)
{
	if (!bo->userptr)
		return;
	mutex_lock(&bo->lock);
	if (bo->populated)
		sim_unpin(bo, bo->base.size >> PAGE_SHIFT);
	bo->populated = false;
	mutex_unlock(&bo->lock);
}

/* ------------------------------------------------------------------ contents */

struct page *sim_bo_page(struct sim_bo *bo, u64 off, bool *put)
{
	struct page *page;

	*put = false;
	if (off >= bo->base.size)
		return NULL;
	if (!bo->userptr)
		return bo->pages[off >> PAGE_SHIFT];
	mutex_lock(&bo->lock);
	page = bo->pages[off >> PAGE_SHIFT];
	if (page)
		get_page(page);
	mutex_unlock(&bo->lock);
	*put = page;
	return page;
}

/* Aligned words go as one access each, as user space polls fences while they are written. */
void sim_copy_bytes(void *dst, const void *src, size_t len)
{
	if (len == 4 && !(((unsigned long)dst | (unsigned long)src) & 3))
		WRITE_ONCE(*(u32 *)dst, READ_ONCE(*(const u32 *)src));
	else if (len == 8 && !(((unsigned long)dst | (unsigned long)src) & 7))
		WRITE_ONCE(*(u64 *)dst, READ_ONCE(*(const u64 *)src));
	else if (len == PAGE_SIZE)
		copy_page(dst, (void *)src);
	else
		memmove(dst, src, len);
}

static int sim_bo_access(struct sim_bo *bo, u64 off, void *buf, u64 len, bool write)
{
	u64 n;

	if (off > bo->base.size || len > bo->base.size - off)
		return -EINVAL;
	for (; len; off += n, buf += n, len -= n) {
		bool put;
		struct page *page = sim_bo_page(bo, off, &put);
		void *p;

		if (!page)
			return -EFAULT;
		n = min_t(u64, len, PAGE_SIZE - offset_in_page(off));
		p = kmap_local_page(page);
		if (write)
			sim_copy_bytes(p + offset_in_page(off), buf, n);
		else
			sim_copy_bytes(buf, p + offset_in_page(off), n);
		kunmap_local(p);
		if (put)
			put_page(page);
	}
	return 0;
}

int sim_bo_read(struct sim_bo *bo, u64 off, void *dst, u64 len)
{
	return sim_bo_access(bo, off, dst, len, false);
}

int sim_bo_write(struct sim_bo *bo, u64 off, const void *src, u64 len)
{
	return sim_bo_access(bo, off, (void *)src, len, true);
}

int sim_bo_fill(struct sim_bo *bo, u8 byte)
{
	u64 off;

	for (off = 0; off < bo->base.size; off += PAGE_SIZE) {
		bool put;
		struct page *page = sim_bo_page(bo, off, &put);
		void *p;

		if (!page)
			return -EFAULT;
		p = kmap_local_page(page);
		memset(p, byte, PAGE_SIZE);
		kunmap_local(p);
		if (put)
			put_page(page);
		cond_resched();
	}
	return 0;
}

/* ------------------------------------------------------------------ CPU mappings */

static vm_fault_t sim_bo_fault(struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;
	struct sim_bo *bo = gem_to_sim_bo(vma->vm_private_data);
	/* A mapping may have been split: count from the BO's own start, not from this VMA's. */
	u64 first = vmf->pgoff - drm_vma_node_start(&bo->base.vma_node), n, i;
	vm_fault_t r;

	n = bo->base.size >> PAGE_SHIFT;
	if (first >= n || bo->userptr)
		return VM_FAULT_SIGBUS;
	n = min3((u64)SIM_FAULT_AROUND, n - first, (u64)(vma->vm_end - vmf->address) >> PAGE_SHIFT);
	r = vmf_insert_pfn(vma, vmf->address, page_to_pfn(bo->pages[first]));
	for (i = 1; r == VM_FAULT_NOPAGE && i < n; i++)
		if (vmf_insert_pfn(vma, vmf->address + (i << PAGE_SHIFT), page_to_pfn(bo->pages[first + i])) != VM_FAULT_NOPAGE)
			break;
	return r;
}

/* ptrace and /proc/PID/mem reach PFN mappings only through this. */
static int sim_bo_vm_access(struct vm_area_struct *vma, unsigned long addr, void *buf, int len, int write)
{
	struct sim_bo *bo = gem_to_sim_bo(vma->vm_private_data);
	u64 off = addr - vma->vm_start + ((vma->vm_pgoff - drm_vma_node_start(&bo->base.vma_node)) << PAGE_SHIFT);

	if (len < 1 || off >= bo->base.size)
		return -EINVAL;
	len = min_t(u64, len, bo->base.size - off);
	return sim_bo_access(bo, off, buf, len, write) ?: len;
}

static const struct vm_operations_struct sim_bo_vm_ops = {
	.open = drm_gem_vm_open,
	.close = drm_gem_vm_close,
	.fault = sim_bo_fault,
	.access = sim_bo_vm_access,
};

static int sim_gem_mmap(struct drm_gem_object *obj, struct vm_area_struct *vma)
{
	struct sim_bo *bo = gem_to_sim_bo(obj);

	if (bo->userptr || (bo->flags & AMDGPU_GEM_CREATE_NO_CPU_ACCESS))
		return -EPERM;
	/*
	 * Thunks map private PROT_NONE views for debuggers. Such a mapping can never be written once VM_MAYWRITE is
	 * gone, so it needs no copy-on-write; any other private writable mapping is refused.
	 */
	if (is_cow_mapping(vma->vm_flags) && !(vma->vm_flags & VM_ACCESS_FLAGS))
		vm_flags_clear(vma, VM_MAYWRITE);
	if (is_cow_mapping(vma->vm_flags))
		return -EINVAL;
	vm_flags_set(vma, VM_IO | VM_PFNMAP | VM_DONTEXPAND | VM_DONTDUMP);
	vma->vm_ops = &sim_bo_vm_ops;
	return 0;
}

int sim_bo_mmap_offset(struct sim_bo *bo, u64 *offset)
{
	*offset = drm_vma_node_offset_addr(&bo->base.vma_node);
	return 0;
}

/* ------------------------------------------------------------------ GEM hooks */

static void sim_gem_close(struct drm_gem_object *obj, struct drm_file *file)
{
	struct sim_fpriv *fp = file->driver_priv;

	if (!fp)
		return;
	/* The real driver orders the unmapping behind the submissions that may still use it. */
	sim_vm_wait_jobs(fp->vm, gem_to_sim_bo(obj));
	sim_vm_unmap_gem(fp->vm, gem_to_sim_bo(obj));
}

static struct sg_table *sim_gem_sg_table(struct drm_gem_object *obj)
{
	return drm_prime_pages_to_sg(obj->dev, gem_to_sim_bo(obj)->pages, obj->size >> PAGE_SHIFT);
}

const struct drm_gem_object_funcs sim_gem_funcs = {
	.free = sim_bo_free,
	.close = sim_gem_close,
	.export = sim_gem_export,
	.get_sg_table = sim_gem_sg_table,
	.mmap = sim_gem_mmap,
	.vm_ops = &sim_bo_vm_ops,
};
