#include "image/lookup.h"

#include "base/cpu.h"
#include "base/rng.h"

#include "support/test.h"

#include <float.h>
#include <math.h>

static struct sluice_rng rng;

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static void make_table(float table[3][256])
{
    for (int c = 0; c < 3; c++) {
        for (int v = 0; v < 256; v++) {
            /* Any finite bits; often of a size that a model sees. */
            uint32_t bits = sluice_rng_u32(&rng);
            if ((bits & 0x7f800000) == 0x7f800000)
                bits &= ~0x40000000u;
            table[c][v] = v % 2 ? float_of(bits) : (float)v / 255.0f - 0.485f;
        }
    }
}

/* What binary16 is: sign, 5 bits of exponent, 10 of fraction. */
static double value_of_f16(uint16_t bits)
{
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const double magnitude = exponent == 31 ? (double)INFINITY
                             : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                            : ldexp(fraction, -24);
    return bits & 0x8000 ? -magnitude : magnitude;
}

TEST(every_binary16_comes_back)
{
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        if ((bits & 0x7c00) == 0x7c00 && (bits & 0x3ff))
            continue; /* not a number */
        CU_ASSERT_EQUAL(sluice_f16_bits((float)value_of_f16((uint16_t)bits)), bits);
    }
}

TEST(binary16_is_the_nearest_and_ties_go_to_even)
{
    for (uint16_t bits = 0; bits < 0x7bff; bits++) {
        const double low = value_of_f16(bits), high = value_of_f16((uint16_t)(bits + 1));
        const float middle = (float)((low + high) / 2); /* exact: 12 bits of fraction */
        CU_ASSERT_EQUAL(sluice_f16_bits(middle), bits + (bits & 1));
        CU_ASSERT_EQUAL(sluice_f16_bits(nextafterf(middle, 0)), bits);
        CU_ASSERT_EQUAL(sluice_f16_bits(nextafterf(middle, INFINITY)), bits + 1);
        CU_ASSERT_EQUAL(sluice_f16_bits(-middle), 0x8000 | (bits + (bits & 1)));
    }
    CU_ASSERT_EQUAL(sluice_f16_bits(nextafterf(65520, 0)), 0x7bff);
    CU_ASSERT_EQUAL(sluice_f16_bits(65520), 0x7c00);
    CU_ASSERT_EQUAL(sluice_f16_bits(-FLT_MAX), 0xfc00);
}

TEST(bfloat16_is_the_nearest_and_ties_go_to_even)
{
    for (uint32_t bits = 0; bits < 0x7f7f; bits++) {
        const uint32_t word = bits << 16;
        CU_ASSERT_EQUAL(sluice_bf16_bits(float_of(word)), bits);
        CU_ASSERT_EQUAL(sluice_bf16_bits(float_of(word | 0x7fff)), bits);
        CU_ASSERT_EQUAL(sluice_bf16_bits(float_of(word | 0x8000)), bits + (bits & 1));
        CU_ASSERT_EQUAL(sluice_bf16_bits(float_of(word | 0x8001)), bits + 1);
        CU_ASSERT_EQUAL(sluice_bf16_bits(float_of(0x80000000u | word)), 0x8000 | bits);
    }
    CU_ASSERT_EQUAL(sluice_bf16_bits(FLT_MAX), 0x7f80);
}

TEST(a_nan_stays_one_with_its_sign)
{
    static const uint32_t nans[] = {0x7f800001, 0x7fc00000, 0x7fffffff, 0x7fbfffff, 0x7f802000};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(nans); i++) {
        for (uint32_t is_negative = 0; is_negative < 2; is_negative++) {
            const uint32_t sign = is_negative << 31, bits = nans[i] | sign;
            const uint32_t f16 = sign >> 16 | 0x7e00 | (bits >> 13 & 0x3ff);
            CU_ASSERT_EQUAL(sluice_f16_bits(float_of(bits)), f16);
            CU_ASSERT_EQUAL(sluice_bf16_bits(float_of(bits)), bits >> 16 | 0x40);
        }
    }
    CU_ASSERT_EQUAL(sluice_f16_bits(-INFINITY), 0xfc00);
    CU_ASSERT_EQUAL(sluice_bf16_bits(-INFINITY), 0xff80);
}

/* The value of one pixel's channel as the header says, and where it belongs. */
static uint32_t expected(const float table[3][256], enum sluice_lookup_type type, int channel,
                         uint8_t v)
{
    const float value = table[channel][v];
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return type == SLUICE_LOOKUP_F32   ? bits
           : type == SLUICE_LOOKUP_F16 ? sluice_f16_bits(value)
                                       : sluice_bf16_bits(value);
}

