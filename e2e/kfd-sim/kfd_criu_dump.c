// SPDX-License-Identifier: GPL-2.0
/* CRIU_OP CHECKPOINT: writes down what a paused process has. The process lock is held by the caller. */
#include <linux/dma-buf.h>
#include <linux/file.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include "kfd.h"
#include "kfd_criu.h"

#define FLAG(name) KFD_IOC_ALLOC_MEM_FLAGS_##name

static int put(u8 __user *priv, u64 *off, const void *from, u64 size)
{
	if (copy_to_user(priv + *off, from, size))
		return -EFAULT;
	*off += size;
	return 0;
}

static int dump_devices(struct sim_process *p, void __user *to, u8 __user *priv, u64 *off)
{
	struct kfd_criu_device_bucket b;
	const struct sim_criu_device rec = {};
	u32 i;
	int r = 0;

	for (i = 0; i < p->n_pdds && !r; i++) {
		memset(&b, 0, sizeof(b));
		b.user_gpu_id = p->pdds[i].user_gpu_id;
		b.actual_gpu_id = p->pdds[i].gpu->desc->gpu_id;
		if (copy_to_user(to + i * sizeof(b), &b, sizeof(b)))
			return -EFAULT;
		r = put(priv, off, &rec, sizeof(rec));
	}
	return r;
}

static void fill_mqd(const struct sim_queue *q, struct sim_mqd *m, u8 *stack)
{
	u32 i;

	m->magic = SIM_MQD_MAGIC;
	m->ring = q->ring;
	m->qid = q->qid;
	m->type = q->type;
	m->rptr = q->rptr;
	m->packets = q->packets;
	m->halted = q->halted;
	for (i = 0; i < sizeof(m->pattern); i++)
		m->pattern[i] = sim_mqd_pattern(m, i);
	for (i = 0; i < q->ctl_stack; i++)
		stack[i] = sim_ctl_stack_pattern(q->qid, i);
}

static int dump_queue(struct sim_queue *q, u8 __user *priv, u64 *off)
{
	u64 size = sizeof(struct sim_criu_queue) + SIM_MQD_BYTES + q->ctl_stack;
	struct sim_criu_queue *rec = kvzalloc(size, GFP_KERNEL);
	int r;

	if (!rec)
		return -ENOMEM;
	rec->object_type = SIM_CRIU_QUEUE;
	rec->q_address = q->ring;
	rec->q_size = q->ring_size;
	rec->read_ptr = q->rptr_va;
	rec->write_ptr = q->wptr_va;
	rec->doorbell_off = sim_doorbell_offset(q);
	rec->eop_addr = q->eop;
	rec->ctx_area = q->ctx;
	rec->gpu_id = q->pdd->user_gpu_id;
	rec->type = q->type;
	rec->format = q->format;
	rec->q_id = q->qid;
	rec->priority = q->priority;
	rec->percent = q->percent;
	rec->doorbell_id = q->doorbell_id;
	rec->gws = q->gws;
	rec->sdma_id = q->sdma_id;
	rec->eop_size = q->eop_size;
	rec->ctx_size = q->ctx_size;
	rec->ctl_stack_size = q->ctl_stack;
	rec->mqd_size = SIM_MQD_BYTES;
	fill_mqd(q, (void *)(rec + 1), (u8 *)(rec + 1) + SIM_MQD_BYTES);
	r = put(priv, off, rec, size);
	kvfree(rec);
	return r;
}

static int dump_event(const struct sim_event *ev, u64 handle, u8 __user *priv, u64 *off)
{
	struct sim_criu_event rec = {
		.object_type = SIM_CRIU_EVENT,
		.user_handle = handle,
		.event_id = ev->id,
		.auto_reset = ev->auto_reset,
		.type = ev->type,
		.signaled = ev->signaled,
	};

	if (ev->type == KFD_IOC_EVENT_MEMORY)
		rec.memory = ev->memory;
	else if (ev->type == KFD_IOC_EVENT_HW_EXCEPTION)
		rec.hw = ev->hw;
	return put(priv, off, &rec, sizeof(rec));
}

/*
 * Events are not under the process lock: threads that nobody has frozen may have made or destroyed some
 * since they were counted. Then the record no longer fits its place, and the dump fails.
 */
static int dump_events(struct sim_process *p, u8 __user *priv, u64 *off, u64 end)
{
	u64 handle = p->event_handle;
	struct sim_event *ev;
	int id, r = 0;

	mutex_lock(&p->event_lock);
	idr_for_each_entry(&p->events, ev, id) {
		r = *off < end ? dump_event(ev, handle, priv, off) : -EINVAL;
		if (r)
			break;
		handle = 0;	/* only the first record names the page */
	}
	mutex_unlock(&p->event_lock);
	return r ?: *off == end ? 0 : -EINVAL;
}

static int dump_objects(struct sim_process *p, u8 __user *priv, u64 *off, u64 end)
{
	struct sim_queue *q;
	u32 i;
	int r;

	for (i = 0; i < p->n_pdds; i++) {
		list_for_each_entry(q, &p->pdds[i].queues, list) {
			r = dump_queue(q, priv, off);
			if (r)
				return r;
		}
	}
	r = dump_events(p, priv, off, end - p->n_svm * sim_svm_record_size(p));
	return r ?: sim_svm_dump(p, priv, off);
}

