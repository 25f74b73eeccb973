// SPDX-License-Identifier: Apache-2.0
/* Everything a case needs of sysfs, procfs, debugfs and plain system calls. */
#include "conformance.h"

#include <dirent.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <time.h>

struct gpu gpus[MAX_GPUS];
int ngpus, nnodes;

u64 now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (u64)t.tv_sec * 1000 + (u64)t.tv_nsec / 1000000;
}

void sleep_ms(unsigned int ms)
{
	struct timespec t = { ms / 1000, (long)(ms % 1000) * 1000000 };

	nanosleep(&t, NULL);
}

long sys_rc(long ret)
{
	return ret == -1 ? -errno : ret;
}

/* Straight to the kernel, so that an errno outside libc's range is seen as it is. */
long call_ioctl(int fd, unsigned long req, void *arg)
{
	return sys_rc(syscall(SYS_ioctl, fd, req, arg));
}

void *map_fd(int fd, size_t len, int prot, u64 off, long *err)
{
	void *p = mmap(NULL, len, prot, MAP_SHARED, fd, (off_t)off);

	if (err)
		*err = p == MAP_FAILED ? -errno : 0;
	return p == MAP_FAILED ? NULL : p;
}

void *anon(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	NEED(p != MAP_FAILED, "no memory for %zu bytes", len);
	return p;
}

/*
 * BOs get addresses far from where the kernel puts other mappings: a forked process that restores them must find
 * nothing there, least of all the memory it shares with its parent.
 */
static u64 next_va = 0x100000000000ull;

void reserve_elsewhere(void)
{
	next_va += 1ull << 40;
}

void *reserve(size_t len)
{
	void *p = mmap((void *)next_va, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE,
		       -1, 0);

	NEED(PTR(p) == next_va, "no address space for %zu bytes", len);
	next_va += ROUND_UP(len + PAGE, 2ull << 20);
	return p;
}

int read_text(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t done = 0;
	ssize_t n;

	if (fd < 0)
		return -errno;
	while (done + 1 < size && (n = read(fd, buf + done, size - 1 - done)) != 0) {
		if (n < 0) {
			n = -errno;
			close(fd);
			return (int)n;
		}
		done += (size_t)n;
	}
	buf[done] = 0;
	close(fd);
	return (int)done;
}

bool file_u64(const char *path, const char *name, u64 *val)
{
	static char buf[1 << 16];
	size_t len = name ? strlen(name) : 0;
	char *line, *end;

	if (read_text(path, buf, sizeof(buf)) < 0)
		return false;
	for (line = buf; *line; line = *end ? end + 1 : end) {
		end = line + strcspn(line, "\n");
		if (!name || (!strncmp(line, name, len) && line[len] == ' ')) {
			*val = strtoull(line + len, NULL, 10);
			return true;
		}
	}
	return false;
}

u64 node_prop(int node, const char *name, u64 missing)
{
	char path[128];
	u64 v;

	snprintf(path, sizeof(path), TOPO "/nodes/%d/properties", node);
	return file_u64(path, name, &v) ? v : missing;
}

u64 gpu_prop(int g, const char *name)
{
	return node_prop(gpus[g].node, name, 0);
}

void sys_scan(void)
{
	char path[128];
	u64 id;

	for (int n = 0; n < 256; n++) {
		snprintf(path, sizeof(path), TOPO "/nodes/%d", n);
		if (access(path, F_OK))
			break;
		nnodes++;
		snprintf(path, sizeof(path), TOPO "/nodes/%d/gpu_id", n);
		if (!file_u64(path, NULL, &id) || !id || ngpus == MAX_GPUS)
			continue;
		gpus[ngpus].node = n;
		gpus[ngpus].id = (u32)id;
		gpus[ngpus].minor = (int)node_prop(n, "drm_render_minor", 0);
		ngpus++;
	}
}

void sys_clean(void)
{
	DIR *d = opendir("/sys/fs/cgroup");
	struct dirent *e;
	char path[512];

	if (!d)
		return;
	while ((e = readdir(d))) {
		if (strncmp(e->d_name, "conformance-", 12))
			continue;
		snprintf(path, sizeof(path), "/sys/fs/cgroup/%s", e->d_name);
		for (int i = 0; i < 100 && rmdir(path) && errno == EBUSY; i++)
			sleep_ms(10);
	}
	closedir(d);
}

bool vma_flags(const void *addr, char *flags, size_t size)
{
	FILE *f = fopen("/proc/self/smaps", "re");
	char line[512];
	bool in = false, found = false;

	if (!f)
		return false;
	while (fgets(line, sizeof(line), f)) {
		unsigned long a, b;

		if (sscanf(line, "%lx-%lx ", &a, &b) == 2) {
			in = PTR(addr) >= a && PTR(addr) < b;
		} else if (in && !strncmp(line, "VmFlags:", 8)) {
			snprintf(flags, size, "%s", line + 8);
			flags[strcspn(flags, "\n")] = 0;
			found = true;
			break;
		}
	}
	fclose(f);
	return found;
}

bool has_flag(const char *flags, const char *two)
{
	char pat[8];

	snprintf(pat, sizeof(pat), " %s", two);
	return strstr(flags, pat) != NULL;
}

int fd_path(pid_t pid, int fd, char *buf, size_t size)
{
	char link[64];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/%d/fd/%d", pid, fd);
	n = readlink(link, buf, size - 1);
	if (n < 0)
		return -errno;
	buf[n] = 0;
	return 0;
}

long drop_caps(u64 keep)
{
	struct __user_cap_header_struct h = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct d[2] = {
		{ (u32)keep, (u32)keep, 0 }, { (u32)(keep >> 32), (u32)(keep >> 32), 0 },
	};

	return sys_rc(syscall(SYS_capset, &h, d));
}

#define DBG "/sys/kernel/debug/kfd-sim"

bool counter(const char *part, u64 *val)
{
	char buf[1 << 14], *line, *end;
	bool found = false;

	*val = 0;
	if (read_text(DBG "/counters", buf, sizeof(buf)) < 0)
		return false;
	for (line = buf; *line; line = *end ? end + 1 : end) {
		char *sp;

		end = line + strcspn(line, "\n");
		sp = memchr(line, ' ', (size_t)(end - line));
		if (!sp || !memmem(line, (size_t)(sp - line), part, strlen(part)))
			continue;
		*val += strtoull(sp + 1, NULL, 10);
		found = true;
	}
	return found;
}

bool fault_set(const char *text)
{
	int fd = open(DBG "/fault", O_WRONLY | O_CLOEXEC);
	bool ok;

	if (fd < 0)
		return false;
	ok = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	close(fd);
	return ok;
}
