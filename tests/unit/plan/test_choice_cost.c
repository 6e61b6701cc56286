#include "plan/choice_cost.h"

#include "base/buf.h"
#include "base/rng.h"
#include "datasets/jpeg_index/indexed_file.h"
#include "image/codecs/codec.h"
#include "image/codecs/coding.h"
#include "image/jpeg/index.h"
#include "support/choices.h"
#include "support/test.h"

#include <math.h>

enum { STORAGE = SLUICE_STORAGE_CPU, COMPUTE = SLUICE_COMPUTE_CPU };

/* A photograph of ImageNet's usual size, with a crop of its middle. */
static struct sluice_sample_facts photograph(void)
{
    return (struct sluice_sample_facts){
        .file_bytes = 110000,
        .width = 500,
        .height = 375,
        .coding = SLUICE_CODING_JPEG_420,
        .output_size = 224,
        .crop = {.top = 47, .left = 99, .height = 281, .width = 333},
    };
}

static struct sluice_sample_facts random_facts(struct sluice_rng *rng)
{
    struct sluice_sample_facts facts = {
        .file_bytes = sluice_rng_below(rng, 1u << sluice_rng_below(rng, 31)),
        .width = 1 + sluice_rng_below(rng, 4000),
        .height = 1 + sluice_rng_below(rng, 4000),
        .coding = (uint8_t)sluice_rng_below(rng, 256),
        .output_size = sluice_rng_below(rng, 300),
    };
    facts.crop.width = 1 + sluice_rng_below(rng, facts.width);
    facts.crop.height = 1 + sluice_rng_below(rng, facts.height);
    facts.crop.left = sluice_rng_below(rng, facts.width - facts.crop.width + 1);
    facts.crop.top = sluice_rng_below(rng, facts.height - facts.crop.height + 1);
    return facts;
}

TEST(features_are_of_the_mcus_that_the_crop_needs)
{
    struct sluice_sample_facts facts = photograph();
    double feature[SLUICE_NUM_CHOICE_FEATURES];
    sluice_choice_features(&facts, feature);
    CU_ASSERT_EQUAL(feature[SLUICE_CHOICE_PER_SAMPLE], 1);
    CU_ASSERT_EQUAL(feature[SLUICE_CHOICE_PER_FILE_BYTE], 110000);
    CU_ASSERT_EQUAL(feature[SLUICE_CHOICE_PER_PIXEL], 500 * 375);
    /* Rows 47 .. 328 and a pixel more: MCU rows 2 .. 20, down to 336.  Columns 98 .. 433: MCUs
     * 6 .. 27, from 96 to 448. */
    CU_ASSERT_DOUBLE_EQUAL(feature[SLUICE_CHOICE_PER_BYTE_TO_CROP], 110000 * 336 / 375., 1e-6);
    CU_ASSERT_DOUBLE_EQUAL(feature[SLUICE_CHOICE_PER_CROP_BYTE],
                           110000. * (336 - 32) * (448 - 96) / (500 * 375.), 1e-6);
    CU_ASSERT_EQUAL(feature[SLUICE_CHOICE_PER_CROP_PIXEL], 281 * 333);
    CU_ASSERT_EQUAL(feature[SLUICE_CHOICE_PER_CHROMA_SAMPLE], 281 * 333 / 2.);
    CU_ASSERT_EQUAL(feature[SLUICE_CHOICE_PER_CROP_ROW], 281 * 224);
    CU_ASSERT_EQUAL(feature[SLUICE_CHOICE_PER_OUTPUT_PIXEL], 224 * 224);
    CU_ASSERT_EQUAL(feature[SLUICE_CHOICE_PER_VIEW_PIXEL], 0);
    facts.view_pixels = 300000; /* of views that overlap */
    sluice_choice_features(&facts, feature);
    CU_ASSERT_EQUAL(feature[SLUICE_CHOICE_PER_VIEW_PIXEL], 300000 - 281 * 333);
    CU_ASSERT_EQUAL(feature[SLUICE_CHOICE_PER_CROP_PIXEL], 281 * 333);
    facts.view_pixels = 0;

    facts.coding = SLUICE_CODING_JPEG_444; /* no margin */
    sluice_choice_features(&facts, feature);
    CU_ASSERT_DOUBLE_EQUAL(feature[SLUICE_CHOICE_PER_BYTE_TO_CROP], 110000 * 328 / 375., 1e-6);
    CU_ASSERT_EQUAL(feature[SLUICE_CHOICE_PER_CHROMA_SAMPLE], 281 * 333 * 2);

    facts.crop.top = facts.crop.left = 0; /* the last MCUs are cut off by the image */
    facts.crop.height = 375;
    facts.crop.width = 500;
    sluice_choice_features(&facts, feature);
    CU_ASSERT_EQUAL(feature[SLUICE_CHOICE_PER_BYTE_TO_CROP], 110000);
    CU_ASSERT_EQUAL(feature[SLUICE_CHOICE_PER_CROP_BYTE], 110000);
}

