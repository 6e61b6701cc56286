#include "store/open.h"

#include "support/test.h"

TEST(schemes_tell_folders_from_networks)
{
    CU_ASSERT(sluice_store_is_remote("s3://b"));
    CU_ASSERT(sluice_store_is_remote("http://h/l"));
    CU_ASSERT(sluice_store_is_remote("https://h/l"));
    CU_ASSERT(!sluice_store_is_remote("/s3://b"));
    CU_ASSERT(!sluice_store_is_remote("s3:"));
    CU_ASSERT(sluice_store_parallel_reads("s3://b") > sluice_store_parallel_reads("/b"));
}

TEST(opens_a_folder)
{
    struct sluice_store *store = NULL;
    struct sluice_store_limits limits;
    const struct sluice_store_options options = {.root = sluice_test_dir(), .max_object_bytes = 7};
    REQUIRE_OK(sluice_store_open(&options, &store, NULL));
    store->limits(store, &limits);
    CU_ASSERT(!limits.is_remote && limits.max_object_bytes == 7);
    CU_ASSERT_PTR_NOT_NULL(store->look);
    store->destroy(store);
    const struct sluice_store_options none = {.root = "/no/such/folder"};
    CU_ASSERT_EQUAL(sluice_store_open(&none, &store, NULL), SLUICE_E_NOT_FOUND);
}

TEST(remote_roots_are_opened_without_a_question)
{
    static const char *const roots[] = {"s3://bucket/a", "http://127.0.0.1:1/a/list"};
    for (size_t i = 0; i < 2; i++) {
        struct sluice_store *store = NULL;
        struct sluice_store_limits limits;
        const struct sluice_store_options options = {.root = roots[i], .max_object_bytes = 7};
        CHECK_OK(sluice_store_check(&options, NULL));
        REQUIRE_OK(sluice_store_open(&options, &store, NULL));
        store->limits(store, &limits);
        CU_ASSERT(limits.is_remote && limits.merge_gap_bytes > 0);
        CU_ASSERT_EQUAL(limits.parallel_reads, sluice_store_parallel_reads(roots[i]));
        CU_ASSERT_PTR_NULL(store->look);
        store->destroy(store);
    }
}

TEST(relative_takes_the_root_off)
{
    struct sluice_store *store = NULL;
    const struct sluice_store_options options = {.root = "s3://bucket/a/", .max_object_bytes = 7};
    REQUIRE_OK(sluice_store_open(&options, &store, NULL));
    CU_ASSERT_STRING_EQUAL(store->relative(store, "s3://bucket/a/b/c.jpg"), "b/c.jpg");
    CU_ASSERT_STRING_EQUAL(store->relative(store, "b/c.jpg"), "b/c.jpg");
    CU_ASSERT_PTR_NULL(store->relative(store, "s3://bucket/ab/c.jpg"));
    CU_ASSERT_PTR_NULL(store->relative(store, "s3://bucket/a/../c.jpg"));
    CU_ASSERT_EQUAL(store->refused(store), 2);
    store->destroy(store);
}

TEST(check_names_what_is_wrong)
{
    static const struct sluice_store_options bad[] = {
        {.root = "s3://"},
        {.root = "s3://b ucket/"},
        {.root = "s3://bucket", .s3_style = "other"},
        {.root = "s3://bucket", .s3_endpoint = "host"},
        {.root = "https://host"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct sluice_err err = {0};
        CU_ASSERT_EQUAL(sluice_store_check(&bad[i], &err), SLUICE_E_INVALID);
        CU_ASSERT(err.text[0] != '\0');
    }
}

static bool needs_file(const struct sluice_store_needs *needs, const char *path)
{
    for (size_t i = 0; i < needs->num_files; i++) {
        if (strcmp(needs->files[i], path) == 0)
            return true;
    }
    return false;
}

TEST(says_what_a_sandbox_has_to_leave)
{
    struct sluice_store_needs needs = {.num_ports = 9};
    struct sluice_store_options options = {.root = "/a/folder"};
    CHECK_OK(sluice_store_needs_of(&options, &needs, NULL));
    CU_ASSERT(needs.num_ports == 0 && !needs.has_names && needs.num_files == 0);
    options =
        (struct sluice_store_options){.root = "s3://bucket", .s3_endpoint = "http://10.0.0.1:7480"};
    CHECK_OK(sluice_store_needs_of(&options, &needs, NULL));
    CU_ASSERT(needs.num_ports == 1 && needs.ports[0] == 7480 && !needs.has_names);
    CU_ASSERT(needs_file(&needs, "/home/x/.aws/credentials"));
    CU_ASSERT(needs_file(&needs, "/etc/ssl/certs"));
    setenv("AWS_WEB_IDENTITY_TOKEN_FILE", "/run/token", 1);
    CHECK_OK(sluice_store_needs_of(&options, &needs, NULL));
    CU_ASSERT(needs.num_ports == 2 && needs.ports[1] == 443 && needs.has_names);
    CU_ASSERT(needs_file(&needs, "/run/token"));
    unsetenv("AWS_WEB_IDENTITY_TOKEN_FILE");
    options = (struct sluice_store_options){.root = "https://host/list"};
    CHECK_OK(sluice_store_needs_of(&options, &needs, NULL));
    CU_ASSERT(needs.num_ports == 1 && needs.ports[0] == 443 && needs.has_names);
    CU_ASSERT(!needs_file(&needs, "/home/x/.aws/credentials"));
}

int main(void)
{
    static const char *const names[] = {"AWS_PROFILE",         "AWS_ENDPOINT_URL",
                                        "AWS_ENDPOINT_URL_S3", "AWS_WEB_IDENTITY_TOKEN_FILE",
                                        "AWS_CONFIG_FILE",     "AWS_SHARED_CREDENTIALS_FILE",
                                        "AWS_CA_BUNDLE"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        unsetenv(names[i]);
    setenv("HOME", "/home/x", 1);
    return sluice_test_main();
}
