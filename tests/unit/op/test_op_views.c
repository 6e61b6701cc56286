#include "op/geometry.h"

#include "image/image.h"
#include "run_support.h"
#include "support/test.h"

#include <math.h>

#define DINO                                                                                       \
    "decode,views(2x[random_resized_crop=224:scale=0.32-1,hflip,color_jitter=0.4:p=0.8],"          \
    "8x[random_resized_crop=96:scale=0.05-0.32,hflip,solarize:p=0.2]),to_tensor,normalize="        \
    "imagenet"

TEST(views_stand_in_the_order_of_the_text)
{
    struct sluice_pipeline *p = run_test_parse(DINO);
    CU_ASSERT_EQUAL(sluice_pipeline_num_ops(p), 4);
    CU_ASSERT_EQUAL(sluice_pipeline_u8_split(p), 2);
    CU_ASSERT_EQUAL(sluice_pipeline_op_kind(p, 1), SLUICE_OP_VIEWS);
    CU_ASSERT_EQUAL_FATAL(sluice_pipeline_num_views(p), 10);
    for (unsigned v = 0; v < 10; v++) {
        const struct sluice_size size = sluice_pipeline_view_size(p, v);
        CU_ASSERT(size.width == (v < 2 ? 224 : 96) && size.height == size.width);
        CU_ASSERT_EQUAL(sluice_pipeline_num_views(sluice_pipeline_view(p, v)), 1);
    }
    const uint64_t pixels = 2 * 224 * 224 + 8 * 96 * 96;
    CU_ASSERT_EQUAL(sluice_pipeline_u8_bytes(p), 3 * pixels);
    CU_ASSERT_EQUAL(sluice_pipeline_output_bytes(p), 12 * pixels);
    const struct sluice_known_size known = sluice_pipeline_known_size(p, 2);
    CU_ASSERT_EQUAL(sluice_known_size_pixels(known, 500, 400), pixels);
    CU_ASSERT(sluice_known_size_allows(known, 224, 224) &&
              !sluice_known_size_allows(known, 96, 96));
    sluice_pipeline_destroy(p);
    p = run_test_parse("decode,views([center_crop=3x5])");
    CU_ASSERT_EQUAL(sluice_pipeline_num_views(p), 1);
    CU_ASSERT_EQUAL(sluice_pipeline_view_size(p, 0).width, 5);
    CU_ASSERT_EQUAL(sluice_pipeline_view_size(p, 0).height, 3);
    CU_ASSERT_EQUAL(sluice_pipeline_u8_bytes(p), 45);
    sluice_pipeline_destroy(p);
    p = run_test_parse("decode,center_crop=3x5");
    CU_ASSERT_PTR_EQUAL(sluice_pipeline_view(p, 0), p);
    sluice_pipeline_destroy(p);
}

TEST(the_canonical_text_of_views_parses_to_an_equal_pipeline)
{
    static const struct {
        const char *text, *canonical;
    } cases[] = {
        {"decode,views([center_crop=8])", "decode,views([center_crop=8])"},
        {"decode,views(1x[center_crop=8,hflip],2x[resize=9,center_crop=8x9])",
         "decode,views([center_crop=8,hflip=0.5],2x[resize=9,center_crop=8x9])"},
        {"decode,exif_transpose,resize=20,views(32x[one_of(invert,shuffled(equalize)),"
         "random_resized_crop=8:filter=bicubic:draws=3]),to_tensor",
         "decode,exif_transpose,resize=20,views(32x[one_of(invert,shuffled(equalize)),"
         "random_resized_crop=8:scale=0.08-1:ratio=0.75-1.3333333333333333:filter=bicubic:draws=3])"
         ",to_tensor"},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        struct sluice_pipeline *p = run_test_parse(cases[i].text);
        CU_ASSERT_STRING_EQUAL(sluice_pipeline_spec(p), cases[i].canonical);
        struct sluice_pipeline *q = run_test_parse(sluice_pipeline_spec(p));
        CU_ASSERT_STRING_EQUAL(sluice_pipeline_spec(p), sluice_pipeline_spec(q));
        CU_ASSERT_EQUAL(sluice_pipeline_fingerprint(p), sluice_pipeline_fingerprint(q));
        sluice_pipeline_destroy(p);
        sluice_pipeline_destroy(q);
    }
    struct sluice_pipeline *two = run_test_parse("decode,views(2x[center_crop=8])");
    struct sluice_pipeline *one = run_test_parse("decode,views([center_crop=8])");
    CU_ASSERT_NOT_EQUAL(sluice_pipeline_fingerprint(one), sluice_pipeline_fingerprint(two));
    sluice_pipeline_destroy(one);
    sluice_pipeline_destroy(two);
}

