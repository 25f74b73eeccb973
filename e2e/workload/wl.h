/* SPDX-License-Identifier: Apache-2.0 */
/*
 * workload: a process that uses AMD GPUs the way ROCm does, at ioctl level, and that can prove at any
 * time that everything it made is still there. What the files of this directory say to each other.
 */
#ifndef WL_H
#define WL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define WL_PAGE 4096ull
#define WL_MAX_GPUS 64
#define WL_MAX_SPECS 64
#define WL_MAX_FDS 512

static inline uint64_t page_up(uint64_t n)
{
	return (n + WL_PAGE - 1) & ~(WL_PAGE - 1);
}

/* ---- options.c */

enum bo_kind { BO_VRAM, BO_GTT, BO_USERPTR, BO_DOORBELL, BO_MMIO };

/* What --bo's OPTs say */
#define OPT_NOMAP	(1u << 0)	/* no CPU mapping: only the address range is reserved */
#define OPT_GPU_UNMAPPED (1u << 1)	/* never mapped to a GPU */
#define OPT_RO		(1u << 2)	/* allocated without WRITABLE */
#define OPT_PRIVATE_NONE (1u << 3)	/* CPU mapping MAP_PRIVATE, PROT_NONE */
#define OPT_TWICE	(1u << 4)	/* a second CPU mapping elsewhere */
#define OPT_SPLIT	(1u << 5)	/* first half of the CPU mapping read-only: two VMAs */
#define OPT_NO_VA	(1u << 6)	/* va 0 */
#define OPT_PEERS	(1u << 7)	/* mapped to every GPU in use */
#define OPT_ZERO	(1u << 8)	/* contents all zero */
#define OPT_LAST	(1u << 9)	/* all zero but for the last byte */
#define OPT_SHARED_NONE	(1u << 10)	/* CPU mapping MAP_SHARED, PROT_NONE (as thunks map EOP buffers) */
#define OPT_FORK	(1u << 11)	/* the CPU mapping is inherited over fork */

struct bo_spec {
	enum bo_kind kind;
	uint64_t size;
	unsigned int count;		/* per GPU */
	int gpu;			/* -1: every GPU in use */
	unsigned int opts;
};

/* --fds, several joined by commas */
#define FDS_RENDER_FIRST (1u << 0)
#define FDS_DENSE	(1u << 1)
#define FDS_FD0_CLOSED	(1u << 2)
#define FDS_FD0_KFD	(1u << 3)
#define FDS_FD0_RENDER	(1u << 4)
#define FDS_TWO_KFD	(1u << 5)
#define FDS_TWO_RENDER	(1u << 6)
#define FDS_KFD_HIGH	(1u << 7)
#define FDS_NO_RENDER_MAP (1u << 8)
#define FDS_DUP		(1u << 9)

enum child_mode { CHILD_NONE, CHILD_PLAIN, CHILD_GPU, CHILD_INHERIT, CHILD_CLOSED };
enum foreign_kind { FOREIGN_CHARDEV, FOREIGN_TCP, FOREIGN_LOCK };

struct bo_list {
	struct bo_spec specs[WL_MAX_SPECS];
	unsigned int n;
};

struct options {
	const char *sabotage;		/* --break; NULL: nothing */
	const char *state;		/* NULL: no state file */
	uint64_t seed;
	int gpus;			/* how many to allocate on; -1: all */
	int acquire;			/* how many to ACQUIRE_VM; -1: all */
	struct bo_list bos;
	struct bo_list child_bos;	/* of the GPU child; none: the same as its parent's */
	unsigned int q_compute, q_aql, q_sdma;	/* per GPU */
	unsigned int events, threads;
	unsigned int fds;
	bool flags;
	unsigned int gem;
	bool dmabuf, smi, svm, xnack, foreign;
	int foreign_fd;			/* -1: none */
	enum foreign_kind foreign_kind;
	enum child_mode child;
	bool bare, heartbeat, background;
	unsigned int exit_after, interval_ms, tick_ms, queue_timeout_s;
};

int options_parse(int argc, char **argv, struct options *o);

/* ---- one GPU as the topology showed it at the start (topology.c), and what is open on it (gpu.c) */

struct bo;

struct gpu {
	unsigned int index;
	uint32_t gpu_id;		/* what every ioctl wants, also after a restore on another GPU */
	uint32_t minor;
	uint32_t gfx, simd_count, simd_per_cu, array_count, simd_arrays_per_engine, num_xcc, lds_kb;
	uint32_t cwsr_size, ctl_stack_size;	/* 0 when the kernel does not say */
	uint32_t num_sdma, num_sdma_xgmi;
	int fd;				/* the render file whose VM is the process's */
	bool acquired, used;
	struct bo *mmio, *doorbell, *heartbeat;
	uint64_t beat;			/* generation that the heartbeat BO's contents follow */
};

