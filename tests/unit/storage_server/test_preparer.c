#include "storage_server/work/preparer.h"

#include "base/buf.h"
#include "base/rng.h"
#include "datasets/jpeg_index/indexed_file.h"
#include "image/codecs/codec.h"
#include "image/jpeg/index.h"
#include "op/form.h"
#include "storage_server/isolation/decoder_process.h"
#include "support/test.h"

#include <sys/prctl.h>

#define WIDTH 200
#define HEIGHT 120

enum { BASELINE, PROGRESSIVE, PNG, CUT_OFF, NO_IMAGE, NUM_FILES };

static struct sluice_decoders *decoders;
static struct sluice_preparer *here, *isolated;
static struct sluice_buf *files[NUM_FILES];

static struct sluice_preparer *create(struct sluice_decoders *its, uint64_t max_pixels,
                                      uint64_t live_bytes)
{
    const struct sluice_preparer_options options = {
        .max_image_pixels = max_pixels,
        .decoders = its,
        .limits = sluice_decoder_limits_for(max_pixels, 1 << 20, live_bytes),
        .timeout_ns = UINT64_C(600000000000),
    };
    struct sluice_preparer *preparer = NULL;
    (void)!sluice_preparer_create(&options, &preparer, NULL);
    return preparer;
}

/* A smooth picture with some noise: it packs, and its crop is smaller than the file. */
static bool make_files(void)
{
    static uint8_t pixels[HEIGHT * WIDTH * 3];
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    for (size_t i = 0; i < sizeof(pixels); i++)
        pixels[i] = (uint8_t)(i / 300 + (uint64_t)(sluice_rng_double(&rng) * 8));
    const struct sluice_jpeg_encode_options plain = {.quality = 90};
    const struct sluice_jpeg_encode_options progressive = {.is_progressive = true};
    if (sluice_jpeg_encode(pixels, WIDTH, HEIGHT, &plain, &files[BASELINE], NULL) ||
        sluice_jpeg_encode(pixels, WIDTH, HEIGHT, &progressive, &files[PROGRESSIVE], NULL) ||
        sluice_png_encode(pixels, WIDTH, HEIGHT, 6, &files[PNG], NULL) ||
        sluice_buf_create(NULL, files[BASELINE]->len, &files[CUT_OFF], NULL) ||
        sluice_buf_create(NULL, 0, &files[NO_IMAGE], NULL))
        return false;
    memcpy(files[CUT_OFF]->data, files[BASELINE]->data, files[BASELINE]->len);
    files[CUT_OFF]->len = 100;
    return true;
}

static struct sluice_jpeg_index *index_of(const struct sluice_buf *file)
{
    struct sluice_jpeg_index *index = calloc(1, sizeof(*index));
    CU_ASSERT_PTR_NOT_NULL_FATAL(index);
    CHECK_OK(sluice_jpeg_index_build(file->data, file->len, 0, 2, index, NULL));
    return index;
}

/* A file of which only the index's parts are there. */
static struct sluice_buf *with_holes(const struct sluice_buf *file,
                                     const struct sluice_jpeg_index *index,
                                     const struct sluice_box *box)
{
    struct sluice_file_part parts[SLUICE_JPEG_INDEX_MAX_PARTS];
    const unsigned num_parts = sluice_jpeg_index_parts(index, box, parts);
    struct sluice_buf *made;
    REQUIRE_OK(sluice_buf_create(NULL, file->len, &made, NULL));
    made->len = file->len;
    memset(made->data, 0xa5, made->len);
    for (unsigned i = 0; i < num_parts; i++)
        memcpy(made->data + parts[i].from, file->data + parts[i].from, parts[i].to - parts[i].from);
    return made;
}

