#include "datasets/list/coco.h"

#include "base/array.h"
#include "base/c_locale.h"
#include "base/text.h"
#include "datasets/list/field.h"
#include "datasets/list/json_walk.h"

#include <jansson.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct id {
    int64_t id;
    size_t place;
};

/* A file while it is read. */
struct reading {
    struct sluice_coco *coco;
    const char *name;
    struct id *images, *categories; /* sorted */
    size_t num_images, image_capacity, num_categories, category_capacity;
    bool has_categories;
};

void sluice_coco_clear(struct sluice_coco *coco)
{
    for (size_t i = 0; i < coco->num_images; i++)
        free(coco->images[i].file_name);
    free(coco->images);
    free(coco->objects);
    free(coco->points);
    *coco = (struct sluice_coco){0};
}

static sluice_status no_memory(struct sluice_err *err)
{
    return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for annotations");
}

/* --- entries --- */

static sluice_status wrong(const struct reading *r, const char *list, size_t i, const char *what,
                           struct sluice_err *err)
{
    return sluice_fail(err, SLUICE_E_INVALID, "%s: %s[%zu]: %s", r->name, list, i, what);
}

static bool take_id(const json_t *entry, const char *key, int64_t *id)
{
    const json_t *value = json_object_get(entry, key);
    *id = json_integer_value(value);
    return json_is_integer(value);
}

static sluice_status add_id(struct id **ids, size_t *num, size_t *capacity, int64_t id,
                            size_t place, struct sluice_err *err)
{
    if (!sluice_array_reserve(ids, capacity, *num + 1, sizeof(**ids)))
        return no_memory(err);
    (*ids)[(*num)++] = (struct id){id, place};
    return SLUICE_OK;
}

static int compare_ids(const void *a, const void *b)
{
    const struct id *x = a, *y = b;
    return x->id != y->id ? (x->id > y->id) - (x->id < y->id)
                          : (x->place > y->place) - (x->place < y->place);
}

/* Sorts them; SLUICE_E_INVALID: one comes twice. */
static sluice_status sort_ids(const struct reading *r, const char *list, struct id *ids, size_t num,
                              size_t first, struct sluice_err *err)
{
    if (num > 1)
        qsort(ids, num, sizeof(*ids), compare_ids);
    for (size_t i = 1; i < num; i++) {
        if (ids[i - 1].id == ids[i].id)
            return sluice_fail(err, SLUICE_E_INVALID, "%s: %s[%zu]: its id %lld is that of %s[%zu]",
                               r->name, list, ids[i].place - first, (long long)ids[i].id, list,
                               ids[i - 1].place - first);
    }
    return SLUICE_OK;
}

static const struct id *find_id(const struct id *ids, size_t num, int64_t id)
{
    size_t at = 0;
    SLUICE_FIND_FIRST(at, num, i, ids[i].id < id);
    return at < num && ids[at].id == id ? &ids[at] : NULL;
}

typedef sluice_status entry_fn(struct reading *r, const json_t *entry, size_t i,
                               struct sluice_err *err);

static sluice_status take_image(struct reading *r, const json_t *entry, size_t i,
                                struct sluice_err *err)
{
    struct sluice_coco *coco = r->coco;
    struct sluice_coco_image image = {.of = r->name};
    const char *file_name = json_string_value(json_object_get(entry, "file_name"));
    if (!take_id(entry, "id", &image.id))
        return wrong(r, "images", i, "its id is not an integer", err);
    if (!file_name || !file_name[0])
        return wrong(r, "images", i, "its file_name is missing", err);
    if (!sluice_array_reserve(&coco->images, &coco->image_capacity, coco->num_images + 1,
                              sizeof(*coco->images)) ||
        !(image.file_name = strdup(file_name)))
        return no_memory(err);
    coco->images[coco->num_images++] = image;
    return add_id(&r->images, &r->num_images, &r->image_capacity, image.id, coco->num_images - 1,
                  err);
}

static sluice_status take_category(struct reading *r, const json_t *entry, size_t i,
                                   struct sluice_err *err)
{
    int64_t id;
    if (!take_id(entry, "id", &id))
        return wrong(r, "categories", i, "its id is not an integer", err);
    return add_id(&r->categories, &r->num_categories, &r->category_capacity, id, i, err);
}