struct wl {
	struct options o;
	int kfd;
	uint32_t kfd_major, kfd_minor;
	struct gpu gpus[WL_MAX_GPUS];
	unsigned int ngpus, nused;
	struct bo **bos;		/* every BO of the process, data and helpers */
	size_t nbos, cap_bos;
	unsigned int data_index;	/* next index for the patterns */
	struct queue *queues;
	size_t nqueues;
	struct events *ev;
	struct fd_snapshot *fds;
	struct map_snapshot *maps;
	struct task_snapshot *tasks;
	struct findings *found;
	pid_t child;
	int dmabuf_fd;			/* the process's own copies of --dmabuf, --smi ... stay open: numbers not kept */
	void *svm;			/* --svm, else NULL */
	uint64_t iterations, started_ns, last_state_ns;
	unsigned int proofs;
	bool verifying;
	const char *phase;
	char last_error[256];
};

int topology_read(struct wl *w);
/* The id that the node with this render minor has now; 0 if none. */
uint32_t topology_gpu_id_of_minor(uint32_t minor);

int gpu_open_all(struct wl *w);
int gpu_setup(struct wl *w);		/* XNACK, VMs, MMIO, doorbells, heartbeats */
void xnack_proof(struct wl *w);
/* EXPORT_DMABUF came with interface 1.12. */
#define KFD_MINOR_EXPORT 12
/* True when this GPU has, now, the id that the process knows it by. */
bool gpu_same_id(struct wl *w, const struct gpu *g);
int gpu_minor_of_fd(int fd);
void heartbeat_check_and_advance(struct wl *w, struct gpu *g);

/* layout.c: numbers of the GPU fds */
int layout_before(struct wl *w);	/* close fd 0, first fillers */
int layout_place(struct wl *w, int fd, bool is_kfd, unsigned int nth);
int layout_after(struct wl *w);		/* second opens, dups, fillers, flags */

/* ---- kfd.c: one function per ioctl; 0 or -errno */

int kfd_ioctl(struct wl *w, unsigned long request, void *arg);
int drm_ioctl(int fd, unsigned long request, void *arg);
int kfd_get_version(struct wl *w);
int kfd_acquire_vm(struct wl *w, uint32_t gpu_id, int fd);
int kfd_set_memory_policy(struct wl *w, uint32_t gpu_id);
int kfd_alloc(struct wl *w, uint32_t gpu_id, uint64_t va, uint64_t size, uint32_t flags,
	      uint64_t *handle, uint64_t *mmap_offset);
int kfd_free(struct wl *w, uint64_t handle);
int kfd_map(struct wl *w, uint64_t handle, uint32_t *ids, unsigned int n);
int kfd_unmap(struct wl *w, uint64_t handle, uint32_t *ids, unsigned int n);
int kfd_export_dmabuf(struct wl *w, uint64_t handle, int *fd);
int kfd_smi(struct wl *w, uint32_t gpu_id, int *fd);
/* 0 or 1 turns XNACK off or on, -1 asks; *mode is what holds after it. */
int kfd_xnack(struct wl *w, int *mode);
/* Number of GPUs that the kernel lists for this process, ids into `ids` (ACTUAL ids). */
int kfd_apertures(struct wl *w, uint32_t *ids, unsigned int max);

/* ---- pattern.c: contents of BO `index` under `seed` */

enum content { CONTENT_RANDOM, CONTENT_ZERO, CONTENT_LAST_BYTE };

void pattern_fill(uint64_t seed, unsigned int index, enum content c, uint64_t bo_size,
		  uint64_t off, void *dst, uint64_t len);
/* Offset of the first wrong byte counted from the BO's start, or UINT64_MAX. `off` and `len`: multiples of 8. */
uint64_t pattern_check(uint64_t seed, unsigned int index, enum content c, uint64_t bo_size,
		       uint64_t off, const void *src, uint64_t len);

/* ---- bo.c */

enum bo_role { ROLE_DATA, ROLE_EVENT_PAGE, ROLE_DOORBELL, ROLE_MMIO, ROLE_HEARTBEAT,
	       ROLE_RING, ROLE_POINTERS, ROLE_EOP, ROLE_CWSR, ROLE_TEMP };

struct bo {
	unsigned int index;		/* of the pattern, data BOs only */
	enum bo_role role;
	enum bo_kind kind;
	struct gpu *gpu;
	unsigned int opts;
	uint32_t flags;
	uint64_t size, va, handle, mmap_offset;
	char *cpu, *cpu2;		/* NULL: the CPU cannot read it there */
	char *range;			/* what to munmap, reservation or mapping */
	enum content content;
	uint32_t ids[WL_MAX_GPUS];	/* where it is mapped */
	unsigned int nids;
};

struct bo *bo_new(struct wl *w, struct gpu *g, enum bo_kind kind, uint64_t size, unsigned int opts,
		  enum bo_role role, uint32_t extra_flags);
/* Unmap, free, forget. 0, or the first errno. The caller takes it out of w->bos. */
int bo_release(struct wl *w, struct bo *b);
int bo_release_listed(struct wl *w, struct bo *b);	/* a BO near the end of w->bos */
int bo_setup_data(struct wl *w);	/* allocate and fill what --bo asks for */
const char *bo_name(const struct bo *b);	/* for messages; static buffer */
bool bo_on_gpu(const struct bo *b, const struct gpu *g);

