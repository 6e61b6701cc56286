#include "gpu/sample.h"

#include "gpu/tuning.h"
#include "image/image_internal.h"
#include "image/jpeg/arithmetic.h"
#include "image/jpeg/window.h"
#include "image/kernels/kernels.h"

#include <string.h>

static uint64_t align(uint64_t bytes)
{
    return (bytes + SLUICE_GPU_SAMPLE_ALIGNMENT - 1) / SLUICE_GPU_SAMPLE_ALIGNMENT *
           SLUICE_GPU_SAMPLE_ALIGNMENT;
}

static bool is_covered(const struct sluice_jpeg *jpeg)
{
    if (!sluice_jpeg_window_can_transform(jpeg))
        return false;
    const struct sluice_jpeg_component *luma = &jpeg->components[0];
    return jpeg->num_components == 1 || (luma->h != 3 && luma->v != 3 && luma->h * luma->v <= 4);
}

/* The blocks of one axis that pixels [from, from + len) need. */
static void needed_blocks(uint32_t from, uint32_t len, unsigned factor, uint32_t num_samples,
                          uint32_t *first_block, uint32_t *num_blocks)
{
    uint32_t first = from / factor, end = (from + len - 1) / factor + 1;
    if (factor > 1) {
        first -= first > 0;
        end += end < num_samples;
    }
    *first_block = first / 8;
    *num_blocks = (end - 1) / 8 + 1 - first / 8;
}

/* The number of a Huffman table among the sample's. */
static uint8_t add_huffman(struct sluice_gpu_plan *plan, const struct sluice_jpeg_huffman *huffman)
{
    for (uint32_t i = 0; i < plan->sample.num_huffman; i++) {
        if (plan->huffman[i] == huffman)
            return (uint8_t)i;
    }
    plan->huffman[plan->sample.num_huffman] = huffman;
    return (uint8_t)plan->sample.num_huffman++;
}

static void plan_plane(struct sluice_gpu_plan *plan, unsigned c, const struct sluice_box *box)
{
    const struct sluice_jpeg *jpeg = &plan->jpeg;
    const struct sluice_jpeg_component *component = &jpeg->components[c];
    struct sluice_gpu_sample *sample = &plan->sample;
    struct sluice_gpu_plane *plane = &sample->planes[c];
    const bool is_single = jpeg->num_components == 1;
    plane->h = is_single ? 1 : component->h;
    plane->v = is_single ? 1 : component->v;
    const unsigned wide = is_single ? 1 : jpeg->max_h / component->h;
    const unsigned high = is_single ? 1 : jpeg->max_v / component->v;
    plane->wide = (uint8_t)wide;
    plane->high = (uint8_t)high;
    plane->width = (jpeg->width + wide - 1) / wide;
    plane->height = (jpeg->height + high - 1) / high;
    /* As in libjpeg's jdsample.c: chroma of one or two columns is repeated. */
    const bool is_smooth = (wide == 2 && high <= 2 && plane->width > 2) || (wide == 1 && high == 2);
    plane->upsampling = is_smooth ? SLUICE_GPU_SMOOTH : SLUICE_GPU_REPEAT;
    needed_blocks(box->left, box->width, wide, plane->width, &plane->first_column, &plane->columns);
    needed_blocks(box->top, box->height, high, plane->height, &plane->first_row, &plane->rows);
    plane->dc = add_huffman(plan, &jpeg->dc[component->dc]);
    plane->ac = add_huffman(plan, &jpeg->ac[component->ac]);
    for (unsigned k = 0; k < 64; k++) {
        const unsigned v = sluice_jpeg_natural_order[k] / 8, u = sluice_jpeg_natural_order[k] % 8;
        plane->quantisers[u * 8 + v] = (int16_t)jpeg->quant[component->quant][k];
    }
    sample->num_blocks += plane->columns * plane->rows;

    const uint32_t end_row = (plane->first_row + plane->rows - 1) / plane->v + 1;
    const uint32_t end_column = (plane->first_column + plane->columns - 1) / plane->h + 1;
    const uint32_t first_row = plane->first_row / plane->v;
    const uint32_t first_column = plane->first_column / plane->h;
    plan->first_row = first_row < plan->first_row ? first_row : plan->first_row;
    plan->end_row = end_row > plan->end_row ? end_row : plan->end_row;
    plan->first_column = first_column < plan->first_column ? first_column : plan->first_column;
    plan->end_column = end_column > plan->end_column ? end_column : plan->end_column;
    for (unsigned y = 0; y < plane->v; y++) {
        for (unsigned x = 0; x < plane->h; x++) {
            sample->block_plane[sample->blocks_in_mcu] = (uint8_t)c;
            sample->block_x[sample->blocks_in_mcu] = (uint8_t)x;
            sample->block_y[sample->blocks_in_mcu] = (uint8_t)y;
            sample->blocks_in_mcu++;
        }
    }
}

