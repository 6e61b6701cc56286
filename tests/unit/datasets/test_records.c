#include "datasets/shards/records.h"

#include "support/record_shard.h"
#include "support/test.h"

static const char config[] = "{\"column_names\": [\"a\", \"b\", \"c\"], \"column_encodings\": "
                             "[\"bytes\", \"int16\", \"uint64\"], \"column_sizes\": [null, 2, 8]}";

static sluice_status read_at(void *ctx, uint64_t at, void *to, size_t len, struct sluice_err *err)
{
    const struct sluice_test_shard *shard = ctx;
    (void)err;
    CU_ASSERT_FATAL(at <= shard->len && len <= shard->len - at);
    memcpy(to, shard->bytes + at, len);
    return SLUICE_OK;
}

static struct sluice_records reader(struct sluice_test_shard *shard)
{
    return (struct sluice_records){.read_at = read_at, .ctx = shard, .size = shard->len};
}

/* `num` records of i % 5 bytes and two numbers. */
static void make(struct sluice_test_shard *shard, uint32_t num)
{
    sluice_test_shard_begin(shard, num, config);
    for (uint32_t i = 0; i < num; i++) {
        sluice_test_shard_u32(shard, i % 5);
        sluice_test_shard_add(shard, "12345", i % 5);
        sluice_test_shard_add(shard, "\xFE\xFF", 2);
        sluice_test_shard_u32(shard, i);
        sluice_test_shard_u32(shard, i == 1 ? 0xFFFFFFFF : 0);
        sluice_test_shard_end_record(shard, i);
    }
}

TEST(finds_the_values_of_each_record)
{
    static struct sluice_test_shard shard;
    make(&shard, 2100); /* more than a window of offsets */
    struct sluice_records records = reader(&shard);
    struct sluice_value values[3];
    int64_t number;
    REQUIRE_OK(sluice_records_open(&records, NULL));
    CU_ASSERT_EQUAL(records.num, 2100);
    CU_ASSERT_EQUAL_FATAL(records.columns.num, 3);
    CU_ASSERT_STRING_EQUAL(records.columns.all[1].name, "b");
    CU_ASSERT_EQUAL(records.columns.all[0].kind, SLUICE_COLUMN_BYTES);
    for (uint32_t k = 0; k < 2100; k++) {
        const uint32_t i = k % 2 ? 2099 - k : k; /* also out of order */
        REQUIRE_OK(sluice_records_find(&records, i, values, NULL));
        CU_ASSERT_EQUAL(values[0].bytes, i % 5);
        CU_ASSERT_EQUAL(memcmp(shard.bytes + values[0].offset, "12345", i % 5), 0);
        CHECK_OK(
            sluice_records_integer(&records, &records.columns.all[2], &values[2], &number, NULL));
        CU_ASSERT_EQUAL(number, i == 1 ? INT64_MAX : i);
        CHECK_OK(
            sluice_records_integer(&records, &records.columns.all[1], &values[1], &number, NULL));
        CU_ASSERT_EQUAL(number, -2);
    }
    CU_ASSERT_EQUAL(
        sluice_records_integer(&records, &records.columns.all[1], &values[2], &number, NULL),
        SLUICE_E_CORRUPT);
}

TEST(kinds_are_by_the_names_of_encodings)
{
    static const struct {
        const char *encoding;
        enum sluice_column_kind kind;
    } known[] = {
        {"jpeg", SLUICE_COLUMN_IMAGE},
        {"png", SLUICE_COLUMN_IMAGE},
        {"image:webp", SLUICE_COLUMN_IMAGE},
        {"bytes", SLUICE_COLUMN_BYTES},
        {"int", SLUICE_COLUMN_INT},
        {"uint8", SLUICE_COLUMN_INT},
        {"int64", SLUICE_COLUMN_INT},
        {"jpegarray", SLUICE_COLUMN_OTHER},
        {"pil", SLUICE_COLUMN_OTHER},
        {"str_int", SLUICE_COLUMN_OTHER},
        {"ndarray:int16", SLUICE_COLUMN_OTHER},
        {"float32", SLUICE_COLUMN_OTHER},
    };
    struct sluice_columns columns = {.num = 0};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(known); i++) {
        CU_ASSERT_TRUE(sluice_columns_add(&columns, "x", known[i].encoding, 0));
        CU_ASSERT_EQUAL(columns.all[i].kind, known[i].kind);
    }
    char name[SLUICE_RECORDS_MAX_NAME + 1];
    memset(name, 'x', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    CU_ASSERT_FALSE(sluice_columns_add(&columns, name, "int", 0));
    while (columns.num < SLUICE_RECORDS_MAX_COLUMNS)
        CU_ASSERT_TRUE_FATAL(sluice_columns_add(&columns, "x", "int", 0));
    CU_ASSERT_FALSE(sluice_columns_add(&columns, "x", "int", 0));
}

