#include "train/checkpoint/safetensors.h"

#include "base/compiler.h"

#include "support/test.h"

#include <math.h>

/* --- a file with every type --- */

static const float floats[6] = {1, -2, 3.5f, 0, 1e-30f, -0.0f};
static const uint16_t halves[3] = {0x3C00, 0xC000, 0x7BFF}, bfloats[3] = {0x3F80, 0xC000, 0x7F7F};
static const int64_t counters[1] = {INT64_MIN + 5};

static const struct sluice_tensor tensors[] = {
    {.name = "bn.num_batches_tracked", .type = SLUICE_TENSOR_I64},
    {.name = "fc.weight", .type = SLUICE_TENSOR_F32, .num_dims = 2, .dims = {2, 3}},
    {.name = "half", .type = SLUICE_TENSOR_F16, .num_dims = 4, .dims = {1, 3, 1, 1}},
    {.name = "empty", .type = SLUICE_TENSOR_F16, .num_dims = 2, .dims = {7, 0}},
    {.name = "b\xC3\xA4 \"float\"", .type = SLUICE_TENSOR_BF16, .num_dims = 1, .dims = {3}},
};
static const void *const contents[] = {counters, floats, halves, NULL, bfloats};
static const size_t sizes[] = {8, 24, 6, 0, 6};
static const struct sluice_safetensors_text texts[] = {
    {"model", "tiny"}, {"state", "{\"xxh3_128\":\"00\",\n\"b\":1}"}};

static sluice_status fill(void *ctx, size_t tensor, void *to, struct sluice_err *err)
{
    (void)ctx;
    (void)err;
    CU_ASSERT_EQUAL((uintptr_t)to % (tensor == 0 ? 8 : tensor == 1 ? 4 : 2), 0);
    if (sizes[tensor])
        memcpy(to, contents[tensor], sizes[tensor]);
    return SLUICE_OK;
}

static const struct sluice_safetensors_plan plan = {.texts = texts,
                                                    .num_texts = SLUICE_ARRAY_LEN(texts),
                                                    .tensors = tensors,
                                                    .num_tensors = SLUICE_ARRAY_LEN(tensors),
                                                    .fill = fill};

static uint8_t *make(size_t *len)
{
    uint8_t *bytes = NULL;
    char hash[33];
    REQUIRE_OK(sluice_safetensors_make(&plan, &bytes, len, hash, sluice_test_err()));
    CU_ASSERT_EQUAL(strlen(hash), 32);
    return bytes;
}

/* Every tensor and text is there as it was written. */
static bool is_whole(const struct sluice_safetensors *file)
{
    bool is_same = file->num_tensors == SLUICE_ARRAY_LEN(tensors);
    for (size_t i = 0; is_same && i < SLUICE_ARRAY_LEN(tensors); i++) {
        const struct sluice_tensor *found = sluice_safetensors_find(file, tensors[i].name);
        is_same = found && found->type == tensors[i].type &&
                  found->num_dims == tensors[i].num_dims &&
                  memcmp(found->dims, tensors[i].dims, sizeof(found->dims)) == 0 &&
                  (!sizes[i] || memcmp(found->data, contents[i], sizes[i]) == 0);
    }
    return is_same;
}

TEST(what_is_written_is_read)
{
    size_t len;
    uint8_t *bytes = make(&len);
    CU_ASSERT_EQUAL(len % 2, 0);
    struct sluice_safetensors file;
    REQUIRE_OK(sluice_safetensors_parse(bytes, len, &file, sluice_test_err()));
    CU_ASSERT(is_whole(&file));
    CU_ASSERT_EQUAL(sluice_safetensors_find(&file, "fc.weight")->count, 6);
    CU_ASSERT_EQUAL(sluice_safetensors_find(&file, "bn.num_batches_tracked")->count, 1);
    CU_ASSERT_EQUAL(sluice_safetensors_find(&file, "empty")->count, 0);
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(texts); i++)
        CU_ASSERT_STRING_EQUAL(sluice_safetensors_text(&file, texts[i].key), texts[i].value);
    CU_ASSERT_PTR_NULL(sluice_safetensors_text(&file, "none"));
    CU_ASSERT_PTR_NULL(sluice_safetensors_find(&file, "none"));
    sluice_safetensors_clear(&file);
    sluice_safetensors_clear(&file);
    free(bytes);
}

