#include "compute_client/fetch/list_cache.h"
#include "compute_client/fetch/tuning.h"

#include "support/capture.h"
#include "support/test.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const classes[] = {"a", "b"};
static const char other_id[33] = "00112233445566778899aabbccddeeff";

/* Writes the list of `num` samples to where the cache has it; its id. */
static void put(size_t num, uint64_t list_hash, char id[33])
{
    char path[SLUICE_MAX_PATH_BYTES], name[32];
    struct sluice_manifest_writer *writer = NULL;
    const struct sluice_manifest_writer_options options = {
        .path = NULL, .num_entries = num, .num_classes = 2};
    struct sluice_hash128 hash = {0, 0};
    for (int pass = 0; pass < 2; pass++) { /* the first one finds the id */
        struct sluice_manifest_writer_options with_path = options;
        if (pass == 1) {
            CU_ASSERT_FATAL(sluice_list_cache_path(id, path));
            with_path.path = path;
        }
        REQUIRE_OK(sluice_manifest_writer_create(&with_path, &writer, NULL));
        for (size_t i = 0; i < num; i++) {
            snprintf(name, sizeof(name), "a/%05zu.png", i);
            const struct sluice_manifest_entry row = {.path = name, .bytes = i};
            CHECK_OK(sluice_manifest_writer_add(writer, &row, NULL));
        }
        hash = sluice_manifest_writer_id(writer);
        sluice_hash128_hex(hash, id);
        const struct sluice_hash128 source = sluice_list_cache_source(list_hash);
        const struct sluice_manifest_ending ending = {.classes = classes, .source_hash = &source};
        CHECK_OK(sluice_manifest_writer_commit(writer, &ending, NULL, NULL));
        sluice_manifest_writer_destroy(writer);
    }
}

TEST(finds_a_list_by_id_and_list_hash)
{
    char id[33];
    put(5, 77, id);
    struct sluice_manifest *manifest = sluice_list_cache_find(id, 77);
    CU_ASSERT_PTR_NOT_NULL_FATAL(manifest);
    CU_ASSERT_EQUAL(manifest->num_entries, 5);
    sluice_manifest_destroy(manifest);
    struct sluice_test_output output;
    sluice_test_capture_begin();
    CU_ASSERT_PTR_NULL(sluice_list_cache_find(id, 78)); /* other subsets, say */
    sluice_test_capture_end(&output);
    CU_ASSERT_PTR_NOT_NULL(strstr(output.err, "fetched anew"));
    CU_ASSERT_PTR_NULL(sluice_list_cache_find(id, 0));
    CU_ASSERT_PTR_NULL(sluice_list_cache_find(other_id, 77));
}

TEST(a_list_under_another_name_is_not_taken)
{
    char id[33], from[SLUICE_MAX_PATH_BYTES], to[SLUICE_MAX_PATH_BYTES];
    put(6, 77, id);
    CU_ASSERT_FATAL(sluice_list_cache_path(id, from) && sluice_list_cache_path(other_id, to));
    CU_ASSERT_EQUAL_FATAL(rename(from, to), 0);
    struct sluice_test_output output;
    sluice_test_capture_begin();
    CU_ASSERT_PTR_NULL(sluice_list_cache_find(other_id, 77));
    sluice_test_capture_end(&output);
    CU_ASSERT_PTR_NOT_NULL(strstr(output.err, "of another dataset"));
}

TEST(names_that_are_no_ids_lead_nowhere)
{
    char path[SLUICE_MAX_PATH_BYTES];
    CU_ASSERT_FALSE(sluice_list_cache_path("../../../../../../../../../etc/x", path));
    CU_ASSERT_FALSE(sluice_list_cache_path("", path));
    CU_ASSERT_PTR_NULL(sluice_list_cache_find("../../../../../../../../../etc/x", 1));
}

TEST(follows_the_environment)
{
    char path[SLUICE_MAX_PATH_BYTES], home[1024], *before = strdup(sluice_test_dir());
    snprintf(home, sizeof(home), "%s/home", sluice_test_dir());
    setenv("HOME", home, 1);
    setenv("XDG_CACHE_HOME", "relative", 1);
    CU_ASSERT(sluice_list_cache_path(other_id, path));
    CU_ASSERT_EQUAL(strncmp(path, home, strlen(home)), 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(path, "/.cache/sluice/00112233"));
    unsetenv("HOME");
    CU_ASSERT_FALSE(sluice_list_cache_path(other_id, path));
    setenv("XDG_CACHE_HOME", "/proc/nowhere", 1);
    struct sluice_test_output output;
    sluice_test_capture_begin();
    CU_ASSERT_FALSE(sluice_list_cache_path(other_id, path));
    sluice_test_capture_end(&output);
    CU_ASSERT_PTR_NOT_NULL(strstr(output.err, "not kept"));
    setenv("XDG_CACHE_HOME", before, 1);
    free(before);
}

TEST(the_last_used_are_kept)
{
    char ids[TUNING_LIST_CACHE_FILES + 3][33], path[SLUICE_MAX_PATH_BYTES];
    const size_t num = SLUICE_ARRAY_LEN(ids);
    for (size_t i = 0; i < num; i++) {
        put(100 + i, 1, ids[i]);
        CU_ASSERT(sluice_list_cache_path(ids[i], path));
        const struct timespec times[2] = {{.tv_sec = 1000 + (time_t)i},
                                          {.tv_sec = 1000 + (time_t)i}};
        CU_ASSERT_EQUAL(utimensat(AT_FDCWD, path, times, 0), 0);
    }
    sluice_manifest_destroy(sluice_list_cache_find(ids[0], 1)); /* used now */
    sluice_list_cache_trim();
    size_t left = 0;
    for (size_t i = 0; i < num; i++) {
        CU_ASSERT(sluice_list_cache_path(ids[i], path));
        left += access(path, F_OK) == 0;
    }
    CU_ASSERT(left <= TUNING_LIST_CACHE_FILES && left >= TUNING_LIST_CACHE_FILES - 2);
    CU_ASSERT(sluice_list_cache_path(ids[0], path));
    CU_ASSERT_EQUAL(access(path, F_OK), 0);
    CU_ASSERT(sluice_list_cache_path(ids[1], path));
    CU_ASSERT_EQUAL(access(path, F_OK), -1);
}

int main(void)
{
    setenv("XDG_CACHE_HOME", sluice_test_dir(), 1);
    return sluice_test_main();
}