/* ---- sdma.c: copies by a DRM command submission */

struct copier;
struct copy_target {
	uint32_t gem;			/* handle in the copier's file, 0 in the process's own VM */
	uint64_t va, size;
};

/* own: through the process's own VM (reads what the GPU mapping shows); else a private render file. */
struct copier *copier_open(struct wl *w, struct gpu *g, bool own);
void copier_close(struct copier *c);
uint64_t copier_stage_size(const struct copier *c);
void *copier_stage(struct copier *c);
int copier_attach(struct copier *c, struct wl *w, const struct bo *b, struct copy_target *t);
void copier_detach(struct copier *c, struct copy_target *t);
int copier_copy(struct copier *c, const struct copy_target *t, uint64_t off, uint64_t len, bool to_bo);
const char *copier_error(void);

/* ---- queue.c, cwsr.c */

enum queue_kind { QUEUE_COMPUTE, QUEUE_AQL, QUEUE_SDMA };

struct queue {
	struct gpu *gpu;
	enum queue_kind kind;
	uint32_t id;
	uint64_t doorbell_offset;
	struct bo *ring, *pointers, *eop, *cwsr;
	volatile uint64_t *rptr, *wptr, *doorbell;
	uint64_t submitted;		/* packets */
	unsigned int percent, priority;
};

struct cwsr_need {
	uint64_t ctx, ctl, bo;		/* bytes: save area, control stack, whole BO */
	uint64_t debug;			/* bytes per XCC */
};

void cwsr_need(const struct gpu *g, struct cwsr_need *n);
void cwsr_write_headers(const struct gpu *g, const struct cwsr_need *n, char *area);
int queue_setup(struct wl *w);
int queue_make(struct wl *w, struct gpu *g, enum queue_kind kind, unsigned int nth, struct queue *q);
int queue_destroy(struct wl *w, struct queue *q);	/* the queue, then its BOs */
int queue_update(struct wl *w, struct queue *q, unsigned int percent);
unsigned int queue_submit(struct queue *q, unsigned int n);	/* returns how many fitted */
uint64_t queue_done(const struct queue *q);		/* packets, by the read pointer */
const char *queue_name(const struct queue *q);
void queue_totals(struct wl *w, uint64_t *submitted, uint64_t *done);
bool queue_wait(struct wl *w, struct queue *q, uint64_t packets);	/* until done >= packets */

/* ---- event.c */

struct event {
	uint32_t id, slot, type;
	bool auto_reset, signaled;	/* as it is left at rest */
	bool thread;			/* a thread waits for it */
};

struct events {
	struct bo *page;
	struct event *e;
	unsigned int n, nthread;
};

int event_setup(struct wl *w);
int event_set(struct wl *w, uint32_t id);
int event_reset(struct wl *w, uint32_t id);
/* KFD_IOC_WAIT_RESULT_* or -errno */
int event_wait(struct wl *w, uint32_t id, uint32_t timeout_ms);
void event_proof(struct wl *w);
int event_teardown(struct wl *w);

/* ---- threads.c */

int threads_start(struct wl *w);
void threads_poke(struct wl *w);	/* set one thread's event, in turn */
void threads_proof(struct wl *w);
void threads_stop(struct wl *w);
void tasks_take(struct wl *w);
void tasks_proof(struct wl *w);

/* ---- fdtable.c, maps.c: the state at `ready`, and the comparison with it */

int fds_take(struct wl *w);
void fds_proof(struct wl *w);
int maps_take(struct wl *w);
void maps_proof(struct wl *w, const char *when);

/* ---- svm.c */

int svm_open(struct wl *w);		/* --svm */
void svm_proof(struct wl *w);

/* ---- extras.c, child.c */

int extras_open(struct wl *w);		/* --gem --dmabuf --smi --foreign --foreign-fd */
int child_early(struct wl *w);		/* plain, gpu, closed; in the gpu child it returns with w changed */
int child_late(struct wl *w);		/* inherit; waits for a gpu child to be ready */
void child_signal_proof(struct wl *w);
void child_proof(struct wl *w);
int child_stop(struct wl *w);

/* ---- background.c, verify.c, verify_gpu.c */

void background_step(struct wl *w);
void verify_all(struct wl *w);		/* the full proof */
void verify_bo_cpu(struct wl *w);
void verify_bo_gpu(struct wl *w);
void verify_handles(struct wl *w);
void verify_new_allocations(struct wl *w);
void verify_queues(struct wl *w);
int teardown(struct wl *w);

/* ---- sabotage.c */

int sabotage(struct wl *w);

/* ---- report.c */

void fail(struct wl *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void info(struct wl *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void findings_clear(struct wl *w);
unsigned int findings_failed(struct wl *w);
void findings_write(struct wl *w, const char *suffix);
/* Sets last_error and returns -1: for `return oops(...)` in the setup. */
int oops(struct wl *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void state_write(struct wl *w);
void state_tick(struct wl *w);		/* when the interval is over; called from long loops as well */
uint64_t now_ns(void);
void nap_ms(unsigned int ms);

#endif
