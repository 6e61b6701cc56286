#include "image/kernels/kernels.h"

#include "base/rng.h"

#include "image/lookup.h"
#include "support/test.h"

#define GUARD 64
#define GUARD_BYTE 0xA5

static struct sluice_rng rng;

/* Random weights that sum to about 1 << 22, over inputs 0 .. num_in - 1. */
struct case_taps {
    struct sluice_taps taps;
    struct sluice_tap_span *spans;
    int32_t *coeffs;
    void *plan;
};

/* `is_in_order`: outputs look at inputs that move along with them, forwards or
 * backwards, as in a resize; else anywhere. */
static struct case_taps make_taps(const struct sluice_kernels *kernels, enum sluice_pass pass,
                                  uint32_t num_in, uint32_t num_out, uint32_t max_count,
                                  bool is_in_order)
{
    const uint32_t stride = (max_count + 3) & ~3u;
    struct case_taps made = {
        .spans = calloc(num_out, sizeof(*made.spans)),
        .coeffs = calloc((size_t)num_out * stride, sizeof(*made.coeffs)),
    };
    const size_t plan_len = kernels->plan_len(pass, num_out, stride);
    const bool is_backwards = sluice_rng_below(&rng, 2) == 0;
    made.plan = aligned_alloc(64, (plan_len + 63) & ~(size_t)63);
    if (plan_len)
        memset(made.plan, GUARD_BYTE, plan_len);
    for (uint32_t o = 0; o < num_out; o++) {
        const uint32_t limit = max_count < num_in ? max_count : num_in;
        const uint32_t count = 1 + sluice_rng_below(&rng, limit);
        /* Often at the very end, where a wide load would reach too far. */
        const uint32_t last = num_in - count;
        uint32_t first = sluice_rng_below(&rng, 3) == 0 ? last : sluice_rng_below(&rng, last + 1);
        if (is_in_order) {
            const uint32_t step = is_backwards ? num_out - 1 - o : o;
            first = (uint32_t)((uint64_t)num_in * step / num_out);
            first = first < last ? first : last;
        }
        made.spans[o] = (struct sluice_tap_span){first, count};
        int32_t left = 1 << SLUICE_RESIZE_BITS;
        for (uint32_t k = 0; k < count; k++) {
            int32_t coeff = left;
            if (k + 1 < count && sluice_rng_below(&rng, 8) != 0)
                coeff = (int32_t)sluice_rng_below(&rng, (uint32_t)left + 1);
            left -= coeff;
            made.coeffs[(size_t)o * stride + k] = coeff;
        }
    }
    made.taps = (struct sluice_taps){num_in, num_out, stride, made.spans, made.coeffs, made.plan};
    kernels->make_plan(pass, &made.taps);
    return made;
}

static void free_taps(struct case_taps *made)
{
    free(made->spans);
    free(made->coeffs);
    free(made->plan);
}

static void fill_random(uint8_t *bytes, size_t len)
{
    /* Mostly noise, at times all 255, where sums are largest. */
    const int is_white = sluice_rng_below(&rng, 8) == 0;
    for (size_t i = 0; i < len; i++)
        bytes[i] = is_white ? 255 : (uint8_t)sluice_rng_u32(&rng);
}

static int is_guard(const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (bytes[i] != GUARD_BYTE)
            return 0;
    }
    return 1;
}

