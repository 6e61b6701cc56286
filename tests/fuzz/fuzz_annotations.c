/* Annotations from bytes: files of COCO, whose objects are sound and of images that there are, and
 * texts of YOLO. */

#include "datasets/list/coco.h"
#include "datasets/list/field.h"
#include "datasets/list/yolo.h"

#include "fuzz.h"

#include <string.h>

static void read_coco(const char *text, size_t size)
{
    struct sluice_coco coco = {0};
    struct sluice_err err = {{0}};
    const sluice_status status = sluice_coco_add(&coco, "a.json", text, size, &err);
    FUZZ_CHECK(status == SLUICE_OK ||
               (status == SLUICE_E_INVALID && strncmp(err.text, "a.json: ", 8) == 0));
    sluice_coco_sort(&coco);
    size_t num = 0;
    for (size_t i = 0; i < coco.num_images; i++) {
        const struct sluice_coco_image *image = &coco.images[i];
        FUZZ_CHECK(image->file_name[0] && image->first == num);
        num += image->num;
    }
    FUZZ_CHECK(num == coco.num_objects);
    for (size_t i = 0; i < coco.num_objects; i++) {
        const struct sluice_coco_object *o = &coco.objects[i];
        struct sluice_shapes shapes = {0};
        FUZZ_CHECK(sluice_shapes_add_box(&shapes, o->corners[0], o->corners[1], o->corners[2],
                                         o->corners[3], o->label, NULL) == SLUICE_OK);
        FUZZ_CHECK(o->point == SIZE_MAX ||
                   o->point + 3 * (size_t)coco.num_points <= coco.num_numbers);
        sluice_shapes_clear(&shapes);
    }
    sluice_coco_clear(&coco);
}

static void read_yolo(const char *text)
{
    struct sluice_shapes shapes = {0};
    size_t bytes;
    if (sluice_yolo_parse(text, &shapes, NULL) == SLUICE_OK) {
        void *boxes = sluice_shapes_boxes(&shapes, &bytes);
        FUZZ_CHECK(boxes);
        sluice_yolo_scale(boxes, bytes, 640, 480, 6);
        FUZZ_CHECK(
            !sluice_field_flaw((struct sluice_field_type){SLUICE_FIELD_BOXES, 0}, boxes, bytes));
        free(boxes);
    }
    sluice_shapes_clear(&shapes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    read_coco((const char *)data, size);
    read_yolo(text);
    free(text);
    return 0;
}
