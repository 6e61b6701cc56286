#include "image/pack/pack_kernels.h"

#include "base/rng.h"

#include "support/test.h"

#define GUARD 64
#define GUARD_BYTE 0xA5
#define MAX_WIDTH 150
#define ROOM (4 * (MAX_WIDTH + SLUICE_PACK_BLOCK))

static struct sluice_rng rng;

static enum sluice_cpu_level levels[3];
static size_t num_levels; /* that this machine can run, but C */

static void find_levels(void)
{
    const enum sluice_cpu_level best = sluice_cpu_detected();
    if (best == SLUICE_CPU_AVX2 || best == SLUICE_CPU_AVX512)
        levels[num_levels++] = SLUICE_CPU_AVX2;
    if (best == SLUICE_CPU_AVX512 || best == SLUICE_CPU_NEON)
        levels[num_levels++] = best;
}

/* Bytes of all sizes, of small ones around 0, or of extremes only. */
static void fill_random(uint8_t *bytes, size_t len)
{
    const uint32_t kind = sluice_rng_below(&rng, 4);
    for (size_t i = 0; i < len; i++) {
        const uint8_t byte = (uint8_t)sluice_rng_u32(&rng);
        bytes[i] = kind == 0   ? byte
                   : kind == 1 ? (uint8_t)(byte % 5 - 2)
                   : kind == 2 ? (uint8_t)(byte & 1 ? 255 : 0)
                               : (uint8_t)(byte % 25 - 12);
    }
}

/* Memory of exactly `len` bytes after an offset that no alignment fits, with guards. */
struct guarded {
    uint8_t memory[GUARD + 16 + ROOM + GUARD];
    uint8_t *bytes;
    size_t len;
};

static void guarded_init(struct guarded *g, size_t len)
{
    memset(g->memory, GUARD_BYTE, sizeof(g->memory));
    g->bytes = g->memory + GUARD + sluice_rng_below(&rng, 16);
    g->len = len;
}

static bool is_guarded_well(const struct guarded *g)
{
    for (const uint8_t *at = g->memory; at < g->memory + sizeof(g->memory); at++) {
        if ((at < g->bytes || at >= g->bytes + g->len) && *at != GUARD_BYTE)
            return false;
    }
    return true;
}

/* Input in memory of its own size, so that asan sees what is read beside it. */
static uint8_t *random_bytes(size_t len)
{
    uint8_t *bytes = malloc(len);
    fill_random(bytes, len);
    return bytes;
}

TEST(every_level_splits_rows_alike)
{
    for (size_t width = 1; width <= MAX_WIDTH; width++) {
        uint8_t *pixels = random_bytes(3 * width);
        uint8_t want[3][MAX_WIDTH];
        uint8_t *const want_planes[3] = {want[0], want[1], want[2]};
        sluice_pack_kernels_c.split_row(pixels, width, want_planes);
        for (size_t x = 0; x < width; x++) {
            CU_ASSERT(want[0][x] == pixels[3 * x + 1]);
            CU_ASSERT((uint8_t)(want[1][x] + want[0][x] - 128) == pixels[3 * x]);
            CU_ASSERT((uint8_t)(want[2][x] + want[0][x] - 128) == pixels[3 * x + 2]);
        }
        for (size_t l = 0; l < num_levels; l++) {
            struct guarded got[3];
            for (unsigned plane = 0; plane < 3; plane++)
                guarded_init(&got[plane], width);
            uint8_t *const planes[3] = {got[0].bytes, got[1].bytes, got[2].bytes};
            sluice_pack_kernels_for(levels[l])->split_row(pixels, width, planes);
            for (unsigned plane = 0; plane < 3; plane++) {
                CU_ASSERT(memcmp(planes[plane], want[plane], width) == 0);
                CU_ASSERT(is_guarded_well(&got[plane]));
            }
        }
        free(pixels);
    }
}

/* The middle one of three, which is another way to say what the predictor is. */
static uint8_t median_prediction(int a, int b, int c)
{
    const int plane = a + b - c;
    const int low = a < b ? a : b, high = a < b ? b : a;
    return (uint8_t)(plane < low ? low : plane > high ? high : plane);
}

TEST(every_level_predicts_alike)
{
    for (size_t width = 1; width <= MAX_WIDTH; width++) {
        uint8_t *row = random_bytes(width), *above = random_bytes(width);
        uint8_t want[MAX_WIDTH];
        sluice_pack_kernels_c.residual_row(row, above, width, want);
        CU_ASSERT_EQUAL(want[0], (uint8_t)(row[0] - above[0]));
        for (size_t x = 1; x < width; x++)
            CU_ASSERT(want[x] ==
                      (uint8_t)(row[x] - median_prediction(row[x - 1], above[x], above[x - 1])));
        for (size_t l = 0; l < num_levels; l++) {
            struct guarded got;
            guarded_init(&got, width);
            sluice_pack_kernels_for(levels[l])->residual_row(row, above, width, got.bytes);
            CU_ASSERT(memcmp(got.bytes, want, width) == 0);
            CU_ASSERT(is_guarded_well(&got));
        }
        free(row);
        free(above);
    }
}

