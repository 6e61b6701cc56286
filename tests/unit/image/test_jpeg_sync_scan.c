/* A sync scan finds the same points as a reader that goes symbol by symbol. */

#include "image/jpeg/sync_scan.h"

#include "base/buf.h"
#include "base/rng.h"
#include "image/jpeg/lane_reader.h"

#include "jpeg_support.h"
#include "support/test.h"

static struct sluice_rng rng;
static struct sluice_jpeg_lanes *lanes;

/* Where an MCU begins. */
struct truth {
    size_t bit;
    uint32_t dc[SLUICE_JPEG_MAX_COMPONENTS];
};

static size_t num_mcus_of(const struct sluice_jpeg *jpeg)
{
    return (size_t)jpeg->mcus_across * jpeg->mcus_down;
}

/* Of every MCU and the scan's end; malloc'ed. */
static struct truth *read_all(const struct sluice_jpeg *jpeg, const struct sluice_jpeg_scan *scan)
{
    struct sluice_jpeg_lookup *dc = calloc(4, sizeof(*dc)), *ac = calloc(4, sizeof(*ac));
    struct truth *truth = calloc(num_mcus_of(jpeg) + 1, sizeof(*truth));
    for (unsigned c = 0; c < jpeg->num_components; c++) {
        sluice_jpeg_lookup_init(&dc[c], &jpeg->dc[jpeg->components[c].dc]);
        sluice_jpeg_lookup_init(&ac[c], &jpeg->ac[jpeg->components[c].ac]);
    }
    struct sluice_jpeg_bits in;
    sluice_jpeg_bits_start(&in, scan->data->data);
    struct truth at = {0};
    for (size_t mcu = 0; mcu < num_mcus_of(jpeg); mcu++) {
        for (unsigned b = 0; b < jpeg->blocks_in_mcu; b++) {
            const unsigned c = jpeg->block_component[b];
            for (unsigned k = 0; k < 64;) {
                const unsigned entry = sluice_jpeg_bits_peek_symbol(&in, k ? &ac[c] : &dc[c]);
                const unsigned size = entry & 15, run = entry >> 4 & 15;
                sluice_jpeg_bits_skip(&in, entry >> 8);
                if (k == 0)
                    at.dc[c] += (uint32_t)sluice_jpeg_extend(in.bits, size);
                sluice_jpeg_bits_skip(&in, size);
                sluice_jpeg_bits_refill(&in);
                if (k > 0 && size == 0 && run == 0)
                    break;
                k += k > 0 ? run + 1 : 1;
            }
        }
        at.bit = sluice_jpeg_bits_position(&in, scan->data->data);
        truth[mcu + 1] = at;
    }
    free(dc);
    free(ac);
    return truth;
}

static void prepare(const struct sluice_buf *file, struct sluice_jpeg *jpeg,
                    struct sluice_jpeg_scan *scan)
{
    REQUIRE_OK(sluice_jpeg_parse(file->data, file->len, jpeg, NULL));
    REQUIRE_OK(sluice_jpeg_scan_read(jpeg, NULL, scan, NULL));
    sluice_jpeg_lanes_init(lanes);
    sluice_jpeg_lanes_set_codings(lanes, jpeg);
    sluice_jpeg_lanes_make_skips(lanes, jpeg);
}

/* Up to four points a row: before a column, then at or between others.  Malloc'ed. */
#define MAX_IN_ROW 4

static struct sluice_jpeg_sync_scan_aim *random_aims(const struct sluice_jpeg *jpeg,
                                                     size_t *num_aims)
{
    const uint32_t first_row = sluice_rng_below(&rng, jpeg->mcus_down);
    const uint32_t num_rows = 1 + sluice_rng_below(&rng, jpeg->mcus_down - first_row);
    const uint32_t num_in_row = 1 + sluice_rng_below(&rng, MAX_IN_ROW);
    struct sluice_jpeg_sync_scan_aim *aims = malloc((size_t)num_rows * MAX_IN_ROW * sizeof(*aims));
    CU_ASSERT_PTR_NOT_NULL_FATAL(aims);
    *num_aims = 0;
    for (uint32_t row = first_row; row < first_row + num_rows; row++) {
        uint32_t last = sluice_rng_below(&rng, jpeg->mcus_across);
        aims[(*num_aims)++] = (struct sluice_jpeg_sync_scan_aim){row, 0, last};
        for (uint32_t i = 1; i < num_in_row && last < jpeg->mcus_across; i++) {
            const uint32_t first = last + 1;
            last = first + sluice_rng_below(&rng, jpeg->mcus_across - first + 1);
            aims[(*num_aims)++] = (struct sluice_jpeg_sync_scan_aim){
                row, sluice_rng_below(&rng, 2) ? first : last, last};
        }
    }
    return aims;
}

