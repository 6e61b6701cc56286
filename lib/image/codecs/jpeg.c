/* The one door to libjpeg(-turbo). */

#include "base/buf.h"
#include "image/codecs/codec.h"
#include "image/codecs/decode_budget.h"
#include "image/codecs/internal.h"
#include "image/jpeg/crop_write.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jerror.h>
#include <jpeglib.h>

/* libjpeg reports an error by calling error_exit, which must not return: it jumps
 * back to the function that called libjpeg.  Everything that must survive the
 * jump lives in a job struct, never in a local variable. */
struct error_manager {
    struct jpeg_error_mgr base;
    jmp_buf on_error;
};

#define MARKER_SOS 0xDA
#define MARKER_FIRST_SEGMENT 0xC0

static void jump_out(j_common_ptr cinfo)
{
    struct error_manager *manager = SLUICE_CONTAINER_OF(cinfo->err, struct error_manager, base);
    longjmp(manager->on_error, 1);
}

/* Warnings (a wrong Huffman code, bytes before a marker) are passed over: Pillow
 * takes what libjpeg makes of such a file. */
static void ignore_message(j_common_ptr cinfo, int level)
{
    (void)cinfo, (void)level;
}

static void error_manager_init(struct error_manager *manager)
{
    jpeg_std_error(&manager->base);
    manager->base.error_exit = jump_out;
    manager->base.emit_message = ignore_message;
}

/* libjpeg calls the monitor before each row of MCUs that it reads, in each scan, and before the
 * rows that it gives. */
struct watch {
    struct jpeg_progress_mgr progress;
    struct sluice_decode_budget budget;
};

static void watch_row(j_common_ptr common)
{
    const struct jpeg_decompress_struct *cinfo = (j_decompress_ptr)common;
    struct watch *watch = SLUICE_CONTAINER_OF(cinfo->progress, struct watch, progress);
    if (sluice_decode_budget_spend(&watch->budget, (uint64_t)cinfo->image_width *
                                                       (unsigned)cinfo->max_v_samp_factor *
                                                       DCTSIZE))
        jump_out(common);
}

/* Once the header has been read. */
static void watch_start(struct watch *watch, struct jpeg_decompress_struct *cinfo)
{
    watch->progress.progress_monitor = watch_row;
    sluice_decode_budget_start(&watch->budget, (uint64_t)cinfo->image_width * cinfo->image_height);
    cinfo->progress = &watch->progress;
}

/* After a jump: returns the status and sets the text of libjpeg's error. */
static sluice_status fail_with_message(j_common_ptr cinfo, struct sluice_err *err)
{
    char text[JMSG_LENGTH_MAX];
    cinfo->err->format_message(cinfo, text);
    sluice_status status = SLUICE_E_CORRUPT;
    switch (cinfo->err->msg_code) {
    case JERR_OUT_OF_MEMORY:
        status = SLUICE_E_NO_MEMORY;
        break;
    case JERR_BAD_PRECISION:
    case JERR_IMAGE_TOO_BIG:
    case JERR_SOF_UNSUPPORTED:
    case JERR_ARITH_NOTIMPL:
    case JERR_CCIR601_NOTIMPL:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_FRACT_SAMPLE_NOTIMPL:
    case JERR_NOTIMPL:
    case JERR_NOT_COMPILED:
        status = SLUICE_E_UNSUPPORTED;
        break;
    default:
        break;
    }
    return sluice_fail(err, status, "JPEG: %s", text);
}

/* The input is one piece of memory.  Unlike jpeg_mem_src, which makes up an EOI
 * at the end, running out of bytes is an error.  The last MCU cannot be decoded
 * without the marker that stops it, so this finds a file that lacks its EOI alone. */
static void source_nothing(j_decompress_ptr cinfo)
{
    (void)cinfo;
}

static boolean source_end(j_decompress_ptr cinfo)
{
    ERREXIT(cinfo, JERR_INPUT_EOF);
    return FALSE;
}

