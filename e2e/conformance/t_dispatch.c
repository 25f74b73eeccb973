// SPDX-License-Identifier: Apache-2.0
/* The device itself, ioctl dispatch, and who may call. */
#include "conformance.h"

#include <linux/capability.h>
#include <pthread.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#define KNR(dir, nr, size) _IOC(dir, 'K', nr, size)
#define RW (_IOC_READ | _IOC_WRITE)

static long version(int fd)
{
	struct kfd_ioctl_get_version_args a = { 0 };

	return call_ioctl(fd, AMDKFD_IOC_GET_VERSION, &a);
}

static u32 minor_version(int fd)
{
	struct kfd_ioctl_get_version_args a = { 0 };

	NEED_OK(call_ioctl(fd, AMDKFD_IOC_GET_VERSION, &a));
	return a.minor_version;
}

static void t_device(void)
{
	struct stat st;
	char path[4096], buf[64], want[64];

	NEED(!stat("/dev/kfd", &st), "no /dev/kfd");
	EXPECT(S_ISCHR(st.st_mode), "/dev/kfd is no character device");
	EXPECT_EQ(minor(st.st_rdev), 0);
	EXPECT_EQ(st.st_mode & 0666, 0666);
	NEED(realpath("/sys/class/kfd/kfd", path), "no /sys/class/kfd/kfd");
	EXPECT(!strcmp(path, "/sys/devices/virtual/kfd/kfd"), "/sys/class/kfd/kfd is %s", path);
	NEED(read_text("/sys/class/kfd/kfd/dev", buf, sizeof(buf)) > 0, "no attribute dev");
	snprintf(want, sizeof(want), "%u:0\n", major(st.st_rdev));
	EXPECT(!strcmp(buf, want), "attribute dev is %s", buf);
	NEED(read_text("/proc/devices", path, sizeof(path)) > 0, "/proc/devices");
	snprintf(want, sizeof(want), "%u kfd\n", major(st.st_rdev));
	EXPECT(strstr(path, want), "/proc/devices has no line \"%u kfd\"", major(st.st_rdev));
}

static void t_version(void)
{
	struct kfd_ioctl_get_version_args a = { 0 };

	NEED_OK(call_ioctl(kfd_open(), AMDKFD_IOC_GET_VERSION, &a));
	EXPECT_EQ(a.major_version, 1);
	EXPECT(a.minor_version >= 8, "minor version %u", a.minor_version);
	info("interface version %u.%u", a.major_version, a.minor_version);
}

static void t_open_rdonly(void)
{
	int fd = open("/dev/kfd", O_RDONLY);

	NEED(fd >= 0, "open read-only: errno %d", errno);
	EXPECT_RC(version(fd), 0);
}

static void t_by_number(void)
{
	int fd = kfd_open();
	struct kfd_ioctl_get_version_args a = { 0 };

	EXPECT_RC(call_ioctl(fd, KNR(RW, 1, 8), &a), 0);
	EXPECT_EQ(a.major_version, 1);
	a.major_version = 0;
	EXPECT_RC(call_ioctl(fd, KNR(_IOC_WRITE, 1, 8), &a), 0);
	EXPECT_EQ(a.major_version, 1);
	a.major_version = 0;
	EXPECT_RC(call_ioctl(fd, _IOC(_IOC_READ, 'q', 1, 8), &a), 0);
	EXPECT_EQ(a.major_version, 1);
}

static void t_size(void)
{
	int fd = kfd_open();
	u32 v[6];

	memset(v, 0xee, sizeof(v));
	EXPECT_RC(call_ioctl(fd, KNR(_IOC_READ, 1, 4), v), 0);
	EXPECT_EQ(v[0], 1);
	EXPECT_EQ(v[1], 0xeeeeeeee);
	memset(v, 0xee, sizeof(v));
	EXPECT_RC(call_ioctl(fd, KNR(_IOC_READ, 1, 16), v), 0);
	EXPECT_EQ(v[0], 1);
	EXPECT_EQ(v[2], 0);
	EXPECT_EQ(v[3], 0);
	EXPECT_EQ(v[4], 0xeeeeeeee);
	/* ACQUIRE_VM without its second word: gpu_id is taken as 0, which no GPU has. */
	v[0] = (u32)render_open(0);
	EXPECT_RC(call_ioctl(fd, KNR(_IOC_WRITE, 0x15, 4), v), -EINVAL);
}

