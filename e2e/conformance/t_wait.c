// SPDX-License-Identifier: Apache-2.0
/* WAIT_EVENTS: results, time-outs, signals, destroyed events, event ages. */
#include "conformance.h"

#include <pthread.h>
#include <signal.h>

#define COMPLETE KFD_IOC_WAIT_RESULT_COMPLETE
#define TIMEOUT KFD_IOC_WAIT_RESULT_TIMEOUT
#define FAILED KFD_IOC_WAIT_RESULT_FAIL

static u32 signal_event(struct app *a, bool auto_reset)
{
	struct kfd_ioctl_create_event_args ev;

	NEED_OK(kfd_event(a->kfd, KFD_IOC_EVENT_SIGNAL, auto_reset, 0, &ev));
	return ev.event_id;
}

static void set(struct app *a, u32 id)
{
	NEED_OK(kfd_event_op(a->kfd, AMDKFD_IOC_SET_EVENT, id));
}

static void t_errors(void)
{
	struct app a;
	struct kfd_event_data d = { .event_id = 9 };
	u32 r;

	app_start(&a);
	EXPECT_RC(kfd_wait(a.kfd, &d, 1, false, 0, &r), -EINVAL);
	EXPECT_RC(kfd_wait(a.kfd, &d, 1, false, 1000, &r), -EINVAL);
	EXPECT_RC(kfd_wait(a.kfd, (void *)8, 1, false, 0, &r), -EFAULT);
}

static void t_timeout(void)
{
	struct app a;
	struct kfd_event_data d = { 0 };
	u32 r;
	u64 t0;

	app_start(&a);
	d.event_id = signal_event(&a, false);
	t0 = now_ms();
	EXPECT_RC(kfd_wait(a.kfd, &d, 1, false, 300, &r), 0);
	EXPECT_EQ(r, TIMEOUT);
	EXPECT(now_ms() - t0 >= 280 && now_ms() - t0 < 3000, "a wait of 300 ms took %llu ms",
	       (unsigned long long)(now_ms() - t0));
}

static void t_all_any(void)
{
	struct app a;
	struct kfd_event_data d[2] = { 0 };
	u32 r;

	app_start(&a);
	d[0].event_id = signal_event(&a, false);
	d[1].event_id = signal_event(&a, false);
	set(&a, d[1].event_id);
	EXPECT_RC(kfd_wait(a.kfd, d, 2, false, 0, &r), 0);
	EXPECT_EQ(r, COMPLETE);
	EXPECT_RC(kfd_wait(a.kfd, d, 2, true, 0, &r), 0);
	EXPECT_EQ(r, TIMEOUT);
	set(&a, d[0].event_id);
	EXPECT_RC(kfd_wait(a.kfd, d, 2, true, 0, &r), 0);
	EXPECT_EQ(r, COMPLETE);
}

struct waiter {
	int kfd;
	struct kfd_ioctl_wait_events_args a;
	struct kfd_event_data d[2];
	long rc;
	u64 took;
	pthread_t thread;
};

static void *wait_thread(void *arg)
{
	struct waiter *w = arg;
	u64 t0 = now_ms();

	w->rc = call_ioctl(w->kfd, AMDKFD_IOC_WAIT_EVENTS, &w->a);
	w->took = now_ms() - t0;
	return NULL;
}

static void wait_begin(struct waiter *w, int kfd, u32 id, u32 ms)
{
	memset(w, 0, sizeof(*w));
	w->kfd = kfd;
	w->d[0].event_id = id;
	w->a.events_ptr = PTR(w->d);
	w->a.num_events = 1;
	w->a.timeout = ms;
	w->a.wait_result = 77;
	NEED(!pthread_create(&w->thread, NULL, wait_thread, w), "pthread_create");
	sleep_ms(150);
}

static void wait_end(struct waiter *w)
{
	pthread_join(w->thread, NULL);
}

static void t_wake(void)
{
	struct app a;
	struct waiter w;
	u32 id, r;

	app_start(&a);
	id = signal_event(&a, true);
	wait_begin(&w, a.kfd, id, 0xffffffff);
	set(&a, id);
	wait_end(&w);
	EXPECT_RC(w.rc, 0);
	EXPECT_EQ(w.a.wait_result, COMPLETE);
	/* The wake-up has used the event up. */
	EXPECT_RC(kfd_poll_event(a.kfd, id, &r), 0);
	EXPECT_EQ(r, TIMEOUT);
}

static void t_destroyed(void)
{
	struct app a;
	struct waiter w;
	u32 id;

	app_start(&a);
	id = signal_event(&a, false);
	wait_begin(&w, a.kfd, id, 20000);
	EXPECT_RC(kfd_event_op(a.kfd, AMDKFD_IOC_DESTROY_EVENT, id), 0);
	wait_end(&w);
	EXPECT_RC(w.rc, -EIO);
	EXPECT_EQ(w.a.wait_result, FAILED);
	EXPECT(w.took < 10000, "woke up after %llu ms", (unsigned long long)w.took);
}

static int hits;

static void on_signal(int sig)
{
	(void)sig;
	hits++;
}

static void install(int flags)
{
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = flags };

	sigaction(SIGUSR1, &sa, NULL);
	hits = 0;
}

static void t_interrupted(void)
{
	struct app a;
	struct waiter w;
	u32 id;

	app_start(&a);
	id = signal_event(&a, false);
	install(0);
	wait_begin(&w, a.kfd, id, 20000);
	sleep_ms(300);
	pthread_kill(w.thread, SIGUSR1);
	wait_end(&w);
	EXPECT_RC(w.rc, -EINTR);
	EXPECT_EQ(hits, 1);
	EXPECT(w.a.timeout < 20000 - 100 && w.a.timeout > 10000, "time left written back: %u of 20000 ms", w.a.timeout);
}

