#include "datasets/manifest/annotations.h"

#include "base/array.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "datasets/list/coco.h"
#include "datasets/list/shapes.h"
#include "datasets/list/yolo.h"
#include "datasets/manifest/image_sizes.h"
#include "datasets/shards/shard.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_COCO_BYTES ((size_t)8 << 30)
#define IMAGES "images/" /* YOLO's folder of images, next to that of labels */

struct sluice_annotations {
    const char *folder; /* of YOLO's texts; borrowed; NULL: files of COCO */
    struct sluice_coco coco;
};

void sluice_annotations_destroy(struct sluice_annotations *annotations)
{
    if (!annotations)
        return;
    sluice_coco_clear(&annotations->coco);
    free(annotations);
}

bool sluice_annotations_are_relative(const struct sluice_annotations *annotations)
{
    return annotations && annotations->folder;
}

/* --- reading --- */

static sluice_status read_coco(struct sluice_annotations *a, const char *path,
                               struct sluice_err *err)
{
    struct sluice_buf *file = NULL;
    sluice_status status = sluice_file_read(path, MAX_COCO_BYTES, NULL, &file, err);
    if (status == SLUICE_OK)
        status = sluice_coco_add(&a->coco, path, (const char *)file->data, file->len, err);
    sluice_buf_unref(file);
    return status;
}

static sluice_status read_all(struct sluice_annotations *a, const char *const *paths,
                              size_t num_paths, struct sluice_err *err)
{
    sluice_status status = SLUICE_OK;
    for (size_t i = 0; i < num_paths && status == SLUICE_OK; i++) {
        struct stat st;
        if (stat(paths[i], &st) != 0)
            return sluice_fail(err, errno == ENOENT ? SLUICE_E_NOT_FOUND : SLUICE_E_IO, "%s: %s",
                               paths[i], strerror(errno));
        if (S_ISDIR(st.st_mode) && num_paths > 1)
            return sluice_fail(err, SLUICE_E_INVALID,
                               "--annotations %s: one folder of YOLO's texts, or files of COCO",
                               paths[i]);
        if (S_ISDIR(st.st_mode))
            a->folder = paths[i];
        else
            status = read_coco(a, paths[i], err);
    }
    sluice_coco_sort(&a->coco);
    if (status == SLUICE_OK && a->coco.num_crowds)
        sluice_log(SLUICE_LOG_INFO, "%s: %zu boxes of crowds are left out", paths[0],
                   a->coco.num_crowds);
    return status;
}

sluice_status sluice_annotations_read(const char *const *paths, size_t num_paths,
                                      struct sluice_annotations **annotations,
                                      struct sluice_err *err)
{
    if (num_paths == 0)
        return SLUICE_OK;
    struct sluice_annotations *a = calloc(1, sizeof(*a));
    const sluice_status status =
        a ? read_all(a, paths, num_paths, err)
          : sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for annotations");
    if (status == SLUICE_OK)
        *annotations = a;
    else
        sluice_annotations_destroy(a);
    return status;
}

static sluice_status add_field(struct sluice_fields *fields, const char *name,
                               struct sluice_field_type type, struct sluice_err *err)
{
    for (unsigned i = 0; i < fields->num; i++) {
        if (strcmp(fields->of[i].name, name) == 0)
            return sluice_fail(err, SLUICE_E_INVALID,
                               "--target: '%s' is the field of --annotations; give NAME=FROM",
                               name);
    }
    if (fields->num == SLUICE_MAX_FIELDS)
        return sluice_fail(err, SLUICE_E_INVALID, "more than %d fields", SLUICE_MAX_FIELDS);
    struct sluice_named_field *field = &fields->of[fields->num++];
    field->type = type;
    (void)sluice_print(field->name, sizeof(field->name), "%s", name);
    return SLUICE_OK;
}

sluice_status sluice_annotations_add_fields(const struct sluice_annotations *annotations,
                                            struct sluice_fields *fields, struct sluice_err *err)
{
    if (!annotations)
        return SLUICE_OK;
    const struct sluice_field_type boxes = {SLUICE_FIELD_BOXES, 0},
                                   points = {SLUICE_FIELD_KEYPOINTS, annotations->coco.num_points};
    const sluice_status status = add_field(fields, "boxes", boxes, err);
    return status == SLUICE_OK && points.dim ? add_field(fields, "keypoints", points, err) : status;
}

