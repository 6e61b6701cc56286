#ifndef SLUICE_COMPUTE_CLIENT_LOADER_ORDER_DIGEST_H
#define SLUICE_COMPUTE_CLIENT_LOADER_ORDER_DIGEST_H

#include "base/error.h"
#include "base/hash.h"

#include <stddef.h>
#include <stdint.h>

/* The digest of an epoch: XXH3-128 over the chain of per-sample hashes, each 16
 * canonical (big-endian) bytes, in delivery order; a sample's hash is XXH3-128
 * over its u8 pixels after the last u8 op, view after view, then where sizes
 * differ from sample to sample its height and width, each as 4 bytes little
 * endian, then its label as 8 bytes little endian.
 *
 * Two epochs with the same digest delivered the same pixels in the same order,
 * whatever the mode, the workers and the network did.
 *
 * Threads: a hasher belongs to one thread at a time. */

/* The hash of one sample.  `hasher` is scratch memory and is reset here. */
struct sluice_hash128 sluice_digest_sample(struct sluice_hasher *hasher, const uint8_t *pixels,
                                           size_t len, uint32_t label);
/* Adds the size to the pixels. */
void sluice_digest_size(struct sluice_hasher *hasher, uint32_t height, uint32_t width);
/* The same after the hasher was reset and given the pixels. */
struct sluice_hash128 sluice_digest_end(struct sluice_hasher *hasher, uint32_t label);

/* Appends a sample's hash to the chain. */
void sluice_digest_chain(struct sluice_hasher *chain, struct sluice_hash128 sample);

#endif
