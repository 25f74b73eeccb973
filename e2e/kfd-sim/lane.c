// SPDX-License-Identifier: GPL-2.0
/*
 * The copy engine of one GPU: submissions are executed one after the other by a work item each, in an ordered queue.
 * A job ends by being signalled, with or without an error; one that an injected fault hangs leaves the engine free and
 * stays unsignalled until its context goes.
 */
#include <linux/delay.h>
#include <linux/ktime.h>
#include <linux/slab.h>
#include "drm_sim.h"
#include "sdma.h"

struct sim_job *sim_job_alloc(struct sim_fpriv *fp, struct sim_ctx *ctx, u32 nibs)
{
	struct sim_job *job = kzalloc(struct_size(job, ibs, nibs), GFP_KERNEL);

	if (!job)
		return NULL;
	kref_init(&job->ref);
	INIT_LIST_HEAD(&job->link);
	init_waitqueue_head(&job->wq);
	job->gpu = fp->gpu;
	job->vm = sim_vm_get(fp->vm);
	kref_get(&ctx->ref);
	job->ctx = ctx;
	return job;
}

/* What a job needs only until it is signalled; also ends the cycle of context and job. */
static void sim_job_strip(struct sim_job *job)
{
	u32 i;

	for (i = 0; i < job->ndeps; i++)
		sim_job_put(job->deps[i]);
	kfree(job->deps);
	job->deps = NULL;
	job->ndeps = 0;
	sim_bo_put(job->user_fence);
	job->user_fence = NULL;
	sim_bo_list_put(job->list);
	job->list = NULL;
	if (job->ctx)
		sim_ctx_put(job->ctx);
	job->ctx = NULL;
	sim_vm_put(job->vm);
	job->vm = NULL;
}

static void sim_job_free(struct kref *ref)
{
	struct sim_job *job = container_of(ref, struct sim_job, ref);

	sim_job_strip(job);
	kfree(job);
}

void sim_job_put(struct sim_job *job)
{
	if (job)
		kref_put(&job->ref, sim_job_free);
}

void sim_job_signal(struct sim_job *job, int error)
{
	struct sim_gpu *gpu = job->gpu;
	u32 i;

	spin_lock(&job->ctx->lock);
	if (job->done) {
		spin_unlock(&job->ctx->lock);
		return;
	}
	list_del_init(&job->link);
	job->error = error;
	WRITE_ONCE(job->done, true);
	spin_unlock(&job->ctx->lock);
	for (i = 0; job->list && i < job->list->n; i++)
		atomic_dec(&job->list->bos[i]->busy);
	wake_up_all(&job->wq);
	wake_up_all(&gpu->idle);
	sim_job_strip(job);
	sim_job_put(job);	/* the reference of ctx->live */
}

long sim_job_wait(struct sim_job *job, long timeout)
{
	return wait_event_interruptible_timeout(job->wq, READ_ONCE(job->done), timeout);
}

void sim_vm_wait_jobs(struct sim_vm *vm, struct sim_bo *bo)
{
	wait_event_killable(vm->gpu->idle, !atomic_read(&vm->jobs) || (bo && !atomic_read(&bo->pending)));
}

/* ------------------------------------------------------------------ execution */

#define SIM_LOCKUP_NS (10 * NSEC_PER_SEC)	/* a POLL that stays false this long counts as a lockup, as the driver's time-out has it */

struct sim_run {
	struct sim_job *job;
	u64 slept_us;
	u64 poll_since;		/* ns; 0 while the engine moves on */
	u64 poll_packets;	/* executed when the POLL began */
	bool lockup;
};

/* Pays the configured delay in portions, so that a long job also makes progress slowly instead of ending late. */
static void sim_run_delay(struct sim_sdma *s, bool all)
{
	struct sim_run *run = s->arg;
	u64 owed = (s->bytes * sim_delay_us_per_mib()) >> 20;
	u64 us = owed > run->slept_us ? owed - run->slept_us : 0;

	if (!us || (!all && us < 10000))
		return;
	run->slept_us += us;
	if (us < 10000)
		usleep_range(us, us + us / 8 + 1);
	else
		wait_event_timeout(run->job->wq, READ_ONCE(run->job->cancel), usecs_to_jiffies(us));
}

static bool sim_run_stop(struct sim_sdma *s)
{
	struct sim_run *run = s->arg;

	sim_run_delay(s, false);
	cond_resched();
	return run->lockup || READ_ONCE(run->job->cancel);
}

static void sim_run_pause(struct sim_sdma *s)
{
	struct sim_run *run = s->arg;
	u64 now = ktime_get_ns();

	if (!run->poll_since || run->poll_packets != s->packets) {
		run->poll_since = now;
		run->poll_packets = s->packets;
	}
	run->lockup = now - run->poll_since > SIM_LOCKUP_NS;
	usleep_range(200, 500);
}

