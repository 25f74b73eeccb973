// SPDX-License-Identifier: Apache-2.0
/* SVM: a range of the process's own memory with attributes in each of two halves. They are KFD's alone: CRIU
 * sees ordinary memory, and a restore without them would go unnoticed until the GPU uses the range. */
#include <linux/kfd_ioctl.h>
#include <string.h>
#include <sys/mman.h>

#include "wl.h"

#define SVM_BYTES (64ULL << 10)
#define GRANULARITY(half) (3 + 2 * (half))	/* neither is the default, 9 */

struct svm_call {
	struct kfd_ioctl_svm_args a;
	struct kfd_ioctl_svm_attribute at[2];
};

static int svm_call(struct wl *w, unsigned int half, uint32_t op, struct svm_call *c)
{
	c->a.start_addr = (uintptr_t)w->svm + half * SVM_BYTES / 2;
	c->a.size = SVM_BYTES / 2;
	c->a.op = op;
	c->a.nattr = 2;
	c->at[0].type = KFD_IOCTL_SVM_ATTR_PREFERRED_LOC;
	c->at[1].type = KFD_IOCTL_SVM_ATTR_GRANULARITY;
	return kfd_ioctl(w, _IOC(_IOC_READ | _IOC_WRITE, 'K', 0x20, sizeof(*c)), c);
}

int svm_open(struct wl *w)
{
	w->svm = mmap(NULL, SVM_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (w->svm == MAP_FAILED)
		return oops(w, "memory for SVM: %m");
	memset(w->svm, 0x5a, SVM_BYTES);
	for (unsigned int half = 0; half < 2; half++) {
		struct svm_call c = { .at[0].value = w->gpus[0].gpu_id, .at[1].value = GRANULARITY(half) };
		int r = svm_call(w, half, KFD_IOCTL_SVM_OP_SET_ATTR, &c);

		if (r)
			return oops(w, "SVM SET_ATTR: %s", strerror(-r));
	}
	return 0;
}

void svm_proof(struct wl *w)
{
	for (unsigned int half = 0; w->svm && half < 2; half++) {
		struct svm_call c = { 0 };
		int r = svm_call(w, half, KFD_IOCTL_SVM_OP_GET_ATTR, &c);

		if (r)
			fail(w, "SVM GET_ATTR of half %u: %s", half, strerror(-r));
		else if (c.at[0].value != w->gpus[0].gpu_id || c.at[1].value != GRANULARITY(half))
			fail(w, "SVM half %u has location %u and granularity %u, not %u and %u", half, c.at[0].value,
			     c.at[1].value, w->gpus[0].gpu_id, GRANULARITY(half));
	}
}