TEST(what_is_wrong_is_said_where_it_is)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"decode,views", "op 2 (views) at character 13: '(' and views are wanted here"},
        {"decode,views=2", "op 2 (views) at character 14: views takes no value"},
        {"decode,views()", "op 2 (views) at character 14: a view is wanted here"},
        {"decode,views(hflip)", "op 2 (views) at character 14: a view is wanted here"},
        {"decode,views(2[hflip])", "op 2 (views) at character 15: a view is wanted here"},
        {"decode,views(2x(hflip))", "op 2 (views) at character 16: a view is wanted here"},
        {"decode,views([])", "op 3 () at character 15: there is no such op"},
        {"decode,views([center_crop])", "op 3 (center_crop) at character 26: '=SIZE"},
        {"decode,views([center_crop=4)", "op 3 (center_crop) at character 28: ',' or ']'"},
        {"decode,views([center_crop=4]", "op 2 (views) at character 29: ',' or ')' is wanted here"},
        {"decode,views([center_crop=4],)", "op 2 (views) at character 30: a view is wanted here"},
        {"decode,views([center_crop=4,hue=2])", "op 4 (hue) at character 33: shift lies"},
        {"decode,views([center_crop=4],[invert,hflp])", "op 5 (hflp) at character 38"},
        {"decode,views([hflip])", "op 3 (hflip) at character 20: a view ends in a fixed size"},
        {"decode,views([resize=9])", "a view ends in a fixed size"},
        {"decode,views(0x[center_crop=4])", "op 2 (views) at character 14: a sample has 1 to 32"},
        {"decode,views(33x[center_crop=4])", "op 2 (views) at character 14: a sample has 1 to 32"},
        {"decode,views(20x[center_crop=4],13x[center_crop=4])",
         "op 2 (views) at character 33: a sample has 1 to 32 views"},
        {"decode,views(32x[center_crop=4],[center_crop=4])",
         "op 2 (views) at character 33: a sample has at most 32 views"},
        {"decode,views([decode])", "op 3 (decode) at character 15: a view has only ops"},
        {"decode,views([exif_transpose])", "op 3 (exif_transpose) at character 15: a view has"},
        {"decode,views([center_crop=4,to_tensor])", "op 4 (to_tensor) at character 29: a view has"},
        {"decode,views([views([center_crop=4])])", "op 3 (views) at character 15: a view has"},
        {"decode,one_of(views([center_crop=4]))", "op 3 (views) at character 15: only ops that"},
        {"decode,views([center_crop=4]),hflip", "op 4 (hflip) at character 31: only to_tensor may"},
        {"decode,views([center_crop=4]),views([center_crop=4])",
         "op 4 (views) at character 31: only to_tensor may follow views"},
        {"views([center_crop=4])", "op 1 (views) at character 1: decode stands first"},
        {"decode,to_tensor,views([center_crop=4])", "op 3 (views) at character 18: it comes after"},
        {"decode,views([center_crop=4]]", "op 2 (views) at character 29: ',' or ')' is wanted"},
        {"decode,views([center_crop=4])]", "op 2 (views) at character 30: nothing more belongs"},
        {"decode,views([center_crop=4,k_of(33:replace=1,invert)])", "op 4 (k_of)"},
        {"decode,views([k_of(32:replace=1,invert),k_of(32:replace=1,invert),center_crop=4])",
         "op 5 (k_of) at character 41: a sample would run more than 64 ops"},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        struct sluice_pipeline *pipeline = NULL;
        struct sluice_err err = {{0}};
        CU_ASSERT_EQUAL(sluice_pipeline_parse(cases[i].text, &pipeline, &err), SLUICE_E_INVALID);
        CU_ASSERT_PTR_NULL(pipeline);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, cases[i].words));
        if (!strstr(err.text, cases[i].words))
            printf("'%s' gave '%s'\n", cases[i].text, err.text);
    }
}

/* The limit of 64 is one view's, and that of 256 is the text's. */
TEST(limits_count_each_view_alone)
{
    struct sluice_pipeline *p = run_test_parse(
        "decode,center_crop=9,views(20x[k_of(32:replace=1,invert),k_of(28:replace=1,invert)],"
        "12x[resize=3x3,auto_augment=imagenet])");
    CU_ASSERT_EQUAL(sluice_pipeline_num_views(p), 32);
    sluice_pipeline_destroy(p);
}

static struct sluice_box box_of(const struct sluice_pipeline *p, unsigned view, uint64_t id)
{
    return run_test_draw(sluice_pipeline_view(p, view), 1, id, 500, 400).resample.from;
}

static bool is_same(struct sluice_box a, struct sluice_box b)
{
    return memcmp(&a, &b, sizeof(a)) == 0;
}

