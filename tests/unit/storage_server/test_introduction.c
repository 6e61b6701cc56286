#include "storage_server/services/introduction.h"

#include "datasets/manifest/manifest.h"
#include "storage_server/data/sample_list.h"
#include "support/capture.h"
#include "support/test.h"

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

TEST(says_what_is_served_with_what_and_to_whom)
{
    struct sluice_roots roots = sluice_roots_one("/data");
    struct sluice_introduction facts = {
        .roots = &roots,
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
        "sends raw, jpeg_crop, u8, u8_packed, f32; 1.5 cores to preprocess with (2 threads), ",
        "3 threads that read files, 12.0 GB of memory",
        "--insecure: anyone who reaches 0.0.0.0:50051 may read every sample beneath /data",
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(words); i++)
        CU_ASSERT_PTR_NOT_NULL(strstr(output.err, words[i]));
    facts.listen = "127.0.0.1:50051";
    CU_ASSERT_EQUAL(sluice_test_child(introduce, &facts, &output), 0);
    CU_ASSERT_PTR_NULL(strstr(output.err, "anyone"));
    CU_ASSERT_PTR_NULL(strstr(output.err, "kept"));
    facts.cache = "/ssd/cache";
    facts.cache_counts = (struct sluice_store_cache_counts){.bytes = 1500, .max_bytes = 3000000};
    CU_ASSERT_EQUAL(sluice_test_child(introduce, &facts, &output), 0);
    CU_ASSERT_PTR_NOT_NULL(
        strstr(output.err, "what the store sends is kept in /ssd/cache: 1.50 kB of 3.00 MB"));
    CU_ASSERT_PTR_NOT_NULL(strstr(output.err, "programs of other machines cannot connect"));
    REQUIRE_OK(sluice_roots_parse((const char *const[]){"b=s3://x", "a=/data"}, 2, &roots, NULL));
    CU_ASSERT_EQUAL(sluice_test_child(introduce, &facts, &output), 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(output.err, "a=/data b=s3://x: 2 samples"));
    CU_ASSERT_PTR_NOT_NULL(strstr(output.err, "; listed by each root's own list or walk; "));
}

TEST(says_who_may_connect)
{
    static const struct {
        bool has_tls, has_client_ca, has_tokens;
        const char *words;
    } cases[] = {
        {true, false, false,
         "anyone who reaches 0.0.0.0:1 may read every sample beneath /data, "
         "encrypted on its way"},
        {true, true, false, "0.0.0.0:1, TLS: clients need a certificate"},
        {true, false, true, "0.0.0.0:1, TLS: clients need a token"},
        {true, true, true, "0.0.0.0:1, TLS: clients need a certificate and a token"},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        const struct sluice_roots roots = sluice_roots_one("/data");
        struct sluice_introduction facts = {
            .roots = &roots,
            .listen = "0.0.0.0:1",
            .access = {cases[i].has_tls, cases[i].has_client_ca, cases[i].has_tokens},
        };
        CU_ASSERT_EQUAL(sluice_test_child(introduce, &facts, &output), 0);
        CU_ASSERT_PTR_NOT_NULL(strstr(output.err, cases[i].words));
    }
}
