// SPDX-License-Identifier: Apache-2.0
/*
 * A second process of a case. It is a fork of the first, so a function's address means the same in both and
 * a request is just that address and a pointer into memory that was shared before the fork.
 */
#include "conformance.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

struct request {
	peer_fn fn;
	void *arg;
};

void *shared(size_t size)
{
	void *p = mmap(NULL, ROUND_UP(size, PAGE), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	NEED(p != MAP_FAILED, "no shared memory");
	return p;
}

static void serve(int sock)
{
	struct request r;
	long ret;

	while (read(sock, &r, sizeof(r)) == (ssize_t)sizeof(r)) {
		ret = r.fn(r.arg);
		if (write(sock, &ret, sizeof(ret)) != (ssize_t)sizeof(ret))
			break;
	}
	_exit(0);
}

void peer_start(struct peer *p)
{
	int sv[2];

	NEED(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), "socketpair: errno %d", errno);
	p->pid = fork();
	NEED(p->pid >= 0, "fork: errno %d", errno);
	if (!p->pid) {
		close(sv[0]);
		serve(sv[1]);
	}
	close(sv[1]);
	p->sock = sv[0];
}

void peer_send(struct peer *p, peer_fn fn, void *arg)
{
	struct request r = { fn, arg };

	NEED(write(p->sock, &r, sizeof(r)) == (ssize_t)sizeof(r), "the peer is gone");
}

long peer_wait(struct peer *p)
{
	long ret;

	NEED(read(p->sock, &ret, sizeof(ret)) == (ssize_t)sizeof(ret), "the peer ended instead of answering");
	return ret;
}

long peer_call(struct peer *p, peer_fn fn, void *arg)
{
	peer_send(p, fn, arg);
	return peer_wait(p);
}

void peer_kill(struct peer *p)
{
	kill(p->pid, SIGKILL);
	while (waitpid(p->pid, NULL, __WALL) < 0 && errno == EINTR)
		;
	close(p->sock);
}

void peer_trace(struct peer *p)
{
	NEED(!ptrace(PTRACE_SEIZE, p->pid, NULL, NULL), "PTRACE_SEIZE: errno %d", errno);
}

void peer_stop_trace(struct peer *p)
{
	int st;

	NEED(!ptrace(PTRACE_INTERRUPT, p->pid, NULL, NULL), "PTRACE_INTERRUPT: errno %d", errno);
	NEED(waitpid(p->pid, &st, __WALL) == p->pid && WIFSTOPPED(st), "the peer did not stop");
	NEED(!ptrace(PTRACE_DETACH, p->pid, NULL, NULL), "PTRACE_DETACH: errno %d", errno);
}

int peer_fd(struct peer *p, int fd)
{
	int pidfd = (int)syscall(SYS_pidfd_open, p->pid, 0), got;

	NEED(pidfd >= 0, "pidfd_open: errno %d", errno);
	got = (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);
	NEED(got >= 0, "pidfd_getfd: errno %d", errno);
	close(pidfd);
	return got;
}

pid_t fork_child(void)
{
	pid_t pid = fork();

	NEED(pid >= 0, "fork: errno %d", errno);
	return pid;
}

int child_status(pid_t pid)
{
	int st = -1;

	while (waitpid(pid, &st, __WALL) < 0 && errno == EINTR)
		;
	return WIFEXITED(st) ? WEXITSTATUS(st) : 128 + WTERMSIG(st);
}
