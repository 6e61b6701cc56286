/* What a decode may cost: files that ask for more are refused, by whichever way they come.  The
 * clock is the test's. */

#include "image/codecs/decode_budget.h"

#include "base/buf.h"
#include "image/codecs/codec.h"
#include "image/jpeg/crop.h"
#include "image/jpeg/entropy.h"

#include "image_support.h"
#include "support/test.h"

static struct sluice_codec *codec;

static uint64_t clock_ns, step_ns; /* a look at the clock moves it on */
static unsigned num_looks;

/* sluice_thread_cpu_ns() of everything in this program. */
uint64_t __wrap_sluice_thread_cpu_ns(void);
uint64_t __wrap_sluice_thread_cpu_ns(void)
{
    num_looks++;
    clock_ns += step_ns;
    return clock_ns;
}

static void set_clock(uint64_t step)
{
    clock_ns = 1000;
    step_ns = step;
    num_looks = 0;
}

TEST(the_clock_is_looked_at_once_in_a_while)
{
    struct sluice_decode_budget budget;
    set_clock(0);
    sluice_decode_budget_start(&budget, 1);
    CU_ASSERT_FALSE(sluice_decode_budget_spend(&budget, SLUICE_DECODE_PIXELS_PER_LOOK - 1));
    CU_ASSERT_EQUAL(num_looks, 0);
    CU_ASSERT_FALSE(sluice_decode_budget_spend(&budget, 1));
    CU_ASSERT_EQUAL(num_looks, 1);
    CU_ASSERT_FALSE(sluice_decode_budget_spend(&budget, 1));
    CU_ASSERT_EQUAL(num_looks, 1);
}

TEST(a_budget_is_two_seconds_or_more_for_many_pixels)
{
    static const struct {
        uint64_t pixels, allowed_ns;
    } cases[] = {
        {1, 2000000000},
        {20000000, 2000000000},
        {178956970, 17895697000},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        struct sluice_decode_budget budget;
        set_clock(0);
        sluice_decode_budget_start(&budget, cases[i].pixels);
        CU_ASSERT_EQUAL(budget.allowed_ns, cases[i].allowed_ns);
        CU_ASSERT_FALSE(sluice_decode_budget_spend(&budget, SLUICE_DECODE_PIXELS_PER_LOOK));
        clock_ns += cases[i].allowed_ns;
        CU_ASSERT_FALSE(sluice_decode_budget_spend(&budget, SLUICE_DECODE_PIXELS_PER_LOOK));
        clock_ns++;
        CU_ASSERT_TRUE(sluice_decode_budget_spend(&budget, SLUICE_DECODE_PIXELS_PER_LOOK));
        CHECK_FAILS(SLUICE_E_UNSUPPORTED, i < 2 ? "more than 2 s" : "more than 17.9 s",
                    sluice_decode_budget_fail(&budget, sluice_test_err()));
    }
}

TEST(scans_are_limited_by_number_and_by_pixels)
{
    static const struct {
        uint64_t pixels, scans;
    } most[] = {{1, 500}, {2000000, 500}, {10000000, 100}, {50000000, 20}, {178956970, 20}};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(most); i++) {
        struct sluice_err err = {{0}};
        CHECK_OK(sluice_decode_check_scans(most[i].pixels, most[i].scans, &err));
        CU_ASSERT_EQUAL(sluice_decode_check_scans(most[i].pixels, most[i].scans + 1, &err),
                        SLUICE_E_UNSUPPORTED);
        CU_ASSERT_EQUAL(strstr(err.text, "for its size") != NULL, i > 1);
    }
    struct sluice_err err = {{0}};
    CU_ASSERT_EQUAL(sluice_decode_check_scans(100, 2000, &err), SLUICE_E_UNSUPPORTED);
    CU_ASSERT_STRING_EQUAL(err.text, "JPEG of 2000 scans, more than the limit of 500");
}

/* The offset of the last scan's header. */
static size_t last_scan(const struct sluice_buf *file)
{
    size_t at = file->len - 2;
    while (file->data[at] != 0xFF || file->data[at + 1] != 0xDA)
        at--;
    return at;
}

