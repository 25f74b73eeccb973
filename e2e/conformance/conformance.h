/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conformance test of /dev/kfd, amdgpu render nodes and the KFD topology tree.
 *
 * Every case runs in a forked child, because a KFD process object belongs to an address space: only a new
 * process has a new one. Results go through one shared page, so that helpers forked by a case report too.
 */
#ifndef CONFORMANCE_H
#define CONFORMANCE_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#include <drm/amdgpu_drm.h>
#include <linux/kfd_ioctl.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

#define PAGE 4096ul
#define MAX_GPUS 64
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define PTR(p) ((u64)(uintptr_t)(p))
#define ROUND_UP(x, a) (((x) + (a) - 1) / (a) * (a))

/* The kernel's own errno for "not supported", never translated for user space. */
#define K_ENOTSUPP 524

/* ---- runner (main.c) ---- */
struct test {
	const char *name;
	int gpus;		/* least number of GPUs */
	void (*fn)(void);
};

/* One table per file, ended by a NULL name. */
extern const struct test tests_dispatch[], tests_memory[], tests_mmap[], tests_events[], tests_wait[],
	tests_queues[], tests_qcheck[], tests_misc[], tests_life[], tests_dump[], tests_dump_data[], tests_restore[],
	tests_restore_err[], tests_remap[], tests_gem[], tests_prime[], tests_va[], tests_cs[], tests_drm_rules[],
	tests_topology[], tests_cgroup[], tests_faults[];

void report(const char *file, int line, bool fatal, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
void info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void skip(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
const char *rcname(long rc, char buf[32]);
void check_rc(const char *file, int line, bool fatal, const char *what, long got, long want);
void check_eq(const char *file, int line, const char *what, u64 got, u64 want);

/* Calls give 0 (or a result) or a negative errno. EXPECT goes on after a failure, NEED ends the case. */
#define EXPECT(cond, ...) do { if (!(cond)) report(__FILE__, __LINE__, false, __VA_ARGS__); } while (0)
#define NEED(cond, ...) do { if (!(cond)) report(__FILE__, __LINE__, true, __VA_ARGS__); } while (0)
#define EXPECT_RC(call, want) check_rc(__FILE__, __LINE__, false, #call, (call), (want))
#define NEED_OK(call) check_rc(__FILE__, __LINE__, true, #call, (call), 0)
#define EXPECT_EQ(got, want) check_eq(__FILE__, __LINE__, #got, (u64)(got), (u64)(want))

/* ---- system (sys.c) ---- */
struct gpu {
	int node;		/* topology node number */
	u32 id;			/* actual gpu_id */
	int minor;		/* render minor */
};
extern struct gpu gpus[MAX_GPUS];
extern int ngpus, nnodes;

#define TOPO "/sys/class/kfd/kfd/topology"
void sys_scan(void);
void sys_clean(void);		/* removes cgroups that ended cases left */
u64 node_prop(int node, const char *name, u64 missing);
u64 gpu_prop(int g, const char *name);
bool file_u64(const char *path, const char *name, u64 *val);	/* NULL name: the whole file is the number */
int read_text(const char *path, char *buf, size_t size);	/* bytes, or -errno */
bool vma_flags(const void *addr, char *flags, size_t size);	/* VmFlags of the mapping at addr */
bool has_flag(const char *flags, const char *two);
int fd_path(pid_t pid, int fd, char *buf, size_t size);
u64 now_ms(void);
void sleep_ms(unsigned int ms);
long sys_rc(long ret);		/* -errno for -1 */
long call_ioctl(int fd, unsigned long req, void *arg);
void *map_fd(int fd, size_t len, int prot, u64 off, long *err);	/* shared; NULL and *err on failure */
void *reserve(size_t len);	/* PROT_NONE address range for a BO, 2 MiB aligned */
void reserve_elsewhere(void);	/* from now on far from the ranges given out before */
void *anon(size_t len);
long drop_caps(u64 keep);	/* effective and permitted set := keep */
/* Sum over GPUs of a simulator's debugfs counter whose name contains part; false without debugfs. */
bool counter(const char *part, u64 *val);
bool fault_set(const char *text);

/* ---- KFD (kfd.c) ---- */
struct bo {
	u64 handle, va, size, off;
	int g;
	u32 flags;
	void *cpu;		/* NULL when not mapped */
};
struct app {
	int kfd;
	int drm[MAX_GPUS];
};
#define F_VRAM (KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE | KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC | \
		KFD_IOC_ALLOC_MEM_FLAGS_NO_SUBSTITUTE)
#define F_GTT (KFD_IOC_ALLOC_MEM_FLAGS_GTT | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE | KFD_IOC_ALLOC_MEM_FLAGS_COHERENT | \
	       KFD_IOC_ALLOC_MEM_FLAGS_NO_SUBSTITUTE | KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE)
