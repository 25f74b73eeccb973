// SPDX-License-Identifier: GPL-2.0
/*
 * Lets the queues of a process run: one delayed work per process, which goes round its runnable queues
 * while there are any. The write position is polled in memory and doorbells are ignored, as after a
 * restore the doorbell page is empty while the write pointers are there.
 */
#include "kfd.h"

#define BUDGET 512		/* packets per queue and round: ioctls wait for the round's end */
#define BUSY_ROUNDS 25		/* idle rounds before polling gets slower */
#define SLOW_MS 20

static void exec_round(struct work_struct *work)
{
	struct sim_process *p = container_of(to_delayed_work(work), struct sim_process, exec);
	u32 i, done = 0, runnable = 0;
	unsigned long delay = 1;
	struct sim_queue *q;

	/* Held over the round: eviction and teardown wait for the packet in progress, no longer. */
	mutex_lock(&p->lock);
	/* The real driver stops the queues when user memory moves, takes the new pages and goes on. */
	if (!p->blocked)
		sim_process_take_user_pages(p, true);
	for (i = 0; i < p->n_pdds; i++) {
		list_for_each_entry(q, &p->pdds[i].queues, list) {
			u32 n;

			if (!sim_queue_runnable(q))
				continue;
			n = sim_queue_execute(q, BUDGET);
			done += n;
			if (n == BUDGET)
				delay = 0;
			q->packets += n;
			atomic64_add(n, &q->pdd->gpu->cnt_packets);
			sim_queue_refresh(q);
			runnable += q->running;
		}
	}
	if (done)
		p->idle_rounds = 0;
	else if (p->idle_rounds < BUSY_ROUNDS)
		p->idle_rounds++;
	else
		delay = msecs_to_jiffies(SLOW_MS);
	if (runnable)
		queue_delayed_work(sim_kfd_wq, &p->exec, delay);
	mutex_unlock(&p->lock);
}

void sim_exec_init(struct sim_process *p)
{
	INIT_DELAYED_WORK(&p->exec, exec_round);
}

/* Called with the process lock held, by somebody who holds a reference. */
void sim_exec_kick(struct sim_process *p)
{
	p->idle_rounds = 0;
	mod_delayed_work(sim_kfd_wq, &p->exec, 0);
}
