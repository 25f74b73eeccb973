// SPDX-License-Identifier: GPL-2.0
/*
 * Ioctls about buffer objects: GEM_CREATE, MMAP, USERPTR, OP, METADATA, WAIT_IDLE, LIST_HANDLES.
 */
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <drm/drm_vma_manager.h>
#include "drm_sim.h"

#define SIM_MAX_ENTRIES (1u << 20)	/* of one answer: 32 MiB of entries */

static struct sim_bo *sim_bo_lookup(struct drm_file *file, u32 handle)
{
	struct drm_gem_object *obj = drm_gem_object_lookup(file, handle);

	return obj ? gem_to_sim_bo(obj) : NULL;
}

static u64 sim_gem_settable(void)
{
	return sim_sys.list_handles ? SIM_GEM_SETTABLE_NEW : SIM_GEM_SETTABLE_6_12;
}

/* Charges GTT that a render file allocated to the counters that tests bound. */
static void sim_gem_account(struct sim_bo *bo, struct drm_file *file)
{
	s64 now, peak;

	if (bo->domain != SIM_DOMAIN_GTT)
		return;
	bo->file_gtt_account = file->driver_priv;
	now = atomic64_add_return(bo->base.size, &bo->gpu->cnt_gtt_bytes);
	peak = atomic64_read(&bo->gpu->cnt_gtt_peak);
	while (now > peak && !atomic64_try_cmpxchg(&bo->gpu->cnt_gtt_peak, &peak, now))
		;
}

int sim_ioc_gem_create(struct drm_device *dev, void *data, struct drm_file *file)
{
	struct sim_gpu *gpu = drm_to_gpu(dev);
	union drm_amdgpu_gem_create *args = data;
	u64 flags = args->in.domain_flags, align = args->in.alignment;
	u32 domains = args->in.domains, handle;
	struct sim_bo *bo;
	int r;

	if (flags & ~sim_gem_settable())
		return -EINVAL;
	if (args->in.domains & ~(u64)(AMDGPU_GEM_DOMAIN_MASK))
		return -EINVAL;
	if (domains & (AMDGPU_GEM_DOMAIN_GDS | AMDGPU_GEM_DOMAIN_GWS | AMDGPU_GEM_DOMAIN_OA)) {
		if (flags & AMDGPU_GEM_CREATE_VM_ALWAYS_VALID)
			return -EINVAL;
		flags |= AMDGPU_GEM_CREATE_NO_CPU_ACCESS;
	}
	bo = sim_bo_create(gpu, args->in.bo_size, domains ?: SIM_DOMAIN_CPU, flags);
	/* Video memory is a wish: what finds no room there goes to GTT, unless other domains were named as well. */
	if (IS_ERR(bo) && domains == SIM_DOMAIN_VRAM && PTR_ERR(bo) == -ENOMEM) {
		domains |= SIM_DOMAIN_GTT;
		bo = sim_bo_create(gpu, args->in.bo_size, domains, flags);
	}
	if (IS_ERR(bo))
		return PTR_ERR(bo);
	bo->preferred = domains;
	bo->alignment = align > U32_MAX ? 0 : PAGE_ALIGN(align);
	sim_gem_account(bo, file);
	r = drm_gem_handle_create(file, &bo->base, &handle);
	sim_bo_put(bo);
	if (r)
		return r;
	memset(args, 0, sizeof(*args));
	args->out.handle = handle;
	return 0;
}

int sim_ioc_gem_mmap(struct drm_device *dev, void *data, struct drm_file *file)
{
	union drm_amdgpu_gem_mmap *args = data;
	struct sim_bo *bo = sim_bo_lookup(file, args->in.handle);
	u64 offset;
	int r;

	memset(args, 0, sizeof(*args));
	if (!bo)
		return -ENOENT;
	if (bo->userptr || (bo->flags & AMDGPU_GEM_CREATE_NO_CPU_ACCESS))
		r = -EPERM;
	else
		r = sim_bo_mmap_offset(bo, &offset);
	sim_bo_put(bo);
	if (!r)
		args->out.addr_ptr = offset;
	return r;
}

int sim_ioc_gem_userptr(struct drm_device *dev, void *data, struct drm_file *file)
{
	struct sim_gpu *gpu = drm_to_gpu(dev);
	struct drm_amdgpu_gem_userptr *args = data;
	const u32 known = AMDGPU_GEM_USERPTR_READONLY | AMDGPU_GEM_USERPTR_ANONONLY | AMDGPU_GEM_USERPTR_VALIDATE |
			  AMDGPU_GEM_USERPTR_REGISTER;
	bool write = !(args->flags & AMDGPU_GEM_USERPTR_READONLY);
	struct sim_bo *bo;
	u32 handle;
	int r = 0;

	if (offset_in_page(args->addr | args->size) || args->flags & ~known)
		return -EINVAL;
	/* Memory that the GPU writes needs the notifier that REGISTER asks for. */
	if (write && !(args->flags & AMDGPU_GEM_USERPTR_REGISTER))
		return -EACCES;
	bo = sim_bo_create_userptr(gpu, current->mm, args->addr, args->size, write);
	if (IS_ERR(bo))
		return PTR_ERR(bo);
	bo->anon_only = args->flags & AMDGPU_GEM_USERPTR_ANONONLY;
	if (args->flags & AMDGPU_GEM_USERPTR_VALIDATE)
		r = sim_bo_populate(bo);
	if (!r)
		r = drm_gem_handle_create(file, &bo->base, &handle);
	sim_bo_put(bo);
	if (r)
		return r;
	atomic64_inc(&gpu->cnt_userptr);
	args->handle = handle;
	return 0;
}

