/* A crop of a JPEG gives inside its box the pixels of the whole file, and holds the
 * very coefficients of the file; by our own transcoder and through libjpeg-turbo.  What a pipeline
 * that begins with a crop makes of it is what it makes of the whole file. */

#include "image/jpeg/crop.h"

#include "base/buf.h"
#include "base/rng.h"
#include "image/codecs/codec.h"
#include "image/jpeg/index.h"
#include "op/form.h"
#include "op/pipeline.h"

#include "jpeg_support.h"
#include "support/test.h"

#include <dirent.h>

static struct sluice_codec *codec;
static struct sluice_rng rng;

enum way { FAST, OPTIMAL, LIBJPEG, LIBJPEG_OPTIMAL, NUM_WAYS };

/* An index makes no difference, and a file of ours has one. */
static void check_index(const struct sluice_buf *file, const struct sluice_box *box,
                        const struct sluice_jpeg_crop_options *options,
                        const struct sluice_buf *want)
{
    struct sluice_jpeg_index index;
    struct sluice_buf *crop;
    REQUIRE_OK(
        sluice_jpeg_index_build(file->data, file->len, 0, sluice_rng_below(&rng, 4), &index, NULL));
    struct sluice_jpeg_crop_options indexed = *options;
    indexed.index = &index;
    index.is_partial = true; /* so that nothing but the index will do */
    REQUIRE_OK(sluice_jpeg_crop(file->data, file->len, box, &indexed, NULL, &crop, NULL, NULL));
    CU_ASSERT(crop->len == want->len && memcmp(crop->data, want->data, want->len) == 0);
    sluice_buf_unref(crop);
    sluice_jpeg_index_clear(&index);
}

/* Half of them none: a segment for each row. */
static uint32_t random_interval(void)
{
    const uint32_t kind = sluice_rng_below(&rng, 4);
    return kind < 2 ? 0 : 1 + sluice_rng_below(&rng, kind == 2 ? 16 : 1000);
}

/* What our own transcoder covers must not need the other. */
static sluice_status crop_by(enum way way, bool is_progressive, const struct sluice_buf *file,
                             const struct sluice_box *box, struct sluice_buf **crop,
                             struct sluice_jpeg_crop_box *window)
{
    const struct sluice_jpeg_crop_options options = {
        .optimal_huffman = way == OPTIMAL || way == LIBJPEG_OPTIMAL,
        .restart_interval = random_interval(),
        .route = way >= LIBJPEG   ? SLUICE_JPEG_CROP_BY_LIBJPEG
                 : is_progressive ? SLUICE_JPEG_CROP_BY_ANY
                                  : SLUICE_JPEG_CROP_BY_OURS,
        .allow_larger = true,
    };
    struct sluice_err err = {{0}};
    const sluice_status status =
        sluice_jpeg_crop(file->data, file->len, box, &options, NULL, crop, window, &err);
    if (status != SLUICE_OK)
        printf("\nno crop: %s\n", err.text);
    else if (way < LIBJPEG && !is_progressive)
        check_index(file, box, &options, *crop);
    return status;
}

static uint32_t choose_from(uint32_t num)
{
    /* Edges more often than their share. */
    const uint32_t kind = sluice_rng_below(&rng, 4);
    return kind == 0 ? 0 : kind == 1 ? num - 1 : sluice_rng_below(&rng, num);
}

static struct sluice_box random_box(uint32_t width, uint32_t height)
{
    struct sluice_box box = {.width = 1 + choose_from(width), .height = 1 + choose_from(height)};
    box.left = choose_from(width - box.width + 1);
    box.top = choose_from(height - box.height + 1);
    return box;
}

static bool has_same_pixels(const struct sluice_rgb *all, const struct sluice_rgb *part,
                            const struct sluice_jpeg_crop_box *window, const struct sluice_box *box)
{
    for (uint32_t y = box->top; y < box->top + box->height; y++) {
        const uint8_t *a = all->pixels->data + ((size_t)y * all->width + box->left) * 3;
        const uint8_t *b =
            part->pixels->data +
            ((size_t)(y - window->top) * part->width + (box->left - window->left)) * 3;
        if (memcmp(a, b, (size_t)box->width * 3) != 0)
            return false;
    }
    return true;
}

