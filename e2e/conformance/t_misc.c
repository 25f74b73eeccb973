// SPDX-License-Identifier: Apache-2.0
/* Apertures, policies, clocks and the calls of which a runtime only wants an answer. */
#include "conformance.h"

#define BAD_ID 1u

static void check_aperture(const struct kfd_process_device_apertures *p, int g)
{
	EXPECT_EQ(p->gpu_id, gpus[g].id);
	if (gpu_prop(g, "gfx_target_version") < 90000)
		return;
	EXPECT_EQ(p->lds_base, 1ull << 48);
	EXPECT_EQ(p->lds_limit, (1ull << 48) + (4ull << 30) - 1);
	EXPECT_EQ(p->scratch_base, 2ull << 48);
	EXPECT_EQ(p->scratch_limit, (2ull << 48) + (4ull << 30) - 1);
	EXPECT_EQ(p->gpuvm_base, 0x10000);
	EXPECT_EQ(p->gpuvm_limit, (1ull << 47) - 1);
}

static void t_apertures_new(void)
{
	int kfd = kfd_open();
	struct kfd_process_device_apertures ap[MAX_GPUS + 8];
	struct kfd_ioctl_get_process_apertures_new_args a = { 0 };

	EXPECT_RC(call_ioctl(kfd, AMDKFD_IOC_GET_PROCESS_APERTURES_NEW, &a), 0);
	EXPECT_EQ(a.num_of_nodes, ngpus);
	a.kfd_process_device_apertures_ptr = PTR(ap);
	a.num_of_nodes = (u32)nnodes + 1;
	EXPECT_RC(call_ioctl(kfd, AMDKFD_IOC_GET_PROCESS_APERTURES_NEW, &a), -EINVAL);
	memset(ap, 0xee, sizeof(ap));
	a.num_of_nodes = (u32)nnodes;
	NEED_OK(call_ioctl(kfd, AMDKFD_IOC_GET_PROCESS_APERTURES_NEW, &a));
	EXPECT_EQ(a.num_of_nodes, ngpus);
	for (int g = 0; g < ngpus; g++)
		check_aperture(&ap[g], g);
	EXPECT_EQ(ap[ngpus].gpu_id, 0xeeeeeeee);
	memset(ap, 0xee, sizeof(ap));
	a.num_of_nodes = 1;
	NEED_OK(call_ioctl(kfd, AMDKFD_IOC_GET_PROCESS_APERTURES_NEW, &a));
	EXPECT_EQ(a.num_of_nodes, 1);
	check_aperture(&ap[0], 0);
	EXPECT_EQ(ap[1].gpu_id, 0xeeeeeeee);
	a.kfd_process_device_apertures_ptr = 8;
	EXPECT_RC(call_ioctl(kfd, AMDKFD_IOC_GET_PROCESS_APERTURES_NEW, &a), -EFAULT);
}

static void t_apertures_old(void)
{
	int kfd = kfd_open();
	struct kfd_ioctl_get_process_apertures_args a;

	memset(&a, 0, sizeof(a));
	NEED_OK(call_ioctl(kfd, AMDKFD_IOC_GET_PROCESS_APERTURES, &a));
	EXPECT_EQ(a.num_of_nodes, ngpus < 7 ? ngpus : 7);
	for (int g = 0; g < ngpus && g < 7; g++)
		check_aperture(&a.process_apertures[g], g);
}

static void t_memory_policy(void)
{
	struct app a;
	struct kfd_ioctl_set_memory_policy_args m = { .alternate_aperture_base = 0x200000,
						      .alternate_aperture_size = 1ull << 40, .gpu_id = gpus[0].id,
						      .default_policy = 1, .alternate_policy = 0 };

	app_start(&a);
	EXPECT_RC(call_ioctl(a.kfd, AMDKFD_IOC_SET_MEMORY_POLICY, &m), 0);
	m.default_policy = 2;
	EXPECT_RC(call_ioctl(a.kfd, AMDKFD_IOC_SET_MEMORY_POLICY, &m), -EINVAL);
	m.default_policy = 0;
	m.alternate_policy = 2;
	EXPECT_RC(call_ioctl(a.kfd, AMDKFD_IOC_SET_MEMORY_POLICY, &m), -EINVAL);
	m.alternate_policy = 1;
	m.gpu_id = BAD_ID;
	EXPECT_RC(call_ioctl(a.kfd, AMDKFD_IOC_SET_MEMORY_POLICY, &m), -EINVAL);
}

