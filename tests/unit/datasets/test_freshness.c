#include "datasets/manifest/freshness.h"

#include "support/test.h"

/* Samples: with a hash and a time, with a hash alone, with a time alone. */
enum { BOTH, HASH, TIME };
static const char content[] = "what was indexed", other[] = "something else!!";
#define LEN (sizeof(content) - 1)
#define LISTED_NS 1000

static struct sluice_manifest *manifest;

static struct sluice_freshness *make(bool verify)
{
    const char *classes[] = {""};
    struct sluice_manifest_entry entries[] = {
        {.path = "both.jpg", .bytes = LEN, .mtime_ns = LISTED_NS, .has_hash = true},
        {.path = "hash.jpg", .bytes = LEN, .has_hash = true},
        {.path = "time.jpg", .bytes = LEN, .mtime_ns = LISTED_NS},
    };
    entries[BOTH].hash = entries[HASH].hash = sluice_hash128(content, LEN);
    struct sluice_freshness *freshness = NULL;
    REQUIRE_OK(sluice_manifest_create(entries, 3, classes, 1, &manifest, NULL));
    REQUIRE_OK(sluice_freshness_create(manifest, verify, &freshness, NULL));
    return freshness;
}

static void end(struct sluice_freshness *freshness)
{
    sluice_freshness_destroy(freshness);
    sluice_manifest_destroy(manifest);
}

static bool needs_content(struct sluice_freshness *freshness, size_t sample, int64_t mtime_ns)
{
    bool needs = false;
    CHECK_OK(sluice_freshness_look(freshness, sample, LEN, mtime_ns, &needs, NULL));
    return needs;
}

TEST(another_length_is_stale_and_said_in_numbers)
{
    struct sluice_freshness *freshness = make(false);
    for (size_t sample = 0; sample < 3; sample++) {
        bool needs;
        struct sluice_err err = {0};
        CU_ASSERT_EQUAL(sluice_freshness_look(freshness, sample, LEN + 1, LISTED_NS, &needs, &err),
                        SLUICE_E_STALE);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "17 bytes, but 16"));
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "offload_dataset index"));
        CU_ASSERT(strlen(err.text) < 100); /* what a reply has room for beside the path */
    }
    end(freshness);
}

TEST(another_time_costs_one_hash)
{
    struct sluice_freshness *freshness = make(false);
    CU_ASSERT_FALSE(needs_content(freshness, BOTH, LISTED_NS));
    for (int64_t time = LISTED_NS + 1; time < LISTED_NS + 3; time++) {
        CU_ASSERT(needs_content(freshness, BOTH, time));
        CHECK_OK(sluice_freshness_read(freshness, BOTH, time, content, LEN, NULL));
        CU_ASSERT_FALSE(needs_content(freshness, BOTH, time));
    }
    CU_ASSERT_FALSE(needs_content(freshness, BOTH, LISTED_NS));
    end(freshness);
}

TEST(a_time_that_is_not_listed_costs_one_hash)
{
    struct sluice_freshness *freshness = make(false);
    CU_ASSERT(needs_content(freshness, HASH, 5));
    CHECK_OK(sluice_freshness_read(freshness, HASH, 5, content, LEN, NULL));
    CU_ASSERT_FALSE(needs_content(freshness, HASH, 5));
    CU_ASSERT(needs_content(freshness, HASH, 6));
    end(freshness);
}

TEST(other_content_is_stale_each_time)
{
    struct sluice_freshness *freshness = make(false);
    for (int i = 0; i < 2; i++) {
        struct sluice_err err = {0};
        CU_ASSERT(needs_content(freshness, BOTH, 7));
        CU_ASSERT_EQUAL(sluice_freshness_read(freshness, BOTH, 7, other, LEN, &err),
                        SLUICE_E_STALE);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "content"));
        CU_ASSERT(strlen(err.text) < 100);
    }
    end(freshness);
}

TEST(without_a_hash_another_time_is_fresh)
{
    struct sluice_freshness *freshness = make(true);
    CU_ASSERT_FALSE(needs_content(freshness, TIME, 7));
    CHECK_OK(sluice_freshness_read(freshness, TIME, 7, other, LEN, NULL));
    end(freshness);
}

TEST(verify_asks_for_the_content_at_every_read)
{
    struct sluice_freshness *freshness = make(true);
    for (int i = 0; i < 2; i++) {
        CU_ASSERT(needs_content(freshness, BOTH, LISTED_NS));
        CHECK_OK(sluice_freshness_read(freshness, BOTH, LISTED_NS, content, LEN, NULL));
    }
    CU_ASSERT_EQUAL(sluice_freshness_read(freshness, BOTH, LISTED_NS, other, LEN, NULL),
                    SLUICE_E_STALE);
    end(freshness);
}
