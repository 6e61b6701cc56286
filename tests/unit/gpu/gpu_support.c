#include "gpu_support.h"

#include "base/buf.h"
#include "image/codecs/codec.h"
#include "image/image_internal.h"
#include "image/jpeg/window.h"
#include "image/resize.h"
#include "jpeg_support.h"
#include "support/random_jpeg.h"
#include "support/test.h"

static const struct sluice_jpeg_encode_options kinds[] = {
    {.h_samp = 1, .v_samp = 1}, {.h_samp = 2, .v_samp = 1}, {.h_samp = 1, .v_samp = 2},
    {.h_samp = 2, .v_samp = 2}, {.h_samp = 4, .v_samp = 1}, {.h_samp = 1, .v_samp = 4},
    {.is_gray = true},
};

static uint32_t random_side(struct sluice_rng *rng)
{
    switch (sluice_rng_below(rng, 8)) {
    case 0:
        return 1 + sluice_rng_below(rng, 5);
    case 1:
        return 8 * (1 + sluice_rng_below(rng, 8)) + sluice_rng_below(rng, 2);
    default:
        return 1 + sluice_rng_below(rng, 160);
    }
}

struct sluice_buf *gpu_test_file(struct sluice_rng *rng, uint32_t *width, uint32_t *height)
{
    struct sluice_jpeg_encode_options options =
        kinds[sluice_rng_below(rng, SLUICE_ARRAY_LEN(kinds))];
    options.quality = (int)(1 + sluice_rng_below(rng, 100));
    options.optimize = sluice_rng_below(rng, 2);
    *width = random_side(rng);
    *height = random_side(rng);
    struct sluice_buf *file = jpeg_test_file(*width, *height, sluice_rng_u32(rng), &options);
    const unsigned interval = sluice_rng_below(rng, 2) * sluice_rng_below(rng, 17);
    if (interval == 0)
        return file;
    struct sluice_buf *copy = jpeg_test_with_restarts(file, interval);
    sluice_buf_unref(file);
    return copy;
}

/* From 0 .. size - len, often one of the two. */
static uint32_t random_place(struct sluice_rng *rng, uint32_t size, uint32_t len)
{
    switch (sluice_rng_below(rng, 4)) {
    case 0:
        return 0;
    case 1:
        return size - len;
    default:
        return sluice_rng_below(rng, size - len + 1);
    }
}

static uint32_t random_len(struct sluice_rng *rng, uint32_t size)
{
    return sluice_rng_below(rng, 4) == 0 ? size : 1 + sluice_rng_below(rng, size);
}

static struct sluice_gpu_request random_request(struct sluice_rng *rng,
                                                const struct sluice_gpu_view_size *size,
                                                uint32_t width, uint32_t height, uint32_t row)
{
    struct sluice_box box = {.width = random_len(rng, width), .height = random_len(rng, height)};
    box.left = random_place(rng, width, box.width);
    box.top = random_place(rng, height, box.height);
    struct sluice_gpu_request request = {.row = row, .is_flipped = sluice_rng_below(rng, 2)};
    struct sluice_resize_part *part = &request.part;
    *part = (struct sluice_resize_part){
        .in_width = box.width,
        .in_height = box.height,
        .out_width = size->width,
        .out_height = size->height,
        .out = {.width = size->width, .height = size->height},
        .filter = sluice_rng_below(rng, 2) ? SLUICE_RESIZE_BICUBIC : SLUICE_RESIZE_BILINEAR,
    };
    if (sluice_rng_below(rng, 3) == 0) {
        part->out_width += sluice_rng_below(rng, 40);
        part->out_height += sluice_rng_below(rng, 40);
        /* Sometimes the size stays. */
        if (sluice_rng_below(rng, 2) && part->in_width >= part->out.width)
            part->out_width = part->in_width;
        part->out.left = random_place(rng, part->out_width, part->out.width);
        part->out.top = random_place(rng, part->out_height, part->out.height);
    }
    const struct sluice_box in = sluice_resize_part_input(part);
    request.box = (struct sluice_box){box.left + in.left, box.top + in.top, in.width, in.height};
    return request;
}