/* The count of an array of finite numbers; SIZE_MAX: another value. */
static size_t numbers_of(const json_t *array, double *to, size_t room)
{
    const size_t num = json_is_array(array) ? json_array_size(array) : SIZE_MAX;
    for (size_t i = 0; i < num && num != SIZE_MAX; i++) {
        const json_t *number = json_array_get(array, i);
        if (!json_is_number(number) || !isfinite(json_number_value(number)))
            return SIZE_MAX;
        if (i < room)
            to[i] = json_number_value(number);
    }
    return num;
}

static sluice_status take_points(struct reading *r, const json_t *entry, size_t i, size_t *point,
                                 struct sluice_err *err)
{
    struct sluice_coco *coco = r->coco;
    const json_t *points = json_object_get(entry, "keypoints");
    *point = SIZE_MAX;
    if (!points)
        return SLUICE_OK;
    const size_t num = numbers_of(points, NULL, 0);
    if (num == SIZE_MAX || num == 0 || num % 3 || num / 3 > SLUICE_MAX_KEYPOINTS)
        return wrong(r, "annotations", i,
                     "its keypoints are not x, y and visibility of each, finite, of 1 to 1000",
                     err);
    if (coco->num_points && num != 3 * (size_t)coco->num_points)
        return sluice_fail(
            err, SLUICE_E_INVALID,
            "%s: annotations[%zu]: it has %zu keypoints, but the ones before have %u", r->name, i,
            num / 3, coco->num_points);
    if (!sluice_array_reserve(&coco->points, &coco->number_capacity, coco->num_numbers + num,
                              sizeof(*coco->points)))
        return no_memory(err);
    *point = coco->num_numbers;
    (void)numbers_of(points, coco->points + coco->num_numbers, num);
    coco->num_points = (uint32_t)(num / 3);
    coco->num_numbers += num;
    return SLUICE_OK;
}

static sluice_status take_object(struct reading *r, const json_t *entry, size_t i,
                                 struct sluice_err *err)
{
    struct sluice_coco *coco = r->coco;
    struct sluice_coco_object object = {.order = coco->num_objects};
    int64_t image_id, category_id;
    double box[4];
    char what[160];
    if (!take_id(entry, "image_id", &image_id))
        return wrong(r, "annotations", i, "its image_id is not an integer", err);
    const struct id *image = find_id(r->images, r->num_images, image_id);
    if (!image) {
        snprintf(what, sizeof(what), "its image_id %lld is not among the images of the file",
                 (long long)image_id);
        return wrong(r, "annotations", i, what, err);
    }
    if (!take_id(entry, "category_id", &category_id) || category_id < 0 ||
        category_id >= SLUICE_MAX_BOX_CLASSES)
        return wrong(r, "annotations", i, "its category_id is not an integer from 0 to 9,999,999",
                     err);
    if (r->has_categories && !find_id(r->categories, r->num_categories, category_id)) {
        snprintf(what, sizeof(what), "its category_id %lld is not among the categories of the file",
                 (long long)category_id);
        return wrong(r, "annotations", i, what, err);
    }
    if (numbers_of(json_object_get(entry, "bbox"), box, 4) != 4)
        return wrong(r, "annotations", i, "its bbox is not x, y, width and height, all finite",
                     err);
    if (box[2] < 0 || box[3] < 0)
        return wrong(r, "annotations", i, "its bbox has a negative width or height", err);
    if (fabs(box[0]) + box[2] > 1e9 || fabs(box[1]) + box[3] > 1e9)
        return wrong(r, "annotations", i, "its bbox is beyond 1e9 pixels", err);
    if (json_integer_value(json_object_get(entry, "iscrowd")) == 1) {
        coco->num_crowds++;
        return SLUICE_OK;
    }
    const sluice_status status = take_points(r, entry, i, &object.point, err);
    if (status != SLUICE_OK)
        return status;
    object.image = image->place;
    object.label = (double)category_id;
    memcpy(object.corners, (const double[]){box[0], box[1], box[0] + box[2], box[1] + box[3]},
           sizeof(object.corners));
    if (!sluice_array_reserve(&coco->objects, &coco->object_capacity, coco->num_objects + 1,
                              sizeof(*coco->objects)))
        return no_memory(err);
    coco->objects[coco->num_objects++] = object;
    return SLUICE_OK;
}

/* --- the file --- */

/* Where the text is not JSON, or nested too deep. */
static sluice_status no_json(const struct reading *r, const char *text, const char *at,
                             struct sluice_err *err)
{
    return sluice_fail(err, SLUICE_E_INVALID,
                       "%s: byte %zu: no JSON here, or nested deeper than %d", r->name,
                       (size_t)(at - text), SLUICE_JSON_WALK_DEPTH);
}

