#include "datasets/shards/shard_set.h"

#include "support/test.h"

#include <fcntl.h>
#include <unistd.h>

static struct sluice_shard_folder folder;
static struct sluice_shard_set set;

#define SHARD(name, compression)                                                                   \
    "{\"format\": \"mds\", \"compression\": " compression ", \"raw_data\": {\"basename\": \"" name \
    "\"}, \"zip_data\": null}"

static sluice_status add_index(const char *path, const char *text, bool *is_index,
                               struct sluice_err *err)
{
    sluice_shard_set_clear(&set);
    sluice_test_put_text(sluice_test_dir(), path, text);
    const struct sluice_shard_place place = sluice_shard_place_of_folder(&folder);
    return sluice_shard_set_add_index(&set, &place, path, is_index, err);
}

TEST(adds_what_an_index_names_sorted_and_once)
{
    bool is_index;
    REQUIRE_OK(add_index("a/index.json",
                         "{\"shards\": [" SHARD("2.mds", "null") ", " SHARD(
                             "1.mds", "null") ", " SHARD("2.mds", "null") "]}",
                         &is_index, NULL));
    CU_ASSERT_TRUE(is_index);
    CU_ASSERT_EQUAL(sluice_shard_set_sort(&set), 1);
    CU_ASSERT_EQUAL_FATAL(set.num, 2);
    CU_ASSERT_STRING_EQUAL(set.files[0].path, "a/1.mds");
    CU_ASSERT_EQUAL(set.files[0].bytes, 3);
    CU_ASSERT_STRING_EQUAL(set.files[1].path, "a/2.mds");
    CU_ASSERT_PTR_NULL(set.files[1].columns);
    REQUIRE_OK(add_index("b/index.json",
                         "{\"chunks\": [{\"filename\": \"c.bin\"}], \"config\": "
                         "{\"data_format\": [\"jpeg\"]}}",
                         &is_index, NULL));
    CU_ASSERT_EQUAL_FATAL(set.num, 1);
    CU_ASSERT_EQUAL(set.files[0].columns->num, 1);
}

TEST(another_index_json_adds_nothing)
{
    bool is_index = true;
    CHECK_OK(add_index("a/index.json", "{\"shards\": 3}", &is_index, NULL));
    CU_ASSERT_FALSE(is_index);
    CU_ASSERT_EQUAL(set.num, 0);
}

TEST(what_cannot_be_read_is_named)
{
    bool is_index;
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(
        add_index("a/index.json", "{\"shards\": [" SHARD("3.mds", "null") "]}", &is_index, &err),
        SLUICE_E_NOT_FOUND);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "/a/3.mds, which a/index.json names"));
    err = (struct sluice_err){0};
    CU_ASSERT_EQUAL(add_index("a/index.json", "{\"shards\": [" SHARD("3.mds", "\"zstd\"") "]}",
                              &is_index, &err),
                    SLUICE_E_UNSUPPORTED);
    CU_ASSERT_PTR_NOT_NULL(
        strstr(err.text, "/a/3.mds is compressed (zstd): cannot be read in place"));
    /* One that lies there as it was before, too, is read. */
    CHECK_OK(add_index("a/index.json", "{\"shards\": [" SHARD("1.mds", "\"zstd\"") "]}", &is_index,
                       &err));
    CU_ASSERT_EQUAL(set.num, 1);
    err = (struct sluice_err){0};
    CU_ASSERT_EQUAL(
        add_index("a/index.json", "{\"shards\": [" SHARD("../1.mds", "null") "]}", &is_index, &err),
        SLUICE_E_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "/a/index.json: shard 0: "));
    sluice_test_put_text(sluice_test_dir(), "a/4.mds/file", "");
    CU_ASSERT_EQUAL(
        add_index("a/index.json", "{\"shards\": [" SHARD("4.mds", "null") "]}", &is_index, NULL),
        SLUICE_E_INVALID);
}

static sluice_status add_patterns(const char *patterns, struct sluice_err *err)
{
    sluice_shard_set_clear(&set);
    const struct sluice_shard_place place = sluice_shard_place_of_folder(&folder);
    return sluice_shard_set_add_patterns(&set, &place, patterns, err);
}

TEST(patterns_name_shards_and_no_others)
{
    REQUIRE_OK(add_patterns("a/{1..2}.mds::b/1.tar", NULL));
    CU_ASSERT_EQUAL_FATAL(set.num, 3);
    CU_ASSERT_STRING_EQUAL(set.files[2].path, "b/1.tar");
    static const struct {
        const char *patterns;
        sluice_status status;
        const char *says;
    } wrong[] = {
        {"a/{1..3}.mds", SLUICE_E_NOT_FOUND, "/a/3.mds, which the list names"},
        {"a/{1,1}.mds", SLUICE_E_INVALID, "comes twice"},
        {"b/c.bin", SLUICE_E_INVALID, "--shards: 'b/c.bin' is no path of a .tar or .mds"},
        {"b/1.tar/x.tar", SLUICE_E_INVALID, "is no path"},
        {"../x.tar", SLUICE_E_IO, "../x.tar"},
        {"a/{1.mds", SLUICE_E_INVALID, "a { without a }"},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(wrong); i++) {
        struct sluice_err err = {0};
        CU_ASSERT_EQUAL(add_patterns(wrong[i].patterns, &err), wrong[i].status);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, wrong[i].says));
    }
}

int main(void)
{
    folder.root = sluice_test_dir();
    folder.root_fd = open(sluice_test_dir(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    sluice_test_put_text(sluice_test_dir(), "a/1.mds", "one");
    sluice_test_put_text(sluice_test_dir(), "a/2.mds", "two!");
    sluice_test_put_text(sluice_test_dir(), "b/c.bin", "chunk");
    sluice_test_put_text(sluice_test_dir(), "b/1.tar", "tar");
    const int code = sluice_test_main();
    sluice_shard_set_clear(&set);
    close(folder.root_fd);
    return code;
}
