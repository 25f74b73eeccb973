// SPDX-License-Identifier: GPL-2.0
/*
 * Shared virtual memory: ranges of the process's own memory with attributes. There is only the
 * bookkeeping; no page ever moves and no queue reaches memory through it. It exists on machines whose
 * description sets the capability bit on every GPU, and everywhere else the call fails as in a kernel
 * built without it.
 */
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include "kfd.h"
#include "kfd_criu.h"

#define CAPABILITY_SVM 0x08000000
#define LOC_SYSMEM 0
#define LOC_UNDEFINED 0xffffffffu
#define DEFAULT_FLAGS (KFD_IOCTL_SVM_FLAG_HOST_ACCESS | KFD_IOCTL_SVM_FLAG_COHERENT)
#define DEFAULT_GRANULARITY 9
#define FIXED_ATTRS 4		/* preferred, prefetch, flags, granularity */

struct sim_svm_attrs {
	u32 preferred, prefetch, flags, granularity;
	DECLARE_BITMAP(access, SIM_MAX_GPUS);		/* by sim_pdd.index */
	DECLARE_BITMAP(in_place, SIM_MAX_GPUS);
};

struct sim_svm_range {
	struct list_head list;	/* by address, never overlapping */
	u64 first, last;	/* pages */
	bool pending;		/* read by RESTORE, takes effect with RESUME */
	struct sim_svm_attrs a;
};

void sim_svm_init(struct sim_process *p)
{
	INIT_LIST_HEAD(&p->svm);
}

bool sim_svm_enabled(struct sim_process *p)
{
	u32 i;

	for (i = 0; i < p->n_pdds; i++)
		if (!(p->pdds[i].gpu->desc->capability & CAPABILITY_SVM))
			return false;
	return p->n_pdds;
}

static void range_free(struct sim_process *p, struct sim_svm_range *r)
{
	list_del(&r->list);
	p->n_svm--;
	kfree(r);
}

void sim_svm_destroy(struct sim_process *p)
{
	struct sim_svm_range *r, *next;

	list_for_each_entry_safe(r, next, &p->svm, list)
		range_free(p, r);
}

bool sim_svm_overlaps(struct sim_process *p, u64 start, u64 size)
{
	u64 first = start >> PAGE_SHIFT, last = (start + size - 1) >> PAGE_SHIFT;
	struct sim_svm_range *r;

	list_for_each_entry(r, &p->svm, list)
		if (!r->pending && r->first <= last && r->last >= first)
			return true;
	return false;
}

bool sim_svm_covers(struct sim_process *p, u64 start, u64 size)
{
	u64 next = start >> PAGE_SHIFT, last = (start + size - 1) >> PAGE_SHIFT;
	struct sim_svm_range *r;

	list_for_each_entry(r, &p->svm, list)
		if (!r->pending && r->first <= next && r->last >= next)
			next = r->last + 1;
	return next > last;
}

static struct sim_svm_range *range_new(struct sim_process *p, struct list_head *before, u64 first, u64 last,
				       const struct sim_svm_attrs *a)
{
	struct sim_svm_range *r = kzalloc(sizeof(*r), GFP_KERNEL);

	if (!r)
		return NULL;
	r->first = first;
	r->last = last;
	r->a = *a;
	list_add_tail(&r->list, before);
	p->n_svm++;
	return r;
}