/* A progressive file whose last scan is repeated until there are `num_scans`. */
static struct sluice_buf *file_of_scans(unsigned num_scans, uint32_t width, uint32_t height)
{
    struct sluice_buf *one = image_test_jpeg(
        width, height,
        &(struct sluice_jpeg_encode_options){.is_progressive = true, .is_gray = true});
    unsigned has = 0;
    for (size_t i = 0; i + 1 < one->len; i++)
        has += one->data[i] == 0xFF && one->data[i + 1] == 0xDA;
    const size_t from = last_scan(one), scan_len = one->len - 2 - from;
    struct sluice_buf *file = NULL;
    REQUIRE_OK(sluice_buf_create(NULL, one->len + (num_scans - has) * scan_len, &file, NULL));
    memcpy(file->data, one->data, one->len - 2);
    file->len = one->len - 2;
    for (unsigned i = has; i < num_scans; i++, file->len += scan_len)
        memcpy(file->data + file->len, one->data + from, scan_len);
    memcpy(file->data + file->len, "\xFF\xD9", 2);
    file->len += 2;
    sluice_buf_unref(one);
    return file;
}

static sluice_status decode(const struct sluice_buf *file, struct sluice_err *err)
{
    struct sluice_rgb rgb = {0};
    const sluice_status status =
        sluice_codec_decode(codec, file->data, file->len, 0, NULL, &rgb, err);
    sluice_buf_unref(rgb.pixels);
    return status;
}

static sluice_status decode_box(const struct sluice_buf *file, struct sluice_err *err)
{
    const struct sluice_box box = {.left = 3, .top = 5, .width = 20, .height = 15};
    struct sluice_rgb rgb = {0};
    const sluice_status status =
        sluice_codec_decode_region(codec, file->data, file->len, &box, 0, NULL, &rgb, err);
    sluice_buf_unref(rgb.pixels);
    return status;
}

static sluice_status crop(const struct sluice_buf *file, struct sluice_err *err)
{
    const struct sluice_box box = {.left = 3, .top = 5, .width = 20, .height = 15};
    struct sluice_buf *out = NULL;
    const sluice_status status =
        sluice_jpeg_crop(file->data, file->len, &box, NULL, NULL, &out, NULL, err);
    sluice_buf_unref(out);
    return status;
}

static sluice_status (*const ways[])(const struct sluice_buf *,
                                     struct sluice_err *) = {decode, decode_box, crop};

TEST(a_jpeg_of_too_many_scans_is_refused)
{
    set_clock(0);
    struct sluice_buf *most = file_of_scans(SLUICE_DECODE_MAX_SCANS, 64, 48);
    struct sluice_buf *more = file_of_scans(SLUICE_DECODE_MAX_SCANS + 1, 64, 48);
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(ways); i++) {
        struct sluice_err err = {{0}};
        /* What comes too often is a fault for cropping alone. */
        CU_ASSERT_EQUAL(ways[i](most, &err), ways[i] == crop ? SLUICE_E_UNSUPPORTED : SLUICE_OK);
        CU_ASSERT_PTR_NULL(strstr(err.text, "limit"));
        err.text[0] = '\0';
        CU_ASSERT_EQUAL(ways[i](more, &err), SLUICE_E_UNSUPPORTED);
        CU_ASSERT_STRING_EQUAL(err.text, "JPEG of 501 scans, more than the limit of 500");
    }
    sluice_buf_unref(most);
    sluice_buf_unref(more);
}

