#include "image/jpeg/window.h"

#include "base/buf.h"
#include "image/image_internal.h"
#include "image/jpeg/window_internal.h"
#include "image/tuning.h"

#include <stdlib.h>
#include <string.h>

/* libjpeg refuses larger images. */
#define MAX_SIDE 65500u

sluice_status sluice_jpeg_window_create(struct sluice_jpeg_window **out, struct sluice_err *err)
{
    struct sluice_jpeg_window *window = aligned_alloc(64, (sizeof(*window) + 63) / 64 * 64);
    if (!window)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a JPEG decoder");
    memset(window, 0, sizeof(*window));
    *out = window;
    return SLUICE_OK;
}

static void set_kernels(struct sluice_jpeg_window *window,
                        const struct sluice_jpeg_window_kernels *kernels)
{
    if (window->kernels == kernels)
        return;
    window->kernels = kernels;
    for (unsigned k = 0; k < 64; k++)
        window->lanes.place[k + 1] = kernels->place[sluice_jpeg_natural_order[k]];
#ifdef SLUICE_HAVE_X86_KERNELS
    window->lanes.has_bmi2 =
        kernels != &sluice_jpeg_window_kernels_c && __builtin_cpu_supports("bmi2");
#endif
}

void sluice_jpeg_window_destroy(struct sluice_jpeg_window *window)
{
    if (!window)
        return;
    free(window->memory);
    free(window);
}

static bool is_ycc(const struct sluice_jpeg *jpeg)
{
    if (jpeg->has_jfif)
        return true;
    if (jpeg->has_adobe)
        return jpeg->adobe_transform != 0;
    const struct sluice_jpeg_component *components = jpeg->components;
    return components[0].id != 'R' || components[1].id != 'G' || components[2].id != 'B';
}

bool sluice_jpeg_window_can_transform(const struct sluice_jpeg *jpeg)
{
    if (jpeg->width > MAX_SIDE || jpeg->height > MAX_SIDE)
        return false;
    /* libjpeg adds DC differences in 32 bits. */
    const uint64_t num_blocks = (uint64_t)jpeg->mcus_across * jpeg->mcus_down * jpeg->blocks_in_mcu;
    if (num_blocks * ((1u << SLUICE_JPEG_MAX_DC_CATEGORY) - 1) > INT32_MAX)
        return false;
    for (unsigned c = 0; c < jpeg->num_components; c++) {
        for (unsigned k = 0; k < 64; k++) {
            const uint16_t quantiser = jpeg->quant[jpeg->components[c].quant][k];
            if (quantiser < 1 || quantiser > SLUICE_JPEG_MAX_QUANTISER)
                return false;
        }
    }
    if (jpeg->num_components == 1)
        return true;
    const struct sluice_jpeg_component *components = jpeg->components;
    return jpeg->num_components == 3 && is_ycc(jpeg) && components[1].h == 1 &&
           components[1].v == 1 && components[2].h == 1 && components[2].v == 1;
}

static bool is_covered(const struct sluice_jpeg *jpeg)
{
    if (!sluice_jpeg_window_can_transform(jpeg))
        return false;
    if (jpeg->num_components == 1)
        return true;
    const struct sluice_jpeg_component *luma = &jpeg->components[0];
    /* Chroma of one or two columns is not upsampled by the triangle filter. */
    return luma->h <= 2 && luma->v <= 2 && (luma->h == 1 || (jpeg->width + 1) / 2 > 2);
}

/* The samples [first, end) of one axis that pixels [from, from + len) need. */
static void needed_samples(uint32_t from, uint32_t len, unsigned factor, uint32_t count,
                           uint32_t *first, uint32_t *end)
{
    const uint32_t last = (from + len - 1) / factor;
    *first = from / factor;
    *end = last + 1;
    if (factor > 1) {
        *first -= *first > 0;
        *end += *end < count;
    }
}

static void place_planes(struct sluice_jpeg_window *window, const struct sluice_jpeg *jpeg,
                         const struct sluice_box *box)
{
    window->num_planes = jpeg->num_components;
    for (unsigned c = 0; c < window->num_planes; c++) {
        const struct sluice_jpeg_component *component = &jpeg->components[c];
        struct sluice_jpeg_plane *plane = &window->planes[c];
        const bool is_single = window->num_planes == 1;
        plane->h = is_single ? 1 : component->h;
        plane->v = is_single ? 1 : component->v;
        const unsigned across = is_single ? 1 : jpeg->max_h / component->h;
        const unsigned down = is_single ? 1 : jpeg->max_v / component->v;
        plane->width = (jpeg->width + across - 1) / across;
        plane->height = (jpeg->height + down - 1) / down;
        uint32_t first, end;
        needed_samples(box->left, box->width, across, plane->width, &first, &end);
        plane->first_column = first / 8;
        plane->end_column = (end - 1) / 8 + 1;
        needed_samples(box->top, box->height, down, plane->height, &first, &end);
        plane->first_row = first / 8;
        plane->end_row = (end - 1) / 8 + 1;
        for (unsigned k = 0; k < 64; k++)
            plane->quantisers[window->lanes.place[k + 1]] =
                (int16_t)jpeg->quant[component->quant][k];
    }
}