/* The MCUs of a segment up to the last needed one; false: no MCU is needed. */
static bool find_mcus(const struct sluice_gpu_plan *plan, uint64_t segment, uint32_t *first,
                      uint32_t *num)
{
    const uint64_t across = plan->jpeg.mcus_across;
    const uint64_t begin = segment * plan->interval;
    uint64_t end = begin + plan->interval;
    end = end < plan->num_mcus ? end : plan->num_mcus;
    if (end <= begin)
        return false;
    /* Upwards from the last row: at most two rows lie outside the window. */
    uint64_t row = (end - 1) / across;
    row = row < plan->end_row ? row : plan->end_row - 1;
    for (; row >= plan->first_row && row * across + plan->end_column > begin; row--) {
        const uint64_t last = row * across + plan->end_column;
        const uint64_t from = row * across + plan->first_column;
        if (from < end) {
            *first = (uint32_t)begin;
            *num = (uint32_t)((last < end ? last : end) - begin);
            return true;
        }
        if (row == 0)
            break;
    }
    return false;
}

/* The number of the index's point of a row and column, and of the first from that column on. */
static uint32_t point_before(const struct sluice_jpeg_index *index, uint32_t column)
{
    return column / index->step;
}
static uint32_t point_after(const struct sluice_jpeg_index *index, uint32_t column)
{
    return (column - 1) / index->step + 1;
}

/* Counts the parts between points that are needed. */
static void plan_points(struct sluice_gpu_plan *plan)
{
    const struct sluice_jpeg_index *index = plan->index;
    const uint32_t first = point_before(index, plan->first_column);
    const uint32_t last = point_after(index, plan->end_column);
    const size_t num_points = (size_t)index->mcus_down * index->points_across;
    plan->sample.num_segments = (plan->end_row - plan->first_row) * (last - first);
    for (uint32_t row = plan->first_row; row < plan->end_row; row++) {
        const size_t at = (size_t)row * index->points_across;
        /* A row may share its last byte, which may be stuffed, with what follows. */
        const uint64_t end = at + last < num_points ? (uint64_t)index->points[at + last].offset + 2
                                                    : index->scan_end;
        plan->segment_bytes += end - index->points[at + first].offset;
    }
}

/* Counts the segments that are needed. */
static sluice_status plan_segments(struct sluice_gpu_plan *plan, struct sluice_err *err)
{
    const struct sluice_jpeg *jpeg = &plan->jpeg;
    if (plan->index) {
        plan_points(plan);
        return SLUICE_OK;
    }
    plan->segment_bytes = jpeg->scan_len;
    plan->num_mcus = (uint64_t)jpeg->mcus_across * jpeg->mcus_down;
    plan->interval = jpeg->restart_interval ? jpeg->restart_interval : plan->num_mcus;
    const uint64_t across = jpeg->mcus_across;
    plan->first_segment = (plan->first_row * across + plan->first_column) / plan->interval;
    plan->end_segment = ((plan->end_row - 1) * across + plan->end_column - 1) / plan->interval + 1;
    /* A marker before each but the first. */
    if (plan->end_segment - 1 > jpeg->scan_len / 2)
        return sluice_fail(err, SLUICE_E_CORRUPT, "JPEG that lacks restart markers");
    uint32_t first, num;
    for (uint64_t i = plan->first_segment; i < plan->end_segment; i++)
        plan->sample.num_segments += find_mcus(plan, i, &first, &num);
    return SLUICE_OK;
}

static struct sluice_gpu_sizes sizes_of(const struct sluice_gpu_sample *sample,
                                        const struct sluice_gpu_view *views)
{
    struct sluice_gpu_sizes sizes = {.blocks = sample->num_blocks};
    for (uint32_t v = 0; v < sample->num_views; v++) {
        sizes.weights +=
            SLUICE_GPU_WEIGHTS_LEN(&views[v].across) + SLUICE_GPU_WEIGHTS_LEN(&views[v].down);
        sizes.pixels += sluice_gpu_view_pixels(&views[v]);
    }
    return sizes;
}