TEST(the_same_content_makes_the_same_bytes)
{
    size_t len, again_len;
    uint8_t *bytes = make(&len), *again = make(&again_len);
    CU_ASSERT(len == again_len && memcmp(bytes, again, len) == 0);
    free(bytes);
    free(again);
}

TEST(every_cut_is_refused)
{
    size_t len;
    uint8_t *bytes = make(&len);
    struct sluice_safetensors file = {.num_tensors = 77};
    for (size_t cut = 0; cut < len; cut++) {
        uint8_t *part = malloc(cut ? cut : 1); /* its own block, so that asan sees its end */
        memcpy(part, bytes, cut);
        CU_ASSERT_EQUAL(sluice_safetensors_parse(part, cut, &file, NULL), SLUICE_E_CORRUPT);
        free(part);
    }
    CU_ASSERT_EQUAL(file.num_tensors, 77); /* untouched on failure */
    free(bytes);
}

/* The exception: a flip in the name of the hash's key, after which there is none to compare. */
TEST(every_flipped_bit_is_refused_or_changes_nothing)
{
    size_t len, num_same = 0;
    uint8_t *bytes = make(&len);
    for (size_t bit = 0; bit < 8 * len; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        struct sluice_safetensors file;
        if (sluice_safetensors_parse(bytes, len, &file, NULL) == SLUICE_OK) {
            CU_ASSERT(is_whole(&file));
            num_same++;
            sluice_safetensors_clear(&file);
        }
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    CU_ASSERT(num_same <= 8 * strlen(SLUICE_SAFETENSORS_HASH));
    free(bytes);
}

TEST(damaged_data_is_named)
{
    size_t len;
    uint8_t *bytes = make(&len);
    bytes[len - 1] ^= 1;
    struct sluice_safetensors file;
    CHECK_FAILS(SLUICE_E_CORRUPT, "damaged",
                sluice_safetensors_parse(bytes, len, &file, sluice_test_err()));
    free(bytes);
}

static sluice_status fill_number(void *ctx, size_t tensor, void *to, struct sluice_err *err)
{
    (void)ctx;
    (void)err;
    *(float *)to = (float)tensor;
    return SLUICE_OK;
}

TEST(any_number_of_tensors_is_taken)
{
    enum { MANY = 5000 }; /* resnet152 has 777 parameters */
    static struct sluice_tensor many[MANY];
    static char names[MANY][16];
    for (size_t i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof(names[i]), "%zu", i);
        many[i] = (struct sluice_tensor){.name = names[i], .type = SLUICE_TENSOR_F32};
    }
    const struct sluice_safetensors_plan large = {
        .tensors = many, .num_tensors = MANY, .fill = fill_number};
    uint8_t *bytes = NULL;
    size_t len;
    char hash[33];
    REQUIRE_OK(sluice_safetensors_make(&large, &bytes, &len, hash, sluice_test_err()));
    struct sluice_safetensors file;
    REQUIRE_OK(sluice_safetensors_parse(bytes, len, &file, sluice_test_err()));
    CU_ASSERT_EQUAL(file.num_tensors, MANY);
    float value = 0;
    sluice_tensor_to_float(sluice_safetensors_find(&file, "4999"), &value);
    CU_ASSERT_EQUAL(value, 4999);
    sluice_safetensors_clear(&file);
    free(bytes);
}

/* --- values --- */

/* By the definition: sign, exponent and mantissa. */
static double value_of(uint16_t bits, int exponent_bits)
{
    const int mantissa_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
    const int exponent = bits >> mantissa_bits & ((1 << exponent_bits) - 1);
    const int mantissa = bits & ((1 << mantissa_bits) - 1);
    const double sign = bits >> 15 ? -1 : 1;
    if (exponent == (1 << exponent_bits) - 1)
        return mantissa ? NAN : sign * INFINITY;
    const double fraction = ldexp(mantissa, -mantissa_bits) + (exponent ? 1 : 0);
    return sign * ldexp(fraction, (exponent ? exponent : 1) - bias);
}