void gpu_test_requests(struct sluice_rng *rng, const struct sluice_gpu_limits *limits,
                       uint32_t width, uint32_t height, uint32_t row,
                       struct sluice_gpu_request *requests)
{
    for (uint32_t v = 0; v < limits->num_views; v++)
        requests[v] = random_request(rng, &limits->views[v], width, height, row);
}

static sluice_status make_view(const uint8_t *bytes, size_t len,
                               const struct sluice_gpu_request *request, uint8_t *row)
{
    struct sluice_codec *codec;
    struct sluice_resizer *resizer;
    struct sluice_rgb rgb;
    if (sluice_codec_create(&codec, NULL) != SLUICE_OK ||
        sluice_resizer_create(&resizer, NULL) != SLUICE_OK)
        abort();
    sluice_status status =
        sluice_codec_decode_region(codec, bytes, len, &request->box, 0, NULL, &rgb, NULL);
    if (status == SLUICE_OK) {
        const struct sluice_image_view view = {
            .pixels = rgb.pixels->data,
            .stride = (size_t)rgb.width * 3,
            .width = rgb.width,
            .height = rgb.height,
        };
        status =
            sluice_resize_rgb_part(resizer, &request->part, &view, request->is_flipped, row, NULL);
        sluice_buf_unref(rgb.pixels);
    }
    sluice_resizer_destroy(resizer);
    sluice_codec_destroy(codec);
    return status;
}

sluice_status gpu_test_reference(const struct sluice_gpu_limits *limits, const uint8_t *bytes,
                                 size_t len, const struct sluice_gpu_request *requests,
                                 uint8_t *row)
{
    sluice_status status = SLUICE_OK;
    for (uint32_t v = 0; v < limits->num_views && status == SLUICE_OK; v++) {
        status = make_view(bytes, len, &requests[v], row);
        row += (size_t)limits->views[v].width * limits->views[v].height * 3;
    }
    return status;
}

void gpu_test_copy_row(const struct sluice_gpu_row_views *views, uint8_t *batch, uint32_t row,
                       uint8_t *bytes, bool is_back)
{
    for (uint32_t v = 0, start = 0; v < views->num; start = views->ends[v++]) {
        const size_t len = views->ends[v] - start;
        uint8_t *place = batch + views->capacity * start + row * len;
        memcpy(is_back ? place : bytes + start, is_back ? bytes + start : place, len);
    }
}

void gpu_test_damage(struct sluice_rng *rng, struct sluice_buf *file)
{
    for (uint32_t n = 1 + sluice_rng_below(rng, 3); n > 0; n--) {
        const size_t at = sluice_rng_below(rng, (uint32_t)file->len);
        switch (sluice_rng_below(rng, 4)) {
        case 0:
            file->data[at] = (uint8_t)sluice_rng_below(rng, 256);
            break;
        case 1:
            memmove(file->data + at, file->data + at + 1, file->len - at - 1);
            file->len--;
            break;
        case 2:
            file->data[at] = 0xFF;
            break;
        default:
            file->data[at] ^= (uint8_t)(1u << sluice_rng_below(rng, 8));
            break;
        }
    }
}

struct sluice_jpeg_index *gpu_test_index(struct sluice_rng *rng, const struct sluice_buf *file)
{
    static const uint32_t steps[] = {0, 1, 3, 8, 16, SLUICE_JPEG_INDEX_AUTO_STEP};
    if (sluice_rng_below(rng, 4) == 0)
        return NULL;
    struct sluice_jpeg_index *index = calloc(1, sizeof(*index));
    const uint32_t step = steps[sluice_rng_below(rng, SLUICE_ARRAY_LEN(steps))];
    if (!index || sluice_jpeg_index_build(file->data, file->len, 0, step, index, NULL) != SLUICE_OK)
        abort();
    return index;
}

