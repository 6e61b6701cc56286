#include "image/jpeg/crop.h"

#include "base/buf.h"
#include "image/image_internal.h"
#include "image/jpeg/crop_cut.h"
#include "image/jpeg/crop_libjpeg.h"
#include "image/jpeg/crop_write.h"
#include "image/jpeg/index.h"
#include "image/jpeg/recode.h"

/* Chooses the route to a crop.  The work is done in jpeg/crop_plan.c, jpeg/crop_cut.c and
 * jpeg/crop_write.c, or through libjpeg-turbo's coefficients in jpeg/crop_libjpeg.c. */

sluice_status sluice_jpeg_crop_window(const uint8_t *bytes, size_t len,
                                      struct sluice_jpeg_crop_box *out, struct sluice_err *err)
{
    struct sluice_jpeg_crop_box window;
    if (len < SLUICE_JPEG_CROP_HEAD || !sluice_jpeg_crop_get_head(bytes, &window))
        return sluice_fail(err, SLUICE_E_CORRUPT, "not a crop of a JPEG");
    struct sluice_image_info info;
    if (sluice_image_probe(bytes, len, &info, err) != SLUICE_OK)
        return SLUICE_E_CORRUPT;
    window.width = info.width;
    window.height = info.height;
    if (window.left + window.width > window.full_width ||
        window.top + window.height > window.full_height)
        return sluice_fail(err, SLUICE_E_CORRUPT,
                           "a crop of %u x %u at %u, %u is not inside %u x %u", window.width,
                           window.height, window.left, window.top, window.full_width,
                           window.full_height);
    *out = window;
    return SLUICE_OK;
}

/* --- the crop --- */

struct job {
    struct sluice_jpeg jpeg; /* its tables become those of the crop */
    struct sluice_jpeg_crop_box window;
    struct sluice_jpeg_scan kept, recoded;
    struct sluice_buf *crop;
};

/* Whether only a part of the file was read, so that only the index's parts may be used. */
static bool is_partial(const struct sluice_jpeg_crop_options *options)
{
    return options->index && options->index->is_partial;
}

/* Cuts with the index if possible, else by reading the whole scan. */
static sluice_status cut(struct job *job, const uint8_t *bytes, size_t len,
                         const struct sluice_box *box, uint32_t restart_interval,
                         const struct sluice_jpeg_crop_options *options,
                         struct sluice_buf_pool *pool, struct sluice_err *err)
{
    struct sluice_jpeg_cut cut = {
        .jpeg = &job->jpeg,
        .bytes = bytes,
        .window = &job->window,
        .box = box,
        .restart_interval = restart_interval,
    };
    if (options->index && sluice_jpeg_index_fits(options->index, &job->jpeg, bytes, len)) {
        const struct sluice_jpeg original = job->jpeg; /* the crop's tables replace its own */
        cut.index = options->index;
        if (sluice_jpeg_cut_mcus(&cut, pool, &job->kept, NULL) == SLUICE_OK)
            return SLUICE_OK;
        job->jpeg = original;
        cut.index = NULL;
    }
    if (is_partial(options))
        return sluice_fail(err, SLUICE_E_CORRUPT, "a part of the JPEG does not do");
    return sluice_jpeg_cut_mcus(&cut, pool, &job->kept, err);
}

static sluice_status assemble(struct job *job, size_t file_len, bool allow_larger,
                              struct sluice_buf_pool *pool, struct sluice_err *err)
{
    const struct sluice_jpeg_scan *scan = job->recoded.data ? &job->recoded : &job->kept;
    const struct sluice_buf *bits = scan->data;
    uint8_t headers[SLUICE_JPEG_CROP_MAX_HEADERS];
    const size_t headers_len = sluice_jpeg_crop_put_headers(headers, &job->jpeg, &job->window);
    const size_t marks_len = 2 * scan->num_segments; /* the last one is EOI */
    const size_t most = headers_len + 2 * bits->len + marks_len + 1;
    /* One byte less than the file at most; sluice_jpeg_put_stuffed() asks for one more than it
     * needs. */
    const size_t room = allow_larger || most < file_len ? most : file_len;
    if (headers_len + bits->len + marks_len >= room && !allow_larger)
        return sluice_fail(err, SLUICE_E_AGAIN, "a crop would not be smaller");
    sluice_status status = sluice_buf_create(pool, room, &job->crop, err);
    if (status != SLUICE_OK)
        return status;
    memcpy(job->crop->data, headers, headers_len);
    uint8_t *out =
        sluice_jpeg_put_segments(job->crop->data + headers_len, job->crop->data + room - 2, scan);
    if (!out)
        return sluice_fail(err, SLUICE_E_AGAIN, "a crop would not be smaller");
    *out++ = 0xFF; /* EOI */
    *out++ = 0xD9;
    job->crop->len = (size_t)(out - job->crop->data);
    if (job->crop->len >= file_len && !allow_larger)
        return sluice_fail(err, SLUICE_E_AGAIN, "a crop would not be smaller");
    return SLUICE_OK;
}

