#include "image/pack/pack.h"

#include "base/buf.h"
#include "image/pack/pack_kernels.h"
#include "image/tuning.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define ZSTD_STATIC_LINKING_ONLY /* ZSTD_c_literalCompressionMode, whose refusal is harmless */
#include <zstd.h>
#include <zstd_errors.h>

/* Three planes, g, r - g + 128 and b - g + 128 (mod 256), each with the median predictor of LOCO-I.
 * Its residuals go into a few streams, block by block (context modelling):
 *
 *     pixels -> planes -> residuals -> blocks of 16 -> streams -> zstd frames
 *
 * The stream of a block follows from the residuals right above it: where the last row was hard to
 * predict, this one will be, too.  So residuals of similar spread share a frame and its Huffman
 * table.
 *
 * Packed: "SP", version, 0, width and height (2 bytes each), the length of each stream's
 * frame (4 bytes each, 0: the stream is empty), the frames.  All little endian. */

#define VERSION 1
#define BLOCK SLUICE_PACK_BLOCK
#define NUM_SPREADS SLUICE_PACK_SPREADS
#define NUM_GROUPS 2 /* of planes: g, and the two differences */
#define NUM_STREAMS (NUM_GROUPS * NUM_SPREADS)
#define HEADER_LEN (8 + 4 * NUM_STREAMS)

#define MAX_SIDE 65535u
#define DEFAULT_MAX_PIXELS 178956970u /* the codec's, which is Pillow's */

/* Fast mode: hardly any search for matches, of which residuals have few. */
#define FAST_ZSTD_LEVEL (-50)

/* The spread that blocks in the first row are given. */
#define FIRST_SPREAD 2

struct sluice_packer {
    const struct sluice_pack_kernels *kernels;
    ZSTD_CCtx *compressor;
    ZSTD_DCtx *decompressor;
    struct sluice_buf *memory; /* of the current call */
};

sluice_status sluice_packer_create(struct sluice_packer **packer, struct sluice_err *err)
{
    struct sluice_packer *p = calloc(1, sizeof(*p));
    if (!p)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a packer");
    p->kernels = sluice_pack_kernels_for(sluice_cpu_level());
    *packer = p;
    return SLUICE_OK;
}

void sluice_packer_destroy(struct sluice_packer *packer)
{
    if (!packer)
        return;
    ZSTD_freeCCtx(packer->compressor);
    ZSTD_freeDCtx(packer->decompressor);
    sluice_buf_unref(packer->memory);
    free(packer);
}

static sluice_status reserve(struct sluice_packer *packer, size_t bytes, struct sluice_err *err)
{
    if (packer->memory && packer->memory->capacity >= bytes)
        return SLUICE_OK;
    sluice_buf_unref(packer->memory);
    packer->memory = NULL;
    return sluice_buf_create(NULL, bytes, &packer->memory, err);
}

/* Memory of a large image is freed. */
static void release_large(struct sluice_packer *packer)
{
    if (packer->memory && packer->memory->capacity > SLUICE_IMAGE_KEPT_BYTES) {
        sluice_buf_unref(packer->memory);
        packer->memory = NULL;
    }
}

static size_t round_up_to_blocks(size_t width)
{
    return (width + BLOCK - 1) / BLOCK * BLOCK;
}

static unsigned group_of(unsigned plane)
{
    return plane == 0 ? 0 : 1;
}

struct packing {
    size_t width, padded; /* the width in whole blocks */
    uint32_t height;
    uint8_t *rows[2][3]; /* the planes of this row and of the one above */
    uint8_t *residuals;  /* for each row and plane `padded` */
    uint8_t *spreads;    /* for each row and plane, one for each block */
    uint8_t *streams;    /* one after the other */
    size_t lengths[NUM_STREAMS];
};

static void find_residuals(struct packing *p, const struct sluice_pack_kernels *kernels,
                           const uint8_t *pixels)
{
    const size_t num_blocks = p->padded / BLOCK;
    uint8_t *residuals = p->residuals, *spreads = p->spreads;
    for (unsigned plane = 0; plane < 3; plane++)
        memset(p->rows[1][plane], SLUICE_PACK_MIDDLE, p->width);
    for (uint32_t y = 0; y < p->height; y++) {
        uint8_t *const *row = p->rows[y & 1], *const *above = p->rows[~y & 1];
        kernels->split_row(pixels + (size_t)y * p->width * 3, p->width, row);
        for (unsigned plane = 0; plane < 3; plane++) {
            kernels->residual_row(row[plane], above[plane], p->width, residuals);
            memset(residuals + p->width, 0, p->padded - p->width);
            if (y)
                kernels->find_spreads(residuals - 3 * p->padded, num_blocks, spreads);
            else
                memset(spreads, FIRST_SPREAD, num_blocks);
            size_t *lengths = p->lengths + group_of(plane) * NUM_SPREADS;
            for (size_t i = 0; i < num_blocks; i++)
                lengths[spreads[i]] += BLOCK;
            lengths[spreads[num_blocks - 1]] -= p->padded - p->width;
            residuals += p->padded;
            spreads += num_blocks;
        }
    }
}