static bool is_inside(const struct sluice_jpeg_crop_box *window, const struct sluice_box *box)
{
    return box->left >= window->left && box->top >= window->top &&
           box->left + box->width <= window->left + window->width &&
           box->top + box->height <= window->top + window->height;
}

static void check_pixels(const struct sluice_buf *file, const struct sluice_rgb *all,
                         const struct sluice_box *box, enum way way, bool is_progressive)
{
    struct sluice_buf *crop = NULL;
    struct sluice_jpeg_crop_box window, told;
    struct sluice_rgb part = {0};
    REQUIRE_OK(crop_by(way, is_progressive, file, box, &crop, &window));
    CHECK_OK(sluice_jpeg_crop_window(crop->data, crop->len, &told, NULL));
    CU_ASSERT(memcmp(&told, &window, sizeof(told)) == 0);
    CU_ASSERT(window.full_width == all->width && window.full_height == all->height);
    CU_ASSERT_FATAL(is_inside(&window, box));
    REQUIRE_OK(sluice_codec_decode(codec, crop->data, crop->len, 0, NULL, &part, NULL));
    CU_ASSERT(part.width == window.width && part.height == window.height);
    const bool is_same = has_same_pixels(all, &part, &window, box);
    CU_ASSERT(is_same);
    if (!is_same)
        printf("\nway %d: box %u x %u at %u, %u of %u x %u\n", way, box->width, box->height,
               box->left, box->top, all->width, all->height);
    sluice_buf_unref(part.pixels);
    sluice_buf_unref(crop);
}

TEST(crops_of_any_file_give_its_pixels)
{
    static const uint16_t sizes[][2] = {{1, 1},   {7, 5},    {17, 9},   {18, 40},  {65, 66},
                                        {97, 53}, {130, 35}, {33, 200}, {163, 98}, {176, 144}};
    for (size_t i = 0; i < jpeg_test_num_options; i++) {
        for (size_t s = 0; s < SLUICE_ARRAY_LEN(sizes); s++) {
            struct sluice_buf *file = jpeg_test_file(sizes[s][0], sizes[s][1], sluice_rng_u32(&rng),
                                                     &jpeg_test_options[i]);
            struct sluice_rgb all;
            REQUIRE_OK(sluice_codec_decode(codec, file->data, file->len, 0, NULL, &all, NULL));
            for (int n = 0; n < 6; n++) {
                const struct sluice_box box = random_box(all.width, all.height);
                check_pixels(file, &all, &box, (enum way)(n % NUM_WAYS),
                             jpeg_test_options[i].is_progressive);
            }
            sluice_buf_unref(all.pixels);
            sluice_buf_unref(file);
        }
    }
}

/* Blocks of the crop are those of the file, from the window's origin on.  Where nothing is made
 * of a block but its own pixels, and the box has none of them, it may be blank. */
static bool has_same_blocks(const struct jpeg_test_coefficients *all,
                            const struct jpeg_test_coefficients *part, unsigned c,
                            const struct sluice_jpeg_crop_box *window, const struct sluice_box *box)
{
    const bool is_single = all->num_components == 1;
    const uint32_t h = is_single ? 1 : all->h[c], v = is_single ? 1 : all->v[c];
    const uint32_t max_h = is_single ? 1 : all->max_h, max_v = is_single ? 1 : all->max_v;
    const size_t left = window->left / (8 * max_h) * h, top = window->top / (8 * max_v) * v;
    if (left + part->wide[c] > all->wide[c] || top + part->high[c] > all->high[c])
        return false;
    const bool is_full = all->h[c] == all->max_h && all->v[c] == all->max_v;
    for (size_t y = 0; y < part->high[c]; y++) {
        for (size_t x = 0; x < part->wide[c]; x++) {
            const int16_t *is = part->blocks[c][y * part->wide[c] + x];
            const size_t px = (left + x) * 8, py = (top + y) * 8;
            const bool is_in_box = px < box->left + box->width && px + 8 > box->left &&
                                   py < box->top + box->height && py + 8 > box->top;
            if (memcmp(is, all->blocks[c][(top + y) * all->wide[c] + left + x], 128) == 0)
                continue;
            static const int16_t zeros[64];
            if (!is_full || is_in_box || memcmp(is + 1, zeros, 126) != 0)
                return false;
        }
    }
    return true;
}

