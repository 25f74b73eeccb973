// SPDX-License-Identifier: GPL-2.0
/* Parameters, load and unload. */
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/version.h>
#include <drm/drm_drv.h>
#include "desc.h"

static char *preset = "gfx90a-2";
module_param(preset, charp, 0444);
MODULE_PARM_DESC(preset, "machine to present; the names are in README.md");

static char *description = "";
module_param(description, charp, 0444);
MODULE_PARM_DESC(description, "absolute path of a description that is used instead of a preset");

static uint gpus;
module_param(gpus, uint, 0444);
MODULE_PARM_DESC(gpus, "use the first N GPUs only (0: all)");

static uint vram_mib;
module_param(vram_mib, uint, 0444);
MODULE_PARM_DESC(vram_mib, "VRAM of every GPU in MiB (0: as described)");

static uint renumber;
module_param(renumber, uint, 0444);
MODULE_PARM_DESC(renumber, "seed: other gpu ids, serial numbers and order of the GPUs (0: off)");

static uint id_base;
module_param(id_base, uint, 0444);
MODULE_PARM_DESC(id_base, "gpu ids count up from here (0: hashed)");

static uint minor_skip;
module_param(minor_skip, uint, 0444);
MODULE_PARM_DESC(minor_skip, "render minors begin at 128 + N");

static bool reverse_minors;
module_param(reverse_minors, bool, 0444);
MODULE_PARM_DESC(reverse_minors, "the last GPU has the lowest render minor");

static uint kfd_minor = 17;
module_param(kfd_minor, uint, 0444);
MODULE_PARM_DESC(kfd_minor, "minor number of the KFD interface: 11, 17 or 23");

static int list_handles = -1;
module_param(list_handles, int, 0444);
MODULE_PARM_DESC(list_handles, "GEM_LIST_HANDLES and GEM_OP's mapping info answer (-1: from kfd_minor 23 on)");

static int evict_every_info = -1;
module_param(evict_every_info, int, 0444);
MODULE_PARM_DESC(evict_every_info, "PROCESS_INFO of a paused process evicts again (-1: by kfd_minor)");

static int check_queue_buffers = -1;
module_param(check_queue_buffers, int, 0444);
MODULE_PARM_DESC(check_queue_buffers, "CREATE_QUEUE checks its buffers (-1: from kfd_minor 17 on)");

static uint doorbell_slice;
module_param(doorbell_slice, uint, 0444);
MODULE_PARM_DESC(doorbell_slice, "bytes of doorbells of a process (0: by the GPUs' generation)");

/* ------------------------------------------------------------------ minors that are not ours */

#define MAX_SKIP 64
#define FAMILY_AI 141

static const struct drm_driver filler_driver = {
	.driver_features = DRIVER_GEM | DRIVER_RENDER,
	.name = "kfd-sim-filler",
	.desc = "holds a minor",
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 14, 0)
	.date = "20260101",
#endif
	.major = 1,
};

static struct platform_device *filler_parents[MAX_SKIP];
static struct drm_device *fillers[MAX_SKIP];

static void drop_fillers(void)
{
	u32 i;

	for (i = 0; i < MAX_SKIP; i++) {
		if (fillers[i])
			drm_dev_put(fillers[i]);
		fillers[i] = NULL;
		if (filler_parents[i])
			platform_device_unregister(filler_parents[i]);
		filler_parents[i] = NULL;
	}
}

/*
 * A DRM device takes its minors when it is made, registered or not: these are never seen by anybody.
 * Each has a parent of its own, because DRM names a debugfs directory by it.
 */
static int take_minors(u32 count)
{
	u32 i;

	for (i = 0; i < count; i++) {
		struct platform_device *p = platform_device_register_simple("kfd-sim-filler", i, NULL, 0);
		struct drm_device *d;

		if (IS_ERR(p)) {
			drop_fillers();
			return PTR_ERR(p);
		}
		filler_parents[i] = p;
		d = drm_dev_alloc(&filler_driver, &p->dev);
		if (IS_ERR(d)) {
			drop_fillers();
			return PTR_ERR(d);
		}
		fillers[i] = d;
	}
	return 0;
}

/* ------------------------------------------------------------------ load */

static bool auto_bool(int param, bool by_kernel)
{
	return param < 0 ? by_kernel : param;
}

static int choose_personality(void)
{
	u32 i;

	if (kfd_minor != 11 && kfd_minor != 17 && kfd_minor != 23) {
		pr_err("kfd-sim: kfd_minor: %u is none of 11, 17, 23\n", kfd_minor);
		return -EINVAL;
	}
	if (minor_skip > MAX_SKIP) {
		pr_err("kfd-sim: minor_skip: %u is more than %u\n", minor_skip, MAX_SKIP);
		return -EINVAL;
	}
	if (doorbell_slice % PAGE_SIZE || doorbell_slice > 65536) {
		pr_err("kfd-sim: doorbell_slice: %u is no number of pages up to 64 KiB\n", doorbell_slice);
		return -EINVAL;
	}
	/* Linux 6.1, 6.12 and 7.2: see README.md. */
	sim_sys.kfd_minor = kfd_minor;
	sim_sys.list_handles = auto_bool(list_handles, kfd_minor >= 23);
	sim_sys.evict_every_info = auto_bool(evict_every_info, kfd_minor != 17);
	sim_sys.check_queue_buffers = auto_bool(check_queue_buffers, kfd_minor >= 17);
	sim_sys.reverse_minors = reverse_minors;
	sim_sys.doorbell_slice = doorbell_slice ?: 8192;
	for (i = 0; !doorbell_slice && i < sim_sys.num_nodes; i++)
		if (sim_sys.nodes[i].gpu_id && sim_sys.nodes[i].family < FAMILY_AI)
			sim_sys.doorbell_slice = 4096;
	return 0;
}

static int __init sim_init(void)
{
	const struct sim_overrides over = {
		.gpus = gpus, .vram_mib = vram_mib, .renumber = renumber, .id_base = id_base,
	};
	int r;

	r = sim_describe(preset, description, &over);
	if (r)
		return r;
	r = choose_personality();
	if (r)
		goto no_personality;
	r = take_minors(minor_skip);
	if (r)
		goto no_personality;
	r = sim_drm_init();
	/* The GPUs have their minors now; what was below them is free for others again. */
	drop_fillers();
	if (r)
		goto no_personality;
	r = sim_kfd_init();
	if (r)
		goto no_kfd;
	r = sim_topology_init(sim_kfd_kobj());
	if (r)
		goto no_topology;
	r = sim_debugfs_init();
	if (r)
		goto no_debugfs;
	pr_info("kfd-sim: %u GPUs and %u CPUs of %s, KFD 1.%u\n", sim_sys.num_gpus, sim_sys.num_cpus,
		*description ? description : preset, sim_sys.kfd_minor);
	return 0;

no_debugfs:
	sim_topology_exit();
no_topology:
	sim_kfd_exit();
no_kfd:
	sim_drm_exit();
no_personality:
	sim_describe_release();
	return r;
}

static void __exit sim_exit(void)
{
	sim_debugfs_exit();
	sim_topology_exit();
	sim_kfd_exit();
	sim_drm_exit();
	sim_describe_release();
}

module_init(sim_init);
module_exit(sim_exit);

MODULE_DESCRIPTION("Simulated AMD GPUs: KFD and DRM devices without hardware");
MODULE_LICENSE("GPL");
MODULE_VERSION("6.12.0-kfd-sim");
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
MODULE_IMPORT_NS(DMA_BUF);
#else
MODULE_IMPORT_NS("DMA_BUF");
#endif
