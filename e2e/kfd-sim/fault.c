// SPDX-License-Identifier: GPL-2.0
/*
 * Faults that tests arm, and the counts of the points where they may strike. Everything is in fixed
 * tables under one spinlock: asking costs little, and nothing that a test writes makes them grow.
 */
#include <linux/kernel.h>
#include <linux/seq_file.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include "sim.h"
#include "fault.h"

atomic64_t sim_cnt_unpause, sim_cnt_process_info, sim_cnt_resume, sim_cnt_would_oops, sim_cnt_warnings;

struct armed {
	char point[SIM_POINT_LEN];	/* "" = free */
	u64 skip;			/* calls that still go well */
	u64 repeat;			/* calls that fail after that; U64_MAX = all */
	int error;			/* positive errno */
};

struct seen {
	char point[SIM_POINT_LEN];
	u64 calls, failed;
};

static DEFINE_SPINLOCK(lock);
static struct armed table[SIM_MAX_FAULTS];
static struct seen points[SIM_MAX_POINTS];
static struct { enum sim_sdma_fault kind; u64 skip, repeat; } sdma;
static u64 sdma_jobs, sdma_struck;

static const struct { const char *name; int number; } errnos[] = {
	{ "EPERM", EPERM }, { "ENOENT", ENOENT }, { "ESRCH", ESRCH }, { "EINTR", EINTR }, { "EIO", EIO },
	{ "EBADF", EBADF }, { "EAGAIN", EAGAIN }, { "ENOMEM", ENOMEM }, { "EACCES", EACCES },
	{ "EFAULT", EFAULT }, { "EBUSY", EBUSY }, { "EEXIST", EEXIST }, { "ENODEV", ENODEV },
	{ "EINVAL", EINVAL }, { "EMFILE", EMFILE }, { "ENOTTY", ENOTTY }, { "ENOSPC", ENOSPC },
	{ "ETIME", ETIME }, { "ETIMEDOUT", ETIMEDOUT }, { "ECANCELED", ECANCELED },
	{ "EOPNOTSUPP", EOPNOTSUPP }, { "ERANGE", ERANGE }, { "EADDRINUSE", EADDRINUSE },
};

static const char *const sdma_names[] = {
	[SIM_SDMA_OK] = "ok", [SIM_SDMA_SILENT] = "silent", [SIM_SDMA_FAIL] = "fail", [SIM_SDMA_HANG] = "hang",
};

static void note(const char *point, bool failed)
{
	u32 i;

	for (i = 0; i < SIM_MAX_POINTS; i++) {
		if (!points[i].point[0])
			strscpy(points[i].point, point, SIM_POINT_LEN);
		if (strncmp(points[i].point, point, SIM_POINT_LEN - 1))
			continue;
		points[i].calls++;
		points[i].failed += failed;
		return;
	}
}

/* Two faults at one point are two tries: the first whose turn it is decides, the others count the call. */
int sim_fault_check(const char *point)
{
	unsigned long flags;
	int r = 0;
	u32 i;

	spin_lock_irqsave(&lock, flags);
	for (i = 0; i < SIM_MAX_FAULTS; i++) {
		struct armed *a = &table[i];

		if (!a->point[0] || strcmp(a->point, point))
			continue;
		if (a->skip) {
			a->skip--;
			continue;
		}
		if (r)
			continue;
		r = -a->error;
		if (a->repeat != U64_MAX && !--a->repeat)
			a->point[0] = 0;
	}
	note(point, r);
	spin_unlock_irqrestore(&lock, flags);
	if (r)
		pr_info("kfd-sim: fault at %s: %d\n", point, r);
	return r;
}

enum sim_sdma_fault sim_fault_sdma(void)
{
	enum sim_sdma_fault r = SIM_SDMA_OK;
	unsigned long flags;

	spin_lock_irqsave(&lock, flags);
	sdma_jobs++;
	if (sdma.kind != SIM_SDMA_OK && sdma.skip) {
		sdma.skip--;
	} else if (sdma.kind != SIM_SDMA_OK) {
		r = sdma.kind;
		sdma_struck++;
		if (sdma.repeat != U64_MAX && !--sdma.repeat)
			sdma.kind = SIM_SDMA_OK;
	}
	spin_unlock_irqrestore(&lock, flags);
	return r;
}

void sim_would_oops(const char *where)
{
	atomic64_inc(&sim_cnt_would_oops);
	pr_err("kfd-sim: %s: a real driver would have crashed here\n", where);
}

/* ------------------------------------------------------------------ the control file */

