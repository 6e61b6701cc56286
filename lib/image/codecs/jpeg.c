#include "image/codecs/internal.h"
#include "image/codecs/libjpeg.h"

#include <stdlib.h>
#include <string.h>

struct decode_job {
    struct jpeg_decompress_struct cinfo;
    struct libjpeg_errors errors;
    struct jpeg_source_mgr source;
    struct libjpeg_watch watch;
    struct sluice_codec *codec;
    struct sluice_buf_pool *pool;
    struct sluice_buf *pixels; /* owned until the job has succeeded */
    uint32_t width, height;    /* of `pixels`; a second frame header may change cinfo's */
    uint64_t max_pixels;
    bool is_finishing; /* all pixels are decoded */
};

/* x / 255, rounded, for x in 0 .. 255 * 255. */
static unsigned div255(unsigned x)
{
    x += 128;
    return (x + (x >> 8)) >> 8;
}

/* Files with four components hold inverted inks, as Adobe writes them and Pillow
 * takes for granted; so `k` is already 255 - black, and so on. */
static void cmyk_to_rgb(const uint8_t *cmyk, uint32_t width, uint8_t *rgb)
{
    for (uint32_t x = 0; x < width; x++) {
        const unsigned k = cmyk[4 * x + 3];
        for (unsigned c = 0; c < 3; c++)
            rgb[3 * x + c] = (uint8_t)(k - div255((255u - cmyk[4 * x + c]) * k));
    }
}

/* At least `bytes` bytes at codec->row, contents undefined. */
static sluice_status reserve_row(struct sluice_codec *codec, size_t bytes, struct sluice_err *err)
{
    if (codec->row_capacity >= bytes)
        return SLUICE_OK;
    uint8_t *row = malloc(bytes);
    if (!row)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a row of %zu bytes", bytes);
    free(codec->row);
    codec->row = row;
    codec->row_capacity = bytes;
    return SLUICE_OK;
}

static sluice_status decode_cmyk_rows(struct decode_job *job, struct sluice_err *err)
{
    struct jpeg_decompress_struct *cinfo = &job->cinfo;
    const sluice_status status = reserve_row(job->codec, (size_t)cinfo->output_width * 4, err);
    if (status != SLUICE_OK)
        return status;
    while (cinfo->output_scanline < cinfo->output_height) {
        const size_t y = cinfo->output_scanline;
        JSAMPROW row = job->codec->row;
        jpeg_read_scanlines(cinfo, &row, 1);
        cmyk_to_rgb(row, cinfo->output_width, job->pixels->data + y * cinfo->output_width * 3);
    }
    return SLUICE_OK;
}

static void decode_rgb_rows(struct decode_job *job)
{
    struct jpeg_decompress_struct *cinfo = &job->cinfo;
    const size_t stride = (size_t)cinfo->output_width * 3;
    while (cinfo->output_scanline < cinfo->output_height) {
        JSAMPROW rows[16];
        const uint32_t left = cinfo->output_height - cinfo->output_scanline;
        const uint32_t num_rows =
            left < SLUICE_ARRAY_LEN(rows) ? left : (uint32_t)SLUICE_ARRAY_LEN(rows);
        for (uint32_t i = 0; i < num_rows; i++)
            rows[i] = job->pixels->data + (cinfo->output_scanline + i) * stride;
        jpeg_read_scanlines(cinfo, rows, num_rows);
    }
}

