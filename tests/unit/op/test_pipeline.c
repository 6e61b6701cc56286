#include "op/op.h"
#include "op/pipeline.h"

#include "base/buf.h"
#include "op/pipeline_private.h"
#include "support/test.h"

#define TRAIN "decode,random_resized_crop=224,hflip=0.5,to_tensor,normalize=imagenet"
#define VAL "decode,resize=256,center_crop=224,to_tensor,normalize=imagenet"

static struct sluice_pipeline *parse(const char *spec)
{
    struct sluice_pipeline *pipeline = NULL;
    struct sluice_err err = {{0}};
    if (sluice_pipeline_parse(spec, &pipeline, &err) != SLUICE_OK) {
        printf("%s: %s\n", spec, err.text);
        exit(1);
    }
    return pipeline;
}

TEST(parses_the_training_pipeline)
{
    struct sluice_pipeline *p = parse(TRAIN);
    CU_ASSERT_EQUAL(sluice_pipeline_num_ops(p), 5);
    CU_ASSERT_STRING_EQUAL(sluice_pipeline_op_name(p, 0), "decode");
    CU_ASSERT_STRING_EQUAL(sluice_pipeline_op_name(p, 1), "random_resized_crop");
    CU_ASSERT_STRING_EQUAL(sluice_pipeline_op_name(p, 4), "normalize");
    CU_ASSERT_EQUAL(sluice_pipeline_u8_split(p), 3);
    CU_ASSERT_EQUAL(sluice_pipeline_kind(p, 0), SLUICE_KIND_FILE);
    CU_ASSERT_EQUAL(sluice_pipeline_kind(p, 1), SLUICE_KIND_U8);
    CU_ASSERT_EQUAL(sluice_pipeline_kind(p, 3), SLUICE_KIND_U8);
    CU_ASSERT_EQUAL(sluice_pipeline_kind(p, 4), SLUICE_KIND_F32);
    CU_ASSERT_EQUAL(sluice_pipeline_kind(p, 5), SLUICE_KIND_F32);
    CU_ASSERT_EQUAL(sluice_pipeline_view_size(p, 0).width, 224);
    CU_ASSERT_EQUAL(sluice_pipeline_u8_bytes(p), 150528);
    CU_ASSERT_EQUAL(sluice_pipeline_output_bytes(p), 602112);
    sluice_pipeline_destroy(p);
    sluice_pipeline_destroy(NULL);
}

TEST(output_size_follows_the_ops)
{
    static const struct {
        const char *spec;
        uint32_t width;
        size_t u8_bytes, output_bytes;
        unsigned u8_split;
    } cases[] = {
        {VAL, 224, 150528, 602112, 3},
        {"decode", 0, 0, 0, 1},
        {"decode,to_tensor", 0, 0, 0, 1},
        {"decode,resize=8", 0, 0, 0, 2},
        {"decode,center_crop=8,hflip", 8, 192, 192, 3},
        {"decode,center_crop=8,resize=4,to_tensor", 4, 48, 192, 3},
        {"decode,center_crop=8x6,to_tensor", 6, 144, 576, 2},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        struct sluice_pipeline *p = parse(cases[i].spec);
        CU_ASSERT_EQUAL(sluice_pipeline_view_size(p, 0).width, cases[i].width);
        CU_ASSERT_EQUAL(sluice_pipeline_u8_bytes(p), cases[i].u8_bytes);
        CU_ASSERT_EQUAL(sluice_pipeline_output_bytes(p), cases[i].output_bytes);
        CU_ASSERT_EQUAL(sluice_pipeline_u8_split(p), cases[i].u8_split);
        sluice_pipeline_destroy(p);
    }
}

TEST(a_view_has_height_and_width)
{
    struct sluice_pipeline *p = parse("decode,random_resized_crop=192x256,hflip,to_tensor");
    CU_ASSERT_EQUAL(sluice_pipeline_num_views(p), 1);
    const struct sluice_size size = sluice_pipeline_view_size(p, 0);
    CU_ASSERT(size.width == 256 && size.height == 192);
    sluice_pipeline_destroy(p);
    p = parse("decode,resize=8");
    CU_ASSERT_EQUAL(sluice_pipeline_num_views(p), 1);
    CU_ASSERT_EQUAL(sluice_pipeline_view_size(p, 0).width, 0);
    CU_ASSERT_EQUAL(sluice_pipeline_view_size(p, 0).height, 0);
    sluice_pipeline_destroy(p);
}

