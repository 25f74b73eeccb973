// SPDX-License-Identifier: Apache-2.0
/* The ioctls of /dev/kfd that the workload uses, one function each. */
#include <errno.h>
#include <fcntl.h>
#include <linux/kfd_ioctl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "wl.h"

/* Runtimes repeat an interrupted call; so do we, or every dump would look like an error. */
static int repeat_ioctl(int fd, unsigned long request, void *arg)
{
	int r;

	do {
		r = ioctl(fd, request, arg);
	} while (r < 0 && (errno == EINTR || errno == EAGAIN));
	return r < 0 ? -errno : 0;
}

int kfd_ioctl(struct wl *w, unsigned long request, void *arg)
{
	return repeat_ioctl(w->kfd, request, arg);
}

int drm_ioctl(int fd, unsigned long request, void *arg)
{
	return repeat_ioctl(fd, request, arg);
}

int kfd_get_version(struct wl *w)
{
	struct kfd_ioctl_get_version_args a = { 0 };
	int r = kfd_ioctl(w, AMDKFD_IOC_GET_VERSION, &a);

	w->kfd_major = a.major_version;
	w->kfd_minor = a.minor_version;
	return r;
}

int kfd_apertures(struct wl *w, uint32_t *ids, unsigned int max)
{
	struct kfd_process_device_apertures *rec = calloc(max, sizeof(*rec));
	struct kfd_ioctl_get_process_apertures_new_args a = {
		.kfd_process_device_apertures_ptr = (uintptr_t)rec,
		.num_of_nodes = 0,
	};
	int r;

	if (!rec)
		return -ENOMEM;
	r = kfd_ioctl(w, AMDKFD_IOC_GET_PROCESS_APERTURES_NEW, &a);	/* 0 asks for the count */
	if (!r && a.num_of_nodes) {
		if (a.num_of_nodes > max)
			a.num_of_nodes = max;
		r = kfd_ioctl(w, AMDKFD_IOC_GET_PROCESS_APERTURES_NEW, &a);
	}
	for (unsigned int i = 0; !r && i < a.num_of_nodes; i++)
		ids[i] = rec[i].gpu_id;
	free(rec);
	return r ? r : (int)a.num_of_nodes;
}

int kfd_acquire_vm(struct wl *w, uint32_t gpu_id, int fd)
{
	struct kfd_ioctl_acquire_vm_args a = { .drm_fd = fd, .gpu_id = gpu_id };

	return kfd_ioctl(w, AMDKFD_IOC_ACQUIRE_VM, &a);
}

int kfd_set_memory_policy(struct wl *w, uint32_t gpu_id)
{
	struct kfd_ioctl_set_memory_policy_args a = {
		.alternate_aperture_base = 0x200000,
		.alternate_aperture_size = 1ull << 46,
		.gpu_id = gpu_id,
		.default_policy = KFD_IOC_CACHE_POLICY_NONCOHERENT,
		.alternate_policy = KFD_IOC_CACHE_POLICY_COHERENT,
	};

	return kfd_ioctl(w, AMDKFD_IOC_SET_MEMORY_POLICY, &a);
}

int kfd_alloc(struct wl *w, uint32_t gpu_id, uint64_t va, uint64_t size, uint32_t flags,
	      uint64_t *handle, uint64_t *mmap_offset)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args a = {
		.va_addr = va, .size = size, .gpu_id = gpu_id, .flags = flags, .mmap_offset = *mmap_offset,
	};
	int r = kfd_ioctl(w, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &a);

	*handle = a.handle;
	*mmap_offset = a.mmap_offset;
	return r;
}

int kfd_free(struct wl *w, uint64_t handle)
{
	struct kfd_ioctl_free_memory_of_gpu_args a = { .handle = handle };

	return kfd_ioctl(w, AMDKFD_IOC_FREE_MEMORY_OF_GPU, &a);
}

int kfd_map(struct wl *w, uint64_t handle, uint32_t *ids, unsigned int n)
{
	struct kfd_ioctl_map_memory_to_gpu_args a = {
		.handle = handle, .device_ids_array_ptr = (uintptr_t)ids, .n_devices = n,
	};
	int r = kfd_ioctl(w, AMDKFD_IOC_MAP_MEMORY_TO_GPU, &a);

	return !r && a.n_success != n ? -EIO : r;
}

int kfd_unmap(struct wl *w, uint64_t handle, uint32_t *ids, unsigned int n)
{
	struct kfd_ioctl_unmap_memory_from_gpu_args a = {
		.handle = handle, .device_ids_array_ptr = (uintptr_t)ids, .n_devices = n,
	};
	int r = kfd_ioctl(w, AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU, &a);

	return !r && a.n_success != n ? -EIO : r;
}

int kfd_export_dmabuf(struct wl *w, uint64_t handle, int *fd)
{
	struct kfd_ioctl_export_dmabuf_args a = { .handle = handle, .flags = O_CLOEXEC };
	int r = kfd_ioctl(w, AMDKFD_IOC_EXPORT_DMABUF, &a);

	*fd = r ? -1 : (int)a.dmabuf_fd;
	return r;
}

int kfd_xnack(struct wl *w, int *mode)
{
	struct kfd_ioctl_set_xnack_mode_args a = { .xnack_enabled = *mode };
	int r = kfd_ioctl(w, AMDKFD_IOC_SET_XNACK_MODE, &a);

	*mode = a.xnack_enabled;
	return r;
}

int kfd_smi(struct wl *w, uint32_t gpu_id, int *fd)
{
	struct kfd_ioctl_smi_events_args a = { .gpuid = gpu_id };
	int r = kfd_ioctl(w, AMDKFD_IOC_SMI_EVENTS, &a);

	*fd = r ? -1 : (int)a.anon_fd;
	return r;
}
