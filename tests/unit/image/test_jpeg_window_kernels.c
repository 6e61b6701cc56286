/* Each table of kernels against the scalar one: the same bytes, the same answers, and
 * nothing written outside.  The scalar transform against the definition of the DCT. */

#include "image/jpeg/window_kernels.h"

#include "base/rng.h"
#include "support/test.h"

#include <math.h>

static struct sluice_rng rng;
static const struct sluice_jpeg_window_kernels *const scalar = &sluice_jpeg_window_kernels_c;

#define GUARD 64
#define GUARD_BYTE 0xA7

/* A buffer with guards around `len` bytes. */
static uint8_t *guarded_create(size_t len)
{
    uint8_t *memory = malloc(len + (size_t)2 * GUARD);
    memset(memory, GUARD_BYTE, len + (size_t)2 * GUARD);
    return memory + GUARD;
}

static void guarded_check_and_free(uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < GUARD; i++) {
        CU_ASSERT_FATAL(bytes[-1 - (ptrdiff_t)i] == GUARD_BYTE);
        CU_ASSERT_FATAL(bytes[len + i] == GUARD_BYTE);
    }
    free(bytes - GUARD);
}

static void fill_random(uint8_t *bytes, size_t len)
{
    const bool is_extreme = sluice_rng_below(&rng, 4) == 0;
    for (size_t i = 0; i < len; i++) {
        bytes[i] = (uint8_t)sluice_rng_u32(&rng);
        if (is_extreme)
            bytes[i] = bytes[i] & 1 ? 255 : 0;
    }
}

/* A block from tame to wild. */
static void random_block(int16_t coefficients[64], int16_t quantisers[64])
{
    static const uint32_t ranges[] = {20, 300, 2000, 16384, INT16_MAX};
    static const uint32_t quantiser_ranges[] = {1, 1, 40, 255, SLUICE_JPEG_MAX_QUANTISER};
    const uint32_t quantiser_range =
        quantiser_ranges[sluice_rng_below(&rng, SLUICE_ARRAY_LEN(quantiser_ranges))];
    const uint32_t range = ranges[sluice_rng_below(&rng, SLUICE_ARRAY_LEN(ranges))];
    const uint32_t density = 1 + sluice_rng_below(&rng, 64);
    for (unsigned i = 0; i < 64; i++) {
        const int32_t value = (int32_t)sluice_rng_below(&rng, 2 * range + 1) - (int32_t)range;
        coefficients[i] = (int16_t)(sluice_rng_below(&rng, 64) < density ? value : 0);
        quantisers[i] = (int16_t)(1 + sluice_rng_below(&rng, quantiser_range));
        if (sluice_rng_below(&rng, 2))
            coefficients[i] = (int16_t)(coefficients[i] / quantisers[i]);
    }
}

/* A block in a kernel's own order. */
struct placed_block {
    _Alignas(64) int16_t coefficients[64], quantisers[64];
};

static void place_block(const struct sluice_jpeg_window_kernels *kernels,
                        const int16_t coefficients[64], const int16_t quantisers[64],
                        struct placed_block *block)
{
    for (unsigned i = 0; i < 64; i++) {
        block->coefficients[kernels->place[i]] = coefficients[i];
        block->quantisers[kernels->place[i]] = quantisers[i];
    }
}

static bool transform_one(const struct sluice_jpeg_window_kernels *kernels,
                          const int16_t coefficients[64], const int16_t quantisers[64],
                          uint8_t *out, size_t stride)
{
    struct placed_block block;
    place_block(kernels, coefficients, quantisers, &block);
    const struct sluice_jpeg_block job = {block.coefficients, block.quantisers, out, stride};
    const bool is_good = kernels->inverse_dct(&job, 1);
    for (unsigned i = 0; i < 64; i++)
        CU_ASSERT_FATAL(block.coefficients[i] == 0);
    return is_good;
}

static void check_inverse_dct(const struct sluice_jpeg_window_kernels *kernels)
{
    unsigned num_good = 0, num_bad = 0;
    for (unsigned n = 0; n < 20000; n++) {
        int16_t coefficients[64], quantisers[64];
        random_block(coefficients, quantisers);
        const size_t stride = 8 + sluice_rng_below(&rng, 9), len = 7 * stride + 8;
        uint8_t *want = guarded_create(len), *got = guarded_create(len);
        const bool is_good = transform_one(scalar, coefficients, quantisers, want, stride);
        CU_ASSERT_EQUAL_FATAL(transform_one(kernels, coefficients, quantisers, got, stride),
                              is_good);
        CU_ASSERT_FATAL(!is_good || memcmp(want, got, len) == 0);
        *(is_good ? &num_good : &num_bad) += 1;
        for (unsigned y = 0; y < 7; y++) {
            for (size_t x = 8; x < stride; x++)
                CU_ASSERT_FATAL(got[y * stride + x] == GUARD_BYTE);
        }
        guarded_check_and_free(want, len);
        guarded_check_and_free(got, len);
    }
    CU_ASSERT(num_good > 1000);
    CU_ASSERT(num_bad > 1000);
}

