// SPDX-License-Identifier: Apache-2.0
/* Events: types, ids, event page, limits. */
#include "conformance.h"

#define SET AMDKFD_IOC_SET_EVENT
#define RESET AMDKFD_IOC_RESET_EVENT
#define DESTROY AMDKFD_IOC_DESTROY_EVENT

static void t_types(void)
{
	struct app a;
	struct kfd_ioctl_create_event_args sig, sig2, mem, hw, dbg;

	app_start(&a);
	NEED_OK(kfd_event(a.kfd, KFD_IOC_EVENT_SIGNAL, false, 0, &sig));
	EXPECT_EQ(sig.event_id, 1);
	EXPECT_EQ(sig.event_trigger_data, sig.event_id);
	EXPECT_EQ(sig.event_slot_index, sig.event_id);
	EXPECT_EQ(sig.event_page_offset, 2ull << 62);
	NEED_OK(kfd_event(a.kfd, KFD_IOC_EVENT_SIGNAL, true, 0, &sig2));
	EXPECT_EQ(sig2.event_id, 2);
	NEED_OK(kfd_event(a.kfd, KFD_IOC_EVENT_MEMORY, false, 0, &mem));
	EXPECT_EQ(mem.event_id, 0x40000000);
	NEED_OK(kfd_event(a.kfd, KFD_IOC_EVENT_HW_EXCEPTION, false, 0, &hw));
	EXPECT_EQ(hw.event_id, 0x40000001);
	NEED_OK(kfd_event(a.kfd, KFD_IOC_EVENT_DEBUG_EVENT, false, 0, &dbg));
	EXPECT_EQ(dbg.event_page_offset, 2ull << 62);
	info("a debug event has id %#x", dbg.event_id);
	NEED_OK(kfd_event_op(a.kfd, DESTROY, sig.event_id));
	NEED_OK(kfd_event(a.kfd, KFD_IOC_EVENT_SIGNAL, false, 0, &sig));
	EXPECT_EQ(sig.event_id, 1);
}

static void t_unknown_id(void)
{
	struct app a;

	app_start(&a);
	EXPECT_RC(kfd_event_op(a.kfd, SET, 5), -EINVAL);
	EXPECT_RC(kfd_event_op(a.kfd, RESET, 5), -EINVAL);
	EXPECT_RC(kfd_event_op(a.kfd, DESTROY, 5), -EINVAL);
	EXPECT_RC(kfd_event_op(a.kfd, SET, 0), -EINVAL);
	EXPECT_RC(kfd_event_op(a.kfd, DESTROY, 0), -EINVAL);
	EXPECT_RC(kfd_event_op(a.kfd, DESTROY, 0x40000000), -EINVAL);
}

static void t_not_signal(void)
{
	struct app a;
	struct kfd_ioctl_create_event_args ev;

	app_start(&a);
	NEED_OK(kfd_event(a.kfd, KFD_IOC_EVENT_MEMORY, false, 0, &ev));
	EXPECT_RC(kfd_event_op(a.kfd, SET, ev.event_id), -EINVAL);
	EXPECT_RC(kfd_event_op(a.kfd, RESET, ev.event_id), -EINVAL);
	EXPECT_RC(kfd_event_op(a.kfd, DESTROY, ev.event_id), 0);
	EXPECT_RC(kfd_event_op(a.kfd, DESTROY, ev.event_id), -EINVAL);
}

static void t_page(void)
{
	struct app a;
	struct bo page;
	struct kfd_ioctl_create_event_args ev;
	u64 *slot;
	int bad = 0;

	app_start(&a);
	page = bo_new(&a, 0, 8 * PAGE, F_GTT);
	memset(page.cpu, 0x5a, page.size);
	/* The page may come with an event that needs no slot. */
	NEED_OK(kfd_event(a.kfd, KFD_IOC_EVENT_MEMORY, false, page.handle, &ev));
	EXPECT_EQ(ev.event_id, 0x40000000);
	slot = page.cpu;
	for (int i = 0; i < 4096; i++)
		bad += slot[i] != ~0ull;
	EXPECT(!bad, "%d of 4096 slots of a new event page are not all ones", bad);
	EXPECT_RC(kfd_event(a.kfd, KFD_IOC_EVENT_SIGNAL, false, page.handle, &ev), -EINVAL);
	EXPECT_RC(kfd_event(a.kfd, KFD_IOC_EVENT_SIGNAL, false, 0, &ev), 0);
	EXPECT_EQ(ev.event_id, 1);
	EXPECT_EQ(slot[1], ~0ull);
}

static void t_page_errors(void)
{
	struct app a;
	struct bo small, user, ok;
	struct kfd_ioctl_create_event_args ev;

	app_start(&a);
	small = bo_new(&a, 0, 4 * PAGE, F_GTT);
	user = bo_new(&a, 0, 8 * PAGE, F_USERPTR);
	ok = bo_new(&a, 0, 8 * PAGE, F_GTT);
	EXPECT_RC(kfd_event(a.kfd, KFD_IOC_EVENT_SIGNAL, false, small.handle, &ev), -EINVAL);
	EXPECT_RC(kfd_event(a.kfd, KFD_IOC_EVENT_SIGNAL, false, user.handle, &ev), -EINVAL);
	EXPECT_RC(kfd_event(a.kfd, KFD_IOC_EVENT_SIGNAL, false, ok.handle + 50, &ev), -EINVAL);
	EXPECT_RC(kfd_event(a.kfd, KFD_IOC_EVENT_SIGNAL, false, (0xfff1ull << 32) | 1, &ev), -EINVAL);
	EXPECT_RC(kfd_event(a.kfd, KFD_IOC_EVENT_SIGNAL, false, ok.handle, &ev), 0);
}

