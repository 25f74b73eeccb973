// SPDX-License-Identifier: GPL-2.0
/* Events: made, set, reset and destroyed. Signal events have a slot in a page that user space and GPU share. */
#include <linux/slab.h>
#include "kfd.h"
#include "kfd_event.h"

void sim_events_init(struct sim_process *p)
{
	mutex_init(&p->event_lock);
	idr_init(&p->events);
	init_waitqueue_head(&p->event_wq);
}

void sim_events_destroy(struct sim_process *p)
{
	struct sim_event *ev;
	int id;

	idr_for_each_entry(&p->events, ev, id)
		kfree(ev);
	idr_destroy(&p->events);
	if (p->event_page)
		__free_pages(p->event_page, SIM_EVENT_PAGE_ORDER);
	sim_bo_put(p->event_bo);
}

u32 sim_events_count(struct sim_process *p)
{
	struct sim_event *ev;
	u32 n = 0;
	int id;

	mutex_lock(&p->event_lock);
	idr_for_each_entry(&p->events, ev, id)
		n++;
	mutex_unlock(&p->event_lock);
	return n;
}

static bool is_signal(u32 type)
{
	return type == KFD_IOC_EVENT_SIGNAL || type == KFD_IOC_EVENT_DEBUG_EVENT;
}

static void clear_slot(struct sim_process *p, u32 id)
{
	const u64 unset = SIM_EVENT_UNSET;

	if (id >= KFD_SIGNAL_EVENT_LIMIT)
		return;
	if (p->event_bo)
		sim_bo_write(p->event_bo, id * sizeof(unset), &unset, sizeof(unset));
	else if (p->event_page)
		((u64 *)page_address(p->event_page))[id] = unset;
}

/* The page comes from the first CREATE_EVENT or the first event of a dump; a second one is refused. */
int sim_event_page_set(struct sim_process *p, u64 handle)
{
	struct sim_pdd *pdd = sim_pdd_by_user_id(p, SIM_HANDLE_GPU(handle));
	struct sim_mem *mem = pdd ? sim_mem_find(pdd, SIM_HANDLE_NR(handle)) : NULL;
	u64 unset[64];
	u32 off;
	int r = 0;

	if (!mem || mem->bo->userptr || !(mem->bo->domain & SIM_DOMAIN_GTT) || mem->bo->base.size < SIM_EVENT_PAGE_BYTES)
		return -EINVAL;
	memset(unset, 0xff, sizeof(unset));
	mutex_lock(&p->event_lock);
	if (p->event_bo || p->event_page) {
		r = -EINVAL;
		goto out;
	}
	for (off = 0; !r && off < SIM_EVENT_PAGE_BYTES; off += sizeof(unset))
		r = sim_bo_write(mem->bo, off, unset, sizeof(unset));
	if (r)
		goto out;
	p->event_bo = sim_bo_get(mem->bo);
	p->event_handle = handle;
	WRITE_ONCE(p->event_mapped, mem->bo->base.size);
out:
	mutex_unlock(&p->event_lock);
	return r;
}

/* Without a page from user space the kernel makes one; until it is mapped only its first 256 slots serve. */
static int own_page(struct sim_process *p)
{
	struct page *page;

	if (p->event_bo || p->event_page)
		return 0;
	page = alloc_pages(GFP_KERNEL | __GFP_ZERO, SIM_EVENT_PAGE_ORDER);
	if (!page)
		return -ENOMEM;
	memset(page_address(page), 0xff, SIM_EVENT_PAGE_BYTES);
	WRITE_ONCE(p->event_mapped, 256 * 8);
	smp_store_release(&p->event_page, page);
	return 0;
}

static int take_id(struct sim_process *p, struct sim_event *ev, const u32 *restore_id)
{
	int first = SIM_FIRST_NONSIGNAL_EVENT, end = SIM_LAST_NONSIGNAL_EVENT, r;

	if (is_signal(ev->type)) {
		r = own_page(p);
		if (r)
			return r;
		first = 1;	/* 0 is never an event */
		end = min_t(u32, READ_ONCE(p->event_mapped) / 8, KFD_SIGNAL_EVENT_LIMIT);
	}
	if (restore_id) {
		/* A page of the kernel's own is mapped only later in a restore, and counts in full. */
		if (is_signal(ev->type))
			end = KFD_SIGNAL_EVENT_LIMIT;
		if (*restore_id < first || *restore_id >= end)
			return -EINVAL;
		first = *restore_id;
		end = first + 1;
	}
	return first < end ? idr_alloc(&p->events, ev, first, end, GFP_KERNEL) : -ENOSPC;
}