TEST(files_go_by_the_decoder_that_takes_them)
{
    static const struct {
        uint8_t coding;
        enum sluice_file_class file_class;
    } cases[] = {
        {SLUICE_CODING_UNKNOWN, SLUICE_CLASS_WINDOW},
        {SLUICE_CODING_JPEG_440, SLUICE_CLASS_WINDOW},
        {SLUICE_CODING_JPEG_GRAY, SLUICE_CLASS_WINDOW},
        {SLUICE_CODING_JPEG_420 | SLUICE_CODING_PROGRESSIVE, SLUICE_CLASS_JPEG},
        {SLUICE_CODING_JPEG_OTHER, SLUICE_CLASS_JPEG},
        {SLUICE_CODING_PNG, SLUICE_CLASS_PNG},
        {SLUICE_CODING_WEBP, SLUICE_CLASS_PNG},
        {SLUICE_CODING_BMP, SLUICE_CLASS_PNG},
        {SLUICE_CODING_GIF, SLUICE_CLASS_PNG},
        {SLUICE_CODING_TIFF, SLUICE_CLASS_PNG},
        {SLUICE_CODING_PNM, SLUICE_CLASS_PNG},
        {SLUICE_CODING_PNG | SLUICE_CODING_PROGRESSIVE, SLUICE_CLASS_PNG},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        const struct sluice_sample_facts facts = {.coding = cases[i].coding};
        CU_ASSERT_EQUAL(sluice_file_class_of(&facts), cases[i].file_class);
    }
}

/* Whoever makes the views pays for what each of them reads. */
TEST(views_cost_what_each_of_them_reads)
{
    struct sluice_pipeline *pipeline = NULL;
    REQUIRE_OK(sluice_pipeline_parse(
        "decode,views(2x[random_resized_crop=200],[center_crop=9]),to_tensor", &pipeline, NULL));
    const struct sluice_choices choices = sluice_choices_of(pipeline);
    const struct sluice_choice_model model = sluice_choice_model_default(&choices);
    struct sluice_sample_facts facts = photograph();
    const struct sluice_draw_key key = {.seed = 1};
    facts.output_size = sluice_sample_facts_make(pipeline, 1, 500, 375, 0, &key).output_size;
    struct sluice_sample_facts more = facts;
    facts.view_pixels = 281 * 333;
    more.view_pixels = facts.view_pixels + 1000000;
    double few[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES],
        many[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES];
    sluice_choice_model_costs(&model, &facts, few);
    sluice_choice_model_costs(&model, &more, many);
    for (unsigned c = 0; c < choices.num; c++) {
        const bool is_done = choices.at[c].split >= 2;
        const enum sluice_resource maker = is_done ? SLUICE_STORAGE_CPU : SLUICE_COMPUTE_CPU,
                                   other = is_done ? SLUICE_COMPUTE_CPU : SLUICE_STORAGE_CPU;
        CU_ASSERT_DOUBLE_EQUAL(many[c][maker] - few[c][maker], 1e6 * SLUICE_RESIZE_S_PER_PIXEL,
                               1e-9);
        CU_ASSERT_DOUBLE_EQUAL(many[c][other], few[c][other], 1e-12);
        CU_ASSERT_EQUAL(many[c][SLUICE_NETWORK], few[c][SLUICE_NETWORK]);
    }
    sluice_pipeline_destroy(pipeline);
}