static void t_out_of_range(void)
{
	int fd = kfd_open();
	u8 buf[64] = { 0 };
	u32 minor_nr = minor_version(fd);

	EXPECT_RC(call_ioctl(fd, KNR(RW, 0xff, 16), buf), -ENOTTY);
	EXPECT_RC(call_ioctl(fd, KNR(RW, 0x40, 16), buf), -ENOTTY);
	EXPECT_RC(call_ioctl(fd, KNR(RW, 0x29, 16), buf), -ENOTTY);
	if (minor_nr <= 17)
		EXPECT_RC(call_ioctl(fd, KNR(RW, 0x27, 16), buf), -ENOTTY);
	info("number 0: %ld", call_ioctl(fd, KNR(RW, 0, 16), buf));
}

static void t_old_debugger(void)
{
	int fd = kfd_open();
	u8 buf[64] = { 0 };

	for (u32 nr = 0x0d; nr <= 0x10; nr++)
		EXPECT_RC(call_ioctl(fd, KNR(_IOC_WRITE, nr, 16), buf), -EPERM);
}

static void t_efault(void)
{
	int fd = kfd_open();
	u8 *ro = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	EXPECT_RC(call_ioctl(fd, AMDKFD_IOC_GET_VERSION, (void *)8), -EFAULT);
	EXPECT_RC(call_ioctl(fd, AMDKFD_IOC_GET_VERSION, ro), -EFAULT);
	EXPECT_RC(call_ioctl(fd, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, (void *)8), -EFAULT);
	EXPECT_RC(call_ioctl(fd, AMDKFD_IOC_CRIU_OP, (void *)8), -EFAULT);
}

/* n_success is written back although the handler fails at the second, unknown device. */
static void t_copy_back(void)
{
	struct app a;
	struct bo b = { .size = PAGE, .flags = F_GTT };
	u32 ids[2], done = 0;

	app_start(&a);
	b.va = PTR(reserve(PAGE));
	NEED_OK(kfd_alloc(a.kfd, &b, gpus[0].id));
	ids[0] = gpus[0].id;
	ids[1] = 1;
	EXPECT_RC(kfd_map(a.kfd, b.handle, ids, 2, &done), -EINVAL);
	EXPECT_EQ(done, 1);
	done = 0;
	EXPECT_RC(kfd_unmap(a.kfd, b.handle, ids, 2, &done), -EINVAL);
	EXPECT_EQ(done, 1);
}

static void t_after_fork(void)
{
	int fd = kfd_open(), own;
	pid_t pid;
	struct kfd_ioctl_criu_args ca = { .op = KFD_CRIU_OP_UNPAUSE };

	EXPECT_RC(version(fd), 0);
	pid = fork_child();
	if (!pid) {
		EXPECT_RC(version(fd), -EBADF);
		EXPECT_RC(call_ioctl(fd, AMDKFD_IOC_GET_VERSION, (void *)8), -EBADF);
		EXPECT_RC(call_ioctl(fd, AMDKFD_IOC_CRIU_OP, &ca), -EBADF);
		own = kfd_open();
		EXPECT_RC(version(own), 0);
		EXPECT_RC(version(fd), -EBADF);
		_exit(0);
	}
	EXPECT_EQ(child_status(pid), 0);
	EXPECT_RC(version(fd), 0);
}

static void *thread_version(void *fd)
{
	return (void *)version((int)(long)fd);
}

static void t_thread(void)
{
	int fd = kfd_open();
	pthread_t t;
	void *ret;

	NEED(!pthread_create(&t, NULL, thread_version, (void *)(long)fd), "pthread_create");
	pthread_join(t, &ret);
	EXPECT_RC((long)ret, 0);
}

static long open_kfd_at(void *arg)
{
	*(int *)arg = kfd_open();
	return 0;
}

static void *thread_unpause(void *fd)
{
	return (void *)criu_unpause((int)(long)fd);
}

