// SPDX-License-Identifier: Apache-2.0
/*
 * Process 1 of a test machine once it is set up: runs shell scripts for the host and sends back what
 * they print. Host and guest talk over one virtio serial port in frames of a 12-byte header
 *
 *     u8 type, 3 bytes zero, u32 job, u32 length (little endian), then length bytes
 *
 * host to guest: 'x' run the payload as a bash script, 'k' kill the job's session, 'q' flush and stop
 * guest to host: 'r' ready, 'o' standard output, 'e' standard error, 'x' exit status (i32), 'b' flushed
 *
 * Jobs run at the same time. A job ends when its shell ends: what it left in the background goes on,
 * but its output is no longer carried.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/reboot.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_JOBS 64
#define CHUNK 16384
#define MAX_SCRIPT (120 * 1024)	/* execve takes no argument longer than 128 KiB */

struct frame {
	uint8_t type, zero[3];
	uint32_t job, len;
};

struct job {
	pid_t pid;		/* 0: slot free */
	uint32_t id;
	int fd[2];		/* standard output and error, -1 once at their end */
};

static struct job jobs[MAX_JOBS];
static int port = -1;

static void die(const char *what)
{
	/* Process 1 that ends is a kernel panic, which is how the host learns of it. */
	fprintf(stderr, "agent: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void put(const void *buf, size_t len)
{
	const char *p = buf;

	while (len) {
		ssize_t n = write(port, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			die("write to the host");
		p += n;
		len -= n;
	}
}

static void get(void *buf, size_t len)
{
	char *p = buf;

	while (len) {
		ssize_t n = read(port, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			die("read from the host");
		p += n;
		len -= n;
	}
}

static void send_frame(char type, uint32_t job, const void *payload, uint32_t len)
{
	struct frame f = { .type = type, .job = job, .len = len };

	put(&f, sizeof(f));
	put(payload, len);
}

static void send_status(uint32_t job, int32_t code)
{
	send_frame('x', job, &code, sizeof(code));
}

static void start(uint32_t id, const char *script)
{
	struct job *j = NULL;
	int out[2], err[2], i;

	for (i = 0; i < MAX_JOBS && !j; i++)
		if (!jobs[i].pid)
			j = &jobs[i];
	if (!j) {
		static const char full[] = "agent: too many jobs at once\n";

		send_frame('e', id, full, sizeof(full) - 1);
		return send_status(id, 126);
	}
	if (pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC))
		die("pipe2");
	j->pid = fork();
	if (j->pid < 0)
		die("fork");
	if (!j->pid) {
		sigset_t none;
		int null = open("/dev/null", O_RDONLY);

		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		setsid();
		dup2(null, 0);
		dup2(out[1], 1);
		dup2(err[1], 2);
		if (null > 2)
			close(null);
		execl("/bin/bash", "bash", "-c", script, (char *)NULL);
		dprintf(2, "agent: cannot execute bash: %s\n", strerror(errno));
		_exit(127);
	}
	close(out[1]);
	close(err[1]);
	fcntl(out[0], F_SETFL, O_NONBLOCK);
	fcntl(err[0], F_SETFL, O_NONBLOCK);
	j->id = id;
	j->fd[0] = out[0];
	j->fd[1] = err[0];
}

/* One read of a stream; false when nothing more is there now. */
static int carry(struct job *j, int which)
{
	static char buf[CHUNK];
	ssize_t n = read(j->fd[which], buf, sizeof(buf));

	if (n > 0) {
		send_frame(which ? 'e' : 'o', j->id, buf, n);
		return 1;
	}
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	close(j->fd[which]);
	j->fd[which] = -1;
	return 0;
}

/* A background child may write for ever: at most this many chunks once the shell has ended. */
#define LAST_CHUNKS 256

static void reap(void)
{
	int status, i, s, n;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		for (i = 0; i < MAX_JOBS && jobs[i].pid != pid; i++)
			;
		if (i == MAX_JOBS)
			continue;	/* an orphan that came to process 1 */
		for (s = 0; s < 2; s++) {
			for (n = 0; n < LAST_CHUNKS && jobs[i].fd[s] >= 0; n++)
				if (!carry(&jobs[i], s))
					break;
			if (jobs[i].fd[s] >= 0)
				close(jobs[i].fd[s]);
		}
		send_status(jobs[i].id, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
		jobs[i].pid = 0;
	}
}

/* Every process of the job's session, not only its leader's group: bash gives pipelines of their own. */
static void kill_session(pid_t leader)
{
	DIR *proc = opendir("/proc");
	struct dirent *d;

	kill(-leader, SIGKILL);
	while (proc && (d = readdir(proc))) {
		pid_t pid = atoi(d->d_name);

		if (pid > 1 && getsid(pid) == leader)
			kill(pid, SIGKILL);
	}
	if (proc)
		closedir(proc);
}

static void serve(void)
{
	static char script[MAX_SCRIPT + 1];
	struct frame f;
	int i;

	get(&f, sizeof(f));
	if (f.len > MAX_SCRIPT) {
		errno = EMSGSIZE;
		die("frame of the host");
	}
	get(script, f.len);
	script[f.len] = 0;
	switch (f.type) {
	case 'x':
		start(f.job, script);
		break;
	case 'k':
		for (i = 0; i < MAX_JOBS; i++)
			if (jobs[i].pid && jobs[i].id == f.job)
				kill_session(jobs[i].pid);
		break;
	case 'q':
		sync();
		send_frame('b', 0, "", 0);
		reboot(RB_POWER_OFF);
		break;
	}
}

/*
 * CRIU sets hardware breakpoints in the tasks that it restores. The first and the last of them switch the
 * scheduler's perf hooks, for which the kernel patches its running code; under QEMU's translator another
 * processor may then meet a breakpoint instruction that is gone already, and the machine dies with "Oops:
 * int3". One event of ours, held for good, leaves the hooks on.
 */
static void keep_perf_hooks_on(void)
{
	struct perf_event_attr event = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(event),
		.config = PERF_COUNT_SW_DUMMY,
		.disabled = 1,
	};

	if (syscall(SYS_perf_event_open, &event, 0, -1, -1, PERF_FLAG_FD_CLOEXEC) < 0)
		fprintf(stderr, "agent: no perf event: %s\n", strerror(errno));
}

int main(int argc, char **argv)
{
	struct pollfd p[2 + 2 * MAX_JOBS];
	int owner[2 + 2 * MAX_JOBS];
	int signals, n, i, s;
	sigset_t set;

	if (argc != 2)
		return 2;
	for (i = 0; i < 100 && port < 0; i++) {
		port = open(argv[1], O_RDWR | O_CLOEXEC);
		if (port < 0)
			usleep(50000);
	}
	if (port < 0)
		die(argv[1]);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (signals < 0)
		die("signalfd");
	keep_perf_hooks_on();
	send_frame('r', 0, "", 0);
	for (;;) {
		struct signalfd_siginfo si;

		p[0] = (struct pollfd){ .fd = port, .events = POLLIN };
		p[1] = (struct pollfd){ .fd = signals, .events = POLLIN };
		n = 2;
		for (i = 0; i < MAX_JOBS; i++)
			for (s = 0; jobs[i].pid && s < 2; s++)
				if (jobs[i].fd[s] >= 0) {
					owner[n] = i * 2 + s;
					p[n++] = (struct pollfd){ .fd = jobs[i].fd[s], .events = POLLIN };
				}
		if (poll(p, n, -1) < 0 && errno != EINTR)
			die("poll");
		for (i = 2; i < n; i++)
			if (p[i].revents)
				carry(&jobs[owner[i] / 2], owner[i] % 2);
		if (p[1].revents) {
			while (read(signals, &si, sizeof(si)) > 0)
				;
			reap();
		}
		if (p[0].revents & POLLIN)
			serve();
	}
}
