// SPDX-License-Identifier: Apache-2.0
/* The topology tree: names, order, counts, links, banks. */
#include "conformance.h"

#include <dirent.h>

static const char *const props_common[] = {
	"cpu_cores_count", "simd_count", "mem_banks_count", "caches_count", "io_links_count", "p2p_links_count",
	"cpu_core_id_base", "simd_id_base", "max_waves_per_simd", "lds_size_in_kb", "gds_size_in_kb", "num_gws",
	"wave_front_size", "array_count", "simd_arrays_per_engine", "cu_per_simd_array", "simd_per_cu",
	"max_slots_scratch_cu", "gfx_target_version", "vendor_id", "device_id", "location_id", "domain",
	"drm_render_minor", "hive_id", "num_sdma_engines", "num_sdma_xgmi_engines", "num_sdma_queues_per_engine",
	"num_cp_queues",
};
/* Absent before 1.17. */
static const char *const props_cwsr[] = { "cwsr_size", "ctl_stack_size" };
static const char *const props_gpu[] = {
	"max_engine_clk_fcompute", "local_mem_size", "fw_version", "capability", "debug_prop", "sdma_fw_version",
	"unique_id", "num_xcc",
};
static const char *const props_gpu_old[] = {
	"max_engine_clk_fcompute", "local_mem_size", "fw_version", "capability", "sdma_fw_version", "unique_id",
};
static const char *const props_bank[] = { "heap_type", "size_in_bytes", "flags", "width", "mem_clk_max" };
static const char *const props_link[] = {
	"type", "version_major", "version_minor", "node_from", "node_to", "weight", "min_latency", "max_latency",
	"min_bandwidth", "max_bandwidth", "recommended_transfer_size",
};

/* Reads a properties file into names; every line must be "name number". Returns the number of lines. */
static int prop_names(const char *path, char names[][65], int max)
{
	static char buf[1 << 15];
	char *line, *end;
	int n = 0;
	int len = read_text(path, buf, sizeof(buf));

	NEED(len >= 0, "read %s: errno %d", path, -len);
	EXPECT(len == 0 || buf[len - 1] == '\n', "%s does not end with a newline", path);
	for (line = buf; *line && n < max; line = *end ? end + 1 : end) {
		char *num, *stop;

		end = line + strcspn(line, "\n");
		num = memchr(line, ' ', (size_t)(end - line));
		if (!num || num - line > 64 || num == line || num + 1 == end) {
			EXPECT(false, "%s: line \"%.*s\" is not a name and a number", path, (int)(end - line), line);
			continue;
		}
		strtoull(num + 1, &stop, 10);
		EXPECT(stop == end, "%s: line \"%.*s\" has no plain number", path, (int)(end - line), line);
		snprintf(names[n++], 65, "%.*s", (int)(num - line), line);
	}
	return n;
}

static void expect_order(const char *path, const char *const *want, size_t n)
{
	static char names[128][65];
	int have = prop_names(path, names, 128), at = 0;

	for (size_t i = 0; i < n; i++) {
		int k = 0;

		while (k < have && strcmp(names[k], want[i]))
			k++;
		EXPECT(k < have, "%s lacks %s", path, want[i]);
		if (k == have)
			continue;
		EXPECT(k >= at, "%s: %s is out of order", path, want[i]);
		at = k;
	}
}

