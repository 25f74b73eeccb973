// SPDX-License-Identifier: GPL-2.0
/*
 * Reads a description (grammar in README.md) into a draft of sim_sys. Errors go to the kernel log with
 * source, line and the word that is wrong, and fail the load.
 */
#include <linux/ctype.h>
#include <linux/fs.h>
#include <linux/kernel.h>
#include <linux/slab.h>
#include <linux/string.h>
#include "desc.h"

struct sim_system sim_sys;

#define MAX_WORDS 96
#define MAX_NAMES 80

struct parser {
	struct sim_draft *d;
	u32 line;
};

#define complain(p, fmt, ...) \
	pr_err("kfd-sim: %s:%u: " fmt "\n", (p)->d->source, (p)->line, ##__VA_ARGS__)

/* ------------------------------------------------------------------ properties */

enum { FOR_CPU = 1, FOR_GPU = 2, FOR_BOTH = 3 };

struct property_key {
	const char *name;
	u16 offset, size;
	u8 whose;
};

#define KEY(field, whose) { #field, offsetof(struct sim_node_desc, field), \
	sizeof_field(struct sim_node_desc, field), whose }
#define KEY_AS(text, field, whose) { text, offsetof(struct sim_node_desc, field), \
	sizeof_field(struct sim_node_desc, field), whose }

static const struct property_key keys[] = {
	KEY(cpu_cores_count, FOR_CPU), KEY(cpu_core_id_base, FOR_CPU),
	KEY(simd_count, FOR_GPU), KEY(simd_id_base, FOR_GPU), KEY(caches_count, FOR_GPU),
	KEY(max_waves_per_simd, FOR_GPU), KEY(lds_size_in_kb, FOR_GPU), KEY(gds_size_in_kb, FOR_GPU),
	KEY(num_gws, FOR_GPU), KEY(wave_front_size, FOR_GPU), KEY(array_count, FOR_GPU),
	KEY(simd_arrays_per_engine, FOR_GPU), KEY(cu_per_simd_array, FOR_GPU), KEY(simd_per_cu, FOR_GPU),
	KEY(max_slots_scratch_cu, FOR_GPU), KEY(gfx_target_version, FOR_GPU), KEY(vendor_id, FOR_GPU),
	KEY(device_id, FOR_GPU), KEY(location_id, FOR_GPU), KEY(domain, FOR_GPU), KEY(hive_id, FOR_BOTH),
	KEY(num_sdma_engines, FOR_GPU), KEY(num_sdma_xgmi_engines, FOR_GPU),
	KEY(num_sdma_queues_per_engine, FOR_GPU), KEY(num_cp_queues, FOR_GPU), KEY(cwsr_size, FOR_GPU),
	KEY(ctl_stack_size, FOR_GPU), KEY(fw_version, FOR_GPU), KEY(capability, FOR_GPU),
	KEY(debug_prop, FOR_GPU), KEY(sdma_fw_version, FOR_GPU), KEY(num_xcc, FOR_GPU),
	KEY(unique_id, FOR_GPU), KEY(gpu_id, FOR_GPU), KEY(family, FOR_GPU), KEY(heap_type, FOR_GPU),
	KEY(max_engine_clk_fcompute, FOR_GPU), KEY(max_engine_clk_ccompute, FOR_BOTH),
	KEY(mem_width, FOR_BOTH), KEY(mem_clk_max, FOR_BOTH), KEY(l1_kb, FOR_GPU), KEY(l2_kb, FOR_GPU),
	KEY(l3_kb, FOR_GPU), KEY(cu_per_icache, FOR_GPU), KEY_AS("mem", mem_bytes, FOR_BOTH),
};

/* Decimal, 0x.. or with a binary suffix: 64G, 512M, 4K. */
static int parse_number(const char *text, u64 *out)
{
	char *end;
	u64 v;

	if (!isdigit(text[0]))
		return -EINVAL;
	if (!kstrtou64(text, 0, out))
		return 0;
	v = memparse(text, &end);
	if (*end)
		return -EINVAL;
	*out = v;
	return 0;
}

