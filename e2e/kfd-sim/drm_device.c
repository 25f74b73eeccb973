// SPDX-License-Identifier: GPL-2.0
/*
 * One DRM device "amdgpu" per simulated GPU, each with a platform device of its own as parent, so that libdrm can tell
 * the GPUs apart by their directories in sysfs.
 */
#include <linux/device_cgroup.h>
#include <linux/file.h>
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/version.h>
#include <drm/drm_drv.h>
#include <drm/drm_prime.h>
#include <drm/drm_print.h>
#include <drm/drm_vma_manager.h>
#include "drm_sim.h"

#define SIM_PASID_MIN 0x8000		/* the driver hands out 16-bit numbers from the top half */
#define SIM_PASID_MAX 0xffff

static struct platform_device *sim_parents[SIM_MAX_GPUS];
static struct sim_gpu *sim_gpus[SIM_MAX_GPUS];
static u32 sim_ngpus;
static DEFINE_IDA(sim_pasids);

/* ------------------------------------------------------------------ finding GPUs */

u32 sim_gpu_count(void)
{
	return sim_ngpus;
}

struct sim_gpu *sim_gpu_by_index(u32 index)
{
	return index < sim_ngpus ? sim_gpus[index] : NULL;
}

struct sim_gpu *sim_gpu_by_actual_id(u32 gpu_id)
{
	u32 i;

	for (i = 0; gpu_id && i < sim_ngpus; i++)
		if (sim_gpus[i]->desc->gpu_id == gpu_id)
			return sim_gpus[i];
	return NULL;
}

bool sim_gpu_allowed(struct sim_gpu *gpu)
{
	if (READ_ONCE(gpu->masked))
		return false;
	return !devcgroup_check_permission(DEVCG_DEV_CHAR, DRM_MAJOR, gpu->desc->drm_render_minor,
					   DEVCG_ACC_READ | DEVCG_ACC_WRITE);
}

/* ------------------------------------------------------------------ open files */

static int sim_drm_open(struct drm_device *dev, struct drm_file *file)
{
	struct sim_gpu *gpu = drm_to_gpu(dev);
	struct sim_fpriv *fp;
	int pasid;

	if (READ_ONCE(gpu->masked))
		return -EPERM;
	pasid = ida_alloc_range(&sim_pasids, SIM_PASID_MIN, SIM_PASID_MAX, GFP_KERNEL);
	if (pasid < 0)
		return pasid;
	fp = kzalloc(sizeof(*fp), GFP_KERNEL);
	if (fp)
		fp->vm = sim_vm_create(gpu, pasid);
	if (!fp || !fp->vm) {
		kfree(fp);
		ida_free(&sim_pasids, pasid);
		return -ENOMEM;
	}
	fp->gpu = gpu;
	mutex_init(&fp->lock);
	idr_init(&fp->ctxs);
	idr_init(&fp->bo_lists);
	file->driver_priv = fp;
	return 0;
}

static void sim_drm_postclose(struct drm_device *dev, struct drm_file *file)
{
	struct sim_fpriv *fp = file->driver_priv;

	if (!fp)
		return;
	sim_ctx_drop_all(fp);
	sim_bo_list_drop_all(fp);
	ida_free(&sim_pasids, fp->vm->own_pasid);
	sim_vm_put(fp->vm);
	mutex_destroy(&fp->lock);
	kfree(fp);
	file->driver_priv = NULL;
}

/* Before the core takes the handles away: the engine must let go of this file's address space. */
static int sim_drm_release(struct inode *inode, struct file *filp)
{
	struct drm_file *file = filp->private_data;
	struct sim_fpriv *fp = file->driver_priv;

	if (fp) {
		sim_ctx_cancel_all(fp);
		wait_event(fp->gpu->idle, !atomic_read(&fp->vm->jobs));
	}
	return drm_release(inode, filp);
}