TEST(every_half_and_bfloat_is_converted_exactly)
{
    static uint16_t bits[65536];
    static float values[65536];
    for (size_t i = 0; i < 65536; i++)
        bits[i] = (uint16_t)i;
    struct sluice_tensor tensor = {.count = 65536, .data = (const uint8_t *)bits};
    for (int exponent_bits = 5; exponent_bits <= 8; exponent_bits += 3) {
        tensor.type = exponent_bits == 5 ? SLUICE_TENSOR_F16 : SLUICE_TENSOR_BF16;
        sluice_tensor_to_float(&tensor, values);
        for (size_t i = 0; i < 65536; i++) {
            const double want = value_of((uint16_t)i, exponent_bits);
            CU_ASSERT(isnan(want) ? isnan(values[i])
                                  : (double)values[i] == want && !signbit(values[i]) == !(i >> 15));
        }
    }
}

TEST(floats_are_copied)
{
    uint8_t unaligned[1 + sizeof(floats)];
    memcpy(unaligned + 1, floats, sizeof(floats));
    const struct sluice_tensor tensor = {
        .type = SLUICE_TENSOR_F32, .count = 6, .data = unaligned + 1};
    float out[6];
    sluice_tensor_to_float(&tensor, out);
    CU_ASSERT_EQUAL(memcmp(out, (const void *)floats, sizeof(out)), 0);
}

/* --- other writers' files, and hostile ones --- */

static sluice_status parse_header(const char *header, size_t data_len,
                                  struct sluice_safetensors *file)
{
    const uint64_t header_len = strlen(header);
    const size_t len = 8 + header_len + data_len;
    uint8_t *bytes = calloc(1, len);
    memcpy(bytes, &header_len, 8);
    memcpy(bytes + 8, header, header_len);
    const sluice_status status = sluice_safetensors_parse(bytes, len, file, sluice_test_err());
    free(bytes);
    return status;
}

TEST(other_writers_order_and_blanks_are_read)
{
    struct sluice_safetensors file;
    REQUIRE_OK(parse_header("{ \"b\": {\"data_offsets\": [4, 8], \"shape\": [], \"dtype\": \"F32\","
                            " \"more\": null}, \"a\": {\"dtype\":\"BF16\",\"shape\":[2,1],"
                            "\"data_offsets\":[0,4]} }    ",
                            8, &file));
    CU_ASSERT_EQUAL(file.num_tensors, 2);
    CU_ASSERT_STRING_EQUAL(file.tensors[0].name, "a"); /* in the order of their data */
    CU_ASSERT_EQUAL(file.tensors[1].num_dims, 0);
    CU_ASSERT_PTR_NULL(sluice_safetensors_text(&file, "format"));
    sluice_safetensors_clear(&file);
    REQUIRE_OK(parse_header("{}", 0, &file));
    CU_ASSERT_EQUAL(file.num_tensors, 0);
    sluice_safetensors_clear(&file);
}

#define ENTRY(dtype, shape, offsets)                                                               \
    "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"
#define F32(shape, offsets) ENTRY("F32", shape, offsets)