TEST(bytes_of_plain_forms_are_what_the_pipeline_makes)
{
    struct sluice_pipeline *pipeline = NULL;
    struct sluice_scratch *scratch = NULL;
    struct sluice_buf *file = NULL;
    struct sluice_err err = {0};
    uint8_t rgb[60 * 40 * 3];
    for (size_t i = 0; i < sizeof(rgb); i++)
        rgb[i] = (uint8_t)(i / 7);
    REQUIRE_OK(sluice_pipeline_parse(
        "decode,random_resized_crop=32,hflip,to_tensor,normalize=imagenet", &pipeline, &err));
    REQUIRE_OK(sluice_scratch_create(NULL, &scratch, &err));
    const struct sluice_jpeg_encode_options options = {0};
    REQUIRE_OK(sluice_jpeg_encode(rgb, 60, 40, &options, &file, &err));

    const struct sluice_draw_key key = {.seed = 3};
    const struct sluice_sample_facts facts =
        sluice_sample_facts_make(pipeline, file->len, 60, 40, SLUICE_CODING_JPEG_420, &key);
    const struct sluice_choice_model model = sluice_test_model();
    double cost[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES], other[SLUICE_NUM_RESOURCES];
    sluice_choice_model_costs(&model, &facts, cost);
    for (unsigned split = 0; split < SLUICE_TEST_SPLITS; split++) {
        struct sluice_sample sample = {.key = key, .data = sluice_buf_ref(file)};
        REQUIRE_OK(sluice_pipeline_run(pipeline, scratch, &sample, split, &err));
        other[0] = cost[split][SLUICE_NETWORK] - (double)sample.data->len;
        CU_ASSERT(other[0] >= 0 && other[0] < 100); /* a reply's other fields */
        sluice_sample_clear(&sample);
    }
    sluice_buf_unref(file);
    sluice_scratch_destroy(scratch);
    sluice_pipeline_destroy(pipeline);
}

/* Every pixel as detailed as the next, so that rows have the same bytes. */
static struct sluice_buf *make_noise(uint32_t width, uint32_t height)
{
    struct sluice_rng rng = sluice_rng_init(7, 0, 0, 0);
    uint8_t *rgb = malloc((size_t)width * height * 3);
    CU_ASSERT_PTR_NOT_NULL_FATAL(rgb);
    for (size_t i = 0; i < (size_t)width * height * 3; i++)
        rgb[i] = (uint8_t)sluice_rng_below(&rng, 128);
    struct sluice_buf *file = NULL;
    const struct sluice_jpeg_encode_options options = {.quality = 90};
    REQUIRE_OK(sluice_jpeg_encode(rgb, width, height, &options, &file, NULL));
    free(rgb);
    return file;
}