static void t_scratch_trap_tile(void)
{
	struct app a;
	struct kfd_ioctl_set_scratch_backing_va_args s = { .va_addr = 0x7f0000000000, .gpu_id = gpus[0].id };
	struct kfd_ioctl_set_trap_handler_args t = { .tba_addr = 0x7f0000000000, .gpu_id = gpus[0].id };
	u32 tiles[64], macro[64];
	struct kfd_ioctl_get_tile_config_args c = {
		.tile_config_ptr = PTR(tiles), .macro_tile_config_ptr = PTR(macro), .num_tile_configs = 64,
		.num_macro_tile_configs = 64, .gpu_id = gpus[0].id,
	};

	app_start(&a);
	EXPECT_RC(call_ioctl(a.kfd, AMDKFD_IOC_SET_SCRATCH_BACKING_VA, &s), 0);
	EXPECT_RC(call_ioctl(a.kfd, AMDKFD_IOC_SET_TRAP_HANDLER, &t), 0);
	EXPECT_RC(call_ioctl(a.kfd, AMDKFD_IOC_GET_TILE_CONFIG, &c), 0);
	EXPECT(c.num_tile_configs <= 64 && c.num_macro_tile_configs <= 64, "GET_TILE_CONFIG: %u and %u entries",
	       c.num_tile_configs, c.num_macro_tile_configs);
	s.gpu_id = t.gpu_id = c.gpu_id = BAD_ID;
	EXPECT_RC(call_ioctl(a.kfd, AMDKFD_IOC_SET_SCRATCH_BACKING_VA, &s), -EINVAL);
	EXPECT_RC(call_ioctl(a.kfd, AMDKFD_IOC_SET_TRAP_HANDLER, &t), -EINVAL);
	EXPECT_RC(call_ioctl(a.kfd, AMDKFD_IOC_GET_TILE_CONFIG, &c), -EINVAL);
}

static void t_clock(void)
{
	int kfd = kfd_open();
	struct kfd_ioctl_get_clock_counters_args c[2] = { { .gpu_id = gpus[0].id }, { .gpu_id = gpus[0].id } };
	struct kfd_ioctl_get_clock_counters_args none = { .gpu_id = BAD_ID };

	EXPECT_RC(call_ioctl(kfd, AMDKFD_IOC_GET_CLOCK_COUNTERS, &c[0]), 0);
	sleep_ms(5);
	EXPECT_RC(call_ioctl(kfd, AMDKFD_IOC_GET_CLOCK_COUNTERS, &c[1]), 0);
	EXPECT_EQ(c[0].system_clock_freq, 1000000000);
	EXPECT(c[1].system_clock_counter > c[0].system_clock_counter, "the system clock stands still");
	EXPECT(c[1].cpu_clock_counter > c[0].cpu_clock_counter, "the CPU clock stands still");
	EXPECT(c[1].gpu_clock_counter > c[0].gpu_clock_counter, "the GPU clock stands still");
	EXPECT_RC(call_ioctl(kfd, AMDKFD_IOC_GET_CLOCK_COUNTERS, &none), 0);
	EXPECT_EQ(none.gpu_clock_counter, 0);
}

static void t_runtime_enable(void)
{
	struct app a;
	struct kfd_ioctl_runtime_enable_args r = { .mode_mask = 1, .r_debug = PTR(&r) };
	u32 minor;
	struct kfd_ioctl_get_version_args v = { 0 };
	long rc;

	app_start(&a);
	NEED_OK(call_ioctl(a.kfd, AMDKFD_IOC_GET_VERSION, &v));
	minor = v.minor_version;
	if (minor < 13)
		skip("interface version 1.%u", minor);
	rc = call_ioctl(a.kfd, AMDKFD_IOC_RUNTIME_ENABLE, &r);
	EXPECT_RC(rc, 0);
	EXPECT_RC(call_ioctl(a.kfd, AMDKFD_IOC_RUNTIME_ENABLE, &r), -EBUSY);
	r.mode_mask = 0;
	rc = call_ioctl(a.kfd, AMDKFD_IOC_RUNTIME_ENABLE, &r);
	info("RUNTIME_ENABLE with mode 0: %ld", rc);
	r.mode_mask = 1;
	EXPECT_RC(call_ioctl(a.kfd, AMDKFD_IOC_RUNTIME_ENABLE, &r), 0);
}

static void t_smi(void)
{
	int kfd = kfd_open();
	struct kfd_ioctl_smi_events_args s = { .gpuid = gpus[0].id };
	char link[128];

	EXPECT_RC(call_ioctl(kfd, AMDKFD_IOC_SMI_EVENTS, &s), 0);
	EXPECT(!fd_path(getpid(), (int)s.anon_fd, link, sizeof(link)) && strstr(link, "anon_inode"),
	       "SMI_EVENTS does not give an anon inode");
	s.gpuid = BAD_ID;
	EXPECT_RC(call_ioctl(kfd, AMDKFD_IOC_SMI_EVENTS, &s), -EINVAL);
}

