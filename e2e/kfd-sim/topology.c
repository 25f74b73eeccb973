// SPDX-License-Identifier: GPL-2.0
/*
 * /sys/class/kfd/kfd/topology: directories as kobjects, every file's text made at the time it is read.
 * A GPU that the reader may not use answers -EPERM in all files of its node; the directories stay.
 */
#include <linux/kernel.h>
#include <linux/kobject.h>
#include <linux/list.h>
#include <linux/slab.h>
#include <linux/sysfs.h>
#include "desc.h"

enum what { PLAIN_DIR, TOPOLOGY, NODE, BANK, CACHE, IO_LINK, P2P_LINK };

struct entry {
	struct kobject kobj;
	struct list_head list;		/* of all entries, youngest first */
	enum what what;
	const struct sim_node_desc *node;
	u32 index;			/* of the bank, cache or io_link within the node */
	struct sim_link_desc link;	/* a p2p link, which no description holds */
};

static LIST_HEAD(entries);

static struct attribute attr_generation = { .name = "generation_id", .mode = 0444 };
static struct attribute attr_system = { .name = "system_properties", .mode = 0444 };
static struct attribute attr_gpu_id = { .name = "gpu_id", .mode = 0444 };
static struct attribute attr_name = { .name = "name", .mode = 0444 };
static struct attribute attr_properties = { .name = "properties", .mode = 0444 };

struct text {
	char *buf;
	int len;
};

static void line(struct text *t, const char *name, u64 value)
{
	t->len += sysfs_emit_at(t->buf, t->len, "%s %llu\n", name, value);
}

/* ------------------------------------------------------------------ links that follow from others */

static const struct sim_link_desc *link_to(const struct sim_node_desc *n, u32 to)
{
	u32 i;

	for (i = 0; i < n->num_links; i++)
		if (n->links[i].to == to)
			return &n->links[i];
	return NULL;
}

/* The CPU that a GPU hangs on: the first link that leads to one. A CPU is its own. */
static int home_cpu(const struct sim_node_desc *n)
{
	u32 i;

	if (!n->gpu_id)
		return n->node_id;
	for (i = 0; i < n->num_links; i++)
		if (!sim_sys.nodes[n->links[i].to].gpu_id)
			return n->links[i].to;
	return -1;
}

/*
 * An indirect link from a to b through their CPUs: only if there is no direct one, one end at least
 * is a GPU, and b can be reached from its CPU (which takes a large BAR). False if there is none.
 */
static bool p2p_link(const struct sim_node_desc *a, const struct sim_node_desc *b, struct sim_link_desc *out)
{
	int ca = home_cpu(a), cb = home_cpu(b);
	const struct sim_link_desc *l;
	u32 weight = 0;

	if (!sim_sys.p2p_links || a == b || link_to(a, b->node_id) || (!a->gpu_id && !b->gpu_id) || ca < 0 || cb < 0)
		return false;
	if (a->gpu_id)
		weight += link_to(a, ca)->weight;
	if (ca != cb) {
		l = link_to(&sim_sys.nodes[ca], cb);
		if (!l)
			return false;
		weight += l->weight;
	}
	if (b->gpu_id) {
		l = link_to(&sim_sys.nodes[cb], b->node_id);
		if (!l)
			return false;
		weight += l->weight;
	}
	*out = (struct sim_link_desc){ .type = SIM_LINK_PCIE, .to = b->node_id, .weight = weight,
				       .flags = SIM_LINK_F_ENABLED };
	return true;
}

static u32 count_p2p(const struct sim_node_desc *n)
{
	struct sim_link_desc unused;
	u32 i, count = 0;

	for (i = 0; i < sim_sys.num_nodes; i++)
		count += p2p_link(n, &sim_sys.nodes[i], &unused);
	return count;
}

/* ------------------------------------------------------------------ text */

