#include "image/codecs/libjpeg.h"

#include <string.h>

#define MARKER_SOS 0xDA
#define MARKER_FIRST_SEGMENT 0xC0

static void jump_out(j_common_ptr cinfo)
{
    struct libjpeg_errors *errors = SLUICE_CONTAINER_OF(cinfo->err, struct libjpeg_errors, base);
    longjmp(errors->on_error, 1);
}

/* Warnings (a wrong Huffman code, bytes before a marker) are passed over: Pillow
 * takes what libjpeg makes of such a file. */
static void ignore_message(j_common_ptr cinfo, int level)
{
    (void)cinfo, (void)level;
}

void libjpeg_errors_init(struct libjpeg_errors *errors)
{
    jpeg_std_error(&errors->base);
    errors->base.error_exit = jump_out;
    errors->base.emit_message = ignore_message;
}

static void watch_row(j_common_ptr common)
{
    const struct jpeg_decompress_struct *cinfo = (j_decompress_ptr)common;
    struct libjpeg_watch *watch =
        SLUICE_CONTAINER_OF(cinfo->progress, struct libjpeg_watch, progress);
    if (sluice_decode_budget_spend(&watch->budget, (uint64_t)cinfo->image_width *
                                                       (unsigned)cinfo->max_v_samp_factor *
                                                       DCTSIZE))
        jump_out(common);
}

void libjpeg_watch_start(struct libjpeg_watch *watch, struct jpeg_decompress_struct *cinfo)
{
    watch->progress.progress_monitor = watch_row;
    sluice_decode_budget_start(&watch->budget, (uint64_t)cinfo->image_width * cinfo->image_height);
    cinfo->progress = &watch->progress;
}

sluice_status libjpeg_fail(j_common_ptr cinfo, struct sluice_err *err)
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

void libjpeg_source_init(struct jpeg_source_mgr *source, const uint8_t *bytes, size_t len)
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

sluice_status libjpeg_check_scans(struct jpeg_decompress_struct *cinfo, struct sluice_err *err)
{
    if (!jpeg_has_multiple_scans(cinfo))
        return SLUICE_OK;
    return sluice_decode_check_scans(
        (uint64_t)cinfo->image_width * cinfo->image_height,
        count_scans(cinfo->src->next_input_byte, cinfo->src->bytes_in_buffer), err);
}

/* Offers libjpeg the free part of the buffer, at least `room` bytes of it. */
static void destination_offer(j_compress_ptr cinfo, size_t room)
{
    struct libjpeg_sink *sink = SLUICE_CONTAINER_OF(cinfo->dest, struct libjpeg_sink, base);
    sink->status = sluice_image_writer_reserve(&sink->writer, room, sink->err);
    if (sink->status != SLUICE_OK)
        ERREXIT1(cinfo, JERR_OUT_OF_MEMORY, 0);
    struct sluice_buf *file = sink->writer.file;
    sink->base.next_output_byte = file->data + file->len;
    sink->base.free_in_buffer = file->capacity - file->len;
}

static void destination_start(j_compress_ptr cinfo)
{
    destination_offer(cinfo, 1);
}

static boolean destination_full(j_compress_ptr cinfo)
{
    struct libjpeg_sink *sink = SLUICE_CONTAINER_OF(cinfo->dest, struct libjpeg_sink, base);
    sink->writer.file->len = sink->writer.file->capacity; /* libjpeg counts all of it as full */
    destination_offer(cinfo, 1);
    return TRUE;
}

static void destination_end(j_compress_ptr cinfo)
{
    struct libjpeg_sink *sink = SLUICE_CONTAINER_OF(cinfo->dest, struct libjpeg_sink, base);
    sink->writer.file->len = sink->writer.file->capacity - sink->base.free_in_buffer;
}

void libjpeg_sink_init(struct libjpeg_sink *sink, struct sluice_err *err)
{
    *sink = (struct libjpeg_sink){
        .base =
            {
                .init_destination = destination_start,
                .empty_output_buffer = destination_full,
                .term_destination = destination_end,
            },
        .err = err,
    };
}
