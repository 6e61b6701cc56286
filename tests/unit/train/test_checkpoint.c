#include "train/checkpoint.h"

#include "base/hash.h"

#include "support/test.h"

#include <dirent.h>

static struct sluice_err err;

static const float weight[6] = {1, -2, 3.5f, 0, 5, 6};
static const float bias[2] = {-1, 1e-30f};
static const uint32_t weight_dims[2] = {2, 3};
static const uint32_t bias_dims[1] = {2};

static void require(sluice_status status)
{
    if (status)
        printf("%s: %s\n", sluice_status_name(status), err.text);
    REQUIRE_OK(status);
}

static struct sluice_checkpoint_writer *open_writer(const char *name, const char *extra)
{
    const struct sluice_checkpoint_head head = {.model = "tiny",
                                                .height = 32,
                                                .width = 32,
                                                .num_classes = 2,
                                                .seed = 1ull << 63,
                                                .steps = 12345678901,
                                                .extra = extra,
                                                .num_tensors = 3};
    struct sluice_checkpoint_writer *writer = NULL;
    memset(&err, 0, sizeof(err));
    require(sluice_checkpoint_writer_open(sluice_test_path(name), &head, &writer, &err));
    return writer;
}

static void put_tensors(struct sluice_checkpoint_writer *writer)
{
    require(sluice_checkpoint_writer_put(writer, SLUICE_CHECKPOINT_VALUE, "fc.weight", 2,
                                         weight_dims, weight, &err));
    require(sluice_checkpoint_writer_put(writer, SLUICE_CHECKPOINT_MOMENTUM, "fc.weight", 2,
                                         weight_dims, weight, &err));
    require(sluice_checkpoint_writer_put(writer, SLUICE_CHECKPOINT_VALUE, "fc.bias", 1, bias_dims,
                                         bias, &err));
}

static void write_tiny(const char *name)
{
    struct sluice_checkpoint_writer *writer = open_writer(name, "{\"lr\": 0.1}");
    put_tensors(writer);
    require(sluice_checkpoint_writer_commit(writer, &err));
    sluice_checkpoint_writer_close(writer);
}

/* The head of a file of these images, as it is read again. */
static void sides_are_read(uint32_t height, uint32_t width)
{
    const struct sluice_checkpoint_head head = {
        .model = "tiny", .height = height, .width = width, .num_classes = 2, .extra = ""};
    struct sluice_checkpoint_writer *writer = NULL;
    memset(&err, 0, sizeof(err));
    require(sluice_checkpoint_writer_open(sluice_test_path("sides.ckpt"), &head, &writer, &err));
    require(sluice_checkpoint_writer_commit(writer, &err));
    sluice_checkpoint_writer_close(writer);
    struct sluice_checkpoint checkpoint;
    require(sluice_checkpoint_read(sluice_test_path("sides.ckpt"), &checkpoint, &err));
    CU_ASSERT(checkpoint.height == height && checkpoint.width == width);
    sluice_checkpoint_clear(&checkpoint);
}

TEST(images_may_be_of_any_shape)
{
    sides_are_read(224, 224);
    sides_are_read(256, 128);
    sides_are_read(1, 8192);
    sides_are_read(8192, 8192);
}