int sim_event_new(struct sim_process *p, const struct sim_event *like, const u32 *restore_id)
{
	struct sim_event *ev = kmemdup(like, sizeof(*ev), GFP_KERNEL);
	int id;

	if (!ev)
		return -ENOMEM;
	INIT_LIST_HEAD(&ev->waiters);
	ev->age = restore_id ? 0 : 1;
	mutex_lock(&p->event_lock);
	id = take_id(p, ev, restore_id);
	if (id >= 0) {
		ev->id = id;
		if (is_signal(ev->type)) {
			clear_slot(p, id);
			p->n_signal_events++;
		}
	}
	mutex_unlock(&p->event_lock);
	if (id < 0)
		kfree(ev);
	return id;
}

static void set_event(struct sim_process *p, struct sim_event *ev)
{
	struct sim_waiter *w;

	bool wakes = false;

	list_for_each_entry(w, &ev->waiters, link) {
		WRITE_ONCE(w->activated, true);
		wakes |= w->sleeps;
	}
	/* One that resets itself stays set only if there is nobody to wake. */
	ev->signaled = !ev->auto_reset || !wakes;
	if (!++ev->age)
		ev->age = 2;	/* 0 means "does not care" to waiters, 1 "new" */
	wake_up_all(&p->event_wq);
}

void sim_event_raise(struct sim_process *p, u32 id)
{
	struct sim_event *ev;

	mutex_lock(&p->event_lock);
	ev = idr_find(&p->events, id);
	if (ev && is_signal(ev->type)) {
		clear_slot(p, id);
		set_event(p, ev);
	}
	mutex_unlock(&p->event_lock);
}

int sim_ioctl_create_event(struct sim_process *p, void *data, u32 size)
{
	struct kfd_ioctl_create_event_args *a = data;
	struct sim_event like = { .type = a->event_type, .auto_reset = a->auto_reset };
	int r;

	if (a->event_page_offset) {
		mutex_lock(&p->lock);
		r = sim_event_page_set(p, a->event_page_offset);
		mutex_unlock(&p->lock);
		if (r)
			return r;
	}
	r = sim_event_new(p, &like, NULL);
	if (r < 0)
		return r;
	a->event_id = r;
	a->event_trigger_data = a->event_id;
	a->event_page_offset = 0;
	if (is_signal(a->event_type)) {
		a->event_page_offset = SIM_MMAP_OFFSET(SIM_MMAP_EVENTS, 0);
		a->event_slot_index = a->event_id;
	}
	return 0;
}

int sim_ioctl_destroy_event(struct sim_process *p, void *data, u32 size)
{
	struct kfd_ioctl_destroy_event_args *a = data;
	struct sim_waiter *w, *next;
	struct sim_event *ev;

	mutex_lock(&p->event_lock);
	ev = a->event_id > INT_MAX ? NULL : idr_remove(&p->events, a->event_id);
	if (ev) {
		if (is_signal(ev->type))
			p->n_signal_events--;
		list_for_each_entry_safe(w, next, &ev->waiters, link) {
			list_del_init(&w->link);
			WRITE_ONCE(w->ev, NULL);
		}
		wake_up_all(&p->event_wq);
		kfree(ev);
	}
	mutex_unlock(&p->event_lock);
	return ev ? 0 : -EINVAL;
}

/* Only plain signal events may be set and reset by the CPU. */
static struct sim_event *settable(struct sim_process *p, u32 id)
{
	struct sim_event *ev = id > INT_MAX ? NULL : idr_find(&p->events, id);

	return ev && ev->type == KFD_IOC_EVENT_SIGNAL ? ev : NULL;
}

int sim_ioctl_set_event(struct sim_process *p, void *data, u32 size)
{
	struct kfd_ioctl_set_event_args *a = data;
	struct sim_event *ev;

	mutex_lock(&p->event_lock);
	ev = settable(p, a->event_id);
	if (ev)
		set_event(p, ev);
	mutex_unlock(&p->event_lock);
	return ev ? 0 : -EINVAL;
}

int sim_ioctl_reset_event(struct sim_process *p, void *data, u32 size)
{
	struct kfd_ioctl_reset_event_args *a = data;
	struct sim_event *ev;

	mutex_lock(&p->event_lock);
	ev = settable(p, a->event_id);
	if (ev)
		ev->signaled = false;
	mutex_unlock(&p->event_lock);
	return ev ? 0 : -EINVAL;
}