static int parse_word_u32(struct parser *p, const char *key, const char *value, u32 *out)
{
	u64 v;

	if (parse_number(value, &v) || v > U32_MAX) {
		complain(p, "%s: '%s' is not a 32-bit number", key, value);
		return -EINVAL;
	}
	*out = v;
	return 0;
}

static void remember_given(struct sim_draft_node *info, const char *key)
{
	if (!strcmp(key, "gpu_id"))
		info->id_given = true;
	else if (!strcmp(key, "location_id"))
		info->location_given = true;
	else if (!strcmp(key, "unique_id"))
		info->unique_given = true;
	else if (!strcmp(key, "caches_count"))
		info->caches_given = true;
	else if (!strcmp(key, "cwsr_size") || !strcmp(key, "ctl_stack_size"))
		info->cwsr_given = true;
	else if (!strcmp(key, "mem"))
		info->mem_given = true;
}

static int set_property(struct parser *p, struct sim_node_desc *n, struct sim_draft_node *info,
			const char *name, const char *value)
{
	size_t i;
	u64 v;

	for (i = 0; i < ARRAY_SIZE(keys); i++) {
		if (strcmp(keys[i].name, name))
			continue;
		if (!(keys[i].whose & (info->gpu ? FOR_GPU : FOR_CPU))) {
			complain(p, "%s: not a property of a %s", name, info->gpu ? "gpu" : "cpu");
			return -EINVAL;
		}
		if (parse_number(value, &v) || (keys[i].size == 4 && v > U32_MAX)) {
			complain(p, "%s: '%s' is not a %u-bit number", name, value, keys[i].size * 8);
			return -EINVAL;
		}
		if (keys[i].size == 4)
			*(u32 *)((char *)n + keys[i].offset) = v;
		else
			*(u64 *)((char *)n + keys[i].offset) = v;
		remember_given(info, name);
		return 0;
	}
	complain(p, "%s: unknown key", name);
	return -EINVAL;
}

/* ------------------------------------------------------------------ names */

static int find_node(struct sim_draft *d, const char *name)
{
	u32 i;

	for (i = 0; i < d->count; i++)
		if (!strcmp(d->info[i].name, name))
			return i;
	return -1;
}

static bool good_name(const char *s)
{
	size_t n = strlen(s);

	if (!n || n >= SIM_NAME_LEN || !isalpha(s[0]))
		return false;
	return strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == n;
}

/* "g0", "g[0-3]" or several of them with commas, into names[]; the count, or -EINVAL. */
static int expand_names(struct parser *p, char *list, char (*names)[SIM_NAME_LEN])
{
	int n = 0;
	char *one;

	while ((one = strsep(&list, ","))) {
		char *open = strchr(one, '[');
		u32 from = 0, to = 0, i;
		char tail;

		if (open) {
			*open = 0;
			if (sscanf(open + 1, "%u-%u%c", &from, &to, &tail) != 3 || tail != ']' ||
			    from > to || to - from >= MAX_NAMES) {
				complain(p, "%s[%s: bad range", one, open + 1);
				return -EINVAL;
			}
		}
		for (i = from; i <= to; i++, n++) {
			char full[2 * SIM_NAME_LEN];

			if (n == MAX_NAMES) {
				complain(p, "more than %u names", MAX_NAMES);
				return -EINVAL;
			}
			if (strlen(one) >= SIM_NAME_LEN)
				full[0] = 0;
			else if (open)
				snprintf(full, sizeof(full), "%s%u", one, i);
			else
				snprintf(full, sizeof(full), "%s", one);
			if (!good_name(full)) {
				complain(p, "'%s': bad name", one);
				return -EINVAL;
			}
			strscpy(names[n], full, SIM_NAME_LEN);
		}
	}
	return n;
}

/* ------------------------------------------------------------------ statements */

