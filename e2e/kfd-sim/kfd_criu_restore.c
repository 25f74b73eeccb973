// SPDX-License-Identifier: GPL-2.0
/*
 * CRIU_OP RESTORE: process record, devices and buffer objects; queues, events and SVM ranges are in
 * kfd_criu_objects.c. The process lock is held by the caller. What a failed RESTORE has made stays until
 * the process dies, as in the kernel.
 */
#include <linux/file.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include "kfd.h"
#include "kfd_criu.h"

#define FLAG(name) KFD_IOC_ALLOC_MEM_FLAGS_##name

static int restore_process(struct sim_process *p, const struct kfd_ioctl_criu_args *a, u64 *off)
{
	struct sim_criu_process rec;
	int r;

	r = sim_criu_get(a, off, &rec, sizeof(rec));
	if (r)
		return r;
	if (rec.version != SIM_CRIU_VERSION)
		return -EINVAL;
	if (rec.xnack && !sim_xnack_possible(p))
		return -EPERM;
	p->xnack = rec.xnack;
	return 0;
}

static int restore_device(struct sim_process *p, const struct kfd_criu_device_bucket *b)
{
	struct sim_pdd *pdd = sim_pdd_by_gpu(p, sim_gpu_by_actual_id(b->actual_gpu_id));
	struct file *file;

	if (!b->user_gpu_id || !pdd)
		return -EINVAL;
	pdd->user_gpu_id = b->user_gpu_id;
	file = fget(b->drm_fd);
	if (!file)
		return -EINVAL;
	if (pdd->drm_file || sim_pdd_bind_vm(pdd, file)) {
		fput(file);
		return -EINVAL;
	}
	return sim_pdd_doorbells(pdd) ? 0 : -ENOMEM;
}

static int restore_devices(struct sim_process *p, const struct kfd_ioctl_criu_args *a, u64 *off)
{
	const struct kfd_criu_device_bucket __user *from = u64_to_user_ptr(a->devices);
	u64 records = (u64)a->num_devices * sizeof(struct sim_criu_device);
	struct kfd_criu_device_bucket *b;
	int r = 0;
	u32 i;

	if (a->num_devices != p->n_pdds || *off + records > a->priv_data_size)
		return -EINVAL;
	b = kmalloc_array(a->num_devices, sizeof(*b), GFP_KERNEL);
	if (!b)
		return -ENOMEM;
	if (copy_from_user(b, from, a->num_devices * sizeof(*b)))
		r = -EFAULT;
	for (i = 0; i < a->num_devices && !r; i++)
		r = restore_device(p, &b[i]);
	kfree(b);
	if (!r)
		*off += records;	/* nothing of use is in them */
	return r;
}

static int create_bo(struct sim_pdd *pdd, struct kfd_criu_bo_bucket *b, const struct sim_criu_bo *rec,
		     struct sim_mem **out)
{
	u32 actual = pdd->gpu->desc->gpu_id;
	u64 offset = rec->user_addr;
	int r;

	if (rec->idr_handle > INT_MAX)
		return -EINVAL;
	if (b->alloc_flags & FLAG(DOORBELL)) {
		if (b->size != sim_sys.doorbell_slice)
			return -EINVAL;
		if (!sim_pdd_doorbells(pdd))
			return -ENOMEM;
	} else if (b->alloc_flags & FLAG(MMIO_REMAP)) {
		if (b->size != PAGE_SIZE)
			return -EINVAL;
		if (!sim_pdd_mmio(pdd))
			return -ENOMEM;
	}
	if (!pdd->vm)
		return -EINVAL;
	/* The size of AQL ring memory is halved here once more: the kernel does the same. */
	r = sim_mem_create(pdd, b->addr, b->size, b->alloc_flags, &offset, true, out);
	if (r)
		return r;
	r = idr_alloc(&pdd->mems, *out, rec->idr_handle, rec->idr_handle + 1, GFP_KERNEL);
	if (r < 0) {
		sim_mem_destroy(*out);
		return -ENOMEM;
	}
	if (b->alloc_flags & FLAG(DOORBELL))
		b->restored_offset = SIM_MMAP_OFFSET(SIM_MMAP_DOORBELL, actual);
	if (b->alloc_flags & FLAG(MMIO_REMAP))
		b->restored_offset = SIM_MMAP_OFFSET(SIM_MMAP_MMIO, actual);
	else if (b->alloc_flags & (FLAG(GTT) | FLAG(VRAM)))
		b->restored_offset = offset;
	return 0;
}

