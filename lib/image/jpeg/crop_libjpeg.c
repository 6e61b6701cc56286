#include "image/jpeg/crop_libjpeg.h"

#include "image/codecs/libjpeg.h"
#include "image/jpeg/crop_write.h"

#include <string.h>

struct crop_job {
    struct libjpeg_errors errors;
    struct jpeg_decompress_struct in;
    struct jpeg_source_mgr source;
    struct libjpeg_watch watch;
    struct jpeg_compress_struct out;
    struct libjpeg_sink sink;
    struct sluice_jpeg_crop_box window;
};

static void count_warning(j_common_ptr cinfo, int level)
{
    if (level < 0)
        cinfo->err->num_warnings++;
}

/* Whether a progressive file has all bits of its low frequencies.  If not, libjpeg smooths over
 * blocks (block smoothing), and would do so differently for the crop. */
static bool is_finished(const struct jpeg_decompress_struct *in)
{
    for (int c = 0; in->progressive_mode && c < in->num_components; c++) {
        for (int k = 0; k < DCTSIZE2; k++) {
            if (in->coef_bits[c][k] != 0)
                return false;
        }
    }
    return true;
}

/* Whether all sampling factors divide the largest one, so that libjpeg can upsample. */
static bool has_whole_ratios(const struct jpeg_decompress_struct *in)
{
    for (int c = 0; c < in->num_components; c++) {
        if (in->max_h_samp_factor % in->comp_info[c].h_samp_factor != 0 ||
            in->max_v_samp_factor % in->comp_info[c].v_samp_factor != 0)
            return false;
    }
    return true;
}

static struct sluice_jpeg_grid grid_of(const struct jpeg_decompress_struct *in)
{
    struct sluice_jpeg_grid grid = {
        .width = in->image_width,
        .height = in->image_height,
        .mcu_width = (uint32_t)in->max_h_samp_factor * DCTSIZE,
        .mcu_height = (uint32_t)in->max_v_samp_factor * DCTSIZE,
        .min_h = (unsigned)in->max_h_samp_factor,
        .max_h = (unsigned)in->max_h_samp_factor,
        .min_v = (unsigned)in->max_v_samp_factor,
        .max_v = (unsigned)in->max_v_samp_factor,
    };
    for (int c = 0; c < in->num_components; c++) {
        const unsigned h = (unsigned)in->comp_info[c].h_samp_factor;
        const unsigned v = (unsigned)in->comp_info[c].v_samp_factor;
        grid.min_h = h < grid.min_h ? h : grid.min_h;
        grid.min_v = v < grid.min_v ? v : grid.min_v;
    }
    return grid;
}

/* Whether the coefficients can be coded; libjpeg-turbo's fast encoder does not check that.  Only
 * damaged files have others. */
static bool are_in_range(const JBLOCK *blocks, size_t num_blocks)
{
    for (size_t i = 0; i < num_blocks; i++) {
        unsigned is_outside = blocks[i][0] < -1024 || blocks[i][0] > 1023;
        for (unsigned k = 1; k < DCTSIZE2; k++)
            is_outside |= (unsigned)(blocks[i][k] < -1023) | (unsigned)(blocks[i][k] > 1023);
        if (is_outside)
            return false;
    }
    return true;
}

/* Copies the window's blocks of one component to an array of the compressor. */
static jvirt_barray_ptr cut_component(struct crop_job *job, int c, jvirt_barray_ptr from)
{
    struct jpeg_decompress_struct *in = &job->in;
    struct jpeg_compress_struct *out = &job->out;
    const jpeg_component_info *info = &in->comp_info[c];
    const uint32_t h = (uint32_t)info->h_samp_factor, v = (uint32_t)info->v_samp_factor;
    const uint32_t full_h = (uint32_t)in->max_h_samp_factor * DCTSIZE;
    const uint32_t full_v = (uint32_t)in->max_v_samp_factor * DCTSIZE;
    const uint32_t left = job->window.left / full_h * h, top = job->window.top / full_v * v;
    const uint32_t wide = sluice_divide_up(job->window.width, full_h) * h;
    const uint32_t high = sluice_divide_up(job->window.height, full_v) * v;
    jvirt_barray_ptr to =
        out->mem->request_virt_barray((j_common_ptr)out, JPOOL_IMAGE, TRUE, wide, high, v);
    out->mem->realize_virt_arrays((j_common_ptr)out);
    for (uint32_t y = 0; y < high; y += v) {
        JBLOCKARRAY in_rows =
            in->mem->access_virt_barray((j_common_ptr)in, from, top + y, v, FALSE);
        JBLOCKARRAY out_rows = out->mem->access_virt_barray((j_common_ptr)out, to, y, v, TRUE);
        for (uint32_t i = 0; i < v; i++) {
            if (!are_in_range((const JBLOCK *)in_rows[i] + left, wide))
                ERREXIT(out, JERR_BAD_DCT_COEF);
            memcpy(out_rows[i], in_rows[i] + left, (size_t)wide * sizeof(JBLOCK));
        }
    }
    return to;
}

