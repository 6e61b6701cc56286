#include "datasets/manifest/annotations.h"

#include "datasets/manifest/image_sizes.h"

#include "support/test.h"

#include <stdlib.h>
#include <sys/stat.h>

static struct sluice_manifest_builder builder;

/* Reads the annotations and gives them to images of these paths. */
static sluice_status assign(const char *const *from, size_t num_from, const char *const *images,
                            size_t num, struct sluice_err *err)
{
    struct sluice_annotations *annotations = NULL;
    sluice_manifest_destroy(builder.manifest);
    REQUIRE_OK(sluice_manifest_builder_init(&builder, NULL));
    for (size_t i = 0; i < num; i++) {
        const struct sluice_manifest_entry row = {.bytes = 1};
        REQUIRE_OK(sluice_manifest_add_entry(&builder, &row, images[i], strlen(images[i]), NULL));
    }
    sluice_status status = sluice_annotations_read(from, num_from, &annotations, err);
    if (status == SLUICE_OK)
        status = sluice_annotations_add_fields(annotations, &builder.manifest->fields, err);
    if (status == SLUICE_OK)
        status = sluice_annotations_assign(annotations, "root", 0, &builder, err);
    if (status == SLUICE_OK)
        status = sluice_manifest_finish_fields(&builder, err);
    sluice_annotations_destroy(annotations);
    return status;
}

static sluice_status assign_file(const char *json, const char *const *images, size_t num,
                                 struct sluice_err *err)
{
    sluice_test_put_text(sluice_test_dir(), "a.json", json);
    const char *path = sluice_test_path("a.json");
    return assign(&path, 1, images, num, err);
}

static struct sluice_field_value value_of(size_t row, unsigned field)
{
    const struct sluice_manifest_entry *entry = &builder.manifest->rows[row];
    return sluice_fields_value(&builder.manifest->fields, field, entry->values,
                               entry->values_bytes);
}

static float number_at(struct sluice_field_value value, size_t i)
{
    float number;
    memcpy(&number, (const char *)value.at + i * sizeof(number), sizeof(number));
    return number;
}

TEST(images_are_found_by_the_end_of_their_path)
{
    static const char *const images[] = {"train/x.tar/a/1.jpg", "val/1.jpg", "val/2.jpg"};
    REQUIRE_OK(assign_file(
        "{\"images\": [{\"id\": 1, \"file_name\": \"1.jpg\"},"
        "{\"id\": 2, \"file_name\": \"a/1.jpg\"}, {\"id\": 3, \"file_name\": \"2.jpg\"},"
        "{\"id\": 4, \"file_name\": \"not here.jpg\"}], \"annotations\": ["
        "{\"image_id\": 1, \"category_id\": 1, \"bbox\": [1, 1, 1, 1]},"
        "{\"image_id\": 2, \"category_id\": 2, \"bbox\": [2, 2, 2, 2]},"
        "{\"image_id\": 2, \"category_id\": 2, \"bbox\": [2, 2, 2, 2]}]}",
        images, 3, NULL));
    CU_ASSERT_EQUAL(builder.manifest->fields.num, 1);
    CU_ASSERT_EQUAL(value_of(0, 0).bytes, 2 * SLUICE_BOX_BYTES);
    CU_ASSERT_EQUAL(number_at(value_of(0, 0), 0), 2);
    CU_ASSERT_EQUAL(value_of(1, 0).bytes, SLUICE_BOX_BYTES);
    CU_ASSERT_EQUAL(number_at(value_of(1, 0), 2), 2);
    CU_ASSERT_EQUAL(value_of(2, 0).bytes, 0);
}

TEST(keypoints_are_a_second_field_with_as_many_objects)
{
    static const char *const images[] = {"1.jpg", "2.jpg"};
    REQUIRE_OK(assign_file("{\"images\": [{\"id\": 1, \"file_name\": \"1.jpg\"},"
                           "{\"id\": 2, \"file_name\": \"2.jpg\"}], \"annotations\": ["
                           "{\"image_id\": 1, \"category_id\": 1, \"bbox\": [1, 1, 1, 1]},"
                           "{\"image_id\": 1, \"category_id\": 1, \"bbox\": [1, 1, 1, 1],"
                           " \"keypoints\": [5, 6, 2]}]}",
                           images, 2, NULL));
    CU_ASSERT_EQUAL(builder.manifest->fields.num, 2);
    CU_ASSERT_STRING_EQUAL(builder.manifest->fields.of[1].name, "keypoints");
    CU_ASSERT_EQUAL(builder.manifest->fields.of[1].type.dim, 1);
    CU_ASSERT_EQUAL(value_of(0, 1).bytes, 2 * SLUICE_KEYPOINT_BYTES);
    CU_ASSERT_EQUAL(number_at(value_of(0, 1), 0), 0);
    CU_ASSERT_EQUAL(number_at(value_of(0, 1), 3), 5);
    CU_ASSERT_EQUAL(value_of(1, 1).bytes, 0);
}

