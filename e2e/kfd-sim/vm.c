// SPDX-License-Identifier: GPL-2.0
/*
 * GPU address spaces: one per open render file, an interval tree of mappings. KFD maps into the same one that GEM_VA
 * uses. Every access is translated mapping by mapping and page by page and is checked against the mapping's flags.
 */
#include <linux/highmem.h>
#include <linux/interval_tree.h>
#include <linux/slab.h>
#include <drm/drm_vma_manager.h>
#include "drm_sim.h"

#define SIM_COPY_STEP (256u << 10)	/* bytes copied under one hold of vm->lock */

/* ------------------------------------------------------------------ life */

struct sim_vm *sim_vm_create(struct sim_gpu *gpu, u32 pasid)
{
	struct sim_vm *vm = kzalloc(sizeof(*vm), GFP_KERNEL);

	if (!vm)
		return NULL;
	kref_init(&vm->ref);
	mutex_init(&vm->lock);
	vm->gpu = gpu;
	vm->maps = RB_ROOT_CACHED;
	vm->pasid = pasid;
	vm->own_pasid = pasid;
	return vm;
}

static void sim_mapping_del(struct sim_vm *vm, struct sim_mapping *m)
{
	interval_tree_remove(&m->it, &vm->maps);
	sim_bo_put(m->bo);
	kfree(m);
}

static void sim_vm_free(struct kref *ref)
{
	struct sim_vm *vm = container_of(ref, struct sim_vm, ref);
	struct interval_tree_node *it;

	while ((it = interval_tree_iter_first(&vm->maps, 0, ULONG_MAX)))
		sim_mapping_del(vm, container_of(it, struct sim_mapping, it));
	mutex_destroy(&vm->lock);
	kfree(vm);
}

struct sim_vm *sim_vm_get(struct sim_vm *vm)
{
	kref_get(&vm->ref);
	return vm;
}

void sim_vm_put(struct sim_vm *vm)
{
	if (vm)
		kref_put(&vm->ref, sim_vm_free);
}

int sim_vm_make_compute(struct sim_vm *vm, u32 pasid)
{
	int r = 0;

	mutex_lock(&vm->lock);
	if (vm->compute) {
		r = -EINVAL;
	} else {
		vm->compute = true;
		vm->pasid = pasid;
	}
	mutex_unlock(&vm->lock);
	return r;
}

void sim_vm_release_compute(struct sim_vm *vm)
{
	mutex_lock(&vm->lock);
	vm->compute = false;
	vm->pasid = vm->own_pasid;
	mutex_unlock(&vm->lock);
}

/* ------------------------------------------------------------------ mappings */

u64 sim_vm_limit(struct sim_gpu *gpu)
{
	if (gpu->desc->family < AMDGPU_FAMILY_AI)
		return SIM_VA_HOLE_START;
	return SIM_VA_MASK + 1 - SIM_VA_TOP_RESERVED;
}

struct sim_mapping *sim_vm_find(struct sim_vm *vm, u64 va)
{
	struct interval_tree_node *it = interval_tree_iter_first(&vm->maps, va, va);

	return it ? container_of(it, struct sim_mapping, it) : NULL;
}

static struct sim_mapping *sim_mapping_new(struct sim_bo *bo, u64 va, u64 bo_offset, u64 size, u32 flags)
{
	struct sim_mapping *m = kzalloc(sizeof(*m), GFP_KERNEL);

	if (!m)
		return NULL;
	m->it.start = va;
	m->it.last = va + size - 1;
	m->bo = sim_bo_get(bo);
	m->bo_offset = bo_offset;
	m->flags = flags;
	return m;
}

/* The checks that MAP, REPLACE and CLEAR share; *size is rounded up when it ends at the BO's end. */
static int sim_vm_check(struct sim_vm *vm, struct sim_bo *bo, u64 va, u64 bo_offset, u64 *size)
{
	u64 end;

	if (bo && offset_in_page(*size) && PAGE_ALIGN(*size) + bo_offset == bo->base.size)
		*size = PAGE_ALIGN(*size);
	if (!*size || offset_in_page(va | bo_offset | *size))
		return -EINVAL;
	if (check_add_overflow(va, *size, &end) || end > sim_vm_limit(vm->gpu))
		return -EINVAL;
	if (bo && (check_add_overflow(bo_offset, *size, &end) || end > bo->base.size))
		return -EINVAL;
	return 0;
}

