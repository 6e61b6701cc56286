#include "sluice/sluice.h"

#include "base/cpu.h"
#include "base/rng.h"
#include "compute_client/api/tuning.h"
#include "support/test.h"

#include <math.h>

static struct sluice_rng rng;

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

/* --- references for one value; they share nothing with the library --- */

/* binary16 of not-NaNs by search: the nearest of all its finite values, the even one of two. */
static uint16_t f16_by_search(float value)
{
    static double values[0x7c00];
    if (values[1] == 0)
        for (int b = 0; b < 0x7c00; b++)
            values[b] = b >> 10 ? ldexp(1024 + (b & 1023), (b >> 10) - 25) : ldexp(b, -24);
    const uint16_t sign = signbit(value) ? 0x8000 : 0;
    const double magnitude = fabs((double)value);
    if (magnitude >= 65520) /* halfway from the largest to what would come next, and up to even */
        return sign | 0x7c00;
    int low = 0, high = 0x7bff;
    while (low < high) { /* the last that is not above it */
        const int middle = (low + high + 1) / 2;
        if (values[middle] <= magnitude)
            low = middle;
        else
            high = middle - 1;
    }
    if (low == 0x7bff)
        return (uint16_t)(sign | low);
    const double below = magnitude - values[low], above = values[low + 1] - magnitude;
    if (below > above || (below == above && low % 2))
        low++;
    return (uint16_t)(sign | low);
}

/* bfloat16 of not-NaNs: the upper half, plus one if the lower is above half of it, or is half of it
 * and the upper odd. */
static uint16_t bf16_by_halves(float value)
{
    const uint32_t upper = bits_of(value) >> 16, lower = bits_of(value) & 0xffff;
    return (uint16_t)(upper + (lower > 0x8000 || (lower == 0x8000 && upper % 2)));
}

/* A NaN in 16 bits: the upper bits of a float's fraction, quiet. */
static uint16_t nan_in(enum sluice_dtype dtype, float value)
{
    const uint32_t bits = bits_of(value), sign = bits >> 31 << 15;
    const int fraction_bits = dtype == SLUICE_F16 ? 10 : 7;
    const uint32_t exponent = dtype == SLUICE_F16 ? 0x7c00 : 0x7f80;
    const uint32_t fraction = (bits & 0x7fffff) >> (23 - fraction_bits);
    return (uint16_t)(sign | exponent | 1u << (fraction_bits - 1) | fraction);
}

static uint32_t reference(enum sluice_dtype dtype, float value)
{
    if (dtype == SLUICE_F32)
        return bits_of(value);
    if (isnan(value))
        return nan_in(dtype, value);
    return dtype == SLUICE_F16 ? f16_by_search(value) : bf16_by_halves(value);
}

/* --- tables --- */

/* What a model sees, any bits, and every kind of edge. */
static void make_table(float table[3][256])
{
    static const uint32_t edges[] = {
        0x00000000, 0x00000001, 0x00007fff, 0x00008000, 0x00008001, 0x00018000, 0x007fffff,
        0x00800000, 0x32ffffff, 0x33000000, 0x33000001, 0x33c00000, 0x387fdfff, 0x387fe000,
        0x387fe001, 0x387fffff, 0x38800000, 0x3f801000, 0x3f803000, 0x3f808000, 0x3f818000,
        0x477fefff, 0x477ff000, 0x47800000, 0x7f7f7fff, 0x7f7f8000, 0x7f7fffff, 0x7f800000,
        0x7f800001, 0x7fbfffff, 0x7fc00000, 0x7fffffff,
    };
    for (int c = 0; c < 3; c++) {
        for (int v = 0; v < 256; v++) {
            uint32_t bits = sluice_rng_u32(&rng);
            switch (sluice_rng_below(&rng, 6)) {
            case 0: /* of images, normalised */
                bits = bits_of(((float)v / 255.0f - 0.485f) / 0.229f);
                break;
            case 1:
                bits = edges[bits % SLUICE_ARRAY_LEN(edges)] | (bits & 0x80000000);
                break;
            case 2: /* subnormal */
                bits &= 0x807fffff;
                break;
            case 3: /* about where binary16 is subnormal, often halfway */
                bits = (bits & 0x80ffe000) + 0x33000000 + (bits & 0x1000);
                break;
            case 4: /* halfway of bfloat16 */
                bits = (bits & 0xffff0000) | 0x8000;
                break;
            default: /* any bits */
                break;
            }
            table[c][v] = float_of(bits);
        }
    }
}

