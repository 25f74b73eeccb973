// SPDX-License-Identifier: GPL-2.0
/*
 * Contexts and the fences of their rings: AMDGPU_CTX, WAIT_CS, WAIT_FENCES, VM.
 */
#include <linux/capability.h>
#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include "drm_sim.h"

#define SIM_MAX_CTX 4096		/* per file */
#define SIM_MAX_FENCES 65536		/* per WAIT_FENCES */

static void sim_ctx_free(struct kref *ref)
{
	struct sim_ctx *ctx = container_of(ref, struct sim_ctx, ref);
	u32 r, i;

	for (r = 0; r < SIM_DMA_RINGS; r++)
		for (i = 0; i < SIM_CTX_FENCES; i++)
			sim_job_put(ctx->fences[r][i]);
	kfree(ctx);
}

void sim_ctx_put(struct sim_ctx *ctx)
{
	kref_put(&ctx->ref, sim_ctx_free);
}

struct sim_ctx *sim_ctx_find(struct sim_fpriv *fp, u32 id)
{
	struct sim_ctx *ctx;

	mutex_lock(&fp->lock);
	ctx = idr_find(&fp->ctxs, id);
	if (ctx)
		kref_get(&ctx->ref);
	mutex_unlock(&fp->lock);
	return ctx;
}

/*
 * The context takes no more submissions and its hung jobs end. What is queued still runs when user space frees the
 * context; with `cancel`, when the file goes, it stops at the next packet.
 */
void sim_ctx_close(struct sim_ctx *ctx, bool cancel)
{
	struct sim_job *job, *hung;

	spin_lock(&ctx->lock);
	ctx->dead = true;
	list_for_each_entry(job, &ctx->live, link) {
		if (!cancel)
			break;
		WRITE_ONCE(job->cancel, true);
		wake_up_all(&job->wq);
	}
	spin_unlock(&ctx->lock);
	do {
		hung = NULL;
		spin_lock(&ctx->lock);
		list_for_each_entry(job, &ctx->live, link) {
			if (!job->hung)
				continue;
			hung = job;
			kref_get(&hung->ref);
			break;
		}
		spin_unlock(&ctx->lock);
		if (hung) {
			sim_job_signal(hung, -ECANCELED);
			sim_job_put(hung);
		}
	} while (hung);
}

/* First half of closing a file: the engine lets go of its address space soon. */
void sim_ctx_cancel_all(struct sim_fpriv *fp)
{
	struct sim_ctx *ctx;
	int id;

	mutex_lock(&fp->lock);
	idr_for_each_entry(&fp->ctxs, ctx, id)
		sim_ctx_close(ctx, true);
	mutex_unlock(&fp->lock);
}

void sim_ctx_drop_all(struct sim_fpriv *fp)
{
	struct sim_ctx *ctx;
	int id;

	idr_for_each_entry(&fp->ctxs, ctx, id) {
		sim_ctx_close(ctx, true);
		sim_ctx_put(ctx);
	}
	idr_destroy(&fp->ctxs);
}

int sim_ctx_ring(u32 ip_type, u32 ip_instance, u32 ring)
{
	/* Only SDMA is simulated; the other engines answer as on a chip that has none of their kind. */
	if (ip_type != AMDGPU_HW_IP_DMA || ip_instance || ring >= SIM_DMA_RINGS)
		return -EINVAL;
	return ring;
}

/* Gives the job its number and hands it to the engine; waits while the fence of 32 submissions before has not ended. */
int sim_ctx_submit(struct sim_ctx *ctx, u32 ring, struct sim_job *job)
{
	for (;;) {
		struct sim_job **slot, *old;
		long r;

		spin_lock(&ctx->lock);
		slot = &ctx->fences[ring][(ctx->seq[ring] + 1) % SIM_CTX_FENCES];
		old = *slot;
		if (ctx->dead) {
			spin_unlock(&ctx->lock);
			return -EINVAL;
		}
		if (!old || READ_ONCE(old->done)) {
			job->seq = ++ctx->seq[ring];
			kref_get(&job->ref);
			*slot = job;
			sim_job_begin(job);
			spin_unlock(&ctx->lock);
			sim_job_put(old);
			return 0;
		}
		kref_get(&old->ref);
		spin_unlock(&ctx->lock);
		r = sim_job_wait(old, MAX_SCHEDULE_TIMEOUT);
		sim_job_put(old);
		if (r < 0)
			return r;
	}
}