int sim_vm_map(struct sim_vm *vm, struct sim_bo *bo, u64 va, u64 bo_offset, u64 size, u32 flags)
{
	struct sim_mapping *m;
	int r = sim_vm_check(vm, bo, va, bo_offset, &size);

	if (r)
		return r;
	m = sim_mapping_new(bo, va, bo_offset, size, flags);
	if (!m)
		return -ENOMEM;
	mutex_lock(&vm->lock);
	if (interval_tree_iter_first(&vm->maps, m->it.start, m->it.last))
		r = -EINVAL;
	else
		interval_tree_insert(&m->it, &vm->maps);
	mutex_unlock(&vm->lock);
	if (r) {
		sim_bo_put(bo);
		kfree(m);
	}
	return r;
}

int sim_vm_unmap(struct sim_vm *vm, struct sim_bo *bo, u64 va)
{
	struct sim_mapping *m;
	int r = -ENOENT;

	mutex_lock(&vm->lock);
	m = sim_vm_find(vm, va);
	if (m && m->bo == bo && m->it.start == va) {
		sim_mapping_del(vm, m);
		r = 0;
	}
	mutex_unlock(&vm->lock);
	return r;
}

void sim_vm_unmap_bo(struct sim_vm *vm, struct sim_bo *bo)
{
	struct interval_tree_node *it, *next;

	mutex_lock(&vm->lock);
	for (it = interval_tree_iter_first(&vm->maps, 0, ULONG_MAX); it; it = next) {
		next = interval_tree_iter_next(it, 0, ULONG_MAX);
		if (container_of(it, struct sim_mapping, it)->bo == bo)
			sim_mapping_del(vm, container_of(it, struct sim_mapping, it));
	}
	mutex_unlock(&vm->lock);
}

/* The file closes its handle: the record goes with all mappings unless KFD counts on it as well. */
void sim_vm_unmap_gem(struct sim_vm *vm, struct sim_bo *bo)
{
	struct interval_tree_node *it;
	bool kfd = false;

	mutex_lock(&vm->lock);
	for (it = interval_tree_iter_first(&vm->maps, 0, ULONG_MAX); it && !kfd; it = interval_tree_iter_next(it, 0, ULONG_MAX)) {
		struct sim_mapping *m = container_of(it, struct sim_mapping, it);

		kfd = m->bo == bo && !(m->flags & SIM_VM_GEM);
	}
	mutex_unlock(&vm->lock);
	if (!kfd)
		sim_vm_unmap_bo(vm, bo);
}

/* Under vm->lock, with two spare mappings for the case that the range lies inside one mapping. */
static void sim_vm_cut(struct sim_vm *vm, u64 va, u64 last, struct sim_mapping *spare[2])
{
	struct interval_tree_node *it;

	while ((it = interval_tree_iter_first(&vm->maps, va, last))) {
		struct sim_mapping *m = container_of(it, struct sim_mapping, it), *rest;

		interval_tree_remove(it, &vm->maps);
		if (m->it.last > last) {
			rest = spare[1];
			spare[1] = NULL;
			*rest = (struct sim_mapping){ .bo = sim_bo_get(m->bo), .flags = m->flags,
				.bo_offset = m->bo_offset + (last + 1 - m->it.start) };
			rest->it.start = last + 1;
			rest->it.last = m->it.last;
			interval_tree_insert(&rest->it, &vm->maps);
		}
		if (m->it.start < va) {
			m->it.last = va - 1;
			interval_tree_insert(&m->it, &vm->maps);
		} else {
			sim_bo_put(m->bo);
			kfree(m);
		}
	}
}

int sim_vm_clear(struct sim_vm *vm, u64 va, u64 size)
{
	struct sim_mapping *spare[2] = { };
	int r = sim_vm_check(vm, NULL, va, 0, &size);

	if (r)
		return r;
	spare[1] = kzalloc(sizeof(*spare[1]), GFP_KERNEL);
	if (!spare[1])
		return -ENOMEM;
	mutex_lock(&vm->lock);
	sim_vm_cut(vm, va, va + size - 1, spare);
	mutex_unlock(&vm->lock);
	kfree(spare[1]);
	return 0;
}