/* The names and their order are those of the kernel; older ones lack what came later. */
static void show_node(struct text *t, const struct sim_node_desc *n)
{
	line(t, "cpu_cores_count", n->cpu_cores_count);
	line(t, "simd_count", n->simd_count);
	line(t, "mem_banks_count", 1);
	line(t, "caches_count", n->caches_count);
	line(t, "io_links_count", n->num_links);
	line(t, "p2p_links_count", count_p2p(n));
	line(t, "cpu_core_id_base", n->cpu_core_id_base);
	line(t, "simd_id_base", n->simd_id_base);
	line(t, "max_waves_per_simd", n->max_waves_per_simd);
	line(t, "lds_size_in_kb", n->lds_size_in_kb);
	line(t, "gds_size_in_kb", n->gds_size_in_kb);
	line(t, "num_gws", n->num_gws);
	line(t, "wave_front_size", n->wave_front_size);
	line(t, "array_count", n->array_count);
	line(t, "simd_arrays_per_engine", n->simd_arrays_per_engine);
	line(t, "cu_per_simd_array", n->cu_per_simd_array);
	line(t, "simd_per_cu", n->simd_per_cu);
	line(t, "max_slots_scratch_cu", n->max_slots_scratch_cu);
	line(t, "gfx_target_version", n->gfx_target_version);
	line(t, "vendor_id", n->vendor_id);
	line(t, "device_id", n->device_id);
	line(t, "location_id", n->location_id);
	line(t, "domain", n->domain);
	line(t, "drm_render_minor", n->drm_render_minor);
	line(t, "hive_id", n->hive_id);
	line(t, "num_sdma_engines", n->num_sdma_engines);
	line(t, "num_sdma_xgmi_engines", n->num_sdma_xgmi_engines);
	line(t, "num_sdma_queues_per_engine", n->num_sdma_queues_per_engine);
	line(t, "num_cp_queues", n->num_cp_queues);
	if (sim_sys.kfd_minor >= 17) {
		line(t, "cwsr_size", n->cwsr_size);
		line(t, "ctl_stack_size", n->ctl_stack_size);
	}
	if (n->gpu_id) {
		line(t, "max_engine_clk_fcompute", n->max_engine_clk_fcompute);
		line(t, "local_mem_size", 0);
		line(t, "fw_version", n->fw_version);
		line(t, "capability", n->capability);
		if (sim_sys.kfd_minor >= 13)
			line(t, "debug_prop", n->debug_prop);
		line(t, "sdma_fw_version", n->sdma_fw_version);
		line(t, "unique_id", n->unique_id);
		if (sim_sys.kfd_minor >= 13)
			line(t, "num_xcc", n->num_xcc);
	}
	line(t, "max_engine_clk_ccompute", n->max_engine_clk_ccompute);
}

static void show_bank(struct text *t, const struct sim_node_desc *n)
{
	line(t, "heap_type", n->gpu_id ? n->heap_type : 0);
	line(t, "size_in_bytes", n->mem_bytes);
	line(t, "flags", 0);
	line(t, "width", n->mem_width);
	line(t, "mem_clk_max", n->mem_clk_max);
}

#define CACHE_DATA 1
#define CACHE_INSTRUCTION 2
#define CACHE_HSACU 8

/* Vector L1s first, then instruction, scalar data, L2 and L3, as the driver lists them. */
static void show_cache(struct text *t, const struct sim_node_desc *n, u32 index)
{
	u32 cu = n->simd_count / n->simd_per_cu;
	u32 groups = n->array_count * DIV_ROUND_UP(n->cu_per_simd_array, max(n->cu_per_icache, 1u));
	u32 level = 1, size = n->l1_kb, type = CACHE_DATA | CACHE_HSACU, first = index, sharing = 1, i;

	if (index < cu) {
		;
	} else if (index < cu + 2 * groups) {
		bool scalar = index >= cu + groups;

		first = (index - cu) % groups * max(n->cu_per_icache, 1u);
		sharing = n->cu_per_icache;
		type = (scalar ? CACHE_DATA : CACHE_INSTRUCTION) | CACHE_HSACU;
		size = scalar ? 16 : 32;
	} else {
		level = n->l3_kb && index > cu + 2 * groups ? 3 : 2;
		size = level == 3 ? n->l3_kb : n->l2_kb;
		first = 0;
		sharing = cu;
	}
	line(t, "processor_id_low", n->simd_id_base + first);
	line(t, "level", level);
	line(t, "size", size);
	line(t, "cache_line_size", level == 1 ? 64 : 128);
	line(t, "cache_lines_per_tag", 1);
	line(t, "association", 0);
	line(t, "latency", 0);
	line(t, "type", type);
	t->len += sysfs_emit_at(t->buf, t->len, "sibling_map ");
	for (i = 0; i < 32; i++)
		t->len += sysfs_emit_at(t->buf, t->len, "%u%c", i < sharing, i == 31 ? '\n' : ',');
}