TEST(hostile_headers_have_their_errors)
{
    static const struct {
        const char *header;
        size_t data_len;
        sluice_status status;
        const char *words;
    } cases[] = {
        {"[]", 0, SLUICE_E_CORRUPT, "no JSON object at byte 8"},
        {" {}", 0, SLUICE_E_CORRUPT, "no JSON object at byte 8"},
        {"", 0, SLUICE_E_CORRUPT, "no JSON object at byte 8"},
        {"{", 0, SLUICE_E_CORRUPT, "not JSON, byte 1"},
        {"{} x", 0, SLUICE_E_CORRUPT, "not JSON"},
        {"{\"\xFF\":1}", 0, SLUICE_E_CORRUPT, "not JSON"},
        {"{\"a\\u0000\":1}", 0, SLUICE_E_CORRUPT, "not JSON"},
        {"{\"a\":1}", 0, SLUICE_E_CORRUPT, "tensor a: no \"dtype\""},
        {"{\"a\":{\"dtype\":3}}", 0, SLUICE_E_CORRUPT, "tensor a: no \"dtype\""},
        {"{\"a\":{\"dtype\":\"F32\"}}", 0, SLUICE_E_CORRUPT, "tensor a: no \"shape\""},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[]}}", 4, SLUICE_E_CORRUPT,
         "tensor a: no \"data_offsets\""},
        {"{\"a\":" ENTRY("F64", "[1]", "[0,8]") "}", 8, SLUICE_E_UNSUPPORTED, "dtype \"F64\""},
        {"{\"a\":" ENTRY("f32", "[1]", "[0,4]") "}", 4, SLUICE_E_UNSUPPORTED, "dtype \"f32\""},
        {"{\"a\":" F32("[1,1,1,1,1,1,1,1,1]", "[0,4]") "}", 4, SLUICE_E_UNSUPPORTED, "9 dims"},
        {"{\"a\":" F32("[-1]", "[0,4]") "}", 4, SLUICE_E_CORRUPT, "dim 0"},
        {"{\"a\":" F32("[1,1.0]", "[0,4]") "}", 4, SLUICE_E_CORRUPT, "dim 1"},
        {"{\"a\":" F32("[1e0]", "[0,4]") "}", 4, SLUICE_E_CORRUPT, "dim 0"},
        {"{\"a\":" F32("[9223372036854775807,3]", "[0,4]") "}", 4, SLUICE_E_CORRUPT, "dim 1"},
        {"{\"a\":" F32("[4611686018427387905]", "[0,4]") "}", 4, SLUICE_E_CORRUPT,
         "not those of its shape"}, /* times 4 is 4 mod 2^64 */
        {"{\"a\":" F32("[18446744073709551616]", "[0,4]") "}", 4, SLUICE_E_CORRUPT, "not JSON"},
        {"{\"a\":" F32("[2]", "[0,4]") "}", 4, SLUICE_E_CORRUPT, "4 bytes of data are not those"},
        {"{\"a\":" F32("[1]", "[0]") "}", 4, SLUICE_E_CORRUPT, "no \"data_offsets\""},
        {"{\"a\":" F32("[1]", "[-4,0]") "}", 4, SLUICE_E_CORRUPT, "no \"data_offsets\""},
        {"{\"a\":" F32("[1]", "[4,0]") "}", 4, SLUICE_E_CORRUPT, "no \"data_offsets\""},
        {"{\"a\":" F32("[1]", "[4,8]") "}", 7, SLUICE_E_CORRUPT, "cut off: up to byte 8 of 7"},
        {"{\"a\":" F32("[1]", "[9223372036854775800,9223372036854775804]") "}", 4, SLUICE_E_CORRUPT,
         "cut off"},
        {"{\"a\":" F32("[1]", "[4,8]") "}", 8, SLUICE_E_CORRUPT, "tensor a: a gap"},
        {"{\"a\":" F32("[1]", "[0,4]") ",\"b\":" F32("[1]", "[8,12]") "}", 12, SLUICE_E_CORRUPT,
         "tensor b: a gap"},
        {"{\"a\":" F32("[2]", "[0,8]") ",\"b\":" F32("[1]", "[4,8]") "}", 8, SLUICE_E_CORRUPT,
         "tensor b: an overlap"},
        {"{\"a\":" F32("[1]", "[0,4]") ",\"b\":" F32("[1]", "[0,4]") "}", 4, SLUICE_E_CORRUPT,
         "an overlap"},
        {"{\"a\":" F32("[1]", "[0,4]") "}", 5, SLUICE_E_CORRUPT, "1 bytes after the last tensor"},
        {"{}", 1, SLUICE_E_CORRUPT, "1 bytes after the last tensor"},
        {"{\"a\":" F32("[1]", "[0,4]") ",\"a\":" F32("[1]", "[0,4]") "}", 4, SLUICE_E_CORRUPT,
         "duplicate"},
        {"{\"__metadata__\":[]}", 0, SLUICE_E_CORRUPT, "\"__metadata__\" is not an object"},
        {"{\"__metadata__\":{\"a\":1}}", 0, SLUICE_E_CORRUPT, "\"a\" is not a text"},
        {"{\"__metadata__\":{\"xxh3_128\":\"\"}}", 0, SLUICE_E_CORRUPT, "damaged"},
        {"{\"__metadata__\":{\"xxh3_128\":\"00000000000000000000000000000000\"}}", 0,
         SLUICE_E_CORRUPT, "damaged"},
        {"{\"__metadata__\":{\"xxh3\\u005f128\":\"00000000000000000000000000000000\"}}", 0,
         SLUICE_E_CORRUPT, "damaged"},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        struct sluice_safetensors file = {.num_tensors = 77};
        CHECK_FAILS(cases[i].status, cases[i].words,
                    parse_header(cases[i].header, cases[i].data_len, &file));
        CU_ASSERT_EQUAL(file.num_tensors, 77);
    }
}

