// SPDX-License-Identifier: GPL-2.0
/* Memory of a process: buffer objects with a handle, and where they are mapped. */
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <uapi/drm/amdgpu_drm.h>
#include "kfd.h"

#define FLAG(name) KFD_IOC_ALLOC_MEM_FLAGS_##name

struct sim_mem *sim_mem_find(struct sim_pdd *pdd, u32 nr)
{
	return nr > INT_MAX ? NULL : idr_find(&pdd->mems, nr);
}

/* Objects at or below the bottom of the address range are the driver's own; address 0 means "none". */
bool sim_mem_dumped(const struct sim_mem *mem)
{
	return !mem->va || mem->va > SIM_GPUVM_BASE;
}

struct sim_mem *sim_mem_wrap(struct sim_pdd *pdd, struct sim_bo *bo, u64 va, u32 flags)
{
	struct sim_mem *mem = kzalloc(sizeof(*mem), GFP_KERNEL);

	if (!mem)
		return NULL;
	mem->pdd = pdd;
	mem->bo = bo;
	mem->va = va;
	mem->flags = flags;
	sim_bo_kfd_own(bo);
	if (flags & FLAG(VRAM))
		atomic64_add(bo->base.size, &pdd->vram_usage);
	return mem;
}

static struct sim_bo *create_bo(struct sim_pdd *pdd, u64 size, u32 flags, u64 user_addr, bool restoring)
{
	struct sim_bo *bo;
	int r;

	if (flags & FLAG(VRAM)) {
		u64 gem = flags & FLAG(PUBLIC) ? AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED : 0;

		return sim_bo_create(pdd->gpu, size, SIM_DOMAIN_VRAM, gem);
	}
	if (flags & FLAG(GTT))
		return sim_bo_create(pdd->gpu, size, SIM_DOMAIN_GTT, 0);
	if (!(flags & FLAG(USERPTR)))	/* doorbells, MMIO: the pages behind are reached through /dev/kfd */
		return sim_bo_create(pdd->gpu, size, SIM_DOMAIN_CPU, 0);

	if (!PAGE_ALIGNED(user_addr))
		return ERR_PTR(-EINVAL);
	bo = sim_bo_create_userptr(pdd->gpu, pdd->proc->mm, user_addr, size, flags & FLAG(WRITABLE));
	if (IS_ERR(bo) || restoring)
		return bo;
	r = sim_bo_populate(bo);
	if (r) {
		sim_bo_put(bo);
		return ERR_PTR(r);
	}
	return bo;
}

int sim_mem_create(struct sim_pdd *pdd, u64 va, u64 size, u32 flags, u64 *offset, bool restoring,
		   struct sim_mem **out)
{
	u32 kinds = flags & (FLAG(VRAM) | FLAG(GTT) | FLAG(USERPTR) | FLAG(DOORBELL) | FLAG(MMIO_REMAP));
	u64 user_addr = 0;
	struct sim_bo *bo;
	struct sim_mem *mem;
	int r;

	if (!kinds)
		return -EINVAL;
	if (!(kinds & (FLAG(VRAM) | FLAG(GTT))) && (kinds & FLAG(USERPTR))) {
		user_addr = untagged_addr(*offset);
		if (!user_addr)
			return -EINVAL;
	}
	/* Memory of an AQL ring is half of what is asked for, and mapped twice in a row. */
	if (flags & FLAG(AQL_QUEUE_MEM))
		size >>= 1;
	if (!size || size > SIM_GPUVM_LIMIT)
		return size ? -ENOMEM : -EINVAL;
	bo = create_bo(pdd, PAGE_ALIGN(size), flags, user_addr, restoring);
	if (IS_ERR(bo))
		return PTR_ERR(bo);
	r = sim_bo_mmap_offset(bo, offset);
	if (r)
		goto err_bo;
	if (kinds & (FLAG(VRAM) | FLAG(GTT))) {
		r = sim_bo_allow(bo, pdd->drm_file);
		if (r)
			goto err_bo;
	}
	mem = sim_mem_wrap(pdd, bo, va, flags);
	if (!mem) {
		r = -ENOMEM;
		goto err_allow;
	}
	mem->user_addr = user_addr;
	*out = mem;
	return 0;

err_allow:
	if (kinds & (FLAG(VRAM) | FLAG(GTT)))
		sim_bo_revoke(bo, pdd->drm_file);
err_bo:
	sim_bo_put(bo);
	return r;
}

