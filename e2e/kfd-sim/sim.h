/* SPDX-License-Identifier: GPL-2.0 */
/*
 * kfd-sim: what the parts of the module say to each other.
 *
 *   main.c, describe.c, preset.c   parameters, description of the simulated GPUs, load and unload
 *   topology.c                     /sys/class/kfd/kfd/topology
 *   debugfs.c, fault.c             counters, fault injection, delays, list of copies
 *   drm_*.c, bo.c, vm.c, sdma.c    one DRM device "amdgpu" per GPU, buffer objects, address spaces, SDMA
 *   kfd_*.c                        /dev/kfd: processes, memory, queues, events, CRIU_OP
 *
 * Locks, outermost first: sim_process.lock, then sim_vm.lock, then sim_gpu.lock, then sim_bo.lock.
 * The mmap handlers run under mmap_lock and take none of them but sim_bo.lock; code that copies to or
 * from user memory may hold sim_process.lock (page faults then take mmap_lock), never the others.
 */
#ifndef KFD_SIM_H
#define KFD_SIM_H

#include <linux/types.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/xarray.h>
#include <linux/idr.h>
#include <linux/rbtree.h>
#include <linux/interval_tree.h>
#include <linux/atomic.h>
#include <linux/mmu_notifier.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <drm/drm_device.h>
#include <drm/drm_gem.h>
#include <drm/drm_file.h>

#define SIM_MAX_GPUS 64
#define SIM_MAX_CPUS 8
#define SIM_MAX_LINKS 80	/* per node */

/* ------------------------------------------------------------------ description (describe.c, preset.c) */

struct sim_link_desc {
	u32 type;		/* 2 PCIe, 11 XGMI, 1 HyperTransport, 5 QPI */
	u32 to;			/* node id */
	u32 weight, flags;
};

/* One node of the topology tree, CPU (gpu_id 0) or GPU. Every number is printed as it stands here. */
struct sim_node_desc {
	u32 node_id;
	u32 gpu_id;		/* ACTUAL id; 0 for a CPU node */
	char name[32];
	u32 cpu_cores_count, simd_count, caches_count;
	u32 max_waves_per_simd, lds_size_in_kb, gds_size_in_kb, num_gws, wave_front_size;
	u32 array_count, simd_arrays_per_engine, cu_per_simd_array, simd_per_cu, max_slots_scratch_cu;
	u32 gfx_target_version;	/* 90010 = 9.0.10 */
	u32 vendor_id, device_id, location_id, domain, drm_render_minor;
	u64 hive_id;
	u32 num_sdma_engines, num_sdma_xgmi_engines, num_sdma_queues_per_engine, num_cp_queues;
	u32 cwsr_size, ctl_stack_size;
	u32 fw_version, capability, debug_prop, sdma_fw_version, num_xcc;
	u64 unique_id;
	u32 heap_type;		/* 0 system (CPU), 1 public, 2 private VRAM */
	u64 mem_bytes;		/* size printed for the bank */
	u32 family;		/* DEV_INFO.family: 141 AI, 130 VI, 143 NV ... decides the SDMA count encoding */
	/* read by topology.c alone */
	u32 cpu_core_id_base, simd_id_base, max_engine_clk_fcompute, max_engine_clk_ccompute;
	u32 mem_width, mem_clk_max;	/* bits, MHz */
	u32 l1_kb, l2_kb, l3_kb, cu_per_icache;	/* what the generated cache entries say */
	u32 num_links;
	struct sim_link_desc links[SIM_MAX_LINKS];
};

struct sim_system {
	u32 num_nodes, num_gpus, num_cpus;
	struct sim_node_desc *nodes;	/* CPUs first unless the description permutes them */
	/* personality, see main.c parameters */
	u32 kfd_minor;		/* 11, 17, 23 */
	bool list_handles;	/* GEM_LIST_HANDLES answers instead of -EINVAL */
	bool evict_every_info;	/* PROCESS_INFO evicts again while paused (6.1 and 7.2 as read) */
	bool check_queue_buffers; /* 6.12 and later */
	u32 doorbell_slice;	/* bytes per process, 8192 from gfx9 on */
	bool reverse_minors;	/* sim_drm_init() makes the DRM devices from the last GPU to the first */
	bool p2p_links;		/* topology.c derives p2p_links/ */
	u32 generation_id;
};
extern struct sim_system sim_sys;