static sluice_status make_plan(struct sluice_gpu_plan *plan, const struct sluice_box *box,
                               const struct sluice_gpu_request *requests, struct sluice_err *err)
{
    plan->first_row = plan->first_column = UINT32_MAX;
    for (unsigned c = 0; c < plan->jpeg.num_components; c++)
        plan_plane(plan, c, box);
    struct sluice_gpu_sample *sample = &plan->sample;
    sample->num_planes = plan->jpeg.num_components;
    sample->mcus_across = plan->jpeg.mcus_across;
    sluice_status status = sluice_gpu_plan_views(plan, requests, err);
    if (status == SLUICE_OK)
        status = plan_segments(plan, err);
    if (status != SLUICE_OK)
        return status;
    sample->huffman_at =
        (uint32_t)(sizeof(*sample) + sample->num_views * sizeof(struct sluice_gpu_view));
    sample->segments_at =
        sample->huffman_at + sample->num_huffman * (uint32_t)sizeof(struct sluice_gpu_huffman);
    const uint64_t words_at =
        sample->segments_at + (uint64_t)sample->num_segments * sizeof(struct sluice_gpu_segment);
    plan->sizes = sizes_of(sample, plan->views);
    plan->sizes.upload_bytes = align(words_at + plan->segment_bytes +
                                     (uint64_t)sample->num_segments * 4 + SLUICE_JPEG_COPY_SLACK);
    for (uint32_t v = 0; v < sample->num_views; v++)
        plan->sizes.upload_bytes += align(plan->views[v].calls_bytes);
    sample->words_at = (uint32_t)words_at; /* of use only if it is below the capacity */
    return SLUICE_OK;
}

static size_t skip_before_ff(const uint8_t *in, size_t len)
{
    const uint8_t *ff = len ? memchr(in, 0xFF, len) : NULL;
    return ff ? (size_t)(ff - in) : len;
}

enum marker {
    MARKER_RST0 = 0xD0,
    MARKER_RST7 = 0xD7,
    MARKER_SOI = 0xD8,
    MARKER_EOI = 0xD9,
};

/* Goes over the scan to its EOI, as jpeg/entropy.c does, and copies the segments that are needed.
 * *words_end: after the last. */
static sluice_status copy_segments(const struct sluice_gpu_plan *plan,
                                   struct sluice_gpu_segment *segments, uint8_t *words,
                                   uint8_t **words_end, struct sluice_err *err)
{
    const struct sluice_jpeg *jpeg = &plan->jpeg;
    const uint8_t *in = jpeg->scan, *const end = jpeg->scan + jpeg->scan_len;
    uint8_t *out = words, *start = words;
    uint64_t segment = 0;
    uint32_t num_segments = 0, first = 0, num = 0;
    bool is_needed = find_mcus(plan, segment, &first, &num);
    for (;;) {
        const size_t left = (size_t)(end - in);
        const size_t run =
            is_needed ? sluice_jpeg_copy_before_ff(out, in, left) : skip_before_ff(in, left);
        in += run;
        out += is_needed ? run : 0;
        if (end - in < 2)
            return sluice_fail(err, SLUICE_E_CORRUPT, "JPEG cut in its scan");
        if (in[1] == 0) {
            if (is_needed)
                *out++ = 0xFF;
            in += 2;
            continue;
        }
        in++;
        while (in < end && *in == 0xFF)
            in++;
        if (in == end)
            return sluice_fail(err, SLUICE_E_CORRUPT, "JPEG cut in its scan");
        const unsigned marker = *in++;
        if (is_needed) {
            const size_t bytes = (size_t)(out - start);
            if (plan->max_segment_bytes && bytes > plan->max_segment_bytes)
                return sluice_fail(err, SLUICE_E_UNSUPPORTED,
                                   "JPEG with a restart segment of %zu bytes", bytes);
            segments[num_segments++] = (struct sluice_gpu_segment){
                .first_mcu = first,
                .num_mcus = num,
                .first_word = (uint32_t)((size_t)(start - words) / 4),
                .num_bits = (uint32_t)(bytes * 8),
            };
            while ((out - words) % 4 != 0)
                *out++ = 0;
            start = out;
        }
        if (marker == MARKER_EOI)
            break;
        if (marker < MARKER_RST0 || marker > MARKER_RST7 || jpeg->restart_interval == 0)
            return sluice_fail(err, SLUICE_E_UNSUPPORTED, "JPEG with marker 0x%02x in its scan",
                               marker);
        if (marker != MARKER_RST0 + segment % 8)
            return sluice_fail(err, SLUICE_E_CORRUPT, "JPEG restart markers are out of order");
        if (++segment >= plan->num_mcus)
            return sluice_fail(err, SLUICE_E_CORRUPT, "JPEG of more restart markers than MCUs");
        is_needed = segment < plan->end_segment && find_mcus(plan, segment, &first, &num);
    }
    if (num_segments != plan->sample.num_segments)
        return sluice_fail(err, SLUICE_E_CORRUPT, "JPEG that lacks restart markers");
    *words_end = out;
    return SLUICE_OK;
}