#define F_USERPTR (KFD_IOC_ALLOC_MEM_FLAGS_USERPTR | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE | \
		   KFD_IOC_ALLOC_MEM_FLAGS_COHERENT | KFD_IOC_ALLOC_MEM_FLAGS_NO_SUBSTITUTE)
#define F_DOORBELL (KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE | \
		    KFD_IOC_ALLOC_MEM_FLAGS_COHERENT)
#define F_MMIO (KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE | \
		KFD_IOC_ALLOC_MEM_FLAGS_COHERENT)
#define KFD_TYPE(off) ((off) >> 62)
#define KFD_OFF(type, id) (((u64)(type) << 62) | ((u64)(id) << 46))

int kfd_open(void);
u32 kfd_minor(void);				/* of the interface version 1.x, asked for in a child */
int render_open(int g);
long kfd_acquire(int kfd, int drm, u32 gpu_id);
void app_start(struct app *a);			/* kfd and every GPU's VM */
size_t doorbell_slice(int g);
bool small_bar(int g);				/* the CPU does not reach all of its VRAM */
long kfd_alloc(int kfd, struct bo *b, u32 gpu_id);	/* uses va, size, flags, off; sets handle, off */
long kfd_free(int kfd, u64 handle);
long kfd_map(int kfd, u64 handle, const u32 *ids, u32 n, u32 *done);
long kfd_unmap(int kfd, u64 handle, const u32 *ids, u32 n, u32 *done);
struct bo bo_new(struct app *a, int g, size_t size, u32 flags);	/* allocated, mapped on GPU g and, if it can be, CPU */
void bo_del(struct app *a, struct bo *b);
u64 kfd_avail(int kfd, int g);
u64 kfd_avail_settled(int kfd, int g);		/* after dead processes' memory has come back */
long kfd_event(int kfd, u32 type, bool auto_reset, u64 page_handle, struct kfd_ioctl_create_event_args *out);
long kfd_event_op(int kfd, unsigned long req, u32 id);	/* SET, RESET, DESTROY */
long kfd_wait(int kfd, struct kfd_event_data *ev, u32 n, bool all, u32 ms, u32 *result);
long kfd_poll_event(int kfd, u32 id, u32 *result);

/* ---- queues (queue.c) ---- */
struct queue {
	struct kfd_ioctl_create_queue_args args;
	struct bo ring, rptr, wptr, eop, cwsr;
	u32 type;
	u64 pos;		/* write position, in the queue type's unit */
	volatile void *doorbell;
	size_t slice;
};
/* Allocates buffers that satisfy every check and fills args; does not create. */
void queue_buffers(struct app *a, int g, u32 type, struct queue *q);
long queue_create(struct app *a, struct queue *q);
void queue_new(struct app *a, int g, u32 type, struct queue *q);
long queue_destroy(struct app *a, u32 id);
void queue_del(struct app *a, struct queue *q);
size_t cwsr_bo_size(int g);
bool queue_is_sdma(const struct queue *q);
/* Appends n no-operation packets; queue_wait tells whether the read pointer got there within ms. */
void queue_push(struct queue *q, unsigned int n);
bool queue_wait(struct queue *q, unsigned int ms);
bool queue_quiet(struct queue *q, unsigned int ms);	/* the read pointer stays put for ms */

/* ---- peers (peer.c) ---- */
/* A second process of the case that runs functions on request; arguments live in shared memory. */
struct peer {
	pid_t pid;
	int sock;
};
typedef long (*peer_fn)(void *arg);
void *shared(size_t size);
void peer_start(struct peer *p);
long peer_call(struct peer *p, peer_fn fn, void *arg);
void peer_send(struct peer *p, peer_fn fn, void *arg);	/* answer comes with peer_wait */
long peer_wait(struct peer *p);
void peer_kill(struct peer *p);
void peer_stop_trace(struct peer *p);
void peer_trace(struct peer *p);			/* PTRACE_SEIZE, then stop and go on: the peer keeps running */
int peer_fd(struct peer *p, int fd);			/* pidfd_getfd */
pid_t fork_child(void);
int child_status(pid_t pid);