static void show_link(struct text *t, const struct sim_node_desc *n, const struct sim_link_desc *l, bool direct)
{
	bool xgmi = l->type == SIM_LINK_XGMI, pcie = l->type == SIM_LINK_PCIE;
	const struct sim_node_desc *gpu = n->gpu_id ? n : &sim_sys.nodes[l->to];
	u32 pcie_mask = (1u << min(gpu->num_sdma_engines, 16u)) - 1;
	u32 xgmi_mask = ((1u << min(gpu->num_sdma_xgmi_engines, 16u)) - 1) << min(gpu->num_sdma_engines, 16u);

	line(t, "type", l->type);
	line(t, "version_major", 0);
	line(t, "version_minor", 0);
	line(t, "node_from", n->node_id);
	line(t, "node_to", l->to);
	line(t, "weight", l->weight);
	line(t, "min_latency", 0);
	line(t, "max_latency", 0);
	line(t, "min_bandwidth", !direct ? 0 : xgmi ? 50000 : pcie ? 312 : 0);
	line(t, "max_bandwidth", !direct ? 0 : xgmi ? 50000 : pcie ? 32000 : 0);
	line(t, "recommended_transfer_size", 0);
	if (sim_sys.kfd_minor >= 17)
		line(t, "recommended_sdma_engine_id_mask", !direct ? 0 : xgmi ? (xgmi_mask ?: pcie_mask) :
		     pcie ? pcie_mask : 0);
	line(t, "flags", l->flags);
}

static ssize_t entry_show(struct kobject *kobj, struct attribute *attr, char *buf)
{
	struct entry *e = container_of(kobj, struct entry, kobj);
	const struct sim_node_desc *n = e->node;
	struct text t = { .buf = buf };

	if (n && n->gpu_id) {
		struct sim_gpu *gpu = sim_gpu_by_actual_id(n->gpu_id);

		if (!gpu || !sim_gpu_allowed(gpu))
			return -EPERM;
	}
	switch (e->what) {
	case TOPOLOGY:
		if (attr == &attr_generation)
			return sysfs_emit(buf, "%u\n", sim_sys.generation_id);
		line(&t, "platform_oem", 0x53494d31464b4400ull);
		line(&t, "platform_id", 0x30000000000ull);
		line(&t, "platform_rev", 1);
		break;
	case NODE:
		if (attr == &attr_gpu_id)
			return sysfs_emit(buf, "%u\n", n->gpu_id);
		if (attr == &attr_name)
			return sysfs_emit(buf, "%s\n", n->name);
		show_node(&t, n);
		break;
	case BANK:
		show_bank(&t, n);
		break;
	case CACHE:
		show_cache(&t, n, e->index);
		break;
	case IO_LINK:
		show_link(&t, n, &n->links[e->index], true);
		break;
	case P2P_LINK:
		show_link(&t, n, &e->link, false);
		break;
	case PLAIN_DIR:
		return -EINVAL;
	}
	return t.len;
}

/* ------------------------------------------------------------------ directories */

static void entry_release(struct kobject *kobj)
{
	kfree(container_of(kobj, struct entry, kobj));
}

static const struct sysfs_ops entry_ops = { .show = entry_show };
static const struct kobj_type entry_type = { .release = entry_release, .sysfs_ops = &entry_ops };