static size_t bytes_of(enum sluice_dtype dtype)
{
    return dtype == SLUICE_F32 ? 4 : 2;
}

static uint32_t value_at(const uint8_t *out, enum sluice_dtype dtype, size_t at)
{
    uint32_t word;
    uint16_t half;
    if (dtype == SLUICE_F32) {
        memcpy(&word, out + at * 4, 4);
        return word;
    }
    memcpy(&half, out + at * 2, 2);
    return half;
}

/* Where value (n, y, x, c) belongs. */
static size_t place(enum sluice_layout layout, size_t height, size_t width, size_t n, size_t y,
                    size_t x, size_t c)
{
    return layout == SLUICE_NCHW ? ((n * 3 + c) * height + y) * width + x
                                 : ((n * height + y) * width + x) * 3 + c;
}

/* Runs sluice_finish() and compares all that it wrote with the references, and what lies on either
 * side with what it was.  `offset`: elements from where memory is aligned to 64 bytes. */
static void check(const float table[3][256], const uint8_t *pixels, size_t num_rows, size_t height,
                  size_t width, enum sluice_dtype dtype, enum sluice_layout layout, size_t offset)
{
    const size_t num_values = num_rows * height * width * 3;
    const size_t num_bytes = num_values * bytes_of(dtype), start = 64 + offset * bytes_of(dtype);
    uint8_t *memory = aligned_alloc(64, (start + num_bytes + 64 + 63) / 64 * 64);
    CU_ASSERT_PTR_NOT_NULL_FATAL(memory);
    memset(memory, 0xa5, start + num_bytes + 64);
    struct sluice_err err = {0};
    CHECK_OK(
        sluice_finish(pixels, num_rows, height, width, table, dtype, layout, memory + start, &err));
    uint32_t expected[3][256];
    for (int c = 0; c < 3; c++) {
        for (int v = 0; v < 256; v++)
            expected[c][v] = reference(dtype, table[c][v]);
    }
    size_t num_wrong = 0;
    for (size_t i = 0; i < num_values; i++) {
        const size_t c = i % 3, x = i / 3 % width, y = i / 3 / width % height,
                     n = i / 3 / width / height;
        const size_t at = place(layout, height, width, n, y, x, c);
        num_wrong += value_at(memory + start, dtype, at) != expected[c][pixels[i]];
    }
    if (num_wrong)
        printf("%zu x %zu x %zu, dtype %d, layout %d, offset %zu: %zu wrong\n", num_rows, height,
               width, (int)dtype, (int)layout, offset, num_wrong);
    CU_ASSERT_EQUAL(num_wrong, 0);
    size_t num_touched = 0;
    for (size_t i = 0; i < start; i++)
        num_touched += memory[i] != 0xa5;
    for (size_t i = 0; i < 64; i++)
        num_touched += memory[start + num_bytes + i] != 0xa5;
    CU_ASSERT_EQUAL(num_touched, 0);
    free(memory);
}

static void check_all_ways(const float table[3][256], const uint8_t *pixels, size_t num_rows,
                           size_t height, size_t width, size_t offset)
{
    for (enum sluice_dtype dtype = SLUICE_F32; dtype <= SLUICE_BF16; dtype++) {
        for (enum sluice_layout layout = SLUICE_NCHW; layout <= SLUICE_NHWC; layout++)
            check(table, pixels, num_rows, height, width, dtype, layout, offset);
    }
}

static uint8_t *random_pixels(size_t num)
{
    /* The exact size: the sanitizer sees a byte too many. */
    uint8_t *pixels = malloc(num);
    CU_ASSERT_PTR_NOT_NULL_FATAL(pixels);
    const size_t period = 1000003; /* of many pixels; a prime */
    for (size_t i = 0; i < num; i++)
        pixels[i] = i < period ? (uint8_t)sluice_rng_u32(&rng) : pixels[i - period];
    return pixels;
}

/* --- tests --- */

