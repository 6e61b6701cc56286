#include "compute_client/loader/order/shard_ends.h"

#include "support/test.h"

static void check(const struct sluice_manifest_entry *rows, size_t num_rows, const uint32_t *ids,
                  size_t num_ids, const uint32_t *wanted, size_t num_wanted)
{
    static const char *const classes[] = {""};
    struct sluice_manifest *manifest = NULL;
    REQUIRE_OK(sluice_manifest_create(rows, num_rows, classes, 1, &manifest, NULL));
    uint32_t *ends = NULL;
    size_t num = 0;
    REQUIRE_OK(sluice_shard_ends(manifest, ids, num_ids, &ends, &num, NULL));
    CU_ASSERT_EQUAL_FATAL(num, num_wanted);
    for (size_t i = 0; i < num; i++)
        CU_ASSERT_EQUAL(ends[i], wanted[i]);
    free(ends);
    sluice_manifest_destroy(manifest);
}

/* A folder within a shard is no shard, and a folder that is called like one is one. */
TEST(shards_end_where_another_begins)
{
    static const struct sluice_manifest_entry rows[] = {
        {.path = "0.jpg"},
        {.path = "a/0.jpg"},
        {.path = "a/1.jpg"},
        {.path = "ab/0.jpg"},
        {.path = "b.mds/0.jpg", .offset = 8},
        {.path = "b.mds/1.jpg", .offset = 16},
        {.path = "x.tar/cat/0.jpg", .offset = 512},
        {.path = "x.tar/dog/0.jpg", .offset = 1024},
        {.path = "y.tar/0.jpg", .offset = 512},
        {.path = "z.tar/cat/0.jpg"},
        {.path = "z.tar/dog/0.jpg"},
    };
    static const uint32_t ids[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    static const uint32_t wanted[] = {1, 3, 4, 6, 8, 9, 11};
    check(rows, SLUICE_ARRAY_LEN(rows), ids, SLUICE_ARRAY_LEN(ids), wanted,
          SLUICE_ARRAY_LEN(wanted));
    static const uint32_t some[] = {2, 4, 7, 8}, of_some[] = {1, 2, 3, 4};
    check(rows, SLUICE_ARRAY_LEN(rows), some, 4, of_some, 4);
    static const uint32_t one[] = {6, 7}, of_one[] = {2};
    check(rows, SLUICE_ARRAY_LEN(rows), one, 2, of_one, 1);
}