static sluice_status decode_job_run(struct decode_job *job, struct sluice_err *err)
{
    struct jpeg_decompress_struct *cinfo = &job->cinfo;
    if (setjmp(job->errors.on_error)) {
        /* The marker that ended the last scan may itself be truncated. */
        if (job->is_finishing && job->errors.base.msg_code == JERR_INPUT_EOF)
            return SLUICE_OK;
        if (job->watch.budget.is_spent)
            return sluice_decode_budget_fail(&job->watch.budget, err);
        return libjpeg_fail((j_common_ptr)cinfo, err);
    }
    jpeg_create_decompress(cinfo);
    cinfo->src = &job->source;

    /* A stream with tables only may come first. */
    while (jpeg_read_header(cinfo, FALSE) == JPEG_HEADER_TABLES_ONLY)
        continue;
    job->width = cinfo->image_width;
    job->height = cinfo->image_height;
    sluice_status status = sluice_image_check_size(job->width, job->height, job->max_pixels, err);
    if (status != SLUICE_OK)
        return status;

    if (cinfo->num_components == 4)
        cinfo->out_color_space = JCS_CMYK;
    else if (cinfo->num_components == 3 || cinfo->num_components == 1)
        cinfo->out_color_space = JCS_RGB;
    else
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "JPEG with %d components",
                           cinfo->num_components);
    status = libjpeg_check_scans(cinfo, err);
    if (status != SLUICE_OK)
        return status;
    libjpeg_watch_start(&job->watch, cinfo);
    /* The defaults are what Pillow uses: the accurate integer DCT, fancy upsampling. */
    status = sluice_image_alloc_rgb(job->pool, job->width, job->height, &job->pixels, err);
    if (status != SLUICE_OK)
        return status;
    jpeg_start_decompress(cinfo);
    if (cinfo->num_components == 4) {
        status = decode_cmyk_rows(job, err);
        if (status != SLUICE_OK)
            return status;
    } else {
        decode_rgb_rows(job);
    }
    job->is_finishing = true;
    jpeg_finish_decompress(cinfo); /* reads on to the EOI */
    return SLUICE_OK;
}

sluice_status sluice_jpeg_decode(struct sluice_codec *codec, const uint8_t *bytes, size_t len,
                                 uint64_t max_pixels, struct sluice_buf_pool *pool,
                                 struct sluice_rgb *rgb, struct sluice_err *err)
{
    struct decode_job job = {.codec = codec, .pool = pool, .max_pixels = max_pixels};
    libjpeg_source_init(&job.source, bytes, len);
    libjpeg_errors_init(&job.errors);
    job.cinfo.err = &job.errors.base;
    const sluice_status status = decode_job_run(&job, err);
    if (status == SLUICE_OK) {
        *rgb = (struct sluice_rgb){
            .width = job.width,
            .height = job.height,
            .pixels = job.pixels,
        };
    } else {
        sluice_buf_unref(job.pixels);
    }
    jpeg_destroy_decompress(&job.cinfo);
    return status;
}

/* Whether the entropy-coded data from `bytes` on, restart markers included, ends in EOI.  A decoder
 * that has come this far can then only go on to its end: it passes over damage in the data, and
 * reads nothing behind EOI. */
static bool scan_ends_in_eoi(const uint8_t *bytes, size_t len)
{
    const uint8_t *const end = bytes + len;
    while ((bytes = memchr(bytes, 0xFF, (size_t)(end - bytes)))) {
        while (bytes < end && *bytes == 0xFF)
            bytes++;
        if (bytes == end)
            return false;
        const unsigned marker = *bytes++;
        if (marker != 0 && (marker < JPEG_RST0 || marker > JPEG_RST0 + 7))
            return marker == JPEG_EOI;
    }
    return false;
}

struct region_job {
    struct jpeg_decompress_struct cinfo;
    struct libjpeg_errors errors;
    struct jpeg_source_mgr source;
    const struct sluice_image_info *info;
    const struct sluice_box *box;
    struct sluice_buf_pool *pool;
    struct sluice_buf *pixels; /* owned until the job has succeeded */
    uint8_t *row;              /* from cinfo's own memory: one row of the columns decoded */
};

/* libjpeg fails on a DC coefficient of more than 32 bits.  Rows that are not decoded here might
 * have one; this tells whether the file's tables allow it at all. */