TEST(deep_json_is_refused)
{
    char *header = malloc(100002);
    header[0] = '{';
    memcpy(header + 1, "\"a\":", 4);
    memset(header + 5, '[', 99996);
    header[100001] = '\0';
    struct sluice_safetensors file;
    CHECK_FAILS(SLUICE_E_CORRUPT, "not JSON", parse_header(header, 0, &file));
    CHECK_SAYS("depth");
    free(header);
}

TEST(the_headers_length_is_limited)
{
    static const uint64_t lengths[] = {UINT64_MAX, INT64_MAX, SLUICE_SAFETENSORS_MAX_HEADER + 1};
    struct sluice_safetensors file;
    uint8_t bytes[16] = {0};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(lengths); i++) {
        memcpy(bytes, &lengths[i], 8);
        CHECK_FAILS(SLUICE_E_CORRUPT, "not safetensors: a header of",
                    sluice_safetensors_parse(bytes, sizeof(bytes), &file, sluice_test_err()));
    }
    const uint64_t longer = 9;
    memcpy(bytes, &longer, 8);
    CHECK_FAILS(SLUICE_E_CORRUPT, "cut off: a header of 9 bytes in 16",
                sluice_safetensors_parse(bytes, sizeof(bytes), &file, sluice_test_err()));
    CHECK_FAILS(SLUICE_E_CORRUPT, "7 bytes in all",
                sluice_safetensors_parse(bytes, 7, &file, sluice_test_err()));
}

/* The first bytes of torch.save()'s zip, of its old format, and of pickle.dump(). */
TEST(a_pickle_is_refused_in_words)
{
    static const uint8_t starts[][16] = {
        {'P', 'K', 3, 4, 0, 0, 8, 8, 0, 0},
        {0x80, 2, 0x8A, 0x0A, 0x6C, 0xFC, 0x9C, 0x46, 0xF9, 0x20, 0x6A, 0xA8, 0x50, 0x19},
        {0x80, 4, 0x95, 0x20, 0, 0, 0, 0, 0, 0, 0, '}'},
    };
    struct sluice_safetensors file;
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(starts); i++) {
        CHECK_FAILS(SLUICE_E_UNSUPPORTED, "a pickle of PyTorch",
                    sluice_safetensors_parse(starts[i], 16, &file, sluice_test_err()));
        CHECK_SAYS("save_file(torch.load(");
    }
}

/* --- what cannot be made --- */

static sluice_status fail_at_2(void *ctx, size_t tensor, void *to, struct sluice_err *err)
{
    if (tensor == 2)
        return sluice_fail(err, SLUICE_E_IO, "the device is gone");
    return fill(ctx, tensor, to, err);
}

TEST(what_cannot_be_made_is_said)
{
    struct sluice_safetensors_plan bad = plan;
    uint8_t *bytes = NULL;
    size_t len = 77;
    char hash[33];
    bad.fill = fail_at_2;
    CHECK_FAILS(SLUICE_E_IO, "the device is gone",
                sluice_safetensors_make(&bad, &bytes, &len, hash, sluice_test_err()));

    bad = plan;
    bad.texts = &(struct sluice_safetensors_text){"extra", "\xFF"};
    bad.num_texts = 1;
    CHECK_FAILS(SLUICE_E_INVALID, "\"extra\" is not UTF-8",
                sluice_safetensors_make(&bad, &bytes, &len, hash, sluice_test_err()));

    char *longest = malloc(SLUICE_SAFETENSORS_MAX_HEADER + 1);
    memset(longest, 'x', SLUICE_SAFETENSORS_MAX_HEADER);
    longest[SLUICE_SAFETENSORS_MAX_HEADER] = '\0';
    bad.texts = &(struct sluice_safetensors_text){"extra", longest};
    CHECK_FAILS(SLUICE_E_INVALID, "a header of",
                sluice_safetensors_make(&bad, &bytes, &len, hash, sluice_test_err()));
    free(longest);
    CU_ASSERT_PTR_NULL(bytes);
    CU_ASSERT_EQUAL(len, 77);
}