static unsigned count_files(void)
{
    DIR *dir = opendir(sluice_test_dir());
    CU_ASSERT_PTR_NOT_NULL(dir);
    if (!dir)
        return 0;
    unsigned count = 0;
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

TEST(what_is_written_is_read)
{
    write_tiny("tiny.ckpt");
    struct sluice_checkpoint checkpoint;
    require(sluice_checkpoint_read(sluice_test_path("tiny.ckpt"), &checkpoint, &err));
    CU_ASSERT_STRING_EQUAL(checkpoint.model, "tiny");
    CU_ASSERT(checkpoint.height == 32 && checkpoint.width == 32);
    CU_ASSERT_EQUAL(checkpoint.num_classes, 2);
    CU_ASSERT_EQUAL(checkpoint.seed, 1ull << 63);
    CU_ASSERT_EQUAL(checkpoint.steps, 12345678901);
    CU_ASSERT_STRING_EQUAL(checkpoint.extra, "{\"lr\": 0.1}");
    CU_ASSERT_EQUAL(checkpoint.num_tensors, 3);
    const struct sluice_checkpoint_tensor *tensor =
        sluice_checkpoint_find(&checkpoint, SLUICE_CHECKPOINT_VALUE, "fc.weight");
    CU_ASSERT_PTR_NOT_NULL(tensor);
    if (!tensor)
        return;
    CU_ASSERT(tensor->num_dims == 2 && tensor->dims[0] == 2 && tensor->dims[1] == 3);
    CU_ASSERT_EQUAL(tensor->count, 6);
    CU_ASSERT_EQUAL(memcmp(tensor->data, (const void *)weight, sizeof(weight)), 0);
    CU_ASSERT_PTR_NULL(sluice_checkpoint_find(&checkpoint, SLUICE_CHECKPOINT_MOMENTUM, "fc.bias"));
    sluice_checkpoint_clear(&checkpoint);
    sluice_checkpoint_clear(&checkpoint);
}

TEST(every_cut_and_every_flipped_bit_is_refused)
{
    write_tiny("tiny.ckpt");
    size_t len;
    uint8_t *bytes = sluice_test_read_file(sluice_test_path("tiny.ckpt"), &len);
    struct sluice_checkpoint checkpoint = {.num_tensors = 77};
    for (size_t cut = 0; cut < len; cut++) {
        uint8_t *part = malloc(cut ? cut : 1); /* its own block, so that asan sees its end */
        memcpy(part, bytes, cut);
        CU_ASSERT_EQUAL(sluice_checkpoint_parse(part, cut, &checkpoint, NULL), SLUICE_E_CORRUPT);
        free(part);
    }
    for (size_t bit = 0; bit < 8 * len; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        const sluice_status status = sluice_checkpoint_parse(bytes, len, &checkpoint, NULL);
        CU_ASSERT(status == SLUICE_E_CORRUPT || (status == SLUICE_E_UNSUPPORTED && bit / 8 < 12));
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    CU_ASSERT_EQUAL(checkpoint.num_tensors, 77); /* untouched on failure */
    free(bytes);
}

/* Parses a body as if it had been written so: with its own right checksum. */
static sluice_status parse_sealed(const uint8_t *body, size_t len)
{
    uint8_t *bytes = malloc(len + 16);
    memcpy(bytes, body, len);
    sluice_hash128_bytes(sluice_hash128(body, len), bytes + len);
    struct sluice_checkpoint checkpoint = {.num_tensors = 0};
    const sluice_status status = sluice_checkpoint_parse(bytes, len + 16, &checkpoint, NULL);
    if (!status)
        sluice_checkpoint_clear(&checkpoint);
    free(bytes);
    return status;
}

/* A right checksum over wrong lengths: whoever made it, nothing is read past the end. */
TEST(lengths_are_checked_without_the_checksums_help)
{
    write_tiny("tiny.ckpt");
    size_t len;
    uint8_t *bytes = sluice_test_read_file(sluice_test_path("tiny.ckpt"), &len);
    const size_t body = len - 16;
    CHECK_OK(parse_sealed(bytes, body));
    for (size_t cut = 12; cut < body; cut++) /* magic and version stay */
        CU_ASSERT_EQUAL(parse_sealed(bytes, cut), SLUICE_E_CORRUPT);
    CU_ASSERT_EQUAL(parse_sealed(bytes, len), SLUICE_E_CORRUPT); /* bytes after the end */

    /* Each 4-byte window as the largest number: counts, lengths and dims that overflow. */
    for (size_t at = 12; at + 4 <= body; at++) {
        uint8_t saved[4];
        memcpy(saved, bytes + at, 4);
        memset(bytes + at, 0xff, 4);
        const sluice_status status = parse_sealed(bytes, body);
        CU_ASSERT(status == SLUICE_OK || status == SLUICE_E_CORRUPT);
        memcpy(bytes + at, saved, 4);
    }
    uint8_t *dims = NULL; /* 2 x 3 of the first tensor: 2^32-1 squared overflows times 4 */
    for (size_t at = 12; at + 8 <= body && !dims; at++) {
        if (memcmp(bytes + at, weight_dims, 8) == 0)
            dims = bytes + at;
    }
    CU_ASSERT_PTR_NOT_NULL(dims);
    if (dims)
        memset(dims, 0xff, 8);
    CU_ASSERT_EQUAL(parse_sealed(bytes, body), SLUICE_E_CORRUPT);
    free(bytes);
}

TEST(another_version_is_unsupported)
{
    write_tiny("tiny.ckpt");
    size_t len;
    uint8_t *bytes = sluice_test_read_file(sluice_test_path("tiny.ckpt"), &len);
    bytes[8] = 2;
    struct sluice_checkpoint checkpoint;
    memset(&err, 0, sizeof(err));
    CU_ASSERT_EQUAL(sluice_checkpoint_parse(bytes, len, &checkpoint, &err), SLUICE_E_UNSUPPORTED);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "version 2"));
    free(bytes);
}

