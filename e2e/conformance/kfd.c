// SPDX-License-Identifier: Apache-2.0
/* Helpers around the KFD calls that an application makes. */
#include "conformance.h"

int kfd_open(void)
{
	int fd = open("/dev/kfd", O_RDWR | O_CLOEXEC);

	NEED(fd >= 0, "open /dev/kfd: errno %d", errno);
	return fd;
}

/* Which rules hold depends on the kernel; a child asks, so that the caller's process object stays unmade. */
u32 kfd_minor(void)
{
	struct kfd_ioctl_get_version_args *v = shared(sizeof(*v));
	pid_t pid = fork_child();

	if (!pid)
		_exit(call_ioctl(kfd_open(), AMDKFD_IOC_GET_VERSION, v) != 0);
	NEED(!child_status(pid), "GET_VERSION");
	return v->minor_version;
}

int render_open(int g)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/dev/dri/renderD%d", gpus[g].minor);
	fd = open(path, O_RDWR | O_CLOEXEC);
	NEED(fd >= 0, "open %s: errno %d", path, errno);
	return fd;
}

long kfd_acquire(int kfd, int drm, u32 gpu_id)
{
	struct kfd_ioctl_acquire_vm_args a = { .drm_fd = (u32)drm, .gpu_id = gpu_id };

	return call_ioctl(kfd, AMDKFD_IOC_ACQUIRE_VM, &a);
}

void app_start(struct app *a)
{
	a->kfd = kfd_open();
	for (int g = 0; g < ngpus; g++) {
		a->drm[g] = render_open(g);
		NEED_OK(kfd_acquire(a->kfd, a->drm[g], gpus[g].id));
	}
}

/* 1024 doorbells of 4 bytes before gfx9, of 8 bytes from there on. */
size_t doorbell_slice(int g)
{
	return gpu_prop(g, "gfx_target_version") >= 90000 ? 8192 : 4096;
}

long kfd_alloc(int kfd, struct bo *b, u32 gpu_id)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args a = {
		.va_addr = b->va, .size = b->size, .mmap_offset = b->off, .gpu_id = gpu_id, .flags = b->flags,
	};
	long rc = call_ioctl(kfd, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &a);

	if (!rc) {
		b->handle = a.handle;
		b->off = a.mmap_offset;
	}
	return rc;
}

long kfd_free(int kfd, u64 handle)
{
	struct kfd_ioctl_free_memory_of_gpu_args a = { .handle = handle };

	return call_ioctl(kfd, AMDKFD_IOC_FREE_MEMORY_OF_GPU, &a);
}

static long map_op(int kfd, unsigned long req, u64 handle, const u32 *ids, u32 n, u32 *done)
{
	struct kfd_ioctl_map_memory_to_gpu_args a = {
		.handle = handle, .device_ids_array_ptr = PTR(ids), .n_devices = n, .n_success = done ? *done : 0,
	};
	long rc = call_ioctl(kfd, req, &a);

	if (done)
		*done = a.n_success;
	return rc;
}

long kfd_map(int kfd, u64 handle, const u32 *ids, u32 n, u32 *done)
{
	return map_op(kfd, AMDKFD_IOC_MAP_MEMORY_TO_GPU, handle, ids, n, done);
}

long kfd_unmap(int kfd, u64 handle, const u32 *ids, u32 n, u32 *done)
{
	return map_op(kfd, AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU, handle, ids, n, done);
}

bool small_bar(int g)
{
	char path[128];
	u64 type = 0;

	snprintf(path, sizeof(path), TOPO "/nodes/%d/mem_banks/0/properties", gpus[g].node);
	return file_u64(path, "heap_type", &type) && type == 2;
}

/* Where the CPU does not reach VRAM, GTT stands in for VRAM that a case wants to look at. */
struct bo bo_new(struct app *a, int g, size_t size, u32 flags)
{
	struct bo b = { .size = size, .g = g };
	bool special = flags & (KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL | KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP);
	u64 off;
	void *p;

	if ((flags & (u32)F_VRAM) == (u32)F_VRAM && small_bar(g))
		flags = F_GTT;
	b.flags = flags;
	if (flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR) {
		b.cpu = reserve(size);
		b.va = b.off = PTR(b.cpu);
		NEED(!mprotect(b.cpu, size, PROT_READ | PROT_WRITE), "mprotect: errno %d", errno);
	} else {
		b.va = PTR(reserve(size));
	}
	NEED_OK(kfd_alloc(a->kfd, &b, gpus[g].id));
	NEED_OK(kfd_map(a->kfd, b.handle, &gpus[g].id, 1, NULL));
	if (flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR)
		return b;
	if ((flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM) && !(flags & KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC))
		return b;
	/* ALLOC answers with a DRM offset for doorbells too; the CPU maps them through kfd by the typed one. */
	off = flags & KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL ? KFD_OFF(3, gpus[g].id) : b.off;
	p = mmap((void *)b.va, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, special ? a->kfd : a->drm[g],
		 (off_t)off);
	NEED(p != MAP_FAILED, "mmap of a BO (flags %#x, offset %#llx): errno %d", flags, (unsigned long long)off, errno);
	b.cpu = p;
	return b;
}

void bo_del(struct app *a, struct bo *b)
{
	NEED_OK(kfd_unmap(a->kfd, b->handle, &gpus[b->g].id, 1, NULL));
	NEED_OK(kfd_free(a->kfd, b->handle));
	munmap((void *)b->va, b->size);
	b->handle = 0;
}

u64 kfd_avail(int kfd, int g)
{
	struct kfd_ioctl_get_available_memory_args a = { .gpu_id = gpus[g].id };

	NEED_OK(call_ioctl(kfd, AMDKFD_IOC_AVAILABLE_MEMORY, &a));
	return a.available;
}

/* The process of the case before may still be ending: wait for half a second without a change. */
u64 kfd_avail_settled(int kfd, int g)
{
	u64 was = kfd_avail(kfd, g), now;

	for (int same = 0, i = 0; same < 25 && i < 500; i++) {
		sleep_ms(20);
		now = kfd_avail(kfd, g);
		same = now == was ? same + 1 : 0;
		was = now;
	}
	return was;
}

long kfd_event(int kfd, u32 type, bool auto_reset, u64 page_handle, struct kfd_ioctl_create_event_args *out)
{
	memset(out, 0, sizeof(*out));
	out->event_page_offset = page_handle;
	out->event_type = type;
	out->auto_reset = auto_reset;
	return call_ioctl(kfd, AMDKFD_IOC_CREATE_EVENT, out);
}

long kfd_event_op(int kfd, unsigned long req, u32 id)
{
	struct kfd_ioctl_set_event_args a = { .event_id = id };

	return call_ioctl(kfd, req, &a);
}

long kfd_wait(int kfd, struct kfd_event_data *ev, u32 n, bool all, u32 ms, u32 *result)
{
	struct kfd_ioctl_wait_events_args a = {
		.events_ptr = PTR(ev), .num_events = n, .wait_for_all = all, .timeout = ms, .wait_result = 77,
	};
	long rc = call_ioctl(kfd, AMDKFD_IOC_WAIT_EVENTS, &a);

	if (result)
		*result = a.wait_result;
	return rc;
}

long kfd_poll_event(int kfd, u32 id, u32 *result)
{
	struct kfd_event_data d = { .event_id = id };

	return kfd_wait(kfd, &d, 1, false, 0, result);
}