/* NULL: ended long ago, or never existed below 1. */
struct sim_job *sim_ctx_fence(struct sim_ctx *ctx, u32 ring, u64 seq)
{
	struct sim_job *job = NULL;

	spin_lock(&ctx->lock);
	if (seq == ~0ull)
		seq = ctx->seq[ring];
	if (seq > ctx->seq[ring]) {
		job = ERR_PTR(-EINVAL);
	} else if (seq && seq + SIM_CTX_FENCES > ctx->seq[ring]) {
		job = ctx->fences[ring][seq % SIM_CTX_FENCES];
		if (job)
			kref_get(&job->ref);
	}
	spin_unlock(&ctx->lock);
	return job;
}

/* User space gives a point of CLOCK_MONOTONIC; what is negative as a signed number means for ever. */
long sim_abs_timeout(u64 ns)
{
	u64 now = ktime_get_ns(), jiffies_left;

	if ((s64)ns < 0)
		return MAX_SCHEDULE_TIMEOUT;
	if (ns <= now)
		return 0;
	jiffies_left = nsecs_to_jiffies64(ns - now);
	return jiffies_left >= MAX_SCHEDULE_TIMEOUT ? MAX_SCHEDULE_TIMEOUT - 1 : jiffies_left;
}

static int sim_ctx_alloc(struct sim_fpriv *fp, s32 priority, u32 *id)
{
	struct sim_ctx *ctx;
	int r;

	if (priority > AMDGPU_CTX_PRIORITY_NORMAL && priority <= AMDGPU_CTX_PRIORITY_VERY_HIGH && !capable(CAP_SYS_NICE))
		return -EACCES;
	ctx = kzalloc(sizeof(*ctx), GFP_KERNEL);
	if (!ctx)
		return -ENOMEM;
	kref_init(&ctx->ref);
	spin_lock_init(&ctx->lock);
	INIT_LIST_HEAD(&ctx->live);
	ctx->priority = priority;
	mutex_lock(&fp->lock);
	r = idr_alloc(&fp->ctxs, ctx, 1, SIM_MAX_CTX, GFP_KERNEL);
	mutex_unlock(&fp->lock);
	if (r < 0) {
		kfree(ctx);
		return r;
	}
	*id = r;
	return 0;
}

int sim_ioc_ctx(struct drm_device *dev, void *data, struct drm_file *file)
{
	struct sim_fpriv *fp = file->driver_priv;
	union drm_amdgpu_ctx *args = data;
	u32 id = args->in.ctx_id;
	struct sim_ctx *ctx;
	int r = 0;

	switch (args->in.op) {
	case AMDGPU_CTX_OP_ALLOC_CTX:
		if (args->in.flags)
			return -EINVAL;
		r = sim_ctx_alloc(fp, args->in.priority, &id);
		if (r)
			return r;
		memset(args, 0, sizeof(*args));
		args->out.alloc.ctx_id = id;
		return 0;
	case AMDGPU_CTX_OP_FREE_CTX:
		if (args->in.flags)
			return -EINVAL;
		mutex_lock(&fp->lock);
		ctx = idr_remove(&fp->ctxs, id);
		mutex_unlock(&fp->lock);
		if (!ctx)
			return -EINVAL;
		sim_ctx_close(ctx, false);
		sim_ctx_put(ctx);
		return 0;
	case AMDGPU_CTX_OP_QUERY_STATE:
	case AMDGPU_CTX_OP_QUERY_STATE2:
	case AMDGPU_CTX_OP_GET_STABLE_PSTATE:
		if (args->in.flags)
			return -EINVAL;
		break;
	case AMDGPU_CTX_OP_SET_STABLE_PSTATE:
		if (args->in.flags & ~AMDGPU_CTX_STABLE_PSTATE_FLAGS_MASK)
			return -EINVAL;
		break;
	default:
		return -EINVAL;
	}
	ctx = sim_ctx_find(fp, id);
	if (!ctx)
		return -EINVAL;
	sim_ctx_put(ctx);
	memset(args, 0, sizeof(*args));	/* no reset, no hang, no pinned clocks */
	return 0;
}

int sim_ioc_vm(struct drm_device *dev, void *data, struct drm_file *file)
{
	union drm_amdgpu_vm *args = data;

	if (args->in.flags)
		return -EINVAL;
	switch (args->in.op) {
	case AMDGPU_VM_OP_RESERVE_VMID:
	case AMDGPU_VM_OP_UNRESERVE_VMID:
		return 0;
	default:
		return -EINVAL;
	}
}

