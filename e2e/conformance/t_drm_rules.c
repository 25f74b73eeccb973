// SPDX-License-Identifier: Apache-2.0
/* Render node rules, driver identity, INFO queries. */
#include "conformance.h"

#include <drm/drm.h>
#include <drm/drm_mode.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define GET_CAP 0xc010640c
#define GET_CLIENT 0xc0286405

static void t_version(void)
{
	for (int g = 0; g < ngpus; g++) {
		char name[32] = "", date[32] = "", desc[64] = "";
		struct drm_version v = { 0 };
		int fd = render_open(g);

		EXPECT_RC(call_ioctl(fd, DRM_IOCTL_VERSION, &v), 0);
		EXPECT_EQ(v.name_len, 6);
		EXPECT_EQ(v.version_major, 3);
		v.name = name;
		v.date = date;
		v.desc = desc;
		v.name_len = v.date_len = 31;
		v.desc_len = 63;
		EXPECT_RC(call_ioctl(fd, DRM_IOCTL_VERSION, &v), 0);
		EXPECT(!strcmp(name, "amdgpu"), "driver name %s", name);
	}
}

static void t_core_refused(void)
{
	int fd = render_open(0);
	u64 buf[16] = { 0 };

	EXPECT_RC(call_ioctl(fd, GET_CLIENT, buf), -EACCES);
	EXPECT_RC(call_ioctl(fd, DRM_IOCTL_MODE_GETRESOURCES, buf), -EACCES);
	EXPECT_RC(call_ioctl(fd, DRM_IOCTL_SET_MASTER, NULL), -EACCES);
	EXPECT_RC(call_ioctl(fd, DRM_IOCTL_GEM_FLINK, buf), -EACCES);
	/* SCHED is for a master. */
	EXPECT_RC(call_ioctl(fd, 0x40106455, buf), -EACCES);
}

static void t_unknown(void)
{
	int fd = render_open(0);
	u64 buf[16] = { 0 };

	EXPECT_RC(call_ioctl(fd, _IOWR('d', 0x40 + 0x3f, u64), buf), -EINVAL);
	EXPECT_RC(call_ioctl(fd, _IOWR('d', 0x40 + 0x5f, u64), buf), -EINVAL);
	EXPECT_RC(call_ioctl(fd, _IOWR('d', 0xe0, u64), buf), -EINVAL);
	EXPECT_RC(call_ioctl(fd, 0xc00864d2, buf), -EINVAL);	/* CHANGE_HANDLE */
}

static void t_get_cap(void)
{
	int fd = render_open(0);
	struct drm_get_cap c = { .capability = DRM_CAP_PRIME };

	EXPECT_RC(call_ioctl(fd, GET_CAP, &c), 0);
	EXPECT_EQ(c.value & 3, 3);
	c.capability = 0x12345;
	EXPECT(call_ioctl(fd, GET_CAP, &c) < 0, "GET_CAP 0x12345: expected an error");
}

static void t_dev_info(void)
{
	for (int g = 0; g < ngpus; g++) {
		int fd = render_open(g);
		u8 d[512];

		memset(d, 0xee, sizeof(d));
		NEED_OK(drm_query(fd, AMDGPU_INFO_DEV_INFO, d, 440));
		EXPECT_EQ(rd32(d, 0), gpu_prop(g, "device_id"));
		EXPECT(rd32(d, 16) >= 110, "family %u", rd32(d, 16));
		EXPECT(rd64(d, 144) == 0x200000 || rd64(d, 144) == 0x10000, "virtual_address_offset %#llx",
		       (unsigned long long)rd64(d, 144));
		EXPECT(rd64(d, 152) > rd64(d, 144) && rd64(d, 152) % PAGE == 0, "virtual_address_max %#llx",
		       (unsigned long long)rd64(d, 152));
		EXPECT_EQ(rd32(d, 160), PAGE);
		EXPECT_EQ(rd32(d, 168), PAGE);
		EXPECT(rd32(d, 28) > 0, "gpu_counter_freq 0");
		EXPECT(rd32(d, 20) > 0, "num_shader_engines 0");
		EXPECT_EQ(d[441], 0xee);
		/* A short buffer gets the beginning. */
		memset(d, 0xee, sizeof(d));
		EXPECT_RC(drm_query(fd, AMDGPU_INFO_DEV_INFO, d, 20), 0);
		EXPECT_EQ(rd32(d, 0), gpu_prop(g, "device_id"));
		EXPECT_EQ(d[20], 0xee);
		/* A long one gets no more than there is. */
		EXPECT_RC(drm_query(fd, AMDGPU_INFO_DEV_INFO, d, sizeof(d)), 0);
		close(fd);
	}
}

