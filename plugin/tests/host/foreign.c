// SPDX-License-Identifier: Apache-2.0
/*
 * Objects of other people: every hook says "not mine", and does nothing to them.
 *
 * The process may not use ioctl meanwhile: an ioctl number means something else to every driver, so none
 * may be tried on a file before it is known to be the plugin's.
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "host.h"

#define ROUNDS 1000

static volatile sig_atomic_t ioctls;

static void on_forbidden(int signal, siginfo_t *info, void *context)
{
	ucontext_t *registers = context;

	(void)signal;
	(void)info;
	ioctls++;
	registers->uc_mcontext.gregs[REG_RAX] = -EPERM;
}

static void forbid_ioctl(void)
{
	struct sock_filter steps[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = sizeof(steps) / sizeof(steps[0]), .filter = steps };
	struct sigaction action = { .sa_sigaction = on_forbidden, .sa_flags = SA_SIGINFO };

	CHECK(sigaction(SIGSYS, &action, NULL) == 0, "sigaction");
	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs");
	CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "seccomp");
}

/* Descriptors and threads must be the same after every hook. */
static unsigned int descriptors, threads;

static void check_left(const char *hook)
{
	unsigned int now = count_entries("/proc/self/fd");

	CHECK(now == descriptors, "%s left %u descriptors of %u", hook, now, descriptors);
	now = count_entries("/proc/self/task");
	CHECK(now == threads, "%s left %u threads of %u", hook, now, threads);
	CHECK(ioctls == 0, "%s", hook);
	CHECK(criu.claims == 0, "%s has entered the plugin into the inventory", hook);
	CHECK(criu.errors == 0, "%s has logged an error", hook);
}

static void not_mine(int code, const char *hook, int object)
{
	CHECK(code == NOT_MINE, "%s of object %d answers %d", hook, object, code);
	check_left(hook);
}

/* A character device, files, and anonymous inodes of several kinds. */
static int objects[12];
static unsigned int object_count;
static int file_flags;

static void add(int fd)
{
	CHECK(fd >= 0 && object_count < sizeof(objects) / sizeof(objects[0]), "object %u", object_count);
	objects[object_count++] = fd;
}

static void make_objects(void)
{
	int pipes[2], sockets[2], file = memfd_create("file", 0);

	add(open("/dev/null", O_RDWR));
	add(open("/dev/zero", O_RDONLY));
	/* How CRIU opens a mapped file on a file system with a device of its own. */
	add(open("/dev/null", O_PATH));
	CHECK(write(file, "abcdef", 6) == 6 && lseek(file, 3, SEEK_SET) == 3, "file");
	file_flags = fcntl(file, F_GETFL);
	add(file);
	add(open("/proc/self/exe", O_RDONLY));
	add(open("/", O_RDONLY | O_DIRECTORY));
	add(eventfd(7, EFD_NONBLOCK));
	add(epoll_create1(0));
	CHECK(pipe(pipes) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0, "pairs");
	add(pipes[0]);
	add(pipes[1]);
	add(sockets[0]);
	add(sockets[1]);
}

static void check_untouched(void)
{
	uint64_t count = 0;

	CHECK(lseek(objects[3], 0, SEEK_CUR) == 3, "the file's position has moved");
	CHECK(fcntl(objects[3], F_GETFL) == file_flags, "the file's flags");
	CHECK(read(objects[6], &count, sizeof(count)) == 8 && count == 7, "the eventfd has changed");
	CHECK(write(objects[6], &count, sizeof(count)) == 8, "eventfd");
}

static int handle_vma(const struct descriptor *d, int fd, const struct stat *stat)
{
	return ((int (*)(int, const struct stat *))d->hooks[HOOK_HANDLE_DEVICE_VMA])(fd, stat);
}

static int resume(const struct descriptor *d, int pid)
{
	return ((int (*)(int))d->hooks[HOOK_RESUME_DEVICES_LATE])(pid);
}

static void update_vma(const struct descriptor *d, const char *path)
{
	int (*hook)(const char *, uint64_t, uint64_t, uint64_t *, int *) = d->hooks[HOOK_UPDATE_VMA_MAP];
	uint64_t offset = 0x1234567;
	int fd = -1;
	int code = hook(path, 0x7f0000000000, 0x1000, &offset, &fd);

	CHECK(code == NOT_MINE, "%s: %d", path, code);
	CHECK(offset == 0x1234567 && fd == -1, "%s: the place has changed", path);
	check_left("UPDATE_VMA_MAP");
}