static struct entry *add(struct kobject *parent, enum what what, const struct sim_node_desc *n, u32 index,
			 const char *name)
{
	struct entry *e = kzalloc(sizeof(*e), GFP_KERNEL);
	int r;

	if (!e)
		return ERR_PTR(-ENOMEM);
	e->what = what;
	e->node = n;
	e->index = index;
	if (name)
		r = kobject_init_and_add(&e->kobj, &entry_type, parent, "%s", name);
	else
		r = kobject_init_and_add(&e->kobj, &entry_type, parent, "%u", index);
	if (r) {
		kobject_put(&e->kobj);
		return ERR_PTR(r);
	}
	list_add(&e->list, &entries);
	return e;
}

static int file(struct entry *e, struct attribute *attr)
{
	return sysfs_create_file(&e->kobj, attr);
}

/* The numbered directories with one properties file each, below a directory of their own. */
static int add_numbered(struct entry *node, const char *dir, enum what what, u32 count)
{
	struct entry *parent = add(&node->kobj, PLAIN_DIR, NULL, 0, dir);
	u32 i;
	int r;

	if (IS_ERR(parent))
		return PTR_ERR(parent);
	for (i = 0; i < count; i++) {
		struct entry *e = add(&parent->kobj, what, node->node, i, NULL);

		if (IS_ERR(e))
			return PTR_ERR(e);
		r = file(e, &attr_properties);
		if (r)
			return r;
	}
	return 0;
}

static int add_p2p(struct entry *node)
{
	struct entry *parent = add(&node->kobj, PLAIN_DIR, NULL, 0, "p2p_links");
	struct sim_link_desc link;
	u32 i, index = 0;
	int r;

	if (IS_ERR(parent))
		return PTR_ERR(parent);
	for (i = 0; i < sim_sys.num_nodes; i++) {
		struct entry *e;

		if (!p2p_link(node->node, &sim_sys.nodes[i], &link))
			continue;
		e = add(&parent->kobj, P2P_LINK, node->node, index++, NULL);
		if (IS_ERR(e))
			return PTR_ERR(e);
		e->link = link;
		r = file(e, &attr_properties);
		if (r)
			return r;
	}
	return 0;
}

static int add_node(struct entry *nodes, const struct sim_node_desc *n)
{
	struct entry *e = add(&nodes->kobj, NODE, n, n->node_id, NULL);
	struct entry *perf;
	int r;

	if (IS_ERR(e))
		return PTR_ERR(e);
	r = file(e, &attr_gpu_id);
	if (!r)
		r = file(e, &attr_name);
	if (!r)
		r = file(e, &attr_properties);
	if (!r)
		r = add_numbered(e, "mem_banks", BANK, 1);
	if (!r)
		r = add_numbered(e, "caches", CACHE, n->caches_count);
	if (!r)
		r = add_numbered(e, "io_links", IO_LINK, n->num_links);
	if (!r)
		r = add_p2p(e);
	if (r)
		return r;
	perf = add(&e->kobj, PLAIN_DIR, NULL, 0, "perf");
	return PTR_ERR_OR_ZERO(perf);
}

int sim_topology_init(struct kobject *kfd_kobj)
{
	struct entry *top = add(kfd_kobj, TOPOLOGY, NULL, 0, "topology");
	struct entry *nodes;
	int r;
	u32 i;

	if (IS_ERR(top))
		return PTR_ERR(top);
	r = file(top, &attr_generation);
	if (!r)
		r = file(top, &attr_system);
	if (r)
		goto fail;
	nodes = add(&top->kobj, PLAIN_DIR, NULL, 0, "nodes");
	if (IS_ERR(nodes)) {
		r = PTR_ERR(nodes);
		goto fail;
	}
	for (i = 0; i < sim_sys.num_nodes; i++) {
		r = add_node(nodes, &sim_sys.nodes[i]);
		if (r)
			goto fail;
	}
	return 0;
fail:
	sim_topology_exit();
	return r;
}

/* Youngest first, so that a directory goes after all that it holds. */
void sim_topology_exit(void)
{
	struct entry *e, *next;

	list_for_each_entry_safe(e, next, &entries, list) {
		list_del(&e->list);
		kobject_del(&e->kobj);
		kobject_put(&e->kobj);
	}
}
