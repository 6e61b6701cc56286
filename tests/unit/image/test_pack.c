#include "image/pack/pack.h"

#include "base/buf.h"
#include "base/rng.h"

#include "image_support.h"
#include "support/test.h"

#include <dirent.h>

#define HEADER_LEN 56 /* 8 and the lengths of 12 streams */

static struct sluice_packer *packer;
static struct sluice_rng rng;

/* Stands before the real one (linked with --wrap): fails on request. */
static int bufs_left = -1; /* < 0: no limit */

sluice_status __real_sluice_buf_create(struct sluice_buf_pool *pool, size_t capacity,
                                       struct sluice_buf **buf, struct sluice_err *err);
sluice_status __wrap_sluice_buf_create(struct sluice_buf_pool *pool, size_t capacity,
                                       struct sluice_buf **buf, struct sluice_err *err);
sluice_status __wrap_sluice_buf_create(struct sluice_buf_pool *pool, size_t capacity,
                                       struct sluice_buf **buf, struct sluice_err *err)
{
    if (bufs_left == 0)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "none left");
    bufs_left -= bufs_left > 0;
    return __real_sluice_buf_create(pool, capacity, buf, err);
}

static struct sluice_buf *pack(const uint8_t *pixels, uint32_t width, uint32_t height, int level)
{
    struct sluice_buf *packed = NULL;
    struct sluice_err err = {{0}};
    REQUIRE_OK(sluice_pack_rgb(packer, pixels, width, height, level, NULL, &packed, &err));
    CU_ASSERT(err.text[0] == 0);
    CU_ASSERT(packed->len < (size_t)width * height * 3);
    return packed;
}

/* From a buffer of its own size, so that asan sees a read behind the end. */
static sluice_status unpack(const uint8_t *bytes, size_t len, uint64_t max_pixels,
                            struct sluice_rgb *rgb, struct sluice_err *err)
{
    uint8_t *copy = malloc(len ? len : 1);
    memcpy(copy, bytes, len);
    const sluice_status status = sluice_unpack_rgb(packer, copy, len, max_pixels, NULL, rgb, err);
    free(copy);
    return status;
}

static void check_unpacks_to(const struct sluice_buf *packed, const uint8_t *pixels, uint32_t width,
                             uint32_t height)
{
    struct sluice_rgb rgb = {0};
    struct sluice_err err = {{0}};
    REQUIRE_OK(unpack(packed->data, packed->len, 0, &rgb, &err));
    CU_ASSERT(err.text[0] == 0);
    CU_ASSERT_EQUAL(rgb.width, width);
    CU_ASSERT_EQUAL(rgb.height, height);
    CU_ASSERT_EQUAL_FATAL(rgb.pixels->len, (size_t)width * height * 3);
    CU_ASSERT(memcmp(rgb.pixels->data, pixels, rgb.pixels->len) == 0);
    sluice_buf_unref(rgb.pixels);
}

/* Exactly as it was, or SLUICE_E_AGAIN; whether it was packed. */
static bool check_round_trip(const uint8_t *pixels, uint32_t width, uint32_t height, int level)
{
    struct sluice_buf *packed = NULL;
    struct sluice_err err = {{0}};
    const sluice_status status =
        sluice_pack_rgb(packer, pixels, width, height, level, NULL, &packed, &err);
    if (status != SLUICE_OK) {
        CU_ASSERT_EQUAL(status, SLUICE_E_AGAIN);
        CU_ASSERT(err.text[0] != 0);
        CU_ASSERT(packed == NULL);
        return false;
    }
    CU_ASSERT(packed->len < (size_t)width * height * 3);
    check_unpacks_to(packed, pixels, width, height);
    sluice_buf_unref(packed);
    return true;
}

static uint8_t *random_pixels(uint32_t width, uint32_t height)
{
    const size_t len = (size_t)width * height * 3;
    uint8_t *pixels = malloc(len);
    for (size_t i = 0; i < len; i++)
        pixels[i] = (uint8_t)sluice_rng_u32(&rng);
    return pixels;
}

/* Integers alone, so that committed packed bytes hold it for every compiler. */
static uint8_t *steps_picture(uint32_t width, uint32_t height)
{
    uint8_t *pixels = malloc((size_t)width * height * 3);
    uint32_t noise = 1;
    for (uint32_t y = 0; y < height; y++) {
        for (uint32_t x = 0; x < width; x++) {
            uint8_t *p = pixels + ((size_t)y * width + x) * 3;
            noise = noise * 1664525u + 1013904223u;
            const uint32_t bits = x * 3 > width * 2 ? noise >> 29 : noise >> 31;
            p[0] = (uint8_t)(x * 2 + y + bits);
            p[1] = (uint8_t)(x + y * 2);
            p[2] = (uint8_t)((x / 8 + y / 8) % 2 ? 250 : 10 + bits);
        }
    }
    return pixels;
}

