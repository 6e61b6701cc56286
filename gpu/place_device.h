#ifndef SLUICE_GPU_PLACE_DEVICE_H
#define SLUICE_GPU_PLACE_DEVICE_H

#include "gpu/place.h"

#include <stdatomic.h>

/* The operations of a device that place.c needs: CUDA's (place_cuda.c), or the host (place_host.c).
 *
 * An engine is a lane's part of the device: a stream, a decoder and their memory.  Work queued on
 * an engine runs in order and asynchronously; wait and sync wait for it.
 *
 * Threads: as place.h says.  All functions but close are called between enter and leave. */

/* The context that was current in a thread, and is restored (cuda_context.h). */
struct sluice_gpu_scope {
    void *context;
    int capture_mode;
};

/* The first member of each implementation's device. */
struct sluice_gpu_device {
    const struct sluice_gpu_device_ops *ops;
    int number;          /* -1: the host */
    uint64_t free_bytes; /* of its memory, at open */
    struct sluice_gpu_gate gate;
};
struct sluice_gpu_engine {
    struct sluice_gpu_device *device;
    struct sluice_gpu_batch *batch; /* add samples to it except between start and wait */
};

struct sluice_gpu_block {
    struct sluice_gpu_place *place;
    uint8_t *rows;
    void *mark; /* the device's event: work queued on a stream is done with the block */
    struct sluice_gpu_block *next; /* of the free ones */
};

/* Page-locked memory for the upload of a batch. */
struct sluice_gpu_staging {
    struct sluice_gpu_place *place;
    uint8_t *memory;
    _Atomic uint64_t used;           /* bytes, including the index; adding to it reserves memory */
    struct sluice_gpu_staging *next; /* of the free ones */
};

struct sluice_gpu_device_ops {
    /* Makes the device current in the calling thread until leave. */
    struct sluice_gpu_scope (*enter)(const struct sluice_gpu_device *device);
    void (*leave)(const struct sluice_gpu_device *device, struct sluice_gpu_scope scope);
    void (*close)(struct sluice_gpu_device *device);

    /* Allocates memory of the device (256-byte aligned) or of the host (page-locked, 64-byte
     * aligned). */
    sluice_status (*alloc)(struct sluice_gpu_device *device, bool is_host, size_t bytes,
                           void **memory, struct sluice_err *err);
    void (*free)(struct sluice_gpu_device *device, bool is_host, void *memory);

    sluice_status (*mark_open)(struct sluice_gpu_device *device, void **mark,
                               struct sluice_err *err);
    void (*mark_close)(struct sluice_gpu_device *device, void *mark); /* NULL is allowed */
    /* Sets the mark after the work that is on the stream now. */
    void (*mark_set)(struct sluice_gpu_device *device, void *mark, void *stream);

    /* `upload`: the batch's initial memory, page-locked, borrowed. */
    sluice_status (*engine_open)(struct sluice_gpu_device *device,
                                 const struct sluice_gpu_limits *limits,
                                 const struct sluice_gpu_sizes *capacity, void *upload,
                                 struct sluice_gpu_engine **engine, struct sluice_err *err);
    void (*engine_close)(struct sluice_gpu_engine *engine); /* NULL is allowed */

    /* Later work waits for the work before the mark. */
    sluice_status (*follow)(struct sluice_gpu_engine *engine, void *mark, struct sluice_err *err);
    /* `from` is borrowed until sync or drop. */
    sluice_status (*upload)(struct sluice_gpu_engine *engine, uint8_t *to, const uint8_t *from,
                            size_t bytes, struct sluice_err *err);
    /* Decodes the batch, which is not empty, into the rows of a block, behind a point of the gate;
     * so does hash. */
    sluice_status (*start)(struct sluice_gpu_engine *engine, uint8_t *rows, struct sluice_err *err);
    /* Waits for the decoding, as sluice_gpu_decoder_wait(). */
    sluice_status (*wait)(struct sluice_gpu_engine *engine, sluice_status *statuses,
                          struct sluice_err *err);
    /* Hashes num_items rows, at most max_samples.  Call it at most once between two syncs. */
    sluice_status (*hash)(struct sluice_gpu_engine *engine, const uint8_t *rows,
                          const struct sluice_gpu_row_views *views,
                          const struct sluice_gpu_hash_item *items, uint32_t num_items,
                          struct sluice_err *err);
    /* Waits for all work.  hashes[i] belongs to item i; *device_s is the kernels' time since the
     * last sync. */
    sluice_status (*sync)(struct sluice_gpu_engine *engine, struct sluice_gpu_hash *hashes,
                          double *device_s, struct sluice_err *err);
    /* Empties the batch and waits for the engine's work, even if it failed. */
    void (*drop)(struct sluice_gpu_engine *engine);
};

sluice_status sluice_gpu_device_host(struct sluice_gpu_device **device, struct sluice_err *err);
/* Only with SLUICE_CUDA. */
sluice_status sluice_gpu_device_cuda(int number, struct sluice_gpu_device **device,
                                     struct sluice_err *err);

#endif
