#include "datasets/list/coco.h"

#include "support/test.h"

#include <stdlib.h>

static struct sluice_coco coco;

static sluice_status add(const char *name, const char *text, struct sluice_err *err)
{
    return sluice_coco_add(&coco, name, text, strlen(text), err);
}

static void expect_object(size_t image, size_t i, double left, double top, double right,
                          double bottom, double label)
{
    CU_ASSERT_FATAL(i < coco.images[image].num);
    const struct sluice_coco_object *object = &coco.objects[coco.images[image].first + i];
    const double want[] = {left, top, right, bottom};
    CU_ASSERT(memcmp(object->corners, want, sizeof(want)) == 0);
    CU_ASSERT_EQUAL(object->label, label);
}

TEST(objects_go_to_their_images_in_the_order_of_the_file)
{
    sluice_coco_clear(&coco);
    REQUIRE_OK(add("a.json",
                   "{\"annotations\": ["
                   "{\"image_id\": 7, \"category_id\": 3, \"bbox\": [1, 2, 3, 4], \"iscrowd\": 0},"
                   "{\"image_id\": 5, \"category_id\": 1, \"bbox\": [0, 0, 1.5, 0]},"
                   "{\"image_id\": 7, \"category_id\": 3, \"bbox\": [9, 9, 9, 9], \"iscrowd\": 1},"
                   "{\"image_id\": 7, \"category_id\": 9, \"bbox\": [-1, 2, 3, 4]}],"
                   "\"info\": null, \"categories\": [{\"id\": 1}, {\"id\": 3}, {\"id\": 9}],"
                   "\"images\": [{\"id\": 5, \"file_name\": \"5.jpg\"},"
                   "{\"file_name\": \"7.jpg\", \"id\": 7}]}\n",
                   NULL));
    REQUIRE_OK(add("b.json",
                   "{\"images\": [{\"id\": 5, \"file_name\": \"x.jpg\"}], \"annotations\": ["
                   "{\"image_id\": 5, \"category_id\": 0, \"bbox\": [1, 1, 1, 1]}]}",
                   NULL));
    sluice_coco_sort(&coco);
    CU_ASSERT_EQUAL_FATAL(coco.num_images, 3);
    CU_ASSERT_STRING_EQUAL(coco.images[1].file_name, "7.jpg");
    CU_ASSERT_STRING_EQUAL(coco.images[2].of, "b.json");
    CU_ASSERT_EQUAL(coco.images[0].num, 1);
    CU_ASSERT_EQUAL(coco.images[1].num, 2);
    expect_object(0, 0, 0, 0, 1.5, 0, 1);
    expect_object(1, 0, 1, 2, 4, 6, 3);
    expect_object(1, 1, -1, 2, 2, 6, 9);
    expect_object(2, 0, 1, 1, 2, 2, 0);
    CU_ASSERT_EQUAL(coco.num_crowds, 1);
    CU_ASSERT_EQUAL(coco.num_points, 0);
}

TEST(keypoints_are_read_where_an_object_has_some)
{
    sluice_coco_clear(&coco);
    REQUIRE_OK(add("p.json",
                   "{\"images\": [{\"id\": 1, \"file_name\": \"1.jpg\"}], \"annotations\": ["
                   "{\"image_id\": 1, \"category_id\": 1, \"bbox\": [0, 0, 1, 1]},"
                   "{\"image_id\": 1, \"category_id\": 1, \"bbox\": [0, 0, 1, 1],"
                   " \"keypoints\": [1, 2, 0, 3.5, 4, 2]}]}",
                   NULL));
    sluice_coco_sort(&coco);
    CU_ASSERT_EQUAL(coco.num_points, 2);
    CU_ASSERT_EQUAL(coco.objects[0].point, SIZE_MAX);
    CU_ASSERT_EQUAL(coco.points[coco.objects[1].point + 3], 3.5);
}

#define IMAGES "{\"images\": [{\"id\": 1, \"file_name\": \"1.jpg\"}], \"annotations\": ["
#define OBJECT "{\"image_id\": 1, \"category_id\": 1, \"bbox\": [0, 0, 1, 1]"

