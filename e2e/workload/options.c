// SPDX-License-Identifier: Apache-2.0
/* The command line. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wl.h"

static int bad(const char *what, const char *value)
{
	fprintf(stderr, "workload: bad %s: %s\n", what, value);
	return -1;
}

static int parse_number(const char *s, uint64_t *out)
{
	char *end;

	if (*s < '0' || *s > '9')
		return -1;
	*out = strtoull(s, &end, 0);
	return *end ? -1 : 0;
}

static int parse_size(const char *s, uint64_t *out)
{
	char *end;
	uint64_t n;

	if (*s < '0' || *s > '9')
		return -1;
	n = strtoull(s, &end, 0);
	switch (*end) {
	case 'K': n <<= 10; end++; break;
	case 'M': n <<= 20; end++; break;
	case 'G': n <<= 30; end++; break;
	}
	if (*end || !n)
		return -1;
	*out = page_up(n);
	return 0;
}

static int parse_bo_opt(const char *s, struct bo_spec *b)
{
	static const struct { const char *name; unsigned int bit; } names[] = {
		{ "nomap", OPT_NOMAP }, { "unmapped-gpu", OPT_GPU_UNMAPPED }, { "ro", OPT_RO },
		{ "private-none", OPT_PRIVATE_NONE }, { "shared-none", OPT_SHARED_NONE },
		{ "twice", OPT_TWICE }, { "split", OPT_SPLIT }, { "no-va", OPT_NO_VA },
		{ "peers", OPT_PEERS }, { "zero", OPT_ZERO }, { "last", OPT_LAST },
		{ "fork", OPT_FORK },
	};
	uint64_t n;

	if (!strcmp(s, "gpu=all")) {
		b->gpu = -1;
		return 0;
	}
	if (!strncmp(s, "gpu=", 4)) {
		if (parse_number(s + 4, &n) || n >= WL_MAX_GPUS)
			return -1;
		b->gpu = n;
		return 0;
	}
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (!strcmp(s, names[i].name)) {
			b->opts |= names[i].bit;
			return 0;
		}
	}
	if (parse_number(s, &n) || !n)
		return -1;
	b->count = n;
	return 0;
}

static int parse_bo(struct bo_list *list, const char *arg)
{
	struct bo_spec *b = &list->specs[list->n];
	char copy[256], *save, *word;

	if (list->n == WL_MAX_SPECS || strlen(arg) >= sizeof(copy))
		return bad("--bo", arg);
	strcpy(copy, arg);
	*b = (struct bo_spec){ .count = 1, .gpu = -1 };
	word = strtok_r(copy, ":", &save);
	if (word && !strcmp(word, "vram"))
		b->kind = BO_VRAM;
	else if (word && !strcmp(word, "gtt"))
		b->kind = BO_GTT;
	else if (word && !strcmp(word, "userptr"))
		b->kind = BO_USERPTR;
	else
		return bad("--bo", arg);
	word = strtok_r(NULL, ":", &save);
	if (!word || parse_size(word, &b->size))
		return bad("--bo", arg);
	while ((word = strtok_r(NULL, ":", &save)))
		if (parse_bo_opt(word, b))
			return bad("--bo", arg);
	if ((b->opts & OPT_NO_VA) && b->kind != BO_VRAM)
		return bad("--bo (no-va is for vram)", arg);
	if (b->opts & OPT_NO_VA)
		b->opts |= OPT_GPU_UNMAPPED;
	if ((b->opts & OPT_SPLIT) && b->size < 2 * WL_PAGE)
		return bad("--bo (split needs two pages)", arg);
	list->n++;
	return 0;
}

static int parse_queues(struct options *o, const char *arg)
{
	char copy[128], *save, *word;
	uint64_t n;

	o->q_compute = o->q_aql = o->q_sdma = 0;
	if (!strcmp(arg, "none"))
		return 0;
	if (strlen(arg) >= sizeof(copy))
		return bad("--queues", arg);
	strcpy(copy, arg);
	for (word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
		char *eq = strchr(word, '=');

		if (!eq || parse_number(eq + 1, &n) || n > 128)
			return bad("--queues", arg);
		*eq = 0;
		if (!strcmp(word, "compute"))
			o->q_compute = n;
		else if (!strcmp(word, "aql"))
			o->q_aql = n;
		else if (!strcmp(word, "sdma"))
			o->q_sdma = n;
		else
			return bad("--queues", arg);
	}
	return 0;
}

static int parse_fds(struct options *o, const char *arg)
{
	static const struct { const char *name; unsigned int bits; } names[] = {
		{ "normal", 0 }, { "render-first", FDS_RENDER_FIRST }, { "dense", FDS_DENSE },
		{ "fd0-closed", FDS_FD0_CLOSED }, { "fd0-kfd", FDS_FD0_KFD }, { "fd0-gpu", FDS_FD0_KFD },
		{ "fd0-render", FDS_FD0_RENDER | FDS_RENDER_FIRST }, { "two-kfd", FDS_TWO_KFD },
		{ "two-render", FDS_TWO_RENDER }, { "kfd-high", FDS_KFD_HIGH },
		{ "no-render-map", FDS_NO_RENDER_MAP }, { "dup", FDS_DUP },
	};
	char copy[128], *save, *word;

	if (strlen(arg) >= sizeof(copy))
		return bad("--fds", arg);
	strcpy(copy, arg);
	for (word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
		size_t i, n = sizeof(names) / sizeof(*names);

		for (i = 0; i < n && strcmp(word, names[i].name); i++)
			;
		if (i == n)
			return bad("--fds", arg);
		o->fds |= names[i].bits;
	}
	return 0;
}

static int parse_child(struct options *o, const char *arg)
{
	if (!strcmp(arg, "none"))
		o->child = CHILD_NONE;
	else if (!strcmp(arg, "plain"))
		o->child = CHILD_PLAIN;
	else if (!strcmp(arg, "gpu"))
		o->child = CHILD_GPU;
	else if (!strcmp(arg, "inherit"))
		o->child = CHILD_INHERIT;
	else if (!strcmp(arg, "closed"))
		o->child = CHILD_CLOSED;
	else
		return bad("--child", arg);
	return 0;
}

static int parse_foreign_fd(struct options *o, const char *arg)
{
	char copy[64], *colon;
	uint64_t n;

	if (strlen(arg) >= sizeof(copy))
		return bad("--foreign-fd", arg);
	strcpy(copy, arg);
	colon = strchr(copy, ':');
	if (colon) {
		*colon++ = 0;
		if (!strcmp(colon, "chardev"))
			o->foreign_kind = FOREIGN_CHARDEV;
		else if (!strcmp(colon, "tcp"))
			o->foreign_kind = FOREIGN_TCP;
		else if (!strcmp(colon, "lock"))
			o->foreign_kind = FOREIGN_LOCK;
		else
			return bad("--foreign-fd", arg);
	}
	if (parse_number(copy, &n) || n > 1000)
		return bad("--foreign-fd", arg);
	o->foreign_fd = n;
	return 0;
}

static void defaults(struct options *o)
{
	*o = (struct options){
		.seed = 1, .gpus = -1, .acquire = -1, .q_aql = 1, .q_sdma = 1, .events = 4, .threads = 1,
		.foreign_fd = -1, .heartbeat = true, .background = true, .interval_ms = 200, .tick_ms = 5,
		.queue_timeout_s = 10,
	};
}

static void default_bos(struct options *o)
{
	static const char *const bos[] = { "vram:1M:4", "gtt:256K:2", "userptr:256K:2" };

	for (size_t i = 0; i < sizeof(bos) / sizeof(*bos); i++)
		parse_bo(&o->bos, bos[i]);
}

static const char usage[] =
"usage: workload [--state FILE] [--seed N] [--gpus N|all] [--acquire N]\n"
"  [--bo KIND:SIZE[:COUNT][:OPT...]]... [--no-bo] [--queues compute=N,aql=N,sdma=N|none]\n"
"  [--events N] [--threads N] [--fds LAYOUT[,LAYOUT...]] [--flags] [--gem N] [--dmabuf] [--smi] [--svm] [--xnack]\n"
"  [--foreign] [--foreign-fd N[:chardev|tcp|lock]] [--child plain|gpu|inherit|closed]\n"
"  [--child-bo KIND:SIZE[:COUNT][:OPT...]]... [--bare]\n"
"  [--no-heartbeat] [--no-background] [--interval MS] [--tick MS] [--queue-timeout SECS]\n"
"  [--exit-after SECS] [--break WHAT]\n";

int options_parse(int argc, char **argv, struct options *o)
{
	enum { STATE = 1, SEED, GPUS, ACQUIRE, BO, NO_BO, QUEUES, EVENTS, THREADS, FDS, FLAGS, GEM, DMABUF, SMI, SVM, XNACK,
	       FOREIGN, FOREIGN_FD, CHILD, CHILD_BO, BARE, NO_HEARTBEAT, NO_BACKGROUND, INTERVAL, TICK, QTIMEOUT, EXIT_AFTER,
	       BREAK };
	static const struct option table[] = {
		{ "state", 1, 0, STATE }, { "seed", 1, 0, SEED }, { "gpus", 1, 0, GPUS },
		{ "acquire", 1, 0, ACQUIRE }, { "bo", 1, 0, BO }, { "no-bo", 0, 0, NO_BO },
		{ "queues", 1, 0, QUEUES }, { "events", 1, 0, EVENTS }, { "threads", 1, 0, THREADS },
		{ "fds", 1, 0, FDS }, { "flags", 0, 0, FLAGS }, { "gem", 1, 0, GEM },
		{ "dmabuf", 0, 0, DMABUF }, { "smi", 0, 0, SMI }, { "svm", 0, 0, SVM }, { "xnack", 0, 0, XNACK },
		{ "foreign", 0, 0, FOREIGN },
		{ "foreign-fd", 1, 0, FOREIGN_FD }, { "child", 1, 0, CHILD }, { "child-bo", 1, 0, CHILD_BO }, { "bare", 0, 0, BARE },
		{ "no-heartbeat", 0, 0, NO_HEARTBEAT }, { "no-background", 0, 0, NO_BACKGROUND },
		{ "no-pattern-check-interval", 0, 0, NO_BACKGROUND }, { "interval", 1, 0, INTERVAL },
		{ "tick", 1, 0, TICK }, { "queue-timeout", 1, 0, QTIMEOUT }, { "exit-after", 1, 0, EXIT_AFTER },
		{ "break", 1, 0, BREAK },
		{ 0 },
	};
	bool no_bo = false, events_set = false, threads_set = false, queues_set = false;
	uint64_t n = 0;
	int c, r = 0;

	defaults(o);
	while (!r && (c = getopt_long(argc, argv, "", table, NULL)) != -1) {
		bool numeric = c == SEED || c == ACQUIRE || c == EVENTS || c == THREADS || c == GEM ||
			       c == INTERVAL || c == TICK || c == QTIMEOUT || c == EXIT_AFTER ||
			       (c == GPUS && strcmp(optarg, "all"));

		if (numeric && parse_number(optarg, &n))
			return bad("number", optarg);
		switch (c) {
		case STATE: o->state = optarg; break;
		case SEED: o->seed = n; break;
		case GPUS: o->gpus = numeric ? (int)n : -1; break;
		case ACQUIRE: o->acquire = n; break;
		case BO: r = parse_bo(&o->bos, optarg); break;
		case CHILD_BO: r = parse_bo(&o->child_bos, optarg); break;
		case NO_BO: no_bo = true; break;
		case QUEUES: r = parse_queues(o, optarg); queues_set = true; break;
		case EVENTS: o->events = n; events_set = true; break;
		case THREADS: o->threads = n; threads_set = true; break;
		case FDS: r = parse_fds(o, optarg); break;
		case FLAGS: o->flags = true; break;
		case GEM: o->gem = n; break;
		case DMABUF: o->dmabuf = true; break;
		case SMI: o->smi = true; break;
		case SVM: o->svm = true; break;
		case XNACK: o->xnack = true; break;
		case FOREIGN: o->foreign = true; break;
		case FOREIGN_FD: r = parse_foreign_fd(o, optarg); break;
		case CHILD: r = parse_child(o, optarg); break;
		case BARE: o->bare = true; o->heartbeat = false; break;
		case NO_HEARTBEAT: o->heartbeat = false; break;
		case NO_BACKGROUND: o->background = false; break;
		case INTERVAL: o->interval_ms = n; break;
		case TICK: o->tick_ms = n; break;
		case QTIMEOUT: o->queue_timeout_s = n; break;
		case EXIT_AFTER: o->exit_after = n; break;
		case BREAK: o->sabotage = optarg; break;
		default:
			fputs(usage, stderr);
			return -1;
		}
	}
	if (!r && optind < argc)
		r = bad("argument", argv[optind]);
	if (o->bare) {
		if (!events_set)
			o->events = 0;
		if (!threads_set)
			o->threads = 0;
		if (!queues_set)
			o->q_aql = o->q_sdma = 0;
	}
	if (!o->bos.n && !no_bo)
		default_bos(o);
	return r;
}