TEST(crops_hold_the_coefficients_of_the_file)
{
    for (size_t i = 0; i < jpeg_test_num_options; i++) {
        const struct sluice_jpeg_encode_options *options = &jpeg_test_options[i];
        const uint32_t width = 100 + sluice_rng_below(&rng, 60);
        const uint32_t height = 80 + sluice_rng_below(&rng, 60);
        struct sluice_buf *file = jpeg_test_file(width, height, sluice_rng_u32(&rng), options);
        struct jpeg_test_coefficients all;
        CU_ASSERT_FATAL(jpeg_test_read_coefficients(file->data, file->len, &all));
        for (int n = 0; n < 8; n++) {
            const struct sluice_box box = random_box(width, height);
            struct sluice_buf *crop = NULL;
            struct sluice_jpeg_crop_box window;
            REQUIRE_OK(crop_by((enum way)(n % NUM_WAYS), options->is_progressive, file, &box, &crop,
                               &window));
            struct jpeg_test_coefficients part;
            CU_ASSERT_FATAL(jpeg_test_read_coefficients(crop->data, crop->len, &part));
            CU_ASSERT_EQUAL(part.num_warnings, 0);
            CU_ASSERT_EQUAL_FATAL(part.num_components, all.num_components);
            for (unsigned c = 0; c < all.num_components; c++) {
                CU_ASSERT_EQUAL(part.h[c], all.h[c]);
                CU_ASSERT_EQUAL(part.v[c], all.v[c]);
                CU_ASSERT(memcmp(part.quant[c], all.quant[c], sizeof(all.quant[c])) == 0);
                CU_ASSERT(has_same_blocks(&all, &part, c, &window, &box));
            }
            jpeg_test_free_coefficients(&part);
            sluice_buf_unref(crop);
        }
        jpeg_test_free_coefficients(&all);
        sluice_buf_unref(file);
    }
}

/* --- by a pipeline that begins with a crop --- */

static const char *const crop_specs[] = {
    "decode,random_resized_crop=24,hflip",
    "decode,center_crop=40,hflip,to_tensor",
    "decode,center_crop=90",
    "decode,resize=50,center_crop=32,hflip,to_tensor,normalize=imagenet",
    "decode,resize=120,center_crop=32",
    "decode,resize=33,center_crop=33,to_tensor",
};

static size_t num_cut[SLUICE_ARRAY_LEN(crop_specs)];

/* What a pipeline makes of the cut file is what it makes, op by op, of the whole one. */
static void check_pipeline(size_t which, const struct sluice_pipeline *pipeline,
                           struct sluice_buf *file, uint64_t id)
{
    const size_t len = sluice_pipeline_u8_bytes(pipeline);
    uint8_t *want = malloc(len), *got = malloc(len);
    CU_ASSERT_FATAL(want && got);
    struct sluice_scratch *by_op = NULL, *fused = NULL;
    const struct sluice_scratch_options options = {.measure_ops = true};
    REQUIRE_OK(sluice_scratch_create(&options, &by_op, NULL));
    REQUIRE_OK(sluice_scratch_create(NULL, &fused, NULL));
    struct sluice_sample whole = {.key = {.seed = 1, .sample_id = id},
                                  .data = sluice_buf_ref(file)};
    REQUIRE_OK(sluice_pipeline_finish_u8(pipeline, by_op, &whole, want, len, NULL));
    whole =
        (struct sluice_sample){.key = {.seed = 1, .sample_id = id}, .data = sluice_buf_ref(file)};
    REQUIRE_OK(sluice_pipeline_finish_u8(pipeline, fused, &whole, got, len, NULL));
    CU_ASSERT(memcmp(got, want, len) == 0);
    struct sluice_scratch *const scratches[] = {by_op, fused};
    for (int k = 0; k < 2; k++) {
        struct sluice_sample cut = {.key = {.seed = 1, .sample_id = id},
                                    .data = sluice_buf_ref(file)};
        if (sluice_pipeline_crop_jpeg(pipeline, fused, &cut, k == 1, 0, NULL) == SLUICE_OK) {
            CU_ASSERT(sluice_sample_form(&cut) == SLUICE_FORM_JPEG_CROP &&
                      cut.data->len < file->len);
            CHECK_OK(sluice_pipeline_finish_u8(pipeline, scratches[k], &cut, got, len, NULL));
            CU_ASSERT(memcmp(got, want, len) == 0);
            num_cut[which]++;
        }
        sluice_sample_clear(&cut);
    }
    sluice_scratch_destroy(by_op);
    sluice_scratch_destroy(fused);
    free(want);
    free(got);
}