TEST(each_copy_draws_for_itself_and_shared_draws_are_shared)
{
    struct sluice_pipeline *p =
        run_test_parse("decode,views(3x[random_resized_crop=8],2x[random_resized_crop=9:draws=7],"
                       "[random_resized_crop=10:draws=8],[random_resized_crop=11:draws=7])");
    struct sluice_pipeline *shorter = run_test_parse("decode,views(2x[random_resized_crop=8])");
    struct sluice_pipeline *plain = run_test_parse("decode,random_resized_crop=8");
    for (uint64_t id = 0; id < 20; id++) {
        for (unsigned a = 0; a < 7; a++) {
            for (unsigned b = 0; b < a; b++) {
                const bool is_shared = a != 5 && b >= 3 && b != 5;
                CU_ASSERT_EQUAL(is_same(box_of(p, a, id), box_of(p, b, id)), is_shared);
            }
            CU_ASSERT_FALSE(is_same(box_of(p, a, id), box_of(plain, 0, id)));
        }
        for (unsigned v = 0; v < 2; v++)
            CU_ASSERT(is_same(box_of(p, v, id), box_of(shorter, v, id)));
    }
    sluice_pipeline_destroy(plain);
    sluice_pipeline_destroy(shorter);
    sluice_pipeline_destroy(p);
}

static bool is_mirrored(const struct sluice_pipeline *p, unsigned view, unsigned op, uint64_t id)
{
    const struct sluice_draw_key key = {.seed = 77, .epoch = 3, .sample_id = id};
    union sluice_drawn drawn;
    sluice_op_draw(run_test_op(sluice_pipeline_view(p, view), op), &key, (struct sluice_size){9, 9},
                   &drawn);
    return drawn.is_mirrored;
}

/* Runs made before are repeated only while these do not change. */
TEST(draws_come_from_the_streams_that_the_docs_name)
{
    struct sluice_pipeline *p = run_test_parse(
        "decode,hflip,views([center_crop=8,hflip],2x[center_crop=9,hflip,hflip:draws=7])");
    static const struct {
        unsigned view, op;
        uint64_t group;
        uint32_t place; /* in the text: decode is 0 */
    } cases[] = {
        {0, 1, 0, 1}, {2, 1, 0, 1},   {0, 3, 1, 4},   {1, 3, 2, 6},
        {2, 3, 3, 6}, {1, 4, 263, 0}, {2, 4, 263, 0},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        for (uint64_t id = 0; id < 64; id++) {
            struct sluice_rng rng =
                sluice_rng_init(77, 3, id ^ cases[i].group << 48, cases[i].place);
            CU_ASSERT_EQUAL(is_mirrored(p, cases[i].view, cases[i].op, id),
                            sluice_rng_double(&rng) < 0.5);
        }
    }
    sluice_pipeline_destroy(p);
}

TEST(a_schedule_within_a_view_is_one)
{
    struct sluice_pipeline *p =
        run_test_parse("decode,views([center_crop=8],[center_crop=4,when(epoch<2,invert)])");
    CU_ASSERT(sluice_pipeline_has_schedule(p));
    sluice_pipeline_destroy(p);
    p = run_test_parse(DINO);
    CU_ASSERT_FALSE(sluice_pipeline_has_schedule(p));
    sluice_pipeline_destroy(p);
}

/* By the pixels of each view. */
TEST(the_mean_cost_is_that_of_all_views)
{
    struct sluice_pipeline *p = run_test_parse(
        "decode,views([center_crop=30,hue=0.1],3x[center_crop=10,when(epoch<2,hue=0.1)])");
    struct sluice_pipeline *one = run_test_parse("decode,center_crop=30,hue=0.1");
    const double ns = sluice_pipeline_mean_ns(one, 0, 3, 0);
    CU_ASSERT(ns > 0);
    CU_ASSERT(fabs(sluice_pipeline_mean_ns(p, 0, 2, 0) - ns) < 1e-9);
    CU_ASSERT(fabs(sluice_pipeline_mean_ns(p, 0, 2, 2) - ns * 900 / 1200) < 1e-9);
    CU_ASSERT_EQUAL(sluice_pipeline_mean_ns(p, 0, 1, 0), 0);
    sluice_pipeline_destroy(one);
    sluice_pipeline_destroy(p);
}