int sim_ioc_wait_cs(struct drm_device *dev, void *data, struct drm_file *file)
{
	union drm_amdgpu_wait_cs *args = data;
	long timeout = sim_abs_timeout(args->in.timeout), r = 1;
	struct sim_ctx *ctx = sim_ctx_find(file->driver_priv, args->in.ctx_id);
	struct sim_job *job;
	int ring;

	if (!ctx)
		return -EINVAL;
	ring = sim_ctx_ring(args->in.ip_type, args->in.ip_instance, args->in.ring);
	job = ring < 0 ? ERR_PTR(ring) : sim_ctx_fence(ctx, ring, args->in.handle);
	if (IS_ERR(job)) {
		r = PTR_ERR(job);
	} else if (job) {
		r = sim_job_wait(job, timeout);
		if (r > 0 && job->error)
			r = job->error;
		sim_job_put(job);
	}
	sim_ctx_put(ctx);
	if (r < 0)
		return r;
	memset(args, 0, sizeof(*args));
	args->out.status = r == 0;
	return 0;
}

/* ------------------------------------------------------------------ WAIT_FENCES */

static int sim_fences_lookup(struct sim_fpriv *fp, const struct drm_amdgpu_fence *in, u32 n, struct sim_job **jobs)
{
	u32 i;

	for (i = 0; i < n; i++) {
		struct sim_ctx *ctx = sim_ctx_find(fp, in[i].ctx_id);
		int ring = sim_ctx_ring(in[i].ip_type, in[i].ip_instance, in[i].ring);
		struct sim_job *job;

		if (!ctx)
			return -EINVAL;
		job = ring < 0 ? ERR_PTR(ring) : sim_ctx_fence(ctx, ring, in[i].seq_no);
		sim_ctx_put(ctx);
		if (IS_ERR(job))
			return PTR_ERR(job);
		jobs[i] = job;
	}
	return 0;
}

/* Index of the first fence that has ended, n if there is none. */
static u32 sim_fences_first(struct sim_job **jobs, u32 n)
{
	u32 i;

	for (i = 0; i < n && jobs[i] && !READ_ONCE(jobs[i]->done); i++)
		;
	return i;
}

static long sim_fences_wait(struct sim_gpu *gpu, struct sim_job **jobs, u32 n, bool all, long timeout, u32 *first)
{
	long r = max(timeout, 1l);
	u32 i;

	if (!all) {
		r = wait_event_interruptible_timeout(gpu->idle, sim_fences_first(jobs, n) < n, timeout);
		if (r > 0) {
			*first = sim_fences_first(jobs, n);
			if (jobs[*first] && jobs[*first]->error)
				r = jobs[*first]->error;
		}
		return r;
	}
	for (i = 0; i < n; i++) {
		if (!jobs[i])
			continue;
		r = sim_job_wait(jobs[i], timeout);
		if (r <= 0)
			return r;
		if (jobs[i]->error)
			return jobs[i]->error;
		/* What is left of the time; "signalled at the last moment" counts as one tick. */
		timeout = timeout ? r : 0;
	}
	return r;
}

int sim_ioc_wait_fences(struct drm_device *dev, void *data, struct drm_file *file)
{
	struct sim_fpriv *fp = file->driver_priv;
	union drm_amdgpu_wait_fences *args = data;
	u32 n = args->in.fence_count, i, first = 0;
	long timeout = sim_abs_timeout(args->in.timeout_ns), r;
	struct drm_amdgpu_fence *in;
	struct sim_job **jobs;

	if (!n || n > SIM_MAX_FENCES)
		return -EINVAL;
	in = vmemdup_array_user(u64_to_user_ptr(args->in.fences), n, sizeof(*in));
	if (IS_ERR(in))
		return PTR_ERR(in);
	jobs = kvcalloc(n, sizeof(*jobs), GFP_KERNEL);
	r = jobs ? sim_fences_lookup(fp, in, n, jobs) : -ENOMEM;
	if (!r)
		r = sim_fences_wait(fp->gpu, jobs, n, args->in.wait_all, timeout, &first);
	for (i = 0; jobs && i < n; i++)
		sim_job_put(jobs[i]);
	kvfree(jobs);
	kvfree(in);
	if (r < 0)
		return r;
	memset(args, 0, sizeof(*args));
	args->out.status = r > 0;
	args->out.first_signaled = first;
	return 0;
}