/* --- values --- */

/* Sets the boxes of a row; of keypoints each box has as many, of value 0 where it has none. */
static sluice_status set_row(struct sluice_manifest_builder *builder, size_t row, unsigned first,
                             const struct sluice_shapes *boxes, const struct sluice_shapes *points,
                             bool has_points, struct sluice_err *err)
{
    size_t bytes = 0;
    void *value = sluice_shapes_boxes(boxes, &bytes);
    sluice_status status = value ? sluice_manifest_set_field(builder, row, first, value, bytes, err)
                                 : sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for boxes");
    free(value);
    if (status == SLUICE_OK && has_points)
        status = sluice_manifest_set_field(builder, row, first + 1,
                                           points->num_numbers ? points->numbers : (float[]){0},
                                           points->num_numbers * sizeof(float), err);
    return status;
}

/* The objects of an image of COCO. */
static sluice_status collect(const struct sluice_coco *coco, const struct sluice_coco_image *image,
                             struct sluice_shapes *boxes, struct sluice_shapes *points,
                             struct sluice_err *err)
{
    sluice_status status = SLUICE_OK;
    sluice_shapes_empty(boxes);
    sluice_shapes_empty(points);
    for (size_t i = 0; i < image->num && status == SLUICE_OK; i++) {
        const struct sluice_coco_object *o = &coco->objects[image->first + i];
        status = sluice_shapes_add_box(boxes, o->corners[0], o->corners[1], o->corners[2],
                                       o->corners[3], o->label, err);
        for (uint32_t k = 0; k < coco->num_points && status == SLUICE_OK; k++) {
            static const double none[3];
            const double *point =
                o->point == SIZE_MAX ? none : coco->points + o->point + 3 * (size_t)k;
            status = sluice_shapes_add_point(points, point[0], point[1], point[2], err);
        }
    }
    return status;
}

/* Images of COCO by the end of their path. */
struct named {
    const char *reversed_from; /* the file_name, which is compared from its end */
    size_t image;
};

static int compare_ends(const char *a, const char *b)
{
    size_t i = strlen(a), k = strlen(b);
    while (i > 0 && k > 0) {
        const unsigned char x = (unsigned char)a[--i], y = (unsigned char)b[--k];
        if (x != y)
            return x < y ? -1 : 1;
    }
    return (i > k) - (i < k);
}

static int compare_named(const void *a, const void *b)
{
    const struct named *x = a, *y = b;
    return compare_ends(x->reversed_from, y->reversed_from);
}

/* The image whose file_name is the path, or its end behind a '/': the longest, of all ends. */
static const struct named *find_named(const struct named *named, size_t num, const char *path)
{
    const struct named *found = NULL;
    for (size_t from = strlen(path); from-- > 0;) {
        const char *end = path + from;
        if (from > 0 && end[-1] != '/')
            continue;
        size_t at = 0;
        SLUICE_FIND_FIRST(at, num, i, compare_ends(named[i].reversed_from, end) < 0);
        if (at < num && strcmp(named[at].reversed_from, end) == 0)
            found = &named[at];
    }
    return found;
}

static sluice_status check_names(const struct sluice_coco *coco, const struct named *named,
                                 size_t num, struct sluice_err *err)
{
    for (size_t i = 1; i < num; i++) {
        const struct sluice_coco_image *a = &coco->images[named[i - 1].image],
                                       *b = &coco->images[named[i].image];
        if (strcmp(a->file_name, b->file_name) == 0)
            return sluice_fail(err, SLUICE_E_INVALID,
                               "%s: images of id %lld and %lld (%s) have one file_name, '%.200s'",
                               b->of, (long long)a->id, (long long)b->id, a->of, a->file_name);
    }
    return SLUICE_OK;
}

