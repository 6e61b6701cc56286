#include "image/jpeg/index.h"

#include "base/array.h"
#include "base/buf.h"
#include "base/hash.h"
#include "image/jpeg/index_bytes.h"

#include <stdlib.h>
#include <string.h>

#define VERSION 2

/* No more bytes than these are read from EOI and its fill bytes on. */
#define TAIL_BYTES 64

/* Bytes; parts of a file with at most this gap between them are read as one.  A page. */
#define PART_GAP 4096

/* --- making --- */

/* Maps positions in the unstuffed scan to offsets in the file, in ascending order. */
struct file_position {
    const uint8_t *raw;
    size_t unstuffed;
};

static bool is_stuffed_or_plain(const uint8_t *raw)
{
    return raw[0] != 0xFF || raw[1] == 0;
}

/* Moves on to byte `wanted` of the unstuffed scan, which belongs to an MCU, so that any marker
 * before it is passed.  The scan was read before, so it is known to end in EOI. */
static void go_to(struct file_position *position, size_t wanted)
{
    for (;;) {
        while (!is_stuffed_or_plain(position->raw)) {
            while (*position->raw == 0xFF)
                position->raw++;
            position->raw++;
        }
        if (position->unstuffed == wanted)
            return;
        position->raw += *position->raw == 0xFF ? 2 : 1;
        position->unstuffed++;
    }
}

struct maker {
    const struct sluice_jpeg *jpeg;
    const struct sluice_jpeg_scan *scan;
    struct sluice_jpeg_lookup dc[4], ac[4];
    struct sluice_jpeg_bits in;
    size_t segment, end_bits;
    uint32_t mcus_left;
    int32_t predictors[SLUICE_JPEG_MAX_COMPONENTS];
};

static bool pass_block(struct maker *maker, unsigned component)
{
    struct sluice_jpeg_bits *in = &maker->in;
    sluice_jpeg_bits_refill(in);
    unsigned entry =
        sluice_jpeg_bits_peek_symbol(in, &maker->dc[maker->jpeg->components[component].dc]);
    if (entry == 0)
        return false;
    sluice_jpeg_bits_skip(in, entry >> 8);
    int32_t *dc = &maker->predictors[component];
    *dc += sluice_jpeg_extend(in->bits, entry & 15);
    sluice_jpeg_bits_skip(in, entry & 15);
    if (*dc > INT16_MAX || *dc < INT16_MIN)
        return false;
    const struct sluice_jpeg_lookup *ac = &maker->ac[maker->jpeg->components[component].ac];
    for (unsigned k = 1; k < 64; k++) {
        sluice_jpeg_bits_refill(in);
        entry = sluice_jpeg_bits_peek_symbol(in, ac);
        const unsigned size = entry & 15, run = entry >> 4 & 15;
        if (entry == 0)
            return false;
        sluice_jpeg_bits_skip(in, (entry >> 8) + size);
        if (size == 0 && run < 15)
            return run == 0;
        k += run;
        if (k > 63)
            return false;
    }
    return true;
}

static bool pass_mcu(struct maker *maker)
{
    for (unsigned b = 0; b < maker->jpeg->blocks_in_mcu; b++) {
        if (!pass_block(maker, maker->jpeg->block_component[b]))
            return false;
    }
    return sluice_jpeg_bits_position(&maker->in, maker->scan->data->data) <= maker->end_bits;
}

static bool start_segment(struct maker *maker)
{
    const struct sluice_jpeg_scan *scan = maker->scan;
    if (maker->segment == scan->num_segments)
        return false;
    sluice_jpeg_bits_start(&maker->in, sluice_jpeg_segment_start(scan, maker->segment));
    maker->end_bits = scan->segment_ends[maker->segment++] * 8;
    maker->mcus_left = maker->jpeg->restart_interval ? maker->jpeg->restart_interval : UINT32_MAX;
    memset(maker->predictors, 0, sizeof(maker->predictors));
    return true;
}

