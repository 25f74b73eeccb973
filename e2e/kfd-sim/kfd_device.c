// SPDX-License-Identifier: GPL-2.0
/* /dev/kfd: the character device, who may call it, and the way of an ioctl to its handler. */
#include <linux/capability.h>
#include <linux/compat.h>
#include <linux/device.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/ptrace.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include "kfd.h"

static struct class *kfd_class;
static struct device *kfd_dev;
static int kfd_major;

/* CRIU_OP alone may be called by the tracer of the process, and needs a capability. */
#define SIM_CRIU_RULES 1

struct sim_ioctl_desc {
	unsigned int cmd;
	int (*fn)(struct sim_process *p, void *data, u32 size);
	const char *fault;	/* NULL: the handler asks itself */
	u32 flags;
};

/* The debugger calls of before 1.13, which are kept as holes that always refuse. */
static int sim_ioctl_old_debugger(struct sim_process *p, void *data, u32 size)
{
	return -EPERM;
}

/* Calls of KFD 1.23 that have a number but nothing behind it here. */
static int sim_ioctl_hole(struct sim_process *p, void *data, u32 size)
{
	return -EINVAL;
}

#define DEF(NAME, name) [_IOC_NR(AMDKFD_IOC_##NAME)] = { AMDKFD_IOC_##NAME, sim_ioctl_##name, "kfd." #name, 0 }
#define OLD(nr) [nr] = { _IO('K', nr), sim_ioctl_old_debugger, NULL, 0 }
static const struct sim_ioctl_desc kfd_ioctls[] = {
	DEF(GET_VERSION, get_version),
	DEF(CREATE_QUEUE, create_queue),
	DEF(DESTROY_QUEUE, destroy_queue),
	DEF(SET_MEMORY_POLICY, set_memory_policy),
	DEF(GET_CLOCK_COUNTERS, get_clock_counters),
	DEF(GET_PROCESS_APERTURES, get_process_apertures),
	DEF(UPDATE_QUEUE, update_queue),
	DEF(CREATE_EVENT, create_event),
	DEF(DESTROY_EVENT, destroy_event),
	DEF(SET_EVENT, set_event),
	DEF(RESET_EVENT, reset_event),
	DEF(WAIT_EVENTS, wait_events),
	OLD(0x0d), OLD(0x0e), OLD(0x0f), OLD(0x10),
	DEF(SET_SCRATCH_BACKING_VA, set_scratch_backing_va),
	DEF(GET_TILE_CONFIG, get_tile_config),
	DEF(SET_TRAP_HANDLER, set_trap_handler),
	DEF(GET_PROCESS_APERTURES_NEW, get_process_apertures_new),
	DEF(ACQUIRE_VM, acquire_vm),
	DEF(ALLOC_MEMORY_OF_GPU, alloc_memory_of_gpu),
	DEF(FREE_MEMORY_OF_GPU, free_memory_of_gpu),
	DEF(MAP_MEMORY_TO_GPU, map_memory_to_gpu),
	DEF(UNMAP_MEMORY_FROM_GPU, unmap_memory_from_gpu),
	DEF(SET_CU_MASK, set_cu_mask),
	DEF(GET_QUEUE_WAVE_STATE, get_queue_wave_state),
	DEF(GET_DMABUF_INFO, get_dmabuf_info),
	DEF(IMPORT_DMABUF, import_dmabuf),
	DEF(ALLOC_QUEUE_GWS, alloc_queue_gws),
	DEF(SMI_EVENTS, smi_events),
	DEF(SVM, svm),
	DEF(SET_XNACK_MODE, set_xnack_mode),
	[_IOC_NR(AMDKFD_IOC_CRIU_OP)] = { AMDKFD_IOC_CRIU_OP, sim_ioctl_criu_op, NULL, SIM_CRIU_RULES },
	DEF(AVAILABLE_MEMORY, available_memory),
	DEF(EXPORT_DMABUF, export_dmabuf),
	DEF(RUNTIME_ENABLE, runtime_enable),
	DEF(DBG_TRAP, dbg_trap),
	[0x27] = { _IOWR('K', 0x27, u64), sim_ioctl_hole, NULL, 0 },
	[0x28] = { _IOWR('K', 0x28, u64), sim_ioctl_hole, NULL, 0 },
};

/* The first number that this version of the interface does not know. */
static u32 kfd_ioctl_end(void)
{
	if (sim_sys.kfd_minor < 12)
		return _IOC_NR(AMDKFD_IOC_EXPORT_DMABUF);
	if (sim_sys.kfd_minor < 13)
		return _IOC_NR(AMDKFD_IOC_RUNTIME_ENABLE);
	return sim_sys.kfd_minor < 18 ? 0x27 : 0x29;
}