TEST(what_is_read_is_what_the_index_leaves_to_be_read)
{
    enum { WIDTH = 500, HEIGHT = 375, CROPS = 200 };
    struct sluice_pipeline *pipeline = NULL;
    struct sluice_jpeg_index index;
    struct sluice_buf *file = make_noise(WIDTH, HEIGHT);
    struct sluice_choice_model model = sluice_test_model();
    model.has_jpeg_index = true;
    REQUIRE_OK(sluice_pipeline_parse(
        "decode,random_resized_crop=224,hflip,to_tensor,normalize=imagenet", &pipeline, NULL));
    REQUIRE_OK(sluice_jpeg_index_build(file->data, file->len, 0, 8, &index, NULL));
    double foretold[SLUICE_MAX_CHOICES] = {0}, read[SLUICE_MAX_CHOICES] = {0};
    for (uint64_t id = 0; id < CROPS; id++) {
        const struct sluice_draw_key key = {.seed = 3, .sample_id = id};
        const struct sluice_sample_facts facts = sluice_sample_facts_make(
            pipeline, file->len, WIDTH, HEIGHT, SLUICE_CODING_JPEG_420, &key);
        for (unsigned c = 0; c < SLUICE_TEST_CHOICES; c++) {
            const struct sluice_choice choice = model.choices.at[c];
            uint64_t bytes = file->len;
            struct sluice_box box;
            if (sluice_pipeline_file_box(pipeline, &key, WIDTH, HEIGHT, choice.split,
                                         (enum sluice_form)choice.form, &box)) {
                struct sluice_file_part parts[SLUICE_JPEG_INDEX_MAX_PARTS];
                const unsigned num_parts = sluice_jpeg_index_parts(&index, &box, parts);
                bytes = 0;
                for (unsigned i = 0; i < num_parts; i++)
                    bytes += parts[i].to - parts[i].from;
                if (bytes * 100 >= file->len * SLUICE_INDEXED_MAX_PARTIAL_PERCENT)
                    bytes = file->len;
            }
            read[c] += (double)bytes;
            foretold[c] += sluice_choice_read_bytes(&model, &facts, c);
        }
    }
    for (unsigned c = 0; c < SLUICE_TEST_CHOICES; c++)
        CU_ASSERT_DOUBLE_EQUAL(foretold[c], read[c], 0.03 * read[c]);
    CU_ASSERT_EQUAL(read[0], CROPS * (double)file->len);
    CU_ASSERT_EQUAL(read[1], read[0]);
    CU_ASSERT(read[SLUICE_TEST_JPEG_CROP] < 0.9 * read[0] && read[3] < 0.9 * read[0]);
    sluice_jpeg_index_clear(&index);
    sluice_buf_unref(file);
    sluice_pipeline_destroy(pipeline);
}

TEST(the_disk_counts_what_is_read)
{
    struct sluice_choice_model model = sluice_test_model();
    model.disk_s_per_sample = 1;
    model.disk_s_per_byte = 1e-3;
    struct sluice_sample_facts facts = photograph();
    double cost[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES];
    for (int has_index = 0; has_index < 2; has_index++) {
        model.has_jpeg_index = has_index;
        sluice_choice_model_costs(&model, &facts, cost);
        for (unsigned c = 0; c < SLUICE_TEST_CHOICES; c++) {
            /* 19 of 24 MCU rows are under the crop. */
            const bool is_part = has_index && c > 1;
            CU_ASSERT_DOUBLE_EQUAL(cost[c][SLUICE_DISK], is_part ? 91 : 111, is_part ? 1 : 0);
        }
    }
    /* What no index covers, and what needs most of a file, is read whole. */
    static const uint8_t codings[] = {SLUICE_CODING_PNG, SLUICE_CODING_JPEG_OTHER,
                                      SLUICE_CODING_JPEG_420 | SLUICE_CODING_PROGRESSIVE};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(codings); i++) {
        facts.coding = codings[i];
        CU_ASSERT_EQUAL(sluice_choice_read_bytes(&model, &facts, SLUICE_TEST_JPEG_CROP), 110000);
    }
    facts.coding = SLUICE_CODING_JPEG_420;
    facts.crop.top = 10;
    facts.crop.height = 340;
    CU_ASSERT_EQUAL(sluice_choice_read_bytes(&model, &facts, SLUICE_TEST_JPEG_CROP), 110000);
}

TEST(costs_are_finite_and_not_negative)
{
    const struct sluice_choice_model model = sluice_test_model();
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    for (int i = 0; i < 5000; i++) {
        const struct sluice_sample_facts facts = random_facts(&rng);
        double cost[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES];
        sluice_choice_model_costs(&model, &facts, cost);
        for (int c = 0; c < SLUICE_TEST_CHOICES; c++) {
            for (int r = 0; r < SLUICE_NUM_RESOURCES; r++)
                CU_ASSERT(cost[c][r] >= 0 && cost[c][r] < 1e30);
            CU_ASSERT(cost[c][STORAGE] > 0 && cost[c][COMPUTE] > 0);
        }
        /* A file that is cut, and pixels that are packed, do not grow. */
        CU_ASSERT(cost[SLUICE_TEST_JPEG_CROP][SLUICE_NETWORK] <= cost[0][SLUICE_NETWORK]);
        CU_ASSERT(cost[SLUICE_TEST_U8_PACKED][SLUICE_NETWORK] <= cost[3][SLUICE_NETWORK]);
    }
}