/* ------------------------------------------------------------------ one GPU */

#define SIM_SDMA_SLOTS 256	/* engines x queues, SDMA then XGMI-SDMA */

struct sim_gpu {
	struct drm_device drm;
	struct sim_node_desc *desc;	/* into sim_sys.nodes */
	u32 index;
	bool masked;			/* global switch, besides the device cgroup */
	struct mutex lock;
	u64 vram_total, vram_used;	/* bytes, under lock; vram_total can be lowered by a fault */
	unsigned long sdma_used[SIM_SDMA_SLOTS / BITS_PER_LONG];  /* SDMA queue numbers over ALL processes, under lock */
	unsigned long xgmi_used[SIM_SDMA_SLOTS / BITS_PER_LONG];
	/* counters, read through debugfs */
	atomic64_t cnt_userptr, cnt_import, cnt_submit, cnt_copied_bytes, cnt_copies;
	atomic64_t cnt_fault_unmapped, cnt_fault_overrun, cnt_evictions, cnt_queues_running, cnt_packets;
	atomic64_t cnt_gtt_bytes, cnt_gtt_peak;	/* GTT allocated through render files with GEM_CREATE: now, peak */
	/* private to the DRM half */
	atomic64_t gtt_used;		/* all GTT of this GPU, KFD's included */
	struct workqueue_struct *lane;	/* the one copy engine, in order */
	wait_queue_head_t idle;		/* woken when a job ends */
};
#define drm_to_gpu(d) container_of(d, struct sim_gpu, drm)

struct sim_gpu *sim_gpu_by_actual_id(u32 gpu_id);	/* NULL if there is none */
struct sim_gpu *sim_gpu_by_index(u32 index);
u32 sim_gpu_count(void);
/* May `current` use this GPU? Not masked by the switch, and the device cgroup grants rw on 226:<render minor>. */
bool sim_gpu_allowed(struct sim_gpu *gpu);

int sim_drm_init(void);		/* drm_device.c: creates all GPUs of sim_sys; fills desc->drm_render_minor */
void sim_drm_exit(void);
int sim_topology_init(struct kobject *kfd_kobj);	/* topology.c; after sim_drm_init */
void sim_topology_exit(void);
int sim_kfd_init(void);		/* kfd_device.c: chrdev, class "kfd", device, proc kobject */
struct kobject *sim_kfd_kobj(void);	/* of the kfd device: parent of topology/ and proc/ */
void sim_kfd_exit(void);
int sim_debugfs_init(void);
void sim_debugfs_exit(void);

/* ------------------------------------------------------------------ buffer objects (bo.c) */

/* Domains as in amdgpu_drm.h */
#define SIM_DOMAIN_CPU 0x1
#define SIM_DOMAIN_GTT 0x2
#define SIM_DOMAIN_VRAM 0x4

struct sim_bo {
	struct drm_gem_object base;
	struct sim_gpu *gpu;		/* whose VRAM/GTT is accounted */
	u32 domain;			/* SIM_DOMAIN_* actually used */
	u32 preferred;			/* as asked for: what GEM_OP and GEM_LIST_HANDLES report */
	u64 flags;			/* GEM create flags */
	u64 alignment;
	struct page **pages;		/* base.size >> PAGE_SHIFT entries; NULL entries only for an unpopulated userptr */
	struct mutex lock;
	/* userptr */
	bool userptr, populated;
	struct mm_struct *mm;		/* mmgrab'ed */
	unsigned long user_addr;
	bool user_write, anon_only;
	bool stale;			/* the range was unmapped or remapped since the pages were taken: taken anew by sim_bo_populate() */
	struct mmu_interval_notifier notifier;
	/* a wrapper made for a dma-buf of another simulated GPU: shares `pages` with it */
	struct sim_bo *origin;		/* referenced */
	struct dma_buf *import_buf;	/* the wrapper keeps it open */
	atomic_t busy;			/* submissions that list it and are not signalled */
	atomic_t pending;		/* submissions that list it and are not executed: hung ones do not count */
	u64 metadata_flags, tiling; u32 metadata_size; u8 metadata[256];
	u32 kfd_owned;			/* GEM-handle counts of KFD's own, see sim_bo_kfd_own() */
	void *file_gtt_account;		/* drm file private charged in cnt_gtt_bytes, or NULL */
};
#define gem_to_sim_bo(o) container_of(o, struct sim_bo, base)