static sluice_status assign_coco(const struct sluice_coco *coco, const char *root,
                                 const struct named *named, size_t *row_of, unsigned first,
                                 struct sluice_manifest_builder *builder, struct sluice_err *err)
{
    const struct sluice_manifest *manifest = builder->manifest;
    struct sluice_shapes boxes = {0}, points = {0};
    size_t num_without = 0, first_without = 0;
    sluice_status status = SLUICE_OK;
    for (size_t i = 0; i < manifest->num_entries && status == SLUICE_OK; i++) {
        const char *path = manifest->rows[i].path;
        const struct named *found = find_named(named, coco->num_images, path);
        struct sluice_err why = {0};
        if (!found) {
            if (num_without++ == 0)
                first_without = i;
            continue;
        }
        const struct sluice_coco_image *image = &coco->images[found->image];
        size_t *row = &row_of[found->image];
        if (*row != SIZE_MAX) {
            status = sluice_fail(
                err, SLUICE_E_INVALID, "%s: image of id %lld: '%.200s' may be %.200s or %.200s",
                image->of, (long long)image->id, image->file_name, manifest->rows[*row].path, path);
            break;
        }
        *row = i;
        status = collect(coco, image, &boxes, &points, &why);
        if (status != SLUICE_OK)
            status = sluice_fail(err, status, "%s: image of id %lld ('%.200s') %s", image->of,
                                 (long long)image->id, image->file_name, why.text);
        else
            status = set_row(builder, i, first, &boxes, &points, coco->num_points > 0, err);
    }
    sluice_shapes_clear(&boxes);
    sluice_shapes_clear(&points);
    if (status == SLUICE_OK && num_without)
        status = sluice_fail(err, SLUICE_E_INVALID,
                             "%s: %zu of %zu images are not among those of %s (%.200s%s)", root,
                             num_without, manifest->num_entries,
                             coco->num_images ? coco->images[0].of : "--annotations",
                             manifest->rows[first_without].path, num_without > 1 ? ", ..." : "");
    return status;
}

static void tell_unused(const struct sluice_coco *coco, const size_t *row_of)
{
    size_t num = 0, first = 0;
    for (size_t i = 0; i < coco->num_images; i++) {
        if (row_of[i] == SIZE_MAX && num++ == 0)
            first = i;
    }
    if (num)
        sluice_log(SLUICE_LOG_WARN, "%s: %zu of %zu images are not here (id %lld, '%.200s'%s)",
                   coco->images[first].of, num, coco->num_images, (long long)coco->images[first].id,
                   coco->images[first].file_name, num > 1 ? ", ..." : "");
}

static sluice_status by_name(const struct sluice_coco *coco, const char *root, unsigned first,
                             struct sluice_manifest_builder *builder, struct sluice_err *err)
{
    const size_t num = coco->num_images;
    struct named *named = calloc(num + 1, sizeof(*named));
    size_t *row_of = calloc(num + 1, sizeof(*row_of)); /* SIZE_MAX: none */
    sluice_status status = named && row_of
                               ? SLUICE_OK
                               : sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for annotations");
    for (size_t i = 0; i < num && status == SLUICE_OK; i++) {
        named[i] = (struct named){coco->images[i].file_name, i};
        row_of[i] = SIZE_MAX;
    }
    if (status == SLUICE_OK && num > 1)
        qsort(named, num, sizeof(*named), compare_named);
    if (status == SLUICE_OK)
        status = check_names(coco, named, num, err);
    if (status == SLUICE_OK)
        status = assign_coco(coco, root, named, row_of, first, builder, err);
    if (status == SLUICE_OK)
        tell_unused(coco, row_of);
    free(named);
    free(row_of);
    return status;
}

/* --- YOLO --- */