static bool fill_points(struct maker *maker, const uint8_t *bytes, struct sluice_jpeg_index *index)
{
    const struct sluice_jpeg *jpeg = maker->jpeg;
    struct file_position position = {.raw = jpeg->scan};
    struct sluice_jpeg_index_point *point = index->points;
    for (uint32_t row = 0; row < jpeg->mcus_down; row++) {
        for (uint32_t column = 0; column < jpeg->mcus_across; column++) {
            if (maker->mcus_left == 0 && !start_segment(maker))
                return false;
            const size_t start = sluice_jpeg_bits_position(&maker->in, maker->scan->data->data);
            int32_t predictors[SLUICE_JPEG_MAX_COMPONENTS];
            memcpy(predictors, maker->predictors, sizeof(predictors));
            /* Parse the MCU first: then its first byte is known to exist. */
            if (!pass_mcu(maker))
                return false;
            maker->mcus_left -= jpeg->restart_interval > 0;
            if (column % index->step != 0)
                continue;
            go_to(&position, start / 8);
            point->offset = (uint32_t)(position.raw - bytes);
            point->bit = start % 8;
            for (unsigned c = 0; c < jpeg->num_components; c++)
                point->dc[c] = (int16_t)predictors[c];
            point++;
        }
    }
    return true;
}

/* The offset of EOI, or of the fill bytes before it. */
static uint32_t find_end(const struct sluice_jpeg *jpeg, const uint8_t *bytes)
{
    const uint8_t *at = jpeg->scan;
    for (;;) {
        at = memchr(at, 0xFF, (size_t)(jpeg->scan + jpeg->scan_len - at));
        const uint8_t *mark = at;
        while (*at == 0xFF)
            at++;
        if (*at++ == 0xD9)
            return (uint32_t)(mark - bytes);
    }
}

uint32_t sluice_jpeg_index_end_before(const struct sluice_jpeg_index *index, const uint8_t *bytes,
                                      uint32_t row, uint32_t point)
{
    const size_t i = (size_t)row * index->points_across + point;
    if (i == (size_t)index->mcus_down * index->points_across)
        return index->scan_end;
    const struct sluice_jpeg_index_point *at = &index->points[i];
    if (at->bit == 0)
        return at->offset;
    return at->offset + (bytes[at->offset] == 0xFF ? 2 : 1);
}

static uint32_t hash_row(const struct sluice_jpeg_index *index, const uint8_t *bytes, uint32_t row)
{
    const uint32_t from = index->points[(size_t)row * index->points_across].offset;
    return (uint32_t)sluice_hash64(bytes + from,
                                   sluice_jpeg_index_end_before(index, bytes, row + 1, 0) - from);
}

static sluice_status allocate(struct sluice_jpeg_index *index, struct sluice_err *err)
{
    const size_t num_points = (size_t)index->mcus_down * index->points_across;
    index->points = calloc(num_points, sizeof(*index->points));
    index->row_hashes = calloc(index->mcus_down, sizeof(*index->row_hashes));
    if (!index->points || !index->row_hashes)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for an index of %zu points",
                           num_points);
    return SLUICE_OK;
}

static sluice_status fill_index(const struct sluice_jpeg *jpeg, const uint8_t *bytes,
                                struct sluice_jpeg_index *index, struct sluice_err *err)
{
    struct sluice_jpeg_scan scan = {0};
    struct maker *maker = calloc(1, sizeof(*maker));
    if (!maker)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for Huffman tables");
    sluice_status status = allocate(index, err);
    if (status == SLUICE_OK)
        status = sluice_jpeg_scan_read(jpeg, NULL, &scan, err);
    if (status == SLUICE_OK) {
        maker->jpeg = jpeg;
        maker->scan = &scan;
        for (unsigned c = 0; c < jpeg->num_components; c++) {
            const struct sluice_jpeg_component *component = &jpeg->components[c];
            sluice_jpeg_lookup_init(&maker->dc[component->dc], &jpeg->dc[component->dc]);
            sluice_jpeg_lookup_init(&maker->ac[component->ac], &jpeg->ac[component->ac]);
        }
        if (!fill_points(maker, bytes, index))
            status = sluice_fail(err, SLUICE_E_CORRUPT, "JPEG scan is damaged");
    }
    if (status == SLUICE_OK) {
        index->scan_end = find_end(jpeg, bytes);
        for (uint32_t row = 0; row < index->mcus_down; row++)
            index->row_hashes[row] = hash_row(index, bytes, row);
    }
    sluice_jpeg_scan_clear(&scan);
    free(maker);
    return status;
}

