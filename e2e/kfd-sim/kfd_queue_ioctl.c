// SPDX-License-Identifier: GPL-2.0
/* The calls about queues. */
#include <linux/slab.h>
#include <linux/uaccess.h>
#include "kfd.h"

#define MAX_CU_MASK_BITS 1024

static bool user_ok(u64 addr, u64 size)
{
	return access_ok(u64_to_user_ptr(addr), size);
}

static int check_args(const struct kfd_ioctl_create_queue_args *a)
{
	/* Bits above the low byte choose which partition of the GPU the percentage is of. */
	if ((a->queue_percentage & 0xff) > KFD_MAX_QUEUE_PERCENTAGE)
		return -EINVAL;
	if (a->queue_priority > KFD_MAX_QUEUE_PRIORITY)
		return -EINVAL;
	if (a->ring_base_address && !user_ok(a->ring_base_address, sizeof(u64)))
		return -EFAULT;
	if (a->ring_size && !is_power_of_2(a->ring_size))
		return -EINVAL;
	if (!user_ok(a->read_pointer_address, sizeof(u32)) || !user_ok(a->write_pointer_address, sizeof(u32)))
		return -EFAULT;
	if (a->eop_buffer_address && !user_ok(a->eop_buffer_address, sizeof(u32)))
		return -EFAULT;
	if (a->ctx_save_restore_address && !user_ok(a->ctx_save_restore_address, sizeof(u32)))
		return -EFAULT;
	return 0;
}

static int set_kind(struct sim_queue *q, u32 type)
{
	switch (type) {
	case KFD_IOC_QUEUE_TYPE_COMPUTE:
	case KFD_IOC_QUEUE_TYPE_COMPUTE_AQL:
		q->type = SIM_QUEUE_COMPUTE;
		break;
	case KFD_IOC_QUEUE_TYPE_SDMA:
		q->type = SIM_QUEUE_SDMA;
		break;
	case KFD_IOC_QUEUE_TYPE_SDMA_XGMI:
		q->type = SIM_QUEUE_XGMI;
		break;
	case KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID:
		/* Added with 1.17; which of the two SDMA kinds it becomes depends on the GPU. */
		if (sim_sys.kfd_minor < 17)
			return -ENOTSUPP;
		q->type = SIM_QUEUE_SDMA;
		break;
	default:
		return -ENOTSUPP;
	}
	q->format = type == KFD_IOC_QUEUE_TYPE_COMPUTE_AQL ? SIM_FORMAT_AQL : SIM_FORMAT_PM4;
	return 0;
}

/* Engines are counted through: ordinary SDMA first, then those for XGMI. */
static int set_engine(struct sim_queue *q, u32 engine)
{
	const struct sim_node_desc *d = q->pdd->gpu->desc;

	if (engine >= d->num_sdma_engines + d->num_sdma_xgmi_engines)
		return -EINVAL;
	if (engine >= d->num_sdma_engines) {
		q->type = SIM_QUEUE_XGMI;
		engine -= d->num_sdma_engines;
	}
	q->sdma_id = engine;
	return 0;
}

static int create_locked(struct sim_process *p, struct sim_queue *q, struct kfd_ioctl_create_queue_args *a)
{
	int r;

	q->pdd = sim_pdd_by_user_id(p, a->gpu_id);
	if (!q->pdd)
		return -EINVAL;
	if (!q->pdd->vm)
		return -ESRCH;
	q->sdma_id = SIM_ANY_ENGINE;
	if (a->queue_type == KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID) {
		r = set_engine(q, a->sdma_engine_id);
		if (r)
			return r;
	}
	r = sim_queue_create(q, NULL, NULL);
	if (r)
		return r;
	a->queue_id = q->qid;
	/* With the USER id: after a restore elsewhere this offset is no good for mmap, in the kernel as well. */
	a->doorbell_offset = SIM_MMAP_OFFSET(SIM_MMAP_DOORBELL, a->gpu_id) | sim_doorbell_offset(q);
	return 0;
}

int sim_ioctl_create_queue(struct sim_process *p, void *data, u32 size)
{
	struct kfd_ioctl_create_queue_args *a = data;
	struct sim_queue *q;
	int r;

	r = check_args(a);
	if (r)
		return r;
	q = kzalloc(sizeof(*q), GFP_KERNEL);
	if (!q)
		return -ENOMEM;
	r = set_kind(q, a->queue_type);
	if (r)
		goto err;
	q->ring = a->ring_base_address;
	q->ring_size = a->ring_size;
	if (q->ring_size && q->ring_size < KFD_MIN_QUEUE_RING_SIZE)
		q->ring_size = KFD_MIN_QUEUE_RING_SIZE;
	q->rptr_va = a->read_pointer_address;
	q->wptr_va = a->write_pointer_address;
	q->percent = a->queue_percentage & 0xff;
	q->priority = a->queue_priority;
	if (q->type == SIM_QUEUE_COMPUTE) {
		q->eop = a->eop_buffer_address;
		q->eop_size = a->eop_buffer_size;
		q->ctx = a->ctx_save_restore_address;
		q->ctx_size = a->ctx_save_restore_size;
		q->ctl_stack = min_t(u32, a->ctl_stack_size, SIM_MAX_CTL_STACK);
	}
	mutex_lock(&p->lock);
	r = create_locked(p, q, a);
	mutex_unlock(&p->lock);
	if (!r)
		return 0;
err:
	kfree(q);
	return r;
}