/* The sum in 64 bits, as kernels.h defines it. */
static uint8_t expected_byte(const struct sluice_taps *taps, uint32_t o, const uint8_t *first,
                             size_t step)
{
    int64_t sum = 1 << (SLUICE_RESIZE_BITS - 1);
    for (uint32_t k = 0; k < taps->spans[o].count; k++)
        sum += (int64_t)first[k * step] * taps->coeffs[(size_t)o * taps->stride + k];
    sum >>= SLUICE_RESIZE_BITS;
    return (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

/* Against the scalar weights, which test_resize compares with the definition. */
static void check_weigh(const struct sluice_kernels *kernels)
{
    for (uint32_t i = 0; i < 40 * 40 + 200; i++) {
        const uint32_t limit = i % 4 ? 700 : 65535;
        const uint32_t num_in = i < 1600 ? 1 + i % 40 : 1 + sluice_rng_below(&rng, limit);
        const uint32_t num_out = i < 1600 ? 1 + i / 40 : 1 + sluice_rng_below(&rng, 300);
        const bool is_mirrored = sluice_rng_below(&rng, 2) == 0;
        const uint32_t stride = (sluice_max_taps(num_in, num_out) + 3) / 4 * 4;
        const size_t spans_len = num_out * sizeof(struct sluice_tap_span);
        const size_t coeffs_len = (size_t)num_out * stride * sizeof(int32_t);
        struct sluice_taps wanted = {num_in, num_out, stride, malloc(spans_len), malloc(coeffs_len),
                                     NULL};
        struct sluice_taps got = {num_in, num_out, stride, malloc(spans_len), malloc(coeffs_len),
                                  NULL};
        memset(got.coeffs, GUARD_BYTE, coeffs_len);
        const uint32_t most = sluice_kernels_c.weigh(&wanted, is_mirrored);
        CU_ASSERT_EQUAL(kernels->weigh(&got, is_mirrored), most);
        CU_ASSERT(most <= sluice_max_taps(num_in, num_out));
        const bool is_equal = memcmp(got.spans, wanted.spans, spans_len) == 0 &&
                              memcmp(got.coeffs, wanted.coeffs, coeffs_len) == 0;
        if (!is_equal)
            printf("%u to %u, mirrored %d\n", num_in, num_out, is_mirrored);
        CU_ASSERT(is_equal);
        free(wanted.spans);
        free(wanted.coeffs);
        free(got.spans);
        free(got.coeffs);
    }
}

/* Rows with gaps between them: nothing there may be read (noise) or written (guards). */
static void check_resize_rows(const struct sluice_kernels *kernels)
{
    for (int i = 0; i < 300; i++) {
        const uint32_t in_width = 1 + sluice_rng_below(&rng, i % 3 ? 60 : 400);
        const uint32_t num_out = 1 + sluice_rng_below(&rng, i % 3 ? 20 : 260);
        const uint32_t most = 1 + sluice_rng_below(&rng, i % 5 ? 9 : 60);
        const uint32_t num_rows = 1 + sluice_rng_below(&rng, i % 3 ? 10 : 5);
        struct case_taps made =
            make_taps(kernels, SLUICE_PASS_ACROSS, in_width, num_out, most, i % 4 != 0);
        /* The exact size and any alignment, so that asan sees a byte too many. */
        const size_t shift = sluice_rng_below(&rng, 16);
        const size_t in_bytes = (size_t)in_width * 3, out_bytes = (size_t)num_out * 3;
        const size_t in_stride = in_bytes + sluice_rng_below(&rng, 20);
        const size_t out_stride = out_bytes + sluice_rng_below(&rng, 20);
        uint8_t *in_memory = malloc(shift + in_stride * (num_rows - 1) + in_bytes);
        uint8_t *in = in_memory + shift;
        fill_random(in, in_stride * (num_rows - 1) + in_bytes);
        const size_t len = 2 * GUARD + out_stride * (num_rows - 1) + out_bytes + shift;
        uint8_t *memory = malloc(len), *out = memory + GUARD + shift;
        memset(memory, GUARD_BYTE, len);
        kernels->resize_rows(&made.taps, in, in_stride, num_rows, out, out_stride);
        int is_equal = 1, is_kept = is_guard(memory, GUARD + shift);
        for (uint32_t y = 0; y < num_rows; y++) {
            uint8_t *row = out + y * out_stride;
            for (size_t b = 0; b < out_bytes; b++) {
                const uint32_t o = (uint32_t)(b / 3);
                const uint8_t *first = in + y * in_stride + made.spans[o].first * 3 + b % 3;
                is_equal &= row[b] == expected_byte(&made.taps, o, first, 3);
            }
            is_kept &= is_guard(row + out_bytes, y + 1 < num_rows ? out_stride - out_bytes : GUARD);
        }
        if (!is_equal || !is_kept)
            printf("case %d: %u rows of %u to %u pixels, up to %u taps\n", i, num_rows, in_width,
                   num_out, most);
        CU_ASSERT(is_equal);
        CU_ASSERT(is_kept);
        free(memory);
        free(in_memory);
        free_taps(&made);
    }
}

static void check_blend_rows(const struct sluice_kernels *kernels)
{
    for (int i = 0; i < 300; i++) {
        const size_t num_bytes = 1 + sluice_rng_below(&rng, i % 3 ? 100 : 800);
        const uint32_t num_rows = 1 + sluice_rng_below(&rng, i % 5 ? 8 : 40);
        struct case_taps made = make_taps(kernels, SLUICE_PASS_DOWN, num_rows, 3, num_rows, false);
        const size_t shift = sluice_rng_below(&rng, 32);
        /* One block for each row: exact sizes again. */
        uint8_t *blocks[40];
        const uint8_t *rows[40];
        for (uint32_t y = 0; y < num_rows; y++) {
            blocks[y] = malloc(shift + num_bytes);
            fill_random(blocks[y] + shift, num_bytes);
            rows[y] = blocks[y] + shift;
        }
        uint8_t *memory = malloc(2 * GUARD + num_bytes + shift);
        uint8_t *out = memory + GUARD + shift;
        for (uint32_t o = 0; o < 3; o++) {
            memset(memory, GUARD_BYTE, 2 * GUARD + num_bytes + shift);
            /* As many as taps->stride at most, which is a multiple of four. */
            const uint8_t *in_fours[40];
            const uint32_t count = made.spans[o].count;
            for (uint32_t k = 0; k < (count + 3) / 4 * 4; k++)
                in_fours[k] = rows[made.spans[o].first + (k < count ? k : count - 1)];
            kernels->blend_rows(&made.taps, o, in_fours, out, num_bytes);
            int is_equal = 1;
            for (size_t b = 0; b < num_bytes; b++) {
                uint8_t column[40] = {0};
                for (uint32_t k = 0; k < made.spans[o].count; k++)
                    column[k] = rows[made.spans[o].first + k][b];
                is_equal &= out[b] == expected_byte(&made.taps, o, column, 1);
            }
            if (!is_equal)
                printf("case %d: %zu bytes, %u taps\n", i, num_bytes, count);
            CU_ASSERT(is_equal);
            CU_ASSERT(is_guard(memory, GUARD + shift));
            CU_ASSERT(is_guard(out + num_bytes, GUARD));
        }
        free(memory);
        for (uint32_t y = 0; y < num_rows; y++)
            free(blocks[y]);
        free_taps(&made);
    }
}

static void check_flip_row(const struct sluice_kernels *kernels)
{
    for (uint32_t width = 1; width <= 150; width++) {
        const size_t len = (size_t)width * 3, shift = sluice_rng_below(&rng, 64);
        uint8_t *in_memory = malloc(shift + len), *in = in_memory + shift;
        fill_random(in, len);
        uint8_t *memory = malloc(2 * GUARD + len + shift), *out = memory + GUARD + shift;
        memset(memory, GUARD_BYTE, 2 * GUARD + len + shift);
        kernels->flip_row(in, width, out);
        int is_equal = 1;
        for (size_t i = 0; i < len; i++)
            is_equal &= out[i] == in[(width - 1 - i / 3) * 3 + i % 3];
        CU_ASSERT(is_equal);
        CU_ASSERT(is_guard(memory, GUARD + shift));
        CU_ASSERT(is_guard(out + len, GUARD));
        free(memory);
        free(in_memory);
    }
}

/* Planes with gaps between them: nothing there may be written. */
static void check_look_up(const struct sluice_kernels *kernels)
{
    float table[3][256];
    for (int i = 0; i < 3 * 256; i++)
        table[i / 256][i % 256] = (float)(int32_t)sluice_rng_u32(&rng) / 65536;
    const float mean[3] = {0.485f, 0.456f, 0.406f}, std[3] = {0.229f, 0.224f, 0.225f};
    float formula[3][256];
    for (int i = 0; i < 3 * 256; i++)
        formula[i / 256][i % 256] = ((float)(i % 256) / 255.0f - mean[i / 256]) / std[i / 256];
    for (int i = 0; i < 800; i++) {
        struct sluice_lookup lookup;
        const enum sluice_lookup_layout layout = (enum sluice_lookup_layout)(i / 4 % 2);
        if (i % 4 == 3) {
            sluice_lookup_init(&lookup, formula, SLUICE_LOOKUP_F32, layout);
            CU_ASSERT(sluice_lookup_set_formula(&lookup, mean, std));
        } else {
            sluice_lookup_init(&lookup, table, (enum sluice_lookup_type)(i % 4), layout);
        }
        lookup.is_far = i / 8 % 2;
        const size_t value_bytes = sluice_lookup_value_bytes(&lookup);
        const bool is_planar = lookup.layout == SLUICE_LOOKUP_CHW;
        const size_t num_pixels = 1 + sluice_rng_below(&rng, i % 5 ? 200 : 1000);
        size_t plane = num_pixels + sluice_rng_below(&rng, 70);
        if (lookup.is_far)
            plane = (plane + 31) & ~(size_t)31; /* all planes as aligned as the first */
        const size_t shift = sluice_rng_below(&rng, 64);
        uint8_t *in_memory = malloc(shift + num_pixels * 3), *in = in_memory + shift;
        fill_random(in, num_pixels * 3);
        const size_t num_values = is_planar ? plane * 2 + num_pixels : num_pixels * 3;
        const size_t len = num_values * value_bytes;
        /* Any alignment that the values themselves allow. */
        const size_t start = GUARD + (i % 7 ? sluice_rng_below(&rng, 16) * value_bytes : 0);
        const size_t total = start + len + GUARD;
        uint8_t *memory = aligned_alloc(64, (total + 63) & ~(size_t)63), *out = memory + start;
        memset(memory, GUARD_BYTE, total);
        kernels->look_up(&lookup, in, num_pixels, out, plane);
        int is_equal = 1;
        for (size_t p = 0; p < num_pixels; p++) {
            for (size_t c = 0; c < 3; c++) {
                uint32_t value = 0;
                const size_t at = is_planar ? c * plane + p : p * 3 + c;
                memcpy(&value, out + at * value_bytes, value_bytes);
                is_equal &= value == lookup.words[c][in[3 * p + c]];
            }
        }
        if (!is_equal)
            printf("case %d: %zu pixels, planes of %zu\n", i, num_pixels, plane);
        CU_ASSERT(is_equal);
        CU_ASSERT(is_guard(memory, start));
        CU_ASSERT(is_guard(out + len, GUARD));
        const size_t gap = is_planar ? (plane - num_pixels) * value_bytes : 0;
        for (size_t c = 0; gap && c < 2; c++)
            CU_ASSERT(is_guard(out + (c * plane + num_pixels) * value_bytes, gap));
        free(memory);
        free(in_memory);
    }
}

TEST(the_scalar_flip_mirrors_pixels)
{
    check_flip_row(&sluice_kernels_c);
}

TEST(the_scalar_lookup_reads_the_table)
{
    check_look_up(&sluice_kernels_c);
}

TEST(the_scalar_rows_are_the_rounded_sums)
{
    check_resize_rows(&sluice_kernels_c);
}

TEST(the_scalar_blend_is_the_rounded_sum)
{
    check_blend_rows(&sluice_kernels_c);
}

/* Every level below the machine's own too. */
static void check_levels(void (*check)(const struct sluice_kernels *kernels))
{
    const enum sluice_cpu_level detected = sluice_cpu_detected();
    if (detected == SLUICE_CPU_AVX512)
        check(sluice_kernels_for(SLUICE_CPU_AVX2));
    check(sluice_kernels_for(detected));
}

TEST(the_vector_weights_equal_the_scalar_ones)
{
    check_levels(check_weigh);
}

TEST(the_vector_rows_equal_it_and_stays_in_bounds)
{
    check_levels(check_resize_rows);
}

TEST(the_vector_blend_equals_it_and_stays_in_bounds)
{
    check_levels(check_blend_rows);
}

TEST(the_vector_flip_equals_it_and_stays_in_bounds)
{
    check_levels(check_flip_row);
}

TEST(the_vector_lookup_equals_it_and_stays_in_bounds)
{
    check_levels(check_look_up);
}

TEST(each_level_has_its_table)
{
    CU_ASSERT_PTR_EQUAL(sluice_kernels_for(SLUICE_CPU_C), &sluice_kernels_c);
#ifdef SLUICE_HAVE_NEON_KERNELS
    CU_ASSERT_PTR_EQUAL(sluice_kernels_for(SLUICE_CPU_NEON), &sluice_kernels_neon);
#else
    CU_ASSERT_PTR_EQUAL(sluice_kernels_for(SLUICE_CPU_NEON), &sluice_kernels_c);
#endif
#ifdef SLUICE_HAVE_X86_KERNELS
    CU_ASSERT_PTR_EQUAL(sluice_kernels_for(SLUICE_CPU_AVX2), &sluice_kernels_avx2);
    CU_ASSERT_PTR_EQUAL(sluice_kernels_for(SLUICE_CPU_AVX512), &sluice_kernels_avx512);
#endif
}

int main(void)
{
    rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    return sluice_test_main();
}
