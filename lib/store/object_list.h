#ifndef SLUICE_STORE_OBJECT_LIST_H
#define SLUICE_STORE_OBJECT_LIST_H

#include "store/store.h"

/* Collects objects, then reports them in order.
 *
 * Threads: one at a time. */

struct sluice_object_list {
    struct sluice_object *objects; /* their keys are owned, too */
    size_t num_objects, capacity;
};

/* Copies the object.  SLUICE_E_NO_MEMORY. */
SLUICE_MUST_USE sluice_status sluice_object_list_add(struct sluice_object_list *list,
                                                     const struct sluice_object *object,
                                                     struct sluice_err *err);
/* Calls `fn` for each object whose key begins with `prefix`, in bytewise order. */
SLUICE_MUST_USE sluice_status sluice_object_list_tell(struct sluice_object_list *list,
                                                      const char *prefix, sluice_object_fn *fn,
                                                      void *ctx, struct sluice_err *err);
void sluice_object_list_clear(struct sluice_object_list *list);

#endif