TEST(more_never_costs_less)
{
    const struct sluice_choice_model model = sluice_test_model();
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 1);
    for (int i = 0; i < 2000; i++) {
        struct sluice_sample_facts facts = random_facts(&rng);
        double less[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES],
            more[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES];
        sluice_choice_model_costs(&model, &facts, less);
        facts.file_bytes += 1000;
        sluice_choice_model_costs(&model, &facts, more);
        for (int c = 0; c < SLUICE_TEST_CHOICES; c++) {
            for (int r = 0; r < SLUICE_NUM_RESOURCES; r++)
                CU_ASSERT(more[c][r] >= less[c][r]);
        }
    }
}

TEST(a_png_is_never_cut)
{
    const struct sluice_choice_model model = sluice_test_model();
    struct sluice_sample_facts facts = photograph();
    facts.coding = SLUICE_CODING_PNG;
    double cost[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES];
    sluice_choice_model_costs(&model, &facts, cost);
    for (int r = 0; r < SLUICE_NUM_RESOURCES; r++)
        CU_ASSERT_EQUAL(cost[SLUICE_TEST_JPEG_CROP][r], cost[0][r]);
}

static void expect_same(const double a[SLUICE_NUM_RESOURCES], const double b[SLUICE_NUM_RESOURCES])
{
    for (int r = 0; r < SLUICE_NUM_RESOURCES; r++)
        CU_ASSERT_EQUAL(a[r], b[r]);
}

/* The bytes of rows and their points as they are packed; the file where no rows come. */
TEST(rows_cost_what_is_sent_of_the_file)
{
    enum { WIDTH = 500, HEIGHT = 375, CROPS = 200 };
    struct sluice_pipeline *pipeline = NULL;
    struct sluice_buf *file = make_noise(WIDTH, HEIGHT);
    struct sluice_choice_model model = sluice_choice_model_default(sluice_test_gpu_choices());
    REQUIRE_OK(sluice_pipeline_parse(SLUICE_TEST_PIPELINE, &pipeline, NULL));
    double foretold = 0, packed = 0;
    for (uint64_t id = 0; id < CROPS; id++) {
        const struct sluice_draw_key key = {.seed = 3, .sample_id = id};
        struct sluice_sample_facts facts = sluice_sample_facts_make(
            pipeline, file->len, WIDTH, HEIGHT, SLUICE_CODING_JPEG_420, &key);
        struct sluice_sample sample = {.key = key};
        REQUIRE_OK(sluice_buf_create(NULL, file->len, &sample.data, NULL));
        memcpy(sample.data->data, file->data, file->len);
        sample.data->len = file->len;
        sample.jpeg_index = calloc(1, sizeof(*sample.jpeg_index));
        REQUIRE_OK(sluice_jpeg_index_build(file->data, file->len, 0, SLUICE_JPEG_INDEX_AUTO_STEP,
                                           sample.jpeg_index, NULL));
        CHECK_OK(sluice_pipeline_take_rows(pipeline, NULL, &sample, NULL));
        double cost[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES];
        const double *rows = cost[SLUICE_TEST_JPEG_ROWS], *on_gpu = cost[SLUICE_TEST_ROWS_ON_GPU];
        model.has_jpeg_index = true;
        sluice_choice_model_costs(&model, &facts, cost);
        foretold += rows[SLUICE_NETWORK] - SLUICE_REPLY_BYTES;
        packed += (double)sample.data->len;
        sluice_sample_clear(&sample);
        /* Next to nothing of the storage node's CPU, and on the GPU of this one. */
        CU_ASSERT(rows[STORAGE] < 0.5 * cost[SLUICE_TEST_JPEG_CROP][STORAGE]);
        CU_ASSERT(rows[COMPUTE] < cost[0][COMPUTE] && on_gpu[COMPUTE] < 0.2 * rows[COMPUTE]);
        CU_ASSERT(on_gpu[SLUICE_NETWORK] == rows[SLUICE_NETWORK] &&
                  on_gpu[SLUICE_DISK] == rows[SLUICE_DISK] && on_gpu[SLUICE_GPU] > 0);
        CU_ASSERT_EQUAL(on_gpu[SLUICE_PCIE], cost[SLUICE_TEST_RAW_ON_GPU][SLUICE_PCIE]);

        for (int is_progressive = 0; is_progressive < 2; is_progressive++) {
            model.has_jpeg_index = is_progressive;
            facts.coding =
                SLUICE_CODING_JPEG_420 | (is_progressive ? SLUICE_CODING_PROGRESSIVE : 0);
            sluice_choice_model_costs(&model, &facts, cost);
            expect_same(rows, cost[0]);
            expect_same(on_gpu, cost[SLUICE_TEST_RAW_ON_GPU]);
        }
    }
    CU_ASSERT_DOUBLE_EQUAL(foretold, packed, 0.05 * packed);
    sluice_buf_unref(file);
    sluice_pipeline_destroy(pipeline);
}