/* Both ways, and compares what they come to. */
static sluice_status compare(const struct sluice_pipeline *pipeline,
                             struct sluice_decoder_work work, struct sluice_draw_key key,
                             struct sluice_buf *file, const struct sluice_jpeg_index *index)
{
    struct sluice_sample samples[2];
    struct sluice_err errs[2] = {{{0}}, {{0}}};
    sluice_status statuses[2];
    for (int way = 0; way < 2; way++) {
        samples[way] = (struct sluice_sample){
            .key = key, .kind = SLUICE_KIND_FILE, .data = sluice_buf_ref(file)};
        if (index) {
            samples[way].jpeg_index = index_of(files[BASELINE]);
            samples[way].jpeg_index->is_partial = index->is_partial;
        }
        work.path = "a file";
        work.reads_image = true;
        statuses[way] =
            sluice_preparer_run(way ? isolated : here, pipeline, &work, &samples[way], &errs[way]);
        CU_ASSERT_FALSE(work.has_ended);
    }
    CU_ASSERT_EQUAL(statuses[0], statuses[1]);
    CU_ASSERT_STRING_EQUAL(errs[0].text, errs[1].text);
    CU_ASSERT_EQUAL(sluice_indexed_file_has_holes(&samples[0]),
                    sluice_indexed_file_has_holes(&samples[1]));
    if (statuses[0] == SLUICE_OK) {
        CU_ASSERT_EQUAL(samples[0].image.width, WIDTH);
        CU_ASSERT_EQUAL(samples[0].image.height, HEIGHT);
        CU_ASSERT_EQUAL(samples[0].image.orientation, 1);
        CU_ASSERT_EQUAL(memcmp(&samples[0].image, &samples[1].image, sizeof(samples[0].image)), 0);
    }
    if (statuses[0] == SLUICE_OK || work.form == SLUICE_FORM_U8_PACKED) {
        CU_ASSERT_EQUAL(samples[0].ops_done, samples[1].ops_done);
        CU_ASSERT_EQUAL(samples[0].kind, samples[1].kind);
        CU_ASSERT_EQUAL(samples[0].width, samples[1].width);
        CU_ASSERT_EQUAL(samples[0].height, samples[1].height);
        CU_ASSERT_EQUAL(samples[0].channels, samples[1].channels);
        CU_ASSERT_EQUAL(sluice_sample_form(&samples[0]) == SLUICE_FORM_JPEG_CROP,
                        sluice_sample_form(&samples[1]) == SLUICE_FORM_JPEG_CROP);
        CU_ASSERT_EQUAL(sluice_sample_form(&samples[0]) == SLUICE_FORM_U8_PACKED,
                        sluice_sample_form(&samples[1]) == SLUICE_FORM_U8_PACKED);
        CU_ASSERT_EQUAL(samples[0].data->len, samples[1].data->len);
        CU_ASSERT_EQUAL(memcmp(samples[0].data->data, samples[1].data->data, samples[0].data->len),
                        0);
    }
    for (int way = 0; way < 2; way++)
        sluice_sample_clear(&samples[way]);
    return statuses[0];
}

static const char *const specs[] = {
    "decode,random_resized_crop=32,hflip,to_tensor,normalize=imagenet",
    "decode,resize=64,center_crop=48,to_tensor,normalize=imagenet",
    "decode,hflip=1,to_tensor",
    "decode,resize=40",
};

/* Every task, split and file, with and without an index, for a few draws. */
TEST(the_two_ways_are_equal)
{
    struct sluice_jpeg_index *whole = index_of(files[BASELINE]);
    unsigned num_ok = 0, num_failed = 0;
    for (size_t s = 0; s < SLUICE_ARRAY_LEN(specs); s++) {
        struct sluice_pipeline *pipeline;
        REQUIRE_OK(sluice_pipeline_parse(specs[s], &pipeline, NULL));
        const unsigned num_ops = sluice_pipeline_num_ops(pipeline);
        for (unsigned run = 0; run < NUM_FILES * (2 * num_ops + 1) * 3; run++) {
            struct sluice_buf *file = files[run % NUM_FILES];
            const unsigned what = run / NUM_FILES % (2 * num_ops + 1);
            struct sluice_decoder_work work = {
                .form = what == 2 * num_ops ? SLUICE_FORM_JPEG_CROP
                        : what % 2          ? SLUICE_FORM_U8_PACKED
                                            : SLUICE_FORM_RAW,
                .end = what / 2 + 1,
                .options = {.has_optimal_huffman = run % 2, .restart_interval = run % 3},
            };
            if (work.form == SLUICE_FORM_JPEG_CROP)
                work.end = 0;
            const struct sluice_draw_key key = {.seed = 5, .epoch = run, .sample_id = s};
            const bool has_index = file == files[BASELINE] && run / 7 % 2;
            const sluice_status status =
                compare(pipeline, work, key, file, has_index ? whole : NULL);
            num_ok += status == SLUICE_OK;
            num_failed += status != SLUICE_OK;
        }
        sluice_pipeline_destroy(pipeline);
    }
    CU_ASSERT(num_ok > 100 && num_failed > 100);
    sluice_jpeg_index_destroy(whole);
}