static sluice_status walk_list(struct reading *r, const char *text, const char *list,
                               const struct sluice_json_part *of, entry_fn *take,
                               struct sluice_err *err)
{
    struct sluice_json_walk walk;
    struct sluice_json_part part;
    sluice_status status = SLUICE_OK;
    if (!sluice_json_walk_begin(&walk, of->value, of->len, '['))
        return sluice_fail(err, SLUICE_E_INVALID, "%s: '%s' is no list", r->name, list);
    for (size_t i = 0; status == SLUICE_OK; i++) {
        bool is_end = false;
        json_error_t why;
        if (!sluice_json_walk_next(&walk, &part, &is_end))
            return no_json(r, text, walk.at, err);
        if (is_end)
            break;
        json_t *entry = SLUICE_IN_C_LOCALE(json_loadb(part.value, part.len, JSON_DECODE_ANY, &why));
        if (!entry)
            status = wrong(r, list, i, why.text, err);
        else if (!json_is_object(entry))
            status = wrong(r, list, i, "it is no object", err);
        else
            status = take(r, entry, i, err);
        json_decref(entry);
    }
    return status;
}

/* Finds the lists; each may be missing, and then has no value. */
static sluice_status find_lists(const struct reading *r, const char *text, size_t len,
                                const char *const keys[3], struct sluice_json_part lists[3],
                                struct sluice_err *err)
{
    struct sluice_json_walk walk;
    struct sluice_json_part part;
    bool is_end = false;
    if (!sluice_json_walk_begin(&walk, text, len, '{'))
        return sluice_fail(err, SLUICE_E_INVALID, "%s: it is no JSON object, as COCO's are",
                           r->name);
    for (;;) {
        if (!sluice_json_walk_next(&walk, &part, &is_end))
            return no_json(r, text, walk.at, err);
        if (is_end)
            break;
        for (int k = 0; k < 3; k++) {
            if (sluice_json_part_is(&part, keys[k]))
                lists[k] = part;
        }
    }
    return sluice_json_walk_is_over(&walk) ? SLUICE_OK : no_json(r, text, walk.at, err);
}

static sluice_status read_file(struct reading *r, const char *text, size_t len,
                               struct sluice_err *err)
{
    static const char *const keys[3] = {"images", "categories", "annotations"};
    struct sluice_json_part lists[3] = {{0}};
    const size_t first = r->coco->num_images;
    sluice_status status = find_lists(r, text, len, keys, lists, err);
    r->has_categories = lists[1].value != NULL;
    if (status == SLUICE_OK && (!lists[0].value || !lists[2].value))
        status =
            sluice_fail(err, SLUICE_E_INVALID,
                        "%s: it has not both lists 'images' and 'annotations' of COCO", r->name);
    if (status == SLUICE_OK)
        status = walk_list(r, text, keys[0], &lists[0], take_image, err);
    if (status == SLUICE_OK)
        status = sort_ids(r, keys[0], r->images, r->num_images, first, err);
    if (status == SLUICE_OK && r->has_categories)
        status = walk_list(r, text, keys[1], &lists[1], take_category, err);
    if (status == SLUICE_OK)
        status = sort_ids(r, keys[1], r->categories, r->num_categories, 0, err);
    return status == SLUICE_OK ? walk_list(r, text, keys[2], &lists[2], take_object, err) : status;
}

sluice_status sluice_coco_add(struct sluice_coco *coco, const char *name, const char *text,
                              size_t len, struct sluice_err *err)
{
    struct reading r = {.coco = coco, .name = name};
    const size_t mark = sluice_byte_order_mark(text, len);
    const sluice_status status = read_file(&r, text + mark, len - mark, err);
    free(r.images);
    free(r.categories);
    return status;
}

static int compare_objects(const void *a, const void *b)
{
    const struct sluice_coco_object *x = a, *y = b;
    return x->image != y->image ? (x->image > y->image) - (x->image < y->image)
                                : (x->order > y->order) - (x->order < y->order);
}

void sluice_coco_sort(struct sluice_coco *coco)
{
    if (coco->num_objects > 1)
        qsort(coco->objects, coco->num_objects, sizeof(*coco->objects), compare_objects);
    size_t at = 0;
    for (size_t i = 0; i < coco->num_images; i++) {
        coco->images[i].first = at;
        while (at < coco->num_objects && coco->objects[at].image == i)
            at++;
        coco->images[i].num = at - coco->images[i].first;
    }
}
