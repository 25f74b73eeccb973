// SPDX-License-Identifier: GPL-2.0
/* Process objects: one per mm, made at the first open of /dev/kfd, torn down after the last reference. */
#include <linux/delay.h>
#include <linux/file.h>
#include <linux/hashtable.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/sched/task.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include "kfd.h"

unsigned int sim_teardown_delay_ms;
module_param_named(teardown_delay_ms, sim_teardown_delay_ms, uint, 0644);
MODULE_PARM_DESC(teardown_delay_ms, "wait that long before the resources of a dead process are given back");

struct workqueue_struct *sim_kfd_wq;

static DEFINE_HASHTABLE(processes, 6);
static DEFINE_SPINLOCK(processes_lock);		/* the hash */
static DEFINE_MUTEX(sim_processes_mutex);	/* making processes, and the list of all, dying ones included */
static LIST_HEAD(all_processes);
static DEFINE_IDA(pasids);

void sim_process_get(struct sim_process *p)
{
	kref_get(&p->ref);
}

static void process_last_put(struct kref *ref)
{
	struct sim_process *p = container_of(ref, struct sim_process, ref);

	queue_delayed_work(sim_kfd_wq, &p->teardown, msecs_to_jiffies(READ_ONCE(sim_teardown_delay_ms)));
}

void sim_process_put(struct sim_process *p)
{
	kref_put(&p->ref, process_last_put);
}

struct sim_process *sim_process_find(struct mm_struct *mm)
{
	struct sim_process *p, *found = NULL;

	spin_lock(&processes_lock);
	hash_for_each_possible(processes, p, hash, (unsigned long)mm) {
		if (p->mm == mm && kref_get_unless_zero(&p->ref)) {
			found = p;
			break;
		}
	}
	spin_unlock(&processes_lock);
	return found;
}

/* The mm goes away (or the module does): from now on nobody finds the object. */
static void process_mm_release(struct mmu_notifier *mn, struct mm_struct *mm)
{
	struct sim_process *p = container_of(mn, struct sim_process, notifier);
	bool mine = false;

	spin_lock(&processes_lock);
	if (!p->dying) {
		p->dying = true;
		hash_del(&p->hash);
		mine = true;
	}
	spin_unlock(&processes_lock);
	if (mine)
		sim_process_put(p);
}

static const struct mmu_notifier_ops process_notifier_ops = {
	.release = process_mm_release,
};

static void process_free(struct sim_process *p)
{
	if (p->pasid)
		ida_free(&pasids, p->pasid);
	put_task_struct(p->lead);
	mmdrop(p->mm);
	kfree(p->pdds);
	kfree(p);
}

static void pdd_destroy(struct sim_pdd *pdd, u32 slice)
{
	if (pdd->vm) {
		sim_vm_release_compute(pdd->vm);
		sim_vm_put(pdd->vm);
	}
	if (pdd->drm_file)
		fput(pdd->drm_file);
	idr_destroy(&pdd->mems);
	if (pdd->doorbells)
		__free_pages(pdd->doorbells, get_order(slice));
	if (pdd->mmio)
		__free_page(pdd->mmio);
}

/* Order as in the kernel: queues, sysfs directory, buffer objects, address spaces. */
static void process_teardown(struct work_struct *work)
{
	struct sim_process *p = container_of(to_delayed_work(work), struct sim_process, teardown);
	struct sim_queue *q, *next;
	u32 i;

	mmu_notifier_unregister(&p->notifier, p->mm);
	cancel_delayed_work_sync(&p->resume);
	cancel_delayed_work_sync(&p->exec);

	mutex_lock(&p->lock);
	for (i = 0; i < p->n_pdds; i++)
		list_for_each_entry_safe(q, next, &p->pdds[i].queues, list)
			sim_queue_destroy(q);
	mutex_unlock(&p->lock);
	/* Destroying a queue never wakes the executor, so it stays cancelled. */

	sim_proc_remove(p);

	mutex_lock(&p->lock);
	for (i = 0; i < p->n_pdds; i++)
		sim_pdd_free_mems(&p->pdds[i]);
	sim_svm_destroy(p);
	mutex_unlock(&p->lock);

	mutex_lock(&sim_processes_mutex);
	list_del(&p->all);
	mutex_unlock(&sim_processes_mutex);

	for (i = 0; i < p->n_pdds; i++)
		pdd_destroy(&p->pdds[i], sim_sys.doorbell_slice);
	sim_events_destroy(p);
	process_free(p);
}