static int entries(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *e;
	int n = 0;

	if (!d)
		return -1;
	while ((e = readdir(d)))
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

static void t_system(void)
{
	char buf[512];
	u64 v;

	EXPECT(file_u64(TOPO "/generation_id", NULL, &v), "no generation_id");
	NEED(read_text(TOPO "/system_properties", buf, sizeof(buf)) > 0, "no system_properties");
	EXPECT(strstr(buf, "platform_oem ") == buf, "system_properties does not begin with platform_oem");
	EXPECT(strstr(buf, "\nplatform_id ") && strstr(buf, "\nplatform_rev "), "platform_id or platform_rev missing");
	EXPECT(!access("/sys/devices/virtual/kfd/kfd/topology/nodes", F_OK), "no tree under /sys/devices/virtual");
	EXPECT_EQ(entries(TOPO "/nodes"), nnodes);
	EXPECT(ngpus > 0 && nnodes > ngpus, "%d nodes, %d GPUs: wants GPUs and at least one CPU", nnodes, ngpus);
}

static void t_ids(void)
{
	char path[128], buf[64];

	for (int n = 0; n < nnodes; n++) {
		snprintf(path, sizeof(path), TOPO "/nodes/%d/gpu_id", n);
		int len = read_text(path, buf, sizeof(buf));

		NEED(len > 0, "read %s: %d", path, len);
		EXPECT(len <= 6, "%s has more than 6 characters", path);
		snprintf(path, sizeof(path), TOPO "/nodes/%d/name", n);
		EXPECT(read_text(path, buf, sizeof(buf)) >= 1, "read %s", path);
	}
	for (int g = 0; g < ngpus; g++) {
		EXPECT(gpus[g].id > 0 && gpus[g].id < 65536, "gpu_id %u is no 16-bit number", gpus[g].id);
		for (int o = 0; o < g; o++)
			EXPECT(gpus[o].id != gpus[g].id && gpus[o].minor != gpus[g].minor, "GPUs %d and %d share an id",
			       o, g);
	}
}

static void t_properties(void)
{
	char path[128];

	for (int n = 0; n < nnodes; n++) {
		u64 id;

		snprintf(path, sizeof(path), TOPO "/nodes/%d/properties", n);
		expect_order(path, props_common, ARRAY_SIZE(props_common));
		if (kfd_minor() >= 17)
			expect_order(path, props_cwsr, ARRAY_SIZE(props_cwsr));
		EXPECT(node_prop(n, "max_engine_clk_ccompute", ~0ull) != ~0ull, "no max_engine_clk_ccompute");
		snprintf(path, sizeof(path), TOPO "/nodes/%d/gpu_id", n);
		NEED(file_u64(path, NULL, &id), "no gpu_id");
		snprintf(path, sizeof(path), TOPO "/nodes/%d/properties", n);
		if (id && kfd_minor() >= 17)
			expect_order(path, props_gpu, ARRAY_SIZE(props_gpu));
		else if (id)
			expect_order(path, props_gpu_old, ARRAY_SIZE(props_gpu_old));
		for (size_t i = 0; !id && i < ARRAY_SIZE(props_gpu); i++)
			EXPECT(node_prop(n, props_gpu[i], ~0ull) == ~0ull, "CPU node %d has %s", n, props_gpu[i]);
		if (!id)
			EXPECT(node_prop(n, "cpu_cores_count", 0) > 0, "CPU node %d has no cores", n);
	}
}

static void t_gpu_values(void)
{
	for (int g = 0; g < ngpus; g++) {
		EXPECT_EQ(gpu_prop(g, "vendor_id"), 4098);
		EXPECT(gpu_prop(g, "device_id"), "GPU %d: device_id 0", g);
		EXPECT(gpu_prop(g, "gfx_target_version") >= 70000, "GPU %d: gfx_target_version %llu", g,
		       (unsigned long long)gpu_prop(g, "gfx_target_version"));
		EXPECT(gpu_prop(g, "simd_count") > 0, "GPU %d: simd_count 0", g);
		EXPECT(gpu_prop(g, "simd_per_cu") > 0, "GPU %d: simd_per_cu 0", g);
		EXPECT(gpu_prop(g, "simd_arrays_per_engine") > 0, "GPU %d: simd_arrays_per_engine 0", g);
		EXPECT(kfd_minor() < 17 || gpu_prop(g, "num_xcc") > 0, "GPU %d: num_xcc 0", g);
		EXPECT(gpu_prop(g, "num_sdma_engines") > 0, "GPU %d: no SDMA engine", g);
		EXPECT(gpu_prop(g, "num_sdma_queues_per_engine") > 0, "GPU %d: no SDMA queue", g);
		EXPECT(gpu_prop(g, "num_cp_queues") > 0, "GPU %d: num_cp_queues 0", g);
		EXPECT(gpu_prop(g, "lds_size_in_kb") > 0, "GPU %d: lds_size_in_kb 0", g);
		EXPECT_EQ(gpu_prop(g, "local_mem_size"), 0);
		EXPECT(gpus[g].minor >= 128, "GPU %d: render minor %d", g, gpus[g].minor);
		if (gpu_prop(g, "gfx_target_version") >= 90000)
			EXPECT_EQ(gpu_prop(g, "capability") & 0x3000, 0x2000);
		EXPECT_EQ(gpu_prop(g, "ctl_stack_size") % PAGE, 0);
		EXPECT(gpu_prop(g, "cwsr_size") >= gpu_prop(g, "ctl_stack_size"), "GPU %d: cwsr_size below ctl_stack_size",
		       g);
	}
}

static void t_counts(void)
{
	static const char *const dirs[][2] = {
		{ "mem_banks", "mem_banks_count" }, { "caches", "caches_count" }, { "io_links", "io_links_count" },
		{ "p2p_links", "p2p_links_count" },
	};
	char path[128], file[192];

	for (int n = 0; n < nnodes; n++) {
		for (size_t d = 0; d < ARRAY_SIZE(dirs); d++) {
			u64 want = node_prop(n, dirs[d][1], 0);
			int have;

			snprintf(path, sizeof(path), TOPO "/nodes/%d/%s", n, dirs[d][0]);
			have = entries(path);
			EXPECT(have >= 0, "no directory %s", path);
			EXPECT(have < 0 || (u64)have == want, "%s: %s is %llu, the directory has %d", path, dirs[d][1],
			       (unsigned long long)want, have);
			for (int i = 0; i < have; i++) {
				snprintf(file, sizeof(file), "%s/%d/properties", path, i);
				EXPECT(!access(file, R_OK), "no file %s", file);
			}
		}
	}
}

static void t_banks(void)
{
	char path[128];
	u64 type, size;

	for (int n = 0; n < nnodes; n++) {
		int banks = (int)node_prop(n, "mem_banks_count", 0), vram = 0, sys = 0;
		bool gpu = false;

		for (int g = 0; g < ngpus; g++)
			gpu |= gpus[g].node == n;
		for (int i = 0; i < banks; i++) {
			snprintf(path, sizeof(path), TOPO "/nodes/%d/mem_banks/%d/properties", n, i);
			expect_order(path, props_bank, ARRAY_SIZE(props_bank));
			NEED(file_u64(path, "heap_type", &type) && file_u64(path, "size_in_bytes", &size), "%s", path);
			vram += (type == 1 || type == 2) && size;
			sys += type == 0 && size;
		}
		EXPECT(!gpu || vram, "GPU node %d has no frame buffer bank with a size", n);
		EXPECT(gpu || sys, "CPU node %d has no system memory bank with a size", n);
	}
}

/* Type of the link from one node to another, 0 without one. Filled by t_links: 64 GPUs have thousands of files. */
static u8 link_type[256][256];

static bool link_between(int from, int to, u64 *type)
{
	*type = link_type[from][to];
	return *type != 0;
}

static void t_links(void)
{
	static u64 cpu_node[256], hive[256];
	char path[128];
	u64 v, type;

	for (int n = 0; n < nnodes; n++) {
		int links = (int)node_prop(n, "io_links_count", 0);

		EXPECT(links <= nnodes - 1, "node %d has %d links, more than other nodes", n, links);
		for (int i = 0; i < links; i++) {
			snprintf(path, sizeof(path), TOPO "/nodes/%d/io_links/%d/properties", n, i);
			expect_order(path, props_link, ARRAY_SIZE(props_link));
			EXPECT(file_u64(path, "flags", &v), "%s has no flags", path);
			NEED(file_u64(path, "type", &type), "%s has no type", path);
			EXPECT(type == 1 || type == 2 || type == 5 || type == 11, "%s: type %llu", path,
			       (unsigned long long)type);
			NEED(file_u64(path, "node_from", &v), "%s", path);
			EXPECT_EQ(v, n);
			NEED(file_u64(path, "node_to", &v), "%s", path);
			EXPECT(v < (u64)nnodes && (int)v != n, "%s: node_to %llu", path, (unsigned long long)v);
			if (v < (u64)nnodes)
				link_type[n][v] = (u8)type;
		}
	}
	for (int n = 0; n < nnodes; n++) {
		cpu_node[n] = node_prop(n, "cpu_cores_count", 0);
		hive[n] = node_prop(n, "hive_id", 0);
	}
	for (int g = 0; g < ngpus; g++) {
		bool cpu = false;

		for (int n = 0; n < nnodes; n++)
			if (cpu_node[n] && link_between(gpus[g].node, n, &type))
				cpu = true;
		EXPECT(cpu, "GPU node %d has no link to a CPU", gpus[g].node);
		for (int o = 0; o < ngpus; o++) {
			u64 back;

			if (link_between(gpus[g].node, gpus[o].node, &type) && type == 11) {
				EXPECT(link_between(gpus[o].node, gpus[g].node, &back) && back == 11,
				       "XGMI link of nodes %d and %d is one-way", gpus[g].node, gpus[o].node);
				EXPECT(hive[gpus[g].node] && hive[gpus[g].node] == hive[gpus[o].node],
				       "XGMI peers of different hives");
			}
		}
	}
}

static void t_drm_nodes(void)
{
	char path[128];

	for (int g = 0; g < ngpus; g++) {
		DIR *d;
		struct dirent *e;
		int cards = 0, renders = 0;

		snprintf(path, sizeof(path), "/sys/dev/char/226:%d/device/drm", gpus[g].minor);
		d = opendir(path);
		NEED(d, "no directory %s", path);
		while ((e = readdir(d))) {
			cards += !strncmp(e->d_name, "card", 4);
			if (!strncmp(e->d_name, "renderD", 7)) {
				renders++;
				EXPECT_EQ(atoi(e->d_name + 7), gpus[g].minor);
			}
		}
		closedir(d);
		EXPECT(cards == 1 && renders == 1, "%s has %d cards and %d render nodes", path, cards, renders);
		snprintf(path, sizeof(path), "/dev/dri/renderD%d", gpus[g].minor);
		EXPECT(!access(path, R_OK | W_OK), "no %s", path);
	}
	if (access("/dev/dri/renderD128", F_OK))	/* the C plugin wants one, whatever it is */
		info("no /dev/dri/renderD128");
	NEED(read_text("/sys/module/amdgpu/initstate", path, sizeof(path)) > 0, "no module amdgpu");
	EXPECT(!strncmp(path, "live", 4), "initstate is %s", path);
}

static void t_caches(void)
{
	char path[128];
	u64 type;

	for (int g = 0; g < ngpus; g++) {
		int n = (int)gpu_prop(g, "caches_count");
		bool cu = false;

		for (int i = 0; i < n; i++) {
			snprintf(path, sizeof(path), TOPO "/nodes/%d/caches/%d/properties", gpus[g].node, i);
			if (file_u64(path, "type", &type))
				cu |= (type & 8) && !(type & 2);
		}
		EXPECT(cu, "GPU %d: no data cache of its compute units among %d", g, n);
	}
}

const struct test tests_topology[] = {
	{ "topology/system", 0, t_system },
	{ "topology/ids", 1, t_ids },
	{ "topology/properties", 1, t_properties },
	{ "topology/gpu_values", 1, t_gpu_values },
	{ "topology/counts", 1, t_counts },
	{ "topology/banks", 1, t_banks },
	{ "topology/links", 1, t_links },
	{ "topology/caches", 1, t_caches },
	{ "topology/drm_nodes", 1, t_drm_nodes },
	{ NULL, 0, NULL },
};