/* Cuts ranges at the ends of [first, last] and fills its gaps, so that it consists of whole ranges. */
static int make_whole(struct sim_process *p, u64 first, u64 last)
{
	const struct sim_svm_attrs fresh = {
		.preferred = LOC_UNDEFINED, .prefetch = LOC_UNDEFINED, .flags = DEFAULT_FLAGS,
		.granularity = DEFAULT_GRANULARITY,
	};
	u64 next = first;
	struct sim_svm_range *r;

	list_for_each_entry(r, &p->svm, list) {
		if (r->pending || r->last < first)
			continue;
		if (r->first > last)
			break;
		if (r->first < first) {		/* its beginning stays outside */
			if (!range_new(p, &r->list, r->first, first - 1, &r->a))
				return -ENOMEM;
			r->first = first;
		}
		if (r->last > last) {
			if (!range_new(p, r->list.next, last + 1, r->last, &r->a))
				return -ENOMEM;
			r->last = last;
		}
		if (r->first > next && !range_new(p, &r->list, next, r->first - 1, &fresh))
			return -ENOMEM;
		next = r->last + 1;
	}
	if (next <= last && !range_new(p, &r->list, next, last, &fresh))
		return -ENOMEM;
	return 0;
}

static bool location_ok(struct sim_process *p, u32 value, bool may_be_undefined)
{
	return value == LOC_SYSMEM || (may_be_undefined && value == LOC_UNDEFINED) || sim_pdd_by_user_id(p, value);
}

static bool attr_ok(struct sim_process *p, const struct kfd_ioctl_svm_attribute *at)
{
	switch (at->type) {
	case KFD_IOCTL_SVM_ATTR_PREFERRED_LOC:
		return location_ok(p, at->value, true);
	case KFD_IOCTL_SVM_ATTR_PREFETCH_LOC:
		return location_ok(p, at->value, false);
	case KFD_IOCTL_SVM_ATTR_ACCESS:
	case KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE:
	case KFD_IOCTL_SVM_ATTR_NO_ACCESS:
		return sim_pdd_by_user_id(p, at->value);
	case KFD_IOCTL_SVM_ATTR_SET_FLAGS:
	case KFD_IOCTL_SVM_ATTR_CLR_FLAGS:
	case KFD_IOCTL_SVM_ATTR_GRANULARITY:
		return true;
	default:
		return false;
	}
}

static void apply(struct sim_process *p, struct sim_svm_attrs *a, const struct kfd_ioctl_svm_attribute *at)
{
	struct sim_pdd *pdd = sim_pdd_by_user_id(p, at->value);

	switch (at->type) {
	case KFD_IOCTL_SVM_ATTR_PREFERRED_LOC:
		a->preferred = at->value;
		break;
	case KFD_IOCTL_SVM_ATTR_PREFETCH_LOC:
		a->prefetch = at->value;
		break;
	case KFD_IOCTL_SVM_ATTR_SET_FLAGS:
		a->flags |= at->value;
		break;
	case KFD_IOCTL_SVM_ATTR_CLR_FLAGS:
		a->flags &= ~at->value;
		break;
	case KFD_IOCTL_SVM_ATTR_GRANULARITY:
		a->granularity = min(at->value, 63u);
		break;
	default:
		if (!pdd)
			return;
		__assign_bit(pdd->index, a->access, at->type == KFD_IOCTL_SVM_ATTR_ACCESS);
		__assign_bit(pdd->index, a->in_place, at->type == KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE);
	}
}

/* Every page must belong to a mapping of the process that is no device. */
static int check_vmas(struct sim_process *p, u64 first, u64 last)
{
	unsigned long at = first << PAGE_SHIFT, end = (last + 1) << PAGE_SHIFT;
	struct vm_area_struct *vma;
	int r = 0;

	if (!mmget_not_zero(p->mm))
		return -ESRCH;
	mmap_read_lock(p->mm);
	while (at < end && !r) {
		vma = vma_lookup(p->mm, at);
		if (!vma || (vma->vm_flags & (VM_IO | VM_PFNMAP | VM_MIXEDMAP)))
			r = -EFAULT;
		else
			at = vma->vm_end;
	}
	mmap_read_unlock(p->mm);
	mmput_async(p->mm);
	return r;
}