TEST(gives_back_pictures)
{
    static const struct {
        uint32_t width, height;
    } sizes[] = {{224, 224}, {500, 375}, {97, 61}, {48, 31}, {47, 33}, {33, 400}, {640, 17}};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(sizes); i++) {
        const uint32_t width = sizes[i].width, height = sizes[i].height;
        uint8_t *smooth = image_test_picture(width, height), *steps = steps_picture(width, height);
        CU_ASSERT(check_round_trip(smooth, width, height, 0));
        CU_ASSERT(check_round_trip(steps, width, height, 0));
        free(smooth);
        free(steps);
    }
}

TEST(gives_back_a_picture_at_every_level)
{
    uint8_t *pixels = steps_picture(120, 90);
    for (int level = -1; level <= 19; level += level < 4 ? 1 : 5)
        CU_ASSERT(check_round_trip(pixels, 120, 90, level));
    free(pixels);
}

TEST(gives_back_every_small_size)
{
    for (uint32_t width = 1; width <= 35; width++) {
        for (uint32_t height = 1; height <= 6; height++) {
            /* A ramp with one odd pixel: small sizes pack only if they are this plain. */
            uint8_t *pixels = malloc((size_t)width * height * 3);
            for (size_t j = 0; j < (size_t)width * height * 3; j++)
                pixels[j] = (uint8_t)(j / 3 % width);
            pixels[sluice_rng_below(&rng, width * height * 3)] = (uint8_t)sluice_rng_u32(&rng);
            const bool is_packed = check_round_trip(pixels, width, height, 0);
            CU_ASSERT(is_packed || width * height * 3 < 400);
            free(pixels);
        }
    }
}

TEST(gives_back_narrow_and_flat_pictures)
{
    static const struct {
        uint32_t width, height;
    } sizes[] = {{3, 500}, {500, 3}, {1, 700}, {700, 1}, {16, 16}, {15, 65}, {17, 65}};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(sizes); i++) {
        const uint32_t width = sizes[i].width, height = sizes[i].height;
        const size_t len = (size_t)width * height * 3;
        uint8_t *pixels = malloc(len);
        for (int value = 0; value < 256; value += 85) {
            memset(pixels, value, len);
            struct sluice_buf *packed = pack(pixels, width, height, 0);
            CU_ASSERT(packed->len < 400);
            check_unpacks_to(packed, pixels, width, height);
            sluice_buf_unref(packed);
        }
        free(pixels);
    }
}

/* Steps between the extremes, where differences wrap around. */
TEST(gives_back_the_extremes)
{
    const uint32_t width = 100, height = 60;
    uint8_t *pixels = malloc((size_t)width * height * 3);
    for (size_t i = 0; i < (size_t)width * height * 3; i++)
        pixels[i] = sluice_rng_below(&rng, 8) ? 0 : 255;
    CU_ASSERT(check_round_trip(pixels, width, height, 0));
    free(pixels);
}

TEST(gives_back_photographs)
{
    const char *folder = sluice_test_data("imagenet-200");
    if (!folder)
        return;
    /* Files lie in a folder for each class; a dozen of them say enough here. */
    struct sluice_codec *codec = NULL;
    REQUIRE_OK(sluice_codec_create(&codec, NULL));
    unsigned num_seen = 0;
    size_t raw_bytes = 0, packed_bytes = 0;
    struct dirent **classes = NULL;
    const int num_classes = scandir(folder, &classes, NULL, alphasort);
    for (int i = 0; i < num_classes; i++) {
        char class_path[1024];
        snprintf(class_path, sizeof(class_path), "%s/%s", folder, classes[i]->d_name);
        struct dirent **files = NULL;
        const int num_files =
            classes[i]->d_name[0] == '.' ? 0 : scandir(class_path, &files, NULL, alphasort);
        for (int j = 0; j < num_files; j++) {
            if (files[j]->d_name[0] != '.' && num_seen < 12) {
                char path[2048];
                snprintf(path, sizeof(path), "%s/%s", class_path, files[j]->d_name);
                size_t len;
                uint8_t *bytes = sluice_test_read_file(path, &len);
                struct sluice_rgb rgb = {0};
                if (sluice_codec_decode(codec, bytes, len, 0, NULL, &rgb, NULL) == SLUICE_OK) {
                    struct sluice_buf *packed = pack(rgb.pixels->data, rgb.width, rgb.height, 0);
                    check_unpacks_to(packed, rgb.pixels->data, rgb.width, rgb.height);
                    raw_bytes += rgb.pixels->len;
                    packed_bytes += packed->len;
                    sluice_buf_unref(packed);
                    num_seen++;
                }
                sluice_buf_unref(rgb.pixels);
                free(bytes);
            }
            free(files[j]);
        }
        free(files);
        free(classes[i]);
    }
    free(classes);
    sluice_codec_destroy(codec);
    CU_ASSERT(num_seen > 0);
    CU_ASSERT(packed_bytes * 10 < raw_bytes * 7);
}