static int set_gpu_word(struct parser *p, struct sim_node_desc *n, struct sim_draft_node *info,
			const char *key, const char *value)
{
	if (!strcmp(key, "model")) {
		if (sim_model_fill(value, n)) {
			complain(p, "model: '%s' is unknown", value);
			return -EINVAL;
		}
		return 0;
	}
	if (!strcmp(key, "cpu")) {
		if (!good_name(value)) {
			complain(p, "cpu: '%s': bad name", value);
			return -EINVAL;
		}
		strscpy(info->cpu, value, sizeof(info->cpu));
		return 0;
	}
	if (!strcmp(key, "cpu_link")) {
		if (!strcmp(value, "pcie"))
			info->cpu_link = SIM_CPU_PCIE;
		else if (!strcmp(value, "pcie-oneway"))
			info->cpu_link = SIM_CPU_PCIE_ONEWAY;
		else if (!strcmp(value, "xgmi"))
			info->cpu_link = SIM_CPU_XGMI;
		else if (!strcmp(value, "none"))
			info->cpu_link = SIM_CPU_NO_LINK;
		else {
			complain(p, "cpu_link: '%s' is none of pcie, pcie-oneway, xgmi, none", value);
			return -EINVAL;
		}
		return 0;
	}
	if (!strcmp(key, "partitions")) {
		if (parse_word_u32(p, key, value, &info->partitions))
			return -EINVAL;
		if (!info->partitions || info->partitions > 8) {
			complain(p, "partitions: '%s' is not 1 to 8", value);
			return -EINVAL;
		}
		return 0;
	}
	if (!strcmp(key, "name")) {
		strscpy(n->name, value, sizeof(n->name));
		return 0;
	}
	return set_property(p, n, info, key, value);
}

static int node_statement(struct parser *p, bool gpu, char **words, int count)
{
	struct sim_draft *d = p->d;
	char (*names)[SIM_NAME_LEN] = kcalloc(MAX_NAMES, SIM_NAME_LEN, GFP_KERNEL);
	struct sim_draft_node info = { .gpu = gpu, .line = p->line, .partitions = 1 };
	struct sim_node_desc *n = kzalloc(sizeof(*n), GFP_KERNEL);
	int i, total, r = -ENOMEM;

	if (!names || !n)
		goto out;
	r = -EINVAL;
	total = expand_names(p, words[0], names);
	if (total < 0)
		goto out;
	for (i = 1; i < count; i++) {
		char *value = strchr(words[i], '=');

		if (!value) {
			complain(p, "'%s': not of the form key=value", words[i]);
			goto out;
		}
		*value++ = 0;
		/* model= would overwrite what came before it */
		if (!strcmp(words[i], "model") && i > 1) {
			complain(p, "model: must come first");
			goto out;
		}
		if (gpu ? set_gpu_word(p, n, &info, words[i], value) :
			  set_property(p, n, &info, words[i], value))
			goto out;
	}
	for (i = 0; i < total; i++) {
		if (find_node(d, names[i]) >= 0) {
			complain(p, "%s: name used twice", names[i]);
			goto out;
		}
		if (d->count == SIM_MAX_NODES) {
			complain(p, "more than %u nodes", SIM_MAX_NODES);
			goto out;
		}
		d->nodes[d->count] = *n;
		d->info[d->count] = info;
		strscpy(d->info[d->count].name, names[i], SIM_NAME_LEN);
		d->info[d->count].partition = i % info.partitions;
		d->info[d->count].card = d->cards;
		if (gpu && i % info.partitions == info.partitions - 1)
			d->cards++;
		d->count++;
	}
	if (gpu && total % info.partitions)
		d->cards++;
	r = 0;
out:
	kfree(names);
	kfree(n);
	return r;
}