static sluice_status crop_job_run(struct crop_job *job, const struct sluice_box *box,
                                  bool optimal_huffman, uint32_t restart_interval,
                                  uint64_t max_pixels, struct sluice_err *err)
{
    struct jpeg_decompress_struct *in = &job->in;
    struct jpeg_compress_struct *out = &job->out;
    if (setjmp(job->errors.on_error)) {
        if (job->sink.status != SLUICE_OK)
            return job->sink.status;
        if (job->watch.budget.is_spent)
            return sluice_decode_budget_fail(&job->watch.budget, err);
        const sluice_status status = libjpeg_fail((j_common_ptr)in, err);
        /* An error of the compressor does not mean that the file is corrupt. */
        return status == SLUICE_E_NO_MEMORY ? status : SLUICE_E_UNSUPPORTED;
    }
    jpeg_create_decompress(in);
    in->src = &job->source;
    jpeg_create_compress(out);
    out->dest = &job->sink.base;

    while (jpeg_read_header(in, FALSE) == JPEG_HEADER_TABLES_ONLY)
        continue;
    sluice_status status =
        sluice_image_check_size(in->image_width, in->image_height, max_pixels, err);
    if (status != SLUICE_OK)
        return status;
    if (in->num_components != 1 && in->num_components != 3 && in->num_components != 4)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "JPEG with %d components",
                           in->num_components);
    if (in->arith_code)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "JPEG with arithmetic coding");
    status = libjpeg_check_scans(in, err);
    if (status != SLUICE_OK)
        return status;
    const uint32_t width = in->image_width, height = in->image_height;
    libjpeg_watch_start(&job->watch, in);
    jvirt_barray_ptr *from = jpeg_read_coefficients(in);
    /* libjpeg accepts a second frame header, which may change the size. */
    if (in->image_width != width || in->image_height != height ||
        job->errors.base.num_warnings > 0 || !has_whole_ratios(in) || !is_finished(in))
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "JPEG is damaged, unfinished or odd");
    const struct sluice_jpeg_grid grid = grid_of(in);
    status = sluice_jpeg_crop_plan(&grid, box, &job->window, err);
    if (status != SLUICE_OK)
        return status;

    jpeg_copy_critical_parameters(in, out);
    out->image_width = job->window.width;
    out->image_height = job->window.height;
    out->restart_in_rows = restart_interval ? 0 : 1;
    out->restart_interval = restart_interval;
    out->optimize_coding = optimal_huffman ? TRUE : FALSE;
    jvirt_barray_ptr to[MAX_COMPONENTS];
    for (int c = 0; c < in->num_components; c++)
        to[c] = cut_component(job, c, from[c]);
    jpeg_write_coefficients(out, to);
    jpeg_finish_compress(out);
    jpeg_finish_decompress(in);
    if (job->errors.base.num_warnings > 0)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "JPEG is damaged at its end");
    return SLUICE_OK;
}

sluice_status sluice_jpeg_crop_libjpeg(const uint8_t *bytes, size_t len,
                                       const struct sluice_box *box, bool optimal_huffman,
                                       uint32_t restart_interval, uint64_t max_pixels,
                                       struct sluice_buf_pool *pool, struct sluice_buf **crop,
                                       struct sluice_jpeg_crop_box *window, struct sluice_err *err)
{
    struct crop_job job = {.window = {0}};
    libjpeg_sink_init(&job.sink, err);
    libjpeg_source_init(&job.source, bytes, len);
    libjpeg_errors_init(&job.errors);
    job.errors.base.emit_message = count_warning;
    job.in.err = job.out.err = &job.errors.base;
    sluice_status status =
        crop_job_run(&job, box, optimal_huffman, restart_interval, max_pixels, err);
    jpeg_destroy_compress(&job.out);
    jpeg_destroy_decompress(&job.in);
    const struct sluice_buf *file = job.sink.writer.file;
    struct sluice_buf *result = NULL;
    /* Our segment follows the SOI. */
    if (status == SLUICE_OK)
        status = sluice_buf_create(pool, file->len - 2 + SLUICE_JPEG_CROP_HEAD, &result, err);
    if (status == SLUICE_OK) {
        sluice_jpeg_crop_put_head(result->data, &job.window);
        memcpy(result->data + SLUICE_JPEG_CROP_HEAD, file->data + 2, file->len - 2);
        result->len = file->len - 2 + SLUICE_JPEG_CROP_HEAD;
        *crop = result;
        *window = job.window;
    }
    sluice_buf_unref(job.sink.writer.file);
    return status;
}