static void process_add_pdds(struct sim_process *p)
{
	u32 i;

	for (i = 0; i < sim_gpu_count(); i++) {
		struct sim_gpu *gpu = sim_gpu_by_index(i);
		struct sim_pdd *pdd = &p->pdds[p->n_pdds];

		if (!gpu || !sim_gpu_allowed(gpu))
			continue;
		pdd->proc = p;
		pdd->gpu = gpu;
		pdd->index = p->n_pdds++;
		pdd->user_gpu_id = gpu->desc->gpu_id;
		idr_init_base(&pdd->mems, 1);
		INIT_LIST_HEAD(&pdd->queues);
	}
}

static struct sim_process *process_new(void)
{
	struct sim_process *p = kzalloc(sizeof(*p), GFP_KERNEL);
	int pasid, r;

	if (!p)
		return ERR_PTR(-ENOMEM);
	p->pdds = kcalloc(max(sim_gpu_count(), 1u), sizeof(*p->pdds), GFP_KERNEL);
	if (!p->pdds) {
		kfree(p);
		return ERR_PTR(-ENOMEM);
	}
	kref_init(&p->ref);
	mutex_init(&p->lock);
	p->mm = current->mm;
	mmgrab(p->mm);
	p->lead = current->group_leader;
	get_task_struct(p->lead);
	p->pid = task_pid_nr(p->lead);
	get_task_comm(p->comm, p->lead);
	INIT_DELAYED_WORK(&p->teardown, process_teardown);
	sim_exec_init(p);
	sim_resume_init(p);
	sim_events_init(p);
	sim_svm_init(p);
	pasid = ida_alloc_range(&pasids, 0x8000, 0xffff, GFP_KERNEL);
	if (pasid < 0) {
		r = pasid;
		goto err;
	}
	p->pasid = pasid;
	process_add_pdds(p);
	p->notifier.ops = &process_notifier_ops;
	r = mmu_notifier_register(&p->notifier, p->mm);
	if (r)
		goto err;
	return p;
err:
	sim_events_destroy(p);
	process_free(p);
	return ERR_PTR(r);
}

struct sim_process *sim_process_open(void)
{
	struct sim_process *p, *other;
	bool named = false;

	if (!current->mm || current->group_leader->mm != current->mm)
		return ERR_PTR(-EINVAL);

	mutex_lock(&sim_processes_mutex);
	p = sim_process_find(current->mm);
	if (p)
		goto out;
	p = process_new();
	if (IS_ERR(p))
		goto out;
	/* After an exec the object of the old mm may still have the directory of this pid. */
	list_for_each_entry(other, &all_processes, all)
		named |= other->pid == p->pid;
	if (!named)
		sim_proc_add(p);
	sim_process_get(p);	/* the caller's, besides the hash's */
	list_add_tail(&p->all, &all_processes);
	spin_lock(&processes_lock);
	hash_add(processes, &p->hash, (unsigned long)p->mm);
	spin_unlock(&processes_lock);
out:
	mutex_unlock(&sim_processes_mutex);
	return p;
}

struct sim_pdd *sim_pdd_by_user_id(struct sim_process *p, u32 gpu_id)
{
	u32 i;

	for (i = 0; i < p->n_pdds; i++)
		if (p->pdds[i].user_gpu_id == gpu_id)
			return &p->pdds[i];
	return NULL;
}

struct sim_pdd *sim_pdd_by_gpu(struct sim_process *p, struct sim_gpu *gpu)
{
	u32 i;

	for (i = 0; gpu && i < p->n_pdds; i++)
		if (p->pdds[i].gpu == gpu)
			return &p->pdds[i];
	return NULL;
}

int sim_pdd_bind_vm(struct sim_pdd *pdd, struct file *file)
{
	struct sim_gpu *gpu;
	struct sim_vm *vm = sim_vm_of_file(file, &gpu);
	int r;

	if (IS_ERR(vm))
		return PTR_ERR(vm);
	if (gpu != pdd->gpu)
		return -EINVAL;
	r = sim_vm_make_compute(vm, pdd->proc->pasid);
	if (r)
		return r;
	pdd->vm = sim_vm_get(vm);
	pdd->drm_file = file;
	return 0;
}

static struct page *pdd_page(struct page **where, u32 order)
{
	struct page *have = READ_ONCE(*where), *fresh;

	if (have)
		return have;
	fresh = alloc_pages(GFP_KERNEL | __GFP_ZERO, order);
	if (!fresh)
		return NULL;
	/* mmap may come at the same time as an ioctl and cannot take the process lock. */
	have = cmpxchg(where, NULL, fresh);
	if (have)
		__free_pages(fresh, order);
	return have ?: fresh;
}

struct page *sim_pdd_doorbells(struct sim_pdd *pdd)
{
	return pdd_page(&pdd->doorbells, get_order(sim_sys.doorbell_slice));
}

