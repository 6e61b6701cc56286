#include "compute_client/loader/order/digest.h"

#include "support/test.h"

/* The definition, spelled out on contiguous memory. */
TEST(a_sample_is_its_pixels_and_eight_bytes_of_label)
{
    uint8_t bytes[300 + 8];
    for (int i = 0; i < 300; i++)
        bytes[i] = (uint8_t)(i * 7);
    memcpy(bytes + 300, "\x44\x33\x22\x11\0\0\0\0", 8);
    struct sluice_hasher *hasher = sluice_hasher_create();
    CU_ASSERT_PTR_NOT_NULL_FATAL(hasher);
    sluice_hasher_update(hasher, "left over", 9);
    const struct sluice_hash128 got = sluice_digest_sample(hasher, bytes, 300, 0x11223344);
    const struct sluice_hash128 want = sluice_hash128(bytes, 308);
    CU_ASSERT(got.high == want.high && got.low == want.low);
    sluice_hasher_destroy(hasher);
}

TEST(the_chain_is_the_hash_of_canonical_hashes_in_order)
{
    const struct sluice_hash128 a = {.high = 0x0102030405060708, .low = 0x090a0b0c0d0e0f10};
    const struct sluice_hash128 b = {.high = 1, .low = 2};
    const uint8_t bytes[32] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
                               0, 0, 0, 0, 0, 0, 0, 1, 0, 0,  0,  0,  0,  0,  0,  2};
    struct sluice_hasher *chain = sluice_hasher_create();
    CU_ASSERT_PTR_NOT_NULL_FATAL(chain);
    sluice_digest_chain(chain, a);
    sluice_digest_chain(chain, b);
    const struct sluice_hash128 got = sluice_hasher_digest(chain);
    const struct sluice_hash128 want = sluice_hash128(bytes, 32);
    CU_ASSERT(got.high == want.high && got.low == want.low);
    sluice_hasher_reset(chain);
    sluice_digest_chain(chain, b);
    sluice_digest_chain(chain, a);
    CU_ASSERT_NOT_EQUAL(sluice_hasher_digest(chain).low, want.low);
    sluice_hasher_destroy(chain);
}
