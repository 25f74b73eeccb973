// SPDX-License-Identifier: Apache-2.0
/* --child: a second process of the same tree. */
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "wl.h"

static char child_state[4096];

static void idle_child(void)
{
	signal(SIGTERM, SIG_DFL);
	signal(SIGUSR1, SIG_IGN);
	for (;;)
		pause();
}

/* GPU state and device mappings, but no descriptor that leads to them. */
static void closed_child(struct wl *w, int ready)
{
	if (topology_read(w) || gpu_open_all(w) || gpu_setup(w) || write(ready, "", 1) != 1)
		_exit(1);
	close(w->kfd);
	for (unsigned int i = 0; i < w->ngpus; i++)
		close(w->gpus[i].fd);
	close(ready);
	idle_child();
}

static int start_closed_child(struct wl *w)
{
	int ready[2];
	char byte;

	if (pipe(ready))
		return oops(w, "pipe: %m");
	w->child = fork();
	if (w->child < 0)
		return oops(w, "fork: %m");
	if (!w->child) {
		close(ready[0]);
		closed_child(w, ready[1]);
	}
	close(ready[1]);
	/* First a byte: the state stands. Then the end of the pipe: all is closed. */
	if (read(ready[0], &byte, 1) != 1 || read(ready[0], &byte, 1))
		return oops(w, "the child could not set up its GPU state");
	close(ready[0]);
	return 0;
}

int child_early(struct wl *w)
{
	if (w->o.child == CHILD_CLOSED)
		return start_closed_child(w);
	if (w->o.child != CHILD_PLAIN && w->o.child != CHILD_GPU)
		return 0;
	if (w->o.state)
		snprintf(child_state, sizeof(child_state), "%s.child", w->o.state);
	if (w->o.state)
		unlink(child_state);
	w->child = fork();
	if (w->child < 0)
		return oops(w, "fork: %m");
	if (w->child)
		return 0;
	if (w->o.child == CHILD_PLAIN)
		idle_child();
	/* The GPU child is a workload of its own, with other contents and an own state file. */
	w->o.child = CHILD_NONE;
	w->o.seed += 1000003;
	if (w->o.child_bos.n)
		w->o.bos = w->o.child_bos;
	w->o.state = w->o.state ? child_state : NULL;
	return 0;
}

static bool child_is(const char *want)
{
	char text[512], key[64];
	int fd = open(child_state, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return false;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return false;
	text[n] = 0;
	snprintf(key, sizeof(key), "\nphase %s\n", want);
	return strstr(text, key);
}

int child_late(struct wl *w)
{
	if (w->o.child == CHILD_INHERIT) {
		w->child = fork();
		if (w->child < 0)
			return oops(w, "fork: %m");
		if (!w->child)
			idle_child();
		return 0;
	}
	if (w->o.child != CHILD_GPU || !w->o.state)
		return 0;
	for (unsigned int ms = 0; ms < 120000; ms += 20) {
		if (child_is("ready"))
			return 0;
		if (child_is("failed") || waitpid(w->child, NULL, WNOHANG) == w->child)
			return oops(w, "the GPU child failed, see its state file");
		nap_ms(20);
		state_tick(w);
	}
	return oops(w, "the GPU child does not become ready");
}

void child_signal_proof(struct wl *w)
{
	if (w->child > 0 && w->o.child == CHILD_GPU)
		kill(w->child, SIGUSR1);
}

static bool same_in_child(struct wl *w, int fd)
{
	return syscall(SYS_kcmp, getpid(), w->child, KCMP_FILE, fd, fd) == 0;
}

void child_proof(struct wl *w)
{
	if (w->child <= 0)
		return;
	if (kill(w->child, 0))
		fail(w, "child %d is gone", w->child);
	if (w->o.child != CHILD_INHERIT)
		return;
	if (!same_in_child(w, w->kfd))
		fail(w, "the child's fd %d is not the same open kfd file", w->kfd);
	for (unsigned int i = 0; i < w->ngpus; i++)
		if (!same_in_child(w, w->gpus[i].fd))
			fail(w, "the child's fd %d is not the same open render file", w->gpus[i].fd);
}

int child_stop(struct wl *w)
{
	int status, r;

	if (w->child <= 0)
		return 0;
	kill(w->child, SIGTERM);
	do {
		r = waitpid(w->child, &status, 0);
	} while (r < 0 && errno == EINTR);
	w->child = 0;
	if (r < 0) {
		fail(w, "wait for the child: %m");
		return -1;
	}
	if (w->o.child == CHILD_GPU ? !WIFEXITED(status) || WEXITSTATUS(status) :
	    !WIFSIGNALED(status) || WTERMSIG(status) != SIGTERM) {
		fail(w, "the child ended with status %#x", status);
		return -1;
	}
	return 0;
}
