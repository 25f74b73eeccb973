// SPDX-License-Identifier: GPL-2.0
/* Queue objects: made by CREATE_QUEUE or by RESTORE, destroyed by the process or with it. */
#include <linux/slab.h>
#include "kfd.h"
#include "kfd_criu.h"

bool sim_queue_is_sdma(const struct sim_queue *q)
{
	return q->type == SIM_QUEUE_SDMA || q->type == SIM_QUEUE_XGMI;
}

bool sim_queue_runnable(const struct sim_queue *q)
{
	return q->ring && q->ring_size && q->percent && !q->halted && !q->pdd->evicted && !q->pdd->proc->evicted_bos;
}

void sim_queue_refresh(struct sim_queue *q)
{
	bool run = sim_queue_runnable(q);

	if (run == q->running)
		return;
	q->running = run;
	if (run)
		atomic64_inc(&q->pdd->gpu->cnt_queues_running);
	else
		atomic64_dec(&q->pdd->gpu->cnt_queues_running);
}

void sim_process_refresh_queues(struct sim_process *p)
{
	struct sim_queue *q;
	u32 i;

	for (i = 0; i < p->n_pdds; i++)
		list_for_each_entry(q, &p->pdds[i].queues, list)
			sim_queue_refresh(q);
}

struct sim_queue *sim_queue_find(struct sim_process *p, u32 qid)
{
	struct sim_queue *q;
	u32 i;

	for (i = 0; i < p->n_pdds; i++)
		list_for_each_entry(q, &p->pdds[i].queues, list)
			if (q->qid == qid)
				return q;
	return NULL;
}

static int take_qid(struct sim_process *p, struct sim_queue *q, const struct sim_criu_queue *rec)
{
	u32 id;

	if (rec) {
		id = rec->q_id;
		if (id >= SIM_MAX_QUEUES)
			return -EINVAL;
		if (test_bit(id, p->qids))
			return -ENOSPC;
	} else {
		id = find_first_zero_bit(p->qids, SIM_MAX_QUEUES);
		if (id >= SIM_MAX_QUEUES)
			return -ENOMEM;
	}
	set_bit(id, p->qids);
	q->qid = id;
	return 0;
}

/* The state of the engine comes back with the MQD; one that is not as CHECKPOINT wrote it is refused. */
static int load_mqd(struct sim_queue *q, const struct sim_criu_queue *rec, const void *data)
{
	const struct sim_mqd *m = data;
	const u8 *stack = data + sizeof(*m);
	u32 i;

	if (rec->mqd_size != SIM_MQD_BYTES || (sim_queue_is_sdma(q) && rec->ctl_stack_size))
		return -EINVAL;
	if (m->magic != SIM_MQD_MAGIC || m->ring != rec->q_address || m->qid != rec->q_id || m->type != rec->type)
		goto bad;
	for (i = 0; i < sizeof(m->pattern); i++)
		if (m->pattern[i] != sim_mqd_pattern(m, i))
			goto bad;
	for (i = 0; i < rec->ctl_stack_size; i++)
		if (stack[i] != sim_ctl_stack_pattern(rec->q_id, i))
			goto bad;
	q->rptr = m->rptr;
	q->packets = m->packets;
	q->halted = m->halted;
	return 0;
bad:
	atomic64_inc(&sim_cnt_warnings);
	pr_warn("kfd-sim: state of queue %u was damaged on its way\n", rec->q_id);
	return -EINVAL;
}

int sim_queue_create(struct sim_queue *q, const struct sim_criu_queue *rec, const void *mqd)
{
	struct sim_pdd *pdd = q->pdd;
	struct sim_process *p = pdd->proc;
	u32 engine = SIM_ANY_ENGINE;
	int r;

	if (!rec && q->sdma_id != SIM_ANY_ENGINE)	/* CREATE_QUEUE passes the wanted engine here */
		engine = q->sdma_id;
	q->sdma_id = 0;
	INIT_LIST_HEAD(&q->list);
	r = sim_qbuf_acquire(q);
	if (r)
		return r;
	r = take_qid(p, q, rec);
	if (r)
		goto err_buf;
	r = rec ? load_mqd(q, rec, mqd) : 0;
	if (!r)
		r = sim_qres_take(q, engine, rec);
	if (r)
		goto err_qid;
	list_add(&q->list, &pdd->queues);
	pdd->n_queues++;
	sim_proc_add_queue(q);
	sim_queue_refresh(q);
	sim_exec_kick(p);
	return 0;

err_qid:
	clear_bit(q->qid, p->qids);
err_buf:
	sim_qbuf_release(q);
	return r;
}

void sim_queue_destroy(struct sim_queue *q)
{
	if (q->running)
		atomic64_dec(&q->pdd->gpu->cnt_queues_running);
	sim_proc_remove_queue(q);
	list_del(&q->list);
	q->pdd->n_queues--;
	sim_qres_release(q);
	sim_qbuf_release(q);
	clear_bit(q->qid, q->pdd->proc->qids);
	kfree(q);
}
