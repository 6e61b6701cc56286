#include "train/engine_cache.h"

#include "base/file.h"
#include "support/test.h"

#include <unistd.h>

static struct sluice_err err;

static struct sluice_engine_cache owned(void)
{
    return (struct sluice_engine_cache){.owner = "cudnn 91400, GPU"};
}

static const struct sluice_engine engine = {
    .index = 62,
    .num_knobs = 2,
    .knobs = {{.type = 3, .value = -1}, {.type = 20, .value = 1 << 20}}};

static void check_engine(const struct sluice_engine *found)
{
    CU_ASSERT_PTR_NOT_NULL_FATAL(found);
    CU_ASSERT_EQUAL(found->index, 62);
    CU_ASSERT_EQUAL_FATAL(found->num_knobs, 2);
    CU_ASSERT(found->knobs[0].type == 3 && found->knobs[0].value == -1);
    CU_ASSERT(found->knobs[1].type == 20 && found->knobs[1].value == 1 << 20);
}

TEST(what_is_printed_is_parsed)
{
    struct sluice_engine_cache cache = owned(), again = owned();
    char *text = NULL;
    REQUIRE_OK(sluice_engine_cache_put(&cache, "bf16 forward n1", &engine, &err));
    REQUIRE_OK(sluice_engine_cache_put(&cache, "plain", &(struct sluice_engine){.index = 7}, &err));
    CU_ASSERT(cache.is_changed);
    REQUIRE_OK(sluice_engine_cache_print(&cache, &text, &err));
    CU_ASSERT_STRING_EQUAL(text,
                           "cudnn 91400, GPU\nbf16 forward n1 = 62 3:-1 20:1048576\nplain = 7\n");
    REQUIRE_OK(sluice_engine_cache_parse(&again, text, &err));
    CU_ASSERT(!again.is_changed);
    CU_ASSERT_EQUAL(again.count, 2);
    check_engine(sluice_engine_cache_find(&again, "bf16 forward n1"));
    CU_ASSERT_PTR_NULL(sluice_engine_cache_find(&again, "bf16 forward n2"));
    free(text);
    sluice_engine_cache_clear(&cache);
    sluice_engine_cache_clear(&again);
}

TEST(a_key_has_one_engine)
{
    struct sluice_engine_cache cache = owned();
    REQUIRE_OK(sluice_engine_cache_put(&cache, "k", &(struct sluice_engine){.index = 1}, &err));
    REQUIRE_OK(sluice_engine_cache_put(&cache, "k", &engine, &err));
    CU_ASSERT_EQUAL(cache.count, 1);
    check_engine(sluice_engine_cache_find(&cache, "k"));
    CHECK_FAILS(SLUICE_E_INVALID, "no key",
                sluice_engine_cache_put(&cache, "a = b", &engine, sluice_test_err()));
    sluice_engine_cache_clear(&cache);
}

TEST(engines_of_another_gpu_or_library_are_not_taken)
{
    struct sluice_engine_cache cache = owned();
    REQUIRE_OK(sluice_engine_cache_parse(&cache, "cudnn 91401, GPU\nk = 1\n", &err));
    REQUIRE_OK(sluice_engine_cache_parse(&cache, "cudnn 91400, GPU 2\nk = 1\n", &err));
    REQUIRE_OK(sluice_engine_cache_parse(&cache, "", &err));
    CU_ASSERT_EQUAL(cache.count, 0);
    sluice_engine_cache_clear(&cache);
}

TEST(a_damaged_line_is_named)
{
    static const char *const lines[] = {
        "k",
        "k = ",
        "= 1",
        "k = x",
        "k = 1 2",
        "k = 1 2:",
        "k = 1 :3",
        "k = 1 2:3x",
        "k = 1 2:3 ",
        "k = 99999999999999999999",
        "k = 1 9999999999:1",
        "k = 1 1:1 2:1 3:1 4:1 5:1 6:1 7:1 8:1 9:1 10:1 11:1 12:1 13:1 14:1 15:1 16:1 17:1"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(lines); i++) {
        struct sluice_engine_cache cache = owned();
        char text[256];
        snprintf(text, sizeof(text), "cudnn 91400, GPU\ngood = 1\n%s\n", lines[i]);
        CHECK_FAILS(SLUICE_E_CORRUPT, "line 3",
                    sluice_engine_cache_parse(&cache, text, sluice_test_err()));
        sluice_engine_cache_clear(&cache);
    }
}

TEST(a_file_is_written_and_read_and_may_be_missing)
{
    char path[] = "/tmp/sluice_engines_XXXXXX";
    const int fd = mkstemp(path);
    CU_ASSERT_FATAL(fd >= 0);
    close(fd);
    unlink(path);
    struct sluice_engine_cache cache = owned(), again = owned();
    REQUIRE_OK(sluice_engine_cache_read(&cache, path, &err));
    CU_ASSERT_EQUAL(cache.count, 0);
    REQUIRE_OK(sluice_engine_cache_put(&cache, "k", &engine, &err));
    REQUIRE_OK(sluice_engine_cache_write(&cache, path, &err));
    CU_ASSERT(!cache.is_changed);
    REQUIRE_OK(sluice_engine_cache_read(&again, path, &err));
    check_engine(sluice_engine_cache_find(&again, "k"));
    REQUIRE_OK(sluice_file_write_atomic(path, "cudnn 91400, GPU\nx\n", 19, &err));
    CHECK_FAILS(SLUICE_E_CORRUPT, path, sluice_engine_cache_read(&again, path, sluice_test_err()));
    unlink(path);
    sluice_engine_cache_clear(&cache);
    sluice_engine_cache_clear(&again);
}