TEST(an_error_names_the_file)
{
    struct sluice_checkpoint checkpoint;
    memset(&err, 0, sizeof(err));
    sluice_test_write_file(sluice_test_path("text.ckpt"), "hello", 5);
    CU_ASSERT_EQUAL(sluice_checkpoint_read(sluice_test_path("text.ckpt"), &checkpoint, &err),
                    SLUICE_E_CORRUPT);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "text.ckpt: not a checkpoint"));
    memset(&err, 0, sizeof(err));
    CU_ASSERT_EQUAL(sluice_checkpoint_read(sluice_test_path("none.ckpt"), &checkpoint, &err),
                    SLUICE_E_NOT_FOUND);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "none.ckpt"));
    CU_ASSERT_EQUAL(sluice_checkpoint_read(sluice_test_dir(), &checkpoint, NULL), SLUICE_E_INVALID);
}

/* Until the commit, the path has what it had; given up, nothing is left beside it. */
TEST(a_checkpoint_replaces_the_old_one_whole_or_not_at_all)
{
    sluice_test_write_file(sluice_test_path("old.ckpt"), "old", 3);
    const unsigned files = count_files();
    struct sluice_checkpoint_writer *writer = open_writer("old.ckpt", "");
    put_tensors(writer);
    size_t len;
    uint8_t *bytes = sluice_test_read_file(sluice_test_path("old.ckpt"), &len);
    CU_ASSERT(len == 3 && memcmp(bytes, "old", 3) == 0);
    free(bytes);
    sluice_checkpoint_writer_close(writer);
    CU_ASSERT_EQUAL(count_files(), files);

    write_tiny("old.ckpt");
    CU_ASSERT_EQUAL(count_files(), files);
    struct sluice_checkpoint checkpoint;
    require(sluice_checkpoint_read(sluice_test_path("old.ckpt"), &checkpoint, &err));
    sluice_checkpoint_clear(&checkpoint);
    sluice_checkpoint_writer_close(NULL);
}

TEST(a_folder_that_is_not_there_is_named)
{
    const struct sluice_checkpoint_head head = {.model = "tiny", .extra = ""};
    struct sluice_checkpoint_writer *writer = NULL;
    memset(&err, 0, sizeof(err));
    require(
        sluice_checkpoint_writer_open(sluice_test_path("no/such/x.ckpt"), &head, &writer, &err));
    CU_ASSERT_EQUAL(sluice_checkpoint_writer_commit(writer, &err), SLUICE_E_NOT_FOUND);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "no/such/x.ckpt"));
    sluice_checkpoint_writer_close(writer);
}

TEST(an_extra_text_that_is_too_long_is_refused)
{
    char *extra = malloc(SLUICE_CHECKPOINT_MAX_EXTRA + 2);
    memset(extra, 'x', SLUICE_CHECKPOINT_MAX_EXTRA + 1);
    extra[SLUICE_CHECKPOINT_MAX_EXTRA + 1] = '\0';
    const struct sluice_checkpoint_head head = {.model = "tiny", .extra = extra};
    struct sluice_checkpoint_writer *writer = NULL;
    CU_ASSERT_EQUAL(
        sluice_checkpoint_writer_open(sluice_test_path("long.ckpt"), &head, &writer, NULL),
        SLUICE_E_INVALID);
    free(extra);
}