/* By address, so that a mapping which GEM_VA made of the same object stays. */
static void mem_unmap_one(struct sim_mem *mem, struct sim_pdd *pdd)
{
	sim_vm_unmap(pdd->vm, mem->bo, mem->va);
	if (mem->flags & FLAG(AQL_QUEUE_MEM))
		sim_vm_unmap(pdd->vm, mem->bo, mem->va + mem->bo->base.size);
	clear_bit(pdd->index, mem->mapped);
}

void sim_mem_destroy(struct sim_mem *mem)
{
	struct sim_process *p = mem->pdd->proc;
	u32 i;

	for_each_set_bit(i, mem->mapped, p->n_pdds)
		mem_unmap_one(mem, &p->pdds[i]);
	if (mem->flags & (FLAG(VRAM) | FLAG(GTT)))
		sim_bo_revoke(mem->bo, mem->pdd->drm_file);
	if (mem->flags & FLAG(VRAM))
		atomic64_sub(mem->bo->base.size, &mem->pdd->vram_usage);
	sim_bo_kfd_disown(mem->bo);
	sim_bo_put(mem->bo);
	kfree(mem);
}

int sim_mem_map(struct sim_mem *mem, struct sim_pdd *pdd)
{
	u64 size = mem->bo->base.size;
	u32 flags = SIM_VM_R;
	int r;

	if (test_bit(pdd->index, mem->mapped))
		return 0;
	if (mem->flags & FLAG(WRITABLE))
		flags |= SIM_VM_W;
	if (mem->flags & FLAG(EXECUTABLE))
		flags |= SIM_VM_X;
	r = sim_vm_map(pdd->vm, mem->bo, mem->va, 0, size, flags);
	if (r)
		return r;
	if (mem->flags & FLAG(AQL_QUEUE_MEM)) {
		r = sim_vm_map(pdd->vm, mem->bo, mem->va + size, 0, size, flags);
		if (r) {
			sim_vm_unmap(pdd->vm, mem->bo, mem->va);
			return r;
		}
	}
	set_bit(pdd->index, mem->mapped);
	return 0;
}

int sim_mem_unmap(struct sim_mem *mem, struct sim_pdd *pdd)
{
	if (!test_bit(pdd->index, mem->mapped))
		return -EINVAL;
	if (sim_qbuf_in_use(pdd, mem->bo))
		return -EBUSY;
	mem_unmap_one(mem, pdd);
	return 0;
}

void sim_pdd_free_mems(struct sim_pdd *pdd)
{
	struct sim_mem *mem;
	int id;

	idr_for_each_entry(&pdd->mems, mem, id) {
		idr_remove(&pdd->mems, id);
		sim_mem_destroy(mem);
	}
}

/*
 * Pages for the userptr objects that have none, or whose range was mapped anew since. The result is the
 * last error; what could be taken is taken.
 */
int sim_process_take_user_pages(struct sim_process *p, bool only_stale)
{
	struct sim_mem *mem;
	int id, r, bad = 0;
	u32 i;

	for (i = 0; i < p->n_pdds; i++) {
		idr_for_each_entry(&p->pdds[i].mems, mem, id) {
			if (!mem->bo->userptr || (only_stale && !READ_ONCE(mem->bo->stale)))
				continue;
			r = sim_bo_populate(mem->bo);
			if (r)
				bad = r;
		}
	}
	return bad;
}
