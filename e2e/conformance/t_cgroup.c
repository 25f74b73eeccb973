// SPDX-License-Identifier: Apache-2.0
/* GPUs hidden by a device cgroup: by the number of their render node, at the first open of /dev/kfd. */
#include "conformance.h"

#include <linux/bpf.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define ROOT "/sys/fs/cgroup"

#define INSN(c, d, s, o, i) ((struct bpf_insn){ .code = (c), .dst_reg = (d), .src_reg = (s), .off = (o), .imm = (i) })

static long bpf(int cmd, union bpf_attr *attr)
{
	return sys_rc(syscall(SYS_bpf, cmd, attr, sizeof(*attr)));
}

/* Refuses character device 226:first up to 226:last, allows all else. */
static long attach(int cgroup, int first, int last)
{
	struct bpf_insn prog[] = {
		INSN(BPF_LDX | BPF_MEM | BPF_W, 2, 1, offsetof(struct bpf_cgroup_dev_ctx, major), 0),
		INSN(BPF_LDX | BPF_MEM | BPF_W, 3, 1, offsetof(struct bpf_cgroup_dev_ctx, minor), 0),
		INSN(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 1),
		INSN(BPF_JMP | BPF_JNE | BPF_K, 2, 0, 3, 226),
		INSN(BPF_JMP | BPF_JLT | BPF_K, 3, 0, 2, first),
		INSN(BPF_JMP | BPF_JGT | BPF_K, 3, 0, 1, last),
		INSN(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0),
		INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
	};
	union bpf_attr a;
	long fd;

	memset(&a, 0, sizeof(a));
	a.prog_type = BPF_PROG_TYPE_CGROUP_DEVICE;
	a.insn_cnt = ARRAY_SIZE(prog);
	a.insns = PTR(prog);
	a.license = PTR("Apache-2.0");
	fd = bpf(BPF_PROG_LOAD, &a);
	if (fd < 0)
		return fd;
	memset(&a, 0, sizeof(a));
	a.target_fd = (u32)cgroup;
	a.attach_bpf_fd = (u32)fd;
	a.attach_type = BPF_CGROUP_DEVICE;
	return bpf(BPF_PROG_ATTACH, &a);
}

/* Moves the caller into a new cgroup without the GPUs of index first to last. */
static void mask(int first, int last)
{
	char path[96], num[16];
	int dir, procs;
	long rc;

	snprintf(path, sizeof(path), ROOT "/conformance-%d", getpid());
	if (mkdir(path, 0755))
		skip("no cgroup can be made: errno %d", errno);
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	NEED(dir >= 0, "open %s", path);
	rc = attach(dir, gpus[first].minor, gpus[last].minor);
	if (rc < 0) {
		rmdir(path);
		skip("no device program can be attached: %ld", rc);
	}
	strcat(path, "/cgroup.procs");
	procs = open(path, O_WRONLY | O_CLOEXEC);
	snprintf(num, sizeof(num), "%d", getpid());
	NEED(procs >= 0 && write(procs, num, strlen(num)) > 0, "cannot enter the cgroup: errno %d", errno);
	close(procs);
	close(dir);
}

static u32 pdds(int kfd)
{
	struct kfd_ioctl_get_process_apertures_new_args a = { 0 };

	NEED_OK(call_ioctl(kfd, AMDKFD_IOC_GET_PROCESS_APERTURES_NEW, &a));
	return a.num_of_nodes;
}

/* Minors may interleave with other GPUs' ones; one GPU alone is always a range. */
static void t_one_hidden(void)
{
	struct kfd_process_device_apertures ap[MAX_GPUS];
	struct kfd_ioctl_get_process_apertures_new_args a = { PTR(ap), (u32)nnodes, 0 };
	static const char *const files[] = { "gpu_id", "name", "properties", "mem_banks/0/properties" };
	struct kfd_ioctl_criu_args c;
	char path[128], buf[4096];
	int kfd, drm = render_open(0);
	long err;

	mask(0, 0);
	snprintf(path, sizeof(path), "/dev/dri/renderD%d", gpus[0].minor);
	EXPECT_RC(sys_rc(open(path, O_RDWR)), -EPERM);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		snprintf(path, sizeof(path), TOPO "/nodes/%d/%s", gpus[0].node, files[i]);
		EXPECT_RC(read_text(path, buf, sizeof(buf)), -EPERM);
		EXPECT(!access(path, F_OK), "%s is gone", path);
		snprintf(path, sizeof(path), TOPO "/nodes/%d/%s", gpus[1].node, files[i]);
		EXPECT(read_text(path, buf, sizeof(buf)) > 0, "%s of a GPU that is not hidden", files[i]);
	}
	kfd = kfd_open();
	EXPECT_EQ(pdds(kfd), ngpus - 1);
	NEED_OK(call_ioctl(kfd, AMDKFD_IOC_GET_PROCESS_APERTURES_NEW, &a));
	EXPECT_EQ(ap[0].gpu_id, gpus[1].id);
	EXPECT_RC(kfd_acquire(kfd, drm, gpus[0].id), -EINVAL);
	map_fd(kfd, doorbell_slice(0), PROT_READ | PROT_WRITE, KFD_OFF(3, gpus[0].id), &err);
	EXPECT_RC(err, -EINVAL);
	map_fd(kfd, doorbell_slice(1), PROT_READ | PROT_WRITE, KFD_OFF(3, gpus[1].id), &err);
	EXPECT_RC(err, 0);
	NEED_OK(criu_info(kfd, &c));
	EXPECT_EQ(c.num_devices, ngpus - 1);
	EXPECT_RC(criu_unpause(kfd), 0);
}

