#ifndef SLUICE_COMPUTE_CLIENT_LOADER_ORDER_STATE_H
#define SLUICE_COMPUTE_CLIENT_LOADER_ORDER_STATE_H

#include "base/error.h"
#include "compute_client/loader/order/mix.h"

#include <stdbool.h>
#include <stdint.h>

/* The state of a loader: its place in the epochs, and everything that must be equal so that it
 * continues with the same rows.  One line of JSON:
 *
 *     {"sluice":1,"part":"train","epoch":2,"cursor":1024,"global_batch":512,"repeat":1,
 *      "samples":50000,"dataset":"0123456789abcdef0123456789abcdef","pipeline":"00c0ffee00c0ffee",
 *      "seed":"7","mix":"a=0.5,b=2","items":40000,"order":"0011223344556677",
 *      "errors":{"not found":1}}
 *
 * Numbers of 64 bits are strings, because a JSON integer has 63 bits and most readers keep 53:
 * hexadecimal with 16 digits, the seed decimal.  Some members are present only where they apply:
 * "order" with an external order, "mix" and "items" with a mix of roots (mix.h), "shards" with an
 * order that keeps shards together (sampler.h), "copies" where a sample comes several times in a
 * row, "buckets" and "batch" with aspect buckets (bucket_order.h).  The version "sluice" is 4 with
 * "buckets", 3 with "copies", 2 with one of the others, else 1.  "errors" has the counts that are
 * not 0.
 *
 * A checkpoint of offload_train without "sluice" is read, too.  It has "batch", the batches
 * delivered in the epoch, and "batch_size" in place of "cursor" and "global_batch"; "errors" may be
 * missing.
 *
 * Threads: pure functions. */

struct sluice_state {
    uint64_t seed;
    uint64_t epoch;
    uint64_t cursor;           /* items delivered in the epoch to all ranks (order.h) */
    uint64_t global_batch;     /* world size x batch size, >= 1 */
    uint64_t repeat;           /* >= 1 */
    uint32_t copies;           /* of a sample in a row (sampler.h); >= 1 */
    uint64_t num_samples;      /* of the part, >= 1 */
    char mix[SLUICE_MIX_TEXT]; /* mix.h's text; "": no mix */
    uint64_t num_items;        /* of an epoch, with a mix */
    uint32_t num_mixed;        /* runs of shards in a window; 0: the order ignores shards */
    uint32_t num_buckets;      /* 0: without; else has_order is false */
    uint32_t batch;            /* with buckets: batches of the epoch before the cursor */
    uint32_t part;             /* enum sluice_part */
    char dataset_id[33];       /* up to 32 lower-case hexadecimal digits */
    uint64_t pipeline;         /* fingerprint */
    uint64_t errors[SLUICE_NUM_STATUS];
    bool has_order;      /* an external order replaces the loader's own */
    uint64_t order_hash; /* hash of the external order */
};

/* Allocates nothing; the text fits for all values. */
void sluice_state_write(const struct sluice_state *state, char out[SLUICE_MAX_STATE]);

/* Reads a text of sluice_state_write() and checks its bounds: epoch, global batch, num_samples x
 * repeat and num_items fit 32 bits; counts fit 63 bits; without an external order the cursor is at
 * most the end: num_items with a mix, else num_samples x repeat; and before the end, without
 * buckets, a multiple of the global batch.
 * Unknown members are ignored.
 *
 * SLUICE_E_CORRUPT names the member.  SLUICE_E_UNSUPPORTED: the text is longer than 64 KiB or of
 * another version.  SLUICE_E_NO_MEMORY is returned only if json_set_alloc_funcs() was given
 * base/noted_alloc.h's malloc(); else a text may read as corrupt when memory is short. */
SLUICE_MUST_USE sluice_status sluice_state_read(const char *text, struct sluice_state *state,
                                                struct sluice_err *err);

/* Checks whether a loader with the settings in `now` continues from `saved` with the same rows as
 * the loader that saved it.  Both states are of one part.  Compares seed, dataset, pipeline,
 * repeat, copies, mix, num_mixed, num_buckets, number of samples and external order; in mid-epoch
 * also the global batch; now's is `world_size` x a batch size.  Ignores now's epoch, cursor and
 * errors.
 *
 * SLUICE_E_INVALID: they differ; the error has both values and says what to do. */
SLUICE_MUST_USE sluice_status sluice_state_check(const struct sluice_state *saved,
                                                 const struct sluice_state *now,
                                                 uint32_t world_size, struct sluice_err *err);

#endif