static int link_statement(struct parser *p, char **words, int count)
{
	u32 type = 0, weight = 0, flags = SIM_LINK_F_ENABLED;
	bool oneway = false, weight_given = false;
	int from, to, i, r;

	if (count < 3) {
		complain(p, "link: wants two names and type=");
		return -EINVAL;
	}
	from = find_node(p->d, words[0]);
	to = find_node(p->d, words[1]);
	if (from < 0 || to < 0) {
		complain(p, "link: '%s' is no node", from < 0 ? words[0] : words[1]);
		return -EINVAL;
	}
	for (i = 2; i < count; i++) {
		char *value = strchr(words[i], '=');

		if (!strcmp(words[i], "oneway")) {
			oneway = true;
			continue;
		}
		if (!value) {
			complain(p, "'%s': not of the form key=value", words[i]);
			return -EINVAL;
		}
		*value++ = 0;
		if (!strcmp(words[i], "type")) {
			if (!strcmp(value, "pcie"))
				type = SIM_LINK_PCIE;
			else if (!strcmp(value, "xgmi"))
				type = SIM_LINK_XGMI;
			else if (!strcmp(value, "ht"))
				type = SIM_LINK_HT;
			else if (!strcmp(value, "qpi"))
				type = SIM_LINK_QPI;
			else if (parse_word_u32(p, "type", value, &type))
				return -EINVAL;
		} else if (!strcmp(words[i], "weight")) {
			if (parse_word_u32(p, "weight", value, &weight))
				return -EINVAL;
			weight_given = true;
		} else if (!strcmp(words[i], "flags")) {
			if (parse_word_u32(p, "flags", value, &flags))
				return -EINVAL;
		} else {
			complain(p, "%s: unknown key of link", words[i]);
			return -EINVAL;
		}
	}
	if (!type) {
		complain(p, "link: type is missing");
		return -EINVAL;
	}
	if (!weight_given)
		weight = type == SIM_LINK_XGMI ? 15 : 20;
	r = sim_draft_link(p->d, from, to, type, weight, flags);
	if (!r && !oneway)
		r = sim_draft_link(p->d, to, from, type, weight, flags);
	return r;
}

static int hive_statement(struct parser *p, char **words, int count)
{
	char (*names)[SIM_NAME_LEN] = kcalloc(MAX_NAMES, SIM_NAME_LEN, GFP_KERNEL);
	u64 id = 0;
	u32 weight = 15;
	int i, j, total, r = -EINVAL;

	if (!names)
		return -ENOMEM;
	total = expand_names(p, words[0], names);
	if (total < 0)
		goto out;
	for (i = 1; i < count; i++) {
		char *value = strchr(words[i], '=');

		if (value)
			*value++ = 0;
		if (value && !strcmp(words[i], "id")) {
			if (parse_number(value, &id) || !id) {
				complain(p, "id: '%s' is not a number from 1 on", value);
				goto out;
			}
		} else if (value && !strcmp(words[i], "weight")) {
			if (parse_word_u32(p, "weight", value, &weight))
				goto out;
		} else {
			complain(p, "%s: unknown key of hive", words[i]);
			goto out;
		}
	}
	p->d->hives++;
	if (!id)
		id = (u64)sim_hash32(p->d->hives, 0x48495645) << 32 | sim_hash32(0x48495645, p->d->hives) | 1;
	for (i = 0; i < total; i++) {
		int a = find_node(p->d, names[i]);

		if (a < 0 || !p->d->info[a].gpu) {
			complain(p, "hive: '%s' is no gpu", names[i]);
			goto out;
		}
		p->d->nodes[a].hive_id = id;
		for (j = 0; j < total; j++) {
			int b = find_node(p->d, names[j]);

			if (b < 0 || b == a)
				continue;
			r = sim_draft_link(p->d, a, b, SIM_LINK_XGMI, weight, SIM_LINK_F_ENABLED);
			if (r)
				goto out;
		}
	}
	r = 0;
out:
	kfree(names);
	return r;
}

static int option_statement(struct parser *p, char **words, int count)
{
	int i;

	for (i = 0; i < count; i++) {
		bool on = str_has_prefix(words[i], "cpu_links=on") || str_has_prefix(words[i], "p2p=on");

		if (!strcmp(words[i], "cpu_links=on") || !strcmp(words[i], "cpu_links=off"))
			p->d->cpu_links = on;
		else if (!strcmp(words[i], "p2p=on") || !strcmp(words[i], "p2p=off"))
			p->d->p2p = on;
		else {
			complain(p, "%s: unknown option", words[i]);
			return -EINVAL;
		}
	}
	return 0;
}

