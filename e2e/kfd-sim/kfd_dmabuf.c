// SPDX-License-Identifier: GPL-2.0
/* The calls about dma-bufs: GET_DMABUF_INFO, IMPORT_DMABUF, EXPORT_DMABUF. */
#include <linux/dma-buf.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <uapi/drm/amdgpu_drm.h>
#include "kfd.h"

#define FLAG(name) KFD_IOC_ALLOC_MEM_FLAGS_##name

static int domain_flags(const struct sim_bo *bo, u32 *flags)
{
	if (bo->userptr)
		return -EINVAL;
	if (bo->domain & SIM_DOMAIN_VRAM)
		*flags = FLAG(VRAM);
	else if (bo->domain & SIM_DOMAIN_GTT)
		*flags = FLAG(GTT);
	else
		return -EINVAL;
	return 0;
}

static int copy_metadata(struct kfd_ioctl_get_dmabuf_info_args *a, struct sim_bo *bo)
{
	u32 have = bo->metadata_size;

	if (a->metadata_ptr && a->metadata_size < have)
		return -EINVAL;
	a->metadata_size = have;
	if (a->metadata_ptr && copy_to_user(u64_to_user_ptr(a->metadata_ptr), bo->metadata, have))
		return -EFAULT;
	return 0;
}

int sim_ioctl_get_dmabuf_info(struct sim_process *p, void *data, u32 size)
{
	struct kfd_ioctl_get_dmabuf_info_args *a = data;
	struct dma_buf *buf;
	struct sim_bo *bo;
	u32 flags;
	int r;

	if (!sim_gpu_count())
		return -EINVAL;
	buf = dma_buf_get(a->dmabuf_fd);
	if (IS_ERR(buf))
		return PTR_ERR(buf);
	bo = sim_bo_of_dmabuf(buf);
	dma_buf_put(buf);
	if (IS_ERR(bo))
		return PTR_ERR(bo);
	r = domain_flags(bo, &flags);
	if (r)
		goto out;
	a->size = bo->base.size;
	a->gpu_id = bo->gpu->desc->gpu_id;
	a->flags = flags;
	if (bo->flags & AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED)
		a->flags |= FLAG(PUBLIC);
	r = copy_metadata(a, bo);
out:
	sim_bo_put(bo);
	return r;
}

static int import_locked(struct sim_process *p, struct kfd_ioctl_import_dmabuf_args *a, struct dma_buf *buf)
{
	struct sim_pdd *pdd = sim_pdd_by_user_id(p, a->gpu_id);
	struct sim_mem *mem;
	struct sim_bo *bo;
	u32 flags;
	int r, nr;

	if (!pdd)
		return -EINVAL;
	if (!pdd->vm)
		return -ENODEV;
	bo = sim_bo_import(pdd->gpu, buf);
	if (IS_ERR(bo))
		return PTR_ERR(bo);
	r = domain_flags(bo, &flags);
	if (r)
		goto err_bo;
	r = sim_bo_allow(bo, pdd->drm_file);
	if (r)
		goto err_bo;
	mem = sim_mem_wrap(pdd, bo, a->va_addr, flags | FLAG(WRITABLE) | FLAG(EXECUTABLE));
	if (!mem) {
		r = -ENOMEM;
		goto err_allow;
	}
	/* From here on mem owns the object. */
	nr = idr_alloc(&pdd->mems, mem, 1, 0, GFP_KERNEL);
	if (nr < 0) {
		sim_mem_destroy(mem);
		return -EFAULT;
	}
	a->handle = SIM_HANDLE(a->gpu_id, nr);
	return 0;

err_allow:
	sim_bo_revoke(bo, pdd->drm_file);
err_bo:
	sim_bo_put(bo);
	return r;
}

int sim_ioctl_import_dmabuf(struct sim_process *p, void *data, u32 size)
{
	struct kfd_ioctl_import_dmabuf_args *a = data;
	struct dma_buf *buf = dma_buf_get(a->dmabuf_fd);
	int r;

	if (IS_ERR(buf))
		return PTR_ERR(buf);
	mutex_lock(&p->lock);
	r = import_locked(p, a, buf);
	mutex_unlock(&p->lock);
	dma_buf_put(buf);
	return r;
}

int sim_ioctl_export_dmabuf(struct sim_process *p, void *data, u32 size)
{
	struct kfd_ioctl_export_dmabuf_args *a = data;
	struct sim_pdd *pdd;
	struct sim_mem *mem = NULL;
	struct dma_buf *buf;
	int fd;

	mutex_lock(&p->lock);
	/* The kernel looks the handle's gpu id up as an ACTUAL id here, which fails after a restore elsewhere. */
	pdd = sim_pdd_by_gpu(p, sim_gpu_by_actual_id(SIM_HANDLE_GPU(a->handle)));
	if (pdd)
		mem = sim_mem_find(pdd, SIM_HANDLE_NR(a->handle));
	if (!mem || !(mem->flags & (FLAG(VRAM) | FLAG(GTT)))) {
		mutex_unlock(&p->lock);
		return -EINVAL;
	}
	buf = sim_bo_export(mem->bo, mem->flags & FLAG(WRITABLE));
	mutex_unlock(&p->lock);
	if (IS_ERR(buf))
		return PTR_ERR(buf);
	fd = dma_buf_fd(buf, a->flags);
	if (fd < 0) {
		dma_buf_put(buf);
		return fd;
	}
	a->dmabuf_fd = fd;
	return 0;
}