TEST(images_without_an_entry_and_entries_of_several_images_are_named)
{
    static const char *const images[] = {"a/1.jpg", "b/1.jpg", "c.jpg"};
    CHECK_FAILS(SLUICE_E_INVALID, "root: 1 of 3 images are not among those of",
                assign_file("{\"images\": [{\"id\": 1, \"file_name\": \"a/1.jpg\"},"
                            "{\"id\": 2, \"file_name\": \"b/1.jpg\"}], \"annotations\": []}",
                            images, 3, sluice_test_err()));
    CHECK_FAILS(SLUICE_E_INVALID, "image of id 1: '1.jpg' may be a/1.jpg or b/1.jpg",
                assign_file("{\"images\": [{\"id\": 1, \"file_name\": \"1.jpg\"}], "
                            "\"annotations\": []}",
                            images, 2, sluice_test_err()));
    CHECK_FAILS(SLUICE_E_INVALID, "id 1 and 2 (",
                assign_file("{\"images\": [{\"id\": 1, \"file_name\": \"1.jpg\"},"
                            "{\"id\": 2, \"file_name\": \"1.jpg\"}], \"annotations\": []}",
                            images, 1, sluice_test_err()));
}

TEST(a_million_boxes_of_one_image_are_refused)
{
    static const char *const images[] = {"1.jpg"};
    const size_t num = 1000000;
    char *text = malloc(200 + num * 64);
    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    size_t len = (size_t)sprintf(text, "{\"images\": [{\"id\": 1, \"file_name\": \"1.jpg\"}], "
                                       "\"annotations\": [");
    for (size_t i = 0; i < num; i++)
        len += (size_t)sprintf(
            text + len, "%s{\"image_id\":1,\"category_id\":1,\"bbox\":[0,0,1,1]}", i ? "," : "");
    strcpy(text + len, "]}");
    CHECK_FAILS(SLUICE_E_INVALID, "image of id 1 ('1.jpg') has more than 52428 boxes",
                assign_file(text, images, 1, sluice_test_err()));
    free(text);
}

static void put(const char *name, const char *text)
{
    sluice_test_put_text(sluice_test_dir(), name, text);
}

TEST(texts_of_yolo_have_the_paths_of_the_images)
{
    static const char *const images[] = {"a/1.jpg", "a/2.x.png", "images/3.jpg", "none.jpg"};
    put("labels/a/1.txt", "1 0.5 0.5 1 1\n");
    put("labels/a/2.x.txt", "");
    put("labels/3.txt", "2 0.25 0.5 0.5 1\n");
    const char *folder = sluice_test_path("labels");
    REQUIRE_OK(assign(&folder, 1, images, 4, NULL));
    struct sluice_image_sizes *sizes = NULL;
    REQUIRE_OK(sluice_image_sizes_create(4, true, &sizes, NULL));
    for (size_t i = 0; i < 4; i++)
        sluice_image_sizes_set(sizes, i, &(struct sluice_image_size){10, 20, i == 2 ? 3 : 1});
    sluice_annotations_scale(builder.manifest, 0, sizes);
    sluice_image_sizes_destroy(sizes);
    CU_ASSERT_EQUAL(number_at(value_of(0, 0), 2), 10);
    CU_ASSERT_EQUAL(number_at(value_of(0, 0), 3), 20);
    CU_ASSERT_EQUAL(value_of(1, 0).bytes, 0);
    CU_ASSERT_EQUAL(number_at(value_of(2, 0), 0), 5); /* upside down */
    CU_ASSERT_EQUAL(number_at(value_of(2, 0), 2), 10);
    CU_ASSERT_EQUAL(value_of(3, 0).bytes, 0);
    CHECK_FAILS(SLUICE_E_INVALID, "no image has a text of YOLO here",
                assign(&folder, 1, images + 3, 1, sluice_test_err()));
    put("labels/none.txt", "1 2 3 4 5\n");
    folder = sluice_test_path("labels");
    CHECK_FAILS(SLUICE_E_INVALID, "labels/none.txt:1: a number is not between 0 and 1",
                assign(&folder, 1, images + 3, 1, sluice_test_err()));
}

TEST(paths_are_one_folder_or_files_that_are_there)
{
    static const char *const images[] = {"1.jpg"};
    const char *none = "/nowhere/a.json";
    CU_ASSERT_EQUAL(assign(&none, 1, images, 1, NULL), SLUICE_E_NOT_FOUND);
    char dir[1024];
    snprintf(dir, sizeof(dir), "%s", sluice_test_dir());
    const char *const two[] = {dir, dir};
    CHECK_FAILS(SLUICE_E_INVALID, "one folder of YOLO's texts, or files of COCO",
                assign(two, 2, images, 1, sluice_test_err()));
}

TEST(the_names_of_its_fields_are_taken)
{
    struct sluice_annotations *annotations = NULL;
    struct sluice_fields fields = {1, {{{SLUICE_FIELD_TEXT, 0}, "boxes"}}};
    const char *folder = sluice_test_dir();
    REQUIRE_OK(sluice_annotations_read(&folder, 1, &annotations, NULL));
    CU_ASSERT(sluice_annotations_are_relative(annotations));
    CHECK_FAILS(SLUICE_E_INVALID, "'boxes' is the field of --annotations",
                sluice_annotations_add_fields(annotations, &fields, sluice_test_err()));
    sluice_annotations_destroy(annotations);
    annotations = NULL;
    REQUIRE_OK(sluice_annotations_read(NULL, 0, &annotations, NULL));
    CU_ASSERT_PTR_NULL(annotations);
    CHECK_OK(sluice_annotations_add_fields(NULL, &fields, NULL));
}

int main(void)
{
    const int code = sluice_test_main();
    sluice_manifest_destroy(builder.manifest);
    return code;
}