static int sim_gem_mapping_info(struct sim_fpriv *fp, struct sim_bo *bo, struct sim_gem_op *args)
{
	struct sim_vm_entry *e;
	u32 n;
	int r = 0;

	if (args->num_entries > SIM_MAX_ENTRIES)
		return -ENOMEM;
	e = kvcalloc(args->num_entries ?: 1, sizeof(*e), GFP_KERNEL);
	if (!e)
		return -ENOMEM;
	n = sim_vm_entries(fp->vm, bo, e, args->num_entries);
	/* Too small an array gets the count and nothing else. */
	if (n && n <= args->num_entries && copy_to_user(u64_to_user_ptr(args->value), e, n * sizeof(*e)))
		r = -EFAULT;
	args->num_entries = n;
	kvfree(e);
	return r;
}

int sim_ioc_gem_op(struct drm_device *dev, void *data, struct drm_file *file)
{
	struct sim_gem_op *args = data;
	struct drm_amdgpu_gem_create_in info = { };
	struct sim_bo *bo;
	int r = 0;

	if (args->padding)
		return -EINVAL;
	bo = sim_bo_lookup(file, args->handle);
	if (!bo)
		return -ENOENT;
	switch (args->op) {
	case AMDGPU_GEM_OP_GET_GEM_CREATE_INFO:
		info.bo_size = bo->base.size;
		info.alignment = bo->alignment;
		info.domains = bo->preferred;
		info.domain_flags = bo->flags;
		if (copy_to_user(u64_to_user_ptr(args->value), &info, sizeof(info)))
			r = -EFAULT;
		break;
	case AMDGPU_GEM_OP_SET_PLACEMENT:
		if (bo->userptr)
			r = -EPERM;
		else if (bo->origin && (args->value & SIM_DOMAIN_VRAM))
			r = -EINVAL;
		else
			bo->preferred = args->value & (SIM_DOMAIN_CPU | SIM_DOMAIN_GTT | SIM_DOMAIN_VRAM);
		break;
	case SIM_GEM_OP_GET_MAPPING_INFO:
		r = sim_sys.list_handles ? sim_gem_mapping_info(file->driver_priv, bo, args) : -EINVAL;
		break;
	default:
		r = -EINVAL;
	}
	sim_bo_put(bo);
	return r;
}

int sim_ioc_gem_metadata(struct drm_device *dev, void *data, struct drm_file *file)
{
	struct drm_amdgpu_gem_metadata *args = data;
	struct sim_bo *bo = sim_bo_lookup(file, args->handle);
	int r = 0;

	BUILD_BUG_ON(sizeof(bo->metadata) != sizeof(args->data.data));
	if (!bo)
		return -ENOENT;
	mutex_lock(&bo->lock);
	if (args->op == AMDGPU_GEM_METADATA_OP_GET_METADATA) {
		args->data.tiling_info = bo->tiling;
		args->data.flags = bo->metadata_flags;
		args->data.data_size_bytes = bo->metadata_size;
		memcpy(args->data.data, bo->metadata, bo->metadata_size);
	} else if (args->op == AMDGPU_GEM_METADATA_OP_SET_METADATA) {
		if (args->data.data_size_bytes > sizeof(bo->metadata)) {
			r = -EINVAL;
		} else {
			bo->tiling = args->data.tiling_info;
			bo->metadata_flags = args->data.flags;
			bo->metadata_size = args->data.data_size_bytes;
			memcpy(bo->metadata, args->data.data, bo->metadata_size);
		}
	}
	mutex_unlock(&bo->lock);
	sim_bo_put(bo);
	return r;
}

int sim_ioc_gem_wait_idle(struct drm_device *dev, void *data, struct drm_file *file)
{
	union drm_amdgpu_gem_wait_idle *args = data;
	long timeout = sim_abs_timeout(args->in.timeout);
	struct sim_bo *bo = sim_bo_lookup(file, args->in.handle);
	long r;

	if (!bo)
		return -ENOENT;
	r = wait_event_interruptible_timeout(drm_to_gpu(dev)->idle, !atomic_read(&bo->busy), timeout);
	sim_bo_put(bo);
	if (r < 0)
		return r;
	memset(args, 0, sizeof(*args));
	args->out.status = r == 0;
	return 0;
}

