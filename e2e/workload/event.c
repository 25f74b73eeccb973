// SPDX-License-Identifier: Apache-2.0
/* KFD events: the page, the events, and the states in which they are left. */
#include <errno.h>
#include <linux/kfd_ioctl.h>
#include <stdlib.h>
#include <string.h>

#include "wl.h"

#define PAGE_BYTES 32768ull
#define SLOTS (PAGE_BYTES / 8)
#define TAIL_SLOTS 64u			/* last slots, of events never made: ordinary contents */
#define TAIL_INDEX 0x20000000u		/* pattern index of the tail */
#define UNSIGNALED UINT64_MAX

static int create(struct wl *w, struct event *e, uint64_t page_handle)
{
	struct kfd_ioctl_create_event_args a = {
		.event_page_offset = page_handle, .event_type = e->type, .auto_reset = e->auto_reset,
	};
	int r = kfd_ioctl(w, AMDKFD_IOC_CREATE_EVENT, &a);

	if (r)
		return r;
	e->id = a.event_id;
	e->slot = a.event_slot_index;
	return 0;
}

static int destroy(struct wl *w, uint32_t id)
{
	struct kfd_ioctl_destroy_event_args a = { .event_id = id };

	return kfd_ioctl(w, AMDKFD_IOC_DESTROY_EVENT, &a);
}

int event_set(struct wl *w, uint32_t id)
{
	struct kfd_ioctl_set_event_args a = { .event_id = id };

	return kfd_ioctl(w, AMDKFD_IOC_SET_EVENT, &a);
}

int event_reset(struct wl *w, uint32_t id)
{
	struct kfd_ioctl_reset_event_args a = { .event_id = id };

	return kfd_ioctl(w, AMDKFD_IOC_RESET_EVENT, &a);
}

int event_wait(struct wl *w, uint32_t id, uint32_t timeout_ms)
{
	struct kfd_event_data d = { .event_id = id };
	struct kfd_ioctl_wait_events_args a = {
		.events_ptr = (uintptr_t)&d, .num_events = 1, .timeout = timeout_ms,
	};
	int r = kfd_ioctl(w, AMDKFD_IOC_WAIT_EVENTS, &a);

	return r ? r : (int)a.wait_result;
}

/* Four resting states in turn; a restore has to bring back each. */
static void plan(struct event *e, unsigned int nth, bool thread)
{
	e->type = KFD_IOC_EVENT_SIGNAL;
	e->thread = thread;
	if (thread) {
		e->auto_reset = true;
		return;
	}
	if (nth == 0)
		e->type = KFD_IOC_EVENT_MEMORY;
	else if (nth == 3)
		e->type = KFD_IOC_EVENT_HW_EXCEPTION;
	else {
		e->auto_reset = nth & 1;
		e->signaled = nth & 2;
	}
}

int event_setup(struct wl *w)
{
	struct events *ev;
	unsigned int n = w->o.events;

	if (!n || !w->nused)
		return 0;
	ev = calloc(1, sizeof(*ev));
	if (!ev)
		return oops(w, "no memory for events");
	w->ev = ev;
	ev->nthread = w->o.threads;
	ev->n = n + ev->nthread;
	ev->e = calloc(ev->n, sizeof(*ev->e));
	ev->page = bo_new(w, &w->gpus[0], BO_GTT, PAGE_BYTES, OPT_PEERS, ROLE_EVENT_PAGE, KFD_IOC_ALLOC_MEM_FLAGS_UNCACHED);
	if (!ev->page || !ev->e)
		return -1;
	for (unsigned int i = 0; i < ev->n; i++) {
		struct event *e = &ev->e[i];
		int r;

		plan(e, i, i >= n);
		r = create(w, e, i ? 0 : ev->page->handle);
		if (!r && e->signaled)
			r = event_set(w, e->id);
		if (r)
			return oops(w, "event %u of type %u: %s", i, e->type, strerror(-r));
	}
	if (ev->page->cpu && ev->n < SLOTS - TAIL_SLOTS)
		pattern_fill(w->o.seed, TAIL_INDEX, CONTENT_RANDOM, PAGE_BYTES, PAGE_BYTES - TAIL_SLOTS * 8,
			     ev->page->cpu + PAGE_BYTES - TAIL_SLOTS * 8, TAIL_SLOTS * 8);
	return 0;
}