static void sim_drm_fdinfo(struct drm_printer *p, struct drm_file *file)
{
	struct sim_fpriv *fp = file->driver_priv;
	struct drm_gem_object *obj;
	u64 vram = 0, gtt = 0, cpu = 0;
	int id;

	spin_lock(&file->table_lock);
	idr_for_each_entry(&file->object_idr, obj, id) {
		struct sim_bo *bo = obj ? gem_to_sim_bo(obj) : NULL;

		if (bo)
			*(bo->domain == SIM_DOMAIN_VRAM ? &vram : bo->domain == SIM_DOMAIN_GTT ? &gtt : &cpu) += obj->size;
	}
	spin_unlock(&file->table_lock);
	drm_printf(p, "pasid:\t%u\n", fp->vm->pasid);
	drm_printf(p, "drm-memory-vram:\t%llu KiB\n", vram >> 10);
	drm_printf(p, "drm-memory-gtt: \t%llu KiB\n", gtt >> 10);
	drm_printf(p, "drm-memory-cpu: \t%llu KiB\n", cpu >> 10);
}

/* ------------------------------------------------------------------ ioctls */

static int sim_ioc_sched(struct drm_device *dev, void *data, struct drm_file *file)
{
	return -EINVAL;
}

#define SIM_IOCTL(name, func) DRM_IOCTL_DEF_DRV(name, func, DRM_AUTH | DRM_RENDER_ALLOW)
/* Newer calls and newer sizes than the headers of some kernels have. */
#define DRM_IOCTL_SIM_GEM_OP DRM_IOWR(DRM_COMMAND_BASE + DRM_AMDGPU_GEM_OP, struct sim_gem_op)
#define DRM_IOCTL_SIM_GEM_LIST_HANDLES DRM_IOWR(DRM_COMMAND_BASE + SIM_GEM_LIST_HANDLES_NR, struct sim_list_handles)

static const struct drm_ioctl_desc sim_ioctls[] = {
	SIM_IOCTL(AMDGPU_GEM_CREATE, sim_ioc_gem_create),
	SIM_IOCTL(AMDGPU_CTX, sim_ioc_ctx),
	SIM_IOCTL(AMDGPU_VM, sim_ioc_vm),
	DRM_IOCTL_DEF_DRV(AMDGPU_SCHED, sim_ioc_sched, DRM_MASTER),
	SIM_IOCTL(AMDGPU_BO_LIST, sim_ioc_bo_list),
	SIM_IOCTL(AMDGPU_GEM_MMAP, sim_ioc_gem_mmap),
	SIM_IOCTL(AMDGPU_GEM_WAIT_IDLE, sim_ioc_gem_wait_idle),
	SIM_IOCTL(AMDGPU_CS, sim_ioc_cs),
	SIM_IOCTL(AMDGPU_INFO, sim_ioc_info),
	SIM_IOCTL(AMDGPU_WAIT_CS, sim_ioc_wait_cs),
	SIM_IOCTL(AMDGPU_WAIT_FENCES, sim_ioc_wait_fences),
	SIM_IOCTL(AMDGPU_GEM_METADATA, sim_ioc_gem_metadata),
	SIM_IOCTL(AMDGPU_GEM_VA, sim_ioc_gem_va),
	[DRM_AMDGPU_GEM_OP] = { .cmd = DRM_IOCTL_SIM_GEM_OP, .func = sim_ioc_gem_op,
		.flags = DRM_AUTH | DRM_RENDER_ALLOW, .name = "AMDGPU_GEM_OP" },
	SIM_IOCTL(AMDGPU_GEM_USERPTR, sim_ioc_gem_userptr),
	[SIM_GEM_LIST_HANDLES_NR] = { .cmd = DRM_IOCTL_SIM_GEM_LIST_HANDLES, .func = sim_ioc_gem_list_handles,
		.flags = DRM_AUTH | DRM_RENDER_ALLOW, .name = "AMDGPU_GEM_LIST_HANDLES" },
};

