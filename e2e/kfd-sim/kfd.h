/* SPDX-License-Identifier: GPL-2.0 */
/*
 * kfd-sim: what the kfd_*.c files share.
 *
 *   kfd_device.c        /dev/kfd itself: open, dispatch, who may call
 *   kfd_process.c       process objects: made at the first open, torn down after the last reference
 *   kfd_proc.c          /sys/class/kfd/kfd/proc/PID
 *   kfd_memory.c        objects with memory handles; kfd_memory_ioctl.c, kfd_dmabuf.c the calls on them
 *   kfd_queue.c         queue objects; kfd_queue_ioctl.c, kfd_qres.c (SDMA numbers, doorbells), kfd_qbuf.c (buffer checks)
 *   kfd_exec.c          lets queues run; kfd_packet.c knows the packets
 *   kfd_event.c         events; kfd_event_wait.c waiting for them
 *   kfd_mmap.c          mmap of /dev/kfd
 *   kfd_criu.c          CRIU_OP: PROCESS_INFO, UNPAUSE, RESUME; kfd_criu_dump.c, kfd_criu_restore.c, kfd_criu_objects.c
 *   kfd_misc.c          the small calls; kfd_svm.c shared virtual memory; kfd_smi.c
 *
 * Locks besides those of sim.h: sim_processes_mutex outside sim_process.lock; sim_process.event_lock
 * inside it. The hash of processes has a spinlock of its own, because mmap and the MMU notifier, which
 * run with mmap_lock held, look into it.
 */
#ifndef KFD_SIM_KFD_H
#define KFD_SIM_KFD_H

#include <linux/idr.h>
#include <linux/kobject.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/sched.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <uapi/linux/kfd_ioctl.h>
#include "sim.h"

/* ------------------------------------------------------------------ numbers */

#define SIM_MAX_QUEUES 1024		/* per process */
#define SIM_DOORBELLS 1024		/* per process and GPU */
#define SIM_GPUVM_BASE 0x10000ull
#define SIM_GPUVM_LIMIT ((1ull << 47) - 1)
#define SIM_EOP_BYTES 4096
#define SIM_MAX_CTL_STACK 0x10000	/* more than any of the GPUs has; a dump holds it */

/* Bits 63:62 of an offset for mmap of /dev/kfd; bits 61:46 are the ACTUAL gpu id. */
#define SIM_MMAP_MMIO 0
#define SIM_MMAP_RESERVED 1
#define SIM_MMAP_EVENTS 2
#define SIM_MMAP_DOORBELL 3
#define SIM_MMAP_OFFSET(type, gpu_id) (((u64)(type) << 62) | (((u64)(gpu_id) & 0xffff) << 46))
#define SIM_MMAP_TYPE(off) ((u32)((u64)(off) >> 62))
#define SIM_MMAP_GPU(off) ((u32)(((u64)(off) >> 46) & 0xffff))

/* A memory handle is the USER gpu id and a number from 1. */
#define SIM_HANDLE(gpu_id, n) (((u64)(gpu_id) << 32) | (u32)(n))
#define SIM_HANDLE_GPU(h) ((u32)((h) >> 32))
#define SIM_HANDLE_NR(h) ((u32)(h))

/* Queue types as the kernel counts them inside, which is also what a dump records. */
#define SIM_QUEUE_COMPUTE 0
#define SIM_QUEUE_SDMA 1
#define SIM_QUEUE_XGMI 4
#define SIM_FORMAT_PM4 0
#define SIM_FORMAT_AQL 1

#define SIM_FIRST_NONSIGNAL_EVENT 0x40000000
#define SIM_LAST_NONSIGNAL_EVENT 0x7fffffff
#define SIM_EVENT_PAGE_BYTES (KFD_SIGNAL_EVENT_LIMIT * 8)
#define SIM_EVENT_PAGE_ORDER 3
#define SIM_EVENT_UNSET ~0ull		/* a slot nobody has written */

/* ------------------------------------------------------------------ objects */

struct sim_process;