TEST(what_is_wrong_is_named_with_file_and_entry)
{
    static const struct {
        const char *text, *says;
    } wrong[] = {
        {"[]", "w.json: it is no JSON object"},
        {"{\"images\": []}", "w.json: it has not both lists"},
        {"{\"images\": {}, \"annotations\": []}", "w.json: 'images' is no list"},
        {"{\"images\": [], \"annotations\": []} {}", "w.json: byte 34: no JSON here"},
        {"{\"images\": [], \"annotations\": [", "no JSON here"},
        {"{\"images\": [{\"id\": \"1\", \"file_name\": \"a\"}], \"annotations\": []}",
         "w.json: images[0]: its id is not an integer"},
        {"{\"images\": [{\"id\": 1}], \"annotations\": []}", "images[0]: its file_name is missing"},
        {"{\"images\": [7], \"annotations\": []}", "images[0]: it is no object"},
        {"{\"images\": [{\"id\": 1, \"file_name\": \"a\"}, {\"id\": 1, \"file_name\": \"b\"}], "
         "\"annotations\": []}",
         "w.json: images[1]: its id 1 is that of images[0]"},
        {IMAGES OBJECT "}, {\"image_id\": 2}]}",
         "w.json: annotations[1]: its image_id 2 is not among the images of the file"},
        {IMAGES "{\"image_id\": 1, \"category_id\": -1}]}",
         "annotations[0]: its category_id is not an integer from 0"},
        {IMAGES "{\"image_id\": 1, \"category_id\": 10000000}]}", "its category_id is not"},
        {IMAGES OBJECT "}], \"categories\": [{\"id\": 2}]}",
         "annotations[0]: its category_id 1 is not among the categories"},
        {IMAGES "{\"image_id\": 1, \"category_id\": 1, \"bbox\": [0, 0, -1, 1]}]}",
         "annotations[0]: its bbox has a negative width or height"},
        {IMAGES "{\"image_id\": 1, \"category_id\": 1, \"bbox\": [0, 0, 1]}]}",
         "annotations[0]: its bbox is not x, y, width and height"},
        {IMAGES "{\"image_id\": 1, \"category_id\": 1, \"bbox\": [0, NaN, 1, 1]}]}",
         "w.json: annotations[0]: "},
        {IMAGES "{\"image_id\": 1, \"category_id\": 1, \"bbox\": [0, 1e999, 1, 1]}]}",
         "w.json: annotations[0]: "},
        {IMAGES "{\"image_id\": 1, \"category_id\": 1, \"bbox\": [0, 0, 1e10, 1]}]}",
         "annotations[0]: its bbox is beyond"},
        {IMAGES "{\"image_id\": 1, \"category_id\": 1}]}", "its bbox is not"},
        {IMAGES OBJECT ", \"keypoints\": [1, 2]}]}", "annotations[0]: its keypoints are not"},
        {IMAGES OBJECT ", \"keypoints\": []}]}", "annotations[0]: its keypoints are not"},
        {IMAGES OBJECT ", \"keypoints\": [1, 2, 0]}, " OBJECT
                       ", \"keypoints\": [1, 2, 0, 1, 2, 0]}]}",
         "annotations[1]: it has 2 keypoints, but the ones before have 1"},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(wrong); i++) {
        sluice_coco_clear(&coco);
        CHECK_FAILS(SLUICE_E_INVALID, wrong[i].says,
                    add("w.json", wrong[i].text, sluice_test_err()));
    }
}

TEST(deep_nesting_is_refused_at_its_byte)
{
    const size_t depth = 100000;
    char *text = malloc(2 * depth + 200);
    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    size_t len = (size_t)sprintf(text, IMAGES OBJECT ", \"segmentation\": ");
    memset(text + len, '[', depth);
    memset(text + len + depth, ']', depth);
    strcpy(text + len + 2 * depth, "}]}");
    sluice_coco_clear(&coco);
    CHECK_FAILS(SLUICE_E_INVALID, "or nested deeper than 64",
                add("d.json", text, sluice_test_err()));
    free(text);
}

int main(void)
{
    const int code = sluice_test_main();
    sluice_coco_clear(&coco);
    return code;
}