/* What the GPU does not decode, CPUs do. */
TEST(the_gpu_decodes_what_it_covers)
{
    const struct sluice_choice_model model = sluice_choice_model_default(sluice_test_gpu_choices());
    static const uint8_t codings[] = {SLUICE_CODING_JPEG_420, SLUICE_CODING_UNKNOWN,
                                      SLUICE_CODING_JPEG_420 | SLUICE_CODING_PROGRESSIVE,
                                      SLUICE_CODING_JPEG_OTHER, SLUICE_CODING_PNG};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(codings); i++) {
        struct sluice_sample_facts facts = photograph();
        facts.coding = codings[i];
        double cost[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES];
        sluice_choice_model_costs(&model, &facts, cost);
        const double *cut = cost[SLUICE_TEST_JPEG_CROP], *cut_gpu = cost[SLUICE_TEST_CUT_ON_GPU];
        const double *raw = cost[0], *raw_gpu = cost[SLUICE_TEST_RAW_ON_GPU];
        if (i >= 2)
            expect_same(raw_gpu, raw);
        if (i == 2) /* its cut is sequential */
            CU_ASSERT(cut_gpu[SLUICE_GPU] > 5e-6 && cut_gpu[COMPUTE] == 0);
        if (i > 2)
            expect_same(cut_gpu, cut);
        if (i >= 2)
            continue;
        /* Markers: as on one Xeon core. */
        CU_ASSERT_DOUBLE_EQUAL(cut_gpu[STORAGE], 1.16 * cut[STORAGE], 1e-9);
        CU_ASSERT_DOUBLE_EQUAL(cut_gpu[SLUICE_NETWORK] - SLUICE_REPLY_BYTES,
                               1.0084 * (cut[SLUICE_NETWORK] - SLUICE_REPLY_BYTES), 1e-6);
        CU_ASSERT_EQUAL(cut_gpu[COMPUTE], 0);
        /* A whole file is cut here. */
        CU_ASSERT_EQUAL(raw_gpu[STORAGE], raw[STORAGE]);
        CU_ASSERT_EQUAL(raw_gpu[SLUICE_NETWORK], raw[SLUICE_NETWORK]);
        CU_ASSERT_EQUAL(raw_gpu[COMPUTE], cut_gpu[STORAGE]);
        /* The cut file goes to the device instead of pixels, and takes some microseconds there. */
        CU_ASSERT_EQUAL(cut[SLUICE_PCIE], 150528);
        CU_ASSERT_DOUBLE_EQUAL(cut_gpu[SLUICE_PCIE], cut_gpu[SLUICE_NETWORK] - SLUICE_REPLY_BYTES,
                               1e-6);
        CU_ASSERT_EQUAL(raw_gpu[SLUICE_PCIE], cut_gpu[SLUICE_PCIE]);
        CU_ASSERT(cut_gpu[SLUICE_GPU] > 5e-6 && cut_gpu[SLUICE_GPU] < 12e-6);
        CU_ASSERT_EQUAL(raw_gpu[SLUICE_GPU], cut_gpu[SLUICE_GPU]);
        CU_ASSERT(raw[SLUICE_GPU] == 0 && cut[SLUICE_GPU] == 0);
    }
}