TEST(refuses_to_grow_with_again)
{
    static const struct {
        uint32_t width, height;
    } sizes[] = {{1, 1}, {4, 4}, {224, 224}, {129, 70}};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(sizes); i++) {
        uint8_t *pixels = random_pixels(sizes[i].width, sizes[i].height);
        CU_ASSERT(!check_round_trip(pixels, sizes[i].width, sizes[i].height, 0));
        CU_ASSERT(!check_round_trip(pixels, sizes[i].width, sizes[i].height, 1));
        free(pixels);
    }
}

TEST(rejects_sizes_outside_the_limits)
{
    static const struct {
        uint32_t width, height;
    } sizes[] = {{0, 1}, {1, 0}, {65536, 1}, {1, 65536}, {65535, 65535}};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(sizes); i++) {
        struct sluice_buf *packed = NULL;
        struct sluice_err err = {{0}};
        const uint8_t pixel[3] = {0};
        CU_ASSERT_EQUAL(
            sluice_pack_rgb(packer, pixel, sizes[i].width, sizes[i].height, 0, NULL, &packed, &err),
            SLUICE_E_INVALID);
        CU_ASSERT(packed == NULL && err.text[0] != 0);
    }
}

/* One call leaves nothing behind that another could see. */
TEST(repeats_itself_after_other_pictures)
{
    uint8_t *pixels = steps_picture(90, 50), *other = random_pixels(300, 20);
    struct sluice_buf *first = pack(pixels, 90, 50, 0);
    CU_ASSERT(!check_round_trip(other, 300, 20, 3));
    struct sluice_buf *second = pack(pixels, 90, 50, 0);
    CU_ASSERT_EQUAL(first->len, second->len);
    CU_ASSERT(memcmp(first->data, second->data, first->len) == 0);

    struct sluice_rgb rgb = {0};
    CU_ASSERT_EQUAL(unpack(first->data, first->len - 1, 0, &rgb, NULL), SLUICE_E_CORRUPT);
    check_unpacks_to(second, pixels, 90, 50);
    sluice_buf_unref(first);
    sluice_buf_unref(second);
    free(pixels);
    free(other);
}

TEST(takes_buffers_from_the_pool)
{
    struct sluice_buf_pool *pool = NULL;
    REQUIRE_OK(sluice_buf_pool_create(1 << 20, &pool, NULL));
    uint8_t *pixels = steps_picture(64, 40);
    struct sluice_buf *packed = NULL;
    struct sluice_rgb rgb = {0};
    REQUIRE_OK(sluice_pack_rgb(packer, pixels, 64, 40, 0, pool, &packed, NULL));
    CU_ASSERT(packed->pool == pool);
    REQUIRE_OK(sluice_unpack_rgb(packer, packed->data, packed->len, 0, pool, &rgb, NULL));
    CU_ASSERT(rgb.pixels->pool == pool);
    sluice_buf_unref(packed);
    sluice_buf_unref(rgb.pixels);
    sluice_buf_pool_destroy(pool);
    free(pixels);
}

