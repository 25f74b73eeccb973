// SPDX-License-Identifier: Apache-2.0
/* Which number each fd gets, and what else is open beside the GPU files (--fds, --flags). */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "wl.h"

#define DENSE_TOP 20		/* highest number filled by `dense` */
#define KFD_HIGH 200

/* Something CRIU can dump, of changing kinds, on the lowest free number (a pipe takes two). */
static int filler(unsigned int nth)
{
	int p[2], fd;

	switch (nth % 3) {
	case 0:
		return pipe(p) ? -1 : p[0];
	case 1:
		return eventfd(nth, 0);
	default:
		fd = open("/proc/self/exe", O_RDONLY);
		if (fd >= 0)
			lseek(fd, nth, SEEK_SET);
		return fd;
	}
}

static int fill_up_to(struct wl *w, int top)
{
	static unsigned int nth;

	for (;;) {
		int probe = open("/dev/null", O_RDONLY);

		if (probe < 0)
			return oops(w, "open /dev/null: %m");
		close(probe);
		if (probe > top)
			return 0;
		/* a pipe needs two numbers: near the top take what needs one */
		if (filler(probe + 1 > top && nth % 3 == 0 ? ++nth : nth) < 0)
			return oops(w, "filler fd: %m");
		nth++;
	}
}

int layout_before(struct wl *w)
{
	if (w->o.fds & (FDS_FD0_CLOSED | FDS_FD0_KFD | FDS_FD0_RENDER))
		close(0);
	if (w->o.fds & FDS_DENSE)
		return fill_up_to(w, 4);
	return 0;
}

static int move_fd(struct wl *w, int fd, int to)
{
	int n = fcntl(fd, F_DUPFD_CLOEXEC, to);

	if (n != to) {
		close(n);
		return oops(w, "fd %d is taken", to);
	}
	close(fd);
	return n;
}

int layout_place(struct wl *w, int fd, bool is_kfd, unsigned int nth)
{
	unsigned int fds = w->o.fds;
	bool zero = is_kfd ? fds & FDS_FD0_KFD : (fds & FDS_FD0_RENDER) && nth == 0;

	if (!zero && fd == 0) {		/* 0 is to stay closed */
		int n = fcntl(fd, F_DUPFD_CLOEXEC, 3);

		close(fd);
		fd = n;
	}
	if (is_kfd && (fds & FDS_KFD_HIGH))
		fd = move_fd(w, fd, KFD_HIGH);
	if (fd >= 0 && (fds & FDS_DENSE) && is_kfd && fill_up_to(w, 7))
		return -1;
	return fd;
}

static int second_opens(struct wl *w)
{
	char path[64];
	int fd;

	if (w->o.fds & FDS_TWO_KFD) {
		fd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
		if (fd < 0 || layout_place(w, fd, false, 99) < 0)
			return oops(w, "second open of /dev/kfd: %m");
	}
	for (unsigned int i = 0; (w->o.fds & FDS_TWO_RENDER) && i < w->ngpus; i++) {
		snprintf(path, sizeof(path), "/dev/dri/renderD%u", w->gpus[i].minor);
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd < 0 || layout_place(w, fd, false, 99) < 0)
			return oops(w, "second open of %s: %m", path);
	}
	return 0;
}

static int dups(struct wl *w)
{
	if (fcntl(w->kfd, F_DUPFD_CLOEXEC, 3) < 0)
		return oops(w, "dup of the kfd fd: %m");
	for (unsigned int i = 0; i < w->ngpus; i++)
		if (fcntl(w->gpus[i].fd, F_DUPFD, 3) < 0)
			return oops(w, "dup of a render fd: %m");
	return 0;
}

/* Of each kind of file one with O_NONBLOCK, and one without close-on-exec. */
static void odd_flags(struct wl *w)
{
	fcntl(w->kfd, F_SETFL, fcntl(w->kfd, F_GETFL) | O_NONBLOCK);
	fcntl(w->kfd, F_SETFD, 0);
	for (unsigned int i = 0; i < w->ngpus; i++) {
		int fd = w->gpus[i].fd;

		if (i % 2 == 0)
			fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
		else
			fcntl(fd, F_SETFD, 0);
	}
}

int layout_after(struct wl *w)
{
	if (second_opens(w) || ((w->o.fds & FDS_DUP) && dups(w)))
		return -1;
	if (w->o.flags)
		odd_flags(w);
	if (w->o.fds & FDS_DENSE)
		return fill_up_to(w, DENSE_TOP);
	return 0;
}