static void check_point(const struct sluice_jpeg *jpeg, const struct truth *truth, uint32_t row,
                        const struct sluice_jpeg_point *point)
{
    const struct truth *want = &truth[(size_t)row * jpeg->mcus_across + point->column];
    CU_ASSERT_EQUAL(point->bit, want->bit);
    CU_ASSERT(memcmp(point->dc, want->dc, sizeof(want->dc)) == 0);
    CU_ASSERT(point->segment == 0 && point->mcus_left == UINT32_MAX);
}

static void check_aims(const struct sluice_jpeg *jpeg, const struct sluice_jpeg_scan *scan,
                       const struct truth *truth, const struct sluice_jpeg_sync_scan_aim *aims,
                       size_t num_aims)
{
    struct sluice_jpeg_point *points = calloc(num_aims + 1, sizeof(*points));
    CU_ASSERT_PTR_NOT_NULL_FATAL(points);
    CU_ASSERT_TRUE_FATAL(sluice_jpeg_sync_scan(lanes, jpeg, scan, aims, num_aims, NULL, points));
    for (size_t i = 0; i < num_aims; i++) {
        CU_ASSERT(points[i].column >= aims[i].first_column &&
                  points[i].column <= aims[i].last_column && points[i].scan == scan);
        check_point(jpeg, truth, aims[i].row, &points[i]);
    }
    free(points);
}

TEST(points_are_where_they_are)
{
    static const uint16_t sizes[][2] = {{9, 7}, {177, 130}, {640, 40}, {390, 300}};
    for (size_t i = 0; i < jpeg_test_num_options; i++) {
        struct sluice_jpeg_encode_options options = jpeg_test_options[i];
        options.is_progressive = false;
        options.restart_rows = 0;
        for (size_t s = 0; s < SLUICE_ARRAY_LEN(sizes); s++) {
            struct sluice_buf *file =
                jpeg_test_file(sizes[s][0], sizes[s][1], sluice_rng_u32(&rng), &options);
            struct sluice_jpeg jpeg;
            struct sluice_jpeg_scan scan = {0};
            prepare(file, &jpeg, &scan);
            struct truth *truth = read_all(&jpeg, &scan);
            for (int n = 0; n < 12; n++) {
                size_t num_aims;
                struct sluice_jpeg_sync_scan_aim *aims = random_aims(&jpeg, &num_aims);
                check_aims(&jpeg, &scan, truth, aims, num_aims);
                free(aims);
            }
            /* Behind the last MCU is a point as well. */
            const struct sluice_jpeg_sync_scan_aim end = {jpeg.mcus_down - 1, jpeg.mcus_across,
                                                          jpeg.mcus_across};
            check_aims(&jpeg, &scan, truth, &end, 1);
            free(truth);
            sluice_jpeg_scan_clear(&scan);
            sluice_buf_unref(file);
        }
    }
}