int sim_ioctl_destroy_queue(struct sim_process *p, void *data, u32 size)
{
	struct kfd_ioctl_destroy_queue_args *a = data;
	struct sim_queue *q;

	mutex_lock(&p->lock);
	q = sim_queue_find(p, a->queue_id);
	if (q)
		sim_queue_destroy(q);
	mutex_unlock(&p->lock);
	return q ? 0 : -EINVAL;
}

/* Another ring must be as good as that of a new queue. */
static int update_locked(struct sim_process *p, struct kfd_ioctl_update_queue_args *a)
{
	struct sim_queue *q = sim_queue_find(p, a->queue_id);
	struct sim_queue probe;
	u64 ring_size = a->ring_size;
	int r;

	if (!q)
		return -EFAULT;
	if (ring_size && ring_size < KFD_MIN_QUEUE_RING_SIZE)
		ring_size = KFD_MIN_QUEUE_RING_SIZE;
	if (a->ring_base_address && ring_size && (a->ring_base_address != q->ring || ring_size != q->ring_size)) {
		probe = *q;
		memset(probe.bufs, 0, sizeof(probe.bufs));
		probe.ring = a->ring_base_address;
		probe.ring_size = ring_size;
		r = sim_qbuf_acquire(&probe);
		if (r)
			return r;
		sim_qbuf_release(q);
		memcpy(q->bufs, probe.bufs, sizeof(q->bufs));
	}
	q->ring = a->ring_base_address;
	q->ring_size = ring_size;
	q->percent = a->queue_percentage & 0xff;
	q->priority = a->queue_priority;
	sim_queue_refresh(q);
	sim_exec_kick(p);
	return 0;
}

int sim_ioctl_update_queue(struct sim_process *p, void *data, u32 size)
{
	struct kfd_ioctl_update_queue_args *a = data;
	int r;

	if ((a->queue_percentage & 0xff) > KFD_MAX_QUEUE_PERCENTAGE)
		return -EINVAL;
	if (a->queue_priority > KFD_MAX_QUEUE_PRIORITY)
		return -EINVAL;
	if (a->ring_base_address && !user_ok(a->ring_base_address, sizeof(u64)))
		return -EFAULT;
	if (a->ring_size && !is_power_of_2(a->ring_size))
		return -EINVAL;
	mutex_lock(&p->lock);
	r = update_locked(p, a);
	mutex_unlock(&p->lock);
	return r;
}

/* The mask is checked and forgotten: no shader runs here. */
int sim_ioctl_set_cu_mask(struct sim_process *p, void *data, u32 size)
{
	struct kfd_ioctl_set_cu_mask_args *a = data;
	u32 bits = min_t(u32, a->num_cu_mask, MAX_CU_MASK_BITS);
	u32 mask[MAX_CU_MASK_BITS / 32];
	struct sim_queue *q;

	if (a->num_cu_mask % 32 || !a->num_cu_mask)
		return -EINVAL;
	if (copy_from_user(mask, u64_to_user_ptr(a->cu_mask_ptr), bits / 8))
		return -EFAULT;
	mutex_lock(&p->lock);
	q = sim_queue_find(p, a->queue_id);
	mutex_unlock(&p->lock);
	return q ? 0 : -EFAULT;
}

int sim_ioctl_get_queue_wave_state(struct sim_process *p, void *data, u32 size)
{
	struct kfd_ioctl_get_queue_wave_state_args *a = data;
	struct sim_queue *q;
	int r = 0;

	mutex_lock(&p->lock);
	q = sim_queue_find(p, a->queue_id);
	if (!q)
		r = -EFAULT;
	else if (q->type != SIM_QUEUE_COMPUTE || sim_queue_runnable(q))
		r = -EINVAL;
	mutex_unlock(&p->lock);
	if (!r) {	/* there never are waves */
		a->ctl_stack_used_size = 0;
		a->save_area_used_size = 0;
	}
	return r;
}

int sim_ioctl_alloc_queue_gws(struct sim_process *p, void *data, u32 size)
{
	struct kfd_ioctl_alloc_queue_gws_args *a = data;
	struct sim_queue *q;
	int r = 0;

	mutex_lock(&p->lock);
	q = sim_queue_find(p, a->queue_id);
	if (!q)
		r = -EINVAL;
	else if (!q->pdd->gpu->desc->num_gws)
		r = -ENODEV;
	else if (a->num_gws && q->gws)
		r = -EBUSY;
	else if (!a->num_gws && !q->gws)
		r = -EINVAL;
	else
		q->gws = !!a->num_gws;
	mutex_unlock(&p->lock);
	a->first_gws = 0;
	return r;
}