static void fill_streams(struct packing *p)
{
    const size_t num_blocks = p->padded / BLOCK;
    const uint8_t *residuals = p->residuals, *spreads = p->spreads;
    uint8_t *ends[NUM_STREAMS];
    uint8_t *at = p->streams;
    for (unsigned s = 0; s < NUM_STREAMS; s++) {
        ends[s] = at;
        at += p->lengths[s];
    }
    for (uint32_t y = 0; y < p->height; y++) {
        for (unsigned plane = 0; plane < 3; plane++) {
            uint8_t **group = ends + group_of(plane) * NUM_SPREADS;
            for (size_t i = 0; i + 1 < num_blocks; i++) {
                memcpy(group[spreads[i]], residuals + i * BLOCK, BLOCK);
                group[spreads[i]] += BLOCK;
            }
            const size_t last = num_blocks - 1, rest = p->width - last * BLOCK;
            memcpy(group[spreads[last]], residuals + last * BLOCK, rest);
            group[spreads[last]] += rest;
            residuals += p->padded;
            spreads += num_blocks;
        }
    }
}

static void put_u16(uint8_t *to, uint32_t value)
{
    to[0] = (uint8_t)value;
    to[1] = (uint8_t)(value >> 8);
}

static void put_u32(uint8_t *to, uint32_t value)
{
    put_u16(to, value);
    put_u16(to + 2, value >> 16);
}

static uint32_t get_u16(const uint8_t *from)
{
    return from[0] | (uint32_t)from[1] << 8;
}

static uint32_t get_u32(const uint8_t *from)
{
    return get_u16(from) | get_u16(from + 2) << 16;
}

static sluice_status prepare_compressor(struct sluice_packer *packer, int level,
                                        struct sluice_err *err)
{
    if (!packer->compressor)
        packer->compressor = ZSTD_createCCtx();
    if (!packer->compressor)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for zstd's compressor");
    /* At fast levels zstd does not compress literals, which are all there is here; this parameter
     * makes it.  If zstd does not know the parameter, level 1 compresses about as well in twice the
     * time. */
    const bool is_fast =
        level <= 0 && !ZSTD_isError(ZSTD_CCtx_setParameter(
                          packer->compressor, ZSTD_c_literalCompressionMode, ZSTD_ps_enable));
    const int zstd_level = is_fast ? FAST_ZSTD_LEVEL : level < 1 ? 1 : level;
    if (ZSTD_isError(
            ZSTD_CCtx_setParameter(packer->compressor, ZSTD_c_compressionLevel, zstd_level)))
        return sluice_fail(err, SLUICE_E_INTERNAL, "zstd does not take level %d", zstd_level);
    return SLUICE_OK;
}

/* Writes the header and a frame for each stream to at most `len` bytes; *used is how many. */
static sluice_status write_packed(const struct packing *p, ZSTD_CCtx *compressor, uint8_t *out,
                                  size_t len, size_t *used, struct sluice_err *err)
{
    static const char not_smaller[] = "packed pixels would not be smaller";
    if (len < HEADER_LEN)
        return sluice_fail(err, SLUICE_E_AGAIN, not_smaller);
    memset(out, 0, HEADER_LEN);
    out[0] = 'S';
    out[1] = 'P';
    out[2] = VERSION;
    put_u16(out + 4, (uint32_t)p->width);
    put_u16(out + 6, p->height);
    size_t at = HEADER_LEN;
    const uint8_t *stream = p->streams;
    for (unsigned s = 0; s < NUM_STREAMS; s++) {
        if (!p->lengths[s])
            continue;
        const size_t frame = ZSTD_compress2(compressor, out + at, len - at, stream, p->lengths[s]);
        if (ZSTD_isError(frame)) {
            if (ZSTD_getErrorCode(frame) == ZSTD_error_dstSize_tooSmall)
                return sluice_fail(err, SLUICE_E_AGAIN, not_smaller);
            return sluice_fail(err, SLUICE_E_NO_MEMORY, "zstd: %s", ZSTD_getErrorName(frame));
        }
        put_u32(out + 8 + 4 * s, (uint32_t)frame);
        at += frame;
        stream += p->lengths[s];
    }
    *used = at;
    return SLUICE_OK;
}