sluice_status sluice_jpeg_index_build(const uint8_t *bytes, size_t len, int64_t mtime_ns,
                                      uint32_t step, struct sluice_jpeg_index *out,
                                      struct sluice_err *err)
{
    struct sluice_jpeg jpeg;
    sluice_status status = sluice_jpeg_parse(bytes, len, &jpeg, err);
    if (status != SLUICE_OK)
        return status;
    if (len > UINT32_MAX)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "JPEG of %zu bytes", len);
    if (step == SLUICE_JPEG_INDEX_AUTO_STEP)
        step = jpeg.mcus_across > 64 ? (jpeg.mcus_across + 7) / 8 : 8;
    struct sluice_jpeg_index index = {
        .file_len = len,
        .mtime_ns = mtime_ns,
        .scan_start = (uint32_t)(jpeg.scan - bytes),
        .width = jpeg.width,
        .height = jpeg.height,
        .mcu_width = jpeg.mcu_width,
        .mcu_height = jpeg.mcu_height,
        .mcus_across = jpeg.mcus_across,
        .mcus_down = jpeg.mcus_down,
        .step = step && step < jpeg.mcus_across ? step : jpeg.mcus_across,
        .num_components = jpeg.num_components,
    };
    index.points_across = (index.mcus_across + index.step - 1) / index.step;
    index.head_hash = sluice_hash64(bytes, index.scan_start);
    /* An MCU takes at least a bit, so that a header cannot ask for more memory than the file has
     * bits. */
    if ((uint64_t)jpeg.mcus_across * jpeg.mcus_down > (uint64_t)jpeg.scan_len * 8)
        return sluice_fail(err, SLUICE_E_CORRUPT, "JPEG of fewer bits than MCUs");
    status = fill_index(&jpeg, bytes, &index, err);
    if (status != SLUICE_OK) {
        sluice_jpeg_index_clear(&index);
        return status;
    }
    *out = index;
    return SLUICE_OK;
}

void sluice_jpeg_index_clear(struct sluice_jpeg_index *index)
{
    free(index->points);
    free(index->row_hashes);
    *index = (struct sluice_jpeg_index){0};
}

void sluice_jpeg_index_destroy(struct sluice_jpeg_index *index)
{
    if (!index)
        return;
    sluice_jpeg_index_clear(index);
    free(index);
}

/* --- bytes --- */

sluice_status sluice_jpeg_index_write(const struct sluice_jpeg_index *index,
                                      struct sluice_buf **out_entry, struct sluice_err *err)
{
    const size_t num_points = (size_t)index->mcus_down * index->points_across;
    struct sluice_buf *entry;
    const sluice_status status =
        sluice_buf_create(NULL,
                          32 + 8 * SLUICE_INDEX_MAX_VARINT + 4 * (size_t)index->mcus_down +
                              num_points * SLUICE_INDEX_MAX_POINT,
                          &entry, err);
    if (status != SLUICE_OK)
        return status;
    uint8_t *out = entry->data;
    *out++ = VERSION;
    *out++ = (uint8_t)index->num_components;
    *out++ = (uint8_t)(index->mcu_width / 8);
    *out++ = (uint8_t)(index->mcu_height / 8);
    out = sluice_index_put_fixed(out, (uint64_t)index->mtime_ns, 8);
    out = sluice_index_put_fixed(out, index->head_hash, 8);
    out = sluice_index_put_varint(out, index->file_len);
    out = sluice_index_put_varint(out, index->scan_start);
    out = sluice_index_put_varint(out, index->scan_end - index->scan_start);
    out = sluice_index_put_varint(out, index->width);
    out = sluice_index_put_varint(out, index->height);
    out = sluice_index_put_varint(out, index->step);
    struct sluice_jpeg_index_point last = {.offset = index->scan_start};
    for (size_t i = 0; i < num_points; i++) {
        if (i % index->points_across == 0)
            out = sluice_index_put_fixed(out, index->row_hashes[i / index->points_across], 4);
        out = sluice_index_put_point(out, &index->points[i], index->num_components, &last);
    }
    out = sluice_index_put_fixed(out, sluice_hash64(entry->data, (size_t)(out - entry->data)), 8);
    entry->len = (size_t)(out - entry->data);
    *out_entry = entry;
    return SLUICE_OK;
}