/* Several blocks, of different quantisers and strides, are as each by itself; one that is out of
 * range among them is noticed. */
static void check_many_blocks(const struct sluice_jpeg_window_kernels *kernels)
{
    enum { MAX_BLOCKS = 7 };
    unsigned num_bad = 0;
    for (unsigned n = 0; n < 2000; n++) {
        const size_t num_blocks = sluice_rng_below(&rng, MAX_BLOCKS + 1);
        struct placed_block placed[MAX_BLOCKS];
        struct sluice_jpeg_block blocks[MAX_BLOCKS];
        uint8_t *want[MAX_BLOCKS];
        bool are_good = true;
        for (size_t i = 0; i < num_blocks; i++) {
            int16_t coefficients[64] = {0}, quantisers[64];
            for (unsigned k = 0; k < 64; k++)
                quantisers[k] = (int16_t)(1 + sluice_rng_below(&rng, 20));
            coefficients[sluice_rng_below(&rng, 64)] = (int16_t)(sluice_rng_below(&rng, 60) - 30);
            coefficients[0] = (int16_t)(sluice_rng_below(&rng, n % 4 ? 100 : 400));
            const size_t stride = 8 + sluice_rng_below(&rng, 9), len = 7 * stride + 8;
            want[i] = guarded_create(len);
            are_good &= transform_one(scalar, coefficients, quantisers, want[i], stride);
            place_block(kernels, coefficients, quantisers, &placed[i]);
            blocks[i] = (struct sluice_jpeg_block){placed[i].coefficients, placed[i].quantisers,
                                                   guarded_create(len), stride};
        }
        CU_ASSERT_EQUAL_FATAL(kernels->inverse_dct(blocks, num_blocks), are_good);
        num_bad += !are_good;
        for (size_t i = 0; i < num_blocks; i++) {
            const size_t len = 7 * blocks[i].stride + 8;
            CU_ASSERT_FATAL(!are_good || memcmp(want[i], blocks[i].out, len) == 0);
            guarded_check_and_free(want[i], len);
            guarded_check_and_free(blocks[i].out, len);
        }
    }
    CU_ASSERT(num_bad > 10);
    CU_ASSERT(num_bad < 1500);
}

static void check_filters(const struct sluice_jpeg_window_kernels *kernels)
{
    for (unsigned n = 0; n < 3000; n++) {
        const size_t len = 1 + sluice_rng_below(&rng, 100);
        uint8_t *near = guarded_create(len + 2), *far = guarded_create(len + 2);
        fill_random(near, len + 2);
        fill_random(far, len + 2);
        uint16_t want_sums[128], got_sums[128];
        memset(want_sums, GUARD_BYTE, sizeof(want_sums));
        memset(got_sums, GUARD_BYTE, sizeof(got_sums));
        scalar->blend(near, far, len + 2, want_sums + 1);
        kernels->blend(near, far, len + 2, got_sums + 1);
        CU_ASSERT_FATAL(memcmp(want_sums, got_sums, sizeof(want_sums)) == 0);

        uint8_t *want = guarded_create(2 * len), *got = guarded_create(2 * len);
        const unsigned bias = 1 + sluice_rng_below(&rng, 2);
        scalar->finish_blend(want_sums + 2, len, bias, want);
        kernels->finish_blend(want_sums + 2, len, bias, got);
        CU_ASSERT_FATAL(memcmp(want, got, 2 * len) == 0);
        scalar->widen(want_sums + 2, len, 8, 7, 4, want);
        kernels->widen(want_sums + 2, len, 8, 7, 4, got);
        CU_ASSERT_FATAL(memcmp(want, got, 2 * len) == 0);
        for (size_t i = 0; i < len + 2; i++)
            want_sums[i] = near[i];
        scalar->widen(want_sums + 1, len, 1, 2, 2, want);
        kernels->widen(want_sums + 1, len, 1, 2, 2, got);
        CU_ASSERT_FATAL(memcmp(want, got, 2 * len) == 0);
        guarded_check_and_free(near, len + 2);
        guarded_check_and_free(far, len + 2);
        guarded_check_and_free(want, 2 * len);
        guarded_check_and_free(got, 2 * len);
    }
}

