// SPDX-License-Identifier: GPL-2.0
/*
 * AMDGPU_INFO: the queries that libdrm, the ROCm thunk and ROCr make, and the cheap ones beside them. Every answer is
 * cut to the size that the caller gives.
 */
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include "drm_sim.h"

#define SIM_MAX_REGS 128
#define SIM_CLOCK_KHZ 100000		/* of the counter that TIMESTAMP packets and GET_CLOCK_COUNTERS show */

static int sim_put(const struct drm_amdgpu_info *info, const void *src, size_t size)
{
	size = min_t(size_t, size, info->return_size);
	return copy_to_user(u64_to_user_ptr(info->return_pointer), src, size) ? -EFAULT : 0;
}

static int sim_put_u32(const struct drm_amdgpu_info *info, u32 v)
{
	return sim_put(info, &v, sizeof(v));
}

static int sim_put_u64(const struct drm_amdgpu_info *info, u64 v)
{
	return sim_put(info, &v, sizeof(v));
}

static u64 sim_vram_used(struct sim_gpu *gpu)
{
	u64 used;

	mutex_lock(&gpu->lock);
	used = gpu->vram_used;
	mutex_unlock(&gpu->lock);
	return used;
}

static int sim_info_hw_ip(struct sim_gpu *gpu, const struct drm_amdgpu_info *info)
{
	struct drm_amdgpu_info_hw_ip ip = { };
	u32 gfx = gpu->desc->gfx_target_version;

	if (info->query_hw_ip.type >= AMDGPU_HW_IP_NUM || info->query_hw_ip.ip_instance >= AMDGPU_HW_IP_INSTANCE_MAX_COUNT)
		return -EINVAL;
	ip.ib_start_alignment = 256;
	ip.ib_size_alignment = 4;
	switch (info->query_hw_ip.type) {
	case AMDGPU_HW_IP_GFX:
	case AMDGPU_HW_IP_COMPUTE:
		/* The engine is there, but takes no submissions in this simulation: no ring. */
		ip.hw_ip_version_major = gfx / 10000;
		ip.hw_ip_version_minor = gfx / 100 % 100;
		break;
	case AMDGPU_HW_IP_DMA:
		ip.hw_ip_version_major = gpu->desc->family >= AMDGPU_FAMILY_NV ? 5 : gpu->desc->family >= AMDGPU_FAMILY_AI ? 4 : 3;
		ip.available_rings = (1u << min_t(u32, SIM_DMA_RINGS, max(gpu->desc->num_sdma_engines, 1u))) - 1;
		break;
	}
	return sim_put(info, &ip, sizeof(ip));
}

static int sim_info_device(struct sim_gpu *gpu, const struct drm_amdgpu_info *info)
{
	const struct sim_node_desc *d = gpu->desc;
	struct drm_amdgpu_info_device *dev = kzalloc(sizeof(*dev), GFP_KERNEL);
	u32 arrays = max(d->simd_arrays_per_engine, 1u), cus = d->simd_count / max(d->simd_per_cu, 1u), se, sh;
	u64 limit = sim_vm_limit(gpu);
	int r;

	if (!dev)
		return -ENOMEM;
	dev->device_id = d->device_id;
	dev->family = d->family;
	dev->num_shader_engines = max(d->array_count / arrays / max(d->num_xcc, 1u), 1u);
	dev->num_shader_arrays_per_engine = arrays;
	dev->gpu_counter_freq = SIM_CLOCK_KHZ;
	dev->max_engine_clock = 1700000;
	dev->max_memory_clock = 1600000;
	dev->min_engine_clock = 500000;
	dev->min_memory_clock = 400000;
	dev->cu_active_number = cus;
	dev->num_cu_per_sh = d->cu_per_simd_array;
	for (se = 0; se < 4 && se < dev->num_shader_engines; se++)
		for (sh = 0; sh < 4 && sh < arrays; sh++)
			dev->cu_bitmap[se][sh] = d->cu_per_simd_array < 32 ? (1u << d->cu_per_simd_array) - 1 : ~0u;
	memcpy(dev->cu_ao_bitmap, dev->cu_bitmap, sizeof(dev->cu_ao_bitmap));
	dev->num_hw_gfx_contexts = 8;
	dev->pcie_gen = 4;
	dev->pcie_num_lanes = 16;
	dev->virtual_address_offset = SIM_VA_BOTTOM;
	dev->virtual_address_max = min(limit, SIM_VA_HOLE_START);
	if (limit > SIM_VA_HOLE_START) {
		dev->high_va_offset = SIM_VA_HOLE_END;
		dev->high_va_max = SIM_VA_HOLE_END | limit;
	}
	dev->virtual_address_alignment = PAGE_SIZE;
	dev->pte_fragment_size = 2 << 20;
	dev->gart_page_size = PAGE_SIZE;
	dev->vram_type = AMDGPU_VRAM_TYPE_HBM;
	dev->vram_bit_width = 4096;
	dev->wave_front_size = d->wave_front_size;
	dev->num_shader_visible_vgprs = 256;
	dev->num_tcc_blocks = 16;
	r = sim_put(info, dev, sizeof(*dev));
	kfree(dev);
	return r;
}