TEST(scans_in_a_comment_do_not_count)
{
    enum { COMMENT_LEN = 4002 };
    set_clock(0);
    struct sluice_buf *plain = file_of_scans(20, 64, 48), *file = NULL;
    REQUIRE_OK(sluice_buf_create(NULL, plain->len + COMMENT_LEN, &file, NULL));
    /* Before the last scan: 1,999 times the marker of a scan, within a segment. */
    const size_t at = last_scan(plain);
    memcpy(file->data, plain->data, at);
    uint8_t *comment = file->data + at;
    memcpy(comment, (const uint8_t[]){0xFF, 0xFE, (COMMENT_LEN - 2) >> 8, (COMMENT_LEN - 2) & 255},
           4);
    for (size_t i = 4; i < COMMENT_LEN; i += 2)
        memcpy(comment + i, "\xFF\xDA", 2);
    memcpy(comment + COMMENT_LEN, plain->data + at, plain->len - at);
    file->len = plain->len + COMMENT_LEN;
    CHECK_OK(decode(file, NULL));
    sluice_buf_unref(plain);
    sluice_buf_unref(file);
}

TEST(a_slow_file_is_refused_when_its_time_is_spent)
{
    struct sluice_buf *files[] = {
        file_of_scans(20, 640, 480),
        image_test_jpeg(640, 480, &(struct sluice_jpeg_encode_options){.is_ycck = true}),
        image_test_file(IMAGE_TEST_PNG, 640, 480),
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(files); i++) {
        for (size_t k = 0; k < SLUICE_ARRAY_LEN(ways); k++) {
            if (ways[k] == crop && i != 0)
                continue;
            set_clock(0);
            CU_ASSERT_NOT_EQUAL(ways[k](files[i], sluice_test_err()), SLUICE_E_CORRUPT);
            CU_ASSERT(num_looks > 0);
            set_clock(SLUICE_DECODE_CPU_NS + 1);
            CHECK_FAILS(SLUICE_E_UNSUPPORTED, "took more than 2 s of CPU time",
                        ways[k](files[i], sluice_test_err()));
        }
        sluice_buf_unref(files[i]);
    }
}

TEST(a_small_image_costs_no_look_at_the_clock)
{
    for (int kind = 0; kind < IMAGE_TEST_NUM_KINDS; kind++) {
        struct sluice_buf *file = image_test_file((enum image_test_kind)kind, 100, 80);
        set_clock(0);
        CHECK_OK(decode(file, NULL));
        CU_ASSERT_EQUAL(num_looks, 0);
        sluice_buf_unref(file);
    }
}

TEST(there_are_no_more_restart_intervals_than_mcus)
{
    enum { NUM_EXTRA = 1000 };
    struct sluice_buf *one = image_test_jpeg(
        16, 8, &(struct sluice_jpeg_encode_options){.is_gray = true, .restart_rows = 1});
    struct sluice_buf *file = NULL;
    REQUIRE_OK(sluice_buf_create(NULL, one->len + 2 * NUM_EXTRA, &file, NULL));
    memcpy(file->data, one->data, one->len - 2);
    uint8_t *at = file->data + one->len - 2;
    for (unsigned i = 0; i < NUM_EXTRA; i++, at += 2)
        memcpy(at, (const uint8_t[]){0xFF, (uint8_t)(0xD0 + i % 8)}, 2);
    memcpy(at, "\xFF\xD9", 2);
    file->len = one->len + 2 * NUM_EXTRA;

    const struct sluice_buf *both[] = {one, file};
    for (int i = 0; i < 2; i++) {
        struct sluice_jpeg jpeg;
        struct sluice_jpeg_scan scan = {0};
        struct sluice_err err = {{0}};
        REQUIRE_OK(sluice_jpeg_parse(both[i]->data, both[i]->len, &jpeg, &err));
        CU_ASSERT_EQUAL(sluice_jpeg_scan_read(&jpeg, NULL, &scan, &err),
                        i == 0 ? SLUICE_OK : SLUICE_E_CORRUPT);
        CU_ASSERT_EQUAL(strstr(err.text, "more restart markers than MCUs") != NULL, i == 1);
        sluice_jpeg_scan_clear(&scan);
    }
    sluice_buf_unref(one);
    sluice_buf_unref(file);
}

int main(void)
{
    if (sluice_codec_create(&codec, NULL) != SLUICE_OK)
        return 1;
    const int result = sluice_test_main();
    sluice_codec_destroy(codec);
    return result;
}
