#include "host/cache_folder.h"

#include "support/test.h"

static const char *folder_of(const char *cache, const char *home)
{
    static char folder[SLUICE_MAX_PATH_BYTES];
    cache ? setenv("XDG_CACHE_HOME", cache, 1) : unsetenv("XDG_CACHE_HOME");
    home ? setenv("HOME", home, 1) : unsetenv("HOME");
    return sluice_cache_folder(folder) ? folder : "none";
}

TEST(the_users_cache_comes_before_the_home)
{
    CU_ASSERT_STRING_EQUAL(folder_of("/c", "/h"), "/c/sluice");
    CU_ASSERT_STRING_EQUAL(folder_of(NULL, "/h"), "/h/.cache/sluice");
}

TEST(a_relative_path_is_ignored)
{
    CU_ASSERT_STRING_EQUAL(folder_of("c", "/h"), "/h/.cache/sluice");
    CU_ASSERT_STRING_EQUAL(folder_of("", "h"), "none");
    CU_ASSERT_STRING_EQUAL(folder_of(NULL, NULL), "none");
}
