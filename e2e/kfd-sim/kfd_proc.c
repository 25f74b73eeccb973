// SPDX-License-Identifier: GPL-2.0
/*
 * /sys/class/kfd/kfd/proc/PID: what a process uses. Ids in the names and contents are ACTUAL ones.
 * The show functions take no lock: a queue's directory is removed with the process lock held, and that
 * removal waits for readers.
 */
#include <linux/slab.h>
#include "kfd.h"

static struct kobject *proc_kobj;

static ssize_t pasid_show(struct kobject *k, struct kobj_attribute *a, char *buf)
{
	return sysfs_emit(buf, "%u\n", container_of(a, struct sim_process, pasid_attr)->pasid);
}

static ssize_t vram_show(struct kobject *k, struct kobj_attribute *a, char *buf)
{
	struct sim_pdd *pdd = container_of(a, struct sim_pdd, vram_attr);

	return sysfs_emit(buf, "%llu\n", (u64)atomic64_read(&pdd->vram_usage));
}

/* Time that SDMA queues were busy: nothing measures it here. */
static ssize_t sdma_show(struct kobject *k, struct kobj_attribute *a, char *buf)
{
	return sysfs_emit(buf, "0\n");
}

static ssize_t evicted_show(struct kobject *k, struct kobj_attribute *a, char *buf)
{
	struct sim_pdd *pdd = container_of(a, struct sim_pdd, evicted_attr);

	return sysfs_emit(buf, "%llu\n", div_u64(READ_ONCE(pdd->evicted_ns), NSEC_PER_MSEC));
}

static ssize_t zero_show(struct kobject *k, struct kobj_attribute *a, char *buf)
{
	return sysfs_emit(buf, "0\n");
}

static struct kobj_attribute cu_attr = __ATTR(cu_occupancy, 0444, zero_show, NULL);
static struct kobj_attribute faults_attr = __ATTR(faults, 0444, zero_show, NULL);
static struct kobj_attribute page_in_attr = __ATTR(page_in, 0444, zero_show, NULL);
static struct kobj_attribute page_out_attr = __ATTR(page_out, 0444, zero_show, NULL);

static ssize_t queue_show(struct kobject *k, struct kobj_attribute *a, char *buf)
{
	/* Which of the three attributes it is decides how far the queue lies before it. */
	switch (a->attr.name[0]) {
	case 'g':
		return sysfs_emit(buf, "%u\n", container_of(a, struct sim_queue, attrs[0])->pdd->gpu->desc->gpu_id);
	case 's':
		return sysfs_emit(buf, "%llu\n", READ_ONCE(container_of(a, struct sim_queue, attrs[1])->ring_size));
	default:
		return sysfs_emit(buf, "%u\n", container_of(a, struct sim_queue, attrs[2])->type);
	}
}

/* An attribute that is missing after -ENOMEM is an empty place in sysfs, no reason to fail an open. */
static void add_attr(struct kobject *k, struct kobj_attribute *a, const char *name,
		     ssize_t (*show)(struct kobject *, struct kobj_attribute *, char *))
{
	sysfs_attr_init(&a->attr);
	a->attr.name = name;
	a->attr.mode = 0444;
	a->show = show;
	if (sysfs_create_file(k, &a->attr))
		pr_warn("kfd-sim: no sysfs attribute %s\n", name);
}

static void drop(struct kobject **k)
{
	if (!*k)
		return;
	kobject_del(*k);
	kobject_put(*k);
	*k = NULL;
}

static void add_pdd(struct sim_process *p, struct sim_pdd *pdd)
{
	static struct attribute *const counters[] = { &faults_attr.attr, &page_in_attr.attr, &page_out_attr.attr };
	u32 id = pdd->gpu->desc->gpu_id, i;
	char name[24];

	snprintf(pdd->vram_name, sizeof(pdd->vram_name), "vram_%u", id);
	add_attr(p->kobj, &pdd->vram_attr, pdd->vram_name, vram_show);
	snprintf(pdd->sdma_name, sizeof(pdd->sdma_name), "sdma_%u", id);
	add_attr(p->kobj, &pdd->sdma_attr, pdd->sdma_name, sdma_show);

	snprintf(name, sizeof(name), "stats_%u", id);
	pdd->stats_kobj = kobject_create_and_add(name, p->kobj);
	if (pdd->stats_kobj) {
		add_attr(pdd->stats_kobj, &pdd->evicted_attr, "evicted_ms", evicted_show);
		if (sysfs_create_file(pdd->stats_kobj, &cu_attr.attr))
			pr_warn("kfd-sim: no sysfs attribute cu_occupancy\n");
	}
	snprintf(name, sizeof(name), "counters_%u", id);
	pdd->counters_kobj = kobject_create_and_add(name, p->kobj);
	for (i = 0; pdd->counters_kobj && i < ARRAY_SIZE(counters); i++)
		if (sysfs_create_file(pdd->counters_kobj, counters[i]))
			pr_warn("kfd-sim: no sysfs attribute %s\n", counters[i]->name);
}

void sim_proc_add(struct sim_process *p)
{
	char name[16];
	u32 i;

	snprintf(name, sizeof(name), "%d", p->pid);
	p->kobj = kobject_create_and_add(name, proc_kobj);
	if (!p->kobj) {
		pr_warn("kfd-sim: no directory proc/%d\n", p->pid);
		return;
	}
	add_attr(p->kobj, &p->pasid_attr, "pasid", pasid_show);
	p->queues_kobj = kobject_create_and_add("queues", p->kobj);
	for (i = 0; i < p->n_pdds; i++)
		add_pdd(p, &p->pdds[i]);
}

void sim_proc_remove(struct sim_process *p)
{
	u32 i;

	for (i = 0; i < p->n_pdds; i++) {
		drop(&p->pdds[i].stats_kobj);
		drop(&p->pdds[i].counters_kobj);
	}
	drop(&p->queues_kobj);
	drop(&p->kobj);
}

void sim_proc_add_queue(struct sim_queue *q)
{
	static const char *const names[] = { "gpuid", "size", "type" };
	char name[16];
	u32 i;

	if (!q->pdd->proc->queues_kobj)
		return;
	snprintf(name, sizeof(name), "%u", q->qid);
	q->kobj = kobject_create_and_add(name, q->pdd->proc->queues_kobj);
	for (i = 0; q->kobj && i < ARRAY_SIZE(names); i++)
		add_attr(q->kobj, &q->attrs[i], names[i], queue_show);
}

void sim_proc_remove_queue(struct sim_queue *q)
{
	drop(&q->kobj);
}

int sim_proc_init(struct kobject *kfd)
{
	proc_kobj = kobject_create_and_add("proc", kfd);
	return proc_kobj ? 0 : -ENOMEM;
}

void sim_proc_exit(void)
{
	drop(&proc_kobj);
}
