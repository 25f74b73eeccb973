// SPDX-License-Identifier: Apache-2.0
/*
 * host PLUGIN foreign
 * host PLUGIN images FOLDER [--stream] [--unnamed] FIRST[-LAST]:CODE...
 * host PLUGIN mute
 */

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "host.h"

_Static_assert(offsetof(struct descriptor, hooks) == 32, "hooks begin at byte 32");

unsigned int count_entries(const char *folder)
{
	DIR *dir = opendir(folder);
	unsigned int count = 0;
	struct dirent *entry;

	CHECK(dir, "%s", folder);
	while ((entry = readdir(dir)))
		count += entry->d_name[0] != '.';
	closedir(dir);
	return count;
}

int dump_file(const struct descriptor *d, int fd, int id)
{
	return ((int (*)(int, int))d->hooks[HOOK_DUMP_EXT_FILE])(fd, id);
}

/*
 * From the fourteenth hook on CRIU passes the address of a variable that it has not set, and reads it
 * afterwards. Before, there is one argument, and the second register holds anything.
 */
int restore_file(const struct descriptor *d, int id)
{
	unsigned char retry = 0xa5;
	void *second = HOOKS >= 14 ? (void *)&retry : (void *)0x10;
	int code = ((int (*)(int, void *))d->hooks[HOOK_RESTORE_EXT_FILE])(id, second);

	CHECK(HOOKS < 14 || retry == 0, "file %d: retry_needed is %#x", id, retry);
	return code;
}

static void check_descriptor(const struct descriptor *d)
{
	static const bool has[MOST_HOOKS] = {
		[HOOK_DUMP_EXT_FILE] = true,
		[HOOK_RESTORE_EXT_FILE] = true,
		[HOOK_HANDLE_DEVICE_VMA] = true,
		[HOOK_UPDATE_VMA_MAP] = true,
		[HOOK_RESUME_DEVICES_LATE] = true,
	};
	unsigned int hook;

	CHECK(strcmp(d->name, "amdgpu_plugin") == 0, "%s", d->name);
	CHECK(d->version == 0x200, "%#x", d->version);
	/* What CRIU itself checks: more hooks than it knows would keep it from dumping anything. */
	CHECK(d->max_hooks >= 10 && d->max_hooks <= (HOOKS ? HOOKS : 10), "%u hooks", d->max_hooks);
	CHECK(d->init && d->exit, "init and exit");
	for (hook = 0; hook < d->max_hooks; hook++)
		CHECK(!!d->hooks[hook] == has[hook], "hook %u", hook);
}

/* A program that exports nothing: the plugin has to say no, and to stay harmless. */
static void check_mute(const struct descriptor *d)
{
	int stage;

	for (stage = STAGE_DUMP; stage <= STAGE_RESTORE; stage++) {
		CHECK(d->init(stage) != 0, "stage %d", stage);
		CHECK(dump_file(d, 0, 1) == NOT_MINE, "stage %d", stage);
		d->exit(stage, -1);
	}
}

int main(int argc, char **argv)
{
	const struct descriptor *d;
	void *library;

	CHECK(argc >= 3, "host PLUGIN PART ...");
	library = dlopen(argv[1], RTLD_LAZY);
	CHECK(library, "%s", dlerror());
	d = dlsym(library, "CR_PLUGIN_DESC");
	CHECK(d, "%s", dlerror());
	check_descriptor(d);
	criu.proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (strcmp(argv[2], "foreign") == 0) {
		check_foreign(d);
	} else if (strcmp(argv[2], "images") == 0) {
		CHECK(argc >= 4, "no folder");
		criu.image_dir = open(argv[3], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		CHECK(criu.image_dir >= 0, "%s", argv[3]);
		check_images(d, argv + 4);
	} else if (strcmp(argv[2], "mute") == 0) {
		check_mute(d);
	} else {
		CHECK(false, "no part %s", argv[2]);
	}
	CHECK(criu.bad_lines == 0, "%u lines with text as format", criu.bad_lines);
	CHECK(criu.bad_opens == 0, "%u images", criu.bad_opens);
	CHECK(dlclose(library) == 0, "%s", dlerror());
	puts("well");
	return 0;
}
