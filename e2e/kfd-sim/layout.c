// SPDX-License-Identifier: GPL-2.0
/*
 * From a parsed description to the final system: links to CPUs, ids, sizes that follow from other
 * numbers, then what the module parameters change (fewer GPUs, another machine's numbering).
 */
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/string.h>
#include "desc.h"

#define complain(d, i, fmt, ...) \
	pr_err("kfd-sim: %s:%u: %s: " fmt "\n", (d)->source, (d)->info[i].line, (d)->info[i].name, ##__VA_ARGS__)

/* Well mixed and the same on every kernel: ids made from it must not change between two loads. */
u32 sim_hash32(u32 a, u32 b)
{
	u32 h = a * 0x9e3779b1u ^ (b + 0x7f4a7c15u);

	h = (h ^ h >> 16) * 0x85ebca6bu;
	h = (h ^ h >> 13) * 0xc2b2ae35u;
	return h ^ h >> 16;
}

/* -EEXIST and -ENOSPC are explained by the caller, which knows the line. */
int sim_draft_link(struct sim_draft *d, u32 from, u32 to, u32 type, u32 weight, u32 flags)
{
	struct sim_node_desc *n = &d->nodes[from];
	u32 i;

	if (from == to)
		return -EEXIST;
	for (i = 0; i < n->num_links; i++)
		if (n->links[i].to == to)
			return -EEXIST;
	if (n->num_links == SIM_MAX_LINKS)
		return -ENOSPC;
	n->links[n->num_links++] = (struct sim_link_desc){
		.type = type, .to = to, .weight = weight, .flags = flags,
	};
	return 0;
}

/* Real trees list the link to the CPU first. */
static int link_cpu(struct sim_draft *d, u32 gpu, u32 cpu)
{
	struct sim_node_desc *n = &d->nodes[gpu];
	enum sim_cpu_link kind = d->info[gpu].cpu_link;
	u32 type = kind == SIM_CPU_XGMI ? SIM_LINK_XGMI : SIM_LINK_PCIE;
	u32 weight = kind == SIM_CPU_XGMI ? 13 : 20;
	int r;

	r = sim_draft_link(d, gpu, cpu, type, weight, SIM_LINK_F_ENABLED);
	if (r)
		return r;
	if (n->num_links > 1) {
		struct sim_link_desc last = n->links[n->num_links - 1];

		memmove(&n->links[1], &n->links[0], (n->num_links - 1) * sizeof(last));
		n->links[0] = last;
	}
	if (kind == SIM_CPU_PCIE_ONEWAY)
		return 0;
	return sim_draft_link(d, cpu, gpu, type, weight, kind == SIM_CPU_XGMI ? SIM_LINK_F_ENABLED :
			      SIM_LINK_F_ENABLED | SIM_LINK_F_NON_COHERENT);
}

static bool linked(const struct sim_node_desc *n, u32 to)
{
	u32 i;

	for (i = 0; i < n->num_links; i++)
		if (n->links[i].to == to)
			return true;
	return false;
}

static int link_cpus(struct sim_draft *d)
{
	u32 i, j;
	int r;

	for (i = 0; d->cpu_links && i < d->count; i++)
		for (j = 0; j < d->count; j++)
			if (i != j && !d->info[i].gpu && !d->info[j].gpu && !linked(&d->nodes[i], j)) {
				r = sim_draft_link(d, i, j, SIM_LINK_HT, 32, SIM_LINK_F_ENABLED);
				if (r)
					return r;
			}
	for (i = 0; i < d->count; i++) {
		int cpu = -1;

		if (!d->info[i].gpu || d->info[i].cpu_link == SIM_CPU_NO_LINK)
			continue;
		for (j = 0; j < d->count && cpu < 0; j++)
			if (!d->info[j].gpu && (!*d->info[i].cpu || !strcmp(d->info[i].cpu, d->info[j].name)))
				cpu = j;
		if (cpu < 0) {
			complain(d, i, "cpu: '%s' is no cpu of the description", d->info[i].cpu);
			return -EINVAL;
		}
		/* A link given by hand stands for the default one. */
		if (linked(&d->nodes[i], cpu))
			continue;
		r = link_cpu(d, i, cpu);
		if (r) {
			complain(d, i, "link to its cpu: error %d", r);
			return r;
		}
	}
	return 0;
}

static int check_gpu(struct sim_draft *d, u32 i)
{
	const struct sim_node_desc *n = &d->nodes[i];
	const char *bad = NULL;

	/* Zero in one of these makes the thunk divide by zero, assert or take the GPU for a CPU. */
	if (!n->simd_count)
		bad = "simd_count";
	else if (!n->simd_per_cu)
		bad = "simd_per_cu";
	else if (!n->simd_arrays_per_engine)
		bad = "simd_arrays_per_engine";
	else if (!n->num_xcc)
		bad = "num_xcc";
	else if (!n->gfx_target_version)
		bad = "gfx_target_version";
	else if (!n->family)
		bad = "family";
	else if (!n->mem_bytes)
		bad = "mem";
	if (bad) {
		complain(d, i, "%s: must not be 0 (give model= or this key)", bad);
		return -EINVAL;
	}
	if (n->heap_type != 1 && n->heap_type != 2) {
		complain(d, i, "heap_type: neither 1 (public) nor 2 (private)");
		return -EINVAL;
	}
	if (n->num_sdma_engines * n->num_sdma_queues_per_engine > SIM_SDMA_SLOTS ||
	    n->num_sdma_xgmi_engines * n->num_sdma_queues_per_engine > SIM_SDMA_SLOTS) {
		complain(d, i, "num_sdma_queues_per_engine: more than %u queues", SIM_SDMA_SLOTS);
		return -EINVAL;
	}
	return 0;
}

static u64 hash64(u32 a, u32 b)
{
	return (u64)sim_hash32(a, b) << 32 | sim_hash32(b, a ^ 0x55);
}

static void finish_cpu(struct sim_draft *d, u32 i, u32 ordinal, u32 cpus)
{
	struct sim_node_desc *n = &d->nodes[i];

	n->gpu_id = 0;
	if (!n->cpu_cores_count)
		n->cpu_cores_count = max(num_online_cpus() / cpus, 1u);
	if (!n->cpu_core_id_base)
		n->cpu_core_id_base = ordinal * n->cpu_cores_count;
	if (!d->info[i].mem_given)
		n->mem_bytes = (u64)(totalram_pages() / cpus) << PAGE_SHIFT;
	if (!n->mem_width)
		n->mem_width = 64;
	if (!n->mem_clk_max)
		n->mem_clk_max = 3200;
	if (!n->max_engine_clk_ccompute)
		n->max_engine_clk_ccompute = 2450;
}

static void finish_gpu(struct sim_draft *d, u32 i, u32 ordinal)
{
	struct sim_node_desc *n = &d->nodes[i];
	struct sim_draft_node *info = &d->info[i];

	if (!info->caches_given)
		n->caches_count = sim_default_caches(n);
	if (!info->cwsr_given)
		sim_cwsr_sizes(n, &n->cwsr_size, &n->ctl_stack_size);
	if (!info->location_given)
		n->location_id = (0x03 + info->card * 0x20 % 0xe0 + info->card / 7) << 8 |
				 info->partition;
	if (!info->unique_given)
		n->unique_id = hash64(info->card + 1, 0x55494400) >> 1;
	if (!n->simd_id_base)
		n->simd_id_base = 0x80001000u + ordinal * (n->array_count / n->num_xcc * n->cu_per_simd_array);
	if (!n->max_engine_clk_ccompute)
		n->max_engine_clk_ccompute = 2450;
}

/* ------------------------------------------------------------------ what the parameters change */

/* map[old] = new place, or -1 when the node goes. Reorders nodes and info, and re-targets every link. */
static int rearrange(struct sim_draft *d, const int *map)
{
	struct sim_node_desc *nodes = kvcalloc(SIM_MAX_NODES, sizeof(*nodes), GFP_KERNEL);
	struct sim_draft_node *info = kvcalloc(SIM_MAX_NODES, sizeof(*info), GFP_KERNEL);
	u32 i, l, count = 0;

	if (!nodes || !info) {
		kvfree(nodes);
		kvfree(info);
		return -ENOMEM;
	}
	for (i = 0; i < d->count; i++) {
		struct sim_node_desc *n;
		u32 kept = 0;

		if (map[i] < 0)
			continue;
		n = &nodes[map[i]];
		*n = d->nodes[i];
		info[map[i]] = d->info[i];
		for (l = 0; l < n->num_links; l++) {
			if (map[n->links[l].to] < 0)
				continue;
			n->links[kept] = n->links[l];
			n->links[kept++].to = map[n->links[l].to];
		}
		n->num_links = kept;
		count++;
	}
	memcpy(d->nodes, nodes, SIM_MAX_NODES * sizeof(*nodes));
	memcpy(d->info, info, SIM_MAX_NODES * sizeof(*info));
	d->count = count;
	kvfree(nodes);
	kvfree(info);
	return 0;
}

static int keep_gpus(struct sim_draft *d, u32 limit)
{
	int map[SIM_MAX_NODES];
	u32 i, place = 0, gpus = 0;

	for (i = 0; i < d->count; i++)
		map[i] = d->info[i].gpu && ++gpus > limit ? -1 : (int)place++;
	return rearrange(d, map);
}

/* Another machine: GPUs in other places, with other ids and serial numbers, but the same links. */
static int renumber(struct sim_draft *d, u32 seed)
{
	int map[SIM_MAX_NODES];
	u32 places[SIM_MAX_GPUS], gpus = 0, i, k = 0;

	for (i = 0; i < d->count; i++)
		if (d->info[i].gpu)
			places[gpus++] = i;
	for (i = gpus; i > 1; i--)
		swap(places[i - 1], places[sim_hash32(seed, i) % i]);
	for (i = 0; i < d->count; i++) {
		struct sim_node_desc *n = &d->nodes[i];

		map[i] = d->info[i].gpu ? (int)places[k++] : (int)i;
		if (n->hive_id)
			n->hive_id ^= hash64(seed, 0x48) & ~1ull;
		if (!d->info[i].gpu)
			continue;
		n->unique_id ^= hash64(seed, 0x55) >> 1;
		n->location_id ^= (1 + seed % 31) << 8;
		d->info[i].id_given = false;
	}
	return rearrange(d, map);
}

static bool id_taken(const struct sim_draft *d, u32 upto, u32 id)
{
	u32 i;

	for (i = 0; i < d->count; i++)
		if ((i < upto || d->info[i].id_given) && i != upto && d->info[i].gpu && d->nodes[i].gpu_id == id)
			return true;
	return false;
}

static int give_ids(struct sim_draft *d, const struct sim_overrides *over)
{
	u32 i, ordinal = 0;

	for (i = 0; i < d->count; i++) {
		struct sim_node_desc *n = &d->nodes[i];
		u32 id, attempt = 0;

		if (!d->info[i].gpu)
			continue;
		if (!d->info[i].id_given && over->id_base && !over->renumber) {
			n->gpu_id = over->id_base + ordinal;
		} else if (!d->info[i].id_given) {
			do {
				id = sim_hash32(ordinal + 1 + (attempt++ << 16), over->renumber) & 0xffff;
			} while (!id || id_taken(d, i, id));
			n->gpu_id = id;
		}
		if (!n->gpu_id || n->gpu_id > 0xffff || id_taken(d, i, n->gpu_id)) {
			complain(d, i, "gpu_id: %u is 0, longer than 16 bits or taken", n->gpu_id);
			return -EINVAL;
		}
		ordinal++;
	}
	return 0;
}

int sim_layout(struct sim_draft *d, const struct sim_overrides *over)
{
	u32 i, gpus = 0, cpus = 0, seen = 0;
	int r;

	for (i = 0; i < d->count; i++) {
		if (d->info[i].gpu && check_gpu(d, i))
			return -EINVAL;
		if (d->info[i].gpu)
			gpus++;
		else
			cpus++;
	}
	if (!gpus || !cpus || gpus > SIM_MAX_GPUS || cpus > SIM_MAX_CPUS) {
		pr_err("kfd-sim: %s: %u cpus and %u gpus; wanted are 1 to %u and 1 to %u\n",
		       d->source, cpus, gpus, SIM_MAX_CPUS, SIM_MAX_GPUS);
		return -EINVAL;
	}
	r = link_cpus(d);
	if (r)
		return r;
	gpus = 0;
	for (i = 0; i < d->count; i++) {
		if (d->info[i].gpu)
			finish_gpu(d, i, gpus++);
		else
			finish_cpu(d, i, seen++, cpus);
		if (d->info[i].gpu && over->vram_mib)
			d->nodes[i].mem_bytes = (u64)over->vram_mib << 20;
	}
	if (over->gpus && over->gpus < gpus) {
		r = keep_gpus(d, over->gpus);
		if (r)
			return r;
		gpus = over->gpus;
	}
	if (over->renumber) {
		r = renumber(d, over->renumber);
		if (r)
			return r;
	}
	r = give_ids(d, over);
	if (r)
		return r;
	for (i = 0; i < d->count; i++)
		d->nodes[i].node_id = i;
	sim_sys.num_nodes = d->count;
	sim_sys.num_gpus = gpus;
	sim_sys.num_cpus = cpus;
	sim_sys.p2p_links = d->p2p;
	sim_sys.generation_id = d->count + 1;
	return 0;
}