static void source_skip(j_decompress_ptr cinfo, long num_bytes)
{
    if (num_bytes <= 0)
        return;
    if ((unsigned long)num_bytes > cinfo->src->bytes_in_buffer)
        ERREXIT(cinfo, JERR_INPUT_EOF);
    cinfo->src->next_input_byte += num_bytes;
    cinfo->src->bytes_in_buffer -= (size_t)num_bytes;
}

static void source_init(struct jpeg_source_mgr *source, const uint8_t *bytes, size_t len)
{
    *source = (struct jpeg_source_mgr){
        .next_input_byte = bytes,
        .bytes_in_buffer = len,
        .init_source = source_nothing,
        .fill_input_buffer = source_end,
        .skip_input_data = source_skip,
        .resync_to_restart = jpeg_resync_to_restart,
        .term_source = source_nothing,
    };
}

/* The number of scans from the one on whose header has been read.  `bytes` follows that header. */
static uint64_t count_scans(const uint8_t *bytes, size_t len)
{
    const uint8_t *const end = bytes + len;
    uint64_t num_scans = 1;
    while ((bytes = memchr(bytes, 0xFF, (size_t)(end - bytes)))) {
        while (bytes < end && *bytes == 0xFF)
            bytes++;
        if (bytes == end)
            break;
        const unsigned marker = *bytes++;
        if (marker == JPEG_EOI)
            break;
        num_scans += marker == MARKER_SOS;
        /* Stuffed bytes and RSTn stand alone; other markers begin a segment with its length. */
        if (marker < MARKER_FIRST_SEGMENT || (marker >= JPEG_RST0 && marker <= JPEG_RST0 + 7))
            continue;
        if (end - bytes < 2 || (size_t)(end - bytes) < sluice_be16(bytes))
            break;
        bytes += sluice_be16(bytes);
    }
    return num_scans;
}

/* Each scan of a file with several of them goes over the whole image. */
static sluice_status check_scans(struct jpeg_decompress_struct *cinfo, struct sluice_err *err)
{
    if (!jpeg_has_multiple_scans(cinfo))
        return SLUICE_OK;
    return sluice_decode_check_scans(
        (uint64_t)cinfo->image_width * cinfo->image_height,
        count_scans(cinfo->src->next_input_byte, cinfo->src->bytes_in_buffer), err);
}

struct decode_job {
    struct jpeg_decompress_struct cinfo;
    struct error_manager errors;
    struct jpeg_source_mgr source;
    struct watch watch;
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
        return fail_with_message((j_common_ptr)cinfo, err);
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
    status = check_scans(cinfo, err);
    if (status != SLUICE_OK)
        return status;
    watch_start(&job->watch, cinfo);
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
    source_init(&job.source, bytes, len);
    error_manager_init(&job.errors);
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
    struct error_manager errors;
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
    source_init(&job.source, bytes, len);
    error_manager_init(&job.errors);
    job.cinfo.err = &job.errors.base;
    const bool is_done = region_job_run(&job);
    if (is_done)
        *rgb = (struct sluice_rgb){box->width, box->height, job.pixels};
    else
        sluice_buf_unref(job.pixels);
    jpeg_destroy_decompress(&job.cinfo);
    return is_done;
}

struct encode_job {
    struct jpeg_compress_struct cinfo;
    struct error_manager errors;
    struct jpeg_destination_mgr destination;
    struct sluice_image_writer writer;
    uint8_t *row; /* from cinfo's own memory; NULL unless rows are converted */
    sluice_status writer_status;
    struct sluice_err *err;
};

/* Offers libjpeg the free part of the buffer, at least `room` bytes of it. */
static void destination_offer(j_compress_ptr cinfo, size_t room)
{
    struct encode_job *job = SLUICE_CONTAINER_OF(cinfo, struct encode_job, cinfo);
    job->writer_status = sluice_image_writer_reserve(&job->writer, room, job->err);
    if (job->writer_status != SLUICE_OK)
        ERREXIT1(cinfo, JERR_OUT_OF_MEMORY, 0);
    struct sluice_buf *file = job->writer.file;
    job->destination.next_output_byte = file->data + file->len;
    job->destination.free_in_buffer = file->capacity - file->len;
}

static void destination_start(j_compress_ptr cinfo)
{
    destination_offer(cinfo, 1);
}

