// SPDX-License-Identifier: Apache-2.0
/* Images that are no good: the hook fails with a line in the log, and leaves nothing behind. */

#include <string.h>
#include <unistd.h>

#include "host.h"

static void check_file(const struct descriptor *d, int id, int wanted)
{
	unsigned int errors = criu.errors;
	unsigned int descriptors = count_entries("/proc/self/fd");
	int code;

	code = restore_file(d, id);
	CHECK(code == wanted, "file %d: %d instead of %d", id, code, wanted);
	CHECK((criu.errors > errors) == (wanted == FAILED), "file %d: %u errors logged", id,
	      criu.errors - errors);
	CHECK(count_entries("/proc/self/fd") == descriptors, "file %d: descriptors", id);
	CHECK(count_entries("/proc/self/task") == 1, "file %d: threads", id);
}

void check_images(const struct descriptor *d, char **expected)
{
	bool twice = false;
	char byte;

	/* Whoever has started this program makes the images now: their names hold its pid. */
	while (read(0, &byte, 1) > 0)
		;
	for (; *expected && strncmp(*expected, "--", 2) == 0; expected++) {
		if (strcmp(*expected, "--stream") == 0)
			criu.streamer = criu.proc;
		else if (strcmp(*expected, "--twice") == 0)
			twice = true;
		else
			criu.named = false;
	}
	CHECK(d->init(STAGE_RESTORE) == 0, "init");
	CHECK(!twice || d->init(STAGE_RESTORE) == 0, "init");
	for (; *expected; expected++) {
		int first, last, code;

		if (sscanf(*expected, "%d-%d:%d", &first, &last, &code) != 3) {
			CHECK(sscanf(*expected, "%d:%d", &first, &code) == 2, "%s", *expected);
			last = first;
		}
		for (; first <= last; first++)
			check_file(d, first, code);
	}
	d->exit(STAGE_RESTORE, -1);
}