/* Makes a row's segments from the stretch, whose bits will be at `words_bit`; false: the segments
 * are invalid. */
static bool write_row(const struct sluice_gpu_plan *plan, const struct sluice_jpeg_stretch *stretch,
                      uint32_t row, uint64_t words_bit, struct sluice_gpu_segment *segments,
                      uint32_t num_segments)
{
    const size_t num_bits = stretch->len * 8;
    struct sluice_jpeg_mark from = {.column = stretch->column, .bit = stretch->bit};
    memcpy(from.dc, stretch->dc, sizeof(from.dc));
    for (uint32_t i = 0; i < num_segments; i++) {
        struct sluice_jpeg_mark to = {.column = plan->end_column, .bit = num_bits};
        if (i < stretch->num_marks)
            to = stretch->marks[i];
        to.column = to.column < plan->end_column ? to.column : plan->end_column;
        if (to.column <= from.column || to.bit <= from.bit || to.bit > num_bits)
            return false;
        const uint64_t first_word = (words_bit + from.bit) / 32;
        struct sluice_gpu_segment segment = {
            .first_mcu = row * plan->jpeg.mcus_across + from.column,
            .num_mcus = to.column - from.column,
            .first_word = (uint32_t)first_word,
            .num_bits = (uint32_t)(words_bit + to.bit - first_word * 32),
            .skip = (uint16_t)((words_bit + from.bit) % 32),
        };
        for (unsigned c = 0; c < plan->sample.num_planes; c++)
            segment.dc[c] = (int16_t)from.dc[c];
        segments[i] = segment;
        from = to;
    }
    return true;
}

/* Copies the rows that are needed from the index's points on. */
static sluice_status copy_rows(const struct sluice_gpu_plan *plan,
                               struct sluice_jpeg_stretch *stretch,
                               struct sluice_gpu_segment *segments, uint8_t *words,
                               uint8_t **words_end, struct sluice_err *err)
{
    const uint32_t in_row = plan->sample.num_segments / (plan->end_row - plan->first_row);
    uint8_t *out = words;
    stretch->has_all_marks = true;
    for (uint32_t row = plan->first_row; row < plan->end_row; row++, segments += in_row) {
        stretch->into = out;
        if (!sluice_jpeg_stretch_read(stretch, plan->index, &plan->jpeg, plan->bytes, row,
                                      plan->first_column, plan->end_column, NULL) ||
            !write_row(plan, stretch, row, (uint64_t)(out - words) * 8, segments, in_row))
            return sluice_fail(err, SLUICE_E_CORRUPT, "JPEG whose row %u is not that indexed", row);
        for (uint32_t i = 0; plan->max_segment_bytes && i < in_row; i++) {
            if (segments[i].num_bits / 8 > plan->max_segment_bytes)
                return sluice_fail(err, SLUICE_E_UNSUPPORTED,
                                   "JPEG with %u bytes between points of its index",
                                   segments[i].num_bits / 8);
        }
        out += stretch->len;
        while ((out - words) % 4 != 0)
            *out++ = 0;
    }
    *words_end = out;
    return SLUICE_OK;
}

static void write_huffman(const struct sluice_gpu_plan *plan, struct sluice_gpu_huffman *tables)
{
    for (uint32_t i = 0; i < plan->sample.num_huffman; i++) {
        memcpy(tables[i].counts, plan->huffman[i]->counts + 1, sizeof(tables[i].counts));
        memcpy(tables[i].symbols, plan->huffman[i]->symbols, sizeof(tables[i].symbols));
    }
}

static bool can_use(const struct sluice_jpeg_index *index, const struct sluice_jpeg *jpeg,
                    const uint8_t *bytes, size_t len)
{
    return index && jpeg->restart_interval == 0 && sluice_jpeg_index_fits(index, jpeg, bytes, len);
}

bool sluice_gpu_index_serves(const struct sluice_jpeg_index *index, const uint8_t *bytes,
                             size_t len)
{
    struct sluice_jpeg jpeg;
    return index && sluice_jpeg_parse(bytes, len, &jpeg, NULL) == SLUICE_OK && is_covered(&jpeg) &&
           can_use(index, &jpeg, bytes, len) &&
           index->scan_end - index->scan_start <=
               (uint64_t)index->mcus_down * index->points_across * SLUICE_GPU_MAX_POINT_BYTES;
}

