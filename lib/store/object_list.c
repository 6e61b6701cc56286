#include "store/object_list.h"

#include "base/array.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

sluice_status sluice_object_list_add(struct sluice_object_list *list,
                                     const struct sluice_object *object, struct sluice_err *err)
{
    if (!sluice_array_reserve(&list->objects, &list->capacity, list->num_objects + 1,
                              sizeof(*list->objects)))
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu objects",
                           list->num_objects + 1);
    char *key = strdup(object->key);
    if (!key)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for an object's key");
    list->objects[list->num_objects] = *object;
    list->objects[list->num_objects++].key = key;
    return SLUICE_OK;
}

static int compare(const void *a, const void *b)
{
    const struct sluice_object *left = a, *right = b;
    return strcmp(left->key, right->key);
}

sluice_status sluice_object_list_tell(struct sluice_object_list *list, const char *prefix,
                                      sluice_object_fn *fn, void *ctx, struct sluice_err *err)
{
    if (list->num_objects > 0)
        qsort(list->objects, list->num_objects, sizeof(list->objects[0]), compare);
    sluice_status status = SLUICE_OK;
    for (size_t i = 0; i < list->num_objects && status == SLUICE_OK; i++) {
        if (sluice_starts_with(list->objects[i].key, prefix))
            status = fn(ctx, &list->objects[i], err);
    }
    return status;
}

void sluice_object_list_clear(struct sluice_object_list *list)
{
    for (size_t i = 0; i < list->num_objects; i++)
        free((char *)list->objects[i].key);
    free(list->objects);
    *list = (struct sluice_object_list){.num_objects = 0};
}
