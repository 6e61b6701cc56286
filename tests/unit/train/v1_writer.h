#ifndef SLUICE_TESTS_UNIT_TRAIN_V1_WRITER_H
#define SLUICE_TESTS_UNIT_TRAIN_V1_WRITER_H

#include "base/hash.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Writes checkpoints as version 0.1 does (train/checkpoint/checkpoint_v1.h). */

struct v1_writer {
    FILE *out;
    char *bytes;
    size_t len;
};

static inline void v1_put(struct v1_writer *writer, const void *data, size_t len)
{
    fwrite(data, 1, len, writer->out);
}

static inline void v1_put_u32(struct v1_writer *writer, uint32_t value)
{
    v1_put(writer, &value, sizeof(value));
}

static inline void v1_put_name(struct v1_writer *writer, const char *name)
{
    const uint16_t len = (uint16_t)strlen(name);
    v1_put(writer, &len, sizeof(len));
    v1_put(writer, name, len);
}

static inline void v1_open(struct v1_writer *writer, const char *model, uint32_t image_size,
                           uint32_t num_classes, uint64_t seed, uint64_t steps, const char *extra,
                           uint32_t num_tensors)
{
    *writer = (struct v1_writer){0};
    writer->out = open_memstream(&writer->bytes, &writer->len);
    v1_put(writer, "SLUICKPT", 8);
    v1_put_u32(writer, 1);
    v1_put_name(writer, model);
    v1_put_u32(writer, image_size);
    v1_put_u32(writer, num_classes);
    v1_put(writer, &seed, sizeof(seed));
    v1_put(writer, &steps, sizeof(steps));
    v1_put_u32(writer, (uint32_t)strlen(extra));
    v1_put(writer, extra, strlen(extra));
    v1_put_u32(writer, num_tensors);
}

/* kind: 0 value, 1 momentum. */
static inline void v1_put_tensor(struct v1_writer *writer, uint8_t kind, const char *name,
                                 unsigned num_dims, const uint32_t *dims, const float *data)
{
    const uint8_t start[2] = {kind, (uint8_t)num_dims};
    size_t count = 1;
    for (unsigned i = 0; i < num_dims; i++)
        count *= dims[i];
    v1_put(writer, start, sizeof(start));
    v1_put_name(writer, name);
    v1_put(writer, dims, num_dims * sizeof(*dims));
    v1_put(writer, data, count * sizeof(*data));
}

/* The file, with its checksum, in a block of its own, so that asan sees its end; free() it. */
static inline uint8_t *v1_close(struct v1_writer *writer, size_t *len)
{
    fclose(writer->out);
    uint8_t *file = malloc(writer->len + 16);
    memcpy(file, writer->bytes, writer->len);
    sluice_hash128_bytes(sluice_hash128(file, writer->len), file + writer->len);
    *len = writer->len + 16;
    free(writer->bytes);
    return file;
}

#endif