static struct sluice_jpeg_mcu_range wanted_mcus(const struct sluice_jpeg_window *window)
{
    struct sluice_jpeg_mcu_range range = {UINT32_MAX, 0, UINT32_MAX, 0};
    for (unsigned c = 0; c < window->num_planes; c++) {
        const struct sluice_jpeg_plane *plane = &window->planes[c];
        const uint32_t first_row = plane->first_row / plane->v;
        const uint32_t end_row = (plane->end_row - 1) / plane->v + 1;
        const uint32_t first_column = plane->first_column / plane->h;
        const uint32_t end_column = (plane->end_column - 1) / plane->h + 1;
        range.first_row = first_row < range.first_row ? first_row : range.first_row;
        range.end_row = end_row > range.end_row ? end_row : range.end_row;
        range.first_column = first_column < range.first_column ? first_column : range.first_column;
        range.end_column = end_column > range.end_column ? end_column : range.end_column;
    }
    return range;
}

static sluice_status reserve_memory(struct sluice_jpeg_window *window, const struct sluice_box *box,
                                    uint32_t num_mcu_rows, struct sluice_err *err)
{
    size_t bytes = 0;
    for (unsigned c = 0; c < window->num_planes; c++) {
        struct sluice_jpeg_plane *plane = &window->planes[c];
        plane->stride = (size_t)(plane->end_column - plane->first_column) * 8;
        bytes += plane->stride * (plane->end_row - plane->first_row) * 8;
    }
    const size_t row_bytes = ((size_t)box->width + 2 + 63) / 64 * 64;
    const size_t samples_bytes = (bytes + 63) / 64 * 64;
    bytes = samples_bytes + 4 * row_bytes + 64 + num_mcu_rows * sizeof(*window->points);
    if (bytes > window->memory_capacity) {
        uint8_t *memory = malloc(bytes);
        if (!memory)
            return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu bytes of samples",
                               bytes);
        free(window->memory);
        window->memory = memory;
        window->memory_capacity = bytes;
    }
    uint8_t *at = window->memory;
    for (unsigned c = 0; c < window->num_planes; c++) {
        struct sluice_jpeg_plane *plane = &window->planes[c];
        plane->samples = at;
        at += plane->stride * (plane->end_row - plane->first_row) * 8;
    }
    at = window->memory + samples_bytes;
    window->row[0] = at;
    window->row[1] = at + row_bytes;
    window->sums = (uint16_t *)(void *)(at + 2 * row_bytes);
    window->points = (struct sluice_jpeg_point *)(void *)(at + 4 * row_bytes + 64);
    return SLUICE_OK;
}

static bool read_indexed(struct sluice_jpeg_window *window, struct sluice_jpeg_source source,
                         const struct sluice_jpeg_index *index, const uint8_t *bytes, size_t len)
{
    if (!index || !sluice_jpeg_index_fits(index, source.jpeg, bytes, len))
        return false;
    source.index = index;
    source.bytes = bytes;
    const bool is_read = sluice_jpeg_window_read(window, &source);
    for (unsigned l = 0; l < NUM_LANES; l++)
        sluice_jpeg_stretch_clear(&window->lanes.lanes[l].stretch);
    return is_read;
}

static sluice_status read_scan(struct sluice_jpeg_window *window, struct sluice_jpeg_source source,
                               struct sluice_err *err)
{
    struct sluice_jpeg_scan scan = {0};
    sluice_status status = sluice_jpeg_scan_read(source.jpeg, source.pool, &scan, err);
    if (status != SLUICE_OK)
        return status;
    source.scan = &scan;
    if (!sluice_jpeg_window_read(window, &source))
        status = sluice_fail(err, SLUICE_E_CORRUPT, "JPEG with a fault in its scan");
    sluice_jpeg_scan_clear(&scan);
    return status;
}

sluice_status sluice_jpeg_window_decode(struct sluice_jpeg_window *window,
                                        const struct sluice_jpeg_window_kernels *kernels,
                                        const uint8_t *bytes, size_t len,
                                        const struct sluice_box *box,
                                        const struct sluice_jpeg_index *index,
                                        struct sluice_buf_pool *pool, struct sluice_rgb *rgb,
                                        struct sluice_err *err)
{
    struct sluice_jpeg jpeg;
    sluice_status status = sluice_jpeg_parse(bytes, len, &jpeg, err);
    if (status != SLUICE_OK)
        return status;
    if (!is_covered(&jpeg))
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "JPEG that libjpeg-turbo must decode");
    if (!sluice_box_is_within(box, jpeg.width, jpeg.height))
        return sluice_fail(err, SLUICE_E_INVALID, "a box outside the image");

    struct sluice_buf *pixels = NULL;
    set_kernels(window, kernels);
    place_planes(window, &jpeg, box);
    const struct sluice_jpeg_source source = {
        .jpeg = &jpeg, .wanted = wanted_mcus(window), .pool = pool};
    status = reserve_memory(window, box, source.wanted.end_row - source.wanted.first_row, err);
    if (status != SLUICE_OK)
        return status;
    sluice_jpeg_lanes_set_codings(&window->lanes, &jpeg);
    sluice_jpeg_lanes_make_steps(&window->lanes, &jpeg);
    if (!read_indexed(window, source, index, bytes, len))
        status = index && index->is_partial
                     ? sluice_fail(err, SLUICE_E_CORRUPT, "a part of the JPEG does not do")
                     : read_scan(window, source, err);
    if (status == SLUICE_OK)
        status = sluice_image_alloc_rgb(pool, box->width, box->height, &pixels, err);
    if (status == SLUICE_OK) {
        sluice_jpeg_window_write_pixels(window, box, pixels->data);
        *rgb = (struct sluice_rgb){.width = box->width, .height = box->height, .pixels = pixels};
    }
    if (window->memory_capacity > SLUICE_IMAGE_KEPT_BYTES) {
        free(window->memory);
        window->memory = NULL;
        window->memory_capacity = 0;
    }
    return status;
}
