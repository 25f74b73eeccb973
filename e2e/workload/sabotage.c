// SPDX-License-Identifier: Apache-2.0
/* --break: does one thing wrong after `ready`, so that a test can see the proof find it. */
#include <fcntl.h>
#include <linux/kfd_ioctl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "wl.h"

static struct bo *last_data(struct wl *w)
{
	for (size_t i = w->nbos; i-- > 0;)
		if (w->bos[i]->role == ROLE_DATA)
			return w->bos[i];
	return NULL;
}

static struct bo *first_mapped(struct wl *w)
{
	for (size_t i = 0; i < w->nbos; i++)
		if (w->bos[i]->role == ROLE_DATA && w->bos[i]->cpu && w->bos[i]->kind != BO_USERPTR)
			return w->bos[i];
	return NULL;
}

static void break_byte(struct wl *w)
{
	struct bo *b = last_data(w);

	if (b && b->cpu)
		b->cpu[b->size - 1] ^= 1;
}

/* Contents that only the GPU can reach. */
static void break_gpu_byte(struct wl *w)
{
	struct bo *b = last_data(w);
	struct copier *c = b ? copier_open(w, b->gpu, true) : NULL;
	struct copy_target t;

	if (!c || copier_attach(c, w, b, &t))
		return;
	memset(copier_stage(c), 0, 8);
	copier_copy(c, &t, b->size / 2, 8, true);
	copier_detach(c, &t);
	copier_close(c);
}

static void break_heartbeat(struct wl *w)
{
	if (w->gpus[0].heartbeat)
		w->gpus[0].heartbeat->cpu[100] ^= 1;
}

static void break_fd(struct wl *w)
{
	(void)w;
	open("/dev/null", O_RDONLY);
}

static void break_status(struct wl *w)
{
	fcntl(w->kfd, F_SETFL, fcntl(w->kfd, F_GETFL) ^ O_NONBLOCK);
}

static void break_cloexec(struct wl *w)
{
	fcntl(w->gpus[0].fd, F_SETFD, fcntl(w->gpus[0].fd, F_GETFD) ^ FD_CLOEXEC);
}

/* The number is there and names the same device, but another open file. */
static void break_file(struct wl *w)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/dev/dri/renderD%u", w->gpus[0].minor);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return;
	dup3(fd, w->gpus[0].fd, O_CLOEXEC);
	close(fd);
}

static void break_swap(struct wl *w)
{
	int fd = dup(w->gpus[0].fd);

	if (fd < 0 || w->ngpus < 2)
		return;
	dup3(w->gpus[1].fd, w->gpus[0].fd, O_CLOEXEC);
	dup3(fd, w->gpus[1].fd, O_CLOEXEC);
	close(fd);
}

static void break_map(struct wl *w)
{
	struct bo *b = first_mapped(w);

	if (b)
		mprotect(b->cpu, WL_PAGE, PROT_READ);
}

static void break_vmflags(struct wl *w)
{
	struct bo *b = first_mapped(w);

	if (b)
		madvise(b->cpu, b->size, MADV_RANDOM);
}

static void break_extra_map(struct wl *w)
{
	struct bo *b = first_mapped(w);

	if (b)
		mmap(NULL, WL_PAGE, PROT_READ, MAP_SHARED, b->gpu->fd, b->mmap_offset);
}

static void *idle(void *arg)
{
	for (;;)
		pause();
	return arg;
}

static void break_thread(struct wl *w)
{
	pthread_t t;

	(void)w;
	pthread_create(&t, NULL, idle, NULL);
}

static void break_event(struct wl *w)
{
	struct kfd_ioctl_destroy_event_args a = { 0 };

	if (!w->ev)
		return;
	a.event_id = w->ev->e[0].id;
	kfd_ioctl(w, AMDKFD_IOC_DESTROY_EVENT, &a);
}

static void break_event_state(struct wl *w)
{
	for (unsigned int i = 0; w->ev && i < w->ev->n; i++) {
		if (w->ev->e[i].signaled) {
			event_reset(w, w->ev->e[i].id);
			return;
		}
	}
}

static void break_slot(struct wl *w)
{
	if (w->ev && w->ev->page->cpu)
		memset(w->ev->page->cpu + w->ev->page->size - 8, 0, 8);
}

static void break_queue(struct wl *w)
{
	struct kfd_ioctl_destroy_queue_args a = { 0 };

	if (!w->nqueues)
		return;
	a.queue_id = w->queues[0].id;
	kfd_ioctl(w, AMDKFD_IOC_DESTROY_QUEUE, &a);
}

static void break_stop_queue(struct wl *w)
{
	if (w->nqueues)
		queue_update(w, &w->queues[0], 0);
}

static void break_gpu_map(struct wl *w)
{
	struct bo *b = last_data(w);

	if (b)
		kfd_unmap(w, b->handle, b->ids, b->nids);
}

static void break_handle(struct wl *w)
{
	struct bo *b = last_data(w);

	if (!b)
		return;
	kfd_unmap(w, b->handle, b->ids, b->nids);
	kfd_free(w, b->handle);
}

/* Works in a process without queues. */
static void break_xnack(struct wl *w)
{
	int mode = !w->o.xnack;

	kfd_xnack(w, &mode);
}

static const struct { const char *name; void (*f)(struct wl *w); } ways[] = {
	{ "byte", break_byte }, { "gpu-byte", break_gpu_byte }, { "heartbeat", break_heartbeat }, { "fd", break_fd },
	{ "status", break_status }, { "cloexec", break_cloexec }, { "file", break_file }, { "swap", break_swap },
	{ "map", break_map }, { "vmflags", break_vmflags }, { "extra-map", break_extra_map },
	{ "thread", break_thread }, { "event", break_event }, { "event-state", break_event_state },
	{ "slot", break_slot }, { "queue", break_queue }, { "stop-queue", break_stop_queue },
	{ "gpu-map", break_gpu_map }, { "handle", break_handle }, { "xnack", break_xnack },
};

int sabotage(struct wl *w)
{
	if (!w->o.sabotage)
		return 0;
	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		if (!strcmp(ways[i].name, w->o.sabotage)) {
			ways[i].f(w);
			return 0;
		}
	}
	return oops(w, "no such thing to break: %s", w->o.sabotage);
}
