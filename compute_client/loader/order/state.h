#ifndef SLUICE_COMPUTE_CLIENT_LOADER_ORDER_STATE_H
#define SLUICE_COMPUTE_CLIENT_LOADER_ORDER_STATE_H

#include "base/error.h"
#include "compute_client/loader/order/mix.h"

#include <stdbool.h>
#include <stdint.h>

/* Where a loader stands in its epochs, and what has to be the same so that it goes on with the same
 * rows: JSON of one line.
 *
 *     {"sluice":1,"part":"train","epoch":2,"cursor":1024,"global_batch":512,"repeat":1,
 *      "samples":50000,"dataset":"0123456789abcdef0123456789abcdef","pipeline":"00c0ffee00c0ffee",
 *      "seed":"7","mix":"a=0.5,b=2","items":40000,"order":"0011223344556677",
 *      "errors":{"not found":1}}
 *
 * The numbers of 64 bits are texts, as a JSON integer has 63 and most readers keep 53: hexadecimal
 * with 16 digits, the seed decimal.  "order" is there for an external order alone, "mix" and
 * "items" for a mix of roots (mix.h) alone, "shards" for an order that keeps shards together
 * (sampler.h) alone; with one of these "sluice" is 2.  "copies" is there where a sample comes
 * several times in a row alone; then "sluice" is 3.  Of "errors" what is not 0.
 *
 * A checkpoint of offload_train without "sluice" is read, too.  It says "batch", those delivered in
 * the epoch, and "batch_size", in place of "cursor" and "global_batch"; "errors" may be missing.
 *
 * Threads: pure functions. */

struct sluice_state {
    uint64_t seed;
    uint64_t epoch;
    uint64_t cursor;           /* items delivered in the epoch to all ranks (order.h) */
    uint64_t global_batch;     /* world size x batch size, >= 1 */
    uint64_t repeat;           /* >= 1 */
    uint64_t copies;           /* that follow each other (sampler.h); >= 1 */
    uint64_t num_samples;      /* of the part, >= 1 */
    char mix[SLUICE_MIX_TEXT]; /* mix.h's text; "": none */
    uint64_t num_items;        /* of an epoch, with a mix */
    uint64_t num_mixed;        /* shards that are mixed; 0: the order knows no shards */
    uint32_t part;             /* enum sluice_part */
    char dataset_id[33];       /* up to 32 hexadecimal digits, small */
    uint64_t pipeline;         /* fingerprint */
    uint64_t errors[SLUICE_NUM_STATUS];
    bool has_order;      /* an external sampler's order is in place of the loader's own */
    uint64_t order_hash; /* of it */
};

/* Needs no memory; fits whatever the numbers are. */
void sluice_state_write(const struct sluice_state *state, char out[SLUICE_MAX_STATE]);

/* Reads what sluice_state_write() wrote of a state within these bounds, and checks that others are
 * within them: epoch and global batch fit 32 bits, and so do num_samples x repeat and num_items;
 * without an external order the cursor is a multiple of the global batch, or the end, which is
 * num_items with a mix and else num_samples x repeat; counts fit 63 bits.  Members that are unknown
 * are ignored.
 *
 * SLUICE_E_CORRUPT names the member.  SLUICE_E_UNSUPPORTED: the text is longer than 64 KiB or of
 * another version.  SLUICE_E_NO_MEMORY, where json_set_alloc_funcs() has base/noted_alloc.h's
 * malloc(); else a text that memory was short for may read as corrupt. */
SLUICE_MUST_USE sluice_status sluice_state_read(const char *text, struct sluice_state *state,
                                                struct sluice_err *err);

/* Does a loader that would be in `now` deliver from `saved` on what the loader that was there would
 * have?  Both are of one part.  Compares seed, dataset, pipeline, repeat, copies, mix, shards that
 * are mixed, number of samples and external order; in mid-epoch also the global batch, of which
 * now's is `world_size` x a batch size.  now's epoch, cursor and errors are not looked at.
 *
 * SLUICE_E_INVALID has both values and what to do. */
SLUICE_MUST_USE sluice_status sluice_state_check(const struct sluice_state *saved,
                                                 const struct sluice_state *now,
                                                 uint32_t world_size, struct sluice_err *err);

#endif
