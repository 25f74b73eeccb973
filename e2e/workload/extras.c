// SPDX-License-Identifier: Apache-2.0
/* Things a dump has to refuse, or to leave to others. They stay open; the fd snapshot covers them. */
#include <arpa/inet.h>
#include <drm/amdgpu_drm.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wl.h"

static int plain_gem(struct wl *w)
{
	for (unsigned int i = 0; i < w->o.gem; i++) {
		union drm_amdgpu_gem_create a = {
			.in = { .bo_size = WL_PAGE, .alignment = WL_PAGE, .domains = AMDGPU_GEM_DOMAIN_GTT },
		};
		int r = drm_ioctl(w->gpus[0].fd, DRM_IOCTL_AMDGPU_GEM_CREATE, &a);

		if (r)
			return oops(w, "GEM_CREATE: %s", strerror(-r));
	}
	return 0;
}

static int keep_dmabuf(struct wl *w)
{
	for (size_t i = 0; i < w->nbos; i++) {
		struct bo *b = w->bos[i];
		int fd, r;

		if (b->role != ROLE_DATA || b->kind == BO_USERPTR)
			continue;
		r = kfd_export_dmabuf(w, b->handle, &fd);
		if (r)
			return oops(w, "EXPORT_DMABUF of %s: %s", bo_name(b), strerror(-r));
		return 0;
	}
	return oops(w, "--dmabuf needs a vram or gtt BO");
}

static int open_chardev(struct wl *w)
{
	int fd = open("/dev/cpu_dma_latency", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		oops(w, "open /dev/cpu_dma_latency: %m");
	return fd;
}

/* A connection to ourselves: refused by a dump that was not told to take TCP connections. */
static int open_tcp(struct wl *w)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	int l = socket(AF_INET, SOCK_STREAM, 0), c = socket(AF_INET, SOCK_STREAM, 0);

	if (l < 0 || c < 0 || bind(l, (void *)&a, len) || listen(l, 1) || getsockname(l, (void *)&a, &len) ||
	    connect(c, (void *)&a, len) || accept(l, NULL, NULL) < 0)
		return oops(w, "loopback connection: %m");
	return c;
}

/* A lock on a file: refused late in a dump that was not told to take file locks. */
static int open_lock(struct wl *w)
{
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s.lock", w->o.state ? w->o.state : "/tmp/workload");
	fd = open(path, O_RDWR | O_CREAT, 0644);
	if (fd < 0 || flock(fd, LOCK_EX))
		return oops(w, "lock of %s: %m", path);
	return fd;
}

static int foreign_fd(struct wl *w)
{
	int fd, to;

	switch (w->o.foreign_kind) {
	case FOREIGN_TCP: fd = open_tcp(w); break;
	case FOREIGN_LOCK: fd = open_lock(w); break;
	default: fd = open_chardev(w); break;
	}
	if (fd < 0 || fd == w->o.foreign_fd)
		return fd < 0 ? -1 : 0;
	to = fcntl(fd, F_DUPFD, w->o.foreign_fd);
	close(fd);
	return to == w->o.foreign_fd ? 0 : oops(w, "fd %d is taken", w->o.foreign_fd);
}

int extras_open(struct wl *w)
{
	int fd, r;

	if (w->o.gem && plain_gem(w))
		return -1;
	if (w->o.dmabuf && keep_dmabuf(w))
		return -1;
	if (w->o.smi) {
		r = kfd_smi(w, w->gpus[0].gpu_id, &fd);
		if (r)
			return oops(w, "SMI_EVENTS: %s", strerror(-r));
	}
	if (w->o.svm && svm_open(w))
		return -1;
	if (w->o.foreign && open_chardev(w) < 0)
		return -1;
	return w->o.foreign_fd >= 0 ? foreign_fd(w) : 0;
}