static void t_ptracer(void)
{
	struct peer p;
	int *slot = shared(sizeof(*slot)), fd;
	struct kfd_ioctl_alloc_memory_of_gpu_args al = { .size = PAGE };
	pthread_t t;
	void *ret;

	peer_start(&p);
	NEED_OK(peer_call(&p, open_kfd_at, slot));
	fd = peer_fd(&p, *slot);
	EXPECT_RC(criu_unpause(fd), -EBADF);
	EXPECT_RC(version(fd), -EBADF);
	peer_trace(&p);
	EXPECT_RC(criu_unpause(fd), -EINVAL);
	/* Tracing opens CRIU_OP alone. */
	EXPECT_RC(version(fd), -EBADF);
	EXPECT_RC(call_ioctl(fd, AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &al), -EBADF);
	/* The tracer is a thread, not a process: another thread of it is nobody. */
	NEED(!pthread_create(&t, NULL, thread_unpause, (void *)(long)fd), "pthread_create");
	pthread_join(t, &ret);
	EXPECT_RC((long)ret, -EBADF);
	peer_stop_trace(&p);
	EXPECT_RC(criu_unpause(fd), -EBADF);
	peer_kill(&p);
}

static void t_capability(void)
{
	int fd = kfd_open();
	struct kfd_ioctl_criu_args a = { .op = 99 };

	if (geteuid())
		skip("needs root");
	EXPECT_RC(criu_unpause(fd), -EINVAL);
	NEED_OK(drop_caps(1ull << CAP_CHECKPOINT_RESTORE | 1ull << CAP_SETPCAP));
	EXPECT_RC(criu_unpause(fd), -EINVAL);
	NEED_OK(drop_caps(0));
	EXPECT_RC(criu_unpause(fd), -EACCES);
	EXPECT_RC(criu_op(fd, 99, &a), -EACCES);
	EXPECT_RC(version(fd), 0);
}

static void t_capability_admin(void)
{
	int fd = kfd_open();

	if (geteuid())
		skip("needs root");
	NEED_OK(drop_caps(1ull << CAP_SYS_ADMIN));
	EXPECT_RC(criu_unpause(fd), -EINVAL);
}

static void t_user_namespace(void)
{
	int fd;

	if (unshare(CLONE_NEWUSER))
		skip("no user namespaces: errno %d", errno);
	fd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
	NEED(fd >= 0, "open in a user namespace: errno %d", errno);
	EXPECT_RC(version(fd), 0);
	EXPECT_RC(criu_unpause(fd), -EACCES);
}

/* Several opens of one process share one object, and a closed descriptor frees nothing. */
static void t_one_object(void)
{
	struct app a;
	int second = kfd_open(), third;
	struct bo b = { .size = PAGE, .flags = F_GTT };

	app_start(&a);
	b.va = PTR(reserve(PAGE));
	NEED_OK(kfd_alloc(second, &b, gpus[0].id));
	EXPECT_RC(kfd_map(a.kfd, b.handle, &gpus[0].id, 1, NULL), 0);
	close(second);
	close(a.kfd);
	third = kfd_open();
	EXPECT_RC(kfd_unmap(third, b.handle, &gpus[0].id, 1, NULL), 0);
	EXPECT_RC(kfd_free(third, b.handle), 0);
}

const struct test tests_dispatch[] = {
	{ "kfd/dispatch/device", 0, t_device },
	{ "kfd/dispatch/version", 0, t_version },
	{ "kfd/dispatch/open_rdonly", 0, t_open_rdonly },
	{ "kfd/dispatch/by_number", 0, t_by_number },
	{ "kfd/dispatch/size", 1, t_size },
	{ "kfd/dispatch/out_of_range", 0, t_out_of_range },
	{ "kfd/dispatch/old_debugger", 0, t_old_debugger },
	{ "kfd/dispatch/efault", 0, t_efault },
	{ "kfd/dispatch/copy_back", 1, t_copy_back },
	{ "kfd/dispatch/after_fork", 0, t_after_fork },
	{ "kfd/dispatch/thread", 0, t_thread },
	{ "kfd/dispatch/ptracer", 0, t_ptracer },
	{ "kfd/dispatch/capability", 0, t_capability },
	{ "kfd/dispatch/capability_admin", 0, t_capability_admin },
	{ "kfd/dispatch/user_namespace", 0, t_user_namespace },
	{ "kfd/dispatch/one_object", 1, t_one_object },
	{ NULL, 0, NULL },
};