static u64 sim_run_clock(struct sim_sdma *s)
{
	return div_u64(ktime_get_ns(), 10);	/* 100 MHz, as DEV_INFO says */
}

/* The kernel may move whatever a submission does not list: reaching for it is a bug of the submitter that only luck hides. */
static void sim_run_touch(struct sim_sdma *s, u64 va, u64 len, bool write)
{
	struct sim_run *run = s->arg;
	u32 n = sim_vm_unlisted(s->vm, va, len, run->job->list);

	if (!n)
		return;
	atomic64_add(n, &sim_cnt_warnings);
	pr_info_ratelimited("kfd-sim: SDMA %s of an object that the submission does not list, at %llx\n",
			    write ? "write" : "read", va);
}

static int sim_job_execute(struct sim_job *job, u64 *bytes)
{
	struct sim_run run = { .job = job };
	struct sim_sdma s = {
		.vm = job->vm, .family = job->gpu->desc->family, .arg = &run, .stop = sim_run_stop, .pause = sim_run_pause,
		.touch = sim_run_touch, .clock = sim_run_clock,
	};
	int r = 0;
	u32 i;

	for (i = 0; i < job->nibs && !r; i++) {
		sim_run_touch(&s, job->ibs[i].va, 4ull * job->ibs[i].ndw, false);
		r = sim_sdma_run(&s, job->ibs[i].va, job->ibs[i].ndw);
	}
	sim_run_delay(&s, true);
	atomic64_add(s.bytes, &job->gpu->cnt_copied_bytes);
	atomic64_add(s.copies, &job->gpu->cnt_copies);
	*bytes = s.bytes;
	if (r == -EFAULT) {	/* the command fetch faulted: like any other fault, nobody is told */
		s.faults++;
		r = 0;
	}
	if (r == -EINVAL) {
		pr_warn_ratelimited("kfd-sim: SDMA met an unknown packet, the job is lost\n");
		r = -ECANCELED;
	}
	if (!r && s.faults && sim_strict_faults())
		r = -ECANCELED;
	return r;
}

static bool sim_job_blocked(struct sim_job *job)
{
	u32 i;

	/* Dependencies were submitted before and the engine is in order: only one that hangs can be unsignalled now. */
	for (i = 0; i < job->ndeps; i++)
		if (!READ_ONCE(job->deps[i]->done))
			return true;
	return false;
}

static void sim_job_work(struct work_struct *work)
{
	struct sim_job *job = container_of(work, struct sim_job, work);
	struct sim_gpu *gpu = job->gpu;
	struct sim_vm *vm = job->vm;
	bool hang = false, dead;
	u64 begin = ktime_get_ns(), bytes = 0;
	int error = 0;
	u32 i;

	if (READ_ONCE(job->cancel)) {
		error = -ECANCELED;
	} else if (sim_job_blocked(job)) {
		hang = true;
	} else {
		switch (sim_fault_sdma()) {
		case SIM_SDMA_OK:
			error = sim_job_execute(job, &bytes);
			break;
		case SIM_SDMA_SILENT:
			break;
		case SIM_SDMA_FAIL:
			error = -ECANCELED;
			break;
		case SIM_SDMA_HANG:
			hang = true;
			break;
		}
	}
	if (!hang) {
		sim_log_copy(gpu, begin, ktime_get_ns(), bytes);
		if (!error && job->user_fence)
			sim_bo_write(job->user_fence, job->user_fence_offset, &job->seq, 8);
	}
	for (i = 0; job->list && i < job->list->n; i++)
		atomic_dec(&job->list->bos[i]->pending);
	sim_vm_get(vm);
	spin_lock(&job->ctx->lock);
	job->hung = hang;
	dead = job->ctx->dead;
	spin_unlock(&job->ctx->lock);
	if (!hang)
		sim_job_signal(job, error);
	else if (dead)
		sim_job_signal(job, -ECANCELED);
	atomic_dec(&vm->jobs);
	wake_up_all(&gpu->idle);
	sim_vm_put(vm);
	sim_job_put(job);
}

void sim_job_begin(struct sim_job *job)
{
	u32 i;

	INIT_WORK(&job->work, sim_job_work);
	atomic_inc(&job->vm->jobs);
	for (i = 0; job->list && i < job->list->n; i++) {
		atomic_inc(&job->list->bos[i]->busy);
		atomic_inc(&job->list->bos[i]->pending);
	}
	kref_get(&job->ref);	/* ctx->live */
	list_add_tail(&job->link, &job->ctx->live);
	kref_get(&job->ref);	/* the engine */
	atomic64_inc(&job->gpu->cnt_submit);
	queue_work(job->gpu->lane, &job->work);
}