TEST(reports_missing_memory)
{
    uint8_t *pixels = steps_picture(70, 40);
    struct sluice_packer *saved = packer;
    for (int left = 0; left < 2; left++) {
        REQUIRE_OK(sluice_packer_create(&packer, NULL));
        struct sluice_buf *packed = NULL;
        bufs_left = left;
        CU_ASSERT_EQUAL(sluice_pack_rgb(packer, pixels, 70, 40, 0, NULL, &packed, NULL),
                        SLUICE_E_NO_MEMORY);
        bufs_left = -1;
        CU_ASSERT(packed == NULL);
        /* It works again once there is memory. */
        packed = pack(pixels, 70, 40, 0);
        sluice_packer_destroy(packer);

        REQUIRE_OK(sluice_packer_create(&packer, NULL));
        struct sluice_rgb rgb = {0};
        bufs_left = left;
        CU_ASSERT_EQUAL(unpack(packed->data, packed->len, 0, &rgb, NULL), SLUICE_E_NO_MEMORY);
        bufs_left = -1;
        CU_ASSERT(rgb.pixels == NULL);
        check_unpacks_to(packed, pixels, 70, 40);
        sluice_packer_destroy(packer);
        sluice_buf_unref(packed);
    }
    packer = saved;
    free(pixels);
}

static void check_rejected(const uint8_t *bytes, size_t len, uint64_t max_pixels,
                           sluice_status want)
{
    struct sluice_rgb rgb = {0};
    struct sluice_err err = {{0}};
    CU_ASSERT_EQUAL(unpack(bytes, len, max_pixels, &rgb, &err), want);
    CU_ASSERT(err.text[0] != 0);
    CU_ASSERT(rgb.pixels == NULL && rgb.width == 0 && rgb.height == 0);
}

TEST(rejects_what_is_cut_or_longer)
{
    uint8_t *pixels = steps_picture(60, 45);
    struct sluice_buf *packed = pack(pixels, 60, 45, 0);
    for (size_t len = 0; len < packed->len; len++)
        check_rejected(packed->data, len, 0, SLUICE_E_CORRUPT);
    uint8_t *longer = calloc(1, packed->len + 1);
    memcpy(longer, packed->data, packed->len);
    check_rejected(longer, packed->len + 1, 0, SLUICE_E_CORRUPT);
    free(longer);
    sluice_buf_unref(packed);
    free(pixels);
}

TEST(rejects_a_bad_header)
{
    uint8_t *pixels = steps_picture(60, 45);
    struct sluice_buf *packed = pack(pixels, 60, 45, 0);
    static const struct {
        size_t at;
        uint8_t value;
        sluice_status want;
    } cases[] = {
        {0, 'X', SLUICE_E_CORRUPT},     {1, 'X', SLUICE_E_CORRUPT},
        {2, 2, SLUICE_E_UNSUPPORTED},   {2, 0, SLUICE_E_UNSUPPORTED},
        {3, 1, SLUICE_E_UNSUPPORTED},   {4, 0, SLUICE_E_CORRUPT}, /* a width of 0 */
        {4, 59, SLUICE_E_CORRUPT},      /* fewer pixels than the streams hold */
        {4, 61, SLUICE_E_CORRUPT},      /* and more */
        {5, 255, SLUICE_E_CORRUPT},     /* many more */
        {6, 0, SLUICE_E_CORRUPT},       /* a height of 0 */
        {8 + 3, 255, SLUICE_E_CORRUPT}, /* a stream beyond the end */
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        uint8_t *bytes = malloc(packed->len);
        memcpy(bytes, packed->data, packed->len);
        bytes[cases[i].at] = cases[i].value;
        check_rejected(bytes, packed->len, 0, cases[i].want);
        free(bytes);
    }
    sluice_buf_unref(packed);
    free(pixels);
}

TEST(rejects_more_pixels_than_allowed)
{
    uint8_t *pixels = steps_picture(60, 45);
    struct sluice_buf *packed = pack(pixels, 60, 45, 0);
    struct sluice_rgb rgb = {0};
    CHECK_OK(unpack(packed->data, packed->len, 60 * 45, &rgb, NULL));
    sluice_buf_unref(rgb.pixels);
    check_rejected(packed->data, packed->len, 60 * 45 - 1, SLUICE_E_UNSUPPORTED);
    memset(packed->data + 4, 255, 4); /* above the default limit too */
    check_rejected(packed->data, packed->len, 0, SLUICE_E_UNSUPPORTED);
    sluice_buf_unref(packed);
    free(pixels);
}

