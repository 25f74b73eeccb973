// SPDX-License-Identifier: Apache-2.0
/* Runner: forks each case, collects what it reported through a shared page, prints TAP-like lines. */
#include "conformance.h"

#include <signal.h>
#include <stdarg.h>
#include <sys/wait.h>

#define LIMIT_S 60	/* one case; emulated machines are slow */
#define MAX_NOTES 24

struct results {
	int fails, infos, skipped;
	char fail[MAX_NOTES][320];
	char note[MAX_NOTES][320];
	char why[320];
};
static struct results *res;

static const struct test *const tables[] = {
	tests_topology, tests_dispatch, tests_memory, tests_mmap, tests_events, tests_wait, tests_queues, tests_qcheck,
	tests_misc, tests_life, tests_dump, tests_dump_data, tests_restore, tests_restore_err, tests_remap, tests_gem,
	tests_prime, tests_va, tests_cs, tests_drm_rules, tests_cgroup, tests_faults,
};

const char *rcname(long rc, char buf[32])
{
	const char *n = rc < 0 ? strerrorname_np((int)-rc) : NULL;

	if (n)
		snprintf(buf, 32, "-%s", n);
	else
		snprintf(buf, 32, "%ld", rc);
	return buf;
}

void report(const char *file, int line, bool fatal, const char *fmt, ...)
{
	int i = __sync_fetch_and_add(&res->fails, 1);
	va_list ap;

	if (i < MAX_NOTES) {
		char *s = res->fail[i];
		size_t n;

		va_start(ap, fmt);
		vsnprintf(s, 260, fmt, ap);
		va_end(ap);
		n = strlen(s);
		/* "what: expected X, got Y" carries the place inside one pair of brackets. */
		snprintf(s + n, sizeof(res->fail[i]) - n, " (%s:%d)", file, line);
	}
	if (fatal)
		_exit(1);
}

void check_rc(const char *file, int line, bool fatal, const char *what, long got, long want)
{
	char a[32], b[32];

	if (got != want)
		report(file, line, fatal, "%.150s: expected %s, got %s", what, rcname(want, a), rcname(got, b));
}

void check_eq(const char *file, int line, const char *what, u64 got, u64 want)
{
	if (got != want)
		report(file, line, false, "%.150s: expected %#llx, got %#llx", what, (unsigned long long)want,
		       (unsigned long long)got);
}

void info(const char *fmt, ...)
{
	int i = __sync_fetch_and_add(&res->infos, 1);
	va_list ap;

	if (i >= MAX_NOTES)
		return;
	va_start(ap, fmt);
	vsnprintf(res->note[i], sizeof(res->note[i]), fmt, ap);
	va_end(ap);
}

void skip(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(res->why, sizeof(res->why), fmt, ap);
	va_end(ap);
	res->skipped = 1;
	_exit(0);
}

/* 0 ended, -1 had to be killed; the case's whole process group goes with it. */
static int run_case(const struct test *t, int *status)
{
	u64 end = now_ms() + LIMIT_S * 1000;
	pid_t pid;
	int late = 0;

	memset(res, 0, sizeof(*res));
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		setpgid(0, 0);
		signal(SIGPIPE, SIG_IGN);
		t->fn();
		_exit(res->fails ? 1 : 0);
	}
	setpgid(pid, pid);
	while (waitpid(pid, status, WNOHANG) == 0) {
		if (now_ms() > end) {
			late = -1;
			break;
		}
		sleep_ms(2);
	}
	kill(-pid, SIGKILL);
	if (late)
		waitpid(pid, status, 0);
	sys_clean();
	return late;
}

static void list_all(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
		for (const struct test *t = tables[i]; t->name; t++)
			printf("%s\n", t->name);
}

int main(int argc, char **argv)
{
	const char *only = "";
	int pass = 0, fail = 0, skipped = 0;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--list")) {
			list_all();
			return 0;
		}
		if (!strcmp(argv[i], "--only") && i + 1 < argc) {
			only = argv[++i];
			continue;
		}
		fprintf(stderr, "usage: conformance [--list] [--only PREFIX]\n");
		return 2;
	}
	res = mmap(NULL, sizeof(*res), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (res == MAP_FAILED)
		return 2;
	sys_scan();
	printf("# %d GPUs, %d topology nodes\n", ngpus, nnodes);
	for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
		for (const struct test *t = tables[i]; t->name; t++) {
			int status = 0;

			if (strncmp(t->name, only, strlen(only)))
				continue;
			if (ngpus < t->gpus) {
				printf("skip %s: needs %d GPUs, has %d\n", t->name, t->gpus, ngpus);
				skipped++;
				continue;
			}
			if (run_case(t, &status)) {
				printf("not ok %s: no end within %d s\n", t->name, LIMIT_S);
				fail++;
			} else if (res->skipped && !res->fails) {
				printf("skip %s: %s\n", t->name, res->why);
				skipped++;
			} else if (res->fails) {
				printf("not ok %s: %s\n", t->name, res->fail[0]);
				fail++;
			} else if (status) {
				printf("not ok %s: ended with wait status %#x\n", t->name, status);
				fail++;
			} else {
				printf("ok %s\n", t->name);
				pass++;
			}
			for (int n = 1; n < res->fails && n < MAX_NOTES; n++)
				printf("#   also %s\n", res->fail[n]);
			for (int n = 0; n < res->infos && n < MAX_NOTES; n++)
				printf("info %s: %s\n", t->name, res->note[n]);
			fflush(stdout);
		}
	}
	printf("%d passed, %d failed, %d skipped\n", pass, fail, skipped);
	return fail ? 1 : 0;
}