static void t_interrupted_infinite(void)
{
	struct app a;
	struct waiter w;

	app_start(&a);
	install(0);
	wait_begin(&w, a.kfd, signal_event(&a, false), 0xffffffff);
	pthread_kill(w.thread, SIGUSR1);
	wait_end(&w);
	EXPECT_RC(w.rc, -EINTR);
	EXPECT_EQ(w.a.timeout, 0xffffffff);
}

static void t_restarted(void)
{
	struct app a;
	struct waiter w;
	u32 id;

	app_start(&a);
	id = signal_event(&a, false);
	install(SA_RESTART);
	wait_begin(&w, a.kfd, id, 2000);
	for (int i = 0; i < 5; i++) {
		pthread_kill(w.thread, SIGUSR1);
		sleep_ms(200);
	}
	wait_end(&w);
	EXPECT_RC(w.rc, 0);
	EXPECT_EQ(w.a.wait_result, TIMEOUT);
	EXPECT(w.took >= 1800 && w.took < 6000, "a restarted wait of 2000 ms took %llu ms",
	       (unsigned long long)w.took);
	wait_begin(&w, a.kfd, id, 20000);
	pthread_kill(w.thread, SIGUSR1);
	sleep_ms(50);
	set(&a, id);
	wait_end(&w);
	EXPECT_RC(w.rc, 0);
	EXPECT_EQ(w.a.wait_result, COMPLETE);
	EXPECT(hits >= 2, "the handler ran %d times", hits);
}

/* A tracer's stop looks like a signal without a handler: the call must go on by itself. */
static long peer_wait_event(void *arg)
{
	struct world *w = arg;
	struct kfd_event_data d = { 0 };
	u32 r = 77;
	long rc;

	app_start(&w->app);
	d.event_id = signal_event(&w->app, false);
	w->arg = 1;
	rc = kfd_wait(w->app.kfd, &d, 1, false, 1500, &r);
	return rc ? rc : (long)r;
}

static void t_traced_stop(void)
{
	struct world *w = shared(sizeof(*w));
	struct peer p;
	u64 end = now_ms() + 10000;

	peer_start(&p);
	peer_send(&p, peer_wait_event, w);
	while (!*(volatile u64 *)&w->arg && now_ms() < end)
		sleep_ms(5);
	sleep_ms(200);
	peer_trace(&p);
	peer_stop_trace(&p);
	EXPECT_RC(peer_wait(&p), TIMEOUT);
	peer_kill(&p);
}

static void t_killed(void)
{
	struct world *w = shared(sizeof(*w));
	struct peer p;
	u64 t0;

	peer_start(&p);
	peer_send(&p, peer_wait_event, w);
	while (!*(volatile u64 *)&w->arg)
		sleep_ms(5);
	sleep_ms(100);
	t0 = now_ms();
	peer_kill(&p);
	EXPECT(now_ms() - t0 < 1000, "a waiter needed %llu ms to die", (unsigned long long)(now_ms() - t0));
}

static void t_age(void)
{
	struct app a;
	struct kfd_event_data d = { 0 };
	u32 r;
	u64 age;

	if (kfd_minor() < 14)
		skip("no event ages before 1.14");
	app_start(&a);
	d.event_id = signal_event(&a, false);
	d.signal_event_data.last_event_age = 0;
	EXPECT_RC(kfd_wait(a.kfd, &d, 1, false, 0, &r), 0);
	EXPECT_EQ(r, TIMEOUT);
	set(&a, d.event_id);
	d.signal_event_data.last_event_age = 1ull << 40;
	EXPECT_RC(kfd_wait(a.kfd, &d, 1, false, 0, &r), 0);
	EXPECT_EQ(r, COMPLETE);
	age = d.signal_event_data.last_event_age;
	EXPECT(age && age != 1ull << 40, "age written back: %llu", (unsigned long long)age);
	NEED_OK(kfd_event_op(a.kfd, AMDKFD_IOC_RESET_EVENT, d.event_id));
	EXPECT_RC(kfd_wait(a.kfd, &d, 1, false, 0, &r), 0);
	EXPECT_EQ(r, TIMEOUT);
	/* Set and reset meanwhile: not signaled now, but the age tells. */
	d.signal_event_data.last_event_age = age;
	set(&a, d.event_id);
	NEED_OK(kfd_event_op(a.kfd, AMDKFD_IOC_RESET_EVENT, d.event_id));
	EXPECT_RC(kfd_wait(a.kfd, &d, 1, false, 0, &r), 0);
	EXPECT_EQ(r, COMPLETE);
	EXPECT(d.signal_event_data.last_event_age != age, "the age did not change with SET_EVENT");
}

const struct test tests_wait[] = {
	{ "kfd/wait/errors", 1, t_errors },
	{ "kfd/wait/timeout", 1, t_timeout },
	{ "kfd/wait/all_any", 1, t_all_any },
	{ "kfd/wait/wake", 1, t_wake },
	{ "kfd/wait/destroyed", 1, t_destroyed },
	{ "kfd/wait/interrupted", 1, t_interrupted },
	{ "kfd/wait/interrupted_infinite", 1, t_interrupted_infinite },
	{ "kfd/wait/restarted", 1, t_restarted },
	{ "kfd/wait/traced_stop", 1, t_traced_stop },
	{ "kfd/wait/killed", 1, t_killed },
	{ "kfd/wait/age", 1, t_age },
	{ NULL, 0, NULL },
};
