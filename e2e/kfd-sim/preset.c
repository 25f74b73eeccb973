// SPDX-License-Identifier: GPL-2.0
/* The machines that preset=NAME stands for, in the grammar of README.md. */
#include <linux/kernel.h>
#include <linux/string.h>
#include "desc.h"

#define SMALL(range) "cpu c0\ngpu g[0-" range "] model=gfx90a\n"

static const struct { const char *name, *text; } presets[] = {
	{ "gfx90a-1", "cpu c0\ngpu g0 model=gfx90a\n" },
	{ "gfx90a-2", SMALL("1") },
	{ "gfx90a-4", SMALL("3") },
	{ "gfx90a-8", SMALL("7") },
	{ "gfx8-1", "cpu c0\ngpu g0 model=gfx8\n" },
	{ "vega20", "cpu c0\ngpu g[0-1] model=vega20\n" },
	{ "mi210-pair", "cpu c0\ngpu g[0-1] model=mi210\nhive g[0-1]\n" },
	/* Two dies of one package. */
	{ "mi250", "cpu c0\ngpu g[0-1] model=mi250\nhive g[0-1]\n" },
	{ "mi250x", "cpu c0\ngpu g[0-1] model=mi250x\nhive g[0-1]\n" },
	{ "mi300x-hive8",
	  "cpu c[0-1]\n"
	  "gpu g[0-3] model=mi300x cpu=c0\n"
	  "gpu g[4-7] model=mi300x cpu=c1\n"
	  "hive g[0-7]\n" },
	{ "mi300x-cpx64",
	  "cpu c[0-1]\n"
	  "gpu g[0-31] model=mi300x-cpx cpu=c0 partitions=8\n"
	  "gpu g[32-63] model=mi300x-cpx cpu=c1 partitions=8\n"
	  "hive g[0-63] weight=41\n" },
	/* Each APU is a CPU and a GPU; the CPU nodes carry the hive's id as well. */
	{ "mi300a",
	  "cpu c[0-3] hive_id=0x7d61f0c2a9e45b82\n"
	  "gpu g0 model=mi300a cpu=c0 cpu_link=xgmi\n"
	  "gpu g1 model=mi300a cpu=c1 cpu_link=xgmi\n"
	  "gpu g2 model=mi300a cpu=c2 cpu_link=xgmi\n"
	  "gpu g3 model=mi300a cpu=c3 cpu_link=xgmi\n"
	  "hive g[0-3] id=0x7d61f0c2a9e45b82\n" },
};

const char *sim_preset_text(const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(presets); i++)
		if (!strcmp(presets[i].name, name))
			return presets[i].text;
	return NULL;
}
