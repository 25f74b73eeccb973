// SPDX-License-Identifier: GPL-2.0
/* CRIU_OP: PROCESS_INFO, UNPAUSE and RESUME; CHECKPOINT and RESTORE have files of their own. */
#include <linux/module.h>
#include <linux/pid.h>
#include <linux/pid_namespace.h>
#include <linux/sched/mm.h>
#include "kfd.h"
#include "kfd_criu.h"

#define RETRY_MS 10

unsigned int sim_resume_delay_ms;
module_param_named(resume_delay_ms, sim_resume_delay_ms, uint, 0644);
MODULE_PARM_DESC(resume_delay_ms, "time from CRIU_OP RESUME to its worker, which lets the queues run again");

int sim_criu_count(struct sim_process *p, u32 *bos, u32 *objects, u64 *priv_size)
{
	u32 i, queues = 0, events = sim_events_count(p);
	u64 extra = 0;
	struct sim_queue *q;
	struct sim_mem *mem;
	int id, r;

	*bos = 0;
	for (i = 0; i < p->n_pdds; i++) {
		idr_for_each_entry(&p->pdds[i].mems, mem, id)
			*bos += sim_mem_dumped(mem);
		list_for_each_entry(q, &p->pdds[i].queues, list) {
			/* Every kind that can be made here can be dumped; a fault stands for one that cannot. */
			r = sim_fault_check("kfd.dump_queue");
			if (r)
				return r;
			queues++;
			extra += sizeof(struct sim_criu_queue) + SIM_MQD_BYTES + q->ctl_stack;
		}
	}
	*objects = queues + events + p->n_svm;
	*priv_size = sizeof(struct sim_criu_process) + p->n_pdds * sizeof(struct sim_criu_device) +
		     *bos * sizeof(struct sim_criu_bo) + extra + events * sizeof(struct sim_criu_event) +
		     sim_svm_record_size(p) * p->n_svm;
	return 0;
}

static int criu_process_info(struct sim_process *p, struct kfd_ioctl_criu_args *a)
{
	int r;

	if (!p->n_pdds)
		return -ENODEV;
	atomic64_inc(&sim_cnt_process_info);
	if (!p->paused || sim_sys.evict_every_info) {
		r = sim_process_evict(p);
		if (r)
			goto err;
		p->paused = true;
	}
	a->pid = task_tgid_nr_ns(p->lead, task_active_pid_ns(p->lead));
	a->num_devices = p->n_pdds;
	r = sim_criu_count(p, &a->num_bos, &a->num_objects, &a->priv_data_size);
	if (!r)
		return 0;
err:
	/* Whatever there was before, a failure takes one eviction back and leaves the process unpaused. */
	sim_process_unevict(p);
	p->paused = false;
	return r;
}

static int criu_unpause(struct sim_process *p)
{
	int r;

	if (!p->paused)
		return -EINVAL;
	atomic64_inc(&sim_cnt_unpause);
	r = sim_process_unevict(p);
	if (!r)
		p->paused = false;
	return r;
}

static void resume_worker(struct work_struct *work)
{
	struct sim_process *p = container_of(to_delayed_work(work), struct sim_process, resume);
	int r;

	if (!mmget_not_zero(p->mm))
		return;
	mutex_lock(&p->lock);
	r = sim_process_take_user_pages(p, false);
	if (!r) {
		p->evicted_bos = 0;
		r = sim_process_unevict(p);
	}
	if (r)
		queue_delayed_work(sim_kfd_wq, &p->resume, msecs_to_jiffies(RETRY_MS));
	mutex_unlock(&p->lock);
	/* Not mmput(): were this the last user, the address space would be torn down in this worker. */
	mmput_async(p->mm);
}

void sim_resume_init(struct sim_process *p)
{
	INIT_DELAYED_WORK(&p->resume, resume_worker);
}

static struct sim_process *process_by_pid(u32 nr)
{
	struct pid *pid = find_get_pid(nr);	/* in the caller's namespace */
	struct sim_process *p = NULL;
	struct task_struct *task;
	struct mm_struct *mm;

	if (!pid)
		return NULL;
	task = get_pid_task(pid, PIDTYPE_PID);
	put_pid(pid);
	if (!task)
		return NULL;
	mm = get_task_mm(task);
	put_task_struct(task);
	if (!mm)
		return NULL;
	p = sim_process_find(mm);
	mmput(mm);
	return p;
}

static int resume_target(struct sim_process *t)
{
	bool has_vm = false;
	u32 i;
	int r;

	r = sim_svm_resume(t);
	if (r)
		return r;
	for (i = 0; i < t->n_pdds; i++)
		has_vm |= !!t->pdds[i].vm;
	if (!has_vm) {
		sim_would_oops("CRIU_OP RESUME of a process without an address space on any GPU");
		return -EFAULT;
	}
	/*
	 * Raised before the test, as in the kernel: after the refusal nobody lowers it again, and the queues
	 * of the target never run any more.
	 */
	t->evicted_bos++;
	if (!t->blocked) {
		atomic64_inc(&sim_cnt_warnings);
		sim_process_refresh_queues(t);
		return -EINVAL;
	}
	t->blocked = false;
	queue_delayed_work(sim_kfd_wq, &t->resume, msecs_to_jiffies(READ_ONCE(sim_resume_delay_ms)));
	return 0;
}

static int criu_resume(struct kfd_ioctl_criu_args *a)
{
	struct sim_process *t = process_by_pid(a->pid);
	int r;

	atomic64_inc(&sim_cnt_resume);
	if (!t)
		return -ESRCH;
	mutex_lock(&t->lock);
	r = resume_target(t);
	mutex_unlock(&t->lock);
	sim_process_put(t);
	return r;
}

int sim_ioctl_criu_op(struct sim_process *p, void *data, u32 size)
{
	static const char *const points[] = {
		"kfd.criu_op.process_info", "kfd.criu_op.checkpoint", "kfd.criu_op.unpause", "kfd.criu_op.restore",
		"kfd.criu_op.resume",
	};
	struct kfd_ioctl_criu_args *a = data;
	int r;

	if (a->op >= ARRAY_SIZE(points))
		return -EINVAL;
	r = sim_fault_check(points[a->op]);
	if (r)
		return r;
	if (a->op == KFD_CRIU_OP_RESUME)	/* the lock taken is the target's */
		return criu_resume(a);
	mutex_lock(&p->lock);
	switch (a->op) {
	case KFD_CRIU_OP_PROCESS_INFO:
		r = criu_process_info(p, a);
		break;
	case KFD_CRIU_OP_CHECKPOINT:
		r = sim_criu_dump(p, a);
		break;
	case KFD_CRIU_OP_UNPAUSE:
		r = criu_unpause(p);
		break;
	default:
		r = sim_criu_restore(p, a);
		break;
	}
	mutex_unlock(&p->lock);
	return r;
}