static int statement(struct parser *p, char *line)
{
	char **words = kcalloc(MAX_WORDS, sizeof(*words), GFP_KERNEL);
	int count = 0, r = 0;
	char *word;

	if (!words)
		return -ENOMEM;
	strreplace(line, '\t', ' ');
	strreplace(line, '\r', ' ');
	word = strchr(line, '#');
	if (word)
		*word = 0;
	while ((word = strsep(&line, " "))) {
		if (!*word)
			continue;
		if (count == MAX_WORDS) {
			complain(p, "more than %u words", MAX_WORDS);
			r = -EINVAL;
			goto out;
		}
		words[count++] = word;
	}
	if (!count)
		goto out;
	if (count == 1) {
		complain(p, "%s: nothing follows", words[0]);
		r = -EINVAL;
	} else if (!strcmp(words[0], "cpu")) {
		r = node_statement(p, false, words + 1, count - 1);
	} else if (!strcmp(words[0], "gpu")) {
		r = node_statement(p, true, words + 1, count - 1);
	} else if (!strcmp(words[0], "hive")) {
		r = hive_statement(p, words + 1, count - 1);
	} else if (!strcmp(words[0], "link")) {
		r = link_statement(p, words + 1, count - 1);
	} else if (!strcmp(words[0], "option")) {
		r = option_statement(p, words + 1, count - 1);
	} else {
		complain(p, "%s: none of cpu, gpu, hive, link, option", words[0]);
		r = -EINVAL;
	}
	if (r == -ENOSPC)
		complain(p, "more than %u links from one node", SIM_MAX_LINKS);
	else if (r == -EEXIST)
		complain(p, "two links between the same two nodes, or from a node to itself");
out:
	kfree(words);
	return r;
}

static int parse(struct sim_draft *d, char *text)
{
	struct parser p = { .d = d };
	char *line;
	int r;

	while ((line = strsep(&text, "\n"))) {
		p.line++;
		r = statement(&p, line);
		if (r)
			return r;
	}
	return 0;
}

/* ------------------------------------------------------------------ entry */

/* By hand and not through kernel_read_file(): security modules warn about kinds of file that they do not know. */
static char *read_text(const char *path)
{
	struct file *f = filp_open(path, O_RDONLY, 0);
	char *text;
	loff_t pos = 0;
	ssize_t n = 1;

	if (IS_ERR(f)) {
		pr_err("kfd-sim: description %s: error %ld\n", path, PTR_ERR(f));
		return ERR_CAST(f);
	}
	text = kvmalloc(SIM_DESC_MAX_BYTES + 1, GFP_KERNEL);
	while (text && n > 0 && pos < SIM_DESC_MAX_BYTES + 1)
		n = kernel_read(f, text + pos, SIM_DESC_MAX_BYTES + 1 - pos, &pos);
	filp_close(f, NULL);
	if (!text)
		return ERR_PTR(-ENOMEM);
	if (n >= 0 && pos > SIM_DESC_MAX_BYTES)
		n = -EFBIG;
	else if (n >= 0 && memchr(text, 0, pos))
		n = -EILSEQ;	/* a byte 0 would hide what follows it */
	if (n < 0) {
		pr_err("kfd-sim: description %s: error %zd (at most %u bytes are read)\n", path, n, SIM_DESC_MAX_BYTES);
		kvfree(text);
		return ERR_PTR(n);
	}
	text[pos] = 0;
	return text;
}

int sim_describe(const char *preset, const char *path, const struct sim_overrides *over)
{
	struct sim_draft d = { .cpu_links = true, .p2p = true };
	bool from_file = path && *path;
	char *text;
	int r = -ENOMEM;

	if (from_file) {
		text = read_text(path);
		if (IS_ERR(text))
			return PTR_ERR(text);
	} else {
		const char *t = sim_preset_text(preset);

		if (!t) {
			pr_err("kfd-sim: preset '%s' is unknown\n", preset);
			return -EINVAL;
		}
		text = kstrdup(t, GFP_KERNEL);
		if (!text)
			return -ENOMEM;
	}
	d.source = from_file ? path : preset;
	d.nodes = kvcalloc(SIM_MAX_NODES, sizeof(*d.nodes), GFP_KERNEL);
	d.info = kvcalloc(SIM_MAX_NODES, sizeof(*d.info), GFP_KERNEL);
	if (d.nodes && d.info)
		r = parse(&d, text);
	if (!r)
		r = sim_layout(&d, over);
	kvfree(text);
	kvfree(d.info);
	if (r) {
		kvfree(d.nodes);
		return r;
	}
	sim_sys.nodes = d.nodes;
	return 0;
}

void sim_describe_release(void)
{
	kvfree(sim_sys.nodes);
	sim_sys.nodes = NULL;
}