int sim_vm_replace(struct sim_vm *vm, struct sim_bo *bo, u64 va, u64 bo_offset, u64 size, u32 flags)
{
	struct sim_mapping *spare[2] = { };
	int r = sim_vm_check(vm, bo, va, bo_offset, &size);

	if (r)
		return r;
	spare[0] = sim_mapping_new(bo, va, bo_offset, size, flags);
	spare[1] = kzalloc(sizeof(*spare[1]), GFP_KERNEL);
	if (!spare[0] || !spare[1]) {
		if (spare[0])
			sim_bo_put(bo);
		kfree(spare[0]);
		kfree(spare[1]);
		return -ENOMEM;
	}
	mutex_lock(&vm->lock);
	sim_vm_cut(vm, va, va + size - 1, spare);
	interval_tree_insert(&spare[0]->it, &vm->maps);
	mutex_unlock(&vm->lock);
	kfree(spare[1]);
	return 0;
}

/* Writes up to `max` mappings of the BO in ascending order and returns how many there are. */
u32 sim_vm_entries(struct sim_vm *vm, struct sim_bo *bo, struct sim_vm_entry *out, u32 max)
{
	struct interval_tree_node *it;
	u32 n = 0;

	mutex_lock(&vm->lock);
	for (it = interval_tree_iter_first(&vm->maps, 0, ULONG_MAX); it; it = interval_tree_iter_next(it, 0, ULONG_MAX)) {
		struct sim_mapping *m = container_of(it, struct sim_mapping, it);

		if (m->bo != bo)
			continue;
		if (n < max) {
			out[n].addr = it->start;
			out[n].size = it->last - it->start + 1;
			out[n].offset = m->bo_offset;
			out[n].flags = (m->flags & SIM_VM_R ? AMDGPU_VM_PAGE_READABLE : 0) |
				       (m->flags & SIM_VM_W ? AMDGPU_VM_PAGE_WRITEABLE : 0) |
				       (m->flags & SIM_VM_X ? AMDGPU_VM_PAGE_EXECUTABLE : 0);
		}
		n++;
	}
	mutex_unlock(&vm->lock);
	return n;
}

/* How many mappings in the range are of GEM objects that the submission did not list (the kernel could have moved them). */
u32 sim_vm_unlisted(struct sim_vm *vm, u64 va, u64 len, struct sim_bo_list *list)
{
	struct interval_tree_node *it;
	u32 n = 0, i;

	if (!len)
		return 0;
	mutex_lock(&vm->lock);
	for (it = interval_tree_iter_first(&vm->maps, va, va + len - 1); it; it = interval_tree_iter_next(it, va, va + len - 1)) {
		struct sim_mapping *m = container_of(it, struct sim_mapping, it);

		if (!(m->flags & SIM_VM_GEM) || (m->bo->flags & AMDGPU_GEM_CREATE_VM_ALWAYS_VALID))
			continue;
		for (i = 0; list && i < list->n && list->bos[i] != m->bo; i++)
			;
		n += !list || i == list->n;
	}
	mutex_unlock(&vm->lock);
	return n;
}

/* ------------------------------------------------------------------ access */

/*
 * Walks [va, va + len) under vm->lock, counts what is wrong with it (one fault, one overrun at most) and returns how
 * many bytes from the start are usable.
 */
static u64 sim_vm_probe(struct sim_vm *vm, u64 va, u64 len, u32 need)
{
	u64 pos = va, end = va + len;
	u32 maps = 0;

	if (end < va) {
		atomic64_inc(&vm->gpu->cnt_fault_unmapped);
		return 0;
	}
	while (pos != end) {
		struct sim_mapping *m = sim_vm_find(vm, pos);

		if (!m || (m->flags & need) != need) {
			atomic64_inc(&vm->gpu->cnt_fault_unmapped);
			break;
		}
		if (++maps == 2)
			atomic64_inc(&vm->gpu->cnt_fault_overrun);
		if (m->it.last >= end - 1)
			return len;
		pos = m->it.last + 1;
	}
	return pos - va;
}

struct sim_window {
	struct page *page;
	void *p;
	bool put;
};

/* Maps the page behind `va` into the kernel and lowers *n to what lies in it. Under vm->lock. */
static int sim_vm_open_page(struct sim_vm *vm, u64 va, u32 need, struct sim_window *w, u64 *n)
{
	struct sim_mapping *m = sim_vm_find(vm, va);

	if (!m || (m->flags & need) != need)
		return -EFAULT;
	w->page = sim_bo_page(m->bo, m->bo_offset + (va - m->it.start), &w->put);
	if (!w->page)
		return -EFAULT;
	*n = min_t(u64, *n, PAGE_SIZE - offset_in_page(va));
	w->p = kmap_local_page(w->page) + offset_in_page(va);
	return 0;
}