TEST(draws_are_written_view_by_view)
{
    struct sluice_pipeline *p = run_test_parse("decode,center_crop=20,views([center_crop=8,hflip=1]"
                                               ",2x[center_crop=4],[hflip=0]),to_tensor");
    const struct sluice_draw_key key = {.seed = 1};
    char *json = NULL;
    REQUIRE_OK(sluice_pipeline_write_draws(p, &key, 40, 30, &json, NULL));
    CU_ASSERT_STRING_EQUAL(
        json,
        "[{\"op\":\"center_crop\",\"from\":{\"left\":10,\"top\":5,\"width\":20,\"height\":20},"
        "\"keep\":{\"left\":0,\"top\":0,\"width\":20,\"height\":20},\"at\":[0,0],\"size\":[20,20]},"
        "{\"op\":\"views\",\"views\":["
        "[{\"op\":\"center_crop\",\"from\":{\"left\":6,\"top\":6,\"width\":8,\"height\":8},"
        "\"keep\":{\"left\":0,\"top\":0,\"width\":8,\"height\":8},\"at\":[0,0],\"size\":[8,8]},"
        "{\"op\":\"hflip\",\"mirrored\":true}],"
        "[{\"op\":\"center_crop\",\"from\":{\"left\":8,\"top\":8,\"width\":4,\"height\":4},"
        "\"keep\":{\"left\":0,\"top\":0,\"width\":4,\"height\":4},\"at\":[0,0],\"size\":[4,4]}],"
        "[{\"op\":\"center_crop\",\"from\":{\"left\":8,\"top\":8,\"width\":4,\"height\":4},"
        "\"keep\":{\"left\":0,\"top\":0,\"width\":4,\"height\":4},\"at\":[0,0],\"size\":[4,4]}],"
        "[{\"op\":\"hflip\",\"mirrored\":false}]]}]");
    free(json);
    sluice_pipeline_destroy(p);
}

TEST(the_geometry_of_a_view_is_its_pipelines)
{
    struct sluice_pipeline *p = run_test_parse(
        "decode,resize=70,views(3x[random_resized_crop=24,hflip],[center_crop=9,vflip])");
    CHECK_OK(sluice_pipeline_check_geometry(p, NULL));
    const struct sluice_file_image image = {.width = 90, .height = 80, .orientation = 1};
    struct sluice_geometry of[4] = {{.width = 0}};
    for (unsigned v = 0; v < 4; v++) {
        const struct sluice_draw_key key = {.seed = 8};
        struct sluice_geometry alone = {.width = 0};
        sluice_pipeline_geometry(p, &key, &image, v, &of[v]);
        sluice_pipeline_geometry(sluice_pipeline_view(p, v), &key, &image, 0, &alone);
        CU_ASSERT(memcmp(alone.matrix, of[v].matrix, sizeof(alone.matrix)) == 0);
        CU_ASSERT(alone.width == 90 && alone.crop_width == of[v].crop_width);
        for (unsigned other = 0; other < v; other++)
            CU_ASSERT(memcmp(of[other].matrix, of[v].matrix, sizeof(alone.matrix)) != 0);
    }
    sluice_pipeline_destroy(p);
    p = run_test_parse("decode,views([center_crop=9],[center_crop=8,augmix])");
    struct sluice_err err = {{0}};
    CU_ASSERT_EQUAL(sluice_pipeline_check_geometry(p, &err), SLUICE_E_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "augmix"));
    sluice_pipeline_destroy(p);
}

/* What a storage node reads, and sends as crop or rows. */
TEST(the_file_box_is_the_union_of_the_views_boxes)
{
    struct sluice_pipeline *p = run_test_parse(DINO);
    CU_ASSERT(sluice_pipeline_can_crop_jpeg(p) && sluice_pipeline_can_take_rows(p));
    for (uint64_t id = 0; id < 30; id++) {
        const struct sluice_draw_key key = {.seed = sluice_test_seed(), .sample_id = id};
        struct sluice_box all;
        CU_ASSERT_FATAL(sluice_pipeline_file_box(p, &key, 500, 400, 2, SLUICE_FORM_U8, &all));
        uint32_t left = 500, top = 400, right = 0, bottom = 0;
        for (unsigned v = 0; v < 10; v++) {
            struct sluice_box one;
            CU_ASSERT_FATAL(sluice_pipeline_file_box(sluice_pipeline_view(p, v), &key, 500, 400, 2,
                                                     SLUICE_FORM_U8, &one));
            left = one.left < left ? one.left : left;
            top = one.top < top ? one.top : top;
            right = one.left + one.width > right ? one.left + one.width : right;
            bottom = one.top + one.height > bottom ? one.top + one.height : bottom;
        }
        CU_ASSERT(all.left == left && all.top == top);
        CU_ASSERT(all.left + all.width == right && all.top + all.height == bottom);
    }
    sluice_pipeline_destroy(p);
    static const char *const others[] = {
        "decode,center_crop=200,views([random_resized_crop=8])",
        "decode,views([random_resized_crop=8],[resize=8x8])",
        "decode,views([hflip,random_resized_crop=8])",
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(others); i++) {
        const struct sluice_draw_key key = {.seed = 1};
        struct sluice_box box;
        p = run_test_parse(others[i]);
        const unsigned end = sluice_pipeline_u8_split(p);
        CU_ASSERT_EQUAL(sluice_pipeline_file_box(p, &key, 500, 400, end, SLUICE_FORM_U8, &box),
                        i == 0);
        sluice_pipeline_destroy(p);
    }
}