/* Where a server cannot put markers into what it cuts, whole files are left. */
TEST(whole_files_alone_can_be_the_gpus)
{
    const struct sluice_choice_model both = sluice_choice_model_default(sluice_test_gpu_choices());
    struct sluice_choices choices = *sluice_test_gpu_choices();
    choices.at[SLUICE_TEST_CUT_ON_GPU] = choices.at[SLUICE_TEST_RAW_ON_GPU];
    choices.traits[SLUICE_TEST_CUT_ON_GPU] = choices.traits[SLUICE_TEST_RAW_ON_GPU];
    choices.num--;
    const struct sluice_choice_model model = sluice_choice_model_default(&choices);
    const struct sluice_sample_facts facts = photograph();
    double cost[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES],
        expected[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES];
    sluice_choice_model_costs(&both, &facts, expected);
    sluice_choice_model_costs(&model, &facts, cost);
    expect_same(cost[SLUICE_TEST_CUT_ON_GPU], expected[SLUICE_TEST_RAW_ON_GPU]);
}

/* The other choices have the costs that they have without it. */
TEST(a_gpu_changes_no_other_choice)
{
    const struct sluice_choice_model with = sluice_choice_model_default(sluice_test_gpu_choices());
    const struct sluice_choice_model without = sluice_test_model();
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 2);
    for (int i = 0; i < 500; i++) {
        const struct sluice_sample_facts facts = random_facts(&rng);
        double cost[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES],
            expected[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES];
        sluice_choice_model_costs(&with, &facts, cost);
        sluice_choice_model_costs(&without, &facts, expected);
        for (int c = 0; c < SLUICE_TEST_CHOICES; c++)
            expect_same(cost[c], expected[c]);
        for (int c = SLUICE_TEST_CHOICES; c < SLUICE_MAX_CHOICES; c++) {
            for (int r = 0; r < SLUICE_NUM_RESOURCES; r++)
                CU_ASSERT(cost[c][r] >= 0 && cost[c][r] < 1e30);
        }
    }
}

TEST(the_default_knows_what_moves_where)
{
    const struct sluice_choice_model model = sluice_test_model();
    const struct sluice_sample_facts facts = photograph();
    double cost[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES];
    sluice_choice_model_costs(&model, &facts, cost);
    const double *file = cost[0], *cut = cost[SLUICE_TEST_JPEG_CROP];
    const double *pixels = cost[3], *packed = cost[SLUICE_TEST_U8_PACKED];
    CU_ASSERT(cut[STORAGE] < pixels[STORAGE] && cut[COMPUTE] < file[COMPUTE]);
    CU_ASSERT(packed[STORAGE] > pixels[STORAGE] && packed[COMPUTE] > pixels[COMPUTE]);
    CU_ASSERT_DOUBLE_EQUAL(file[COMPUTE], pixels[STORAGE], 0.1 * file[COMPUTE]);
    /* Some hundred microseconds on the machines of these years. */
    CU_ASSERT(file[COMPUTE] > 200e-6 && file[COMPUTE] < 2e-3);
}

/* The costs of a choice by its name. */
static const double *cost_of(const struct sluice_choices *choices, const char *name,
                             double cost[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES])
{
    const int at = sluice_choices_find_name(choices, name);
    CU_ASSERT_FATAL(at >= 0);
    return cost[at];
}