static void sim_close_page(struct sim_window *w)
{
	kunmap_local(w->p);
	if (w->put)
		put_page(w->page);
}

static int sim_vm_bad(struct sim_vm *vm)
{
	atomic64_inc(&vm->gpu->cnt_fault_unmapped);
	return -EFAULT;
}

static int sim_vm_rw(struct sim_vm *vm, u64 va, void *buf, u64 len, u32 need)
{
	u64 good, n;
	int r = 0;

	mutex_lock(&vm->lock);
	good = sim_vm_probe(vm, va, len, need);
	if (good < len)
		r = -EFAULT;
	for (len = good; len; va += n, buf += n, len -= n) {
		struct sim_window w;

		n = len;
		if (sim_vm_open_page(vm, va, need, &w, &n)) {
			r = sim_vm_bad(vm);
			break;
		}
		if (need & SIM_VM_W)
			sim_copy_bytes(w.p, buf, n);
		else
			sim_copy_bytes(buf, w.p, n);
		sim_close_page(&w);
	}
	mutex_unlock(&vm->lock);
	return r;
}

int sim_vm_read(struct sim_vm *vm, u64 va, void *dst, u64 len)
{
	return sim_vm_rw(vm, va, dst, len, SIM_VM_R);
}

int sim_vm_write(struct sim_vm *vm, u64 va, const void *src, u64 len)
{
	return sim_vm_rw(vm, va, (void *)src, len, SIM_VM_W);
}

static int sim_vm_copy_step(struct sim_vm *vm, u64 dst, u64 src, u64 len)
{
	u64 n;

	for (; len; dst += n, src += n, len -= n) {
		struct sim_window s, d;

		n = len;
		if (sim_vm_open_page(vm, src, SIM_VM_R, &s, &n))
			return sim_vm_bad(vm);
		if (sim_vm_open_page(vm, dst, SIM_VM_W, &d, &n)) {
			sim_close_page(&s);
			return sim_vm_bad(vm);
		}
		sim_copy_bytes(d.p, s.p, n);
		sim_close_page(&d);
		sim_close_page(&s);
	}
	return 0;
}

int sim_vm_copy(struct sim_vm *vm, u64 dst, u64 src, u64 len)
{
	u64 good, n;
	int r = 0;

	mutex_lock(&vm->lock);
	good = min(sim_vm_probe(vm, src, len, SIM_VM_R), sim_vm_probe(vm, dst, len, SIM_VM_W));
	if (good < len)
		r = -EFAULT;
	for (len = good; len; dst += n, src += n, len -= n) {
		n = min_t(u64, len, SIM_COPY_STEP);
		if (sim_vm_copy_step(vm, dst, src, n)) {
			r = -EFAULT;
			break;
		}
		if (len > n) {
			mutex_unlock(&vm->lock);
			cond_resched();
			mutex_lock(&vm->lock);
		}
	}
	mutex_unlock(&vm->lock);
	return r;
}

int sim_vm_fill32(struct sim_vm *vm, u64 va, u32 value, u64 len)
{
	u64 good, n;
	int r = 0;

	if ((va | len) & 3)
		return -EINVAL;
	mutex_lock(&vm->lock);
	good = sim_vm_probe(vm, va, len, SIM_VM_W);
	if (good < len)
		r = -EFAULT;
	for (len = good; len; va += n, len -= n) {
		struct sim_window w;

		n = len;
		if (sim_vm_open_page(vm, va, SIM_VM_W, &w, &n)) {
			r = sim_vm_bad(vm);
			break;
		}
		memset32(w.p, value, n / 4);
		sim_close_page(&w);
	}
	mutex_unlock(&vm->lock);
	return r;
}

int sim_vm_add64(struct sim_vm *vm, u64 va, u64 value)
{
	struct sim_window w;
	u64 n = 8;
	int r = 0;

	if (va & 7)
		return -EINVAL;
	mutex_lock(&vm->lock);
	if (sim_vm_open_page(vm, va, SIM_VM_R | SIM_VM_W, &w, &n)) {
		r = sim_vm_bad(vm);
	} else {
		atomic64_add(value, (atomic64_t *)w.p);
		sim_close_page(&w);
	}
	mutex_unlock(&vm->lock);
	return r;
}