TEST(every_level_finds_the_same_spreads)
{
    for (unsigned round = 0; round < 300; round++) {
        const size_t num_blocks = 1 + sluice_rng_below(&rng, 12);
        uint8_t *residuals = random_bytes(num_blocks * SLUICE_PACK_BLOCK);
        if (round <= 2048 / 8) { /* one block whose sum is known, at and around every bound */
            const unsigned sum = round;
            memset(residuals, 0, SLUICE_PACK_BLOCK);
            for (unsigned i = 0; i < sum; i++)
                residuals[i % SLUICE_PACK_BLOCK] =
                    (uint8_t)(residuals[i % SLUICE_PACK_BLOCK] + (i & 1 ? 1 : -1));
        }
        uint8_t want[12];
        sluice_pack_kernels_c.find_spreads(residuals, num_blocks, want);
        if (round < 256)
            CU_ASSERT_EQUAL(want[0], (round >= 12) + (round >= 24) + (round >= 44) + (round >= 80) +
                                         (round >= 144));
        for (size_t l = 0; l < num_levels; l++) {
            struct guarded got;
            guarded_init(&got, num_blocks);
            sluice_pack_kernels_for(levels[l])->find_spreads(residuals, num_blocks, got.bytes);
            CU_ASSERT(memcmp(got.bytes, want, num_blocks) == 0);
            CU_ASSERT(is_guarded_well(&got));
        }
        free(residuals);
    }
}

TEST(every_level_restores_rows_alike)
{
    for (size_t width = 1; width <= MAX_WIDTH; width++) {
        const size_t padded =
            (width + SLUICE_PACK_BLOCK - 1) / SLUICE_PACK_BLOCK * SLUICE_PACK_BLOCK;
        uint8_t *residuals[3];
        for (unsigned plane = 0; plane < 3; plane++)
            residuals[plane] = random_bytes(padded);
        uint8_t *above = random_bytes(4 * padded);
        uint8_t want_above[ROOM], want[3 * MAX_WIDTH];
        memcpy(want_above, above, 4 * padded);
        sluice_pack_kernels_c.restore_row((const uint8_t *const *)residuals, width, want_above,
                                          want);
        for (size_t l = 0; l < num_levels; l++) {
            struct guarded got_above, got;
            guarded_init(&got_above, 4 * padded);
            guarded_init(&got, 3 * width);
            memcpy(got_above.bytes, above, 4 * padded);
            sluice_pack_kernels_for(levels[l])->restore_row((const uint8_t *const *)residuals,
                                                            width, got_above.bytes, got.bytes);
            CU_ASSERT(memcmp(got.bytes, want, 3 * width) == 0);
            for (size_t x = 0; x < width; x++)
                CU_ASSERT(memcmp(got_above.bytes + 4 * x, want_above + 4 * x, 3) == 0);
            CU_ASSERT(is_guarded_well(&got_above) && is_guarded_well(&got));
        }
        for (unsigned plane = 0; plane < 3; plane++)
            free(residuals[plane]);
        free(above);
    }
}

/* What is split and predicted comes back. */
TEST(restoring_undoes_predicting)
{
    const struct sluice_pack_kernels *c = &sluice_pack_kernels_c;
    for (size_t width = 1; width <= 40; width++) {
        uint8_t planes[2][3][48], residuals[3][48] = {{0}}, above[4 * 48], pixels[3 * 40];
        uint8_t *rows[2] = {random_bytes(3 * width), random_bytes(3 * width)};
        for (unsigned y = 0; y < 2; y++) {
            uint8_t *const to[3] = {planes[y][0], planes[y][1], planes[y][2]};
            c->split_row(rows[y], width, to);
        }
        memset(above, 0, sizeof(above));
        for (unsigned plane = 0; plane < 3; plane++) {
            c->residual_row(planes[1][plane], planes[0][plane], width, residuals[plane]);
            for (size_t x = 0; x < width; x++)
                above[4 * x + plane] = planes[0][plane][x];
        }
        const uint8_t *const from[3] = {residuals[0], residuals[1], residuals[2]};
        c->restore_row(from, width, above, pixels);
        CU_ASSERT(memcmp(pixels, rows[1], 3 * width) == 0);
        for (size_t x = 0; x < width; x++)
            CU_ASSERT(above[4 * x] == planes[1][0][x] && above[4 * x + 1] == planes[1][1][x] &&
                      above[4 * x + 2] == planes[1][2][x]);
        free(rows[0]);
        free(rows[1]);
    }
}

int main(void)
{
    rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    find_levels();
    return sluice_test_main();
}