static sluice_status pack(struct sluice_packer *packer, const uint8_t *pixels, uint32_t width,
                          uint32_t height, int level, struct sluice_buf_pool *pool,
                          struct sluice_buf **packed, struct sluice_err *err)
{
    if (width < 1 || height < 1 || width > MAX_SIDE || height > MAX_SIDE ||
        (uint64_t)width * height > DEFAULT_MAX_PIXELS)
        return sluice_fail(err, SLUICE_E_INVALID, "%u x %u pixels to pack", width, height);
    const size_t padded = round_up_to_blocks(width);
    const size_t pixel_bytes = (size_t)width * height * 3;
    sluice_status status = prepare_compressor(packer, level, err);
    if (status == SLUICE_OK)
        status = reserve(
            packer, pixel_bytes + 6 * padded + 3 * padded * height + 3 * padded / BLOCK * height,
            err);
    if (status != SLUICE_OK)
        return status;

    struct packing p = {.width = width, .padded = padded, .height = height};
    uint8_t *at = packer->memory->data;
    for (unsigned row = 0; row < 2; row++)
        for (unsigned plane = 0; plane < 3; plane++, at += padded)
            p.rows[row][plane] = at;
    p.residuals = at;
    p.spreads = p.residuals + 3 * padded * height;
    p.streams = p.spreads + 3 * padded / BLOCK * height;
    find_residuals(&p, packer->kernels, pixels);
    fill_streams(&p);

    struct sluice_buf *buf;
    status = sluice_buf_create(pool, pixel_bytes, &buf, err);
    if (status != SLUICE_OK)
        return status;
    status = write_packed(&p, packer->compressor, buf->data, pixel_bytes - 1, &buf->len, err);
    if (status != SLUICE_OK) {
        sluice_buf_unref(buf);
        return status;
    }
    *packed = buf;
    return SLUICE_OK;
}

/* --- unpacking --- */

struct unpacking {
    size_t width, padded;
    uint32_t height;
    uint8_t *above;        /* the planes of the row above, four bytes a pixel */
    uint8_t *residuals[3]; /* of this row, `padded` */
    uint8_t *spreads;      /* of one plane's blocks in this row */
    const uint8_t *streams[NUM_STREAMS], *ends[NUM_STREAMS]; /* the rest of each stream */
};

static sluice_status read_header(const uint8_t *bytes, size_t len, uint64_t max_pixels,
                                 struct unpacking *u, struct sluice_err *err)
{
    if (len < 4 || bytes[0] != 'S' || bytes[1] != 'P')
        return sluice_fail(err, SLUICE_E_CORRUPT, "not packed pixels");
    if (bytes[2] != VERSION || bytes[3] != 0)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "packed pixels of version %u.%u", bytes[2],
                           bytes[3]);
    if (len < HEADER_LEN)
        return sluice_fail(err, SLUICE_E_CORRUPT, "packed pixels end in their header");
    u->width = get_u16(bytes + 4);
    u->height = get_u16(bytes + 6);
    u->padded = round_up_to_blocks(u->width);
    if (!u->width || !u->height)
        return sluice_fail(err, SLUICE_E_CORRUPT, "packed pixels of size 0");
    if ((uint64_t)u->width * u->height > (max_pixels ? max_pixels : DEFAULT_MAX_PIXELS))
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "%zu x %u packed pixels are over the limit",
                           u->width, u->height);
    uint64_t want = HEADER_LEN;
    for (unsigned s = 0; s < NUM_STREAMS; s++)
        want += get_u32(bytes + 8 + 4 * s);
    if (want != len)
        return sluice_fail(err, SLUICE_E_CORRUPT, "packed pixels of %zu bytes, not %llu", len,
                           (unsigned long long)want);
    return SLUICE_OK;
}

/* Decompresses all streams, one after the other, to `out`: exactly `room` bytes. */
static sluice_status read_streams(struct sluice_packer *packer, const uint8_t *bytes,
                                  struct unpacking *u, uint8_t *out, size_t room,
                                  struct sluice_err *err)
{
    const uint8_t *frame = bytes + HEADER_LEN;
    for (unsigned s = 0; s < NUM_STREAMS; s++) {
        const size_t frame_len = get_u32(bytes + 8 + 4 * s);
        size_t got = 0;
        if (frame_len)
            got = ZSTD_decompressDCtx(packer->decompressor, out, room, frame, frame_len);
        if (ZSTD_isError(got))
            return sluice_fail(err,
                               ZSTD_getErrorCode(got) == ZSTD_error_memory_allocation
                                   ? SLUICE_E_NO_MEMORY
                                   : SLUICE_E_CORRUPT,
                               "packed pixels: zstd: %s", ZSTD_getErrorName(got));
        frame += frame_len;
        u->streams[s] = out;
        u->ends[s] = out += got;
        room -= got;
    }
    if (room)
        return sluice_fail(err, SLUICE_E_CORRUPT, "packed pixels lack %zu bytes", room);
    return SLUICE_OK;
}