TEST(canonical_text_spells_out_every_constant)
{
    struct sluice_pipeline *p = parse("decode,random_resized_crop=224,hflip,to_tensor,"
                                      "normalize=imagenet");
    CU_ASSERT_STRING_EQUAL(
        sluice_pipeline_spec(p),
        "decode,random_resized_crop=224:scale=0.08-1:ratio=0.75-1.3333333333333333,hflip=0.5,"
        "to_tensor,normalize=0.485:0.456:0.406/0.229:0.224:0.225");
    sluice_pipeline_destroy(p);
}

/* Bit for bit; through void pointers, as floats compare otherwise. */
static bool has_same_bits(const void *a, const void *b, size_t len)
{
    return memcmp(a, b, len) == 0;
}

TEST(canonical_text_parses_to_an_equal_pipeline)
{
    static const char *const specs[] = {
        TRAIN,
        VAL,
        "decode",
        "decode,hflip=0,random_resized_crop=1:ratio=0.0001-10000:scale=0.0001-0.0001",
        "decode,center_crop=8192,resize=1,to_tensor,normalize=0:0:0/1:1:1",
        "decode,random_resized_crop=32:ratio=1/3-7/3:scale=0.123456789012345678-0.9,to_tensor",
        "decode=pillow13,random_resized_crop=32",
        "decode,to_tensor,normalize=0.1:0.2:0.30000000000000004/0.3333333333333333:1000000:2.5",
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(specs); i++) {
        struct sluice_pipeline *p = parse(specs[i]);
        struct sluice_pipeline *q = parse(sluice_pipeline_spec(p));
        CU_ASSERT_STRING_EQUAL(sluice_pipeline_spec(p), sluice_pipeline_spec(q));
        CU_ASSERT_EQUAL(sluice_pipeline_fingerprint(p), sluice_pipeline_fingerprint(q));
        CU_ASSERT(has_same_bits(sluice_pipeline_tail_table(p), sluice_pipeline_tail_table(q),
                                sizeof(sluice_pipeline_table)));
        const struct sluice_draw_key key = {.seed = 5, .epoch = 1, .sample_id = i};
        const struct sluice_draws a = sluice_pipeline_draws(p, &key, 640, 480);
        const struct sluice_draws b = sluice_pipeline_draws(q, &key, 640, 480);
        CU_ASSERT(a.top == b.top && a.left == b.left && a.width == b.width &&
                  a.height == b.height && a.flip == b.flip);
        sluice_pipeline_destroy(p);
        sluice_pipeline_destroy(q);
    }
}

TEST(fingerprints_tell_ops_and_constants_apart)
{
    static const char *const specs[] = {
        TRAIN,
        VAL,
        "decode",
        "decode,hflip=0.5",
        "decode,hflip=0.25",
        "decode,resize=224",
        "decode,center_crop=224",
        "decode,random_resized_crop=224",
        "decode,random_resized_crop=224:scale=0.1-1",
        "decode,random_resized_crop=224:ratio=3/4-1",
        "decode,center_crop=224,hflip",
        "decode,hflip,center_crop=224",
        "decode,to_tensor",
        "decode,to_tensor,normalize=0:0:0/1:1:1",
        "decode=pillow13",
        "decode=pillow13,resize=224",
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(specs); i++) {
        struct sluice_pipeline *p = parse(specs[i]);
        for (size_t j = 0; j < i; j++) {
            struct sluice_pipeline *q = parse(specs[j]);
            CU_ASSERT_NOT_EQUAL(sluice_pipeline_fingerprint(p), sluice_pipeline_fingerprint(q));
            sluice_pipeline_destroy(q);
        }
        sluice_pipeline_destroy(p);
    }
    static const char *const equal[][2] = {
        {"decode,hflip", "decode,hflip=0.50"},
        {"decode,hflip", "decode=pillow12,hflip"},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(equal); i++) {
        struct sluice_pipeline *p = parse(equal[i][0]), *q = parse(equal[i][1]);
        CU_ASSERT_EQUAL(sluice_pipeline_fingerprint(p), sluice_pipeline_fingerprint(q));
        CU_ASSERT_STRING_EQUAL(sluice_pipeline_spec(p), sluice_pipeline_spec(q));
        sluice_pipeline_destroy(p);
        sluice_pipeline_destroy(q);
    }
}

