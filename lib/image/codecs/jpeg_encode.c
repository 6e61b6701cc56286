#include "image/codecs/codec.h"
#include "image/codecs/libjpeg.h"

struct encode_job {
    struct jpeg_compress_struct cinfo;
    struct libjpeg_errors errors;
    struct libjpeg_sink sink;
    uint8_t *row; /* from cinfo's own memory; NULL unless rows are converted */
};

/* Full grey-component replacement: what the three inks have in common becomes black.  Written
 * inverted, as Adobe does. */
static void rgb_to_inverted_cmyk(const uint8_t *rgb, uint32_t width, uint8_t *cmyk)
{
    for (uint32_t x = 0; x < width; x++) {
        const uint8_t *p = rgb + 3 * (size_t)x;
        unsigned k = p[0] > p[1] ? p[0] : p[1];
        k = k > p[2] ? k : p[2];
        for (unsigned c = 0; c < 3; c++)
            cmyk[4 * (size_t)x + c] = (uint8_t)(k > 0 ? (p[c] * 255u + k / 2) / k : 255);
        cmyk[4 * (size_t)x + 3] = (uint8_t)k;
    }
}

static sluice_status encode_job_run(struct encode_job *job, const uint8_t *rgb, uint32_t width,
                                    uint32_t height,
                                    const struct sluice_jpeg_encode_options *options)
{
    struct jpeg_compress_struct *cinfo = &job->cinfo;
    if (setjmp(job->errors.on_error)) {
        if (job->sink.status != SLUICE_OK)
            return job->sink.status;
        const sluice_status status = libjpeg_fail((j_common_ptr)cinfo, job->sink.err);
        return status == SLUICE_E_NO_MEMORY ? status : SLUICE_E_INVALID;
    }
    jpeg_create_compress(cinfo);
    cinfo->dest = &job->sink.base;
    cinfo->image_width = width;
    cinfo->image_height = height;
    const bool has_inks = options->is_cmyk || options->is_ycck;
    cinfo->input_components = has_inks ? 4 : 3;
    cinfo->in_color_space = has_inks ? JCS_CMYK : JCS_RGB;
    jpeg_set_defaults(cinfo);
    if (options->is_gray)
        jpeg_set_colorspace(cinfo, JCS_GRAYSCALE);
    if (options->is_ycck)
        jpeg_set_colorspace(cinfo, JCS_YCCK);
    jpeg_set_quality(cinfo, options->quality ? options->quality : 90, TRUE);
    if (!options->is_gray && !options->is_cmyk) {
        cinfo->comp_info[0].h_samp_factor = options->h_samp ? options->h_samp : 2;
        cinfo->comp_info[0].v_samp_factor = options->v_samp ? options->v_samp : 2;
        if (options->is_ycck) {
            cinfo->comp_info[3].h_samp_factor = cinfo->comp_info[0].h_samp_factor;
            cinfo->comp_info[3].v_samp_factor = cinfo->comp_info[0].v_samp_factor;
        }
    }
    cinfo->optimize_coding = options->optimize ? TRUE : FALSE;
    cinfo->restart_in_rows = (int)options->restart_rows;
    if (options->is_progressive)
        jpeg_simple_progression(cinfo);
    jpeg_start_compress(cinfo, TRUE);
    if (has_inks)
        job->row =
            (uint8_t *)cinfo->mem->alloc_large((j_common_ptr)cinfo, JPOOL_IMAGE, (size_t)width * 4);
    while (cinfo->next_scanline < height) {
        const uint8_t *in = rgb + (size_t)cinfo->next_scanline * width * 3;
        JSAMPROW row = (JSAMPROW)in;
        if (has_inks) {
            rgb_to_inverted_cmyk(in, width, job->row);
            row = job->row;
        }
        jpeg_write_scanlines(cinfo, &row, 1);
    }
    jpeg_finish_compress(cinfo);
    return SLUICE_OK;
}

sluice_status sluice_jpeg_encode(const uint8_t *rgb, uint32_t width, uint32_t height,
                                 const struct sluice_jpeg_encode_options *options,
                                 struct sluice_buf **file, struct sluice_err *err)
{
    if (width < 1 || height < 1 || width > JPEG_MAX_DIMENSION || height > JPEG_MAX_DIMENSION)
        return sluice_fail(err, SLUICE_E_INVALID, "cannot write a JPEG of %u x %u pixels", width,
                           height);
    if (options->quality < 0 || options->quality > 100)
        return sluice_fail(err, SLUICE_E_INVALID, "JPEG quality %d is not in 1 .. 100",
                           options->quality);
    if (options->h_samp < 0 || options->h_samp > 4 || options->v_samp < 0 || options->v_samp > 4)
        return sluice_fail(err, SLUICE_E_INVALID, "JPEG sampling %d x %d is not in 1 .. 4",
                           options->h_samp, options->v_samp);
    if (options->is_gray + options->is_cmyk + options->is_ycck > 1)
        return sluice_fail(err, SLUICE_E_INVALID, "a JPEG is one of gray, CMYK and YCCK");
    if (options->restart_rows > 65535)
        return sluice_fail(err, SLUICE_E_INVALID, "JPEG restart interval of %u rows",
                           options->restart_rows);
    struct encode_job job = {.row = NULL};
    libjpeg_sink_init(&job.sink, err);
    libjpeg_errors_init(&job.errors);
    job.cinfo.err = &job.errors.base;
    const sluice_status status = encode_job_run(&job, rgb, width, height, options);
    jpeg_destroy_compress(&job.cinfo);
    if (status == SLUICE_OK)
        *file = job.sink.writer.file;
    else
        sluice_buf_unref(job.sink.writer.file);
    return status;
}
