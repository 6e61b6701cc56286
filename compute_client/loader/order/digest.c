#include "compute_client/loader/order/digest.h"

static void add_number(struct sluice_hasher *hasher, uint32_t number)
{
    uint8_t bytes[4];
    for (int i = 0; i < 4; i++)
        bytes[i] = (uint8_t)(number >> (8 * i));
    sluice_hasher_update(hasher, bytes, sizeof(bytes));
}

void sluice_digest_size(struct sluice_hasher *hasher, uint32_t height, uint32_t width)
{
    add_number(hasher, height);
    add_number(hasher, width);
}

struct sluice_hash128 sluice_digest_end(struct sluice_hasher *hasher, uint32_t label)
{
    add_number(hasher, label);
    add_number(hasher, 0);
    return sluice_hasher_digest(hasher);
}

struct sluice_hash128 sluice_digest_sample(struct sluice_hasher *hasher, const uint8_t *pixels,
                                           size_t len, uint32_t label)
{
    sluice_hasher_reset(hasher);
    sluice_hasher_update(hasher, pixels, len);
    return sluice_digest_end(hasher, label);
}

void sluice_digest_chain(struct sluice_hasher *chain, struct sluice_hash128 sample)
{
    uint8_t bytes[16];
    sluice_hash128_bytes(sample, bytes);
    sluice_hasher_update(chain, bytes, sizeof(bytes));
}