static bool could_overflow_dc(const struct jpeg_decompress_struct *cinfo)
{
    for (int i = 0; i < cinfo->comps_in_scan; i++) {
        const jpeg_component_info *component = cinfo->cur_comp_info[i];
        const JHUFF_TBL *table = cinfo->dc_huff_tbl_ptrs[component->dc_tbl_no];
        unsigned num_symbols = 0, largest = 0;
        for (int bits = 1; bits <= 16; bits++)
            num_symbols += table->bits[bits];
        for (unsigned k = 0; k < num_symbols && k < SLUICE_ARRAY_LEN(table->huffval); k++)
            largest = table->huffval[k] > largest ? table->huffval[k] : largest;
        const uint64_t num_blocks = (uint64_t)cinfo->MCUs_per_row * cinfo->MCU_rows_in_scan *
                                    (uint64_t)component->MCU_blocks;
        if (largest > 15 || num_blocks * ((1u << largest) - 1) > INT32_MAX)
            return true;
    }
    return false;
}

/* Whether the file is one scan of all components, which libjpeg decodes row by row, with a sampling
 * for which the margin of columns suffices. */
static bool can_decode_region(const struct jpeg_decompress_struct *cinfo)
{
    if (cinfo->progressive_mode || cinfo->arith_code ||
        cinfo->comps_in_scan != cinfo->num_components || could_overflow_dc(cinfo))
        return false;
    if (cinfo->num_components == 1)
        return cinfo->comp_info[0].h_samp_factor == 1 && cinfo->comp_info[0].v_samp_factor == 1;
    const jpeg_component_info *components = cinfo->comp_info;
    return cinfo->num_components == 3 && components[1].h_samp_factor == 1 &&
           components[1].v_samp_factor == 1 && components[2].h_samp_factor == 1 &&
           components[2].v_samp_factor == 1 && components[0].h_samp_factor != 3 &&
           components[0].v_samp_factor != 3;
}

/* Skips rows above the box and columns outside it, but for one MCU on either side: upsampling needs
 * a neighbour, and treats the last column as the image's edge. */
static void decode_region_rows(struct region_job *job)
{
    struct jpeg_decompress_struct *cinfo = &job->cinfo;
    const struct sluice_box *box = job->box;
    const uint32_t mcu_width = (uint32_t)cinfo->max_h_samp_factor * DCTSIZE;
    const uint32_t left = box->left / mcu_width * mcu_width;
    JDIMENSION first = left > mcu_width ? left - mcu_width : 0;
    const uint32_t right = box->left + box->width;
    const uint32_t margin = mcu_width + (mcu_width - right % mcu_width) % mcu_width;
    const uint32_t end =
        cinfo->output_width - right > margin ? right + margin : cinfo->output_width;
    if (end - first < cinfo->output_width) {
        JDIMENSION width = end - first;
        jpeg_crop_scanline(cinfo, &first, &width);
    }
    job->row =
        cinfo->mem->alloc_large((j_common_ptr)cinfo, JPOOL_IMAGE, (size_t)cinfo->output_width * 3);
    if (box->top > 0)
        jpeg_skip_scanlines(cinfo, box->top);
    const size_t row_bytes = (size_t)box->width * 3;
    for (uint32_t y = 0; y < box->height; y++) {
        JSAMPROW row = job->row;
        jpeg_read_scanlines(cinfo, &row, 1);
        memcpy(job->pixels->data + y * row_bytes, row + (size_t)(box->left - first) * 3, row_bytes);
    }
}

static bool region_job_run(struct region_job *job)
{
    struct jpeg_decompress_struct *cinfo = &job->cinfo;
    if (setjmp(job->errors.on_error))
        return false;
    jpeg_create_decompress(cinfo);
    cinfo->src = &job->source;
    if (jpeg_read_header(cinfo, FALSE) != JPEG_HEADER_OK ||
        cinfo->image_width != job->info->width || cinfo->image_height != job->info->height)
        return false;
    cinfo->out_color_space = JCS_RGB;
    if (cinfo->num_components != job->info->num_components || cinfo->num_components > 3 ||
        jpeg_has_multiple_scans(cinfo))
        return false;
    jpeg_start_decompress(cinfo);
    if (!can_decode_region(cinfo) ||
        sluice_image_alloc_rgb(job->pool, job->box->width, job->box->height, &job->pixels, NULL) !=
            SLUICE_OK)
        return false;
    decode_region_rows(job);
    if (cinfo->unread_marker != 0 &&
        (cinfo->unread_marker < JPEG_RST0 || cinfo->unread_marker > JPEG_RST0 + 7))
        return cinfo->unread_marker == JPEG_EOI;
    return scan_ends_in_eoi(job->source.next_input_byte, job->source.bytes_in_buffer);
}