static int restore_bo(struct sim_process *p, struct kfd_criu_bo_bucket *b, const struct sim_criu_bo *rec,
		      struct file **file)
{
	struct sim_pdd *pdd = sim_pdd_by_user_id(p, b->gpu_id), *peer;
	struct sim_mem *mem;
	u32 i;
	int r;

	if (!pdd)
		return -ENODEV;
	r = create_bo(pdd, b, rec, &mem);
	if (r)
		return r;
	for (i = 0; i < p->n_pdds && i < ARRAY_SIZE(rec->mapped) && rec->mapped[i]; i++) {
		peer = sim_pdd_by_user_id(p, rec->mapped[i]);
		if (!peer)
			return -EINVAL;
		if (!peer->vm)
			return -ENODEV;
		r = sim_mem_map(mem, peer);
		if (r)
			return r;
	}
	b->dmabuf_fd = KFD_INVALID_FD;
	if (b->alloc_flags & (FLAG(VRAM) | FLAG(GTT)))
		return sim_criu_export(mem, &b->dmabuf_fd, file);
	return 0;
}

static int restore_bos(struct sim_process *p, const struct kfd_ioctl_criu_args *a, u64 *off)
{
	void __user *user = u64_to_user_ptr(a->bos);
	u64 records = (u64)a->num_bos * sizeof(struct sim_criu_bo);
	struct kfd_criu_bo_bucket *b;
	struct sim_criu_bo *recs;
	struct file **files;
	int r = -ENOMEM;
	u32 i;

	if (*off + records > a->priv_data_size)
		return -EINVAL;
	/* From here to RESUME no user pages are taken; RESUME is possible even if the rest fails. */
	p->blocked = true;
	b = kvcalloc(a->num_bos, sizeof(*b), GFP_KERNEL | __GFP_NOWARN);
	recs = kvcalloc(a->num_bos, sizeof(*recs), GFP_KERNEL | __GFP_NOWARN);
	files = kvcalloc(a->num_bos, sizeof(*files), GFP_KERNEL | __GFP_NOWARN);
	if (!b || !recs || !files)
		goto out;
	r = copy_from_user(b, user, a->num_bos * sizeof(*b)) ? -EFAULT : sim_criu_get(a, off, recs, records);
	if (r)
		goto out;
	for (i = 0; i < a->num_bos && !r; i++)
		r = restore_bo(p, &b[i], &recs[i], &files[i]);
	if (!r && copy_to_user(user, b, a->num_bos * sizeof(*b)))
		r = -EFAULT;
	sim_criu_commit(files, b, a->num_bos, !r);
out:
	kvfree(files);
	kvfree(recs);
	kvfree(b);
	return r;
}

int sim_criu_restore(struct sim_process *p, struct kfd_ioctl_criu_args *a)
{
	u64 off = 0;
	int r;

	if ((a->num_bos && !a->bos) || !a->devices || !a->priv_data || !a->priv_data_size || !a->num_devices)
		return -EINVAL;
	/* So that no queue runs before all memory is there; undone by RESUME's worker. */
	r = sim_process_evict(p);
	if (!r)
		r = restore_process(p, a, &off);
	if (!r)
		r = restore_devices(p, a, &off);
	if (!r)
		r = restore_bos(p, a, &off);
	if (!r)
		r = sim_criu_restore_objects(p, a, &off);
	if (!r && off != a->priv_data_size)
		r = -EINVAL;
	return r;
}
