/* The best Huffman codes; that a recoded scan says the same is for test_jpeg_crop.c of
 * tests/property. */

#include "image/jpeg/bit_writer.h"
#include "image/jpeg/recode.h"

#include "base/rng.h"

#include "support/test.h"

static uint64_t cost_of(const uint32_t occurrences[256], const struct sluice_jpeg_huffman *huffman)
{
    struct sluice_jpeg_codes codes;
    sluice_jpeg_codes_init(&codes, huffman);
    uint64_t cost = 0;
    for (unsigned i = 0; i < 256; i++) {
        CU_ASSERT((codes.length[i] > 0) == (occurrences[i] > 0));
        cost += (uint64_t)occurrences[i] * codes.length[i];
    }
    return cost;
}

/* Huffman's own way: join the two lightest, and pay for all below, until one is left. */
static uint64_t least_cost(const uint32_t occurrences[256])
{
    uint64_t weights[257], cost = 0;
    size_t n = 1;
    weights[0] = 0; /* for the code of all ones */
    for (unsigned i = 0; i < 256; i++) {
        if (occurrences[i])
            weights[n++] = occurrences[i];
    }
    while (n > 1) {
        for (size_t last = n - 1; last >= n - 2 && last < n; last--) {
            size_t least = 0;
            for (size_t i = 1; i <= last; i++)
                least = weights[i] < weights[least] ? i : least;
            const uint64_t lightest = weights[least];
            weights[least] = weights[last];
            weights[last] = lightest;
        }
        weights[n - 2] += weights[n - 1];
        cost += weights[n - 2];
        n--;
    }
    return cost;
}

static void check_is_sound(const struct sluice_jpeg_huffman *huffman)
{
    unsigned code = 0, num_codes = 0;
    for (unsigned length = 1; length <= 16; length++) {
        code = (code << 1) + huffman->counts[length];
        num_codes += huffman->counts[length];
        CU_ASSERT(code < 1u << length); /* a prefix code, and all ones are free */
    }
    CU_ASSERT_EQUAL(num_codes, huffman->num_symbols);
    CU_ASSERT(huffman->is_present);
}

TEST(codes_cost_the_least)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    for (int round = 0; round < 200; round++) {
        uint32_t occurrences[256] = {0};
        const uint32_t num_symbols = 1 + sluice_rng_below(&rng, 200);
        for (uint32_t i = 0; i < num_symbols; i++)
            occurrences[sluice_rng_below(&rng, 256)] =
                1 + sluice_rng_below(&rng, 1u << sluice_rng_below(&rng, 7));
        struct sluice_jpeg_huffman huffman;
        sluice_jpeg_optimal_huffman(occurrences, &huffman);
        check_is_sound(&huffman);
        CU_ASSERT_EQUAL(cost_of(occurrences, &huffman), least_cost(occurrences));
    }
}

TEST(no_code_is_longer_than_16_bits)
{
    /* Each weighs as much as all before it: without a limit, a code of 39 bits. */
    uint32_t occurrences[256] = {1, 1};
    for (int i = 2; i < 40; i++)
        occurrences[i] = occurrences[i - 1] + occurrences[i - 2];
    struct sluice_jpeg_huffman huffman;
    sluice_jpeg_optimal_huffman(occurrences, &huffman);
    check_is_sound(&huffman);
    CU_ASSERT_EQUAL(huffman.num_symbols, 40);
    CU_ASSERT_EQUAL(huffman.symbols[0], 39);
    CU_ASSERT(cost_of(occurrences, &huffman) < 2 * least_cost(occurrences));

    for (int i = 0; i < 256; i++)
        occurrences[i] = 1;
    sluice_jpeg_optimal_huffman(occurrences, &huffman);
    check_is_sound(&huffman);
    CU_ASSERT_EQUAL(huffman.num_symbols, 256);
}

TEST(few_symbols_are_a_code_too)
{
    uint32_t occurrences[256] = {0};
    struct sluice_jpeg_huffman huffman;
    sluice_jpeg_optimal_huffman(occurrences, &huffman);
    check_is_sound(&huffman);
    CU_ASSERT_EQUAL(huffman.num_symbols, 0);
    occurrences[0xF0] = 1000000;
    sluice_jpeg_optimal_huffman(occurrences, &huffman);
    check_is_sound(&huffman);
    CU_ASSERT_EQUAL(huffman.counts[1], 1);
    CU_ASSERT_EQUAL(huffman.symbols[0], 0xF0);
}

TEST(bits_are_put_one_after_the_other)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 1, 0, 0);
    uint8_t bytes[512] = {0}, want[512] = {0};
    struct sluice_jpeg_bit_writer out = {.next = bytes};
    size_t position = 0;
    while (position < 480 * 8) {
        const unsigned num_bits = sluice_rng_below(&rng, 57);
        const uint64_t value = ((uint64_t)sluice_rng_u32(&rng) << 32 | sluice_rng_u32(&rng)) &
                               ((1ull << num_bits) - 1);
        sluice_jpeg_put_bits(&out, value, num_bits);
        for (unsigned i = num_bits; i-- > 0; position++)
            want[position / 8] |= (uint8_t)((value >> i & 1) << (7 - position % 8));
        CU_ASSERT_EQUAL((size_t)(out.next - bytes) * 8 + out.count, position);
    }
    CU_ASSERT(memcmp(bytes, want, position / 8) == 0);
}
