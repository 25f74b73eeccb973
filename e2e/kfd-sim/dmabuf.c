// SPDX-License-Identifier: GPL-2.0
/*
 * Sharing of buffer objects. One dma-buf per BO as long as anybody holds a GEM handle of it, KFD included. On the same
 * device an import gives the object itself; on another simulated GPU a wrapper of that GPU with the same pages, because
 * the DRM core locks the mutex of the object's device and would lock the wrong one if it got the foreign object.
 */
#include <linux/dma-buf.h>
#include <linux/fs.h>
#include <drm/drm_drv.h>
#include <drm/drm_prime.h>
#include "drm_sim.h"

static int sim_dmabuf_attach(struct dma_buf *buf, struct dma_buf_attachment *attach)
{
	return 0;
}

/* The address of this structure is how a dma-buf of ours is recognised. */
static const struct dma_buf_ops sim_dmabuf_ops = {
	.attach = sim_dmabuf_attach,
	.map_dma_buf = drm_gem_map_dma_buf,
	.unmap_dma_buf = drm_gem_unmap_dma_buf,
	.release = drm_gem_dmabuf_release,
	.mmap = drm_gem_dmabuf_mmap,
};

struct dma_buf *sim_gem_export(struct drm_gem_object *obj, int flags)
{
	struct sim_bo *bo = gem_to_sim_bo(obj);
	struct dma_buf_export_info info = {
		.exp_name = KBUILD_MODNAME,
		.owner = obj->dev->driver->fops->owner,
		.ops = &sim_dmabuf_ops,
		.size = obj->size,
		.flags = flags,
		.priv = obj,
		.resv = obj->resv,
	};

	if (bo->userptr || (bo->flags & AMDGPU_GEM_CREATE_VM_ALWAYS_VALID))
		return ERR_PTR(-EPERM);
	if (bo->import_buf) {
		get_dma_buf(bo->import_buf);
		return bo->import_buf;
	}
	return drm_gem_dmabuf_export(obj->dev, &info);
}

/* As the DRM core does for PRIME_HANDLE_TO_FD, but for a BO that may have no handle in any file. */
struct dma_buf *sim_bo_export(struct sim_bo *bo, bool writable)
{
	struct drm_gem_object *obj = &bo->base;
	struct dma_buf *buf;

	mutex_lock(&obj->dev->object_name_lock);
	if (obj->dma_buf) {
		get_dma_buf(obj->dma_buf);
		buf = obj->dma_buf;
	} else {
		buf = sim_gem_export(obj, O_CLOEXEC | (writable ? O_RDWR : 0));
		/* The reference is dropped with the last handle; without any handle nobody would drop it. */
		if (!IS_ERR(buf) && obj->handle_count) {
			get_dma_buf(buf);
			obj->dma_buf = buf;
		}
	}
	mutex_unlock(&obj->dev->object_name_lock);
	return buf;
}

void sim_bo_kfd_own(struct sim_bo *bo)
{
	struct drm_gem_object *obj = &bo->base;

	mutex_lock(&obj->dev->object_name_lock);
	/* The handles together hold one reference of the object. */
	if (obj->handle_count++ == 0)
		drm_gem_object_get(obj);
	bo->kfd_owned++;
	mutex_unlock(&obj->dev->object_name_lock);
}

void sim_bo_kfd_disown(struct sim_bo *bo)
{
	struct drm_gem_object *obj = &bo->base;
	struct dma_buf *buf = NULL;
	bool last = false;

	mutex_lock(&obj->dev->object_name_lock);
	if (bo->kfd_owned) {
		bo->kfd_owned--;
		last = --obj->handle_count == 0;
		if (last) {
			buf = obj->dma_buf;
			obj->dma_buf = NULL;
		}
	}
	mutex_unlock(&obj->dev->object_name_lock);
	if (buf)
		dma_buf_put(buf);
	if (last)
		drm_gem_object_put(obj);
}

struct sim_bo *sim_bo_of_dmabuf(struct dma_buf *buf)
{
	struct drm_gem_object *obj = buf->priv;

	if (buf->ops != &sim_dmabuf_ops)
		return ERR_PTR(-EINVAL);
	return sim_bo_get(gem_to_sim_bo(obj));
}

static struct sim_bo *sim_import(struct sim_gpu *gpu, struct dma_buf *buf)
{
	struct sim_bo *bo = sim_bo_of_dmabuf(buf), *wrapper;

	if (IS_ERR(bo) || bo->gpu == gpu)
		return bo;
	wrapper = sim_bo_wrap(gpu, bo, buf);
	sim_bo_put(bo);
	return wrapper;
}

struct sim_bo *sim_bo_import(struct sim_gpu *gpu, struct dma_buf *buf)
{
	struct sim_bo *bo = sim_import(gpu, buf);

	if (!IS_ERR(bo))
		atomic64_inc(&gpu->cnt_import);
	return bo;
}

/* Called by the DRM core for PRIME_FD_TO_HANDLE of a dma-buf that the file does not know yet. */
struct drm_gem_object *sim_gem_import(struct drm_device *dev, struct dma_buf *buf)
{
	struct sim_bo *bo = sim_import(drm_to_gpu(dev), buf);

	return IS_ERR(bo) ? ERR_CAST(bo) : &bo->base;
}