/* Where faults may be armed: the driver's calls, and those of the core that matter to a plugin. */
static const char *sim_point(unsigned int nr)
{
	switch (nr) {
	case 0x00: return "drm.version";
	case 0x09: return "drm.gem_close";
	case 0x2d: return "drm.prime_handle_to_fd";
	case 0x2e: return "drm.prime_fd_to_handle";
	case DRM_COMMAND_BASE + DRM_AMDGPU_GEM_CREATE: return "drm.gem_create";
	case DRM_COMMAND_BASE + DRM_AMDGPU_GEM_MMAP: return "drm.gem_mmap";
	case DRM_COMMAND_BASE + DRM_AMDGPU_CTX: return "drm.ctx";
	case DRM_COMMAND_BASE + DRM_AMDGPU_BO_LIST: return "drm.bo_list";
	case DRM_COMMAND_BASE + DRM_AMDGPU_CS: return "drm.cs";
	case DRM_COMMAND_BASE + DRM_AMDGPU_INFO: return "drm.info";
	case DRM_COMMAND_BASE + DRM_AMDGPU_GEM_METADATA: return "drm.gem_metadata";
	case DRM_COMMAND_BASE + DRM_AMDGPU_GEM_WAIT_IDLE: return "drm.gem_wait_idle";
	case DRM_COMMAND_BASE + DRM_AMDGPU_GEM_VA: return "drm.gem_va";
	case DRM_COMMAND_BASE + DRM_AMDGPU_WAIT_CS: return "drm.wait_cs";
	case DRM_COMMAND_BASE + DRM_AMDGPU_GEM_OP: return "drm.gem_op";
	case DRM_COMMAND_BASE + DRM_AMDGPU_GEM_USERPTR: return "drm.gem_userptr";
	case DRM_COMMAND_BASE + DRM_AMDGPU_WAIT_FENCES: return "drm.wait_fences";
	case DRM_COMMAND_BASE + DRM_AMDGPU_VM: return "drm.vm";
	case DRM_COMMAND_BASE + DRM_AMDGPU_SCHED: return "drm.sched";
	case DRM_COMMAND_BASE + SIM_GEM_LIST_HANDLES_NR: return "drm.gem_list_handles";
	default: return NULL;
	}
}

static long sim_drm_ioctl(struct file *filp, unsigned int cmd, unsigned long arg)
{
	const char *point = _IOC_TYPE(cmd) == DRM_IOCTL_BASE ? sim_point(_IOC_NR(cmd)) : NULL;
	int r = point ? sim_fault_check(point) : 0;

	return r ?: drm_ioctl(filp, cmd, arg);
}

static int sim_prime_fd_to_handle(struct drm_device *dev, struct drm_file *file, int fd, u32 *handle)
{
	int r = drm_gem_prime_fd_to_handle(dev, file, fd, handle);

	if (!r)
		atomic64_inc(&drm_to_gpu(dev)->cnt_import);
	return r;
}

static const struct file_operations sim_drm_fops = {
	.owner = THIS_MODULE,
	.open = drm_open,
	.release = sim_drm_release,
	.unlocked_ioctl = sim_drm_ioctl,
	.compat_ioctl = drm_compat_ioctl,
	.mmap = drm_gem_mmap,
	.poll = drm_poll,
	.read = drm_read,
	.llseek = noop_llseek,
	.show_fdinfo = drm_show_fdinfo,
#ifdef FOP_UNSIGNED_OFFSET
	.fop_flags = FOP_UNSIGNED_OFFSET,
#endif
};

static const struct drm_driver sim_driver = {
	.driver_features = DRIVER_GEM | DRIVER_RENDER,
	.open = sim_drm_open,
	.postclose = sim_drm_postclose,
	.show_fdinfo = sim_drm_fdinfo,
	.prime_fd_to_handle = sim_prime_fd_to_handle,
	.gem_prime_import = sim_gem_import,
	.ioctls = sim_ioctls,
	.num_ioctls = ARRAY_SIZE(sim_ioctls),
	.fops = &sim_drm_fops,
	.name = "amdgpu",
	.desc = "AMD GPU",
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 14, 0)
	.date = "20150101",