TEST(a_bad_text_names_the_op_and_the_position)
{
    static const struct {
        const char *spec, *words;
    } cases[] = {
        {"", "op 1 () at character 1"},
        {"decode,", "op 2 () at character 8: there is no such op"},
        {"hflip", "op 1 (hflip) at character 1: decode stands first"},
        {"decode,decode", "op 2 (decode) at character 8"},
        {"decode=1", "op 1 (decode) at character 8: pillow12 or pillow13 is wanted here"},
        {"decode=pillow14",
         "op 1 (decode) at character 8: pillow12 or pillow13 is wanted here; did"},
        {"decode:p=0.5", "op 1 (decode) at character 8"},
        {"decode,exif_transpose=6", "op 2 (exif_transpose) at character 23: exif_transpose takes"},
        {"exif_transpose", "op 1 (exif_transpose) at character 1: decode stands first"},
        {"decode,hflip,exif_transpose", "op 3 (exif_transpose) at character 14: it must follow"},
        {"decode,mosaic=3", "op 2 (mosaic) at character 8: there is no such op"},
        {"decode,hflip=1.5", "op 2 (hflip) at character 14: p is at most 1"},
        {"decode,hflip=x", "op 2 (hflip) at character 14: a number"},
        {"decode,hflip=1.", "op 2 (hflip) at character 14: a number"},
        {"decode,hflip=0.1.2", "op 2 (hflip) at character 14: a number has too many"},
        {"decode,hflip=0.00001", "op 2 (hflip) at character 14: a number is 0 or from"},
        {"decode,hflip=nan", "op 2 (hflip)"},
        {"decode,hflip=0.5x", "op 2 (hflip) at character 17: nothing more belongs here"},
        {"decode,resize", "op 2 (resize) at character 14: '=SHORTER_SIDE or HEIGHTxWIDTH'"},
        {"decode,resize=0", "op 2 (resize) at character 15: a size"},
        {"decode,resize=8193", "op 2 (resize) at character 15: a size"},
        {"decode,resize=99999999999999999999", "op 2 (resize) at character 15: a size"},
        {"decode,resize=-1", "op 2 (resize) at character 15: a size"},
        {"decode,center_crop=", "op 2 (center_crop) at character 20: a size"},
        {"decode,random_resized_crop=9:scale=1-0.5", "the lower bound is above"},
        {"decode,random_resized_crop=9:scale=0-1", "a bound of scale"},
        {"decode,random_resized_crop=9:scale=0.5-1.5", "a bound of scale"},
        {"decode,random_resized_crop=9:ratio=1/0-2", "a bound of ratio"},
        {"decode,random_resized_crop=9:ratio=1", "'-' is wanted"},
        {"decode,random_resized_crop=9:ratio=1-2:ratio=1-2", "each once"},
        {"decode,random_resized_crop=9:colour=1", "op 2 (random_resized_crop) at character 30"},
        {"decode,to_tensor,hflip", "op 3 (hflip) at character 18: it comes after to_tensor"},
        {"decode,normalize=imagenet", "it must follow to_tensor"},
        {"decode,to_tensor=1", "to_tensor takes no value"},
        {"decode,to_tensor,normalize", "'=imagenet' or"},
        {"decode,to_tensor,normalize=imagenett", "R:G:B is wanted here; did you mean imagenet?"},
        {"decode,to_tensor,normalize=Imagenet,hflip", "did you mean imagenet?"},
        {"decode,to_tensor,normalize=1:2/1:1:1", "three numbers"},
        {"decode,to_tensor,normalize=1:2:3", "three deviations"},
        {"decode,to_tensor,normalize=1:1:1/1:0:1", "a deviation is 0"},
        {"decode,to_tensor,normalize=1:1:1000000/1:1:1", "two pixel values give one float"},
        {" decode", "op 1 ( decode) at character 1"},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        struct sluice_pipeline *pipeline = NULL;
        struct sluice_err err = {{0}};
        CU_ASSERT_EQUAL(sluice_pipeline_parse(cases[i].spec, &pipeline, &err), SLUICE_E_INVALID);
        CU_ASSERT_PTR_NULL(pipeline);
        const bool is_named = strstr(err.text, cases[i].words) != NULL;
        CU_ASSERT(is_named);
        if (!is_named)
            printf("'%s' gave '%s'\n", cases[i].spec, err.text);
        CU_ASSERT_EQUAL(sluice_pipeline_parse(cases[i].spec, &pipeline, NULL), SLUICE_E_INVALID);
    }
}