/* Only the process that opened the file may use it; for CRIU_OP also the very thread that traces its leader. */
static bool kfd_caller_ok(struct sim_process *p, u32 flags)
{
	bool tracer = false;

	if (flags & SIM_CRIU_RULES) {
		rcu_read_lock();
		tracer = ptrace_parent(p->lead) == current;
		rcu_read_unlock();
	}
	return tracer || p->lead == current->group_leader;
}

static long kfd_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct sim_process *p = file->private_data;
	const struct sim_ioctl_desc *d;
	u32 nr = _IOC_NR(cmd), user_size = _IOC_SIZE(cmd), size;
	u8 stack[512] __aligned(8), *data = stack;
	long r;

	if (!nr || nr >= kfd_ioctl_end())
		return -ENOTTY;
	d = &kfd_ioctls[nr];
	if (!kfd_caller_ok(p, d->flags))
		return -EBADF;
	if (!d->fn)
		return -EINVAL;
	if ((d->flags & SIM_CRIU_RULES) && !capable(CAP_CHECKPOINT_RESTORE) && !capable(CAP_SYS_ADMIN))
		return -EACCES;

	/* The direction is that of our definition; of the caller's request only the size counts. */
	size = max_t(u32, _IOC_SIZE(d->cmd), user_size);
	if (size > sizeof(stack)) {
		data = kmalloc(size, GFP_KERNEL);
		if (!data)
			return -ENOMEM;
	}
	memset(data, 0, size);
	if ((d->cmd & IOC_IN) && copy_from_user(data, (void __user *)arg, user_size)) {
		r = -EFAULT;
		goto out;
	}
	r = d->fault ? sim_fault_check(d->fault) : 0;
	if (!r)
		r = d->fn(p, data, user_size);
	/* Copied back also when the handler failed: WAIT_EVENTS and MAP_MEMORY_TO_GPU go on from there. */
	if ((d->cmd & IOC_OUT) && copy_to_user((void __user *)arg, data, user_size))
		r = -EFAULT;
out:
	if (data != stack)
		kfree(data);
	return r;
}

static int kfd_open(struct inode *inode, struct file *file)
{
	struct sim_process *p;

	if (iminor(inode))
		return -ENODEV;
	if (in_compat_syscall())
		return -EPERM;
	p = sim_process_open();
	if (IS_ERR(p))
		return PTR_ERR(p);
	file->private_data = p;
	return 0;
}

static int kfd_release(struct inode *inode, struct file *file)
{
	sim_process_put(file->private_data);
	return 0;
}

static const struct file_operations kfd_fops = {
	.owner = THIS_MODULE,
	.open = kfd_open,
	.release = kfd_release,
	.unlocked_ioctl = kfd_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.mmap = sim_kfd_mmap,
};

static char *kfd_devnode(const struct device *dev, umode_t *mode)
{
	if (mode && !MINOR(dev->devt))
		*mode = 0666;
	return NULL;
}

struct kobject *sim_kfd_kobj(void)
{
	return &kfd_dev->kobj;
}

int sim_kfd_init(void)
{
	int r;

	r = sim_process_init();
	if (r)
		return r;
	kfd_major = register_chrdev(0, "kfd", &kfd_fops);
	if (kfd_major < 0) {
		r = kfd_major;
		goto err_process;
	}
	kfd_class = class_create("kfd");
	if (IS_ERR(kfd_class)) {
		r = PTR_ERR(kfd_class);
		goto err_chrdev;
	}
	kfd_class->devnode = kfd_devnode;
	kfd_dev = device_create(kfd_class, NULL, MKDEV(kfd_major, 0), NULL, "kfd");
	if (IS_ERR(kfd_dev)) {
		r = PTR_ERR(kfd_dev);
		goto err_class;
	}
	r = sim_proc_init(&kfd_dev->kobj);
	if (r)
		goto err_device;
	return 0;

err_device:
	device_destroy(kfd_class, MKDEV(kfd_major, 0));
err_class:
	class_destroy(kfd_class);
err_chrdev:
	unregister_chrdev(kfd_major, "kfd");
err_process:
	sim_process_exit();
	return r;
}

void sim_kfd_exit(void)
{
	/* No file is open any more (they pin the module), but processes that closed theirs may still live. */
	sim_process_exit();
	sim_proc_exit();
	device_destroy(kfd_class, MKDEV(kfd_major, 0));
	class_destroy(kfd_class);
	unregister_chrdev(kfd_major, "kfd");
}