#endif
	.major = 3,
	.minor = 61,
};

/* ------------------------------------------------------------------ what KFD asks of a render file */

struct drm_file *sim_drm_file(struct file *file)
{
	struct drm_file *priv;

	if (file->f_op != &sim_drm_fops)
		return ERR_PTR(-EINVAL);
	priv = file->private_data;
	return drm_is_render_client(priv) ? priv : ERR_PTR(-EINVAL);
}

struct sim_vm *sim_vm_of_file(struct file *file, struct sim_gpu **gpu)
{
	struct drm_file *priv = sim_drm_file(file);
	struct sim_fpriv *fp;

	if (IS_ERR(priv))
		return ERR_CAST(priv);
	fp = priv->driver_priv;
	*gpu = fp->gpu;
	return fp->vm;
}

int sim_bo_allow(struct sim_bo *bo, struct file *render_file)
{
	struct drm_file *priv = sim_drm_file(render_file);

	return IS_ERR(priv) ? PTR_ERR(priv) : drm_vma_node_allow(&bo->base.vma_node, priv);
}

void sim_bo_revoke(struct sim_bo *bo, struct file *render_file)
{
	struct drm_file *priv = sim_drm_file(render_file);

	if (!IS_ERR(priv))
		drm_vma_node_revoke(&bo->base.vma_node, priv);
}

/* ------------------------------------------------------------------ load and unload */

static void sim_gpu_remove(u32 i)
{
	struct sim_gpu *gpu = sim_gpus[i];

	if (gpu) {
		drm_dev_unplug(&gpu->drm);
		destroy_workqueue(gpu->lane);
	}
	sim_gpus[i] = NULL;
	/* Gives the DRM device back as well: it is a managed resource of its parent. */
	if (sim_parents[i])
		platform_device_unregister(sim_parents[i]);
	sim_parents[i] = NULL;
}

static int sim_gpu_add(u32 i, struct sim_node_desc *desc)
{
	struct platform_device *parent = platform_device_register_simple("amdgpu-sim", i, NULL, 0);
	struct sim_gpu *gpu;
	int r;

	if (IS_ERR(parent))
		return PTR_ERR(parent);
	sim_parents[i] = parent;
	gpu = devm_drm_dev_alloc(&parent->dev, &sim_driver, struct sim_gpu, drm);
	if (IS_ERR(gpu))
		return PTR_ERR(gpu);
	gpu->desc = desc;
	gpu->index = i;
	gpu->vram_total = desc->mem_bytes;
	mutex_init(&gpu->lock);
	init_waitqueue_head(&gpu->idle);
	gpu->lane = alloc_ordered_workqueue("sim-sdma-%u", WQ_MEM_RECLAIM, i);
	if (!gpu->lane)
		return -ENOMEM;
	r = drm_dev_register(&gpu->drm, 0);
	if (r) {
		destroy_workqueue(gpu->lane);
		return r;
	}
	desc->drm_render_minor = gpu->drm.render->index;
	sim_gpus[i] = gpu;
	return 0;
}

int sim_drm_init(void)
{
	struct sim_node_desc *gpus[SIM_MAX_GPUS];
	u32 n = 0, i, at;
	int r = 0;

	for (i = 0; i < sim_sys.num_nodes; i++) {
		if (!sim_sys.nodes[i].gpu_id)
			continue;
		if (n == SIM_MAX_GPUS)
			return -EINVAL;
		gpus[n++] = &sim_sys.nodes[i];
	}
	sim_ngpus = n;
	for (i = 0; i < n && !r; i++) {
		at = sim_sys.reverse_minors ? n - 1 - i : i;
		r = sim_gpu_add(at, gpus[at]);
	}
	if (r)
		sim_drm_exit();
	return r;
}

void sim_drm_exit(void)
{
	u32 i;

	for (i = 0; i < sim_ngpus; i++)
		sim_gpu_remove(i);
	sim_ngpus = 0;
	ida_destroy(&sim_pasids);
}