/* The model of an epoch costs what the model of a pipeline costs that has the ops of this epoch. */
TEST(scheduled_ops_cost_in_their_epochs)
{
    static const struct {
        uint32_t schedule;
        const char *same;
    } cases[] = {{0, "decode,random_resized_crop=224,hue=0.1,identity"},
                 {71, "decode,random_resized_crop=224,identity,pil_blur=1"}};
    static const char spec[] =
        "decode,random_resized_crop=224,when(epoch<71,hue=0.1),when(epoch>=71,pil_blur=1)";
    struct sluice_pipeline *pipeline = NULL;
    REQUIRE_OK(sluice_pipeline_parse(spec, &pipeline, NULL));
    struct sluice_choices choices = sluice_choices_of(pipeline);
    sluice_choices_add_gpu(&choices, pipeline, true);
    const struct sluice_sample_facts facts = photograph();
    struct sluice_choice_model model = sluice_choice_model_default(&choices);
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        double want[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES],
            got[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES];
        struct sluice_pipeline *plain = NULL;
        REQUIRE_OK(sluice_pipeline_parse(cases[i].same, &plain, NULL));
        struct sluice_choices of_plain = sluice_choices_of(plain);
        sluice_choices_add_gpu(&of_plain, plain, true);
        const struct sluice_choice_model usual = sluice_choice_model_default(&of_plain);
        sluice_choice_model_costs(&usual, &facts, want);
        sluice_choice_model_set_schedule(&model, pipeline, cases[i].schedule);
        sluice_choice_model_costs(&model, &facts, got);
        CU_ASSERT_EQUAL(choices.num, of_plain.num);
        for (unsigned c = 0; c < choices.num; c++) {
            for (int r = 0; r < SLUICE_NUM_RESOURCES; r++)
                CU_ASSERT_DOUBLE_EQUAL(got[c][r], want[c][r], 1e-12);
        }
        sluice_pipeline_destroy(plain);
    }
    sluice_pipeline_destroy(pipeline);
}

/* Whoever runs an op pays for it; the GPU runs the ops of what it decodes. */
TEST(ops_cost_where_they_run)
{
    static const char *const texts[] = {"decode,random_resized_crop=224,identity,identity",
                                        "decode,random_resized_crop=224,hue=0.1:p=0.5,pil_blur=1"};
    double costs[2][SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES];
    struct sluice_choices choices;
    double hue_s = 0, blur_s = 0;
    for (int i = 0; i < 2; i++) {
        struct sluice_pipeline *pipeline = NULL;
        REQUIRE_OK(sluice_pipeline_parse(texts[i], &pipeline, NULL));
        choices = sluice_choices_of(pipeline);
        sluice_choices_add_gpu(&choices, pipeline, true);
        const struct sluice_choice_model model = sluice_choice_model_default(&choices);
        const struct sluice_sample_facts facts = photograph();
        sluice_choice_model_costs(&model, &facts, costs[i]);
        hue_s = 224 * 224e-9 * sluice_pipeline_mean_ns(pipeline, 2, 3, 0);
        blur_s = 224 * 224e-9 * sluice_pipeline_mean_ns(pipeline, 3, 4, 0);
        sluice_pipeline_destroy(pipeline);
    }
    CU_ASSERT(hue_s > 0 && blur_s > 0);
    static const struct {
        const char *name;
        int storage, compute; /* 1: hue, 2: blur */
    } rows[] = {{"raw@0", 0, 3}, {"u8@2", 0, 3},        {"u8@3", 1, 2},
                {"u8@4", 3, 0},  {"jpeg_crop@0", 0, 3}, {"raw@0+gpu", 0, 0}};
    for (size_t r = 0; r < SLUICE_ARRAY_LEN(rows); r++) {
        const double *plain = cost_of(&choices, rows[r].name, costs[0]);
        const double *with_ops = cost_of(&choices, rows[r].name, costs[1]);
        const int storage = rows[r].storage, compute = rows[r].compute;
        CU_ASSERT_DOUBLE_EQUAL(with_ops[STORAGE] - plain[STORAGE],
                               (storage & 1) * hue_s + (storage / 2) * blur_s, 1e-9);
        CU_ASSERT_DOUBLE_EQUAL(with_ops[COMPUTE] - plain[COMPUTE],
                               (compute & 1) * hue_s + (compute / 2) * blur_s, 1e-9);
    }
    CU_ASSERT(cost_of(&choices, "raw@0+gpu", costs[1])[SLUICE_GPU] >
              cost_of(&choices, "raw@0+gpu", costs[0])[SLUICE_GPU]);
}