static int svm_set(struct sim_process *p, u64 first, u64 last, u32 n, const struct kfd_ioctl_svm_attribute *at)
{
	struct sim_svm_range *range;
	u32 i;
	int r;

	for (i = 0; i < n; i++)
		if (!attr_ok(p, &at[i]))
			return -EINVAL;
	r = check_vmas(p, first, last);
	if (!r)
		r = make_whole(p, first, last);
	if (r)
		return r;
	list_for_each_entry(range, &p->svm, list)
		if (!range->pending && range->first >= first && range->last <= last)
			for (i = 0; i < n; i++)
				apply(p, &range->a, &at[i]);
	return 0;
}

/* What all ranges agree on: the one location, the flags that all have, the smallest granularity. */
static void svm_get(struct sim_process *p, u64 first, u64 last, u32 n, struct kfd_ioctl_svm_attribute *at)
{
	struct sim_svm_attrs sum = { .preferred = LOC_UNDEFINED, .prefetch = LOC_UNDEFINED,
				     .flags = DEFAULT_FLAGS, .granularity = DEFAULT_GRANULARITY };
	u32 any = 0, i;
	struct sim_svm_range *r;
	bool one = false;

	list_for_each_entry(r, &p->svm, list) {
		if (r->pending || r->last < first || r->first > last)
			continue;
		if (!one) {
			sum = r->a;
			any = r->a.flags;
			one = true;
			continue;
		}
		if (sum.preferred != r->a.preferred)
			sum.preferred = LOC_UNDEFINED;
		if (sum.prefetch != r->a.prefetch)
			sum.prefetch = LOC_UNDEFINED;
		sum.flags &= r->a.flags;
		any |= r->a.flags;
		sum.granularity = min(sum.granularity, r->a.granularity);
		bitmap_and(sum.access, sum.access, r->a.access, SIM_MAX_GPUS);
		bitmap_and(sum.in_place, sum.in_place, r->a.in_place, SIM_MAX_GPUS);
	}
	for (i = 0; i < n; i++) {
		struct sim_pdd *pdd = sim_pdd_by_user_id(p, at[i].value);

		switch (at[i].type) {
		case KFD_IOCTL_SVM_ATTR_PREFERRED_LOC:
			at[i].value = sum.preferred;
			break;
		case KFD_IOCTL_SVM_ATTR_PREFETCH_LOC:
			at[i].value = sum.prefetch;
			break;
		case KFD_IOCTL_SVM_ATTR_SET_FLAGS:
			at[i].value = sum.flags;
			break;
		case KFD_IOCTL_SVM_ATTR_CLR_FLAGS:
			at[i].value = ~any;
			break;
		case KFD_IOCTL_SVM_ATTR_GRANULARITY:
			at[i].value = sum.granularity;
			break;
		default:
			at[i].type = KFD_IOCTL_SVM_ATTR_NO_ACCESS;
			if (pdd && test_bit(pdd->index, sum.access))
				at[i].type = KFD_IOCTL_SVM_ATTR_ACCESS;
			else if (pdd && test_bit(pdd->index, sum.in_place))
				at[i].type = KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE;
		}
	}
}

int sim_ioctl_svm(struct sim_process *p, void *data, u32 size)
{
	struct kfd_ioctl_svm_args *a = data;
	u64 first = a->start_addr >> PAGE_SHIFT, last;
	u32 i;
	int r = 0;

	if (!sim_svm_enabled(p))
		return -EPERM;
	if (offset_in_page(a->start_addr) || offset_in_page(a->size) || !a->start_addr || !a->size)
		return -EINVAL;
	if (check_add_overflow(a->start_addr, a->size - 1, &last) || last > SIM_GPUVM_LIMIT)
		return -EINVAL;
	if (size < sizeof(*a) || a->nattr > (size - sizeof(*a)) / sizeof(a->attrs[0]))
		return -EINVAL;
	last >>= PAGE_SHIFT;
	mutex_lock(&p->lock);
	switch (a->op) {
	case KFD_IOCTL_SVM_OP_SET_ATTR:
		r = svm_set(p, first, last, a->nattr, a->attrs);
		break;
	case KFD_IOCTL_SVM_OP_GET_ATTR:
		for (i = 0; i < a->nattr && !r; i++)
			r = attr_ok(p, &a->attrs[i]) || a->attrs[i].type <= KFD_IOCTL_SVM_ATTR_PREFETCH_LOC ? 0 : -EINVAL;
		if (!r)
			svm_get(p, first, last, a->nattr, a->attrs);
		break;
	default:
		r = -EINVAL;
	}
	mutex_unlock(&p->lock);
	return r;
}

