// SPDX-License-Identifier: GPL-2.0
/*
 * AMDGPU_CS: reads the chunks of a submission, checks them in the order in which the real driver does, and queues a job.
 */
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include "drm_sim.h"

#define SIM_MAX_CHUNKS 4096
#define SIM_MAX_CHUNK_DW (1u << 20)
#define SIM_MAX_IBS 49			/* per submission on the SDMA rings */
#define SIM_IB_ALIGN 31ull		/* the fetch ignores these address bits */

struct sim_submit {
	struct drm_file *file;
	struct sim_fpriv *fp;
	struct sim_ctx *ctx;
	struct sim_bo_list *list;
	struct sim_bo *fence_bo;
	u64 fence_offset;
	u32 nibs, ndeps;
	int ring;			/* -1 while there is no IB */
	struct sim_ib ibs[SIM_MAX_IBS];
	struct sim_job **deps;
};

static int sim_cs_ib(struct sim_submit *s, const struct drm_amdgpu_cs_chunk_ib *ib)
{
	int ring = sim_ctx_ring(ib->ip_type, ib->ip_instance, ib->ring);

	if (ring < 0)
		return ring;
	if (s->nibs == SIM_MAX_IBS || ib->ib_bytes & 3 || ib->ib_bytes / 4 > SIM_IB_MAX_DW)
		return -EINVAL;
	s->ring = ring;
	if (ib->va_start & SIM_IB_ALIGN) {
		atomic64_inc(&sim_cnt_warnings);
		pr_info_ratelimited("kfd-sim: command buffer at %llx is not aligned to 32 bytes\n", ib->va_start);
	}
	s->ibs[s->nibs].va = ib->va_start & SIM_VA_MASK & ~SIM_IB_ALIGN;
	s->ibs[s->nibs++].ndw = ib->ib_bytes / 4;
	return 0;
}

static int sim_cs_fence(struct sim_submit *s, const struct drm_amdgpu_cs_chunk_fence *f)
{
	struct drm_gem_object *obj;

	if (s->fence_bo)
		return -EINVAL;
	obj = drm_gem_object_lookup(s->file, f->handle);
	if (!obj)
		return -EINVAL;
	s->fence_bo = gem_to_sim_bo(obj);
	s->fence_offset = f->offset;
	if (obj->size != PAGE_SIZE || f->offset > PAGE_SIZE - 8 || s->fence_bo->userptr)
		return -EINVAL;
	return 0;
}

static int sim_cs_deps(struct sim_submit *s, const struct drm_amdgpu_cs_chunk_dep *dep, u32 n)
{
	struct sim_job **all;
	u32 i;

	if (!n)
		return 0;
	all = krealloc_array(s->deps, s->ndeps + n, sizeof(*all), GFP_KERNEL);
	if (!all)
		return -ENOMEM;
	s->deps = all;
	for (i = 0; i < n; i++) {
		struct sim_ctx *ctx = sim_ctx_find(s->fp, dep[i].ctx_id);
		int ring = sim_ctx_ring(dep[i].ip_type, dep[i].ip_instance, dep[i].ring);
		struct sim_job *job;

		if (!ctx)
			return -EINVAL;
		job = ring < 0 ? ERR_PTR(ring) : sim_ctx_fence(ctx, ring, dep[i].handle);
		sim_ctx_put(ctx);
		if (IS_ERR(job))
			return PTR_ERR(job);
		if (job)
			s->deps[s->ndeps++] = job;
	}
	return 0;
}

static int sim_cs_chunk(struct sim_submit *s, u32 id, const void *data, u64 bytes)
{
	switch (id) {
	case AMDGPU_CHUNK_ID_IB:
		return bytes < sizeof(struct drm_amdgpu_cs_chunk_ib) ? -EINVAL : sim_cs_ib(s, data);
	case AMDGPU_CHUNK_ID_FENCE:
		return bytes < sizeof(struct drm_amdgpu_cs_chunk_fence) ? -EINVAL : sim_cs_fence(s, data);
	case AMDGPU_CHUNK_ID_BO_HANDLES:
		if (bytes < sizeof(struct drm_amdgpu_bo_list_in) || s->list)
			return -EINVAL;
		s->list = sim_bo_list_from_user(s->file, data);
		if (IS_ERR(s->list)) {
			int r = PTR_ERR(s->list);

			s->list = NULL;
			return r;
		}
		return 0;
	case AMDGPU_CHUNK_ID_DEPENDENCIES:
		return sim_cs_deps(s, data, bytes / sizeof(struct drm_amdgpu_cs_chunk_dep));
	case AMDGPU_CHUNK_ID_SCHEDULED_DEPENDENCIES:
		return 0;	/* the engine is in order: whatever was submitted before is scheduled before */
	default:
		return -EINVAL;	/* no sync objects and no graphics here */
	}
}