/* One GPU of a process. */
struct sim_pdd {
	struct sim_process *proc;
	struct sim_gpu *gpu;
	u32 index;
	u32 user_gpu_id;	/* what the process calls the GPU; differs from desc->gpu_id after a RESTORE elsewhere */
	struct file *drm_file;	/* referenced; NULL until ACQUIRE_VM or RESTORE */
	struct sim_vm *vm;	/* referenced; NULL likewise */
	struct idr mems;	/* struct sim_mem by handle number */
	struct list_head queues; /* newest first */
	u32 n_queues;
	u32 evicted;		/* queues run only while it is 0 */
	u64 evicted_since_ns, evicted_ns;
	struct page *doorbells, *mmio;	/* made when first asked for, kept until the process goes */
	DECLARE_BITMAP(doorbell_used, SIM_DOORBELLS);
	atomic64_t vram_usage;
	u64 scratch_va, tba, tma;
	/* sysfs, kfd_proc.c */
	struct kobj_attribute vram_attr, sdma_attr, evicted_attr;
	char vram_name[24], sdma_name[24];
	struct kobject *stats_kobj, *counters_kobj;
};

/* What a memory handle names. */
struct sim_mem {
	struct sim_pdd *pdd;
	struct sim_bo *bo;	/* referenced */
	u64 va;
	u32 flags;		/* KFD_IOC_ALLOC_MEM_FLAGS_* */
	u64 user_addr;
	DECLARE_BITMAP(mapped, SIM_MAX_GPUS);	/* by sim_pdd.index */
};

#define SIM_QUEUE_BUFS 5	/* wptr, rptr, ring, EOP, CWSR */

struct sim_queue {
	struct list_head list;	/* in sim_pdd.queues */
	struct sim_pdd *pdd;
	u32 qid, type, format;
	u64 ring, ring_size, rptr_va, wptr_va, eop, eop_size, ctx;
	u32 ctx_size, ctl_stack, percent, priority;
	u32 sdma_id, doorbell_id, gws;
	bool doorbell_held, sdma_held;
	/* the engine's state; travels in the MQD */
	u64 rptr;		/* bytes (SDMA), dwords (PM4), packets (AQL) */
	u64 packets;
	bool halted;		/* met a packet that it cannot execute, or memory that is not there */
	bool running;		/* counted in cnt_queues_running */
	struct sim_bo *bufs[SIM_QUEUE_BUFS];
	struct kobject *kobj;
	struct kobj_attribute attrs[3];
};

struct sim_event {
	struct list_head waiters;
	u32 id, type;
	bool auto_reset, signaled;
	u64 age;		/* 0 only after a RESTORE */
	union {
		struct kfd_hsa_memory_exception_data memory;
		struct kfd_hsa_hw_exception_data hw;
	};
};

struct sim_process {
	struct kref ref;	/* one of the hash while the mm lives, one per open file, one per mapping */
	struct list_head all;
	struct hlist_node hash;
	struct mm_struct *mm;	/* mmgrab'ed */
	struct mmu_notifier notifier;
	struct task_struct *lead;
	pid_t pid;		/* of the lead thread, in the initial namespace */
	char comm[TASK_COMM_LEN];
	u32 pasid;
	bool dying;		/* the mm is gone */

	struct mutex lock;
	u32 n_pdds;
	struct sim_pdd *pdds;
	bool paused;		/* between PROCESS_INFO and UNPAUSE */
	bool blocked;		/* between RESTORE and RESUME: no userptr pages are taken */
	u32 evicted_bos;	/* raised by RESUME, cleared by its worker; queues run only while it is 0 */
	bool xnack;
	bool runtime_enabled;
	u64 runtime_r_debug;
	struct list_head svm;	/* kfd_svm.c */
	u32 n_svm;

	DECLARE_BITMAP(qids, SIM_MAX_QUEUES);
	struct delayed_work exec;
	u32 idle_rounds;
	struct delayed_work resume;
	struct delayed_work teardown;

	struct mutex event_lock;
	struct idr events;
	u32 n_signal_events;
	struct page *event_page;	/* made here ... */
	struct sim_bo *event_bo;	/* ... or a GTT BO of the process */
	u64 event_handle;		/* of event_bo */
	u32 event_mapped;		/* bytes that user space can see: limits the ids */
	wait_queue_head_t event_wq;