/* The parts of the file that the box needs; nothing that was not read is the file's. */
static struct sluice_buf *read_parts(const struct sluice_buf *file,
                                     const struct sluice_jpeg_index *index,
                                     const struct sluice_box *box)
{
    struct sluice_file_part parts[SLUICE_JPEG_INDEX_MAX_PARTS];
    struct sluice_buf *copy;
    if (sluice_buf_create(NULL, file->len, &copy, NULL) != SLUICE_OK)
        abort();
    copy->len = file->len;
    for (size_t i = 0; i < file->len; i++)
        copy->data[i] = (uint8_t)~file->data[i];
    for (unsigned n = sluice_jpeg_index_parts(index, box, parts); n > 0; n--) {
        const struct sluice_file_part *part = &parts[n - 1];
        memcpy(copy->data + part->from, file->data + part->from, part->to - part->from);
    }
    return copy;
}

/* The union of the views' boxes. */
static struct sluice_box box_of(const struct gpu_test_sample *sample, uint32_t num_views)
{
    struct sluice_box box = sample->requests[0].box;
    for (uint32_t v = 1; v < num_views; v++)
        box = sluice_box_union(&box, &sample->requests[v].box);
    return box;
}

static void index_sample(struct gpu_test_sample *sample, uint32_t num_views, struct sluice_rng *rng)
{
    const struct sluice_buf *file = sample->file;
    sample->index = gpu_test_index(rng, file);
    const bool is_partial =
        sluice_gpu_index_serves(sample->index, file->data, file->len) && sluice_rng_below(rng, 2);
    if (is_partial)
        sample->index->is_partial = true;
    const struct sluice_box box = box_of(sample, num_views);
    sample->given =
        is_partial ? read_parts(file, sample->index, &box) : sluice_buf_ref(sample->file);
}

#define SAMPLES 12

/* What rows hold before: no row of a sample is all of it. */
#define UNTOUCHED 0xA5

struct run {
    struct sluice_gpu_batch *batch;
    gpu_test_decode_fn *decode;
    size_t row_bytes;
    struct sluice_gpu_row_views views;
    uint8_t *rows, *row, *reference;
    sluice_status statuses[SAMPLES];
    struct gpu_test_sample samples[SAMPLES];
};

static void run_init(struct run *run, struct sluice_gpu_batch *batch, gpu_test_decode_fn *decode)
{
    *run = (struct run){.batch = batch, .decode = decode};
    CU_ASSERT_FATAL(batch->limits.max_samples >= SAMPLES);
    run->row_bytes = sluice_gpu_row_bytes(&batch->limits);
    run->rows = aligned_alloc(16, (batch->limits.max_samples * run->row_bytes + 15) / 16 * 16);
    run->views = sluice_gpu_row_views_of(&batch->limits);
    run->row = malloc(run->row_bytes);
    run->reference = malloc(run->row_bytes);
    if (!run->rows || !run->row || !run->reference)
        abort();
}

static void run_clear(struct run *run)
{
    free(run->rows);
    free(run->row);
    free(run->reference);
}

static void make_samples(struct run *run, struct sluice_rng *rng)
{
    for (uint32_t i = 0; i < SAMPLES; i++) {
        struct gpu_test_sample *sample = &run->samples[i];
        sample->file = gpu_test_file(rng, &sample->width, &sample->height);
        gpu_test_requests(rng, &run->batch->limits, sample->width, sample->height, i,
                          sample->requests);
    }
    memset(run->rows, UNTOUCHED, run->batch->limits.max_samples * run->row_bytes);
}

static void drop_samples(struct run *run)
{
    for (uint32_t i = 0; i < SAMPLES; i++) {
        sluice_buf_unref(run->samples[i].file);
        sluice_buf_unref(run->samples[i].given);
        sluice_jpeg_index_destroy(run->samples[i].index);
        run->samples[i] = (struct gpu_test_sample){0};
    }
}