/* Once the kernel has made a page of its own, none can be given. */
static void t_page_late(void)
{
	struct app a;
	struct bo ok;
	struct kfd_ioctl_create_event_args ev;

	app_start(&a);
	ok = bo_new(&a, 0, 8 * PAGE, F_GTT);
	NEED_OK(kfd_event(a.kfd, KFD_IOC_EVENT_SIGNAL, false, 0, &ev));
	EXPECT_RC(kfd_event(a.kfd, KFD_IOC_EVENT_SIGNAL, false, ok.handle, &ev), -EINVAL);
}

static void limit(struct app *a, u64 handle, u32 most)
{
	struct kfd_ioctl_create_event_args ev;
	u32 made = 0;
	long rc = 0;

	while (made <= most) {
		rc = kfd_event(a->kfd, KFD_IOC_EVENT_SIGNAL, false, made ? 0 : handle, &ev);
		if (rc)
			break;
		made++;
		if (ev.event_id != made)
			report(__FILE__, __LINE__, true, "signal event %u has id %u", made, ev.event_id);
	}
	EXPECT_EQ(made, most);
	EXPECT_RC(rc, -ENOSPC);
}

static void t_limit_user(void)
{
	struct app a;

	app_start(&a);
	limit(&a, bo_new(&a, 0, 8 * PAGE, F_GTT).handle, 4095);
}

static void t_limit_user_larger(void)
{
	struct app a;

	app_start(&a);
	limit(&a, bo_new(&a, 0, 16 * PAGE, F_GTT).handle, 4095);
}

static void t_limit_mapped(void)
{
	struct app a;
	struct kfd_ioctl_create_event_args ev;
	long err;
	u32 made = 1;

	app_start(&a);
	NEED_OK(kfd_event(a.kfd, KFD_IOC_EVENT_SIGNAL, false, 0, &ev));
	NEED(map_fd(a.kfd, PAGE, PROT_READ | PROT_WRITE, ev.event_page_offset, &err), "mmap: errno %ld", -err);
	while (made < 5000) {
		err = kfd_event(a.kfd, KFD_IOC_EVENT_SIGNAL, false, 0, &ev);
		if (err)
			break;
		made++;
	}
	EXPECT_RC(err, -ENOSPC);
	EXPECT_EQ(made, 511);
}

static void t_state(void)
{
	struct app a;
	struct kfd_ioctl_create_event_args man, aut;
	u32 r;

	app_start(&a);
	NEED_OK(kfd_event(a.kfd, KFD_IOC_EVENT_SIGNAL, false, 0, &man));
	NEED_OK(kfd_event(a.kfd, KFD_IOC_EVENT_SIGNAL, true, 0, &aut));
	EXPECT_RC(kfd_poll_event(a.kfd, man.event_id, &r), 0);
	EXPECT_EQ(r, KFD_IOC_WAIT_RESULT_TIMEOUT);
	EXPECT_RC(kfd_event_op(a.kfd, SET, man.event_id), 0);
	for (int i = 0; i < 2; i++) {
		EXPECT_RC(kfd_poll_event(a.kfd, man.event_id, &r), 0);
		EXPECT_EQ(r, KFD_IOC_WAIT_RESULT_COMPLETE);
	}
	EXPECT_RC(kfd_event_op(a.kfd, RESET, man.event_id), 0);
	EXPECT_RC(kfd_poll_event(a.kfd, man.event_id, &r), 0);
	EXPECT_EQ(r, KFD_IOC_WAIT_RESULT_TIMEOUT);
	EXPECT_RC(kfd_event_op(a.kfd, SET, aut.event_id), 0);
	EXPECT_RC(kfd_poll_event(a.kfd, aut.event_id, &r), 0);
	EXPECT_EQ(r, KFD_IOC_WAIT_RESULT_COMPLETE);
	EXPECT_RC(kfd_poll_event(a.kfd, aut.event_id, &r), 0);
	EXPECT_EQ(r, KFD_IOC_WAIT_RESULT_TIMEOUT);
}

const struct test tests_events[] = {
	{ "kfd/events/types", 1, t_types },
	{ "kfd/events/unknown_id", 1, t_unknown_id },
	{ "kfd/events/not_signal", 1, t_not_signal },
	{ "kfd/events/page", 1, t_page },
	{ "kfd/events/page_errors", 1, t_page_errors },
	{ "kfd/events/page_late", 1, t_page_late },
	{ "kfd/events/limit_user_page", 1, t_limit_user },
	{ "kfd/events/limit_larger_page", 1, t_limit_user_larger },
	{ "kfd/events/limit_mapped_size", 1, t_limit_mapped },
	{ "kfd/events/state", 1, t_state },
	{ NULL, 0, NULL },
};
