// SPDX-License-Identifier: Apache-2.0
/* The functions and the table that a plugin finds in CRIU. */

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host.h"

struct criu criu = { .image_dir = -1, .streamer = -1, .proc = -1, .named = true };

#if HOOKS > 0
/* One list head for the plugins and one for each hook: its size tells how many hooks there are. */
struct list_head {
	struct list_head *next, *prev;
} cr_plugin_ctl[1 + HOOKS];
#endif

void print_on_level(unsigned int level, const char *format, ...)
{
	va_list args;

	/* Text of unknown content must not be the format, and a line without an end spoils the next one. */
	if (strcmp(format, "%s\n") != 0)
		criu.bad_lines++;
	if (level <= 1)
		criu.errors++;
	fprintf(stderr, "log %u: ", level);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
}

unsigned int log_get_loglevel(void)
{
	return 4;
}

int criu_get_image_dir(void)
{
	return criu.image_dir;
}

int get_service_fd(int type)
{
	switch (type) {
	case 2:
		return criu.image_dir;
	case 3:
		return criu.streamer;
	case 7:
		return criu.proc;
	default:
		return -1;
	}
}

/* As CRIU's: a pipe, and no image twice. Only small images: they have to fit into the pipe. */
int img_streamer_open(char *name, int flags)
{
	static char content[32768];
	int pipes[2], file;
	ssize_t length;

	if (flags != O_RDONLY) {
		criu.bad_opens++;
		return -1;
	}
	file = openat(criu.image_dir, name, O_RDONLY | O_CLOEXEC);
	if (file < 0)
		return errno == ENOENT ? -ENOENT : -1;
	length = read(file, content, sizeof(content));
	close(file);
	CHECK(length >= 0 && unlinkat(criu.image_dir, name, 0) == 0, "%s", name);
	CHECK(pipe(pipes) == 0, "pipe");
	CHECK(write(pipes[1], content, length) == length, "%s is too long", name);
	close(pipes[1]);
	return pipes[0];
}

#define STORED 64
static int store[STORED];
static int stored;

int fdstore_add(int fd)
{
	if (stored == STORED)
		return -1;
	store[stored] = fcntl(fd, F_DUPFD_CLOEXEC, 200);
	return store[stored] < 0 ? -1 : stored++;
}

int fdstore_get(int id)
{
	return id < 0 || id >= stored ? -1 : dup(store[id]);
}

int add_inventory_plugin(const char *name)
{
	(void)name;
	criu.claims++;
	return 0;
}

bool check_and_remove_inventory_plugin(const char *name, size_t length)
{
	bool named = criu.named && length == strlen("amdgpu_plugin") &&
		     memcmp(name, "amdgpu_plugin", length) == 0;

	if (named)
		criu.named = false;
	return named;
}