/* Both ways over an MCU lead to its end. */
TEST(skipping_counts_dcs_and_bits)
{
    struct sluice_buf *file = jpeg_test_file(
        177, 130, 8, &(struct sluice_jpeg_encode_options){.quality = 90, .h_samp = 2});
    struct sluice_jpeg jpeg;
    struct sluice_jpeg_scan scan = {0};
    prepare(file, &jpeg, &scan);
    struct truth *truth = read_all(&jpeg, &scan);
    const uint8_t *base = scan.data->data;
    struct sluice_jpeg_reader whole, parts;
    uint32_t whole_dc[SLUICE_JPEG_MAX_COMPONENTS] = {0}, parts_dc[SLUICE_JPEG_MAX_COMPONENTS] = {0};
    start_reader(&whole, base, 0);
    start_reader(&parts, base, 0);
    for (size_t mcu = 0; mcu < num_mcus_of(&jpeg); mcu++) {
        CU_ASSERT_TRUE_FATAL(sluice_jpeg_skip_mcu(lanes, &jpeg, &whole, whole_dc));
        for (unsigned b = 0; b < jpeg.blocks_in_mcu; b++) {
            const unsigned c = jpeg.block_component[b];
            parts.pos = 0;
            CU_ASSERT_TRUE_FATAL(sluice_jpeg_skip_block(lanes->coding[c], &parts, &parts_dc[c]));
        }
        CU_ASSERT_EQUAL(reader_position(&whole, base), truth[mcu + 1].bit);
        CU_ASSERT_EQUAL(reader_position(&parts, base), truth[mcu + 1].bit);
        CU_ASSERT(memcmp(whole_dc, truth[mcu + 1].dc, sizeof(whole_dc)) == 0);
        CU_ASSERT(memcmp(parts_dc, truth[mcu + 1].dc, sizeof(parts_dc)) == 0);
    }
    free(truth);
    sluice_jpeg_scan_clear(&scan);
    sluice_buf_unref(file);
}

/* A scan that ends too early, and one with a code that is none. */
TEST(faults_before_the_last_point_are_found)
{
    struct sluice_buf *file = jpeg_test_file(
        390, 300, 4, &(struct sluice_jpeg_encode_options){.quality = 95, .h_samp = 1, .v_samp = 1});
    struct sluice_jpeg jpeg;
    struct sluice_jpeg_scan scan = {0};
    prepare(file, &jpeg, &scan);
    struct truth *truth = read_all(&jpeg, &scan);
    struct sluice_jpeg_point *points = calloc(jpeg.mcus_down, sizeof(*points));
    const uint32_t last_row = jpeg.mcus_down / 2;
    struct sluice_jpeg_sync_scan_aim aims[3];
    for (uint32_t i = 0; i < 3; i++)
        aims[i] = (struct sluice_jpeg_sync_scan_aim){.row = last_row - 3 + i};
    const size_t needed = truth[(size_t)(last_row - 1) * jpeg.mcus_across].bit / 8;
    CU_ASSERT_TRUE(sluice_jpeg_sync_scan(lanes, &jpeg, &scan, aims, 3, NULL, points));
    const size_t len = scan.data->len;
    uint8_t *bytes = scan.data->data, *rest = malloc(len);
    memcpy(rest, bytes, len);
    for (size_t cut = needed / 2; cut < needed; cut += needed / 16) {
        scan.data->len = cut;
        memset(bytes + cut, 0, len - cut);
        CU_ASSERT_FALSE(sluice_jpeg_sync_scan(lanes, &jpeg, &scan, aims, 3, NULL, points));
        memcpy(bytes, rest, len);
    }
    scan.data->len = len;
    for (size_t at = 0; at + 4 < needed; at += needed / 9) {
        memset(bytes + at, 0xFF, 4); /* the code of all ones */
        CU_ASSERT_FALSE(sluice_jpeg_sync_scan(lanes, &jpeg, &scan, aims, 3, NULL, points));
        memcpy(bytes, rest, len);
    }
    /* What is wrong behind it does no harm. */
    CU_ASSERT_FATAL(needed + 100 < len);
    memset(bytes + needed + 100, 0xFF, len - needed - 100);
    CU_ASSERT_TRUE(sluice_jpeg_sync_scan(lanes, &jpeg, &scan, aims, 3, NULL, points));
    free(rest);
    free(points);
    free(truth);
    sluice_jpeg_scan_clear(&scan);
    sluice_buf_unref(file);
}

int main(void)
{
    rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    lanes = aligned_alloc(64, (sizeof(*lanes) + 63) / 64 * 64);
    const int result = sluice_test_main();
    free(lanes);
    return result;
}