TEST(an_unknown_word_comes_with_what_is_near_and_all_ops)
{
    static const struct {
        const char *spec, *words;
    } cases[] = {
        {"decode,random_resize_crop=224",
         "no such op; did you mean random_resized_crop? The ops are "
         "decode, exif_transpose, random_resized_crop, resize, random_resize, center_crop, "
         "random_crop, pad, "},
        {"decode,RandomResizedCrop(224)", "did you mean random_resized_crop?"},
        {"decode,crop=224", "did you mean random_resized_crop, center_crop, random_crop, "
                            "random_size_crop or iou_crop?"},
        {"decode,flip", "did you mean hflip or vflip?"},
        {"decode,ToTensor", "did you mean to_tensor?"},
        {"decode,mosaic=3", "no such op; the ops are decode, "},
        {"decode,random_resized_crop=9:scales=0.1-1", "did you mean scale?"},
        {"decode,grayscale:rs", "nothing more belongs here"},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        struct sluice_err err = {{0}};
        CU_ASSERT_EQUAL(sluice_pipeline_check(cases[i].spec, &err), SLUICE_E_INVALID);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, cases[i].words));
        if (!strstr(err.text, cases[i].words))
            printf("'%s' gave '%s'\n", cases[i].spec, err.text);
    }
    CHECK_OK(sluice_pipeline_check(TRAIN, NULL));
}

TEST(the_list_has_every_op_with_an_example_that_parses)
{
    char list[8192];
    sluice_op_list(list, sizeof(list));
    CU_ASSERT(strlen(list) < sizeof(list) - 1);
    unsigned num_ops = 0;
    for (char *save, *line = strtok_r(list, "\n", &save); line;
         line = strtok_r(NULL, "\n", &save)) {
        char *text = strstr(line, ": ");
        CU_ASSERT_PTR_NOT_NULL_FATAL(text);
        *text = '\0';
        CU_ASSERT(strlen(text + 2) > 10);
        char spec[300];
        snprintf(spec, sizeof(spec), "%s%s%s%s", num_ops > 0 ? "decode," : "",
                 strncmp(line, "normalize", 9) == 0 ? "to_tensor," : "", line,
                 strncmp(line, "zoom_out", 8) == 0 || strncmp(line, "random_size_crop", 16) == 0 ||
                         strncmp(line, "iou_crop", 8) == 0
                     ? ",center_crop=9"
                     : "");
        struct sluice_pipeline *pipeline = NULL, *again = NULL;
        REQUIRE_OK(sluice_pipeline_parse(spec, &pipeline, NULL));
        REQUIRE_OK(sluice_pipeline_parse(sluice_pipeline_spec(pipeline), &again, NULL));
        CU_ASSERT_EQUAL(sluice_pipeline_fingerprint(again), sluice_pipeline_fingerprint(pipeline));
        sluice_pipeline_destroy(pipeline);
        sluice_pipeline_destroy(again);
        num_ops++;
    }
    CU_ASSERT_EQUAL(num_ops, 56);
}