static int sim_cs_chunks(struct sim_submit *s, const union drm_amdgpu_cs *cs)
{
	u64 *ptrs;
	u32 i;
	int r = 0;

	if (cs->in.num_chunks > SIM_MAX_CHUNKS)
		return -ENOMEM;
	ptrs = vmemdup_array_user(u64_to_user_ptr(cs->in.chunks), cs->in.num_chunks, sizeof(*ptrs));
	if (IS_ERR(ptrs))
		return PTR_ERR(ptrs);
	for (i = 0; i < cs->in.num_chunks && !r; i++) {
		struct drm_amdgpu_cs_chunk chunk;
		void *data;

		if (copy_from_user(&chunk, u64_to_user_ptr(ptrs[i]), sizeof(chunk))) {
			r = -EFAULT;
			break;
		}
		if (chunk.length_dw > SIM_MAX_CHUNK_DW) {
			r = -ENOMEM;
			break;
		}
		data = vmemdup_array_user(u64_to_user_ptr(chunk.chunk_data), chunk.length_dw, 4);
		if (IS_ERR(data)) {
			r = PTR_ERR(data);
			break;
		}
		r = sim_cs_chunk(s, chunk.chunk_id, data, 4ull * chunk.length_dw);
		kvfree(data);
	}
	kvfree(ptrs);
	return r;
}

static int sim_cs_lists(struct sim_submit *s, u32 handle)
{
	u32 i;
	int r;

	if (handle) {
		if (s->list)
			return -EINVAL;
		s->list = sim_bo_list_find(s->fp, handle);
		if (!s->list)
			return -ENOENT;
	}
	/* User memory that was remapped since is taken anew, as the real driver validates it with each submission. */
	for (i = 0; s->list && i < s->list->n; i++) {
		r = sim_bo_populate(s->list->bos[i]);
		if (r)
			return r;
	}
	return 0;
}

static int sim_cs_queue(struct sim_submit *s, u64 *seq)
{
	struct sim_job *job = sim_job_alloc(s->fp, s->ctx, s->nibs);
	int r;

	if (!job)
		return -ENOMEM;
	job->nibs = s->nibs;
	memcpy(job->ibs, s->ibs, s->nibs * sizeof(s->ibs[0]));
	job->list = s->list;
	job->user_fence = s->fence_bo;
	job->user_fence_offset = s->fence_offset;
	job->deps = s->deps;
	job->ndeps = s->ndeps;
	s->list = NULL;
	s->fence_bo = NULL;
	s->deps = NULL;
	s->ndeps = 0;
	r = sim_ctx_submit(s->ctx, s->ring, job);
	*seq = job->seq;
	sim_job_put(job);
	return r;
}

int sim_ioc_cs(struct drm_device *dev, void *data, struct drm_file *file)
{
	union drm_amdgpu_cs *cs = data;
	struct sim_submit *s;
	u64 seq;
	u32 i;
	int r;

	if (!cs->in.num_chunks)
		return -EINVAL;
	s = kzalloc(sizeof(*s), GFP_KERNEL);
	if (!s)
		return -ENOMEM;
	s->file = file;
	s->fp = file->driver_priv;
	s->ring = -1;
	s->ctx = sim_ctx_find(s->fp, cs->in.ctx_id);
	r = s->ctx ? sim_cs_chunks(s, cs) : -EINVAL;
	if (!r && s->ring < 0)
		r = -EINVAL;
	if (!r)
		r = sim_cs_lists(s, cs->in.bo_list_handle);
	if (!r)
		r = sim_cs_queue(s, &seq);
	for (i = 0; i < s->ndeps; i++)
		sim_job_put(s->deps[i]);
	kfree(s->deps);
	sim_bo_put(s->fence_bo);
	sim_bo_list_put(s->list);
	if (s->ctx)
		sim_ctx_put(s->ctx);
	kfree(s);
	if (r)
		return r;
	memset(cs, 0, sizeof(*cs));
	cs->out.handle = seq;
	return 0;
}
