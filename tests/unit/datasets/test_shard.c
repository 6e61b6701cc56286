#include "datasets/shards/shard.h"

#include "support/test.h"

TEST(splits_at_the_first_tar_before_a_slash)
{
    static const char *const cases[][2] = {
        {"a/x-000.tar/cat/1.jpg", "a/x-000.tar"},
        {"x.tar/1.jpg", "x.tar"},
        {"x.tar/y.tar/1.jpg", "x.tar"},
        {".tar/1.jpg", ".tar"},
        {"x.tar.d/y.tar/1.tar", "x.tar.d/y.tar"},
        {"a/shard.00000.mds/17.jpg", "a/shard.00000.mds"},
        {"chunk-0-0.bin/x.tar/1.jpg", "chunk-0-0.bin"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char object[SLUICE_MAX_PATH_BYTES] = "";
        CU_ASSERT(sluice_shard_split(cases[i][0], object));
        CU_ASSERT_STRING_EQUAL(object, cases[i][1]);
    }
}

TEST(tells_paths_without_a_shard)
{
    static const char *const paths[] = {"", "a/b.jpg", "x.tar", "x.tar.gz/1.jpg", "x.TAR/1.jpg"};
    char object[SLUICE_MAX_PATH_BYTES] = "as it was";
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
        CU_ASSERT_FALSE(sluice_shard_split(paths[i], object));
    char deep[SLUICE_MAX_PATH_BYTES + 16];
    memset(deep, 'x', sizeof(deep));
    memcpy(deep + SLUICE_MAX_PATH_BYTES - 4, ".tar/1", 7);
    CU_ASSERT_FALSE(sluice_shard_split(deep, object));
    CU_ASSERT_STRING_EQUAL(object, "as it was");
}

TEST(the_unpacked_path_lacks_the_shard_alone)
{
    static const char *const cases[][2] = {
        {"train/x-000.tar/cat/1.jpg", "train/cat/1.jpg"},
        {"x.tar/1.jpg", "1.jpg"},
        {"x.tar/y.tar/1.jpg", "y.tar/1.jpg"},
        {"no/shard.jpg", "no/shard.jpg"},
    };
    char room[SLUICE_MAX_PATH_BYTES];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        CU_ASSERT_STRING_EQUAL(sluice_shard_unpacked(cases[i][0], 512, room), cases[i][1]);
        CU_ASSERT_PTR_EQUAL(sluice_shard_unpacked(cases[i][0], 0, room), cases[i][0]);
    }
}

TEST(reads_members_and_plain_files)
{
    const char *path = sluice_test_path("x.tar");
    sluice_test_write_file(path, "0123456789", 10);
    struct sluice_buf *file = NULL;
    struct stat st;
    REQUIRE_OK(
        sluice_shard_read(sluice_test_dir(), "x.tar/a.jpg", 4, 3, 5, NULL, &file, &st, NULL));
    CU_ASSERT(file->len == 3 && memcmp(file->data, "456", 3) == 0 && st.st_size == 10);
    sluice_buf_unref(file);
    REQUIRE_OK(sluice_shard_read(sluice_test_dir(), "x.tar", 0, 0, 10, NULL, &file, &st, NULL));
    CU_ASSERT_EQUAL(file->len, 10);
    sluice_buf_unref(file);
    CHECK_FAILS(SLUICE_E_NOT_FOUND, "y.tar",
                sluice_shard_read(sluice_test_dir(), "y.tar/a.jpg", 4, 3, 5, NULL, &file, &st,
                                  sluice_test_err()));
}

TEST(tars_and_mds_shards_are_known_by_their_names)
{
    static const char *const others[] = {"",           ".tar",  ".mds", "a.tar.gz",
                                         "a.mds.zstd", "a.bin", "mds"};
    CU_ASSERT_TRUE(sluice_is_shard_name("a.tar"));
    CU_ASSERT_TRUE(sluice_is_shard_name("shard.00000.mds"));
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(others); i++)
        CU_ASSERT_FALSE(sluice_is_shard_name(others[i]));
}
