// SPDX-License-Identifier: Apache-2.0
/* The device mappings at `ready`: addresses, protection, sharing, file, VM flags. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wl.h"

struct map_entry {
	unsigned long start, end;
	char perms[5];
	char what[16];			/* kfd, render */
	char flags[96];			/* VmFlags */
};

struct map_snapshot {
	size_t n, cap;
	struct map_entry *e;
};

static const char *kind_of(const char *path)
{
	/* The image of a mapping may spell it with two slashes. */
	while (path[0] == '/' && path[1] == '/')
		path++;
	if (!strncmp(path, "/dev/kfd", 8))
		return "kfd";
	if (!strncmp(path, "/dev/dri/", 9))
		return "render";
	if (strstr(path, "dmabuf") || !strncmp(path, "anon_inode:", 11))
		return "foreign";	/* the workload maps nothing of the kind */
	return NULL;
}

static int add(struct map_snapshot *s, unsigned long start, unsigned long end, const char *perms, const char *what)
{
	if (s->n == s->cap) {
		size_t cap = s->cap ? s->cap * 2 : 64;
		struct map_entry *e = realloc(s->e, cap * sizeof(*e));

		if (!e)
			return -1;
		s->e = e;
		s->cap = cap;
	}
	memset(&s->e[s->n], 0, sizeof(*s->e));
	s->e[s->n].start = start;
	s->e[s->n].end = end;
	snprintf(s->e[s->n].perms, sizeof(s->e[s->n].perms), "%s", perms);
	snprintf(s->e[s->n].what, sizeof(s->e[s->n].what), "%s", what);
	s->n++;
	return 0;
}

/*
 * Flags as a sorted list: only which ones there are counts. Soft-dirty is left out: memory tracking of
 * a pre-dump clears it.
 */
static void keep_flags(char *dst, size_t cap, char *text)
{
	char *words[64], *save, *word;
	size_t n = 0, len = 0;

	for (word = strtok_r(text, " \n", &save); word && n < 64; word = strtok_r(NULL, " \n", &save)) {
		size_t k;

		if (!strcmp(word, "sd"))
			continue;
		k = n++;
		for (; k && strcmp(words[k - 1], word) > 0; k--)
			words[k] = words[k - 1];
		words[k] = word;
	}
	for (size_t i = 0; i < n && len < cap; i++)
		len += snprintf(dst + len, cap - len, "%s%s", i ? " " : "", words[i]);
}

static struct map_snapshot *take(void)
{
	FILE *f = fopen("/proc/self/smaps", "re");
	struct map_snapshot *s = calloc(1, sizeof(*s));
	static char line[8192];
	bool ours = false;

	if (!f || !s) {
		if (f)
			fclose(f);
		free(s);
		return NULL;
	}
	while (fgets(line, sizeof(line), f)) {
		unsigned long start, end;
		char perms[5] = "";
		int at = 0;

		if (sscanf(line, "%lx-%lx %4s %*s %*s %*s %n", &start, &end, perms, &at) == 3 && at) {
			const char *what = kind_of(line + at);

			ours = what;
			if (ours && add(s, start, end, perms, what))
				break;
		} else if (ours && !strncmp(line, "VmFlags:", 8)) {
			keep_flags(s->e[s->n - 1].flags, sizeof(s->e[0].flags), line + 8);
		}
	}
	fclose(f);
	return s;
}

int maps_take(struct wl *w)
{
	w->maps = take();
	return w->maps ? 0 : oops(w, "cannot read /proc/self/smaps: %m");
}

void maps_proof(struct wl *w, const char *when)
{
	struct map_snapshot *a = w->maps, *b = take();
	size_t i = 0, j = 0;

	if (!b) {
		fail(w, "cannot read /proc/self/smaps: %m");
		return;
	}
	while (i < a->n || j < b->n) {
		struct map_entry *x = i < a->n ? &a->e[i] : NULL, *y = j < b->n ? &b->e[j] : NULL;

		if (!y || (x && x->start < y->start)) {
			fail(w, "%s: %s mapping %lx-%lx is gone", when, x->what, x->start, x->end);
			i++;
			continue;
		}
		if (!x || x->start > y->start) {
			fail(w, "%s: foreign %s mapping %lx-%lx %s", when, y->what, y->start, y->end, y->perms);
			j++;
			continue;
		}
		if (x->end != y->end || strcmp(x->perms, y->perms) || strcmp(x->what, y->what))
			fail(w, "%s: mapping %lx-%lx %s %s, was %lx-%lx %s %s", when, y->start, y->end, y->perms, y->what,
			     x->start, x->end, x->perms, x->what);
		if (strcmp(x->flags, y->flags))
			fail(w, "%s: %s mapping %lx: VmFlags %s, were %s", when, x->what, x->start, y->flags, x->flags);
		i++;
		j++;
	}
	free(b->e);
	free(b);
}
