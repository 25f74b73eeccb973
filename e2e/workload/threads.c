// SPDX-License-Identifier: Apache-2.0
/* Helper threads that sit in WAIT_EVENTS, and the list of the process's threads. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kfd_ioctl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "wl.h"

#define STACK_BYTES (64 << 10)

struct helper {
	pthread_t thread;
	struct wl *w;
	struct event *event;		/* NULL: no events, it only sleeps */
	uint64_t wakes;
	int error;
};

struct task_snapshot {
	unsigned int n;
	struct { pid_t tid; char comm[20]; } *t;
};

static struct helper *helpers;
static unsigned int nhelpers, next_poke;
static bool stopping;

static void *helper_main(void *arg)
{
	struct helper *h = arg;

	while (!__atomic_load_n(&stopping, __ATOMIC_ACQUIRE)) {
		int r;

		if (!h->event) {
			nap_ms(1000);
			continue;
		}
		r = event_wait(h->w, h->event->id, UINT32_MAX);
		if (r == KFD_IOC_WAIT_RESULT_COMPLETE) {
			__atomic_add_fetch(&h->wakes, 1, __ATOMIC_RELEASE);
		} else if (!__atomic_load_n(&stopping, __ATOMIC_ACQUIRE)) {
			__atomic_store_n(&h->error, r, __ATOMIC_RELEASE);
			nap_ms(10);
		}
	}
	return NULL;
}

int threads_start(struct wl *w)
{
	pthread_attr_t attr;
	sigset_t all, old;
	int r = 0;

	if (!w->o.threads)
		return 0;
	helpers = calloc(w->o.threads, sizeof(*helpers));
	if (!helpers)
		return oops(w, "no memory for threads");
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	sigfillset(&all);		/* signals are the main thread's */
	pthread_sigmask(SIG_BLOCK, &all, &old);
	for (unsigned int i = 0; !r && i < w->o.threads; i++) {
		helpers[i].w = w;
		helpers[i].event = w->ev ? &w->ev->e[w->ev->n - w->ev->nthread + i] : NULL;
		r = pthread_create(&helpers[i].thread, &attr, helper_main, &helpers[i]);
		if (!r) {
			pthread_setname_np(helpers[i].thread, "wl-helper");
			nhelpers++;
		}
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return r ? oops(w, "thread: %s", strerror(r)) : 0;
}

static void note_errors(struct wl *w)
{
	for (unsigned int i = 0; i < nhelpers; i++) {
		int r = __atomic_exchange_n(&helpers[i].error, 0, __ATOMIC_ACQ_REL);

		if (r)
			fail(w, "WAIT_EVENTS of helper thread %u on event %u gives %d", i, helpers[i].event->id, r);
	}
}

void threads_poke(struct wl *w)
{
	int r;

	if (!nhelpers || !w->ev)
		return;
	note_errors(w);
	next_poke = (next_poke + 1) % nhelpers;
	r = event_set(w, helpers[next_poke].event->id);
	if (r)
		fail(w, "SET_EVENT of event %u: %s", helpers[next_poke].event->id, strerror(-r));
}

/* Each thread must wake when its event is set. */
void threads_proof(struct wl *w)
{
	if (!w->ev)
		return;
	note_errors(w);
	for (unsigned int i = 0; i < nhelpers; i++) {
		struct helper *h = &helpers[i];
		uint64_t before = __atomic_load_n(&h->wakes, __ATOMIC_ACQUIRE);
		int r = event_set(w, h->event->id);
		unsigned int ms = 0;

		if (r)
			fail(w, "SET_EVENT of event %u: %s", h->event->id, strerror(-r));
		while (!r && __atomic_load_n(&h->wakes, __ATOMIC_ACQUIRE) == before && ms < 5000) {
			nap_ms(2);
			ms += 2;
		}
		if (ms >= 5000)
			fail(w, "helper thread %u does not wake by event %u", i, h->event->id);
	}
}

void threads_stop(struct wl *w)
{
	__atomic_store_n(&stopping, true, __ATOMIC_RELEASE);
	for (unsigned int i = 0; i < nhelpers; i++) {
		if (helpers[i].event)
			event_set(w, helpers[i].event->id);
		pthread_join(helpers[i].thread, NULL);
	}
	nhelpers = 0;
}

static int by_tid(const void *a, const void *b)
{
	pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;

	return x < y ? -1 : x > y;
}

/* Reads a small file below /proc/self/task/TID; "" when it cannot. */
static void read_task(const char *tid, const char *file, char *text, size_t size)
{
	char path[300];
	ssize_t n = -1;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%s/%s", tid, file);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, text, size - 1);
		close(fd);
	}
	text[n < 0 ? 0 : n] = 0;
}

/* A restore gives back the id in the thread's own pid namespace; /proc may be that of an outer one. */
static pid_t own_tid(const char *name)
{
	char status[4096], *at;

	read_task(name, "status", status, sizeof(status));
	at = strstr(status, "\nNSpid:");
	if (!at)
		return strtol(name, NULL, 10);
	at = strtok(at + strlen("\nNSpid:"), "\n");
	while (at && strchr(at, '\t') && strchr(at, '\t')[1])
		at = strchr(at, '\t') + 1;
	return at ? strtol(at, NULL, 10) : 0;
}

static struct task_snapshot *list_tasks(void)
{
	struct task_snapshot *s = calloc(1, sizeof(*s));
	DIR *d = opendir("/proc/self/task");
	struct dirent *e;

	while (s && d && (e = readdir(d))) {
		void *grown;
		char *end;

		if (e->d_name[0] == '.')
			continue;
		grown = realloc(s->t, (s->n + 1) * sizeof(*s->t));
		if (!grown)
			break;
		s->t = grown;
		memset(&s->t[s->n], 0, sizeof(*s->t));
		s->t[s->n].tid = own_tid(e->d_name);
		read_task(e->d_name, "comm", s->t[s->n].comm, sizeof(s->t[s->n].comm));
		end = strchr(s->t[s->n].comm, '\n');
		if (end)
			*end = 0;
		s->n++;
	}
	if (d)
		closedir(d);
	if (s)
		qsort(s->t, s->n, sizeof(*s->t), by_tid);
	return s;
}

void tasks_take(struct wl *w)
{
	w->tasks = list_tasks();
}

void tasks_proof(struct wl *w)
{
	struct task_snapshot *a = w->tasks, *b = list_tasks();
	unsigned int i = 0, j = 0;

	while (a && b && (i < a->n || j < b->n)) {
		if (j == b->n || (i < a->n && a->t[i].tid < b->t[j].tid)) {
			fail(w, "thread %d (%s) is gone", a->t[i].tid, a->t[i].comm);
			i++;
		} else if (i == a->n || a->t[i].tid > b->t[j].tid) {
			fail(w, "foreign thread %d (%s)", b->t[j].tid, b->t[j].comm);
			j++;
		} else {
			if (strcmp(a->t[i].comm, b->t[j].comm))
				fail(w, "thread %d is called %s, was %s", a->t[i].tid, b->t[j].comm, a->t[i].comm);
			i++;
			j++;
		}
	}
	if (b)
		free(b->t);
	free(b);
}
