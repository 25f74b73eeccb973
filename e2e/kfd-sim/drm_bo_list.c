// SPDX-License-Identifier: GPL-2.0
/*
 * Lists of buffer objects for submissions, named (AMDGPU_BO_LIST) or given along with one (BO_HANDLES chunk).
 */
#include <linux/slab.h>
#include <linux/uaccess.h>
#include "drm_sim.h"

#define SIM_MAX_LIST (128u << 10)	/* entries, the driver's own limit */

static void sim_bo_list_free(struct kref *ref)
{
	struct sim_bo_list *list = container_of(ref, struct sim_bo_list, ref);
	u32 i;

	for (i = 0; i < list->n; i++)
		sim_bo_put(list->bos[i]);
	kvfree(list);
}

struct sim_bo_list *sim_bo_list_get(struct sim_bo_list *list)
{
	kref_get(&list->ref);
	return list;
}

void sim_bo_list_put(struct sim_bo_list *list)
{
	if (list)
		kref_put(&list->ref, sim_bo_list_free);
}

struct sim_bo_list *sim_bo_list_find(struct sim_fpriv *fp, u32 id)
{
	struct sim_bo_list *list;

	mutex_lock(&fp->lock);
	list = idr_find(&fp->bo_lists, id);
	if (list)
		sim_bo_list_get(list);
	mutex_unlock(&fp->lock);
	return list;
}

void sim_bo_list_drop_all(struct sim_fpriv *fp)
{
	struct sim_bo_list *list;
	int id;

	idr_for_each_entry(&fp->bo_lists, list, id)
		sim_bo_list_put(list);
	idr_destroy(&fp->bo_lists);
}

/* Entries may be larger or smaller than ours: the common part counts. */
static int sim_entry_get(struct drm_amdgpu_bo_list_entry *e, const struct drm_amdgpu_bo_list_in *in, u32 i)
{
	memset(e, 0, sizeof(*e));
	if (copy_from_user(e, u64_to_user_ptr(in->bo_info_ptr + (u64)i * in->bo_info_size),
			   min_t(size_t, sizeof(*e), in->bo_info_size)))
		return -EFAULT;
	return 0;
}

struct sim_bo_list *sim_bo_list_from_user(struct drm_file *file, const struct drm_amdgpu_bo_list_in *in)
{
	struct sim_bo_list *list;
	int r = 0;
	u32 i;

	if (in->bo_number > SIM_MAX_LIST)
		return ERR_PTR(-EINVAL);
	list = kvzalloc(struct_size(list, bos, in->bo_number), GFP_KERNEL);
	if (!list)
		return ERR_PTR(-ENOMEM);
	kref_init(&list->ref);
	for (i = 0; i < in->bo_number && !r; i++) {
		struct drm_amdgpu_bo_list_entry e;
		struct drm_gem_object *obj = NULL;

		r = sim_entry_get(&e, in, i);
		if (r)
			break;
		obj = drm_gem_object_lookup(file, e.bo_handle);
		if (!obj) {
			r = -ENOENT;
			break;
		}
		list->n = i + 1;
		list->bos[i] = gem_to_sim_bo(obj);
		if (list->bos[i]->userptr && list->bos[i]->mm != current->mm)
			r = -EPERM;
	}
	if (r) {
		sim_bo_list_put(list);
		return ERR_PTR(r);
	}
	return list;
}

int sim_ioc_bo_list(struct drm_device *dev, void *data, struct drm_file *file)
{
	struct sim_fpriv *fp = file->driver_priv;
	union drm_amdgpu_bo_list *args = data;
	u32 handle = args->in.list_handle;
	struct sim_bo_list *list, *old = NULL;
	int r = 0;

	/* The real driver reads the entries first, whatever the operation. */
	switch (args->in.operation) {
	case AMDGPU_BO_LIST_OP_CREATE:
		list = sim_bo_list_from_user(file, &args->in);
		if (IS_ERR(list))
			return PTR_ERR(list);
		mutex_lock(&fp->lock);
		r = idr_alloc(&fp->bo_lists, list, 1, 0, GFP_KERNEL);
		mutex_unlock(&fp->lock);
		if (r < 0) {
			sim_bo_list_put(list);
			return r;
		}
		handle = r;
		break;
	case AMDGPU_BO_LIST_OP_DESTROY:
		mutex_lock(&fp->lock);
		old = idr_remove(&fp->bo_lists, handle);
		mutex_unlock(&fp->lock);
		sim_bo_list_put(old);	/* an unknown one is no error */
		handle = 0;
		break;
	case AMDGPU_BO_LIST_OP_UPDATE:
		list = sim_bo_list_from_user(file, &args->in);
		if (IS_ERR(list))
			return PTR_ERR(list);
		mutex_lock(&fp->lock);
		old = idr_replace(&fp->bo_lists, list, handle);
		mutex_unlock(&fp->lock);
		if (IS_ERR(old)) {
			sim_bo_list_put(list);
			return PTR_ERR(old);
		}
		sim_bo_list_put(old);
		break;
	default:
		return -EINVAL;
	}
	memset(args, 0, sizeof(*args));
	args->out.list_handle = handle;
	return 0;
}
