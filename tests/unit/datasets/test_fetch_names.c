#include "datasets/tools/fetch_names.h"

#include "support/test.h"

#include <string.h>

static struct sluice_fetch_names *make(void)
{
    struct sluice_fetch_names *names = NULL;
    CU_ASSERT_EQUAL_FATAL(sluice_fetch_names_create(&names, NULL), SLUICE_OK);
    return names;
}

static void add(struct sluice_fetch_names *names, const char *name, const char *url)
{
    CU_ASSERT_EQUAL(sluice_fetch_names_add(names, name, url, NULL), SLUICE_OK);
}

static void a_name_that_one_url_asks_for_stays(void)
{
    struct sluice_fetch_names *names = make();
    char out[256];
    add(names, "1.jpg", "http://x/a/1.jpg");
    add(names, "2.jpg", "http://x/a/2.jpg");
    CU_ASSERT(sluice_fetch_names_take(names, "2.jpg", "http://x/a/2.jpg", out, sizeof(out)));
    CU_ASSERT_STRING_EQUAL(out, "2.jpg");
    sluice_fetch_names_destroy(names);
}

static void urls_that_differ_never_share_a_name_in_whatever_order(void)
{
    static const char *const urls[] = {"http://x/a/1.jpg", "http://x/b/1.jpg", "http://y/a/1.jpg",
                                       "http://x/a/1.jpg?w=1", "https://x/a/1.jpg"};
    char out[5][256], again[256];
    for (int is_reversed = 0; is_reversed < 2; is_reversed++) {
        struct sluice_fetch_names *names = make();
        for (size_t i = 0; i < 5; i++)
            add(names, "1.jpg", urls[is_reversed ? 4 - i : i]);
        for (size_t i = 0; i < 5; i++) {
            char *to = is_reversed ? again : out[i];
            CU_ASSERT(sluice_fetch_names_take(names, "1.jpg", urls[i], to, sizeof(again)));
            CU_ASSERT_EQUAL(strlen(to), strlen("1-0123456789abcdef.jpg"));
            CU_ASSERT_STRING_EQUAL(to, out[i]);
            for (size_t k = 0; k < i; k++)
                CU_ASSERT_STRING_NOT_EQUAL(to, out[k]);
        }
        sluice_fetch_names_destroy(names);
    }
}

static void a_url_that_comes_again_is_taken_once(void)
{
    struct sluice_fetch_names *names = make();
    char out[256];
    for (int i = 0; i < 3; i++)
        add(names, "1.jpg", "http://x/a/1.jpg");
    CU_ASSERT(sluice_fetch_names_take(names, "1.jpg", "http://x/a/1.jpg", out, sizeof(out)));
    CU_ASSERT_STRING_EQUAL(out, "1.jpg");
    CU_ASSERT_FALSE(sluice_fetch_names_take(names, "1.jpg", "http://x/a/1.jpg", out, sizeof(out)));
    sluice_fetch_names_destroy(names);
}

static void a_long_name_is_cut_and_gets_a_hash(void)
{
    struct sluice_fetch_names *names = make();
    char name[300], url[400] = "http://x/", out[256];
    memset(name, 'n', sizeof(name));
    strcpy(name + 280, ".jpeg");
    strcat(url, name);
    add(names, name, url);
    CU_ASSERT(sluice_fetch_names_take(names, name, url, out, sizeof(out)));
    CU_ASSERT_EQUAL(strlen(out), 200 + 17 + 5);
    CU_ASSERT_STRING_EQUAL(out + 217, ".jpeg");
    sluice_fetch_names_destroy(names);
}

static void holds_many_lines(void)
{
    struct sluice_fetch_names *names = make();
    char name[32], url[64], out[256];
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < 5000; i++) {
            snprintf(name, sizeof(name), "%d.jpg", i % 4999);
            snprintf(url, sizeof(url), "http://x/%d/%s", i, name);
            if (pass == 0) {
                add(names, name, url);
                continue;
            }
            CU_ASSERT(sluice_fetch_names_take(names, name, url, out, sizeof(out)));
            CU_ASSERT_EQUAL(strcmp(out, name) != 0, i % 4999 == 0);
        }
    }
    sluice_fetch_names_destroy(names);
}

int main(void)
{
    static const struct sluice_test tests[] = {
        SLUICE_TEST(a_name_that_one_url_asks_for_stays),
        SLUICE_TEST(urls_that_differ_never_share_a_name_in_whatever_order),
        SLUICE_TEST(a_url_that_comes_again_is_taken_once),
        SLUICE_TEST(a_long_name_is_cut_and_gets_a_hash),
        SLUICE_TEST(holds_many_lines),
    };
    return sluice_test_run("fetch_names", tests, SLUICE_TEST_COUNT(tests));
}