static void check_colours(const struct sluice_jpeg_window_kernels *kernels)
{
    /* Every pair of chroma values with a few lumas, in rows of odd lengths. */
    const size_t len = 251;
    uint8_t *planes[3], *want = guarded_create(3 * len), *got = guarded_create(3 * len);
    for (unsigned i = 0; i < 3; i++)
        planes[i] = guarded_create(len);
    for (uint32_t at = 0; at < 65536 + len; at += (uint32_t)len) {
        for (size_t i = 0; i < len; i++) {
            planes[0][i] = (uint8_t)sluice_rng_u32(&rng);
            planes[1][i] = (uint8_t)(at + i);
            planes[2][i] = (uint8_t)((at + i) >> 8);
        }
        const size_t part = 1 + sluice_rng_below(&rng, (uint32_t)len);
        memset(want, GUARD_BYTE, 3 * len);
        memset(got, GUARD_BYTE, 3 * len);
        scalar->ycc_to_rgb(planes[0], planes[1], planes[2], part, want);
        kernels->ycc_to_rgb(planes[0], planes[1], planes[2], part, got);
        CU_ASSERT_FATAL(memcmp(want, got, 3 * len) == 0);
        scalar->ycc_to_rgb(planes[0], planes[1], planes[2], len, want);
        kernels->ycc_to_rgb(planes[0], planes[1], planes[2], len, got);
        CU_ASSERT_FATAL(memcmp(want, got, 3 * len) == 0);
    }
    for (unsigned i = 0; i < 3; i++)
        guarded_check_and_free(planes[i], len);
    guarded_check_and_free(want, 3 * len);
    guarded_check_and_free(got, 3 * len);
}

TEST(every_table_equals_the_scalar_one)
{
    for (enum sluice_cpu_level level = SLUICE_CPU_C; level <= SLUICE_CPU_NEON; level++) {
        if (level > sluice_cpu_detected())
            continue;
        const struct sluice_jpeg_window_kernels *kernels = sluice_jpeg_window_kernels_for(level);
        check_inverse_dct(kernels);
        check_many_blocks(kernels);
        check_filters(kernels);
        check_colours(kernels);
    }
}

static int16_t ones[64];

/* In floating point, by its formula. */
static double true_sample(const int16_t coefficients[64], unsigned x, unsigned y)
{
    const double pi = acos(-1);
    double sum = 0;
    for (unsigned v = 0; v < 8; v++) {
        for (unsigned u = 0; u < 8; u++) {
            const double weight = (u ? 1 : sqrt(0.5)) * (v ? 1 : sqrt(0.5)) / 4;
            sum += weight * coefficients[v * 8 + u] * cos((2 * x + 1) * u * pi / 16) *
                   cos((2 * y + 1) * v * pi / 16);
        }
    }
    return fmin(fmax(sum + 128, 0), 255);
}

TEST(the_scalar_transform_is_an_inverse_dct)
{
    for (unsigned n = 0; n < 60; n++) {
        int16_t coefficients[64] = {0};
        for (unsigned i = 0; i < 6; i++)
            coefficients[sluice_rng_below(&rng, 64)] = (int16_t)(sluice_rng_below(&rng, 400) - 200);
        uint8_t out[64];
        CU_ASSERT_FATAL(transform_one(scalar, coefficients, ones, out, 8));
        for (unsigned i = 0; i < 64; i++)
            CU_ASSERT(fabs(out[i] - true_sample(coefficients, i % 8, i / 8)) < 0.6);
    }
}

/* At these steps the next value leaves the range where 16-bit arithmetic can be trusted. */
TEST(values_out_of_range_are_noticed)
{
    uint8_t out[64];
    int16_t coefficients[64] = {0};
    /* A product of 32 bits that would be small in 16. */
    const int16_t large[64] = {[0] = 4096};
    coefficients[0] = 16;
    CU_ASSERT(!transform_one(scalar, coefficients, large, out, 8));
    coefficients[0] = 511 * 8 + 3;
    CU_ASSERT(transform_one(scalar, coefficients, ones, out, 8));
    CU_ASSERT_EQUAL(out[0], 255);
    coefficients[0] = 511 * 8 + 4;
    CU_ASSERT(!transform_one(scalar, coefficients, ones, out, 8));
    coefficients[0] = -16384 / 4; /* the first pass carries two bits more */
    CU_ASSERT(transform_one(scalar, coefficients, ones, out, 8));
    CU_ASSERT_EQUAL(out[0], 0);
    coefficients[0] = -16384 / 4 - 1;
    CU_ASSERT(!transform_one(scalar, coefficients, ones, out, 8));
}

int main(void)
{
    rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    for (unsigned i = 0; i < 64; i++)
        ones[i] = 1;
    return sluice_test_main();
}
