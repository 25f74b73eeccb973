// SPDX-License-Identifier: Apache-2.0
/* Which GPUs there are, by the KFD topology in sysfs. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "wl.h"

#define NODES "/sys/class/kfd/kfd/topology/nodes"

static ssize_t read_text(const char *path, char *buf, size_t cap)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -1;
	n = read(fd, buf, cap - 1);
	close(fd);
	if (n >= 0)
		buf[n] = 0;
	return n;
}

static uint64_t property(const char *text, const char *name)
{
	size_t len = strlen(name);

	for (const char *p = text; p && *p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL)
		if (!strncmp(p, name, len) && p[len] == ' ')
			return strtoull(p + len + 1, NULL, 10);
	return 0;
}

static uint32_t node_gpu_id(unsigned int node)
{
	char path[128], text[64];

	snprintf(path, sizeof(path), NODES "/%u/gpu_id", node);
	if (read_text(path, text, sizeof(text)) <= 0)
		return 0;	/* also a node that this cgroup must not see */
	return strtoul(text, NULL, 10);
}

static int compare(const void *a, const void *b)
{
	return *(const unsigned int *)a < *(const unsigned int *)b ? -1 : 1;
}

static unsigned int list_nodes(unsigned int *nodes, unsigned int max)
{
	DIR *d = opendir(NODES);
	unsigned int n = 0;
	struct dirent *e;

	if (!d)
		return 0;
	while ((e = readdir(d)) && n < max)
		if (e->d_name[0] >= '0' && e->d_name[0] <= '9')
			nodes[n++] = strtoul(e->d_name, NULL, 10);
	closedir(d);
	qsort(nodes, n, sizeof(*nodes), compare);
	return n;
}

static bool node_properties(unsigned int node, char *text, size_t cap)
{
	char path[128];

	snprintf(path, sizeof(path), NODES "/%u/properties", node);
	return read_text(path, text, cap) > 0;
}

int topology_read(struct wl *w)
{
	static char text[8192];
	unsigned int nodes[256], n = list_nodes(nodes, 256);

	for (unsigned int i = 0; i < n && w->ngpus < WL_MAX_GPUS; i++) {
		struct gpu *g = &w->gpus[w->ngpus];
		uint32_t id = node_gpu_id(nodes[i]);

		if (!id || !node_properties(nodes[i], text, sizeof(text)))
			continue;
		*g = (struct gpu){
			.index = w->ngpus,
			.gpu_id = id,
			.fd = -1,
			.minor = property(text, "drm_render_minor"),
			.gfx = property(text, "gfx_target_version"),
			.simd_count = property(text, "simd_count"),
			.simd_per_cu = property(text, "simd_per_cu"),
			.array_count = property(text, "array_count"),
			.simd_arrays_per_engine = property(text, "simd_arrays_per_engine"),
			.num_xcc = property(text, "num_xcc"),
			.lds_kb = property(text, "lds_size_in_kb"),
			.cwsr_size = property(text, "cwsr_size"),
			.ctl_stack_size = property(text, "ctl_stack_size"),
			.num_sdma = property(text, "num_sdma_engines"),
			.num_sdma_xgmi = property(text, "num_sdma_xgmi_engines"),
		};
		if (!g->num_xcc)
			g->num_xcc = 1;
		w->ngpus++;
	}
	if (!w->ngpus)
		return oops(w, "no GPU in %s", NODES);
	w->nused = w->ngpus;
	if (w->o.gpus >= 0 && (unsigned int)w->o.gpus < w->nused)
		w->nused = w->o.gpus;
	if (w->o.acquire >= 0 && (unsigned int)w->o.acquire < w->nused)
		w->nused = w->o.acquire;
	if (w->o.gpus >= 0 && (unsigned int)w->o.gpus > w->ngpus)
		return oops(w, "%d GPUs wanted, %u present", w->o.gpus, w->ngpus);
	return 0;
}

uint32_t topology_gpu_id_of_minor(uint32_t minor)
{
	static char text[8192];
	unsigned int nodes[256], n = list_nodes(nodes, 256);

	for (unsigned int i = 0; i < n; i++) {
		uint32_t id = node_gpu_id(nodes[i]);

		if (id && node_properties(nodes[i], text, sizeof(text)) && property(text, "drm_render_minor") == minor)
			return id;
	}
	return 0;
}
