#ifndef SLUICE_TRAIN_CHECKPOINT_H
#define SLUICE_TRAIN_CHECKPOINT_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct sluice_buf;

/* The checkpoint file of a trainer: named float arrays, in the same format from every device.
 *
 *     magic      8 bytes "SLUICKPT"
 *     version    u32, 1
 *     model      u16 length, bytes
 *     image_size u32, the height if the images are square, else height << 16 | width
 *     classes    u32
 *     seed       u64
 *     steps      u64
 *     extra      u32 length, bytes          the caller's text
 *     tensors    u32 count, then for each:
 *                u8 kind (0 value, 1 momentum), u8 number of dims (1 to 4),
 *                u16 length and bytes of the name, dims as u32, float32 data
 *     checksum   16 bytes, XXH3-128 of all before it (canonical order)
 *
 * Numbers are little-endian, without padding.  A reader checks the checksum first, and every length
 * against the bytes that are left; no bytes may follow the checksum.
 *
 * Threads: a writer or reader belongs to one thread at a time. */

#define SLUICE_CHECKPOINT_MAX_TENSORS 1024
#define SLUICE_CHECKPOINT_MAX_EXTRA 65536

struct sluice_checkpoint_head {
    const char *model;
    uint32_t height, width; /* of the images; below 65536 */
    uint32_t num_classes;
    uint64_t seed, steps;
    const char *extra; /* "": none; at most SLUICE_CHECKPOINT_MAX_EXTRA bytes */
    uint32_t num_tensors;
};

enum sluice_checkpoint_kind {
    SLUICE_CHECKPOINT_VALUE = 0,
    SLUICE_CHECKPOINT_MOMENTUM = 1,
};

/* `path` is the old file until the commit and the whole new one after it. */
struct sluice_checkpoint_writer;
SLUICE_MUST_USE sluice_status
sluice_checkpoint_writer_open(const char *path, const struct sluice_checkpoint_head *head,
                              struct sluice_checkpoint_writer **writer, struct sluice_err *err);
SLUICE_MUST_USE sluice_status sluice_checkpoint_writer_put(struct sluice_checkpoint_writer *writer,
                                                           enum sluice_checkpoint_kind kind,
                                                           const char *name, unsigned num_dims,
                                                           const uint32_t *dims, const float *data,
                                                           struct sluice_err *err);
/* Renames the file to its path, durably.  head->num_tensors tensors must have been put. */
SLUICE_MUST_USE sluice_status
sluice_checkpoint_writer_commit(struct sluice_checkpoint_writer *writer, struct sluice_err *err);
/* Without a commit nothing is written.  NULL is allowed. */
void sluice_checkpoint_writer_close(struct sluice_checkpoint_writer *writer);

struct sluice_checkpoint_tensor {
    enum sluice_checkpoint_kind kind;
    char name[64];
    unsigned num_dims;
    uint32_t dims[4];
    size_t count;
    const uint8_t *data; /* count floats, not aligned; inside the bytes that were parsed */
};

struct sluice_checkpoint {
    char model[64];
    uint32_t height, width; /* of the images; below 65536 */
    uint32_t num_classes;
    uint64_t seed, steps;
    char *extra; /* owned, ends in NUL */
    struct sluice_checkpoint_tensor *tensors;
    size_t num_tensors;
    struct sluice_buf *file; /* owned, where they came from one */
};

/* Borrows `bytes` until clear.  SLUICE_E_CORRUPT says what is wrong with them,
 * SLUICE_E_UNSUPPORTED that the version is another. */
SLUICE_MUST_USE sluice_status sluice_checkpoint_parse(const uint8_t *bytes, size_t len,
                                                      struct sluice_checkpoint *checkpoint,
                                                      struct sluice_err *err);
/* The same from a file; errors begin with its path. */
SLUICE_MUST_USE sluice_status sluice_checkpoint_read(const char *path,
                                                     struct sluice_checkpoint *checkpoint,
                                                     struct sluice_err *err);
void sluice_checkpoint_clear(struct sluice_checkpoint *checkpoint);

/* NULL: none. */
const struct sluice_checkpoint_tensor *
sluice_checkpoint_find(const struct sluice_checkpoint *checkpoint, enum sluice_checkpoint_kind kind,
                       const char *name);

#endif
