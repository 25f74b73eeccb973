/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that plays CRIU's part for the plugin, without CRIU.
 *
 * Built once for each number of hooks (-DHOOKS=N, 0: a CRIU whose table of hooks has no symbol), with
 * -rdynamic as CRIU is, and once without.
 */
#ifndef HOST_H
#define HOST_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef HOOKS
#error "say how many hooks this CRIU knows: -DHOOKS=N"
#endif

/* What a hook answers about an object of somebody else, and about one of its own that is no good. */
#define NOT_MINE (-95)
#define FAILED (-5)

enum stage { STAGE_DUMP, STAGE_PRE_DUMP, STAGE_RESTORE };

enum hook {
	HOOK_DUMP_EXT_FILE = 2,
	HOOK_RESTORE_EXT_FILE = 3,
	HOOK_HANDLE_DEVICE_VMA = 7,
	HOOK_UPDATE_VMA_MAP = 8,
	HOOK_RESUME_DEVICES_LATE = 9,
	MOST_HOOKS = 15,
};

/* What CRIU finds under the name CR_PLUGIN_DESC. */
struct descriptor {
	const char *name;
	int (*init)(int stage);
	void (*exit)(int stage, int ret);
	unsigned int version;
	unsigned int max_hooks;
	void *hooks[MOST_HOOKS];
};

/* CRIU's side, in criu.c. */
struct criu {
	int image_dir;		 /* descriptor of the folder of images */
	int streamer;		 /* >= 0: images come as a stream */
	int proc;		 /* CRIU's own /proc */
	bool named;		 /* the plugin is in the inventory of the images */
	unsigned int claims;	 /* how often it has asked to be put there */
	unsigned int errors;	 /* lines at error level */
	unsigned int bad_lines;	 /* calls of the log that CRIU would not print well */
	unsigned int bad_opens;	 /* images opened in the wrong direction */
};
extern struct criu criu;

/* The plugin's hooks with CRIU's ways of calling them, in host.c. */
int dump_file(const struct descriptor *d, int fd, int id);
int restore_file(const struct descriptor *d, int id);

/* Fails the program with the line and the text. */
#define CHECK(condition, ...)                                                             \
	do {                                                                              \
		if (!(condition)) {                                                       \
			fprintf(stderr, "%s:%d: not so: %s: ", __FILE__, __LINE__, #condition); \
			fprintf(stderr, __VA_ARGS__);                                     \
			fprintf(stderr, "\n");                                            \
			_Exit(1);                                                         \
		}                                                                         \
	} while (0)

/* Entries of /proc/self/fd or /proc/self/task. */
unsigned int count_entries(const char *folder);

/* The parts, each in a file of its own. */
void check_foreign(const struct descriptor *d);
void check_images(const struct descriptor *d, char **expected);

#endif