static void dump_round(const struct descriptor *d)
{
	/* A render node of nobody's: the number alone says nothing. */
	const dev_t numbers[] = { 0, makedev(1, 3), makedev(195, 0), makedev(226, 0),
					 makedev(226, 250), makedev(511, 0) };
	struct stat stat = { .st_mode = S_IFCHR | 0666 };
	unsigned int i;

	for (i = 0; i < object_count; i++) {
		not_mine(dump_file(d, objects[i], i + 1), "DUMP_EXT_FILE", i);
		CHECK(fstat(objects[i], &stat) == 0, "stat");
		not_mine(handle_vma(d, objects[i], &stat), "HANDLE_DEVICE_VMA", i);
	}
	not_mine(dump_file(d, -1, 99), "DUMP_EXT_FILE", -1);
	stat.st_mode = S_IFCHR | 0666;
	for (i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		stat.st_rdev = numbers[i];
		not_mine(handle_vma(d, objects[2], &stat), "HANDLE_DEVICE_VMA", 100 + i);
	}
	not_mine(handle_vma(d, objects[2], NULL), "HANDLE_DEVICE_VMA", -1);
}

static void restore_round(const struct descriptor *d, int ended)
{
	int id;

	for (id = 0; id < 3; id++)
		not_mine(restore_file(d, id), "RESTORE_EXT_FILE", id);
	not_mine(restore_file(d, -1), "RESTORE_EXT_FILE", -1);
	update_vma(d, "/dev/null");
	update_vma(d, "//dev/dri/renderD128");
	update_vma(d, "/dev/nvidia0");
	update_vma(d, "");
	not_mine(resume(d, getpid()), "RESUME_DEVICES_LATE", 0);
	/* A task that is gone is no task of the plugin's. */
	not_mine(resume(d, ended), "RESUME_DEVICES_LATE", 1);
}

/* CRIU makes tasks without telling the C library, and the plugin goes on in both processes. */
static int in_task(const struct descriptor *d, void (*round)(const struct descriptor *, int))
{
	int status, pid = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);

	CHECK(pid >= 0, "clone");
	if (pid == 0) {
		round(d, getppid());
		_exit(42);
	}
	CHECK(waitpid(pid, &status, 0) == pid, "wait");
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 42, "the task ended with %#x", status);
	return pid;
}

static void nothing(const struct descriptor *d, int pid)
{
	(void)d;
	(void)pid;
}

void check_foreign(const struct descriptor *d)
{
	char folder[] = "/tmp/rocferry-host-XXXXXX";
	int stage, round, ended;

	CHECK(mkdtemp(folder), "%s", folder);
	criu.image_dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(rmdir(folder) == 0, "%s", folder);
	make_objects();
	forbid_ioctl();
	ended = in_task(d, nothing);
	descriptors = count_entries("/proc/self/fd");
	threads = count_entries("/proc/self/task");
	/* Before init, and after exit below: no hook knows what to do, but each has an answer. */
	dump_round(d);
	restore_round(d, ended);
	for (stage = STAGE_DUMP; stage <= STAGE_RESTORE; stage++) {
		CHECK(d->init(stage) == 0, "stage %d", stage);
		check_left("init");
		CHECK(d->init(stage) == 0, "stage %d again", stage);
		check_left("init");
		/* Whatever CRIU is doing: the hooks of the other side are not for it. */
		dump_round(d);
		restore_round(d, ended);
		d->exit(stage, stage == STAGE_DUMP ? -1 : 0);
		check_left("exit");
		d->exit(stage, 0);
		check_left("exit");
	}
	for (stage = STAGE_DUMP; stage <= STAGE_RESTORE; stage++) {
		CHECK(d->init(stage) == 0, "stage %d", stage);
		for (round = 0; round < ROUNDS; round++) {
			not_mine(dump_file(d, objects[round % object_count], round), "DUMP_EXT_FILE", round);
			not_mine(restore_file(d, round), "RESTORE_EXT_FILE", round);
			update_vma(d, "/dev/null");
			not_mine(resume(d, getpid()), "RESUME_DEVICES_LATE", round);
			if (round % 50 == 0)
				in_task(d, restore_round);
		}
		d->exit(stage, 0);
		check_left("exit");
	}
	/* Images of a process without GPU state, by their inventory. */
	criu.named = false;
	CHECK(d->init(STAGE_RESTORE) == 0, "init");
	restore_round(d, ended);
	in_task(d, restore_round);
	d->exit(STAGE_RESTORE, 0);
	check_left("exit");
	dump_round(d);
	restore_round(d, ended);
	check_untouched();
}
