#include "compute_client/loader/order/boxed_draws.h"

#include "op/geometry.h"
#include "support/test.h"

/* Three samples, of which the second has no box and the third has no value at all. */
#define NUM 3
static const struct {
    float boxes[2][4];
    uint32_t labels[2];
} two = {{{10, 20, 60, 70}, {30, 5, 90, 50}}, {4, 0}};

struct list {
    struct sluice_manifest manifest;
    struct sluice_manifest_entry rows[NUM];
    void *packed;
};

/* A list whose field `at` of `num` has boxes; the others are bytes. */
static void list_init(struct list *list, unsigned num, unsigned at)
{
    struct sluice_field_value values[4] = {{0}};
    *list = (struct list){.manifest = {.num_entries = NUM, .rows = list->rows}};
    list->manifest.fields.num = num;
    for (unsigned i = 0; i < num; i++)
        list->manifest.fields.of[i].type.kind = i == at ? SLUICE_FIELD_BOXES : SLUICE_FIELD_BYTES;
    values[at] = (struct sluice_field_value){&two, sizeof(two)};
    const size_t bytes = sluice_fields_pack(num, values, NULL);
    list->packed = malloc(bytes);
    (void)sluice_fields_pack(num, values, list->packed);
    list->rows[0].values = list->packed;
    list->rows[0].values_bytes = (uint32_t)bytes;
    list->rows[1].values = num == 1 ? list->packed : NULL;
}

TEST(the_field_of_boxes_is_the_first_of_its_kind)
{
    struct list list;
    list_init(&list, 3, 2);
    CU_ASSERT_EQUAL(sluice_boxes_field(&list.manifest), 2);
    list.manifest.fields.of[1].type.kind = SLUICE_FIELD_BOXES;
    CU_ASSERT_EQUAL(sluice_boxes_field(&list.manifest), 1);
    list.manifest.fields.num = 0;
    CU_ASSERT_EQUAL(sluice_boxes_field(&list.manifest), SLUICE_MAX_FIELDS);
    free(list.packed);
}

TEST(the_crop_is_drawn_by_the_boxes_of_the_sample)
{
    struct sluice_pipeline *pipeline = NULL, *plain = NULL;
    REQUIRE_OK(sluice_pipeline_parse("decode,hflip=1,iou_crop,resize=9x9", &pipeline, NULL));
    REQUIRE_OK(sluice_pipeline_parse("decode,hflip=1,resize=9x9", &plain, NULL));
    unsigned num_cropped = 0;
    for (unsigned num = 1; num <= 3; num += 2) {
        struct list list;
        list_init(&list, num, num - 1);
        for (uint32_t epoch = 0; epoch < 50; epoch++) {
            const struct sluice_size size = {100, 80};
            const struct sluice_file_image image = {100, 80, 1};
            for (unsigned sample = 0; sample < NUM; sample++) {
                struct sluice_draw_key key = {.seed = 4, .epoch = epoch, .sample_id = sample};
                struct sluice_box want = {0};
                if (sample == 0)
                    CHECK_OK(sluice_pipeline_draw_crop(pipeline, &key, &image, two.boxes[0], 2,
                                                       &want, NULL));
                struct sluice_draw_key same = key;
                CHECK_OK(sluice_boxed_draws(pipeline, &list.manifest, size, &key, NULL));
                CU_ASSERT(memcmp(&key.crop, &want, sizeof(want)) == 0);
                num_cropped += key.crop.width > 0 && key.crop.width < 100;
                CHECK_OK(sluice_boxed_draws(plain, &list.manifest, size, &same, NULL));
                CU_ASSERT_EQUAL(same.crop.width, 0);
            }
        }
        free(list.packed);
    }
    CU_ASSERT(num_cropped > 40);
    sluice_pipeline_destroy(pipeline);
    sluice_pipeline_destroy(plain);
}