/* Whether DC differences could add up beyond 32 bits, which libjpeg takes for an error
 * wherever in the file it is.  It takes 67 megapixels. */
static bool may_overflow(const struct sluice_jpeg *jpeg)
{
    const uint64_t num_blocks = (uint64_t)jpeg->mcus_across * jpeg->mcus_down * jpeg->blocks_in_mcu;
    return num_blocks * 2047 > INT32_MAX;
}

static sluice_status crop_ourselves(struct job *job, const uint8_t *bytes, size_t len,
                                    const struct sluice_box *box,
                                    const struct sluice_jpeg_crop_options *options,
                                    uint64_t max_pixels, struct sluice_buf_pool *pool,
                                    struct sluice_err *err)
{
    struct sluice_jpeg *jpeg = &job->jpeg;
    sluice_status status = sluice_jpeg_parse(bytes, len, jpeg, err);
    if (status != SLUICE_OK)
        return status;
    status = sluice_image_check_size(jpeg->width, jpeg->height, max_pixels, err);
    if (status != SLUICE_OK)
        return status;
    struct sluice_jpeg_grid grid = {
        .width = jpeg->width,
        .height = jpeg->height,
        .mcu_width = jpeg->mcu_width,
        .mcu_height = jpeg->mcu_height,
        .min_h = jpeg->max_h,
        .max_h = jpeg->max_h,
        .min_v = jpeg->max_v,
        .max_v = jpeg->max_v,
    };
    for (unsigned c = 0; c < jpeg->num_components; c++) {
        const struct sluice_jpeg_component *component = &jpeg->components[c];
        grid.min_h = component->h < grid.min_h ? component->h : grid.min_h;
        grid.min_v = component->v < grid.min_v ? component->v : grid.min_v;
    }
    status = sluice_jpeg_crop_plan(&grid, box, &job->window, err);
    if (status != SLUICE_OK)
        return status;
    const bool is_whole = job->window.width == jpeg->width && job->window.height == jpeg->height;
    if (is_whole && !options->optimal_huffman && !options->allow_larger)
        return sluice_fail(err, SLUICE_E_AGAIN, "the crop needs the whole image");
    if (may_overflow(jpeg))
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "JPEG whose DC values may overflow");
    const uint32_t mcus_in_row = sluice_divide_up(job->window.width, jpeg->mcu_width);
    const uint32_t num_rows = sluice_divide_up(job->window.height, jpeg->mcu_height);
    const uint32_t interval = options->restart_interval ? options->restart_interval : mcus_in_row;
    status = cut(job, bytes, len, box, interval, options, pool, err);
    jpeg->restart_interval = interval;
    if (status == SLUICE_OK && options->optimal_huffman)
        status = sluice_jpeg_recode_optimal(jpeg, &job->kept, (size_t)num_rows * mcus_in_row, pool,
                                            &job->recoded, err);
    if (status == SLUICE_OK)
        status = assemble(job, len, options->allow_larger, pool, err);
    return status;
}

sluice_status sluice_jpeg_crop(const uint8_t *bytes, size_t len, const struct sluice_box *box,
                               const struct sluice_jpeg_crop_options *options,
                               struct sluice_buf_pool *pool, struct sluice_buf **crop,
                               struct sluice_jpeg_crop_box *window, struct sluice_err *err)
{
    static const struct sluice_jpeg_crop_options defaults = {0};
    if (!options)
        options = &defaults;
    if (options->restart_interval > SLUICE_JPEG_MAX_RESTART_INTERVAL)
        return sluice_fail(err, SLUICE_E_INVALID, "a restart interval of %u MCUs is over %u",
                           options->restart_interval, SLUICE_JPEG_MAX_RESTART_INTERVAL);
    const uint64_t max_pixels = options->max_pixels ? options->max_pixels : SLUICE_IMAGE_MAX_PIXELS;
    struct job job = {0};
    struct sluice_err why = {{0}};
    sluice_status status = SLUICE_E_UNSUPPORTED;
    if (options->route != SLUICE_JPEG_CROP_BY_LIBJPEG)
        status = crop_ourselves(&job, bytes, len, box, options, max_pixels, pool, &why);
    if (options->route != SLUICE_JPEG_CROP_BY_OURS && !is_partial(options) &&
        (status == SLUICE_E_UNSUPPORTED || status == SLUICE_E_CORRUPT)) {
        why.text[0] = 0;
        status = sluice_jpeg_crop_libjpeg(bytes, len, box, options->optimal_huffman,
                                          options->restart_interval, max_pixels, pool, &job.crop,
                                          &job.window, &why);
        if (status == SLUICE_OK && job.crop->len >= len && !options->allow_larger)
            status = sluice_fail(&why, SLUICE_E_AGAIN, "a crop would not be smaller");
    }
    sluice_jpeg_scan_clear(&job.kept);
    sluice_jpeg_scan_clear(&job.recoded);
    if (status != SLUICE_OK) {
        sluice_buf_unref(job.crop);
        return sluice_fail(err, status, "%s", why.text);
    }
    *crop = job.crop;
    if (window)
        *window = job.window;
    return SLUICE_OK;
}
