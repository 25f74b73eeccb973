/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the files of the DRM half share among themselves. Everything that KFD or main.c may use is in sim.h.
 */
#ifndef DRM_SIM_H
#define DRM_SIM_H

#include <linux/kref.h>
#include <linux/spinlock.h>
#include <linux/idr.h>
#include <drm/drm_ioctl.h>
#include <uapi/drm/amdgpu_drm.h>
#include "sim.h"

/* Bottom of what GEM_VA accepts (2 MiB in 6.1), the hole in the middle of a 48-bit space, and what the driver keeps at the top. */
#define SIM_VA_BOTTOM		(sim_sys.kfd_minor < 17 ? 0x200000ull : 0x10000ull)
#define SIM_VA_HOLE_START	0x0000800000000000ull
#define SIM_VA_HOLE_END		0xffff800000000000ull
#define SIM_VA_MASK		0x0000ffffffffffffull
#define SIM_VA_TOP_RESERVED	0x401000ull

/*
 * GEM_CREATE flags that user space may set: in 6.12, and what newer kernels added so that restorers can make again what
 * KFD made (bits 9, 13, 14, 15). Bit 16 is GFX12_DCC, spelled out for older headers.
 */
#define SIM_GEM_SETTABLE_6_12 (AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED | AMDGPU_GEM_CREATE_NO_CPU_ACCESS | \
	AMDGPU_GEM_CREATE_CPU_GTT_USWC | AMDGPU_GEM_CREATE_VRAM_CLEARED | AMDGPU_GEM_CREATE_VM_ALWAYS_VALID | \
	AMDGPU_GEM_CREATE_EXPLICIT_SYNC | AMDGPU_GEM_CREATE_DISCARDABLE | (1 << 16))
#define SIM_GEM_SETTABLE_NEW (SIM_GEM_SETTABLE_6_12 | (1 << 9) | (1 << 13) | (1 << 14) | (1 << 15))

/* Newer than the headers that some kernels come with, so they are spelled out here. */
struct sim_gem_op {
	u32 handle, op;
	u64 value;
	u32 num_entries, padding;
};
struct sim_vm_entry {
	u64 addr, size, offset, flags;
};
struct sim_list_handles {
	u64 entries;
	u32 num_entries, padding;
};
struct sim_list_entry {
	u32 gem_handle, flags;
	u64 size, preferred_domains, alloc_flags, alignment;
};
#define SIM_GEM_OP_GET_MAPPING_INFO 2
#define SIM_GEM_LIST_HANDLES_NR 0x19	/* driver number; 0x59 on the wire */

/* Per open render file. `vm` comes first: sim_vm_of_file() is the only reader from outside. */
struct sim_fpriv {
	struct sim_vm *vm;
	struct sim_gpu *gpu;
	struct mutex lock;		/* ctxs, bo_lists */
	struct idr ctxs;		/* of struct sim_ctx, from 1 */
	struct idr bo_lists;		/* of struct sim_bo_list, from 1 */
};

/* Rings per IP type that a context has, as user space may address them. */
#define SIM_DMA_RINGS 2
#define SIM_CTX_FENCES 32		/* older sequence numbers count as done, errors included */
#define SIM_IB_MAX_DW 0xfffffu

struct sim_ctx {
	struct kref ref;
	spinlock_t lock;
	bool dead;			/* freed, or its file closed: no more submissions, hung jobs end with -ECANCELED */
	u64 seq[SIM_DMA_RINGS];		/* last number given out, 0 for none */
	struct sim_job *fences[SIM_DMA_RINGS][SIM_CTX_FENCES];
	struct list_head live;		/* of sim_job.link: submitted and not signalled */
	u32 priority;
};

struct sim_bo_list {
	struct kref ref;
	u32 n;
	struct sim_bo *bos[] __counted_by(n);
};

struct sim_ib {
	u64 va;
	u32 ndw;
};

struct sim_job {
	struct kref ref;
	struct work_struct work;
	struct list_head link;		/* in ctx->live, under ctx->lock */
	struct sim_ctx *ctx;		/* referenced until the job is signalled */
	struct sim_gpu *gpu;
	struct sim_vm *vm;		/* referenced until executed */
	struct sim_bo_list *list;	/* keeps the BOs until the job is signalled */
	struct sim_bo *user_fence;
	u64 user_fence_offset, seq;
	u32 ndeps, nibs;
	struct sim_job **deps;
	wait_queue_head_t wq;
	bool done, cancel, hung;
	int error;			/* valid once done */
	struct sim_ib ibs[];
};

