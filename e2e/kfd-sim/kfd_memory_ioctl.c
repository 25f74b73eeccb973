// SPDX-License-Identifier: GPL-2.0
/* The calls about memory: ACQUIRE_VM, ALLOC, FREE, MAP, UNMAP, AVAILABLE_MEMORY, apertures. */
#include <linux/file.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include "kfd.h"

#define FLAG(name) KFD_IOC_ALLOC_MEM_FLAGS_##name

int sim_ioctl_acquire_vm(struct sim_process *p, void *data, u32 size)
{
	struct kfd_ioctl_acquire_vm_args *a = data;
	struct sim_pdd *pdd;
	struct file *file = fget(a->drm_fd);
	int r;

	if (!file)
		return -EINVAL;
	mutex_lock(&p->lock);
	pdd = sim_pdd_by_user_id(p, a->gpu_id);
	if (!pdd) {
		r = -EINVAL;
	} else if (pdd->drm_file) {
		r = pdd->drm_file == file ? 0 : -EBUSY;
	} else {
		r = sim_pdd_bind_vm(pdd, file);
		if (!r)
			file = NULL;	/* kept */
	}
	mutex_unlock(&p->lock);
	if (file)
		fput(file);
	return r;
}

static int check_alloc(struct sim_pdd *pdd, const struct kfd_ioctl_alloc_memory_of_gpu_args *a)
{
	if (a->flags & FLAG(DOORBELL)) {
		if (a->size != sim_sys.doorbell_slice)
			return -EINVAL;
		return sim_pdd_doorbells(pdd) ? 0 : -ENOMEM;
	}
	if (a->flags & FLAG(MMIO_REMAP)) {
		if (a->size != PAGE_SIZE)
			return -EINVAL;
		return sim_pdd_mmio(pdd) ? 0 : -ENOMEM;
	}
	return 0;
}

int sim_ioctl_alloc_memory_of_gpu(struct sim_process *p, void *data, u32 size)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args *a = data;
	u64 offset = a->mmap_offset;
	struct sim_pdd *pdd;
	struct sim_mem *mem;
	int r, nr;

	if (!a->size)
		return -EINVAL;
	mutex_lock(&p->lock);
	if (sim_svm_overlaps(p, a->va_addr, a->size)) {
		r = -EADDRINUSE;
		goto out;
	}
	pdd = sim_pdd_by_user_id(p, a->gpu_id);
	if (!pdd) {
		r = -EINVAL;
		goto out;
	}
	/* Bank type 2 is VRAM that the CPU sees only in part: no large BAR. */
	if ((a->flags & FLAG(PUBLIC)) && (a->flags & FLAG(VRAM)) && pdd->gpu->desc->heap_type == 2) {
		r = -EINVAL;
		goto out;
	}
	if (!pdd->vm) {
		r = -ENODEV;
		goto out;
	}
	r = check_alloc(pdd, a);
	if (r)
		goto out;
	r = sim_mem_create(pdd, a->va_addr, a->size, a->flags, &offset, false, &mem);
	if (r)
		goto out;
	nr = idr_alloc(&pdd->mems, mem, 1, 0, GFP_KERNEL);
	if (nr < 0) {
		sim_mem_destroy(mem);
		r = -EFAULT;
		goto out;
	}
	a->handle = SIM_HANDLE(a->gpu_id, nr);
	a->mmap_offset = a->flags & FLAG(MMIO_REMAP) ? SIM_MMAP_OFFSET(SIM_MMAP_MMIO, a->gpu_id) : offset;
out:
	mutex_unlock(&p->lock);
	return r;
}

int sim_ioctl_free_memory_of_gpu(struct sim_process *p, void *data, u32 size)
{
	struct kfd_ioctl_free_memory_of_gpu_args *a = data;
	struct sim_pdd *pdd;
	struct sim_mem *mem;
	int r = -EINVAL;

	mutex_lock(&p->lock);
	if (p->event_handle && p->event_handle == a->handle) {
		r = -EPERM;
		goto out;
	}
	pdd = sim_pdd_by_user_id(p, SIM_HANDLE_GPU(a->handle));
	mem = pdd ? sim_mem_find(pdd, SIM_HANDLE_NR(a->handle)) : NULL;
	if (!mem)
		goto out;
	if (!bitmap_empty(mem->mapped, SIM_MAX_GPUS)) {
		r = -EBUSY;
		goto out;
	}
	idr_remove(&pdd->mems, SIM_HANDLE_NR(a->handle));
	sim_mem_destroy(mem);
	r = 0;
out:
	mutex_unlock(&p->lock);
	return r;
}

/* The two calls share their argument's layout. */
static_assert(sizeof(struct kfd_ioctl_map_memory_to_gpu_args) == sizeof(struct kfd_ioctl_unmap_memory_from_gpu_args));