static void describe(const struct gpu_test_sample *sample, const char *what)
{
    const struct sluice_gpu_request *request = &sample->requests[0];
    printf("\n%s: %u x %u, box %u x %u at (%u, %u), flipped %d, row %u, step %u\n", what,
           sample->width, sample->height, request->box.width, request->box.height,
           request->box.left, request->box.top, request->is_flipped, request->row,
           sample->index ? sample->index->step : 0);
}

/* Whether a row is the reference. */
static bool is_equal_row(const struct run *run, uint32_t row)
{
    gpu_test_copy_row(&run->views, run->rows, row, run->row, false);
    return memcmp(run->reference, run->row, run->row_bytes) == 0;
}

/* Whether a sample's row is the CPU's. */
static bool is_reference(const struct run *run, const struct gpu_test_sample *sample)
{
    const sluice_status status =
        gpu_test_reference(&run->batch->limits, sample->file->data, sample->file->len,
                           sample->requests, run->reference);
    return status == SLUICE_OK && is_equal_row(run, sample->requests[0].row);
}

static bool is_untouched(const struct run *run, uint32_t row)
{
    gpu_test_copy_row(&run->views, run->rows, row, run->row, false);
    for (size_t i = 0; i < run->row_bytes; i++) {
        if (run->row[i] != UNTOUCHED)
            return false;
    }
    return true;
}

/* Adds all samples, decodes them, and compares each row with the CPU's. */
static void decode_all(struct run *run)
{
    for (uint32_t i = 0; i < SAMPLES; i++) {
        struct sluice_err err = {{0}};
        const struct gpu_test_sample *sample = &run->samples[i];
        const sluice_status status =
            sluice_gpu_batch_add(run->batch, sample->given->data, sample->given->len, sample->index,
                                 sample->requests, &err);
        if (status != SLUICE_OK)
            describe(sample, err.text);
        REQUIRE_OK(status);
    }
    run->decode(run->batch, run->rows, run->statuses);
    for (uint32_t i = 0; i < SAMPLES; i++) {
        const bool is_equal = run->statuses[i] == SLUICE_OK && is_reference(run, &run->samples[i]);
        if (!is_equal)
            describe(&run->samples[i], sluice_status_name(run->statuses[i]));
        CU_ASSERT_FATAL(is_equal);
    }
    for (uint32_t row = SAMPLES; row < run->batch->limits.max_samples; row++)
        CU_ASSERT_FATAL(is_untouched(run, row));
}

void gpu_test_random_batches(struct sluice_gpu_batch *batch, gpu_test_decode_fn *decode,
                             unsigned num_batches, uint64_t seed)
{
    struct sluice_rng rng = sluice_rng_init(seed, 0, 0, 0);
    struct run run;
    run_init(&run, batch, decode);
    for (unsigned b = 0; b < num_batches; b++) {
        make_samples(&run, &rng);
        for (uint32_t i = 0; i < SAMPLES; i++)
            index_sample(&run.samples[i], batch->limits.num_views, &rng);
        decode_all(&run);
        drop_samples(&run);
    }
    run_clear(&run);
}

/* What files with random tables had, to see that nothing is missing. */
struct seen {
    unsigned samplings, intervals; /* bits */
    unsigned baseline, extended, wide_quantisers, longest_codes, thin, most_huffman;
};

static void see(struct seen *seen, const struct random_jpeg *jpeg)
{
    seen->samplings |= 1u << (jpeg->num_components == 1 ? 0 : jpeg->h * 2 + jpeg->v);
    seen->intervals |= 1u << jpeg->interval;
    seen->baseline += !jpeg->is_extended;
    seen->extended += jpeg->is_extended;
    seen->wide_quantisers += jpeg->has_wide_quantisers;
    seen->longest_codes += jpeg->longest_code == 16;
    seen->thin += jpeg->width == 1 || jpeg->height == 1;
    if (jpeg->num_huffman > seen->most_huffman)
        seen->most_huffman = jpeg->num_huffman;
}