static void t_svm(void)
{
	struct app a;
	struct {
		struct kfd_ioctl_svm_args a;
		struct kfd_ioctl_svm_attribute at[4];
	} s = { .a = { .op = KFD_IOCTL_SVM_OP_SET_ATTR, .nattr = 1 } };
	unsigned long req = _IOC(_IOC_READ | _IOC_WRITE, 'K', 0x20, sizeof(s));
	void *p = anon(4 * PAGE);
	bool have = gpu_prop(0, "capability") & 0x08000000;

	app_start(&a);
	s.at[0].type = KFD_IOCTL_SVM_ATTR_GRANULARITY;
	s.at[0].value = 9;
	s.a.start_addr = PTR(p);
	s.a.size = 4 * PAGE;
	if (!have) {
		/* Not built in the kernel: every use is refused. */
		EXPECT_RC(call_ioctl(a.kfd, req, &s), -EPERM);
		return;
	}
	EXPECT_RC(call_ioctl(a.kfd, req, &s), 0);
	s.a.op = KFD_IOCTL_SVM_OP_GET_ATTR;
	s.at[0].value = 0;
	EXPECT_RC(call_ioctl(a.kfd, req, &s), 0);
	EXPECT_EQ(s.at[0].value, 9);
	s.a.op = KFD_IOCTL_SVM_OP_SET_ATTR;
	s.a.start_addr = PTR(p) + 8;
	EXPECT_RC(call_ioctl(a.kfd, req, &s), -EINVAL);
	s.a.start_addr = PTR(p);
	s.a.size = 0;
	EXPECT_RC(call_ioctl(a.kfd, req, &s), -EINVAL);
	s.a.size = 100;
	EXPECT_RC(call_ioctl(a.kfd, req, &s), -EINVAL);
	s.a.size = 4 * PAGE;
	s.a.nattr = 500;
	EXPECT_RC(call_ioctl(a.kfd, req, &s), -EINVAL);
}

static void t_svm_overlap(void)
{
	struct app a;
	struct {
		struct kfd_ioctl_svm_args a;
		struct kfd_ioctl_svm_attribute at[1];
	} s = { .a = { .op = KFD_IOCTL_SVM_OP_SET_ATTR, .nattr = 1, .size = 4 * PAGE } };
	struct bo b = { .size = PAGE, .flags = F_GTT };

	if (!(gpu_prop(0, "capability") & 0x08000000))
		skip("no SVM");
	app_start(&a);
	s.a.start_addr = PTR(anon(4 * PAGE));
	s.at[0].type = KFD_IOCTL_SVM_ATTR_GRANULARITY;
	s.at[0].value = 9;
	NEED_OK(call_ioctl(a.kfd, _IOC(_IOC_READ | _IOC_WRITE, 'K', 0x20, sizeof(s)), &s));
	b.va = s.a.start_addr + PAGE;
	EXPECT_RC(kfd_alloc(a.kfd, &b, gpus[0].id), -EADDRINUSE);
}

static void t_dbg_trap_gws(void)
{
	int kfd = kfd_open();
	u8 trap[32] = { 0 };
	struct kfd_ioctl_alloc_queue_gws_args g = { .queue_id = 777, .num_gws = 1 };

	EXPECT(call_ioctl(kfd, 0xc0204b26, trap) < 0, "DBG_TRAP on nothing: expected an error");
	EXPECT(call_ioctl(kfd, AMDKFD_IOC_ALLOC_QUEUE_GWS, &g) < 0, "ALLOC_QUEUE_GWS of an unknown queue: expected an error");
}

static void t_xnack(void)
{
	int kfd = kfd_open();
	struct kfd_ioctl_set_xnack_mode_args x = { .xnack_enabled = -1 };
	long rc;

	EXPECT_RC(call_ioctl(kfd, AMDKFD_IOC_SET_XNACK_MODE, &x), 0);
	EXPECT(x.xnack_enabled == 0 || x.xnack_enabled == 1, "XNACK query gives %d", x.xnack_enabled);
	x.xnack_enabled = !x.xnack_enabled;
	rc = call_ioctl(kfd, AMDKFD_IOC_SET_XNACK_MODE, &x);
	EXPECT(rc == 0 || rc == -EPERM, "SET_XNACK_MODE: expected 0 or -EPERM, got %ld", rc);
	info("changing the XNACK mode: %ld", rc);
}

const struct test tests_misc[] = {
	{ "kfd/misc/apertures_new", 1, t_apertures_new },
	{ "kfd/misc/apertures_old", 1, t_apertures_old },
	{ "kfd/misc/memory_policy", 1, t_memory_policy },
	{ "kfd/misc/scratch_trap_tile", 1, t_scratch_trap_tile },
	{ "kfd/misc/clock", 1, t_clock },
	{ "kfd/misc/runtime_enable", 1, t_runtime_enable },
	{ "kfd/misc/smi", 1, t_smi },
	{ "kfd/misc/svm", 1, t_svm },
	{ "kfd/misc/svm_overlap", 1, t_svm_overlap },
	{ "kfd/misc/dbg_trap_gws", 1, t_dbg_trap_gws },
	{ "kfd/misc/xnack", 1, t_xnack },
	{ NULL, 0, NULL },
};