/* VRAM is filled with SIM_POISON; -ENOMEM when the (possibly lowered) VRAM is full and GTT is not allowed. */
#define SIM_POISON 0xA5
struct sim_bo *sim_bo_create(struct sim_gpu *gpu, u64 size, u32 domain, u64 flags);
/* Pages are taken by sim_bo_populate(), not here. `addr` and `size` are page aligned (checked by the caller). */
struct sim_bo *sim_bo_create_userptr(struct sim_gpu *gpu, struct mm_struct *mm, unsigned long addr, u64 size, bool write);
int sim_bo_populate(struct sim_bo *bo);		/* pin user pages (mm must be alive); 0 if already or not userptr */
void sim_bo_unpopulate(struct sim_bo *bo);
static inline struct sim_bo *sim_bo_get(struct sim_bo *bo) { drm_gem_object_get(&bo->base); return bo; }
static inline void sim_bo_put(struct sim_bo *bo) { if (bo) drm_gem_object_put(&bo->base); }
/* Since 6.7 KFD holds a GEM handle of its own for each of its BOs, which is why a BO has one dma-buf (one inode) for its
 * whole life. Call own once per KFD allocation or import of a BO, disown before the matching sim_bo_put(). */
void sim_bo_kfd_own(struct sim_bo *bo);
void sim_bo_kfd_disown(struct sim_bo *bo);
int sim_bo_mmap_offset(struct sim_bo *bo, u64 *offset);	/* fake offset on the render node */
/* A new dma-buf; one per BO, whoever exports. `writable` decides the file mode. */
struct dma_buf *sim_bo_export(struct sim_bo *bo, bool writable);
/* The object behind a dma-buf of any simulated GPU as seen from `gpu` (the same one, or a wrapper); ERR_PTR(-EINVAL) if not ours. */
struct sim_bo *sim_bo_import(struct sim_gpu *gpu, struct dma_buf *buf);
/* The object itself, no wrapper, no new import counted; -EINVAL if not ours. Takes a reference. */
struct sim_bo *sim_bo_of_dmabuf(struct dma_buf *buf);
/* CPU access to the contents, byte granular */
int sim_bo_read(struct sim_bo *bo, u64 off, void *dst, u64 len);
int sim_bo_write(struct sim_bo *bo, u64 off, const void *src, u64 len);
int sim_bo_fill(struct sim_bo *bo, u8 byte);
u64 sim_gtt_limit(void);	/* bytes of GTT that one GPU may have */

/* ------------------------------------------------------------------ address spaces (vm.c) */

#define SIM_VM_R 1
#define SIM_VM_W 2
#define SIM_VM_X 4
#define SIM_VM_GEM 0x100		/* made by GEM_VA: goes when the file closes its handle of the BO; KFD's mappings stay */

struct sim_vm {
	struct kref ref;
	struct sim_gpu *gpu;
	struct mutex lock;
	struct rb_root_cached maps;	/* of struct sim_mapping */
	bool compute;			/* bound to a KFD process */
	u32 pasid;			/* printed in fdinfo as "pasid:\t%u"; KFD overwrites it with the process's */
	u32 own_pasid;			/* the one that the open gave it */
	atomic_t jobs;			/* submissions not yet executed; gpu->idle is woken */
};

struct sim_mapping {
	struct interval_tree_node it;	/* start .. last, bytes */
	struct sim_bo *bo;		/* referenced */
	u64 bo_offset;
	u32 flags;			/* SIM_VM_* */
};

