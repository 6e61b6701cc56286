#include "storage_server/introduction.h"

#include "datasets/manifest.h"
#include "storage_server/sample_list.h"
#include "support/capture.h"
#include "support/test.h"

#include <string.h>

static struct sluice_test_output output;

/* In a child, whose log is captured. */
static int introduce(void *ctx)
{
    const char *const classes[] = {"cat"};
    const struct sluice_manifest_entry entries[] = {
        {.path = "train/cat/a.jpg", .bytes = 1500},
        {.path = "val/cat/a.jpg", .bytes = 500, .subset = SLUICE_SUBSET_VAL},
    };
    struct sluice_manifest *manifest = NULL;
    struct sluice_introduction facts = *(struct sluice_introduction *)ctx;
    struct sluice_sample_list *list = NULL;
    if (sluice_manifest_create(entries, 2, classes, 1, &manifest, NULL) != SLUICE_OK ||
        sluice_sample_list_create(manifest, NULL, false, &list, NULL) != SLUICE_OK)
        return 1;
    facts.list = list;
    sluice_introduce(&facts);
    sluice_sample_list_unref(list);
    return 0;
}

static void says_what_is_served_with_what_and_to_whom(void)
{
    struct sluice_introduction facts = {
        .root = "/data",
        .listen = "0.0.0.0:50051",
        .manifest = "/lists/one.tsv",
        .prep_cores = 1.5,
        .prep_workers = 2,
        .io_workers = 3,
        .memory_limit = 12000000000,
    };
    CU_ASSERT_EQUAL(sluice_test_child(introduce, &facts, &output), 0);
    const char *const words[] = {
        "/data: 2 samples (1 train, 1 val) in 1 class, 2.00 kB, dataset ",
        "; listed by /lists/one.tsv; no index of JPEGs",
        "sends raw, jpeg_crop, u8, u8_packed, f32; 1.5 cores to preprocess with (2 threads), 3 "
        "threads that read files, 12.0 GB of memory",
        "anyone who reaches 0.0.0.0:50051 may read every image beneath /data: there is no TLS and "
        "no password",
    };
    for (size_t i = 0; i < SLUICE_TEST_COUNT(words); i++)
        CU_ASSERT_PTR_NOT_NULL(strstr(output.err, words[i]));
    facts.listen = "127.0.0.1:50051";
    CU_ASSERT_EQUAL(sluice_test_child(introduce, &facts, &output), 0);
    CU_ASSERT_PTR_NULL(strstr(output.err, "anyone"));
    CU_ASSERT_PTR_NOT_NULL(strstr(output.err, "programs of other machines cannot connect"));
}

static void knows_addresses_of_this_machine_alone(void)
{
    static const char *const alone[] = {"127.0.0.1:1", "127.1.2.3:1", "localhost:1", "[::1]:1",
                                        "unix:/run/sluice"};
    static const char *const others[] = {"0.0.0.0:1", ":1", "[::]:1", "storage:1", "10.0.0.1:1"};
    for (size_t i = 0; i < SLUICE_TEST_COUNT(alone); i++)
        CU_ASSERT(sluice_is_loopback(alone[i]));
    for (size_t i = 0; i < SLUICE_TEST_COUNT(others); i++)
        CU_ASSERT_FALSE(sluice_is_loopback(others[i]));
}

int main(void)
{
    static const struct sluice_test tests[] = {
        SLUICE_TEST(says_what_is_served_with_what_and_to_whom),
        SLUICE_TEST(knows_addresses_of_this_machine_alone),
    };
    return sluice_test_run("introduction", tests, SLUICE_TEST_COUNT(tests));
}
