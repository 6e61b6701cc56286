#include "train/checkpoint/checkpoint_v1.h"

#include "base/hash.h"
#include "train/checkpoint/checkpoint.h"

#include "support/test.h"
#include "v1_writer.h"

static const float weight[6] = {1, -2, 3.5f, 0, 5, 6};
static const float bias[2] = {-1, 1e-30f};
static const uint32_t weight_dims[2] = {2, 3};
static const uint32_t bias_dims[1] = {2};

static uint8_t *make_file(uint32_t image_size, size_t *len)
{
    struct v1_writer writer;
    v1_open(&writer, "tiny", image_size, 2, 1ull << 63, 12345678901, "{\"lr\": 0.1}", 3);
    v1_put_tensor(&writer, 0, "fc.weight", 2, weight_dims, weight);
    v1_put_tensor(&writer, 1, "fc.weight", 2, weight_dims, weight);
    v1_put_tensor(&writer, 0, "fc.bias", 1, bias_dims, bias);
    return v1_close(&writer, len);
}

static sluice_status parse(const uint8_t *bytes, size_t len)
{
    struct sluice_checkpoint checkpoint = {.num_classes = 0};
    const sluice_status status =
        sluice_checkpoint_v1_parse(bytes, len, &checkpoint, sluice_test_err());
    sluice_checkpoint_clear(&checkpoint);
    return status;
}

/* As the reader of checkpoints takes it: from a file, without another one beside it. */
TEST(an_old_file_is_read)
{
    size_t len;
    uint8_t *bytes = make_file(32, &len);
    sluice_test_write_file(sluice_test_path("old.ckpt"), bytes, len);
    free(bytes);
    struct sluice_checkpoint checkpoint;
    REQUIRE_OK(
        sluice_checkpoint_read(sluice_test_path("old.ckpt"), &checkpoint, sluice_test_err()));
    CU_ASSERT_STRING_EQUAL(checkpoint.model, "tiny");
    CU_ASSERT(checkpoint.height == 32 && checkpoint.width == 32);
    CU_ASSERT_EQUAL(checkpoint.num_classes, 2);
    CU_ASSERT_EQUAL(checkpoint.seed, 1ull << 63);
    CU_ASSERT_EQUAL(checkpoint.steps, 12345678901);
    CU_ASSERT_STRING_EQUAL(checkpoint.extra, "{\"lr\": 0.1}");
    CU_ASSERT_EQUAL(checkpoint.values.num_tensors, 2);
    CU_ASSERT_EQUAL(checkpoint.momenta.num_tensors, 1);
    const struct sluice_tensor *tensor = sluice_safetensors_find(&checkpoint.momenta, "fc.weight");
    CU_ASSERT_FATAL(tensor && tensor->num_dims == 2 && tensor->count == 6);
    CU_ASSERT(tensor->dims[0] == 2 && tensor->dims[1] == 3);
    float values[6];
    sluice_tensor_to_float(tensor, values);
    CU_ASSERT_EQUAL(memcmp(values, (const void *)weight, sizeof(values)), 0);
    CU_ASSERT_PTR_NULL(sluice_safetensors_find(&checkpoint.momenta, "fc.bias"));
    CU_ASSERT_PTR_NULL(sluice_safetensors_text(&checkpoint.values, "model"));
    sluice_checkpoint_clear(&checkpoint);
}

TEST(images_may_be_of_any_shape)
{
    static const uint32_t sides[][2] = {{224, 224}, {256, 128}, {1, 8192}, {8192, 8192}};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(sides); i++) {
        const uint32_t height = sides[i][0], width = sides[i][1];
        size_t len;
        uint8_t *bytes = make_file(height == width ? height : height << 16 | width, &len);
        struct sluice_checkpoint checkpoint = {.num_classes = 0};
        CHECK_OK(sluice_checkpoint_v1_parse(bytes, len, &checkpoint, sluice_test_err()));
        CU_ASSERT(checkpoint.height == height && checkpoint.width == width);
        sluice_checkpoint_clear(&checkpoint);
        free(bytes);
    }
}

TEST(every_cut_and_every_flipped_bit_is_refused)
{
    size_t len;
    uint8_t *bytes = make_file(32, &len);
    for (size_t cut = 0; cut < len; cut++) {
        uint8_t *part = malloc(cut ? cut : 1);
        memcpy(part, bytes, cut);
        CU_ASSERT_EQUAL(parse(part, cut), SLUICE_E_CORRUPT);
        free(part);
    }
    for (size_t bit = 0; bit < 8 * len; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        const sluice_status status = parse(bytes, len);
        CU_ASSERT(status == SLUICE_E_CORRUPT || (status == SLUICE_E_UNSUPPORTED && bit / 8 < 12));
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    free(bytes);
}

/* Parses a body as if it had been written so: with its own right checksum. */
static sluice_status parse_sealed(const uint8_t *body, size_t len)
{
    uint8_t *bytes = malloc(len + 16);
    memcpy(bytes, body, len);
    sluice_hash128_bytes(sluice_hash128(body, len), bytes + len);
    const sluice_status status = parse(bytes, len + 16);
    free(bytes);
    return status;
}

/* A right checksum over wrong lengths: whoever made it, nothing is read past the end. */
TEST(lengths_are_checked_without_the_checksums_help)
{
    size_t len;
    uint8_t *bytes = make_file(32, &len);
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
    uint8_t *dims = memmem(bytes, body, weight_dims, sizeof(weight_dims));
    CU_ASSERT_PTR_NOT_NULL_FATAL(dims);
    memset(dims, 0xff, 8); /* 2^32-1 squared overflows times 4 */
    CU_ASSERT_EQUAL(parse_sealed(bytes, body), SLUICE_E_CORRUPT);
    free(bytes);
}

TEST(another_version_is_unsupported)
{
    size_t len;
    uint8_t *bytes = make_file(32, &len);
    bytes[8] = 2;
    CHECK_FAILS(SLUICE_E_UNSUPPORTED, "version 2", parse(bytes, len));
    CU_ASSERT(!sluice_is_checkpoint_v1(bytes, 7));
    CU_ASSERT(sluice_is_checkpoint_v1(bytes, 8));
    free(bytes);
}
