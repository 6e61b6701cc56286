#ifndef SLUICE_GPU_PLACE_STATE_H
#define SLUICE_GPU_PLACE_STATE_H

#include "gpu/place_device.h"

#include <pthread.h>

/* Private to place.c (the place, its blocks and lanes) and place_memory.c (the host's memory, and
 * what workers write into it). */

/* Rows one after the other, which follow each other in the host's memory, too. */
struct sluice_gpu_run {
    const uint8_t *pixels; /* NULL: none */
    uint32_t row, num_rows;
};

struct sluice_gpu_lane {
    struct sluice_gpu_place *place;
    struct sluice_gpu_engine *engine;
    struct sluice_gpu_block *block;
    struct sluice_gpu_staging *staging; /* the memory of the engine's batch */
    bool is_behind;                /* what is put on the engine comes after the block's last use */
    bool is_begun;                 /* something was added that is not finished */
    struct sluice_gpu_work work;   /* since begin, or the last finish; so are the samples */
    struct sluice_gpu_run uploads; /* that are not yet put on the engine */
    uint32_t num_samples, first_of_round;
    uint32_t *rows;          /* of each sample */
    sluice_status *statuses; /* of each sample before first_of_round */
    struct sluice_gpu_hash_item *items;
    struct sluice_gpu_hash *hashes;
};

struct sluice_gpu_place {
    pthread_mutex_t lock;
    struct sluice_gpu_block *first_free, *last_free; /* the one that was given first is first */
    struct sluice_gpu_staging *free_stagings;        /* the one that was given last is first */
    uint64_t locked_bytes;                           /* of the host's memory, page-locked */

    struct sluice_gpu_device *device;
    struct sluice_gpu_limits limits; /* of a lane */
    struct sluice_gpu_sizes capacity;
    uint32_t max_rows;
    size_t row_bytes, most_row_bytes;
    uint64_t block_bytes, bytes;
    unsigned num_blocks, num_lanes, num_stagings;
    uint8_t *memory; /* of all blocks */
    struct sluice_gpu_block *blocks;
    struct sluice_gpu_lane *lanes;
    struct sluice_gpu_staging *stagings; /* one for each lane, and those that gather batches */
};

static inline struct sluice_gpu_scope place_enter(const struct sluice_gpu_place *place)
{
    return place->device->ops->enter(place->device);
}

static inline void place_leave(const struct sluice_gpu_place *place, struct sluice_gpu_scope scope)
{
    place->device->ops->leave(place->device, scope);
}

/* Between enter and leave: page-locked memory, which is counted. */
SLUICE_MUST_USE sluice_status place_alloc_locked(struct sluice_gpu_place *place, size_t bytes,
                                                 void **memory, struct sluice_err *err);
void place_free_locked(struct sluice_gpu_place *place, void *memory, size_t bytes);

/* Between enter and leave.  close after an open that failed, too. */
SLUICE_MUST_USE sluice_status place_open_stagings(struct sluice_gpu_place *place,
                                                  struct sluice_err *err);
void place_close_stagings(struct sluice_gpu_place *place);

#endif