/* The view that libjpeg-turbo's pixels of the whole image give. */
static void read_by_libjpeg(const struct gpu_test_sample *sample,
                            const struct sluice_gpu_request *request, uint8_t *row)
{
    const struct sluice_box *box = &request->box;
    uint32_t width = 0, height = 0;
    uint8_t *pixels = jpeg_test_read_pixels(sample->file->data, sample->file->len, &width, &height);
    CU_ASSERT_PTR_NOT_NULL_FATAL(pixels);
    CU_ASSERT_FATAL(width == sample->width && height == sample->height);
    const struct sluice_image_view view = {
        .pixels = pixels + ((size_t)box->top * width + box->left) * 3,
        .stride = (size_t)width * 3,
        .width = box->width,
        .height = box->height,
    };
    struct sluice_resizer *resizer;
    if (sluice_resizer_create_at(SLUICE_CPU_C, &resizer, NULL) != SLUICE_OK)
        abort();
    CHECK_OK(
        sluice_resize_rgb_part(resizer, &request->part, &view, request->is_flipped, row, NULL));
    sluice_resizer_destroy(resizer);
    free(pixels);
}

void gpu_test_random_tables(struct sluice_gpu_batch *batch, gpu_test_decode_fn *decode,
                            unsigned num_batches, uint64_t seed)
{
    struct run run;
    struct seen seen = {0};
    run_init(&run, batch, decode);
    for (unsigned b = 0; b < num_batches; b++) {
        for (uint32_t i = 0; i < SAMPLES; i++) {
            struct gpu_test_sample *sample = &run.samples[i];
            struct sluice_rng rng = sluice_rng_init(seed, 2, (uint64_t)b * SAMPLES + i, 0);
            const struct random_jpeg jpeg = random_jpeg_make(&rng);
            see(&seen, &jpeg);
            sample->file = jpeg.file;
            sample->width = jpeg.width;
            sample->height = jpeg.height;
            gpu_test_requests(&rng, &batch->limits, jpeg.width, jpeg.height, i, sample->requests);
            index_sample(sample, batch->limits.num_views, &rng);
        }
        memset(run.rows, UNTOUCHED, batch->limits.max_samples * run.row_bytes);
        decode_all(&run);
        for (uint32_t i = 0; i < SAMPLES; i++) {
            uint8_t *view = run.reference;
            for (uint32_t v = 0; v < batch->limits.num_views; v++) {
                read_by_libjpeg(&run.samples[i], &run.samples[i].requests[v], view);
                view += (size_t)batch->limits.views[v].width * batch->limits.views[v].height * 3;
            }
            const bool is_equal = is_equal_row(&run, i);
            if (!is_equal)
                describe(&run.samples[i], "not libjpeg-turbo's");
            CU_ASSERT_FATAL(is_equal);
        }
        drop_samples(&run);
    }
    run_clear(&run);
    printf("(%u files, %u with 16-bit codes, %u with 16-bit quantisers) ", num_batches * SAMPLES,
           seen.longest_codes, seen.wide_quantisers);
    CU_ASSERT_EQUAL(seen.samplings, 1u << 0 | 1u << 3 | 1u << 5 | 1u << 4 | 1u << 6 | 1u << 9);
    CU_ASSERT_EQUAL(seen.intervals, (1u << 17) - 1);
    CU_ASSERT(seen.baseline > 0 && seen.extended > 0 && seen.wide_quantisers > 0);
    CU_ASSERT(seen.longest_codes > 0 && seen.thin > 0);
    CU_ASSERT_EQUAL(seen.most_huffman, SLUICE_GPU_MAX_HUFFMAN);
}