static int parse_errno(const char *text)
{
	u32 i, v;

	for (i = 0; i < ARRAY_SIZE(errnos); i++)
		if (!strcmp(errnos[i].name, text))
			return errnos[i].number;
	if (*text == '-')
		text++;
	if (kstrtou32(text, 10, &v) || !v || v > 4095)
		return -EINVAL;
	return v;
}

/* "forever" or a number from 1 on; absent means once. */
static int parse_repeat(const char *text, u64 *out)
{
	*out = 1;
	if (!text)
		return 0;
	if (!strcmp(text, "forever")) {
		*out = U64_MAX;
		return 0;
	}
	return kstrtou64(text, 10, out) || !*out ? -EINVAL : 0;
}

static int arm(char **w, int n)
{
	u64 nth, repeat;
	int error, r = -ENOSPC;
	u32 i;

	if (n < 3 || n > 4 || strlen(w[0]) >= SIM_POINT_LEN || kstrtou64(w[1], 10, &nth) || !nth)
		return -EINVAL;
	error = parse_errno(w[2]);
	if (error < 0 || parse_repeat(n > 3 ? w[3] : NULL, &repeat))
		return -EINVAL;
	spin_lock_irq(&lock);
	for (i = 0; i < SIM_MAX_FAULTS && r; i++)
		if (!table[i].point[0]) {
			strscpy(table[i].point, w[0], SIM_POINT_LEN);
			table[i].skip = nth - 1;
			table[i].repeat = repeat;
			table[i].error = error;
			r = 0;
		}
	spin_unlock_irq(&lock);
	return r;
}

static int arm_sdma(char **w, int n)
{
	u64 nth, repeat;
	u32 kind;

	if (n < 3 || n > 4 || kstrtou64(w[2], 10, &nth) || !nth || parse_repeat(n > 3 ? w[3] : NULL, &repeat))
		return -EINVAL;
	for (kind = SIM_SDMA_SILENT; kind <= SIM_SDMA_HANG; kind++)
		if (!strcmp(sdma_names[kind], w[1]))
			break;
	if (kind > SIM_SDMA_HANG)
		return -EINVAL;
	spin_lock_irq(&lock);
	sdma.kind = kind;
	sdma.skip = nth - 1;
	sdma.repeat = repeat;
	spin_unlock_irq(&lock);
	return 0;
}

int sim_fault_command(char *text)
{
	char *w[5], *word;
	int n = 0;

	while ((word = strsep(&text, " \t\n"))) {
		if (!*word)
			continue;
		if (n == ARRAY_SIZE(w))
			return -EINVAL;
		w[n++] = word;
	}
	if (n == 1 && !strcmp(w[0], "clear")) {
		spin_lock_irq(&lock);
		memset(table, 0, sizeof(table));
		sdma.kind = SIM_SDMA_OK;
		spin_unlock_irq(&lock);
		return 0;
	}
	if (n && !strcmp(w[0], "sdma"))
		return arm_sdma(w, n);
	return arm(w, n);
}

static void show_rest(struct seq_file *m, u64 skip, u64 repeat)
{
	if (repeat == U64_MAX)
		seq_printf(m, "after %llu more, forever\n", skip);
	else
		seq_printf(m, "after %llu more, %llu times\n", skip, repeat);
}

/* One copy under the lock, printed without it: seq_printf must not run under a spinlock for long. */
void sim_fault_show(struct seq_file *m)
{
	u32 i;

	for (i = 0; i < SIM_MAX_FAULTS; i++) {
		struct armed a;

		spin_lock_irq(&lock);
		a = table[i];
		spin_unlock_irq(&lock);
		if (!a.point[0])
			continue;
		seq_printf(m, "%s %d ", a.point, -a.error);
		show_rest(m, a.skip, a.repeat);
	}
	if (sdma.kind != SIM_SDMA_OK) {
		seq_printf(m, "sdma %s ", sdma_names[sdma.kind]);
		show_rest(m, sdma.skip, sdma.repeat);
	}
}

void sim_fault_show_points(struct seq_file *m)
{
	u32 i;

	for (i = 0; i < SIM_MAX_POINTS; i++) {
		struct seen s;

		spin_lock_irq(&lock);
		s = points[i];
		spin_unlock_irq(&lock);
		if (s.point[0])
			seq_printf(m, "%s calls %llu failed %llu\n", s.point, s.calls, s.failed);
	}
	seq_printf(m, "sdma calls %llu failed %llu\n", sdma_jobs, sdma_struck);
}

void sim_fault_reset_counts(void)
{
	spin_lock_irq(&lock);
	memset(points, 0, sizeof(points));
	sdma_jobs = sdma_struck = 0;
	spin_unlock_irq(&lock);
}