static int sim_info_memory(struct sim_gpu *gpu, const struct drm_amdgpu_info *info)
{
	struct drm_amdgpu_memory_info m = { };
	u64 gtt = sim_gtt_limit(), gtt_used = atomic64_read(&gpu->gtt_used);

	mutex_lock(&gpu->lock);
	m.vram.total_heap_size = gpu->desc->mem_bytes;
	m.vram.usable_heap_size = gpu->vram_total;
	m.vram.heap_usage = gpu->vram_used;
	mutex_unlock(&gpu->lock);
	m.vram.max_allocation = m.vram.usable_heap_size / 4 * 3;
	m.cpu_accessible_vram = m.vram;	/* large BAR: all of it */
	m.gtt.total_heap_size = gtt;
	m.gtt.usable_heap_size = gtt;
	m.gtt.heap_usage = gtt_used;
	m.gtt.max_allocation = gtt / 4 * 3;
	return sim_put(info, &m, sizeof(m));
}

static int sim_info_vram_gtt(struct sim_gpu *gpu, const struct drm_amdgpu_info *info)
{
	struct drm_amdgpu_info_vram_gtt v = { };

	mutex_lock(&gpu->lock);
	v.vram_size = gpu->vram_total;
	mutex_unlock(&gpu->lock);
	v.vram_cpu_accessible_size = v.vram_size;
	v.gtt_size = sim_gtt_limit();
	return sim_put(info, &v, sizeof(v));
}

/* Every register reads as zero; libdrm only wants to be answered. */
static int sim_info_registers(const struct drm_amdgpu_info *info)
{
	u32 n = info->read_mmr_reg.count;
	u32 *regs;
	int r;

	if (n > SIM_MAX_REGS)
		return -EINVAL;
	regs = kcalloc(max(n, 1u), sizeof(*regs), GFP_KERNEL);
	if (!regs)
		return -ENOMEM;
	r = sim_put(info, regs, n * sizeof(*regs));
	kfree(regs);
	return r;
}

static int sim_info_firmware(struct sim_gpu *gpu, const struct drm_amdgpu_info *info)
{
	struct drm_amdgpu_info_firmware fw = { };

	switch (info->query_fw.fw_type) {
	case AMDGPU_INFO_FW_GFX_MEC:
		fw.ver = gpu->desc->fw_version;
		fw.feature = gpu->desc->fw_version;
		break;
	case AMDGPU_INFO_FW_SDMA:
		if (info->query_fw.index >= max(gpu->desc->num_sdma_engines, 1u))
			return -EINVAL;
		fw.ver = gpu->desc->sdma_fw_version;
		fw.feature = gpu->desc->sdma_fw_version;
		break;
	default:
		if (info->query_fw.fw_type > AMDGPU_INFO_FW_VPE)
			return -EINVAL;
	}
	return sim_put(info, &fw, sizeof(fw));
}

static int sim_info_gds(const struct drm_amdgpu_info *info)
{
	struct drm_amdgpu_info_gds gds = { };

	return sim_put(info, &gds, sizeof(gds));
}

static int sim_info_max_ibs(const struct drm_amdgpu_info *info)
{
	u32 n[AMDGPU_HW_IP_NUM] = { };
	u32 i;

	for (i = 0; i < AMDGPU_HW_IP_NUM; i++)
		n[i] = i == AMDGPU_HW_IP_GFX ? 192 : i == AMDGPU_HW_IP_COMPUTE ? 125 : 49;
	return sim_put(info, n, sizeof(n));
}

int sim_ioc_info(struct drm_device *dev, void *data, struct drm_file *file)
{
	struct sim_gpu *gpu = drm_to_gpu(dev);
	const struct drm_amdgpu_info *info = data;

	if (!info->return_size || !info->return_pointer)
		return -EINVAL;
	switch (info->query) {
	case AMDGPU_INFO_ACCEL_WORKING:
		return sim_put_u32(info, 1);
	case AMDGPU_INFO_HW_IP_INFO:
		return sim_info_hw_ip(gpu, info);
	case AMDGPU_INFO_HW_IP_COUNT:
		if (info->query_hw_ip.type >= AMDGPU_HW_IP_NUM)
			return -EINVAL;
		return sim_put_u32(info, info->query_hw_ip.type <= AMDGPU_HW_IP_DMA);
	case AMDGPU_INFO_TIMESTAMP:
		return sim_put_u64(info, div_u64(ktime_get_ns(), 1000000 / SIM_CLOCK_KHZ));
	case AMDGPU_INFO_FW_VERSION:
		return sim_info_firmware(gpu, info);
	case AMDGPU_INFO_VRAM_USAGE:
	case AMDGPU_INFO_VIS_VRAM_USAGE:
		return sim_put_u64(info, sim_vram_used(gpu));
	case AMDGPU_INFO_GTT_USAGE:
		return sim_put_u64(info, atomic64_read(&gpu->gtt_used));
	case AMDGPU_INFO_NUM_BYTES_MOVED:
	case AMDGPU_INFO_NUM_VRAM_CPU_PAGE_FAULTS:
	case AMDGPU_INFO_RAS_ENABLED_FEATURES:
		return sim_put_u64(info, 0);
	case AMDGPU_INFO_NUM_EVICTIONS:
		return sim_put_u64(info, atomic64_read(&gpu->cnt_evictions));
	case AMDGPU_INFO_GDS_CONFIG:
		return sim_info_gds(info);
	case AMDGPU_INFO_VRAM_GTT:
		return sim_info_vram_gtt(gpu, info);
	case AMDGPU_INFO_MEMORY:
		return sim_info_memory(gpu, info);
	case AMDGPU_INFO_READ_MMR_REG:
		return sim_info_registers(info);
	case AMDGPU_INFO_DEV_INFO:
		return sim_info_device(gpu, info);
	case AMDGPU_INFO_VRAM_LOST_COUNTER:
		return sim_put_u32(info, 0);
	case AMDGPU_INFO_MAX_IBS:
		return sim_info_max_ibs(info);
	case AMDGPU_INFO_SENSOR:
		return -ENOENT;
	default:
		return -EINVAL;
	}
}