static void get_points(struct sluice_index_reader *in, struct sluice_jpeg_index *index)
{
    const size_t num_points = (size_t)index->mcus_down * index->points_across;
    struct sluice_jpeg_index_point last = {.offset = index->scan_start};
    for (size_t i = 0; i < num_points; i++) {
        if (i % index->points_across == 0)
            index->row_hashes[i / index->points_across] = (uint32_t)sluice_index_get_fixed(in, 4);
        if (!sluice_index_get_point(in, index->num_components, i == 0, index->scan_end, &last))
            return;
        index->points[i] = last;
    }
}

sluice_status sluice_jpeg_index_parse(const uint8_t *entry, size_t len,
                                      struct sluice_jpeg_index *out, struct sluice_err *err)
{
    struct sluice_index_reader in = {.at = entry, .end = entry + len};
    if (len < 9 || entry[0] != VERSION)
        return sluice_fail(err, SLUICE_E_CORRUPT, "not an index of a JPEG");
    struct sluice_index_reader tail = {.at = in.end - 8, .end = in.end};
    in.end -= 8;
    if (sluice_index_get_fixed(&tail, 8) != sluice_hash64(entry, len - 8))
        return sluice_fail(err, SLUICE_E_CORRUPT, "index of a JPEG is damaged");
    in.at++;
    struct sluice_jpeg_index index = {0};
    index.num_components = (unsigned)sluice_index_get_fixed(&in, 1);
    index.mcu_width = 8 * (uint32_t)sluice_index_get_fixed(&in, 1);
    index.mcu_height = 8 * (uint32_t)sluice_index_get_fixed(&in, 1);
    index.mtime_ns = (int64_t)sluice_index_get_fixed(&in, 8);
    index.head_hash = sluice_index_get_fixed(&in, 8);
    index.file_len = sluice_index_get_varint(&in, UINT32_MAX);
    index.scan_start = (uint32_t)sluice_index_get_varint(&in, index.file_len);
    index.scan_end = index.scan_start + (uint32_t)sluice_index_get_varint(&in, index.file_len);
    index.width = (uint32_t)sluice_index_get_varint(&in, UINT16_MAX);
    index.height = (uint32_t)sluice_index_get_varint(&in, UINT16_MAX);
    index.step = (uint32_t)sluice_index_get_varint(&in, UINT16_MAX);
    if (in.is_bad || index.num_components < 1 ||
        index.num_components > SLUICE_JPEG_MAX_COMPONENTS || index.width < 1 || index.height < 1 ||
        index.mcu_width < 8 || index.mcu_width > 32 || index.mcu_height < 8 ||
        index.mcu_height > 32 || index.step < 1 || index.file_len < 2 ||
        index.scan_end < index.scan_start || index.scan_end > index.file_len - 2)
        return sluice_fail(err, SLUICE_E_CORRUPT, "index of a JPEG contradicts itself");
    index.mcus_across = (index.width + index.mcu_width - 1) / index.mcu_width;
    index.mcus_down = (index.height + index.mcu_height - 1) / index.mcu_height;
    index.points_across = (index.mcus_across + index.step - 1) / index.step;
    const uint64_t num_points = (uint64_t)index.mcus_down * index.points_across;
    if (num_points * (1 + index.num_components) + 4 * (uint64_t)index.mcus_down >
        (size_t)(in.end - in.at))
        return sluice_fail(err, SLUICE_E_CORRUPT, "index of a JPEG is cut");
    sluice_status status = allocate(&index, err);
    if (status == SLUICE_OK) {
        get_points(&in, &index);
        if (in.is_bad || in.at != in.end)
            status = sluice_fail(err, SLUICE_E_CORRUPT, "index of a JPEG contradicts itself");
    }
    if (status != SLUICE_OK) {
        sluice_jpeg_index_clear(&index);
        return status;
    }
    *out = index;
    return SLUICE_OK;
}