/* ---- CRIU (criu.c) ---- */
#define MAX_BOS 128
struct image {
	u32 ndev, nbo, nobj, pid;
	u64 priv_size;
	struct kfd_criu_device_bucket dev[MAX_GPUS];
	struct kfd_criu_bo_bucket bo[MAX_BOS];
	u8 priv[1 << 20];
};
struct criu_object {
	u32 type;
	u8 *rec;
	size_t size;
};
long criu_op(int kfd, u32 op, struct kfd_ioctl_criu_args *args);
long criu_info(int kfd, struct kfd_ioctl_criu_args *args);
long criu_unpause(int kfd);
long criu_resume(int kfd, pid_t pid);
void criu_args(struct image *im, struct kfd_ioctl_criu_args *args);	/* arguments of CHECKPOINT and RESTORE */
void criu_dump(int kfd, struct image *im);		/* PROCESS_INFO and CHECKPOINT, fds closed */
void criu_close_fds(struct image *im);
int criu_objects(struct image *im, struct criu_object *out, int max);	/* count, or -1 when the data do not add up */
u8 *criu_bo_priv(struct image *im, u32 i);
struct criu_object *criu_find(struct criu_object *o, int n, u32 type, int nth);
static inline u32 rd32(const void *p, size_t off) { u32 v; memcpy(&v, (const u8 *)p + off, 4); return v; }
static inline u64 rd64(const void *p, size_t off) { u64 v; memcpy(&v, (const u8 *)p + off, 8); return v; }
static inline void wr32(void *p, size_t off, u32 v) { memcpy((u8 *)p + off, &v, 4); }
static inline void wr64(void *p, size_t off, u64 v) { memcpy((u8 *)p + off, &v, 8); }

/* What a dumped process holds; lies in shared memory, filled by the peer. */
struct world {
	struct app app;
	struct bo vram[MAX_GPUS], gtt, userptr, doorbell, mmio, page;
	struct queue sdma, aql;
	struct kfd_ioctl_create_event_args ev[4];
	struct image im;
	u64 arg;		/* scratch argument of peer functions */
	void (*tweak)(struct world *w, struct kfd_ioctl_criu_args *a);	/* last change before RESTORE */
	u64 ret;
	bool with_queues, with_events, with_special;
	u64 sdma_pos, aql_pos;	/* the queues' positions that belong to data */
	u32 data_off[MAX_BOS];	/* saved contents of each BO in data, or NO_DATA */
	u8 data[8 << 20];
};
#define NO_DATA 0xffffffffu
long world_build(void *w);
void world_dump(struct world *w, struct peer *p, int kfd);	/* criu_dump, and contents read from the peer */
int world_gpu(const struct world *w, u32 user_id);		/* index of the GPU behind a user id after RESTORE */
long world_push_wait(void *w);		/* both queues run packets within a while: 0, else -ETIME */
/* Restores w->im in the calling process into w2-like state; drm files in w->app. Returns RESTORE's answer. */
long world_restore(void *w);
/* Starts a peer with a built world, traces it, and returns its kfd descriptor in this process. */
struct world *world_start(struct peer *p, bool queues, bool events, bool special, int *kfd);
struct world *world_copy(const struct world *w);
void wait_owner_gone(pid_t pid);

/* ---- DRM (drm.c) ---- */
long gem_create(int fd, u64 size, u64 domains, u64 flags, u32 *handle);
long gem_close(int fd, u32 handle);
long gem_mmap_off(int fd, u32 handle, u64 *off);
long gem_userptr(int fd, void *addr, u64 size, u32 flags, u32 *handle);
long gem_va(int fd, u32 handle, u32 op, u32 flags, u64 va, u64 off, u64 size);
long prime_fd(int fd, u32 handle, u32 flags, int *out);
long prime_handle(int fd, int dmabuf, u32 *handle);
long drm_query(int fd, u32 query, void *out, u32 size);
long drm_ctx(int fd, u32 *ctx);
struct mem {
	u32 handle;
	u64 va, size;
	u8 *cpu;
};
struct mem mem_new(int fd, u64 domains, u64 size, u64 va);	/* created, CPU mapped, GPU mapped R|W */
void mem_del(int fd, struct mem *m);
u32 gpu_family(int fd);
struct sdma {
	int fd;
	u32 ctx, family;
	struct mem ib;
	u32 ndw;
};
enum bo_form { USE_BO_HANDLES, USE_BO_LIST };
#define VA_BASE 0x400000000ull
void sdma_open(struct sdma *s, int fd);
void sdma_copy_raw(struct sdma *s, u64 dst, u64 src, u32 count_field);
void sdma_copy(struct sdma *s, u64 dst, u64 src, u32 bytes);
long sdma_submit(struct sdma *s, enum bo_form form, const u32 *handles, u32 n, u64 *seq);
long cs_wait(int fd, u32 ctx, u64 seq, u64 timeout_abs, u64 *status);
u64 abs_ns(u64 rel_ns);
long sdma_run(struct sdma *s, enum bo_form form, const u32 *handles, u32 n);	/* submit and wait 10 s */

#endif
