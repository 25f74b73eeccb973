// SPDX-License-Identifier: Apache-2.0
/* Life time of a process object, and its directory in sysfs. */
#include "conformance.h"

#include <signal.h>

#define PROC "/sys/class/kfd/kfd/proc"
#define BIG (16ul << 20)

static long hold_memory(void *arg)
{
	struct world *w = arg;

	app_start(&w->app);
	w->vram[0] = bo_new(&w->app, 0, BIG, F_VRAM);
	queue_new(&w->app, 0, KFD_IOC_QUEUE_TYPE_SDMA, &w->sdma);
	return 0;
}

static bool wait_avail(int kfd, u64 least, unsigned int ms)
{
	u64 end = now_ms() + ms;

	while (kfd_avail(kfd, 0) < least) {
		if (now_ms() > end)
			return false;
		sleep_ms(5);
	}
	return true;
}

static void t_death_frees(void)
{
	struct world *w = shared(sizeof(*w));
	struct app mine;
	struct peer p;
	u64 before;

	app_start(&mine);
	before = kfd_avail_settled(mine.kfd, 0);
	peer_start(&p);
	NEED_OK(peer_call(&p, hold_memory, w));
	EXPECT(kfd_avail(mine.kfd, 0) + BIG <= before, "another process's VRAM is not missing here");
	peer_kill(&p);
	EXPECT(wait_avail(mine.kfd, before, 10000), "VRAM of a dead process did not come back");
}

/* Whoever holds a copy of the descriptor holds the dead process's memory and its directory. */
static void t_foreign_dup(void)
{
	struct world *w = shared(sizeof(*w));
	struct app mine;
	struct peer p;
	u64 before;
	char dir[96];
	int fd;

	app_start(&mine);
	before = kfd_avail_settled(mine.kfd, 0);
	peer_start(&p);
	NEED_OK(peer_call(&p, hold_memory, w));
	fd = peer_fd(&p, w->app.kfd);
	snprintf(dir, sizeof(dir), PROC "/%d", p.pid);
	peer_kill(&p);
	sleep_ms(500);
	EXPECT(kfd_avail(mine.kfd, 0) + BIG <= before, "VRAM came back although a copy of the kfd file is open");
	EXPECT(!access(dir, F_OK), "%s went although a copy of the kfd file is open", dir);
	close(fd);
	EXPECT(wait_avail(mine.kfd, before, 10000), "VRAM did not come back after the last reference");
	wait_owner_gone(p.pid);
}

static long do_close(void *arg)
{
	return sys_rc(close(*(int *)arg));
}

static void t_close_frees_nothing(void)
{
	struct world *w = shared(sizeof(*w));
	struct app mine;
	struct peer p;
	u64 before;

	app_start(&mine);
	before = kfd_avail_settled(mine.kfd, 0);
	peer_start(&p);
	NEED_OK(peer_call(&p, hold_memory, w));
	NEED_OK(peer_call(&p, do_close, &w->app.kfd));
	NEED_OK(peer_call(&p, do_close, &w->app.drm[0]));
	sleep_ms(300);
	EXPECT(kfd_avail(mine.kfd, 0) + BIG <= before, "close() freed the memory of a living process");
	peer_kill(&p);
	EXPECT(wait_avail(mine.kfd, before, 10000), "VRAM of a dead process did not come back");
}

static void t_proc_dir(void)
{
	struct app a;
	struct queue q;
	struct bo b;
	char path[160], want[32], buf[64];
	u64 v, v2;

	snprintf(path, sizeof(path), PROC "/%d", getpid());
	EXPECT(access(path, F_OK), "%s exists before /dev/kfd was opened", path);
	a.kfd = kfd_open();
	EXPECT(!access(path, F_OK), "no %s after the first open", path);
	close(a.kfd);
	app_start(&a);
	snprintf(path, sizeof(path), PROC "/%d/pasid", getpid());
	EXPECT(file_u64(path, NULL, &v), "no %s", path);
	for (int g = 0; g < ngpus; g++) {
		static const char *const names[] = { "vram_%u", "sdma_%u", "stats_%u", "counters_%u" };

		for (int i = 0; i < 4; i++) {
			snprintf(want, sizeof(want), names[i], gpus[g].id);
			snprintf(path, sizeof(path), PROC "/%d/%s", getpid(), want);
			EXPECT(!access(path, F_OK), "no %s", path);
		}
	}
	snprintf(path, sizeof(path), PROC "/%d/vram_%u", getpid(), gpus[0].id);
	EXPECT(file_u64(path, NULL, &v), "no %s", path);
	b = bo_new(&a, 0, BIG, F_VRAM);
	EXPECT(file_u64(path, NULL, &v2) && v2 == v + BIG, "vram_%u: %llu before and %llu after %lu bytes", gpus[0].id,
	       (unsigned long long)v, (unsigned long long)v2, BIG);
	bo_del(&a, &b);
	queue_new(&a, 0, KFD_IOC_QUEUE_TYPE_SDMA, &q);
	snprintf(path, sizeof(path), PROC "/%d/queues/%u/gpuid", getpid(), q.args.queue_id);
	EXPECT(file_u64(path, NULL, &v) && v == gpus[0].id, "%s: %llu", path, (unsigned long long)v);
	snprintf(path, sizeof(path), PROC "/%d/queues/%u/size", getpid(), q.args.queue_id);
	EXPECT(file_u64(path, NULL, &v) && v == q.args.ring_size, "%s: %llu", path, (unsigned long long)v);
	snprintf(path, sizeof(path), PROC "/%d/queues/%u/type", getpid(), q.args.queue_id);
	EXPECT(read_text(path, buf, sizeof(buf)) > 0, "no %s", path);
	queue_del(&a, &q);
	EXPECT(access(path, F_OK), "%s is still there after DESTROY_QUEUE", path);
}

static long open_only(void *arg)
{
	*(int *)arg = kfd_open();
	return 0;
}

static void t_proc_dir_goes(void)
{
	int *fd = shared(sizeof(*fd));
	struct peer p;
	char path[96];

	peer_start(&p);
	NEED_OK(peer_call(&p, open_only, fd));
	snprintf(path, sizeof(path), PROC "/%d", p.pid);
	EXPECT(!access(path, F_OK), "no %s", path);
	peer_kill(&p);
	wait_owner_gone(p.pid);
}

/* Many short lives in a row: nothing of them may be left. */
static void t_churn(void)
{
	struct world *w = shared(sizeof(*w));
	struct app mine;
	u64 before;

	app_start(&mine);
	before = kfd_avail_settled(mine.kfd, 0);
	for (int i = 0; i < 10; i++) {
		struct peer p;

		peer_start(&p);
		NEED_OK(peer_call(&p, hold_memory, w));
		peer_kill(&p);
	}
	EXPECT(wait_avail(mine.kfd, before, 15000), "VRAM of dead processes did not come back");
	EXPECT_EQ(kfd_avail(mine.kfd, 0), before);
}

const struct test tests_life[] = {
	{ "kfd/life/death_frees", 1, t_death_frees },
	{ "kfd/life/foreign_dup", 1, t_foreign_dup },
	{ "kfd/life/close_frees_nothing", 1, t_close_frees_nothing },
	{ "kfd/life/proc_dir", 1, t_proc_dir },
	{ "kfd/life/proc_dir_goes", 0, t_proc_dir_goes },
	{ "kfd/life/churn", 1, t_churn },
	{ NULL, 0, NULL },
};