TEST(parts_of_a_file_will_do)
{
    struct sluice_pipeline *pipeline;
    REQUIRE_OK(sluice_pipeline_parse(specs[0], &pipeline, NULL));
    struct sluice_jpeg_index *index = index_of(files[BASELINE]);
    index->is_partial = true;
    unsigned num_ok = 0, num_holes = 0;
    for (uint32_t epoch = 0; epoch < 20; epoch++) {
        const struct sluice_draw_key key = {.epoch = epoch};
        struct sluice_box box;
        CU_ASSERT_TRUE_FATAL(sluice_pipeline_file_box(pipeline, &key, WIDTH, HEIGHT, 0,
                                                      SLUICE_FORM_JPEG_CROP, &box));
        struct sluice_buf *parts = with_holes(files[BASELINE], index, &box);
        const struct sluice_decoder_work cut = {.form = SLUICE_FORM_JPEG_CROP};
        const struct sluice_decoder_work run = {.form = SLUICE_FORM_RAW, .end = 3};
        num_ok += compare(pipeline, cut, key, parts, index) == SLUICE_OK;
        num_ok += compare(pipeline, run, key, parts, index) == SLUICE_OK;
        /* What the ops need is not there. */
        for (size_t i = index->scan_start + (index->scan_end - index->scan_start) / 3;
             i < index->scan_end; i++)
            parts->data[i] = 0xa5;
        const struct sluice_decoder_work whole = {.form = SLUICE_FORM_RAW, .end = 1};
        num_holes += compare(pipeline, whole, key, parts, index) == SLUICE_E_CORRUPT;
        sluice_buf_unref(parts);
    }
    CU_ASSERT(num_ok > 10 && num_holes == 20);
    sluice_jpeg_index_destroy(index);
    sluice_pipeline_destroy(pipeline);
}

TEST(pipelines_take_turns)
{
    for (int i = 0; i < 12; i++) {
        char spec[64];
        struct sluice_pipeline *pipeline;
        snprintf(spec, sizeof(spec), "decode,random_resized_crop=%d", 8 + i % 6);
        REQUIRE_OK(sluice_pipeline_parse(spec, &pipeline, NULL));
        const struct sluice_decoder_work work = {.form = SLUICE_FORM_RAW, .end = 2};
        const struct sluice_draw_key key = {.seed = (uint64_t)i};
        CHECK_OK(compare(pipeline, work, key, files[BASELINE], NULL));
        sluice_pipeline_destroy(pipeline);
    }
}

TEST(limits_are_those_of_this_process)
{
    struct sluice_preparer *old_here = here, *old_isolated = isolated;
    here = create(NULL, WIDTH * HEIGHT - 1, 0);
    isolated = create(decoders, WIDTH * HEIGHT - 1, 64 << 20);
    CU_ASSERT_FATAL(here && isolated);
    struct sluice_pipeline *pipeline;
    REQUIRE_OK(sluice_pipeline_parse("decode", &pipeline, NULL));
    const struct sluice_decoder_work work = {.form = SLUICE_FORM_RAW, .end = 1};
    const struct sluice_draw_key key = {.seed = 0};
    CU_ASSERT_EQUAL(compare(pipeline, work, key, files[PNG], NULL), SLUICE_E_UNSUPPORTED);
    sluice_pipeline_destroy(pipeline);
    sluice_preparer_destroy(here);
    sluice_preparer_destroy(isolated);
    here = old_here;
    isolated = old_isolated;
}

int main(void)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        sluice_decoder_process_open(sluice_decoder_process_serve, &decoders, NULL) != SLUICE_OK)
        return 1;
    here = create(NULL, 0, 0);
    isolated = create(decoders, 178956970, UINT64_C(4) << 30);
    if (!make_files() || !here || !isolated)
        return 1;
    const int code = sluice_test_main();
    sluice_preparer_destroy(here);
    sluice_preparer_destroy(isolated);
    sluice_decoders_close(decoders);
    for (int i = 0; i < NUM_FILES; i++)
        sluice_buf_unref(files[i]);
    return code;
}
