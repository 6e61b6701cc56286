#include "datasets/shard.h"

#include "support/test.h"

#include <string.h>

static void splits_at_the_first_tar_before_a_slash(void)
{
    static const char *const cases[][2] = {
        {"a/x-000.tar/cat/1.jpg", "a/x-000.tar"}, {"x.tar/1.jpg", "x.tar"},
        {"x.tar/y.tar/1.jpg", "x.tar"},           {".tar/1.jpg", ".tar"},
        {"x.tar.d/y.tar/1.tar", "x.tar.d/y.tar"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char object[SLUICE_MAX_PATH_BYTES] = "";
        CU_ASSERT(sluice_shard_split(cases[i][0], object));
        CU_ASSERT_STRING_EQUAL(object, cases[i][1]);
    }
}

static void tells_paths_without_a_shard(void)
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

int main(void)
{
    static const struct sluice_test tests[] = {
        SLUICE_TEST(splits_at_the_first_tar_before_a_slash),
        SLUICE_TEST(tells_paths_without_a_shard),
    };
    return sluice_test_run("shard", tests, SLUICE_TEST_COUNT(tests));
}
