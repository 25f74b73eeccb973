// SPDX-License-Identifier: GPL-2.0
/*
 * mmap of /dev/kfd. What is mapped follows from the offset and from the process that calls, not from the
 * file. This runs with mmap_lock held, so no lock of ours is taken: the pages are read from pointers that
 * are set once. A mapping holds its process object, as the pages go with that.
 */
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include "kfd.h"

static void vma_open(struct vm_area_struct *vma)
{
	sim_process_get(vma->vm_private_data);
}

static void vma_close(struct vm_area_struct *vma)
{
	sim_process_put(vma->vm_private_data);
}

static const struct vm_operations_struct vma_ops = {
	.open = vma_open,
	.close = vma_close,
};

static int map_doorbells(struct sim_process *p, struct sim_gpu *gpu, unsigned long length, struct page **page)
{
	struct sim_pdd *pdd = sim_pdd_by_gpu(p, gpu);

	if (!pdd || length != sim_sys.doorbell_slice)
		return -EINVAL;
	*page = sim_pdd_doorbells(pdd);
	return *page ? 0 : -ENOMEM;
}

static int map_mmio(struct sim_process *p, struct sim_gpu *gpu, unsigned long length, struct page **page)
{
	struct sim_pdd *pdd = sim_pdd_by_gpu(p, gpu);

	if (!pdd || length != PAGE_SIZE)
		return -EINVAL;
	*page = sim_pdd_mmio(pdd);
	return *page ? 0 : -ENOMEM;
}

/* Only a page that the kernel made; one that came from user space is mapped through its render node. */
static int map_events(struct sim_process *p, unsigned long length, struct page **page)
{
	*page = smp_load_acquire(&p->event_page);
	if (!*page || length > SIM_EVENT_PAGE_BYTES)
		return -EINVAL;
	WRITE_ONCE(p->event_mapped, length);
	return 0;
}

static int map_for(struct sim_process *p, struct vm_area_struct *vma)
{
	u64 offset = (u64)vma->vm_pgoff << PAGE_SHIFT;
	unsigned long length = vma->vm_end - vma->vm_start;
	struct sim_gpu *gpu = sim_gpu_by_actual_id(SIM_MMAP_GPU(offset));
	struct page *page;
	int r;

	switch (SIM_MMAP_TYPE(offset)) {
	case SIM_MMAP_DOORBELL:
		r = gpu ? map_doorbells(p, gpu, length, &page) : -ENODEV;
		break;
	case SIM_MMAP_EVENTS:
		r = map_events(p, length, &page);
		break;
	case SIM_MMAP_MMIO:
		r = gpu ? map_mmio(p, gpu, length, &page) : -ENODEV;
		break;
	default:	/* a reserved CWSR area: none of these GPUs has one */
		r = gpu ? -EINVAL : -ENODEV;
		break;
	}
	if (r)
		return r;
	vm_flags_set(vma, VM_IO | VM_DONTCOPY | VM_DONTEXPAND | VM_NORESERVE | VM_DONTDUMP | VM_PFNMAP);
	r = remap_pfn_range(vma, vma->vm_start, page_to_pfn(page), length, vma->vm_page_prot);
	if (r)
		return r;
	vma->vm_ops = &vma_ops;
	vma->vm_private_data = p;
	sim_process_get(p);
	return 0;
}

int sim_kfd_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct sim_process *p = sim_process_find(current->mm);
	int r;

	if (!p)
		return -EINVAL;
	r = map_for(p, vma);
	/* Never the last reference: the mm is alive, so the hash has one. */
	sim_process_put(p);
	return r;
}
