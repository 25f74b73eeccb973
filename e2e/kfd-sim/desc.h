/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What describe.c, layout.c, model.c and preset.c share: how a description becomes sim_sys.
 *
 * A description is text in the grammar of README.md. Presets are descriptions too, so that there is
 * one parser and one way to lay out links, whatever the source.
 */
#ifndef KFD_SIM_DESC_H
#define KFD_SIM_DESC_H

#include "sim.h"

#define SIM_MAX_NODES (SIM_MAX_GPUS + SIM_MAX_CPUS)
#define SIM_NAME_LEN 16
#define SIM_DESC_MAX_BYTES (256 * 1024)

#define SIM_LINK_HT 1
#define SIM_LINK_PCIE 2
#define SIM_LINK_QPI 5
#define SIM_LINK_XGMI 11

#define SIM_LINK_F_ENABLED 0x1
#define SIM_LINK_F_NON_COHERENT 0x2

/* How a GPU hangs on its CPU. */
enum sim_cpu_link { SIM_CPU_PCIE, SIM_CPU_PCIE_ONEWAY, SIM_CPU_XGMI, SIM_CPU_NO_LINK };

/* Per node, only while a description is read. */
struct sim_draft_node {
	char name[SIM_NAME_LEN];
	bool gpu;
	char cpu[SIM_NAME_LEN];		/* name of the GPU's CPU; "" = the first one of the description */
	enum sim_cpu_link cpu_link;
	u32 card, partition, partitions; /* place of a partition on its card; partitions is 1 for a whole card */
	u32 line;
	bool id_given, location_given, unique_given, caches_given, cwsr_given, mem_given;
};

struct sim_draft {
	struct sim_node_desc *nodes;	/* SIM_MAX_NODES */
	struct sim_draft_node *info;	/* SIM_MAX_NODES */
	u32 count, cards, hives;
	bool cpu_links;			/* join every pair of CPUs */
	bool p2p;
	const char *source;		/* for messages: preset name or path */
};

/* Module parameters that change what a description says. */
struct sim_overrides {
	u32 gpus;	/* 0 = all */
	u32 vram_mib;	/* 0 = as described */
	u32 renumber;	/* seed; 0 = off */
	u32 id_base;	/* 0 = hashed ids */
};

/* describe.c */
int sim_describe(const char *preset, const char *path, const struct sim_overrides *over);
void sim_describe_release(void);

/* layout.c: every function returns 0 or a negative errno and says why in the log */
int sim_draft_link(struct sim_draft *d, u32 from, u32 to, u32 type, u32 weight, u32 flags);
int sim_layout(struct sim_draft *d, const struct sim_overrides *over);
u32 sim_hash32(u32 a, u32 b);

/* model.c: fill a node with the numbers of a chip; -ENOENT if the name is unknown */
int sim_model_fill(const char *name, struct sim_node_desc *n);
void sim_cwsr_sizes(const struct sim_node_desc *n, u32 *cwsr, u32 *ctl_stack);
u32 sim_default_caches(const struct sim_node_desc *n);

/* preset.c: text of a preset, NULL if unknown */
const char *sim_preset_text(const char *name);

#endif
