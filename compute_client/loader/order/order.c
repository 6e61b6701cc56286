#include "compute_client/loader/order/order.h"

#include "base/compiler.h"
#include "base/parse.h"

#include <assert.h>
#include <string.h>

static uint64_t global_batch(const struct sluice_order_options *options)
{
    return (uint64_t)options->batch_size * options->world_size;
}

/* Items of the partial global batch; 0: no partial batch, or the cursor is behind it. */
static uint64_t partial_items(const struct sluice_order_options *options, uint64_t total,
                              uint64_t cursor)
{
    assert(cursor <= total && (cursor % global_batch(options) == 0 || cursor == total));
    return options->tail == SLUICE_TAIL_PAD ? (total - cursor) % global_batch(options) : 0;
}

/* Rows of each rank in the partial global batch. */
static uint64_t partial_rows(const struct sluice_order_options *options, uint64_t total,
                             uint64_t cursor)
{
    const uint64_t partial = partial_items(options, total, cursor);
    return (partial + options->world_size - 1) / options->world_size;
}

sluice_status sluice_order_check(const struct sluice_order_options *options, struct sluice_err *err)
{
    if (options->world_size == 0)
        return sluice_fail(err, SLUICE_E_INVALID, "--world-size 0: there is at least one rank");
    if (options->rank >= options->world_size)
        return sluice_fail(err, SLUICE_E_INVALID, "--rank %u: ranks of --world-size %u are 0 to %u",
                           options->rank, options->world_size, options->world_size - 1);
    if (options->batch_size == 0)
        return sluice_fail(err, SLUICE_E_INVALID, "--batch-size 0: a batch has at least one row");
    if (global_batch(options) > UINT32_MAX)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "--world-size %u x --batch-size %u: a global batch of %llu samples is "
                           "too large, at most %u",
                           options->world_size, options->batch_size,
                           (unsigned long long)global_batch(options), UINT32_MAX);
    return SLUICE_OK;
}

sluice_status sluice_order_check_cursor(const struct sluice_order_options *options, uint64_t total,
                                        uint64_t cursor, struct sluice_err *err)
{
    if (cursor > total)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "%llu samples of the epoch are done, and it has %llu",
                           (unsigned long long)cursor, (unsigned long long)total);
    if (cursor < total && cursor % global_batch(options))
        return sluice_fail(err, SLUICE_E_INVALID,
                           "%llu samples of the epoch are done, which is no multiple of %llu, the "
                           "global batch of %u x %u",
                           (unsigned long long)cursor, (unsigned long long)global_batch(options),
                           options->world_size, options->batch_size);
    return SLUICE_OK;
}

uint64_t sluice_order_num_batches(const struct sluice_order_options *options, uint64_t total,
                                  uint64_t cursor)
{
    const bool has_partial = partial_items(options, total, cursor) > 0;
    return (total - cursor) / global_batch(options) + has_partial;
}

uint64_t sluice_order_num_items(const struct sluice_order_options *options, uint64_t total,
                                uint64_t cursor)
{
    return (total - cursor) / global_batch(options) * options->batch_size +
           partial_rows(options, total, cursor);
}

uint32_t sluice_order_num_padded(const struct sluice_order_options *options, uint64_t total,
                                 uint64_t cursor)
{
    const uint64_t partial = partial_items(options, total, cursor);
    const uint64_t rows = partial_rows(options, total, cursor);
    const uint64_t begin = options->rank * rows;
    const uint64_t real = partial > begin ? partial - begin : 0;
    return (uint32_t)(rows > real ? rows - real : 0);
}

void sluice_order_fill(const struct sluice_order_options *options,
                       const struct sluice_sampler_item *items, uint64_t total, uint64_t cursor,
                       struct sluice_sampler_item *out)
{
    const uint64_t rows = partial_rows(options, total, cursor);
    const uint64_t size = options->batch_size;
    for (; total - cursor >= global_batch(options); cursor += global_batch(options)) {
        memcpy(out, items + cursor + options->rank * size, size * sizeof(*items));
        out += size;
    }
    /* Past the end the order begins again. */
    for (uint64_t row = 0; row < rows; row++)
        out[row] = items[(cursor + options->rank * rows + row) % total];
}

uint64_t sluice_order_cursor(const struct sluice_order_options *options, uint64_t total,
                             uint64_t cursor, uint64_t batches_taken)
{
    assert(batches_taken <= sluice_order_num_batches(options, total, cursor));
    const uint64_t after = cursor + batches_taken * global_batch(options);
    return after < total ? after : total;
}

sluice_status sluice_rank_from_env(sluice_getenv_fn *get, struct sluice_rank *rank,
                                   struct sluice_err *err)
{
    static const struct {
        const char *rank, *size;
    } pairs[] = {
        {"RANK", "WORLD_SIZE"},
        {"SLURM_PROCID", "SLURM_NTASKS"},
        {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(pairs); i++) {
        const char *const names[] = {pairs[i].rank, pairs[i].size};
        const char *texts[2];
        for (int k = 0; k < 2; k++) {
            texts[k] = get(names[k]);
            if (texts[k] && !texts[k][0])
                texts[k] = NULL;
        }
        if (!texts[0] && !texts[1])
            continue;
        if (!texts[0] || !texts[1])
            return sluice_fail(err, SLUICE_E_INVALID,
                               "%s is set in the environment, and %s is not: set both or neither, "
                               "or pass --rank and --world-size",
                               names[texts[0] ? 0 : 1], names[texts[0] ? 1 : 0]);
        uint64_t values[2];
        for (int k = 0; k < 2; k++) {
            struct sluice_err cause = {{0}};
            if (sluice_parse_uint(texts[k], &values[k], &cause) != SLUICE_OK)
                return sluice_fail(err, SLUICE_E_INVALID, "%s of the environment: %s", names[k],
                                   cause.text);
        }
        if (values[1] > UINT32_MAX || values[0] >= values[1])
            return sluice_fail(err, SLUICE_E_INVALID,
                               "%s=%llu and %s=%llu of the environment: a rank is less than the "
                               "number of ranks, which is at most %u",
                               names[0], (unsigned long long)values[0], names[1],
                               (unsigned long long)values[1], UINT32_MAX);
        *rank =
            (struct sluice_rank){.rank = (uint32_t)values[0], .world_size = (uint32_t)values[1]};
        return SLUICE_OK;
    }
    *rank = (struct sluice_rank){.world_size = 1};
    return SLUICE_OK;
}