static boolean destination_full(j_compress_ptr cinfo)
{
    struct encode_job *job = SLUICE_CONTAINER_OF(cinfo, struct encode_job, cinfo);
    job->writer.file->len = job->writer.file->capacity; /* libjpeg counts all of it as full */
    destination_offer(cinfo, 1);
    return TRUE;
}

static void destination_end(j_compress_ptr cinfo)
{
    struct encode_job *job = SLUICE_CONTAINER_OF(cinfo, struct encode_job, cinfo);
    job->writer.file->len = job->writer.file->capacity - job->destination.free_in_buffer;
}

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
        if (job->writer_status != SLUICE_OK)
            return job->writer_status;
        const sluice_status status = fail_with_message((j_common_ptr)cinfo, job->err);
        return status == SLUICE_E_NO_MEMORY ? status : SLUICE_E_INVALID;
    }
    jpeg_create_compress(cinfo);
    cinfo->dest = &job->destination;
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
    struct encode_job job = {
        .destination =
            {
                .init_destination = destination_start,
                .empty_output_buffer = destination_full,
                .term_destination = destination_end,
            },
        .err = err,
    };
    error_manager_init(&job.errors);
    job.cinfo.err = &job.errors.base;
    const sluice_status status = encode_job_run(&job, rgb, width, height, options);
    jpeg_destroy_compress(&job.cinfo);
    if (status == SLUICE_OK)
        *file = job.writer.file;
    else
        sluice_buf_unref(job.writer.file);
    return status;
}

/* --- cropping through the coefficients --- */

struct crop_job {
    struct error_manager errors;
    struct jpeg_decompress_struct in;
    struct jpeg_source_mgr source;
    struct watch watch;
    struct encode_job out; /* its cinfo, destination and writer; its errors are not used */
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
    struct jpeg_compress_struct *out = &job->out.cinfo;
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
                                  const struct sluice_jpeg_crop_options *options,
                                  uint64_t max_pixels, struct sluice_err *err)
{
    struct jpeg_decompress_struct *in = &job->in;
    struct jpeg_compress_struct *out = &job->out.cinfo;
    if (setjmp(job->errors.on_error)) {
        if (job->out.writer_status != SLUICE_OK)
            return job->out.writer_status;
        if (job->watch.budget.is_spent)
            return sluice_decode_budget_fail(&job->watch.budget, err);
        const sluice_status status = fail_with_message((j_common_ptr)in, err);
        /* An error of the compressor does not mean that the file is corrupt. */
        return status == SLUICE_E_NO_MEMORY ? status : SLUICE_E_UNSUPPORTED;
    }
    jpeg_create_decompress(in);
    in->src = &job->source;
    jpeg_create_compress(out);
    out->dest = &job->out.destination;

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
    status = check_scans(in, err);
    if (status != SLUICE_OK)
        return status;
    const uint32_t width = in->image_width, height = in->image_height;
    watch_start(&job->watch, in);
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
    out->restart_in_rows = options->restart_interval ? 0 : 1;
    out->restart_interval = options->restart_interval;
    out->optimize_coding = options->optimal_huffman ? TRUE : FALSE;
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
                                       const struct sluice_box *box,
                                       const struct sluice_jpeg_crop_options *options,
                                       uint64_t max_pixels, struct sluice_buf_pool *pool,
                                       struct sluice_buf **crop,
                                       struct sluice_jpeg_crop_box *window, struct sluice_err *err)
{
    struct crop_job job = {
        .out =
            {
                .destination =
                    {
                        .init_destination = destination_start,
                        .empty_output_buffer = destination_full,
                        .term_destination = destination_end,
                    },
                .err = err,
            },
    };
    source_init(&job.source, bytes, len);
    error_manager_init(&job.errors);
    job.errors.base.emit_message = count_warning;
    job.in.err = job.out.cinfo.err = &job.errors.base;
    sluice_status status = crop_job_run(&job, box, options, max_pixels, err);
    jpeg_destroy_compress(&job.out.cinfo);
    jpeg_destroy_decompress(&job.in);
    const struct sluice_buf *file = job.out.writer.file;
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
    sluice_buf_unref(job.out.writer.file);
    return status;
}
