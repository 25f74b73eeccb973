// SPDX-License-Identifier: GPL-2.0
/* CRIU_OP RESTORE: the objects behind the buffer objects: queues, events, SVM ranges. */
#include <linux/slab.h>
#include <linux/uaccess.h>
#include "kfd.h"
#include "kfd_criu.h"

int sim_criu_get(const struct kfd_ioctl_criu_args *a, u64 *off, void *to, u64 size)
{
	const u8 __user *priv = u64_to_user_ptr(a->priv_data);

	if (size > a->priv_data_size || *off > a->priv_data_size - size)
		return -EINVAL;
	if (copy_from_user(to, priv + *off, size))
		return -EFAULT;
	*off += size;
	return 0;
}

static struct sim_queue *queue_of_record(struct sim_pdd *pdd, const struct sim_criu_queue *rec)
{
	struct sim_queue *q = kzalloc(sizeof(*q), GFP_KERNEL);

	if (!q)
		return NULL;
	q->pdd = pdd;
	q->type = rec->type;
	q->format = rec->format;
	q->ring = rec->q_address;
	q->ring_size = rec->q_size;
	q->rptr_va = rec->read_ptr;
	q->wptr_va = rec->write_ptr;
	q->eop = rec->eop_addr;
	q->eop_size = rec->eop_size;
	q->ctx = rec->ctx_area;
	q->ctx_size = rec->ctx_size;
	q->ctl_stack = rec->ctl_stack_size;
	q->percent = rec->percent;
	q->priority = rec->priority;
	q->gws = rec->gws;
	return q;
}

static bool plausible(const struct sim_criu_queue *rec)
{
	return (rec->type == SIM_QUEUE_COMPUTE || rec->type == SIM_QUEUE_SDMA || rec->type == SIM_QUEUE_XGMI) &&
	       rec->format <= SIM_FORMAT_AQL && rec->ctl_stack_size <= SIM_MAX_CTL_STACK &&
	       rec->q_size <= U32_MAX && (!rec->q_size || is_power_of_2(rec->q_size));
}

static int restore_queue(struct sim_process *p, const struct kfd_ioctl_criu_args *a, u64 *off)
{
	struct sim_criu_queue rec;
	struct sim_queue *q;
	struct sim_pdd *pdd;
	u64 extra;
	void *mqd;
	int r;

	r = sim_criu_get(a, off, &rec, sizeof(rec));
	if (r)
		return r;
	extra = (u64)rec.mqd_size + rec.ctl_stack_size;
	if (extra > a->priv_data_size)	/* before memory is taken for it */
		return -EINVAL;
	mqd = kvmalloc(extra, GFP_KERNEL | __GFP_NOWARN);
	if (!mqd)
		return -ENOMEM;
	r = sim_criu_get(a, off, mqd, extra);
	if (r)
		goto out;
	pdd = sim_pdd_by_user_id(p, rec.gpu_id);
	if (!pdd || !pdd->vm || rec.mqd_size != SIM_MQD_BYTES || !plausible(&rec)) {
		r = -EINVAL;
		goto out;
	}
	q = queue_of_record(pdd, &rec);
	if (!q) {
		r = -ENOMEM;
		goto out;
	}
	r = sim_queue_create(q, &rec, mqd);
	if (r)
		kfree(q);
out:
	kvfree(mqd);
	return r;
}

static int restore_event(struct sim_process *p, const struct kfd_ioctl_criu_args *a, u64 *off)
{
	struct sim_criu_event rec;
	struct sim_event like = {};
	int r;

	r = sim_criu_get(a, off, &rec, sizeof(rec));
	if (r)
		return r;
	if (rec.user_handle) {
		r = sim_event_page_set(p, rec.user_handle);
		if (r)
			return r;
	}
	like.type = rec.type;
	like.auto_reset = rec.auto_reset;
	like.signaled = rec.signaled;
	if (rec.type == KFD_IOC_EVENT_MEMORY)
		like.memory = rec.memory;
	else if (rec.type == KFD_IOC_EVENT_HW_EXCEPTION)
		like.hw = rec.hw;
	r = sim_event_new(p, &like, &rec.event_id);
	return r < 0 ? r : 0;
}

int sim_criu_restore_objects(struct sim_process *p, struct kfd_ioctl_criu_args *a, u64 *off)
{
	u32 i, type;
	u64 at;
	int r;

	for (i = 0; i < a->num_objects; i++) {
		at = *off;
		r = sim_criu_get(a, &at, &type, sizeof(type));
		if (r)
			return r;
		switch (type) {
		case SIM_CRIU_QUEUE:
			r = restore_queue(p, a, off);
			break;
		case SIM_CRIU_EVENT:
			r = restore_event(p, a, off);
			break;
		case SIM_CRIU_SVM:
			r = sim_svm_restore(p, u64_to_user_ptr(a->priv_data), off, a->priv_data_size);
			break;
		default:
			r = -EINVAL;
		}
		if (r)
			return r;
	}
	return 0;
}