/* bo.c */
extern const struct drm_gem_object_funcs sim_gem_funcs;
struct sim_bo *sim_bo_wrap(struct sim_gpu *gpu, struct sim_bo *origin, struct dma_buf *buf);
/* The page that holds byte `off`, with a page reference when the BO's pages may go (userptr). NULL when there is none. */
struct page *sim_bo_page(struct sim_bo *bo, u64 off, bool *put);
void sim_copy_bytes(void *dst, const void *src, size_t len);

/* dmabuf.c */
struct dma_buf *sim_gem_export(struct drm_gem_object *obj, int flags);
struct drm_gem_object *sim_gem_import(struct drm_device *dev, struct dma_buf *buf);

/* vm.c */
struct sim_vm *sim_vm_create(struct sim_gpu *gpu, u32 pasid);
void sim_vm_unmap_gem(struct sim_vm *vm, struct sim_bo *bo);
int sim_vm_clear(struct sim_vm *vm, u64 va, u64 size);
int sim_vm_replace(struct sim_vm *vm, struct sim_bo *bo, u64 va, u64 bo_offset, u64 size, u32 flags);
u64 sim_vm_limit(struct sim_gpu *gpu);	/* first VA beyond what may be mapped */
u32 sim_vm_entries(struct sim_vm *vm, struct sim_bo *bo, struct sim_vm_entry *out, u32 max);
u32 sim_vm_unlisted(struct sim_vm *vm, u64 va, u64 len, struct sim_bo_list *list);

/* lane.c */
struct sim_job *sim_job_alloc(struct sim_fpriv *fp, struct sim_ctx *ctx, u32 nibs);
void sim_job_put(struct sim_job *job);
void sim_job_begin(struct sim_job *job);	/* under ctx->lock, after the job got its number */
void sim_job_signal(struct sim_job *job, int error);
long sim_job_wait(struct sim_job *job, long timeout);	/* as wait_event_interruptible_timeout */
/* Waits until what was submitted with this BO (NULL: everything of this VM) has been executed. */
void sim_vm_wait_jobs(struct sim_vm *vm, struct sim_bo *bo);

/* drm_ctx.c */
struct sim_ctx *sim_ctx_find(struct sim_fpriv *fp, u32 id);
void sim_ctx_put(struct sim_ctx *ctx);
void sim_ctx_close(struct sim_ctx *ctx, bool cancel);
void sim_ctx_cancel_all(struct sim_fpriv *fp);
void sim_ctx_drop_all(struct sim_fpriv *fp);
int sim_ctx_ring(u32 ip_type, u32 ip_instance, u32 ring);	/* index of the ring, or -EINVAL */
int sim_ctx_submit(struct sim_ctx *ctx, u32 ring, struct sim_job *job);
struct sim_job *sim_ctx_fence(struct sim_ctx *ctx, u32 ring, u64 seq);
long sim_abs_timeout(u64 ns);

/* drm_bo_list.c */
struct sim_bo_list *sim_bo_list_from_user(struct drm_file *file, const struct drm_amdgpu_bo_list_in *in);
struct sim_bo_list *sim_bo_list_find(struct sim_fpriv *fp, u32 id);
struct sim_bo_list *sim_bo_list_get(struct sim_bo_list *list);
void sim_bo_list_put(struct sim_bo_list *list);
void sim_bo_list_drop_all(struct sim_fpriv *fp);

/* ioctls */
int sim_ioc_gem_create(struct drm_device *dev, void *data, struct drm_file *file);
int sim_ioc_gem_mmap(struct drm_device *dev, void *data, struct drm_file *file);
int sim_ioc_gem_userptr(struct drm_device *dev, void *data, struct drm_file *file);
int sim_ioc_gem_va(struct drm_device *dev, void *data, struct drm_file *file);
int sim_ioc_gem_op(struct drm_device *dev, void *data, struct drm_file *file);
int sim_ioc_gem_metadata(struct drm_device *dev, void *data, struct drm_file *file);
int sim_ioc_gem_wait_idle(struct drm_device *dev, void *data, struct drm_file *file);
int sim_ioc_gem_list_handles(struct drm_device *dev, void *data, struct drm_file *file);
int sim_ioc_info(struct drm_device *dev, void *data, struct drm_file *file);
int sim_ioc_ctx(struct drm_device *dev, void *data, struct drm_file *file);
int sim_ioc_bo_list(struct drm_device *dev, void *data, struct drm_file *file);
int sim_ioc_cs(struct drm_device *dev, void *data, struct drm_file *file);
int sim_ioc_wait_cs(struct drm_device *dev, void *data, struct drm_file *file);
int sim_ioc_wait_fences(struct drm_device *dev, void *data, struct drm_file *file);
int sim_ioc_vm(struct drm_device *dev, void *data, struct drm_file *file);

#endif