/* v / 255 and the rest with a rounding to float after every step. */
TEST(tail_table_is_float32_arithmetic)
{
    static const float mean[3] = {0.485f, 0.456f, 0.406f}, std[3] = {0.229f, 0.224f, 0.225f};
    struct sluice_pipeline *p = parse(TRAIN);
    const sluice_pipeline_table *table = sluice_pipeline_tail_table(p);
    for (int c = 0; c < 3; c++) {
        for (int v = 0; v < 256; v++) {
            volatile float x = (float)v;
            x = x / 255;
            x = x - mean[c];
            x = x / std[c];
            CU_ASSERT_EQUAL((*table)[c][v], x);
        }
    }
    sluice_pipeline_destroy(p);

    p = parse("decode,to_tensor");
    CU_ASSERT_EQUAL((*sluice_pipeline_tail_table(p))[2][255], 1);
    CU_ASSERT_EQUAL((*sluice_pipeline_tail_table(p))[0][51], 0.2f);
    sluice_pipeline_destroy(p);

    p = parse("decode,hflip");
    for (int c = 0; c < 3; c++) {
        for (int v = 0; v < 256; v++)
            CU_ASSERT_EQUAL((*sluice_pipeline_tail_table(p))[c][v], 0);
    }
    sluice_pipeline_destroy(p);
}

/* A matter of speed, which the results could not show. */
TEST(usual_tails_may_be_computed)
{
    static const char *const specs[] = {
        TRAIN,
        "decode,center_crop=8,to_tensor",
        "decode,center_crop=8,to_tensor,normalize=0.5:0.5:0.5/0.5:0.5:0.5",
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(specs); i++) {
        struct sluice_pipeline *p = parse(specs[i]);
        CU_ASSERT(p->tensor_lookup.is_computed);
        CU_ASSERT(p->tail_lookup.is_computed && !p->tail_lookup.is_far);
        CU_ASSERT(p->batch_lookup.is_computed && p->batch_lookup.is_far);
        sluice_pipeline_destroy(p);
    }
}

TEST(draws_without_random_ops_are_the_whole_image)
{
    struct sluice_pipeline *p = parse(VAL);
    const struct sluice_draw_key key = {.seed = 1};
    const struct sluice_draws draws = sluice_pipeline_draws(p, &key, 500, 333);
    CU_ASSERT(draws.top == 0 && draws.left == 0 && draws.width == 500 && draws.height == 333);
    CU_ASSERT_FALSE(draws.flip);
    sluice_pipeline_destroy(p);
}

TEST(draws_are_in_the_image_that_the_crop_sees)
{
    struct sluice_pipeline *p = parse("decode,center_crop=32,random_resized_crop=8");
    for (uint64_t id = 0; id < 100; id++) {
        const struct sluice_draw_key key = {.seed = 1, .sample_id = id};
        const struct sluice_draws draws = sluice_pipeline_draws(p, &key, 500, 10);
        CU_ASSERT(draws.top + draws.height <= 32 && draws.left + draws.width <= 32);
    }
    sluice_pipeline_destroy(p);
}

TEST(draws_depend_on_every_part_of_the_key)
{
    struct sluice_pipeline *p = parse(TRAIN);
    const struct sluice_draw_key keys[] = {{1, 0, 0, 0},
                                           {1 + (1ull << 32), 0, 0, 0},
                                           {1, 1, 0, 0},
                                           {1, 0, 1, 0},
                                           {1, 0, 1ull << 32, 0}};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(keys); i++) {
        for (size_t j = 0; j <= i; j++) {
            const struct sluice_draws a = sluice_pipeline_draws(p, &keys[i], 5000, 4000);
            const struct sluice_draws b = sluice_pipeline_draws(p, &keys[j], 5000, 4000);
            CU_ASSERT_EQUAL(a.top == b.top && a.left == b.left && a.width == b.width, i == j);
        }
    }
    sluice_pipeline_destroy(p);
}

TEST(forms_have_their_names)
{
    CU_ASSERT_STRING_EQUAL(sluice_form_name(SLUICE_FORM_RAW), "raw");
    CU_ASSERT_STRING_EQUAL(sluice_form_name(SLUICE_FORM_JPEG_CROP), "jpeg_crop");
    CU_ASSERT_STRING_EQUAL(sluice_form_name(SLUICE_FORM_JPEG_ROWS), "jpeg_rows");
    CU_ASSERT_STRING_EQUAL(sluice_form_name(SLUICE_FORM_U8), "u8");
    CU_ASSERT_STRING_EQUAL(sluice_form_name(SLUICE_FORM_U8_PACKED), "u8_packed");
    CU_ASSERT_STRING_EQUAL(sluice_form_name(SLUICE_FORM_F32), "f32");
}

