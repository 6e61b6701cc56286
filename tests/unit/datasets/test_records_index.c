#include "datasets/shards/records_index.h"

#include "support/test.h"

static struct sluice_records_index parsed;
static bool is_index;

static sluice_status parse(const char *text, struct sluice_err *err)
{
    sluice_records_index_clear(&parsed);
    return sluice_records_index_parse(text, strlen(text), &parsed, &is_index, err);
}

#define MDS(basename, compression, zip)                                                            \
    "{\"version\": 2, \"shards\": [{\"format\": \"mds\", \"compression\": " compression            \
    ", \"raw_data\": {\"basename\": \"" basename "\", \"bytes\": 1}, \"zip_data\": " zip "}]}"

#define LITDATA(filename, more)                                                                    \
    "{\"chunks\": [{\"filename\": \"" filename "\"}], \"config\": {\"data_format\": [\"jpeg\", "   \
    "\"int\"]" more "}}"

TEST(names_the_shards_of_mds)
{
    REQUIRE_OK(parse(MDS("a/shard.00000.mds", "null", "null"), NULL));
    CU_ASSERT_TRUE(is_index);
    CU_ASSERT_EQUAL_FATAL(parsed.num, 1);
    CU_ASSERT_STRING_EQUAL(parsed.names[0], "a/shard.00000.mds");
    CU_ASSERT_EQUAL(parsed.columns.num, 0);
    CU_ASSERT_PTR_NULL(parsed.compression);
    REQUIRE_OK(parse(MDS("x.mds", "\"zstd:7\"", "{\"basename\": \"x.mds.zstd\"}"), NULL));
    CU_ASSERT_STRING_EQUAL(parsed.compression, "zstd:7");
    CU_ASSERT_STRING_EQUAL(parsed.compressed, "x.mds.zstd");
}

TEST(names_the_chunks_of_litdata_and_their_columns)
{
    REQUIRE_OK(parse(LITDATA("chunk-0-0.bin", ", \"compression\": null"), NULL));
    CU_ASSERT_TRUE(is_index);
    CU_ASSERT_STRING_EQUAL(parsed.names[0], "chunk-0-0.bin");
    CU_ASSERT_EQUAL_FATAL(parsed.columns.num, 2);
    CU_ASSERT_STRING_EQUAL(parsed.columns.all[1].name, "1");
    CU_ASSERT_EQUAL(parsed.columns.all[1].kind, SLUICE_COLUMN_INT);
    /* Of a dict of leaves the keys are names; of other trees numbers are. */
    REQUIRE_OK(
        parse(LITDATA("x.bin", ", \"data_spec\": \"[1, {\\\"type\\\": \\\"builtins.dict\\\", "
                               "\\\"context\\\": \\\"[\\\\\\\"image\\\\\\\", "
                               "\\\\\\\"kind\\\\\\\"]\\\", \\\"children_spec\\\": "
                               "[{\\\"children_spec\\\": []}, {\\\"children_spec\\\": []}]}]\""),
              NULL));
    CU_ASSERT_STRING_EQUAL(parsed.columns.all[1].name, "kind");
    REQUIRE_OK(parse(LITDATA("x.bin.zstd", ", \"compression\": \"zstd\""), NULL));
    CU_ASSERT_STRING_EQUAL(parsed.compressed, "x.bin.zstd");
}

TEST(other_files_are_no_index)
{
    static const char *const others[] = {
        "",
        "{",
        "[]",
        "{}",
        "{\"shards\": []}",
        "{\"shards\": [1]}",
        "{\"chunks\": []}",
        "{\"chunks\": 1, \"config\": {\"data_format\": [\"int\"]}}",
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(others); i++) {
        CHECK_OK(parse(others[i], NULL));
        CU_ASSERT_FALSE(is_index);
        CU_ASSERT_EQUAL(parsed.num, 0);
    }
}

TEST(what_is_wrong_is_said)
{
    static const char *const wrong[] = {
        MDS("../x.mds", "null", "null"),
        MDS("/x.mds", "null", "null"),
        MDS("a//x.mds", "null", "null"),
        MDS("x.tar", "null", "null"),
        MDS(".mds", "null", "null"),
        "{\"shards\": [{\"format\": \"json\", \"raw_data\": {}}]}",
        "{\"shards\": [{\"format\": \"mds\", \"raw_data\": {}}]}",
        LITDATA("x.mds", ""),
        "{\"chunks\": [], \"config\": {\"data_format\": []}}",
        "{\"chunks\": [], \"config\": {\"data_format\": [1]}}",
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(wrong); i++) {
        struct sluice_err err = {0};
        CU_ASSERT_EQUAL(parse(wrong[i], &err), SLUICE_E_INVALID);
        CU_ASSERT_NOT_EQUAL(err.text[0], '\0');
    }
    CU_ASSERT_EQUAL(parse(LITDATA("x.bin", ", \"encryption\": {}"), NULL), SLUICE_E_UNSUPPORTED);
    CU_ASSERT_EQUAL(parse(LITDATA("x.bin", ", \"item_loader\": \"ParquetLoader\""), NULL),
                    SLUICE_E_UNSUPPORTED);
}

int main(void)
{
    const int code = sluice_test_main();
    sluice_records_index_clear(&parsed);
    return code;
}