static void check_run(enum sluice_lookup_type type, enum sluice_lookup_layout layout,
                      uint32_t width, uint32_t height, size_t gap, bool flip)
{
    float table[3][256];
    make_table(table);
    struct sluice_lookup lookup;
    sluice_lookup_init(&lookup, table, type, layout);
    const size_t value_bytes = sluice_lookup_value_bytes(&lookup);
    CU_ASSERT_EQUAL(value_bytes, type == SLUICE_LOOKUP_F32 ? 4 : 2);
    const size_t stride = (size_t)width * 3 + gap, plane = (size_t)width * height;
    const size_t in_len = stride * (height - 1) + (size_t)width * 3;
    /* Exact sizes: the sanitizer sees a byte too many on either side. */
    uint8_t *in = malloc(in_len), *out = malloc(plane * 3 * value_bytes);
    for (size_t i = 0; i < in_len; i++)
        in[i] = (uint8_t)sluice_rng_u32(&rng);
    sluice_lookup_run(&lookup, in, stride, width, height, flip, out);

    size_t num_wrong = 0;
    for (size_t y = 0; y < height; y++) {
        for (size_t x = 0; x < width; x++) {
            for (size_t c = 0; c < 3; c++) {
                const size_t to = y * width + (flip ? width - 1 - x : x);
                const size_t at = layout == SLUICE_LOOKUP_CHW ? c * plane + to : to * 3 + c;
                uint32_t value = 0;
                memcpy(&value, out + at * value_bytes, value_bytes);
                num_wrong += value != expected(table, type, (int)c, in[y * stride + 3 * x + c]);
            }
        }
    }
    if (num_wrong)
        printf("type %d layout %d: %u x %u, gap %zu, flip %d: %zu wrong\n", type, layout, width,
               height, gap, flip, num_wrong);
    CU_ASSERT_EQUAL(num_wrong, 0);
    free(in);
    free(out);
}

TEST(every_value_is_the_tables_in_its_place)
{
    static const struct {
        uint32_t width, height;
    } sizes[] = {{1, 1}, {3, 2}, {21, 3}, {22, 1}, {63, 1}, {64, 2}, {65, 3}, {224, 11}, {301, 9}};
    for (enum sluice_lookup_type type = SLUICE_LOOKUP_F32; type <= SLUICE_LOOKUP_BF16; type++) {
        for (enum sluice_lookup_layout layout = SLUICE_LOOKUP_CHW; layout <= SLUICE_LOOKUP_NHWC;
             layout++) {
            for (size_t i = 0; i < SLUICE_ARRAY_LEN(sizes); i++) {
                for (int k = 0; k < 4; k++)
                    check_run(type, layout, sizes[i].width, sizes[i].height,
                              k / 2 ? 1 + sluice_rng_below(&rng, 70) : 0, k % 2);
            }
        }
    }
}

TEST(long_rows_are_mirrored_as_a_whole)
{
    check_run(SLUICE_LOOKUP_F32, SLUICE_LOOKUP_CHW, 2048, 3, 0, true);
    check_run(SLUICE_LOOKUP_F32, SLUICE_LOOKUP_CHW, 2049, 2, 5, true);
    check_run(SLUICE_LOOKUP_F16, SLUICE_LOOKUP_NHWC, 5000, 2, 0, true);
}

static void make_formula_table(const float mean[3], const float std[3], float table[3][256])
{
    for (int c = 0; c < 3; c++) {
        for (int v = 0; v < 256; v++)
            table[c][v] = ((float)v / 255.0f - mean[c]) / std[c];
    }
}

TEST(a_formula_is_taken_where_it_gives_the_tables_bits)
{
    static const struct {
        float mean[3], std[3];
    } usual[] = {
        {{0, 0, 0}, {1, 1, 1}}, /* to_tensor alone */
        {{0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}},
        {{0.5f, 0.5f, 0.5f}, {0.5f, 0.5f, 0.5f}},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(usual); i++) {
        float table[3][256];
        make_formula_table(usual[i].mean, usual[i].std, table);
        struct sluice_lookup lookup;
        sluice_lookup_init(&lookup, table, SLUICE_LOOKUP_F32, SLUICE_LOOKUP_CHW);
        CU_ASSERT(!lookup.is_computed);
        CU_ASSERT(sluice_lookup_set_formula(&lookup, usual[i].mean, usual[i].std));
        CU_ASSERT(lookup.is_computed);
        for (unsigned c = 0; c < 3; c++) {
            for (unsigned v = 0; v < 256; v++) {
                const float value = sluice_lookup_formula(&lookup, c, (uint8_t)v);
                uint32_t bits;
                memcpy(&bits, &value, sizeof(bits));
                CU_ASSERT_EQUAL(bits, lookup.words[c][v]);
            }
        }
        sluice_lookup_init(&lookup, table, SLUICE_LOOKUP_F32, SLUICE_LOOKUP_CHW);
        CU_ASSERT(!lookup.is_computed);
    }
}

TEST(a_formula_of_another_table_is_refused)
{
    const float mean[3] = {0.485f, 0.456f, 0.406f}, std[3] = {0.229f, 0.224f, 0.225f};
    float table[3][256];
    make_formula_table(mean, std, table);
    struct sluice_lookup lookup;
    sluice_lookup_init(&lookup, table, SLUICE_LOOKUP_F16, SLUICE_LOOKUP_CHW);
    CU_ASSERT(!sluice_lookup_set_formula(&lookup, mean, std));
    /* One value of them all, by its last bit. */
    const unsigned c = sluice_rng_below(&rng, 3), v = sluice_rng_below(&rng, 256);
    table[c][v] = nextafterf(table[c][v], 10);
    sluice_lookup_init(&lookup, table, SLUICE_LOOKUP_F32, SLUICE_LOOKUP_CHW);
    CU_ASSERT(!sluice_lookup_set_formula(&lookup, mean, std));
    CU_ASSERT(!lookup.is_computed);
    /* No finite reciprocal. */
    const float tiny[3] = {FLT_MIN / 4, 1, 1};
    sluice_lookup_init(&lookup, table, SLUICE_LOOKUP_F32, SLUICE_LOOKUP_CHW);
    CU_ASSERT(!sluice_lookup_set_formula(&lookup, mean, tiny));
}

int main(void)
{
    rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    printf("kernels: %s\n", sluice_cpu_level_name(sluice_cpu_level()));
    return sluice_test_main();
}
