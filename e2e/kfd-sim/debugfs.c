// SPDX-License-Identifier: GPL-2.0
/* /sys/kernel/debug/kfd-sim: what a test reads and sets. The formats are in README.md. */
#include <linux/debugfs.h>
#include <linux/kernel.h>
#include <linux/seq_file.h>
#include <linux/spinlock.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>
#include "sim.h"
#include "fault.h"

static struct dentry *dir;
static u32 delay_us_per_mib;
static bool strict;

u32 sim_delay_us_per_mib(void)
{
	return READ_ONCE(delay_us_per_mib);
}

bool sim_strict_faults(void)
{
	return READ_ONCE(strict);
}

/* ------------------------------------------------------------------ copies */

#define MAX_COPIES 8192

struct copy {
	u64 begin, end, bytes;
	u32 gpu;
};

static DEFINE_SPINLOCK(copy_lock);
static struct copy *copies;
static u64 copies_logged;	/* all that were ever logged; the ring holds the last MAX_COPIES */

void sim_log_copy(struct sim_gpu *gpu, u64 begin_ns, u64 end_ns, u64 bytes)
{
	unsigned long flags;

	spin_lock_irqsave(&copy_lock, flags);
	if (copies)
		copies[copies_logged++ % MAX_COPIES] = (struct copy){ begin_ns, end_ns, bytes, gpu->index };
	spin_unlock_irqrestore(&copy_lock, flags);
}

