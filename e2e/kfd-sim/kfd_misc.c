// SPDX-License-Identifier: GPL-2.0
/* The calls that only store or report something. */
#include <linux/timekeeping.h>
#include <linux/uaccess.h>
#include "kfd.h"

int sim_ioctl_get_version(struct sim_process *p, void *data, u32 size)
{
	struct kfd_ioctl_get_version_args *a = data;

	a->major_version = 1;
	a->minor_version = sim_sys.kfd_minor;
	return 0;
}

int sim_ioctl_set_memory_policy(struct sim_process *p, void *data, u32 size)
{
	struct kfd_ioctl_set_memory_policy_args *a = data;
	struct sim_pdd *pdd;
	int r = 0;

	if (a->default_policy > KFD_IOC_CACHE_POLICY_NONCOHERENT ||
	    a->alternate_policy > KFD_IOC_CACHE_POLICY_NONCOHERENT)
		return -EINVAL;
	mutex_lock(&p->lock);
	pdd = sim_pdd_by_user_id(p, a->gpu_id);
	if (!pdd)
		r = -EINVAL;
	else if (!pdd->vm)
		r = -ESRCH;
	mutex_unlock(&p->lock);
	return r;
}

/* The clock of the GPU is the one of packet time stamps. An unknown GPU has none; that is no error. */
int sim_ioctl_get_clock_counters(struct sim_process *p, void *data, u32 size)
{
	struct kfd_ioctl_get_clock_counters_args *a = data;

	mutex_lock(&p->lock);
	a->gpu_clock_counter = sim_pdd_by_user_id(p, a->gpu_id) ? ktime_get_boottime_ns() : 0;
	mutex_unlock(&p->lock);
	a->cpu_clock_counter = ktime_get_raw_ns();
	a->system_clock_counter = ktime_get_boottime_ns();
	a->system_clock_freq = NSEC_PER_SEC;
	return 0;
}

int sim_ioctl_set_scratch_backing_va(struct sim_process *p, void *data, u32 size)
{
	struct kfd_ioctl_set_scratch_backing_va_args *a = data;
	struct sim_pdd *pdd;
	int r = 0;

	mutex_lock(&p->lock);
	pdd = sim_pdd_by_user_id(p, a->gpu_id);
	if (!pdd)
		r = -EINVAL;
	else if (!pdd->vm)
		r = -ENODEV;
	else
		pdd->scratch_va = a->va_addr;
	mutex_unlock(&p->lock);
	return r;
}

int sim_ioctl_set_trap_handler(struct sim_process *p, void *data, u32 size)
{
	struct kfd_ioctl_set_trap_handler_args *a = data;
	struct sim_pdd *pdd;
	int r = 0;

	mutex_lock(&p->lock);
	pdd = sim_pdd_by_user_id(p, a->gpu_id);
	if (!pdd) {
		r = -EINVAL;
	} else if (!pdd->vm) {
		r = -ESRCH;
	} else {
		pdd->tba = a->tba_addr;
		pdd->tma = a->tma_addr;
	}
	mutex_unlock(&p->lock);
	return r;
}

/* All zeros: there is no tiling hardware. */
int sim_ioctl_get_tile_config(struct sim_process *p, void *data, u32 size)
{
	struct kfd_ioctl_get_tile_config_args *a = data;
	struct sim_pdd *pdd;

	mutex_lock(&p->lock);
	pdd = sim_pdd_by_user_id(p, a->gpu_id);
	mutex_unlock(&p->lock);
	if (!pdd)
		return -EINVAL;
	a->gb_addr_config = 0;
	a->num_banks = 0;
	a->num_ranks = 0;
	a->num_tile_configs = min(a->num_tile_configs, 32u);
	if (clear_user(u64_to_user_ptr(a->tile_config_ptr), a->num_tile_configs * sizeof(u32))) {
		a->num_tile_configs = 0;
		return -EFAULT;
	}
	a->num_macro_tile_configs = min(a->num_macro_tile_configs, 16u);
	if (clear_user(u64_to_user_ptr(a->macro_tile_config_ptr), a->num_macro_tile_configs * sizeof(u32))) {
		a->num_macro_tile_configs = 0;
		return -EFAULT;
	}
	return 0;
}

int sim_ioctl_set_xnack_mode(struct sim_process *p, void *data, u32 size)
{
	struct kfd_ioctl_set_xnack_mode_args *a = data;
	u32 i, queues = 0;
	int r = 0;

	mutex_lock(&p->lock);
	for (i = 0; i < p->n_pdds; i++)
		queues += p->pdds[i].n_queues;
	if (a->xnack_enabled < 0)
		a->xnack_enabled = p->xnack;
	else if (queues)
		r = -EBUSY;
	else if (a->xnack_enabled && !sim_xnack_possible(p))
		r = -EPERM;
	else
		p->xnack = a->xnack_enabled;
	mutex_unlock(&p->lock);
	return r;
}

int sim_ioctl_runtime_enable(struct sim_process *p, void *data, u32 size)
{
	struct kfd_ioctl_runtime_enable_args *a = data;
	int r = 0;
	u32 i;

	mutex_lock(&p->lock);
	if (!(a->mode_mask & KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK)) {
		p->runtime_enabled = false;
		p->runtime_r_debug = 0;
		goto out;
	}
	if (p->runtime_enabled)
		r = -EBUSY;
	for (i = 0; i < p->n_pdds && !r; i++)
		if (p->pdds[i].n_queues)
			r = -EEXIST;
	if (!r) {
		p->runtime_enabled = true;
		p->runtime_r_debug = a->r_debug;
	}
out:
	mutex_unlock(&p->lock);
	return r;
}

/* No debugger here. */
int sim_ioctl_dbg_trap(struct sim_process *p, void *data, u32 size)
{
	return -EPERM;
}