struct sim_vm *sim_vm_get(struct sim_vm *vm);
void sim_vm_put(struct sim_vm *vm);
/* The VM behind an open render file (primary nodes are refused); *gpu is set. -EINVAL if the file is not one of ours. No reference taken: the caller holds `file`. */
struct sim_vm *sim_vm_of_file(struct file *file, struct sim_gpu **gpu);
struct drm_file *sim_drm_file(struct file *file);
/* Bind to a KFD process: -EINVAL if already compute. Undone by sim_vm_release_compute when the process dies. */
int sim_vm_make_compute(struct sim_vm *vm, u32 pasid);
void sim_vm_release_compute(struct sim_vm *vm);
/* Let mmap of this render file reach a BO that has no handle in it, and take that back. */
int sim_bo_allow(struct sim_bo *bo, struct file *render_file);
void sim_bo_revoke(struct sim_bo *bo, struct file *render_file);
/* Errors of drm-amdgpu.md section 5 (GEM_VA). size need not be page aligned here only if the BO's end is meant. */
int sim_vm_map(struct sim_vm *vm, struct sim_bo *bo, u64 va, u64 bo_offset, u64 size, u32 flags);
int sim_vm_unmap(struct sim_vm *vm, struct sim_bo *bo, u64 va);	/* -ENOENT if unknown */
void sim_vm_unmap_bo(struct sim_vm *vm, struct sim_bo *bo);		/* every mapping of it */
/* The mapping that contains va; under vm->lock, NULL if none. */
struct sim_mapping *sim_vm_find(struct sim_vm *vm, u64 va);
/* Byte access through the VM. Both count cnt_fault_unmapped for an unmapped or forbidden byte (-EFAULT) and
 * cnt_fault_overrun for an access that runs from one mapping into the next. */
int sim_vm_read(struct sim_vm *vm, u64 va, void *dst, u64 len);
int sim_vm_write(struct sim_vm *vm, u64 va, const void *src, u64 len);
int sim_vm_copy(struct sim_vm *vm, u64 dst, u64 src, u64 len);
int sim_vm_fill32(struct sim_vm *vm, u64 va, u32 value, u64 len);
int sim_vm_add64(struct sim_vm *vm, u64 va, u64 value);	/* atomic; va 8-byte aligned */

/* ------------------------------------------------------------------ faults and counters (fault.c, debugfs.c) */

/* Names are those of the ioctls in lower case: "kfd.criu_op.checkpoint", "kfd.alloc_memory_of_gpu", "drm.cs", "drm.gem_create" ... */
int sim_fault_check(const char *point);	/* 0, or the negative errno of an armed fault whose turn it is */
enum sim_sdma_fault { SIM_SDMA_OK, SIM_SDMA_SILENT, SIM_SDMA_FAIL, SIM_SDMA_HANG };
/* Asked once per copy job. SILENT: skip the copy, report success; FAIL: WAIT_CS returns -ECANCELED; HANG: fence never signals. */
enum sim_sdma_fault sim_fault_sdma(void);
u32 sim_delay_us_per_mib(void);		/* sleeping delay of SDMA copies */
bool sim_strict_faults(void);		/* an access outside a mapping makes WAIT_CS fail, besides being counted */
/* One line of debugfs "copies": CLOCK_MONOTONIC ns at begin and end of one submission's execution. */
void sim_log_copy(struct sim_gpu *gpu, u64 begin_ns, u64 end_ns, u64 bytes);
/* global counters */
extern atomic64_t sim_cnt_unpause, sim_cnt_process_info, sim_cnt_resume, sim_cnt_would_oops, sim_cnt_warnings;
/* Called where the real kernel would oops (kfd-ioctl.md DANGER notes): counts and logs, caller then returns -EFAULT. */
void sim_would_oops(const char *where);

/* ------------------------------------------------------------------ for debugfs.c (kfd_process.c) */
struct seq_file;
void sim_kfd_show_processes(struct seq_file *m);	/* one line per process: pid, paused, evictions per GPU, BOs, queues, packets per queue, state */

#endif
