/* SPDX-License-Identifier: GPL-2.0 */
#ifndef KFD_SIM_KFD_EVENT_H
#define KFD_SIM_KFD_EVENT_H

#include "kfd.h"

/* One event of one WAIT_EVENTS; under event_lock, but ev and activated are also looked at without. */
struct sim_waiter {
	struct list_head link;	/* in sim_event.waiters, or empty */
	struct sim_event *ev;	/* NULL once destroyed */
	bool activated;
	bool sleeps;		/* was not activated from the start */
	bool wants_age;
};

#endif