static int map_or_unmap(struct sim_process *p, struct kfd_ioctl_map_memory_to_gpu_args *a, bool map)
{
	struct sim_pdd *pdd, *peer;
	struct sim_mem *mem;
	u32 *ids;
	int r = 0;
	u32 i;

	if (!a->n_devices || a->n_success > a->n_devices)
		return -EINVAL;
	ids = kvmalloc_array(a->n_devices, sizeof(*ids), GFP_KERNEL | __GFP_NOWARN);
	if (!ids)
		return -ENOMEM;
	if (copy_from_user(ids, u64_to_user_ptr(a->device_ids_array_ptr), array_size(a->n_devices, sizeof(*ids)))) {
		kvfree(ids);
		return -EFAULT;
	}

	mutex_lock(&p->lock);
	pdd = sim_pdd_by_user_id(p, SIM_HANDLE_GPU(a->handle));
	if (!pdd) {
		r = -EINVAL;
		goto out;
	}
	if (map && !pdd->vm) {
		r = -ENODEV;
		goto out;
	}
	mem = sim_mem_find(pdd, SIM_HANDLE_NR(a->handle));
	if (!mem) {
		r = -ENOMEM;
		goto out;
	}
	for (i = a->n_success; i < a->n_devices; i++) {
		peer = sim_pdd_by_user_id(p, ids[i]);
		if (!peer)
			r = -EINVAL;
		else if (map)
			r = peer->vm ? sim_mem_map(mem, peer) : -ENODEV;
		else
			r = sim_mem_unmap(mem, peer);
		if (r)
			break;
		a->n_success = i + 1;
	}
out:
	mutex_unlock(&p->lock);
	kvfree(ids);
	return r;
}

int sim_ioctl_map_memory_to_gpu(struct sim_process *p, void *data, u32 size)
{
	return map_or_unmap(p, data, true);
}

int sim_ioctl_unmap_memory_from_gpu(struct sim_process *p, void *data, u32 size)
{
	return map_or_unmap(p, data, false);
}

int sim_ioctl_available_memory(struct sim_process *p, void *data, u32 size)
{
	struct kfd_ioctl_get_available_memory_args *a = data;
	struct sim_gpu *gpu;
	struct sim_pdd *pdd;

	mutex_lock(&p->lock);
	pdd = sim_pdd_by_user_id(p, a->gpu_id);
	if (!pdd) {
		mutex_unlock(&p->lock);
		return -EINVAL;
	}
	gpu = pdd->gpu;
	mutex_lock(&gpu->lock);
	a->available = gpu->vram_total > gpu->vram_used ? gpu->vram_total - gpu->vram_used : 0;
	mutex_unlock(&gpu->lock);
	mutex_unlock(&p->lock);
	/* VRAM is counted in blocks of 2 MiB. */
	a->available = ALIGN_DOWN(a->available, SZ_2M);
	return 0;
}

/* As of gfx9, for every GPU alike. The id is the ACTUAL one, whatever the process calls the GPU. */
static void fill_apertures(struct sim_pdd *pdd, struct kfd_process_device_apertures *ap)
{
	memset(ap, 0, sizeof(*ap));
	ap->lds_base = 1ull << 48;
	ap->lds_limit = ap->lds_base + 0xffffffffull;
	ap->scratch_base = 2ull << 48;
	ap->scratch_limit = ap->scratch_base + 0xffffffffull;
	ap->gpuvm_base = SIM_GPUVM_BASE;
	ap->gpuvm_limit = SIM_GPUVM_LIMIT;
	ap->gpu_id = pdd->gpu->desc->gpu_id;
}

int sim_ioctl_get_process_apertures(struct sim_process *p, void *data, u32 size)
{
	struct kfd_ioctl_get_process_apertures_args *a = data;
	u32 i;

	a->num_of_nodes = min_t(u32, p->n_pdds, NUM_OF_SUPPORTED_GPUS);
	for (i = 0; i < a->num_of_nodes; i++)
		fill_apertures(&p->pdds[i], &a->process_apertures[i]);
	return 0;
}

int sim_ioctl_get_process_apertures_new(struct sim_process *p, void *data, u32 size)
{
	struct kfd_ioctl_get_process_apertures_new_args *a = data;
	struct kfd_process_device_apertures ap;
	u8 __user *to = u64_to_user_ptr(a->kfd_process_device_apertures_ptr);
	u32 i, n;

	if (!a->num_of_nodes) {
		a->num_of_nodes = p->n_pdds;
		return 0;
	}
	if (a->num_of_nodes > sim_sys.num_nodes)
		return -EINVAL;
	n = min(a->num_of_nodes, p->n_pdds);
	a->num_of_nodes = n;
	for (i = 0; i < n; i++) {
		fill_apertures(&p->pdds[i], &ap);
		if (copy_to_user(to + i * sizeof(ap), &ap, sizeof(ap)))
			return -EFAULT;
	}
	return 0;
}