/* Whether the CPU's own decoder takes the views' boxes, as far as it covers the file. */
static bool window_takes(const struct gpu_test_sample *sample, uint32_t num_views)
{
    struct sluice_jpeg_window *window;
    struct sluice_rgb rgb = {0};
    if (sluice_jpeg_window_create(&window, NULL) != SLUICE_OK)
        abort();
    const struct sluice_box box = box_of(sample, num_views);
    const sluice_status status =
        sluice_jpeg_window_decode(window, &sluice_jpeg_window_kernels_c, sample->file->data,
                                  sample->file->len, &box, NULL, NULL, &rgb, NULL);
    if (status == SLUICE_OK)
        sluice_buf_unref(rgb.pixels);
    sluice_jpeg_window_destroy(window);
    return status == SLUICE_OK;
}

unsigned gpu_test_num_damaged_batches(void)
{
    return sluice_test_is_long() ? 10000 / GPU_TEST_NUM_DAMAGED + 1 : 60;
}

/* A sample whose file has random tables. */
static void make_random_sample(struct run *run, uint32_t number, struct sluice_rng *rng)
{
    struct gpu_test_sample *sample = &run->samples[number];
    const struct random_jpeg jpeg = random_jpeg_make(rng);
    sluice_buf_unref(sample->file);
    sample->file = jpeg.file;
    sample->width = jpeg.width;
    sample->height = jpeg.height;
    gpu_test_requests(rng, &run->batch->limits, jpeg.width, jpeg.height, number, sample->requests);
}

unsigned gpu_test_damaged_batches(struct sluice_gpu_batch *batch, gpu_test_decode_fn *decode,
                                  unsigned num_batches, uint64_t seed)
{
    struct run run;
    unsigned num_declined = 0, num_taken = 0, num_stricter = 0;
    run_init(&run, batch, decode);
    for (unsigned b = 0; b < num_batches; b++) {
        struct sluice_rng rng = sluice_rng_init(seed, 1, b, 0);
        make_samples(&run, &rng);
        for (uint32_t i = b % 2; i < SAMPLES; i += 2)
            make_random_sample(&run, i, &rng);
        bool is_damaged[SAMPLES], is_added[SAMPLES];
        for (uint32_t i = 0; i < SAMPLES; i++) {
            struct sluice_buf *file = run.samples[i].file;
            is_damaged[i] = i % 4 != 0;
            if (is_damaged[i])
                gpu_test_damage(&rng, file);
            const uint32_t num_before = batch->num_samples;
            const struct sluice_gpu_sizes before = batch->used;
            is_added[i] = sluice_gpu_batch_add(batch, file->data, file->len, NULL,
                                               run.samples[i].requests, NULL) == SLUICE_OK;
            CU_ASSERT_EQUAL_FATAL(batch->num_samples, num_before + is_added[i]);
            if (!is_added[i])
                CU_ASSERT_FATAL(memcmp(&before, &batch->used, sizeof(before)) == 0);
            CU_ASSERT_FATAL(is_added[i] || is_damaged[i]);
        }
        decode(batch, run.rows, run.statuses);
        uint32_t number = 0;
        for (uint32_t i = 0; i < SAMPLES; i++) {
            const struct gpu_test_sample *sample = &run.samples[i];
            const sluice_status status = is_added[i] ? run.statuses[number++] : SLUICE_E_CORRUPT;
            if (!is_added[i])
                CU_ASSERT_FATAL(is_untouched(&run, i));
            if (status == SLUICE_OK) {
                const bool is_equal = is_reference(&run, sample);
                if (!is_equal)
                    describe(sample, is_damaged[i] ? "damaged" : "whole");
                CU_ASSERT_FATAL(is_equal);
                num_taken += is_damaged[i];
                continue;
            }
            CU_ASSERT_FATAL(is_damaged[i]);
            num_declined++;
            num_stricter += window_takes(sample, batch->limits.num_views);
        }
        drop_samples(&run);
    }
    run_clear(&run);
    /* The device reads columns beside the box, too; apart from them it takes what the CPU takes. */
    CU_ASSERT(num_stricter * 10 <= num_declined);
    CU_ASSERT(num_taken > 0);
    printf("(%u damaged samples decoded, %u declined, %u of them by the device alone) ", num_taken,
           num_declined, num_stricter);
    return num_declined;
}