/* Streams that hold as many bytes as the pixels need, but not where they are needed. */
TEST(rejects_streams_in_the_wrong_place)
{
    uint8_t *pixels = steps_picture(60, 45);
    struct sluice_buf *packed = pack(pixels, 60, 45, 0);
    uint8_t *bytes = malloc(packed->len);
    memcpy(bytes, packed->data, packed->len);
    /* The differences' lengths and frames before green's. */
    memcpy(bytes + 8, packed->data + 8 + 24, 24);
    memcpy(bytes + 8 + 24, packed->data + 8, 24);
    size_t green = 0;
    for (unsigned i = 0; i < 24; i += 4)
        green += packed->data[8 + i] + 256u * packed->data[9 + i];
    const size_t rest = packed->len - HEADER_LEN - green;
    memcpy(bytes + HEADER_LEN, packed->data + HEADER_LEN + green, rest);
    memcpy(bytes + HEADER_LEN + rest, packed->data + HEADER_LEN, green);
    check_rejected(bytes, packed->len, 0, SLUICE_E_CORRUPT);
    free(bytes);
    sluice_buf_unref(packed);
    free(pixels);
}

/* Pixels of the right size or words; asan and ubsan see to the rest. */
TEST(survives_every_kind_of_damage)
{
    uint8_t *pixels = steps_picture(90, 40);
    struct sluice_buf *packed = pack(pixels, 90, 40, 0);
    uint8_t *bytes = malloc(packed->len);
    unsigned num_rejected = 0;
    for (unsigned i = 0; i < 2000; i++) {
        memcpy(bytes, packed->data, packed->len);
        const uint32_t at = sluice_rng_below(&rng, (uint32_t)packed->len);
        bytes[at] ^= (uint8_t)(1 + sluice_rng_below(&rng, 255));
        struct sluice_rgb rgb = {0};
        struct sluice_err err = {{0}};
        if (unpack(bytes, packed->len, 1 << 20, &rgb, &err) == SLUICE_OK) {
            CU_ASSERT_EQUAL(rgb.pixels->len, (size_t)rgb.width * rgb.height * 3);
            sluice_buf_unref(rgb.pixels);
        } else {
            CU_ASSERT(err.text[0] != 0);
            num_rejected++;
        }
    }
    CU_ASSERT(num_rejected > 0);
    free(bytes);
    sluice_buf_unref(packed);
    free(pixels);
}

/* What an earlier build packed means the same to this one. */
TEST(unpacks_what_was_packed_before)
{
    char path[1024];
    snprintf(path, sizeof(path), "%s/tests/fuzz/corpus/unpack/steps_61x45",
             sluice_test_source_dir());
    size_t len;
    uint8_t *bytes = sluice_test_read_file(path, &len), *pixels = steps_picture(61, 45);
    struct sluice_rgb rgb = {0};
    REQUIRE_OK(unpack(bytes, len, 0, &rgb, NULL));
    CU_ASSERT_EQUAL(rgb.width, 61);
    CU_ASSERT_EQUAL_FATAL(rgb.pixels->len, 61 * 45 * 3);
    CU_ASSERT(memcmp(rgb.pixels->data, pixels, 61 * 45 * 3) == 0);
    sluice_buf_unref(rgb.pixels);
    free(bytes);
    free(pixels);
}

/* test_image_pack FOLDER writes the seeds of tests/fuzz/corpus/unpack. */
static const char *corpus_folder;

TEST_OF("corpus", write_corpus)
{
    const char *folder = corpus_folder;
    char path[1024];
    uint8_t *steps = steps_picture(61, 45), flat[20 * 20 * 3];
    memset(flat, 77, sizeof(flat));
    struct sluice_buf *packed = pack(steps, 61, 45, 0), *plain = pack(flat, 20, 20, 0);
    snprintf(path, sizeof(path), "%s/steps_61x45", folder);
    sluice_test_write_file(path, packed->data, packed->len);
    snprintf(path, sizeof(path), "%s/steps_cut", folder);
    sluice_test_write_file(path, packed->data, packed->len / 2);
    snprintf(path, sizeof(path), "%s/flat_20x20", folder);
    sluice_test_write_file(path, plain->data, plain->len);
    snprintf(path, sizeof(path), "%s/flat_wider", folder);
    plain->data[4]++;
    sluice_test_write_file(path, plain->data, plain->len);
    snprintf(path, sizeof(path), "%s/header", folder);
    sluice_test_write_file(path, packed->data, HEADER_LEN);
    sluice_buf_unref(packed);
    sluice_buf_unref(plain);
    free(steps);
}

TEST(destroy_takes_null)
{
    sluice_packer_destroy(NULL);
}

int main(int argc, char **argv)
{
    if (sluice_packer_create(&packer, NULL) != SLUICE_OK)
        return 1;
    rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    corpus_folder = argc > 1 ? argv[1] : NULL;
    const int result = sluice_test_main_with(corpus_folder ? "corpus" : NULL);
    sluice_packer_destroy(packer);
    return result;
}