struct page *sim_pdd_mmio(struct sim_pdd *pdd)
{
	return pdd_page(&pdd->mmio, 0);
}

/* Retry of page faults can be chosen per process from gfx90a on, within the CDNA line. */
bool sim_xnack_possible(struct sim_process *p)
{
	u32 i;

	for (i = 0; i < p->n_pdds; i++) {
		u32 v = p->pdds[i].gpu->desc->gfx_target_version;

		if (v != 90010 && (v < 90400 || v >= 100000))
			return false;
	}
	return p->n_pdds;
}

int sim_process_evict(struct sim_process *p)
{
	u32 i;
	int r;

	for (i = 0; i < p->n_pdds; i++) {
		struct sim_pdd *pdd = &p->pdds[i];

		r = sim_fault_check("kfd.evict_queues");
		if (r)
			goto undo;
		if (!pdd->evicted++)
			pdd->evicted_since_ns = ktime_get_ns();
		atomic64_inc(&pdd->gpu->cnt_evictions);
	}
	sim_process_refresh_queues(p);
	return 0;
undo:
	while (i--)
		p->pdds[i].evicted--;
	sim_process_refresh_queues(p);
	return r;
}

int sim_process_unevict(struct sim_process *p)
{
	int r = sim_fault_check("kfd.restore_queues");
	u32 i;

	if (r)
		return r;
	for (i = 0; i < p->n_pdds; i++) {
		struct sim_pdd *pdd = &p->pdds[i];

		if (pdd->evicted && !--pdd->evicted)
			pdd->evicted_ns += ktime_get_ns() - pdd->evicted_since_ns;
	}
	sim_process_refresh_queues(p);
	sim_exec_kick(p);
	return 0;
}

static void show_process(struct seq_file *m, struct sim_process *p)
{
	struct sim_queue *q;
	struct sim_mem *mem;
	u32 i, bos = 0;
	int id;

	for (i = 0; i < p->n_pdds; i++)
		idr_for_each_entry(&p->pdds[i].mems, mem, id)
			bos++;
	seq_printf(m, "pid=%d comm=%s state=%s paused=%d blocked=%d evicted_bos=%u bos=%u events=%u", p->pid, p->comm,
		   p->dying ? "dying" : "live", p->paused, p->blocked, p->evicted_bos, bos, sim_events_count(p));
	for (i = 0; i < p->n_pdds; i++) {
		struct sim_pdd *pdd = &p->pdds[i];

		seq_printf(m, " gpu=%u,user=%u,vm=%d,evicted=%u,queues=%u", pdd->gpu->desc->gpu_id, pdd->user_gpu_id,
			   !!pdd->vm, pdd->evicted, pdd->n_queues);
		list_for_each_entry(q, &pdd->queues, list)
			seq_printf(m, " queue=%u,type=%u,format=%u,rptr=%llu,packets=%llu,%s", q->qid, q->type,
				   q->format, q->rptr, q->packets,
				   q->halted ? "halted" : q->running ? "running" : "stopped");
	}
	seq_putc(m, '\n');
}

void sim_kfd_show_processes(struct seq_file *m)
{
	struct sim_process *p;

	mutex_lock(&sim_processes_mutex);
	list_for_each_entry(p, &all_processes, all) {
		mutex_lock(&p->lock);
		show_process(m, p);
		mutex_unlock(&p->lock);
	}
	mutex_unlock(&sim_processes_mutex);
}

int sim_process_init(void)
{
	sim_kfd_wq = alloc_workqueue("kfd-sim", WQ_UNBOUND, 0);
	return sim_kfd_wq ? 0 : -ENOMEM;
}

/* Called with no file open. Processes that closed theirs and still live lose their object here. */
void sim_process_exit(void)
{
	struct sim_process *p;
	bool left;
	int bucket;

	do {
		left = false;
		spin_lock(&processes_lock);
		hash_for_each(processes, bucket, p, hash) {
			left = kref_get_unless_zero(&p->ref);
			if (left)
				break;
		}
		spin_unlock(&processes_lock);
		if (left) {
			process_mm_release(&p->notifier, p->mm);
			sim_process_put(p);
		}
	} while (left);

	/* Teardown may be waiting for its delay: let it run now. What runs already is left alone. */
	do {
		mutex_lock(&sim_processes_mutex);
		list_for_each_entry(p, &all_processes, all)
			if (cancel_delayed_work(&p->teardown))
				queue_delayed_work(sim_kfd_wq, &p->teardown, 0);
		left = !list_empty(&all_processes);
		mutex_unlock(&sim_processes_mutex);
		if (left)
			msleep(10);
	} while (left);
	destroy_workqueue(sim_kfd_wq);
	ida_destroy(&pasids);
}