/* --- use --- */

size_t sluice_jpeg_index_tail_end(const struct sluice_jpeg_index *index)
{
    const size_t left = index->file_len - index->scan_end;
    return index->scan_end + (left < TAIL_BYTES ? left : TAIL_BYTES);
}

bool sluice_jpeg_index_has_end(const struct sluice_jpeg_index *index, const uint8_t *bytes)
{
    size_t at = index->scan_end;
    const size_t end = sluice_jpeg_index_tail_end(index);
    if (bytes[at++] != 0xFF)
        return false;
    while (at < end && bytes[at] == 0xFF)
        at++;
    return at < end && bytes[at] == 0xD9;
}

bool sluice_jpeg_index_has_row(const struct sluice_jpeg_index *index, const uint8_t *bytes,
                               uint32_t row)
{
    return sluice_jpeg_index_end_before(index, bytes, row + 1, 0) <= index->scan_end &&
           hash_row(index, bytes, row) == index->row_hashes[row];
}

bool sluice_jpeg_index_fits(const struct sluice_jpeg_index *index, const struct sluice_jpeg *jpeg,
                            const uint8_t *bytes, size_t len)
{
    if (index->file_len != len || index->scan_start != (size_t)(jpeg->scan - bytes) ||
        index->num_components != jpeg->num_components || index->width != jpeg->width ||
        index->height != jpeg->height || index->mcu_width != jpeg->mcu_width ||
        index->mcu_height != jpeg->mcu_height ||
        index->head_hash != sluice_hash64(bytes, index->scan_start))
        return false;
    /* A truncated file is refused, even if the rows needed are there. */
    return sluice_jpeg_index_has_end(index, bytes);
}

void sluice_jpeg_index_range(const struct sluice_jpeg_index *index, uint32_t first_row,
                             uint32_t end_row, uint32_t *from, uint32_t *to)
{
    *from = index->points[(size_t)first_row * index->points_across].offset;
    *to = index->scan_end;
    /* Two bytes more: the last byte may be stuffed. */
    if (end_row < index->mcus_down &&
        index->points[(size_t)end_row * index->points_across].offset + 2 < index->scan_end)
        *to = index->points[(size_t)end_row * index->points_across].offset + 2;
}

void sluice_jpeg_index_rows(const struct sluice_jpeg_index *index, const struct sluice_box *box,
                            uint32_t *first_row, uint32_t *end_row)
{
    /* Upsampling looks at a chroma sample above and below those of the box. */
    const uint32_t margin = index->mcu_height > 8 ? index->mcu_height / 8 : 0;
    const uint32_t top = box->top > margin ? box->top - margin : 0;
    const uint32_t bottom = box->top + box->height + margin;
    const uint32_t end = (bottom + index->mcu_height - 1) / index->mcu_height;
    *first_row = top / index->mcu_height;
    *end_row = end < index->mcus_down ? end : index->mcus_down;
}

unsigned sluice_jpeg_index_parts(const struct sluice_jpeg_index *index,
                                 const struct sluice_box *box,
                                 struct sluice_file_part parts[SLUICE_JPEG_INDEX_MAX_PARTS])
{
    uint32_t first_row, end_row, from, to;
    sluice_jpeg_index_rows(index, box, &first_row, &end_row);
    sluice_jpeg_index_range(index, first_row, end_row, &from, &to);
    const struct sluice_file_part wanted[SLUICE_JPEG_INDEX_MAX_PARTS] = {
        {0, index->scan_start},
        {from, to},
        {index->scan_end, sluice_jpeg_index_tail_end(index)},
    };
    unsigned num_parts = 0;
    for (unsigned i = 0; i < SLUICE_JPEG_INDEX_MAX_PARTS; i++) {
        if (num_parts > 0 && wanted[i].from <= parts[num_parts - 1].to + PART_GAP)
            parts[num_parts - 1].to = wanted[i].to;
        else
            parts[num_parts++] = wanted[i];
    }
    return num_parts;
}