static void t_info(void)
{
	int fd = render_open(0);
	u32 v[16] = { 0 };
	u64 mem[32] = { 0 };
	struct drm_amdgpu_info q = { .return_pointer = PTR(v), .return_size = 4, .query = 0x15 };

	EXPECT_RC(drm_query(fd, AMDGPU_INFO_ACCEL_WORKING, v, 4), 0);
	EXPECT(v[0] != 0, "ACCEL_WORKING is 0");
	q.read_mmr_reg.dword_offset = 0x263e;
	q.read_mmr_reg.count = 1;
	q.read_mmr_reg.instance = 0xffffffff;
	EXPECT_RC(call_ioctl(fd, DRM_IOCTL_AMDGPU_INFO, &q), 0);
	memset(&q, 0, sizeof(q));
	q.return_pointer = PTR(v);
	q.return_size = 32;
	q.query = AMDGPU_INFO_HW_IP_INFO;
	q.query_hw_ip.type = AMDGPU_HW_IP_DMA;
	memset(v, 0, sizeof(v));
	EXPECT_RC(call_ioctl(fd, DRM_IOCTL_AMDGPU_INFO, &q), 0);
	EXPECT_EQ(v[4], 256);
	EXPECT_EQ(v[5], 4);
	EXPECT(v[6] & 1, "no DMA ring: mask %#x", v[6]);
	EXPECT_RC(drm_query(fd, AMDGPU_INFO_VRAM_GTT, mem, 24), 0);
	EXPECT(mem[0] && mem[2], "VRAM_GTT: %llu and %llu", (unsigned long long)mem[0], (unsigned long long)mem[2]);
	EXPECT_RC(drm_query(fd, AMDGPU_INFO_MEMORY, mem, sizeof(struct drm_amdgpu_memory_info)), 0);
	EXPECT(mem[0] > 0, "MEMORY: total VRAM 0");
	EXPECT_RC(drm_query(fd, 0x7777, v, 4), -EINVAL);
	EXPECT_RC(drm_query(fd, AMDGPU_INFO_ACCEL_WORKING, (void *)8, 4), -EFAULT);
}

/* VRAM by the driver's count agrees with the topology's bank. */
static void t_vram_size(void)
{
	char path[128];
	u64 mem[3], size;

	for (int g = 0; g < ngpus; g++) {
		snprintf(path, sizeof(path), TOPO "/nodes/%d/mem_banks/0/properties", gpus[g].node);
		NEED(file_u64(path, "size_in_bytes", &size), "%s", path);
		NEED_OK(drm_query(render_open(g), AMDGPU_INFO_VRAM_GTT, mem, sizeof(mem)));
		EXPECT(mem[0] <= size && mem[0] > size / 2, "GPU %d: %llu bytes of VRAM, the bank has %llu", g,
		       (unsigned long long)mem[0], (unsigned long long)size);
	}
}

static void t_short_struct(void)
{
	int fd = render_open(0);
	struct { u64 ptr; u32 size, query; } q;
	u32 v = 0;

	/* INFO without its query arguments: the rest is zero. */
	q.ptr = PTR(&v);
	q.size = 4;
	q.query = AMDGPU_INFO_ACCEL_WORKING;
	EXPECT_RC(call_ioctl(fd, _IOC(_IOC_WRITE, 'd', 0x45, 16), &q), 0);
	EXPECT(v, "ACCEL_WORKING is 0");
}

static void t_nodes(void)
{
	struct stat st;
	char path[64];

	for (int g = 0; g < ngpus; g++) {
		snprintf(path, sizeof(path), "/dev/dri/renderD%d", gpus[g].minor);
		NEED(!stat(path, &st), "no %s", path);
		EXPECT(S_ISCHR(st.st_mode) && major(st.st_rdev) == 226 && (int)minor(st.st_rdev) == gpus[g].minor,
		       "%s has device number %u:%u", path, major(st.st_rdev), minor(st.st_rdev));
		info("%s has mode %o", path, st.st_mode & 0777);	/* user space's rules decide */
	}
}

static void t_rdonly(void)
{
	char path[64];
	int fd;
	u32 h;

	snprintf(path, sizeof(path), "/dev/dri/renderD%d", gpus[0].minor);
	fd = open(path, O_RDONLY);
	NEED(fd >= 0, "open read-only: errno %d", errno);
	EXPECT_RC(gem_create(fd, PAGE, AMDGPU_GEM_DOMAIN_GTT, 0, &h), 0);
}

const struct test tests_drm_rules[] = {
	{ "drm/rules/version", 1, t_version },
	{ "drm/rules/core_refused", 1, t_core_refused },
	{ "drm/rules/unknown", 1, t_unknown },
	{ "drm/rules/get_cap", 1, t_get_cap },
	{ "drm/rules/dev_info", 1, t_dev_info },
	{ "drm/rules/info", 1, t_info },
	{ "drm/rules/vram_size", 1, t_vram_size },
	{ "drm/rules/short_struct", 1, t_short_struct },
	{ "drm/rules/nodes", 1, t_nodes },
	{ "drm/rules/rdonly", 1, t_rdonly },
	{ NULL, 0, NULL },
};