static void expect_corrupt(struct sluice_test_shard *shard, uint32_t record)
{
    struct sluice_records records = reader(shard);
    struct sluice_value values[SLUICE_RECORDS_MAX_COLUMNS];
    struct sluice_err err = {0};
    sluice_status status = sluice_records_open(&records, &err);
    if (status == SLUICE_OK && records.num > record)
        status = sluice_records_find(&records, record, values, &err);
    CU_ASSERT_EQUAL(status, SLUICE_E_CORRUPT);
    CU_ASSERT_EQUAL(strncmp(err.text, "byte ", 5), 0);
}

TEST(damage_is_found_before_anything_is_read_by_it)
{
    static struct sluice_test_shard shard;
    struct sluice_value values[3];
    const size_t first = 4 + 4 * 4 + sizeof(config) - 1;
    for (size_t len = 0; len < first; len++) { /* cut within the head */
        make(&shard, 3);
        shard.len = len;
        expect_corrupt(&shard, 0);
    }
    make(&shard, 3);
    shard.len--;
    expect_corrupt(&shard, 2);
    static const struct {
        size_t at;
        uint32_t number;
    } wrong[] = {
        {0, UINT32_MAX}, /* more records than there is room for */
        {4, UINT32_MAX}, /* columns that reach out of the shard */
        {4, 0},          /* columns that end before they begin */
        {8, 3},          /* the end of the first record before its begin */
        {8, UINT32_MAX}, /* and out of the shard */
        {8, 0x0000FF00},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(wrong); i++) {
        make(&shard, 3);
        sluice_test_put_u32(shard.bytes + wrong[i].at, wrong[i].number);
        expect_corrupt(&shard, 0);
    }
    make(&shard, 3); /* a value longer, and shorter, than its record */
    sluice_test_put_u32(shard.bytes + first, UINT32_MAX);
    expect_corrupt(&shard, 0);
    make(&shard, 3);
    sluice_test_put_u32(shard.bytes + first + 14, 0);
    expect_corrupt(&shard, 1);
    struct sluice_records records = reader(&shard);
    CHECK_OK(sluice_records_open(&records, NULL));
    CHECK_OK(sluice_records_find(&records, 2, values, NULL)); /* is sound */
}

TEST(columns_that_are_none_are_no_shard)
{
    static const char *const configs[] = {
        "",
        "{}",
        "[1]",
        "{\"column_names\": [], \"column_encodings\": [], \"column_sizes\": []}",
        "{\"column_names\": [\"a\"], \"column_encodings\": [], \"column_sizes\": [1]}",
        "{\"column_names\": [1], \"column_encodings\": [\"int\"], \"column_sizes\": [1]}",
        "{\"column_names\": [\"a\"], \"column_encodings\": [\"int\"], \"column_sizes\": [-1]}",
        "{\"column_names\": [\"a\"], \"column_encodings\": [\"int\"], \"column_sizes\": [1.5]}",
        ("{\"column_names\": [\"a\"], \"column_encodings\": [\"int\"], "
         "\"column_sizes\": [4294967296]}"),
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(configs); i++) {
        static struct sluice_test_shard shard;
        sluice_test_shard_begin(&shard, 0, configs[i]);
        expect_corrupt(&shard, 0);
    }
}

TEST(rows_of_arrow_are_refused)
{
    static struct sluice_test_shard shard;
    sluice_test_shard_begin(&shard, 1, "");
    sluice_test_shard_end_record(&shard, 0);
    sluice_test_shard_add(&shard, "LDARW01", 8);
    struct sluice_records records = reader(&shard);
    CU_ASSERT_TRUE(sluice_columns_add(&records.columns, "x", "bytes", 0));
    CU_ASSERT_EQUAL(sluice_records_open(&records, NULL), SLUICE_E_UNSUPPORTED);
}
