/* The bytes of a crop; that they are a JPEG with the file's pixels is for test_jpeg_crop.c, here
 * and in tests/property. */

#include "image/jpeg/crop_write.h"

#include "base/buf.h"
#include "base/rng.h"

#include "support/test.h"

static unsigned naive_before_ff(const uint8_t *bytes)
{
    unsigned i = 0;
    while (i < 8 && bytes[i] != 0xFF)
        i++;
    return i;
}

static uint8_t *naive_stuffed(uint8_t *out, const uint8_t *in, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        *out++ = in[i];
        if (in[i] == 0xFF)
            *out++ = 0;
    }
    return out;
}

/* What stands in got[0 .. len), which was 0xA5, once `want` was to be put into its first `room`:
 * all of it up to `end`, or `end` is NULL as it does not fit; and nothing behind that room. */
static void check_put(const uint8_t *got, size_t len, size_t room, const uint8_t *end,
                      const uint8_t *want, size_t want_len)
{
    for (size_t k = room; k < len; k++)
        CU_ASSERT_FATAL(got[k] == 0xA5);
    if (end) {
        CU_ASSERT(end == got + want_len && memcmp(got, want, want_len) == 0);
    } else {
        CU_ASSERT(want_len + 1 > room);
    }
}

/* Bytes among which 0xFF and its neighbours are frequent. */
static void fill(struct sluice_rng *rng, uint8_t *bytes, size_t len)
{
    static const uint8_t often[] = {0xFF, 0xFE, 0x7F, 0x80, 0x00, 0x01};
    const uint32_t one_in = 1 + sluice_rng_below(rng, 12);
    for (size_t i = 0; i < len; i++)
        bytes[i] = sluice_rng_below(rng, one_in) == 0 ? often[sluice_rng_below(rng, sizeof(often))]
                                                      : (uint8_t)sluice_rng_u32(rng);
}

TEST(the_first_ff_of_eight_bytes_is_found)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    for (int i = 0; i < 100000; i++) {
        uint8_t bytes[8];
        fill(&rng, bytes, sizeof(bytes));
        CU_ASSERT_EQUAL(sluice_jpeg_bytes_before_ff(bytes), naive_before_ff(bytes));
    }
}

TEST(a_zero_follows_each_ff_and_a_byte_stays_free)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 1, 0, 0);
    for (int i = 0; i < 5000; i++) {
        uint8_t in[80], want[160], got[200];
        const size_t len = sluice_rng_below(&rng, sizeof(in) + 1);
        fill(&rng, in, len);
        const size_t want_len = (size_t)(naive_stuffed(want, in, len) - want);
        memset(got, 0xA5, sizeof(got));
        const size_t room = sluice_rng_below(&rng, 180);
        const uint8_t *end = sluice_jpeg_put_stuffed(got, got + room, in, len);
        check_put(got, sizeof(got), room, end, want, want_len);
    }
}

TEST(a_marker_stands_between_segments)
{
    struct sluice_buf *data;
    REQUIRE_OK(sluice_buf_create(NULL, 256, &data, NULL));
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 2, 0, 0);
    for (int i = 0; i < 2000; i++) {
        size_t ends[12];
        const size_t num_segments = 1 + sluice_rng_below(&rng, 12);
        uint8_t want[800], got[800], *out = want;
        fill(&rng, data->data, 256);
        for (size_t s = 0, from = 0; s < num_segments; from = ends[s++]) {
            ends[s] = from + 1 + sluice_rng_below(&rng, 20);
            if (s > 0) {
                *out++ = 0xFF;
                *out++ = (uint8_t)(0xD0 + (s - 1) % 8);
            }
            out = naive_stuffed(out, data->data + from, ends[s] - from);
        }
        const size_t want_len = (size_t)(out - want);
        const struct sluice_jpeg_scan scan = {
            .data = data, .segment_ends = ends, .num_segments = num_segments};
        memset(got, 0xA5, sizeof(got));
        const size_t room = sluice_rng_below(&rng, (uint32_t)want_len + 20);
        const uint8_t *end = sluice_jpeg_put_segments(got, got + room, &scan);
        check_put(got, sizeof(got), room, end, want, want_len);
    }
    sluice_buf_unref(data);
}

TEST(a_head_says_what_was_put)
{
    const struct sluice_jpeg_crop_box box = {
        .full_width = 65535, .full_height = 1234, .left = 400, .top = 8};
    struct sluice_jpeg_crop_box got = {.left = 77};
    uint8_t head[SLUICE_JPEG_CROP_HEAD];
    sluice_jpeg_crop_put_head(head, &box);
    CU_ASSERT_TRUE(sluice_jpeg_crop_get_head(head, &got));
    CU_ASSERT(got.full_width == 65535 && got.full_height == 1234 && got.left == 400 &&
              got.top == 8 && got.width == 0 && got.height == 0);
    got.left = 77;
    for (size_t i = 0; i + 8 < sizeof(head); i++) {
        head[i] ^= 1;
        CU_ASSERT_FALSE(sluice_jpeg_crop_get_head(head, &got));
        head[i] ^= 1;
    }
    CU_ASSERT_EQUAL(got.left, 77);
}