/* Reads the text of an image; *file stays NULL without one. */
static sluice_status read_text(const char *folder, const char *image,
                               char path[SLUICE_MAX_PATH_BYTES], struct sluice_buf **file,
                               struct sluice_err *err)
{
    const char *slash = strrchr(image, '/'), *dot = strrchr(slash ? slash : image, '.');
    const int stem = dot ? (int)(dot - image) : (int)strlen(image);
    const int skipped = sluice_starts_with(image, IMAGES) ? (int)strlen(IMAGES) : 0;
    for (int skip = 0; skip <= skipped && !*file; skip += skipped ? skipped : 1) {
        struct sluice_err why = {0};
        if (!sluice_print(path, SLUICE_MAX_PATH_BYTES, "%s/%.*s.txt", folder, stem - skip,
                          image + skip))
            return sluice_fail(err, SLUICE_E_INVALID, "%.100s...: a path too long", image);
        const sluice_status status =
            sluice_file_read(path, SLUICE_MAX_FIELD_BYTES, NULL, file, &why);
        if (status != SLUICE_OK && status != SLUICE_E_NOT_FOUND)
            return sluice_fail(err, status, "%s", why.text);
    }
    return SLUICE_OK;
}

static sluice_status parse_text(const char *path, const struct sluice_buf *file,
                                struct sluice_shapes *boxes, struct sluice_err *err)
{
    struct sluice_err why = {0};
    char *text = malloc(file->len + 1);
    if (!text)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for boxes");
    memcpy(text, file->data, file->len);
    text[file->len] = '\0';
    const sluice_status status = strlen(text) == file->len
                                     ? sluice_yolo_parse(text, boxes, &why)
                                     : sluice_fail(&why, SLUICE_E_INVALID, ": a NUL byte");
    free(text);
    return status == SLUICE_OK ? status : sluice_fail(err, status, "%s%s", path, why.text);
}

static sluice_status by_stem(const char *folder, unsigned first,
                             struct sluice_manifest_builder *builder, struct sluice_err *err)
{
    const struct sluice_manifest *manifest = builder->manifest;
    struct sluice_shapes boxes = {0};
    size_t num_without = 0;
    sluice_status status = SLUICE_OK;
    for (size_t i = 0; i < manifest->num_entries && status == SLUICE_OK; i++) {
        const struct sluice_manifest_entry *row = &manifest->rows[i];
        char path[SLUICE_MAX_PATH_BYTES], room[SLUICE_MAX_PATH_BYTES];
        struct sluice_buf *file = NULL;
        sluice_shapes_empty(&boxes);
        status = read_text(folder, row->path, path, &file, err);
        if (status == SLUICE_OK && !file && row->offset > 0)
            status = read_text(folder, sluice_shard_unpacked(row->path, row->offset, room), path,
                               &file, err);
        num_without += !file;
        if (status == SLUICE_OK && file)
            status = parse_text(path, file, &boxes, err);
        sluice_buf_unref(file);
        if (status == SLUICE_OK)
            status = set_row(builder, i, first, &boxes, NULL, false, err);
    }
    sluice_shapes_clear(&boxes);
    if (status == SLUICE_OK && num_without == manifest->num_entries)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "%s: no image has a text of YOLO here, as %.200s would have .txt",
                           folder, manifest->rows[0].path);
    if (status == SLUICE_OK && num_without)
        sluice_log(SLUICE_LOG_INFO, "%s: %zu of %zu images have no text, and so no boxes", folder,
                   num_without, manifest->num_entries);
    return status;
}

sluice_status sluice_annotations_assign(const struct sluice_annotations *annotations,
                                        const char *root, unsigned first,
                                        struct sluice_manifest_builder *builder,
                                        struct sluice_err *err)
{
    if (!annotations)
        return SLUICE_OK;
    return annotations->folder ? by_stem(annotations->folder, first, builder, err)
                               : by_name(&annotations->coco, root, first, builder, err);
}

void sluice_annotations_scale(struct sluice_manifest *manifest, unsigned field,
                              const struct sluice_image_sizes *sizes)
{
    for (size_t i = 0; i < manifest->num_entries; i++) {
        const struct sluice_manifest_entry *entry = &manifest->rows[i];
        const struct sluice_field_value value =
            sluice_fields_value(&manifest->fields, field, entry->values, entry->values_bytes);
        struct sluice_image_size size;
        (void)sluice_image_sizes_get(sizes, i, &size);
        sluice_yolo_scale((void *)(uintptr_t)value.at, value.bytes, size.width, size.height,
                          size.orientation);
    }
}
