/* SPDX-License-Identifier: GPL-2.0 */
/* Layout of the private data of a dump (version 1): what CHECKPOINT writes and RESTORE reads. */
#ifndef KFD_SIM_KFD_CRIU_H
#define KFD_SIM_KFD_CRIU_H

#include <linux/build_bug.h>
#include "kfd.h"

#define SIM_CRIU_VERSION 1

enum { SIM_CRIU_QUEUE, SIM_CRIU_EVENT, SIM_CRIU_SVM };

struct sim_criu_process {
	u32 version, xnack;
};

struct sim_criu_device {
	u64 reserved;
};

struct sim_criu_bo {
	u64 user_addr;
	u32 idr_handle;
	u32 mapped[64];		/* USER gpu ids, ended by 0 */
	u32 pad;
};

struct sim_criu_queue {
	u32 object_type, pad0;
	u64 q_address, q_size, read_ptr, write_ptr, doorbell_off, eop_addr, ctx_area;
	u32 gpu_id, type, format, q_id, priority, percent, doorbell_id, gws, sdma_id;
	u32 eop_size, ctx_size, ctl_stack_size, mqd_size, pad1;
};

struct sim_criu_event {
	u32 object_type, pad0;
	u64 user_handle;	/* of the event page's BO, in the first record only */
	u32 event_id, auto_reset, type, signaled;
	union {
		struct kfd_hsa_memory_exception_data memory;
		struct kfd_hsa_hw_exception_data hw;
	};
};

struct sim_criu_svm {
	u32 object_type, pad0;
	u64 start_page, npages;
	struct { u32 type, value; } attrs[];
};

static_assert(sizeof(struct sim_criu_process) == 8);
static_assert(sizeof(struct sim_criu_device) == 8);
static_assert(sizeof(struct sim_criu_bo) == 272);
static_assert(sizeof(struct sim_criu_queue) == 120);
static_assert(sizeof(struct sim_criu_event) == 64);
static_assert(sizeof(struct sim_criu_svm) == 24);

/*
 * The memory queue descriptor of a simulated engine. The last part is a pattern made from the first:
 * a copy that lost or moved a byte on the way through an image is refused by RESTORE.
 */
#define SIM_MQD_BYTES 512
#define SIM_MQD_MAGIC 0x31514d4d49534651ull

struct sim_mqd {
	u64 magic;
	u64 ring;
	u32 qid, type;
	u64 rptr;
	u64 packets;
	u64 halted;
	u8 pattern[SIM_MQD_BYTES - 48];
};
static_assert(sizeof(struct sim_mqd) == SIM_MQD_BYTES);

/* Both in kfd_criu_dump.c; a file is NULL for an object without a dma-buf. */
int sim_criu_export(struct sim_mem *mem, u32 *fd, struct file **file);
void sim_criu_commit(struct file **files, const struct kfd_criu_bo_bucket *b, u32 n, bool ok);

/* The next `size` bytes of the private data; -EINVAL when there are not so many. kfd_criu_objects.c */
int sim_criu_get(const struct kfd_ioctl_criu_args *a, u64 *off, void *to, u64 size);

static inline u8 sim_mqd_pattern(const struct sim_mqd *m, u32 i)
{
	return (u8)(0x51 + m->qid * 29 + i * 7 + (m->rptr >> 2));
}

static inline u8 sim_ctl_stack_pattern(u32 qid, u32 i)
{
	return (u8)(0xc3 ^ (qid * 13 + i + (i >> 8)));
}

#endif