	struct kobject *kobj, *queues_kobj;	/* NULL if the directory could not be made */
	struct kobj_attribute pasid_attr;
};

/* ------------------------------------------------------------------ kfd_process.c */

extern struct workqueue_struct *sim_kfd_wq;
extern unsigned int sim_teardown_delay_ms;	/* the predecessor's VRAM and SDMA numbers stay taken that long */
extern unsigned int sim_resume_delay_ms;	/* of RESUME's worker */

int sim_process_init(void);
void sim_process_exit(void);
struct sim_process *sim_process_open(void);	/* of current, made if need be; referenced, or ERR_PTR */
struct sim_process *sim_process_find(struct mm_struct *mm);	/* referenced, or NULL */
void sim_process_get(struct sim_process *p);
void sim_process_put(struct sim_process *p);
struct sim_pdd *sim_pdd_by_user_id(struct sim_process *p, u32 gpu_id);
struct sim_pdd *sim_pdd_by_gpu(struct sim_process *p, struct sim_gpu *gpu);
/* Takes over the caller's reference to `file` on success. */
int sim_pdd_bind_vm(struct sim_pdd *pdd, struct file *file);
/* May be called without any lock (mmap); NULL when out of memory. */
struct page *sim_pdd_doorbells(struct sim_pdd *pdd);
struct page *sim_pdd_mmio(struct sim_pdd *pdd);
bool sim_xnack_possible(struct sim_process *p);

/* Stop all queues of the process, once more. Undone by itself when it fails. */
int sim_process_evict(struct sim_process *p);
int sim_process_unevict(struct sim_process *p);

/* ------------------------------------------------------------------ kfd_proc.c */

int sim_proc_init(struct kobject *kfd);
void sim_proc_exit(void);
void sim_proc_add(struct sim_process *p);
void sim_proc_remove(struct sim_process *p);
void sim_proc_add_queue(struct sim_queue *q);
void sim_proc_remove_queue(struct sim_queue *q);

/* ------------------------------------------------------------------ kfd_memory.c */

/* *offset: in the user address (USERPTR), out the DRM mmap offset. `restoring`: no user pages yet. */
int sim_mem_create(struct sim_pdd *pdd, u64 va, u64 size, u32 flags, u64 *offset, bool restoring,
		   struct sim_mem **out);
/* Takes over the reference to `bo` unless it returns NULL; the file must be allowed on it already. */
struct sim_mem *sim_mem_wrap(struct sim_pdd *pdd, struct sim_bo *bo, u64 va, u32 flags);
void sim_mem_destroy(struct sim_mem *mem);	/* mapped or not */
int sim_mem_map(struct sim_mem *mem, struct sim_pdd *pdd);
int sim_mem_unmap(struct sim_mem *mem, struct sim_pdd *pdd);
int sim_process_take_user_pages(struct sim_process *p, bool only_stale);
struct sim_mem *sim_mem_find(struct sim_pdd *pdd, u32 nr);
bool sim_mem_dumped(const struct sim_mem *mem);	/* does CHECKPOINT list it? */
void sim_pdd_free_mems(struct sim_pdd *pdd);

/* ------------------------------------------------------------------ kfd_queue.c and helpers */

struct sim_criu_queue;
/* `q` holds the properties; on success it belongs to the process. rec and mqd: RESTORE, else NULL. */
int sim_queue_create(struct sim_queue *q, const struct sim_criu_queue *rec, const void *mqd);
void sim_queue_destroy(struct sim_queue *q);
struct sim_queue *sim_queue_find(struct sim_process *p, u32 qid);
void sim_queue_refresh(struct sim_queue *q);	/* after whatever decides whether it runs has changed */
bool sim_queue_runnable(const struct sim_queue *q);
bool sim_queue_is_sdma(const struct sim_queue *q);
void sim_process_refresh_queues(struct sim_process *p);

int sim_qres_take(struct sim_queue *q, u32 by_engine, const struct sim_criu_queue *rec);
void sim_qres_release(struct sim_queue *q);
u32 sim_doorbell_offset(const struct sim_queue *q);	/* in the slice */
#define SIM_ANY_ENGINE ~0u