static void expect(struct wl *w, const struct event *e, const char *what, int got, int want)
{
	if (got != want)
		fail(w, "event %u (type %u%s): %s gives %d, not %d", e->id, e->type, e->auto_reset ? ", auto-reset" : "",
		     what, got, want);
}

static void signal_proof(struct wl *w, const struct event *e)
{
	const int done = KFD_IOC_WAIT_RESULT_COMPLETE, timeout = KFD_IOC_WAIT_RESULT_TIMEOUT;

	expect(w, e, "the first wait", event_wait(w, e->id, 0), e->signaled ? done : timeout);
	expect(w, e, "RESET_EVENT", event_reset(w, e->id), 0);
	expect(w, e, "a wait after reset", event_wait(w, e->id, 0), timeout);
	expect(w, e, "SET_EVENT", event_set(w, e->id), 0);
	expect(w, e, "a wait after set", event_wait(w, e->id, 0), done);
	expect(w, e, "a second wait", event_wait(w, e->id, 0), e->auto_reset ? timeout : done);
	if (e->signaled)
		expect(w, e, "SET_EVENT", event_set(w, e->id), 0);
	else
		expect(w, e, "RESET_EVENT", event_reset(w, e->id), 0);
}

static void page_proof(struct wl *w)
{
	struct events *ev = w->ev;
	volatile uint64_t *slots = (uint64_t *)ev->page->cpu;
	uint64_t bad;

	if (!slots)
		return;
	for (unsigned int i = 0; i < ev->n; i++) {
		struct event *e = &ev->e[i];

		if (e->type == KFD_IOC_EVENT_SIGNAL && e->slot < SLOTS && slots[e->slot] != UNSIGNALED)
			fail(w, "event %u: slot %u of the event page holds %llx", e->id, e->slot,
			     (unsigned long long)slots[e->slot]);
	}
	if (ev->n >= SLOTS - TAIL_SLOTS)
		return;
	bad = pattern_check(w->o.seed, TAIL_INDEX, CONTENT_RANDOM, PAGE_BYTES, PAGE_BYTES - TAIL_SLOTS * 8,
			    ev->page->cpu + PAGE_BYTES - TAIL_SLOTS * 8, TAIL_SLOTS * 8);
	if (bad != UINT64_MAX)
		fail(w, "event page: unused slots differ from byte %llu on", (unsigned long long)bad);
}

/* A new event gets an id that nobody has, and goes away again. */
static void fresh_proof(struct wl *w)
{
	struct event e = { .type = KFD_IOC_EVENT_SIGNAL };
	int r = create(w, &e, 0);

	if (r == -ENOSPC && w->ev->n > SLOTS - 8) {
		info(w, "no room for one more event");
		return;
	}
	if (r) {
		fail(w, "CREATE_EVENT: %s", strerror(-r));
		return;
	}
	for (unsigned int i = 0; i < w->ev->n; i++)
		if (w->ev->e[i].id == e.id)
			fail(w, "a new event got the id %u, which is in use", e.id);
	signal_proof(w, &e);
	r = destroy(w, e.id);
	if (r)
		fail(w, "DESTROY_EVENT of a new event: %s", strerror(-r));
	r = event_set(w, e.id);
	if (r != -EINVAL)
		fail(w, "SET_EVENT of a destroyed event gives %d", r);
}

void event_proof(struct wl *w)
{
	if (!w->ev)
		return;
	page_proof(w);
	for (unsigned int i = 0; i < w->ev->n; i++) {
		struct event *e = &w->ev->e[i];

		if (e->thread)
			continue;	/* its thread proves it */
		if (e->type == KFD_IOC_EVENT_SIGNAL)
			signal_proof(w, e);
		else
			expect(w, e, "a wait", event_wait(w, e->id, 0), KFD_IOC_WAIT_RESULT_TIMEOUT);
		if (i % 256 == 255)
			state_tick(w);
	}
	fresh_proof(w);
}

int event_teardown(struct wl *w)
{
	int first = 0;

	if (!w->ev)
		return 0;
	for (unsigned int i = 0; i < w->ev->n; i++) {
		int r = destroy(w, w->ev->e[i].id);

		if (r) {
			fail(w, "DESTROY_EVENT of event %u: %s", w->ev->e[i].id, strerror(-r));
			first = first ? first : r;
		}
	}
	return first;
}