static void t_all_hidden(void)
{
	struct kfd_ioctl_criu_args c;
	struct kfd_ioctl_create_event_args ev;
	int low = 0, high = 0, kfd;

	for (int g = 0; g < ngpus; g++) {
		low = gpus[g].minor < gpus[low].minor ? g : low;
		high = gpus[g].minor > gpus[high].minor ? g : high;
	}
	mask(low, high);
	kfd = kfd_open();
	EXPECT_EQ(pdds(kfd), 0);
	EXPECT_RC(criu_info(kfd, &c), -ENODEV);
	NEED_OK(kfd_event(kfd, KFD_IOC_EVENT_SIGNAL, false, 0, &ev));
	EXPECT_RC(criu_info(kfd, &c), -ENODEV);
	EXPECT_RC(criu_unpause(kfd), -EINVAL);
}

/* What counts is the cgroup at the first open. */
static void t_at_first_open(void)
{
	int kfd = kfd_open();

	mask(0, 0);
	EXPECT_EQ(pdds(kfd), ngpus);
	EXPECT_EQ(pdds(kfd_open()), ngpus);
}

static long enter_mask(void *arg)
{
	(void)arg;
	mask(0, 0);
	return 0;
}

/* An application of GPU 1 alone, though more are there. */
static long build_one(void *arg)
{
	struct world *w = arg;

	mask(0, 0);
	w->app.kfd = kfd_open();
	for (int g = 1; g < ngpus; g++) {
		w->app.drm[g] = render_open(g);
		NEED_OK(kfd_acquire(w->app.kfd, w->app.drm[g], gpus[g].id));
	}
	w->vram[1] = bo_new(&w->app, 1, 4 * PAGE, F_VRAM);
	return 0;
}

static long restore_one(void *arg)
{
	struct world *w = arg;
	struct kfd_ioctl_criu_args a;

	w->app.kfd = kfd_open();
	for (u32 i = 0; i < w->im.ndev; i++)
		w->im.dev[i].drm_fd = (u32)render_open(world_gpu(w, w->im.dev[i].user_gpu_id));
	criu_args(&w->im, &a);
	return criu_op(w->app.kfd, KFD_CRIU_OP_RESTORE, &a);
}

static void t_restore_subset(void)
{
	struct world *w = shared(sizeof(*w));
	struct peer p;

	peer_start(&p);
	NEED_OK(peer_call(&p, build_one, w));
	peer_trace(&p);
	int kfd = peer_fd(&p, w->app.kfd);
	criu_dump(kfd, &w->im);		/* by a process that sees all GPUs */
	EXPECT_EQ(w->im.ndev, ngpus - 1);
	EXPECT_EQ(w->im.nbo, 1);
	EXPECT_EQ(w->im.dev[0].user_gpu_id, gpus[1].id);
	close(kfd);
	peer_kill(&p);
	wait_owner_gone(p.pid);
	/* With a GPU too many it is refused, in a cgroup like the old one it is not. */
	peer_start(&p);
	EXPECT_RC(peer_call(&p, restore_one, w), -EINVAL);
	peer_kill(&p);
	peer_start(&p);
	NEED_OK(peer_call(&p, enter_mask, NULL));
	EXPECT_RC(peer_call(&p, restore_one, w), 0);
	EXPECT_RC(criu_resume(kfd_open(), p.pid), 0);
	peer_kill(&p);
}

static void open_all_before(struct world *w, struct kfd_ioctl_criu_args *a)
{
	(void)a;
	w->im.dev[0].drm_fd = (u32)w->arg;
}

/* The other way round: the image has a GPU that the restoring process cannot use. */
static long restore_masked(void *arg)
{
	struct world *w = arg;
	struct kfd_ioctl_criu_args a;

	mask(0, 0);
	w->app.kfd = kfd_open();
	for (u32 i = 1; i < w->im.ndev; i++)
		w->im.dev[i].drm_fd = (u32)render_open(world_gpu(w, w->im.dev[i].user_gpu_id));
	criu_args(&w->im, &a);
	w->tweak(w, &a);
	return criu_op(w->app.kfd, KFD_CRIU_OP_RESTORE, &a);
}

static void t_restore_masked(void)
{
	struct peer p;
	int kfd;
	struct world *w = world_start(&p, false, false, false, &kfd);

	criu_dump(kfd, &w->im);
	close(kfd);
	peer_kill(&p);
	wait_owner_gone(p.pid);
	w->arg = (u64)render_open(0);
	w->tweak = open_all_before;
	peer_start(&p);
	EXPECT_RC(peer_call(&p, restore_masked, w), -EINVAL);
	peer_kill(&p);
}

const struct test tests_cgroup[] = {
	{ "kfd/cgroup/one_hidden", 2, t_one_hidden },
	{ "kfd/cgroup/all_hidden", 1, t_all_hidden },
	{ "kfd/cgroup/at_first_open", 2, t_at_first_open },
	{ "kfd/cgroup/restore_subset", 2, t_restore_subset },
	{ "kfd/cgroup/restore_masked", 2, t_restore_masked },
	{ NULL, 0, NULL },
};