TEST(every_value_is_the_tables_in_its_place)
{
    static const struct {
        size_t num_rows, height, width;
    } sizes[] = {{1, 1, 1},  {2, 1, 1}, {1, 1, 7},  {3, 3, 2},  {5, 7, 3},   {1, 3, 21},
                 {2, 1, 63}, {2, 8, 8}, {1, 5, 13}, {3, 11, 9}, {2, 37, 53}, {1, 224, 224}};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(sizes); i++) {
        const size_t num_rows = sizes[i].num_rows, height = sizes[i].height, width = sizes[i].width;
        uint8_t *pixels = random_pixels(num_rows * height * width * 3);
        float table[3][256];
        make_table(table);
        check_all_ways(table, pixels, num_rows, height, width, 0);
        free(pixels);
    }
}

TEST(all_256_values_of_each_channel)
{
    uint8_t pixels[256 * 3];
    for (int i = 0; i < 256 * 3; i++)
        pixels[i] = (uint8_t)(i / 3);
    for (int round = 0; round < 50; round++) {
        float table[3][256];
        make_table(table);
        check_all_ways(table, pixels, 1, 16, 16, 0);
    }
}

static void normalise(float table[3][256], const float mean[3], const float std[3])
{
    for (int c = 0; c < 3; c++) {
        for (int v = 0; v < 256; v++)
            table[c][v] = ((float)v / 255.0f - mean[c]) / std[c];
    }
}

/* Sizes from which on values may be computed. */
TEST(tables_of_mean_and_std_are_exact)
{
    static const struct {
        float mean[3], std[3];
    } known[] = {
        {{0, 0, 0}, {1, 1, 1}},
        {{0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}},
        {{0.5f, 0.5f, 0.5f}, {0.5f, 0.5f, 0.5f}},
        {{0.48145466f, 0.4578275f, 0.40821073f}, {0.26862954f, 0.26130258f, 0.27577711f}},
        {{0.4914f, 0.4822f, 0.4465f}, {0.2023f, 0.1994f, 0.2010f}},
        {{-3, 0.1f, 70}, {1e-4f, 1e-7f, 1000}},
        {{0.5f, 0.5f, 0.5f}, {-0.5f, 0.5f, 0.5f}}, /* falling */
        {{0.5f, 0.5f, 0.5f}, {0, 0, 0}},           /* infinite */
    };
    const size_t height = 130, width = 131;
    uint8_t *pixels = random_pixels(height * width * 3);
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(known); i++) {
        float table[3][256];
        normalise(table, known[i].mean, known[i].std);
        check_all_ways(table, pixels, 1, height, width, 0);
        check_all_ways(table, pixels, 1, height, width, 1);
        /* Almost such a table: one value is another. */
        table[i % 3][1 + sluice_rng_below(&rng, 254)] = (float)NAN;
        check_all_ways(table, pixels, 1, height, width, 0);
        const unsigned c = sluice_rng_below(&rng, 3), v = sluice_rng_below(&rng, 256);
        normalise(table, known[i].mean, known[i].std);
        table[c][v] = float_of(bits_of(table[c][v]) ^ 1);
        check_all_ways(table, pixels, 1, height, width, 0);
    }
    for (int round = 0; round < 20; round++) {
        float table[3][256], mean[3], std[3];
        for (int c = 0; c < 3; c++) {
            mean[c] = (float)sluice_rng_below(&rng, 1000000) / 1e6f;
            std[c] = (float)(1 + sluice_rng_below(&rng, 1000000)) / 1e6f;
        }
        normalise(table, mean, std);
        check(table, pixels, 1, height, width, SLUICE_F32, SLUICE_NCHW, 0);
        check(table, pixels, 1, height, width, SLUICE_F32, SLUICE_NHWC, 0);
    }
    free(pixels);
}

/* Sizes that are written past the caches, in planes that are aligned for that and in others. */
TEST(large_batches_are_the_same)
{
    static const struct {
        size_t height, width;
    } sizes[] = {{1184, 960}, {1185, 959}};
    const size_t num_rows = 5;
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(sizes); i++) {
        const size_t height = sizes[i].height, width = sizes[i].width;
        CU_ASSERT(num_rows * height * width * 3 * 4 >= SLUICE_FINISH_FAR_BYTES);
        uint8_t *pixels = random_pixels(num_rows * 2 * height * width * 3);
        float table[3][256];
        normalise(table, (float[3]){0.485f, 0.456f, 0.406f}, (float[3]){0.229f, 0.224f, 0.225f});
        check(table, pixels, num_rows, height, width, SLUICE_F32, SLUICE_NCHW, 0);
        check(table, pixels, num_rows, height, width, SLUICE_F32, SLUICE_NHWC, 0);
        make_table(table);
        check(table, pixels, num_rows, height, width, SLUICE_F32, SLUICE_NCHW, i);
        check(table, pixels, num_rows * 2, height, width, i ? SLUICE_BF16 : SLUICE_F16, SLUICE_NCHW,
              0);
        free(pixels);
    }
}

