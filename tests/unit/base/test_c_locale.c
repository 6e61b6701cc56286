#include "base/c_locale.h"

#include "support/test.h"

#include <ctype.h>
#include <pthread.h>
#include <strings.h>

TEST(numbers_have_a_point)
{
    char text[32], *end;
    snprintf(text, sizeof(text), "%.1f", 0.5);
    CU_ASSERT_STRING_EQUAL(text, "0,5"); /* or this would show nothing */
    CU_ASSERT_EQUAL(sluice_snprintf(text, sizeof(text), "%.2f|%g", 0.25, 1.5), 8);
    CU_ASSERT_STRING_EQUAL(text, "0.25|1.5");
    CU_ASSERT_EQUAL(sluice_strtod("0.75x", &end), 0.75);
    CU_ASSERT_STRING_EQUAL(end, "x");
    CU_ASSERT_EQUAL(sluice_strtod("0,75", &end), 0);
    CU_ASSERT_STRING_EQUAL(end, ",75");
    CU_ASSERT_EQUAL(sluice_strtof("2.5", NULL), 2.5f);
    char *written = NULL;
    size_t len = 0;
    FILE *file = open_memstream(&written, &len);
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    CU_ASSERT_EQUAL(sluice_fprintf(file, "%.3f", 0.125), 5);
    fclose(file);
    CU_ASSERT_STRING_EQUAL(written, "0.125");
    free(written);
    snprintf(text, sizeof(text), "%.1f", 0.5);
    CU_ASSERT_STRING_EQUAL(text, "0,5"); /* the process keeps its locale */
}

static void *read_number(void *ctx)
{
    char text[32];
    snprintf(text, sizeof(text), "%.1f", 0.5);
    *(bool *)ctx = strcmp(text, "0,5") == 0;
    return NULL;
}

TEST(other_threads_keep_their_locale)
{
    bool has_comma = false;
    pthread_t thread;
    const locale_t before = sluice_c_locale_enter();
    char text[32];
    snprintf(text, sizeof(text), "%.1f", 0.5);
    CU_ASSERT_STRING_EQUAL(text, "0.5");
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, read_number, &has_comma), 0);
    pthread_join(thread, NULL);
    sluice_c_locale_leave(before);
    CU_ASSERT_TRUE(has_comma);
    CU_ASSERT_EQUAL(SLUICE_IN_C_LOCALE(strtod("0.5", NULL)), 0.5);
    CU_ASSERT_EQUAL(strtod("0.5", NULL), 0);
}

TEST(letters_are_those_of_ascii)
{
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* which have their own */
    CU_ASSERT_NOT_EQUAL(strcasecmp("TIF", "tif"), 0);
#endif /* or this would show nothing */
    CU_ASSERT(isalnum(0xE4) && isspace(0xA0));
    CU_ASSERT_EQUAL(sluice_strcasecmp("a.TIF", "A.tif"), 0);
    CU_ASSERT(sluice_strcasecmp("a.tif", "a.tiff") < 0);
    CU_ASSERT_EQUAL(sluice_strncasecmp("TIFF", "tift", 3), 0);
    CU_ASSERT_EQUAL(sluice_to_lower('I'), 'i');
    unsigned alnum = 0, space = 0;
    for (int c = 0; c < 256; c++) {
        alnum += sluice_is_alnum((char)c);
        space += sluice_is_space((char)c);
        CU_ASSERT(c >= 'A' && c <= 'Z' ? sluice_to_lower((char)c) == (char)(c + 32)
                                       : sluice_to_lower((char)c) == (char)c);
    }
    CU_ASSERT_EQUAL(alnum, 62);
    CU_ASSERT_EQUAL(space, 6);
}

int main(void)
{
    sluice_test_comma_locale();
    return sluice_test_main();
}