/* ------------------------------------------------------------------ dump and restore */

u64 sim_svm_record_size(struct sim_process *p)
{
	return sizeof(struct sim_criu_svm) + 8 * (FIXED_ATTRS + p->n_pdds);
}

int sim_svm_dump(struct sim_process *p, u8 __user *priv, u64 *off)
{
	u64 size = sim_svm_record_size(p);
	struct sim_criu_svm *rec;
	struct sim_svm_range *r;
	int bad = 0;
	u32 i;

	if (!p->n_svm)
		return 0;
	rec = kzalloc(size, GFP_KERNEL);
	if (!rec)
		return -ENOMEM;
	list_for_each_entry(r, &p->svm, list) {
		struct kfd_ioctl_svm_attribute *at = (void *)rec->attrs;

		rec->object_type = SIM_CRIU_SVM;
		rec->start_page = r->first;
		rec->npages = r->last - r->first + 1;
		at[0].type = KFD_IOCTL_SVM_ATTR_PREFERRED_LOC;
		at[1].type = KFD_IOCTL_SVM_ATTR_PREFETCH_LOC;
		at[2].type = KFD_IOCTL_SVM_ATTR_SET_FLAGS;
		at[3].type = KFD_IOCTL_SVM_ATTR_GRANULARITY;
		for (i = 0; i < p->n_pdds; i++) {
			at[FIXED_ATTRS + i].type = KFD_IOCTL_SVM_ATTR_ACCESS;
			at[FIXED_ATTRS + i].value = p->pdds[i].user_gpu_id;
		}
		svm_get(p, r->first, r->last, FIXED_ATTRS + p->n_pdds, at);
		if (copy_to_user(priv + *off, rec, size)) {
			bad = -EFAULT;
			break;
		}
		*off += size;
	}
	kfree(rec);
	return bad;
}

/* Only read here: the memory is not there yet. RESUME makes the range. */
int sim_svm_restore(struct sim_process *p, const u8 __user *priv, u64 *off, u64 max)
{
	u64 size = sim_svm_record_size(p), end;
	struct sim_svm_attrs a = {};
	struct sim_svm_range *range;
	struct sim_criu_svm *rec;
	int r = -EINVAL;
	u32 i;

	if (size > max || *off > max - size)
		return -EINVAL;
	rec = memdup_user(priv + *off, size);
	if (IS_ERR(rec))
		return PTR_ERR(rec);
	*off += size;
	if (!rec->npages || check_add_overflow(rec->start_page, rec->npages - 1, &end) ||
	    end > SIM_GPUVM_LIMIT >> PAGE_SHIFT)
		goto out;
	for (i = 0; i < FIXED_ATTRS + p->n_pdds; i++)
		apply(p, &a, &(struct kfd_ioctl_svm_attribute){ rec->attrs[i].type, rec->attrs[i].value });
	range = range_new(p, &p->svm, rec->start_page, end, &a);
	if (range)
		range->pending = true;
	r = range ? 0 : -ENOMEM;
out:
	kfree(rec);
	return r;
}

int sim_svm_resume(struct sim_process *p)
{
	struct sim_svm_range *r;
	int bad;

	list_for_each_entry(r, &p->svm, list) {
		if (!r->pending)
			continue;
		bad = check_vmas(p, r->first, r->last);
		if (bad)
			return bad;
		r->pending = false;
	}
	return 0;
}