TEST(clearing_a_sample_twice_is_fine)
{
    struct sluice_sample sample = {.ops_done = 1, .width = 3};
    CHECK_OK(sluice_buf_create(NULL, 10, &sample.data, NULL));
    sluice_sample_clear(&sample);
    CU_ASSERT_PTR_NULL(sample.data);
    CU_ASSERT_EQUAL(sample.width, 0);
    sluice_sample_clear(&sample);
}

TEST(has_room_for_32_ops)
{
    char spec[512] = "decode";
    for (int i = 1; i < SLUICE_PIPELINE_MAX_OPS; i++)
        strcat(spec, ",hflip");
    struct sluice_pipeline *pipeline = NULL;
    REQUIRE_OK(sluice_pipeline_parse(spec, &pipeline, NULL));
    CU_ASSERT_EQUAL(sluice_pipeline_num_ops(pipeline), 32);
    sluice_pipeline_destroy(pipeline);
    CHECK_FAILS(SLUICE_E_INVALID, "op 33 (hflip)",
                sluice_pipeline_parse(strcat(spec, ",hflip"), &pipeline, sluice_test_err()));
    CHECK_SAYS("a pipeline has at most 32 ops");
}

static double mean_ns_in(const char *spec, uint32_t schedule)
{
    struct sluice_pipeline *pipeline = NULL;
    REQUIRE_OK(sluice_pipeline_parse(spec, &pipeline, NULL));
    const double ns =
        sluice_pipeline_mean_ns(pipeline, 0, sluice_pipeline_num_ops(pipeline), schedule);
    sluice_pipeline_destroy(pipeline);
    return ns;
}

static double mean_ns(const char *spec)
{
    return mean_ns_in(spec, 0);
}

TEST(a_choice_costs_the_mean_of_its_ops)
{
    const double hue = mean_ns("decode,hue=0.1"), gray = mean_ns("decode,grayscale");
    CU_ASSERT(hue > gray && gray > 0);
    CU_ASSERT_EQUAL(mean_ns("decode,resize=256,center_crop=224,hflip,identity"), 0);
    CU_ASSERT_DOUBLE_EQUAL(mean_ns("decode,hue=0.1:p=0.25"), hue / 4, 1e-12);
    CU_ASSERT_DOUBLE_EQUAL(mean_ns("decode,hue=0.1,grayscale,hue=0.2"), 2 * hue + gray, 1e-12);
    CU_ASSERT_DOUBLE_EQUAL(mean_ns("decode,one_of(hue=0.1,grayscale:weight=3)"),
                           (hue + 3 * gray) / 4, 1e-12);
    CU_ASSERT_DOUBLE_EQUAL(mean_ns("decode,k_of(2,hue=0.1,grayscale,identity):p=0.5"),
                           (hue + gray) / 3, 1e-12);
    CU_ASSERT_DOUBLE_EQUAL(mean_ns("decode,shuffled(hue=0.1,sequence(grayscale,grayscale))"),
                           hue + 2 * gray, 1e-12);
    CU_ASSERT(mean_ns("decode,rotate=9:filter=bicubic") > mean_ns("decode,rotate=9"));
}

TEST(ops_of_some_epochs_cost_in_these_alone)
{
    const double hue = mean_ns("decode,hue=0.1"), gray = mean_ns("decode,grayscale");
    static const char spec[] = "decode,when(epoch>=71,hue=0.1,grayscale:p=0.5):p=0.5,grayscale";
    CU_ASSERT_DOUBLE_EQUAL(mean_ns_in(spec, 0), gray, 1e-12);
    CU_ASSERT_DOUBLE_EQUAL(mean_ns_in(spec, 70), gray, 1e-12);
    CU_ASSERT_DOUBLE_EQUAL(mean_ns_in(spec, 71), gray + hue / 2 + gray / 4, 1e-12);
    static const char within[] = "decode,one_of(when(2<=epoch<4,hue=0.1),grayscale)";
    CU_ASSERT_DOUBLE_EQUAL(mean_ns_in(within, 4), gray / 2, 1e-12);
    CU_ASSERT_DOUBLE_EQUAL(mean_ns_in(within, 3), (gray + hue) / 2, 1e-12);
}