bool sluice_jpeg_decode_region(const struct sluice_image_info *info, const uint8_t *bytes,
                               size_t len, const struct sluice_box *box,
                               struct sluice_buf_pool *pool, struct sluice_rgb *rgb)
{
    struct region_job job = {.info = info, .box = box, .pool = pool};
    libjpeg_source_init(&job.source, bytes, len);
    libjpeg_errors_init(&job.errors);
    job.cinfo.err = &job.errors.base;
    const bool is_done = region_job_run(&job);
    if (is_done)
        *rgb = (struct sluice_rgb){box->width, box->height, job.pixels};
    else
        sluice_buf_unref(job.pixels);
    jpeg_destroy_decompress(&job.cinfo);
    return is_done;
}

/* Luma's sampling factor over chroma's where that is a whole number. */
static uint8_t sampling_ratio(unsigned luma, unsigned chroma)
{
    return chroma > 0 && luma % chroma == 0 ? (uint8_t)(luma / chroma) : 1;
}

static sluice_status read_sof(const uint8_t *segment, size_t len, unsigned marker,
                              struct sluice_image_info *info, struct sluice_err *err)
{
    /* SOF0..2: Huffman; SOF9 and 10: arithmetic.  The rest is lossless or hierarchical. */
    if (marker != 0xC0 && marker != 0xC1 && marker != 0xC2 && marker != 0xC9 && marker != 0xCA)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "JPEG of an unsupported process (SOF%u)",
                           marker - 0xC0);
    const sluice_status status = sluice_jpeg_check_frame(segment, len, err);
    if (status != SLUICE_OK)
        return status;
    const unsigned num_components = segment[5];
    *info = (struct sluice_image_info){
        .format = SLUICE_IMAGE_JPEG,
        .width = sluice_be16(segment + 3),
        .height = sluice_be16(segment + 1),
        .num_components = (uint8_t)num_components,
        .h_samp = 1,
        .v_samp = 1,
        .is_progressive = marker == 0xC2 || marker == 0xCA,
    };
    if (num_components > 1) {
        info->h_samp = sampling_ratio(segment[7] >> 4, segment[10] >> 4);
        info->v_samp = sampling_ratio(segment[7] & 15, segment[10] & 15);
    }
    return SLUICE_OK;
}

static bool is_frame_header(unsigned marker)
{
    return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}

/* Looks for the frame header. */
static sluice_status probe(const uint8_t *bytes, size_t len, struct sluice_image_info *info,
                           struct sluice_err *err)
{
    size_t pos = 2;
    struct sluice_jpeg_segment segment;
    while (sluice_jpeg_next_segment(bytes, len, &pos, &segment)) {
        if (segment.marker < 0xC0)
            return sluice_fail(err, SLUICE_E_CORRUPT, "JPEG with the unknown marker 0x%02x",
                               segment.marker);
        if (segment.body && segment.marker == 0xDA)
            return sluice_fail(err, SLUICE_E_CORRUPT, "JPEG scan before any frame header");
        if (!segment.body || !segment.is_whole)
            break;
        if (is_frame_header(segment.marker))
            return read_sof(segment.body, segment.len, segment.marker, info, err);
    }
    return sluice_fail(err, SLUICE_E_CORRUPT, "JPEG cut before its frame header, at %zu bytes",
                       len);
}

const struct sluice_image_type sluice_image_jpeg = {.probe = probe};