TEST(cut_files_go_through_any_pipeline_like_whole_ones)
{
    static const uint16_t sizes[][2] = {{16, 200}, {97, 53},   {160, 90},
                                        {33, 200}, {320, 240}, {251, 333}};
    for (size_t p = 0; p < SLUICE_ARRAY_LEN(crop_specs); p++) {
        struct sluice_pipeline *pipeline = NULL;
        REQUIRE_OK(sluice_pipeline_parse(crop_specs[p], &pipeline, NULL));
        CU_ASSERT(sluice_pipeline_can_crop_jpeg(pipeline));
        for (size_t i = 0; i < jpeg_test_num_options; i++) {
            for (size_t s = 0; s < SLUICE_ARRAY_LEN(sizes); s++) {
                struct sluice_buf *file = jpeg_test_file(
                    sizes[s][0], sizes[s][1], sluice_rng_u32(&rng), &jpeg_test_options[i]);
                for (uint64_t id = 0; id < 2; id++)
                    check_pipeline(p, pipeline, file, id);
                sluice_buf_unref(file);
            }
        }
        CU_ASSERT(num_cut[p] > jpeg_test_num_options);
        sluice_pipeline_destroy(pipeline);
    }
}

static void check_photograph(const char *path)
{
    size_t len;
    uint8_t *bytes = sluice_test_read_file(path, &len);
    struct sluice_buf *file;
    REQUIRE_OK(sluice_buf_create(NULL, len, &file, NULL));
    memcpy(file->data, bytes, len);
    file->len = len;
    free(bytes);
    struct sluice_rgb all;
    if (sluice_codec_decode(codec, file->data, file->len, 0, NULL, &all, NULL) == SLUICE_OK) {
        for (int n = 0; n < 2; n++) {
            const struct sluice_box box = random_box(all.width, all.height);
            check_pixels(file, &all, &box, n ? OPTIMAL : FAST, false);
        }
        sluice_buf_unref(all.pixels);
    }
    sluice_buf_unref(file);
}

/* Every so many files of a folder of folders. */
static void check_folder(const char *folder, unsigned step, unsigned *num_files)
{
    DIR *dir = opendir(folder);
    if (!dir)
        return;
    for (struct dirent *entry; (entry = readdir(dir));) {
        char path[1024];
        if (entry->d_name[0] == '.' ||
            snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name) >= (int)sizeof(path))
            continue;
        if (entry->d_type == DT_DIR)
            check_folder(path, step, num_files);
        else if (strlen(path) > 5 &&
                 (strcmp(path + strlen(path) - 4, ".jpg") == 0 ||
                  strcmp(path + strlen(path) - 5, ".JPEG") == 0 ||
                  strcmp(path + strlen(path) - 5, ".jpeg") == 0) &&
                 (*num_files)++ % step == 0)
            check_photograph(path);
    }
    closedir(dir);
}

TEST(crops_of_photographs_give_their_pixels)
{
    const char *data = sluice_test_data("imagenet-200");
    if (!data) {
        puts("no shared/data/imagenet-200: photographs are left out");
        return;
    }
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    const unsigned step = 8;
#else
    const unsigned step = 1;
#endif
    unsigned num_files = 0;
    check_folder(data, step, &num_files);
    CU_ASSERT(num_files >= 100);
}

int main(void)
{
    rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    if (sluice_codec_create(&codec, NULL) != SLUICE_OK)
        return 1;
    const int result = sluice_test_main();
    sluice_codec_destroy(codec);
    return result;
}
