#ifndef SLUICE_TRAIN_CHECKPOINT_SAFETENSORS_H
#define SLUICE_TRAIN_CHECKPOINT_SAFETENSORS_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct json_t;

/* Tensors in the safetensors format (https://huggingface.co/docs/safetensors):
 *
 *     length   u64, of the header
 *     header   JSON, padded with blanks: {"__metadata__": {"KEY": "TEXT", ...},
 *              "NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}
 *     data     in C order, without gaps or overlaps
 *
 * Numbers are little-endian.  The format has no checksum.  Files that are made here have one in the
 * metadata, "xxh3_128": 32 hex digits, the XXH3-128 of the file with zeros for these digits.  A
 * reader checks it where it finds one.
 *
 * Threads: pure functions. */

#define SLUICE_SAFETENSORS_MAX_HEADER (4u << 20) /* bytes; that of ResNet-152 has 87,000 */
#define SLUICE_TENSOR_MAX_DIMS 8
#define SLUICE_SAFETENSORS_HASH "xxh3_128"

enum sluice_tensor_type {
    SLUICE_TENSOR_F32,
    SLUICE_TENSOR_F16,
    SLUICE_TENSOR_BF16,
    SLUICE_TENSOR_I64
};

struct sluice_tensor {
    const char *name;
    enum sluice_tensor_type type;
    unsigned num_dims; /* 0: one element */
    uint64_t dims[SLUICE_TENSOR_MAX_DIMS];
    size_t count;        /* elements */
    const uint8_t *data; /* not aligned; inside the bytes that were parsed */
};

struct sluice_safetensors {
    struct sluice_tensor *tensors; /* owned, in the order of their data */
    size_t num_tensors;
    struct json_t *header; /* owned, and their names with it */
};

/* Borrows `bytes` until clear.  SLUICE_E_CORRUPT says what is wrong with them; SLUICE_E_UNSUPPORTED:
 * another dtype, more than 8 dims, or a pickle of PyTorch. */
SLUICE_MUST_USE sluice_status sluice_safetensors_parse(const uint8_t *bytes, size_t len,
                                                       struct sluice_safetensors *file,
                                                       struct sluice_err *err);
void sluice_safetensors_clear(struct sluice_safetensors *file);

/* NULL: none. */
const struct sluice_tensor *sluice_safetensors_find(const struct sluice_safetensors *file,
                                                    const char *name);
const char *sluice_safetensors_text(const struct sluice_safetensors *file, const char *key);

/* Converts all elements, exactly.  Not of I64. */
void sluice_tensor_to_float(const struct sluice_tensor *tensor, float *out);

/* The content of a file to make. */
struct sluice_safetensors_text {
    const char *key, *value; /* a plain word; UTF-8 */
};

struct sluice_safetensors_plan {
    const struct sluice_safetensors_text *texts;
    size_t num_texts;
    const struct sluice_tensor *tensors; /* I64 before others; `data` and `count` are not read */
    size_t num_tensors;
    /* Writes the elements of tensors[tensor] to `to`, which is aligned for them. */
    sluice_status (*fill)(void *ctx, size_t tensor, void *to, struct sluice_err *err);
    void *ctx;
};

/* Makes a file in memory: *bytes of *len; free() it.  `hash` gets its digits.  SLUICE_E_INVALID: a
 * text that is not UTF-8, or a header above the limit. */
SLUICE_MUST_USE sluice_status sluice_safetensors_make(const struct sluice_safetensors_plan *plan,
                                                      uint8_t **bytes, size_t *len, char hash[33],
                                                      struct sluice_err *err);

#endif