int sim_qbuf_acquire(struct sim_queue *q);
void sim_qbuf_release(struct sim_queue *q);
bool sim_qbuf_in_use(struct sim_pdd *pdd, struct sim_bo *bo);

void sim_exec_init(struct sim_process *p);
void sim_exec_kick(struct sim_process *p);
/* Lets the queue execute up to `budget` packets; returns how many it did. */
u32 sim_queue_execute(struct sim_queue *q, u32 budget);

/* ------------------------------------------------------------------ kfd_event.c */

void sim_events_init(struct sim_process *p);
void sim_events_destroy(struct sim_process *p);
int sim_event_page_set(struct sim_process *p, u64 handle);
/* Type, flags and data are those of `like`; with restore_id the event gets that id. Returns the id. */
int sim_event_new(struct sim_process *p, const struct sim_event *like, const u32 *restore_id);
void sim_event_raise(struct sim_process *p, u32 id);	/* by a packet: its slot is cleared, waiters wake */
u32 sim_events_count(struct sim_process *p);

/* ------------------------------------------------------------------ others */

int sim_kfd_mmap(struct file *file, struct vm_area_struct *vma);
int sim_criu_dump(struct sim_process *p, struct kfd_ioctl_criu_args *a);
int sim_criu_restore(struct sim_process *p, struct kfd_ioctl_criu_args *a);
int sim_criu_restore_objects(struct sim_process *p, struct kfd_ioctl_criu_args *a, u64 *off);
int sim_criu_count(struct sim_process *p, u32 *bos, u32 *objects, u64 *priv_size);
void sim_resume_init(struct sim_process *p);

void sim_svm_init(struct sim_process *p);
void sim_svm_destroy(struct sim_process *p);
bool sim_svm_enabled(struct sim_process *p);
bool sim_svm_covers(struct sim_process *p, u64 start, u64 size);
bool sim_svm_overlaps(struct sim_process *p, u64 start, u64 size);
u64 sim_svm_record_size(struct sim_process *p);
int sim_svm_dump(struct sim_process *p, u8 __user *priv, u64 *off);
int sim_svm_restore(struct sim_process *p, const u8 __user *priv, u64 *off, u64 max);
int sim_svm_resume(struct sim_process *p);

/* Handlers. `data` is the kernel's copy of the argument, zero-extended to the kernel's size. */
#define SIM_IOCTL(name) int sim_ioctl_##name(struct sim_process *p, void *data, u32 size)
SIM_IOCTL(create_queue);
SIM_IOCTL(destroy_queue);
SIM_IOCTL(update_queue);
SIM_IOCTL(set_cu_mask);
SIM_IOCTL(get_queue_wave_state);
SIM_IOCTL(alloc_queue_gws);
SIM_IOCTL(create_event);
SIM_IOCTL(destroy_event);
SIM_IOCTL(set_event);
SIM_IOCTL(reset_event);
SIM_IOCTL(wait_events);
SIM_IOCTL(acquire_vm);
SIM_IOCTL(alloc_memory_of_gpu);
SIM_IOCTL(free_memory_of_gpu);
SIM_IOCTL(map_memory_to_gpu);
SIM_IOCTL(unmap_memory_from_gpu);
SIM_IOCTL(get_process_apertures);
SIM_IOCTL(get_process_apertures_new);
SIM_IOCTL(available_memory);
SIM_IOCTL(get_dmabuf_info);
SIM_IOCTL(import_dmabuf);
SIM_IOCTL(export_dmabuf);
SIM_IOCTL(get_version);
SIM_IOCTL(set_memory_policy);
SIM_IOCTL(get_clock_counters);
SIM_IOCTL(set_scratch_backing_va);
SIM_IOCTL(get_tile_config);
SIM_IOCTL(set_trap_handler);
SIM_IOCTL(set_xnack_mode);
SIM_IOCTL(runtime_enable);
SIM_IOCTL(dbg_trap);
SIM_IOCTL(smi_events);
SIM_IOCTL(svm);
SIM_IOCTL(criu_op);

#endif
