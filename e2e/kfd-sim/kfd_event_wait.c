// SPDX-License-Identifier: GPL-2.0
/* WAIT_EVENTS. This is where the threads of a GPU runtime sit when they are frozen, so it restarts well. */
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include "kfd.h"
#include "kfd_event.h"

#define INFINITE_MS 0xffffffffu

static u32 wait_state(const struct sim_waiter *w, u32 n, bool all)
{
	u32 i, hit = 0;

	for (i = 0; i < n; i++) {
		if (!READ_ONCE(w[i].ev))
			return KFD_IOC_WAIT_RESULT_FAIL;
		if (READ_ONCE(w[i].activated)) {
			if (!all)
				return KFD_IOC_WAIT_RESULT_COMPLETE;
			hit++;
		}
	}
	return hit == n ? KFD_IOC_WAIT_RESULT_COMPLETE : KFD_IOC_WAIT_RESULT_TIMEOUT;
}

static int enlist(struct sim_process *p, struct sim_waiter *w, const struct kfd_event_data *d)
{
	struct sim_event *ev = d->event_id > INT_MAX ? NULL : idr_find(&p->events, d->event_id);
	u64 age = d->signal_event_data.last_event_age;

	if (!ev)
		return -EINVAL;
	w->ev = ev;
	w->activated = ev->signaled;
	ev->signaled = ev->signaled && !ev->auto_reset;
	if (ev->type == KFD_IOC_EVENT_SIGNAL && age) {
		w->wants_age = true;
		if (age != ev->age)
			w->activated = true;
	}
	w->sleeps = !w->activated;
	list_add_tail(&w->link, &ev->waiters);
	return 0;
}

/* What the waiter learns of each event that happened. */
static int report(const struct sim_waiter *w, u32 n, struct kfd_event_data __user *to)
{
	u32 i;

	for (i = 0; i < n; i++) {
		const struct sim_event *ev = w[i].ev;
		int bad = 0;

		if (!w[i].activated || !ev)
			continue;
		if (ev->type == KFD_IOC_EVENT_MEMORY)
			bad = copy_to_user(&to[i].memory_exception_data, &ev->memory, sizeof(ev->memory));
		else if (ev->type == KFD_IOC_EVENT_HW_EXCEPTION)
			bad = copy_to_user(&to[i].hw_exception_data, &ev->hw, sizeof(ev->hw));
		else if (w[i].wants_age)
			bad = copy_to_user(&to[i].signal_event_data.last_event_age, &ev->age, sizeof(ev->age));
		if (bad)
			return -EFAULT;
	}
	return 0;
}

/* An interrupted wait must not have eaten an event that resets itself. */
static void delist(struct sim_waiter *w, u32 n, bool undo)
{
	u32 i;

	for (i = 0; i < n; i++) {
		if (!w[i].ev)
			continue;
		list_del(&w[i].link);
		if (undo && w[i].activated && w[i].ev->auto_reset)
			w[i].ev->signaled = true;
	}
}

static int sleep_on(struct sim_process *p, const struct sim_waiter *w, u32 n, bool all, u32 *timeout_ms)
{
	long timeout = MAX_SCHEDULE_TIMEOUT, r;
	unsigned long end;

	if (*timeout_ms != INFINITE_MS)
		timeout = msecs_to_jiffies(min(*timeout_ms, (u32)INT_MAX)) + 1;
	end = jiffies + timeout;
	r = wait_event_interruptible_timeout(p->event_wq, wait_state(w, n, all) != KFD_IOC_WAIT_RESULT_TIMEOUT,
					     timeout);
	if (r >= 0)
		return 0;
	if (fatal_signal_pending(current))
		return -EINTR;
	/* The restarted call goes on with what is left. */
	if (*timeout_ms != INFINITE_MS)
		*timeout_ms = time_after(end, jiffies + 1) ? jiffies_to_msecs(end - jiffies - 1) : 0;
	return -ERESTARTSYS;
}

int sim_ioctl_wait_events(struct sim_process *p, void *data, u32 size)
{
	struct kfd_ioctl_wait_events_args *a = data;
	struct kfd_event_data __user *user = u64_to_user_ptr(a->events_ptr);
	bool all = a->wait_for_all;
	u32 i, n = a->num_events;
	struct sim_waiter *w;
	int r = 0;

	w = kcalloc(n, sizeof(*w), GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!w) {
		a->wait_result = KFD_IOC_WAIT_RESULT_FAIL;
		return -ENOMEM;
	}
	mutex_lock(&p->event_lock);
	for (i = 0; i < n && !r; i++) {
		struct kfd_event_data d;

		r = copy_from_user(&d, &user[i], sizeof(d)) ? -EFAULT : enlist(p, &w[i], &d);
	}
	if (r)
		goto out;
	a->wait_result = wait_state(w, n, all);
	if (a->wait_result == KFD_IOC_WAIT_RESULT_TIMEOUT && a->timeout) {
		mutex_unlock(&p->event_lock);
		r = sleep_on(p, w, n, all, &a->timeout);
		mutex_lock(&p->event_lock);
		a->wait_result = wait_state(w, n, all);
	}
	if (!r && a->wait_result == KFD_IOC_WAIT_RESULT_COMPLETE)
		r = report(w, n, user);
out:
	delist(w, n, r == -ERESTARTSYS);
	mutex_unlock(&p->event_lock);
	kfree(w);
	if (r)
		a->wait_result = KFD_IOC_WAIT_RESULT_FAIL;
	else if (a->wait_result == KFD_IOC_WAIT_RESULT_FAIL)
		r = -EIO;
	return r;
}
