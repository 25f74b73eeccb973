// SPDX-License-Identifier: GPL-2.0
/* SMI_EVENTS: a descriptor from which events of the GPU could be read. None ever come. */
#include <linux/anon_inodes.h>
#include <linux/fcntl.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/poll.h>
#include <linux/uaccess.h>
#include "kfd.h"

static ssize_t smi_read(struct file *file, char __user *to, size_t n, loff_t *off)
{
	return -EAGAIN;
}

/* The mask of wanted events. */
static ssize_t smi_write(struct file *file, const char __user *from, size_t n, loff_t *off)
{
	u64 mask;

	if (!n)
		return 0;
	if (n != sizeof(mask))
		return -EINVAL;
	return copy_from_user(&mask, from, sizeof(mask)) ? -EFAULT : sizeof(mask);
}

static __poll_t smi_poll(struct file *file, struct poll_table_struct *wait)
{
	return 0;
}

static const struct file_operations smi_fops = {
	.owner = THIS_MODULE,
	.read = smi_read,
	.write = smi_write,
	.poll = smi_poll,
};

int sim_ioctl_smi_events(struct sim_process *p, void *data, u32 size)
{
	struct kfd_ioctl_smi_events_args *a = data;
	struct sim_pdd *pdd;
	int fd;

	mutex_lock(&p->lock);
	pdd = sim_pdd_by_user_id(p, a->gpuid);
	mutex_unlock(&p->lock);
	if (!pdd)
		return -EINVAL;
	fd = anon_inode_getfd("kfd_smi_ev", &smi_fops, NULL, O_RDWR);
	if (fd < 0)
		return fd;
	a->anon_fd = fd;
	return 0;
}