/* Gathers a row's residuals from the streams, in place of those of the row above. */
static bool gather_residuals(struct unpacking *u, const struct sluice_pack_kernels *kernels,
                             bool is_first)
{
    const size_t num_blocks = u->padded / BLOCK;
    for (unsigned plane = 0; plane < 3; plane++) {
        if (is_first)
            memset(u->spreads, FIRST_SPREAD, num_blocks);
        else
            kernels->find_spreads(u->residuals[plane], num_blocks, u->spreads);
        const unsigned group = group_of(plane) * NUM_SPREADS;
        for (size_t i = 0; i < num_blocks; i++) {
            const unsigned s = group + u->spreads[i];
            const size_t count = i + 1 < num_blocks ? BLOCK : u->width - i * BLOCK;
            if ((size_t)(u->ends[s] - u->streams[s]) < count)
                return false;
            /* A whole block even at the end: a buffer may be read past its capacity. */
            memcpy(u->residuals[plane] + i * BLOCK, u->streams[s], BLOCK);
            u->streams[s] += count;
        }
        memset(u->residuals[plane] + u->width, 0, u->padded - u->width);
    }
    return true;
}

static sluice_status unpack(struct sluice_packer *packer, const uint8_t *bytes, size_t len,
                            uint64_t max_pixels, struct sluice_buf_pool *pool,
                            struct sluice_rgb *rgb, struct sluice_err *err)
{
    struct unpacking u = {0};
    sluice_status status = read_header(bytes, len, max_pixels, &u, err);
    if (status != SLUICE_OK)
        return status;
    if (!packer->decompressor)
        packer->decompressor = ZSTD_createDCtx();
    if (!packer->decompressor)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for zstd's decompressor");
    const size_t pixel_bytes = u.width * u.height * 3;
    status = reserve(packer, (4 + 3 + 1) * u.padded + pixel_bytes, err);
    if (status != SLUICE_OK)
        return status;
    uint8_t *at = packer->memory->data;
    u.above = at;
    memset(u.above, SLUICE_PACK_MIDDLE, 4 * u.padded);
    at += 4 * u.padded;
    for (unsigned plane = 0; plane < 3; plane++, at += u.padded)
        u.residuals[plane] = at;
    u.spreads = at;
    at += u.padded;
    status = read_streams(packer, bytes, &u, at, pixel_bytes, err);
    if (status != SLUICE_OK)
        return status;

    struct sluice_buf *pixels;
    status = sluice_buf_create(pool, pixel_bytes, &pixels, err);
    if (status != SLUICE_OK)
        return status;
    pixels->len = pixel_bytes;
    for (uint32_t y = 0; y < u.height; y++) {
        if (!gather_residuals(&u, packer->kernels, y == 0)) {
            sluice_buf_unref(pixels);
            return sluice_fail(err, SLUICE_E_CORRUPT, "packed pixels: a stream ends too soon");
        }
        packer->kernels->restore_row((const uint8_t *const *)u.residuals, u.width, u.above,
                                     pixels->data + (size_t)y * u.width * 3);
    }
    *rgb = (struct sluice_rgb){.width = (uint32_t)u.width, .height = u.height, .pixels = pixels};
    return SLUICE_OK;
}

sluice_status sluice_pack_rgb(struct sluice_packer *packer, const uint8_t *pixels, uint32_t width,
                              uint32_t height, int level, struct sluice_buf_pool *pool,
                              struct sluice_buf **packed, struct sluice_err *err)
{
    const sluice_status status = pack(packer, pixels, width, height, level, pool, packed, err);
    release_large(packer);
    return status;
}

sluice_status sluice_unpack_rgb(struct sluice_packer *packer, const uint8_t *bytes, size_t len,
                                uint64_t max_pixels, struct sluice_buf_pool *pool,
                                struct sluice_rgb *rgb, struct sluice_err *err)
{
    const sluice_status status = unpack(packer, bytes, len, max_pixels, pool, rgb, err);
    release_large(packer);
    return status;
}
