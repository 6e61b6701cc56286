#include "compute_client/load/batch_memory.h"

#include "base/pages.h"

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
    assert(memory->num_free < memory->options.count);
    memory->free[memory->num_free++] = taken;
}
