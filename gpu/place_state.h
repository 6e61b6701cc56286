#ifndef SLUICE_GPU_PLACE_STATE_H
#define SLUICE_GPU_PLACE_STATE_H

#include "gpu/place_device.h"

#include <pthread.h>

/* Private to place.c (the place, its blocks and lanes) and place_memory.c (the host's memory, to
 * which workers write samples). */

/* Uploads that are adjacent in the block and in the host's memory. */
struct sluice_gpu_run {
    const uint8_t *pixels; /* NULL: none */
    uint64_t at;           /* in the block */
    size_t bytes;
};

struct sluice_gpu_lane {
    struct sluice_gpu_place *place;
    struct sluice_gpu_engine *engine;
    struct sluice_gpu_block *block;
    struct sluice_gpu_row_views views;  /* of the block's rows */
    struct sluice_gpu_staging *staging; /* the memory of the engine's batch */
    bool is_behind;                     /* the engine's work waits for the block's last use */
    bool is_begun;                      /* a sample or row was added and is not finished */
    struct sluice_gpu_work work;        /* since begin or the last finish, as are the samples */
    struct sluice_gpu_run uploads;      /* not yet queued on the engine */
    uint32_t num_samples, first_of_round;
    uint32_t *rows;          /* of each sample */
    sluice_status *statuses; /* of each sample before first_of_round */
    struct sluice_gpu_hash_item *items;
    struct sluice_gpu_hash *hashes;
};

struct sluice_gpu_place {
    pthread_mutex_t lock;
    struct sluice_gpu_block *first_free, *last_free; /* a queue: first given, first taken */
    struct sluice_gpu_staging *free_stagings;        /* a stack: last given, first taken */
    uint64_t locked_bytes;                           /* of the host's memory, page-locked */

    struct sluice_gpu_device *device;
    struct sluice_gpu_limits limits; /* of a lane */
    struct sluice_gpu_sizes capacity;
    uint32_t max_rows;
    size_t most_row_bytes;
    uint64_t block_bytes, bytes;
    unsigned num_blocks, num_lanes, num_stagings;
    uint8_t *memory; /* of all blocks */
    struct sluice_gpu_block *blocks;
    struct sluice_gpu_lane *lanes;
    struct sluice_gpu_staging *stagings; /* one for each lane, and those for workers to write to */
};

static inline struct sluice_gpu_scope place_enter(const struct sluice_gpu_place *place)
{
    return place->device->ops->enter(place->device);
}

static inline void place_leave(const struct sluice_gpu_place *place, struct sluice_gpu_scope scope)
{
    place->device->ops->leave(place->device, scope);
}

/* Allocates page-locked memory and counts it.  Call it between enter and leave. */
SLUICE_MUST_USE sluice_status place_alloc_locked(struct sluice_gpu_place *place, size_t bytes,
                                                 void **memory, struct sluice_err *err);
void place_free_locked(struct sluice_gpu_place *place, void *memory, size_t bytes);

/* Call both between enter and leave.  Call close even if open failed. */
SLUICE_MUST_USE sluice_status place_open_stagings(struct sluice_gpu_place *place,
                                                  struct sluice_err *err);
void place_close_stagings(struct sluice_gpu_place *place);

#endif