/* A file for the object's dma-buf, with a number reserved in the caller's table but not yet visible there. */
int sim_criu_export(struct sim_mem *mem, u32 *fd, struct file **file)
{
	struct dma_buf *buf = sim_bo_export(mem->bo, mem->flags & FLAG(WRITABLE));
	int r;

	if (IS_ERR(buf))
		return PTR_ERR(buf);
	r = get_unused_fd_flags(0);	/* not close-on-exec */
	if (r < 0) {
		dma_buf_put(buf);
		return r;
	}
	*fd = r;
	*file = buf->file;
	return 0;
}

void sim_criu_commit(struct file **files, const struct kfd_criu_bo_bucket *b, u32 n, bool ok)
{
	while (n--) {
		if (!files[n])
			continue;
		if (ok) {
			fd_install(b[n].dmabuf_fd, files[n]);
		} else {
			put_unused_fd(b[n].dmabuf_fd);
			fput(files[n]);
		}
	}
}

static int dump_bo(struct sim_mem *mem, u32 nr, struct kfd_criu_bo_bucket *b, struct sim_criu_bo *rec,
		   struct file **file)
{
	struct sim_process *p = mem->pdd->proc;
	u32 i, n = 0, actual = mem->pdd->gpu->desc->gpu_id;
	int r;

	b->addr = mem->va;
	b->size = mem->bo->base.size;
	b->gpu_id = mem->pdd->user_gpu_id;
	b->alloc_flags = mem->flags;
	b->dmabuf_fd = KFD_INVALID_FD;
	rec->idr_handle = nr;
	if (mem->flags & FLAG(USERPTR))
		rec->user_addr = mem->user_addr;
	if (mem->flags & (FLAG(VRAM) | FLAG(GTT))) {
		r = sim_criu_export(mem, &b->dmabuf_fd, file);
		if (r)
			return r;
	}
	if (mem->flags & FLAG(DOORBELL)) {
		b->offset = SIM_MMAP_OFFSET(SIM_MMAP_DOORBELL, actual);
	} else if (mem->flags & FLAG(MMIO_REMAP)) {
		b->offset = SIM_MMAP_OFFSET(SIM_MMAP_MMIO, actual);
	} else {
		r = sim_bo_mmap_offset(mem->bo, &b->offset);
		if (r)
			return r;
	}
	for (i = 0; i < p->n_pdds; i++) {
		if (!p->pdds[i].vm) {
			sim_would_oops("CRIU_OP CHECKPOINT with a GPU that has no address space");
			return -EFAULT;
		}
		if (test_bit(i, mem->mapped))
			rec->mapped[n++] = p->pdds[i].user_gpu_id;
	}
	return 0;
}

static int dump_bos(struct sim_process *p, u32 n, u8 __user *to, u8 __user *priv, u64 *off)
{
	struct kfd_criu_bo_bucket *b = kvcalloc(n, sizeof(*b), GFP_KERNEL);
	struct sim_criu_bo *recs = kvcalloc(n, sizeof(*recs), GFP_KERNEL);
	struct file **files = kvcalloc(n, sizeof(*files), GFP_KERNEL);
	struct sim_mem *mem;
	u32 i, at = 0;
	int id, r = -ENOMEM;

	if (!b || !recs || !files)
		goto out;
	for (i = 0; i < p->n_pdds; i++) {
		idr_for_each_entry(&p->pdds[i].mems, mem, id) {
			if (!sim_mem_dumped(mem))
				continue;
			r = dump_bo(mem, id, &b[at], &recs[at], &files[at]);
			at++;
			if (r)
				goto commit;
		}
	}
	r = copy_to_user(to, b, n * sizeof(*b)) ? -EFAULT : put(priv, off, recs, n * sizeof(*recs));
commit:
	sim_criu_commit(files, b, at, !r);
out:
	kvfree(files);
	kvfree(recs);
	kvfree(b);
	return r;
}

int sim_criu_dump(struct sim_process *p, struct kfd_ioctl_criu_args *a)
{
	u8 __user *priv = u64_to_user_ptr(a->priv_data);
	const struct sim_criu_process head = { SIM_CRIU_VERSION, p->xnack };
	u64 off = 0, bo_off, size;
	u32 bos, objects;
	int r;

	if (!a->devices || !a->bos || !a->priv_data)
		return -EINVAL;
	if (!p->n_pdds)
		return -ENODEV;
	if (!p->paused)
		return -EINVAL;
	r = sim_criu_count(p, &bos, &objects, &size);
	if (r)
		return r;
	if (a->num_devices != p->n_pdds || a->num_bos != bos || a->num_objects != objects || a->priv_data_size != size)
		return -EINVAL;

	r = put(priv, &off, &head, sizeof(head));
	if (!r)
		r = dump_devices(p, u64_to_user_ptr(a->devices), priv, &off);
	bo_off = off;
	off += bos * sizeof(struct sim_criu_bo);
	if (!r)
		r = dump_objects(p, priv, &off, size);
	/* Last, as their file descriptors appear in the caller only when nothing can fail any more. */
	if (!r)
		r = dump_bos(p, bos, u64_to_user_ptr(a->bos), priv, &bo_off);
	return r;
}