TEST(output_may_start_at_any_element)
{
    float table[3][256];
    make_table(table);
    uint8_t *pixels = random_pixels((size_t)2 * 9 * 31 * 3);
    for (size_t offset = 0; offset < 32; offset++)
        check_all_ways(table, pixels, 2, 9, 31, offset);
    free(pixels);
}

/* Two million floats of a walk through the bit patterns, against the compiler's own conversion and
 * the search. */
TEST(f16_is_what_the_compiler_makes_of_a_float)
{
#ifdef __FLT16_MAX__
    __extension__ typedef _Float16 half;
    uint8_t pixels[256 * 3];
    for (int i = 0; i < 256 * 3; i++)
        pixels[i] = (uint8_t)(i / 3);
    uint32_t bits = sluice_rng_u32(&rng);
    size_t num_wrong = 0;
    for (int round = 0; round < 3000; round++) {
        float table[3][256];
        for (int i = 0; i < 3 * 256; i++, bits += 0x1001 * 449) /* odd: it repeats none */
            table[i / 256][i % 256] = float_of(bits);
        uint16_t out[256 * 3];
        REQUIRE_OK(sluice_finish(pixels, 1, 1, 256, table, SLUICE_F16, SLUICE_NCHW, out, NULL));
        for (int i = 0; i < 3 * 256; i++) {
            const float value = table[i / 256][i % 256];
            const half expected = (half)value;
            uint16_t expected_bits;
            memcpy(&expected_bits, &expected, sizeof(expected_bits));
            /* Which NaN is the compiler's to say. */
            num_wrong += isnan(value) ? (out[i] & 0x7fff) <= 0x7c00 : out[i] != expected_bits;
            num_wrong += out[i] != reference(SLUICE_F16, value);
        }
    }
    CU_ASSERT_EQUAL(num_wrong, 0);
#else
    printf("the compiler has no _Float16\n");
#endif
}

TEST(known_values)
{
    static const struct {
        uint32_t f32;
        uint16_t f16, bf16;
    } known[] = {
        {0x00000000, 0x0000, 0x0000}, {0x80000000, 0x8000, 0x8000}, {0x3f800000, 0x3c00, 0x3f80},
        {0xbf800000, 0xbc00, 0xbf80}, {0x3eaaaaab, 0x3555, 0x3eab}, {0x477fe000, 0x7bff, 0x4780},
        {0x477fefff, 0x7bff, 0x4780}, {0x477ff000, 0x7c00, 0x4780}, {0x33800000, 0x0001, 0x3380},
        {0x33000000, 0x0000, 0x3300}, {0x33000001, 0x0001, 0x3300}, {0x33c00000, 0x0002, 0x33c0},
        {0x387fc000, 0x03ff, 0x3880}, {0x387fe000, 0x0400, 0x3880}, {0x00000001, 0x0000, 0x0000},
        {0x00008000, 0x0000, 0x0000}, {0x00018000, 0x0000, 0x0002}, {0x7f7fffff, 0x7c00, 0x7f80},
        {0x7f800000, 0x7c00, 0x7f80}, {0xff800000, 0xfc00, 0xff80}, {0x7fc00000, 0x7e00, 0x7fc0},
        {0x7f800001, 0x7e00, 0x7fc0}, {0xffffffff, 0xffff, 0xffff}, {0x3f801000, 0x3c00, 0x3f80},
        {0x3f803000, 0x3c02, 0x3f80}, {0x3f808000, 0x3c04, 0x3f80}, {0x3f818000, 0x3c0c, 0x3f82},
    };
    float table[3][256] = {{0}};
    uint8_t pixels[SLUICE_ARRAY_LEN(known) * 3] = {0};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(known); i++) {
        table[0][i] = float_of(known[i].f32);
        pixels[3 * i] = (uint8_t)i;
    }
    uint16_t f16[SLUICE_ARRAY_LEN(pixels)], bf16[SLUICE_ARRAY_LEN(pixels)];
    const size_t width = SLUICE_ARRAY_LEN(known);
    CHECK_OK(sluice_finish(pixels, 1, 1, width, table, SLUICE_F16, SLUICE_NCHW, f16, NULL));
    CHECK_OK(sluice_finish(pixels, 1, 1, width, table, SLUICE_BF16, SLUICE_NCHW, bf16, NULL));
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(known); i++) {
        CU_ASSERT_EQUAL(f16[i], known[i].f16);
        CU_ASSERT_EQUAL(bf16[i], known[i].bf16);
        CU_ASSERT_EQUAL(reference(SLUICE_F16, float_of(known[i].f32)), known[i].f16);
        CU_ASSERT_EQUAL(reference(SLUICE_BF16, float_of(known[i].f32)), known[i].bf16);
    }
}