static int copies_show(struct seq_file *m, void *v)
{
	u64 i, last, first;

	spin_lock_irq(&copy_lock);
	last = copies_logged;
	spin_unlock_irq(&copy_lock);
	first = last > MAX_COPIES ? last - MAX_COPIES : 0;
	for (i = first; i < last; i++) {
		struct copy c;

		spin_lock_irq(&copy_lock);
		c = copies[i % MAX_COPIES];
		spin_unlock_irq(&copy_lock);
		seq_printf(m, "%llu %llu %llu %u\n", c.begin, c.end, c.bytes, c.gpu);
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(copies);

/* ------------------------------------------------------------------ counters */

#define GPU_COUNTERS(X) \
	X(userptr) X(import) X(submit) X(copied_bytes) X(copies) X(fault_unmapped) X(fault_overrun) \
	X(evictions) X(queues_running) X(packets) X(gtt_bytes) X(gtt_peak)

static int counters_show(struct seq_file *m, void *v)
{
	u32 i;

	seq_printf(m, "unpause %lld\n", atomic64_read(&sim_cnt_unpause));
	seq_printf(m, "process_info %lld\n", atomic64_read(&sim_cnt_process_info));
	seq_printf(m, "resume %lld\n", atomic64_read(&sim_cnt_resume));
	seq_printf(m, "would_oops %lld\n", atomic64_read(&sim_cnt_would_oops));
	seq_printf(m, "warnings %lld\n", atomic64_read(&sim_cnt_warnings));
	seq_printf(m, "gpus %u\n", sim_gpu_count());
	for (i = 0; i < sim_gpu_count(); i++) {
		struct sim_gpu *g = sim_gpu_by_index(i);
		u64 total, used;

		if (!g)
			continue;
#define SHOW(name) seq_printf(m, "gpu%u." #name " %lld\n", i, atomic64_read(&g->cnt_##name));
		GPU_COUNTERS(SHOW)
#undef SHOW
		mutex_lock(&g->lock);
		total = g->vram_total;
		used = g->vram_used;
		mutex_unlock(&g->lock);
		seq_printf(m, "gpu%u.vram_total %llu\ngpu%u.vram_used %llu\n", i, total, i, used);
		seq_printf(m, "gpu%u.gpu_id %u\ngpu%u.render_minor %u\ngpu%u.masked %u\n", i, g->desc->gpu_id,
			   i, g->desc->drm_render_minor, i, g->masked);
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(counters);

/* What counts events goes to zero; what says how much there is now (queues running, GTT bytes) stays. */
static void reset_counters(void)
{
	u32 i;

	atomic64_set(&sim_cnt_unpause, 0);
	atomic64_set(&sim_cnt_process_info, 0);
	atomic64_set(&sim_cnt_resume, 0);
	atomic64_set(&sim_cnt_would_oops, 0);
	atomic64_set(&sim_cnt_warnings, 0);
	for (i = 0; i < sim_gpu_count(); i++) {
		struct sim_gpu *g = sim_gpu_by_index(i);

		if (!g)
			continue;
		atomic64_set(&g->cnt_userptr, 0);
		atomic64_set(&g->cnt_import, 0);
		atomic64_set(&g->cnt_submit, 0);
		atomic64_set(&g->cnt_copied_bytes, 0);
		atomic64_set(&g->cnt_copies, 0);
		atomic64_set(&g->cnt_fault_unmapped, 0);
		atomic64_set(&g->cnt_fault_overrun, 0);
		atomic64_set(&g->cnt_evictions, 0);
		atomic64_set(&g->cnt_packets, 0);
		atomic64_set(&g->cnt_gtt_peak, atomic64_read(&g->cnt_gtt_bytes));
	}
	spin_lock_irq(&copy_lock);
	copies_logged = 0;
	spin_unlock_irq(&copy_lock);
	sim_fault_reset_counts();
}

/* ------------------------------------------------------------------ files that are written */

/* A short command from user space, as a string. */
static int get_text(const char __user *from, size_t count, char *text, size_t size)
{
	if (!count || count >= size)
		return -EINVAL;
	if (copy_from_user(text, from, count))
		return -EFAULT;
	text[count] = 0;
	return 0;
}

static int gpu_and_number(const char *text, struct sim_gpu **gpu, u64 *number)
{
	u32 index;
	char tail;

	/* A newline is white space to sscanf, which then finds no third item. */
	if (sscanf(text, "%u %llu %c", &index, number, &tail) != 2)
		return -EINVAL;
	*gpu = sim_gpu_by_index(index);
	return *gpu ? 0 : -ENODEV;
}

static int fault_show(struct seq_file *m, void *v)
{
	sim_fault_show(m);
	return 0;
}

static ssize_t fault_write(struct file *f, const char __user *from, size_t count, loff_t *pos)
{
	char text[160];
	int r = get_text(from, count, text, sizeof(text));

	if (!r)
		r = sim_fault_command(text);
	return r ?: count;
}

static int mask_show(struct seq_file *m, void *v)
{
	u32 i;

	for (i = 0; i < sim_gpu_count(); i++)
		if (sim_gpu_by_index(i))
			seq_printf(m, "%u %u\n", i, sim_gpu_by_index(i)->masked);
	return 0;
}

static ssize_t mask_write(struct file *f, const char __user *from, size_t count, loff_t *pos)
{
	struct sim_gpu *gpu;
	char text[64];
	u64 v;
	int r = get_text(from, count, text, sizeof(text));

	if (!r)
		r = gpu_and_number(text, &gpu, &v);
	if (!r && v > 1)
		r = -EINVAL;
	if (r)
		return r;
	WRITE_ONCE(gpu->masked, v);
	return count;
}

static int vram_limit_show(struct seq_file *m, void *v)
{
	u32 i;

	for (i = 0; i < sim_gpu_count(); i++) {
		struct sim_gpu *g = sim_gpu_by_index(i);
		u64 total, used;

		if (!g)
			continue;
		mutex_lock(&g->lock);
		total = g->vram_total;
		used = g->vram_used;
		mutex_unlock(&g->lock);
		seq_printf(m, "%u %llu used %llu of %llu\n", i, total, used, g->desc->mem_bytes);
	}
	return 0;
}

/* 0 puts back the size of the description. What is allocated already stays. */
static ssize_t vram_limit_write(struct file *f, const char __user *from, size_t count, loff_t *pos)
{
	struct sim_gpu *gpu;
	char text[64];
	u64 v;
	int r = get_text(from, count, text, sizeof(text));

	if (!r)
		r = gpu_and_number(text, &gpu, &v);
	if (r)
		return r;
	mutex_lock(&gpu->lock);
	gpu->vram_total = v ?: gpu->desc->mem_bytes;
	mutex_unlock(&gpu->lock);
	return count;
}

static int points_show(struct seq_file *m, void *v)
{
	sim_fault_show_points(m);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(points);

static int processes_show(struct seq_file *m, void *v)
{
	sim_kfd_show_processes(m);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(processes);

static ssize_t reset_write(struct file *f, const char __user *from, size_t count, loff_t *pos)
{
	reset_counters();
	return count;
}

static const struct file_operations reset_fops = {
	.owner = THIS_MODULE, .open = simple_open, .write = reset_write, .llseek = noop_llseek,
};

DEFINE_SHOW_STORE_ATTRIBUTE(fault);
DEFINE_SHOW_STORE_ATTRIBUTE(mask);
DEFINE_SHOW_STORE_ATTRIBUTE(vram_limit);

int sim_debugfs_init(void)
{
	struct copy *ring = vzalloc(MAX_COPIES * sizeof(*ring));

	if (!ring)
		return -ENOMEM;
	spin_lock_irq(&copy_lock);
	copies = ring;
	spin_unlock_irq(&copy_lock);
	dir = debugfs_create_dir("kfd-sim", NULL);
	debugfs_create_file("fault", 0600, dir, NULL, &fault_fops);
	debugfs_create_file("points", 0400, dir, NULL, &points_fops);
	debugfs_create_file("counters", 0400, dir, NULL, &counters_fops);
	debugfs_create_file("reset_counters", 0200, dir, NULL, &reset_fops);
	debugfs_create_file("copies", 0400, dir, NULL, &copies_fops);
	debugfs_create_file("processes", 0400, dir, NULL, &processes_fops);
	debugfs_create_file("mask", 0600, dir, NULL, &mask_fops);
	debugfs_create_file("vram_limit", 0600, dir, NULL, &vram_limit_fops);
	debugfs_create_u32("delay_us_per_mib", 0600, dir, &delay_us_per_mib);
	debugfs_create_bool("strict", 0600, dir, &strict);
	return 0;
}

void sim_debugfs_exit(void)
{
	struct copy *ring;

	debugfs_remove(dir);
	spin_lock_irq(&copy_lock);
	ring = copies;
	copies = NULL;
	spin_unlock_irq(&copy_lock);
	vfree(ring);
}
