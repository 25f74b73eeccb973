// SPDX-License-Identifier: Apache-2.0
/* Setup, the loop, signals. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "wl.h"

static volatile sig_atomic_t want_proof, want_end;

static void on_signal(int sig)
{
	if (sig == SIGUSR1)
		want_proof = 1;
	else
		want_end = 1;
}

static void catch_signals(void)
{
	struct sigaction a = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

	sigaction(SIGUSR1, &a, NULL);
	sigaction(SIGTERM, &a, NULL);
	sigaction(SIGINT, &a, NULL);
}

static int setup(struct wl *w)
{
	if (child_early(w) || topology_read(w) || gpu_open_all(w) || gpu_setup(w) || event_setup(w) ||
	    bo_setup_data(w) || queue_setup(w) || extras_open(w) || threads_start(w) || child_late(w))
		return -1;
	tasks_take(w);
	return fds_take(w) || maps_take(w) ? -1 : sabotage(w);
}

static bool time_is_up(struct wl *w)
{
	uint64_t now = now_ns();

	if (!w->o.exit_after)
		return false;
	if (now < w->started_ns)	/* restored where the clock is younger */
		w->started_ns = now;
	return now - w->started_ns >= w->o.exit_after * 1000000000ull;
}

int main(int argc, char **argv)
{
	static struct wl world;
	struct wl *w = &world;

	if (options_parse(argc, argv, &w->o))
		return 2;
	w->kfd = -1;
	w->phase = "init";
	w->started_ns = now_ns();
	findings_clear(w);
	catch_signals();
	state_write(w);
	if (setup(w)) {
		w->phase = "failed";
		state_write(w);
		if (w->child > 0)
			kill(w->child, SIGKILL);
		return 1;
	}
	w->phase = "ready";
	state_write(w);
	while (!want_end && !time_is_up(w)) {
		background_step(w);
		if (w->last_error[0])
			w->phase = "failed";
		if (want_proof) {
			want_proof = 0;
			verify_all(w);
		}
		state_tick(w);
		if (!want_end && !want_proof)
			nap_ms(w->o.tick_ms);
	}
	return teardown(w);
}
