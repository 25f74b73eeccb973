// SPDX-License-Identifier: Apache-2.0
/* The fd table at `ready`: numbers, which of them share an open file, flags, targets. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "wl.h"

#define KERNEL_O_LARGEFILE 0100000	/* the C library says 0 */

struct fd_entry {
	int fd, same_as;		/* same_as: lowest number with this open file */
	int status, fdflags;
	int64_t pos;			/* of files open for reading, else -1: what is written to moves by itself */
	char link[256];			/* with what changes by a restore taken out */
	int gpu;			/* index of the render node's GPU, -1 */
};

struct fd_snapshot {
	unsigned int n;
	bool kcmp;			/* whether same_as means anything */
	struct fd_entry e[WL_MAX_FDS];
};

static int same_file(int a, int b)
{
	pid_t me = getpid();

	return syscall(SYS_kcmp, me, me, KCMP_FILE, a, b);
}

/* Inode numbers of pipes and sockets, and the minor of a render node, may change by a restore. */
static void normalise(char *link)
{
	static const char *const cut_after[] = { "pipe:", "socket:", "/dev/dri/renderD", "/dev/pts/" };

	for (size_t i = 0; i < sizeof(cut_after) / sizeof(*cut_after); i++) {
		size_t len = strlen(cut_after[i]);

		if (!strncmp(link, cut_after[i], len))
			strcpy(link + len, "*");
	}
}

/* GPUs are told apart by their minors, whose order is the process's own: 0 is the first GPU it saw. */
static int gpu_of(struct wl *w, int fd, const char *link)
{
	int minor = strncmp(link, "/dev/dri/", 9) ? -1 : gpu_minor_of_fd(fd);

	for (unsigned int i = 0; minor >= 0 && i < w->ngpus; i++)
		if (gpu_minor_of_fd(w->gpus[i].fd) == minor)
			return i;
	return minor < 0 ? -1 : 1000 + minor;
}

static int by_fd(const void *a, const void *b)
{
	return ((const struct fd_entry *)a)->fd - ((const struct fd_entry *)b)->fd;
}

static struct fd_snapshot *take(struct wl *w)
{
	struct fd_snapshot *s = calloc(1, sizeof(*s));
	DIR *d = opendir("/proc/self/fd");
	struct dirent *de;

	if (!s || !d) {
		free(s);
		return NULL;
	}
	while ((de = readdir(d)) && s->n < WL_MAX_FDS) {
		struct fd_entry *e = &s->e[s->n];
		ssize_t len;

		if (de->d_name[0] == '.' || strtol(de->d_name, NULL, 10) == dirfd(d))
			continue;
		e->fd = strtol(de->d_name, NULL, 10);
		/* On 64 bits nobody sees this one: open sets it and pipe does not, so a pipe that came back has it. */
		e->status = fcntl(e->fd, F_GETFL) & ~KERNEL_O_LARGEFILE;
		e->fdflags = fcntl(e->fd, F_GETFD);
		len = readlinkat(dirfd(d), de->d_name, e->link, sizeof(e->link) - 1);
		e->link[len < 0 ? 0 : len] = 0;
		e->pos = -1;
		if ((e->status & O_ACCMODE) == O_RDONLY && e->link[0] == '/' && strncmp(e->link, "/dev/", 5))
			e->pos = lseek(e->fd, 0, SEEK_CUR);
		e->gpu = gpu_of(w, e->fd, e->link);
		normalise(e->link);
		s->n++;
	}
	closedir(d);
	qsort(s->e, s->n, sizeof(*s->e), by_fd);
	s->kcmp = true;
	for (unsigned int i = 0; i < s->n; i++) {
		s->e[i].same_as = s->e[i].fd;
		for (unsigned int k = 0; k < i; k++) {
			int r = same_file(s->e[k].fd, s->e[i].fd);

			if (r < 0)
				s->kcmp = false;
			if (r == 0) {
				s->e[i].same_as = s->e[k].fd;
				break;
			}
		}
	}
	return s;
}

int fds_take(struct wl *w)
{
	w->fds = take(w);
	return w->fds ? 0 : oops(w, "cannot read /proc/self/fd: %m");
}

static void compare(struct wl *w, const struct fd_entry *a, const struct fd_entry *b, bool kcmp)
{
	if (strcmp(a->link, b->link))
		fail(w, "fd %d is %s, was %s", a->fd, b->link, a->link);
	if (a->gpu != b->gpu)
		fail(w, "fd %d belongs to GPU %d of the process, was of %d", a->fd, b->gpu, a->gpu);
	if (kcmp && a->same_as != b->same_as)
		fail(w, "fd %d shares its open file with fd %d, did so with fd %d", a->fd, b->same_as, a->same_as);
	if (a->status != b->status)
		fail(w, "fd %d (%s): status flags %#o, were %#o", a->fd, a->link, b->status, a->status);
	if (a->fdflags != b->fdflags)
		fail(w, "fd %d (%s): close-on-exec %d, was %d", a->fd, a->link, b->fdflags, a->fdflags);
	if (a->pos != b->pos)
		fail(w, "fd %d (%s): position %lld, was %lld", a->fd, a->link, (long long)b->pos, (long long)a->pos);
}

void fds_proof(struct wl *w)
{
	struct fd_snapshot *a = w->fds, *b = take(w);
	unsigned int i = 0, j = 0;

	if (!b) {
		fail(w, "cannot read /proc/self/fd: %m");
		return;
	}
	if (!b->kcmp)
		info(w, "kcmp is not available: identity of open files not compared");
	while (i < a->n || j < b->n) {
		if (j == b->n || (i < a->n && a->e[i].fd < b->e[j].fd)) {
			fail(w, "fd %d (%s) is gone", a->e[i].fd, a->e[i].link);
			i++;
		} else if (i == a->n || a->e[i].fd > b->e[j].fd) {
			fail(w, "foreign fd %d (%s)", b->e[j].fd, b->e[j].link);
			j++;
		} else {
			compare(w, &a->e[i++], &b->e[j++], a->kcmp && b->kcmp);
		}
	}
	free(b);
}
