#include "compute_client/loader/batch/batch_memory.h"

#include "compute_client/loader/tuning.h"
#include "host/pages.h"

#include <assert.h>
#include <stdlib.h>

sluice_status sluice_batch_memory_init(struct sluice_batch_memory *memory,
                                       const struct sluice_batch_memory_options *options,
                                       struct sluice_err *err)
{
    *memory = (struct sluice_batch_memory){.options = *options};
    memory->free = calloc(options->count, sizeof(*memory->free));
    if (!memory->free)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %u batches", options->count);
    for (unsigned i = 0; i < options->count; i++) {
        /* The last block is taken first, so it is the first whose pages are touched. */
        const size_t before = (options->count - 1 - i) * options->bytes;
        const size_t ahead = options->bytes_ahead > before ? options->bytes_ahead - before : 0;
        void *made = NULL;
        const sluice_status status = options->alloc(options->ctx, options->bytes, &made, err);
        if (status != SLUICE_OK) {
            sluice_batch_memory_clear(memory);
            return status;
        }
        sluice_pages_touch(made, ahead < options->bytes ? ahead : options->bytes);
        memory->free[memory->num_free++] = made;
        memory->num_blocks++;
    }
    return SLUICE_OK;
}

void sluice_batch_memory_clear(struct sluice_batch_memory *memory)
{
    if (!memory->free)
        return;
    for (unsigned i = 0; i < memory->num_free; i++)
        memory->options.free(memory->options.ctx, memory->free[i], memory->options.bytes);
    free(memory->free);
    *memory = (struct sluice_batch_memory){0};
}

void *sluice_batch_memory_take(struct sluice_batch_memory *memory)
{
    assert(memory->num_free > 0);
    return memory->free[--memory->num_free];
}

void sluice_batch_memory_give(struct sluice_batch_memory *memory, void *taken)
{
    assert(memory->num_free + memory->num_lent < memory->num_blocks);
    memory->free[memory->num_free++] = taken;
}

/* Blocks beyond those that must be there to be taken. */
static unsigned num_spare(const struct sluice_batch_memory *memory)
{
    assert(memory->num_blocks >= memory->options.count + memory->num_lent);
    return memory->num_blocks - memory->options.count - memory->num_lent;
}

bool sluice_batch_memory_lend(struct sluice_batch_memory *memory)
{
    if (num_spare(memory) == 0)
        return false;
    memory->num_lent++;
    return true;
}

sluice_status sluice_batch_memory_add(struct sluice_batch_memory *memory, void *made,
                                      struct sluice_err *err)
{
    void **grown = realloc(memory->free, (memory->num_blocks + 1) * sizeof(*grown));
    if (!grown)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %u batches",
                           memory->num_blocks + 1);
    memory->free = grown;
    memory->free[memory->num_free++] = made;
    memory->num_blocks++;
    return SLUICE_OK;
}

bool sluice_batch_memory_return(struct sluice_batch_memory *memory, void *lent)
{
    assert(memory->num_lent > 0);
    memory->num_lent--;
    if (num_spare(memory) > TUNING_SPARE_BATCHES) {
        memory->num_blocks--;
        return false;
    }
    sluice_batch_memory_give(memory, lent);
    return true;
}