static void check_refused(size_t num_rows, size_t height, size_t width, enum sluice_dtype dtype,
                          enum sluice_layout layout, size_t skip, const char *says)
{
    const float table[3][256] = {{0}};
    const uint8_t pixels[12] = {0};
    _Alignas(64) uint8_t out[64];
    memset(out, 0xa5, sizeof(out));
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(
        sluice_finish(pixels, num_rows, height, width, table, dtype, layout, out + skip, &err),
        SLUICE_E_INVALID);
    if (!strstr(err.text, says))
        printf("\"%s\" does not say \"%s\"\n", err.text, says);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, says));
    CU_ASSERT_EQUAL(
        sluice_finish(pixels, num_rows, height, width, table, dtype, layout, out + skip, NULL),
        SLUICE_E_INVALID);
    for (size_t i = 0; i < sizeof(out); i++)
        CU_ASSERT_EQUAL(out[i], 0xa5);
}

TEST(refuses_sizes_of_0)
{
    check_refused(0, 2, 2, SLUICE_F32, SLUICE_NCHW, 0, "0 rows of 2 x 2");
    check_refused(1, 0, 2, SLUICE_F16, SLUICE_NHWC, 0, "1 rows of 0 x 2");
    check_refused(1, 2, 0, SLUICE_BF16, SLUICE_NCHW, 0, "1 rows of 2 x 0");
}

TEST(refuses_sizes_that_overflow)
{
    static const char says[] = "too many bytes";
    const size_t half = (size_t)1 << (sizeof(size_t) * 4);
    check_refused(1, half, half, SLUICE_F32, SLUICE_NCHW, 0, says);
    check_refused(SIZE_MAX, 1, 1, SLUICE_F32, SLUICE_NCHW, 0, says);
    check_refused(1, SIZE_MAX, 1, SLUICE_F16, SLUICE_NHWC, 0, says);
    check_refused(1, 1, SIZE_MAX / 3, SLUICE_F16, SLUICE_NHWC, 0, says);
    check_refused(half, half / 4, 1, SLUICE_BF16, SLUICE_NHWC, 0, says);
    check_refused(half, 2, half / 8, SLUICE_F32, SLUICE_NCHW, 0, says);
    /* It fits into size_t, but no object is so large. */
    check_refused(1, 1, SIZE_MAX / 6, SLUICE_F16, SLUICE_NHWC, 0, says);
    check_refused(1, 1, PTRDIFF_MAX / 12 + 1, SLUICE_F32, SLUICE_NHWC, 0, says);
}

TEST(refuses_unknown_dtypes_and_layouts)
{
    check_refused(1, 1, 1, (enum sluice_dtype)3, SLUICE_NCHW, 0, "3 is not a dtype");
    check_refused(1, 1, 1, SLUICE_F32, (enum sluice_layout)2, 0, "2 is not a layout");
}

TEST(refuses_output_that_is_not_aligned)
{
    check_refused(1, 1, 1, SLUICE_F32, SLUICE_NCHW, 1, "aligned to its 4 bytes");
    check_refused(1, 1, 1, SLUICE_F32, SLUICE_NCHW, 2, "aligned to its 4 bytes");
    check_refused(1, 1, 1, SLUICE_F16, SLUICE_NHWC, 1, "aligned to its 2 bytes");
    check_refused(1, 1, 1, SLUICE_BF16, SLUICE_NHWC, 3, "aligned to its 2 bytes");
}

int main(void)
{
    rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    printf("kernels: %s\n", sluice_cpu_level_name(sluice_cpu_level()));
    return sluice_test_main();
}