/* Extends *all to the requests' boxes; false: one lies outside the image. */
static bool find_box(const struct sluice_jpeg *jpeg, const struct sluice_gpu_request *requests,
                     uint32_t num, struct sluice_box *all)
{
    for (uint32_t v = 0; v < num; v++) {
        const struct sluice_box *box = &requests[v].box;
        if (!sluice_box_is_within(box, jpeg->width, jpeg->height))
            return false;
        *all = sluice_box_union(all, box);
    }
    return true;
}

static sluice_status parse(struct sluice_gpu_plan *plan, const uint8_t *bytes, size_t len,
                           const struct sluice_jpeg_index *index,
                           const struct sluice_gpu_request *requests, struct sluice_box *box,
                           struct sluice_err *err)
{
    if (len < 2 || bytes[0] != 0xFF || bytes[1] != MARKER_SOI)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "not a JPEG");
    struct sluice_jpeg *jpeg = &plan->jpeg;
    const sluice_status status = sluice_jpeg_parse(bytes, len, jpeg, err);
    if (status != SLUICE_OK)
        return status;
    if (!is_covered(jpeg) || len > INT32_MAX / 8)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "JPEG that the CPU must decode");
    if (!find_box(jpeg, requests, plan->sample.num_views, box))
        return sluice_fail(err, SLUICE_E_INVALID, "a box outside the image");
    plan->bytes = bytes;
    if (can_use(index, jpeg, bytes, len))
        plan->index = index;
    else if (index && index->is_partial)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "JPEG of which only parts were read");
    return SLUICE_OK;
}

sluice_status sluice_gpu_plan_make(struct sluice_gpu_plan *plan,
                                   const struct sluice_gpu_limits *limits, const uint8_t *bytes,
                                   size_t len, const struct sluice_jpeg_index *index,
                                   const struct sluice_gpu_request *requests,
                                   struct sluice_err *err)
{
    *plan = (struct sluice_gpu_plan){
        .max_segment_bytes = limits->max_segment_bytes,
        .sample.num_views = limits->num_views,
    };
    struct sluice_box box = requests[0].box;
    sluice_status status = sluice_gpu_requests_check(limits, requests, err);
    if (status == SLUICE_OK)
        status = parse(plan, bytes, len, index, requests, &box, err);
    return status == SLUICE_OK ? make_plan(plan, &box, requests, err) : status;
}

/* Pads with zeros to the next multiple of the alignment from `start`. */
static uint8_t *pad(const uint8_t *start, uint8_t *end)
{
    while ((end - start) % SLUICE_GPU_SAMPLE_ALIGNMENT != 0)
        *end++ = 0;
    return end;
}

sluice_status sluice_gpu_plan_write(const struct sluice_gpu_plan *plan,
                                    struct sluice_jpeg_stretch *stretch, uint8_t *to,
                                    uint64_t *bytes, struct sluice_err *err)
{
    const struct sluice_gpu_sample *sample = &plan->sample;
    struct sluice_gpu_segment *segments =
        (struct sluice_gpu_segment *)(void *)(to + sample->segments_at);
    uint8_t *words = to + sample->words_at, *end = words;
    const sluice_status status = plan->index ? copy_rows(plan, stretch, segments, words, &end, err)
                                             : copy_segments(plan, segments, words, &end, err);
    if (status != SLUICE_OK)
        return status;
    end = pad(to, end);
    struct sluice_gpu_sample *written = (struct sluice_gpu_sample *)(void *)to;
    *written = *sample;
    write_huffman(plan, (struct sluice_gpu_huffman *)(void *)(to + sample->huffman_at));
    struct sluice_gpu_view *views = sluice_gpu_views_of(written);
    for (uint32_t v = 0; v < sample->num_views; v++) {
        views[v] = plan->views[v];
        views[v].calls_at = (uint32_t)(end - to);
        if (views[v].calls_bytes) {
            memcpy(end, plan->calls[v]->bytes, views[v].calls_bytes);
            end = pad(to, end + views[v].calls_bytes);
        }
    }
    *bytes = (uint64_t)(end - to);
    return SLUICE_OK;
}

struct sluice_gpu_sizes sluice_gpu_sample_sizes(const struct sluice_gpu_sample *sample)
{
    return sizes_of(sample, (const struct sluice_gpu_view *)(sample + 1));
}
