// SPDX-License-Identifier: Apache-2.0
/* Opening the devices, one VM per GPU, and the BOs that every GPU of a ROCm process has. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "wl.h"

static int open_kfd(struct wl *w)
{
	int fd = open("/dev/kfd", O_RDWR | O_CLOEXEC), r;

	if (fd < 0)
		return oops(w, "open /dev/kfd: %m");
	w->kfd = layout_place(w, fd, true, 0);
	if (w->kfd < 0)
		return -1;
	r = kfd_get_version(w);
	if (r)
		return oops(w, "GET_VERSION: %s", strerror(-r));
	return 0;
}

static int open_render(struct wl *w, struct gpu *g)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/dev/dri/renderD%u", g->minor);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return oops(w, "open %s: %m", path);
	g->fd = layout_place(w, fd, false, g->index);
	return g->fd < 0 ? -1 : 0;
}

int gpu_open_all(struct wl *w)
{
	bool render_first = w->o.fds & FDS_RENDER_FIRST;

	if (layout_before(w) || (!render_first && open_kfd(w)))
		return -1;
	for (unsigned int i = 0; i < w->ngpus; i++)
		if (open_render(w, &w->gpus[i]))
			return -1;
	if (render_first && open_kfd(w))
		return -1;
	return layout_after(w);
}

static int check_ids(struct wl *w)
{
	uint32_t ids[WL_MAX_GPUS];
	int n = kfd_apertures(w, ids, WL_MAX_GPUS);

	if (n < 0)
		return oops(w, "GET_PROCESS_APERTURES_NEW: %s", strerror(-n));
	for (unsigned int i = 0; i < w->ngpus; i++) {
		int k = 0;

		while (k < n && ids[k] != w->gpus[i].gpu_id)
			k++;
		if (k == n)
			return oops(w, "GPU %u is in the topology, not among the %d of the process", w->gpus[i].gpu_id, n);
	}
	return 0;
}

static int setup_one(struct wl *w, struct gpu *g)
{
	int r = kfd_acquire_vm(w, g->gpu_id, g->fd);

	if (r)
		return oops(w, "ACQUIRE_VM of GPU %u: %s", g->gpu_id, strerror(-r));
	g->acquired = true;
	r = kfd_set_memory_policy(w, g->gpu_id);
	if (r)
		return oops(w, "SET_MEMORY_POLICY of GPU %u: %s", g->gpu_id, strerror(-r));
	if (w->o.bare && !w->o.q_aql && !w->o.q_sdma && !w->o.q_compute)
		return 0;
	g->mmio = bo_new(w, g, BO_MMIO, WL_PAGE, 0, ROLE_MMIO, 0);
	return g->mmio ? 0 : -1;
}

static int setup_used(struct wl *w, struct gpu *g)
{
	uint64_t slice = g->gfx / 10000 >= 9 ? 8192 : 4096;

	g->used = true;
	if (w->o.q_aql || w->o.q_sdma || w->o.q_compute || !w->o.bare) {
		g->doorbell = bo_new(w, g, BO_DOORBELL, slice, 0, ROLE_DOORBELL, 0);
		if (!g->doorbell)
			return -1;
	}
	if (w->o.heartbeat && !(w->o.fds & FDS_NO_RENDER_MAP)) {
		g->heartbeat = bo_new(w, g, BO_VRAM, WL_PAGE, 0, ROLE_HEARTBEAT, 0);
		if (!g->heartbeat)
			return -1;
		pattern_fill(w->o.seed ^ g->beat, 0x10000000u + g->index, CONTENT_RANDOM, WL_PAGE, 0,
			     g->heartbeat->cpu, WL_PAGE);
	}
	return 0;
}

/* The mode of the whole process, which cannot change any more once there are queues. */
static int turn_xnack_on(struct wl *w)
{
	int mode = 1, r = kfd_xnack(w, &mode);

	return r ? oops(w, "SET_XNACK_MODE: %s", strerror(-r)) : 0;
}

void xnack_proof(struct wl *w)
{
	int mode = -1, r = kfd_xnack(w, &mode);

	if (r)
		fail(w, "SET_XNACK_MODE, asked for the mode: %s", strerror(-r));
	else if (mode != w->o.xnack)
		fail(w, "XNACK is %d, was %d", mode, w->o.xnack);
}

int gpu_setup(struct wl *w)
{
	if (check_ids(w) || (w->o.xnack && turn_xnack_on(w)))
		return -1;
	for (unsigned int i = 0; i < w->ngpus; i++)
		if ((w->o.acquire < 0 || i < (unsigned int)w->o.acquire) && setup_one(w, &w->gpus[i]))
			return -1;
	for (unsigned int i = 0; i < w->nused; i++)
		if (setup_used(w, &w->gpus[i]))
			return -1;
	return 0;
}

/* The contents follow a counter in host memory: both must come from the same moment of a dump. */
void heartbeat_check_and_advance(struct wl *w, struct gpu *g)
{
	unsigned int index = 0x10000000u + g->index;
	uint64_t bad;

	if (!g->heartbeat)
		return;
	bad = pattern_check(w->o.seed ^ g->beat, index, CONTENT_RANDOM, WL_PAGE, 0, g->heartbeat->cpu, WL_PAGE);
	if (bad != UINT64_MAX)
		fail(w, "heartbeat BO of GPU %u is not of generation %llu, byte %llu", g->index,
		     (unsigned long long)g->beat, (unsigned long long)bad);
	g->beat++;
	pattern_fill(w->o.seed ^ g->beat, index, CONTENT_RANDOM, WL_PAGE, 0, g->heartbeat->cpu, WL_PAGE);
}

int gpu_minor_of_fd(int fd)
{
	struct stat st;

	if (fd < 0 || fstat(fd, &st) || !S_ISCHR(st.st_mode))
		return -1;
	return minor(st.st_rdev);
}

bool gpu_same_id(struct wl *w, const struct gpu *g)
{
	int minor = gpu_minor_of_fd(g->fd);

	(void)w;
	return minor >= 0 && topology_gpu_id_of_minor(minor) == g->gpu_id;
}
