#include "op/pipeline.h"
#include "op/tensor.h"

#include "base/rng.h"
#include "image/lookup.h"
#include "support/test.h"

#include <math.h>

static const struct sluice_scale normalizes[] = {
    {.mean = {0.485, 0.456, 0.406}, .std = {0.229, 0.224, 0.225}},
    {.mean = {0, 0.5, 1}, .std = {1, 0.0001, 1000}},
    /* Floats so coarse beside the steps that the table is far from a line. */
    {.mean = {1000, 3000, 9000}, .std = {0.3, 0.7, 0.9}},
};

static void to_floats(const sluice_pipeline_table table, const uint8_t *pixels,
                      struct sluice_size size, bool flip, float *out)
{
    struct sluice_lookup lookup;
    sluice_lookup_init(&lookup, table, SLUICE_LOOKUP_F32, SLUICE_LOOKUP_CHW);
    sluice_lookup_run(&lookup, pixels, (size_t)size.width * 3, size.width, size.height, flip, out);
}

TEST(every_value_comes_back_through_the_table)
{
    uint8_t pixels[256 * 3], back[256 * 3];
    float values[3 * 256];
    for (int i = 0; i < 256; i++) {
        pixels[3 * i] = (uint8_t)i;
        pixels[3 * i + 1] = (uint8_t)(255 - i);
        pixels[3 * i + 2] = (uint8_t)(i * 7);
    }
    const struct sluice_size size = {16, 16};
    for (size_t k = 0; k <= SLUICE_ARRAY_LEN(normalizes); k++) {
        sluice_pipeline_table table;
        sluice_tensor_table(k ? &normalizes[k - 1] : NULL, table);
        CU_ASSERT_TRUE(sluice_tensor_table_is_invertible(table));
        to_floats(table, pixels, size, false, values);
        CU_ASSERT_EQUAL(values[0], table[0][0]);
        CU_ASSERT_EQUAL(values[256], table[1][255]);
        CU_ASSERT_EQUAL(values[2 * 256 + 1], table[2][7]);
        memset(back, 0, sizeof(back));
        CHECK_OK(sluice_tensor_to_u8(table, values, size, back, NULL));
        CU_ASSERT(memcmp(back, pixels, sizeof(back)) == 0);
    }
}

TEST(neighbours_of_table_values_are_refused)
{
    for (size_t k = 0; k <= SLUICE_ARRAY_LEN(normalizes); k++) {
        sluice_pipeline_table table;
        sluice_tensor_table(k ? &normalizes[k - 1] : NULL, table);
        for (int v = 0; v < 256; v++) {
            float values[3] = {table[0][v], table[1][v], table[2][v]};
            uint8_t back[3];
            for (int c = 0; c < 3; c++) {
                const float value = values[c];
                for (int up = 0; up < 2; up++) {
                    values[c] = nextafterf(value, up ? INFINITY : -INFINITY);
                    /* Where the table is dense, the next float may be the next value. */
                    const int w = up ? v + 1 : v - 1;
                    if (w >= 0 && w < 256 && table[c][w] == values[c])
                        continue;
                    CU_ASSERT_EQUAL(
                        sluice_tensor_to_u8(table, values, (struct sluice_size){1, 1}, back, NULL),
                        SLUICE_E_CORRUPT);
                }
                values[c] = value;
            }
        }
    }
    /* Zero is in the plain table, negative zero is not. */
    sluice_pipeline_table table;
    sluice_tensor_table(NULL, table);
    const float values[3] = {0, -0.0f, 0};
    uint8_t back[3];
    CU_ASSERT_EQUAL(sluice_tensor_to_u8(table, values, (struct sluice_size){1, 1}, back, NULL),
                    SLUICE_E_CORRUPT);
}

/* Bit for bit; through void pointers, as floats compare otherwise. */
static bool has_same_bits(const void *a, const void *b, size_t len)
{
    return memcmp(a, b, len) == 0;
}

TEST(normalizing_afterwards_equals_the_table)
{
    for (size_t k = 0; k < SLUICE_ARRAY_LEN(normalizes); k++) {
        sluice_pipeline_table plain, table;
        sluice_tensor_table(NULL, plain);
        sluice_tensor_table(&normalizes[k], table);
        float out[3 * 256];
        sluice_tensor_normalize(&normalizes[k], plain[0], 256, out);
        CU_ASSERT(has_same_bits(out, table, sizeof(out)));
    }
}

TEST(planes_follow_each_other_and_flip_mirrors_rows)
{
    sluice_pipeline_table table;
    sluice_tensor_table(NULL, table);
    const struct sluice_size size = {5, 3};
    uint8_t pixels[45];
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    for (size_t i = 0; i < sizeof(pixels); i++)
        pixels[i] = (uint8_t)sluice_rng_u32(&rng);
    for (int flip = 0; flip < 2; flip++) {
        float out[45];
        to_floats(table, pixels, size, flip, out);
        for (unsigned y = 0; y < 3; y++) {
            for (unsigned x = 0; x < 5; x++) {
                for (unsigned c = 0; c < 3; c++)
                    CU_ASSERT_EQUAL(out[c * 15 + y * 5 + (flip ? 4 - x : x)],
                                    (float)pixels[(y * 5 + x) * 3 + c] / 255.0f);
            }
        }
    }
}

TEST(a_table_that_cannot_be_taken_back_is_known)
{
    static const struct sluice_scale flat = {.mean = {0, 0, 1e6}, .std = {1, 1, 1}};
    sluice_pipeline_table table;
    sluice_tensor_table(&flat, table);
    CU_ASSERT_FALSE(sluice_tensor_table_is_invertible(table));
    sluice_tensor_table(NULL, table);
    table[1][9] = NAN;
    CU_ASSERT_FALSE(sluice_tensor_table_is_invertible(table));
}