int sim_ioc_gem_list_handles(struct drm_device *dev, void *data, struct drm_file *file)
{
	struct sim_list_handles *args = data;
	struct sim_list_entry *e;
	struct drm_gem_object *obj;
	u32 n = 0, i = 0;
	int id, r = 0;

	if (!sim_sys.list_handles)
		return -EINVAL;
	spin_lock(&file->table_lock);
	idr_for_each_entry(&file->object_idr, obj, id)
		n++;
	spin_unlock(&file->table_lock);
	if (args->num_entries < n || !n) {
		args->num_entries = n;
		return 0;
	}
	e = kvcalloc(n, sizeof(*e), GFP_KERNEL);
	if (!e)
		return -ENOMEM;
	spin_lock(&file->table_lock);
	idr_for_each_entry(&file->object_idr, obj, id) {
		struct sim_bo *bo = gem_to_sim_bo(obj);

		if (!obj)
			continue;
		if (i == n) {	/* another thread made one in between */
			r = -EAGAIN;
			break;
		}
		e[i].gem_handle = id;
		e[i].flags = !!bo->origin;
		e[i].size = bo->base.size;
		e[i].preferred_domains = bo->preferred;
		e[i].alloc_flags = bo->flags & SIM_GEM_SETTABLE_NEW;
		e[i++].alignment = bo->alignment >> PAGE_SHIFT;
	}
	spin_unlock(&file->table_lock);
	args->num_entries = i;
	if (!r && copy_to_user(u64_to_user_ptr(args->entries), e, i * sizeof(*e)))
		r = -EFAULT;
	kvfree(e);
	return r;
}

int sim_ioc_gem_va(struct drm_device *dev, void *data, struct drm_file *file)
{
	const u32 page = AMDGPU_VM_DELAY_UPDATE | AMDGPU_VM_PAGE_READABLE | AMDGPU_VM_PAGE_WRITEABLE |
			 AMDGPU_VM_PAGE_EXECUTABLE | AMDGPU_VM_MTYPE_MASK | AMDGPU_VM_PAGE_NOALLOC;
	const u32 prt = AMDGPU_VM_DELAY_UPDATE | AMDGPU_VM_PAGE_PRT;
	struct sim_fpriv *fp = file->driver_priv;
	struct drm_amdgpu_gem_va *args = data;
	u64 va = args->va_address, end;
	struct sim_bo *bo = NULL;
	u32 flags = SIM_VM_GEM;
	int r = 0;

	if (va < SIM_VA_BOTTOM || (va >= SIM_VA_HOLE_START && va < SIM_VA_HOLE_END))
		return -EINVAL;
	va &= SIM_VA_MASK;
	if (check_add_overflow(va, args->map_size, &end) || end > sim_vm_limit(fp->gpu))
		return -EINVAL;
	if ((args->flags & ~page) && (args->flags & ~prt))
		return -EINVAL;
	if (args->operation < AMDGPU_VA_OP_MAP || args->operation > AMDGPU_VA_OP_REPLACE)
		return -EINVAL;
	if (args->operation != AMDGPU_VA_OP_CLEAR) {
		/* Pages without memory behind them are for sparse textures: nobody here needs them. */
		if (args->flags & AMDGPU_VM_PAGE_PRT)
			return -EINVAL;
		bo = sim_bo_lookup(file, args->handle);
		if (!bo)
			return -ENOENT;
	}
	if (args->flags & AMDGPU_VM_PAGE_READABLE)
		flags |= SIM_VM_R;
	if (args->flags & AMDGPU_VM_PAGE_WRITEABLE)
		flags |= SIM_VM_W;
	if (args->flags & AMDGPU_VM_PAGE_EXECUTABLE)
		flags |= SIM_VM_X;
	/* What was submitted before still sees the old mappings. */
	if (args->operation != AMDGPU_VA_OP_MAP)
		sim_vm_wait_jobs(fp->vm, args->operation == AMDGPU_VA_OP_UNMAP ? bo : NULL);
	switch (args->operation) {
	case AMDGPU_VA_OP_MAP:
		/* The call's own rule: sizes are whole pages even at the end of the object. */
		r = offset_in_page(args->map_size) ? -EINVAL :
			sim_vm_map(fp->vm, bo, va, args->offset_in_bo, args->map_size, flags);
		break;
	case AMDGPU_VA_OP_UNMAP:
		r = sim_vm_unmap(fp->vm, bo, va);
		break;
	case AMDGPU_VA_OP_CLEAR:
		r = sim_vm_clear(fp->vm, va, args->map_size);
		break;
	case AMDGPU_VA_OP_REPLACE:
		r = offset_in_page(args->map_size) ? -EINVAL :
			sim_vm_replace(fp->vm, bo, va, args->offset_in_bo, args->map_size, flags);
		break;
	}
	sim_bo_put(bo);
	return r;
}
