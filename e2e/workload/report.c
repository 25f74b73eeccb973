// SPDX-License-Identifier: Apache-2.0
/* Findings of a proof, the state file, time. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "wl.h"

#define MAX_FINDINGS 200	/* a lost 10,000-BO restore must not write megabytes */

struct findings {
	unsigned int failed, kept;
	char line[MAX_FINDINGS][256];
};

uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

void nap_ms(unsigned int ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000l };

	nanosleep(&t, NULL);
}

static void add(struct wl *w, const char *kind, const char *fmt, va_list ap)
{
	struct findings *f = w->found;
	int n;

	if (f->kept == MAX_FINDINGS)
		return;
	n = snprintf(f->line[f->kept], sizeof(f->line[0]), "%s: ", kind);
	vsnprintf(f->line[f->kept] + n, sizeof(f->line[0]) - n, fmt, ap);
	f->kept++;
}

void fail(struct wl *w, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	add(w, "fail", fmt, ap);
	va_end(ap);
	w->found->failed++;
	va_start(ap, fmt);
	vsnprintf(w->last_error, sizeof(w->last_error), fmt, ap);
	va_end(ap);
}

void info(struct wl *w, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	add(w, "info", fmt, ap);
	va_end(ap);
}

int oops(struct wl *w, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(w->last_error, sizeof(w->last_error), fmt, ap);
	va_end(ap);
	fprintf(stderr, "workload: %s\n", w->last_error);
	return -1;
}

void findings_clear(struct wl *w)
{
	if (!w->found)
		w->found = calloc(1, sizeof(*w->found));
	if (!w->found)
		abort();
	w->found->failed = w->found->kept = 0;
}

unsigned int findings_failed(struct wl *w)
{
	return w->found->failed;
}

/*
 * One open, one write, one close, one rename: a dump that meets the file open has to find it again at
 * restore, so it is open for as short a time as possible.
 */
static int replace_file(const char *path, const char *suffix, const char *text, size_t len)
{
	char name[4096], tmp[4104];
	ssize_t n;
	int fd;

	if ((size_t)snprintf(name, sizeof(name), "%s%s", path, suffix) >= sizeof(name))
		return -ENAMETOOLONG;
	snprintf(tmp, sizeof(tmp), "%s.tmp", name);
	fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	n = write(fd, text, len);
	close(fd);
	if (n != (ssize_t)len)
		return -EIO;
	return rename(tmp, name) ? -errno : 0;
}

void findings_write(struct wl *w, const char *suffix)
{
	struct findings *f = w->found;
	size_t cap = 64 + (size_t)(f->kept + 1) * (sizeof(f->line[0]) + 1), len;
	char *text = malloc(cap);

	if (!text)
		return;
	len = snprintf(text, cap, "%s\n", f->failed ? "failed" : "ok");
	for (unsigned int i = 0; i < f->kept; i++)
		len += snprintf(text + len, cap - len, "%s\n", f->line[i]);
	if (f->kept == MAX_FINDINGS)
		len += snprintf(text + len, cap - len, "info: more findings left out, %u failures in all\n", f->failed);
	if (w->o.state)
		replace_file(w->o.state, suffix, text, len);
	if (f->failed && write(2, text, len) < 0) {
		/* nobody listens: the file has it */
	}
	free(text);
}

void state_write(struct wl *w)
{
	static char text[16384];
	uint64_t submitted, done, bytes[WL_MAX_GPUS] = { 0 };
	size_t len = 0, data = 0, cap = sizeof(text);

	w->last_state_ns = now_ns();
	if (!w->o.state)
		return;
	queue_totals(w, &submitted, &done);
	for (size_t i = 0; i < w->nbos; i++) {
		if (w->bos[i]->role != ROLE_DATA)
			continue;
		data++;
		bytes[w->bos[i]->gpu->index] += w->bos[i]->size;
	}
#define PUT(...) (len += snprintf(text + len, len < cap ? cap - len : 0, __VA_ARGS__))
	PUT("pid %d\nphase %s\niterations %llu\n", getpid(), w->phase, (unsigned long long)w->iterations);
	PUT("packets_submitted %llu\npackets_done %llu\n", (unsigned long long)submitted, (unsigned long long)done);
	PUT("last_error %s\n", w->last_error);
	PUT("verifying %d\nproofs %u\n", w->verifying, w->proofs);
	PUT("gpus_seen %u\ngpus_used %u\nbos %zu\nbos_all %zu\n", w->ngpus, w->nused, data, w->nbos);
	PUT("queues %zu\nevents %u\nthreads %u\nchild_pid %d\n", w->nqueues, w->ev ? w->ev->n : 0, w->o.threads, w->child);
	PUT("bytes_per_gpu");
	for (unsigned int i = 0; i < w->ngpus; i++)
		PUT(" %u:%llu", i, (unsigned long long)bytes[i]);
	PUT("\ngpu_ids");
	for (unsigned int i = 0; i < w->ngpus; i++)
		PUT(" %u:%u", i, w->gpus[i].gpu_id);
	PUT("\nrender_minors");
	for (unsigned int i = 0; i < w->ngpus; i++)
		PUT(" %u:%d", i, gpu_minor_of_fd(w->gpus[i].fd));
	PUT("\n");
#undef PUT
	replace_file(w->o.state, "", text, len < cap ? len : cap);
}

void state_tick(struct wl *w)
{
	uint64_t now = now_ns();

	/* After a restore on another machine the clock may stand before the last writing. */
	if (now < w->last_state_ns || now - w->last_state_ns >= w->o.interval_ms * 1000000ull)
		state_write(w);
}
